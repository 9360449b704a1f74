"""Releases by dp-ope on a ledger: with Gaussian noise they have a mu, else they are pure."""

import pytest

import privalue as pv
from privalue.ledger import study_hash
from privalue.ledger._squares import dominating_square, square_cost
from privalue.ledger._units import mu
from privalue.report._registry import registry_entry
from privalue.report._spending import charge_words

PEOPLE = [[("ill", "wait", 0.5)], [("ill", "treat", 1.0)]] * 1000
SQUARES, POOL = {"accounting": "gaussian"}, {"plain_epsilon": 1.0, "plain_delta": 1e-7}
GAUSSIAN = {"mechanism": "dp-ope", "noise": "gaussian", "delta": 1e-7}
LAPLACE = {"mechanism": "dp-ope"}


def study(**keys):
    policy = {
        "target": {"ill": {"wait": 0.2, "treat": 0.8}},
        "behaviour": {"ill": {"wait": 0.5, "treat": 0.5}},
    }
    return pv.Study(
        **{"dataset": "trial", "states": ["ill"], "actions": ["wait", "treat"]},
        **{"discount": 1.0, "returns": (0, 1), "unit": "trajectory", "epsilon": 0.3, **keys},
        policy={**policy, "clip": 5},
    )


@pytest.mark.parametrize(
    ("total", "noise", "pool", "words"),
    [
        ({}, GAUSSIAN, "sum", "basic composition on a ledger"),
        ({}, LAPLACE, "sum", "basic composition on a ledger"),
        (SQUARES, GAUSSIAN, "squares", "Gaussian accounting on a ledger"),
        (SQUARES | POOL, GAUSSIAN, "squares", "Gaussian accounting on a ledger"),
        (SQUARES, LAPLACE, "squares", "Gaussian accounting on a ledger"),
        (SQUARES | POOL, LAPLACE, "sum", "basic composition on a ledger, in the plain pool of"),
    ],
    ids=["plain", "pure-plain", "squares", "squares-pool", "pure-squares", "pure-pool"],
)
def test_a_policy_is_paid_for_once_and_said_to_be_paid_for_as_it_was(
    tmp_path, total, noise, pool, words
):
    ledger = pv.open_ledger(tmp_path / "ledger.db")
    ledger.declare("trial", epsilon=2.0, delta=1e-6, unit="trajectory", **total)
    made = pv.release(study(**noise), PEOPLE, ledger=ledger, accept_useless=True)
    assert pv.release(study(**noise), PEOPLE, ledger=ledger, accept_useless=True).reused
    ledger.verify(head=made.ledger_head, artefact=made.to_json())
    standing = ledger.standing("trial")
    spent = standing.spent.units
    assert standing.number_of_releases == 1
    if pool == "sum":
        assert (spent.epsilon, spent.square) == (3 * 10**11, 0)
    else:
        alpha = made.noise.alpha
        paid = square_cost(mu(alpha), 1) if noise is GAUSSIAN else dominating_square(3 * 10**11)
        assert (spent.epsilon, spent.square) == (0, paid)
    entry = registry_entry(made, account=standing)
    assert entry["privalue"]["composition"]["accounting"].startswith(words)
    assert ("pool of its own" in entry["deployment"]["accounting"]["composition"]) == (
        "plain pool" in words
    )
    unknown = registry_entry(made)["privalue"]["composition"]["accounting"]
    assert unknown.endswith("basic composition or Gaussian accounting")  # either would take it
    assert f"Charged {spent}" in charge_words(made, standing)
    pv.publish(made, tmp_path / "out", account=standing)


def test_a_policy_moves_to_squares_by_its_mu(tmp_path):
    ledger = pv.open_ledger(tmp_path / "ledger.db")
    total = {"epsilon": 2.0, "delta": 1e-6, "unit": "trajectory"}
    ledger.declare("trial", **total)
    made = pv.release(study(**GAUSSIAN), PEOPLE, ledger=ledger, accept_useless=True)
    moved = ledger.declare("trial", **total, **SQUARES, replace=True, add_deltas=True)
    assert moved.spent.units.square == square_cost(mu(made.noise.alpha), 1)


def test_laplace_noise_that_claims_a_mu_answers_nothing(tmp_path):
    """A pure release has no mu of its own, whatever its text says."""
    ledger = pv.open_ledger(tmp_path / "ledger.db")
    ledger.declare("trial", epsilon=2.0, delta=1e-6, unit="trajectory")
    made = pv.release(study(**GAUSSIAN), PEOPLE, seed=1, accept_useless=True)
    privacy, described = made.privacy, made.study
    whom = {"unit": privacy.unit, "neighbours": privacy.neighbours}
    promise = {"epsilon": privacy.epsilon, "delta": privacy.delta, **whom}
    request = study_hash(described)
    held = ledger.reserve("trial", request, **promise, gaussian_alpha=made.noise.alpha)
    text = made.model_copy(
        update={
            "ledger_head": held.charge(),
            "private": True,
            "noise": made.noise.model_copy(update={"law": "laplace"}),
        }
    ).to_json()
    held.commit(text)
    with pytest.raises(pv.LedgerError, match="its noise is less than the mu"):
        ledger.verify()
