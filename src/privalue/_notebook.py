"""Show releases, plans, studies and accounts in a notebook: one piece of HTML each.

It needs no script, no other file and no network, and has its own paper and ink, light or dark as
the notebook or the machine is. Every text that somebody else chose is escaped. What is shown is
public, or made of what is public: a private type shows its shape and no more (``core``).
"""

import hashlib
import html
import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from privalue._forest import PlotRow, forest_plot
from privalue._written import counted, written, written_exactly
from privalue.estimate import StateChange
from privalue.planning import Forecast, Prediction
from privalue.planning import shown as error_shown
from privalue.releases import NOT_PRIVATE, Release
from privalue.report import (
    accepted_in_words,
    bits_of,
    heading,
    is_refuted,
    kept_mass,
    pairs_in_words,
    policies,
    policy_row,
    restriction_in_words,
    unchecked_words,
    verdict,
    verdict_words,
    whole,
)
from privalue.study import Study

MOST_ROWS = 20
_LABEL = 60  # characters of a label that is shown
# Characters that HTML may not hold, even escaped: controls, surrogates, non-characters.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


@cache
def _style() -> str:
    """Return the style of all that is shown."""
    return Path(__file__).with_name("_notebook.css").read_text(encoding="utf-8")


class _Escaped(str):
    """A text that is HTML already, and is not escaped again."""

    __slots__ = ()


def _tag(tag: str, *content: str, **attributes: str) -> _Escaped:
    """Return an element; texts are escaped, and ``class_`` is ``class``."""
    written_out = "".join(
        f' {name.rstrip("_")}="{html.escape(value)}"' for name, value in attributes.items() if value
    )
    inside = "".join(
        part if isinstance(part, _Escaped) else html.escape(_FORBIDDEN.sub("\ufffd", part))
        for part in content
    )
    return _Escaped(f"<{tag}{written_out}>{inside}</{tag}>")


def _named(text: object) -> _Escaped:
    """Return a text that somebody else chose, cut; its direction does not change its place."""
    whole = str(text)
    return _tag("bdi", whole if len(whole) <= _LABEL else whole[: _LABEL - 1] + "…")


def _table(
    heads: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int] = ()
) -> _Escaped:
    """Return a table; the first cell of a row names it."""

    def cells(kind: str, row: Sequence[str]) -> list[_Escaped]:
        return [
            _tag("th" if at == 0 else kind, cell, class_="pv-number" if at in numbers else "")
            for at, cell in enumerate(row)
        ]

    body = [_tag("tr", *cells("td", row)) for row in rows]
    head = _tag("thead", _tag("tr", *cells("th", heads))) if heads else ""
    return _tag("table", head, _tag("tbody", *body))


def _shown(*parts: str) -> str:
    """Return the whole piece: the style, and what is shown."""
    return str(_tag("div", _tag("style", _Escaped(_style())), *parts, class_="pv-shown"))


def _paragraph(*content: str, kind: str = "") -> _Escaped:
    return _tag("p", *content, class_=kind)


# A release


def release_html(release: Release) -> str:
    """Return a release: what it is, a plot and a table of its first states, and the sentence."""
    told = release.privacy
    if release.mechanism == "dp-ope":
        return _another_policy(release)
    shown = _first(release)
    left = len(release) - len(shown)
    flagged = int((bits_of(release.main) != 0).sum())
    useless = accepted_in_words(release)
    bound = restriction_in_words(release)
    states = counted(len(release.states), "state")
    arms = f" in {len(release.arms)} arms" if release.arms else ""
    arms += f" and {counted(len(release.actions), 'action')}" if release.actions else ""
    return _shown(
        _paragraph(
            _named(_name(release)),
            f": values of {states}{arms}, {release.mechanism}, epsilon {told.epsilon:g}, delta "
            f"{told.delta:g}, {release.created}",
            kind="pv-head",
        ),
        _paragraph(release.sentence(), kind="pv-soft" if release.private else "pv-stop"),
        *([] if useless is None else [_paragraph(useless, kind="pv-stop")]),
        *_policies(release),
        *([_Escaped(_plot(release, shown))] if shown else []),
        _values(release, shown),
        _paragraph(
            f"These are {len(shown)} of {len(release):,} values, of which {flagged:,} have a flag; "
            "release.to_pandas() has all of them.",
            kind="pv-soft",
        )
        if left
        else "",
        *([] if bound is None else [_paragraph(bound, kind="pv-soft")]),
    )


def _another_policy(release: Release) -> str:
    """Return another policy's value: what it is, in words, and the sentence."""
    kept, refuted = kept_mass(policy_row(release)), is_refuted(release)
    mass = ""
    if kept is not None:
        mass = f" Kept mass {kept.value:.3f} ({kept.low:.3f} to {kept.high:.3f})."
    return _shown(
        _paragraph(
            _named(_name(release)),
            f": another policy's value, dp-ope, epsilon {release.privacy.epsilon:g}, "
            f"{release.created}",
            kind="pv-head",
        ),
        _paragraph(release.sentence(), kind="pv-soft" if release.private else "pv-stop"),
        _paragraph(verdict_words(release) + mass, kind="pv-stop" if refuted else ""),
        _paragraph(
            "It rests on recorded actions, no hidden confounding, overlap and a known behaviour; "
            f"{unchecked_words(release)}. release.policy, release.differences and "
            "release.behaviour have numbers by start, where there are any.",
            kind="pv-soft",
        ),
    )


def improvement_html(
    release: Release, changes: Sequence[StateChange], warning: str, level: float
) -> str:
    """Return an improved policy: the warning, a plot of the gains, and what happens where.

    Args:
        release: that it is made from.
        changes: what happens in each state, moves first.
        warning: what must not be overlooked.
        level: of all intervals together.
    """
    shown = changes[:MOST_ROWS]
    moved = [change for change in changes if change.moved]
    rows = [
        PlotRow(
            name=f"{change.state}: {change.action}",
            value=change.advantage or 0.0,
            total=(change.low, change.high),
        )
        for change in shown
        if change.moved
    ]

    def cells(change: StateChange) -> list[str]:
        gain = written(change.advantage, change.low, change.high)
        return [
            _named(change.state),
            _named(change.action or change.instead),
            "" if change.behaviour is None else f"{100 * change.behaviour:.0f}%",
            str(gain) if change.moved else "",
            change.why,
        ]

    heads = ["state", "new action", "share before", "gain", "why"]
    return _shown(
        _paragraph(
            _named(_name(release)),
            f": {len(moved):,} of {len(changes):,} states move to one action",
            kind="pv-head",
        ),
        _paragraph(warning, kind="pv-warn"),
        *([] if release.private else [_paragraph(release.sentence(), kind="pv-stop")]),
        *([_Escaped(_forest(rows, "Gains over what was done", level))] if rows else []),
        _table(heads, map(cells, shown), numbers=(2,)),
        _paragraph(
            f"These are {len(shown)} of {len(changes):,} states; to_pandas() has all actions.",
            kind="pv-soft",
        )
        if len(shown) < len(changes)
        else "",
    )


def _name(release: Release) -> str:
    """Return what the study is called."""
    return str(release.study["study"].get("name") or "a release")


def _first(release: Release) -> list[Any]:
    """Return the records of the first states, those of all arms of a state together."""
    arms = max(len(release.arms), 1)
    each = len(release) // arms
    states = range(min(each, max(MOST_ROWS // arms, 1)))
    return [whole(release.values.row(arm * each + at)) for at in states for arm in range(arms)][
        :MOST_ROWS
    ]


def _ends(entry: Any) -> tuple[float | None, float | None]:
    """Return the interval that is shown first: the total one."""
    return entry.total_low, entry.total_high


def _doubts(entry: Any) -> str:
    """Return the flags that are about the value itself: a plot as a whole is called private or not.

    Were every mark hollow, those to be careful about would be among them unseen.
    """
    return ", ".join(flag for flag in entry.flags if flag != NOT_PRIVATE)


def _plot(release: Release, shown: Sequence[Any]) -> str:
    """Return a forest plot of some states."""
    rows = [
        PlotRow(
            name=_called(entry),
            value=entry.value,
            total=(entry.total_low, entry.total_high),
            privacy=(entry.low, entry.high),
            flag=_doubts(entry),
            arm=entry.arm or "",
        )
        for entry in shown
    ]
    told = "" if release.private else f"{NOT_PRIVATE}: "
    what = "states and actions" if release.actions else "states"
    title = f"{heading(release, 'Values')} of {len({row.name for row in rows})} {what}"
    return _forest(rows, told + title, release.level)


def _called(entry: Any) -> str:
    """Return what a value is of: the state, with the action where there is one."""
    return entry.state if entry.action is None else f"{entry.state}, {entry.action}"


def _forest(
    rows: Sequence[PlotRow],
    title: str,
    level: float | None,
    outer: str = "total interval",
    point: str = "value",
) -> str:
    """Return a forest plot that can stand in one notebook with others.

    Args:
        rows: in the order in which they are drawn.
        title: what is drawn.
        level: of the intervals.
        outer: what the thin lines are called.
        point: what the points are called.
    """
    return forest_plot(
        rows,
        title=title,
        description="Each row has a value with its intervals; the table has the numbers.",
        # Ids must differ between the outputs of a notebook.
        key="pv" + hashlib.sha256(repr(rows).encode("utf-8", "replace")).hexdigest()[:12],
        level=level,
        outer=outer,
        point=point,
    )


def _values(release: Release, shown: Sequence[Any]) -> _Escaped:
    """Return the table of some states."""
    level = "" if release.level is None else f"{100 * release.level:g}% "
    bounded = release.level is not None
    heads = [
        "state",
        *(["arm"] if release.arms else []),
        *(["action"] if release.actions else []),
        "value",
        *([f"{level}total interval", f"{level}privacy interval"] if bounded else []),
        "be careful",
    ]

    def cells(entry: Any) -> list[str]:
        texts = written(entry.value, *_ends(entry))
        privacy = written(entry.value, entry.low, entry.high)
        return [
            _named(entry.state),
            *([_named(entry.arm or "")] if release.arms else []),
            *([_named(entry.action or "")] if release.actions else []),
            texts.value,
            *([texts.within, privacy.within] if bounded else []),
            _tag("span", ", ".join(entry.flags), class_="pv-warn"),
        ]

    first = 2 if release.arms or release.actions else 1
    return _table(heads, map(cells, shown), numbers=range(first, len(heads) - 1))


def _policies(release: Release) -> list[_Escaped]:
    """Return the overall value of the policy, or that of each arm."""

    def text(value: float, within: Any) -> str:
        return str(written(value, *(_ends(within) if within is not None else (None, None))))

    if release.policy_value is not None:
        overall = text(release.policy_value, policy_row(release))
        return [_paragraph(f"The policy as a whole: {overall}.")]
    if not policies(release):
        return []
    arms = [
        part
        for arm in policies(release)
        for part in _policy(arm.arm, text(arm.value, arm.interval))
    ]
    return [_paragraph("The policy as a whole: ", *arms[1:], ".")]


def _policy(arm: str, text: str) -> list[str]:
    """Return the overall value of the policy in an arm."""
    return ["; ", _named(arm), f" {text}"]


# A plan


def plan_html(prediction: Prediction, advice: Sequence[str]) -> str:
    """Return a plan: the verdict, a plot and a table of the mechanisms, and what would help.

    Args:
        prediction: the errors to expect.
        advice: changes of the study, in words, the most helpful first.
    """
    study = prediction.study
    planned = [each for each in prediction.forecasts if each.refused is None][:MOST_ROWS]
    kind = "pv-stop" if prediction.useless else ""
    of_pairs = pairs_in_words(prediction)
    return _shown(
        _paragraph(
            "Plan of ",
            _named(study.study.name),
            f": {counted(prediction.trajectories, 'trajectory')}, "
            f"{counted(study.key_count, 'value')}, epsilon "
            f"{study.privacy.epsilon:g}, delta {study.privacy.delta:g}",
            kind="pv-head",
        ),
        _paragraph(verdict(prediction), kind=kind),
        _Escaped(_plan_plot(prediction, planned)) if planned else "",
        _table(
            ["mechanism", "error", "optimistic to cautious", "of it: noise", "sampling"],
            [_forecast(each) for each in planned],
            numbers=(1, 2, 3, 4),
        ),
        *([] if of_pairs is None else [_paragraph(f"{of_pairs}.")]),
        *(
            [_paragraph("What would help:"), _tag("ul", *(_tag("li", line) for line in advice))]
            if advice
            else []
        ),
        _paragraph("Nothing was opened for this plan, and nothing was spent.", kind="pv-soft"),
    )


def _forecast(forecast: Forecast) -> list[str]:
    """Return the row of a mechanism."""
    own = " (this study)" if forecast.option.chosen else ""
    low, high = forecast.range
    return [
        forecast.option.label + own,
        error_shown(forecast.rmse),
        f"{error_shown(low)} to {error_shown(high)}" if low < high else "",
        error_shown(forecast.noise),
        error_shown(forecast.sampling),
    ]


def _plan_plot(prediction: Prediction, planned: Sequence[Forecast]) -> str:
    """Return a forest plot of the mechanisms' errors, and of guessing."""
    guess = prediction.guess
    rows = [
        PlotRow(
            name=each.option.label + (" (this study)" if each.option.chosen else ""),
            value=each.rmse,
            total=each.range if each.range[0] < each.range[1] else (None, None),
            flag="" if each.rmse < guess else "like guessing",
        )
        for each in planned
        if each.rmse < 3 * guess or each.option.chosen  # errors beyond would hide the others
    ]
    rows.append(PlotRow(name="guessing", value=guess))
    title = "Predicted error of each mechanism"
    outer = "from optimistic to cautious"
    return _forest(rows, title, None, outer, point="predicted error")


# A study


def study_html(study: Study) -> str:
    """Return a study: whom it protects, what is valued, and where."""
    privacy, values = study.privacy, study.values
    names = study.state_names
    some = [str(name) for name in names[:MOST_ROWS]]
    more = f", ... ({study.state_count:,} in all)" if len(names) > len(some) else ""
    one = "a person with all trajectories" if privacy.unit == "person" else "a trajectory"
    counted = (
        f", of which {study.trajectories_per_person:,} count" if privacy.unit == "person" else ""
    )
    files = study.public_description()["side_files"]
    promised = f"{privacy.epsilon:g}, {privacy.delta:g}"
    rows: list[tuple[str, str]] = [
        ("protects", f"{one}{counted}, {privacy.neighbours}"),
        ("epsilon, delta", promised),
        ("states", _tag("bdi", _cut(", ".join(some) + more))),
        ("discount", f"{values.discount:g}"),
        ("rewards", _bounds(values.rewards)),
        ("returns", _bounds(study.return_bounds)),
        ("mechanism", study.mechanism.name),
    ]
    if study.arm_labels:
        rows.insert(3, ("arms", _tag("bdi", _cut(", ".join(study.arm_labels)))))
    if study.study.dataset:
        rows.append(("dataset", _named(study.study.dataset)))
    if study.study.trajectories:
        rows.append(("trajectories, as declared", f"{study.study.trajectories:,}"))
    rows += [(f"file of {file['key']}", _tag("bdi", _cut(str(file["name"])))) for file in files][
        :MOST_ROWS
    ]
    return _shown(
        _paragraph("Study ", _named(study.study.name), kind="pv-head"),
        _table([], rows),
        _paragraph("Everything in a study is public.", kind="pv-soft"),
    )


def _bounds(pair: tuple[float, float]) -> str:
    return f"{written_exactly(pair[0])} to {written_exactly(pair[1])}"


def _cut(text: str, most: int = 300) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
