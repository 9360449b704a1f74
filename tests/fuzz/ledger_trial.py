"""Use a damaged ledger in a process that may die of it: by the public calls, and by the command.

Each line of stdin is a folder with a ledger, its releases and what was left before the damage; each
line of stdout says what happened, as JSON.
"""

import contextlib
import io
import json
import math
import resource
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import privalue as pv
from privalue.core import gaussian
from privalue.errors import LedgerError, PrivalueError
from privalue.ledger import Account, Charge, EarlierCharge, ReleaseRequest, study_hash

WHOM: dict[str, Any] = {"unit": "trajectory", "neighbours": "replace-one"}
PROMISE: dict[str, Any] = {"epsilon": 0.1, "delta": 1e-7, **WHOM}
ALPHA = gaussian(0.1, 1e-7).alpha  # every release is by dp-ssp


def asked(dataset: str, name: str, **other: Any) -> ReleaseRequest:
    """Return a request."""
    usual = {**PROMISE, "alpha": ALPHA, "study": study_hash({"name": name})}
    return ReleaseRequest(dataset=dataset, what=name, **{**usual, **other})


def released(head: str) -> str:
    """Return the text of a release that states what was paid for it."""
    made = {"mechanism": "dp-ssp", "noise": {"alpha": ALPHA}, "values": [0.25, 0.5]}
    return json.dumps({"privacy": PROMISE, "ledger_head": head, **made})


MEMORY = 4 << 30  # of addresses


@dataclass(frozen=True, kw_only=True)
class Release:
    """What a release keeps of its ledger."""

    dataset: str
    name: str
    head: str
    artefact: str


class Trial:
    """What was seen of one damaged ledger."""

    def __init__(self, folder: Path, releases: list[Release], left: dict[str, list[int]]) -> None:
        self._path, self._releases, self._before = folder / "ledger.db", releases, left
        self._ledger = pv.open_ledger(self._path, wait=0.5)
        self.told = self.told_by_the_last = False
        self.bugs: list[str] = []
        self.left: dict[str, list[int]] = {}
        self.granted: list[str] = []
        self.forgot = ""
        self.codes: dict[str, int] = {}

    def run(self) -> dict[str, Any]:
        """Look, ask for too much, spend, and look again."""
        self._verify()
        self._show()
        self._ask_for_too_much()
        self._ask_again()
        self._spend()
        self._verify()
        self._command_line()
        return {
            "told": self.told,
            "told_by_the_last": self.told_by_the_last,
            "bugs": self.bugs,
            "left": self.left,
            "granted": self.granted,
            "forgot": self.forgot,
            "codes": self.codes,
        }

    def _tried(self, what: str, *arguments: Any, **options: Any) -> Any:
        """Return what a call of the ledger returns; None if it was refused, or is a bug."""
        try:
            return getattr(self._ledger, what)(*arguments, **options)
        except PrivalueError as problem:
            if "\n" in str(problem):
                self.bugs.append(f"{what}: more than a line: {problem!r}")
            return problem
        except Exception as problem:
            self.bugs.append(f"{what}: {type(problem).__name__}: {str(problem)[:200]}")
            return None

    def _verify(self) -> None:
        """Hold the ledger against every release that there is."""
        for release in self._releases:
            found = self._tried("verify", heads=[release.head], releases=[release.artefact])
            self.told |= isinstance(found, LedgerError)

    def _show(self) -> None:
        for dataset in self._before:
            account = self._tried("account", dataset)
            if isinstance(account, Account):
                self.left[dataset] = [*account.left]

    def _ask_for_too_much(self) -> None:
        """Ask for a thousandth more than was left, of epsilon, of delta, or of mu."""
        for dataset, (epsilon, delta, mu2) in self._before.items():
            amounts: list[dict[str, Any]] = [
                {"epsilon": epsilon / 1e12 + 1e-3, "delta": 1e-12},
                {"epsilon": 1e-3, "delta": delta / 1e18 + 1e-9},
            ]
            if mu2:  # a promise that allows any mu of a total
                alpha = 0.999 * math.sqrt(1e17 / mu2)
                amounts = [{"epsilon": 20.0, "delta": 0.5, "alpha": alpha}]
            for number, amount in enumerate(amounts):
                request = asked(dataset, f"too much {number}", **amount)
                granted = self._tried("charge", request, token="x")
                if isinstance(granted, Charge):
                    self.granted.append(dataset)

    def _ask_again(self) -> None:
        """Ask for what was released: the same text comes, or an error."""
        for release in self._releases:
            answer = self._tried("find", asked(release.dataset, release.name))
            if answer is None:
                self.forgot = f"the release {release.name!r} is forgotten, and nobody told"
            elif isinstance(answer, EarlierCharge) and answer.release != release.artefact:
                self.forgot = f"the release {release.name!r} has another text, and nobody told"

    def _spend(self) -> None:
        """Release once more; what succeeds must count, and be on the record."""
        for dataset in self._before:
            charge = self._tried("charge", asked(dataset, "new"), token="x")
            if not isinstance(charge, Charge):
                continue
            text = released(charge.head)
            if self._tried("commit", charge, text) is not None:
                continue
            self._releases.append(
                Release(dataset=dataset, name="new", head=charge.head, artefact=text)
            )
            account = self._tried("account", dataset)
            if isinstance(account, Account) and dataset in self.left:
                now, before = [*account.left], self.left[dataset]
                more = any(a > b for a, b in zip(now, before, strict=True))
                if more or now == before:
                    self.forgot = f"{dataset}: a new release does not count, and nobody told"

    def _command_line(self) -> None:
        """Run the commands that look at a ledger, and keep their exit codes."""
        from privalue.cli import run

        place = ["--ledger", str(self._path)]
        head = self._releases[-1].head
        self.told_by_the_last = isinstance(self._tried("verify", heads=[head]), LedgerError)
        for command in (["show"], ["verify", "--head", head]):
            out, err = io.StringIO(), io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = run(["ledger", *command, *place])
            said = err.getvalue()
            if code and said.count("privalue: ") != 1:
                self.bugs.append(f"{command[0]}: exit {code} without one line: {said[-200:]!r}")
            self.codes[command[0]] = code


def main() -> None:
    """Try ledgers until there are no more lines."""
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for line in sys.stdin:
        folder, releases, left = json.loads(line)
        trial = Trial(Path(folder), [Release(**release) for release in releases], left)
        print(json.dumps(trial.run()), flush=True)


if __name__ == "__main__":
    main()
