"""Define ``privalue plan``: what to expect of a study, before any data is opened."""

from pathlib import Path
from typing import Annotated

import typer

from privalue.cli._console import Json, SideFiles, StudyFile, log, print_json, progress, screen
from privalue.cli._given import NUMBER, WHOLE
from privalue.cli._plan_screen import Solved, plan_json, plan_notes, print_plan
from privalue.core import MOST_TRAJECTORIES
from privalue.errors import StudyError, UsageError
from privalue.planning import (
    Answer,
    Option,
    Prediction,
    PublicModel,
    advice,
    aggregation_for,
    checked_target,
    epsilon_for,
    main_options,
    planned_trajectories,
    predict,
    public_model,
    resolve,
    trajectories_for,
)
from privalue.report import checked_picture, curves_of, draw_plan, trajectories_around
from privalue.simulation import World, parse_world
from privalue.study import Study

SOLVED = ("trajectories", "epsilon", "aggregation")


def plan(
    study_file: StudyFile,
    trajectories: Annotated[
        int | None,
        typer.Option(
            "--trajectories", **WHOLE, help="How many; as the study declares, if left out."
        ),
    ] = None,
    target: Annotated[
        float | None,
        typer.Option("--target-rmse", **NUMBER, help="The error to reach: says how many it takes."),
    ] = None,
    solve: Annotated[
        str | None,
        typer.Option("--solve", help="What reaches it: trajectories, epsilon or aggregation."),
    ] = None,
    world: Annotated[
        str | None,
        typer.Option("--world", help="A public MDP that the data will resemble: chain, gym:..."),
    ] = None,
    picture: Annotated[
        Path | None, typer.Option("--picture", help="A .png or .svg file for error against m.")
    ] = None,
    by_state: Annotated[
        bool, typer.Option("--by-state", help="Also show the predicted error of every state.")
    ] = False,
    draws: Annotated[
        int | None, typer.Option("--draws", **WHOLE, help="Made-up data sets per prediction.")
    ] = None,
    side_files: SideFiles = None,
    as_json: Json = False,
) -> None:
    """Predict the error of a study before any data is opened."""
    quantity = _checked_question(solve, target)
    if draws is not None and not 8 <= draws <= 100_000:
        raise UsageError(f"--draws {draws}: it must be from 8 to 100000")
    if picture is not None:
        checked_picture(picture)
    study = Study.load(study_file, side_files=side_files)
    known = None if world is None else world_named(world)
    if quantity != "trajectories" or trajectories is not None:
        planned_trajectories(study, trajectories)  # complains before anything takes time
    solved, m, notes = None, trajectories, []
    with progress("Looking at the model"):
        resolved = resolve(study, trajectories=m)
        model = public_model(resolved.study, known)
    if quantity is not None and target is not None:
        solved = _solved(quantity, target, resolved.study, model, m, known, draws)
        m = m or _enough(solved, study.study.trajectories)
    if study.mechanism.name == "auto":
        resolved = resolve(study, trajectories=m)
        notes.append(f"name = {resolved.why}")
    with progress("Predicting") as report:
        prediction = predict(resolved.study, model, trajectories=m, draws=draws, progress=report)
    with progress("Looking for what would help") as report:
        changes = advice(prediction, known, draws=draws, progress=report)
    notes += plan_notes(prediction)
    if picture is not None:
        _draw(prediction, picture, target)
    if as_json:
        print_json(plan_json(prediction, changes, solved, notes))
    else:
        print_plan(screen(), prediction, changes, solved, notes, by_state)


def _checked_question(solve: str | None, target: float | None) -> str | None:
    """Return what is to be solved for, or None; raise UsageError if options do not fit."""
    if solve is not None and solve not in SOLVED:
        raise UsageError(f"--solve {solve}: it must be trajectories, epsilon or aggregation")
    if target is None:
        if solve is not None:
            raise UsageError(f"--solve {solve} needs a target: --target-rmse 0.05, for example")
        return None
    checked_target(target)
    return solve or "trajectories"


def world_named(text: str) -> World:
    """Return the world of that name; raise UsageError if there is none."""
    try:
        return parse_world(text)
    except StudyError as problem:
        raise UsageError(str(problem)) from None


def _solved(
    quantity: str,
    target: float,
    study: Study,
    model: PublicModel,
    trajectories: int | None,
    world: World | None,
    draws: int | None,
) -> Solved:
    """Return the answers to what was asked, mechanism by mechanism.

    Args:
        quantity: what is solved for: "trajectories", "epsilon" or "aggregation".
        target: the error to reach.
        study: the study, its mechanism chosen.
        model: what is assumed about the data.
        trajectories: m, if it was given.
        world: the public MDP that the data will resemble, if one was given.
        draws: made-up data sets per prediction.
    """
    with progress(f"Solving for {quantity}") as report:
        if quantity == "aggregation":
            m = planned_trajectories(study, trajectories)
            found = aggregation_for(
                study,
                target,
                trajectories=m,
                world=world,
                model=model,
                draws=draws,
                progress=report,
            )
            return Solved(quantity=quantity, target=target, aggregation=found)
        answers = []
        options = main_options(study)
        for done, option in enumerate(options):
            report(done, len(options))
            answers.append(_answer(quantity, option, model, target, study, trajectories, draws))
        return Solved(quantity=quantity, target=target, answers=answers)


def _answer(
    quantity: str,
    option: Option,
    model: PublicModel,
    target: float,
    study: Study,
    trajectories: int | None,
    draws: int | None,
) -> Answer:
    """Return what one mechanism needs for the target."""
    if quantity == "trajectories":
        return trajectories_for(option, model, target, draws=draws)
    m = planned_trajectories(study, trajectories)
    return epsilon_for(option, model, target, trajectories=m, draws=draws)


def _enough(solved: Solved, declared: int | None) -> int:
    """Return the m that the prediction is shown for: what the study's own mechanism needs.

    If that is not reachable, or was not asked: m as declared, or what another mechanism needs.
    """
    if solved.quantity == "trajectories" and solved.own is not None and solved.own.reached:
        return int(solved.own.value or 0)
    others = [answer.value for answer in solved.answers if answer.value is not None]
    return declared or int(min(others, default=MOST_TRAJECTORIES))


def _draw(prediction: Prediction, file: Path, target: float | None) -> None:
    """Draw the error against m, and log the file."""
    numbers = trajectories_around(prediction.trajectories)
    with progress("Drawing") as report:
        curves = curves_of(prediction, numbers, progress=report)
        try:
            draw_plan(prediction, curves, numbers, file=file, target=target)
        except OSError as problem:
            raise UsageError(f"cannot write {file}: {problem.strerror}") from None
    log.print(f"Wrote {file}")
