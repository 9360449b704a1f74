"""Try damaged input in a process that may die of it.

``make test`` tries a few cases of each kind, ``make fuzz`` as many as fit into
``PRIVALUE_FUZZ_SECONDS``. A seed (``PRIVALUE_FUZZ_SEED``) gives the same cases again.
"""

import io
import multiprocessing
import os
import random
import re
import resource
import time
from contextlib import redirect_stderr, redirect_stdout
from typing import NamedTuple

SECONDS = float(os.environ.get("PRIVALUE_FUZZ_SECONDS", "0"))
SEED = os.environ.get("PRIVALUE_FUZZ_SEED", "19")
FEW = 10  # cases, where no time is given
PATIENCE = 300  # seconds; a call that takes longer counts as one without an end
MEMORY = 6 << 30  # of addresses: threads and libraries take some gigabytes that they never touch
REFUSALS = range(2, 8)
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class Answer(NamedTuple):
    """What a command left: its exit code, stdout and stderr."""

    code: int
    out: str
    err: str


def cases():
    """The number of each case, and its random numbers."""
    began, number = time.monotonic(), 0
    while number < FEW or time.monotonic() - began < SECONDS:
        yield number, random.Random(f"{SEED}-{number}")
        number += 1
    print(f"{number:,} cases")


class Process:
    """Another process, with limited memory; a new one after each that died."""

    def __enter__(self):
        self._child, self._calls = None, 0
        return self

    def __exit__(self, *_):
        self._end()

    def call(self, function, *arguments):
        """What the function returns there, and None; or None, and how the process ended."""
        self._calls += 1
        if self._calls % 1000 == 0:  # Arrow keeps addresses of damaged compressed files
            self._end()
        if self._child is None:
            context = multiprocessing.get_context("spawn")
            self._pipe, theirs = context.Pipe()
            self._child = context.Process(target=serve, args=(theirs,), daemon=True)
            self._child.start()
            theirs.close()
        self._pipe.send((function, arguments))
        if not self._pipe.poll(PATIENCE):
            self._end()
            return None, f"no end within {PATIENCE} seconds"
        try:
            return self._pipe.recv(), None
        except EOFError:
            return None, f"the process ended with {self._end()}"

    def _end(self):
        if self._child is None:
            return None
        self._child.join(1)
        self._child.kill()
        self._child.join()
        self._pipe.close()
        code, self._child = self._child.exitcode, None
        return code


def serve(pipe):
    """Answer calls until the process is ended."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    while True:
        function, arguments = pipe.recv()
        pipe.send(function(*arguments))


def command(arguments):
    """Run a command of privalue."""
    from privalue.cli import run

    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with redirect_stdout(out), redirect_stderr(err):
        code = run(arguments)
    return Answer(code, *(stream.buffer.getvalue().decode() for stream in (out, err)))


def problem_of(answer):
    """What is wrong with an answer whatever the input was, or None."""
    if answer.code not in {0, *REFUSALS}:
        return f"exit {answer.code}: {answer.err.strip()[-200:]}"
    if "Traceback" in answer.err:
        return "it wrote a traceback"
    if answer.code and answer.err.count("privalue: ") != 1:
        return f"exit {answer.code} without one line: {answer.err.strip()[-200:]!r}"
    sent = CONTROLS.search(answer.out + answer.err)
    return f"it sent a control character: {sent!r}" if sent else None
