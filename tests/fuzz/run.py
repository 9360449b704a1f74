"""Run every fuzzer and every suite that breaks things on purpose, and write down what happened.

``make fuzz`` does it: the fuzzers side by side, for minutes; then the suites. The result goes to
``docs/reliability.json``, and as a table to ``docs/reliability.md``.
"""

import argparse
import json
import multiprocessing
import os
import platform
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from rich.console import Console
from rich.table import Table

import fuzz
from fuzz.outcome import Outcome
from privalue.version import VERSION

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reliability.md"
RECORD = ROOT / "docs" / "reliability.json"
BEGIN, END = "<!-- made by make fuzz -->", "<!-- end of what make fuzz made -->"
PROCESSES = 2


@dataclass(frozen=True, kw_only=True)
class Suite:
    """Tests that break something on purpose, by what their names hold."""

    name: str
    files: tuple[str, ...]
    named: str
    repeated: str = ""  # how often, where a number says so


def suites(races: int, kills: int) -> list[Suite]:
    """Return the suites, and how often they repeat themselves."""
    stores = "tests/conformance/test_ledger_stores.py"
    return [
        Suite(
            name="races of eight processes for the last of a budget",
            files=(stores,),
            named="race or identical_requests",
            repeated=f"{races:,} rounds each, in SQLite and PostgreSQL",
        ),
        Suite(
            name="kill -9 in the middle of a release",
            files=(stores, "tests/ledger/test_curator_ledger.py"),
            named="kill",
            repeated=f"at {kills:,} steps or all, and {kills:,} random moments, in SQLite and "
            "PostgreSQL",
        ),
        Suite(
            name="a server that is stopped, restarted or frozen",
            files=(stores, "tests/conformance/test_sources.py"),
            named="(server and (killed or goes_away or answer)) or frozen or nobody_answers or "
            "stands_still",
        ),
        Suite(
            name="a disk that is full, a folder that cannot be written",
            files=(stores,),
            named="full_disk or cannot_be_written or nothing_can_be_made",
        ),
        Suite(
            name="entries changed, removed, reordered, inserted",
            files=(stores,),
            named="every_change or chain or corrupted or artefacts or emptied",
        ),
        Suite(
            name="queries and foreign database files that try to do more than read",
            files=("tests/conformance/test_no_door.py",),
            named="test",
        ),
    ]


def fuzzers() -> list[str]:
    """Return the names of the modules that have a fuzzer."""
    names = [found.name for found in iter_modules(fuzz.__path__)]
    modules = [f"fuzz.{name}" for name in names if not name.startswith(("_", "test_"))]
    return [name for name in modules if callable(getattr(import_module(name), "fuzz", None))]


def fuzzed(module: str, seed: int, seconds: float) -> Outcome:
    """Run one fuzzer; an error of its own is something found, too."""
    try:
        outcome: Outcome = import_module(module).fuzz(seed, seconds=seconds)
    except Exception as problem:
        name = module.removeprefix("fuzz.").replace("_", " ")
        found = (f"{name}, seed {seed}: the fuzzer failed: {type(problem).__name__}: {problem}",)
        return Outcome(name=name, tried=0, accepted=0, refused=0, seconds=0.0, found=found)
    return outcome


def run_fuzzers(seed: int, seconds: float) -> list[Outcome]:
    """Run all fuzzers on two processes, each with its share of the time and seeds of its own."""
    modules = fuzzers()
    share = seconds / len(modules)
    jobs = [(module, seed + process) for module in modules for process in range(PROCESSES)]
    with ProcessPoolExecutor(PROCESSES, multiprocessing.get_context("spawn")) as pool:
        waiting = [pool.submit(fuzzed, module, number, share) for module, number in jobs]
        return joined(each.result() for each in waiting)


def joined(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Add up the outcomes of the same name."""
    sums: dict[str, Outcome] = {}
    for one in outcomes:
        other = sums.get(one.name)
        sums[one.name] = one if other is None else _sum(other, one)
    return list(sums.values())


def _sum(one: Outcome, other: Outcome) -> Outcome:
    return Outcome(
        name=one.name,
        tried=one.tried + other.tried,
        accepted=one.accepted + other.accepted,
        refused=one.refused + other.refused,
        seconds=round(one.seconds + other.seconds, 1),
        found=one.found + other.found,
    )


def run_suite(suite: Suite, races: int, kills: int) -> dict[str, Any]:
    """Run the tests of a suite; a suite without a test has lost them, which counts as a failure."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
                *("--numprocesses", str(PROCESSES), f"--junitxml={report}"),
                *("-k", suite.named, *suite.files),
            ],
            cwd=ROOT,
            env={
                **os.environ,
                "PRIVALUE_LONG": "1",  # also what the usual suite leaves out
                "PRIVALUE_RACES": str(races),
                "PRIVALUE_KILLS": str(kills),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        counts = _counted(report)
    failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    if not counts["tests"] or (done.returncode and not failed):
        failed.append(f"{suite.name}: pytest ended with {done.returncode}")
    return {
        "name": suite.name,
        "repeated": suite.repeated,
        "passed": counts["tests"] - counts["failures"] - counts["errors"] - counts["skipped"],
        "skipped": counts["skipped"],
        "seconds": round(counts["time"], 1),
        "found": failed,
    }


def _counted(report: Path) -> dict[str, Any]:
    """Return the sums of a report of pytest."""
    counts: dict[str, Any] = dict.fromkeys(("tests", "failures", "errors", "skipped", "time"), 0)
    if report.exists():
        for suite in xml.etree.ElementTree.parse(report).getroot().iter("testsuite"):
            for key in counts:
                counts[key] += float(suite.get(key, 0)) if key == "time" else int(suite.get(key, 0))
    return counts


def table_of(record: dict[str, Any]) -> str:
    """Return what was tried, as Markdown."""
    ran = record["run"]
    found = [line for row in record["fuzzers"] + record["suites"] for line in row["found"]]
    lines = [
        BEGIN,
        "",
        f"Run on {ran['date']} with privalue {ran['version']}, Python {ran['python']}, seed "
        f"{ran['seed']}, {ran['seconds']:g} seconds of fuzzing on {PROCESSES} processes.",
        "",
        "| damaged | tried | answered | refused | found |",
        "|---|---|---|---|---|",
        *(
            f"| {row['name']} | {row['tried']:,} | {row['accepted']:,} | {row['refused']:,} "
            f"| {len(row['found'])} |"
            for row in record["fuzzers"]
        ),
        "",
        "| broken on purpose | how often | tests passed | failed |",
        "|---|---|---|---|",
        *(
            f"| {row['name']} | {row['repeated'] or 'once each'} | {row['passed']:,} "
            f"| {len(row['found'])} |"
            for row in record["suites"]
        ),
        "",
        *([f"- `{line}`" for line in found] or ["Nothing was found."]),
        "",
        END,
    ]
    return "\n".join(lines)


def shown(record: dict[str, Any]) -> Iterable[Table]:
    """Yield what was tried, as tables for a terminal."""
    damaged = Table("damaged", title=f"seed {record['run']['seed']}")
    for heading in ("tried", "answered", "refused", "seconds", "found"):
        damaged.add_column(heading, justify="right")
    for row in record["fuzzers"]:
        numbers = (row["tried"], row["accepted"], row["refused"], row["seconds"], len(row["found"]))
        damaged.add_row(row["name"], *(f"{number:,}" for number in numbers))
    yield damaged
    broken = Table("broken on purpose", "how often")
    for heading in ("passed", "seconds", "failed"):
        broken.add_column(heading, justify="right")
    for row in record["suites"]:
        numbers = (row["passed"], row["seconds"], len(row["found"]))
        broken.add_row(row["name"], row["repeated"], *(f"{number:,}" for number in numbers))
    yield broken


def main(arguments: Sequence[str] | None = None) -> int:
    """Run everything, and write it down; 1 if anything was found."""
    today = datetime.now(UTC).date()
    parser = argparse.ArgumentParser(prog="fuzz", description="Break privalue, if you can.")
    parser.add_argument("--seconds", type=float, default=600.0, help="of all fuzzers together")
    parser.add_argument("--seed", type=int, default=int(f"{today:%Y%m%d}00"))
    parser.add_argument("--races", type=int, default=20, help="rounds of each race")
    parser.add_argument("--kills", type=int, default=60, help="at random moments")
    parser.add_argument("--fuzzers-only", action="store_true", help="and write nothing down")
    given = parser.parse_args(arguments)
    outcomes = run_fuzzers(given.seed, given.seconds)
    ran = [] if given.fuzzers_only else suites(given.races, given.kills)
    record = {
        "run": {
            "date": today.isoformat(),
            "version": VERSION,
            "python": platform.python_version(),
            "seed": given.seed,
            "seconds": given.seconds,
        },
        "fuzzers": [{**asdict(each), "found": list(each.found)} for each in outcomes],
        "suites": [run_suite(suite, given.races, given.kills) for suite in ran],
    }
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    for table in shown(record):
        console.print(table)
    found = [line for row in record["fuzzers"] + record["suites"] for line in row["found"]]
    for line in found:
        console.print(line, style="bold", markup=False, soft_wrap=True)
    if not given.fuzzers_only:
        RECORD.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
        PAGE.write_text(rewritten(PAGE.read_text("utf-8"), record), encoding="utf-8")
    return 1 if found else 0


def rewritten(page: str, record: dict[str, Any]) -> str:
    """Return the page with the table of a run in place of the one before."""
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    return before + table_of(record) + after
