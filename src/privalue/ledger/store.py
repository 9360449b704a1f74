"""Keep entries in SQLite or PostgreSQL; the database itself refuses what breaks the rules.

Everything that is hashed is in ``body``. The database derives the other columns from it, so that
they cannot say anything else. Its rules hold for whoever writes, whatever SQL they send:

- an entry follows the last one: its number, and the hash that it names (primary key, trigger);
- spent = spent before + cost, and the total changes in a ``declare`` alone (trigger);
- never more is spent than the total (CHECK);
- amounts are integers from 0 to 2^62 - 1, so that no sum overflows (CHECK);
- a request is charged once, a charge has one release (unique indexes);
- nothing is changed or removed (triggers; in PostgreSQL also by rights).

Of two writers that ignore every lock and both append number n + 1, the primary key lets one in.
Locks are for politeness alone: they let writers wait for each other, where one would be refused.
"""

import os
import random
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from privalue.errors import LedgerError, UnavailableError
from privalue.ledger.addresses import is_unanswered, postgres_server
from privalue.ledger.amounts import LARGEST
from privalue.ledger.signals import let_through

GENESIS = "0" * 64  # what the first entry names as the one before it
LONGEST_BODY = 10_000  # characters
Execute = Callable[..., Any]  # takes a statement with ? for parameters, and these; returns a cursor
_EARLIER = (
    "was made by an unpublished version of privalue, and is not read; keep it as a record, and "
    "declare what is left of its totals in a new ledger"
)
_PARTS = ("epsilon", "delta", "mu2")
_COST, _SPENT, _TOTAL = (
    [f"{what}_{part}" for part in _PARTS] for what in ("cost", "spent", "total")
)
_COLUMNS = {  # that are derived from the body: type, and what else
    **dict.fromkeys(("previous", "kind", "dataset", "author"), ("TEXT", "NOT NULL")),
    **dict.fromkeys(("request", "release"), ("TEXT", "")),
    "charge": ("BIGINT", ""),
    **dict.fromkeys(("releases", *_COST, *_SPENT, *_TOTAL), ("BIGINT", "NOT NULL")),
}
_RANGES = " AND ".join(
    f"{name} BETWEEN 0 AND {LARGEST}" for name in ("releases", *_COST, *_SPENT, *_TOTAL)
)
_TABLES = (
    "CREATE TABLE ledger_entries (sequence {key} PRIMARY KEY, body TEXT NOT NULL,"
    " hash TEXT NOT NULL UNIQUE, {columns},"
    " CHECK (kind IN ('declare', 'charge', 'commit')),"
    f" CHECK (length(body) <= {LONGEST_BODY}), CHECK (length(hash) = 64),"
    f" CHECK ({_RANGES}), CHECK ({{integers}}),"
    " CHECK ((kind = 'charge') = (cost_epsilon + cost_mu2 > 0)),"
    " CHECK (kind = 'charge' OR cost_delta = 0),"
    " CHECK ((kind = 'charge') = (request IS NOT NULL)),"
    " CHECK ((kind = 'commit') = (charge IS NOT NULL)),"
    " CHECK ((kind = 'commit') = (release IS NOT NULL)),"
    " CHECK ((total_epsilon > 0) <> (total_mu2 > 0)),"
    " CHECK (total_mu2 = 0 OR total_delta = 0),"
    " CHECK (spent_epsilon <= total_epsilon AND spent_delta <= total_delta"
    " AND spent_mu2 <= total_mu2))",
    "CREATE TABLE ledger_releases (hash TEXT PRIMARY KEY, text TEXT NOT NULL{hashed})",
    "CREATE UNIQUE INDEX ledger_requests ON ledger_entries (dataset, request)"
    " WHERE kind = 'charge'",
    "CREATE UNIQUE INDEX ledger_commits ON ledger_entries (charge) WHERE kind = 'commit'",
    "CREATE INDEX ledger_datasets ON ledger_entries (dataset, sequence)",
    "CREATE INDEX ledger_totals ON ledger_entries (dataset, sequence) WHERE kind = 'declare'",
)
# The rule for a new entry, the same in both databases; it must be true. ``m`` is the last entry of
# the dataset, and no column that is compared is ever null.
_FOLLOWS = f"""
NEW.previous = coalesce(
    (SELECT hash FROM {{schema}}ledger_entries WHERE sequence = NEW.sequence - 1),
    CASE WHEN NEW.sequence = 1 THEN '{GENESIS}' END)
AND coalesce(
    (SELECT {" AND ".join(f"NEW.{s} = m.{s} + NEW.{c}" for s, c in zip(_SPENT, _COST, strict=True))}
        AND NEW.releases = m.releases + CASE WHEN NEW.kind = 'charge' THEN 1 ELSE 0 END
        AND (NEW.total_mu2 > 0) = (m.total_mu2 > 0)
        AND (NEW.kind = 'declare' OR {" AND ".join(f"NEW.{t} = m.{t}" for t in _TOTAL)})
     FROM (SELECT * FROM {{schema}}ledger_entries
           WHERE dataset = NEW.dataset AND sequence < NEW.sequence
           ORDER BY sequence DESC LIMIT 1) AS m),
    NEW.kind = 'declare' AND NEW.releases = 0 AND {" AND ".join(f"NEW.{s} = 0" for s in _SPENT)})
AND (NEW.kind <> 'commit' OR EXISTS (
    SELECT 1 FROM {{schema}}ledger_entries AS c, {{schema}}ledger_releases AS r
    WHERE c.sequence = NEW.charge AND c.kind = 'charge' AND c.dataset = NEW.dataset
    AND r.hash = NEW.release))
"""


class AbsentLedgerError(LedgerError):
    """There is no ledger yet."""


class EncodingError(LedgerError):
    """The server cannot store every character of a release."""

    exit_code = 3
    code = "server-encoding"


class Store(Protocol):
    """Keeps one ledger."""

    place: str  # as messages name it, without user and password

    def create(self) -> None:
        """Make the tables, all or none, unless they exist."""

    def transaction(self, *, write: bool = False) -> Any:
        """Open a context that yields an ``Execute``; undone unless the block ends well."""

    def author(self, execute: Execute) -> str:
        """Return who writes: the database's user, or the system's."""

    def fault(self) -> str | None:
        """Return what the database itself finds wrong: damage, or rules that are gone."""


class SqliteStore:
    """A ledger in one file: every commit on the disk, one writer; a connection per transaction.

    It keeps SQLite's rollback journal, whose locks are on the file itself. Those of a write-ahead
    log are on a file beside each name, so that one file under two names would have two writers.
    """

    def __init__(self, path: Path, wait: float) -> None:
        self.place = str(path)
        self._path, self._wait = path.absolute(), wait

    def create(self) -> None:
        """Make the tables in one transaction, in a new or an empty file."""
        try:
            os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            pass
        except (OSError, ValueError) as problem:
            why = getattr(problem, "strerror", None) or "no file can have that name"
            raise LedgerError(
                f"the ledger {self.place} cannot be made: {why}; give a file in a folder that can "
                "be written"
            ) from problem
        with suppress(OSError):
            if self._path.stat().st_size:
                return
        with self.transaction(write=True) as execute:
            if not execute("SELECT 1 FROM sqlite_master").fetchone():
                for statement in _sqlite_rules():
                    execute(statement)

    @contextmanager
    def transaction(self, *, write: bool = False) -> Iterator[Execute]:
        """Yield a function that executes statements; undone unless the block ends well."""
        self._require_file()
        try:
            # Who may write also reads so, to undo what a killed writer left half done.
            mode = "rw" if write or os.access(self._path, os.W_OK) else "ro"
            address = f"{self._path.as_uri()}?mode={mode}"
            with closing(
                sqlite3.connect(address, uri=True, timeout=0, isolation_level=None)
            ) as connection:
                self._begin(connection, write)
                yield connection.execute
                connection.execute("COMMIT")
        except (sqlite3.Error, UnicodeError) as problem:  # a damaged page may be any text
            raise self._explained(problem) from problem

    def _begin(self, connection: sqlite3.Connection, write: bool) -> None:
        """Begin a transaction; all who wait have the same chance.

        SQLite's own pauses grow with the wait, so that whoever waits longest comes last.
        """
        until = time.monotonic() + self._wait
        while True:
            try:
                connection.execute("PRAGMA synchronous = EXTRA")
                connection.execute("PRAGMA fullfsync = ON")  # macOS: past the drive's cache
                connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
                (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
                connection.execute("SELECT 1 FROM sqlite_master").fetchone()  # takes the lock
                break
            except sqlite3.OperationalError as problem:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                if not _is_busy(problem) or time.monotonic() > until:
                    raise
            let_through()
            time.sleep(random.uniform(0.001, 0.005))
        if mode == "wal":
            raise LedgerError(
                f"the ledger {self.place} was switched to a write-ahead log, whose locks do not "
                "protect a file under two names; `PRAGMA journal_mode = DELETE` switches it back"
            )
        connection.execute("PRAGMA busy_timeout = 5000")  # readers are brief

    def author(self, execute: Execute) -> str:
        """Return the name of the system's user."""
        try:
            from pwd import getpwuid  # noqa: PLC0415 - not everywhere

            return getpwuid(os.geteuid()).pw_name
        except (ImportError, KeyError):  # a container may have no names
            return f"user {getattr(os, 'geteuid', lambda: 0)()}"

    def fault(self) -> str | None:
        """Return what SQLite's own check finds, or which rule is gone."""
        with self.transaction() as execute:
            ((message, *_), *_) = execute("PRAGMA integrity_check(1)").fetchall()
            kept = {sql for (sql,) in execute("SELECT sql FROM sqlite_master").fetchall()}
        if message != "ok":
            return f"it is damaged: {' '.join(str(message).split())}; restore a copy"
        if not kept >= set(_sqlite_rules()):
            return "the rules of its tables were changed"
        return None

    def _require_file(self) -> None:
        """Refuse what SQLite would wait for, or open as something else."""
        try:
            mode = self._path.stat().st_mode
        except FileNotFoundError:
            raise AbsentLedgerError(f"there is no ledger {self.place}") from None
        except (OSError, ValueError) as problem:
            why = getattr(problem, "strerror", None) or "no file can have that name"
            raise LedgerError(f"the ledger {self.place} cannot be opened: {why}") from None
        if not stat.S_ISREG(mode):
            raise LedgerError(f"the ledger {self.place} is not a regular file; give another file")

    def _explained(self, problem: Exception) -> LedgerError | UnavailableError:
        """Return the error in one line: what happened, and what to do."""
        code = getattr(problem, "sqlite_errorcode", 0) & 0xFF  # without the extended part
        message = " ".join(str(problem).split())
        if isinstance(problem, sqlite3.OperationalError) and _is_busy(problem):
            return _locked(self.place, self._wait)
        if code in {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR}:
            said = f"could not use its disk ({message}: is it full?); make room, and try again"
        elif code in {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM}:
            said = f"cannot be opened ({message}); whoever releases must be able to write the file"
        elif code == sqlite3.SQLITE_CONSTRAINT:
            said = f"refused an entry ({message}); nothing was recorded"
        elif "no such table" in message:
            said = "holds no ledger; give another file"
        elif "no such column" in message:
            said = _EARLIER
        elif isinstance(problem, UnicodeError) or code in {
            sqlite3.SQLITE_CORRUPT,
            sqlite3.SQLITE_NOTADB,
        }:
            said = f"is damaged, or is not a ledger ({message}); restore a copy"
        else:
            said = f"failed ({message})"
        return LedgerError(f"the ledger {self.place} {said}")


def _sqlite_rules() -> list[str]:
    """Return the statements that make the tables, their indexes and triggers."""
    columns = ", ".join(
        f"{name} {kind} GENERATED ALWAYS AS (json_extract(body, '$.{name}')) STORED {more}"
        for name, (kind, more) in _COLUMNS.items()
    )
    # SQLite keeps a fraction or a larger number as a REAL, which swallows small costs.
    integers = " AND ".join(
        f"typeof({name}) = 'integer'" for name in ("releases", *_COST, *_SPENT, *_TOTAL)
    )
    parts = {"key": "INTEGER", "columns": columns, "integers": integers, "hashed": ""}
    refused = "BEGIN SELECT RAISE(ABORT, '{}'); END"
    return [
        *(statement.format(**parts) for statement in _TABLES),
        *(
            f"CREATE TRIGGER {table}_{verb} BEFORE {verb} ON {table}"
            f" {refused.format('the ledger is append-only')}"
            for table in ("ledger_entries", "ledger_releases")
            for verb in ("UPDATE", "DELETE")
        ),
        # INSERT OR REPLACE removes what is in its way, and no trigger for DELETE sees that.
        "CREATE TRIGGER ledger_replaces BEFORE INSERT ON ledger_entries WHEN"
        " NEW.sequence IS NOT coalesce((SELECT max(sequence) FROM ledger_entries), 0) + 1"
        " OR EXISTS (SELECT 1 FROM ledger_entries WHERE hash = NEW.hash)"
        " OR EXISTS (SELECT 1 FROM ledger_entries WHERE kind = 'charge'"
        " AND dataset = json_extract(NEW.body, '$.dataset')"
        " AND request = json_extract(NEW.body, '$.request'))"
        " OR EXISTS (SELECT 1 FROM ledger_entries WHERE kind = 'commit'"
        " AND charge = json_extract(NEW.body, '$.charge'))"
        f" {refused.format('this does not follow the last entry')}",
        "CREATE TRIGGER ledger_releases_replaces BEFORE INSERT ON ledger_releases"
        " WHEN EXISTS (SELECT 1 FROM ledger_releases WHERE hash = NEW.hash)"
        f" {refused.format('the ledger is append-only')}",
        "CREATE TRIGGER ledger_follows AFTER INSERT ON ledger_entries"
        f" WHEN ({_FOLLOWS.format(schema='')}) IS NOT TRUE"
        f" {refused.format('this does not follow from the last entries')}",
    ]


def _is_busy(problem: sqlite3.Error) -> bool:
    """Return whether somebody else has the lock."""
    code = getattr(problem, "sqlite_errorcode", 0) & 0xFF
    return code in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


def _locked(place: str, wait: float) -> UnavailableError:
    """Return what to raise if another writer does not finish in time."""
    return UnavailableError(
        f"the ledger {place} is locked by another process, and stayed so for {wait:g} s; nothing "
        "was recorded; try again"
    )


class PostgresStore:
    """A ledger in a database, for several machines; a connection per transaction.

    The tables are in the first schema of the search path. Extra: ``postgres``.
    """

    _LOCK = int.from_bytes(b"priv") << 32  # and the table's own number
    _SLICE = 0.5  # seconds that one attempt to get the lock lasts: interrupts come in between

    def __init__(self, address: str, wait: float) -> None:
        self._server = postgres_server(address, what="ledger", error=LedgerError)
        self._driver, self.place, self._wait = self._server.driver, self._server.place, wait

    def create(self) -> None:
        """Make the tables in one transaction, unless they exist."""
        with self._connected() as connection, connection.transaction():
            self._limit(connection)
            connection.execute("SELECT pg_advisory_xact_lock(hashtext('privalue ledger'))")
            exists, schema, encoding = connection.execute(
                "SELECT to_regclass('ledger_entries') IS NOT NULL,"
                " quote_ident(current_schema()), current_setting('server_encoding')"
            ).fetchone()
            if encoding != "UTF8":
                raise EncodingError(
                    f"the database {self.place} has the encoding {encoding}, and a release may "
                    "hold any character; make one with ENCODING 'UTF8' TEMPLATE template0"
                )
            if not exists:
                for statement in _postgres_rules(f"{schema}."):
                    connection.execute(statement)

    @contextmanager
    def transaction(self, *, write: bool = False) -> Iterator[Execute]:
        """Yield a function that executes statements; undone unless the block ends well."""
        with self._connected() as connection:
            connection.execute("BEGIN")
            if write:
                self._lock(connection)
            else:
                connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
                self._limit(connection)
            yield lambda sql, values=(): connection.execute(sql.replace("?", "%s"), values)
            try:
                connection.execute("COMMIT")
            except self._driver.OperationalError as problem:
                raise UnavailableError(
                    f"the server of the ledger {self.place} was lost while it recorded; whether it "
                    "did is unknown: privalue ledger show tells"
                ) from problem

    def _lock(self, connection: Any) -> None:
        """Take the ledger's lock in the open transaction: one writer after the other."""
        until = time.monotonic() + self._wait
        while True:
            try:
                self._limit(connection, min(self._SLICE, self._wait))
                (fsync,) = connection.execute(
                    "SELECT current_setting('fsync') FROM (SELECT pg_advisory_xact_lock("
                    f"{self._LOCK} + 'ledger_entries'::regclass::oid::bigint)) AS lock"
                ).fetchone()
                break
            except self._driver.errors.LockNotAvailable:
                if time.monotonic() > until:
                    raise
                connection.execute("ROLLBACK")
            let_through()
            connection.execute("BEGIN")
        if fsync == "off":
            raise LedgerError(
                f"the ledger {self.place} is on a server with fsync = off, which may lose what it "
                "recorded; switch it on"
            )
        self._limit(connection, self._wait)

    def _limit(self, connection: Any, lock: float = 30.0) -> None:
        """Set time limits and durability for the open transaction.

        A writer that stands still is ended by the server, so that it does not keep others out.
        """
        connection.execute(
            "SELECT set_config('lock_timeout', %s, true), set_config('statement_timeout', %s, true),"
            " set_config('idle_in_transaction_session_timeout', '10s', true),"
            " CASE WHEN current_setting('synchronous_commit') IN ('off', 'local')"
            " THEN set_config('synchronous_commit', 'on', true) END",
            (f"{max(1, int(lock * 1000))}ms", f"{int(lock * 1000) + 60_000}ms"),
        )

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        """Yield a connection, and translate the errors of the driver."""
        errors = self._driver.errors
        try:
            with closing(self._server.connect(autocommit=True)) as connection:
                yield connection
        except errors.UndefinedTable as problem:
            raise AbsentLedgerError(f"there is no ledger {self.place}") from problem
        except errors.UndefinedColumn as problem:
            raise LedgerError(f"the ledger {self.place} {_EARLIER}") from problem
        except errors.LockNotAvailable as problem:
            raise _locked(self.place, self._wait) from problem
        except self._driver.Error as problem:
            message = self._server.masked(str(problem).partition("\n")[0])
            ended = isinstance(problem, errors.IdleInTransactionSessionTimeout)
            if ended or is_unanswered(problem, self._driver):
                raise UnavailableError(
                    f"the server of the ledger {self.place} does not answer ({message}); nothing "
                    "was recorded; try again"
                ) from problem
            raise LedgerError(
                f"the ledger {self.place} refused this ({message}); nothing was recorded"
            ) from problem

    def author(self, execute: Execute) -> str:
        """Return the name of the database's user."""
        return str(execute("SELECT session_user").fetchone()[0])

    def fault(self) -> str | None:
        """Return whether a rule is gone."""
        rules = " ".join(_postgres_rules(""))
        with self.transaction() as execute:
            counts = execute(
                "SELECT (SELECT count(*) FROM pg_constraint WHERE contype = 'c' AND conrelid"
                " IN ('ledger_entries'::regclass, 'ledger_releases'::regclass)),"
                " (SELECT count(*) FROM pg_trigger WHERE tgenabled IN ('O', 'A') AND tgrelid"
                " IN ('ledger_entries'::regclass, 'ledger_releases'::regclass)),"
                " (SELECT count(*) FROM pg_index WHERE indisunique AND indisvalid AND indrelid"
                " IN ('ledger_entries'::regclass, 'ledger_releases'::regclass))"
            ).fetchone()
        made = [rules.count(each) for each in ("CHECK (", "CREATE TRIGGER", "UNIQUE")]
        made[2] += rules.count("PRIMARY KEY")
        return None if [*counts] == made else "the rules of its tables were changed"


def _postgres_rules(schema: str) -> list[str]:
    """Return the statements that make the tables, their indexes and triggers."""
    columns = ", ".join(
        f"{name} {kind} {more} GENERATED ALWAYS AS ((body::jsonb ->> '{name}')::{kind}) STORED"
        for name, (kind, more) in _COLUMNS.items()
    )
    sha256 = "encode(sha256(convert_to({}, 'UTF8')), 'hex')"
    parts = {
        **{
            "key": "BIGINT",
            "columns": columns,
            "integers": "sequence > 0",
        },  # a cast refuses the rest
        "hashed": f", CHECK (hash = {sha256.format('text')})",
    }
    # Names are the server's own: whoever inserts may have others in the search path.
    function = (
        "CREATE FUNCTION {} RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp"
        " AS $$ BEGIN {} END $$"
    )
    rule = (
        f"NEW.hash = {sha256.format('NEW.body')} AND NEW.author = session_user"
        f" AND {_FOLLOWS.format(schema=schema)}"
    )
    return [
        *(statement.format(**parts) for statement in _TABLES),
        function.format(
            "ledger_follows()",
            f"IF ({rule}) IS NOT TRUE THEN RAISE EXCEPTION"
            " 'this does not follow from the last entries'; END IF; RETURN NULL;",
        ),
        "CREATE TRIGGER ledger_follows AFTER INSERT ON ledger_entries"
        " FOR EACH ROW EXECUTE FUNCTION ledger_follows()",
        function.format("ledger_stays()", "RAISE EXCEPTION 'the ledger is append-only';"),
        *(
            f"CREATE TRIGGER {table}_stays BEFORE UPDATE OR DELETE OR TRUNCATE ON {table}"
            " FOR EACH STATEMENT EXECUTE FUNCTION ledger_stays()"
            for table in ("ledger_entries", "ledger_releases")
        ),
    ]
