"""Made-up statistics are those of real trajectories, and predicted errors those of releases."""

import numpy as np
import pytest

import privalue as pv
from oracles.repeats import cross
from privalue.core import Contributions, draw
from privalue.estimate import theta_of
from privalue.planning import FromVisits, FromWorld, mechanism_of_study, predict
from privalue.simulation import SeededForExperimentsOnly, parse_world, simulate_episodes

CHAIN = parse_world("chain:N=12")
GARNET = parse_world("garnet:N=8,A=3,seed=5")


def study_of(world, **changes):
    keywords = {
        "states": world.process.states, "discount": world.process.discount, "rewards": (0, 1),
        "returns": (0, 1), "epsilon": 1.0, "delta": 1e-6, "unit": "trajectory",
    }  # fmt: skip
    return pv.Study(**(keywords | changes))


def simulate(study, world, m, seed):
    """The statistics of a data set whose trajectories are all simulated."""
    rows = simulate_episodes(world, trajectories=m, seed=seed)
    contributions = Contributions(study.limits)
    contributions.add(
        rows.trajectory[:, None, None], rows.step, rows.state.astype(np.int32), rows.reward
    )
    return contributions.finish()


SETTINGS = {
    "plain": (CHAIN, {}),
    "limited": (CHAIN, {"max_states_per_trajectory": 3}),
    "clamped": (GARNET, {"returns": (0, 2)}),
    "staged": (GARNET, {"returns": None}),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_resampled_statistics_have_the_moments_of_simulated_ones(name):
    world, changes = SETTINGS[name]
    study = study_of(world, **changes)
    made_up, generator = FromWorld(study, world), np.random.default_rng(1)
    m = made_up.round_size(2000)
    draws = [made_up.statistics(m, generator) for _ in range(300)]
    real = [simulate(study, world, m, seed) for seed in range(150)]
    for field in ("counts", "return_steps"):
        ours, theirs = (np.array([getattr(s, field) for s in some]) for some in (draws, real))
        spread = theirs.std(axis=0) + 1e-9
        off = (ours.mean(axis=0) - theirs.mean(axis=0)) / spread
        assert np.abs(off).max() < 0.5
        assert np.median(ours.std(axis=0) / spread) == pytest.approx(1, abs=0.12)
        # What varies together in the data varies together here.
        together = [np.corrcoef(sums[:, :4].T)[0] for sums in (ours, theirs)]
        assert together[0] == pytest.approx(together[1], abs=0.25)
    assert made_up.visits * m == pytest.approx(np.mean([s.counts for s in real], 0), rel=0.1)


def mean_error(study, world, values, m, releases=80):
    mechanism, errors = mechanism_of_study(study, m), []
    for seed in range(releases):
        numbers = draw(mechanism, simulate(study, world, m, seed), SeededForExperimentsOnly(seed))
        theta = theta_of(study, mechanism, numbers)
        estimates = np.clip(mechanism.design.values(theta), *mechanism.noise_after(numbers).bounds)
        errors.append(np.sqrt(np.mean(np.square(estimates - values))))
    return np.mean(errors)


@pytest.mark.parametrize(("name", "m"), cross(SETTINGS, [1024, 8192]))
def test_predicted_errors_are_those_of_releases(name, m):
    world, changes = SETTINGS[name]
    study = study_of(world, **changes)
    result = predict(study, FromWorld(study, world), m)
    assert result.trajectories == m
    assert result.rmse == pytest.approx(mean_error(study, world, world.process.values, m), rel=0.1)
    assert result.without_privacy < result.rmse or name == "clamped"
    assert len(result.errors) == 800 or name != "staged"  # a rare choice may be most of it


def test_a_world_of_half_the_visits_would_be_caught():
    study = study_of(CHAIN)
    truth = mean_error(study, CHAIN, CHAIN.process.values, 4096)
    assert predict(study, FromWorld(study, CHAIN), 2048).rmse > 1.3 * truth


def test_noise_of_another_law_would_be_caught(monkeypatch):
    """Planted: Laplace noise of the same variance, at few trajectories."""
    study = study_of(GARNET, returns=(0, 12))
    truth = mean_error(study, GARNET, GARNET.process.values, 512, releases=200)
    right = predict(study, FromWorld(study, GARNET), 512).rmse
    original = np.random.Generator.standard_normal

    class Heavy(np.random.Generator):
        def standard_normal(self, *args, **keywords):
            return 1.5 * original(self, *args, **keywords)

    monkeypatch.setattr(
        np.random, "default_rng", lambda seed: Heavy(np.random.PCG64(seed)), raising=True
    )
    wrong = predict(study, FromWorld(study, GARNET), 512).rmse
    assert abs(right / truth - 1) < 0.1 < wrong / truth - 1


def test_from_visits_alone_counts_are_binomial_and_returns_vary_most():
    study = study_of(CHAIN)
    visits = np.linspace(0.1, 1, 12)
    made_up, generator = FromVisits(study, visits), np.random.default_rng(2)
    draws = [made_up.statistics(1000, generator) for _ in range(400)]
    counts = np.array([s.counts for s in draws])
    assert counts.mean(axis=0) == pytest.approx(1000 * visits, rel=0.02)
    assert counts.var(axis=0)[:-1] == pytest.approx(1000 * (visits * (1 - visits))[:-1], rel=0.3)
    means = np.mean([s.mean_returns(0.0) for s in draws], axis=0)
    assert means == pytest.approx(made_up.values, abs=0.02)
    spread = np.std([s.mean_returns(0.0) for s in draws], axis=0)
    most = np.sqrt(made_up.values * (1 - made_up.values) / (1000 * visits))
    assert spread == pytest.approx(most, rel=0.25)
    few, many = (predict(study, made_up, m).rmse for m in (1000, 100_000))
    assert many < few / 5
    assert predict(study, made_up, 1000).rmse == few  # the same every time
