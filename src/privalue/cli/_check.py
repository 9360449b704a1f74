"""Define ``privalue check``: everything that can be said without data."""

from typing import Any

from privalue._checked import check as checked
from privalue.cli import _screen as terminal
from privalue.cli._console import Json, SideFiles, StudyFile, print_json, say, screen
from privalue.study import Study


def _stages(study: Study) -> dict[str, Any]:
    """Return what dp-ssp does before the values and after the noise, "auto" decided."""
    if study.mechanism.name != "dp-ssp":
        return {}
    towards = "features" if study.features.shrink else "states"
    return {
        "stages": list(study.stages),
        "shrinkage": towards if study.mechanism.shrinkage else None,
    }


def check(
    study_file: StudyFile,
    side_files: SideFiles = None,
    as_json: Json = False,
) -> None:
    """Check a study, and say what follows from it; opens no data."""
    found = checked(Study.load(study_file, side_files=side_files))
    study, design = found.study, found.prepared.design
    if as_json:
        print_json(
            {
                "valid": True,
                "study": study.public_description(),
                "states": found.states,
                "features": found.features,
                "return_bounds": list(study.return_bounds),
                "clamped": {
                    "rewards": list(study.values.rewards),
                    "returns": list(study.values.returns) if study.values.returns else None,
                },
                "unvisited": study.values.unvisited_value,
                **({} if found.alpha is None else {"alpha": found.alpha, "beta": found.beta}),
                **({} if found.ridge is None else {"ridge": found.ridge}),
                **_stages(study),
                "condition_number": design.weighted.condition if design.full_rank else None,
                "notes": list(found.notes),
            }
        )
    else:
        terminal.print_check(screen(), found)
        say(
            f"Next: privalue plan {study_file} predicts the error; then privalue inspect "
            f"{study_file} --data DATA shows the curator the results before noise"
        )
