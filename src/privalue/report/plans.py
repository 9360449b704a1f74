"""Describe a plan."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from privalue.planning import Plan
from privalue.report.description import Description, Listing, Notice
from privalue.report.numbers import format_number


def describe_plan(plan: Plan, mechanisms: Sequence[Mapping[str, Any]] = ()) -> Description:
    """Return the description of a plan, for the terminal and the notebook.

    Args:
        plan: the plan.
        mechanisms: the overall error of each mechanism (``rmse``), or ``why`` there is none.
    """
    notices = [Notice("headline", "note", {"text": plan.headline.removesuffix(".")})]
    if plan.answer is not None:
        notices.append(Notice("answer", "note", {"text": plan.answer.text}))
    for notice in plan.notices:
        notices.append(Notice(notice.code, notice.severity, {"text": notice.text}))
    return Description(
        title=plan.study.study.name,
        notices=tuple(notices),
        listings=tuple(_listings(plan, mechanisms)),
        level=plan.study.report.level,
    )


def _listings(plan: Plan, mechanisms: Sequence[Mapping[str, Any]]) -> Iterator[Listing]:
    level = 100 * plan.study.report.level
    half = f"half of the {level:g}% interval" if plan.by_visits else "rarely off by more"
    unit = ", share of the range" if plan.relative else ""
    if plan.by_visits:
        heads = {
            "visits": "people who visit a state",
            "half_width": half,
            "half_width_95": "rarely above",
            "without_privacy": "without privacy",
        }
        title = f"How wide a state's interval will be{unit}"
        yield _listing("by-visits", title, heads, plan.by_visits, plan.range / 2)
    if plan.states:
        keys = [name for name in ("state", "arm", "action") if getattr(plan.states[0], name)]
        heads = {name: name for name in keys}
        heads |= {"visits": "expected visits", "half_width": half}
        title = f"By state{unit}"
        yield _listing("states", title, heads, plan.states, plan.range / 2)
    if plan.clips:
        heads = {"clip": "clip", "kept": "kept mass", "bias": "clipping bias"}
        heads |= {"noise": "noise and sampling", "error": "error"}
        title = "Kept mass and error" + ("" if plan.rmse is not None else ", at worst")
        study_clip = format_number(plan.study.policy.clip)
        yield _listing("clips", f"{title}; the study's clip is {study_clip}", heads, plan.clips)
    if mechanisms:
        rows = [
            (row["mechanism"], row["why"] if row["rmse"] is None else f"{row['rmse']:.3g}")
            for row in mechanisms
        ]
        yield Listing("mechanisms", "Mechanisms", ("mechanism", "error over the states"), rows)
    if plan.suggestions:
        heads = {"text": "change", "gain": "gain"}
        yield _listing("suggestions", "What would help", heads, plan.suggestions)


def _listing(
    key: str,
    title: str,
    heads: Mapping[str, str],
    rows: Sequence[Any],
    useless: float = math.inf,
) -> Listing:
    """Return rows as texts, with the attributes that have a heading.

    Half-widths of at least ``useless`` span the whole range, and are shown as useless.
    """
    limits = dict.fromkeys(("half_width", "half_width_95", "without_privacy"), useless)
    cells = [[_cell(getattr(row, name), limits.get(name)) for name in heads] for row in rows]
    return Listing(key, title, tuple(heads.values()), cells)


def _cell(value: Any, useless: float | None) -> str:
    if useless is not None and value >= useless:
        return "useless"
    if isinstance(value, float) and abs(value) < 1000:
        return f"{value:.3g}"
    return f"{value:,.0f}" if isinstance(value, int | float) else str(value)
