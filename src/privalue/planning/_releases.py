"""Plan several releases over one book: what each gets of the total, and the error of each.

| symbol | here           | public |
|--------|----------------|--------|
| mu_T^2 | ``square``     | yes: what the book has left, in units of the ledger |
| w      | ``share``      | yes: of one release; they sum to 1 over all |

In a Gaussian book a release with the share w costs w mu_T^2, and its noise grows by 1/sqrt(w); with
plain sums each of k releases gets (epsilon/k, delta/k). Among releases of the same size equal
shares give the least mean square error of all together, since the sum of 1/w is least there; one
release may still be worth more to somebody than the others, so that other splits are shown, too.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from privalue._types import Progress
from privalue.errors import UsageError
from privalue.ledger import affordable
from privalue.planning._options import Option
from privalue.planning._predict import forecast, guessing_error, planned_trajectories
from privalue.planning._public_model import PublicModel
from privalue.study import Study

FIRST = (Fraction(1, 4), Fraction(1, 2), Fraction(3, 4))  # of the total, for the first group
MOST_RELEASES = 100_000
EQUAL = "equal shares"


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What there is for all releases together; of a book, one of the two is None."""

    square: int | None  # mu^2, in units of the ledger
    epsilon: float | None  # of plain sums
    delta: float
    total: str = "the study's epsilon and delta"  # what is split, in words


@dataclass(frozen=True, kw_only=True)
class PlannedReleases:
    """A group of releases that get the same: how many, what each promises, and its error."""

    count: int
    share: float
    epsilon: float | None  # None: too little for any release
    delta: float
    rmse: float

    def __str__(self) -> str:
        if self.epsilon is None:
            return f"{self.count} with too little for a release"
        return (
            f"{self.count} of epsilon {self.epsilon:.4g}, delta {self.delta:.4g}, error "
            f"{self.rmse:.3g}"
        )


@dataclass(frozen=True, kw_only=True)
class Split:
    """One way to share a total among all releases."""

    accounting: str
    name: str
    groups: tuple[PlannedReleases, ...]

    def __str__(self) -> str:
        return "; ".join(map(str, self.groups))

    @property
    def rmse(self) -> float:
        """Return the root mean square error over all releases."""
        squares = sum(each.count * each.rmse**2 for each in self.groups)
        return math.sqrt(squares / sum(each.count for each in self.groups))


@dataclass(frozen=True, kw_only=True, repr=False)
class BookPlan:
    """Ways to share a total among releases, and the error of each release."""

    trajectories: int
    guess: float
    splits: tuple[Split, ...]
    total: str  # what is split, in words

    def __repr__(self) -> str:
        lines = [f"BookPlan: {self.total}, {self.trajectories:,} trajectories in each release"]
        lines += [f"{split.accounting}, {split.name}: {split}" for split in self.splits]
        return "\n- ".join([*lines, f"best: {self.best.name}, {self.best.accounting}"])

    @property
    def best(self) -> Split:
        """Return the split with the least root mean square error over all releases."""
        return min(self.splits, key=lambda split: split.rmse)


def release_groups(asked: int | str) -> tuple[int, ...]:
    """Return how many releases each group has.

    >>> release_groups("1+12"), release_groups(52)
    ((1, 12), (52,))
    """
    text = str(asked)
    if re.fullmatch(r"\d{1,6}(\+\d{1,6}){0,3}", text):
        groups = tuple(map(int, text.split("+")))
        if min(groups) >= 1 and sum(groups) <= MOST_RELEASES:
            return groups
    raise UsageError(
        f"releases={asked!r}: it must be how many releases there will be, e.g. 52, or groups of "
        f"them, e.g. 1+12; at most {MOST_RELEASES:,} in all"
    )


def plan_releases(
    study: Study,
    model: PublicModel,
    groups: tuple[int, ...],
    budget: Budget,
    *,
    trajectories: int | None = None,
    draws: int | None = None,
    progress: Progress | None = None,
) -> BookPlan:
    """Predict the error of every release of a book, for several ways to share it.

    Args:
        study: what is public; its mechanism is dp-ssp. Its own epsilon and delta are not used.
        model: what to assume of the data, from ``public_model``.
        groups: how many releases each group has, from ``release_groups``.
        budget: what there is for all of them.
        trajectories: m of each release; the declared number, if left out.
        draws: how many data sets to make up for each; by the number of states, if left out.
        progress: called with releases predicted, and how many there are to predict.
    """
    if study.mechanism.name != "dp-ssp":
        raise UsageError(
            f'[mechanism] name = "{study.mechanism.name}": a book of releases is planned for dp-ssp'
        )
    m = planned_trajectories(study, trajectories)
    ways = [*_by_squares(groups, budget), *_by_sums(groups, budget)]
    known: dict[tuple[float, float], float] = {}
    asked = dict.fromkeys((e, d) for _, _, parts in ways for _, _, e, d in parts if e is not None)
    for done, (epsilon, delta) in enumerate(asked):
        if progress is not None:
            progress(done, len(asked))
        one = Option(study=study.replace(epsilon=epsilon, delta=delta), chosen=True)
        known[epsilon, delta] = forecast(one, model, m, draws=draws, ends=False).rmse
    return BookPlan(
        trajectories=m,
        guess=guessing_error(study, model),
        total=budget.total,
        splits=tuple(
            Split(
                accounting=accounting,
                name=name,
                groups=tuple(
                    PlannedReleases(
                        count=count,
                        share=float(share),
                        epsilon=epsilon,
                        delta=delta,
                        rmse=math.inf if epsilon is None else known[epsilon, delta],
                    )
                    for count, share, epsilon, delta in parts
                ),
            )
            for accounting, name, parts in ways
        ),
    )


_Part = tuple[int, Fraction, float | None, float]  # count, share, epsilon, delta


def _by_squares(
    groups: tuple[int, ...], budget: Budget
) -> Iterator[tuple[str, str, tuple[_Part, ...]]]:
    """Yield the splits of a Gaussian book."""
    if budget.square is None:
        return
    first, whole = groups[0], sum(groups)
    splits = [(EQUAL, [Fraction(1, whole)] * len(groups))]
    if len(groups) > 1:
        splits += [
            (
                f"{float(part):.0%} for the first" + (f" {first}" if first > 1 else ""),
                [part / first, *[(1 - part) / (whole - first)] * (len(groups) - 1)],
            )
            for part in FIRST
        ]
    for name, shares in splits:
        parts = (
            (count, share, affordable(math.floor(budget.square * share), budget.delta))
            for count, share in zip(groups, shares, strict=True)
        )
        yield "gaussian", name, tuple((*part, budget.delta) for part in parts)


def _by_sums(
    groups: tuple[int, ...], budget: Budget
) -> Iterator[tuple[str, str, tuple[_Part, ...]]]:
    """Yield equal shares of plain sums, to compare with."""
    if budget.epsilon is None:
        return
    whole = sum(groups)
    epsilon, delta = budget.epsilon / whole, budget.delta / whole
    possible = epsilon if epsilon >= 0.001 and delta >= 1e-15 else None
    yield (
        "plain",
        EQUAL,
        tuple((count, Fraction(1, whole), possible, delta) for count in groups),
    )
