"""A charged release is never lost: kills, a full disk, a lock, and ``finish``."""

import json
import os
import resource
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

import privalue as pv
from oracles.ledger_driver import ACCOUNTING
from oracles.refusals import refused
from oracles.release_driver import COMMAND, drive, lose_an_answer, prepare, releases
from oracles.studies import PROMISE
from privalue import curator
from privalue.cli import run
from privalue.errors import UnavailableError
from privalue.ledger import Ledger, Outbox, open_ledger

PEOPLE = [[(0, 0.5), (1, 1.0)]] * 600
OUTBOX = Path("out/release.outbox")
FINISH = ["ledger", "finish", str(OUTBOX)]


def make_study(name="one"):
    bounds = {"discount": 0.9, "rewards": (0.0, 1.0), "returns": (0.0, 1.0), "states": 2}
    about = {"name": name, "dataset": "trial", "trajectories": 600}
    return pv.Study(**about, **{**PROMISE, "epsilon": 0.5}, **bounds)


@pytest.fixture(params=["gaussian", pytest.param("plain", marks=pytest.mark.long)])
def accounting(request, monkeypatch):
    """Of every ledger that is prepared here, by the processes of the driver too."""
    monkeypatch.setenv(ACCOUNTING, request.param)
    return request.param


@pytest.fixture
def folder(tmp_path, monkeypatch, accounting):
    monkeypatch.chdir(prepare(tmp_path))
    monkeypatch.delenv("PRIVALUE_LEDGER", raising=False)
    return tmp_path


def last_line(capsys):
    return capsys.readouterr().err.splitlines()[-1]


def kinds():
    return [line.kind for line in open_ledger("ledger.db").statement("trial")]


def text_of(outbox=OUTBOX):
    """The release in an outbox."""
    return outbox.read_text().partition("\n")[2]


def require_finished(folder, text):
    """Everything is published, on record, charged once, and nothing else is left."""
    out = folder / "out"
    assert (out / "release.json").read_text() == text
    names = {path.name for path in out.iterdir()}
    names -= {name for name in names if name.endswith(".partial") and "outbox" not in name}
    assert names == {"registry.yaml", "release.json", "report.html", "values.csv"}
    open_ledger(folder / "ledger.db").verify(releases={"it": text})
    assert releases(folder) == 1


# kill -9

BEFORE = ["Ledger.find.after", "curator.read_statistics.before"]
BEFORE += ["curator.read_statistics.after", "Ledger.charge.before"]
LOST = ["Ledger.charge.after", "curator.draw.after", "Outbox.fill.before"]
KEPT = ["Outbox.fill.after", "Ledger.commit.before", "Ledger.commit.after"]
KEPT += ["Release.save.before", "Release.save.after", "publication.account_of.after"]
KEPT += ["publication.write_report.after", "Outbox.__exit__.before"]


@pytest.mark.parametrize(
    ("accounting", "other"),  # turn by turn, so that a step in two is of each
    [("gaussian", "plain"), pytest.param("plain", "gaussian", marks=pytest.mark.long)],
    indirect=["accounting"],
)
def test_kill_9_at_each_step_of_a_release(tmp_path, monkeypatch, capsys, accounting, other):
    names = [*BEFORE, *LOST, *KEPT]
    steps = [f"{step}@{(accounting, other)[at % 2]}" for at, step in enumerate(names)]
    for answer in drive(tmp_path, "steps", *steps):
        folder = tmp_path / str(answer["run"])
        monkeypatch.chdir(folder)
        assert answer["killed"], answer
        assert releases() == (0 if answer["step"] in BEFORE else 1)
        if answer["step"] in KEPT:
            assert stat.S_IMODE(OUTBOX.stat().st_mode) == 0o600
            text = text_of()
            assert run([*COMMAND, "out"]) == 2
            for _ in range(2):  # the second finds it finished
                assert run(FINISH) == 0
                require_finished(folder, text)
        else:  # what is killed while it reads leaves nothing; what was charged, and lost, stays
            assert not OUTBOX.exists()
            assert run([*COMMAND, "out"]) == (0 if answer["step"] in BEFORE else 4)
            assert releases() == 1
        capsys.readouterr()


def judge_kill(folder, capsys):
    """At any moment: a stored release is finished, and nothing is charged twice."""
    os.chdir(folder)
    if OUTBOX.exists():
        text = text_of()
        assert run(FINISH) == 0
        capsys.readouterr()
        require_finished(folder, text)
        return "finished"
    if Path("out/release.json").exists():
        require_finished(folder, Path("out/release.json").read_text())
        return "published"
    before, code = releases(), run([*COMMAND, "out"])
    capsys.readouterr()
    assert (code, before) in {(0, 0), (4, 1)}
    assert releases() == 1
    return f"again: {code}"


@pytest.mark.long
def test_kill_9_at_every_event_of_a_release(tmp_path, monkeypatch, capsys, accounting):
    monkeypatch.chdir(tmp_path)
    *runs, last = drive(tmp_path, "events")
    assert len(runs) > 20
    assert not last["killed"]
    outcomes = {judge_kill(tmp_path / str(answer["run"]), capsys) for answer in (*runs, last)}
    assert outcomes == {"finished", "published", "again: 0", "again: 4"}


# The ledger fails between the charge and the commit


def act_after_fill(monkeypatch, action):
    """Do something once what was drawn is on the disk, and before it is on record."""
    fill = Outbox.fill

    def fill_and_act(outbox, envelope):
        is_filled = fill(outbox, envelope)
        action()
        return is_filled

    monkeypatch.setattr(Outbox, "fill", fill_and_act)


@contextmanager
def full_disk():
    """As if the disk were full: SQLite cannot write its journal."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2048, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def full_while_committing(monkeypatch):
    """The disk is full when the release is committed."""
    commit = Ledger.commit

    def full(ledger, *arguments):
        with full_disk():
            return commit(ledger, *arguments)

    with monkeypatch.context() as faulty:
        faulty.setattr(Ledger, "commit", full)
        yield


def hold_lock():
    connection = sqlite3.connect("ledger.db", isolation_level=None, check_same_thread=False)
    connection.execute("BEGIN IMMEDIATE")
    return connection


@pytest.mark.parametrize(("fault", "code"), [("locked", 7), ("full", 5)])
def test_an_uncommitted_release_is_stored_and_finished(folder, monkeypatch, capsys, fault, code):
    connections = []
    hurried = partial(open_ledger, wait=0.1)
    with monkeypatch.context() as faulty:
        faulty.setattr("privalue.cli.release_commands.open_ledger", hurried)
        if fault == "locked":
            act_after_fill(faulty, lambda: connections.append(hold_lock()))
            assert run([*COMMAND, "a folder", "-q"]) == code
        else:
            with full_while_committing(faulty):
                assert run([*COMMAND, "a folder", "-q"]) == code
    assert "`privalue ledger finish 'a folder/release.outbox'`" in last_line(capsys)
    for connection in connections:
        connection.close()
    text = text_of(Path("a folder/release.outbox"))
    assert os.listdir("a folder") == ["release.outbox"]
    assert run(["ledger", "finish", "a folder/release.outbox", "--out", "out"]) == 0
    require_finished(folder, text)
    assert os.listdir("a folder") == []
    capsys.readouterr()
    assert run([*COMMAND, "again", "--json"]) == 0  # the ledger answers
    assert json.loads(capsys.readouterr().out)["reused"]
    assert releases() == 1


def test_in_python_the_error_and_the_outbox_hold_the_release(folder, monkeypatch):
    ledger = open_ledger("ledger.db")
    for name, outbox in (("one", None), ("two", "kept.outbox")):
        with full_while_committing(monkeypatch), refused("already-charged") as caught:
            pv.release(make_study(name), PEOPLE, ledger=ledger, outbox=outbox)
        problem = caught.value
        assert problem.exit_code == 5
        assert not isinstance(problem, UnavailableError)  # a retry would be refused
        assert problem.outbox == (outbox and Path(outbox))
        assert pv.finish(outbox or problem) == problem.release
        assert pv.finish(problem, ledger=ledger) == problem.release  # nothing is doubled
    assert not Path("kept.outbox").exists()
    assert pv.release(make_study(), PEOPLE, ledger=ledger).reused
    assert releases() == 2


def test_a_ledger_on_a_server_has_to_be_named_and_no_password_is_stored(folder, monkeypatch):
    ledger = open_ledger("ledger.db")
    ledger._store.place = "postgresql://host/database"  # as a server's ledger names itself
    with full_while_committing(monkeypatch), refused("already-charged"):
        pv.release(make_study(), PEOPLE, ledger=ledger, outbox="kept.outbox")
    assert '"ledger": "postgresql://host/database"' in Path("kept.outbox").read_text()
    with refused("usage"):
        pv.finish("kept.outbox")
    pv.finish("kept.outbox", ledger=open_ledger("ledger.db"))


def test_a_damaged_outbox_is_refused(folder, monkeypatch, capsys):
    with full_while_committing(monkeypatch):
        assert run([*COMMAND, "out"]) == 5
    whole = OUTBOX.read_bytes()
    end = whole.index(b"\n")
    header = json.loads(whole[:end])
    damaged = [whole[:cut] for cut in (0, 1, end - 1, end, end + 1, len(whole) - 1)]
    damaged += [whole + b"\n", whole[:-9] + b"7" + whole[-8:], b"[" * 90_000, b"\xff" + whole]
    for change in (
        *({"charge": charge} for charge in ("3", True, None, {}, {"number": 3})),
        *({"ledger": ledger} for ledger in (5, None, "a\0b", ["ledger.db"])),
        *({"study": study} for study in (5, [1], "a\0b")),
        {"justification": 5},
        {"unknown": 1},
        {"privalue_outbox": 2},
    ):
        damaged.append(json.dumps({**header, **change}).encode() + whole[end:])
    for text in damaged:
        OUTBOX.write_bytes(text)
        capsys.readouterr()
        assert run(FINISH) == 3, text[:80]
        assert len(capsys.readouterr().err.splitlines()) == 1
    os.mkfifo("pipe")
    assert run(["ledger", "finish", "pipe"]) == 3
    assert kinds() == ["declare", "charge"]
    OUTBOX.write_bytes(whole)
    assert run(FINISH) == 0


# An answer that is lost, and what fails after the charge


@pytest.mark.parametrize("arrives", [True, False], ids=["stands", "undone"])
def test_a_request_whose_answer_is_lost_is_neither_doubled_nor_lost(folder, arrives):
    ledger = open_ledger("ledger.db")
    lose_an_answer(ledger, arrives)
    release = pv.release(make_study(), PEOPLE, ledger=ledger)
    ledger.verify(releases={"it": release.to_json()})
    assert kinds() == ["declare", "charge", "commit"]


@pytest.mark.parametrize("problem", [pv.UnavailableError, pv.LedgerError, KeyboardInterrupt])
def test_an_uncertain_charge_is_reported_as_charged(folder, monkeypatch, problem):
    """The server recorded it, its answer was lost, and the second request fails."""
    ledger, charge = open_ledger("ledger.db"), Ledger.charge
    lose_an_answer(ledger, arrives=True)

    def charge_once(*arguments, **options):
        faulty.setattr(Ledger, "charge", fails)
        return charge(*arguments, **options)

    def fails(*_, **__):
        raise problem("the second request")

    with monkeypatch.context() as faulty:
        faulty.setattr(Ledger, "charge", charge_once)
        with refused("already-charged") as caught:
            pv.release(make_study(), PEOPLE, ledger=ledger)
    assert caught.value.exit_code == getattr(problem, "exit_code", 130)
    assert caught.value.release is None
    assert kinds() == ["declare", "charge"]


@pytest.mark.parametrize("problem", [MemoryError, ValueError])
def test_an_error_after_the_charge_is_reported_as_charged(folder, monkeypatch, capsys, problem):
    def fails(*_):
        raise problem("a private value")

    monkeypatch.setattr(curator, "draw", fails)
    exit_code = 3 if problem is MemoryError else 70
    assert run([*COMMAND, "out", "--log-format", "json"]) == exit_code
    line = last_line(capsys)
    assert json.loads(line)["code"] == "charged-lost"
    assert "private value" not in line
    assert releases() == 1
    with pytest.raises(pv.ChargedError) as lost:
        pv.release(make_study("another"), PEOPLE, ledger="ledger.db")
    with refused("charged-lost"):
        pv.finish(lost.value)


# Places that cannot take a release


def test_a_disk_without_room_is_found_before_the_charge(folder, monkeypatch):
    preallocate = Outbox.preallocate

    def full(outbox, size):
        with full_disk():
            preallocate(outbox, size)

    monkeypatch.setattr(Outbox, "preallocate", full)
    assert run([*COMMAND, "out"]) == 2
    assert not Path("out").exists()
    assert kinds() == ["declare"]


@pytest.mark.parametrize(("states", "mechanism"), [(1, "dp-lsw"), (300, "dp-ssp")])
def test_the_preallocated_outbox_is_large_enough(folder, states, mechanism, monkeypatch):
    """For the longest numbers, and labels that take the most bytes."""
    sizes = []
    monkeypatch.setattr(Outbox, "preallocate", lambda _, size: sizes.append(size))
    labels = ['"é' * 60 + str(state) for state in range(states)]
    study = pv.Study(
        epsilon=0.123456789012345,
        delta=1.23456789e-6,
        unit="trajectory",
        discount=0.9,
        rewards=(-1.23456789012345e-5, 2.3456789012345e-5),
        states=labels,
        mechanism=mechanism,
    )
    release = pv.release(
        study, [[(labels[0], 1e-6)]] * 50, accept_useless=True, outbox="x", accept_large_delta=True
    )
    assert len(release.to_json().encode()) < sizes[0] - 8192


def after_removing_the_folder(instead):
    """Draw, once the folder that the release goes to is gone."""
    draw = curator.draw

    def draw_later(*arguments):
        shutil.rmtree("out")
        instead()
        return draw(*arguments)

    return draw_later


def test_a_folder_that_is_gone_after_the_charge_loses_nothing(folder, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    with monkeypatch.context() as removed, full_while_committing(removed):
        removed.setattr(curator, "draw", after_removing_the_folder(lambda: None))
        assert run([*COMMAND, "out"]) == 5
    (outbox,) = folder.glob("privalue-*/spare.outbox")
    text = text_of(outbox)
    assert run(["ledger", "finish", str(outbox)]) == 0  # to where it was meant to go
    require_finished(folder, text)


# Interrupted

PAUSED = """
import os, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # even as a job in the background
signal.signal(signal.SIGHUP, signal.{hangup})
from privalue import curator
from privalue.cli import main
step = getattr(curator, {step!r})
def paused(*arguments, **options):
    os.write(1, b"here\\n")
    sys.stdin.readline()  # until the signal was sent
    return step(*arguments, **options)
setattr(curator, {step!r}, paused)
main()
"""


def interrupt(step, number, hangup="SIG_DFL"):
    """Start the command, send the signal while it is at a step; its exit code."""
    started = subprocess.Popen(
        [sys.executable, "-c", PAUSED.format(step=step, hangup=hangup), *COMMAND, "out"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert started.stdout.readline() == "here\n"
    started.send_signal(number)
    started.communicate("\n")
    return started.returncode


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.long)]
)
def test_an_interrupt_before_the_charge_leaves_nothing(folder, number):
    assert interrupt("read_statistics", number) == 130
    assert kinds() == ["declare"]
    assert not Path("out").exists()


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGHUP, marks=pytest.mark.long)]
)
def test_an_interrupt_after_the_charge_waits_until_nothing_is_lost_by_it(folder, number):
    assert interrupt("draw", number) == 130
    text = text_of()
    assert run(FINISH) == 0
    require_finished(folder, text)


def test_an_interrupt_while_the_ledger_is_locked_keeps_the_release(folder, monkeypatch):
    """Ctrl-C gets through at once, and becomes an error that holds the release."""
    connections, before = [], signal.default_int_handler
    usual = signal.signal(signal.SIGINT, before)  # which is ignored where tests run under nohup

    def lock_and_interrupt():
        connections.append(hold_lock())
        signal.raise_signal(signal.SIGINT)

    act_after_fill(monkeypatch, lock_and_interrupt)
    ledger = open_ledger("ledger.db", wait=600)
    with refused("already-charged") as caught:
        pv.release(make_study(), PEOPLE, ledger=ledger, outbox="kept.outbox")
    connections[0].close()
    assert caught.value.exit_code == 130
    assert caught.value.release.private
    assert signal.getsignal(signal.SIGINT) is before
    signal.signal(signal.SIGINT, usual)
    assert pv.finish("kept.outbox") == caught.value.release
