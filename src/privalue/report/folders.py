"""Name the files in the folder of a release, and refuse unsuitable folders before any work.

A release is never overwritten, and public files are never written beside a private page.
"""

import os
from pathlib import Path

from privalue.errors import UsageError
from privalue.releases import FILE_NAME
from privalue.report.html import sentence

PAGE, REGISTRY = "report.html", "registry.yaml"
REPORT_FILES = (PAGE, REGISTRY, "values.csv", "differences.csv")
PUBLIC_FILES = (FILE_NAME, *REPORT_FILES)
# Every private page has this mark in its first bytes, so that it is found in any folder.
PRIVATE_MARK = "privalue-private-page"
_HEAD_BYTES = 1024


def require_publishable(folder: str | Path) -> None:
    """Refuse, before any work, a folder that holds a release, a report or a private page.

    Raises:
        UsageError: if it holds one; a release is never overwritten.
    """
    if not str(folder):
        raise UsageError("the folder for the release has no name; give one")
    existing = Path(folder)
    while not os.path.lexists(existing):
        existing = existing.parent
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        message = f"{existing} is not a folder that can be written to; give another folder"
        raise UsageError(message, code="cannot-write")
    for name in PUBLIC_FILES:
        if os.path.lexists(Path(folder) / name):
            message = sentence("never_overwritten", file=Path(folder) / name)
            raise UsageError(message, code="exists")
    require_no_private_page(folder)


def require_no_private_page(folder: str | Path) -> None:
    """Refuse a folder in which public files would be beside a private page.

    Publishing the whole folder would publish the private page, too.

    Raises:
        UsageError: if the folder holds a private page, or a page that cannot be read.
    """
    for file in sorted(Path(folder).iterdir()) if Path(folder).is_dir() else []:
        if is_marked(file, PRIVATE_MARK):
            raise UsageError(sentence("beside_private", file=file), code="beside-private")


def is_marked(file: Path, mark: str) -> bool:
    """Return whether a page begins with a mark, or cannot be read.

    A page that cannot be read counts as marked: the check errs on the safe side.
    """
    if file.suffix.lower() not in {".html", ".htm"} or not file.is_file():
        return False
    try:
        with file.open("rb") as stream:
            return mark.encode() in stream.read(_HEAD_BYTES)
    except OSError:
        return True
