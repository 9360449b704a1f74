"""Describe the account of a dataset: total, spent, reserved, left, and its history."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from privalue.ledger._balance import Balance, Held, Step, both
from privalue.ledger._book import PAID, Book, checked
from privalue.ledger._chain import EntryRow
from privalue.ledger._terms import GAUSSIAN, PLAIN, BudgetTerms, Protection, over_steps
from privalue.ledger._told import Amount, plainly
from privalue.ledger._units import NOTHING, Cost, mu, square_root
from privalue.ledger._units import cost as cost_of

Totals = Callable[[str], Iterable[EntryRow]]


@dataclass(frozen=True, kw_only=True)
class Unfinished:
    """A reservation that neither ended nor was settled: in progress, or left by a crash."""

    entry: int
    cost: Amount
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
    asked: Amount
    steps: int
    cost: Amount

    def __str__(self) -> str:
        return (
            f"entry {self.entry}: {self.asked} for {self.protection}; charged as {self.steps} step"
            f"{'s' * (self.steps > 1)}, by group privacy: {self.cost}"
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class Standing:
    """How a dataset stands at one moment: what its pages show, and no history."""

    dataset: str
    terms: BudgetTerms
    promise: Amount  # epsilon and delta that all releases together keep
    before: Amount | None  # of a book that moved to squares: the plain total, in the promise too
    lowered_from: Amount | None  # the largest total since something is used, if it is no longer
    total: Amount
    spent: Amount
    number_of_releases: int
    number_converted: int  # those of them that had another unit or relation
    head: str

    @property
    def unspent(self) -> Amount:
        """Return what is left once no run is under way.

        A reservation in progress shows that somebody is working with the data, so a published page
        states this amount and not ``left``.
        """
        return self.total.telling.of(self.total.units - self.spent.units, left=True)

    @property
    def _available(self) -> Amount:
        """Return what is reported as left."""
        return self.unspent

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.dataset!r}: total {self.total}; spent {self.spent}; left "
            f"{self._available}; releases {self.number_of_releases})"
        )

    def percent_left(self, pool: str) -> int:
        """Return how much of a pool is left, rounded down.

        Args:
            pool: "gaussian", of which squares of mu are counted, or "plain", of which the scarcer
                of epsilon and delta is.
        """
        has, had = self._available.units.parts, self.total.units.parts
        pairs = [*zip(has, had, strict=True)]
        parts = pairs[2:] if pool == GAUSSIAN else pairs[:2]
        return min((100 * left // whole for left, whole in parts if whole), default=100)

    def charge(self, epsilon: float, delta: float, alpha: float | None, whom: Protection) -> Cost:
        """Return what a release costs, in units.

        Args:
            epsilon: of the release.
            delta: likewise.
            alpha: of a Gaussian release; None for others.
            whom: whom it protects.
        """
        asked = cost_of(self.dataset, epsilon, delta)
        return self.terms.cost(asked, mu(alpha), self.terms.steps(whom), self.total.units)

    @property
    def gaussian(self) -> bool:
        """Return whether squares of mu are summed."""
        return self.terms.accounting == GAUSSIAN

    @property
    def promises_apart(self) -> bool:
        """Return whether the total alone does not say what is promised.

        A Gaussian total is written as mu, and one that was lowered promises what it did before.
        """
        return self.gaussian or self.lowered_from is not None

    def further(self, epsilon: float, delta: float, alpha: float | None) -> int:
        """Return how many releases fit into what is left once no run is under way.

        Args:
            epsilon: of each, to those whom the total protects.
            delta: likewise.
            alpha: of a Gaussian release; None for others.
        """
        one = self.charge(epsilon, delta, alpha, self.terms.protection)
        return one.times_in(self.unspent.units)

    @classmethod
    def now(cls, book: Book, dataset: str) -> "Standing":
        """Return how a dataset stands that has a total."""
        return cls(**_standing(book, dataset))


@dataclass(frozen=True, kw_only=True, repr=False)
class Account(Standing):
    """The account of a dataset, at one moment, with its history."""

    reserved: Amount
    left: Amount
    releases: tuple[Amount, ...]  # what is spent, release by release
    converted: tuple[Converted, ...]  # those of them that had another unit or relation
    plain_sum: Amount  # what the epsilons and deltas of all that is spent sum to
    like_the_last: int | None  # further releases of the last one's size; None before the first
    last_pool: str | None  # "gaussian" or "plain": which pool paid for the last
    like_the_last_of: Mapping[str, int]  # further releases of the last one's size, by pool
    unfinished: tuple[Unfinished, ...]
    steps: tuple[Step, ...]  # in units
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
        told = balance.telling.of
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
            reserved=told(balance.reserved),
            left=told(balance.left, left=True),
            releases=tuple(told(cost(held)) for held in paid),
            converted=tuple(
                Converted(
                    entry=held.sequence,
                    protection=held.protection,
                    asked=plainly(held.asked),
                    steps=held.steps,
                    cost=told(cost(held)),
                )
                for held in paid
                if held.protection != balance.terms.protection
            ),
            plain_sum=plainly(
                sum((over_steps(held.asked, held.steps) for held in paid), start=NOTHING)
            ),
            like_the_last=cost(asked[-1]).times_in(balance.left) if asked else None,
            last_pool=_pool(cost(asked[-1])) if asked else None,
            like_the_last_of={
                _pool(paid): paid.times_in(balance.left) for paid in map(cost, asked)
            },
            unfinished=unfinished(book, dataset, now),
            steps=tuple(balance.steps),
            notices=notices(book, dataset, now) + lowered_notices(book, dataset),
        )

    @property
    def _available(self) -> Amount:
        return self.left

    def _pools(self) -> dict[str, Any]:
        """Return what only a Gaussian book shows: its pools, and what plain sums would say."""
        if not self.gaussian:
            return {}
        return {
            "plain_pool": {
                name: plainly(amount.units, left=amount.is_left).as_dict()
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
        from privalue._notebook import account_html  # noqa: PLC0415 - it imports this package

        return account_html(self)

    def as_dict(self) -> dict[str, Any]:
        """Return the account as plain values, for JSON."""
        return {
            "dataset": self.dataset,
            "unit": self.terms.protection.unit,
            "neighbours": self.terms.protection.neighbours,
            "max_trajectories_per_person": self.terms.trajectories_per_person,
            "accounting": self.terms.accounting,
            "promise": self.promise.as_dict(),
            "before_the_move": None if self.before is None else self.before.as_dict(),
            "total": self.total.as_dict(),
            "spent": self.spent.as_dict(),
            "reserved": self.reserved.as_dict(),
            "left": self.left.as_dict(),
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
                    "charged": each.cost.as_dict(),
                }
                for each in self.converted
            ],
            "like_the_last": self.like_the_last,
            "unfinished": [
                {
                    "entry": found.entry,
                    **found.cost.as_dict(),
                    "charged": found.charged,
                    "at": found.at,
                    "age_seconds": int(found.age.total_seconds()),
                    "process": found.process,
                }
                for found in self.unfinished
            ],
            "history": [
                {
                    name: _history(value, name == "total") if isinstance(value, Cost) else value
                    for name, value in step._asdict().items()
                }
                for step in self.steps
            ],
            "head": self.head,
            "notices": list(self.notices),
        }


def _pool(paid: Cost) -> str:
    """Return the pool that pays for a release."""
    return GAUSSIAN if paid.square else PLAIN


def _history(amount: Cost, down: bool) -> dict[str, float]:
    """Return an amount of the history: of each pool by itself, without what it comes to.

    Totals are rounded down, and what is used up, as everywhere.
    """
    mu = {"mu": float(square_root(amount.square, up=not down))} if amount.square else {}
    return {**plainly(amount, left=down).as_dict(), **mu}


def _standing(book: Book, dataset: str) -> dict[str, Any]:
    """Return what a dataset's standing and its account have in common."""
    balance = book.balances[dataset]
    return {
        "dataset": dataset,
        "terms": balance.terms,
        "promise": plainly(balance.kept),
        "before": None if balance.before == NOTHING else plainly(balance.before),
        "lowered_from": None if _never_lowered(balance) else plainly(balance.widest),
        "total": balance.telling.of(balance.total, left=True),
        "spent": balance.telling.of(balance.spent),
        "number_of_releases": balance.releases,
        "number_converted": balance.converted,
        "head": book.head,
    }


def notices(
    book: Book, dataset: str, now: datetime, totals: Totals | None = None
) -> tuple[str, ...]:
    """Return what a person should know before going on, one line for each point.

    Args:
        book: all entries so far.
        dataset: its name.
        now: the time by which the age of open reservations is counted.
        totals: returns the entries that say they set a dataset's total, in order; it may be left
            out if the book is whole.

    Raises:
        LedgerError: one of those was changed.
    """
    left = tuple(found.notice for found in unfinished(book, dataset, now))
    return left + moved_notices(book, dataset, totals) + book_notices(book)


def moved_notices(book: Book, dataset: str, totals: Totals | None = None) -> tuple[str, ...]:
    """Return what a book that moved to squares keeps: for good, more than its total says."""
    balance = book.balances.get(dataset)
    if balance is None or balance.before == NOTHING:
        return ()
    widest = balance.widest.or_more(balance.promise)
    if totals is not None:
        widest = _widest_since_the_move(book, widest, totals(dataset))
    return (
        f'dataset "{dataset}": it moved to squares of mu after releases were made, so all of them '
        f"together promise {both(widest, balance.before)}: the total of {widest},"
        f" and the delta of the total before the move, {balance.before}{if_fixed(balance.total)}",
    )


def _widest_since_the_move(book: Book, known: Cost, totals: Iterable[EntryRow]) -> Cost:
    """Return the largest total since a move: something is used since then, so all of them count.

    A book that began at a snapshot does not know those before it, and knows only the rest.
    """
    widest = known
    for row in totals:
        entry = None if row[0] in book.ignored else checked(row)
        if entry is not None:
            declared = Cost(epsilon=entry["epsilon"], delta=entry["delta"])
            widest = (known if entry["kind"] == "move" else widest).or_more(declared)
    return widest


def if_fixed(total: Cost) -> str:
    """Return the condition of what a move promises: its plain pool was fixed in advance."""
    said = "; that holds if releases did not lead to the size of its plain pool"
    return said * bool(total.epsilon)


def lowered_notices(book: Book, dataset: str) -> tuple[str, ...]:
    """Return what a total that was lowered does not change; the book is whole."""
    balance = book.balances[dataset]
    if _never_lowered(balance):
        return ()
    return (
        f'dataset "{dataset}": its total was lowered after releases were made, from up to '
        f"{balance.widest}: if what they showed led to that, all of them together promise "
        f"{balance.kept}, and not less",
    )


def had_more(book: Book, dataset: str, totals: Iterable[EntryRow]) -> bool:
    """Return whether a dataset once had more than its total in force, for all that they say.

    Under the other accounting nothing was used, or a move counted it anew and says what it was.

    Args:
        book: from a snapshot on.
        dataset: its name; it has a total.
        totals: the entries that say they set it.

    Raises:
        LedgerError: one of them was changed.
    """
    balance = book.balances[dataset]
    found = [checked(row) for row in totals if row[0] not in book.ignored]
    return any(
        not Cost(epsilon=entry["epsilon"], delta=entry["delta"]).within(balance.promise)
        for entry in found
        if entry is not None and entry["accounting"] == balance.terms.accounting
    )


def _never_lowered(balance: Balance) -> bool:
    """Return whether no total was in force that is larger, as far as the book goes back."""
    return balance.widest.within(balance.promise)


def unfinished(book: Book, dataset: str, now: datetime) -> tuple[Unfinished, ...]:
    """Return every open reservation of a dataset."""
    return tuple(_found(book, held, now) for held in book.open.values() if held.dataset == dataset)


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


def _found(book: Book, held: Held, now: datetime) -> Unfinished:
    """Describe an open reservation, and how to settle it."""
    balance = book.balances[held.dataset]
    moved = held.accounting != balance.terms.accounting
    cost = plainly(held.cost) if moved else balance.telling.of(held.cost)
    age = now - datetime.fromisoformat(held.at)
    return Unfinished(
        entry=held.sequence,
        cost=cost,
        charged=held.status == "charged",
        at=held.at,
        age=age,
        process=held.process,
        notice=f'dataset "{held.dataset}": found entry {held.sequence}, {cost}, {held.status} '
        f"at {held.at} by process {held.process} and not finished: it counts until it is; if that "
        f"process is gone: {held.how_to_settle}",
    )
