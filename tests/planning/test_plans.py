"""What a plan holds: half-widths by visits first, then states, errors, answers and suggestions."""

import json

import matplotlib as mpl
import numpy as np
import pytest

import privalue as pv
from privalue.cli import run
from privalue.errors import UsageError
from privalue.planning import FromWorld, HalfWidth, mechanism_of_study, predict
from privalue.simulation import parse_world

CHAIN = parse_world("chain:N=8")


def described(**changes):
    keywords = {
        "states": 8, "discount": 0.99, "rewards": (0, 1), "returns": (0, 1), "epsilon": 1.0,
        "delta": 1e-6, "unit": "trajectory",
    }  # fmt: skip
    return pv.Study(**(keywords | changes))


VISITS = {str(state): (state + 1) / 8 for state in range(8)}


def codes(found):
    return {notice.code for notice in found.notices}


def test_half_widths_by_visits_need_nothing_but_the_study():
    study = described()
    found = pv.plan(study)
    widths = HalfWidth.of(study, mechanism_of_study(study, None)).middle
    assert found.trajectories is None
    assert found.rmse is None
    assert found.by_visits[0].visits == 10
    assert max(row.visits for row in found.by_visits) >= 10_000
    for row in found.by_visits:
        assert row.half_width == float(widths.at(row.visits))
        assert row.half_width_95 == float(widths.surely(row.visits)) >= row.half_width
        assert row.without_privacy == float(widths.without_privacy.at(row.visits))
    for threshold in found.useful:
        for visits, of in ((threshold.visits, widths.at), (threshold.visits_95, widths.surely)):
            assert 2 * of(visits) <= threshold.share < 2 * of(visits - 2)
    assert f"{found.useful[0].visits:,} visits" in found.headline
    # Nothing else changes it: not m, where there is one stage and no prior.
    assert pv.plan(study, 5000).by_visits == found.by_visits


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
    found = pv.plan(described(**changes))
    halves = [row.half_width for row in found.by_visits]
    assert halves == sorted(halves, reverse=True)
    assert halves[-1] < 0.1


def test_with_a_stage_widths_are_shares_of_what_it_will_choose():
    found = [pv.plan(described(returns=None, rewards=(0, top))) for top in (1, 50)]
    assert all(each.relative for each in found)
    halves = [[row.half_width for row in each.by_visits] for each in found]
    assert halves[0] == pytest.approx(halves[1])
    assert all(row.half_width <= 0.5 for row in found[0].by_visits)
    assert "relative-widths" in codes(found[0])
    known = pv.plan(described(returns=None), 20_000, world=CHAIN)
    assert not known.relative  # a world says what it will choose
    assert known.by_visits[0].half_width > found[0].by_visits[0].half_width


def test_with_a_world_it_has_the_states_and_an_overall_error():
    study, m = described(), 4096
    found = pv.plan(study, m, world="chain:N=8")
    assert [row.state for row in found.states] == [str(state) for state in range(8)]
    visits = np.array([row.visits for row in found.states])
    assert visits == pytest.approx(m * CHAIN.process.visits.single, rel=0.02)
    widths = HalfWidth.of(study, mechanism_of_study(study, m))
    assert [row.half_width for row in found.states] == pytest.approx(list(widths.at(visits)))
    assert found.rmse == predict(study, FromWorld(study, CHAIN), m).rmse
    assert 0 < found.without_privacy < found.rmse
    assert "assumes-a-world" in codes(found)


def test_with_visits_too_whether_they_are_the_studys_or_not(tmp_path):
    lines = ["state,probability", *(f"{state},{p}" for state, p in VISITS.items())]
    (tmp_path / "visits.csv").write_text("\n".join(lines) + "\n")
    found = pv.plan(described(), 4096, visits=VISITS)
    assert [row.visits for row in found.states] == pytest.approx([512 * (s + 1) for s in range(8)])
    assert pv.plan(described(), 4096, visits=tmp_path / "visits.csv").rmse == found.rmse
    # A prior that is in the study shapes the noise as well.
    inside = pv.plan(described(visits=VISITS), 4096)
    assert [row.visits for row in inside.states] == [row.visits for row in found.states]
    assert inside.rmse != found.rmse
    nobody = pv.plan(described(), 4096, visits=VISITS | {"0": 0.0})
    assert "unvisited" in codes(nobody)


def test_keys_have_their_arm_or_their_action():
    arms = pv.plan(described(arms=["a", "b"]), 4096, visits=VISITS)
    assert [(row.arm, row.state) for row in arms.states][8] == ("b", "0")
    pairs = pv.plan(
        described(actions=["x", "y"], states=1, returns=(0, 100)),
        4096,
        world="garnet:N=1,A=2,branching=1",
    )
    assert [(row.state, row.action) for row in pairs.states] == [("0", "x"), ("0", "y")]


@pytest.mark.parametrize("name", ["dp-lsw", "dp-lsl"])
def test_where_noise_follows_the_data_a_prior_or_a_world_is_needed(name):
    study = described(mechanism=name)
    alone = pv.plan(study, 10_000)
    assert alone.by_visits == ()
    assert alone.rmse is None
    assert "needs-visits-or-world" in codes(alone)
    known = pv.plan(study, 100_000, world=CHAIN)
    assert "needs-visits-or-world" not in codes(known)
    assert known.rmse > 0
    assert all(row.half_width > 0 for row in known.states)


# Targets


def test_people_for_a_half_width():
    found = pv.plan(described(), half_width=0.05)
    assert found.answer.quantity == "people"
    assert found.answer.value == found.useful[1].visits


def test_epsilon_for_a_half_width():
    found = pv.plan(described(), half_width=0.05, people=500)
    epsilon = found.answer.value

    def width(e):
        study = described(epsilon=e)
        return float(HalfWidth.of(study, mechanism_of_study(study, None)).middle.at(500))

    assert width(epsilon) <= 0.05 < width(0.98 * epsilon)
    assert pv.plan(described(), half_width=0.02, people=500).answer.value is None
    loose = pv.plan(described(returns=None), half_width=0.05, people=500)
    assert loose.answer.value == pytest.approx(epsilon, rel=0.2)  # of the range, with a stage


def test_trajectories_and_epsilon_for_an_overall_error():
    study = described()
    m = pv.plan(study, 1000, world=CHAIN, target_rmse=0.01).answer
    assert m.quantity == "trajectories"
    made_up = FromWorld(study, CHAIN)
    assert predict(study, made_up, int(m.value)).rmse <= 0.01
    assert predict(study, made_up, int(0.9 * m.value)).rmse > 0.0095
    epsilon = pv.plan(study, 4096, world=CHAIN, target_rmse=0.01, solve="epsilon").answer
    assert predict(described(epsilon=epsilon.value), made_up, 4096).rmse <= 0.01


@pytest.mark.parametrize(
    "wrong",
    [
        {"half_width": 0.0},
        {"half_width": 0.5},
        {"half_width": 0.1, "target_rmse": 0.1},
        {"people": 100},
        {"half_width": 0.1, "people": 0},
        {"target_rmse": 0.1},
        {"target_rmse": -1.0, "world": CHAIN},
        {"solve": "epsilon"},
        {"target_rmse": 0.1, "solve": "m", "world": CHAIN},
        {"world": CHAIN, "visits": VISITS},
        {"world": "nowhere"},
        {"trajectories": 0},
        {"trajectories": True},
        {"trajectories": 2**34},
        {"steps": 0},
    ],
    ids=str,
)
def test_what_cannot_be_asked_is_refused(wrong):
    with pytest.raises(UsageError):
        pv.plan(described(), **({"trajectories": 1000} | wrong))


def test_a_world_or_visits_need_m():
    for known in ({"world": CHAIN}, {"visits": VISITS}):
        with pytest.raises(UsageError) as refused:
            pv.plan(described(), **known)
        assert refused.value.code == "trajectories-missing"
    with pytest.raises(UsageError):
        pv.plan("study.toml")


# Suggestions


def suggested(study, *args, **keywords):
    return {each.code: each for each in pv.plan(study, *args, **keywords).suggestions}


def test_suggestions_are_few_true_and_for_the_studys_own_mechanism():
    study = described(states=40)
    found = pv.plan(study).suggestions
    assert 0 < len(found) <= 4
    assert [each.after for each in found] == sorted(each.after for each in found)
    for each in found:
        assert each.after <= 0.95 * each.before
    by_code = {each.code: each for each in found}
    limited = study.replace(max_states_per_trajectory=2)
    widths = HalfWidth.of(limited, mechanism_of_study(limited, None)).middle
    assert by_code["max-states"].after == pytest.approx(float(widths.visits_for(0.05)), abs=1)
    assert "If a trajectory is rarely in more than 2 states" in by_code["max-states"].text


def test_a_limit_is_not_suggested_where_it_gains_nothing():
    assert "max-states" not in suggested(described(states=3, max_states_per_trajectory=1))
    assert "max-states" not in suggested(described(states=2))


def test_states_made_of_columns_suggest_what_hardly_changes():
    study = described(states=None, bins={"age": [40, 60, 80], "ward": [1, 2]})
    texts = [each.text for each in pv.plan(study).suggestions]
    assert any("If age hardly changes" in text and text.endswith("= 3") for text in texts)
    assert any("If ward hardly changes" in text and text.endswith("= 4") for text in texts)
    assert any("If age hardly changes" in note for note in pv.check(study).notes)


def test_persons_with_fewer_trajectories():
    study = described(unit="person", max_trajectories_per_person=6)
    assert "max_trajectories_per_person = 3" in suggested(study)["max-trajectories"].text


def test_returns_that_are_far_too_wide():
    wide = described(returns=(0, 500))  # rewards and discount allow 100
    assert "[0, 100]" in suggested(wide)["returns"].text
    declared = described(returns=(0, 100))
    assert "stage-for-bounds" in suggested(declared)
    assert "stage-for-bounds" not in suggested(described())
    assert "[0, 9.56" in suggested(declared, steps=10)["returns"].text
    in_world = suggested(declared, 4096, world=CHAIN)["returns"]
    assert "[0, 1]" in in_world.text
    assert in_world.after < 0.5 * in_world.before


def test_a_world_suggests_its_own_visits_and_limit():
    first = parse_world("garnet:N=30,A=2,seed=3,start=first,most_end=0.9")
    study = described(states=30, discount=0.95, returns=(0, 20))
    found = suggested(study, 8192, world=first)
    assert 0 < len(found) <= 4
    assert {each.measure for each in found.values()} == {"rmse"}
    assert "states on average" in found["max-states"].text


# For programs, and on paper


def test_json_has_what_the_contract_says(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    described(name="chain").save("study.toml")
    capsys.readouterr()
    assert run(["plan", "study.toml", "--json"]) == 0
    alone = json.loads(capsys.readouterr().out)
    visits = [row["visits"] for row in alone["by_visits"]]
    assert visits == sorted(visits)
    assert visits[0] == 10
    assert visits[-1] >= 10_000
    assert all(0 < row["half_width"] <= 0.5 for row in alone["by_visits"])
    command = ["plan", "study.toml", "--trajectories", "4096", "--world", "chain:N=8", "--json"]
    assert run(command) == 0
    known = json.loads(capsys.readouterr().out)
    assert set(known["states"][0]) == {"state", "visits", "half_width"}
    assert known["rmse"] > 0
    assert run(["plan", "study.toml", "--half-width", "0.05", "--people", "500"]) == 0
    assert "epsilon = " in capsys.readouterr().out
    assert run(["plan", "study.toml", "--world", "chain:N=8"]) == 2
    described(mechanism="dp-lsw", name="smooth").save("smooth.toml")
    capsys.readouterr()
    assert run(["plan", "smooth.toml", "--json"]) == 0
    smooth = json.loads(capsys.readouterr().out)
    assert smooth["by_visits"] == []
    assert "needs-visits-or-world" in [notice["code"] for notice in smooth["notices"]]


def test_a_plot_has_a_line_for_every_epsilon():
    mpl.use("agg")
    axes = pv.plan(described()).plot()
    labels = [line.get_label() for line in axes.get_lines()]
    assert labels == ["epsilon = 0.25", "epsilon = 1", "epsilon = 4", "without privacy"]
    heights = [line.get_ydata()[-1] for line in axes.get_lines()]
    assert heights == sorted(heights, reverse=True)
    with pytest.raises(UsageError):
        pv.plan(described(mechanism="dp-lsw")).plot()
