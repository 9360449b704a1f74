"""One machine: streams the source once."""

from collections.abc import Callable
from contextlib import closing
from typing import Any

from privalue.statistics import Accumulator, VisitStatistics, complete
from privalue.study import Study
from privalue.trajectories import fragments, open_source
from privalue.trajectories.encode import Encoder
from privalue.trajectories.order import DEFAULT_MEMORY


def statistics(
    data: Any,
    study: Study,
    *,
    memory: int = DEFAULT_MEMORY,
    progress: Callable[[int, int | None], None] | None = None,
) -> VisitStatistics:
    """The first-visit statistics of ``data``; ``progress`` gets rows read and rows in all."""
    source = open_source(data, study.data, by_person=study.privacy.unit == "person")
    encoder = Encoder(study)
    accumulator = Accumulator(study)

    def report(rows: int) -> None:
        if progress is not None:
            progress(rows, source.total_rows)

    ordered = fragments(source, encoder, study.data, memory=memory, progress=report)
    with closing(ordered):
        for fragment in ordered:
            accumulator.add(fragment)
    return complete(accumulator.finish(rewards_clamped=encoder.rewards_clamped), study)
