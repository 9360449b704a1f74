"""Define ``report``, ``refit``, ``pool`` and ``improve``: post-process releases at no cost."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from privalue.cli.after_charge import require_unused, tolerate_output_errors
from privalue.cli.console import log, print_json
from privalue.cli.inputs import load_release, load_study
from privalue.cli.options import (
    ADDRESS,
    Force,
    Json,
    Justification,
    ReleaseFile,
    SideFiles,
    advanced,
    argument,
    option,
    require_absent,
)
from privalue.cli.terminal import print_description, print_sentence
from privalue.curator import request_for
from privalue.errors import PrivalueError, UnavailableError, UsageError
from privalue.ledger import Account, open_ledger
from privalue.releases import Release
from privalue.report import (
    describe,
    describe_policy,
    policy_record,
    read_answers,
    save_figure,
    sentence,
    write_report,
)
from privalue.report.folders import (
    PAGE,
    REPORT_FILES,
    require_no_private_page,
    require_publishable,
)


def report(
    release_file: ReleaseFile,
    figure: Annotated[
        Path | None, option("Write only the first plot: a .png, .svg or .pdf file.")
    ] = None,
    study_file: Annotated[
        Path | None, option("The study; registry.toml beside it has your answers.", "--study")
    ] = None,
    ledger: Annotated[
        str | None, option("The ledger of the release, to show the budget; or PRIVALUE_LEDGER.")
    ] = None,
    justification: Justification = None,
    force: Force = False,
    side_files: SideFiles = None,
    as_json: Json = False,
) -> None:
    """Write a release's report and tables again; spends nothing."""
    release = load_release(release_file)
    if figure is not None:
        require_absent(figure, force)
        files = [save_figure(describe(release), figure)]
    else:
        folder = release_file if release_file.is_dir() else release_file.parent
        if (folder / PAGE).exists():  # after --no-report there is no page, and files are rewritten
            for name in REPORT_FILES:
                require_absent(folder / name, force)
        require_no_private_page(folder)
        study = None if study_file is None else load_study(study_file, side_files)
        account = _find_account(release) if ledger is None else account_of(release, ledger)
        answers = read_answers(study_file, justification)
        report_files = write_report(release, folder, study=study, account=account, answers=answers)
        files = list(report_files.values())
    if as_json:
        print_json({"files": files})
    else:
        print_sentence("wrote", files=files)


def _find_account(release: Release) -> Account | None:
    """Return the account on the environment's ledger; if it is unavailable, log why."""
    if release.ledger_head is None:
        return None
    ledger, code, why = os.environ.get(ADDRESS), "no-ledger-named", ""
    try:
        if ledger:
            return account_of(release, ledger)
    except PrivalueError as problem:
        code, why = problem.code, str(problem)
    log.warn(code, sentence("no_budget_shown", why=why))
    return None


def account_of(release: Release, ledger: str) -> Account:
    """Return the account of a release's dataset on a ledger, which must have the release."""
    dataset = release.study["study"].get("dataset")
    if dataset is None or release.ledger_head is None:
        raise UsageError(
            "this release is on no ledger: it was made with --no-ledger; leave --ledger out",
            code="not-on-a-ledger",
        )
    return open_ledger(ledger).account(dataset, head=release.ledger_head)


def publish_and_log(
    release: Release,
    out: Path,
    *,
    ledger: str | None = None,
    answers: Mapping[str, str] | None = None,
    page: bool = True,
    is_saved: bool = False,
) -> Account | None:
    """Write all files of a release, the release itself first, and log their paths.

    If the ledger no longer answers, the page states no budget: the release itself is valid.

    Args:
        release: the release.
        out: the folder.
        ledger: the ledger that was charged, if any.
        answers: for the registry and the page.
        page: whether to write the page.
        is_saved: whether the folder already holds release.json.
    """
    if is_saved:
        require_no_private_page(out)
    else:
        require_publishable(out)
        _log_files(release.save(out))
    account = None
    try:
        account = None if ledger is None else account_of(release, ledger)
    except UnavailableError as problem:
        log.warn(problem.code, sentence("no_budget_shown", why=str(problem)))
    if account is not None and not release.reused:
        cost = account.cost(request_for(release.privacy, release.study))
        log.event(
            "charged",
            sentence("charged", account=account, cost=cost),
            epsilon=release.privacy.epsilon,
            delta=release.privacy.delta,
            left=account.numbers(account.left, is_left=True),
        )
    files = write_report(release, out, account=account, answers=answers, page=page)
    _log_files(*files.values())
    return account


@tolerate_output_errors()
def print_release(
    release: Release, folder: Path, account: Account | None = None, *, as_json: bool
) -> None:
    """Print the guarantee, the verdict and the values; or a summary as JSON."""
    description = describe(release, account=account)
    if as_json:
        print_json(
            {
                "folder": folder,
                "sha256": release.sha256,
                "private": release.private,
                "reused": release.reused,
                "verdict": description.verdict,
                "notices": description.as_dict()["notices"],
                "values": description["values.heading"],
                "result": description.results(),
                "charged": None if release.reused else description["budget.cost"],
                "left": description.get("budget.left"),
            }
        )
    else:
        print_description(description, sections=("result",), with_verdict=True)


def _log_files(*paths: Path) -> None:
    sizes = {path.name: path.stat().st_size for path in paths}
    log.event("wrote", f"Wrote {', '.join(map(str, paths))}", bytes=sizes)


def refit(
    release_file: ReleaseFile,
    out: Annotated[Path, option("A folder for the new release and its report.")],
    features: Annotated[
        str | None, option("A matrix of features: .npy, .npz, .csv or .parquet.")
    ] = None,
    aggregate: Annotated[
        int | None, option("Let this many adjacent states share one value.")
    ] = None,
    tabular: Annotated[bool, option("Give every state its own value.", "--tabular")] = False,
    shrink: Annotated[
        bool, option("Keep a value for every state, shrunk to the features.", "--shrink")
    ] = False,
    start: Annotated[str | None, option("A CSV file of start probabilities.")] = None,
    level: Annotated[float | None, option("The level of intervals.")] = None,
    weights: Annotated[str | None, advanced("A CSV file of weights, or uniform.")] = None,
    ridge: Annotated[str | None, advanced('Fit by LSL: a number, or "sqrt".')] = None,
    ridge_scale: Annotated[
        float | None, advanced("With --ridge sqrt: the factor of sqrt(m).")
    ] = None,
    shrinkage: Annotated[
        bool | None, advanced("Shrink rarely visited states.", "--shrinkage/--no-shrinkage")
    ] = None,
    as_json: Json = False,
) -> None:
    """Fit other features to a dp-ssp release; spends nothing."""
    from privalue.estimate import refit as refit_release  # noqa: PLC0415 - heavy

    if sum((features is not None, aggregate is not None, tabular)) > 1:
        raise UsageError("choose one of --features, --aggregate and --tabular")
    if shrink and features is None and aggregate is None:
        raise UsageError("--shrink needs features: give --features FILE or --aggregate SIZE")
    require_unused(out)
    result = refit_release(
        load_release(release_file),
        features=features,
        size=1 if tabular else aggregate,
        shrink=shrink or None,
        weights=weights,
        ridge=_ridge(ridge),
        ridge_scale=ridge_scale,
        shrinkage=shrinkage,
        start=start,
        level=level,
    )
    _publish_for_free(result, out, release_file, as_json=as_json)


def _publish_for_free(release: Release, out: Path, *sources: Path, as_json: bool) -> None:
    """Write a release that was computed from other releases, and show it."""
    publish_and_log(release, out)
    print_release(release, out, as_json=as_json)
    log.event("nothing-spent", sentence("nothing_spent", source=", ".join(map(str, sources))))


def pool(
    release_files: Annotated[
        list[Path], argument("RELEASE...", "Releases: folders, or their release.json.")
    ],
    out: Annotated[Path, option("A folder for the pooled release and its report.")],
    same_people: Annotated[
        bool, option("One person may be in all of them: add up their costs.", "--same-people")
    ] = False,
    start: Annotated[str | None, option("A CSV file of start probabilities.")] = None,
    level: Annotated[float | None, option("The level of intervals.")] = None,
    as_json: Json = False,
) -> None:
    """Pool releases of the same study into one; spends nothing."""
    from privalue.estimate import pool as pool_releases  # noqa: PLC0415 - heavy

    require_unused(out)
    result = pool_releases(release_files, same_people=same_people, start=start, level=level)
    _publish_for_free(result, out, *release_files, as_json=as_json)


def _ridge(text: str | None) -> str | float | None:
    """Return the ridge as a number or "sqrt", or raise UsageError."""
    if text is None or text == "sqrt":
        return text
    try:
        return float(text)
    except ValueError:
        raise UsageError(f'--ridge {text}: it must be a number above 0, or "sqrt"') from None


def improve(
    release_file: ReleaseFile,
    out: Annotated[Path, option("A .csv file; .json and .html are written beside it.")],
    level: Annotated[
        float | None, option("Change only what is clearly better at this level.")
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Compute a better policy from action values; spends nothing."""
    from privalue import improve as improve_policy  # noqa: PLC0415 - heavy

    improvement = improve_policy(load_release(release_file), level=level)
    files = improvement.save(out, force=force)
    if as_json:
        print_json(policy_record(improvement))
    else:
        print_description(describe_policy(improvement))
    _log_files(*files)
    log.event("nothing-spent", sentence("nothing_spent", source=release_file))
