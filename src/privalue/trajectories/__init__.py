"""Rows in, ordered fragments of trajectories out.

``sources`` opens whatever holds the rows, ``encode`` is the one place that meets untrusted values,
``order`` sorts them out of core and hands on fragments. A failure here may quote the data: it is
for the curator, before anything has been computed.
"""

from privalue.trajectories.chunks import Source
from privalue.trajectories.order import Fragment
from privalue.trajectories.sources import open_source

__all__ = ["Fragment", "Source", "open_source"]
