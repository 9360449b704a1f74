"""Check a ledger: every entry, every sum, every price, every stored release.

The walk reads a page to a transaction, so that nobody is kept waiting; entries never change, so
that pages fit together.
"""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from privalue.errors import DataError, LedgerError, PrivalueError, UsageError
from privalue.ledger.amounts import NOTHING, Amount, cost_of
from privalue.ledger.entries import (
    FORMAT,
    Entry,
    canonical,
    check_hash,
    check_name,
    last_entry,
    page_of_entries,
    parse_object,
    sha256,
)
from privalue.ledger.files import read_whole
from privalue.ledger.store import GENESIS, Store
from privalue.ledger.terms import Protection, Terms

_PAGE, _FEW = 2_000, 50  # entries, releases at a time: a ledger is never in memory as a whole
_LONGEST_FILE = 1 << 26
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)
_Types = tuple[type, ...]
_NONE = type(None)
_COMMON: dict[str, _Types] = {
    **dict.fromkeys(("previous", "kind", "dataset", "at", "author", "salt"), (str,)),
    **dict.fromkeys(("format", "releases"), (int,)),
    **{f"{what}_{part}": (int,) for what in ("cost", "spent", "total") for part in Amount._fields},
}
_SHAPES: dict[str, dict[str, _Types]] = {
    "declare": {
        **_COMMON,
        **{"promise": (list,), "largest": (list,), "unit": (str,), "neighbours": (str,)},
        **{"max_trajectories_per_person": (int, _NONE), "accounting": (str,)},
        "reason": (str, _NONE),
    },
    "charge": {
        **_COMMON,
        **{"request": (str,), "promise": (list,), "unit": (str,), "neighbours": (str,)},
        **{"alpha": (str, _NONE), "steps": (int,), "what": (str,), "is_foreign": (bool,)},
        "token": (str,),
    },
    "commit": {**_COMMON, "charge": (int,), "release": (str,)},
}


@dataclass(frozen=True, kw_only=True)
class Verified:
    """What is known of a ledger that passed its check."""

    entries: int
    head: str


@dataclass(kw_only=True)
class _Balance:
    """What the entries so far say of a dataset."""

    terms: Terms
    largest: Amount
    spent: Amount
    total: Amount
    releases: int


@dataclass
class _Walk:
    """What the entries so far come to."""

    number: int = 0
    head: str = GENESIS
    balances: dict[str, _Balance] = field(default_factory=dict)
    unpublished: dict[int, str] = field(default_factory=dict)  # charges, by dataset

    def check(self, entry: Entry) -> None:
        """Go on by one entry; raise ValueError if it does not follow from those before it."""
        said = entry.said
        if entry.number != self.number + 1 or said.get("previous") != self.head:
            raise ValueError("it does not follow the one before it")
        if said.get("format") != FORMAT:
            raise ValueError("it is of another format")
        _check_shape(entry)
        {"declare": self._declare, "charge": self._charge, "commit": self._commit}[entry.kind](
            entry, self.balances.get(entry.dataset)
        )
        self.number, self.head = entry.number, entry.hash

    def _declare(self, entry: Entry, before: _Balance | None) -> None:
        said = entry.said
        terms = Terms(
            protection=Protection(unit=said["unit"], neighbours=said["neighbours"]),
            max_trajectories_per_person=said["max_trajectories_per_person"],
            accounting=said["accounting"],
        )
        promise, largest = Amount(*said["promise"]), Amount(*said["largest"])
        releases = 0 if before is None else before.releases
        kept = promise if before is None or not releases else promise.maximum(before.largest)
        if largest != kept:
            raise ValueError("it states another promise than all releases keep")
        if before is not None and terms.accounting != before.terms.accounting:
            raise ValueError("the accounting changed")
        if before is not None and releases and terms != before.terms:
            raise ValueError("whom its total protects changed")
        if not terms.allows(entry.total, promise):
            raise ValueError("its total is more than it promises")
        self._go_on(
            entry,
            _Balance(
                terms=terms,
                largest=largest,
                spent=NOTHING if before is None else before.spent,
                total=entry.total,
                releases=releases,
            ),
        )

    def _charge(self, entry: Entry, before: _Balance | None) -> None:
        if before is None:
            raise ValueError("its dataset has no total")
        said = entry.said
        protection = Protection(unit=said["unit"], neighbours=said["neighbours"])
        alpha = None if said["alpha"] is None else float(said["alpha"])
        if alpha is not None and not (0 < alpha < math.inf and repr(alpha) == said["alpha"]):
            raise ValueError("its alpha is none")
        steps = before.terms.steps(protection)
        if said["steps"] != steps:
            raise ValueError("its steps are others")
        if not before.terms.covers(entry.cost, Amount(*said["promise"]), steps, alpha):
            raise ValueError("its price is too low")
        if said["is_foreign"]:
            if said["request"] != sha256(said["what"]):
                raise ValueError("its request is not that of what it says")
        else:
            self.unpublished[entry.number] = entry.dataset
        before.spent, before.releases = before.spent.plus(entry.cost), before.releases + 1
        self._go_on(entry, before)

    def _commit(self, entry: Entry, before: _Balance | None) -> None:
        if before is None or self.unpublished.pop(entry.said["charge"], None) != entry.dataset:
            raise ValueError("there is no such charge, or it has another release")
        self._go_on(entry, before)

    def _go_on(self, entry: Entry, now: _Balance) -> None:
        expected = (now.spent, now.total, now.releases)
        if (entry.spent, entry.total, entry.releases) != expected:
            raise ValueError("its balance is another")
        if entry.kind != "charge" and entry.cost != NOTHING:
            raise ValueError("it costs something")
        if not entry.spent.fits(entry.total):
            raise ValueError("more is spent than the total")
        self.balances[entry.dataset] = now


def verify(store: Store, heads: Iterable[str], releases: Iterable[str]) -> Verified:
    """Walk the whole ledger; raise LedgerError with the first thing that is wrong.

    Args:
        store: that keeps it.
        heads: hashes that must be on the record.
        releases: texts that must be on the record.
    """
    walk = _Walk()
    more = True
    while more:
        with store.transaction() as execute:
            page = page_of_entries(execute, "sequence > ?", walk.number, limit=_PAGE)
        for entry in page:
            try:
                walk.check(entry)
            except (ValueError, KeyError, TypeError, ArithmeticError, PrivalueError) as problem:
                raise _failed(store, f"entry {entry.number}: {problem}") from None
        more = len(page) == _PAGE
    if walk.number == 0:
        raise _failed(store, "entry 1 is missing")
    _check_releases(store)
    fault = store.fault()
    if fault is not None:
        raise _failed(store, fault)
    _require_heads(store, heads)
    _require_releases(store, releases)
    return Verified(entries=walk.number, head=walk.head)


def _failed(store: Store, why: str) -> LedgerError:
    return LedgerError(f"the ledger {store.place} fails its check: {why}")


def _check_shape(entry: Entry) -> None:
    """Raise ValueError unless an entry holds what its kind holds, as this program writes it."""
    said, shape = entry.said, _SHAPES[entry.kind]
    if said.keys() != shape.keys():
        raise ValueError("it has other keys than its kind")
    for name, types in shape.items():
        if type(said[name]) not in types:
            raise ValueError(f"its {name} is of another type")
    if sha256(canonical(said)) != entry.hash:
        raise ValueError("it is not written canonically")
    check_name(entry.dataset)
    for name in ("previous", "salt", "request", "release", "token"):
        if name in said:
            check_hash(name, said[name])
    for name in ("promise", "largest"):
        parts = said.get(name, (1, 0))
        if len(parts) != 2 or any(type(each) is not int for each in parts) or min(parts) < 0:
            raise ValueError(f"its {name} is none")
    if _TIME.fullmatch(said["at"]) is None:
        raise ValueError("its time is none")
    datetime.fromisoformat(said["at"])


def release_fault(text: str, charge: Entry) -> str | None:
    """Return what keeps a text from being the release of a charge, or None if nothing does.

    Args:
        text: JSON that states the hash of its charge as ``ledger_head``, and its promise.
        charge: the entry that paid for it.
    """
    said = parse_object(text)
    if charge.said.get("is_foreign"):
        return "another tool spent that charge"
    if said.get("ledger_head") != charge.hash:
        return "it states another charge, or none"
    privacy: Any = said.get("privacy")
    if privacy is None:
        return None
    try:
        stated = [*cost_of(privacy["epsilon"], privacy["delta"])[:2]]
        whom = privacy["unit"], privacy["neighbours"]
    except (KeyError, TypeError, UsageError):
        return "it does not state its promise"
    paid = charge.said.get("promise"), (charge.said.get("unit"), charge.said.get("neighbours"))
    return None if (stated, whom) == paid else "it promises something else than was paid for"


def _check_releases(store: Store) -> None:
    """Raise LedgerError unless every commit has its release, and every release a commit."""
    after, rows = 0, [()]
    while rows:
        with store.transaction() as execute:
            rows = execute(
                "SELECT e.charge, e.release, r.text FROM ledger_entries AS e"
                " LEFT JOIN ledger_releases AS r ON r.hash = e.release"
                f" WHERE e.kind = 'commit' AND e.charge > ? ORDER BY e.charge LIMIT {_FEW}",
                (after,),
            ).fetchall()
            for number, digest, text in rows:
                after = number
                charge = last_entry(execute, "sequence = ?", number)
                fault = "it was changed or removed"
                if charge is not None and text is not None and sha256(text) == digest:
                    fault = release_fault(text, charge) or ""
                if fault:
                    raise _failed(store, f"the release of entry {number}: {fault}")
    with store.transaction() as execute:
        (commits,) = execute("SELECT count(*) FROM ledger_entries WHERE kind = 'commit'").fetchone()
        (stored,) = execute("SELECT count(*) FROM ledger_releases").fetchone()
    if commits != stored:
        raise _failed(store, "it holds a release that no entry commits")


def _require_heads(store: Store, heads: Iterable[str]) -> None:
    with store.transaction() as execute:
        for head in heads:
            if last_entry(execute, "hash = ?", head) is None:
                raise _failed(
                    store,
                    f"it lacks the head {head}: it is another ledger, or an old copy of it was put "
                    "back, its last entries were removed, or all was rewritten",
                )


def _require_releases(store: Store, releases: Iterable[str]) -> None:
    with store.transaction() as execute:
        for text in releases:
            head = parse_object(text).get("ledger_head")
            charge = last_entry(execute, "hash = ? AND kind = 'charge'", str(head))
            stored = charge and last_entry(execute, "charge = ? AND kind = 'commit'", charge.number)
            if not stored or stored.said.get("release") != sha256(text):
                raise _failed(store, f"no entry commits the release with the head {head}")


def read_heads(path: Path) -> list[str]:
    """Return the heads in a file of lines of ``privalue ledger head``; none if it does not exist.

    Raises:
        DataError: it cannot be read, or a line does not end in a hash.
    """
    try:
        lines = read_whole(path, _LONGEST_FILE).decode().splitlines()
        return [check_hash("the head", line.split()[-1]) for line in lines if line.strip()]
    except FileNotFoundError:
        return []
    except OSError as problem:
        raise DataError(f"the file of heads {path} cannot be read: {problem.strerror}") from None
    except (UnicodeError, UsageError):
        raise DataError(f"the file of heads {path} has a line that ends in no hash") from None


def add_head(path: Path, place: str, head: str) -> None:
    """Append a head to a file, unless it is there."""
    if head not in read_heads(path):
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{place} {head}\n")
