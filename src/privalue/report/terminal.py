"""Tables for people. What is private goes through functions whose names say so."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from privalue.curator import Diagnostics, Prepared
from privalue.mechanisms import resolve_ridge
from privalue.profile import privacy_profile
from privalue.release import Release

MOST_ROWS = 50


def facts(title: str, rows: Iterable[tuple[str, object]]) -> Table:
    """A table of two columns: what, and its value."""
    table = Table(title=title, title_justify="left", show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for what, value in rows:
        table.add_row(what, str(value))
    return table


def print_check(console: Console, prepared: Prepared) -> None:
    """Everything that can be said without data."""
    study, design = prepared.study, prepared.design
    privacy, mechanism = study.privacy, study.mechanism
    low, high = study.return_bounds
    console.print(
        facts(
            f"{study.study.name}: the study is complete and valid",
            [
                (
                    "guarantee",
                    f"epsilon = {privacy.epsilon:g}, delta = {privacy.delta:g}, unit = "
                    f"{privacy.unit}, neighbours = {privacy.neighbours}",
                ),
                ("states, features", f"{design.states}, {design.dimension}"),
                ("discount", study.values.discount),
                ("returns within", f"[{low:g}, {high:g}], range {high - low:g}"),
                ("unvisited states get", study.values.unvisited_value),
                ("mechanism", f"{mechanism.name}, {mechanism.noise} noise"),
                (f"calibration {mechanism.calibration}", _constants(prepared)),
                *_check_details(prepared),
                *[
                    ("side file", f"{key}  sha256 {digest}")
                    for key, digest in study.side_files.items()
                ],
            ],
        )
    )


def _constants(prepared: Prepared) -> str:
    if prepared.calibration is None:
        return "alpha and beta follow from m, which the study does not declare"
    alpha, beta = prepared.calibration.alpha, prepared.calibration.beta
    epsilon = prepared.study.privacy.epsilon
    true = privacy_profile(alpha, beta, prepared.design.dimension, epsilon).upper
    return f"alpha = {alpha:.6g}, beta = {beta:.6g}; true delta at most {true:.3g}"


def _check_details(prepared: Prepared) -> list[tuple[str, object]]:
    study, design = prepared.study, prepared.design
    if study.mechanism.name == "dp-lsl":
        declared = study.study.trajectories
        ridge = study.mechanism.ridge
        shown = (
            f"{study.mechanism.ridge_scale:g} sqrt(m)"
            if isinstance(ridge, str) and declared is None
            else f"{resolve_ridge(study, design, declared or 1):g}"
        )
        needed = design.norm**2 * float(design.weights.max())
        return [("lambda", f"{shown}; more than {needed:.6g} is needed")]
    return [("condition number", f"{design.weighted.condition:.4g}")]


def print_release(console: Console, release: Release) -> None:
    """The guarantee, what was public, the values."""
    console.print(release.privacy.sentence(), style="bold")
    if not release.private:
        console.print(
            "NOT PRIVATE: the noise came from a seeded source, for experiments only.",
            style="bold red",
        )
    values = release.study["values"]
    console.print(
        "Public beforehand: the study"
        + (
            f" with {len(release.study['side_files'])} side file(s)"
            if release.study["side_files"]
            else ""
        )
        + f", its {len(release.values)} states, discount {values['discount']}, the bounds of "
        f"rewards and returns, and the number of trajectories, {release.trajectories}. "
        f"Mechanism: {release.mechanism}, {release.noise.shape} noise, calibration "
        f"{release.noise.calibration}."
    )
    table = Table(title="Released values", title_justify="left")
    table.add_column("state")
    table.add_column("value", justify="right")
    shown = release.values[:MOST_ROWS]
    for entry in shown:
        table.add_row(entry.state, f"{entry.value:.6g}")
    console.print(table)
    if len(shown) < len(release.values):
        console.print(f"... and {len(release.values) - len(shown)} more states in the file.")
    if release.policy_value is not None:
        console.print(f"The policy's value from the public start: {release.policy_value:.6g}")


def print_private_diagnostics(console: Console, diagnostics: Diagnostics) -> None:
    """The curator's tables. PRIVATE: for the curator's screen only."""
    fields = diagnostics.private_fields()
    console.print(
        facts(
            "PRIVATE diagnostics: do not publish",
            [
                (key, f"{fields[key]:.10g}" if isinstance(fields[key], float) else fields[key])
                for key in (
                    "mechanism",
                    "calibration",
                    "noise",
                    "trajectories",
                    "rows",
                    "rewards_clamped",
                    "returns_clamped",
                    "alpha",
                    "beta",
                    "psi",
                    "sigma",
                )
            ],
        )
    )
    columns: list[Sequence[Any]] = [fields["counts"], fields["mean_returns"], fields["values"]]
    table = Table(title="By state (PRIVATE)", title_justify="left")
    for name in ("state", "trajectories that visit", "mean return", "value before noise"):
        table.add_column(name, justify="left" if name == "state" else "right")
    labels = diagnostics.study.state_labels
    for at in range(min(len(labels), MOST_ROWS)):
        count, mean, value = (column[at] for column in columns)
        table.add_row(labels[at], str(count), f"{mean:.6g}", f"{value:.6g}")
    console.print(table)
    if len(labels) > MOST_ROWS:
        console.print(f"... and {len(labels) - MOST_ROWS} more states; --json has them all.")
    unvisited = int(np.count_nonzero(diagnostics.statistics.counts == 0))
    if unvisited:
        console.print(f"{unvisited} state(s) are visited by nobody: the noise stays large.")
