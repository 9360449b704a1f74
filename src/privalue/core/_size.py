"""What is public about how many there are: the only sizes that a rule may use.

| unit, neighbours        | ``units``         | ``most_count``          | ``trajectories`` |
|-------------------------|-------------------|-------------------------|------------------|
| trajectory, replace-one | m, counted        | m                       | m                |
| person, replace-one     | U, counted        | U L                     | as declared      |
| either, add-remove      | nothing           | what the software takes | as declared      |
| either, if any are dropped | nothing        | what the software takes | as declared      |

Replacing one trajectory leaves m as it is, and replacing one person U: both may be published.
Replacing a person changes m, and adding or removing anyone changes both; so does replacing a unit
by one of which nothing is left, where invalid units or incomplete rows are dropped.
"""

from dataclasses import dataclass

from privalue.core._contributions import VisitStatistics
from privalue.errors import DataError, StudyError
from privalue.study._sections import MOST_TRAJECTORIES
from privalue.study._study import Study


@dataclass(frozen=True, kw_only=True)
class PublicSize:
    """The sizes that are the same for all neighbours of a data set."""

    units: int | None  # trajectories or persons, where their number may be published
    most_count: int  # no state's count can be larger
    trajectories: int | None  # for the rules that need a number of trajectories

    def required(self, needed_by: str) -> int:
        """The number of trajectories, or an error that says what needs it."""
        if self.trajectories is None:
            raise StudyError(
                "[study] trajectories is missing: the number of trajectories is not public here, "
                f"and the default {needed_by} of [mechanism] follows from it; give trajectories = "
                "10000, or whatever is known beforehand"
            )
        return self.trajectories


def declared_size(study: Study) -> PublicSize:
    """What the study alone tells, before any data is opened.

    Where the most that a count can be follows from the data, the least that it can be is taken: it
    serves to refuse early what no data could make right, and to show constants.
    """
    declared = study.study.trajectories
    if not study.size_is_public:
        return PublicSize(units=None, most_count=MOST_TRAJECTORIES, trajectories=declared)
    if counts_trajectories(study):
        return PublicSize(units=declared, most_count=declared or 1, trajectories=declared)
    return PublicSize(units=None, most_count=study.trajectories_per_person, trajectories=declared)


def public_size(study: Study, statistics: VisitStatistics) -> PublicSize:
    """The sizes of a data set; a wrong declaration of what is public is refused."""
    declared = study.study.trajectories
    if not study.size_is_public:
        return declared_size(study)
    if not counts_trajectories(study):
        persons = statistics.persons
        most = persons * study.trajectories_per_person
        return PublicSize(units=persons, most_count=most, trajectories=declared)
    m = statistics.trajectories
    if declared is not None and declared != m:
        raise DataError(
            f"the data has {m} trajectories, and the study declares {declared}; correct [study] "
            "trajectories, or leave it out"
        )
    return PublicSize(units=m, most_count=m, trajectories=m)


def counts_trajectories(study: Study) -> bool:
    """Whether m is public, so that it may be counted from the data."""
    return study.privacy.unit == "trajectory" and study.size_is_public
