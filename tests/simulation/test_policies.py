"""Policies in every form that people have them in, wherever a world takes one."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import privalue as pv
from privalue.errors import StudyError
from privalue.policies import FORMS, policy_table
from privalue.simulation import garnet

STATES, ACTIONS = ("ill", "well"), ("wait", "treat", "send home")
TABLE = np.array([[0.25, 0.75, 0.0], [0.0, 0.5, 0.5]])
LONG = {
    "state": ["well", "ill", "ill", "well"],
    "action": ["treat", "wait", "treat", "send home"],
    "probability": [0.5, 0.25, 0.75, 0.5],
}
BY_STATE = {"ill": {"wait": 0.25, "treat": 0.75}, "well": [0.0, 0.5, 0.5]}

FORMS_OF_TABLE = {
    "array": TABLE,
    "lists": TABLE.tolist(),
    "wide frame": pd.DataFrame(TABLE, index=STATES, columns=ACTIONS).iloc[::-1, ::-1],
    "long frame": pd.DataFrame(LONG),
    "polars": pl.DataFrame(LONG),
    "arrow": pa.table(LONG),
    "by state": BY_STATE,
    "by pair": {(s, a): p for s, a, p in zip(*LONG.values(), strict=True)},
    "function": BY_STATE.get,
}


@pytest.mark.parametrize("form", FORMS_OF_TABLE)
def test_every_form_gives_the_same_table(form):
    table = policy_table(FORMS_OF_TABLE[form], states=STATES, actions=ACTIONS)
    assert table.tolist() == TABLE.tolist()
    assert not table.flags.writeable


@pytest.mark.parametrize("heading", ["state,action,probability\n", ""])
def test_a_file(tmp_path, heading):
    path = tmp_path / "policy.csv"
    path.write_text(f"{heading}well,treat,.5\nill,wait,.25\nill,treat,.75\nwell,send home,.5\n")
    for name in (path, str(path)):
        assert policy_table(name, states=STATES, actions=ACTIONS).tolist() == TABLE.tolist()


def test_one_action_for_each_state():
    certain = [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    for policy in (
        {"ill": "treat", "well": "send home"},
        lambda state: "treat" if state == "ill" else "send home",
    ):
        assert policy_table(policy, states=STATES, actions=ACTIONS).tolist() == certain


@pytest.mark.parametrize("key", [int, str, np.int64])
def test_whole_numbers_are_labels(key):
    by_state = {key(1): key(0), key(0): {key(0): 0.5, key(1): 0.5}}
    frame = pd.DataFrame([[0.5, 0.5], [1.0, 0.0]])
    for policy in (by_state, frame, lambda state: 0 if state else [0.5, 0.5]):
        table = policy_table(policy, states=2, actions=2)
        assert table.tolist() == [[0.5, 0.5], [1.0, 0.0]]


@pytest.mark.parametrize(
    "policy",
    [
        TABLE.T,
        TABLE[0],
        TABLE * np.nan,
        TABLE * 0.9,
        TABLE - [[0.5, -0.5, 0.0]] * 2,
        {"ill": "treat"},
        {"ill": "treat", "well": "operate"},
        {"ill": "treat", "dead": "treat"},
        {"ill": [0.5, 0.5], "well": [0.5, 0.5]},
        {"ill": {"treat": "much"}, "well": "treat"},
        {"ill": {"treat": np.nan, "wait": 1.0}, "well": "treat"},
        pd.DataFrame(TABLE, columns=ACTIONS),  # a default index is for numbered states
        pd.DataFrame({**LONG, "action": "treat"}),  # a pair twice
        pl.DataFrame(TABLE.T.tolist()),  # it has no index
        "missing.csv",
        42,
        None,
        pytest.param(object(), id="object"),
    ],
    ids=str,
)
def test_what_is_no_policy_is_refused(policy):
    with pytest.raises(StudyError) as refused:
        policy_table(policy, states=STATES, actions=ACTIONS)
    assert refused.value.code == "policy"


def test_one_message_says_which_forms_there_are():
    for policy in (TABLE.T, object(), 3.0, {"ill": [1.0], "well": [1.0]}):
        with pytest.raises(StudyError, match=r"array.*lists.*DataFrame.*mapping.*CSV.*function"):
            policy_table(policy, states=STATES, actions=ACTIONS)
    assert "nested lists" in FORMS


def test_worlds_take_every_form(tmp_path):
    rng = np.random.default_rng(4)
    table = rng.dirichlet(np.ones(2), size=4)
    path = tmp_path / "policy.csv"
    pd.DataFrame(
        [(s, a, table[s, a]) for s in range(4) for a in range(2)],
        columns=["state", "action", "probability"],
    ).to_csv(path, index=False)
    world = garnet(states=4, actions=2, branching=2, seed=1)
    forms = (table, table.tolist(), pd.DataFrame(table), dict(enumerate(table)), path, str(path))
    for policy in (*forms, lambda state: table[state]):
        assert world.under(policy).value == pytest.approx(world.mdp.value(table), rel=1e-12)
        assert pv.world(world, policy=policy).value == world.under(policy).value
        rows = pv.simulate(world, 30, policy=policy, seed=2, actions=True).to_pandas()
        np.testing.assert_allclose(rows.probability, table[rows.state, rows.action], rtol=1e-12)
    with pytest.raises(StudyError):
        pv.world(world, policy=table.T)


def test_an_improved_policy_goes_back_into_the_world():
    world = garnet(states=4, actions=2, branching=2, seed=1)
    study = pv.Study(
        states=4, actions=2, discount=0.95, returns=(0, 20), epsilon=1, delta=1e-6,
        unit="trajectory",
    )  # fmt: skip
    better = pv.improve(pv.release(study, pv.simulate(world, 20_000, actions=True), seed=1))
    assert world.under(better).value > world.value
