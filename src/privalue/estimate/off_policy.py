"""Say what another policy would have been worth, and how far to trust it. All post-processing.

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
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from privalue.core import GRID_STEPS, Ope, Vector
from privalue.estimate.flags import flag_texts, flags_of_policy
from privalue.releases import ReleasedWeights, ValueTable
from privalue.study import Study

SUPPORTED = 0.8  # the lower end of the kept mass, above which a value is vouched for
_NODES = 64  # on either side of the estimate, at which a set is looked at
_HALVINGS = 48  # of the gap between two nodes, in which a set ends
_APART = (
    1e-5  # two scales closer than this, relatively, are taken as so far apart: no digits cancel
)

Ends = tuple[Vector, Vector]


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyWeights:
    """The output of DP-OPE in units of returns' range and of trajectories, with its noise."""

    weighted: Vector
    weights: Vector
    returns: Vector
    sizes: Vector
    # The scale of the Laplace noise of each; 0 for a public size.
    scales: tuple[float, ...]
    clip: float
    alike: int = 1  # how many trajectories of one unit count


@dataclass(frozen=True, eq=False)
class Quotient:
    """A quotient of two noisy numbers, in which a set of values is looked for."""

    over: Vector
    under: Vector
    scale_over: float
    scale_under: float
    bounds: tuple[float, float]
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
    t = away / np.where(scale > 0, scale, 1.0)
    noise = np.where(scale > 0, np.exp(-t), np.where(away > 0, 0.0, 1.0))
    if not np.any(spread):
        return noise
    s = spread / np.where(scale > 0, scale, 1.0)
    with np.errstate(all="ignore"):
        ratio = np.where(spread > 0, away / np.where(spread > 0, spread, 1.0), 0.0)
        normal = 2 * special.ndtr(-ratio)
        up = np.exp(s * s / 2 - t + special.log_ndtr(ratio - s))
        down = np.exp(s * s / 2 + t + special.log_ndtr(-ratio - s))
        # Beyond 1e4 scales of noise sampling is all that there is: products are 0 to all digits.
        both = np.where(s < 1e4, normal + up - down, normal)
    alone = np.where(spread > 0, normal, np.where(away > 0, 0.0, 1.0))
    return np.asarray(np.where(scale > 0, np.where(spread > 0, both, noise), alone))


def noisy_weights(mechanism: Ope, drawn: Vector) -> NoisyWeights:
    """Return the drawn numbers in units of trajectories, and of returns' range.

    Args:
        mechanism: that made them.
        drawn: the sums in steps: weighted returns, weights, returns, and sizes if they are private.
    """
    limits, parts = mechanism.terms.limits, len(mechanism.scales)
    steps = np.array([limits.clip / GRID_STEPS, limits.clip / GRID_STEPS, 1 / GRID_STEPS, 1.0])
    sums = drawn.reshape(parts, limits.keys) * steps[:parts, None]
    scales = np.array(mechanism.scales) * steps[:parts]
    if parts == 3:  # the size is public
        size = np.full((1, limits.keys), float(mechanism.terms.size.units or 0))
        sums, scales = np.vstack([sums, size]), np.append(scales, 0.0)
    weighted, weights, returns, sizes = sums
    return NoisyWeights(
        weighted=weighted,
        weights=weights,
        returns=returns,
        sizes=sizes,
        scales=tuple(scales.tolist()),
        clip=limits.clip,
        alike=limits.max_trajectories_per_person,
    )


def policy_tables(
    study: Study, mechanism: Ope, drawn: Vector, every: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the parts of a release that follow from what was drawn.

    Args:
        study: what is public; it says whether there is one number for each start.
        mechanism: that made the numbers, with its constants.
        drawn: the numbers that left.
        every: flags that every row has.
    """
    noisy, level = noisy_weights(mechanism, drawn), study.report.level
    found = policy_columns(noisy, study.return_bounds, level)
    policy = found["policy"]
    flags = flags_of_policy(
        policy["supported"], policy["kept_low"] > 1, refuted=bool(policy["refuted"].any())
    )
    labels = {"start": [str(name) for name in study.start_names]} if study.start_names else {}
    keys, parts = len(noisy.sizes), len(mechanism.scales)
    return {
        "level": level,
        "tables": {
            name: ValueTable(
                {
                    **labels,
                    **columns,
                    "flags": flag_texts(keys, [] if name == "behaviour" else flags, every),
                }
            )
            for name, columns in found.items()
        },
        "weights": ReleasedWeights(
            weighted=noisy.weighted,
            weights=noisy.weights,
            returns=noisy.returns,
            sizes=noisy.sizes if parts == 4 else None,
            scales=noisy.scales[:parts],
        ),
    }


def policy_columns(
    noisy: NoisyWeights, return_bounds: tuple[float, float], level: float
) -> dict[str, dict[str, NDArray[Any]]]:
    """Return what the target, the behaviour and their difference are worth, as columns of tables.

    Args:
        noisy: the output of DP-OPE.
        return_bounds: of the study.
        level: of every interval.
    """
    low, high = return_bounds
    reach, keys = high - low, len(noisy.weights)
    value, kept, plain = _shares(noisy)
    each = 1 - (1 - level) / keys
    people = noisy.alike * np.maximum(noisy.sizes, 0.0)
    weight = noisy.alike * noisy.clip * np.maximum(noisy.weights, 0.0)
    nobody = np.zeros(keys)

    def intervals(share: Quotient, variance: Vector, level: float) -> tuple[Ends, Ends]:
        ends = share.ends(level, nobody, (-0.5, 0.5))
        total = share.ends(level, variance, (-0.5, 0.5))
        # A set with more in it holds the other one, but for what a search rounds.
        return ends, (np.minimum(total[0], ends[0]), np.maximum(total[1], ends[1]))

    kept_low, kept_high = kept.ends(level, people, (0.0, noisy.clip))
    impossible = kept_low > 1  # no right behaviour allows it, but by chance
    found = dict[str, tuple[Ends, Ends, Ends]]()
    for name, share, variance in (("policy", value, weight), ("behaviour", plain, people)):
        alone, total = intervals(share, variance, level)
        # One number has no band beside its interval.
        band = total if keys == 1 else intervals(share, variance, each)[1]
        found[name] = (alone, total, band)
    apart = []
    for at, chance in ((1, level), (2, each)):
        worst = tuple(_most_variance(ends[at]) for ends in found.values())
        apart += _difference(noisy, (value, plain), worst, kept.value, chance)

    def columns(numbers: Vector, ends: tuple[Ends, ...], start: float) -> dict[str, NDArray[Any]]:
        names = ("", "total_", "total_band_") if keys > 1 else ("", "total_")
        return {"value": start + reach * numbers} | {
            f"{name}{side}": start + reach * end
            for name, pair in zip(names, ends, strict=False)
            for side, end in zip(("low", "high"), pair, strict=True)
        }

    def bias(kept: Vector) -> Vector:
        return reach * np.where(impossible, 1.0, _clipping_bias(kept))  # nothing follows from these

    middle = 0.5 * low + 0.5 * high
    policy = columns(value.value, found["policy"], middle) | {
        "kept_mass": kept.value,
        "kept_low": kept_low,
        "kept_high": kept_high,
        "clipping_bias": bias(kept.value),
        "largest_clipping_bias": bias(kept_low),
        "effective_trajectories": np.maximum(noisy.weights, 0.0) / noisy.clip,
        "refuted": impossible & (kept.ends(each, people, (0.0, noisy.clip))[0] > 1),
        "supported": (kept_low > SUPPORTED) & ~impossible,
    }
    return {
        "policy": policy,
        "behaviour": columns(plain.value, found["behaviour"], middle),
        "differences": columns(value.value - plain.value, (*apart[:2], apart[3]), 0.0),
    }


def _shares(noisy: NoisyWeights) -> tuple[Quotient, Quotient, Quotient]:
    """Return T/n, n/m and B/m."""
    of_weighted, of_weights, of_returns, of_sizes = noisy.scales
    halves, masses = (-0.5, 0.5), (0.0, max(noisy.clip, 2.0))
    return (
        Quotient(noisy.weighted, noisy.weights, of_weighted, of_weights, halves, 0.0),
        Quotient(noisy.weights, noisy.sizes, of_weights, of_sizes, masses, 0.5),
        Quotient(noisy.returns, noisy.sizes, of_returns, of_sizes, halves, 0.0),
    )


def _clipping_bias(kept: Vector) -> Vector:
    """Return tau = 1 - kept: the target's value is a mixture of what is kept and what is not."""
    return np.clip(1 - kept, 0.0, 1.0)


def _most_variance(ends: Ends) -> Vector:
    """Return 1/4 - u^2 at the worst place of an interval."""
    return np.asarray(0.25 - np.square(np.clip(0.0, *ends)))


def _difference(
    noisy: NoisyWeights,
    shares: tuple[Quotient, Quotient],
    most: tuple[Vector, ...],
    kept: Vector,
    level: float,
) -> list[Ends]:
    """Return the intervals of u - y, the target's number less the behaviour's: noise, and total.

    Each of the two is covered at (1 + level)/2, and so is their difference at the level, whatever
    the bounds cut off. What sampling does to the difference, of a variance of at most
    (C/kappa - 2)_+ V_u + V_y for one trajectory, is all put into the target's set, which then
    covers u + B/m - y (docs/proofs/weights.md, theorem 7).
    """
    target, behaviour = shares
    chance = (1 + level) / 2
    nobody = np.zeros(len(kept))
    low, high = target.ends(chance, nobody)
    other_low, other_high = behaviour.ends(chance, nobody)

    mass = np.maximum(noisy.weights, 0.0)
    part = np.maximum(noisy.clip - 2 * kept, 0.0) * most[0] + kept * most[1]  # kappa times it
    shifted = replace(target, bounds=(-1.5, 1.5))  # B/m - y is at most 1
    sampled = shifted.ends(chance, noisy.alike * mass * part)

    alone = (np.maximum(low - other_high, -1.0), np.minimum(high - other_low, 1.0))
    total = (np.maximum(sampled[0] - other_high, -1.0), np.minimum(sampled[1] - other_low, 1.0))
    return [alone, (np.minimum(total[0], alone[0]), np.maximum(total[1], alone[1]))]
