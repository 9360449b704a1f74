"""Convert the cost of a release to the terms of a total that protects somebody else.

::

    symbol          code                      what it is
    eps, delta      asked                     what a release promises, under its own relation
    L               trajectories_per_person   the most trajectories of any person, as declared
    k               steps                     steps of the release's relation for one of the total's

Epsilons of different units or relations do not add. A path of k steps between two data sets makes
(eps, delta) per step into (k eps, delta (1 + e^eps + ... + e^{(k-1) eps})) over the whole: group
privacy, tight (docs/proofs/ledger-units.md). A release without such a path is refused.

What a release costs depends on the book, too. In a plain one epsilons and deltas are summed. A
Gaussian one has a pool in which squares of mu are summed, for releases that have a mu: their noise
is N(0, sigma^2 I) of one public sigma. dp-lsw and dp-lsl have none: (epsilon, delta)-DP with
delta > 0 implies no mu-Gaussian-DP, whatever their alpha is. They go to the plain pool, if the book
was declared with one.
"""

from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal, localcontext

from privalue._written import counted
from privalue.errors import BudgetError, UsageError
from privalue.ledger._squares import dominating_square, is_certified, square_cost
from privalue.ledger._units import DELTA_DIGITS, EPSILON_DIGITS, Cost

UNITS = ("trajectory", "person")
RELATIONS = ("replace-one", "add-remove")
PLAIN, GAUSSIAN = "plain", "gaussian"
MOST_TRAJECTORIES_PER_PERSON = 1_000_000
_CERTAIN = 10**DELTA_DIGITS  # a delta of 1: true of everything, and within no total
_HOPELESS = 42 * 10**EPSILON_DIGITS  # e^42 > 1e18: even one unit of delta becomes a delta of 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Protection:
    """Whom a promise protects: the unit, and the relation between neighbours."""

    unit: str
    neighbours: str

    def __str__(self) -> str:
        return f"one {self.unit}, {self.neighbours}"

    def check(self) -> "Protection":
        """Return the value itself, or raise UsageError if unit or relation is unknown."""
        if self.unit not in UNITS:
            raise UsageError(f'unit = {self.unit!r}: it must be "trajectory" or "person"')
        if self.neighbours not in RELATIONS:
            raise UsageError(
                f'neighbours = {self.neighbours!r}: it must be "replace-one" or "add-remove"'
            )
        return self


@dataclass(frozen=True, kw_only=True, slots=True)
class BudgetTerms:
    """What a dataset's total promises, and to whom."""

    protection: Protection
    trajectories_per_person: int | None = None  # None: nobody vouched for one
    accounting: str = PLAIN

    def __str__(self) -> str:
        most = self.trajectories_per_person
        vouched = f", nobody with more than {counted(most, 'trajectory')}" if most else ""
        return f"{self.protection}{vouched}"

    def check(self) -> "BudgetTerms":
        """Return the value itself, or raise UsageError if no total can have these terms."""
        self.protection.check()
        most = self.trajectories_per_person
        whole = isinstance(most, int) and not isinstance(most, bool)
        if most is not None and not (whole and 1 <= most <= MOST_TRAJECTORIES_PER_PERSON):
            raise UsageError(
                f"max_trajectories_per_person = {most!r}: it must be a whole number from 1 to "
                f"{MOST_TRAJECTORIES_PER_PERSON}"
            )
        if most is not None and self.protection.unit == "trajectory":
            raise UsageError(
                f"max_trajectories_per_person = {most} is for totals whose unit is a person; leave "
                "it out"
            )
        if self.accounting not in (PLAIN, GAUSSIAN):
            raise UsageError(
                f'accounting = {self.accounting!r}: it must be "{PLAIN}" (epsilons and deltas are '
                f'summed) or "{GAUSSIAN}" (squares of mu are)'
            )
        return self

    def cost(self, asked: Cost, mu: str, steps: int, pools: Cost) -> Cost:
        """Return what a release costs a total, from the pool that pays for it.

        Args:
            asked: what the release promises.
            mu: of a Gaussian release, as "1/alpha"; else "none".
            steps: of its relation, for one of the total's.
            pools: the total.

        Raises:
            BudgetError: it has no mu, and there is no plain pool; or its mu is more than what it
                promises allows.
        """
        if self.accounting == GAUSSIAN and mu != "none":
            # Two prices for one release, and whoever moves would pay the lower one.
            if not is_certified(mu, **asked.as_dict()):
                raise BudgetError(
                    f"mu = {mu} is more than {asked} allows: gaussian_alpha is the alpha that was "
                    "certified for this epsilon and delta, or a larger one"
                )
            return Cost(square=square_cost(mu, steps))
        plain = over_steps(asked, steps)
        if self.accounting == PLAIN or pools.epsilon:
            return plain
        if plain.delta:
            raise BudgetError(
                "it adds squares of mu, and this release has no mu, because its noise is not "
                "Gaussian of one public sigma (dp-lsw, dp-lsl); release with dp-ssp, or declare "
                "the dataset with a plain pool (plain_epsilon=E, plain_delta=D)"
            )
        return Cost(square=dominating_square(plain.epsilon))

    def steps(self, asked: Protection) -> int:
        """Return k: how many steps of the release's relation lead to any neighbour of the total's.

        Raises:
            BudgetError: no number of steps does, or none that is known; the message says what to
                do.
        """
        own = self.protection
        if asked == own:
            return 1
        if own.unit == "trajectory" and asked.unit == "person":
            raise BudgetError(
                "a promise to persons is not converted to one about single trajectories; declare "
                "the dataset for persons"
            )
        if asked.neighbours == "replace-one":
            if own.neighbours == "add-remove":
                raise BudgetError(
                    "a replace-one release publishes how many there are, which is what add-remove "
                    "hides; release with add-remove"
                )
            if self.trajectories_per_person != 1:  # then trajectories and persons are the same
                raise BudgetError(
                    "such a release publishes the number of trajectories, and persons may differ "
                    "in how many they have; release for persons, or with add-remove"
                )
            return 1
        return self._paths(asked)

    def _paths(self, asked: Protection) -> int:
        """Return k for an add-remove release.

        A path removes everything that differs, one step at a time, and then adds what replaces it.
        """
        steps = 1 if asked.neighbours == self.protection.neighbours else 2
        if asked.unit != self.protection.unit:
            if self.trajectories_per_person is None:
                raise BudgetError(
                    "nobody vouched for how many trajectories a person has; release for persons, "
                    "or declare max_trajectories_per_person with the total"
                )
            steps *= self.trajectories_per_person
        return steps


def over_steps(asked: Cost, steps: int) -> Cost:
    """Return what (eps, delta) for each of k steps costs over all of them.

    The cost is (k eps, delta (e^{k eps} - 1)/(e^eps - 1)), with delta rounded up to a unit. For k >
    1 and delta > 0 that delta is never a whole number of units (e^eps is transcendental), so
    rounding up has one result, whatever computes it.
    """
    if steps == 1:
        return asked
    epsilon = steps * asked.epsilon
    if asked.delta == 0:
        return Cost(epsilon=epsilon, delta=0)
    if epsilon - asked.epsilon >= _HOPELESS:
        return Cost(epsilon=epsilon, delta=_CERTAIN)
    with localcontext(Context(prec=60, rounding=ROUND_CEILING)):
        one = Decimal(asked.epsilon).scaleb(-EPSILON_DIGITS)
        # exp rounds to the nearest: the next number up or down is a bound.
        most = (one * steps).exp().next_plus() - 1
        least = one.exp().next_minus() - 1
        delta = int((asked.delta * (most / least)).to_integral_value(rounding=ROUND_CEILING))
    return Cost(epsilon=epsilon, delta=min(delta, _CERTAIN))
