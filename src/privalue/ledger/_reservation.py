"""Set an amount aside, spend it, and store what it paid for: one release on the record."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Lock
from typing import TYPE_CHECKING, Self

from privalue._patience import uninterrupted
from privalue.errors import BudgetError, LedgerError, UnavailableError
from privalue.ledger._balance import Held
from privalue.ledger._book import Book
from privalue.ledger._chain import sha256
from privalue.ledger._evidence import fault
from privalue.ledger._heads import BehindError
from privalue.ledger._store import Transaction, what_happened

if TYPE_CHECKING:  # a ledger makes its reservations, and imports them
    from privalue.ledger._ledger import Ledger


class _GoneError(LedgerError):
    """Raised for a ledger that lacks the entries of a reservation."""


class Reservation:
    """An amount that is set aside for one release, from before the data is opened.

    As a context manager it cancels itself if the block ends before ``charge``. The record then
    holds the kind of the error as the reason, and never its message, which may quote the data.
    """

    def __init__(self, ledger: "Ledger", held: Held, found: tuple[str, ...]) -> None:
        self._ledger = ledger
        self.sequence = held.sequence
        self.dataset = held.dataset
        self.study = held.study
        self.cost = held.cost  # to the dataset's total
        self.head = held.head  # after charge(): the hash that the release states
        self.charged = self.cancelled = False
        self.notices = found
        self._turn = Lock()
        self._doubtful: tuple[int, str] | None = None  # process, and a charge that may stand
        self._unanswered = False  # the ledger did not answer: nor would it answer a cancel

    def charge(self) -> str:
        """Spend the reserved amount, and return the hash of the charge, for the release.

        To be called once statistics exist, and before noise is drawn. A charge covers one draw: a
        second call is refused, in this process or in another. Only where the answer to this very
        call was lost, so that nobody knows whether it stands, a second call finds out: it returns
        the charge that stands, or charges.
        """
        with self._turn:
            made = self._doubtful
            try:
                with self._writing() as (book, append, _):
                    head = book.reservations[self.sequence].head
                    if (os.getpid(), head) != self._doubtful:
                        append("charge", reservation=self.sequence)
                        head = book.head
                    made = os.getpid(), head
            except (LedgerError, UnavailableError) as problem:
                self._doubtful = made
                self._unanswered = isinstance(problem, UnavailableError)
                if made is None:
                    raise
                # An attempt before may have been recorded, whatever became of this one.
                raise type(problem)(
                    f"{what_happened(problem)}; whether the charge of entry {self.sequence} was "
                    "recorded is unknown: it counts, and nothing was drawn; ledger.show(DATASET) "
                    "shows it"
                ) from problem
            self.head, self.charged, self._doubtful = head, True, None
            return head

    @property
    def doubtful(self) -> bool:
        """Return whether a charge was asked for, and nobody knows whether it stands."""
        return self._doubtful is not None

    def cancel(self, reason: str) -> None:
        """Give the amount back, because nothing was computed; refused after ``charge``."""
        with self._writing() as (_, append, _):
            append("cancel", reservation=self.sequence, reason=reason)
        self.cancelled = True

    def commit(self, artefact: str) -> tuple[str, ...]:
        """Store the artefact; to store the same one again changes nothing.

        Returns:
            What a person should know: a line, if somebody else put on this charge what is no
            release of it. The record has one artefact for a charge, so that the true one cannot be
            stored; it is paid for, and may be published.
        """
        digest, request = sha256(artefact), {"dataset": self.dataset, "study": self.study}
        with _once_charged(self.sequence), self._writing() as (book, append, transaction):
            held = book.reservations[self.sequence]
            if held.artefact not in {None, digest} and fault(artefact, held, strict=True) is None:
                wrong = fault(transaction.artefact(held.artefact or ""), held, strict=True)
                if wrong is not None:
                    return (
                        f"somebody put on the charge of entry {self.sequence} something that is "
                        f"not its release ({wrong}): the record cannot take the true one, which is "
                        "paid for and may be published; the same request again would pay again; "
                        "find out who wrote it",
                    )
            if held.artefact != digest:
                append("commit", reservation=self.sequence, artefact=digest, **request)
                transaction.keep(digest, artefact)
        return ()

    @contextmanager
    def _writing(self) -> Iterator[tuple[Book, Callable[..., None], Transaction]]:
        """Write to the ledger, if this very reservation is there, and the charge that was made.

        Its number alone says too little. Where an old copy was put back meanwhile, another release
        may have that number, and a lower price; it may be charged, too. Until this one is known to
        be charged, it is known by the hash of the entry that reserved it.
        """
        with self._ledger._writing(self.dataset, self.cost, self.sequence) as written:
            book, _, transaction = written
            held, row = book.reservations.get(self.sequence), transaction.row(self.sequence)
            there = None if held is None or row is None else held.head if self.charged else row[2]
            if there != self.head:
                raise _GoneError(
                    f"the ledger {self._ledger.place} no longer has the entry {self.head}, of this "
                    "release: an old copy was put back; use the newer one, or start again, if "
                    "nothing was drawn"
                )
            yield written

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if not (self.charged or self.cancelled or self._unanswered):
            # If it cannot be cancelled, it keeps counting: the safe side. A closed terminal sends
            # its signal twice, and the second must not stop what the first one asked for.
            with suppress(BudgetError, LedgerError, UnavailableError), uninterrupted():
                self.cancel("left without computing" if kind is None else _public_name(kind))


@contextmanager
def _once_charged(sequence: int) -> Iterator[None]:
    """Add to a failure that the charge stands, and only the commit waits; or that it may not."""
    try:
        yield
    except (LedgerError, UnavailableError) as problem:
        said = f"the charge of entry {sequence} stands: commit again, and draw nothing anew"
        if isinstance(problem.__cause__, _GoneError | BehindError):
            said = f"publish what was drawn only once the ledger has the charge of entry {sequence}"
        raise type(problem)(f"{problem}; {said}") from problem


def _public_name(kind: type[BaseException]) -> str:
    """Return the name of an error as ``privalue.errors`` has it: no finer, whatever was raised."""
    public = (base for base in kind.__mro__ if base.__module__ == "privalue.errors")
    return next(public, kind).__name__
