"""Cells of every physical type against the literal twin, and each cell independent of others."""

from datetime import UTC, date, datetime, timedelta, timezone
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from oracles import cells as literal
from privalue.readers import cells
from privalue.readers.cells import OK, from_objects

TEXTS = st.one_of(
    st.text(max_size=12),
    st.integers(-(10**25), 10**25).map(str),
    st.floats().map(repr),
    st.decimals(allow_nan=False, allow_infinity=False).map(str).filter(lambda t: len(t) < 40),
    st.text("0123456789+-.eE ", max_size=8),
    st.sampled_from(["", " ", "\t1\n", "1_0", "0x10", "\u0661", "TRUE", "False", "-0", "+0"]),
    st.sampled_from([".", "-", "1e", "5.", "1.0", "-7.00", "1e5.0", "x.0", "1.0000000000"]),
    st.sampled_from(["nan", "-NaN", "+nan", "nan(1)", "inf", "-Infinity", "1e400"]),
)


def column(texts, kind=None):
    return pa.array(texts, kind or pa.string())


def outcome(result):
    return [None if s else v for v, s in zip(result.values.tolist(), result.status, strict=True)]


def numbers(result):
    """Return the values with their status: the value of an invalid cell is 0 in every column."""
    return list(zip(result.values.tolist(), result.status.tolist(), strict=True))


@pytest.mark.parametrize("few", [1, 32], ids=["by halves", "in Python"])
@given(texts=st.lists(TEXTS, max_size=8))
@example(texts=["9223372036854775807", "-9223372036854775808", "9223372036854775808"])
@example(texts=["1.0", "2.00", "1e5.0", "-3.", "0" * 401 + "1.0"])
@example(texts=["1e999999999", "1e-999999999", "000000000000000000000000000001", "1e+05"])
@example(texts=["0E00000", "0e99999", "1e00005", "-0E-00007", "1e-00001", "10e-00001"])
@example(texts=["0\x1f", "7\x85", "7\xa0", "\u20037", "1e3\x1c"])  # white space, but not of ASCII
def test_texts_as_whole_numbers(few, texts):
    expected = [literal.whole(text) for text in texts]
    with patch.object(cells, "_MAX_IN_PYTHON", few):
        assert outcome(cells.whole_numbers(column(texts))) == expected


@pytest.mark.parametrize("few", [1, 32], ids=["by halves", "in Python"])
@given(texts=st.lists(TEXTS, max_size=8))
@example(texts=["0.1234567890123456789", "1e400", "-1e400", "1e-400", "123456789012345678901234"])
@example(texts=["9007199254740993", "0.30000000000000004", "2.2250738585072011e-308"])
def test_texts_as_doubles(few, texts):
    with patch.object(cells, "_MAX_IN_PYTHON", few):
        result = cells.numbers(column(texts))
    assert outcome(result) == [literal.double(t) for t in texts]


def test_cells_show_none_of_their_values():
    assert repr(cells.numbers(pa.array([0.75, None]))) == "Cells(private, rows=2)"


@given(st.lists(TEXTS.map(lambda t: t.replace(",", "")), max_size=6))
def test_a_decimal_comma_is_a_decimal_point(texts):
    """The same texts with commas for points; with a decimal comma, a point makes a text invalid."""
    swapped = [text.replace(".", ",") for text in texts]
    as_commas = cells.numbers(column(swapped), decimal=",")
    assert outcome(as_commas) == [literal.double(t) for t in texts]
    pointed = [text for text in texts if "." in text]
    assert outcome(cells.numbers(column(pointed), decimal=",")) == [None] * len(pointed)


VALUES = {
    "int64": (st.integers(-(2**63), 2**63 - 1), pa.int64()),
    "uint64": (st.integers(0, 2**64 - 1), pa.uint64()),
    "double": (st.floats(), pa.float64()),
    "bool": (st.booleans(), pa.bool_()),
    "decimal": (st.decimals(-(10**15), 10**15, places=3), pa.decimal128(30, 3)),
    "wide decimal": (st.decimals(-(10**9), 10**9, places=9), pa.decimal256(60, 25)),
    "text": (
        st.text(min_size=1, max_size=9).filter(lambda t: t.strip(literal.BLANKS)),
        pa.string(),
    ),
    "date": (st.dates(), pa.date32()),
    "naive time": (st.datetimes(), pa.timestamp("us")),
    "zoned time": (
        st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=-5))])).filter(
            lambda t: date(2, 1, 1) < t.date() < date(9998, 1, 1)
        ),
        pa.timestamp("us", "Asia/Tokyo"),
    ),
}


@pytest.mark.parametrize("kind", VALUES)
@given(data=st.data())
def test_ids_of_every_type_are_their_canonical_texts(kind, data):
    strategy, arrow = VALUES[kind]
    values = data.draw(st.lists(strategy, min_size=1, max_size=6))
    expected = [literal.canonical(value) for value in values]
    result = cells.ids(pa.array(values, arrow, from_pandas=False), "text")
    status = result.status
    shown_ids = [
        None if s != OK else cells.id_of(keys, "text")
        for keys, s in zip(result.values, status, strict=True)
    ]
    assert shown_ids == expected
    as_objects = cells.ids(from_objects(values), "text")
    assert ((as_objects.status != OK) == (status != OK)).all()
    width = max(result.values.shape[1], as_objects.values.shape[1])
    good = status == OK
    assert np.array_equal(
        cells.pad(result.values, width)[good], cells.pad(as_objects.values, width)[good]
    )


@given(st.lists(st.one_of(st.text(min_size=1, max_size=9), st.integers().map(str)), max_size=9))
def test_sort_keys_are_in_the_order_of_ids(texts):
    texts = [text for text in texts if text.strip(literal.BLANKS)]
    keys = cells.ids(column(texts), "text").values.tolist()
    by_keys = sorted(range(len(texts)), key=lambda at: keys[at])
    by_rank = sorted(range(len(texts)), key=lambda at: literal.rank(texts[at]))
    assert [texts[at] for at in by_keys] == [texts[at] for at in by_rank]


@given(st.lists(st.one_of(TEXTS, st.sampled_from(["-7", "x", None])), min_size=1), st.data())
def test_each_cell_is_read_independently_of_others(texts, data):
    """f(a + b) = f(a) + f(b), for every function and wherever the column is cut."""
    at = data.draw(st.integers(0, len(texts)))
    for function in (
        cells.whole_numbers,
        cells.numbers,
        lambda c: cells.numbers(c, cells.Missing.of(["inf", "1e400", "nan(1)", "-7"])),
        lambda c: cells.positions(c, 9),
        lambda c: cells.steps(c, "date"),
        lambda c: cells.steps(c, "datetime"),
        lambda c: cells.steps(c, "number"),
        lambda c: cells.label_codes(c, pa.array(["1", "a"])),
    ):
        parts = numbers(function(column(texts[:at]))) + numbers(function(column(texts[at:])))
        assert repr(numbers(function(column(texts)))) == repr(parts)


@given(
    st.datetimes(datetime(1700, 1, 1), datetime(2200, 1, 1)),
    st.sampled_from(["s", "ms", "us", "ns"]),
)
def test_times_of_any_unit_and_as_text_are_the_same_step(moment, unit):
    moment = moment.replace(microsecond=0)
    typed = cells.steps(pa.array([moment], pa.timestamp(unit)), "datetime")
    zoned = cells.steps(
        pa.array([moment.replace(tzinfo=UTC)], pa.timestamp(unit, "Asia/Tokyo")), "datetime"
    )
    as_text = cells.steps(column([moment.isoformat()]), "datetime")
    assert outcome(typed) == outcome(zoned) == outcome(as_text)
    assert cells.step_text(outcome(typed)[0], "datetime").startswith(moment.isoformat()[:10])


OBJECTS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.decimals(allow_nan=True, allow_infinity=True).filter(lambda d: len(str(d)) < 60),
    st.text(max_size=6),
    st.dates(),
    st.datetimes(),
    st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=3))])),
    st.sampled_from(["-99", -99, -99.0, "0,5", "0.5", 0.5, b"x", [1], 1e16, 5e-324]),
)


@given(st.lists(OBJECTS, min_size=1, max_size=6), st.sampled_from([".", ","]))
@example([-0.0, "x"], ".")
def test_objects_are_read_one_by_one(values, decimal):
    """No object is read differently because of the others in its column."""
    missing = cells.Missing.of(["-99", "NA"])
    labels = pa.array(["0", "1", "0.5", "-99", "a"])
    for function in (
        lambda c: cells.numbers(c, missing, decimal),
        lambda c: cells.whole_numbers(c, missing, decimal),
        lambda c: cells.steps(c, "number", None, missing, decimal),
        lambda c: cells.steps(c, "date", "%Y-%d-%m", missing, decimal),
        lambda c: cells.steps(c, "datetime", None, missing, decimal),
        lambda c: cells.label_codes(c, labels, missing),
        lambda c: cells.ids(c, "integer"),
    ):
        whole = function(from_objects(values, decimal))
        assert repr(outcome(whole)) == repr(
            [outcome(function(from_objects([v], decimal)))[0] for v in values]
        )
    texts = cells.ids(from_objects(values), "text")
    alone = [cells.ids(from_objects([value]), "text") for value in values]
    width = max(texts.values.shape[1], *(one.values.shape[1] for one in alone))
    for at, one in enumerate(alone):
        assert texts.status[at] == one.status[0]
        if texts.status[at] == OK:
            same = cells.pad(one.values, width)[0] == cells.pad(texts.values, width)[at]
            assert same.all()


def test_a_type_inferred_from_all_cells_is_caught():
    """The planted mistake: one text in a column of numbers turns all of them into texts."""
    floats = [0.25, 0.5]
    as_texts = pa.array([str(value) for value in [*floats, "0,5"]])
    assert outcome(cells.numbers(from_objects([*floats, "0,5"], ","), decimal=",")) == [
        0.25,
        0.5,
        0.5,
    ]
    assert outcome(cells.numbers(as_texts, decimal=",")) == [None, None, 0.5]
