"""Find the change of a study that helps most: one change at a time, each predicted anew.

Nothing moves people to a mechanism without intervals: the only other one that is tried is dp-ssp.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from privalue._types import Progress
from privalue.core import MOST_TRAJECTORIES
from privalue.errors import StudyError
from privalue.planning._invert import MOST_EPSILON, with_aggregation, with_epsilon
from privalue.planning._model import public_model
from privalue.planning._options import Option
from privalue.planning._predict import USELESS, Prediction, forecast, guessing_error
from privalue.planning._public_model import PublicModel
from privalue.simulation import MarkovRewardProcess, World, return_range
from privalue.study import Study

_WORTH_SAYING = 0.95  # of the present error: a change that leaves more is not worth saying
_FAR_TOO_WIDE = 0.25  # of the bounds, that the returns of a world need


@dataclass(frozen=True, kw_only=True)
class Change:
    """One change of the study, and the error that it is predicted to leave."""

    what: str
    rmse: float
    guess: float  # the error of guessing after the change
    condition: str = ""

    @property
    def hopeless(self) -> bool:
        """Return whether the error is no better than guessing even after the change."""
        return not self.rmse < self.guess

    @property
    def useless(self) -> bool:
        """Return whether a release would be refused even after the change."""
        return not self.rmse < USELESS * self.guess


@dataclass(frozen=True, kw_only=True, eq=False)
class _Variant:
    """A changed study to try: what differs, its public model, and its m."""

    what: str
    study: Study
    model: PublicModel
    trajectories: int
    condition: str = ""
    conditional: bool = False  # the model holds under the condition alone


def advice(
    prediction: Prediction,
    world: World | None = None,
    *,
    draws: int | None = None,
    progress: Progress | None = None,
) -> list[Change]:
    """Return the changes that lower the error by 5% or more, the most helpful first.

    Args:
        prediction: the plan of the study as it is.
        world: the public world that the plan assumes; None if it assumes the study alone.
        draws: how many data sets to make up for each change; by the number of states, if left out.
        progress: called with the kinds of change done, and their number.

    Returns:
        The helpful changes; an empty list if there is none.
    """
    present = prediction.chosen
    changes = []
    makers = _variants(prediction, world)
    for done, make in enumerate(makers):
        if progress is not None:
            progress(done, len(makers))
        for variant in make():
            option = Option(study=variant.study, chosen=True)
            found = forecast(option, variant.model, variant.trajectories, draws=draws)
            if found.refused is None:
                rmse = found.rmse
                if variant.conditional:  # as much better as it would be there
                    before = forecast(
                        present.option, variant.model, variant.trajectories, draws=draws
                    )
                    rmse *= present.rmse / before.rmse
                changes.append(
                    Change(
                        what=variant.what,
                        rmse=rmse,
                        guess=guessing_error(variant.study, variant.model),
                        condition=variant.condition,
                    )
                )
    helpful = [change for change in changes if change.rmse <= _WORTH_SAYING * present.rmse]
    return sorted(helpful, key=lambda change: change.rmse)


def _variants(
    prediction: Prediction, world: World | None
) -> list[Callable[[], Iterator[_Variant]]]:
    """Return functions that each yield the variants of one kind of change, if it applies."""
    study, model, m = prediction.study, prediction.model, prediction.trajectories

    def with_intervals() -> Iterator[_Variant]:
        if study.mechanism.name != "dp-ssp":
            yield _Variant(
                what="another mechanism: dp-ssp",
                study=study.replace(mechanism="dp-ssp"),
                model=model,
                trajectories=m,
            )

    def more() -> Iterator[_Variant]:
        if 10 * m <= MOST_TRAJECTORIES:
            yield _Variant(
                what=f"10 times as many trajectories, {10 * m:,}",
                study=study,
                model=model,
                trajectories=10 * m,
            )

    def looser() -> Iterator[_Variant]:
        epsilon = 2 * study.privacy.epsilon
        if epsilon <= MOST_EPSILON:
            yield _Variant(
                what=f"twice the epsilon, {epsilon:g}",
                study=with_epsilon(study, epsilon),
                model=model,
                trajectories=m,
            )

    def coarser() -> Iterator[_Variant]:
        if study.features.kind == "matrix":
            return
        size = study.features.size or 1
        for factor in (2, 4):
            if factor * size <= study.state_count:
                tied = with_aggregation(study, factor * size)
                yield _Variant(
                    what=f"coarser states: the values of {factor * size} adjacent ones tied",
                    study=tied,
                    model=model if model.known else public_model(tied),
                    trajectories=m,
                    condition="" if model.known else "if tied states have nearly equal values",
                )

    def tighter() -> Iterator[_Variant]:
        low, high = study.return_bounds
        if world is not None:
            lowest, highest = _range(study, world)
            condition = "all that the world's returns need"
        else:
            lowest, highest = 0.75 * low + 0.25 * high, 0.25 * low + 0.75 * high
            condition = "if half the range were publicly known to hold all returns"
        if low <= lowest < highest <= high and highest - lowest < 0.95 * (high - low):
            narrow = _with_returns(study, lowest, highest)
            yield _Variant(
                what=f"tighter bounds of returns, e.g. [{lowest:.4g}, {highest:.4g}]",
                study=narrow,
                model=model if model.known else public_model(narrow),
                trajectories=m,
                condition=condition,
            )

    def staged() -> Iterator[_Variant]:
        if world is None or study.mechanism.name != "dp-ssp" or "bounds" in study.stages:
            return
        (low, high), (lowest, highest) = study.return_bounds, _range(study, world)
        if highest - lowest <= _FAR_TOO_WIDE * (high - low):
            found = _with_stage(study)
            yield _Variant(
                what='a stage that looks for tighter bounds of returns: stages = ["bounds"]',
                study=found,
                model=public_model(found, world),
                trajectories=m,
                condition="values are then means of returns held between the bounds it finds",
            )

    def bounded() -> Iterator[_Variant]:
        visited = model if model.cautious is None else model.cautious
        limit = max(math.ceil(visited.distinct_states), 1)
        limited = study.replace(max_states_per_trajectory=limit)
        if limited.limits.touched >= study.limits.touched:
            return  # noise would not fall
        what = "states" if study.pairs is None else "pairs of state and action"
        yield _Variant(
            what=f"bounded contribution: max_states_per_trajectory = {limit}",
            study=limited,
            model=visited if world is None else public_model(limited, world),
            trajectories=m,
            condition=f"if few trajectories visit more {what}" if world is None else "",
            conditional=world is None,
        )

    def informed() -> Iterator[_Variant]:
        if world is not None and study.visit_prior is None:
            # Of a state: the arms are equally large in the model.
            visits = model.visits[: study.keys_per_arm] * study.arm_count
            prior = visits.tolist()
            yield _Variant(
                what="a public prior of visits, such as the world's",
                study=study.replace(visits=prior),
                model=model,
                trajectories=m,
            )

    makers = (with_intervals, more, looser, coarser, tighter, staged, bounded, informed)
    return [_unless_refused(make) for make in makers]


def _unless_refused(make: Callable[[], Iterator[_Variant]]) -> Callable[[], Iterator[_Variant]]:
    """Wrap a maker of variants so that a change which the study's other keys forbid is skipped."""

    def made() -> Iterator[_Variant]:
        try:
            yield from make()
        except StudyError:
            return

    return made


def _range(study: Study, world: World) -> tuple[float, float]:
    """Return the smallest and largest return of the world at the study's discount."""
    process = MarkovRewardProcess(
        outcomes=world.process.outcomes,
        start=world.process.start,
        discount=study.values.discount,
    )
    return return_range(process)


def _with_stage(study: Study) -> Study:
    """Return the study with a stage that looks for tighter bounds of returns."""
    return study.replace(stages=("bounds",))


def _with_returns(study: Study, low: float, high: float) -> Study:
    """Return the study with other bounds of returns, and ``unvisited`` moved between them."""
    update: dict[str, object] = {"returns": (low, high)}
    if study.values.unvisited is not None:
        update["unvisited"] = float(np.clip(study.values.unvisited, low, high))
    return study.replace(**update)
