"""Predict the error of another policy's value for several clips, before any data is opened.

| symbol | here       | what it is                                             | public |
|--------|------------|--------------------------------------------------------|--------|
| w      | ``weights``| weights of made-up trajectories, before they are clipped | yes  |
| y      | ``returns``| their returns less the middle, over R                  | yes    |
| C      | ``clip``   | what weights are clipped at                            | yes    |
| kappa  | ``kept``   | E min(w, C)                                            | yes    |

The weights come from a public world, in which the behaviour acts as it does there, or from a prior:
their logarithm is normal, with the second moment that the two policies have in a step of a state,
all states alike, to the power of so many steps. Error = noise, sampling and clipping's bias, as
squares. In a world the bias is that of the world; else a twentieth of its bound, which is about
what ICU-Sepsis has (docs/off-policy.md). By start, all of it is of a start that has its even share
of the trajectories. A release vouches for a value by the lower end of the kept mass, and so does
a forecast: by where that end is to be expected.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from privalue._written import counted
from privalue.core import Vector
from privalue.errors import StudyError, UsageError
from privalue.estimate import SUPPORTED
from privalue.planning._predict import USELESS, planned_trajectories
from privalue.planning._public_model import SEED
from privalue.planning._shown import shown
from privalue.simulation import World, simulate_episodes
from privalue.study import Study, declared_size, policy_mechanism

CLIPS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
STEPS = 10  # of a trajectory, where nobody says otherwise
_SIMULATED, _POINTS = 8_000, 4_000
_SHARE_OF_BOUND = 0.05


@dataclass(frozen=True, kw_only=True)
class ClipForecast:
    """What a clip would give, in units of returns."""

    clip: float
    kept: float
    kept_low: float  # where the lower end of its interval is to be expected
    noise: float
    sampling: float
    bias: float

    @property
    def rmse(self) -> float:
        """Return the predicted error of the value."""
        return math.hypot(self.noise, self.sampling, self.bias)

    @property
    def supported(self) -> bool:
        """Return whether a release is to be expected to vouch for the value."""
        return self.kept_low > SUPPORTED

    @property
    def overlaps(self) -> bool:
        """Return whether so much is kept that a release could vouch for it, with enough people."""
        return self.kept > SUPPORTED


@dataclass(frozen=True, kw_only=True, eq=False)
class PolicyPlan:
    """The error to expect of another policy's value, for several clips."""

    study: Study
    trajectories: int  # of all starts together
    forecasts: tuple[ClipForecast, ...]  # by clip, the study's own among them
    assumed: str  # where the weights are from
    steps: int | None = None  # of a trajectory, where they are assumed; None with a world
    starts: int = 1  # with a number each, among which trajectories are assumed to be spread evenly
    target_used: bool = True  # False where the behaviour is in the rows, and there is no world

    @property
    def chosen(self) -> ClipForecast:
        """Return the forecast of the study's own clip."""
        return next(each for each in self.forecasts if each.clip == self.study.policy.clip)

    @property
    def best(self) -> ClipForecast:
        """Return the forecast with the least error, of those that keep enough if any does."""
        able = [each for each in self.forecasts if each.supported]
        able = able or [each for each in self.forecasts if each.overlaps] or list(self.forecasts)
        return min(able, key=lambda each: each.rmse)

    @property
    def rmse(self) -> float:
        """Return the predicted error of the study's own clip."""
        return self.chosen.rmse

    @property
    def guess(self) -> float:
        """Return the error of guessing the middle of the bounds."""
        low, high = self.study.return_bounds
        return (high - low) / math.sqrt(12)

    @property
    def by_start(self) -> bool:
        """Return whether there is a number for each start."""
        return self.study.policy.by == "start"

    @property
    def hopeless(self) -> bool:
        """Return whether the noise alone is no better than guessing."""
        return not self.chosen.noise < USELESS * self.guess

    @property
    def verdict(self) -> str:
        """Return what to expect, in a sentence or two."""
        mine, best = self.chosen, self.best
        told = "" if self.target_used else "For any target, by assumed weights: "
        told += (
            f"{'With' if self.target_used else 'with'} "
            f"{counted(self.trajectories, 'trajectory')} and "
            f"clip = {mine.clip:g}, expect an error of "
            f"{shown(mine.rmse)} in the target's value{' at each start' if self.by_start else ''} "
            f"(guessing: {shown(self.guess)}), and "
            f"{mine.kept:.0%} of its weight kept."
        )
        if best.clip != mine.clip and best.rmse < 0.95 * mine.rmse:
            told += f" clip = {best.clip:g} would be better: {shown(best.rmse)}."
        return told

    @property
    def notes(self) -> tuple[str, ...]:
        """Return what is assumed, and what else there is to know."""
        found = [f"weights are {self.assumed}"]
        if not self.target_used:
            found.append(
                "the target was not used: the behaviour's probabilities are in the rows, which "
                "no plan opens, so that how far the two are apart is not known; a behaviour table "
                "in its place or a public world (world=WORLD) says more"
            )
        share = self.trajectories / self.starts
        each_has = f"{share:,.0f}" if share >= 10 else f"{share:.2g}"
        if self.by_start:
            found.append(
                f"errors are those of a start that has {each_has} of the trajectories, an even "
                f"share of {counted(self.starts, 'start')}; rarer starts have larger ones"
            )
        if self.hopeless:
            told = " at such a start" if self.by_start else ": a release would be refused"
            found.append(f"the noise is no better than guessing{told}")
        if self.target_used and self.chosen.overlaps and not self.chosen.supported:
            found.append(
                f"too few trajectories: with {each_has} the kept mass would be known to be "
                f"above {max(self.chosen.kept_low, 0.0):.2f} only, and a release vouches for a "
                f"value above {SUPPORTED:g}; use more, a larger epsilon or a smaller clip"
            )
        if self.target_used and not any(each.overlaps for each in self.forecasts):
            most = max(each.kept for each in self.forecasts)
            under = (
                ""
                if self.steps is None
                else f", if trajectories have {counted(self.steps, 'step')}"
            )
            found.append(
                f"overlap is hopeless{under}: no clip up to {self.forecasts[-1].clip:g} keeps more "
                f"than {most:.0%} of the target's weight, and a release would not vouch for the "
                "value; use a target nearer to the behaviour, or data in which people acted "
                "otherwise"
                + ("" if self.steps is None else "; if trajectories are shorter, say --steps N")
            )
        return tuple(found)

    def __repr__(self) -> str:
        return f"PolicyPlan({self.verdict})"


def plan_policy(
    study: Study,
    trajectories: int | None = None,
    *,
    world: World | None = None,
    steps: int = STEPS,
) -> PolicyPlan:
    """Predict the error and the kept mass for several clips; nothing is spent, no data is opened.

    Args:
        study: what is public, with dp-ope.
        trajectories: how many are planned; as the study declares, if left out.
        world: a public world with actions that the data will resemble.
        steps: of a trajectory, about; only without a world.

    Raises:
        UsageError: the study values no other policy, or a number is missing.
        StudyError: the world has other states or actions than the study.

    >>> import privalue as pv
    >>> rule, other = {"a": {"x": 0.5, "y": 0.5}}, {"a": {"x": 0.2, "y": 0.8}}
    >>> study = pv.Study(states=["a"], actions=["x", "y"], discount=1.0, returns=(0, 1),
    ...                  epsilon=1.0, unit="trajectory", mechanism="dp-ope",
    ...                  policy={"target": other, "behaviour": rule, "clip": 5})
    >>> plan_policy(study, trajectories=5000, steps=1).chosen.supported
    True
    """
    if not study.values_a_policy:
        raise UsageError('plan_policy is for [mechanism] name = "dp-ope"; use plan')
    m = planned_trajectories(study, trajectories)
    if world is not None:
        weights, returns, value = _simulated(study, world)
        assumed = f"those of {len(weights):,} made-up trajectories of the world {world.name}"
    else:
        weights, returns, value = _assumed(study, steps), None, None
        assumed = (
            f"assumed: trajectories of {counted(steps, 'step')} (--steps N changes that), all "
            "states alike, and returns that are unrelated to the weights; a public world says more"
        )
    own, starts = float(study.policy.clip or 1.0), max(len(study.start_names), 1)
    return PolicyPlan(
        study=study,
        trajectories=m,
        forecasts=tuple(
            _forecast(study, m / starts, clip, weights, returns, value)
            for clip in sorted({*CLIPS, own})
        ),
        assumed=assumed,
        steps=steps if world is None else None,
        starts=starts,
        target_used=world is not None or study.policies.behaviour is not None,
    )


def _forecast(
    study: Study,
    m: float,
    clip: float,
    weights: Vector,
    returns: Vector | None,
    value: float | None,
) -> ClipForecast:
    """Return what a clip would give.

    Args:
        study: what is public.
        m: the number of trajectories, of one start where each has a number.
        clip: C.
        weights: w of made-up trajectories.
        returns: y of the same; None where nothing is known of them.
        value: the target's true u, where it is known.
    """
    low, high = study.return_bounds
    clipped = np.minimum(weights, clip)
    kept = max(float(clipped.mean()), 1e-9)
    mechanism = policy_mechanism(
        study.model_copy(update={"policy": study.policy.model_copy(update={"clip": clip})}),
        declared_size(study),
    )
    scales = mechanism.deviations[:2] * clip / 2**30
    of_sizes = float(mechanism.deviations[3]) if len(mechanism.deviations) > 3 else 0.0
    # The bound of sampling that the interval of a release has.
    people = math.sqrt(study.trajectories_per_person * m * max(kept * (clip - kept), 0.0))
    away = math.hypot(float(scales[1]), kept * of_sizes, people) / m
    if returns is None:
        u, bias = 0.0, _SHARE_OF_BOUND * (1 - min(kept, 1.0)) / kept
        spread = float(np.square(clipped).mean()) / 12
    else:
        u = float((clipped * returns).mean()) / kept
        bias = 0.0 if value is None else u - value
        spread = float(np.square(clipped * (returns - u)).mean())
    noise = math.hypot(float(scales[0]), u * float(scales[1])) / (m * kept)
    sampling = math.sqrt(study.trajectories_per_person * spread / m) / kept
    reach = high - low
    return ClipForecast(
        clip=clip,
        kept=min(kept, 1.0),
        kept_low=min(kept, 1.0) - away * float(special.ndtri((1 + study.report.level) / 2)),
        noise=reach * min(noise, 1.0),
        sampling=reach * min(sampling, 1.0),
        bias=reach * min(abs(bias), 1.0),
    )


def _assumed(study: Study, steps: int) -> Vector:
    """Return weights whose logarithm is normal, at evenly spread places of their law."""
    if not 1 <= steps <= 100_000:
        raise UsageError(f"steps={steps}: it must be from 1 to 100000")
    policies, pairs = study.policies, study.pairs
    assert pairs is not None
    second = 2.0  # of logged propensities nothing is known: as if every other action differed
    if policies.behaviour is not None:
        there = policies.behaviour > 0
        least = np.where(there, np.maximum(policies.behaviour, 1e-100), 1)  # no square overflows
        squares = np.where(there, policies.target**2 / least, 0)
        second = max(float(squares.sum()) / pairs.states.count, 1.0)
    spread = math.sqrt(math.log(second) * steps)
    z = special.ndtri((np.arange(_POINTS) + 0.5) / _POINTS)
    return np.exp(np.minimum(spread * z - spread**2 / 2, 700.0))


def _simulated(study: Study, world: World) -> tuple[Vector, Vector, float]:
    """Return weights and returns of a world's trajectories, and the target's true number."""
    mdp, acting = world.decisions
    pairs, policies = study.pairs, study.policies
    assert pairs is not None
    if (mdp.states, mdp.actions) != (pairs.states.count, pairs.actions.count):
        raise StudyError(
            f"the world {world.name} has {mdp.states} states and {mdp.actions} actions, and the "
            f"study {pairs.states.count} and {pairs.actions.count}; give a world like it"
        )
    rows = simulate_episodes(world, trajectories=_SIMULATED, seed=SEED, actions=True)
    assert rows.action is not None
    target = np.zeros((mdp.states, mdp.actions))
    target[pairs.state_of, pairs.action_of] = policies.target
    behaviour = acting
    if policies.behaviour is not None:
        behaviour = np.zeros_like(target)
        behaviour[pairs.state_of, pairs.action_of] = policies.behaviour
    taken = behaviour[rows.state, rows.action]
    ratios = np.where(
        taken > 0, target[rows.state, rows.action] / np.where(taken > 0, taken, 1.0), 0.0
    )
    starts = np.flatnonzero(np.diff(rows.trajectory, prepend=-1))
    low, high = study.return_bounds
    # Steps count rows from 0, so that rewards are discounted from each trajectory's beginning.
    place = np.arange(len(rows)) - np.repeat(starts, np.diff(starts, append=len(rows)))
    returns = np.add.reduceat(rows.reward * study.values.discount**place, starts)
    y = (np.clip(returns, low, high) - low) / (high - low) - 0.5
    weights = np.multiply.reduceat(ratios, starts)
    unclipped = float((weights * y).mean()) / max(float(weights.mean()), 1e-9)
    try:
        exact = mdp.value(target)
        return weights, y, (exact - low) / (high - low) - 0.5
    except StudyError:  # e.g. a target of a state that never ends
        return weights, y, unclipped
