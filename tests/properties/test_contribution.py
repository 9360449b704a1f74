"""Whole persons, bounded contribution, add-remove: brute force, neighbours, planted mistakes.

Neighbours are built as populations: persons with at most L trajectories, each of which counts for
at most H distinct states. Their estimates are computed directly, without the package.
"""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles import contribution as slow
from oracles.limits import smooth_lsl, smooth_lsw
from oracles.ridge import smooth_ridge
from privalue.core import MAX_TRAJECTORIES, Design
from privalue.core.sensitivity import TOLERANCE
from privalue.study import aggregation

BETA = st.one_of(st.floats(1e-6, 3.0), st.sampled_from([1e-12, 50.0]))
KAPPA = st.sampled_from([0.0, 0.0, 0.3, 5.0, 70.0])
STEP = st.sampled_from([1, 1, 2, 3, 7, 100])


def fast_lsw(counts, weights, beta, kappa=0.0, per_person=1, touched=None):
    return smooth_lsw(
        np.array(counts, dtype=np.int64),
        np.array(weights, dtype=float),
        beta,
        pseudo_count=kappa,
        per_person=per_person,
        touched=touched,
    )


@st.composite
def signatures(draw, largest=60):
    """Counts with weights: equal, in two classes, over many scales, some 0."""
    counts = draw(st.lists(st.integers(0, largest), min_size=1, max_size=12))
    weight = draw(
        st.sampled_from(
            [
                st.just(2.0),
                st.sampled_from([1.0, 2.0]),
                st.sampled_from([0.0, 1.0, 3.0]),
                st.floats(1e-6, 1e6),
            ]
        )
    )
    weights = draw(st.lists(weight, min_size=len(counts), max_size=len(counts)))
    return counts, weights if any(weights) else [1.0] * len(counts)


# Brute force


@settings(max_examples=400)
@given(signature=signatures(), beta=BETA, kappa=KAPPA, per_person=STEP, touched=st.integers(1, 14))
def test_psi_lsw_is_the_brute_force_maximum(signature, beta, kappa, per_person, touched):
    actual = fast_lsw(*signature, beta, kappa, per_person, touched)
    exact = slow.psi_lsw(*signature, beta, kappa, per_person, touched)
    assert exact <= actual <= exact * (1 + TOLERANCE)


@given(
    signature=signatures(),
    beta=st.floats(0.01, 3.0),
    slope=st.floats(0.0, 30.0),
    per_person=STEP,
    spare=st.integers(0, 40),
)
def test_psi_lsl_is_the_brute_force_maximum(signature, beta, slope, per_person, spare):
    counts, rho = signature
    most = max(*counts, 1) + spare
    actual = smooth_lsl(
        np.array(counts), np.array(rho), most, beta, slope=slope, offset=1.5, per_person=per_person
    )
    exact = slow.psi_lsl(counts, rho, most, beta, slope, 1.5, per_person)
    assert exact * (1 - 1e-14) <= actual <= exact * (1 + TOLERANCE)


# The search for the q largest terms on cases that are too large to try every k


def brute_force(counts, weights, beta, kappa, per_person, touched):
    """psi over its breakpoints, with numpy's own selection."""
    ks = np.concatenate([[0], counts // per_person - 1, -(-counts // per_person) - 1])
    best = 0.0
    for k in np.unique(ks[ks >= 0]):
        values = (
            weights * per_person**2 / (np.maximum(counts - k * per_person, per_person) + kappa) ** 2
        )
        largest = np.partition(values, len(values) - touched)[len(values) - touched :]
        best = max(best, math.exp(-beta * float(k)) * float(np.sum(largest)))
    return best


def flat(states, beta):
    """Counts for which, with all terms, every candidate comes close to the maximum."""
    return 1 + np.round(np.log(np.arange(1, states + 1)) / beta).astype(np.int64)


def large_case(name, states):
    generator = np.random.default_rng(11)
    beta = math.log(states) / 1e8
    ranks = np.arange(1, states + 1)
    some = generator.random(states)
    return {
        "flat, nearly equal weights": (flat(states, beta), 1 + 1e-3 * some, beta),
        "flat, two classes": (flat(states, beta), 1.0 + (some < 0.5), beta),
        "flat for the q largest": (ranks, np.exp(ranks / states), 1 / states),
        "uniform": (generator.integers(0, 10**8, states), some, 2.5e-8),
        "all scales": ((10 ** generator.uniform(0, 8, states)).astype(np.int64), some**4, 1e-6),
        "heavy where many": (ranks**2, ranks.astype(float) ** 4, 1e-6),
        "equal counts": (np.full(states, 10**6), some, 1e-6),
        "one far away": (np.append(ranks[:-1], 10**9), np.append(some[:-1], 1e9), 1e-7),
    }[name]


LARGE = (
    "flat, nearly equal weights",
    "flat, two classes",
    "flat for the q largest",
    "uniform",
    "all scales",
    "heavy where many",
    "equal counts",
    "one far away",
)


@pytest.mark.parametrize("per_person", [1, 6])
@pytest.mark.parametrize("name", LARGE)
def test_the_search_finds_the_maximum(name, per_person):
    counts, weights, beta = large_case(name, 1500)
    for kappa in (0.0, 17.5):
        for touched in (1, 30, 700, 1499):
            exact = brute_force(counts, weights, beta, kappa, per_person, touched)
            actual = smooth_lsw(
                counts, weights, beta, pseudo_count=kappa, per_person=per_person, touched=touched
            )
            assert exact <= actual <= exact * (1 + TOLERANCE)


@pytest.mark.parametrize(
    ("counts", "weights"),
    [
        ([0], [2.0]),
        ([0, 0, 0], [1.0, 2.0, 3.0]),
        ([8 * 10**9, 8 * 10**9 - 1, 0], [1.0, 1.5, 1e-6]),
        ([10**8, 10**8 + 1, 10**8 + 2, 7], [1e-12, 1e6, 1.0, 1e-3]),
        ([8 * 10**9] * 3, [0.0, 1.0, 2.0]),
        ([5, 8 * 10**9], [1.0, 1e30]),
        ([1, 2, 3], [0.0, 0.0, 5.0]),
        ([10**8, 3, 2], [1.0, 1.0, 1.0]),
    ],
)
@pytest.mark.parametrize("per_person", [1, 3, 10**6])
@pytest.mark.parametrize("beta", [1e-12, 3e-9, 0.5, 800.0])
def test_extremes(counts, weights, per_person, beta):
    for kappa in (0.0, 0.3):
        for touched in (1, 2, 3, None):
            exact = slow.psi_lsw_at_breakpoints(counts, weights, beta, kappa, per_person, touched)
            actual = fast_lsw(counts, weights, beta, kappa, per_person, touched)
            assert exact * (1 - 1e-15) <= actual <= exact * (1 + TOLERANCE)


# Neighbours

STATES = 6
BOUNDS = [(0.0, 1.0), (-1.0, 2.0), (3.0, 3.5), (-2.0, -1.9)]
PHI = np.array([[1.0, 0.5], [0.0, 1.0], [2.0, 0.0], [1.0, 1.0], [0.3, -1.0], [0.0, 0.2]])
FEATURES = {
    "tabular": aggregation(STATES, 1).toarray(),
    "pairs": aggregation(STATES, 2).toarray(),
    "uneven": aggregation(STATES, 4).toarray(),
    "general": PHI,
}


@dataclass(frozen=True)
class Pair:
    """Neighbouring populations, and what is public about them."""

    here: list
    there: list
    persons: int  # most trajectories of a person, L
    states: int  # most states of a trajectory, H
    returns: tuple[float, float]
    replaced: bool

    @property
    def touched(self):
        """q: the most states in which neighbours differ, 2HL or HL."""
        return min(STATES, (2 if self.replaced else 1) * self.states * self.persons)

    @property
    def spent(self):
        """q of LSL: how many states L visits each are spent on, 2H or H."""
        return min(STATES, (2 if self.replaced else 1) * self.states)

    @property
    def cap(self):
        """The public cap of a count: U L, or what the software takes where U is not public."""
        return len(self.here) * self.persons if self.replaced else MAX_TRAJECTORIES

    @property
    def reach(self):
        return max(self.returns[1], 0) - min(self.returns[0], 0)

    @property
    def both(self):
        return [slow.statistics(population, STATES) for population in (self.here, self.there)]


@st.composite
def pairs(draw):
    """Common persons, often many times over, and one who is replaced, added or removed."""
    persons, states = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    returns = draw(st.sampled_from(BOUNDS))
    low, high = returns
    value = st.one_of(st.sampled_from([low, high]), st.floats(low, high))
    some = st.lists(st.integers(0, STATES - 1), min_size=1, max_size=states, unique=True)
    trajectory = some.flatmap(lambda keys: st.fixed_dictionaries(dict.fromkeys(keys, value)))
    anybody = st.lists(trajectory, max_size=persons)
    regular = st.builds(lambda one: [one] * persons, trajectory)
    person = st.one_of(anybody, regular)
    crowd = draw(st.lists(st.tuples(person, st.sampled_from([1, 2, 9, 40])), max_size=3))
    common = [one for one, times in crowd for _ in range(times)]
    replaced = draw(st.booleans())
    one = [*common, draw(person)]
    other = [*common, draw(person)] if replaced else common
    here, there = (one, other) if draw(st.booleans()) else (other, one)
    return Pair(here, there, persons, states, returns, replaced)


def excess_lsw(
    pair, weights, beta, kappa=0.0, centre=0.0, psi=fast_lsw, touched=None, per_person=None
):
    """By how much ln psi falls short: of the change of F, and of being smooth; <= 0 is right."""
    low, high = pair.returns
    middle = low + centre * (high - low)
    means = [slow.shrunken_means(*data, middle, kappa) for data in pair.both]
    squared = float(np.sum(np.array(weights) * (means[0] - means[1]) ** 2))
    bounds = [
        psi(counts, weights, beta, kappa, per_person or pair.persons, touched or pair.touched)
        for counts, _ in pair.both
    ]
    local = squared / ((high - low) ** 2 * min(bounds))
    smooth = abs(math.log(bounds[0] / bounds[1])) - beta
    return max(local - 1, smooth)


WEIGHTS = st.lists(st.sampled_from([0.1, 1.0, 1.0, 4.0, 1e3]), min_size=STATES, max_size=STATES)


@settings(max_examples=400)
@given(
    pair=pairs(),
    weights=WEIGHTS,
    beta=st.floats(1e-4, 2.0),
    kappa=KAPPA,
    centre=st.sampled_from([0.0, 0.5, 1.0]),
)
def test_lsw_between_neighbours(pair, weights, beta, kappa, centre):
    assert excess_lsw(pair, weights, beta, kappa, centre) <= 1e-9


@settings(max_examples=300)
@given(
    counts=st.lists(st.integers(0, 300), min_size=8, max_size=8),
    beta=st.floats(1e-3, 1.0),
    per_person=st.sampled_from([1, 2, 5]),
    touched=st.integers(1, 8),
    kappa=KAPPA,
    draw=st.data(),
)
def test_psi_lsw_is_smooth_wherever_counts_may_move(counts, beta, per_person, touched, kappa, draw):
    """All of |n' - n| <= L, whether or not a person could do it."""
    moves = draw.draw(st.lists(st.integers(-per_person, per_person), min_size=8, max_size=8))
    weights = draw.draw(st.lists(st.floats(0.01, 1e4), min_size=8, max_size=8))
    near = [max(n + move, 0) for n, move in zip(counts, moves, strict=True)]
    here, there = (fast_lsw(n, weights, beta, kappa, per_person, touched) for n in (counts, near))
    assert abs(math.log(here / there)) <= beta + TOLERANCE


def excess_lsl(pair, features, rho, ridge, beta, **wrong):
    """As for LSW, of theta and the sharper psi."""
    phi = FEATURES[features]
    design = Design(phi=phi, weights=np.array(rho))
    thetas = [slow.ridge_solution(phi, rho, *data, ridge) for data in pair.both]
    arguments = {
        "trajectories": pair.cap,
        "largest": max(map(abs, pair.returns)),
        "reach": pair.reach,
        "per_person": pair.persons,
        "touched": pair.spent,
        **wrong,
    }
    bounds = [
        smooth_ridge(np.array(counts), design, ridge=ridge, beta=beta, **arguments)
        for counts, _ in pair.both
    ]
    local = float(np.sum((thetas[0] - thetas[1]) ** 2)) / min(bounds)
    return max(local - 1, abs(math.log(bounds[0] / bounds[1])) - beta)


@settings(max_examples=400)
@given(
    pair=pairs(),
    features=st.sampled_from(sorted(FEATURES)),
    rho=WEIGHTS,
    ridge=st.sampled_from([0.01, 1.0, 30.0, 1e4]),
    beta=st.floats(1e-2, 2.0),
)
def test_lsl_between_neighbours(pair, features, rho, ridge, beta):
    assert excess_lsl(pair, features, rho, ridge, beta) <= 3 * TOLERANCE


def excess_of_the_papers_lsl(pair, rho, beta, caps=None, factor=None):
    """The paper's psi: L in the factor, the slope unchanged, the offset of the q largest rho^2."""
    phi = FEATURES["general"]
    norm, largest = np.linalg.norm(phi, 2), max(map(abs, pair.returns))
    smallest = norm**2 * max(rho)
    ridge = 1.5 * smallest
    thetas = [slow.ridge_solution(phi, rho, *data, ridge) for data in pair.both]
    slope = largest / pair.reach * norm * max(rho) / math.sqrt(2 * ridge)
    offset = math.sqrt(slow.top((r * r for r in rho), pair.spent))
    bounds = [
        smooth_lsl(
            np.array(counts),
            np.array(rho),
            cap,
            beta,
            slope=slope,
            offset=offset,
            per_person=pair.persons,
        )
        for (counts, _), cap in zip(pair.both, caps or [pair.cap] * 2, strict=True)
    ]
    sensitivity = (factor or pair.persons) * 2 * pair.reach * norm / (ridge - smallest)
    local = float(np.sum((thetas[0] - thetas[1]) ** 2)) / (sensitivity**2 * min(bounds))
    return max(local - 1, abs(math.log(bounds[0] / bounds[1])) - beta)


@settings(max_examples=300)
@given(pair=pairs(), rho=WEIGHTS, beta=st.floats(1e-3, 2.0))
def test_the_papers_lsl_between_neighbours(pair, rho, beta):
    assert excess_of_the_papers_lsl(pair, rho, beta) <= 1e-9


# Tightness: pairs that move exactly as much as the bound says


def visits(states, value):
    return dict.fromkeys(states, value)


def test_the_bound_of_bounded_contribution_is_reached():
    """H states that x leaves, H that x' enters for the first time; the others do not count."""
    low, high = 0.0, 1.0
    rest = [[visits([0, 1], low)]] * 4 + [[visits([4, 5], high)]] * 9
    pair = Pair(
        [*rest, [visits([0, 1], high)]], [*rest, [visits([2, 3], high)]], 1, 2, (low, high), True
    )
    assert pair.touched == 4 < STATES
    assert excess_lsw(pair, [1.0] * STATES, 50.0) == pytest.approx(0.0, abs=1e-9)


def test_the_bound_of_persons_is_reached():
    """L trajectories with H L states in all, which no other visits; and L in the same state."""
    scattered = [visits([0], 1.0), visits([1], 1.0), visits([2], 1.0)]
    elsewhere = [visits([3], 1.0), visits([4], 1.0), visits([5], 1.0)]
    for there in ([elsewhere], []):
        pair = Pair([scattered], there, 3, 1, (0.0, 1.0), bool(there))
        assert excess_lsw(pair, [1.0] * STATES, 50.0) == pytest.approx(0.0, abs=1e-9)
    crowd = [[visits([0], 0.0)]] * 7
    heavy = [1.0] + [1e-15] * (STATES - 1)
    pair = Pair([*crowd, [visits([0], 1.0)] * 3], crowd, 3, 1, (0.0, 1.0), False)
    assert excess_lsw(pair, heavy, 50.0) == pytest.approx(0.0, abs=1e-9)


def test_the_bound_of_tabular_lsl_is_reached():
    pair = Pair([[visits([0], 2.0)]], [], 1, 1, (-1.0, 2.0), False)
    rho = [1.0] + [1e-9] * (STATES - 1)
    exact = excess_lsl(pair, "tabular", rho, 0.5, 50.0, reach=2.0)
    assert exact == pytest.approx(0.0, abs=1e-8)


# Planted mistakes: the right bound passes on every pair, each wrong one fails on some


def telling_pairs():
    """Persons with few and many common visits, in one state or as many as they can reach."""
    for returns in BOUNDS:
        low, high = returns
        for persons in (1, 2, 3):
            one = [visits([0], high)] * persons
            spread = [visits([s], high) for s in range(persons)]
            far = [visits([5 - s], low) for s in range(persons)]
            for crowd in ([], [[visits([0], low)]] * 3, [[visits(range(6), low)]] * 40):
                for x, y in ((one, far), (spread, far), (one, [visits([0], low)])):
                    yield Pair([*crowd, x], [*crowd, y], persons, 1, returns, True)
                    yield Pair([*crowd, x], crowd, persons, 1, returns, False)


@pytest.mark.parametrize(
    "mistake",
    [
        lambda pair: {"per_person": 1},
        lambda pair: {"touched": pair.spent},
        lambda pair: {"touched": max(pair.touched // 2, 1)},
    ],
    ids=["L dropped", "2H for 2HL", "half the states"],
)
def test_planted_mistakes_in_psi_lsw_are_caught(mistake):
    weights, beta = [1.0, 2.0, 1.0, 0.5, 1.0, 1.0], 0.3
    right = [excess_lsw(pair, weights, beta) for pair in telling_pairs()]
    wrong = [excess_lsw(pair, weights, beta, **mistake(pair)) for pair in telling_pairs()]
    assert max(right) <= 1e-9
    assert max(wrong) > 0.05


def test_a_frozen_choice_of_the_largest_terms_is_caught():
    """At k = 0 the one state leads, or by a single visit the other, which weighs far more."""
    weights, beta = [1.0, 1e4], 0.02
    here, there = [10, 1000], [11, 1000]
    frozen = [slow.frozen_psi_lsw(n, weights, beta, touched=1) for n in (here, there)]
    right = [fast_lsw(n, weights, beta, touched=1) for n in (here, there)]
    assert abs(math.log(right[0] / right[1])) <= beta + 1e-9
    assert abs(math.log(frozen[0] / frozen[1])) > 2 * beta


def test_the_smallest_counts_for_the_largest_terms_are_caught():
    """Which is right under equal weights only."""
    mistaken = slow.psi_lsw([2], [1.0], 0.1)
    assert fast_lsw([2, 9], [1.0, 1e3], 0.1, touched=1) > 2 * mistaken
    assert fast_lsw([2, 9], [1.0, 1.0], 0.1, touched=1) == pytest.approx(mistaken, rel=TOLERANCE)


@pytest.mark.parametrize("features", ["tabular", "pairs"])
@pytest.mark.parametrize(
    "mistake",
    [
        lambda pair: {"per_person": 1},
        lambda pair: {"touched": max(pair.spent // 2, 1)},
        lambda pair: {"reach": pair.returns[1] - pair.returns[0]},
    ],
    ids=["L dropped", "half the states", "R for M"],
)
def test_planted_mistakes_in_psi_lsl_are_caught(features, mistake):
    """With a beta so large that only k = 0 counts, where nothing hides behind smoothness."""
    rho, beta = [1.0] * STATES, 20.0
    right, wrong = [], []
    for pair in telling_pairs():
        for ridge in (0.02, 30.0):
            right.append(excess_lsl(pair, features, rho, ridge, beta))
            wrong.append(excess_lsl(pair, features, rho, ridge, beta, **mistake(pair)))
    assert max(right) <= 3 * TOLERANCE
    assert max(wrong) > 0.05


def test_one_largest_state_of_a_group_for_all_that_change_is_caught():
    """Two states of a group may change at once: rho_s^2 for rho_s P_g is too little."""
    pair = Pair([[visits([0, 1], 1.0)]], [], 1, 2, (0.0, 1.0), False)
    rho, ridge = [1.0] * STATES, 0.2
    phi = FEATURES["pairs"]
    theta = slow.ridge_solution(phi, rho, *pair.both[0], ridge)
    mistaken = slow.top([r * r / (ridge / 2 + 2.0) ** 2 for r in rho[:2]], pair.spent)
    assert float(np.sum(theta**2)) > 1.5 * mistaken
    assert excess_lsl(pair, "pairs", rho, ridge, 2.0) <= 3 * TOLERANCE


def test_the_number_of_trajectories_of_the_data_as_the_cap_is_caught():
    """Replacing a person changes m: a cap that moves with it is not public, nor smooth."""
    rest, rho, beta = [[visits([0], 1.0)]], [1.0] * STATES, 1e-3
    pair = Pair([*rest, [visits([1], 1.0)] * 3], [*rest, [visits([1], 1.0)]], 3, 1, (0, 1), True)
    assert excess_of_the_papers_lsl(pair, rho, beta) <= 1e-9
    assert excess_of_the_papers_lsl(pair, rho, beta, caps=[4, 2]) > 0.05
