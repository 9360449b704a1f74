"""Read tables and queries of databases: DuckDB and SQLite files, PostgreSQL servers.

``trial.duckdb::rows`` is a table or a view, ``trial.duckdb::SELECT ...`` a query; the name of the
only table may be left out. Files are opened read-only, and a server is queried in a read-only
transaction, batch by batch. A view or a query can neither open other files nor change anything.
Messages name neither user nor password.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, suppress
from os.path import isdir, isfile
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from privalue.ledger.addresses import divide_address
from privalue.readers.databases.postgres import PostgresServer
from privalue.readers.databases.query import Batches, Query, resolve_query
from privalue.readers.databases.sqlite import SqliteFile
from privalue.readers.messages import data_error
from privalue.readers.names import is_on_server, split_query
from privalue.readers.source import Source, open_batches

__all__ = ["Database", "open_database"]

_ENDINGS = (".duckdb", ".ddb", ".sqlite", ".sqlite3", ".db")


class Database(Protocol):
    """A database; its connections are read-only."""

    place: str  # its name in messages
    tables: str  # SQL that lists the tables whose schema may be left out

    def connect(self) -> AbstractContextManager[Any]:
        """Yield a new connection, and close it."""

    def errors(self, place: str) -> AbstractContextManager[None]:
        """Translate the driver's errors into one line that begins with the place."""

    def schema(self, connection: Any, query: Query) -> pa.Schema:
        """Return the columns of a query, as texts if they have no types; fetches no row."""

    def batches(self, connection: Any, query: Query, names: list[str]) -> Batches:
        """Yield the rows of a query, with these columns alone."""


def open_database(data: str | Path, decimal: str, threads: int, memory: int) -> Source | None:
    """Return the rows of a table or a query, or None if ``data`` does not name a database."""
    database, request = _resolve(data, decimal, threads, memory) or (None, None)
    if database is None:
        return None
    with database.errors(database.place), database.connect() as connection:
        tables = [name for (name,) in connection.execute(database.tables).fetchall()]
        query = resolve_query(request, tables, database.place)
        schema = database.schema(connection, query)
    if len({name.lower() for name in schema.names}) < len(schema.names):  # SQL ignores case
        raise data_error("columns-alike", place=query.place)

    def fetch(names: list[str]) -> Iterator[pa.RecordBatch]:
        with (
            database.errors(query.place),
            database.connect() as connection,
            closing(database.batches(connection, query, names)) as batches,
        ):
            yield from batches

    return open_batches(query.place, schema, fetch)


def _resolve(
    data: str | Path, decimal: str, threads: int, memory: int
) -> tuple[Database, str | None] | None:
    """Return the database, and the table or query after "::"; None if it is no database."""
    if is_on_server(data):
        address, request = divide_address(str(data))
        return PostgresServer(address, decimal), request
    path, request = split_query(str(data))
    head = _first_bytes(path)
    if head[8:12] == b"DUCK":
        from privalue.readers.databases.duckdb import DuckDbFile  # noqa: PLC0415 - it is heavy

        return DuckDbFile(path, threads, memory), request
    if head == b"SQLite format 3\0":
        return SqliteFile(path, decimal), request
    if path.name.lower().endswith(_ENDINGS) and not isdir(path):
        raise data_error("database-unknown" if isfile(path) else "database-absent", path=path)
    if request is not None and isfile(path):
        raise data_error("database-none", path=path)
    return None


def _first_bytes(path: Path) -> bytes:
    """Return the first bytes of a file, which identify its format."""
    if isfile(path):
        with suppress(OSError), path.open("rb") as file:  # raised again when its rows are read
            return file.read(16)
    return b""
