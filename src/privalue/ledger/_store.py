"""Define what a ledger needs of the store that keeps it: a small interface, and its SQL."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

from privalue.errors import LedgerError, UnavailableError
from privalue.ledger._chain import EntryRow

NOT_RECORDED = "this step was not recorded (ledger.show(DATASET) tells what was before it)"


class AbsentLedgerError(LedgerError):
    """Raised where there is no ledger yet."""

    def __init__(self, place: str) -> None:
        super().__init__(f"the ledger {place} does not exist")


def locked(place: str, wait: float) -> UnavailableError:
    """Return what to raise if another writer does not finish in time."""
    return UnavailableError(
        f"the ledger {place} is locked by another process, and stayed so for {wait:g} s; "
        f"{NOT_RECORDED}; try again when that process is done"
    )


class Transaction:
    """Reads and appends; the statements are the same in every database."""

    def __init__(self, execute: Callable[..., Any], mark: str) -> None:
        self._execute = execute
        self._mark = mark  # how the driver writes a parameter

    def rows(self) -> list[EntryRow]:
        """Return every entry, in order."""
        columns = "sequence, body, hash"
        found = self._execute(f"SELECT {columns} FROM ledger_entries ORDER BY sequence")
        return list(found.fetchall())

    def row(self, sequence: int) -> EntryRow | None:
        """Return the entry with this number, or None."""
        columns, at = "sequence, body, hash", self._mark
        found = self._execute(
            f"SELECT {columns} FROM ledger_entries WHERE sequence = {at}", (sequence,)
        ).fetchone()
        return None if found is None else (int(found[0]), str(found[1]), str(found[2]))

    def append(self, row: EntryRow) -> None:
        """Add the next entry."""
        marks = ", ".join([self._mark] * 3)
        self._execute(f"INSERT INTO ledger_entries (sequence, body, hash) VALUES ({marks})", row)

    def artefact(self, digest: str) -> str | None:
        """Return the text with this hash, or None."""
        found = self._execute(
            f"SELECT text FROM ledger_artefacts WHERE hash = {self._mark}", (digest,)
        ).fetchone()
        return None if found is None else str(found[0])

    def artefacts(self) -> list[tuple[str, str]]:
        """Return every hash with its text."""
        found = self._execute("SELECT hash, text FROM ledger_artefacts").fetchall()
        return [(digest, str(text)) for digest, text in found]

    def keep(self, digest: str, text: str) -> None:
        """Store an artefact, once."""
        self._execute(
            f"INSERT INTO ledger_artefacts (hash, text) VALUES ({self._mark}, {self._mark}) "
            "ON CONFLICT DO NOTHING",
            (digest, text),
        )


class Store(Protocol):
    """The interface of a store that keeps one ledger.

    Every method raises LedgerError if it fails, AbsentLedgerError if there is no ledger, and
    UnavailableError if the store does not answer.
    """

    place: str  # as a person would name it, without any password
    address: str  # what tells it from every other, without any password; not to be shown

    def create(self, first: EntryRow) -> None:
        """Create a ledger with its first entry, complete or not at all; leave one that exists."""

    def read(self) -> AbstractContextManager[Transaction]:
        """Open a snapshot, which later writes do not change."""

    def write(self) -> AbstractContextManager[Transaction]:
        """Open a transaction as the only writer; durable at the end, undone after an error."""

    def check(self) -> None:
        """Raise LedgerError if the store itself finds that it is damaged."""
