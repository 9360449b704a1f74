"""Count what may be counted: the public sizes of a data set."""

from privalue.core._contributions import VisitStatistics
from privalue.core._terms import Limits, PublicSize
from privalue.errors import DataError


def declared_size(limits: Limits, declared: int | None) -> PublicSize:
    """Return what the study alone says of sizes, before any data is opened."""
    return PublicSize.of(limits, declared, trajectories=declared, persons=None)


def public_size(limits: Limits, declared: int | None, statistics: VisitStatistics) -> PublicSize:
    """Return the public sizes of a data set; refuse a wrong declaration of what is public."""
    m = statistics.trajectories
    if limits.counts_trajectories and declared is not None and declared != m:
        raise DataError(
            f"the data has {m} trajectories, and the study declares {declared}; correct [study] "
            "trajectories, or leave it out"
        )
    return PublicSize.of(limits, declared, trajectories=m, persons=statistics.persons)
