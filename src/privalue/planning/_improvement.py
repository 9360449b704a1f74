"""Predict what an improved policy would be worth, where a public world says what follows choices.

| symbol  | here           | shape     | public |
|---------|----------------|-----------|--------|
| pi      | ``policies``   | D x N x A | yes: improved policies of D made-up releases |
| P(s'|s,a), r(s,a) |      |           | yes: the world's |
| V_pi    |                | D x N     | yes: (I - gamma P_pi) V_pi = r_pi |
| J(pi)   | ``values``     | D         | yes: sum_s mu(s) V_pi(s), what a person gains under pi |

Statistics of m trajectories are made up and get the mechanism's noise, as for every prediction; the
rule of ``improve`` is applied to each; and what the policies are worth is exact. Nothing else is
random, so that the spread over the draws is that of releases.
"""

from dataclasses import dataclass, replace

import numpy as np

from privalue.core import Integers, Vector, VisitStatistics
from privalue.errors import StudyError
from privalue.estimate import GreedyStep, NoisyStatistics, step_of_noisy, with_clear_gains
from privalue.planning._draws import Draws
from privalue.planning._model import raw_pairs, raw_states
from privalue.planning._predict import (
    drawn_numbers,
    noisy_pairs,
    planned_size,
    planned_trajectories,
)
from privalue.planning._public_model import SEED, PublicModel
from privalue.simulation import MDP, Outcomes, Policy, World
from privalue.study import Study, design, mechanism_for

_MOST_DRAWS, _FEWEST_DRAWS = 100, 16
_PAIRS = 100_000  # a draw of so many takes as long as all of them may
_DENSE = 20_000_000  # N N A; up to here all transitions are held, and many policies solved at once
_AT_ONCE = 4_000_000  # numbers in the matrices of the policies that are solved together
_NO_NOISE = 1e-3  # visits: a standard deviation
_ROUNDING = 1e-9  # of the world's values: a policy that is worse by so much is not worse


@dataclass(frozen=True, kw_only=True)
class RuleForecast:
    """What one rule's policies are worth, over the draws.

    ``level`` is None for the default rule; with one, states move only where the gain is clear.
    """

    level: float | None
    mean: float
    standard_error: float  # of the mean, by the number of draws
    usual: tuple[float, float]  # of one release: 10% and 90% quantiles
    worse: float  # the share of releases whose policy is worth less than the behaviour
    loss: float  # how much less, on average over these; 0 where there are none
    moved: float  # the share of states that move to one action


@dataclass(frozen=True, kw_only=True)
class ImprovementForecast:
    """What improved policies are worth in a world, beside what people do, and the best policy.

    ``best`` takes allowed actions only, and knows the world's own states; None where it cannot be
    found. ``without_noise`` is the mean of the default rule on the same statistics without noise.
    """

    behaviour: float
    best: float | None
    without_noise: float
    rules: tuple[RuleForecast, ...]  # the default one first
    draws: int

    @property
    def chosen(self) -> RuleForecast:
        """Return the forecast of the default rule."""
        return self.rules[0]


def predict_improvement(
    study: Study,
    model: PublicModel,
    world: World,
    *,
    trajectories: int | None = None,
    draws: int | None = None,
) -> ImprovementForecast:
    """Predict the value of the policy that ``improve`` makes of a release.

    Args:
        study: with actions.
        model: of the world, from ``public_model``.
        world: in which people choose; its policy is what they do.
        trajectories: m; the declared number, if left out.
        draws: how many releases to make up; by the number of pairs, if left out.

    Returns:
        Means, spreads, and how often a policy is worse than the behaviour.

    Raises:
        StudyError: the world does not fit, or an improved policy may never end in it.
    """
    m = planned_trajectories(study, trajectories)
    pairs = study.pairs
    if pairs is None:
        raise StudyError("[actions] is empty: without actions there is no policy to improve")
    mechanism = mechanism_for(study, design(study), planned_size(study, m))
    number = draws or int(np.clip(_PAIRS // study.key_count, _FEWEST_DRAWS, _MOST_DRAWS))
    generator = np.random.default_rng((SEED, 2))  # other numbers than those of the errors
    steps, clean = [], []
    for statistics in Draws(model, study, number).statistics(m):
        drawn = drawn_numbers(mechanism, statistics, generator)
        steps.append(
            step_of_noisy(
                noisy_pairs(mechanism, drawn),
                study,
                study.report.level,
                only_clear_gains=False,
            )
        )
        clean.append(_step_without_noise(study, statistics))
    careful = [with_clear_gains(step, pairs.state_of) for step in steps]
    course = _Course.of(study, world)
    behaviour = float(policy_values(course.mdp, course.behaviour[None])[0])
    default, clear, plain = (
        _checked(policy_values(course.mdp, course.policies([step.policy for step in some])))
        for some in (steps, careful, clean)
    )
    return ImprovementForecast(
        behaviour=behaviour,
        best=course.best(),
        without_noise=float(plain.mean()),
        rules=(
            _summary(None, default, behaviour, steps),
            _summary(study.report.level, clear, behaviour, careful),
        ),
        draws=number,
    )


def _step_without_noise(study: Study, statistics: VisitStatistics) -> GreedyStep:
    """Return what the default rule does with sums and counts that are hardly noisy at all."""
    low, high = study.return_bounds
    counts = statistics.counts.astype(np.float64)
    noisy = NoisyStatistics(
        return_bounds=(low, high),
        sums=statistics.return_sums - counts * (0.5 * low + 0.5 * high),
        counts=counts,
        sum_noise=np.full(len(counts), _NO_NOISE * (high - low)),
        count_noise=np.full(len(counts), _NO_NOISE),
    )
    return step_of_noisy(noisy, study, study.report.level, only_clear_gains=False)


def _checked(values: Vector) -> Vector:
    """Return the values of policies; refuse a policy under which a trajectory may never end."""
    if not np.isfinite(values).all():
        raise StudyError(
            "[values] discount = 1: under an improved policy a trajectory of the world may never "
            "end; use a smaller discount, or another world"
        )
    return values


def _summary(
    level: float | None, values: Vector, behaviour: float, steps: list[GreedyStep]
) -> RuleForecast:
    """Summarise what the policies of one rule are worth."""
    low, high = np.quantile(values, [0.1, 0.9])
    less = behaviour - values
    worse = less > _ROUNDING * max(abs(behaviour), 1.0)
    return RuleForecast(
        level=level,
        mean=float(values.mean()),
        standard_error=float(values.std(ddof=1) / np.sqrt(len(values))),
        usual=(float(low), float(high)),
        worse=float(worse.mean()),
        loss=float(less[worse].mean()) if worse.any() else 0.0,
        moved=float(np.mean([(step.chosen >= 0).mean() for step in steps])),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Course:
    """A world as an improved policy meets it: which of its pairs are which of the study."""

    mdp: MDP  # at the study's discount
    behaviour: Vector  # N x A
    key_of: Integers  # N x A: the pair of the study; -1 where there is none
    known: Integers  # the raw states that the study has

    @classmethod
    def of(cls, study: Study, world: World) -> "_Course":
        """Return the world at the study's discount, with the study's pairs."""
        mdp, policy = world.decisions
        state_of = raw_states(study, world.process)
        return cls(
            mdp=replace(mdp, discount=study.values.discount),
            behaviour=policy.probabilities,
            key_of=raw_pairs(study, world, state_of).reshape(mdp.states, mdp.actions),
            known=np.flatnonzero(state_of >= 0),
        )

    def policies(self, of_pairs: list[Vector]) -> Vector:
        """Return D x N x A from probabilities of the study's pairs.

        In a state that the study does not have people go on as they did.
        """
        drawn, keys = np.array(of_pairs), self.key_of[self.known]
        found = np.repeat(self.behaviour[None], len(drawn), axis=0)
        found[:, self.known] = np.where(keys >= 0, drawn[:, np.maximum(keys, 0)], 0.0)
        return found

    def best(self) -> float | None:
        """Return the largest value of a policy that takes allowed actions only.

        An action that is not allowed is made to do what the state's first allowed one does.
        """
        states, actions = self.key_of.shape
        allowed = self.key_of >= 0
        allowed[np.setdiff1d(np.arange(states), self.known)] = True
        does = np.where(allowed, np.arange(actions), allowed.argmax(axis=1)[:, None])
        source = (np.arange(states)[:, None] * actions + does).ravel()
        table = self.mdp.outcomes
        width = np.diff(table.offsets)[source]
        offsets = np.concatenate([[0], np.cumsum(width)])
        at = np.arange(offsets[-1]) + np.repeat(table.offsets[source] - offsets[:-1], width)
        restricted = replace(
            self.mdp,
            outcomes=Outcomes(
                states=table.states,
                actions=table.actions,
                offsets=offsets,
                probabilities=table.probabilities[at],
                successors=table.successors[at],
                rewards=table.rewards[at],
            ),
        )
        try:
            return restricted.value(restricted.optimal())
        except StudyError:  # without discounting, values may grow for ever
            return None


def policy_values(mdp: MDP, policies: Vector) -> Vector:
    """Return J of every policy, exactly: (I - gamma P_pi) V = r_pi, J = sum_s mu(s) V(s).

    Args:
        mdp: what follows every choice.
        policies: D x N x A probabilities.

    Returns:
        D values; NaN where trajectories may never end and nothing is discounted.
    """
    count, states, actions = policies.shape
    if states * states * actions > _DENSE or mdp.discount == 1:
        return np.array([mdp.value(Policy(probabilities=each)) for each in policies])
    transitions = mdp.outcomes.transitions.toarray().reshape(states, -1, states)
    rewards = mdp.outcomes.expected_rewards.reshape(states, -1)
    values = np.empty(count)
    together = max(_AT_ONCE // states**2, 1)
    for begin in range(0, count, together):
        some = policies[begin : begin + together]
        # (N x D x A) (N x A x N): one product for each state
        following = np.matmul(some.transpose(1, 0, 2), transitions).transpose(1, 0, 2)
        system = np.eye(states) - mdp.discount * following
        paid = (some * rewards).sum(axis=2)
        values[begin : begin + together] = np.linalg.solve(system, paid[..., None])[..., 0] @ (
            mdp.start
        )
    return values
