"""One suite for every place that keeps a ledger: SQLite, and a real PostgreSQL server.

What is shown: races for the last unit, a kill at every step, tampering of every kind, places that
fail. The processes that race and die are in ``oracles/ledger_driver.py``.
"""

import json
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import quote

import pytest

from oracles import ledger_driver
from oracles.ledgers import (
    BOTH,
    DATASET,
    DELTA,
    EPSILON,
    INSERT,
    OTHER,
    PostgresPlace,
    SqlitePlace,
    charge,
    declare,
    request,
    rows,
    spend,
    text_of,
)
from oracles.postgres import Server
from oracles.release_driver import lose_an_answer
from oracles.repeats import KILLS, RACES
from privalue.core import gaussian
from privalue.errors import BudgetError, LedgerError, UnavailableError, UsageError
from privalue.ledger import Amount, Charge, open_ledger, study_hash
from privalue.ledger.entries import canonical, sha256
from privalue.ledger.verify import release_fault

EVERY_STEP = 150  # a release has fewer: so many kills are one at each of them
NOTHING = Amount()


@pytest.fixture(scope="module")
def server():
    pytest.importorskip("psycopg", reason="the extra postgres is not installed")
    server = Server()
    yield server
    server.stop()
    shutil.rmtree(server.folder, ignore_errors=True)


_schemas = iter(f"ledger{number}" for number in range(1000))


@pytest.fixture(params=["sqlite", "postgres"])
def place(request, tmp_path):
    if request.param == "sqlite":
        return SqlitePlace(tmp_path / "ledger.db")
    return PostgresPlace(request.getfixturevalue("server"), next(_schemas))


@pytest.fixture(params=BOTH)
def accounting(request):
    return request.param


@pytest.fixture
def ledger(place, accounting):
    opened = place.open()
    declare(opened, accounting=accounting)
    return opened


def price(accounting, epsilon=EPSILON, delta=DELTA):
    """What a release costs, by its definition."""
    if accounting == "plain":
        return Amount(round(epsilon * 10**12), round(delta * 10**18))
    square = 1 / Fraction(gaussian(epsilon, delta).alpha) ** 2
    return Amount(mu2=-(-(10**17 * square.numerator) // square.denominator))


def drive(*arguments, **environment):
    """The driver's answers, from a process of its own."""
    done = subprocess.run(
        [sys.executable, ledger_driver.__file__, *map(str, arguments)],
        env={**os.environ, **environment, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def complaint(action):
    """What a ledger that fails says; nothing if it does not fail."""
    try:
        action()
    except LedgerError as problem:
        return str(problem)
    return ""


# What it does


def test_a_ledger_is_made_by_its_first_total_only(place):
    ledger = place.open()
    for refused in (
        lambda: ledger.find(request()),
        lambda: charge(ledger, request()),
        lambda: ledger.account(DATASET),
        ledger.head,
    ):
        with pytest.raises(BudgetError, match=r"there is no ledger .*; declare a total first"):
            refused()
    with pytest.raises(LedgerError, match="there is no ledger"):
        ledger.verify()
    account = declare(ledger)
    assert str(account.left) == "epsilon 1, delta 1e-6"
    assert [each.dataset for each in ledger.accounts()] == [DATASET]
    assert ledger.verify().entries == 1
    with pytest.raises(BudgetError, match='dataset "others": no total is declared'):
        ledger.account("others")


def test_what_is_charged_is_spent_and_a_release_that_does_not_fit_is_refused(place):
    ledger = place.open()
    declare(ledger)
    charge(ledger, request(epsilon=0.7))
    account = ledger.account(DATASET)
    assert (str(account.spent), account.balance.releases) == ("epsilon 0.7, delta 1e-7", 1)
    with pytest.raises(BudgetError) as refused:
        charge(ledger, request(OTHER, epsilon=0.5))
    assert refused.value.exit_code == 4
    assert str(refused.value).startswith(
        'dataset "people": requested epsilon 0.5, delta 1e-7; left epsilon 0.3, delta 9e-7; '
    )
    assert ledger.account(DATASET) == account


def test_delta_runs_out_too(place):
    ledger = place.open()
    declare(ledger, epsilon=10.0, delta=1e-7)
    spend(ledger, request())
    with pytest.raises(BudgetError, match=r"left epsilon 9\.9, delta 0"):
        charge(ledger, request(OTHER, delta=1e-18))
    charge(ledger, request(OTHER, delta=0.0))


def test_an_identical_request_gets_the_stored_release_and_spends_nothing(ledger, place, accounting):
    assert ledger.find(request()) is None
    text, made = spend(ledger, request(accounting=accounting))
    earlier = place.open().find(request())
    assert (earlier.release, earlier.charge) == (text, made)
    with pytest.raises(BudgetError, match="and its release is on record; ask for it again"):
        charge(ledger, request(accounting=accounting))
    assert ledger.account(DATASET).spent == price(accounting)
    declare(ledger, "others", accounting=accounting)  # the same study of other people is another
    assert ledger.find(request(dataset="others")) is None
    charge(ledger, request(dataset="others", accounting=accounting))


def test_a_charge_without_a_release_stays_spent_and_says_whose_it_is(ledger, place, accounting):
    charge(ledger, request(accounting=accounting))
    author = json.loads(rows(place)[-1][1])["author"]
    why = rf"was charged at 20\S+Z by {author} \(entry 2\), and has no release yet: finish .*period"
    with pytest.raises(BudgetError, match=why):
        charge(ledger, request(accounting=accounting))
    earlier = ledger.find(request())
    assert earlier.release is None
    assert re.search(why, earlier.why_not_again)
    assert ledger.account(DATASET).spent == price(accounting)


def test_a_repeated_charge_is_idempotent_by_its_token_and_in_its_process(ledger, accounting):
    asked = request(accounting=accounting)
    made = ledger.charge(asked, token="mine")
    assert ledger.charge(asked, token="mine") == made
    assert ledger.account(DATASET).spent == price(accounting)
    for other in (lambda: ledger.charge(asked, token="yours"), lambda: charge(ledger, asked)):
        with pytest.raises(BudgetError, match="identical request was charged"):
            other()
    assert in_a_fork(lambda: ledger.charge(asked, token="mine")) == "BudgetError"
    ledger.commit(made, text_of(made))
    with pytest.raises(BudgetError, match="ask for it again"):
        ledger.charge(asked, token="mine")  # it pays for one draw


def in_a_fork(action):
    """The kind of error that an action meets in a copy of this process."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        said = ""
        try:
            action()
        except Exception as problem:
            said = type(problem).__name__
        finally:
            os.write(writer, said.encode())
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as told:
        said = told.read()
    os.waitpid(child, 0)
    return said


def test_a_commit_can_be_repeated_but_not_changed(ledger, accounting):
    made = charge(ledger, request(accounting=accounting))
    for wrong in ("no JSON", "{}", text_of(Charge(number=2, head="0" * 64, dataset=DATASET))):
        with pytest.raises(LedgerError, match="it states another charge, or none"):
            ledger.commit(made, wrong)
    promise = {"epsilon": EPSILON, "delta": DELTA, "unit": "trajectory"}
    with pytest.raises(LedgerError, match="promises something else than was paid for"):
        ledger.commit(made, text_of(made, privacy={**promise, "neighbours": "add-remove"}))
    alpha = {"mechanism": "dp-ssp", "noise": {"alpha": gaussian(EPSILON, DELTA).alpha}}
    stated = alpha if accounting == "gaussian" else {}
    text = text_of(made, privacy={**promise, "neighbours": "replace-one"}, **stated)
    ledger.commit(made, text)
    head = ledger.head()
    ledger.commit(made, text)
    assert ledger.head() == head
    with pytest.raises(LedgerError, match="there is another release for entry 2"):
        ledger.commit(made, text_of(made))


def test_a_charge_of_another_ledger_cannot_be_committed(ledger, accounting):
    made = charge(ledger, request(accounting=accounting))
    for wrong in ({"head": "f" * 64}, {"number": 1}, {"number": 99}):
        other = Charge(**{"number": 2, "head": made.head, "dataset": DATASET, **wrong})
        with pytest.raises(LedgerError, match="it is another ledger, or an old copy"):
            ledger.commit(other, text_of(other))


def test_what_another_tool_spends_counts_and_has_no_release(ledger, accounting):
    asked = request(None, delta=0.0, what="counts by ward, with another tool")
    assert asked.hash == sha256(asked.what)
    made = charge(ledger, asked)
    with pytest.raises(BudgetError, match=r"the same was charged .* say what is new about it"):
        charge(ledger, asked)
    with pytest.raises(LedgerError, match="another tool spent that charge"):
        ledger.commit(made, text_of(made))
    charge(ledger, request(None, delta=0.0, what="another question"))
    assert ledger.account(DATASET).balance.releases == 2
    assert ledger.verify().entries == 3


def test_a_total_changes_on_the_record_and_never_below_what_is_spent(place):
    ledger = place.open()
    declare(ledger)
    spend(ledger, request(epsilon=0.6))
    with pytest.raises(BudgetError, match=r"a total of epsilon 2, .*--replace"):
        declare(ledger, epsilon=2.0)
    with pytest.raises(BudgetError, match=r"more is spent: epsilon 0\.6, delta 1e-7"):
        declare(ledger, epsilon=0.59, replace=True)
    account = declare(ledger, epsilon=0.6, replace=True, reason="the board said so")
    assert str(account.left) == "epsilon 0, delta 9e-7"
    assert str(account.largest) == "epsilon 1, delta 1e-6"  # what all releases together keep
    assert str(declare(ledger, epsilon=0.8, replace=True).largest) == "epsilon 1, delta 1e-6"
    assert str(declare(ledger, epsilon=1.2, replace=True).largest) == "epsilon 1.2, delta 1e-6"
    head = ledger.head()
    declare(ledger, epsilon=1.2, replace=True)  # it stands already
    assert ledger.head() == head
    assert ledger.verify().entries == 6


def test_neither_the_accounting_nor_whom_it_protects_changes_once_something_is_spent(
    ledger, accounting
):
    other = "plain" if accounting == "gaussian" else "gaussian"
    with pytest.raises(BudgetError, match="the accounting of a dataset never changes"):
        declare(ledger, accounting=other, replace=True)
    declare(ledger, accounting=accounting, unit="person", replace=True)
    declare(ledger, accounting=accounting, replace=True)
    spend(ledger, request(accounting=accounting))
    with pytest.raises(BudgetError, match="what is spent was counted for that"):
        declare(ledger, accounting=accounting, unit="person", replace=True)
    ledger.verify()


def test_the_record_says_who_declared_and_why_and_the_statement_tells_all(
    ledger, place, accounting
):
    declare(ledger, epsilon=2.0, accounting=accounting, replace=True, reason="a second trial")
    spend(ledger, request(accounting=accounting, what="recovery"))
    author = "keeper" if isinstance(place, PostgresPlace) else who_i_am()
    lines = list(ledger.statement(DATASET))
    assert {line.author for line in lines} == {author}
    assert [line.kind for line in lines] == ["declare", "declare", "charge", "commit"]
    assert [line.what for line in lines[1:]] == [
        "total of epsilon 2, delta 1e-6: a second trial",
        "recovery",
        "release of entry 3",
    ]
    assert lines[2].cost == price(accounting)
    assert lines[2].left == lines[3].left == ledger.account(DATASET).left
    assert lines[1].left.minus(price(accounting)) == lines[2].left


def who_i_am():
    import pwd

    return pwd.getpwuid(os.geteuid()).pw_name


def test_ten_tenths_are_one(place):
    """A sum of doubles would stop at nine, or never fit 0.1 + 0.1 + 0.1 into 0.3."""
    ledger = place.open()
    declare(ledger)
    for number in range(10):
        spend(ledger, request(study_hash({"number": number})))
    account = ledger.account(DATASET)
    assert (account.left, account.balance.releases) == (NOTHING, 10)


def test_mu_squared_adds_up_in_a_gaussian_total(place):
    """Four of half the mu, where plain sums would allow fewer."""
    ledger, alpha = place.open(), gaussian(1.0, 1e-6).alpha
    declare(ledger, accounting="gaussian")
    for number in range(4):
        study = study_hash({"number": number})
        spend(ledger, request(study, epsilon=0.5, delta=1e-6, alpha=2 * alpha))
    with pytest.raises(BudgetError, match=r"delta 1e-6 \(which costs mu 0\.118353\); left mu"):
        charge(ledger, request(epsilon=0.5, delta=1e-6, alpha=2 * alpha))
    with pytest.raises(BudgetError, match="a plain dataset under another name"):
        charge(ledger, request(epsilon=0.5, delta=1e-6))
    ledger.verify()


@pytest.mark.parametrize("releases", [30, pytest.param(500, marks=pytest.mark.long)])
def test_tiny_gaussian_releases_in_any_order_never_exceed_the_total(place, releases):
    """Two clients; some releases are left behind; the sum is exact, in Fractions."""
    clients, chance = [place.open() for _ in range(2)], random.Random(releases)
    declare(clients[0], accounting="gaussian")
    alpha, spent, refused = gaussian(1.0, 1e-6).alpha, Fraction(0), 0
    for number in range(releases):
        each = alpha * releases**0.5 * chance.uniform(0.6, 1.0)
        asked = request(study_hash({"number": number}), epsilon=1.0, delta=1e-6, alpha=each)
        try:
            made = charge(chance.choice(clients), asked)
        except BudgetError:
            refused += 1
            continue
        spent += 1 / Fraction(each) ** 2
        if chance.random() < 0.8:  # the others are left behind
            chance.choice(clients).commit(made, text_of(made))
    total = 1 / Fraction(alpha * (1 - 1e-9)) ** 2
    account = clients[1].account(DATASET)
    assert refused
    assert total * Fraction(9, 10) < spent <= Fraction(account.spent.mu2, 10**17) <= total
    clients[0].verify()


# Many at once


def judge_race(answers, rounds, units, processes, location):
    """Never overdrawn, nobody loses a grant, and every answer is one that a person can use."""
    kinds = Counter((answer["turn"], answer["kind"]) for answer in answers)
    assert {kind for turn, kind in kinds if turn >= 0} <= {"granted", "BudgetError"}, answers
    assert kinds[-1, "declared"] == rounds + processes, answers
    ledger = open_ledger(location)
    texts = [answer["text"] for answer in answers if answer["kind"] == "granted"]
    ledger.verify(releases=texts, heads=[json.loads(text)["ledger_head"] for text in texts])
    accounts = {account.dataset: account for account in ledger.accounts()}
    assert {f"first-{process}" for process in range(processes)} <= accounts.keys()
    for turn in range(rounds):
        assert kinds[turn, "granted"] == min(units, processes)
        account = accounts[f"{DATASET}-{turn}"]
        assert account.balance.releases == min(units, processes)
        assert account.terms.is_gaussian or account.left == NOTHING


@pytest.mark.parametrize(
    ("units", "accounting"),
    [(1, "plain"), (3, "gaussian"), pytest.param(3, "plain", marks=pytest.mark.long)],
)
def test_eight_processes_race_for_the_last_units(place, units, accounting):
    answers = drive("race", place.location, RACES, units, 8, LEDGER_ACCOUNTING=accounting)
    judge_race(answers, RACES, units, 8, place.location)


def test_eight_identical_requests_spend_once(place, accounting):
    environment = {"LEDGER_IDENTICAL": "1", "LEDGER_ACCOUNTING": accounting}
    answers = drive("race", place.location, RACES, 8, 8, **environment)
    kinds = Counter((answer["turn"], answer["kind"]) for answer in answers)
    assert {kind for turn, kind in kinds if turn >= 0} <= {"granted", "stored", "BudgetError"}
    ledger = place.open()
    for turn in range(RACES):
        assert kinds[turn, "granted"] == 1
        assert ledger.account(f"{DATASET}-{turn}").balance.releases == 1
        texts = {a["text"] for a in answers if a["turn"] == turn and a["kind"] != "BudgetError"}
        assert len(texts) == 1


def two_names(folder, how):
    """One file under two names."""
    first, second = folder / "a" / "ledger.db", folder / "b" / "ledger.db"
    for each in (first, second):
        each.parent.mkdir()
    declare(open_ledger(first), "before")
    if how == "hard link":
        os.link(first, second)
    elif how == "symbolic link":
        second.symlink_to(first)
    else:
        second.touch()
        done = subprocess.run(["mount", "--bind", first, second], capture_output=True, check=False)
        if done.returncode:
            pytest.skip("nothing can be mounted here")
    return first, second


@pytest.mark.parametrize("how", ["hard link", "symbolic link", "bind mount"])
def test_a_file_under_two_names_has_one_writer(tmp_path, how, accounting):
    """Exactly what fits is released; a write-ahead log would have two writers."""
    first, second = two_names(tmp_path, how)
    try:
        names = f"{first}|{second}"
        answers = drive("race", names, RACES, 5, 8, LEDGER_ACCOUNTING=accounting)
        for location in (first, second):
            judge_race(answers, RACES, 5, 8, location)
    finally:
        if how == "bind mount":
            subprocess.run(["umount", second], capture_output=True, check=False)


def test_a_file_that_was_switched_to_a_write_ahead_log_is_refused(tmp_path):
    place = SqlitePlace(tmp_path / "ledger.db")
    ledger = place.open()
    declare(ledger)
    with closing(sqlite3.connect(place.location)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    for action in (lambda: charge(ledger, request()), lambda: ledger.account(DATASET)):
        assert "was switched to a write-ahead log" in complaint(action)
    with closing(sqlite3.connect(place.location)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    spend(ledger, request())


def test_a_client_that_reads_and_writes_in_two_transactions_overdraws_nothing(tmp_path):
    """The database refuses what does not follow; without its rules the race finds the mistake."""
    for mistake in ("torn", "torn without rules"):
        location = tmp_path / mistake / "ledger.db"
        location.parent.mkdir()
        environment = {"LEDGER_PLANTED_MISTAKE": mistake}
        environment["LEDGER_RULES"] = str(location.parent / "rules.sql")
        answers = drive("race", location, 3, 2, 8, **environment)
        charges = Counter(
            json.loads(body)["dataset"]
            for _, body, _ in rows(SqlitePlace(location))
            if json.loads(body)["kind"] == "charge"
        )
        if mistake == "torn":
            assert max(charges.values()) <= 2
            open_ledger(location).verify()
        else:
            assert max(charges.values()) > 2
            with pytest.raises((AssertionError, LedgerError)):
                judge_race(answers, 3, 2, 8, location)


# Killed


@pytest.mark.parametrize("accounting", BOTH)
def test_a_kill_at_any_step_never_leaves_less_spent_than_released(
    place, tmp_path, accounting, monkeypatch
):
    monkeypatch.setenv(ledger_driver.ACCOUNTING, accounting)
    place.prepare(runs=2 * KILLS + 2)
    runs = drive("crash", tmp_path, place.pattern, KILLS)
    assert not runs[0]["killed"]  # one got through all steps
    assert sum(run["killed"] for run in runs) >= min(KILLS, 20)
    steps = {"declared", "charged", "drawn", "committed", "published"}
    assert steps <= {run["last"] for run in runs} or KILLS < EVERY_STEP
    whole = open_ledger(place.pattern.format(1)).account(DATASET).spent
    found = Counter()
    for run in runs:
        ledger = open_ledger(place.pattern.format(run["run"]))
        published = tmp_path / f"published-{run['run']}"
        text = published.read_text() if published.exists() else ""
        try:
            account = ledger.account(DATASET)
        except (BudgetError, LedgerError):  # there is none, or an empty file
            assert not text
            ledger.declare(DATASET, **ledger_driver.total_of(10))  # whoever comes next makes it
            found["no total"] += 1
            continue
        assert account.spent in {NOTHING, whole}
        assert not text or account.spent == whole
        asked = ledger_driver.asked(10, ledger_driver.KILLED)
        earlier = ledger.find(asked)
        if earlier is None:  # nothing is left behind: the next run succeeds
            assert account.spent == NOTHING
            spend(ledger, asked)
            found["nothing"] += 1
        elif earlier.release is None:
            with pytest.raises(BudgetError, match="has no release yet"):
                charge(ledger, asked)
            found["charged"] += 1
        else:
            assert not text or earlier.release == text
            found["stored"] += 1
        spend(ledger, ledger_driver.asked(10, OTHER))
        ledger.verify(releases=[text] * bool(text))
    outcomes = {"no total", "nothing", "charged", "stored"}
    assert set(found) == outcomes or (KILLS < EVERY_STEP and set(found) <= outcomes)


def test_the_server_is_killed_and_comes_back(server, accounting):
    place = PostgresPlace(server, next(_schemas))
    ledger = place.open()
    declare(ledger, accounting=accounting)
    made = charge(ledger, request(accounting=accounting))
    server.stop(signal.SIGQUIT)  # no clean end: the server recovers from its log
    try:
        with pytest.raises(UnavailableError, match=r"does not answer .* try again") as found:
            ledger.commit(made, text_of(made))
        assert found.value.exit_code == 7
    finally:
        server.start()
    ledger.commit(made, text_of(made))
    ledger.verify(releases=[text_of(made)])
    assert ledger.account(DATASET).spent == price(accounting)


def test_writers_whose_server_stops_again_and_again_lose_and_double_nothing(server, accounting):
    place = PostgresPlace(server, next(_schemas))
    ledger, turns = place.open(), 12
    total = {"epsilon": 1.0, "delta": 1e-6} if accounting == "gaussian" else {}
    declare(ledger, **{"epsilon": 1000.0, "delta": 1e-3, **total}, accounting=accounting)
    writers = [
        subprocess.Popen(
            [sys.executable, ledger_driver.__file__, "write", place.location, str(turns)],
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(sys.path),
                ledger_driver.ACCOUNTING: accounting,
            },
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    for _ in range(2):
        time.sleep(1.5)
        server.stop(signal.SIGQUIT)
        server.start()
    heads = [
        json.loads(line)["head"]
        for each in writers
        for line in each.communicate()[0].split("\n")
        if line
    ]
    assert len(set(heads)) == len(heads) == 4 * turns
    account = ledger.account(DATASET)
    assert account.balance.releases == 4 * turns
    assert ledger.verify(heads=heads).entries == 1 + 2 * 4 * turns


@pytest.mark.parametrize("arrives", [True, False], ids=["stands", "undone"])
def test_a_charge_whose_answer_is_lost_is_found_out(ledger, arrives, accounting):
    """Neither doubled nor lost, whether it reached the store or not."""
    asked = request(accounting=accounting)
    lose_an_answer(ledger, arrives)
    with pytest.raises(UnavailableError):
        ledger.charge(asked, token="mine")
    made = ledger.charge(asked, token="mine")
    assert made.head == ledger.head()
    assert ledger.account(DATASET).balance.releases == 1


# Tampered with


@pytest.fixture
def history(ledger, accounting):
    """A ledger with entries of every kind, and its last release."""
    spend(ledger, request(accounting=accounting))
    charge(ledger, request(OTHER, epsilon=0.2, accounting=accounting))
    declare(ledger, epsilon=0.9, accounting=accounting, replace=True, reason="less")
    charge(ledger, request(None, epsilon=0.01, delta=0.0, what="another tool"))
    text, made = spend(ledger, request(study_hash({"study": 3}), accounting=accounting))
    assert ledger.verify().entries == 8
    return ledger, text, made


def rewrite(place, entries):
    place.tamper(("DELETE FROM ledger_entries",), *((INSERT, row) for row in entries))


def changed(row, **fields):
    """The entry with other content, and its own hash made to fit."""
    body = canonical({**json.loads(row[1]), **fields})
    return (row[0], body, sha256(body))


def renumbered(entries):
    """Numbers and own hashes fit; what each says of the one before does not."""
    return [(number, *row[1:]) for number, row in enumerate(entries, start=1)]


def rechained(entries):
    """All hashes fit: what somebody with the software could write."""
    head, made = "0" * 64, []
    for number, row in enumerate(entries, start=1):
        made.append((number, *changed(row, previous=head)[1:]))
        head = made[-1][2]
    return made


def written_anew(place, entries):
    """Whether the database keeps the entries at all, with its rules away."""
    try:
        rewrite(place, entries)
    except Exception as problem:  # of any driver: unique indexes and types stay
        if not re.search("unique|syntax for type bigint", str(problem), re.IGNORECASE):
            raise
        return False
    return True


def test_every_change_removal_reordering_and_insertion_is_found(history, place):
    ledger, *_ = history
    good = [tuple(row) for row in rows(place)]
    tampered = {}
    for at, row in enumerate(good):
        number, last = at + 1, at + 1 == len(good)
        later = {"at": "2030-01-01T00:00:00Z"}
        before, after = good[:at], good[at + 1 :]
        tampered[f"change {number}"] = [*before, (row[0], changed(row, **later)[1], row[2]), *after]
        tampered[f"change the hash of {number}"] = [*before, (*row[:2], "f" * 64), *after]
        if not last:
            tampered[f"change {number} with its hash"] = [*before, changed(row, **later), *after]
            tampered[f"remove {number}"] = before + after
            tampered[f"remove {number}, renumber"] = renumbered(before + after)
            swapped = [*before, after[0], row, *after[1:]]
            tampered[f"swap {number}, renumber"] = renumbered(swapped)
        copied = changed(row, at="2029-01-01T00:00:00Z")
        tampered[f"insert after {number}"] = renumbered([*before, row, copied, *after])
    for name, entries in tampered.items():
        if not written_anew(place, entries):
            continue
        with pytest.raises(LedgerError, match=r"fails its check: entry \d+") as found:
            ledger.verify()
        assert found.value.exit_code == 5, name
    rewrite(place, good)
    ledger.verify()


def test_what_the_chain_alone_cannot_show_a_head_or_a_release_does(history, place):
    """Nobody's key is in the chain: who rewrites all of it is found by heads that left."""
    ledger, text, made = history
    good = [tuple(row) for row in rows(place)]
    ledger.verify(heads=[made.head], releases=[text])
    rewrite(place, good[:-1])  # without the last commit
    place.tamper(("DELETE FROM ledger_releases WHERE hash = ?", (sha256(text),)))
    ledger.verify(heads=[made.head])
    with pytest.raises(LedgerError, match="no entry commits the release"):
        ledger.verify(releases=[text])
    rewrite(place, good[:-2])
    ledger.verify()
    with pytest.raises(LedgerError, match="its last entries were removed"):
        ledger.verify(heads=[made.head])
    rewrite(place, rechained([changed(good[0], at="2020-01-01T00:00:00Z"), *good[1:-2]]))
    place.tamper(("DELETE FROM ledger_releases",))
    assert "the release of entry 2: it was changed" in complaint(ledger.verify)


def test_a_chain_that_fits_must_also_follow_the_rules(history, place, accounting):
    ledger, *_ = history
    good = [tuple(row) for row in rows(place)]
    bodies = [json.loads(body) for _, body, _ in good]
    kinds = [body["kind"] for body in bodies]
    first = kinds.index("charge")
    part = "mu2" if accounting == "gaussian" else "epsilon"
    cost, spent, total = f"cost_{part}", f"spent_{part}", f"total_{part}"

    def with_(index, **fields):
        return [changed(row, **fields) if here == index else row for here, row in enumerate(good)]

    def cheaper(at, less):
        """An entry that costs less, and all balances after it."""
        made = []
        for here, (row, body) in enumerate(zip(good, bodies, strict=True)):
            fields = {spent: body[spent] - less} if here >= at else {}
            made.append(changed(row, **fields, **({cost: body[cost] - less} if here == at else {})))
        return made

    declared = kinds.index("declare", 1)
    broken = {
        "a cheaper charge": cheaper(first, 1),
        "overdrawn": with_(len(good) - 1, **{spent: bodies[-1][total] + 1}),
        "less spent": with_(first + 1, **{spent: bodies[first][spent] - 1}),
        "a total that grew": with_(first, **{total: bodies[first][total] + 1}),
        "a total beyond its promise": [
            changed(row, **{total: body[total] + 10**10}) if here < declared else row
            for here, (row, body) in enumerate(zip(good, bodies, strict=True))
        ],
        "a promise that was forgotten": with_(declared, largest=bodies[declared]["promise"]),
        "a commit that costs": with_(first + 1, **{cost: 1}),
        "no charge": good[:first] + good[first + 1 :],
        "two commits": [*good, good[-1]],
        "a number that is not whole": with_(first, releases=1.0),
        "an unknown key": with_(len(good) - 1, note="x"),
        "no time": with_(first, at="yesterday"),
        "a hash that is none": with_(first, request="x"),
        "no salt": with_(first, salt=""),
        "other people": with_(first, unit="person"),
        "nobody": with_(first, unit="household"),
        "other steps": with_(first, steps=2),
        "a relation that pays twice": with_(first, neighbours="add-remove"),
        "an alpha that is none": with_(first, alpha="-1.0"),
        "another format": with_(0, format=2),
        "another accounting": with_(0, accounting="plain" if part == "mu2" else "gaussian"),
        "whom it protects, later": with_(declared, unit="person"),
        "another tool's words": with_(kinds.index("declare", 1) + 1, what="something else"),
    }
    if accounting == "gaussian":
        broken["a smaller alpha"] = with_(first, alpha="1.0")
    for name, entries in broken.items():
        if written_anew(place, rechained(entries)):
            assert re.search(r"fails its check: entry \d+", complaint(ledger.verify)), name


OTHER_WRITER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
"""


def test_to_declare_again_gives_up_no_lock_of_this_process(tmp_path):
    """To close a descriptor of a file drops all locks of its process; declaring opened one."""
    place = SqlitePlace(tmp_path / "ledger.db")
    ledger = place.open()
    declare(ledger)
    with ledger._store.transaction(write=True):
        ledger._store.create()
        done = subprocess.run(
            [sys.executable, "-c", OTHER_WRITER, place.location],
            capture_output=True,
            text=True,
            check=False,
        )
    assert "database is locked" in done.stderr


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_writers_wait_whatever_isolation_is_usual_there(server, level):
    place = PostgresPlace(server, next(_schemas))
    declare(place.open())
    usual = "ALTER ROLE CURRENT_USER {} default_transaction_isolation"
    place.execute((f"{usual.format('SET')} = '{level}'",))
    with ThreadPoolExecutor(4) as pool:
        asked = [request(study_hash({"number": at}), epsilon=0.1, delta=1e-8) for at in range(8)]
        paid = [pool.submit(charge, place.open(), each) for each in asked]
    place.execute((usual.format("RESET"),))
    assert len({one.result().number for one in paid}) == 8


def test_an_interrupt_ends_the_wait_for_those_who_read(tmp_path):
    """The commit of a writer waits for readers, in a loop of ours that lets signals through."""
    place = SqlitePlace(tmp_path / "ledger.db")
    ledger = place.open()
    declare(ledger)
    from privalue.ledger.signals import uninterrupted

    reader = sqlite3.connect(place.location, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM ledger_entries").fetchone()
    timer = threading.Timer(0.5, signal.raise_signal, [signal.SIGINT])
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt), uninterrupted():
            charge(ledger, request())
    finally:
        timer.join()
        reader.close()
    assert ledger.account(DATASET).spent == NOTHING


WITHOUT_HANDLER = """
import signal
from privalue.ledger.signals import let_through, uninterrupted
with uninterrupted():
    signal.raise_signal(signal.SIGTERM)
    let_through()
    print("kept", flush=True)
print("not reached", flush=True)
"""


def test_what_would_end_the_process_waits_until_the_release_is_kept():
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_HANDLER], capture_output=True, text=True, check=False
    )
    assert done.stdout == "kept\n"
    assert done.returncode == -signal.SIGTERM


def test_a_release_states_the_alpha_that_was_paid_for():
    said = {"promise": [10**12, 10**12], "unit": "trajectory", "neighbours": "replace-one"}
    paid = SimpleNamespace(hash="head", said={**said, "alpha": "4.2", "is_foreign": False})
    privacy = {"epsilon": 1.0, "delta": 1e-6, "unit": "trajectory", "neighbours": "replace-one"}
    made = {"ledger_head": "head", "privacy": privacy, "mechanism": "dp-ssp"}
    assert release_fault(json.dumps({**made, "noise": {"alpha": 4.2}}), paid) is None
    planted = json.dumps({**made, "noise": {"alpha": 1e6}})
    assert release_fault(planted, paid) == "it promises something else than was paid for"


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE ledger_releases SET text = 'another'",
        "DELETE FROM ledger_releases",
    ],
)
def test_stored_releases_are_checked_too(history, place, statement):
    ledger, *_ = history
    place.tamper((statement,))
    assert "the release of entry 2: it was changed or removed" in complaint(ledger.verify)
    with pytest.raises(LedgerError, match="the release of entry 2 cannot be used"):
        ledger.find(request())


def test_an_emptied_ledger_fails_its_check(history, place):
    ledger, *_ = history
    rewrite(place, [])
    assert "entry 1 is missing" in complaint(ledger.verify)


@pytest.mark.parametrize(
    "statements",
    [
        ["DROP TRIGGER ledger_follows{}"],
        ["DROP INDEX ledger_requests"],
    ],
)
def test_rules_that_are_gone_are_noticed(ledger, place, statements):
    on = " ON ledger_entries" if isinstance(place, PostgresPlace) else ""
    place.execute(*((each.format(on),) for each in statements))
    assert "the rules of its tables were changed" in complaint(ledger.verify)


def test_a_stray_release_is_no_fault_of_the_record(history, place):
    """The table is append-only: one row of a releaser would fail every later check."""
    ledger, *_ = history
    stray = f"INSERT INTO ledger_releases (hash, text) VALUES ('{sha256('one more')}', 'one more')"
    place.execute((stray,))
    ledger.verify()


def test_a_ledger_of_an_unpublished_version_is_refused_in_one_line(place):
    place.execute(
        (
            "CREATE TABLE ledger_entries (sequence BIGINT PRIMARY KEY, body TEXT NOT NULL,"
            " hash TEXT NOT NULL, seal TEXT NOT NULL DEFAULT '')",
        )
    )
    ledger = place.open()
    for action in (
        ledger.verify,
        lambda: declare(ledger),
        lambda: ledger.account(DATASET),
        lambda: charge(ledger, request()),
    ):
        with pytest.raises(LedgerError, match="was made by an unpublished version of privalue"):
            action()


# Places that fail


def hold(place):
    """Keep everybody else from writing, until the result is called."""
    if isinstance(place, SqlitePlace):
        process = subprocess.Popen(
            [sys.executable, ledger_driver.__file__, "hold", place.location],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert process.stdout.readline()
        return lambda: process.communicate(b"\n")
    import psycopg

    from privalue.ledger.store import PostgresStore

    connection = psycopg.connect(place.location)
    lock = f"{PostgresStore._LOCK} + 'ledger_entries'::regclass::oid::bigint"
    connection.execute(f"SELECT pg_advisory_xact_lock({lock})")
    return connection.close


def test_a_locked_ledger_says_so(ledger, place, accounting):
    release = hold(place)
    try:
        with pytest.raises(UnavailableError) as found:
            charge(place.open(wait=0.2), request(accounting=accounting))
    finally:
        release()
    assert "is locked by another process, and stayed so for 0.2 s; nothing was" in str(found.value)
    assert found.value.exit_code == 7
    charge(ledger, request(accounting=accounting))


def test_an_interrupt_ends_the_wait_for_a_lock_at_once(ledger, place, accounting):
    from privalue.ledger.signals import uninterrupted

    release = hold(place)
    timer = threading.Timer(0.5, signal.raise_signal, [signal.SIGINT])
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt), uninterrupted():
            charge(ledger, request(accounting=accounting))
    finally:
        timer.join()
        release()
    assert ledger.account(DATASET).spent == NOTHING


def test_a_writer_that_is_suspended_while_it_waits_stops_nobody(ledger, place, accounting):
    """Ctrl-Z, or a frozen container: what waits holds nothing, or is ended by the server."""
    release = hold(place)
    waiting = subprocess.Popen(
        [sys.executable, ledger_driver.__file__, "write", place.location, "1"],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            ledger_driver.ACCOUNTING: accounting,
        },
        stdout=subprocess.PIPE,
    )
    try:
        time.sleep(3.0)  # it imports, and waits
        waiting.send_signal(signal.SIGSTOP)
        release()
        made = charge(ledger, request(accounting=accounting))
        ledger.commit(made, text_of(made))
        assert ledger.account(DATASET).spent == price(accounting)
    finally:
        waiting.send_signal(signal.SIGCONT)
        waiting.communicate()
    assert ledger.account(DATASET).balance.releases == 2
    ledger.verify()


def starved(location, mode, accounting="plain"):
    return drive("starve", location, mode, LEDGER_ACCOUNTING=accounting)


@pytest.mark.parametrize("mode", ["full", "full-at-commit"])
def test_a_full_disk_leaves_a_safe_state(tmp_path, mode, accounting, monkeypatch):
    monkeypatch.setenv(ledger_driver.ACCOUNTING, accounting)
    ledger = open_ledger(tmp_path / "ledger.db")
    ledger.declare(DATASET, **ledger_driver.total_of(10))
    answers = starved(tmp_path / "ledger.db", mode, accounting)
    assert [answer["code"] for answer in answers] == ([5] if mode == "full" else [0, 5])
    assert "could not use its disk" in answers[-1]["text"]
    ledger.verify()
    account = ledger.account(DATASET)
    assert (account.spent == NOTHING) == (mode == "full")


@pytest.fixture
def open_folder():
    """A folder that another user can reach."""
    folder = Path(tempfile.mkdtemp(prefix="ledger-"))
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


def test_a_folder_that_cannot_be_written(open_folder):
    location = open_folder / "ledger.db"
    open_folder.chmod(0o555)
    (answer,) = starved(location, "declare")
    assert answer["code"] == 5
    assert "cannot be made: Permission denied" in answer["text"]
    open_folder.chmod(0o755)
    declare(open_ledger(location))
    location.chmod(0o444)
    open_folder.chmod(0o555)
    refused, read = starved(location, "charge")
    assert refused["code"] == 5
    assert "cannot be opened" in refused["text"]
    assert read["code"] == 0  # who may only read can read
    open_folder.chmod(0o755)
    assert open_ledger(location).verify().entries == 1


@pytest.mark.parametrize("where", ["/proc/ledger.db", "file/ledger.db", "no/l.db", "."])
def test_a_place_where_nothing_can_be_made(tmp_path, monkeypatch, where):
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("")
    with pytest.raises(LedgerError, match=r"cannot be made|is not a regular file"):
        declare(open_ledger(where))


def test_every_corrupted_page_is_found_or_harmless(tmp_path, accounting):
    """A page's bytes are inverted: never a wrong answer, never a traceback."""
    location = tmp_path / "ledger.db"
    ledger = open_ledger(location)
    declare(ledger, accounting=accounting)
    for number in range(3):
        spend(ledger, request(study_hash({"number": number}), accounting=accounting))
    whole, left = location.read_bytes(), ledger.account(DATASET).left
    assert len(whole) > 3 * 4096
    for page in range(0, len(whole), 4096):
        for start, size in ((0, 4096), (0, 16), (3000, 200), (4000, 96)):
            spoiled = bytearray(whole)
            part = slice(page + start, page + start + size)
            spoiled[part] = bytes(255 - byte for byte in spoiled[part])
            location.write_bytes(spoiled)
            found = complaint(ledger.verify)
            assert "\n" not in found
            if not found:
                assert ledger.account(DATASET).left == left
            with suppress(BudgetError, LedgerError):
                assert ledger.account(DATASET).spent.fits(ledger.account(DATASET).total)
                charge(ledger, request(accounting=accounting))
            for path in tmp_path.glob("ledger.db-*"):
                path.unlink()
    location.write_bytes(whole)
    ledger.verify()


def test_a_file_that_is_no_ledger(tmp_path):
    (tmp_path / "text").write_text("not a database at all, but long enough to be read as one" * 99)
    with closing(sqlite3.connect(tmp_path / "another")) as connection:
        connection.execute("CREATE TABLE patients (id)")
        connection.commit()
    os.mkfifo(tmp_path / "pipe")
    for name, what in (
        ("text", "is damaged, or is not a ledger"),
        ("another", "holds no ledger"),
        ("pipe", "not a regular file|cannot be made"),
    ):
        ledger = open_ledger(tmp_path / name)
        for action in (
            lambda ledger=ledger: declare(ledger),
            lambda ledger=ledger: charge(ledger, request()),
            lambda ledger=ledger: ledger.verify(),
        ):
            with pytest.raises(LedgerError, match=what):
                action()


def test_the_file_is_its_owners_and_every_commit_reaches_the_disk(tmp_path):
    location = tmp_path / "a ledger with % and ? and #.db"
    ledger = open_ledger(location)
    declare(ledger)
    assert location.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == [location.name]
    spoken = []

    class Listening(sqlite3.Connection):
        def execute(self, statement, *parameters):
            spoken.append(statement)
            return super().execute(statement, *parameters)

    connect, sqlite3.connect = sqlite3.connect, lambda *a, **o: connect(*a, factory=Listening, **o)
    try:
        charge(ledger, request())
    finally:
        sqlite3.connect = connect
    with closing(sqlite3.connect(location)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    assert "PRAGMA synchronous = EXTRA" in spoken
    assert spoken.index("BEGIN IMMEDIATE") < min(
        at for at, said in enumerate(spoken) if "FROM ledger_entries" in said
    )
    assert spoken[-1] == "COMMIT"


def test_a_lock_of_one_ledger_keeps_nobody_else_waiting(server):
    first, second = (PostgresPlace(server, next(_schemas)) for _ in range(2))
    for place in (first, second):
        declare(place.open())
    release = hold(first)
    try:
        spend(second.open(wait=0.2), request())
    finally:
        release()


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_a_server_with_another_encoding_is_refused_before_anything_is_charged(server, encoding):
    """A label beyond it would be charged for, and never get on the record."""
    server.execute(
        f"CREATE DATABASE {encoding} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0"
    )
    ledger = open_ledger(server.address(database=encoding.lower()))
    with pytest.raises(LedgerError, match=f"has the encoding {encoding}") as found:
        declare(ledger)
    assert (found.value.exit_code, found.value.code) == (3, "server-encoding")


def test_labels_of_every_script_arrive_whatever_the_clients_encoding(place, monkeypatch):
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    ledger = place.open()
    declare(ledger, reason="Ελληνικά")
    made = charge(ledger, request(what="状態"))
    text = text_of(made, label="στάδιο")
    text = json.dumps(json.loads(text), ensure_ascii=False)
    ledger.commit(made, text)
    assert ledger.find(request()).release == text
    assert next(ledger.statement(DATASET)).what.endswith("Ελληνικά")
    ledger.verify(releases=[text])


def test_a_writer_that_stands_still_is_ended_by_the_server(server, monkeypatch):
    """Its lock would keep everybody out for as long as its connection lives."""
    place = PostgresPlace(server, next(_schemas))
    ledger = place.open()
    declare(ledger)

    def stand_still():
        with ledger._store.transaction(write=True) as execute:
            execute("SELECT set_config('idle_in_transaction_session_timeout', '200ms', true)")
            spend(place.open(), request())  # can only go on once the other was ended
            execute("SELECT 1")

    with pytest.raises(UnavailableError, match="nothing was recorded"):
        stand_still()
    assert str(ledger.account(DATASET).spent) == "epsilon 0.1, delta 1e-7"


def test_every_limit_of_a_server_is_set(server):
    place = PostgresPlace(server, next(_schemas))
    declare(place.open())
    named = ("lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout")
    store = place.open()._store
    for write in (False, True):
        with store.transaction(write=write) as execute:
            asked = ", ".join(f"current_setting('{name}')" for name in named)
            assert execute(f"SELECT {asked}").fetchone() == ("30s", "90s", "5s")


def test_a_server_that_does_not_sync_is_refused(server):
    place = PostgresPlace(server, next(_schemas))
    server.execute("ALTER SYSTEM SET fsync = off")
    server.execute("SELECT pg_reload_conf()")
    try:
        server.wait_for("fsync", "off")
        with pytest.raises(LedgerError, match="fsync = off"):
            declare(place.open())
    finally:
        server.execute("ALTER SYSTEM RESET fsync")
        server.execute("SELECT pg_reload_conf()")
        server.wait_for("fsync", "on")


def test_no_password_is_ever_shown(server):
    address = f"postgresql://nobody:tr%40p@/none?host={quote(str(server.folder))}&password=s3cret"
    with pytest.raises(LedgerError) as found:
        declare(open_ledger(address))
    shown = str(found.value)
    assert not {"tr@p", "tr%40p", "s3cret", "nobody"} & set(re.findall(r"[\w@%]+", shown))
    for malformed in (
        "postgresql://me:s3cret@host:port/x?no=good",
        "postgresql://me:s3/cret@host/x",
        "postgres:me:s3cret@host",
        "me:s3cret@host/x",
        "host=somewhere password=s3cret",
    ):
        with pytest.raises((LedgerError, UsageError)) as found:
            open_ledger(malformed)
        assert "s3" not in str(found.value)
