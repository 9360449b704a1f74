"""Corrected bounds hold on random worlds, by exact enumeration; the published ones do not."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles import literal
from oracles import theory as slow
from privalue.core import Design, calibration
from privalue.paper import theory

STATES = 3
DESIGNS = [
    np.eye(3),
    np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]),
    np.array([[1.0, 0.2], [0.5, -2.0], [0.0, 1.5]]),
]
ROUNDING = 1 + 1e-9
BETA = st.floats(-14, 1.5).map(math.exp)


@st.composite
def worlds(draw):
    """A few sets of states that a trajectory visits, each with its probability."""
    sets = draw(
        st.lists(st.frozensets(st.integers(0, STATES - 1)), min_size=1, max_size=4, unique=True)
    )
    shares = draw(st.lists(st.floats(0.01, 1.0), min_size=len(sets), max_size=len(sets)))
    return [(share / sum(shares), visited) for share, visited in zip(shares, sets, strict=True)]


@st.composite
def settings_of_worlds(draw):
    world = draw(worlds())
    phi = draw(st.sampled_from(DESIGNS))
    weights = np.array(draw(st.lists(st.floats(0.05, 1.0), min_size=3, max_size=3)))
    single, joint = slow.visit_probabilities(world, STATES)
    least = float(np.linalg.norm(phi, 2) ** 2 * weights.max())
    setting = theory.Setting(
        design=Design(phi=phi, weights=weights),
        calibration=calibration.Calibration(alpha=1.0, beta=draw(BETA)),
        visits=np.minimum(single, 1.0),
        joint=np.minimum(joint, 1.0),
        trajectories=draw(st.integers(1, 6)),
        largest=1.0,
        ridge=least * draw(st.floats(1.001, 100.0)),
    )
    return world, setting


def exact_lsw(world, setting):
    """C^2 E[psi_X^w] over all data sets."""
    weights, beta = setting.design.weights.tolist(), setting.calibration.beta
    mean = math.fsum(
        chance * literal.psi_lsw(counts, weights, beta)
        for chance, counts in slow.data_sets(world, STATES, setting.trajectories)
    )
    return theory.lsw_factor(setting) * mean


def exact_lsl(world, setting, split=False):
    """C_lambda^2 E[(lambda d/(2m) + ...) psi_X^lambda] over all data sets.

    ``split`` puts 2 ||rho||_2^2 + 2 c^2 sum_s rho_s max_k e^{-k beta} min(n_s + k, m) for psi.
    """
    phi, rho, m = setting.design.phi, setting.design.weights.tolist(), setting.trajectories
    ridge, beta = setting.ridge, setting.calibration.beta
    norm = np.linalg.norm(phi, 2)
    slope = norm * max(rho) / math.sqrt(2 * ridge)
    total = 0.0
    for chance, counts in slow.data_sets(world, STATES, m):
        curvature = ridge * phi.shape[1] / 2 + sum(
            r * float(row @ row) * n for r, row, n in zip(rho, phi, counts, strict=True)
        )
        psi = literal.psi_lsl(counts, rho, m, beta, slope)
        if split:
            terms = [r * slow.lsl_term(n, m, beta) for r, n in zip(rho, counts, strict=True)]
            psi = 2 * sum(r * r for r in rho) + 2 * slope**2 * sum(terms)
        total += chance * curvature / m * psi
    return (2 * norm / (ridge - norm**2 * max(rho))) ** 2 * total


@given(case=settings_of_worlds())
def test_the_expected_excess_of_lsw_is_between_its_sums_and_below_the_corrected_theorem(case):
    world, setting = case
    exact = exact_lsw(world, setting)
    between = theory.expected_lsw_excess(setting)
    assert between.lower <= exact * ROUNDING
    assert exact <= between.upper * ROUNDING
    assert between.upper <= theory.lsw_excess_bound(setting) * ROUNDING
    if setting.calibration.beta <= 0.5:
        assert theory.lsw_excess_bound(setting) <= theory.lsw_excess_short_bound(setting) * ROUNDING


@given(case=settings_of_worlds())
def test_the_expected_excess_of_lsl_is_below_its_sum_and_the_corrected_theorem(case):
    world, setting = case
    assert exact_lsl(world, setting) <= theory.lsl_excess_summed_bound(setting) * ROUNDING
    assert exact_lsl(world, setting, split=True) == pytest.approx(
        theory.lsl_excess_summed_bound(setting), rel=1e-9, abs=0
    )
    assert theory.lsl_excess_summed_bound(setting) <= theory.lsl_excess_bound(setting) * ROUNDING


# Planted mistakes, and the published statements among them: each must be caught on this table.

ONE = Design(phi=np.ones((1, 1)), weights=np.ones(1))


def alone(p, m, beta, ridge=1.01):
    return theory.Setting(
        design=ONE,
        calibration=calibration.Calibration(alpha=1.0, beta=beta),
        visits=np.array([p]),
        joint=np.array([[p]]),
        trajectories=m,
        largest=1.0,
        ridge=ridge,
    )


def exact_term(p, m, beta):
    return slow.over_binomial(lambda n: slow.lsw_term(n, beta), m, p)


CASES = [(1.0, 6, 0.01), (0.5, 50, 2.0), (0.5, 50, 0.01), (0.3, 120, 0.02)]


def six_as_one(p, m, beta):
    return 1 / (p**2 * (m + 1) * (m + 2)) + math.exp(beta) * (1 + math.expm1(-beta) * p) ** m


def exponent_doubled(p, m, beta):
    return 6 / (p**2 * (m + 1) * (m + 2)) + math.exp(beta) * (1 + math.expm1(-2 * beta) * p) ** m


def no_tail(p, m, _):
    return 6 / (p**2 * (m + 1) * (m + 2))


def published(p, m, beta):
    return float(theory.lsw_term_bound_as_published(p, m, beta))


@pytest.mark.parametrize(
    "mistake", [six_as_one, exponent_doubled, no_tail, published], ids=lambda f: f.__name__
)
def test_mistaken_bounds_of_lsw_are_caught(mistake):
    assert max(exact_term(*case) / mistake(*case) for case in CASES) > 1.001
    assert all(exact_term(*case) <= theory.lsw_term_bound(*case) for case in CASES)


@pytest.mark.parametrize(
    "term",
    [
        lambda n, beta: slow.lsw_term(n, beta) if n else 0.0,
        lambda n, beta: math.exp(-beta * (n - 1)),
        lambda n, _: 1 / max(n, 1) ** 2,
    ],
    ids=["without zero", "always slow", "always fast"],
)
def test_mistaken_sums_are_caught(term):
    wrong, right = [], []
    for p, m, beta in [*CASES, (0.05, 10, 0.1)]:
        actual = float(theory.expected_lsw_term(p, m, beta))
        right.append(abs(actual / exact_term(p, m, beta) - 1))
        wrong.append(abs(actual / slow.over_binomial(lambda n, b=beta: term(n, b), m, p) - 1))
    assert max(right) < 1e-10
    assert max(wrong) > 1e-2


def test_the_published_short_bound_of_lsw_is_caught():
    cases = [case for case in CASES if case[2] <= 0.5]
    worst = max(
        exact_term(*case) / float(theory.lsw_term_short_bound_as_published(*case)) for case in cases
    )
    assert worst > 10


def test_the_published_bound_of_lsl_is_caught_by_enumeration():
    """One state that every second trajectory visits, six trajectories."""
    setting = alone(0.5, 6, 0.01)
    slope = 1 / math.sqrt(2 * 1.01)
    exact = theory.lsl_factor(setting) * slow.over_binomial(
        lambda n: (1.01 / 2 + n) / 6 * literal.psi_lsl([n], [1.0], 6, 0.01, slope), 6, 0.5
    )
    assert exact > 1.2 * theory.lsl_excess_bound_as_published(setting)
    assert exact <= theory.lsl_excess_summed_bound(setting) <= theory.lsl_excess_bound(setting)
