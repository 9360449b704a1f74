"""The least mass that clipping keeps, and the cautious end of an off-policy plan."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privalue as pv
from oracles import kept_mass
from privalue.core import GRID_STEPS
from privalue.planning import least_kept_mass, mechanism_of_study, plan
from privalue.simulation import parse_world, simulate_episodes

WORLD = parse_world("garnet:N=6,A=3,seed=5")


@st.composite
def policies(draw, states=2, actions=3):
    """Two policies, some of whose probabilities are 0."""
    seed = draw(st.integers(0, 10**6))
    generator = np.random.default_rng(seed)
    pair = []
    for _ in range(2):
        chances = generator.dirichlet(np.full(actions, 0.7), states)
        chances[generator.random((states, actions)) < 0.15] = 0
        chances[:, 0] += 1e-3
        pair.append(chances / chances.sum(axis=1, keepdims=True))
    return pair


clips = st.sampled_from([0.5, 1.0, 2.0, 10.0, 100.0])


@settings(max_examples=60)
@given(policies(), clips, st.integers(1, 4))
def test_the_kept_mass_is_the_recursion_rounded_down(pair, clip, steps):
    target, behaviour = pair
    exact = kept_mass.least_kept(target.tolist(), behaviour.tolist(), clip, steps)
    mass = least_kept_mass(target, behaviour, clip, steps)
    assert mass <= exact + 1e-12
    assert mass == pytest.approx(exact, abs=0.01)


@settings(max_examples=40)
@given(policies(), clips, st.integers(1, 3), st.integers(0, 10**6))
def test_no_world_keeps_less_mass_than_the_bound(pair, clip, steps, seed):
    """Also where trajectories end earlier than they might."""
    target, behaviour = pair
    generator = np.random.default_rng(seed)
    start, moves = generator.dirichlet([1, 1]), generator.dirichlet([0.3, 0.3], (2, 3))
    exact = kept_mass.kept_in_a_world(
        start.tolist(), moves.tolist(), target.tolist(), behaviour.tolist(), clip, steps
    )
    assert least_kept_mass(target, behaviour, clip, steps) <= exact + 1e-12
    assert least_kept_mass(target, behaviour, clip, steps + 1) <= exact + 1e-12


def test_planted_mistakes_would_be_seen():
    """The mean state in place of the worst, and the two policies exchanged."""
    target = np.array([[0.9, 0.1], [0.5, 0.5]])
    behaviour = np.full((2, 2), 0.5)
    right = kept_mass.least_kept(target.tolist(), behaviour.tolist(), 2.0, 4)
    assert least_kept_mass(target, behaviour, 2.0, 4) == pytest.approx(right, abs=0.005)
    mean = target.mean(axis=0, keepdims=True)
    assert least_kept_mass(mean, behaviour[:1], 2.0, 4) > right + 0.05
    assert abs(least_kept_mass(behaviour, target, 2.0, 4) - right) > 0.05


def make_study(world=WORLD, target="optimal:0.1", **changes):
    tables = {}
    for name, one in (("target", world.under(target)), ("behaviour", world)):
        _, policy = one.decisions
        tables[name] = {
            str(s): {str(a): float(p) for a, p in enumerate(row)} for s, row in enumerate(policy)
        }
    mdp, _ = world.decisions
    keywords = {
        "states": mdp.states, "actions": mdp.actions, "discount": mdp.discount,
        "returns": (0.0, 20.0), "epsilon": 1.0, "unit": "trajectory", "mechanism": "dp-ope",
        "policy": {**tables, "clip": 5.0},
    }  # fmt: skip
    return pv.Study(**(keywords | changes))


def own(result):
    return next(row for row in result.clips if row.clip == 5.0)


def test_a_cautious_end_is_the_bias_and_the_noise():
    result = plan(make_study(), 5000, steps=5)
    for row in result.clips:
        assert row.bias == pytest.approx(20 * (1 - row.kept))
        assert row.error == pytest.approx(min(row.bias + row.noise, 20))
    assert [row.kept for row in result.clips] == sorted(row.kept for row in result.clips)
    more, longer = plan(make_study(), 50_000, steps=5), plan(make_study(), 5000, steps=20)
    assert own(more).error < own(result).error
    assert own(more).kept == own(result).kept > own(longer).kept
    near = plan(make_study(target="optimal:0.01"), 5000, steps=2)
    assert own(near).supported
    assert "little-kept" not in [notice.code for notice in near.notices]


@pytest.mark.parametrize("epsilon", [0.02, 1.0])  # noise, or clipping, is most of the error
def test_a_world_gives_the_error_of_releases(epsilon):
    study = make_study(epsilon=epsilon)
    result = plan(study, 3000, world=WORLD)
    truth = WORLD.decisions[0].value(WORLD.under("optimal:0.1").decisions[1])
    errors, masses = [], []
    for seed in range(30):
        rows = simulate_episodes(WORLD, trajectories=3000, seed=seed, actions=True)
        release = pv.release(study, rows, seed=seed, accept_useless=True)
        errors.append(release.policy_value - truth)
        masses.append(float(release.policy.columns["kept_mass"][0]))
    assert result.rmse == pytest.approx(np.mean(np.abs(errors)), rel=0.3)
    assert own(result).kept == pytest.approx(np.mean(masses), abs=0.05)


def test_the_cautious_end_has_the_noise_of_both_sums_and_people():
    """By another simulation; planted: the noise of weights left out."""
    study = make_study(epsilon=0.02)
    row = own(plan(study, 5000, steps=2))
    of_returns, of_weights = (
        scale * 5 / GRID_STEPS for scale in mechanism_of_study(study, 5000).scales[:2]
    )
    generator = np.random.default_rng(1)
    x, y = generator.laplace(size=(2, 10**6))
    people = np.sqrt(5 * row.kept * 5000 / 4) * generator.standard_normal(10**6)
    for part, same in ((of_weights / 2, True), (0, False)):
        away = np.quantile(np.abs(of_returns * x + part * y + people), 0.95)
        assert (row.noise == pytest.approx(20 * away / row.kept / 5000, rel=0.02)) == same
