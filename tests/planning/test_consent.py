"""What is refused unless it is accepted by name, and what is said before anything is charged."""

import json
import re
import warnings

import numpy as np
import pytest

import privalue as pv
from oracles.studies import in_sections
from privalue.cli._app import run
from privalue.core import PublicSize
from privalue.planning import judge_planned
from privalue.planning._consent import large_delta
from privalue.planning._judgement import USELESS, affordable_draws, judge, noise_alone
from privalue.planning._predict import planned_size
from privalue.report._public_page import public_page
from privalue.study._features import design
from privalue.study._terms import mechanism_for

PEOPLE = [[(0, 0.0), (1, 0.0), (2, 1.0)], [(0, 0.0), (2, 1.0)]] * 500
USELESS_WORDS = "this release would be of no use: with 1,000 trajectories dp-lsw is predicted to be"


def described(name="dp-lsw", *, count=3, privacy=None, about=None, states=None, **sections):
    """dp-lsw with the paper's constants is of no use with a thousand people."""
    mechanism = {"name": name}
    if name == "dp-lsw":
        mechanism |= {"calibration": "nissim", "noise": "isotropic"}
    return in_sections(
        study={"dataset": "trial", **(about or {})},
        privacy={"epsilon": 0.1, "delta": 1e-6, "unit": "trajectory", **(privacy or {})},
        values={"discount": 0.9, "rewards": (0.0, 1.0), "returns": (0.0, 1.0)},
        states=states or {"count": count},
        **{"mechanism": mechanism, **sections},
    )


@pytest.fixture
def ledger(tmp_path):
    kept = pv.open_ledger(tmp_path / "ledger.db")
    kept.declare("trial", epsilon=1.0, delta=1e-5, unit="trajectory")
    return kept


def entries(ledger):
    return ledger.verify().entries


# A release that its own plan calls useless


def test_a_useless_release_is_refused_before_data_is_opened_and_nothing_is_on_the_ledger(ledger):
    before = entries(ledger)
    study = described(about={"trajectories": 1000})
    with pytest.raises(pv.StudyError, match=re.escape(USELESS_WORDS)) as refused:
        pv.release(study, "no such file.csv", ledger=ledger)
    assert entries(ledger) == before
    assert str(ledger.account("trial").spent) == "epsilon 0, delta 0"
    line = str(refused.value)
    assert "\n" not in line
    judged = judge_planned(study, 1000)
    assert f"off by {judged.rmse:.3g}, and guessing 0.5 for every state by {judged.guess:.3g}" in (
        line
    )
    assert "most helpful is" in line
    assert "dp-ssp" in line
    assert "nothing was spent" in line
    assert line.endswith("accept_useless=True)")


def test_where_the_size_is_only_counted_it_is_refused_after_reading():
    with pytest.raises(pv.StudyError, match=re.escape(USELESS_WORDS)):
        pv.release(described(), PEOPLE)


def test_an_accepted_one_goes_ahead_and_says_so(ledger):
    study = described(about={"trajectories": 1000})
    release = pv.release(study, PEOPLE, ledger=ledger, accept_useless=True)
    assert release.accepted == ["useless"]
    assert json.loads(release.to_json())["accepted"] == ["useless"]
    assert pv.Release.parse(release.to_json()).accepted == ["useless"]
    assert "By its own plan this release is no better than guessing" in public_page(release)
    assert str(ledger.account("trial").spent) != "epsilon 0, delta 0"


def test_a_useful_one_is_not_refused_and_has_nothing_to_accept():
    study = described("dp-ssp", privacy={"epsilon": 1.0})
    release = pv.release(study, PEOPLE, accept_useless=True, accept_large_delta=True)
    assert release.accepted == []
    assert json.loads(release.to_json())["accepted"] == []
    assert "no better than guessing the middle" not in public_page(release)


def test_a_refit_keeps_what_was_accepted():
    release = pv.release(
        described("dp-ssp", privacy={"epsilon": 0.01}), PEOPLE, accept_useless=True
    )
    assert release.accepted == ["useless"]
    assert pv.refit(release, level=0.5).accepted == ["useless"]


@pytest.mark.parametrize(
    "privacy",
    [
        {"neighbours": "add-remove"},
        {"unit": "person", "max_trajectories_per_person": 1, "neighbours": "add-remove"},
    ],
    ids=["trajectory", "person"],
)
def test_without_a_public_or_declared_size_nothing_is_refused_and_a_note_says_why(privacy):
    import pandas as pd

    rows = [(who, who, 0, 0, 1.0) for who in range(9)]
    frame = pd.DataFrame(rows, columns=["person", "trajectory", "step", "state", "reward"])
    study = described("dp-ssp", privacy=privacy)
    with pytest.warns(pv.PrivalueWarning, match="neither public nor declared; set"):
        assert pv.release(study, frame).accepted == []
    with pytest.raises(pv.StudyError, match="of no use"):
        pv.release(described("dp-ssp", privacy=privacy, about={"trajectories": 9}), frame)


def test_the_command_says_it_in_one_line_with_exit_3_and_its_own_flag(
    tmp_path, monkeypatch, capsys
):
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
    assert printed.err.startswith("privalue: this release would be of no use: with 300 traj")
    assert printed.err.endswith("accept_useless=True)\n")
    assert not (tmp_path / "refused").exists()
    assert run([*command, "anyway", "--accept-useless"]) == 0
    assert pv.Release.load("anyway").accepted == ["useless"]
    assert "By its own plan" in (tmp_path / "anyway" / "report.html").read_text()


def test_plan_and_check_say_beforehand_that_it_would_be_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(["init", "study.toml"]) == 0
    text = (tmp_path / "study.toml").read_text().replace("epsilon = 1.0", "epsilon = 0.01")
    text = text.replace("[study]", "[study]\ntrajectories = 300").replace("# trajectories", "#")
    (tmp_path / "study.toml").write_text(text)
    for command in (["check", "study.toml"], ["plan", "study.toml", "--draws", "8"]):
        capsys.readouterr()
        assert run([*command, "--json"]) == 0
        notes = json.loads(capsys.readouterr().out)["notes"]
        assert any(
            "would be refused, unless it is accepted (--accept-useless" in note for note in notes
        )


# A release that is of use unless visits are unkind


def doubtful(**sections):
    return described("dp-ssp", count=20, privacy={"epsilon": 1.0}, **sections)


def twenty(number):
    """People who visit all of twenty states."""
    return [[(state, 0.0) for state in range(19)] + [(19, 1.0)]] * number


def test_where_only_the_cautious_end_is_useless_a_release_warns_and_the_page_has_a_bar(ledger):
    study = doubtful(about={"trajectories": 150})
    judged = judge_planned(study, 150)
    assert judged.doubtful
    assert judged.rmse < USELESS * judged.guess <= judged.cautious
    with pytest.warns(pv.PrivalueWarning, match="at the cautious end, where few visit") as caught:
        release = pv.release(study, twenty(150), ledger=ledger)
    assert len(caught) == 1
    assert release.accepted == []  # nothing was refused, so nothing was accepted
    assert str(ledger.account("trial").spent) != "epsilon 0, delta 0"
    assert "At the cautious end of its own plan" in public_page(release)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pv.release(study, twenty(150), accept_useless=True)  # who accepts more is not warned
        many = pv.release(doubtful(), twenty(20_000))
    assert "cautious end of its own plan" not in public_page(many)
    assert "the optimistic end" in public_page(many)


def test_the_command_warns_and_goes_ahead(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(["init", "study.toml"]) == 0
    assert run(["simulate", "chain", "--trajectories", "150", "--out", "data.parquet"]) == 0
    command = ["release", "study.toml", "--data", "data.parquet", "--no-ledger", "--out", "out"]
    capsys.readouterr()
    assert run([*command, "--json"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["accepted"] == []
    assert "Note: with 150 trajectories the values are predicted to be off by" in printed.err
    assert "At the cautious end" in (tmp_path / "out" / "report.html").read_text()


def test_check_and_plan_say_that_a_release_would_warn(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(["init", "study.toml"]) == 0
    text = (tmp_path / "study.toml").read_text()
    text = text.replace("[study]", "[study]\ntrajectories = 150").replace("# trajectories", "#")
    (tmp_path / "study.toml").write_text(text)
    for command in (["check", "study.toml"], ["plan", "study.toml", "--draws", "8"]):
        capsys.readouterr()
        assert run([*command, "--json"]) == 0
        notes = json.loads(capsys.readouterr().out)["notes"]
        assert any(note.startswith("a release would warn: with 150") for note in notes)


# How it is judged


def mechanism_of(study, m):
    built = design(study)
    return built, mechanism_for(study, built, planned_size(study, m))


def test_the_judgement_is_the_plans_own_prediction_from_fewer_draws():
    from privalue.planning import Option, predict, public_model

    study = described("dp-ssp")
    prediction = predict(
        study,
        public_model(study),
        trajectories=1000,
        options=[Option(study=study, chosen=True)],
        draws=100,
    )
    judged = judge_planned(study, 1000)
    assert judged.rmse == pytest.approx(prediction.chosen.rmse, rel=0.1)
    assert judged.cautious == pytest.approx(prediction.chosen.cautious, rel=0.25)
    assert judged.guess == pytest.approx(prediction.guess)
    assert judged.useless == (judged.rmse >= USELESS * judged.guess)


@pytest.mark.parametrize("m", [30, 1000, 30_000])
@pytest.mark.parametrize(
    "sections",
    [
        {"mechanism": {"name": "dp-ssp"}},
        {"mechanism": {"name": "dp-lsw", "beta": 0.01}},
        {"mechanism": {"name": "dp-lsw", "beta": 0.01, "noise": "isotropic"}},
        {"mechanism": {"name": "dp-lsl", "beta": 0.01}},
        {"mechanism": {"name": "dp-lsl", "beta": 0.01, "ridge_scale": 1.0}},
        {"mechanism": {"name": "dp-ssp"}, "features": {"kind": "aggregate", "size": 3}},
        {
            "mechanism": {"name": "dp-lsw", "beta": 0.01},
            "features": {"kind": "aggregate", "size": 3},
        },
        {"mechanism": {"name": "dp-ssp"}, "features": "smooth"},
        {"mechanism": {"name": "dp-lsw", "beta": 0.01}, "features": "smooth"},
        {"mechanism": {"name": "dp-ssp", "ridge": 5.0}},
        {"mechanism": {"name": "dp-ssp"}, "states": "prior"},
        {"mechanism": {"name": "dp-lsw", "beta": 0.01}, "states": "prior"},
    ],
    ids=lambda sections: json.dumps(list(sections.values())),
)
def test_the_bound_for_many_states_refuses_nothing_that_the_prediction_lets_pass(sections, m):
    """Where both can be had: what the bound calls useless, the prediction calls useless."""
    sections, states = dict(sections), 60
    if sections.get("features") == "smooth":
        place = np.linspace(-1, 1, states)
        sections["features"] = {
            "kind": "matrix",
            "matrix": np.stack([place**k for k in range(4)], 1),
        }
    if sections.get("states") == "prior":
        visits = {str(s): float(p) for s, p in enumerate(np.geomspace(0.02, 1, states))}
        sections["states"] = {"count": states, "visits": visits}
    study = described(count=states, privacy={"epsilon": 1.0}, **sections)
    built, mechanism = mechanism_of(study, m)
    predicted = judge(study, built, mechanism, m)
    assert affordable_draws(study, built) >= 4
    bound = noise_alone(study, built, mechanism, m)
    assert predicted.useless or bound < USELESS * predicted.guess
    if "features" not in sections:  # the values that are assumed are the same ones
        assert bound <= 1.1 * predicted.rmse


@pytest.mark.parametrize("name", ["dp-ssp", "dp-lsw"])
def test_the_bound_is_near_the_prediction(name):
    """It is no bound that never refuses: noise that drowns everything is seen."""
    study = described(count=2000, privacy={"epsilon": 1.0}, mechanism={"name": name})
    built, mechanism = mechanism_of(study, 1000)
    judged = judge(study, built, mechanism, 1000)
    assert noise_alone(study, built, mechanism, 1000) > 0.8 * judged.rmse


def test_very_many_states_are_judged_by_the_bound(monkeypatch):
    """Nothing is simulated for them: it would take minutes."""
    monkeypatch.setattr("privalue.planning._judgement.Forecaster", None)
    for name, useless in (("dp-ssp", False), ("dp-lsw", True), ("dp-lsl", False)):
        mechanism = {"name": name} if name == "dp-ssp" else {"name": name, "beta": 1e-4}
        study = described(count=200_000, privacy={"epsilon": 1.0}, mechanism=mechanism)
        built, ready = mechanism_of(study, 100_000)
        judged = judge(study, built, ready, 100_000)
        assert judged.guess == pytest.approx(12**-0.5)
        assert judged.useless == useless


def test_the_judgement_depends_on_what_is_public_alone():
    """Two data sets of one size that could not differ more: the same line, to the letter."""
    lines = []
    for people in ([[(0, 0.0)]] * 1000, [[(0, 1.0), (1, 1.0), (2, 1.0)]] * 1000):
        with pytest.raises(pv.StudyError) as refused:
            pv.release(described(), people)
        lines.append(str(refused.value))
    assert lines[0] == lines[1]


# delta above 1/(10 m)


@pytest.mark.parametrize(
    ("delta", "said"),
    [(0.9e-4, None), (1e-4, None), (1.1e-4, False), (9.9e-4, False), (1e-3, True), (0.3, True)],
)
def test_delta_against_the_number_of_units(delta, said):
    study = described(privacy={"delta": delta})
    found = large_delta(study, PublicSize(units=1000, most_count=1000, trajectories=1000))
    assert (None if found is None else found.refused) == said
    hidden = PublicSize(units=None, most_count=10**6, trajectories=None)
    assert large_delta(study, hidden) is None
    declared = PublicSize(units=None, most_count=10**6, trajectories=1000)
    assert (large_delta(study, declared) is None) == (said is None)


def warned(study, **options):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        release = pv.release(study, PEOPLE, **options)
    return release, [str(each.message) for each in caught]


def test_a_large_delta_warns_in_python_and_on_the_page():
    large = described("dp-ssp", privacy={"epsilon": 1.0, "delta": 5e-4})
    release, texts = warned(large)
    assert texts == [
        "[privacy] delta = 0.0005 is above 1/(10 m) = 0.0001 for m = 1000 trajectories: a "
        "mechanism that publishes one of them outright would satisfy delta = 1/m; use a smaller "
        "delta"
    ]
    assert "Delta is large: times the number of trajectories, 1,000, it is 0.5" in public_page(
        release
    )
    small = described("dp-ssp", privacy={"epsilon": 1.0, "delta": 1e-5})
    release, texts = warned(small)
    assert texts == []
    assert "Delta is large" not in public_page(release)


def test_an_accepted_delta_is_on_the_page_and_in_the_release():
    large = described("dp-ssp", privacy={"epsilon": 1.0, "delta": 0.01})
    release, texts = warned(large, accept_large_delta=True)
    assert texts == []
    assert release.accepted == ["large-delta"]
    assert "Delta is too large to promise much" in public_page(release)


def test_a_declared_number_counts_where_the_size_is_secret():
    hidden = {"epsilon": 1.0, "delta": 5e-4, "neighbours": "add-remove"}
    release, texts = warned(described("dp-ssp", privacy=hidden, about={"trajectories": 1000}))
    assert [text[:35] for text in texts] == ["[privacy] delta = 0.0005 is above 1"]
    assert "Delta is large: times the number of" in public_page(release)
    release, texts = warned(described("dp-ssp", privacy=hidden))
    assert not any("delta" in text for text in texts)  # it is not known how many there are
    assert "Delta is large" not in public_page(release)


def test_the_command_warns_on_stderr(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(["init", "study.toml"]) == 0
    text = (tmp_path / "study.toml").read_text().replace("delta = 1e-6", "delta = 1e-4")
    (tmp_path / "study.toml").write_text(text)
    assert run(["simulate", "chain", "--trajectories", "3000", "--out", "data.parquet"]) == 0
    capsys.readouterr()
    command = ["release", "study.toml", "--data", "data.parquet", "--out", "out", "--no-ledger"]
    assert run([*command, "--json"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["accepted"] == []
    assert "Note: [privacy] delta = 0.0001 is above 1/(10 m)" in printed.err
    assert "Delta is large" in (tmp_path / "out" / "report.html").read_text()


# One rare state


@pytest.mark.parametrize("name", ["dp-lsw", "dp-lsl"])
def test_without_a_prior_the_smooth_mechanisms_say_what_a_rare_state_does(name):
    chosen = {"name": name, "beta": 0.01} | ({"ridge": 1.0} if name == "dp-lsl" else {})
    privacy = {"epsilon": 2.0}
    plain = described(mechanism=chosen, privacy=privacy)
    with pytest.warns(pv.PrivalueWarning, match="without a public prior of visits") as caught:
        pv.release(plain, PEOPLE, accept_useless=True)
    text = str(caught[0].message)
    noise = float(re.search(r"standard deviation of ([\d.e+-]+),", text)[1])
    rare = [[(0, 0.0), (1, 1.0)]] * 1000  # and nobody visits state 2
    truly = pv.inspect(plain, rare).noise_by_state
    assert noise == pytest.approx(float(np.median(truly)), rel=0.1)
    prior = {"count": 3, "visits": {"0": 1.0, "1": 0.9, "2": 0.9}}
    informed = described(mechanism=chosen, privacy=privacy, states=prior)
    _, texts = warned(informed, accept_useless=True)
    assert texts == []
    assert warned(described("dp-ssp", privacy=privacy))[1] == []


@pytest.mark.parametrize("declared", [True, False], ids=["declared", "not declared"])
def test_check_and_plan_say_it_too(declared, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(["init", "study.toml"]) == 0
    text = (tmp_path / "study.toml").read_text().replace('"dp-ssp"', '"dp-lsw"', 1)
    if declared:
        text = text.replace("[study]", "[study]\ntrajectories = 9000").replace(
            "# trajectories", "#"
        )
    (tmp_path / "study.toml").write_text(text)
    plan = ["plan", "study.toml", "--draws", "8", "--trajectories", "9000"]
    for command in (["check", "study.toml"], plan):
        capsys.readouterr()
        assert run([*command, "--json"]) == 0
        notes = [note for note in json.loads(capsys.readouterr().out)["notes"] if "prior" in note]
        said = " ".join(notes)
        assert "dp-lsw without a public prior of visits ([states] visits)" in said
        counted = declared or command[0] == "plan"
        assert ("if nobody visits one of the states and all 9,000" in said) == counted
