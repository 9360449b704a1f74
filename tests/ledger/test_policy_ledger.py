"""Releases by dp-ope on a ledger: they are pure, and have no mu."""

import pytest

import privalue as pv
from privalue.ledger import study_hash
from privalue.ledger._squares import dominating_square
from privalue.report._registry import registry_entry
from privalue.report._spending import charge_words

PEOPLE = [[("ill", "wait", 0.5)], [("ill", "treat", 1.0)]] * 1000
SQUARES, POOL = {"accounting": "gaussian"}, {"plain_epsilon": 1.0, "plain_delta": 1e-7}


def study():
    policy = {
        "target": {"ill": {"wait": 0.2, "treat": 0.8}},
        "behaviour": {"ill": {"wait": 0.5, "treat": 0.5}},
    }
    return pv.Study(
        **{"dataset": "trial", "states": ["ill"], "actions": ["wait", "treat"]},
        **{"discount": 1.0, "returns": (0, 1), "unit": "trajectory", "epsilon": 0.3},
        mechanism="dp-ope",
        policy={**policy, "clip": 5},
    )


@pytest.mark.parametrize(
    ("total", "pool", "words"),
    [
        ({}, "sum", "basic composition on a ledger"),
        (SQUARES, "squares", "Gaussian accounting on a ledger"),
        (SQUARES | POOL, "sum", "basic composition on a ledger, in the plain pool of"),
    ],
    ids=["plain", "squares", "pool"],
)
def test_a_policy_is_paid_for_once_and_said_to_be_paid_for_as_it_was(tmp_path, total, pool, words):
    ledger = pv.open_ledger(tmp_path / "ledger.db")
    ledger.declare("trial", epsilon=2.0, delta=1e-6, unit="trajectory", **total)
    made = pv.release(study(), PEOPLE, ledger=ledger, accept_useless=True)
    assert pv.release(study(), PEOPLE, ledger=ledger, accept_useless=True).reused
    ledger.verify(head=made.ledger_head, artefact=made.to_json())
    standing = ledger.standing("trial")
    spent = standing.spent.units
    assert standing.number_of_releases == 1
    if pool == "sum":
        assert (spent.epsilon, spent.square) == (3 * 10**11, 0)
    else:
        assert (spent.epsilon, spent.square) == (0, dominating_square(3 * 10**11))
    entry = registry_entry(made, account=standing)
    assert entry["privalue"]["composition"]["accounting"].startswith(words)
    assert ("pool of its own" in entry["deployment"]["accounting"]["composition"]) == (
        "plain pool" in words
    )
    unknown = registry_entry(made)["privalue"]["composition"]["accounting"]
    assert unknown.endswith("basic composition or Gaussian accounting")  # either would take it
    assert f"Charged {spent}" in charge_words(made, standing)
    pv.publish(made, tmp_path / "out", account=standing)


def test_laplace_noise_that_claims_a_mu_answers_nothing(tmp_path):
    """Noise by the Laplace law has no mu, whatever else the text of a release says."""
    ledger = pv.open_ledger(tmp_path / "ledger.db")
    total = {"epsilon": 2.0, "delta": 1e-6, "unit": "trajectory"}
    ledger.declare("trial", **total)
    values = pv.Study(states=["ill"], discount=0.9, returns=(0, 1), dataset="trial", **total)
    made = pv.release(values, [[("ill", 1.0)]] * 1000, seed=1)
    held = ledger.reserve(
        "trial",
        study_hash(made.study),
        **total,
        neighbours="replace-one",
        gaussian_alpha=made.noise.alpha,
    )
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
