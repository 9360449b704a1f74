"""Define ``release``, which alone spends budget, and ``inspect``, whose output is PRIVATE."""

import os
from pathlib import Path
from typing import Annotated

from privalue.cli.after_charge import open_outbox, require_unused
from privalue.cli.console import log, log_warnings, print_json, progress
from privalue.cli.followup_commands import print_release, publish_and_log
from privalue.cli.inputs import load_study
from privalue.cli.options import (
    ADDRESS,
    Data,
    Engine,
    Json,
    Justification,
    Memory,
    SideFiles,
    StudyFile,
    Threads,
    advanced,
    option,
)
from privalue.cli.terminal import print_description
from privalue.curator import inspect as inspect_data
from privalue.curator import release as release_data
from privalue.errors import UsageError
from privalue.ledger import open_ledger
from privalue.report import (
    describe_diagnostics,
    load_page,
    read_answers,
    require_private_place,
    sentence,
    write_private_page,
)
from privalue.simulation import SeededForExperimentsOnly


def release(
    study_file: StudyFile,
    data: Data,
    out: Annotated[Path, option("A folder for the release and its report.")],
    ledger: Annotated[
        str | None, option("The ledger: a file, or postgresql://...; or PRIVALUE_LEDGER.")
    ] = None,
    no_ledger: Annotated[bool, option("Do not record what is spent.", "--no-ledger")] = False,
    period: Annotated[
        str | None, option("Makes an otherwise identical request a new one, e.g. 2026-11.")
    ] = None,
    justification: Justification = None,
    accept_large_delta: Annotated[
        bool, option("Go ahead although delta is at least 1/m.", "--accept-large-delta")
    ] = False,
    accept_useless: Annotated[
        bool, option("Go ahead although the values will be useless.", "--accept-useless")
    ] = False,
    expect_new: Annotated[
        bool, option("Fail (exit 4) if the ledger has this release already.", "--expect-new")
    ] = False,
    as_json: Json = False,
    no_report: Annotated[bool, advanced("Write no report.html.", "--no-report")] = False,
    side_files: SideFiles = None,
    engine: Engine = "local",
    memory: Memory = None,
    threads: Threads = None,
    seed: Annotated[
        int | None,
        advanced("A seed, for experiments: the result is NOT private.", "--seed-not-private"),
    ] = None,
) -> None:
    """Release the values once, with noise; this spends budget."""
    if ledger is None and not no_ledger:
        ledger = os.environ.get(ADDRESS) or None
    if (ledger is None) != no_ledger:
        raise UsageError(sentence("ledger_not_chosen"), code="ledger-not-chosen")
    if expect_new and no_ledger:
        raise UsageError(sentence("all_are_new"), code="all-are-new")
    require_unused(out)
    study = load_study(study_file, side_files)
    if period is not None:
        if not period.strip():  # perhaps an unset variable of a script
            raise UsageError("--period is empty; give a name, e.g. 2026-11-17")
        study = study.replace(period=period)
    answers = read_answers(study_file, justification)
    load_page()  # so that a missing template fails before the charge
    with open_outbox(out, study=study_file, justification=justification) as outbox:
        with log_warnings(), progress("Reading rows", then="Computing") as update:
            result = release_data(
                study,
                data,
                ledger=None if ledger is None else open_ledger(ledger),
                outbox=outbox,
                expect_new=expect_new,
                accept_large_delta=accept_large_delta,
                accept_useless=accept_useless,
                entropy=None if seed is None else SeededForExperimentsOnly(seed),
                engine=engine,
                memory=memory,
                threads=threads,
                progress=update,
            )
        if result.reused:
            log.event("not-new", sentence("not_new", created=result.created))
        account = publish_and_log(result, out, ledger=ledger, answers=answers, page=not no_report)
    print_release(result, out, account, as_json=as_json)


def inspect(
    study_file: StudyFile,
    data: Data,
    page: Annotated[Path | None, option("Also write a PRIVATE .html page.")] = None,
    as_json: Json = False,
    side_files: SideFiles = None,
    engine: Engine = "local",
    memory: Memory = None,
    threads: Threads = None,
) -> None:
    """Show the curator the results before noise: PRIVATE."""
    if page is not None:
        require_private_place(page)
    study = load_study(study_file, side_files)
    with progress("Reading rows", then="Computing") as update:
        diagnostics = inspect_data(
            study, data, engine=engine, memory=memory, threads=threads, progress=update
        )
    log.warn("private-output", sentence("private_output"), private=True)
    if page is not None:
        log.event("wrote", f"Wrote {write_private_page(diagnostics, page)}, PRIVATE")
    if as_json:
        print_json(diagnostics.private_columns())
    else:
        print_description(describe_diagnostics(diagnostics), sections=("private",))
