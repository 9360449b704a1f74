"""psi^w and psi^lambda: brute force, smoothness, planted mistakes, worst cases."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles import literal
from oracles.limits import smooth_lsl, smooth_lsw
from privalue.core.sensitivity import TOLERANCE

COUNTS = st.lists(st.integers(0, 60), min_size=1, max_size=12)
WEIGHTS = st.floats(0.0, 1e3).map(lambda w: w if w > 1e-9 else 0.0)
BETA = st.floats(1e-6, 3.0)


def weighted(draw, counts):
    weights = draw(st.lists(WEIGHTS, min_size=len(counts), max_size=len(counts)))
    return weights if any(weights) else [1.0] * len(weights)


def fast_lsw(counts, weights, beta, kappa=0.0):
    return smooth_lsw(
        np.array(counts, dtype=np.int64), np.array(weights, dtype=float), beta, pseudo_count=kappa
    )


def fast_lsl(counts, rho, m, beta, slope):
    return smooth_lsl(
        np.array(counts, dtype=np.int64),
        np.array(rho, dtype=float),
        m,
        beta,
        slope=slope,
        offset=float(np.linalg.norm(rho)),
    )


def assert_rounded_up(found, exact):
    assert exact <= found <= exact * (1 + TOLERANCE)


KAPPA = st.sampled_from([0.0, 0.0, 0.3, 5.0, 70.0, 1e6])


@given(counts=COUNTS, beta=BETA, draw=st.data(), kappa=KAPPA)
def test_psi_lsw_is_the_brute_force_maximum(counts, beta, draw, kappa):
    weights = weighted(draw.draw, counts)
    assert_rounded_up(
        fast_lsw(counts, weights, beta, kappa), literal.psi_lsw(counts, weights, beta, kappa)
    )


@given(
    counts=COUNTS, beta=BETA, draw=st.data(), slope=st.floats(0.0, 30.0), spare=st.integers(0, 40)
)
def test_psi_lsl_is_the_brute_force_maximum(counts, beta, draw, slope, spare):
    rho = weighted(draw.draw, counts)
    m = max(max(counts) + spare, 1)
    assert_rounded_up(
        fast_lsl(counts, rho, m, beta, slope), literal.psi_lsl(counts, rho, m, beta, slope)
    )


@given(counts=COUNTS, beta=BETA, draw=st.data(), slope=st.floats(0.0, 30.0))
def test_both_are_smooth_between_neighbouring_signatures(counts, beta, draw, slope):
    """|ln psi(v) - ln psi(v')| <= beta wherever no count differs by more than one."""
    weights = weighted(draw.draw, counts)
    steps = draw.draw(st.lists(st.integers(-1, 1), min_size=len(counts), max_size=len(counts)))
    m = max(*counts, 1) + 1
    near = [min(max(n + step, 0), m) for n, step in zip(counts, steps, strict=True)]
    room = beta + TOLERANCE
    here, there = fast_lsw(counts, weights, beta), fast_lsw(near, weights, beta)
    assert abs(math.log(here) - math.log(there)) <= room
    here, there = (fast_lsl(n, weights, m, beta, slope) for n in (counts, near))
    assert abs(math.log(here) - math.log(there)) <= room


@given(counts=COUNTS, beta=BETA, draw=st.data())
def test_psi_lsw_bounds_the_local_sensitivity_from_above(counts, beta, draw):
    weights = weighted(draw.draw, counts)
    assert fast_lsw(counts, weights, beta) >= literal.phi_lsw(counts, weights, 0)


# Planted mistakes: each wrong formula must disagree with the fast code somewhere on this table.

CASES = [([0, 3, 9], [1.0, 0.5, 2.0], 0.01), ([1, 1, 40], [1.0, 1.0, 1.0], 0.3), ([7], [0.2], 0.1)]


def mistaken_off_by_one(counts, weights, beta):
    return literal.psi_lsw([n + 1 for n in counts], weights, beta)


def mistaken_sqrt_weights(counts, weights, beta):
    return literal.psi_lsw(counts, [math.sqrt(w) for w in weights], beta)


def mistaken_no_floor(counts, weights, beta):
    return literal.psi_lsw(
        [n for n in counts if n], [w for n, w in zip(counts, weights, strict=True) if n], beta
    )


@pytest.mark.parametrize(
    "mistake",
    [mistaken_off_by_one, mistaken_sqrt_weights, mistaken_no_floor],
    ids=lambda f: f.__name__,
)
def test_planted_mistakes_in_psi_lsw_are_caught(mistake):
    apart = [abs(fast_lsw(*case) / mistake(*case) - 1) for case in CASES]
    assert max(apart) > 1e-3


def test_max_for_min_in_phi_lambda_is_caught():
    """The published text has max{v_s + k, m} where Algorithm 2 rightly has min."""
    counts, rho, m, beta, slope = [1, 5, 9], [1.0, 0.5, 1.0], 20, 0.02, 1.3

    def mistaken(k):
        total = math.fsum(r * max(n + k, m) for n, r in zip(counts, rho, strict=True))
        return (slope * math.sqrt(total) + np.linalg.norm(rho)) ** 2

    wrong = max(math.exp(-k * beta) * mistaken(k) for k in range(m + 1))
    right = fast_lsl(counts, rho, m, beta, slope)
    assert right == pytest.approx(literal.psi_lsl(counts, rho, m, beta, slope), rel=TOLERANCE)
    assert abs(right / wrong - 1) > 1e-2


# Large: the candidates' definition is exact, so a sparse sample of k gives a lower bound, and the
# best candidate evaluated in full gives the value itself.

STATES = 1_000_000

# Where every k comes close to the maximum, none can be dismissed: fewer states.
HARD_CASES = {
    "flat under uniform weights": 5000,
    "flat under chosen weights": 5000,
    "a heavy state far away": STATES,
    "counts up to 1e8": STATES,
    "counts over all scales": STATES,
}


def hard_case(name):
    """Cases built so that as many k as possible come close to the maximum."""
    generator = np.random.default_rng(7)
    states = HARD_CASES[name]
    ranks = np.arange(1, states + 1)
    slow = 1 / states
    rising = np.concatenate([[1.0], np.diff(np.exp(slow * np.arange(states)))])
    if name == "flat under uniform weights":
        beta = math.log(states) / 1e8
        return 1 + np.round(np.log(ranks) / beta).astype(np.int64), np.ones(states), beta
    if name == "flat under chosen weights":
        return ranks, rising, slow
    if name == "a heavy state far away":
        rising[-1] = 1e6
        return ranks, rising, slow
    if name == "counts up to 1e8":
        return generator.integers(0, 10**8, states), np.ones(states), 2.5e-8
    wide = (10 ** generator.uniform(0, 8, states)).astype(np.int64)
    return wide, generator.random(states) ** 4, slow


@pytest.mark.parametrize("name", HARD_CASES)
def test_psi_lsw_of_hard_cases(name):
    """A search that looked at every k and every state would not end; ``make bench`` has speeds."""
    counts, weights, beta = hard_case(name)
    order = np.argsort(counts, kind="stable")
    counts, weights = counts[order], weights[order]
    found = smooth_lsw(counts, weights, beta)
    for k in (0, *np.unique(np.quantile(counts, np.linspace(0, 1, 40)).astype(np.int64) - 1)):
        at = max(int(k), 0)
        value = math.exp(-beta * at) * float(np.sum(weights / np.maximum(counts - at, 1.0) ** 2))
        assert value <= found


def test_the_flat_case_is_really_flat_and_its_maximum_is_found():
    """Small enough for brute force over all candidates; rounding decides which one wins."""
    ranks = np.arange(1, 3001)
    beta = math.log(3000) / 1e5
    counts = 1 + np.round(np.log(ranks) / beta).astype(np.int64)
    weights = np.ones(len(counts))
    values = [
        math.exp(-beta * k) * float(np.sum(1 / np.maximum(counts - k, 1.0) ** 2))
        for k in np.unique(np.maximum(counts - 1, 0))
    ]
    assert np.mean(np.array(values) > 0.99 * max(values)) > 0.9
    assert_rounded_up(smooth_lsw(counts, weights, beta), max(values))


@pytest.mark.parametrize("beta", [2.5e-8, 1e-6, 1e-3])
def test_psi_lsl_for_a_million_states(beta):
    generator = np.random.default_rng(3)
    m = 10**8
    counts = generator.integers(0, m, STATES)
    rho = generator.random(STATES)
    found = smooth_lsl(counts, rho, m, beta, slope=0.01, offset=3.0)
    for k in np.linspace(0, m, 60).astype(np.int64):
        total = float(np.sum(rho * np.minimum(counts + k, m)))
        assert math.exp(-beta * float(k)) * (0.01 * math.sqrt(total) + 3.0) ** 2 <= found


def test_psi_lsl_with_weights_that_would_cancel():
    """A running sum taken from the total would lose the light state beside the heavy one."""
    from fractions import Fraction

    counts, rho, m, beta = [0, 10**4], [1e16, 1.0], 10**4, 0.3
    found = fast_lsl(counts, rho, m, beta, 1.0)
    totals = [
        sum(Fraction(r) * min(n + k, m) for n, r in zip(counts, rho, strict=True)) for k in range(9)
    ]
    offset = math.sqrt(1e32 + 1)
    best = max(
        math.exp(-beta * k) * (math.sqrt(total) + offset) ** 2 for k, total in enumerate(totals)
    )
    assert_rounded_up(found, best * (1 - 1e-15))


def test_psi_lsl_near_a_very_flat_top():
    """Very many k come within the tolerance of the maximum."""
    counts, rho, m, beta = np.zeros(3, dtype=np.int64), np.ones(3), 10**6, 1e-6
    k = np.arange(m + 1)
    best = float(np.max(np.exp(-beta * k) * (2.0 * np.sqrt(3.0 * k) + 0.5) ** 2))
    assert_rounded_up(smooth_lsl(counts, rho, m, beta, slope=2.0, offset=0.5), best * (1 - 1e-13))
