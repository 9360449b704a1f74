"""Worlds by name: texts, built-in worlds, ICU-Sepsis, and what is true of them."""

import csv
import json
import math
import tomllib
from importlib import metadata

import numpy as np
import pytest

import privalue as pv
from privalue.cli import run
from privalue.errors import MissingComponentError, StudyError, UsageError
from privalue.simulation import (
    END,
    MarkovRewardProcess,
    Outcomes,
    World,
    chain,
    garnet,
    icu_sepsis,
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


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("chain", "chain:N=40,p=0.5,start=uniform,discount=0.99"),
        (" chain : N = 3 , p = 0 ", "chain:N=3,p=0.0,start=uniform,discount=0.99"),
        (
            "garnet:N=9,A=2,seed=3,policy=optimal:0.5",
            "garnet:N=9,A=2,branching=3,least_end=0.02,most_end=0.25,seed=3,"
            "policy=optimal:0.5,start=uniform,discount=0.95",
        ),
    ],
)
def test_names_and_defaults(text, full):
    world = parse_world(text)
    assert world.text == full
    again = parse_world(full)
    assert again.values.tolist() == world.values.tolist()
    assert again.parameters == world.parameters


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("chian", "'chain'"),
        ("", "chain, garnet"),
        ("chain:n=3", "'N'"),
        ("garnet:states=20", "'N'"),
        ("garnet:actions=3", "'A'"),
        ("chain:stay=0.5", "'p'"),
        ("chain:strat=first", "'start'"),
        ("chain:seed=3", "known: N, p"),
        ("chain:N=3,N=4", "twice"),
        ("chain:N=3.5", "whole number"),
        ("chain:p=half", "a number"),
        ("garnet:policy=best", "uniform, greedy"),
        ("garnet:policy=optimal:1.5", "optimal:SHARE"),
        ("garnet:policy=expert", "uniform"),
        ("chain:first", "key=value"),
        ("gym", "gym:FrozenLake-v1"),
        ("chain:p=1", "staying"),
        ("chain:N=0", "from 1"),
        ("chain:start=last", "'first'"),
        ("chain:discount=2", "at most 1"),
        ("garnet:branching=21", "to 20"),
        ("garnet:least_end=0.5", "the least first"),
        ("icu-sepsis:N=3", "known: policy, discount"),
    ],
)
def test_what_names_no_world_is_refused_with_a_hint(text, hint):
    with pytest.raises(UsageError, match=hint):
        pv.world(text)


def test_the_chain_by_its_definition():
    world = chain(states=3, stay=0.25, discount=0.5)
    outcomes = world.process.outcomes
    assert outcomes.successors.tolist() == [0, 1, 1, 2, END]
    assert outcomes.probabilities.tolist() == [0.25, 0.75, 0.25, 0.75, 1.0]
    assert outcomes.rewards.tolist() == [0.0, 0.0, 0.0, 0.0, 1.0]
    # V(1) = (V(1) / 4 + 3 / 4) / 2 = 3 / 7.
    assert world.values == pytest.approx([9 / 49, 3 / 7, 1])
    assert chain(states=1).values.tolist() == [1.0]


def test_the_papers_chain():
    # [BGP16] section 6: N = 40, p = 0.5, gamma = 0.99; the start is uniform.
    process = parse_world("chain").process
    assert process.values[0] == pytest.approx((0.495 / 0.505) ** 39)
    assert process.visits.expected_length == pytest.approx(40)
    assert process.visits.single.sum() == pytest.approx(20.5)


def test_garnets_are_made_as_they_say():
    world = parse_world("garnet:N=30,A=5,branching=4,least_end=0.1,most_end=0.3,seed=9")
    outcomes = world.mdp.outcomes
    ends = outcomes.probabilities[outcomes.successors == END]
    assert ends.size == 150
    assert 0.1 <= ends.min() < 0.15
    assert 0.25 < ends.max() <= 0.3
    assert np.all(np.bincount(outcomes.rows) == 5)  # four successors and the end
    assert 0 <= outcomes.rewards.min() < 0.05
    assert 0.95 < outcomes.rewards.max() < 1
    assert garnet(states=30, actions=5, branching=4, seed=10).value != world.value


def test_policies_by_name():
    best = GARNET.optimal_policy
    assert GARNET.under("optimal").value == GARNET.under("greedy").value == GARNET.mdp.value(best)
    half = GARNET.under("optimal:0.5")
    np.testing.assert_allclose(half.policy, best / 2 + 1 / 4)
    assert parse_world(half.text).value != half.value or half.text == parse_world(half.text).text
    assert ",policy=given," in GARNET.under(TABLE).text
    assert World.of(GARNET.mdp, TABLE, name="mine").text == "mine:policy=given"


def test_where_nobody_chooses():
    for ask in (lambda w: w.under("uniform"), lambda w: w.key_visits, lambda w: w.q):
        with pytest.raises(StudyError, match="nobody chooses"):
            ask(chain(states=3))


def test_ground_truth_from_the_package():
    world = pv.world("garnet:N=4,A=2,branching=2,seed=1", policy=TABLE, discount=0.5)
    assert world.value == world.mdp.start @ world.values
    np.testing.assert_allclose((world.q * world.policy).sum(axis=1), world.values)
    assert world.mdp.discount == world.process.discount == 0.5
    assert world.under(world.optimal_policy).value >= world.value
    assert world.visits.shape == (4,)
    assert pv.world(GARNET.mdp).value == pytest.approx(GARNET.value)


# ICU-Sepsis


@needs_icu_sepsis
def test_icu_sepsis_its_size_and_its_ends():
    world = parse_world("icu-sepsis")
    process = world.process
    assert world.text == "icu-sepsis:policy=expert,discount=0.99"
    process.require_end()
    # Death, survival and the empty state are final observations: no rows.
    assert process.visits.single[713:].tolist() == [0, 0, 0]
    assert process.values[713:].tolist() == [0, 0, 0]
    assert np.all(process.visits.single[:713] > 0)
    assert process.reward_bounds == (0, 1)


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


def test_without_its_data_icu_sepsis_says_what_to_install(monkeypatch):
    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "files", missing)
    with pytest.raises(MissingComponentError, match="pip install --no-deps icu-sepsis"):
        icu_sepsis()


# What is true, in files


def rows_of(path):
    with path.open() as file:
        return list(csv.reader(file))


def test_what_is_true_is_written_beside_the_rows(tmp_path):
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


@pytest.mark.parametrize("discount", [0.99, 1.0])
def test_where_nobody_chooses_there_are_values_alone(discount, tmp_path):
    files = write_truth(chain(states=4, discount=discount), tmp_path, trajectories=10)
    assert [file.name for file in files] == ["study.toml", "values.csv", "start.csv"]
    assert pv.Study.load(tmp_path / "study.toml").return_bounds == (0, 1)
    values = [float(value) for _, value in rows_of(tmp_path / "values.csv")[1:]]
    assert values == chain(states=4, discount=discount).values.tolist()


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
    with pytest.raises(StudyError, match="returns"):
        pv.Study.load(tmp_path / "study.toml")


@pytest.mark.parametrize("third", [1 / 3, -1 / 3, 1e-9])
def test_bounds_of_returns_are_rounded_outwards(third, tmp_path):
    process = walk((0.0, 0.0), (third, 0.0), discount=0.99)
    write_truth(World(name="third", parameters={}, process=process), tmp_path, trajectories=1)
    low, high = tomllib.loads((tmp_path / "study.toml").read_text())["values"]["returns"]
    assert low <= min(third, 0) <= max(third, 0) <= high


def test_the_command_writes_rows_and_truth(tmp_path, capsys):
    rows, truth, policy = tmp_path / "rows.csv", tmp_path / "truth", tmp_path / "policy.csv"
    pairs = [f"{s},{a},{TABLE[s, a]}" for s in range(4) for a in range(2)]
    policy.write_text("\n".join(["state,action,probability", *pairs]))
    world = "garnet:N=4,A=2,branching=2,seed=1"
    asked = ["simulate", world, "--trajectories", "20", "--out", str(rows)]
    assert run([*asked, "--policy", str(policy), "--actions", "--truth", str(truth), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["actions"] == 2
    assert said["truth"][0] == str(truth / "study.toml")
    assert rows_of(rows)[0] == ["trajectory", "step", "state", "reward", "action", "probability"]
    np.testing.assert_allclose(GARNET.under(truth / "policy.csv").policy, TABLE)
    assert run([*asked, "--force", "--policy", "optimal:0.5"]) == 0  # and no truth this time
    assert rows_of(rows)[0] == ["trajectory", "step", "state", "reward"]
    for options in (
        ["chain", "--actions"],
        ["chain", "--policy", "uniform"],
        ["garnet", "--policy", "best"],
    ):
        out = ["--trajectories", "2", "--out", str(tmp_path / "others.csv")]
        assert run(["simulate", *options, *out]) == 2


def test_the_study_counts_what_is_true(tmp_path):
    """Means of first visits of pairs are Q, that of dynamic programming."""
    world = GARNET.under(TABLE)
    rows = pv.simulate(world, 20_000, seed=9, actions=True)
    write_truth(world, tmp_path, trajectories=20_000, actions=True)
    study = pv.Study.load(tmp_path / "study.toml")
    found = pv.inspect(study, rows).private_fields()
    counts, means = (np.reshape(found[name], (4, 2)) for name in ("counts", "mean_returns"))
    np.testing.assert_allclose(counts / 20_000, world.key_visits, atol=7 * 0.5 / np.sqrt(20_000))
    taken = TABLE > 0
    reach = 0.5 * (study.return_bounds[1] - study.return_bounds[0])
    off = np.abs(means - world.q)
    assert np.all(off[taken] < 7 * reach / np.sqrt(counts[taken]))
    assert off[taken].max() < 0.1
    assert np.abs(means - world.mdp.q(world.optimal_policy))[taken].max() > 0.5
