"""Remember the last head of every ledger that this user saw: an old copy put back lacks it.

The chain alone cannot show that its last entries are gone. So each client keeps, in a folder of its
own, the number and the hash of the last entry that it saw, and looks that one entry up at every
later operation. A ledger is known by the hash of its first entry, wherever its file is moved to;
and an address is known by the ledger that was there, so that another one in its place is noticed.

    PRIVALUE_STATE/heads/LEDGER.json     the last entry seen
    PRIVALUE_STATE/places/ADDRESS.json   which ledger was there
    PRIVALUE_STATE/accepted.jsonl        what a person accepted, and why

Without a place to write there is a notice, and the ledger is used all the same.
"""

import errno
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from privalue._files import read_whole
from privalue.errors import LedgerError, UsageError
from privalue.ledger._book import Book
from privalue.ledger._chain import sha256
from privalue.ledger._store import Store, Transaction

VARIABLE = "PRIVALUE_STATE"
_MOST_BYTES = 10_000  # of what is remembered of one ledger
_MOST_ENTRIES = 1 << 63
_WORD = re.compile("[0-9a-z:-]{1,200}")  # a hash, or a day
Replay = Callable[[Transaction], Book]
Snapshot = Callable[[], AbstractContextManager[Transaction]]
Clock = Callable[[], datetime]


@dataclass(frozen=True, kw_only=True)
class Seen:
    """The last entry of a ledger that was seen, and when."""

    ledger: str  # the hash of its first entry
    sequence: int
    head: str
    day: str

    @classmethod
    def of(cls, book: Book, ledger: str, clock: Clock) -> "Seen":
        """Return the last entry of a book."""
        day = clock().date().isoformat()
        return cls(ledger=ledger, sequence=book.sequence, head=book.head, day=day)

    @classmethod
    def of_fields(cls, fields: dict[str, Any]) -> "Seen":
        """Return what was written earlier; raise KeyError, TypeError or ValueError if it is odd."""
        seen = cls(**{key: fields[key] for key in cls.__dataclass_fields__})
        texts = (seen.ledger, seen.head, seen.day)
        if not all(isinstance(text, str) and _WORD.fullmatch(text) for text in texts):
            raise ValueError("it holds no hash or no day")
        if type(seen.sequence) is not int or not 0 < seen.sequence < _MOST_ENTRIES:
            raise ValueError("it holds no number of an entry")
        return seen

    def held_by(self, transaction: Transaction) -> bool:
        """Return whether the ledger holds this entry; one look, however long it is."""
        row = transaction.row(self.sequence)
        held = row is not None and row[2] == self.head and isinstance(row[1], str)
        return row is not None and held and sha256(row[1]) == self.head


def identity(transaction: Transaction) -> str:
    """Return what a ledger is known by: the hash of its first entry, of which there is one."""
    first = transaction.row(1)
    if first is None:
        raise LedgerError("the ledger fails its check: entry 1 is missing")
    return first[2]


class BehindError(LedgerError):
    """Raised for a ledger that lacks what was seen of it; exit 5."""

    def __init__(self, place: str, seen: Seen, *, another: bool) -> None:
        self.seen = seen
        lost = f"the head {seen.head}, seen here on {seen.day}"
        super().__init__(
            (
                f"the ledger {place} is not the one that was there before, whose last entry has "
                f"{lost}"
                if another
                else f"the ledger {place} lacks {lost}: an old copy was put back, or it was "
                "rewritten"
            )
            + "; use the newer one, or, if this one was restored on purpose: "
            "ledger.accept_head(reason=WHY)"
        )


def state_folder() -> Path | None:
    """Return the folder for what is remembered, or None if the user has none."""
    chosen = os.environ.get(VARIABLE)
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_STATE_HOME", "")
    if os.path.isabs(base):  # the specification says to ignore others
        return Path(base) / "privalue"
    try:
        return Path.home() / ".local" / "state" / "privalue"
    except RuntimeError:  # no home
        return None


class Memory:
    """What this user saw of the ledger at one address."""

    def __init__(self, folder: Path | None = None, store: Store | None = None) -> None:
        self._folder = folder
        self._store = store
        self._notices: list[str] = []
        self._complained = store is None  # who opens a ledger without one wants no memory
        self.expects_new = False  # the next ledger there is one that this client made

    @property
    def _address(self) -> str:
        """Return the name of what is remembered of the place: of what the store reached."""
        return sha256("" if self._store is None else self._store.address)

    @property
    def _place(self) -> str:
        return "" if self._store is None else self._store.place

    @property
    def notices(self) -> tuple[str, ...]:
        """Return what a person should know, a line each."""
        return tuple(self._notices)

    def check(self, transaction: Transaction, newer: Snapshot) -> str:
        """Return which ledger this is, if it holds the last entry that was seen of it.

        Args:
            transaction: the ledger as it stands, with one entry at least.
            newer: opens a snapshot. Between the begin of a transaction and this look, another
                process may have written to the ledger and remembered it.

        Raises:
            BehindError: it lacks what was seen, or is another ledger.
        """
        self._attempt(_require_writable)  # so that a notice comes before anything is spent
        ledger = identity(transaction)
        there = self._known("places", self._address)
        if there is not None and there.ledger != ledger and not self.expects_new:
            raise BehindError(
                self._place, self._known("heads", there.ledger) or there, another=True
            )
        seen = self._known("heads", ledger)
        if seen is not None and not seen.held_by(transaction):
            with newer() as snapshot:
                if not seen.held_by(snapshot):
                    raise BehindError(self._place, seen, another=False)
        return ledger

    @contextmanager
    def watching(self, replay: Replay, newer: Snapshot, clock: Clock) -> Iterator[Replay]:
        """Yield ``replay`` with a check against what was seen before.

        Where the block ends well, and not before, what it leaves is remembered.

        Args:
            replay: returns the book of a ledger.
            newer: opens a snapshot.
            clock: the time.
        """
        opened: list[tuple[str, Book]] = []

        def checked(transaction: Transaction) -> Book:
            book = replay(transaction)
            opened.append((self.check(transaction, newer), book))
            return book

        yield checked
        for ledger, book in opened:
            self.keep(Seen.of(book, ledger, clock))

    def accept_head(self, store: Store, replay: Replay, clock: Clock, reason: str) -> str:
        """Go on with a ledger that lacks what was seen; see ``Ledger.accept_head``."""
        if not reason.strip():
            raise UsageError("the reason is empty; say why this ledger is the one to go on with")
        with store.read() as transaction:
            book = replay(transaction)
            lost = self._lost(transaction, store.read)
            now = Seen.of(book, identity(transaction), clock)
        try:
            with store.write() as transaction:
                book = replay(transaction)
                transaction.append(book.write("accept", clock(), lost=lost.head, reason=reason))
                now = Seen.of(book, now.ledger, clock)
        except LedgerError as problem:  # somebody who may only read goes on, too
            self.note(f"this is remembered here, and not on the record: {problem}")
        line = {"place": self._place, "lost": asdict(lost), "now": asdict(now), "reason": reason}
        self._attempt(lambda folder: _append(folder / "accepted.jsonl", json.dumps(line)))
        self._put("heads", now.ledger, now)
        self._put("places", self._address, now)
        return now.head

    def _lost(self, transaction: Transaction, newer: Snapshot) -> Seen:
        """Return what a ledger lacks; raise UsageError if that is nothing."""
        try:
            self.check(transaction, newer)
        except BehindError as problem:
            return problem.seen
        raise UsageError(
            f"the ledger {self._place} holds the last head that was seen of it: there is nothing "
            "to accept"
        )

    def keep(self, seen: Seen) -> None:
        """Remember the last entry of a ledger that was checked."""
        old = self._known("heads", seen.ledger)
        if old is None or old.sequence < seen.sequence:
            self._put("heads", seen.ledger, seen)
        there = self._known("places", self._address)
        if there is None or there.ledger != seen.ledger:
            if there is not None:
                lost = self._known("heads", there.ledger) or there
                self.note(
                    f"another ledger was at {self._place} before, with the head {lost.head}: it is "
                    "gone, and this one is new; what was spent there still counts for its people"
                )
            self._put("places", self._address, seen)
        self.expects_new = False

    def note(self, line: str) -> None:
        """Add what a person should know, once."""
        if line not in self._notices:
            self._notices.append(line)

    def _known(self, kind: str, name: str) -> Seen | None:
        """Return what was remembered under a name, or None."""
        if self._folder is None:
            return None
        try:
            found = json.loads(read_whole(self._folder / kind / f"{name}.json", _MOST_BYTES))
            return Seen.of_fields(found)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as problem:
            self._complain(f"{type(problem).__name__} in {self._folder / kind / name}.json")
            return None

    def _put(self, kind: str, name: str, seen: Seen) -> None:
        """Remember something under a name."""
        text = json.dumps(asdict(seen))
        self._attempt(lambda folder: _replace(folder / kind / f"{name}.json", text))

    def _attempt(self, write: Callable[[Path], None]) -> None:
        """Write in the folder, or leave a notice that it cannot be."""
        if self._folder is None:
            self._complain("there is no home; set PRIVALUE_STATE")
            return
        try:
            for each in (self._folder, self._folder / "heads", self._folder / "places"):
                each.mkdir(mode=0o700, parents=True, exist_ok=True)
            write(self._folder)
        except OSError as problem:
            self._complain(f"{self._folder}: {problem.strerror}; set PRIVALUE_STATE")

    def _complain(self, why: str) -> None:
        """Leave one notice, whatever else fails."""
        if not self._complained:
            self.note(
                f"the head of the ledger {self._place} cannot be remembered ({why}): if an old "
                "copy is put back, nobody here will notice"
            )
        self._complained = True


def _require_writable(folder: Path) -> None:
    """Raise OSError unless files can be made in a folder of what is remembered."""
    if not os.access(folder / "heads", os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def _replace(target: Path, text: str) -> None:
    """Write a file for its owner alone, whole or not at all.

    It is not forced to the disk: a power failure may lose the last head, and never a release.
    """
    partial = target.with_name(f".{target.name}.{os.getpid()}-{time.monotonic_ns()}")
    handle = os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        partial.replace(target)
    except BaseException:
        with suppress(OSError):
            partial.unlink()
        raise


def _append(target: Path, line: str) -> None:
    """Add a line to a file for its owner alone."""
    flags = os.O_CREAT | os.O_APPEND | os.O_WRONLY | os.O_NONBLOCK  # a pipe is not waited for
    handle = os.open(target, flags, 0o600)
    with os.fdopen(handle, "a", encoding="utf-8") as file:
        file.write(line + "\n")
