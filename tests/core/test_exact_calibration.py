"""Exact calibration: known numbers, an independent computation with proven digits, the bounds,
the arithmetic they assume, and what is refused.

The proofs are in docs/proofs/calibration.md. "Ball" below is Arb's: a number with a proven
error, from ``oracles.divergence``, which shares no formula with the package.
"""

import math
import os

import numpy as np
import pytest
from flint import acb, arb, ctx

from oracles.divergence import by_chi_square, by_integral, exactly, shift_at, worst
from oracles.refusals import refused
from privalue.core import calibration as profile
from privalue.core.calibration import divergence, exact_alpha, largest_beta, privacy_profile
from privalue.core.kernel import UNIT_ROUNDOFF

LONG = os.environ.get("PRIVALUE_LONG") == "1"  # make long


@pytest.fixture(autouse=True)
def nothing_remembered():
    """Nothing that another test computed."""
    exact_alpha.cache_clear()
    yield
    exact_alpha.cache_clear()


# Known numbers

PAPER = {  # (epsilon, delta, d): beta of [BGP16] Lemma 1, rounded to five digits
    (0.1, 0.1, 40): 5.8145e-4,
    (1.0, 1e-6, 40): 4.5864e-3,
    (1.0, 1e-6, 1000): 2.4642e-4,
    (0.1, 1e-5, 1): 1.8931e-3,
}


@pytest.mark.parametrize("target", [(1.0, 1e-6, 40), (0.1, 1e-5, 1)])
def test_alpha_is_infinite_at_16_times_the_papers_beta(target):
    with refused("beta-too-large"):
        exact_alpha(*target, 16 * PAPER[target])


@pytest.mark.parametrize("d", [1, 40])
@pytest.mark.parametrize("alpha", [0.05, 0.7, 3.0, 40.0, 1e6])
@pytest.mark.parametrize("epsilon", [0.0, 0.001, 1.0, 20.0])
def test_beta_zero_is_the_analytic_gaussian(epsilon, alpha, d):
    """[BW18] theorem 5; 1e-300 stands for whatever is smaller."""
    bounds, exact = privacy_profile(alpha, 0.0, d, epsilon), worst(epsilon, d, alpha, 0.0)
    assert interval(bounds).overlaps(exact)
    if exact > 1e-290:
        assert bounds.upper - bounds.lower <= 1e-8 * bounds.estimate
    else:
        assert bounds.upper <= 1e-280


# The three ratios


def test_equal_scales_can_be_the_worst():
    """Leaving out r = 1 would understate delta here, and give too small an alpha."""
    alpha, beta, epsilon, d = 3.80944, 0.01, 0.01, 1
    narrow = divergence(epsilon, d, math.exp(-beta / 2), math.exp(-beta / 2) / alpha)
    equal = divergence(epsilon, d, 1.0, 1 / alpha)
    wide = divergence(epsilon, d, math.exp(beta / 2), 1 / alpha)
    deltas = [round(bounds.estimate, 6) for bounds in (narrow, equal, wide)]
    assert deltas == [0.099834, 0.1, 0.099683]
    assert equal.lower > max(narrow.upper, wide.upper)
    assert privacy_profile(alpha, beta, d, epsilon) == equal
    without = privacy_profile(0.999 * alpha, beta, d, epsilon)
    assert (
        without.lower
        > 0.1
        > max(
            divergence(epsilon, d, r, min(1, r) / (0.999 * alpha)).upper
            for r in (math.exp(-beta / 2), math.exp(beta / 2))
        )
    )


# Against balls


def interval(bounds: profile.Profile) -> arb:
    low, high = exactly(bounds.lower), exactly(bounds.upper)
    return low.union(high)


def fraction(target, times):
    return times * largest_beta(*target)


CORNERS = [
    (epsilon, delta, d, times)
    for epsilon in (0.001, 20.0)
    for delta in (1e-15, 0.5)
    for d in (1, 2, 10**5)
    for times in (0.2, 1.0)
]
INSIDE = [
    (0.1, 0.1, 40, 0.05),
    (0.1, 1e-5, 1, 0.5),
    (1.0, 1e-6, 2, 0.9),
    (1.0, 1e-6, 3, 0.99),
    (1.0, 1e-9, 1000, 0.1),
    (5.0, 1e-3, 1, 0.7),
    (5.0, 1e-12, 7, 0.6),
    (0.01, 0.1, 1, 0.1),
    (0.01, 0.3, 5, 0.95),
    (0.3, 1e-10, 300, 0.8),
    (2.0, 0.01, 20_000, 0.5),
    (10.0, 1e-8, 12, 0.4),
    (0.005, 1e-7, 33, 0.3),
    (0.05, 0.5, 4, 0.9),
]


@pytest.mark.parametrize("setting", CORNERS + INSIDE)
def test_alpha_against_balls(setting):
    """delta holds at alpha, not at alpha/1.001; the bounds contain the ball, and are narrow."""
    epsilon, delta, d, times = setting
    beta = fraction((epsilon, delta, d), times)
    alpha = exact_alpha(epsilon, delta, d, beta)
    true, bounds = worst(epsilon, d, alpha, beta), privacy_profile(alpha, beta, d, epsilon)
    assert true.rad() < 1e-12 * true.mid()
    assert true <= exactly(delta) * (1 - exactly(1e-6))
    assert worst(epsilon, d, alpha / 1.001, beta) > exactly(delta) * (1 - exactly(1e-6))
    assert exactly(bounds.lower) <= true <= exactly(bounds.upper)
    assert bounds.upper - bounds.lower < 1e-8 * delta
    assert bounds.estimate == pytest.approx(float(true.mid()), rel=1e-8)


def sample(count: int, seed: int):
    """Single divergences all over the range, alpha from half to twice the right one."""
    generator = np.random.default_rng(seed)
    while count:
        epsilon, delta = np.exp(generator.uniform(np.log([0.001, 1e-15]), np.log([20, 0.5])))
        d = int(np.exp(generator.uniform(0, math.log(1e5)))) if count % 2 else count % 8 // 2 + 1
        beta = fraction((epsilon, delta, d), 10 ** generator.uniform(-2, 0))
        alpha = exact_alpha(epsilon, delta, d, beta) * 2 ** generator.uniform(-1, 1)
        if (alpha * beta) ** -2 < 1e8:  # terms of the oracle's series: about the root of it
            count -= 1
            yield epsilon, d, alpha, beta


@pytest.mark.parametrize("width", [1e-1, 1e-2, 1e-4, 1e-6, 1e-9])
def test_bounds_hold_however_rough(width):
    """Wide bounds are made of few nodes far apart: the stated errors are then most of them."""
    for epsilon, d, alpha, beta in sample(25 if LONG else 10, seed=round(-math.log10(width))):
        for tau in (-beta, beta):
            pull = math.exp(-max(tau, 0.0)) / alpha**2
            loss = profile._Loss(d / 2, tau, math.expm1(-tau), pull, epsilon)
            bounds = loss.divergence(width, 2**18)
            true = by_chi_square(epsilon, d, tau, shift_at(tau, alpha))
            assert interval(bounds).overlaps(true), (epsilon, d, alpha, tau)
            if bounds.estimate > 1e-40:
                assert bounds.upper - bounds.lower <= 4 * width * bounds.estimate


@pytest.mark.parametrize("most", [8, 20, 60])
def test_bounds_hold_with_too_few_nodes(most, monkeypatch):
    """Both bounds of the remainder: with a weight on the last node, and without."""
    weights, end = [], profile._Loss._last_node

    def recorded(*arguments):
        weights.append(end(*arguments)[1] != 1)
        return end(*arguments)

    monkeypatch.setattr(profile._Loss, "_last_node", recorded)
    for epsilon, d, alpha, beta in sample(30 if LONG else 12, seed=most):
        loss = profile._Loss(d / 2, -beta, math.expm1(beta), alpha**-2, epsilon)
        bounds = loss.divergence(1e-9, most)
        true = by_chi_square(epsilon, d, -beta, shift_at(-beta, alpha))
        assert interval(bounds).overlaps(true), (epsilon, d, alpha, beta)
    assert {*weights} == {True, False}


def test_a_planted_error_is_caught(monkeypatch):
    """The comparison with balls notices a kappa that is off by 1e-8 of itself."""
    exact = profile._Loss.log_f

    def off(self, z):
        nudged = profile._Loss(
            self.half, self.tau, self.w, self.shift_ratio * (1 + 1e-8), self.epsilon
        )
        return exact(nudged, z)

    monkeypatch.setattr(profile._Loss, "log_f", off)
    bounds = privacy_profile(4.41727, 4.5864e-3, 40, 1.0)
    assert not interval(bounds).overlaps(worst(1.0, 40, 4.41727, 4.5864e-3))


@pytest.mark.parametrize(
    ("epsilon", "d", "alpha", "beta"),
    [
        (1.0, 2, 4.4, 1e-7),
        (1.0, 3, 4.4, 1e-9),
        (1.0, 40, 4.4, 4.6e-3),
        (0.1, 40, 2.85, 5.8e-4),
        (1.0, 1000, 4.23488, 2.4642e-4),
        (0.001, 10, 7000.0, 3e-6),
        (1.0, 10**5, 5.0, 3e-6),
        (1.0, 10**5, 5.0, 1e-5),
        (20.0, 2, 0.5, 0.4),
    ],
)
def test_divergence_is_the_integral_along_the_shift(epsilon, d, alpha, beta):
    """Nearly equal scales too, where the series of the balls is too long."""
    for r in (math.exp(-beta / 2), math.exp(beta / 2)):
        s = min(1.0, r) / alpha
        literal = by_integral(epsilon, d, 2 * math.log(r), s)
        assert divergence(epsilon, d, r, s).estimate == pytest.approx(literal, rel=1e-8, abs=1e-25)


# The arithmetic that the bounds assume


def points():
    """1 - w z, z and 1 + z as they occur: both halves, near 1, tiny and huge; and exponents."""
    generator = np.random.default_rng(5)
    radius = 10.0 ** generator.uniform(-40, 25, 600)
    angle = generator.uniform(-math.pi / 2, math.pi / 2, 600)
    wide = radius * np.exp(1j * angle)
    near = 1 + 10.0 ** generator.uniform(-18, 0, 600) * np.exp(1j * generator.uniform(-3, 3, 600))
    circle = np.exp(1j * angle) * (1 + 1e-9 * generator.uniform(-1, 1, 600))
    return np.concatenate([wide, near, circle])


def exact_complex(z):
    return acb(exactly(z.real), exactly(z.imag))


def errors(computed, points_, true, floor):
    with ctx.workprec(200):
        for result, point in zip(computed, points_, strict=True):
            value = true(exact_complex(point))
            size = max(float(abs(value).mid()), floor)
            yield float(abs(exact_complex(result) - value).mid()) / size


def test_complex_functions_are_as_accurate_as_assumed():
    z = points()
    assert max(errors(np.log(z), z, acb.log, 1.0)) < 8 * UNIT_ROUNDOFF
    generator = np.random.default_rng(6)
    exponents = generator.uniform(-600, 1, 1500) + 1j * np.concatenate(
        [generator.uniform(-10, 10, 500), 10.0 ** generator.uniform(-9, 9, 1000)]
    )
    assert max(errors(np.exp(exponents), exponents, acb.exp, 0.0)) < 8 * UNIT_ROUNDOFF
    other = generator.permutation(z)
    product, quotient = z * other, z / other
    with ctx.workprec(200):
        for a, b, times, over in zip(z, other, product, quotient, strict=True):
            for result, value in (
                (times, exact_complex(a) * exact_complex(b)),
                (over, exact_complex(a) / exact_complex(b)),
            ):
                assert abs(exact_complex(result) - value) <= 8 * UNIT_ROUNDOFF * abs(value)


def test_real_functions_are_as_accurate_as_assumed():
    generator = np.random.default_rng(7)
    signs = generator.choice([-1.0, 1.0], 900)
    taus = signs * 10.0 ** generator.uniform(-300, 2, 900)
    with ctx.workprec(200):
        for tau in taus:
            x = exactly(tau)
            assert abs(exactly(math.expm1(tau)) - x.expm1()) <= 8 * UNIT_ROUNDOFF * abs(x.expm1())
            assert abs(exactly(math.exp(tau)) - x.exp()) <= 8 * UNIT_ROUNDOFF * x.exp()
            assert abs(exactly(np.exp(tau)) - x.exp()) <= 8 * UNIT_ROUNDOFF * x.exp()
            y = exactly(math.exp(tau))
            assert abs(exactly(math.log(math.exp(tau))) - y.log()) <= 8 * UNIT_ROUNDOFF * abs(
                y.log()
            )


def test_the_rounding_bound_covers_what_rounding_does():
    """ln f in doubles against balls; the bound is at most some thousand times too large."""
    most = 0.0
    for epsilon, d, alpha, beta in sample(30, seed=3):
        for tau in (-beta, beta):
            loss = profile._Loss(
                d / 2, tau, math.expm1(-tau), math.exp(-max(tau, 0.0)) / alpha**2, epsilon
            )
            c, _ = loss.abscissae()
            nodes = c + 1j * c * np.array([0.0, 0.01, 0.3, 1.0, 7.0, 90.0])
            values, bounds = loss.log_f(nodes)
            with ctx.workprec(300):
                t, e = exactly(tau), exactly(epsilon)
                kappa = (-t.max(arb(0))).exp() / exactly(alpha) ** 2
                for node, value, bound in zip(nodes, values, bounds, strict=True):
                    z = exact_complex(node)
                    q = 1 - (-t).expm1() * z
                    true = d * (z * t - q.log()) / 2 + kappa * z * (1 + z) / q / 2
                    true -= e * z + z.log() + (1 + z).log()
                    error = float(abs(exact_complex(value) - true).mid())
                    assert error <= bound
                    most = max(most, error / bound)
    assert most > 1e-3


# Extremes


def test_the_largest_beta_takes_nearly_all_of_delta():
    for target in [(0.001, 1e-15, 1), (0.1, 0.1, 40), (20.0, 0.5, 2), (20.0, 1e-15, 10**5)]:
        beta = largest_beta(*target)
        epsilon, delta, d = target
        with ctx.workprec(300):
            alone = by_chi_square(epsilon, d, -beta, 0.0).max(by_chi_square(epsilon, d, beta, 0.0))
        assert 0.98 * delta < alone < delta


ABSURD = [
    (1e-100, 100.0, 10**9, 0.0),
    (1e100, 100.0, 10**9, 1e6),
    (1e-100, 0.0, 1, 1e6),
    (1e100, 0.0, 1, 0.0),
    (1e-3, 5e-324, 2, 1.0),
    (1.0, 1e-200, 10**9, 1e-300),
    (3.0, 60.0, 3, 2.0),
    (1e-7, 1.0, 5, 3.0),
    (1e50, 1e-50, 17, 1e-12),
]


@pytest.mark.parametrize("constants", ABSURD)
def test_absurd_constants_have_bounds_too(constants):
    bounds = privacy_profile(*constants)
    assert 0 <= bounds.lower <= bounds.estimate <= bounds.upper <= 1


@pytest.mark.parametrize("tau", [-6.0, -2.0, 2.0, 6.0, 20.0])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_ratios_far_from_1_against_balls(tau, d):
    r = math.exp(tau / 2)
    for epsilon, s in ((0.1, 0.3), (1.0, 2.0), (5.0, 0.01)):
        bounds, true = divergence(epsilon, d, r, s), by_chi_square(epsilon, d, 2 * math.log(r), s)
        assert interval(bounds).overlaps(true)
        assert bounds.upper - bounds.lower < 1e-3
