"""Read rows from files, frames, recordings and databases, and pass them to the core.

A source yields Arrow batches. An engine (one machine, or Spark) encodes rows as numbers, groups
them by unit unless they are sorted, and passes whole units to the core in order. The core relies on
one property of readers: the numbers of each row depend on that row alone. It checks everything
else. An error here may quote the data: it is for the curator, and nothing has been released yet.
"""

from privalue.readers.local import default_memory
from privalue.readers.names import is_query_result
from privalue.readers.open import column_names
from privalue.readers.source import Progress
from privalue.readers.statistics import read_statistics

__all__ = ["Progress", "column_names", "default_memory", "is_query_result", "read_statistics"]
