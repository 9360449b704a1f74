"""``pv.improve`` and ``privalue improve``: a policy from released action values, and its files."""

import csv
import json

import numpy as np
import pytest

import privalue as pv
from oracles.studies import PROMISE
from privalue.estimate import WORDS

LABELS = ["ill", "=sum(A1)", 'quo"ted, state\rtwo lines', "nobody"]
ACTIONS = ["wait", "treat", "-operate"]


@pytest.fixture(scope="module")
def release():
    """4 states; treating helps in the first two; the last has no visits, and one action no data."""
    study = pv.Study(
        name="clinic",
        states=LABELS,
        actions=ACTIONS,
        discount=1.0,
        returns=(0, 1),
        **PROMISE,
        mechanism="dp-ssp",
        stages="one",
    )
    rng = np.random.default_rng(4)
    people = []
    for at in rng.integers(0, 3, 30_000):
        action = ACTIONS[int(rng.random() < 0.4)]
        works = at < 2 and action == "treat"
        people.append([(LABELS[at], action, float(rng.random() < 0.3 + 0.4 * works))])
    return pv.release(study, people, entropy=pv.SeededForExperimentsOnly(1))


@pytest.fixture(scope="module")
def folder(release, tmp_path_factory):
    where = tmp_path_factory.mktemp("improve")
    release.save(where / "released")
    return where


def test_the_policy_takes_better_actions_and_never_untaken_ones(release):
    better = pv.improve(release)
    assert better.probabilities("ill") == {"wait": 0.0, "treat": 1.0, "-operate": 0.0}
    assert better.probabilities("nobody") == pytest.approx(dict.fromkeys(ACTIONS, 1 / 3))
    assert repr(better) == "Improvement(moves 3 of 4 states, NOT PRIVATE)"
    by_state = {change.state: change for change in better.changes}
    assert by_state["nobody"].reason == "nothing-known"
    assert by_state["ill"].low > 0
    assert better.changes[0].state in LABELS[:2]


def test_with_a_level_only_clear_gains_move(release):
    better = pv.improve(release, level=0.95)
    reasons = {change.state: change.reason for change in better.changes}
    assert reasons == {
        LABELS[0]: "gain",
        LABELS[1]: "gain",
        LABELS[2]: "no-gain",
        LABELS[3]: "nothing-known",
    }
    probabilities = better.probabilities(LABELS[2])
    assert 0.3 < probabilities["treat"] < 0.5 < probabilities["wait"] < 0.7
    assert sum(probabilities.values()) == pytest.approx(1)


def test_the_table_is_safe_to_open_and_the_record_holds_labels_as_they_are(folder, release):
    files = pv.improve(folder / "released").save(folder / "policy.csv")
    assert [file.name for file in files] == ["policy.csv", "policy.json", "policy.html"]
    with files[0].open(newline="") as text:
        rows = list(csv.DictReader(text))
    assert list(dict.fromkeys(row["state"] for row in rows)) == ["ill", "'=sum(A1)", *LABELS[2:]]
    assert [row["action"] for row in rows[:3]] == ["wait", "treat", "'-operate"]
    record = json.loads(files[1].read_text())
    assert record["private"] is False
    assert record["warning"] == WORDS["warning"]
    assert record["release"] == release.sha256
    assert {state["state"] for state in record["states"]} == {*LABELS}
    first = next(state for state in record["states"] if state["state"] == "ill")
    assert first["action"] == "treat"
    assert record["pairs"]["low"][1] == first["low"] > 0
    page = files[2].read_text()
    assert "NOT PRIVATE" in page
    assert "<script>alert" not in page


def test_features_do_not_affect_which_gains_are_clear(release):
    """A fit may be far from what was seen of an action: it would hide how little is known of V."""
    fitted = pv.refit(release, features=np.ones((12, 1)))
    ours, its = (pv.improve(source, level=0.95) for source in (release, fitted))
    assert ours.changes == its.changes
    assert ours.columns["low"] == its.columns["low"]


def test_the_policy_is_a_target_of_another_study_as_it_stands(folder):
    """Labels that a spreadsheet would take for formulas, quotes and line ends included."""
    better = pv.improve(folder / "released")
    better.save(folder / "target.csv")
    even = {state: dict.fromkeys(ACTIONS, 1 / 3) for state in LABELS}
    study = pv.Study(
        states=LABELS,
        actions=ACTIONS,
        discount=1.0,
        returns=(0, 1),
        epsilon=1.0,
        unit="trajectory",
        mechanism="dp-ope",
        policy={"target": str(folder / "target.csv"), "behaviour": even, "clip": 5},
    )
    itself = study.replace(policy={"target": better, "behaviour": even, "clip": 5})
    changed = itself.replace(epsilon=2)
    assert np.array_equal(changed.policies["target"], study.policies["target"])
    assert len(pv.plan(itself, 6000).clips) > 1
    people = [[(LABELS[0], "treat", 1.0)], [(LABELS[2], "wait", 0.0)]] * 3000
    assert pv.release(study, people).policy_value is not None
