"""Decide the paper's claims about its experiments: for each sentence a test, and its verdict.

``CLAIMS`` is a table of sentences. Each is judged in several cases, one for each bound, algorithm
or range to which the sentence applies; a case holds, or not, or is undecided where the runs are too
few. The verdict follows from the cases: "holds" if all do, "does not hold" if none does, "holds in
part" otherwise. Nothing here is typed in by hand but the sentences, the tests and their thresholds.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.interpolate import CubicSpline

from privalue.core import Vector, nissim, smooth_lsw
from privalue.paper.evidence import (
    above,
    crossing,
    estimate,
    lowest,
    reached,
    resampled_slope,
    slope,
)
from privalue.paper.experiments import (
    BEST_AGGREGATED,
    CONVERGENCE,
    LINEAR,
    REGULARISED,
    SIZES,
    SQRT,
    Curve,
    Results,
)
from privalue.paper.methods import DELTA, EPSILON, TIGHT, WIDE, batch, rmse, truth, world
from privalue.paper.theory import paper_limits
from privalue.study import aggregation as aggregation_matrix

Tables = Mapping[str, Results]

ALIKE = 1.1  # errors within 10% of each other are called the same
SMALL_SPREAD = 0.01  # of an RMSE over runs, where values go up to 1
CLOSE = 1.02  # a schedule within 2% of the best one counts as the best


Finding = tuple[bool | None, str]  # whether the sentence holds, and the figures that say so


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A sentence of the paper, the test that decides it, and the cases that are tested."""

    sentence: str
    test: str
    cases: Mapping[str, tuple[Any, ...]]  # by what they are called: a judge, and what it judges


def decide(tables: Tables) -> list[dict[str, Any]]:
    """Return all claims with their findings and verdicts, as plain values, in the paper's order."""
    decided = []
    for claim in CLAIMS:
        found = {what: judge(tables, *case) for what, (judge, *case) in claim.cases.items()}
        decided.append(
            {
                "sentence": claim.sentence,
                "test": claim.test,
                "verdict": verdict([holds for holds, _ in found.values()]),
                "parts": [
                    {"what": what, "holds": holds, "figures": figures}
                    for what, (holds, figures) in found.items()
                ],
            }
        )
    return decided


def verdict(parts: Sequence[bool | None]) -> str:
    """Return the verdict over those parts that could be decided."""
    decided = set(parts) - {None}
    if not decided:
        return "undecided"
    if decided == {True}:
        return "holds"
    return "does not hold" if decided == {False} else "holds in part"


# Panel 1


def stable(tables: Tables, name: str, schedule: str, low: float, high: float) -> Finding:
    """Test that the RMSE hardly varies over runs."""
    spreads = []
    for size in (1, 2):
        curve = tables["panel-1"].curve(algorithm=name, aggregation=size, schedule=schedule)
        spreads.append(float(curve.between(low, high).values.std(axis=0, ddof=1).max()))
    worst = max(spreads)
    return worst < SMALL_SPREAD, f"{worst:.2g}"


def projections(aggregation: int) -> tuple[Vector, Vector]:
    """Return the limits of LSW and LSL: V projected with weights 1, and with weights p_s."""
    phi, v = aggregation_matrix(len(truth()), aggregation).toarray(), truth()
    limits = []
    for weights in (np.ones(len(v)), world().visits):
        root = np.sqrt(weights)
        theta = np.linalg.lstsq(root[:, None] * phi, root * v, rcond=None)[0]
        limits.append(phi @ theta)
    return limits[0], limits[1]


def same_solution(tables: Tables, size: int) -> Finding:
    """Test that the exact limits of LSW and LSL are equal."""
    lsw_limit, lsl_limit = projections(size)
    apart = float(np.sqrt(np.mean((lsw_limit - lsl_limit) ** 2)))
    equal = apart < 1e-9
    lsw, lsl = (
        tables["panel-1"].curve(algorithm=name, aggregation=size, schedule=schedule)
        for name, schedule in (("LSW", ""), ("LSL", CONVERGENCE[0]))
    )
    ratio = math.exp(estimate(np.log(lsl.values[:, -1] / lsw.values[:, -1])).value)
    figures = (
        f"limits {0.0 if equal else apart:.2g} apart; RMSE of LSL over LSW at m = "
        f"{_m(lsw.at[-1])}: {ratio:.4f}"
    )
    return equal, figures


def faster(tables: Tables, size: int, schedule: str) -> Finding:
    """Test that LSL's error is above LSW's at some m and below at none."""
    lsw = tables["panel-1"].curve(algorithm="LSW", aggregation=size)
    lsl = tables["panel-1"].curve(algorithm="LSL", aggregation=size, schedule=schedule)
    signs = above(lsl, lsw)
    ahead, behind = signs.count(True), signs.count(False)
    tail = lsw.at[-max(len(lsw.at) // 3, 2)]
    slopes = [slope(curve.between(tail, math.inf)).value for curve in (lsw, lsl)]
    ratio = float(np.exp(np.mean(np.log(lsl.mean / lsw.mean))))
    figures = (
        f"LSW ahead at {ahead} of {len(signs)} m, behind at {behind}; on average "
        f"{_ratio(ratio)} times; last slopes {_slope(slopes[0])} and {_slope(slopes[1])}"
    )
    return ahead > 0 and behind == 0, figures


# Panels 2 and 3


def alike(
    tables: Tables, panel: str, name: str, bound: float, schedule: str, most: float
) -> Finding:
    """Test whether a private algorithm ends as well as its twin, and find from which m on."""
    private, plain = (
        tables[panel].curve(algorithm=algorithm, bound=bound, schedule=schedule).between(0, most)
        for algorithm in (f"DP-{name}", name)
    )
    ratios = private.values / plain.values
    last = estimate(ratios[:, -1])
    since = reached(private.at, ratios.mean(axis=0), ALIKE)
    figures = f"{_ratio(last.value)} times at m = {_m(private.at[-1])}"
    if math.isfinite(since):
        figures += f", alike from {_m(since)} on"
    return None if last.low <= ALIKE <= last.high else last.high <= ALIKE, figures


def alike_at_best_ridge(tables: Tables, bound: float, m: int) -> Finding:
    """Test whether DP-LSL with the best lambda is as good as LSW."""
    private = by_ridge(tables["panel-2"], bound, m)
    plain = tables["panel-2"].curve(algorithm="LSW", bound=bound, trajectories=m)
    ratio = lowest(private.at, private.mean)[1] / float(plain.mean[-1])
    return ratio <= ALIKE, f"{_ratio(ratio)} times LSW at m = {_m(m)}"


def crosses(tables: Tables, bound: float) -> Finding:
    """Test that DP-LSL is better for small batches, and DP-LSW for large ones."""
    where, certain = _crossing(tables, bound)
    return certain, f"they cross at m = {_m(where)}"


def _crossing(tables: Tables, bound: float) -> tuple[float, bool]:
    lsw = tables["panel-3"].curve(algorithm="DP-LSW", bound=bound)
    lsl = tables["panel-3"].curve(algorithm="DP-LSL", bound=bound, schedule=BEST_AGGREGATED[bound])
    return crossing(lsw, lsl)


def useful_before(tables: Tables, bound: float) -> Finding:
    """Test that DP-LSL beats a constant before DP-LSW beats it."""
    curve = tables["panel-3"].curve(
        algorithm="DP-LSL", bound=bound, schedule=BEST_AGGREGATED[bound]
    )
    useful = reached(curve.at, curve.mean, rmse(np.full(len(truth()), 0.5)))
    figures = f"better than the constant 1/2 from m = {_m(useful)} on"
    return useful < _crossing(tables, bound)[0], figures


def better_without_privacy(tables: Tables) -> Finding:
    """Test that LSL is better than LSW on the smallest batch, without privacy."""
    lsw = tables["panel-3"].curve(algorithm="LSW", bound=TIGHT)
    lsl = tables["panel-3"].curve(algorithm="LSL", bound=TIGHT, schedule=BEST_AGGREGATED[TIGHT])
    first = estimate(np.log(lsl.values[:, 0] / lsw.values[:, 0]))
    ratio = math.exp(first.value)
    holds = None if first.above_zero is None else not first.above_zero
    return holds, f"RMSE of LSL {ratio:.2f} times that of LSW"


def by_ridge(table: Results, bound: float, m: int) -> Curve:
    """Return the error of DP-LSL along lambda."""
    return table.curve("ridge", algorithm="DP-LSL", bound=bound, trajectories=m)


def sqrt_schedule(tables: Tables, bound: float, low: int, high: int) -> Finding:
    """Test that a schedule proportional to sqrt(m) loses no more than others."""
    sizes = [m for m in REGULARISED if low <= m <= high]
    curves = [by_ridge(tables["panel-2"], bound, m) for m in sizes]
    growth = resampled_slope(curves, np.array(sizes, dtype=np.float64))
    losses = {a: schedule_loss(curves, sizes, a) for a in (0.25, 0.5, 0.6, 0.75, 1.0)}
    figures = (
        f"best lambda ~ m^{growth.value:.2f} ({growth.low:.2f} to {growth.high:.2f}); "
        f"worst loss {losses[0.5] - 1:.1%} for sqrt(m), {losses[0.6] - 1:.1%} for m^0.6"
    )
    return losses[0.5] <= CLOSE * min(losses.values()), figures


def schedule_loss(curves: Sequence[Curve], sizes: Sequence[int], exponent: float) -> float:
    """Return min over c, max over m of RMSE(c m^a)/min RMSE: what one schedule loses at worst.

    Between the lambdas that were run a cubic spline of the logarithms is taken.
    """
    constants = np.linspace(-15.0, 15.0, 3001)
    worst = np.zeros(len(constants))
    for m, curve in zip(sizes, curves, strict=True):
        x = np.log(curve.at)
        error = CubicSpline(x, np.log(curve.mean))
        least = float(error(np.linspace(x[0], x[-1], 3001)).min())
        chosen = np.clip(constants + exponent * math.log(m), x[0], x[-1])
        worst = np.maximum(worst, error(chosen) - least)
    return math.exp(float(worst.min()))


# Panel 4


def excess_curve(
    tables: Tables, name: str, size: int = 1, *, schedule: str = "", normalised: bool = False
) -> Curve:
    """Return the excess risk along m at the tight bound; tabular features have norm 1 anyway."""
    return tables["panel-4"].curve(
        algorithm=name,
        bound=TIGHT,
        aggregation=size,
        schedule=schedule,
        normalised=normalised and size > 1,
    )


def not_best_for_risk(tables: Tables) -> Finding:
    """Test that the excess is larger for lambda in sqrt(m) than for lambda in m."""
    sqrt, linear = (excess_curve(tables, "DP-LSL", schedule=text) for text in (SQRT, LINEAR))
    ratio = estimate(np.log(sqrt.values[:, -1] / linear.values[:, -1]))
    slopes = [slope(curve.between(1e6, math.inf)).value for curve in (sqrt, linear)]
    figures = (
        f"{_times(math.exp(-ratio.value))} than with lambda in m at m = {_m(sqrt.at[-1])}; "
        f"slopes {_slope(slopes[0])} and {_slope(slopes[1])}"
    )
    return ratio.above_zero, figures


def aggregation_helps(tables: Tables, name: str, schedule: str, normalised: bool) -> Finding:
    """Test that the excess falls with each step of aggregation."""
    curves = [
        excess_curve(tables, name, size, schedule=schedule, normalised=normalised) for size in SIZES
    ]
    m = int(np.flatnonzero(curves[0].at == 10**6)[0])
    steps = [
        estimate(np.log(finer.values[:, m] / coarser.values[:, m]), comparisons=3)
        for finer, coarser in pairwise(curves)
    ]
    whole = float(curves[0].mean[m] / curves[-1].mean[m])
    signs = {step.above_zero for step in steps}
    holds = None if signs == {None} else (False not in signs and True in signs)
    return holds, f"8 states each: excess {_times(whole)} at m = {_m(curves[0].at[m])}"


def beta_lowers(tables: Tables, m: int | None) -> Finding:
    """Test that fewer parameters increase beta, and that it lowers psi on the same counts."""
    wide, narrow = (nissim(EPSILON, DELTA, d).beta for d in (40, 5))
    if m is None:
        return narrow > wide, f"{wide:.2g} for d = 40, {narrow:.2g} for d = 5"
    logs = []
    for run in range(len(tables["panel-4"].values)):
        counts, weights = batch(m, run, TIGHT).counts, np.ones(len(truth()))
        limits = paper_limits(len(counts))
        psi = [smooth_lsw(limits, counts, weights, beta) for beta in (wide, narrow)]
        logs.append(math.log(psi[0] / psi[1]))
    factor = math.exp(estimate(logs).value)
    return factor > ALIKE, f"lower by a factor of {_ratio(factor)}"


def quadratic(tables: Tables, name: str, schedule: str, low: float, high: float) -> Finding:
    """Test that the excess risk falls as 1/m^2."""
    found = slope(excess_curve(tables, name, schedule=schedule).between(low, high))
    return abs(found.value + 2) < 0.1, f"slope {_slope(found.value)} +- {found.error:.2f}"


CLAIMS = (
    Claim(
        sentence="Both algorithms are very stable (LSW and LSL, without privacy)",
        test=f"the standard deviation of the RMSE over runs is below {SMALL_SPREAD} at every m",
        cases={
            "LSW, m < 1,000": (stable, "LSW", "", 0, 999),
            "LSW, m >= 1,000": (stable, "LSW", "", 1000, math.inf),
            "LSL, m < 1,000": (stable, "LSL", CONVERGENCE[1], 0, 999),
            "LSL, m >= 1,000": (stable, "LSL", CONVERGENCE[1], 1000, math.inf),
        },
    ),
    Claim(
        sentence="LSW and LSL converge to the same solution",
        test="the limits for m to infinity (lambda/m to 0), computed exactly, are equal",
        cases={"tabular": (same_solution, 1), "pairs": (same_solution, 2)},
    ),
    Claim(
        sentence="LSW converges faster (than LSL, without privacy)",
        test="paired over batches, LSL's RMSE is the larger at some m and the smaller at none",
        cases={
            f"{what}, lambda = {schedule}": (faster, size, schedule)
            for what, size in (("tabular", 1), ("pairs", 2))
            for schedule in CONVERGENCE
        },
    ),
    Claim(
        sentence="The DP algorithms converge to the same solutions as the non-private ones for "
        "large enough batches",
        test=f"RMSE within {ALIKE - 1:.0%} of the non-private one at m = 10^7, with pairs and "
        "lambda in sqrt(m)",
        cases={
            f"DP-{name}, pairs, bound {bound:g}": (
                alike,
                "panel-3",
                name,
                bound,
                schedule,
                math.inf,
            )
            for bound, best in BEST_AGGREGATED.items()
            for name, schedule in (("LSW", ""), ("LSL", best))
        },
    ),
    Claim(
        sentence="The LSL algorithms work better with small batches, LSW is preferable with large "
        "ones",
        test="paired over batches, DP-LSL has the smaller RMSE at small m and DP-LSW from some m "
        "on; and DP-LSL beats a constant before that m",
        cases={
            "private, bound 100": (crosses, WIDE),
            "DP-LSL is of use before, bound 100": (useful_before, WIDE),
            "private, bound 1": (crosses, TIGHT),
            "DP-LSL is of use before, bound 1": (useful_before, TIGHT),
            "not private, m = 10": (better_without_privacy,),
        },
    ),
    Claim(
        sentence="Regularisation in proportion to sqrt(m) achieves the best overall accuracy "
        "(DP-LSL)",
        test="of lambda = c m^a with one c for all m, a in {1/4, 1/2, 3/5, 3/4, 1}: sqrt(m) loses "
        f"within {CLOSE - 1:.0%} of the least, against the best lambda at each m",
        cases={
            "bound 1, m from 10^4 to 10^7": (sqrt_schedule, TIGHT, 10**4, 10**7),
            "bound 100, m from 10^6 to 10^8": (sqrt_schedule, WIDE, 10**6, 10**8),
            "bound 1, m from 10^8 to 8e9": (sqrt_schedule, TIGHT, 10**8, REGULARISED[-1]),
        },
    ),
    Claim(
        sentence="The theory suggests that sqrt(m) is not the best schedule for excess empirical "
        "risk",
        test="at the largest m the excess is larger for lambda in sqrt(m) than for lambda in m",
        cases={"tabular": (not_best_for_risk,)},
    ),
    Claim(
        sentence="More aggressive function approximation helps both differentially private "
        "algorithms converge faster",
        test="paired over batches at m = 10^6, the excess falls with each step from 1 to 2, 4, 8 "
        "states with one value",
        cases={
            "DP-LSW": (aggregation_helps, "DP-LSW", "", False),
            "DP-LSL": (aggregation_helps, "DP-LSL", SQRT, False),
            "DP-LSL, features of norm 1": (aggregation_helps, "DP-LSL", SQRT, True),
        },
    ),
    Claim(
        sentence="Decreasing d increases beta, which lowers the smooth sensitivity bounds",
        test=f"psi with the beta of d = 5 is below {1 / ALIKE:.0%} of psi with that of d = 40, on "
        "the same counts",
        cases={
            "beta": (beta_lowers, None),
            "psi of DP-LSW at m = 10^5": (beta_lowers, 10**5),
            "psi of DP-LSW at m = 10^7": (beta_lowers, 10**7),
        },
    ),
    Claim(
        sentence="The excess empirical risk falls as 1/m^2 (section 5, Corollaries 12 and 13)",
        test="the slope of ln(excess) against ln(m) is -2 to within 0.1",
        cases={
            "DP-LSW, m from 10 to 10^5": (quadratic, "DP-LSW", "", 10, 10**5),
            "DP-LSW, m from 10^5 to 10^7": (quadratic, "DP-LSW", "", 10**5, 10**7),
            "DP-LSW, m from 10^7 on": (quadratic, "DP-LSW", "", 10**7, math.inf),
            "DP-LSL, lambda in sqrt(m), from 10^6 on": (
                quadratic,
                "DP-LSL",
                SQRT,
                10**6,
                math.inf,
            ),
            "DP-LSL, lambda in m, from 10^6 on": (quadratic, "DP-LSL", LINEAR, 10**6, math.inf),
        },
    ),
    Claim(
        sentence="As batch size increases the noise decreases rapidly, and these algorithms "
        "provide the same performance with privacy",
        test=f"tabular RMSE within {ALIKE - 1:.0%} of the non-private one, at m = 10^7 and at the "
        "largest m that was run",
        cases={
            "DP-LSW, bound 100, m to 10^7": (alike, "panel-2", "LSW", WIDE, "", 10**7),
            "DP-LSW, bound 100, all m": (alike, "panel-2", "LSW", WIDE, "", math.inf),
            "DP-LSW, bound 1, m to 10^7": (alike, "panel-2", "LSW", TIGHT, "", 10**7),
            "DP-LSW, bound 1, all m": (alike, "panel-2", "LSW", TIGHT, "", math.inf),
            "DP-LSL, best lambda, bound 100": (alike_at_best_ridge, WIDE, 10**7),
            "DP-LSL, best lambda, bound 1": (alike_at_best_ridge, TIGHT, 10**7),
        },
    ),
)


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
