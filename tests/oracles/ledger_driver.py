"""Processes that race for a budget, or are killed at any step, or lack what they need.

Run as a program, so that what dies is a process of its own, forked from one that has imported
everything and has no threads::

    python ledger_driver.py race LOCATION ROUNDS UNITS PROCESSES
    python ledger_driver.py crash FOLDER LOCATION KILLS   (LOCATION with {} for a run's number)
    python ledger_driver.py once LOCATION OUT         (LEDGER_CRASH_AT=n kills it at event n)
    python ledger_driver.py starve LOCATION MODE
    python ledger_driver.py hold FILE

The answer is one JSON object a line. An *event* is the moment before a statement reaches the
database, before a file is synced, linked or closed, and after each step of a release.
"""

import contextlib
import itertools
import json
import math
import multiprocessing
import os
import random
import resource
import signal
import sqlite3
import sys
import time
from pathlib import Path

from privalue.core import gaussian
from privalue.errors import PrivalueError
from privalue.ledger import Reservation, StoredRelease, _book, open_ledger, study_hash
from privalue.ledger._sqlite import SQL, SqliteStore
from privalue.ledger._store import Transaction

EPSILON, DELTA = 0.1, 1e-7
WHOM = {"unit": "trajectory", "neighbours": "replace-one"}
COST = {"epsilon": EPSILON, "delta": DELTA, **WHOM, "strict": False}  # short texts are stored
DATASET = "people"
CRASH_AT = "LEDGER_CRASH_AT"
SETTINGS = ("PRAGMA synchronous", "PRAGMA fullfsync", "SHOW", "SELECT set_config")
PLANTED = "LEDGER_PLANTED_MISTAKE"
ACCOUNTING = "LEDGER_ACCOUNTING"  # "plain", if not said
PERIOD = "LEDGER_PERIOD"  # entries from one snapshot to the next, if not the usual number


def total_of(units):
    """A total that has room for so many releases."""
    if os.environ.get(ACCOUNTING) == "gaussian":
        return {"epsilon": 1.0, "delta": 1e-6, **WHOM, "accounting": "gaussian"}
    return {"epsilon": EPSILON * units, "delta": DELTA * units, **WHOM}


def cost_of(units):
    """What a release asks for, of which so many fit into the total."""
    if os.environ.get(ACCOUNTING) == "gaussian":
        alpha = math.sqrt(units) * gaussian(1.0, 1e-6).alpha
        return {**COST, "epsilon": 1.0, "delta": 1e-6, "gaussian_alpha": alpha}
    return COST


def say(**words):
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()


# Killed at every step


class Events:
    """Counts, and kills this very process when the count is reached."""

    def __init__(self, crash_at, trace=None):
        self.crash_at, self.count, self.trace = crash_at, 0, trace

    def __call__(self, what):
        self.count += 1
        if self.trace is not None:
            os.write(self.trace, f"{what}\n".encode())
        if self.count == self.crash_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def around(self, function, name):
        def watched(*arguments, **options):
            sql = next((str(each) for each in arguments if isinstance(each, str)), "")
            if not sql.startswith(SETTINGS):
                self(" ".join(["before", name, *sql.split()[:3]]))
            return function(*arguments, **options)

        return watched

    def watch(self):
        events = self

        class Watched(sqlite3.Connection):
            execute = events.around(sqlite3.Connection.execute, "sqlite")
            close = events.around(sqlite3.Connection.close, "close")

        connect = sqlite3.connect
        sqlite3.connect = lambda *a, **o: connect(*a, factory=Watched, **o)
        os.link = self.around(os.link, "link")
        os.fsync = self.around(os.fsync, "fsync")
        with contextlib.suppress(ImportError):
            import psycopg

            for name in ("execute", "close"):
                method = getattr(psycopg.Connection, name)
                setattr(psycopg.Connection, name, self.around(method, "postgres"))


def one_release(location, out, event):
    """Everything from a total to a published artefact; ``out`` is the world outside."""
    ledger = open_ledger(location)
    ledger.declare(DATASET, **total_of(10))
    event("declared")
    request = study_hash({"study": "killed"})
    with ledger.reserve(DATASET, request, **cost_of(10)) as reservation:
        event("reserved")
        head = reservation.charge()
        event("charged")
        artefact = json.dumps({"values": [1.0, 2.0], "ledger": head})
        event("drawn")
        reservation.commit(artefact)
    event("committed")
    Path(out).write_text(artefact)
    event("published")


def once(location, out):
    event = Events(int(os.environ.get(CRASH_AT, "0")))
    event.watch()
    one_release(location, out, event)


def crash(folder, pattern, kills):
    """At every event, or at ``kills`` of them; then as often when the process does not choose."""
    moments = random.Random(20260101)  # seeds choose when to kill, nothing else
    runs = itertools.count(1)

    def release(crash_at=0, after=None):
        run = next(runs)
        out = Path(folder) / f"published-{run}"
        died, events = _forked(pattern.format(run), out, crash_at, after)
        say(run=run, killed=died, last=events[-1] if events else "nothing")
        return events

    started = time.monotonic()
    steps = len(release())
    longest = time.monotonic() - started
    for at in moments.sample(range(1, steps + 1), min(kills, steps)):
        release(crash_at=at)
    for _ in range(kills):
        release(after=moments.uniform(0, longest))


def _forked(location, out, crash_at, after):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(reader)
            event = Events(crash_at, writer)
            event.watch()
            one_release(location, out, event)
            code = 0
        finally:
            os._exit(code)
    os.close(writer)
    if after is not None:
        time.sleep(after)
        os.kill(child, signal.SIGKILL)
    with os.fdopen(reader) as trace:
        events = trace.read().splitlines()
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) != 0:
        raise RuntimeError(f"the release failed after {events[-3:]}")
    return os.WIFSIGNALED(status), events


# Racing for the last unit


def race(location, rounds, units, processes):
    """Who makes the ledger first; then each round a new dataset has room for ``units``."""
    context = multiprocessing.get_context("fork")
    barrier, answers = context.Barrier(processes), context.SimpleQueue()

    def runner(me):
        mine = open_ledger(location)
        barrier.wait()
        answers.put((-1, me, *_declare(mine, f"first-{me}", 1)))
        for turn in range(rounds):
            if turn % processes == me:
                answers.put((-1, me, *_declare(mine, f"{DATASET}-{turn}", units)))
            barrier.wait()
            answers.put((turn, me, *_ask(mine, turn, me, cost_of(units))))

    runners = [context.Process(target=runner, args=(me,)) for me in range(processes)]
    for process in runners:
        process.start()
    for _ in range(rounds * processes + rounds + processes):
        turn, me, kind, text = answers.get()
        say(turn=turn, process=me, kind=kind, text=text)
    for process in runners:
        process.join()


def _declare(ledger, dataset, units):
    try:
        ledger.declare(dataset, **total_of(units))
    except PrivalueError as problem:
        return type(problem).__name__, str(problem)
    return "declared", dataset


def _ask(ledger, turn, me, cost):
    identical = os.environ.get("LEDGER_IDENTICAL") == "1"
    request = study_hash({"turn": turn, "process": 0 if identical else me})
    try:
        granted = ledger.reserve(f"{DATASET}-{turn}", request, **cost)
        if isinstance(granted, StoredRelease):
            return "stored", granted.artefact
        artefact = json.dumps({"turn": turn, "process": me, "ledger": granted.charge()})
        granted.commit(artefact)
        return "granted", artefact
    except PrivalueError as problem:
        return type(problem).__name__, str(problem)


# Planted mistakes, to see that the race finds them


@contextlib.contextmanager
def _deferred(store):
    """Reads first, takes the write lock later."""
    with store.read() as transaction:
        append = transaction.append

        def late(row):
            time.sleep(0.02)
            append(row)

        transaction.append = late
        yield transaction


@contextlib.contextmanager
def _torn(store):
    """Reads in one transaction and writes in another, with the next number at that time."""
    with store.read() as transaction:
        rows = list(transaction.rows())
    time.sleep(0.02)
    with sqlite3.connect(store.place, timeout=30, isolation_level=None) as connection:
        connection.execute("DROP TRIGGER IF EXISTS ledger_entries_follow")
        insert = "INSERT INTO ledger_entries SELECT max(sequence) + 1, ?, ?, ? FROM ledger_entries"

        class Torn(Transaction):
            def rows(self, after=0):
                return [row for row in rows if row[0] > after]

            def row(self, sequence):
                return next((row for row in rows if row[0] == sequence), None)

            def append(self, row):
                connection.execute(insert, row[1:])

        yield Torn(connection.execute, SQL)
    connection.close()


# Places that do not do


def starve(location, mode):
    """A release on a disk that is full, or in a folder that cannot be written."""
    ledger = open_ledger(location, wait=0.2)
    if mode in {"full", "full-at-commit"}:
        if mode == "full":
            _limit(ledger)
        granted = _tell(lambda: ledger.reserve(DATASET, "a" * 64, **cost_of(10)))
        if isinstance(granted, Reservation):
            _tell(granted.charge)
            _limit(ledger)
            _tell(lambda: granted.commit(json.dumps({"ledger": granted.head, "pad": "x" * 10**5})))
    else:
        if os.geteuid() == 0:  # root may write anywhere
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
        if mode == "declare":
            _tell(lambda: ledger.declare(DATASET, epsilon=1.0, delta=1e-6, **WHOM))
        else:
            _tell(lambda: ledger.reserve(DATASET, "a" * 64, **COST))
            _tell(lambda: ledger.show(DATASET))


def _limit(ledger):
    """No file may grow any more: the write-ahead log is full at once."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))


def _tell(action):
    try:
        result = action()
    except PrivalueError as problem:
        say(error=type(problem).__name__, code=problem.exit_code, text=str(problem))
        return None
    say(error=None, code=0, text="")
    return result


def hold(path):
    """Keeps the file locked until somebody writes a line."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN EXCLUSIVE")
    say(held=True)
    sys.stdin.readline()
    connection.close()


def main(arguments):
    _book.PERIOD = int(os.environ.get(PERIOD, str(_book.PERIOD)))
    planted = {"deferred": _deferred, "torn": _torn}.get(os.environ.get(PLANTED, ""))
    if planted is not None:
        SqliteStore.write = planted
    command, *rest = arguments
    if command == "race":
        race(rest[0], *map(int, rest[1:]))
    elif command == "crash":
        crash(*rest[:2], int(rest[2]))
    else:
        {"once": once, "starve": starve, "hold": hold}[command](*rest)


if __name__ == "__main__":
    main(sys.argv[1:])
