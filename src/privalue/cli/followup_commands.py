"""Define ``report``, ``refit`` and ``improve``: what can be made of a release, at no cost."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from privalue._folder import (
    DIFFERENCES,
    FILE_NAME,
    PAGE,
    REGISTRY,
    VALUES,
    require_no_private_page,
    require_publishable,
)
from privalue.cli import terminal
from privalue.cli.after_charge import require_finished
from privalue.cli.console import log, print_json, say, screen
from privalue.cli.options import (
    ADDRESS,
    NUMBER,
    WHOLE,
    Force,
    Json,
    Justification,
    ReleaseFile,
    SideFiles,
    advanced,
    option,
)
from privalue.errors import PrivalueError, UnavailableError, UsageError
from privalue.ledger import Account, open_ledger
from privalue.releases import Release
from privalue.report import (
    describe,
    publish,
    read_answers,
    release_page,
    request_for,
    require_same_study,
    save_figure,
    sentence,
    write_report,
    write_text,
)
from privalue.study import Study


def report(
    release_file: ReleaseFile,
    out: Annotated[Path | None, option("Write only the page, to this .html file.")] = None,
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
    """Make pages and tables of a release again; spends nothing."""
    release = Release.load(release_file)
    if figure is not None:
        if figure.exists() and not force:
            raise UsageError(f"{figure} exists; use --force to overwrite it", code="exists")
        _tell([save_figure(describe(release), figure, force=force)], as_json)
        return
    folder = _folder(release_file, out)
    names = [PAGE, REGISTRY, VALUES, DIFFERENCES] if out is None else [out.name]
    # What a release with --no-report left is made anew with its page.
    beside = set(names) if out is None and not (folder / PAGE).exists() else set()
    for name in names:
        if (folder / name).exists() and name not in beside and not force:
            raise UsageError(
                f"{folder / name} exists; use --force to overwrite it, or --out FILE",
                code="exists",
            )
    require_no_private_page(folder)
    if study_file is not None:
        require_same_study(release, Study.load(study_file, side_files=side_files))
    answers = read_answers(study_file)
    if justification is not None:
        answers["justification"] = justification
    account = _account_if_known(release) if ledger is None else account_of(release, ledger)
    if out is None:
        made = write_report(release, folder, account=account, answers=answers)
        _tell(list(made.values()), as_json)
    else:
        _tell([write_text(out, release_page(describe(release, account), answers))], as_json)


def _tell(files: list[Path], as_json: bool) -> None:
    if as_json:
        print_json({"files": files})
        return
    for path in files:
        say(f"Wrote {path}")


def _folder(release_file: Path, out: Path | None) -> Path:
    """Return the folder that the pages go to, or raise UsageError."""
    if out is None:
        return release_file if release_file.is_dir() else release_file.parent
    if out.suffix.lower() != ".html" or out.name == FILE_NAME:
        raise UsageError(f"--out {out}: it must end in .html")
    if not out.parent.is_dir():
        raise UsageError(f"--out {out}: {out.parent} is not a directory; create it first")
    return out.parent


def _account_if_known(release: Release) -> Account | None:
    """Return how the dataset stands on the environment's ledger; if that is not known, say so."""
    if release.ledger_head is None:
        return None
    ledger, code = os.environ.get(ADDRESS), "no-ledger-named"
    why = "this release is on a ledger, and none is named"
    try:
        if ledger:
            return account_of(release, ledger)
    except PrivalueError as problem:
        why, code = f"{ADDRESS}: {problem}", problem.code
    log.warn(code, f"{why}; the page shows no budget: --ledger LEDGER names it")
    return None


def account_of(release: Release, ledger: str) -> Account:
    """Return how the release's dataset stands on a ledger, which must have it on record."""
    opened, dataset = open_ledger(ledger), release.study["study"].get("dataset")
    if dataset is None or release.ledger_head is None:
        raise UsageError(
            "this release is on no ledger: it was made with --no-ledger; leave --ledger out",
            code="not-on-a-ledger",
        )
    return opened.account(dataset, head=release.ledger_head)


def publish_and_log(
    release: Release,
    out: Path,
    *,
    ledger: str | None = None,
    answers: Mapping[str, str] | None = None,
    page: bool = True,
    is_saved: bool = False,
) -> Account | None:
    """Write everything that a command leaves, the release first, and log where it is.

    If the ledger does not answer any more, the page states no budget: the release itself is valid.

    Args:
        release: what was paid for.
        out: the folder.
        ledger: where the release was charged, if anywhere.
        answers: for the registry and the page.
        page: whether to write the page.
        is_saved: whether the folder holds the release itself already.
    """
    found: list[Account | None] = [None]

    def account() -> Account | None:
        if ledger is not None:
            found[0] = _charged_account(release, ledger, out)
        return found[0]

    def wrote(*paths: Path) -> None:
        sizes = {path.name: path.stat().st_size for path in paths}
        log.event("wrote", f"Wrote {', '.join(map(str, paths))}", bytes=sizes)

    if is_saved:
        require_no_private_page(out)
        wrote(*write_report(release, out, account=account(), answers=answers).values())
    else:
        publish(release, out, account=account, answers=answers, page=page, wrote=wrote)
    return found[0]


def _charged_account(release: Release, ledger: str, out: Path) -> Account | None:
    try:
        account = account_of(release, ledger)
    except UnavailableError as problem:
        log.warn(
            problem.code,
            f"Ledger: {problem}; the page shows no budget: privalue report {out} --ledger LEDGER "
            "--force makes it again",
        )
        return None
    left = account.numbers(account.left, is_left=True)
    if release.reused:
        return account
    log.event(
        "charged",
        sentence(
            "charged",
            cost=account.format(account.cost(request_for(release))),
            dataset=account.dataset,
            left=account.format(account.left, is_left=True),
        ),
        epsilon=release.privacy.epsilon,
        delta=release.privacy.delta,
        left=left,
    )
    return account


def refit(
    release_file: ReleaseFile,
    out: Annotated[Path, option("A folder for the new release and its report.")],
    features: Annotated[
        str | None, option("A matrix of features: .npy, .npz, .csv or .parquet.")
    ] = None,
    aggregate: Annotated[
        int | None, option("Let this many adjacent states share one value.", **WHOLE)
    ] = None,
    tabular: Annotated[bool, option("Give every state its own value.", "--tabular")] = False,
    shrink: Annotated[
        bool, option("Keep a value for every state, shrunk to the features.", "--shrink")
    ] = False,
    start: Annotated[str | None, option("A CSV file of start probabilities.")] = None,
    level: Annotated[float | None, option("The level of intervals.", **NUMBER)] = None,
    weights: Annotated[str | None, advanced("A CSV file of weights, or uniform.")] = None,
    ridge: Annotated[str | None, advanced('Fit by LSL: a number, or "sqrt".')] = None,
    ridge_scale: Annotated[
        float | None, advanced("With --ridge sqrt: the factor of sqrt(m).", **NUMBER)
    ] = None,
    shrinkage: Annotated[
        bool | None, advanced("Shrink rarely visited states.", "--shrinkage/--no-shrinkage")
    ] = None,
    as_json: Json = False,
) -> None:
    """Fit other features to a dp-ssp release; spends nothing."""
    from privalue.cli.release_commands import show_release, summary  # noqa: PLC0415 - heavy
    from privalue.estimate import refit as refit_release  # noqa: PLC0415 - heavy

    if sum((features is not None, aggregate is not None, tabular)) > 1:
        raise UsageError("choose one of --features, --aggregate and --tabular")
    if shrink and features is None and aggregate is None:
        raise UsageError("--shrink needs features: give --features FILE or --aggregate SIZE")
    require_finished(out)
    require_publishable(out)
    fitted = refit_release(
        Release.load(release_file),
        features=features,
        size=1 if tabular else aggregate,
        shrink=shrink,
        weights=weights,
        ridge=_ridge(ridge),
        ridge_scale=ridge_scale,
        shrinkage=shrinkage,
        start=start,
        level=level,
    )
    publish_and_log(fitted, out)
    if as_json:
        print_json(summary(fitted, out, None))
    else:
        show_release(fitted)
    _log_free(release_file)


def _log_free(release_file: Path) -> None:
    log.event("nothing-spent", f"Nothing was spent: it is computed from {release_file} alone.")


def _ridge(text: str | None) -> str | float | None:
    """Return the ridge as the study takes it, or raise UsageError."""
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
        float | None, option("Change only what is clearly better at this level.", **NUMBER)
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Make a better policy from action values; spends nothing."""
    from privalue import improve as improve_policy  # noqa: PLC0415 - heavy

    better = improve_policy(release_file, level=level)
    files = better.save(out, force=force)
    if as_json:
        print_json(better.as_dict())
    else:
        terminal.show(screen(), better.description)
    log.event("wrote", f"Wrote {', '.join(map(str, files))}")
    _log_free(release_file)
