"""Read what a command is about, so that the log names its dataset."""

from pathlib import Path

from privalue.cli.console import log
from privalue.ledger import Ledger, open_ledger
from privalue.releases import Release
from privalue.study import Study


def load_study(path: Path, side_files: Path | None) -> Study:
    """Read a study."""
    study = Study.load(path, side_files=side_files)
    log.dataset = study.study.dataset
    return study


def load_release(path: Path) -> Release:
    """Read a release, or the one in a folder."""
    release = Release.load(path)
    log.dataset = release.study["study"].get("dataset")
    return release


def load_ledger(address: str, dataset: str | None) -> Ledger:
    """Open a ledger, to do something about a dataset."""
    log.dataset = dataset
    return open_ledger(address)
