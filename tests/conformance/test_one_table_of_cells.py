"""One table of cells: what each is, by its declaration; alone, among odd ones, in every source.

This is the privacy rule itself: a number, or the lack of one, follows from its own cell.
"""

import pytest

from oracles.reading import encoded
from oracles.sources import HEADING, STATES, TABLES
from oracles.studies import study
from privalue.readers.cells import TEXT

INVALID = "invalid"  # or missing: the row's unit is left out
NOBODY = "nobody"  # an id that cannot be read
# (role, declaration): {cell as it is written: what it is}
CELLS = {
    ("reward", "number"): {
        "0.5": 0.5, " 0.25 ": 0.25, "1": 1.0, "+.5": 0.5, "1e-3": 0.001, "TRUE": 1.0, "false": 0.0,
        "0.1": 0.1, "123456789012345678901234": 1.2345678901234568e23, "1e-400": 0.0,
        "": INVALID, " ": INVALID, "nan": INVALID, "inf": INVALID, "1e400": INVALID, "x": INVALID,
        "0x10": INVALID, "1_0": INVALID, "1,5": INVALID, "NA": INVALID, "-99": INVALID,
        "\u0661": INVALID, "1 2": INVALID, ".": INVALID,
    },
    ("state", "count"): {
        "0": 0, "3": 3, "1.0": 1, "2e0": 2, "01": 1, "true": 1, " 2": 2, "+1": 1,
        "4": INVALID, "-1": INVALID, "1.5": INVALID, "0x1": INVALID, "": INVALID, "one": INVALID,
        "0.99999999999999999999": INVALID, "9223372036854775808": INVALID, "NA": INVALID,
    },
    ("step", "integer"): {
        "0": 0, "-7": -7, "9223372036854775807": 2**63 - 1, "1e5": 100_000, "-0": 0, "3.0": 3,
        "9223372036854775808": INVALID, "1.5": INVALID, "noon": INVALID, "": INVALID,
    },
    ("step", "date"): {
        "2026-01-02": 20455, "0001-01-01": -719162, "9999-12-31": 2932896, "20260102": 20455,
        "2026-01-02T00:00:00Z": 20455, "2026-01-02T08:30": INVALID, "2026-13-01": INVALID,
        "02.01.2026": INVALID, "": INVALID, "7": INVALID,
    },
    ("step", "datetime"): {
        "1970-01-01T00:00:01": 10**6, "1970-01-01T01:00:00+01:00": 0,
        "1970-01-01T00:00:00.000001": 1, "1970-01-01T00:00:00.0000001": INVALID, "x": INVALID,
    },
    ("trajectory", "text"): {
        "7": [7], "-7": [-7], "0": [0], "999999999999999999": [10**18 - 1],
        "007": [TEXT, 0x31313800000000], "-0": [TEXT, 0x2E310000000000], "a": [TEXT, 0x62 << 48],
        "7.0": [TEXT, 0x382F3100000000], " 7": [TEXT, 0x21380000000000],
        "\xe9": [TEXT, 0xC4AA << 40],
        "": NOBODY, "  ": NOBODY, "x" * 256: NOBODY,
    },
    ("trajectory", "integer"): {
        "7": [7], "007": [7], "7.0": [7], " 7": [7], "1e3": [1000], "x": NOBODY, "7.5": NOBODY,
        "": NOBODY, "9223372036854775808": NOBODY,
    },
}  # fmt: skip
GOOD = {"reward": "0.5", "state": "1", "trajectory": "1"}
STEPS = {"date": "2026-01-01", "datetime": "2026-01-01"}
# SQLite itself makes numbers of texts, in a column that is declared to hold numbers.
SOURCES = {name: make for name, make in TABLES.items() if name != "sqlite"}


def described(role, kind):
    declared = {"invalid": "drop-unit", "missing": ["", "NA", "-99"]}
    declared |= {"step": {"step_type": kind}, "trajectory": {"id_type": kind}}.get(role, {})
    return study(STATES, data=declared)


def read(source, place, role, kind, cells):
    """What each cell is, in a table of one row for each, whose other cells are good ones."""
    good = {**GOOD, "step": STEPS.get(kind, "0")}
    rows = [tuple({**good, role: cell}[name] for name in HEADING) for cell in cells]
    found = []
    for part in encoded(SOURCES[source](place, HEADING, rows), described(role, kind)):
        for ids, step, key, reward in zip(*part.columns, strict=True):
            number = [int(word) for word in ids[0]]
            while len(number) > 1 and number[-1] == 0:
                number.pop()
            values = {"trajectory": number, "step": int(step), "state": int(key)}
            value = {**values, "reward": float(reward)}[role]
            found.append(INVALID if key == STATES else value)
    return found


@pytest.mark.parametrize(("role", "kind"), CELLS)
@pytest.mark.parametrize("source", SOURCES)
def test_a_cell_is_what_it_is_alone_and_among_odd_ones(source, role, kind, place):
    table = CELLS[role, kind]
    kept = [value for value in table.values() if value != NOBODY]
    assert read(source, place, role, kind, list(table)) == kept
    many = [cell for cell in table for _ in range(9)]  # more than are read in Python at once
    assert read(source, place, role, kind, many) == [v for v in kept for _ in range(9)]
    alone = list(table) if source in {"csv", "pandas", "list of dicts"} else list(table)[::4]
    for cell in alone:
        expected = [] if table[cell] == NOBODY else [table[cell]]
        assert read(source, place, role, kind, [cell]) == expected, cell
