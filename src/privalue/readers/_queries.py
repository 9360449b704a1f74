"""Read ``SELECT ... FROM 'file.parquet'``: one query of DuckDB over the files that it names.

No other file can be read. A CSV file is loaded as a table of texts, line by line as everywhere
(``_csv_files``): if DuckDB read it, one row could decide the type of a column. The guarantee is for
the rows that a query returns. A join, a window or an aggregate across units lets one unit change
the rows of another, and the guarantee does not cover that.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from privalue.errors import DataError
from privalue.ledger.addresses import may_hold_password
from privalue.readers._chunks import Chunk, Source, one_line
from privalue.readers._csv_files import csv_chunks, is_csv, open_csv
from privalue.readers._databases.duckdb_rows import (
    connected,
    explained,
    literal,
    only_these_files,
    query_chunks,
    readable_cells,
)
from privalue.readers._databases.request import quoted
from privalue.readers._files import find_files, parquet_file
from privalue.readers._rules import RowRules

PLACE = "the query"
_FUNCTIONS = {"range", "generate_series", "unnest"}  # that read nothing


def open_query(query: str, rules: RowRules) -> Source:
    """Return the rows of a query over files."""
    with ready(query, rules) as (connection, wanted):
        try:
            found = connection.sql(wanted)
            needed = {name.lower() for name in rules.names}
            _require_distinct([name for name in found.columns if name.lower() in needed], PLACE)
            cells = readable_cells(found, rules, PLACE)
        except duckdb.Error as problem:
            raise DataError(f"{PLACE} cannot be read: {explained(problem)}") from None

    def chunks() -> Iterator[Chunk]:
        with ready(query, rules) as (connection, wanted):
            yield from query_chunks(connection, f"SELECT {cells} FROM ({wanted})", rules, PLACE)

    return Source(chunks)


@contextmanager
def ready(query: str, rules: RowRules) -> Iterator[tuple[duckdb.DuckDBPyConnection, str]]:
    """Yield a connection that can read the query's files and nothing else, and the query."""
    wanted = query.strip().rstrip(";").rstrip()
    with connected() as connection:
        allowed: list[Path] = []
        for name in _named(connection, wanted):
            allowed += _put_in(connection, name, rules)
        only_these_files(connection, allowed)
        connection.execute("SET lock_configuration = true")
        yield connection, wanted


def _named(connection: duckdb.DuckDBPyConnection, query: str) -> list[str]:
    """Return the tables that a query names, without those that it defines itself."""
    (found,) = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [query]).fetchall()
    parsed = json.loads(found[0])
    if parsed["error"]:
        said = one_line(parsed["error_message"])
        if may_hold_password(query):  # a part of which the message quotes
            said = "it is no SQL, and is not shown, because it may hold a password"
        raise DataError(f"{PLACE} cannot be read: {said}")
    if len(parsed["statements"]) != 1:
        raise DataError(f"{PLACE} must be a single statement")
    names: dict[str, None] = {}
    own: set[str] = set()
    for node in _nodes(parsed["statements"]):
        if node.get("type") == "BASE_TABLE":
            parts = (node.get("catalog_name"), node.get("schema_name"), node["table_name"])
            names[".".join(part for part in parts if part)] = None
        elif node.get("type") == "TABLE_FUNCTION":
            function = str(node["function"]["function_name"])
            if function.lower() not in _FUNCTIONS:
                raise DataError(
                    f"{PLACE} calls {function}(); name the file itself: FROM 'trial.parquet'"
                )
        own |= {entry["key"] for entry in (node.get("cte_map") or {}).get("map", [])}
    return [name for name in names if name not in own]


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """Yield every object of a parsed query."""
    if isinstance(tree, dict):
        yield tree
        for value in tree.values():
            yield from _nodes(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from _nodes(value)


def _put_in(connection: duckdb.DuckDBPyConnection, name: str, rules: RowRules) -> list[Path]:
    """Make a view or a table of a named file; return the files that DuckDB may open for it."""
    paths = find_files(name)
    if all(is_csv(path) for path in paths):
        if len(paths) > 1:
            raise DataError(f"{PLACE} names {name}, {len(paths)} CSV files; name one at a time")
        _table_of_texts(connection, name, paths[0], rules)
        return []
    if any(is_csv(path) for path in paths):
        raise DataError(f"{PLACE} names {name}, both CSV and Parquet files; name one kind")
    _require_one_schema(name, paths)
    files = ", ".join(literal(str(path.absolute())) for path in paths)
    try:
        connection.execute(
            f"CREATE VIEW {quoted(name)} AS SELECT * FROM read_parquet([{files}], "
            "hive_partitioning = false)"
        )
    except duckdb.Error as problem:
        raise DataError(f"{name} cannot be read as Parquet: {one_line(problem)}") from None
    return [path.absolute() for path in paths]


def _require_one_schema(name: str, paths: Sequence[Path]) -> None:
    """Refuse files with different columns or types: DuckDB would convert some of them.

    A column that is there twice is refused, too: DuckDB would rename one, and read the other.
    """
    first: Any = None
    for path in paths:
        with parquet_file(path) as file:
            schema = file.schema_arrow.remove_metadata()
        _require_distinct(schema.names, path)
        first = first or schema
        if not schema.equals(first):
            raise DataError(
                f"{PLACE} names {name}, whose files have different columns or types ({path}); "
                "convert them to the same"
            )


def _require_distinct(columns: Sequence[str], place: str | Path) -> None:
    """Refuse a column whose name another one has; for DuckDB, case makes no difference."""
    known: set[str] = set()
    for column in columns:
        if column.lower() in known:
            raise DataError(f"{place} has the column {column!r} more than once; rename one")
        known.add(column.lower())


def _table_of_texts(
    connection: duckdb.DuckDBPyConnection, name: str, path: Path, rules: RowRules
) -> None:
    """Load a CSV file as a table, all columns as texts."""
    every = replace(rules, columns={}, by_person=False)
    columns = open_csv(path, every).heading.columns
    _require_distinct(columns, path)
    file = open_csv(path, replace(every, columns={column: column for column in columns}))
    file = file._replace(plain=None)  # cells as they are written, not as numbers
    schema = pa.schema([(column, pa.string()) for column in columns])
    staged = pa.RecordBatchReader.from_batches(schema, (chunk.rows for chunk in csv_chunks(file)))
    try:
        connection.register("privalue_staged", staged)
        connection.execute(f"CREATE TABLE {quoted(name)} AS SELECT * FROM privalue_staged")
        connection.unregister("privalue_staged")
    except duckdb.Error as problem:
        if isinstance(problem.__cause__, DataError):
            raise problem.__cause__ from None
        raise DataError(f"{path} cannot be read: {explained(problem)}") from None
