"""Estimate the value of another policy, and how reliable it is: post-processing only.

| symbol       | here             | shape | public |
|--------------|------------------|-------|--------|
| T~           | ``weighted``     | N     | yes: the sum of rho (G - c)/R, noisy |
| n~           | ``weights``      | N     | yes: the sum of rho, noisy |
| B~           | ``returns``      | N     | yes: the sum of (G - c)/R, noisy |
| m~           | ``sizes``        | N     | yes: trajectories, noisy or public |
| C            | ``clip``         |       | yes    |
| u = T/n      | ``value``        | N     | **private**, covered by sets: the value is c + R u |
| kappa        | ``mass``         | N     | **private**: kept mass, E rho with rho clipped at C |

At the true u the number T~ - u n~ is the noise of T~ less u times that of n~, plus the sampling
error of sum rho (G/R - c/R - u), whose variance is at most C n (1/4 - u^2). A confidence set holds
the u between -1/2 and 1/2 that a test at the level does not reject: the tail of two Laplace
variables and a normal one is known exactly (docs/proofs/weights.md, theorems 5 and 6). The kept
mass n/m and the behaviour's value B/m have confidence sets of the same kind.

E rho is at most 1 if the behaviour's probabilities are right. The confidence set of the kept mass
may go beyond 1: a set entirely above 1 refutes them. Of many starts some have such a set by chance:
a release refutes the behaviour only by sets that hold for all starts at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from privalue.core import GRID_STEPS, Ope, Vector
from privalue.estimate.flags import flagged_table
from privalue.estimate.intervals import Ends, name_ends, widen
from privalue.releases import ReleasedWeights
from privalue.study import Study

MIN_KEPT_MASS = 0.8  # a value is supported if the lower end of its kept mass is above this
_NODES = 64  # of the search for a confidence set, on either side of the estimate
_HALVINGS = 48  # of the gap between two nodes that contains an end
_NO_SCALE = 1e-200  # replaces a scale of 0, of noise or sampling
_MIN_GAP = 1e-5  # the least relative gap between two scales, so that no digits cancel


class NoisyImportanceSums(NamedTuple):
    """The output of DP-OPE, in units of trajectories and of the returns' range, with its noise."""

    weighted: Vector
    weights: Vector
    returns: Vector
    sizes: Vector
    scales: tuple[float, ...]  # of their Laplace noise; 0 for a public size
    clip: float
    cluster_size: int = 1  # how many trajectories of one unit count


@dataclass(frozen=True, eq=False)
class Quotient:
    """A quotient of two noisy numbers, with its confidence sets."""

    numerator: Vector
    denominator: Vector
    numerator_scale: float
    denominator_scale: float
    bounds: tuple[float, float] = (-0.5, 0.5)
    fallback: float = 0.0  # the value where the denominator is not above 0

    @property
    def value(self) -> Vector:
        """Return the quotient, clipped to the bounds."""
        is_positive = self.denominator > 0
        quotient = self.numerator / np.where(is_positive, self.denominator, 1.0)
        return np.where(is_positive, np.clip(quotient, *self.bounds), self.fallback)

    def ends(
        self, level: float, variance: Vector, shape: tuple[float, float] | None = None
    ) -> Ends:
        """Return the ends of the confidence set within the bounds; the bounds if it is empty.

        Args:
            level: of the confidence set.
            variance: V: the sampling error has the variance V (u - p)(q - u) at the value u.
            shape: p and q; None if the variance is V at every value.
        """
        value, (low, high) = self.value, self.bounds

        def accepts(u: NDArray[np.float64]) -> NDArray[np.bool_]:
            distance = np.abs(self.numerator - u * self.denominator)
            factor = 1.0 if shape is None else (u - shape[0]) * (shape[1] - u)
            spread = np.sqrt(np.maximum(variance * factor, 0.0) + 0 * u)
            noise = self.numerator_scale, np.abs(u) * self.denominator_scale
            return np.asarray(tail(distance, *noise, spread) >= 1 - level)

        # Nodes from one bound through the estimate to the other bound.
        steps = np.linspace(0, 1, _NODES)[:, None]
        nodes = np.concatenate([low + steps * (value - low), value + steps[1:] * (high - value)])
        accepted = accepts(nodes)
        is_nonempty = accepted.any(axis=0)
        first, last = accepted.argmax(axis=0), len(nodes) - 1 - accepted[::-1].argmax(axis=0)
        column = np.arange(len(value))

        # The set ends between an accepted node and the next one; both ends are bisected at once.
        last_inside = np.stack([first, last])
        beyond = np.clip(last_inside + np.array([[-1], [1]]), 0, len(nodes) - 1)
        inner, outer = nodes[last_inside, column], nodes[beyond, column]
        for _ in range(_HALVINGS):
            middle = (inner + outer) / 2
            within = accepts(middle)
            inner, outer = np.where(within, middle, inner), np.where(within, outer, middle)
        # The outer ends of the last brackets: the set is never too small.
        bounded = np.clip(outer, low, high)
        return np.where(is_nonempty, bounded[0], low), np.where(is_nonempty, bounded[1], high)

    def intervals(self, level: float, variance: Vector) -> tuple[Ends, Ends]:
        """Return the ends for the noise alone, and for noise and sampling."""
        noise_only = self.ends(level, np.zeros(len(variance)))
        # The set with sampling contains the other one, up to rounding in the search.
        return noise_only, widen(self.ends(level, variance, self.bounds), noise_only)


def tail(distance: Vector, a: float, b: Vector, spread: Vector) -> NDArray[np.float64]:
    """Return P(|a X + b Y + spread Z| > distance), with Z standard normal, X and Y Laplace.

    With h(t, a) the tail of a X + spread Z, it is
    (a^2 h(t, a) - b^2 h(t, b)) / (a^2 - b^2); without Z, h(t, a) = e^{-t/a}.
    """
    larger, smaller = np.maximum(a, b), np.minimum(a, b)
    # Widening the gap makes the larger scale larger: the tail grows, and the set with it.
    larger = np.where(larger - smaller < _MIN_GAP * larger, larger * (1 + _MIN_GAP), larger)
    share = np.square(smaller / larger)
    wide, narrow = (_laplace_tail(distance, scale, spread) for scale in (larger, smaller))
    return np.asarray((wide - share * narrow) / (1 - share))


def _laplace_tail(distance: Vector, scale: Vector, spread: Vector) -> NDArray[np.float64]:
    """Return P(|scale X + spread Z| > distance), with X Laplace and Z normal; either may be absent.

    For s = spread/scale and t = distance/scale it is 2 Phi(-t/s) + e^{s^2/2 - t} Phi(t/s - s) -
    e^{s^2/2 + t} Phi(-t/s - s), each product by logarithms: factors may overflow where it does not.
    """
    scale, spread = np.maximum(scale, _NO_SCALE), np.maximum(spread, _NO_SCALE)
    t, s, ratio = distance / scale, spread / scale, distance / spread
    normal = 2 * special.ndtr(-ratio)
    with np.errstate(all="ignore"):
        up = np.exp(s * s / 2 - t + special.log_ndtr(ratio - s))
        down = np.exp(s * s / 2 + t + special.log_ndtr(-ratio - s))
    # With sampling beyond 1e4 scales of noise, the products are 0 in doubles.
    return np.where(s < 1e4, normal + up - down, normal)


def importance_sums(mechanism: Ope, numbers: Vector) -> NoisyImportanceSums:
    """Return the numbers of a draw in units of trajectories, and of the returns' range.

    Args:
        mechanism: the mechanism of the draw.
        numbers: sums in steps: weighted returns, weights, returns, and sizes if they are private.
    """
    limits = mechanism.terms.limits
    weight_step = limits.clip / GRID_STEPS
    steps = np.array([weight_step, weight_step, 1 / GRID_STEPS, 1.0])[: len(mechanism.scales)]
    sums = [*(numbers.reshape(len(steps), limits.keys) * steps[:, None])]
    scales = (np.array(mechanism.scales) * steps).tolist()
    if len(sums) == 3:  # the size is public
        sums.append(np.full(limits.keys, float(mechanism.terms.size.units or 0)))
        scales.append(0.0)
    cluster_size = limits.max_trajectories_per_person
    return NoisyImportanceSums._make([*sums, tuple(scales), limits.clip, cluster_size])


def policy_parts(
    study: Study, mechanism: Ope, numbers: Vector, common: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the parts of a release that are computed from the draw.

    Args:
        study: the public study; it decides whether there is a value for each start.
        mechanism: the mechanism of the draw, with its constants.
        numbers: the noisy numbers.
        common: flags of every row.
    """
    noisy, level = importance_sums(mechanism, numbers), study.report.level
    tables = policy_columns(noisy, study.values.return_bounds, level)
    policy, count = tables["policy"], len(mechanism.scales)  # a public size was not drawn
    sums = dict(zip(noisy._fields[:count], noisy[:count], strict=True))
    # Of many starts some have a kept mass above 1 even if the behaviour is right: whether it is
    # refuted is decided for all starts together.
    above = policy["kept_low"] > 1
    code = "impossible" if policy["refuted"].any() else "above"
    target_flags = [("lost", ~policy["supported"] & ~above), (code, above)]
    flags = {"policy": target_flags, "behaviour": [], "differences": target_flags}
    starts = {"start": list(map(str, study.names.names))} if study.policy.by else {}
    return {
        "level": level,
        "tables": {
            name: flagged_table({**starts, **columns}, flags[name], common)
            for name, columns in tables.items()
        },
        "weights": ReleasedWeights(**sums, scales=noisy.scales[:count]),
    }


def policy_columns(
    noisy: NoisyImportanceSums, return_bounds: tuple[float, float], level: float
) -> dict[str, dict[str, NDArray[Any]]]:
    """Return the columns of tables: the values of the target, the behaviour and their difference.

    Args:
        noisy: the output of DP-OPE.
        return_bounds: of the study.
        level: of every interval.
    """
    low, high = return_bounds
    middle, width, keys = 0.5 * low + 0.5 * high, high - low, len(noisy.weights)
    t_scale, n_scale, b_scale, m_scale = noisy.scales
    mass_bounds = (0.0, max(noisy.clip, 2.0))
    target = Quotient(noisy.weighted, noisy.weights, t_scale, n_scale)
    behaviour = Quotient(noisy.returns, noisy.sizes, b_scale, m_scale)
    mass = Quotient(noisy.weights, noisy.sizes, n_scale, m_scale, mass_bounds, fallback=0.5)
    v_size = noisy.cluster_size * np.maximum(noisy.sizes, 0.0)
    v_weight = noisy.cluster_size * noisy.clip * np.maximum(noisy.weights, 0.0)
    target_ends = target.intervals(level, v_weight)
    behaviour_ends = behaviour.intervals(level, v_size)
    # 1/4 - u^2 at its largest in each interval, times kappa.
    v_u, v_y = (0.25 - np.square(np.clip(0.0, *ends[1])) for ends in (target_ends, behaviour_ends))
    per_weight = np.maximum(noisy.clip - 2 * mass.value, 0.0) * v_u + mass.value * v_y
    sampling = noisy.cluster_size * np.maximum(noisy.weights, 0.0) * per_weight
    differences = difference_of_quotients(target, behaviour, sampling, level)
    kept_low, kept_high = mass.ends(level, v_size, (0.0, noisy.clip))
    above_1 = kept_low > 1  # with the right behaviour only by chance
    band_low, _ = mass.ends(1 - (1 - level) / keys, v_size, (0.0, noisy.clip))
    lost_mass = np.where(above_1, 1.0, np.clip(1 - kept_low, 0.0, 1.0))

    def columns(shift: float, numbers: Vector, ends: tuple[Ends, Ends]) -> dict[str, NDArray[Any]]:
        unscaled = {"value": numbers, **name_ends({"": ends[0], "total_": ends[1]})}
        return {name: shift + width * column for name, column in unscaled.items()}

    reliability = {
        "kept_mass": mass.value,
        "kept_low": kept_low,
        "kept_high": kept_high,
        # R tau: the target's value is a mixture of the kept mass and the rest.
        "largest_clipping_bias": width * lost_mass,
        "refuted": above_1 & (band_low > 1),
        "supported": (kept_low > MIN_KEPT_MASS) & ~above_1,
    }
    return {
        "policy": columns(middle, target.value, target_ends) | reliability,
        "behaviour": columns(middle, behaviour.value, behaviour_ends),
        "differences": columns(0.0, target.value - behaviour.value, differences),
    }


def difference_of_quotients(
    target: Quotient, behaviour: Quotient, sampling: Vector, level: float
) -> tuple[Ends, Ends]:
    """Return the intervals of u - y, the target's value less the behaviour's: noise, and total.

    Both values are covered at (1 + level)/2, and so their difference at the level; clipping to the
    bounds keeps this. The sampling error of the difference has a variance of at most
    (C/kappa - 2)_+ V_u + V_y for one trajectory: all of it is put into the target's set, which then
    covers u + B/m - y (docs/proofs/weights.md, theorem 7).
    """
    half_level, no_sampling = (1 + level) / 2, np.zeros(len(sampling))
    behaviour_low, behaviour_high = behaviour.ends(half_level, no_sampling)
    shifted = replace(target, bounds=(-1.5, 1.5))  # B/m - y is at most 1
    noise_only, total = (
        (np.maximum(low - behaviour_high, -1.0), np.minimum(high - behaviour_low, 1.0))
        for low, high in (target.ends(half_level, no_sampling), shifted.ends(half_level, sampling))
    )
    return noise_only, widen(total, noise_only)
