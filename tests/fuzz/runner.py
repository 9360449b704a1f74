"""Try damaged files on the real command, in processes of their own, and judge what it says.

A command may accept a file or refuse it in one line. It may not end with a bug's exit code, by a
signal, with a traceback, without an end, or send a terminal what the file says to it.
"""

import json
import os
import random
import re
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from fuzz.outcome import Outcome

TESTS = Path(__file__).resolve().parents[1]
SECONDS = 300.0  # a command that takes longer counts as one without an end
REFUSALS = frozenset({2, 3, 4, 5, 6, 7})
ENOUGH = 40  # findings that are told
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True, kw_only=True)
class Said:
    """What a command left: its exit code (below 0: the signal), stdout and stderr."""

    code: int
    out: bytes
    err: bytes


@dataclass(frozen=True, kw_only=True)
class Case:
    """Files to write, by name, a command to run beside them, and what else to ask of its answer."""

    what: str
    files: Mapping[str, bytes]
    arguments: Sequence[str]
    judge: Callable[[Said], str | None] = field(default=lambda said: None)


class Worker:
    """A process that runs commands; a new one after each that died."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def run(self, arguments: Sequence[str]) -> Said:
        """Run one command; a process that dies or does not answer is ended, and told of."""
        process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        words = [os.fsencode(word).decode("latin-1") for word in arguments]
        try:
            process.stdin.write(json.dumps(words) + "\n")
            process.stdin.flush()
            with selectors.DefaultSelector() as waiting:
                waiting.register(process.stdout, selectors.EVENT_READ)
                if not waiting.select(SECONDS):
                    self.end()
                    return Said(code=-1000, out=b"", err=b"no answer in time")
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            code = process.wait()
            self.end()
            return Said(code=code or -999, out=b"", err=b"the process died")
        code, out, err = json.loads(line)
        return Said(code=code, out=out.encode("latin-1"), err=err.encode("latin-1"))

    def _started(self) -> "subprocess.Popen[str]":
        if self._process is None:
            paths = [str(TESTS), str(TESTS.parent / "src"), os.environ.get("PYTHONPATH", "")]
            self._process = subprocess.Popen(
                [sys.executable, "-m", "fuzz.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env={
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join(filter(None, paths)),
                    "OMP_NUM_THREADS": "1",
                    "OPENBLAS_NUM_THREADS": "1",
                },
            )
        return self._process

    def end(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                assert pipe is not None
                pipe.close()
            self._process = None


@contextmanager
def worker() -> Iterator[Worker]:
    """Yield a worker, and end its process."""
    started = Worker()
    try:
        yield started
    finally:
        started.end()


def problem_of(said: Said) -> str | None:
    """Return what is wrong with an answer whatever the file was, or None."""
    text = said.err.decode("utf-8", "surrogateescape")
    if said.code == -1000:
        return f"it had no end within {SECONDS:g} seconds"
    if said.code < 0:
        return f"it died of signal {-said.code}"
    if said.code != 0 and said.code not in REFUSALS:
        return f"exit {said.code}: {text.strip()[-200:]}"
    if "Traceback" in text:
        return "it wrote a traceback"
    if said.code and text.count("privalue: ") != 1:
        return f"exit {said.code} without one line: {text.strip()[-200:]!r}"
    shown = said.out.decode("utf-8", "surrogateescape") + text
    if _CONTROLS.search(shown):
        return f"it sent a control character: {_CONTROLS.search(shown)!r}"
    return None


def hunt(
    name: str,
    cases: Callable[[random.Random], Case],
    seed: int,
    seconds: float | None,
    count: int | None,
    keep: Path | None = None,
) -> Outcome:
    """Try cases until the time or the number is over.

    Args:
        name: of the fuzzer.
        cases: makes a case from random numbers.
        seed: the same seed gives the same cases.
        seconds: how long to go on.
        count: how many cases to try; one of the two is needed.
        keep: a folder for the files of what is found; by the environment, if it is left out.

    Returns:
        The counts, and what was found, a line each.
    """
    if seconds is None and count is None:
        raise ValueError("say how long, or how many")
    kept = keep or (Path(os.environ["FUZZ_KEEP"]) if "FUZZ_KEEP" in os.environ else None)
    began, tried, accepted, refused = time.monotonic(), 0, 0, 0
    found = dict[str, str]()  # of each kind of problem the first
    with worker() as process:
        while (count is None or tried < count) and (
            seconds is None or time.monotonic() - began < seconds
        ):
            case = cases(random.Random(f"{seed}-{tried}"))
            tried += 1
            with tempfile.TemporaryDirectory(prefix="fuzz-") as made:
                folder = Path(made)
                write(case, folder)
                said = process.run([word.replace("{}", made) for word in case.arguments])
                problem = problem_of(said) or (case.judge(said) if said.code == 0 else None)
            accepted += said.code == 0
            refused += said.code in REFUSALS
            kind = f"{case.what}: {re.sub('[0-9]+', '0', problem or '')}"
            if problem is not None and kind not in found:
                found[kind] = f"{name}, seed {seed}, case {tried - 1}, {case.what}: {problem}"
                if kept is not None:
                    write(case, kept / f"{name}-{seed}-{tried - 1}")
    return Outcome(
        name=name,
        tried=tried,
        accepted=accepted,
        refused=refused,
        seconds=round(time.monotonic() - began, 1),
        found=tuple(found.values())[:ENOUGH],
    )


def write(case: Case, folder: Path) -> None:
    """Write the files of a case."""
    for name, content in case.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
