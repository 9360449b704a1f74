"""One suite for every store of a ledger: SQLite, and a real PostgreSQL server.

Races for the last unit, killed processes, tampering of every kind, and stores that fail. The
processes that race and are killed are in ``oracles/ledger_driver.py``.
"""

import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import closing
from fractions import Fraction

import pytest

from oracles import ledger_driver
from oracles.ledgers import (
    DATASET,
    DELTA,
    EPSILON,
    INSERT,
    OTHER,
    WHOM,
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
from oracles.refusals import refused
from oracles.release_driver import lose_an_answer
from oracles.repeats import RACES
from privalue.core.calibration import gaussian
from privalue.errors import LedgerError
from privalue.ledger import Amount, Charge, defer_signals, open_ledger, study_hash
from privalue.ledger.entries import canonical_json, sha256

NOTHING = Amount()


@pytest.fixture(scope="module")
def server():
    pytest.importorskip("psycopg", reason="the extra postgres is not installed")
    server = Server()
    yield server
    server.stop()
    shutil.rmtree(server.folder, ignore_errors=True)


_schemas = iter(f"ledger{number}" for number in range(1000))


USUAL = [("sqlite", "plain"), ("postgres", "gaussian")]
OTHERS = [("sqlite", "gaussian"), ("postgres", "plain")]


@pytest.fixture(
    params=[*USUAL, *(pytest.param(pair, marks=pytest.mark.long) for pair in OTHERS)],
    ids="-".join,
)
def pair(request):
    """A database with an accounting; ``make long`` has the full product."""
    return request.param


@pytest.fixture
def place(pair, request, tmp_path):
    if pair[0] == "sqlite":
        return SqlitePlace(tmp_path / "ledger.db")
    return PostgresPlace(request.getfixturevalue("server"), next(_schemas))


@pytest.fixture
def accounting(pair):
    return pair[1]


@pytest.fixture
def ledger(place, accounting):
    ledger = place.open()
    declare(ledger, accounting=accounting)
    return ledger


def price(accounting, epsilon=EPSILON, delta=DELTA):
    """Return the cost of a release, by its definition."""
    if accounting == "plain":
        return Amount(round(epsilon * 10**12), round(delta * 10**18))
    square = 1 / Fraction(gaussian(epsilon, delta).alpha) ** 2
    return Amount(mu2=-(-(10**17 * square.numerator) // square.denominator))


def environment(**more):
    return {**os.environ, **more, "PYTHONPATH": os.pathsep.join(sys.path)}


def drive(*arguments, **more):
    """Run the driver in a process, and return its answers."""
    process = subprocess.run(
        [sys.executable, ledger_driver.__file__, *map(str, arguments)],
        env=environment(**more),
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return [json.loads(line) for line in process.stdout.splitlines()]


def complaint(action):
    """Return the message of the LedgerError that an action raises, or an empty text."""
    try:
        action()
    except LedgerError as problem:
        return str(problem)
    return ""


# Charges and totals


def test_the_first_total_creates_a_ledger(place):
    ledger = place.open()
    for use in (
        lambda: ledger.find(request()),
        lambda: charge(ledger, request()),
        lambda: ledger.account(DATASET),
        ledger.head,
    ):
        with refused("not-declared"):
            use()
    with refused("ledger-invalid"):
        ledger.verify()
    assert str(declare(ledger).left) == "epsilon 1, delta 1e-6"
    assert [account.dataset for account in ledger.accounts()] == [DATASET]
    assert ledger.verify().entries == 1
    with refused("not-declared"):
        ledger.account("others")


def test_a_charge_is_spent_and_one_beyond_the_budget_is_refused(place):
    ledger = place.open()
    declare(ledger, delta=2e-7)
    charge(ledger, request(epsilon=0.7))
    account = ledger.account(DATASET)
    assert (str(account.spent), account.balance.releases) == ("epsilon 0.7, delta 1e-7", 1)
    for too_much in ({"epsilon": 0.300000000001}, {"delta": 1.00001e-7}):
        with refused("budget-exceeded"):
            charge(ledger, request(OTHER, **too_much))
    assert ledger.account(DATASET) == account
    charge(ledger, request(OTHER, epsilon=0.3))
    assert ledger.account(DATASET).left == NOTHING


def test_an_identical_request_gets_the_stored_release_and_spends_nothing(ledger, place, accounting):
    release_request = request(accounting=accounting)
    assert ledger.find(release_request) is None
    receipt = charge(ledger, release_request)
    assert ledger.find(release_request).release is None  # a charge without a release stays spent
    ledger.commit(receipt, text_of(receipt))
    earlier = place.open().find(release_request)
    assert earlier.release == text_of(receipt)
    with refused("already-charged"):
        charge(ledger, release_request)
    assert ledger.account(DATASET).spent == price(accounting)
    declare(ledger, "others", accounting=accounting)  # the same study of other people is another
    others = request(dataset="others", accounting=accounting)
    assert ledger.find(others) is None
    charge(ledger, others)


def test_a_repeated_charge_is_idempotent_by_its_token_and_in_its_process(ledger, accounting):
    release_request = request(accounting=accounting)
    receipt = ledger.charge(release_request, token="mine")
    assert ledger.charge(release_request, token="mine") == receipt
    assert ledger.account(DATASET).spent == price(accounting)
    for other in (
        lambda: ledger.charge(release_request, token="yours"),
        lambda: charge(ledger, release_request),
    ):
        with refused("already-charged"):
            other()
    assert in_a_fork(lambda: ledger.charge(release_request, token="mine")) == "BudgetError"
    ledger.commit(receipt, text_of(receipt))
    with refused("already-charged"):
        ledger.charge(release_request, token="mine")  # it pays for one draw


def in_a_fork(action):
    """Return the type of the error that an action raises in a fork of this process."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            action()
        except Exception as problem:
            os.write(writer, type(problem).__name__.encode())
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader) as pipe:
        return pipe.read()


def test_a_commit_can_be_repeated_but_not_changed(ledger, accounting):
    receipt = charge(ledger, request(accounting=accounting))
    promise = {"epsilon": EPSILON, "delta": DELTA, **WHOM}
    alpha = {"mechanism": "dp-ssp", "noise": {"alpha": gaussian(EPSILON, DELTA).alpha}}
    stated = alpha if accounting == "gaussian" else {}
    for wrong in (
        "no JSON",
        "{}",
        text_of(Charge(number=2, head="0" * 64, dataset=DATASET)),
        text_of(receipt, privacy={**promise, "neighbours": "add-remove"}, **stated),
        text_of(receipt, privacy=promise, mechanism="dp-ssp", noise={"alpha": 1e6}),
    ):
        with refused("ledger-invalid"):
            ledger.commit(receipt, wrong)
    text = text_of(receipt, privacy=promise, **stated)
    ledger.commit(receipt, text)
    head = ledger.head()
    ledger.commit(receipt, text)
    assert ledger.head() == head
    with refused("ledger-invalid"):
        ledger.commit(receipt, text_of(receipt))
    for wrong in ({"head": "f" * 64}, {"number": 1}, {"number": 99}):  # charges of other ledgers
        other = Charge(**{"number": 2, "head": receipt.head, "dataset": DATASET, **wrong})
        with refused("ledger-invalid"):
            ledger.commit(other, text_of(other))


def test_a_charge_for_another_tool_counts_and_has_no_release(ledger, accounting):
    release_request = request(None, delta=0.0, what="counts by ward, with another tool")
    assert release_request.hash == sha256(release_request.what)
    receipt = charge(ledger, release_request)
    with refused("already-charged"):
        charge(ledger, release_request)
    with refused("ledger-invalid"):
        ledger.commit(receipt, text_of(receipt))
    charge(ledger, request(None, delta=0.0, what="another question"))
    assert ledger.account(DATASET).balance.releases == 2
    assert ledger.verify().entries == 3


def test_a_change_of_the_total_is_recorded_and_never_below_the_amount_spent(place):
    ledger = place.open()
    declare(ledger)
    spend(ledger, request(epsilon=0.6))
    for total in ({"epsilon": 2.0}, {"epsilon": 0.59, "replace": True}):
        with refused("total-refused"):
            declare(ledger, **total)
    account = declare(ledger, epsilon=0.6, replace=True, reason="the board said so")
    assert str(account.left) == "epsilon 0, delta 9e-7"
    assert str(account.largest) == "epsilon 1, delta 1e-6"  # what all releases together keep
    assert str(declare(ledger, epsilon=1.2, replace=True).largest) == "epsilon 1.2, delta 1e-6"
    head = ledger.head()
    declare(ledger, epsilon=1.2, replace=True)  # it stands already
    assert ledger.head() == head
    assert ledger.verify().entries == 5


def test_neither_the_accounting_nor_whom_it_protects_changes_once_something_is_spent(
    ledger, accounting
):
    other = "plain" if accounting == "gaussian" else "gaussian"
    with refused("total-refused"):
        declare(ledger, accounting=other, replace=True)
    declare(ledger, accounting=accounting, unit="person", replace=True)
    declare(ledger, accounting=accounting, replace=True)
    spend(ledger, request(accounting=accounting))
    with refused("total-refused"):
        declare(ledger, accounting=accounting, unit="person", replace=True)
    ledger.verify()


# Races


def judge_race(answers, rounds, units, processes, location):
    """Assert that nothing is overdrawn, and every answer is a release or a refusal."""
    kinds = Counter((answer["turn"], answer["kind"]) for answer in answers)
    assert {kind for turn, kind in kinds if turn >= 0} <= {"granted", "BudgetError"}, answers
    assert kinds[-1, "declared"] == rounds + processes, answers
    ledger = open_ledger(location)
    texts = [answer["text"] for answer in answers if answer["kind"] == "granted"]
    ledger.verify(
        releases=dict(enumerate(texts)), heads=[json.loads(text)["ledger_head"] for text in texts]
    )
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
    answers = drive(
        *("race", place.location, RACES, 8, 8), LEDGER_IDENTICAL="1", LEDGER_ACCOUNTING=accounting
    )
    kinds = Counter((answer["turn"], answer["kind"]) for answer in answers)
    assert {kind for turn, kind in kinds if turn >= 0} <= {"granted", "stored", "BudgetError"}
    ledger = place.open()
    for turn in range(RACES):
        assert kinds[turn, "granted"] == 1
        assert ledger.account(f"{DATASET}-{turn}").balance.releases == 1
        texts = {a["text"] for a in answers if a["turn"] == turn and a["kind"] != "BudgetError"}
        assert len(texts) == 1


def test_a_file_with_a_hard_link_is_refused_and_a_symbolic_link_leads_to_one_file(tmp_path):
    """Under another name of the file the journal of a killed writer would not be found."""
    first, second = tmp_path / "a" / "ledger.db", tmp_path / "b" / "ledger.db"
    for path in (first, second):
        path.parent.mkdir()
    declare(open_ledger(first))
    second.symlink_to(first)
    spend(open_ledger(second), request())
    assert open_ledger(first).account(DATASET).balance.releases == 1
    second.unlink()
    os.link(first, second)
    for path in (first, second):
        for action in (
            lambda path=path: charge(open_ledger(path), request("b" * 64)),
            open_ledger(path).verify,
        ):
            with refused("ledger-invalid"):
                action()
    second.unlink()
    spend(open_ledger(first), request("b" * 64))


def test_an_entry_has_a_day_and_no_time(tmp_path):
    """A time would show how long a draw took."""
    ledger = open_ledger(tmp_path / "ledger.db")
    declare(ledger)
    spend(ledger, request())
    days = {json.loads(body)["at"] for _, body, _ in rows(SqlitePlace(tmp_path / "ledger.db"))}
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d", day) for day in days)


def test_a_file_that_was_switched_to_a_write_ahead_log_is_refused(tmp_path):
    place = SqlitePlace(tmp_path / "ledger.db")
    ledger = place.open()
    declare(ledger)
    with closing(sqlite3.connect(place.location)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    for action in (lambda: charge(ledger, request()), lambda: ledger.account(DATASET)):
        with refused("ledger-invalid"):
            action()
    with closing(sqlite3.connect(place.location)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    spend(ledger, request())


def test_a_client_that_reads_and_writes_in_two_transactions_overdraws_nothing(tmp_path):
    """The database refuses what does not follow; without its rules the race finds the mistake."""
    for mistake in ("torn", "torn without rules"):
        location = tmp_path / mistake / "ledger.db"
        location.parent.mkdir()
        planted = {"LEDGER_PLANTED_MISTAKE": mistake}
        planted["LEDGER_RULES"] = str(location.parent / "rules.sql")
        answers = drive("race", location, 3, 2, 8, **planted)
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


# Killed processes and servers


def start_writer(place, turns, accounting):
    """Start a process that charges and commits; it prints a line when it begins."""
    return subprocess.Popen(
        [sys.executable, ledger_driver.__file__, "write", place.location, str(turns)],
        env={**environment(), ledger_driver.ACCOUNTING: accounting},
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("accounting", ["plain", pytest.param("gaussian", marks=pytest.mark.long)])
def test_writers_whose_server_stops_again_and_again_lose_and_double_nothing(server, accounting):
    place = PostgresPlace(server, next(_schemas))
    ledger, turns = place.open(), 12
    total = {"epsilon": 1.0, "delta": 1e-6} if accounting == "gaussian" else {}
    declare(ledger, **{"epsilon": 1000.0, "delta": 1e-3, **total}, accounting=accounting)
    writers = [start_writer(place, turns, accounting) for _ in range(4)]
    for writer in writers:
        writer.stdout.readline()
    for _ in range(2):
        time.sleep(0.2)
        server.stop(signal.SIGQUIT)
        server.start()
    lines = [line for writer in writers for line in writer.communicate()[0].splitlines()]
    heads = [json.loads(line)["head"] for line in lines]
    assert len(set(heads)) == len(heads) == 4 * turns
    assert ledger.account(DATASET).balance.releases == 4 * turns
    assert ledger.verify(heads=heads).entries == 1 + 2 * 4 * turns


@pytest.mark.parametrize("arrives", [True, False], ids=["stands", "undone"])
def test_a_charge_whose_answer_is_lost_counts_once(ledger, arrives, accounting):
    """Neither doubled nor lost, whether it reached the store or not."""
    release_request = request(accounting=accounting)
    lose_an_answer(ledger, arrives)
    with refused("unavailable"):
        ledger.charge(release_request, token="mine")
    receipt = ledger.charge(release_request, token="mine")
    assert receipt.head == ledger.head()
    assert ledger.account(DATASET).balance.releases == 1


# Tampering


@pytest.fixture
def history(ledger, accounting):
    """Return a ledger with entries of every kind, its last release, and the charge for it."""
    spend(ledger, request(accounting=accounting))
    charge(ledger, request(OTHER, epsilon=0.2, accounting=accounting))
    declare(ledger, epsilon=0.9, accounting=accounting, replace=True, reason="less")
    charge(ledger, request(None, epsilon=0.01, delta=0.0, what="another tool"))
    text, receipt = spend(ledger, request(study_hash({"study": 3}), accounting=accounting))
    assert ledger.verify().entries == 8
    return ledger, text, receipt


def rewrite(place, entries):
    place.tamper(("DELETE FROM ledger_entries",), *((INSERT, row) for row in entries))


def change(row, **fields):
    """Return an entry with other content, and a hash that fits."""
    body = canonical_json({**json.loads(row[1]), **fields})
    return (row[0], body, sha256(body))


def renumber(entries):
    """Return entries whose numbers and own hashes fit, but not the hashes of previous entries."""
    return [(number, *row[1:]) for number, row in enumerate(entries, start=1)]


def rechain(entries):
    """Return entries with hashes that fit, as a person with the software could write them."""
    head, chain = "0" * 64, []
    for number, row in enumerate(entries, start=1):
        chain.append((number, *change(row, previous=head)[1:]))
        head = chain[-1][2]
    return chain


def try_rewrite(place, entries):
    """Return whether the database accepts the entries without its rules."""
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
        later = {"at": "2030-01-01"}
        before, after = good[:at], good[at + 1 :]
        tampered[f"change {number}"] = [*before, (row[0], change(row, **later)[1], row[2]), *after]
        tampered[f"change the hash of {number}"] = [*before, (*row[:2], "f" * 64), *after]
        if not last:
            tampered[f"change {number} with its hash"] = [*before, change(row, **later), *after]
            tampered[f"remove {number}"] = before + after
            tampered[f"remove {number}, renumber"] = renumber(before + after)
            swapped = [*before, after[0], row, *after[1:]]
            tampered[f"swap {number}, renumber"] = renumber(swapped)
        copied = change(row, at="2029-01-01")
        tampered[f"insert after {number}"] = renumber([*before, row, copied, *after])
    for name, entries in tampered.items():
        if not try_rewrite(place, entries):
            continue
        assert re.search(r"entry \d+", complaint(ledger.verify)), name
    rewrite(place, good)
    ledger.verify()


def test_a_head_or_a_release_shows_that_the_chain_was_rewritten(history, place):
    """The chain has no key: only heads and releases stored elsewhere show a rewritten chain."""
    ledger, text, receipt = history
    good = [tuple(row) for row in rows(place)]
    ledger.verify(heads=[receipt.head], releases={"it": text})
    rewrite(place, good[:-1])  # without the last commit
    place.tamper(("DELETE FROM ledger_releases WHERE hash = ?", (sha256(text),)))
    ledger.verify(heads=[receipt.head])
    with refused("ledger-invalid"):
        ledger.verify(releases={"it": text})
    rewrite(place, good[:-2])
    ledger.verify()
    with refused("ledger-invalid"):
        ledger.verify(heads=[receipt.head])
    rewrite(place, rechain([change(good[0], at="2020-01-01"), *good[1:-2]]))
    place.tamper(("DELETE FROM ledger_releases",))
    assert "entry 2" in complaint(ledger.verify)


def test_a_chain_that_fits_must_also_follow_the_rules(history, place, accounting):
    ledger, *_ = history
    good = [tuple(row) for row in rows(place)]
    bodies = [json.loads(body) for _, body, _ in good]
    kinds = [body["kind"] for body in bodies]
    first = kinds.index("charge")
    part = "mu2" if accounting == "gaussian" else "epsilon"
    cost, spent, total = f"cost_{part}", f"spent_{part}", f"total_{part}"

    def with_(index, **fields):
        return [change(row, **fields) if here == index else row for here, row in enumerate(good)]

    def cheaper(at, less):
        """An entry that costs less, and all balances after it."""
        later = []
        for here, (row, body) in enumerate(zip(good, bodies, strict=True)):
            fields = {spent: body[spent] - less} if here >= at else {}
            later.append(change(row, **fields, **({cost: body[cost] - less} if here == at else {})))
        return later

    redeclared = kinds.index("declare", 1)
    broken = {
        "a cheaper charge": cheaper(first, 1),
        "overdrawn": with_(len(good) - 1, **{spent: bodies[-1][total] + 1}),
        "less spent": with_(first + 1, **{spent: bodies[first][spent] - 1}),
        "a total that grew": with_(first, **{total: bodies[first][total] + 1}),
        "a total beyond its promise": [
            change(row, **{total: body[total] + 10**10}) if here < redeclared else row
            for here, (row, body) in enumerate(zip(good, bodies, strict=True))
        ],
        "a promise that was forgotten": with_(redeclared, largest=bodies[redeclared]["promise"]),
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
        "whom it protects, later": with_(redeclared, unit="person"),
        "another tool's words": with_(kinds.index("declare", 1) + 1, what="something else"),
        "a promise of no numbers": with_(redeclared, promise=[[], {}]),
    }
    if accounting == "gaussian":
        broken["a smaller alpha"] = with_(first, alpha="1.0")
    for name, entries in broken.items():
        if try_rewrite(place, rechain(entries)):
            assert re.search(r"entry \d+", complaint(ledger.verify)), name
            complaint(lambda: [ledger.accounts(), list(ledger.statement(DATASET))])  # no bug


def test_stored_releases_and_the_rules_themselves_are_checked(history, place):
    ledger, text, _ = history
    place.tamper(("UPDATE ledger_releases SET text = 'another' WHERE hash = ?", (sha256(text),)))
    assert complaint(ledger.verify)
    with refused("ledger-invalid"):
        ledger.find(request(study_hash({"study": 3})))
    place.tamper(("DELETE FROM ledger_releases WHERE hash = ?", (sha256(text),)))
    assert complaint(ledger.verify)
    place.tamper(("INSERT INTO ledger_releases (hash, text) VALUES (?, ?)", (sha256(text), text)))
    ledger.verify()
    place.execute(("DROP INDEX ledger_requests",))
    assert complaint(ledger.verify)
    rewrite(place, [])
    assert "entry 1" in complaint(ledger.verify)


# Stores that fail


def hold(place):
    """Lock the ledger against writing, until the returned function is called."""
    if isinstance(place, SqlitePlace):
        process = subprocess.Popen(
            [sys.executable, ledger_driver.__file__, "hold", place.location],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(),
        )
        assert process.stdout.readline()
        return lambda: process.communicate(b"\n")
    import psycopg

    from privalue.ledger.store import PostgresStore

    connection = psycopg.connect(place.location)
    lock = f"{PostgresStore._LOCK} + 'ledger_entries'::regclass::oid::bigint"
    connection.execute(f"SELECT pg_advisory_xact_lock({lock})")
    return connection.close


def hold_for_reading(place):
    """Start reading; in SQLite, the commit of a writer waits for the reader."""
    reader = sqlite3.connect(place.location, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM ledger_entries").fetchone()
    return reader.close


@pytest.mark.parametrize("lock", [hold, hold_for_reading])
@pytest.mark.parametrize("accounting", ["plain"])
def test_an_interrupt_ends_the_wait_for_a_lock_at_once(ledger, place, lock):
    if lock is hold_for_reading and isinstance(place, PostgresPlace):
        return  # its readers do not block writers
    release = lock(place)
    timer = threading.Timer(0.5, signal.raise_signal, [signal.SIGINT])
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # may be ignored
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt), defer_signals():
            charge(ledger, request())
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)
        release()
    assert ledger.account(DATASET).spent == NOTHING


@pytest.mark.parametrize("accounting", ["plain"])
def test_a_suspended_writer_that_waits_does_not_block_others(ledger, place, accounting):
    """As by Ctrl-Z: a waiting process holds no lock, or the server ends it."""
    release = hold(place)
    waiting = start_writer(place, 1, accounting)
    try:
        waiting.stdout.readline()
        time.sleep(0.5)  # it waits
        waiting.send_signal(signal.SIGSTOP)
        release()
        receipt = charge(ledger, request())
        ledger.commit(receipt, text_of(receipt))
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
    ledger.verify()
    account = ledger.account(DATASET)
    assert (account.spent == NOTHING) == (mode == "full")


def test_the_file_is_private_and_every_commit_is_synchronous(tmp_path):
    location = tmp_path / "a ledger with % and ? and #.db"
    ledger = open_ledger(location)
    declare(ledger)
    assert location.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == [location.name]
    statements = []

    class Listening(sqlite3.Connection):
        def execute(self, statement, *parameters):
            statements.append(statement)
            return super().execute(statement, *parameters)

    connect, sqlite3.connect = sqlite3.connect, lambda *a, **o: connect(*a, factory=Listening, **o)
    try:
        charge(ledger, request())
    finally:
        sqlite3.connect = connect
    with closing(sqlite3.connect(location)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    assert "PRAGMA synchronous = EXTRA" in statements
    assert statements.index("BEGIN IMMEDIATE") < min(
        at for at, statement in enumerate(statements) if "FROM ledger_entries" in statement
    )
    assert statements[-1] == "COMMIT"


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_a_server_with_another_encoding_is_refused_before_anything_is_charged(server, encoding):
    """A label that it cannot store would be charged, and never recorded."""
    server.execute(
        f"CREATE DATABASE {encoding} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0"
    )
    ledger = open_ledger(server.address(database=encoding.lower()))
    with refused("server-encoding"):
        declare(ledger)


def test_a_server_that_does_not_sync_is_refused(server):
    place = PostgresPlace(server, next(_schemas))
    server.execute("ALTER SYSTEM SET fsync = off")
    server.execute("SELECT pg_reload_conf()")
    try:
        server.wait_for("fsync", "off")
        with pytest.raises(LedgerError, match="fsync"):
            declare(place.open())
    finally:
        server.execute("ALTER SYSTEM RESET fsync")
        server.execute("SELECT pg_reload_conf()")
        server.wait_for("fsync", "on")
