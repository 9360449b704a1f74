"""Read SQLite files with Python's own driver; a column may hold numbers and texts at once."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from privalue.errors import one_line
from privalue.readers.databases.cursor import CursorDatabase
from privalue.readers.databases.query import Query, read_statement
from privalue.readers.messages import data_error

_READ_ACTIONS = {
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
}
# Functions that open files or load code, in builds of SQLite that have them.
_UNSAFE_FUNCTIONS = {"load_extension", "fts3_tokenizer", "readfile", "writefile", "lsdir", "edit"}
# Of Python's driver: in some versions a second statement raises a Warning, and an error about a
# damaged schema may quote bytes that are not UTF-8.
_PROBLEMS = (sqlite3.Error, sqlite3.Warning, UnicodeError)


class SqliteFile(CursorDatabase):
    """An SQLite file, opened read-only."""

    tables = read_statement("sqlite-tables")

    def __init__(self, path: Path, decimal: str) -> None:
        self.path, self.decimal, self.place = path, decimal, str(path)

    @contextmanager
    def connect(self) -> Iterator[Any]:
        """Yield a read-only connection.

        The file's views are untrusted: neither they nor a query can do more than read tables.
        Virtual tables are refused, because they run code.
        """
        name = f"{self.path.absolute().as_uri()}?mode=ro"
        # Another thread may use the cursor.
        with closing(sqlite3.connect(name, uri=True, check_same_thread=False)) as connection:
            _restrict(connection)
            # Bytes that are not UTF-8 invalidate one cell, not the batch.
            connection.text_factory = lambda text: text.decode("utf-8", "surrogateescape")
            yield connection

    @contextmanager
    def errors(self, place: str) -> Iterator[None]:
        """Translate SQLite's errors into one line."""
        try:
            yield
        except _PROBLEMS as problem:
            raise data_error("unreadable", place=place, problem=one_line(problem)) from None

    def require_read_only(self, connection: Any, query: Query) -> None:
        """Raise SQLite's error unless the query is a single SELECT."""
        connection.execute(f"SELECT * FROM ({query.sql}) LIMIT 0")


def _restrict(connection: sqlite3.Connection) -> None:
    """Restrict a connection to reading the file's own tables and views.

    The authorizer denies every action but reading, such as ATTACH, PRAGMA and all that writes.
    """
    connection.execute("PRAGMA trusted_schema = OFF")  # views may call only harmless functions
    connection.execute("PRAGMA cell_size_check = ON")
    names = connection.execute(read_statement("sqlite-virtual-tables"))
    virtual = {str(name).lower() for (name,) in names}

    def authorize(action: int, first: str | None, second: str | None, *_: str | None) -> int:
        if action == sqlite3.SQLITE_READ:
            table = (first or "").lower()
            is_allowed = table not in virtual and not table.startswith("pragma_")
        elif action == sqlite3.SQLITE_FUNCTION:
            is_allowed = (second or "").lower() not in _UNSAFE_FUNCTIONS
        else:
            is_allowed = action in _READ_ACTIONS
        return sqlite3.SQLITE_OK if is_allowed else sqlite3.SQLITE_DENY

    connection.set_authorizer(authorize)
