"""Repeated requests: the stored release, and the changes that make a new request."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import privalue as pv
from oracles import release_driver, studies
from oracles.refusals import refused
from privalue.cli import run
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


def make_study(**about):
    return studies.make_study(
        2,
        study={"dataset": "trial", "trajectories": len(DATA), **about},
        privacy={"epsilon": 0.5},
        returns=(0.0, 1.0),
        mechanism={"name": "dp-ssp", "calibration": "exact"},
    )


def entries(ledger):
    return ledger.verify().entries


# In Python


def test_a_new_one_can_be_required_and_another_period_is_another_request(ledger):
    first = pv.release(make_study(), DATA, ledger=ledger, expect_new=True)
    before = entries(ledger)
    with refused("not-new"):
        pv.release(make_study(), DATA, ledger=ledger, expect_new=True)
    assert entries(ledger) == before
    assert not pv.release(make_study(), DATA, expect_new=True).reused  # no ledger: all are new
    tonight = pv.release(make_study(period="tonight"), DATA, ledger=ledger, expect_new=True)
    assert tonight.study["study"]["period"] == "tonight"
    assert "period" not in first.study["study"]
    assert ledger.account("trial").spent.as_floats()[0] == 1.0
    assert pv.release(make_study(period="tonight"), DATA, ledger=ledger) == tonight


# On the command line


def test_the_environments_ledger_counts_for_a_release_too(folder, monkeypatch, ledger):
    assert run([*RELEASE, "a"]) == 2
    monkeypatch.setenv("PRIVALUE_LEDGER", "ledger.db")
    assert run([*RELEASE, "a"]) == 0
    assert pv.Release.load("a").ledger_head is not None
    before = entries(ledger)
    assert run([*RELEASE, "b", "--no-ledger"]) == 0  # what is typed wins
    assert pv.Release.load("b").ledger_head is None
    assert entries(ledger) == before
    assert run([*RELEASE, "c", "--ledger", "other.db"]) == 4  # and so does another ledger
    assert run([*RELEASE, "c", "--ledger", "ledger.db", "--no-ledger"]) == 2
    assert run([*RELEASE, "c", "--period", " "]) == 2  # a variable that was not set


# The page's own job


def job(folder, killed_in=None):
    """Run the script of docs/ledger.md, the command on its path; it may be killed at a step."""
    page = (Path(__file__).parents[2] / "docs" / "ledger.md").read_text()
    (script,) = re.findall(r"```text\n(#!/bin/sh\n.*?)```", page, re.DOTALL)
    kill = "" if killed_in is None else f"Ledger.{killed_in} = lambda *_, **__: os._exit(137); "
    start = f"import os; from privalue.ledger import Ledger; {kill}from privalue.cli import main"
    programs = {
        "tonight.sh": script,
        "privalue": f'#!/bin/sh\nexec {sys.executable} -c "{start}; main()" "$@"\n',
    }
    for name, text in programs.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    path = f"{folder}:{os.environ['PATH']}"
    return subprocess.run(
        ["./tonight.sh"], env={**os.environ, "PATH": path}, check=False
    ).returncode


@pytest.mark.parametrize(("killed_in", "entries_left"), [("charge", 1), ("commit", 2)])
def test_the_job_of_the_page_works_by_itself_after_a_kill(
    folder, ledger, killed_in, entries_left, monkeypatch
):
    """Before the charge, and between the outbox and the commit; later starts charge nothing."""
    monkeypatch.setenv("PRIVALUE_LEDGER", "ledger.db")
    assert job(folder, killed_in) == 137
    assert entries(ledger) == entries_left
    for _ in range(2):
        assert job(folder) == 0
        assert ledger.account("trial").spent.as_floats()[0] == 0.5
    (night,) = (folder / "released").iterdir()
    assert pv.Release.load(night).study["study"]["period"] == night.name
    assert not (night / "release.outbox").exists()
