"""The local engine, every way that it goes: the same bits, the same limits, the same refusals.

An engine is a function from a table of rows in any order, and a study, to statistics.
"""

from contextlib import closing

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import privalue as pv
from oracles import literal
from oracles.studies import study
from privalue.core import Contributions
from privalue.readers import RowRules
from privalue.readers import _local as local
from privalue.readers._chunks import Chunk, Location
from privalue.readers._encode import Encoder
from privalue.readers._local import Pool
from privalue.readers._order import CarryOver, hand_over
from privalue.readers._partition import Partitions, pack
from privalue.readers._spark_rows import Numbered
from privalue.readers._spark_tasks import outermost

BOUNDS = {"rewards": (-1.0, 1.0), "returns": (-1.5, 2.5)}


def batches(table, described, place, rows):
    """The encoded rows of a table, so many at a time."""
    rules, first_row = RowRules.of(described), 1
    for batch in table.to_batches(max_chunksize=rows):
        yield Encoder(rules).encode(Chunk(Location(place, first_row), batch))
        first_row += len(batch)


def tallied(several):
    return sum(rows.left_out for rows in several)


def by_partitions(table, described):
    """As a cluster does it: whole units to each of three tasks, by what they hash to."""
    rules = RowRules.of(described)
    encoded = [rows for rows in batches(table, described, "a table", 17) if len(rows)]
    total = Contributions(described.limits).finish(rows_left_out=tallied(encoded))
    for number in range(3):
        pool, partitions = Pool(described.limits), Partitions(2 << 30, None, rules, count=7)
        with closing(partitions):
            for rows in encoded:
                partitions.put([rows])
            for partition in range(number, 7, 3):
                partitions.hand_over(partition, pool.add)
            partitions.require_sound()
        total += pool.finish(0)
    return total.require_data(described.limits)


def ranges(table, described):
    """Ordered rows, cut anywhere, as batches of batches."""
    keys = [name for name in ("person", "trajectory", "step") if name in table.column_names]
    ordered = table.sort_by([(name, "ascending") for name in keys])
    for number, start in enumerate(range(0, len(ordered), 41)):
        yield list(batches(ordered.slice(start, 41), described, f"range {number}", 9))


def by_ranges(table, described, joined=lambda units: units):
    """As a cluster does it with rows in order: the units at the ends of ranges are joined."""
    rules, pool, found = RowRules.of(described), Pool(described.limits), 0
    carried = CarryOver(rules, lambda rows: hand_over(rows, pool.add, rules))
    for encoded in ranges(table, described):
        found += tallied(encoded)
        for rows in joined(outermost(encoded, pool, rules)):
            carried.add(rows)
    carried.finish()
    return pool.finish(found).require_data(described.limits)


ENGINES = {
    "one thread": lambda table, described: local.statistics(table, described, threads=1),
    "two threads": local.statistics,
    "on disk": lambda table, described: local.statistics(table, described, memory=1 << 16),
    "a stream": lambda table, described: local.statistics(
        table.to_reader(max_chunksize=13), described
    ),
    "partitions": by_partitions,
    "ranges": by_ranges,
}


@pytest.fixture(params=ENGINES)
def engine(request):
    return ENGINES[request.param]


def people(count=30, seed=2):
    """{person: [episode, ...]}"""
    rng = np.random.default_rng(seed)
    return {
        person: [
            [(int(rng.integers(5)), float(rng.uniform(-2, 2))) for _ in range(rng.integers(1, 12))]
            for _ in range(rng.integers(1, 6))
        ]
        for person in range(count)
    }


def rows_of_people(owned, seed=4):
    """The long table in no order, every id of a trajectory its own."""
    rows, number = [], 0
    for person, episodes in owned.items():
        for episode in episodes:
            rows += [(person, number, 3 * at - 5, *step) for at, step in enumerate(episode)]
            number += 1
    made = pd.DataFrame(rows, columns=["person", "trajectory", "step", "state", "reward"])
    return pa.Table.from_pandas(made.sample(frac=1, random_state=seed), preserve_index=False)


def assert_is_the_twin(found, episodes, most_states=None):
    m, counts, sums = literal.first_visit(
        episodes, 0.9, BOUNDS["rewards"], BOUNDS["returns"], 5, most_states
    )
    assert (found.trajectories, found.counts.tolist(), found.return_steps.tolist()) == (
        m,
        counts,
        sums,
    )


@pytest.mark.parametrize("ids", ["whole numbers", "texts", "texts of numbers"])
def test_the_literal_definition(engine, ids):
    owned = people()
    table = rows_of_people(owned).drop_columns("person")
    if ids != "whole numbers":
        frame = table.to_pandas()
        shape = "stay {:05}" if ids == "texts" else "{:05}"
        frame["trajectory"] = frame["trajectory"].map(shape.format)
        table = pa.Table.from_pandas(frame, preserve_index=False)
    found = engine(table, study(5, **BOUNDS))
    episodes = [episode for mine in owned.values() for episode in mine]
    assert_is_the_twin(found, episodes)
    assert found.rows == len(table)
    assert found.rewards_clamped == sum(abs(r) > 1 for episode in episodes for _, r in episode)


@pytest.mark.parametrize("most", [1, 2, 9])
def test_bounded_contribution(engine, most):
    owned = people()
    privacy = {
        "unit": "person",
        "max_trajectories_per_person": most,
        "max_states_per_trajectory": 2,
    }
    found = engine(rows_of_people(owned), study(5, privacy=privacy, **BOUNDS))
    kept = [episode for mine in owned.values() for episode in mine[:most]]
    assert_is_the_twin(found, kept, most_states=2)
    assert found.persons == len(owned)
    assert found.surplus_trajectories == sum(len(mine) for mine in owned.values()) - len(kept)


def test_a_trajectory_is_the_pair_of_both_ids(engine):
    owned = people(8)
    frame = rows_of_people(owned).to_pandas()
    frame["trajectory"] -= frame.groupby("person")["trajectory"].transform("min")
    both = {"person": "person", "trajectory": "trajectory"}
    table = pa.Table.from_pandas(frame, preserve_index=False)
    found = engine(table, study(5, data=both, **BOUNDS))
    assert_is_the_twin(found, [episode for mine in owned.values() for episode in mine])


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("state", 5, r"state = 5 is not a state"),
        ("reward", np.inf, r"reward = inf must be a finite number"),
        ("step", None, r"step is missing"),
    ],
)
def test_mistakes_are_refused(engine, column, value, message):
    table = rows_of_people(people(3)).drop_columns("person")
    values = table.column(column).to_pylist()
    values[len(values) // 2] = value
    at = table.column_names.index(column)
    with pytest.raises(pv.DataError, match=message):
        engine(table.set_column(at, column, pa.array(values)), study(5, **BOUNDS))


def test_a_step_that_stands_twice_is_refused(engine):
    table = rows_of_people(people(3)).drop_columns("person")
    twice = pa.concat_tables([table, table.slice(7, 1)])
    again = rf"step = {table['step'][7]} appears twice in trajectory '{table['trajectory'][7]}' "
    with pytest.raises(pv.DataError, match=again):
        engine(twice, study(5, **BOUNDS))


def test_nobody_is_an_answer_where_the_size_is_secret(engine):
    nobody = rows_of_people(people(2)).drop_columns("person").slice(0, 0)
    secret = study(5, privacy={"neighbours": "add-remove"}, **BOUNDS)
    assert engine(nobody, secret) == Contributions(secret.limits).finish()
    with pytest.raises(pv.DataError, match="no rows"):
        engine(nobody, study(5, **BOUNDS))


def test_an_engine_that_loses_the_end_of_a_range_is_caught():
    """The planted mistake: the last unit of every range is left out."""
    owned = people()
    table = rows_of_people(owned).drop_columns("person")
    everybody = [episode for mine in owned.values() for episode in mine]
    assert_is_the_twin(by_ranges(table, study(5, **BOUNDS)), everybody)
    with pytest.raises(AssertionError):
        assert_is_the_twin(
            by_ranges(table, study(5, **BOUNDS), joined=lambda units: units[:-1]), everybody
        )


def test_ranges_that_do_not_follow_each_other_are_refused():
    described = study(5, **BOUNDS)
    rules = RowRules.of(described)
    ordered = rows_of_people(people(4)).drop_columns("person")
    ordered = ordered.sort_by([("trajectory", "ascending"), ("step", "ascending")])
    halves = [ordered.slice(0, 20), ordered.slice(20)]
    (before,), (after,) = (batches(half, described, "half", 99) for half in halves)
    carried = CarryOver(rules, lambda _: None)
    carried.add(after)
    with pytest.raises(pv.DataError, match=r"half, row 1: trajectory = '0', step = -5 comes after"):
        carried.add(before)


def test_rows_that_are_not_where_they_were_are_told_by_their_numbers():
    """A shuffle hands them over in any order, with the numbers that they had."""
    described = study(5, **BOUNDS)
    rules = RowRules.of(described)
    table = rows_of_people(people(3)).drop_columns("person")
    twice = pa.concat_tables([table, table.slice(7, 1)]).combine_chunks().to_batches()[0]
    numbers = np.random.default_rng(0).permutation(10 * np.arange(len(twice)))
    location = Numbered("", numbers=numbers)
    first, again = sorted([numbers[7] + 1, numbers[-1] + 1])
    place = "the Spark dataframe, partition 0, row"
    bundle = pack(
        [Encoder(rules).encode(Chunk(location, twice))], 5, rules, lambda n: np.empty(n, np.int32)
    )
    ends = bundle.bounds[1:] * bundle.shape.width
    places = numbers[np.argsort(bundle.which, kind="stable")]
    partitions = Partitions(
        2 << 30, None, rules, count=5, locate=lambda n: (Numbered("", numbers=np.array([n])), 0)
    )
    partitions.put_cells(range(5), [bundle.shape] * 5, bundle.rows, ends.tolist(), places)
    for partition in range(5):
        partitions.hand_over(partition, Pool(described.limits).add)
    with pytest.raises(
        pv.DataError, match=rf"^{place} {again}: step.*the other is {place} {first}\)"
    ):
        partitions.require_sound()
    column = pa.array([9 if at == 20 else 0 for at in range(len(twice))])
    spoilt = Chunk(location, twice.set_column(2, "state", column))
    with pytest.raises(pv.DataError, match=rf"^{place} {numbers[20] + 1}: state"):
        Encoder(rules).encode(spoilt)
