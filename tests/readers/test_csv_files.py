"""CSV files: a line is a row, in every dialect, and none changes how another is read."""

import csv
import gzip
import io

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import privalue as pv
from oracles.reading import batches, encoded, statistics
from oracles.studies import study
from privalue.readers import csv as csv_files

VALUES = {"rewards": (-100.0, 100.0), "returns": (-1000.0, 1000.0)}
HEAD = "trajectory,step,state,reward"


def described(**data):
    return study(12, values=VALUES, data=data)


STUDY, DROPPING = described(), described(invalid="drop-unit")


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """So that lines straddle them, and some hold the beginning of no line."""
    monkeypatch.setattr(csv_files, "BLOCK_BYTES", 23)


def rows(count=9):
    return "".join(f"{t},{s},{(t + s) % 12},{t / 8}\n" for t in range(count) for s in range(3))


def write(folder, text, name="d.csv"):
    (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder / name


def outcome(path, like=STUDY):
    try:
        return statistics(str(path), like)
    except pv.DataError as problem:
        return str(problem)


def expected(count=9):
    return statistics([[((t + s) % 12, t / 8) for s in range(3)] for t in range(count)], STUDY)


# Dialects


NOTED = HEAD + ",nötiz\n" + rows().replace("\n", ",müde\n")

PACKED = {
    ".csv": lambda text: text,
    ".csv.gz": gzip.compress,
    ".csv.zst": lambda text: pa.Codec("zstd").compress(text, asbytes=True),
    ".tsv": lambda text: text,
}


@pytest.mark.parametrize("ending", PACKED)
@pytest.mark.parametrize(
    ("text", "declared"),
    [
        (HEAD + "\n" + rows(), {}),
        ("\ufeff" + HEAD + "\n" + rows(), {}),
        (HEAD + "\r\n" + rows().replace("\n", "\r\n"), {}),
        (HEAD + "\n" + rows().removesuffix("\n"), {}),
        (HEAD + "\n" + rows().replace("\n", "\n\n") + "\r\n\n\n", {}),
        (HEAD + ",a,b,c\n" + rows().replace("\n", ",,,\n"), {}),
        ((HEAD + "\n" + rows()).replace(",", ";"), {}),
        ((HEAD + "\n" + rows()).replace(",", "\t"), {}),
        ((HEAD + "\n" + rows()).replace(",", "|"), {"delimiter": "|"}),
        ((HEAD + "\n" + rows()).replace(",", ";").replace(".", ","), {"decimal": ","}),
        ("".join(f'"{x}"\n' for x in (HEAD + "\n" + rows()).split()).replace(",", '","'), {}),
        (
            (HEAD + ",nötiz\n" + rows().replace("\n", ",müde\n")).encode("cp1252"),
            {"encoding": "cp1252"},
        ),
        ((HEAD + ",nötiz\n" + rows().replace("\n", ",müde\n")).encode("utf-16"), {}),
        ((HEAD + ",nötiz\n" + rows().replace("\n", ",müde\n")).encode("utf-8"), {}),
        (HEAD + "\n" + rows().replace(",", " , "), {"id_type": "integer"}),
    ],
)
def test_every_dialect_gives_the_same_statistics(tmp_path, text, declared, ending):
    text = text if isinstance(text, bytes) else text.encode()
    path = write(tmp_path, PACKED[ending](text), "d" + ending)
    assert statistics(path, described(**declared)) == expected()


def test_the_delimiter_is_told_from_the_heading_alone(tmp_path):
    """Rows full of other marks do not change it."""
    lines = "".join(
        f"{t};{s};{(t + s) % 12};{t / 8};a,b,c,d,e,f|g\n" for t in range(9) for s in range(3)
    )
    path = write(tmp_path, HEAD.replace(",", ";") + ";note\n" + lines)
    assert statistics(path, STUDY) == expected()


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"delimiter": "ab"}, 'delimiter = "ab" is not allowed'),
        ({"delimiter": '"'}, "cannot separate cells"),
        ({"delimiter": "1"}, "cannot separate cells"),
        ({"encoding": "shift_jis"}, "is not read"),
        ({"encoding": "nonsense"}, "is not read"),
        ({"encoding": "utf-7"}, "is not read"),
        ({"encoding": "unicode_escape"}, "is not read"),
        ({"decimal": ";"}, 'it must be "." or ","'),
    ],
)
def test_what_cannot_be_declared(declared, message):
    with pytest.raises(pv.StudyError, match=message.replace('"', ".")):
        described(**declared)


def test_missing_cells_are_what_the_study_says(tmp_path):
    text = HEAD + "\n" + rows(2) + "2,0,NA,1\n2,1,3,.\n2,2,4,1.5\n"
    path = write(tmp_path, text)
    assert "line 8: state = 'NA' is not a state" in outcome(path)
    missing = described(missing=["NA", "."])
    assert "line 8: state is missing" in outcome(path, missing)
    found = statistics(path, described(missing=["NA", "."], invalid="drop-unit"))
    assert (found.units_dropped, found.trajectories) == (1, 2)


def test_booleans_are_1_and_0(tmp_path):
    path = write(tmp_path, HEAD + "\n1,0,0,TRUE\n1,1,1,false\n1,2,true,True\n")
    literal = write(tmp_path, HEAD + "\n1,0,0,1\n1,1,1,0\n1,2,1,1\n", "e.csv")
    assert statistics(path, STUDY) == statistics(literal, STUDY)


# A physical line is a row


SWALLOWING = [
    '90,0,1,"1\n',
    '"90,0,1,1\n',
    '90,0,"1,1\n',
    '90,0,1,1,"a note\n',
]


@pytest.mark.parametrize("line", SWALLOWING)
def test_a_quote_does_not_swallow_other_rows(tmp_path, line):
    """The planted mistake: a parser of quotes across lines loses the rows up to the next one."""
    note = line.count(",") == 4
    head = HEAD + ",note\n" if note else HEAD + "\n"
    good = rows().replace("\n", ",\n") if note else rows()
    text = head + good + line + good.replace("\n", "\n") + line
    path = write(tmp_path, head + good + line)
    assert "line 29: the line has quotes" in outcome(path)
    assert "Parquet" in outcome(path)
    found = statistics(path, DROPPING)
    assert np.array_equal(found.counts, expected().counts)
    assert np.array_equal(found.return_steps, expected().return_steps)
    assert found.rows_left_out == 1
    naive = [row for row in csv.reader(io.StringIO(text)) if len(row) == head.count(",") + 1]
    assert len(naive) - 1 < 2 * 27


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("30,0,1", "3 cells where the heading has 4"),
        ("30,0,1,1,1", "5 cells where the heading has 4"),
        ('30,0,1,"1"1', "quotes"),
        ('3"0,0,1,1', "quotes"),
        ("30,0,1\r,1", "a CR inside it"),
        (b"\xff\xfe,0,1,1", "bytes that are no utf-8"),
        (b"30,0,1,1\xc3", "bytes that are no utf-8"),
    ],
)
def test_a_line_that_is_no_row_is_named_or_left_out(tmp_path, line, message):
    line = line if isinstance(line, bytes) else line.encode()
    text = (HEAD + "\n" + rows()).encode() + line + b"\n" + b"90,0,1,1\n"
    path = write(tmp_path, text)
    said = outcome(path)
    assert "d.csv, line 29: " in said
    assert message in said
    assert "\n" not in said
    literal = write(tmp_path, HEAD + "\n" + rows() + "90,0,1,1\n", "e.csv")
    found, without = statistics(path, DROPPING), statistics(literal, DROPPING)
    assert found.rows_left_out == 1
    assert np.array_equal(found.counts, without.counts)


CELLS = st.one_of(
    st.integers(-(10**19), 10**19).map(str),
    st.integers(0, 11).map(str),
    st.floats(-99, 99).map(repr),
    st.decimals(-99, 99, places=6).map(str),
    st.text("0123456789-+. eE\t", max_size=6),
    st.text('0a"\r;_ ', max_size=4),
    st.sampled_from(["0x10", "1_0", "nan", "1e5", "TRUE", "-0", '"', '""', "\x00", "é"]),
)
GOOD = st.tuples(
    st.integers(-3, 3).map(str),
    st.integers(0, 10**6).map(str),
    st.integers(0, 11).map(str),
    st.decimals(-99, 99, places=4).map(str),
)


@given(st.lists(GOOD, min_size=1, max_size=8), st.tuples(CELLS, CELLS, CELLS, CELLS), st.data())
def test_one_line_decides_nothing_about_another(tmp_path_factory, made, odd, data):
    """Encoding is line by line: the numbers of good rows are the same with any line among them."""
    at = data.draw(st.integers(0, len(made)))
    end = data.draw(st.sampled_from(["\n", "\r\n"]))
    path = tmp_path_factory.mktemp("any") / "d.csv"

    def numbers(lines):
        path.write_bytes((end.join([HEAD, *map(",".join, lines)]) + end).encode())
        return [
            (np.trim_zeros(ids.ravel(), "b").tolist(), *others)
            for part in encoded(str(path), DROPPING)
            for ids, *others in zip(*part.columns, strict=True)
        ]

    before, after = numbers(made[:at]), numbers(made[at:])
    whole = numbers([*made[:at], odd, *made[at:]])
    assert whole[: len(before)] == before
    assert whole[len(whole) - len(after) :] == after
    assert len(whole) - len(before) - len(after) in {0, 1, 2}  # a bare CR is no end of line


def test_lines_of_a_file_are_not_shown(tmp_path):
    path = write(tmp_path, HEAD + "\n" + "123457,0,1,0.765432\n")
    chunk = next(batches(str(path), STUDY))
    assert repr(chunk) == "Batch(episode_ids=False)"


def test_ids_are_the_texts_that_stand_there(tmp_path):
    path = write(tmp_path, HEAD + "\n12,0,1,0.25\n007,0,1,1\n7,0,1,1\n1e3,0,1,1\nx,0,1,1\n")
    assert statistics(path, STUDY).trajectories == 5
    numbers = write(tmp_path, HEAD + "\n12,0,1,0.25\n007,0,1,1\n7,1,1,1\n1e3,0,1,1\n", "e.csv")
    assert statistics(numbers, described(id_type="integer")).trajectories == 3
    assert "line 6: trajectory = 'x' must be a whole number" in outcome(
        path, described(id_type="integer")
    )
