"""Steps of every type, groups of labels, and ids that look like missing cells."""

import random

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from oracles.reading import statistics
from oracles.refusals import refused
from oracles.studies import make_study, rows_of

COLUMNS = ["trajectory", "step", "state", "reward"]
EPISODES = [[(0, 0.0), (1, 0.25), (0, 0.5)], [(2, 1.0)], [(1, 0.0), (2, 1.0)]]
STUDY = make_study(3)
EXPECTED = statistics(EPISODES, STUDY)


def shuffled_rows(seed=1):
    rows = rows_of(EPISODES)
    random.Random(seed).shuffle(rows)
    return rows


def frame(rows=None):
    return pd.DataFrame(shuffled_rows() if rows is None else rows, columns=COLUMNS)


def csv_text(rows, heading="trajectory,step,state,reward"):
    return heading + "\n" + "".join(",".join(str(cell) for cell in row) + "\n" for row in rows)


def as_text_of_dates(table, how):
    return table.assign(step=pd.to_datetime(table["step"], unit="D").dt.strftime(how))


@pytest.mark.parametrize(
    ("data", "steps"),
    [
        ({"step_type": "datetime"}, lambda f: f.assign(step=pd.to_datetime(f["step"], unit="D"))),
        ({"step_type": "datetime"}, lambda f: f.assign(step=pd.to_datetime(f["step"], unit="s"))),
        (
            {"step_type": "datetime"},
            lambda f: f.assign(step=pd.to_datetime(f["step"], unit="h", utc=True)),
        ),
        ({"step_type": "date"}, lambda f: f.assign(step=pd.to_datetime(f["step"], unit="D"))),
        ({"step_type": "date"}, lambda f: as_text_of_dates(f, "%Y-%m-%d")),
        ({"step_type": "datetime"}, lambda f: as_text_of_dates(f, "%Y-%m-%dT%H:%M:%S.250+02:00")),
        (
            {"step_type": "date", "step_format": "%d.%m.%y"},
            lambda f: as_text_of_dates(f, "%d.%m.%y"),
        ),
        ({"step_type": "number"}, lambda f: f.assign(step=f["step"] / 3 - 0.5)),
        ({"step_type": "integer"}, lambda f: f.assign(step=f["step"].map("{}.0".format))),
    ],
)
def test_steps_of_every_declared_type(tmp_path, data, steps):
    table = steps(frame())
    assert statistics(table, make_study(3, data=data)) == EXPECTED
    table.to_csv(tmp_path / "d.csv", index=False)
    assert statistics(tmp_path / "d.csv", make_study(3, data=data)) == EXPECTED


def test_labels_are_grouped_before_first_visits():
    """The second label of a group is not another first visit."""
    grouped = make_study(
        states={"labels": ["home", "ward"], "groups": {"a": "home", "b": "ward", "c": "ward"}}
    )
    result = statistics([[("a", 0.0), ("b", 0.0), ("c", 1.0)]], grouped)
    assert result.counts.tolist() == [1, 1]
    assert result.mean_returns(0.0) == pytest.approx([0.81, 0.9], abs=1e-6)


def test_an_id_that_looks_missing_is_an_id(tmp_path):
    ids = ["NA", "null", "nan", "None", "NULL", "N/A", "-"]
    rows = [(name, 0, 1, 0.5) for name in ids]
    (tmp_path / "d.csv").write_text(csv_text(rows))
    assert statistics(tmp_path / "d.csv", STUDY).trajectories == len(ids)
    assert statistics(frame(rows), STUDY).trajectories == len(ids)


def test_an_id_that_is_not_valid_utf_8_is_refused(tmp_path):
    """The byte 255 would otherwise be the end of an id, and two ids one."""
    ids = pa.array([b"a\xff", b"b", b"c"], pa.binary()).view(pa.string())
    rest = {"step": [0, 0, 0], "state": [0, 1, 2], "reward": [0.0, 0.5, 1.0]}
    for data in (table := pa.table({"trajectory": ids, **rest}), tmp_path / "d.parquet"):
        pq.write_table(table, tmp_path / "d.parquet")
        with refused("cell-invalid"):
            statistics(data, STUDY)
