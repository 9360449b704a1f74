"""The rows of one unit do not affect those of another, in every reader.

Odd cells of every kind are planted in one person's rows: decimals of any scale, times of any unit
and zone, bools, hex, signed zeros, huge numbers, texts of numbers, blanks, quotes. With
``invalid = "drop-unit"`` the statistics of all persons are then those of the others plus those of
the odd one alone; with ``"refuse"`` likewise, or there is an error.
"""

import csv
import io
import os
import sqlite3
from contextlib import closing
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import duckdb
import gymnasium
import numpy as np
import openpyxl
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privalue as pv
from oracles.reading import statistics
from oracles.sources import minari_dataset
from oracles.studies import make_study
from privalue.readers import cells

HEADING = ("person", "trajectory", "step", "state", "reward")
STATES = 3
PERSON = {"unit": "person", "max_trajectories_per_person": 1}

# Of each person's two trajectories the one called 2 counts, and not 10: 2, 10 as numbers, but
# '10.0', '2.0' as texts. The two visit different states, so that a flip shows.
OTHERS = [
    row
    for person in range(301, 307)
    for row in (
        (person, 2, 1, 0, 0.25),
        (person, 2, 2, 0, 0.5),
        (person, 10, 1, 1, 1.0),
    )
]
ODD_PERSON = [(70, 2, 1, 2, 0.5), (70, 2, 2, 1, 0.5), (70, 10, 1, 0, 0.75)]

BERLIN = timezone(timedelta(hours=2))
NUMBERS = [70.0, -0.0, 0.5, 1e300, float("nan"), float("inf"), -5, True]
LARGE = [2**24 + 1, 2**60, 2**70]
DECIMALS = [Decimal(text) for text in ("70.0", "70.000", "0.10", "1E+2", "-0.0")]
TIMES = [
    datetime(2026, 1, 2),
    datetime(2026, 1, 2, 3, 4, 5, 600, tzinfo=UTC),
    datetime(2026, 1, 2, 3, tzinfo=BERLIN),
    date(2026, 1, 2),
]
WRITTEN = ["70", "70.0", "007", "0x10", "1_0", "1e5", "+2", "nan", "TRUE"]
TEXTS = ["", "  ", None, "é", "a,b", "a;b", 'a"b', '"', "x" * 300]
ODD = [*NUMBERS, *LARGE, *DECIMALS, *TIMES, *WRITTEN, *TEXTS]
FEW = [70.0, 2**70, True, *DECIMALS[::2], *TIMES[1::2], "70.0", "0x10", "", None, 'a"b', "x" * 300]
LONG = os.environ.get("PRIVALUE_LONG") == "1"  # make long
ALL = {"csv", "pandas objects", "arrow"}  # what every odd cell goes through in any case
HALF = {"duckdb", "xlsx"}  # each takes long to open: see ``tried``


def with_odd(role, odd):
    """Return the odd person's rows with one odd cell; an odd person id is in all of them."""
    at = HEADING.index(role)
    rows = [list(row) for row in ODD_PERSON]
    for row in rows if role == "person" else rows[1:2]:
        row[at] = odd
    return [tuple(row) for row in rows]


def build_study(invalid):
    return make_study(STATES, privacy=PERSON, data={"invalid": invalid})


def sums(result):
    return np.array([*result.counts, *result.return_steps, result.trajectories, result.persons])


def sums_or_none(data):
    try:
        return sums(statistics(data, build_study("refuse")))
    except pv.DataError:
        return None


def check(make, role, odds):
    """Assert that the sums of all are those of the others plus those of the odd person."""
    others = sums(statistics(make(OTHERS), build_study("drop-unit")))
    assert others[:STATES].tolist() == [6, 0, 0]
    count = 0
    for odd in odds:
        rows = with_odd(role, odd)
        try:  # a source is used before the next is made: they share a name
            one = sums(statistics(make(rows), build_study("drop-unit")))
            together = make([*OTHERS[:9], *rows, *OTHERS[9:]])
        except CannotHoldError:
            continue
        both = sums(statistics(together, build_study("drop-unit")))
        assert (both == others + one).all(), (role, odd)
        assert one[:STATES].max() <= 1
        refused = sums_or_none(together)
        assert refused is None or (refused == others + one).all(), (role, odd)
        count += 1
    assert count


class CannotHoldError(Exception):
    """A source cannot hold such a cell."""


# Makers of sources: each stores odd cells as its users would


def as_csv_file(folder):
    def make(rows):
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([HEADING, *rows])
        (folder / "d.csv").write_text(text.getvalue())
        return folder / "d.csv"

    return make


def infer_column(values):
    """Return a column as Arrow infers it from all of its cells; decimals have one scale."""
    try:
        if any(isinstance(value, Decimal) for value in values):
            exact = [None if value is None else Decimal(str(value)) for value in values]
            scale = max(-number.as_tuple().exponent for number in exact if number is not None)
            return pa.array(exact, pa.decimal128(38, max(scale, 0)))
        return pa.array(values)
    except (pa.ArrowException, OverflowError, ArithmeticError) as problem:
        raise CannotHoldError from problem


def arrow_table(rows):
    return pa.table(
        [infer_column(list(column)) for column in zip(*rows, strict=True)], names=list(HEADING)
    )


def as_arrow(_):
    return arrow_table


def as_parquet(folder):
    def make(rows):
        pq.write_table(arrow_table(rows), folder / "d.parquet")
        return folder / "d.parquet"

    return make


def as_parquet_files(folder):
    """Write the odd person's rows to a file of their own, which has its own types."""

    def make(rows):
        part = folder / "parts"
        part.mkdir(exist_ok=True)
        for file in part.iterdir():
            file.unlink()
        odd = [row for row in rows if row not in OTHERS]
        rest = [row for row in rows if row in OTHERS]
        for name, some in (("a", rest[:9]), ("b", odd), ("c", rest[9:])):
            if some:
                pq.write_table(arrow_table(some), part / f"{name}.parquet")
        return part

    return make


def as_pandas(_):
    return lambda rows: pd.DataFrame(rows, columns=list(HEADING))


def as_pandas_objects(_):
    return lambda rows: pd.DataFrame(rows, columns=list(HEADING), dtype=object)


class Frame(pd.DataFrame):
    """A subclass of a frame, as libraries define them."""


def as_subclass(_):
    return lambda rows: Frame(rows, columns=list(HEADING), dtype=object)


def as_polars(_):
    def make(rows):
        try:
            frame = pl.DataFrame(rows, schema=list(HEADING), orient="row", strict=True)
        except (TypeError, pl.exceptions.PolarsError, OverflowError) as problem:
            raise CannotHoldError from problem
        if pl.Int128 in frame.dtypes:  # Arrow has no such type: refused before a row is read
            raise CannotHoldError
        return frame

    return make


def as_duckdb(folder):
    def make(rows):
        path = folder / "d.duckdb"
        path.unlink(missing_ok=True)
        with closing(duckdb.connect(path)) as connection:
            connection.register("made", arrow_table(rows))
            connection.execute("CREATE TABLE rows AS SELECT * FROM made")
        return path

    return make


def as_sqlite(folder):
    def make(rows):
        path = folder / "d.sqlite"
        path.unlink(missing_ok=True)
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("CREATE TABLE rows (person, trajectory, step, state, reward)")
            try:
                connection.executemany(
                    "INSERT INTO rows VALUES (?, ?, ?, ?, ?)",
                    [[str(c) if isinstance(c, Decimal | date) else c for c in r] for r in rows],
                )
            except OverflowError as problem:
                raise CannotHoldError from problem
        return path

    return make


def as_workbook(folder):
    def make(rows):
        workbook = openpyxl.Workbook()
        try:
            for row in (HEADING, *rows):
                workbook.active.append(row)
            workbook.save(folder / "d.xlsx")
        except (ValueError, TypeError) as problem:  # such as a time with a zone
            raise CannotHoldError from problem
        return folder / "d.xlsx"

    return make


MAKERS = {
    "csv": as_csv_file,
    "arrow": as_arrow,
    "parquet": as_parquet,
    "parquet files": as_parquet_files,
    "pandas": as_pandas,
    "pandas objects": as_pandas_objects,
    "pandas subclass": as_subclass,
    "polars": as_polars,
    "duckdb": as_duckdb,
    "sqlite": as_sqlite,
    "xlsx": as_workbook,
}


def odd_cells(maker, role):
    """Return the odd cells for a maker; for slow makers half of a few, by role."""
    if LONG or maker in ALL:
        return ODD
    return FEW[HEADING.index(role) % 2 :: 2] if maker in HALF else FEW


@pytest.mark.parametrize("role", HEADING)
@pytest.mark.parametrize("maker", MAKERS)
def test_odd_cells_of_one_person_do_not_affect_others(maker, role, tmp_path):
    check(MAKERS[maker](tmp_path), role, odd_cells(maker, role))


def test_odd_states_and_rewards_in_episodes():
    """Episodes have no persons: the odd trajectory is dropped, and no other."""
    dropping = make_study(STATES, data={"invalid": "drop-unit"})
    others = [[(0, 0.5), (1, 0.25)], [(1, 1.0)], [(0, 0.125)]]
    expected = statistics(others, dropping)
    for odd in [*ODD, [1], {"a": 1}, object(), np.float32(0.5), np.int64(1)]:
        for episode in ([(odd, 0.5)], [(2, odd)], [(2, 0.5), (odd, odd)]):
            both = statistics([others[0], episode, *others[1:]], dropping)
            one = statistics([episode], dropping)
            assert both.counts.tolist() == (expected.counts + one.counts).tolist()
            assert both.return_steps.tolist() == (expected.return_steps + one.return_steps).tolist()
            assert one.counts.max() <= 1
    malformed = statistics([*others, [], 7, [(1,)]], dropping)
    assert malformed.counts.tolist() == expected.counts.tolist()


def test_an_episode_with_other_observations_in_minari(tmp_path):
    """Its observations have fewer numbers than the space of the dataset."""
    dropping = make_study(STATES, data={"invalid": "drop-unit"}).replace(
        bins={"age": [50], "sofa": [5]},
    )
    box = gymnasium.spaces.Box(-np.inf, np.inf, (2,), dtype=np.float64)
    episodes = [[((40.0, 9.0), 0.5)], [((60.0, 1.0), 0.5)], [((60.0, 9.0), 1.0)]]
    dataset = minari_dataset(tmp_path, episodes, box, (0.0, 0.0))
    assert statistics(dataset, dropping).counts.tolist() == [0, 1, 1, 1]
    import h5py

    (stored,) = tmp_path.rglob("main_data.hdf5")
    with h5py.File(stored, "r+") as file:
        shortened = file["episode_1/observations"][:, :1]
        del file["episode_1/observations"]
        file["episode_1/observations"] = shortened
    assert statistics(dataset, dropping).counts.tolist() == [0, 1, 0, 1]


# A person's rows in several files


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (pa.int64(), pa.decimal128(30, 3)),
        (pa.int32(), pa.float32()),
        (pa.decimal128(30, 1), pa.decimal256(60, 9)),
        (pa.string(), pa.int64()),
        (pa.large_string(), pa.uint64()),
        (pa.dictionary(pa.int8(), pa.string()), pa.float64()),
        (pa.timestamp("s"), pa.timestamp("ns")),
        (pa.timestamp("ms"), pa.timestamp("us", "UTC")),
        (pa.timestamp("us", "Europe/Berlin"), pa.timestamp("s", "America/New_York")),
        (pa.date32(), pa.timestamp("ms")),
        (pa.date32(), pa.date64()),
    ],
)
def test_files_with_different_types_have_the_same_persons(tmp_path, first, second):
    """The second half of each person's rows is in the second file, with another physical type."""
    times = pa.types.is_temporal(first)
    for name, kind, steps in (("a", first, [1, 2]), ("b", second, [3, 4])):
        ids = [11, 12, 13]
        if times:
            persons = pa.array(
                [datetime(2026, 1, day, tzinfo=UTC) for day in ids], pa.timestamp("s", "UTC")
            )
            persons = persons.cast(pa.timestamp("s")) if not getattr(kind, "tz", None) else persons
        else:
            persons = pa.array(ids)
        persons = (
            persons.cast(pa.string()).dictionary_encode()
            if pa.types.is_dictionary(kind)
            else persons.cast(kind)
        )
        table = pa.table(
            {
                "person": pa.concat_arrays([persons, persons]).take(pa.array([0, 3, 1, 4, 2, 5])),
                "step": steps * 3,
                "state": [0, 1] * 3,
                "reward": [0.5] * 6,
            }
        )
        pq.write_table(table, tmp_path / f"{name}.parquet")
    one_each = make_study(STATES, privacy={"unit": "person"}, data={"person": "person"})
    result = statistics(tmp_path, one_each)
    assert (result.persons, result.trajectories, result.rows) == (3, 3, 12)


# The planted mistakes


def test_a_column_cast_to_text_is_caught(monkeypatch, tmp_path):
    """The text of a decimal would have the scale of its column, which one row determines."""
    real = cells.canonical_texts

    def by_column(column):
        column = cells.decode_column(column)
        if pa.types.is_decimal(column.type):
            return column.cast(pa.string()), cells._null_status(column)
        return real(column)

    def decimals(rows):
        return pa.table(
            [
                pa.array([None if c is None else Decimal(str(c)) for c in column])
                for column in zip(*rows, strict=True)
            ],
            names=list(HEADING),
        )

    check(decimals, "trajectory", [Decimal("70.0"), Decimal("0.10")])
    monkeypatch.setattr(cells, "canonical_texts", by_column)
    with pytest.raises(AssertionError):
        check(decimals, "trajectory", [Decimal("70.0")])


def test_a_type_inferred_from_all_rows_is_caught(monkeypatch, tmp_path):
    """The planted mistake: ids are numbers if the whole column is, and texts of doubles if not."""
    real = cells.ids

    def inferring(column, id_type):
        texts = cells.decode_column(column)
        if cells.is_text(texts.type):
            try:
                return real(texts.cast(pa.int64()), id_type)
            except pa.ArrowInvalid:
                zeros = pa.array([f"{t.as_py()}.0" for t in texts], pa.string())
                return real(zeros, id_type)
        return real(column, id_type)

    monkeypatch.setattr(cells, "ids", inferring)
    with pytest.raises(AssertionError):
        check(as_csv_file(tmp_path), "trajectory", ["a"])


@pytest.mark.parametrize("odd", [datetime(2020, 1, 2), date(2020, 1, 2), "x", 1.5, b"b"])
def test_a_category_does_not_affect_the_others(odd):
    """With one type for all categories, 1.5 would make 2^53 + 1 invalid."""
    fine = pd.Timestamp("2020-01-01 00:00:00.000000001")  # finer than a microsecond: invalid
    study = make_study(2, data={"invalid": "drop-unit", "step_type": "datetime"})

    def read(ids, steps):
        frame = pd.DataFrame({"state": [0] * 3, "reward": 0.5})
        for name, column in (("trajectory", ids), ("step", steps)):
            categories = pd.Index([*dict.fromkeys(column)], dtype=object)
            codes = [categories.get_loc(cell) for cell in column]
            frame[name] = pd.Series(pd.Categorical.from_codes(codes, categories))
        return statistics(frame, study)

    assert read([2**53 + 1, 2**53 + 3, odd], [TIMES[0]] * 3).trajectories >= 2
    assert read([1, 2, 3], [TIMES[0], fine, odd]).units_dropped >= 1


def test_a_long_cell_takes_linear_time():
    long = pa.array(["1" * 10**6 + "x", "0" * 10**6 + "x"])
    assert cells.numbers(long).failed.all()
    assert cells.whole_numbers(long).failed.all()


def test_an_id_with_a_decimal_comma_does_not_depend_on_others(tmp_path):
    study = make_study(2, data={"invalid": "drop-unit", "id_type": "integer", "decimal": ","})
    for odd in ("", "8;x;0;0,5\n", "x;0;0;0,5\n"):
        (tmp_path / "d.csv").write_text("trajectory;step;state;reward\n7,0;0;0;0,5\n" + odd)
        assert statistics(tmp_path / "d.csv", study).trajectories == 0
