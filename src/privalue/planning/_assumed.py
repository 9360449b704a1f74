"""Assume visits and returns where nothing but the study is known: three cases, and a range.

| symbol  | here         | shape | public |
|---------|--------------|-------|--------|
| N       | ``states``   |       | yes: of states, or of pairs with an action |
| H       | ``study.states_per_trajectory`` | | yes: the most states that a trajectory counts for |
| D       | ``total``    |       | yes: sum_s p_s, how many states a trajectory visits on average |
| z       | ``skew``     |       | yes: 0 where all states are visited alike |
| p_s     | ``visits``   | N     | yes: min(1, c s^-z), with c such that they sum to D (Zipf) |

A trajectory counts for H states at most, so D is at most H. Nobody knows beforehand how skewed
visits are, and the error depends on little else: a plan from the study alone is a range.

| case       | D      | z   | values                        | returns vary            |
|------------|--------|-----|-------------------------------|-------------------------|
| optimistic | H      | 0   | within 1% of the bounds' range | 3% of what bounds allow |
| middle     | (H+1)/2 | 0.5 | spread evenly over the bounds | as much as bounds allow |
| cautious   | H/4    | 2   | spread evenly over the bounds | as much as bounds allow |

With a prior of visits the study says how often each state is visited; the optimistic case adds a
quarter to that, and the cautious one takes a quarter off. A variable in [a, b] of mean v has a
variance of at most (b - v)(v - a) (Bhatia and Davis 2000). The numbers in the table were tuned on
random worlds; ``python -m benchmarks planning`` shows on others how often the error lies inside the
range.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from privalue.core import Vector
from privalue.planning._public_model import PublicModel
from privalue.study import PairNames, Study, design

_GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True, kw_only=True)
class Case:
    """What is assumed in one of the three cases."""

    visited: float  # of H: how many states a trajectory visits
    besides: float = 0.0  # and so many more
    skew: float
    spread: float  # of the bounds' range: where values lie
    variation: float  # of the largest variance that bounds allow
    prior: float = 1.0  # of a prior's chances of visits: how large they are


OPTIMISTIC = Case(visited=1.0, skew=0.0, spread=0.01, variation=0.03, prior=1.25)
MIDDLE = Case(visited=0.5, besides=0.5, skew=0.5, spread=1.0, variation=1.0)
CAUTIOUS = Case(visited=0.25, skew=2.0, spread=1.0, variation=1.0, prior=0.75)


def study_model(study: Study) -> PublicModel:
    """Return the middle case, which holds the other two."""
    if study.arm_count > 1:
        return study_model(study.in_one_arm()).in_every_arm(study.arm_count)
    low, high = study.return_bounds
    most, keys = study.states_per_trajectory, "states" if study.pairs is None else "pairs"
    if study.visit_prior is None:
        whole = "states" if study.pairs is None else "pairs of a state and an action"
        seen = (
            f"a trajectory visits {_number(_total(study, MIDDLE))} of the {whole} on average, some "
            "of them much more often than others, since the study gives no prior of visits; at the "
            f"optimistic end it visits {_number(_total(study, OPTIMISTIC))}, and all {keys} are "
            f"visited alike; at the cautious end it visits {_number(_total(study, CAUTIOUS))}, and "
            f"some {keys} are visited by few"
        )
    else:
        fits = "" if study.visit_prior.sum() <= most else f", lowered so that {most} fit"
        seen = (
            f"the chance that a trajectory visits a {keys[:-1]} is the study's prior of "
            f"visits{fits}; "
            "at the optimistic end it is a quarter more, at the cautious end a quarter less"
        )
    middle = _model(
        study,
        MIDDLE,
        (
            seen,
            f"values are spread evenly over the bounds of returns, [{low:g}, {high:g}], and "
            "returns vary as much as these allow; at the optimistic end all values are nearly "
            "equal, and returns vary little",
            *_about_the_bound(study),
        ),
    )
    return replace(
        middle, optimistic=_model(study, OPTIMISTIC, ()), cautious=_model(study, CAUTIOUS, ())
    )


def _about_the_bound(study: Study) -> tuple[str, ...]:
    """Say what a stage for the bound of returns does to the range, where there is one."""
    if "bounds" not in study.stages:
        return ()
    return (
        "returns take all of their range; at the optimistic end a stage of the release finds that "
        "they take a thirty-second of it, and errors are as much smaller",
    )


def assumed_visits(study: Study, case: Case) -> Vector:
    """Return the chance that a trajectory visits each state in its arm; their sum is at most H."""
    prior, most = study.visit_prior, study.states_per_trajectory
    if prior is None:
        return skewed_visits(study.keys_per_arm, _total(study, case), case.skew)
    visits = np.minimum(case.prior * prior, 1.0)
    return np.asarray(visits * min(1.0, most / max(float(visits.sum()), 1e-300)))


def skewed_visits(states: int, total: float, skew: float) -> Vector:
    """Return p_s = min(1, c s^-z) for s = 1, ..., N, with c such that they sum to ``total``.

    If the first k are 1, then c = (D - k)/sum_{s > k} s^-z, and k is the least for which the next
    one is not above 1.
    """
    shape = np.arange(1, states + 1, dtype=np.float64) ** -skew
    rest = np.cumsum(shape[::-1])[::-1]
    scale = (min(total, states) - np.arange(states)) / rest
    certain = int(np.argmax(scale * shape <= 1 + 1e-12))
    visits = np.minimum(scale[certain] * shape, 1.0)
    visits[:certain] = 1.0
    return np.asarray(visits)


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


def _total(study: Study, case: Case) -> float:
    """Return D: a share of H, and at least the one state in which a trajectory starts.

    The middle case is halfway between that one state and all H.
    """
    return max(case.visited * study.states_per_trajectory + case.besides, 1.0)


def _model(study: Study, case: Case, assumptions: tuple[str, ...]) -> PublicModel:
    """Return the public model of one case."""
    low, high = study.return_bounds
    values = np.clip(_spread_values(study, *_where(study, case)), low, high)
    visits = assumed_visits(study, case)
    return PublicModel(
        visits=visits,
        means=values,
        variances=case.variation * (high - values) * (values - low),
        values=values,
        known=False,
        source="the study alone",
        assumptions=assumptions,
        state_values=None if study.pairs is None else weighted(study.pairs, visits, values),
    )


def weighted(pairs: PairNames, visits: Vector, values: Vector) -> Vector:
    """Return what states are worth, if actions are taken as often as visited; NaN if none is."""
    taken = np.bincount(pairs.state_of, weights=visits)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.bincount(pairs.state_of, weights=visits * values) / taken)


def _where(study: Study, case: Case) -> tuple[float, float]:
    """Return the ends between which values lie: as near to 0 as the bounds allow."""
    low, high = study.return_bounds
    half = case.spread * (high - low) / 2
    middle = min(max(0.0, low + half), high - half)
    return middle - half, middle + half


def _spread_values(study: Study, low: float, high: float) -> Vector:
    """Return evenly spread values that the study's features can represent."""
    if study.features.kind == "tabular":
        return even_spread(study.keys_per_arm, low, high)
    phi = design(study).phi
    if study.features.kind == "aggregate":
        return np.asarray(phi @ even_spread(phi.shape[1], low, high))
    dense = phi if isinstance(phi, np.ndarray) else phi.toarray()
    target = even_spread(study.keys_per_arm, low, high)
    return np.asarray(dense @ np.linalg.lstsq(dense, target, rcond=None)[0])


def _number(total: float) -> str:
    """Return a number of states in words."""
    return f"{total:.2g}" if total < 100 else f"{total:,.0f}"
