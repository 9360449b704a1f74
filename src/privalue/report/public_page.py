"""report.html: what a privacy office signs and a clinician reads. From public things alone.

Everything here comes from the release, from its study, or from the ledger's account: this module
never meets data or private types.
"""

from collections.abc import Sequence
from typing import Any

from privalue.ledger import Account, study_hash
from privalue.planning.words import misfit_known, shown
from privalue.release import Release
from privalue.report.guarantee import (
    ALARMS,
    delta_words,
    detection,
    odds_factor,
    odds_words,
    unit_words,
)
from privalue.report.html import Content, Html, element, facts, named, table
from privalue.report.look import Part, page
from privalue.report.precision import Planned, achieved, planned
from privalue.report.registry import (
    SIDE_CHANNELS,
    composition_words,
    mechanism_words,
    sha256_of,
)
from privalue.report.states import (
    MEANINGS,
    StateRow,
    public_values,
    return_bounds,
    state_rows,
)
from privalue.report.svg import Bar, Series, bar_chart, groups_of, key_of, state_chart
from privalue.study import Study

MOST_ROWS = 400  # of a table; the rest is in values.csv
_HEAD_ROWS = 100  # of a table that is cut
_VALUES = element("a", "values.csv", href="values.csv")


def public_page(
    release: Release,
    *,
    study: Study | None = None,
    account: Account | None = None,
    justification: str | None = None,
) -> str:
    """The page of a release, self-contained.

    Args:
        release: what was released.
        study: its study, for what side files say; without it, only what the release holds.
        account: how the dataset stands on its ledger.
        justification: why these parameters, in the words of whoever decided.
    """
    rows = state_rows(release, study)
    name = release.study["study"]["name"]
    parts = [
        Part(key="guarantee", title="What is promised", content=_guarantee(release)),
        Part(key="values", title="The values", content=_values(release, rows)),
        Part(
            key="flags",
            title="States to be careful with",
            content=_flags(release, rows),
            short="Careful with",
        ),
        Part(
            key="precision",
            title="How precise it is",
            content=_precision(release, rows, planned(release, study)),
            short="Precision",
        ),
        Part(
            key="limits",
            title="What these numbers cannot say",
            content=_limits(release),
            short="Limits",
        ),
        Part(
            key="public",
            title="What was public beforehand",
            content=_public(release),
            short="What was public",
        ),
        Part(
            key="budget",
            title="What it cost",
            content=_budget(release, account),
            short="Budget",
        ),
        Part(
            key="method",
            title="How it was made",
            content=_method(release, justification),
            short="Method",
        ),
        Part(key="sign", title="Sign-off", content=_sign(release)),
    ]
    return page(
        title=f"{name}: what the policy is worth",
        kicker="What a policy is worth, told privately",
        name=name,
        top=_top(release, rows),
        parts=parts,
        foot=[
            element(
                "p",
                f"Made by privalue {release.software.version} from release.json of "
                f"{release.created}, and from what is public. This page holds nothing else of the "
                "data.",
            ),
            element("p", "SHA-256 of release.json: ", _hash(sha256_of(release))),
        ],
        banner=None if release.private else _NOT_PRIVATE,
    )


_NOT_PRIVATE: Content = [
    "NOT PRIVATE. ",
    element("span", "Seeded noise, for experiments only: nothing is promised. Do not publish."),
]


def _paragraphs(*texts: Content) -> list[Html]:
    return [element("p", text) for text in texts]


def _hash(text: str) -> Html:
    return element("span", text, class_="hash")


def _number(value: float | None) -> str:
    return "unbounded" if value is None else f"{value:.6g}"


def _interval(low: float | None, high: float | None) -> str:
    return f"{_number(low)} to {_number(high)}"


# In short


def _top(release: Release, rows: Sequence[StateRow]) -> list[Html]:
    privacy = release.privacy
    flagged = sum(1 for row in rows if row.flags)
    tiles: list[tuple[Content, Content, Content]] = [
        (
            "Guarantee" if release.private else "Guarantee: none",
            f"ε = {privacy.epsilon:g}, δ = {privacy.delta:g}" if release.private else "NOT PRIVATE",
            f"one {privacy.unit}, "
            + ("replaced" if privacy.neighbours == "replace-one" else "added or removed"),
        ),
        (
            "States",
            f"{len(rows):,}",
            f"{flagged:,} to be careful with" if flagged else "none is flagged",
        ),
    ]
    if release.policy_value is not None:
        within = release.policy_interval
        tiles.append(
            (
                "The policy's one number",
                f"{release.policy_value:.4g}",
                f"{100 * (release.level or 0):g}% privacy interval "
                f"{_short_interval(within.low, within.high)}"
                if within is not None
                else "from the public start; its noise is not public",
            )
        )
    tiles.append(
        (
            "Released",
            release.created[:10],
            f"{release.mechanism}, privalue {release.software.version}",
        )
    )
    return [
        element("p", release.sentence(), class_="lead"),
        element(
            "dl",
            [
                element("div", element("dt", what), element("dd", value, element("small", more)))
                for what, value, more in tiles
            ],
            class_="tiles",
        ),
    ]


def _short_interval(low: float, high: float) -> str:
    return f"{low:.4g} to {high:.4g}"


# The guarantee


def _guarantee(release: Release) -> Content:
    privacy, limits = release.privacy, release.study["privacy"]
    if not release.private:
        return _paragraphs(
            element("strong", "Nothing is promised."),
            "The noise came from a source that can be predicted: this is an experiment. The page "
            "shows what a release of this study would look like.",
        )
    units = release.trajectories or release.persons
    return [
        element("h3", "In plain language"),
        *_paragraphs(
            unit_words(privacy, limits.get("max_trajectories_per_person")),
            odds_words(privacy),
            delta_words(privacy, units),
            "This holds against anyone, whatever else they know now or learn later, and whatever "
            "they compute from the release. It does not stop anyone from learning what is true of "
            "people at large, and so of each of them.",
        ),
        element("h3", "In symbols"),
        element(
            "div",
            f"Pr[M(X) ∈ S] ≤ e^{privacy.epsilon:g} · Pr[M(X') ∈ S] + {privacy.delta:g}",
            element(
                "small",
                f"for every set S of outcomes and all data sets X and X' that differ by "
                f"{privacy.change()}; e^{privacy.epsilon:g} = {odds_factor(privacy.epsilon)}. "
                "M is all that was published: the values"
                + (", the noisy statistics" if release.statistics is not None else "")
                + (", the released noise scale" if release.noise.scale is not None else "")
                + " and whatever this page computes from them.",
            ),
            class_="formula",
        ),
        element("h3", "What an attacker could tell, at most"),
        table(
            "A test that says which of two neighbouring data sets was used: how often it can be "
            "right when it may accuse wrongly so often. Guessing is right as often as it is wrong.",
            ["Wrongly accuses in", "is right in at most", "guessing is right in"],
            [
                [
                    f"{100 * alarm:g}%",
                    f"{100 * detection(privacy.epsilon, privacy.delta, alarm):.3g}%",
                    f"{100 * alarm:g}%",
                ]
                for alarm in ALARMS
            ],
            name="What an attacker could tell",
            numbers=(0, 1, 2),
        ),
    ]


# The values


def _values(release: Release, rows: Sequence[StateRow]) -> Content:
    bounds = return_bounds(release)
    percent = f"{100 * (release.level or 0):g}%"
    series = _series(rows)
    values = [row.value for row in rows]
    told = (
        f"The released values of {len(rows):,} states, from {min(values):.4g} to "
        f"{max(values):.4g}, in the order of the study"
        + (f", with {percent} privacy intervals" if release.level is not None else "")
        + ". The numbers are in the table that follows."
    )
    keys = [("value", "released value")]
    if any(row.flags for row in rows) and not series.grouped:
        keys.append(("doubtful", "released value, flagged"))
    if release.level is not None:
        keys.append(("area" if series.grouped else "interval", f"{percent} privacy interval"))
    keys.append(("bound", "public bounds of returns, where they are in the picture"))
    return [
        *_paragraphs(
            "The value of a state is the return to expect from the first time that a trajectory "
            f"comes to it: the sum of rewards, discounted by "
            f"{release.study['values']['discount']:g} per step.",
            _policy(release),
        ),
        element(
            "figure",
            key_of(*keys),
            state_chart(series, name=told, axis="value", bounds=bounds),
            element("figcaption", _about_the_chart(release, series)),
        ),
        _group_table(series) if series.grouped else None,
        _value_table(release, rows),
        *_paragraphs(_about_the_intervals(release), ["Every digit: ", _VALUES, "."]),
    ]


def _series(rows: Sequence[StateRow]) -> Series:
    intervals = any(row.low is not None or row.high is not None for row in rows)
    return Series(
        labels=[row.state for row in rows],
        values=[row.value for row in rows],
        low=[row.low for row in rows] if intervals else None,
        high=[row.high for row in rows] if intervals else None,
        doubtful=[bool(row.flags) for row in rows],
    )


def _policy(release: Release) -> Content:
    if release.policy_value is None:
        return None
    within = release.policy_interval
    return [
        "From the study's public start distribution, the policy as a whole is worth ",
        element("strong", _number(release.policy_value)),
        "."
        if within is None
        else f" ({100 * (release.level or 0):g}% privacy interval "
        f"{_interval(within.low, within.high)}).",
    ]


def _about_the_chart(release: Release, series: Series) -> str:
    if series.grouped:
        return (
            "Too many states to draw one by one: each column is a group of neighbours, from the "
            "least to the largest value"
            + (", and of intervals." if release.level is not None else ".")
        )
    if release.level is None:
        return (
            "There are no error bars: the scale of this mechanism's noise depends on the data and "
            "was not released. The section on precision has what may be said."
        )
    return "Intervals are for the noise of privacy alone, state by state."


def _about_the_intervals(release: Release) -> str:
    if release.level is None:
        return "The study did not ask for intervals ([mechanism] noise_scale_share, or dp-ssp)."
    level = f"{100 * release.level:g}%"
    sampling = (
        " The sampling interval is about something else: how far the people in the data may be "
        "from people at large, if the released value had no noise; approximate."
        if any(entry.sampling_low is not None for entry in release.values)
        else ""
    )
    return (
        f"The privacy interval covers, with probability {level}, what would have been released for "
        f"that state without noise; the band does so for all states at once.{sampling}"
    )


_COLUMNS = (
    (("band_low", "band_high"), "band for all states"),
    (("sampling_low", "sampling_high"), "sampling interval"),
    (("noisy_visits",), "noisy visits"),
    (("noisy_visits_low", "noisy_visits_high"), "visits, interval"),
)


def _value_table(release: Release, rows: Sequence[StateRow]) -> Html:
    cut = len(rows) > MOST_ROWS
    seen = rows[:_HEAD_ROWS] if cut else rows
    level = f"{100 * (release.level or 0):g}%"
    present = [
        (names, head) for names, head in _COLUMNS if any(names[0] in row.columns for row in rows)
    ]
    flagged = any(row.flags for row in rows)
    heads: list[Content] = ["State", "value"]
    heads += [f"{level} privacy interval"] if release.level is not None else []
    heads += [head for _, head in present] + (["careful"] if flagged else [])

    def cells(row: StateRow) -> list[Content]:
        found: list[Content] = [named(row.state), _number(row.value)]
        if release.level is not None:
            found.append(_interval(row.low, row.high))
        for names, _ in present:
            numbers = [row.columns.get(name) for name in names]
            whole = names[0].startswith("noisy")
            shown_as = [f"{n:,.0f}" if whole and n is not None else _number(n) for n in numbers]
            found.append(" to ".join(shown_as))
        if flagged:
            found.append([element("span", flag, class_="flag") for flag in row.flags])
        return found

    caption: Content = (
        [f"The first {_HEAD_ROWS:,} of {len(rows):,} states; all of them are in ", _VALUES, "."]
        if cut
        else "Every state, in the order of the study."
    )
    return table(
        caption,
        heads,
        [cells(row) for row in seen],
        name="Released values by state",
        numbers=range(1, len(heads) - (1 if flagged else 0)),
        long=len(seen) > 12,
    )


def _group_table(series: Series) -> Html:
    return table(
        ["What the chart draws: groups of neighbouring states. Each state is in ", _VALUES, "."],
        ["States", "least value", "largest value", "lowest and highest end of intervals"],
        [
            [
                [named(group.first), " to ", named(group.last)],
                _number(group.least),
                _number(group.largest),
                "not released" if series.low is None else _interval(group.low, group.high),
            ]
            for group in groups_of(series)
        ],
        name="Released values by group of states",
        numbers=(1, 2, 3),
        long=True,
    )


# Flags


def _flags(release: Release, rows: Sequence[StateRow]) -> Content:
    counted: dict[str, list[str]] = {flag: [] for flag in MEANINGS}
    for row in rows:
        for flag in row.flags:
            counted[flag].append(row.state)
    present = [(flag, states) for flag, states in counted.items() if states]
    content: list[Content] = []
    if present:
        content.append(
            table(
                "A flag comes from what was released or is public, never from the data itself.",
                ["Flag", "states", "which", "what it means"],
                [[flag, f"{len(s):,}", _some(s), MEANINGS[flag]] for flag, s in present],
                name="Flags",
                numbers=(1,),
            )
        )
    else:
        content += _paragraphs("No state is flagged, by what was released and what is public.")
    if release.statistics is None:
        content.append(
            element(
                "div",
                element(
                    "p",
                    f"With {release.mechanism} the number of visits to a state is not released, "
                    "not even with noise: a state that hardly anyone visited looks like any "
                    "other, and only a public prior of visits can flag it. dp-ssp releases noisy "
                    "counts.",
                ),
                class_="note",
            )
        )
        return content
    visits = [row.columns["noisy_visits"] or 0.0 for row in rows]
    series = Series(
        labels=[row.state for row in rows],
        values=visits,
        low=[row.columns["noisy_visits_low"] for row in rows],
        high=[row.columns["noisy_visits_high"] for row in rows],
        doubtful=[bool(row.flags) for row in rows],
    )
    level = f"{100 * (release.level or 0):g}%"
    content.append(
        element(
            "figure",
            key_of(
                ("value", "noisy number of trajectories that visit the state"),
                *([] if series.grouped or not present else [("doubtful", "the same, flagged")]),
                ("area" if series.grouped else "interval", f"{level} interval"),
            ),
            state_chart(
                series,
                name=f"Noisy visits of {len(rows):,} states, from {min(visits):,.0f} to "
                f"{max(visits):,.0f}, with {level} intervals. The numbers are in the table of "
                "values.",
                axis="visits, with noise",
                zero=True,
            ),
            element(
                "figcaption",
                "Counts with noise, as released; they may be below 0. The table of values has the "
                "numbers.",
            ),
        )
    )
    return content


def _some(states: Sequence[str]) -> Content:
    """The first few, and how many more."""
    shown_states: list[Content] = []
    for at, state in enumerate(states[:8]):
        shown_states += [", " if at else "", named(state)]
    more = len(states) - 8
    return [*shown_states, f" and {more:,} more" if more > 0 else ""]


# Precision


def _precision(release: Release, rows: list[StateRow], plan: Planned) -> Content:
    content: list[Content] = [element("h3", "As planned, before any data was opened")]
    content += _plan(plan) if plan.prediction is not None else _paragraphs(plan.reason)
    content.append(element("h3", "As achieved"))
    found = achieved(release, rows)
    if found is None:
        content += _paragraphs(
            f"Not public. The noise of {release.mechanism} has a scale that depends on the data; "
            "telling it would cost privacy, and the study did not spend any on it."
        )
        return content
    largest = "without end" if found.largest is None else _number(found.largest)
    scale = (
        "The scale of the noise is the same for all data sets, and public."
        if release.noise.sigma is not None
        else f"The scale of the noise was released with noise of its own, for "
        f"{release.noise.scale.epsilon:g} of epsilon."
        if release.noise.scale is not None
        else ""
    )
    content.append(
        facts(
            f"Half the width of the {100 * found.level:g}% privacy intervals. {scale}",
            [
                ("median over the states", _number(found.median)),
                ("widest", largest),
                (
                    "range of possible returns",
                    _interval(*return_bounds(release)),
                ),
            ],
            name="Achieved precision",
        )
    )
    return content


def _plan(plan: Planned) -> list[Content]:
    prediction = plan.prediction
    assert prediction is not None
    chosen = prediction.chosen
    low, high = prediction.study.return_bounds
    known = misfit_known(prediction)
    rows = [
        ("with privacy, in all", chosen.rmse, "value"),
        ("noise of privacy", chosen.noise, "second"),
        ("sampling", chosen.sampling, "third"),
        ("without privacy", chosen.without_noise, "third"),
        (f"guessing {(low + high) / 2:g} everywhere", prediction.guess, "rest"),
    ]
    words = (
        f"With {prediction.trajectories:,} trajectories the root mean square error over the states "
        f"was predicted to be {shown(chosen.rmse)}; of ten releases eight should fall between "
        f"{shown(chosen.usual[0])} and {shown(chosen.usual[1])}. Guessing the middle of the bounds "
        f"for every state would give {shown(prediction.guess)}."
    )
    most = 3 * prediction.guess  # a bar that is longer says no more
    return [
        *_paragraphs(words),
        element(
            "div",
            element(
                "p",
                "By this prediction the values are no better than guessing: do not act on them.",
            ),
            class_="note",
        )
        if prediction.hopeless
        else None,
        element(
            "figure",
            bar_chart(
                [
                    (label, [Bar(size=min(error, most), label=label, colour=colour)], shown(error))
                    for label, error, colour in rows
                ],
                name=f"Predicted errors: {'; '.join(f'{w} {shown(e)}' for w, e, _ in rows)}.",
            ),
        ),
        table(
            "Predicted root mean square error over the states. The parts add up as squares, "
            "roughly.",
            ["Part", "error", "share of the range of returns"],
            [
                [label, shown(error), f"{100 * error / (high - low):.2g}%"]
                for label, error, _ in rows
            ],
            name="Planned precision",
            numbers=(1, 2),
        ),
        *_paragraphs(
            f"Assumed: {'; '.join(prediction.model.assumptions)}. Nothing of this comes from the "
            "data."
            + (
                ""
                if known
                else " How well the features fit the values is not known beforehand, and comes "
                "on top."
            )
        ),
    ]


# What it cannot say


def _limits(release: Release) -> Content:
    features = release.study["features"]
    unvisited = public_values(release).unvisited_value
    found: list[Content] = [
        [
            element("strong", "Not what would happen under another policy. "),
            "These are values of the policy that produced the data, as it was followed. They say "
            "nothing about a treatment or a rule that was not.",
        ],
        [
            element("strong", "Not cause and effect. "),
            "A state with a high value is one from which trajectories went well, for whatever "
            "reason. That moving someone there would do them good does not follow.",
        ],
        [
            element("strong", "Noise is not the only error. "),
            "The noise of privacy comes on top of sampling: other people, drawn from the same "
            "population, would have given other values even without noise. Privacy intervals do "
            "not cover that.",
        ],
        [
            element("strong", "Unvisited states have no value of their own. "),
            "A state that nobody visited gets "
            f"{unvisited:g} before the noise, and afterwards cannot be told from one that was "
            "visited, unless noisy counts were released.",
        ],
        [
            element("strong", "Bounds were declared, not found. "),
            "Rewards and returns outside the public bounds were clamped to them; how many is "
            "private. If the bounds were too tight, values are drawn towards the inside.",
        ],
        [
            element("strong", "Missing data stays missing. "),
            "Trajectories that were cut short count as if they had ended there.",
        ],
    ]
    if features.get("kind", "tabular") != "tabular":
        found.append(
            [
                element("strong", "Features decide what can be seen. "),
                "Values are fitted with the study's features: differences that the features "
                "cannot express are not in them.",
            ]
        )
    return element("ul", [element("li", item) for item in found])


# What was public


def _public(release: Release) -> Content:
    told = release.study
    about, values, privacy = told["study"], told["values"], told["privacy"]
    low, high = return_bounds(release)
    files = told["side_files"]
    size = (
        f"{release.trajectories:,} trajectories; replacing one leaves their number as it is"
        if release.trajectories is not None
        else f"{release.persons:,} persons; replacing one leaves their number as it is"
        if release.persons is not None
        else "not public: adding or removing one would change it"
    )
    declared = about.get("trajectories")
    bounds = [
        f"{key.replace('_', ' ')}: {privacy[key]:,}"
        for key in ("max_trajectories_per_person", "max_states_per_trajectory")
        if privacy.get(key) is not None
    ]
    rows: list[tuple[Content, Content]] = [
        ("study", named(about["name"])),
        ("people (dataset)", named(about["dataset"]) if "dataset" in about else "not named"),
        ("number in the data", size),
        ("declared beforehand", f"{declared:,} trajectories" if declared else "no number"),
        ("contribution limits", ", ".join(bounds) or "none but the states themselves"),
        ("states", f"{len(release.values):,}"),
        ("discount", f"{values['discount']:g} per step"),
        ("rewards within", _interval(*values["rewards"])),
        ("returns within", _interval(low, high)),
        ("features", _section(told["features"])),
        ("weights", _section(told["weights"]) or "uniform"),
        ("mechanism", _section(told["mechanism"])),
        ("SHA-256 of the study", _hash(study_hash(told))),
    ]
    return [
        *_paragraphs(
            "Everything in the study was fixed before the data was opened, and is public. Nothing "
            "of it was learned from the data."
        ),
        facts("The study", rows, name="The study"),
        table(
            "Side files, by their hashes: whoever has a file can check that it is the one.",
            ["Key", "file", "SHA-256"],
            [[file["key"], named(file["name"]), _hash(file["sha256"])] for file in files],
            name="Side files",
        )
        if files
        else element("p", "There are no side files: the release holds the whole study."),
    ]


def _section(section: dict[str, Any]) -> Content:
    shown_keys: list[Content] = []
    for key, value in section.items():
        text = f"{len(value)} numbers" if isinstance(value, list) else str(value)
        shown_keys += [", " if shown_keys else "", f"{key} = ", named(text)]
    return shown_keys


# What it cost


def _budget(release: Release, account: Account | None) -> Content:
    privacy = release.privacy
    if not release.private:
        return _paragraphs("Nothing: seeded experiments are on no ledger.")
    content: list[Content] = []
    if release.refit_of is not None:
        content += _paragraphs(
            "Nothing was spent on this: it was computed from another release alone, which paid for "
            f"epsilon = {privacy.epsilon:g} and delta = {privacy.delta:g}.",
            ["SHA-256 of that release: ", _hash(release.refit_of)],
        )
    else:
        content += _paragraphs(
            f"This release costs epsilon = {privacy.epsilon:g} and delta = {privacy.delta:g}."
        )
    content += _paragraphs(composition_words(release))
    if release.ledger_head is not None:
        content += _paragraphs(
            ["The hash of its charge on the ledger: ", _hash(release.ledger_head)]
        )
    if account is None:
        if release.ledger_head is not None:
            content += _paragraphs(
                "How the dataset stands is on the ledger: privalue ledger show; privalue ledger "
                "verify --release checks that this release is on the record."
            )
        return content
    total, spent = account.total.as_dict(), account.spent.as_dict()
    reserved, left = account.reserved.as_dict(), account.left.as_dict()
    bars = []
    for key, symbol in (("epsilon", "ε"), ("delta", "δ")):
        whole = total[key] or 1.0
        bars.append(
            (
                f"{symbol}, of {total[key]:g}",
                [
                    Bar(size=spent[key] / whole, label="spent", colour="value"),
                    Bar(size=reserved[key] / whole, label="reserved", colour="second"),
                    Bar(size=left[key] / whole, label="left", colour="rest"),
                ],
                f"{100 * spent[key] / whole:.3g}% spent",
            )
        )
    content += [
        element("h3", "The dataset's budget when this page was written"),
        element(
            "figure",
            key_of(("bar", "spent"), ("second", "reserved"), ("rest", "left")),
            bar_chart(
                bars,
                name=f"Budget: spent epsilon {spent['epsilon']:g} of {total['epsilon']:g}, delta "
                f"{spent['delta']:g} of {total['delta']:g}.",
            ),
        ),
        table(
            [
                "Dataset ",
                named(account.dataset),
                f": {len(account.releases)} release(s) on the record.",
            ],
            ["", "epsilon", "delta"],
            [
                [what, f"{amount['epsilon']:g}", f"{amount['delta']:g}"]
                for what, amount in (
                    ("total", total),
                    ("spent, this release included", spent),
                    ("reserved", reserved),
                    ("left", left),
                )
            ],
            name="Budget of the dataset",
            numbers=(1, 2),
        ),
        *_paragraphs(["The ledger's head: ", _hash(account.head)]),
    ]
    return content


# How it was made


def _method(release: Release, justification: str | None) -> Content:
    noise = release.noise
    rows: list[tuple[Content, Content]] = [
        ("mechanism", mechanism_words(release)),
        ("constants", f"alpha = {noise.alpha:.8g}, beta = {noise.beta:.8g}"),
        ("shape of the noise", _SHAPES[noise.shape]),
        ("grid of the noise", f"multiples of {noise.grid:.6g}, public"),
        ("scale of the noise", _scale(release)),
        *([] if release.ridge is None else [("lambda", f"{release.ridge:.6g}")]),
        (
            "randomness",
            "the operating system's entropy" if release.private else "seeded: NOT PRIVATE",
        ),
        ("software", f"privalue {release.software.version}"),
        ("created", release.created),
    ]
    return [
        facts("The mechanism", rows, name="The mechanism"),
        element("h3", "Why these parameters"),
        *(
            [element("p", named(justification))]
            if justification
            else _paragraphs("No justification was given with this release.")
        ),
        element("h3", "Side channels that were considered"),
        facts(
            "What is done about each, and what is not",
            [(name, what[0].upper() + what[1:] + ".") for name, what in SIDE_CHANNELS.items()],
            name="Side channels",
        ),
        *_paragraphs(
            [
                "The same facts for a registry of deployments: ",
                element("a", "registry.yaml", href="registry.yaml"),
                ". For programs: ",
                element("a", "release.json", href="release.json"),
                ".",
            ]
        ),
    ]


_SHAPES = {
    "isotropic": "the same in every coefficient (isotropic)",
    "whitened": "the same in every whitened coefficient",
    "statistics": "on every sum of returns and every count of visits",
}


def _scale(release: Release) -> str:
    noise = release.noise
    if noise.sigma is not None:
        return f"sigma = {noise.sigma:.6g}, the same for all data sets and public"
    if noise.scale is not None:
        return (
            f"sigma = {noise.scale.sigma:.6g}, released with noise of its own (Laplace noise of "
            f"scale {noise.scale.spread:.4g} on the logarithm of its square)"
        )
    return "depends on the data, and was not released"


def _sign(release: Release) -> Content:
    fields = ("Reviewed by", "Role", "Decision", "Date")
    return [
        *_paragraphs(
            [
                "Whoever signs this page signs for the release whose release.json has the SHA-256 ",
                _hash(sha256_of(release)),
                ".",
            ]
        ),
        element("div", [element("div", field) for field in fields], class_="sign"),
    ]
