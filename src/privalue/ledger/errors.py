"""The two ways in which a ledger says no."""

from privalue.errors import PrivalueError


class BudgetError(PrivalueError, ValueError):
    """The budget is refused: not declared, not enough of it, or already being spent on this."""

    exit_code = 4


class LedgerError(PrivalueError, RuntimeError):
    """The ledger fails its check, or cannot be read or written."""

    exit_code = 5
