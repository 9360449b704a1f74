"""A damaged ledger grants no more than before and forgets nothing, or ``verify`` finds the damage.

It may not end with a bug, by a signal or never. It may grant more than the undamaged one only if
``verify``, given the heads that releases state, reports the damage.
"""

import json
import math
import shutil
from typing import NamedTuple

import pytest

from fuzz import ledger_damage
from fuzz.harness import SEED, Process, cases, command, problem_of
from oracles.ledgers import WHOM, request
from privalue.core.calibration import gaussian
from privalue.errors import LedgerError, PrivalueError
from privalue.ledger import (
    Account,
    Charge,
    EarlierCharge,
    Ledger,
    Verification,
    open_ledger,
    study_hash,
)

PROMISE = {"epsilon": 0.1, "delta": 1e-7, **WHOM}
ALPHA = gaussian(0.1, 1e-7).alpha  # every release is by dp-ssp


class Template(NamedTuple):
    """An undamaged ledger: copies of its files after each step, its releases, and what is left."""

    copies: list
    releases: list  # (dataset, name, head, text)
    remaining: dict


def ask(dataset, name, **other):
    defaults = {"alpha": ALPHA, "dataset": dataset, "what": name}
    return request(study_hash({"name": name}), **{**defaults, **other})


def text_of(head):
    release = {"mechanism": "dp-ssp", "noise": {"alpha": ALPHA}, "values": [0.25, 0.5]}
    return json.dumps({"privacy": PROMISE, "ledger_head": head, **release})


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A ledger with entries of every kind, of both accountings; the last are a release's."""
    folder = tmp_path_factory.mktemp("whole")
    ledger = open_ledger(folder / "ledger.db")
    copies, releases = [], []

    def release(dataset, name):
        charge = ledger.charge(ask(dataset, name), token=name)
        text = text_of(charge.head)
        ledger.commit(charge, text)
        releases.append((dataset, name, charge.head, text))
        copies.append({path.name: path.read_bytes() for path in folder.iterdir()})

    ledger.declare("people", epsilon=1.0, delta=1e-5, **WHOM)
    release("people", "first")
    squares = {"delta": 1e-5, "accounting": "gaussian", **WHOM}
    ledger.declare("others", epsilon=1.0, **squares)
    ledger.declare("others", epsilon=1.5, replace=True, **squares)
    release("others", "second")
    ledger.charge(ask("people", "left by a crash"), token="x")
    release("people", "third")
    release("others", "fourth")
    remaining = {account.dataset: tuple(account.left) for account in ledger.accounts()}
    return Template(copies, releases, remaining)


class Trial:
    """What happens with one damaged ledger."""

    def __init__(self, path, template):
        self.path, self.before = path, template.remaining
        self.releases = list(template.releases)
        self.ledger = open_ledger(path, wait=0.5)
        self.reported, self.bugs, self.losses = False, [], []

    def run(self):
        """Verify, ask for too much, for old releases and for a new one; the problem, or None."""
        self.verify()
        remaining = self.look()
        self.ask_for_too_much()
        self.ask_again()
        self.spend(remaining)
        self.verify()
        self.commands()
        if self.bugs:
            return self.bugs[0]
        if self.losses and not self.reported:
            return f"{self.losses[0]}, and verify reports nothing"
        return None

    def call(self, what, *arguments, **options):
        """What a call returns, or the error that refuses it; None after a bug."""
        try:
            return getattr(self.ledger, what)(*arguments, **options)
        except PrivalueError as problem:
            if "\n" in str(problem):
                self.bugs.append(f"{what}: more than a line: {problem!r}")
            return problem
        except Exception as problem:
            self.bugs.append(f"{what}: {type(problem).__name__}: {str(problem)[:200]}")
            return None

    def verify(self):
        for _, _, head, text in self.releases:
            answer = self.call("verify", heads=[head], releases={"it": text})
            self.reported |= isinstance(answer, LedgerError)

    def look(self):
        accounts = {dataset: self.call("account", dataset) for dataset in self.before}
        remaining = {name: tuple(a.left) for name, a in accounts.items() if isinstance(a, Account)}
        for dataset, now in remaining.items():
            if any(after > was for after, was in zip(now, self.before[dataset], strict=True)):
                self.losses.append(f"{dataset}: {now} is left, and was {self.before[dataset]}")
        return remaining

    def ask_for_too_much(self):
        """A thousandth more than was left, of epsilon, of delta, or of mu."""
        for dataset, (epsilon, delta, mu2) in self.before.items():
            amounts = [
                {"epsilon": epsilon / 1e12 + 1e-3, "delta": 1e-12},
                {"epsilon": 1e-3, "delta": delta / 1e18 + 1e-9},
            ]
            if mu2:  # a promise that allows any mu of a total
                alpha = 0.999 * math.sqrt(1e17 / mu2)
                amounts = [{"epsilon": 20.0, "delta": 0.5, "alpha": alpha}]
            for number, amount in enumerate(amounts):
                release_request = ask(dataset, f"too much {number}", **amount)
                if isinstance(self.call("charge", release_request, token="x"), Charge):
                    self.losses.append(f"{dataset} granted more than was left")

    def ask_again(self):
        for dataset, name, _, text in self.releases:
            answer = self.call("find", ask(dataset, name))
            if answer is None:
                self.losses.append(f"the release {name!r} is forgotten")
            elif isinstance(answer, EarlierCharge) and answer.release != text:
                self.losses.append(f"the release {name!r} has another text")

    def spend(self, remaining):
        """Release once more; what succeeds must count, and be on the record."""
        for dataset in self.before:
            charge = self.call("charge", ask(dataset, "new"), token="x")
            if not isinstance(charge, Charge):
                continue
            text = text_of(charge.head)
            if self.call("commit", charge, text) is not None:
                continue
            self.releases.append((dataset, "new", charge.head, text))
            account = self.call("account", dataset)
            if isinstance(account, Account) and dataset in remaining:
                now, before = tuple(account.left), remaining[dataset]
                if now == before or any(a > b for a, b in zip(now, before, strict=True)):
                    self.losses.append(f"{dataset}: a new release does not count")

    def commands(self):
        """``show`` and ``verify`` of the command line say the same as the library."""
        place, head = ["--ledger", str(self.path)], self.releases[-1][2]
        reported = isinstance(self.call("verify", heads=[head]), LedgerError)
        for words in (["show"], ["verify", "--head", head]):
            answer = command(["ledger", *words, *place])
            if problem := problem_of(answer):
                self.bugs.append(f"{words[0]}: {problem}")
        if answer.code != 7 and reported != (answer.code == 5):
            self.bugs.append(f"verify reports in Python: {reported}; the command: {answer.code}")


def attempt(path, template):
    return Trial(path, template).run()


def test_a_damaged_ledger_grants_no_more_and_forgets_nothing_or_is_reported(tmp_path, template):
    with Process() as process:
        for number, choose in cases():
            folder = tmp_path / str(number)
            what = ledger_damage.damage(folder / "ledger.db", template.copies, choose)
            loss, problem = process.call(attempt, folder / "ledger.db", template)
            problem = problem or loss
            assert problem is None, f"seed {SEED}, case {number}, {what}: {problem}"
            shutil.rmtree(folder)


def write(folder, files):
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder / "ledger.db"


def test_an_undamaged_ledger_is_whole(tmp_path, template):
    trial = Trial(write(tmp_path / "l", template.copies[-1]), template)
    assert (trial.run(), trial.reported) == (None, False)


def test_a_verification_that_reports_nothing_is_caught(tmp_path, template, monkeypatch):
    """Planted: an old copy is put back, and verify says nothing."""
    trial = Trial(write(tmp_path / "old", template.copies[0]), template)
    assert (trial.run(), trial.reported) == (None, True)
    nothing = Verification(entries=1, head="0" * 64)
    monkeypatch.setattr(Ledger, "verify", lambda *_, **__: nothing)
    assert "verify reports nothing" in attempt(write(tmp_path / "2", template.copies[1]), template)
