"""The command line: exit codes, one-line errors with codes, JSON on stdout, the log on stderr."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import duckdb
import pytest
import typer

from oracles.studies import study_file
from privalue.cli import app, run

STUDY = study_file(
    study={"dataset": "people"},
    values={"discount": 0.99, "returns": [0.0, 1.0]},
    states={"count": 5},
)
RELEASE = ["release", "study.toml", "--data", "data.parquet", "--no-ledger", "--out"]
MAIN = "from privalue.cli import main; main()"
# Jobs in the background ignore interrupts from the start.
INTERRUPTIBLE = f"import signal; signal.signal(signal.SIGINT, signal.default_int_handler); {MAIN}"


@pytest.fixture
def folder(tmp_path, monkeypatch, capsys):
    """A folder with a study and simulated data, which is also where commands run."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.toml").write_text(STUDY)
    assert run(["simulate", "chain:N=5", "--trajectories", "3000", "--out", "data.parquet"]) == 0
    capsys.readouterr()
    return tmp_path


def read_json(capsys):
    return json.loads(capsys.readouterr().out)


def read_log(capsys):
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


# Results


@pytest.mark.parametrize("every", [[], ["--all"]])
def test_a_new_study_runs_on_the_chain_unedited(tmp_path, monkeypatch, every):
    monkeypatch.chdir(tmp_path)
    assert run(["init", *every]) == 0
    assert run(["simulate", "chain", "--trajectories", "4000", "--out", "rows.parquet"]) == 0
    command = ["release", "study.toml", "--data", "rows.parquet", "--out", "r", "--no-ledger"]
    assert run([*command, "--no-report"]) == 0


def test_every_command_of_a_release_prints_json(folder, capsys):
    assert run(["init", "mine.toml", "--json"]) == 0
    assert read_json(capsys) == {"study": "mine.toml"}
    assert run(["check", "mine.toml", "--json"]) == 0
    checked = read_json(capsys)
    assert checked["valid"] is True
    assert checked["states"] == checked["features"]
    assert run(["inspect", "study.toml", "--data", "data.parquet", "--json"]) == 0
    diagnostics = read_json(capsys)
    assert diagnostics["counts"][-1] == diagnostics["trajectories"] == 3000
    assert {
        *("mechanism", "calibration", "noise", "mean_returns", "theta", "values"),
        *("alpha", "beta", "psi", "sigma"),
    } <= set(diagnostics)
    assert run([*RELEASE, "r", "--json"]) == 0
    summary = read_json(capsys)
    assert (summary["folder"], summary["reused"], summary["left"]) == ("r", False, None)
    assert summary["charged"] == {"epsilon": 1.0, "delta": 1e-6}
    assert summary["verdict"] in {"usable", "care"}
    assert summary["notices"][0]["code"] in {"precise", "flagged", "indistinguishable"}
    release = json.loads((folder / "r" / "release.json").read_text())
    assert release["private"]
    assert run(["plan", "study.toml", "--json"]) == 0
    visits = [row["visits"] for row in read_json(capsys)["by_visits"]]
    assert visits == sorted(visits)
    assert (visits[0], visits[-1] >= 10_000) == (10, True)
    world = ["--world", "chain:N=5", "--trajectories", "900"]
    assert run(["plan", "study.toml", "--all", *world, "--json"]) == 0
    errors = {row["mechanism"]: row["rmse"] for row in read_json(capsys)["mechanisms"]}
    assert "dp-ope" not in errors
    assert all(0 < errors[name] < 1 for name in ("dp-ssp", "dp-lsw", "dp-lsl"))


def test_the_demo_runs_every_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(["demo", "--json"]) == 0
    summary = read_json(capsys)
    assert summary["rmse"] < 0.05
    assert summary["predicted_rmse"] < 0.05
    for key in ("study", "data", "private_page", "ledger", "release", "report", "registry"):
        assert (tmp_path / summary[key]).stat().st_size > 300
    public = str(tmp_path / "demo" / "released")
    assert run(["ledger", "verify", "--ledger", summary["ledger"], "--release", public]) == 0
    assert run(["demo"]) == 0  # a second one goes beside it
    assert (tmp_path / "demo-2" / "released" / "release.json").exists()


# Errors

BUDGET = ["ledger", "declare", "people", "--epsilon", "1.5", "--delta", "1e-5", "--unit"]
LEDGER = [word if word != "--no-ledger" else "--ledger=ledger.db" for word in RELEASE]


@pytest.mark.parametrize(
    ("exit_code", "code", "words"),
    [
        (2, "usage", ["nonsense"]),
        (2, "usage", ["check"]),
        (2, "usage", ["ledger"]),
        (2, "usage", ["plan", "study.toml", "--trajectories", "1,5"]),
        (2, "exists", ["init", "study.toml"]),
        (2, "all-are-new", [*RELEASE, "r", "--expect-new"]),
        (2, "ledger-not-chosen", [word for word in RELEASE if word != "--no-ledger"] + ["r"]),
        (3, "study-missing", ["check", "nowhere.toml"]),
        (3, "key-unknown", ["check", "bad.toml"]),
        (3, "file-absent", ["inspect", "study.toml", "--data", "nowhere.csv"]),
        (3, "cell-invalid", ["release", "study.toml", *RELEASE[4:], "r", "--data", "bad.csv"]),
        (3, "delta-not-below-1/m", ["release", "large.toml", *RELEASE[2:], "r"]),
        (3, "useless", ["release", "useless.toml", *RELEASE[2:], "r"]),
        (4, "not-declared", [*LEDGER, "r"]),
    ],
)
def test_an_error_is_one_line_with_its_codes(folder, capsys, exit_code, code, words):
    (folder / "bad.toml").write_text(STUDY.replace("epsilon", "epsilom"))
    (folder / "large.toml").write_text(STUDY.replace("1e-06", "0.1"))
    (folder / "useless.toml").write_text(STUDY.replace("epsilon = 1.0", "epsilon = 0.001"))
    (folder / "bad.csv").write_text("trajectory,step,state,reward\n0,0,1,1\n0,1,9,1\n")
    assert run(words) == exit_code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("privalue: ")
    assert printed.err.count("\n") == 1
    assert run([*words, "--log-format", "json"]) == exit_code
    (line,) = read_log(capsys)
    assert (line["level"], line["exit_code"]) == ("error", exit_code)
    assert line["code"].startswith(code)
    assert line.get("private", False) == (code in {"file-absent", "cell-invalid"})
    assert not (folder / "r").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["plan", "study.toml", "--steps", "0"],
        ["plan", "study.toml", "--solve", "epsilon"],
        ["plan", "study.toml", "--world", "chain:N=5"],
        ["plan", "study.toml", "--all"],
        [*RELEASE, "r", "--engine", "abacus"],
        ["simulate", "chain", "--trajectories", "9", "--out", "s.txt"],
        [*BUDGET, "nobody"],
    ],
)
def test_the_command_line_names_options_and_no_argument_of_python(folder, capsys, words):
    assert run(["-q", *words]) == 2
    message = capsys.readouterr().err
    assert re.search(r"--[a-z]", message)
    assert not re.search(r"[a-z]=|[a-z]_[a-z]", message)


def test_a_bug_of_ours_is_exit_70_and_shows_nothing_of_it(folder, capsys, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("the private value is 42")

    monkeypatch.setattr("privalue.cli.release_commands.inspect_data", broken)
    words = ["inspect", "study.toml", "--data", "data.parquet"]
    assert run(words) == 70
    line = capsys.readouterr().err
    assert "RuntimeError" in line
    assert "42" not in line
    run(["--debug", *words])
    assert "Traceback" in capsys.readouterr().err


# The log


def test_the_log_is_one_object_per_event(folder, capsys):
    (folder / "study.toml").write_text(STUDY.replace("[study]", "[study]\ntrajectories = 3000"))
    assert run([*BUDGET, "trajectory"]) == 0
    capsys.readouterr()
    assert run([*LEDGER, "r", "--log-format", "json"]) == 0
    lines = read_log(capsys)
    assert [line["code"] for line in lines] == ["of-use", "wrote", "charged", "wrote", "done"]
    assert all({"time", "level", "code", "message"} <= set(line) for line in lines)
    assert {line["dataset"] for line in lines} == {"people"}
    assert lines[2]["left"]["epsilon"] == pytest.approx(0.5)
    assert lines[1]["bytes"]["release.json"] == (folder / "r" / "release.json").stat().st_size
    assert lines[-1]["exit_code"] == 0
    assert run([*LEDGER, "again", "--log-format", "json"]) == 0
    assert "not-new" in [line["code"] for line in read_log(capsys)]


def test_quiet_is_for_one_command_and_what_is_private_says_so(folder, capsys):
    assert run(["--quiet", *RELEASE, "r"]) == 0
    assert capsys.readouterr().err == ""
    assert run(["-q", "inspect", "study.toml", "--data", "data.parquet", "--json"]) == 0
    warning = "PRIVATE: for the curator only. None of this may be published.\n"
    assert capsys.readouterr().err == warning
    assert run(["inspect", "study.toml", "--data", "data.parquet", "--log-format=json"]) == 0
    assert read_log(capsys)[0]["private"] is True


# Help


def test_help_shows_what_most_people_need_and_the_rest_under_advanced():
    commands = typer.main.get_command(app)
    assert commands.list_commands(None)[-2:] == ["refit", "reproduce"]
    _, *options = commands.get_command(None, "release").params
    panels = [option.rich_help_panel for option in options]
    assert (panels.count(None), {*panels}) == (10, {None, "Advanced"})


def test_a_figure_is_a_picture_and_replaces_nothing_unasked(folder, monkeypatch):
    assert run([*RELEASE, "r", "--no-report"]) == 0
    figure = ["report", "r", "--figure"]
    tried = (["v.svg"], ["v.svg"], ["v.svg", "--force"], ["v.gif"])
    assert [run([*figure, *words]) for words in tried] == [0, 2, 0, 2]
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "privalue.report.drawing")
    assert run([*figure, "w.pdf"]) == 6
    assert {path.name for path in folder.glob("[vw].*")} == {"v.svg"}


# Processes


def test_a_published_release_stays_if_it_cannot_be_printed(folder):
    main = [sys.executable, "-c", MAIN]
    check, (unread, closed) = [*main, "check", "study.toml", "--json"], os.pipe()
    os.close(unread)
    with open("/dev/full", "w") as full:
        for out, command, code in (
            (full, [*main, *RELEASE, "a", "--json"], 0),
            (closed, [*main, *RELEASE, "b"], 0),
            (full, [*main, *BUDGET, "trajectory"], 0),
            (full, check, 3),
            (closed, check, 1),
        ):
            assert subprocess.run(command, stdout=out, check=False).returncode == code, command
    assert subprocess.run(f"{shlex.join(check)} >&-", shell=True, check=False).returncode == 0
    assert subprocess.run([*main, *RELEASE, "c"], stderr=closed, check=False).returncode == 0
    assert {path.name for path in Path("c").iterdir()} == {
        path.name for path in Path("a").iterdir()
    }


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "term"])
def test_an_interrupted_release_ends_at_once_and_leaves_nothing(folder, number):
    """No private row is on a disk at any time, so none is left there."""
    assert run(["simulate", "chain:N=5", "--trajectories", "900000", "--out", "big.parquet"]) == 0
    duckdb.sql("COPY (FROM 'big.parquet' ORDER BY hash(step, trajectory)) TO 'mixed.parquet'")
    spill = folder / "spill"
    spill.mkdir()
    command = ["release", "study.toml", "--data", "mixed.parquet", "--out", "r", "--no-ledger"]
    started = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTIBLE, *command, "--memory", "64MB"],
        env={**os.environ, "TMPDIR": str(spill)},
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def reads():
        with suppress(FileNotFoundError):
            files = [os.readlink(file) for file in Path(f"/proc/{started.pid}/fd").iterdir()]
            assert not any(file.startswith(str(spill)) for file in files)
            return any(file.endswith("mixed.parquet") for file in files)

    while not reads():
        assert started.poll() is None
        time.sleep(0.01)
    started.send_signal(number)
    output, errors = started.communicate()
    assert (started.returncode, output, errors) == (130, "", "privalue: interrupted\n")
    assert list(spill.iterdir()) == []
    assert not (folder / "r").exists()
