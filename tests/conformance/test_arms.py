"""Arms and trajectories that were cut off: the same in every source and by every engine."""

import random

import numpy as np
import pyarrow as pa
import pytest

import privalue as pv
from conformance.test_engines import framed, in_order, pieces_of
from oracles import reading as local
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
    data = {"person": "person", "trajectory": "trajectory", "truncated": "cut"}
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
            made += [
                (
                    person,
                    trajectory,
                    step,
                    rng.randrange(4),
                    0.25,
                    arm,
                    int(cut and step + 1 == length),
                )
                for step in range(length)
            ]
    rng.shuffle(made)
    return made


def numbers(found):
    return (
        *(found.trajectories, found.persons, found.units_dropped),
        *(found.counts.tolist(), found.return_steps.tolist()),
    )


STUDIES = {
    "kept": described(),
    "persons": described(unit="person"),
    "dropped": described(values={"truncated": "drop-unit"}),
    "persons dropped": described(unit="person", values={"truncated": "drop-unit"}),
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
        if chosen.drops_cut and any(row[-1] for owned in unit.values() for row in owned):
            dropped += 1
            continue
        for trajectory in sorted(unit)[: 2 if by_person else None]:
            counted += 1
            for arm, state in {(arm, state) for _, state, arm, _ in unit[trajectory]}:
                counts[LABELS.index(arm) * 4 + state] += 1
    return counted, dropped, counts.tolist()


@pytest.mark.parametrize("name", STUDIES)
@pytest.mark.parametrize("kind", TABLES)
def test_every_source_gives_the_same(kind, name, place):
    chosen, made = STUDIES[name], rows()
    found = local.statistics(TABLES[kind](place, HEADING, made), chosen)
    assert (found.trajectories, found.units_dropped, found.counts.tolist()) == twin(made, chosen)
    assert numbers(found) == numbers(local.statistics(arrow(HEADING, made), chosen))


@pytest.mark.parametrize("name", STUDIES)
def test_rows_in_order_give_the_same(name):
    chosen, table = STUDIES[name], arrow(HEADING, rows())
    ordered = in_order(table, chosen)
    declared = chosen.replace(sorted=True)
    expected = numbers(local.statistics(table, chosen))
    assert numbers(local.statistics(ordered, declared)) == expected
    assert numbers(local.statistics(ordered, chosen)) == expected


@pytest.mark.parametrize("name", ["persons", "persons dropped"])
def test_spark_gives_the_same(name, spark):
    chosen, table = STUDIES[name], arrow(HEADING, rows())
    expected = numbers(local.statistics(table, chosen))
    assert (
        numbers(local.statistics(framed(spark, pieces_of(table, CUTS)), chosen, engine="spark"))
        == expected
    )


def test_spark_tells_of_two_arms_as_the_local_engine_does(spark):
    chosen = described(arms={"labels": LABELS})
    table = arrow(HEADING, rows())
    first = next(at for at in range(1, 60) if table["trajectory"][at].as_py() == 0)
    cells = table["arm"].to_pylist()
    same = (table["person"].to_pylist(), table["trajectory"].to_pylist())
    whose = (same[0][first], same[1][first])
    other = [at for at in range(table.num_rows) if (same[0][at], same[1][at]) == whose]
    if len(other) == 1:
        cells += [LABELS[1 - LABELS.index(cells[first])]]
        more = table.slice(first, 1).set_column(2, "step", pa.array([99]))
        table = pa.concat_tables([table, more])
    else:
        cells[other[-1]] = LABELS[1 - LABELS.index(cells[first])]
    table = table.set_column(5, "arm", pa.array(cells))
    with pytest.raises(pv.DataError, match="which has") as here:
        local.statistics(table, chosen)
    with pytest.raises(pv.DataError, match="which has") as there:
        local.statistics(framed(spark, pieces_of(table, CUTS)), chosen, engine="spark")
    begin = "an arm is the same in all rows of a trajectory"
    assert begin in str(here.value)
    assert begin in str(there.value)


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
    "an unknown arm": (
        (1, "arm", "placebo"),
        "arm = 'placebo' is not one of the arms: 'control', 'treated'",
    ),
    "a missing arm": ((1, "arm", None), "arm is missing; every row needs one"),
    "a mark that says nothing": ((1, "cut", 2), "cut = '?2'? must be true, yes or 1 if"),
    "a missing mark": ((1, "cut", None), "cut is missing; every row needs one"),
    "a second arm": (
        (1, "arm", "treated"),
        "arm = 'treated' in trajectory '0', which has 'control' in",
    ),
}


@pytest.mark.parametrize("what", WRONG)
@pytest.mark.parametrize("kind", ["csv", "parquet", "sqlite", "pandas"])
def test_an_invalid_row_is_refused_with_its_place(kind, what, place):
    change, words = WRONG[what]
    cells, chosen = small(change)
    with pytest.raises(pv.DataError, match=words) as problem:
        local.statistics(TABLES[kind](place, HEADING, cells), chosen)
    assert any(place in str(problem.value) for place in ("row 2: ", "line 3: "))


@pytest.mark.parametrize("what", WRONG)
@pytest.mark.parametrize("unit", ["trajectory", "person"])
def test_or_its_unit_counts_as_nobody(unit, what):
    change, _ = WRONG[what]
    cells, chosen = small(change, unit=unit, data={"invalid": "drop-unit"})
    found = local.statistics(arrow(HEADING, cells), chosen)
    assert found.units_dropped == 1
    assert found.trajectories == (3 if unit == "trajectory" else 2)


def test_a_persons_trajectories_have_one_arm():
    cells, chosen = small((2, "arm", "treated"), (3, "arm", "treated"), unit="person")
    with pytest.raises(
        pv.DataError, match=r"row 3: arm = 'treated' in person '0', which has"
    ) as told:
        local.statistics(arrow(HEADING, cells), chosen)
    assert "an arm is the same in all rows of a person" in str(told.value)
    cells, chosen = small((2, "arm", "treated"), (3, "arm", "treated"))
    assert local.statistics(arrow(HEADING, cells), chosen).trajectories == 4


def test_of_several_mistakes_the_first_in_the_source_is_told():
    """A duplicate and a second arm, either first; rows in any order."""
    for changes, words in (
        ([(1, "arm", "treated"), (5, "step", 0)], "row 2: arm = 'treated'"),
        ([(1, "step", 0), (5, "arm", "control")], "row 2: step = 0 appears twice"),
    ):
        cells, chosen = small(*changes)
        with pytest.raises(pv.DataError, match=words):
            local.statistics(arrow(HEADING, cells), chosen)


FORMS = [("true", "false"), ("True", "FALSE"), ("yes", "no"), ("YES", "No"), ("1", "0"), (1.0, 0.0)]


@pytest.mark.parametrize(("yes", "no"), [*FORMS, (True, False), (" 1 ", "0")])
def test_a_mark_is_written_in_these_ways(yes, no):
    cells, chosen = small(values={"truncated": "drop-unit"})
    marks = [yes if at == 3 else no for at in range(8)]
    table = arrow(HEADING, cells).set_column(6, "cut", pa.array(marks))
    found = local.statistics(table, chosen)
    assert (found.units_dropped, found.trajectories) == (1, 3)


@pytest.mark.parametrize("text", ["2", "y", "t", "cut", "yess", "1.0", "-1"])
def test_and_in_no_other(text):
    cells, chosen = small()
    marks = [text, *["0"] * 7]
    table = arrow(HEADING, cells).set_column(6, "cut", pa.array(marks))
    with pytest.raises(pv.DataError, match="row 1: cut = "):
        local.statistics(table, chosen)


def test_episodes_name_arms_and_marks_step_by_step():
    chosen = study(
        2,
        mechanism={"name": "dp-ssp", "calibration": "exact"},
        arms={"labels": [0, 1]},
        values={"truncated": "drop-unit"},
        data={"truncated": "cut"},
    )
    episodes = [[(0, 0.0, 0, False), (1, 1.0, 0, True)], [(1, 1.0, 1, False)]]
    found = local.statistics(episodes, chosen)
    assert (found.counts.tolist(), found.units_dropped) == ([0, 0, 0, 1], 1)
    with pytest.raises(pv.DataError, match=r"at least one \(state, reward, arm, truncated\)"):
        local.statistics([[(0, 0.0)]], chosen)


def test_a_table_without_the_column_says_which_one_to_name():
    cells, chosen = small()
    table = arrow(HEADING, cells).rename_columns([*HEADING[:5], "treatment_arm", "cut"])
    with pytest.raises(pv.DataError, match=r"set \[arms\] column = \"treatment_arm\""):
        local.statistics(table, chosen)


def test_recordings_have_no_arms(tmp_path):
    from oracles.sources import minari_dataset

    dataset = minari_dataset(tmp_path, [[(0, 1.0)]], "hdf5")
    chosen = study(4, mechanism={"name": "dp-ssp", "calibration": "exact"}, arms={"labels": LABELS})
    with pytest.raises(pv.DataError, match="has no column 'arm'"):
        local.statistics(dataset, chosen)


def test_a_unit_that_is_left_out_is_not_blamed_for_its_arms():
    """Rows in no order; the first person was cut off, the second one changes arms."""
    described = pv.Study(
        epsilon=1.0,
        delta=1e-6,
        unit="trajectory",
        discount=0.9,
        rewards=(0.0, 1.0),
        truncated="drop-unit",
        states=["a", "b"],
        arms=["x", "y"],
        columns={"truncated": "cut", "arm": "arm"},
    )
    rows = {
        "trajectory": [2, 1, 2, 1],
        "step": [1, 1, 0, 0],
        "state": ["a", "b", "a", "a"],
        "reward": [1.0, 1.0, 1.0, 1.0],
        "arm": ["y", "x", "x", "x"],
        "cut": ["no", "yes", "no", "no"],
    }
    with pytest.raises(pv.DataError, match=r"trajectory '?2'?"):
        pv.inspect(described, pa.table(rows))
