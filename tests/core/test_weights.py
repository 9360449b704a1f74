"""Weighted trajectories: contributions against a twin, neighbours in exact arithmetic, an audit."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy import stats

from oracles import limits as usual
from oracles import weights as slow
from oracles.refusals import refused
from privalue.core import GRID_STEPS, Contributions, Design, Limits, Ope, PublicSize, draw
from privalue.core.mechanisms import OpeTerms, weighted_block
from privalue.simulation import SeededForExperimentsOnly

BOUNDS = REWARDS = (-1.0, 3.0)
RATIOS = [0.0, 0.3, 0.9, 1.0, 1.7, 40.0, 1e200, math.inf, math.nan, -2.0]
RELATIONS = ("replace-one", "add-remove")


def make_limits(unit="trajectory", neighbours="replace-one", *, keys=1, most=1, clip=10.0, **more):
    return usual.make_limits(
        unit=unit,
        neighbours=neighbours,
        keys=keys,
        discount=0.9,
        return_bounds=BOUNDS,
        reward_bounds=REWARDS,
        max_trajectories_per_person=most,
        clip=clip,
        **more,
    )


def constants(w=0.5, b=0.125, m=0.0):
    return {"count_weight": w, "value_weight": b, "size_weight": m}


def mechanism(limits, weights=None, *, epsilon=1.0, delta=0.0):
    size = PublicSize.of(limits, None, trajectories=100, persons=100)
    design = Design(phi=np.eye(limits.keys), weights=np.ones(limits.keys))
    weights = weights or constants()
    common = {"epsilon": epsilon, "delta": delta, "limits": limits, "size": size, "design": design}
    return Ope(OpeTerms(**common, **weights))


def gather(people, limits, batches=1):
    """Statistics of people: lists of trajectories of rows (key, reward, ratio)."""
    parts = []
    for part in np.array_split(np.arange(len(people)), batches):
        contributions = Contributions(limits)
        rows = [
            (person, trajectory, step, *row)
            for person in part
            for trajectory, rows in enumerate(people[person])
            for step, row in enumerate(rows)
        ]
        if rows:
            person, trajectory, step, key, reward, ratio = map(np.array, zip(*rows, strict=True))
            ids = np.stack([person, trajectory], axis=1).astype(np.int64)[:, :, None]
            step, key = step.astype(np.int64), key.astype(np.int32)
            contributions.add(ids, step, key, reward.astype(float), ratio.astype(float))
        parts.append(contributions.finish())
    return sum(parts[1:], start=parts[0])


def random_people(generator, keys, count, most=3):
    def rows():
        length = int(generator.integers(1, 5))
        return list(
            zip(
                generator.integers(0, keys, length).tolist(),
                generator.normal(size=length).tolist(),
                generator.choice(RATIOS[:6] * 3 + RATIOS, length).tolist(),
                strict=True,
            )
        )

    return [[rows() for _ in range(int(generator.integers(1, most + 1)))] for _ in range(count)]


def literal(people, limits):
    sums = np.zeros((4, limits.keys), dtype=object)
    most = limits.max_trajectories_per_person if limits.unit == "person" else None
    for trajectories in people:
        for rows in trajectories[:most]:
            t, j, centred = slow.contribution(
                [row[1:] for row in rows],
                discount=limits.discount,
                bounds=BOUNDS,
                rewards=REWARDS,
                clip=limits.clip,
                steps=GRID_STEPS,
            )
            sums[:, rows[0][0]] += np.array([t, j, centred, 1], dtype=object)
    return sums


def sums_of(statistics):
    centred = statistics.return_steps - statistics.counts * (GRID_STEPS // 2)
    return [statistics.weighted_steps, statistics.weight_steps, centred, statistics.counts]


@pytest.mark.parametrize("unit", ["trajectory", "person"])
@pytest.mark.parametrize("keys", [1, 3])
@pytest.mark.parametrize("clip", [1.0, 2.5, 1e9])
def test_contributions_are_those_of_the_twin(unit, keys, clip):
    generator = np.random.default_rng([keys, int(clip)])
    limits = make_limits(unit, keys=keys, most=2 if unit == "person" else 1, clip=clip)
    people = random_people(generator, keys, 150)
    statistics = gather(people, limits)
    assert np.array_equal(np.array(sums_of(statistics), dtype=object), literal(people, limits))
    assert (2 * abs(statistics.weighted_steps) <= statistics.weight_steps).all()
    assert statistics == gather(people, limits, batches=4)
    assert statistics.weights_clipped > 0 or clip > 1e3


def test_odd_ratios_weigh_nothing_or_the_most():
    limits = make_limits()
    weighed = {
        "zero": [0.0], "nan": [math.nan], "negative": [-1.0], "lost": [math.inf, 0.0],
        "most": [10.0], "more": [11.0], "infinite": [math.inf], "overflow": [1e200, 1e200],
        "underflow": [1e-200, 1e-200],
    }  # fmt: skip
    for name, ratios in weighed.items():
        statistics = gather([[[(0, 1.0, ratio) for ratio in ratios]]], limits)
        most = name in ("most", "more", "infinite", "overflow")
        assert statistics.weight_steps.tolist() == [GRID_STEPS * most], name
        assert statistics.weights_clipped == (name in ("more", "infinite", "overflow"))


def test_invalid_ratios_are_refused():
    ids, step = np.zeros((1, 1, 1), dtype=np.int64), np.zeros(1, dtype=np.int64)
    key, reward = np.zeros(1, dtype=np.int32), np.zeros(1)
    for limits, ratios, reason in (
        (make_limits(), None, "length"),
        (make_limits(), np.ones(2), "length"),
        (make_limits(), np.ones(1, dtype=np.float32), "type"),
        (make_limits(clip=0.0), np.ones(1), "length"),
    ):
        with refused(f"boundary-{reason}"):
            Contributions(limits).add(ids, step, key, reward, ratios)
    for wrong in ({"clip": -1.0}, {"clip": math.nan}, {"clip": math.inf}):
        with refused("limits-invalid"):
            make_limits(**wrong)
    with refused("limits-invalid"):
        Limits(**{**make_limits(keys=3).__dict__, "max_states_per_trajectory": 2})
    for wrong in (constants(w=0.0), constants(b=0.0), constants(m=-1.0), constants(w=math.nan)):
        with refused("ope-terms-invalid"):
            mechanism(make_limits(), wrong)
    with refused("ope-terms-invalid"):
        mechanism(make_limits(clip=0.0))
    for epsilon, delta in ((1.0, 1e-6), (0.0, 0.0), (-1.0, 0.0), (math.nan, 0.0)):
        with refused("ope-terms-invalid"):
            mechanism(make_limits(), epsilon=epsilon, delta=delta)


# Every pair of neighbours of a tiny grid, in exact arithmetic

CHOICES = [(0.5, 0.125, 0.0), (0.5, 0.125, 0.0625), (0.25, 0.5, 1.0), (1.0, 0.25, 0.0)]


def delta_of(limits, weights):
    """Delta in the norm of sums, as the mechanism has it."""
    return Fraction(mechanism(limits, weights).sensitivity)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("keys", [1, 2])
@pytest.mark.parametrize("terms", CHOICES)
def test_no_neighbours_are_further_apart(keys, relation, terms):
    weights = tuple(map(Fraction, (1.0, *terms)))
    exact = slow.sensitivity(4, weights, keys=keys, add_remove=relation == "add-remove")
    limits = make_limits(neighbours=relation, keys=keys)
    assert delta_of(limits, constants(*terms)) == exact  # attained
    alone, both = weighted_block(mechanism(make_limits(), constants(*terms)).terms)
    assert alone == slow.sensitivity(4, weights, add_remove=True)
    assert max(alone, both) == slow.sensitivity(4, weights)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("keys", [1, 2])
def test_no_persons_are_further_apart(keys, relation):
    times, terms = 2, (0.5, 0.125, 0.0625)
    exact = slow.sensitivity(
        2,
        tuple(map(Fraction, (1.0, *terms))),
        keys=keys,
        times=times,
        add_remove=relation == "add-remove",
    )
    limits = make_limits("person", relation, keys=keys, most=times)
    delta = delta_of(limits, constants(*terms))
    assert exact <= delta <= exact * (1 + Fraction(1, 10**12))


def test_the_numbers_of_the_theorem():
    """C R for the pair alone; with groups 2 C R; what sizes and differences add."""
    nearly = {"b": 2.0**-19}
    assert delta_of(make_limits(), constants(**nearly)) == 1 + Fraction(1, 2**19)
    assert delta_of(make_limits(keys=5), constants(**nearly)) == 2 + Fraction(1, 2**19)
    removed = delta_of(make_limits(neighbours="add-remove", keys=5), constants(**nearly))
    assert removed == 1 + Fraction(1, 2**20)
    # A size beside groups: 6% more noise.
    assert delta_of(make_limits(keys=5), constants(m=1 / 16, **nearly)) == 2.125 + 2.0**-19


@pytest.mark.parametrize("epsilon", [0.1, 0.7, 1.1, 1])
def test_no_more_is_spent_than_a_ledger_charges(epsilon):
    """A double may be above the decimal that it is written as, and 0.1 is."""
    noise = mechanism(make_limits(), epsilon=epsilon)
    loss = delta_of(make_limits(), constants()) * GRID_STEPS / noise.exact_scales[0]
    assert loss <= min(Fraction(epsilon), Fraction(str(epsilon)))
    assert loss >= Fraction(epsilon) * (1 - Fraction(1, 10**12))


# Planted mistakes: each falls below the distance of some pair


def test_rounding_to_nearest_breaks_pure_epsilon_by_half_a_step():
    weights = tuple(map(Fraction, (1, Fraction(1, 2), Fraction(1, 8), 0)))
    for steps in (4, 8):
        right = slow.sensitivity(steps, weights)
        wrong = slow.sensitivity(steps, weights, product=slow.to_nearest)
        assert right == 1 + Fraction(1, 8)
        assert wrong == right + Fraction(1, 2 * steps)


def test_a_replaced_trajectory_may_change_its_group():
    weights = tuple(map(Fraction, (1.0, 0.5, 0.125, 0.0)))
    without_the_factor = delta_of(make_limits(keys=1), constants())
    assert slow.sensitivity(4, weights, keys=2) > Fraction(3, 2) * without_the_factor


@pytest.mark.parametrize(
    ("unit", "relation", "keys"), list(product(["trajectory", "person"], RELATIONS, [1, 3]))
)
def test_losses_of_neighbours_are_at_most_epsilon(unit, relation, keys):
    """Through the boundary, in exact fractions: the sum of |change|/scale is the worst loss."""
    generator = np.random.default_rng(keys)
    limits = make_limits(unit, relation, keys=keys, most=2 if unit == "person" else 1)
    epsilon = 0.7
    noise = mechanism(limits, constants(m=0.0625), epsilon=epsilon)
    scales = noise.exact_scales
    largest = Fraction(0)
    rest = random_people(generator, keys, 3, most=1)
    most_of_one = 1 if unit == "trajectory" else 3
    high, low = [(0, 5.0, 100.0)], [(keys - 1, -5.0, 100.0)]
    pairs = [(high, low), (high, [(keys - 1, 5.0, 0.0)]), (low, [(0, -5.0, 0.0)])]
    changed = [([one] * most_of_one, [other] * most_of_one) for one, other in pairs]
    changed += zip(
        random_people(generator, keys, 40, most_of_one),
        random_people(generator, keys, 40, most_of_one),
        strict=True,
    )
    for one, other in changed:
        absent = [] if relation == "add-remove" else [other]
        here, there = (sums_of(gather([*rest, *more], limits)) for more in ([one], absent))
        loss = sum(
            (Fraction(int(abs(a - b).sum())) / scale
             for a, b, scale in zip(here, there, scales, strict=True)),
            Fraction(0),
        )  # fmt: skip
        assert loss <= Fraction(epsilon)
        largest = max(largest, loss)
    # Attained, but for what no one pair can change at once: the size stays where one is replaced.
    assert largest >= Fraction(epsilon) * Fraction(94, 100)


# What is drawn


@pytest.mark.parametrize("keys", [1, 3])
def test_numbers_are_the_sums_with_noise_of_their_scales(keys):
    limits = make_limits(neighbours="add-remove", keys=keys)
    people = random_people(np.random.default_rng(3), keys, 300, most=1)
    statistics = gather(people, limits)
    noise = mechanism(limits, constants(m=0.0625))
    assert noise.terms.mechanism == "dp-ope"
    numbers = draw(noise, statistics, SeededForExperimentsOnly(1))
    assert numbers["values"].shape == (4 * keys,)
    exact = np.concatenate(sums_of(statistics))
    spread = noise.perturb(statistics, "values", {}).deviations
    assert (abs(numbers["values"] - exact) < 12 * spread).all()
    assert (numbers["values"] != exact).all()
    assert (numbers["values"] == np.rint(numbers["values"])).all()
    assert noise.scales == [2.0**30 * 1.125, 2.0**31 * 1.125, 2.0**33 * 1.125, 18.0]
    with refused("boundary-limits"):
        draw(mechanism(make_limits(keys=keys)), statistics, SeededForExperimentsOnly(1))


# An audit at the worst pair: returns flip from one bound to the other, at the largest weight

EPSILON = 1.0


def hits_and_lower_bound(noise, releases, seed):
    """How often an event that is e^epsilon more likely here than there happened; a lower bound."""
    limits = make_limits()
    here, there = (
        gather([[[(0, reward, 100.0)]], [[(0, 0.0, 1.0)]]], limits) for reward in (9.0, -9.0)
    )
    source = SeededForExperimentsOnly(seed)
    ends = np.array([float(part[0]) for part in sums_of(here)[:3]])
    hits = []
    for statistics in (here, there):
        samples = np.array([draw(noise, statistics, source)["values"] for _ in range(releases)])
        hits.append(int(((samples[:, 0] >= ends[0]) & (samples[:, 2] >= ends[2])).sum()))
    p_low = stats.beta.ppf(1e-10, hits[0], releases - hits[0] + 1)
    q_high = stats.beta.ppf(1 - 1e-10, hits[1] + 1, releases - hits[1])
    return hits, math.log(p_low / q_high)


def test_the_audit_catches_noise_that_is_too_small():
    """The audit rejects a third of the noise; that of the mechanism itself, it does not."""
    noise = mechanism(make_limits(), epsilon=EPSILON)
    hits, lower = hits_and_lower_bound(noise, 1200, 5)
    assert lower <= EPSILON
    assert 0 < hits[1] < hits[0]
    weak = mechanism(make_limits(), epsilon=3 * EPSILON)
    assert hits_and_lower_bound(weak, 1200, 5)[1] > EPSILON


@pytest.mark.long
def test_a_million_draws_do_not_exceed_epsilon():
    hits, lower = hits_and_lower_bound(mechanism(make_limits(), epsilon=EPSILON), 500_000, 11)
    assert lower <= EPSILON
    assert abs(math.log(hits[0] / hits[1]) - EPSILON) < 0.02  # and the bound is attained
    weak = mechanism(make_limits(), epsilon=1.05 * EPSILON)
    assert hits_and_lower_bound(weak, 500_000, 12)[1] > 1.0
