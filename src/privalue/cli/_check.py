"""Define ``privalue check``: everything that can be said without data."""

from privalue.cli import _screen as terminal
from privalue.cli._console import Json, SideFiles, StudyFile, print_json, say, screen
from privalue.cli._given import settled
from privalue.curator import prepare
from privalue.study import declared_size, ridge_of


def check(study_file: StudyFile, side_files: SideFiles = None, as_json: Json = False) -> None:
    """Say everything that can be said without data."""
    prepared = prepare(settled(study_file, side_files))
    study, design, constants = prepared.study, prepared.design, prepared.calibration
    ridge = None if constants is None else ridge_of(study, declared_size(study).trajectories)
    if as_json:
        print_json(
            {
                "valid": True,
                "study": study.public_description(),
                "states": design.states,
                "features": design.dimension,
                "return_bounds": list(study.return_bounds),
                "clamped": {
                    "rewards": list(study.values.rewards),
                    "returns": list(study.values.returns) if study.values.returns else None,
                },
                "unvisited": study.values.unvisited_value,
                **({} if constants is None else {"alpha": constants.alpha, "beta": constants.beta}),
                **({} if ridge is None else {"ridge": ridge}),
                "condition_number": design.weighted.condition if design.full_rank else None,
                "notes": terminal.advice(prepared),
            }
        )
    else:
        terminal.print_check(screen(), prepared)
        say(
            f"Next: privalue plan {study_file}, the error to expect; then privalue inspect "
            f"{study_file} --data DATA, for the curator's eyes"
        )
