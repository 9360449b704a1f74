"""Describe the curator's diagnostics, and write their page: PRIVATE on every screen and sheet.

The page is written through ``write_private_page`` alone, readable by its owner only, and never
beside a release or a report.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from privalue._folder import PRIVATE_MARK, PUBLIC_FILES, is_marked, is_private_page
from privalue.errors import UsageError
from privalue.report.description import Description, Fact, Listing, Notice, Table
from privalue.report.files import write_text
from privalue.report.html import HEAD_ROWS, MOST_ROWS, PUBLIC_MARK, render
from privalue.report.numbers import format_bounds, format_number
from privalue.study import Study

_BANNER = ("PRIVATE", "For the curator only. None of this may be published.")
# The sizes of the data, and symbols of the mechanism: how the curator's page and screen call them.
_LABELS = {
    "mechanism": "mechanism",
    "calibration": "calibration",
    "noise": "noise",
    "trajectories": "trajectories that count (m)",
    "persons": "persons",
    "rows": "rows",
    "surplus_trajectories": "trajectories beyond the limit of a person",
    "surplus_visits": "first visits beyond the limit of a trajectory",
    "units_dropped": "units dropped for an invalid row",
    "rows_left_out": "rows that belong to nobody",
    "rewards_clamped": "rewards clamped to their bounds",
    "returns_clamped": "returns clamped to their bounds",
    "weights_clipped": "weights above clip",
    "alpha": "alpha: noise over sensitivity; public",
    "beta": "beta: how fast the bound on the sensitivity varies; public",
    "psi": "psi: the square of that bound, in units of the range of returns",
    "sigma": "sigma: the standard deviation of the noise where it is drawn",
    "likely_bounds": "bounds of returns that a stage would choose",
}


class PrivateDiagnostics(Protocol):
    """What ``privalue.inspect`` returns, as far as it is shown: no private type is imported."""

    @property
    def study(self) -> Study:
        """Return what is public."""

    def private_columns(self) -> dict[str, Any]:
        """Return everything else. PRIVATE: none of it may be published."""


def describe_diagnostics(diagnostics: PrivateDiagnostics) -> Description:
    """Return what only the curator may see. PRIVATE."""
    fields, study = diagnostics.private_columns(), diagnostics.study
    return Description(
        title=f"PRIVATE diagnostics of {study.study.name}: do not publish",
        facts=tuple(_facts(fields, study)),
        notices=tuple(_notices(fields, study)),
        tables=tuple(_tables(fields, study)),
    )


def _facts(fields: dict[str, Any], study: Study) -> Iterator[Fact]:
    for key, label in _LABELS.items():
        value = fields.get(key)
        if value is None or (key == "noise" and fields["mechanism"] == "dp-ssp"):
            continue
        text = format_bounds(value) if key == "likely_bounds" else ""
        text = text or (f"{value:.10g}" if isinstance(value, float) else str(value))
        yield Fact(f"private.{key}", value, label, text)
    yield Fact(
        "private.returns",
        study.return_bounds,
        "bounds of returns; public",
        format_bounds(study.return_bounds),
    )


def _notices(fields: dict[str, Any], study: Study) -> Iterator[Notice]:
    """Yield what the curator should know before a release. PRIVATE: it follows from the data."""
    low, high = study.return_bounds
    noise = fields.get("noise_by_state")
    if noise is not None and (noise > (high - low) / 4).any():
        drowned = int((noise > (high - low) / 4).sum())
        about = {
            "count": drowned,
            "of": len(noise),
            "most": float(noise.max()),
            "range": high - low,
        }
        yield Notice("private-noise", "warn", about)
    for key in ("surplus_trajectories", "surplus_visits", "units_dropped", "rows_left_out"):
        if fields.get(key):
            code = f"private-{key.replace('_', '-')}"
            yield Notice(code, "warn", {"count": fields[key], "unit": study.privacy.unit})
    if fields.get("weights_clipped"):
        about = {"count": fields["weights_clipped"], "of": fields["trajectories"]}
        yield Notice("private-weights-clipped", "warn", about)
    unvisited = int(np.count_nonzero(fields["counts"] == 0))
    if unvisited and fields["mechanism"] != "dp-ope":
        yield Notice("private-unvisited", "warn", {"count": unvisited})
    if fields.get("by_query"):
        yield Notice("private-query", "warn")


def _tables(fields: dict[str, Any], study: Study) -> Iterator[Table]:
    """Yield values before noise, with one standard deviation of it to either side. PRIVATE."""
    counts = fields["counts"]
    if fields["mechanism"] == "dp-ope":
        yield Table(
            key="private",
            title="Before noise (PRIVATE)",
            labels={"start": [str(name) for name in study.start_names or ("all",)]},
            value=fields["policy_values"],
            more={
                "behaviour": [f"{value:.6g}" for value in fields["behaviour_values"]],
                "kept mass": [f"{value:.6g}" for value in fields["kept_mass"]],
                "trajectories": [f"{count:,}" for count in counts],
            },
        )
        return
    values, noise = fields["values"], fields["noise_by_state"]
    low, high = study.return_bounds
    yield Table(
        key="private",
        title="By state, before noise (PRIVATE)",
        labels={"state": list(map(str, study.key_names))},
        value=values,
        privacy=(values - noise, values + noise),
        more={
            "visits": [f"{count:,}" for count in counts],
            "mean return": [f"{mean:.6g}" for mean in fields["mean_returns"]],
            "noise (sd)": [f"{spread:.6g}" for spread in noise],
        },
        flags=[
            ("nobody came",) if count == 0 else ("mostly noise",) if wide else ()
            for count, wide in zip(counts, noise > (high - low) / 4, strict=True)
        ],
        marks=study.return_bounds,
    )


def require_private_place(file: str | Path) -> Path:
    """Refuse, before any work, a path for the page that is public or taken.

    A page that cannot be read counts as public: it may be one.

    Raises:
        UsageError: if the path is not .html, has no directory, is beside a public file, or names a
            file that is not a private page.
    """
    file = Path(file)
    if file.suffix.lower() != ".html":
        raise UsageError(f"the private page {file} must end in .html", code="private-place")
    there = next(folder for folder in file.parents if folder.exists())
    if not there.is_dir():
        raise UsageError(
            f"cannot write the private page {file}: {there} is not a directory; give another path",
            code="private-place",
        )
    for public in sorted(there.iterdir()) if there == file.parent else []:
        if public.name not in PUBLIC_FILES and not is_marked(public, PUBLIC_MARK):
            continue
        raise UsageError(
            f"{public} is public, or cannot be read, and a private page never goes beside it; give "
            f"a file in another folder than {file}",
            code="beside-public",
        )
    if os.path.lexists(file) and not is_private_page(file):
        raise UsageError(
            f"{file} exists, and is not a private page; give another name", code="exists"
        )
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
        raise UsageError(
            f"cannot make the folder {target.parent}: {problem.strerror}", code="cannot-write"
        ) from None
    return write_text(target, private_page(diagnostics), 0o600)


def private_page(diagnostics: PrivateDiagnostics) -> str:
    """Return the page's text. PRIVATE: none of it may be published."""
    theta = np.asarray(diagnostics.private_columns()["theta"])
    seen = HEAD_ROWS if len(theta) > MOST_ROWS else len(theta)
    return render(
        "private.html",
        describe_diagnostics(diagnostics),
        mark=PRIVATE_MARK,
        marked="PRIVATE",
        title=f"PRIVATE: {diagnostics.study.study.name}",
        banner=_BANNER,
        theta=Listing(
            "theta",
            f"The first {seen:,} of {len(theta):,} coefficients of the features (PRIVATE)",
            ("feature, from 0", "theta before noise"),
            [(str(at), format_number(float(theta[at]))) for at in range(seen)],
        ),
    )
