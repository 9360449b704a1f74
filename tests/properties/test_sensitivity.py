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


def assert_rounded_up(actual, exact):
    assert exact <= actual <= exact * (1 + TOLERANCE)


@given(counts=COUNTS, beta=BETA, draw=st.data(), slope=st.floats(0.0, 30.0))
def test_both_are_smooth_between_neighbouring_signatures(counts, beta, draw, slope):
    """|ln psi(v) - ln psi(v')| <= beta wherever no count differs by more than one."""
    weights = weighted(draw.draw, counts)
    steps = draw.draw(st.lists(st.integers(-1, 1), min_size=len(counts), max_size=len(counts)))
    m = max(*counts, 1) + 1
    near = [min(max(n + step, 0), m) for n, step in zip(counts, steps, strict=True)]
    slack = beta + TOLERANCE
    here, there = fast_lsw(counts, weights, beta), fast_lsw(near, weights, beta)
    assert abs(math.log(here) - math.log(there)) <= slack
    here, there = (fast_lsl(n, weights, m, beta, slope) for n in (counts, near))
    assert abs(math.log(here) - math.log(there)) <= slack


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
    errors = [abs(fast_lsw(*case) / mistake(*case) - 1) for case in CASES]
    assert max(errors) > 1e-3


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


def test_psi_lsl_with_weights_that_would_cancel():
    """A running sum taken from the total would lose the light state beside the heavy one."""
    from fractions import Fraction

    counts, rho, m, beta = [0, 10**4], [1e16, 1.0], 10**4, 0.3
    actual = fast_lsl(counts, rho, m, beta, 1.0)
    totals = [
        sum(Fraction(r) * min(n + k, m) for n, r in zip(counts, rho, strict=True)) for k in range(9)
    ]
    offset = math.sqrt(1e32 + 1)
    best = max(
        math.exp(-beta * k) * (math.sqrt(total) + offset) ** 2 for k, total in enumerate(totals)
    )
    assert_rounded_up(actual, best * (1 - 1e-15))
