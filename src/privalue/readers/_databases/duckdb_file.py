"""Read DuckDB files: a table, a view, or a query over them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

from privalue.errors import DataError
from privalue.readers._chunks import Chunk, Source, one_line
from privalue.readers._databases.duckdb_rows import (
    connected,
    explained,
    literal,
    only_these_files,
    query_chunks,
    readable_cells,
    require_select,
)
from privalue.readers._databases.request import Request, Table, quoted, requested
from privalue.readers._rules import RowRules

_TABLES = """
    SELECT schema_name, table_name, true FROM duckdb_tables()
    WHERE database_name = current_database() AND NOT internal
    UNION ALL
    SELECT schema_name, view_name, false FROM duckdb_views()
    WHERE database_name = current_database() AND NOT internal
    ORDER BY ALL
"""

_LOGS = (".wal", ".wal.checkpoint", ".wal.recovery")


def open_duckdb(path: Path, request: str | None, rules: RowRules) -> Source:
    """Return the rows of a table, a view or a query."""
    with attached(path) as connection:
        try:
            wanted = _wanted(connection, request, path)
            cells = readable_cells(connection.sql(wanted.query), rules, wanted.place)
            total_rows = None
            if wanted.table is not None and wanted.table.stored:
                counted = connection.sql(f"SELECT count(*) FROM {wanted.table.sql}")
                ((total_rows,),) = counted.fetchall()
        except duckdb.Error as problem:
            raise DataError(f"{path} cannot be read: {explained(problem)}") from None

    def chunks() -> Iterator[Chunk]:
        with attached(path) as connection:
            query = f"SELECT {cells} FROM ({wanted.query})"
            yield from query_chunks(connection, query, rules, wanted.place)

    return Source(chunks, total_rows=total_rows)


def duckdb_columns(path: Path, request: str | None) -> list[str]:
    """Return the names of the columns of a table, a view or a query."""
    with attached(path) as connection:
        try:
            return list(connection.sql(_wanted(connection, request, path).query).columns)
        except duckdb.Error as problem:
            raise DataError(f"{path} cannot be read: {explained(problem)}") from None


def _wanted(connection: duckdb.DuckDBPyConnection, request: str | None, path: Path) -> Request:
    """Return what is asked for, which is one SELECT."""
    wanted = requested(request, tables(connection), str(path))
    require_select(connection, wanted.query, wanted.place)
    return wanted


def tables(connection: duckdb.DuckDBPyConnection) -> list[Table]:
    """Return the tables and views of the attached file."""
    return [
        Table.of_schema(schema, name, near=schema == "main", stored=stored)
        for schema, name, stored in connection.sql(_TABLES).fetchall()
    ]


@contextmanager
def attached(path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a connection with the file attached, for reading only.

    The connection is to a database of our own, in memory, so that several processes may read the
    file. Whoever made the file also wrote its views: nothing but the file and its log can be
    opened, from before it is attached, and what is set cannot be set anew.
    """
    with connected() as connection:
        file = path.absolute()
        # The file's own name, because a view may use it, unless DuckDB has taken that name.
        alias = "AS trial" if path.stem.lower() in {"memory", "system", "temp"} else ""
        try:
            head, mark, tail = str(file).partition("?")  # DuckDB calls a file's log so
            logs = (Path(f"{head}{end}{mark}{tail}") for end in _LOGS)
            only_these_files(connection, [file, *logs])
            connection.execute(f"ATTACH {literal(str(file))} {alias} (READ_ONLY, TYPE duckdb)")
            ((own,),) = connection.execute(
                "SELECT database_name FROM duckdb_databases()"
                " WHERE NOT internal AND database_name <> 'memory'"
            ).fetchall()
            connection.execute(f"USE {quoted(own)}")
            connection.execute("SET lock_configuration = true")
        except duckdb.Error as problem:
            raise DataError(
                f"{path} cannot be opened: {one_line(problem)}; close other connections to "
                "it, or hand over a relation of theirs"
            ) from None
        yield connection
