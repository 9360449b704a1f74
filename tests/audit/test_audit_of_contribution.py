"""The audit on dp-ssp, on whole persons and on bounded contribution, and what it catches."""

import math

import numpy as np
import pandas as pd
import pytest

import privalue as pv
from oracles.audits import audit_release
from oracles.limits import OF_A_UNIT, without
from oracles.studies import frame_of_persons as frame_of
from oracles.studies import make_study
from privalue.core import kernel, sensitivity
from privalue.core import noise as drawing
from privalue.study import heuristics

STATES = 4
MIDDLE = 0.5


def study_of(mechanism, states=STATES, **privacy):
    return make_study(
        states,
        discount=0.5,
        returns=(0.0, 1.0),
        privacy={"epsilon": 1.0, "delta": 0.05, **privacy},
        mechanism={"calibration": "exact", **mechanism},
        data={"person": "person", "trajectory": "trajectory"},
    )


PERSONS = {"unit": "person", "max_trajectories_per_person": 3}
FEW_STATES = {"max_states_per_trajectory": 1}
SSP = {"name": "dp-ssp", "stages": "one"}  # with others the delta of a pair has no closed form
LSW = {"name": "dp-lsw", "beta": 0.1}
LSL = {"name": "dp-lsl", "beta": 0.1, "ridge": 3.0}

HIGH = [(s, 1.0) for s in range(STATES)]
LOW = [(s, 0.0) for s in range(STATES)]
REST = {1: [HIGH], 2: [LOW, LOW]}
# A careful person has no more than the limits allow; a careless one has much more of everything.
CAREFUL = ({**REST, 0: [HIGH] * 3}, {**REST, 0: [LOW] * 3})
CARELESS = ({**REST, 0: [HIGH] * 40}, {**REST, 0: [LOW] * 40})


def audit_of(study, pair, releases=150, seed=5):
    source = pv.SeededForExperimentsOnly(seed)
    return audit_release(study, *map(frame_of, pair), releases=releases, entropy=lambda: source)


@pytest.mark.parametrize(
    ("mechanism", "limits"),
    [(SSP, {**PERSONS, **FEW_STATES}), (LSW, PERSONS), (LSL, FEW_STATES)],
    ids=["dp-ssp, both", "dp-lsw, persons", "dp-lsl, few states"],
)
def test_persons_and_limits_are_never_rejected(mechanism, limits):
    pair = CARELESS if "unit" in limits else ({0: [HIGH], **REST}, {0: [LOW], **REST})
    audit = audit_of(study_of(mechanism, **limits), pair, releases=60)
    assert not audit.rejected
    assert audit.true <= audit.claimed


def test_ssp_is_close_to_the_worst_case():
    """A trajectory that goes everywhere, its returns flipped: the shift is the bound itself."""
    audit = audit_of(study_of(SSP), ({0: [[(s, 2.0) for s in range(STATES)]]}, {0: [LOW]}), 60)
    assert not audit.rejected
    assert 1.0 <= audit.slack < 1.01


def test_adding_a_person_is_not_rejected():
    study = study_of(SSP, **PERSONS, neighbours="add-remove")
    audit = audit_of(study, (CAREFUL[0], REST), 60)
    assert not audit.rejected
    assert audit.true <= audit.claimed


@pytest.mark.parametrize("limit", OF_A_UNIT)
def test_limits_that_are_not_enforced_are_rejected(limit, monkeypatch):
    """The planted mistake is in the kernel: it counts what it should leave out."""
    monkeypatch.setattr(kernel, "gather", without(limit, kernel.gather))
    if limit == "max_trajectories_per_person":
        study, pair = study_of(SSP, **PERSONS, **FEW_STATES), CARELESS
    else:  # a trajectory that goes to many more states than may count
        study = study_of(SSP, 36, **FEW_STATES)
        pair = ({0: [[(s, 1.0) for s in range(36)]]}, {0: [[(s, 0.0) for s in range(36)]]})
    assert audit_of(study, pair, 60).rejected


def test_counts_without_noise_are_rejected(monkeypatch):
    """Returns in the middle of their bounds: neighbours differ in their counts alone."""
    original = drawing.gaussian_on_grid

    def careless(center, *, sigma, grid, entropy):
        if not isinstance(sigma, np.ndarray):  # of another stage than the values
            return original(center, sigma=sigma, grid=grid, entropy=entropy)
        changed = sigma.copy()
        changed[len(sigma) // 2 :] *= 1e-6
        return original(center, sigma=changed, grid=grid, entropy=entropy)

    pair = ({**REST, 0: [[(0, MIDDLE)]]}, {**REST, 0: [[(1, MIDDLE)]]})
    study = study_of(SSP)
    assert not audit_of(study, pair, 60).rejected
    monkeypatch.setattr(drawing, "gaussian_on_grid", careless)
    assert audit_of(study, pair, 60).rejected


def in_arms(arm):
    """One trajectory that goes everywhere, in this arm."""
    names = ("person", "trajectory", "step", "state", "reward", "arm")
    rows = [(0, 0, state, state, 2.0, arm) for state in range(STATES)]
    return pd.DataFrame(rows, columns=list(names))


def audit_of_a_move():
    study = study_of(SSP)
    study = study.replace(arms=["control", "treated"])
    source = pv.SeededForExperimentsOnly(5)
    pair = map(in_arms, ("control", "treated"))
    return audit_release(study, *pair, releases=60, entropy=lambda: source)


def test_moving_to_another_arm_is_the_worst_case_and_no_worse():
    audit = audit_of_a_move()
    assert not audit.rejected
    assert 1.0 <= audit.slack < 1.01


def test_the_count_weight_of_one_arm_would_not_do(monkeypatch):
    """The planted mistake: c_w = sqrt(3)/2, as without arms, and Delta = sqrt(H')."""
    monkeypatch.setattr(heuristics, "count_weight", lambda *_, **__: math.sqrt(3) / 2)
    monkeypatch.setattr(sensitivity, "block_sensitivity", lambda *_, **__: math.sqrt(STATES))
    audit = audit_of_a_move()
    assert audit.true > 2 * audit.claimed


def taking(first, second, reward):
    """One trajectory that takes two pairs of state and action."""
    names = ("person", "trajectory", "step", "state", "action", "reward")
    rows = [(0, 0, step, *pair, reward) for step, pair in enumerate((first, second))]
    return pd.DataFrame(rows, columns=list(names))


WORST = {
    "one state, two actions": (taking((0, 0), (0, 1), 2.0), taking((0, 0), (0, 1), -2.0)),
    "to other actions of the same states": (
        taking((0, 0), (1, 0), 2.0),
        taking((0, 1), (1, 1), 2.0),
    ),
    "to another state": (taking((0, 0), (0, 1), 2.0), taking((1, 0), (1, 1), 2.0)),
}


def audit_of_pairs(pair, releases=2):
    """The distance of the two laws is computed whatever the number of releases is."""
    study = study_of(SSP, 2, max_states_per_trajectory=2)
    study = study.replace(actions=2)
    source = pv.SeededForExperimentsOnly(5)
    return audit_release(study, *pair, releases=releases, entropy=lambda: source)


@pytest.mark.parametrize("pair", WORST)
def test_pairs_of_state_and_action_are_worst_cases_and_no_worse(pair):
    audit = audit_of_pairs(WORST[pair], releases=40 if pair == "to another state" else 2)
    assert not audit.rejected
    assert 1.0 <= audit.slack < 1.01


def test_a_limit_that_counted_states_would_not_do(monkeypatch):
    """The planted mistake: H states, each of which has both of its actions counted."""
    original = kernel.gather

    def careless(*columns_and_rules):
        *columns, rules, sums = columns_and_rules
        most = 2 * rules.max_states_per_trajectory
        return original(*columns, rules._replace(max_states_per_trajectory=most), sums)

    every = [(state, action) for state in (0, 1) for action in (0, 1)]
    names = ["person", "trajectory", "step", "state", "action", "reward"]
    pair = [
        pd.DataFrame([(0, 0, at, *key, reward) for at, key in enumerate(every)], columns=names)
        for reward in (2.0, -2.0)
    ]
    assert audit_of_pairs(pair).true <= audit_of_pairs(pair).claimed
    monkeypatch.setattr(kernel, "gather", careless)
    audit = audit_of_pairs(pair)
    assert audit.true > 2 * audit.claimed
