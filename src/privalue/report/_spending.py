"""Show the ledger to people: rows of a table, spending over time as text and figure, and PLD.

``advance_composition`` is information only. It says what composition of privacy loss distributions
(extra ``accounting``) would allow if all releases had been fixed in advance. The ledger charges the
plain sum, which holds also where later questions depend on earlier answers.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import ROUND_CEILING, Context
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from privalue.artefact import Release
from privalue.ledger import Account, Cost, Protection, Standing, Step
from privalue.report._registry import gaussian_alpha

_BARS = " ▁▂▃▄▅▆▇█"


@dataclass(frozen=True, kw_only=True)
class AdvanceComposition:
    """epsilon at a delta if the releases had been planned in advance, or why it is unknown."""

    epsilon: float | None
    delta: float
    note: str


def advance_composition(releases: Sequence[Cost], delta: float) -> AdvanceComposition:
    """Compose releases by PLD, each taken as the worst (epsilon, delta) mechanism.

    Args:
        releases: their costs.
        delta: at which the composed epsilon is computed.

    Returns:
        The epsilon; None where dp-accounting is not installed, or the deltas alone exceed delta.
    """
    note = "information only: it holds for a plan fixed in advance, and the ledger charges the sum"
    if not releases:
        return AdvanceComposition(epsilon=0.0, delta=delta, note=note)
    try:
        pld = import_module("dp_accounting.pld.privacy_loss_distribution")
        common = import_module("dp_accounting.pld.common")
    except ImportError:
        missing = "PLD composition needs dp-accounting: pip install dp-accounting"
        return AdvanceComposition(epsilon=None, delta=delta, note=missing)
    composed = None
    for cost, times in Counter(releases).items():
        promise = common.DifferentialPrivacyParameters(**cost.as_dict())
        part = pld.from_privacy_parameters(promise).self_compose(times)
        composed = part if composed is None else composed.compose(part)
    assert composed is not None
    epsilon = float(composed.get_epsilon_for_delta(delta))
    plain = sum(releases, start=Cost(epsilon=0, delta=0)).as_dict()
    if plain["delta"] <= delta:  # PLDs are rounded up to a grid, and may exceed even the plain sum
        epsilon = min(epsilon, plain["epsilon"])
    if epsilon == float("inf"):
        smaller = f"no epsilon: the deltas alone exceed {delta:g}"
        return AdvanceComposition(epsilon=None, delta=delta, note=smaller)
    return AdvanceComposition(epsilon=epsilon, delta=delta, note=note)


def account_json(account: Account) -> dict[str, Any]:
    """Return what ``ledger show --json`` prints."""
    if account.gaussian:
        return account.as_dict()
    advance = advance_composition([each.units for each in account.releases], account.total.delta)
    planned = {"epsilon": advance.epsilon, "delta": advance.delta, "note": advance.note}
    return {**account.as_dict(), "if_planned_in_advance": planned}


def account_rows(account: Account) -> list[tuple[str, object]]:
    """Return what ``ledger show`` prints, as pairs."""
    return [
        ("left", _left(account)),
        ("further releases of this size", _further(account)),
        ("protects", account.terms),
        *([("promises", _promise(account))] if account.promises_apart else []),
        ("total", account.total),
        ("spent", account.spent),
        ("reserved", account.reserved),
        *_epsilons(account),
        ("releases", len(account.releases)),
        *[("converted", each) for each in account.converted],
        ("over time", spending_line(account)),
        _otherwise(account),
        ("head", account.head),
    ]


def _pools(account: Account) -> list[str]:
    """Return the pools of a total: one, or two."""
    if not account.gaussian:
        return ["plain"]
    return ["gaussian", *(["plain"] if account.total.units.epsilon else [])]


def _left(account: Account) -> str:
    """Return what is left: in percent of each pool, then as amounts."""
    pools = _pools(account)
    shares = [f"{account.percent_left(pool)}%" for pool in pools]
    if account.gaussian:
        shares[0] += " of mu²"
    if len(pools) > 1:
        shares[1] += " of the plain pool"
    return f"{', '.join(shares)}: {account.left}"


def _further(account: Account) -> str:
    """Return how many more releases like the last fit; with two pools, into each of them."""
    if account.like_the_last is None:
        return "no release yet"
    if len(_pools(account)) == 1:
        return f"{account.like_the_last}"
    other = "plain" if account.last_pool == "gaussian" else "gaussian"
    more = account.like_the_last_of.get(other)
    beside = "none yet" if more is None else f"{more} like its last"
    return f"{account.like_the_last} ({account.last_pool} pool); {other} pool: {beside}"


def _epsilons(account: Account) -> list[tuple[str, object]]:
    """Return why the epsilons of a Gaussian book do not add up, once there are two of them."""
    if not account.spent.units.square:
        return []
    return [
        (
            "spent and left",
            "squares of mu add up, and epsilons do not: told as epsilons, both come to more than "
            "the total",
        )
    ]


def charge_words(release: Release, standing: Standing) -> str:
    """Return the line on what a new release was charged, and what that leaves."""
    privacy = release.privacy
    whom = Protection(unit=privacy.unit, neighbours=privacy.neighbours)
    paid = standing.charge(privacy.epsilon, privacy.delta, gaussian_alpha(release), whom)
    pool = "gaussian" if paid.square else "plain"
    told = f"{paid}"
    if paid.square:
        told += f" (epsilon {_up(privacy.epsilon)} at delta {_up(privacy.delta)})"
    elif standing.gaussian:
        told += " of the plain pool"
    left = f"{standing.percent_left(pool)}%, {standing.unspent}"
    return (
        f"Charged {told} to {standing.dataset}; left: {left}; further releases of this size: "
        f"{paid.times_in(standing.unspent.units)}"
    )


def _up(spent: float) -> str:
    """Return six digits of what was spent, rounded up, and written as amounts are."""
    rounded = Context(prec=6, rounding=ROUND_CEILING).create_decimal(repr(spent))
    return f"{float(rounded):g}".replace("e-0", "e-")


def _promise(account: Account) -> str:
    """Return what all releases together promise, and what of it a move left behind."""
    before = account.before
    moved = "" if before is None else f" (the delta of the plain total before, {before}, included)"
    return f"{account.promise}{moved}"


def _otherwise(account: Account) -> tuple[str, object]:
    """Return what another accounting would say of the same releases."""
    if account.gaussian:
        return "plain sums would say", f"spent {account.plain_sum}"
    advance = advance_composition([each.units for each in account.releases], account.total.delta)
    if advance.epsilon is None:
        return "if planned in advance", advance.note
    return (
        "if planned in advance",
        f"epsilon {advance.epsilon:.4g} at delta {advance.delta:g} ({advance.note})",
    )


def _part(account: Account, amount: Cost) -> float:
    """Return what of an amount the pictures show: epsilon, or mu^2 of a Gaussian book."""
    return amount.square / 10**24 if account.gaussian else amount.as_dict()["epsilon"]


def spending_line(account: Account, width: int = 40) -> str:
    """Return the spent share of epsilon, or mu^2, over time as text, a column for each period.

    It begins where squares began to be counted, or plain sums. Of two pools it shows what is
    nearest to its end.

    Args:
        account: how the dataset stands.
        width: how many columns.
    """
    total, spent = account.total.units.parts, account.spent.units.parts
    names = ("the plain pool's epsilon", "the plain pool's delta", "mu²")
    at_all = [part for part in (2, 0, 1) if total[part]] if account.gaussian else [0]
    part = max(at_all, key=lambda each: Fraction(spent[each], total[each]))
    steps = _counted_alike(account)
    times = _times(steps)
    span = (times[-1] - times[0]).total_seconds()
    line = []
    for column in range(1, width + 1):
        if span:
            reached = [(t - times[0]).total_seconds() <= span * column / width for t in times]
            at = sum(reached) - 1
        else:  # all entries have the same time: a column for each entry
            at = min(len(times) - 1, len(times) * column // width)
        step = steps[at]
        share = step.spent.parts[part] / (step.total.parts[part] or 1)
        line.append(_BARS[round(share * (len(_BARS) - 1))] if share else _BARS[0])
    percent = -(-100 * spent[part] // total[part])  # what is used is rounded up, as everywhere
    return f"|{''.join(line)}| {percent}% of {names[part] if account.gaussian else 'epsilon'}"


def draw_spending(account: Account, *, folder: Path, name: str = "spending") -> list[Path]:
    """Draw spent, reserved and total epsilon, or mu^2, since that is counted, over time.

    Args:
        account: how the dataset stands.
        folder: where the files go.
        name: of the files, without an ending.

    Returns:
        The paths of the PNG and the SVG file.
    """
    steps = _counted_alike(account)
    times = np.array([at.replace(tzinfo=None) for at in _times(steps)], dtype="datetime64[s]")
    steps = (*steps, steps[-1])  # the last step is drawn with some width
    width = max((times[-1] - times[0]) // 30, np.timedelta64(60, "s"))
    times = np.append(times, times[-1] + width)
    spent = [_part(account, step.spent) for step in steps]
    held = [_part(account, step.spent + step.reserved) for step in steps]
    totals = [_part(account, step.total) for step in steps]
    from privalue.report.drawing import (  # noqa: PLC0415 - an extra, and heavy
        Figure,
        FigureCanvasAgg,
        mpl,
    )

    with mpl.rc_context({"svg.hashsalt": "privalue", "svg.fonttype": "none"}):
        figure = Figure(figsize=(7.5, 3.2), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        axes.step(times, totals, where="post", color="0.35", linewidth=1.5, label="total")
        axes.fill_between(
            times, spent, held, step="post", color="#e0a030", alpha=0.5, label="reserved"
        )
        axes.fill_between(times, 0.0, spent, step="post", color="#0b6fa4", alpha=0.8, label="spent")
        axes.set_ylim(0, 1.08 * max(totals))
        axes.set_ylabel("mu²" if account.gaussian else "epsilon")
        axes.set_title(f"{account.dataset}: left {account.left}", loc="left", fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, loc="center left")
        axes.tick_params(axis="x", labelrotation=20)
        files = [folder / f"{name}.png", folder / f"{name}.svg"]
        figure.savefig(files[0], dpi=150, metadata={"Software": "privalue"})
        figure.savefig(files[1], metadata={"Date": None, "Creator": "privalue"})
    return files


def _counted_alike(account: Account) -> tuple[Step, ...]:
    """Return the steps since the accounting is what it is: before, amounts were of another kind."""
    steps = account.steps
    before = [at for at, step in enumerate(steps) if bool(step.total.square) != account.gaussian]
    return steps[before[-1] + 1 :] if before else steps


def _times(steps: Sequence[Step]) -> list[datetime]:
    """Return the time of every step; where the clock ran backwards, time stands still."""
    times: list[datetime] = []
    for step in steps:
        at = datetime.fromisoformat(step.at)
        times.append(max(at, times[-1]) if times else at)
    return times
