"""Queries over files: only those that are named, and CSV files as the texts that they hold."""

import os
import signal
import subprocess
import sys
import textwrap

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privalue as pv
from oracles.studies import rows_of, study
from privalue.readers._local import statistics
from privalue.readers._names import asks_a_database, is_query

EPISODES = [[(0, 0.0), (1, 0.25), (0, 0.5)], [(2, 1.0)], [(1, 0.0), (2, 1.0)]]
COLUMNS = ["trajectory", "step", "state", "reward"]
STUDY = study(3)
EXPECTED = statistics(EPISODES, STUDY)


@pytest.fixture
def folder(tmp_path):
    made = pd.DataFrame(rows_of(EPISODES), columns=COLUMNS)
    made.to_parquet(tmp_path / "d.parquet")
    made.to_csv(tmp_path / "d.csv", index=False)
    made[made["trajectory"] < 1].to_parquet(tmp_path / "p1.parquet")
    made[made["trajectory"] >= 1].to_parquet(tmp_path / "p2.parquet")
    (tmp_path / "secret.csv").write_text("a,b\n1,2\n")
    return tmp_path


def complaint(query, like=STUDY):
    with pytest.raises(pv.DataError) as caught:
        statistics(query, like)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM '{f}/d.parquet'",
        "from '{f}/d.parquet' ;",
        "SELECT * FROM '{f}/p*.parquet'",
        "SELECT * FROM '{f}/d.csv'",
        "WITH kept AS (SELECT * FROM '{f}/d.csv') SELECT * FROM kept",
        "SELECT a.* FROM '{f}/d.csv' a JOIN '{f}/d.parquet' b "
        "ON a.trajectory = CAST(b.trajectory AS VARCHAR) AND a.step = CAST(b.step AS VARCHAR)",
        "SELECT trajectory, step, state, CAST(reward AS DECIMAL(18, 9)) AS reward "
        "FROM '{f}/d.parquet', range(1)",
    ],
)
def test_the_rows_of_a_query(folder, query):
    assert statistics(query.format(f=folder), STUDY) == EXPECTED


def test_the_command_line_takes_a_query(folder, capsys):
    from privalue.cli import run

    pv_study = folder / "study.toml"
    pv_study.write_text(
        '[privacy]\nepsilon = 1.0\ndelta = 1e-6\nunit = "trajectory"\n'
        "[values]\ndiscount = 0.9\nrewards = [0.0, 1.0]\n[states]\ncount = 3\n"
    )
    query = f"SELECT * FROM '{folder}/d.csv' WHERE trajectory <> 'x'"
    page = folder / "private.html"
    assert run(["inspect", str(pv_study), "--data", query, "--json", "--page", str(page)]) == 0
    assert '"trajectories": 3' in capsys.readouterr().out
    assert "The guarantee is for the rows that the query returns" in page.read_text()


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELECT * FROM read_csv('{f}/d.csv')", "calls read_csv(); name the file itself"),
        ("SELECT * FROM read_parquet('{f}/d.parquet')", "calls read_parquet()"),
        ("SELECT * FROM read_text('{f}/secret.csv')", "calls read_text()"),
        ("SELECT * FROM glob('{f}/*')", "calls glob()"),
        ("SELECT * FROM sniff_csv('{f}/d.csv')", "calls sniff_csv()"),
        ("SELECT * FROM duckdb_settings()", "calls duckdb_settings()"),
        ("SELECT * FROM '{f}/absent.parquet'", "does not exist"),
        ("SELECT * FROM '{f}/d.parquet'; SELECT 1", "must be a single statement"),
        ("WITH x AS (SELECT 1) DELETE FROM x", "cannot be read: "),
        ("SELECT FROM WHERE", "cannot be read: "),
        ("SELECT 1 AS a", "has no column 'trajectory'"),
        ("SELECT * FROM '{f}/[dp]*.*'", "both CSV and Parquet files"),
        ("SELECT * FROM information_schema.tables", "does not exist"),
    ],
)
def test_what_a_query_may_not(folder, query, words):
    assert words in complaint(query.format(f=folder))


def test_no_other_file_can_be_read(folder):
    """A function of one row may open files too: the connection has access to none but those."""
    inside = f"(SELECT content FROM read_text('{folder}/secret.csv'))"
    query = f"SELECT trajectory, step, state, length({inside}) AS reward FROM '{folder}/d.parquet'"
    assert "calls read_text()" in complaint(query)
    from privalue.readers import RowRules
    from privalue.readers._queries import ready

    with ready(f"FROM '{folder}/d.parquet'", RowRules.of(STUDY)) as (connection, _):
        for sneak in (
            f"FROM read_text('{folder}/secret.csv')",
            f"FROM '{folder}/secret.csv'",
            f"FROM '{folder}/d.csv'",
            f"COPY (SELECT 1) TO '{folder}/out.csv'",
            "SET enable_external_access = true",
            "SET lock_configuration = false",
        ):
            with pytest.raises(Exception, match=r"Permission|configuration|locked"):
                connection.execute(sneak)
    assert not (folder / "out.csv").exists()


def test_files_of_one_name_and_several_types_are_refused(folder):
    odd = pa.table({"trajectory": ["x"], "step": [0], "state": [0], "reward": [0.0]})
    pq.write_table(odd, folder / "p3.parquet")
    assert "different columns or types" in complaint(f"SELECT * FROM '{folder}/p*.parquet'")


def test_a_csv_file_is_texts_whatever_its_rows_say(folder):
    """DuckDB's own reading would make numbers of ids such as 007, until one row is a text."""
    (folder / "e.csv").write_text("trajectory,step,state,reward\n007,0,1,0.5\n7,0,1,0.5\n")
    assert statistics(f"SELECT * FROM '{folder}/e.csv'", STUDY).trajectories == 2
    (folder / "e.csv").write_text('trajectory,step,state,reward\n7,0,1,0.5\n8,0,"1,0.5\n9,0,1,1\n')
    assert "row 2: the line has quotes" in complaint(f"SELECT * FROM '{folder}/e.csv'")
    dropping = study(3, data={"invalid": "drop-unit"})
    assert statistics(f"SELECT * FROM '{folder}/e.csv'", dropping).trajectories == 2


def test_what_is_a_query(tmp_path, monkeypatch):
    assert is_query("SELECT 1")
    assert is_query("  with x as (select 1) select * from x")
    assert is_query("FROM 'a.parquet'")
    assert not is_query("selection.csv")
    assert not is_query("from.csv")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "from us.csv").write_text("")
    assert not is_query("from us.csv")
    assert asks_a_database("trial.duckdb::SELECT * FROM rows")
    assert asks_a_database("postgresql://a@b/c::SELECT step::int AS step FROM rows")
    assert asks_a_database("trial.sqlite::TABLE rows")
    assert not asks_a_database("trial.duckdb::rows")
    assert not asks_a_database("postgresql://a:b::c@d/e::clinic.selected")


# What DuckDB leaves behind


SORTING = """
    import sys, duckdb, pyarrow as pa, pyarrow.parquet as pq
    import privalue as pv
    from privalue.readers import _local as local
    from privalue.readers import RowRules, open_source
    study = pv.Study(
        epsilon=1.0, delta=1e-6, unit="trajectory",
        discount=0.9, rewards=(0.0, 1.0),
        states=3,
    )
    source = open_source(sys.argv[1], RowRules.of(study))
    chunks = source.chunks()
    try:
        next(chunks)
    except pv.DataError as problem:
        print(problem, flush=True)
    print("reading", flush=True)
    input()
"""


@pytest.mark.parametrize("by", ["query", "file"])
def test_a_killed_query_leaves_nothing_on_disk(tmp_path, by):
    """A sort of more rows than memory, killed in the middle: DuckDB's own files would stay."""
    import duckdb

    rows = 400_000
    table = pa.table(
        {
            "trajectory": [f"SECRET{at:012}" for at in range(rows)],
            "step": pa.array([0] * rows),
            "state": pa.array([0] * rows),
            "reward": pa.array([0.5] * rows),
        }
    )
    pq.write_table(table, tmp_path / "d.parquet")
    data = f"SELECT * FROM '{tmp_path}/d.parquet' ORDER BY hash(trajectory)"
    if by == "file":
        with duckdb.connect(str(tmp_path / "d.duckdb")) as connection:
            connection.execute(f"CREATE TABLE rows AS FROM '{tmp_path}/d.parquet'")
        data = f"{tmp_path}/d.duckdb::SELECT * FROM rows ORDER BY hash(trajectory)"
    spill = tmp_path / "spill"
    spill.mkdir()
    small = """
    import privalue.readers._databases.duckdb_rows as reader
    real = reader.duckdb.connect
    def limited(config):
        return real(config={**config, "memory_limit": "30MB"})
    reader.duckdb.connect = limited
    """
    script = textwrap.dedent(SORTING).replace(
        "study = pv.Study(", textwrap.dedent(small) + "study = pv.Study(", 1
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, data],
        env={**os.environ, "TMPDIR": str(spill)},
        cwd=spill,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        said = process.stdout.readline()
        if "reading" not in said:
            assert "write its result to a Parquet file first" in said
        process.send_signal(signal.SIGKILL)
        process.communicate()
    left = [path for path in spill.rglob("*") if path.is_file()]
    assert not any(b"SECRET" in path.read_bytes() for path in left)
    assert left == []


def test_a_query_may_be_longer_than_the_name_of_a_file(folder, monkeypatch):
    monkeypatch.chdir(folder)  # a slash in the query would make it several names
    query = f"SELECT * FROM 'd.parquet' WHERE state NOT IN ({', '.join(['99'] * 200)})"
    assert statistics(query, STUDY) == EXPECTED


@pytest.mark.parametrize("other", ["state", "State"])
def test_a_file_with_a_column_twice_is_refused_in_a_query_too(folder, other):
    made = pq.read_table(folder / "d.parquet").select(COLUMNS)
    pq.write_table(made.append_column(other, made["step"]), folder / "twice.parquet")
    rows = (folder / "d.csv").read_text().splitlines()
    (folder / "twice.csv").write_text(
        "\n".join([f"{rows[0]},{other}", *(f"{row},0" for row in rows[1:])])
    )
    for name in ("twice.parquet", "twice.csv"):
        with pytest.raises(pv.DataError, match=f"has the column '{other}' more than once"):
            statistics(f"SELECT * FROM '{folder}/{name}'", STUDY)
    with pytest.raises(pv.DataError, match="more than once"):
        statistics(f"SELECT *, step AS {other} FROM '{folder}/d.parquet'", STUDY)
