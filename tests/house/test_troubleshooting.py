"""Every message of docs/troubleshooting.md is what the command says, to the letter."""

import re
from pathlib import Path

import pytest

from privalue.cli import run

PAGE = Path(__file__).parents[2] / "docs" / "troubleshooting.md"
STUDY = """[study]
dataset = "ward-7"
[privacy]
epsilon = 1.0
delta = 1e-6
unit = "trajectory"
[values]
discount = 0.9
returns = [0.0, 1.0]
[states]
labels = ["ill", "well"]
"""
ROWS = "trajectory,step,state,reward\n" + "".join(
    f"{n},0,ill,0\n{n},1,well,1\n" for n in range(2000)
)
DONE = ROWS.replace("reward\n", "reward,action\n").replace(",0\n", ",0,treat\n")
DONE = DONE.replace(",1\n", ",1,wait\n")
ACTIONS = STUDY + '[actions]\nlabels = ["wait", "treat"]\n'
ALLOWED = ACTIONS + 'allowed = { ill = ["wait", "treat"], well = ["wait"] }\n'
POLICY = (
    ACTIONS.replace("delta = 1e-6\n", "")
    + """[policy]
target = { ill = "treat", well = "wait" }
behaviour = "propensity"
clip = 5.0
[mechanism]
name = "dp-ope"
"""
)
INSPECT = "inspect study.toml --data trial.csv"
RELEASE = "release study.toml --data trial.csv --out out --no-ledger"
BOOKED = "release study.toml --data trial.csv --out out --ledger ledger.db"
DECLARE = "ledger declare {} --epsilon {} --delta 1e-5 --unit {} --ledger ledger.db"


def row(written):
    """The rows, with row 12 written otherwise."""
    return ROWS.replace("5,1,well,1\n", written, 1)


# In the order of the page: the command, the study, the rows, and commands before it.
MISTAKES = {
    "A state is not in the list": (INSPECT, STUDY, row("5,1,fine,1\n")),
    "A reward is not a number": (INSPECT, STUDY, row("5,1,well,high\n")),
    "A decimal comma": (
        INSPECT,
        STUDY,
        ROWS.replace(",", ";").replace("5;1;well;1\n", "5;1;well;0,5\n", 1),
    ),
    "A value is missing": (INSPECT, STUDY, row("5,1,well,\n")),
    "Steps are dates": (INSPECT, STUDY, row("5,2026-11-15,well,1\n")),
    "Dates are written otherwise": (
        INSPECT,
        STUDY + '[data]\nstep_type = "date"\n',
        ROWS.replace(",0,ill", ",15/11/2026,ill"),
    ),
    "The same step twice": (INSPECT, STUDY, row("5,0,well,1\n")),
    "A column has another name": (INSPECT, STUDY, ROWS.replace("trajectory", "stay")),
    "A line has too many cells": (INSPECT, STUDY, row("5,1,well,1,1\n")),
    "An action is not allowed": (
        INSPECT,
        ALLOWED,
        DONE.replace("5,1,well,1,wait\n", "5,1,well,1,treat\n", 1),
    ),
    "The file is not there": ("inspect study.toml --data trail.csv", STUDY, ROWS),
    "An unknown key": ("check study.toml", STUDY.replace("discount", "discont"), ROWS),
    "A key is missing": ("check study.toml", STUDY.replace('unit = "trajectory"\n', ""), ROWS),
    "The bounds are missing": ("check study.toml", STUDY.replace("returns", "# "), ROWS),
    "Epsilon is 0": ("check study.toml", STUDY.replace("epsilon = 1.0", "epsilon = 0"), ROWS),
    "Persons need a limit": (INSPECT, STUDY.replace('"trajectory"', '"person"'), ROWS),
    "Questions are left": ("check q.toml", STUDY, ROWS, "init q.toml --data trial.csv"),
    "The behaviour is a column": ("check study.toml", POLICY, ROWS),
    "Delta is too large": (RELEASE, STUDY.replace("1e-6", "1e-3"), ROWS),
    "The release would be of no use": (RELEASE, STUDY, "\n".join(ROWS.splitlines()[:11])),
    "Ledger or no ledger": (RELEASE.removesuffix(" --no-ledger"), STUDY, ROWS),
    "The ledger is not there": (BOOKED, STUDY, ROWS),
    "The dataset has no name": (BOOKED, STUDY.replace('dataset = "ward-7"\n', ""), ROWS),
    "No total is declared": (BOOKED, STUDY, ROWS, DECLARE.format("other", 2, "trajectory")),
    "The total is spent": (BOOKED, STUDY, ROWS, DECLARE.format("ward-7", 0.5, "trajectory")),
    "The ledger protects something else": (
        BOOKED,
        STUDY,
        ROWS,
        DECLARE.format("ward-7", 2, "person"),
    ),
    "The folder holds a release": (RELEASE, STUDY, ROWS, RELEASE),
}


def entries():
    """The message under each heading that has one."""
    return dict(re.findall(r"^### (.*)\n\n```text\n(.*?)\n```", PAGE.read_text(), re.MULTILINE))


def test_the_page_has_exactly_these_mistakes():
    assert list(entries()) == list(MISTAKES)


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_gets_the_message_of_the_page(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PRIVALUE_STATE", str(tmp_path / "state"))
    monkeypatch.delenv("PRIVALUE_LEDGER", raising=False)
    command, study, rows, *before = MISTAKES[name]
    Path("study.toml").write_text(study)
    Path("trial.csv").write_text(rows)
    for first in before:
        assert run(first.split()) == 0
    capsys.readouterr()
    assert run(command.split()) != 0
    assert capsys.readouterr().err == entries()[name] + "\n"
