"""One suite for every engine: the same bits from the same rows, the same code for a mistake.

The twin groups rows with dictionaries and leaves the rest to ``oracles/literal.py``. Spark runs on
two cores, with partitions cut anywhere; its tasks and the driver also run without Spark, for many
random partitions.
"""

import os
import random
import signal
from collections import defaultdict
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles import literal
from oracles import reading as local
from oracles.refusals import refused
from oracles.studies import make_study
from privalue.core import Contributions
from privalue.readers import is_query_result
from privalue.readers import spark as engine

pytestmark = pytest.mark.xdist_group("spark")  # one session serves all

HEADING = ("trajectory", "step", "state", "reward")
STATES = 5


# Rows, and the twin


def draw_rows(seed, rows=400, trajectories=40, persons=None, name=int):
    """Return random rows in random order, with gaps between steps and rewards out of bounds."""
    rng = random.Random(seed)
    cells = [
        (rng.randrange(trajectories), step, rng.randrange(STATES), round(rng.gauss(0.4, 1), 3))
        for step in rng.sample(range(-rows, 3 * rows), rows)
    ]
    columns = {
        "trajectory": [name(t) for t, *_ in cells],
        "step": [step for _, step, *_ in cells],
        "state": [state for *_, state, _ in cells],
        "reward": [reward for *_, reward in cells],
    }
    if persons is not None:
        columns = {"person": [f"p{rng.randrange(persons)}" for _ in cells], **columns}
    return pa.table(columns)


def by_spark_engine(data, study, **options):
    return local.statistics(data, study, engine="spark", **options)


def by_hand(table, study, states):
    """Group rows with dictionaries; yield the trajectories that count, as episodes."""
    persons = defaultdict(lambda: defaultdict(list))
    names = study.data
    by_person = "person" in local.declaration(study).columns
    for row in table.to_pylist():
        person = row[names.person] if by_person else None
        cell = (row[names.step], states(row[names.state]), float(row[names.reward]))
        persons[person][row[names.trajectory]].append(cell)
    limit = study.privacy.max_trajectories_per_person
    for trajectories in persons.values():
        for key in sorted(trajectories)[:limit]:
            yield [(state, reward) for _, state, reward in sorted(trajectories[key])]


def twin(table, study, states=int):
    values, limit = study.values, study.privacy.max_states_per_trajectory
    return literal.first_visit(
        list(by_hand(table, study, states)),
        values.discount,
        values.rewards,
        values.return_bounds,
        study.names.count,
        limit,
    )


def empty_statistics(study):
    """Return the statistics of no rows."""
    return Contributions(study.limits).finish()


def numbers(result):
    return result.trajectories, result.counts.tolist(), result.return_steps.tolist()


def in_order(table, study):
    """Sorted by person, trajectory and step; texts that are whole numbers come first, as such."""

    def rank(cell):
        if isinstance(cell, str):
            return (0, int(cell)) if cell.isascii() and cell.isdigit() else (1, cell.encode())
        return cell

    rules = local.declaration(study)
    names = [rules.columns[role] for role in (*rules.id_roles, "step")]
    keys = [table.column(name).to_pylist() for name in names]
    return table.take(
        sorted(range(table.num_rows), key=lambda row: [rank(column[row]) for column in keys])
    )


def pieces_of(table, cuts):
    """Return the table cut at these places; the same place twice makes an empty piece."""
    ends = [0, *sorted(cuts), table.num_rows]
    return [table.slice(a, b - a) for a, b in pairwise(ends)]


def make_frame(spark, pieces, before=None):
    """Return a DataFrame with exactly these pieces as partitions, in order."""
    from pyspark.sql.pandas.types import from_arrow_schema

    def partition(batches):  # nested: the workers cannot import the tests
        for batch in batches:
            for at in batch.column(0).to_pylist():
                yield from pieces[at].to_batches(max_chunksize=64)
                if before is not None:
                    before(at)

    numbered = spark.range(0, len(pieces), 1, len(pieces))
    return numbered.mapInArrow(partition, from_arrow_schema(pieces[0].schema))


# The same rows give the same bits

PERSONS = {"unit": "person", "max_trajectories_per_person": 2}
START = datetime(2026, 1, 1)


def labels_table():
    table = draw_rows(5)
    labels = [f"ward {s}" for s in table.column("state").to_pylist()]
    return table.set_column(2, "state", pa.array(labels))


def times_table():
    table = draw_rows(6)
    steps = [START + timedelta(minutes=step) for step in table.column("step").to_pylist()]
    rewards = [Decimal(str(reward)) for reward in table.column("reward").to_pylist()]
    columns = {
        "trajectory": table.column("trajectory").cast(pa.float64()),
        "step": pa.array(steps, pa.timestamp("us", "UTC")),
        "state": table.column("state").cast(pa.int16()),
        "reward": pa.array(rewards, pa.decimal128(9, 3)),
    }
    return pa.table(columns)


def skewed_table():
    """One trajectory has most rows."""
    table = draw_rows(7, trajectories=400)
    ids = [3 if t > 20 else t for t in table.column("trajectory").to_pylist()]
    return table.set_column(0, "trajectory", pa.array(ids))


def odd_names_table():
    """Names with dots and quotes, names that differ in case alone, and unused columns."""
    table = draw_rows(8).rename_columns(["stay.id", "The `step`", "state", "reward"])
    return table.append_column("State", pa.nulls(table.num_rows, pa.int64()))


def large_ids_table():
    """Whole numbers beyond 63 bits, which Spark's types do not have."""
    table = draw_rows(12, persons=3, trajectories=9)
    ids = [2**63 + 3 * t if t % 2 else t for t in table.column("trajectory").to_pylist()]
    return table.set_column(1, "trajectory", pa.array(ids, pa.uint64()))


WARDS = {f"ward {s}": str(s // 2) for s in range(STATES)}
CASES = {
    "numbers": (draw_rows(1), make_study(STATES)),
    "texts": (
        draw_rows(2, name=lambda t: ["NA", " 1", "1", "é", "Z", "z"][t % 6] + "x" * (t // 6)),
        make_study(STATES),
    ),
    "persons": (draw_rows(3, persons=9, trajectories=6), make_study(STATES)),
    "persons protected": (
        draw_rows(3, persons=9, trajectories=6),
        make_study(STATES, privacy={**PERSONS, "max_states_per_trajectory": 3}),
    ),
    "persons with long ids": (
        draw_rows(4, rows=600, persons=5, trajectories=30, name=lambda t: 10 ** (t % 4) * (t - 7)),
        make_study(STATES, privacy={**PERSONS, "neighbours": "add-remove"}),
    ),
    "labels": (labels_table(), make_study(states={"labels": list(WARDS)})),
    "groups": (labels_table(), make_study(states={"labels": ["0", "1", "2"], "groups": WARDS})),
    "tight returns": (
        draw_rows(9),
        make_study(STATES, rewards=(-1, 1), returns=(-0.5, 0.75), discount=1.0),
    ),
    "a bound to be chosen": (
        draw_rows(12, persons=9, trajectories=6),
        make_study(
            STATES,
            rewards=(-1, 1),
            privacy=PERSONS,
            mechanism={"name": "dp-ssp", "calibration": "exact", "stages": ["bounds"]},
        ),
    ),
    "times and decimals": (times_table(), make_study(STATES, data={"step_type": "datetime"})),
    "a skewed key": (skewed_table(), make_study(STATES)),
    "strange names": (
        odd_names_table(),
        make_study(STATES, data={"trajectory": "stay.id", "step": "The `step`"}),
    ),
    "a single row": (draw_rows(10, rows=1), make_study(STATES)),
    "large numbers": (large_ids_table(), make_study(STATES, privacy=PERSONS)),
}
MAPS = {"labels": list(WARDS).index, "groups": lambda label: int(WARDS[label])}
CUTS = [13, 13, 14, 300]  # some partitions are empty, some hold a row


def cuts_for(table):
    return [min(cut, table.num_rows) for cut in CUTS]


def write_files(folder, table, study):
    """Parquet files with small groups of rows, whose ends are no trajectories' ends."""
    for at, part in enumerate(pieces_of(table, cuts_for(table))):
        pq.write_table(part, folder / f"part{at}.parquet", row_group_size=50)
    return folder


def by_local_files(_, table, study, folder):
    return local.statistics(write_files(folder, table, study), study)


def by_spark(spark, table, study, folder):
    return by_spark_engine(make_frame(spark, pieces_of(table, cuts_for(table))), study)


def by_spark_files(spark, table, study, folder):
    return by_spark_engine(write_files(folder, table, study), study)


SELECTED_CASES = ("texts", "persons protected", "times and decimals", "a bound to be chosen")
FRAMES = {"spark": by_spark}
FILES = {
    "local, files": by_local_files,
    "spark, files": by_spark_files,
}
ENGINES = {**FRAMES, **FILES}


@pytest.mark.parametrize("case", CASES)
def test_the_local_engine_gives_the_statistics_of_the_twin(case):
    table, study = CASES[case]
    assert numbers(local.statistics(table, study)) == twin(table, study, MAPS.get(case, int))


@pytest.mark.smoke
def test_spark_gives_the_same_bits(spark, tmp_path):
    table, study = CASES["persons protected"]
    assert by_spark(spark, table, study, tmp_path) == local.statistics(table, study)
    assert is_query_result(make_frame(spark, [table]))


@pytest.mark.parametrize(
    ("name", "case"),
    [("spark", case) for case in CASES if case != "large numbers"]
    + [(name, case) for name in FILES for case in (*SELECTED_CASES, "large numbers")],
)
def test_every_engine_gives_the_same_bits(spark, tmp_path, name, case):
    table, study = CASES[case]
    result = ENGINES[name](spark, table, study, tmp_path)
    assert result == local.statistics(table, study)  # what was clamped or is surplus included
    assert result.rows == table.num_rows


def test_the_comparison_notices_a_changed_cell(spark):
    table, study = CASES["numbers"]
    expected = local.statistics(table, study)
    rewards = table.column("reward").to_pylist()
    rewards[77] = 0.123
    changed = table.set_column(3, "reward", pa.array(rewards))
    assert by_spark(spark, changed, study, None) != expected


def test_data_without_rows_is_refused_unless_its_size_is_private(spark):
    nothing = make_frame(spark, [draw_rows(1).slice(0, 0)] * 3)
    with refused("data-invalid"):
        by_spark_engine(nothing, make_study(STATES))
    study = make_study(STATES, privacy={"neighbours": "add-remove"})
    for frame in (nothing, spark.createDataFrame([], nothing.schema)):
        assert by_spark_engine(frame, study) == empty_statistics(study)


@pytest.mark.parametrize("way", ["failed", "killed"])
def test_a_retried_task_counts_once(spark, tmp_path, way):
    """The first attempt outputs all its rows, and then fails, or its process is killed."""
    table, study = CASES["persons protected"]
    expected = local.statistics(table, study)

    def fails_once(at):
        from pyspark import TaskContext

        attempt = TaskContext.get().attemptNumber()
        (tmp_path / f"partition {at}, attempt {attempt}").touch()
        if at == 1 and attempt == 0:
            if way == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            raise RuntimeError("lost")

    frame = make_frame(spark, pieces_of(table, [100, 300]), before=fails_once)
    assert by_spark_engine(frame, study) == expected
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "partition 0, attempt 0",
        "partition 1, attempt 0",
        "partition 1, attempt 1",
        "partition 2, attempt 0",
    ]


# Random partitions, without Spark


def simulate(partitions, study, tasks=3, deal=lambda _, bucket: bucket):
    """Return the driver's statistics of partitions (tables), with tasks in this process."""
    declaration, limits, buckets = local.declaration(study), study.limits, 16
    names = list(declaration.columns.values())
    by_task = [[] for _ in range(tasks)]
    for at, rows in enumerate(partitions):
        with patch.object(engine, "partition_id", lambda at=at: at):
            output_batches = engine.encode_buckets(
                iter(rows.select(names).to_batches()),
                read=engine.read_frame,
                declaration=declaration,
                buckets=buckets,
            )
            for cells in output_batches:
                which = deal(at, cells.column("bucket").fill_null(0).to_numpy())
                for task in range(tasks):
                    by_task[task].append(cells.filter(pa.array(which % tasks == task)))
    output = []
    for cells in by_task:
        together = pa.Table.from_batches(cells).sort_by("bucket").to_batches()
        output += engine.add_buckets(
            iter(together), declaration=declaration, limits=limits, buckets=buckets
        )
    return engine.add_up(pa.Table.from_batches(output), limits)


@st.composite
def tables(draw, repeated=False):
    """Return few trajectories of few persons; with ``repeated``, a step may appear twice."""
    cell = st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(0, 6))
    keys = draw(
        st.lists(cell, min_size=1, max_size=25, unique_by=None if repeated else lambda key: key)
    )
    rng = draw(st.randoms(use_true_random=False))
    rows = [(*key, rng.randrange(STATES), rng.choice([-1.0, 0.25, 0.5, 7.0])) for key in keys]
    columns = zip(*rows, strict=True)
    return pa.table(dict(zip(("person", *HEADING), map(list, columns), strict=True)))


@st.composite
def arrangements(draw, table):
    """Return the rows of a table, in pieces that are assigned to partitions at random."""
    cuts = draw(st.lists(st.integers(0, table.num_rows), max_size=6))
    pieces = draw(st.permutations(pieces_of(table, cuts)))
    count = draw(st.integers(1, len(pieces)))
    partitions = [[table.slice(0, 0)] for _ in range(count)]
    for piece in pieces:
        partitions[draw(st.integers(0, count - 1))].append(piece)
    return [pa.concat_tables(part) for part in partitions]


BOTH = {"person": "person", "trajectory": "trajectory"}
PRIVACIES = [
    {"max_states_per_trajectory": 2},
    PERSONS,
    {**PERSONS, "neighbours": "add-remove", "max_states_per_trajectory": 1},
]


@settings(max_examples=60)
@given(data=st.data(), table=tables(), privacy=st.sampled_from(PRIVACIES))
def test_partitions_do_not_change_the_statistics(data, table, privacy):
    study = make_study(STATES, privacy=privacy, data=BOTH)
    partitions = data.draw(arrangements(table))
    tasks = data.draw(st.integers(1, 5))
    assert simulate(partitions, study, tasks=tasks) == local.statistics(table, study)


def test_tasks_that_share_a_unit_are_refused():
    """Planted: cells go to tasks by their partition, not by their bucket."""
    table, study = CASES["numbers"]
    partitions = pieces_of(table, [50, 120, 300])
    assert simulate(partitions, study) == local.statistics(table, study)
    with refused("boundary-twice"):
        simulate(partitions, study, deal=lambda at, bucket: np.full(len(bucket), at))


# Errors of Spark


def test_an_error_of_spark_is_one_line_and_is_not_logged(spark, caplog):
    frame = make_frame(spark, [draw_rows(1)]).selectExpr(
        "trajectory", "step", "state", "CAST('x' || reward AS DOUBLE) AS reward"
    )
    with refused("spark-failure") as error:
        by_spark_engine(frame, make_study(STATES))
    assert "x0.329" in str(error.value)
    assert "x0.329" not in caplog.text
