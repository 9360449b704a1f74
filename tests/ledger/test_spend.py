"""What other tools spend of the same budget: charged before they release, in either accounting."""

from fractions import Fraction

import dp_accounting
import pytest
from dp_accounting.pld import PLDAccountant
from hypothesis import given
from hypothesis import strategies as st

import privalue as pv
from oracles.ledgers import DATASET, declare
from oracles.refusals import refused
from privalue.cli import run
from privalue.ledger import Amount, BudgetTerms, open_ledger
from privalue.ledger.gaussian import alpha_of_mu

WHO = {"unit": "trajectory", "neighbours": "replace-one"}
WHAT = "OpenDP: admissions by month"


@pytest.fixture
def ledger(tmp_path):
    return open_ledger(tmp_path / "ledger.db")


def test_spending_of_another_tool_adds_up_and_verifies(ledger):
    declare(ledger)
    assert str(ledger.spend(DATASET, epsilon=0.2, delta=1e-7, what=WHAT, **WHO).left) == (
        "epsilon 0.8, delta 9e-7"
    )
    spent = ledger.spend(DATASET, epsilon=0.3, delta=0, what="another", **WHO)
    assert spent.left.as_floats() == (0.5, 9e-7)
    assert ledger.verify().entries == 3
    assert [line.what for line in ledger.statement(DATASET)][1:] == [WHAT, "another"]


def test_another_relation_costs_its_steps(ledger):
    """Add-remove is two steps to a replacement; replace-one hides no presence."""
    declare(ledger)
    spent = ledger.spend(
        DATASET, epsilon=0.2, delta=0, what=WHAT, unit="trajectory", neighbours="add-remove"
    ).spent
    assert spent.as_floats() == (0.4, 0.0)
    declare(ledger, "presence", neighbours="add-remove")
    with refused("not-convertible"):
        ledger.spend("presence", epsilon=0.2, delta=0, what=WHAT, **WHO)


def test_a_gaussian_total_takes_mu_and_pure_epsilon(ledger):
    declare(ledger, accounting="gaussian")
    account = ledger.spend(DATASET, mu=0.1, what=WHAT, **WHO)
    exact = Fraction("0.1") ** 2 * 10**17  # of the decimal that was written
    assert exact <= account.spent.mu2 <= exact * (1 + Fraction(2) ** -50) + 1
    ledger.spend(DATASET, epsilon=0.1, delta=0.0, what="Laplace", **WHO)
    assert ledger.verify().entries == 3
    with refused("not-convertible"):
        ledger.spend(DATASET, epsilon=0.1, delta=1e-9, what="other", **WHO)
    with refused("budget-exceeded"):
        ledger.spend(DATASET, mu=90.0, what="other", **WHO)


def test_a_price_that_is_too_low_fails_the_check(ledger, monkeypatch):
    """Planted: one unit of mu^2 less than the other tool's noise costs."""
    declare(ledger, accounting="gaussian")
    cost = BudgetTerms.cost
    monkeypatch.setattr(BudgetTerms, "cost", lambda *args: Amount(mu2=cost(*args).mu2 - 1))
    ledger.spend(DATASET, mu=0.1, what=WHAT, **WHO)
    with refused("ledger-invalid"):
        ledger.verify()


@given(st.floats(1e-6, 100.0))
def test_alpha_of_mu_never_lowers_a_cost(mu):
    """Planted beside it: the nearest double of 1/mu is above it for about half of all mu."""
    alpha, decimal = alpha_of_mu(mu), Fraction(repr(mu))
    assert Fraction(alpha) * decimal <= 1
    assert Fraction(alpha) * decimal > 1 - Fraction(2) ** -50
    assert Fraction(1 / 0.3) * Fraction("0.3") > 1


def test_dp_accounting_agrees_with_the_event_that_a_release_states():
    """Under ADD_OR_REMOVE_ONE; planted: REPLACE_ONE would double it."""
    epsilon, delta = 1.0, 1e-6
    study = pv.Study(
        states=2, discount=0.9, returns=(0, 1), epsilon=epsilon, delta=delta, unit="trajectory"
    )
    release = pv.release(study, [[(0, 0.0), (1, 1.0)]] * 500)
    relation = dp_accounting.NeighboringRelation
    event = eval(release.dp_event, vars(dp_accounting).copy())
    assert event.noise_multiplier <= release.noise.alpha
    assert release.zcdp_rho == release.gaussian_mu**2 / 2

    def epsilon_under(neighbours):
        return PLDAccountant(neighbours).compose(event).get_epsilon(delta)

    assert epsilon_under(relation.ADD_OR_REMOVE_ONE) == pytest.approx(epsilon, rel=1e-3)
    assert epsilon_under(relation.REPLACE_ONE) > 1.9 * epsilon


@pytest.mark.parametrize(
    "amount", [{}, {"epsilon": 0.1}, {"mu": 0.1, "epsilon": 0.1}, {"mu": 0.0}, {"mu": float("nan")}]
)
def test_invalid_amounts_are_refused(ledger, amount):
    declare(ledger, accounting="gaussian")
    with refused("out-of-range", "usage"):
        ledger.spend(DATASET, what=WHAT, **WHO, **amount)
    assert ledger.verify().entries == 1


def test_the_command_charges_once_or_says_do_not_release(tmp_path):
    at = ["--ledger", str(tmp_path / "ledger.db"), "--epsilon", ".6", "--delta", "1e-7"]
    unit = ["--unit", "person", "--neighbours", "add-remove"]
    assert run(["ledger", "declare", "clinic", *at[:3], "1", "--delta", "1e-6", *unit]) == 0
    spend = ["ledger", "spend", "clinic", *at]
    assert run([*spend, *unit, "--what", WHAT]) == 0
    assert run([*spend, *unit, "--what", WHAT]) == 4  # the same, and more than is left
    assert run([*spend, *unit, "--what", "more"]) == 4
    assert run(["ledger", "spend", "clinic", *at[:2], "--mu", ".1", *unit, "--what", "mu"]) == 4
    for missing in (
        unit,
        [*unit[:2], "--what", "x"],
        [*unit[2:], "--what", "x"],
        [*unit, "--what", " "],
    ):
        assert run([*spend, *missing]) == 2
    assert open_ledger(tmp_path / "ledger.db").verify().entries == 2
