"""Define ``privalue audit``: try to break the guarantee of a study, on made-up neighbours."""

from dataclasses import asdict
from typing import Annotated

import typer

from privalue.cli.console import print_json, progress
from privalue.cli.inputs import load_study
from privalue.cli.options import Json, SideFiles, StudyFile, option
from privalue.cli.terminal import show_listing, tell
from privalue.errors import UsageError
from privalue.planning.audit import DRAWS, PLANTED, audit_study
from privalue.report import Listing

EXIT_REJECTED = 70  # a bug of ours
HEADS = ("stage", "noise", "apart", "epsilon", "exact", "measured", "at least", "")


def audit(
    study_file: StudyFile,
    side_files: SideFiles = None,
    draws: Annotated[int, option("How often noise is drawn for each data set.")] = DRAWS,
    as_json: Json = False,
) -> None:
    """Try to break a study's guarantee, on made-up data."""
    if not 1000 <= draws <= 10**7:
        raise UsageError(f"--draws {draws}: it must be from 1000 to 10000000")
    study = load_study(study_file, side_files)
    with progress("Auditing"):
        found = audit_study(study, draws=draws)
    planted = all(stage.planted.rejected for stage in found.stages)
    verdict = {"rejected": found.rejected, "planted_rejected": planted}
    if as_json:
        print_json({**asdict(found), **verdict})
    else:
        rows = [
            (
                stage.stage,
                noise,
                stage.people,
                f"{audited.epsilon:.3g}",
                f"{audited.claimed:.4f}",
                f"{audited.estimate:.4f}",
                f"{audited.lower:.4f}",
                "rejected" if audited.rejected else "",
            )
            for stage in found.stages
            for noise, audited in (("its own", stage.sound), (f"{PLANTED:.0%}", stage.planted))
        ]
        title = "delta of data sets so many people apart, exact and measured"
        show_listing(Listing("audit", title, HEADS, rows))
        tell("audited", claimed=found.claimed, epsilon=found.epsilon, worst=found.worst, **verdict)
    if found.rejected:
        raise typer.Exit(EXIT_REJECTED)
