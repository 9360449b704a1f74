"""Define and run six experiments: the paper's four panels, and two with our methods.

A case is one algorithm at one m with one measure; an experiment is a list of cases. ``run_all``
computes every case in every run, on the same batches.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import product
from multiprocessing import get_context
from typing import Any

import numpy as np

from privalue.core import Vector
from privalue.errors import UsageError
from privalue.paper import methods
from privalue.paper.methods import DP_LSW, EXACT_LSW, LSW, Features, Method

BOUNDS = (methods.WIDE, methods.TIGHT)
GROUP_SIZES = (1, 2, 4, 8)  # states that share a value
TARGET_ERRORS = (0.05, 0.01)


@dataclass(frozen=True, kw_only=True)
class Effort:
    """The number of runs and of batch sizes; ``FULL`` is the paper's protocol."""

    name: str
    runs: int
    per_decade: int  # batch sizes in each decade

    def sizes(self, largest: int = 10**7) -> tuple[int, ...]:
        """Return batch sizes m from 10, evenly spaced on a logarithmic scale.

        >>> QUICK.sizes(1000)
        (10, 100, 1000)
        """
        steps = np.arange(round(self.per_decade * np.log10(largest / 10)) + 1) / self.per_decade
        return tuple(round(m) for m in 10 ** (1 + steps))


FULL = Effort(name="full", runs=20, per_decade=4)
QUICK = Effort(name="quick", runs=5, per_decade=1)


@dataclass(frozen=True, kw_only=True)
class Case:
    """One result of every run: a measure of an algorithm with its features, at one m.

    Measures are "rmse", "clipped" (the RMSE of values clipped to the public bounds, a
    post-processing that favours large noise) and "excess" (the excess empirical risk).
    """

    method: Method
    features: Features
    trajectories: int
    measure: str = "rmse"

    def compute(self, run: int) -> float:
        """Return the measure of one run."""
        if self.measure == "excess":
            return methods.excess(self.method, self.features, self.trajectories, run)
        values = methods.outcome(self.method, self.features, self.trajectories, run).values
        if self.measure == "clipped":
            values = np.clip(values, 0.0, self.features.bound)
        return methods.rmse(values)

    @property
    def key(self) -> dict[str, Any]:
        """Return the fields that identify the case, for tables and curves."""
        return {
            "algorithm": self.method.name,
            "schedule": self.method.schedule,
            "ridge": self.method.ridge,
            **asdict(self.features),
            "trajectories": self.trajectories,
            "measure": self.measure,
        }


def _lambdas(low: float, decades: int, per_decade: int) -> list[float]:
    steps = np.arange(decades * per_decade + 1) / per_decade
    return [float(f"{ridge:.6g}") for ridge in low * 10**steps]


def _with_schedules(
    make: Callable[[float, str], Method], schedules: Sequence[str], m: int
) -> list[Method]:
    return [make(methods.scheduled_ridge(text, m), text) for text in schedules]


PANEL_1_SCHEDULES = ("1", "sqrt(m)", "100 sqrt(m)")  # the paper does not say which lambda it used


def panel_1(effort: Effort) -> Iterator[Case]:
    """LSL and LSW without privacy, RMSE against m."""
    for aggregation, m in product((1, 2), effort.sizes()):
        for method in (LSW, *_with_schedules(methods.plain_lsl, PANEL_1_SCHEDULES, m)):
            yield Case(method=method, features=Features(aggregation=aggregation), trajectories=m)


PANEL_2_SIZES = (10**4, 10**5, 10**6, 10**7, 10**8, 10**9, 8 * 10**9)  # up to the core's limit of m


def panel_2(effort: Effort) -> Iterator[Case]:
    """All four algorithms, tabular, RMSE against lambda."""
    # The paper's DP-LSL needs lambda > ||Phi||^2 = 1.
    lambdas = _lambdas(2.0, 8, 2 * effort.per_decade)
    ridges = [*map(methods.plain_lsl, lambdas), *map(methods.dp_lsl, lambdas)]
    for bound, m, method in product(BOUNDS, PANEL_2_SIZES, [LSW, DP_LSW, *ridges]):
        yield Case(method=method, features=Features(bound=bound), trajectories=m)


# lambda grows as sqrt(m), as in the paper, which does not give the constant.
PANEL_3_SCHEDULES = ("10 sqrt(m)", "100 sqrt(m)", "1000 sqrt(m)")


def panel_3(effort: Effort) -> Iterator[Case]:
    """All four algorithms with pairs aggregated, RMSE against m."""
    for bound, m in product(BOUNDS, effort.sizes()):
        ridges = (
            *_with_schedules(methods.plain_lsl, PANEL_3_SCHEDULES, m),
            *_with_schedules(methods.dp_lsl, PANEL_3_SCHEDULES, m),
        )
        for method in (LSW, DP_LSW, *ridges):
            features = Features(bound=bound, aggregation=2)
            yield Case(method=method, features=features, trajectories=m)


SQRT, LINEAR = "100 sqrt(m)", "10 m"  # the paper's recommendation; the optimum of its bound


def panel_4(effort: Effort) -> Iterator[Case]:
    """Excess empirical risk against m, for several aggregations."""
    # m goes a decade further than in the other panels, so that asymptotic rates are visible.
    for bound, size, m in product(BOUNDS, GROUP_SIZES, effort.sizes(10**8)):
        features = Features(bound=bound, aggregation=size)
        case = Case(method=DP_LSW, features=features, trajectories=m, measure="excess")
        yield case
        for method in _with_schedules(methods.dp_lsl, (SQRT, LINEAR), m):
            yield replace(case, method=method)
            if size > 1:  # with features of norm 1, aggregation does not change ||Phi||
                yield replace(case, method=method, features=replace(features, normalised=True))


PAPER_NAMES = ("DP-LSW", "DP-LSL")
EXACT, PSEUDO, SSP_PLAIN, SSP, SSP_PRIOR = OUR_NAMES = (
    "exact",
    "exact + pseudo-count",
    "DP-SSP, plain",
    "DP-SSP",
    "DP-SSP + prior",
)


def our_methods() -> list[Method]:
    """Return our algorithms; they give unvisited states the middle of the bounds."""
    ssp = (("mechanism", "dp-ssp"),)
    algorithms = [
        replace(EXACT_LSW, name=EXACT),
        replace(EXACT_LSW, name=PSEUDO, keys=(*EXACT_LSW.keys, ("pseudo_count", 100.0))),
        Method(name=SSP_PLAIN, keys=(*ssp, ("shrinkage", False))),
        Method(name=SSP, keys=ssp),
        Method(name=SSP_PRIOR, keys=ssp, prior=True),
    ]
    return [replace(method, unvisited=0.5) for method in algorithms]


COMPARED_FEATURES = (Features(), Features(aggregation=2), Features(bound=methods.WIDE))


def beyond_the_paper(effort: Effort) -> Iterator[Case]:
    """The paper's algorithms and ours on the same batches and guarantee: RMSE against m."""
    # Always four batch sizes per decade: curves are interpolated, and some are steep.
    sizes = replace(effort, per_decade=4).sizes(10**7 if effort.per_decade == 1 else 10**9)
    scales = _lambdas(10.0, 3, effort.per_decade)  # lambda over sqrt(m)
    for features, m in product(COMPARED_FEATURES, sizes):
        ridges = [methods.dp_lsl(scale * m**0.5) for scale in scales]
        for method in (LSW, DP_LSW, *our_methods(), *ridges):
            yield Case(method=method, features=features, trajectories=m, measure="clipped")


def panels_exact(effort: Effort) -> Iterator[Case]:
    """Panels 2 and 4, with exact calibration and DP-SSP."""
    reduced = replace(effort, per_decade=max(effort.per_decade // 2, 1))
    for m in (10**4, 10**6):
        ridges = []
        for ridge in _lambdas(0.1, 8, reduced.per_decade):  # our sharper bound allows 0.1
            makers = (methods.plain_lsl, methods.exact_lsl, methods.ssp_lsl)
            ridges += [make(ridge) for make in makers]
            ridges += [methods.dp_lsl(ridge)] if ridge > 1 else []
        for method in (EXACT_LSW, DP_LSW, *ridges):
            yield Case(method=method, features=Features(), trajectories=m)
    for size, m in product(GROUP_SIZES, reduced.sizes()):
        exact = _with_schedules(methods.exact_lsl, ["sqrt(m)"], m)
        published = _with_schedules(methods.dp_lsl, [LINEAR], m)
        for method in (EXACT_LSW, DP_LSW, *exact, *published):
            features = Features(aggregation=size)
            yield Case(method=method, features=features, trajectories=m, measure="excess")


EXPERIMENTS: dict[str, Callable[[Effort], Iterator[Case]]] = {
    "panel-1": panel_1,
    "panel-2": panel_2,
    "panel-3": panel_3,
    "panel-4": panel_4,
    "surpassed": beyond_the_paper,
    "again": panels_exact,
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Curve:
    """One algorithm's results along m or lambda: ``values`` has a row for each run."""

    at: Vector
    values: Vector
    keys: Mapping[str, Any] = field(default_factory=dict)  # fields that its cases share

    @property
    def mean(self) -> Vector:
        """Return the mean over the runs."""
        return np.asarray(self.values.mean(axis=0))

    @property
    def error(self) -> Vector:
        """Return the standard error of the mean."""
        return np.asarray(self.values.std(axis=0, ddof=1) / len(self.values) ** 0.5)

    def between(self, low: float, high: float) -> "Curve":
        """Return the part of the curve between two positions, both included."""
        inside = (self.at >= low) & (self.at <= high)
        return replace(self, at=self.at[inside], values=self.values[:, inside])


class Results:
    """The results of an experiment: a number for each run and case."""

    def __init__(self, cases: Sequence[Case], values: Vector) -> None:
        self.keys = [case.key for case in cases]
        self.values = values  # runs by cases

    def curve(self, along: str = "trajectories", *, best: str = "", **where: Any) -> Curve:
        """Return the cases with these fields, in order of ``along``, as one curve.

        They may differ in no other field but ``best``, if that is given: at each position the case
        with the least mean over runs is taken.
        """
        places: dict[float, list[int]] = {}
        for place, key in enumerate(self.keys):
            if all(key[name] == value for name, value in where.items()):
                places.setdefault(key[along], []).append(place)
        if not places or (not best and len(places) < sum(map(len, places.values()))):
            raise UsageError(f"{where}: {'several curves' if places else 'no curve'} in results")
        means, at = self.values.mean(axis=0), sorted(places)
        picks = [min(places[x], key=means.__getitem__) for x in at]
        return Curve(at=np.array(at, dtype=np.float64), values=self.values[:, picks], keys=where)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield every result with the fields of its case and its run."""
        for run, numbers in enumerate(self.values.tolist()):
            for key, value in zip(self.keys, numbers, strict=True):
                yield {**key, "run": run, "value": value}


def _compute(effort: Effort, task: tuple[str, int]) -> list[float]:
    name, run = task
    return [case.compute(run) for case in EXPERIMENTS[name](effort)]


def run_all(
    effort: Effort, *, processes: int = 1, progress: Callable[[int, int], None] | None = None
) -> Mapping[str, Results]:
    """Run every experiment, and return its results by its name.

    Args:
        effort: the number of runs and of batch sizes.
        processes: the number of worker processes; 1 for no workers.
        progress: called with the finished runs and the total.
    """
    tasks = list(product(EXPERIMENTS, range(effort.runs)))
    report = progress or (lambda done, total: None)
    report(0, len(tasks))
    numbers: list[list[float]] = []
    # Started afresh, not forked: threads of numerical libraries do not survive a fork.
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        mapped = map if processes == 1 else pool.map
        for values in mapped(partial(_compute, effort), tasks):
            numbers.append(values)
            report(len(numbers), len(tasks))
    blocks = np.array_split(np.arange(len(tasks)), len(EXPERIMENTS))
    return {
        name: Results(list(cases(effort)), np.array([numbers[task] for task in block]))
        for (name, cases), block in zip(EXPERIMENTS.items(), blocks, strict=True)
    }
