"""Describe what a plan assumes of the data: a public model of visits and returns.

| symbol  | here            | shape | public |
|---------|-----------------|-------|--------|
| p_s     | ``visits``      | N     | yes: the chance that a trajectory visits s, and counts there |
| F_s     | ``means``       | N     | yes: the mean return of those visits |
| v_s     | ``variances``   | N     | yes: and its variance |
| V       | ``values``      | N     | yes: what is to be estimated |
| B x 2N  | ``together``    |       | yes: how visits and returns of the states vary together |

The model comes from a world, whose law is known, or from the study alone; no data is opened. From a
world everything is exact where trajectories count in full and nothing is clamped, and otherwise
simulated. F_s and V differ where clamping, or a limit of states per trajectory on grouped states,
biases what is averaged.
"""

import math
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from privalue.core import Contributions, Integers, Vector, VisitStatistics
from privalue.errors import StudyError, UsageError
from privalue.planning._returns import (
    MOST_EXACT,
    FirstVisits,
    expected_length,
    first_visits,
    return_range,
)
from privalue.simulation import MarkovRewardProcess, World, simulate_episodes
from privalue.study import Study, design

SEED = 20160620
BATCHES = 500
MOST_STATES = 100_000  # a plan of so many takes a minute; of a million, ten, and 3 GB
_MOST_ROWS, _MOST_TRAJECTORIES = 4_000_000, 200_000  # simulated
_GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True, kw_only=True, eq=False)
class PublicModel:
    """The visits, returns and values that a plan assumes, and where the assumptions come from."""

    visits: Vector
    means: Vector
    variances: Vector
    values: Vector  # NaN where the world has none
    known: bool  # the values are a world's, not made up
    source: str
    assumptions: tuple[str, ...]
    together: Vector | None = None

    def __post_init__(self) -> None:
        for name in ("visits", "means", "variances", "values", "together"):
            if getattr(self, name) is not None:
                array = np.array(getattr(self, name), dtype=np.float64)
                array.setflags(write=False)
                object.__setattr__(self, name, array)
        if not ((self.visits >= 0) & (self.visits <= 1)).all() or not (self.variances >= 0).all():
            raise UsageError("a model needs visits from 0 to 1 and variances of at least 0")

    @property
    def distinct_states(self) -> float:
        """Return sum_s p_s, the expected number of distinct states of a trajectory."""
        return float(self.visits.sum())


def public_model(study: Study, world: World | None = None) -> PublicModel:
    """Return the model of a world, or what can be assumed from the study alone."""
    if study.key_count > MOST_STATES:
        raise UsageError(
            f"errors are predicted for at most {MOST_STATES:,} states, and this study has "
            f"{study.key_count:,}; plan a study of fewer, such as a part of them"
        )
    return study_model(study) if world is None else world_model(study, world)


# From the study alone


def study_model(study: Study) -> PublicModel:
    """Return the assumptions that are made where nothing but the study is known.

    Values are spread evenly over the bounds of returns, in no order, and such that features fit
    them. Returns vary as much as bounds allow: a variable in [a, b] of mean v has a variance of
    at most (b - v)(v - a) (Bhatia and Davis 2000).
    """
    if study.arm_count > 1:
        return _in_every_arm(study_model(study.in_one_arm()), study.arm_count)
    low, high = study.return_bounds
    states = study.state_count
    values = np.clip(_spread_values(study), low, high)
    visits = study.visit_prior
    if visits is None:
        visits = np.arange(1, states + 1) / states
        seen = (
            "the chance that a trajectory visits a state is 1/N, 2/N, ..., 1, since the study "
            "gives no prior of visits"
        )
    else:
        seen = "the chance that a trajectory visits a state is the study's prior of visits"
    return PublicModel(
        visits=visits,
        means=values,
        variances=(high - values) * (values - low),
        values=values,
        known=False,
        source="the study alone",
        assumptions=(
            seen,
            f"values are spread evenly over the bounds of returns, [{low:g}, {high:g}]",
            "returns vary as much as these bounds allow, so the sampling error is an upper bound",
        ),
    )


def even_spread(count: int, low: float, high: float) -> Vector:
    """Return ``count`` numbers that are spread evenly over [low, high], in no order.

    Whatever the count, their root mean square distance from the middle is that of the uniform
    distribution, (high - low)/sqrt(12).
    """
    order = np.argsort(np.argsort(np.arange(1, count + 1) * _GOLDEN % 1.0))
    steps = (order + 0.5) / count - 0.5
    if count == 1:  # a single number has this distance from the middle
        return np.array([(low + high) / 2 + (high - low) * math.sqrt(1 / 12)])
    steps = steps / math.sqrt(1 - 1 / count**2)
    return np.asarray((low + high) / 2 + (high - low) * steps)


def _spread_values(study: Study) -> Vector:
    """Return evenly spread values that the study's features can represent."""
    low, high = study.return_bounds
    if study.features.kind == "tabular":
        return even_spread(study.state_count, low, high)
    phi = design(study).phi
    if study.features.kind == "aggregate":
        return np.asarray(phi @ even_spread(phi.shape[1], low, high))
    dense = phi if isinstance(phi, np.ndarray) else phi.toarray()
    target = even_spread(study.state_count, low, high)
    return np.asarray(dense @ np.linalg.lstsq(dense, target, rcond=None)[0])


def _in_every_arm(model: PublicModel, arms: int) -> PublicModel:
    """Return the model of several arms, each as large as the others and with the same law.

    How the states of an arm vary together is known from batches of trajectories. Other arms have
    other people: each gets the same batches, moved on by some places, so that no two meet.
    """
    together = model.together
    if together is not None:
        places = [len(together) * arm // arms for arm in range(arms)]
        counts, sums = np.hsplit(together, 2)
        together = np.hstack(
            [np.roll(part, at, axis=0) for part in (counts, sums) for at in places]
        )
    return replace(
        model,
        visits=np.tile(model.visits / arms, arms),
        means=np.tile(model.means, arms),
        variances=np.tile(model.variances, arms),
        values=np.tile(model.values, arms),
        together=together,
        assumptions=(
            *model.assumptions,
            f"the {arms} arms are equally large and alike; how large they are is not public",
        ),
    )


# From a world


def world_model(study: Study, world: World) -> PublicModel:
    """Return the law of a world's trajectories, as the study counts them."""
    if study.arm_count > 1:
        return _in_every_arm(world_model(study.in_one_arm(), world), study.arm_count)
    process = MarkovRewardProcess(
        outcomes=world.process.outcomes,
        start=world.process.start,
        discount=study.values.discount,
    )
    process.require_end()
    state_of = raw_states(study, process)
    batches = _simulated(study, process, state_of)
    clamped = _clamps(study, process)
    limited = study.states_per_trajectory < study.state_count
    law = simulated = _moments(batches)
    assumptions = [f"trajectories are those of the public world {world.text}"]
    if process.states <= MOST_EXACT:
        law = first_visits(process, state_of, study.state_count)
    merged = np.bincount(state_of[state_of >= 0]).max() > 1
    visits = simulated.visits if limited else law.visits
    biased = clamped or (limited and merged)
    if world.process.discount != study.values.discount:
        assumptions.append(f"its rewards are discounted by the study's {study.values.discount:g}")
    if clamped:
        assumptions.append("some of its returns or rewards lie outside the bounds, and are clamped")
    if limited:
        assumptions.append(
            f"a trajectory counts for its first {study.states_per_trajectory} states only"
        )
    if law is simulated or limited or clamped:
        assumptions.append(f"found by simulating {_total(batches):,} of its trajectories")
    moments = simulated if biased else law
    low, high = study.return_bounds
    middle = np.where(np.isfinite(moments.means), moments.means, study.values.unvisited_value)
    means = np.clip(middle, low, high)
    variances = np.where(np.isfinite(moments.variances), moments.variances, 0.0)
    return PublicModel(
        visits=visits,
        means=means,
        variances=np.minimum(variances, (high - means) * (means - low)),
        values=law.means,
        known=True,
        source=f"the public world {world.text}",
        assumptions=tuple(assumptions),
        together=_together(batches, visits, means),
    )


def raw_states(study: Study, process: MarkovRewardProcess) -> Integers:
    """Return for each state of a world the state of the study that it belongs to.

    It is -1 where the study has none, which is allowed only for states that no trajectory visits.
    """
    states = process.states
    if study.raw_labels is None or (
        study.states.groups is None and "0" not in study.raw_labels
    ):  # states are matched by position
        if states != study.state_count:
            raise StudyError(
                f"[states] the world has {states} states and the study {study.state_count}; use "
                "a world of the same states, or map its states by [states] groups"
            )
        return np.arange(states)
    found = np.array([study.raw_labels.get(str(raw), -1) for raw in range(states)])
    unknown = np.flatnonzero((found < 0) & process.reachable)
    if unknown.size:
        raise StudyError(
            f'[states] trajectories of the world visit state "{unknown[0]}", which is no raw '
            "label of the study; add it to [states] groups, or use another world"
        )
    return found


def _clamps(study: Study, process: MarkovRewardProcess) -> bool:
    """Return whether any reward or return of the process can lie outside the study's bounds."""
    low, high = process.reward_bounds
    lowest, highest = return_range(process)
    slack = 1e-9 * (study.return_bounds[1] - study.return_bounds[0])
    return not (
        study.values.rewards[0] <= low
        and high <= study.values.rewards[1]
        and study.return_bounds[0] <= lowest + slack
        and highest <= study.return_bounds[1] + slack
    )


def _simulated(
    study: Study, process: MarkovRewardProcess, state_of: Integers
) -> list[VisitStatistics]:
    """Return the statistics of equal batches of simulated trajectories.

    The core counts them by the code that counts real rows, so the study's limits and bounds apply.
    """
    total = int(np.clip(_MOST_ROWS / expected_length(process), 100, _MOST_TRAJECTORIES))
    count = min(BATCHES, total)
    each = total // count
    rows = simulate_episodes(process, trajectories=each * count, seed=SEED)
    states = state_of[rows.state].astype(np.int32)
    rewards = np.clip(rows.reward, *study.values.rewards)
    ids = rows.trajectory[:, None, None]  # also for persons: each has one trajectory, so all count
    bounds = np.searchsorted(rows.trajectory, np.arange(0, each * count + 1, each))
    batches = []
    for begin, end in pairwise(bounds.tolist()):
        some = slice(begin, end)
        contributions = Contributions(study.limits)
        contributions.add(ids[some], rows.step[some], states[some], rewards[some])
        batches.append(contributions.finish())
    return batches


def _total(batches: list[VisitStatistics]) -> int:
    """Return the number of trajectories of all batches."""
    return sum(batch.trajectories for batch in batches)


def _moments(batches: list[VisitStatistics]) -> FirstVisits:
    """Estimate p, F and v from batches: v_s = sum_b (S_b - n_b F_s)^2 / sum_b n_b."""
    counts = np.array([batch.counts for batch in batches])
    sums = np.array([batch.return_sums for batch in batches])
    total = counts.sum(axis=0)
    with np.errstate(invalid="ignore"):
        means = sums.sum(axis=0) / total
        variances = np.square(sums - counts * means).sum(axis=0) / total
    return FirstVisits(visits=total / _total(batches), means=means, variances=variances)


def _together(batches: list[VisitStatistics], visits: Vector, means: Vector) -> Vector:
    """Return how far each batch is from its expectation, scaled to variance 1.

    Columns 0 .. N-1 are n_b - |b| p, columns N .. 2N-1 are S_b - n_b F. A column of NaN belongs to
    a state that no batch visited, or whose numbers do not vary.
    """
    counts = np.array([batch.counts for batch in batches])
    sums = np.array([batch.return_sums for batch in batches])
    each = batches[0].trajectories
    off = np.hstack([counts - each * visits, sums - counts * means])
    spread = np.sqrt(np.mean(np.square(off), axis=0))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(spread > 1e-12 * np.abs(sums).max(), off / spread, np.nan)
