"""Store entries in SQLite or PostgreSQL; the database itself enforces the rules of a ledger.

The column ``body`` is hashed. The database generates the other columns from it (all but
``sequence`` and ``hash``), so that they cannot differ from it. Its rules hold for whatever SQL a
writer sends; in SQLite, whoever may write the file can also remove them, which ``verify`` finds:

- an entry follows the last one, by its number and the previous hash (primary key, trigger);
- spent = spent before + cost, and only a ``declare`` changes the total (trigger);
- the amount spent never exceeds the total (CHECK);
- amounts are integers from 0 to 2^62 - 1, so that no sum overflows (CHECK);
- a request is charged once, a charge has one release (unique indexes);
- nothing is changed or removed (triggers; in PostgreSQL also permissions).

If two writers ignore every lock and both append entry n + 1, the primary key refuses one of them.
Locks only make writers wait for each other, so that neither is refused.
"""

import os
import pwd
import re
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from privalue.core import OperatingSystemEntropy
from privalue.errors import LedgerError, UnavailableError
from privalue.ledger.addresses import is_unanswered, postgres_server
from privalue.ledger.amounts import Amount
from privalue.ledger.signals import deliver_signals

GENESIS = "0" * 64  # the previous hash of the first entry
AMOUNTS = [f"{what}_{part}" for what in ("cost", "spent", "total") for part in Amount._fields]
Execute = Callable[..., Any]  # takes a statement with ? and its parameters; returns a cursor

_SQLITE, _POSTGRES = (Path(__file__).with_name(f"{name}.sql") for name in ("sqlite", "postgresql"))


class AbsentLedgerError(LedgerError):
    """There is no ledger yet."""


class ServerEncodingError(LedgerError):
    """The server cannot store every character of a release."""

    exit_code = 3
    code = "server-encoding"


class UnknownOutcomeError(UnavailableError):
    """The connection was lost during the commit: whether the entry was recorded is unknown."""


def _lock_error(place: str, wait: float) -> UnavailableError:
    """Return the error for a lock that another writer does not release in time."""
    why = f"was locked by another process for {wait:g} s"
    return UnavailableError(f"the ledger {place} {why}; nothing was recorded; try again")


class SqliteStore:
    """A ledger in one file: durable commits, one writer at a time, a connection per transaction.

    It uses SQLite's rollback journal, which is beside the file: under another name of the file (a
    hard link, a mount of the file alone) a killed writer's journal would not be found. Hard links
    are refused.
    """

    def __init__(self, path: Path, wait: float) -> None:
        self.place = str(path)
        self._path, self._wait = path.absolute(), wait

    def create(self) -> None:
        """Create the tables in one transaction, in a new or an empty file."""
        try:
            # Only a new file is opened here: closing any descriptor of a file releases all locks
            # that this process holds on it, including those of SQLite.
            with suppress(FileExistsError):
                os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            is_new = self._path.stat().st_size == 0
        except (OSError, ValueError) as problem:
            why = getattr(problem, "strerror", None) or "no file can have that name"
            raise LedgerError(f"the ledger {self.place} cannot be created: {why}") from problem
        if is_new:
            with self.transaction(write=True) as execute:
                if not execute("SELECT 1 FROM sqlite_master").fetchone():
                    for statement in _sqlite_rules():
                        execute(statement)

    @contextmanager
    def transaction(self, *, write: bool = False) -> Iterator[Execute]:
        """Yield a function that executes statements; undone unless the block ends well."""
        if not os.path.lexists(self._path):
            raise AbsentLedgerError(f"there is no ledger {self.place}")
        if self._path.exists():
            status = self._path.stat()
            if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
                why = "is not a regular file, or has hard links"
                raise LedgerError(f"the ledger {self.place} {why}; give another file")
        # With write permission open for writing, too: SQLite may have to roll back a killed writer.
        mode = "rw" if write or os.access(self._path, os.W_OK) else "ro"
        uri = f"{self._path.as_uri()}?mode={mode}"
        try:
            with closing(
                sqlite3.connect(uri, uri=True, timeout=0, isolation_level=None)
            ) as connection:
                self._begin(connection, "BEGIN IMMEDIATE" if write else "BEGIN")
                yield connection.execute
                self._retry(connection, "COMMIT")  # waits for readers
        except (sqlite3.Error, UnicodeError) as problem:  # a damaged page may hold any bytes
            raise self._translate(problem) from problem

    def _begin(self, connection: sqlite3.Connection, begin: str) -> None:
        """Begin a transaction, with a rollback journal."""
        durable = ("PRAGMA synchronous = EXTRA", "PRAGMA fullfsync = ON")  # flushes drive caches
        self._retry(connection, *durable, begin, "SELECT 1 FROM sqlite_master")  # takes a lock
        if connection.execute("PRAGMA journal_mode").fetchone() == ("wal",):
            how = "PRAGMA journal_mode = DELETE switches it back"
            raise LedgerError(f"the ledger {self.place} was switched to a write-ahead log; {how}")

    def _retry(self, connection: sqlite3.Connection, *statements: str) -> None:
        """Execute statements as soon as no lock blocks them; no writer has priority.

        SQLite's own busy handler pauses the longer, the longer a writer has waited, which is
        unfair, and signals do not interrupt it.
        """
        until = time.monotonic() + self._wait
        while True:
            try:
                for statement in statements:
                    connection.execute(statement).fetchone()
                return
            except sqlite3.OperationalError as problem:
                if not _is_busy(problem) or time.monotonic() > until:
                    raise
            if connection.in_transaction and statements != ("COMMIT",):
                connection.execute("ROLLBACK")
            deliver_signals()
            time.sleep(0.001 + OperatingSystemEntropy().read(1)[0] / 64_000)  # 1 to 5 ms

    def author(self, execute: Execute) -> str:
        """Return the name of the system's user."""
        try:
            return pwd.getpwuid(os.geteuid()).pw_name
        except KeyError:  # a container may have no names
            return f"user {os.geteuid()}"

    def find_fault(self) -> str | None:
        """Return the first fault that SQLite's own check finds, or missing rules; None if sound."""
        with self.transaction() as execute:
            ((message, *_), *_) = execute("PRAGMA integrity_check(1)").fetchall()
            rules = {sql for (sql,) in execute("SELECT sql FROM sqlite_master").fetchall()}
        if message != "ok":
            return f"it is damaged: {' '.join(str(message).split())}; restore a copy"
        return None if rules >= {*_sqlite_rules()} else "the rules of its tables were changed"

    def _translate(self, problem: Exception) -> LedgerError | UnavailableError:
        """Translate an error into one line that says what happened and what to do."""
        if _is_busy(problem):
            return _lock_error(self.place, self._wait)
        message = " ".join(str(problem).split())
        code = sqlite3.SQLITE_CORRUPT if isinstance(problem, UnicodeError) else _code(problem)
        template = _SQLITE_ERRORS.get(code, "failed ({})")
        if "no such table" in message:
            template = "holds no ledger; give another file"
        return LedgerError(f"the ledger {self.place} {template.format(message)}")


_SQLITE_ERRORS = {
    **dict.fromkeys(
        (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR),
        "could not use its disk ({}: is it full?); make room, and try again",
    ),
    **dict.fromkeys(
        (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM),
        "cannot be opened ({}); its user must be able to write to the file and its folder",
    ),
    **dict.fromkeys(
        (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB),
        "is damaged, or is not a ledger ({}); restore a copy",
    ),
    sqlite3.SQLITE_CONSTRAINT: "refused an entry ({}); nothing was recorded",
}


def _code(problem: Exception) -> int:
    return getattr(problem, "sqlite_errorcode", 0) & 0xFF  # without the extended part


def _is_busy(problem: Exception) -> bool:
    return _code(problem) in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


def _sqlite_rules() -> list[str]:
    """Return the statements that create the tables, their indexes and triggers."""
    statements = _SQLITE.read_text("utf-8").split(";\n\n")
    return [
        re.sub("^(--.*\\n)+", "", text.strip()).strip().removesuffix(";") for text in statements
    ]


class PostgresStore:
    """A ledger in a database, for several machines; a connection per transaction.

    The tables are in the first schema of the search path. Extra: ``postgres``.
    """

    _LOCK = int.from_bytes(b"priv") << 32  # plus the table's own number
    _SLICE = 0.5  # seconds of one attempt to get the lock; signals are delivered in between

    def __init__(self, address: str, wait: float) -> None:
        self._server = postgres_server(address, what="ledger", error=LedgerError)
        self._driver, self.place, self._wait = self._server.driver, self._server.place, wait

    def create(self) -> None:
        """Create the tables in one transaction, unless they exist."""
        with self._connection() as connection, connection.transaction():
            _set_limits(connection, self._wait)
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (self._LOCK,))
            exists, schema, encoding = connection.execute(
                "SELECT to_regclass('ledger_entries') IS NOT NULL,"
                " quote_ident(current_schema()), current_setting('server_encoding')"
            ).fetchone()
            if encoding != "UTF8":
                how = "create one with ENCODING 'UTF8' TEMPLATE template0"
                why = f"the database {self.place} has the encoding {encoding}; {how}"
                raise ServerEncodingError(why)
            if not exists:
                # The triggers keep this path; the session's temporary tables come last.
                connection.execute(f"SET LOCAL search_path = {schema}, pg_temp")
                connection.execute(_POSTGRES.read_text("utf-8"))

    @contextmanager
    def transaction(self, *, write: bool = False) -> Iterator[Execute]:
        """Yield a function that executes statements; undone unless the block ends well."""
        with self._connection() as connection:
            if write:
                self._lock(connection)
            else:
                connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            _set_limits(connection, self._wait)
            yield lambda sql, values=(): connection.execute(sql.replace("?", "%s"), values)
            try:
                connection.execute("COMMIT")
            except self._driver.OperationalError as problem:
                why = "was lost; whether it recorded this entry is unknown"
                raise UnknownOutcomeError(
                    f"the connection to the ledger {self.place} {why}"
                ) from problem

    def _lock(self, connection: Any) -> None:
        """Begin a transaction with the ledger's lock: one writer at a time."""
        until = time.monotonic() + self._wait
        while True:
            connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED, READ WRITE")
            _set_limits(connection, min(self._SLICE, self._wait))
            try:
                (fsync,) = connection.execute(
                    "SELECT current_setting('fsync') FROM (SELECT pg_advisory_xact_lock("
                    f"{self._LOCK} + 'ledger_entries'::regclass::oid::bigint)) AS lock"
                ).fetchone()
                break
            except self._driver.errors.LockNotAvailable:
                if time.monotonic() > until:
                    raise
            connection.execute("ROLLBACK")
            deliver_signals()
        if fsync == "off":
            raise LedgerError(f"the server of the ledger {self.place} has fsync = off; turn it on")

    @contextmanager
    def _connection(self) -> Iterator[Any]:
        """Yield a connection; translate errors of the driver."""
        errors = self._driver.errors
        try:
            with closing(self._server.connect(autocommit=True)) as connection:
                yield connection
        except errors.UndefinedTable as problem:
            raise AbsentLedgerError(f"there is no ledger {self.place}") from problem
        except errors.LockNotAvailable as problem:
            raise _lock_error(self.place, self._wait) from problem
        except self._driver.Error as problem:
            message = self._server.mask_secrets(str(problem).partition("\n")[0])
            is_timeout = isinstance(problem, errors.IdleInTransactionSessionTimeout)
            if is_timeout or is_unanswered(problem, self._driver):
                why = f"does not answer ({message}); nothing was recorded; try again"
                raise UnavailableError(f"the server of the ledger {self.place} {why}") from problem
            why = f"refused this ({message}); nothing was recorded"
            raise LedgerError(f"the ledger {self.place} {why}") from problem

    def author(self, execute: Execute) -> str:
        """Return the name of the database's user."""
        return str(execute("SELECT session_user").fetchone()[0])

    def find_fault(self) -> str | None:
        """Return the fault that rules are missing; None if there are all."""
        rules = _POSTGRES.read_text("utf-8")
        expected = sum(map(rules.count, ("CHECK (", "CREATE TRIGGER", "UNIQUE", "PRIMARY KEY")))
        with self.transaction() as execute:
            (count,) = execute(
                "SELECT count(*) FROM (SELECT conrelid FROM pg_constraint WHERE contype = 'c'"
                " UNION ALL SELECT tgrelid FROM pg_trigger WHERE tgenabled IN ('O', 'A')"
                " UNION ALL SELECT indrelid FROM pg_index WHERE indisunique AND indisvalid)"
                " AS rules (id) WHERE id IN"
                " ('ledger_entries'::regclass, 'ledger_releases'::regclass)"
            ).fetchone()
        return None if count == expected else "the rules of its tables were changed"


Store = SqliteStore | PostgresStore


def _set_limits(connection: Any, lock: float) -> None:
    """Set time limits and durability for the open transaction.

    The server ends an idle writer, so that it does not block others.
    """
    connection.execute(
        "SELECT set_config('lock_timeout', %s, true), set_config('statement_timeout', %s, true),"
        " set_config('idle_in_transaction_session_timeout', '5s', true),"
        " CASE WHEN current_setting('synchronous_commit') IN ('off', 'local')"
        " THEN set_config('synchronous_commit', 'on', true) END",
        (f"{max(1, int(lock * 1000))}ms", f"{int(lock * 1000) + 60_000}ms"),
    )
