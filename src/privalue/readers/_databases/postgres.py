"""Read from PostgreSQL servers through a server-side cursor. Extra: ``postgres``."""

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib import import_module
from typing import Any

from privalue.errors import DataError, UnavailableError
from privalue.ledger.addresses import is_unanswered, postgres_server
from privalue.readers._chunks import Chunk, Source, one_line
from privalue.readers._databases.cursor import Fetch, column_names
from privalue.readers._databases.request import Request, Table, in_chunks, quoted, requested
from privalue.readers._rules import RowRules

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


def open_postgres(address: str, request: str | None, rules: RowRules) -> Source:
    """Return the rows of a table, a view or a query."""
    server = _Server(address)
    with server.connected() as connection:
        try:
            wanted, present = _wanted(connection, request, server.place)
            names = rules.select(present, wanted.place)
        except server.problem as problem:
            raise server.unreadable(server.place, problem) from None
    query = wanted.query
    if wanted.table is not None:
        query = f"SELECT {', '.join(map(quoted, names))} FROM {wanted.table.sql}"

    def chunks() -> Iterator[Chunk]:
        with server.connected() as connection, _cursor(connection) as cursor:
            try:
                cursor.execute(query)
            except server.problem as problem:
                raise server.unreadable(wanted.place, problem) from None
            fetch = Fetch(cursor, rules, wanted.place)

            def answered() -> Any:
                try:
                    return fetch()
                except server.problem as problem:
                    if is_unanswered(problem, server.driver):
                        raise server.unreadable(wanted.place, problem) from None
                    raise

            yield from in_chunks(answered, wanted.place, (server.problem, UnicodeError))

    return Source(chunks)


def postgres_columns(address: str, request: str | None) -> list[str]:
    """Return the names of the columns of a table, a view or a query."""
    server = _Server(address)
    with server.connected() as connection:
        try:
            return _wanted(connection, request, server.place)[1]
        except server.problem as problem:
            raise server.unreadable(server.place, problem) from None


def _wanted(connection: Any, request: str | None, place: str) -> tuple[Request, list[str]]:
    """Return what is asked for, and the names of its columns; no row is fetched."""
    wanted = requested(request, _tables(connection), place)
    if wanted.table is None:
        _require_reading(connection, wanted)
    with _cursor(connection) as cursor:
        cursor.execute(wanted.query)
        return wanted, column_names(cursor)


def _cursor(connection: Any) -> Any:
    """Return a cursor on the server: the only way in which a text of the user is sent.

    ``DECLARE ... CURSOR FOR`` takes one SELECT, VALUES or TABLE and nothing that writes in its
    WITH, and psycopg sends it by the extended protocol, which refuses a second statement.
    """
    return connection.cursor(name="privalue")


def _require_reading(connection: Any, wanted: Request) -> None:
    """Refuse a query with a word that is a function which does more than compute.

    Every word counts, also in a comment or a text: only so none is overlooked.
    """
    if re.search('u&"', wanted.query, re.IGNORECASE):
        raise DataError(f'{wanted.place} has a name in U&"..."; write it without escapes')
    words = {word.lower() for word in re.findall(r"[^\W\d]\w*", wanted.query)} - _COMPUTING
    ((acting,),) = connection.execute(_ACTING, [sorted(words)]).fetchall()
    if acting is not None:
        raise DataError(
            f"{wanted.place} names {acting}, a function that may do more than read; ask for "
            "tables, views and functions that are stable or immutable"
        )


def _tables(connection: Any) -> list[Table]:
    """Return the tables; those of the search path first, by their name alone."""
    return [
        Table.of_schema(schema, name, near=visible)
        for schema, name, visible in connection.execute(_TABLES).fetchall()
    ]


class _Server:
    """A server that rows are read from."""

    def __init__(self, address: str) -> None:
        self._server = postgres_server(address, what="data", error=DataError)
        self.driver = self._server.driver
        self.problem: type[Exception] = self.driver.Error
        self.place = self._server.place

    @contextmanager
    def connected(self) -> Iterator[Any]:
        """Yield a connection in a read-only transaction; nothing is ever committed."""
        try:
            connection = self._server.connect()
        except self.problem as problem:
            raise self.unreadable(self.place, problem, "opened") from None
        with closing(connection):
            connection.read_only = True
            self._read_every_time(connection)
            try:
                for setting in _SETTINGS:
                    connection.execute(setting)
            except self.problem as problem:
                raise self.unreadable(self.place, problem, "opened") from None
            yield connection

    def _read_every_time(self, connection: Any) -> None:
        """Load a time that Python cannot hold, such as infinity, as its text.

        So it makes one cell invalid, and not the batch.
        """
        loaders: Any = import_module("psycopg.types.datetime")
        for kind in ("Date", "Timestamp", "Timestamptz"):
            loader = type(kind, (_OrText, getattr(loaders, f"{kind}Loader")), {})
            connection.adapters.register_loader(kind.lower(), loader)

    def unreadable(
        self, place: str, problem: Exception, done: str = "read"
    ) -> DataError | UnavailableError:
        """Return, in one line, the error for what the server said, or for its silence."""
        said = self._server.masked(one_line(problem))
        if is_unanswered(problem, self.driver):
            return UnavailableError(f"{place}: the server does not answer ({said}); try again")
        return DataError(f"{place} cannot be {done}: {said}")


class _OrText:
    """A mixin for psycopg's loaders: what they cannot load stays a text."""

    def load(self, data: Any) -> Any:
        """Return the value, or its text."""
        try:
            return super().load(data)  # type: ignore[misc]
        except import_module("psycopg").DataError:
            return bytes(data).decode("utf-8")
