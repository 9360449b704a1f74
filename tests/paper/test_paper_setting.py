"""The paper's own setting: epsilon = delta = 0.1, a chain of 40 states, returns in [0, 1]."""

import numpy as np
import pytest

from oracles.studies import in_sections, mechanism_for
from privalue.core import Statistics, exact_alpha, privacy_profile
from privalue.curator import prepare
from privalue.paper import chain_statistics
from privalue.simulation import parse_world
from privalue.study import public_size


def perturbation(trajectories, seed, **mechanism):
    drawn = chain_statistics(parse_world("chain"), trajectories=trajectories, seed=seed)
    gathered = Statistics(
        return_bounds=(0.0, 1.0),
        trajectories=trajectories,
        rows=trajectories,
        rewards_clamped=0,
        returns_clamped=0,
        counts=drawn.counts,
        return_steps=drawn.return_steps,
    )
    described = in_sections(
        privacy={"epsilon": 0.1, "delta": 0.1, "unit": "trajectory"},
        values={"discount": 0.99, "rewards": (0.0, 1.0), "returns": (0.0, 1.0)},
        states={"count": 40},
        mechanism={"name": "dp-lsw", **mechanism},
    )
    size = public_size(described, gathered)
    mechanism = mechanism_for(described, prepare(described).design, size)
    return mechanism.perturb(gathered), gathered.counts


@pytest.mark.parametrize("seed", range(12))
def test_sigma_with_automatic_beta_at_ten_thousand_trajectories(seed):
    automatic, _ = perturbation(10**4, seed)
    assert automatic.sigma < 0.025
    published, _ = perturbation(10**4, seed, calibration="nissim", noise="isotropic")
    assert published.sigma == pytest.approx(195, rel=0.05)


def test_sigma_at_a_million_trajectories_is_near_the_local_sensitivity_limit():
    automatic, counts = perturbation(10**6, 1)
    limit = exact_alpha(0.1, 0.1, 40, 1e-9) * np.sqrt(np.sum(1 / counts.astype(float) ** 2))
    assert automatic.sigma <= 1.25 * limit


def test_the_true_delta_of_the_papers_constants():
    assert privacy_profile(122.38734, 5.81453e-4, 40, 0.1).estimate == pytest.approx(
        1.5e-22, rel=0.05
    )


def test_a_chosen_beta_matters():
    """The standard deviations that were found for three betas in an independent computation."""
    for beta, expected in ((0.038, 0.028), (0.045, 0.018), (0.019, 0.28)):
        found = np.median([perturbation(10**4, s, beta=beta)[0].sigma for s in range(9)])
        assert found == pytest.approx(expected, rel=0.3)


def test_a_pseudo_count_removes_the_threshold():
    """With kappa >= 2/beta the noise of a thousand trajectories is small, for a public bias."""
    plain, _ = perturbation(10**3, 3)
    eased, _ = perturbation(10**3, 3, beta=0.04, pseudo_count=50.0)
    assert eased.sigma < 0.12
    assert plain.sigma > 1.0
