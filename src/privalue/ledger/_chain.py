"""Define the entries, their hash chain, and the rules that writing and checking share.

An entry is a line of canonical JSON (sorted keys, integers and texts only) that holds its number
and the SHA-256 of the entry before it; its own SHA-256 is stored beside it. Nothing else is stored:
what is spent, reserved and left is what replaying the entries gives. A writer replays, applies its
own new entry under the same rules, and appends it; so every step checks all that came before.

| kind    | says                                                                        |
|---------|-----------------------------------------------------------------------------|
| begin   | this ledger exists                                                          |
| declare | the dataset's total is this                                                 |
| reserve | this study may be about to spend so much                                    |
| charge  | statistics exist: reserved becomes spent, for good                          |
| commit  | this artefact is what was charged for                                       |
| cancel  | nothing was computed: reserved becomes left again                           |
| settle  | a person decided about a reservation that its process left behind           |
| accept  | a person went on with this ledger, which lacks a head that was seen         |

Every entry holds 32 random bytes. Releases publish the hash of their charge, and pages the hash of
the last entry: without random bytes, a reader could guess times, process, host and earlier
failures, and check the guess against the hash.

A ``declare`` states whom its total protects. A ``reserve`` states whom the release protects, what
it promises them, and mu = 1/alpha if it is a Gaussian release; its ``steps`` converts the promise
to the terms of the total (see ``_terms``).

The time of an entry is recorded and never trusted: order is by number.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from privalue.core import OperatingSystemEntropy
from privalue.errors import BudgetError, LedgerError, PrivalueError, UsageError
from privalue.ledger._names import look_alike
from privalue.ledger._terms import BudgetTerms, Protection, over_steps
from privalue.ledger._units import NOTHING, Cost, check_mu

FORMAT = 2
GENESIS = "0" * 64  # what the first entry names as the one before it
LONGEST_NAME = 200
DECLARE = "ledger.declare(DATASET, epsilon=E, delta=D, unit=UNIT)"  # what a person has to call
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)
_HEXADECIMAL = re.compile("[0-9a-f]{64}")

EntryRow = tuple[int, str, str]  # number, canonical JSON, its SHA-256

_SHAPES: Mapping[str, Mapping[str, type]] = {
    "begin": {"format": int},
    "declare": {
        **{"dataset": str, "epsilon": int, "delta": int, "unit": str, "neighbours": str},
        **{"trajectories_per_person": int, "accounting": str},
    },
    "reserve": {
        **{"dataset": str, "epsilon": int, "delta": int, "unit": str, "neighbours": str},
        **{"study": str, "mu": str, "steps": int, "process": str},
    },
    "charge": {"reservation": int},
    "commit": {"reservation": int, "artefact": str},
    "cancel": {"reservation": int, "reason": str},
    "settle": {"reservation": int, "outcome": str, "reason": str},
    "accept": {"lost": str, "reason": str},
}
_COMMON: dict[str, type] = {"sequence": int, "previous": str, "at": str, "kind": str, "salt": str}
_OUTCOME = {"charge": "charged", "commit": "committed", "cancel": "cancelled"}
_MOVES = {
    "charge": {("reserved", "charged"), ("charged", "charged")},  # once, see below
    "commit": {("charged", "committed")},
    "cancel": {("reserved", "cancelled")},
    "settle": {("reserved", "charged"), ("charged", "charged"), ("reserved", "cancelled")},
}


def canonical(value: Mapping[str, Any]) -> str:
    """Return JSON with sorted keys and no spaces: the same text for the same value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def sha256(text: str) -> str:
    """Return the SHA-256 of a text, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def study_hash(description: Mapping[str, Any]) -> str:
    """Return what identifies a request within its dataset: the hash of the public description."""
    return sha256(canonical(description))


def salt() -> str:
    """Return 32 bytes that nobody can guess, in hexadecimal."""
    return OperatingSystemEntropy().read(32).hex()


def check_hash(what: str, text: str) -> str:
    """Return the text itself, or raise UsageError if it is not a SHA-256 in hexadecimal."""
    if _HEXADECIMAL.fullmatch(text) is None:
        raise UsageError(f"{what} {text!r} is not a SHA-256: it has 64 digits of 0-9 and a-f")
    return text


def check_dataset(name: str) -> str:
    """Return the name itself, or raise UsageError if it cannot name a dataset."""
    if not 0 < len(name) <= LONGEST_NAME or not name.isprintable() or name != name.strip():
        raise UsageError(
            f"dataset {name!r}: a name has 1 to {LONGEST_NAME} printable characters, and no "
            "space at either end"
        )
    return name


@dataclass(kw_only=True, slots=True)
class Held:
    """A reservation, as the entries so far leave it."""

    sequence: int
    dataset: str
    study: str
    cost: Cost  # to the dataset's total
    asked: Cost  # as the release promises it, to whom it does
    protection: Protection
    steps: int
    at: str
    process: str
    head: str  # the hash of the entry that reserved it, then of its charge
    status: str = "reserved"
    drawn: bool = False  # its one charge stands: what it covers is drawn, or never will be
    settled: bool = False
    artefact: str | None = None

    @property
    def how_to_settle(self) -> str:
        """Return the call for a person who knows that the process of this reservation is gone."""
        settle = f"ledger.settle({self.sequence}, charge=True, reason=WHY)"
        if self.status == "reserved":
            return f"{settle}, or charge=False if nothing came of it"
        return f"privalue.finish(OUTBOX) if it left an outbox, else {settle}"


class Step(NamedTuple):
    """The amounts of a dataset after one of its entries."""

    sequence: int
    at: str
    kind: str
    total: Cost
    spent: Cost
    reserved: Cost


@dataclass(kw_only=True, slots=True)
class Balance:
    """The amounts of a dataset after all entries so far."""

    terms: BudgetTerms
    total: Cost = NOTHING
    spent: Cost = NOTHING
    reserved: Cost = NOTHING
    steps: list[Step] = field(default_factory=list)

    @property
    def left(self) -> Cost:
        """Return what may still be reserved."""
        return self.total - self.spent - self.reserved


class Book:
    """Everything that the entries so far say."""

    def __init__(self) -> None:
        self.sequence = 0
        self.head = GENESIS
        self.hashes: set[str] = set()
        self.balances: dict[str, Balance] = {}
        self.reservations: dict[int, Held] = {}
        self.open: dict[tuple[str, str], Held] = {}  # by dataset and study: in progress
        self.stored: dict[tuple[str, str], Held] = {}  # and those that have an artefact
        self.backwards: list[tuple[int, str, str]] = []  # where the clock ran so, from and to
        self.accepted: list[tuple[int, str, str, str]] = []  # number, time, lost head, reason
        self._at = ""

    @classmethod
    def replay(cls, rows: Iterable[EntryRow]) -> "Book":
        """Return the book that these entries make.

        Raises:
            LedgerError: an entry is missing, changed or against the rules; the message names the
                first.
        """
        book = cls()
        for sequence, body, digest in rows:
            book._admit(sequence, body, digest)
        return book

    def write(self, kind: str, at: datetime, **own: str | int) -> EntryRow:
        """Apply the next entry, and return it as a row to be stored.

        Args:
            kind: a kind of entry; see the table above.
            at: when; it is recorded and never trusted.
            own: the fields of that kind.

        Raises:
            BudgetError: the rules do not allow it; nothing was changed.
        """
        entry = {
            "sequence": self.sequence + 1,
            "previous": self.head,
            "at": at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "kind": kind,
            "salt": salt(),
            **own,
        }
        body = canonical(entry)
        digest = sha256(body)
        self._apply(entry, digest)
        return self.sequence, body, digest

    def _admit(self, sequence: int, body: str, digest: str) -> None:
        """Check an entry's number, hash, form and predecessor, and apply it."""
        if sequence != self.sequence + 1:
            raise LedgerError(
                f"entry {self.sequence + 1} is missing or out of order: entry {sequence} stands in "
                "its place"
            )
        if not isinstance(body, str) or sha256(body) != digest:
            raise LedgerError(f"entry {sequence} was changed: its hash does not fit its content")
        entry = _parse(body)
        if sequence == 1 and entry is None and _is_of_0_1(body):
            raise LedgerError(
                "it is of privalue 0.1 (format 1), whose entries tell neither unit nor relation, "
                "so that their sum promises nothing; keep it as a record, declare the dataset in a "
                "new ledger, and take what its releases cost off the new total"
            )
        if entry is None or entry["sequence"] != sequence:
            raise LedgerError(f"entry {sequence} is no entry of a ledger: {body[:200]!r}")
        if entry["previous"] != self.head:
            raise LedgerError(
                f"entry {sequence} does not follow the entry before it: something was changed, "
                "removed, inserted or reordered here"
            )
        try:
            self._apply(entry, digest)
        except PrivalueError as problem:
            raise LedgerError(f"entry {sequence} breaks the rules: {problem}") from None

    def steps(self, dataset: str, asked: Cost, protection: Protection) -> int:
        """Return how many steps of a release's relation make one step of the dataset's relation.

        Args:
            dataset: whose total it is.
            asked: what the release promises, for the message.
            protection: whom the release protects.

        Raises:
            BudgetError: the dataset has no total, or no theorem converts the promise to its terms.
        """
        balance = self.balances.get(dataset)
        if balance is None:
            twin = look_alike(dataset, self.balances)
            meant = "" if twin is None else f'did you mean "{twin}"? '
            raise self.refusal(dataset, asked, f"{meant}no total is declared for it: {DECLARE}")
        try:
            return balance.terms.steps(protection)
        except BudgetError as problem:
            raise self.refusal(
                dataset,
                f"{asked} for {protection}",
                f"its total is for {balance.terms}, and {problem}",
            ) from None

    # The rules: each refuses before it changes anything

    def _apply(self, entry: Mapping[str, Any], digest: str) -> None:
        """Apply an entry by the rule of its kind, then go on to the next number and hash."""
        kind, sequence, at = entry["kind"], entry["sequence"], entry["at"]
        if (kind == "begin") != (sequence == 1) or entry.get("format", FORMAT) != FORMAT:
            raise LedgerError(f'a ledger starts with "begin", once, and here has format {FORMAT}')
        if kind == "declare":
            self._declare(entry)
        elif kind == "reserve":
            self._reserve(entry, digest)
        elif kind == "accept":
            check_hash("the lost head", entry["lost"])
            self.accepted.append((sequence, at, entry["lost"], entry["reason"]))
        elif kind != "begin":
            self._move(entry, digest)
        self.sequence, self.head = sequence, digest
        self.hashes.add(digest)
        if at < self._at:
            self.backwards.append((sequence, self._at, at))
        self._at = at
        if kind not in {"begin", "accept"}:  # these two are of no dataset
            dataset = entry.get("dataset") or self.reservations[entry["reservation"]].dataset
            now = self.balances[dataset]
            now.steps.append(Step(sequence, at, kind, now.total, now.spent, now.reserved))

    def _declare(self, entry: Mapping[str, Any]) -> None:
        """Set a dataset's total; refuse one below what is used, or new terms for used amounts."""
        dataset = check_dataset(entry["dataset"])
        total = Cost(epsilon=entry["epsilon"], delta=entry["delta"])
        terms = BudgetTerms(
            protection=_protection(entry),
            trajectories_per_person=entry["trajectories_per_person"] or None,
            accounting=entry["accounting"],
        ).check()
        balance = self.balances.get(dataset) or Balance(terms=terms)
        used = balance.spent + balance.reserved
        if total.epsilon < 1 or not used.within(total):
            raise self.refusal(
                dataset, f"a total of {total}", f"a total cannot be below what is used, {used}"
            )
        if terms != balance.terms and used != NOTHING:
            raise self.refusal(
                dataset,
                f"a total for {terms}",
                f"its total is for {balance.terms}, and what is used was counted so; another kind "
                "of total needs another name, and what was spent taken off it",
            )
        balance.total, balance.terms = total, terms
        self.balances[dataset] = balance

    def _reserve(self, entry: Mapping[str, Any], digest: str) -> None:
        """Set an amount aside; refuse more than is left, or a request that is in progress."""
        dataset, study = entry["dataset"], check_hash("the study hash", entry["study"])
        asked, protection = Cost(epsilon=entry["epsilon"], delta=entry["delta"]), _protection(entry)
        check_mu(entry["mu"])
        steps = self.steps(dataset, asked, protection.check())
        if entry["steps"] != steps:
            raise UsageError(f"{entry['steps']} steps: from {protection} it takes {steps}")
        cost, balance = over_steps(asked, steps), self.balances[dataset]
        other = self.open.get((dataset, study))
        if other is not None:
            raise self.refusal(
                dataset,
                cost,
                f"the identical request is in progress since {other.at} (entry {other.sequence}, "
                f"{other.status}, process {other.process}); wait for it, or if that process is "
                f"gone: {other.how_to_settle}",
            )
        if asked.epsilon < 1 or asked.delta < 0 or not cost.within(balance.left):
            why = f"its total is {balance.total}"
            if steps > 1:
                asks = f"{asked} for {protection}"
                why += f", for {balance.terms}; {asks} is charged as {steps} steps"
            raise self.refusal(dataset, cost, why)
        balance.reserved += cost
        self.reservations[entry["sequence"]] = self.open[dataset, study] = Held(
            sequence=entry["sequence"],
            dataset=dataset,
            study=study,
            cost=cost,
            asked=asked,
            protection=protection,
            steps=steps,
            at=entry["at"],
            process=entry["process"],
            head=digest,
        )

    def _move(self, entry: Mapping[str, Any], digest: str) -> None:
        """Charge, commit, cancel or settle a reservation, if its status allows that."""
        kind, held = entry["kind"], self.reservations.get(entry["reservation"])
        if held is None:
            raise UsageError(f"entry {entry['reservation']} is no reservation of this ledger")
        wanted = entry["outcome"] if kind == "settle" else _OUTCOME[kind]
        # A charge covers one draw, whoever asks: its process again, a fork of it, or one whose
        # reservation a person had settled as charged. Only what has its charge is committed.
        barred = {"charge": held.drawn, "commit": not held.drawn, "settle": held.settled}
        if barred.get(kind, False) or (held.status, wanted) not in _MOVES[kind]:
            raise self.refusal(
                held.dataset,
                held.cost,
                f"reservation {held.sequence} is {held.status}{' and settled' * held.settled}, and "
                f"cannot be {wanted}{': a charge covers one draw' * held.drawn}",
            )
        key, balance = (held.dataset, held.study), self.balances[held.dataset]
        if kind == "commit":
            held.artefact = check_hash("the artefact's hash", entry["artefact"])
            self.stored.setdefault(key, held)
        if held.status == "reserved":
            balance.reserved -= held.cost
            if wanted == "charged":
                balance.spent += held.cost
        if kind == "charge":
            held.drawn, held.head = True, digest
        held.status, held.settled = wanted, held.settled or kind == "settle"
        if kind != "charge" and self.open.get(key) is held:  # not one that came after a settlement
            del self.open[key]

    def refusal(self, dataset: str, requested: Cost | str, why: str) -> BudgetError:
        """Return a refusal in its one form: dataset, requested, left, why."""
        balance = self.balances.get(dataset)
        left = "nothing" if balance is None else balance.left
        return BudgetError(f'dataset "{dataset}": requested {requested}; left {left}; {why}')


def _protection(entry: Mapping[str, Any]) -> Protection:
    """Return whom an entry protects."""
    return Protection(unit=entry["unit"], neighbours=entry["neighbours"])


def _is_of_0_1(body: str) -> bool:
    """Return whether the text is the first entry of a ledger in the format of version 0.1."""
    try:
        entry = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return isinstance(entry, dict) and (entry.get("kind"), entry.get("format")) == ("begin", 1)


def _parse(body: str) -> dict[str, Any] | None:
    """Return the entry, or None if the text is not the canonical form of one."""
    try:
        entry = json.loads(body)
        shape = {**_COMMON, **_SHAPES[entry["kind"]]}
        datetime.fromisoformat(entry["at"])
        sound = (
            entry.keys() == shape.keys()
            and all(type(entry[key]) is kind for key, kind in shape.items())
            and _TIME.fullmatch(entry["at"]) is not None
            and _HEXADECIMAL.fullmatch(entry["salt"]) is not None
            and canonical(entry) == body
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return entry if sound else None
