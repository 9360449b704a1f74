"""Replay entries under the rules that writing and checking share.

A writer takes the newest snapshot, replays what follows it, applies its own new entry under the
same rules, and appends it. ``verify`` replays from the first entry, and proves each snapshot equal
to what the entries before it come to.

A row that does not continue the chain (its number, its hash, or what it says of the one before) is
damage: everybody stops. A row that does continue it, and breaks the rules, was written by hand: it
is *ignored*. It keeps its number and its place in the chain, so that every reader agrees on which
rows count, and it changes nothing.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from privalue.errors import BudgetError, LedgerError, PrivalueError, UsageError
from privalue.ledger._balance import FINAL, OUTCOME, Balance, Held, Step, pools, protection, terms
from privalue.ledger._chain import (
    DECLARE,
    EARLIER,
    FORMAT,
    GENESIS,
    KEEPERS,
    LATER,
    LONGEST_TEXT,
    PLAIN_ALONE,
    UNSEALED,
    WITHOUT_SQUARES,
    Entry,
    EntryRow,
    canonical,
    check_dataset,
    check_hash,
    is_hash,
    loosely,
    parse,
    salt,
    sha256,
)
from privalue.ledger._names import nearest
from privalue.ledger._seal import Seal
from privalue.ledger._terms import GAUSSIAN, PLAIN, BudgetTerms, Protection
from privalue.ledger._told import Telling
from privalue.ledger._units import NOTHING, Cost, check_mu, of_parts

PERIOD = 64  # entries from one snapshot to the next, if what it holds is not longer itself
_MOVES = {
    "charge": {("reserved", "charged"), ("charged", "charged")},  # once, see below
    "commit": {("charged", "committed")},
    "cancel": {("reserved", "cancelled")},
    "settle": {("reserved", "charged"), ("charged", "charged"), ("reserved", "cancelled")},
}


PAID = frozenset({"charged", "committed"})


class Backwards(NamedTuple):
    """The last time that the clock ran backwards, and how often it had before."""

    sequence: int
    before: str
    after: str
    earlier: int


class Book:
    """Everything that the entries so far say."""

    def __init__(self, seal: Seal | None = None) -> None:
        self.sequence = 0
        self.head = GENESIS
        self.salt = ""  # of the first entry, if the ledger is sealed
        self.squares = False  # whether the first entry says that totals may be Gaussian
        self.seal = seal  # the secret, where it is at hand
        self.rested = 0  # the number of the last snapshot
        self.whole = True  # every entry was replayed, none is taken from a snapshot
        self.hashes: set[str] = set()  # of the entries that were replayed and count
        self.balances: dict[str, Balance] = {}
        self.reservations: dict[int, Held] = {}  # that were replayed
        self.pending: dict[int, Held] = {}  # that are not over: all there are
        self.open: dict[tuple[str, str], Held] = {}  # by dataset and study: in progress
        self.ignored: dict[int, str] = {}  # rows that break the rules, and how
        self.backwards: Backwards | None = None
        self.accepted: list[tuple[int, str, str, str]] = []  # number, time, lost head, reason
        self._at = ""

    def replay(self, rows: Iterable[EntryRow]) -> "Book":
        """Return the book itself, after these entries.

        Raises:
            LedgerError: an entry is missing, changed or out of order, or a false snapshot; the
                message names the first.
        """
        for row in rows:
            self._admit(*row)
        return self

    def write(self, kind: str, at: datetime, **own: Any) -> EntryRow:
        """Apply the next entry, and return it as a row to be stored.

        Args:
            kind: a kind of entry; see the table in ``_chain``.
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
        if kind not in KEEPERS:
            return self.sequence, body, digest, ""
        mark = self.seal.of(body, self.salt) if self.seal and self.salt else UNSEALED
        return self.sequence, body, digest, mark

    # A snapshot, and how to go on from it

    @property
    def due(self) -> bool:
        """Return whether a snapshot should be written."""
        size = len(self.balances) + len(self.pending) + len(self.ignored) + len(self.accepted)
        return self.sequence - self.rested >= max(PERIOD, size)

    def state(self) -> dict[str, Any]:
        """Return what the entries so far come to; it does not grow with the number of releases."""
        return {
            "datasets": [balance.as_state(name) for name, balance in self.balances.items()],
            "reservations": [held.as_state() for held in self.pending.values()],
            "ignored": list(self.ignored),
            "accepted": [list(each) for each in self.accepted],
            "at": self._at,
            "backwards": list(self.backwards or ()),
        }

    def go_on(self, state: Entry, sequence: int, head: str, rested: int) -> "Book":
        """Return the book itself, as it stood after the entry with this number and hash.

        Args:
            state: what a snapshot holds, of which the caller knows that a keeper wrote it.
            sequence: the number of the last entry that it covers.
            head: the hash of that entry.
            rested: the number of the last snapshot.
        """
        self.balances = {each["dataset"]: Balance.from_state(each) for each in state["datasets"]}
        self.pending = {each["sequence"]: Held.from_state(each) for each in state["reservations"]}
        self.reservations = dict(self.pending)
        self.open = {
            (held.dataset, held.study): held for held in self.pending.values() if not held.settled
        }
        self.ignored = dict.fromkeys(state["ignored"], "")
        self.accepted = [(*each,) for each in state["accepted"]]
        self.backwards = Backwards(*state["backwards"]) if state["backwards"] else None
        self._at = state["at"]
        self.sequence, self.head, self.rested, self.whole = sequence, head, rested, False
        return self

    def begin_with(self, row: EntryRow | None) -> None:
        """Learn from the first entry whether the ledger is sealed, without replaying it."""
        begin = None if row is None else checked(row)
        if row is None or begin is None or begin["kind"] != "begin" or row[0] != 1:
            raise LedgerError("entry 1 is missing or changed")
        self._begin(begin, row[1])

    def rest_at(self, row: EntryRow) -> bool:
        """Go on from a row that says that it is a snapshot; return whether it counts as one."""
        sequence, body, digest, seal = row
        entry = checked(row)
        if entry is None or entry["kind"] != "snapshot" or entry["sequence"] != sequence:
            return False
        try:
            self._authorise(entry, body, seal)
        except UsageError:
            return False
        try:
            for each in entry["state"]["datasets"]:
                self._require_squares(sequence, each["accounting"])
            self.go_on(entry["state"], sequence, digest, sequence)
            self._clock(entry)
        except (KeyError, TypeError, ValueError) as problem:
            raise LedgerError(f"entry {sequence} is a false snapshot: {problem!r}") from None
        return True

    def _admit(self, sequence: int, body: str, digest: str, seal: str) -> None:
        """Check that a row continues the chain, and apply it, or ignore it if the rules say so."""
        if sequence != self.sequence + 1:
            raise LedgerError(
                f"entry {self.sequence + 1} is missing or out of order: entry {sequence} stands in "
                "its place"
            )
        entry = checked((sequence, body, digest, seal))
        if (entry or loosely(body)).get("previous", self.head) != self.head:
            raise LedgerError(
                f"entry {sequence} does not follow the entry before it: something was changed, "
                "removed, inserted or reordered here"
            )
        if sequence == 1:
            self._begin(entry, body)
        try:
            if entry is None or entry["sequence"] != sequence:
                raise UsageError(f"it is not an entry of a ledger: {body[:200]!r}")
            self._authorise(entry, body, seal)
            self._apply(entry, digest)
        except LedgerError:
            raise
        except PrivalueError as problem:
            why = f"entry {sequence} breaks the rules: {_shown(str(problem))}"
            if sequence == 1:
                raise LedgerError(why) from None
            self.ignored[sequence] = why
            self.sequence, self.head = sequence, digest

    def _begin(self, entry: Entry | None, body: str) -> None:
        """Refuse a ledger of another format; learn whether this one is sealed, and adds squares."""
        said = loosely(body)
        version = said.get("format") if said.get("kind") == "begin" else None
        if isinstance(version, int) and version not in {WITHOUT_SQUARES, FORMAT}:
            raise LedgerError(EARLIER if version < WITHOUT_SQUARES else LATER)
        if entry is not None and entry["kind"] == "begin":
            self.salt = entry["salt"] if entry["sealed"] else ""
            self.squares = entry.get("squares", False)

    def _require_squares(self, sequence: int, accounting: str) -> None:
        """Stop where a Gaussian total stands in a ledger that others read as plain sums."""
        if accounting != PLAIN and not self.squares:
            raise LedgerError(f"entry {sequence} has a Gaussian total: {PLAIN_ALONE}")

    def _authorise(self, entry: Entry, body: str, seal: str) -> None:
        """Refuse what only a keeper writes, and no keeper did.

        Raises:
            UsageError: whoever wrote it may not; the entry is to be ignored.
            LedgerError: its seal is false, which only somebody shows who has the secret.
        """
        kind = entry["kind"]
        if kind not in KEEPERS:
            return
        if not seal or (self.salt and not is_hash(seal)):
            raise UsageError(
                f'only a keeper writes "{kind}", and this one has no '
                f"{'seal' if self.salt else 'right of a keeper'}"
            )
        if self.salt and self.seal and not self.seal.fits(seal, body, self.salt):
            raise LedgerError(
                f"entry {entry['sequence']} has a false seal: it was not written with this secret"
            )

    # The rules: each refuses before it changes anything

    def _apply(self, entry: Entry, digest: str) -> None:
        """Apply an entry by the rule of its kind, then go on to the next number and hash."""
        kind, sequence = entry["kind"], entry["sequence"]
        known = entry.get("format", FORMAT) in {WITHOUT_SQUARES, FORMAT}
        if (kind == "begin") != (sequence == 1) or not known:
            raise UsageError(
                f'a ledger starts with "begin", once, and here has format {WITHOUT_SQUARES} or '
                f"{FORMAT}"
            )
        for name, value in entry.items():
            if isinstance(value, str) and len(value) > LONGEST_TEXT:
                raise UsageError(
                    f"{name} has {len(value):,} characters; on the record a text has at most "
                    f"{LONGEST_TEXT:,}: shorten it"
                )
        dataset = None
        if kind == "declare":
            dataset = self._declare(entry)
        elif kind == "move":
            dataset = self._move_to(entry)
        elif kind == "reserve":
            dataset = self._reserve(entry, digest)
        elif kind == "snapshot":
            if entry["state"] != self.state():
                raise LedgerError(
                    f"entry {sequence} is a false snapshot: the entries before it come to something"
                    " else"
                )
            self.rested = sequence
        elif kind == "accept":
            lost = check_hash("the lost head", entry["lost"])
            self.accepted.append((sequence, entry["at"], lost, entry["reason"]))
        elif kind != "begin":
            dataset = self._move(entry, digest)
        else:
            self._begin(entry, "")
        self.sequence, self.head = sequence, digest
        self.hashes.add(digest)
        self._clock(entry)
        if dataset is not None:
            now = self.balances[dataset]
            now.steps.append(Step(sequence, entry["at"], kind, now.total, now.spent, now.reserved))

    def _clock(self, entry: Entry) -> None:
        """Note where the clock ran backwards."""
        sequence, at = entry["sequence"], entry["at"]
        if at < self._at:
            earlier = 0 if self.backwards is None else self.backwards.earlier + 1
            self.backwards = Backwards(sequence, self._at, at, earlier)
        self._at = at

    def _declare(self, entry: Entry) -> str:
        """Set a dataset's total; refuse one below what is used, or new terms for used amounts.

        Nor are pools split anew, or squares given up for plain sums: whoever chose between two
        totals by what a release showed would keep the promise of neither (see the proof).
        """
        dataset, declared = check_dataset(entry["dataset"]), terms(entry)
        self._require_squares(entry["sequence"], declared.accounting)
        balance = self.balances.get(dataset) or Balance(terms=declared)
        used = balance.used
        if used != NOTHING and balance.terms.accounting == GAUSSIAN:
            self._require_as_split(dataset, declared, balance, pools(entry))
        if declared != balance.terms and used != NOTHING:
            raise self.refusal(
                dataset,
                f"a total for {declared}",
                f"its total is for {balance.terms}, and what is used was counted so; another kind "
                "of total needs another name, and what was spent taken off it",
            )
        self._set(entry, declared, balance, used)
        return dataset

    def _require_as_split(
        self, dataset: str, declared: BudgetTerms, balance: Balance, total: Cost
    ) -> None:
        """Refuse to give up squares, or to change the plain pool, of a book that is used."""
        pool = replace(balance.total, square=0)
        if declared.accounting == PLAIN:
            raise self.refusal(
                dataset,
                f"a total of {total}",
                "squares of mu are added for it, and something is used: to go back to plain sums "
                'once releases were seen would keep no promise; keep accounting="gaussian"',
            )
        if replace(total, square=0) != pool:
            raise self.refusal(
                dataset,
                f"a total of {total}",
                f"its plain pool is {pool}, and something is used: to split it anew once releases "
                "were seen would keep no promise; give the plain_epsilon and plain_delta that it "
                "has",
            )

    def _set(self, entry: Entry, declared: BudgetTerms, balance: Balance, used: Cost) -> None:
        """Give a dataset the total of an entry, unless more is used."""
        dataset, promise = entry["dataset"], Cost(epsilon=entry["epsilon"], delta=entry["delta"])
        total = pools(entry)
        if promise.epsilon < 1 or not used.within(total):
            squares = declared.accounting == GAUSSIAN
            declares = Telling(gaussian=squares, promise=promise, total=total).of(total, left=True)
            raise self.refusal(
                dataset, f"a total of {declares}", f"a total cannot be below what is used, {used}"
            )
        balance.promise, balance.total, balance.terms = promise, total, declared
        balance.widest = promise if used == NOTHING else balance.widest.or_more(promise)
        self.balances[dataset] = balance

    def _move_to(self, entry: Entry) -> str:
        """Set a plain dataset's Gaussian total, with all that was spent counted anew.

        It also states the total before it, whose delta stays in what is promised. Who replays every
        entry proves both. Who begins at a snapshot takes a keeper's word for them, as for the
        snapshot.
        """
        dataset, declared = str(entry["dataset"]), terms(entry)
        self._require_squares(entry["sequence"], declared.accounting)
        balance = self.balances.get(dataset)
        ways = declared.accounting, balance.terms.accounting if balance else None
        if balance is None or ways != (GAUSSIAN, PLAIN):
            raise UsageError("a move is from plain sums to squares of mu")
        if replace(declared, accounting=balance.terms.accounting) != balance.terms:
            raise self.refusal(
                dataset,
                f"a total for {declared}",
                f"its total is for {balance.terms}: only the accounting can change",
            )
        if balance.reserved != NOTHING:
            held = next(
                each
                for each in self.pending.values()
                if (each.dataset, each.status) == (dataset, "reserved")
            )
            raise self.refusal(
                dataset,
                f"{declared.accounting} accounting",
                f"a release is in progress (entry {held.sequence}, process {held.process}); wait "
                f"for it, or if that process is gone: {held.how_to_settle}",
            )
        spent, before = _amount(entry["spent"]), _amount([*entry["before"], 0])
        if self.whole:
            try:
                true = spent == self.recounted(dataset, declared, pools(entry))
            except BudgetError:
                true = False
            if not (true and before == balance.widest):
                raise LedgerError(
                    f"entry {entry['sequence']} is a false move: the releases before it come to "
                    "something else, or another total was theirs"
                )
        self._set(entry, declared, balance, spent)
        balance.spent, balance.before, balance.widest = spent, before, balance.promise
        return dataset

    def recounted(self, dataset: str, declared: BudgetTerms, total: Cost) -> Cost:
        """Return what all releases of a dataset cost under other terms; the book is whole."""
        spent = NOTHING
        for held in self.reservations.values():
            if held.dataset == dataset and held.status in PAID:
                try:
                    spent += declared.cost(held.asked, held.mu, held.steps, total)
                except BudgetError as problem:
                    raise self.refusal(
                        dataset,
                        f"{declared.accounting} accounting",
                        f"entry {held.sequence} cannot be counted so: {problem}",
                    ) from None
        return spent

    def _reserve(self, entry: Entry, digest: str) -> str:
        """Set an amount aside; refuse more than is left, or a request that is in progress."""
        dataset, study = str(entry["dataset"]), check_hash("the study hash", entry["study"])
        asked, whom = Cost(epsilon=entry["epsilon"], delta=entry["delta"]), protection(entry)
        check_mu(entry["mu"])
        steps = self.steps(dataset, asked, whom.check())
        if entry["steps"] != steps:
            raise UsageError(f"{entry['steps']} steps: from {whom} it takes {steps}")
        if asked.epsilon < 1 or asked.delta < 0:
            raise UsageError(f"{asked}: a release costs something")
        balance = self.balances[dataset]
        try:
            paid = balance.terms.cost(asked, entry["mu"], steps, balance.total)
        except BudgetError as problem:
            raise self.refusal(dataset, asked, f"its total is Gaussian: {problem}") from None
        other = self.open.get((dataset, study))
        if other is not None:
            raise self.refusal(
                dataset,
                paid,
                f"the identical request is in progress since {other.at} (entry {other.sequence}, "
                f"{other.status}, process {other.process}); wait for it, or if that process is "
                f"gone: {other.how_to_settle}",
            )
        if not paid.within(balance.left):
            why = f"its total is {balance.telling.of(balance.total, left=True)}"
            if steps > 1:
                asks = f"{asked} for {whom}"
                why += f", for {balance.terms}; {asks} is charged as {steps} steps"
            if paid.square:
                why += balance.telling.room(balance.left, asked, steps)
            raise self.refusal(dataset, f"{asked} ({paid})" if paid.square else paid, why)
        balance.reserved += paid
        held = Held.of(entry, digest, paid, accounting=balance.terms.accounting)
        self.open[dataset, study] = held
        self.reservations[held.sequence] = self.pending[held.sequence] = held
        return dataset

    def _move(self, entry: Entry, digest: str) -> str:
        """Charge, commit, cancel or settle a reservation, if its status allows that."""
        kind, held = entry["kind"], self.reservations.get(entry["reservation"])
        if held is None:
            raise UsageError(
                f"entry {entry['reservation']} is not a reservation of this ledger, or is over"
            )
        wanted = entry["outcome"] if kind == "settle" else OUTCOME[kind]
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
            check_hash("the artefact's hash", entry["artefact"])
            if (entry["dataset"], entry["study"]) != key:
                raise UsageError(f"reservation {held.sequence} is for another request")
        if held.status == "reserved":
            balance.reserved -= held.cost
            if wanted == "charged":
                balance.spent += held.cost
                balance.releases += 1
                balance.converted += held.protection != balance.terms.protection
        held.move(entry, digest)
        if held.status in FINAL:
            del self.pending[held.sequence]
        if kind != "charge" and self.open.get(key) is held:  # not one that came after a settlement
            del self.open[key]
        return held.dataset

    def steps(self, dataset: str, asked: Cost | str, protection: Protection) -> int:
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
            near = nearest(dataset, self.balances)
            meant = "" if near is None else f'did you mean "{near}"? '
            raise self.refusal(dataset, asked, f"{meant}no total is declared for it: {DECLARE}")
        try:
            return balance.terms.steps(protection)
        except BudgetError as problem:
            raise self.refusal(
                dataset,
                f"{asked} for {protection}",
                f"its total is for {balance.terms}, and {problem}",
            ) from None

    def refusal(self, dataset: str, requested: Cost | str, why: str) -> BudgetError:
        """Return a refusal in its one form: dataset, requested, left, why."""
        balance = self.balances.get(dataset)
        left = "nothing"
        if balance is not None:
            left = str(balance.telling.of(balance.left, left=True))
        return BudgetError(f'dataset "{dataset}": requested {requested}; left {left}; {why}')


def checked(row: EntryRow) -> Entry | None:
    """Return the entry in a row, or None if it holds none; raise LedgerError if it was changed."""
    sequence, body, digest, _ = row
    if not isinstance(body, str) or sha256(body) != digest:
        raise LedgerError(f"entry {sequence} was changed: its hash does not fit its content")
    entry = parse(body)
    if entry is not None and entry["sequence"] != sequence:
        raise LedgerError(f"entry {sequence} was moved here: it says that it is another one")
    return entry


def looked_up(row: EntryRow, **said: Any) -> Entry | None:
    """Return the entry to which an index led, or None if it holds none.

    Raises:
        LedgerError: the row was changed, or says something else than the index does.
    """
    entry = checked(row)
    if entry is not None and any(entry.get(key) != value for key, value in said.items()):
        raise LedgerError(f"entry {row[0]} does not say what the index of the entries says")
    return entry


def _amount(parts: list[Any]) -> Cost:
    """Return the amount that a move states, or raise UsageError if it states none."""
    if len(parts) != len(NOTHING.parts) or not all(type(n) is int and n >= 0 for n in parts):
        raise UsageError(f"{parts}: an amount is epsilon, delta and mu^2, in units")
    return of_parts(parts)


def _shown(text: str) -> str:
    """Return what somebody wrote by hand, fit for a terminal."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)
