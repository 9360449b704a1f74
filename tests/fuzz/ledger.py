"""Damage ledgers in SQLite files, and use them as if nothing had happened.

A damaged ledger may be used or refused. It may not end with a bug, by a signal or never; and it may
not grant more than the undamaged one would, unless ``verify`` tells of the damage, given the heads
that releases state. What is done with a ledger is in ``ledger_trial``.
"""

import json
import os
import random
import re
import selectors
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import privalue as pv
from fuzz.ledger_damage import damaged
from fuzz.ledger_trial import WHOM, Release, asked, released
from fuzz.outcome import Outcome
from privalue.ledger import Charge

NAME = "ledgers"
PATIENCE = 120.0  # a trial that takes longer counts as one without an end
ENOUGH = 40  # findings that are told
CODES = {0, 3, 4, 5, 7}
_TESTS = Path(__file__).resolve().parents[1]
_MEMORY = Path("/dev/shm")  # where every commit of a ledger is forced to, a disk only costs time


@dataclass(frozen=True, kw_only=True)
class Template:
    """An undamaged ledger: copies of its files after each step, its releases, and what is left."""

    copies: list[dict[str, bytes]]
    releases: list[Release]
    left: dict[str, tuple[int, int, int]]


def fuzz(seed: int, seconds: float | None = None, count: int | None = None) -> Outcome:
    """Damage ledgers, and ask them for more than they have."""
    if seconds is None and count is None:
        raise ValueError("say how long, or how many")
    began, tried, told = time.monotonic(), 0, 0
    found = dict[str, str]()  # of each kind of problem the first
    quick = _MEMORY if _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="fuzz-ledger-", dir=quick) as made, _worker() as trial:
        template = _template(Path(made) / "whole")
        while (count is None or tried < count) and (
            seconds is None or time.monotonic() - began < seconds
        ):
            choose = random.Random(f"{seed}-{tried}")
            folder = Path(made) / str(tried)
            what = damaged(folder / "ledger.db", template.copies, choose)
            kept = _files(folder)
            seen = trial(folder, template)
            problem = judge(seen, template)
            told += bool(seen.get("told"))
            kind = re.sub(r"[0-9]+|\[.*?\]", "0", problem or "")
            if problem is not None and kind not in found:
                found[kind] = f"{NAME}, seed {seed}, case {tried}, {what}: {problem}"
                if "FUZZ_KEEP" in os.environ:
                    _write(kept, Path(os.environ["FUZZ_KEEP"]) / f"{NAME}-{seed}-{tried}")
            shutil.rmtree(folder)
            tried += 1
    return Outcome(
        name=NAME,
        tried=tried,
        accepted=tried - told,
        refused=told,
        seconds=round(time.monotonic() - began, 1),
        found=tuple(found.values())[:ENOUGH],
    )


def judge(seen: dict[str, Any], template: Template) -> str | None:
    """Return what is wrong with what a trial saw, or None."""
    if "died" in seen:
        return str(seen["died"])
    if seen["bugs"]:
        return str(seen["bugs"][0])
    for command, code in seen["codes"].items():
        if code not in CODES:
            return f"{command} ended with exit {code}"
    code = seen["codes"]["verify"]
    if code != 7 and seen["told_by_the_last"] != (code == 5):
        return f"verify tells in Python: {seen['told_by_the_last']}; the command: exit {code}"
    if seen["told"]:
        return None
    for dataset, left in seen["left"].items():
        if any(now > before for now, before in zip(left, template.left[dataset], strict=True)):
            return f"{dataset} has {left} left where {template.left[dataset]} was, and nobody told"
    for dataset in seen["granted"]:
        return f"{dataset} granted more than was left, and nobody told"
    return seen["forgot"] or None


@contextmanager
def _worker() -> Iterator[Callable[[Path, Template], dict[str, Any]]]:
    """Yield a way to try a ledger in another process: a new one after each that died."""
    running: list[subprocess.Popen[str]] = []

    def end() -> int:
        process = running.pop()
        process.kill()
        with process:  # closes its pipes
            return process.wait()

    def trial(folder: Path, template: Template) -> dict[str, Any]:
        if not running:
            running.append(_started())
        process = running[0]
        assert process.stdin is not None
        assert process.stdout is not None
        releases = [asdict(release) for release in template.releases]
        line = ""
        try:
            process.stdin.write(json.dumps([str(folder), releases, template.left]) + "\n")
            process.stdin.flush()
            with selectors.DefaultSelector() as waiting:
                waiting.register(process.stdout, selectors.EVENT_READ)
                if not waiting.select(PATIENCE):
                    end()
                    return {"died": f"no end within {PATIENCE:g} seconds"}
            line = process.stdout.readline()
        except BrokenPipeError:
            pass
        if not line:
            code = process.wait()
            end()
            return {"died": f"the process died of signal {-code}" if code < 0 else f"exit {code}"}
        answer: dict[str, Any] = json.loads(line)
        return answer

    try:
        yield trial
    finally:
        if running:
            end()


def _started() -> "subprocess.Popen[str]":
    """Start a process that tries ledgers."""
    paths = [str(_TESTS), str(_TESTS.parent / "src"), os.environ.get("PYTHONPATH", "")]
    return subprocess.Popen(
        [sys.executable, "-m", "fuzz.ledger_trial"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
    )


def _template(folder: Path) -> Template:
    """Make a ledger with entries of every kind, of both accountings; the last are a release's."""
    folder.mkdir()
    ledger = pv.open_ledger(folder / "ledger.db")
    copies: list[dict[str, bytes]] = []
    releases: list[Release] = []

    def charged(dataset: str, name: str) -> Charge:
        return ledger.charge(asked(dataset, name), token=name)

    def release(dataset: str, name: str) -> None:
        charge = charged(dataset, name)
        text = released(charge.head)
        ledger.commit(charge, text)
        releases.append(Release(dataset=dataset, name=name, head=charge.head, artefact=text))
        copies.append(_files(folder))

    ledger.declare("people", epsilon=1.0, delta=1e-5, **WHOM)
    release("people", "first")
    squares = {"accounting": "gaussian"}
    ledger.declare("others", epsilon=1.0, delta=1e-5, **WHOM, **squares)
    ledger.declare("others", epsilon=1.5, delta=1e-5, replace=True, **WHOM, **squares)
    release("others", "second")
    charged("people", "left by a crash")
    release("people", "third")
    charged("others", "under way")
    release("others", "fourth")
    release("people", "fifth")
    left = {account.dataset: tuple(account.left) for account in ledger.accounts()}
    return Template(copies=copies, releases=releases, left=left)


def _files(folder: Path) -> dict[str, bytes]:
    """Return the contents of a ledger's files, by name."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def _write(files: dict[str, bytes], folder: Path) -> None:
    """Write a ledger's files."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
