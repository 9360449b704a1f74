"""The curator's page: what inspect found, PRIVATE on every screen and every sheet of paper.

It is written through ``write_private_page`` alone, readable by its owner only, and never beside a
release or a report.
"""

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privalue.errors import UsageError
from privalue.report._curators import PrivateDiagnostics
from privalue.report._html import LABEL, Content, Html, element, facts, named, table
from privalue.report._look import Part, page
from privalue.report._public_page import PUBLIC_MARK
from privalue.report._publish import (
    PRIVATE_MARK,
    PUBLIC_FILES,
    is_marked,
    is_private_page,
    write_text,
)
from privalue.report._svg import Series, groups_of, key_of, state_chart, visible

MOST_ROWS = 400
_HEAD_ROWS = 100
BANNER: Content = [
    "PRIVATE ",
    element("span", "For the curator only. None of this may be published."),
]


def require_private_place(file: str | Path) -> Path:
    """Refuses, before any work, a place for the page that is public or taken."""
    file = Path(file)
    if file.suffix.lower() != ".html":
        raise UsageError(f"the private page {file} must end in .html")
    there = next(folder for folder in file.parents if folder.exists())
    if not there.is_dir():
        raise UsageError(f"the private page {file} has no place: {there} is no folder")
    for public in sorted(there.iterdir()) if there == file.parent else []:
        if public.name not in PUBLIC_FILES and not is_marked(public, PUBLIC_MARK):
            continue
        raise UsageError(
            f"{public} is public, or cannot be read, and a private page never goes beside it; give "
            f"a file in another folder than {file}"
        )
    if os.path.lexists(file) and not is_private_page(file):
        raise UsageError(f"{file} exists, and is no private page; give another name")
    return file


def write_private_page(diagnostics: PrivateDiagnostics, file: str | Path) -> Path:
    """Writes the page. PRIVATE: mode 0600, and never beside what is public.

    A folder that is not there is made, for its owner alone.
    """
    target = require_private_place(file)
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as problem:
        raise UsageError(f"cannot make the folder {target.parent}: {problem.strerror}") from None
    return write_text(target, private_page(diagnostics), 0o600)


def private_page(diagnostics: PrivateDiagnostics) -> str:
    """The page's text. PRIVATE: none of it may be published."""
    fields = diagnostics.private_columns()
    name = diagnostics.study.study.name
    parts = [
        Part(key="notes", title="Before you release", content=_notes(diagnostics, fields)),
        Part(
            key="noise",
            title="The noise against the values",
            content=_noise(diagnostics, fields),
            short="Noise",
        ),
        Part(
            key="visits",
            title="Who visited what",
            content=_visits(diagnostics, fields),
            short="Visits",
        ),
        Part(
            key="states",
            title="State by state",
            content=_states(diagnostics, fields),
            short="States",
        ),
        Part(
            key="theta",
            title="The coefficients before noise",
            content=_theta(fields["theta"]),
            short="Theta",
        ),
    ]
    return page(
        title=f"PRIVATE: {name}",
        kicker="PRIVATE diagnostics of the curator",
        name=name,
        top=element(
            "p",
            "What the data says before any noise. Nothing here is protected: whoever sees it may "
            "learn about single people. Nothing was drawn, and nothing was spent.",
            class_="lead",
        ),
        parts=parts,
        foot=element("p", element("strong", "PRIVATE. "), "Keep it with the data, or delete it."),
        banner=BANNER,
        meta=element("meta", name=PRIVATE_MARK, content="PRIVATE"),
        private=True,
    )


def _number(value: float) -> str:
    return f"{value:.6g}"


def _notes(diagnostics: PrivateDiagnostics, fields: dict[str, Any]) -> Content:
    warnings = diagnostics.warnings()
    found: list[Content] = (
        [
            element(
                "div",
                element("ul", [element("li", f"{w[0].upper()}{w[1:]}.") for w in warnings]),
                class_="note",
            )
        ]
        if warnings
        else [element("p", "Nothing stands out: every state is visited, and the noise is small.")]
    )
    rows: list[tuple[Content, Content]] = [
        ("mechanism", _mechanism(fields)),
        ("trajectories that count", f"{fields['trajectories']:,}"),
        *([("persons", f"{fields['persons']:,}")] if "persons" in fields else []),
        ("rows", f"{fields['rows']:,}"),
        ("trajectories beyond the limit", f"{fields['surplus_trajectories']:,}"),
        ("first visits beyond the limit", f"{fields['surplus_visits']:,}"),
        ("units dropped for an invalid row", f"{fields['units_dropped']:,}"),
        ("rows that belong to nobody", f"{fields['rows_left_out']:,}"),
        ("rows dropped as incomplete", f"{fields['rows_missing']:,}"),
        ("rewards clamped", f"{fields['rewards_clamped']:,}"),
        ("returns clamped", f"{fields['returns_clamped']:,}"),
        ("alpha, beta", f"{fields['alpha']:.10g}, {fields['beta']:.10g}"),
        ("psi", f"{fields['psi']:.10g}"),
        ("sigma", f"{fields['sigma']:.10g}"),
    ]
    return [*found, facts("The data and the noise, PRIVATE", rows, name="PRIVATE diagnostics")]


def _mechanism(fields: dict[str, Any]) -> str:
    shape = "" if fields["mechanism"] == "dp-ssp" else f", {fields['noise']} noise"
    return f"{fields['mechanism']}{shape}, calibration {fields['calibration']}"


def _noise(diagnostics: PrivateDiagnostics, fields: dict[str, Any]) -> Content:
    values, noise = fields["values"], fields["noise_by_state"]
    low, high = diagnostics.study.return_bounds
    series = Series(
        labels=diagnostics.study.state_names,
        values=values,
        low=values - noise,
        high=values + noise,
    )
    middle = np.partition(noise, len(noise) // 2)[len(noise) // 2]
    return [
        element(
            "p",
            f"The standard deviation of the noise is {_number(middle)} in the median state and "
            f"{_number(noise.max())} in the worst; values range from {_number(values.min())} to "
            f"{_number(values.max())}, and returns could range over {high - low:g}.",
        ),
        element(
            "figure",
            key_of(
                ("value", "value before noise"),
                ("area" if series.grouped else "interval", "one standard deviation of the noise"),
                *([("bound", "bounds of returns")] if visible(series, (low, high)) else []),
            ),
            state_chart(
                series,
                name=f"PRIVATE. Values before noise of {len(values):,} states, with one standard "
                "deviation of the noise on either side. The numbers are in the table of states.",
                axis="value before noise",
                bounds=(low, high),
            ),
        ),
        _groups(series, "value") if series.grouped else None,
    ]


def _visits(diagnostics: PrivateDiagnostics, fields: dict[str, Any]) -> Content:
    counts = fields["counts"]
    series = Series(
        labels=diagnostics.study.state_names,
        values=counts.astype(np.float64),
        doubtful=counts == 0,
    )
    nobody = len(counts) - np.count_nonzero(counts)
    return [
        element(
            "p",
            f"{nobody:,} of {len(counts):,} states are visited by nobody; the others by "
            f"{counts[counts > 0].min() if counts.any() else 0:,} to {counts.max():,} "
            "trajectories.",
        ),
        element(
            "figure",
            key_of(
                ("value", "trajectories that visit the state"),
                *([("doubtful", "nobody")] if nobody and not series.grouped else []),
            ),
            state_chart(
                series,
                name=f"PRIVATE. Visits of {len(counts):,} states. The numbers are in the table of "
                "states.",
                axis="visits",
                zero=True,
            ),
        ),
        _groups(series, "count") if series.grouped else None,
    ]


def _groups(series: Series, what: str) -> Html:
    return table(
        "What the chart draws: groups of neighbouring states. inspect --json has every state.",
        ["States", f"least {what}", f"largest {what}"],
        [
            [
                [named(group.first, LABEL), " to ", named(group.last, LABEL)],
                _number(group.least),
                _number(group.largest),
            ]
            for group in groups_of(series)
        ],
        name=f"PRIVATE: {what} by group of states",
        numbers=(1, 2),
        long=True,
    )


def _states(diagnostics: PrivateDiagnostics, fields: dict[str, Any]) -> Html:
    labels = diagnostics.study.state_names
    cut = len(labels) > MOST_ROWS
    seen = range(_HEAD_ROWS if cut else len(labels))
    keys = ("mean_returns", "values", "noise_by_state")
    return table(
        f"The first {_HEAD_ROWS:,} of {len(labels):,} states; inspect --json has them all. PRIVATE."
        if cut
        else "Every state. PRIVATE.",
        ["State", "visits", "mean return", "value before noise", "noise (sd)", "value over noise"],
        [
            [
                named(labels[at], LABEL),
                f"{fields['counts'][at]:,}",
                *(_number(fields[key][at]) for key in keys),
                _ratio(fields["values"][at], fields["noise_by_state"][at]),
            ]
            for at in seen
        ],
        name="PRIVATE: states",
        numbers=range(1, 6),
        long=len(seen) > 12,
    )


def _ratio(value: float, noise: float) -> str:
    return "no noise" if noise == 0 else f"{abs(value) / noise:.3g}"


def _theta(theta: NDArray[np.float64]) -> Html:
    cut = len(theta) > MOST_ROWS
    seen = theta[:_HEAD_ROWS] if cut else theta
    return table(
        f"The first {_HEAD_ROWS:,} of {len(theta):,} coefficients. PRIVATE."
        if cut
        else "Every coefficient. PRIVATE.",
        ["Feature, counted from 0", "theta before noise"],
        [[str(at), _number(number)] for at, number in enumerate(seen)],
        name="PRIVATE: theta before noise",
        numbers=(1,),
        long=len(seen) > 12,
    )
