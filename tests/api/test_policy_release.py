"""The value of another policy, from rows to the files of a release."""

import importlib
import json
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import privalue as pv
from privalue.releases import ValueTable
from privalue.report import describe

BEHAVIOUR = {"ill": {"wait": 0.5, "treat": 0.5}, "worse": {"wait": 0.3, "treat": 0.7}}
TARGET = {"ill": {"wait": 0.2, "treat": 0.8}, "worse": {"treat": 1.0}}
STATES, ACTIONS = ("ill", "worse"), ("wait", "treat")
PEOPLE, CLIP = 900, 2.5


def recovers(state, action):
    return 0.35 + 0.3 * (action == "treat") - 0.15 * (state == "worse")


def simulate(people=PEOPLE, seed=2610):
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


def make_study(policy=None, **changes):
    policy = {"target": TARGET, "behaviour": BEHAVIOUR, "clip": CLIP, **(policy or {})}
    keywords = {
        "states": list(STATES), "actions": list(ACTIONS), "discount": 1.0, "returns": (0, 1),
        "epsilon": 1.0, "unit": "trajectory", "mechanism": "dp-ope",
        "policy": policy,
    }  # fmt: skip
    return pv.Study(**(keywords | changes))


ROWS = simulate()


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
    fields = pv.inspect(make_study(), ROWS).private_columns()
    value, mass = literal()
    assert fields["policy_values"][0] == pytest.approx(value, abs=2e-9)
    assert fields["kept_mass"][0] == pytest.approx(mass, abs=1e-8)
    assert fields["behaviour_values"][0] == pytest.approx(ROWS.reward.sum() / PEOPLE, abs=1e-8)
    assert fields["trajectories"] == PEOPLE
    assert len(fields["values"]) == len(fields["theta"]) == 0
    assert 0 < fields["weights_clipped"] < PEOPLE
    unclipped = pv.inspect(make_study({"clip": 1e6}), ROWS).private_columns()
    assert unclipped["policy_values"][0] == pytest.approx(literal(1e6)[0], abs=1e-5)


def test_a_release_has_what_the_contract_says():
    release = pv.release(make_study(), ROWS, seed=2)
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
    private = pv.release(make_study(), ROWS)
    assert "1-differentially private" in private.sentence()


def notices(release):
    """What each notice is about, by its code."""
    return {notice.code: notice.about for notice in describe(release).notices}


@pytest.mark.parametrize("changes", [{}, {"neighbours": "add-remove"}])
def test_each_start_has_a_number_of_its_own(changes):
    release = pv.release(make_study({"by": "start"}, **changes), ROWS, seed=3)
    assert release.policy_value is None
    assert [entry.start for entry in release] == list(STATES) == list(release.states)
    for entry in release:
        assert entry.kept_low <= entry.kept_mass <= entry.kept_high
        assert entry.total_low <= exact(TARGET)[entry.start] <= entry.total_high
    trusts = release.policy.columns
    assert (trusts["largest_clipping_bias"] > 0).all()
    again = pv.Release.parse(release.to_json())
    assert again == release
    assert again["ill"].kept_mass == release["ill"].kept_mass
    assert len(release.differences) == len(release.behaviour) == 2
    assert release.weights.sizes is not None  # the size of a group is private


def test_a_difference_is_clear_only_where_clipping_cannot_undo_it():
    release = pv.release(make_study({"clip": 5.0}), ROWS, seed=4)
    apart = {"value": [0.1], "total_low": [0.05], "total_high": [0.15]}
    difference = ValueTable({**release.differences.columns, **apart})
    for most, clear in ((0.04, True), (0.06, False)):
        changed = {"largest_clipping_bias": [most], "supported": [True]}
        policy = ValueTable({**release.policy.columns, **changed})
        tables = {**release.tables, "policy": policy, "differences": difference}
        about = notices(release.model_copy(update={"tables": tables}))["off-policy"]
        assert about["clearly"] == clear
        assert about["doubtful"] != clear


def test_an_unsupported_value_is_warned_of_and_returned_even_where_warnings_are_errors():
    few = make_study({"clip": 1.0})
    with pytest.warns(pv.PrivalueWarning) as records:
        release = pv.release(few, ROWS, seed=4)
    assert [record.message.code for record in records] == ["not-supported"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert pv.release(few, ROWS, seed=4) == release


def test_before_the_noise_it_is_scope_rls_where_the_definitions_agree():
    """Self-normalised trajectory-wise importance sampling; and, times the kept mass, the plain."""
    pytest.importorskip("gymnasium")
    sys.path.append(str(Path(__file__).parents[2]))  # benchmarks is not installed
    scope_rows = importlib.import_module("benchmarks.peers.scope_rows")
    expected = json.loads(Path(scope_rows.__file__).with_name("scope.json").read_text())
    fields = pv.inspect(scope_rows.study(), scope_rows.rows()).private_columns()
    value, mass = fields["policy_values"][0], fields["kept_mass"][0]
    assert fields["weights_clipped"] == 0
    assert value == pytest.approx(expected["SNTIS"], abs=1e-9)
    assert value * mass == pytest.approx(expected["TIS"], abs=1e-9)
