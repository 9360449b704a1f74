"""Describe the account of a dataset: total, spent, reserved, left, and its history."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from privalue._above import above
from privalue.ledger._balance import Held, Step
from privalue.ledger._book import PAID, Book
from privalue.ledger._squares import mu_of
from privalue.ledger._terms import GAUSSIAN, BudgetTerms, Protection, over_steps
from privalue.ledger._told import Telling
from privalue.ledger._units import NOTHING, Cost, mu
from privalue.ledger._units import cost as cost_of


@dataclass(frozen=True, kw_only=True)
class Unfinished:
    """A reservation that neither ended nor was settled: in progress, or left by a crash."""

    entry: int
    cost: Cost
    charged: bool
    at: str
    age: timedelta  # by clocks that nobody trusts; negative where they ran backwards
    process: str
    notice: str


@dataclass(frozen=True, kw_only=True)
class Converted:
    """A release that protects others than the total does, and what it costs there."""

    entry: int
    protection: Protection
    asked: Cost
    steps: int
    cost: Cost

    def __str__(self) -> str:
        return (
            f"entry {self.entry}: {self.asked} for {self.protection}; charged as {self.steps} step"
            f"{'s' * (self.steps > 1)}, by group privacy: {self.cost}"
        )


@dataclass(frozen=True, kw_only=True)
class Standing:
    """How a dataset stands at one moment: what its pages tell, and no history."""

    dataset: str
    terms: BudgetTerms
    promise: Cost  # epsilon and delta of all releases together
    total: Cost  # of each pool; of a plain book, the promise itself
    spent: Cost
    number_of_releases: int
    number_converted: int  # those of them that had another unit or relation
    head: str

    @property
    def unspent(self) -> Cost:
        """Return what is left once no run is under way.

        A reservation in progress shows that somebody is working with the data, so a published page
        states this amount and not ``left``.
        """
        return self.total - self.spent

    @property
    def gaussian(self) -> bool:
        """Return whether squares of mu are summed."""
        return self.terms.accounting == GAUSSIAN

    def stated(self, amount: Cost, *, left: bool = False) -> dict[str, float]:
        """Return an amount as epsilon and delta, and of a Gaussian book as mu, too, for JSON."""
        return self._telling.stated(amount, left=left)

    def words(self, amount: Cost, *, left: bool = False) -> str:
        """Return an amount for people; what is left is rounded down, all else up."""
        return self._telling.words(amount, left=left)

    def further(self, epsilon: float, delta: float, alpha: float | None) -> int:
        """Return how many releases fit into what is left once no run is under way.

        Args:
            epsilon: of each, to those whom the total protects.
            delta: likewise.
            alpha: of a Gaussian release; None for others.
        """
        asked = cost_of(self.dataset, epsilon, delta)
        return self.terms.cost(asked, mu(alpha), 1, self.total).times_in(self.unspent)

    @property
    def _telling(self) -> Telling:
        return Telling(gaussian=self.gaussian, promise=self.promise, total=self.total)

    @classmethod
    def now(cls, book: Book, dataset: str) -> "Standing":
        """Return how a dataset stands that has a total."""
        return cls(**_standing(book, dataset))


@dataclass(frozen=True, kw_only=True)
class Account(Standing):
    """The account of a dataset, at one moment, with its history."""

    reserved: Cost
    left: Cost
    releases: tuple[Cost, ...]  # what is spent, release by release
    converted: tuple[Converted, ...]  # those of them that had another unit or relation
    plain_sum: Cost  # what the epsilons and deltas of all that is spent sum to
    like_the_last: int | None  # how many more like the last; None before the first
    unfinished: tuple[Unfinished, ...]
    steps: tuple[Step, ...]
    notices: tuple[str, ...]

    @classmethod
    def of(cls, book: Book, dataset: str, now: datetime) -> "Account":
        """Return the account of a dataset that has a total.

        Args:
            book: all entries so far, replayed from the first.
            dataset: its name.
            now: the time by which the age of open reservations is counted.

        Returns:
            The account, with a notice for everything that a person should settle.
        """
        balance = book.balances[dataset]
        mine = [held for held in book.reservations.values() if held.dataset == dataset]
        asked = [held for held in mine if held.status != "cancelled"]
        paid = [held for held in mine if held.status in PAID]

        def cost(held: Held) -> Cost:
            """Return what a release costs as the dataset is accounted for now."""
            if held.accounting == balance.terms.accounting:
                return held.cost
            return balance.terms.cost(held.asked, held.mu, held.steps, balance.total)

        return cls(
            **_standing(book, dataset),
            reserved=balance.reserved,
            left=balance.left,
            releases=tuple(map(cost, paid)),
            converted=tuple(
                Converted(
                    entry=held.sequence,
                    protection=held.protection,
                    asked=held.asked,
                    steps=held.steps,
                    cost=cost(held),
                )
                for held in paid
                if held.protection != balance.terms.protection
            ),
            plain_sum=sum((over_steps(held.asked, held.steps) for held in paid), start=NOTHING),
            like_the_last=cost(asked[-1]).times_in(balance.left) if asked else None,
            unfinished=unfinished(book, dataset, now),
            steps=tuple(balance.steps),
            notices=notices(book, dataset, now),
        )

    def _pools(self) -> dict[str, Any]:
        """Return what only a Gaussian book tells: its pools, and what plain sums would say."""
        if not self.gaussian:
            return {}
        return {
            "plain_pool": {
                name: Cost(epsilon=amount.epsilon, delta=amount.delta).as_dict()
                for name, amount in (
                    ("total", self.total),
                    ("spent", self.spent),
                    ("reserved", self.reserved),
                    ("left", self.left),
                )
            },
            "plain_sums": self.plain_sum.as_dict(),
        }

    def _repr_html_(self) -> str:
        return str(above("_notebook", "account_html")(self))

    def as_dict(self) -> dict[str, Any]:
        """Return the account as plain values, for JSON."""
        return {
            "dataset": self.dataset,
            "unit": self.terms.protection.unit,
            "neighbours": self.terms.protection.neighbours,
            "max_trajectories_per_person": self.terms.trajectories_per_person,
            "accounting": self.terms.accounting,
            "total": self.stated(self.total),
            "spent": self.stated(self.spent),
            "reserved": self.stated(self.reserved),
            "left": self.stated(self.left, left=True),
            **self._pools(),
            "releases": len(self.releases),
            "converted": [
                {
                    "entry": each.entry,
                    "unit": each.protection.unit,
                    "neighbours": each.protection.neighbours,
                    "asked": each.asked.as_dict(),
                    "steps": each.steps,
                    "theorem": "group privacy (docs/proofs/ledger-units.md)",
                    "charged": self.stated(each.cost),
                }
                for each in self.converted
            ],
            "like_the_last": self.like_the_last,
            "unfinished": [
                {
                    "entry": found.entry,
                    **self.stated(found.cost),
                    "charged": found.charged,
                    "at": found.at,
                    "age_seconds": int(found.age.total_seconds()),
                    "process": found.process,
                }
                for found in self.unfinished
            ],
            "history": [
                {
                    name: _history(value) if isinstance(value, Cost) else value
                    for name, value in step._asdict().items()
                }
                for step in self.steps
            ],
            "head": self.head,
            "notices": list(self.notices),
        }


def _history(amount: Cost) -> dict[str, float]:
    """Return an amount of the history: of each pool by itself, without what it comes to."""
    mu = {"mu": mu_of(amount.square)} if amount.square else {}
    return {**amount.as_dict(), **mu}


def _standing(book: Book, dataset: str) -> dict[str, Any]:
    """Return what a dataset's standing and its account have in common."""
    balance = book.balances[dataset]
    return {
        "dataset": dataset,
        "terms": balance.terms,
        "promise": balance.promise,
        "total": balance.total,
        "spent": balance.spent,
        "number_of_releases": balance.releases,
        "number_converted": balance.converted,
        "head": book.head,
    }


def notices(book: Book, dataset: str, now: datetime) -> tuple[str, ...]:
    """Return what a person should know before going on, one line for each point."""
    return tuple(found.notice for found in unfinished(book, dataset, now)) + book_notices(book)


def unfinished(book: Book, dataset: str, now: datetime) -> tuple[Unfinished, ...]:
    """Return every open reservation of a dataset."""
    return tuple(_found(held, now) for held in book.open.values() if held.dataset == dataset)


def book_notices(book: Book) -> tuple[str, ...]:
    """Return what a person should know of the ledger as a whole."""
    lines = [
        f"entry {sequence} of {at}: somebody went on without the head {lost} ({reason!r}); what "
        "was recorded between is lost, and its cost with it"
        for sequence, at, lost, reason in book.accepted
    ]
    if book.backwards is not None:
        sequence, before, after, earlier = book.backwards
        times = f", as {earlier} times before" if earlier else ""
        lines.append(
            f"the clock ran backwards at entry {sequence}, from {before} to {after}{times}: order "
            "is by entry, and nothing depends on the clock"
        )
    if book.ignored:
        *others, last = book.ignored
        more = f" and {len(others)} before it" if others else ""
        lines.append(
            f"entry {last}{more} was written by hand, breaks the rules of the ledger, and is "
            "ignored: it changes nothing and stops nobody; ledger.verify() says what is wrong; "
            "find out who wrote it"
        )
    return tuple(lines)


def _found(held: Held, now: datetime) -> Unfinished:
    """Describe an open reservation, and how to settle it."""
    age = now - datetime.fromisoformat(held.at)
    return Unfinished(
        entry=held.sequence,
        cost=held.cost,
        charged=held.status == "charged",
        at=held.at,
        age=age,
        process=held.process,
        notice=f'dataset "{held.dataset}": found entry {held.sequence}, {held.cost}, {held.status} '
        f"at {held.at} by process {held.process} and not finished: it counts until it is; if that "
        f"process is gone: {held.how_to_settle}",
    )
