"""Load the study, release or ledger of a command, and set the dataset of the log."""

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
    """Read a release, from its file or its folder."""
    release = Release.load(path)
    log.dataset = release.study["study"].get("dataset")
    return release


def load_ledger(address: str, dataset: str | None) -> Ledger:
    """Open a ledger for an operation on a dataset."""
    log.dataset = dataset
    return open_ledger(address)
