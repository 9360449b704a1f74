"""Resolve a request to a database: a query, or a table as SQL writes its name."""

import re
import tomllib
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from privalue.ledger.addresses import QUERY
from privalue.readers.messages import data_error, list_some

Batches = Generator[pa.RecordBatch, None, None]
_NAME = re.compile(r'("[^"]+"|\w+)(\.("[^"]+"|\w+))*')


@dataclass(frozen=True)
class Query:
    """A query of all columns, with its name in messages."""

    place: str
    sql: str

    def select(self, names: Iterable[str]) -> str:
        """Return the query of some columns.

        SQLite takes an unqualified name that it does not find for a text. A comment at the end of
        the query ends with its line.
        """
        columns = ", ".join(f"result.{quoted(name)}" for name in names)
        return f"SELECT {columns} FROM (\n{self.sql}\n) AS result"


def resolve_query(text: str | None, tables: list[str], place: str) -> Query:
    """Return the query, or all rows of a table: of the named one, or of the only one.

    Args:
        text: what follows "::"; a name as SQL writes it.
        tables: the names of the tables in the default schemas.
        place: the database's name in messages.
    """
    wanted = (text or "").strip().rstrip(";").rstrip()
    if QUERY.match(wanted):
        return Query(f"{place}, the query", wanted)
    # Anything else after FROM would be a query, which counts as one for the curator's warning.
    if not (_NAME.fullmatch(wanted) if wanted else len(tables) == 1):
        raise data_error("table-unnamed", place=place, count=len(tables), shown=list_some(tables))
    name = wanted or tables[0]
    return Query(f"{place}, table {name}", f"SELECT * FROM {wanted or quoted(name)}")


def quoted(name: str) -> str:
    """Return the name of a table or a column as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def statement(name: str) -> str:
    """Return an SQL statement of ``statements.toml``."""
    text = Path(__file__).with_name("statements.toml").read_text(encoding="utf-8")
    return str(tomllib.loads(text)[name])
