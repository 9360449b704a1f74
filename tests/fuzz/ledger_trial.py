"""Use a damaged ledger in a process that may die of it: by the public calls, and by the command.

Each line of stdin is a folder with a ledger, its releases and what was left before the damage; each
line of stdout says what happened, as JSON.
"""

import contextlib
import io
import json
import math
import os
import resource
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import privalue as pv
from privalue.core import gaussian
from privalue.errors import PrivalueError
from privalue.ledger import Account, LedgerError, Reservation, StoredRelease, study_hash

WHOM: dict[str, Any] = {"unit": "trajectory", "neighbours": "replace-one"}
PROMISE: dict[str, Any] = {"epsilon": 0.1, "delta": 1e-7, **WHOM}
ALPHA = gaussian(0.1, 1e-7).alpha
ASKED = {**PROMISE, "gaussian_alpha": ALPHA}  # every release is by dp-ssp


def described(name: str) -> dict[str, Any]:
    """Return the public description of a request."""
    return {"name": name, "privacy": PROMISE}


def released(name: str, head: str) -> str:
    """Return the text of a release that states what was paid for it."""
    stated = {"private": True, "study": described(name), "privacy": PROMISE, "ledger_head": head}
    noise = {"mechanism": "dp-ssp", "noise": {"alpha": ALPHA}, "gaussian_mu": 1 / ALPHA}
    return json.dumps({**stated, **noise, "values": [0.25, 0.5]})


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
            found = self._tried("verify", head=release.head, artefact=release.artefact)
            self.told |= isinstance(found, LedgerError)

    def _show(self) -> None:
        for dataset in self._before:
            account = self._tried("show", dataset)
            if isinstance(account, Account):
                self.left[dataset] = [*account.left.units.parts]

    def _ask_for_too_much(self) -> None:
        """Ask for a thousandth more than was left, of epsilon, of delta, and of mu."""
        for dataset, (epsilon, delta, square) in self._before.items():
            plain = [
                {"epsilon": epsilon / 1e12 + more, "delta": delta / 1e18 + most}
                for more, most in ((1e-3, 0.0), (0.0, 1e-9))
            ]
            by_mu = {"epsilon": 20.0, "delta": 0.5}  # which allow any mu of a total
            for number, amounts in enumerate([*plain, *([by_mu] if square else [])]):
                request = study_hash({"too much": number, "of": dataset})
                asked = {key: value if value else tiny(key) for key, value in amounts.items()}
                if amounts is by_mu:
                    asked["gaussian_alpha"] = 0.999 * math.sqrt(1e24 / square)
                granted = self._tried("reserve", dataset, request, **asked, **WHOM)
                if isinstance(granted, Reservation):
                    self.granted.append(dataset)
                    with contextlib.suppress(PrivalueError):
                        granted.cancel("asked for too much")

    def _ask_again(self) -> None:
        """Ask for what was released: the same text comes, or an error."""
        for release in self._releases:
            request = study_hash(described(release.name))
            answer = self._tried("reserve", release.dataset, request, **ASKED)
            if isinstance(answer, StoredRelease) and answer.artefact != release.artefact:
                self.forgot = f"the release {release.name!r} has another text, and nobody told"
            if isinstance(answer, Reservation):
                self.forgot = f"the release {release.name!r} is forgotten, and nobody told"
                with contextlib.suppress(PrivalueError):
                    answer.cancel("it was released before")

    def _spend(self) -> None:
        """Release once more; what succeeds must count, and be on the record."""
        for dataset in self._before:
            request = study_hash(described(f"new {dataset}"))
            granted = self._tried("reserve", dataset, request, **ASKED)
            if not isinstance(granted, Reservation):
                continue
            try:
                head = granted.charge()
                artefact = released(f"new {dataset}", head)
                granted.commit(artefact)
            except PrivalueError:
                continue
            except Exception as problem:
                self.bugs.append(f"spend: {type(problem).__name__}: {str(problem)[:200]}")
                continue
            self._releases.append(
                Release(dataset=dataset, name="new", head=head, artefact=artefact)
            )
            account = self._tried("show", dataset)
            if isinstance(account, Account) and dataset in self.left:
                now = [*account.left.units.parts]
                before = self.left[dataset]
                more = any(a > b for a, b in zip(now, before, strict=True))
                if more or now == before:
                    self.forgot = f"{dataset}: a new release does not count, and nobody told"

    def _command_line(self) -> None:
        """Run the commands that look at a ledger, and keep their exit codes."""
        from privalue.cli._app import run

        place = ["--ledger", str(self._path)]
        head = self._releases[-1].head
        self.told_by_the_last = isinstance(self._tried("verify", head=head), LedgerError)
        for command in (["show"], ["verify", "--head", head]):
            out, err = io.StringIO(), io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = run(["ledger", *command, *place])
            said = err.getvalue()
            if code and said.count("privalue: ") != 1:
                self.bugs.append(f"{command[0]}: exit {code} without one line: {said[-200:]!r}")
            self.codes[command[0]] = code


def tiny(key: str) -> float:
    """Return the least that a release may ask for."""
    return {"epsilon": 1e-3, "delta": 1e-12}[key]


def main() -> None:
    """Try ledgers until there are no more lines."""
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for line in sys.stdin:
        folder, releases, left = json.loads(line)
        os.environ["PRIVALUE_STATE"] = str(Path(folder) / "state")
        trial = Trial(Path(folder), [Release(**release) for release in releases], left)
        print(json.dumps(trial.run()), flush=True)


if __name__ == "__main__":
    main()
