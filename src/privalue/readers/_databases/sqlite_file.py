"""Read SQLite files with Python's own driver.

A column of SQLite may hold numbers and texts at once.
"""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from privalue.errors import DataError
from privalue.readers._chunks import Chunk, Source, one_line
from privalue.readers._databases.cursor import Fetch, column_names
from privalue.readers._databases.request import Table, in_chunks, quoted, requested
from privalue.readers._rules import RowRules

_READING = {
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
}
# Functions that open files or hand over code, where somebody's SQLite has them.
_ACTING = {"load_extension", "fts3_tokenizer", "readfile", "writefile", "lsdir", "edit"}
_DEFENSIVE = 1010  # SQLITE_DBCONFIG_DEFENSIVE, which Python 3.12 names
# Of Python's driver; that a text holds two statements is a Warning in some of its versions.
_PROBLEMS = (sqlite3.Error, sqlite3.Warning)


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
        except _PROBLEMS as problem:
            raise DataError(f"{path} cannot be read: {_explained(problem)}") from None

    def chunks() -> Iterator[Chunk]:
        with _opened(path) as connection:
            try:
                cursor = connection.execute(query)
            except _PROBLEMS as problem:
                raise DataError(f"{wanted.place} cannot be read: {_explained(problem)}") from None
            fetch = Fetch(cursor, rules, wanted.place)
            yield from in_chunks(fetch, wanted.place, _PROBLEMS)

    return Source(chunks, total_rows=total_rows)


def sqlite_columns(path: Path, request: str | None) -> list[str]:
    """Return the names of the columns of a table, a view or a query."""
    with _opened(path) as connection:
        try:
            wanted = requested(request, _tables(connection), str(path))
            return column_names(connection.execute(f"SELECT * FROM ({wanted.query}) LIMIT 0"))
        except _PROBLEMS as problem:
            raise DataError(f"{path} cannot be read: {_explained(problem)}") from None


def _tables(connection: sqlite3.Connection) -> list[Table]:
    """Return the tables and views of the file."""
    found = connection.execute(
        "SELECT name, type = 'table' FROM sqlite_master WHERE type IN ('table', 'view')"
        " AND substr(name, 1, 7) <> 'sqlite_' ORDER BY name"
    )
    return [Table((name,), quoted(name), stored=bool(stored)) for name, stored in found]


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Yield a connection for reading only.

    Whoever made the file also wrote its views: no text of the file, and no query, can do more than
    read its tables. Virtual tables are refused, because they are programs.
    """
    try:
        # Another thread may go on with the cursor that this one opened.
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=ro", uri=True, check_same_thread=False
        )
    except _PROBLEMS as problem:
        raise DataError(f"{path} cannot be opened: {one_line(problem)}") from None
    with closing(connection):
        try:
            _confine(connection)
        except _PROBLEMS as problem:
            raise DataError(f"{path} cannot be read: {_explained(problem)}") from None
        # Bytes that are not UTF-8 make one cell invalid, and not the batch.
        connection.text_factory = lambda text: text.decode("utf-8", "surrogateescape")
        yield connection


def _confine(connection: sqlite3.Connection) -> None:
    """Refuse, on a connection, everything but reading the file's own tables and views."""
    if hasattr(connection, "setconfig"):  # Python 3.12 and later
        connection.setconfig(_DEFENSIVE, True)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    connection.execute("PRAGMA query_only = ON")
    connection.execute("PRAGMA trusted_schema = OFF")  # a view may not call just anything
    connection.execute("PRAGMA cell_size_check = ON")
    with suppress(sqlite3.OperationalError):  # an SQLite without JSON
        connection.execute("SELECT 1 FROM json_each('[]'), json_tree('[]')")  # made once, before
    virtual = {
        str(name).lower()
        for (name,) in connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage = 0"
        )
    }

    def allowed(action: int, first: str | None, second: str | None, *_: str | None) -> int:
        if action == sqlite3.SQLITE_READ:
            table = (first or "").lower()
            fine = table not in virtual and not table.startswith("pragma_")
        elif action == sqlite3.SQLITE_FUNCTION:
            fine = (second or "").lower() not in _ACTING
        else:
            fine = action in _READING
        return sqlite3.SQLITE_OK if fine else sqlite3.SQLITE_DENY

    connection.set_authorizer(allowed)


def _explained(problem: Exception) -> str:
    """Return what SQLite says, in one line; if it was not allowed, what is."""
    said = one_line(problem)
    if re.search("authoriz|prohibited|unsafe use|vtable constructor", said):
        return f"{said}; tables and views of the file are read, and nothing else is done"
    return said
