"""What a study may not say: each mistake is one line, with a code that stays."""

import numpy as np
import pytest

import privalue as pv
from oracles.studies import study
from privalue.study.checks import AFTER_FILES, CHECKS

GOOD = """
[study]
name = "recovery-chain"
dataset = "trial-2026"
trajectories = 10000
[privacy]
epsilon = 1.0
delta = 1e-6
unit = "trajectory"
neighbours = "replace-one"
[values]
discount = 0.99
rewards = [0.0, 1.0]
[states]
count = 4
[features]
kind = "tabular"
[weights]
kind = "uniform"
[mechanism]
name = "dp-lsw"
calibration = "nissim"
noise = "isotropic"
[data]
trajectory = "stay_id"
"""
UNIT = 'unit = "trajectory"'
UNIFORM = 'kind = "uniform"'
TEXTS = [
    *[
        ("epsilon = 1.0", f"epsilon = {wrong}", "key-invalid")
        for wrong in ("0", "-1", "nan", "inf")
    ],
    *[("epsilon = 1.0", f"epsilon = {wrong}", "key-invalid") for wrong in ('"1"', "true", "[1]")],
    ("epsilon = 1.0", "", "key-missing"),
    ("epsilon = 1.0", "epsilom = 1", "key-unknown"),
    ("delta = 1e-6", "delta = 0", "delta-not-above-0"),
    ("delta = 1e-6", "delta = 1", "key-invalid"),
    (UNIT, "", "key-missing"),
    (UNIT, 'unit = "patient"', "key-invalid"),
    ("discount = 0.99", "discount = 0", "key-invalid"),
    ("discount = 0.99", "discount = 1.01", "key-invalid"),
    ("[0.0, 1.0]", "[1.0]", "key-invalid"),
    ("[0.0, 1.0]", "[0, nan]", "key-invalid"),
    ("[0.0, 1.0]", "[-1e300, 1e300]", "returns-too-extreme"),
    ("[0.0, 1.0]", "[0, 0]", "returns-too-extreme"),
    ("count = 4", "count = 0", "key-invalid"),
    ("count = 4", "count = 4.0", "key-invalid"),
    ("count = 4", 'count = 4\nlabels = ["a"]', "states-not-named-once"),
    ("[states]\ncount = 4", "", "states-not-named-once"),
    ("count = 4", 'labels = ["a", "b", "a"]', "label-twice"),
    ("count = 4", "labels = []", "label-empty"),
    ("count = 4", 'labels = ["a", " "]', "label-empty"),
    ("count = 4", 'file = "nowhere.csv"', "side-file-missing"),
    (UNIFORM, "values = [1, 2, -1, 1]", "weights-invalid"),
    (UNIFORM, "values = [1, 2, nan, 1]", "key-invalid"),
    (UNIFORM, "values = [1, 2]", "numbers-missing"),
    (UNIFORM, "values = [0, 0, 0, 0]", "weights-invalid"),
    ('name = "dp-lsw"', 'name = "lsw"', "key-invalid"),
    ('name = "dp-lsw"', "name = 3", "key-invalid"),
    ("trajectories = 10000", "trajectories = 0", "key-invalid"),
    ("[states]", "[stats]", "section-unknown"),
    ("[study]", "features = 3\n[study]", "section-invalid"),
    ("[privacy]", "[privacy", "toml-invalid"),
    ('kind = "tabular"', "matrix = [[1]]", "key-unknown"),
]


@pytest.mark.parametrize(("old", "new", "code"), TEXTS, ids=lambda text: str(text)[:40])
def test_each_mistake_gets_one_line_and_a_code(old, new, code):
    assert old in GOOD
    text = GOOD.replace(old, new)
    if new.startswith("features = 3"):
        text = text.replace('[features]\nkind = "tabular"\n', "")
    with pytest.raises(pv.StudyError) as refused:
        pv.Study.parse(text)
    assert "\n" not in str(refused.value)
    assert refused.value.code == code


SSP = {"name": "dp-ssp", "calibration": "exact"}
POLICY = {"target": {"0": {"0": 1}}, "behaviour": {"0": {"0": 1}}, "clip": 2}
OPE = {
    "states": {"count": 1},
    "actions": {"count": 1},
    "policy": POLICY,
    "privacy": {"delta": 0},
    "mechanism": {"name": "dp-ope"},
}
BINS = {"bins": {"age": [50]}}
TOGETHER = {
    "rewards-missing": {"values": {"rewards": None}},
    "returns-not-in-order": {"values": {"returns": (1, 1)}},
    "rewards-not-in-order": {"values": {"rewards": (1, 0)}},
    "returns-missing": {"values": {"discount": 1}},
    "returns-too-extreme": {"values": {"returns": (0, 1e-31)}},
    "unvisited-outside-returns": {"values": {"unvisited": -1}},
    "states-not-named-once": {"states": {}},
    "groups-of-bins": {"states": {**BINS, "groups": {"a": "b"}}},
    "state-column-beside-bins": {"states": BINS, "data": {"state": "ward"}},
    "features-key-idle": {"features": {"kind": "tabular", "size": 2}},
    "features-size-missing": {"features": {"kind": "aggregate"}},
    "features-file-missing": {"features": {"kind": "matrix"}},
    "features-size-too-large": {"features": {"size": 9}},
    "shrink-without-features": {"features": {"shrink": True}, "mechanism": SSP},
    "shrink-without-dp-ssp": {"features": {"size": 2, "shrink": True}},
    "shrink-against-mechanism": {
        "features": {"size": 2, "shrink": True},
        "mechanism": {**SSP, "ridge": 3},
    },
    "weights-given-twice": {"weights": {"kind": "uniform", "values": [1, 1, 1]}},
    "mechanism-key-idle": {"mechanism": {"ridge": 3}},
    "calibration-of-dp-ssp": {"mechanism": {"name": "dp-ssp"}},
    "noise-of-dp-lsl": {"mechanism": {"name": "dp-lsl", "noise": "whitened"}},
    "exact-calibration-needed": {"mechanism": {"beta": 0.1}},
    "ridge-given-twice": {"mechanism": {"name": "dp-lsl", "ridge": 3, "ridge_scale": 3}},
    "share-without-stage": {"mechanism": {**SSP, "stages": "one", "stage_shares": {"bounds": 0.2}}},
    "level-without-intervals": {"report": {"level": 0.9}},
    "trajectories-per-person-idle": {"privacy": {"max_trajectories_per_person": 3}},
    "trajectories-per-person-missing": {"privacy": {"unit": "person"}},
    "one-trajectory-per-person": {
        "privacy": {"unit": "person", "max_trajectories_per_person": 2},
        "data": {"person": "patient"},
    },
    "truncated-column-missing": {"values": {"truncated": "keep"}},
    "arms-invalid": {"arms": {"labels": ["one"]}, "mechanism": SSP},
    "arms-need-dp-ssp": {"arms": {"labels": ["a", "b"]}},
    "too-many-keys": {
        "arms": {"labels": list(range(3000))},
        "states": {"count": 10**6},
        "mechanism": SSP,
    },
    "actions-missing": {"data": {"action": "drug"}},
    "actions-not-named-once": {"actions": {"count": 2, "labels": ["a"]}, "mechanism": SSP},
    "actions-with-arms": {
        "actions": {"count": 2},
        "arms": {"labels": ["a", "b"]},
        "mechanism": SSP,
    },
    "actions-need-dp-ssp": {"actions": {"count": 2}},
    "policy-needs-dp-ope": {"policy": POLICY, "mechanism": SSP},
    "policy-incomplete": {**OPE, "policy": {}},
    "idle-with-dp-ope": {**OPE, "weights": {"values": [2]}},
    "probability-column-idle": {"data": {"probability": "p"}},
    "delta-with-dp-ope": {**OPE, "privacy": {"delta": 1e-6}},
    "delta-missing": {"privacy": {"delta": None}},
    "delta-not-above-0": {"privacy": {"delta": 0}},
    "column-named-twice": {"data": {"trajectory": "step"}},
    "step-format-idle": {"data": {"step_format": "%d.%m.%Y"}},
    "delimiter-invalid": {"data": {"delimiter": "x"}},
    "encoding-unknown": {"data": {"encoding": "utf-7"}},
    "sorted-with-drop-unit": {"data": {"sorted": True, "invalid": "drop-unit"}},
}


def test_every_check_is_tried():
    assert {check.code for check in (*CHECKS, *AFTER_FILES)} == set(TOGETHER)


@pytest.mark.parametrize("code", TOGETHER)
def test_keys_that_do_not_go_together_are_refused_never_ignored(code):
    sections = {
        name: {key: value for key, value in keys.items() if value is not None}
        for name, keys in TOGETHER[code].items()
    }
    without = [key for keys in TOGETHER[code].values() for key in keys if keys[key] is None]
    with pytest.raises(pv.StudyError) as refused:
        base(sections, without)
    assert refused.value.code == code
    assert "\n" not in str(refused.value)
    assert "{" not in str(refused.value).replace("{ ", "")


def base(sections, without):
    """A valid study but for these sections, without some keys."""
    values = {"discount": 0.9, "rewards": (0.0, 1.0), **sections.pop("values", {})}
    privacy = {"epsilon": 1.0, "delta": 1e-6, "unit": "trajectory", **sections.pop("privacy", {})}
    mechanism = {"name": "dp-lsw", "calibration": "nissim", **sections.pop("mechanism", {})}
    if mechanism["name"] == "dp-ope":
        del mechanism["calibration"]
    given = {"states": {"count": 3}, **sections, "values": values, "privacy": privacy}
    given["mechanism"] = mechanism
    return pv.Study.from_sections(
        {name: {k: v for k, v in keys.items() if k not in without} for name, keys in given.items()}
    )


FLAT = {
    "states": ["ill", "better", "well"],
    "discount": 0.9,
    "returns": (0, 1),
    "epsilon": 1.0,
    "delta": 1e-6,
    "unit": "trajectory",
}


@pytest.mark.parametrize(
    ("keywords", "code"),
    [
        ({"states": {"ill"}}, "key-invalid"),
        ({"states": ["ill", None]}, "key-invalid"),
        ({"states": None}, "states-not-named-once"),
        ({"states": 3, "bins": {"age": [50]}}, "keywords-contradict"),
        ({"discuont": 0.9}, "key-unknown"),
        ({"privacy": {"epsilon": 1.0}}, "key-unknown"),
        ({"truncated": "cut"}, "key-invalid"),
        ({"weights": 2.0}, "key-invalid"),
        ({"weights": {"ill": 1, "sick": 1}}, "label-unknown"),
        ({"weights": {"ill": 1}}, "label-missing"),
        ({"visits": [0.5, 0.5, 1.5]}, "visits-invalid"),
        ({"start": [0.5, 0.1, 0.1]}, "start-invalid"),
        ({"start": [1.5, -0.5, 0]}, "start-invalid"),
        ({"groups": {"x": "dead"}}, "label-unknown"),
        ({"features": 2}, "key-invalid"),
        ({"features": np.eye(2)}, "features-shape"),
        ({"features": np.ones(3)}, "features-shape"),
        ({"features": [["a"], ["b"], ["c"]]}, "features-not-real"),
        ({"features": [[10**400]] * 3}, "features-not-real"),
        ({"features": np.full((3, 1), np.nan)}, "features-too-extreme"),
        ({"arms": 2}, "key-invalid"),
        ({"columns": "stay_id"}, "key-invalid"),
        ({"columns": {"episode": "e"}}, "key-invalid"),
        ({"size": 2, "shrink": True, "features": np.ones((3, 1001))}, "keywords-contradict"),
        ({"shrink": True, "features": np.ones((3, 1001))}, "shrink-too-large"),
    ],
    ids=str,
)
def test_keywords_that_are_refused(keywords, code):
    with pytest.raises(pv.StudyError) as refused:
        pv.Study(**{**FLAT, **keywords})
    assert refused.value.code == code
    assert "\n" not in str(refused.value)


def test_a_near_name_is_suggested():
    with pytest.raises(pv.StudyError, match=r"did you mean discount\?"):
        pv.Study(**FLAT, discuont=0.9)
    with pytest.raises(pv.StudyError, match=r"\[privacy\] epsilom is not a key .* mean epsilon\?"):
        pv.Study.parse(GOOD.replace("epsilon", "epsilom"))


def test_a_default_that_needs_the_number_of_trajectories_says_so():
    chosen = study(3, mechanism={"name": "dp-lsl"}, privacy={"neighbours": "add-remove"})
    with pytest.raises(pv.StudyError) as refused:
        pv.check(chosen)
    assert refused.value.code == "trajectories-missing"
