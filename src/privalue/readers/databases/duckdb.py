"""Read DuckDB files: a table, a view, or a query over them."""

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa

from privalue.errors import DataError
from privalue.readers.databases.query import Query, Table, quoted
from privalue.readers.source import BATCH_ROWS, one_line

_TABLES = """
    SELECT schema_name, table_name, true FROM duckdb_tables()
    WHERE database_name = current_database() AND NOT internal
    UNION ALL
    SELECT schema_name, view_name, false FROM duckdb_views()
    WHERE database_name = current_database() AND NOT internal
    ORDER BY ALL
"""
_LOGS = (".wal", ".wal.checkpoint", ".wal.recovery")
# Types whose cells Arrow has as they are. Some others are exact as texts, cell by cell; the rest
# hold nothing that a cell could be.
_PLAIN = re.compile(
    r"U?(TINYINT|SMALLINT|INTEGER|BIGINT)|FLOAT|DOUBLE|VARCHAR|BOOLEAN|DATE|DECIMAL\(.*\)|"
    r"TIMESTAMP(_S|_MS|_NS| WITH TIME ZONE)?|ENUM\(.*\)|\"?NULL\"?",
    re.DOTALL,
)
_AS_TEXT = re.compile(r"U?HUGEINT|UUID|BIGNUM|VARINT")


@contextmanager
def connect(threads: int, memory: int) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a connection to a database of our own, in memory; no other way to DuckDB exists here.

    It may not spill to disk: its files would have a name, be readable, and outlive a killed
    process. It neither loads extensions nor sees variables of Python. Whoever asks something of it
    that others wrote says before which files it may open.
    """
    config = {
        "threads": threads,
        "memory_limit": f"{max(memory >> 20, 64)}MiB",
        "temp_directory": "",
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "python_enable_replacements": False,
    }
    with closing(duckdb.connect(config=config)) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection


@dataclass(frozen=True)
class DuckDbFile:
    """A file that is attached for reading only."""

    path: Path
    threads: int
    memory: int

    @property
    def place(self) -> str:
        """Return what messages call it."""
        return str(self.path)

    @contextmanager
    def connect(self) -> Iterator["_DuckDb"]:
        """Yield a connection with the file attached.

        The connection is to a database of our own, so that several processes may read the file.
        Whoever made the file also wrote its views: nothing but the file and its log can be opened,
        from before it is attached, and what is set cannot be set anew.
        """
        with connect(self.threads, self.memory) as connection:
            file = self.path.absolute()
            # The file's own name, because a view may use it, unless DuckDB has taken that name.
            taken = self.path.stem.lower() in {"memory", "system", "temp"}
            alias = "AS trial" if taken else ""
            try:
                head, mark, tail = str(file).partition("?")  # DuckDB calls a file's log so
                logs = (f"{head}{end}{mark}{tail}" for end in _LOGS)
                allowed = ", ".join(_literal(name) for name in (str(file), *logs))
                connection.execute(f"SET allowed_paths = [{allowed}]")
                connection.execute("SET enable_external_access = false")
                connection.execute(f"ATTACH {_literal(str(file))} {alias} (READ_ONLY, TYPE duckdb)")
                ((own,),) = connection.execute(
                    "SELECT database_name FROM duckdb_databases()"
                    " WHERE NOT internal AND database_name <> 'memory'"
                ).fetchall()
                connection.execute(f"USE {quoted(own)}")
                connection.execute("SET lock_configuration = true")
            except duckdb.Error as problem:
                raise DataError(
                    f"{self.path} cannot be opened: {one_line(problem)}; close other connections "
                    "to it, or hand over a relation of theirs"
                ) from None
            yield _DuckDb(connection)

    @contextmanager
    def errors(self, place: str) -> Iterator[None]:
        """Turn what DuckDB says into one line; if memory or rights run out, say what to do."""
        try:
            yield
        except (duckdb.Error, pa.ArrowException, OSError) as problem:
            said = one_line(problem)
            if isinstance(problem, duckdb.OutOfMemoryException):
                said = (
                    "the query takes more memory than it may (--memory), and its rows are not put "
                    "on disk; write its result to a Parquet file first, and give that"
                )
            elif isinstance(problem, duckdb.PermissionException):
                said += (
                    "; a view or a query may open nothing but what is named as data: copy the rows "
                    "into a table"
                )
            raise DataError(f"{place} cannot be read: {said}") from None


class _DuckDb:
    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection

    def tables(self) -> list[Table]:
        return [
            Table.of_schema(schema, name, near=schema == "main", stored=stored)
            for schema, name, stored in self._connection.sql(_TABLES).fetchall()
        ]

    def schema(self, query: Query) -> pa.Schema:
        self._require_select(query)
        relation = self._connection.sql(query.sql)
        types = dict(zip(relation.columns, map(str, relation.types), strict=True))
        if len(types) < len(relation.columns):  # a name stands there twice
            return pa.schema([(name, pa.string()) for name in relation.columns])
        readable = [name for name in types if _PLAIN.fullmatch(types[name])]
        found = self._connection.sql(self._select(query, readable)).to_arrow_reader(1).schema
        kinds = dict(zip(found.names, found.types, strict=True))
        other = {name: pa.string() for name in types if _AS_TEXT.fullmatch(types[name])}
        return pa.schema([(name, {**kinds, **other}.get(name, pa.binary())) for name in types])

    def count(self, table: Table) -> int | None:
        ((rows,),) = self._connection.sql(f"SELECT count(*) FROM {table.sql}").fetchall()
        return int(rows)

    def batches(self, query: Query, names: list[str]) -> Iterator[pa.RecordBatch]:
        yield from self._connection.sql(self._select(query, names)).to_arrow_reader(BATCH_ROWS)

    def _require_select(self, query: Query) -> None:
        """Refuse what is not a single SELECT: DuckDB would run all but the last one at once."""
        kinds = [statement.type for statement in self._connection.extract_statements(query.sql)]
        if len(kinds) != 1:
            raise DataError(f"{query.place} must be a single statement")
        if kinds != [duckdb.StatementType.SELECT]:
            raise DataError(f"{query.place} must be a SELECT; nothing else is asked of a database")

    def _select(self, query: Query, names: list[str]) -> str:
        """Return a query for some columns, those without an exact type in Arrow as texts."""
        relation = self._connection.sql(query.sql)
        types = dict(zip(relation.columns, map(str, relation.types), strict=True))
        cells = (
            f"CAST({quoted(name)} AS VARCHAR) AS {quoted(name)}"
            if _AS_TEXT.fullmatch(types[name])
            else quoted(name)
            for name in names
        )
        return f"SELECT {', '.join(cells) or 'NULL'} FROM ({query.sql})"


def _literal(value: str) -> str:
    """Return a text as SQL writes it."""
    return "'" + value.replace("'", "''") + "'"
