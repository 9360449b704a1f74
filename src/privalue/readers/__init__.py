"""Bring rows in, from wherever they are, to the core's boundary.

A source (files, frames, recordings, databases) yields Arrow batches. An engine encodes rows as
numbers and hands whole units to the core, in order: as they come if rows are in order, brought
together by unit if they are not, on one machine or with Spark. The core trusts a reader with one
thing only: the numbers of each row come from that row alone. It checks the rest. An error here may
quote the data: it is for the curator, before anything has been computed.
"""

from privalue.readers.local import default_memory
from privalue.readers.names import is_query_result
from privalue.readers.open import column_names
from privalue.readers.source import Progress
from privalue.readers.statistics import read_statistics

__all__ = ["Progress", "column_names", "default_memory", "is_query_result", "read_statistics"]
