"""Keep a ledger in a PostgreSQL database, for several machines. Extra: ``postgres``.

The tables are in the first schema of the connection's search path; another ledger in the same
database takes another schema. Writers take turns by an advisory lock, which needs no right beyond
SELECT and INSERT. They read with READ COMMITTED, so that what they read is newer than the lock. A
writer that ignores the lock meets the primary key: no two entries have the same number.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any

from privalue._servers import postgres_server, unanswered
from privalue.errors import LedgerError, UnavailableError
from privalue.ledger._chain import EntryRow
from privalue.ledger._store import AbsentLedgerError, Transaction, locked

_TURN = 7_386_415_041  # the advisory lock of every privalue ledger
_TABLES = (
    "CREATE TABLE ledger_entries"
    " (sequence BIGINT PRIMARY KEY, body TEXT NOT NULL, hash TEXT NOT NULL)",
    "CREATE TABLE ledger_artefacts (hash TEXT PRIMARY KEY, text TEXT NOT NULL)",
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


class PostgresStore:
    """A ledger in a database; a connection lasts for one operation."""

    def __init__(self, location: str, wait: float) -> None:
        self._server = postgres_server(location, what="ledger", error=LedgerError)
        self._driver = self._server.driver
        self._wait = wait
        self.place = self._server.place

    def create(self, first: EntryRow) -> None:
        """Create the tables and the first entry in one transaction, unless they exist."""
        with self._begun("READ COMMITTED") as connection:
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_TURN,))
            if not self._found(connection):
                for statement in _TABLES:
                    connection.execute(statement)
                Transaction(connection.execute, "%s").append(first)

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        """Yield a snapshot."""
        with self._begun("REPEATABLE READ READ ONLY") as connection:
            self._require(connection)
            yield Transaction(connection.execute, "%s")

    @contextmanager
    def write(self) -> Iterator[Transaction]:
        """Yield a transaction that holds the lock of writers, taken before anything is read."""
        with self._begun("READ COMMITTED") as connection:
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_TURN,))
            self._require(connection)
            yield Transaction(connection.execute, "%s")

    def check(self) -> None:
        """Do nothing: the server checks its pages itself."""

    def _found(self, connection: Any) -> bool:
        """Return whether the ledger's tables exist."""
        (found,) = connection.execute("SELECT to_regclass('ledger_entries')").fetchone()
        return found is not None

    def _require(self, connection: Any) -> None:
        """Raise AbsentLedgerError unless the ledger's tables exist."""
        if not self._found(connection):
            raise AbsentLedgerError(self.place)

    @contextmanager
    def _begun(self, isolation: str) -> Iterator[Any]:
        """Yield a connection in a transaction; commit it at the end, undo it after an error."""
        try:
            with closing(self._server.connect(autocommit=True)) as connection:
                connection.execute(f"BEGIN ISOLATION LEVEL {isolation}")
                try:
                    self._prepare(connection)
                    yield connection
                    connection.execute("COMMIT")
                except BaseException:
                    with suppress(self._driver.Error):
                        connection.execute("ROLLBACK")
                    raise
        except self._driver.Error as problem:
            raise self._explained(problem) from problem

    def _prepare(self, connection: Any) -> None:
        """Require that commits reach the disk, and limit the wait for locks."""
        (synced,) = connection.execute("SHOW fsync").fetchone()
        if synced != "on":
            raise LedgerError(
                f"the server of the ledger {self.place} runs with fsync = {synced}: a power "
                "failure could undo a charge; turn it on"
            )
        connection.execute(_DURABLE)
        connection.execute(
            "SELECT set_config('lock_timeout', %s, true)", (str(int(self._wait * 1000)),)
        )

    def _explained(self, problem: Any) -> LedgerError | UnavailableError:
        """Return a driver's error as one line, without passwords."""
        if isinstance(problem, self._driver.errors.LockNotAvailable):
            return locked(self.place, self._wait)
        first = self._server.masked(str(problem)).split("\n", maxsplit=1)[0]
        kept = "ledger.show(DATASET) tells what was recorded"
        if unanswered(problem, self._driver):
            return UnavailableError(
                f"the server of the ledger {self.place} does not answer ({first}); try again; "
                f"{kept}"
            )
        return LedgerError(f"the ledger {self.place} failed ({first}); {kept}")
