"""An old copy put back is found by whoever saw the newer one; and what a release tells of heads."""

import json
import os
import re
import shutil
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest

import privalue as pv
from oracles import release_driver
from oracles.accountings import SQUARES_FIRST
from privalue.cli._app import run
from privalue.core import gaussian
from privalue.errors import UsageError
from privalue.ledger import BudgetError, LedgerError, open_ledger, study_hash
from privalue.ledger._heads import Seen, identity, state_folder

WHOM = {"unit": "trajectory", "neighbours": "replace-one"}
STUDY = release_driver.STUDY.replace('"trial"', '"people"\nname = "{}"')


ALPHA = gaussian(0.1, 1e-7).alpha
TOTAL = {"epsilon": 1.0, "delta": 1e-5, "unit": "trajectory"}


@pytest.fixture(params=SQUARES_FIRST)
def accounting(request):
    return request.param


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch, accounting):
    """The folder of one user, who starts in a folder of work."""
    folder = tmp_path / "state"
    monkeypatch.setitem(TOTAL, "accounting", accounting)
    monkeypatch.setenv("PRIVALUE_STATE", str(folder))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return folder


def made(location="ledger.db", spent=0):
    ledger = open_ledger(location)
    ledger.declare("people", **TOTAL)
    for number in range(spent):
        spend(ledger, number)
    return ledger


def spend(ledger, number):
    promise = {"epsilon": 0.1, "delta": 1e-7, **WHOM}
    released = {"private": True, "privacy": promise, "study": {"n": number, "privacy": promise}}
    released |= {"mechanism": "dp-ssp", "noise": {"alpha": ALPHA}, "gaussian_mu": 1 / ALPHA}
    request = study_hash(released["study"])
    with ledger.reserve("people", request, **promise, gaussian_alpha=ALPHA) as reservation:
        head = reservation.charge()
        reservation.commit(json.dumps({**released, "ledger_head": head}))
    return head


def put_back(copy, location="ledger.db"):
    """As a restore does: with no log of what came later."""
    for path in Path().glob(f"{location}*"):
        path.unlink()
    shutil.copy(copy, location)


def every_operation(ledger):
    ask = {"epsilon": 0.1, "delta": 1e-7, **WHOM, "gaussian_alpha": ALPHA}
    return {
        "show": lambda: ledger.show("people"),
        "head": ledger.head,
        "datasets": ledger.datasets,
        "verify": ledger.verify,
        "reserve": lambda: ledger.reserve("people", study_hash({"more": 1}), **ask),
        "stored": lambda: ledger.stored("people", study_hash({"number": 0})),
        "declare": lambda: ledger.declare("o", epsilon=1, delta=0, unit="person"),
        "settle": lambda: ledger.settle(3, charge=True, reason="gone"),
    }


# An old copy


def test_an_old_copy_put_back_is_refused_by_every_operation():
    made(spent=1)
    shutil.copy("ledger.db", "copy.db")
    spend(open_ledger("ledger.db"), 1)
    put_back("copy.db")
    for name, operation in every_operation(open_ledger("ledger.db")).items():
        with pytest.raises(LedgerError, match="lacks the head") as found:
            operation()
        assert found.value.exit_code == 5, name
        assert "ledger.accept_head(reason=WHY)" in str(found.value)
        assert "\n" not in str(found.value)
    # The copy is the same ledger, wherever it is.
    with pytest.raises(LedgerError, match=r"the ledger copy\.db lacks the head"):
        open_ledger("copy.db").show("people")


def test_a_running_release_is_stopped_before_its_charge():
    ledger = made(spent=1)
    shutil.copy("ledger.db", "copy.db")
    spend(ledger, 1)
    ask = {"epsilon": 0.1, "delta": 1e-7, **WHOM, "gaussian_alpha": ALPHA}
    reservation = ledger.reserve("people", study_hash({"more": 1}), **ask)
    put_back("copy.db")
    with pytest.raises(LedgerError, match="lacks the head"):
        reservation.charge()


def test_a_ledger_that_was_rewritten_to_the_same_length_is_refused():
    """By somebody with the software, who keeps the first entry."""
    ledger = made()
    with ledger._store.read() as transaction:
        first = transaction.row(1)
    spend(ledger, 0)
    from privalue.ledger._book import Book

    book = Book().replay([first])
    at = datetime.now(UTC)
    amounts = {"epsilon": 10**14, "delta": 10**14, "trajectories_per_person": 0}
    rows = [book.write("declare", at, dataset="people", accounting="plain", **amounts, **WHOM)]
    rows += [
        book.write("declare", at, dataset=f"d{n}", accounting="plain", **amounts, **WHOM)
        for n in range(3)
    ]
    with ledger._store.write() as transaction:
        for table in ("UPDATE", "DELETE"):
            transaction._execute(f"DROP TRIGGER ledger_entries_{table}")
        transaction._execute("DELETE FROM ledger_entries WHERE sequence > 1")
        for row in rows:
            transaction.append(row)
    with pytest.raises(LedgerError, match="lacks the head"):
        open_ledger("ledger.db").verify()


def test_a_hash_beside_another_text_is_not_what_was_seen():
    ledger = made(spent=1)
    with ledger._store.read() as transaction:
        *_, (sequence, body, head, _) = transaction.rows()
        seen = Seen(ledger=identity(transaction), sequence=sequence, head=head, day="")
        assert seen.held_by(transaction)
        transaction.row = lambda at: (at, body.replace("commit", "settle"), head, "")
        assert not seen.held_by(transaction)


def test_a_ledger_is_known_wherever_it_is_moved():
    ledger = made(spent=1)
    shutil.copy("ledger.db", "copy.db")
    spend(ledger, 1)
    os.makedirs("elsewhere")
    shutil.move("ledger.db", "elsewhere/l.db")
    open_ledger("elsewhere/l.db").verify()
    shutil.copy("copy.db", "third.db")
    with pytest.raises(LedgerError, match="lacks the head"):
        open_ledger("third.db").show("people")


def test_another_ledger_in_its_place_is_refused():
    made(spent=1)
    made("other.db")
    put_back("other.db")
    with pytest.raises(LedgerError, match="is not the one that was there before") as found:
        open_ledger("ledger.db").show("people")
    assert "ledger.accept_head(reason=WHY)" in str(found.value)
    lost = re.search("[0-9a-f]{64}", str(found.value))[0]
    ledger = open_ledger("ledger.db")
    ledger.accept_head(reason="the other one was made by mistake")
    assert lost in ledger.verify().notices[0]


def test_who_makes_a_new_ledger_where_one_was_is_told():
    made(spent=1)
    put_back("/dev/null")
    os.unlink("ledger.db")
    ledger = open_ledger("ledger.db")
    with pytest.raises(BudgetError, match="does not exist"):
        ledger.show("people")
    ledger.declare("people", **TOTAL)
    (notice,) = ledger.notices
    assert notice.startswith("another ledger was at ledger.db before, with the head ")
    spend(open_ledger("ledger.db"), 0)  # and goes on


def test_another_user_knows_nothing_of_it(monkeypatch, tmp_path):
    made(spent=1)
    shutil.copy("ledger.db", "copy.db")
    spend(open_ledger("ledger.db"), 1)
    put_back("copy.db")
    monkeypatch.setenv("PRIVALUE_STATE", str(tmp_path / "somebody else"))
    open_ledger("ledger.db").verify()


def test_a_writer_between_a_snapshot_and_the_look_is_no_old_copy():
    made(spent=1)
    reader = open_ledger("ledger.db")
    with reader._store.read() as transaction:
        list(transaction.rows())  # the snapshot is taken
        spend(open_ledger("ledger.db"), 1)  # and remembered
        ledger = reader._memory.check(transaction, reader._store.read)
        assert ledger == identity(transaction)


# Accepted


def test_a_restore_that_was_meant_is_accepted_on_the_record(state):
    made(spent=1)
    shutil.copy("ledger.db", "copy.db")
    spend(open_ledger("ledger.db"), 1)
    lost = open_ledger("ledger.db").head()
    put_back("copy.db")
    ledger = open_ledger("ledger.db")
    with pytest.raises(UsageError, match="the reason is empty"):
        ledger.accept_head(reason=" ")
    head = ledger.accept_head(reason="the disk broke on Monday")
    assert ledger.head() == head
    spend(open_ledger("ledger.db"), 2)
    with ledger._store.read() as transaction:
        (entry,) = [
            e for _, body, *_ in transaction.rows() if (e := json.loads(body))["kind"] == "accept"
        ]
    assert (entry["lost"], entry["reason"]) == (lost, "the disk broke on Monday")
    (notice,) = ledger.verify().notices
    assert lost in notice
    assert "the disk broke on Monday" in notice
    (line,) = map(json.loads, (state / "accepted.jsonl").read_text().splitlines())
    assert (line["lost"]["head"], line["reason"]) == (lost, "the disk broke on Monday")
    with pytest.raises(UsageError, match="nothing to accept"):
        ledger.accept_head(reason="again")
    put_back("copy.db")  # what was accepted once is not accepted for ever
    with pytest.raises(LedgerError, match="lacks the head"):
        open_ledger("ledger.db").head()


def test_the_command_line_names_the_command_and_takes_it(capsys):
    made(spent=1)
    shutil.copy("ledger.db", "copy.db")
    spend(open_ledger("ledger.db"), 1)
    put_back("copy.db")
    assert run(["ledger", "show"]) == 5
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "ledger.accept_head(reason=WHY)" in said
    assert run(["ledger", "accept-head", "--reason", "restored", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer == {"ledger": "ledger.db", "head": open_ledger("ledger.db").head()}
    assert run(["ledger", "accept-head", "--reason", "again"]) == 2
    assert run(["ledger", "show"]) == 0
    assert "somebody went on without the head" in capsys.readouterr().err


# Where it is remembered


def test_what_is_remembered_is_its_owners_alone(state):
    made(spent=1)
    folders = [state, *(path for path in state.rglob("*") if path.is_dir())]
    files = [path for path in state.rglob("*") if path.is_file()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in folders} == {0o700}
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert len(files) == 2
    for path in files:  # whole, and no litter
        assert set(json.loads(path.read_text())) == {"ledger", "sequence", "head", "day"}


@pytest.mark.parametrize("spoiled", ["a file in its place", "no home", "a damaged file"])
def test_without_a_place_to_write_it_says_so_once_and_goes_on(spoiled, state, monkeypatch, capsys):
    made()
    if spoiled == "a damaged file":
        for path in state.rglob("*.json"):
            path.write_text("{")
    else:
        shutil.rmtree(state)
        state.write_text("")
    if spoiled == "no home":
        for name in ("PRIVALUE_STATE", "XDG_STATE_HOME"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setattr(Path, "home", staticmethod(lambda: (_ for _ in ()).throw(RuntimeError)))
    Path("study.toml").write_text(STUDY.format("one"))
    Path("rows.csv").write_text(
        "trajectory,step,state,reward\n" + "".join(f"{n},0,0,0.5\n{n},1,1,1.0\n" for n in range(60))
    )
    arguments = [
        "--data",
        "rows.csv",
        "--out",
        "released",
        "--ledger",
        "ledger.db",
        "--accept-useless",
    ]
    assert run(["release", "study.toml", *arguments]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert said.count("cannot be remembered") == 1
    assert "if an old copy is put back, nobody here will notice" in said
    assert Path("released/release.json").exists()


def test_the_folder_is_the_users_own(monkeypatch, tmp_path):
    assert state_folder() == tmp_path / "state"
    monkeypatch.setenv("PRIVALUE_STATE", "")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert state_folder() == tmp_path / "privalue"
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert state_folder() == tmp_path / ".local" / "state" / "privalue"


# Heads and releases


@pytest.fixture
def two_releases():
    made()
    Path("rows.csv").write_text(
        "trajectory,step,state,reward\n" + "".join(f"{n},0,0,0.5\n{n},1,1,1.0\n" for n in range(60))
    )
    for name in ("one", "two"):
        Path("study.toml").write_text(STUDY.format(name))
        arguments = [
            "--data",
            "rows.csv",
            "--out",
            name,
            "--ledger",
            "ledger.db",
            "--accept-useless",
        ]
        assert run(["release", "study.toml", *arguments]) == 0
    return "one", "two"


def test_a_release_folder_holds_its_own_head_and_nothing_more(two_releases):
    with open_ledger("ledger.db")._store.read() as transaction:
        hashes = {digest for _, _, digest, _ in transaction.rows()}
    for folder in two_releases:
        own = pv.Release.load(Path(folder)).ledger_head
        texts = {p: p.read_text() for p in Path(folder).rglob("*") if p.is_file()}
        assert len(texts) > 3
        found = {digest for text in texts.values() for digest in hashes if digest in text}
        assert found == {own}
        for path, text in texts.items():  # a number would tell how many attempts failed
            assert not re.search(r'\bentry \d|"(entry|sequence)"', text), path


def test_many_releases_are_verified_at_once(two_releases, capsys):
    capsys.readouterr()
    for given in (
        ["--release", "one", "two"],
        ["--release", "one", "--release", "two/release.json"],
        ["one", "two"],
    ):
        assert run(["ledger", "verify", *given, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["releases"] == 2
    text = Path("two/release.json").read_text()
    Path("two/release.json").write_text(text.replace('"two"', '"2"'))
    assert run(["ledger", "verify", "--release", "one", "two"]) == 5
    assert "no entry commits two: it was changed" in capsys.readouterr().err


def test_a_head_is_a_line_that_verify_takes_back(capsys):
    made(spent=1)
    assert run(["ledger", "head"]) == 0
    line = capsys.readouterr().out
    assert re.fullmatch(r"ledger\.db [0-9a-f]{64}\n", line)
    spend(open_ledger("ledger.db"), 1)
    assert run(["ledger", "head", "--json"]) == 0
    later = json.loads(capsys.readouterr().out)
    assert later["ledger"] == "ledger.db"
    Path("heads.txt").write_text(f"{line}ledger.db {later['head']}\n")
    for given in (line, line.split()[-1], "heads.txt"):
        assert run(["ledger", "verify", "--head", given]) == 0
    other = "0" * 64
    assert run(["ledger", "verify", "--head", line, "--head", f"ledger.db {other}"]) == 5
    assert f"no entry has the hash {other}" in capsys.readouterr().err
    assert run(["ledger", "verify", "--head", "no hash"]) == 2


def test_lines_of_other_ledgers_are_skipped_and_told(capsys):
    made("ledger.db", spent=1)
    made("other.db")
    own, foreign = open_ledger("ledger.db").head(), open_ledger("other.db").head()
    verify = ["ledger", "verify", "--ledger", "ledger.db", "--head"]
    Path("heads.txt").write_text(f"other.db {foreign}\nledger.db {own}\n")
    assert run([*verify, "heads.txt"]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "heads that were skipped: 1 of other ledgers (other.db)" in said
    # A name is no way around: one's own line, however its path is written, and a bare hash.
    gone = "0" * 64
    for line in (f"ledger.db {gone}", f"{os.path.abspath('ledger.db')} {gone}", gone):
        Path("heads.txt").write_text(f"ledger.db {own}\n{line}\n")
        assert run([*verify, "heads.txt"]) == 5
        said = " ".join(capsys.readouterr().err.split())
        assert f"no entry has the hash {gone}" in said
        assert "release" not in said
    # A ledger that was moved still has what its old name says; and nothing at all is no check.
    assert run([*verify, f"where/it/was.db {own}"]) == 0
    assert "skipped" not in capsys.readouterr().err
    assert run([*verify, f"other.db {foreign}"]) == 2
    assert "no head that was given is of the ledger ledger.db" in capsys.readouterr().err


def damages(folder):
    """Files in which a memory is not what it was, or is none at all."""
    fields = {"ledger": "ab" * 32, "sequence": 2, "head": "cd" * 32, "day": "2026-01-01"}
    for name, text in (
        ("text", json.dumps(fields | {"sequence": "2"})),
        ("huge", json.dumps(fields | {"sequence": 10**23})),
        ("negative", json.dumps(fields | {"sequence": -1})),
        ("true", json.dumps(fields | {"sequence": True})),
        ("list", json.dumps(fields | {"head": []})),
        ("number", json.dumps(fields | {"ledger": 5})),
        ("elsewhere", json.dumps(fields | {"ledger": "../../x"})),
        ("nested", "[" * 9_000),
        ("long", "[" * 100_000),
        ("digits", json.dumps(fields)[:-1] + ', "sequence": ' + "1" * 5_000 + "}"),
        ("bytes", "\udcff"),
    ):
        (folder / name).write_text(text, errors="surrogateescape")
        yield folder / name
    os.mkfifo(folder / "pipe")
    (folder / "zero").symlink_to("/dev/zero")
    (folder / "folder").mkdir()
    yield from (folder / name for name in ("pipe", "zero", "folder"))


@pytest.mark.parametrize("kind", ["heads", "places"])
def test_a_damaged_memory_is_told_and_counts_as_none(kind, state, tmp_path):
    made(spent=1)
    (kept,) = (state / kind).iterdir()
    (tmp_path / "damages").mkdir()
    for damage in damages(tmp_path / "damages"):
        if kept.is_file():
            kept.unlink()
        damage.rename(kept)
        ledger = open_ledger("ledger.db")
        assert len(ledger.show("people").steps) == 4, damage.name
        (line,) = ledger.notices
        assert "cannot be remembered" in line
        if damage.name != "folder":  # what is there is replaced by what is right
            assert open_ledger("ledger.db").show("people")
            assert open_ledger("ledger.db").notices == ()
            assert stat.S_ISREG(kept.lstat().st_mode)


def test_a_pipe_is_no_ledger():
    os.mkfifo("pipe")
    with pytest.raises(LedgerError, match="pipe is not a regular file"):
        open_ledger("pipe").show("people")


def test_a_pipe_in_place_of_what_was_accepted_is_not_waited_for(state):
    made(spent=1)
    shutil.copy("ledger.db", "old.db")
    spend(open_ledger("ledger.db"), 5)
    os.mkfifo(state / "accepted.jsonl")
    shutil.copy("old.db", "ledger.db")
    for log in ("ledger.db-wal", "ledger.db-shm"):
        Path(log).unlink(missing_ok=True)
    assert open_ledger("ledger.db").accept_head(reason="restored")


def test_a_release_under_way_pays_for_no_other_that_got_its_number():
    """An old copy is put back and accepted meanwhile; what follows there has the same numbers."""
    ledger = made()
    shutil.copy("ledger.db", "copy")
    large = {"epsilon": 0.7, "delta": 1e-6, **WHOM, "gaussian_alpha": gaussian(0.7, 1e-6).alpha}
    small = {"epsilon": 0.1, "delta": 1e-7, **WHOM, "gaussian_alpha": ALPHA}
    gone = ledger.reserve("people", study_hash({"n": "gone"}), **small)
    own = ledger.reserve("people", study_hash({"n": "large"}), **large)
    later = ledger.reserve("people", study_hash({"n": "later"}), **small)
    later.charge()
    put_back("copy")
    wait = "publish what was drawn only once the ledger has the charge of entry 5"
    for lacks in ("lacks the head", "no longer has the entry"):
        with pytest.raises(LedgerError, match=f"{lacks} .*; {wait}$") as caught:
            later.commit("paid for")
        assert "stands" not in str(caught.value)
        if lacks == "lacks the head":
            other = open_ledger("ledger.db")
            other.accept_head(reason="the disk broke")
    another = other.reserve("people", study_hash({"n": "small"}), **small)
    assert (another.sequence, other.show("people").reserved.units) == (own.sequence, another.cost)
    for action in (
        own.charge,
        lambda: own.cancel("DataError"),
        gone.charge,
        later.charge,
        lambda: later.commit("paid for"),
    ):
        with pytest.raises(LedgerError, match=r"no longer has the entry .* old copy was put back"):
            action()
    with own:
        pass  # nothing of it is there to be cancelled
    another.charge()
    for action in (own.charge, lambda: own.cancel("DataError")):  # a price is quoted of no other
        with pytest.raises(LedgerError, match=rf"requested {re.escape(str(own.cost))}; .* back;"):
            action()
    assert other.show("people").spent.units == another.cost
    other.verify()
