"""``[actions]`` in a study: what is allowed, which keys follow, and what belongs to pairs."""

import numpy as np
import pandas as pd

import privalue as pv
from oracles.refusals import refused
from oracles.studies import make_study
from privalue.study import design

SSP = {"name": "dp-ssp", "calibration": "exact"}
STATES = {"labels": ["ill", "well"]}
ACTIONS = {"labels": ["wait", "treat"]}
ALLOWED = {"ill": ["treat", "wait"], "well": ["wait"]}  # in any order
PAIRS = ["ill, wait", "ill, treat", "well, wait", "well, treat"]


def actions_study(**sections):
    sections = {"mechanism": SSP, "states": STATES, "actions": ACTIONS, **sections}
    return make_study(**sections)


def labels_of(study):
    return [study.key_label(at) for at in range(study.key_count)]


def test_keys_are_pairs_state_after_state():
    study = actions_study(privacy={"max_states_per_trajectory": 3})
    limits = study.limits
    assert (study.names.count, study.key_count) == (2, 4)
    assert labels_of(study) == PAIRS
    assert (limits.keys, limits.arms, limits.max_keys_changed) == (4, 1, 4)
    assert limits.max_states_per_trajectory == 3
    assert actions_study().limits.max_states_per_trajectory == 4
    assert labels_of(actions_study(actions={"count": 3}))[:2] == ["ill, 0", "ill, 1"]


def test_only_allowed_pairs_are_keys(tmp_path):
    study = actions_study(actions={**ACTIONS, "allowed": ALLOWED})
    (tmp_path / "allowed.csv").write_text("state,action\nwell,wait\nill,treat\nill,wait\n")
    (tmp_path / "actions.csv").write_text("action\nwait\ntreat\n")
    (tmp_path / "study.toml").write_text(
        '[privacy]\nepsilon = 1\ndelta = 1e-6\nunit = "trajectory"\n'
        '[values]\ndiscount = 0.9\nreturns = [0, 1]\n[states]\nlabels = ["ill", "well"]\n'
        '[actions]\nfile = "actions.csv"\nallowed = "allowed.csv"\n'
    )
    read = pv.Study.load(tmp_path / "study.toml")
    assert labels_of(study) == labels_of(read) == PAIRS[:3]
    assert {"[actions] file", "[actions] allowed"} == {file.key for file in read.files}


# What belongs to pairs


MATRIX = np.arange(8.0).reshape(4, 2) + 1
ORDER = [2, 0, 3, 1]


def test_features_have_a_row_for_each_pair(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pairs = [PAIRS[at].split(", ") for at in ORDER]
    frame = pd.DataFrame(pairs, columns=["state", "action"]).assign(
        a=MATRIX[ORDER, 0], b=MATRIX[ORDER, 1]
    )
    frame.to_csv(tmp_path / "f.csv", index=False)
    np.save(tmp_path / "f.npy", MATRIX)
    indexed = frame.set_index(["state", "action"])
    for form in ("f.csv", "f.npy", MATRIX, indexed):
        key = "file" if isinstance(form, str) else "matrix"
        phi = design(actions_study(features={key: form})).phi
        assert np.asarray(phi).tolist() == MATRIX.tolist()
        shrunk = actions_study(features={key: form, "shrink": True})
        assert shrunk.shrink_targets.shape[0] == 4
    with refused("features-shape"):
        actions_study(features={"matrix": MATRIX[:2]})
