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

from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

from privalue._servers import (
    TIME_LIMITS,
    PatientConnection,
    TimeLimits,
    postgres_server,
    unanswered,
)
from privalue.errors import LedgerError, UnavailableError
from privalue.ledger._chain import EntryRow
from privalue.ledger._store import NOT_RECORDED, AbsentLedgerError, Transaction, locked

_TURN = "LOCK TABLE ledger_turn IN EXCLUSIVE MODE"
_TABLES = (
    "CREATE TABLE ledger_entries"
    " (sequence BIGINT PRIMARY KEY, body TEXT NOT NULL, hash TEXT NOT NULL)",
    "CREATE TABLE ledger_artefacts (hash TEXT PRIMARY KEY, text TEXT NOT NULL)",
    "CREATE TABLE ledger_turn ()",  # nothing is ever in it
    # Against accidents; whoever owns the tables can drop them, which is why there is a chain.
    "CREATE FUNCTION ledger_is_append_only() RETURNS trigger LANGUAGE plpgsql AS"
    " $$ BEGIN RAISE EXCEPTION 'the ledger is append-only'; END $$",
    *(
        f"CREATE TRIGGER {table}_stays BEFORE UPDATE OR DELETE OR TRUNCATE ON {table}"
        " FOR EACH STATEMENT EXECUTE FUNCTION ledger_is_append_only()"
        for table in ("ledger_entries", "ledger_artefacts")
    ),
)
_DURABLE = (
    "SELECT set_config('synchronous_commit', 'on', true)"
    " WHERE current_setting('synchronous_commit') IN ('off', 'local')"
)


_SETTINGS = (
    "SELECT set_config('lock_timeout', %s, true), set_config('statement_timeout', %s, true),"
    " set_config('idle_in_transaction_session_timeout', %s, true), current_setting('fsync')"
)
_MORE = 5.0  # s that a server gets to say that its own limit has passed
_UNDONE = f"; {NOT_RECORDED}"
_UNKNOWN = "; whether this step was recorded is unknown: ledger.show(DATASET) tells"


class PostgresStore:
    """A ledger in a database; a connection lasts for one operation."""

    def __init__(self, location: str, wait: float, limits: TimeLimits = TIME_LIMITS) -> None:
        self._server = postgres_server(location, what="ledger", error=LedgerError)
        self._driver = self._server.driver
        self._wait, self._limits = wait, limits
        self.place, self.address = self._server.place, self._server.distinct

    def create(self, first: EntryRow) -> None:
        """Create the tables and the first entry in one transaction, unless they exist."""
        errors = self._driver.errors
        # Of two that create it at once the second waits for the first, and then meets its tables.
        made = suppress(errors.DuplicateTable, errors.UniqueViolation)
        with self._explained(_UNDONE), made, self._begun("READ COMMITTED") as connection:
            if not self._found(connection):
                for statement in _TABLES:
                    connection.execute(statement, silence=self._wait + _MORE)
                Transaction(connection.execute, "%s").append(first)

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        """Yield a snapshot."""
        with self._explained(""), self._begun("REPEATABLE READ READ ONLY") as connection:
            self._require(connection)
            yield Transaction(connection.execute, "%s")

    @contextmanager
    def write(self) -> Iterator[Transaction]:
        """Yield a transaction that holds the lock of writers, taken before anything is read."""
        with self._explained(_UNDONE), self._begun("READ COMMITTED") as connection:
            self._require(connection)
            connection.execute(_TURN, silence=self._wait + _MORE)
            yield Transaction(connection.execute, "%s")

    def check(self) -> None:
        """Do nothing: the server checks its pages itself."""

    def _found(self, connection: PatientConnection) -> bool:
        """Return whether the ledger's tables exist."""
        (found,) = connection.execute("SELECT to_regclass('ledger_entries')").fetchone()
        return found is not None

    def _require(self, connection: PatientConnection) -> None:
        """Raise AbsentLedgerError unless the ledger's tables exist."""
        if not self._found(connection):
            raise AbsentLedgerError(self.place)

    @contextmanager
    def _begun(self, isolation: str) -> Iterator[PatientConnection]:
        """Yield a connection in a transaction; commit it at the end, undo it after an error."""
        opened = self._server.connect(self._limits, autocommit=True)
        with closing(PatientConnection(opened, self._driver, self._limits.silence)) as connection:
            connection.execute(f"BEGIN ISOLATION LEVEL {isolation}")
            try:
                self._prepare(connection, reads="READ ONLY" in isolation)
                yield connection
            except BaseException:
                with suppress(self._driver.Error):
                    connection.execute("ROLLBACK")
                raise
            try:
                connection.execute("COMMIT")
            except self._driver.OperationalError as problem:
                raise _CommitUnknownError(problem) from problem

    def _prepare(self, connection: PatientConnection, *, reads: bool) -> None:
        """Set what the server shall not exceed, and require that commits reach the disk."""
        statement = self._limits.reading if reads else self._wait + self._limits.silence
        idle = self._limits.reading if reads else self._limits.idle
        limits = [str(int(each * 1000)) for each in (self._wait, statement, idle)]
        *_, synced = connection.execute(_SETTINGS, limits).fetchone()
        if synced != "on":
            raise LedgerError(
                f"the server of the ledger {self.place} runs with fsync = {synced}: a power "
                "failure could undo a charge; turn it on"
            )
        connection.execute(_DURABLE)

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
        first = self._server.masked(str(problem)).split("\n", maxsplit=1)[0]
        slow = (errors.QueryCanceled, errors.IdleInTransactionSessionTimeout)
        if isinstance(problem, slow) or unanswered(problem, self._driver):
            return UnavailableError(
                f"the server of the ledger {self.place} does not answer ({first}); try again{known}"
            )
        return LedgerError(f"the ledger {self.place} failed ({first}){known}")


class _CommitUnknownError(Exception):
    """A commit was sent, and no answer came: it may stand."""

    def __init__(self, problem: Exception) -> None:
        self.problem = problem
