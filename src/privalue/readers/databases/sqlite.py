"""Read SQLite files with Python's own driver; a column may hold numbers and texts at once."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from privalue.readers.databases.cursor import CursorDatabase
from privalue.readers.databases.query import Query, statement
from privalue.readers.messages import data_error, one_line

_READING = {
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
}
# Functions that open files or load code, in builds of SQLite that have them.
_ACTING = {"load_extension", "fts3_tokenizer", "readfile", "writefile", "lsdir", "edit"}
_DEFENSIVE = 1010  # SQLITE_DBCONFIG_DEFENSIVE, which Python 3.12 names
# Errors of Python's driver; in some versions a second statement raises a Warning. SQLite's error
# about a damaged schema may quote bytes that are not UTF-8.
_PROBLEMS = (sqlite3.Error, sqlite3.Warning, UnicodeDecodeError)


class SqliteFile(CursorDatabase):
    """An SQLite file, opened read-only."""

    tables = statement("sqlite-tables")

    def __init__(self, path: Path, decimal: str) -> None:
        self.path, self.decimal, self.place = path, decimal, str(path)

    @contextmanager
    def connect(self) -> Iterator[Any]:
        """Yield a read-only connection.

        The file's views are untrusted: neither they nor a query can do more than read tables.
        Virtual tables are refused, because they run code.
        """
        with self.errors(self.place):
            # The cursor may be used by another thread.
            connection = sqlite3.connect(
                f"{self.path.absolute().as_uri()}?mode=ro", uri=True, check_same_thread=False
            )
        with closing(connection):
            with self.errors(self.place):
                _confine(connection)
            # Bytes that are not UTF-8 make only one cell invalid, not the batch.
            connection.text_factory = lambda text: text.decode("utf-8", "surrogateescape")
            yield connection

    @contextmanager
    def errors(self, place: str) -> Iterator[None]:
        """Translate SQLite's errors into one line."""
        try:
            yield
        except _PROBLEMS as problem:
            raise data_error("unreadable", place=place, problem=one_line(problem)) from None

    def require_reading(self, connection: Any, query: Query) -> None:
        """Raise SQLite's error unless the query is a single SELECT."""
        connection.execute(f"SELECT * FROM ({query.sql}) LIMIT 0")


def _confine(connection: sqlite3.Connection) -> None:
    """Restrict a connection to reading the file's own tables and views."""
    if hasattr(connection, "setconfig"):  # Python 3.12 and later
        connection.setconfig(_DEFENSIVE, True)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    connection.execute("PRAGMA query_only = ON")
    connection.execute("PRAGMA trusted_schema = OFF")  # views may call only harmless functions
    connection.execute("PRAGMA cell_size_check = ON")
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
