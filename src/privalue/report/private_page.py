"""Describe the curator's diagnostics, and write their page: PRIVATE on every screen and sheet.

The page is written through ``write_private_page`` alone, readable by its owner only, and never
beside a release or a report.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from privalue.errors import UsageError
from privalue.report.description import Description, Fact, Notice, Table
from privalue.report.files import write_text
from privalue.report.folders import PRIVATE_MARK, PUBLIC_FILES, is_marked
from privalue.report.html import PUBLIC_MARK, fact, render, sentence
from privalue.study import Study


class PrivateDiagnostics(Protocol):
    """The diagnostics of ``privalue.inspect``, without importing its private type."""

    @property
    def study(self) -> Study:
        """Return what is public."""

    def private_columns(self) -> dict[str, Any]:
        """Return everything else. PRIVATE: none of it may be published."""


def describe_diagnostics(diagnostics: PrivateDiagnostics) -> Description:
    """Return the description of the curator's diagnostics. PRIVATE."""
    fields, study = diagnostics.private_columns(), diagnostics.study
    return Description(
        title=f"PRIVATE diagnostics of {study.study.name}: do not publish",
        facts=tuple(_facts(fields, study)),
        notices=tuple(_notices(fields, study)),
        tables=tuple(_tables(fields, study)),
    )


def _facts(fields: dict[str, Any], study: Study) -> Iterator[Fact]:
    """Yield the numbers that have a block in facts.txt. PRIVATE."""
    for key, value in fields.items():
        if value is None or (key == "noise" and fields["mechanism"] == "dp-ssp"):
            continue
        item = fact(f"private.{key}", value)
        if item.label:
            yield item
    yield fact("private.returns", study.values.return_bounds)


def _notices(fields: dict[str, Any], study: Study) -> Iterator[Notice]:
    """Yield warnings for the curator before a release. PRIVATE: they follow from the data."""
    low, high = study.values.return_bounds
    noise = fields.get("noise_by_state")
    noisy = 0 if noise is None else int((noise > (high - low) / 4).sum())
    if noise is not None and noisy:
        sizes = {"count": noisy, "of": len(noise), "most": float(noise.max())}
        yield Notice("private-noise", "warn", {"range": high - low, **sizes})
    counters = ("surplus_trajectories", "surplus_visits", "units_dropped", "rows_left_out")
    for key in (*counters, "weights_clipped"):
        if fields.get(key):
            code, count = f"private-{key}".replace("_", "-"), fields[key]
            about = {"count": count, "of": fields["trajectories"], "unit": study.privacy.unit}
            about["truncated"] = study.limits.drop_truncated
            about["invalid"] = study.data.invalid == "drop-unit"
            yield Notice(code, "warn", about)
    unvisited = int(np.count_nonzero(fields["counts"] == 0))
    if unvisited and fields["mechanism"] != "dp-ope":
        yield Notice("private-unvisited", "warn", {"count": unvisited})
    if fields.get("by_query"):
        yield Notice("private-query", "warn")


def _tables(fields: dict[str, Any], study: Study) -> Iterator[Table]:
    """Yield values before noise, with its standard deviation. PRIVATE."""
    counts = fields["counts"]
    if fields["mechanism"] == "dp-ope":
        yield Table(
            key="private",
            title="Before noise (PRIVATE)",
            labels={"start": list(map(str, study.names.names)) if study.policy.by else ["all"]},
            value=fields["policy_values"],
            more={
                "behaviour": [f"{value:.6g}" for value in fields["behaviour_values"]],
                "kept mass": [f"{value:.6g}" for value in fields["kept_mass"]],
                "trajectories": [f"{count:,}" for count in counts],
            },
        )
        return
    values, noise = fields["values"], fields["noise_by_state"]
    low, high = study.values.return_bounds
    yield Table(
        key="private",
        title="By state, before noise (PRIVATE)",
        labels={"state": list(map(study.key_label, range(study.key_count)))},
        value=values,
        more={
            "visits": [f"{count:,}" for count in counts],
            "mean return": [f"{mean:.6g}" for mean in fields["mean_returns"]],
            "noise (sd)": [f"{spread:.6g}" for spread in noise],
        },
        flags=[
            ("no visits",) if count == 0 else ("mostly noise",) if wide else ()
            for count, wide in zip(counts, noise > (high - low) / 4, strict=True)
        ],
        marks=study.values.return_bounds,
    )


def require_private_place(file: str | Path) -> Path:
    """Refuse, before any work, a path of the page that is public or in use.

    A page that cannot be read counts as public: it may be one.

    Raises:
        UsageError: if the path is not .html, has no folder, is beside a public file, or names a
            file that is not a private page.
    """
    file = Path(file)
    existing = next(folder for folder in file.parents if folder.exists())
    if file.suffix.lower() != ".html" or not existing.is_dir():
        raise UsageError(sentence("private_place", file=file, there=existing), code="private-place")
    for public in sorted(existing.iterdir()) if existing == file.parent else []:
        if public.name in PUBLIC_FILES or is_marked(public, PUBLIC_MARK):
            message = sentence("beside_public", public=public, file=file)
            raise UsageError(message, code="beside-public")
    if os.path.lexists(file) and not is_marked(file, PRIVATE_MARK):
        raise UsageError(
            f"{file} exists, and is not a private page; give another name", code="exists"
        )
    return file


def write_private_page(diagnostics: PrivateDiagnostics, file: str | Path) -> Path:
    """Write the page. PRIVATE: mode 0600, and never beside what is public.

    A folder that does not exist is created, for its owner alone.

    Raises:
        UsageError: if the page cannot be written there.
    """
    target = require_private_place(file)
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as problem:
        raise UsageError(
            f"cannot create the folder {target.parent}: {problem.strerror}", code="cannot-write"
        ) from None
    page = render("private.html", describe_diagnostics(diagnostics), mark=PRIVATE_MARK)
    return write_text(target, page, 0o600)
