"""Published constants, the range where they hold, and the re-check itself."""

import math

import numpy as np
import pytest

from oracles import literal
from oracles.refusals import refused
from privalue.core.calibration import exact, privacy_profile, published_pair

GRID = [
    (epsilon, delta, d)
    for epsilon in (0.001, 0.1, 1.0, 5.0)
    for delta in (1e-15, 1e-6, 0.1, 0.5)
    for d in (1, 2, 40, 10**5)
]


@pytest.mark.parametrize("lemma", ["nissim", "appendix"])
def test_the_constants_are_the_published_ones_rounded_towards_more_noise(lemma):
    for epsilon, delta, d in GRID:
        pair = published_pair(lemma, epsilon, delta, d)
        alpha, beta = getattr(literal, lemma)(epsilon, delta, d)
        assert alpha <= pair.alpha <= alpha * (1 + 1e-14)
        assert beta * (1 - 1e-14) <= pair.beta <= beta * (1 + 1e-15)


@pytest.mark.parametrize(
    ("d", "delta", "first_failure"),
    [
        (1, 0.1, 50.525),
        (1, 0.5, 50.555),
        (2, 0.1, 56.797),
        (3, 0.1, 64.233),
        (1, 1e-2, 60.403),
        (1, 1e-3, 72.6),
    ],
)
def test_nissim_is_refused_where_lemma_1_fails(d, delta, first_failure):
    """The first epsilon at which the lemma fails, by SciPy's noncentral chi-squared law."""
    published_pair("nissim", first_failure - 0.001, delta, d)
    with refused("calibration-does-not-hold"):
        published_pair("nissim", first_failure + 0.001, delta, d)


@pytest.mark.parametrize("d", [1, 2, 3, 10, 40, 300])
@pytest.mark.parametrize("delta", [0.5, 0.1, 1e-3, 1e-9])
def test_nissim_holds_up_to_epsilon_40(d, delta):
    assert published_pair("nissim", 40.0, delta, d).alpha > 0


def test_appendix_is_refused_above_5():
    published_pair("appendix", 5.0, 0.1, 1)
    with refused("calibration-does-not-hold"):
        published_pair("appendix", 5.001, 0.1, 1)


def hockey_stick_by_draws(epsilon, d, r, s, draws, generator):
    """E_P[(1 - e^{epsilon - L})_+], P = N(0, I), Q = N(s e_1, r^2 I)."""
    z = generator.standard_normal((draws, d))
    moved = z.copy()
    moved[:, 0] -= s
    loss = d * math.log(r) + (moved**2).sum(1) / (2 * r**2) - (z**2).sum(1) / 2
    return np.maximum(1 - np.exp(np.minimum(epsilon - loss, 0)), 0)


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("beta", [0.3, 1.0])
def test_the_profile_against_draws(d, beta):
    """At pairs with a delta that draws can see; and a tenth less noise is seen to be worse."""
    generator = np.random.default_rng(11)
    epsilon, alpha = 1.0, 1.2
    delta = privacy_profile(alpha, beta, d, epsilon).estimate
    estimates = []
    for r in (math.exp(-beta / 2), 1.0, math.exp(beta / 2)):
        draws = hockey_stick_by_draws(epsilon, d, r, min(1, r) / alpha, 400_000, generator)
        estimates.append((draws.mean(), draws.std() / math.sqrt(len(draws))))
    mean, error = max(estimates)
    assert abs(delta - mean) < 5 * error + 1e-9
    assert privacy_profile(0.9 * alpha, beta, d, epsilon).lower > delta + 5 * error


def test_exact_constants_are_private_with_room_for_rounding():
    for epsilon, delta, d, beta in [
        (0.1, 0.1, 40, 0.04),
        (1.0, 1e-6, 40, 0.01),
        (5.0, 1e-9, 3, 0.2),
    ]:
        pair = exact(epsilon, delta, d, beta)
        assert privacy_profile(pair.alpha, beta + 4e-9, d, epsilon).upper <= delta
        assert privacy_profile(0.99 * pair.alpha, beta, d, epsilon).lower > delta
