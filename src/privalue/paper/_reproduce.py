"""Reproduce everything into a folder: the paper's four panels, the claims, and what surpasses them.

| file                            | holds                                                    |
|---------------------------------|----------------------------------------------------------|
| ``panel-1.csv``, ...            | every run of every point, with its seeds                 |
| ``panel-1.json``, ...           | settings; mean and standard error of every point         |
| ``panel-1.png``, ``.svg``, ...  | the pictures                                             |
| ``claims.json``, ``.csv``, ``.md`` | each sentence of the paper, its test, its verdict     |
| ``savings.json``, ``.csv``, ``.md`` | trajectories that each algorithm needs               |
| ``report.md``                   | all of it on a page                                      |
| ``runs/``                       | finished runs: an interrupted reproduction goes on there |
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from privalue._types import Progress
from privalue.paper._again import AGAIN
from privalue.paper._aggregated import PANEL_3
from privalue.paper._claims import Claim, claims, markdown, write_claims
from privalue.paper._convergence import PANEL_1
from privalue.paper._excess import PANEL_4
from privalue.paper._experiment import AnyExperiment
from privalue.paper._pictures import save
from privalue.paper._regularisation import PANEL_2
from privalue.paper._runner import described, run_all
from privalue.paper._settings import Effort
from privalue.paper._surpassed import SURPASSED, Saving, savings, write_savings
from privalue.paper._table import ResultTable

EXPERIMENTS: tuple[AnyExperiment, ...] = (PANEL_1, PANEL_2, PANEL_3, PANEL_4, SURPASSED, AGAIN)


@dataclass(frozen=True, kw_only=True, eq=False)
class Reproduction:
    """The results of a reproduction, and the files that hold them."""

    folder: Path
    effort: Effort
    tables: dict[str, ResultTable]
    claims: list[Claim]
    savings: list[Saving]
    pictures: list[Path]
    files: list[Path]
    seconds: float


def reproduce(
    folder: Path, effort: Effort, *, processes: int = 2, progress: Progress | None = None
) -> Reproduction:
    """Run what is not stored yet, then write tables, claims, savings and figures.

    Args:
        folder: where to write; made if it is not there.
        effort: how many runs, and of what size.
        processes: how many to use.
        progress: called with runs done, and runs in all.

    Returns:
        The results and the paths of all files.
    """
    began = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    tables = run_all(EXPERIMENTS, effort, folder, processes=processes, progress=progress)
    files: list[Path] = []
    pictures: list[Path] = []
    for experiment in EXPERIMENTS:
        table, settings = tables[experiment.name], experiment.settings(effort)
        files += table.write(folder / experiment.name, described(experiment, effort))
        for name, plot in experiment.plots.items():
            pictures += save(plot(settings, table), folder / name)
    decided = claims(tables)
    needed = savings(SURPASSED.settings(effort), tables[SURPASSED.name])
    files += write_claims(decided, folder / "claims")
    files += write_savings(needed, folder / "savings")
    report = folder / "report.md"
    report.write_text(_report(effort, decided, needed), encoding="utf-8")
    return Reproduction(
        folder=folder,
        effort=effort,
        tables=tables,
        claims=decided,
        savings=needed,
        pictures=pictures,
        files=[*files, report],
        seconds=time.monotonic() - began,
    )


def _report(effort: Effort, decided: Sequence[Claim], needed: Sequence[Saving]) -> str:
    """Return the page ``report.md``."""
    lines = [
        "# The paper's experiments",
        "",
        f"{effort.runs} runs, effort: {effort.name}. Made-up data and seeded noise: not private.",
        "",
        "## Claims",
        "",
        markdown(decided),
        "## Trajectories needed",
        "",
        savings_markdown(needed),
        "## Pictures",
        "",
    ]
    for experiment in EXPERIMENTS:
        lines += [f"{experiment.title}:", ""]
        lines += [f"![{experiment.title}]({name}.png)" for name in experiment.plots]
        lines += [""]
    return "\n".join(lines)


def savings_markdown(found: Sequence[Saving]) -> str:
    """Return a table: algorithms down, targets and cases across, each with the factor saved."""
    cases = list(dict.fromkeys((s.bound, s.aggregation, s.target) for s in found))
    head = [
        f"[0, {bound:g}], {'tabular' if size == 1 else 'pairs'}: {target:g}"
        for bound, size, target in cases
    ]
    lines = [f"| algorithm | {' | '.join(head)} |", "|---" * (len(cases) + 1) + "|"]
    for name in dict.fromkeys(s.algorithm for s in found):
        cells = {(s.bound, s.aggregation, s.target): s for s in found if s.algorithm == name}
        lines.append(f"| {LABELS.get(name, name)} | {' | '.join(_cell(cells[c]) for c in cases)} |")
    return "\n".join(lines) + "\n"


LABELS = {
    "DP-LSW": "DP-LSW, as published",
    "DP-LSL": "DP-LSL, as published, best lambda",
    "exact": "DP-LSW, exact, whitened, automatic beta",
    "exact + pseudo-count": "the same with pseudo-count 100",
    "DP-SSP, plain": "DP-SSP without shrinkage",
    "DP-SSP + prior": "DP-SSP, visits publicly known",
    "LSW": "no privacy (LSW)",
}


def _cell(saving: Saving) -> str:
    """Format the trajectories that an algorithm needs, with the factor that it saves."""
    if not math.isfinite(saving.needed.at):
        return "never"
    needed = float(f"{saving.needed.at:.2g}")
    text = f"{needed:,.0f}"
    factor = saving.factor
    return text if factor is None or factor <= 1 + 1e-9 else f"{text} ({factor_text(factor)})"


def factor_text(factor: float) -> str:
    """Format a factor with two digits, written out.

    >>> factor_text(912.3), factor_text(1.234)
    ('910 x', '1.2 x')
    """
    return f"{float(f'{factor:.2g}'):,g} x"
