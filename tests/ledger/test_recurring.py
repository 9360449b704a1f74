"""The same request again: what it gets, how it is told, and what makes it another one."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import privalue as pv
from oracles import release_driver
from oracles.studies import study
from privalue.cli import followup_commands as report_command
from privalue.cli import run
from privalue.errors import BudgetError
from privalue.ledger import open_ledger

DATA = [[(0, 0.5), (1, 1.0)]] * 600
STUDY = f"""{release_driver.STUDY}
[mechanism]
name = "dp-ssp"
"""
RELEASE = ["release", "study.toml", "--data", "data.csv", "--out"]


@pytest.fixture
def ledger(tmp_path):
    opened = open_ledger(tmp_path / "ledger.db")
    opened.declare("trial", epsilon=2.0, delta=1e-5, unit="trajectory")
    return opened


@pytest.fixture
def folder(tmp_path, monkeypatch, ledger):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PRIVALUE_LEDGER", raising=False)
    Path("study.toml").write_text(STUDY)
    Path("data.csv").write_text("trajectory,step,state,reward\n" + release_driver.ROWS)
    return tmp_path


def described(**about):
    return study(
        2,
        study={"dataset": "trial", "trajectories": len(DATA), **about},
        privacy={"epsilon": 0.5},
        returns=(0.0, 1.0),
        mechanism={"name": "dp-ssp", "calibration": "exact"},
    )


def entries(ledger):
    return ledger.verify().entries


# In Python


def test_a_caller_learns_whether_it_is_new(ledger):
    first = pv.release(described(), DATA, ledger=ledger)
    again = pv.release(described(), "no such file.csv", ledger=ledger)
    assert (first.reused, again.reused) == (False, True)
    assert again == first
    assert again.created == first.created
    assert "reused" not in again.to_json()
    assert again.to_json() == first.to_json()
    assert not pv.release(described(), DATA).reused
    assert not again.model_copy(update={"created": "2026-01-01"}).reused


def test_whoever_expects_a_new_one_is_refused_and_nothing_is_recorded(ledger):
    first = pv.release(described(), DATA, ledger=ledger, expect_new=True)
    before = entries(ledger)
    with pytest.raises(BudgetError) as refused:
        pv.release(described(), DATA, ledger=ledger, expect_new=True)
    assert f"was answered on {first.created}, and a new release was expected" in str(refused.value)
    assert "period" in str(refused.value)
    assert refused.value.exit_code == 4
    assert entries(ledger) == before
    assert not pv.release(described(), DATA, expect_new=True).reused  # without a ledger all are new


def test_another_period_is_another_request(ledger):
    releases = [
        pv.release(described(**about), DATA, ledger=ledger, expect_new=True)
        for about in ({}, {"period": "2026-11-15"}, {"period": "2026-11-16"})
    ]
    assert [release.study["study"].get("period") for release in releases] == [
        None,
        "2026-11-15",
        "2026-11-16",
    ]
    assert len({release.ledger_head for release in releases}) == 3
    assert ledger.account("trial").spent.as_floats()[0] == 1.5
    assert pv.release(described(period="2026-11-15"), DATA, ledger=ledger) == releases[1]


def test_a_study_without_a_period_is_described_as_before():
    assert "period" not in described().public_description()["study"]
    assert described(period="x").public_description()["study"]["period"] == "x"
    for wrong in ("", 20261115):
        with pytest.raises(pv.StudyError, match="period"):
            described(period=wrong)


def test_the_page_tells_the_period(tmp_path):
    release = pv.release(described(period="November <2026>"), DATA)
    page = pv.publish(release, tmp_path / "out").page.read_text()
    assert "November &lt;2026&gt;" in page


# On the command line


def test_json_says_whether_it_was_answered_before(folder, capsys):
    told = []
    for out in ("a", "b"):
        assert run([*RELEASE, out, "--ledger", "ledger.db", "--json"]) == 0
        told.append(json.loads(capsys.readouterr().out))
        assert "reused" not in (folder / out / "release.json").read_text()
    assert [each["reused"] for each in told] == [False, True]
    assert told[0]["sha256"] == told[1]["sha256"]
    assert (told[0]["charged"] is None, told[1]["charged"] is None) == (False, True)
    assert (folder / "a" / "release.json").read_bytes() == (
        folder / "b" / "release.json"
    ).read_bytes()
    assert run([*RELEASE, "c", "--no-ledger", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["reused"] is False


def test_the_first_line_says_that_it_is_not_new(folder, capsys):
    assert run([*RELEASE, "a", "--ledger", "ledger.db"]) == 0
    said = capsys.readouterr()
    assert "again" not in said.out + said.err
    created = pv.Release.load("a").created
    assert run([*RELEASE, "b", "--ledger", "ledger.db"]) == 0
    said = capsys.readouterr()
    for text in (said.err, said.out):
        first = " ".join(text.split())[:80]
        assert f"the identical request was answered on {created}" in first
    assert said.out.startswith("Not new: ")


def test_expect_new_is_exit_4_and_leaves_no_folder(folder, capsys, ledger):
    command = ["--ledger", "ledger.db", "--expect-new"]
    assert run([*RELEASE, "a", *command]) == 0
    before = entries(ledger)
    assert run([*RELEASE, "b", *command]) == 4
    assert "a new release was expected" in capsys.readouterr().err
    assert not (folder / "b").exists()
    assert entries(ledger) == before
    Path("study.toml").write_text(STUDY.replace("[study]", '[study]\nperiod = "tonight"'))
    assert run([*RELEASE, "b", *command]) == 0


def test_the_environments_ledger_counts_for_a_release_too(folder, monkeypatch, capsys, ledger):
    assert run([*RELEASE, "a"]) == 2
    assert "PRIVALUE_LEDGER" in capsys.readouterr().err
    monkeypatch.setenv("PRIVALUE_LEDGER", "ledger.db")
    assert run([*RELEASE, "a"]) == 0
    assert pv.Release.load("a").ledger_head is not None
    before = entries(ledger)
    assert run([*RELEASE, "b", "--no-ledger"]) == 0  # what is typed wins
    assert pv.Release.load("b").ledger_head is None
    assert entries(ledger) == before
    assert run([*RELEASE, "c", "--ledger", "other.db"]) == 4  # and so does another ledger
    assert "there is no ledger other.db" in " ".join(capsys.readouterr().err.split())
    assert run([*RELEASE, "c", "--ledger", "ledger.db", "--no-ledger"]) == 2
    monkeypatch.setenv("PRIVALUE_LEDGER", "")
    assert run([*RELEASE, "c"]) == 2


def test_a_ledger_that_goes_away_after_the_release_takes_nothing_back(folder, monkeypatch, capsys):
    """The job does not fail, and is not tried again: what was paid for is there."""

    def gone(*_):
        raise pv.UnavailableError("the server of the ledger does not answer; try again")

    with monkeypatch.context() as patched:
        patched.setattr(report_command, "account_of", gone)
        assert run([*RELEASE, "a", "--ledger", "ledger.db"]) == 0
    assert "the page shows no budget" in " ".join(capsys.readouterr().err.split())
    assert (folder / "a" / "report.html").exists()
    assert run(["report", "a", "--ledger", "ledger.db", "--force"]) == 0
    assert "Releases on record" in (folder / "a" / "report.html").read_text()


# The page's own job


def job(folder, data="data.csv"):
    """The script of docs/ledger.md in a folder, with the command and no pauses on its path."""
    page = (Path(__file__).parents[2] / "docs" / "ledger.md").read_text()
    (script,) = re.findall(r"```text\n(#!/bin/sh\n.*?)```", page, re.DOTALL)
    command = "from privalue.cli import main; main()"
    (folder / "bin").mkdir()
    programs = {
        "job": script.replace("data.csv", data),
        "privalue": f'#!/bin/sh\nexec {sys.executable} -c "{command}" "$@"\n',
        "sleep": '#!/bin/sh\necho "$1" >> pauses\n',
    }
    for name, text in programs.items():
        (folder / "bin" / name).write_text(text)
        (folder / "bin" / name).chmod(0o755)
    Path("study.toml").write_text(STUDY.replace("[study]", '[study]\nperiod = "none yet"'))
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    return lambda: subprocess.run(
        [folder / "bin" / "job"],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_job_of_the_page_releases_once_a_night(folder, ledger):
    start = job(folder)
    assert start().returncode == 0
    (night,) = (folder / "released").iterdir()
    release = pv.Release.load(night)
    assert release.study["study"]["period"] == night.name
    assert ledger.account("trial").spent.as_floats()[0] == 0.5
    entries_before = entries(ledger)
    assert start().returncode == 0  # this night's release is there
    assert (entries(ledger), pv.Release.load(night)) == (entries_before, release)
    (night / "release.json").unlink()  # as if the machine had died before it was written
    for left in night.iterdir():
        left.unlink()
    assert start().returncode == 0
    assert pv.Release.load(night) == release
    assert ledger.account("trial").spent.as_floats()[0] == 0.5


def test_the_job_of_the_page_begins_with_what_is_paid_for(folder, ledger):
    """Killed between the outbox and the commit, and started again, tonight or another night."""
    start = job(folder)
    driver = (
        "import os; from privalue.ledger import Ledger\n"
        "Ledger.commit = lambda *_: os._exit(137)\n"
        "from privalue.cli import main; main()"
    )
    program = folder / "bin" / "privalue"
    whole = program.read_text()
    program.write_text(f"#!/bin/sh\nexec {sys.executable} -c '{driver}' \"$@\"\n")
    assert start().returncode == 137
    (night,) = (folder / "released").iterdir()
    assert [file.name for file in night.iterdir() if file.name[0] != "."] == ["release.outbox"]
    program.write_text(whole)
    assert start().returncode == 0
    assert not (night / "release.outbox").exists()
    assert pv.Release.load(night).study["study"]["period"] == night.name
    assert ledger.account("trial").spent.as_floats()[0] == 0.5
    assert start().returncode == 0
    assert ledger.account("trial").spent.as_floats()[0] == 0.5


def test_the_job_of_the_page_tries_again_where_nobody_answers(folder, ledger):
    pytest.importorskip("psycopg", reason="the extra postgres is not installed")
    done = job(folder, "postgresql://nobody@127.0.0.1:1/none::rows")()
    assert done.returncode == 7
    assert done.stderr.count("does not answer") == 3
    assert Path("pauses").read_text().split() == ["0", "60", "600"]
    assert entries(ledger) == 1  # nothing was recorded
