"""DP-SSP with and without shrinkage: in random worlds, in well-known ones, and towards features.

``python -m benchmarks shrinkage``; some ten minutes; with ``--quick`` the random worlds alone, and
with ``--seed`` those of a table that was made before. docs/proofs/shrinkage.md quotes it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata

import numpy as np
from rich.table import Table

from benchmarks.clock import MISSED
from benchmarks.worlds import DELTA as SMALL_DELTA
from benchmarks.worlds import Setting, drawn_seed, settings
from privalue import SeededForExperimentsOnly
from privalue.core import draw
from privalue.core._design import Design
from privalue.core._profile import exact_alpha
from privalue.core._sensitivity_ssp import count_weight
from privalue.errors import MissingComponentError
from privalue.estimate._published import noisy_of
from privalue.estimate._statistics import NoisyStatistics, estimate
from privalue.simulation import chain_statistics, icu_sepsis, parse_world, simulate_episodes
from privalue.study import mechanism_for, public_size
from privalue.study._choices import sensitivity, shape_weights
from privalue.study._features import aggregation, design
from privalue.study._tables import _targets

EPSILON, DELTA = 0.1, 0.1  # the paper's
DATASETS, RELEASES = 10, 100
GROUP = 15  # conditions of ICU-Sepsis that are one state
APART = 100  # random worlds
FEW, MANY, EACH = 5, 40, 10  # data sets of each, those where the bar is near, releases of each
ROOM = 3.0  # standard errors by which a figure may miss its bar
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
    deviation: float  # the standard error of ``shrunk``: data sets are drawn, and so is the noise
    constant: float  # the best single value for all states, which knows V
    pooled: float  # knows the visits and how far V spreads, and estimates the constant
    counted: float  # the same, but what states have in common is told from noisy counts
    common: float  # the standard deviation of the common value in one stage, if visits are known

    @property
    def ratio(self) -> float:
        return self.shrunk / self.constant

    @property
    def worse(self) -> bool:
        return self.ratio > NEAR_CONSTANT

    @property
    def clear(self) -> bool:
        """Whether it is worse by more than chance."""
        return self.ratio - ROOM * self.deviation / self.constant > NEAR_CONSTANT

    @property
    def possible(self) -> bool:
        """Whether the data tell the best constant to 2%, to those who know all the rest."""
        return self.pooled <= NEAR_CONSTANT * self.constant

    @property
    def hopeless(self) -> bool:
        """Whether no rule is within 2% in this world and in the same one with larger values.

        By Le Cam's argument, docs/proofs/shrinkage.md.
        """
        return 0.34 * self.common > NEAR_CONSTANT * self.constant

    @property
    def told(self) -> bool:
        """Whether they do to those who know the spread, but have to find out the visits."""
        return self.possible and self.counted <= NEAR_CONSTANT * self.constant

    @property
    def close(self) -> bool:
        """Whether it may be possible, and the few releases do not say whether it is worse."""
        return self.pooled <= 1.1 * self.constant and self.ratio > 0.95


def judged(setting: Setting, stages: str) -> Found:
    """Try a setting; where the bar is near, again, with many other data sets, which decide."""
    found = tried(setting, stages, range(FEW))
    return tried(setting, stages, range(FEW, FEW + MANY)) if found.close else found


def tried(setting: Setting, stages: str, seeds: range) -> Found:
    """Release data sets of these seeds ten times each, with and without shrinkage."""
    study = setting.study(declared=True, stages=stages)
    seen, values, built = setting.seen, setting.values, design(study)
    tabular = Design(phi=aggregation(len(values), 1), weights=np.ones(len(values)))
    kinds = ("plain", "shrunk", "pooled", "counted")
    errors, common = np.zeros((len(kinds), len(seeds), EACH)), 0.0
    for row, seed in enumerate(seeds):
        found = setting.statistics(study, seed)
        mechanism = mechanism_for(study, built, public_size(study, found))
        for at in range(EACH):
            drawn = draw(mechanism, found, SeededForExperimentsOnly(seed * EACH + at))
            noisy = noisy_of(mechanism, drawn.numbers, drawn.stages, drawn.chosen)
            made = [
                estimate(
                    noisy, tabular, unvisited=study.values.unvisited_value, shrinkage=shrinkage
                ).values
                for shrinkage in (False, True)
            ]
            made += [
                pooled_values(noisy, found.counts, values, seen, counted)
                for counted in (found.counts, noisy.counts)
            ]
            common = float(np.linalg.norm(found.counts / noisy.sum_noise)) ** -1
            gaps = np.square(np.array(made) - values)[:, seen]
            errors[:, row, at] = np.sqrt(gaps.mean(axis=1))
    of_data = errors[1].mean(axis=1)
    means = dict(zip(kinds, errors.mean(axis=(1, 2)).tolist(), strict=True))
    return Found(
        setting=setting,
        constant=max(float(values[seen].std()), 1e-150),
        deviation=float(of_data.std(ddof=1)) / len(seeds) ** 0.5,
        common=common if stages == "one" else 0.0,  # other stages say something about values, too
        **means,
    )


def pooled_values(
    noisy: NoisyStatistics,
    visits: np.ndarray,
    values: np.ndarray,
    seen: np.ndarray,
    counted: np.ndarray,
) -> np.ndarray:
    """Shrink the same noisy sums as somebody who knows the visits and how far values spread.

    Only the constant is to be found out, by weighted least squares. What it cannot do, because
    there is too much noise, too few people, or states that nobody visited and that are unlike
    those that somebody did, no rule for an unknown constant could be asked to do. If ``counted``
    are the noisy counts, visits are known only as far as they say how much each state counts for.
    """
    low, high = noisy.return_bounds
    middle, spread = 0.5 * (low + high), max(float(values[seen].var()), 1e-300)
    variance = np.square(noisy.sum_noise) + np.square((values - middle) * noisy.count_noise)
    weights = visits / (variance + np.square(visits) * spread)
    level = float(weights @ noisy.sums) / max(float(weights @ counted), 1e-300)
    level = min(max(level, low - middle), high - middle)
    drawn = level + spread * weights * (noisy.sums - level * counted)
    return np.clip(middle + drawn, low, high)


def apart(seed: int | None) -> Iterator[Table]:
    """Random worlds from a seed that the system draws: nothing was tuned on them.

    As a release comes, with the stages that "auto" chooses, and in one stage.
    """
    seed = drawn_seed() if seed is None else seed
    yield from (_apart(seed, stages) for stages in ("auto", "one"))


def _apart(seed: int, stages: str) -> Table:
    found = [judged(setting, stages) for setting in settings(seed, APART)]
    table = Table(
        title=f'stages = "{stages}": {APART} random worlds of seed {seed}, epsilon .1, 1 and 4, '
        f"delta {SMALL_DELTA:g}; means of {FEW * EACH} releases of {FEW} data sets, "
        f"{MANY * EACH} of {MANY} near the bar"
    )
    for name in (
        *("bounds", "worlds", "worse than the best constant by 2%", "of these, impossible"),
        "proved",
        *("impossible without visits", "left", "clearly", "worst of the left"),
        *("shrunk/plain", "worst", "plain/pooled", "shrunk/pooled"),
    ):
        table.add_column(name, justify="left" if name == "bounds" else "right")
    for name, loose in (("tight", False), ("loose", True)):
        group = [each for each in found if each.setting.loose == loose]
        worse = [each for each in group if each.worse]
        possible = [each for each in worse if each.possible]
        left = [each for each in possible if each.told]
        ratios = np.array([each.shrunk / each.plain for each in group])
        table.add_row(
            name,
            str(len(group)),
            str(len(worse)),
            str(len(worse) - len(possible)),
            str(sum(each.hopeless for each in worse)) if stages == "one" else "",
            str(len(possible) - len(left)),
            str(len(left)),
            str(sum(each.clear for each in left)),
            f"{max((each.ratio for each in left), default=1.0):.2f}",
            f"{np.exp(np.log(ratios).mean()):.3f}",
            f"{ratios.max():.2f}",
            *(
                f"{np.exp(np.mean([np.log(getattr(e, kind) / e.pooled) for e in group])):.2f}"
                for kind in ("plain", "shrunk")
            ),
        )
        if any(each.clear for each in left):
            shown = ", ".join(_described(each) for each in left if each.clear)
            MISSED.append(
                f"{stages}, {name} worlds worse than the best constant by more than 2%: {shown}"
            )
        if ratios.max() > NEAR_PLAIN:
            MISSED.append(f"shrinkage costs {ratios.max():.2f} in a {name} world of seed {seed}")
    table.caption = "\n".join(_described(each) for each in found if each.worse and each.possible)
    return table


def _described(found: Found) -> str:
    setting, scale = found.setting, found.constant
    return (
        f"{setting.name}, {setting.kind}, N = {setting.states}, m = {setting.trajectories:,}, "
        f"epsilon = {setting.epsilon:g}: {found.ratio:.3f} ± {found.deviation / scale:.3f}, "
        f"pooled {found.pooled / scale:.3f}, with noisy counts {found.counted / scale:.3f}"
    )


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


def tables(*, quick: bool = False, seed: int | None = None) -> Iterator[Table]:
    yield from apart(seed)
    if quick:
        return
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
