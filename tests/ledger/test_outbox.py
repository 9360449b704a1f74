"""What is paid for arrives: after every kill, on a full disk, behind a lock, by ``finish``."""

import json
import os
import re
import resource
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

import privalue as pv
from oracles import release_driver
from oracles.ledger_driver import ACCOUNTING
from oracles.release_driver import COMMAND, drive, lose_an_answer, prepare, releases
from privalue import curator
from privalue.cli import run
from privalue.errors import UnavailableError
from privalue.ledger import Charge, Ledger, Outbox, Paid, open_ledger

KILLS = int(os.environ.get("PRIVALUE_KILLS", "100"))
PEOPLE = [[(0, 0.5), (1, 1.0)]] * 600


def described(name="one"):
    return pv.Study(
        name=name,
        dataset="trial",
        trajectories=600,
        epsilon=0.5,
        delta=1e-6,
        unit="trajectory",
        discount=0.9,
        rewards=(0.0, 1.0),
        returns=(0.0, 1.0),
        states=2,
    )


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


def one_line(capsys):
    (line,) = capsys.readouterr().err.splitlines()
    return line


def line_after_the_release(capsys):
    """The line that follows the one about visits, which every new release begins with."""
    of_use, line = capsys.readouterr().err.splitlines()
    assert of_use.startswith("A value will be of use")
    return line


def kinds():
    return [line.kind for line in open_ledger("ledger.db").statement("trial")]


def require_finished(folder, kept):
    """Everything is published, on record, paid for once, and nothing else is left."""
    out = folder / "out"
    assert (out / "release.json").read_text() == kept
    left = {path.name for path in out.iterdir()}
    public = {name for name in left if name.endswith(".partial") and "outbox" not in name}
    left -= public  # what publishing left stays for a day
    assert left == {"registry.yaml", "release.json", "report.html", "values.csv"}
    open_ledger(folder / "ledger.db").verify(releases=[kept])
    assert releases(folder) == 1


# kill -9

LOST = ["Ledger.charge.after", "curator.draw.after", "Outbox.fill.before"]
KEPT = ["Outbox.fill.after", "Ledger.commit.before", "Ledger.commit.after"]
KEPT += ["Release.save.before", "Release.save.after", "publication.account_of.after"]
KEPT += ["publication.publish.after", "Outbox.__exit__.before"]


@pytest.mark.parametrize(
    ("accounting", "other"),  # turn by turn, so that a step in two is of each
    [("gaussian", "plain"), pytest.param("plain", "gaussian", marks=pytest.mark.long)],
    indirect=["accounting"],
)
def test_kill_9_at_each_step_from_the_charge_to_the_last_file(
    tmp_path, monkeypatch, capsys, accounting, other
):
    steps = [f"{s}@{(accounting, other)[at % 2]}" for at, s in enumerate((*LOST, *KEPT))]
    for answer in drive(tmp_path, "steps", *steps):
        folder = tmp_path / str(answer["run"])
        monkeypatch.chdir(folder)
        assert answer["killed"], answer
        outbox = Path("out/release.outbox")
        if answer["step"] in LOST:
            assert not outbox.exists()
            assert run([*COMMAND, "out"]) == 4
            assert "has no release yet: finish what that run kept, or set" in one_line(capsys)
            assert releases() == 1
            continue
        assert stat.S_IMODE(outbox.stat().st_mode) == 0o600
        header, _, kept = outbox.read_text().partition("\n")
        assert json.loads(header)["charge"]["number"] == 2
        assert run([*COMMAND, "out"]) == 2
        assert "do not run again; `privalue ledger finish out/release.outbox`" in one_line(capsys)
        assert run(["ledger", "finish", "out/release.outbox"]) == 0
        capsys.readouterr()
        require_finished(folder, kept)
        assert run(["ledger", "finish", "out/release.outbox"]) == 0
        assert "Finished already: out/release.json is on record" in one_line(capsys)


def judge_kill(folder, capsys):
    """Whatever moment it was: what was kept is finished, and nothing is paid for twice."""
    os.chdir(folder)
    outbox = Path("out/release.outbox")
    if outbox.exists():
        kept = outbox.read_text().partition("\n")[2]
        assert run(["ledger", "finish", "out/release.outbox"]) == 0
        capsys.readouterr()
        require_finished(folder, kept)
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
    found = {judge_kill(tmp_path / str(each["run"]), capsys) for each in (*runs, last)}
    assert found == {"finished", "published", "again: 0", "again: 4"}


@pytest.mark.long
def test_kill_9_at_moments_that_the_release_does_not_choose(
    tmp_path, monkeypatch, capsys, accounting
):
    monkeypatch.chdir(tmp_path)
    runs = drive(tmp_path, "moments", KILLS)
    assert len(runs) == KILLS
    for each in runs:
        judge_kill(tmp_path / str(each["run"]), capsys)


# The ledger fails between the charge and the commit


@pytest.fixture
def hurried(monkeypatch):
    """A user who waits for a tenth of a second, not for half a minute."""
    monkeypatch.setattr("privalue.cli.release_commands.open_ledger", partial(open_ledger, wait=0.1))


def after_the_outbox(monkeypatch, action):
    """Do something once what was drawn is on the disk, and before it is on record."""
    fill = Outbox.fill

    def filled(outbox, paid):
        kept = fill(outbox, paid)
        action()
        return kept

    monkeypatch.setattr(Outbox, "fill", filled)


@contextmanager
def no_file_may_grow():
    """As if the disk were full: SQLite cannot write its journal."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2048, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def full_while_committing(monkeypatch):
    """The disk has no room for what is to be put on record."""
    commit = Ledger.commit

    def full(ledger, *given):
        with no_file_may_grow():
            return commit(ledger, *given)

    with monkeypatch.context() as faulty:
        faulty.setattr(Ledger, "commit", full)
        yield


def holder():
    connection = sqlite3.connect("ledger.db", isolation_level=None, check_same_thread=False)
    connection.execute("BEGIN IMMEDIATE")
    return connection


def test_a_lock_that_others_hold_for_a_while_is_waited_for(folder, monkeypatch, capsys):
    after_the_outbox(monkeypatch, lambda: threading.Timer(0.6, holder().close).start())
    assert run([*COMMAND, "out"]) == 0
    require_finished(folder, Path("out/release.json").read_text())


@pytest.mark.parametrize(("fault", "code"), [("locked", 7), ("full", 5)])
def test_what_could_not_be_committed_is_kept_and_finished(
    folder, hurried, monkeypatch, capsys, fault, code
):
    held = []
    with monkeypatch.context() as faulty:
        if fault == "locked":
            after_the_outbox(faulty, lambda: held.append(holder()))
            assert run([*COMMAND, "a folder", "-q"]) == code
        else:
            with full_while_committing(faulty):
                assert run([*COMMAND, "a folder", "-q"]) == code
    line = one_line(capsys)
    assert line.startswith(
        "privalue: charged: do not run again; `privalue ledger finish 'a folder/release.outbox'` "
        "(the ledger ledger.db "
    )
    assert ("is locked by another process" if fault == "locked" else "disk") in line
    for connection in held:
        connection.close()
    kept = Path("a folder/release.outbox").read_text().partition("\n")[2]
    assert os.listdir("a folder") == ["release.outbox"]
    assert run(["ledger", "finish", "a folder/release.outbox", "--out", "out", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["release"] == "out/release.json"
    require_finished(folder, kept)
    assert os.listdir("a folder") == []
    assert run([*COMMAND, "again", "--json"]) == 0  # the ledger answers
    assert json.loads(capsys.readouterr().out)["reused"]
    assert releases() == 1


def test_the_pages_are_those_of_the_release(folder, monkeypatch, capsys):
    """With what the study's side files say, and with the justification."""
    Path("states.csv").write_text("state\nill\nwell\n")
    Path("study.toml").write_text(release_driver.STUDY.replace("count = 2", 'file = "states.csv"'))
    rows = re.sub(r",0,0,", ",0,ill,", release_driver.ROWS)
    rows = re.sub(r",1,1,", ",1,well,", rows)
    Path("data.csv").write_text("trajectory,step,state,reward\n" + rows)
    words = ["--justification", "The board decided."]
    with full_while_committing(monkeypatch):
        assert run([*COMMAND, "out", *words]) == 5
    assert run(["ledger", "finish", "out/release.outbox"]) == 0
    assert run([*COMMAND, "again", *words]) == 0
    for name in ("values.csv", "registry.yaml", "report.html"):
        assert Path("out", name).read_bytes() == Path("again", name).read_bytes(), name
    assert "The board decided." in Path("out/registry.yaml").read_text()


# In Python


def test_the_error_holds_what_was_drawn_and_finish_takes_it(folder, monkeypatch):
    ledger = open_ledger("ledger.db")
    with (
        full_while_committing(monkeypatch),
        pytest.raises(pv.ChargedError, match="do not release again") as caught,
    ):
        pv.release(described(), PEOPLE, ledger=ledger)
    problem = caught.value
    assert (problem.exit_code, problem.outbox) == (5, None)
    assert not isinstance(problem, UnavailableError)  # whoever tries those again does not, here
    for _ in range(2):
        assert pv.finish(problem, ledger=ledger) == problem.release
    assert pv.finish(problem) == problem.release  # the ledger is known, if it is a file
    assert releases() == 1
    assert pv.release(described(), PEOPLE, ledger=ledger).reused


def test_an_outbox_of_ones_own(folder, monkeypatch):
    ledger = open_ledger("ledger.db")
    assert not pv.release(described(), PEOPLE, ledger=ledger, outbox="kept.outbox").reused
    assert not Path("kept.outbox").exists()
    with (
        full_while_committing(monkeypatch),
        pytest.raises(pv.ChargedError, match=r"kept\.outbox keeps it") as caught,
    ):
        pv.release(described("two"), PEOPLE, ledger=ledger, outbox="kept.outbox")
    assert caught.value.outbox == Path("kept.outbox")
    assert pv.finish("kept.outbox") == caught.value.release
    assert not Path("kept.outbox").exists()
    with pytest.raises(pv.DataError, match="cannot be read"):
        pv.finish("kept.outbox")


def test_a_ledger_on_a_server_has_to_be_named_and_no_password_is_kept(folder, monkeypatch):
    ledger = open_ledger("ledger.db")
    ledger._store.place = "postgresql://host/database"  # as a server's ledger names itself
    with full_while_committing(monkeypatch), pytest.raises(pv.ChargedError):
        pv.release(described(), PEOPLE, ledger=ledger, outbox="kept.outbox")
    assert '"ledger": "postgresql://host/database"' in Path("kept.outbox").read_text()
    with pytest.raises(pv.UsageError, match=r"charged on the ledger postgresql://host/database"):
        pv.finish("kept.outbox")
    pv.finish("kept.outbox", ledger=open_ledger("ledger.db"))


def test_another_ledger_has_no_such_charge(folder, monkeypatch, capsys):
    with full_while_committing(monkeypatch):
        assert run([*COMMAND, "out"]) == 5
    prepare(folder / "other")
    capsys.readouterr()
    finish = ["ledger", "finish", "out/release.outbox", "--ledger"]
    assert run([*finish, "other/ledger.db"]) == 5
    assert "has no charge" in one_line(capsys)
    assert Path("out/release.outbox").exists()
    assert run([*finish, "ledger.db"]) == 0


def test_a_folder_with_another_release_is_refused_before_the_commit(folder, monkeypatch, capsys):
    assert run([*COMMAND, "first"]) == 0
    Path("study.toml").write_text(
        release_driver.STUDY.replace("[privacy]", 'name = "b"\n[privacy]')
    )
    with full_while_committing(monkeypatch):
        assert run([*COMMAND, "out"]) == 5
    capsys.readouterr()
    assert run(["ledger", "finish", "out/release.outbox", "--out", "first"]) == 2
    assert "first/release.json is another release" in one_line(capsys)
    assert run(["ledger", "finish", "out/release.outbox"]) == 0


def test_a_damaged_outbox_is_refused(folder, monkeypatch, capsys):
    with full_while_committing(monkeypatch):
        assert run([*COMMAND, "out"]) == 5
    outbox = Path("out/release.outbox")
    whole = outbox.read_bytes()
    end = whole.index(b"\n")
    header = json.loads(whole[:end])
    damaged = [whole[:cut] for cut in (0, 1, end - 1, end, end + 1, len(whole) - 1)]
    damaged += [whole + b"\n", whole[:-9] + b"7" + whole[-8:], b"[" * 90_000, b"\xff" + whole]
    for change in ({"charge": "3"}, {"charge": True}, {"more": 1}, {"privalue_outbox": 2}):
        damaged.append(json.dumps({**header, **change}).encode() + whole[end:])
    damaged.append(json.dumps({k: v for k, v in header.items() if k != "charge"}).encode())
    capsys.readouterr()
    for text in damaged:
        outbox.write_bytes(text)
        assert run(["ledger", "finish", str(outbox)]) == 3, text[:80]
        assert "is not an outbox" in one_line(capsys)
    assert kinds() == ["declare", "charge"]
    outbox.write_bytes(whole)
    assert run(["ledger", "finish", str(outbox)]) == 0


# An answer that is lost


@pytest.mark.parametrize("arrives", [True, False], ids=["stands", "undone"])
def test_a_lost_answer_is_found_out_neither_doubled_nor_lost(folder, arrives):
    ledger = open_ledger("ledger.db")
    lose_an_answer(ledger, arrives)
    released = pv.release(described(), PEOPLE, ledger=ledger)
    ledger.verify(releases=[released.to_json()])
    assert kinds() == ["declare", "charge", "commit"]


def test_a_charge_that_may_stand_is_never_said_not_to(folder, monkeypatch):
    """The server recorded it, its answer was lost, and then nobody answered any more."""
    ledger, charge, held = open_ledger("ledger.db", wait=0.1), Ledger.charge, []
    lose_an_answer(ledger, arrives=True)

    def over_a_bad_line(*given, **named):
        try:
            return charge(*given, **named)
        finally:
            if not held:
                held.append(holder())

    with monkeypatch.context() as faulty:
        faulty.setattr(Ledger, "charge", over_a_bad_line)
        with pytest.raises(pv.ChargedError, match="perhaps charged, and nothing was drawn") as told:
            pv.release(described(), PEOPLE, ledger=ledger)
    held[0].close()
    assert (told.value.exit_code, told.value.release) == (7, None)
    assert kinds() == ["declare", "charge"]


@pytest.mark.parametrize("problem", [MemoryError, ValueError])
def test_what_fails_after_the_charge_is_told_as_charged(folder, monkeypatch, capsys, problem):
    def fails(*_):
        raise problem("a private value")

    with monkeypatch.context() as broken:
        broken.setattr(curator, "draw", fails)
        assert run([*COMMAND, "out"]) == (3 if problem is MemoryError else 70)
    said = one_line(capsys)
    assert "charged, and lost" in said
    assert "private value" not in said
    assert releases() == 1


# Places that cannot take a release


def test_a_folder_that_only_looks_writable_is_found_before_the_charge(folder, capsys):
    """Whoever may write anywhere still cannot make a folder there."""
    assert run([*COMMAND, "/proc/released"]) == 2
    line = one_line(capsys)
    assert "nothing was charged" in line or "may not be written to" in line
    assert kinds() == ["declare"]


def test_a_disk_without_room_is_found_before_the_charge(folder, monkeypatch, capsys):
    preallocate = Outbox.preallocate

    def full(outbox, size):
        with no_file_may_grow():
            preallocate(outbox, size)

    monkeypatch.setattr(Outbox, "preallocate", full)
    for words in (COMMAND, [*COMMAND[:4], "--no-ledger", "--out"]):
        assert run([*words, "out"]) == 2
        assert "nothing was charged" in one_line(capsys)
        assert not Path("out").exists()
    assert kinds() == ["declare"]


@pytest.mark.parametrize("states", [1, 2, 300])
@pytest.mark.parametrize("mechanism", ["dp-ssp", "dp-lsw"])
def test_the_room_that_is_made_suffices(folder, states, mechanism, monkeypatch):
    """For the longest numbers, and labels that take the most bytes."""
    asked = []
    monkeypatch.setattr(Outbox, "preallocate", lambda _, size: asked.append(size))
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
    released = pv.release(
        study, [[(labels[0], 1e-6)]] * 50, accept_useless=True, outbox="x", accept_large_delta=True
    )
    assert len(released.to_json().encode()) < asked[0] - 8192


@pytest.mark.parametrize("temporary", [True, False], ids=["elsewhere", "nowhere"])
def test_a_folder_that_is_gone_after_the_charge_loses_nothing(
    folder, monkeypatch, capsys, temporary
):
    monkeypatch.setattr(tempfile, "tempdir", str(folder) if temporary else str(folder / "nowhere"))
    draw = curator.draw

    def drawn(*arguments):
        shutil.rmtree("out")
        return draw(*arguments)

    with monkeypatch.context() as removed:
        removed.setattr(curator, "draw", drawn)
        if temporary:
            with full_while_committing(removed):
                code = run([*COMMAND, "out"])
        else:
            code = run([*COMMAND, "out"])
    said = capsys.readouterr().err
    if not temporary:  # the ledger took it, and the folder was made again
        assert code == 0
        return
    assert code == 5
    (outbox,) = folder.glob("privalue-*/spare.outbox")
    assert f"`privalue ledger finish {outbox}`" in said
    kept = outbox.read_text().partition("\n")[2]
    assert run(["ledger", "finish", str(outbox)]) == 0  # to where it was meant to go
    require_finished(folder, kept)


def test_what_is_on_record_and_cannot_be_published_is_handed_out_again(folder, monkeypatch, capsys):
    monkeypatch.setattr(tempfile, "tempdir", str(folder / "nowhere"))
    draw = curator.draw

    def drawn(*arguments):
        shutil.rmtree("out")
        Path("out").write_text("somebody else's")
        return draw(*arguments)

    with monkeypatch.context() as removed:
        removed.setattr(curator, "draw", drawn)
        assert run([*COMMAND, "out"]) == 2
    said = line_after_the_release(capsys)
    assert "charged, and on record: the same command with another --out gets it" in said
    assert run([*COMMAND, "again", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["reused"]
    assert releases() == 1


def test_publishing_that_fails_says_how_to_go_on(folder, monkeypatch, capsys):
    with monkeypatch.context() as failing:
        failing.setattr(
            "privalue.cli.release_commands.publish_and_log", lambda *_, **__: Path("out/no").rmdir()
        )
        assert run([*COMMAND, "out"]) == 3
    assert line_after_the_release(capsys).startswith(
        "privalue: charged, and on record: do not run again; `privalue ledger finish "
        "out/release.outbox` (the system refused: No such file"
    )
    assert run(["ledger", "finish", "out/release.outbox"]) == 0


# What an earlier run left


def test_a_release_without_its_pages_says_which_command_makes_them(folder, capsys):
    words = [*COMMAND[:4], "--no-ledger", "--out"]
    assert run([*words, "out"]) == 0
    for name in ("report.html", "registry.yaml", "values.csv"):
        Path("out", name).unlink()
        capsys.readouterr()
        assert run([*words, "out"]) == 2
        line = one_line(capsys)
        (command,) = re.findall("`privalue (.*)`", line)
        assert command == ("report out" if name == "values.csv" else "report out --force")
    assert run(command.split()) == 0
    assert len(list(Path("out").iterdir())) == 4
    assert run([*words, "out"]) == 2
    assert "`" not in one_line(capsys)


def test_litter_that_is_a_day_old_is_removed_by_the_next_run(folder):
    out = Path("out")
    out.mkdir()
    for name in (".release.json.1.partial", ".report.html.2.partial"):
        (out / name).write_text("")
    os.utime(out / ".report.html.2.partial", (out.stat().st_mtime - 90_000,) * 2)
    assert run([*COMMAND, "out"]) == 0
    assert [path.name for path in out.glob(".*")] == [".release.json.1.partial"]


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


def interrupted(step, number, hangup="SIG_DFL"):
    """Start the command, send the signal while it is at a step; its exit code, and its lines."""
    started = subprocess.Popen(
        [sys.executable, "-c", PAUSED.format(step=step, hangup=hangup), *COMMAND, "out"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert started.stdout.readline() == "here\n"
    started.send_signal(number)
    _, said = started.communicate("\n")
    return started.returncode, said.splitlines()


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM], ids=["hup", "term"])
def test_an_interrupt_before_the_charge_leaves_nothing(folder, number):
    assert interrupted("read_statistics", number) == (130, ["privalue: interrupted"])
    assert kinds() == ["declare"]
    assert not Path("out").exists()


@pytest.mark.parametrize(
    "number",
    [signal.SIGINT, pytest.param(signal.SIGHUP, marks=pytest.mark.long)],
    ids=["int", "hup"],
)
def test_an_interrupt_after_the_charge_waits_until_nothing_is_lost_by_it(folder, number, capsys):
    code, (line,) = interrupted("draw", number)
    assert code == 130
    assert line == (
        "privalue: charged, and on record: do not run again; `privalue ledger finish "
        "out/release.outbox` (interrupted)"
    )
    kept = Path("out/release.outbox").read_text().partition("\n")[2]
    assert run(["ledger", "finish", "out/release.outbox"]) == 0
    require_finished(folder, kept)


def test_what_nohup_ignores_stays_ignored(folder, capsys):
    code, (_, wrote, *_) = interrupted("draw", signal.SIGHUP, hangup="SIG_IGN")
    assert (code, wrote) == (0, "Wrote out/release.json")


def test_an_interrupt_while_the_ledger_is_locked_keeps_what_was_drawn(folder, monkeypatch):
    """Ctrl-C gets through at once, and becomes an error that holds the release."""
    before, held = signal.getsignal(signal.SIGINT), []

    def lock_and_interrupt():
        held.append(holder())
        signal.raise_signal(signal.SIGINT)

    after_the_outbox(monkeypatch, lock_and_interrupt)
    with pytest.raises(pv.ChargedError) as caught:
        pv.release(described(), PEOPLE, ledger=open_ledger("ledger.db"), outbox="kept.outbox")
    held[0].close()
    assert (caught.value.exit_code, caught.value.why) == (130, "interrupted")
    assert caught.value.release.private
    assert signal.getsignal(signal.SIGINT) is before
    assert pv.finish("kept.outbox") == caught.value.release


def test_an_interrupt_while_the_ledger_is_locked_before_the_charge_costs_nothing(
    folder, monkeypatch
):
    rehearse, held = curator.rehearse, []

    def rehearsed(*given):
        rehearse(*given)
        held.append(holder())
        threading.Timer(0.3, signal.raise_signal, [signal.SIGINT]).start()

    monkeypatch.setattr(curator, "rehearse", rehearsed)
    with pytest.raises(KeyboardInterrupt):
        pv.release(described(), PEOPLE, ledger=open_ledger("ledger.db"), outbox="kept.outbox")
    held[0].close()
    assert kinds() == ["declare"]
    assert not Path("kept.outbox").exists()


def test_elsewhere_than_in_the_main_thread_it_goes_the_same_way(folder):
    made = []
    ledger = open_ledger("ledger.db")
    thread = threading.Thread(
        target=lambda: made.append(pv.release(described(), PEOPLE, ledger=ledger))
    )
    thread.start()
    thread.join()
    ledger.verify(releases=[made[0].to_json()])


# What is given to finish


def test_finish_takes_the_folder_and_knows_when_it_is_done(folder, monkeypatch, capsys):
    with full_while_committing(monkeypatch):
        assert run([*COMMAND, "out"]) == 5
    capsys.readouterr()
    assert run(["ledger", "finish", "out"]) == 0
    kept = Path("out/release.json").read_text()
    before = kinds()
    capsys.readouterr()
    for given in ("out", "out/release.outbox"):
        assert run(["ledger", "finish", given]) == 0
        assert "Finished already: out/release.json is on record" in one_line(capsys)
        assert run(["ledger", "finish", given, "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert told == {"release": "out/release.json", "dataset": "trial"}
    assert (kinds(), Path("out/release.json").read_text()) == (before, kept)
    # Of another ledger, of none, and where nothing is published, nobody can say so.
    prepare(folder / "other")
    for ledger in ("other/ledger.db", "none.db"):
        assert run(["ledger", "finish", "out", "--ledger", ledger]) == 3
        said = one_line(capsys)
        assert f"is not on the record of the ledger {ledger}" in said
        assert "--ledger LEDGER" in said
    Path("empty").mkdir()
    assert run(["ledger", "finish", "empty"]) == 3
    assert "empty/release.outbox cannot be read" in one_line(capsys)


def test_a_ledger_whose_name_is_wrong_is_told_at_once(folder, monkeypatch, capsys):
    with full_while_committing(monkeypatch):
        assert run([*COMMAND, "out"]) == 5
    capsys.readouterr()
    Path("loop.db").symlink_to("loop.db")  # which nobody can open, whoever asks
    Path("other").mkdir()
    for name, why in (("other", "is not a regular file"), ("loop.db", "cannot be opened")):
        assert run(["ledger", "finish", "out", "--ledger", name]) == 5
        assert why in one_line(capsys)
    assert run(["ledger", "finish", "out"]) == 0


def test_an_empty_name_is_no_name(folder, monkeypatch, capsys):
    """A script whose variable is not set: nothing is looked for in the folder that one is in."""
    before = sorted(os.listdir())
    for command in (
        [*COMMAND, ""],
        [*COMMAND, "out", "--ledger", ""],
        [*COMMAND, "out", "--ledger="],
        ["ledger", "show", "--ledger", ""],
        ["ledger", "finish", "out", "--ledger", ""],
        ["ledger", "finish", "out", "--out", ""],
    ):
        assert run(command) == 2, command
        assert " is empty; give a name" in one_line(capsys)
    with pytest.raises(pv.UsageError, match="the ledger has no name"):
        open_ledger("")
    assert sorted(os.listdir()) == before
    monkeypatch.setenv("PRIVALUE_LEDGER", "")
    assert run(["ledger", "show"]) == 0  # as if it were not set: ledger.db


@pytest.mark.parametrize(
    "field",
    [
        *({"charge": charge} for charge in (None, 3, {}, {"number": 3})),
        *({"ledger": ledger} for ledger in (5, None, "a\0b", ["ledger.db"])),
        *({"study": study} for study in (5, [1], "a\0b")),
        {"justification": 5},
        {"unknown": 1},
    ],
    ids=str,
)
def test_an_outbox_with_an_odd_header_is_refused_in_one_line(field, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    charge = Charge(number=3, head="0" * 64, dataset="trial")
    paid = Paid(ledger="ledger.db", charge=charge, text="{}\n")
    with Outbox("good.outbox") as outbox:
        assert outbox.fill(paid)
        assert Outbox.read("good.outbox") == replace(paid, folder=str(tmp_path))
        first, _, text = outbox.path.read_text().partition("\n")
    Path("odd.outbox").write_text(json.dumps(json.loads(first) | field) + "\n" + text)
    assert run(["ledger", "finish", "odd.outbox"]) == 3
    assert "odd.outbox is not an outbox" in one_line(capsys)


def test_what_is_no_regular_file_is_no_outbox(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    assert run(["ledger", "finish", "pipe"]) == 3
    assert "pipe cannot be read: it is not a regular file" in one_line(capsys)
