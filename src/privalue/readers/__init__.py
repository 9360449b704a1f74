"""Bring rows in, from wherever they are, to the core's boundary.

Files, frames, recordings and databases become batches of whole units, in order: streamed if rows
come in order, partitioned if they do not, on one machine or with Spark. The core trusts a reader
with one thing only: the numbers of each row come from that row alone. It checks the rest. An error
here may quote the data: it is for the curator, before anything has been computed.
"""

from privalue.readers._engines import gathered
from privalue.readers._headings import column_names
from privalue.readers._local import DEFAULT_MEMORY
from privalue.readers._names import asks_a_database
from privalue.readers._rules import RowRules
from privalue.readers._sources import open_source

__all__ = [
    "DEFAULT_MEMORY",
    "RowRules",
    "asks_a_database",
    "column_names",
    "gathered",
    "open_source",
]
