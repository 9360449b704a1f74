"""Worlds by name: texts, built-in worlds, ICU-Sepsis, and what is true of them."""

import csv
import math
import tomllib
from importlib import metadata

import numpy as np
import pytest

import privalue as pv
from oracles.refusals import refused
from privalue.simulation import (
    END,
    MarkovRewardProcess,
    Outcomes,
    chain,
    garnet,
    parse_world,
    return_range,
    simulate_episodes,
    write_truth,
)

GARNET = garnet(states=4, actions=2, branching=2, seed=1)
TABLE = np.array([[1.0, 0.0], [0.25, 0.75], [1 / 3, 2 / 3], [0.5, 0.5]])


def has_icu_sepsis():
    try:
        return bool(metadata.distribution("icu-sepsis"))
    except metadata.PackageNotFoundError:
        return False


needs_icu_sepsis = pytest.mark.skipif(not has_icu_sepsis(), reason="icu-sepsis is not installed")


def test_the_chain_by_its_definition():
    world = chain(states=3, stay=0.25, discount=0.5)
    outcomes = world.process.outcomes
    assert outcomes.successors.tolist() == [0, 1, 1, 2, END]
    assert outcomes.probabilities.tolist() == [0.25, 0.75, 0.25, 0.75, 1.0]
    assert outcomes.rewards.tolist() == [0.0, 0.0, 0.0, 0.0, 1.0]
    # V(1) = (V(1) / 4 + 3 / 4) / 2 = 3 / 7.
    assert world.values == pytest.approx([9 / 49, 3 / 7, 1])
    assert chain(states=1).values.tolist() == [1.0]


# ICU-Sepsis


@needs_icu_sepsis
@pytest.mark.parametrize(
    ("policy", "survival", "length"),
    [("uniform", 0.78, 9.45), ("expert", 0.78, 9.22), ("greedy", 0.88, 10.99)],
)
def test_published_baselines_of_icu_sepsis(policy, survival, length):
    # The table "Baselines" in the README of github.com/icu-sepsis/icu-sepsis: average return and
    # episode length of the random, expert and optimal policies, by simulation, two decimals.
    process = parse_world(f"icu-sepsis:policy={policy},discount=1").process
    assert process.start_value == pytest.approx(survival, abs=0.005)
    # A row for the final observation, or none for the first, would be off by one.
    assert process.visits.expected_length == pytest.approx(length, abs=0.05)


# What is true, in files


def rows_of(path):
    with path.open() as file:
        return list(csv.reader(file))


def test_true_values_are_written_beside_the_rows(tmp_path):
    world = GARNET.under(TABLE)
    files = write_truth(world, tmp_path / "truth", trajectories=500, actions=True)
    assert {path.name for path in (tmp_path / "truth").iterdir()} == {path.name for path in files}
    values = {(int(s), int(a)): float(v) for s, a, v in rows_of(files[3])[1:]}
    assert values == {(s, a): world.q[s, a] for s in range(4) for a in range(2)}
    assert world.under(tmp_path / "truth" / "optimal.csv").value == world.under("optimal").value
    assert world.under(tmp_path / "truth" / "policy.csv").policy.tolist() == world.policy.tolist()
    study = tomllib.loads((tmp_path / "truth" / "study.toml").read_text())
    assert (study["actions"], study["states"]) == ({"count": 2}, {"count": 4})
    assert study["study"]["trajectories"] == 500
    low, high = study["values"]["returns"]
    assert low <= world.q.min()
    assert world.q.max() <= high <= 1 / (1 - 0.95)


def walk(rewards, ends, discount=1.0):
    """Two states that lead to each other; the first may end with one of the rewards."""
    return MarkovRewardProcess(
        outcomes=Outcomes(
            states=2,
            actions=1,
            rows=[0, 1, *(0 for _ in ends)],
            probabilities=[1 / (1 + len(ends)), 1.0, *(1 / (1 + len(ends)) for _ in ends)],
            successors=[1, 0, *(END for _ in ends)],
            rewards=[*rewards, *ends],
        ),
        start=[1.0, 0.0],
        discount=discount,
    )


@pytest.mark.parametrize(
    ("rewards", "ends", "expected"),
    [
        ((0.0, 0.0), (2.0, -1.0), (-1.0, 2.0)),
        ((0.0, 0.0), (1.0,), (1.0, 1.0)),
        ((1.0, -1.0), (0.0, 5.0), (-1.0, 5.0)),  # what a loop pays it takes back
        ((1.0, -0.5), (0.0,), (-0.5, math.inf)),
        ((0.5, -1.0), (0.0,), (-math.inf, 0.0)),
        ((1e-14, 0.0), (0.0, 1.0), (0.0, math.inf)),  # a loop that pays next to nothing
        ((0.1, 0.0), (), (-math.inf, math.inf)),  # it never ends
    ],
)
def test_without_a_discount_a_range_may_have_no_end(rewards, ends, expected):
    assert return_range(walk(rewards, ends)) == expected


def test_returns_lie_within_their_range():
    low, high = return_range(walk((1.0, 1.0), (0.0,), discount=0.999999))
    assert low == 0
    assert 1e6 - 1e-3 < high < 1.001e6
    rows = simulate_episodes(GARNET, trajectories=3_000, seed=1)
    returns = rows.reward.copy()
    for row in range(len(rows) - 2, -1, -1):
        if rows.trajectory[row] == rows.trajectory[row + 1]:
            returns[row] += 0.95 * returns[row + 1]
    low, high = return_range(GARNET.process)
    assert low <= returns.min() < low + 0.1
    assert returns.max() <= high < 20


def test_where_returns_have_no_bound_the_study_says_so(tmp_path):
    """Bounds that only say where sweeps stopped would clamp what people really got."""
    write_truth(parse_world("garnet:seed=3,discount=1"), tmp_path, trajectories=10)
    text = (tmp_path / "study.toml").read_text()
    assert "returns" not in tomllib.loads(text)["values"]
    with refused("returns-missing"):
        pv.Study.load(tmp_path / "study.toml")
