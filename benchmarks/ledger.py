"""Measure the ledger: releases a second, the longest wait, and the work of one release.

For SQLite, and for PostgreSQL where its server is installed. A ledger of 10^5 entries has 16
processes that each reserve, charge and commit as fast as they can; one of 10^6 has a single one.
"""

import multiprocessing
import os
import pwd
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import quote

from rich.table import Table

from benchmarks.clock import MISSED
from privalue.ledger import Reservation, open_ledger, study_hash
from privalue.ledger._book import Book
from privalue.ledger._chain import EntryRow, sha256

WRITERS, SECONDS = 16, 15.0
BUSY, LONG = 100_000, 1_000_000  # entries
LEAST_RATE, MOST_WAIT, MOST_WORK = 20.0, 3.0, 0.050
DATASET = "people"
WHOM = {"unit": "trajectory", "neighbours": "replace-one"}
COST = {"epsilon": 1e-6, "delta": 1e-15, **WHOM}

Load = Callable[[list[EntryRow], list[tuple[str, str]]], None]


def tables() -> Iterator[Table]:
    """One table."""
    table = Table(title="The ledger", caption=f"{WRITERS} writers for {SECONDS:g} s; fsync is on")
    for heading in ("what", "store", "entries", "measured", "bar", ""):
        table.add_column(heading)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PRIVALUE_STATE"] = folder  # not the user's own: these ledgers come and go
        for store, place in (("SQLite", _sqlite(Path(folder))), ("PostgreSQL", _postgres())):
            with place as made:
                for what, entries, measured, bar, met in [] if made is None else _figures(*made):
                    if not met:
                        MISSED.append(f"ledger, {store}, {what}: {measured}, bar {bar}")
                    table.add_row(what, store, entries, measured, bar, "" if met else "MISSED")
    yield table


def _figures(make: Callable[[int], tuple[str, Load]]) -> Iterator[tuple[str, str, str, str, bool]]:
    """Yield what was measured in one store, its bar, and whether it is met."""
    location, load = make(1)
    _fill(location, load, BUSY)
    rate, wait = race(location)
    entries = f"{BUSY:,}"
    yield "releases a second", entries, f"{rate:.0f}", f"{LEAST_RATE:g}", rate >= LEAST_RATE
    yield "longest wait", entries, f"{wait:.2f} s", f"{MOST_WAIT:g} s", wait <= MOST_WAIT
    location, load = make(2)
    _fill(location, load, LONG)
    work = _work(location)
    met = work <= MOST_WORK
    yield "work of a release", f"{LONG:,}", f"{1e3 * work:.1f} ms", f"{1e3 * MOST_WORK:g} ms", met
    started = time.perf_counter()
    open_ledger(location).verify(strict=False)
    yield "verify", f"{LONG:,}", f"{time.perf_counter() - started:.0f} s", "none", True


def chain(entries: int) -> Iterator[tuple[list[EntryRow], list[tuple[str, str]]]]:
    """Yield the rows of a ledger with so many entries, and their artefacts, some at a time."""
    at, book = datetime(2026, 1, 1, tzinfo=UTC), Book()
    rows = [book.write("begin", at, format=3, sealed=False)]
    total = {"epsilon": 10**18, "delta": 10**17, "trajectories_per_person": 0}
    rows.append(book.write("declare", at, dataset=DATASET, **total, **WHOM, accounting="plain"))
    kept: list[tuple[str, str]] = []
    cost = {"epsilon": 10**6, "delta": 10**3, **WHOM, "mu": "none", "steps": 1}
    while book.sequence < entries:
        request = {"dataset": DATASET, "study": study_hash({"number": book.sequence})}
        rows.append(book.write("reserve", at, **request, **cost, process="1@here"))
        number, text = book.sequence, f'{{"number": {book.sequence}}}'
        book.reservations = dict(book.pending)  # this one book need not remember what is over
        kept.append((sha256(text), text))
        rows.append(book.write("charge", at, reservation=number))
        commit = {"reservation": number, "artefact": kept[-1][0], **request}
        rows.append(book.write("commit", at, **commit))
        book.balances[DATASET].steps.clear()
        if book.due:
            rows.append(book.write("snapshot", at, state=book.state()))
        if len(rows) > 50_000 or book.sequence >= entries:
            yield rows, kept
            rows, kept = [], []


def _fill(location: str, load: Load, entries: int) -> None:
    """Make a ledger and fill it with rows that were not written one by one."""
    remembered = os.environ["PRIVALUE_STATE"]
    with tempfile.TemporaryDirectory() as forgotten:  # that another ledger was there for a moment
        os.environ["PRIVALUE_STATE"] = forgotten
        open_ledger(location).declare(DATASET, epsilon=1.0, delta=1e-6, unit="trajectory")
    for rows, kept in chain(entries):
        load(rows, kept)
    os.environ["PRIVALUE_STATE"] = remembered


def _release(ledger: Any, name: dict[str, int]) -> float:
    """Reserve, charge and commit; return the longest of the three, in seconds."""
    waits = []
    started = time.perf_counter()
    reservation = ledger.reserve(DATASET, study_hash(name), **COST)
    assert isinstance(reservation, Reservation)
    for step in (reservation.charge, lambda: reservation.commit(f'{{"of": "{name}"}}'), None):
        waits.append(time.perf_counter() - started)
        started = time.perf_counter()
        if step is not None:
            step()
    return max(waits)


def race(location: str, seconds: float = SECONDS) -> tuple[float, float]:
    """Return releases a second of all writers, and the longest that any of them waited."""
    context = multiprocessing.get_context("fork")
    start, answers = context.Barrier(WRITERS), context.SimpleQueue()

    def writer(me: int) -> None:
        ledger = open_ledger(location)
        start.wait()
        end, done, longest = time.monotonic() + seconds, 0, 0.0
        while time.monotonic() < end:
            longest = max(longest, _release(ledger, {"writer": me, "release": done}))
            done += 1
        answers.put((done, longest))

    writers = [context.Process(target=writer, args=(me,)) for me in range(WRITERS)]
    for process in writers:
        process.start()
    for process in writers:
        process.join()
    if any(process.exitcode for process in writers):
        raise SystemExit("a writer failed")
    told = [answers.get() for _ in writers]
    return sum(done for done, _ in told) / seconds, max(wait for _, wait in told)


def _work(location: str, releases: int = 300) -> float:
    """Return the seconds of one release, the median of many, each by a client of its own."""
    times = []
    for number in range(releases):
        ledger = open_ledger(location)
        started = time.perf_counter()
        _release(ledger, {"alone": number})
        times.append(time.perf_counter() - started)
    return median(times)


@contextmanager
def _sqlite(folder: Path) -> Iterator[Any]:
    def make(number: int) -> tuple[str, Load]:
        location = str(folder / f"ledger-{number}.db")

        def load(rows: list[EntryRow], kept: list[tuple[str, str]]) -> None:
            with closing(sqlite3.connect(location)) as connection, connection:
                (trigger,) = connection.execute(
                    "SELECT sql FROM sqlite_master WHERE name = 'ledger_entries_follow'"
                ).fetchone()
                connection.execute("DROP TRIGGER ledger_entries_follow")
                if rows[0][0] == 1:
                    connection.execute("DROP TRIGGER ledger_entries_DELETE")
                    connection.execute("DELETE FROM ledger_entries")
                insert = "INSERT INTO ledger_{} VALUES ({})"
                connection.executemany(insert.format("entries", "?, ?, ?, ?"), rows)
                connection.executemany(insert.format("artefacts", "?, ?"), kept)
                connection.execute(trigger)

        return location, load

    yield (make,)


@contextmanager
def _postgres() -> Iterator[Any]:
    """Yield what makes ledgers on a server of its own, or None where there is none."""
    found = [shutil.which("initdb"), *Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    programs = [Path(each).resolve().parent for each in found if each]
    if not programs:
        yield None
        return
    import psycopg  # noqa: PLC0415 - an extra

    folder = Path(tempfile.mkdtemp(prefix="ledger-bench-"))
    user: dict[str, Any] = {}
    if os.geteuid() == 0:  # the server refuses to run as root
        nobody = pwd.getpwnam("postgres")
        os.chown(folder, nobody.pw_uid, nobody.pw_gid)
        user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
    data = folder / "data"
    arguments = ["--no-sync", "--auth=trust", "--username=keeper", "-D", str(data)]
    subprocess.run(
        [programs[-1] / "initdb", *arguments], check=True, capture_output=True, cwd=folder, **user
    )
    server = subprocess.Popen(
        [programs[-1] / "postgres", "-D", data, "-k", folder, "-c", "listen_addresses="],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        **user,
    )
    base = f"postgresql://keeper@/postgres?host={quote(str(folder))}"

    def make(number: int) -> tuple[str, Load]:
        while True:
            try:
                with psycopg.connect(base, autocommit=True) as connection:
                    connection.execute(f"CREATE SCHEMA ledger_{number}")
                break
            except psycopg.OperationalError:
                time.sleep(0.1)
        location = f"{base}&options={quote(f'-csearch_path=ledger_{number}')}"

        def load(rows: list[EntryRow], kept: list[tuple[str, str]]) -> None:
            with psycopg.connect(location) as connection:
                connection.execute("ALTER TABLE ledger_entries DISABLE TRIGGER USER")
                if rows[0][0] == 1:
                    connection.execute("DELETE FROM ledger_entries")
                for table, width, lines in (("entries", 4, rows), ("artefacts", 2, kept)):
                    columns = ("sequence, body, hash, seal", "hash, text")[width == 2]
                    copy = f"COPY ledger_{table} ({columns}) FROM STDIN"
                    with connection.cursor().copy(copy) as target:
                        for line in lines:
                            target.write_row(line)
                connection.execute("ALTER TABLE ledger_entries ENABLE TRIGGER USER")

        return location, load

    try:
        yield (make,)
    finally:
        server.send_signal(signal.SIGINT)
        server.wait()
        shutil.rmtree(folder, ignore_errors=True)
