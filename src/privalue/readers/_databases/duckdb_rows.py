"""Read with DuckDB: a connection that keeps nothing on disk, and its rows as Arrow."""

import re
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import duckdb
import pyarrow as pa

from privalue.errors import DataError
from privalue.readers._chunks import BATCH_ROWS, Chunk, one_line
from privalue.readers._databases.request import in_chunks, quoted
from privalue.readers._rules import RowRules

# Types whose cells Arrow has as they are. Some others are exact as texts, cell by cell; the rest
# hold nothing that a cell could be.
_PLAIN = re.compile(
    r"U?(TINYINT|SMALLINT|INTEGER|BIGINT)|FLOAT|DOUBLE|VARCHAR|BOOLEAN|DATE|DECIMAL\(.*\)|"
    r"TIMESTAMP(_S|_MS|_NS| WITH TIME ZONE)?|ENUM\(.*\)|\"?NULL\"?",
    re.DOTALL,
)
_AS_TEXT = re.compile(r"U?HUGEINT|UUID|BIGNUM|VARINT")


@contextmanager
def connected() -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a connection to a database of our own, in memory; no other way to DuckDB exists here.

    It may not spill to disk: its files would have a name, be readable, and outlive a killed
    process. It neither loads extensions nor sees variables of Python. Whoever asks something of it
    that others wrote says before which files it may open (``only_these_files``).
    """
    config = {
        "threads": 2,
        "temp_directory": "",
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "python_enable_replacements": False,
    }
    with closing(duckdb.connect(config=config)) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection


def only_these_files(connection: duckdb.DuckDBPyConnection, paths: Iterable[Path]) -> None:
    """Let a connection open these files and nothing else: no file, no address, no extension."""
    names = ", ".join(literal(str(path)) for path in paths)
    connection.execute(f"SET allowed_paths = [{names}]")
    connection.execute("SET enable_external_access = false")


def require_select(connection: duckdb.DuckDBPyConnection, query: str, place: str) -> None:
    """Refuse what is not a single SELECT: DuckDB would run all but the last statement at once."""
    kinds = [statement.type for statement in connection.extract_statements(query)]
    if len(kinds) != 1:
        raise DataError(f"{place} must be a single statement")
    if kinds != [duckdb.StatementType.SELECT]:
        raise DataError(f"{place} must be a SELECT; nothing else is asked of a database")


def readable_cells(relation: duckdb.DuckDBPyRelation, rules: RowRules, place: str) -> str:
    """Return the needed columns as SQL; refuse a type that holds nothing a cell could be."""
    names = rules.select(relation.columns, place)
    types = dict(zip(relation.columns, map(str, relation.types), strict=True))
    cells = []
    for name in names:
        kind = types[name]
        if _PLAIN.fullmatch(kind):
            cells.append(quoted(name))
        elif _AS_TEXT.fullmatch(kind):
            cells.append(f"CAST({quoted(name)} AS VARCHAR) AS {quoted(name)}")
        else:
            raise DataError(
                f"{place}: the column {name!r} is of type {kind}, which holds no number, text, "
                "date or time; convert it in a query"
            )
    return ", ".join(cells)


def query_chunks(
    connection: duckdb.DuckDBPyConnection, query: str, rules: RowRules, place: str
) -> Iterator[Chunk]:
    """Yield the rows of a query, batch by batch.

    Args:
        connection: to DuckDB.
        query: selects the needed columns.
        rules: what their cells must be.
        place: what messages call the source.

    Returns:
        The chunks, numbered in the order of the result.
    """
    try:
        reader = connection.sql(query).to_arrow_reader(BATCH_ROWS)
        schema = reader.schema
    except duckdb.Error as problem:
        raise DataError(f"{place} cannot be read: {explained(problem)}") from None
    rules.require_types(zip(schema.names, schema.types, strict=True), place)
    problems = (duckdb.Error, pa.ArrowException, OSError)
    yield from in_chunks(lambda: next(reader, None), place, problems)


def explained(problem: Exception) -> str:
    """Return what DuckDB says, in one line; if memory or rights run out, what to do."""
    if isinstance(problem, duckdb.OutOfMemoryException):
        return (
            "the query takes more memory than there is, and its rows are not put on disk; write "
            "its result to a Parquet file first, and give that"
        )
    if isinstance(problem, duckdb.PermissionException):
        return (
            f"{one_line(problem)}; a view or a query may open nothing but what is named as data: "
            "copy the rows into a table"
        )
    return one_line(problem)


def literal(value: str) -> str:
    """Return a text as SQL writes it."""
    return "'" + value.replace("'", "''") + "'"
