import dataclasses
import itertools
import math
import sys
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from oracles.intervals import coverage, discrete_coverage, known_scale, pivot_quantile, quantile
from privalue.core import _noise_scale as intervals
from privalue.core._noise import SeededForExperimentsOnly, discrete_laplace
from privalue.core._noise_scale import (
    ReleasedScale,
    laplace_scale,
    release_scale,
    scale_grid,
    scale_share,
)
from privalue.errors import PrivalueError, StudyError, UsageError
from privalue.estimate._intervals import (
    distinct_directions,
    privacy_intervals,
    simultaneous_quantile,
)

BETAS = [0.0, 1e-12, 2.5e-9, 1e-6, 5.8145e-4, 0.019, 0.045, 0.25, 1.0, 7.3, 100.0]
PSI_ERROR = 2e-9  # relative, of psi: docs/proofs/calibration.md

# epsilon in two parts


@given(st.floats(1e-300, 1e300), st.floats(0.0, 1.0, exclude_max=True))
def test_the_parts_never_exceed_the_whole(epsilon, share):
    try:
        scale, values = scale_share(epsilon, share)
    except StudyError:
        assert share > 0  # one part would be nothing
        assert share * epsilon < 5e-323 or share > 1 - 1e-15
        return
    assert Fraction(scale) + Fraction(values) <= Fraction(epsilon)
    assert Fraction(scale) <= Fraction(share) * Fraction(epsilon)
    assert values > 0
    assert scale > 0 or share == 0
    up = math.nextafter(values, math.inf)
    assert Fraction(scale) + Fraction(up) > Fraction(epsilon)  # as much as can be


def test_doubles_would_exceed_the_whole():
    """The planted mistake: parts that are only as doubles no more than the whole."""
    exceeded = 0
    for epsilon, share in itertools.product((0.1, 0.3, 1.1, 5.7), (0.1, 0.05, 0.3, 0.7)):
        plain = share * epsilon
        exceeded += Fraction(plain) + Fraction(epsilon - plain) > Fraction(epsilon)
        assert Fraction(sum(map(Fraction, scale_share(epsilon, share)))) <= Fraction(epsilon)
    assert exceeded


def test_no_share_leaves_everything_to_the_values():
    assert scale_share(0.7, 0.0) == (0.0, 0.7)
    assert scale_share(0.7, 0) == (0.0, 0.7)


@pytest.mark.parametrize("share", [-0.1, 1.0, 1, 2.0, math.nan, math.inf, "0.1", None, True])
def test_shares_that_are_refused(share):
    with pytest.raises(StudyError, match="noise_scale_share"):
        scale_share(1.0, share)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf, "1", None, True])
def test_epsilons_that_are_refused(epsilon):
    with pytest.raises(StudyError, match="epsilon"):
        scale_share(epsilon, 0.1)


@pytest.mark.parametrize(("epsilon", "share"), [(1.0, 1e-320), (5e-324, 0.1), (1e-300, 1e-200)])
def test_a_part_that_would_be_nothing_is_refused(epsilon, share):
    if epsilon * share == 0:
        with pytest.raises(StudyError, match="leaves nothing"):
            scale_share(epsilon, share)
    else:
        assert scale_share(epsilon, share)[0] > 0


# The grid of the scale


@pytest.mark.parametrize("beta", BETAS)
def test_the_grid_of_the_scale(beta):
    grid, steps = scale_grid(beta)
    assert math.frexp(grid)[0] == 0.5
    assert 2.0**-37 <= grid <= (beta + 5e-9) / 512 < 2 * grid
    assert steps - 1 <= (Fraction(beta) + Fraction(5e-9)) / Fraction(grid) < steps
    assert 512 < steps <= 1025
    ulp = math.ulp(2 * math.log(sys.float_info.max))
    assert grid > 16 * ulp  # far above the resolution of the doubles that are rounded


def neighbours_beside_boundaries(beta):
    """Scales of neighbours: ln sigma^2 just beside a rounding boundary, and beta + error away."""
    grid, _ = scale_grid(beta)
    for centre in (-300.0, -1.0, 0.0, 0.37, 12.0, 690.0):
        boundary = (round(centre / grid) + 0.5) * grid
        for nudge in (-1e-11, 1e-11):
            for sign in (-1, 1):
                near = math.exp(boundary / 2 + nudge)
                far = math.exp(boundary / 2 + nudge + sign * (beta + PSI_ERROR) / 2)
                yield near, far


def worst_log_ratio(beta, epsilon, steps):
    """max over neighbours and outputs y of ln P(k + J = y) / P(k' + J = y), exactly.

    J is discrete Laplace of scale steps/epsilon: ln P(J = j) is -|j| epsilon/steps and a constant.
    """
    grid, _ = scale_grid(beta)
    worst = Fraction(0)
    for pair in neighbours_beside_boundaries(beta):
        k, other = (intervals._steps_of(sigma, grid) for sigma in pair)
        for y in {k - 3, k, k + 1, (k + other) // 2, other, other + 5}:
            loss = (abs(y - other) - abs(y - k)) * Fraction(epsilon) / steps
            worst = max(worst, abs(loss))
    return worst


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 3.0])
def test_the_scale_is_private_at_the_worst_positions(beta, epsilon):
    _, steps = scale_grid(beta)
    assert worst_log_ratio(beta, epsilon, steps) <= Fraction(epsilon)


@pytest.mark.parametrize("beta", [beta for beta in BETAS if beta > 1e-4])
def test_one_step_fewer_is_not_private(beta):
    """The planted mistake: off by one. The bound is attained, so that the check sees it."""
    _, steps = scale_grid(beta)
    assert worst_log_ratio(beta, 0.1, steps) == Fraction(0.1)
    assert worst_log_ratio(beta, 0.1, steps - 1) > Fraction(0.1)
    assert worst_log_ratio(beta, 0.1, steps // 2) > Fraction(0.1) * Fraction(3, 2)


@pytest.mark.parametrize("seed", range(40))
def test_what_is_released_is_the_sum_of_the_proof(seed):
    """e^{h (k + J)/2} with J of scale steps / epsilon' from the same words."""
    released = release_scale(2.0, 0.019, 0.1, SeededForExperimentsOnly(seed))
    grid, steps = scale_grid(0.019)
    noise = discrete_laplace(Fraction(steps) / Fraction(0.1), SeededForExperimentsOnly(seed))
    k = int(mp.nint(2 * mp.log(2) / mp.mpf(grid)))
    assert released.sigma == pytest.approx(float(mp.exp(mp.mpf(grid) * (k + noise) / 2)), rel=1e-14)
    assert released.grid == grid
    assert released.laplace == laplace_scale(0.019, 0.1)
    assert Fraction(released.laplace) >= Fraction(steps) * Fraction(grid) / Fraction(0.1)
    assert released.laplace == pytest.approx(steps * grid / 0.1, rel=1e-15)


@given(
    st.floats(-600.0, 600.0),
    st.sampled_from(BETAS),
    st.floats(0.0, 1.0),
)
def test_rounded_scales_of_neighbours_are_within_the_steps(log_sigma, beta, share):
    grid, steps = scale_grid(beta)
    sigma, other = math.exp(log_sigma), math.exp(log_sigma + share * beta / 2)
    apart = abs(2 * (mp.log(mp.mpf(other)) - mp.log(mp.mpf(sigma))))
    if apart <= beta + PSI_ERROR:
        k, k_other = intervals._steps_of(sigma, grid), intervals._steps_of(other, grid)
        assert abs(k - k_other) <= steps


@given(st.floats(1e-300, 1e300), st.sampled_from(BETAS))
def test_the_logarithm_is_rounded_to_the_nearest_step(sigma, beta):
    grid, _ = scale_grid(beta)
    exact = 2 * mp.log(mp.mpf(sigma)) / mp.mpf(grid)
    assert abs(intervals._steps_of(sigma, grid) - exact) <= 0.5 + 1e-12 / grid


# The release of the scale


def test_what_is_released_is_on_the_grid_frozen_and_repeatable():
    first, again = (release_scale(3.3, 0.045, 0.5, SeededForExperimentsOnly(7)) for _ in range(2))
    assert first == again
    multiple = 2 * math.log(first.sigma) / first.grid
    assert multiple == pytest.approx(round(multiple), abs=1e-6)
    with pytest.raises(dataclasses.FrozenInstanceError):
        first.sigma = 1.0
    with pytest.raises(TypeError):
        ReleasedScale(1.0, 0.0, 0.0)
    other = release_scale(3.3, 0.045, 0.5)
    assert (other.laplace, other.grid) == (first.laplace, first.grid)


@pytest.mark.parametrize("sigma", [5e-324, 1e-150, 1.0, 1, 1e150, sys.float_info.max])
@pytest.mark.parametrize("epsilon", [1e-9, 0.1, 1e6])
@pytest.mark.parametrize("beta", [0, 0.045, 100.0])
def test_extremes_of_the_release(sigma, beta, epsilon):
    for seed in range(5):
        released = release_scale(sigma, beta, epsilon, SeededForExperimentsOnly(seed))
        assert 0 < released.sigma < math.inf
        assert 0 < released.laplace < math.inf


@pytest.mark.parametrize("sigma", [0.0, -731.25, math.nan, math.inf, "731", None, 10**400])
def test_no_release_of(sigma):
    with pytest.raises(UsageError, match="sigma must be") as caught:
        release_scale(sigma, 0.1, 0.1)
    assert "731" not in str(caught.value)
    with pytest.raises(UsageError, match="sigma must be"):
        known_scale(sigma)


@pytest.mark.parametrize("beta", [-1e-9, 101.0, math.nan, math.inf, "0.1", None, True])
def test_no_release_with_beta(beta):
    with pytest.raises(UsageError, match="beta is"):
        release_scale(731.25, beta, 0.1)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, 1e-10, 1e7, math.nan, math.inf, "1", None])
def test_no_release_at_epsilon(epsilon):
    with pytest.raises(StudyError, match="noise_scale_share leaves") as caught:
        release_scale(731.25, 0.1, epsilon)
    assert isinstance(caught.value, PrivalueError)
    assert "731" not in str(caught.value)


# Quantiles

LEVELS = [0.5, 0.9, 0.95, 0.99, 0.999999]
SCALES = [0.0, 1e-6, 0.05, 0.1, 0.2, 0.5, 1.0, 3.0, 10.0]


@pytest.mark.parametrize(
    ("laplace", "expected"),
    [(0.05, 1.9634), (0.1, 1.9737), (0.2, 2.0136), (0.5, 2.268), (1.0, 3.161)],
)
def test_the_published_table(laplace, expected):
    digits = 4 if laplace < 0.5 else 3
    assert pivot_quantile(0.95, laplace) == pytest.approx(expected, abs=1.1 * 10**-digits)


@pytest.mark.parametrize("level", LEVELS)
def test_a_public_scale_has_the_normal_quantile(level):
    exact = float(mp.sqrt(2) * mp.erfinv(level))
    assert exact <= pivot_quantile(level, 0.0) <= exact * (1 + 1e-8)


def not_covered(t, level, laplace, directions=1, dimension=1):
    """The check of a quantile: by how much its exact coverage is below the level."""
    return float(level - coverage(t, laplace, directions, dimension))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("laplace", SCALES)
def test_the_quantile_covers_and_is_the_smallest_that_does(level, laplace):
    t = pivot_quantile(level, laplace)
    assert math.isfinite(t)
    assert not_covered(t, level, laplace) <= 0
    assert not_covered(t * (1 - 1e-4 * (1 + laplace)), level, laplace) > 0


def test_the_twin_finds_the_same_quantile():
    assert pivot_quantile(0.95, 0.2) == pytest.approx(quantile(0.95, 0.2), rel=2e-5)


def test_the_check_sees_planted_mistakes():
    """A public scale's quantile; e^Y for e^{Y/2}; half the Laplace scale."""
    assert not_covered(1.96, 0.95, 0.5) > 0.02
    assert not_covered(pivot_quantile(0.95, 2 * 0.5), 0.95, 0.5) < -0.01  # e^Y has twice the b
    assert not_covered(pivot_quantile(0.95, 0.5), 0.95, 1.0) > 0.01
    assert not_covered(pivot_quantile(0.95, 0.25), 0.95, 0.5) > 0.01


@pytest.mark.parametrize(
    ("directions", "dimension"), [(1, 1), (2, 2), (40, 40), (40, 3), (10**6, 5), (7, 1), (3, 1000)]
)
@pytest.mark.parametrize("laplace", [0.0, 0.1, 1.0])
def test_the_simultaneous_quantile_covers_and_is_the_smallest(directions, dimension, laplace):
    together = {"directions": directions, "dimension": dimension}
    t = simultaneous_quantile(0.95, laplace, **together)
    assert not_covered(t, 0.95, laplace, **together) <= 1e-15
    assert not_covered(t * (1 - 1e-4), 0.95, laplace, **together) > 0
    assert t >= pivot_quantile(0.95, laplace) * (1 - 1e-4)


def test_planted_mistakes_in_the_simultaneous_quantile():
    together = {"directions": 40, "dimension": 40}
    assert not_covered(pivot_quantile(0.95, 0.5), 0.95, 0.5, **together) > 0.3
    averaged = simultaneous_quantile(0.95, 0.0, **together)  # as if the forty Y cancelled out
    assert not_covered(averaged, 0.95, 0.5, **together) > 0.05


def test_special_cases_of_the_simultaneous_quantile():
    assert simultaneous_quantile(0.95, 0.0, directions=9, dimension=1) == pytest.approx(
        pivot_quantile(0.95, 0.0), rel=1e-9
    )  # all values are multiples of one number
    two = simultaneous_quantile(0.95, 0.0, directions=10**9, dimension=2)
    assert two == pytest.approx(math.sqrt(-2 * math.log(0.05)), rel=1e-9)  # chi_2 in closed form
    sidak = simultaneous_quantile(0.95, 0.0, directions=3, dimension=3)
    assert sidak == pytest.approx(-special.ndtri((1 - 0.95 ** (1 / 3)) / 2), rel=1e-9)
    either = simultaneous_quantile(0.95, 0.3, directions=20, dimension=3)
    assert either <= simultaneous_quantile(0.95, 0.3, directions=20, dimension=20)  # Sidak alone
    assert either <= simultaneous_quantile(0.95, 0.3, directions=10**12, dimension=3)  # chi alone


@pytest.mark.parametrize("laplace", [0.0, 0.05, 1.0, 10.0])
def test_quantiles_grow_with_the_level_and_the_number(laplace):
    by_level = [pivot_quantile(level, laplace) for level in (0.1, 0.5, 0.9, 0.99, 1 - 1e-9)]
    by_number = [
        simultaneous_quantile(0.9, laplace, directions=n, dimension=n) for n in (1, 2, 10, 1000)
    ]
    for quantiles in (by_level, by_number):
        assert quantiles == sorted(quantiles)
        assert quantiles[0] > 0
        assert quantiles[-1] < math.inf


def test_the_smallest_scales_are_like_none():
    for laplace in (5e-324, 1e-300, 1e-15, 1e-9):
        assert pivot_quantile(0.95, laplace) == pytest.approx(1.959964, rel=1e-5)


@pytest.mark.parametrize(
    "change", [{"sigma": 0.0}, {"sigma": math.nan}, {"laplace": -1.0}, {"grid": math.inf}]
)
def test_a_scale_that_was_tampered_with_is_refused(change):
    with pytest.raises(UsageError, match="a released scale has"):
        ReleasedScale(**({"sigma": 1.0, "laplace": 0.0, "grid": 0.0} | change))


def test_where_nothing_can_be_said_the_quantile_is_infinite():
    assert pivot_quantile(0.95, 1000.0) == math.inf
    low, high = privacy_intervals(
        np.zeros(2), np.array([1.0, 0.0]), ReleasedScale(sigma=1.0, laplace=1000.0, grid=0.5), 0.95
    )
    assert (low[0], high[0]) == (-math.inf, math.inf)
    assert abs(low[1]) < 1e-300  # a value without noise is known whatever the scale
    assert 0 < pivot_quantile(0.01, 1000.0) < 1e-6  # lucky guesses about the scale suffice


@pytest.mark.parametrize("level", [0.0, 1.0, -0.5, 1.5, math.nan, 1 - 1e-13, "0.9", None, True])
def test_levels_that_are_refused(level):
    with pytest.raises(StudyError, match="level ="):
        pivot_quantile(level, 0.1)


@pytest.mark.parametrize(
    "change",
    [
        *({"laplace": b} for b in (-1.0, math.nan, math.inf, "1", None)),
        *({"directions": n} for n in (0, -1, 1.5, True, None, 10**13)),
        *({"dimension": n} for n in (0, -1, 2.0, True, None)),
    ],
)
def test_arguments_of_quantiles_that_are_refused(change):
    arguments = {"laplace": 0.1, "directions": 2, "dimension": 2} | change
    (name,) = change
    with pytest.raises(UsageError, match=f"{name} is"):
        simultaneous_quantile(0.9, arguments.pop("laplace"), **arguments)


# The mechanism itself, step by step: nothing is simulated

MECHANISMS = [  # beta, epsilon'; the last are coarse: b is about one step of the grid
    *itertools.product([5.8145e-4, 0.045, 1.0], [0.05, 0.5]),
    (100.0, 1000.0),
    (100.0, 300.0),
    (1.0, 1e4),
]


def least_coverage(beta, epsilon, level, *, allowance, fewer=1):
    """The mechanism's exact coverage where ln sigma^2 lies worst between two steps.

    ``allowance`` is the factor on t; with ``fewer`` = 2 the noise has half the steps it should.
    """
    grid, steps = scale_grid(beta)
    scale = Fraction(steps) / Fraction(epsilon)
    t = pivot_quantile(level, laplace_scale(beta, epsilon))
    positions = (-0.5, -0.25, 0.0, 0.25, 0.5)
    return min(
        discrete_coverage(t * allowance(grid), grid, scale / fewer, position)
        for position in positions
    )


@pytest.mark.parametrize(("beta", "epsilon"), MECHANISMS)
@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.99, 0.9999])
def test_the_mechanism_covers_wherever_the_scale_lies(beta, epsilon, level):
    assert least_coverage(beta, epsilon, level, allowance=math.exp) >= level


@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
def test_the_grid_needs_its_allowance(level):
    """The planted mistake: t alone, as if ln sigma^2 had not been rounded."""
    assert least_coverage(1.0, 1e4, level, allowance=lambda _: 1.0) < level
    assert least_coverage(100.0, 1000.0, level, allowance=lambda _: 1.0) < level


def test_the_intervals_use_the_allowance():
    scale = ReleasedScale(sigma=2.0, laplace=0.3, grid=0.125)
    low, high = privacy_intervals(np.zeros(1), np.ones(1), scale, 0.9)
    half = pivot_quantile(0.9, 0.3) * math.exp(0.125) * 2.0
    assert high[0] == pytest.approx(half, rel=1e-11)
    assert low[0] == -high[0]


# Intervals


def test_intervals_of_values_and_of_their_combinations():
    """Widths are t sigma~ f_s; a policy's one number has the factor of its own combination."""
    phi = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 2.0]])
    start = np.array([0.5, 0.25, 0.25])
    theta = np.array([3.0, -1.0])
    scale = known_scale(0.5)
    factors = np.linalg.norm(phi, axis=1)
    low, high = privacy_intervals(phi @ theta, factors, scale, 0.95)
    assert (high - low) / 2 == pytest.approx(1.959964 * 0.5 * factors, rel=1e-6)
    assert (high + low) / 2 == pytest.approx(phi @ theta)
    value, factor = start @ phi @ theta, np.linalg.norm(phi.T @ start)
    one_low, one_high = privacy_intervals(value, factor, scale, 0.95)
    assert one_low.shape == one_high.shape == ()
    assert float(one_high - one_low) / 2 == pytest.approx(1.959964 * 0.5 * factor, rel=1e-6)
    assert not low.flags.writeable
    assert not high.flags.writeable


def test_slack_is_added_and_ends_move_outwards():
    values, factors = np.array([1.0, -1e6, 0.0]), np.array([0.0, 1.0, 1.0])
    scale = known_scale(2.0)
    slack = np.array([0.25, 0.0, 0.5])
    low, high = privacy_intervals(values, factors, scale, 0.9, slack=slack)
    exact = mp.sqrt(2) * mp.erfinv(mp.mpf("0.9")) * 2
    for i in range(3):
        half = exact * mp.mpf(factors[i]) + mp.mpf(slack[i])
        assert mp.mpf(low[i]) < mp.mpf(values[i]) - half
        assert mp.mpf(high[i]) > mp.mpf(values[i]) + half
        assert high[i] - low[i] == pytest.approx(float(2 * half), rel=1e-8)
    assert privacy_intervals(values, factors, scale, 0.9, slack=0.5)[1][0] == pytest.approx(1.5)


@given(st.floats(-1e9, 1e9), st.floats(0.0, 1e3))
def test_ends_are_outside_as_real_numbers(value, slack):
    low, high = privacy_intervals(
        np.array([value]), np.zeros(1), known_scale(1.0), 0.9, slack=slack
    )
    assert Fraction(float(low[0])) <= Fraction(value) - Fraction(slack)
    assert Fraction(float(high[0])) >= Fraction(value) + Fraction(slack)


def test_a_band_is_wider_than_intervals():
    scale = known_scale(1.0)
    alone = privacy_intervals(np.zeros(3), np.ones(3), scale, 0.9)[1]
    band = privacy_intervals(np.zeros(3), np.ones(3), scale, 0.9, directions=3, dimension=3)[1]
    assert (band > alone).all()
    assert band[0] == pytest.approx(-special.ndtri((1 - 0.9 ** (1 / 3)) / 2), rel=1e-8)


def test_no_states_no_intervals():
    low, high = privacy_intervals(np.zeros(0), np.zeros(0), known_scale(1.0), 0.9)
    assert low.shape == high.shape == (0,)


def test_huge_values_do_not_overflow_into_nonsense():
    low, high = privacy_intervals(
        np.array([1e308, -1e308]), np.array([1e308, 1e308]), known_scale(1e150), 0.9
    )
    assert (low == -math.inf).all()
    assert (high == math.inf).all()


@pytest.mark.parametrize(
    "change",
    [
        {"values": np.array([0.0, math.nan])},
        {"values": np.array([0.0, math.inf])},
        {"factors": np.array([1.0, -1.0])},
        {"factors": np.array([1.0, math.nan])},
        {"factors": np.array([1.0])},
        {"factors": np.ones((2, 2))},
        {"factors": 1.0},
        {"slack": -0.1},
        {"slack": np.array([0.1, math.nan])},
        {"slack": np.array([0.1, 0.1, 0.1])},
        {"scale": 1.0},
        {"scale": None},
    ],
)
def test_intervals_that_are_refused(change):
    arguments = {
        "values": np.zeros(2),
        "factors": np.ones(2),
        "scale": known_scale(1.0),
        "level": 0.9,
    } | change
    with pytest.raises(UsageError):
        privacy_intervals(**arguments)


# Directions


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (np.eye(4), 4),
        (np.array([[1.0, 0.0], [3.0, 0.0], [-2.0, 0.0], [0.0, 1.0]]), 2),  # one number each
        (np.array([[1.0, 2.0], [1.0, 2.0], [-1.0, -2.0]]), 1),  # equal up to the sign
        (np.array([[1.0, 2.0], [2.0, 4.0]]), 2),  # a factor is not looked for: safe, not sharp
        (np.array([[1.0, 2.0], [1.0, math.nextafter(2.0, 3.0)]]), 2),
        (np.array([[1.0, 2.0], [1.0, -2.0]]), 2),
        (np.zeros((3, 2)), 1),
        (np.zeros((0, 2)), 1),
        (np.array([[0.0, 0.0], [1.0, 2.0], [1.0, 3.0]]), 2),
        (np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0], [1.0, 0.0, 1.0]]), 3),
    ],
)
def test_directions_are_counted(rows, expected):
    assert distinct_directions(rows) == expected
    assert distinct_directions(sp.csr_array(rows)) == expected


def test_counting_directions_leaves_the_rows_alone():
    rows = sp.csr_array(
        (np.array([1.0, 2.0, 0.0]), np.array([1, 0, 1]), np.array([0, 2, 3])), shape=(2, 2)
    )  # neither sorted nor without zeros
    assert distinct_directions(rows) == 1
    assert rows.indices.tolist() == [1, 0, 1]
    assert rows.nnz == 3
