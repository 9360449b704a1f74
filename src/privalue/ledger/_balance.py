"""Hold what the entries come to: reservations and balances, and their form in a snapshot."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from privalue.errors import UsageError
from privalue.ledger._chain import Entry
from privalue.ledger._squares import is_certified, square_total
from privalue.ledger._terms import GAUSSIAN, PLAIN, BudgetTerms, Protection, over_steps
from privalue.ledger._told import Telling
from privalue.ledger._units import NOTHING, Cost, check_mu, of_parts

OUTCOME = {"charge": "charged", "commit": "committed", "cancel": "cancelled"}
_KEPT = (
    *("sequence", "dataset", "study", "steps", "at", "process", "head"),
    *("status", "drawn", "settled"),
)
FINAL = frozenset({"committed", "cancelled"})  # nothing that follows can change these


@dataclass(kw_only=True, slots=True)
class Held:
    """A reservation, as the entries so far leave it."""

    sequence: int
    dataset: str
    study: str
    asked: Cost  # as the release promises it, to whom it does
    protection: Protection
    steps: int
    at: str
    process: str
    head: str  # the hash of the entry that reserved it, then of its charge
    cost: Cost  # to the dataset's total
    # As the entry says it; empty where a snapshot of a plain total leaves it out.
    mu: str = field(default="", compare=False)
    accounting: str = PLAIN  # of the total from which it was reserved
    status: str = "reserved"
    drawn: bool = False  # its one charge stands: what it covers is drawn, or never will be
    settled: bool = False
    artefact: str | None = None

    @classmethod
    def of(cls, entry: Entry, head: str, cost: Cost, **later: Any) -> "Held":
        """Return what an entry reserves, or a snapshot says of a reservation."""
        return cls(
            sequence=entry["sequence"],
            dataset=entry["dataset"],
            study=entry["study"],
            asked=Cost(epsilon=entry["epsilon"], delta=entry["delta"]),
            protection=protection(entry),
            steps=entry["steps"],
            at=entry["at"],
            process=entry["process"],
            head=head,
            cost=cost,
            mu=entry.get("mu", ""),
            **later,
        )

    def move(self, entry: Entry, digest: str) -> None:
        """Change as an entry says that the rules allowed."""
        kind = entry["kind"]
        if kind == "charge":
            self.drawn, self.head = True, digest
        self.artefact = entry["artefact"] if kind == "commit" else self.artefact
        self.status = entry["outcome"] if kind == "settle" else OUTCOME[kind]
        self.settled = self.settled or kind == "settle"

    def as_state(self) -> dict[str, Any]:
        """Return what a snapshot says of a reservation that is not over."""
        squares = {"mu": self.mu, "cost": [*self.cost.parts]} if self.accounting != PLAIN else {}
        return {
            **{name: getattr(self, name) for name in _KEPT},
            **{"epsilon": self.asked.epsilon, "delta": self.asked.delta},
            **{"unit": self.protection.unit, "neighbours": self.protection.neighbours},
            **squares,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> "Held":
        """Return the reservation that a snapshot describes."""
        later = {name: state[name] for name in ("status", "drawn", "settled")}
        if "mu" in state:
            return cls.of(
                state, state["head"], of_parts(state["cost"]), accounting=GAUSSIAN, **later
            )
        asked = Cost(epsilon=state["epsilon"], delta=state["delta"])
        return cls.of(state, state["head"], over_steps(asked, state["steps"]), **later)

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
    promise: Cost = NOTHING  # epsilon and delta of everything together
    total: Cost = NOTHING  # of each pool; of a plain book, the promise itself
    # The largest total of this accounting that was in force since something is used. A snapshot
    # does not hold it, so that whoever begins there knows less, and it is not compared.
    widest: Cost = field(default=NOTHING, compare=False)
    before: Cost = NOTHING  # of a book that moved to squares: that total
    spent: Cost = NOTHING
    reserved: Cost = NOTHING
    releases: int = 0  # how many were charged
    converted: int = 0  # and how many of them protect others than the total does
    steps: list[Step] = field(default_factory=list)  # since the entry that replaying began with

    @property
    def used(self) -> Cost:
        """Return what is spent or reserved."""
        return self.spent + self.reserved

    @property
    def left(self) -> Cost:
        """Return what may still be reserved."""
        return self.total - self.used

    @property
    def telling(self) -> Telling:
        """Return what writes these amounts for people."""
        gaussian = self.terms.accounting == GAUSSIAN
        return Telling(gaussian=gaussian, promise=self.promise, total=self.total)

    @property
    def kept(self) -> Cost:
        """Return the promise that everything keeps, if the book is whole.

        That is the largest total, as whoever lowered it may have done so by looking at releases.
        Whoever decided on a move by looking chose between two totals, and has the deltas of both
        (Theorems 3 and 4 of docs/proofs/gaussian-ledger.md).
        """
        return both(self.widest.or_more(self.promise), self.before)

    def as_state(self, dataset: str) -> dict[str, Any]:
        """Return what a snapshot says of a dataset."""
        squares = self.terms.accounting != PLAIN
        width = 3 if squares else 2
        promises = {"promise": self.promise, "before": self.before} if squares else {}
        return {
            "dataset": dataset,
            "unit": self.terms.protection.unit,
            "neighbours": self.terms.protection.neighbours,
            "trajectories_per_person": self.terms.trajectories_per_person or 0,
            "accounting": self.terms.accounting,
            "total": [*self.total.parts[:width]],
            "spent": [*self.spent.parts[:width]],
            "reserved": [*self.reserved.parts[:width]],
            "releases": self.releases,
            "converted": self.converted,
            **{name: [*each.parts[:2]] for name, each in promises.items()},
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> "Balance":
        """Return the balance that a snapshot describes."""
        total, spent, reserved = (of_parts(state[key]) for key in ("total", "spent", "reserved"))
        return cls(
            terms=terms(state),
            promise=of_parts(state["promise"]) if "promise" in state else total,
            before=of_parts(state.get("before", ())),
            total=total,
            spent=spent,
            reserved=reserved,
            releases=state["releases"],
            converted=state["converted"],
        )


def both(promise: Cost, before: Cost) -> Cost:
    """Return what releases keep that were made under one total, or another, by what was seen."""
    delta = promise.delta + before.delta
    return Cost(epsilon=max(promise.epsilon, before.epsilon), delta=delta)


def pools(entry: Entry) -> Cost:
    """Return what a declaration puts into each pool; refuse a mu that its promise does not allow.

    The Gaussian pool promises what the plain one leaves: both together are the sum (basic
    composition).
    """
    promise = Cost(epsilon=entry["epsilon"], delta=entry["delta"])
    if entry["accounting"] == PLAIN:
        return promise
    plain = Cost(epsilon=entry["plain_epsilon"], delta=entry["plain_delta"])
    if min(plain.parts) < 0 or (plain.delta and not plain.epsilon):
        raise UsageError(f"a plain pool of {plain}: it has an epsilon above 0, and a delta or none")
    rest = (promise - plain).as_dict()
    if check_mu(entry["mu"]) == "none" or not is_certified(entry["mu"], **rest):
        raise UsageError(f"mu = {entry['mu']} is more than {promise - plain} allows")
    return plain + Cost(square=square_total(entry["mu"]))


def protection(entry: Entry) -> Protection:
    """Return whom an entry protects."""
    return Protection(unit=entry["unit"], neighbours=entry["neighbours"])


def terms(entry: Entry) -> BudgetTerms:
    """Return the terms of the total that an entry declares."""
    return BudgetTerms(
        protection=protection(entry),
        trajectories_per_person=entry["trajectories_per_person"] or None,
        accounting=entry["accounting"],
    ).check()
