"""The paper's statements as functions: formulas, refusals, exact sums."""

import math

import numpy as np
import pytest
import scipy.linalg as sl

from oracles import literal
from oracles import theory as slow
from privalue.core import Design, calibration
from privalue.core.sensitivity import TOLERANCE
from privalue.paper import theory

PHI = np.array([[1.0, 0.0], [0.5, 2.0], [0.0, 1.5]])
RHO = np.array([1.0, 0.25, 0.6])
WORLD = [(0.3, {0}), (0.25, {0, 1}), (0.2, {1, 2}), (0.05, {0, 1, 2}), (0.2, set())]
SINGLE, JOINT = slow.visit_probabilities(WORLD, 3)
CALIBRATION = calibration.Calibration(alpha=1.7, beta=0.03)


def setting(**changes):
    keywords = {
        "design": Design(phi=PHI, weights=RHO),
        "calibration": CALIBRATION,
        "visits": SINGLE,
        "joint": JOINT,
        "trajectories": 12,
        "largest": 2.0,
        "ridge": 20.0,
    }
    return theory.Setting(**(keywords | changes))


# The two lemmas about maxima


@pytest.mark.parametrize("a", [1.0, 1.5, 2.0, 5.0, 40.0])
@pytest.mark.parametrize("b", [1e-3, 0.05, 0.4, 1.0, 1.9, 2.1, 5.0])
def test_the_maximum_of_lsw_against_a_scan_and_the_published_one_is_below_it(a, b):
    x = np.linspace(0, a - 1, 20_001)
    values = np.exp(-b * x) / (a - x) ** 2
    assert theory.largest_lsw_term(a, b) == pytest.approx(values.max(), rel=1e-12, abs=0)
    published = theory.largest_lsw_term_as_published(a, b)
    if b <= 2:  # the third case, b > 2, is not even the value at an end
        assert published == pytest.approx(values.min(), rel=1e-6, abs=0)
    if a > 1:
        assert published < values.max() * (1 - 1e-3) or b > 2


def test_the_published_maximum_of_lsl_is_below_and_above():
    """Its exponent is 2 b; below: a = 10, b = 0.01; above: a = 0.1, b = 20, where it is a."""
    true = theory.largest_lsl_term(10.0, 0.02, 1000.0)
    assert true == pytest.approx(math.exp(10 * 0.02 - 1) / 0.02)
    assert theory.largest_lsl_term_as_published(10.0, 0.01, 1000.0) == 10.0 < true / 2
    assert theory.largest_lsl_term_as_published(0.1, 20.0, 1000.0) > theory.largest_lsl_term(
        0.1, 40.0, 1000.0
    )


# Exact over the noise


@pytest.fixture
def trajectories():
    """Twelve trajectories of the world, as {state: first-visit return in [0, 2]}."""
    generator = np.random.default_rng(5)
    paths = generator.choice(len(WORLD), size=12, p=[chance for chance, _ in WORLD])
    return [{s: 2 * generator.random() for s in WORLD[i][1]} for i in paths]


def sum_returns(trajectories):
    counts = np.array([sum(s in t for t in trajectories) for s in range(3)])
    means = np.array([sum(t.get(s, 0.0) for t in trajectories) for s in range(3)])
    return counts, means / np.maximum(counts, 1)


@pytest.mark.parametrize("noise", ["isotropic", "whitened"])
def test_excess_of_lsw_given_counts(trajectories, noise):
    counts, means = sum_returns(trajectories)
    theta, psi, sigma = literal.dp_lsw(
        PHI, RHO, counts.tolist(), means, (0.0, 2.0), CALIBRATION.alpha, CALIBRATION.beta
    )
    root = sigma * np.eye(2)
    if noise == "whitened":
        factor = sl.sqrtm(PHI.T @ np.diag(RHO) @ PHI)
        root = CALIBRATION.alpha * 2.0 * math.sqrt(psi) * np.linalg.inv(factor)
    exact = slow.expected_excess(
        lambda x: slow.objective_lsw(x, PHI, RHO, means), theta, np.asarray(root)
    )
    computed = theory.lsw_excess_given_counts(setting(), counts, noise)
    assert computed == pytest.approx(exact, rel=TOLERANCE, abs=0)
    other = "isotropic" if noise == "whitened" else "whitened"
    assert theory.lsw_excess_given_counts(setting(), counts, other) != pytest.approx(
        exact, rel=0.1, abs=0
    )


def test_excess_of_lsl_given_counts(trajectories):
    counts, means = sum_returns(trajectories)
    theta, _, sigma = literal.dp_lsl(
        PHI, RHO, counts.tolist(), means, (0.0, 2.0), 12, 20.0, CALIBRATION.alpha, CALIBRATION.beta
    )
    exact = slow.expected_excess(
        lambda x: slow.objective_lsl(x, PHI, RHO, trajectories, 20.0), theta, sigma * np.eye(2)
    )
    assert theory.lsl_excess_given_counts(setting(), counts) == pytest.approx(
        exact, rel=TOLERANCE, abs=0
    )
    # planted: the ridge term without its half
    assert theory.lsl_excess_given_counts(setting(), counts) != pytest.approx(
        exact + 20.0 * 2 / 24 * sigma**2, rel=1e-3, abs=0
    )


# The theorems against their literal twins


@pytest.mark.parametrize("m", [1, 2, 12, 400])
def test_published_and_corrected_theorems_are_the_literal_ones(m):
    x = setting(trajectories=m)
    alpha, beta, weighted = CALIBRATION.alpha, CALIBRATION.beta, np.sqrt(RHO)[:, None] * PHI
    c = alpha * 2.0 * np.linalg.norm(np.linalg.pinv(weighted), 2) * np.linalg.norm(weighted)
    arguments = (RHO, SINGLE, m, beta, c)
    near = {"rel": 1e-10, "abs": 0}
    assert theory.lsw_excess_bound_as_published(x) == pytest.approx(
        slow.lsw_published(*arguments), **near
    )
    assert theory.lsw_excess_short_bound_as_published(x) == pytest.approx(
        slow.lsw_short_published(*arguments), **near
    )
    norm = np.linalg.norm(PHI, 2)
    c = 2 * alpha * 2.0 * norm / (20.0 - norm**2)
    arguments = (PHI, RHO, SINGLE, JOINT, m, 20.0, beta, c)
    assert theory.lsl_excess_bound_as_published(x) == pytest.approx(
        slow.lsl_published(*arguments), **near
    )
    corrected, twin = theory.lsl_excess_bound(x), slow.lsl_corrected(*arguments)
    assert corrected == pytest.approx(twin, **near) if beta * m >= 1 else corrected < twin


def test_states_that_are_never_visited_count_in_full():
    x = setting(visits=np.array([0.0, 1.0, 1.0]), trajectories=10**6, joint=None)
    for bound in (theory.lsw_excess_bound, theory.lsw_excess_short_bound):
        assert bound(x) == pytest.approx(theory.lsw_factor(x) * RHO[0], rel=1e-9, abs=0)
    assert theory.expected_lsw_excess(x).lower == pytest.approx(
        theory.lsw_factor(x) * RHO[0], rel=1e-9, abs=0
    )


# Exact over binomial counts


@pytest.mark.parametrize("beta", [1e-300, 1e-12, 0.1, 1.3, 1.4, 2.0, 50.0, 1e300])
@pytest.mark.parametrize("p", [0.0, 1e-300, 1e-9, 0.5, 1 - 1e-16, 1.0])
@pytest.mark.parametrize("m", [1, 2, 30])
def test_extremes_of_the_sums(m, p, beta):
    for value, term in (
        (theory.expected_lsw_term(p, m, beta), lambda n: slow.lsw_term(n, beta)),
        (theory.expected_lsl_term(p, m, beta), lambda n: slow.lsl_term(n, m, beta)),
    ):
        assert float(value) == pytest.approx(slow.over_binomial(term, m, p), rel=1e-10, abs=1e-290)
    bound = float(theory.lsw_term_bound(p, m, beta))
    assert float(theory.expected_lsw_term(p, m, beta)) <= bound * (1 + 1e-12) <= 1 + 1e-12
