"""What goes to a library and what comes back: a task and a result, both JSON.

A library gets the first-visit returns, a row for each trajectory and state, since none of them
has first visits; the budget; and the relation. It gives back the values of every release and how
long each took. It never sees the exact values: the error is computed elsewhere, in one way for
all (``table``).

This module is read in every library's environment, and imports the standard library only.
"""

import hashlib
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

RELATIONS = ("replace-one", "add-remove")


class NotAvailableError(Exception):
    """The library does not have what a configuration needs."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """What to release: the mean first-visit return of every state, one unit a trajectory."""

    relation: str
    epsilon: float
    delta: float
    world: str
    seed: int
    trajectories: int
    states: int
    most_states: int  # that a trajectory counts for: H
    discount: float
    returns: tuple[float, float]
    visits: tuple[float, ...]  # public prior: the probability that a trajectory visits each state
    rows: str  # Parquet: trajectory, step, state, reward
    first_visits: str  # CSV: trajectory, state, value
    releases: int
    slow_releases: int
    seconds: float

    @property
    def middle(self) -> float:
        """The centre of the returns' range."""
        return (self.returns[0] + self.returns[1]) / 2

    @property
    def range(self) -> float:
        """R, the width of the returns' range."""
        return self.returns[1] - self.returns[0]

    @property
    def fingerprint(self) -> str:
        """Names the question; how often and where it is asked is left out."""
        names = ("relation", "epsilon", "delta", "world", "seed", "trajectories", "returns")
        names += ("most_states",)
        text = json.dumps({name: getattr(self, name) for name in names}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def save(self, path: Path) -> None:
        """Writes the task file."""
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> "Task":
        """Reads a task file."""
        keys = json.loads(path.read_text())
        return cls(**{**keys, "returns": tuple(keys["returns"]), "visits": tuple(keys["visits"])})


@dataclass(frozen=True, kw_only=True)
class Noisy:
    """Values with the noisy numbers that they are made of, and the deviations of their noise.

    Their user can post-process them as we do (``table``).
    """

    values: list[float]
    sums: list[float]  # centred
    counts: list[float]
    sum_noise: float
    count_noise: float


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One way to use a library: ``release`` computes one release, all states in order."""

    name: str
    configuration: str  # what was asked of the library
    guarantee: str  # how the relation follows
    release: Callable[[], Iterable[float] | Noisy]


def halve(epsilon: float, delta: float) -> tuple[float, float]:
    """The add-remove budget from which (epsilon, delta) follows for replace-one.

    To replace is to remove and to add. Two steps at (e, d) make (2e, (1 + exp(e)) d).
    """
    half = epsilon / 2
    return half, math.nextafter(delta / (1 + math.exp(half)), 0.0)


def rho_of(epsilon: float, delta: float) -> float:
    """The largest rho for which rho-zCDP implies (epsilon, delta).

    delta(rho) = min_{a > 1} exp((a - 1)(a rho - epsilon)) (1 - 1/a)^a / (a - 1)
    (Canonne, Kamath and Steinke 2020). The derivative of its logarithm,
    (2a - 1) rho - epsilon + ln(1 - 1/a), grows with a: its root is found by bisection.
    """

    def implied(rho: float) -> float:
        low, high = 1.0, 2.0
        while (2 * high - 1) * rho - epsilon + math.log1p(-1 / high) < 0:
            high *= 2
        for _ in range(200):
            a = (low + high) / 2
            if a <= 1 or (2 * a - 1) * rho - epsilon + math.log1p(-1 / a) < 0:
                low = a
            else:
                high = a
        a = high
        return math.exp((a - 1) * (a * rho - epsilon) + a * math.log1p(-1 / a)) / (a - 1)

    low, high = 0.0, 1.0
    while implied(high) < delta:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (low, middle) if middle == 0 or implied(middle) > delta else (middle, high)
    return low


def count_weight(relation: str, *, everywhere: bool = True) -> float:
    """c: a count is released as c R n_s, beside the centred sum T_s, in one vector.

    replace-one: the largest c at which counts are free (docs/proofs/dp-ssp.md); ``everywhere`` is
    where a trajectory may visit every state, else two may visit states that are all different.
    add-remove: the variance of T_s/n_s is proportional to (1/4 + c^2)(1 + v^2/c^2), v the distance
    of the value from the middle in units of R; at the worst v = 1/2 the best c is 1/2.
    """
    return math.sqrt(3) / 2 if relation == "replace-one" and everywhere else 1 / 2


def vector_sensitivity(relation: str, states: int, width: float = 1.0, most: int = 0) -> float:
    """The L2 sensitivity of that vector, where a trajectory may visit ``most`` states, or all.

    replace-one: both visit s: (R, 0); one does: (R/2, c R). The norm is R either way if all states
    may be visited; else there are up to 2 H states that one of them visits, and its square is
    R^2/2 there. add-remove: (R/2, c R).
    """
    if most and 2 * most > states and most < states:
        raise ValueError(f"H = {most} of {states} states: neither all of them nor up to a half")
    everywhere = most in (0, states)
    if relation == "replace-one":
        return width * math.sqrt(states if everywhere else most)
    return width * math.sqrt((most or states) * (1 / 4 + count_weight(relation) ** 2))


def means(sums: Sequence[float], counts: Sequence[float], middle: float) -> list[float]:
    """The middle plus centred sum over count; a noisy count below 1 is taken for 1."""
    return [middle + t / max(n, 1.0) for t, n in zip(sums, counts, strict=True)]


def measure(task: Task, variant: Variant) -> dict[str, Any]:
    """Releases again and again: the values, and the seconds that each release took.

    ``task.releases`` times; a variant that has used up ``task.seconds`` stops after
    ``task.slow_releases``.
    """
    values: list[list[float | None]] = []
    noisy: list[dict[str, Any]] = []
    seconds: list[float] = []
    work: list[float] = []
    result: dict[str, Any] = {
        "name": variant.name,
        "configuration": variant.configuration,
        "guarantee": variant.guarantee,
    }
    while len(values) < task.releases:
        if len(values) >= task.slow_releases and sum(seconds) > task.seconds:
            break
        spent, started = cpu_seconds(), time.perf_counter()
        try:
            answer = variant.release()
            released = list(map(float, answer.values if isinstance(answer, Noisy) else answer))
        except NotAvailableError as reason:
            say(f"  {variant.name}: {reason}")
            return {**result, "not_available": str(reason)}
        seconds.append(time.perf_counter() - started)
        work.append(cpu_seconds() - spent)
        if len(released) != task.states:
            raise ValueError(
                f"{variant.name}: {len(released)} values were released for {task.states} states"
            )
        if isinstance(answer, Noisy):
            noisy.append(asdict(answer))
        values.append([value if math.isfinite(value) else None for value in released])
    say(f"  {variant.name}: {len(values)} releases, {statistics.median(seconds):.3g} s each")
    measured = {"values": values, "noisy": noisy, "seconds": seconds, "cpu_seconds": work}
    return {**result, **measured, "load": os.getloadavg()[0]}


def cpu_seconds() -> float:
    """The processor time of this process and its descendants (Spark's are processes of their own).

    Unlike the time on the wall, it hardly depends on what else the machine does.
    """
    own = os.times()
    total = own.user + own.system + own.children_user + own.children_system
    parents: dict[str, list[str]] = {}
    used: dict[str, float] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        parents.setdefault(fields[1], []).append(stat.parent.name)
        used[stat.parent.name] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    below = list(parents.get(str(os.getpid()), ()))
    while below:
        process = below.pop()
        total += used[process]
        below += parents.get(process, ())
    return total


def main(packages: Sequence[str], variants: Callable[[Task], Iterable[Variant]]) -> None:
    """The whole of a library's script: ``python -m benchmarks.peers.NAME TASK RESULT``."""
    source, target = map(Path, sys.argv[1:3])
    started = time.perf_counter()
    task = Task.load(source)
    measured = [measure(task, variant) for variant in variants(task)]
    result = {
        "fingerprint": task.fingerprint,
        "relation": task.relation,
        "versions": {name: version(name) for name in packages},
        "variants": measured,
        "total_seconds": time.perf_counter() - started,
    }
    part = target.with_name(target.name + ".part")
    part.write_text(json.dumps(result, allow_nan=False) + "\n")
    part.replace(target)


def say(text: str) -> None:
    """Progress, for people."""
    print(text, file=sys.stderr, flush=True)
