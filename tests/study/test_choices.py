"""What is chosen where a study leaves it open: the shape of the noise of DP-SSP, and beta."""

import math

import numpy as np
import pytest

import privalue as pv
from oracles.limits import count_weight, sensitivity, shape_weights, smooth_lsw
from privalue.core import PublicSize, exact_alpha, gaussian, largest_beta, nissim
from privalue.core.calibration import _exact_alpha
from privalue.errors import StudyError, UsageError
from privalue.study import design, mechanism_for
from privalue.study._choices import automatic_beta

ROOT = math.sqrt(3) / 2


# Shapes from a public prior


def predicted(shape, prior, m, alpha, most=None, spread=1 / 12):
    """The sum of squared errors that the shape promises: docs/proofs/dp-ssp.md."""
    weight = count_weight(len(prior), most)
    delta = sensitivity(shape, most_states=most, count_weight=weight)
    noise = (alpha * delta / (shape * m * prior)) ** 2 * (1 + 1 / (12 * weight**2))
    return literal_error(noise, spread)


ALIKE = (1 / 12, 0.06**2, 0.012**2, 0.0024**2, 0.0005**2)  # variances of values that differ


PRIORS = {
    "chain": np.arange(1, 41) / 40,
    "wide": 10.0 ** -np.linspace(0, 6, 30),
    "even": np.full(25, 0.3),
    "random": np.random.default_rng(3).random(50) ** 4,
}


def test_no_prior_no_shape():
    for shape in (shape_weights(None, 5), shape_weights(np.zeros(5), 5)):
        assert shape.tolist() == [1.0] * 5
        assert not shape.flags.writeable


@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS)
@pytest.mark.parametrize("most", [None, 1, 5])
@pytest.mark.parametrize("m", [30, 1000, 10**6])
@pytest.mark.parametrize("shrinkage", [True, False])
def test_a_shape_promises_less_error_than_none(prior, most, m, shrinkage):
    """In the mean over values that differ more or less; and little more than none, for any."""
    known = {"most_states": most, "expected_trajectories": m, "alpha": 3.0}
    shape = shape_weights(prior, len(prior), **known, shrinkage=shrinkage)
    even = np.ones(len(prior))
    assert shape.max() == 1
    ratios = np.array(
        [
            predicted(shape, prior, m, 3.0, most, spread)
            / predicted(even, prior, m, 3.0, most, spread)
            for spread in (ALIKE if shrinkage else ALIKE[:1])
        ]
    )
    assert np.log(ratios).mean() <= 1e-9
    assert ratios.max() <= 1.05**2 * (1 + 1e-9)
    # However wrong the prior, no state pays more than sqrt(10) for it.
    worst = sensitivity(shape, most_states=None, count_weight=ROOT) / shape.min()
    assert worst <= math.sqrt(10 * len(prior)) * (1 + 1e-9)


def test_many_data_make_it_one_over_the_root_of_p():
    """The least of sum 1/(omega p)^2 times sum omega^2 is at omega^2 = 1/p."""
    prior = PRIORS["chain"]
    shape = shape_weights(prior, 40, expected_trajectories=10**9, alpha=3.0)
    assert shape == pytest.approx((prior / prior.min()) ** -0.5, rel=0.02)


def test_the_shape_is_the_best_of_many():
    """No small change of any one weight promises a smaller error."""
    prior, m, alpha = PRIORS["chain"], 10**5, 3.0
    known = {"expected_trajectories": m, "alpha": alpha}
    shape = np.array(shape_weights(prior, 40, **known, shrinkage=False))
    best = predicted(shape, prior, m, alpha)
    for s in range(40):
        for factor in (0.9, 1.1):
            other = shape.copy()
            other[s] *= factor
            assert predicted(other, prior, m, alpha) >= best * (1 - 1e-3)


def test_a_shape_is_made_for_the_noise_of_all_trajectories_of_a_person():
    """Noise is L times as large; for less of it, a shape would be worse than none by 37% here."""
    generator = np.random.default_rng(3)
    for _ in range(10):
        p = np.exp(-generator.uniform(0, 8, 30))
        m = int(10 ** generator.uniform(2.5, 5.5))
        shape = shape_weights(p, 30, expected_trajectories=m, alpha=4.2, trajectories_per_person=20)
        for spread in ALIKE:
            even = predicted(np.ones(30), p, m, 20 * 4.2, spread=spread)
            assert predicted(shape, p, m, 20 * 4.2, spread=spread) <= 1.05**2 * even


@pytest.mark.parametrize("prior", [[6e-10, 3e-10, 4e-11], [1e-9, 1e-9, 1e-12]])
@pytest.mark.parametrize("m", [1, 1000])
def test_no_state_gets_less_than_its_share_where_next_to_no_visits_are_expected(prior, m):
    """K is far beyond p^2 there, and rounding would decide."""
    alpha = gaussian(0.001, 1e-15).alpha
    shape = shape_weights(np.array(prior), 3, expected_trajectories=m, alpha=alpha)
    assert float(shape @ shape) <= 10 * 3 * shape.min() ** 2 * (1 + 1e-9)


def test_states_without_hope_get_little():
    prior = np.array([1.0] * 10 + [1e-9] * 10)
    shape = shape_weights(prior, 20, expected_trajectories=1000, alpha=3.0)
    assert shape[:10].min() == 1
    assert shape[10:].max() < 0.5


@pytest.mark.parametrize("most", [None, 2])
def test_a_prior_of_zero_is_allowed_and_order_does_not_matter(most):
    prior = np.array([0.0, 1.0, 0.2, 1e-300, 0.7])
    shape = shape_weights(prior, 5, most_states=most)
    assert np.isfinite(shape).all()
    assert (shape > 0).all()
    order = np.array([3, 1, 4, 0, 2])
    assert shape_weights(prior[order], 5, most_states=most) == pytest.approx(shape[order])


@pytest.mark.parametrize("prior", [[0.5], [0.5, 1.5], [0.5, -0.1], [0.5, math.nan], [[0.1, 0.2]]])
def test_priors_that_are_none(prior):
    with pytest.raises(StudyError, match="probabilities from 0 to 1"):
        shape_weights(np.array(prior), 2)


def test_a_number_of_trajectories_that_is_none():
    with pytest.raises(UsageError, match="expected_trajectories is 0"):
        shape_weights(np.ones(2), 2, expected_trajectories=0, alpha=1.0)
    for alpha in (None, 0.0, math.nan, math.inf):
        with pytest.raises(UsageError, match="alpha is"):
            shape_weights(np.ones(2), 2, expected_trajectories=9, alpha=alpha)


def beta_by_every_alpha(epsilon, delta, dimension, psi, room):
    """The choice as it is described, with a certified alpha at every beta of every grid."""

    def noise(log_beta):
        beta = math.exp(log_beta)
        return math.log(exact_alpha(epsilon, delta, dimension, beta)) + 0.5 * math.log(psi(beta))

    highest = high = math.log(largest_beta(epsilon, delta, dimension)) - 1e-3
    low = high - math.log(1e4)
    for points in (25, 9, 9):
        grid = np.linspace(low, high, points).tolist()
        at = min(range(points), key=lambda each: noise(grid[each]))
        low, high, best = grid[max(at - 1, 0)], grid[min(at + 1, points - 1)], grid[at]
    if room:
        most, largest = noise(best) + math.log1p(room), min(highest, best + math.log(1e4))
        while largest - best > 0.01:
            middle = 0.5 * (best + largest)
            best, largest = (middle, largest) if noise(middle) <= most else (best, middle)
    return float(f"{math.exp(best):.6g}")


CHOICES = [
    (0.1, 0.1, 40, np.arange(50, 2050, 50), 0.0),
    (1.0, 1e-6, 5, np.array([3, 700, 2000, 9000, 40_000]), 0.05),
    (0.1, 5.75e-8, 2, np.array([1, 80_000]), 0.05),  # hardly any beta: all alphas are the same
    (3.0, 1e-3, 3, np.array([90_000, 100_000, 120_000]), 0.0),
]


@pytest.mark.parametrize(("epsilon", "delta", "dimension", "counts", "room"), CHOICES)
def test_automatic_beta_is_that_of_every_alpha_with_few_of_them(
    epsilon, delta, dimension, counts, room
):
    def psi(beta):
        return smooth_lsw(counts, np.ones(dimension), beta)

    _exact_alpha.cache_clear()
    chosen = automatic_beta(epsilon, delta, dimension, psi, room=room)
    searched = _exact_alpha.cache_info().misses
    assert chosen == beta_by_every_alpha(epsilon, delta, dimension, psi, room)
    assert searched <= 16
    assert _exact_alpha.cache_info().misses - searched >= 16


def test_automatic_beta_is_near_the_best():
    """Against a fine scan, for DP-LSW with 40 states visited 250 times or more."""
    counts = 250 * np.arange(1, 41)
    chosen = automatic_beta(0.1, 0.1, 40, lambda b: smooth_lsw(counts, np.ones(40), b))
    scan = np.geomspace(1e-3, 0.07, 60)

    def noise(beta):
        return exact_alpha(0.1, 0.1, 40, beta) * math.sqrt(smooth_lsw(counts, np.ones(40), beta))

    assert noise(chosen) <= 1.01 * min(noise(beta) for beta in scan)


def test_without_a_prior_beta_is_ready_for_rarer_states():
    """FrozenLake's visited states at m = 10^6: the rarest has one trajectory in 31, not in 11."""
    visits = (1000004, 618221, 261875, 113854, 622860, 135447, 265370, 113322, 70740, 40236, 31761)
    for counts in (np.array(visits), np.array([*visits, 0, 0, 0, 0, 0])):
        states, ones = len(counts), np.ones(len(counts))
        guess = np.arange(1, states + 1) * 10**6 // states

        def noise(calibration, counts=counts, ones=ones):
            return calibration[0] * math.sqrt(smooth_lsw(counts, ones, calibration[1]))

        def psi(beta, guess=guess, ones=ones):
            return smooth_lsw(guess, ones, beta)

        paper = nissim(0.1, 0.1, states)
        least, ready = (automatic_beta(0.1, 0.1, states, psi, room=room) for room in (0.0, 0.05))
        alphas = [exact_alpha(0.1, 0.1, states, beta) for beta in (least, ready)]
        assert noise((alphas[1], ready)) < noise((paper.alpha, paper.beta))
        assert alphas[1] * math.sqrt(psi(ready)) <= 1.05 * alphas[0] * math.sqrt(psi(least))
        if states == 11:  # what it was: planted, and caught
            assert noise((alphas[0], least)) > noise((paper.alpha, paper.beta))


def test_the_shape_of_a_study_by_person_is_made_for_its_noise():
    study = pv.Study(
        name="few",
        trajectories=1000,
        epsilon=1.0,
        delta=1e-6,
        unit="person",
        max_trajectories_per_person=20,
        discount=0.9,
        rewards=(0.0, 1.0),
        returns=(0.0, 1.0),
        states=4,
        visits={"0": 1.0, "1": 0.5, "2": 0.1, "3": 0.01},
        mechanism="dp-ssp",
    )
    size = PublicSize(units=100, most_count=2000, trajectories=1000)
    alpha = 20 * gaussian(1.0, 1e-6).alpha
    expected = shape_weights(study.key_visits, 4, expected_trajectories=1000, alpha=alpha)
    shape = mechanism_for(study, design(study), size).terms.constants.shape
    assert shape == pytest.approx(expected)


def test_a_study_without_a_prior_leaves_room_and_one_with_a_prior_does_not():
    study = pv.Study(
        epsilon=1.0,
        delta=1e-6,
        unit="trajectory",
        discount=0.9,
        rewards=(0.0, 1.0),
        returns=(0.0, 1.0),
        states=4,
        mechanism="dp-lsw",
    )
    known = {str(s): (s + 1) / 4 for s in range(4)}
    told = study.model_copy(update={"states": {"count": 4, "visits": known}})
    size = PublicSize(units=10**5, most_count=10**5, trajectories=10**5)
    free, held = (mechanism_for(each, design(each), size).calibration for each in (study, told))
    assert free.beta > 2 * held.beta
    assert held.alpha < free.alpha <= 1.051 * held.alpha


def test_a_prior_of_visits_gives_no_shape_that_closer_values_would_suffer_from():
    """A shape must do for values that spread over the bounds, and for values much closer."""
    generator = np.random.default_rng(3)
    for _ in range(20):
        p = np.exp(-generator.uniform(0, 8, 30))
        m, alpha = int(10 ** generator.uniform(2.5, 5.5)), 4.2
        omega = shape_weights(p, 30, expected_trajectories=m, alpha=alpha)
        unit = (alpha / m) ** 2 * (1 + 1 / (12 * count_weight(30, None) ** 2))
        for spread in ALIKE:
            error, even = (
                literal_error(unit * float(each @ each) / (each * p) ** 2, spread)
                for each in (omega, np.ones(30))
            )
            assert error <= even * 1.05**2


def literal_error(noise, spread):
    """Each shrunk value's squared error, and that of what they are drawn to."""
    drawn = [q / (q + spread) for q in noise]
    common = 1 / sum(1 / (q + spread) for q in noise)
    return sum(b * spread + b**2 * common for b in drawn)
