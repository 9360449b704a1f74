"""How many threads read: as many as were asked for, or as the process may use."""

import os

import pytest

import privalue as pv
from oracles.studies import study
from privalue.cli import run
from privalue.readers._cores import chosen_threads, usable_cores
from privalue.readers._local import statistics

EPISODES = [[(at % 3, 0.25), ((at + 1) % 3, 0.5)] for at in range(5000)]


def groups(folder, **files):
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.fixture
def sixteen(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)), raising=False)


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({}, 16),
        ({"cpu_dot_max": "max 100000\n"}, 16),
        ({"cpu_dot_max": "250000 100000\n"}, 3),
        ({"cpu_dot_max": "50000 100000\n"}, 1),
        ({"cpu_dot_max": "9900000 100000\n"}, 16),
        ({"cpu_dot_max": "0 100000\n"}, 16),
        ({"cpu_dot_max": "nonsense"}, 16),
        ({"cpu_dot_max": ""}, 16),
        ({"cpu__cpu_dot_cfs_quota_us": "-1\n", "cpu__cpu_dot_cfs_period_us": "100000\n"}, 16),
        ({"cpu__cpu_dot_cfs_quota_us": "400000\n", "cpu__cpu_dot_cfs_period_us": "100000\n"}, 4),
    ],
)
def test_affinity_and_the_share_of_a_group(tmp_path, sixteen, files, cores):
    assert usable_cores(groups(tmp_path, **files)) == cores


def test_a_system_without_affinity(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 5)
    assert usable_cores(tmp_path) == 5
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert usable_cores(tmp_path) == 1


@pytest.mark.parametrize("threads", [0, -1, 1025, 1.5, True, "2"])
def test_no_number_of_threads(threads):
    with pytest.raises(pv.UsageError, match="whole number from 1 to 1024"):
        chosen_threads(threads)


def test_any_number_gives_the_same_bits(tmp_path):
    rows = [
        f"{t},{s},{state},{r}" for t, e in enumerate(EPISODES) for s, (state, r) in enumerate(e)
    ]
    file = tmp_path / "rows.csv"
    file.write_text("\n".join(["trajectory,step,state,reward", *rows]) + "\n")
    found = [statistics(str(file), study(3), threads=many) for many in (1, 2, 7, None)]
    for one in found[1:]:
        assert (one.counts == found[0].counts).all()
        assert (one.return_steps == found[0].return_steps).all()


def test_the_command_line_and_spark(tmp_path, capsys):
    words = ["inspect", str(tmp_path / "none.toml"), "--data", "x", "--threads", "many"]
    assert run(words) == 2
    assert "--threads" in capsys.readouterr().err
    with pytest.raises(pv.UsageError, match="Spark's settings"):
        pv.inspect(study(3), "x", engine="spark", threads=2)
    with pytest.raises(pv.UsageError, match="whole number"):
        pv.inspect(study(3), EPISODES, threads=0)
