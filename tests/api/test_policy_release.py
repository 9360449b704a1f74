"""What another policy would have been worth, from rows to the files of a release."""

import importlib
import json
import math
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import privalue as pv
from privalue.audit import audit_release
from privalue.errors import DataError, StudyError
from privalue.releases import ValueTable
from privalue.report import describe

BEHAVIOUR = {"ill": {"wait": 0.5, "treat": 0.5}, "worse": {"wait": 0.3, "treat": 0.7}}
TARGET = {"ill": {"wait": 0.2, "treat": 0.8}, "worse": {"treat": 1.0}}
STATES, ACTIONS = ("ill", "worse"), ("wait", "treat")
PEOPLE, CLIP = 900, 2.5


def recovers(state, action):
    return 0.35 + 0.3 * (action == "treat") - 0.15 * (state == "worse")


def simulated(people=PEOPLE, seed=2610):
    """Three visits each: who recovers earns a third of 1, who does not may get worse."""
    generator = np.random.default_rng(seed)
    rows = []
    for person in range(people):
        state = STATES[int(generator.random() < 0.4)]
        for step in range(3):
            chance = BEHAVIOUR[state]["treat"]
            action = ACTIONS[int(generator.random() < chance)]
            reward = float(generator.random() < recovers(state, action)) / 3
            rows.append((person, step, state, action, reward, BEHAVIOUR[state][action]))
            state = STATES[int(generator.random() < (0.2 if reward else 0.6))]
    names = ["trajectory", "step", "state", "action", "reward", "probability"]
    return pd.DataFrame(rows, columns=names)


def exact(policy):
    """The true value of a policy, by dynamic programming."""
    value = dict.fromkeys(STATES, 0.0)
    for _ in range(3):
        later, value = value, {}
        for state in STATES:
            value[state] = sum(
                p * (q * (1 / 3 + 0.8 * later["ill"] + 0.2 * later["worse"])
                     + (1 - q) * (0.4 * later["ill"] + 0.6 * later["worse"]))
                for action, p in policy[state].items()
                for q in [recovers(state, action)]
            )  # fmt: skip
    return {**value, "all": 0.6 * value["ill"] + 0.4 * value["worse"]}


def described(policy=None, **changes):
    policy = {"target": TARGET, "behaviour": BEHAVIOUR, "clip": CLIP, **(policy or {})}
    keywords = {
        "states": list(STATES), "actions": list(ACTIONS), "discount": 1.0, "returns": (0, 1),
        "epsilon": 1.0, "unit": "trajectory", "mechanism": "dp-ope",
        "policy": policy,
    }  # fmt: skip
    return pv.Study(**(keywords | changes))


ROWS = simulated()


def literal(clip=CLIP, rows=ROWS):
    """Clipped weighted importance sampling, trajectory by trajectory."""
    pairs = zip(rows.state, rows.action, strict=True)
    ratios = np.array([TARGET[s].get(a, 0.0) / BEHAVIOUR[s][a] for s, a in pairs])
    weights, returns = np.ones(PEOPLE), np.zeros(PEOPLE)
    np.multiply.at(weights, rows.trajectory, ratios)
    np.add.at(returns, rows.trajectory, rows.reward)
    clipped = np.minimum(weights, clip)
    return float(clipped @ returns / clipped.sum()), float(clipped.mean())


def test_before_the_noise_it_is_the_literal_estimator():
    fields = pv.inspect(described(), ROWS).private_fields()
    value, kept = literal()
    assert fields["policy_values"][0] == pytest.approx(value, abs=2e-9)
    assert fields["kept_mass"][0] == pytest.approx(kept, abs=1e-8)
    assert fields["behaviour_values"][0] == pytest.approx(ROWS.reward.sum() / PEOPLE, abs=1e-8)
    assert (fields["trajectories"], fields["values"], fields["theta"]) == (PEOPLE, [], [])
    assert 0 < fields["weights_clipped"] < PEOPLE
    unclipped = pv.inspect(described({"clip": 1e6}), ROWS).private_fields()
    assert unclipped["policy_values"][0] == pytest.approx(literal(1e6)[0], abs=1e-5)


def test_rows_in_any_order_and_from_anywhere_give_the_same(tmp_path):
    mixed = ROWS.sample(frac=1, random_state=1)
    ROWS.to_csv(tmp_path / "rows.csv", index=False)
    mixed.to_csv(tmp_path / "mixed.csv", index=False)
    expected = pv.release(described(), ROWS, seed=1)
    logged = described({"behaviour": "column"})
    for study, data in [
        (described(), mixed),
        (described(), tmp_path / "mixed.csv"),
        (logged, ROWS),
        (logged, mixed),
        (logged, tmp_path / "rows.csv"),
        (logged, tmp_path / "mixed.csv"),
        (logged, ROWS.to_dict("list")),
    ]:
        assert pv.release(study, data, seed=1).weights == expected.weights
    episodes = [
        list(zip(own.state, own.action, own.reward, own.probability, strict=True))
        for _, own in ROWS.groupby("trajectory")
    ]
    assert pv.release(logged, episodes, seed=1).weights == expected.weights


def test_a_release_has_what_the_contract_says():
    release = pv.release(described(), ROWS, seed=2)
    text = release.to_json()
    plain = json.loads(text)
    assert set(plain["tables"]) == {"policy", "behaviour", "differences"}
    assert plain["privacy"]["delta"] == 0
    assert {"kept_mass", "kept_low", "kept_high", "supported"} <= set(plain["tables"]["policy"])
    assert plain["noise"]["law"] == "laplace"
    assert plain["terms"]["clip"] == CLIP
    assert "gaussian_mu" not in plain
    assert pv.Release.parse(text) == release
    truth = exact(TARGET)["all"]
    row = release.policy.row(0)
    assert row.total_low <= row.low <= row.value == release.policy_value <= row.high
    assert row.total_low <= truth <= row.total_high
    assert row.kept_low <= literal()[1] <= row.kept_high
    assert release.behaviour.total_low[0] <= exact(BEHAVIOUR)["all"]
    gap = truth - exact(BEHAVIOUR)["all"]
    apart = release.differences.row(0)
    assert apart.total_low <= gap <= apart.total_high
    assert "1-differentially private" not in release.sentence()  # seeded
    private = pv.release(described(), ROWS)
    assert private.sentence().startswith("This release is 1-differentially private: replacing")


def notices(release):
    """What each notice is about, by its code."""
    return {notice.code: notice.about for notice in describe(release).notices}


@pytest.mark.parametrize("changes", [{}, {"neighbours": "add-remove"}])
def test_each_start_has_a_number_of_its_own(changes):
    release = pv.release(described({"by": "start"}, **changes), ROWS, seed=3)
    assert release.policy_value is None
    assert [entry.start for entry in release] == list(STATES) == list(release.states)
    for entry in release:
        assert entry.kept_low <= entry.kept_mass <= entry.kept_high
        assert entry.total_low <= exact(TARGET)[entry.start] <= entry.total_high
        assert entry.total_band_low <= entry.total_low
    trusts = release.policy.columns
    assert (trusts["clipping_bias"] <= trusts["largest_clipping_bias"]).all()
    assert trusts["effective_trajectories"] == pytest.approx(release.weights.weights / CLIP)
    again = pv.Release.parse(release.to_json())
    assert again == release
    assert again["ill"].kept_mass == release["ill"].kept_mass
    assert len(release.differences) == len(release.behaviour) == 2
    assert release.weights.sizes is not None  # the size of a group is private


@pytest.mark.parametrize("wrong", [1.0, 0.5, 0.9])
def test_the_behaviour_itself_keeps_everything(wrong):
    """The self-check: logged probabilities against the public file; wrong ones must be caught."""
    rows = ROWS.assign(probability=wrong * ROWS.probability)
    study = described({"target": BEHAVIOUR, "behaviour": "column"})
    release = pv.release(study, rows, seed=4)
    row = release.policy.row(0)
    assert (row.kept_low <= 1 <= row.kept_high) == row.supported == (wrong == 1)
    assert pv.Release.parse(release.to_json()) == release
    if wrong == 1:
        assert release.differences.low[0] <= 0 <= release.differences.high[0]
        assert not row.refuted
        return
    assert row.refuted
    assert row.clipping_bias == row.largest_clipping_bias == 1.0
    assert list(notices(release)) == ["behaviour-refuted"]
    assert describe(release).verdict == "unusable"
    assert "behaviour refuted" in repr(release)
    with pytest.warns(pv.PrivalueWarning, match="behaviour refuted: the kept mass is above 1"):
        pv.release(study, rows, seed=4)
    assert "so the behaviour is wrong" in release.flags[0]


def test_a_difference_is_clear_only_where_clipping_cannot_undo_it():
    release = pv.release(described({"clip": 5.0}), ROWS, seed=4)
    apart = {"value": [0.1], "total_low": [0.05], "total_high": [0.15]}
    difference = ValueTable({**release.differences.columns, **apart})
    for most, clear in ((0.04, True), (0.06, False)):
        changed = {"largest_clipping_bias": [most], "supported": [True]}
        policy = ValueTable({**release.policy.columns, **changed})
        tables = {**release.tables, "policy": policy, "differences": difference}
        about = notices(release.model_copy(update={"tables": tables}))["off-policy"]
        assert (about["compared"] == "more than the behaviour") == clear
        assert about["undone"] != clear


def test_what_is_not_supported_is_warned_of_and_returned_even_where_warnings_are_errors():
    few = described({"clip": 1.0})
    with pytest.warns(pv.PrivalueWarning, match="not supported: too much of the target's weight"):
        release = pv.release(few, ROWS, seed=4)
    assert "not supported" in repr(release)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert pv.release(few, ROWS, seed=4) == release


def test_weights_that_cannot_be_are_told_by_start():
    rows = ROWS.assign(probability=np.where(ROWS.state == "ill", 0.4, 1.0) * ROWS.probability)
    study = described({"target": BEHAVIOUR, "behaviour": "column", "by": "start", "clip": 20.0})
    release = pv.release(
        study, pd.concat([rows] * 8).assign(trajectory=np.repeat(np.arange(8 * PEOPLE), 3)), seed=4
    )
    assert release.policy.columns["refuted"].any()
    assert notices(release)["behaviour-refuted"]["above"] >= 1
    assert "so the behaviour is wrong" in release["ill"].flags
    # What chance does at one of many starts is a flag there, and no verdict on all of them.
    policy = ValueTable({**release.policy.columns, "refuted": [False, False]})
    chance = release.model_copy(update={"tables": {**release.tables, "policy": policy}})
    assert "behaviour-refuted" not in notices(chance)
    assert describe(chance).verdict == "care"


@pytest.mark.parametrize("by", [None, "start"])
def test_a_refutation_names_those_who_were_left_out_and_no_use_is_told_first(by):
    rows = ROWS.assign(probability=0.4 * ROWS.probability)
    policy = {"target": BEHAVIOUR, "behaviour": "column", "by": by, "clip": 20.0}
    study = described(policy, epsilon=20.0)
    release = pv.release(study, rows, seed=4)
    assert release.policy.columns["refuted"].any()
    assert not notices(release)["behaviour-refuted"]["dropped"]
    # E w is at most 1 among all; of those who are left it may be more, whatever the behaviour is.
    kept = pv.release(study.replace(invalid="drop-unit"), rows, seed=4)
    assert notices(kept)["behaviour-refuted"]["dropped"]
    with pytest.warns(pv.PrivalueWarning, match="or the units that were left out acted otherwise"):
        pv.release(study.replace(invalid="drop-unit"), rows, seed=4)
    useless = release.model_copy(update={"accepted": ["useless"]})
    assert next(iter(notices(useless))) == "useless"


def test_what_the_behaviour_never_does_is_lost():
    never = {"ill": {"wait": 0.5, "treat": 0.5}, "worse": {"wait": 1.0}}
    fields = pv.inspect(described({"behaviour": never}), ROWS).private_fields()
    assert fields["kept_mass"][0] < 0.5
    release = pv.release(described({"behaviour": never}), ROWS, seed=5)
    assert not release.supported[0]
    assert release.policy.columns["largest_clipping_bias"][0] > 0.2


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "row 5: probability is missing; every row needs one"),
        (-0.1, "row 5: probability = -0.1 must be a probability, from 0 to 1"),
        (1.5, "row 5: probability = 1.5 must be a probability, from 0 to 1"),
        (math.inf, "row 5: probability = inf must be a probability"),
    ],
)
def test_probabilities_that_are_none_are_invalid_rows(value, message):
    rows = ROWS[:300].copy()
    rows.loc[4, "probability"] = value
    study = described({"behaviour": "column"})
    with pytest.raises(DataError, match=message):
        pv.inspect(study, rows)
    dropping = study.replace(invalid="drop-unit", trajectories=100)
    fields = pv.inspect(dropping, rows).private_fields()
    assert (fields["units_dropped"], fields["trajectories"]) == (1, 99)
    with pytest.raises(DataError, match="no column 'probability'"):
        pv.inspect(study, ROWS.drop(columns="probability"))


def test_unknown_actions_and_steps_twice_are_refused():
    rows = ROWS[:300].copy()
    rows.loc[7, "action"] = "operate"
    with pytest.raises(DataError, match="'operate'"):
        pv.inspect(described(), rows)
    rows = ROWS[:300].sample(frac=1, random_state=2).reset_index(drop=True)
    at = rows.index[(rows.trajectory == 3) & (rows.step == 1)][0]
    rows.loc[at, "step"] = 0
    for behaviour in ("column", BEHAVIOUR):
        for memory in (1000, 2 << 30):
            with pytest.raises(DataError, match=r"step = 0 appears twice in trajectory '3'"):
                pv.inspect(described({"behaviour": behaviour}), rows, memory=memory)


def test_persons_count_with_their_first_trajectories():
    rows = ROWS.assign(person=ROWS.trajectory // 3)
    study = described(
        unit="person", max_trajectories_per_person=2, neighbours="replace-one",
        columns={"person": "person", "trajectory": "trajectory"},
    )  # fmt: skip
    fields = pv.inspect(study, rows).private_fields()
    assert fields["trajectories"] == 2 * fields["persons"] == 2 * PEOPLE // 3
    release = pv.release(study, rows, seed=6)
    assert release.weights.sizes is not None  # m is private, the number of persons is not
    assert release.persons == PEOPLE // 3


def test_a_release_of_no_use_is_refused_unless_it_is_accepted():
    few = ROWS[:60]
    with pytest.raises(StudyError) as refused:
        pv.release(described({"clip": 50.0}), few)
    assert refused.value.code == "useless"
    accepted = pv.release(described({"clip": 50.0}), few, accept_useless=True, seed=7)
    assert accepted.accepted == ["useless"]


def test_a_ledger_is_charged_epsilon_alone(tmp_path):
    study = described(dataset="clinic")
    ledger = pv.open_ledger(tmp_path / "ledger.db")
    ledger.declare("clinic", epsilon=1.5, delta=1e-6, unit="trajectory")
    first = pv.release(study, ROWS, ledger=ledger)
    assert str(ledger.account("clinic").left) == "epsilon 0.5, delta 1e-6"
    again = pv.release(study, ROWS, ledger=ledger)
    assert again.reused
    assert again == first
    made = pv.publish(first, tmp_path / "out", study=study, account=ledger.account("clinic"))
    assert "epsilon = 1 (basic composition" in made.page.read_text()


def test_the_page_says_what_cannot_be_checked_and_files_hold_both_policies(tmp_path):
    for policy in ({}, {"by": "start"}, {"behaviour": "column"}):
        release = pv.release(described(policy), ROWS)
        made = pv.publish(release, tmp_path / str(len(policy)) / str(len(str(policy))))
        page = made.page.read_text()
        for assumption in ("recorded actions", "no hidden confounding", "overlap"):
            assert assumption in page
        table = pd.read_csv(made.values)
        assert table["policy"].tolist()[0] == "target"
        assert len(table) == 2 * len(release)
        assert len(pd.read_csv(made.differences)) == len(release)


def test_one_number_is_a_table_of_one_row():
    release = pv.release(described(), ROWS, seed=4)
    frame = release.to_pandas()
    assert frame["value"].tolist() == [release.policy_value] == release.value.tolist()
    assert "NOT PRIVATE" in frame.attrs["privalue"]
    with pytest.raises(KeyError, match="one number for all"):
        release["ill"]
    with pytest.raises(AttributeError, match=r"release\.policy"):
        release.values  # noqa: B018
    assert "ill" not in release


def test_an_audit_of_releases_does_not_reject_them():
    pair = [ROWS[:9], ROWS[:9].copy()]
    pair[1].loc[0:2, "reward"] = 1 / 3 - pair[1].loc[0:2, "reward"]
    source = pv.SeededForExperimentsOnly(8)
    found = audit_release(described({"clip": 1.0}), *pair, releases=4, entropy=lambda: source)
    assert not found.rejected


def test_whatever_shows_releases_shows_this_one():
    """In notebooks, as tables, as pictures; and what does not apply says so."""
    for policy in ({}, {"by": "start"}):
        release = pv.release(described(policy), ROWS, seed=9)
        assert "both policies" in release._repr_html_()
        assert release.to_arrow().num_rows == len(release)
        assert len(release.flags) == len(release)
        axes = release.plot()
        assert len(axes.figure.axes) == 1
        assert "dp-ope" in repr(release)
        for other in (pv.refit, pv.improve):
            with pytest.raises(pv.PrivalueError, match="release"):
                other(release)
    lost = pv.release(described({"by": "start", "clip": 1.0}), ROWS, seed=9)
    assert any("clipping may have lost too much" in text for text in lost.flags)


def test_before_the_noise_it_is_scope_rls_where_the_definitions_agree():
    """Self-normalised trajectory-wise importance sampling; and, times the kept mass, the plain."""
    pytest.importorskip("gymnasium")
    sys.path.append(str(Path(__file__).parents[2]))  # benchmarks is not installed
    scope_rows = importlib.import_module("benchmarks.peers.scope_rows")
    kept = json.loads(Path(scope_rows.__file__).with_name("scope.json").read_text())
    fields = pv.inspect(scope_rows.study(), scope_rows.rows()).private_fields()
    value, mass = fields["policy_values"][0], fields["kept_mass"][0]
    assert fields["weights_clipped"] == 0
    assert value == pytest.approx(kept["SNTIS"], abs=1e-9)
    assert value * mass == pytest.approx(kept["TIS"], abs=1e-9)
