"""Hints that help: a near name, the parameter in Python, the option on the command line."""

import json
from pathlib import Path

import pytest
import typer

import privalue as pv
from privalue.cli import _options as options
from privalue.cli._app import app, run
from privalue.cli._given import whole_number

SOURCE = Path(pv.__file__).parent
STUDY = """
[privacy]
epsilon = 1.0
delta = 0.1
unit = "trajectory"
[values]
discount = 0.9
rewards = [0.0, 1.0]
returns = [0.0, 1.0]
[states]
count = 3
[mechanism]
name = "dp-ssp"
"""
ROWS = [[(0, 0.0), (1, 0.0), (2, 1.0)]] * 20


@pytest.mark.parametrize(
    ("written", "told"),
    [
        (
            "[privacy]\nepsilom = 1.0",
            r"^\[privacy\] epsilom is not a key .* did you mean epsilon\?$",
        ),
        ("[states]\nxyzzy = 1", r"^\[states\] xyzzy is not a key of a study; known are count"),
        ("[mechanism]\nridge_scal = 1", r"did you mean ridge_scale\?$"),
        ("[mechanisms]", r"^\[mechanisms\] is not a section of a study; did you mean mechanism\?$"),
    ],
)
def test_near_names_are_found(written, told):
    section = written.split("\n")[0]
    text = STUDY.replace(section, written) if section in STUDY else STUDY + written
    with pytest.raises(pv.StudyError, match=told):
        pv.Study.parse(text)


def test_a_default_that_needs_the_number_of_trajectories_names_what_is_missing():
    study = pv.Study.parse(STUDY).replace(neighbours="add-remove", mechanism="dp-lsw", delta=1e-6)
    with pytest.raises(pv.StudyError, match=r"^\[study\] trajectories is missing: ") as caught:
        pv.release(study, ROWS)
    assert "[study] beta" not in str(caught.value)
    assert 'the default beta = "auto" of [mechanism] follows from it' in str(caught.value)


# Parameters in Python, options on the command line


def test_python_is_told_the_parameter_and_the_command_line_the_option(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    Path("study.toml").write_text(STUDY)
    rows = [(n, t, *row) for n, rows in enumerate(ROWS) for t, row in enumerate(rows)]
    text = "".join(",".join(map(str, row)) + "\n" for row in rows)
    Path("rows.csv").write_text(f"trajectory,step,state,reward\n{text}")
    with pytest.raises(pv.StudyError, match=r"\(accept_large_delta=True\)"):
        pv.release(pv.Study.load("study.toml"), ROWS)
    command = ["release", "study.toml", "--data", "rows.csv", "--out", "r", "--no-ledger"]
    assert run(command) == 3
    assert "(--accept-large-delta)" in capsys.readouterr().err
    assert run([*command, "--log-format", "json"]) == 3
    assert "(--accept-large-delta)" in json.loads(capsys.readouterr().err)["message"]
    assert run(["plan", "study.toml"]) == 2
    assert "give --trajectories M, or declare it" in capsys.readouterr().err


def test_a_budget_is_declared_in_the_words_of_whoever_asks(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("study.toml").write_text(f'[study]\ndataset = "trial"\n{STUDY}')
    with pytest.raises(pv.BudgetError, match=r"ledger\.declare\(DATASET, epsilon=E, delta=D"):
        pv.release(pv.Study.load("study.toml"), ROWS, ledger=pv.open_ledger("ledger.db"))
    command = ["release", "study.toml", "--data", "no.csv", "--out", "r", "--ledger", "ledger.db"]
    assert run(command) == 4
    assert "privalue ledger declare DATASET --epsilon E --delta D" in capsys.readouterr().err


def test_memory_is_said_in_bytes_to_python_and_rounded_up_for_the_command_line():
    assert options.in_options("; give memory=864026624") == "; give --memory 865MB"
    assert options.in_options("or give a larger memory=") == "or give a larger --memory"


def test_every_option_that_stands_for_a_parameter_exists():
    found = typer.main.get_command(app)
    commands = [found.get_command(None, name) for name in found.list_commands(None)]
    commands += found.get_command(None, "ledger").commands.values()
    names = {name for command in commands for option in command.params for name in option.opts}
    named = [o.split()[0] for o in options.SAID.values() if isinstance(o, str) and o[:2] == "--"]
    assert len(named) >= 5
    assert set(named) <= names


def test_a_settlement_is_told_as_a_call_or_as_a_command():
    call = "ledger.settle(17, charge=True, reason=WHY)"
    assert options.in_options(call) == "privalue ledger settle 17 --charge --reason WHY"
    assert options.in_options(f"{call}, or charge=False if nothing came of it") == (
        "privalue ledger settle 17 --charge (or, if nothing came of it, --cancel) --reason WHY"
    )


def test_an_address_keeps_both_slashes(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("study.toml").write_text(STUDY)
    study = pv.Study.load("study.toml")
    with pytest.raises(pv.DataError, match=r"^https://example\.org/rows\.csv is an address"):
        pv.inspect(study, "https://example.org/rows.csv")
    with pytest.raises(pv.StudyError, match=r"file https://example\.org/s\.toml does not"):
        pv.Study.load("https://example.org/s.toml")
    assert run(["check", "https://example.org/s.toml"]) == 3
    assert "https://example.org/s.toml does not exist" in capsys.readouterr().err


def test_a_study_takes_nothing_by_position():
    for given in ("study.toml", Path("study.toml"), {}, None):
        with pytest.raises(pv.StudyError, match=r"is not understood.*Study\.load reads a file"):
            pv.Study(given, states=3)


@pytest.mark.parametrize(
    ("option", "written", "told"),
    [
        ("--target-rmse", "0,5", "'0,5' is not a number; a decimal has a point: 0.5"),
        ("--target-rmse", "abc", "'abc' is not a number; e.g. 0.5 or 1e-6"),
        ("--trajectories", "abc", "'abc' is not a whole number; it must be in digits, e.g. 10000"),
        (
            "--trajectories",
            "1e-4",
            "'1e-4' is not a whole number; it must be in digits, e.g. 10000",
        ),
        ("--draws", "1.5", "'1.5' is not a whole number; it must be in digits, e.g. 10000"),
    ],
)
def test_a_number_that_is_none_is_quoted(capsys, option, written, told):
    assert run(["plan", "study.toml", option, written]) == 2
    assert capsys.readouterr().err == f"privalue: Invalid value for '{option}': {told}\n"


@pytest.mark.parametrize(
    ("written", "meant"),
    [("1e4", 10_000), ("2E+3", 2000), ("-5", -5), ("1_000", 1000), ("10.0", 10), (7, 7)],
)
def test_a_whole_number_may_be_written_in_several_ways(written, meant):
    assert whole_number(written) == meant


def test_check_says_to_plan_next(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("study.toml").write_text(STUDY)
    assert run(["check", "study.toml"]) == 0
    assert "Next: privalue plan study.toml" in " ".join(capsys.readouterr().out.split())
