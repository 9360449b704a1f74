"""A block of plain lines is read in one pass, and every other block as before: with one result."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from oracles.studies import in_sections
from privalue.errors import PrivalueError
from privalue.readers._csv_files import csv_chunks, open_csv
from privalue.readers._encode import Encoder
from privalue.readers._plain_lines import PlainLines
from privalue.readers._rules import RowRules

PRIVACY = {"epsilon": 1.0, "delta": 1e-6, "unit": "trajectory"}
LABELS = ["ill", "better", "stage 2", "größer", "7", "x"]
HEADING = "note;trajectory;step;state;reward\n"


def rules_of(**data) -> RowRules:
    """The rules of a study with labels, or with 50 states where ``labels`` is false."""
    labelled = data.pop("labels", True)
    states = {"labels": LABELS} if labelled else {"count": 50}
    return RowRules.of(
        in_sections(
            privacy=PRIVACY,
            values={"discount": 0.9, "rewards": (-2.0, 2.0)},
            states=states,
            data={**data},
        )
    )


def both_ways(path, rules):
    """What the file comes to with the quick way and without it: rows, or the error."""
    found = []
    opened = open_csv(path, rules)
    assert opened.plain is not None
    for file in (opened, opened._replace(plain=None)):
        try:
            rows = [Encoder(rules).encode(chunk) for chunk in csv_chunks(file)]
            found.append(
                [[column.tolist() for column in one.columns] + [one.left_out] for one in rows]
            )
        except PrivalueError as problem:
            found.append(str(problem))
    return found


def is_plain(path, rules) -> bool:
    """Whether the quick way takes the whole file."""
    text = path.read_bytes()
    file = open_csv(path, rules)
    return file.plain.read(np.frombuffer(text, np.uint8)[file.heading.size :]) is not None


ID = st.sampled_from(
    ["1", "-3", "007", "-0", "0", "+4", "P12", " 5", "", "9" * 18, "9" * 19, "1.0"]
)
STEP = st.sampled_from(["0", "1", "-2", "+3", "04", "1e2", "2.0", " 6", "x", "", "9" * 18])
STATE = st.sampled_from([*LABELS, " ill", "ill ", "ILL", "", "stage  2", "3", "-1", "-0", "50"])
REWARD = st.one_of(
    st.sampled_from(
        ["1", ".5", "5.", "-.25", "+1", "1e-3", "-1E+2", "1e", "e5", ".", "-", "", "nan", "inf",
         "0.1234567890123456789", "12345678901234567890", "1,5", "1.2.3", " 1", "true", "1e400"]
    ),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
)  # fmt: skip
NOTE = st.sampled_from(["", "a", "a b", "ä", '"q"', "don't", "\t", "\x00", "12"])
PLAIN = st.tuples(
    st.just("a"), st.just("1"), st.integers(0, 99).map(str), st.just("7"), st.just("0.5")
)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.one_of(PLAIN, st.tuples(NOTE, ID, STEP, STATE, REWARD)), min_size=1, max_size=6),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["text", "integer"]),
    st.sampled_from(["refuse", "drop-unit"]),
    st.booleans(),
)
@example([("a", "1", "0", "x", "0.1234567890123456789")], "\n", True, True, "text", "refuse", True)
@example([("a", "1", "0", "50", "0")], "\n", True, True, "text", "refuse", False)
@example([("a", "1", "0", "-1", "0")], "\n", True, True, "text", "refuse", False)
@example([("a", "1", "0", "1", "1e400")], "\n", True, True, "text", "refuse", False)
def test_both_ways_give_the_same_rows(
    tmp_path_factory, lines, end, last, blank, id_type, invalid, labels
):
    """Whatever cells there are, quoted, padded, long or wrong; errors included."""
    path = tmp_path_factory.mktemp("both") / "rows.csv"
    text = end.join(";".join(cells) for cells in lines) + (end if last else "")
    path.write_bytes((HEADING + (end if blank else "") + text).encode())
    quick, usual = both_ways(path, rules_of(id_type=id_type, invalid=invalid, labels=labels))
    assert quick == usual


@pytest.mark.parametrize(
    ("cells", "plain"),
    [
        ("a;12;0;stage 2;0.25", True),
        ("a;-12;-1;größer;-1e-05", True),
        (";12;+7;x;0.12345678901234567", True),
        ("a;012;0;x;1", False),
        ("a;12;0;x;1 ", False),
        ("a;12;0; x;1", False),
        ("ä;12;0;x;1", False),
        ('"a";12;0;x;1', False),
        ("a;12;0;x", False),
        ("a;12;0;x;1;2", False),
        ("a;12;0;y;1", False),
        ("a;P1;0;x;1", False),
        ("a;12;0;x;nan", False),
    ],
)
def test_what_is_plain(tmp_path, cells, plain):
    """The quick way takes usual cells, and leaves every other block alone."""
    path = tmp_path / "rows.csv"
    path.write_text(f"{HEADING}{cells}\n", encoding="utf-8")
    assert is_plain(path, rules_of()) is plain


def test_decimals_are_the_nearest_doubles(tmp_path):
    """Of as many digits as anybody writes, beside Python's own reading."""
    rng = np.random.default_rng(5)
    numbers = [*rng.random(500), *(rng.random(500) * 10.0 ** rng.integers(-30, 0, 500))]
    texts = [f"{x:.{digits}g}" for x in numbers for digits in (3, 9, 15, 16, 17)]
    path = tmp_path / "rows.csv"
    path.write_text(HEADING + "".join(f"a;1;{i};x;{t}\n" for i, t in enumerate(texts)))
    assert is_plain(path, rules_of())
    (rows,) = [Encoder(rules_of()).encode(c) for c in csv_chunks(open_csv(path, rules_of()))]
    assert rows.rewards.tolist() == [float(text) for text in texts]
    assert math.isclose(rows.rewards[0], numbers[0], rel_tol=1e-2)


def test_a_decimal_comma(tmp_path):
    """The study's mark is read, and the point is none."""
    path = tmp_path / "rows.csv"
    rules = rules_of(decimal=",", labels=False)
    path.write_text(HEADING + "a;1;0;3;0,5\na;1;1;4;1,5e-1\na;1;2;4;0,1234567890123456\n")
    assert is_plain(path, rules)
    quick, usual = both_ways(path, rules)
    assert quick == usual
    assert quick[0][3] == [0.5, 0.15, 0.1234567890123456]
    path.write_text(HEADING + "a;1;0;3;0.5\n")
    assert not is_plain(path, rules)


def test_studies_with_other_cells_have_no_quick_way():
    """Texts that mean missing, dates as steps: every cell is looked at by itself."""
    heading = HEADING.strip().split(";")
    assert PlainLines.of(heading, ";", rules_of()) is not None
    assert PlainLines.of(heading, ";", rules_of(missing=["", "NA"])) is None
    assert PlainLines.of(heading, ";", rules_of(step_type="date")) is None
    unknown = replace(rules_of(), columns={**rules_of().columns, "dose": "note"})
    assert PlainLines.of(heading, ";", unknown) is None


def test_lines_across_blocks(tmp_path, monkeypatch):
    """Blocks of a few bytes, cut anywhere, and lines longer than the room that there is."""
    monkeypatch.setattr("privalue.readers._csv_files.BLOCK_BYTES", 64)
    monkeypatch.setattr("privalue.readers._csv_files.LINE_BYTES", 40)
    notes = ["a" * (7 * i % 150) for i in range(60)]
    path = tmp_path / "rows.csv"
    path.write_text(HEADING + "".join(f"{n};1;{i};x;0.5\n" for i, n in enumerate(notes)))
    file = open_csv(path, rules_of())
    parts = [Encoder(rules_of()).encode(chunk) for chunk in csv_chunks(file)]
    assert [step for part in parts for step in part.steps.tolist()] == list(range(60))
    places = [part.origins.where(at) for part in parts for at in range(len(part))]
    assert places == [f"{path}, row {i + 1}" for i in range(60)]


def test_empty_cells_take_one_byte(tmp_path):
    """More rows than half the bytes over the columns: none is lost, none is written elsewhere."""
    notes = [f"n{i}" for i in range(10)]
    path = tmp_path / "rows.csv"
    rows = "".join(f"{i // 2},{i % 2},x,1{',' * 10}\n" for i in range(3000))
    path.write_text(",".join(["trajectory", "step", "state", "reward", *notes]) + "\n" + rows)
    assert is_plain(path, rules_of())
    quick, usual = both_ways(path, rules_of())
    assert quick == usual
    assert len(quick[0][1]) == 3000


@pytest.mark.parametrize(
    ("delimiter", "decimal", "line"),
    [
        (",", ",", "7,0,x,3,5"),
        (".", ".", "7.0.x.3.5"),
        ("-", ".", "7--5-x-3"),
        ("+", ".", "7++5+x+3"),
    ],
)
def test_a_delimiter_that_numbers_may_hold_has_no_quick_way(tmp_path, delimiter, decimal, line):
    """A reward of 3,5 and two cells look alike: one row would decide how all others are read."""
    path = tmp_path / "rows.csv"
    heading = delimiter.join(["trajectory", "step", "state", "reward"])
    path.write_text(f"{heading}\n{line}\n")
    rules = rules_of(decimal=decimal, delimiter=delimiter, invalid="drop-unit")
    assert open_csv(path, rules).plain is None
