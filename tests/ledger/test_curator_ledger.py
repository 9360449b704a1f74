"""The sequence of a release with a ledger: reserve, read, charge, draw, commit, publish."""

import json
import os
from pathlib import Path

import pytest

import privalue as pv
from oracles import release_driver
from oracles.accountings import BOTH
from oracles.release_driver import STUDY, epsilons
from oracles.studies import study
from privalue import _charged
from privalue.cli._app import run
from privalue.ledger import BudgetError, Cost, open_ledger

DATA = [[(0, 0.5), (1, 1.0)]] * 60


@pytest.fixture
def ledger(tmp_path):
    opened = open_ledger(tmp_path / "ledger.db")
    opened.declare("trial", epsilon=1.0, delta=1e-5, unit="trajectory")
    return opened


def described(name="one", **sections):
    """Useful with so few people, as dp-lsw would not be."""
    best = {"name": "dp-ssp", "calibration": "exact"}
    keys = {"returns": (0.0, 1.0), "mechanism": best, **sections}
    return study(2, study={"name": name, "dataset": "trial"}, privacy={"epsilon": 0.5}, **keys)


def spent(ledger):
    account = ledger.show("trial")
    return account.spent.as_dict()["epsilon"], account.reserved.as_dict()["epsilon"]


def test_a_release_spends_once_and_the_identical_request_nothing(ledger):
    first = pv.release(described(), DATA, ledger=ledger)
    assert spent(ledger) == (0.5, 0.0)
    said = []
    again = pv.release(described(), [[(0, 0.0)]] * 60, ledger=ledger, say=said.append)
    assert again == first  # whatever the data: nothing is keyed on it
    assert spent(ledger) == (0.5, 0.0)
    assert "nothing was spent" in said[-1]
    assert pv.release(described("two"), DATA, ledger=ledger) != first
    with pytest.raises(BudgetError, match=r'"trial": requested epsilon 0.5.*left epsilon 0'):
        pv.release(described("three"), DATA, ledger=ledger)
    assert spent(ledger) == (1.0, 0.0)


def test_the_release_carries_the_head_of_its_own_charge(ledger, tmp_path):
    release = pv.release(described(), DATA, ledger=ledger)
    path = release.save(tmp_path / "out")
    ledger.verify(head=release.ledger_head, artefact=path.read_text())
    with pytest.raises(pv.PrivalueError, match="no entry commits this release"):
        ledger.verify(artefact=path.read_text().replace("0", "1"))


@pytest.mark.parametrize(
    ("data", "sections"),
    [
        ([[(7, 1.0)]], {}),
        ([[(0, float("nan"))]], {}),
        ([], {}),
        (DATA, {"study": {"name": "n", "dataset": "trial", "trajectories": 3}}),
    ],
    ids=["state", "reward", "empty", "size"],
)
def test_invalid_input_cancels_the_reservation_on_the_record(ledger, data, sections):
    chosen = study(2, privacy={"epsilon": 0.5}, **{"study": {"dataset": "trial"}, **sections})
    with pytest.raises(pv.DataError):
        pv.release(chosen, data, ledger=ledger, accept_useless=True)
    assert spent(ledger) == (0.0, 0.0)
    history = json.dumps(ledger.show("trial").as_dict())
    assert "cancel" in history
    assert "nan" not in history  # the reason is the error's kind, never its message


def test_what_m_alone_decides_is_decided_before_the_charge(ledger):
    chosen = study(2, study={"dataset": "trial"}, privacy={"epsilon": 0.5, "delta": 9e-6})
    many = DATA * 2000
    with pytest.raises(pv.StudyError, match="accept_large_delta=True"):
        pv.release(chosen, many, ledger=ledger)
    assert spent(ledger) == (0.0, 0.0)


def test_a_refusal_that_depends_on_m_costs_nothing(ledger):
    """lambda = scale sqrt(m) is known only once m is, and too small here."""
    chosen = described(mechanism={"name": "dp-lsl", "ridge_scale": 1e-3})
    with pytest.raises(pv.StudyError, match="too small"):
        pv.release(chosen, DATA, ledger=ledger)
    assert spent(ledger) == (0.0, 0.0)


def test_a_stored_release_comes_back_to_the_letter(ledger, tmp_path):
    first = pv.release(described(), DATA, ledger=ledger).save(tmp_path / "a")
    again = pv.release(described(), DATA, ledger=ledger).save(tmp_path / "b")
    assert first.read_bytes() == again.read_bytes()


@pytest.mark.parametrize("step", ["noise", "draw", "_public_noise", "Release"])
def test_once_statistics_exist_the_charge_stays_whatever_happens(ledger, step, monkeypatch):
    def crash(*_, **__):
        raise RuntimeError

    if step == "noise":
        monkeypatch.setattr("privalue.core._draw._noisy", crash)
    else:
        monkeypatch.setattr(_charged, step, crash)
    with pytest.raises(RuntimeError):
        pv.release(described(), DATA, ledger=ledger)
    assert spent(ledger) == (0.5, 0.0)


def test_choices_that_do_not_go_together(ledger):
    with pytest.raises(pv.UsageError, match="dataset"):
        pv.release(study(2), DATA, ledger=ledger)
    with pytest.raises(pv.UsageError, match="ledger is a int; give a file, the address"):
        pv.release(described(), DATA, ledger=7)
    with pytest.raises(pv.LedgerError) as caught:
        pv.release(described(), DATA, ledger="postgresql://me:sec/ret@host/db")
    assert "ret@" not in str(caught.value)
    with pytest.raises(pv.UsageError, match="seeded"):
        pv.release(described(), DATA, ledger=ledger, entropy=pv.SeededForExperimentsOnly(1))
    assert spent(ledger) == (0.0, 0.0)


# kill -9 at every step of the command

LONG = os.environ.get("PRIVALUE_LONG") == "1"
STEPS = [
    "Ledger.reserve.before",
    "Ledger.reserve.after",
    "curator.gathered.before",
    "curator.gathered.after",
    "Reservation.charge.before",
    "Reservation.charge.after",
    "charged.draw.after",
    "Reservation.commit.before",
    "Reservation.commit.after",
    "Release.save.before",
    "Release.save.after",
]

# Turn by turn as a rule, each step on both in ``make long``.
KILLS = [f"{step}@{BOTH[(at + turn) % 2]}" for turn in (1, 0) for at, step in enumerate(STEPS)]
KILLS = KILLS if LONG else KILLS[: len(STEPS)]


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """The folders of releases that were killed, one at each step."""
    folder = tmp_path_factory.mktemp("killed")
    answers = release_driver.drive(folder, "steps", *KILLS)
    assert [answer["killed"] for answer in answers] == [True] * len(KILLS)
    return folder


@pytest.mark.parametrize("kill", KILLS)
def test_kill_9_never_spends_less_than_is_released(kill, killed, monkeypatch, capsys):
    step, accounting = kill.split("@")
    position = STEPS.index(step)
    folder = killed / str(KILLS.index(kill))
    monkeypatch.chdir(folder)
    ledger = open_ledger("ledger.db")
    ledger.verify()
    account = ledger.show("trial")
    assert account.gaussian == (accounting == "gaussian")
    assert account.spent.units == Cost() or account.reserved.units == Cost()
    counted = epsilons(account, account.spent) + epsilons(account, account.reserved)
    released = (folder / "out" / "release.json").exists()
    assert released == (position == len(STEPS) - 1)
    assert counted == (0.5 if position >= 1 else 0.0)
    assert epsilons(account, account.spent) == (0.5 if position >= 5 else 0.0)
    assert not released or counted >= 0.5

    # The next run says what it found, and never spends a second time for what was committed.
    code = run([*release_driver.COMMAND, "second"])
    said = " ".join(capsys.readouterr().err.split())
    if position == 0:
        assert code == 0
    elif position >= 8:
        assert code == 0
        assert "nothing was spent" in said
        assert open_ledger("ledger.db").show("trial").spent == account.spent
    else:
        assert code == 4
        assert "in progress" in said or "not finished" in said
        assert "ledger.settle(" in said


def test_the_ledgers_commands(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("study.toml").write_text(STUDY)
    Path("data.csv").write_text(
        "trajectory,step,state,reward\n" + "".join(f"{t},0,0,0.5\n{t},1,1,1\n" for t in range(60))
    )
    release = ["release", "study.toml", "--data", "data.csv", "--ledger", "ledger.db", "--out"]
    assert run([*release, "r0"]) == 4
    declare = [
        "ledger",
        "declare",
        "trial",
        "--epsilon",
        "0.8",
        "--delta",
        "1e-5",
        "--unit",
        "trajectory",
    ]
    assert run(declare) == 0
    said = " ".join("".join(capsys.readouterr()).split())
    assert "ledger ledger.db" in said
    assert "the ledger ledger.db is new" in said
    entries = open_ledger("ledger.db").verify().entries
    assert run(declare) == 0  # exactly what stands
    said = " ".join("".join(capsys.readouterr()).split())
    assert "its total stands; nothing was changed" in said
    assert "is new" not in said
    assert open_ledger("ledger.db").verify().entries == entries
    for option, value in (("--epsilon", "0.9"), ("--delta", "2e-5"), ("--unit", "person")):
        assert run([*declare, option, value]) == 4  # the last one counts
    assert run([*declare, "--replace"]) == 0
    assert run([*release, "r1"]) == 0
    assert run(["ledger", "verify", "--release", "r1"]) == 0
    capsys.readouterr()
    assert run(["ledger", "show", "trial", "--json"]) == 0
    account = json.loads(capsys.readouterr().out)
    assert account["ledger"] == "ledger.db"
    assert account["left"] == {"epsilon": 0.3, "delta": 9e-6}
    assert account["like_the_last"] == 0
    assert run(["ledger", "show"]) == 0
    assert "epsilon 0.3" in capsys.readouterr().out
    assert run(["ledger", "show", "nobody"]) == 4
    assert run(["ledger", "settle", "1", "--charge", "--reason", "x"]) in {2, 4}
    assert run([*release, "r2", "--no-ledger"]) == 2
    content = bytearray(Path("ledger.db").read_bytes())
    at = content.find(b'"trial"')
    content[at + 1 : at + 6] = b"tribe"
    Path("ledger.db").write_bytes(bytes(content))
    assert run(["ledger", "verify"]) == 5
