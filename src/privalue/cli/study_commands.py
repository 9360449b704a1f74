"""Define ``init``, ``check`` and ``plan``, the commands before any data is opened."""

from pathlib import Path
from typing import Annotated, Any

from privalue.cli import terminal
from privalue.cli.column_names import guess, join_columns
from privalue.cli.console import print_json, progress
from privalue.cli.inputs import load_study
from privalue.cli.options import (
    Force,
    Json,
    SideFiles,
    StudyFile,
    advanced,
    argument,
    option,
    require_absent,
)
from privalue.errors import StudyError, UsageError
from privalue.planning import Plan
from privalue.planning import plan as plan_study
from privalue.readers import column_names
from privalue.report import check as check_study
from privalue.report import describe_plan, write_text
from privalue.study import SMOOTH, study_template


def init(
    path: Annotated[Path, argument("FILE", "Where to write the study file.")] = Path("study.toml"),
    data: Annotated[
        str | None, option("Name columns as this file's headings do; reads no row.")
    ] = None,
    every: Annotated[bool, option("Every key, and what is allowed.", "--all")] = False,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write a short study file; it runs on the built-in chain."""
    require_absent(path, force)
    if data is None:
        write_text(path, study_template(every=every))
        if as_json:
            print_json({"study": path})
        else:
            terminal.tell("study_written", path=path)
        return
    names, heading = column_names(data)
    found = guess(names, heading)
    both = {**found.questions, **found.hints}
    write_text(path, study_template(found.values, both, every=every))
    asked, hints = (
        {f"[{section}] {key}": text for (section, key), text in texts.items()}
        for texts in (found.questions, found.hints)
    )
    if as_json:
        seen = {"columns": dict(found.columns), "heading": dict(heading)}
        print_json({"study": path, **seen, "questions": asked, "hints": hints})
    else:
        shown = {role: join_columns([name]) for role, name in found.columns.items()}
        shown |= {key: repr(text) for key, text in heading.items()}
        unread = join_columns(found.unread)
        terminal.tell(
            "study_guessed", path=path, shown=shown, unread=unread, left={**asked, **hints}
        )


def check(
    study_file: StudyFile,
    side_files: SideFiles = None,
    as_json: Json = False,
) -> None:
    """Validate a study file (reads no data)."""
    checked = check_study(load_study(study_file, side_files))
    if as_json:
        print_json(checked.as_dict())
        return
    terminal.show(checked.description, sections=("study",))
    terminal.tell("after_check", study=study_file)


def plan(
    study_file: StudyFile,
    trajectories: Annotated[
        int | None, option("How many there will be; by default as declared.")
    ] = None,
    visits: Annotated[
        str | None, option("A CSV file: the probability of visiting each state.")
    ] = None,
    world: Annotated[
        str | None, option("A public world that the data will resemble: chain, gym:...")
    ] = None,
    every: Annotated[
        bool, option("With visits or a world: other mechanisms as well.", "--all")
    ] = False,
    half_width: Annotated[
        float | None, option("A target for a state's interval: finds the people it needs.")
    ] = None,
    people: Annotated[
        int | None, option("With --half-width: finds the epsilon for this many people.")
    ] = None,
    target_rmse: Annotated[
        float | None, advanced("An overall error to reach, with --visits or --world.")
    ] = None,
    solve: Annotated[
        str | None, advanced("What to change to reach it: trajectories or epsilon.")
    ] = None,
    steps: Annotated[
        int | None, advanced("With dp-ope: the most rows of a trajectory, if public.")
    ] = None,
    side_files: SideFiles = None,
    as_json: Json = False,
) -> None:
    """Predict the error of a study before any data is opened."""
    study = load_study(study_file, side_files)
    with progress("Predicting"):
        found = plan_study(
            study,
            trajectories,
            visits=visits,
            world=world,
            half_width=half_width,
            people=people,
            target_rmse=target_rmse,
            solve=solve,  # type: ignore[arg-type]  # it is checked there
            steps=steps,
        )
        mechanisms = _compare_mechanisms(found, visits, world) if every else []
    if as_json:
        print_json({**found.to_json(), **({"mechanisms": mechanisms} if every else {})})
        return
    terminal.show(describe_plan(found, mechanisms))


def _compare_mechanisms(own: Plan, visits: str | None, world: str | None) -> list[dict[str, Any]]:
    """Return the overall error of each mechanism that releases values by state."""
    study = own.study
    if own.rmse is None or study.is_off_policy:
        raise UsageError("--all needs values by state, with --visits or --world and --trajectories")
    low, high = study.return_bounds
    found = []
    for name in ("dp-ssp", *SMOOTH):
        row: dict[str, Any] = {"mechanism": name, "rmse": None, "why": ""}
        try:
            other = study.replace(mechanism=name)
            planned = plan_study(other, own.trajectories, visits=visits, world=world)
            row["rmse"] = (planned.rmse or 0.0) * (high - low if planned.relative else 1.0)
        except StudyError as problem:  # a key of this study is not for that mechanism
            row["why"] = str(problem)
        found.append(row)
    return found
