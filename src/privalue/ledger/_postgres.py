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
from privalue.ledger._chain import EARLIER, EntryRow
from privalue.ledger._roles import grants
from privalue.ledger._store import AbsentLedgerError, Dialect, Transaction, locked

SQL = Dialect(
    mark="%s",
    field="(body::jsonb ->> '{}')",
    may_declare="SELECT has_column_privilege('ledger_entries', 'seal', 'INSERT')",
)

_SHA256 = "encode(sha256(convert_to({}, 'UTF8')), 'hex')"
_TURN = 7_386_415_041  # the advisory lock of every privalue ledger
_TABLES = (
    "CREATE TABLE ledger_entries (sequence BIGINT PRIMARY KEY, body TEXT NOT NULL,"
    " hash TEXT NOT NULL, seal TEXT NOT NULL DEFAULT '')",
    "CREATE TABLE ledger_artefacts (hash TEXT PRIMARY KEY, text TEXT NOT NULL,"
    f" CHECK (hash = {_SHA256.format('text')}))",
    *SQL.indexes(),
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
    " RETURN NEW; END $$",
    "CREATE TRIGGER ledger_entries_follow BEFORE INSERT ON ledger_entries"
    " FOR EACH ROW EXECUTE FUNCTION ledger_follows()",
)
_SCHEMA = (
    "SELECT nspname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace"
    " WHERE pg_class.oid = to_regclass('ledger_entries')"
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
                Transaction(connection.execute, SQL).append(first)

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        """Yield a snapshot."""
        with self._begun("REPEATABLE READ READ ONLY") as connection:
            self._require(connection)
            yield Transaction(connection.execute, SQL)

    @contextmanager
    def write(self) -> Iterator[Transaction]:
        """Yield a transaction that holds the lock of writers, taken before anything is read."""
        with self._begun("READ COMMITTED") as connection:
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_TURN,))
            self._require(connection)
            yield Transaction(connection.execute, SQL)

    def check(self) -> None:
        """Do nothing: the server checks its pages itself."""

    def grants(self, role: str, keeper: str | None) -> str:
        """Return the SQL for roles, with the schema of this ledger."""
        with self._begun("REPEATABLE READ READ ONLY") as connection:
            self._require(connection)
            (schema,) = connection.execute(_SCHEMA).fetchone()
        return grants(schema, role, keeper)

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
        if isinstance(problem, self._driver.errors.UndefinedColumn):
            return LedgerError(f"the ledger {self.place} cannot be used: {EARLIER}")
        first = self._server.masked(str(problem)).split("\n", maxsplit=1)[0]
        kept = "ledger.show(DATASET) tells what was recorded"
        if unanswered(problem, self._driver):
            return UnavailableError(
                f"the server of the ledger {self.place} does not answer ({first}); try again; "
                f"{kept}"
            )
        return LedgerError(f"the ledger {self.place} failed ({first}); {kept}")
