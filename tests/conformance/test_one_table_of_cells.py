"""One table of cells with their numbers: alone, among odd cells, and in every source.

This is the privacy rule itself: the number of a cell, or that it has none, depends on it alone.
"""

import sqlite3
from contextlib import closing
from unittest.mock import patch

import openpyxl
import pytest

import privalue as pv
from oracles import reading
from oracles.repeats import cross
from oracles.sources import STATES, TABLES, arrow
from oracles.studies import make_study
from privalue.readers import spark
from privalue.readers.cells import TEXT
from privalue.readers.rows import Encoder

INVALID = "invalid"  # or missing: the row's unit is dropped
NO_ID = "no id"  # an invalid id: the row is left out
MISSING = {".": ["", "NA", "-99", "-9.5"], ",": ["", "NA", "-99", "-9,5"]}
NUMBERS = {
    "0.5": 0.5, " 0.25 ": 0.25, "1": 1.0, "+.5": 0.5, "1e-3": 0.001, "TRUE": 1.0, "false": 0.0,
    "0.1": 0.1, "1e-400": 0.0, "00000000000000000000000000000000000000001": 1.0, "-0": 0.0,
    "": INVALID, " ": INVALID, "nan": INVALID, "inf": INVALID, "1e400": INVALID, "x": INVALID,
    "0x10": INVALID, "1_0": INVALID, "NA": INVALID, "-99": INVALID, "-99.0": INVALID,
    "-9.5": INVALID, "-9.50": INVALID, "-.95e1": INVALID, "-9,5": INVALID, "\u0661": INVALID,
    "1 2": INVALID, ".": INVALID,
}  # fmt: skip
WHOLE = {
    "0": 0, "3": 3, "1.0": 1, "2e0": 2, "01": 1, "true": 1, " 2": 2, "+1": 1, "0" * 500 + "3": 3,
    "-99": INVALID, "-99.0": INVALID, "NA": INVALID, "1.5": INVALID, "0x1": INVALID, "": INVALID,
    "one": INVALID, "1e-400": INVALID, "0.99999999999999999999": INVALID,
    "9223372036854775808": INVALID,
}  # fmt: skip
# (role, declaration): {text of the cell: its number}
CELLS = {
    ("reward", "number"): NUMBERS | {"123456789012345678901234": 1.2345678901234568e23, "-3": -3.0},
    ("probability", "number"): NUMBERS | {"1.5": INVALID, "-0.1": INVALID, "1.0000": 1.0},
    ("x", "bin"): {cell: value if value == INVALID else int(value >= 0.25) + int(value >= 1)
                   for cell, value in NUMBERS.items()} | {"7": 2, "-3": 0},
    ("step", "number"): NUMBERS | {"-3": -3.0, "1e300": 1e300},
    # A state is read as a double: what is nearest to a whole number is that number.
    ("state", "count"): WHOLE
    | {"4": INVALID, "-1": INVALID, "1e-400": 0, "0.99999999999999999999": 1, "nan": INVALID},
    ("step", "integer"): WHOLE | {"-7": -7, "9223372036854775807": 2**63 - 1, "1e5": 100_000},
    ("step", "date"): {
        "2026-01-02": 20455, "0001-01-01": -719162, "9999-12-31": 2932896, "20260102": 20455,
        "2026-01-02T00:00:00Z": 20455, "2026-01-02T08:30": INVALID, "2026-13-01": INVALID,
        "02.01.2026": INVALID, "": INVALID, "7": INVALID, "NA": INVALID,
    },
    ("step", "datetime"): {
        "1970-01-01T00:00:01": 10**6, "1970-01-01T01:00:00+01:00": 0,
        "1970-01-01T00:00:00.000001": 1, "1970-01-01T00:00:00.0000001": INVALID, "x": INVALID,
    },
    ("trajectory", "text"): {
        "7": [7], "-7": [-7], "0": [0], "999999999999999999": [10**18 - 1], "-99": [-99],
        "007": [TEXT, 0x31313800000000], "-0": [TEXT, 0x2E310000000000], "a": [TEXT, 0x62 << 48],
        "7.0": [TEXT, 0x382F3100000000], " 7": [TEXT, 0x21380000000000],
        "\xe9": [TEXT, 0xC4AA << 40],
        "": NO_ID, "  ": NO_ID, "x" * 256: NO_ID,
    },
    ("trajectory", "integer"): {
        "7": [7], "007": [7], "7.0": [7], " 7": [7], "1e3": [1000], "x": NO_ID, "7.5": NO_ID,
        "": NO_ID, "9223372036854775808": NO_ID,
    },
}  # fmt: skip
WITH_COMMA = {("reward", "number"), ("probability", "number"), ("x", "bin"), ("step", "number"),
              ("state", "count"), ("step", "integer")}  # fmt: skip
CASES = [(*case, ".") for case in CELLS] + [(*case, ",") for case in sorted(WITH_COMMA)]
GOOD = {"reward": "1", "state": "1", "trajectory": "1", "probability": "1", "action": "0", "x": "1"}
STEPS = {"date": "2026-01-01", "datetime": "2026-01-01"}
COMMAS = str.maketrans(".,", ",.")


def table_of(role, kind, decimal):
    """Return the cells of a case; with a decimal comma, commas take the place of points."""
    cells = CELLS[role, kind]
    return cells if decimal == "." else {cell.translate(COMMAS): v for cell, v in cells.items()}


def build_study(role, kind, decimal):
    data = {"invalid": "drop-unit", "missing": MISSING[decimal], "decimal": decimal}
    data |= {"step": {"step_type": kind}, "trajectory": {"id_type": kind}}.get(role, {})
    if role == "x":
        return make_study(states={"bins": {"x": [0.25, 1]}}, data=data)
    if role == "probability":
        rows = {str(state): {"0": 0.5, "1": 0.5} for state in range(STATES)}
        policy = {"target": rows, "behaviour": "column", "clip": 2.0}
        return pv.Study(
            states=[str(state) for state in range(STATES)], actions=["0", "1"], discount=0.9,
            returns=(0.0, 3.0), rewards=(0.0, 1.0), epsilon=1.0, unit="trajectory", policy=policy,
            mechanism="dp-ope", invalid="drop-unit", missing=MISSING[decimal], decimal=decimal,
        )  # fmt: skip
    return make_study(STATES, data=data)


def as_sqlite(place, heading, rows):
    """Write columns without types; with types, SQLite would convert texts to numbers."""
    path = place.fresh(".sqlite")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"CREATE TABLE rows ({', '.join(heading)})")
        marks = ", ".join("?" for _ in heading)
        connection.executemany(f"INSERT INTO rows VALUES ({marks})", rows)
    return path


def as_workbook(place, heading, rows):
    book = openpyxl.Workbook()
    for row in (heading, *rows):
        book.active.append(row)
    for row in book.active.iter_rows():
        for cell in row:
            cell.data_type = "s"
    path = place.fresh(".xlsx")
    book.save(path)
    return path


def as_recording(place, heading, rows):
    """Every row is an episode of its own."""
    _, _, states, rewards = zip(*rows, strict=True)
    return {"observations": states, "rewards": rewards, "terminals": [1] * len(rows)}


SOURCES = {**TABLES, "sqlite": as_sqlite, "xlsx": as_workbook, "spark": None}
EPISODES = {"episodes": lambda *table: [[row[2:]] for row in table[-1]], "recording": as_recording}


def encode(source, place, heading, rows, study):
    """Yield the rows as numbers; with Spark, as its tasks read them."""
    if source != "spark":
        yield from reading.encode((SOURCES | EPISODES)[source](place, heading, rows), study)
        return
    declaration = reading.declaration(study)
    batches = iter(arrow(heading, rows).select(list(declaration.columns.values())).to_batches(7))
    with patch.object(spark, "partition_id", lambda: 0):
        yield from map(Encoder(declaration), spark.read_frame(batches, declaration))


def read(source, place, case, cells):
    """Return the number of each cell, in a table of one row for each, with good other cells."""
    role, kind, _ = case
    study = build_study(*case)
    declaration = reading.declaration(study)
    good = {**GOOD, "step": STEPS.get(kind, "0")}
    heading = tuple(declaration.columns.values())
    rows = [tuple({**good, role: cell}[name] for name in heading) for cell in cells]
    results = []
    for part in encode(source, place, heading, rows, study):
        for at in range(len(part)):
            if part.keys[at] == study.key_count:
                results.append(INVALID)
                continue
            number = [int(word) for word in part.ids[at, 0]]
            while len(number) > 1 and number[-1] == 0:
                number.pop()
            values = {"trajectory": number, "step": step_of(part.steps[at], kind)}
            values |= {
                "state": part.keys[at],
                "x": part.keys[at],
                "reward": float(part.rewards[at]),
            }
            if role == "probability":
                values[role] = part.probabilities[at]
            results.append(values[role])
    return results


def step_of(step, kind):
    """Return a step as a number; doubles are encoded as integers in the same order."""
    if kind != "number":
        return int(step)
    return float((step ^ ((step >> 63) & (2**63 - 1))).view(float))


def with_ids(values):
    return [value for value in values if value != NO_ID]


IN_EPISODES = [(kind, c) for kind in EPISODES for c in CASES if c[0] in {"state", "reward"}]


@pytest.mark.parametrize(("source", "case"), [*cross(SOURCES, CASES), *IN_EPISODES])
def test_a_cell_is_the_same_among_odd_ones_in_every_source(source, case, place):
    table = table_of(*case)
    assert read(source, place, case, list(table)) == with_ids(table.values())
    many = [cell for cell in table for _ in range(9)]  # more than are read in Python at once
    assert read(source, place, case, many) == with_ids(v for v in table.values() for _ in range(9))


@pytest.mark.parametrize("case", CASES, ids=" ".join)
@pytest.mark.parametrize("source", ["csv", "arrow", "list of dicts"])
def test_a_cell_is_the_same_alone_and_among_plain_ones(source, case, place):
    """Plain cells are cast all at once; an odd cell among them must give the same number."""
    role, kind, _ = case
    plain = {**GOOD, "step": STEPS.get(kind, "0")}[role]
    for cell, value in table_of(*case).items():
        assert read(source, place, case, [cell]) == with_ids([value]), cell
        (expected,) = read(source, place, case, [plain])
        beside = read(source, place, case, [plain] * 40 + [cell] + [plain] * 40)
        assert beside == with_ids([*[expected] * 40, value, *[expected] * 40]), cell
