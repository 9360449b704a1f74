"""Name what is in the folder of a release, and refuse folders before any work is done.

A release is never overwritten, and what is public never goes beside a private page.
"""

import os
from pathlib import Path

from privalue.errors import UsageError
from privalue.ledger.files import remove_litter

FILE_NAME = "release.json"
PAGE, REGISTRY = "report.html", "registry.yaml"
VALUES, DIFFERENCES = "values.csv", "differences.csv"
PUBLIC_FILES = (FILE_NAME, PAGE, REGISTRY, VALUES, DIFFERENCES)
# Every private page has this mark in its first bytes, so that it is found in any folder.
PRIVATE_MARK = "privalue-private-page"
_LOOKED_AT = 1024


def require_vacant(folder: str | Path, name: str = FILE_NAME) -> Path:
    """Return where the release goes; refuse a folder that holds one or cannot be written to.

    It is asked before any work is done: a release that was paid for has to get somewhere.

    Args:
        folder: where it goes.
        name: of the file.
    """
    if not str(folder):
        raise UsageError("the folder for the release has no name; give one")
    target = Path(folder) / name
    there = Path(folder)
    while not os.path.lexists(there):
        there = there.parent
    if not there.is_dir():
        raise UsageError(f"{there} is not a folder; give a folder for the release")
    if not os.access(there, os.W_OK | os.X_OK):
        raise UsageError(f"{there} may not be written to; give another folder for the release")
    if os.path.lexists(target):
        raise UsageError(
            f"{target} exists, and a release is never overwritten; give another folder"
        )
    return target


def require_publishable(folder: str | Path) -> None:
    """Refuse, before any work, a folder that holds a release, a report or a private page.

    What a killed process left half written there is removed.

    Raises:
        UsageError: if it holds one; a release is never overwritten.
    """
    remove_litter(Path(folder))
    require_vacant(folder)
    for name in PUBLIC_FILES:
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
