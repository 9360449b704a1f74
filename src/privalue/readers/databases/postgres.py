"""Read from PostgreSQL servers through a server-side cursor. Extra: ``postgres``."""

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib import import_module
from typing import Any

import pyarrow as pa

from privalue.errors import DataError, UnavailableError
from privalue.ledger.addresses import is_unanswered, postgres_server
from privalue.readers.databases.cursor import column_names, fetch
from privalue.readers.databases.query import Query, Table, quoted
from privalue.readers.source import one_line, texts

_TABLES = """
    SELECT n.nspname, c.relname, pg_catalog.pg_table_is_visible(c.oid)
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'v', 'm', 'f', 'p') AND NOT c.relispartition
      AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_'
    ORDER BY 3 DESC, 1, 2
"""
# A read-only transaction stops what writes to tables. Functions that end sessions, read the
# server's files or call other servers are volatile; so are a few that only compute.
_ACTING = """
    SELECT min(p.proname) FROM pg_catalog.pg_proc p
    WHERE p.provolatile = 'v' AND p.proname = ANY(%s) AND (
        p.pronamespace = 'pg_catalog'::pg_catalog.regnamespace OR EXISTS (
            SELECT FROM pg_catalog.pg_depend d WHERE d.deptype = 'e' AND d.objid = p.oid
              AND d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass
        )
    )
"""
_COMPUTING = {
    *("random", "setseed", "gen_random_uuid", "clock_timestamp", "timeofday", "current_query"),
    *("currval", "lastval", "system", "bernoulli"),  # the last two choose a sample
}
_SETTINGS = (
    # The transaction is read-only; if anything ended it, what follows in the session is, too. It is
    # never committed, so that a pooler hands no such session to others.
    "SET default_transaction_read_only = on",
    "SET LOCAL TIME ZONE 'UTC'",
    "SET LOCAL cursor_tuple_fraction = 1",  # every row is wanted
    "SET LOCAL synchronize_seqscans = off",  # rows are numbered from the table's beginning
)


class PostgresServer:
    """A server that rows are read from."""

    def __init__(self, address: str, decimal: str) -> None:
        self._server = postgres_server(address, what="data", error=DataError)
        self._driver: Any = self._server.driver
        self.place, self._decimal = self._server.place, decimal

    @contextmanager
    def connect(self) -> Iterator["_Postgres"]:
        """Yield a connection in a read-only transaction; nothing is ever committed."""
        with self.errors(self.place, "opened"):
            connection: Any = self._server.connect()
        with closing(connection):
            connection.read_only = True
            self._read_every_time(connection)
            with self.errors(self.place, "opened"):
                for setting in _SETTINGS:
                    connection.execute(setting)
            yield _Postgres(connection, self._decimal)

    def _read_every_time(self, connection: Any) -> None:
        """Load a time that Python cannot hold, such as infinity, as its text.

        So it makes one cell invalid, and not the batch.
        """
        loaders: Any = import_module("psycopg.types.datetime")
        for kind in ("Date", "Timestamp", "Timestamptz"):
            loader = type(kind, (_OrText, getattr(loaders, f"{kind}Loader")), {})
            connection.adapters.register_loader(kind.lower(), loader)

    @contextmanager
    def errors(self, place: str, done: str = "read") -> Iterator[None]:
        """Turn what the server says into one line, or its silence into UnavailableError."""
        try:
            yield
        except (self._driver.Error, UnicodeError) as problem:
            said = self._server.masked(one_line(problem))
            if is_unanswered(problem, self._driver):
                raise UnavailableError(
                    f"{place}: the server does not answer ({said}); try again"
                ) from None
            raise DataError(f"{place} cannot be {done}: {said}") from None


class _Postgres:
    def __init__(self, connection: Any, decimal: str) -> None:
        self._connection, self._decimal = connection, decimal

    def tables(self) -> list[Table]:
        """Return the tables; those of the search path first, by their name alone."""
        return [
            Table.of_schema(schema, name, near=visible)
            for schema, name, visible in self._connection.execute(_TABLES).fetchall()
        ]

    def schema(self, query: Query) -> pa.Schema:
        if query.table is None:
            self._require_reading(query)
        with self._cursor() as cursor:
            cursor.execute(query.sql)
            return texts(column_names(cursor))

    def count(self, table: Table) -> int | None:
        return None

    def batches(self, query: Query, names: list[str]) -> Iterator[pa.RecordBatch]:
        sql = query.sql
        if query.table is not None:
            sql = f"SELECT {', '.join(map(quoted, names))} FROM {query.table.sql}"
        with self._cursor() as cursor:
            cursor.execute(sql)
            yield from fetch(cursor, names, self._decimal)

    def _cursor(self) -> Any:
        """Return a cursor on the server: the only way in which a text of the user is sent.

        ``DECLARE ... CURSOR FOR`` takes one SELECT, VALUES or TABLE and nothing that writes in its
        WITH, and psycopg sends it by the extended protocol, which refuses a second statement.
        """
        return self._connection.cursor(name="privalue")

    def _require_reading(self, query: Query) -> None:
        """Refuse a query with a word that is a function which does more than compute.

        Every word counts, also in a comment or a text: only so none is overlooked.
        """
        if re.search('u&"', query.sql, re.IGNORECASE):
            raise DataError(f'{query.place} has a name in U&"..."; write it without escapes')
        words = {word.lower() for word in re.findall(r"[^\W\d]\w*", query.sql)} - _COMPUTING
        ((acting,),) = self._connection.execute(_ACTING, [sorted(words)]).fetchall()
        if acting is not None:
            raise DataError(
                f"{query.place} names {acting}, a function that may do more than read; ask for "
                "tables, views and functions that are stable or immutable"
            )


class _OrText:
    """A mixin for psycopg's loaders: what they cannot load stays a text."""

    def load(self, data: Any) -> Any:
        """Return the value, or its text."""
        try:
            return super().load(data)  # type: ignore[misc]
        except import_module("psycopg").DataError:
            return bytes(data).decode("utf-8")
