"""Define ``release``, the one command that spends, and ``inspect``, which shows what is private."""

import os
from pathlib import Path
from typing import Annotated, Any

from privalue._folder import require_publishable
from privalue.cli import terminal
from privalue.cli.after_charge import outbox_of, require_finished
from privalue.cli.allocator import keep_freed_memory
from privalue.cli.console import log, notes, print_json, progress, screen
from privalue.cli.followup_commands import publish_and_log
from privalue.cli.options import (
    ADDRESS,
    WHOLE,
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
    parse_memory,
)
from privalue.core import SeededForExperimentsOnly
from privalue.curator import inspect as inspect_data
from privalue.curator import release as release_data
from privalue.errors import UsageError
from privalue.ledger import Account, open_ledger
from privalue.planning import mechanism_of_study, usefulness
from privalue.releases import Release
from privalue.report import (
    describe,
    describe_diagnostics,
    load_page,
    read_answers,
    require_private_place,
    sentence,
    write_private_page,
)
from privalue.study import SMOOTH, Study


def release(
    study_file: StudyFile,
    data: Data,
    out: Annotated[Path, option("A folder for the release and its report.")],
    ledger: Annotated[
        str | None, option("The ledger: a file, or postgresql://...; or PRIVALUE_LEDGER.")
    ] = None,
    no_ledger: Annotated[bool, option("Do not record what this spends.", "--no-ledger")] = False,
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
        advanced(
            "A seed, for experiments: the result is NOT private.", "--seed-not-private", **WHOLE
        ),
    ] = None,
) -> None:
    """Release the values once, with noise; this spends budget."""
    if ledger is None and not no_ledger:
        ledger = os.environ.get(ADDRESS) or None
    if (ledger is None) != no_ledger:
        raise UsageError(
            "choose one: --ledger FILE (or PRIVALUE_LEDGER) records what the release spends; with "
            "--no-ledger nobody does, and you keep count of epsilon and delta yourself",
            code="ledger-not-chosen",
        )
    limit = parse_memory(memory)
    require_finished(out)
    require_publishable(out)
    study = Study.load(study_file, side_files=side_files)
    if period is not None:
        study = study.replace(period=period)
    log.dataset = study.study.dataset
    answers = read_answers(study_file)
    if justification is not None:
        answers["justification"] = justification
    keep_freed_memory()
    if not no_report:
        load_page()  # what would fail to load fails before the charge
    of_use = _of_use(study)
    with outbox_of(out, study=study_file, justification=justification) as outbox:
        with notes(), progress("Reading rows", then="Computing") as update:
            released = release_data(
                study,
                data,
                ledger=None if ledger is None else open_ledger(ledger),
                outbox=outbox,
                expect_new=expect_new,
                accept_large_delta=accept_large_delta,
                accept_useless=accept_useless,
                entropy=None if seed is None else SeededForExperimentsOnly(seed),
                engine=engine,
                memory=limit,
                threads=threads,
                progress=update,
            )
        if released.reused:
            log.event("not-new", sentence("not_new", created=released.created))
        elif of_use is not None:
            log.event("of-use", of_use)
        account = publish_and_log(released, out, ledger=ledger, answers=answers, page=not no_report)
    if as_json:
        print_json(summary(released, out, account))
    else:
        show_release(released)


def _of_use(study: Study) -> str | None:
    """Return from how many visits on a value will be of use, where m is public and that is known.

    It is found before the charge: afterwards nothing may fail.
    """
    m = study.study.trajectories
    if study.mechanism.name in SMOOTH or (m is None and not study.limits.counts_trajectories):
        return None
    return f"{usefulness(study, mechanism_of_study(study, m), m).text}.".capitalize()


def show_release(released: Release) -> None:
    """Print the guarantee, the verdict and the values; first, whether it is not new."""
    if released.reused:
        screen().print(sentence("not_new", created=released.created), style="bold yellow")
    description = describe(released)
    terminal.show(
        screen(),
        description,
        sentence="privacy.sentence",
        sections=("result",),
        listings=False,
        with_verdict=True,
    )


def summary(released: Release, folder: Path, account: Account | None) -> dict[str, Any]:
    """Return what ``--json`` prints: the release itself is in the folder."""
    description = describe(released, account)
    overall = {
        fact.key.removeprefix("result."): fact.value
        for fact in description.facts
        if fact.key.startswith("result.") and fact.key != "result.guarantee"
    }
    left = None if account is None else account.numbers(account.left, is_left=True)
    charged = released.private and released.refit_of is None and not released.reused
    privacy = released.privacy
    return {
        "folder": str(folder),
        "sha256": released.sha256,
        "private": released.private,
        "reused": released.reused,
        "verdict": description.verdict,
        "notices": description.as_dict()["notices"],
        "result": overall,
        "charged": {"epsilon": privacy.epsilon, "delta": privacy.delta} if charged else None,
        "left": left,
    }


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
    limit = parse_memory(memory)
    if page is not None:
        require_private_place(page)
    study = Study.load(study_file, side_files=side_files)
    log.dataset = study.study.dataset
    keep_freed_memory()
    with progress("Reading rows", then="Computing") as update:
        diagnostics = inspect_data(
            study, data, engine=engine, memory=limit, threads=threads, progress=update
        )
    log.event(
        "private-output",
        "PRIVATE: for the curator only. None of this may be published.",
        level="warning",
        style="bold red",
        private=True,
    )
    if page is not None:
        log.event("wrote", f"Wrote {write_private_page(diagnostics, page)}, PRIVATE")
    if as_json:
        print_json(diagnostics.private_columns())
    else:
        terminal.show(screen(), describe_diagnostics(diagnostics), sections=("private",))
