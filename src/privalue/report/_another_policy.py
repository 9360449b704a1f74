"""Write the page and the table of another policy's value, from what was released.

What must not be overlooked comes first: the four assumptions that no data can check.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from privalue._written import counted, written
from privalue.artefact import NOT_PRIVATE, Compared, KeptMass, PolicyInterval, Release, StateValues
from privalue.ledger import Account
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
from privalue.report._states import IMPOSSIBLE, LOST, above_words
from privalue.report._valued import valued_facts
from privalue.study import as_cell

if TYPE_CHECKING:
    import pyarrow as pa

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
    name, by_start = release.study["study"]["name"], len(release.values) > 0
    policy, trust = release.study["policy"], release.policy_trust or release.policy_trusts
    left_out = set() if by_start else {"starts"}
    return render(
        "another.html",
        mark=ANOTHER_MARK,
        marked=release.created,
        private=False,
        **headed(release, f"{name}: what another policy would have been worth"),
        kicker=f"What another policy would have been worth, told privately. Released on "
        f"{release.created} by dp-ope, privalue {release.software.version}.",
        name=named(name),
        contents=[(key, title) for key, title in _CONTENTS.items() if key not in left_out],
        verdict=verdict_words(release),
        valued=_valued(release),
        worth=_worth(release),
        both=_both(release),
        kept=_kept(release),
        starts=_starts(release) if by_start else None,
        clip=f"{policy['clip']:g}",
        contradicted=IMPOSSIBLE if getattr(trust, "behaviour_contradicted", None) else None,
        logged=policy["behaviour"] == "column",
        level=f"{100 * (release.level or 0):g}%",
        sentence=release.sentence(),
        justification=justification,
        budget=budget_context(release, account),
        sha256=hashed(release.sha256),
        created=release.created,
        version=release.software.version,
    )


def verdict_words(release: Release) -> str:
    """Return in a sentence or two what the release says of the target.

    Where the released numbers refute the behaviour, that comes first; where whoever made it
    accepted that it is of no use, that comes before everything.
    """
    trust = release.policy_trust or release.policy_trusts
    told = _USELESS if "useless" in release.accepted else ""
    told += _words(release)
    if trust is not None and trust.behaviour_contradicted and _drops(release):
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
    if release.kept_mass is None or release.policy_trust is None:
        return _words_by_start(release, assumed)
    value, apart, trust = release.policy_value, release.policy_difference, release.policy_trust
    assert value is not None
    assert release.policy_interval is not None
    assert apart is not None
    shown = written(value, *_total(release.policy_interval))
    more = written(apart.value, *_total(apart.interval))
    kept = release.kept_mass
    if trust.behaviour_contradicted:
        return (
            f"{_REFUTED} The kept mass is {kept.value:.3f} ({kept.low:.3f} to {kept.high:.3f} at "
            f"the level of {100 * (release.level or 0):g}%), and 1 is the most that it "
            "can be. Do not use the target's number, "
            f"{shown.value} ({shown.within}), nor its difference, {more.value} ({more.within})."
        )
    low, high = _total(apart.interval)
    most = trust.largest_clipping_bias  # it may be all on the side of 0
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
    trusts, count = release.policy_trusts, len(release.values)
    assert trusts is not None
    supported = sum(bool(entry.supported) for entry in release.values)
    if trusts.behaviour_contradicted:
        above = sum(entry.kept_mass is not None and entry.kept_mass.low > 1 for entry in release)
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
    trust = release.policy_trust or release.policy_trusts
    if trust is not None and trust.behaviour_contradicted:
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


def doubts(release: Release, kept: KeptMass) -> list[str]:
    """Return the flag of a kept mass that vouches for nothing; or none."""
    if kept.supported:
        return []
    return [above_words(release) if kept.low > 1 else LOST]


def _total(interval: PolicyInterval) -> tuple[float, float]:
    """Return the ends of the interval with both noise and the choice of people in it."""
    return interval.total_low, interval.total_high


def _worth(release: Release) -> Any:
    """Return the plot of both policies side by side, or of the target's value by start."""
    level = release.level
    if release.policy_value is not None:
        assert release.policy_interval is not None
        assert release.behaviour_value is not None
        found = [
            Compared(value=release.policy_value, interval=release.policy_interval),
            release.behaviour_value,
        ]
        ends = np.array([_total(each.interval) for each in found])
        inner = np.array([(each.interval.low, each.interval.high) for each in found])
        series = Series(
            names=["the target", "the behaviour"],
            values=np.array([each.value for each in found]),
            outer=(ends[:, 0], ends[:, 1]),
            inner=(inner[:, 0], inner[:, 1]),
        )
        caption = "Both policies, each with its intervals. Their difference has one of its own."
    else:
        values = release.values
        series = Series(
            names=[str(state) for state in values.states],
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
    if release.policy_value is None or release.policy_interval is None:
        return None
    found = {
        "the target": Compared(value=release.policy_value, interval=release.policy_interval),
        "the behaviour": release.behaviour_value,
        "the target's less the behaviour's": release.policy_difference,
    }
    rows = []
    for name, one in found.items():
        assert one is not None
        shown = written(one.value, *_total(one.interval))
        alone = written(one.value, one.interval.low, one.interval.high)
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
    kept, trust = release.kept_mass, release.policy_trust
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


def _bar(kept: KeptMass) -> Any:
    """Return the kept mass with a bar."""
    return bar(kept.value, f"{100 * kept.value:.1f}%")


def _starts(release: Release) -> PageTable:
    """Return the table of values by start."""
    differences, trusts = release.differences, release.policy_trusts
    assert differences is not None
    assert trusts is not None
    told = (
        release.values,
        differences,
        trusts.clipping_bias,
        trusts.largest_clipping_bias,
        trusts.effective_trajectories,
    )
    rows = []
    for entry, apart, bias, largest, effective in zip(
        *(column[:MOST_STARTS] for column in told), strict=True
    ):
        assert entry.kept_mass is not None
        shown = written(entry.value, entry.total_low, entry.total_high)
        more = written(apart.value, apart.total_low, apart.total_high)
        rows.append(
            [
                named(entry.state, LABEL),
                shown.value,
                shown.within,
                f"{more.value} ({more.within})",
                _bar(entry.kept_mass),
                f"{bias:.3g} to {largest:.3g}",
                f"{effective:,.0f}",
                flags(doubts(release, entry.kept_mass)),
            ]
        )
    more_of = len(release.values) - MOST_STARTS
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


def policy_table(release: Release) -> "pa.Table":
    """Return the rows of values.csv as an Arrow table; its metadata says what is promised."""
    import pyarrow as pa  # noqa: PLC0415 - heavy, and most uses of a release need none of it

    table = pa.Table.from_pylist(list(_rows(release)))
    return table.replace_schema_metadata({"privalue": release.sentence()})


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


def policy_lines(release: Release) -> Iterator[tuple[str, str, dict[str, Any], KeptMass | None]]:
    """Yield start, what a number is of, its fields, and the kept mass."""
    if release.policy_value is not None:
        found = {
            "target": Compared(value=release.policy_value, interval=release.policy_interval),
            "behaviour": release.behaviour_value,
            "difference": release.policy_difference,
        }
        for of, one in found.items():
            assert one is not None
            fields = {"value": one.value, **one.interval.model_dump()}
            yield "", of, fields, release.kept_mass if of == "target" else None
        return
    kinds: dict[str, StateValues | None] = {
        "target": release.values,
        "behaviour": release.behaviour_values,
        "difference": release.differences,
    }
    for of, values in kinds.items():
        assert values is not None
        for entry in values:
            yield (
                entry.state,
                of,
                {n: getattr(entry, n) for n in ("value", *_ENDS)},
                (entry.kept_mass),
            )


def _cell(text: str) -> str:
    """Return a label as a cell: no formula, and in quotes if it is more than a word."""
    shown = as_cell(text)
    return shown if shown.isalnum() or not shown else '"' + shown.replace('"', '""') + '"'
