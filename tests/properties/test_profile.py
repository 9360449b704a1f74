"""The privacy profile: attempts to break the theorem of the three ratios, and monotonicities.

Comparisons go by the proven bounds, lower against upper: a failure is not a matter of tolerance.
"""

import math
import os

import numpy as np
import pytest
from flint import ctx
from hypothesis import example, given, settings
from hypothesis import strategies as st

from oracles.divergence import BITS, by_chi_square, exactly
from privalue.core.calibration import divergence, exact_alpha, largest_beta, privacy_profile


def logarithmic(low: float, high: float):
    return st.floats(math.log(low), math.log(high)).map(math.exp)


EPSILON = logarithmic(0.001, 20)
DELTA = logarithmic(1e-15, 0.5)
DIMENSION = st.one_of(st.integers(1, 6), logarithmic(1, 1e7).map(int))
ALPHA = logarithmic(0.05, 1e4)
SHARE = logarithmic(1e-4, 1.0)  # of the largest beta


def towards_one(r: float) -> float:
    """A double a few roundings nearer to 1.

    The double nearest to e^{beta/2} may lie beyond it, and where delta is 1e-132 that much in the
    ratio is 1e-10 in delta: a pair that is not allowed, and rightly worse than those that are.
    """
    for _ in range(4):
        r = math.nextafter(r, 1.0)
    return r


def allowed(alpha: float, beta: float, ratios: int):
    """Pairs (r, s) that the conditions on neighbours allow, the extreme ones among them."""
    for x in np.linspace(-beta / 2, beta / 2, ratios):
        r = towards_one(math.exp(x))
        yield from ((r, part * min(1.0, r) / alpha * (1 - 1e-12)) for part in (1.0, 0.7))


def turned_around(r: float, s: float) -> tuple[float, float]:
    """The pair (1/r, s/r) of the reverse direction, rounded to one that is allowed."""
    return towards_one(1 / r), s / r * (1 - 1e-12)


@given(ALPHA, logarithmic(1e-6, 3.0))
@example(math.exp(7), math.exp(-9.25))
def test_the_pairs_that_are_tried_are_allowed(alpha, beta):
    """|ln r^2| <= beta and s <= min(1, r)/alpha of the doubles themselves, in balls."""
    with ctx.workprec(BITS):
        for pair in allowed(alpha, beta, 15):
            for r, s in (pair, turned_around(*pair)):
                assert abs(2 * exactly(r).log()) <= exactly(beta)
                assert exactly(s) * exactly(alpha) <= exactly(min(1.0, r))


@settings(max_examples=150 if os.environ.get("PRIVALUE_LONG") == "1" else 50)
@given(EPSILON, DIMENSION, ALPHA, logarithmic(1e-6, 3.0))
@example(0.01, 1, 3.80944, 0.01)  # r = 1 is the worst
@example(0.01, 40, 3.80944, 0.001)
@example(math.exp(-3), 1, math.exp(7), math.exp(-9.25))  # e^{-beta/2} is rounded away from 1
def test_no_allowed_pair_is_worse_than_the_three(epsilon, d, alpha, beta):
    """And the reverse direction, which is the pair (1/r, s/r)."""
    most = privacy_profile(alpha, beta, d, epsilon).upper
    for r, s in allowed(alpha, beta, 15):
        assert divergence(epsilon, d, r, s).lower <= most
        assert divergence(epsilon, d, *turned_around(r, s)).lower <= most


@settings(max_examples=60)
@given(DELTA, EPSILON, DIMENSION, SHARE)
@pytest.mark.long
def test_no_allowed_pair_is_worse_where_delta_matters(delta, epsilon, d, share):
    """The same at the alpha that is right for delta, on a fine grid of ratios."""
    beta = share * largest_beta(epsilon, delta, d)
    alpha = exact_alpha(epsilon, delta, d, beta)
    for r, s in allowed(alpha, beta, 21):
        assert divergence(epsilon, d, r, s).lower <= delta * (1 - 1e-6)


def test_leaving_out_equal_scales_would_be_caught():
    """The planted mistake: two ratios instead of three, by the check of the first test."""
    epsilon, d, alpha, beta = 0.01, 1, 3.80944, 0.01
    ends = [math.exp(-beta / 2), math.exp(beta / 2)]
    most = max(divergence(epsilon, d, r, min(1.0, r) / alpha).upper for r in ends)
    assert any(divergence(epsilon, d, r, s).lower > most for r, s in allowed(alpha, beta, 15))


@settings(max_examples=100)
@given(EPSILON, DIMENSION, ALPHA, logarithmic(1e-6, 3.0))
def test_equal_scales_are_not_the_worst_if_epsilon_is_at_least_half_of_s_squared(
    epsilon, d, alpha, beta
):
    alpha = max(alpha, 1 / math.sqrt(2 * epsilon))
    r = math.exp(-beta / 2)
    narrow, equal = divergence(epsilon, d, r, r / alpha), divergence(epsilon, d, 1.0, 1 / alpha)
    assert equal.lower <= narrow.upper * (1 + 1e-9)


@settings(max_examples=60)
@given(EPSILON, DIMENSION, ALPHA, logarithmic(1e-3, 3.0), st.booleans())
def test_on_either_side_of_1_divergence_falls_then_rises(epsilon, d, alpha, beta, narrow):
    """What the theorem rests on: between two ratios it is never above both."""
    ratios = np.exp(np.linspace(0, -beta if narrow else beta, 25) / 2)
    divergences = [divergence(epsilon, d, r, min(1.0, r) / alpha) for r in ratios]
    lower, upper = np.array([(bounds.lower, bounds.upper) for bounds in divergences]).T
    for i in range(1, len(ratios) - 1):
        assert lower[i] <= max(upper[:i].min(), upper[i + 1 :].min())


@settings(max_examples=60)
@given(EPSILON, st.integers(1, 60), st.floats(-1.0, 1.0), st.floats(0.05, 2.0))
def test_duality(epsilon, d, tau, s):
    """D_epsilon(r, s) = 1 - e^epsilon + e^epsilon D_{-epsilon}(1/r, s/r), in balls."""
    if abs(tau) < 1e-3:
        tau = math.copysign(1e-3, tau)
    ratio = exactly(tau / 2).exp()
    direct = by_chi_square(epsilon, d, tau, exactly(s))
    reverse = by_chi_square(-epsilon, d, -tau, exactly(s) / ratio)
    growth = exactly(epsilon).exp()
    assert direct.overlaps(1 - growth + growth * reverse)


@given(EPSILON, DIMENSION, ALPHA, logarithmic(1e-6, 3.0), st.floats(1.001, 3.0))
def test_delta_falls_with_alpha_and_epsilon_and_grows_with_beta(epsilon, d, alpha, beta, more):
    here = privacy_profile(alpha, beta, d, epsilon)
    assert 0 <= here.lower <= here.estimate <= here.upper <= 1
    assert privacy_profile(alpha * more, beta, d, epsilon).lower <= here.upper
    assert privacy_profile(alpha, beta, d, epsilon * more).lower <= here.upper
    assert privacy_profile(alpha, beta * more, d, epsilon).upper >= here.lower
    assert privacy_profile(alpha, beta, d + 1, epsilon).upper >= here.lower


@settings(max_examples=60)
@given(EPSILON, DELTA, DIMENSION, SHARE, st.floats(1.0, 2.0))
def test_alpha_grows_with_beta_and_dimension_and_falls_with_epsilon_and_delta(
    epsilon, delta, d, share, more
):
    beta = share * largest_beta(epsilon, delta, d)
    alpha = exact_alpha(epsilon, delta, d, beta)
    above = alpha * (1 + 1e-3)  # each answer may be that much above the true one
    assert exact_alpha(epsilon, delta, d, beta / more) <= above
    assert exact_alpha(epsilon, delta, max(1, int(d / more)), beta) <= above
    assert exact_alpha(min(20.0, epsilon * more), delta, d, beta) <= above
    assert exact_alpha(epsilon, min(0.5, delta * more), d, beta) <= above
    assert exact_alpha(epsilon, delta, d, 0.0) <= above


@given(EPSILON, DELTA, DIMENSION, SHARE)
def test_alpha_is_enough_and_hardly_more_than_enough(epsilon, delta, d, share):
    beta = share * largest_beta(epsilon, delta, d)
    alpha = exact_alpha(epsilon, delta, d, beta)
    assert privacy_profile(alpha, beta, d, epsilon).upper <= delta * (1 - 1e-6)
    assert privacy_profile(alpha / 1.001, beta, d, epsilon).lower > delta * (1 - 1e-6)
