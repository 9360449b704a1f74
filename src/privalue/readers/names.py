"""Classify data by its name or type alone: a query, an address of a server, or a file."""

import glob
import re
from contextlib import suppress
from os.path import exists, isfile
from pathlib import Path

from privalue.errors import DataError
from privalue.ledger.addresses import QUERY, malformed_address, may_hold_password, names_server
from privalue.readers.messages import data_error

_QUERIES = {("polars", "LazyFrame"), ("duckdb", "DuckDBPyRelation"), ("pyspark", "DataFrame")}


def is_query_result(data: object) -> bool:
    """Return whether rows are the result of a query, which may combine several units."""
    package, kind = type(data).__module__.split(".")[0].lstrip("_"), type(data).__name__
    text = str(data) if isinstance(data, str | Path) else ""
    # Any "::" may be the one before the query: file names and queries may hold others.
    requests = (text[mark.end() :] for mark in re.finditer("::", text))
    return (package, kind) in _QUERIES or any(map(QUERY.match, requests))


def is_on_server(data: str | Path) -> bool:
    """Return whether a name is the address of a server; an existing file takes precedence."""
    return names_server(str(data)) and not exists(data)


def split_query(text: str) -> tuple[Path, str | None]:
    """Return a file, and the table, sheet or query after "::".

    A file name may hold "::", too; names of existing files take precedence.
    """
    if "::" not in text or isfile(text):
        return Path(text), None
    for mark in re.finditer("::", text):
        if isfile(text[: mark.start()]):
            return Path(text[: mark.start()]), text[mark.end() :]
    name, _, request = text.partition("::")
    return Path(name), request


def require_name(data: str | Path) -> None:
    """Refuse a name that is empty, not valid UTF-8, or may hold a password, without quoting it.

    Raises:
        DataError: also for what looks like an address, but not like a server's, if neither a file,
            a folder nor a match of the glob has that name.
    """
    text = str(data)
    if not text:
        raise data_error("name-empty")
    # Lone surrogates stand for bytes of the command line that are not UTF-8.
    if any(character == "\0" or "\ud800" <= character <= "\udfff" for character in text):
        raise data_error("name-encoding")
    if not may_hold_password(text) or is_on_server(data) or exists(split_query(text)[0]):
        return
    with suppress(OSError, ValueError):  # no file can have such a name
        if next(glob.iglob(text, recursive=True), None) is not None:
            return
    raise malformed_address("data", DataError)
