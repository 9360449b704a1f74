"""Open data as a source, by its name or by the type of the object."""

from collections.abc import Iterable, Mapping, Sequence
from os.path import isdir
from pathlib import Path
from typing import Any

from privalue.readers import excel
from privalue.readers.csv import EncodingError
from privalue.readers.databases import open_database
from privalue.readers.episodes import (
    is_recording,
    open_elements,
    open_recording,
    require_no_rewards_of_ends,
    require_truncated,
)
from privalue.readers.files import open_files
from privalue.readers.messages import data_error
from privalue.readers.minari import open_minari
from privalue.readers.names import is_on_server, require_name, split_query
from privalue.readers.source import Dialect, Source
from privalue.readers.tables import open_table


def open_source(data: Any, dialect: Dialect, *, threads: int = 1, memory: int = 1 << 30) -> Source:
    """Return the rows of files, a database, an object in memory or a recording.

    Args:
        data: the data, in any form that ``release`` takes.
        dialect: the part of the study that sources depend on.
        threads: the most threads that a database may use.
        memory: the most memory that a database may use, in bytes.
    """
    if isinstance(data, str | Path):
        require_name(data)
    minari = open_minari(data, dialect)  # first, because a Minari dataset is iterable, too
    if minari is not None:
        return minari
    if isinstance(data, str | Path):
        path, request = split_query(str(data))
        if path.name.lower().endswith(excel.ENDINGS) and not isdir(path) and not is_on_server(data):
            return excel.open_excel(path, request, dialect.decimal)
        return open_database(data, dialect.decimal, threads, memory) or open_files(data, dialect)
    names = set(dialect.columns.values())
    if isinstance(data, Mapping) and is_recording(data) and not names <= set(map(str, data)):
        return open_recording(data, dialect)
    if isinstance(getattr(data, "truncated", None), int) and data.truncated:  # a rollout
        require_truncated("the rollout", dialect)
    table = open_table(data, dialect)
    if table is not None:
        return table
    elements = getattr(data, "episodes", data)  # a dataset of d3rlpy has episodes
    if elements is not data:
        require_no_rewards_of_ends(dialect)
    if isinstance(elements, Iterable) and not isinstance(elements, str | bytes | memoryview):
        rereadable = isinstance(elements, Sequence)
        return open_elements(lambda: enumerate(elements), dialect, rereadable=rereadable)
    raise data_error("data-unknown", kind=type(data).__name__)


def column_names(data: str | Path) -> tuple[list[str], Mapping[str, str]]:
    """Return the names of the columns, and the delimiter and the encoding of a CSV file.

    Both come from the heading or the schema; no row is read. A heading that is not UTF-8 is decoded
    as cp1252, whatever the rows contain.
    """
    try:
        source = open_source(data, Dialect())
    except EncodingError:  # cp1252 is what spreadsheets write on Windows in Western Europe
        source = open_source(data, Dialect(encoding="cp1252"))
    _, schema = source.schemas[0]
    return list(schema.names), source.csv_format
