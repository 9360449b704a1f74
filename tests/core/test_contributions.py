"""The boundary: what units contribute, in any batches, and what is refused."""

import dataclasses
import random
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import typeof

import privalue.readers  # noqa: F401 - its types too
from oracles import boundary
from oracles.limits import make_limits
from oracles.refusals import refused
from oracles.studies import make_study, mechanism_for
from privalue.core import (
    ARRAYS,
    COUNTERS,
    GRID_STEPS,
    MAX_LEVELS,
    Contributions,
    Integers,
    Limits,
    PublicSize,
    Statistics,
    draw,
    unit_hash,
)
from privalue.core.kernel import gather
from privalue.core.mechanisms import LslTerms, LswTerms, OpeTerms, SspTerms
from privalue.errors import BoundaryError
from privalue.simulation import SeededForExperimentsOnly
from privalue.study import design

KEYS = 4
LIMITS = [
    make_study(KEYS, discount=discount, rewards=(-1.0, 1.0), returns=(-1.5, 2.5), **sections).limits
    for discount in (1.0, 0.7)
    for sections in (
        {},
        {"privacy": {"max_states_per_trajectory": 2}},
        {"privacy": {"unit": "person", "max_trajectories_per_person": 2}},
        {
            "privacy": {
                "unit": "person",
                "max_trajectories_per_person": 1,
                "max_states_per_trajectory": 1,
            },
            "data": {"invalid": "drop-unit"},
        },
        {"data": {"invalid": "drop-unit"}},
    )
]
LIMITS += [
    dataclasses.replace(LIMITS[0], levels=12),
    dataclasses.replace(LIMITS[3], levels=12, return_bounds=(0.25, 1e3)),
    dataclasses.replace(LIMITS[7], levels=5, return_bounds=(-7.0, 0.0), reward_bounds=(-2.0, 0.5)),
]
IDS = st.one_of(
    st.tuples(st.integers(-3, 3)),
    st.tuples(st.just(7), st.integers(0, 2), st.integers(0, 2)),  # an id of three words
    st.sampled_from([(-(2**63),), (2**63 - 1,)]),
)


@st.composite
def rows_for(draw, limits):
    """Rows (ids, step, key, reward), each step of a trajectory once unless that drops its unit."""
    identity = (
        st.tuples(IDS, IDS) if draw(st.booleans()) or limits.unit == "person" else st.tuples(IDS)
    )
    step = st.one_of(st.integers(-2, 5), st.sampled_from([-(2**63), 2**63 - 1]))
    pairs = draw(st.lists(st.tuples(identity, step), min_size=1, max_size=30))
    if len({len(ids) for ids, _ in pairs}) > 1 or not limits.drop_invalid:
        pairs = list({(pad(ids), step): (ids, step) for ids, step in pairs}.values())
    keys = st.integers(0, KEYS if limits.drop_invalid else KEYS - 1)
    return [(ids, step, draw(keys), draw(st.floats(-1, 1, width=32))) for ids, step in pairs]


def pad(ids, words=3):
    return tuple((*one, *(0,) * (words - len(one))) for one in ids)


def unit_of(row, limits):
    return pad(row[0])[: 1 if limits.unit == "person" else None]


def batches_of(rows, limits, draw):
    """The rows in order, in batches of whole units; ids of each have as few words as they need."""
    rows = sorted(rows, key=lambda row: (pad(row[0]), row[1]))
    groups = []
    for row in rows:
        same = groups and unit_of(groups[-1][-1], limits) == unit_of(row, limits)
        if same or (groups and draw.random() < 0.5):
            groups[-1].append(row)
        else:
            groups.append([row])
    batches = []
    for group in groups:
        words = max(len(one) for ids, *_ in group for one in padded_least(ids))
        ids = np.array([pad(padded_least(ids), words) for ids, *_ in group], dtype=np.int64)
        steps, keys, rewards = zip(*(row[1:] for row in group), strict=True)
        columns = (ids, np.array(steps), np.array(keys, np.int32), np.array(rewards, float))
        batches.append(boundary.Batch(*columns))
    return batches


def padded_least(ids):
    return tuple(boundary._trim(one) for one in ids)


@settings(max_examples=150)
@given(data=st.data(), limits=st.sampled_from(LIMITS), seed=st.integers(0, 99))
def test_the_kernel_is_the_literal_twin_in_any_batches(data, limits, seed):
    """Also when merged in any order, and with ids of several words."""
    draw = random.Random(seed)
    rows = data.draw(rows_for(limits))
    expected = boundary.literal([(pad(ids), *others) for ids, *others in rows], limits)
    whole = boundary.handed_over(batches_of(rows, limits, random.Random(0)), limits)
    assert boundary.numbers_of(whole, expected) == expected
    parts = []
    for batch in batches_of(rows, limits, draw):
        parts.append(Contributions(limits))
        parts[-1].add(*batch[:4])
    draw.shuffle(parts)
    total = Contributions(limits).finish()
    for part in parts:
        total += part.finish()
    assert total == whole


@pytest.mark.parametrize("limits", LIMITS[:5])
@pytest.mark.parametrize("mistake", boundary.MISTAKES)
def test_a_planted_mistake_is_refused(limits, mistake):
    identities = [((t,), (u,)) for t in range(9) for u in (1, 2)]
    rows = [(ids, step, step % KEYS, 0.5) for ids in identities for step in range(3)]
    batches = batches_of(rows, limits, random.Random(1))
    assert boundary.handed_over(batches, limits).rows == len(rows)
    plant, reasons = boundary.MISTAKES[mistake]
    with pytest.raises(BoundaryError) as caught:
        boundary.handed_over(plant(batches, limits), limits)
    assert caught.value.reason in reasons


def test_a_step_twice_is_refused_or_drops_its_unit():
    rows = [(((0,),), 3, 0, 0.5), (((0,),), 3, 1, 0.5), (((1,),), 0, 1, 0.5)]
    for limits in (LIMITS[0], LIMITS[4]):
        batches = batches_of(rows, limits, random.Random(0))
        if limits.drop_invalid:
            statistics = boundary.handed_over(batches, limits)
            assert (statistics.units_dropped, statistics.trajectories) == (1, 1)
            continue
        with refused("boundary-duplicate") as error:
            boundary.handed_over(batches, limits)
        assert error.value.row == 1


def test_nothing_can_be_added_after_a_refusal():
    contributions = Contributions(LIMITS[0])
    good, bad = (
        (np.array([[[t]], [[1]]]), np.zeros(2, np.int64), np.zeros(2, np.int32), np.zeros(2))
        for t in (0, 2)
    )
    with refused("boundary-order"):
        contributions.add(*bad)
    for again in (
        lambda: contributions.add(*good),
        contributions.finish,
    ):
        with refused("boundary-order"):
            again()


def test_steps_and_rewards_of_32_bits_are_those_of_64():
    """0.1 as a float of 32 bits is above 0.1, and clamped as the double that it is."""
    limits = dataclasses.replace(LIMITS[0], reward_bounds=(-0.1, float(np.float32(0.3))))
    ids = np.repeat(np.arange(3), 4)[:, None, None]
    steps, keys = np.tile(np.arange(4) - 2**31, 3), np.arange(12, dtype=np.int32) % KEYS
    rewards = np.float32([0.1, -0.1, 0.3, -0.3, 1e-45, 3e38, 0.7, -1e-40, 0.2, 1 / 3, 0, -0.0])
    wide = Contributions(limits)
    wide.add(ids, steps, keys, rewards.astype(np.float64))
    wide = wide.finish()
    assert wide.rewards_clamped == 5
    for kinds in (("i4", "f4"), ("i4", "f8"), ("i8", "f4")):
        narrow = Contributions(limits)
        narrow.add(ids, steps.astype(kinds[0]), keys, rewards.astype(kinds[1]))
        assert narrow.finish() == wide


@pytest.mark.parametrize(
    ("place", "kind"),
    [(0, "i4"), (1, "i2"), (1, "u4"), (1, ">i4"), (2, "i8"), (3, "f2"), (3, ">f4"), (3, "i4")],
)
def test_other_types_are_refused(place, kind):
    """A conversion could round a reward, or wrap a key around."""
    columns = [np.zeros((1, 1, 1), "i8"), np.zeros(1, "i8"), np.zeros(1, "i4"), np.zeros(1)]
    columns[place] = columns[place].astype(kind)
    with refused("boundary-type"):
        Contributions(LIMITS[0]).add(*columns)


@pytest.mark.parametrize("low", [0.0, -(2.0**29), -(2.0**28)])
@pytest.mark.parametrize("levels", range(2, MAX_LEVELS + 1))
def test_a_return_has_the_first_level_that_holds_it(levels, low):
    """At both sides of every level's ends; a step of the grid is a return of 1 here."""
    bounds = (low, low + GRID_STEPS)
    limits = dataclasses.replace(
        LIMITS[0], levels=levels, return_bounds=bounds, reward_bounds=bounds
    )
    assert limits.smallest_radius << (levels - 1) >= max(
        limits.centre_step, GRID_STEPS - limits.centre_step
    )
    ends = {limits.smallest_radius << level for level in range(levels)}
    away = {0, 1, *ends, *(end + 1 for end in ends), *(end - 1 for end in ends)}
    places = {limits.centre_step + side * gap for gap in away for side in (-1, 1)}
    for steps in sorted(place for place in places if 0 <= place <= GRID_STEPS):
        added = Contributions(limits)
        ones = np.ones((1, 1, 1), dtype=np.int64)
        added.add(ones, ones[0, 0], np.zeros(1, dtype=np.int32), np.array([low + steps]))
        statistics, distance = added.finish(), abs(steps - limits.centre_step)
        level = next(
            (j for j in range(levels) if distance <= limits.smallest_radius << j), levels - 1
        )
        assert statistics.return_steps[0] == steps
        assert statistics.largest_levels.nonzero()[0].tolist() == [level]
        cell = 2 * level + (steps < limits.centre_step)
        assert statistics.level_counts[0].nonzero()[0].tolist() == [cell]


def test_a_key_that_changes_after_it_was_checked_is_not_used(monkeypatch):
    """The caller may change its arrays meanwhile: the kernel writes to the key that it checked."""

    class Changing:
        """Keys that are 1 at the first read, and out of range at later ones."""

        def __init__(self, size):
            self.read = np.zeros(size, dtype=np.int64)

        def __getitem__(self, row):
            self.read[row] += 1
            return 1 if self.read[row] == 1 else 10**6

    def changed(ids, steps, keys, *others):
        return gather.py_func(ids, steps, Changing(len(keys)), *others)

    monkeypatch.setattr("privalue.core.kernel.gather", changed)
    contributions = Contributions(LIMITS[0])
    ids = np.array([1, 1, 2]).reshape(3, 1, 1)
    contributions.add(ids, np.array([0, 1, 0]), np.ones(3, dtype=np.int32), np.ones(3))
    assert contributions.finish().counts.tolist() == [0, 2, 0, 0]


def test_compiled_code_for_names_in_another_order_is_not_used(monkeypatch):
    """Compiled code on disk is found by types, which have no names of a tuple's fields."""
    take = Mock(return_value=("", 0))
    monkeypatch.setattr("privalue.core.kernel.gather", take)
    columns = (np.zeros(1, np.int64), np.zeros(1, np.int32), np.zeros(1))
    Contributions(LIMITS[0]).add(np.zeros((1, 1, 1), np.int64), *columns)
    *_, layout, rules, sums = take.call_args.args
    assert layout.dtype.names == (*rules._fields, *sums._fields)
    assert typeof(layout) != typeof(np.zeros(0, dtype=layout.dtype.descr[::-1]))


def test_more_trajectories_than_sums_can_hold_are_refused():
    contributions = Contributions(LIMITS[0])
    contributions._sums.trajectories[0] = 2**33 - 1  # trajectories that count
    columns = (np.zeros(1, np.int64), np.zeros(1, np.int32), np.zeros(1))
    contributions.add(np.zeros((1, 1, 1), np.int64), *columns)
    with refused("data-invalid"):
        contributions.finish()


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=5), st.integers(0, 3))
def test_zeros_at_the_end_of_an_id_do_not_count(words, more):
    ids = np.array(words, dtype=np.int64)
    assert unit_hash(ids, len(ids)) == unit_hash(np.pad(ids, (0, more)), len(ids) + more)


@pytest.mark.parametrize(
    ("counts", "steps"),
    [
        ([6, 0], [0, 0]),
        ([-1, 0], [0, 0]),
        ([2, 0], [2**31 + 1, 0]),
        ([0, 0], [0, 1]),
        ([1, 1], [-1, 0]),
    ],
)
def test_sums_that_no_rows_add_up_to_are_refused(counts, steps):
    """Engines build statistics from parts, without the kernel."""
    with refused("boundary-sums"):
        Statistics(
            limits=make_limits(keys=len(counts)),
            trajectories=5,
            rows=9,
            counts=np.array(counts),
            return_steps=np.array(steps),
        )


@pytest.mark.parametrize(
    "wrong",
    [
        {"discount": float("nan")},
        {"discount": 0.0},
        {"discount": 1.5},
        {"return_bounds": (1.0, 0.0)},
        {"return_bounds": (0.0, float("inf"))},
        {"return_bounds": (float("nan"), 1.0)},
        {"max_states_per_trajectory": 0},
        {"max_trajectories_per_person": 0},
        {"keys": 0},
        {"unit": "persn"},
        {"neighbours": "addremove"},
    ],
    ids=str,
)
def test_limits_that_no_study_has_are_refused(wrong):
    with refused("limits-invalid"):
        dataclasses.replace(LIMITS[0], **wrong)


@pytest.mark.parametrize("kind", [Limits, PublicSize, SspTerms, LswTerms, LslTerms, OpeTerms])
def test_public_numbers_have_no_defaults(kind):
    """A number that is left out could weaken the promise without an error."""
    defaults = {(field.default, field.default_factory) for field in dataclasses.fields(kind)}
    assert defaults == {(dataclasses.MISSING, dataclasses.MISSING)}


def test_noisy_statistics_are_declared_as_arrays_and_others_as_numbers():
    kinds = {name: Statistics.__annotations__[name] for name in (*ARRAYS, *COUNTERS)}
    assert [*kinds.values()] == [Integers] * len(ARRAYS) + [int] * len(COUNTERS)


SECRETS = [{"neighbours": "add-remove"}, {"drop_invalid": True}, {"drop_truncated": True}]


@pytest.mark.parametrize("secret", SECRETS, ids=str)
def test_no_size_is_public_where_a_unit_may_vanish(secret):
    public = {"drop_invalid": False, **secret, "size_is_public": True}
    with refused("limits-invalid"):
        dataclasses.replace(LIMITS[0], **public)
    limits = dataclasses.replace(LIMITS[0], **{**public, "size_is_public": False})
    assert not limits.counts_trajectories
    size = PublicSize.of(limits, None, trajectories=77, persons=7)
    assert (size.units, size.trajectories) == (None, None)


@pytest.mark.parametrize("span", [(0, -1), (-1, 2**32), (5, 5), (9, 3), (0, 2**32 + 1)], ids=str)
def test_an_invalid_span_is_refused(span):
    """A negative end would pass every hash in the kernel, and compare as apart from all others."""
    ids = np.full((1, 1, 1), 7, np.int64)
    columns = (np.zeros(1, np.int64), np.zeros(1, np.int32), np.zeros(1))
    contributions = Contributions(LIMITS[0])
    contributions.add(ids, *columns)
    with refused("boundary-span"):
        _added_and_finished(contributions, ids, columns, span)


def _added_and_finished(contributions, ids, columns, span):
    contributions.add(ids, *columns, span=span)
    contributions.finish()


def test_a_unit_has_one_number_of_ids():
    columns = (np.zeros(1, np.int64), np.zeros(1, np.int32), np.zeros(1))
    contributions = Contributions(LIMITS[0])
    for ids in (1, 2):
        unit = np.zeros((1, ids, 1), np.int64)
        unit[0, 0, 0] = 7
        contributions.add(unit, *columns)
    with refused("boundary-span"):
        contributions.finish()
    with refused("boundary-length"):
        Contributions(LIMITS[0]).add(np.zeros((1, 0, 1), np.int64), *columns)


def test_noise_and_data_are_held_to_the_same_limits():
    study = make_study(KEYS, mechanism={"calibration": "exact"})
    wider = dataclasses.replace(study.limits, unit="person", max_trajectories_per_person=1000)
    one, other = Contributions(study.limits), Contributions(wider)
    with refused("data-invalid"):
        one.finish() + other.finish()
    mechanism = mechanism_for(
        study, design(study), PublicSize(units=5, most_count=5, trajectories=5)
    )
    with refused("boundary-limits"):
        draw(mechanism, other.finish(), SeededForExperimentsOnly(1))


# Batches that were interrupted


def test_an_interrupted_batch_is_on_record(monkeypatch):
    """Its units may be in the sums already: adding them again is refused."""
    ids = np.full((1, 1, 1), 7, np.int64)
    columns = (np.zeros(1, np.int64), np.zeros(1, np.int32), np.zeros(1))
    contributions = Contributions(LIMITS[0])

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("privalue.core.kernel.gather", interrupted)
        with pytest.raises(KeyboardInterrupt):
            contributions.add(ids, *columns)
    contributions.add(ids, *columns)
    with refused("boundary-twice"):
        contributions.finish()
