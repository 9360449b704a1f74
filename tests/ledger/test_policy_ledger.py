"""Releases by dp-ope on a ledger: they are pure epsilon, in either accounting."""

import pytest

import privalue as pv
from oracles.ledgers import BOTH
from privalue.ledger import Amount
from privalue.ledger.gaussian import mu2_of_pure
from privalue.report import describe

PEOPLE = [[("ill", "wait", 0.5)], [("ill", "treat", 1.0)]] * 1000


def study():
    policy = {
        "target": {"ill": {"wait": 0.2, "treat": 0.8}},
        "behaviour": {"ill": {"wait": 0.5, "treat": 0.5}},
    }
    return pv.Study(
        **{"dataset": "trial", "states": ["ill"], "actions": ["wait", "treat"]},
        **{"discount": 1.0, "returns": (0, 1), "unit": "trajectory", "epsilon": 0.3},
        trajectories=2000,
        mechanism="dp-ope",
        policy={**policy, "clip": 5},
    )


@pytest.mark.parametrize("accounting", BOTH)
def test_a_policy_is_charged_once_and_the_release_names_the_accounting(tmp_path, accounting):
    ledger = pv.open_ledger(tmp_path / "ledger.db")
    ledger.declare("trial", epsilon=2.0, delta=1e-6, unit="trajectory", accounting=accounting)
    release = pv.release(study(), PEOPLE, ledger=ledger, accept_useless=True)
    assert pv.release(study(), PEOPLE, ledger=ledger, accept_useless=True).reused
    ledger.verify(releases={"it": release.to_json()})
    account = ledger.account("trial")
    expected = Amount(epsilon=3 * 10**11)
    if accounting == "gaussian":
        expected = Amount(mu2=mu2_of_pure(3 * 10**11))
    assert (account.spent, account.balance.releases) == (expected, 1)
    ways = {"plain": "basic composition", "gaussian": "Gaussian accounting"}
    assert ways[accounting] in describe(release, account=account)["budget.text"]
    pv.publish(release, tmp_path / "out", account=account)


def test_the_number_of_trajectories_is_released_with_noise(tmp_path):
    """Where a size is public it is divided by, and needs no noise."""
    ledger = pv.open_ledger(tmp_path / "ledger.db")
    ledger.declare("trial", epsilon=2.0, delta=1e-6, unit="trajectory")
    release = pv.release(study(), PEOPLE, ledger=ledger, accept_useless=True)
    alone = pv.release(study().replace(dataset=None), PEOPLE, accept_useless=True)
    assert (release.trajectories, alone.trajectories) == (None, 2000)
    assert release.terms["size_weight"] > alone.terms["size_weight"] == 0
