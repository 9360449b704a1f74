"""Arms and truncated trajectories: the same statistics from every source and engine."""

import random

import numpy as np
import pyarrow as pa
import pytest

from conformance.test_engines import make_frame, pieces_of
from oracles import reading as local
from oracles.refusals import refused
from oracles.repeats import cross
from oracles.sources import TABLES, arrow
from oracles.studies import make_study

pytestmark = pytest.mark.xdist_group("spark")  # one session serves all

HEADING = ("person", "trajectory", "step", "state", "reward", "arm", "cut")
LABELS = ["control", "treated"]
CUTS = [5, 5, 40]


def build_study(*, unit="trajectory", values=None, **sections):
    privacy = {"unit": unit}
    if unit == "person":
        privacy["max_trajectories_per_person"] = 2
    data = {"person": "person", "trajectory": "trajectory"}
    data |= {"truncated": "cut", "truncated_rows": "keep"}
    return make_study(
        4,
        values=values or {},
        privacy=privacy,
        mechanism={"name": "dp-ssp", "calibration": "exact"},
        arms=sections.pop("arms", {"labels": LABELS}),
        data={**data, **sections.pop("data", {})},
        **sections,
    )


def rows(seed=7, persons=12):
    """Return unsorted rows: each person has one arm, and some trajectories are truncated."""
    rng = random.Random(seed)
    table = []
    for person in range(persons):
        arm = LABELS[rng.randrange(2)]
        for trajectory in range(rng.randrange(1, 4)):
            length, cut = rng.randrange(1, 6), rng.random() < 0.2
            for step in range(length):
                mark = int(cut and step + 1 == length)
                table.append((person, trajectory, step, rng.randrange(4), 0.25, arm, mark))
    rng.shuffle(table)
    return table


STUDIES = {
    "kept": build_study(),
    "persons": build_study(unit="person"),
    "dropped": build_study(data={"truncated_rows": "drop-unit"}),
    "persons dropped": build_study(unit="person", data={"truncated_rows": "drop-unit"}),
}


def twin(table, study):
    """Count with dictionaries; units with a mark are dropped if the study says so."""
    by_person = study.privacy.unit == "person"
    units = {}
    for person, trajectory, step, state, _, arm, cut in table:
        unit = units.setdefault(person if by_person else (person, trajectory), {})
        unit.setdefault(trajectory, []).append((step, state, arm, cut))
    counts, trajectories, dropped = np.zeros(8, dtype=int), 0, 0
    for unit in units.values():
        if study.data.truncated_rows == "drop-unit" and any(
            row[-1] for trajectory_rows in unit.values() for row in trajectory_rows
        ):
            dropped += 1
            continue
        for trajectory in sorted(unit)[: 2 if by_person else None]:
            trajectories += 1
            for arm, state in {(arm, state) for _, state, arm, _ in unit[trajectory]}:
                counts[LABELS.index(arm) * 4 + state] += 1
    return trajectories, dropped, counts.tolist()


@pytest.mark.parametrize(("kind", "name"), cross(TABLES, STUDIES))
def test_every_source_gives_the_same(kind, name, place):
    study, table = STUDIES[name], rows()
    result = local.statistics(TABLES[kind](place, HEADING, table), study)
    assert (result.trajectories, result.units_dropped, result.counts.tolist()) == twin(table, study)
    assert result == local.statistics(arrow(HEADING, table), study)


@pytest.mark.parametrize("name", ["persons", "persons dropped"])
def test_spark_gives_the_same(name, spark):
    study, table = STUDIES[name], arrow(HEADING, rows())
    result = local.statistics(make_frame(spark, pieces_of(table, CUTS)), study, engine="spark")
    assert result == local.statistics(table, study)


# Invalid rows


def small(*changes, unit="trajectory", **sections):
    """Return two persons with two trajectories each, with changed cells: (row, column, cell)."""
    cells = [
        [person, trajectory, step, step, 0.5, LABELS[person], 0]
        for person in (0, 1)
        for trajectory in (0, 1)
        for step in (0, 1)
    ]
    for row, column, cell in changes:
        cells[row][HEADING.index(column)] = cell
    return cells, build_study(unit=unit, **sections)


INVALID_CELLS = {
    "an unknown arm": (1, "arm", "placebo"),
    "a missing arm": (1, "arm", None),
    "an invalid mark": (1, "cut", 2),
    "a missing mark": (1, "cut", None),
    "a second arm": (1, "arm", "treated"),
}


@pytest.mark.parametrize("what", INVALID_CELLS)
@pytest.mark.parametrize("unit", ["trajectory", "person"])
def test_a_unit_with_an_invalid_cell_is_dropped(unit, what):
    cells, study = small(INVALID_CELLS[what], unit=unit, data={"invalid": "drop-unit"})
    result = local.statistics(arrow(HEADING, cells), study)
    assert result.units_dropped == 1
    assert result.trajectories == (3 if unit == "trajectory" else 2)


def test_a_persons_trajectories_have_one_arm():
    cells, study = small((2, "arm", "treated"), (3, "arm", "treated"), unit="person")
    with refused("rows-arm"):
        local.statistics(arrow(HEADING, cells), study)
    cells, study = small((2, "arm", "treated"), (3, "arm", "treated"))
    assert local.statistics(arrow(HEADING, cells), study).trajectories == 4


FORMS = [("true", "false"), ("True", "FALSE"), ("yes", "no"), ("YES", "No"), ("1", "0"), (1.0, 0.0)]


@pytest.mark.parametrize(("yes", "no"), [*FORMS, (True, False), (" 1 ", "0")])
def test_a_mark_may_be_a_number_or_a_word(yes, no):
    cells, study = small(data={"truncated_rows": "drop-unit"})
    marks = [yes if at == 3 else no for at in range(8)]
    table = arrow(HEADING, cells).set_column(6, "cut", pa.array(marks))
    result = local.statistics(table, study)
    assert (result.units_dropped, result.trajectories) == (1, 3)
