"""Open data as a source, by its name or by the type of the object."""

from collections.abc import Iterable, Mapping, Sequence
from os.path import isdir
from pathlib import Path
from typing import Any

from privalue.readers.csv import EncodingError
from privalue.readers.databases import open_database
from privalue.readers.episodes import (
    is_recording,
    open_elements,
    open_recording,
    require_no_rewards_of_ends,
    require_truncated,
)
from privalue.readers.excel import is_workbook, open_excel
from privalue.readers.files import open_files
from privalue.readers.messages import data_error
from privalue.readers.minari import open_minari
from privalue.readers.names import is_on_server, require_showable, split_query
from privalue.readers.source import Dialect, Source
from privalue.readers.tables import open_table


def open_source(data: Any, dialect: Dialect, *, threads: int = 1, memory: int = 1 << 30) -> Source:
    """Return the rows of a file name, folder or glob, of an object in memory, or of a recording.

    Args:
        data: the data, in any form that ``release`` takes.
        dialect: the part of the study that sources know.
        threads: the most threads of a database.
        memory: the most memory of a database, in bytes.
    """
    if isinstance(data, str | Path) and not is_on_server(data):
        require_showable(data)
    recorded = open_minari(data, dialect)  # first, because a Minari dataset is iterable too
    if recorded is not None:
        return recorded
    if isinstance(data, str | Path):
        return _open_name(data, dialect, threads, memory)
    names = set(dialect.columns.values())
    if isinstance(data, Mapping) and is_recording(data) and not names <= set(map(str, data)):
        return open_recording(data, dialect)
    if isinstance(getattr(data, "truncated", None), int) and data.truncated:  # a rollout
        require_truncated("the rollout", dialect)
    table = open_table(data, dialect)
    if table is not None:
        return table
    elements = getattr(data, "episodes", data)  # a d3rlpy dataset has episodes
    if elements is not data:
        require_no_rewards_of_ends(dialect)
    if isinstance(elements, Iterable) and not isinstance(elements, str | bytes | memoryview):
        again = isinstance(elements, Sequence)
        return open_elements(lambda: enumerate(elements), dialect, rereadable=again)
    raise data_error("data-unknown", kind=type(data).__name__)


def _open_name(data: str | Path, dialect: Dialect, threads: int, memory: int) -> Source:
    """Return the rows of the workbook, database or files of this name."""
    if not str(data):
        raise data_error("name-empty")
    # Lone surrogates stand for bytes of the command line that are not UTF-8.
    if any(character == "\0" or "\ud800" <= character <= "\udfff" for character in str(data)):
        raise data_error("name-encoding")  # it may hold a password
    path, request = split_query(str(data))
    if is_workbook(path) and not isdir(path) and not is_on_server(data):
        return open_excel(path, request, dialect.decimal)
    return open_database(data, dialect.decimal, threads, memory) or open_files(data, dialect)


def column_names(data: str | Path) -> tuple[list[str], Mapping[str, str]]:
    """Return the names of the columns, and the delimiter and the encoding of a CSV file.

    They come from a file's heading or a schema, without reading a row.
    A heading that is not UTF-8 is read in one other encoding, whatever the rows contain.
    """
    try:
        source = open_source(data, Dialect())
    except EncodingError:  # that of spreadsheets on Windows in Western Europe
        source = open_source(data, Dialect(encoding="cp1252"))
    _, schema = source.schemas[0]
    return list(schema.names), source.heading
