"""Write the files of a release: release.json, its tables, registry.yaml and report.html.

The release itself is written first, so that it exists whatever happens afterwards; the other files
can be written again (``privalue report``). A folder that holds a private page of the curator or any
of these files is refused.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from privalue.ledger import Account
from privalue.releases import Release
from privalue.report.files import table_csv, write_text
from privalue.report.folders import PAGE, REGISTRY, require_publishable
from privalue.report.html import PUBLIC_MARK, render
from privalue.report.release_facts import describe, require_same_study
from privalue.study import Study


@dataclass(frozen=True, kw_only=True)
class ReleaseFiles:
    """The paths of the files of a release; None for files that were not written."""

    release: Path
    registry: Path
    values: Path
    differences: Path | None = None
    page: Path | None = None


def publish(
    release: Release,
    folder: str | Path,
    *,
    study: Study | None = None,
    account: Account | None = None,
    answers: Mapping[str, str] | None = None,
    page: bool = True,
) -> ReleaseFiles:
    """Write a release and its report into a folder; a release is never overwritten.

    Args:
        release: the release.
        folder: the folder, which is created if missing.
        study: the release's study, which must equal the study that the release describes.
        account: the dataset's account on its ledger, ``ledger.account(dataset)``.
        answers: for the registry and the page, such as ``justification``; public.
        page: whether to write report.html, which takes longer than all other files.

    Returns:
        The paths of the files.

    Raises:
        UsageError: the folder holds a release, a report or a private page, or cannot be written.

    >>> from tempfile import TemporaryDirectory
    >>> import privalue as pv
    >>> study = pv.Study(
    ...     states=["ill", "well"], discount=0.9, returns=(0, 1),
    ...     epsilon=1.0, delta=1e-5, unit="trajectory",
    ... )
    >>> release = pv.release(study, [[("ill", 0.0), ("well", 1.0)]] * 1000)
    >>> with TemporaryDirectory() as folder:
    ...     files = pv.publish(release, folder, study=study)
    ...     print(files.release.name, files.values.name, files.registry.name, files.page.name)
    release.json values.csv registry.yaml report.html
    """
    if study is not None:
        require_same_study(release, study)
    require_publishable(folder)
    path = release.save(folder)
    files = write_report(release, Path(folder), account=account, answers=answers, page=page)
    return ReleaseFiles(release=path, **files)


def write_report(
    release: Release,
    folder: Path,
    *,
    study: Study | None = None,
    account: Account | None = None,
    answers: Mapping[str, str] | None = None,
    page: bool = True,
) -> dict[str, Path]:
    """Write or rewrite the files beside release.json, which are made from the release alone.

    Returns:
        The paths of the files, by the fields of ``ReleaseFiles``.
    """
    description = describe(release, study, account)
    texts: dict[str, tuple[str, str | Iterable[str]]] = {
        name: (f"{name}.csv", table_csv(columns)) for name, columns in description.files.items()
    }
    values = {"answers": answers or {}, "mark": PUBLIC_MARK}
    texts["registry"] = REGISTRY, render(REGISTRY, description, **values)
    if page:
        texts["page"] = PAGE, render(PAGE, description, **values)
    return {key: write_text(folder / name, text) for key, (name, text) in texts.items()}
