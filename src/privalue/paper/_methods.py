"""Run the algorithms that are compared, each through the mechanism that a release goes through.

| symbol        | here              | shape | public: everything here is made up                |
|---------------|-------------------|-------|---------------------------------------------------|
| theta_X       | ``outcome.clean`` | d     | yes: the estimate before noise                    |
| theta_X + eta | ``outcome.theta`` | d     | yes: what would be released                       |
| lambda        | ``method.ridge``  |       | yes: as in [BGP16], (lambda/2m) beside the mean loss |

LSW and LSL are theta_X itself. DP-LSW and DP-LSL "of the paper" have the constants of Lemma 1 and
isotropic noise: Algorithms 1 and 2 to the letter.
"""

from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np

from privalue.core import Calibration, Design, Lsl, Lsw, PublicSize, Ssp, Vector, lsl, lsw
from privalue.estimate import estimates_of
from privalue.paper._batches import batch, normals, world
from privalue.paper._settings import DELTA, EPSILON, STATES
from privalue.planning import theta_before_noise
from privalue.study import Study, aggregation, design, mechanism_for

Keys = tuple[tuple[str, str | float | bool], ...]


@dataclass(frozen=True, kw_only=True)
class MethodSetting:
    """The public inputs of the algorithms: the bound of returns and the features.

    ``aggregation`` adjacent states share a value. Features are 0 or 1, or, if ``normalised``,
    columns of norm 1, which span the same values.
    """

    bound: float = 1.0
    aggregation: int = 1
    normalised: bool = False

    @property
    def features(self) -> dict[str, Any]:
        """Return the features of a study, as its keywords."""
        if self.aggregation == 1:
            return {}
        if not self.normalised:
            return {"size": self.aggregation}
        phi = aggregation(STATES, self.aggregation).toarray()
        return {"features": phi / np.linalg.norm(phi, axis=0)}


@dataclass(frozen=True, kw_only=True)
class Method:
    """An algorithm, by its name and the keywords of a study; without them it is not private.

    With a ``prior`` the chain's true visit probabilities are public, and part of the study.
    """

    name: str
    keys: Keys = ()
    ridge: float | None = None
    schedule: str = ""  # where the ridge comes from, e.g. "100 sqrt(m)"
    prior: bool = False
    unvisited: float = 0.0


def plain_lsw() -> Method:
    """Return LSW, not private."""
    return Method(name="LSW")


def plain_lsl(ridge: float, schedule: str = "") -> Method:
    """Return LSL, not private."""
    return Method(name="LSL", ridge=ridge, schedule=schedule)


def paper_lsw() -> Method:
    """Return DP-LSW as published."""
    keys: Keys = (("mechanism", "dp-lsw"), ("calibration", "nissim"), ("noise", "isotropic"))
    return Method(name="DP-LSW", keys=keys)


def paper_lsl(ridge: float, schedule: str = "") -> Method:
    """Return DP-LSL as published."""
    keys: Keys = (("mechanism", "dp-lsl"), ("calibration", "nissim"), ("ridge", ridge))
    return Method(name="DP-LSL", keys=keys, ridge=ridge, schedule=schedule)


class Outcome(NamedTuple):
    """One algorithm's estimate from one batch."""

    values: Vector
    theta: Vector
    clean: Vector


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedMethod:
    """The parts that are the same for every batch: the study, its design, its constants."""

    study: Study
    design: Design
    mechanism: Ssp | Lsw | Lsl | None  # of a private algorithm

    @property
    def constants(self) -> Calibration:
        """Return alpha and beta of a private algorithm."""
        assert self.mechanism is not None
        return self.mechanism.calibration


@cache
def built(setting: MethodSetting) -> Design:
    """Return Phi and uniform weights."""
    return design(_study(Method(name=""), setting))


@lru_cache(maxsize=4096)
def prepared(method: Method, setting: MethodSetting, trajectories: int) -> PreparedMethod:
    """Prepare an algorithm for all batches of m trajectories."""
    study, phi = _study(method, setting), built(setting)
    size = PublicSize(units=trajectories, most_count=trajectories, trajectories=trajectories)
    mechanism = mechanism_for(study, phi, size) if method.keys else None
    return PreparedMethod(study=study, design=phi, mechanism=mechanism)


def _study(method: Method, setting: MethodSetting) -> Study:
    """Return the study of an algorithm on the paper's chain."""
    visits, keys = None, dict[str, Any](method.keys)
    if method.prior:
        visits = {str(s): p for s, p in enumerate(world().process.visits.single.tolist())}
    return Study(
        epsilon=EPSILON,
        delta=DELTA,
        unit="trajectory",
        discount=world().process.discount,
        rewards=(0.0, 1.0),
        returns=(0.0, setting.bound),
        unvisited=method.unvisited,
        states=STATES,
        visits=visits,
        **setting.features,
        **keys,
    )


def outcome(method: Method, setting: MethodSetting, trajectories: int, run: int) -> Outcome:
    """Return the algorithm's estimate from one batch, with seeded noise.

    Args:
        method: the algorithm.
        setting: the bound of returns and the features.
        trajectories: m.
        run: the number of the run, which with m identifies the batch.

    Returns:
        The values, and theta with and without noise.
    """
    ready = prepared(method, setting, trajectories)
    statistics = batch(trajectories, run, setting.bound)
    if ready.mechanism is None:
        if method.ridge is None:
            theta = lsw(statistics.mean_returns(method.unvisited), ready.design)
        else:
            theta = lsl(statistics, ready.design, method.ridge)
        return Outcome(ready.design.values(theta), theta, theta)
    perturbed = ready.mechanism.perturb(statistics)
    noise = perturbed.deviations * normals(trajectories, run, len(perturbed.center))
    theta = estimates_of(ready.study, ready.mechanism, perturbed.center + noise).theta
    clean = theta_before_noise(ready.study, ready.mechanism, statistics)
    return Outcome(ready.design.values(theta), theta, clean)  # not clipped: the paper's are not
