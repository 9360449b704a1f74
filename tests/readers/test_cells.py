"""Cells by declaration: every physical type against the literal twin, and each cell by itself."""

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from oracles import cells as literal
from privalue.readers import cells
from privalue.readers.cells import INVALID, MISSING, OK, from_objects

TEXTS = st.one_of(
    st.text(max_size=12),
    st.integers(-(10**25), 10**25).map(str),
    st.floats().map(repr),
    st.decimals(allow_nan=False, allow_infinity=False).map(str).filter(lambda t: len(t) < 40),
    st.text("0123456789+-.eE ", max_size=8),
    st.sampled_from(
        [
            "",
            " ",
            "\t1\n",
            "1_0",
            "0x10",
            "\u0661",
            "TRUE",
            "False",
            "-0",
            "+0",
            ".",
            "-",
            "1e",
            "5.",
        ]
    ),
)


def column(texts, kind=None):
    return pa.array(texts, kind or pa.string())


def outcome(found):
    status = np.zeros(len(found.values)) if found.status is None else found.status
    return [None if s else v for v, s in zip(found.values.tolist(), status, strict=True)]


@given(st.lists(TEXTS, max_size=8))
@example(["9223372036854775807", "-9223372036854775808", "9223372036854775808"])
@example(["1e999999999", "1e-999999999", "000000000000000000000000000001", "1e+05"])
@example(["0E00000", "0e99999", "1e00005", "-0E-00007", "1e-00001", "10e-00001"])
@example(["0\x1f", "7\x85", "7\xa0", "\u20037", "1e3\x1c"])  # white space, but not of ASCII
def test_texts_as_whole_numbers(texts):
    expected = [literal.whole(text) for text in texts]
    assert outcome(cells.whole_numbers(column(texts))) == expected


@given(st.lists(TEXTS, max_size=8))
@example(["0.1234567890123456789", "1e400", "-1e400", "1e-400", "123456789012345678901234"])
@example(["9007199254740993", "0.30000000000000004", "2.2250738585072011e-308"])
def test_texts_as_doubles(texts):
    found = cells.numbers(column(texts))
    assert outcome(found) == [literal.double(t) for t in texts]


@given(st.lists(TEXTS.map(lambda t: t.replace(",", "")), max_size=6))
def test_a_decimal_comma_is_a_decimal_point(texts):
    """The same texts with the one for the other; a point is then no part of a number."""
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
    made, arrow = VALUES[kind]
    values = data.draw(st.lists(made, min_size=1, max_size=6))
    expected = [literal.canonical(value) for value in values]
    found = cells.ids(pa.array(values, arrow, from_pandas=False), "text")
    status = np.zeros(len(values)) if found.status is None else found.status
    shown = [
        None if s != OK else cells.id_of(words, "text")
        for words, s in zip(found.values, status, strict=True)
    ]
    assert shown == expected
    as_objects = cells.ids(from_objects(values), "text")
    objects = np.zeros(len(values)) if as_objects.status is None else as_objects.status
    assert ((objects != OK) == (status != OK)).all()
    width = max(found.values.shape[1], as_objects.values.shape[1])
    good = status == OK
    assert np.array_equal(
        cells.pad(found.values, width)[good], cells.pad(as_objects.values, width)[good]
    )


@given(st.lists(st.one_of(st.text(min_size=1, max_size=9), st.integers().map(str)), max_size=9))
def test_words_are_in_the_order_of_ids(texts):
    texts = [text for text in texts if text.strip(literal.BLANKS)]
    words = cells.ids(column(texts), "text").values.tolist()
    by_words = sorted(range(len(texts)), key=lambda at: words[at])
    by_rank = sorted(range(len(texts)), key=lambda at: literal.rank(texts[at]))
    assert [texts[at] for at in by_words] == [texts[at] for at in by_rank]


@given(st.lists(TEXTS, min_size=1, max_size=6), st.data())
def test_each_cell_by_itself(texts, data):
    """f(a + b) = f(a) + f(b), for every function and wherever the column is cut."""
    at = data.draw(st.integers(0, len(texts)))
    for function in (
        cells.whole_numbers,
        cells.numbers,
        lambda c: cells.steps(c, "date"),
        lambda c: cells.steps(c, "datetime"),
        lambda c: cells.steps(c, "number"),
        lambda c: cells.label_codes(c, pa.array(["1", "a"])),
    ):
        parts = outcome(function(column(texts[:at]))) + outcome(function(column(texts[at:])))
        assert repr(outcome(function(column(texts)))) == repr(parts)


def test_float32_ids_beyond_what_they_tell_apart_are_refused():
    ids = cells.ids(pa.array([2.0**24 - 1, 2.0**24, 7.0], pa.float32()), "text")
    assert ids.status.tolist() == [OK, INVALID, OK]
    doubles = cells.ids(pa.array([2.0**53 - 1, 2.0**53, -(2.0**53)]), "text")
    assert doubles.status.tolist() == [OK, INVALID, INVALID]


def test_signed_zeros_are_one_id_and_one_step():
    assert cells.ids(pa.array([0.0, -0.0]), "text").values.tolist() == [[0], [0]]
    steps = cells.steps(pa.array([0.0, -0.0, -1.5, 2.0]), "number").values
    assert steps[0] == steps[1]
    assert steps[2] < steps[0] < steps[3]


@pytest.mark.parametrize(
    ("text", "how", "day"),
    [
        ("2026-01-02", None, date(2026, 1, 2)),
        ("20260102", None, date(2026, 1, 2)),
        ("2026-01-02T00:00:00Z", None, date(2026, 1, 2)),
        ("2026-01-02T00:00:00+01:00", None, None),
        ("2026-01-02T08:30", None, None),
        ("02.01.2026", None, None),
        ("02.01.2026", "%d.%m.%Y", date(2026, 1, 2)),
        ("1/2/26", "%m/%d/%y", date(2026, 1, 2)),
        ("2026-13-01", None, None),
        ("noon", "%d.%m.%Y", None),
    ],
)
def test_dates(text, how, day):
    found = outcome(cells.steps(column([text]), "date", how))
    assert found == [None if day is None else (day - date(1970, 1, 1)).days]


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
    written = cells.steps(column([moment.isoformat()]), "datetime")
    assert outcome(typed) == outcome(zoned) == outcome(written)
    assert cells.step_text(outcome(typed)[0], "datetime").startswith(moment.isoformat()[:10])


def test_missing_texts():
    words = cells.Missing.of(["NA", " . ", "", "-99"])
    found = cells.numbers(column(["NA", ".", "", " ", "1", "N", None, "-99"]), words)
    assert found.status.tolist() == [*[MISSING] * 4, OK, INVALID, MISSING, MISSING]
    listed = cells.label_codes(column(["NA", "x", "."]), pa.array(["NA", "x"]), words)
    assert listed.status.tolist() == [OK, OK, MISSING]  # a label that the study lists is one


def test_objects_that_are_neither_text_nor_number_are_invalid():
    odd = [object(), [1], {"a": 1}, b"\x00", float("nan"), None, "\ud800", Decimal("NaN"), 1 + 2j]
    found = cells.ids(from_objects(odd), "text").status.tolist()
    assert found == [
        INVALID,
        INVALID,
        INVALID,
        OK,
        MISSING,
        MISSING,
        INVALID,
        MISSING,
        INVALID,
    ]


@pytest.mark.parametrize(
    "made",
    [
        pa.array(["-99", "1"]),
        pa.array(["-99.0", "1"]),
        pa.array([-99, 1]),
        pa.array([-99.0, 1.0]),
        pa.array([Decimal("-99.00"), Decimal("1.00")]),
        from_objects([-99, "1"]),
        from_objects(["-99", 1.0]),
        from_objects([Decimal("-99.0"), True]),
    ],
)
def test_a_number_that_means_missing_does_so_in_every_type(made):
    missing = cells.Missing.of(["-99"])
    for function in (cells.numbers, cells.whole_numbers):
        found = function(made, missing)
        assert found.status.tolist() == [MISSING, OK]
        assert found.values.tolist()[1] == 1


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
def test_objects_are_read_one_by_one(values, decimal):
    """A column of objects is its cells: none is read otherwise because of its neighbours."""
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
    status = np.zeros(len(values), np.uint8) if texts.status is None else texts.status
    for at, one in enumerate(alone):
        assert status[at] == (0 if one.status is None else one.status[0])
        if status[at] == OK:
            same = cells.pad(one.values, width)[0] == cells.pad(texts.values, width)[at]
            assert same.all()


def test_a_type_told_from_all_cells_is_caught():
    """The planted mistake: one text among numbers makes texts of them all."""
    floats = [0.25, 0.5]
    as_texts = pa.array([str(value) for value in [*floats, "0,5"]])
    assert outcome(cells.numbers(from_objects([*floats, "0,5"], ","), decimal=",")) == [
        0.25,
        0.5,
        0.5,
    ]
    assert outcome(cells.numbers(as_texts, decimal=",")) == [None, None, 0.5]


@pytest.mark.parametrize("blank", ["\xa0", "\x85", "\x1c", "\u2003"])
def test_white_space_that_is_not_of_ascii_is_part_of_a_date_and_of_a_missing_text(blank):
    found = cells.steps(column([f"2026-01-02{blank}", " 2026-01-02\t"]), "date", None)
    assert found.status is not None
    assert found.status.tolist() == [INVALID, OK]
    missing = cells.Missing.of(["", blank, f"NA{blank} "])
    assert missing.texts.to_pylist() == sorted(["", blank, f"NA{blank}"])


@pytest.mark.parametrize(
    ("cell", "read", "expected"),
    [
        ("-9,0", "numbers", MISSING),
        ("-9", "numbers", MISSING),
        ("0" * 500 + "5", "whole", OK),
        ("1e-400", "whole", INVALID),
    ],
    ids=["missing with a comma", "missing", "zeros", "underflow"],
)
@pytest.mark.parametrize("beside", ["1,0", "2", "NA", "zz"])
@pytest.mark.parametrize("others", [0, 1, 20, 40, 80])
def test_how_a_cell_is_read_follows_from_no_other_cell(cell, read, expected, beside, others):
    missing = cells.Missing.of(["-9,0", "NA"], ",")
    texts = column([cell, *[beside] * others])
    if read == "numbers":
        found = cells.numbers(texts, missing, ",")
    else:
        found = cells.whole_numbers(texts, missing, ",")
    assert (OK if found.status is None else found.status[0]) == expected
    if expected == OK:
        assert found.values[0] == 5
