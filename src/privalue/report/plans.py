"""Describe a plan."""

from collections.abc import Iterator
from typing import Any

from privalue.planning import Plan
from privalue.report.description import Description, Fact, Listing, Notice


def describe_plan(plan: Plan) -> Description:
    """Return what a plan says, for the terminal and the notebook."""
    facts = [Fact("plan.headline", plan.headline)]
    if plan.answer is not None:
        facts.append(Fact("plan.answer", plan.answer.value, "Answer", plan.answer.text))
    return Description(
        title=plan.study.study.name,
        facts=tuple(facts),
        notices=tuple(
            Notice(notice.code, notice.severity, {"text": f"{notice.text}."})
            for notice in plan.notices
        ),
        listings=tuple(_listings(plan)),
        level=plan.study.report.level,
    )


def _listings(plan: Plan) -> Iterator[Listing]:
    level = f"{100 * plan.study.report.level:g}%"
    unit = ", share of the range" if plan.relative else ""
    if plan.by_visits:
        heads = ("people who come to a state", f"half of the {level} interval", "rarely above")
        yield Listing(
            "by-visits",
            f"How wide a state's interval will be{unit}",
            (*heads, "without privacy"),
            [
                _cells(f"{row.visits:,}", row.half_width, row.half_width_95, row.without_privacy)
                for row in plan.by_visits
            ],
        )
    if plan.states:
        keys = [name for name in ("state", "arm", "action") if getattr(plan.states[0], name)]
        yield Listing(
            "states",
            f"The states themselves{unit}",
            (*keys, "expected visits", f"half of the {level} interval"),
            [
                [
                    *(getattr(row, name) for name in keys),
                    f"{row.visits:,.0f}",
                    f"{row.half_width:.3g}",
                ]
                for row in plan.states
            ],
        )
    if plan.clips:
        own = plan.study.policy.clip
        yield Listing(
            "clips",
            "What clips keep, and the error" + ("" if plan.rmse is not None else ", at worst"),
            ("clip", "kept", "clipping bias", "noise and people", "error"),
            [
                _cells(
                    f"{row.clip:g}{' (study)' if row.clip == own else ''}",
                    *(row.kept, row.bias, row.noise, row.error),
                )
                for row in plan.clips
            ],
        )
    if plan.suggestions:
        yield Listing(
            "suggestions",
            "What would help",
            ("change", "measure", "before", "after"),
            [
                [change.text, change.measure, f"{change.before:.3g}", f"{change.after:.3g}"]
                for change in plan.suggestions
            ],
        )


def _cells(first: str, *numbers: Any) -> list[str]:
    return [first, *(f"{number:.3g}" for number in numbers)]
