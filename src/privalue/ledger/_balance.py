"""Hold what the entries come to: reservations and balances, and their form in a snapshot."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from privalue.ledger._chain import Entry
from privalue.ledger._terms import BudgetTerms, Protection, over_steps
from privalue.ledger._units import NOTHING, Cost

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
    status: str = "reserved"
    drawn: bool = False  # its one charge stands: what it covers is drawn, or never will be
    settled: bool = False
    artefact: str | None = None
    cost: Cost = field(init=False)  # to the dataset's total

    def __post_init__(self) -> None:
        self.cost = over_steps(self.asked, self.steps)

    @classmethod
    def of(cls, entry: Entry, head: str, **later: Any) -> "Held":
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
        return {
            **{name: getattr(self, name) for name in _KEPT},
            **{"epsilon": self.asked.epsilon, "delta": self.asked.delta},
            **{"unit": self.protection.unit, "neighbours": self.protection.neighbours},
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> "Held":
        """Return the reservation that a snapshot describes."""
        later = {name: state[name] for name in ("status", "drawn", "settled")}
        return cls.of(state, state["head"], **later)

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
    releases: int = 0  # how many were charged
    converted: int = 0  # and how many of them protect others than the total does
    steps: list[Step] = field(default_factory=list)  # since the entry that replaying began with

    @property
    def left(self) -> Cost:
        """Return what may still be reserved."""
        return self.total - self.spent - self.reserved

    def as_state(self, dataset: str) -> dict[str, Any]:
        """Return what a snapshot says of a dataset."""
        return {
            "dataset": dataset,
            "unit": self.terms.protection.unit,
            "neighbours": self.terms.protection.neighbours,
            "trajectories_per_person": self.terms.trajectories_per_person or 0,
            "accounting": self.terms.accounting,
            "total": [self.total.epsilon, self.total.delta],
            "spent": [self.spent.epsilon, self.spent.delta],
            "reserved": [self.reserved.epsilon, self.reserved.delta],
            "releases": self.releases,
            "converted": self.converted,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> "Balance":
        """Return the balance that a snapshot describes."""
        total, spent, reserved = (
            Cost(epsilon=epsilon, delta=delta)
            for epsilon, delta in (state["total"], state["spent"], state["reserved"])
        )
        return cls(
            terms=terms(state),
            total=total,
            spent=spent,
            reserved=reserved,
            releases=state["releases"],
            converted=state["converted"],
        )


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
