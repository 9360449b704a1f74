"""The command line: exit codes, one-line errors, JSON on stdout, the log on stderr."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

import privalue
from privalue.cli import _inspect as inspect_command
from privalue.cli._app import run
from privalue.cli._given import parse_memory

STUDY = """
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
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a study and simulated data, which is also where commands run."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.toml").write_text(STUDY)
    assert run(["simulate", "chain:N=5", "--trajectories", "300", "--out", "data.parquet"]) == 0
    return tmp_path


def printed_json(capsys):
    return json.loads(capsys.readouterr().out)


def failed(capsys, code, *arguments):
    """The one line that a failing command prints."""
    capsys.readouterr()
    assert run(list(arguments)) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "Traceback" not in printed.err
    assert printed.err.count("\n") == 1
    return printed.err


def test_the_journey_as_tables(folder, capsys):
    assert run(["init", "mine.toml"]) == 0
    assert run(["check", "mine.toml"]) == 0
    assert run(["inspect", "study.toml", "--data", "data.parquet"]) == 0
    printed = capsys.readouterr()
    assert "the study is complete and valid" in printed.out
    assert "PRIVATE diagnostics" in printed.out
    assert "PRIVATE" in printed.err
    assert (
        run(["release", "study.toml", "--data", "data.parquet", "--out", "r", "--no-ledger"]) == 0
    )
    shown = " ".join(capsys.readouterr().out.split())
    assert "(1, 1e-06)-differentially private: replacing any one trajectory" in shown
    assert "Public beforehand: the study, its 5 states" in shown
    assert "Released values" in shown


def test_the_journey_as_json(folder, capsys):
    capsys.readouterr()
    assert run(["init", "mine.toml", "--json"]) == 0
    assert printed_json(capsys) == {"study": "mine.toml"}
    assert run(["check", "study.toml", "--json"]) == 0
    checked = printed_json(capsys)
    assert checked["valid"] is True
    assert (checked["states"], checked["features"]) == (5, 5)
    assert run(["simulate", "chain:N=5", "--trajectories", "7", "--out", "x.csv", "--json"]) == 0
    simulated = printed_json(capsys)
    assert simulated["trajectories"] == 7
    assert simulated["rows"] == len((folder / "x.csv").read_text().splitlines()) - 1
    assert run(["inspect", "study.toml", "--data", "data.parquet", "--json"]) == 0
    inspected = printed_json(capsys)
    assert inspected["counts"][-1] == inspected["trajectories"] == 300
    command = ["release", "study.toml", "--data", "data.parquet", "--out", "r", "--no-ledger"]
    assert run([*command, "--json"]) == 0
    released = printed_json(capsys)
    assert released.pop("reused") is False
    assert released == json.loads((folder / "r" / "release.json").read_text())


def test_inspect_has_every_field_of_the_contract(folder, capsys):
    capsys.readouterr()
    assert run(["inspect", "study.toml", "--data", "data.parquet", "--json"]) == 0
    assert {
        "mechanism", "calibration", "noise", "trajectories", "counts", "mean_returns", "theta",
        "values", "alpha", "beta", "psi", "sigma",
    } <= set(printed_json(capsys))  # fmt: skip


def test_simulate_writes_seed_and_world_into_the_file(folder):
    metadata = json.loads(pq.read_schema("data.parquet").metadata[b"privalue"])
    assert metadata["world"] == "chain:N=5,p=0.5,start=uniform,discount=0.99"
    assert metadata["seed"] == 0


@pytest.mark.parametrize(
    ("code", "arguments", "message"),
    [
        (2, ["nonsense"], "No such command"),
        (2, ["reproduce"], "Missing option '--out'"),
        (2, ["check"], "Missing argument"),
        (2, ["ledger"], "needs one of declare, show, statement, verify, "),
        (2, ["inspect", "study.toml"], "Missing option '--data'"),
        (
            2,
            ["ledger", "declare", "ward-7", "--epsilon", "1", "--delta", "1e-6"],
            "Missing option '--unit'. Whom the total protects: trajectory or person.",
        ),
        (
            2,
            ["inspect", "study.toml", "--data", "x", "--engine", "abacus"],
            "engine = 'abacus' is not known",
        ),
        (2, ["init", "study.toml"], "--force"),
        (2, ["simulate", "chian", "--trajectories", "3", "--out", "x.csv"], "chain"),
        (2, ["simulate", "chain", "--trajectories", "0", "--out", "x.csv"], "at least 1"),
        (2, ["simulate", "chain", "--trajectories", "3", "--out", "x.txt"], ".csv"),
        (2, ["release", "study.toml", "--data", "data.parquet", "--out", "r"], "--no-ledger"),
        (3, ["check", "nowhere.toml"], "does not exist"),
        (3, ["check", "bad.toml"], "did you mean epsilon?"),
        (3, ["inspect", "study.toml", "--data", "nowhere.csv"], "does not exist"),
        (3, ["inspect", "study.toml", "--data", "bad.csv"], "row 2: state = '9'"),
        (
            3,
            ["release", "large.toml", "--data", "data.parquet", "--out", "r", "--no-ledger"],
            "accept_large_delta=True",
        ),
        (
            3,
            ["release", "study.toml", "--data", "bad.csv", "--out", "r", "--no-ledger"],
            "row 2: state = '9'",
        ),
    ],
)
def test_failures_are_one_line_with_the_right_exit_code(folder, capsys, code, arguments, message):
    (folder / "bad.toml").write_text(STUDY.replace("epsilon", "epsilom"))
    (folder / "large.toml").write_text(STUDY.replace("1e-6", "0.1"))
    (folder / "bad.csv").write_text("trajectory,step,state,reward\n0,0,1,1\n0,1,9,1\n")
    assert message in failed(capsys, code, *arguments)
    assert not (folder / "r").exists()
    assert not (folder / "x.csv").exists()


def test_a_second_release_into_the_same_folder_is_refused_before_data_is_read(folder, capsys):
    command = ["release", "study.toml", "--out", "r", "--no-ledger", "--data"]
    assert run([*command, "data.parquet"]) == 0
    said = failed(capsys, 2, *command, "nowhere.parquet")
    assert "a release is never overwritten; give another folder" in said


def test_a_seeded_release_says_so_loudly(folder, capsys):
    command = ["release", "study.toml", "--data", "data.parquet", "--no-ledger", "--out"]
    for name in ("a", "b"):
        assert run([*command, name, "--seed-not-private", "4"]) == 0
    assert "NOT PRIVATE" in capsys.readouterr().out
    made = [json.loads((folder / name / "release.json").read_text()) for name in ("a", "b")]
    assert made[0]["theta"] == made[1]["theta"]
    assert not made[0]["private"]


def test_a_bug_of_ours_is_exit_70_and_shows_nothing_of_it(folder, capsys, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("the private value is 42")

    monkeypatch.setattr(inspect_command, "inspect_data", broken)
    line = failed(capsys, 70, "inspect", "study.toml", "--data", "data.parquet")
    assert "RuntimeError" in line
    assert "42" not in line
    run(["--debug", "inspect", "study.toml", "--data", "data.parquet"])
    assert "Traceback" in capsys.readouterr().err


def test_help_and_version(capsys):
    assert run(["--help"]) == 0
    assert "told privately" in capsys.readouterr().out
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"privalue {privalue.__version__}\n"
    for command in ("demo", "init", "check", "simulate", "inspect", "release"):
        assert run([command, "--help"]) == 0
        assert "--json" in capsys.readouterr().out


def test_the_installed_command_runs(folder):
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from privalue.cli._app import main; main()",
            "check",
            "study.toml",
            "--json",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    assert json.loads(done.stdout)["valid"]
    assert done.stderr == ""


def test_the_demo_goes_the_whole_journey_and_its_report_has_a_chart(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(["demo", "--json"]) == 0
    made = printed_json(capsys)
    assert made["rmse"] < 0.05
    assert made["predicted_rmse"] < 0.05
    for key in ("study", "data", "private_page", "ledger", "release", "report", "registry"):
        assert (tmp_path / made[key]).stat().st_size > 300
    assert "<svg" in (tmp_path / made["report"]).read_text()
    public = tmp_path / "demo" / "released"
    assert sorted(path.name for path in public.iterdir()) == [
        *("registry.yaml", "release.json", "report.html", "values.csv")
    ]
    assert json.loads((public / "release.json").read_text())["private"]
    page = (public / "report.html").read_text()
    assert made["ledger_head"] in page
    assert "was predicted to be" in page
    ledger, release = str(tmp_path / made["ledger"]), str(public)
    assert run(["ledger", "verify", "--ledger", ledger, "--release", release]) == 0
    assert run(["demo"]) == 0  # a second one goes beside it
    assert (tmp_path / "demo-2" / "released" / "release.json").exists()
    printed = capsys.readouterr().out
    assert "released/report.html" in printed


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "term"])
def test_an_interrupted_release_ends_at_once_and_leaves_nothing(folder, number):
    """Rows that were spilled to disk are private: they must go, whatever ends the work."""
    assert run(["simulate", "chain:N=5", "--trajectories", "900000", "--out", "big.parquet"]) == 0
    duckdb.sql("COPY (FROM 'big.parquet' ORDER BY hash(step, trajectory)) TO 'mixed.parquet'")
    spill = folder / "spill"
    spill.mkdir()
    command = ["release", "study.toml", "--data", "mixed.parquet", "--out", "r", "--no-ledger"]
    command += ["--memory", "64MB"]
    started = subprocess.Popen(
        [sys.executable, "-c", "from privalue.cli._app import main; main()", *command],
        env={**os.environ, "TMPDIR": str(spill)},
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def spills():
        """Files that have no name any more are still open in the process."""
        with suppress(FileNotFoundError):
            files = [os.readlink(file) for file in Path(f"/proc/{started.pid}/fd").iterdir()]
            return any(file.startswith(str(spill)) for file in files)

    while not spills():
        assert started.poll() is None
        time.sleep(0.01)
    started.send_signal(number)
    output, errors = started.communicate()
    assert (started.returncode, output, errors) == (130, "", "privalue: interrupted\n")
    assert list(spill.iterdir()) == []
    assert not (folder / "r").exists()


def test_simulate_does_not_overwrite(folder, capsys):
    command = ["simulate", "chain:N=5", "--trajectories", "3", "--out", "data.parquet"]
    assert "--force" in failed(capsys, 2, *command)
    assert run([*command, "--force"]) == 0


def test_check_says_what_its_constants_mean(tmp_path, monkeypatch, capsys):
    """In half a line each; a condition number of 1 says nothing, and is left out."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "300")
    named = STUDY.replace("[privacy]", "[study]\ntrajectories = 1000\n[privacy]")
    (tmp_path / "weights.csv").write_text(
        "state,weight\n" + "".join(f"{s},{s + 1}\n" for s in range(5))
    )
    weighed = '\n[weights]\nfile = "weights.csv"\n'
    told = {}
    for name, more in (("dp-ssp", ""), ("dp-lsw", weighed), ("dp-lsl", weighed)):
        (tmp_path / "made.toml").write_text(f'{named}[mechanism]\nname = "{name}"{more}')
        assert run(["check", "made.toml"]) == 0
        told[name] = capsys.readouterr().out
    for out in told.values():
        assert "times what one trajectory can change; " in out
    assert "beta" not in told["dp-ssp"]
    assert "condition number" not in told["dp-ssp"]
    assert "limits how fast that varies with the data; true delta" in told["dp-lsw"]
    assert ": how much the fit may magnify errors; 1 is the least" in told["dp-lsw"]
    assert ": how strongly the fit is pulled towards 0" in told["dp-lsl"]


def test_what_check_says_is_next_can_be_done(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "300")
    (tmp_path / "fixed.toml").write_text(STUDY)
    assert run(["check", "fixed.toml"]) == 0
    assert "Next: privalue plan fixed.toml predicts the error" in capsys.readouterr().out


def test_check_says_what_is_probably_not_meant(folder, capsys):
    (folder / "odd.toml").write_text(
        STUDY.replace("[privacy]", "[study]\ntrajectories = 100\n[privacy]")
        .replace("1e-6", "0.1")
        .replace("returns = [0.0, 1.0]", "returns = [0.0, 4000.0]")
    )
    capsys.readouterr()
    assert run(["check", "odd.toml", "--json"]) == 0
    notes = printed_json(capsys)["notes"]
    assert len(notes) == 2
    assert "--accept-large-delta" in notes[0]
    assert "wider than rewards and discount imply" in notes[1]


def test_check_says_that_a_prior_looks_like_shares_and_that_a_stage_finds_bounds(folder, capsys):
    shares = STUDY.replace("count = 5", "count = 5\nvisits = [0.2, 0.2, 0.2, 0.2, 0.2]")
    (folder / "odd.toml").write_text(shares.replace("returns = [0.0, 1.0]\n", ""))
    capsys.readouterr()
    assert run(["check", "odd.toml", "--json"]) == 0
    prior, bounds = printed_json(capsys)["notes"]
    assert "visits sums to 1" in prior
    assert "a stage of the release looks for tighter bounds" in bounds


@pytest.mark.parametrize(
    ("mechanism", "stages", "shrinkage", "words"),
    [
        ("", [], "states", "dp-ssp, shrinkage, the values in one stage"),
        ('stages = ["bounds"]', ["bounds"], "states", "shrinkage, a stage for bounds first"),
        ('stages = "one"\nshrinkage = false', [], None, "no shrinkage, the values in one stage"),
    ],
)
def test_check_says_what_auto_chose(mechanism, stages, shrinkage, words, folder, capsys):
    (folder / "chosen.toml").write_text(STUDY + f'[mechanism]\nname = "dp-ssp"\n{mechanism}\n')
    capsys.readouterr()
    assert run(["check", "chosen.toml", "--json"]) == 0
    found = printed_json(capsys)
    assert (found["stages"], found["shrinkage"]) == (stages, shrinkage)
    assert run(["check", "chosen.toml"]) == 0
    assert words in " ".join(capsys.readouterr().out.split())


def test_inspect_warns_where_noise_would_drown_the_values(folder, capsys):
    (folder / "paper.toml").write_text(STUDY + '[mechanism]\nname = "dp-lsw"\n')
    capsys.readouterr()
    assert run(["inspect", "paper.toml", "--data", "data.parquet"]) == 0
    assert "the noise would drown the values of" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("2GB", 2_000_000_000),
        ("500 mb", 500_000_000),
        ("1.5GiB", 1610612736),
        ("64000000", 64_000_000),
    ],
)
def test_sizes_of_memory(text, size):
    assert parse_memory(text) == size


@pytest.mark.parametrize("text", ["", "much", "1MB", "-2GB", "nan", "9999999TB"])
def test_sizes_of_memory_that_make_no_sense(text):
    with pytest.raises(privalue.UsageError, match="--memory"):
        parse_memory(text)
