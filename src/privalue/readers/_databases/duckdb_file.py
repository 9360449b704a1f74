"""Read DuckDB files: a table, a view, or a query over them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

from privalue.errors import DataError
from privalue.readers._chunks import Chunk, Source, one_line
from privalue.readers._databases.duckdb_rows import connected, query_chunks, readable_cells
from privalue.readers._databases.request import Table, quoted, requested
from privalue.readers._rules import RowRules

_TABLES = """
    SELECT schema_name, table_name, true FROM duckdb_tables()
    WHERE database_name = current_database() AND NOT internal
    UNION ALL
    SELECT schema_name, view_name, false FROM duckdb_views()
    WHERE database_name = current_database() AND NOT internal
    ORDER BY ALL
"""


def open_duckdb(path: Path, request: str | None, rules: RowRules) -> Source:
    """Return the rows of a table, a view or a query."""
    with attached(path) as connection:
        try:
            wanted = requested(request, tables(connection), str(path))
            if len(connection.extract_statements(wanted.query)) != 1:
                raise DataError(f"{wanted.place} must be a single statement")
            cells = readable_cells(connection.sql(wanted.query), rules, wanted.place)
            total_rows = None
            if wanted.table is not None and wanted.table.stored:
                counted = connection.sql(f"SELECT count(*) FROM {wanted.table.sql}")
                ((total_rows,),) = counted.fetchall()
        except duckdb.Error as problem:
            raise DataError(f"{path} cannot be read: {one_line(problem)}") from None

    def chunks() -> Iterator[Chunk]:
        with attached(path) as connection:
            query = f"SELECT {cells} FROM ({wanted.query})"
            yield from query_chunks(connection, query, rules, wanted.place)

    return Source(chunks, total_rows=total_rows)


def duckdb_columns(path: Path, request: str | None) -> list[str]:
    """Return the names of the columns of a table, a view or a query."""
    with attached(path) as connection:
        try:
            wanted = requested(request, tables(connection), str(path))
            return list(connection.sql(wanted.query).columns)
        except duckdb.Error as problem:
            raise DataError(f"{path} cannot be read: {one_line(problem)}") from None


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
    file.
    """
    with connected() as connection:
        name = str(path.absolute()).replace("'", "''")
        # The file's own name, because a view may use it, unless DuckDB has taken that name.
        alias = "AS trial" if path.stem.lower() in {"memory", "system", "temp"} else ""
        try:
            connection.execute(f"ATTACH '{name}' {alias} (READ_ONLY)")
            ((own,),) = connection.execute(
                "SELECT database_name FROM duckdb_databases()"
                " WHERE NOT internal AND database_name <> 'memory'"
            ).fetchall()
            connection.execute(f"USE {quoted(own)}")
        except duckdb.Error as problem:
            raise DataError(
                f"{path} cannot be opened: {one_line(problem)}; close other connections to "
                "it, or hand over a relation of theirs"
            ) from None
        yield connection
