"""Find what is asked of a database: one of its tables, or a query as it is written."""

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from privalue.errors import DataError

_QUERY = re.compile(r"\(|(?:select|with|from|values|table)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Table:
    """A table or a view."""

    names: tuple[str, ...]  # what it may be called, the shortest first
    sql: str  # its name, quoted
    near: bool = True  # in a schema that need not be named
    stored: bool = False  # a table, not a view: to count its rows is quick

    @classmethod
    def of_schema(cls, schema: str, name: str, *, near: bool, stored: bool = False) -> "Table":
        """Return a table of a database with schemas."""
        names = (name, f"{schema}.{name}") if near else (f"{schema}.{name}",)
        return cls(names, f"{quoted(schema)}.{quoted(name)}", near, stored)


@dataclass(frozen=True)
class Query:
    """What to read, and what messages call it."""

    place: str
    sql: str  # all columns
    table: Table | None


def resolve_query(text: str | None, tables: Sequence[Table], place: str) -> Query:
    """Return the query, the table of that name, or the only table."""
    wanted = (text or "").strip().rstrip(";").rstrip()
    # A character may be half of one, as a command line's odd bytes become.
    if "\0" in wanted or any("\ud800" <= character <= "\udfff" for character in wanted):
        raise DataError(
            f"{place}: what follows :: is not a text in UTF-8; write a table or a query"
        )
    if _QUERY.match(wanted):
        return Query(f"{place}, the query", wanted, None)
    table = _choose(wanted, tables, place)
    return Query(f"{place}, table {table.names[0]}", f"SELECT * FROM {table.sql}", table)


def _choose(wanted: str, tables: Sequence[Table], place: str) -> Table:
    """Return the table that is named, or the only one; raise DataError with those that exist."""
    if not tables:
        raise DataError(f"{place} holds no table; one row a step is needed")
    # Other schemas count only where there is nothing else.
    near = [table for table in tables if table.near] or tables
    known = [table.names[0] for table in near]
    shown = ", ".join(map(repr, known[:10])) + (", ..." if len(known) > 10 else "")
    if not wanted:
        if len(near) > 1:
            raise DataError(
                f"{place} holds {len(near)} tables: {shown}; name one after ::, as in "
                f"{place}::{known[0]}"
            )
        return near[0]
    bare = wanted.replace('"', "")
    for same in (wanted.__eq__, bare.__eq__, lambda name: name.lower() == bare.lower()):
        found = [table for table in tables if any(map(same, table.names))]
        if len(found) == 1:
            return found[0]
    similar = difflib.get_close_matches(bare, [table.names[0] for table in tables], n=1)
    hint = f"; did you mean {similar[0]!r}?" if similar else ""
    if not hint and re.search(r"\s", wanted):
        hint = "; a query begins with SELECT, WITH, VALUES or TABLE"
    raise DataError(f"{place} has no table {wanted!r}; it has {shown}{hint}")


def quoted(name: str) -> str:
    """Return the name of a table or a column in quotes, whatever characters it has."""
    return '"' + name.replace('"', '""') + '"'
