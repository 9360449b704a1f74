"""Verify a ledger: every entry, every sum, every cost, every stored release.

Each page of entries is read in a transaction of its own, so that writers do not wait; entries never
change, so that the pages are consistent.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from privalue.errors import LedgerError, PrivalueError, UsageError
from privalue.ledger import entries
from privalue.ledger.amounts import ZERO, Amount, cost_of
from privalue.ledger.entries import Balance, LedgerEntry, last_entry, parse_object, sha256
from privalue.ledger.store import AMOUNTS, GENESIS, Store
from privalue.ledger.terms import BudgetTerms, Protection

_PAGE, _BATCH = 2_000, 50  # entries, and releases, in memory at a time
_COMMON = {"format", "previous", "kind", "dataset", "at", "author", "salt", "releases", *AMOUNTS}
_PROMISE = {"promise", "unit", "neighbours"}
_TOTAL = {"largest", "max_trajectories_per_person", "accounting", "reason"}
_CHARGE = {"request", "alpha", "steps", "what", "is_foreign", "token"}
_KEYS = {
    "declare": _COMMON | _PROMISE | _TOTAL,
    "charge": _COMMON | _PROMISE | _CHARGE,
    "commit": _COMMON | {"charge", "release"},
}


@dataclass(frozen=True, kw_only=True)
class Verification:
    """The number of entries and the head of a ledger that passed its check."""

    entries: int
    head: str


@dataclass(kw_only=True)
class _DatasetState:
    """The state of a dataset after the entries so far."""

    terms: BudgetTerms
    largest: Amount
    balance: Balance


@dataclass
class _LedgerState:
    """The state of the ledger after the entries so far."""

    number: int = 0
    head: str = GENESIS
    datasets: dict[str, _DatasetState] = field(default_factory=dict)
    uncommitted: dict[int, str] = field(default_factory=dict)  # datasets of charges, by number

    def check(self, entry: LedgerEntry) -> None:
        """Check the next entry; raise ValueError if it does not follow from the earlier entries."""
        if entry.number != self.number + 1 or entry.body.get("previous") != self.head:
            raise ValueError("it does not follow the previous entry")
        _check_form(entry)
        dataset = self.datasets.get(entry.dataset)
        if entry.kind == "declare":
            dataset = self.datasets[entry.dataset] = _apply_declaration(entry, dataset)
        elif dataset is None:
            raise ValueError("its dataset has no total")
        elif entry.kind == "charge":
            _check_cost(entry, dataset.terms)
            dataset.balance = dataset.balance.after(entry.cost)
            if not entry.body["is_foreign"]:
                self.uncommitted[entry.number] = entry.dataset
        elif self.uncommitted.pop(entry.body["charge"], None) != entry.dataset:
            raise ValueError("its charge does not exist, or has another release")
        if entry.kind != "charge" and entry.cost != ZERO:
            raise ValueError("its cost is not 0")
        if entry.balance != dataset.balance or not entry.balance.spent.fits(entry.balance.total):
            raise ValueError("its balance is wrong, or overdrawn")
        self.number, self.head = entry.number, entry.hash


def verify(store: Store, heads: Iterable[str], releases: Mapping[str, str]) -> Verification:
    """Check the whole ledger; raise LedgerError with the first fault.

    Args:
        store: the store of the ledger.
        heads: hashes that the ledger must contain.
        releases: texts that the ledger must contain, by their names in messages.
    """
    ledger, has_more = _LedgerState(), True
    while has_more:
        with store.transaction() as execute:
            page = entries.select_entries(execute, "sequence > ?", ledger.number, limit=_PAGE)
        for entry in page:
            try:
                ledger.check(entry)
            except (ValueError, KeyError, TypeError, ArithmeticError, PrivalueError) as problem:
                raise _failure(store, f"entry {entry.number}: {problem}") from None
        has_more = len(page) == _PAGE
    if ledger.number == 0:
        raise _failure(store, "entry 1 is missing")
    _check_releases(store)
    fault = store.find_fault()
    if fault is not None:
        raise _failure(store, fault)
    _check_evidence(store, heads, releases)
    return Verification(entries=ledger.number, head=ledger.head)


def _failure(store: Store, why: str) -> LedgerError:
    return LedgerError(f"the ledger {store.place} fails its check: {why}")


def _check_form(entry: LedgerEntry) -> None:
    """Raise ValueError unless an entry has exactly the fields that ``append`` writes."""
    body = entry.body
    if body.get("format") != entries.FORMAT:
        raise ValueError("it is of another format")
    if body.keys() != _KEYS[entry.kind] or sha256(entries.canonical_json(body)) != entry.hash:
        raise ValueError("its fields differ from those of its kind")
    columns = [body[name] for name in ("kind", "dataset", "releases", *AMOUNTS)]
    total, spent, releases = entry.balance
    if columns != [entry.kind, entry.dataset, releases, *entry.cost, *spent, *total]:
        raise ValueError("its columns differ from its body")
    promises = [entry.promise(key) for key in ("promise", "largest") if key in body]
    if any(type(number) is not int or number < 0 for number in [*columns[2:], *sum(promises, ())]):
        raise ValueError("an amount is not a whole number")
    entries.check_name(entry.dataset)
    for name in {"previous", "salt", "request", "release", "token"} & body.keys():
        entries.check_hash(body[name])
    if datetime.fromisoformat(body["at"]).strftime(entries.DAY) != body["at"]:
        raise ValueError("its time has another format")


def _apply_declaration(entry: LedgerEntry, previous: _DatasetState | None) -> _DatasetState:
    """Return the state of a dataset after a declaration."""
    terms, promise = BudgetTerms.of(entry.body), entry.promise()
    state = _DatasetState(terms=terms, largest=promise, balance=Balance(entry.balance.total))
    if previous is not None:
        state.balance = previous.balance._replace(total=entry.balance.total)
        if terms.accounting != previous.terms.accounting:
            raise ValueError("the accounting changed")
        if previous.balance.releases:
            state.largest = promise.maximum(previous.largest)
            if terms != previous.terms:
                raise ValueError("the protection of its total changed")
    if state.largest != entry.promise("largest"):
        raise ValueError("its largest promise is wrong")
    if not terms.allows(entry.balance.total, promise):
        raise ValueError("its total exceeds its promise")
    return state


def _check_cost(entry: LedgerEntry, terms: BudgetTerms) -> None:
    """Raise ValueError if a charge costs less than its promise."""
    body = entry.body
    alpha = None if body["alpha"] is None else float(body["alpha"])
    if alpha is not None and not (0 < alpha < math.inf and repr(alpha) == body["alpha"]):
        raise ValueError("its alpha is not a positive number")
    steps = terms.steps(Protection(unit=body["unit"], neighbours=body["neighbours"]))
    if body["steps"] != steps:
        raise ValueError("its number of steps is wrong")
    if not terms.covers(entry.cost, entry.promise(), steps, alpha):
        raise ValueError("its cost is too low")
    if body["is_foreign"] and body["request"] != sha256(body["what"]):
        raise ValueError("its request is not the hash of its text")


def release_fault(text: str, charge: LedgerEntry) -> str | None:
    """Return why a text cannot be the release of a charge, or None if it can.

    Args:
        text: JSON that states the hash of its charge as ``ledger_head``, and its promise.
        charge: the entry of the charge.
    """
    fields = parse_object(text)
    if charge.body.get("is_foreign"):
        return "the charge is for a release of another tool"
    if fields.get("ledger_head") != charge.hash:
        return "it states another charge, or none"
    if "privacy" not in fields:
        return None
    try:
        privacy = fields["privacy"]
        claim: list[Any] = [*cost_of(privacy["epsilon"], privacy["delta"])[:2]]
        claim += [privacy["unit"], privacy["neighbours"]]
        # Its cost on a Gaussian total depends on alpha.
        claim += [repr(fields["noise"]["alpha"]) if fields.get("mechanism") == "dp-ssp" else None]
        expected = [*charge.body["promise"], *map(charge.body.get, ("unit", "neighbours", "alpha"))]
    except (KeyError, TypeError, UsageError):
        return "it does not state its promise"
    return None if claim == expected else "its promise differs from the charge's"


def _check_releases(store: Store) -> None:
    """Raise LedgerError unless every commit has its release, unchanged."""
    after, has_more = 0, True
    while has_more:
        with store.transaction() as execute:
            rows = execute(
                "SELECT e.charge, e.release, r.text FROM ledger_entries AS e"
                " LEFT JOIN ledger_releases AS r ON r.hash = e.release"
                f" WHERE e.kind = 'commit' AND e.charge > ? ORDER BY e.charge LIMIT {_BATCH}",
                (after,),
            ).fetchall()
            for after, digest, text in rows:
                charge = last_entry(execute, "sequence = ?", after)
                fault: str | None = "it was changed or removed"
                if charge is not None and isinstance(text, str) and sha256(text) == digest:
                    fault = release_fault(text, charge)
                if fault is not None:
                    raise _failure(store, f"the release of entry {after}: {fault}")
        has_more = len(rows) == _BATCH


def _check_evidence(store: Store, heads: Iterable[str], releases: Mapping[str, str]) -> None:
    """Raise LedgerError unless the ledger contains these heads and releases."""
    with store.transaction() as execute:
        for head in heads:
            if last_entry(execute, "hash = ?", head) is None:
                why = "an old copy was put back, its last entries were removed, or it is another"
                raise _failure(store, f"it lacks the head {head}: {why}")
        for name, text in releases.items():
            head = str(parse_object(text).get("ledger_head"))
            if head == "None":
                raise UsageError(
                    f"the ledger is intact, and {name} was never charged to any: it was made "
                    "without a ledger, or pooled; leave it out"
                )
            charge = last_entry(execute, "hash = ? AND kind = 'charge'", head)
            number = 0 if charge is None else charge.number
            commit = last_entry(execute, "charge = ? AND kind = 'commit'", number)
            if commit is None or commit.body.get("release") != sha256(text):
                raise _failure(store, f"no entry commits {name}, a release with the head {head}")
