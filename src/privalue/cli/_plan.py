"""Define ``privalue plan``: what to expect of a study, before any data is opened."""

from typing import Annotated

import typer

from privalue._planned import plan as planned
from privalue.cli._console import Json, SideFiles, StudyFile, print_json, progress, screen
from privalue.cli._given import NUMBER, WHOLE
from privalue.cli._plan_screen import (
    plan_json,
    policy_plan_json,
    print_plan,
    print_policy_plan,
)
from privalue.errors import UsageError
from privalue.planning import STEPS, PolicyPlan, plan_policy
from privalue.simulation import world as find_world
from privalue.study import Study


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
    target: Annotated[
        float | None,
        typer.Option(
            "--target-rmse",
            **NUMBER,
            help="The error to reach; the plan says how many trajectories that takes.",
        ),
    ] = None,
    solve: Annotated[
        str | None,
        typer.Option("--solve", help="What to change to reach it: trajectories or epsilon."),
    ] = None,
    world: Annotated[
        str | None,
        typer.Option("--world", help="A public world that the data will resemble: chain, gym:..."),
    ] = None,
    by_state: Annotated[
        bool, typer.Option("--by-state", help="Also show the predicted error of every state.")
    ] = False,
    every: Annotated[
        bool, typer.Option("--all", help="Also show the other mechanisms and calibrations.")
    ] = False,
    draws: Annotated[
        int | None,
        typer.Option("--draws", **WHOLE, help="How many made-up data sets each prediction uses."),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(
            "--steps",
            **WHOLE,
            help="With dp-ope and no world: about how many steps a trajectory has; by default "
            f"{STEPS}.",
        ),
    ] = None,
    side_files: SideFiles = None,
    as_json: Json = False,
) -> None:
    """Predict the error of a study before any data is opened."""
    study = Study.load(study_file, side_files=side_files)
    if steps is not None and not study.values_a_policy:
        raise UsageError("--steps is for dp-ope; leave it out")
    if study.values_a_policy:
        idle = {"--target-rmse": target, "--solve": solve, "--draws": draws}
        idle |= {"--by-state": by_state or None, "--all": every or None}
        for option, given in idle.items():
            if given is not None:
                raise UsageError(f"{option} is not for dp-ope; leave it out")
        valued = _policy_plan(study, trajectories, world, steps)
        print_json(policy_plan_json(valued)) if as_json else print_policy_plan(screen(), valued)
        return
    found = planned(
        study,
        trajectories,
        target_rmse=target,
        solve=solve,
        world=world,
        draws=draws,
        phase=progress,
    )
    changes, notes = found.advice, list(found.notes)
    if as_json:
        print_json(plan_json(found.prediction, changes, found.solved, notes))
    else:
        print_plan(
            screen(),
            found.prediction,
            changes,
            found.solved,
            notes,
            by_state=by_state,
            every=every,
        )


def _policy_plan(
    study: Study, trajectories: int | None, world: str | None, steps: int | None
) -> PolicyPlan:
    """Return the plan of another policy's value."""
    if world is not None and steps is not None:
        raise UsageError("--world and --steps both say how long trajectories are; give one")
    known = None if world is None else find_world(world)
    return plan_policy(study, trajectories, world=known, steps=STEPS if steps is None else steps)
