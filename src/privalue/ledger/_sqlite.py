"""Keep a ledger in one SQLite file: write-ahead log, every commit forced to disk, one writer."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from privalue._files import whole_file
from privalue.errors import LedgerError, UsageError
from privalue.ledger._chain import EARLIER, GENESIS, LONGEST_ROW, EntryRow
from privalue.ledger._queue import turn
from privalue.ledger._store import NOT_RECORDED, AbsentLedgerError, Dialect, Transaction, locked

SQL = Dialect(mark="?", field="CAST(json_extract(body, '$.{}') AS TEXT)", may_declare="SELECT TRUE")
_APPEND_ONLY = "BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END"
_LAST = "(SELECT {} FROM ledger_entries ORDER BY sequence DESC LIMIT 1)"
_TABLES = (
    "CREATE TABLE ledger_entries (sequence INTEGER PRIMARY KEY, body TEXT NOT NULL,"
    " hash TEXT NOT NULL, seal TEXT NOT NULL DEFAULT '')",
    "CREATE TABLE ledger_artefacts (hash TEXT PRIMARY KEY, text TEXT NOT NULL)",
    *SQL.indexes(),
    # Against accidents; whoever can write the file can drop them, which is why there is a chain.
    *(
        f"CREATE TRIGGER {table}_{verb} BEFORE {verb} ON {table} {_APPEND_ONLY}"
        for table in ("ledger_entries", "ledger_artefacts")
        for verb in ("UPDATE", "DELETE")
    ),
    "CREATE TRIGGER ledger_entries_follow BEFORE INSERT ON ledger_entries"
    f" WHEN NEW.sequence IS NOT coalesce({_LAST.format('sequence')}, 0) + 1"
    f" OR {SQL['previous'].replace('body', 'NEW.body')}"
    f" IS NOT coalesce({_LAST.format('hash')}, '{GENESIS}')"
    # SQLite has no SHA-256: that the hash is that of the body, only those who replay can tell.
    " OR length(NEW.hash) <> 64 OR NEW.hash GLOB '*[^0-9a-f]*'"
    f" OR (NEW.seal = '' AND length(NEW.body) > {LONGEST_ROW})"
    " BEGIN SELECT RAISE(ABORT, 'this does not follow the last entry of the ledger'); END",
)


class SqliteStore:
    """A ledger in a file; a connection lasts for one operation."""

    def __init__(self, path: Path, wait: float) -> None:
        self.place = str(path)
        self._path = path.absolute()
        self.address = os.path.realpath(path)
        self._wait = wait

    def create(self, first: EntryRow) -> None:
        """Build the file under another name, then rename it, unless the name is taken.

        So the file is either complete or absent, and of two processes that create it the first one
        wins.
        """
        try:
            with (
                suppress(FileExistsError),
                whole_file(self._path, mode=0o600, replace=False) as partial,
                self._connected(partial) as connection,
            ):
                self._keep_log(connection)
                with _transaction(connection, "IMMEDIATE"):
                    for statement in _TABLES:
                        connection.execute(statement)
                    Transaction(connection.execute, SQL).append(first)
        except OSError as problem:
            raise LedgerError(
                f"the ledger {self.place} cannot be made: {problem.strerror}; give a file in a "
                "folder that can be written"
            ) from problem

    def _keep_log(self, connection: sqlite3.Connection) -> None:
        """Turn the write-ahead log on; refuse a file system that cannot have one."""
        (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()  # stays in the file
        if mode != "wal":
            raise LedgerError(
                f"the ledger {self.place} would be on a file system without shared memory (a "
                "network folder?), where SQLite keeps no write-ahead log; put it on a local disk, "
                "or use PostgreSQL"
            )

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        """Yield a snapshot."""
        with self._connected(self._path) as connection, _transaction(connection, "DEFERRED"):
            yield Transaction(connection.execute, SQL)

    @contextmanager
    def write(self) -> Iterator[Transaction]:
        """Yield a transaction that holds the write lock, taken before anything is read."""
        try:
            with (
                turn(self._path, self._wait) as wait,
                self._connected(self._path, wait) as connection,
                _transaction(connection, "IMMEDIATE"),
            ):
                yield Transaction(connection.execute, SQL)
        except TimeoutError as problem:
            raise locked(self.place, self._wait) from problem

    def grants(self, role: str, keeper: str | None) -> str:
        """Refuse: whoever can write a file can write all of it."""
        raise UsageError(
            f"the ledger {self.place} is a file, which has no roles; seal its declarations with "
            "seal=FILE, or keep it in PostgreSQL"
        )

    def check(self) -> None:
        """Raise LedgerError if SQLite's own check of pages and indexes fails."""
        with self._connected(self._path) as connection:
            ((found, *_), *_) = connection.execute("PRAGMA integrity_check(1)").fetchall()
        if found != "ok":
            said = " ".join(str(found).split())  # SQLite says it in several lines
            raise LedgerError(f"the ledger {self.place} is damaged: {said}; restore a copy")

    @contextmanager
    def _connected(self, path: Path, wait: float | None = None) -> Iterator[sqlite3.Connection]:
        """Yield a connection to an existing file, and translate the errors of SQLite."""
        if not os.path.lexists(path):
            raise AbsentLedgerError(self.place)
        if path.is_dir():  # SQLite would say that it cannot be opened, which may pass
            raise LedgerError(f"the ledger {self.place} is a folder; give a file")
        if path.exists() and not (path.is_file() or path.is_dir()):  # SQLite would wait for a pipe
            raise LedgerError(f"the ledger {self.place} is not a regular file; give another file")
        try:
            with closing(
                sqlite3.connect(
                    f"{path.as_uri()}?mode=rw",
                    uri=True,
                    timeout=self._wait if wait is None else wait,
                    isolation_level=None,
                )
            ) as connection:
                connection.execute("PRAGMA synchronous = FULL")
                connection.execute("PRAGMA fullfsync = ON")  # macOS: past the drive's cache
                yield connection
        except (sqlite3.Error, UnicodeError) as problem:  # a damaged page may be any text
            code = getattr(problem, "sqlite_errorcode", 0) & 0xFF  # without the extended part
            if code in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
                raise locked(self.place, self._wait) from problem
            explained = self._explain(problem, code)
            raise LedgerError(f"the ledger {self.place} {explained}") from problem

    def _explain(self, problem: Exception, code: int) -> str:
        """Say in one line what happened, what was recorded, and what to do."""
        if code == sqlite3.SQLITE_FULL:
            return f"has no space left on its disk; {NOT_RECORDED}; make room, try again"
        if code == sqlite3.SQLITE_IOERR:
            return (
                f"could not use its disk ({problem}: is it full?); ledger.show(DATASET) shows what "
                "was recorded"
            )
        if code in {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM}:
            return (
                f"cannot be opened for writing ({problem}); {NOT_RECORDED}; the file and its "
                "folder must be writable, for reading too"
            )
        damaged = code in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
        if damaged or "utf-8" in str(problem).lower():
            return f"is damaged, or is not a ledger ({problem}); {NOT_RECORDED}; restore a copy"
        if "no such column: seal" in str(problem):
            return f"cannot be used: {EARLIER}"
        if "no such table" in str(problem):
            return "holds no ledger; give another file"
        return f"failed ({problem}); ledger.show(DATASET) shows what was recorded"


@contextmanager
def _transaction(connection: sqlite3.Connection, kind: str) -> Iterator[None]:
    """Commit at the end of the block, and roll back after an error."""
    connection.execute(f"BEGIN {kind}")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise
