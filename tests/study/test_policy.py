"""``[policy]``: what a study must say to value another policy, and what it may not."""

import numpy as np
import pandas as pd
import pytest

import privalue as pv
from privalue.errors import StudyError

BEHAVIOUR = {"0": {"0": 0.5, "1": 0.5}, "1": {"0": 0.3, "1": 0.7}}
TARGET = {"0": {"0": 0.2, "1": 0.8}, "1": {"1": 1.0}}


def described(**changes):
    policy = {"target": TARGET, "behaviour": BEHAVIOUR, "clip": 5.0} | changes.pop("policy", {})
    keywords = {
        "states": 2, "actions": 2, "discount": 1.0, "returns": (0, 1), "epsilon": 1.0,
        "unit": "trajectory", "mechanism": "dp-ope",
        "policy": {key: v for key, v in policy.items() if v is not None},
    }  # fmt: skip
    return pv.Study(**{key: v for key, v in (keywords | changes).items() if v is not None})


def test_it_resolves_to_two_policies_and_limits():
    study = described()
    assert study.policies.target.tolist() == [0.2, 0.8, 0.0, 1.0]
    assert study.policies.behaviour.tolist() == [0.5, 0.5, 0.3, 0.7]
    assert (study.limits.keys, study.limits.max_states_per_trajectory, study.limits.clip) == (
        1,
        1,
        5.0,
    )
    assert study.privacy.delta == 0.0
    by_start = described(policy={"by": "start"})
    assert by_start.limits.keys == 2
    assert list(by_start.start_names) == [0, 1]
    logged = described(policy={"behaviour": "column"})
    assert logged.policies.behaviour is None
    assert "probability" not in study.public_description()["data"]
    assert pv.Study.from_description(study.public_description()) == study


def test_other_studies_are_described_as_they_were():
    study = pv.Study(
        states=2, discount=0.9, returns=(0, 1), epsilon=1.0, delta=1e-6, unit="trajectory"
    )
    assert "policy" not in study.public_description()
    assert "probability" not in study.public_description()["data"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"actions": None}, r"\[actions\] is missing: to value another policy, actions must be"),
        ({"policy": {"target": None}}, r"\[policy\] target is missing"),
        (
            {"policy": {"behaviour": None}},
            r"\[policy\] behaviour is missing; it must be",
        ),
        ({"policy": {"behaviour": "no.csv"}}, r"\"no.csv\" cannot be read: it does not exist"),
        ({"policy": {"clip": None}}, r"\[policy\] clip is missing"),
        ({"mechanism": "dp-ssp", "delta": 1e-6}, r"\[policy\] is for dp-ope, and .* \"dp-ssp\""),
        ({"delta": 1e-6}, "delta = 1e-06: the Laplace noise of dp-ope promises epsilon alone"),
        ({"noise": "isotropic"}, "noise applies to dp-lsl and dp-lsw only"),
        ({"max_states_per_trajectory": 2}, r"max_states_per_trajectory has no effect with dp-ope"),
        ({"start": [0.5, 0.5]}, r"\[values\] start has no effect with dp-ope"),
        ({"visits": [0.5, 0.5]}, r"\[states\] visits has no effect"),
        ({"weights": [1.0, 2.0]}, r"\[weights\] has no effect"),
        ({"arms": ["a", "b"]}, r"\[actions\] and \[arms\] do not go together"),
        ({"columns": {"probability": "p"}}, r"names the column of logged probabilities, and"),
        (
            {"columns": {"probability": "reward"}, "policy": {"behaviour": "column"}},
            'both name the column "reward"',
        ),
    ],
)
def test_what_does_not_go_together_is_refused(changes, message):
    with pytest.raises(StudyError, match=message):
        described(**changes)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ({"target": {"0": {"0": 0.2, "1": 0.7}, "1": {"1": 1.0}}}, r'state "0" sum to 0.9;'),
        ({"target": {"0": {"0": 1.0}}}, r'state "1" sum to 0; those of every state sum to 1'),
        ({"target": {"0": {"2": 1.0}, "1": {"1": 1.0}}}, r'names "0, 2", which is not a pair'),
        ({"target": {"5": {"0": 1.0}}}, r'names "5, 0", which is not a pair'),
        (
            {"behaviour": {"0": {"0": 1.5, "1": -0.5}, "1": {"1": 1.0}}},
            r'\[policy\] behaviour: the probability of "0, 0" is 1.5; probabilities are numbers',
        ),
        (
            {"target": {"0": {"0": -0.5, "1": 1.5}, "1": {"1": 1.0}}},
            r'the probability of "0, 0" is -0.5',
        ),
    ],
)
def test_what_is_no_policy_is_refused(policy, message):
    with pytest.raises(StudyError, match=message):
        described(policy=policy)


@pytest.mark.parametrize("clip", [0.5, 0.0, -1.0, 2e6, "ten"])
def test_a_clip_below_one_is_refused(clip):
    with pytest.raises(StudyError, match=r"clip = .* must be a number from 1 to 1e\+06"):
        described(policy={"clip": clip})


def test_a_delta_is_needed_wherever_there_was_one():
    given = {"states": 2, "discount": 0.9, "returns": (0, 1), "epsilon": 1.0, "unit": "trajectory"}
    with pytest.raises(StudyError, match="delta is missing; it must be a number between 0 and 1"):
        pv.Study(**given)
    with pytest.raises(StudyError, match="delta = 0 is not allowed; it must be a number"):
        pv.Study(**given, delta=0)


def test_files_of_policies_are_read_and_hashed(tmp_path):
    for name, policy in (("target", TARGET), ("behaviour", BEHAVIOUR)):
        lines = [f"{s},{a},{p}" for s, row in policy.items() for a, p in row.items()]
        text = "\n".join(["state,action,probability", *lines]) + "\n"
        (tmp_path / f"{name}.csv").write_text(text)
    (tmp_path / "study.toml").write_text(
        """
        [privacy]
        epsilon = 1.0
        unit = "trajectory"
        [values]
        discount = 1.0
        returns = [0, 1]
        [states]
        count = 2
        [actions]
        count = 2
        [policy]
        target = "target.csv"
        behaviour = "behaviour.csv"
        clip = 5.0
        [mechanism]
        name = "dp-ope"
        """
    )
    study = pv.Study.load(tmp_path / "study.toml")
    assert np.array_equal(study.policies.target, described().policies.target)
    assert set(study.side_files) == {"[policy] target", "[policy] behaviour"}
    (tmp_path / "saved").mkdir()
    saved = study.save(tmp_path / "saved" / "study.toml")
    assert pv.Study.load(saved) == study
    (tmp_path / "target.csv").write_text("state,action,probability\n0,0,nan\n0,1,1\n1,1,1\n")
    with pytest.raises(StudyError, match='the probability of "0, 0" is nan'):
        pv.Study.load(tmp_path / "study.toml")
    (tmp_path / "target.csv").write_text("state,action,probability\n0,0,\n0,1,1\n1,1,1\n")
    with pytest.raises(StudyError, match="a cell is not a number"):
        pv.Study.load(tmp_path / "study.toml")


@pytest.mark.parametrize("target", [{"0": "1", "1": "1"}, {"0": 1, "1": {"1": 1.0}}, "target.csv"])
def test_a_target_without_chance_names_the_action_of_each_state(target, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "target.csv").write_text("state,action\n0,1\n1,1\n", encoding="utf-8")
    study = described(policy={"target": target})
    assert study.policies.target.tolist() == [0.0, 1.0, 0.0, 1.0]
    if not isinstance(target, str):
        in_full = described(policy={"target": {"0": {"1": 1.0}, "1": {"1": 1.0}}})
        assert study.public_description() == in_full.public_description()


def test_two_actions_of_a_state_need_probabilities(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "target.csv").write_text("0,1\n0,0\n1,1\n", encoding="utf-8")
    with pytest.raises(StudyError, match='the state "0" sum to 2'):
        described(policy={"target": "target.csv"})


@pytest.mark.parametrize("kind", [np.array, list, pd.DataFrame])
def test_a_policy_may_be_an_array_of_states_by_actions(kind):
    assert described(
        policy={"target": kind([[0.2, 0.8], [0.0, 1.0]])}
    ).policies.target.tolist() == [
        *(0.2, 0.8, 0.0, 1.0),
    ]
    with pytest.raises(StudyError) as refused:
        described(policy={"target": [[0.2, 0.8]]})
    assert refused.value.code == "policy-shape"
