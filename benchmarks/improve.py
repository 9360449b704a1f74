"""What a policy made from one private release is worth: ICU-Sepsis in groups, and random Garnets.

``python -m benchmarks improve``; some minutes. With ``--quick`` a part of it, and with ``--seed`` a
table that was made before. docs/accuracy.md has the table.

Every release is a whole one, from simulated rows, by the code that makes real ones, with seeded
noise; ``pv.improve`` makes the policy, and its value in the world is exact. The same rule without
noise is handed the same rows' own sums and counts. Data sets and Garnets come from a seed that the
system draws, and that nothing was tuned on; ICU-Sepsis is the one world that there is, and rules
were tried on other data sets of it.

A bar is missed where a mean is below it by more than three standard errors. Standard errors are
those of the means of data sets (ICU-Sepsis), or of worlds (Garnets): releases of one data set have
its people in common.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from rich.table import Table

import privalue as pv
from benchmarks.clock import MISSED
from benchmarks.worlds import drawn_seed
from privalue.estimate import GreedyStep, NoisyStatistics, step_of_noisy
from privalue.simulation import Policy, World, garnet, parse_world, simulate_episodes

SEPSIS = "icu-sepsis:groups=10,actions=9"
SEPSIS_BARS = {5_000: 0.75, 20_000: 0.77, 100_000: 0.78}  # the value of the improved policy
GARNET_BARS = {10_000: 0.6, 100_000: 0.8}  # the share of the gap between behaviour and best
DATASETS, RELEASES = {5_000: 40, 20_000: 20, 100_000: 20}, 5
GARNETS, GARNET_DATASETS = 10, 2
NO_NOISE = 1e-3  # visits: a standard deviation
ROOM = 3.0  # standard errors by which a figure may miss its bar


@dataclass(frozen=True)
class Made:
    """The exact values of policies, one row of releases for each data set."""

    private: np.ndarray  # data sets x releases
    plain: np.ndarray  # data sets: the same rule without noise
    behaviour: float
    best: float

    def share(self, values: np.ndarray) -> np.ndarray:
        """Return how much of the gap between behaviour and best values close."""
        return (values - self.behaviour) / (self.best - self.behaviour)

    @property
    def worse(self) -> float:
        """Return the share of releases whose policy is worse than the behaviour."""
        return float(np.mean(self.private < self.behaviour - 1e-12))


def study_of(
    world: World, trajectories: int, *, returns: tuple[float, float], most: int
) -> pv.Study:
    """Return what is public about the rows of a world with actions."""
    mdp, _ = world.decisions
    return pv.Study(
        name=world.name,
        trajectories=trajectories,
        epsilon=1.0,
        delta=1e-6,
        unit="trajectory",
        max_states_per_trajectory=most,
        discount=mdp.discount,
        rewards=(0.0, 1.0),
        returns=returns,
        states=mdp.states,
        actions=mdp.actions,
        mechanism="dp-ssp",
        sorted=True,
    )


def made(world: World, study: pv.Study, seeds: list[int], releases: int) -> Made:
    """Improve the policy of a world from releases of simulated data sets."""
    mdp, policy = world.decisions
    described = study.study.trajectories
    assert described is not None

    def value(step: GreedyStep) -> float:
        table = step.policy.reshape(mdp.states, mdp.actions)
        return mdp.value(Policy(probabilities=table))

    private, plain = [], []
    for seed in seeds:
        rows = simulate_episodes(world, trajectories=described, seed=seed, actions=True).table()
        drawn = [
            pv.release(study, rows, seed=seed + turn, accept_useless=True)
            for turn in range(releases)
        ]
        private.append([value(pv.improve(release).step) for release in drawn])
        plain.append(value(without_noise(study, rows)))
    return Made(np.array(private), np.array(plain), mdp.value(policy), mdp.value(mdp.optimal()))


def without_noise(study: pv.Study, rows: object) -> GreedyStep:
    """Return what the rule does with the sums and counts themselves."""
    found = pv.inspect(study, rows).private_fields()
    counts, means = np.array(found["counts"], dtype=float), np.array(found["mean_returns"])
    low, high = study.return_bounds
    exact = NoisyStatistics(
        return_bounds=(low, high),
        sums=counts * (means - 0.5 * (low + high)),
        counts=counts,
        sum_noise=np.full(len(counts), NO_NOISE * (high - low)),
        count_noise=np.full(len(counts), NO_NOISE),
    )
    return step_of_noisy(exact, study, 0.95, only_clear_gains=False)


def error(means: np.ndarray) -> float:
    """Return the standard error of a mean."""
    return float(means.std(ddof=1)) / math.sqrt(len(means))


def held(name: str, mean: float, deviation: float, bar: float) -> None:
    """Note a mean that is clearly below its bar."""
    if mean + ROOM * deviation < bar:
        MISSED.append(f"{name}: {mean:.3f} ± {deviation:.3f}, at least {bar} wanted")


def sepsis_rows(seed: int, sizes: dict[int, int]) -> Iterator[tuple[str, ...]]:
    """Yield the rows of ICU-Sepsis: values of policies, which are about chances of survival."""
    world = parse_world(SEPSIS)
    for m, datasets in sizes.items():
        study = study_of(world, m, returns=(0.0, 1.0), most=8)
        seeds = [
            int(each) for each in np.random.default_rng([seed, m]).integers(2**40, size=datasets)
        ]
        found = made(world, study, seeds, RELEASES)
        mean, deviation = float(found.private.mean()), error(found.private.mean(axis=1))
        held(f"ICU-Sepsis, {m:,}", mean, deviation, SEPSIS_BARS[m])
        yield (
            "ICU-Sepsis 10 x 9",
            f"{m:,}",
            f"{found.behaviour:.3f}",
            f"{found.best:.3f}",
            f"{found.plain.mean():.4f} ± {error(found.plain):.4f}",
            f"{mean:.4f} ± {deviation:.4f}",
            f"{SEPSIS_BARS[m]}",
            f"{float(found.private.std(ddof=1)):.4f}",
            f"{float(found.share(found.private).mean()):.0%}",
            f"{found.worse:.1%} of {found.private.size}",
        )


def garnet_rows(seed: int, sizes: dict[int, float], worlds: int) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the Garnets: shares of the gap, in the mean over worlds."""
    drawn = [
        int(each) for each in np.random.default_rng([seed, 0]).integers(1000, 2**31, size=worlds)
    ]
    for m, bar in sizes.items():
        all_made = []
        for world_seed in drawn:
            world = garnet(seed=world_seed)
            study = study_of(world, m, returns=(0.0, 12.0), most=14)
            seeds = [world_seed + m + turn for turn in range(GARNET_DATASETS)]
            all_made.append(made(world, study, seeds, RELEASES))
        means = np.array([each.share(each.private).mean() for each in all_made])
        plain = np.array([each.share(each.plain).mean() for each in all_made])
        spread = float(
            np.sqrt(np.mean([each.share(each.private).var(ddof=1) for each in all_made]))
        )
        mean, deviation = float(means.mean()), error(means)
        held(f"Garnets, {m:,}", mean, deviation, bar)
        number = sum(each.private.size for each in all_made)
        yield (
            f"{worlds} Garnets 20 x 4",
            f"{m:,}",
            "0",
            "1",
            f"{plain.mean():.3f} ± {error(plain):.3f}",
            f"{mean:.3f} ± {deviation:.3f}",
            f"{bar}",
            f"{spread:.3f}",
            f"{mean:.0%}",
            f"{np.mean([each.worse for each in all_made]):.1%} of {number}",
        )


def tables(*, quick: bool = False, seed: int | None = None) -> Iterator[Table]:
    """Yield the table: values in ICU-Sepsis; in Garnets, shares of the gap."""
    seed = drawn_seed() if seed is None else seed
    table = Table(title=f"Policies from one release at (1, 1e-6); seed {seed}")
    names = ("world", "m", "before", "best", "no noise", "private", "bar", "sd", "gap", "worse")
    for name in names:
        table.add_column(name, justify="left" if name == "world" else "right", no_wrap=True)
    sizes = {5_000: 10} if quick else DATASETS
    for row in sepsis_rows(seed, sizes):
        table.add_row(*row)
    bars = {10_000: GARNET_BARS[10_000]} if quick else GARNET_BARS
    for row in garnet_rows(seed, bars, 4 if quick else GARNETS):
        table.add_row(*row)
    yield table
