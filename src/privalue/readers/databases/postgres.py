"""Read from PostgreSQL servers through a server-side cursor. Extra: ``postgres``."""

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib import import_module
from typing import Any

from privalue.errors import DataError, UnavailableError, one_line
from privalue.ledger.addresses import is_unanswered, postgres_server
from privalue.readers.databases.cursor import CursorDatabase
from privalue.readers.databases.query import Query, read_statement
from privalue.readers.messages import data_error, render

# Volatile functions without side effects.
_HARMLESS = set(read_statement("postgres-harmless").split())
_LOADERS = {  # of values that Python may not represent, by psycopg's modules
    "datetime": ("Date", "Time", "Timetz", "Timestamp", "Timestamptz", "Interval"),
    "json": ("Json", "Jsonb"),
}


class PostgresServer(CursorDatabase):
    """A PostgreSQL server that rows are read from."""

    tables = read_statement("postgres-tables")

    def __init__(self, address: str, decimal: str) -> None:
        self._server = postgres_server(address, what="data", error=DataError)
        self._driver: Any = self._server.driver
        self.place, self.decimal = self._server.place, decimal

    @contextmanager
    def connect(self) -> Iterator[Any]:
        """Yield a connection in a read-only transaction; nothing is ever committed."""
        with closing(self._server.connect()) as connection:
            connection.read_only = True
            _load_all_values(connection)
            connection.execute(read_statement("postgres-settings"))
            yield connection

    @contextmanager
    def errors(self, place: str) -> Iterator[None]:
        """Translate the server's errors into one line; no answer becomes UnavailableError."""
        try:
            yield
        except (self._driver.Error, UnicodeError) as problem:
            about = {"place": place, "problem": self._server.mask_secrets(one_line(problem))}
            if is_unanswered(problem, self._driver):
                raise UnavailableError(render("server-silent", **about)) from None
            raise data_error("unreadable", **about) from None

    def cursor(self, connection: Any) -> Any:
        """Return a server-side cursor, the only way in which a user's query is sent.

        ``DECLARE ... CURSOR FOR`` accepts one SELECT, VALUES or TABLE, without writes in its WITH,
        and psycopg sends it by the extended protocol, which refuses a second statement.
        """
        return connection.cursor(name="privalue")

    def require_read_only(self, connection: Any, query: Query) -> None:
        """Refuse a query that contains the name of a function with possible side effects.

        Words in comments and texts count, too, so that no call is overlooked.
        """
        if re.search('u&"', query.sql, re.IGNORECASE):
            raise data_error("query-escaped", place=query.place)
        words = {name.lower() for name in re.findall(r"[^\W\d]\w*", query.sql)} - _HARMLESS
        unsafe = connection.execute(read_statement("postgres-side-effects"), [sorted(words)])
        ((function,),) = unsafe.fetchall()
        if function is not None:
            raise data_error("query-acting", place=query.place, function=function)


def _load_all_values(connection: Any) -> None:
    """Make a connection load what Python cannot represent, such as infinite times, as its text.

    So it is one invalid cell, and not an error of the whole batch.
    """
    for module, kinds in _LOADERS.items():
        loaders: Any = import_module(f"psycopg.types.{module}")
        for kind in kinds:
            loader = type(kind, (_TextFallback, getattr(loaders, f"{kind}Loader")), {})
            connection.adapters.register_loader(kind.lower(), loader)


class _TextFallback:
    """A mixin for loaders of psycopg: values that they cannot load stay texts."""

    def load(self, data: Any) -> Any:
        """Return the value, or its text."""
        try:
            return super().load(data)  # type: ignore[misc]
        except (import_module("psycopg").DataError, ValueError, RecursionError):
            return bytes(data).decode("utf-8")
