"""Suggest changes of a study that would reduce its error, one at a time, mechanism unchanged.

Each change is measured by the overall error if a world or visits are given, and otherwise by the
number of people that a state needs for an interval narrower than a tenth of the range of returns
as it is declared now.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from privalue.errors import StudyError
from privalue.planning.half_width import HalfWidth
from privalue.planning.predict import mechanism_of_study, predict
from privalue.planning.sentences import sentence
from privalue.planning.solve import MAX_EPSILON
from privalue.planning.synthetic import FromVisits, FromWorld, Synthetic
from privalue.simulation import World, return_range
from privalue.study import Study, implied_returns

MAX_SUGGESTIONS = 4
_MAX_RATIO = 0.95  # a change that leaves more than this share of the error is not suggested
_FEW_STATES = 2  # the suggested limit of states per trajectory if nothing else is known
_DRAWS = 40
_STAGE_RANGE = 0.25  # returns may need only this share of their declared bounds


@dataclass(frozen=True)
class Suggestion:
    """One change of the study, and how much it would help."""

    code: str
    text: str
    measure: str  # "people" that a state needs, or "rmse", or "error_at_most"
    before: float
    after: float

    @property
    def gain(self) -> str:
        """Return the measure before and after the change, as a phrase."""
        return sentence("gain", self.measure, before=self.before, after=self.after)


class _Change:
    """A candidate: a study with one change, and the sentence that suggests it."""

    def __init__(self, code: str, study: Study, *, range_share: float = 1.0, **values: Any) -> None:
        self.code = code
        self.study = study
        self.range_share = range_share  # of returns, that a stage is assumed to choose
        self.text = sentence("suggestions", code, **values)


@dataclass(frozen=True, kw_only=True, eq=False)
class Setting:
    """The public arguments of a plan besides the study."""

    trajectories: int | None = None
    visits: np.ndarray | None = None  # by key of one arm
    world: World | None = None
    steps: int | None = None  # the most rows of a trajectory

    @property
    def has_visits(self) -> bool:
        """Return whether the probability of visits is known, from a prior or a world."""
        return self.world is not None or self.visits is not None

    def synthetic(self, study: Study) -> Synthetic | None:
        """Return the source of synthetic statistics; None without visits and without a world."""
        if self.world is not None:
            return FromWorld(study, self.world)
        return None if self.visits is None else FromVisits(study, self.visits)


def suggestions(study: Study, setting: Setting) -> tuple[Suggestion, ...]:
    """Return at most four changes that help by 5% or more, the most helpful first."""
    counts_people = setting.trajectories is None or not setting.has_visits
    if counts_people and study.mechanism.name != "dp-ssp":
        return ()
    measure = "people" if counts_people else "rmse"
    assess = _people if counts_people else _rmse
    low, high = study.values.return_bounds
    before = assess(study, setting, high - low)
    result = []
    for change in _candidate_changes(study, setting):
        after = assess(change.study, setting, high - low, change.range_share)
        if after <= _MAX_RATIO * before:
            result.append(Suggestion(change.code, change.text, measure, before, after))
    return tuple(sorted(result, key=lambda suggestion: suggestion.after)[:MAX_SUGGESTIONS])


def _rmse(study: Study, setting: Setting, *_: float) -> float:
    """Return the predicted overall error of a study."""
    source, m = setting.synthetic(study), setting.trajectories
    assert source is not None
    assert m is not None
    return predict(study, source, m, draws=_DRAWS).rmse


def _people(study: Study, setting: Setting, width: float, range_share: float = 1.0) -> float:
    """Return how many people a state needs for an interval of a tenth of this range."""
    mechanism = mechanism_of_study(study, setting.trajectories)
    widths = HalfWidth.of(study, mechanism).middle.scale_range(range_share)
    return math.ceil(widths.visits_for(width / 20))


def _candidate_changes(study: Study, setting: Setting) -> Iterator[_Change]:
    """Yield the candidate changes; one that makes the study invalid is left out."""
    proposals = (_fewer_states, _fewer_trajectories, _tighter_returns, _more_epsilon)
    for propose in proposals:
        try:
            yield from propose(study, setting)
        except StudyError:
            continue


def _fewer_states(study: Study, setting: Setting) -> Iterator[_Change]:
    """Yield smaller limits of states per trajectory, which lower the noise."""
    noun = "states" if study.pairs is None else "pairs"
    candidates = dict[int, str]()
    if setting.world is not None:
        visits = float(FromWorld(study, setting.world).visits.sum())
        condition = sentence("conditions", "visited", visited=visits, what=noun)
        candidates[max(math.ceil(visits), 1)] = condition
    else:
        for column, edges in (study.states.bins or {}).items():
            limit = study.keys_per_arm // (len(edges) + 1)
            candidates.setdefault(limit, sentence("conditions", "column", column=column))
        condition = sentence("conditions", "few", limit=_FEW_STATES, what=noun)
        candidates.setdefault(_FEW_STATES, condition)
    for limit, condition in candidates.items():
        if 1 <= limit < study.limits.max_states_per_trajectory:
            candidate = study.replace(max_states_per_trajectory=limit)
            yield _Change("max-states", candidate, limit=limit, condition=condition)


def _fewer_trajectories(study: Study, _: Setting) -> Iterator[_Change]:
    most = study.limits.max_trajectories_per_person
    if study.privacy.unit == "person" and most > 1:
        limit = -(-most // 2)
        candidate = study.replace(max_trajectories_per_person=limit)
        yield _Change("max-trajectories", candidate, limit=limit)


def _tighter_returns(study: Study, setting: Setting) -> Iterator[_Change]:
    low, high = study.values.return_bounds
    gamma, (r_low, r_high) = study.values.discount, study.values.rewards
    has_both = study.values.returns is not None and "rewards" in study.values.explicit_keys
    least, most = implied_returns((r_low, r_high), gamma) if has_both else (low, high)
    condition = sentence("conditions", "rewards")
    if setting.world is not None:
        least, most = return_range(replace(setting.world.process, discount=gamma))
        condition = sentence("conditions", "world")
    elif setting.steps is not None:
        rows = setting.steps if gamma == 1 else (1 - gamma**setting.steps) / (1 - gamma)
        least, most = min(r_low, r_low * rows), max(r_high, r_high * rows)
        condition = sentence("conditions", "steps", steps=setting.steps)
    least, most = max(low, least), min(high, most)
    if least < most and most - least < _MAX_RATIO * (high - low):
        unvisited = study.values.unvisited
        if unvisited is not None:
            unvisited = min(max(unvisited, least), most)
        candidate = study.replace(returns=(least, most), unvisited=unvisited)
        yield _Change("returns", candidate, condition=condition, least=least, most=most)
    elif (
        has_both
        and study.mechanism.name == "dp-ssp"
        and "bounds" not in study.stages
        and (r_high - r_low) <= _STAGE_RANGE * (high - low)
    ):
        candidate = study.replace(stages=["bounds"])
        yield _Change("stage-for-bounds", candidate, range_share=_STAGE_RANGE, low=low, high=high)


def _more_epsilon(study: Study, _: Setting) -> Iterator[_Change]:
    epsilon = 2 * study.privacy.epsilon
    if epsilon <= MAX_EPSILON:
        yield _Change("epsilon", study.replace(epsilon=epsilon), epsilon=epsilon)
