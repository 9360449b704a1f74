"""Mistakes planted in the batches that a reader passes to the core, which refuses every one.

The batches of a real reader are recorded, changed, and passed to the core again. Unchanged, they
give the same statistics as in the reader's own run.
"""

import random

import pyarrow as pa
import pytest

from conformance.test_engines import in_order, pieces_of, simulate
from oracles import boundary
from oracles import reading as local
from oracles.repeats import cross
from oracles.sources import HEADING, SOURCES, TABLES
from oracles.studies import make_study, rows_of
from privalue.errors import BoundaryError

STATES = 4
DRAW = random.Random(3)
EPISODES = [
    [(DRAW.randrange(3), DRAW.randrange(9) / 8) for _ in range(DRAW.randrange(1, 9))]
    for _ in range(25)
]
ROWS = rows_of(EPISODES)
SHUFFLED = DRAW.sample(ROWS, len(ROWS))
DROPPING = {"data": {"invalid": "drop-unit"}}
PERSONS = {"unit": "person", "max_trajectories_per_person": 2}
BOTH = {"person": "person", "trajectory": "trajectory"}


@pytest.fixture
def small_batches(monkeypatch):
    for module in ("source", "tables", "episodes", "databases.duckdb", "databases.cursor"):
        monkeypatch.setattr(f"privalue.readers.{module}.BATCH_ROWS", 7)
    monkeypatch.setattr("privalue.readers.files.READ_ROWS", 20)
    monkeypatch.setattr("privalue.readers.csv.BLOCK_BYTES", 100)


def assert_refused(batches, statistics, limits):
    assert len(batches) > 1
    assert boundary.handed_over(batches, limits) == statistics
    for mistake, (plant, reasons) in boundary.MISTAKES.items():
        with pytest.raises(BoundaryError) as caught:
            boundary.handed_over(plant(batches, limits), limits)
        assert caught.value.reason in reasons, mistake


ORDERS = [(kind, "in order") for kind in SOURCES] + [(kind, "in any order") for kind in TABLES]
STUDIES = {"refusing": make_study(STATES), "dropping": make_study(STATES, **DROPPING)}


@pytest.mark.parametrize(("source", "invalid"), cross(ORDERS, STUDIES))
def test_mistakes_in_sources_are_refused(source, invalid, place, small_batches, monkeypatch):
    (kind, order), study = source, STUDIES[invalid]
    rows = ROWS if order == "in order" else SHUFFLED
    data = SOURCES[kind](place, HEADING, rows)
    batches = boundary.recording(monkeypatch)
    result = local.statistics(data, study)
    if order == "in any order":  # without those of the first attempt, in order
        batches = [batch for batch in batches if batch.span != (0, 2**32)]
    monkeypatch.undo()
    assert result.trajectories == len(EPISODES)
    assert_refused(batches, result, study.limits)


def persons():
    rows = [(t % 7, t // 7, *others) for t, *others in SHUFFLED]
    columns = map(list, zip(*rows, strict=True))
    return pa.table(dict(zip(("person", *HEADING), columns, strict=True)))


@pytest.mark.parametrize("privacy", [{}, PERSONS], ids=["trajectories", "persons"])
def test_mistakes_in_batches_of_spark_are_refused(privacy, monkeypatch):
    table, study = persons(), make_study(STATES, privacy=privacy, data=BOTH)
    expected = local.statistics(table, study)
    batches = boundary.recording(monkeypatch)
    result = simulate(pieces_of(table, [40, 80]), study)
    monkeypatch.undo()
    assert result == expected
    assert_refused(batches, result, study.limits)


@pytest.mark.parametrize("way", ["in order", "in any order"])
def test_mistakes_in_persons_are_refused(way, small_batches, monkeypatch):
    study = make_study(STATES, privacy=PERSONS, data=BOTH)
    table = persons() if way == "in any order" else in_order(persons(), study)
    batches = boundary.recording(monkeypatch)
    result = local.statistics(table, study)
    if way == "in any order":
        batches = [batch for batch in batches if batch.span != (0, 2**32)]
    monkeypatch.undo()
    assert_refused(batches, result, study.limits)
