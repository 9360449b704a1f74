"""Policies in every form that is read, from Python and in a study; ``[policy]``."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privalue as pv
from oracles.refusals import refused
from privalue.ledger import study_hash
from privalue.study import policy_table

STATES, ACTIONS = ("ill", "well"), ("wait", "treat", "send home")
TABLE = np.array([[0.25, 0.75, 0.0], [0.0, 0.5, 0.5]])
LONG = {
    "state": ["well", "ill", "ill", "well"],
    "action": ["treat", "wait", "treat", "send home"],
    "probability": [0.5, 0.25, 0.75, 0.5],
}
BY_STATE = {"ill": {"wait": 0.25, "treat": 0.75}, "well": [0.0, 0.5, 0.5]}
FORMS = {
    "array": TABLE,
    "lists": TABLE.tolist(),
    "wide frame": pd.DataFrame(TABLE, index=STATES, columns=ACTIONS).iloc[::-1, ::-1],
    "long frame": pd.DataFrame(LONG),
    "polars": pl.DataFrame(LONG),
    "arrow": pa.table(LONG),
    "by state": BY_STATE,
    "function": BY_STATE.get,
}
KEYWORDS = {
    "states": STATES,
    "actions": ACTIONS,
    "discount": 1.0,
    "returns": (0, 1),
    "epsilon": 1.0,
    "unit": "trajectory",
    "mechanism": "dp-ope",
}


def valuing(target, behaviour=TABLE, **changes):
    policy = {"target": target, "behaviour": behaviour, "clip": 5.0}
    return pv.Study(**{**KEYWORDS, **changes}, policy=policy)


def tables_of(policy, **names):
    """The same policy, read by a world and by a study."""
    names = {"states": STATES, "actions": ACTIONS, **names}
    table = policy_table(policy, **names)
    assert not table.flags.writeable
    read = valuing(policy, np.full(table.shape, 1 / table.shape[1]), **names).policies["target"]
    assert read.tolist() == table.ravel().tolist()
    return table.tolist()


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_table_and_the_same_request(form):
    assert tables_of(FORMS[form]) == TABLE.tolist()
    study = valuing(FORMS[form], behaviour=FORMS[form])
    description = study.public_description()
    assert description["policy"]["target"]["ill"] == {"wait": 0.25, "treat": 0.75}
    assert study_hash(description) == study_hash(valuing(TABLE).public_description())
    assert pv.Study.from_description(description) == study
    assert study.replace(epsilon=2).policies["target"].tolist() == TABLE.ravel().tolist()


@pytest.mark.parametrize("heading", ["state,action,probability\n", ""])
def test_a_policy_is_read_from_a_file(tmp_path, heading):
    path = tmp_path / "policy.csv"
    path.write_text(f"{heading}well,treat,.5\nill,wait,.25\nill,treat,.75\nwell,send home,.5\n")
    assert tables_of(path) == tables_of(str(path)) == TABLE.tolist()
    pq.write_table(pa.table(LONG), tmp_path / "policy.parquet")
    assert tables_of(tmp_path / "policy.parquet") == TABLE.tolist()
    study = valuing(path, behaviour=str(path))
    assert {file.key for file in study.files} == {"[policy] target", "[policy] behaviour"}


@pytest.mark.parametrize(
    ("policy", "code"),
    [
        (TABLE.T, "policy-form"),
        (TABLE[0], "policy-form"),
        ([[0.5, 0.5], [1.0]], "policy-form"),
        ({"ill": [0.5, 0.5], "well": [0.5, 0.5]}, "policy-form"),
        (pl.DataFrame(TABLE.T.tolist()), "policy-form"),  # it has no index
        (42, "policy-form"),
        (object(), "policy-form"),
        (TABLE * np.nan, "policy-not-probabilities"),
        (TABLE - [[0.5, -0.5, 0.0]] * 2, "policy-not-probabilities"),
        ({"ill": {"treat": "much"}, "well": "treat"}, "policy-not-probabilities"),
        ({"ill": {"treat": np.nan, "wait": 1.0}, "well": "treat"}, "policy-not-probabilities"),
        (TABLE * 0.9, "policy-sum"),
        ({"ill": "treat"}, "policy-sum"),
        ({"ill": "treat", "well": "operate"}, "label-unknown"),
        ({"ill": "treat", "dead": "treat"}, "label-unknown"),
        (pd.DataFrame(TABLE, columns=ACTIONS), "label-unknown"),  # a default index is of numbers
        (pd.DataFrame({**LONG, "action": "treat"}), "label-twice"),
        ("missing.csv", "side-file-missing"),
    ],
    ids=lambda form: type(form).__name__,
)
def test_an_invalid_policy_has_the_same_code_everywhere(policy, code):
    with refused(code):
        policy_table(policy, states=STATES, actions=ACTIONS)
    with refused(code):
        valuing(policy)


def test_weight_on_a_pair_that_is_not_allowed_is_refused():
    allowed = {"ill": ["wait", "treat"], "well": ["treat", "send home"]}
    study = valuing(TABLE, allowed=allowed)
    assert study.policies["target"].tolist() == [0.25, 0.75, 0.5, 0.5]
    for target in (TABLE[::-1], {"ill": "send home", "well": "treat"}):
        with refused("policy-not-allowed"):
            valuing(target, allowed=allowed)


def test_limits_and_columns_of_a_policy():
    study = valuing(TABLE)
    assert (study.limits.keys, study.limits.max_states_per_trajectory) == (1, 1)
    assert study.limits.clip == 5.0
    assert study.privacy.delta == 0.0
    assert "probability" not in study.public_description()["data"]
    by_start = study.replace(policy={"target": TABLE, "behaviour": TABLE, "clip": 2, "by": "start"})
    assert by_start.limits.keys == len(STATES)
    assert valuing(TABLE, behaviour="column").policies.keys() == {"target"}


def test_ends_need_no_action_and_may_have_one():
    """A world's states that end a trajectory are no states of the study."""
    lake = pv.world("gym:FrozenLake-v1")
    ends = [5, 7, 11, 12, 15]
    inner = {state: state % 4 for state in range(16) if state not in ends}
    whole = {state: state % 4 for state in range(16)}
    assert lake.under(inner).value == lake.under(pd.Series(whole)).value
    with refused("policy-sum"):
        lake.under({state: 0 for state in inner if state})
    names = {"states": 16, "ends": ends, "actions": 4}
    both = (valuing(policy, np.full((11, 4), 0.25), **names) for policy in (inner, whole))
    assert np.array_equal(*(study.policies["target"] for study in both))
