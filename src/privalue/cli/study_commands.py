"""Define ``init``, ``check`` and ``plan``, the commands before any data is opened."""

from pathlib import Path
from typing import Annotated, Any

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
from privalue.cli.terminal import print_description, print_sentence
from privalue.core import MECHANISMS
from privalue.errors import StudyError, UsageError
from privalue.planning import Plan
from privalue.planning import plan as plan_study
from privalue.readers import column_names
from privalue.report import check as check_study
from privalue.report import describe_plan, write_text
from privalue.study import study_template


def init(
    path: Annotated[Path, argument("FILE", "Where to write the study file.")] = Path("study.toml"),
    data: Annotated[
        str | None, option("Fill in the columns from this file's headings; reads no row.")
    ] = None,
    full: Annotated[bool, option("Write every key, with the values it allows.", "--all")] = False,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write a short study file, which runs on the built-in chain."""
    require_absent(path, force)
    if data is None:
        write_text(path, study_template(full=full))
        if as_json:
            print_json({"study": path})
        else:
            print_sentence("study_written", path=path)
        return
    names, heading = column_names(data)
    guesses = guess(names, heading)
    comments = {**guesses.questions, **guesses.hints}
    write_text(path, study_template(guesses.values, comments, full=full))
    questions, hints = (
        {f"[{section}] {key}": text for (section, key), text in texts.items()}
        for texts in (guesses.questions, guesses.hints)
    )
    if as_json:
        headings = {"columns": dict(guesses.columns), "heading": dict(heading)}
        print_json({"study": path, **headings, "questions": questions, "hints": hints})
    else:
        settings = {role: join_columns([name]) for role, name in guesses.columns.items()}
        settings |= {key: repr(text) for key, text in heading.items()}
        about = {"unread": join_columns(guesses.unread), "questions": {**questions, **hints}}
        print_sentence("study_guessed", path=path, guesses=settings, **about)


def check(
    study_file: StudyFile,
    side_files: SideFiles = None,
    as_json: Json = False,
) -> None:
    """Validate a study file (reads no data)."""
    result = check_study(load_study(study_file, side_files))
    if as_json:
        print_json(result.as_dict())
        return
    print_description(result.description, sections=("study",))
    print_sentence("after_check", study=study_file)


def plan(
    study_file: StudyFile,
    trajectories: Annotated[
        int | None, option("The expected number of trajectories; by default as declared.")
    ] = None,
    visits: Annotated[
        str | None, option("A CSV file with the probability that a trajectory visits each state.")
    ] = None,
    world: Annotated[
        str | None, option("A public world that the data will resemble: chain, gym:...")
    ] = None,
    compare: Annotated[
        bool, option("With --visits or --world: compare all mechanisms.", "--all")
    ] = False,
    half_width: Annotated[
        float | None,
        option("Target half-width of a state's interval: finds how many people it needs."),
    ] = None,
    people: Annotated[
        int | None, option("With --half-width: finds the epsilon for this many people.")
    ] = None,
    target_rmse: Annotated[
        float | None, advanced("Target overall error, with --visits or --world.")
    ] = None,
    solve: Annotated[
        str | None, advanced("What to solve for, to reach it: trajectories or epsilon.")
    ] = None,
    steps: Annotated[int | None, advanced("The most rows of a trajectory, if public.")] = None,
    side_files: SideFiles = None,
    as_json: Json = False,
) -> None:
    """Predict the error of a study before any data is opened."""
    study = load_study(study_file, side_files)
    with progress("Predicting"):
        prediction = plan_study(
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
        mechanisms = _compare_mechanisms(prediction, visits, world) if compare else []
    if as_json:
        print_json({**prediction.to_json(), **({"mechanisms": mechanisms} if compare else {})})
        return
    print_description(describe_plan(prediction, mechanisms))


def _compare_mechanisms(
    prediction: Plan, visits: str | None, world: str | None
) -> list[dict[str, Any]]:
    """Return the overall error of each mechanism that releases values by state."""
    study = prediction.study
    if prediction.rmse is None or study.is_off_policy:
        raise UsageError("--all needs values by state, with --visits or --world and --trajectories")
    low, high = study.values.return_bounds
    rows = []
    for name in (name for name in MECHANISMS if name != "dp-ope"):
        row: dict[str, Any] = {"mechanism": name, "rmse": None, "why": ""}
        try:
            other = study.replace(mechanism=name)
            alternative = plan_study(other, prediction.trajectories, visits=visits, world=world)
            row["rmse"] = (alternative.rmse or 0.0) * (high - low if alternative.relative else 1.0)
        except StudyError as problem:  # a key of this study is not for that mechanism
            row["why"] = str(problem)
        rows.append(row)
    return rows
