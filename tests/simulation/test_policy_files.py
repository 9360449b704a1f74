"""Policies and truths in files, and the rows of people who follow them."""

import csv
import json
import math
import tomllib

import numpy as np
import pyarrow.parquet
import pytest

import privalue as pv
from privalue.cli import run
from privalue.errors import StudyError, UsageError
from privalue.simulation import (
    END,
    MarkovRewardProcess,
    Outcomes,
    Policy,
    chain,
    garnet,
    parse_world,
    policy_of,
    read_policy,
    return_range,
    simulate_episodes,
    write_policy,
    write_truth,
)

WORLD = garnet(states=4, actions=2, branching=2, seed=1)
TABLE = np.array([[1.0, 0.0], [0.25, 0.75], [1 / 3, 2 / 3], [0.5, 0.5]])


def rows_of(path):
    with path.open() as file:
        return list(csv.reader(file))


def test_a_policy_comes_back_as_it_went(tmp_path):
    path = tmp_path / "policy.csv"
    write_policy(Policy(probabilities=TABLE), path)
    assert rows_of(path)[:3] == [
        ["state", "action", "probability"],
        ["0", "0", "1.0"],
        ["1", "0", "0.25"],
    ]
    read = read_policy(path, states=4, actions=2)
    assert read.probabilities.tolist() == Policy(probabilities=TABLE).probabilities.tolist()
    world = policy_of(WORLD, path)
    assert world.policy.probabilities.tolist() == read.probabilities.tolist()
    assert world.process.start_value == WORLD.mdp.value(read)
    assert policy_of(WORLD, "greedy").text == WORLD.under("greedy").text
    assert policy_of(WORLD, read).process.start_value == world.process.start_value


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("0,0,1\n4,0,1\n", UsageError, "line 2: state 4, action 0; this world has states 0 to 3"),
        ("0,0,1\n0,0,1\n", UsageError, "line 2: state 0, action 0 a second time"),
        ("0,0\n", UsageError, "line 1: '0,0'; it must be a state, an action and a probability"),
        ("state,action,probability\nill,0,1\n", UsageError, "line 2: 'ill,0,1'"),
        ("0,0,1\n1,0,1\n2,0,1\n3,0,0.5\n", StudyError, "in state 3 sum to 0.5"),
        ("0,0,1\n", StudyError, "in state 1 sum to 0"),
    ],
)
def test_a_file_that_is_no_policy_is_named(tmp_path, text, error, message):
    path = tmp_path / "policy.csv"
    path.write_text(text)
    with pytest.raises(error, match=message):
        read_policy(path, states=4, actions=2)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"cannot read the policy .*none\.csv"):
        policy_of(WORLD, tmp_path / "none.csv")


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet"])
def test_rows_with_actions_in_files(tmp_path, name):
    out = tmp_path / name
    pv.simulate(WORLD, 30, seed=5, out=out, actions=True, policy=Policy(probabilities=TABLE))
    expected = simulate_episodes(
        WORLD.under(Policy(probabilities=TABLE)), trajectories=30, seed=5, actions=True
    )
    if name.endswith(".csv"):
        table = pyarrow.csv.read_csv(out)
    else:
        table = pyarrow.parquet.read_table(out)
        assert json.loads(table.schema.metadata[b"privalue"])["parameters"]["policy"] == "given"
    assert table.column_names == ["trajectory", "step", "state", "reward", "action", "probability"]
    for column in table.column_names:
        assert table[column].to_pylist() == getattr(expected, column).tolist()
    memory = pv.simulate(WORLD, 30, seed=5, actions=True, columns={"action": "dose"})
    assert memory.column_names[-2:] == ["dose", "probability"]


def test_what_is_true_is_written_beside_the_rows(tmp_path):
    world = WORLD.under(Policy(probabilities=TABLE))
    files = write_truth(world, tmp_path / "truth", trajectories=500, actions=True)
    assert sorted(path.name for path in (tmp_path / "truth").iterdir()) == sorted(
        path.name for path in files
    )
    values = {(int(s), int(a)): float(v) for s, a, v in rows_of(files[3])[1:]}
    assert files[3].name == "action_values.csv"
    q = world.mdp.q(world.policy)
    assert values == {(s, a): q[s, a] for s in range(4) for a in range(2)}
    read = read_policy(tmp_path / "truth" / "optimal.csv", states=4, actions=2)
    assert world.mdp.value(read) == world.mdp.value(world.mdp.optimal())
    study = tomllib.loads((tmp_path / "truth" / "study.toml").read_text())
    assert study["actions"] == {"count": 2}
    assert study["states"] == {"count": 4}
    assert study["study"]["trajectories"] == 500
    low, high = study["values"]["returns"]
    assert low <= q.min()
    assert q.max() <= high <= 1 / (1 - 0.95)


@pytest.mark.parametrize("discount", [0.99, 1.0])
def test_where_nobody_chooses_there_are_values_alone(discount, tmp_path):
    files = write_truth(chain(states=4, discount=discount), tmp_path, trajectories=10)
    assert [file.name for file in files] == ["study.toml", "values.csv", "start.csv"]
    study = pv.Study.load(tmp_path / "study.toml")
    assert study.return_bounds == (0, 1)
    assert study.state_count == 4
    values = [float(value) for _, value in rows_of(tmp_path / "values.csv")[1:]]
    assert values == chain(states=4, discount=discount).process.values.tolist()


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"cannot write to .*file: .*; choose another folder"):
        write_truth(WORLD, tmp_path / "file", trajectories=1)


def test_returns_range_from_the_worst_to_the_best_that_can_happen():
    assert return_range(parse_world("chain:N=10").process) == (0, 1)
    rows = simulate_episodes(WORLD, trajectories=3_000, seed=1)
    low, high = return_range(WORLD.process)
    returns = rows.reward.copy()
    for row in range(len(rows) - 2, -1, -1):
        if rows.trajectory[row] == rows.trajectory[row + 1]:
            returns[row] += 0.95 * returns[row + 1]
    assert low <= returns.min() < low + 0.1
    assert returns.max() <= high
    assert high < 20


def walk(rewards, ends, discount=1.0):
    """Two states that lead to each other; the first may end with one of the rewards."""
    return MarkovRewardProcess(
        outcomes=Outcomes.collect(
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
        ((0.1, 0.0), (), (-math.inf, math.inf)),  # it never ends
    ],
)
def test_without_a_discount_a_range_may_have_no_end(rewards, ends, expected):
    assert return_range(walk(rewards, ends)) == expected


def test_a_discount_near_one_still_bounds_returns():
    low, high = return_range(walk((1.0, 1.0), (0.0,), discount=0.999999))
    assert low == 0
    assert 1e6 - 1e-3 < high < 1.001e6


def test_where_returns_have_no_bound_the_study_says_so(tmp_path):
    """Bounds that only say where sweeps stopped would clamp what people really got."""
    world = parse_world("garnet:seed=3,discount=1")
    assert return_range(world.process)[1] == math.inf
    write_truth(world, tmp_path, trajectories=10)
    text = (tmp_path / "study.toml").read_text()
    assert "returns" not in tomllib.loads(text)["values"]
    assert "# Returns of this world have no bound: without a discount" in text
    with pytest.raises(StudyError, match="returns"):
        pv.Study.load(tmp_path / "study.toml")


def test_the_command_writes_rows_and_truth(tmp_path, capsys):
    rows, truth, policy = tmp_path / "rows.csv", tmp_path / "truth", tmp_path / "policy.csv"
    world = "garnet:N=4,A=2,branching=2,seed=1"
    asked = ["simulate", world, "--trajectories", "20", "--out", str(rows)]
    write_policy(Policy(probabilities=TABLE), policy)
    assert run([*asked, "--policy", str(policy), "--actions", "--truth", str(truth), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["actions"] == 2
    assert said["truth"][0] == str(truth / "study.toml")
    assert rows_of(rows)[0] == ["trajectory", "step", "state", "reward", "action", "probability"]
    written = read_policy(truth / "policy.csv", states=4, actions=2)
    assert written.probabilities.tolist() == Policy(probabilities=TABLE).probabilities.tolist()
    assert run([*asked, "--force", "--policy", "optimal:0.5"]) == 0  # and no truth this time
    assert "policy=optimal:0.5" in capsys.readouterr().out
    assert rows_of(rows)[0] == ["trajectory", "step", "state", "reward"]


@pytest.mark.parametrize(
    ("world", "options", "message"),
    [
        ("chain", ["--actions"], "--actions: nobody chooses in the world chain"),
        ("chain", ["--policy", "uniform"], "nobody chooses in the world chain"),
        ("garnet", ["--policy", "best"], "policy is 'best'"),
    ],
)
def test_the_command_names_what_is_wrong(tmp_path, capsys, world, options, message):
    out = ["--trajectories", "2", "--out", str(tmp_path / "rows.csv")]
    assert run(["simulate", world, *out, *options]) == 2
    assert message in capsys.readouterr().err


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    """Rows, and what was written beside them."""
    out = tmp_path_factory.mktemp("simulated")
    world = WORLD.under(Policy(probabilities=TABLE))
    rows = pv.simulate(world, 20_000, seed=9, actions=True)
    write_truth(world, out, trajectories=20_000, actions=True)
    return world, rows, pv.Study.load(out / "study.toml")


def test_the_study_counts_what_is_true(simulated):
    """Means of first visits of pairs are Q, that of dynamic programming."""
    world, rows, study = simulated
    found = pv.inspect(study, rows).private_fields()
    counts, means = np.array(found["counts"]).reshape(4, 2), np.array(found["mean_returns"])
    shares = counts / 20_000
    np.testing.assert_allclose(shares, world.key_visits, atol=7 * 0.5 / np.sqrt(20_000))
    taken = TABLE > 0
    reach = 0.5 * (study.return_bounds[1] - study.return_bounds[0])
    off = np.abs(means.reshape(4, 2) - world.mdp.q(world.policy))
    assert np.all(off[taken] < 7 * reach / np.sqrt(counts[taken]))
    assert off[taken].max() < 0.1
    assert np.abs(means.reshape(4, 2) - world.mdp.q(world.mdp.optimal()))[taken].max() > 0.5


def test_an_improved_policy_goes_back_into_the_world(simulated, tmp_path):
    world, rows, study = simulated
    pv.improve(pv.release(study, rows, seed=1)).save(tmp_path / "policy.csv")
    better = read_policy(tmp_path / "policy.csv", states=4, actions=2)
    assert world.mdp.value(better) > world.process.start_value
    assert pv.simulate(world, 10, policy=tmp_path / "policy.csv").num_rows >= 10
