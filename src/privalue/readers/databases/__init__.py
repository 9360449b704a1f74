"""Read tables and queries of databases: DuckDB and SQLite files, PostgreSQL servers.

``trial.duckdb::rows`` is a table or a view, ``trial.duckdb::SELECT ...`` a query; the table need
not be named if there is one only. Files are opened for reading only, and a server is asked in a
read-only transaction, batch by batch. Whatever a view or a query says, nothing else is opened or
done. Messages name neither user nor password.
"""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from os.path import isdir, isfile
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from privalue.errors import DataError
from privalue.ledger.addresses import divide_address
from privalue.readers.databases.postgres import PostgresServer
from privalue.readers.databases.query import Query, Table, resolve_query
from privalue.readers.databases.sqlite import SqliteFile
from privalue.readers.names import is_on_server, split_query
from privalue.readers.source import Batch, Source, Task, numbered, ready

__all__ = ["Connection", "Database", "open_database"]

_ENDINGS = (".duckdb", ".ddb", ".sqlite", ".sqlite3", ".db")


class Connection(Protocol):
    """A connection that can do nothing but read."""

    def tables(self) -> list[Table]:
        """Return the tables and views."""

    def schema(self, query: Query) -> pa.Schema:
        """Return the columns of a query, texts where they have no types; no row is fetched."""

    def count(self, table: Table) -> int | None:
        """Return how many rows a table has, where that is quick."""

    def batches(self, query: Query, names: list[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a query."""


class Database(Protocol):
    """What can be connected to; ``errors`` are those of its driver, as DataError says them."""

    @property
    def place(self) -> str:
        """Return what messages call it."""

    def connect(self) -> AbstractContextManager[Connection]:
        """Return a new connection, which is closed at the end."""

    def errors(self, place: str) -> AbstractContextManager[None]:
        """Turn the errors of the driver into one line that begins with the place."""


def open_database(data: str | Path, decimal: str, threads: int, memory: int) -> Source | None:
    """Return the rows of a table or a query, or None if ``data`` does not name a database."""
    found = _find(data, decimal, threads, memory)
    if found is None:
        return None
    database, request = found
    with database.connect() as connection, database.errors(database.place):
        query = resolve_query(request, connection.tables(), database.place)
        schema = connection.schema(query)
        stored = query.table is not None and query.table.stored
        rows = connection.count(query.table) if stored and query.table is not None else None

    def batches(names: list[str]) -> Iterator[Batch]:
        first = 1
        with database.connect() as connection:
            fetched = connection.batches(query, names)
            while True:
                place = query.place if first == 1 else f"{query.place}, row {first} or later,"
                with database.errors(place):
                    batch = next(fetched, None)
                if batch is None:
                    return
                yield Batch(batch, numbered(query.place, first))
                first += batch.num_rows

    def tasks(types: Mapping[str, pa.DataType]) -> Iterator[Task]:
        return ready(batches(list(types)))

    return Source(schemas=((query.place, schema),), tasks=tasks, rows=rows)


def _find(
    data: str | Path, decimal: str, threads: int, memory: int
) -> tuple[Database, str | None] | None:
    """Return the database, and what is wanted of it; None if there is none."""
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
        if not isfile(path):
            raise DataError(f"{path} does not exist; give a DuckDB or SQLite file")
        raise DataError(f"{path} is neither a DuckDB nor an SQLite file")
    if request is not None and isfile(path):
        raise DataError(
            f"{path} is not a database; only a DuckDB or SQLite file, an Excel workbook, or "
            "postgresql://..., is followed by :: and a table or a query"
        )
    return None


def _first_bytes(path: Path) -> bytes:
    """Return the first bytes of a file, which say what it really is."""
    if not isfile(path):
        return b""
    try:
        with path.open("rb") as file:
            return file.read(16)
    except OSError as problem:
        raise DataError(f"{path} cannot be read: {problem.strerror}") from None
