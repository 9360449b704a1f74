"""Amounts in whole units: costs rounded up, exact sums, printed numbers."""

from decimal import ROUND_FLOOR
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles.refusals import refused
from privalue.ledger import Amount, amounts
from privalue.ledger.amounts import LARGEST, cost_of, format_mu, total_of

EPSILONS = st.floats(1e-9, 1e5, allow_nan=False)
DELTAS = st.floats(1e-15, 0.99, allow_nan=False)


@given(epsilon=EPSILONS, delta=DELTAS)
def test_costs_are_rounded_up_and_totals_down_by_less_than_a_unit(epsilon, delta):
    up, down = cost_of(epsilon, delta), total_of(epsilon, delta)
    for part, value, unit in (("epsilon", epsilon, 10**12), ("delta", delta, 10**18)):
        exact = Fraction(repr(value)) * unit
        assert exact <= getattr(up, part) < exact + 1
        assert exact - 1 < getattr(down, part) <= exact


def test_rounding_a_cost_down_is_caught(monkeypatch):
    monkeypatch.setattr(amounts, "ROUND_CEILING", ROUND_FLOOR)
    with pytest.raises(AssertionError):
        test_costs_are_rounded_up_and_totals_down_by_less_than_a_unit()


@given(epsilon=EPSILONS, delta=DELTAS)
def test_the_rounding_of_doubles_is_less_than_the_slack_of_calibration(epsilon, delta):
    """The mechanism runs at the double, the ledger counts its decimal: 2^-53 apart."""
    cost = cost_of(epsilon, delta)
    assert Fraction(epsilon) <= Fraction(cost.epsilon, 10**12) * (1 + Fraction(1, 2**53))
    assert Fraction(delta) <= Fraction(cost.delta, 10**18) * (1 + Fraction(1, 2**53))


@pytest.mark.parametrize("amount", [cost_of, total_of])
def test_an_invalid_epsilon_or_delta_is_refused(amount):
    infinite = float("inf")
    for epsilon in (0, -0.0, -1, float("nan"), infinite, 1e7, 10**400, True, "1", None, 1j):
        with refused("out-of-range"):
            amount(epsilon, 1e-6)
    for delta in (-1e-9, 1, 1.5, float("nan"), infinite, False, "0", None):
        with refused("out-of-range"):
            amount(1.0, delta)


def test_an_amount_below_a_unit_costs_one_and_is_refused_as_a_total():
    assert cost_of(1e-15, 1e-300) == Amount(1, 1)
    for amount in ((1e-15, 0), (1.0, 1e-300)):
        with refused("out-of-range"):
            total_of(*amount)


@given(st.integers(0, LARGEST))
def test_printed_amounts_are_rounded_to_the_safe_side(units):
    square = Fraction(units, 10**17)
    below, above = (Fraction(format_mu(units, up=up)) ** 2 for up in (False, True))
    assert below <= square <= above
