"""A release in Python: rows, columns, tables, copies and files."""

import copy
import pickle

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import privalue as pv
from api.conftest import LABELS
from oracles.refusals import refused
from privalue.releases import COLUMNS

SEEDED = "NOT PRIVATE"  # as these releases are
THIN = f"{SEEDED}; too few visits"
TABLES = {
    "to_pandas": lambda release: release.to_pandas().to_dict("list"),
    "to_arrow": lambda release: release.to_arrow().to_pydict(),
    "pd.DataFrame": lambda release: pd.DataFrame(release).to_dict("list"),
    "pd.DataFrame of values": lambda release: pd.DataFrame(release.values).to_dict("list"),
    "pl.DataFrame": lambda release: pl.DataFrame(release).to_dict(as_series=False),
    "pl.DataFrame of values": lambda release: pl.DataFrame(release.values).to_dict(as_series=False),
    "pa.table": lambda release: pa.table(release).to_pydict(),
    "pa.table of values": lambda release: pa.table(release.values).to_pydict(),
    "duckdb": lambda release: duckdb.sql("select * from release").to_arrow_table().to_pydict(),
}


@pytest.mark.parametrize("read", TABLES.values(), ids=TABLES)
def test_every_table_has_values_intervals_and_flags(release, read):
    table = read(release)
    assert table["state"] == LABELS
    for name in ("value", "low", "high", "total_low", "total_high"):
        assert table[name] == release.column(name).tolist()
    assert table["supported"] == [True, True, True, False]
    assert table["flags"] == [SEEDED, SEEDED, SEEDED, THIN]


def test_a_state_is_a_record_with_value_intervals_and_flags(release):
    record = release["well"]
    assert record.state == "well"
    assert record.total_low <= record.low <= record.value <= record.high <= record.total_high
    assert record.flags == SEEDED
    thin = release["rare <b>"]
    assert thin.flags == THIN
    assert "flags='NOT PRIVATE; too few visits'" in repr(thin)
    assert "arm" not in repr(thin)
    assert release.values.row(3) == list(release)[3] == list(release.values)[3] == thin
    assert list(release.flags) == [SEEDED, SEEDED, SEEDED, THIN]
    assert {*thin._fields} <= {*COLUMNS}


def test_with_arms_a_state_is_arm_and_label(armed):
    assert len(armed) == 8
    assert armed.states == tuple(LABELS)
    record = armed["treated", "well"]
    assert (record.arm, record.state) == ("treated", "well")
    assert record.value == armed.value[6]
    assert armed["control", "rare <b>"].flags == THIN
    assert armed.differences["treated", "rare <b>"].flags == THIN
    assert armed.differences["treated", "well"].flags == SEEDED
    frame = armed.to_pandas()
    assert frame.columns[:3].tolist() == ["arm", "state", "value"]
    assert frame["arm"].tolist() == ["control"] * 4 + ["treated"] * 4
    assert pl.DataFrame(armed.differences).shape[0] == 4


def test_a_column_that_was_not_released_is_refused(other, release):
    for name in ("low", "total_high", "q"):
        with refused("not-released"):
            getattr(other, name)
    assert not hasattr(other, "supported")
    assert other.to_pandas().columns.tolist() == ["state", "value", "flags"]
    assert other.to_pandas()["flags"].str.contains("at a bound of returns").any()


def test_a_release_survives_copying_pickling_and_saving(release, armed, tmp_path):
    copies = [
        copy.copy(release),
        copy.deepcopy(release),
        pickle.loads(pickle.dumps(release)),  # noqa: S301 - our own
        release.model_copy(),
        release.model_copy(deep=True),
        pv.Release.load(release.save(tmp_path / "folder")),
        pv.Release.load(release.save(tmp_path / "named.json")),
        pv.Release.parse(release.to_json()),
    ]
    for duplicate in copies:
        assert duplicate == release
        assert duplicate["rare <b>"].flags == THIN
    assert (tmp_path / "named.json").is_file()
    with refused("usage"):
        release.save(tmp_path / "named.json")
    assert pickle.loads(pickle.dumps(armed)).differences == armed.differences  # noqa: S301
