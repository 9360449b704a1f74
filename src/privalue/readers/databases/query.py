"""Resolve a request to a database: a query, or a table as SQL writes its name."""

import re
from collections.abc import Generator, Iterable
from dataclasses import dataclass

import pyarrow as pa

from privalue.errors import read_texts
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

        Names are qualified, because SQLite takes an unknown name in quotes for a text. The query
        has a line of its own, because it may end with a comment.
        """
        columns = ", ".join(f"result.{quote(name)}" for name in names)
        return f"SELECT {columns} FROM (\n{self.sql}\n) AS result"


def resolve_query(text: str | None, tables: list[str], place: str) -> Query:
    """Return the query that ``text`` is, or a query of all rows of a table.

    Args:
        text: what follows "::": a query, or a name as SQL writes it; None for the only table.
        tables: the names of the tables in the default schemas.
        place: the database's name in messages.
    """
    request = (text or "").strip().rstrip(";").rstrip()
    if QUERY.match(request):
        return Query(f"{place}, the query", request)
    # FROM would accept more than a name: a query, which must count as one (``is_query_result``).
    if not (_NAME.fullmatch(request) if request else len(tables) == 1):
        raise data_error("table-unnamed", place=place, count=len(tables), tables=list_some(tables))
    name = request or tables[0]
    return Query(f"{place}, table {name}", f"SELECT * FROM {request or quote(name)}")


def quote(name: str) -> str:
    """Return the name of a table or a column as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def read_statement(name: str) -> str:
    """Return an SQL statement of ``statements.toml``."""
    return str(read_texts(__file__, "statements.toml")[name])
