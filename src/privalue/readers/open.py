"""Open whatever holds rows as a source, by its name or by what it is."""

import re
from collections.abc import Iterable, Mapping, Sequence
from os.path import exists, isdir
from pathlib import Path
from typing import Any, NamedTuple

from privalue.errors import DataError
from privalue.readers.csv import EncodingError
from privalue.readers.databases import open_database
from privalue.readers.episodes import is_recording, open_elements, open_recording
from privalue.readers.excel import is_workbook, open_excel
from privalue.readers.files import open_files
from privalue.readers.local import default_memory, usable_cores
from privalue.readers.minari import open_minari
from privalue.readers.names import is_on_server, require_showable, split_query
from privalue.readers.source import Dialect, Source
from privalue.readers.tables import is_table, open_table, open_tables

_QUERY = re.compile(r"\s*(select|with|from)\s", re.IGNORECASE)
# What spreadsheets on Windows write in Western Europe, where they do not write UTF-8.
_FALLBACK = "cp1252"


def open_source(
    data: Any, dialect: Dialect, *, threads: int | None = None, memory: int | None = None
) -> Source:
    """Return the rows of a file name, folder or glob, of an object in memory, or of a recording.

    Args:
        data: what holds rows.
        dialect: what a source may know of the study.
        threads: that a database may use.
        memory: bytes that a database may use.
    """
    if isinstance(data, str | Path) and not is_on_server(data):
        require_showable(data)
    recorded = open_minari(data, dialect)  # first, because a Minari dataset is iterable too
    if recorded is not None:
        return recorded
    if isinstance(data, str | Path):
        return _open_name(data, dialect, threads or usable_cores(), memory or default_memory())
    names = set(dialect.columns.values())
    if isinstance(data, Mapping) and is_recording(data) and not names <= set(map(str, data)):
        return open_recording(data, dialect)
    table = open_table(data, dialect)
    if table is not None:
        return table
    episodes = getattr(data, "episodes", None)  # of a d3rlpy dataset
    if isinstance(episodes, Sequence):
        return open_elements(episodes, dialect)
    if isinstance(data, Sequence) and data and is_table(data[0]):
        return open_tables(data, dialect)
    if isinstance(data, Iterable) and not isinstance(data, str | bytes | memoryview):
        return open_elements(data, dialect)
    raise DataError(
        f"data of type {type(data).__name__} is not understood; give a file name, a pandas, Polars "
        "or Arrow table, a dict of columns, a list of dicts, or a list of episodes"
    )


def _open_name(data: str | Path, dialect: Dialect, threads: int, memory: int) -> Source:
    """Return the rows of what a name stands for: a workbook, a database, or files."""
    if not str(data):
        raise DataError("the name of the data is empty; give a file, a database or a dataset")
    if any(0xD800 <= ord(character) <= 0xDFFF for character in str(data)):
        raise DataError("the name of the data is no UTF-8; rename it")  # it may hold a password
    if _QUERY.match(str(data)) and not exists(data):
        raise DataError(
            "a query is asked of a database, as in trial.duckdb::SELECT ...; of files, write its "
            "result first: duckdb -c \"COPY (SELECT ...) TO 'rows.parquet'\""
        )
    path, request = split_query(str(data))
    if is_workbook(path) and not isdir(path) and not is_on_server(data):
        return open_excel(path, request, dialect.decimal)
    return open_database(data, dialect.decimal, threads, memory) or open_files(data, dialect)


class ColumnNames(NamedTuple):
    """The names of columns, in order."""

    names: list[str]
    encoding: str | None = None  # of a CSV file whose heading is not UTF-8: a guess


def column_names(data: str | Path) -> ColumnNames:
    """Return the names of the columns: the heading of a file, or a schema; no row is read.

    A heading that is not UTF-8 is tried in one other encoding; the rows have no say in that.
    """
    encoding = None
    try:
        source = open_source(data, Dialect())
    except EncodingError:
        encoding = _FALLBACK
        try:
            source = open_source(data, Dialect(encoding=_FALLBACK))
        except EncodingError:
            raise DataError(
                f"the heading of {data} is neither utf-8 nor {_FALLBACK}; save it as utf-8"
            ) from None
    (_, schema), *_ = source.schemas
    return ColumnNames(list(schema.names), encoding)
