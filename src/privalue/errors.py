"""Define the errors of privalue: one tree, with the exit code of each.

::

    PrivalueError                    exit
    ├── UsageError (ValueError)         2   an argument is missing or unknown
    │   └── NotReleasedError
    │           (AttributeError)        2   a release lacks the requested part
    ├── StudyError (ValueError)         3   the public description is invalid
    │   └── UnknownLabelError
    │           (KeyError)              3   no state, or arm, has that label
    ├── DataError (ValueError)          3   the rows are invalid, absent or unreadable
    ├── BudgetError (ValueError)        4   a dataset's budget does not allow it
    ├── LedgerError (RuntimeError)      5   the ledger fails its check, or cannot be used
    ├── MissingComponentError
    │       (ImportError)               6   an optional part is not installed
    ├── UnavailableError
    │       (RuntimeError)              7   a database or server does not answer: try again
    ├── ChargedError (RuntimeError)   5 7   a charged release is not on record yet: finish it
    ├── PrivateValueError (TypeError)  70   something tried to serialise a private value
    └── BoundaryError (RuntimeError)   70   a reader handed over rows that the core refuses

A message is one line: what is wrong, the value, what is allowed, what to do. Every error has a
stable ``code`` for logs and programs, which distinguishes the causes of one exit code
("budget-exceeded", "not-new"). The command line writes the ``argument`` of an error, and those in
its ``hint``, as options. A ``DataError`` may quote the data: it is for the curator only.
"""

import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any


def plural(number: int, noun: str) -> str:
    """Return a number with its noun in singular or plural; the plural must be regular.

    >>> plural(1, "state"), plural(2500, "trajectory")
    ('1 state', '2,500 trajectories')
    """
    many = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else many}"


def one_line(problem: object) -> str:
    """Return the message of another error in one line of at most 200 characters."""
    return " ".join(str(getattr(problem, "strerror", None) or problem).split())[:200]


@cache
def read_texts(source: str, name: str) -> dict[str, Any]:
    """Return the texts of a TOML file beside a module.

    Args:
        source: ``__file__`` of the module.
        name: of the file.
    """
    return tomllib.loads(Path(source).with_name(name).read_text(encoding="utf-8"))


class PrivalueError(Exception):
    """The base of all errors that privalue raises on purpose.

    Attributes:
        code: a stable name of the cause; messages may change.
        argument: the argument of the call that is invalid, and its value.
        hint: what to do, with arguments of the call in braces: "{accept_useless}", "{people=M}".
        exit_code: of the command line.

    >>> error = PrivalueError("it must be above 0", argument=("half_width", 0), hint="or {force}")
    >>> print(error)
    half_width=0: it must be above 0; or force=True
    >>> print(error.with_options())
    --half-width 0: it must be above 0; or --force
    """

    exit_code = 70
    code = "internal"

    def __init__(
        self,
        message: str = "",
        *,
        code: str | None = None,
        argument: tuple[str, object] | None = None,
        hint: str = "",
    ) -> None:
        super().__init__(message)
        self.code = self.code if code is None else code
        self.argument, self.hint = argument, hint

    def __str__(self) -> str:
        return self._format(repr, lambda name, value: f"{name}={value or True}")

    def with_options(self) -> str:
        """Return the message with command-line options in place of arguments."""
        return self._format(str, lambda name, value: f"--{name.replace('_', '-')} {value}".strip())

    def _format(self, show: Callable[[object], str], assign: Callable[[str, str], str]) -> str:
        message = Exception.__str__(self)  # str of a KeyError would add quotes
        if self.argument is not None:
            name, value = self.argument
            message = f"{assign(name, show(value))}: {message}"
        parts = self.hint.replace("{", "}").split("}")
        parts[1::2] = [assign(*part.partition("=")[::2]) for part in parts[1::2]]
        return "; ".join(filter(None, (message, "".join(parts))))


class UsageError(PrivalueError, ValueError):
    """An argument is invalid: a required choice is missing, or a name is unknown."""

    exit_code = 2
    code = "usage"


class NotReleasedError(UsageError, AttributeError):
    """A release lacks the requested part, such as intervals."""

    code = "not-released"


class StudyError(PrivalueError, ValueError):
    """The public description of the study is invalid or infeasible."""

    exit_code = 3
    code = "study-invalid"


class UnknownLabelError(StudyError, KeyError):
    """No state, or no arm, has that label."""

    code = "unknown-label"


class DataError(PrivalueError, ValueError):
    """The data is invalid, absent or unreadable. The message may quote it: curator only."""

    exit_code = 3
    code = "data-invalid"


class BudgetError(PrivalueError, ValueError):
    """A dataset's budget does not allow what was requested."""

    exit_code = 4
    code = "budget-refused"


class LedgerError(PrivalueError, RuntimeError):
    """The ledger fails its check, or cannot be read or written."""

    exit_code = 5
    code = "ledger-invalid"


class MissingComponentError(PrivalueError, ImportError):
    """An optional part is not installed."""

    exit_code = 6
    code = "component-missing"


class UnavailableError(PrivalueError, RuntimeError):
    """A database or server does not answer, or is busy; try again."""

    exit_code = 7
    code = "unavailable"


class ChargedError(PrivalueError, RuntimeError):
    """The release is charged but not on record yet: finish it, do not release again.

    ``privalue.finish`` takes this error, or the outbox, and puts the release on record. Until then
    the identical request is refused. If the release was lost (code ``charged-lost``), the amount
    stays spent, and there is nothing to finish.

    Attributes:
        release: the release that was drawn; None if it was lost, or nothing was drawn.
        outbox: the file that holds it; None if there is no outbox.
        envelope: the release with its charge, as ``finish`` takes it; None if it was lost.
        why: the cause, in a few words.
        exit_code: that of the cause, e.g. 7 if a server does not answer.
    """

    exit_code = 5
    code = "already-charged"
    release: Any = None
    outbox: Any = None
    envelope: Any = None
    why: str = ""

    def __init__(self, message: str, *, exit_code: int, **details: Any) -> None:
        super().__init__(message)
        vars(self).update(details, exit_code=exit_code)


class PrivateValueError(PrivalueError, TypeError):
    """Something tried to pickle, copy or serialise a private value."""

    code = "private-value"


class BoundaryError(PrivalueError, RuntimeError):
    """A reader handed over rows that the core refuses.

    ``reason`` is "order" (rows are out of order), "duplicate" (a repeated step), "key" (a state out
    of range), "reward" (not finite), "span" (a unit of another part of the data), "twice" (a unit
    that comes again, or is in two parts), "length" or "type" (of a column), "arm" (a unit in two
    arms), "ended" (a row after the end of its trajectory), "stateless" (a weight without a state),
    "sums" (impossible for any rows) or "limits" (not the mechanism's); ``row`` is the first such
    row of the batch. A reader catches the reasons that it expects, and names the row by its ids and
    step; any other is a bug.
    """

    code = "boundary"

    def __init__(self, reason: str, row: int) -> None:
        super().__init__(
            f"a reader handed over rows that the core refuses ({reason}): a bug, please report it",
            code=f"boundary-{reason}",
        )
        self.reason, self.row = reason, row


class PrivalueWarning(UserWarning):
    """A choice is allowed but probably not intended; issued before anything is charged."""

    code = "note"

    def __init__(self, message: str = "", *, code: str | None = None) -> None:
        super().__init__(message)
        self.code = self.code if code is None else code
