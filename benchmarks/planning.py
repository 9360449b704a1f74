"""Predicted error beside that of 100 simulated releases, wherever it is below the guessing line.

Every release has its own simulated data set, which all mechanisms of a row share: on the chain its
statistics are drawn directly, elsewhere all its trajectories are simulated and gathered by the code
that takes real rows. Noise is drawn as in a release. PRIVALUE_BENCH_MOST limits m.
"""

import os
from collections.abc import Iterator

import numpy as np
from rich.table import Table

import privalue as pv
from privalue.core import SeededForExperimentsOnly, draw
from privalue.core._contributions import Contributions, VisitStatistics
from privalue.core._terms import PublicSize
from privalue.estimate import estimates_of
from privalue.planning import Forecaster, options_of, public_model
from privalue.planning._model import raw_states
from privalue.planning._predict import guessing_error
from privalue.simulation import chain_statistics, parse_world, simulate_episodes
from privalue.simulation._icu_sepsis import _dynamics_file
from privalue.study._features import design
from privalue.study._terms import mechanism_for

RELEASES = 100
NUMBERS = (10**3, 10**4, 10**5, 10**6)
GROUPS = 10


def study(name, **states):
    return pv.Study(
        study=pv.About(name=name),
        privacy=pv.Privacy(epsilon=1.0, delta=1e-7, unit="trajectory"),
        values=pv.Values(discount=0.99, rewards=(0.0, 1.0), returns=(0.0, 1.0)),
        states=pv.States(**states),
    )


def settings():
    """The three worlds, each with its study."""
    yield parse_world("chain"), study("chain", count=40)
    lake = parse_world("gym:FrozenLake-v1")
    visited = np.flatnonzero(lake.process.reachable)  # holes and goal get no rows
    frozen = {str(raw): at for at, raw in enumerate(visited.tolist())}
    yield lake, study("FrozenLake", count=len(visited), groups=frozen)
    sepsis = parse_world("icu-sepsis")
    yield sepsis, study("ICU-Sepsis, 10 groups", count=GROUPS, groups=sofa_groups(sepsis))


def sofa_groups(world):
    """Conditions in ten groups of about equal number by their SOFA score, which is published."""
    with np.load(_dynamics_file(), allow_pickle=False) as tables:
        scores = tables["sofa_scores"]
    reached = np.flatnonzero(world.process.reachable)
    order = reached[np.argsort(scores[reached], kind="stable")]
    return {
        str(raw): group
        for group, part in enumerate(np.array_split(order, GROUPS))
        for raw in part.tolist()
    }


def simulated_statistics(world, described, trajectories, seed):
    """The first-visit statistics of a fresh data set."""
    if world.name == "chain":
        drawn = chain_statistics(world, trajectories=trajectories, seed=seed)
        return VisitStatistics(
            return_bounds=described.return_bounds,
            limits=described.limits,
            trajectories=trajectories,
            rows=int(drawn.counts.sum()),
            rewards_clamped=0,
            returns_clamped=0,
            counts=drawn.counts,
            return_steps=drawn.return_steps,
        )
    state_of = raw_states(described, world.process).astype(np.int32)
    rows = simulate_episodes(world, trajectories=trajectories, seed=seed)
    contributions = Contributions(described.limits)
    contributions.add(rows.trajectory[:, None, None], rows.step, state_of[rows.state], rows.reward)
    return contributions.finish()


class Released:
    """Releases of one study with m trajectories; the constants depend on m alone."""

    def __init__(self, described, trajectories):
        size = PublicSize(units=trajectories, most_count=trajectories, trajectories=trajectories)
        self.study = described
        self.mechanism = mechanism_for(described, design(described), size)

    def error(self, statistics, values, seed):
        """The root mean square error of one release."""
        drawn = draw(self.mechanism, statistics, SeededForExperimentsOnly(seed))
        released = estimates_of(self.study, self.mechanism, drawn.numbers).values
        return float(np.sqrt(np.mean((released - values) ** 2)))


def comparisons(world, described, numbers, *, releases=RELEASES, names=None):
    """(m, option, predicted, mean over releases, its standard error) below the guessing line."""
    model = public_model(described, world)
    line = guessing_error(described, model)
    for m in numbers:
        promising = []
        for option in options_of(described, m):
            if names is not None and option.label not in names:
                continue
            predicted = Forecaster(option, model).at(m).rmse
            if predicted < line:
                promising.append((option, predicted, Released(option.study, m)))
        if not promising:
            continue
        errors = np.empty((releases, len(promising)))
        for at in range(releases):
            statistics = simulated_statistics(world, described, m, seed=at)
            for column, (_, _, released) in enumerate(promising):
                seed = 1000 * at + column
                errors[at, column] = released.error(statistics, model.values, seed)
        for column, (option, predicted, _) in enumerate(promising):
            mean = float(errors[:, column].mean())
            doubt = float(errors[:, column].std(ddof=1)) / np.sqrt(releases)
            yield m, option, predicted, mean, doubt, line


def tables() -> Iterator[Table]:
    most = int(os.environ.get("PRIVALUE_BENCH_MOST", NUMBERS[-1]))
    table = Table(
        title=f"predicted error and the mean of {RELEASES} releases, epsilon = 1, delta = 1e-7"
    )
    for name in ("world", "m", "mechanism", "predicted", "released", "+-", "ratio", "guessing"):
        table.add_column(name, justify="left" if name in {"world", "mechanism"} else "right")
    worst = 0.0
    for world, described in settings():
        numbers = [m for m in NUMBERS if m <= most]
        for m, option, predicted, mean, doubt, line in comparisons(world, described, numbers):
            worst = max(worst, abs(predicted / mean - 1))
            table.add_row(
                described.study.name, f"{m:.0e}", option.label, f"{predicted:.3g}", f"{mean:.3g}",
                f"{doubt:.1g}", f"{predicted / mean:.3f}", f"{line:.3g}",
            )  # fmt: skip
    table.caption = f"furthest off: {worst:.1%}"
    yield table
