"""One suite for every source: the same rows give the same bits, the same mistakes the same code.

Sources are made by ``oracles/sources.py``: files, frames, databases (a real PostgreSQL server) and
Minari datasets.
"""

import json
import random
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import duckdb
import gymnasium
import numpy as np
import pytest
from hypothesis import given, settings

from oracles import literal
from oracles.reading import batches, statistics
from oracles.refusals import refused
from oracles.repeats import cross
from oracles.sources import (
    HEADING,
    RECORDINGS,
    SOURCES,
    STATES,
    TABLES,
    Place,
    arrow,
    as_postgres,
    minari_dataset,
)
from oracles.studies import episodes, make_study, rows_of, study_file
from privalue.cli import run
from privalue.readers import is_query_result

EPISODES = [
    [(0, 0.0), (1, 0.25), (0, 0.5)],
    [(2, 1.0)],
    [(1, 0.0), (2, 7.0), (2, -3.0), (1, 0.125)],
    [(0, 1 / 3)],
]
STUDY = make_study(STATES)
DATABASES = ["duckdb", "sqlite", "postgresql"]


def twin(data, study=STUDY):
    """Return m, the counts and the sums of returns, computed from the definitions."""
    values = study.values
    bounds = values.return_bounds
    return literal.first_visit(data, values.discount, values.rewards, bounds, STATES)[:3]


def sums(data, study=STUDY):
    result = statistics(data, study)
    return result.trajectories, result.counts.tolist(), result.return_steps.tolist()


def shuffle(rows, seed=3):
    rows = list(rows)
    random.Random(seed).shuffle(rows)
    return rows


# The same rows give the same bits


@pytest.mark.parametrize("source", SOURCES)
def test_the_comparison_notices_a_single_changed_cell(place, source):
    changed = rows_of(EPISODES)
    changed[4] = (2, 0, 1, 2**-20)  # was 0
    assert sums(SOURCES[source](place, HEADING, changed)) != twin(EPISODES)
    moved = rows_of(EPISODES)
    moved[3] = (1, 0, 0, 1.0)  # was in state 2
    assert sums(SOURCES[source](place, HEADING, moved)) != twin(EPISODES)


@pytest.mark.parametrize("source", SOURCES)
@settings(max_examples=8)
@given(data=episodes(STATES, most=4, longest=5))
def test_random_episodes(start_server, source, data):
    with tempfile.TemporaryDirectory() as folder:
        source_data = SOURCES[source](Place(Path(folder), start_server), HEADING, rows_of(data))
        assert sums(source_data) == twin(data)


@pytest.mark.parametrize("source", TABLES)
def test_other_columns_are_ignored_and_names_are_mapped(place, source):
    rows = [('note, "quoted"', *row) for row in shuffle(rows_of(EPISODES))]
    data = TABLES[source](place, ("some note", "stay id", "Bloc", 'the "state"', "reward"), rows)
    names = {"trajectory": "stay id", "step": "Bloc", "state": 'the "state"'}
    assert sums(data, make_study(STATES, data=names)) == twin(EPISODES)


@pytest.mark.parametrize(("source", "unit"), cross(TABLES, ["person", "trajectory"]))
def test_a_person_without_a_trajectory_column_has_one_trajectory(place, source, unit):
    rows = [(f"p{t}", 7, *rest) for t, *rest in shuffle(rows_of(EPISODES))]
    rows = [(person, at, *rest) for at, (person, _, *rest) in enumerate(rows)]
    data = TABLES[source](place, ("patient", *HEADING), rows)
    one_each = make_study(STATES, privacy={"unit": unit}, data={"person": "patient"})
    assert sums(data, one_each) == twin(EPISODES)


@pytest.mark.parametrize("source", TABLES)
def test_the_first_trajectories_of_a_person_count(place, source):
    rows = [(f"p{t // 2}", t % 2, *rest) for t, *rest in shuffle(rows_of(EPISODES))]
    protected = make_study(STATES, privacy={"unit": "person", "max_trajectories_per_person": 1})
    data = TABLES[source](place, ("person", *HEADING), rows)
    assert sums(data, protected) == twin(EPISODES[::2])
    nameless = TABLES[source](place, HEADING, rows_of(EPISODES))
    with refused("column-absent", "cell-missing"):  # of a table, of a dict
        statistics(nameless, protected)


# The same mistakes have the same code, and the message names their place

MISTAKES = {
    "missing state": ((9, 0, None, 1.0), "cell-missing", "state"),
    "missing reward": ((9, 0, 0, None), "cell-missing", "reward"),
    "missing step": ((9, None, 0, 0.0), "cell-missing", "step"),
    "missing trajectory": ((None, 0, 0, 0.0), "cell-missing", "trajectory"),
    "bad state": ((9, 0, 7, 0.0), "cell-invalid", "state = 7"),
    "negative state": ((9, 0, -1, 0.0), "cell-invalid", "state = -1"),
    "text in state": ((9, 0, "ward", 0.0), "cell-invalid", "state = ward"),
    "NaN reward": ((9, 0, 0, float("nan")), "cell-missing", "reward"),
    "infinite reward": ((9, 0, 0, float("inf")), "cell-invalid", "reward = inf"),
    "text in reward": ((9, 0, 0, "x"), "cell-invalid", "reward = x"),
    "text in step": ((9, "noon", 0, 0.0), "cell-invalid", "step = noon"),
}
# A dataset of Minari holds whole numbers and numbers, in order.
RECORDED = ["bad state", "negative state", "NaN reward", "infinite reward"]


@pytest.mark.parametrize(
    ("source", "mistake"),
    cross(TABLES, MISTAKES) + [(source, mistake) for source in RECORDINGS for mistake in RECORDED],
)
def test_a_mistake_has_the_same_message_in_every_source(place, source, mistake):
    row, code, expected = MISTAKES[mistake]
    with refused(code) as error:
        statistics(SOURCES[source](place, HEADING, [*rows_of(EPISODES), row]), STUDY)
    message = str(error.value).replace("line 11", "row 10")  # of CSV
    where = message[: message.index(", row ")]
    words = message.removeprefix(f"{where}, ").replace("'", "")
    assert words.startswith(f"row 10: {expected} ")
    assert where.endswith(", table rows") == (source in DATABASES)


@pytest.mark.parametrize("source", TABLES)
def test_a_step_that_appears_twice_is_named_by_its_ids(place, source):
    twice = TABLES[source](place, HEADING, [*rows_of(EPISODES), (2, 1, 0, 0.0)])
    with refused("rows-duplicate") as error:
        statistics(twice, STUDY)
    assert str(error.value).replace("'", "").startswith("trajectory = 2, step = 1 ")


# Tables, views and queries of databases


@pytest.fixture(params=DATABASES)
def ward(request, place):
    """Return the address of a database with a table, and a function that executes statements."""
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
    assert sums(f"{address}::rows") == twin(EPISODES)
    assert sums(f"{address}::ROWS") == twin(EPISODES)
    assert sums(f'{address}::"rows"') == twin(EPISODES)
    assert sums(f'{address}::"The Ward"') == twin(EPISODES[:2])
    for unnamed in ("", "::rows LIMIT 1", "::other, rows", "::the ward"):
        with refused("table-unnamed"):
            statistics(f"{address}{unnamed}", STUDY)
    query = """
        select trajectory, step, 3 - state as state, reward + 0 as reward, 'x' as note
        from rows where trajectory >= 2
    """
    mirrored = [[(3 - state, reward) for state, reward in episode] for episode in EPISODES[2:]]
    assert sums(f"{address}::{query}") == twin(mirrored)
    assert sums(f"{address}::{query} ; ") == twin(mirrored)
    assert sums(f"{address}::WITH few AS ({query}) SELECT * FROM few") == twin(mirrored)


def test_a_duckdb_relation_is_the_result_of_a_query():
    relation = duckdb.from_arrow(arrow(HEADING, shuffle(rows_of(EPISODES))))
    assert sums(relation) == twin(EPISODES)
    assert is_query_result(relation)


def test_duckdb_obeys_the_limits_of_threads_and_memory(place):
    address = TABLES["duckdb"](place, HEADING, rows_of(EPISODES))
    query = "SELECT 1 AS trajectory, 1 AS step, current_setting('threads') AS state, 1 AS reward"
    condition = "current_setting('memory_limit') = '512.0 MiB'"
    limited = statistics(
        f"{address}::{query} WHERE {condition}", STUDY, threads=3, memory=512 << 20
    )
    assert limited.counts.tolist() == [0, 0, 0, 1]


# PostgreSQL


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
    assert sums(typed, make_study(STATES, data=timed)) == twin(EPISODES)
    labels = {"labels": [f"s{number}" for number in range(STATES)]}
    for names in (
        {"trajectory": "stay", "step": "small", "state": "medium"},
        {"trajectory": "stay", "step": "day", "state": "padded", "step_type": "date"},
    ):
        assert sums(typed, make_study(STATES, data=names)) == twin(EPISODES)
    labelled = make_study(states=labels, data={"state": "label", **timed})
    assert sums(typed, labelled) == twin(EPISODES)
    points = make_study(STATES, rewards=(-5000, 8000), data={"reward": "points", **timed})
    scaled = [[(s, float(f"{r * 1024:.15g}")) for s, r in episode] for episode in EPISODES]
    assert sums(typed, points) == twin(scaled, points)
    rough = [[(s, float(str(np.float32(r)))) for s, r in episode] for episode in EPISODES]
    assert sums(typed, make_study(STATES, data={"reward": "rough", **timed})) == twin(rough)
    for bad, code in {
        "points = 'NaN'": "cell-missing",
        "points = 'Infinity'": "cell-invalid",
        "state = 1.5": "cell-invalid",
        "step = 'infinity'": "cell-invalid",
    }.items():
        place.server().execute(f"CREATE TABLE {schema}.bad AS SELECT * FROM {schema}.typed")
        place.server().execute(f"UPDATE {schema}.bad SET {bad} WHERE small = 2")
        names = "trajectory, step, state, points AS reward"
        query = f"{address}::SELECT {names} FROM bad ORDER BY small DESC"
        with refused(code):
            statistics(query, make_study(STATES, data=timed))
        place.server().execute(f"DROP TABLE {schema}.bad")
    # A value that Python cannot represent invalidates its cell, and does not end the run.
    for odd in ("'24:00'::time", "'100000000 years'::interval", "repeat('9', 5001)::jsonb"):
        with refused("cell-invalid"):
            statistics(
                f"{address}::SELECT trajectory, step, state, {odd} AS reward FROM rows", STUDY
            )


def test_no_answer_of_a_server_is_exit_7_and_a_refusal_is_exit_3(place):
    address = as_postgres(place, HEADING, rows_of(EPISODES))
    (place.folder / "study.toml").write_text(TOML)
    command = ["inspect", str(place.folder / "study.toml"), "--data"]
    nowhere = f"postgresql://keeper@/postgres?host={quote(str(place.folder), safe='')}::rows"
    for gone in (nowhere, "postgresql://keeper@127.0.0.1:1/postgres::rows"):
        assert run([*command, gone]) == 7
    for wrong in (
        address.replace("/postgres?", "/no-such-database?") + "::rows",
        address.replace("keeper@", "no-such-user@") + "::rows",
        f"{address}::no_such_table",
        f"{address}::SELECT 1/0 AS trajectory",
        f'{address}::SELECT *, 0 AS "STATE" FROM rows',
    ):
        assert run([*command, wrong]) == 3, wrong


def test_a_server_that_stops_between_rows_is_unavailable(place):
    address = as_postgres(place, HEADING, [(t, 0, 1, 0.5) for t in range(50_000)])
    chunks = batches(address, STUDY)
    next(chunks)
    place.server().execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE state = 'idle in transaction' AND pid <> pg_backend_pid()"
    )
    with refused("unavailable"):
        for _ in chunks:
            pass


# Minari


def test_a_minari_dataset_by_name_folder_and_object(monkeypatch, tmp_path):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    dataset = minari_dataset(tmp_path, EPISODES)
    for data in (
        f"minari:{dataset.id}",
        dataset,
        dataset.storage.data_path,
        str(dataset.storage.data_path.parent),
    ):
        assert sums(data) == twin(EPISODES)
    with refused("minari-absent"):
        statistics("minari:toy/nothing-v0", STUDY)


def test_an_observation_of_one_number_is_a_state(tmp_path):
    single = [[([state], reward) for state, reward in episode] for episode in EPISODES]
    space = gymnasium.spaces.MultiDiscrete([STATES])
    data = minari_dataset(tmp_path, single, space, final=[STATES - 1])
    assert sums(data) == twin(EPISODES)


# Releases

TOML = study_file(states={"count": STATES})


@pytest.mark.parametrize("source", [*DATABASES, *RECORDINGS])
def test_a_release_does_not_name_its_source(place, source, capsys):
    folder = place.folder
    data = SOURCES[source](place, HEADING, rows_of(EPISODES))
    section = '[data]\ntruncated_rows = "keep"\n' if source in RECORDINGS else ""
    (folder / "study.toml").write_text(TOML + section)
    study_file, out = str(folder / "study.toml"), folder / "out"
    assert run(["inspect", study_file, "--data", str(data), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["counts"] == twin(EPISODES)[1]
    words = ["release", study_file, "--data", str(data), "--out", str(out), "--no-ledger"]
    assert run([*words, "--accept-useless"]) == 0
    text = (out / "release.json").read_text()
    for word in (str(data), folder.name, "postgresql", "minari", "keeper", "::"):
        assert word not in text
