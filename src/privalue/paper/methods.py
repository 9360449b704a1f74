"""Run the compared algorithms; the private ones use the mechanisms of a real release.

The paper's setting ([BGP16] section 6):

| symbol         | here                     | value                                     |
|----------------|--------------------------|-------------------------------------------|
| N, p, gamma    | ``WORLD``                | 40, 0.5, 0.99; the start is uniform       |
| epsilon, delta | ``EPSILON``, ``DELTA``   | 0.1, 0.1                                  |
| Rmax/(1-gamma) | ``WIDE``                 | 100: implied by rewards in [0, 1]         |
| F_max          | ``TIGHT``                | 1: a public bound of all returns          |
| lambda         | ``method.ridge``         | (lambda/2m) ||theta||^2 beside the mean loss |
| theta_X        | ``outcome.noiseless``    | the estimate before noise                 |
| theta_X + eta  | ``outcome.theta``        | the estimate that would be released       |

m and the number of the run identify a batch. Its first-visit statistics are drawn directly from
their joint distribution over m trajectories, so that ten million cost as much as ten. With another
bound of returns the same batch is rounded to another grid. The noise has its own seed, and every
algorithm gets the same standard normal numbers, scaled to its sigma (common random numbers), so
that algorithms do not differ by chance. LSW and LSL are theta_X itself. "DP-LSW" and "DP-LSL" have
the constants of Lemma 1 and isotropic noise: they are the paper's Algorithms 1 and 2 unchanged.

All data are simulated with fixed seeds: nothing here is private.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np

from privalue.core import (
    MECHANISMS,
    Design,
    Lsl,
    Lsw,
    PublicSize,
    Ssp,
    Statistics,
    Vector,
    lsl,
    lsw,
)
from privalue.estimate import theta_of
from privalue.paper.chain import chain_statistics
from privalue.simulation import World, parse_world
from privalue.study import Study, aggregation, design, resolve

WORLD = "chain:N=40,p=0.5,discount=0.99"
STATES = 40
EPSILON, DELTA = 0.1, 0.1
WIDE, TIGHT = 100.0, 1.0
SEED = 20160620

Keys = tuple[tuple[str, str | float | bool], ...]


@cache
def world() -> World:
    """Return the paper's chain."""
    return parse_world(WORLD)


def truth() -> Vector:
    """Return V, by exact dynamic programming."""
    return world().values


def rmse(values: Vector) -> float:
    """Return the root mean square error over the states, against the exact values."""
    return float(np.sqrt(np.mean(np.square(values - truth()))))


def _derive_seed(*numbers: int) -> int:
    """Derive a seed from numbers; different numbers give independent streams."""
    words = np.random.SeedSequence([SEED, *numbers]).generate_state(2)
    return int(words[0]) << 20 ^ int(words[1])


@lru_cache(maxsize=512)
def batch(trajectories: int, run: int, bound: float) -> Statistics:
    """Return the first-visit statistics of one batch, with returns counted in [0, bound]."""
    sample = chain_statistics(
        world(),
        trajectories=trajectories,
        seed=_derive_seed(trajectories, run, 0),
        returns=(0.0, bound),
    )
    return Statistics(
        limits=_study(LSW, Features(bound=bound)).limits,
        trajectories=trajectories,
        rows=int(sample.counts.sum()),  # first visits; nothing depends on the other rows
        counts=sample.counts,
        return_steps=sample.return_steps,
    )


def normals(trajectories: int, run: int, count: int) -> Vector:
    """Return standard normal numbers; a shorter sequence is a prefix of a longer one."""
    return np.random.default_rng(_derive_seed(trajectories, run, 1)).standard_normal(count)


@dataclass(frozen=True, kw_only=True)
class Features:
    """The public inputs of the algorithms: the bound of returns, and the features.

    Groups of ``aggregation`` adjacent states share a value. Features are 0 or 1; if ``normalised``,
    each column is scaled to norm 1, which spans the same values.
    """

    bound: float = TIGHT
    aggregation: int = 1
    normalised: bool = False


@dataclass(frozen=True, kw_only=True)
class Method:
    """An algorithm: its name, and the keywords of its study; without keywords it is not private.

    With ``prior``, the study has the chain's true visit probabilities as public knowledge.
    """

    name: str
    keys: Keys = ()
    ridge: float | None = None
    schedule: str = ""  # the formula of the ridge, e.g. "100 sqrt(m)"
    prior: bool = False
    unvisited: float = 0.0


LSW = Method(name="LSW")
DP_LSW = Method(
    name="DP-LSW",
    keys=(("mechanism", "dp-lsw"), ("calibration", "nissim"), ("noise", "isotropic")),
)
EXACT_LSW = Method(name="DP-LSW, exact", keys=(("mechanism", "dp-lsw"),))


def plain_lsl(ridge: float, schedule: str = "") -> Method:
    """Return LSL without privacy."""
    return Method(name="LSL", ridge=ridge, schedule=schedule)


def _private_lsl(name: str, keys: Keys) -> Callable[..., Method]:
    def make(ridge: float, schedule: str = "") -> Method:
        return Method(name=name, keys=(*keys, ("ridge", ridge)), ridge=ridge, schedule=schedule)

    return make


dp_lsl = _private_lsl("DP-LSL", (("mechanism", "dp-lsl"), ("calibration", "nissim")))
exact_lsl = _private_lsl("DP-LSL, exact", (("mechanism", "dp-lsl"),))  # with our sharper bound
ssp_lsl = _private_lsl("DP-SSP, ridge", (("mechanism", "dp-ssp"),))  # LSL of noisy statistics


def scheduled_ridge(schedule: str, trajectories: int) -> float:
    """Return lambda of a schedule "c", "c sqrt(m)" or "c m".

    >>> [scheduled_ridge(text, 16) for text in ("100 sqrt(m)", "sqrt(m)", "0.5 m", "2")]
    [400.0, 4.0, 8.0, 2.0]
    """
    for ending, size in (("sqrt(m)", math.sqrt(trajectories)), ("m", float(trajectories))):
        if schedule.endswith(ending):
            return float(schedule.removesuffix(ending) or 1) * size
    return float(schedule)


class Outcome(NamedTuple):
    """An algorithm's estimate from one batch: values, parameters with noise, and without."""

    values: Vector
    theta: Vector
    noiseless: Vector


@cache
def design_of(features: Features) -> Design:
    """Return the design: Phi, and uniform weights."""
    return design(_study(LSW, features))


@lru_cache(maxsize=4096)
def _mechanism(
    method: Method, features: Features, trajectories: int
) -> tuple[Study, Ssp | Lsw | Lsl]:
    size = PublicSize(units=trajectories, most_count=trajectories, trajectories=trajectories)
    study = _study(method, features)
    terms = resolve(study, size, design_of(features))
    mechanism = MECHANISMS[terms.mechanism](terms)
    assert isinstance(mechanism, Ssp | Lsw | Lsl)
    return study, mechanism


def _study(method: Method, features: Features) -> Study:
    keys = dict[str, Any](method.keys)
    if method.prior:
        keys["visits"] = {str(s): p for s, p in enumerate(world().visits.tolist())}
    if features.normalised:
        phi = aggregation(STATES, features.aggregation).toarray()
        keys["features"] = phi / np.linalg.norm(phi, axis=0)
    elif features.aggregation > 1:
        keys["size"] = features.aggregation
    return Study(
        epsilon=EPSILON,
        delta=DELTA,
        unit="trajectory",
        discount=world().process.discount,
        rewards=(0.0, 1.0),
        returns=(0.0, features.bound),
        unvisited=method.unvisited,
        states=STATES,
        **keys,
    )


def outcome(method: Method, features: Features, trajectories: int, run: int) -> Outcome:
    """Return the algorithm's estimate from one batch, with seeded noise and without clipping."""
    phi, statistics = design_of(features), batch(trajectories, run, features.bound)
    if method.ridge is None:
        noiseless = lsw(statistics.mean_returns(method.unvisited), phi)
    else:
        noiseless = lsl(statistics.counts, statistics.return_sums, phi, method.ridge)
    if not method.keys:
        return Outcome(phi.values(noiseless), noiseless, noiseless)
    study, mechanism = _mechanism(method, features, trajectories)
    perturbation = mechanism.perturb(statistics, "values", {})
    noise = perturbation.deviations * normals(trajectories, run, len(perturbation.center))
    theta = theta_of(study, mechanism, {"values": perturbation.center + noise})
    return Outcome(phi.values(theta), theta, noiseless)


def lsw_excess(phi: Design, eta: Vector) -> float:
    """Return J^w(theta_X + eta) - J^w(theta_X) = eta^T Phi^T Gamma Phi eta ([BGP16] Lemma 22)."""
    return float(phi.weights @ np.square(phi.values(eta)))


def lsl_excess(phi: Design, counts: Any, ridge: float, eta: Vector, m: int) -> float:
    """Return (1/m) eta^T (Phi^T D Phi + (lambda/2) I) eta, D = diag(rho_s |X_s|) (Lemma 29)."""
    fitted = float((phi.weights * counts) @ np.square(phi.values(eta)))
    return (fitted + ridge / 2 * float(eta @ eta)) / m


def excess(method: Method, features: Features, trajectories: int, run: int) -> float:
    """Return the excess empirical risk of an estimate: J is quadratic with minimum at theta_X."""
    result, phi = outcome(method, features, trajectories, run), design_of(features)
    eta = result.theta - result.noiseless
    if method.ridge is None:
        return lsw_excess(phi, eta)
    counts = batch(trajectories, run, features.bound).counts
    return lsl_excess(phi, counts, method.ridge, eta, trajectories)
