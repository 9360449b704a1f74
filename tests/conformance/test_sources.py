"""One suite for every source: the same rows give the same bits, the same mistakes the same words.

Sources are made by ``oracles/sources.py``: files, frames, databases (a real PostgreSQL server) and
Minari datasets.
"""

import hashlib
import json
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import duckdb
import gymnasium
import numpy as np
import pytest
from hypothesis import given, settings

import privalue as pv
from oracles import literal
from oracles.reading import batches, opened, statistics
from oracles.sources import (
    HEADING,
    RECORDINGS,
    SOURCES,
    STATES,
    TABLES,
    Place,
    arrow,
    as_csv,
    as_duckdb,
    as_postgres,
    as_sqlite,
    minari_dataset,
)
from oracles.studies import episodes, rows_of, study
from privalue.cli import run
from privalue.errors import MissingComponentError, UnavailableError
from privalue.simulation import rollout

EPISODES = [
    [(0, 0.0), (1, 0.25), (0, 0.5)],
    [(2, 1.0)],
    [(1, 0.0), (2, 7.0), (2, -3.0), (1, 0.125)],
    [(0, 1 / 3)],
]
STUDY = study(STATES)
DATABASES = ["duckdb", "sqlite", "postgresql"]


def twin(data, described=STUDY):
    """m, the counts and the sums of returns, from the definitions."""
    values = described.values
    bounds = values.return_bounds
    return literal.first_visit(data, values.discount, values.rewards, bounds, STATES)[:3]


def found(data, described=STUDY):
    result = statistics(data, described)
    return result.trajectories, result.counts.tolist(), result.return_steps.tolist()


def shuffled(rows, seed=3):
    rows = list(rows)
    random.Random(seed).shuffle(rows)
    return rows


def complaint(data, described=STUDY, kind=pv.DataError):
    with pytest.raises(kind) as caught:
        statistics(data, described)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# The same rows give the same bits


@pytest.mark.parametrize("source", SOURCES)
def test_the_statistics_are_those_of_the_literal_twin(place, source):
    assert found(SOURCES[source](place, HEADING, rows_of(EPISODES))) == twin(EPISODES)


@pytest.mark.parametrize("source", SOURCES)
def test_the_comparison_notices_a_single_changed_cell(place, source):
    changed = rows_of(EPISODES)
    changed[4] = (2, 0, 1, 2**-20)  # was 0
    assert found(SOURCES[source](place, HEADING, changed)) != twin(EPISODES)
    moved = rows_of(EPISODES)
    moved[3] = (1, 0, 0, 1.0)  # was in state 2
    assert found(SOURCES[source](place, HEADING, moved)) != twin(EPISODES)


@pytest.mark.parametrize("source", SOURCES)
@settings(max_examples=8)
@given(data=episodes(STATES, most=4, longest=5))
def test_random_episodes(start_server, source, data):
    with tempfile.TemporaryDirectory() as folder:
        made = SOURCES[source](Place(Path(folder), start_server), HEADING, rows_of(data))
        assert found(made) == twin(data)


@pytest.mark.parametrize("source", TABLES)
def test_rows_may_come_in_any_order(place, source):
    made = TABLES[source](place, HEADING, shuffled(rows_of(EPISODES)))
    assert found(made) == twin(EPISODES)


@pytest.mark.parametrize("source", TABLES)
def test_other_columns_are_ignored_and_names_are_mapped(place, source):
    rows = [('note, "quoted"', *row) for row in shuffled(rows_of(EPISODES))]
    made = TABLES[source](place, ("some note", "stay id", "Bloc", 'the "state"', "reward"), rows)
    names = {"trajectory": "stay id", "step": "Bloc", "state": 'the "state"'}
    assert found(made, study(STATES, data=names)) == twin(EPISODES)


@pytest.mark.parametrize("source", TABLES)
def test_with_persons_a_trajectory_is_the_pair_of_both_ids(place, source):
    rows = [(f"p{t // 2}", t % 2, *rest) for t, *rest in shuffled(rows_of(EPISODES))]
    made = TABLES[source](place, ("person", *HEADING), rows)
    both = {"person": "person", "trajectory": "trajectory"}
    assert found(made, study(STATES, data=both)) == twin(EPISODES)


@pytest.mark.parametrize("source", TABLES)
def test_a_heading_that_the_study_does_not_name_changes_nothing(place, source):
    """The unit is a trajectory: a column that happens to be called person is not read."""
    rows = [(f"p{at}", *row) for at, row in enumerate(shuffled(rows_of(EPISODES)))]
    made = TABLES[source](place, ("person", *HEADING), rows)
    assert found(made) == twin(EPISODES)


@pytest.mark.parametrize("source", TABLES)
@pytest.mark.parametrize("unit", ["person", "trajectory"])
def test_each_person_has_one_trajectory_where_the_study_names_no_other(place, source, unit):
    rows = [(f"p{t}", 7, *rest) for t, *rest in shuffled(rows_of(EPISODES))]
    rows = [(person, at, *rest) for at, (person, _, *rest) in enumerate(rows)]
    made = TABLES[source](place, ("patient", *HEADING), rows)
    one_each = study(STATES, privacy={"unit": unit}, data={"person": "patient"})
    assert found(made, one_each) == twin(EPISODES)


@pytest.mark.parametrize("source", TABLES)
def test_of_a_person_the_first_trajectories_count(place, source):
    rows = [(f"p{t // 2}", t % 2, *rest) for t, *rest in shuffled(rows_of(EPISODES))]
    protected = study(STATES, privacy={"unit": "person", "max_trajectories_per_person": 1})
    made = TABLES[source](place, ("person", *HEADING), rows)
    assert found(made, protected) == twin(EPISODES[::2])
    nameless = TABLES[source](place, HEADING, rows_of(EPISODES))
    complaints = ("has no column 'person'", "person is missing")  # of a table, of a dict
    assert any(words in complaint(nameless, protected) for words in complaints)


@pytest.mark.parametrize("source", RECORDINGS)
def test_a_recording_names_no_person(place, source):
    protected = study(STATES, privacy={"unit": "person", "max_trajectories_per_person": 1})
    made = RECORDINGS[source](place, HEADING, rows_of(EPISODES))
    assert "has no column 'person'" in complaint(made, protected)


@pytest.mark.parametrize("source", ["parquet", "duckdb", "sqlite", *RECORDINGS])
def test_progress_knows_how_many_rows_there_are(place, source):
    seen = []
    made = SOURCES[source](place, HEADING, rows_of(EPISODES))
    statistics(made, STUDY, progress=lambda rows, total: seen.append((rows, total)))
    assert seen[-1] == (9, 9)


# The same mistakes get the same words

MISSING = "every row needs one"
STATES_ARE = "states are the whole numbers 0 to 3, or what [states] labels lists"
MISTAKES = {
    "missing state": ((9, 0, None, 1.0), f"row 10: state is missing; {MISSING}"),
    "missing reward": ((9, 0, 0, None), f"row 10: reward is missing; {MISSING}"),
    "missing step": ((9, None, 0, 0.0), "row 10: step is missing; every row needs one"),
    "missing trajectory": ((None, 0, 0, 0.0), "row 10: trajectory is missing; every row needs one"),
    "bad state": (
        (9, 0, 7, 0.0),
        f"row 10: state = 7 is not a state: {STATES_ARE}",
    ),
    "negative state": (
        (9, 0, -1, 0.0),
        f"row 10: state = -1 is not a state: {STATES_ARE}",
    ),
    "text in state": (
        (9, 0, "ward", 0.0),
        f"row 10: state = ward is not a state: {STATES_ARE}",
    ),
    "NaN reward": (
        (9, 0, 0, float("nan")),
        "row 10: reward = nan must be a finite number; if that means missing, set [data] missing = "
        '["", "nan"]',
    ),
    "infinite reward": ((9, 0, 0, float("inf")), "row 10: reward = inf must be a finite number"),
    "text in reward": ((9, 0, 0, "x"), "row 10: reward = x must be a finite number"),
    "text in step": (
        (9, "noon", 0, 0.0),
        "row 10: step = noon must be a whole number (within 64 bits); [data] step_type says what "
        'steps are: "integer", "number", "date" or "datetime"',
    ),
    "duplicate step": (
        (2, 1, 0, 0.0),
        "row 10: step = 1 appears twice in trajectory 2 (the other is PLACE, row 6)",
    ),
}
# A dataset of Minari holds whole numbers and numbers, in order.
RECORDED = ["bad state", "negative state", "NaN reward", "infinite reward"]
# A number that is none is missing; only a text can say nan.
TEXTS = {"csv", "csv.gz"}


@pytest.mark.parametrize(
    ("source", "mistake"),
    [(s, mistake) for s in TABLES if s != "list of batches" for mistake in MISTAKES]
    + [(source, mistake) for source in RECORDINGS for mistake in RECORDED],
)
def test_a_mistake_is_named_alike_wherever_it_stands(place, source, mistake):
    row, expected = MISTAKES[mistake]
    if mistake == "NaN reward" and source not in TEXTS:
        expected = MISTAKES["missing reward"][1]
    message = complaint(SOURCES[source](place, HEADING, [*rows_of(EPISODES), row]))
    message = message.replace("line 11", "row 10").replace("line 7", "row 6")  # of CSV
    where = message[: message.index(", row ")]
    words = message.removeprefix(f"{where}, ").replace(where, "PLACE").replace("'", "")
    assert words == expected
    assert where.startswith(
        {
            "arrow": "the pyarrow Table",
            "pandas": "the pandas DataFrame",
            "polars": "the polars DataFrame",
            "polars lazy": "the polars LazyFrame",
            "dict of lists": "the dict",
            "dict of arrays": "the dict",
            "list of dicts": "the list of rows",
            "postgresql": "postgresql://",
        }.get(source, str(place.folder))
    )
    assert where.endswith(", table rows") == (source in DATABASES)


@pytest.mark.parametrize("source", [source for source in TABLES if source != "list of dicts"])
def test_a_missing_column_is_named_alike(place, source):
    made = TABLES[source](place, HEADING[:3], [row[:3] for row in rows_of(EPISODES)])
    assert complaint(made).endswith(
        " has no column 'reward'; it has 'trajectory', 'step', 'state': name the right one: "
        '[data] reward = "...", or in Python columns={"reward": "..."}'
    )


@pytest.mark.parametrize("source", TABLES)
def test_a_table_without_rows(place, source):
    made = TABLES[source](place, HEADING, [])
    assert complaint(made) == "the data has no rows; at least one trajectory is needed"


@pytest.mark.parametrize("source", RECORDINGS)
def test_a_recording_without_episodes(place, source):
    made = RECORDINGS[source](place, HEADING, [])
    assert complaint(made) == "the data has no rows; at least one trajectory is needed"


@pytest.mark.parametrize("source", DATABASES)
def test_a_mistake_in_a_later_batch_has_its_row(place, source):
    rows = [(t, 0, 1, 0.5) for t in range(40_000)]
    rows[33_332] = (33_332, 0, 1, "x")
    made = TABLES[source](place, HEADING, rows)
    assert complaint(made).endswith("table rows, row 33333: reward = 'x' must be a finite number")


# Naming what is in a database


@pytest.fixture(params=DATABASES)
def ward(request, place):
    """A database with a table: its address, and a way to change it."""
    kind = request.param
    address = str(TABLES[kind](place, HEADING, rows_of(EPISODES)))

    def execute(*statements):
        if kind == "postgresql":
            import psycopg

            connection = psycopg.connect(address, autocommit=True)
        else:
            connection = {"duckdb": duckdb, "sqlite": sqlite3}[kind].connect(address)
        with closing(connection):
            for statement in statements:
                connection.execute(statement)
            connection.commit()

    execute.kind = kind
    return address, execute


def test_tables_views_and_queries(ward):
    address, execute = ward
    execute(
        'CREATE VIEW "The Ward" AS SELECT * FROM rows WHERE trajectory < 2',
        "CREATE TABLE other (trajectory integer)",
    )
    assert found(f"{address}::rows") == twin(EPISODES)
    assert found(f"{address}::ROWS") == twin(EPISODES)
    assert found(f'{address}::"rows"') == twin(EPISODES)
    assert found(f"{address}::The Ward") == twin(EPISODES[:2])
    assert found(f'{address}::"the ward"') == twin(EPISODES[:2])
    query = """
        select trajectory, step, 3 - state as state, reward + 0 as reward, 'x' as note
        from rows where trajectory >= 2
    """
    mirrored = [[(3 - state, reward) for state, reward in episode] for episode in EPISODES[2:]]
    assert found(f"{address}::{query}") == twin(mirrored)
    assert found(f"{address}::{query} ; ") == twin(mirrored)
    assert found(f"{address}::WITH few AS ({query}) SELECT * FROM few") == twin(mirrored)


def test_a_table_must_be_chosen_where_there_are_several(ward):
    address, execute = ward
    execute("CREATE TABLE other (a integer)")
    message = complaint(address)
    assert "holds 2 tables: 'other', 'rows'; name one after ::" in message
    if execute.kind != "postgresql":
        assert message.endswith(f"as in {address}::other")
    assert "has no table 'row'; it has 'other', 'rows'; did you mean 'rows'?" in complaint(
        f"{address}::row"
    )


@pytest.mark.parametrize("ward", ["duckdb", "sqlite"], indirect=True)
def test_a_database_without_tables(ward):
    address, execute = ward
    execute("DROP TABLE rows")
    assert complaint(address).endswith(" holds no table; one row a step is needed")


def test_a_query_that_fails_is_reported_in_one_line(ward):
    address, _ = ward
    for query in ("SELECT * FROM nowhere", "SELECT FROM WHERE", "WITH x"):
        assert " cannot be read: " in complaint(f"{address}::{query}")
    two = complaint(f"{address}::SELECT * FROM rows; SELECT * FROM rows")
    assert " cannot be read: " in two or "the query must be a single statement" in two
    assert "the query has no column 'trajectory'; it has " in complaint(f"{address}::SELECT 1 AS a")


def test_a_column_that_stands_twice_in_a_query(ward):
    address, _ = ward
    message = complaint(f"{address}::SELECT a.*, b.step FROM rows a JOIN rows b USING (trajectory)")
    assert message.endswith("the query has the column 'step' more than once; rename one")


def test_a_query_never_writes(ward):
    address, execute = ward
    before = found(f"{address}::rows")
    for statement in (
        "WITH x AS (SELECT 1) DELETE FROM rows",
        "SELECT * FROM rows; DELETE FROM rows",
        "WITH gone AS (DELETE FROM rows RETURNING *) SELECT * FROM gone",
    ):
        complaint(f"{address}::{statement}")
    if execute.kind == "postgresql":
        execute(
            "CREATE FUNCTION sneak() RETURNS integer LANGUAGE sql AS 'DELETE FROM rows RETURNING 1'"
        )
        message = complaint(f"{address}::SELECT *, sneak() FROM rows")
        assert "read-only transaction" in message
    else:
        digest = hashlib.sha256(Path(address).read_bytes()).digest()
        found(address)
        assert hashlib.sha256(Path(address).read_bytes()).digest() == digest
        assert [path.name for path in Path(address).parent.iterdir()] == [Path(address).name]
    assert found(f"{address}::rows") == before


def test_schemas(ward):
    address, execute = ward
    if execute.kind == "sqlite":  # has none
        assert "has no table 'clinic.rows'" in complaint(f"{address}::clinic.rows")
        return
    execute(
        "CREATE SCHEMA IF NOT EXISTS clinic",
        "DROP TABLE IF EXISTS clinic.rows",
        "CREATE TABLE clinic.rows AS SELECT * FROM rows WHERE trajectory = 0",
    )
    try:
        assert found(f"{address}::clinic.rows") == twin(EPISODES[:1])
        assert found(f'{address}::"clinic"."rows"') == twin(EPISODES[:1])
        assert found(f"{address}::rows") == twin(EPISODES)
    finally:
        execute("DROP TABLE clinic.rows")


def test_a_file_is_known_by_its_contents(tmp_path):
    for write in (as_duckdb, as_sqlite):
        made = write(Place(tmp_path), HEADING, rows_of(EPISODES))
        for name in ("a.db", "b::c.sqlite", "memory.duckdb", "no ending", "it's 100%?#.ddb"):
            renamed = made.rename(tmp_path / name)
            assert found(renamed) == found(str(renamed)) == twin(EPISODES)
            assert found(f"{renamed}::rows") == twin(EPISODES)
            made = renamed


def test_files_that_are_no_database(tmp_path):
    (tmp_path / "trial.db").write_text("not a database")
    (tmp_path / "trial.duckdb").write_bytes(b"x" * 8 + b"DUCK" + b"x" * 9000)
    (tmp_path / "trial.sqlite").write_bytes(b"SQLite format 3\0" + b"x" * 9000)
    (tmp_path / "empty.sqlite3").write_bytes(b"")
    table = as_csv(Place(tmp_path), HEADING, rows_of(EPISODES))
    for name, words in {
        "trial.db": "is neither a DuckDB nor an SQLite file",
        "trial.db::rows": "is neither a DuckDB nor an SQLite file",
        "trial.duckdb": "cannot be opened: ",
        "trial.sqlite": "cannot be read: ",
        "empty.sqlite3": "is neither a DuckDB nor an SQLite file",
        "absent.sqlite": "does not exist; give a DuckDB or SQLite file",
        "absent.duckdb::rows": "does not exist; give a DuckDB or SQLite file",
        f"{table.name}::rows": "is not a database; only a DuckDB or SQLite file",
        "absent::rows": "does not exist",
        f"absent::SELECT {'x' * 5000}": "cannot be read: File name too long",
    }.items():
        assert words in complaint(f"{tmp_path}/{name}")


# What only one of them does


def test_a_sqlite_column_may_hold_numbers_and_texts(tmp_path):
    rows = [(t, s, str(state), str(reward)) for t, s, state, reward in rows_of(EPISODES)]
    rows[1::2] = rows_of(EPISODES)[1::2]
    path = tmp_path / "mixed.sqlite"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE rows (trajectory, step, state, reward)")  # as they are
        connection.executemany("INSERT INTO rows VALUES (?, ?, ?, ?)", rows)
    assert found(path) == twin(EPISODES)


@pytest.mark.parametrize(
    ("ids", "different"),
    [
        ([1, "1", 1.0], 1),
        (["a", "b", 3], 3),
        (["a", 2.0, "2"], 2),
        ([*range(20_000), "x", "7"], 20_001),
        ([2**62 + 1, 2**62 + 2, str(2**62 + 1), 7, 7.0], 3),
        (["1.0", 1, "01"], 3),
    ],
)
def test_sqlite_ids_are_their_canonical_texts(tmp_path, ids, different):
    path = tmp_path / "mixed.sqlite"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE rows (trajectory, step, state, reward)")
        rows = [(each, at) for at, each in enumerate(ids)]
        connection.executemany("INSERT INTO rows VALUES (?, ?, 0, 0)", rows)
    assert statistics(path, STUDY).trajectories == different


def test_a_sqlite_cell_that_is_no_text_and_no_number(tmp_path):
    path = as_sqlite(Place(tmp_path), HEADING, [(0, 0, 0, 0.0), (0, 1, 0, b"\x01")])
    assert "table rows, row 2: reward = \"x'01'\" must be a finite number" in complaint(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE rows SET reward = CAST(x'ff' AS TEXT) WHERE step = 1")
    assert ", table rows, row 2: reward = b'" in complaint(path)


def test_sqlite_rows_are_numbered_as_they_stand_whatever_the_indexes(tmp_path):
    rows = [(9, 0, 0, 0.0, "x" * 200), (5, 0, 8, 0.0, "x" * 200), (7, 0, 0, 0.0, "x" * 200)]
    path = as_sqlite(Place(tmp_path), (*HEADING, "note"), rows)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE INDEX covers ON rows (trajectory, step, state, reward)")
        columns = ", ".join(HEADING)
        assert connection.execute(f"SELECT {columns} FROM rows").fetchone()[0] == 5
    assert ", table rows, row 2: state = 8 " in complaint(path)


def test_a_sqlite_file_is_read_with_its_log_and_left_as_it_is(tmp_path):
    path = as_sqlite(Place(tmp_path), HEADING, rows_of(EPISODES[:1]))
    copy = tmp_path / "copy.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        with connection:
            rows = rows_of(EPISODES)[len(EPISODES[0]) :]
            connection.executemany("INSERT INTO rows VALUES (?, ?, ?, ?)", rows)
        for ending in ("", "-wal"):  # as a crash would leave them
            shutil.copy(f"{path}{ending}", f"{copy}{ending}")
    parts = [copy, tmp_path / "copy.sqlite-wal"]
    before = [hashlib.sha256(part.read_bytes()).digest() for part in parts]
    assert found(copy) == twin(EPISODES)
    assert [hashlib.sha256(part.read_bytes()).digest() for part in parts] == before


def test_duckdb_types(tmp_path):
    path = tmp_path / "typed.duckdb"
    with closing(duckdb.connect(path)) as connection:
        connection.register("made", arrow(HEADING, rows_of(EPISODES)))
        connection.execute("""
            CREATE TABLE rows AS SELECT
                CAST(md5(CAST(trajectory AS VARCHAR)) AS UUID) AS trajectory,
                TIMESTAMP '2026-01-01' + to_hours(CAST(step AS BIGINT)) AS step,
                CAST(state AS DECIMAL(9, 3)) AS state, reward,
                CAST(step AS HUGEINT) AS huge, CAST(trajectory AS DECIMAL(30, 2)) AS stay,
                CAST('s' || CAST(state AS VARCHAR) AS ENUM ('s0', 's1', 's2', 's3')) AS label,
                CAST(CAST(reward * 1024 AS INTEGER) AS DECIMAL(18, 6)) AS points
            FROM made
        """)
        connection.execute("CREATE VIEW seen AS SELECT * FROM rows")
    timed = study(STATES, data={"step_type": "datetime"})
    assert found(f"{path}::rows", timed) == twin(EPISODES)
    others = study(
        states={"labels": [f"s{number}" for number in range(STATES)]},
        data={"trajectory": "stay", "step": "huge", "state": "label"},
    )
    assert found(f"{path}::seen", others) == twin(EPISODES)
    points = study(
        STATES, rewards=(-5000, 8000), data={"reward": "points", "step_type": "datetime"}
    )
    scaled = [[(s, float(round(r * 1024))) for s, r in episode] for episode in EPISODES]
    assert found(f"{path}::rows", points) == twin(scaled, points)
    with closing(duckdb.connect(path)) as connection:
        connection.execute("UPDATE rows SET state = 1.5 WHERE huge = 2")
    message = complaint(f"{path}::rows", timed)
    assert "table rows, row 3: state = Decimal('1.500') is not a state" in message


def test_a_duckdb_file_may_be_read_by_several_and_not_while_it_is_written(tmp_path):
    path = as_duckdb(Place(tmp_path), HEADING, rows_of(EPISODES))
    chunks = batches(path, STUDY)
    assert next(chunks).rows.num_rows == 9
    assert found(path) == twin(EPISODES)
    chunks.close()
    with closing(duckdb.connect(path)) as connection:
        assert "hand over a relation of theirs" in complaint(path)
        assert found(connection.sql("FROM rows")) == twin(EPISODES)
    writer = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print(1, flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", writer, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout.readline()
        assert f"{path} cannot be opened: " in complaint(path)
        process.communicate(b"\n")
    assert found(path) == twin(EPISODES)


POSTGRES_TYPES = """
    CREATE TYPE {0}.place AS ENUM ('s0', 's1', 's2', 's3');
    CREATE TABLE {0}.typed AS SELECT
        md5(trajectory::text)::uuid AS trajectory,
        timestamptz '2026-01-01 00:00+02' + step * interval '1 hour' AS step,
        state::numeric(9, 3) AS state, reward,
        CASE WHEN step % 2 = 0 THEN trajectory::numeric ELSE trajectory::numeric(9, 2) END AS stay,
        step::int2 AS small, date '2026-01-01' + step::int4 AS day,
        ('s' || state)::{0}.place AS label, state::int4 AS medium,
        (reward * 1024)::numeric AS points, reward::float4 AS rough,
        state::text::char(8) AS padded
    FROM {0}.rows
"""


def test_postgres_types(place):
    address = as_postgres(place, HEADING, rows_of(EPISODES))
    schema = address.rpartition("%3D")[2]
    place.server().execute(POSTGRES_TYPES.format(schema))
    typed = f"{address}::typed"
    timed = {"step_type": "datetime"}
    assert found(typed, study(STATES, data=timed)) == twin(EPISODES)
    labels = {"labels": [f"s{number}" for number in range(STATES)]}
    for names in (
        {"trajectory": "stay", "step": "small", "state": "medium"},
        {"trajectory": "stay", "step": "day", "state": "padded", "step_type": "date"},
    ):
        assert found(typed, study(STATES, data=names)) == twin(EPISODES)
    assert found(typed, study(states=labels, data={"state": "label", **timed})) == twin(EPISODES)
    points = study(STATES, rewards=(-5000, 8000), data={"reward": "points", **timed})
    scaled = [[(s, float(f"{r * 1024:.15g}")) for s, r in episode] for episode in EPISODES]
    assert found(typed, points) == twin(scaled, points)
    rough = [[(s, float(str(np.float32(r)))) for s, r in episode] for episode in EPISODES]
    assert found(typed, study(STATES, data={"reward": "rough", **timed})) == twin(rough)
    for bad, words in {
        "points = 'NaN' WHERE small = 2": "reward is missing",
        "points = 'Infinity' WHERE small = 2": "must be a finite number",
        "state = 1.5 WHERE small = 2": "state = '1.5' is not a state",
        "step = 'infinity' WHERE small = 2": "step = 'infinity' must be a datetime",
    }.items():
        place.server().execute(f"CREATE TABLE {schema}.bad AS SELECT * FROM {schema}.typed")
        place.server().execute(f"UPDATE {schema}.bad SET {bad}")
        names = "trajectory, step, state, points AS reward"
        query = f"{address}::SELECT {names} FROM bad ORDER BY small DESC"
        message = complaint(query, study(STATES, data=timed))
        assert words in message
        place.server().execute(f"DROP TABLE {schema}.bad")


def test_postgres_casts_in_a_query_are_no_separators(place):
    address = as_postgres(place, HEADING, rows_of(EPISODES))
    query = "SELECT trajectory, step::int4, state::numeric, reward::text AS reward FROM rows"
    assert found(f"{address}::{query}") == twin(EPISODES)
    assert found(f"{address.replace('postgresql', 'postgres')}::rows") == twin(EPISODES)
    assert found(f"{address.replace('keeper@', 'keeper:a::b@')}::rows") == twin(EPISODES)
    assert complaint("postgresql://keeper@[::1]:1/none::rows", kind=UnavailableError).startswith(
        "postgresql://[::1]:1/none: the server does not answer ("
    )


def test_a_server_that_does_not_answer_is_exit_7_and_one_that_refuses_is_exit_3(place, capsys):
    address = as_postgres(place, HEADING, rows_of(EPISODES))
    (place.folder / "study.toml").write_text(TOML)
    command = ["inspect", str(place.folder / "study.toml"), "--data"]
    nowhere = f"postgresql://keeper@/postgres?host={quote(str(place.folder), safe='')}::rows"
    for gone in (nowhere, "postgresql://keeper@127.0.0.1:1/postgres::rows"):
        assert run([*command, gone]) == 7
        assert "the server does not answer" in capsys.readouterr().err
    for refused in (
        address.replace("/postgres?", "/no-such-database?") + "::rows",
        address.replace("keeper@", "no-such-user@") + "::rows",
        f"{address}::no_such_table",
        f"{address}::SELECT 1/0 AS trajectory",
    ):
        assert run([*command, refused]) == 3, refused
        assert "does not answer" not in capsys.readouterr().err


def test_a_server_that_goes_away_between_rows_is_no_answer(place):
    address = as_postgres(place, HEADING, [(t, 0, 1, 0.5) for t in range(50_000)])
    chunks = batches(address, STUDY)
    next(chunks)
    place.server().execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE state = 'idle in transaction' AND pid <> pg_backend_pid()"
    )
    with pytest.raises(UnavailableError, match=r"the server does not answer .*; try again"):
        for _ in chunks:
            pass


def test_postgres_rows_come_in_batches_and_unread_ones_are_left(place):
    address = as_postgres(place, HEADING, [(t, 0, 1, 0.5) for t in range(50_000)])
    chunks = batches(address, STUDY)
    assert 0 < next(chunks).rows.num_rows < 20_000
    chunks.close()
    assert statistics(address, STUDY).trajectories == 50_000
    query = "SELECT trajectory, step, state, reward / (40000 - trajectory) AS reward FROM rows"
    message = complaint(f"{address}::{query}")
    assert message.endswith("the query, row 32769 or later, cannot be read: division by zero")


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://nobody:s3cr::et@{host}/none::rows",
        "postgresql://nobody:s3cr%3A%3Aet@{host}/none",
        "postgresql://nobody@{host}/none?password=s3cr::rows",
        "postgresql://nobody:s3cr/et@{host}/none::rows",
        "postgresql://nobody:s3cr@et@{host}/none::rows",
        "postgresql://nobody:s3cr?et@{host}/none::rows",
        "postgresql://nobody:s3cr#et@{host}/none::rows",
        "postgresql://nobody:12/s3cr@{host}/none::rows",
        "postgresql://127.0.0.1:s3cr/none::rows",
        "postgresql://nobody:s3cr@{host}:port/none::rows",
        "postgresql://nobody:s3cr@[::1]:1/none::rows",
        "postgresql://nobody:s3cr@{host}/none?no=good",
    ],
)
def test_no_password_is_ever_shown(place, address, capsys):
    written = address.format(host=quote(str(place.server().folder), safe=""))
    message = complaint(written, kind=(pv.DataError, UnavailableError))
    assert "s3cr" not in message
    assert "nobody:" not in message
    (place.folder / "study.toml").write_text(TOML)
    assert run(["inspect", str(place.folder / "study.toml"), "--data", written]) in {3, 7}
    said = capsys.readouterr()
    assert "s3cr" not in said.out + said.err


def test_what_is_not_installed_is_said(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingComponentError, match=r"pip install 'psycopg\[binary\]'"):
        statistics("postgresql://somewhere/db::rows", STUDY)
    made = minari_dataset(tmp_path, EPISODES, "hdf5").storage.data_path.parent
    monkeypatch.setitem(sys.modules, "minari", None)
    for data in (made, str(made), "minari:toy/trial-v0"):
        with pytest.raises(MissingComponentError, match=r"pip install 'minari\[hdf5\]'"):
            statistics(data, STUDY)


# Minari


@pytest.mark.parametrize("data_format", ["hdf5"])
def test_a_minari_dataset_by_name_by_folder_and_as_an_object(monkeypatch, tmp_path, data_format):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    dataset = minari_dataset(tmp_path, EPISODES, data_format)
    for data in (
        f"minari:{dataset.id}",
        dataset,
        dataset.storage.data_path,
        str(dataset.storage.data_path.parent),
    ):
        assert found(data) == twin(EPISODES)
    assert "minari:toy/nothing-v0 is not among the local Minari datasets" in complaint(
        "minari:toy/nothing-v0"
    )


@pytest.mark.parametrize("data_format", ["hdf5"])
def test_some_episodes_of_a_minari_dataset(tmp_path, data_format):
    import minari

    dataset = minari_dataset(tmp_path, EPISODES, data_format)
    long = dataset.filter_episodes(lambda episode: len(episode) > 1)
    assert found(long) == twin(EPISODES[::2])
    assert opened(long, STUDY).rows == 7
    backwards = minari.MinariDataset(dataset.storage, episode_indices=np.array([2, 0]))
    assert found(backwards) == twin(EPISODES[::2])
    twice = minari.MinariDataset(dataset.storage, episode_indices=np.array([0, 2, 0]))
    message = complaint(twice)
    assert f"minari:{dataset.id}, row 8: step = 0 appears twice in trajectory '0'" in message


@pytest.mark.parametrize("data_format", ["hdf5"])
def test_a_long_episode_is_read_to_its_end(tmp_path, data_format):
    """Of Arrow's batches Minari itself would take the first one only."""
    lengths = [70_000, 2, 40_000]
    data = [[(number, 1.0)] * length for number, length in enumerate(lengths)]
    made = minari_dataset(tmp_path, data, data_format)
    assert [chunk.rows.num_rows for chunk in batches(made, STUDY)] == [110_002]
    assert found(made) == twin(data)


@pytest.mark.parametrize("data_format", ["hdf5"])
def test_states_are_counted_from_the_first_of_the_space(tmp_path, data_format):
    spaces = gymnasium.spaces
    shifted = [[(state + 5, reward) for state, reward in episode] for episode in EPISODES]
    made = minari_dataset(tmp_path, shifted, data_format, spaces.Discrete(STATES, start=5), final=8)
    assert found(made) == twin(EPISODES)
    single = [[([state], reward) for state, reward in episode] for episode in EPISODES]
    made = minari_dataset(
        tmp_path, single, data_format, spaces.MultiDiscrete([STATES]), final=[STATES - 1]
    )
    assert found(made) == twin(EPISODES)
    below = minari_dataset(
        tmp_path, [[(4, 0.0)]], data_format, spaces.Discrete(STATES, start=5), final=8
    )
    assert "row 1: state = -1 is not a state" in complaint(below)


@pytest.mark.parametrize("data_format", ["hdf5"])
@pytest.mark.parametrize(
    ("space", "observation"),
    [
        (gymnasium.spaces.Box(0, 1, (1,)), np.zeros(1, np.float32)),
        (gymnasium.spaces.MultiDiscrete([3, 3]), [1, 1]),
    ],
    ids=["box", "pair"],
)
def test_observations_that_are_no_numbers_of_states(tmp_path, data_format, space, observation):
    made = minari_dataset(tmp_path, [[(observation, 0.0)]], data_format, space, final=observation)
    assert "they must be Discrete, one number per state" in complaint(made)


def test_minari_datasets_that_are_damaged(tmp_path):
    broken = minari_dataset(tmp_path, EPISODES, "hdf5").storage.data_path
    (broken / "main_data.hdf5").write_text("no HDF5")
    assert "episode 0 cannot be read as a Minari dataset: " in complaint(broken)
    (broken / "main_data.hdf5").unlink()
    assert "cannot be read as a Minari dataset: " in complaint(broken)


def test_importing_privalue_does_not_import_minari():
    loaded = (
        "import privalue, sys; sys.exit(bool({'minari', 'h5py', 'psycopg'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", loaded], check=False).returncode == 0


# Gymnasium


@pytest.mark.parametrize("data_format", ["hdf5"])
def test_a_rollout_and_its_recording_give_the_same(tmp_path, data_format):
    """The same episodes of FrozenLake, stepped through twice: as rows, and into Minari."""
    lake, seed, count = gymnasium.make("FrozenLake-v1"), 11, 25
    rows = rollout(lake, lambda state: state % 4, count, seed=seed)
    recorded, final = [], 15
    for number in range(count):
        state, _ = lake.reset(seed=seed if number == 0 else None)
        recorded.append([])
        over = False
        while not over:
            following, reward, ended, cut, _ = lake.step(state % 4)
            recorded[-1].append((state, reward))
            state, over = following, ended or cut
    dataset = minari_dataset(
        tmp_path, recorded, data_format, gymnasium.spaces.Discrete(16), final=final
    )
    described = study(16)
    table = arrow(HEADING, list(zip(*map(np.ndarray.tolist, columns_of(rows)), strict=True)))
    assert found(table, described) == found(dataset, described)
    assert statistics(dataset, described).rows == len(rows.state) > 100


def columns_of(rows):
    return [getattr(rows, name) for name in HEADING]


# The layout of the AI Clinician

STAYS = [
    # icustayid, bloc, charttime, state, action, mortality_90d
    (200003, 1, 7_230_000, 2, 11, 0),
    (200003, 2, 7_244_400, 1, 6, 0),
    (200003, 4, 7_273_200, 0, 0, 0),
    (200014, 1, 5_120_400, 3, 24, 1),
    (200014, 2, 5_134_800, 3, 24, 1),
    (200075, 1, 9_900_000, 0, 0, 0),
]
OUTCOMES = """
    SELECT icustayid, bloc, state,
        CASE WHEN bloc < max(bloc) OVER (PARTITION BY icustayid) THEN 0.0
             WHEN mortality_90d = 1 THEN -100.0 ELSE 100.0 END AS reward
    FROM rows
"""


@pytest.mark.parametrize("source", DATABASES)
def test_the_layout_of_the_ai_clinician(place, source):
    heading = ("icustayid", "bloc", "charttime", "state", "action", "mortality_90d")
    made = TABLES[source](place, heading, shuffled(STAYS))
    data = {"trajectory": "icustayid", "step": "bloc"}
    clinician = study(STATES, discount=0.99, rewards=(-100, 100), returns=(-100, 100), data=data)
    expected = [[(2, 0.0), (1, 0.0), (0, 100.0)], [(3, 0.0), (3, -100.0)], [(0, 100.0)]]
    assert found(f"{made}::{OUTCOMES}", clinician) == twin(expected, clinician)
    assert found(
        f"{made}::{OUTCOMES.replace('bloc, state', 'charttime AS bloc, state')}", clinician
    ) == twin(expected, clinician)


# The whole way

TOML = """
[privacy]
epsilon = 1.0
delta = 1e-6
unit = "trajectory"

[values]
discount = 0.9
rewards = [0.0, 1.0]

[states]
count = 4
"""


@pytest.mark.parametrize("source", [*DATABASES, *RECORDINGS])
def test_a_release_says_nothing_about_where_the_rows_are_from(place, source, capsys):
    folder = place.folder
    made = SOURCES[source](place, HEADING, rows_of(EPISODES))
    (folder / "study.toml").write_text(TOML)
    study_file, out = str(folder / "study.toml"), folder / "out"
    assert run(["inspect", study_file, "--data", str(made), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["counts"] == twin(EPISODES)[1]
    words = ["release", study_file, "--data", str(made), "--out", str(out), "--no-ledger"]
    assert run([*words, "--accept-useless"]) == 0
    written = (out / "release.json").read_text()
    for word in (str(made), folder.name, "postgresql", "minari", "keeper", "::"):
        assert word not in written
