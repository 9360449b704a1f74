"""Suggest what would help most: one change at a time, with the study's own mechanism.

Each change is measured: by the overall error where a world or visits say what to expect, and else
by the number of people that a state needs for an interval narrower than a tenth of the range of
returns as it is declared now.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from privalue.core import Ssp
from privalue.errors import StudyError
from privalue.planning.half_width import HalfWidth
from privalue.planning.made_up import FromVisits, FromWorld, MadeUp
from privalue.planning.predict import mechanism_of_study, predict
from privalue.planning.solve import MOST_EPSILON
from privalue.simulation import World, return_range
from privalue.study import Study, implied_returns

MOST_SUGGESTIONS = 4
_WORTH_SAYING = 0.95  # of what there is: a change that leaves more is not worth saying
_FEW_STATES = 2  # that a trajectory is suggested to count for, where nothing else is known
_DRAWS = 40
_FAR_TOO_WIDE = 0.25  # of the bounds of returns, that returns may really need


@dataclass(frozen=True, kw_only=True)
class Suggestion:
    """One change of the study, and what it would gain."""

    code: str
    text: str
    measure: str  # "people" that a state needs, or "rmse"
    before: float
    after: float

    @property
    def gain(self) -> str:
        """Return what it would gain, in a few words."""
        if self.measure == "people":
            return (
                f"{self.after:,.0f} people in place of {self.before:,.0f} give a state an interval "
                "narrower than a tenth of the range"
            )
        return f"an error of {self.after:.2g} in place of {self.before:.2g}"


@dataclass(frozen=True, kw_only=True, eq=False)
class _Change:
    code: str
    text: str
    study: Study
    reach: float = 1.0  # of the range of returns that a stage is taken to choose


@dataclass(frozen=True, kw_only=True, eq=False)
class Setting:
    """What a plan knows beside the study."""

    trajectories: int | None = None
    visits: np.ndarray | None = None  # by key of one arm
    world: World | None = None
    steps: int | None = None  # the most rows of a trajectory

    def made_up(self, study: Study) -> MadeUp | None:
        """Return where made-up statistics of a study come from; None where nothing is known."""
        if self.world is not None:
            return FromWorld(study, self.world)
        return None if self.visits is None else FromVisits(study, self.visits)


def suggestions(study: Study, setting: Setting) -> tuple[Suggestion, ...]:
    """Return at most four changes that help by 5% or more, the most helpful first."""
    measure = _measure(study, setting)
    if measure is None:
        return ()
    name, of = measure
    before, found = of(_Change(code="", text="", study=study)), list[Suggestion]()
    for change in _possible(study, setting):
        after = of(change)
        if after <= _WORTH_SAYING * before:
            found.append(
                Suggestion(
                    code=change.code, text=change.text, measure=name, before=before, after=after
                )
            )
    return tuple(sorted(found, key=lambda each: each.after)[:MOST_SUGGESTIONS])


def _measure(study: Study, setting: Setting) -> tuple[str, Callable[[_Change], float]] | None:
    """Return what changes are measured by, which is to become small; None where nothing is."""
    low, high = study.return_bounds
    m = setting.trajectories
    if m is not None and (setting.world is not None or setting.visits is not None):

        def rmse(change: _Change) -> float:
            made_up = setting.made_up(change.study)
            assert made_up is not None
            return predict(change.study, made_up, m, draws=_DRAWS).rmse

        return "rmse", rmse
    if study.mechanism.name != "dp-ssp":
        return None

    def people(change: _Change) -> float:
        mechanism = mechanism_of_study(change.study, m)
        assert isinstance(mechanism, Ssp)
        widths = HalfWidth.of(change.study, mechanism).middle.within(change.reach)
        return math.ceil(widths.visits_for((high - low) / 20))

    return "people", people


def _possible(study: Study, setting: Setting) -> Iterator[_Change]:
    """Yield the changes that the study's other keys allow."""
    makers = (fewer_states, _fewer_trajectories, _tighter_returns, _more_epsilon)
    for make in makers:
        try:
            yield from make(study, setting)
        except StudyError:
            continue


def fewer_states(study: Study, setting: Setting) -> Iterator[_Change]:
    """Yield smaller limits of states per trajectory, where these lower the noise."""
    keys, what = study.keys_per_arm, "states" if study.pairs is None else "pairs"
    candidates = dict[int, str]()
    if setting.world is not None:
        visited = float(FromWorld(study, setting.world).visits.sum())
        candidates[max(math.ceil(visited), 1)] = (
            f"A trajectory is in {visited:.1f} {what} on average"
        )
    else:
        for column, edges in (study.states.bins or {}).items():
            limit = keys // (len(edges) + 1)
            candidates.setdefault(limit, f"If {column} hardly changes within a trajectory")
        candidates.setdefault(
            _FEW_STATES, f"If a trajectory is rarely in more than {_FEW_STATES} {what}"
        )
    for limit, condition in candidates.items():
        if 1 <= limit < study.states_per_trajectory:
            limited = study.replace(max_states_per_trajectory=limit)
            if limited.limits.touched < study.limits.touched:
                text = f"{condition}, set max_states_per_trajectory = {limit}"
                yield _Change(code="max-states", text=text, study=limited)


def _fewer_trajectories(study: Study, _: Setting) -> Iterator[_Change]:
    most = study.trajectories_per_person
    if study.privacy.unit == "person" and most > 1:
        limit = -(-most // 2)
        yield _Change(
            code="max-trajectories",
            text=f"If a person rarely has more than {limit} trajectories, set "
            f"max_trajectories_per_person = {limit}",
            study=study.replace(max_trajectories_per_person=limit),
        )


def _tighter_returns(study: Study, setting: Setting) -> Iterator[_Change]:
    low, high = study.return_bounds
    gamma, (r_low, r_high) = study.values.discount, study.values.rewards
    declared = study.values.returns is not None and "rewards" in study.values.given
    least, most = implied_returns((r_low, r_high), gamma) if declared else (low, high)
    why = "Rewards and discount allow no more"
    if setting.world is not None:
        least, most = return_range(replace(setting.world.process, discount=gamma))
        why = "The returns of the world need no more"
    elif setting.steps is not None:
        rows = setting.steps if gamma == 1 else (1 - gamma**setting.steps) / (1 - gamma)
        least, most = min(r_low, r_low * rows), max(r_high, r_high * rows)
        why = f"In {setting.steps} rows rewards add up to no more"
    least, most = max(low, least), min(high, most)
    if least < most and most - least < _WORTH_SAYING * (high - low):
        unvisited = study.values.unvisited
        kept = None if unvisited is None else min(max(unvisited, least), most)
        yield _Change(
            code="returns",
            text=f"{why}: set returns = [{least:.6g}, {most:.6g}]",
            study=study.replace(returns=(least, most), unvisited=kept),
        )
    elif (
        declared
        and study.mechanism.name == "dp-ssp"
        and "bounds" not in study.stages
        and (r_high - r_low) <= _FAR_TOO_WIDE * (high - low)
    ):
        yield _Change(
            code="stage-for-bounds",
            text=f"If most returns are within a quarter of [{low:g}, {high:g}], leave returns out "
            'or set stages = ["bounds"]: a stage finds tighter bounds',
            study=study.replace(stages=["bounds"]),
            reach=_FAR_TOO_WIDE,
        )


def _more_epsilon(study: Study, _: Setting) -> Iterator[_Change]:
    epsilon = 2 * study.privacy.epsilon
    if epsilon <= MOST_EPSILON:
        yield _Change(
            code="epsilon",
            text=f"Set epsilon = {epsilon:g}, which weakens the promise",
            study=study.replace(epsilon=epsilon),
        )
