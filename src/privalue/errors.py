"""Define the errors of privalue: one tree, with the exit code of each.

::

    PrivalueError                    exit
    ├── UsageError (ValueError)         2   an argument is missing or unknown
    │   └── NotReleasedError
    │           (AttributeError)        2   a release does not have what was asked of it
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
    ├── ChargedError (RuntimeError)   5 7   what was paid for is kept, and not on record yet
    ├── PrivateValueError (TypeError)  70   something tried to serialise a private value
    └── BoundaryError (RuntimeError)   70   a reader handed over rows that the core refuses

A message is one line: what, which value, what is allowed, what to do. Every error has a ``code``
that stays when sentences change, for logs, and for programs that tell the causes of one exit code
apart ("budget-exceeded", "not-new"). What to do may name arguments of the call: then it is a
``Hint``, which the command line words as options. A ``DataError`` may quote the data: it is for the
curator, and never part of a release.
"""

from typing import Any


class Hint:
    """What to do about an error: a sentence with {} for every argument of the call that it names.

    A value of True is a flag, and ... a value that the reader chooses.

    >>> hint = Hint("allow it with {}, or give {}", accept_large_delta=True, trajectories=...)
    >>> print(hint)
    allow it with accept_large_delta=True, or give trajectories=...
    >>> print(hint.with_options())
    allow it with --accept-large-delta, or give --trajectories TRAJECTORIES
    """

    def __init__(self, text: str, **arguments: Any) -> None:
        self.text, self.arguments = text, arguments

    def __str__(self) -> str:
        values = {name: "..." if v is ... else repr(v) for name, v in self.arguments.items()}
        return self.text.format(*(f"{name}={value}" for name, value in values.items()))

    def with_options(self) -> str:
        """Return the sentence with options of the command line in place of arguments."""
        return self.text.format(*(_option(name, v) for name, v in self.arguments.items()))


def _option(name: str, value: Any) -> str:
    option = f"--{name.replace('_', '-')}"
    if value is True:
        return option
    return f"{option} {name.upper() if value is ... else value}"


def plural(number: int, one: str) -> str:
    """Return a number with its noun, whose plural is regular.

    >>> plural(1, "state"), plural(2500, "trajectory")
    ('1 state', '2,500 trajectories')
    """
    many = f"{one[:-1]}ies" if one.endswith("y") else f"{one}s"
    return f"{number:,} {one if number == 1 else many}"


class PrivalueError(Exception):
    """The root: catch this to catch everything that privalue raises on purpose.

    Attributes:
        code: which error it is, in a word that stays when the message changes.
        hint: what to do, if the message does not say it already.
        exit_code: of the command line.
    """

    exit_code = 70
    code = "internal"

    def __init__(
        self, message: str = "", *, code: str | None = None, hint: "Hint | str | None" = None
    ) -> None:
        super().__init__(message)
        self.hint = hint
        if code is not None:
            self.code = code

    def __str__(self) -> str:
        return self._with(self.hint)

    def with_options(self) -> str:
        """Return the message as the command line words it."""
        return self._with(self.hint.with_options() if isinstance(self.hint, Hint) else self.hint)

    def _with(self, hint: object) -> str:
        message = Exception.__str__(self)  # a KeyError would quote it
        return message if hint is None else f"{message}; {hint}"


class UsageError(PrivalueError, ValueError):
    """An argument is invalid: a required choice is missing, or a name is unknown."""

    exit_code = 2
    code = "usage"


class NotReleasedError(UsageError, AttributeError):
    """A release does not have what was asked of it, such as intervals."""

    code = "not-released"


class StudyError(PrivalueError, ValueError):
    """The public description of the study is invalid, or asks for what cannot be done."""

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
    """A database or server does not answer, or is kept busy by others; try again."""

    exit_code = 7
    code = "unavailable"


class ChargedError(PrivalueError, RuntimeError):
    """The release is paid for but not published yet: finish it, do not release again.

    Nothing is lost: ``privalue.finish`` takes this error, or the outbox, and puts the release on
    record. The identical request is refused until then.

    Attributes:
        release: what was drawn.
        outbox: the file that keeps it; None where there is none.
        paid: the charge that paid for it.
        why: what stopped it, in a few words.
        exit_code: 7 where nobody answers, 5 where the ledger's disk is full, and so on.
    """

    exit_code = 5
    code = "already-charged"

    def __init__(
        self,
        message: str,
        *,
        exit_code: int,
        release: Any = None,
        outbox: Any = None,
        paid: Any = None,
        why: str = "",
        code: str | None = None,
        hint: Hint | str | None = None,
    ) -> None:
        super().__init__(message, code=code, hint=hint)
        self.release, self.outbox, self.paid, self.why = release, outbox, paid, why
        self.exit_code = exit_code


class PrivateValueError(PrivalueError, TypeError):
    """Something tried to pickle, copy or serialise a private value."""

    code = "private-value"


class BoundaryError(PrivalueError, RuntimeError):
    """A reader handed over rows that the core refuses.

    ``reason`` is "order", "duplicate", "key", "reward", "span", "twice", "length", "type", "arm",
    "sums" or "limits", and ``row`` the first such row of the batch. A reader that expects one of
    them catches it, and says which row of the source it is; any other is a bug.
    """

    code = "boundary"

    def __init__(self, reason: str, row: int) -> None:
        super().__init__(
            f"{_REFUSED[reason]}; this is a bug of privalue: please report it",
            code=f"boundary-{reason}",
        )
        self.reason, self.row = reason, row


_REFUSED = {
    "order": "rows were handed over that are not in order",
    "duplicate": "a step was handed over twice",
    "key": "a row was handed over with a state that does not exist",
    "reward": "a row was handed over with a reward that is not a finite number",
    "span": "a unit was handed over with a part of the data that it does not belong to",
    "twice": "a unit was handed over twice, or in two parts",
    "limits": "statistics were handed over that were held to other limits",
    "sums": "sums were handed over that no rows add up to",
    "length": "columns of different lengths were handed over",
    "type": "columns of other types than agreed were handed over",
    "arm": "a unit was handed over with rows of two arms",
}


class PrivalueWarning(UserWarning):
    """Something is allowed, but probably not meant; it is issued before anything is charged."""

    code = "note"

    def __init__(self, message: str = "", *, code: str | None = None) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code
