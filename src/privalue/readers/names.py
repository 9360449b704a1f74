"""Classify data by its name alone: a query, an address of a server, or a file."""

import glob
import re
from contextlib import suppress
from os.path import exists, isfile
from pathlib import Path

from privalue.errors import DataError
from privalue.ledger.addresses import QUERY, malformed_address, may_hold_password, names_server

_QUERIES = {("polars", "LazyFrame"), ("duckdb", "DuckDBPyRelation"), ("pyspark", "DataFrame")}


def is_query_result(data: object) -> bool:
    """Return whether rows are the result of a query, which may combine several units."""
    package, kind = type(data).__module__.split(".")[0].lstrip("_"), type(data).__name__
    text = str(data) if isinstance(data, str | Path) else ""
    after = (text[mark.end() :] for mark in re.finditer("::", text))  # queries may hold :: casts
    return (package, kind) in _QUERIES or any(QUERY.match(request) for request in after)


def is_on_server(data: str | Path) -> bool:
    """Return whether a name is the address of a server; an existing file takes precedence."""
    return names_server(str(data)) and not exists(data)


def split_query(text: str) -> tuple[Path, str | None]:
    """Return a file, and the table, sheet or query after "::"; file names may hold "::", too."""
    if "::" not in text or isfile(text):
        return Path(text), None
    for mark in re.finditer("::", text):
        if isfile(text[: mark.start()]):
            return Path(text[: mark.start()]), text[mark.end() :]
    name, _, request = text.partition("::")
    return Path(name), request


def require_showable(data: str | Path) -> None:
    """Refuse a name that may hold a password, before any message quotes it.

    Raises:
        DataError: it looks like an address, and is no existing file or folder, and no glob of one.
    """
    text = str(data)
    if may_hold_password(text) and not exists(split_query(text)[0]) and not _finds_something(text):
        raise malformed_address("data", DataError)


def _finds_something(pattern: str) -> bool:
    """Return whether a glob matches at least one file."""
    with suppress(OSError, ValueError):  # no file can have such a name
        return next(glob.iglob(pattern, recursive=True), None) is not None
    return False
