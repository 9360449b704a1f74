"""Keep results as tidy tables: one row is one number of one run of one algorithm.

``points`` are their means and standard errors over runs. Both are written out, with settings and
seeds: everything that a picture or a claim says can be computed again from the files.
"""

import csv
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from privalue.core import Vector
from privalue.errors import UsageError
from privalue.paper._batches import batch_seed, noise_seed
from privalue.paper._methods import Method, MethodSetting


@dataclass(frozen=True, kw_only=True, slots=True)
class TableRow:
    """One number of one run, with everything that identifies it."""

    algorithm: str
    bound: float
    aggregation: int
    normalised: bool
    schedule: str
    ridge: float | None
    trajectories: int
    measure: str
    value: float
    run: int
    batch_seed: int
    noise_seed: int


KEYS = tuple(
    field.name
    for field in fields(TableRow)
    if field.name not in {"value", "run", "batch_seed", "noise_seed"}
)
Key = tuple[Any, ...]


def rows_of(
    method: Method, setting: MethodSetting, trajectories: int, run: int, measures: dict[str, float]
) -> list[TableRow]:
    """Return the rows of one outcome.

    Args:
        method: the algorithm.
        setting: the bound of returns and the features.
        trajectories: m.
        run: the number of the run.
        measures: the numbers, by the names of their measures.

    Returns:
        A row for each measure.
    """
    return [
        TableRow(
            algorithm=method.name,
            bound=setting.bound,
            aggregation=setting.aggregation,
            normalised=setting.normalised,
            schedule=method.schedule,
            ridge=method.ridge,
            trajectories=trajectories,
            measure=measure,
            value=value,
            run=run,
            batch_seed=batch_seed(trajectories, run),
            noise_seed=noise_seed(trajectories, run),
        )
        for measure, value in measures.items()
    ]


@dataclass(frozen=True, kw_only=True)
class Point:
    """The mean over runs, and its standard error."""

    key: dict[str, Any]
    mean: float
    standard_error: float
    runs: int


class Curve:
    """One algorithm's numbers along m or lambda: ``values`` has a row for each run."""

    def __init__(self, at: Sequence[float], values: Vector) -> None:
        self.at = np.array(at, dtype=np.float64)
        self.values = values

    @property
    def mean(self) -> Vector:
        """Return the mean over the runs."""
        return np.asarray(self.values.mean(axis=0))

    @property
    def error(self) -> Vector:
        """Return the standard error of the mean; 0 where there is one run only."""
        runs = len(self.values)
        if runs < 2:
            return np.zeros(self.values.shape[1])
        return np.asarray(self.values.std(axis=0, ddof=1) / math.sqrt(runs))

    def between(self, low: float, high: float) -> "Curve":
        """Return the part of the curve between two positions, both included."""
        inside = (self.at >= low) & (self.at <= high)
        return Curve(self.at[inside].tolist(), self.values[:, inside])


class ResultTable:
    """The rows of an experiment."""

    def __init__(self, rows: Iterable[TableRow]) -> None:
        self.rows = tuple(rows)
        self._series: dict[Key, dict[int, float]] = {}
        for row in self.rows:
            key = tuple(getattr(row, name) for name in KEYS)
            self._series.setdefault(key, {})[row.run] = row.value

    def curve(self, along: str = "trajectories", measure: str = "rmse", **where: Any) -> Curve:
        """Return all points that fit, in order of ``along``; they may differ in nothing else."""
        chosen = {"measure": measure, **where}
        unknown = set(chosen) - set(KEYS)
        if unknown:
            raise UsageError(
                f"{sorted(unknown)[0]} is not a column; the columns are {', '.join(KEYS)}"
            )
        found: dict[float, dict[int, float]] = {}
        for key, series in self._series.items():
            named = dict(zip(KEYS, key, strict=True))
            if all(named[name] == value for name, value in chosen.items()):
                if named[along] in found:
                    raise UsageError(f"{chosen} is more than one curve; choose further")
                found[named[along]] = series
        if not found:
            raise UsageError(f"there are no results for {chosen}")
        runs = sorted(set.intersection(*(set(series) for series in found.values())))
        at = sorted(found)
        return Curve(at, np.array([[found[x][run] for x in at] for run in runs]))

    def points(self) -> list[Point]:
        """Return mean and standard error of every point, in the order of computation."""
        made = []
        for key, series in self._series.items():
            values = np.array(list(series.values()))
            error = float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else 0.0
            made.append(
                Point(
                    key=dict(zip(KEYS, key, strict=True)),
                    mean=float(values.mean()),
                    standard_error=error,
                    runs=len(values),
                )
            )
        return made

    def write(self, file: Path, settings: dict[str, Any]) -> list[Path]:
        """Write every row to ``file`` with .csv, and settings and points with .json."""
        runs, points = file.with_suffix(".csv"), file.with_suffix(".json")
        with runs.open("w", encoding="utf-8", newline="") as opened:
            writer = csv.DictWriter(opened, [field.name for field in fields(TableRow)])
            writer.writeheader()
            writer.writerows(asdict(row) for row in self.rows)
        described = {
            **settings,
            "points": [
                {
                    **point.key,
                    "mean": point.mean,
                    "standard_error": point.standard_error,
                    "runs": point.runs,
                }
                for point in self.points()
            ],
        }
        points.write_text(json.dumps(described, indent=1, allow_nan=False) + "\n", "utf-8")
        return [runs, points]
