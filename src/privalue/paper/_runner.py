"""Run experiments in parallel over runs, and never the same run twice.

Each finished run of an experiment is a file of its own in ``DIR/runs``; its name has a hash of the
settings and the code that it was computed with. An interrupted reproduction continues from these
files; after a change of settings or code everything is computed anew.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from privalue._types import Progress
from privalue.ledger.files import write_whole
from privalue.paper._experiment import AnyExperiment
from privalue.paper._settings import Effort
from privalue.paper._table import ResultTable, TableRow
from privalue.version import VERSION

FORMAT = 1  # of the stored runs


def described(experiment: AnyExperiment, effort: Effort) -> dict[str, Any]:
    """Return the settings of an experiment as plain values, for the files."""
    return {
        "experiment": experiment.name,
        "title": experiment.title,
        "private": False,  # made-up data and seeded noise
        "effort": asdict(effort),
        "settings": json.loads(json.dumps(asdict(experiment.settings(effort)))),
        "version": VERSION,
    }


@lru_cache
def code_digest() -> str:
    """Return a hash of every module of the package, so that results of other code are not used."""
    digest = hashlib.sha256()
    package = Path(__file__).parents[1]
    for module in sorted(package.rglob("*.py")):
        digest.update(module.relative_to(package).as_posix().encode())
        digest.update(module.read_bytes())
    return digest.hexdigest()


class RunStore:
    """The finished runs of an experiment on disk."""

    def __init__(self, folder: Path, experiment: AnyExperiment, effort: Effort) -> None:
        # The number of runs is left out, so that more runs continue from those that are stored.
        settings = described(experiment, effort)["settings"]
        known = {"format": FORMAT, "code": code_digest(), "settings": settings}
        self._fingerprint = hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()
        self._folder = folder / "runs"
        self._name = experiment.name

    def file(self, run: int) -> Path:
        """Return the path of a run."""
        return self._folder / f"{self._name}-{self._fingerprint[:12]}-{run:03d}.json"

    def load(self, run: int) -> list[TableRow] | None:
        """Return the rows of a finished run; None if there is none, or not a whole one."""
        try:
            kept = json.loads(self.file(run).read_text(encoding="utf-8"))
            if kept["fingerprint"] != self._fingerprint:
                return None
            return [
                TableRow(**dict(zip(kept["columns"], row, strict=True))) for row in kept["rows"]
            ]
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def save(self, run: int, rows: Sequence[TableRow]) -> None:
        """Write a run to disk, whole or not at all."""
        self._folder.mkdir(parents=True, exist_ok=True)
        columns = list(TableRow.__slots__)
        kept = {
            "fingerprint": self._fingerprint,
            "columns": columns,
            "rows": [[getattr(row, name) for name in columns] for row in rows],
        }
        write_whole(self.file(run), json.dumps(kept, allow_nan=False))


def run_all(
    experiments: Sequence[AnyExperiment],
    effort: Effort,
    folder: Path,
    *,
    processes: int = 2,
    progress: Progress | None = None,
) -> dict[str, ResultTable]:
    """Return the table of each experiment, from stored runs and from those that were missing.

    Args:
        experiments: which.
        effort: how many runs, and of what size.
        folder: where finished runs are kept, in ``runs``.
        processes: how many to use; with 1 everything happens in this one.
        progress: called after each run.

    Returns:
        The tables by the names of the experiments.
    """
    stores = {e.name: RunStore(folder, e, effort) for e in experiments}
    total = len(experiments) * effort.runs
    rows: dict[tuple[str, int], list[TableRow]] = {}
    missing = []
    for experiment in experiments:
        for run in range(effort.runs):
            kept = stores[experiment.name].load(run)
            if kept is None:
                missing.append((experiment, run))
            else:
                rows[experiment.name, run] = kept
    report = progress or (lambda done, total: None)
    report(len(rows), total)
    for name, run, found in _completed(missing, effort, processes):
        rows[name, run] = found
        stores[name].save(run, found)
        report(len(rows), total)
    return {
        e.name: ResultTable(row for run in range(effort.runs) for row in rows[e.name, run])
        for e in experiments
    }


def _completed(
    missing: Sequence[tuple[AnyExperiment, int]], effort: Effort, processes: int
) -> Iterator[tuple[str, int, list[TableRow]]]:
    """Yield runs as they finish.

    Processes are started afresh, not forked: threads of numerical libraries do not survive a fork.
    """
    if min(processes, len(missing)) <= 1:
        for experiment, run in missing:
            yield experiment.name, run, experiment.run(experiment.settings(effort), run)
        return
    pool = ProcessPoolExecutor(min(processes, len(missing)), mp_context=get_context("spawn"))
    try:
        waiting = {
            pool.submit(experiment.run, experiment.settings(effort), run): (experiment.name, run)
            for experiment, run in missing
        }
        for future in as_completed(waiting):
            yield *waiting[future], future.result()
    finally:  # after an interrupt or a failure no further run is begun
        pool.shutdown(wait=True, cancel_futures=True)
