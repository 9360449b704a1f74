"""What stages win and cost: whole releases in random worlds that nothing was tuned on.

``python -m benchmarks accuracy``; ten minutes. With ``--quick`` a part of it, and with ``--seed``
the worlds of a table that was made before. docs/accuracy.md has the table, and says how to read it.

Every figure is a mean over ``RELEASES`` releases, drawn by the code that draws real ones,
with seeded noise. A bar is missed where a figure is above it by more than three standard errors.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
from rich.table import Table

import privalue as pv
from benchmarks.clock import MISSED
from benchmarks.worlds import DELTA, Setting, drawn_seed, gathered, settings
from privalue.core import PublicSize, VisitStatistics, draw, gaussian
from privalue.estimate import values_of
from privalue.paper import chain_statistics
from privalue.simulation import chain
from privalue.study import design, mechanism_for, public_size

RELEASES, DATASETS = 100, 5
LOOSE, SETTINGS = 30, 80
WORST, LIMIT = 1.05, 1.05  # the bars
ROOM = 3.0  # standard errors by which a figure may miss its bar


@dataclass(frozen=True)
class Errors:
    """The root mean squared errors of releases."""

    found: np.ndarray

    @property
    def mean(self) -> float:
        return float(self.found.mean())

    @property
    def deviation(self) -> float:
        """Of the mean."""
        return float(self.found.std(ddof=1)) / math.sqrt(len(self.found))

    def ratio(self, other: "Errors") -> tuple[float, float]:
        """Return this mean over the other, and its standard error as if they were independent."""
        ratio = self.mean / other.mean
        return ratio, ratio * math.hypot(self.deviation / self.mean, other.deviation / other.mean)


def errors_of(
    study: pv.Study,
    data: list[VisitStatistics],
    truth: Callable[[VisitStatistics], np.ndarray],
    seen: np.ndarray,
    releases: int = RELEASES,
) -> Errors:
    """Draw releases of the data sets in turn, and return how far each is from the truth."""
    built = design(study)
    found = []
    for number in range(releases):
        statistics = data[number % len(data)]
        size: PublicSize = public_size(study, statistics)
        mechanism = mechanism_for(study, built, size)
        drawn = draw(mechanism, statistics, pv.SeededForExperimentsOnly(number))
        values = values_of(
            study, mechanism, drawn.numbers, stages=drawn.stages, chosen=drawn.chosen
        )
        off = (values - truth(statistics))[seen]
        found.append(math.sqrt(float(np.mean(np.square(off)))))
    return Errors(np.array(found))


def compared(
    setting: Setting, stages: Iterable[object], releases: int = RELEASES, *, prior: bool = False
) -> list[Errors]:
    """Return the errors in one stage, and in each of others, for the same data sets.

    With ``prior``, those in one stage with a true prior of visits come last.
    """
    studies = [setting.study(declared=True, stages=chosen) for chosen in ("one", *stages)]
    studies += [setting.study(declared=True, prior=True, stages="one")] if prior else []
    episodes = [setting.episodes(seed) for seed in range(DATASETS)]
    return [
        errors_of(
            study,
            [gathered(rows, study) for rows in episodes],
            lambda _: setting.values,
            setting.seen,
            releases,
        )
        for study in studies
    ]


@dataclass
class Ratios:
    """Ratios of errors over many settings."""

    name: str
    worst: float  # the bar of each
    held: bool = True  # to the bars; else they are only counted
    found: list[tuple[float, float]] = field(default_factory=list)

    def add(self, setting: Setting, after: Errors, before: Errors) -> str:
        ratio, deviation = after.ratio(before)
        self.found.append((ratio, deviation))
        if self.held and ratio - ROOM * deviation > self.worst:
            MISSED.append(f"{self.name}, {setting.name}: {ratio:.3f}, at most {self.worst} allowed")
        return f"{ratio:.3f} ± {deviation:.3f}"

    def line(self) -> str:
        ratios = np.array([ratio for ratio, _ in self.found])
        over = sum(ratio - ROOM * deviation > self.worst for ratio, deviation in self.found)
        return (
            f"{self.name}: median {np.median(ratios):.3f}, geometric mean "
            f"{np.exp(np.log(ratios).mean()):.3f}, from {ratios.min():.3f} to {ratios.max():.3f}; "
            f"clearly above {self.worst}: {over} of {len(ratios)}"
        )


def of_chain(sizes: Iterable[int], releases: int) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the chain: errors against the noiseless values, over the limit.

    The limit is that of every unbiased mechanism for what is declared, with counts for nothing:
    alpha R sum_s(1/n_s)/sqrt(N).
    """
    world = chain(states=40)
    for m in sizes:
        shown = []
        for prior in (False, True):
            study = _chain_study(world.process.visits.single if prior else None, m)
            data = [_chain_data(world, study, m, seed) for seed in range(DATASETS)]
            alpha = gaussian(study.privacy.epsilon, study.privacy.delta).alpha
            limit = alpha * float(np.mean([np.sum(1 / one.counts) for one in data])) / math.sqrt(40)
            found = errors_of(
                study, data, lambda one: one.mean_returns(0.0), np.ones(40, dtype=bool), releases
            )
            ratio, deviation = found.mean / limit, found.deviation / limit
            shown.append(f"{ratio:.3f} ± {deviation:.3f}")
            if prior and ratio - ROOM * deviation > LIMIT:
                MISSED.append(
                    f"chain, m = {m:,}, true prior: {ratio:.3f} of the limit, at most {LIMIT}"
                )
        yield (f"{m:,}", f"{limit:.3g}", *shown)


def _chain_study(prior: np.ndarray | None, m: int) -> pv.Study:
    return pv.Study(
        name="chain",
        trajectories=m,
        epsilon=1.0,
        delta=DELTA,
        unit="trajectory",
        discount=0.99,
        rewards=(0.0, 1.0),
        returns=(0.0, 1.0),
        states=40,
        visits=prior,
        stages="one",
    )


def _chain_data(world, study: pv.Study, m: int, seed: int) -> VisitStatistics:
    drawn = chain_statistics(world, trajectories=m, seed=seed)
    return VisitStatistics(
        return_bounds=(0.0, 1.0),
        trajectories=m,
        rows=m,
        rewards_clamped=0,
        returns_clamped=0,
        counts=drawn.counts,
        return_steps=drawn.return_steps,
        limits=study.limits,
    )


def _described(setting: Setting) -> tuple[str, ...]:
    return (
        setting.name.split("-")[-1],
        setting.kind,
        f"{setting.states}" + (f", H = {setting.most_states}" if setting.most_states else ""),
        f"{setting.trajectories:,}" + (f", L = {setting.persons}" if setting.persons else ""),
        f"{setting.epsilon:g}",
    )


def tables(*, quick: bool = False, seed: int | None = None) -> Iterator[Table]:
    seed = drawn_seed() if seed is None else seed
    shown = f"mean of {RELEASES} releases of {DATASETS} data sets, delta = {DELTA:g}, seed {seed}"

    table = _table(
        "The chain, N = 40, epsilon = 1: error of the noise over the limit; " + shown,
        ("m", "limit", "one stage", "one stage, true prior"),
    )
    for row in of_chain((10**4,) if quick else (10**4, 10**5, 10**6), RELEASES):
        table.add_row(*row)
    yield table

    world = ("", "world", "N", "m", "epsilon")
    table = _table(
        "Loose bounds: error with a stage for bounds over that of one stage; " + shown,
        (*world, "R", "error, one stage", "bounds", "auto"),
    )
    bounds = Ratios("bounds", WORST)
    auto = Ratios("auto, loose bounds", WORST)
    for setting in settings(seed, 6 if quick else LOOSE, loose=True):
        one, found, chosen = compared(setting, (["bounds"], "auto"))
        low, high = setting.study().return_bounds
        table.add_row(
            *_described(setting),
            f"{high - low:g}",
            f"{one.mean:.3g}",
            bounds.add(setting, found, one),
            auto.add(setting, chosen, one),
        )
    table.caption = "\n".join(each.line() for each in (bounds, auto))
    yield table

    table = _table(
        "Any bounds: error over that of one stage; " + shown,
        (*world, "bounds", "error, one stage", "auto", "true prior"),
    )
    auto = Ratios("auto", WORST)
    known = Ratios("one stage, true prior", WORST, held=False)
    for setting in settings(seed + 1, 8 if quick else SETTINGS):
        one, chosen, given = compared(setting, ("auto",), prior=True)
        table.add_row(
            *_described(setting),
            "loose" if setting.loose else "tight",
            f"{one.mean:.3g}",
            auto.add(setting, chosen, one),
            known.add(setting, given, one),
        )
    table.caption = "\n".join(each.line() for each in (auto, known))
    yield table


def _table(title: str, names: tuple[str, ...]) -> Table:
    table = Table(title=title)
    for name in names:
        table.add_column(name, justify="left" if name in {"world", "bounds"} else "right")
    return table
