"""Turn the noisy statistics of DP-SSP into values, intervals and flags. All post-processing.

| symbol          | here               | shape | public |
|-----------------|--------------------|-------|--------|
| T~, n~          | ``sums``, ``counts`` | N   | yes    |
| s_T, s_n        | ``sum_noise``, ``count_noise`` | N | yes, standard deviations |
| c, R/2          | ``middle``, ``reach`` |    | yes, of the return bounds |
| w, rho, lambda  | ``design``, ``ridge`` |    | yes    |
| F_X             |                    | N     | **private**: c + T/n, what intervals cover |

The noise is public, so that intervals can be, too: docs/proofs/dp-ssp.md says which are exact.
"""

import math
from dataclasses import dataclass, field, fields, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from privalue.core import Design, Integers, Matrix, Vector
from privalue.errors import StudyError, UsageError
from privalue.estimate._arms import (
    ArmEstimates,
    Overall,
    arm_differences,
    level_of_each,
    policies_by_arm,
)
from privalue.estimate._fits import Fit, group_fit, lsl_fit, lsw_fit, ratio_fit
from privalue.estimate._ratios import (
    Ratios,
    clear_limit,
    normal_quantile,
    plain_values,
    ratio_intervals,
)
from privalue.estimate._totals import Ends, Located, total_intervals, total_of_mixture
from privalue.estimate.shrinkage import shrink, shrink_pairs

FEWEST_STATES = 4  # with fewer there is no shrinkage
OWN = 0.5  # of a state's value, that its own numbers must make up to support it
SURE = 0.9999  # the level of the band that a shrunk value is moved into


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyStatistics:
    """The output of DP-SSP: centred sums of returns and counts, and how noisy each is."""

    return_bounds: tuple[float, float]
    sums: Vector
    counts: Vector
    sum_noise: Vector
    count_noise: Vector

    def __post_init__(self) -> None:
        low, high = self.return_bounds
        if not -math.inf < low < high < math.inf:
            raise UsageError(f"return_bounds is {self.return_bounds!r}; the lower must come first")
        for name in ("sums", "counts", "sum_noise", "count_noise"):
            array = np.array(getattr(self, name), dtype=np.float64)
            if array.ndim != 1 or len(array) == 0 or len(array) != len(self.sums):
                raise UsageError(f"{name} must hold one number for each state")
            if not np.isfinite(array).all() or (name.endswith("noise") and not (array > 0).all()):
                raise UsageError(f"{name} must hold finite numbers, above 0 if they are noise")
            array.setflags(write=False)
            object.__setattr__(self, name, array)

    @property
    def states(self) -> int:
        """N, the number of states."""
        return len(self.sums)

    @property
    def middle(self) -> float:
        """c, the middle of the return bounds."""
        return 0.5 * self.return_bounds[0] + 0.5 * self.return_bounds[1]

    def inside(self, value: float) -> float:
        """Return a value moved between the bounds."""
        return min(max(value, self.return_bounds[0]), self.return_bounds[1])

    @property
    def ratios(self) -> Ratios:
        """The means, as ratios of sums and counts."""
        return Ratios(
            sums=self.sums,
            counts=self.counts,
            sum_noise=self.sum_noise,
            count_noise=self.count_noise,
            centre=self.middle,
            bounds=self.return_bounds,
        )

    @property
    def reach(self) -> float:
        """R/2, from the middle to either bound."""
        return 0.5 * self.return_bounds[1] - 0.5 * self.return_bounds[0]


@dataclass(frozen=True, kw_only=True, eq=False)
class Estimates:
    """What is published of a value function; None where the mechanism gives no such number.

    ``total_low`` and ``total_high`` are where V may be, with probability ``level``: they hold the
    noise and the choice of people. V is the mean of returns as they count: where a stage chose
    their bounds, held between these. ``low`` and ``high`` are privacy intervals: each covers what
    the same estimator gives without noise. The total band holds for all states at once.
    ``supported`` is False where the counts are too small to say much, or the value is made of
    others' rather than of its own numbers.
    """

    theta: Vector
    values: Vector
    level: float | None = None
    total_low: Vector | None = None
    total_high: Vector | None = None
    low: Vector | None = None
    high: Vector | None = None
    total_band_low: Vector | None = None
    total_band_high: Vector | None = None
    clear: NDArray[np.bool_] | None = None  # the count is above what nobody's visits give
    supported: NDArray[np.bool_] | None = None
    is_own: bool = False  # every state has a value of its own, which theta is
    policy: Overall | None = None
    statistics: NoisyStatistics | None = None  # of DP-SSP: what all of it was computed from
    arms: ArmEstimates | None = None  # how the arms differ, where there are several
    of_states: "Estimates | None" = None  # V from Q, where values are of states and actions

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, np.ndarray):
                array = value.copy()
                array.setflags(write=False)
                object.__setattr__(self, each.name, array)


def estimate(
    noisy: NoisyStatistics,
    design: Design,
    *,
    unvisited: float,
    ridge: float | None = None,
    shrinkage: bool = True,
    features: Vector | None = None,
    level: float = 0.95,
    start: Vector | None = None,
    alike: int | Vector = 1,
    arms: int = 1,
    independent: bool = True,
    state_of: Integers | None = None,
) -> Estimates:
    """Return values, intervals, bands and flags from the noisy statistics.

    Without a ridge: LSW of the means, which for tabular features are the values. With one: LSL,
    whose ridge takes the place of shrinkage. Whatever the fit, a total interval is made of the
    state's own sum and count: it is for V itself, however well the features fit.

    Args:
        noisy: the output of DP-SSP.
        design: Phi, and the weights w or rho.
        unvisited: what a state is worth that nobody visits.
        ridge: lambda of LSL.
        shrinkage: whether rarely visited states are drawn towards the others.
        features: towards which they are drawn too, one row for each state.
        level: of every interval and band.
        start: a distribution over states, those of one arm, for the overall value of the policy.
        alike: how many trajectories of one unit count, which may resemble each other; or how many
            of its visits, state by state.
        arms: how many arms the keys belong to; the values of one are not drawn to another's.
        independent: whether nobody may be in two arms.
        state_of: the state of every key, where keys are pairs of a state and an action; they are
            drawn towards their state's own value.

    Returns:
        What is published, everything between the return bounds but for theta.
    """
    _require(noisy, design, unvisited, ridge, level, start, arms)
    fit, own = _fit(noisy, design, unvisited, ridge, shrinkage, features, level, arms, state_of)
    made = _Fitted(noisy=noisy, design=design, fit=fit, alike=alike)
    z = normal_quantile(level)
    low, high = made.privacy(z)
    total_low, total_high = made.total(z)
    band_low, band_high = made.band(level)
    clear = _clear(noisy, design, level)
    supported = clear & (own >= OWN)
    found = Estimates(
        theta=fit.theta,
        values=made.values,
        level=level,
        total_low=total_low,
        total_high=total_high,
        low=low,
        high=high,
        total_band_low=band_low,
        total_band_high=band_high,
        clear=clear,
        supported=supported,
        is_own=ridge is None and design.is_tabular,
        statistics=noisy,
    )
    if arms == 1:
        policy = None if start is None else made.overall(np.asarray(start), z)
        return replace(found, policy=policy)
    bounds, at = noisy.return_bounds, z if independent else normal_quantile(level_of_each(level))
    differences = arm_differences(
        found.values,
        supported,
        plain_values(noisy.ratios, unvisited),
        made.total(at),
        (band_low, band_high),
        arms=arms,
        bounds=bounds,
        independent=independent,
    )
    starts = (
        []
        if start is None
        else [np.asarray(np.kron(arm, start), np.float64) for arm in np.eye(arms)]
    )
    policies = policies_by_arm(
        [made.overall(mixture, z) for mixture in starts],
        [made.mixture(mixture, at) for mixture in starts],
        [bool(supported[mixture > 0].all()) for mixture in starts],
        bounds,
        independent=independent,
    )
    return replace(found, arms=ArmEstimates(differences=differences, policies=policies))


@dataclass(frozen=True, kw_only=True, eq=False)
class _Fitted:
    """A fit, and the intervals that go with it, everything between the return bounds.

    No return is outside, so nothing is lost. Whatever is covered moves in the same way: an interval
    that covers a number covers, once both are moved, what the number becomes.
    """

    noisy: NoisyStatistics
    design: Design
    fit: Fit
    alike: int | Vector
    _privacy: dict[float, Ends] = field(default_factory=dict, init=False)

    @cached_property
    def values(self) -> Vector:
        """Return the values of the states."""
        return np.clip(self.design.values(self.fit.theta), *self.noisy.return_bounds)

    def privacy(self, z: float) -> Ends:
        """Return the ends of privacy intervals, found once for each z."""
        if z not in self._privacy:
            self._privacy[z] = self._ends(self.design.phi, self.values, z)
        return self._privacy[z]

    def _ends(self, rows: Matrix, value: Vector, z: float) -> Ends:
        """Return the ends of privacy intervals of rows times theta.

        An end that overflowed carries no information and becomes its bound.
        """
        bounds = self.noisy.return_bounds
        low, high = (
            np.clip(np.where(np.isnan(end), bound, end), *bounds)
            for end, bound in zip(self.fit.ends(rows, z), bounds, strict=True)
        )
        return np.minimum(low, value), np.maximum(high, value)

    def total(self, z: float) -> Ends:
        """Return the ends of total intervals."""
        return total_intervals(self.noisy.ratios, z, self.privacy(z), alike=self.alike)

    def band(self, level: float) -> Ends:
        """Return the ends of total intervals that hold for all states at once.

        Not only the noise of several states, their sampling errors go together, too: Sidak's
        inequality holds whatever the correlations, that of chi for the noise of few features only.
        """
        single = self.privacy(normal_quantile(level))
        joint = self.privacy(normal_quantile(level, self.fit.directions, self.fit.dimension))
        around = np.minimum(single[0], joint[0]), np.maximum(single[1], joint[1])
        every = normal_quantile(level, self.noisy.states)
        return total_intervals(self.noisy.ratios, every, around, alike=self.alike)

    def mixture(self, mixture: Vector, z: float) -> Located:
        """Return where the statistics put a mixture of V, with its total interval."""
        ratios, totals = self.noisy.ratios, self.total(z)
        return total_of_mixture(ratios, mixture, z, totals, alike=self.alike)

    def overall(self, mixture: Vector, z: float) -> Overall:
        """Return the overall value of the policy from a start distribution."""
        rows = np.asarray(self.design.phi.T @ mixture).reshape(1, -1)
        (low,), (high,) = self._ends(rows, np.array([self._mean(mixture)]), z)
        place = self.mixture(mixture, z)
        total = min(float(low), float(place.low[0])), max(float(high), float(place.high[0]))
        return Overall(value=self._mean(mixture), interval=(float(low), float(high)), total=total)

    def _mean(self, mixture: Vector) -> float:
        """Return a mixture of the fit's values, moved between the bounds as a whole."""
        mean = mixture @ self.design.values(self.fit.theta)
        return float(np.clip(mean, *self.noisy.return_bounds))


def estimated_values(
    noisy: NoisyStatistics,
    design: Design,
    *,
    unvisited: float,
    ridge: float | None,
    shrinkage: bool,
    features: Vector | None,
    level: float,
    arms: int = 1,
    state_of: Integers | None = None,
) -> Vector:
    """Return the values of ``estimate`` alone: planning asks for hundreds, and for nothing else."""
    fit, _ = _fit(noisy, design, unvisited, ridge, shrinkage, features, level, arms, state_of)
    return np.clip(design.values(fit.theta), *noisy.return_bounds)


def _fit(
    noisy: NoisyStatistics,
    design: Design,
    unvisited: float,
    ridge: float | None,
    shrinkage: bool,
    features: Vector | None,
    level: float,
    arms: int,
    state_of: Integers | None,
) -> tuple[Fit, Vector]:
    """Return theta, by the estimator that the ridge and the features call for; and own weights.

    These are how much of a state's value is made of its own numbers: 1 where nothing is shrunk, or
    where features say what a value is made of.
    """
    ratios, own = noisy.ratios, np.ones(noisy.states)
    if ridge is None:
        if not shrinkage or noisy.states // arms < FEWEST_STATES:
            means = plain_values(ratios, unvisited)
            if design.is_tabular:
                return ratio_fit(ratios, means, normal_quantile(level)), own
            return lsw_fit(ratios, means, design), own
        means, weights = _shrunk(ratios, unvisited, features, arms, state_of)
        # Of many states some are outside of their own interval by chance, and what is outside by a
        # little may be moved far, if its count is small: a drawn value goes back only if all
        # states together leave hardly any doubt.
        sure = normal_quantile(max(level, SURE), len(means))
        if design.is_tabular:
            return ratio_fit(ratios, means, sure), weights
        means = np.clip(means, *ratio_intervals(ratios, sure))
        return lsw_fit(ratios, means, design), own
    if design.is_indicator:
        return group_fit(ratios, design, ridge, normal_quantile(level)), own
    return lsl_fit(ratios, design, ridge), own


def _shrunk(
    ratios: Ratios,
    unvisited: float,
    features: Vector | None,
    arms: int,
    state_of: Integers | None,
) -> tuple[Vector, Vector]:
    """Shrink the means of each arm by themselves, so that no difference of arms is drawn to 0."""
    if state_of is not None:
        found = [shrink_pairs(ratios, unvisited, state_of, features=features)]
    else:
        each = len(ratios.sums) // arms
        parts = [ratios[arm * each : (arm + 1) * each] for arm in range(arms)]
        found = [shrink(part, unvisited, features=features) for part in parts]
    means, own = ([getattr(part, name) for part in found] for name in ("means", "own"))
    return np.concatenate(means), np.concatenate(own)


def _clear(noisy: NoisyStatistics, design: Design, level: float) -> NDArray[np.bool_]:
    """Return where the noisy count of a state's group is above what no visits at all would give.

    With probability ``level`` no unvisited group is among them. Overlapping features have no
    groups: all states pass.
    """
    if not design.one_feature_per_state:
        return np.ones(design.states, dtype=bool)
    members = sp.csr_array(design.phi).astype(bool).astype(np.float64)
    limit = clear_limit(level, design.dimension)
    counts = members.T @ noisy.counts
    clear = counts > limit * np.sqrt(members.T @ np.square(noisy.count_noise))
    return np.asarray(members @ clear.astype(np.float64) > 0)


def _require(
    noisy: NoisyStatistics,
    design: Design,
    unvisited: float,
    ridge: float | None,
    level: float,
    start: Vector | None,
    arms: int,
) -> None:
    """Refuse choices that do not fit the statistics; ``refit`` gets them from a caller."""
    low, high = noisy.return_bounds
    if design.states != len(noisy.sums):
        raise StudyError(
            f"[features] are for {design.states} states, and the statistics for "
            f"{len(noisy.sums)}; use features of the same states"
        )
    if not low <= unvisited <= high:
        raise StudyError(
            f"[values] unvisited = {unvisited!r} must be inside the return bounds [{low}, {high}]"
        )
    if ridge is not None and not 0 < ridge < math.inf:
        raise StudyError(f"[mechanism] ridge = {ridge!r} must be a finite number above 0")
    if not 0 < level < 1 or 1 - level < 1e-12:
        raise StudyError(
            f"[report] level = {level!r} must be above 0 and below 1, by at least 1e-12"
        )
    if start is not None and not (
        np.shape(start) == (design.states // arms,)
        and (np.asarray(start) >= 0).all()
        and abs(float(np.sum(start)) - 1) <= 1e-6
    ):
        raise StudyError(
            f"[values] start must be {design.states // arms} probabilities, one for each state, "
            "that sum to 1"
        )
