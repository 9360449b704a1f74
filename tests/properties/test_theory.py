"""Corrected bounds hold on random worlds, by exact enumeration; the published ones do not."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles import literal
from oracles import theory as slow
from privalue.core import Calibration, Design
from privalue.paper import theory

STATES = 3
DESIGNS = [
    np.eye(3),
    np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]),
    np.array([[1.0, 0.2], [0.5, -2.0], [0.0, 1.5]]),
]
ROUNDING = 1 + 1e-9
CHANCE = st.one_of(st.just(0.0), st.just(1.0), st.floats(1e-9, 1.0))
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
        calibration=Calibration(name="any", alpha=1.0, beta=draw(BETA)),
        chances=np.minimum(single, 1.0),
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


@given(p=CHANCE, m=st.integers(1, 10**6), beta=BETA)
def test_the_expected_term_is_below_every_corrected_bound(p, m, beta):
    exact = theory.expected_lsw_term(p, m, beta)
    assert exact <= theory.lsw_term_bound(p, m, beta) * ROUNDING
    if beta <= 0.5:
        assert exact <= theory.lsw_term_short_bound(p, m, beta) * ROUNDING


@given(p=CHANCE, m=st.integers(1, 60), beta=BETA)
def test_the_expected_terms_are_the_literal_sums(p, m, beta):
    for found, term in (
        (theory.expected_lsw_term(p, m, beta), lambda n: slow.lsw_term(n, beta)),
        (theory.expected_lsl_term(p, m, beta), lambda n: slow.lsl_term(n, m, beta)),
    ):
        assert float(found) == pytest.approx(slow.over_binomial(term, m, p), rel=1e-10, abs=0)


@given(p=CHANCE, m=st.integers(1, 300))
def test_the_inverse_square_of_a_binomial(p, m):
    exact = slow.over_binomial(lambda n: 1 / n**2 if n else 0.0, m, p)
    assert exact <= theory.inverse_square_bound(p, m) * ROUNDING


@given(n=st.integers(0, 200), spare=st.integers(0, 200), beta=BETA)
def test_the_terms_of_lsl_are_below_their_bound(n, spare, beta):
    m = max(n + spare, 1)
    exact = slow.lsl_term(n, m, beta)
    assert exact <= float(theory.lsl_term_bound(n, m, beta)) * ROUNDING
    assert exact <= theory.largest_lsl_term(n, beta, m) * ROUNDING
    assert slow.lsw_term(max(n, 1), beta) == pytest.approx(
        theory.largest_lsw_term(max(n, 1), beta), rel=1e-12, abs=0
    )


@given(case=settings_of_worlds(), draw=st.data())
def test_one_step_further_covers_every_neighbour(case, draw):
    """phi_k(v') <= phi_{k+1}(v) wherever no count differs by more than one: smoothness."""
    _, setting = case
    m = setting.trajectories
    here = draw.draw(st.lists(st.integers(0, m), min_size=STATES, max_size=STATES))
    steps = draw.draw(st.lists(st.integers(-1, 1), min_size=STATES, max_size=STATES))
    v = np.array(here)
    near = np.clip(v + steps, 0, m)
    k = draw.draw(st.integers(0, m))
    for phi in (theory.phi_lsw, theory.phi_lsl):
        assert phi(setting, near, k) <= phi(setting, v, k + 1) * ROUNDING


@st.composite
def trajectories(draw):
    visited = draw(st.frozensets(st.integers(0, STATES - 1)))
    return {s: draw(st.sampled_from([0.0, 1.0, 0.4])) for s in visited}


def solved(setting, data):
    phi, weights = setting.design.phi, setting.design.weights
    counts = np.array([sum(s in t for t in data) for s in range(STATES)])
    means = np.array([sum(t.get(s, 0.0) for t in data) for s in range(STATES)])
    means /= np.maximum(counts, 1)
    lsl = literal.lsl(phi, weights, counts, means, len(data), setting.ridge)
    return counts, literal.lsw(phi, weights, means), lsl


@given(
    case=settings_of_worlds(),
    common=st.lists(trajectories(), max_size=5),
    one=trajectories(),
    other=trajectories(),
)
def test_neighbours_move_no_further_than_the_local_sensitivity(case, common, one, other):
    _, setting = case
    here, lsw_here, lsl_here = solved(setting, [*common, one])
    there, lsw_there, lsl_there = solved(setting, [*common, other])
    for counts in (here, there):
        moved = np.linalg.norm(lsw_here - lsw_there)
        assert moved <= theory.local_sensitivity_lsw(setting, counts) * ROUNDING
        moved = np.linalg.norm(lsl_here - lsl_there)
        held = theory.Setting(
            design=setting.design,
            calibration=setting.calibration,
            chances=setting.chances,
            trajectories=len(common) + 1,
            largest=1.0,
            ridge=setting.ridge,
        )
        assert moved <= theory.local_sensitivity_lsl(held, counts) * ROUNDING


# Planted mistakes, and the published statements among them: each must be caught on this table.

ONE = Design(phi=np.ones((1, 1)), weights=np.ones(1))


def alone(p, m, beta, ridge=1.01):
    return theory.Setting(
        design=ONE,
        calibration=Calibration(name="any", alpha=1.0, beta=beta),
        chances=np.array([p]),
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


def test_the_published_step_of_lsl_is_caught():
    """ap:eq:ubmaxl at one visit in a hundred: even with its own exponent, 2 k beta."""
    exact = slow.lsl_term(1, 100, 2 * 0.01)
    assert exact > 15 * float(theory.lsl_term_bound_as_published(1, 100, 0.01))


def without_zero(p, m, beta):
    return slow.over_binomial(lambda n: slow.lsw_term(n, beta) if n else 0.0, m, p)


def always_slow(p, m, beta):
    return slow.over_binomial(lambda n: math.exp(-beta * (n - 1)), m, p)


def always_fast(p, m, _):
    return slow.over_binomial(lambda n: 1 / max(n, 1) ** 2, m, p)


@pytest.mark.parametrize(
    "mistake", [without_zero, always_slow, always_fast], ids=lambda f: f.__name__
)
def test_mistaken_sums_are_caught(mistake):
    cases = [*CASES, (0.05, 10, 0.1)]
    apart = [abs(float(theory.expected_lsw_term(*case)) / mistake(*case) - 1) for case in cases]
    assert max(apart) > 1e-2
    for case in cases:
        assert float(theory.expected_lsw_term(*case)) == pytest.approx(
            exact_term(*case), rel=1e-10, abs=0
        )
