"""CSV files: a line is a row, in every dialect, and no line affects another."""

import csv
import gzip
import io

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import privalue as pv
from oracles.reading import encode, statistics
from oracles.studies import make_study

VALUES = {"rewards": (-100.0, 100.0), "returns": (-1000.0, 1000.0)}
HEAD = "trajectory,step,state,reward"


def build_study(**data):
    return make_study(12, values=VALUES, data=data)


STUDY, DROPPING = build_study(), build_study(invalid="drop-unit")


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Make blocks so small that lines straddle them, and that in some no line begins."""
    monkeypatch.setattr("privalue.readers.csv.BLOCK_BYTES", 23)


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


WITH_NOTES = HEAD + ",nötiz\n" + rows().replace("\n", ",müde\n")
COMPRESS = {
    ".csv": lambda text: text,
    ".csv.gz": gzip.compress,
    ".csv.zst": lambda text: pa.Codec("zstd").compress(text, asbytes=True),
    ".tsv": lambda text: text,
}


@pytest.mark.parametrize("ending", COMPRESS)
@pytest.mark.parametrize(
    ("text", "data"),
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
        (WITH_NOTES.encode("cp1252"), {"encoding": "cp1252"}),
        (WITH_NOTES.encode("utf-16"), {}),
        (WITH_NOTES.encode("utf-8"), {}),
        (HEAD + "\n" + rows().replace(",", " , "), {"id_type": "integer"}),
    ],
)
def test_every_dialect_gives_the_same_statistics(tmp_path, text, data, ending):
    text = text if isinstance(text, bytes) else text.encode()
    path = write(tmp_path, COMPRESS[ending](text), "d" + ending)
    assert statistics(path, build_study(**data)) == expected()


def test_the_heading_alone_determines_the_delimiter(tmp_path):
    """Rows with many other possible delimiters do not change it."""
    lines = "".join(
        f"{t};{s};{(t + s) % 12};{t / 8};a,b,c,d,e,f|g\n" for t in range(9) for s in range(3)
    )
    path = write(tmp_path, HEAD.replace(",", ";") + ";note\n" + lines)
    assert statistics(path, STUDY) == expected()


# A physical line is a row


SWALLOWING = ['90,0,1,"1\n', '"90,0,1,1\n', '90,0,"1,1\n', '90,0,1,1,"a note\n']


@pytest.mark.parametrize("line", SWALLOWING)
def test_a_quote_does_not_swallow_other_rows(tmp_path, line):
    """The planted mistake: a parser of quotes across lines loses the rows up to the next one."""
    note = line.count(",") == 4
    head = HEAD + ",note\n" if note else HEAD + "\n"
    good = rows().replace("\n", ",\n") if note else rows()
    text = head + good + line + good.replace("\n", "\n") + line
    path = write(tmp_path, head + good + line)
    assert "d.csv, line 29: " in outcome(path)
    result = statistics(path, DROPPING)
    assert np.array_equal(result.counts, expected().counts)
    assert np.array_equal(result.return_steps, expected().return_steps)
    assert result.rows_left_out == 1
    naive = [row for row in csv.reader(io.StringIO(text)) if len(row) == head.count(",") + 1]
    assert len(naive) - 1 < 2 * 27


MALFORMED = ["30,0,1", "30,0,1,1,1", '30,0,1,"1"1', '30,"0"0",1,1', "30,0,1\r,1", '30,0,1,"1\r"']


@pytest.mark.parametrize("line", [*MALFORMED, b"\xff\xfe,0,1,1", b"30,0,1,1\xc3"])
def test_a_malformed_line_is_named_or_left_out(tmp_path, line):
    line = line if isinstance(line, bytes) else line.encode()
    text = (HEAD + "\n" + rows()).encode() + line + b"\n" + b"90,0,1,1\n"
    path = write(tmp_path, text)
    message = outcome(path)
    assert "d.csv, line 29: " in message
    assert "\n" not in message
    literal = write(tmp_path, HEAD + "\n" + rows() + "90,0,1,1\n", "e.csv")
    result, without = statistics(path, DROPPING), statistics(literal, DROPPING)
    assert result.rows_left_out == 1
    assert np.array_equal(result.counts, without.counts)


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
def test_a_line_does_not_affect_the_others(tmp_path_factory, good, odd, data):
    """Good rows have the same numbers with and without an odd line between them."""
    at = data.draw(st.integers(0, len(good)))
    end = data.draw(st.sampled_from(["\n", "\r\n"]))
    path = tmp_path_factory.mktemp("any") / "d.csv"

    def numbers(lines):
        path.write_bytes((end.join([HEAD, *map(",".join, lines)]) + end).encode())
        return [
            (np.trim_zeros(ids.ravel(), "b").tolist(), *others)
            for part in encode(str(path), DROPPING)
            for ids, *others in zip(*part.columns, strict=True)
        ]

    before, after = numbers(good[:at]), numbers(good[at:])
    whole = numbers([*good[:at], odd, *good[at:]])
    assert whole[: len(before)] == before
    assert whole[len(whole) - len(after) :] == after
    assert len(whole) - len(before) - len(after) in {0, 1, 2}  # a bare CR is no end of line
