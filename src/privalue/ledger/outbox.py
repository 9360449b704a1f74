"""Keep a charged release in a file until the ledger has stored it and it is published.

The file is preallocated before the charge, so that a read-only folder or a full disk is noticed
while nothing is spent. Its content is written between the draw and the commit: a header of JSON in
the first line, then ``release.json``, byte by byte. Only the owner may read it: the number of an
entry reveals earlier attempts.
"""

import json
import os
import tempfile
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from privalue.errors import DataError, UsageError
from privalue.ledger.entries import sha256
from privalue.ledger.files import atomic_write, partial_name, read_whole
from privalue.ledger.ledger import Charge

OUTBOX_NAME = "release.outbox"  # in the folder that the release goes to
_FORMAT = 1
_LARGEST = 1 << 36  # bytes
_BLOCK = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Envelope:
    """A charged release, with what is needed to store and to publish it."""

    ledger: str  # location of the ledger, without user and password
    charge: Charge
    text: str  # of release.json
    study: str | None = None  # the study's file, for the pages
    justification: str | None = None
    folder: str | None = None  # the folder that the release is published to

    @property
    def needs_address(self) -> bool:
        """Return whether the ledger is on a server, whose address with the user is not stored."""
        return "://" in self.ledger


class Outbox:
    """A file that holds a release from its charge until it is published.

    A context manager: if the block succeeds it removes the file; after an error a filled file
    remains.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        study: str | Path | None = None,
        justification: str | None = None,
    ) -> None:
        """Name the file, without writing it.

        Args:
            path: of the outbox.
            study: the study's file, so that ``privalue ledger finish`` makes the same pages.
            justification: why these parameters, for the same pages; public.
        """
        self.path = Path(path)
        self.is_filled = False
        self.is_recorded = False  # whether the ledger has stored the release, too
        self._pages = {
            "study": None if study is None else os.path.abspath(study),
            "justification": justification,
            "folder": os.path.abspath(self.path.parent),
        }
        self._partial = partial_name(self.path)
        self._created_folder = False

    def preallocate(self, size: int) -> None:
        """Write a placeholder of the release's largest size into the same folder.

        Args:
            size: the largest size of the release, in bytes.

        Raises:
            UsageError: the folder cannot be written to, or has no room.
        """
        folder = self.path.parent
        try:
            self._created_folder = not folder.exists()
            folder.mkdir(parents=True, exist_ok=True)
            handle = os.open(self._partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
            with os.fdopen(handle, "wb") as file:
                for start in range(0, size, _BLOCK):
                    file.write(bytes(min(_BLOCK, size - start)))
                file.flush()
                os.fsync(handle)
        except OSError as problem:
            why = f"of up to {size:,} bytes: {problem.strerror}; nothing was charged"
            raise UsageError(f"{folder} cannot take the release, {why}") from None

    def fill(self, envelope: Envelope) -> None:
        """Write the release to the disk, and wait until it is there.

        If the folder fails nevertheless, a temporary folder takes the file, and ``path`` changes.
        Nothing is raised, since the ledger still has to store the release: ``is_filled`` says
        whether the release is on the disk, at ``path``.
        """
        header = {**asdict(envelope), **self._pages, "privalue_outbox": _FORMAT}
        header["text"] = sha256(envelope.text)
        parts = (json.dumps(header, sort_keys=True) + "\n", envelope.text)
        with suppress(OSError):
            atomic_write(self.path, parts, mode=0o600, replace=False, partial=self._partial)
            self.is_filled = True
        if not self.is_filled:
            with suppress(OSError):
                spare = Path(tempfile.mkdtemp(prefix="privalue-")) / "spare.outbox"
                atomic_write(spare, parts, mode=0o600)
                self.path, self.is_filled = spare, True

    @classmethod
    def read(cls, path: str | Path) -> Envelope:
        """Return the content of an outbox.

        Raises:
            DataError: the file is missing, is not an outbox, or is incomplete.
        """
        try:
            header, _, text = read_whole(path, _LARGEST).partition(b"\n")
            fields = json.loads(header)
            digest = fields.pop("text")
            if fields.pop("privalue_outbox") != _FORMAT:
                raise ValueError
            charge = Charge(**fields.pop("charge"))
            envelope = Envelope(**fields, charge=charge, text=text.decode())
            texts = [envelope.ledger, charge.dataset, charge.head]
            texts += filter(None, (envelope.study, envelope.justification, envelope.folder))
            is_plain = all(type(text) is str and "\0" not in text for text in texts)
            if not is_plain or sha256(envelope.text) != digest or type(charge.number) is not int:
                raise ValueError
        except OSError as problem:
            raise DataError(f"{path} cannot be read: {problem.strerror}") from None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise DataError(f"{path} is not an outbox, or is incomplete") from None
        return envelope

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with suppress(OSError):  # the release is in the ledger, and published
            if self.is_filled and kind is None:
                self.path.unlink()
        with suppress(OSError):
            self._partial.unlink()
        if self._created_folder:
            with suppress(OSError):  # the folder is not empty
                self.path.parent.rmdir()
