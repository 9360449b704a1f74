"""Arms and trajectories that were cut off: the same in every source and by every engine."""

import random

import numpy as np
import pyarrow as pa
import pytest

from conformance.test_engines import framed, pieces_of
from oracles import reading as local
from oracles.refusals import refused
from oracles.repeats import crossed
from oracles.sources import TABLES, arrow
from oracles.studies import study

pytestmark = pytest.mark.xdist_group("spark")  # one session serves all

HEADING = ("person", "trajectory", "step", "state", "reward", "arm", "cut")
LABELS = ["control", "treated"]
CUTS = [5, 5, 40]


def described(*, unit="trajectory", values=None, **sections):
    privacy = {"unit": unit}
    if unit == "person":
        privacy["max_trajectories_per_person"] = 2
    data = {"person": "person", "trajectory": "trajectory"}
    data |= {"truncated": "cut", "truncated_rows": "keep"}
    return study(
        4,
        values=values or {},
        privacy=privacy,
        mechanism={"name": "dp-ssp", "calibration": "exact"},
        arms=sections.pop("arms", {"labels": LABELS}),
        data={**data, **sections.pop("data", {})},
        **sections,
    )


def rows(seed=7, persons=12):
    """Rows in no order: each person has one arm, and some are cut off in one trajectory."""
    rng = random.Random(seed)
    made = []
    for person in range(persons):
        arm = LABELS[rng.randrange(2)]
        for trajectory in range(rng.randrange(1, 4)):
            length, cut = rng.randrange(1, 6), rng.random() < 0.2
            for step in range(length):
                mark = int(cut and step + 1 == length)
                made.append((person, trajectory, step, rng.randrange(4), 0.25, arm, mark))
    rng.shuffle(made)
    return made


STUDIES = {
    "kept": described(),
    "persons": described(unit="person"),
    "dropped": described(data={"truncated_rows": "drop-unit"}),
    "persons dropped": described(unit="person", data={"truncated_rows": "drop-unit"}),
}


def twin(made, chosen):
    """Units by hand: those with a mark are left out where the study says so."""
    by_person = chosen.privacy.unit == "person"
    units = {}
    for person, trajectory, step, state, _, arm, cut in made:
        unit = units.setdefault(person if by_person else (person, trajectory), {})
        unit.setdefault(trajectory, []).append((step, state, arm, cut))
    counts, counted, dropped = np.zeros(8, dtype=int), 0, 0
    for unit in units.values():
        if chosen.data.truncated_rows == "drop-unit" and any(
            row[-1] for owned in unit.values() for row in owned
        ):
            dropped += 1
            continue
        for trajectory in sorted(unit)[: 2 if by_person else None]:
            counted += 1
            for arm, state in {(arm, state) for _, state, arm, _ in unit[trajectory]}:
                counts[LABELS.index(arm) * 4 + state] += 1
    return counted, dropped, counts.tolist()


@pytest.mark.parametrize(("kind", "name"), crossed(TABLES, STUDIES))
def test_every_source_gives_the_same(kind, name, place):
    chosen, made = STUDIES[name], rows()
    found = local.statistics(TABLES[kind](place, HEADING, made), chosen)
    assert (found.trajectories, found.units_dropped, found.counts.tolist()) == twin(made, chosen)
    assert found == local.statistics(arrow(HEADING, made), chosen)


@pytest.mark.parametrize("name", ["persons", "persons dropped"])
def test_spark_gives_the_same(name, spark):
    chosen, table = STUDIES[name], arrow(HEADING, rows())
    found = local.statistics(framed(spark, pieces_of(table, CUTS)), chosen, engine="spark")
    assert found == local.statistics(table, chosen)


# What is refused, and what is dropped instead


def small(*changes, unit="trajectory", **sections):
    """Two persons with two trajectories each, and changed cells: (row, column, cell)."""
    cells = [
        [person, trajectory, step, step, 0.5, LABELS[person], 0]
        for person in (0, 1)
        for trajectory in (0, 1)
        for step in (0, 1)
    ]
    for row, column, cell in changes:
        cells[row][HEADING.index(column)] = cell
    return cells, described(unit=unit, **sections)


WRONG = {
    "an unknown arm": (1, "arm", "placebo"),
    "a missing arm": (1, "arm", None),
    "a mark that says nothing": (1, "cut", 2),
    "a missing mark": (1, "cut", None),
    "a second arm": (1, "arm", "treated"),
}


@pytest.mark.parametrize("what", WRONG)
@pytest.mark.parametrize("unit", ["trajectory", "person"])
def test_a_unit_with_an_invalid_cell_is_left_out(unit, what):
    cells, chosen = small(WRONG[what], unit=unit, data={"invalid": "drop-unit"})
    found = local.statistics(arrow(HEADING, cells), chosen)
    assert found.units_dropped == 1
    assert found.trajectories == (3 if unit == "trajectory" else 2)


def test_a_persons_trajectories_have_one_arm():
    cells, chosen = small((2, "arm", "treated"), (3, "arm", "treated"), unit="person")
    with refused("rows-arm"):
        local.statistics(arrow(HEADING, cells), chosen)
    cells, chosen = small((2, "arm", "treated"), (3, "arm", "treated"))
    assert local.statistics(arrow(HEADING, cells), chosen).trajectories == 4


FORMS = [("true", "false"), ("True", "FALSE"), ("yes", "no"), ("YES", "No"), ("1", "0"), (1.0, 0.0)]


@pytest.mark.parametrize(("yes", "no"), [*FORMS, (True, False), (" 1 ", "0")])
def test_a_mark_is_written_in_these_ways(yes, no):
    cells, chosen = small(data={"truncated_rows": "drop-unit"})
    marks = [yes if at == 3 else no for at in range(8)]
    table = arrow(HEADING, cells).set_column(6, "cut", pa.array(marks))
    found = local.statistics(table, chosen)
    assert (found.units_dropped, found.trajectories) == (1, 3)
