"""``[actions]`` in a study: what is allowed, which keys follow, and what belongs to pairs."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privalue as pv
from oracles.studies import mechanism_for, study
from privalue.study import declared_size, design, study_template

SSP = {"name": "dp-ssp", "calibration": "exact"}
STATES = {"labels": ["ill", "well"]}
ACTIONS = {"labels": ["wait", "treat"]}
ALLOWED = {"ill": ["treat", "wait"], "well": ["wait"]}  # in any order
PAIRS = ("ill, wait", "ill, treat", "well, wait", "well, treat")


def described(**sections):
    sections = {"mechanism": SSP, "states": STATES, "actions": ACTIONS, **sections}
    return study(**sections)


def test_keys_are_pairs_state_after_state():
    chosen = described(privacy={"max_states_per_trajectory": 3})
    assert (chosen.state_count, chosen.action_count, chosen.key_count) == (2, 2, 4)
    assert chosen.key_names == PAIRS
    limits = chosen.limits
    assert (limits.keys, limits.arms, limits.max_states_per_trajectory, limits.touched) == (
        4,
        1,
        3,
        4,
    )
    assert described().states_per_trajectory == 4
    assert described(actions={"count": 3}).key_names[:2] == ("ill, 0", "ill, 1")


def test_only_allowed_pairs_are_keys(tmp_path):
    chosen = described(actions={**ACTIONS, "allowed": ALLOWED})
    assert chosen.key_names == PAIRS[:3]
    (tmp_path / "allowed.csv").write_text("state,action\nwell,wait\nill,treat\nill,wait\n")
    (tmp_path / "actions.csv").write_text("action\nwait\ntreat\n")
    (tmp_path / "study.toml").write_text(
        '[privacy]\nepsilon = 1\ndelta = 1e-6\nunit = "trajectory"\n'
        '[values]\ndiscount = 0.9\nreturns = [0, 1]\n[states]\nlabels = ["ill", "well"]\n'
        '[actions]\nfile = "actions.csv"\nallowed = "allowed.csv"\n'
    )
    read = pv.Study.load(tmp_path / "study.toml")
    assert read.key_names == PAIRS[:3]
    assert {"[actions] file", "[actions] allowed"} == read.side_files.keys()
    saved = read.replace(epsilon=2.0).save(tmp_path / "copy" / "study.toml")
    assert pv.Study.load(saved) == read.replace(epsilon=2.0)
    by_hand = chosen.save(tmp_path / "other.toml")
    assert pv.Study.load(by_hand).key_names == PAIRS[:3]


def test_without_actions_nothing_is_said_of_them():
    """Hashes of studies stay what they were, and an empty section is none."""
    plain = study(3, mechanism=SSP)
    described_ = plain.public_description()
    assert "actions" not in described_
    assert "action" not in described_["data"]
    assert study(3, mechanism=SSP, actions={}) == plain
    assert plain.pairs is None
    assert described().replace(actions=None).pairs is None


def test_keywords_stand_for_the_section():
    keys = {"states": ["ill", "well"], "discount": 0.9, "returns": (0, 1)}
    keys |= {"epsilon": 1.0, "delta": 1e-6, "unit": "trajectory"}
    labelled = pv.Study(**keys, actions=["wait", "treat"], columns={"action": "drug"})
    assert labelled.key_names == PAIRS
    assert labelled.data.action == "drug"
    assert pv.Study(**keys, actions=2).key_names[0] == "ill, 0"
    some = pv.Study(**keys, actions=["wait", "treat"], allowed=ALLOWED)
    assert some.replace(actions=["wait", "treat"]).key_count == 3
    with pytest.raises(pv.StudyError, match="actions = True is not allowed; it must be how many"):
        pv.Study(**keys, actions=True)


WRONG = {
    "two ways": ({"count": 2, "labels": ["a"]}, "exactly one of the keys count, labels and file"),
    "no way": ({"allowed": ALLOWED}, "exactly one of the keys count, labels and file"),
    "twice": ({"labels": ["a", "a"]}, r'\[actions\] the label "a" appears 2 times'),
    "none": ({"labels": []}, r"\[actions\] labels must be a list of at least one text"),
    "NUL": ({"labels": ["a\0"]}, "none empty or with NUL"),
    "too many": ({"count": 2**31 - 1}, "a whole number from 1 to 10000000"),
    "a state": (
        {**ACTIONS, "allowed": {"ill": ["wait"], "dead": ["wait"]}},
        'allowed names "dead, wait", which is not a pair of the study',
    ),
    "an action": (
        {**ACTIONS, "allowed": {"ill": ["wait"], "well": ["cut"]}},
        'allowed names "well, cut", which is not a pair of the study',
    ),
    "a state without any": (
        {**ACTIONS, "allowed": {"ill": ["wait"]}},
        'leaves 1 of 2 states without an action, the first of them "well"; every state needs one',
    ),
    "a pair twice": (
        {**ACTIONS, "allowed": {"ill": ["wait", "wait"], "well": ["wait"]}},
        'allowed names the pair "ill, wait" twice',
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_refused(what):
    actions, words = WRONG[what]
    with pytest.raises(pv.StudyError, match=words):
        described(actions=actions)


@pytest.mark.parametrize("name", ["dp-lsw", "dp-lsl"])
def test_only_dp_ssp_releases_them(name):
    with pytest.raises(pv.StudyError, match=rf'\[actions\] needs dp-ssp.*"{name}".*use "dp-ssp"'):
        described(mechanism={"name": name, "calibration": "exact"})


def test_what_does_not_go_with_actions():
    with pytest.raises(pv.StudyError, match=r"\[actions\] and \[arms\] do not go together"):
        described(arms={"labels": ["a", "b"]})
    with pytest.raises(pv.StudyError, match='both name the column "state"'):
        described(data={"action": "state"})
    with pytest.raises(pv.StudyError, match="names the column of actions, and there are none"):
        study(3, mechanism=SSP, data={"action": "drug"})
    with pytest.raises(pv.StudyError, match='both name the column "action"'):
        described(states={"bins": {"action": [1.0]}})


# What belongs to pairs


def test_visits_are_of_states_or_of_pairs(tmp_path, monkeypatch):
    by_state, by_pair = [0.5, 0.5, 0.25, 0.25], [0.1, 0.2, 0.3, 0.4]
    nested = {"ill": {"wait": 0.1, "treat": 0.2}, "well": {"wait": 0.3, "treat": 0.4}}
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.csv").write_text("state,probability\nill,1\nwell,0.5\n")
    (tmp_path / "p.csv").write_text(
        "state,action,probability\nwell,treat,.4\nwell,wait,.3\nill,wait,.1\nill,treat,.2\n"
    )
    for given, found in (
        ([1.0, 0.5], by_state),
        ({"ill": 1.0, "well": 0.5}, by_state),
        ("s.csv", by_state),
        (by_pair, by_pair),
        (nested, by_pair),
        ("p.csv", by_pair),
    ):
        chosen = described(states={**STATES, "visits": given})
        assert chosen.key_visits == pytest.approx(found)
        shape = mechanism_for(chosen, design(chosen), declared_size(chosen)).terms.constants.shape
        assert len(shape) == 4
    with pytest.raises(pv.StudyError, match='leaves out 1 of 4 pairs, the first of them "well, tr'):
        described(states={**STATES, "visits": {**nested, "well": {"wait": 0.1}}})
    with pytest.raises(pv.StudyError, match="visits is by state and action"):
        described(actions={}, states={**STATES, "visits": nested})


def test_weights_and_start_are_of_states():
    chosen = described(
        weights={"values": [1.0, 2.0]},
        values={"start": {"ill": 1.0}},
        actions={**ACTIONS, "allowed": ALLOWED},
    )
    assert chosen.key_weights.tolist() == [1.0, 1.0, 2.0]
    assert chosen.start_distribution.tolist() == [1.0, 0.0]


MATRIX = np.arange(8.0).reshape(4, 2) + 1
ORDER = [2, 0, 3, 1]


def pairs_of(rows):
    return [tuple(PAIRS[at].split(", ")) for at in rows]


def files_of(folder):
    states, actions = zip(*pairs_of(ORDER), strict=True)
    columns = {"state": list(states), "action": list(actions)}
    columns |= {f"x{at}": MATRIX[ORDER, at] for at in (0, 1)}
    pq.write_table(pa.table(columns), folder / "f.parquet")
    pd.DataFrame(columns).to_csv(folder / "f.csv", index=False)
    np.save(folder / "f.npy", MATRIX)
    return columns


def test_features_have_a_row_for_each_pair(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    columns = files_of(tmp_path)
    frame = pd.DataFrame(columns).set_index(["state", "action"])
    for given in ("f.csv", "f.parquet", "f.npy", MATRIX, frame, pl.DataFrame(columns)):
        key = "file" if isinstance(given, str) else "matrix"
        chosen = described(features={key: given})
        assert np.asarray(design(chosen).phi).tolist() == MATRIX.tolist()
        shrunk = described(features={key: given, "shrink": True})
        assert shrunk.shrink_targets.shape[0] == 4
    with pytest.raises(pv.StudyError, match="it needs a row for each of the 4 pairs"):
        described(features={"matrix": MATRIX[:2]})
    with (tmp_path / "f.csv").open("a") as more:
        more.write("ill,wait,1,2\n")
    with pytest.raises(pv.StudyError, match='names the pair "ill, wait" twice'):
        described(features={"file": "f.csv"})


def test_adjacent_states_are_tied_for_each_action():
    chosen = study(
        4,
        mechanism=SSP,
        actions={"count": 2, "allowed": {"0": [1], "1": [0, 1], "2": [0], "3": [0]}},
        features={"size": 2},
    )
    # The keys: (0, 1), (1, 0), (1, 1), (2, 0), (3, 0)
    assert design(chosen).phi.toarray().sum(axis=0).tolist() == [2.0, 1.0, 2.0]


def test_a_template_shows_the_section():
    text = study_template()
    assert "[actions]" in text
    assert '# allowed = "allowed.csv"' in text
    assert '# action = "drug"' in text
    assert pv.Study.parse(text).pairs is None
