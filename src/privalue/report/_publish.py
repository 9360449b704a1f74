"""Write the files of a release: release.json, values.csv, registry.yaml and report.html.

The release itself goes first: whatever happens afterwards, what was paid for is there, and the rest
can be made again from it (``privalue report``). A directory that holds a private page of the
curator is refused, and so is one that holds any of the four files.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from privalue._folder import PAGE, REGISTRY, VALUES, require_publishable
from privalue.errors import UsageError
from privalue.ledger import Account
from privalue.ledger.files import write_whole
from privalue.releases import Release
from privalue.report._another_policy import another_policy_page, policy_csv
from privalue.report._answers import answers_in
from privalue.report._precision import require_same_study
from privalue.report._public_page import public_page
from privalue.report._registry import registry_yaml
from privalue.report._states import state_table, values_csv
from privalue.study import Study


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
    account: Account | Callable[[], Account | None] | None = None,
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
        account: how the dataset stands on its ledger, ``ledger.account(dataset)``; or a function
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
    ...     states=["ill", "well"], discount=0.9, returns=(0, 1),
    ...     epsilon=1.0, delta=1e-5, unit="trajectory",
    ... )
    >>> release = pv.release(study, [[("ill", 0.0), ("well", 1.0)]] * 1000)
    >>> with TemporaryDirectory() as folder:
    ...     made = pv.publish(release, folder, study=study)
    ...     print(made.release.name, made.values.name, made.registry.name, made.page.name)
    release.json values.csv registry.yaml report.html
    """
    if study is not None:
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
    account: Account | None = None,
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
            table or values_csv(state_table(release), private=release.private),
        ),
        "registry": (
            REGISTRY,
            registry_yaml(release, justification=justification, account=account, answers=answers),
        ),
    }
    if page:
        why = justification or answers.justification
        texts["page"] = PAGE, release_page(release, study=study, account=account, justification=why)
    return {key: write_text(folder / name, text) for key, (name, text) in texts.items()}


def release_page(
    release: Release,
    *,
    study: Study | None = None,
    account: Account | None = None,
    justification: str | None = None,
) -> str:
    """Return the page of a release: of values by state, or of another policy's value.

    Args:
        release: what was released.
        study: the release's study, for what its side files say of states.
        account: how the dataset stands on its ledger.
        justification: why these parameters; public.
    """
    if release.mechanism == "dp-ope":
        return another_policy_page(release, account=account, justification=justification)
    return public_page(release, study=study, account=account, justification=justification)


def write_text(target: Path, text: str | Iterable[str], mode: int = 0o644) -> Path:
    """Write a page or a table whole or not at all; one that cannot be written is a UsageError."""
    try:
        return write_whole(target, text, mode=mode, errors="replace")
    except OSError as problem:
        raise UsageError(f"cannot write {target}: {problem.strerror}") from None
