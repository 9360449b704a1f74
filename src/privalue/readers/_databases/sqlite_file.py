"""Read SQLite files with Python's own driver.

A column of SQLite may hold numbers and texts at once.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from privalue.errors import DataError
from privalue.readers._chunks import Chunk, Source, one_line
from privalue.readers._databases.cursor import Fetch, column_names
from privalue.readers._databases.request import Table, in_chunks, quoted, requested
from privalue.readers._rules import RowRules


def open_sqlite(path: Path, request: str | None, rules: RowRules) -> Source:
    """Return the rows of a table, a view or a query."""
    with _opened(path) as connection:
        try:
            wanted = requested(request, _tables(connection), str(path))
            empty = connection.execute(f"SELECT * FROM ({wanted.query}) LIMIT 0")
            names = rules.select(column_names(empty), wanted.place)
            query, total_rows = wanted.query, None
            if wanted.table is not None:
                # Not by an index: rows are numbered as they stand in the table.
                cells = ", ".join(map(quoted, names))
                query = f"SELECT {cells} FROM {wanted.table.sql} NOT INDEXED"
                if wanted.table.stored:
                    counted = connection.execute(f"SELECT count(*) FROM {wanted.table.sql}")
                    (total_rows,) = counted.fetchone()
        except sqlite3.Error as problem:
            raise DataError(f"{path} cannot be read: {one_line(problem)}") from None

    def chunks() -> Iterator[Chunk]:
        with _opened(path) as connection:
            try:
                cursor = connection.execute(query)
            except sqlite3.Error as problem:
                raise DataError(f"{wanted.place} cannot be read: {one_line(problem)}") from None
            fetch = Fetch(cursor, rules, wanted.place)
            yield from in_chunks(fetch, wanted.place, (sqlite3.Error,))

    return Source(chunks, total_rows=total_rows)


def sqlite_columns(path: Path, request: str | None) -> list[str]:
    """Return the names of the columns of a table, a view or a query."""
    with _opened(path) as connection:
        try:
            wanted = requested(request, _tables(connection), str(path))
            return column_names(connection.execute(f"SELECT * FROM ({wanted.query}) LIMIT 0"))
        except sqlite3.Error as problem:
            raise DataError(f"{path} cannot be read: {one_line(problem)}") from None


def _tables(connection: sqlite3.Connection) -> list[Table]:
    """Return the tables and views of the file."""
    found = connection.execute(
        "SELECT name, type = 'table' FROM sqlite_master WHERE type IN ('table', 'view')"
        " AND substr(name, 1, 7) <> 'sqlite_' ORDER BY name"
    )
    return [Table((name,), quoted(name), stored=bool(stored)) for name, stored in found]


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Yield a connection for reading only."""
    try:
        # Another thread may go on with the cursor that this one opened.
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=ro", uri=True, check_same_thread=False
        )
    except sqlite3.Error as problem:
        raise DataError(f"{path} cannot be opened: {one_line(problem)}") from None
    with closing(connection):
        connection.execute("PRAGMA trusted_schema = OFF")  # a view may not call just anything
        # Bytes that are not UTF-8 make one cell invalid, and not the batch.
        connection.text_factory = lambda text: text.decode("utf-8", "surrogateescape")
        yield connection
