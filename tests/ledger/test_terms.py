"""Units and neighbouring relations of a total: conversions, their costs, and refusals.

The theorems are in docs/proofs/ledger.md, their twins in ``oracles/group_privacy.py``.
"""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf

from oracles import group_privacy
from oracles.ledgers import charge, request
from oracles.refusals import refused
from privalue.core.calibration import gaussian
from privalue.errors import BudgetError
from privalue.ledger import Amount, BudgetTerms, Protection, open_ledger, study_hash
from privalue.ledger.terms import group_privacy_cost

EPSILON, DELTA = 10**12, 10**18  # units of 1


def protection(text):
    unit, neighbours = text.split()
    return Protection(unit=unit, neighbours=neighbours)


def steps(release, declared, most=None):
    """How many, or None where it is refused."""
    try:
        return BudgetTerms(**vars(protection(declared)), max_trajectories_per_person=most).steps(
            protection(release)
        )
    except BudgetError:
        return None


# The cost of k steps


@given(st.integers(1, 3 * EPSILON), st.integers(0, DELTA // 10), st.integers(1, 12))
def test_the_cost_is_the_literal_one_rounded_up_by_less_than_a_unit(epsilon, delta, count):
    cost = group_privacy_cost(Amount(epsilon=epsilon, delta=delta), count)
    with mp.workdps(100):
        exact = group_privacy.over_steps(mpf(epsilon) / EPSILON, mpf(delta), count)[1]
        assert cost.epsilon == count * epsilon
        assert min(exact, DELTA) <= cost.delta <= min(exact + 1, DELTA)


@given(st.integers(1, EPSILON // 2), st.integers(1, DELTA // 10**6), st.integers(2, 8))
def test_no_smaller_cost_would_do(epsilon, delta, count):
    """Distributions that keep every step's promise, and the whole path's with nothing to spare."""
    cost = group_privacy_cost(Amount(epsilon=epsilon, delta=delta), count)
    with mp.workdps(100):
        one_epsilon, share = mpf(epsilon) / EPSILON, mpf(delta) / DELTA
        chain = group_privacy.worst_chain(one_epsilon, share, count)
        for first, second in itertools.pairwise(chain):
            assert group_privacy.excess(first, second, one_epsilon) <= share * (1 + mpf(10) ** -90)
        true = group_privacy.excess(chain[0], chain[-1], count * one_epsilon)
        assert true <= mpf(cost.delta) / DELTA
        assert true > mpf(cost.delta - 1) / DELTA


MISTAKES = {
    "deltas are summed": lambda e, d, k: k * d,
    "one factor for all": lambda e, d, k: d * (1 + math.exp(e)),
    "the last factor is forgotten": lambda e, d, k: d * math.expm1((k - 1) * e) / math.expm1(e),
    "rounded down": lambda e, d, k: math.floor(d * math.expm1(k * e) / math.expm1(e)),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_planted_mistakes_in_the_cost_are_caught(mistake, monkeypatch):
    def wrong_cost(promise, count):
        delta = MISTAKES[mistake](promise.epsilon / EPSILON, promise.delta, count)
        return Amount(epsilon=count * promise.epsilon, delta=int(delta))

    monkeypatch.setitem(globals(), "group_privacy_cost", wrong_cost)
    for check in (
        test_the_cost_is_the_literal_one_rounded_up_by_less_than_a_unit,
        test_no_smaller_cost_would_do,
    ):
        with pytest.raises(AssertionError):
            check()


# How many steps


def longest_path(release, declared, most):
    """The largest distance between neighbours, from every small data set; None: no way at all."""
    people = group_privacy.persons(3, most)
    promise = protection(declared)
    pairs = group_privacy.neighbours(people, promise.neighbours)
    if promise.unit == "trajectory":
        pairs = group_privacy.neighbours([(kind,) for kind in range(3)], promise.neighbours)
    distances = [group_privacy.distance(a, b, protection(release).neighbours) for a, b in pairs]
    return None if None in distances else max(distances)


CONVERTED = {  # asked, declared: steps with L
    ("trajectory replace-one", "trajectory replace-one"): lambda most: 1,
    ("trajectory add-remove", "trajectory add-remove"): lambda most: 1,
    ("trajectory add-remove", "trajectory replace-one"): lambda most: 2,
    ("trajectory replace-one", "trajectory add-remove"): lambda most: None,
    ("trajectory add-remove", "person add-remove"): lambda most: most,
    ("trajectory add-remove", "person replace-one"): lambda most: 2 * most,
    ("trajectory replace-one", "person replace-one"): lambda most: 1 if most == 1 else None,
    ("trajectory replace-one", "person add-remove"): lambda most: None,
}


@pytest.mark.parametrize("most", [1, 2, 3, 4])
@pytest.mark.parametrize("pair", CONVERTED, ids=" -> ".join)
def test_the_steps_are_those_of_the_longest_way_between_small_neighbours(pair, most):
    release, declared = pair
    given_most = most if declared.startswith("person") else None
    expected = CONVERTED[pair](most)
    assert steps(release, declared, given_most) == expected
    assert longest_path(release, declared, most) == expected


@pytest.mark.parametrize("most", [None, 1, 5])
def test_promises_to_persons(most):
    assert steps("person replace-one", "person replace-one", most) == 1
    assert steps("person add-remove", "person add-remove", most) == 1
    assert steps("person add-remove", "person replace-one", most) == 2
    assert steps("person replace-one", "person add-remove", most) is None
    for relation in ("replace-one", "add-remove"):
        assert steps(f"person {relation}", f"trajectory {relation}") is None


def test_a_promise_to_trajectories_does_not_convert_to_persons():
    for release in ("add-remove", "replace-one"):
        for declared in ("add-remove", "replace-one"):
            assert steps(f"trajectory {release}", f"person {declared}") is None


# The sum means what it says


def spent_and_lost(folder, epsilon, delta):
    """A person-level and a trajectory-level release: what is on record, and what somebody with 200
    trajectories loses: the exact delta at the epsilon on record."""
    ledger = open_ledger(folder / "ledger.db")
    terms = {"unit": "person", "neighbours": "add-remove", "max_trajectories_per_person": 200}
    ledger.declare("people", epsilon=1000.0, delta=0.999, **terms)
    for unit in ("person", "trajectory"):
        promise = {"epsilon": epsilon, "delta": delta, "unit": unit, "neighbours": "add-remove"}
        charge(ledger, request(study_hash({"unit": unit}), **promise))
    spent = ledger.account("people").spent
    # Both are Gaussian: the sum is as one, whose shift is that of 1 and of 200 together.
    shift = math.hypot(1, 200) / gaussian(epsilon, delta).alpha
    return spent, group_privacy.gaussian_delta(mpf(spent.epsilon) / EPSILON, shift)


def test_the_spent_amount_covers_the_exact_loss_of_two_gaussian_releases(tmp_path):
    spent, lost = spent_and_lost(tmp_path, 0.01, 1e-9)
    assert spent.epsilon == 201 * EPSILON // 100
    assert lost <= mpf(spent.delta) / DELTA
    other = tmp_path / "other"
    other.mkdir()
    with refused("budget-exceeded"):  # no promise
        spent_and_lost(other, 1.0, 1e-6)


def test_summing_unlike_units_is_caught(tmp_path, monkeypatch):
    monkeypatch.setattr(BudgetTerms, "steps", lambda self, release: 1)
    spent, lost = spent_and_lost(tmp_path, 1.0, 1e-6)
    assert (spent.epsilon, spent.delta) == (2 * EPSILON, 2 * DELTA // 10**6)
    assert lost > 0.999


def test_forgetting_the_factor_of_the_first_step_is_caught():
    """(2 eps, 2 delta) for replacing is not what two Gaussian steps of add-remove give."""
    epsilon, delta = 1.0, 1e-3
    alpha = gaussian(epsilon, delta).alpha
    promise = Amount(epsilon=EPSILON, delta=DELTA // 1000)
    true = group_privacy.gaussian_delta(2 * epsilon, 2 / alpha)
    assert true <= mpf(group_privacy_cost(promise, 2).delta) / DELTA
    chain = group_privacy.worst_chain(epsilon, delta, 2)
    assert group_privacy.excess(chain[0], chain[2], 2 * epsilon) > 1.8 * 2 * delta


# On the ledger


@pytest.fixture
def ledger(tmp_path):
    new_ledger = open_ledger(tmp_path / "ledger.db")
    new_ledger.declare(
        "people", epsilon=10.0, delta=1e-3, unit="person", max_trajectories_per_person=3
    )
    return new_ledger


def ask(ledger, number, unit, neighbours, epsilon=0.5):
    study = study_hash({"number": number})
    return charge(ledger, request(study, epsilon=epsilon, unit=unit, neighbours=neighbours))


def test_conversions_are_charged(ledger):
    for number, protection in enumerate(
        [("person", "replace-one"), ("person", "add-remove"), ("trajectory", "add-remove")]
    ):
        ask(ledger, number, *protection)
    steps = [group_privacy_cost(Amount(EPSILON // 2, 10**11), count) for count in (1, 2, 6)]
    assert ledger.account("people").spent == steps[0].plus(steps[1]).plus(steps[2])
    ledger.verify()
    with refused("budget-exceeded"):
        ask(ledger, 9, "trajectory", "add-remove", epsilon=2.0)
