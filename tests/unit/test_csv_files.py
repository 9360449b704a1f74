"""CSV by blocks of lines: what comes out is what reading from the beginning gives, or its error."""

import csv
import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import privalue as pv
from oracles.studies import study
from privalue.engines.local import statistics
from privalue.trajectories import csv_files, open_source, sources
from privalue.trajectories.encode import Encoder

STUDY = study(12, values={"rewards": (-100.0, 100.0), "returns": (-1000.0, 1000.0)})
HEAD = "trajectory,step,state,reward"


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """So that lines straddle them, and some hold the beginning of no line."""
    monkeypatch.setattr(csv_files, "BLOCK_BYTES", 23)


def both_ways(path, described=STUDY):
    """What the file comes to by blocks, and from its beginning."""

    def outcome():
        try:
            return statistics(str(path), described)
        except pv.DataError as problem:
            return str(problem)

    by_blocks = outcome()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "plain_heading", lambda _: None)
        return by_blocks, outcome()


def numbers_only(path):
    """Whether every block was taken as numbers."""
    source = open_source(str(path), STUDY.data)
    return all(piece.read().as_text is not None for piece in source.unread())


def rows(count=9):
    return "".join(f"{t},{s},{(t + s) % 12},{t / 8}\n" for t in range(count) for s in range(3))


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        (HEAD + "\n" + rows(), True),
        ("\ufeff" + HEAD + "\n" + rows(), True),
        (HEAD + "\r\n" + rows().replace("\n", "\r\n"), True),
        (HEAD + ",a,b,c,d,e,f,g,h\n" + rows().replace("\n", ",,,,,,,,\n"), True),
        ("note,reward,state,step,trajectory\n" + "x y,1.5,3,0,-4\n,-0.25,3,1,-4\n", True),
        ('"trajectory","step","state","reward","a ""b"", c"\n' + rows().replace("\n", ",\n"), True),
        (HEAD + "\n" + rows().removesuffix("\n"), False),
        (HEAD + "\n" + rows().replace("\n", "\n\n"), False),
        (HEAD + "\n" + rows() + "\n\n\n", False),
        (HEAD + "\n" + rows() + "07,0,1,.5\n70,0, 2,5.\n-0,0,1,1e1\n", False),
        (HEAD + "\n" + rows() + "a long id that is longer than a block is,0,1,1\n", False),
        (HEAD + "\n" + rows() + "9,0,1,0.1234567890123456\n", False),
        (HEAD + "\n" + rows() + f"{2**70},0,1,1\n", False),
        ("x," + HEAD + "\n" + "1," + rows(1).replace("\n", "\n2,").removesuffix("2,"), True),
    ],
)
def test_files_without_quotes(tmp_path, text, plain):
    (tmp_path / "d.csv").write_bytes(text.encode())
    by_blocks, literally = both_ways(tmp_path / "d.csv")
    assert by_blocks == literally
    assert not isinstance(literally, str)
    assert numbers_only(tmp_path / "d.csv") == plain


@pytest.mark.parametrize(
    "text",
    [
        HEAD + "\n" + rows() + '"9",0,1,1\n"the\nother",0,1,1\n',
        HEAD + ",note\n" + rows().replace("\n", ',"a ""b"" c\nd"\n'),
        (HEAD + "\n" + rows()).replace("\n", "\r"),
        HEAD + "\n" + rows() + "90,0,1,1\r90,1,1,1\r",
        HEAD + ',"a\nb"\n' + rows().replace("\n", ",\n"),
    ],
)
def test_files_that_cannot_be_cut_are_read_from_their_beginning(tmp_path, text):
    (tmp_path / "d.csv").write_bytes(text.encode())
    by_blocks, literally = both_ways(tmp_path / "d.csv")
    assert by_blocks == literally
    assert literally.rows > 0


@pytest.mark.parametrize(
    "line",
    [
        "30,0,12,1",
        "30,0,-1,1",
        "30,0,1,nan",
        "30,0,1,inf",
        "30,0,1,-1e999",
        "30,0,1,good",
        "30,0,1.5,1",
        "30,0.5,1,1",
        "30,99999999999999999999,1,1",
        "30,0,1,",
        ",0,1,1",
        "30,0,1",
        "30,0,1,1,1",
        "30,0,1,1\n30,1,2,1\n30,0,1,1",
        "\n\n30,0,x,1",
    ],
)
def test_mistakes_have_the_same_words_and_places(tmp_path, line):
    (tmp_path / "d.csv").write_text(
        HEAD + "\n" + rows() + line + "\n" + rows(1).replace("0,", "90,", 1)
    )
    by_blocks, literally = both_ways(tmp_path / "d.csv")
    assert by_blocks == literally
    assert "row " in literally


def test_bytes_that_are_no_text(tmp_path):
    (tmp_path / "d.csv").write_bytes((HEAD + "\n" + rows()).encode() + b"\xff\xfe,0,1,1\n")
    by_blocks, literally = both_ways(tmp_path / "d.csv")
    assert by_blocks == literally
    assert "cannot be read as CSV" in literally


CELLS = st.one_of(
    st.integers(-(10**19), 10**19).map(str),
    st.integers(0, 11).map(str),
    st.floats(-99, 99).map(repr),
    st.decimals(-99, 99, places=6).map(str),
    st.text("0123456789-+. eE\t", max_size=6),
    st.text('0a"\r;_ ', max_size=4),
)
GOOD = st.tuples(
    st.integers(-3, 3).map(str),
    st.integers(0, 10**6).map(str),
    st.integers(0, 11).map(str),
    st.decimals(-99, 99, places=4).map(str),
)


@given(st.lists(GOOD, min_size=1, max_size=8), st.tuples(CELLS, CELLS, CELLS, CELLS), st.data())
def test_any_cells(tmp_path_factory, made, odd, data):
    made.insert(data.draw(st.integers(0, len(made))), odd)
    end = data.draw(st.sampled_from(["\n", "\r\n"]))
    text = end.join([HEAD, *map(",".join, made)]) + data.draw(st.sampled_from(["", end]))
    path = tmp_path_factory.mktemp("any") / "d.csv"
    path.write_bytes(text.encode())
    by_blocks, literally = both_ways(path)
    assert by_blocks == literally


def parsed(cells):
    """What the kernel makes of rewards, or None."""
    text = "".join(f"1,0,0,{cell}\n" for cell in cells).encode()
    whole, rewards = np.empty((3, len(cells)), np.int64), np.empty(len(cells))
    found = csv_files._parse(np.frombuffer(text, np.uint8), 0, np.arange(4), whole, rewards)
    return rewards if found == len(cells) else None


@given(st.decimals(-(10**15) + 1, 10**15 - 1, allow_nan=False), st.integers(0, 14))
def test_a_plain_decimal_is_rounded_as_python_rounds_it(decimal, places):
    text = f"{decimal:.{places}f}"
    digits = len(text.lstrip("-").replace(".", ""))
    made = parsed([text])
    if digits > 15:
        assert made is None
    else:
        assert made.tobytes() == np.array([float(text)]).tobytes()


def test_powers_that_are_not_exact_would_be_found_out():
    """The planted mistake: to multiply by a tenth, again and again, rounds more than once."""
    literally = [float(f"0.{digits}") for digits in range(1, 10**4, 7)]
    careless = [digits * 0.1 ** len(str(digits)) for digits in range(1, 10**4, 7)]
    made = parsed([f"0.{digits}" for digits in range(1, 10**4, 7)])
    assert made.tolist() == literally
    assert careless != literally


def test_the_parser_reads_what_the_csv_module_reads():
    text = "".join(f"{t},{s},{(7 * s) % 12},{(t - s) / 16}\n" for t in range(40) for s in range(5))
    literally = [[float(cell) for cell in row] for row in csv.reader(io.StringIO(text))]
    whole, rewards = np.empty((3, 200), np.int64), np.empty(200)
    assert (
        csv_files._parse(np.frombuffer(text.encode(), np.uint8), 0, np.arange(4), whole, rewards)
        == 200
    )
    assert np.array_equal(np.column_stack([*whole, rewards]), literally)


def test_lines_of_a_file_are_not_shown(tmp_path):
    """The way back from numbers to text holds the text: its repr must not."""
    (tmp_path / "d.csv").write_text(HEAD + "\n" + "123457,0,1,0.765432\n")
    chunk = next(open_source(str(tmp_path / "d.csv"), STUDY.data).unread()).read()
    for shown in (repr(chunk), repr(chunk.as_text), repr(chunk.as_text.__self__)):
        assert "private" in shown
        assert "123457" not in shown
        assert "765432" not in shown


def test_ids_keep_their_kind(tmp_path):
    """An id that was read as a number is the text that stood there."""
    (tmp_path / "d.csv").write_text(HEAD + "\n" + "12,0,1,0.250000000001\n" + "x,0,1,1\n")
    source = open_source(str(tmp_path / "d.csv"), STUDY.data)
    found = [part for piece in source.unread() for part in Encoder(STUDY).parts(piece.read())]
    assert [part.row(at).ids for part in found for at in range(len(part))] == [("12",), ("x",)]
    assert {part.origin.kinds for part in found} == {("string",)}


def test_a_gzip_file_is_read_from_its_beginning(tmp_path):
    import gzip

    with gzip.open(tmp_path / "d.csv.gz", "wt") as file:
        file.write(HEAD + "\n" + rows())
    (tmp_path / "d.csv").write_text(HEAD + "\n" + rows())
    assert statistics(str(tmp_path / "d.csv.gz"), STUDY) == statistics(
        str(tmp_path / "d.csv"), STUDY
    )
