"""Define ``init``, ``check`` and ``plan``: what to do before any data is opened."""

from pathlib import Path
from typing import Annotated

from privalue.cli import terminal
from privalue.cli.column_names import guess, join_columns, key_name
from privalue.cli.console import print_json, progress, say, screen
from privalue.cli.options import (
    NUMBER,
    WHOLE,
    Force,
    Json,
    SideFiles,
    StudyFile,
    advanced,
    argument,
    option,
    require_absent,
)
from privalue.errors import UsageError
from privalue.readers import column_names
from privalue.report import check as check_study
from privalue.study import Study, study_template


def init(
    path: Annotated[Path, argument("FILE", "Where to write the study file.")] = Path("study.toml"),
    data: Annotated[
        str | None, option("Name columns as this file's headings do; reads no row.")
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write a commented study file."""
    require_absent(path, force)
    guesses = None if data is None else guess(*column_names(data))
    text = (
        study_template()
        if guesses is None
        else study_template(guesses.values, {**guesses.questions, **guesses.hints})
    )
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as problem:
        raise UsageError(f"cannot write {path}: {problem.strerror}", code="cannot-write") from None
    if as_json:
        print_json({"study": str(path), **({} if guesses is None else guesses.as_dict())})
    elif guesses is None:
        say(f"Wrote {path}. Edit it, then: privalue check {path}")
    else:
        say("Guessed from the names of columns alone; no row was looked at:")
        for role, name in guesses.columns.items():
            say(f"  {role:<12}{join_columns([name])}")
        if guesses.unread:
            say(f"  {'not read':<12}{join_columns(guesses.unread)}")
        say("Left to you:")
        for about, question in {**guesses.questions, **guesses.hints}.items():
            say(f"  {key_name(about)}: {question}")
        say(f"Wrote {path}. Answer what it asks, then: privalue check {path}")


def check(
    study_file: StudyFile,
    side_files: SideFiles = None,
    as_json: Json = False,
) -> None:
    """Validate a study file (reads no data)."""
    checked = check_study(Study.load(study_file, side_files=side_files))
    if as_json:
        print_json(checked.as_dict())
        return
    terminal.show(screen(), checked.description, sections=("study",))
    say(
        f"Next: privalue plan {study_file} predicts the error; then privalue inspect {study_file} "
        "--data DATA shows the curator the results before noise"
    )


def plan(
    study_file: StudyFile,
    trajectories: Annotated[
        int | None, option("How many there will be; by default as declared.", **WHOLE)
    ] = None,
    visits: Annotated[
        str | None, option("A CSV file: how probable a visit of each state is.")
    ] = None,
    world: Annotated[
        str | None, option("A public world that the data will resemble: chain, gym:...")
    ] = None,
    half_width: Annotated[
        float | None, option("Of a state's interval: how many people does it take?", **NUMBER)
    ] = None,
    people: Annotated[
        int | None, option("With --half-width: which epsilon for so many people?", **WHOLE)
    ] = None,
    target_rmse: Annotated[
        float | None, advanced("An overall error to reach, with --visits or --world.", **NUMBER)
    ] = None,
    solve: Annotated[
        str | None, advanced("What to change to reach it: trajectories or epsilon.")
    ] = None,
    steps: Annotated[
        int | None, advanced("With dp-ope: the most rows of a trajectory, if public.", **WHOLE)
    ] = None,
    side_files: SideFiles = None,
    as_json: Json = False,
) -> None:
    """Predict the error of a study before any data is opened."""
    from privalue.planning import plan as plan_study  # noqa: PLC0415 - heavy
    from privalue.report import describe_plan  # noqa: PLC0415 - heavy

    study = Study.load(study_file, side_files=side_files)
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
    if as_json:
        print_json(found.to_json())
        return
    say(found.headline)
    terminal.show(screen(), describe_plan(found), sections=("plan",))
