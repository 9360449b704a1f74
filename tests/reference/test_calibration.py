"""Published constants, the range where they hold, and the re-check itself."""

import math

import numpy as np
import pytest
from scipy import stats

from oracles import literal
from privalue.calibration import appendix, nissim, worst_case_delta
from privalue.errors import StudyError

GRID = [
    (epsilon, delta, d)
    for epsilon in (0.001, 0.1, 1.0, 5.0)
    for delta in (1e-15, 1e-6, 0.1, 0.5)
    for d in (1, 2, 40, 10**5)
]


@pytest.mark.parametrize("lemma", ["nissim", "appendix"])
def test_the_constants_are_the_published_ones_rounded_towards_more_noise(lemma):
    for epsilon, delta, d in GRID:
        found = {"nissim": nissim, "appendix": appendix}[lemma](epsilon, delta, d)
        alpha, beta = getattr(literal, lemma)(epsilon, delta, d)
        assert alpha <= found.alpha <= alpha * (1 + 1e-14)
        assert beta * (1 - 1e-14) <= found.beta <= beta * (1 + 1e-15)


def test_the_papers_own_setting():
    found = nissim(0.1, 0.1, 40)
    assert (found.alpha, found.beta) == pytest.approx((122.387, 5.8145e-4), rel=1e-4)


@pytest.mark.parametrize(
    ("d", "delta", "first_failure"),
    [
        (1, 0.1, 50.9),
        (1, 0.5, 50.9),
        (2, 0.1, 56.9),
        (3, 0.1, 64.4),
        (1, 1e-2, 60.4),
        (1, 1e-3, 72.9),
    ],
)
def test_nissim_is_refused_where_lemma_1_fails(d, delta, first_failure):
    """The first epsilon at which the lemma fails, from an independent computation."""
    nissim(first_failure - 0.6, delta, d)
    with pytest.raises(StudyError, match="does not hold"):
        nissim(first_failure + 0.6, delta, d)


@pytest.mark.parametrize("d", [1, 2, 3, 10, 40, 300])
@pytest.mark.parametrize("delta", [0.5, 0.1, 1e-3, 1e-9])
def test_nissim_holds_up_to_epsilon_40(d, delta):
    assert nissim(40.0, delta, d).alpha > 0


@pytest.mark.parametrize("epsilon", [501.0, 1e6, 1e300])
def test_absurd_epsilons_are_refused_not_overflowed(epsilon):
    with pytest.raises(StudyError, match="does not hold"):
        nissim(epsilon, 0.1, 1)


def test_appendix_is_refused_above_5():
    appendix(5.0, 0.1, 1)
    with pytest.raises(StudyError, match="epsilon <= 5"):
        appendix(5.001, 0.1, 1)


def hockey_stick_by_draws(epsilon, d, r, s, draws, generator):
    """E_P[(1 - e^{epsilon - L})_+], P = N(0, I), Q = N(s e_1, r^2 I)."""
    z = generator.standard_normal((draws, d))
    moved = z.copy()
    moved[:, 0] -= s
    loss = d * math.log(r) + (moved**2).sum(1) / (2 * r**2) - (z**2).sum(1) / 2
    return np.maximum(1 - np.exp(np.minimum(epsilon - loss, 0)), 0)


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("beta", [0.3, 1.0])
def test_the_recheck_against_draws(d, beta):
    """At pairs with a delta that draws can see; and a tenth less noise is seen to be worse."""
    generator = np.random.default_rng(11)
    epsilon, alpha = 1.0, 1.2
    found = worst_case_delta(alpha, beta, epsilon=epsilon, dimension=d)
    estimates = []
    for r in (math.exp(-beta / 2), 1.0, math.exp(beta / 2)):
        draws = hockey_stick_by_draws(epsilon, d, r, min(1, r) / alpha, 400_000, generator)
        estimates.append((draws.mean(), draws.std() / math.sqrt(len(draws))))
    mean, error = max(estimates)
    assert abs(found - mean) < 5 * error + 1e-9
    assert worst_case_delta(0.9 * alpha, beta, epsilon=epsilon, dimension=d) > found + 5 * error


def test_the_recheck_at_equal_scales_is_the_analytic_gaussian():
    """Balle and Wang 2018, theorem 5."""
    epsilon, alpha = 0.7, 1.9
    s = 1 / alpha
    expected = stats.norm.cdf(s / 2 - epsilon / s) - math.exp(epsilon) * stats.norm.cdf(
        -s / 2 - epsilon / s
    )
    assert worst_case_delta(alpha, 1e-12, epsilon=epsilon, dimension=1) == pytest.approx(
        expected, rel=1e-6
    )


def test_the_quick_bound_is_above_the_divergence_itself():
    for d in (1, 3, 12):
        for epsilon, alpha, beta in [(1.0, 1.5, 0.2), (5.0, 0.6, 0.9), (0.2, 4.0, 0.05)]:
            quick = worst_case_delta(alpha, beta, epsilon=epsilon, dimension=d, enough=1.0)
            exact = worst_case_delta(alpha, beta, epsilon=epsilon, dimension=d)
            assert exact <= quick <= 1 + 1e-6
