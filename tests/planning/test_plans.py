"""Plans: half-widths by visits first, then states, errors, answers and suggestions."""

from itertools import pairwise

import numpy as np
import pytest

import privalue as pv
from privalue.planning import FromWorld, HalfWidth, mechanism_of_study, predict
from privalue.simulation import parse_world

CHAIN = parse_world("chain:N=8")


def make_study(**changes):
    keywords = {
        "states": 8, "discount": 0.99, "rewards": (0, 1), "returns": (0, 1), "epsilon": 1.0,
        "delta": 1e-6, "unit": "trajectory",
    }  # fmt: skip
    return pv.Study(**(keywords | changes))


def codes(result):
    return {notice.code for notice in result.notices}


def test_half_widths_by_visits_need_nothing_but_the_study():
    study = make_study()
    result = pv.plan(study)
    widths = HalfWidth.of(study, mechanism_of_study(study, None)).middle
    assert result.trajectories is None
    assert result.rmse is None
    assert result.by_visits[0].visits == 10
    assert max(row.visits for row in result.by_visits) >= 10_000
    for row in result.by_visits:
        assert row.half_width == float(widths.at(row.visits))
        assert row.half_width_95 == float(widths.at_95(row.visits)) >= row.half_width
        assert row.without_privacy == float(widths.without_privacy.at(row.visits))
    for threshold in result.useful:
        for visits, of in ((threshold.visits, widths.at), (threshold.visits_95, widths.at_95)):
            assert 2 * of(visits) <= threshold.share < 2 * of(visits - 2)
    assert f"{result.useful[0].visits:,}" in result.headline
    # Nothing else changes it: not m, where there is one stage and no prior.
    assert pv.plan(study, 5000).by_visits == result.by_visits


@pytest.mark.parametrize(
    "changes",
    [
        {"arms": ["a", "b"]},
        {"actions": ["x", "y"]},
        {"unit": "person", "max_trajectories_per_person": 4},
        {"neighbours": "add-remove"},
        {"size": 2},
        {"ridge": 5.0},
        {"bins": {"age": [50, 70], "ward": [1]}, "states": None},
    ],
    ids=str,
)
def test_every_study_of_dp_ssp_has_them(changes):
    result = pv.plan(make_study(**changes))
    halves = [row.half_width for row in result.by_visits]
    assert halves == sorted(halves, reverse=True)
    assert halves[-1] < 0.1


def test_with_a_stage_widths_are_shares_of_what_it_will_choose():
    plans = [pv.plan(make_study(returns=None, rewards=(0, top))) for top in (1, 50)]
    assert all(item.relative for item in plans)
    halves = [[row.half_width for row in item.by_visits] for item in plans]
    assert halves[0] == pytest.approx(halves[1])
    assert all(row.half_width <= 0.5 for row in plans[0].by_visits)
    assert "relative-widths" in codes(plans[0])
    plan = pv.plan(make_study(returns=None), 20_000, world=CHAIN)
    assert not plan.relative  # a world says what it will choose
    assert plan.by_visits[0].half_width > plans[0].by_visits[0].half_width


def test_with_a_world_it_has_the_states_and_an_overall_error():
    study, m = make_study(), 4096
    result = pv.plan(study, m, world="chain:N=8")
    assert [row.state for row in result.states] == [str(state) for state in range(8)]
    visits = np.array([row.visits for row in result.states])
    assert visits == pytest.approx(m * CHAIN.process.visits.single, rel=0.02)
    widths = HalfWidth.of(study, mechanism_of_study(study, m))
    assert [row.half_width for row in result.states] == pytest.approx(list(widths.at(visits)))
    assert result.rmse == predict(study, FromWorld(study, CHAIN), m).rmse
    assert 0 < result.without_privacy < result.rmse
    assert "assumes-a-world" in codes(result)


def test_a_world_has_no_rows_of_ends_and_rewards_of_its_own():
    lake = {"states": 16, "ends": [5, 7, 11, 12, 15]}
    assert len(pv.plan(make_study(**lake), 1000, world="gym:FrozenLake-v1").states) == 11
    for wrong in ({"ends": [0]}, {"ends": {15: 1.0}}, {"reward_per_row": 1.0}):
        with pytest.raises(pv.StudyError):
            pv.plan(make_study(**{**lake, **wrong}), 1000, world="gym:FrozenLake-v1")


@pytest.mark.parametrize("name", ["dp-lsw", "dp-lsl"])
def test_where_noise_follows_the_data_a_prior_or_a_world_is_needed(name):
    study = make_study(mechanism=name)
    alone = pv.plan(study, 10_000)
    assert alone.by_visits == ()
    assert alone.rmse is None
    assert "needs-visits-or-world" in codes(alone)
    plan = pv.plan(study, 100_000, world=CHAIN)
    assert "needs-visits-or-world" not in codes(plan)
    assert plan.rmse > 0
    assert all(row.half_width > 0 for row in plan.states)


# Targets


def test_people_for_a_half_width():
    result = pv.plan(make_study(), half_width=0.05)
    assert result.answer.quantity == "people"
    assert result.answer.value == result.useful[1].visits


def test_epsilon_for_a_half_width():
    result = pv.plan(make_study(), half_width=0.05, people=500)
    epsilon = result.answer.value

    def width(e):
        study = make_study(epsilon=e)
        return float(HalfWidth.of(study, mechanism_of_study(study, None)).middle.at(500))

    assert width(epsilon) <= 0.05 < width(0.98 * epsilon)
    assert pv.plan(make_study(), half_width=0.02, people=500).answer.value is None
    loose = pv.plan(make_study(returns=None), half_width=0.05, people=500)
    assert loose.answer.value == pytest.approx(epsilon, rel=0.2)  # of the range, with a stage


@pytest.mark.long
def test_trajectories_and_epsilon_for_an_overall_error():
    study = make_study()
    m = pv.plan(study, 1000, world=CHAIN, target_rmse=0.01).answer
    assert m.quantity == "trajectories"
    made_up = FromWorld(study, CHAIN)
    assert predict(study, made_up, int(m.value), draws=100).rmse <= 0.01
    assert predict(study, made_up, int(0.9 * m.value), draws=100).rmse > 0.0095
    epsilon = pv.plan(study, 4096, world=CHAIN, target_rmse=0.01, solve="epsilon").answer
    assert predict(make_study(epsilon=epsilon.value), made_up, 4096, draws=100).rmse <= 0.01


# Suggestions


def suggestions(study, *args, **keywords):
    return {item.code: item for item in pv.plan(study, *args, **keywords).suggestions}


def people_by_scan(study, reach):
    """The least n with 2 h(n) <= reach/10, one after the other."""
    widths = HalfWidth.of(study, mechanism_of_study(study, None)).middle
    visits = np.arange(1, 50_000)
    return int(visits[2 * widths.at(visits) <= reach / 10][0])


def test_suggestions_are_few_true_and_for_the_studys_own_mechanism():
    study = make_study(
        states=8, returns=(0, 200), epsilon=4.0, unit="person", max_trajectories_per_person=5
    )
    by_code = suggestions(study)
    changes = {
        "max-states": {"max_states_per_trajectory": 2},
        "max-trajectories": {"max_trajectories_per_person": 3},
        "returns": {"returns": (0, 100)},
        "epsilon": {"epsilon": 8.0},
    }
    assert set(by_code) == set(changes)
    after = [by_code[code].after for code in by_code]
    assert after == sorted(after)
    for code, change in changes.items():
        assert by_code[code].before == people_by_scan(study, 200)
        assert by_code[code].after == people_by_scan(study.replace(**change), 200)
        assert by_code[code].after <= 0.95 * by_code[code].before
    # Planted: people counted for a tenth of the new range would find little gain in tighter bounds.
    wrong = people_by_scan(study.replace(**changes["returns"]), 100)
    assert wrong > 1.5 * by_code["returns"].after


def test_returns_that_are_far_too_wide():
    wide = make_study(returns=(0, 500))  # rewards and discount allow 100
    assert "[0, 100]" in suggestions(wide)["returns"].text
    declared = make_study(returns=(0, 100))
    assert "stage-for-bounds" in suggestions(declared)
    assert "stage-for-bounds" not in suggestions(make_study())
    forever = make_study(returns=(0, 500), discount=1)
    assert "stage-for-bounds" in suggestions(forever)
    staged = make_study(stages=["bounds"])
    for study, offered in ((wide, True), (declared, True), (forever, True), (staged, False)):
        assert bool(codes(pv.check(study)) & {"returns-too-wide", "returns-wide"}) == offered
    assert "[0, 9.56" in suggestions(declared, steps=10)["returns"].text
    in_world = suggestions(declared, 4096, world=CHAIN)["returns"]
    assert "[0, 1]" in in_world.text
    assert in_world.after < 0.5 * in_world.before


@pytest.mark.parametrize("returns", [(0, 1), (0, 60), None])
@pytest.mark.parametrize("trajectories", [100, 1000])
def test_a_tighter_limit_adds_no_warning(returns, trajectories):
    """A refusal may become a warning."""
    results = []
    for limit in (8, 5, 3, 2, 1):
        study = make_study(
            returns=returns, trajectories=trajectories, max_states_per_trajectory=limit
        )
        results.append(codes(pv.plan(study)) | codes(pv.check(study)))
    for looser, tighter in pairwise(results):
        assert tighter - looser <= ({"few-trajectories"} if "useless" in looser else set())
