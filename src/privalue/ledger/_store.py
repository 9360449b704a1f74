"""Define what a ledger needs of the store that keeps it: a small interface, and its SQL."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from privalue.errors import LedgerError, UnavailableError
from privalue.ledger._chain import EntryRow

NOT_RECORDED = "this step was not recorded (ledger.show(DATASET) shows what was before it)"
_COLUMNS = "sequence, body, hash, seal"
_PAGE, _FEW = 2_000, 50  # entries, artefacts at a time: a ledger is never in memory as a whole


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


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """How a database writes what the others write differently."""

    mark: str  # a parameter
    field: str  # a field of an entry, as text, with {} for its name
    may_declare: str  # whether this connection may fill the column of seals

    def __getitem__(self, name: str) -> str:
        return self.field.format(name)

    @property
    def _rested(self) -> str:
        return f"seal <> '' AND {self['kind']} = 'snapshot'"

    @property
    def _declared(self) -> str:
        return f"seal <> '' AND {self['kind']} IN ('declare', 'move')"

    def indexes(self) -> tuple[str, ...]:
        """Return what makes the indexes, which the database itself derives from the entries."""
        made = "CREATE INDEX ledger_entries_{} ON ledger_entries ({})"
        return (
            "CREATE UNIQUE INDEX ledger_entries_hash ON ledger_entries (hash)",
            made.format("reservation", self["reservation"]),
            f"{made.format('commits', self['study'])} WHERE {self['kind']} = 'commit'",
            f"{made.format('snapshots', 'sequence')} WHERE {self._rested}",
            f"{made.format('totals', self['dataset'])} WHERE {self._declared}",
        )


def what_happened(problem: BaseException) -> str:
    """Return what a ledger met, without what it says of the record, which may be known better."""
    parts = str(problem).split("; ")
    told = [part for part in parts if part.startswith(("the ledger ", "the server of the ledger "))]
    return "; ".join(told) or type(problem).__name__


class Transaction:
    """Reads and appends; the statements are the same in every database."""

    def __init__(self, execute: Callable[..., Any], dialect: Dialect) -> None:
        self._execute = execute
        self._sql = dialect

    def rows(self, after: int = 0) -> Iterator[EntryRow]:
        """Yield every entry after one, in order."""
        where, full = f"sequence > {self._sql.mark} ORDER BY sequence LIMIT {_PAGE}", True
        while full:
            page = self._entries(where, after)
            yield from page
            full = len(page) == _PAGE
            after = page[-1][0] if full else after

    def row(self, sequence: int) -> EntryRow | None:
        """Return the entry with this number, or None."""
        return next(iter(self._entries(f"sequence = {self._sql.mark}", sequence)), None)

    def find(self, digest: str) -> EntryRow | None:
        """Return the entry with this hash, or None."""
        return next(iter(self._entries(f"hash = {self._sql.mark}", digest)), None)

    def snapshot(self, before: int) -> EntryRow | None:
        """Return the last entry before one that says it is a snapshot, and has a seal."""
        where = f"{self._sql._rested} AND sequence < {self._sql.mark}"
        return next(iter(self._entries(f"{where} ORDER BY sequence DESC LIMIT 1", before)), None)

    def moves(self, reservation: int) -> list[EntryRow]:
        """Return the entries that say they are about a reservation, in order."""
        where = f"{self._sql['reservation']} = {self._sql.mark} ORDER BY sequence"
        return self._entries(where, str(reservation))

    def commits(self, study: str) -> list[EntryRow]:
        """Return the entries that say they commit a release of a study, in order."""
        where = f"{self._sql['kind']} = 'commit' AND {self._sql['study']} = {self._sql.mark}"
        return self._entries(f"{where} ORDER BY sequence", study)

    def totals(self, dataset: str) -> list[EntryRow]:
        """Return the entries that say they set a dataset's total, in order.

        There are few. A ledger that was begun before it had an index of them is searched.
        """
        where = f"{self._sql._declared} AND {self._sql['dataset']} = {self._sql.mark}"
        return self._entries(f"{where} ORDER BY sequence", dataset)

    def may_declare(self) -> bool:
        """Return whether the database lets this connection write what only a keeper may."""
        (allowed,) = self._execute(self._sql.may_declare).fetchone()
        return bool(allowed)

    def append(self, row: EntryRow) -> None:
        """Add the next entry; only a keeper's names the column of seals."""
        width = 4 if row[3] else 3
        columns = ", ".join(_COLUMNS.split(", ")[:width])
        marks = ", ".join([self._sql.mark] * width)
        self._execute(f"INSERT INTO ledger_entries ({columns}) VALUES ({marks})", row[:width])

    def attempt(self, row: EntryRow) -> bool:
        """Add an entry that may be left out, and return whether it is there.

        If the database refuses it, because it is too large or for any other reason, what the
        transaction did before stands.
        """
        self._execute("SAVEPOINT attempt")
        try:
            self.append(row)
        except Exception:  # of any driver; a connection that is gone fails again in the next line
            self._execute("ROLLBACK TO SAVEPOINT attempt")
            return False
        self._execute("RELEASE SAVEPOINT attempt")
        return True

    def artefact(self, digest: str) -> str | None:
        """Return the text with this hash, or None."""
        found = self._execute(
            f"SELECT text FROM ledger_artefacts WHERE hash = {self._sql.mark}", (digest,)
        ).fetchone()
        return None if found is None else str(found[0])

    def artefacts(self) -> Iterator[tuple[str, str]]:
        """Yield every hash with its text."""
        after, where = "", f"WHERE hash > {self._sql.mark} ORDER BY hash LIMIT {_FEW}"
        while page := self._execute(
            f"SELECT hash, text FROM ledger_artefacts {where}", (after,)
        ).fetchall():
            for digest, text in page:
                yield digest, str(text)
            after = page[-1][0]

    def keep(self, digest: str, text: str) -> None:
        """Store an artefact, once."""
        self._execute(
            f"INSERT INTO ledger_artefacts (hash, text) VALUES ({self._sql.mark}, "
            f"{self._sql.mark}) ON CONFLICT DO NOTHING",
            (digest, text),
        )

    def _entries(self, where: str, value: int | str) -> list[EntryRow]:
        """Return the entries that fit a condition with one parameter."""
        found = self._execute(f"SELECT {_COLUMNS} FROM ledger_entries WHERE {where}", (value,))
        return list(found.fetchall())


class Store(Protocol):
    """The interface of a store that keeps one ledger.

    Every method raises LedgerError if it fails, AbsentLedgerError if there is no ledger, and
    UnavailableError if the store does not answer.
    """

    place: str  # as a person would name it, without any password
    address: str  # what tells it from every other, once it was reached; not to be shown

    def create(self, first: EntryRow) -> None:
        """Create a ledger with its first entry, complete or not at all; leave one that exists."""

    def read(self) -> AbstractContextManager[Transaction]:
        """Open a snapshot, which later writes do not change."""

    def write(self) -> AbstractContextManager[Transaction]:
        """Open a transaction as the only writer; durable at the end, undone after an error."""

    def check(self) -> None:
        """Raise LedgerError if the store itself finds that it is damaged."""

    def grants(self, role: str, keeper: str | None) -> str:
        """Return the SQL that gives a role what releasing takes, and no more.

        Args:
            role: who releases.
            keeper: who declares, if not the owner of the tables.

        Raises:
            UsageError: the store has no roles.
        """
