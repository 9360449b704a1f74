"""One suite for every place that keeps a ledger: SQLite, and a real PostgreSQL server.

What is shown: races for the last unit, a kill at every step, tampering of every kind, places that
fail. The processes that race and die are in ``oracles/ledger_driver.py``.
"""

import json
import math
import os
import pwd
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
from contextlib import closing, suppress
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from urllib.parse import quote

import pytest

from oracles import ledger_driver, release_driver
from oracles.accountings import IN_BOTH, in_turn
from oracles.accountings import SQUARES_FIRST as SQUARES
from oracles.ledger_driver import DATASET, DELTA, EPSILON
from oracles.ledgers import DECLARED, RESERVED, UsualLedger, open_ledger
from oracles.repeats import KILLS, RACES
from privalue import _patience
from privalue._outbox import Outbox
from privalue._servers import TIME_LIMITS, TimeLimits
from privalue.cli import run as run_command
from privalue.core import gaussian
from privalue.ledger import (
    BudgetError,
    Cost,
    LedgerError,
    Reservation,
    StoredRelease,
    UnavailableError,
    study_hash,
)
from privalue.ledger import open_ledger as real_ledger
from privalue.ledger._book import Book
from privalue.ledger._chain import canonical, sha256
from privalue.ledger._postgres import PostgresStore
from privalue.ledger._squares import square_cost
from privalue.ledger._units import cost as units_of
from privalue.ledger._units import mu

EVERY_STEP = 150  # a release has fewer: so many kills are one at each of them
STUDY = study_hash({"study": 1})
OTHER = study_hash({"study": 2})


class SqlitePlace:
    """A ledger's file, and the rights of somebody who can write it."""

    def __init__(self, path):
        self.location = str(path)
        self.pattern = str(path.parent / "crashed-{}.db")

    def prepare(self, runs):
        pass

    def tamper(self, *statements):
        with closing(sqlite3.connect(self.location, isolation_level=None)) as connection:
            for (trigger,) in connection.execute(
                "SELECT name FROM sqlite_master WHERE type = 'trigger'"
            ).fetchall():
                connection.execute(f"DROP TRIGGER {trigger}")
            connection.execute("BEGIN")  # one wait for the disk, not one for each statement
            answers = [connection.execute(*each).fetchall() for each in statements]
            connection.execute("COMMIT")
            return answers

    def execute(self, statement):
        with closing(sqlite3.connect(self.location, isolation_level=None)) as connection:
            connection.execute(statement)

    def load(self, rows):
        with closing(sqlite3.connect(self.location)) as connection, connection:
            connection.executemany("INSERT INTO ledger_entries VALUES (?, ?, ?, ?)", rows)

    def hold(self):
        process = subprocess.Popen(
            [sys.executable, ledger_driver.__file__, "hold", self.location],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert process.stdout.readline()
        return lambda: process.communicate(b"\n")


class PostgresPlace:
    """A schema of its own, and the rights of the tables' owner."""

    def __init__(self, server, schema):
        self.server, self.schema = server, schema
        server.execute(f"CREATE SCHEMA {schema}")
        self.location = server.address(schema)
        self.pattern = server.address(f"{schema}_RUN").replace("RUN", "{}")

    def prepare(self, runs):
        made = (f"CREATE SCHEMA {self.schema}_{run}" for run in range(1, runs))
        self.server.execute(";".join(made))

    def tamper(self, *statements):
        import psycopg

        with psycopg.connect(self.location, autocommit=True) as connection:
            for table in ("ledger_entries", "ledger_artefacts"):
                connection.execute(f"ALTER TABLE {table} DISABLE TRIGGER ALL")
            connection.execute(
                "ALTER TABLE ledger_artefacts DROP CONSTRAINT IF EXISTS ledger_artefacts_check"
            )
            answers = []
            with connection.transaction():
                for sql, *parameters in statements:
                    answer = connection.execute(sql.replace("?", "%s"), *parameters)
                    answers.append(answer.fetchall() if answer.description else [])
            return answers

    def execute(self, statement):
        import psycopg

        with psycopg.connect(self.location, autocommit=True) as connection:
            connection.execute(statement)

    def load(self, rows):
        import psycopg

        with psycopg.connect(self.location) as connection:
            copy = "COPY ledger_entries (sequence, body, hash, seal) FROM STDIN"
            with connection.cursor().copy(copy) as target:
                for row in rows:
                    target.write_row(row)

    def hold(self):
        import psycopg

        connection = psycopg.connect(self.location)
        connection.execute("LOCK TABLE ledger_turn IN EXCLUSIVE MODE")
        return connection.close


class Server:
    """A private PostgreSQL server on a socket in a folder of its own."""

    def __init__(self):
        found = [shutil.which("initdb"), *Path("/usr/lib/postgresql").glob("*/bin/initdb")]
        binaries = [Path(each).resolve().parent for each in found if each]
        if not binaries:
            pytest.skip("no PostgreSQL server: install Debian's package postgresql")
        self.binaries = binaries[-1]
        self.folder = Path(tempfile.mkdtemp(prefix="ledger-pg-"))
        self.identity = {}
        if os.geteuid() == 0:  # the server refuses to run as root
            names = {entry.pw_name for entry in pwd.getpwall()}
            user = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
            os.chown(self.folder, user.pw_uid, user.pw_gid)
            self.identity = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        self._run("initdb", "--no-sync", "--auth=trust", "--username=keeper", "-D", self.data)
        self.process = None
        self.start()

    @property
    def data(self):
        return str(self.folder / "data")

    def _run(self, program, *arguments):
        subprocess.run(
            [self.binaries / program, *arguments],
            check=True,
            capture_output=True,
            cwd=self.folder,
            **self.identity,
        )

    def start(self):
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *(self.binaries / "postgres", "-D", self.data, "-k", self.folder),
                    *("-c", "listen_addresses=", "-c", "max_connections=100"),
                ],
                stdout=log,
                stderr=log,
                cwd=self.folder,
                **self.identity,
            )
        while True:
            try:
                self.execute("SELECT 1")
                return
            except Exception:
                if self.process.poll() is not None:
                    raise
                time.sleep(0.05)

    def stop(self, how=signal.SIGINT):
        self.process.send_signal(how)
        self.process.wait()

    def address(self, schema):
        options = quote(f"-csearch_path={schema}")
        return f"postgresql://keeper@/postgres?host={quote(str(self.folder))}&options={options}"

    def execute(self, statement):
        import psycopg

        with psycopg.connect(self.address("public"), autocommit=True) as connection:
            connection.execute(statement)

    def wait_for(self, setting, value):
        """Until a new connection has the setting: the server reads it when it gets to it."""
        import psycopg

        while True:
            with psycopg.connect(self.address("public"), autocommit=True) as connection:
                if connection.execute(f"SHOW {setting}").fetchone() == (value,):
                    return
            time.sleep(0.05)


@pytest.fixture(scope="module")
def server():
    pytest.importorskip("psycopg", reason="the extra postgres is not installed")
    server = Server()
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(server.folder, ignore_errors=True)


_schemas = iter(f"ledger{number}" for number in range(1000))


@pytest.fixture(params=["sqlite", "postgres"])
def place(request, tmp_path):
    if request.param == "sqlite":
        return SqlitePlace(tmp_path / "ledger.db")
    return PostgresPlace(request.getfixturevalue("server"), next(_schemas))


# Both accountings on both stores: three of the four ways as a rule, all in ``make long``.
BOTH = pytest.mark.parametrize(
    ("place", "accounting"),
    [
        ("sqlite", "plain"),
        ("sqlite", "gaussian"),
        ("postgres", "plain"),
        pytest.param("postgres", "gaussian", marks=pytest.mark.long),
    ],
    indirect=True,
)
# The other way round, so that no store is without squares as a rule.
BOTH_WAYS = pytest.mark.parametrize(
    ("place", "accounting"),
    [
        ("sqlite", "plain"),
        ("postgres", "gaussian"),
        pytest.param("sqlite", "gaussian", marks=pytest.mark.long),
        pytest.param("postgres", "plain", marks=pytest.mark.long),
    ],
    indirect=True,
)
# Of a server alone, and slow: squares as a rule.
SQUARES_FIRST = pytest.mark.parametrize("accounting", SQUARES, indirect=True)


def drive(*arguments, **environment):
    """The driver's answers, from a process of its own."""
    done = subprocess.run(
        [sys.executable, ledger_driver.__file__, *map(str, arguments)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def spend(ledger, study=STUDY, epsilon=EPSILON, dataset=DATASET):
    """One whole release; its artefact and its head."""
    with ledger.reserve(dataset, study, epsilon=epsilon, delta=DELTA) as reservation:
        head = reservation.charge()
        artefact = json.dumps({"study": study, "ledger": head})
        reservation.commit(artefact)
    return artefact, head


def complaint(action):
    """What a ledger that fails its check says; nothing if it does not fail."""
    try:
        action()
    except LedgerError as problem:
        return str(problem)
    return ""


# What it does


def test_a_ledger_is_made_by_its_first_total_only(place):
    ledger = open_ledger(place.location)
    for refused in (
        lambda: ledger.reserve(DATASET, STUDY, epsilon=0.1, delta=1e-7),
        lambda: ledger.show(DATASET),
        ledger.head,
    ):
        with pytest.raises(BudgetError, match=r"left nothing; .*ledger\.declare\("):
            refused()
    with pytest.raises(LedgerError, match="does not exist"):
        ledger.verify()
    account = ledger.declare(DATASET, epsilon=1.0, delta=1e-6)
    assert str(account.left) == "epsilon 1, delta 1e-6"
    assert ledger.datasets() == (DATASET,)
    assert ledger.verify().entries == 2


def test_what_is_reserved_counts_at_once_and_cancelling_gives_it_back(place):
    ledger = open_ledger(place.location)
    ledger.declare(DATASET, epsilon=1.0, delta=1e-6)
    reservation = ledger.reserve(DATASET, STUDY, epsilon=0.7, delta=1e-7)
    account = ledger.show(DATASET)
    assert str(account.reserved) == "epsilon 0.7, delta 1e-7"
    assert str(account.left) == "epsilon 0.3, delta 9e-7"
    with pytest.raises(BudgetError) as refused:
        ledger.reserve(DATASET, OTHER, epsilon=0.5, delta=1e-7)
    assert str(refused.value).startswith(
        'the release was refused, and nothing was charged: dataset "people": requested epsilon '
        "0.5, "
        "delta 1e-7; left epsilon 0.3, delta 9e-7"
    )
    reservation.cancel("DataError")
    assert str(ledger.show(DATASET).left) == "epsilon 1, delta 1e-6"
    assert [step.kind for step in ledger.show(DATASET).steps] == ["declare", "reserve", "cancel"]
    with pytest.raises(BudgetError, match="is cancelled, and cannot be charged"):
        reservation.charge()


def test_delta_runs_out_too(place):
    ledger = open_ledger(place.location)
    ledger.declare(DATASET, epsilon=10.0, delta=1e-7)
    spend(ledger)
    with pytest.raises(BudgetError, match=r"left epsilon 9\.9, delta 0"):
        ledger.reserve(DATASET, OTHER, epsilon=0.1, delta=1e-18)
    assert isinstance(ledger.reserve(DATASET, OTHER, epsilon=0.1, delta=0.0), Reservation)


@BOTH_WAYS
def test_once_charged_it_stays(place, accounting):
    ledger = open_ledger(place.location, accounting=accounting)
    ledger.declare(DATASET, epsilon=1.0, delta=1e-6)
    reservation = ledger.reserve(DATASET, STUDY, epsilon=0.7, delta=1e-7)
    with suppress(RuntimeError), reservation:
        reservation.charge()
        raise RuntimeError
    with pytest.raises(BudgetError, match="is charged, and cannot be cancelled"):
        reservation.cancel("changed my mind")
    assert ledger.show(DATASET).spent.units == ledger.price(0.7, 1e-7)
    with pytest.raises(BudgetError, match="cannot be cancelled"):
        ledger.settle(reservation.sequence, charge=False, reason="changed my mind")


@BOTH
def test_a_charge_covers_one_draw(place, accounting):
    """Not the next one of the same process, nor of a fork of it, nor after a commit."""
    ledger = open_ledger(place.location, accounting=accounting)
    ledger.declare(DATASET, epsilon=1.0, delta=1e-6)
    once = r"reservation 3 is charged, and cannot be charged: a charge covers one draw"
    with ledger.reserve(DATASET, STUDY, epsilon=0.7, delta=1e-7) as reservation:
        head = reservation.charge()
        with pytest.raises(BudgetError, match=once):
            reservation.charge()
        assert (reservation.head, ledger.head()) == (head, head)
        assert in_a_fork(reservation.charge) == "BudgetError"
        reservation.commit(f'{{"ledger": "{head}"}}')
        with pytest.raises(BudgetError, match="is committed, and cannot be charged"):
            reservation.charge()
    assert ledger.show(DATASET).spent.units == ledger.price(0.7, 1e-7)


@BOTH_WAYS
def test_the_first_of_two_forks_to_charge_is_the_only_one(place, accounting):
    ledger = open_ledger(place.location, accounting=accounting)
    ledger.declare(DATASET, epsilon=1.0, delta=1e-6)
    reservation = ledger.reserve(DATASET, STUDY, epsilon=0.7, delta=1e-7)
    assert in_a_fork(reservation.charge) == ""
    with pytest.raises(BudgetError, match="a charge covers one draw"):
        reservation.charge()


@BOTH_WAYS
def test_what_a_person_settled_as_charged_still_covers_one_draw_only(place, accounting):
    ledger = open_ledger(place.location, accounting=accounting)
    ledger.declare(DATASET, epsilon=1.0, delta=1e-6)
    reservation = ledger.reserve(DATASET, STUDY, epsilon=0.7, delta=1e-7)
    ledger.settle(reservation.sequence, charge=True, reason="it hangs")
    with pytest.raises(BudgetError, match="is charged and settled, and cannot be committed"):
        reservation.commit("without a charge of its own")
    head = reservation.charge()  # it was alive after all: it is paid for
    with pytest.raises(BudgetError, match="a charge covers one draw"):
        reservation.charge()
    reservation.commit("late")
    ledger.verify(head=head, artefact="late")
    assert ledger.show(DATASET).spent.units == ledger.price(0.7, 1e-7)


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


@BOTH_WAYS
def test_an_error_before_the_charge_cancels_without_quoting_it(place, accounting):
    ledger = open_ledger(place.location, accounting=accounting)
    ledger.declare(DATASET, epsilon=1.0, delta=1e-6)
    with pytest.raises(ZeroDivisionError), ledger.reserve(DATASET, STUDY, epsilon=0.1, delta=0.0):
        raise ZeroDivisionError("Mrs Miller")
    assert ledger.show(DATASET).spent.units == ledger.show(DATASET).reserved.units == Cost()
    ((bodies,),) = [place.tamper(("SELECT body FROM ledger_entries ORDER BY sequence",))]
    assert '"reason":"ZeroDivisionError"' in bodies[-1][0]
    assert "Miller" not in str(bodies)


def test_an_identical_request_gets_the_stored_artefact_and_spends_nothing(place):
    ledger = open_ledger(place.location)
    ledger.declare(DATASET, epsilon=0.15, delta=1e-6)
    artefact, head = spend(ledger)
    again = open_ledger(place.location).reserve(DATASET, STUDY, epsilon=EPSILON, delta=DELTA)
    assert isinstance(again, StoredRelease)
    assert (again.artefact, again.head) == (artefact, head)
    assert ledger.stored(DATASET, STUDY).artefact == artefact
    assert ledger.stored(DATASET, OTHER) is None
    assert str(ledger.show(DATASET).left) == "epsilon 0.05, delta 9e-7"
    assert ledger.show(DATASET).like_the_last == 0
    ledger.declare("others", epsilon=1.0, delta=1e-6)  # the same study of other people is another
    assert isinstance(ledger.reserve("others", STUDY, epsilon=0.1, delta=DELTA), Reservation)


@BOTH_WAYS
def test_an_identical_request_in_progress_is_refused(place, accounting):
    ledger = open_ledger(place.location, accounting=accounting)
    ledger.declare(DATASET, epsilon=1.0, delta=1e-6)
    first = ledger.reserve(DATASET, STUDY, epsilon=0.1, delta=DELTA)
    for status in ("reserved", "charged"):
        with pytest.raises(BudgetError, match=f"in progress since .* \\(entry 3, {status}"):
            ledger.reserve(DATASET, STUDY, epsilon=0.1, delta=DELTA)
        if status == "reserved":
            first.charge()
    first.commit("done")
    assert isinstance(ledger.reserve(DATASET, STUDY, epsilon=0.1, delta=DELTA), StoredRelease)


@BOTH_WAYS
def test_a_commit_can_be_repeated_but_not_changed(place, accounting):
    ledger = open_ledger(place.location, accounting=accounting)
    ledger.declare(DATASET, epsilon=1.0, delta=1e-6)
    reservation = ledger.reserve(DATASET, STUDY, epsilon=0.1, delta=DELTA)
    with pytest.raises(BudgetError, match="is reserved, and cannot be committed"):
        reservation.commit("too early")
    reservation.charge()
    reservation.commit("the artefact")
    head = ledger.head()
    reservation.commit("the artefact")
    assert ledger.head() == head
    with pytest.raises(BudgetError, match="cannot be committed"):
        reservation.commit("another artefact")


def test_a_total_changes_on_the_record_and_never_below_what_is_used(place):
    ledger = open_ledger(place.location)
    ledger.declare(DATASET, epsilon=1.0, delta=1e-6)
    spend(ledger, epsilon=0.4)
    ledger.reserve(DATASET, OTHER, epsilon=0.2, delta=DELTA)
    with pytest.raises(
        BudgetError, match=r"^the total was refused, .*of epsilon 2, .*replace=True"
    ):
        ledger.declare(DATASET, epsilon=2.0, delta=1e-6)
    with pytest.raises(BudgetError, match=r"below what is used, epsilon 0\.6, delta 2e-7"):
        ledger.declare(DATASET, epsilon=0.59, delta=1e-6, replace=True)
    assert str(ledger.declare(DATASET, epsilon=0.6, delta=1e-6, replace=True).left) == (
        "epsilon 0, delta 8e-7"
    )
    assert [step.kind for step in ledger.show(DATASET).steps].count("declare") == 2
    assert str(ledger.standing(DATASET).promise) == "epsilon 1, delta 1e-6"


@BOTH
def test_a_reservation_that_was_left_counts_until_a_person_settles_it(place, accounting):
    ledger = open_ledger(place.location, accounting=accounting)
    ledger.declare(DATASET, epsilon=1.0, delta=1e-6)
    left = ledger.reserve(DATASET, STUDY, epsilon=0.6, delta=DELTA)
    next_run = ledger.reserve(DATASET, OTHER, epsilon=0.1, delta=DELTA)
    assert len(next_run.notices) == 1
    assert (
        f"found entry {left.sequence}, {ledger.show(DATASET).unfinished[0].cost}, reserved"
        in (next_run.notices[0])
    )
    assert f"ledger.settle({left.sequence}, charge=True, reason=WHY)" in next_run.notices[0]
    account = ledger.settle(left.sequence, charge=False, reason="the machine was switched off")
    assert account.reserved.units == ledger.price(0.1, DELTA)
    with pytest.raises(BudgetError, match="cancelled and settled, and cannot be charged"):
        left.charge()  # it was alive after all: it may not go on
    account = ledger.settle(next_run.sequence, charge=True, reason="to be safe")
    assert (account.spent.units, account.unfinished) == (ledger.price(0.1, DELTA), ())
    head = next_run.charge()  # it was alive after all: it is paid for
    next_run.commit("late")
    assert ledger.stored(DATASET, OTHER).head == head
    with pytest.raises(BudgetError, match="cannot be charged"):
        ledger.settle(next_run.sequence, charge=True, reason="again")
    with pytest.raises(ValueError, match="entry 999 is not a reservation"):
        ledger.settle(999, charge=True, reason="a slip")
    assert ledger.verify().entries == ledger_length(place)


def ledger_length(place):
    ((rows,),) = [place.tamper(("SELECT count(*) FROM ledger_entries",))]
    return rows[0][0]


def test_ten_tenths_are_one(place):
    """A sum of doubles would stop at nine, or never fit 0.1 + 0.1 + 0.1 into 0.3."""
    ledger = open_ledger(place.location)
    ledger.declare(DATASET, epsilon=1.0, delta=1e-6)
    for number in range(10):
        spend(ledger, study=study_hash({"number": number}))
    account = ledger.show(DATASET)
    assert (account.left.epsilon, account.left.delta) == (0, 0)
    assert (len(account.releases), account.like_the_last) == (10, 0)


def test_squares_are_added_in_a_gaussian_book(place):
    """Four of half the mu, where plain sums would allow fewer; a retry is answered."""
    ledger, alpha = open_ledger(place.location), gaussian(1.0, 1e-6).alpha
    ledger.declare(DATASET, epsilon=1.0, delta=1e-6, accounting="gaussian")
    asked = {"epsilon": 0.5, "delta": 1e-6, "gaussian_alpha": 2 * alpha}
    for number in (0, 1, 2, 3, 1):
        found = ledger.reserve(DATASET, study_hash({"number": number}), **asked)
        if isinstance(found, Reservation):
            found.charge()
            found.commit(f"the release {number}")
    assert (found.artefact, ledger.show(DATASET).like_the_last) == ("the release 1", 0)
    with pytest.raises(
        BudgetError, match=r"requested epsilon 0.5, delta 1e-6 \(mu 0.118353\); left"
    ):
        ledger.reserve(DATASET, study_hash({"number": 4}), **asked)
    with pytest.raises(BudgetError, match="release with dp-ssp, or declare"):
        ledger.reserve(DATASET, STUDY, epsilon=0.5, delta=1e-6)
    told = ledger.show(DATASET).as_dict()
    assert (told["accounting"], told["plain_sums"]) == ("gaussian", {"epsilon": 2, "delta": 4e-6})
    ledger.verify()


@pytest.mark.parametrize("releases", [30, pytest.param(500, marks=pytest.mark.long)])
def test_tiny_gaussian_releases_in_any_order_never_exceed_the_total(place, releases):
    """Two clients, some releases given up, some left behind; the sum is exact, in Fractions."""
    clients, chance = [open_ledger(place.location) for _ in range(2)], random.Random(releases)
    clients[0].declare(DATASET, epsilon=1.0, delta=1e-6, accounting="gaussian")
    alpha, spent, waiting, refused = gaussian(1.0, 1e-6).alpha, Fraction(0), [], 0

    def end(found, each):
        nonlocal spent
        if chance.random() < 0.15:
            found.cancel("given up")
            return
        found.charge()
        spent += 1 / Fraction(each) ** 2
        if chance.random() < 0.8:  # the others are left behind, charged
            found.commit(f"a release with {found.head}")

    for number in range(releases):
        each = alpha * math.sqrt(releases) * chance.uniform(0.6, 1.0)
        try:
            found = chance.choice(clients).reserve(
                DATASET,
                study_hash({"number": number}),
                epsilon=1.0,
                delta=1e-6,
                gaussian_alpha=each,
            )
            waiting.append((found, each))
        except BudgetError:
            refused += 1
        while len(waiting) > chance.randrange(1, 6):
            end(*waiting.pop(chance.randrange(len(waiting))))
    for found, each in waiting:
        end(found, each)
    total = 1 / Fraction(alpha * (1 - 1e-9)) ** 2
    account = clients[1].show(DATASET)
    assert refused
    assert total * Fraction(9, 10) < spent <= Fraction(account.spent.units.square, 10**24) <= total
    assert account.reserved.units == Cost()
    clients[0].verify()


@pytest.mark.parametrize("period", [4, 64])
def test_a_dataset_moves_to_squares(place, period, monkeypatch):
    """With all that was spent, on the record, and whoever goes on from a snapshot agrees."""
    monkeypatch.setattr("privalue.ledger._book.PERIOD", period)
    ledger = open_ledger(place.location)
    ledger.declare(DATASET, epsilon=1.0, delta=1e-6)
    ledger.accounting = "gaussian"  # of requests: they state their mu
    for number in range(5):
        spend(ledger, study_hash({"number": number}))
    left = ledger.reserve(DATASET, OTHER, epsilon=0.2, delta=DELTA)
    total = {"epsilon": 1.0, "delta": 1e-6, "replace": True, "add_deltas": True}
    with pytest.raises(BudgetError, match="a release is in progress"):
        ledger.declare(DATASET, **total)
    left.charge()
    ledger.declare(DATASET, **total)
    paid = sum([ledger.price(EPSILON, DELTA)] * 5, start=ledger.price(0.2, DELTA))
    left.commit("after the move")
    for each in (ledger, open_ledger(place.location)):
        assert each.show(DATASET).spent.units == each.standing(DATASET).spent.units == paid
        assert str(each.standing(DATASET).promise) == "epsilon 1, delta 2e-6"
    assert isinstance(
        ledger.reserve(DATASET, study_hash({"number": 3}), epsilon=0.1, delta=DELTA), StoredRelease
    )
    ledger.verify()


# Many at once


def judge_race(answers, rounds, units, processes, location):
    """Never overdrawn, nobody loses a grant, and every answer is one that a person can use."""
    kinds = Counter((answer["turn"], answer["kind"]) for answer in answers)
    assert {kind for turn, kind in kinds if turn >= 0} <= {"granted", "BudgetError"}, answers
    assert kinds[-1, "declared"] == rounds + processes, answers
    ledger = open_ledger(location)
    ledger.verify()
    assert {f"first-{process}" for process in range(processes)} <= set(ledger.datasets())
    for turn in range(rounds):
        assert kinds[turn, "granted"] == min(units, processes)
        account = ledger.show(f"{DATASET}-{turn}")
        assert account.like_the_last == 0
        assert account.gaussian or account.left.units == Cost()
    for answer in answers:
        if answer["kind"] == "granted":
            ledger.verify(head=json.loads(answer["text"])["ledger"], artefact=answer["text"])


@pytest.mark.parametrize(
    ("units", "accounting"),
    [(1, "plain"), (3, "gaussian"), pytest.param(3, "plain", marks=pytest.mark.long)],
)
def test_eight_processes_race_for_the_last_units(place, units, accounting):
    answers = drive("race", place.location, RACES, units, 8, LEDGER_ACCOUNTING=accounting)
    judge_race(answers, RACES, units, 8, place.location)


@BOTH_WAYS
def test_eight_identical_requests_spend_once(place, accounting, monkeypatch):
    monkeypatch.setenv(ledger_driver.ACCOUNTING, accounting)
    answers = drive("race", place.location, RACES, 8, 8, LEDGER_IDENTICAL="1")
    kinds = Counter((answer["turn"], answer["kind"]) for answer in answers)
    assert {kind for turn, kind in kinds if turn >= 0} <= {"granted", "stored", "BudgetError"}
    ledger = open_ledger(place.location)
    for turn in range(RACES):
        assert kinds[turn, "granted"] == 1
        account = ledger.show(f"{DATASET}-{turn}")
        assert len(account.releases) == 1
        assert account.spent.units == account.releases[0].units != Cost()
        texts = {a["text"] for a in answers if a["turn"] == turn and a["kind"] != "BudgetError"}
        assert len(texts) == 1


@pytest.mark.parametrize("mistake", ["deferred", "torn"])
def test_the_race_finds_a_writer_that_does_not_lock_first(mistake, tmp_path):
    location = tmp_path / "ledger.db"
    answers = drive("race", location, 3, 1, 8, LEDGER_PLANTED_MISTAKE=mistake)
    with pytest.raises((AssertionError, LedgerError)):
        judge_race(answers, 3, 1, 8, location)


# Killed


def standing(ledger):
    """How the dataset stands, or None where its total was never recorded."""
    try:
        return ledger.show(DATASET)
    except BudgetError:
        return None


@pytest.mark.parametrize(
    ("period", "accounting"),  # the period: entries from one snapshot to the next
    [("64", "plain"), ("1", "gaussian"), pytest.param("1", "plain", marks=pytest.mark.long)],
)
def test_a_kill_at_any_step_never_leaves_less_spent_than_released(
    place, tmp_path, period, accounting, monkeypatch
):
    monkeypatch.setenv(ledger_driver.ACCOUNTING, accounting)
    cost = ledger_driver.cost_of(10)
    whole = Cost(epsilon=10**11, delta=10**11)
    if accounting == "gaussian":
        whole = Cost(square=square_cost(mu(cost["gaussian_alpha"]), 1))
    place.prepare(runs=2 * KILLS + 2)
    killed = study_hash({"study": "killed"})
    runs = drive("crash", tmp_path, place.pattern, KILLS, LEDGER_PERIOD=period)
    assert not runs[0]["killed"]  # one got through all steps
    assert sum(run["killed"] for run in runs) >= min(KILLS, 20)
    steps = {"declared", "reserved", "charged", "drawn", "committed", "published"}
    assert steps <= {run["last"] for run in runs} or KILLS < EVERY_STEP
    found = Counter()
    for run in runs:
        ledger = open_ledger(place.pattern.format(run["run"]))
        published = tmp_path / f"published-{run['run']}"
        text = published.read_text() if published.exists() else ""
        account = standing(ledger)
        if account is None:
            assert not text
            found["no total"] += 1
            continue
        assert account.spent.units + account.reserved.units in {Cost(), whole}
        assert not text or account.spent.units == whole
        # The next run says what it found, and the amount that it found does not come back.
        next_run = ledger.reserve(DATASET, OTHER, **cost)
        assert len(next_run.notices) == len(account.unfinished) <= 1
        for left in account.unfinished:
            status = "charged" if left.charged else "reserved"
            assert f"found entry {left.entry}, {left.cost}, {status}" in next_run.notices[0]
            with pytest.raises(BudgetError, match="the identical request is in progress"):
                ledger.reserve(DATASET, killed, **cost)
            settled = ledger.settle(left.entry, charge=left.charged, reason="seen to be gone")
            assert settled.spent.units == (whole if left.charged else Cost())
            found[status] += 1
        if not account.unfinished:
            again = ledger.reserve(DATASET, killed, **cost)
            assert isinstance(again, StoredRelease) == bool(account.releases)
            assert not text or again.artefact == text
            found[type(again).__name__] += 1
        if text:
            ledger.verify(head=json.loads(text)["ledger"], artefact=text)
        else:
            ledger.verify()
    outcomes = {"no total", "reserved", "charged", "StoredRelease", "Reservation"}
    assert set(found) == outcomes or (KILLS < EVERY_STEP and set(found) <= outcomes)


@SQUARES_FIRST
def test_the_server_is_killed_and_comes_back(server, accounting):
    place = PostgresPlace(server, next(_schemas))
    ledger = open_ledger(place.location, accounting=accounting)
    ledger.declare(DATASET, epsilon=1.0, delta=1e-6)
    reservation = ledger.reserve(DATASET, STUDY, epsilon=EPSILON, delta=DELTA)
    head = reservation.charge()
    server.stop(signal.SIGQUIT)  # no clean end: the server recovers from its log
    unknown = r'dataset "people": requested .*; left unknown; .* does not answer .*; try again'
    with pytest.raises(UnavailableError, match=unknown) as found:
        reservation.commit("an artefact")
    assert found.value.exit_code == 7
    server.start()
    reservation.commit("an artefact")
    ledger.verify(head=head, artefact="an artefact")
    assert ledger.show(DATASET).spent.units == ledger.price(EPSILON, DELTA)


@in_turn("back", [True, False])
def test_a_release_whose_server_goes_between_charge_and_commit(
    server, back, accounting, tmp_path, monkeypatch, capsys
):
    """What is paid for arrives: after a wait, or by ``ledger finish``."""
    place = PostgresPlace(server, next(_schemas))
    ledger = open_ledger(place.location, accounting=accounting)
    ledger.declare("trial", epsilon=1.0, delta=1e-5)
    monkeypatch.chdir(release_driver.prepare(tmp_path))
    monkeypatch.setattr(_patience, "PATIENCE", 60.0 if back else 1.0)
    monkeypatch.setattr(_patience, "TOLD_AFTER", 0.05)
    monkeypatch.delenv("PRIVALUE_LEDGER", raising=False)
    fill, starting = Outbox.fill, []

    def filled(outbox, paid):
        fill(outbox, paid)
        server.stop(signal.SIGQUIT)
        if back:
            starting.append(threading.Timer(1.0, server.start))
            starting[0].start()

    command = ["release", "study.toml", "--data", "data.csv", "--ledger", place.location]
    with monkeypatch.context() as away:
        away.setattr(Outbox, "fill", filled)
        code = run_command([*command, "--out", "out"])
    said = capsys.readouterr().err
    if back:
        starting[0].join()
        assert (code, Path("out/release.outbox").exists()) == (0, False)
        assert "the charge stands, and what was drawn is kept" in said
    else:
        server.start()
        assert code == 7
        assert said.splitlines()[-1].startswith(
            "privalue: charged: do not run again; `privalue ledger finish out/release.outbox "
            "--ledger LEDGER` (the server of the ledger postgresql://"
        )
        assert "keeper" not in Path("out/release.outbox").read_text()
        assert (
            run_command(["ledger", "finish", "out/release.outbox"]) == 2
        )  # which user is not kept
        assert (
            run_command(["ledger", "finish", "out/release.outbox", "--ledger", place.location]) == 0
        )
    text = Path("out/release.json").read_text()
    ledger.verify(head=json.loads(text)["ledger_head"], artefact=text)
    account = ledger.show("trial")
    assert [step.kind for step in account.steps][1:] == ["reserve", "charge", "commit"]
    assert account.spent.units == ledger.price(0.5, 1e-6)


@BOTH_WAYS
@pytest.mark.parametrize("arrives", [True, False], ids=["stands", "undone"])
def test_a_charge_whose_answer_is_lost_is_found_out(place, arrives, accounting):
    """Neither doubled nor lost, whether it reached the store or not."""
    ledger = open_ledger(place.location, accounting=accounting)
    ledger.declare(DATASET, epsilon=1.0, delta=1e-6)
    reservation = ledger.reserve(DATASET, STUDY, epsilon=0.7, delta=1e-7)
    release_driver.lose_an_answer(ledger, arrives)
    with pytest.raises(UnavailableError):
        reservation.charge()
    assert reservation.charge() == ledger.head()
    with pytest.raises(BudgetError, match="a charge covers one draw"):
        reservation.charge()
    assert [step.kind for step in ledger.show(DATASET).steps] == ["declare", "reserve", "charge"]


# Tampered with


@pytest.fixture
def history(place, accounting):
    """A ledger with entries of every kind, and its last release; of squares, with two pools."""
    ledger = open_ledger(place.location, accounting=accounting)
    pool = {"plain_epsilon": 0.3, "plain_delta": 2e-7} if accounting == "gaussian" else {}
    ledger.declare(DATASET, epsilon=1.0, delta=1e-6, **pool)
    spend(ledger)
    with pytest.raises(ValueError), ledger.reserve(DATASET, OTHER, epsilon=0.1, delta=DELTA):  # noqa: PT011
        raise ValueError
    left = ledger.reserve(DATASET, OTHER, epsilon=0.2, delta=DELTA, gaussian_alpha=None)
    ledger.settle(left.sequence, charge=True, reason="gone")
    ledger.declare(DATASET, epsilon=0.9, delta=1e-6, replace=True, **pool)
    artefact, head = spend(ledger, study=study_hash({"study": 3}))
    assert ledger.verify().entries == 13
    return ledger, artefact, head


def entries(place):
    return place.tamper(
        ("SELECT sequence, body, hash, seal FROM ledger_entries ORDER BY sequence",)
    )[0]


def rewrite(place, rows):
    place.tamper(
        ("DELETE FROM ledger_entries",),
        *(("INSERT INTO ledger_entries VALUES (?, ?, ?, ?)", row) for row in rows),
    )


def changed(row, **fields):
    """The entry with other content, and its own hash made to fit."""
    body = canonical({**json.loads(row[1]), **fields})
    return (fields.get("sequence", row[0]), body, sha256(body), row[3])


def renumbered(rows):
    """Numbers and own hashes fit; what each says of the one before does not."""
    return [changed(row, sequence=number) for number, row in enumerate(rows, start=1)]


@BOTH_WAYS
def test_every_change_removal_reordering_and_insertion_is_found(history, place):
    ledger, *_ = history
    good = [tuple(row) for row in entries(place)]
    tampered = {}
    for at, row in enumerate(good):
        number, last = at + 1, at + 1 == len(good)
        later = {"at": "2030-01-01T00:00:00Z"}
        tampered[f"change {number}"] = [
            *good[:at],
            (row[0], changed(row, **later)[1], *row[2:]),
            *good[at + 1 :],
        ]
        tampered[f"change the hash of {number}"] = [
            *good[:at],
            (*row[:2], "f" * 64, row[3]),
            *good[at + 1 :],
        ]
        if not last:
            tampered[f"change {number} with its hash"] = [
                *good[:at],
                changed(row, **later),
                *good[at + 1 :],
            ]
            tampered[f"remove {number}"] = good[:at] + good[at + 1 :]
            tampered[f"remove {number}, renumber"] = renumbered(good[:at] + good[at + 1 :])
            swapped = [*good[:at], good[at + 1], row, *good[at + 2 :]]
            tampered[f"swap {number}, renumber"] = renumbered(swapped)
            tampered[f"swap the numbers of {number}"] = [
                (here[0], *there[1:]) for here, there in zip(good, swapped, strict=True)
            ]
        tampered[f"insert after {number}"] = renumbered([*good[: at + 1], row, *good[at + 1 :]])
    for name, rows in tampered.items():
        rewrite(place, rows)
        with pytest.raises(LedgerError, match=r"fails its check: entry \d+") as found:
            ledger.verify()
        assert found.value.exit_code == 5
        with pytest.raises(LedgerError, match="left unknown"):
            ledger.reserve(DATASET, OTHER, epsilon=0.01, delta=0.0)
        assert [tuple(row) for row in entries(place)] == sorted(rows), name
    rewrite(place, good)
    ledger.verify()


@BOTH
def test_the_first_bad_entry_is_named(history, place):
    ledger, *_ = history
    rows = entries(place)
    place.tamper(("UPDATE ledger_entries SET body = ? WHERE sequence = 7", (rows[5][1],)))
    with pytest.raises(LedgerError, match="fails its check: entry 7 was changed"):
        ledger.verify()


def rechained(rows):
    """All hashes fit: what somebody with the software could write."""
    head, made = "0" * 64, []
    for number, row in enumerate(rows, start=1):
        made.append(changed(row, sequence=number, previous=head))
        head = made[-1][2]
    return made


@BOTH
def test_what_the_chain_alone_cannot_show_a_release_does(history, place):
    """Nobody's key is in the chain: who rewrites all of it is found by heads that left."""
    ledger, artefact, head = history
    good = [tuple(row) for row in entries(place)]
    ledger.verify(head=head, artefact=artefact)
    cut = len(good) - 1  # without the last commit
    rewrite(place, good[:cut])
    place.tamper(("DELETE FROM ledger_artefacts WHERE hash = ?", (sha256(artefact),)))
    ledger.verify()
    ledger.verify(head=head)
    with pytest.raises(LedgerError, match="no entry commits this release"):
        ledger.verify(head=head, artefact=artefact)
    rewrite(place, good[: cut - 2])
    ledger.verify()
    with pytest.raises(LedgerError, match="the last entries were removed"):
        ledger.verify(head=head)
    rewrite(place, rechained([changed(good[0], at="2020-01-01T00:00:00Z"), *good[1 : cut - 2]]))
    ledger.verify()
    with pytest.raises(LedgerError, match="all was rewritten"):
        ledger.verify(head=head)


@BOTH_WAYS
def test_who_saw_more_than_a_ledger_has_refuses_it(history, place, monkeypatch, tmp_path):
    monkeypatch.setenv("PRIVALUE_STATE", str(tmp_path / "state"))
    good = [tuple(row) for row in entries(place)]
    ledger = real_ledger(place.location)
    ledger.verify(strict=False)
    rewrite(place, good[:-3])
    for action in (ledger.head, lambda: ledger.show(DATASET)):
        assert f"lacks the head {good[-1][2]}" in complaint(action)
    rewrite(place, good)
    ledger.show(DATASET)
    rewrite(place, good[:-3])
    place.tamper(("DELETE FROM ledger_artefacts WHERE hash = ?", (artefact_of(good[-1]),)))
    head = ledger.accept_head(reason="restored")
    assert [row[2] for row in entries(place)][-2:] == [good[-4][2], head]
    assert good[-1][2] in ledger.verify(head=head, strict=False).notices[-1]


def artefact_of(row):
    return json.loads(row[1])["artefact"]


def broken_squares(good, reserve):
    """What breaks the rules of a book with two pools."""
    first, last = 1, len(good) - 4
    return {
        name: [changed(row, **fields) if at == here else row for here, row in enumerate(good)]
        for name, at, fields in (
            ("a mu that its promise does not allow", good.index(reserve), {"mu": "1/1.0"}),
            (
                "no mu, and more than the plain pool has",
                good.index(reserve),
                {"mu": "none", "epsilon": 3 * 10**11},
            ),
            ("a total whose mu is not certified", first, {"mu": "1/4.0"}),
            ("a total without a mu", first, {"mu": "none"}),
            ("a plain pool that leaves less for squares", first, {"plain_epsilon": 5 * 10**11}),
            ("pools split anew", last, {"plain_epsilon": 2 * 10**11, "mu": "1/100.0"}),
            ("a pool that is taken away", last, {"plain_epsilon": 0, "plain_delta": 0}),
        )
    }


@BOTH
def test_a_chain_that_fits_must_also_follow_the_rules(history, place):
    ledger, *_ = history
    good = [tuple(row) for row in entries(place)]
    kinds = [json.loads(body)["kind"] for _, body, *_ in good]
    at = {kind: kinds.index(kind) for kind in kinds}
    reserve = good[at["reserve"]]
    squares = json.loads(good[1][1])["accounting"] == "gaussian"
    another = "plain" if squares else "gaussian"
    too_much = {"epsilon": 10**12 + 1}
    if squares:  # certified, and more than there is
        too_much = {"epsilon": 20 * 10**12, "delta": 10**17, "mu": "1/0.25"}
    broken = {
        **(broken_squares(good, reserve) if squares else {}),
        "no begin": good[1:],
        "a second begin": [*good, good[0]],
        "another format": [changed(good[0], format=3), *good[1:]],
        "overdrawn": [changed(row, **too_much) if row is reserve else row for row in good],
        "a cost of nothing": [changed(row, epsilon=0) if row is reserve else row for row in good],
        "a negative delta": [changed(row, delta=-1) if row is reserve else row for row in good],
        "not declared": [changed(row, dataset="x") if row is reserve else row for row in good],
        "no charge": [row for row in good if row is not good[at["charge"]]],
        "charged twice": [*good[: at["charge"] + 1], *good[at["charge"] :]],
        "a total below what is used": [
            changed(row, epsilon=1) if row is good[len(kinds) - 4] else row for row in good
        ],
        "a number that is not whole": [changed(good[0], format=4.0), *good[1:]],
        "an unknown kind": [*good, changed(good[-1], kind="refund")],
        "an unknown key": [*good, changed(good[-1], note="x")],
        "no time": [*good, changed(good[at["cancel"]], at="yesterday")],
        "a hash that is none": [changed(row, study="x") if row is reserve else row for row in good],
        "no salt": [changed(row, salt="") if row is reserve else row for row in good],
        "half a salt": [changed(row, salt="0" * 32) if row is reserve else row for row in good],
        "other people": [changed(row, unit="person") if row is reserve else row for row in good],
        "nobody": [changed(row, unit="household") if row is reserve else row for row in good],
        "cheaper by steps": [changed(row, steps=0) if row is reserve else row for row in good],
        "dearer by steps": [changed(row, steps=2) if row is reserve else row for row in good],
        "a relation that pays twice": [
            changed(row, neighbours="add-remove") if row is reserve else row for row in good
        ],
        "a mu that is none": [changed(row, mu="0.23") if row is reserve else row for row in good],
        "another accounting": [
            changed(row, accounting=another) if i == 1 else row for i, row in enumerate(good)
        ],
        "whom it protects, later": [
            changed(row, unit="person") if i == len(kinds) - 4 else row
            for i, row in enumerate(good)
        ],
    }
    for name, rows in broken.items():
        rewrite(place, rechained(rows))
        assert re.search(r"fails its check: entry \d+", complaint(ledger.verify)), name


def of_0_1():
    """The rows of a ledger as privalue 0.1 wrote them."""
    common = {"at": "2026-01-01T00:00:00Z"}
    head, rows = "0" * 64, []
    for number, own in enumerate(
        [
            {"kind": "begin", "format": 1},
            {"kind": "declare", "dataset": DATASET, "epsilon": 10**12, "delta": 10**12},
            {
                **{"kind": "reserve", "dataset": DATASET, "epsilon": 10**11, "delta": 10**11},
                **{"study": STUDY, "process": "1@here"},
            },
            {"kind": "charge", "reservation": 3},
        ],
        start=1,
    ):
        body = canonical({"sequence": number, "previous": head, **common, **own})
        head = sha256(body)
        rows.append((number, body, head, "-"))
    return rows


def test_a_ledger_of_0_1_is_refused_and_told_what_to_do(place):
    ledger = open_ledger(place.location)
    ledger.declare(DATASET, epsilon=1.0, delta=1e-6)
    rewrite(place, of_0_1())
    for action in (
        ledger.verify,
        lambda: ledger.show(DATASET),
        lambda: ledger.reserve(DATASET, OTHER, epsilon=0.1, delta=DELTA),
        lambda: ledger.declare(DATASET, epsilon=1.0, delta=1e-6, replace=True),
    ):
        with pytest.raises(
            LedgerError, match=r"it is of an earlier format, 1 \(privalue 0\.1\)"
        ) as found:
            action()
        assert found.value.exit_code == 5
        assert "keep it as a record, declare the dataset in a new ledger" in str(found.value)
    assert [tuple(row) for row in entries(place)] == of_0_1()


@BOTH
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE ledger_artefacts SET text = 'another'",
        "DELETE FROM ledger_artefacts",
        "INSERT INTO ledger_artefacts VALUES ('00', 'one more')",
    ],
)
def test_stored_artefacts_are_checked_too(history, place, statement):
    ledger, *_ = history
    place.tamper((statement,))
    with pytest.raises(LedgerError, match="the artefact"):
        ledger.verify()
    if "INSERT" not in statement:
        with pytest.raises(LedgerError, match="the artefact of entry 3"):
            ledger.reserve(DATASET, STUDY, epsilon=EPSILON, delta=DELTA)


@BOTH
def test_an_emptied_ledger_is_no_new_one(history, place):
    ledger, *_ = history
    rewrite(place, [])
    for action in (
        ledger.verify,
        lambda: ledger.declare(DATASET, epsilon=5.0, delta=1e-5),
        lambda: ledger.show(DATASET),
    ):
        with pytest.raises(LedgerError, match="entry 1 is missing"):
            action()


@BOTH_WAYS
@pytest.mark.parametrize("verb", ["UPDATE {} SET hash = 'x'", "DELETE FROM {}"])
@pytest.mark.parametrize("table", ["ledger_entries", "ledger_artefacts"])
def test_the_tables_refuse_accidents(history, place, verb, table):
    with pytest.raises(Exception, match="append-only"):
        place.execute(verb.format(table))


# Places that fail


@BOTH_WAYS
def test_a_locked_ledger_says_so(place, accounting):
    ledger = open_ledger(place.location, accounting=accounting, wait=0.2)
    ledger.declare(DATASET, epsilon=1.0, delta=1e-6)
    release = place.hold()
    try:
        with pytest.raises(UnavailableError) as found:
            ledger.reserve(DATASET, STUDY, epsilon=EPSILON, delta=DELTA)
    finally:
        release()
    assert str(found.value).startswith(
        'dataset "people": requested epsilon 0.1, delta 1e-7; left unknown; the ledger '
    )
    assert "is locked by another process, and stayed so for 0.2 s" in str(found.value)
    assert found.value.exit_code == 7
    assert isinstance(ledger.reserve(DATASET, STUDY, epsilon=0.1, delta=DELTA), Reservation)


@pytest.fixture(scope="module", params=["plain", "gaussian"])
def hundred_thousand(request):
    """The rows of a long and busy ledger."""
    at, book = datetime(2026, 1, 1, tzinfo=UTC), Book()
    total = {"epsilon": 10**16, "delta": 10**17, **DECLARED}
    cost = {"epsilon": 10**10, "delta": 10**5, **RESERVED}
    if request.param == "plain":
        rows = [book.write("begin", at, format=3, sealed=False)]
    else:
        rows = [book.write("begin", at, format=4, sealed=False, squares=True)]
        total |= {"accounting": "gaussian", "mu": "1/1.0", "plain_epsilon": 0, "plain_delta": 0}
        cost |= {"mu": "1/1000.0"}
    rows.append(book.write("declare", at, dataset=DATASET, **total))
    while len(rows) < 100_000:
        study = study_hash({"number": len(rows)})
        rows.append(book.write("reserve", at, dataset=DATASET, study=study, **cost))
        number = book.sequence
        rows.append(book.write("charge", at, reservation=number))
        rows.append(book.write("settle", at, reservation=number, outcome="charged", reason="-"))
    return rows


@pytest.mark.long
def test_a_hundred_thousand_entries_are_verified(place, hundred_thousand):
    ledger = open_ledger(place.location)
    ledger.declare(DATASET, epsilon=1.0, delta=1e-6)
    place.tamper(("DELETE FROM ledger_entries",))
    place.load(hundred_thousand)
    assert ledger.verify(head=hundred_thousand[-1][2]).entries == len(hundred_thousand)


# Only here, only there


def starved(location, mode, accounting="plain"):
    return drive("starve", location, mode, LEDGER_ACCOUNTING=accounting)


@pytest.mark.parametrize("accounting", ["plain", "gaussian"])
@pytest.mark.parametrize("mode", ["full", "full-at-commit"])
def test_a_full_disk_leaves_a_safe_state(tmp_path, mode, accounting, monkeypatch):
    monkeypatch.setenv(ledger_driver.ACCOUNTING, accounting)
    ledger, asked = open_ledger(tmp_path / "ledger.db"), ledger_driver.cost_of(10)
    ledger.declare(DATASET, **ledger_driver.total_of(10))
    answers = starved(tmp_path / "ledger.db", mode, accounting)
    assert [answer["code"] for answer in answers] == ([5] if mode == "full" else [0, 0, 5])
    one = Cost(epsilon=10**11, delta=10**11)
    if accounting == "gaussian":
        one = Cost(square=square_cost(mu(asked["gaussian_alpha"]), 1))
    requested = units_of(DATASET, asked["epsilon"], asked["delta"]) if mode == "full" else one
    assert answers[-1]["text"].startswith(f'dataset "people": requested {requested};')
    ledger.verify()
    account = ledger.show(DATASET)
    assert account.spent.units == (Cost() if mode == "full" else one)
    assert account.reserved.units == Cost()


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
    open_ledger(location).declare(DATASET, epsilon=1.0, delta=1e-6)
    location.chmod(0o444)
    open_folder.chmod(0o555)
    for answer in starved(location, "reserve"):
        assert answer["code"] == 5
        assert "cannot be opened for writing" in answer["text"]
    open_folder.chmod(0o755)
    assert open_ledger(location).verify().entries == 2


@pytest.mark.parametrize("place_of_no_ledger", ["/proc/ledger.db", "file/ledger.db", "no/l.db"])
def test_a_place_where_nothing_can_be_made(tmp_path, monkeypatch, place_of_no_ledger):
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("")
    with pytest.raises(LedgerError, match=r'dataset "people": requested a total .*ledger\.?'):
        open_ledger(place_of_no_ledger).declare(DATASET, epsilon=1.0, delta=1e-6)


@IN_BOTH
def test_every_corrupted_page_is_found_or_harmless(tmp_path, accounting):
    """A page's bytes are inverted: never a wrong answer, never a traceback."""
    location = tmp_path / "ledger.db"
    ledger = open_ledger(location, accounting=accounting)
    ledger.declare(DATASET, epsilon=1.0, delta=1e-6)
    for number in range(5):
        spend(ledger, study=study_hash({"number": number}))
    whole, left = location.read_bytes(), ledger.show(DATASET).left
    assert len(whole) > 3 * 4096
    for page in range(0, len(whole), 4096):
        for start, size in ((0, 4096), (0, 16), (3000, 200), (4000, 96)):
            spoiled = bytearray(whole)
            part = slice(page + start, page + start + size)
            spoiled[part] = bytes(255 - byte for byte in spoiled[part])
            location.write_bytes(spoiled)
            found = complaint(ledger.verify)
            assert "\n" not in found
            if found:
                assert f"the ledger {location} " in found
            else:
                assert ledger.show(DATASET).left == left
            found = complaint(lambda: ledger.reserve(DATASET, STUDY, epsilon=0.1, delta=DELTA))
            assert not found or found.startswith('dataset "people": requested')
            for path in tmp_path.glob("ledger.db-*"):
                path.unlink()
    location.write_bytes(whole)
    ledger.verify()


def test_a_file_that_is_no_ledger(tmp_path):
    (tmp_path / "text").write_text("not a database at all, but long enough to be read as one" * 99)
    (tmp_path / "empty").write_text("")
    for name, what in (("text", "is damaged, or is not a ledger"), ("empty", "holds no ledger")):
        for action in ("declare", "reserve", "verify"):
            ledger = open_ledger(tmp_path / name)
            with pytest.raises(LedgerError, match=what):
                {
                    "declare": lambda ledger=ledger: ledger.declare("d", epsilon=1, delta=0),
                    "reserve": lambda ledger=ledger: ledger.reserve("d", STUDY, epsilon=1, delta=0),
                    "verify": ledger.verify,
                }[action]()


def test_the_file_is_its_owners_and_every_commit_reaches_the_disk(tmp_path):
    location = tmp_path / "a ledger with % and ? and #.db"
    open_ledger(location).declare(DATASET, epsilon=1.0, delta=1e-6)
    assert location.stat().st_mode & 0o777 == 0o600
    assert {path.name for path in tmp_path.iterdir()} == {location.name, f"{location.name}-queue"}
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}
    spoken = []

    class Listening(sqlite3.Connection):
        def execute(self, statement, *parameters):
            spoken.append(statement)
            return super().execute(statement, *parameters)

    from privalue.ledger._sqlite import SqliteStore

    connect, sqlite3.connect = sqlite3.connect, lambda *a, **o: connect(*a, factory=Listening, **o)
    try:
        with SqliteStore(location, 1).write():
            pass
    finally:
        sqlite3.connect = connect
    with closing(sqlite3.connect(location)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert "PRAGMA synchronous = FULL" in spoken
    assert spoken[-2:] == ["BEGIN IMMEDIATE", "COMMIT"]


def test_a_clerk_needs_no_right_to_change_anything(server):
    schema = next(_schemas)
    place = PostgresPlace(server, schema)
    open_ledger(place.location).declare(DATASET, epsilon=1.0, delta=1e-6)
    server.execute(f"CREATE ROLE clerk_{schema} LOGIN")
    server.execute(open_ledger(place.location).grant_sql(f"clerk_{schema}"))
    clerk = open_ledger(place.location.replace("keeper@", f"clerk_{schema}@"))
    _, head = spend(clerk)
    clerk.verify(head=head)
    reader = real_ledger(place.location.replace("keeper@", f"clerk_{schema}@"))
    reader.verify(strict=False)
    server.execute(f"REVOKE INSERT ON ALL TABLES IN SCHEMA {schema} FROM clerk_{schema}")
    with pytest.raises(LedgerError, match="permission denied"):
        spend(clerk, study=OTHER)
    rewrite(place, entries(place)[:-1])  # who may not write accepts a restore in his own folder
    with pytest.raises(LedgerError, match="lacks the head"):
        reader.show(DATASET)
    reader.accept_head(reason="restored")
    assert "remembered here, and not on the record: " in reader.notices[0]
    reader.show(DATASET)


def test_a_lock_of_one_ledger_keeps_nobody_else_waiting(server):
    """Nor can somebody without rights on the ledger hold it."""
    import psycopg

    first, second = (PostgresPlace(server, next(_schemas)) for _ in range(2))
    for place in (first, second):
        open_ledger(place.location).declare(DATASET, epsilon=1.0, delta=1e-6)
    server.execute(f"CREATE ROLE stranger_{first.schema} LOGIN")
    stranger = server.address(first.schema).replace("keeper@", f"stranger_{first.schema}@")
    with closing(psycopg.connect(stranger)) as connection:
        connection.execute("SELECT pg_advisory_xact_lock(7386415041)")  # any number is everybody's
        spend(open_ledger(first.location, wait=0.2))
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(f"LOCK TABLE {first.schema}.ledger_turn IN ACCESS SHARE MODE")
    release = first.hold()
    try:
        spend(open_ledger(second.location, wait=0.2))
    finally:
        release()


def test_a_ledger_that_two_make_at_once_is_made_once(server):
    place = PostgresPlace(server, next(_schemas))
    answers = drive("race", place.location, 1, 1, 4)
    judge_race(answers, 1, 1, 4, place.location)


QUICK = TimeLimits(connect=2, silence=1.0)


def impatient(place, clock=lambda: datetime.now(UTC), accounting="plain", **limits):
    """A ledger that gives a server a second, and not a minute."""
    store = PostgresStore(place.location, 0.5, replace(QUICK, **limits))
    ledger = UsualLedger(store, clock)
    ledger.accounting = accounting
    return ledger


def backends(server, schema):
    """The processes of the server that serve connections to a schema's ledger."""
    import psycopg

    with psycopg.connect(server.address("public"), autocommit=True) as connection:
        found = connection.execute(
            "SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND query <> ''"
            " AND backend_type = 'client backend'"
        ).fetchall()
    return [pid for (pid,) in found]


@pytest.fixture
def freezer():
    """Stops processes, and lets them go on at the end."""
    frozen = []

    def freeze(*pids):
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
            frozen.append(pid)

    def thaw():
        while frozen:
            os.kill(frozen.pop(), signal.SIGCONT)

    freeze.thaw = thaw
    yield freeze
    thaw()


@SQUARES_FIRST
def test_a_frozen_server_process_is_given_up(server, freezer, accounting):
    """It keeps no time limit of its own, and the socket stays open: the client gives up."""
    place = PostgresPlace(server, next(_schemas))
    cold = []

    def clock():  # asked for when an entry is written: the lock is held, nothing is sent
        if cold:
            freezer(*backends(server, place.schema))
        return datetime.now(UTC)

    ledger = impatient(place, clock, accounting)
    ledger.declare(DATASET, epsilon=1.0, delta=1e-6)
    reservation = ledger.reserve(DATASET, STUDY, epsilon=EPSILON, delta=DELTA)
    cold.append(True)
    with pytest.raises(UnavailableError) as found:
        reservation.charge()
    assert "does not answer (no answer for 1 s); try again; this step was not" in str(found.value)
    assert found.value.exit_code == 7
    cold.clear()
    # It holds the lock of this ledger for as long as it is frozen.
    with pytest.raises(UnavailableError, match=r"stayed so for 0\.5 s; this step was not recorded"):
        reservation.charge()
    freezer.thaw()
    open_ledger(place.location).verify()
    head = reservation.charge()  # what was not recorded can be tried again
    reservation.commit("an artefact")
    ledger.verify(head=head, artefact="an artefact")
    assert ledger.show(DATASET).spent.units == ledger.price(EPSILON, DELTA)


@SQUARES_FIRST
def test_a_commit_that_nobody_answers_says_that_it_is_unknown(server, freezer, accounting):
    place = PostgresPlace(server, next(_schemas))
    ledger = impatient(place, accounting=accounting)
    ledger.declare(DATASET, epsilon=1.0, delta=1e-6)
    store, total = ledger._store, dict(OTHER_TOTAL)
    if accounting == "gaussian":
        mu_of = mu(gaussian(1.0, 1e-6).alpha)
        total |= {"accounting": accounting, "mu": mu_of, "plain_epsilon": 0, "plain_delta": 0}
    row = Book().replay(entries(place)).write("declare", datetime.now(UTC), **total)

    def unheard():
        with store.write() as transaction:
            transaction.append(row)
            freezer(*backends(server, place.schema))

    with pytest.raises(UnavailableError) as found:
        unheard()
    assert "whether this step was recorded is unknown: ledger.show(DATASET)" in str(found.value)
    assert "not recorded" not in str(found.value)
    freezer.thaw()
    spend(open_ledger(place.location, accounting=accounting))  # waits for it
    assert ledger.datasets() == (DATASET, "others")  # here it was
    assert ledger.standing("others").gaussian == (accounting == "gaussian")


OTHER_TOTAL = {"dataset": "others", "epsilon": 10**12, "delta": 10**12, **DECLARED}


def test_a_frozen_server_is_given_up_while_connecting(server, freezer):
    place = PostgresPlace(server, next(_schemas))
    impatient(place).declare(DATASET, epsilon=1.0, delta=1e-6)
    ledger = impatient(place)  # one that has no connection yet
    freezer(server.process.pid)
    with pytest.raises(UnavailableError, match=r"does not answer \(.*timeout expired.*try again"):
        ledger.show(DATASET)
    freezer.thaw()
    spend(ledger)


def test_a_writer_that_stands_still_is_ended_by_the_server(server):
    """Its lock would keep everybody out for as long as its connection lives."""
    place = PostgresPlace(server, next(_schemas))
    ledger = impatient(place, idle=0.2)
    ledger.declare(DATASET, epsilon=1.0, delta=1e-6)

    def stand_still():
        with ledger._store.write() as transaction:
            spend(open_ledger(place.location))  # can only go on once the other was ended
            list(transaction.rows())

    with pytest.raises(UnavailableError, match="not recorded"):
        stand_still()
    assert str(ledger.show(DATASET).spent) == "epsilon 0.1, delta 1e-7"


def test_every_limit_of_a_server_is_set_and_documented(server):
    place = PostgresPlace(server, next(_schemas))
    open_ledger(place.location).declare(DATASET, epsilon=1.0, delta=1e-6)
    named = ("lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout")
    page = (Path(__file__).parents[2] / "docs" / "ledger.md").read_text()
    store = PostgresStore(place.location, 30.0)
    for begun, expected in (
        (store.write, ("30s", "50s", "20s")),
        (store.read, ("30s", "10min", "10min")),
    ):
        with begun() as transaction:
            asked = ", ".join(f"current_setting('{name}')" for name in named)
            assert transaction._execute(f"SELECT {asked}").fetchone() == expected
    with closing(store._server.connect()) as connection:
        sent = connection.info.get_parameters()
    assert (
        TIME_LIMITS.parameters().items()
        <= {key: int(v) for key, v in sent.items() if v.isdigit()}.items()
    )
    for name in (*named, *TIME_LIMITS.parameters()):
        assert f"`{name}`" in page, name


def test_a_server_that_does_not_sync_is_refused(server):
    place = PostgresPlace(server, next(_schemas))
    server.execute("ALTER SYSTEM SET fsync = off")
    server.execute("SELECT pg_reload_conf()")
    try:
        server.wait_for("fsync", "off")
        with pytest.raises(LedgerError, match="fsync = off"):
            open_ledger(place.location).declare(DATASET, epsilon=1.0, delta=1e-6)
    finally:
        server.execute("ALTER SYSTEM RESET fsync")
        server.execute("SELECT pg_reload_conf()")
        server.wait_for("fsync", "on")


def test_no_password_is_ever_shown(server):
    address = f"postgresql://nobody:tr%40p@/none?host={quote(str(server.folder))}&password=s3cret"
    with pytest.raises(LedgerError) as found:
        open_ledger(address).declare(DATASET, epsilon=1.0, delta=1e-6)
    shown = str(found.value)
    assert not {"tr@p", "tr%40p", "s3cret"} & set(re.findall(r"[\w@%]+", shown))
    with pytest.raises(LedgerError, match="malformed") as found:
        open_ledger("postgresql://me:s3cret@host:port/x?no=good")
    assert "s3cret" not in str(found.value)
