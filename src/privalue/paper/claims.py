"""Test the paper's claims about its experiments, sentence by sentence.

``claims.toml`` lists the sentences, the curves that each is about, and its test. The tests are
here: functions of curves that return whether the sentence holds (None if the runs are too few) and
the numbers behind it. The verdict follows from the cases: "holds" if it holds in all, "does not
hold" if in none, "holds in part" otherwise.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise, product
from string import Formatter
from typing import Any

import numpy as np
from scipy.interpolate import CubicSpline

from privalue.core import LswSensitivity, Vector
from privalue.core.calibration import published_pair
from privalue.errors import read_texts
from privalue.paper import evidence, methods
from privalue.paper.experiments import Curve, Results
from privalue.paper.theory import paper_limits
from privalue.study import aggregation

Finding = tuple[bool | None, dict[str, Any]]
ANY = (0, math.inf)


def decide(tables: Mapping[str, Results]) -> list[dict[str, Any]]:
    """Return all claims with their findings and verdicts, as plain values, in the paper's order."""
    results = []
    for claim in read_texts(__file__, "claims.toml")["claims"]:
        keys = claim.get("keys", {})
        parts = [_judge(tables, {**claim, **case}, keys) for case in claim["cases"]]
        results.append(
            {
                "sentence": claim["sentence"],
                "test": claim["test"],
                "verdict": verdict([part["holds"] for part in parts]),
                "parts": parts,
            }
        )
    return results


def _judge(
    tables: Mapping[str, Results], case: Mapping[str, Any], shared: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the result of one case: its name, whether the claim holds, and the numbers."""
    curves = [
        tables[case["panel"]].curve(**keys).between(*case.get("between", ANY))
        for curve in case["curves"]
        for keys in _combinations({**shared, **case.get("keys", {}), **curve})
    ]
    options = {"threshold": case["threshold"]} if "threshold" in case else {}
    holds, numbers = TESTS[case["decided_by"]](curves, **options)
    figures = _Figures().format(case["figures"], **numbers)
    return {"what": case["what"], "holds": holds, "figures": figures}


def _combinations(keys: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield one mapping for each combination of the values that keys list."""
    values = [value if isinstance(value, list) else [value] for value in keys.values()]
    for combination in product(*values):
        yield dict(zip(keys, combination, strict=True))


def verdict(parts: Sequence[bool | None]) -> str:
    """Return the verdict over the parts that could be decided."""
    decided = set(parts) - {None}
    if not decided:
        return "undecided"
    if decided == {True}:
        return "holds"
    return "does not hold" if decided == {False} else "holds in part"


# Panel 1


def stable(curves: Sequence[Curve], threshold: float) -> Finding:
    """Test that the standard deviation of the RMSE over runs is below the threshold."""
    spread = max(float(curve.values.std(axis=0, ddof=1).max()) for curve in curves)
    return spread < threshold, {"spread": spread}


def projections(size: int) -> tuple[Vector, Vector]:
    """Return the limits of LSW and LSL: V projected with weights 1, and with weights p_s."""
    v = methods.truth()
    phi = aggregation(len(v), size).toarray()
    limits = []
    for weights in (np.ones(len(v)), methods.world().visits):
        root = np.sqrt(weights)
        theta = np.linalg.lstsq(root[:, None] * phi, root * v, rcond=None)[0]
        limits.append(phi @ theta)
    return limits[0], limits[1]


def same_solution(curves: Sequence[Curve], threshold: float) -> Finding:
    """Test that the exact limits of LSW and LSL are equal."""
    lsw, lsl = curves
    lsw_limit, lsl_limit = projections(lsw.keys["aggregation"])
    distance = float(np.sqrt(np.mean((lsw_limit - lsl_limit) ** 2)))
    equal = distance < threshold
    ratio = math.exp(evidence.estimate(np.log(lsl.values[:, -1] / lsw.values[:, -1])).value)
    return equal, {"apart": 0.0 if equal else distance, "last": lsw.at[-1], "ratio": ratio}


def faster(curves: Sequence[Curve]) -> Finding:
    """Test that LSL's error is above LSW's at some m and below at none."""
    lsw, lsl = curves
    signs = evidence.above(lsl, lsw)
    ahead, behind = signs.count(True), signs.count(False)
    tail = lsw.at[-max(len(lsw.at) // 3, 2)]
    numbers = {
        "ahead": ahead,
        "behind": behind,
        "points": len(signs),
        "ratio": float(np.exp(np.mean(np.log(lsl.mean / lsw.mean)))),
        "first": evidence.slope(lsw.between(tail, math.inf)).value,
        "second": evidence.slope(lsl.between(tail, math.inf)).value,
    }
    return ahead > 0 and behind == 0, numbers


# Panels 2 and 3


def alike(curves: Sequence[Curve], threshold: float) -> Finding:
    """Test whether a private algorithm's error at the largest m is that of its non-private twin."""
    private, plain = curves
    ratios = private.values / plain.values
    last = evidence.estimate(ratios[:, -1])
    since = evidence.settling_point(private.at, ratios.mean(axis=0), threshold)
    numbers = {
        "ratio": last.value,
        "last": private.at[-1],
        "since": f", alike from {_m(since)} on" if math.isfinite(since) else "",
    }
    undecided = last.low <= threshold <= last.high
    return None if undecided else last.high <= threshold, numbers


def alike_at_best_ridge(curves: Sequence[Curve], threshold: float) -> Finding:
    """Test whether DP-LSL with the best lambda is as accurate as LSW."""
    private, plain = curves
    ratio = evidence.minimum(private.at, private.mean)[1] / float(plain.mean[-1])
    return ratio <= threshold, {"ratio": ratio}


def crosses(curves: Sequence[Curve]) -> Finding:
    """Test that DP-LSL is better for small batches, and DP-LSW for large ones."""
    lsw, lsl = curves
    where, certain = evidence.crossing(lsw, lsl)
    return certain, {"crossing": where}


def useful_before(curves: Sequence[Curve]) -> Finding:
    """Test that DP-LSL beats a constant estimate at a smaller m than DP-LSW beats DP-LSL."""
    lsw, lsl = curves
    constant = methods.rmse(np.full(len(methods.truth()), 0.5))
    useful = evidence.settling_point(lsl.at, lsl.mean, constant)
    return useful < evidence.crossing(lsw, lsl)[0], {"useful": useful}


def smaller_at_first(curves: Sequence[Curve]) -> Finding:
    """Test that the first error is below the second on the smallest batch."""
    first, second = curves
    log = evidence.estimate(np.log(first.values[:, 0] / second.values[:, 0]))
    holds = None if log.above_zero is None else not log.above_zero
    return holds, {"ratio": math.exp(log.value)}


def sqrt_schedule(curves: Sequence[Curve], threshold: float) -> Finding:
    """Test that a schedule proportional to sqrt(m) loses no more than others."""
    sizes = [curve.keys["trajectories"] for curve in curves]
    growth = evidence.resampled_slope(curves, np.array(sizes, dtype=np.float64))
    losses = {a: schedule_loss(curves, sizes, a) for a in (0.25, 0.5, 0.6, 0.75, 1.0)}
    numbers = {
        "growth": growth.value,
        "low": growth.low,
        "high": growth.high,
        "sqrt": losses[0.5] - 1,
        "optimum": losses[0.6] - 1,
    }
    return losses[0.5] <= threshold * min(losses.values()), numbers


def schedule_loss(curves: Sequence[Curve], sizes: Sequence[int], exponent: float) -> float:
    """Return min over c, max over m of RMSE(c m^a)/min RMSE: the worst loss of the best schedule.

    Between the lambdas that were run, logarithms are interpolated by a cubic spline.
    """
    constants = np.linspace(-15.0, 15.0, 3001)
    worst = np.zeros(len(constants))
    for m, curve in zip(sizes, curves, strict=True):
        x = np.log(curve.at)
        error = CubicSpline(x, np.log(curve.mean))
        least = float(error(np.linspace(x[0], x[-1], 3001)).min())
        ridges = np.clip(constants + exponent * math.log(m), x[0], x[-1])
        worst = np.maximum(worst, error(ridges) - least)
    return math.exp(float(worst.min()))


# Panel 4


def larger_at_last(curves: Sequence[Curve]) -> Finding:
    """Test that the first curve is above the second at the largest m."""
    first, second = curves
    ratio = evidence.estimate(np.log(first.values[:, -1] / second.values[:, -1]))
    numbers = {
        "ratio": math.exp(-ratio.value),
        "last": first.at[-1],
        "first": evidence.slope(first.between(1e6, math.inf)).value,
        "second": evidence.slope(second.between(1e6, math.inf)).value,
    }
    return ratio.above_zero, numbers


def aggregation_helps(curves: Sequence[Curve]) -> Finding:
    """Test that the excess falls with each step of aggregation, at the single m of the curves."""
    steps = [
        evidence.estimate(np.log(finer.values[:, 0] / coarser.values[:, 0]), comparisons=3)
        for finer, coarser in pairwise(curves)
    ]
    signs = {step.above_zero for step in steps}
    holds = None if signs == {None} else (False not in signs and True in signs)
    ratio = float(curves[0].mean[0] / curves[-1].mean[0])
    return holds, {"ratio": ratio, "last": curves[0].at[0]}


def _betas() -> list[float]:
    return [published_pair("nissim", methods.EPSILON, methods.DELTA, d).beta for d in (40, 5)]


def beta_grows(_: Sequence[Curve], threshold: float) -> Finding:
    """Test that fewer parameters increase beta."""
    wide, narrow = _betas()
    return narrow > threshold * wide, {"wide": wide, "narrow": narrow}


def beta_lowers(curves: Sequence[Curve], threshold: float) -> Finding:
    """Test that a larger beta lowers psi, on the counts of the curve's batches."""
    (curve,) = curves
    logs = []
    for run in range(len(curve.values)):
        counts = methods.batch(int(curve.at[0]), run, methods.TIGHT).counts
        limits, weights, m = paper_limits(len(counts)), np.ones(len(counts)), int(curve.at[0])
        psi = LswSensitivity(limits, weights, m, pseudo_count=0.0)
        wide, narrow = (psi.smooth(counts, beta) for beta in _betas())
        logs.append(math.log(wide / narrow))
    ratio = math.exp(evidence.estimate(logs).value)
    return ratio > threshold, {"ratio": ratio}


def quadratic(curves: Sequence[Curve], threshold: float) -> Finding:
    """Test that the excess risk falls as 1/m^2."""
    (curve,) = curves
    slope = evidence.slope(curve)
    return abs(slope.value + 2) < threshold, {"slope": slope.value, "error": slope.error}


TESTS: dict[str, Callable[..., Finding]] = {
    test.__name__: test
    for test in (
        stable,
        same_solution,
        faster,
        alike,
        alike_at_best_ridge,
        crosses,
        useful_before,
        smaller_at_first,
        sqrt_schedule,
        larger_at_last,
        aggregation_helps,
        beta_grows,
        beta_lowers,
        quadratic,
    )
}


# Formats of numbers


def _m(number: float) -> str:
    """Format a number of trajectories, to two digits.

    >>> _m(10**7), _m(431_000.0), _m(250.0)
    ('10^7', '4.3e5', '250')
    """
    if not math.isfinite(number):
        return "never"
    if number < 1e4:
        return f"{float(f'{number:.2g}'):g}"
    mantissa, exponent = f"{number:.1e}".split("e")
    short = mantissa.removesuffix(".0")
    return f"10^{int(exponent)}" if short == "1" else f"{short}e{int(exponent)}"


def _ratio(factor: float) -> str:
    """Format a factor with two or three digits, written out.

    >>> _ratio(1.0), _ratio(2853.1)
    ('1.00', '2,900')
    """
    return f"{factor:.2f}" if factor < 10 else f"{float(f'{factor:.2g}'):,.0f}"


def _slope(value: float) -> str:
    """Format a slope with two digits, and no negative zero."""
    return f"{round(value, 2) + 0.0:.2f}"


def _times(factor: float) -> str:
    """Format a factor as a gain or a loss.

    >>> _times(4.0), _times(0.1)
    ('4 times smaller', '10 times larger')
    """
    word, size = ("smaller", factor) if factor >= 1 else ("larger", 1 / factor)
    return f"{size:.2g} times {word}" if size < 10 else f"{float(f'{size:.2g}'):,.0f} times {word}"


class _Figures(Formatter):
    """Fill a text with numbers, in the formats above by their names."""

    formats: Mapping[str, Callable[[float], str]] = {
        "m": _m,
        "ratio": _ratio,
        "slope": _slope,
        "times": _times,
    }

    def format_field(self, value: Any, format_spec: str) -> str:
        """Return one number as text."""
        if format_spec in self.formats:
            return self.formats[format_spec](value)
        return str(super().format_field(value, format_spec))
