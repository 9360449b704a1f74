"""Estimate the value of another policy, and its reliability. All of it is post-processing.

| symbol       | here             | shape | public |
|--------------|------------------|-------|--------|
| T~           | ``weighted``     | N     | yes: the sum of rho (G - c)/R, noisy |
| n~           | ``weights``      | N     | yes: the sum of rho, noisy |
| B~           | ``returns``      | N     | yes: the sum of (G - c)/R, noisy |
| m~           | ``sizes``        | N     | yes: trajectories, noisy or public |
| C            | ``clip``         |       | yes    |
| u = T/n      | ``value``        | N     | **private**, covered: the value is c + R u |
| kappa        | ``kept``         | N     | **private**: E rho, rho clipped at C |

At the true u the number T~ - u n~ is noise of T~ less u times noise of n~, and the sampling error
of sum rho (G/R - c/R - u), whose variance is at most C n (1/4 - u^2). An interval is the u between
-1/2 and 1/2 at which that number is no more surprising than the level allows: the tail of two
Laplace variables and a normal one is known exactly (docs/proofs/weights.md, theorems 5 and 6). The
kept mass is n/m, and the behaviour's value is B/m,
by the same set.

E rho is at most 1 if the behaviour's probabilities are right. The set of the kept mass runs beyond
1 all the same: one that is above 1 altogether says that they are not. Of many starts some have such
a set by chance, so that a release says it only by sets that hold for all starts at once.
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

SUPPORTED = 0.8  # the lower end of the kept mass, above which a value is vouched for
_NODES = 64  # on either side of the estimate, at which a set is looked at
_HALVINGS = 48  # of the gap between two nodes, in which a set ends
_ABSENT = 1e-200  # the scale of noise, or of sampling, where there is none
_APART = 1e-5  # closer scales are taken as so far apart, relatively: no digits cancel


class NoisyWeights(NamedTuple):
    """The output of DP-OPE in units of returns' range and of trajectories, with its noise."""

    weighted: Vector
    weights: Vector
    returns: Vector
    sizes: Vector
    scales: tuple[float, ...]  # of the Laplace noise of each; 0 for a public size
    clip: float
    alike: int = 1  # how many trajectories of one unit count


@dataclass(frozen=True, eq=False)
class Quotient:
    """A quotient of two noisy numbers, in which a set of values is looked for."""

    over: Vector
    under: Vector
    scale_over: float
    scale_under: float
    bounds: tuple[float, float] = (-0.5, 0.5)
    unknown: float = 0.0  # what stands where nothing is divided by

    @property
    def value(self) -> Vector:
        """Return the quotient between the bounds."""
        under = np.where(self.under > 0, self.under, 1.0)
        return np.where(self.under > 0, np.clip(self.over / under, *self.bounds), self.unknown)

    def ends(
        self, level: float, variance: Vector, shape: tuple[float, float] | None = None
    ) -> Ends:
        """Return the least and the largest accepted value between the bounds.

        Args:
            level: with which the set covers.
            variance: V, of the sampling error, which is V (u - p)(q - u) at the value u.
            shape: p and q; None for V at every value.

        Returns:
            The ends. Where nothing is accepted the bounds are: then nothing is known.
        """
        low, high = self.bounds
        at = self.value

        def accepted(u: NDArray[np.float64]) -> NDArray[np.bool_]:
            away = np.abs(self.over - u * self.under)
            of_shape = 1.0 if shape is None else (u - shape[0]) * (shape[1] - u)
            spread = np.maximum(variance * of_shape, 0.0) + 0 * u
            chance = tail(away, self.scale_over, np.abs(u) * self.scale_under, np.sqrt(spread))
            return np.asarray(chance >= 1 - level)

        # Nodes from a bound to the estimate, and on to the other bound.
        steps = np.linspace(0, 1, _NODES)[:, None]
        nodes = np.concatenate([low + steps * (at - low), at + steps[1:] * (high - at)])
        inside = accepted(nodes)
        found = inside.any(axis=0)
        first, last = inside.argmax(axis=0), len(nodes) - 1 - inside[::-1].argmax(axis=0)
        column = np.arange(len(at))

        # Between an accepted node and the one beyond it, acceptance ends: at both ends at once.
        into = np.stack([first, last])
        beyond = np.clip(into + np.array([[-1], [1]]), 0, len(nodes) - 1)
        good, bad = nodes[into, column], nodes[beyond, column]
        for _ in range(_HALVINGS):
            middle = (good + bad) / 2
            fine = accepted(middle)
            good, bad = np.where(fine, middle, good), np.where(fine, bad, middle)
        # Beyond it by nothing that a double shows.
        bounded = np.clip(bad, low, high)
        return np.where(found, bounded[0], low), np.where(found, bounded[1], high)

    def intervals(self, level: float, variance: Vector) -> tuple[Ends, Ends]:
        """Return the ends for the noise alone, and for noise and sampling."""
        alone = self.ends(level, np.zeros(len(variance)))
        # A set with more in it holds the other one, but for what a search rounds.
        return alone, widen(self.ends(level, variance, self.bounds), alone)


def tail(away: Vector, a: float, b: Vector, spread: Vector) -> NDArray[np.float64]:
    """Return P(|a X + b Y + spread Z| > away), Z standard normal, X and Y Laplace.

    With h(t, a) the tail of a X + spread Z, it is
    (a^2 h(t, a) - b^2 h(t, b)) / (a^2 - b^2); without Z, h(t, a) = e^{-t/a}.
    """
    larger, smaller = np.maximum(a, b), np.minimum(a, b)
    # The larger one a little larger: the tail only grows, and with it the set.
    larger = np.where(larger - smaller < _APART * larger, larger * (1 + _APART), larger)
    share = np.square(smaller / larger)
    one, other = (_laplace_tail(away, scale, spread) for scale in (larger, smaller))
    return np.asarray((one - share * other) / (1 - share))


def _laplace_tail(away: Vector, scale: Vector, spread: Vector) -> NDArray[np.float64]:
    """Return P(|scale X + spread Z| > away), X Laplace and Z normal; either may be absent.

    For s = spread/scale and t = away/scale it is 2 Phi(-t/s) + e^{s^2/2 - t} Phi(t/s - s) -
    e^{s^2/2 + t} Phi(-t/s - s), each product by logarithms: factors overflow where it does not.
    """
    scale, spread = np.maximum(scale, _ABSENT), np.maximum(spread, _ABSENT)
    t, s, ratio = away / scale, spread / scale, away / spread
    normal = 2 * special.ndtr(-ratio)
    with np.errstate(all="ignore"):
        up = np.exp(s * s / 2 - t + special.log_ndtr(ratio - s))
        down = np.exp(s * s / 2 + t + special.log_ndtr(-ratio - s))
    # Beyond 1e4 scales of noise sampling is all that there is: products are 0 to all digits.
    return np.where(s < 1e4, normal + up - down, normal)


def noisy_weights(mechanism: Ope, drawn: Vector) -> NoisyWeights:
    """Return the drawn numbers in units of trajectories, and of returns' range.

    Args:
        mechanism: that made them.
        drawn: the sums in steps: weighted returns, weights, returns, and sizes if they are private.
    """
    limits = mechanism.terms.limits
    of_weights = limits.clip / GRID_STEPS
    steps = np.array([of_weights, of_weights, 1 / GRID_STEPS, 1.0])[: len(mechanism.scales)]
    sums = [*(drawn.reshape(len(steps), limits.keys) * steps[:, None])]
    scales = (np.array(mechanism.scales) * steps).tolist()
    if len(sums) == 3:  # the size is public
        sums.append(np.full(limits.keys, float(mechanism.terms.size.units or 0)))
        scales.append(0.0)
    alike = limits.max_trajectories_per_person
    return NoisyWeights._make([*sums, tuple(scales), limits.clip, alike])


def policy_tables(
    study: Study, mechanism: Ope, drawn: Vector, every: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the parts of a release that are computed from the draw.

    Args:
        study: what is public; it says whether there is one number for each start.
        mechanism: that made the numbers, with its constants.
        drawn: the numbers that left.
        every: flags that every row has.
    """
    noisy, level = noisy_weights(mechanism, drawn), study.report.level
    tables = policy_columns(noisy, study.values.return_bounds, level)
    policy, parts = tables["policy"], len(mechanism.scales)  # a public size was not drawn
    released = dict(zip(noisy._fields[:parts], noisy[:parts], strict=True))
    # At the level of each start some of many have a kept mass above 1 even where the behaviour is
    # right: whether it is refuted is decided for all of them together.
    above = policy["kept_low"] > 1
    too_much = "impossible" if policy["refuted"].any() else "above"
    of_target = [("lost", ~policy["supported"] & ~above), (too_much, above)]
    flags = {"policy": of_target, "behaviour": [], "differences": of_target}
    starts = {"start": list(map(str, study.names.names))} if study.policy.by else {}
    return {
        "level": level,
        "tables": {
            name: flagged_table({**starts, **columns}, flags[name], every)
            for name, columns in tables.items()
        },
        "weights": ReleasedWeights(**released, scales=noisy.scales[:parts]),
    }


def policy_columns(
    noisy: NoisyWeights, return_bounds: tuple[float, float], level: float
) -> dict[str, dict[str, NDArray[Any]]]:
    """Return the values of the target, the behaviour and their difference, as columns of tables.

    Args:
        noisy: the output of DP-OPE.
        return_bounds: of the study.
        level: of every interval.
    """
    low, high = return_bounds
    middle, reach, keys = 0.5 * low + 0.5 * high, high - low, len(noisy.weights)
    of_weighted, of_weights, of_returns, of_sizes = noisy.scales
    masses = (0.0, max(noisy.clip, 2.0))
    value = Quotient(noisy.weighted, noisy.weights, of_weighted, of_weights)
    plain = Quotient(noisy.returns, noisy.sizes, of_returns, of_sizes)
    kept = Quotient(noisy.weights, noisy.sizes, of_weights, of_sizes, masses, unknown=0.5)
    people = noisy.alike * np.maximum(noisy.sizes, 0.0)
    weight = noisy.alike * noisy.clip * np.maximum(noisy.weights, 0.0)
    target, behaviour = value.intervals(level, weight), plain.intervals(level, people)
    # 1/4 - u^2 at the worst place of each interval, kappa times what it adds.
    v_u, v_y = (0.25 - np.square(np.clip(0.0, *around[1])) for around in (target, behaviour))
    part = np.maximum(noisy.clip - 2 * kept.value, 0.0) * v_u + kept.value * v_y
    sampling = noisy.alike * np.maximum(noisy.weights, 0.0) * part
    apart = difference_of_quotients(value, plain, sampling, level)
    kept_low, kept_high = kept.ends(level, people, (0.0, noisy.clip))
    impossible = kept_low > 1  # no right behaviour allows it, but by chance
    surely_low, _ = kept.ends(1 - (1 - level) / keys, people, (0.0, noisy.clip))
    lost = np.where(impossible, 1.0, np.clip(1 - kept_low, 0.0, 1.0))

    def columns(start: float, numbers: Vector, ends: tuple[Ends, Ends]) -> dict[str, NDArray[Any]]:
        named = {"value": numbers, **name_ends({"": ends[0], "total_": ends[1]})}
        return {name: start + reach * column for name, column in named.items()}

    trust = {
        "kept_mass": kept.value,
        "kept_low": kept_low,
        "kept_high": kept_high,
        # R tau: the target's value is a mixture of what is kept and what is not.
        "largest_clipping_bias": reach * lost,
        "refuted": impossible & (surely_low > 1),
        "supported": (kept_low > SUPPORTED) & ~impossible,
    }
    return {
        "policy": columns(middle, value.value, target) | trust,
        "behaviour": columns(middle, plain.value, behaviour),
        "differences": columns(0.0, value.value - plain.value, apart),
    }


def difference_of_quotients(
    target: Quotient, behaviour: Quotient, sampling: Vector, level: float
) -> tuple[Ends, Ends]:
    """Return the intervals of u - y, the target's number less the behaviour's: noise, and total.

    Each of the two is covered at (1 + level)/2, and so is their difference at the level, whatever
    the bounds cut off. What sampling does to the difference, of a variance of at most
    (C/kappa - 2)_+ V_u + V_y for one trajectory, is all put into the target's set, which then
    covers u + B/m - y (docs/proofs/weights.md, theorem 7).
    """
    chance, nobody = (1 + level) / 2, np.zeros(len(sampling))
    other_low, other_high = behaviour.ends(chance, nobody)
    shifted = replace(target, bounds=(-1.5, 1.5))  # B/m - y is at most 1
    alone, total = (
        (np.maximum(low - other_high, -1.0), np.minimum(high - other_low, 1.0))
        for low, high in (target.ends(chance, nobody), shifted.ends(chance, sampling))
    )
    return alone, widen(total, alone)
