"""Random worlds, from a seed, with the studies that describe them.

``settings(seed, 40)`` makes 40 chains, Garnets and grids, the same ones every time, and
``settings_of_kinds(seed, 5)`` five worlds of each of ``KINDS``, which have heavy tails, persons,
arms, actions or features, too. What is *tuned* on worlds is tuned on those of the seeds in
``TUNING``; what is *reported* comes from a seed that the system draws when the table is made
(``drawn_seed``), and which is none of those.

A setting is a world, a number of trajectories and a study. Its return bounds are *loose* where they
follow from the bounds of rewards, Rmax/(1 - gamma), and *tight* where experts know better. Values
are exact; statistics come from simulated trajectories, through the core's own kernel.
"""

import secrets
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import sparse, special

import privalue as pv
from privalue.core import Contributions, Statistics
from privalue.simulation import (
    END,
    MDP,
    Episodes,
    MarkovRewardProcess,
    Outcomes,
    World,
    chain,
    simulate_episodes,
)

TUNING = range(1000)
EPSILONS, DELTA = (0.1, 1.0, 4.0), 1e-6
DISCOUNTS = (0.9, 0.95, 0.99, 0.99, 0.995, 0.999)
MOST_ROWS = 2_000_000  # of one data set: m is at most this over the length of a trajectory
PILOT_ROWS = 100_000  # simulated to see how large returns are, where bounds are tight
SAMPLE_ROWS = 400_000  # of one data set of ``settings_of_kinds``
POPULATION_ROWS = 4_000_000  # of those whose clamped returns are averaged
KINDS = (
    *("chain", "grid", "garnet", "random-chain", "long stays", "lognormal costs", "rare rewards"),
    *("negative", "zipf", "persons", "arms", "actions", "features"),
)


def draw_seed() -> int:
    """Return a seed for worlds that nothing was tuned on."""
    return len(TUNING) + secrets.randbelow(10**9)


@dataclass(frozen=True, kw_only=True)
class Factor:
    """Random numbers of mean 1, from 0 to ``most``, that multiply rewards: V stays as it was."""

    deviation: float = 0.0  # of the logarithm, for lognormal numbers that are cut off
    most: float = 1.0  # without a deviation: this with the probability 1/most, and else 0
    by_person: bool = False  # one for all trajectories of a person, and not one for each row

    def draw(self, generator: np.random.Generator, number: int) -> np.ndarray:
        if not self.deviation:
            return self.most * (generator.random(number) < 1 / self.most)
        end, half = np.log(self.most) / self.deviation, self.deviation / 2
        mean = special.ndtr(end - half) + self.most * special.ndtr(-end - half)
        numbers = np.exp(self.deviation * (generator.standard_normal(number) - half))
        return np.minimum(numbers, self.most) / mean


@dataclass(frozen=True, kw_only=True, eq=False)
class Setting:
    """A world, how many trajectories of it there are, and what is public about them.

    States of the process are keys: those of all arms, one after the other, or pairs of a state and
    an action.
    """

    name: str
    kind: str
    process: MarkovRewardProcess
    trajectories: int
    epsilon: float
    loose: bool  # return bounds follow from those of rewards
    rewards: tuple[float, float]
    returns: tuple[float, float] | None
    most_states: int | None  # H, where it is below N
    persons: int | None  # L, the trajectories of each person, where the unit is a person
    arms: int = 1
    actions: int = 1
    features: np.ndarray | None = None
    factor: Factor | None = None

    @property
    def states(self) -> int:
        return self.process.states

    @property
    def values(self) -> np.ndarray:
        """V, exactly; one number for each state."""
        return self.process.values

    @cached_property
    def reachable(self) -> np.ndarray:
        """Which states a trajectory can count for: errors are means over these.

        A state that no path reaches within H distinct states is in no data set, for any reader.
        """
        outcomes, visited = self.process.outcomes, self.process.start > 0
        goes = (outcomes.successors != END) & (outcomes.probabilities > 0)
        for _ in range(1, self.most_states or self.states):
            after = visited.copy()
            after[outcomes.successors[goes & visited[outcomes.rows]]] = True
            if (after == visited).all():
                break
            visited = after
        return visited

    @cached_property
    def visits(self) -> np.ndarray:
        """The probability that a trajectory visits each state."""
        return np.clip(self.process.visits.single, 0, 1)

    def study(
        self, *, declared: bool = False, prior: bool = False, **mechanism: object
    ) -> pv.Study:
        """Return the study, with these keywords.

        With ``declared`` it says how many trajectories there are, and with ``prior`` how often
        each state is visited.
        """
        shrunk = self.features is not None and mechanism.get("shrinkage", True)
        return pv.Study(
            name=self.kind,
            trajectories=self.trajectories if declared else None,
            epsilon=self.epsilon,
            delta=DELTA,
            unit="trajectory" if self.persons is None else "person",
            max_states_per_trajectory=self.most_states,
            max_trajectories_per_person=self.persons,
            discount=self.process.discount,
            rewards=self.rewards,
            returns=self.returns,
            states=self.states // self.arms // self.actions,
            visits=self.visits if prior else None,
            arms=[*range(self.arms)] if self.arms > 1 else None,
            actions=self.actions if self.actions > 1 else None,
            **({"features": self.features, "shrink": True} if shrunk else {}),
            **mechanism,
        )

    def episodes(self, seed: int) -> Episodes:
        """Simulate the trajectories."""
        rows = simulate_episodes(self.process, trajectories=self.trajectories, seed=seed)
        return self._multiply(rows, seed)

    def _multiply(self, rows: Episodes, seed: int) -> Episodes:
        if self.factor is None:
            return rows
        person = rows.trajectory // (self.persons or 1)
        at = person if self.factor.by_person else np.arange(len(person))
        factors = self.factor.draw(np.random.default_rng([seed, 1]), int(at.max()) + 1)
        return replace(rows, reward=rows.reward * factors[at])

    @cached_property
    def _population(self) -> tuple[np.ndarray, np.ndarray]:
        """The keys of many first visits, and the returns from there; all keys begin some."""
        process = replace(self.process, start=_start("uniform", self.states))
        number = int(POPULATION_ROWS / max(process.visits.expected_length, 1.0))
        rows = simulate_episodes(process, trajectories=number, seed=2**31)
        rows = self._multiply(rows, 2**31)
        visits = rows.trajectory * self.states + rows.state
        first = np.unique(visits, return_index=True)[1]
        return rows.state[first], returns_of(rows, process.discount)[first]

    def restricted_means(self, bounds: tuple[float, float]) -> np.ndarray:
        """The mean of returns from first visits, each clamped to the bounds; by simulation."""
        keys, returns = self._population
        sums = np.bincount(keys, weights=np.clip(returns, *bounds), minlength=self.states)
        return sums / np.bincount(keys, minlength=self.states)

    def statistics(self, study: pv.Study, seed: int) -> Statistics:
        """Simulate the trajectories, and add them up as the study says."""
        return gather(self.episodes(seed), study)


def gather(rows: Episodes, study: pv.Study) -> Statistics:
    """Return the statistics of rows; a person has as many trajectories as the study allows."""
    ids = rows.trajectory[:, None]
    if study.privacy.unit == "person":
        person = rows.trajectory // study.limits.max_trajectories_per_person
        ids = np.column_stack([person, rows.trajectory])
    contributions = Contributions(study.limits)
    contributions.add(
        ids[:, :, None],
        rows.step,
        rows.state.astype(np.int32),
        np.clip(rows.reward, *study.values.rewards),
    )
    return contributions.finish()


def settings(seed: int, number: int) -> list[Setting]:
    """Return random chains, Garnets and grids; kinds and epsilons take turns."""
    return [_setting(np.random.default_rng([seed, at]), f"{seed}-{at}", at) for at in range(number)]


def _setting(generator: np.random.Generator, name: str, number: int) -> Setting:
    """Draw one setting."""
    kind = ("chain", "garnet", "random-chain", "grid")[number % 4]
    loose = generator.random() < 0.5
    # One reward at the end, or one in every row, which may have either sign.
    pays = "end" if kind in {"chain", "grid"} else str(generator.choice(["end", "rows", "signed"]))
    process = _process(generator, kind, pays)
    low, high = (-1.0 if pays == "signed" else 0.0), 1.0
    returns = None
    if not loose:
        returns = (0.0, 1.0) if pays == "end" else _known_bounds(process, generator)
    length = max(process.visits.expected_length, 1.0)
    most = max(MOST_ROWS / length, 300.0)
    states = process.states
    limited = generator.random() < 0.25 and states >= 8
    return Setting(
        name=name,
        kind=kind,
        process=process,
        trajectories=int(min(10 ** generator.uniform(np.log10(300), 6), most)),
        epsilon=EPSILONS[number % len(EPSILONS)],
        loose=loose,
        rewards=(low, high),
        returns=returns,
        most_states=int(generator.integers(3, states // 2 + 1)) if limited else None,
        persons=int(generator.integers(2, 6)) if generator.random() < 0.15 else None,
    )


def settings_of_kinds(seed: int, per_kind: int) -> list[Setting]:
    """Return so many settings of each kind; epsilons and kinds of bounds take turns."""
    return [
        _setting_of(np.random.default_rng([seed, at, number]), kind, number)
        for at, kind in enumerate(KINDS)
        for number in range(per_kind)
    ]


def _setting_of(generator: np.random.Generator, kind: str, number: int) -> Setting:
    """Draw one setting of a kind."""
    arms = int(generator.integers(2, 4)) if kind == "arms" else 1
    actions = int(generator.integers(2, 6)) if kind == "actions" else 1
    persons = int(generator.integers(2, 6)) if kind == "persons" else None
    process, features = _process_of(generator, kind, arms, actions)
    factor = {
        "lognormal costs": Factor(deviation=1.5, most=50.0),
        "rare rewards": Factor(most=200.0),
        "negative": Factor(deviation=1.0, most=20.0),
        "persons": Factor(deviation=0.7, most=10.0, by_person=True),
    }.get(kind)
    rewards, most = process.outcomes.rewards, 1.1 * (factor.most if factor else 1.0)
    length = max(process.visits.expected_length, 1.0)
    setting = Setting(
        name=f"{kind} {number}",
        kind=kind,
        process=process,
        trajectories=int(min(500 * 200 ** generator.random(), max(SAMPLE_ROWS / length, 500))),
        epsilon=EPSILONS[number % len(EPSILONS)],
        loose=number % 2 == 0,
        rewards=(most * min(float(rewards.min()), 0.0), most * max(float(rewards.max()), 0.0)),
        returns=None,
        most_states=None,
        persons=persons,
        arms=arms,
        actions=actions,
        features=features,
        factor=factor,
    )
    if setting.loose:
        return setting
    pilot = replace(setting, trajectories=max(int(PILOT_ROWS / length), 50))
    values = returns_of(pilot.episodes(int(generator.integers(2**31))), process.discount)
    more = float(generator.uniform(1.0, 1.5))
    return replace(
        setting,
        returns=(more * min(float(values.min()), 0.0), more * max(float(values.max()), 0.0)),
    )


def _process_of(
    generator: np.random.Generator, kind: str, arms: int, actions: int
) -> tuple[MarkovRewardProcess, np.ndarray | None]:
    """Draw the process of a kind, on keys, with features if it has some."""
    states, discount = int(4 * 60 ** generator.random()), float(generator.choice(DISCOUNTS))
    if kind in {"chain", "grid"}:
        return _process(generator, kind, "end"), None
    if kind == "random-chain":
        return _process(generator, kind, str(generator.choice(["rows", "signed"]))), None
    if kind == "long stays":
        return _long_stays(generator, max(states, 6), discount), None
    if kind == "zipf":
        process = _reward(_garnet(generator, states, "uniform", discount), generator, "end")
        ranks = generator.permutation(states) + 1.0
        return replace(process, start=ranks**-1.2 / np.sum(ranks**-1.2)), None
    if kind == "arms":
        parts = [_garnet(generator, states, "first", discount) for _ in range(arms)]
        return _side_by_side([_reward(part, generator, "rows") for part in parts]), None
    if kind == "actions":
        return _pairs(generator, min(states, 60), actions, discount), None
    garnet = _garnet(generator, states, "first", discount)
    if kind == "features":
        features = generator.standard_normal((states, min(3, states // 3 + 1)))
        scores = features @ generator.standard_normal(features.shape[1])
        by_state = special.expit(scores + 0.3 * generator.standard_normal(states))
        return _with_rewards(garnet, by_state[garnet.outcomes.rows]), features
    rewards = {"garnet": "signed"}.get(kind, "rows")
    process = _reward(garnet, generator, rewards)
    if kind == "negative":
        process = _with_rewards(process, -process.outcomes.rewards)
    return process, None


def _long_stays(
    generator: np.random.Generator, states: int, discount: float
) -> MarkovRewardProcess:
    """Draw wards that are left within days, and one that few see and stay in for months."""
    wards = states - 1
    outcomes = [(wards, 1 - 1 / 90, wards), (wards, 1 / 90, END)]
    for ward in range(wards):
        leave, long = generator.uniform(0.2, 0.6), generator.uniform(0.001, 0.01)
        other = int(generator.integers(wards))
        outcomes += [(ward, leave, END), (ward, long, wards), (ward, 0.1, other)]
        outcomes.append((ward, 0.9 - leave - long, ward))
    rows, chances, heads = (np.array(part) for part in zip(*outcomes, strict=True))
    start = np.append(generator.dirichlet(np.ones(wards)), 0.0)
    return _collect(states, rows, chances, heads, np.ones(len(rows)), start, discount)


def _pairs(
    generator: np.random.Generator, states: int, actions: int, discount: float
) -> MarkovRewardProcess:
    """Draw a Garnet on pairs of a state and an action, with the policy that chooses the next."""
    policy = generator.dirichlet(np.full(actions, 0.7), size=states)
    ending, branching = 1 / generator.uniform(2, 20), 3
    begin, worth = generator.dirichlet(np.ones(states)), generator.random(states)
    rows, chances, heads, rewards = [], [], [], []
    for pair in range(states * actions):
        reward = float(np.clip(worth[pair // actions] + 0.2 * generator.standard_normal(), 0, 1))
        to = generator.choice(states, size=branching, replace=False)
        going = (1 - ending) * generator.dirichlet(np.ones(branching))
        next_pairs = to[:, None] * actions + np.arange(actions)
        rows += [pair] * (branching * actions + 1)
        heads += [*next_pairs.ravel(), END]
        chances += [*(going[:, None] * policy[to]).ravel(), ending]
        rewards += [reward] * (branching * actions + 1)
    start = (begin[:, None] * policy).ravel()
    return _collect(states * actions, rows, chances, heads, rewards, start, discount)


def _side_by_side(parts: list[MarkovRewardProcess]) -> MarkovRewardProcess:
    """Return arms as one process, each with an equal share of the trajectories."""
    states = parts[0].states
    rows, chances, heads, rewards = [], [], [], []
    for arm, part in enumerate(parts):
        outcomes = part.outcomes
        rows.append(outcomes.rows + arm * states)
        chances.append(outcomes.probabilities)
        goes = outcomes.successors != END
        heads.append(np.where(goes, outcomes.successors + arm * states, END))
        rewards.append(outcomes.rewards)
    start = np.concatenate([part.start for part in parts]) / len(parts)
    columns = (np.concatenate(column) for column in (rows, chances, heads, rewards))
    return _collect(states * len(parts), *columns, start, parts[0].discount)


def _process(generator: np.random.Generator, kind: str, rewards: str) -> MarkovRewardProcess:
    """Draw a world of a kind; N is from 4 to 361."""
    discount = float(generator.choice(DISCOUNTS))
    states = int(4 * 90 ** generator.random())
    start = str(generator.choice(["uniform", "first"]))
    if kind == "chain":
        stay = float(generator.uniform(0, 0.8))
        return chain(states=states, stay=stay, start=start, discount=discount).process
    if kind == "grid":
        sides = generator.integers(2, 20, size=2).tolist()
        return grid(
            rows=sides[0],
            columns=sides[1],
            slip=float(generator.uniform(0, 0.5)),
            policy=str(generator.choice(["uniform", "greedy"])),
            start=start,
            discount=discount,
        )
    if kind == "random-chain":
        world = random_chain(
            states=states,
            branching=int(generator.integers(2, 5)),
            seed=int(generator.integers(2**31)),
            start=start,
            discount=discount,
        )
        return world if rewards == "rows" else _reward(world, generator, rewards)
    return _reward(_garnet(generator, states, start, discount), generator, rewards)


def grid(
    *,
    rows: int = 4,
    columns: int = 5,
    slip: float = 0.1,
    policy: str = "uniform",
    start: str = "uniform",
    discount: float = 0.99,
) -> MarkovRewardProcess:
    """Build a grid with a goal in the last corner, which is absorbing and pays 1 in its last row.

    State r * columns + c is the cell in row r, column c. Actions 0 to 3 move up, right, down and
    left; with probability ``slip`` the move goes to one of the two sides instead, each with half of
    it. A move into the edge stays. The policy is "uniform" or "greedy".
    """
    states = rows * columns
    goal = states - 1
    row, column = np.divmod(np.arange(states), columns)
    moves = ((-1, 0), (0, 1), (1, 0), (0, -1))
    neighbour = np.stack(
        [
            np.clip(row + down, 0, rows - 1) * columns + np.clip(column + right, 0, columns - 1)
            for down, right in moves
        ]
    )
    neighbour[:, goal] = goal
    heads, tails, chances = [], [], []
    for action in range(4):
        for turn, chance in ((0, 1 - slip), (1, slip / 2), (-1, slip / 2)):
            tails.append(np.arange(states) * 4 + action)
            heads.append(neighbour[(action + turn) % 4])
            chances.append(np.full(states, chance))
    mdp = MDP.tabular(
        transitions=sparse.coo_array(
            (np.concatenate(chances), (np.concatenate(tails), np.concatenate(heads))),
            shape=(states * 4, states),
        )
        .toarray()
        .reshape(states, 4, states),
        rewards=np.eye(1, states, goal)[0],
        start=_start(start, states),
        discount=discount,
        absorbing=[goal],
    )
    return World.of(mdp, policy).process


def random_chain(
    *,
    states: int,
    branching: int = 3,
    seed: int = 0,
    start: str = "uniform",
    discount: float = 0.99,
) -> MarkovRewardProcess:
    """Build a chain with branches from a seed: states are revisited, and every one has a reward.

    From state s the process goes to s + 1 and to ``branching`` - 1 others among s - 2, ..., s + 4,
    s itself included, with random probabilities; being in s pays a random reward in [0, 1). The
    last state is absorbing, with one last row.
    """
    # Only .random(), whose stream is the one least likely to change between NumPy versions.
    generator = np.random.default_rng(seed)
    rows, successors, probabilities = [], [], []
    for state in range(states - 1):
        nearby = [k for k in range(max(state - 2, 0), min(state + 5, states)) if k != state + 1]
        others = np.argsort(generator.random(len(nearby)))[: branching - 1]
        heads = [state + 1, *(nearby[k] for k in others)]
        # The floor keeps the way forward open, and trajectories short.
        weights = 0.25 + generator.random(len(heads))
        rows += [state] * len(heads)
        successors += heads
        probabilities += list(weights / weights.sum())
    rewards = generator.random(states)
    rows, heads, chances = [*rows, states - 1], [*successors, END], [*probabilities, 1.0]
    begins = _start(start, states)
    return _collect(states, rows, chances, heads, rewards[rows], begins, discount)


def _start(start: str, states: int) -> np.ndarray:
    """Return the distribution of the first state: "uniform" or "first"."""
    return np.full(states, 1 / states) if start == "uniform" else np.eye(1, states)[0]


def _garnet(
    generator: np.random.Generator, states: int, start: str, discount: float
) -> MarkovRewardProcess:
    """Draw a Garnet [Archibald, McKinnon and Thomas 1995] that ends with a chance in every row.

    From each state it goes to a few others, drawn anywhere, some of them much more often than
    others; so are visits, then, and so is where trajectories start.
    """
    branching = int(generator.integers(2, min(states, 6) + 1))
    ending = 1 / generator.uniform(2, 30)
    popular = generator.dirichlet(np.full(states, float(generator.choice([0.2, 1.0, 5.0]))))
    popular = 0.9 * popular + 0.1 / states
    rows = np.repeat(np.arange(states), branching + 1)
    heads, chances = [], []
    for _ in range(states):
        heads += [*generator.choice(states, size=branching, replace=False, p=popular), END]
        chances += [*((1 - ending) * generator.dirichlet(np.ones(branching))), ending]
    begins = (
        np.full(states, 1 / states)
        if start == "uniform"
        else generator.dirichlet(np.full(states, 0.3))
    )
    return _collect(states, rows, chances, heads, np.zeros(len(rows)), begins, discount)


def _reward(
    process: MarkovRewardProcess, generator: np.random.Generator, kind: str
) -> MarkovRewardProcess:
    """Return the process with other rewards: of each state, or of each state's last row alone."""
    outcomes = process.outcomes
    least = -1.0 if kind == "signed" else 0.0
    by_state = generator.uniform(least, 1.0, size=process.states)
    rewards = by_state[outcomes.rows]
    if kind == "end":
        rewards = np.where(outcomes.successors == END, rewards, 0.0)
    return _with_rewards(process, rewards)


def _with_rewards(process: MarkovRewardProcess, rewards: np.ndarray) -> MarkovRewardProcess:
    """Return the process with other rewards, one for each outcome."""
    old = process.outcomes
    moves = (old.rows, old.probabilities, old.successors)
    return _collect(process.states, *moves, rewards, process.start, process.discount)


def _collect(
    states: int, rows, probabilities, successors, rewards, start: np.ndarray, discount: float
) -> MarkovRewardProcess:
    outcomes = Outcomes(
        states=states,
        actions=1,
        rows=rows,
        probabilities=probabilities,
        successors=successors,
        rewards=rewards,
    )
    return MarkovRewardProcess(outcomes=outcomes, start=start, discount=discount)


def _known_bounds(
    process: MarkovRewardProcess, generator: np.random.Generator
) -> tuple[float, float]:
    """Return bounds as an expert might know them: those of other people, and up to half more."""
    number = int(max(PILOT_ROWS / max(process.visits.expected_length, 1.0), 50))
    rows = simulate_episodes(process, trajectories=number, seed=int(generator.integers(2**31)))
    returns = returns_of(rows, process.discount)
    more = float(generator.uniform(1.0, 1.5))
    low, high = more * min(float(returns.min()), 0.0), more * max(float(returns.max()), 0.0)
    return low, high


def returns_of(rows: Episodes, discount: float) -> np.ndarray:
    """Return the discounted return from every row on."""
    value = rows.reward.copy()
    order = np.argsort(rows.step, kind="stable")
    begins = np.searchsorted(rows.step[order], np.arange(int(rows.step.max()) + 2))
    goes_on = np.append(rows.trajectory[1:] == rows.trajectory[:-1], False)
    for step in range(len(begins) - 2, -1, -1):
        at = order[begins[step] : begins[step + 1]]
        at = at[goes_on[at]]
        value[at] += discount * value[at + 1]
    return value
