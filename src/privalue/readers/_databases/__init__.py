"""Read tables and queries of databases: DuckDB and SQLite files, PostgreSQL servers.

``trial.duckdb::rows`` is a table or a view, ``trial.duckdb::SELECT ...`` a query; the table need
not be named if there is one only. Files are opened for reading only, and a server is asked in a
read-only transaction, batch by batch. Whatever a view or a query says, nothing else is opened or
done. Messages name neither user nor password.
"""

from os.path import isdir, isfile
from pathlib import Path

from privalue.errors import DataError
from privalue.ledger.addresses import divide_address
from privalue.readers._chunks import Source
from privalue.readers._databases.postgres import open_postgres, postgres_columns
from privalue.readers._databases.sqlite_file import open_sqlite, sqlite_columns
from privalue.readers._names import divided, on_server
from privalue.readers._rules import RowRules

__all__ = ["database_columns", "open_database"]

_ENDINGS = (".duckdb", ".ddb", ".sqlite", ".sqlite3", ".db")


def open_database(data: str | Path, rules: RowRules) -> Source | None:
    """Return the rows of a table or a query, or None if ``data`` does not name a database."""
    found = _database(data)
    if found is None:
        return None
    kind, where, request = found
    if kind == "postgresql":
        return open_postgres(str(where), request, rules)
    if kind == "sqlite":
        return open_sqlite(Path(where), request, rules)
    from privalue.readers._databases.duckdb_file import open_duckdb  # noqa: PLC0415 - it is heavy

    return open_duckdb(Path(where), request, rules)


def database_columns(data: str | Path) -> list[str] | None:
    """Return the names of the columns, or None if ``data`` does not name a database."""
    found = _database(data)
    if found is None:
        return None
    kind, where, request = found
    if kind == "postgresql":
        return postgres_columns(str(where), request)
    if kind == "sqlite":
        return sqlite_columns(Path(where), request)
    from privalue.readers._databases.duckdb_file import duckdb_columns  # noqa: PLC0415 - as above

    return duckdb_columns(Path(where), request)


def _database(data: str | Path) -> tuple[str, str | Path, str | None] | None:
    """Return the kind of the database, where it is, and what is wanted of it; None if none."""
    if on_server(data):
        return "postgresql", *divide_address(str(data))
    path, request = divided(str(data))
    head = _first_bytes(path)
    if head[8:12] == b"DUCK":
        return "duckdb", path, request
    if head == b"SQLite format 3\0":
        return "sqlite", path, request
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
