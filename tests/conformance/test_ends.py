"""Rows that end a trajectory: the same statistics from every source and engine, unit by unit."""

import random
from types import SimpleNamespace

import numpy as np
import pytest

import privalue as pv
from conformance.test_engines import make_frame, pieces_of
from oracles import reading as local
from oracles.refusals import refused
from oracles.sources import TABLES, arrow
from privalue.core import GRID_STEPS

pytestmark = pytest.mark.xdist_group("spark")  # one session serves all

HEADING = ("person", "trajectory", "step", "state", "reward", "arm", "action", "probability")
STATES, ENDS, ARMS, ACTIONS = ["ward", "icu"], ["died", "home"], ["old", "new"], ["wait", "act"]
USUAL = {
    "epsilon": 1.0,
    "delta": 1e-6,
    "unit": "trajectory",
    "states": STATES,
    "discount": 0.5,
    "columns": {"person": "person", "trajectory": "trajectory"},
}
BEHAVIOUR = {"wait": 0.25, "act": 0.75}  # a known behaviour
END_REWARDS = {"died": 0.0, "home": 1.0}
POLICY = {
    "target": {s: {"wait": 0.5, "act": 0.5} for s in STATES},
    "clip": 8,
}
STUDIES = {
    "column": pv.Study(**USUAL, ends=ENDS, rewards=(0, 1)),
    "rewards of ends": pv.Study(**USUAL, ends=END_REWARDS),
    "days": pv.Study(**USUAL, ends=ENDS, reward_per_row=1.0),
    "arms": pv.Study(**USUAL, ends=END_REWARDS, arms=ARMS),
    "actions": pv.Study(**USUAL, ends=END_REWARDS, actions=ACTIONS),
    "persons": pv.Study(
        **{**USUAL, "unit": "person"}, ends=END_REWARDS, arms=ARMS, max_trajectories_per_person=2
    ),
    **{
        name: pv.Study(
            **{**USUAL, "delta": None},
            ends=END_REWARDS,
            actions=ACTIONS,
            mechanism="dp-ope",
            policy={**POLICY, "behaviour": behaviour},
        )
        for name, behaviour in (
            ("another policy", "column"),
            ("known behaviour", dict.fromkeys(STATES, BEHAVIOUR)),
        )
    },
}


def stays(seed=5, persons=14):
    """Return unsorted rows; in rows of ends, the cells that are not read are blank or odd."""
    rng = random.Random(seed)
    table = []
    for person in range(persons):
        arm = rng.choice(ARMS)
        for trajectory in range(rng.randrange(1, 4)):
            path = [rng.choice(STATES) for _ in range(rng.randrange(1, 4))]
            for step, state in enumerate(path):
                logged = rng.choice([0.25, 0.5, 0.8])
                cells = (rng.choice([0.0, 0.5, 1.0]), arm, rng.choice(ACTIONS), logged)
                table.append((person, trajectory, step, state, *cells))
            if rng.random() < 0.8:
                odd = rng.choice([(None, None, None), ("?", "neither", 7.0), (ARMS[0], "act", 0.0)])
                table.append((person, trajectory, 9, rng.choice(ENDS), 0.25, *odd))
    rng.shuffle(table)
    return table


def twin(table, study):
    """Return counts, sums and weights, computed with dictionaries, without a limit on states."""
    by_person = study.privacy.unit == "person"
    trajectories = {}
    for person, trajectory, step, *cells in table:
        trajectories.setdefault((person, trajectory), []).append((step, cells))
    keys, m = study.limits.keys, 0
    counts, sums, weights, weighted = np.zeros((4, keys))
    low, high = study.values.return_bounds
    fixed = study.fixed_rewards
    of_ends = {} if fixed is None else dict(zip(ENDS, fixed[1], strict=True))
    for (_, trajectory), rows in sorted(trajectories.items()):
        if by_person and trajectory >= 2:
            continue
        m, value, rho, first = m + 1, 0.0, 1.0, {}
        for _, (state, reward, arm, action, logged) in sorted(rows, reverse=True):
            value = (reward if fixed is None else of_ends.get(state, fixed[0])) + 0.5 * value
            if state in STATES:
                key = STATES.index(state) if keys > 1 else 0
                if study.arms.names:
                    key += 2 * ARMS.index(arm)
                if study.pairs is not None and keys > 1:
                    key = 2 * key + ACTIONS.index(action)
                first[key] = min(max(value, low), high)
                rho *= 0.5 / (logged if study.policy.is_logged else BEHAVIOUR[action])
        for key, one in first.items():
            counts[key] += 1
            sums[key] += (one - low) / (high - low)
            weights[key] += min(rho, 8) / 8
            weighted[key] += min(rho, 8) / 8 * (one - (low + high) / 2) / (high - low)
    return m, counts, sums, weights, weighted


def sums(result):
    arrays = (result.counts, result.return_steps, result.weight_steps, result.weighted_steps)
    return result.trajectories, result.units_dropped, *(array.tolist() for array in arrays)


@pytest.mark.parametrize("name", STUDIES)
def test_the_statistics_are_those_of_the_twin(name):
    study, table = STUDIES[name], stays()
    result = local.statistics(arrow(HEADING, table), study)
    m, counts, *sums = twin(table, study)
    assert (result.trajectories, result.counts.tolist()) == (m, counts.tolist())
    steps = [result.return_steps, result.weight_steps, result.weighted_steps]
    for mine, one in zip(steps[: 3 if study.limits.clip else 1], sums, strict=False):
        assert np.allclose(mine / GRID_STEPS, one, atol=1e-6)


@pytest.mark.parametrize("kind", TABLES)
def test_every_source_gives_the_same(kind, place):
    table = stays()
    for name in STUDIES if kind in {"csv", "Parquet"} else ("persons", "another policy"):
        study = STUDIES[name]
        result = local.statistics(TABLES[kind](place, HEADING, table), study)
        assert sums(result) == sums(local.statistics(arrow(HEADING, table), study)), name


@pytest.mark.parametrize("name", ["persons", "another policy"])
def test_spark_gives_the_same(name, spark):
    study, table = STUDIES[name], arrow(HEADING, stays())
    result = local.statistics(make_frame(spark, pieces_of(table, [5, 30])), study, engine="spark")
    assert sums(result) == sums(local.statistics(table, study))


def test_recordings_have_no_rewards_of_ends():
    """The final observation of a recording has no row that could get such a reward."""
    usual = {**USUAL, "columns": None}
    study = pv.Study(**usual, ends=ENDS, rewards=(0, 1))
    episodes = [[("ward", 0.0), ("home", 1.0)], [("icu", 0.5)], [("died", 0.0)]] * 5
    assert sums(local.statistics(episodes, study))[:3] == (15, 0, [5, 5])
    recorded = {"observations": ["ward", "icu"], "rewards": [0.0, 1.0], "terminals": [0, 1]}
    assert sums(local.statistics(recorded, study))[:3] == (1, 0, [1, 1])
    for recording in (recorded, SimpleNamespace(episodes=[recorded])):
        with refused("recording-without-final-rows"):
            local.statistics(recording, pv.Study(**usual, ends=END_REWARDS))


def test_a_reward_that_is_not_read_keeps_its_place_in_steps():
    """Planted: read by position among the columns in use, a reward would become an action."""
    usual = {**USUAL, "columns": None}
    study = pv.Study(**usual, ends=END_REWARDS, actions=ACTIONS)
    result = local.statistics([[("ward", "act", 0.3), ("home", None, 0.0)]], study)
    assert (result.counts.tolist(), result.return_steps.tolist()[1]) == ([0, 1, 0, 0], GRID_STEPS)
    with refused("cell-invalid"):
        local.statistics([[("ward", 1.0)]], study)
    plain = pv.Study(**usual, ends=END_REWARDS)
    for steps in ([("icu",), ("died",)], [("icu", 1.0), ("died", 1.0)]):
        assert local.statistics([steps], plain).return_steps.tolist() == [0, 0]


def test_a_unit_with_rows_after_its_end_does_not_affect_others():
    """It is refused, or dropped alone; a trajectory of ends alone counts in m."""
    table = stays()
    study = STUDIES["rewards of ends"]
    dropping = study.replace(invalid="drop-unit", trajectories=30)
    for step, state in ((10, "ward"), (10, "home")):
        bad = [*table, (99, 0, 9, "home", 1.0, None, None, None)]
        bad += [(99, 0, step, state, 0.0, "old", "act", 0.5)]
        with refused("rows-ended"):
            local.statistics(arrow(HEADING, bad), study)
        dropped = local.statistics(arrow(HEADING, bad), dropping)
        plain = local.statistics(arrow(HEADING, table), dropping)
        assert dropped.units_dropped == 1
        assert sums(dropped)[2:] == sums(plain)[2:]
    only = [*table, (99, 0, 9, "home", 1.0, None, None, None)]
    more = local.statistics(arrow(HEADING, only), study)
    before = local.statistics(arrow(HEADING, table), study)
    assert more.trajectories == before.trajectories + 1
    assert sums(more)[2:] == sums(before)[2:]
    with refused("rows-stateless"):
        local.statistics(arrow(HEADING, only), STUDIES["another policy"])


def test_a_release_has_values_of_states_and_lists_the_ends():
    study = STUDIES["rewards of ends"]
    stay = [(0, "ward"), (1, "home")]
    rows = [(person, 0, *row, 0.0, None, None, None) for person in range(900) for row in stay]
    release = pv.release(study, arrow(HEADING, rows))
    assert [row.state for row in release] == STATES
    assert release.study["states"]["ends"] == END_REWARDS
    assert release.terms["has_ends"] is True
    assert abs(release["ward"].value - 0.5) < 0.1
    assert pv.refit(release, level=0.9).study["states"]["ends"] == END_REWARDS
