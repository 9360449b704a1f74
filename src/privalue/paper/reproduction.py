"""Reproduce the paper's four panels and claims, and the comparison with our methods, in a folder.

| file                            | holds                                              |
|---------------------------------|----------------------------------------------------|
| ``panel-1.csv``, ...            | the result of every case in every run              |
| ``panel-1.png``, ``.svg``, ...  | the figures                                        |
| ``claims.json``                 | each sentence of the paper, its test, its verdict  |
| ``savings.json``                | trajectories that each algorithm needs             |
| ``report.md``                   | a summary on one page                              |
"""

import csv
import json
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader

from privalue.paper import experiments
from privalue.paper.claims import decide
from privalue.paper.evidence import settling_point
from privalue.paper.experiments import Effort, Results

LABELS = {
    "DP-LSW": "DP-LSW, as published",
    "DP-LSL": "DP-LSL, as published, best lambda",
    "exact": "DP-LSW, exact, whitened, automatic beta",
    "exact + pseudo-count": "the same with pseudo-count 100",
    "DP-SSP, plain": "DP-SSP without shrinkage",
    "DP-SSP + prior": "DP-SSP, visits publicly known",
    "LSW": "no privacy (LSW)",
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Reproduction:
    """The results of a reproduction, as plain values for JSON, and the files written."""

    folder: Path
    effort: Effort
    claims: list[dict[str, Any]]
    savings: list[dict[str, Any]]
    pictures: list[Path]
    files: list[Path]
    seconds: float


def reproduce(
    folder: Path,
    effort: Effort,
    *,
    processes: int = 2,
    progress: Callable[[int, int], None] | None = None,
) -> Reproduction:
    """Run every experiment, decide the claims, and write tables and figures into a folder."""
    from privalue.paper.figures import draw_all  # noqa: PLC0415 - Matplotlib, which is an extra

    start = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    tables = experiments.run_all(effort, processes=processes, progress=progress)
    claims, sizes = decide(tables), savings(tables["surpassed"])
    for name, table in tables.items():
        with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            rows = list(table.rows())
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    pictures = draw_all(tables, folder)
    texts = {
        "claims.json": json.dumps({"private": False, "claims": claims}, indent=1) + "\n",
        "savings.json": json.dumps({"private": False, "savings": sizes}, indent=1) + "\n",
        "report.md": _report(effort, claims, sizes, pictures),
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return Reproduction(
        folder=folder,
        effort=effort,
        claims=claims,
        savings=sizes,
        pictures=[file for files in pictures.values() for file in files],
        files=[folder / name for name in (*texts, *(f"{name}.csv" for name in tables))],
        seconds=time.monotonic() - start,
    )


def savings(table: Results) -> list[dict[str, Any]]:
    """Return the trajectories that each algorithm needs to reach each target error, by case.

    A target is reached at the least m from which the mean RMSE over runs stays below it; ``factor``
    is how many times fewer trajectories that is than for the better of the paper's two algorithms.
    """
    rows = []
    for features in experiments.COMPARED_FEATURES:
        case: dict[str, Any] = {"bound": features.bound, "aggregation": features.aggregation}
        curves = {
            name: table.curve(best="ridge", algorithm=name, **case)
            for name in (*experiments.PAPER_NAMES, *experiments.OUR_NAMES, "LSW")
        }
        for target in experiments.TARGET_ERRORS:
            sizes = {name: settling_point(c.at, c.mean, target) for name, c in curves.items()}
            least = min(sizes[name] for name in experiments.PAPER_NAMES)
            for name, m in sizes.items():
                finite = math.isfinite(m)
                rows.append(
                    {
                        "algorithm": name,
                        **case,
                        "rmse": target,
                        "trajectories": m if finite else None,
                        "factor": least / m if finite and math.isfinite(least) else None,
                    }
                )
    return rows


def _report(
    effort: Effort, claims: Sequence[Any], savings: Sequence[Any], pictures: Iterable[str]
) -> str:
    """Return the summary in Markdown: verdicts with their tests, trajectories needed, figures."""
    sizes: dict[str, dict[str, str]] = {}  # by algorithm, then by case and target
    for saving in savings:
        kind = "tabular" if saving["aggregation"] == 1 else "pairs"
        column = f"[0, {saving['bound']:g}], {kind}: {saving['rmse']:g}"
        sizes.setdefault(saving["algorithm"], {})[column] = _cell(saving)
    environment = Environment(
        loader=PackageLoader("privalue.paper", ""), keep_trailing_newline=True, autoescape=False
    )
    return environment.get_template("report.md.j2").render(
        effort=effort,
        claims=claims,
        columns=list(next(iter(sizes.values()))),
        sizes={name: list(row.values()) for name, row in sizes.items()},
        labels=LABELS,
        pictures=pictures,
    )


def _cell(saving: dict[str, Any]) -> str:
    if saving["trajectories"] is None:
        return "never"
    size, factor = float(f"{saving['trajectories']:.2g}"), saving["factor"]
    text = f"{size:,.0f}"
    return text if factor is None or factor <= 1.001 else f"{text} ({factor_text(factor)})"


def factor_text(factor: float) -> str:
    """Format a factor with two digits, written out.

    >>> factor_text(912.3), factor_text(1.234)
    ('910 x', '1.2 x')
    """
    return f"{float(f'{factor:.2g}'):,g} x"
