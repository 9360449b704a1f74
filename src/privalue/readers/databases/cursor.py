"""Read rows through the cursor of a database driver, whose cells are Python objects."""

from contextlib import closing
from typing import Any

import pyarrow as pa

from privalue.readers import cells
from privalue.readers.databases.query import Batches, Query, quoted
from privalue.readers.source import texts

BATCH_ROWS = 1 << 14  # small, since Python objects take more memory than Arrow's numbers


class CursorDatabase:
    """Common base of databases that are read through a cursor."""

    decimal: str
    whole_table = ""  # SQL after the name of a table that is read as a whole

    def cursor(self, connection: Any) -> Any:
        """Return a cursor for a query."""
        return connection.cursor()

    def require_reading(self, connection: Any, query: Query) -> None:
        """Raise an error for a query that does more than read."""

    def schema(self, connection: Any, query: Query) -> pa.Schema:
        """Return the columns of a query, without fetching a row."""
        if query.table is None:
            self.require_reading(connection, query)
        with closing(self.cursor(connection)) as cursor:
            cursor.execute(query.sql)
            return texts(_names(cursor))

    def batches(self, connection: Any, query: Query, names: list[str]) -> Batches:
        """Yield the needed columns of a query's rows."""
        sql = query.sql
        if query.table is not None:
            columns = ", ".join(map(quoted, names))
            sql = f"SELECT {columns} FROM {query.table.sql} {self.whole_table}"
        with closing(self.cursor(connection)) as cursor:
            cursor.execute(sql)
            present = _names(cursor)
            at = [present.index(name) for name in names]
            while rows := cursor.fetchmany(BATCH_ROWS):
                arrays = [cells.from_objects([row[i] for row in rows], self.decimal) for i in at]
                yield pa.record_batch(arrays, names=names)


def _names(cursor: Any) -> list[str]:
    return [column[0] for column in cursor.description or ()]
