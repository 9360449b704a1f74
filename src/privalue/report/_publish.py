"""Write the files of a release: release.json, values.csv, registry.yaml and report.html.

The release itself goes first: whatever happens afterwards, what was paid for is there, and the rest
can be made again from it (``privalue report``). A directory that holds a private page of the
curator is refused, and so is one that holds any of the four files.
"""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from privalue._files import remove_litter, write_whole
from privalue.artefact import FILE_NAME, Release, require_vacant
from privalue.errors import UsageError
from privalue.ledger import Standing
from privalue.planning import resolve
from privalue.report._another_policy import another_policy_page, policy_csv
from privalue.report._answers import answers_in
from privalue.report._precision import require_same_study
from privalue.report._public_page import public_page
from privalue.report._registry import registry_yaml
from privalue.report._states import state_table, values_csv
from privalue.study import Study

PAGE, REGISTRY, VALUES = "report.html", "registry.yaml", "values.csv"
PUBLIC_FILES = (FILE_NAME, PAGE, REGISTRY, VALUES)
PRINTED = "report.pdf"  # only where somebody asked for it
# Every private page has this mark in its first bytes, so that it is found in any folder.
PRIVATE_MARK = "privalue-private-page"
_LOOKED_AT = 1024


@dataclass(frozen=True, kw_only=True)
class Published:
    """The paths of the files of a release; None for a page that was not asked for."""

    release: Path
    registry: Path
    values: Path
    page: Path | None = None


def publish(
    release: Release,
    folder: str | Path,
    *,
    study: Study | None = None,
    account: Standing | Callable[[], Standing | None] | None = None,
    justification: str | None = None,
    page: bool = True,
    wrote: Callable[..., None] = lambda *paths: None,
) -> Published:
    """Write a release and everything that is made of it into a folder; never over another one.

    Args:
        release: what was released.
        folder: where to; made if it is not there.
        study: the release's study. Only with it, the page shows what side files say of states,
            and the planned precision of a study with side files.
        account: how the dataset stands on its ledger, ``ledger.standing(dataset)``; or a function
            that returns it, called once the release itself is saved.
        justification: why these parameters, in the words of whoever decided; public.
        page: whether to write the page, which takes longer than all the rest.
        wrote: called with the path of the release, then with those of what is made of it.

    Returns:
        The paths of the files.

    Raises:
        UsageError: the folder holds a release, a report or a private page, or cannot be written.

    >>> from tempfile import TemporaryDirectory
    >>> import privalue as pv
    >>> study = pv.Study(
    ...     privacy=pv.Privacy(epsilon=1.0, delta=1e-5, unit="trajectory"),
    ...     values=pv.Values(discount=0.9, rewards=(0.0, 1.0), returns=(0.0, 1.0)),
    ...     states=pv.States(labels=["ill", "well"]),
    ... )
    >>> release = pv.release(study, [[("ill", 0.0), ("well", 1.0)]] * 1000)
    >>> with TemporaryDirectory() as folder:
    ...     made = pv.publish(release, folder, study=study)
    ...     print(made.release.name, made.values.name, made.registry.name, made.page.name)
    release.json values.csv registry.yaml report.html
    """
    if study is not None:
        study = resolve(study).study
        require_same_study(release, study)
    require_publishable(folder)
    saved = release.save(folder)
    wrote(saved)
    made = write_report(
        release,
        Path(folder),
        study=study,
        account=account() if callable(account) else account,
        justification=justification,
        page=page,
    )
    wrote(*made.values())
    return Published(release=saved, **made)


def write_report(
    release: Release,
    folder: Path,
    *,
    study: Study | None = None,
    account: Standing | None = None,
    justification: str | None = None,
    page: bool = True,
) -> dict[str, Path]:
    """Write the files beside a release.json anew; everything in them is made from it.

    Only what a curator wrote into the registry's entry stays, the justification too unless another
    one is given.

    Args:
        release: what was released.
        folder: where it is.
        study: the release's study, for what its side files say.
        account: how the dataset stands on its ledger.
        justification: why these parameters; public.
        page: whether to write the page too.

    Returns:
        The paths of the files, by the fields of ``Published``.
    """
    answers, of_policy = answers_in(folder / REGISTRY), release.mechanism == "dp-ope"
    table: Iterable[str] = policy_csv(release) if of_policy else ()
    texts: dict[str, tuple[str, str | Iterable[str]]] = {
        "values": (
            VALUES,
            table or values_csv(state_table(release, study), private=release.private),
        ),
        "registry": (
            REGISTRY,
            registry_yaml(release, justification=justification, account=account, answers=answers),
        ),
    }
    if page:
        why = justification or answers.justification
        if of_policy:
            text = another_policy_page(release, account=account, justification=why)
        else:
            text = public_page(release, study=study, account=account, justification=why)
        texts["page"] = PAGE, text
    return {key: write_text(folder / name, text) for key, (name, text) in texts.items()}


def require_publishable(folder: str | Path) -> None:
    """Refuse, before any work, a folder that holds a release, a report or a private page.

    What a killed process left half written there is removed.

    Raises:
        UsageError: if it holds one; a release is never overwritten.
    """
    remove_litter(Path(folder))
    require_vacant(folder)
    for name in (*PUBLIC_FILES, PRINTED):
        if os.path.lexists(Path(folder) / name):
            raise UsageError(
                f"{Path(folder) / name} exists, and a release is never overwritten; give another "
                "folder"
            )
    require_no_private_page(folder)


def require_no_private_page(folder: str | Path) -> None:
    """Refuse a folder in which public files would be beside a private page.

    Somebody who publishes the folder as a whole would publish the private page with it.

    Raises:
        UsageError: if the folder holds a private page, or a page that cannot be read.
    """
    for file in private_pages(folder):
        raise UsageError(
            f"{file} is a private page of the curator, or cannot be read, and what is public never "
            "goes beside it; give another folder, or move the page"
        )


def private_pages(folder: str | Path) -> list[Path]:
    """Return the private pages in a folder, which have a mark in their first bytes."""
    if not Path(folder).is_dir():
        return []
    return [file for file in sorted(Path(folder).iterdir()) if is_private_page(file)]


def is_private_page(file: Path) -> bool:
    """Return whether a file is a private page; one that cannot be read counts as private."""
    return is_marked(file, PRIVATE_MARK)


def is_marked(file: Path, mark: str) -> bool:
    """Return whether a page begins with a mark, or cannot be read.

    A page that cannot be read counts as marked: the check errs on the safe side.
    """
    if file.suffix.lower() not in {".html", ".htm"} or not file.is_file():
        return False
    try:
        with file.open("rb") as opened:
            return mark.encode() in opened.read(_LOOKED_AT)
    except OSError:
        return True


def write_text(target: Path, text: str | Iterable[str], mode: int = 0o644) -> Path:
    """Write a page or a table whole or not at all; one that cannot be written is a UsageError."""
    try:
        return write_whole(target, text, mode=mode, errors="replace")
    except OSError as problem:
        raise UsageError(f"cannot write {target}: {problem.strerror}") from None
