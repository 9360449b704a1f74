"""Rows that end a trajectory, as a study declares them: labels, rewards, bounds that follow."""

import pytest

import privalue as pv
from oracles.refusals import refused

USUAL = {"epsilon": 1.0, "delta": 1e-6, "unit": "trajectory"}
WARDS = ["ward", "icu"]


def clinic(**changes):
    return pv.Study(
        **{
            **USUAL,
            "states": WARDS,
            "discount": 0.99,
            "ends": {"died": 0.0, "home": 1.0},
            **changes,
        }
    )


def test_rewards_of_ends_give_tight_bounds_and_need_no_column():
    study = clinic()
    assert study.fixed_rewards == (0.0, (0.0, 1.0))
    assert study.values.return_bounds == (0.0, 0.99)
    assert study.values.rewards == (0.0, 1.0)
    assert study.names.names == ("ward", "icu")
    assert study.raw_labels == {"ward": 0, "icu": 1, "died": 2, "home": 3}
    assert study.limits.has_ends
    assert not study.stages
    result = pv.check(study.replace(unit="person", columns={"person": "patient"}))
    assert {"ends-once", "ends-missing"} <= {notice.code for notice in result.notices}
    marked = study.replace(columns={"truncated": "cut"}, truncated_rows="drop-unit")
    assert "ends-missing" not in {notice.code for notice in pv.check(marked).notices}


@pytest.mark.parametrize(
    ("changes", "returns"),
    [
        ({"discount": 1.0}, (0.0, 1.0)),
        ({"discount": 0.5, "reward_per_row": 1.0}, (1.0, 2.0)),
        ({"discount": 0.5, "reward_per_row": 1.0, "ends": ["home"]}, (1.0, 2.0)),
        ({"discount": 0.5, "reward_per_row": -1.0, "ends": {"home": 8.0}}, (-2.0, 3.0)),
        ({"discount": 0.5, "reward_per_row": 1.0, "ends": None}, (1.0, 2.0)),
        ({"returns": (0, 5)}, (0.0, 5.0)),
    ],
)
def test_bounds_that_follow_are_the_hull_of_all_lengths(changes, returns):
    """A slow twin: returns of up to 400 rows, with each end and with none."""
    study = clinic(**changes)
    assert study.values.return_bounds == returns
    (row, ends), gamma = study.fixed_rewards, study.values.discount
    for rows in range(1, 400):
        before = sum(row * gamma**k for k in range(rows))
        for value in (before, *(before + gamma**rows * end for end in ends)):
            assert returns[0] - 1e-9 <= value <= returns[1] + 1e-9 or gamma == 1 or row


def test_implied_bounds_follow_a_change():
    study = clinic()
    assert study.replace(discount=0.5).values.return_bounds == (0.0, 0.5)
    assert study.replace(ends={"home": 3.0}).values.rewards == (0.0, 3.0)
    again = pv.Study.from_sections(study.sections())
    assert again == study
    description = study.public_description()
    assert description["states"]["ends"] == {"died": 0.0, "home": 1.0}
    assert description["values"]["returns"] == [0.0, 0.99]


def test_counted_states_lose_those_that_are_ends():
    lake = pv.Study(**USUAL, states=6, ends=[2, 5], discount=0.9, rewards=(0, 1))
    assert lake.names.names == ("0", "1", "3", "4")
    assert lake.raw_labels == {"0": 0, "1": 1, "3": 2, "4": 3, "2": 4, "5": 5}
    assert lake.fixed_rewards is None
    other = pv.Study(**USUAL, states=2, ends=["out"], discount=0.9, rewards=(0, 1))
    assert other.names.names == ("0", "1")


def test_ends_are_compared_after_groups():
    study = clinic(groups={"w1": "ward", "w2": "ward", "icu": "icu", "exitus": "died", "x": "home"})
    assert study.raw_labels == {"w1": 0, "w2": 0, "icu": 1, "exitus": 2, "x": 3}


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"ends": {"icu": 1.0}}, "end-among-states"),
        ({"states": 2, "ends": [0, 1], "rewards": (0, 1)}, "states-all-ends"),
        ({"ends": ["a", "a "], "rewards": (0, 1)}, "ends-invalid"),
        ({"ends": {"out": float("nan")}}, "key-invalid"),
        ({"discount": 1.0, "reward_per_row": 1.0}, "returns-missing"),
        ({"groups": {"x": "nowhere"}}, "label-unknown"),
    ],
)
def test_invalid_ends_are_refused(changes, code):
    with refused(code):
        clinic(**changes)
