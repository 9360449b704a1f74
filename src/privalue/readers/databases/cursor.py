"""Read rows through the cursor of a database driver, whose cells are Python objects."""

from contextlib import closing
from typing import Any

import pyarrow as pa

from privalue.readers import cells
from privalue.readers.databases.query import Batches, Query
from privalue.readers.source import text_schema

BATCH_ROWS = 1 << 14  # small, since Python objects take more memory than Arrow's numbers


class CursorDatabase:
    """The base class of databases that are read through a cursor."""

    decimal: str

    def cursor(self, connection: Any) -> Any:
        """Return a new cursor."""
        return connection.cursor()

    def require_read_only(self, connection: Any, query: Query) -> None:
        """Raise an error if the query may do more than read."""

    def schema(self, connection: Any, query: Query) -> pa.Schema:
        """Return the columns of a query, as texts; fetches no row."""
        self.require_read_only(connection, query)
        with closing(self.cursor(connection)) as cursor:
            cursor.execute(query.sql)
            return text_schema(column[0] for column in cursor.description or ())

    def batches(self, connection: Any, query: Query, names: list[str]) -> Batches:
        """Yield the rows of a query, with these columns alone."""
        with closing(self.cursor(connection)) as cursor:
            cursor.execute(query.select(names))
            while rows := cursor.fetchmany(BATCH_ROWS):
                columns = zip(*rows, strict=True)
                arrays = [cells.from_objects(column, self.decimal) for column in columns]
                yield pa.record_batch(arrays, names=names)
