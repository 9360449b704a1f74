"""Sorted and unsorted rows: the same statistics, whatever the batches, threads and memory."""

import os
import random
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles import cells
from oracles.reading import statistics
from oracles.refusals import refused
from oracles.studies import make_study, rows_of, study_file
from privalue.readers import local

COLUMNS = ["trajectory", "step", "state", "reward"]
STUDY = make_study(3)
SORTED = make_study(3, data={"sorted": True})


def episodes(count=40, seed=1, longest=9):
    draw = random.Random(seed)
    return [
        [(draw.randrange(3), draw.randrange(5) / 4) for _ in range(draw.randrange(1, longest))]
        for _ in range(count)
    ]


def frame(rows):
    return pd.DataFrame(rows, columns=COLUMNS)


def write(folder, table, *, group=6, files=3):
    """Write Parquet files with small row groups; trajectories straddle both."""
    for number, part in enumerate(np.array_split(np.arange(len(table)), files)):
        rows = pa.Table.from_pandas(table.iloc[part], preserve_index=False)
        pq.write_table(rows, folder / f"{number}.parquet", row_group_size=group)
    return folder


def record_passes(monkeypatch):
    """Return a list to which each finished pass over a source adds its name."""
    passes = []
    for name in ("in_order", "in_any_order"):
        whole = getattr(local._SourceReader, name)

        def record(self, *arguments, name=name, whole=whole, **keywords):
            result = whole(self, *arguments, **keywords)
            passes.append(name)
            return result

        monkeypatch.setattr(local._SourceReader, name, record)
    return passes


# The same statistics


IDS = {
    "numbers": lambda t: t * 7 - 50,
    "texts of numbers": lambda t: str(7 * t - 50),
    "texts": lambda t: f"patient {t:04}",
    "long texts": lambda t: f"{t:04}" * (1 + t % 30),
    "unsigned": lambda t: np.uint64(2**63 - 20 + t),
    "large numbers": lambda t: 2**40 * t - 3,
}


@pytest.mark.parametrize(("threads", "memory"), [(1, 1), (3, 1), (2, 2 << 30)])
@pytest.mark.parametrize("ids", IDS)
def test_order_batches_threads_and_memory_change_nothing(
    ids, memory, threads, tmp_path, small_batches, monkeypatch
):
    data = episodes()
    table = frame([(IDS[ids](t), *row) for t, *row in rows_of(data)])
    expected = statistics(data, STUDY)
    passes = record_passes(monkeypatch)
    (tmp_path / "sorted").mkdir()
    (tmp_path / "shuffled").mkdir()
    in_order = write(tmp_path / "sorted", table)
    shuffled = write(tmp_path / "shuffled", table.sample(frac=1, random_state=3))
    assert statistics(in_order, STUDY, memory=memory, threads=threads) == expected
    assert statistics(in_order, SORTED, memory=memory, threads=threads) == expected
    assert passes == ["in_order", "in_order"]
    assert statistics(shuffled, STUDY, memory=memory, threads=threads) == expected
    assert passes[2:] == ["in_any_order"]


@given(
    people=st.dictionaries(
        st.text("ab19", min_size=1, max_size=3),
        st.dictionaries(st.integers(-5, 12), st.integers(1, 9), min_size=1, max_size=5),
        min_size=1,
        max_size=6,
    ),
    most=st.integers(1, 4),
    text=st.booleans(),
    seed=st.integers(0, 99),
    part=st.integers(1, 9),
)
def test_persons_are_whole_across_every_boundary(people, most, text, seed, part):
    """The first trajectories of each person count by id: 9 before 10, also if ids are texts."""
    draw = random.Random(seed)
    rows, episodes = [], []
    for person, lengths in people.items():
        for place, (trajectory, length) in enumerate(sorted(lengths.items())):
            episode = [(draw.randrange(3), draw.random()) for _ in range(length)]
            episodes += [episode] if place < most else []
            name = str(trajectory) if text else trajectory
            rows += [(person, name, at, *step) for at, step in enumerate(episode)]
    table = pd.DataFrame(rows, columns=["person", *COLUMNS]).sample(frac=1, random_state=seed)
    by_person = make_study(3, privacy={"unit": "person", "max_trajectories_per_person": most})
    rows.sort(key=lambda row: (cells.rank(row[0]), int(row[1]), row[2]))
    ordered = pd.DataFrame(rows, columns=table.columns)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("privalue.readers.tables.BATCH_ROWS", part)
        patch.setattr(local, "MIN_ROW_BYTES", 1000)
        passes = record_passes(patch)
        result = [statistics(ordered, by_person), statistics(table, by_person, memory=1)]
        assert passes[0] == "in_order"
    assert result[0] == result[1]
    expected = statistics(episodes, STUDY)
    assert result[0].trajectories == expected.trajectories
    assert result[0].counts.tolist() == expected.counts.tolist()
    assert result[0].return_steps.tolist() == expected.return_steps.tolist()


# Errors


def test_declared_order_is_verified(tmp_path, small_batches):
    rows = rows_of(episodes(9))
    swapped = [*rows[10:], *rows[:10]]
    with refused("rows-order") as error:
        statistics(write(tmp_path, frame(swapped)), SORTED)
    assert str(error.value).startswith("trajectory = '0', step = 0 ")


def test_a_trajectory_that_continues_later_is_not_split(small_batches, monkeypatch):
    """The planted mistake: the order is not checked where batches are split and joined."""
    data = episodes(8)
    rows = rows_of(data)
    returned = [rows[0], *rows[len(data[0]) :], *rows[1 : len(data[0])]]
    assert statistics(frame(returned), STUDY) == statistics(data, STUDY)

    monkeypatch.setattr(local._SourceReader, "_require_order", lambda *_: None)
    with refused("boundary-twice"):
        statistics(frame(returned), STUDY)


# Memory


def shuffled_rows(count):
    draw = np.random.default_rng(0)
    at, states = draw.permutation(count), draw.integers(0, 3, count)
    rewards = draw.random(count)
    return pa.table({"trajectory": at // 50, "step": at % 50, "state": states, "reward": rewards})


WHOLE_PROCESS = """
import contextlib, io, json, resource, sys
from privalue.cli import run

def inspect(data, memory):
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert run(["inspect", study, "--data", data, "--memory", memory, "--json", "--quiet"]) == 0
    return json.loads(printed.getvalue())

study, small, large = sys.argv[1:]
inspect(small, "64MB")  # compiled, and written to a cache
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # from here on no file can be written
assert inspect(large, "704MiB")["rows"] == 8_000_000
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(int(status["VmHWM"].split()[0]) << 10)  # getrusage would include the parent
"""


@pytest.mark.long
def test_the_limit_holds_for_the_whole_process_and_nothing_is_written_to_disk(tmp_path):
    """256 MB of unsorted rows, and 704 MB for everything."""
    file = tmp_path / "study.toml"
    file.write_text(study_file())
    names = [str(tmp_path / name) for name in ("small.parquet", "large.parquet")]
    for name, count in zip(names, (1000, 8_000_000), strict=True):
        pq.write_table(shuffled_rows(count), name, row_group_size=1 << 20)
    run = subprocess.run(
        [sys.executable, "-c", WHOLE_PROCESS, str(file), *names],
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) < 704 << 20


def test_a_source_is_read_in_several_passes_and_a_stream_is_refused(small_batches):
    table, reports = shuffled_rows(2000), []
    expected = statistics(table, STUDY)
    assert statistics(table, STUDY, memory=1, progress=lambda *at: reports.append(at)) == expected
    assert reports[-1] == (2000, 2000)
    with refused("rows-outgrow-memory"):
        statistics(table.to_reader(), STUDY, memory=1)


def test_memory_is_half_of_what_the_container_may_use(tmp_path):
    whole, limit = local.default_memory(()), tmp_path / "memory.max"
    for text, expected in (("max\n", whole), (f"{1 << 20}\n", 1 << 19), ("9" * 18, whole)):
        limit.write_text(text)
        assert local.default_memory((str(limit), str(tmp_path / "absent"))) == expected
