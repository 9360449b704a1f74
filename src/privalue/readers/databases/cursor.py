"""Read rows through the cursor of a database driver, whose cells are Python objects."""

from contextlib import closing
from typing import Any

import pyarrow as pa

from privalue.readers import cells
from privalue.readers.databases.query import Batches, Query
from privalue.readers.source import texts

BATCH_ROWS = 1 << 14  # small, since Python objects take more memory than Arrow's numbers


class CursorDatabase:
    """Common base of databases that are read through a cursor."""

    decimal: str

    def cursor(self, connection: Any) -> Any:
        """Return a cursor for a query."""
        return connection.cursor()

    def require_reading(self, connection: Any, query: Query) -> None:
        """Raise an error for a query that does more than read."""

    def schema(self, connection: Any, query: Query) -> pa.Schema:
        """Return the columns of a query, without fetching a row."""
        self.require_reading(connection, query)
        with closing(self.cursor(connection)) as cursor:
            cursor.execute(query.sql)
            return texts(column[0] for column in cursor.description or ())

    def batches(self, connection: Any, query: Query, names: list[str]) -> Batches:
        """Yield the needed columns of a query's rows."""
        with closing(self.cursor(connection)) as cursor:
            cursor.execute(query.select(names))
            while rows := cursor.fetchmany(BATCH_ROWS):
                columns = zip(*rows, strict=True)
                arrays = [cells.from_objects(column, self.decimal) for column in columns]
                yield pa.record_batch(arrays, names=names)
