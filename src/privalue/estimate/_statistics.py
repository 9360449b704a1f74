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
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from privalue.core import Design, Integers, Vector
from privalue.errors import StudyError, UsageError
from privalue.estimate._fits import Fit, group_fit, lsl_fit, lsw_fit, ratio_fit
from privalue.estimate._ratios import (
    Ratios,
    clear_limit,
    normal_quantile,
    plain_values,
    ratio_intervals,
)
from privalue.estimate._totals import (
    Clamped,
    clamping_bias,
    hidden,
    total_intervals,
    total_of_mixture,
    widened,
)
from privalue.estimate.shrinkage import shrink, shrink_pairs

if TYPE_CHECKING:
    from privalue.estimate._arms import ArmEstimates

FEWEST_STATES = 4  # with fewer there is no shrinkage
SURE = 0.9999  # the level of the band that a shrunk value is moved into


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyStatistics:
    """The output of DP-SSP: centred sums of returns and counts, and how noisy each is."""

    return_bounds: tuple[float, float]
    sums: Vector
    counts: Vector
    sum_noise: Vector
    count_noise: Vector
    clamped: Clamped | None = None  # where ``return_bounds`` were chosen, tighter than the study's

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
    noise and the choice of people. ``low`` and ``high`` are privacy intervals: each covers what the
    same estimator gives without noise. The total band holds for all states at once. ``supported``
    is False where the counts are too small to say much.
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
    clamped: NDArray[np.bool_] | None = None  # total intervals are for clamped returns only
    supported: NDArray[np.bool_] | None = None
    policy_value: float | None = None
    policy_interval: tuple[float, float] | None = None
    policy_total: tuple[float, float] | None = None
    policy_clamped: bool | None = None
    statistics: NoisyStatistics | None = None  # of DP-SSP: what all of it was computed from
    arms: "ArmEstimates | None" = None  # how the arms differ, where there are several
    of_states: "Estimates | None" = None  # V from Q, where values are of states and actions

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                array = value.copy()
                array.setflags(write=False)
                object.__setattr__(self, field.name, array)

    def within(
        self, bounds: tuple[float, float], whole: tuple[float, float] | None = None
    ) -> "Estimates":
        """Return the same with every value and every end of an interval moved between the bounds.

        No return is outside, so nothing is lost. Whatever is covered moves in the same way: an
        interval that covers a number covers, once both are moved, what the number becomes. theta
        stays as it was drawn. An end that overflowed carries no information and becomes its bound.

        Args:
            bounds: of the returns that were added up.
            whole: the study's bounds, for total intervals, where those are wider.
        """

        def moved(name: str, column: Vector | float, high: bool) -> Vector:
            within = (whole or bounds) if "total" in name else bounds
            return np.clip(np.where(np.isnan(column), within[high], column), *within)

        ends: dict[str, Any] = {
            name: moved(name, getattr(self, name), name.endswith("high"))
            for name in _ENDS
            if getattr(self, name) is not None
        }
        ends |= {
            name: tuple(float(moved(name, end, bool(high))) for high, end in enumerate(interval))
            for name in ("policy_interval", "policy_total")
            if (interval := getattr(self, name)) is not None
        }
        policy = self.policy_value
        return replace(
            self,
            values=np.clip(self.values, *bounds),
            policy_value=None if policy is None else float(np.clip(policy, *bounds)),
            **ends,
        )


_ENDS = tuple(f"{kind}{end}" for kind in ("total_", "", "total_band_") for end in ("low", "high"))


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
        start: a distribution over states, for the overall value of the policy.
        alike: how many trajectories of one unit count, which may resemble each other; or how many
            of its visits, state by state.
        arms: how many arms the keys belong to; the values of one are not drawn to another's.
        state_of: the state of every key, where keys are pairs of a state and an action; they are
            drawn towards their state's own value.

    Returns:
        What is published, everything between the return bounds but for theta.
    """
    _require(noisy, design, unvisited, ridge, level, start)
    z = normal_quantile(level)
    fit = _fit(noisy, design, unvisited, ridge, shrinkage, features, level, arms, state_of)
    values = design.values(fit.theta)
    joint = normal_quantile(level, fit.directions, fit.dimension)
    low, high = _union((values, values), fit.ends(design.phi, z))
    band = _union((low, high), fit.ends(design.phi, joint))
    totals = total_intervals(noisy.ratios, z, (low, high), alike=alike)
    # Not only the noise of several states, their sampling errors go together, too: Sidak's
    # inequality holds whatever the correlations, that of chi for the noise of few features only.
    every = normal_quantile(level, noisy.states)
    total_bands = total_intervals(noisy.ratios, every, band, alike=alike)
    bias = clamped = None
    if noisy.clamped is not None:
        bias = clamping_bias(noisy.clamped, noisy.ratios, every)
        clamped = hidden(totals, bias)
    policy: float | None = None
    interval = policy_total = policy_clamped = None
    if start is not None:
        policy = float(start @ values)
        ends = fit.ends(np.asarray(design.phi.T @ start).reshape(1, -1), z)
        interval = (min(policy, float(ends[0][0])), max(policy, float(ends[1][0])))
        total = total_of_mixture(noisy.ratios, np.asarray(start), z, totals, alike=alike)
        policy_total = (min(interval[0], total[0]), max(interval[1], total[1]))
        if bias is not None:
            moves = float(start @ bias[0]), float(start @ bias[1])
            policy_clamped = max(moves) > (policy_total[1] - policy_total[0]) / 2
            if not policy_clamped:
                policy_total = (policy_total[0] - moves[0], policy_total[1] + moves[1])
    if bias is not None and clamped is not None:
        totals = widened(totals, bias, clamped)
        total_bands = widened(total_bands, bias, clamped)
    return Estimates(
        theta=fit.theta,
        values=values,
        level=level,
        total_low=totals[0],
        total_high=totals[1],
        low=low,
        high=high,
        total_band_low=total_bands[0],
        total_band_high=total_bands[1],
        clamped=clamped,
        supported=_clear(noisy, design, level) & (high - low <= noisy.reach),
        policy_value=policy,
        policy_interval=interval,
        policy_total=policy_total,
        policy_clamped=policy_clamped,
        statistics=noisy,
    ).within(noisy.return_bounds, None if noisy.clamped is None else noisy.clamped.bounds)


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
    fit = _fit(noisy, design, unvisited, ridge, shrinkage, features, level, arms, state_of)
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
) -> Fit:
    """Return theta, by the estimator that the ridge and the features call for."""
    ratios = noisy.ratios
    if ridge is None:
        if not shrinkage or noisy.states // arms < FEWEST_STATES:
            means = plain_values(ratios, unvisited)
            if design.is_tabular:
                return ratio_fit(ratios, means, normal_quantile(level))
            return lsw_fit(ratios, means, design)
        means = _shrunk(ratios, unvisited, features, arms, state_of)
        # Of many states some are outside of their own interval by chance, and what is outside by a
        # little may be moved far, if its count is small: a drawn value goes back only if all
        # states together leave hardly any doubt.
        sure = normal_quantile(max(level, SURE), len(means))
        if design.is_tabular:
            return ratio_fit(ratios, means, sure)
        means = np.clip(means, *ratio_intervals(ratios, sure))
        return lsw_fit(ratios, means, design)
    if design.is_indicator:
        return group_fit(ratios, design, ridge, normal_quantile(level))
    return lsl_fit(ratios, design, ridge)


def _shrunk(
    ratios: Ratios,
    unvisited: float,
    features: Vector | None,
    arms: int,
    state_of: Integers | None,
) -> Vector:
    """Shrink the means of each arm by themselves, so that no difference of arms is drawn to 0."""
    if state_of is not None:
        return shrink_pairs(ratios, unvisited, state_of, features=features).means
    each = len(ratios.sums) // arms
    parts = [ratios[arm * each : (arm + 1) * each] for arm in range(arms)]
    return np.concatenate([shrink(part, unvisited, features=features).means for part in parts])


def _union(inner: tuple[Vector, Vector], outer: tuple[Vector, Vector]) -> tuple[Vector, Vector]:
    """Return the smallest interval that holds both."""
    return np.minimum(inner[0], outer[0]), np.maximum(inner[1], outer[1])


def _clear(noisy: NoisyStatistics, design: Design, level: float) -> NDArray[np.bool_]:
    """Return where the noisy count of a state's group is above what no visits at all would give.

    With probability ``level`` no unvisited group is among them. Overlapping features have no
    groups: all states pass, and the width of the interval alone decides.
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
        np.shape(start) == (design.states,)
        and (np.asarray(start) >= 0).all()
        and abs(float(np.sum(start)) - 1) <= 1e-6
    ):
        raise StudyError(
            f"[values] start must be {design.states} probabilities, one for each state, that "
            "sum to 1"
        )
