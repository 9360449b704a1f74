import gzip
import json

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest

import privalue
from privalue.errors import StudyError, UsageError
from privalue.simulation import (
    MarkovRewardProcess,
    World,
    chain,
    simulate_episodes,
    simulate_to_file,
)
from privalue.simulation import _files as files

WORLD = chain(states=5, stay=0.3)
NAMES = ["trajectory", "step", "state", "reward"]


def read(path):
    if path.suffix == ".parquet":
        return pyarrow.parquet.read_table(path)
    return pyarrow.csv.read_csv(path)


@pytest.mark.parametrize("name", ["rows.csv", "rows.csv.gz", "rows.parquet", "ROWS.CSV"])
def test_files_hold_the_simulated_rows(tmp_path, name):
    out = tmp_path / name
    made = simulate_to_file(WORLD, trajectories=50, seed=7, out=out)
    rows = simulate_episodes(WORLD, trajectories=50, seed=7)
    table = read(out)
    assert table.column_names == NAMES
    for column in NAMES:
        assert table[column].to_numpy().tolist() == getattr(rows, column).tolist()
    assert made == files.SimulatedFile(
        path=out, rows=rows.state.size, trajectories=50, truncated=0, dropped=0
    )
    assert not list(tmp_path.glob(".*"))


def test_parquet_types_and_metadata(tmp_path):
    out = tmp_path / "rows.parquet"
    made = simulate_to_file(WORLD, trajectories=20, seed=7, out=str(out))
    schema = pyarrow.parquet.read_schema(out)
    assert [str(kind) for kind in schema.types] == ["int64", "int64", "int64", "double"]
    assert json.loads(schema.metadata[b"privalue"]) == {
        "world": "chain:N=5,p=0.3,start=uniform,discount=0.99",
        "parameters": {"N": 5, "p": 0.3, "start": "uniform", "discount": 0.99},
        "discount": 0.99,
        "seed": 7,
        "trajectories_asked": 20,
        "truncate_at": None,
        "truncated_are": None,
        "software": f"privalue {privalue.__version__}",
    }
    counts = json.loads(pyarrow.parquet.read_metadata(out).metadata[b"privalue.counts"])
    assert counts == {"rows": made.rows, "trajectories": 20, "truncated": 0, "dropped": 0}


@pytest.mark.parametrize("name", ["rows.csv", "rows.csv.gz"])
def test_csv_has_its_metadata_beside_it(tmp_path, name):
    made = simulate_to_file(
        WORLD, trajectories=40, seed=7, out=tmp_path / name, truncate_at=3, truncated="drop"
    )
    said = json.loads((tmp_path / f"{name}.meta.json").read_text())
    assert said["seed"] == 7
    assert said["world"] == WORLD.text
    assert said["software"] == f"privalue {privalue.__version__}"
    assert (said["truncate_at"], said["truncated_are"]) == (3, "drop")
    assert said["dropped"] == made.dropped > 0
    assert said["trajectories"] == made.trajectories == 40 - made.dropped
    assert said["rows"] == made.rows == read(tmp_path / name).num_rows


def test_csv_is_plain(tmp_path):
    out = tmp_path / "rows.csv"
    simulate_to_file(chain(states=2, stay=0, start="first"), trajectories=1, seed=0, out=out)
    assert out.read_text() == "trajectory,step,state,reward\n0,0,0,0\n0,1,1,1\n"


def test_rewards_survive_the_text(tmp_path):
    process = MarkovRewardProcess.tabular(
        transitions=np.eye(1),
        rewards=np.array([1 / 3]),
        start=np.ones(1),
        discount=1,
        absorbing=[0],
    )
    out = tmp_path / "rows.csv"
    world = World(name="third", parameters={}, process=process)
    simulate_to_file(world, trajectories=1, seed=0, out=out)
    assert read(out)["reward"].to_pylist() == [1 / 3]


@pytest.mark.parametrize("name", ["rows.csv", "rows.csv.gz", "rows.parquet"])
def test_the_same_seed_gives_the_same_bytes(tmp_path, name, monkeypatch):
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        folder.mkdir()
        monkeypatch.setattr("time.time", lambda: 0.0)
        simulate_to_file(WORLD, trajectories=30, seed=7, out=folder / name)
        monkeypatch.undo()
    assert (one / name).read_bytes() == (two / name).read_bytes()


def test_gzip_says_neither_name_nor_time(tmp_path):
    out = tmp_path / "rows.csv.gz"
    simulate_to_file(WORLD, trajectories=3, seed=7, out=out)
    assert out.read_bytes()[3:8] == b"\0" * 5
    assert gzip.decompress(out.read_bytes()).startswith(b"trajectory,")


def test_progress_reaches_the_number_of_trajectories(tmp_path, monkeypatch):
    batches = files.simulate_batches
    monkeypatch.setattr(files, "simulate_batches", lambda *a, **k: batches(*a, batch_rows=17, **k))
    seen = []
    simulate_to_file(WORLD, trajectories=50, seed=7, out=tmp_path / "a.csv", progress=seen.append)
    assert len(seen) > 5
    assert seen == sorted(seen)
    assert seen[-1] == 50


@pytest.mark.parametrize("name", ["rows.csv", "rows.csv.gz", "rows.parquet"])
@pytest.mark.parametrize("before", [None, "precious"])
def test_a_crash_leaves_no_half_file(tmp_path, name, before, monkeypatch):
    class CrashError(Exception):
        pass

    def crash(done):
        if done > 10:
            raise CrashError

    batches = files.simulate_batches
    monkeypatch.setattr(files, "simulate_batches", lambda *a, **k: batches(*a, batch_rows=17, **k))
    out = tmp_path / name
    if before:
        out.write_text(before)
    with pytest.raises(CrashError):
        simulate_to_file(WORLD, trajectories=50, seed=7, out=out, progress=crash)
    assert [path.name for path in tmp_path.iterdir()] == ([name] if before else [])
    assert not before or out.read_text() == before


def test_a_file_appears_only_when_it_is_complete(tmp_path, monkeypatch):
    batches = files.simulate_batches
    monkeypatch.setattr(files, "simulate_batches", lambda *a, **k: batches(*a, batch_rows=17, **k))
    out = tmp_path / "rows.parquet"
    there = []
    simulate_to_file(
        WORLD, trajectories=50, seed=7, out=out, progress=lambda done: there.append(out.exists())
    )
    assert set(there) == {False}
    assert out.exists()


@pytest.mark.parametrize(
    "name", ["rows", "rows.txt", "rows.csv.bz2", ".csv", "rows.parquet.gz", ""]
)
def test_an_unknown_ending_is_refused(tmp_path, name):
    with pytest.raises(UsageError, match=r"it must end in \.csv, \.csv\.gz or \.parquet"):
        simulate_to_file(WORLD, trajectories=1, seed=0, out=tmp_path / name)


@pytest.mark.parametrize("count", [0, -1, 1.5, "many"])
def test_a_wrong_number_of_trajectories_is_refused_before_anything_is_written(tmp_path, count):
    with pytest.raises(UsageError, match="trajectories is"):
        simulate_to_file(WORLD, trajectories=count, seed=0, out=tmp_path / "a.csv")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["a.csv", "a.parquet", "a.csv.gz"])
def test_a_place_that_cannot_be_written_is_refused(tmp_path, name):
    with pytest.raises(UsageError, match=r"cannot write .*missing.*No such file"):
        simulate_to_file(WORLD, trajectories=1, seed=0, out=tmp_path / "missing" / name)
    (tmp_path / name).mkdir()
    with pytest.raises(UsageError, match=r"cannot write .*directory"):
        simulate_to_file(WORLD, trajectories=1, seed=0, out=tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_an_endless_world_is_refused_before_anything_is_written(tmp_path):
    process = MarkovRewardProcess.tabular(
        transitions=np.eye(1), rewards=np.zeros(1), start=np.ones(1), discount=0.5
    )
    with pytest.raises(StudyError, match="may never end"):
        simulate_to_file(
            World(name="loop", parameters={}, process=process),
            trajectories=1,
            seed=0,
            out=tmp_path / "a.csv",
        )
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet"])
def test_trajectories_that_are_cut_and_kept_are_marked(tmp_path, name):
    """The column is the one that ``[data] truncated`` names."""
    world = chain(states=4, stay=0.5, start="first")
    asked = {"trajectories": 60, "seed": 1, "truncate_at": 6}
    written = simulate_to_file(world, out=tmp_path / name, truncated="keep", **asked)
    rows = simulate_episodes(world, truncated="keep", **asked)
    assert 0 < written.truncated == int(rows.cut.sum()) < 60
    last = np.append(rows.trajectory[1:] != rows.trajectory[:-1], True)
    assert (rows.cut == (last & (rows.reward == 0) & (rows.step == 5))).all()  # the end pays 1
    study = privalue.Study(
        epsilon=1.0,
        delta=1e-6,
        unit="trajectory",
        discount=0.9,
        returns=(0.0, 1.0),
        truncated="drop-unit",
        states=4,
        columns={"truncated": "cut"},
    )
    for data in (tmp_path / name, rows):
        kept = privalue.inspect(study, data).statistics.trajectories
        assert kept == 60 - written.truncated
    dropped = simulate_episodes(world, truncated="drop", **asked)
    assert dropped.cut is None
    assert "cut" not in dropped.table().column_names
