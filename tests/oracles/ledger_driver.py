"""Processes that race for a budget, or run out of disk; and events at which to kill them.

Run as a program, so that each process that dies is forked from one that has imported everything and
has no threads::

    python ledger_driver.py race LOCATIONS ROUNDS UNITS PROCESSES   (LOCATIONS: one, or several
                                                          names of one ledger with | in between)
    python ledger_driver.py starve LOCATION MODE
    python ledger_driver.py hold FILE

The answer is one JSON object a line. An *event* is the moment before a statement reaches the
database, before a file is synced or closed, and after each step of a release.
"""

import contextlib
import functools
import json
import math
import multiprocessing
import os
import resource
import secrets
import signal
import sqlite3
import sys
import time
from pathlib import Path

from oracles.ledgers import DATASET, DELTA, EPSILON, WHOM, charge, request, spend, text_of
from privalue.core.calibration import gaussian
from privalue.errors import PrivalueError, UnavailableError
from privalue.ledger import open_ledger, store, study_hash

SETTINGS = ("PRAGMA", "SELECT set_config")
PLANTED = "LEDGER_PLANTED_MISTAKE"
ACCOUNTING = "LEDGER_ACCOUNTING"  # "plain", if it is not set


def total_of(units):
    """A total that has room for so many releases."""
    if os.environ.get(ACCOUNTING) == "gaussian":
        return {"epsilon": 1.0, "delta": 1e-6, **WHOM, "accounting": "gaussian"}
    return {"epsilon": EPSILON * units, "delta": DELTA * units, **WHOM}


def request_for(units, study, dataset=DATASET):
    """The request of a release, of which so many fit into the total."""
    if os.environ.get(ACCOUNTING) == "gaussian":
        alpha = math.sqrt(units) * gaussian(1.0, 1e-6).alpha
        return request(study, epsilon=1.0, delta=1e-6, alpha=alpha, dataset=dataset)
    return request(study, dataset=dataset)


def say(**words):
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()


# Killed at every step


class Events:
    """Count events, and kill this very process when the count is reached."""

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
            sql = next((str(argument) for argument in arguments if isinstance(argument, str)), "")
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


# Racing for the last unit


def race(locations, rounds, units, processes):
    """All try to make the ledger; then each round a new dataset has room for ``units``."""
    context = multiprocessing.get_context("fork")
    barrier, answers = context.Barrier(processes), context.SimpleQueue()
    names = locations.split("|")

    def runner(me):
        mine = open_ledger(names[me % len(names)])
        barrier.wait()
        answers.put((-1, me, *_declare(mine, f"first-{me}", 1)))
        for turn in range(rounds):
            if turn % processes == me:
                answers.put((-1, me, *_declare(mine, f"{DATASET}-{turn}", units)))
            barrier.wait()
            answers.put((turn, me, *_ask(mine, turn, me, units)))

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


def _ask(ledger, turn, me, units):
    identical = os.environ.get("LEDGER_IDENTICAL") == "1"
    study = study_hash({"turn": turn, "process": 0 if identical else me})
    release = request_for(units, study, f"{DATASET}-{turn}")
    if os.environ.get(PLANTED, "").startswith("torn"):
        ledger = open_ledger(ledger.place)
        ledger._store.transaction = functools.partial(_torn, ledger._store)
    try:
        earlier = ledger.find(release)
        if earlier is not None and earlier.release is not None:
            return "stored", earlier.release
        return "granted", spend(ledger, release)[0]
    except PrivalueError as problem:
        return type(problem).__name__, str(problem)


# Planted mistakes, to see that the race finds them


@contextlib.contextmanager
def _torn(self, *, write=False):
    """A client that reads in one transaction, and writes in another what follows from it."""
    with store.SqliteStore.transaction(self) as execute:
        inserts = []

        def delay_inserts(sql, values=()):
            if sql.startswith("INSERT"):
                inserts.append((sql, values))
                return None
            return execute(sql, values)

        yield delay_inserts
    if inserts:
        time.sleep(0.02)
        with store.SqliteStore.transaction(self, write=True) as execute:
            (last,) = execute("SELECT coalesce(max(sequence), 0) FROM ledger_entries").fetchone()
            for sql, values in inserts:
                is_entry = "ledger_entries" in sql
                execute(sql, (last + 1, *values[1:]) if is_entry else values)


def plant(mistake):
    """Make ledgers without the rules about sums."""
    if mistake.endswith("without rules"):
        text = store._SQLITE.read_text("utf-8")
        begin, end = text.index("CREATE TRIGGER ledger_follows"), text.index("-- INSERT OR REPLACE")
        text = text[:begin] + text[end:]
        text = text.replace(
            "spent_epsilon <= total_epsilon AND spent_delta <= total_delta"
            " AND spent_mu2 <= total_mu2",
            "TRUE",
        )
        rules = Path(os.environ["LEDGER_RULES"])
        rules.write_text(text)
        store._SQLITE = rules


# Disks that are full, files that are locked


def starve(location, mode):
    """A release on a disk that is full, from the beginning or from the commit on."""
    ledger = open_ledger(location, wait=0.2)
    if mode == "full":
        _limit()
    entry = _tell(lambda: charge(ledger, request_for(10, "a" * 64)))
    if entry is not None:
        _limit()
        _tell(lambda: ledger.commit(entry, text_of(entry, pad="x" * 10**5)))


def _limit():
    """No file may grow any more."""
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
    """Keep the file locked until a line comes on stdin."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN EXCLUSIVE")
    say(locked=True)
    sys.stdin.readline()
    connection.close()


def write(location, number):
    """Charge and commit, again and again; repeat what is not answered."""
    ledger = open_ledger(location)
    say(ready=True)
    for turn in range(int(number)):
        release = request_for(10**4, study_hash({"by": os.getpid(), "turn": turn}))
        token = secrets.token_hex(8)
        entry = _patiently(lambda release=release, token=token: ledger.charge(release, token=token))
        _patiently(lambda entry=entry: ledger.commit(entry, text_of(entry)))
        say(head=entry.head)


def _patiently(action):
    while True:
        try:
            return action()
        except UnavailableError:
            time.sleep(0.05)


def main(arguments):
    plant(os.environ.get(PLANTED, ""))
    command, *rest = arguments
    if command == "race":
        race(rest[0], *map(int, rest[1:]))
    else:
        {"starve": starve, "hold": hold, "write": write}[command](*rest)


if __name__ == "__main__":
    main(sys.argv[1:])
