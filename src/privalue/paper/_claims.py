"""Decide the paper's claims about its experiments: for each sentence a test, and its verdict.

A claim has parts, one for each bound, algorithm or range to which the sentence applies. A part
holds, or not, or is undecided where the runs are too few; the verdict follows from the parts:
"holds" if all do, "does not hold" if none does, "holds in part" otherwise. Nothing here is typed in
by hand but the sentences, the tests and their thresholds.
"""

import csv
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from scipy.interpolate import CubicSpline

from privalue.core import Vector, nissim, smooth_lsw
from privalue.paper import _convergence as convergence
from privalue.paper import _excess as excess
from privalue.paper._aggregated import DRAWN, SCHEDULES
from privalue.paper._batches import batch, truth, world
from privalue.paper._evidence import (
    Estimate,
    above,
    crossing,
    estimate,
    log_ratio,
    lowest,
    reached,
    resampled_slope,
    slope,
)
from privalue.paper._excess import excess_curve
from privalue.paper._regularisation import by_ridge
from privalue.paper._settings import BOUNDS, DELTA, EPSILON, TIGHT, WIDE
from privalue.paper._table import Curve, ResultTable
from privalue.paper.theory import paper_limits
from privalue.study import aggregation as aggregation_matrix

Tables = Mapping[str, ResultTable]

ALIKE = 1.1  # errors within 10% of each other are called the same
SMALL_SPREAD = 0.01  # of an RMSE over runs, where values go up to 1
CLOSE = 1.02  # a schedule within 2% of the best one counts as the best


@dataclass(frozen=True, kw_only=True)
class ClaimPart:
    """One case of a claim; ``figures`` says in words what ``numbers`` holds."""

    what: str
    holds: bool | None
    figures: str
    numbers: dict[str, float | None]


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A sentence of the paper, the test that decides it, and the parts of the test."""

    name: str
    sentence: str
    test: str
    parts: tuple[ClaimPart, ...]

    @property
    def verdict(self) -> str:
        """Return the verdict over those parts that could be decided."""
        decided = {part.holds for part in self.parts} - {None}
        if not decided:
            return "undecided"
        if decided == {True}:
            return "holds"
        return "does not hold" if decided == {False} else "holds in part"


def claims(tables: Tables) -> list[Claim]:
    """Decide all claims, in the paper's order."""
    return [make(tables) for make in CLAIMS]


# Panel 1


def stable(tables: Tables) -> Claim:
    """Test that both algorithms are very stable."""
    table, parts = tables["panel-1"], []
    for name, schedule in (("LSW", ""), ("LSL", convergence.SMALL)):
        for few in (True, False):
            spreads = []
            for aggregation in (1, 2):
                curve = table.curve(algorithm=name, aggregation=aggregation, schedule=schedule)
                part = curve.between(0, 999) if few else curve.between(1000, math.inf)
                spreads.append(float(part.values.std(axis=0, ddof=1).max()))
            worst = max(spreads)
            parts.append(
                ClaimPart(
                    what=f"{name}, m {'<' if few else '>='} 1,000",
                    holds=worst < SMALL_SPREAD,
                    figures=f"{worst:.2g}",
                    numbers={"largest_deviation": worst},
                )
            )
    return Claim(
        name="stable",
        sentence="Both algorithms are very stable (LSW and LSL, without privacy)",
        test=f"the standard deviation of the RMSE over runs is below {SMALL_SPREAD} at every m",
        parts=tuple(parts),
    )


def projections(aggregation: int) -> tuple[Vector, Vector]:
    """Return the limits of LSW and LSL: V projected with weights 1, and with weights p_s."""
    phi, v = aggregation_matrix(len(truth()), aggregation).toarray(), truth()
    limits = []
    for weights in (np.ones(len(v)), world().process.visits.single):
        root = np.sqrt(weights)
        theta = np.linalg.lstsq(root[:, None] * phi, root * v, rcond=None)[0]
        limits.append(phi @ theta)
    return limits[0], limits[1]


def same_solution(tables: Tables) -> Claim:
    """Test that LSW and LSL converge to the same solution."""
    parts = []
    for aggregation, what in ((1, "tabular"), (2, "pairs")):
        limits = projections(aggregation)
        apart = float(np.sqrt(np.mean((limits[0] - limits[1]) ** 2)))
        equal = apart < 1e-9
        errors = [float(np.sqrt(np.mean((limit - truth()) ** 2))) for limit in limits]
        table = tables["panel-1"]
        lsw = table.curve(algorithm="LSW", aggregation=aggregation)
        lsl = table.curve(algorithm="LSL", aggregation=aggregation, schedule=convergence.CONSTANT)
        ratio = log_ratio(lsl.values[:, -1], lsw.values[:, -1])
        parts.append(
            ClaimPart(
                what=what,
                holds=equal,
                figures=f"limits {0.0 if equal else apart:.2g} apart; RMSE of LSL over LSW at m = "
                f"{_m(lsw.at[-1])}: {math.exp(ratio.value):.4f}",
                numbers={
                    "distance": apart,
                    "rmse_of_lsw_limit": errors[0],
                    "rmse_of_lsl_limit": errors[1],
                    "ratio": math.exp(ratio.value),
                },
            )
        )
    return Claim(
        name="same-solution",
        sentence="LSW and LSL converge to the same solution",
        test="the limits for m to infinity (lambda/m to 0), computed exactly, are equal",
        parts=tuple(parts),
    )


def faster(tables: Tables) -> Claim:
    """Test that LSW converges faster."""
    table, parts = tables["panel-1"], []
    for aggregation, what in ((1, "tabular"), (2, "pairs")):
        lsw = table.curve(algorithm="LSW", aggregation=aggregation)
        for schedule in (convergence.CONSTANT, convergence.SMALL, convergence.LARGE):
            lsl = table.curve(algorithm="LSL", aggregation=aggregation, schedule=schedule)
            ahead = above(lsl, lsw)
            tail = slice(-max(len(lsw.at) // 3, 2), None)
            slopes = [slope(Curve(c.at[tail].tolist(), c.values[:, tail])) for c in (lsw, lsl)]
            ratio = float(np.exp(np.mean(np.log(lsl.mean / lsw.mean))))
            parts.append(
                ClaimPart(
                    what=f"{what}, lambda = {schedule}",
                    holds=ahead.count(True) > 0 and ahead.count(False) == 0,
                    figures=f"LSW ahead at {ahead.count(True)} of {len(ahead)} m, behind at "
                    f"{ahead.count(False)}; on average {_ratio(ratio)} times; last slopes "
                    f"{_slope(slopes[0])} and {_slope(slopes[1])}",
                    numbers={
                        "ahead": ahead.count(True),
                        "behind": ahead.count(False),
                        "mean_ratio": ratio,
                        "slope_lsw": slopes[0].value,
                        "slope_lsl": slopes[1].value,
                    },
                )
            )
    return Claim(
        name="lsw-faster",
        sentence="LSW converges faster (than LSL, without privacy)",
        test="paired over batches, LSL's RMSE is the larger at some m and the smaller at none",
        parts=tuple(parts),
    )


# Panels 2 and 3


def private_converges(tables: Tables) -> Claim:
    """Test that the DP algorithms converge to the non-private solutions."""
    table, parts = tables["panel-3"], []
    for bound in BOUNDS:
        chosen = DRAWN.get(bound, SCHEDULES[-1])
        for name, schedule in (("LSW", ""), ("LSL", chosen)):
            private = table.curve(algorithm=f"DP-{name}", bound=bound, schedule=schedule)
            plain = table.curve(algorithm=name, bound=bound, schedule=schedule)
            parts.append(_alike(f"DP-{name}, pairs, bound {bound:g}", private, plain))
    return Claim(
        name="private-converges",
        sentence="The DP algorithms converge to the same solutions as the non-private ones for "
        "large enough batches",
        test=f"RMSE within {ALIKE - 1:.0%} of the non-private one at m = 10^7, with pairs and "
        "lambda in sqrt(m)",
        parts=tuple(parts),
    )


def _alike(what: str, private: Curve, plain: Curve) -> ClaimPart:
    """Test whether a private algorithm ends as well as its twin, and find from which m on."""
    ratio = Curve(private.at.tolist(), private.values / plain.values)
    last = estimate(ratio.values[:, -1])
    since = reached(ratio, ALIKE).at
    noise = Curve(
        private.at.tolist(), np.sqrt(np.maximum(private.values**2 - plain.values**2, 1e-30))
    )
    decided: bool | None = last.high <= ALIKE
    if last.holds(ALIKE):
        decided = None
    return ClaimPart(
        what=what,
        holds=decided,
        figures=f"{_ratio(last.value)} times at m = {_m(private.at[-1])}"
        + (f", alike from {_m(since)} on" if math.isfinite(since) else ""),
        numbers={
            "ratio": last.value,
            "ratio_error": last.error,
            "alike_from": since if math.isfinite(since) else None,
            "excess_rmse": float(noise.mean[-1]),
        },
    )


def small_and_large(tables: Tables) -> Claim:
    """Test that LSL is better for small batches, and LSW for large ones."""
    table, parts = tables["panel-3"], []
    guess = float(np.sqrt(np.mean((truth() - 0.5) ** 2)))
    for bound in BOUNDS:
        schedule = DRAWN.get(bound, SCHEDULES[-1])
        lsw = table.curve(algorithm="DP-LSW", bound=bound)
        lsl = table.curve(algorithm="DP-LSL", bound=bound, schedule=schedule)
        where = crossing(lsw, lsl)
        useful = reached(lsl, guess).at
        parts.append(
            ClaimPart(
                what=f"private, bound {bound:g}",
                holds=where.before is not None and where.after is not None,
                figures=f"they cross at m = {_m(where.at)}",
                numbers={"crossing": where.at, "before": where.before, "after": where.after},
            )
        )
        parts.append(
            ClaimPart(
                what=f"DP-LSL is of use before, bound {bound:g}",
                holds=useful < where.at,
                figures=f"better than the constant 1/2 from m = {_m(useful)} on",
                numbers={"useful_from": useful if math.isfinite(useful) else None},
            )
        )
    lsw = table.curve(algorithm="LSW", bound=TIGHT)
    lsl = table.curve(algorithm="LSL", bound=TIGHT, schedule=DRAWN[TIGHT])
    first = log_ratio(lsl.values[:, 0], lsw.values[:, 0])
    parts.append(
        ClaimPart(
            what=f"not private, m = {_m(lsw.at[0])}",
            holds=None if first.above_zero is None else not first.above_zero,
            figures=f"RMSE of LSL {math.exp(first.value):.2f} times that of LSW",
            numbers={"ratio": math.exp(first.value)},
        )
    )
    return Claim(
        name="small-large",
        sentence="The LSL algorithms work better with small batches, LSW is preferable with large "
        "ones",
        test="paired over batches, DP-LSL has the smaller RMSE at small m and DP-LSW from some m "
        "on; and DP-LSL beats a constant before that m",
        parts=tuple(parts),
    )


def sqrt_schedule(tables: Tables) -> Claim:
    """Test that a schedule proportional to sqrt(m) is the best."""
    table, parts = tables["panel-2"], []
    sizes = sorted({row.trajectories for row in table.rows})
    ranges = (
        (TIGHT, 10**4, 10**7),
        (WIDE, 10**6, 10**8),
        (TIGHT, 10**8, sizes[-1]),
    )
    for bound, low, high in ranges:
        chosen = [m for m in sizes if low <= m <= high]
        curves = [by_ridge(table, "DP-LSL", bound, m) for m in chosen]
        growth = resampled_slope(curves, np.array(chosen, dtype=np.float64))
        losses = {a: schedule_loss(curves, chosen, a) for a in (0.25, 0.5, 0.6, 0.75, 1.0)}
        best = min(losses, key=lambda a: losses[a])
        parts.append(
            ClaimPart(
                what=f"bound {bound:g}, m from {_m(low)} to {_m(high)}",
                holds=losses[0.5] <= CLOSE * losses[best],
                figures=f"best lambda ~ m^{growth.value:.2f} ({growth.low:.2f} to "
                f"{growth.high:.2f}); worst loss {losses[0.5] - 1:.1%} for sqrt(m), "
                f"{losses[0.6] - 1:.1%} for m^0.6",
                numbers={
                    "exponent": growth.value,
                    "exponent_low": growth.low,
                    "exponent_high": growth.high,
                    **{f"loss_{a:g}": value for a, value in losses.items()},
                },
            )
        )
    return Claim(
        name="sqrt-schedule",
        sentence="Regularisation in proportion to sqrt(m) achieves the best overall accuracy "
        "(DP-LSL)",
        test="of lambda = c m^a with one c for all m, a in {1/4, 1/2, 3/5, 3/4, 1}: sqrt(m) loses "
        f"within {CLOSE - 1:.0%} of the least, against the best lambda at each m",
        parts=tuple(parts),
    )


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


def not_best_for_risk(tables: Tables) -> Claim:
    """Test that sqrt(m) is not the best schedule for the excess risk."""
    table = tables["panel-4"]
    sqrt = excess_curve(table, "DP-LSL", TIGHT, 1, schedule=excess.SQRT)
    linear = excess_curve(table, "DP-LSL", TIGHT, 1, schedule=excess.LINEAR)
    ratio = log_ratio(sqrt.values[:, -1], linear.values[:, -1])
    slopes = [slope(curve.between(1e6, math.inf)) for curve in (sqrt, linear)]
    return Claim(
        name="risk-schedule",
        sentence="The theory suggests that sqrt(m) is not the best schedule for excess empirical "
        "risk",
        test="at the largest m the excess is larger for lambda in sqrt(m) than for lambda in m",
        parts=(
            ClaimPart(
                what="tabular",
                holds=ratio.above_zero,
                figures=f"{_times(math.exp(-ratio.value))} than with lambda in m at m = "
                f"{_m(sqrt.at[-1])}; "
                f"slopes {_slope(slopes[0])} and {_slope(slopes[1])}",
                numbers={
                    "ratio": math.exp(ratio.value),
                    "slope_sqrt": slopes[0].value,
                    "slope_linear": slopes[1].value,
                },
            ),
        ),
    )


# Panel 4


def aggregation_helps(tables: Tables) -> Claim:
    """Test that more aggressive aggregation helps both algorithms."""
    table, parts = tables["panel-4"], []
    cases: tuple[tuple[str, str, str, bool], ...] = (
        ("DP-LSW", "DP-LSW", "", False),
        ("DP-LSL", "DP-LSL", excess.SQRT, False),
        ("DP-LSL, features of norm 1", "DP-LSL", excess.SQRT, True),
    )
    for what, name, schedule, normalised in cases:
        curves = [
            excess_curve(table, name, TIGHT, size, schedule=schedule, normalised=normalised)
            for size in (1, 2, 4, 8)
        ]
        m = int(np.flatnonzero(curves[0].at == 10**6)[0])
        steps = [
            estimate(np.log(finer.values[:, m] / coarser.values[:, m]), comparisons=3)
            for finer, coarser in pairwise(curves)
        ]
        whole = float(curves[0].mean[m] / curves[-1].mean[m])
        signs = {step.above_zero for step in steps}
        parts.append(
            ClaimPart(
                what=what,
                holds=None if signs == {None} else (False not in signs and True in signs),
                figures=f"8 states each: excess {_times(whole)} at m = {_m(curves[0].at[m])}",
                numbers={
                    "gain": whole,
                    **{f"log_gain_{2**i}": step.value for i, step in enumerate(steps, start=1)},
                },
            )
        )
    return Claim(
        name="aggregation",
        sentence="More aggressive function approximation helps both differentially private "
        "algorithms converge faster",
        test="paired over batches at m = 10^6, the excess falls with each step from 1 to 2, 4, 8 "
        "states with one value",
        parts=tuple(parts),
    )


def beta_lowers(tables: Tables) -> Claim:
    """Test that fewer parameters increase beta, which lowers the smooth sensitivity."""
    runs = sorted({row.run for row in tables["panel-4"].rows})
    betas = [nissim(EPSILON, DELTA, d).beta for d in (40, 5)]
    parts = [
        ClaimPart(
            what="beta",
            holds=betas[1] > betas[0],
            figures=f"{betas[0]:.2g} for d = 40, {betas[1]:.2g} for d = 5",
            numbers={"beta_40": betas[0], "beta_5": betas[1]},
        )
    ]
    weights = np.ones(len(truth()))
    psi = partial(smooth_lsw, paper_limits(len(weights)))
    for m in (10**5, 10**7):
        counts = [batch(m, run, TIGHT).counts for run in runs]
        factor = estimate(
            [math.log(psi(n, weights, betas[0]) / psi(n, weights, betas[1])) for n in counts]
        )
        parts.append(
            ClaimPart(
                what=f"psi of DP-LSW at m = {_m(m)}",
                holds=factor.value > math.log(ALIKE),
                figures=f"lower by a factor of {_ratio(math.exp(factor.value))}",
                numbers={"factor": math.exp(factor.value)},
            )
        )
    return Claim(
        name="beta",
        sentence="Decreasing d increases beta, which lowers the smooth sensitivity bounds",
        test=f"psi with the beta of d = 5 is below {1 / ALIKE:.0%} of psi with that of d = 40, on "
        "the same counts",
        parts=tuple(parts),
    )


def quadratic(tables: Tables) -> Claim:
    """Test that the excess risk falls as 1/m^2."""
    table, parts = tables["panel-4"], []
    cases: tuple[tuple[str, str, str, float, float], ...] = (
        ("DP-LSW, m from 10 to 10^5", "DP-LSW", "", 10, 10**5),
        ("DP-LSW, m from 10^5 to 10^7", "DP-LSW", "", 10**5, 10**7),
        ("DP-LSW, m from 10^7 on", "DP-LSW", "", 10**7, math.inf),
        ("DP-LSL, lambda in sqrt(m), m from 10^6 on", "DP-LSL", excess.SQRT, 10**6, math.inf),
        ("DP-LSL, lambda in m, m from 10^6 on", "DP-LSL", excess.LINEAR, 10**6, math.inf),
    )
    for what, name, schedule, low, high in cases:
        curve = excess_curve(table, name, TIGHT, 1, schedule=schedule).between(low, high)
        found = slope(curve)
        parts.append(
            ClaimPart(
                what=what,
                holds=abs(found.value + 2) < 0.1,
                figures=f"slope {_slope(found)} +- {found.error:.2f}",
                numbers={"slope": found.value, "error": found.error},
            )
        )
    return Claim(
        name="quadratic",
        sentence="The excess empirical risk falls as 1/m^2 (section 5, Corollaries 12 and 13)",
        test="the slope of ln(excess) against ln(m) is -2 to within 0.1",
        parts=tuple(parts),
    )


def same_performance(tables: Tables) -> Claim:
    """Test that with growing batches private algorithms perform like the others."""
    table, parts = tables["panel-2"], []
    for bound in BOUNDS:
        for largest in (10**7, math.inf):
            private, plain = (
                table.curve(algorithm=name, bound=bound).between(0, largest)
                for name in ("DP-LSW", "LSW")
            )
            parts.append(_alike(f"DP-LSW, tabular, bound {bound:g}", private, plain))
    for bound in BOUNDS:
        m = 10**7
        private = by_ridge(table, "DP-LSL", bound, m)
        best = lowest(private.at, private.mean)
        plain = table.curve(algorithm="LSW", bound=bound, trajectories=m)
        ratio = best.value / float(plain.mean[-1])
        parts.append(
            ClaimPart(
                what=f"DP-LSL, tabular, best lambda, bound {bound:g}",
                holds=ratio <= ALIKE,
                figures=f"{_ratio(ratio)} times LSW at m = {_m(m)}",
                numbers={"ratio": ratio},
            )
        )
    return Claim(
        name="same-performance",
        sentence="As batch size increases the noise decreases rapidly, and these algorithms "
        "provide the same performance with privacy",
        test=f"tabular RMSE within {ALIKE - 1:.0%} of the non-private one, at m = 10^7 and at the "
        "largest m that was run",
        parts=tuple(parts),
    )


CLAIMS: tuple[Callable[[Tables], Claim], ...] = (
    stable,
    same_solution,
    faster,
    private_converges,
    small_and_large,
    sqrt_schedule,
    not_best_for_risk,
    aggregation_helps,
    beta_lowers,
    quadratic,
    same_performance,
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


def _slope(found: Estimate) -> str:
    """Format a slope with two digits, and no negative zero."""
    return f"{round(found.value, 2) + 0.0:.2f}"


def _times(factor: float) -> str:
    """Format a factor as a gain or a loss.

    >>> _times(4.0), _times(0.1)
    ('4 times smaller', '10 times larger')
    """
    word, size = ("smaller", factor) if factor >= 1 else ("larger", 1 / factor)
    return f"{size:.2g} times {word}" if size < 10 else f"{float(f'{size:.2g}'):,.0f} times {word}"


# Files


def described(found: Sequence[Claim]) -> list[dict[str, Any]]:
    """Return claims as plain values."""
    return [
        {
            "name": claim.name,
            "sentence": claim.sentence,
            "test": claim.test,
            "verdict": claim.verdict,
            "parts": [
                {
                    "what": part.what,
                    "holds": part.holds,
                    "figures": part.figures,
                    "numbers": part.numbers,
                }
                for part in claim.parts
            ],
        }
        for claim in found
    ]


WORDS = {True: "yes", False: "no", None: "undecided"}


def markdown(found: Sequence[Claim]) -> str:
    """Return a table of the verdicts, then of each claim its test and every part with figures."""
    lines = ["| the paper says | verdict |", "|---|---|"]
    lines += [f"| {claim.sentence} | **{claim.verdict}** |" for claim in found]
    for claim in found:
        lines += ["", f"**{claim.sentence}.** The test: {claim.test}.", ""]
        lines += [f"- {part.what}: **{WORDS[part.holds]}**, {part.figures}" for part in claim.parts]
    return "\n".join(lines) + "\n"


def write_claims(found: Sequence[Claim], file: Path) -> list[Path]:
    """Write claims.json, claims.csv with a row for each part, and claims.md."""
    document = {"private": False, "claims": described(found)}
    file.with_suffix(".json").write_text(
        json.dumps(document, indent=1, allow_nan=False) + "\n", encoding="utf-8"
    )
    with file.with_suffix(".csv").open("w", encoding="utf-8", newline="") as opened:
        writer = csv.writer(opened)
        writer.writerow(["name", "sentence", "verdict", "part", "holds", "figures", "numbers"])
        for claim in found:
            for part in claim.parts:
                writer.writerow(
                    [
                        claim.name,
                        claim.sentence,
                        claim.verdict,
                        part.what,
                        WORDS[part.holds],
                        part.figures,
                        json.dumps(part.numbers, allow_nan=False),
                    ]
                )
    file.with_suffix(".md").write_text(markdown(found), encoding="utf-8")
    return [file.with_suffix(ending) for ending in (".json", ".csv", ".md")]
