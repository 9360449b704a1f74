"""Errors from values, and the table; nothing in it is typed by hand."""

import json
import math
import os
import platform
import re
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers.exchange import RELATIONS, Task
from privalue.core import Vector
from privalue.estimate import Ratios, shrink

BEGIN, END = (
    "<!-- python -m benchmarks.peers: begin -->",
    "<!-- python -m benchmarks.peers: end -->",
)


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row of the table: a measured error, or the reason why there is none."""

    who: str
    name: str
    relation: str
    configuration: str
    guarantee: str
    error: float | None = None
    standard_error: float | None = None
    seconds: float | None = None
    cpu_seconds: float | None = None
    releases: int | None = None
    load: float | None = None  # the machine's load average, over a minute, when it was done
    reason: str = ""


def errors(
    values: Iterable[Sequence[float | None]],
    exact: NDArray[np.float64],
    returns: tuple[float, float],
) -> list[float]:
    """The RMSE over states of every release, clipped to the bounds of returns.

    What is not a finite number (None) is taken for the middle of the bounds.
    """
    middle = (returns[0] + returns[1]) / 2
    squares = []
    for release in values:
        filled = np.array([middle if value is None else value for value in release], dtype=float)
        gap = np.clip(filled, *returns) - exact
        squares.append(math.sqrt(float(np.mean(gap**2))))
    return squares


def baselines(task: Task, exact: NDArray[np.float64], mean: NDArray[np.float64]) -> list[Row]:
    """The baselines of every relation: no privacy, and no data."""
    kinds = {
        "no privacy": (mean, "the mean first-visit returns themselves"),
        f"the constant {task.middle:g}": (np.full(task.states, task.middle), "no data at all"),
    }
    return [
        Row(
            who="-",
            name=name,
            relation=task.relation,
            configuration=configuration,
            guarantee="-",
            error=errors([values.tolist()], exact, task.returns)[0],
        )
        for name, (values, configuration) in kinds.items()
    ]


def rows(who: str, result: dict[str, Any], task: Task, exact: NDArray[np.float64]) -> list[Row]:
    """The rows of one result."""
    table = []
    for variant in result["variants"]:
        common = {
            "who": who,
            "name": variant["name"],
            "relation": task.relation,
            "configuration": variant["configuration"],
            "guarantee": variant["guarantee"],
        }
        if "not_available" in variant:
            table.append(Row(**common, reason=variant["not_available"]))
            continue
        table.append(
            Row(
                **common,
                **_mean(errors(variant["values"], exact, task.returns)),
                seconds=statistics.median(variant["seconds"]),
                cpu_seconds=statistics.median(variant["cpu_seconds"]),
                load=variant["load"],
            )
        )
        if variant.get("noisy"):
            common["name"] += ", then our shrinkage"
            common["configuration"] = "the same noisy numbers, shrunk afterwards as ours are"
            shrunk = [_shrunk(task, noisy).tolist() for noisy in variant["noisy"]]
            table.append(Row(**common, **_mean(errors(shrunk, exact, task.returns))))
    return table


def _mean(errors: Sequence[float]) -> dict[str, Any]:
    """The mean of errors, with its standard error."""
    spread = statistics.stdev(errors) / math.sqrt(len(errors)) if len(errors) > 1 else None
    return {"error": statistics.fmean(errors), "standard_error": spread, "releases": len(errors)}


def _shrunk(task: Task, noisy: dict[str, Any]) -> Vector:
    """Another library's noisy sums and counts, shrunk by our rule."""
    ratios = Ratios(
        sums=np.array(noisy["sums"]),
        counts=np.array(noisy["counts"]),
        sum_noise=np.full(task.states, noisy["sum_noise"]),
        count_noise=np.full(task.states, noisy["count_noise"]),
        centre=task.middle,
        bounds=task.returns,
    )
    unvisited = task.returns[0]
    return shrink(ratios, unvisited).means


def unmeasured(who: str, relation: str, reason: str) -> Row:
    """The row of a library that could not be run at all."""
    return Row(
        who=who, name="-", relation=relation, configuration="-", guarantee="-", reason=reason
    )


def rank(unsorted: Iterable[Row]) -> list[Row]:
    """The least error first; what did not run comes last."""
    return sorted(unsorted, key=lambda row: math.inf if row.error is None else row.error)


def markdown(
    parts: Sequence[tuple[str, Task, Sequence[Row]]], versions: dict[str, dict[str, str]]
) -> str:
    """Everything between the markers of docs/peers.md: titles, tasks and their rows."""
    busy = max((row.load for *_, rows in parts for row in rows if row.load), default=0.0)
    text = [
        f"{machine()}, load average up to {busy:.1f}. "
        f"{'; '.join(_versions(*item) for item in versions.items())}."
    ]
    configurations: dict[tuple[str, str], str] = {}
    for title, task, rows in parts:
        limit = "" if task.most_states == task.states else f", H = {task.most_states}"
        text += [
            f"### {title}",
            f"`{task.world}`, N = {task.states}{limit}, m = {task.trajectories:,}, epsilon = "
            f"{task.epsilon:g}, delta = {task.delta:g}, returns in [{task.returns[0]:g}, "
            f"{task.returns[1]:g}], seed {task.seed}.",
        ]
        for relation in RELATIONS:
            inside = rank(row for row in rows if row.relation == relation)
            if inside:
                text += [f"#### {relation}", _table(inside)]
        for row in sorted(rows, key=lambda row: row.who):
            if row.who != "-" and row.configuration != "-":
                configurations.setdefault((row.who, row.name), _cell(row.configuration))
    if configurations:
        lines = ["| library | what | configuration |", "|---|---|---|"]
        lines += [f"| {who} | {name} | {how} |" for (who, name), how in configurations.items()]
        text += ["### Configurations", "Those of the first table that has them.", "\n".join(lines)]
    return "\n\n".join(text)


def machine() -> str:
    """What it ran on."""
    model = platform.machine()
    information = Path("/proc/cpuinfo")
    if information.is_file():
        match = re.search(r"model name\s*:\s*(.+)", information.read_text(errors="ignore"))
        model = f"{match[1].strip()} ({model})" if match else model
    return (
        f"{platform.system()}, {os.cpu_count()} cores, {model}, Python {platform.python_version()}"
    )


def write_between_markers(page: Path, text: str) -> None:
    """Put ``text`` into the page, in the place of what was between its markers."""
    before, begin, rest = page.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{page.name} lacks the line {BEGIN} or {END}; add both")
    page.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}")


def as_json(
    parts: Sequence[tuple[str, Task, Sequence[Row]]], versions: dict[str, dict[str, str]]
) -> str:
    """The same as JSON."""
    names = ("epsilon", "delta", "world", "seed", "trajectories", "states", "most_states")
    document = {
        "machine": machine(),
        "versions": versions,
        "tasks": [
            {
                "title": title,
                **{name: getattr(task, name) for name in names},
                "rows": [vars(row) for row in rows],
            }
            for title, task, rows in parts
        ],
    }
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def _table(rows: Sequence[Row]) -> str:
    lines = [
        "| library | what | RMSE | seconds | CPU seconds | releases | relation by |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        if row.error is None:
            cells = [f"not run: {row.reason}", "", "", ""]
        else:
            cells = [
                _number(row.error, 3)
                + (f" ± {row.standard_error:.1g}" if row.standard_error else ""),
                "" if row.seconds is None else _number(row.seconds, 2),
                "" if row.cpu_seconds is None else _number(row.cpu_seconds, 2),
                "" if row.releases is None else str(row.releases),
            ]
        cells = [row.who, row.name, *cells, row.guarantee]
        lines.append("| " + " | ".join(map(_cell, cells)) + " |")
    return "\n".join(lines)


def _cell(text: str) -> str:
    """Text that stays inside its cell."""
    return text.replace("|", "\\|").replace("\n", " ")


def _number(value: float, digits: int) -> str:
    """So many significant digits, never with an exponent."""
    if value == 0:
        return "0"
    places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:.{places}f}"


def _versions(who: str, packages: dict[str, str]) -> str:
    return f"{who}: " + ", ".join(f"{name} {number}" for name, number in packages.items())
