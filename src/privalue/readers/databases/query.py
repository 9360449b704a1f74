"""Resolve a request to a database: the name of a table, or a query."""

import tomllib
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from privalue.ledger.addresses import QUERY
from privalue.readers.messages import data_error, list_some

Batches = Generator[pa.RecordBatch, None, None]


@dataclass(frozen=True)
class Table:
    """A table or a view."""

    schema: str | None  # None if the database has no schemas
    name: str
    near: bool  # in a default schema, whose name may be left out

    @property
    def names(self) -> list[str]:
        """Return its valid names, the shortest first."""
        whole = self.name if self.schema is None else f"{self.schema}.{self.name}"
        return [self.name, whole] if self.near else [whole]

    @property
    def sql(self) -> str:
        """Return its quoted name."""
        name = quoted(self.name)
        return name if self.schema is None else f"{quoted(self.schema)}.{name}"


@dataclass(frozen=True)
class Query:
    """A query, with its name in messages."""

    place: str
    sql: str  # all columns
    table: Table | None


def resolve_query(text: str | None, tables: Sequence[Table], place: str) -> Query:
    """Return the query, the table of that name, or the only table."""
    wanted = (text or "").strip().rstrip(";").rstrip()
    # Lone surrogates stand for bytes of the command line that are not UTF-8.
    if "\0" in wanted or any("\ud800" <= character <= "\udfff" for character in wanted):
        raise data_error("query-encoding", place=place)
    if QUERY.match(wanted):
        return Query(f"{place}, the query", wanted, None)
    table = _choose(wanted, tables, place)
    return Query(f"{place}, table {table.names[0]}", f"SELECT * FROM {table.sql}", table)


def _choose(wanted: str, tables: Sequence[Table], place: str) -> Table:
    """Return the named table, or the only one; the DataError lists the existing tables."""
    if not tables:
        raise data_error("tables-absent", place=place)
    # Tables of other schemas count only if there are no others.
    near = [table for table in tables if table.near] or tables
    known = [table.names[0] for table in near]
    about = {"place": place, "shown": list_some(known)}
    if not wanted:
        if len(near) > 1:
            raise data_error("tables-several", count=len(near), example=known[0], **about)
        return near[0]
    bare = wanted.replace('"', "")
    for same in (wanted.__eq__, bare.__eq__, lambda name: name.lower() == bare.lower()):
        found = [table for table in tables if any(map(same, table.names))]
        if len(found) == 1:
            return found[0]
    raise data_error("table-absent", wanted=wanted, **about)


def quoted(name: str) -> str:
    """Return the name of a table or a column as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def statement(name: str) -> str:
    """Return an SQL statement of ``statements.toml``."""
    text = Path(__file__).with_name("statements.toml").read_text(encoding="utf-8")
    return str(tomllib.loads(text)[name])
