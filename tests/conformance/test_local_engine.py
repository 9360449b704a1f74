"""The local engine, every way that it goes: the same bits, the same limits, the same refusals.

An engine is a function from a table of rows in any order, and a study, to statistics.
"""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import privalue as pv
from oracles import literal
from oracles.studies import study
from privalue.core._contributions import VisitStatistics, complete
from privalue.readers import _local as local
from privalue.readers._chunks import Chunk

BOUNDS = {"rewards": (-1.0, 1.0), "returns": (-1.5, 2.5)}


def chunks(table, place, rows):
    first_row = 1
    for batch in table.to_batches(max_chunksize=rows):
        yield Chunk(place, first_row, batch)
        first_row += len(batch)


def by_partitions(table, described):
    """As a cluster does it: whole persons (trajectories) to each of three partitions."""
    frame = table.to_pandas()
    unit = frame["person" if "person" in frame else "trajectory"].astype(str)
    place = unit.map(lambda name: sum(name.encode()) % 3)
    total = VisitStatistics.empty(described)
    for number in range(3):
        part = pa.Table.from_pandas(frame[place == number], preserve_index=False)
        total += local.statistics_of_chunks(chunks(part, f"partition {number}", 17), described)
    return complete(total, described)


def by_ranges(table, described):
    """As a cluster does it with rows in order: stretches, cut anywhere, and their ends joined."""
    keys = [name for name in ("person", "trajectory", "step") if name in table.column_names]
    ordered = table.sort_by([(name, "ascending") for name in keys])
    seams, total = local.Seams(described), VisitStatistics.empty(described)
    for number, start in enumerate(range(0, len(ordered), 41)):
        part = chunks(ordered.slice(start, 41), f"range {number}", 9)
        found, ends = local.statistics_of_ordered_chunks(part, described)
        total += found
        for stretch in ends:
            seams.add(stretch)
    return complete(total + seams.finish(), described)


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
    again = rf"step = {table['step'][7]} stands twice in trajectory '{table['trajectory'][7]}' "
    with pytest.raises(pv.DataError, match=again):
        engine(twice, study(5, **BOUNDS))


def test_nobody_is_an_answer_where_the_size_is_secret(engine):
    nobody = rows_of_people(people(2)).drop_columns("person").slice(0, 0)
    secret = study(5, privacy={"neighbours": "add-remove"}, **BOUNDS)
    assert engine(nobody, secret) == VisitStatistics.empty(secret)
    with pytest.raises(pv.DataError, match="no rows"):
        engine(nobody, study(5, **BOUNDS))


def test_an_engine_that_loses_the_end_of_a_range_is_caught():
    """The planted mistake: the last stretch of every range is left out."""
    owned = people()
    table = rows_of_people(owned).drop_columns("person")
    described = study(5, **BOUNDS)
    ordered = table.sort_by([("trajectory", "ascending"), ("step", "ascending")])
    seams, total = local.Seams(described), VisitStatistics.empty(described)
    for start in range(0, len(ordered), 41):
        part = chunks(ordered.slice(start, 41), "here", 9)
        found, ends = local.statistics_of_ordered_chunks(part, described)
        total += found
        for stretch in ends[:-1]:
            seams.add(stretch)
    with pytest.raises(AssertionError):
        assert_is_the_twin(total + seams.finish(), [e for mine in owned.values() for e in mine])


def test_ranges_that_do_not_follow_each_other_are_refused():
    described = study(5, **BOUNDS)
    ordered = rows_of_people(people(4)).drop_columns("person")
    ordered = ordered.sort_by([("trajectory", "ascending"), ("step", "ascending")])
    halves = [ordered.slice(0, 20), ordered.slice(20)]
    (before,), (after,) = (
        local.statistics_of_ordered_chunks(chunks(half, "half", 99), described)[1]
        for half in halves
    )
    seams = local.Seams(described)
    seams.add(after)
    with pytest.raises(pv.DataError, match=r"half, row 1: trajectory = '0', step = -5 comes after"):
        seams.add(before)


def test_rows_that_are_not_where_they_were_are_told_by_their_numbers():
    """A shuffle hands them over in any order, with the numbers that they had."""
    table = rows_of_people(people(3)).drop_columns("person")
    twice = pa.concat_tables([table, table.slice(7, 1)]).combine_chunks().to_batches()[0]
    numbers = np.random.default_rng(0).permutation(10 * np.arange(len(twice)))
    chunk = Chunk("", 0, twice, lambda at: f"number {numbers[at]}")
    first, again = numbers[7], numbers[-1]
    with pytest.raises(pv.DataError, match=rf"^number {again}: step.*the other is number {first}"):
        local.statistics_of_chunks([chunk], study(5, **BOUNDS))
    column = pa.array([9 if at == 20 else 0 for at in range(len(twice))])
    spoilt = Chunk("", 0, twice.set_column(2, "state", column), chunk.locate)
    with pytest.raises(pv.DataError, match=rf"^number {numbers[20]}: state"):
        local.statistics_of_chunks([spoilt], study(5, **BOUNDS))
