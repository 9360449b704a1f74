"""Costs of releases on a Gaussian total: the arithmetic and its rounding.

The theorems are in docs/proofs/ledger.md, their twins in ``oracles/squares.py``.
"""

import math
import random
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

from oracles import squares as literal
from oracles.refusals import refused
from privalue.core.calibration import gaussian
from privalue.ledger import MU2, Amount, BudgetTerms, Protection, epsilon_of, mu2_of_alpha, terms
from privalue.ledger.amounts import LARGEST, cost_of
from privalue.ledger.gaussian import covers_pure, is_refuted, max_epsilon, mu2_of_pure, mu2_total

EPSILON = 10**12  # units of 1
ALPHA = gaussian(1.0, 1e-6).alpha
TERMS = BudgetTerms(unit="trajectory", neighbours="replace-one", accounting="gaussian")
alphas = st.floats(1e-3, 1e9, allow_nan=False)


@given(alphas, st.integers(1, 10**6))
def test_a_cost_is_the_exact_one_rounded_up_by_less_than_a_unit(alpha, steps):
    exact = literal.GaussianTotal(1.0).cost(alpha, steps) * MU2
    assert exact <= mu2_of_alpha(alpha, steps) < exact + 1


@given(st.integers(1, 20 * EPSILON))
@settings(max_examples=60, deadline=None)
def test_pure_epsilon_costs_the_mu_that_dominates_it(epsilon):
    """Never below the true one, and above it by little."""
    with mp.workdps(60):
        true = literal.dominating_mu(mpf(epsilon) / EPSILON) ** 2 * MU2
        mu2 = mu2_of_pure(epsilon)
        assert true <= mu2
        assert mu2 <= true * (1 + mpf("1e-8")) + 2


@pytest.mark.parametrize("epsilon", [1, 10**6, EPSILON // 10, EPSILON, 5 * EPSILON, 14 * EPSILON])
def test_a_price_below_the_dominating_one_is_not_certified(epsilon):
    with mp.workdps(60):
        true = int(literal.dominating_mu(mpf(epsilon) / EPSILON) ** 2 * MU2)
    assert covers_pure(mu2_of_pure(epsilon), epsilon)
    if true > 10**3:
        assert not covers_pure(true - 1, epsilon)
        assert not covers_pure(int(true * 0.999999999), epsilon)


def test_a_price_computed_with_doubles_is_sometimes_too_low():
    """Planted: the guess of a double, rounded up to a unit, is sometimes too low."""
    from statistics import NormalDist

    def guess(epsilon):
        mu = -2 * NormalDist().inv_cdf(1 / (1 + math.exp(epsilon / EPSILON)))
        return math.ceil(MU2 * Fraction(mu) ** 2)

    epsilons = [random.Random(seed).randrange(1, 14 * EPSILON) for seed in range(60)]
    assert not all(covers_pure(guess(epsilon), epsilon) for epsilon in epsilons)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (0.1, 1e-9), (20.0, 0.5), (3, 1e-15)])
def test_a_total_keeps_its_promise(epsilon, delta):
    """The exact delta of everything that fits, at the promised epsilon."""
    total = mu2_total(epsilon, delta)
    with mp.workdps(60):
        assert literal.composed_delta(epsilon, [mp.sqrt(mpf(total) / MU2)]) <= delta
    assert not is_refuted(total, epsilon, delta)
    assert is_refuted(int(total * 1.001), epsilon, delta)


@given(st.integers(1, 10**18), st.sampled_from([1e-15, 1e-9, 1e-6, 0.1]))
@settings(max_examples=40, deadline=None)
def test_printed_epsilons_are_rounded_to_the_safe_side(mu2, delta):
    spent, affordable = epsilon_of(mu2, delta), max_epsilon(mu2, delta)
    with mp.workdps(60):
        assert literal.composed_delta(spent, [mp.sqrt(mpf(mu2) / MU2)]) <= delta
    if affordable is not None:
        assert mu2_of_alpha(gaussian(affordable, delta).alpha, 1) <= mu2
        assert affordable <= spent or affordable == 0.001
        assert not 0.001 < affordable < 20 or affordable >= spent * (1 - 1e-5)


def fill(releases, seed, price):
    """Tiny releases in a random order, then what fills the rest to the unit: exactly what is spent,
    exactly the total, and what is left by the units."""
    chance, units = random.Random(seed), mu2_total(1.0, 1e-6)
    total, spent = Fraction(units, MU2), Fraction(0)
    tries = [math.sqrt(releases) * ALPHA * chance.uniform(0.9, 1.6) for _ in range(releases)]
    for attempt in [*tries, *[None] * 40]:
        alpha = math.sqrt(MU2 / max(units, 1)) * (1 + 1e-15) if attempt is None else attempt
        cost = price(alpha, 1)
        if 0 < cost <= units:
            units -= cost
            spent += 1 / Fraction(alpha) ** 2
    return spent, total, units


@pytest.mark.parametrize("releases", [300, pytest.param(10_000, marks=pytest.mark.long)])
def test_tiny_releases_never_exceed_the_total(releases):
    for seed in range(3):
        spent, total, units = fill(releases, seed, mu2_of_alpha)
        assert spent <= total
        assert units < 100  # and hardly anything is given away
        assert spent >= total * (1 - Fraction(1, 10**10))


@pytest.mark.parametrize("wrong", [math.floor, round], ids=["down", "to the nearest"])
def test_rounding_towards_the_spender_is_caught(wrong):
    def cheap_cost(alpha, steps):
        return wrong(MU2 * (steps / Fraction(alpha)) ** 2)

    results = [fill(60, seed, cheap_cost) for seed in range(12)]
    assert any(spent > total for spent, total, _ in results)


@pytest.mark.parametrize(
    ("unit", "neighbours", "steps"),
    [("trajectory", "add-remove", 6), ("person", "add-remove", 2), ("person", "replace-one", 1)],
)
def test_k_steps_cost_k_squared(unit, neighbours, steps):
    person = {"unit": "person", "neighbours": "replace-one"}
    total = BudgetTerms(**person, max_trajectories_per_person=3, accounting="gaussian")
    release = Protection(unit=unit, neighbours=neighbours)
    assert total.steps(release) == steps
    price = total.cost(cost_of(1.0, 1e-6), steps, 7.0 * ALPHA)
    assert price == Amount(mu2=mu2_of_alpha(7.0 * ALPHA, steps))
    with mp.workdps(60):  # the exact delta of one Gaussian whose shift is k times as large
        true = literal.composed_delta(1.0, [steps / mpf(7.0 * ALPHA)])
        assert literal.composed_delta(1.0, [mp.sqrt(mpf(price.mu2) / MU2)]) >= true
        cheap_cost = math.ceil(MU2 * steps / Fraction(7.0 * ALPHA) ** 2)  # planted: k for k squared
        if steps > 1:
            assert literal.composed_delta(1.0, [mp.sqrt(mpf(cheap_cost) / MU2)]) < true
    pure = total.cost(cost_of(0.01, 0.0), steps, None)
    assert pure == Amount(mu2=mu2_of_pure(steps * EPSILON // 100))


def test_a_release_without_a_mu_does_not_enter_a_gaussian_total():
    with refused("budget-refused"):
        TERMS.cost(cost_of(0.1, 1e-9), 1, None)
    with refused("budget-refused"):
        TERMS.cost(cost_of(1.0, 1e-6), 1, ALPHA * 0.99)


def test_a_mix_of_gaussian_and_pure_releases_keeps_the_promise():
    """Randomised response beside a Gaussian: the exact delta of both together is covered."""
    epsilon, alpha = 0.5, 8.0
    mu2 = mu2_of_alpha(alpha, 1) + mu2_of_pure(round(epsilon * EPSILON))
    for level in (0.2, 0.6, 1.0):
        exact = literal.with_randomised_response(level, 1 / alpha, epsilon)
        with mp.workdps(40):
            assert exact <= literal.composed_delta(level, [mp.sqrt(mpf(mu2) / MU2)])


def test_a_stored_price_is_checked_for_being_too_low_and_never_for_equality():
    promise = cost_of(1.0, 1e-6)
    for stored, alpha, case in (
        (mu2_of_alpha(ALPHA, 1), ALPHA, promise),
        (mu2_of_pure(EPSILON), None, cost_of(1.0, 0.0)),
    ):
        for cost, expected in ((stored, True), (stored + 10**9, True), (stored - 10**10, False)):
            assert TERMS.covers(Amount(mu2=cost), case, 1, alpha) == expected
    assert not TERMS.covers(Amount(mu2=LARGEST), promise, 1, None)
    assert TERMS.accounting == terms.GAUSSIAN


@pytest.mark.parametrize(
    ("alphas", "delta"),
    [([4.2246789] * 3, 1e-5), ([30.0] * 10 + [12.0] * 4, 1e-6), ([9.0, 17.0, 80.0], 1e-9)],
)
def test_mu_squared_lies_between_the_bounds_of_dp_accounting(alphas, delta):
    """Of a sequence that is fixed in advance; 2e-5 is for our six digits, rounded up."""
    pytest.importorskip("dp_accounting", reason="dp-accounting is not installed")
    from dp_accounting.pld import privacy_loss_distribution as pld

    def compose(pessimistic):
        parts = [
            pld.from_gaussian_mechanism(
                alpha, pessimistic_estimate=pessimistic, value_discretization_interval=1e-4
            ).self_compose(alphas.count(alpha))
            for alpha in dict.fromkeys(alphas)
        ]
        whole = parts[0]
        for part in parts[1:]:
            whole = whole.compose(part)
        return whole.get_epsilon_for_delta(delta)

    ours = epsilon_of(sum(mu2_of_alpha(alpha, 1) for alpha in alphas), delta)
    assert compose(False) <= ours <= compose(True) * (1 + 2e-5)
