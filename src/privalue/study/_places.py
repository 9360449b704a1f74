"""Find the files beside a study, and refuse those that are elsewhere.

A study may come from somebody else, and what its side files hold is published: labels stand in the
release. So a study names files of its own folder only, all links resolved, unless whoever runs it
names another folder.
"""

import errno
import os
from dataclasses import dataclass
from pathlib import Path

from privalue.errors import StudyError
from privalue.ledger.files import read_whole

MOST_ARRAY = 1_000_000_000  # bytes of .npy, .npz and .parquet, as on the disk and unpacked
MOST_TABLE = 250_000_000  # bytes of any other side file: a row of text takes more once it is read
MOST_STUDY = 64_000_000
ARRAYS = (".npy", ".npz", ".parquet")
SIDE_FILES = "--side-files DIR (in Python side_files=DIR)"


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where side files are: the study's folder, and another one if somebody named it.

    A study that is built in Python names its own files, and they may be anywhere.
    """

    folder: Path = Path()
    also: Path | None = None
    anywhere: bool = False

    def read(self, key: str, name: str) -> bytes:
        """Return the content of the file that ``key`` names.

        Raises:
            StudyError: it is not there, is elsewhere, is not a regular file, or is too large.
        """
        shown = f'{key} = "{name}"'
        if any(0xD800 <= ord(character) <= 0xDFFF for character in name) or "\0" in name:
            raise StudyError(f"{key} = {name!r} is not a name that a file can have")
        if self.anywhere:
            return self._content(shown, self.folder / name, None)
        folders = [self.folder, *([] if self.also is None else [self.also])]
        outside = False
        for base in folders:
            real = Path(os.path.realpath(base / name))
            around = next((f for f in folders if real.is_relative_to(os.path.realpath(f))), None)
            outside |= around is None
            if around is not None and (os.path.lexists(real) or base is folders[-1]):
                return self._content(shown, real, around)
        if outside:
            raise StudyError(
                f"{shown} lies outside the study's folder ({self.folder}); side files stay inside "
                f"it, links resolved: copy the file there, or name its folder by {SIDE_FILES}"
            )
        raise StudyError(self._absent(shown))

    def _content(self, shown: str, path: Path, inside: Path | None) -> bytes:
        """Read a file, or raise StudyError with the reason."""
        try:
            most = MOST_ARRAY if path.suffix.lower() in ARRAYS else MOST_TABLE
            return read_whole(path, most, inside=inside)
        except FileNotFoundError:
            raise StudyError(self._absent(shown)) from None
        except OSError as problem:
            more = ""
            if problem.errno == errno.EXDEV:
                more = f"; copy the file there, or name its folder by {SIDE_FILES}"
            raise StudyError(
                f"{shown} cannot be read: {problem.strerror}{more}; paths are relative to the "
                f"study file ({self.folder})"
            ) from None

    def _absent(self, shown: str) -> str:
        """Return what to say of a file that is not there."""
        by_state = "[values] start", "[states] visits", "[weights] file"
        more = "; it is a file, or a number for each state, as {label: number}"
        given = more if shown.startswith(by_state) else ""
        key, _, name = shown.partition(" = ")
        if key == "[policy] behaviour" and "." not in name:
            given = (
                '; if it is a column of logged probabilities, write behaviour = "column", and '
                f"[data] probability = {name}"
            )
        if key == "[policy] target" and "." not in name:
            given = (
                "; the target is public, so it cannot be a column of the rows: name the action of "
                'each state, e.g. {ill = "treat"}, or give a file'
            )
        return (
            f"{shown} cannot be read: it does not exist; paths are relative to the study file "
            f"({self.folder}){given}"
        )
