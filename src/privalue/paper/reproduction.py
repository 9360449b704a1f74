"""Reproduce everything into a folder: the paper's four panels, the claims, and what surpasses them.

| file                            | holds                                              |
|---------------------------------|----------------------------------------------------|
| ``panel-1.csv``, ...            | the number of every case in every run              |
| ``panel-1.png``, ``.svg``, ...  | the pictures                                       |
| ``claims.json``                 | each sentence of the paper, its test, its verdict  |
| ``savings.json``                | trajectories that each algorithm needs             |
| ``report.md``                   | all of it on a page                                |
"""

import csv
import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privalue._types import Progress
from privalue.paper.claims import decide
from privalue.paper.evidence import reached
from privalue.paper.experiments import (
    OURS,
    PUBLISHED,
    TARGETS,
    Effort,
    Results,
    best_curve,
    run_all,
    surpassed_features,
)

LABELS = {
    "DP-LSW": "DP-LSW, as published",
    "DP-LSL": "DP-LSL, as published, best lambda",
    "exact": "DP-LSW, exact, whitened, automatic beta",
    "exact + pseudo-count": "the same with pseudo-count 100",
    "DP-SSP, plain": "DP-SSP without shrinkage",
    "DP-SSP + prior": "DP-SSP, visits publicly known",
    "LSW": "no privacy (LSW)",
}
WORDS = {True: "yes", False: "no", None: "undecided"}


@dataclass(frozen=True, kw_only=True, eq=False)
class Reproduction:
    """The results of a reproduction, and the files that hold them; plain values for JSON."""

    folder: Path
    effort: Effort
    claims: list[dict[str, Any]]
    savings: list[dict[str, Any]]
    pictures: list[Path]
    files: list[Path]
    seconds: float


def reproduce(
    folder: Path, effort: Effort, *, processes: int = 2, progress: Progress | None = None
) -> Reproduction:
    """Run every experiment, decide the claims, and write tables and figures into a folder."""
    from privalue.paper.figures import FIGURES, draw_all  # noqa: PLC0415 - Matplotlib, which is an extra

    began = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    tables = run_all(effort, processes=processes, progress=progress)
    claims, needed = decide(tables), savings(tables["surpassed"], effort)
    for name, table in tables.items():
        with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            rows = list(table.rows())
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    texts = {
        "claims.json": json.dumps({"private": False, "claims": claims}, indent=1),
        "savings.json": json.dumps({"private": False, "savings": needed}, indent=1),
        "report.md": _report(effort, claims, needed, list(FIGURES)),
    }
    for name, text in texts.items():
        (folder / name).write_text(text + "\n", encoding="utf-8")
    return Reproduction(
        folder=folder,
        effort=effort,
        claims=claims,
        savings=needed,
        pictures=draw_all(tables, effort, folder),
        files=[folder / name for name in (*texts, *(f"{name}.csv" for name in tables))],
        seconds=time.monotonic() - began,
    )


def savings(table: Results, effort: Effort) -> list[dict[str, Any]]:
    """Return how many trajectories every algorithm needs to reach every target, in every case.

    An RMSE is reached at the m from which on the mean over runs stays below it; ``factor`` is how
    many times fewer that is than the lesser of the paper's two.
    """
    found = []
    for features in surpassed_features(effort):
        curves = {name: best_curve(table, name, features) for name in (*PUBLISHED, *OURS, "LSW")}
        for target in TARGETS:
            needed = {name: reached(c.at, c.mean, target) for name, c in curves.items()}
            least = min(needed[name] for name in PUBLISHED)
            for name, m in needed.items():
                finite = math.isfinite(m)
                found.append(
                    {
                        "algorithm": name,
                        "bound": features.bound,
                        "aggregation": features.aggregation,
                        "rmse": target,
                        "trajectories": m if finite else None,
                        "factor": least / m if finite and math.isfinite(least) else None,
                    }
                )
    return found


def _report(
    effort: Effort, claims: Sequence[Any], needed: Sequence[Any], pictures: Sequence[str]
) -> str:
    lines = [
        "# The paper's experiments",
        "",
        f"{effort.runs} runs, effort: {effort.name}. Made-up data and seeded noise: not private.",
        "",
        "## Claims",
        "",
        claims_markdown(claims),
        "",
        "## Trajectories needed",
        "",
        savings_markdown(needed),
        "",
        "## Pictures",
    ]
    lines += ["", *(f"![{name}]({name}.png)" for name in pictures)]
    return "\n".join(lines)


def claims_markdown(claims: Sequence[dict[str, Any]]) -> str:
    """Return a table of the verdicts, then of each claim its test and every part with figures."""
    lines = ["| the paper says | verdict |", "|---|---|"]
    lines += [f"| {claim['sentence']} | **{claim['verdict']}** |" for claim in claims]
    for claim in claims:
        lines += ["", f"**{claim['sentence']}.** The test: {claim['test']}.", ""]
        lines += [
            f"- {part['what']}: **{WORDS[part['holds']]}**, {part['figures']}"
            for part in claim["parts"]
        ]
    return "\n".join(lines)


def savings_markdown(found: Sequence[dict[str, Any]]) -> str:
    """Return a table: algorithms down, targets and cases across, each with the factor saved."""
    cells: dict[str, dict[str, str]] = {}
    for saving in found:
        size = "tabular" if saving["aggregation"] == 1 else "pairs"
        case = f"[0, {saving['bound']:g}], {size}: {saving['rmse']:g}"
        cells.setdefault(saving["algorithm"], {})[case] = _cell(saving)
    head = next(iter(cells.values()))
    lines = [f"| algorithm | {' | '.join(head)} |", "|---" * (len(head) + 1) + "|"]
    for name, row in cells.items():
        lines.append(f"| {LABELS.get(name, name)} | {' | '.join(row.values())} |")
    return "\n".join(lines)


def _cell(saving: dict[str, Any]) -> str:
    if saving["trajectories"] is None:
        return "never"
    needed, factor = float(f"{saving['trajectories']:.2g}"), saving["factor"]
    text = f"{needed:,.0f}"
    return text if factor is None or factor <= 1.001 else f"{text} ({factor_text(factor)})"


def factor_text(factor: float) -> str:
    """Format a factor with two digits, written out.

    >>> factor_text(912.3), factor_text(1.234)
    ('910 x', '1.2 x')
    """
    return f"{float(f'{factor:.2g}'):,g} x"
