"""Write the curator's page: what inspect found, PRIVATE on every screen and every sheet of paper.

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
from privalue.report._html import LABEL, Content, Html, element, facts, named
from privalue.report._look import PagePart, page
from privalue.report._page_tables import first_rows, group_table
from privalue.report._public_page import PUBLIC_MARK
from privalue.report._publish import (
    PRIVATE_MARK,
    PUBLIC_FILES,
    is_marked,
    is_private_page,
    write_text,
)
from privalue.report._svg import Series, key_of, state_chart, visible

BANNER: Content = [
    "PRIVATE ",
    element("span", "For the curator only. None of this may be published."),
]


def require_private_place(file: str | Path) -> Path:
    """Refuse, before any work, a path for the page that is public or taken.

    A page that cannot be read counts as public: it may be one.

    Raises:
        UsageError: if the path is not .html, has no directory, is beside a public file, or names a
            file that is not a private page.
    """
    file = Path(file)
    if file.suffix.lower() != ".html":
        raise UsageError(f"the private page {file} must end in .html")
    there = next(folder for folder in file.parents if folder.exists())
    if not there.is_dir():
        raise UsageError(
            f"cannot write the private page {file}: {there} is not a directory; give another path"
        )
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
    """Write the page. PRIVATE: mode 0600, and never beside what is public.

    A directory that does not exist is created, for its owner alone.

    Raises:
        UsageError: if the page cannot be written there.
    """
    target = require_private_place(file)
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as problem:
        raise UsageError(f"cannot make the folder {target.parent}: {problem.strerror}") from None
    return write_text(target, private_page(diagnostics), 0o600)


def private_page(diagnostics: PrivateDiagnostics) -> str:
    """Return the page's text. PRIVATE: none of it may be published."""
    fields = diagnostics.private_columns()
    name = diagnostics.study.study.name
    parts = [
        PagePart(key="notes", title="Before you release", content=_notes(diagnostics, fields)),
        PagePart(
            key="noise",
            title="The noise against the values",
            content=_noise(diagnostics, fields),
            short="Noise",
        ),
        PagePart(
            key="visits",
            title="Who visited what",
            content=_visits(diagnostics, fields),
            short="Visits",
        ),
        PagePart(
            key="states",
            title="State by state",
            content=_states(diagnostics, fields),
            short="States",
        ),
        PagePart(
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
    """Format a number with six digits."""
    return f"{value:.6g}"


def _notes(diagnostics: PrivateDiagnostics, fields: dict[str, Any]) -> Content:
    """Return the warnings for the curator, then the sizes and constants. PRIVATE."""
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
    """Name the mechanism, its noise and its calibration."""
    shape = "" if fields["mechanism"] == "dp-ssp" else f", {fields['noise']} noise"
    return f"{fields['mechanism']}{shape}, calibration {fields['calibration']}"


def _noise(diagnostics: PrivateDiagnostics, fields: dict[str, Any]) -> Content:
    """Show the values before noise with the noise around them. PRIVATE."""
    values, noise = fields["values"], fields["noise_by_state"]
    low, high = diagnostics.study.return_bounds
    series = Series(
        labels=diagnostics.study.key_names,
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
    """Show how many trajectories visit each state. PRIVATE."""
    counts = fields["counts"]
    series = Series(
        labels=diagnostics.study.key_names,
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
    """Return the table of a chart that draws groups of states. PRIVATE."""
    return group_table(
        series,
        what,
        rest="inspect --json has every state.",
        name=f"PRIVATE: {what} by group of states",
        number=_number,
    )


def _states(diagnostics: PrivateDiagnostics, fields: dict[str, Any]) -> Html:
    """Return the table of states. PRIVATE."""
    labels = diagnostics.study.key_names
    keys = ("mean_returns", "values", "noise_by_state")

    def cells(at: int) -> list[Content]:
        return [
            named(labels[at], LABEL),
            f"{fields['counts'][at]:,}",
            *(_number(fields[key][at]) for key in keys),
            _ratio(fields["values"][at], fields["noise_by_state"][at]),
        ]

    return first_rows(
        ["State", "visits", "mean return", "value before noise", "noise (sd)", "value over noise"],
        cells,
        count=len(labels),
        name="PRIVATE: states",
        whole="Every state. PRIVATE.",
        cut=lambda first: f"{first} states; inspect --json has them all. PRIVATE.",
        numbers=range(1, 6),
    )


def _ratio(value: float, noise: float) -> str:
    """Format how many times a value is larger than its noise."""
    return "no noise" if noise == 0 else f"{abs(value) / noise:.3g}"


def _theta(theta: NDArray[np.float64]) -> Html:
    """Return the table of coefficients before noise. PRIVATE."""
    return first_rows(
        ["Feature, counted from 0", "theta before noise"],
        lambda at: [str(at), _number(theta[at])],
        count=len(theta),
        name="PRIVATE: theta before noise",
        whole="Every coefficient. PRIVATE.",
        cut=lambda first: f"{first} coefficients. PRIVATE.",
        numbers=(1,),
    )
