"""Queries and untrusted database files can only read rows: attacks on real databases.

Each attack is run through the command line, and when columns are listed: it ends with exit 3 and
one line, the table still has its rows, and no other file was read or written.
"""

import hashlib
import json
import sqlite3
import tomllib
from contextlib import closing, suppress
from pathlib import Path

import duckdb
import pytest

import privalue as pv
from oracles.reading import statistics
from oracles.refusals import refused
from oracles.sources import HEADING, STATES, Place, as_duckdb, as_postgres, as_sqlite
from oracles.studies import make_study, rows_of, study_file
from privalue.cli import run
from privalue.readers import column_names

EPISODES = [[(0, 0.0), (1, 0.25)], [(2, 1.0)]]
STUDY = make_study(STATES)
TOML = study_file(states={"count": STATES})
ROWS = "trajectory, step, state, reward"
SECRET = "hidden-8472"
ATTACKS = tomllib.loads(Path(__file__).with_name("attacks.toml").read_text("utf-8"))


def refusal(folder, data, capsys):
    """Return the code of the error that the command logs, with exit 3 and nothing on stdout."""
    (folder / "study.toml").write_text(TOML)
    command = ["inspect", str(folder / "study.toml"), "--log-format", "json", "--data", data]
    assert run(command) == 3, data
    printed = capsys.readouterr()
    assert printed.out == ""
    assert SECRET not in printed.err
    (line,) = printed.err.splitlines()
    with suppress(pv.DataError):
        column_names(data)
    return json.loads(line)["code"]


@pytest.fixture
def outside(tmp_path):
    """Return a folder with another file, which no query may read."""
    (tmp_path / "others").mkdir()
    (tmp_path / "others" / "secret.csv").write_text(f"{ROWS}\n{SECRET},0,0,0.5\n")
    return tmp_path / "others"


def file_hashes(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).digest() for path in folder.iterdir()}


# PostgreSQL


@pytest.mark.parametrize("attack", ATTACKS["postgres"])
def test_a_query_to_a_server_only_reads(place, outside, attack, capsys):
    import psycopg

    address = as_postgres(place, HEADING, rows_of(EPISODES))
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("CREATE SEQUENCE numbers")
        connection.execute(
            "CREATE FUNCTION sneak() RETURNS integer LANGUAGE sql AS 'DELETE FROM rows RETURNING 1'"
        )
        connection.execute("CREATE VIEW seen AS SELECT *, sneak() FROM rows")
        before = connection.execute("SELECT * FROM rows").fetchall()
        outside.chmod(0o777)  # the server is another user: nothing but privalue stops it
        files = file_hashes(outside)
        secret, out = outside / "secret.csv", outside / "out"
        text = attack.format(secret=secret, folder=outside, out=out) if "{" in attack else attack
        codes = {"query-acting", "query-escaped", "table-unnamed", "unreadable"}
        assert refusal(place.folder, f"{address}::{text}", capsys) in codes
        assert connection.execute("SELECT * FROM rows").fetchall() == before
        (row,) = connection.execute("SELECT to_regclass('copied'), last_value FROM numbers")
        assert row == (None, 1)
    assert file_hashes(outside) == files


def test_the_session_is_read_only_too(place):
    """A statement that ends the transaction is still in a read-only session."""
    import psycopg

    from privalue.readers.databases.postgres import PostgresServer

    address = as_postgres(place, HEADING, rows_of(EPISODES))
    with PostgresServer(address, ".").connect() as connection:
        for setting in ("transaction_read_only", "default_transaction_read_only"):
            assert connection.execute(f"SHOW {setting}").fetchone() == ("on",)
        connection.commit()
        connection.autocommit = True
        connection.read_only = None
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            connection.execute("DROP TABLE rows CASCADE")


def test_queries_that_only_read_are_accepted(place):
    address = as_postgres(place, HEADING, rows_of(EPISODES))
    expected = statistics(f"{address}::rows", STUDY)
    for query in (
        "TABLE rows",
        "SELECT *, state AS system FROM rows TABLESAMPLE system (100)",
        f"SELECT {ROWS} FROM (SELECT *, random() AS key FROM rows) AS x ORDER BY key",
        f"SELECT {ROWS} FROM rows WHERE reward::text NOT LIKE '%;%' -- the end",
        f"/* all */ SELECT {ROWS} FROM rows".removeprefix("/* all */ "),
        f"WITH RECURSIVE few AS (SELECT * FROM rows) SELECT {ROWS} FROM few",
        f"SELECT {ROWS} FROM rows WHERE current_setting('server_version_num')::int > 0",
    ):
        assert statistics(f"{address}::{query}", STUDY) == expected


# DuckDB


@pytest.fixture
def duckdb_file(outside):
    """Return a DuckDB file, and the names of files that no query may reach."""
    path = as_duckdb(Place(outside.parent), HEADING, rows_of(EPISODES))
    with closing(duckdb.connect(outside / "other.duckdb")) as connection:
        connection.execute(f"CREATE TABLE rows AS FROM '{outside}/secret.csv'")
        connection.execute(f"COPY rows TO '{outside}/rows.parquet'")
    names = {
        "secret": outside / "secret.csv",
        "folder": outside,
        "other": outside / "other.duckdb",
        "parquet": outside / "rows.parquet",
        "out": outside / "out",
    }
    return path, names


def require_rows(path, expected):
    with closing(duckdb.connect(path, read_only=True)) as connection:
        assert connection.execute("SELECT count(*) FROM rows").fetchone() == (expected,)


@pytest.mark.parametrize("attack", ATTACKS["duckdb"])
def test_a_query_to_a_duckdb_file_only_reads(outside, duckdb_file, attack, capsys):
    path, names = duckdb_file
    before = file_hashes(outside)
    refusal(outside.parent, f"{path}::{attack.format(**names)}", capsys)
    assert file_hashes(outside) == before
    require_rows(path, 3)


@pytest.mark.parametrize("view", ATTACKS["duckdb_views"])
def test_a_view_of_an_untrusted_duckdb_file_reads_no_other_file(outside, duckdb_file, view, capsys):
    path, names = duckdb_file
    with closing(duckdb.connect(path)) as connection:
        connection.execute(ATTACKS["duckdb_views"][view].format(**names))
    before = file_hashes(outside)
    assert refusal(outside.parent, f"{path}::seen", capsys) == "unreadable"
    refusal(outside.parent, f"{path}::SELECT {ROWS} FROM seen", capsys)
    assert file_hashes(outside) == before
    assert statistics(f"{path}::rows", STUDY).trajectories == 2
    require_rows(path, 3)


def test_a_view_cannot_read_python_variables(duckdb_file):
    path, _ = duckdb_file
    package_name = pv.__name__  # noqa: F841
    with closing(duckdb.connect(path)) as connection:
        frame = connection.sql("SELECT * FROM rows").arrow().read_all()
        assert connection.execute("SELECT count(*) FROM frame").fetchone() == (3,)
    assert frame.num_rows == 3
    with refused("unreadable"):
        statistics(f"{path}::SELECT * FROM frame", STUDY)


# SQLite


@pytest.fixture
def sqlite_file(outside):
    path = as_sqlite(Place(outside.parent), HEADING, rows_of(EPISODES))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE VIRTUAL TABLE words USING fts5(a)")
    with closing(sqlite3.connect(outside / "other.sqlite")) as connection, connection:
        connection.execute("CREATE TABLE rows (trajectory, step, state, reward)")
    names = {
        "secret": outside / "secret.csv",
        "other": outside / "other.sqlite",
        "out": outside / "out",
    }
    return path, names


@pytest.mark.parametrize("attack", ATTACKS["sqlite"])
def test_a_query_to_an_sqlite_file_only_reads(outside, sqlite_file, attack, capsys):
    path, names = sqlite_file
    before, own = file_hashes(outside), path.read_bytes()
    refusal(outside.parent, f"{path}::{attack.format(**names)}", capsys)
    assert file_hashes(outside) == before
    assert path.read_bytes() == own


@pytest.mark.parametrize("view", ATTACKS["sqlite_views"])
def test_a_view_of_an_untrusted_sqlite_file_runs_no_code(outside, sqlite_file, view, capsys):
    path, names = sqlite_file
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(ATTACKS["sqlite_views"][view].format(**names))
    before, own = file_hashes(outside), path.read_bytes()
    refusal(outside.parent, f"{path}::seen", capsys)
    refusal(outside.parent, f"{path}::SELECT * FROM seen", capsys)
    assert file_hashes(outside) == before
    assert path.read_bytes() == own
    assert statistics(f"{path}::rows", STUDY).trajectories == 2


def test_views_and_queries_that_only_read_sqlite_are_accepted(sqlite_file):
    path, _ = sqlite_file
    expected = statistics(f"{path}::rows", STUDY)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE VIEW seen AS SELECT *, upper(hex(state)) AS x FROM rows")
        connection.execute("CREATE TRIGGER t BEFORE INSERT ON rows BEGIN DELETE FROM rows; END")
    for query in (
        "seen",
        "WITH RECURSIVE n(k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM n WHERE k < 3) "
        "SELECT rows.* FROM rows, n WHERE k = 3",
    ):
        assert statistics(f"{path}::{query}", STUDY) == expected


# All of them


@pytest.mark.parametrize("kind", ["duckdb", "sqlite", "postgresql"])
def test_a_query_that_is_not_valid_utf_8_is_refused(place, kind):
    make = {"duckdb": as_duckdb, "sqlite": as_sqlite, "postgresql": as_postgres}[kind]
    address = make(place, HEADING, rows_of(EPISODES))
    for odd in ("SELECT 1\0", "SELECT '\udcff'", "\udcff"):
        with refused("name-encoding") as error:
            statistics(f"{address}::{odd}", STUDY)
        assert "keeper" not in str(error.value)  # an address may hold a password
