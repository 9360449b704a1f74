"""Define ``privalue audit``: try to break the guarantee of a study, on made-up neighbours."""

from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich import box
from rich.table import Table

from privalue.audit import DRAWS, PLANTED, Audit, audit_study
from privalue.cli.console import print_json, progress, say, screen
from privalue.cli.options import WHOLE, Json, SideFiles, StudyFile
from privalue.errors import UsageError
from privalue.study import Study

EXIT_REJECTED = 70  # a bug of ours


def audit(
    study_file: StudyFile,
    side_files: SideFiles = None,
    draws: Annotated[
        int, typer.Option("--draws", **WHOLE, help="How often noise is drawn for each data set.")
    ] = DRAWS,
    as_json: Json = False,
) -> None:
    """Try to break a study's guarantee, on made-up data."""
    if not 1000 <= draws <= 10**7:
        raise UsageError(f"--draws {draws}: it must be from 1000 to 10000000")
    study = Study.load(study_file, side_files=side_files)
    with progress("Auditing"):
        found = audit_study(study, draws=draws)
    if as_json:
        print_json(
            {
                **asdict(found),
                "rejected": found.rejected,
                "planted_rejected": found.planted_rejected,
            }
        )
    else:
        say(
            f"Claimed: delta = {found.claimed:g} at epsilon = {found.epsilon:g}. Exact delta of "
            f"made-up neighbours: {found.worst:.3g}."
        )
        title = "delta of data sets so many people apart, exact and measured"
        table = Table(title=title, title_justify="left", box=box.SIMPLE)
        for heading in ("stage", "noise", "apart", "epsilon", "exact", "measured", "at least", ""):
            table.add_column(heading)
        for stage in found.stages:
            for noise, audited in (("its own", stage.sound), (f"{PLANTED:.0%}", stage.planted)):
                table.add_row(stage.stage, noise, str(stage.people), *_cells(audited))
        screen().print(table)
        own = "REJECTED: do not release with it" if found.rejected else "not rejected"
        planted = "rejected" if found.planted_rejected else "NOT rejected: use more --draws"
        say(f"The study's own noise is {own}; a twentieth less noise is {planted}.")
    if found.rejected:
        raise typer.Exit(EXIT_REJECTED)


def _cells(audited: Audit) -> tuple[Any, ...]:
    return (
        f"{audited.epsilon:.3g}",
        f"{audited.claimed:.4f}",
        f"{audited.estimate:.4f}",
        f"{audited.lower:.4f}",
        "rejected" if audited.rejected else "",
    )
