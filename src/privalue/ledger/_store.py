"""What a ledger needs of the place that keeps it: a small interface, and its SQL."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

from privalue.errors import LedgerError, UnavailableError
from privalue.ledger._chain import EntryRow


class AbsentLedgerError(LedgerError):
    """There is no ledger in this place yet."""

    def __init__(self, place: str) -> None:
        super().__init__(f"the ledger {place} does not exist")


def locked(place: str, wait: float) -> UnavailableError:
    """What to say of a place where another writer does not finish."""
    return UnavailableError(
        f"the ledger {place} is locked by another process, and stayed so for {wait:g} s; nothing "
        "was recorded; try again when that process is done"
    )


class Transaction:
    """Reads and appends; the statements are the same wherever the tables are."""

    def __init__(self, execute: Callable[..., Any], mark: str) -> None:
        self._execute = execute
        self._mark = mark  # how the driver writes a parameter

    def rows(self) -> list[EntryRow]:
        """Every entry, in order."""
        columns = "sequence, body, hash"
        found = self._execute(f"SELECT {columns} FROM ledger_entries ORDER BY sequence")
        return list(found.fetchall())

    def append(self, row: EntryRow) -> None:
        """Adds the next entry."""
        marks = ", ".join([self._mark] * 3)
        self._execute(f"INSERT INTO ledger_entries (sequence, body, hash) VALUES ({marks})", row)

    def artefact(self, digest: str) -> str | None:
        """The text with this hash."""
        found = self._execute(
            f"SELECT text FROM ledger_artefacts WHERE hash = {self._mark}", (digest,)
        ).fetchone()
        return None if found is None else str(found[0])

    def artefacts(self) -> list[tuple[str, str]]:
        """Every hash with its text."""
        found = self._execute("SELECT hash, text FROM ledger_artefacts").fetchall()
        return [(digest, str(text)) for digest, text in found]

    def keep(self, digest: str, text: str) -> None:
        """Stores an artefact, once."""
        self._execute(
            f"INSERT INTO ledger_artefacts (hash, text) VALUES ({self._mark}, {self._mark}) "
            "ON CONFLICT DO NOTHING",
            (digest, text),
        )


class Store(Protocol):
    """One ledger's place.

    It fails with a LedgerError, with an AbsentLedgerError where there is none, and with an
    UnavailableError where it does not answer.
    """

    place: str  # as a person would name it, without any password

    def create(self, first: EntryRow) -> None:
        """Makes a ledger with its first entry, whole or not at all; leaves one that exists."""

    def read(self) -> AbstractContextManager[Transaction]:
        """One moment of the ledger, that nobody's writing changes."""

    def write(self) -> AbstractContextManager[Transaction]:
        """The only writer, from the first read on; durable when the block ends, else undone."""

    def check(self) -> None:
        """Whatever the place can say about its own soundness."""
