"""How near released values are, and how often intervals cover, in worlds that nothing was tuned on.

``python -m benchmarks accuracy``; some five minutes. With ``--quick`` a part of it, and with
``--seed`` the worlds of a table that was made before. docs/accuracy.md has the tables.

Releases are drawn by the code that draws real ones, with seeded noise, from simulated data sets. A
total interval is to cover the number that it names: V, or where a stage chose the bounds the
restricted mean, that of returns that are each clamped to these bounds. A bar is missed where a
figure is beyond it by more than three standard errors.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np
from rich.table import Table

import privalue as pv
from benchmarks.clock import MISSED
from benchmarks.worlds import DELTA, Setting, draw_seed, gather, settings_of_kinds
from privalue.core import MECHANISMS, Ssp, Statistics, draw
from privalue.core.calibration import gaussian
from privalue.estimate import Estimates, fit_draw
from privalue.paper import chain_statistics
from privalue.simulation import chain
from privalue.study import public_size, resolve

RELEASES, DATASETS, EACH = 40, 20, 12  # of a setting, and how many settings a kind has
LIMIT, COVERED, LEAST = 1.05, 0.94, 0.90  # the bars: on the chain, in the mean, and in any setting
STANDARD_ERRORS = 3.0  # by which a bar is missed
VARIANTS: dict[str, dict[str, object]] = {
    "as it is": {},
    "one stage": {"stages": "one"},
    "no shrinkage": {"shrinkage": False},
}


@dataclass
class Figures:
    """What releases of one setting say, one number for each release."""

    errors: dict[str, list[float]] = field(default_factory=dict)  # root mean squares over states
    covered: list[np.ndarray] = field(default_factory=list)  # which states

    def error(self, variant: str) -> float:
        return float(np.mean(self.errors[variant]))

    def ratio(self, other: str) -> float:
        """The error as it is, over that of another variant."""
        return self.error("as it is") / self.error(other)

    @property
    def coverage(self) -> tuple[float, float]:
        """The share of intervals that cover, and its standard error."""
        return float(np.mean(self.covered)), _standard_error(np.mean(self.covered, axis=1))

    @property
    def worst_state(self) -> float:
        """The least coverage of a state over all releases."""
        return float(np.mean(self.covered, axis=0).min())


def _standard_error(numbers: Sequence[float] | np.ndarray) -> float:
    return float(np.std(numbers, ddof=1)) / math.sqrt(len(numbers))


def releases_of(study: pv.Study, data: list[Statistics], number: int) -> Iterator[Estimates]:
    """Draw releases of the data sets in turn."""
    for at in range(number):
        statistics = data[at % len(data)]
        terms = resolve(study, public_size(study, statistics))
        mechanism = MECHANISMS[terms.mechanism](terms)
        draws = draw(mechanism, statistics, pv.SeededForExperimentsOnly(at))
        assert isinstance(mechanism, Ssp)
        yield fit_draw(study, mechanism, draws)


def measure(
    setting: Setting,
    variants: Iterable[str] = tuple(VARIANTS),
    *,
    releases: int = RELEASES,
    datasets: int = DATASETS,
) -> Figures:
    """Return the errors of each variant, and the coverage as it is.

    Both are over the states that a trajectory can count for.
    """
    figures = Figures()
    episodes = [setting.episodes(seed) for seed in range(datasets)]
    for variant in variants:
        study = setting.study(declared=True, **VARIANTS[variant])
        data = [gather(rows, study) for rows in episodes]
        errors = figures.errors.setdefault(variant, [])
        for estimates in releases_of(study, data, releases):
            off = (estimates.values - setting.values)[setting.reachable]
            errors.append(math.sqrt(float(np.mean(np.square(off)))))
            if variant == "as it is":
                figures.covered.append(_covers(estimates, setting, study.values.return_bounds))
    return figures


def _covers(estimates: Estimates, setting: Setting, public: tuple[float, float]) -> np.ndarray:
    """Return the states whose total interval covers what it names."""
    bounds = estimates.ratios.bounds
    truth = setting.values if bounds == public else setting.restricted_means(bounds)
    inside = (estimates.columns["total_low"] <= truth) & (truth <= estimates.columns["total_high"])
    return inside[setting.reachable]


def of_chain(sizes: Iterable[int], releases: int) -> Iterator[tuple[int, float, list[float]]]:
    """Yield m, the limit, and errors over it, without and with a true prior of visits.

    Errors are those of the noise alone. The limit is that of every unbiased mechanism for what is
    declared, with counts for nothing: alpha R sum_s(1/n_s)/sqrt(N).
    """
    world = chain(states=40)
    for m in sizes:
        ratios = []
        for prior in (False, True):
            study = pv.Study(
                **{"name": "chain", "trajectories": m, "states": 40},
                **{"epsilon": 1.0, "delta": DELTA, "unit": "trajectory"},
                **{"discount": 0.99, "rewards": (0.0, 1.0), "returns": (0.0, 1.0)},
                visits=world.process.visits.single if prior else None,
            )
            data = [_chain_data(world, study, m, seed) for seed in range(5)]
            alpha = gaussian(study.privacy.epsilon, study.privacy.delta).alpha
            limit = alpha * float(np.mean([np.sum(1 / one.counts) for one in data])) / math.sqrt(40)
            errors = [
                math.sqrt(float(np.mean(np.square(fit.values - data[at % 5].mean_returns(0.0)))))
                / limit
                for at, fit in enumerate(releases_of(study, data, releases))
            ]
            ratios.append(float(np.mean(errors)))
            if prior and ratios[-1] - STANDARD_ERRORS * _standard_error(errors) > LIMIT:
                MISSED.append(f"chain, m = {m:,}, true prior: {ratios[-1]:.3f} of the limit")
        yield m, limit, ratios


def _chain_data(world, study: pv.Study, m: int, seed: int) -> Statistics:
    sample = chain_statistics(world, trajectories=m, seed=seed)
    return Statistics(
        trajectories=m,
        rows=m,
        counts=sample.counts,
        return_steps=sample.return_steps,
        limits=study.limits,
    )


def tables(*, quick: bool = False, seed: int | None = None) -> Iterator[Table]:
    seed = draw_seed() if seed is None else seed
    table = _table(
        "The chain, N = 40, epsilon = 1: error over the limit", "m|limit|one stage|prior"
    )
    for m, limit, ratios in of_chain((10**4,) if quick else (10**4, 10**5, 10**6), 100):
        table.add_row(f"{m:,}", f"{limit:.3g}", *(f"{ratio:.2f}" for ratio in ratios))
    yield table

    table = _table(
        f"{RELEASES} releases of {DATASETS} data sets in each setting, delta = {DELTA:g}, "
        f"seed {seed}: coverage of total intervals at 0.95, and ratios of errors",
        "world|returns given|chosen|least|a state|stage/none|shrunk/plain",
    )
    settings = settings_of_kinds(seed, 2 if quick else EACH)
    rows = [(setting, measure(setting)) for setting in settings]
    for kind, some in groupby(rows, key=lambda row: row[0].kind):
        table.add_row(kind, *_summary(list(some)))
    table.add_section()
    table.add_row("all", *_summary(rows))
    stage = [figures.ratio("one stage") for setting, figures in rows if setting.loose]
    table.caption = (
        f"{len(rows)} settings; with a stage the error is above that of none by more than a "
        f"twentieth in {sum(ratio > 1.05 for ratio in stage)} of {len(stage)}"
    )
    for setting, figures in rows:
        mean, error = figures.coverage
        if mean + STANDARD_ERRORS * error < LEAST:
            MISSED.append(f"{setting.name}: total intervals cover {mean:.3f}")
    mean = float(np.mean([figures.coverage[0] for _, figures in rows]))
    if mean < COVERED:
        MISSED.append(f"total intervals cover {mean:.3f} in the mean")
    yield table


def _summary(rows: list[tuple[Setting, Figures]]) -> tuple[str, ...]:
    """Return how often intervals cover, and ratios of errors with their least and largest.

    Coverage is that with bounds given and chosen, the least of a setting, and of a state in any.
    Errors are those with a stage for bounds over those without, and with shrinkage over without.
    """
    coverage = {
        loose: [figures.coverage[0] for setting, figures in rows if setting.loose == loose]
        for loose in (False, True)
    }
    stage = [figures.ratio("one stage") for setting, figures in rows if setting.loose]
    shrunk = [figures.ratio("no shrinkage") for _, figures in rows]
    return (
        *(f"{np.mean(coverage[loose]):.3f}" for loose in (False, True)),
        f"{min(coverage[False] + coverage[True]):.3f}",
        f"{min(figures.worst_state for _, figures in rows):.2f}",
        *(
            f"{np.exp(np.mean(np.log(ratios))):.2g} ({min(ratios):.2g} to {max(ratios):.2g})"
            for ratios in (stage, shrunk)
        ),
    )


def _table(title: str, names: str) -> Table:
    table = Table(title=title)
    for name in names.split("|"):
        table.add_column(name, justify="left" if name == "world" else "right")
    return table
