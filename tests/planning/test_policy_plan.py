"""Plans of another policy's value: clips, kept mass, hopeless overlap, and a known world."""

import numpy as np
import pytest

import privalue as pv
from oracles.reading import statistics as gathered
from privalue.core import SeededForExperimentsOnly, draw
from privalue.curator import prepare
from privalue.errors import StudyError, UsageError
from privalue.simulation import parse_world, simulate_episodes
from privalue.study import public_size

WORLD = parse_world("garnet:N=6,A=3,seed=5")


def described(world, target, **changes):
    tables = {}
    for name, one in (("target", target), ("behaviour", world)):
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


@pytest.fixture(scope="module")
def near():
    return described(WORLD, WORLD.under("optimal:0.1"))


@pytest.fixture(scope="module")
def rows():
    return simulate_episodes(WORLD, trajectories=3000, seed=2620, actions=True)


@pytest.fixture(scope="module")
def plan(near):
    return pv.plan_policy(near, trajectories=5000, world=WORLD)


def test_a_world_says_what_a_clip_keeps(near, rows, plan):
    kept = [each.kept for each in plan.forecasts]
    assert kept == sorted(kept)
    fields = pv.inspect(near, rows).private_fields()
    assert plan.chosen.kept == pytest.approx(min(fields["kept_mass"][0], 1.0), abs=0.08)
    assert "made-up trajectories of the world garnet" in plan.notes[0]
    # Noise grows with the clip at a given kept mass, and falls with the number of people.
    more = pv.plan_policy(near, trajectories=10_000, world=WORLD)
    assert more.chosen.noise == pytest.approx(plan.chosen.noise / 2)
    assert plan.forecasts[-1].noise > plan.forecasts[3].noise
    assert plan.best.rmse <= plan.rmse
    assert f"clip = {plan.chosen.clip:g}" in plan.verdict


def test_predicted_noise_is_that_of_releases(near, rows, plan):
    statistics = gathered(rows, near)
    mechanism = prepare(near).mechanism_for(public_size(near, statistics))
    source = SeededForExperimentsOnly(2622)
    exact = pv.inspect(near, rows).private_fields()["policy_values"][0]
    drawn = [draw(mechanism, statistics, source).numbers for _ in range(200)]
    values = np.array([20 * (0.5 + numbers[0] / numbers[1]) for numbers in drawn])
    found = float(np.sqrt(np.mean(np.square(values - exact))))
    assert found == pytest.approx(plan.chosen.noise * 5000 / 3000, rel=0.35)


def test_hopeless_overlap_is_said():
    far = described(WORLD, WORLD.under("greedy"))
    plan = pv.plan_policy(far, trajectories=5000)
    assert any("overlap is hopeless, if trajectories have 10 steps" in n for n in plan.notes)
    assert "trajectories of 10 steps (--steps N changes that)" in plan.notes[0]
    short = pv.plan_policy(far, trajectories=5000, steps=1)
    assert not any("hopeless" in note for note in short.notes)
    few = pv.plan_policy(far, trajectories=3)
    assert few.hopeless
    assert any("a release would be refused" in note for note in few.notes)


def test_what_does_not_fit_is_refused(near):
    with pytest.raises(StudyError, match="has 5 states and 3 actions, and the study 6 and 3"):
        pv.plan_policy(near, trajectories=100, world=parse_world("garnet:N=5,A=3,seed=5"))
    with pytest.raises(UsageError, match="steps=0"):
        pv.plan_policy(near, trajectories=100, steps=0)
    with pytest.raises(UsageError, match="trajectories"):
        pv.plan_policy(near)
    other = pv.Study(
        states=2, discount=0.9, returns=(0, 1), epsilon=1.0, delta=1e-6, unit="trajectory"
    )
    with pytest.raises(UsageError, match="plan_policy is for"):
        pv.plan_policy(other, trajectories=100)


def test_what_is_in_the_rows_is_not_called_hopeless(near):
    logged = near.replace(
        policy={"target": near.policy.target, "behaviour": "column", "clip": near.policy.clip}
    )
    for steps in (1, 10, 1000):
        plan = pv.plan_policy(logged, trajectories=5000, steps=steps)
        told = " ".join([plan.verdict, *plan.notes])
        assert "the target was not used: the behaviour's probabilities are in the rows" in told
        assert "hopeless" not in told
        assert plan.verdict.startswith("For any target, by assumed weights: with 5,000")
    known = pv.plan_policy(logged, trajectories=5000, world=WORLD)
    assert known.target_used
    assert known.steps is None


def by_start(count, **changes):
    states = [f"s{at}" for at in range(count)]
    rule, other = ({s: {"x": 1 - y, "y": y} for s in states} for y in (0.5, 0.8))
    policy = {"target": other, "behaviour": rule, "clip": 2, **changes}
    return pv.Study(
        states=states, actions=["x", "y"], discount=1.0, returns=(0, 1), epsilon=1.0,
        unit="trajectory", mechanism="dp-ope", policy=policy,
    )  # fmt: skip


def test_by_start_an_error_is_that_of_a_start_and_not_of_all_people():
    generator, people, starts = np.random.default_rng(2623), 5000, 25
    study = by_start(starts, by="start")
    plan = pv.plan_policy(study, trajectories=people, steps=1)
    start, treated = generator.integers(0, starts, people), generator.random(people) < 0.5
    rows = {
        "trajectory": np.arange(people), "step": np.zeros(people, dtype=int),
        "state": [f"s{at}" for at in start], "action": np.where(treated, "y", "x"),
        "reward": (generator.random(people) < np.where(treated, 0.7, 0.3)).astype(float),
    }  # fmt: skip
    release = pv.release(study, rows, seed=4)
    found = float(np.sqrt(np.mean(np.square(release.values.column("value") - 0.62))))
    assert found / 2 < plan.rmse < 2 * found
    assert "at each start" in plan.verdict
    assert any("a start that has 200 of the trajectories" in note for note in plan.notes)
    one = pv.plan_policy(by_start(starts), trajectories=people, steps=1)
    assert one.rmse < plan.rmse / 4
    assert "start" not in " ".join([one.verdict, *one.notes])


def test_a_plan_vouches_by_the_lower_end_as_a_release_does():
    study = by_start(1)
    few, many = (pv.plan_policy(study, trajectories=m, steps=1) for m in (60, 5000))
    assert few.chosen.overlaps
    assert not few.chosen.supported
    assert any("too few trajectories" in note for note in few.notes)
    assert not any("hopeless" in note for note in few.notes)
    assert many.chosen.supported
    assert not any("too few" in note for note in many.notes)


def test_a_behaviour_that_hardly_ever_acts_is_planned_for_in_numbers():
    study = by_start(1, behaviour={"s0": {"x": 1e-320, "y": 1.0}})
    plan = pv.plan_policy(study, trajectories=1000, steps=1)
    assert np.isfinite([plan.rmse, plan.chosen.kept, plan.chosen.kept_low]).all()
    assert "nan" not in plan.verdict
