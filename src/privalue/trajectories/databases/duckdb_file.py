"""DuckDB files, read as Arrow."""

import re
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import duckdb
import pyarrow as pa

from privalue.errors import DataError
from privalue.sections import Columns
from privalue.trajectories.chunks import BATCH_ROWS, Chunk, Source, select
from privalue.trajectories.databases.request import Table, in_chunks, one_line, quoted, requested

# What Arrow and ``encode`` take as it is. Everything else is read as its text: decimal numbers
# become whole numbers again where they are, and a mistake is quoted as it stands.
_PLAIN = re.compile(
    r"U?(TINYINT|SMALLINT|INTEGER|BIGINT)|FLOAT|DOUBLE|VARCHAR|BOOLEAN|DATE|TIME|"
    r"TIMESTAMP(_S|_MS|_NS| WITH TIME ZONE)?|ENUM\(.*\)",
    re.DOTALL,
)
_TABLES = """
    SELECT schema_name, table_name, true FROM duckdb_tables()
    WHERE database_name = current_database() AND NOT internal
    UNION ALL
    SELECT schema_name, view_name, false FROM duckdb_views()
    WHERE database_name = current_database() AND NOT internal
    ORDER BY ALL
"""


def open_duckdb(path: Path, request: str | None, columns: Columns) -> Source:
    """The rows of a table, a view or a query."""
    with _opened(path) as connection:
        try:
            wanted = requested(request, _tables(connection), str(path))
            if len(connection.extract_statements(wanted.query)) != 1:
                raise DataError(f"{wanted.place} must be a single statement")
            relation = connection.sql(wanted.query)
            names = select(columns, relation.columns, wanted.place)
            types = dict(zip(relation.columns, map(str, relation.types), strict=True))
            total_rows = None
            if wanted.table is not None and wanted.table.stored:
                counted = connection.sql(f"SELECT count(*) FROM {wanted.table.sql}")
                ((total_rows,),) = counted.fetchall()
        except duckdb.Error as problem:
            raise DataError(f"{path} cannot be read: {one_line(problem)}") from None
    cells = ", ".join(
        quoted(name)
        if _PLAIN.fullmatch(types[name])
        else f"CAST({quoted(name)} AS VARCHAR) AS {quoted(name)}"
        for name in names
    )

    def chunks() -> Iterator[Chunk]:
        with _opened(path) as connection:
            try:
                query = f"SELECT {cells} FROM ({wanted.query})"
                reader = connection.sql(query).to_arrow_reader(BATCH_ROWS)
            except duckdb.Error as problem:
                raise DataError(f"{wanted.place} cannot be read: {one_line(problem)}") from None
            problems = (duckdb.Error, pa.ArrowException, OSError)
            yield from in_chunks(lambda: next(reader, None), wanted.place, problems)

    return Source(chunks, total_rows=total_rows)


def _tables(connection: duckdb.DuckDBPyConnection) -> list[Table]:
    return [
        Table.of_schema(schema, name, near=schema == "main", stored=stored)
        for schema, name, stored in connection.sql(_TABLES).fetchall()
    ]


@contextmanager
def _opened(path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """The file, attached to a database of our own: several may read it at once.

    What a query spills goes to a private folder, and not beside the file.
    """
    with tempfile.TemporaryDirectory(prefix="privalue-") as spill:
        config = {
            "threads": 2,
            "memory_limit": "1GB",
            "temp_directory": spill,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
        with closing(duckdb.connect(config=config)) as connection:
            name = str(path.absolute()).replace("'", "''")
            # Its own name, which a view may use, unless that is taken.
            alias = "AS trial" if path.stem.lower() in {"memory", "system", "temp"} else ""
            try:
                connection.execute(f"ATTACH '{name}' {alias} (READ_ONLY)")
                ((attached,),) = connection.execute(
                    "SELECT database_name FROM duckdb_databases()"
                    " WHERE NOT internal AND database_name <> 'memory'"
                ).fetchall()
                connection.execute(f"USE {quoted(attached)}")
            except duckdb.Error as problem:
                raise DataError(
                    f"{path} cannot be opened: {one_line(problem)}; close other connections to "
                    "it, or hand over a relation of theirs"
                ) from None
            yield connection
