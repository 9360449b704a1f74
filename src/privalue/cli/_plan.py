"""Define ``privalue plan``: what to expect of a study, before any data is opened."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.table import Table

from privalue.cli._console import Json, SideFiles, StudyFile, print_json, progress, screen
from privalue.cli._given import NUMBER, WHOLE
from privalue.planning import Plan
from privalue.planning import plan as plan_study
from privalue.study import Study

MOST_ROWS = 40


def plan(
    study_file: StudyFile,
    trajectories: Annotated[
        int | None,
        typer.Option(
            "--trajectories",
            **WHOLE,
            help="How many trajectories there will be; by default as the study declares.",
        ),
    ] = None,
    visits: Annotated[
        str | None,
        typer.Option("--visits", help="A file of the probability that a state is visited."),
    ] = None,
    world: Annotated[
        str | None,
        typer.Option("--world", help="A public world that the data will resemble: chain, gym:..."),
    ] = None,
    half_width: Annotated[
        float | None,
        typer.Option("--half-width", **NUMBER, help="How many people an interval takes."),
    ] = None,
    people: Annotated[
        int | None,
        typer.Option("--people", **WHOLE, help="With --half-width: which epsilon they take."),
    ] = None,
    target: Annotated[
        float | None,
        typer.Option("--target-rmse", **NUMBER, help="How many trajectories an error takes."),
    ] = None,
    solve: Annotated[
        str | None,
        typer.Option("--solve", help="With --target-rmse: trajectories or epsilon."),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option("--steps", **WHOLE, help="The most rows of a trajectory, if that is public."),
    ] = None,
    side_files: SideFiles = None,
    as_json: Json = False,
) -> None:
    """Say what to expect of a study before any data is opened."""
    study = Study.load(study_file, side_files=side_files)
    with progress("Planning"):
        found = plan_study(
            study,
            trajectories,
            visits=visits,
            world=world,
            half_width=half_width,
            people=people,
            target_rmse=target,
            solve=solve,  # type: ignore[arg-type]  # checked there
            steps=steps,
        )
    if as_json:
        print_json(found.to_json())
    else:
        _print(found)


def _print(found: Plan) -> None:
    console = screen()
    console.print(found.headline)
    share = " (share of the range)" if found.relative else ""
    names = {
        "visits": "visits",
        "half_width": f"half-width{share}",
        "half_width_95": "of 95% of releases",
        "without_privacy": "without privacy",
    }
    _print_table(console, found.by_visits, names)
    _print_table(console, found.useful, {"share": "narrower than", "visits": "from visits"})
    labels = [name for name in ("arm", "state", "action") if _has(found.states, name)]
    _print_table(console, found.states, dict.fromkeys((*labels, "visits", "half_width"), ""))
    _print_table(
        console,
        found.clips,
        {"clip": "clip", "kept": "kept", "bias": "bias", "noise": "noise", "error": "error"},
    )
    if found.answer is not None:
        console.print(f"{found.answer.text}.")
    for each in found.suggestions:
        console.print(f"- {each.text}: {each.gain}.")
    for notice in found.notices:
        console.print(f"{notice.severity}: {notice.text}", highlight=False)


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _has(rows: Sequence[Any], name: str) -> bool:
    return bool(rows) and getattr(rows[0], name) is not None


def _print_table(console: Any, rows: Sequence[Any], names: dict[str, str]) -> None:
    """Print some columns of some rows, if there are any."""
    if not rows:
        return
    table = Table()
    for name, heading in names.items():
        table.add_column(heading or name.replace("_", "-"), justify="right")
    for row in rows[:MOST_ROWS]:
        values = [getattr(row, name) for name in names]
        table.add_row(*map(_cell, values))
    if len(rows) > MOST_ROWS:
        table.caption = f"... and {len(rows) - MOST_ROWS} more; --json has them all"
    console.print(table)
