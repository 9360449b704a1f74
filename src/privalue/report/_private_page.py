"""Write the curator's page: what inspect found, PRIVATE on every screen and every sheet of paper.

It is written through ``write_private_page`` alone, readable by its owner only, and never beside a
release or a report.
"""

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privalue._folder import PRIVATE_MARK, PUBLIC_FILES, is_marked, is_private_page
from privalue._written import counted, written
from privalue.errors import UsageError
from privalue.report._curators import PrivateDiagnostics
from privalue.report._numbers import interval, number
from privalue.report._page_values import HEAD_ROWS, MOST_LISTED
from privalue.report._pages import LABEL, PageTable, bar, named, render
from privalue.report._plots import Figure, Series, figure
from privalue.report._public_page import PUBLIC_MARK
from privalue.report._publish import write_text

BANNER = ("PRIVATE", "For the curator only. None of this may be published.")
_NOBODY, _DROWNED = "nobody came", "mostly noise"
_CONTENTS = {
    "notes": "Before you release",
    "noise": "Noise",
    "states": "States",
    "symbols": "Symbols",
    "theta": "Theta",
}


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
        raise UsageError(f"{file} exists, and is not a private page; give another name")
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
    counts = fields["counts"]
    return render(
        "private.html",
        mark=PRIVATE_MARK,
        marked="PRIVATE",
        private=True,
        title=f"PRIVATE: {name}",
        kicker="PRIVATE diagnostics of the curator",
        name=named(name),
        contents=_CONTENTS.items(),
        banner=BANNER,
        advice=[(_sentence(warning), _sentence(do)) for warning, do in diagnostics.advice()],
        sizes=_sizes(fields),
        noise=_about_the_noise(diagnostics, fields),
        plot=_figure(diagnostics, fields),
        visits=f"{len(counts) - np.count_nonzero(counts):,} of {len(counts):,} states are visited "
        f"by nobody; the others by {counts[counts > 0].min() if counts.any() else 0:,} to "
        f"{counted(int(counts.max()), 'trajectory')}.",
        states=_states(diagnostics, fields),
        symbols=_symbols(diagnostics, fields),
        theta=_theta(fields["theta"]),
    )


def _sentence(text: str) -> str:
    """Return a clause as a sentence."""
    return f"{text[0].upper()}{text[1:]}."


# What the curator's page and screen call the sizes of the data, in the order of the page.
DATA_WORDS = {
    "trajectories": "trajectories that count",
    "persons": "persons",
    "rows": "rows",
    "surplus_trajectories": "trajectories beyond the limit of a person",
    "surplus_visits": "first visits beyond the limit of a trajectory",
    "units_dropped": "units dropped for an invalid row",
    "rows_left_out": "rows that belong to nobody",
    "rewards_clamped": "rewards clamped to their bounds",
    "returns_clamped": "returns clamped to their bounds",
}


def _sizes(fields: dict[str, Any]) -> PageTable:
    """Return how much data there is, and what of it does not count. PRIVATE."""
    return PageTable(
        name="PRIVATE: the data",
        caption="The data, PRIVATE",
        rows=[[what, f"{fields[key]:,}"] for key, what in DATA_WORDS.items() if key in fields],
        kind="small",
        numbers=(1,),
    )


def _symbols(diagnostics: PrivateDiagnostics, fields: dict[str, Any]) -> PageTable:
    """Return every symbol of the mechanism with its value and its meaning. PRIVATE."""
    study = diagnostics.study
    low, high = study.return_bounds
    shape = "" if fields["mechanism"] == "dp-ssp" else f", {fields['noise']} noise"
    where = (
        "the sums of returns"
        if fields["mechanism"] == "dp-ssp"
        else "the coefficients theta"
        if fields["noise"] == "isotropic"
        else "the whitened coefficients"
    )
    return PageTable(
        name="PRIVATE: symbols",
        caption=f"{fields['mechanism']}{shape}, calibration {fields['calibration']}. PRIVATE.",
        heads=["Symbol", "value", "meaning"],
        rows=[
            [
                "epsilon, delta",
                f"{study.privacy.epsilon:g}, {study.privacy.delta:g}",
                "What is promised. Public.",
            ],
            [
                "m",
                f"{fields['trajectories']:,}",
                "How many trajectories count.",
            ],
            [
                "returns",
                interval(low, high),
                "The bounds of discounted sums of rewards, which the study declares. Public; noise "
                "grows with their width.",
            ],
            [
                "alpha",
                f"{fields['alpha']:.8g}",
                "How many times larger than the sensitivity the noise is. It follows from epsilon "
                "and delta. Public.",
            ],
            [
                "beta",
                f"{fields['beta']:.8g}",
                "How fast the bound on the sensitivity may change from one data set to a "
                "neighbouring one; 0 where it does not change at all. Public.",
            ],
            [
                "psi",
                f"{fields['psi']:.8g}",
                "The square of the bound on the sensitivity: how far one unit could move the "
                "estimate, looking several units ahead, in units of the range of returns. Where "
                "beta is above 0 it depends on the data.",
            ],
            [
                "sigma",
                f"{fields['sigma']:.8g}",
                f"The standard deviation of the noise where it is drawn, on {where}: alpha times "
                "the root of psi, times the range of returns. As private as psi.",
            ],
            [
                "theta",
                "below",
                "The coefficients of the features before noise. The values are features times "
                "theta; with tabular features they are the values themselves.",
            ],
            [
                "noise (sd)",
                "by state",
                "The standard deviation that the noise has in the value of a state.",
            ],
            [
                "value over noise",
                "by state",
                "How many times the value is larger than its noise: below 2, little of it is left.",
            ],
        ],
    )


def _about_the_noise(diagnostics: PrivateDiagnostics, fields: dict[str, Any]) -> str:
    """Return how large the noise is beside the values. PRIVATE."""
    values, noise = fields["values"], fields["noise_by_state"]
    low, high = diagnostics.study.return_bounds
    middle = np.partition(noise, len(noise) // 2)[len(noise) // 2]
    return (
        f"The standard deviation of the noise is {number(middle)} in the median state and "
        f"{number(noise.max())} in the worst; values range from {number(values.min())} to "
        f"{number(values.max())}, and returns could range over {high - low:g}."
    )


def _figure(diagnostics: PrivateDiagnostics, fields: dict[str, Any]) -> Figure:
    """Return the plot of values before noise, with the noise around them. PRIVATE."""
    values, noise = fields["values"], fields["noise_by_state"]
    low, high = diagnostics.study.return_bounds
    nobody, drowned = fields["counts"] == 0, noise > (high - low) / 4
    return figure(
        Series(
            names=diagnostics.study.key_names,
            values=values,
            inner=(values - noise, values + noise),
            flags=[
                _NOBODY if n else _DROWNED if d else ""
                for n, d in zip(nobody, drowned, strict=True)
            ]
            if len(values) <= MOST_LISTED
            else None,
            flagged=nobody | drowned,
        ),
        key="figure-noise",
        number=1,
        title="PRIVATE: values before noise, by state",
        caption="PRIVATE. Values before noise, with one standard deviation of the noise to either "
        "side.",
        bounds=diagnostics.study.return_bounds,
        inner="one standard deviation of the noise",
    )


def _states(diagnostics: PrivateDiagnostics, fields: dict[str, Any]) -> PageTable:
    """Return the table of states. PRIVATE."""
    labels = diagnostics.study.key_names
    counts, means, values, noise = (
        fields[key] for key in ("counts", "mean_returns", "values", "noise_by_state")
    )
    seen = HEAD_ROWS if len(labels) > MOST_LISTED else len(labels)
    most = max(int(counts.max()), 1)

    def cells(at: int) -> list[object]:
        value, spread = float(values[at]), float(noise[at])
        shown = written(value, value - 2 * spread, value + 2 * spread)
        return [
            named(labels[at], LABEL),
            bar(counts[at] / most, f"{counts[at]:,}", "" if counts[at] else "stop"),
            number(means[at]),
            shown.value,
            number(spread),
            "no noise" if spread == 0 else f"{abs(value) / spread:.3g}",
        ]

    return PageTable(
        key="all-states",
        name="PRIVATE: states",
        caption="Every state. PRIVATE."
        if seen == len(labels)
        else f"The first {seen:,} of {len(labels):,} states; inspect --json has them all. PRIVATE.",
        heads=[
            *("State", "visits", "mean return", "value before noise"),
            *("noise (sd)", "value over noise"),
        ],
        rows=[cells(at) for at in range(seen)],
        numbers=range(1, 6),
        kind="long" if seen > 12 else "",
    )


def _theta(theta: NDArray[np.float64]) -> PageTable:
    """Return the table of coefficients before noise. PRIVATE."""
    seen = HEAD_ROWS if len(theta) > MOST_LISTED else len(theta)
    return PageTable(
        name="PRIVATE: theta before noise",
        caption="Every coefficient. PRIVATE."
        if seen == len(theta)
        else f"The first {seen:,} of {len(theta):,} coefficients. PRIVATE.",
        heads=["Feature, counted from 0", "theta before noise"],
        rows=[[str(at), number(theta[at])] for at in range(seen)],
        numbers=(1,),
        kind="small long" if seen > 12 else "small",
    )
