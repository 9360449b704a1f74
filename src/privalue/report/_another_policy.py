"""Write the page and the table of another policy's value, from what was released.

What must not be overlooked comes first: the four assumptions that no data can check.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from privalue._written import counted, written
from privalue.estimate import IMPOSSIBLE, LOST
from privalue.ledger import Account
from privalue.releases import NOT_PRIVATE, Release
from privalue.report._page_facts import budget_context
from privalue.report._pages import (
    LABEL,
    PageHtml,
    PageTable,
    bar,
    flags,
    hashed,
    headed,
    named,
    render,
)
from privalue.report._plots import MOST_ROWS, Series, figure
from privalue.report._rows import compared, is_refuted, kept_mass, policy_row, rows_of
from privalue.report._states import above_words
from privalue.report._valued import valued_facts
from privalue.study import as_cell

ANOTHER_MARK = "privalue-public-page"  # it is a public page like every other
MOST_STARTS = 500  # that a table lists; values.csv has them all
_CONTENTS = {
    "trust": "Before you use it",
    "valued": "Which policy was valued",
    "worth": "What it is worth",
    "kept": "How far to trust it",
    "starts": "By start",
    "guarantee": "What is promised",
    "method": "How it was made",
    "budget": "Budget",
}


def another_policy_page(
    release: Release, *, account: Account | None = None, justification: str | None = None
) -> str:
    """Return the page of a release by dp-ope, self-contained.

    Args:
        release: what was released.
        account: how the dataset stands on its ledger.
        justification: why these parameters, in the words of whoever decided.
    """
    name, by_start = release.study["study"]["name"], bool(release.main.keys)
    policy = release.study["policy"]
    left_out = set() if by_start else {"starts"}
    return render(
        "another.html",
        mark=ANOTHER_MARK,
        marked=release.created,
        private=False,
        **headed(release, f"{name}: what another policy would have been worth"),
        kicker=f"What another policy would have been worth, told privately. Released on "
        f"{release.created} by dp-ope, {release.software}.",
        name=named(name),
        contents=[(key, title) for key, title in _CONTENTS.items() if key not in left_out],
        verdict=verdict_words(release),
        valued=_valued(release),
        worth=_worth(release),
        both=_both(release),
        kept=_kept(release),
        starts=_starts(release) if by_start else None,
        clip=f"{policy['clip']:g}",
        contradicted=IMPOSSIBLE if is_refuted(release) else None,
        logged=policy["behaviour"] == "column",
        level=f"{100 * (release.level or 0):g}%",
        sentence=release.sentence(),
        justification=justification,
        budget=budget_context(release, account),
        sha256=hashed(release.sha256),
        created=release.created,
        version=release.software.rpartition(" ")[2],
    )


def verdict_words(release: Release) -> str:
    """Return in a sentence or two what the release says of the target.

    Where the released numbers refute the behaviour, that comes first; where whoever made it
    accepted that it is of no use, that comes before everything.
    """
    told = _USELESS if "useless" in release.accepted else ""
    told += _words(release)
    if is_refuted(release) and _drops(release):
        told += _SELECTED
    return told


def _drops(release: Release) -> bool:
    """Return whether units are left out for what their rows hold."""
    study = release.study
    return "drop-unit" in (study["data"].get("invalid"), study["values"].get("truncated"))


def _words(release: Release) -> str:
    """Return the verdict on the target, from the released numbers."""
    assumed = (
        "Under the four assumptions below (recorded actions, no hidden confounding, overlap, known "
        "behaviour): "
    )
    row = policy_row(release)
    kept = kept_mass(row)
    if row is None or kept is None:
        return _words_by_start(release, assumed)
    apart = compared(release.differences)
    shown = written(row.value, *_total(row))
    more = written(apart.value, *_total(apart))
    if is_refuted(release):
        return (
            f"{_REFUTED} The kept mass is {kept.value:.3f} ({kept.low:.3f} to {kept.high:.3f} at "
            f"the level of {100 * (release.level or 0):g}%), and 1 is the most that it "
            "can be. Do not use the target's number, "
            f"{shown.value} ({shown.within}), nor its difference, {more.value} ({more.within})."
        )
    low, high = _total(apart)
    most = row.largest_clipping_bias  # it may be all on the side of 0
    direction = "more" if apart.value > 0 else "less"
    clearly = kept.supported and (low - most > 0 or high + most < 0)
    told = (
        f"{assumed}the target would have been worth {shown.value} ({shown.within})"
        f"{f', clearly {direction} than the behaviour' if clearly else ''}: the difference is "
        f"{more.value} ({more.within})."
        f" What clipping may have moved it by comes on top: up to {most:.3g} either way"
        f"{', which may undo the difference.' if not clearly and (low > 0 or high < 0) else '.'}"
    )
    if not kept.supported:
        told += " It is not supported: too much of the target's weight may have been clipped."
    return told


def _words_by_start(release: Release, assumed: str) -> str:
    """Return the same where there is a number for each start."""
    count, supported = len(release), int(release.supported.sum())
    if is_refuted(release):
        above = int((release.main.columns["kept_low"] > 1).sum())
        return (
            f"{_REFUTED} The kept mass is above 1, the most that it can be, at {above:,} of "
            f"{counted(count, 'start')}, each at the level of {100 * (release.level or 0):g}%. "
            f"Chance alone may do that at up to {count * (1 - (release.level or 0)):.2g} of "
            "them, on average, but at one at least it is above 1 at that level for all starts "
            f"at once. Do not use the numbers of any of them."
        )
    return (
        f"{assumed}one number for each of {counted(count, 'start')}; {supported:,} of them "
        f"keep{'s' * (supported == 1)} enough of the target's weight to be vouched for. What "
        f"clipping may have moved them by comes on top of their intervals."
    )


def unchecked_words(release: Release) -> str:
    """Return what became of the assumptions: none can be checked, or one is refuted."""
    if is_refuted(release):
        return "the released numbers refute the last of these, and the others cannot be checked"
    return "none of that can be checked here"


_REFUTED = (
    "The behaviour is refuted: weights exceed what any right behaviour allows, so its "
    "probabilities are wrong, and so is what follows from them."
)


_SELECTED = (
    " Units were left out here, for invalid rows or because they were cut off: if those acted "
    "otherwise than the rest, that may be the reason, and the probabilities may be right."
)
_USELESS = (
    "By its own plan this release is no better than guessing; whoever made it was told so and "
    "accepted it explicitly. Do not act on it. "
)


def doubts(release: Release, kept: Any) -> list[str]:
    """Return the flag of a kept mass that vouches for nothing; or none."""
    if kept.supported:
        return []
    return [above_words(release) if kept.low > 1 else LOST]


def _total(interval: Any) -> tuple[float, float]:
    """Return the ends of the interval with both noise and the choice of people in it."""
    return interval.total_low, interval.total_high


def _worth(release: Release) -> Any:
    """Return the plot of both policies side by side, or of the target's value by start."""
    level = release.level
    if release.policy_value is not None:
        found = [compared(release.policy), compared(release.behaviour)]
        ends = np.array([_total(each) for each in found])
        inner = np.array([(each.low, each.high) for each in found])
        series = Series(
            names=["the target", "the behaviour"],
            values=np.array([each.value for each in found]),
            outer=(ends[:, 0], ends[:, 1]),
            inner=(inner[:, 0], inner[:, 1]),
        )
        caption = "Both policies, each with its intervals. Their difference has one of its own."
    else:
        values = release.main
        series = Series(
            names=list(release.states),
            values=values.value,
            outer=(values.column("total_low"), values.column("total_high")),
            inner=(values.column("low"), values.column("high")),
        )
        caption = "The target's value by where people start."
        if len(values) > MOST_ROWS:
            caption += " Neighbours are drawn together."
    return figure(
        series,
        key="figure-worth",
        number=1,
        title="What both policies are worth",
        caption=caption,
        level=level,
    )


def _valued(release: Release) -> PageTable:
    """Return the table that says which policy was valued, against which, within which limits."""

    def shown(fact: str) -> PageHtml:
        words, mark, digest = fact.rpartition(", SHA-256 ")
        return PageHtml(f"{named(words)}{mark}{hashed(digest)}") if mark else named(fact, 4000)

    return PageTable(
        name="Target, behaviour and limits",
        caption="What the study fixes. Whoever has a file can check that it is the one.",
        rows=[[name, shown(fact)] for name, fact in valued_facts(release)],
        kind="facts",
    )


def _both(release: Release) -> PageTable | None:
    """Return the table of both policies and of their difference; None by start."""
    if release.policy_value is None:
        return None
    found = {
        "the target": compared(release.policy),
        "the behaviour": compared(release.behaviour),
        "the target's less the behaviour's": compared(release.differences),
    }
    rows = []
    for name, one in found.items():
        shown = written(one.value, *_total(one))
        alone = written(one.value, one.low, one.high)
        rows.append([name, shown.value, shown.within, alone.within])
    return PageTable(
        name="Both policies",
        caption="The total interval holds the noise and the choice of people.",
        heads=["Of", "value", "total interval", "noise alone"],
        rows=rows,
        numbers=(1, 2, 3),
        kind="small",
    )


def _kept(release: Release) -> PageTable | None:
    """Return the kept mass as a bar, and what follows from it; None by start."""
    trust = policy_row(release)
    kept = kept_mass(trust)
    if kept is None or trust is None:
        return None
    return PageTable(
        name="Kept mass",
        caption="Of the target's weight, what clipping kept.",
        rows=[
            ["kept mass", _bar(kept)],
            ["its interval", f"{kept.low:.3f} to {kept.high:.3f}"],
            ["supported", "yes" if kept.supported else flags(doubts(release, kept))],
            [
                "clipping moves the value by at most",
                f"{trust.clipping_bias:.3g} at the kept mass, {trust.largest_clipping_bias:.3g} at "
                "the lower end of its interval",
            ],
            ["as good as so many people, about", f"{trust.effective_trajectories:,.0f}"],
        ],
        kind="facts",
    )


def _bar(kept: Any) -> Any:
    """Return the kept mass with a bar."""
    return bar(kept.value, f"{100 * kept.value:.1f}%")


def _starts(release: Release) -> PageTable:
    """Return the table of values by start."""
    differences = release.differences
    assert differences is not None
    rows = []
    for entry, apart in zip(
        *(rows_of(table, MOST_STARTS) for table in (release.main, differences)), strict=True
    ):
        kept = kept_mass(entry)
        shown = written(entry.value, entry.total_low, entry.total_high)
        more = written(apart.value, apart.total_low, apart.total_high)
        rows.append(
            [
                named(entry.start, LABEL),
                shown.value,
                shown.within,
                f"{more.value} ({more.within})",
                _bar(kept),
                f"{entry.clipping_bias:.3g} to {entry.largest_clipping_bias:.3g}",
                f"{entry.effective_trajectories:,.0f}",
                flags(doubts(release, kept)),
            ]
        )
    more_of = len(release) - MOST_STARTS
    return PageTable(
        name="Values by start",
        caption="One number for each start, each with intervals of its own. Clipping moves a value "
        "by at most the first number at its kept mass, and the second at the lower end of that; "
        "it comes on top. The last but one column says as how many people a start is about as good."
        + (f" {more_of:,} more are in values.csv." if more_of > 0 else ""),
        heads=[
            *("Start", "value", "total interval", "more than the behaviour", "kept"),
            *("clipping", "people", "careful"),
        ],
        rows=rows,
        numbers=(1, 2, 3, 5, 6),
        kind="long" if len(rows) > 12 else "",
        flags=True,
    )


_ENDS = ("total_low", "total_high", "low", "high")
_HEADS = ("value", *_ENDS, "kept", "kept_low", "kept_high", "supported")


def policy_csv(release: Release) -> Iterator[str]:
    """Yield the numbers as CSV: a line for each policy, and for their difference, by start."""
    yield ",".join(["start", "of", *_HEADS, "flags"]) + "\n"
    for row in _rows(release):
        start, of, *cells, careful = row.values()
        yield ",".join([_cell(start), of, *map(_plain, cells), careful]) + "\n"


def _rows(release: Release) -> Iterator[dict[str, Any]]:
    """Yield the rows of values.csv, by column."""
    told = [] if release.private else [NOT_PRIVATE]
    for start, of, one, kept in policy_lines(release):
        yield {
            "start": start,
            "of": of,
            **{name: float(one[name]) for name in ("value", *_ENDS)},
            "kept": kept and kept.value,
            "kept_low": kept and kept.low,
            "kept_high": kept and kept.high,
            "supported": kept and kept.supported,
            "flags": "; ".join([*told, *(doubts(release, kept) if kept else [])]),
        }


def _plain(cell: float | bool | None) -> str:
    """Return a number or a truth as a cell."""
    if cell is None:
        return ""
    return str(cell).lower() if isinstance(cell, bool) else repr(cell)


def policy_lines(release: Release) -> Iterator[tuple[str, str, dict[str, Any], Any]]:
    """Yield start, what a number is of, its fields, and the kept mass."""
    tables = {
        "target": release.policy,
        "behaviour": release.behaviour,
        "difference": release.differences,
    }
    for of, table in tables.items():
        assert table is not None
        for row in rows_of(table):
            fields = {name: getattr(row, name) for name in ("value", *_ENDS)}
            yield row.start or "", of, fields, kept_mass(row)


def _cell(text: str) -> str:
    """Return a label as a cell: no formula, and in quotes if it is more than a word."""
    shown = as_cell(text)
    return shown if shown.isalnum() or not shown else '"' + shown.replace('"', '""') + '"'
