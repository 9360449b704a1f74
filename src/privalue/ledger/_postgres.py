"""Keep a ledger in a PostgreSQL database, for several machines. Extra: ``postgres``.

The tables are in the first schema of the connection's search path; another ledger in the same
database takes another schema. Writers take turns by a lock on ``ledger_turn``, an empty table of
the ledger's own: the server keeps them in a queue, writers of other ledgers do not wait, and only
who was granted DELETE on it can hold it (PostgreSQL has no weaker right for a lock that excludes
itself). They read with READ COMMITTED, so that what they read is newer than the lock. A writer that
ignores the lock meets the primary key: no two entries have the same number.

Whatever a server does, an operation ends: see ``TimeLimits``. A writer that stands still inside its
transaction is ended by the server, so that it cannot keep the others out.
"""

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from urllib.parse import quote
from weakref import finalize

from privalue._servers import (
    TIME_LIMITS,
    PatientConnection,
    TimeLimits,
    postgres_server,
    unanswered,
)
from privalue.errors import LedgerError, UnavailableError
from privalue.ledger._chain import EARLIER, LONGEST_ROW, EntryRow
from privalue.ledger._roles import grants
from privalue.ledger._store import NOT_RECORDED, AbsentLedgerError, Dialect, Transaction, locked

SQL = Dialect(
    mark="%s",
    field="(body::jsonb ->> '{}')",
    may_declare="SELECT has_column_privilege('ledger_entries', 'seal', 'INSERT')",
)

_SHA256 = "encode(sha256(convert_to({}, 'UTF8')), 'hex')"
_TURN = "LOCK TABLE ledger_turn IN EXCLUSIVE MODE"
_TABLES = (
    "CREATE TABLE ledger_entries (sequence BIGINT PRIMARY KEY, body TEXT NOT NULL,"
    " hash TEXT NOT NULL, seal TEXT NOT NULL DEFAULT '')",
    "CREATE TABLE ledger_artefacts (hash TEXT PRIMARY KEY, text TEXT NOT NULL,"
    f" CHECK (hash = {_SHA256.format('text')}))",
    *SQL.indexes(),
    "CREATE TABLE ledger_turn ()",  # nothing is ever in it
    # Against accidents; whoever owns the tables can drop them, which is why there is a chain.
    "CREATE FUNCTION ledger_is_append_only() RETURNS trigger LANGUAGE plpgsql AS"
    " $$ BEGIN RAISE EXCEPTION 'the ledger is append-only'; END $$",
    *(
        f"CREATE TRIGGER {table}_stays BEFORE UPDATE OR DELETE OR TRUNCATE ON {table}"
        " FOR EACH STATEMENT EXECUTE FUNCTION ledger_is_append_only()"
        for table in ("ledger_entries", "ledger_artefacts")
    ),
    # What does not continue the chain never gets in, whoever writes it. The names are the
    # server's own: whoever inserts may have other tables and functions in the search path.
    "CREATE FUNCTION ledger_follows() RETURNS trigger LANGUAGE plpgsql"
    " SET search_path = pg_catalog, pg_temp AS $$ DECLARE last record; BEGIN"
    " EXECUTE format('SELECT sequence, hash FROM %I.%I ORDER BY sequence DESC LIMIT 1',"
    " TG_TABLE_SCHEMA, TG_TABLE_NAME) INTO last;"
    " IF NEW.sequence IS DISTINCT FROM coalesce(last.sequence, 0) + 1"
    f" OR NEW.hash IS DISTINCT FROM {_SHA256.format('NEW.body')}"
    " OR NEW.body::jsonb ->> 'previous' IS DISTINCT FROM coalesce(last.hash, repeat('0', 64)) THEN"
    " RAISE EXCEPTION 'this does not follow the last entry of the ledger'; END IF;"
    f" IF NEW.seal = '' AND length(NEW.body) > {LONGEST_ROW} THEN"
    " RAISE EXCEPTION 'this is too long for an entry of the ledger'; END IF;"
    " RETURN NEW; END $$",
    "CREATE TRIGGER ledger_entries_follow BEFORE INSERT ON ledger_entries"
    " FOR EACH ROW EXECUTE FUNCTION ledger_follows()",
)
_SCHEMA = (
    "SELECT nspname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace"
    " WHERE pg_class.oid = to_regclass('ledger_entries')"
)
_SETTINGS = (
    "SELECT set_config('lock_timeout', %s, true), set_config('statement_timeout', %s, true),"
    " set_config('idle_in_transaction_session_timeout', %s, true),"
    " CASE WHEN current_setting('synchronous_commit') IN ('off', 'local')"
    " THEN set_config('synchronous_commit', 'on', true) END,"
    " to_regclass('ledger_entries') IS NOT NULL, current_setting('fsync'),"
    f" coalesce(({_SCHEMA}), current_schema(), 'public')"
)
_MORE = 5.0  # s that a server gets to say that its own limit has passed
_UNDONE = f"; {NOT_RECORDED}"
_UNKNOWN = "; whether this step was recorded is unknown: ledger.show(DATASET) shows it"


class _Spare:
    """The connection of the last operation, for the next one; no transaction is open in it."""

    def __init__(self) -> None:
        self._kept: list[tuple[int, PatientConnection]] = []

    def put(self, connection: PatientConnection) -> None:
        """Keep a connection, or close it if one is kept."""
        if self._kept:
            connection.close()
        else:
            self._kept.append((os.getpid(), connection))

    def take(self) -> PatientConnection | None:
        """Return the connection, which is no longer kept, or None."""
        try:
            process, connection = self._kept.pop()
        except IndexError:
            return None
        if process == os.getpid():
            return connection
        _PARENTS.append(connection)
        return None

    def close(self) -> None:
        """Close the connection, if one is kept."""
        connection = self.take()
        if connection is not None:
            connection.close()


_PARENTS: list[PatientConnection] = []  # in a fork: to close these would end the parent's sessions


class PostgresStore:
    """A ledger in a database; operations that follow each other share a connection."""

    def __init__(self, location: str, wait: float, limits: TimeLimits = TIME_LIMITS) -> None:
        self._server = postgres_server(location, what="ledger", error=LedgerError)
        self._driver = self._server.driver
        self._wait, self._limits = wait, limits
        self.place = self._server.place
        self.address = ""  # until there is a connection: before, nobody knows where it leads
        self._reached = (self.place, "")
        self._spare = _Spare()
        finalize(self, self._spare.close)

    def create(self, first: EntryRow) -> None:
        """Create the tables and the first entry in one transaction, unless they exist."""
        errors = self._driver.errors
        # Of two that create it at once the second waits for the first, and then meets its tables,
        # or the types of their rows.
        made = suppress(errors.DuplicateTable, errors.DuplicateObject, errors.UniqueViolation)
        with (
            self._explained(_UNDONE),
            made,
            self._begun("READ COMMITTED", required=False) as connection,
        ):
            if not self._found(connection):
                for statement in _TABLES:
                    connection.execute(statement, silence=self._wait + _MORE)
                Transaction(connection.execute, SQL).append(first)

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        """Yield a snapshot."""
        with self._explained(""), self._begun("REPEATABLE READ READ ONLY") as connection:
            yield Transaction(connection.execute, SQL)

    @contextmanager
    def write(self) -> Iterator[Transaction]:
        """Yield a transaction that holds the lock of writers, taken before anything is read."""
        with self._explained(_UNDONE), self._begun("READ COMMITTED") as connection:
            connection.execute(_TURN, silence=self._wait + _MORE)
            yield Transaction(connection.execute, SQL)

    def check(self) -> None:
        """Do nothing: the server checks its pages itself."""

    def grants(self, role: str, keeper: str | None) -> str:
        """Return the SQL for roles, with the schema of this ledger."""
        with self._explained(""), self._begun("REPEATABLE READ READ ONLY") as connection:
            (schema,) = connection.execute(_SCHEMA).fetchone()
        return grants(schema, role, keeper)

    def _found(self, connection: PatientConnection) -> bool:
        """Return whether the ledger's tables exist."""
        (found,) = connection.execute("SELECT to_regclass('ledger_entries')").fetchone()
        return found is not None

    @contextmanager
    def _begun(self, isolation: str, *, required: bool = True) -> Iterator[PatientConnection]:
        """Yield a connection in a transaction; commit it at the end, undo it after an error."""
        connection = self._begin(isolation)
        with ExitStack() as unless_it_ends_well:
            unless_it_ends_well.callback(connection.close)
            try:
                self._prepare(connection, reads="READ ONLY" in isolation, required=required)
                yield connection
            except BaseException:
                with suppress(self._driver.Error):
                    connection.execute("ROLLBACK")
                raise
            try:
                connection.execute("COMMIT")
            except self._driver.OperationalError as problem:
                raise _CommitUnknownError(problem) from problem
            unless_it_ends_well.pop_all()
        self._spare.put(connection)

    def _begin(self, isolation: str) -> PatientConnection:
        """Return a connection in a new transaction: the one of the last operation, if it lives."""
        begin, spare = f"BEGIN ISOLATION LEVEL {isolation}", self._spare.take()
        if spare is not None:
            try:
                spare.execute(begin)
                return spare
            except self._driver.Error:  # it ended in between, and nothing with it
                spare.close()
        opened = self._server.connect(self._limits, autocommit=True)
        self._reached = self._server.reached(opened)
        connection = PatientConnection(opened, self._driver, self._limits.silence)
        try:
            connection.execute(begin)
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self, connection: PatientConnection, *, reads: bool, required: bool) -> None:
        """Set what the server shall not exceed; require a ledger, and commits that reach the disk.

        Args:
            connection: in a transaction.
            reads: whether nothing is written.
            required: whether the ledger's tables have to exist.
        """
        statement = self._limits.reading if reads else self._wait + self._limits.silence
        idle = self._limits.reading if reads else self._limits.idle
        limits = [str(int(each * 1000)) for each in (self._wait, statement, idle)]
        *_, found, synced, schema = connection.execute(_SETTINGS, limits).fetchone()
        place, address = self._reached
        self.place, self.address = place + _path_to(schema), f"{address} {schema}"
        if synced != "on":
            raise LedgerError(
                f"the server of the ledger {self.place} runs with fsync = {synced}: a power "
                "failure could undo a charge; turn it on"
            )
        if required and not found:
            raise AbsentLedgerError(self.place)

    @contextmanager
    def _explained(self, known: str) -> Iterator[None]:
        """Raise what a driver says as one line, without passwords, and with what is known."""
        try:
            yield
        except _CommitUnknownError as unknown:
            raise self._error(unknown.problem, _UNKNOWN if known else "") from unknown.problem
        except self._driver.errors.LockNotAvailable as problem:
            raise locked(self.place, self._wait) from problem
        except self._driver.Error as problem:
            raise self._error(problem, known) from problem

    def _error(self, problem: Exception, known: str) -> LedgerError | UnavailableError:
        """Return the error for what a driver said."""
        errors = self._driver.errors
        if isinstance(problem, (errors.UndefinedColumn, errors.UndefinedTable)):
            return LedgerError(f"the ledger {self.place} cannot be used: {EARLIER}")
        first = self._server.masked(str(problem)).split("\n", maxsplit=1)[0]
        slow = (errors.QueryCanceled, errors.IdleInTransactionSessionTimeout)
        if isinstance(problem, slow) or unanswered(problem, self._driver):
            return UnavailableError(
                f"the server of the ledger {self.place} does not answer ({first}); try again{known}"
            )
        return LedgerError(f"the ledger {self.place} failed ({first}){known}")


def _path_to(schema: str) -> str:
    """Return what an address says of a schema; nothing of the usual one."""
    if schema == "public":
        return ""
    plain = re.fullmatch("[a-z_][a-z0-9_]*", schema) is not None
    quoted = schema if plain else '"' + schema.replace('"', '""') + '"'
    escaped = re.sub(r"([\\\s])", r"\\\1", quoted)  # as the server takes an option apart
    return f"?options=-csearch_path%3D{quote(escaped, safe='')}"


class _CommitUnknownError(Exception):
    """A commit was sent, and no answer came: it may stand."""

    def __init__(self, problem: Exception) -> None:
        self.problem = problem
