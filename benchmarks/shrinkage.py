"""DP-SSP with and without shrinkage: in random worlds, in well-known ones, and towards features.

``python -m benchmarks shrinkage``; some ten minutes. docs/proofs/shrinkage.md quotes it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata

import numpy as np
from rich.table import Table

from benchmarks.clock import MISSED
from benchmarks.worlds import DELTA as SMALL_DELTA
from benchmarks.worlds import Setting, drawn_seed, settings
from privalue.core._design import Design
from privalue.core._profile import exact_alpha
from privalue.core._sensitivity_ssp import count_weight
from privalue.errors import MissingComponentError
from privalue.estimate._statistics import NoisyStatistics, estimate
from privalue.simulation import chain_statistics, icu_sepsis, parse_world, simulate_episodes
from privalue.study import Study, mechanism_for, public_size
from privalue.study._choices import sensitivity, shape_weights
from privalue.study._features import aggregation, design
from privalue.study._tables import _targets

EPSILON, DELTA = 0.1, 0.1  # the paper's
DATASETS, RELEASES = 10, 100
GROUP = 15  # conditions of ICU-Sepsis that are one state
APART = 100  # random worlds
NEAR_CONSTANT, NEAR_PLAIN = 1.02, 1.25  # bars: of the best constant's error, and of the plain one
MOST_STATES = 20  # H of ICU-Sepsis
SMALL, LARGE = (10**2, 10**3, 10**4), (10**2, 10**3, 10**4, 10**5)
WORLDS = [  # world, return bounds, m
    *((f"chain:N=40,start={start}", (0.0, 1.0), LARGE) for start in ("uniform", "first")),
    ("chain:N=200", (0.0, 1.0), LARGE),
    ("gym:FrozenLake-v1", (0.0, 1.0), LARGE),
    ("gym:FrozenLake-v1,policy=greedy", (0.0, 1.0), SMALL),
    ("gym:CliffWalking-v1,policy=greedy", (-20.0, 0.0), SMALL),
    ("gym:Taxi-v4,policy=greedy", (-20.0, 20.0), LARGE),
    ("icu-sepsis", (0.0, 1.0), LARGE),
    ("icu-sepsis grouped", (0.0, 1.0), LARGE),
    ("grid:policy=greedy", (0.0, 1.0), SMALL),
    *((f"random-chain:N=20,seed={seed}", (0.0, 25.0), SMALL) for seed in range(2)),
    ("random-chain:N=100,seed=0", (0.0, 60.0), LARGE),
]


@dataclass(frozen=True, kw_only=True)
class Place:
    """A world with what is known about it, and a source of its first-visit statistics."""

    values: np.ndarray
    prior: np.ndarray
    bounds: tuple[float, float]
    statistics: Callable[[int, int], tuple[np.ndarray, np.ndarray]]


def first_visits(episodes, group, states, discount):
    """Counts and sums of first-visit returns, all trajectories at once, step by step."""
    state = episodes.state // group
    value = episodes.reward.copy()
    order = np.argsort(episodes.step, kind="stable")
    begins = np.searchsorted(episodes.step[order], np.arange(int(episodes.step.max()) + 2))
    goes_on = np.append(episodes.trajectory[1:] == episodes.trajectory[:-1], False)
    for step in range(len(begins) - 2, -1, -1):
        rows = order[begins[step] : begins[step + 1]]
        rows = rows[goes_on[rows]]
        value[rows] += discount * value[rows + 1]
    _, first = np.unique(episodes.trajectory * states + state, return_index=True)
    counts = np.bincount(state[first], minlength=states)
    return counts, np.bincount(state[first], value[first], minlength=states)


def place(text: str, bounds: tuple[float, float]) -> Place:
    name, grouped, _ = text.partition(" grouped")
    world = parse_world(name)
    process = world.process
    group = GROUP if grouped else 1
    states = -(-process.states // group)

    def statistics(m: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        if world.name == "chain":
            drawn = chain_statistics(world, trajectories=m, seed=seed, returns=bounds)
            return drawn.counts, drawn.return_steps * ((bounds[1] - bounds[0]) / 2**30) + (
                drawn.counts * bounds[0]
            )
        episodes = simulate_episodes(world, trajectories=m, seed=seed)
        return first_visits(episodes, group, states, process.discount)

    values, prior = process.values, process.visits.single
    if grouped:  # the mean first-visit return of a group is known from many trajectories only
        counts, sums = statistics(10**6, 999)
        values, prior = sums / counts, counts / 10**6
    return Place(values=values, prior=np.clip(prior, 0, 1), bounds=bounds, statistics=statistics)


def rmse(where: Place, m: int, shape: np.ndarray | None) -> tuple[float, float]:
    """Mean root mean squared error over the states that can be visited, in units of R.

    Without shrinkage, and with it, from the same noise; clipped to the bounds as released.
    """
    low, high = where.bounds
    states = len(where.values)
    omega = np.ones(states) if shape is None else shape
    weight = count_weight(states, None)
    delta = sensitivity(omega, most_states=None, count_weight=weight)
    sigma = exact_alpha(EPSILON, DELTA, 1, 0.0) * (high - low) * delta
    design = Design(phi=aggregation(states, 1), weights=np.ones(states))
    seen = where.prior > 0
    generator = np.random.default_rng(m)
    errors: dict[bool, list[float]] = {False: [], True: []}
    data = [where.statistics(m, seed) for seed in range(DATASETS)]
    for at in range(RELEASES):
        counts, sums = data[at % DATASETS]
        noisy = NoisyStatistics(
            return_bounds=where.bounds,
            sums=sums
            - 0.5 * (low + high) * counts
            + sigma / omega * generator.standard_normal(states),
            counts=counts
            + sigma / omega / weight / (high - low) * generator.standard_normal(states),
            sum_noise=sigma / omega,
            count_noise=sigma / omega / weight / (high - low),
        )
        for shrinkage, found in errors.items():
            made = estimate(noisy, design, unvisited=min(max(0.0, low), high), shrinkage=shrinkage)
            square = np.mean(np.square(made.values - where.values)[seen])
            found.append(float(np.sqrt(square)) / (high - low))
    return float(np.mean(errors[False])), float(np.mean(errors[True]))


@dataclass(frozen=True, kw_only=True)
class Found:
    """Errors in one random setting, means over releases, in the units of returns."""

    setting: Setting
    plain: float
    shrunk: float
    constant: float  # the best single value for all states, which knows V
    pooled: float  # knows the visits and how far V spreads, and estimates the constant

    @property
    def possible(self) -> bool:
        """Whether the data tell the best constant to 2%, to those who know all the rest."""
        return self.pooled <= NEAR_CONSTANT * self.constant


def tried(setting: Setting) -> Found:
    """Release a random setting many times, with and without shrinkage."""
    study = (
        setting.study(stages="one") if "stages" in Study.keys_of("mechanism") else setting.study()
    )
    low, high = study.return_bounds
    seen, values = setting.seen, setting.values
    data = [setting.statistics(study, seed) for seed in range(2)]
    mechanism = mechanism_for(study, design(study), public_size(study, data[0]))
    noise, generator = mechanism.noise, np.random.default_rng(1)
    sum_noise, count_noise = noise.of_steps * noise.step, noise.of_counts
    tabular = Design(phi=aggregation(len(values), 1), weights=np.ones(len(values)))
    errors: dict[str, list[float]] = {"plain": [], "shrunk": [], "pooled": []}
    for at in range(RELEASES // 2):
        found = data[at % len(data)]
        middle = found.counts * (0.5 * (low + high))
        noisy = NoisyStatistics(
            return_bounds=(low, high),
            sums=found.return_sums - middle + sum_noise * generator.standard_normal(len(values)),
            counts=found.counts + count_noise * generator.standard_normal(len(values)),
            sum_noise=sum_noise,
            count_noise=count_noise,
        )
        made = {"pooled": pooled_values(noisy, found.counts, values, seen)}
        for name, shrinkage in (("plain", False), ("shrunk", True)):
            made[name] = estimate(
                noisy, tabular, unvisited=study.values.unvisited_value, shrinkage=shrinkage
            ).values
        for name, each in made.items():
            errors[name].append(float(np.sqrt(np.mean(np.square(each - values)[seen]))))
    means = {name: float(np.mean(many)) for name, many in errors.items()}
    return Found(setting=setting, constant=max(float(values[seen].std()), 1e-150), **means)


def pooled_values(
    noisy: NoisyStatistics, visits: np.ndarray, values: np.ndarray, seen: np.ndarray
) -> np.ndarray:
    """Shrink the same noisy sums as somebody who knows the visits and how far values spread.

    Only the constant is to be found out, by weighted least squares. What it cannot do, because
    there is too much noise, too few people, or states that nobody visited and that are unlike
    those that somebody did, no rule for an unknown constant could be asked to do.
    """
    low, high = noisy.return_bounds
    middle, spread = 0.5 * (low + high), max(float(values[seen].var()), 1e-300)
    variance = np.square(noisy.sum_noise) + np.square((values - middle) * noisy.count_noise)
    weights = visits / (variance + np.square(visits) * spread)
    level = float(weights @ noisy.sums) / max(float(weights @ visits), 1e-300)
    level = min(max(level, low - middle), high - middle)
    drawn = level + spread * weights * (noisy.sums - level * visits)
    return np.clip(middle + drawn, low, high)


def apart() -> Iterator[Table]:
    """Random worlds from a seed that the system draws: nothing was tuned on them."""
    seed = drawn_seed()
    found = [tried(setting) for setting in settings(seed, APART)]
    table = Table(
        title=f"{APART} random worlds of seed {seed}, epsilon .1, 1 and 4, delta {SMALL_DELTA:g}; "
        f"means of {RELEASES // 2} releases of 2 data sets"
    )
    for name in (
        *("bounds", "worlds", "worse than the best constant by 2%", "of these, impossible"),
        *("worst of the others", "shrunk/plain", "worst", "plain/pooled", "shrunk/pooled"),
    ):
        table.add_column(name, justify="left" if name == "bounds" else "right")
    for name, loose in (("tight", False), ("loose", True)):
        group = [each for each in found if each.setting.loose == loose]
        worse = [each for each in group if each.shrunk > NEAR_CONSTANT * each.constant]
        others = [each for each in worse if each.possible]
        ratios = np.array([each.shrunk / each.plain for each in group])
        table.add_row(
            name,
            str(len(group)),
            str(len(worse)),
            str(len(worse) - len(others)),
            f"{max((each.shrunk / each.constant for each in others), default=1.0):.2f}",
            f"{np.exp(np.log(ratios).mean()):.3f}",
            f"{ratios.max():.2f}",
            *(
                f"{np.exp(np.mean([np.log(getattr(e, kind) / e.pooled) for e in group])):.2f}"
                for kind in ("plain", "shrunk")
            ),
        )
        if others:
            MISSED.append(
                f"{len(others)} of {len(group)} {name} worlds of seed {seed} are worse than the "
                f"best constant by more than 2%: {', '.join(e.setting.name for e in others)}"
            )
        if ratios.max() > NEAR_PLAIN:
            MISSED.append(f"shrinkage costs {ratios.max():.2f} in a {name} world of seed {seed}")
    yield table


def towards_features() -> Iterator[Table]:
    """ICU-Sepsis with its 48 public features: centres of clusters, and the SOFA score."""
    table = Table(title="ICU-Sepsis, 713 states, (1, 1e-6), H = 20: RMSE, mean of 20 releases")
    for name in ("people", "plain", "shrunk", "towards 48 features", "bar"):
        table.add_column(name, justify="right")
    try:
        world = icu_sepsis(discount=1.0)
    except MissingComponentError as missing:
        table.add_row(str(missing))
        yield table
        return
    path = next(f for f in metadata.files("icu-sepsis") or [] if f.name == "dynamics.npz")
    with np.load(str(path.locate())) as file:
        public = np.column_stack([file["state_cluster_centers"], file["sofa_scores"]])[:713]
    basis, states = _targets(public, 1, 713), 713
    values, generator = world.process.values[:states], np.random.default_rng(1)
    weight = count_weight(states, MOST_STATES)
    delta = sensitivity(np.ones(states), most_states=MOST_STATES, count_weight=weight)
    sigma = exact_alpha(1.0, 1e-6, 1, 0.0) * delta
    tabular = Design(phi=aggregation(states, 1), weights=np.ones(states))
    for m, bar in ((5_000, 0.097), (20_000, 0.057), (100_000, 0.044)):
        errors: dict[str, list[float]] = {}
        for at in range(20):
            if at % 5 == 0:
                episodes = simulate_episodes(world, trajectories=m, seed=at)
                counts, sums = first_visits(episodes, 1, world.process.states, 1.0)
                counts, sums = counts[:states], sums[:states]
            noisy = NoisyStatistics(
                return_bounds=(0.0, 1.0),
                sums=sums - 0.5 * counts + sigma * generator.standard_normal(states),
                counts=counts + sigma / weight * generator.standard_normal(states),
                sum_noise=np.full(states, sigma),
                count_noise=np.full(states, sigma / weight),
            )
            for name, keys in (
                ("plain", {"shrinkage": False}),
                ("shrunk", {}),
                ("features", {"features": basis}),
            ):
                made = estimate(noisy, tabular, unvisited=0.0, **keys)
                error = float(np.sqrt(np.mean(np.square(made.values - values))))
                errors.setdefault(name, []).append(error)
        means = {name: float(np.mean(each)) for name, each in errors.items()}
        table.add_row(f"{m:,}", *(f"{mean:.3f}" for mean in means.values()), f"{bar:.3f}")
        if means["features"] > 1.05 * bar:
            MISSED.append(f"ICU-Sepsis, {m:,} people: {means['features']:.3f} instead of {bar}")
    yield table


def tables() -> Iterator[Table]:
    yield from apart()
    yield from towards_features()
    yield from known()


def known() -> Iterator[Table]:
    alpha = exact_alpha(EPSILON, DELTA, 1, 0.0)
    table = Table(
        title=f"RMSE of DP-SSP over R, epsilon = delta = {EPSILON}, tabular, mean of {RELEASES} "
        f"releases of {DATASETS} data sets"
    )
    for name in ("world", "m", "plain", "shrunk", "ratio", "prior", "prior, shrunk", "ratio"):
        table.add_column(name, justify="left" if name == "world" else "right")
    worst = 0.0
    for text, bounds, sizes in WORLDS:
        try:
            where = place(text, bounds)
        except MissingComponentError as missing:
            table.add_row(text, str(missing))
            continue
        for m in sizes:
            shape = shape_weights(
                where.prior, len(where.prior), expected_trajectories=m, alpha=alpha
            )
            plain, drawn = rmse(where, m, None)
            shaped, both = rmse(where, m, shape)
            worst = max(worst, drawn / plain, both / shaped)
            table.add_row(
                text,
                f"{m:,}",
                *(f"{error:.4g}" for error in (plain, drawn)),
                f"{drawn / plain:.3f}",
                *(f"{error:.4g}" for error in (shaped, both)),
                f"{both / shaped:.3f}",
            )
    table.caption = f"the worst ratio is {worst:.4f}"
    yield table
