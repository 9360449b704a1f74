"""Read SQLite files with Python's own driver; a column may hold numbers and texts at once."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from privalue.errors import DataError
from privalue.readers.databases.cursor import column_names, fetch
from privalue.readers.databases.query import Query, Table, quoted
from privalue.readers.source import one_line, texts

_READING = {
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
}
# Functions that open files or hand over code, where somebody's SQLite has them.
_ACTING = {"load_extension", "fts3_tokenizer", "readfile", "writefile", "lsdir", "edit"}
_DEFENSIVE = 1010  # SQLITE_DBCONFIG_DEFENSIVE, which Python 3.12 names
# Of Python's driver; that a text holds two statements is a Warning in some of its versions. SQLite
# quotes a damaged schema in its error, bytes and all.
_PROBLEMS = (sqlite3.Error, sqlite3.Warning, UnicodeDecodeError)


@dataclass(frozen=True)
class SqliteFile:
    """A file that is opened for reading only."""

    path: Path
    decimal: str

    @property
    def place(self) -> str:
        """Return what messages call it."""
        return str(self.path)

    @contextmanager
    def connect(self) -> Iterator["_Sqlite"]:
        """Yield a connection for reading only.

        Whoever made the file also wrote its views: no text of the file, and no query, can do more
        than read its tables. Virtual tables are refused, because they are programs.
        """
        with self.errors(self.place):
            # Another thread may go on with the cursor that this one opened.
            connection = sqlite3.connect(
                f"{self.path.absolute().as_uri()}?mode=ro", uri=True, check_same_thread=False
            )
        with closing(connection):
            with self.errors(self.place):
                _confine(connection)
            # Bytes that are not UTF-8 make one cell invalid, and not the batch.
            connection.text_factory = lambda text: text.decode("utf-8", "surrogateescape")
            yield _Sqlite(connection, self.decimal)

    @contextmanager
    def errors(self, place: str) -> Iterator[None]:
        """Turn what SQLite says into one line; if it was not allowed, say what is."""
        try:
            yield
        except _PROBLEMS as problem:
            said = one_line(problem)
            if re.search("authoriz|prohibited|unsafe use|vtable constructor", said):
                said += "; tables and views of the file are read, and nothing else is done"
            raise DataError(f"{place} cannot be read: {said}") from None


class _Sqlite:
    def __init__(self, connection: sqlite3.Connection, decimal: str) -> None:
        self._connection, self._decimal = connection, decimal

    def tables(self) -> list[Table]:
        found = self._connection.execute(
            "SELECT name, type = 'table' FROM sqlite_master WHERE type IN ('table', 'view')"
            " AND substr(name, 1, 7) <> 'sqlite_' ORDER BY name"
        )
        return [Table((name,), quoted(name), stored=bool(stored)) for name, stored in found]

    def schema(self, query: Query) -> pa.Schema:
        self._connection.execute(f"SELECT * FROM ({query.sql}) LIMIT 0")  # nothing but a SELECT
        with closing(self._connection.execute(query.sql)) as cursor:
            return texts(column_names(cursor))

    def count(self, table: Table) -> int | None:
        (rows,) = self._connection.execute(f"SELECT count(*) FROM {table.sql}").fetchone()
        return int(rows)

    def batches(self, query: Query, names: list[str]) -> Iterator[pa.RecordBatch]:
        sql = query.sql
        if query.table is not None:  # not by an index: rows are numbered as they stand in the table
            sql = f"SELECT {', '.join(map(quoted, names))} FROM {query.table.sql} NOT INDEXED"
        yield from fetch(self._connection.execute(sql), names, self._decimal)


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
