"""Measure the ledger: releases a second, the longest wait, and the work of one release.

For SQLite, and for PostgreSQL where its server is installed. A ledger of 300 entries has 16
processes that each charge and commit as fast as they can. What one release takes is measured at 300
entries and at 10^6, and so are ``show`` and ``declare``.
"""

import json
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
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import quote

from rich.table import Table

from benchmarks.clock import MISSED
from privalue.ledger import Ledger, ReleaseRequest, open_ledger, study_hash
from privalue.ledger.entries import canonical_json, sha256

WRITERS, SECONDS = 16, 15.0
SHORT, LONG = 300, 1_000_000  # entries
LEAST_RATE, MOST_WAIT, MOST_LOOK = 20.0, 3.0, 0.050
NO_SLOWER = 1.25  # at 10^6 entries than at 300: a busy machine differs by so much from itself
DATASET = "people"
WHOM = {"unit": "trajectory", "neighbours": "replace-one"}
TOTAL = {"epsilon": 1e6, "delta": 0.1, "unit": "trajectory"}

Row = tuple[int, str, str]
Load = Callable[[list[Row], list[tuple[str, str]]], None]


def tables() -> Iterator[Table]:
    """One table."""
    table = Table(title="The ledger", caption=f"{WRITERS} writers for {SECONDS:g} s; fsync is on")
    for heading in ("what", "store", "entries", "measured", "bar", ""):
        table.add_column(heading)
    with tempfile.TemporaryDirectory() as folder:
        for store, place in (("SQLite", _sqlite(Path(folder))), ("PostgreSQL", _postgres())):
            with place as pair:
                for what, entries, measured, bar, met in [] if pair is None else _figures(*pair):
                    if not met:
                        MISSED.append(f"ledger, {store}, {what}: {measured}, bar {bar}")
                    table.add_row(what, store, entries, measured, bar, "" if met else "MISSED")
    yield table


def _figures(make: Callable[[int], tuple[str, Load]]) -> Iterator[tuple[str, str, str, str, bool]]:
    """Yield what was measured in one store, its bar, and whether it is met."""
    short, load = make(1)
    _fill(short, load, SHORT)
    rate, wait = race(short)
    yield "releases a second", f"{SHORT}", f"{rate:.0f}", f"{LEAST_RATE:g}", rate >= LEAST_RATE
    yield "longest wait", f"{SHORT}", f"{wait:.2f} s", f"{MOST_WAIT:g} s", wait <= MOST_WAIT
    long, load = make(2)
    _fill(long, load, LONG)
    before, after = _work(short), _work(long)  # in the same minute
    bar = NO_SLOWER * before
    yield "charge and commit", f"{SHORT}", f"{1e3 * before:.1f} ms", "none", True
    yield (
        "charge and commit",
        f"{LONG:,}",
        f"{1e3 * after:.1f} ms",
        f"{1e3 * bar:.1f} ms",
        after <= bar,
    )
    ledger = open_ledger(long)
    for what, look in (
        ("show", ledger.accounts),
        ("declare", lambda: ledger.declare(f"new-{time.monotonic_ns()}", **TOTAL)),
    ):
        took = median(_time(look) for _ in range(20))
        bar = MOST_LOOK
        yield what, f"{LONG:,}", f"{1e3 * took:.1f} ms", f"{1e3 * bar:g} ms", took <= bar
    yield "verify", f"{LONG:,}", f"{_time(ledger.verify):.0f} s", "none", True


def _time(action: Callable[[], Any]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def chain(first: Row, entries: int) -> Iterator[tuple[list[Row], list[tuple[str, str]]]]:
    """Yield what follows a total in a ledger of so many entries, some at a time, with releases."""
    number, body, head = first
    entry = json.loads(body)
    fields = {key: entry[key] for key in entry if key.startswith(("total_", "spent_", "cost_"))}
    fields |= {key: entry[key] for key in ("format", "at", "author", "dataset", "salt", "releases")}
    rows: list[Row] = []
    texts: list[tuple[str, str]] = []

    def add(kind: str, **own: Any) -> None:
        nonlocal number, head
        number += 1
        text = canonical_json({**fields, "previous": head, "kind": kind, **own})
        head = sha256(text)
        rows.append((number, text, head))

    while number < entries:
        fields["spent_epsilon"] += 10**6
        fields["releases"] += 1
        add(
            "charge",
            **{"cost_epsilon": 10**6, "promise": [10**6, 0], **WHOM, "alpha": None, "steps": 1},
            **{"request": sha256(f"{number}"), "what": "x", "is_foreign": False, "token": head},
        )
        text = json.dumps({"ledger_head": head})
        texts.append((sha256(text), text))
        add("commit", charge=number, release=texts[-1][0])
        if len(rows) > 50_000 or number >= entries:
            yield rows, texts
            rows, texts = [], []


def _fill(location: str, load: Load, entries: int) -> None:
    """Make a ledger and fill it with rows that were not written one by one."""
    ledger = open_ledger(location)
    ledger.declare(DATASET, **TOTAL)
    with ledger._store.transaction() as execute:
        first = execute("SELECT sequence, body, hash FROM ledger_entries").fetchone()
    for rows, texts in chain(first, entries):
        load(rows, texts)


def _release(ledger: Ledger, name: dict[str, int]) -> float:
    """Charge and commit; return the longer of the two, in seconds."""
    promise = {"epsilon": 1e-6, "delta": 1e-15, **WHOM}
    request = ReleaseRequest(dataset=DATASET, study=study_hash(name), what="x", **promise)
    start = time.perf_counter()
    charge = ledger.charge(request, token=f"{name}")
    between = time.perf_counter()
    ledger.commit(charge, json.dumps({"ledger_head": charge.head}))
    return max(between - start, time.perf_counter() - between)


def race(location: str, seconds: float = SECONDS) -> tuple[float, float]:
    """Return releases a second of all writers, and the longest that any of them waited."""
    context = multiprocessing.get_context("fork")
    start, answers = context.Barrier(WRITERS), context.SimpleQueue()

    def writer(me: int) -> None:
        ledger = open_ledger(location)
        start.wait()
        end, count, longest = time.monotonic() + seconds, 0, 0.0
        while time.monotonic() < end:
            longest = max(longest, _release(ledger, {"writer": me, "release": count}))
            count += 1
        answers.put((count, longest))

    writers = [context.Process(target=writer, args=(me,)) for me in range(WRITERS)]
    for process in writers:
        process.start()
    for process in writers:
        process.join()
    if any(process.exitcode for process in writers):
        raise SystemExit("a writer failed")
    results = [answers.get() for _ in writers]
    return sum(count for count, _ in results) / seconds, max(wait for _, wait in results)


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

        def load(rows: list[Row], texts: list[tuple[str, str]]) -> None:
            with closing(sqlite3.connect(location)) as connection, connection:  # rules in force
                insert = "INSERT INTO ledger_{} VALUES ({})"
                connection.executemany(insert.format("releases (hash, text)", "?, ?"), texts)
                connection.executemany(
                    insert.format("entries (sequence, body, hash)", "?, ?, ?"), rows
                )

        return location, load

    yield (make,)


@contextmanager
def _postgres() -> Iterator[Any]:
    """Yield what makes ledgers on a server of its own, or None where there is none."""
    candidates = [shutil.which("initdb"), *Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    programs = [Path(program).resolve().parent for program in candidates if program]
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
    arguments = [
        "--no-sync",
        "--encoding=UTF8",
        "--locale=C",
        "--auth=trust",
        "--username=keeper",
        "-D",
        str(data),
    ]
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

        def load(rows: list[Row], texts: list[tuple[str, str]]) -> None:
            with psycopg.connect(location) as connection:  # with its rules in force
                for table, lines in (
                    ("releases (hash, text)", texts),
                    ("entries (sequence, body, hash)", rows),
                ):
                    with connection.cursor().copy(f"COPY ledger_{table} FROM STDIN") as target:
                        for line in lines:
                            target.write_row(line)

        return location, load

    try:
        yield (make,)
    finally:
        server.send_signal(signal.SIGINT)
        server.wait()
        shutil.rmtree(folder, ignore_errors=True)
