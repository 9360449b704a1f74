"""Empirical delta: calibrated constants pass, weaker ones fail, real neighbours pass."""

import os

import numpy as np
import pytest

import privalue as pv
from oracles.audits import audit_release, audit_worst_pairs
from oracles.studies import make_study
from privalue.core.calibration import exact
from privalue.planning.audit import audit_events

LONG = os.environ.get("PRIVALUE_LONG") == "1"  # make long
SETTINGS = [(0.5, 0.05, 1, 0.1), (0.5, 0.05, 4, 0.06), (1.0, 0.02, 20, 0.03), (0.1, 0.1, 40, 0.02)]


@pytest.mark.parametrize(("epsilon", "delta", "d", "beta"), SETTINGS)
def test_calibrated_constants_pass_and_nine_tenths_of_them_fail(epsilon, delta, d, beta):
    """The planted mistake: a tenth less noise."""
    alpha = exact(epsilon, delta, d, beta).alpha
    common = {"dimension": d, "epsilon": epsilon, "claimed": delta, "seed": 1}
    assert not any(audit.rejected for audit in audit_worst_pairs(alpha, beta, **common))
    assert any(audit.rejected for audit in audit_worst_pairs(0.9 * alpha, beta, **common))


@pytest.mark.long
def test_the_power_against_nine_tenths_is_above_99_percent():
    """300 of 300 independent audits reject 0.9 alpha: power above 99% at confidence 95%."""
    epsilon, delta, d, beta = SETTINGS[0]
    alpha = exact(epsilon, delta, d, beta).alpha
    common = {"dimension": d, "epsilon": epsilon, "claimed": delta, "draws": 180_000}

    def rejections(share, audits):
        return sum(
            any(a.rejected for a in audit_worst_pairs(share * alpha, beta, seed=seed, **common))
            for seed in range(audits)
        )

    assert rejections(0.9, 300) == 300
    assert rejections(1.0, 100) == 0


def test_a_beta_that_is_not_kept_is_rejected():
    """The planted mistake: scales that differ by four times what beta says."""
    epsilon, delta, d, beta = 0.5, 0.05, 20, 0.04
    alpha = exact(epsilon, delta, d, beta).alpha
    common = {"dimension": d, "epsilon": epsilon, "claimed": delta, "seed": 2}
    assert not any(audit.rejected for audit in audit_worst_pairs(alpha, beta, **common))
    assert any(audit.rejected for audit in audit_worst_pairs(alpha, 4 * beta, **common))


def test_bounds_of_counts_against_a_case_by_hand():
    """No hits among 100 draws: the upper bound is 1 - (tail)^(1/100)."""
    audit = audit_events(0, 0, draws=100, epsilon=0.0, claimed=0.1, confidence=0.99)
    assert audit.upper == pytest.approx(1 - 0.005 ** (1 / 100))
    assert audit.lower == pytest.approx(-(1 - 0.005 ** (1 / 100)))
    certain = audit_events(100, 0, draws=100, epsilon=0.0, claimed=0.1, confidence=0.99)
    assert certain.rejected


HIGH, LOW = [(s, 1.0) for s in range(3)], [(s, 0.0) for s in range(3)]
PAIRS = {
    "every count changes": ([HIGH] * 3 + [HIGH], [HIGH] * 3 + [[(0, 0.0)]]),
    "all returns flip": ([HIGH] * 2 + [HIGH], [HIGH] * 2 + [LOW]),
    "a rare state": ([[(0, 0.0)]] * 30 + [[(2, 1.0)]], [[(0, 0.0)]] * 30 + [[(0, 0.0)]]),
}
MECHANISMS = [
    {"name": "dp-lsw", "noise": "whitened", "calibration": "exact", "beta": 0.2},
    {"name": "dp-lsw", "calibration": "exact", "beta": 0.2, "pseudo_count": 4.0},
    {"name": "dp-lsl", "calibration": "exact", "beta": 0.2, "ridge": 3.0},
    {"name": "dp-lsw", "calibration": "nissim"},
]


def study_of(states, mechanism, **sections):
    privacy = {"epsilon": 1.0, "delta": 0.05}
    defaults = {"discount": 0.5, "returns": (0.0, 1.0), "privacy": privacy}
    return make_study(states, mechanism=mechanism, **defaults, **sections)


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: "-".join(map(str, m.values())))
def test_real_neighbours_through_the_public_path_are_never_rejected(name, mechanism):
    study = study_of(3, mechanism)
    source = pv.SeededForExperimentsOnly(8)
    releases = 100 if LONG else 60
    audit = audit_release(study, *PAIRS[name], releases=releases, entropy=lambda: source)
    assert not audit.rejected
    assert audit.true <= audit.claimed
    assert audit.lower <= audit.true  # a lower bound for any event; the best one attains it
    assert audit.slack is None or audit.slack >= 1


@pytest.mark.long
def test_one_state_is_close_to_the_worst_case():
    """One state visited once, its return flipped: the shift is the bound itself."""
    study = study_of(1, {"calibration": "exact", "beta": 0.05})
    source = pv.SeededForExperimentsOnly(9)
    audit = audit_release(study, [[(0, 1.0)]], [[(0, 0.0)]], releases=500, entropy=lambda: source)
    assert not audit.rejected
    assert 1.0 <= audit.slack < 1.3


@pytest.mark.parametrize(("planted", "releases"), [("a third of the noise", 250), ("no noise", 60)])
def test_a_broken_release_is_rejected(planted, releases, monkeypatch):
    """The planted mistake is in the path itself."""
    from privalue.core import noise as drawing

    original = drawing.gaussian_on_grid
    share = {"a third of the noise": 0.33, "no noise": 1e-6}[planted]
    monkeypatch.setattr(
        drawing,
        "gaussian_on_grid",
        lambda center, *, sigma, grid, entropy: original(
            center, sigma=share * sigma, grid=grid, entropy=entropy
        ),
    )
    study = study_of(1, {"calibration": "exact", "beta": 0.05})
    source = pv.SeededForExperimentsOnly(9)
    audit = audit_release(
        study, [[(0, 1.0)]], [[(0, 0.0)]], releases=releases, entropy=lambda: source
    )
    assert audit.rejected


def test_audits_of_whitened_noise_hold():
    phi = np.array([[1.0, 0.5], [0.0, 2.0], [1.0, 1.0]])
    mechanism = {"calibration": "exact", "beta": 0.1, "noise": "whitened"}
    study = study_of(3, mechanism, features={"kind": "matrix", "matrix": phi})
    source = pv.SeededForExperimentsOnly(10)
    audit = audit_release(study, *PAIRS["all returns flip"], releases=100, entropy=lambda: source)
    assert audit.lower <= audit.true
