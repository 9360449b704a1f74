"""Define ``privalue audit``: test the guarantee of a study on simulated neighbours."""

from dataclasses import asdict
from typing import Annotated

import typer

from privalue.cli.console import print_json, progress
from privalue.cli.inputs import load_study
from privalue.cli.options import Json, SideFiles, StudyFile, option
from privalue.cli.terminal import print_sentence
from privalue.planning.audit import DRAWS, audit_study


def audit(
    study_file: StudyFile,
    side_files: SideFiles = None,
    draws: Annotated[
        int, option("Draws of the noise for each data set.", min=1000, max=10**7)
    ] = DRAWS,
    as_json: Json = False,
) -> None:
    """Test a study's guarantee on simulated neighbours."""
    study = load_study(study_file, side_files)
    with progress("Auditing"):
        stages = audit_study(study, draws=draws)
    verdict = {
        "epsilon": study.privacy.epsilon,
        "delta": study.privacy.delta,
        "rejected": any(stage.rejected for stage in stages),
        "planted_rejected": all(stage.planted.rejected for stage in stages),
    }
    if as_json:
        print_json({**verdict, "stages": [asdict(stage) for stage in stages]})
    else:
        print_sentence("audited", **verdict, stages=stages)
    if verdict["rejected"]:
        raise typer.Exit(70)  # an internal error: the noise is wrong
