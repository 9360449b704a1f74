"""What is refused unless it is accepted by name, and what is said before anything is charged."""

import json
import math
import warnings

import pytest

import privalue as pv
from privalue.cli import run
from privalue.core import PublicSize
from privalue.planning import (
    HalfWidth,
    large_delta,
    mechanism_of_study,
    plan,
    usefulness,
)

PEOPLE = [[(0, 0.0), (1, 0.0), (2, 1.0)], [(0, 0.0), (2, 1.0)]] * 500


def described(**changes):
    keywords = {
        "states": 3, "discount": 0.9, "rewards": (0, 1), "returns": (0, 1), "epsilon": 1.0,
        "delta": 1e-6, "unit": "trajectory", "dataset": "trial",
    }  # fmt: skip
    return pv.Study(**(keywords | changes))


def judged(study, m):
    return usefulness(study, mechanism_of_study(study, m), m)


@pytest.fixture
def ledger(tmp_path):
    kept = pv.open_ledger(tmp_path / "ledger.db")
    kept.declare("trial", epsilon=2.0, delta=1e-5, unit="trajectory")
    return kept


def entries(ledger):
    return ledger.verify().entries


def codes(study, **options):
    """The release, and the codes of what was said before it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        release = pv.release(study, PEOPLE, **options)
    return release, [each.message.code for each in caught]


# 2 h(m) > R/2


@pytest.mark.parametrize("returns", [(0, 1), (0, 3000), (-7, 2)])
@pytest.mark.parametrize("epsilon", [0.05, 1.0])
def test_refused_is_what_not_even_everybodys_state_is_of_use_in(returns, epsilon):
    study = described(returns=returns, epsilon=epsilon)
    widths = HalfWidth.of(study, mechanism_of_study(study, 100))
    reach = returns[1] - returns[0]
    last = max(m for m in range(1, 20_000) if 2 * widths.least.at(m) > reach / 2)
    assert judged(study, last).useless
    assert not judged(study, last + 1).useless
    assert judged(study, last + 1).visits == pytest.approx(last + 1, abs=1)
    # With fewer than five times as many a note says so, and nothing more.
    needed = judged(study, last + 1).visits
    assert judged(study, math.floor(5 * needed)).risky
    assert not judged(study, math.ceil(5 * needed)).risky


def test_with_a_stage_it_does_not_depend_on_what_the_stage_will_choose():
    found = {
        judged(described(returns=None, rewards=(0, top), stages=["bounds"]), 1000).visits
        for top in (1, 1000)
    }
    assert len({round(visits, 6) for visits in found}) == 1


@pytest.mark.parametrize("name", ["dp-lsw", "dp-lsl"])
def test_where_noise_follows_the_data_the_best_counts_decide(name):
    """Nothing is refused that some data set of m trajectories would make of use."""
    ridge = {"ridge": 1.0} if name == "dp-lsl" else {}
    study = described(mechanism=name, beta=0.01, **ridge)
    refused = [m for m in (10, 100, 1000, 10_000, 100_000) if judged(study, m).useless]
    assert refused
    assert refused == [10, 100, 1000, 10_000, 100_000][: len(refused)]
    m = refused[-1]
    everybody = [[(0, 0.0), (1, 0.0), (2, 1.0)]] * min(m, 20_000)
    noise = pv.inspect(study, everybody).noise_by_state
    assert 2 * 1.96 * noise.min() > 0.5
    assert not judged(study, 10 * m).useless


def test_the_noise_of_another_policys_value_decides_at_all_of_its_weight():
    rule = {state: {"x": 0.5, "y": 0.5} for state in "ab"}
    policy = {"target": rule, "behaviour": rule, "clip": 10}
    study = described(
        states=["a", "b"], actions=["x", "y"], delta=None, mechanism="dp-ope", policy=policy
    )
    needed = judged(study, 1000).visits
    mechanism = mechanism_of_study(study, 1000)
    scale = mechanism.sigma / math.sqrt(2)  # of Laplace noise, in units of returns
    assert 2 * scale * math.log(20) / needed == pytest.approx(0.5, rel=1e-9)
    assert judged(study, math.floor(needed)).useless
    assert not judged(study, math.ceil(needed)).useless


def test_a_useless_release_is_refused_before_data_is_opened(ledger):
    study, before = described(epsilon=0.01, trajectories=1000), entries(ledger)
    with pytest.raises(pv.StudyError) as refused:
        pv.release(study, "no such file.csv", ledger=ledger)
    assert refused.value.code == "useless"
    assert "\n" not in str(refused.value)
    assert entries(ledger) == before
    assert str(ledger.account("trial").spent) == "epsilon 0, delta 0"


def test_the_bounds_that_were_charged_with_a_note_are_refused():
    """[0, 3000] at epsilon .05, of which 7 of 8 values were flagged."""
    study = described(states=8, rewards=(0, 300), returns=(0, 3000), epsilon=0.05)
    with pytest.raises(pv.StudyError) as refused:
        pv.release(study, [[(s, 1.0) for s in range(8)]] * 1000)
    assert refused.value.code == "useless"


def test_an_accepted_one_goes_ahead_and_says_so(ledger):
    study = described(epsilon=0.01, trajectories=1000)
    release = pv.release(study, PEOPLE, ledger=ledger, accept_useless=True)
    assert release.accepted == ["useless"]
    assert json.loads(release.to_json())["accepted"] == ["useless"]
    assert pv.refit(release, level=0.5).accepted == ["useless"]


def test_a_useful_one_has_nothing_to_accept_and_nothing_is_said():
    release, said = codes(described(), accept_useless=True, accept_large_delta=True)
    assert release.accepted == []
    assert said == []


def test_without_a_public_or_declared_size_nothing_is_refused():
    study = described(epsilon=0.01, neighbours="add-remove")
    assert codes(study)[0].accepted == []
    with pytest.raises(pv.StudyError):
        pv.release(study.replace(trajectories=1000), PEOPLE)


def test_few_trajectories_are_said_and_change_nothing():
    study = described(epsilon=0.1)
    assert not judged(study, 1000).useless
    release, said = codes(study)
    assert said == ["few-trajectories"]
    assert release.accepted == []


def test_it_depends_on_what_is_public_alone():
    """Two data sets of one size that could not differ more: the same line, to the letter."""
    lines = []
    for people in ([[(0, 0.0)]] * 1000, [[(0, 1.0), (1, 1.0), (2, 1.0)]] * 1000):
        with pytest.raises(pv.StudyError) as refused:
            pv.release(described(epsilon=0.01), people)
        lines.append(str(refused.value))
    assert lines[0] == lines[1]


def test_plan_and_check_say_it_beforehand():
    study = described(epsilon=0.01, trajectories=1000)
    assert [n.severity for n in plan(study).notices if n.code == "useless"] == ["stop"]
    assert any("would be refused" in note for note in pv.check(study).notes)
    few = described(epsilon=0.1, trajectories=1000)
    assert "few-trajectories" in [notice.code for notice in plan(few).notices]


@pytest.mark.parametrize("m", [30, 100, 300, 1000, 10_000])
def test_a_tighter_limit_adds_no_notice(m):
    study = described(states=12, trajectories=m)
    before = {notice.code for notice in plan(study).notices}
    for limit in range(11, 0, -1):
        after = {n.code for n in plan(study.replace(max_states_per_trajectory=limit)).notices}
        assert after <= before | ({"few-trajectories"} if "useless" in before else set())
        before = after


def test_the_command_says_it_in_one_line_with_exit_3(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(["init", "study.toml"]) == 0
    text = (tmp_path / "study.toml").read_text().replace("epsilon = 1.0", "epsilon = 0.01")
    (tmp_path / "study.toml").write_text(text)
    assert run(["simulate", "chain", "--trajectories", "300", "--out", "data.parquet"]) == 0
    command = ["release", "study.toml", "--data", "data.parquet", "--no-ledger", "--out"]
    capsys.readouterr()
    assert run([*command, "refused"]) == 3
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert "--accept-useless" in printed.err
    assert not (tmp_path / "refused").exists()
    assert run([*command, "anyway", "--accept-useless"]) == 0
    assert pv.Release.load("anyway").accepted == ["useless"]
    said = capsys.readouterr().err.splitlines()
    assert "A value will be of use" in said[0]  # where m is public, the first line says from when


# delta above 1/(10 m)


@pytest.mark.parametrize(
    ("delta", "refused"),
    [(0.9e-4, None), (1e-4, None), (1.1e-4, False), (9.9e-4, False), (1e-3, True), (0.3, True)],
)
def test_delta_against_the_number_of_units(delta, refused):
    study = described(delta=delta)
    found = large_delta(study, PublicSize(units=1000, most_count=1000, trajectories=1000))
    assert (None if found is None else found.refused) == refused
    hidden = PublicSize(units=None, most_count=10**6, trajectories=None)
    assert large_delta(study, hidden) is None
    declared = PublicSize(units=None, most_count=10**6, trajectories=1000)
    assert (large_delta(study, declared) is None) == (refused is None)


def test_a_large_delta_is_said_and_a_larger_one_refused():
    assert codes(described(delta=5e-4))[1] == ["large-delta"]
    assert codes(described(delta=1e-5))[1] == []
    with pytest.raises(pv.StudyError) as refused:
        pv.release(described(delta=0.01), PEOPLE)
    assert refused.value.code == "delta-not-below-1/m"
    release, said = codes(described(delta=0.01), accept_large_delta=True)
    assert (release.accepted, said) == (["large-delta"], [])


def test_a_declared_number_counts_where_the_size_is_secret():
    hidden = described(delta=5e-4, neighbours="add-remove")
    assert codes(hidden.replace(trajectories=1000))[1] == ["large-delta"]
    assert codes(hidden)[1] == []  # it is not known how many there are
