"""Releases that are killed at any step, each in a process forked from one that imported everything.

::

    python release_driver.py FOLDER steps STEP...    (STEP: Owner.name.before or Owner.name.after,
                                                      on a Gaussian total with "@gaussian" added)
    python release_driver.py FOLDER events           (every event of ``ledger_driver`` in turn)

Each runs ``privalue release`` in a folder of its own, FOLDER/0, FOLDER/1, ...; the answer is one
JSON object a line: the number, whether it was killed, and the last event.
"""

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from oracles.ledger_driver import ACCOUNTING, Events, say
from oracles.studies import study_file
from privalue import curator
from privalue.cli import followup_commands as publication
from privalue.cli import run
from privalue.ledger import Ledger, Outbox, UnknownOutcomeError, open_ledger
from privalue.releases import Release

OWNERS = {
    "Ledger": Ledger,
    "Outbox": Outbox,
    "Release": Release,
    "curator": curator,
    "publication": publication,
}
STUDY = study_file(
    study={"dataset": "trial", "trajectories": 600},
    privacy={"epsilon": 0.5},
    values={"returns": [0.0, 1.0]},
    states={"count": 2},
)
ROWS = "".join(f"{t},0,0,0.5\n{t},1,1,1\n" for t in range(600))
COMMAND = ["release", "study.toml", "--data", "data.csv", "--ledger", "ledger.db", "--out"]


def prepare(folder, accounting=None):
    """A study, its data, and a ledger with room for two releases."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "study.toml").write_text(STUDY)
    (folder / "data.csv").write_text("trajectory,step,state,reward\n" + ROWS)
    ledger = open_ledger(folder / "ledger.db")
    accounting = accounting or os.environ.get(ACCOUNTING, "plain")
    ledger.declare("trial", epsilon=1.0, delta=1e-5, unit="trajectory", accounting=accounting)
    return folder


def releases(folder="."):
    """How many releases of this study were charged; the ledger must verify."""
    ledger = open_ledger(Path(folder) / "ledger.db")
    ledger.verify()
    return ledger.account("trial").balance.releases


def drive(folder, *words):
    """This program's answers, from a process of its own."""
    process = subprocess.run(
        [sys.executable, __file__, folder, *map(str, words)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return [json.loads(line) for line in process.stdout.splitlines()]


def lose_an_answer(ledger, arrives):
    """Lose the answer to the next write, which reaches the store or is undone there."""
    store, transaction = ledger._store, ledger._store.transaction

    @contextmanager
    def lost(*, write=False):
        with transaction(write=write) as execute:
            yield execute
            if write and not arrives:
                store.transaction = transaction
                raise UnknownOutcomeError("the server of the ledger was lost")
        if write:
            store.transaction = transaction
            raise UnknownOutcomeError("the server of the ledger was lost")

    store.transaction = lost


def kill_at(step):
    owner, name, when = step.split(".")
    original = getattr(OWNERS[owner], name)

    def killed(*args, **keys):
        if when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        original(*args, **keys)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(OWNERS[owner], name, killed)


def was_killed(folder, before, accounting=None):
    """Run the command in a fork."""
    prepare(folder, accounting)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.chdir(folder)
            os.dup2(os.open("output", os.O_CREAT | os.O_WRONLY), 1)
            os.dup2(1, 2)
            before()
            code = run([*COMMAND, "out"])
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        raise RuntimeError((folder / "output").read_text())
    return os.WIFSIGNALED(status)


def warm_up():
    """Import and compile once, for all forks."""
    import pandas  # noqa: F401 - Arrow looks for it

    import privalue as pv
    from privalue.cli import release_commands  # noqa: F401

    pv.release(pv.Study.parse(STUDY).replace(dataset=None), [[(0, 0.5), (1, 1.0)]] * 600)


def main(folder, what, *rest):
    folder, runs = Path(folder), 0
    warm_up()
    if what == "steps":
        for number, word in enumerate(rest):
            step, _, accounting = word.partition("@")
            kill = partial(kill_at, step)
            killed = was_killed(folder / str(number), kill, accounting=accounting)
            say(run=number, killed=killed, step=step)
    else:
        killed = True
        while killed:
            runs += 1
            events = Events(runs)
            killed = was_killed(folder / str(runs), events.watch)
            say(run=runs, killed=killed)


if __name__ == "__main__":
    main(*sys.argv[1:])
