"""Rows in: each by itself as plain numbers, whole units in order for the core.

``rules`` is what the study says about rows, ``sources`` opens whatever holds them, ``cells`` turns
each cell into a number by what is declared, ``encode`` puts the cells of a row together, ``order``
and ``partition`` bring the rows of a unit together. No row decides how another is read. A failure
here may quote the data: it is for the curator, before anything has been computed.
"""

from privalue.readers._chunks import Source
from privalue.readers._rules import RowRules
from privalue.readers._sources import open_source

__all__ = ["RowRules", "Source", "open_source"]
