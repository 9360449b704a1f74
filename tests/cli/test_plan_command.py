"""``privalue plan``: the verdict, the table, JSON, and what is refused."""

import json
import re

import pytest
import typer
from typer.testing import CliRunner

from privalue.cli._plan import plan
from privalue.errors import StudyError, UsageError

STUDY = """
[study]
name = "small"
[privacy]
epsilon = 1.0
delta = 1e-6
unit = "trajectory"
[values]
discount = 0.99
rewards = [0.0, 1.0]
returns = [0.0, 1.0]
[states]
count = 5
[mechanism]
name = "dp-lsw"
"""

app = typer.Typer()
app.command()(plan)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    (tmp_path / "study.toml").write_text(STUDY)
    return tmp_path


def ran(*arguments):
    result = CliRunner().invoke(app, ["study.toml", "--draws", "8", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result


def told(*arguments):
    return json.loads(ran("--json", *arguments).stdout)


def test_the_verdict_comes_first_then_table_advice_and_paragraph(folder):
    text = ran("--trajectories", "20000", "--world", "chain:N=5").stdout
    assert text.startswith("With 20,000 trajectories, dp-lsw (exact) is predicted to be off by")
    flat = " ".join(text.split())
    places = [
        flat.index(part)
        for part in ("Predicted root mean", "What would help", "Note: the plan assumes", "For the")
    ]
    assert places == sorted(places)
    assert re.search(r"│ dp-lsw, exact +│", text)
    assert "guessing" in text
    assert "dp-ssp  " not in text
    every = ran("--trajectories", "20000", "--world", "chain:N=5", "--all").stdout
    assert re.search(r"│ dp-lsw, exact\* +│", every)
    assert re.search(r"│ dp-ssp +│", every)
    assert "By state" not in text
    assert "By state" in ran("--trajectories", "20000", "--by-state").stdout


@pytest.mark.parametrize("epsilon", ["1.0", "6.0"])
def test_a_narrow_table_cuts_and_breaks_no_word(folder, monkeypatch, epsilon):
    monkeypatch.setenv("COLUMNS", "80")
    (folder / "study.toml").write_text(STUDY.replace("epsilon = 1.0", f"epsilon = {epsilon}"))
    for more in ((), ("--all",)):
        text = ran("--trajectories", "14500", *more).stdout
        assert "…" not in text
        named = [line.split("│")[1] for line in text.splitlines() if line.startswith("│")]
        told = set(re.split(r"[\s,*]+", " ".join(named).strip()))
        known = {"dp-lsw", "dp-lsl", "dp-ssp", "exact", "nissim", "appendix", "isotropic", "="}
        known |= {"pseudo_count", "ridge_scale", "no", "privacy", "plain", "means", "guessing"}
        assert {word for word in told if not re.fullmatch(r"[\d.]+", word)} <= known


def test_hopeless_is_the_first_word(folder):
    assert ran("--trajectories", "10").stdout.startswith("Hopeless as it stands")


def test_json_has_everything(folder):
    found = told("--trajectories", "20000", "--world", "chain:N=5")
    assert found["trajectories"] == 20000
    assert found["hopeless"] is False
    assert found["approximation_known"] is True
    own = [row for row in found["mechanisms"] if row["this_study"]]
    assert len(own) == 1
    assert own[0]["rmse"] == found["rmse"]
    assert len(own[0]["by_state"]) == 5
    assert {row["mechanism"] for row in found["mechanisms"]} == {"dp-lsw", "dp-lsl", "dp-ssp"}
    for row in found["mechanisms"]:
        assert {"noise", "sampling", "approximation", "usual", "calibration"} <= set(row)
    assert found["states"] == ["0", "1", "2", "3", "4"]
    assert "20,000 trajectories" in found["paragraph"]
    assert found["target"] is None
    assert found["advice"]
    assert found["guessing_rmse"] > found["rmse"] > found["without_privacy_rmse"]


def test_without_a_world_there_is_a_range(folder):
    (folder / "study.toml").write_text(STUDY.replace('"dp-lsw"', '"dp-ssp"'))
    found = told("--trajectories", "20000")
    ends = found["range"]
    assert ends["optimistic"] < ends["middle"] == found["rmse"] < ends["cautious"]
    assert found["cautious"] == ends["cautious"]
    assert found["doubtful"] is False
    assert all(row["range"].keys() == ends.keys() for row in found["mechanisms"])
    assert "under cautious assumptions" in found["paragraph"]
    assert any("a public prior of visits" in note for note in found["notes"])
    text = ran("--trajectories", "20000").stdout
    assert "optimistic" in text
    assert "cautious" in text
    known = told("--trajectories", "20000", "--world", "chain:N=5")
    assert known["range"] is None
    assert known["cautious"] == known["rmse"]
    assert all(row["range"] is None for row in known["mechanisms"])


def test_states_that_nobody_visits_are_named(folder):
    (folder / "study.toml").write_text(STUDY.replace("count = 5", "count = 16"))
    found = told("--trajectories", "20000", "--world", "gym:FrozenLake-v1")
    assert found["unvisited"] == ["5", "7", "11", "12", "15"]
    assert any("leave them out of [states]" in note for note in found["notes"])
    assert told("--trajectories", "20000")["unvisited"] == []


def test_what_is_unknown_is_null_not_zero(folder):
    study = STUDY + '[features]\nkind = "aggregate"\nsize = 2\n'
    (folder / "study.toml").write_text(study)
    found = told("--trajectories", "20000")
    assert found["approximation_known"] is False
    assert all(row["approximation"] is None for row in found["mechanisms"])
    assert any("comes on top" in note for note in found["notes"])


def test_a_refused_mechanism_is_in_the_table_and_null_in_json(folder):
    (folder / "study.toml").write_text(STUDY.replace("epsilon = 1.0", "epsilon = 6.0"))
    found = told("--trajectories", "20000")
    refused = [row for row in found["mechanisms"] if row["refused"]]
    assert refused
    assert refused[0]["rmse"] is None
    assert "refused" in ran("--trajectories", "20000", "--all").stdout


def test_a_target_asks_for_trajectories(folder):
    found = told("--target-rmse", "0.02", "--world", "chain:N=5")
    answers = {row["mechanism"] + row["calibration"]: row for row in found["target"]["answers"]}
    own = answers["dp-lswexact"]
    assert own["this_study"]
    assert own["trajectories"] == found["trajectories"] == found["target"]["trajectories"]
    assert found["rmse"] == pytest.approx(own["rmse"])
    assert own["rmse"] <= 0.02
    assert f"needs {own['trajectories']:,} trajectories" in found["paragraph"]


def test_a_target_asks_for_epsilon(folder):
    found = told("--trajectories", "100000", "--target-rmse", "0.05", "--solve", "epsilon")
    own = next(row for row in found["target"]["answers"] if row["this_study"])
    assert 0.001 <= own["epsilon"] <= 20
    assert own["rmse"] <= 0.05
    assert own["cautious"] is True  # without a world it is the cautious end that reaches it
    assert found["trajectories"] == 100_000
    assert "needs epsilon" in found["paragraph"]


def test_a_target_out_of_reach_is_an_answer(folder):
    study = STUDY.replace('name = "small"', 'name = "small"\ntrajectories = 700')
    study += '[features]\nkind = "aggregate"\nsize = 5\n'
    (folder / "study.toml").write_text(study)
    text = ran("--target-rmse", "1e-4", "--world", "chain:N=5").stdout
    flat = " ".join(text.split())
    assert "not reachable: even with 8,589,934,591 trajectories" in flat
    assert flat.startswith("With 700 trajectories")
    (folder / "study.toml").write_text(study.replace("trajectories = 700", ""))
    found = told("--target-rmse", "1e-4", "--world", "chain:N=5")
    assert found["trajectories"] == 2**33 - 1
    assert found["target"]["trajectories"] is None


def test_the_declared_number_is_used(folder):
    study = STUDY.replace('name = "small"', 'name = "small"\ntrajectories = 700')
    (folder / "study.toml").write_text(study)
    assert told()["trajectories"] == 700
    assert told("--trajectories", "900")["trajectories"] == 900


def test_large_delta_is_noted(folder):
    found = told("--trajectories", "2000000")
    assert any("accept_large_delta=True" in note for note in found["notes"])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ([], UsageError, "trajectories=M"),
        (["--trajectories", "0"], UsageError, "whole number from 1"),
        (["--solve", "epsilon"], UsageError, "needs a target"),
        (["--solve", "delta", "--target-rmse", "1"], UsageError, "trajectories or epsilon"),
        (["--target-rmse", "0"], UsageError, "above 0"),
        (["--target-rmse", "nan"], UsageError, "above 0"),
        (["--target-rmse", "0.1", "--solve", "epsilon"], UsageError, "trajectories=M"),
        (["--trajectories", "10", "--world", "chian"], UsageError, "did you mean"),
        (["--trajectories", "10", "--world", "chain:p=2"], UsageError, "p is 2"),
        (["--trajectories", "10", "--world", "chain:N=4"], StudyError, "the study 5"),
        (["--trajectories", "10", "--draws", "3"], UsageError, "from 8"),
    ],
)
def test_what_is_refused(folder, arguments, error, message):
    with pytest.raises(error, match=re.escape(message)) as caught:
        ran(*arguments)
    assert "\n" not in str(caught.value)


def test_a_study_that_is_not_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StudyError, match="does not exist"):
        ran("--trajectories", "10")
