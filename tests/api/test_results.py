"""What people try with a release: each line works, or says what to write instead."""

import copy
import pickle
import re

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import privalue as pv
from api.conftest import LABELS
from privalue.releases import COLUMNS

SEEDED = "NOT PRIVATE"  # as these releases are
THIN = f"{SEEDED}; too few visits"
TABLES = {
    "to_pandas": lambda release: release.to_pandas().to_dict("list"),
    "to_polars": lambda release: release.to_polars().to_dict(as_series=False),
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
    found = read(release)
    assert found["state"] == LABELS
    for name in ("value", "low", "high", "total_low", "total_high"):
        assert found[name] == release.column(name).tolist()
    assert found["supported"] == [True, True, True, False]
    assert found["flags"] == [SEEDED, SEEDED, SEEDED, THIN]


@pytest.mark.parametrize("read", TABLES.values(), ids=TABLES)
def test_a_private_release_has_nothing_to_say_of_a_sound_value(private_release, read):
    assert all(len(flags) == 0 for flags in read(private_release)["flags"][:3])


def test_a_table_says_what_is_promised(release):
    assert release.to_pandas().attrs["privalue"] == release.sentence()
    assert release.to_arrow().schema.metadata[b"privalue"].decode() == release.sentence()


ARRAYS = ["value", "low", "high", "total_low", "total_high", "total_band_low", "supported"]


@pytest.mark.parametrize("name", ARRAYS)
def test_numbers_are_read_only_arrays(release, name):
    array = getattr(release, name)
    assert isinstance(array, np.ndarray)
    assert array.shape == (4,)
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 0
    if name != "supported":
        assert array.tolist() == [getattr(entry, name) for entry in release]


def test_numbers_can_be_computed_with(release):
    assert (release.value * 2).tolist() == [2 * number for number in release.value.tolist()]
    width = release.total_high - release.total_low
    assert width.argmax() == 3
    assert release.statistics.counts.sum() == pytest.approx(3000 * 2.5, rel=0.1)


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


def test_a_release_is_a_collection_of_states(release):
    assert len(release) == 4
    assert release.states == tuple(LABELS)
    assert [entry.state for entry in release] == LABELS
    assert "ill" in release
    assert "Ill" not in release
    assert 3 not in release


def test_with_arms_a_state_is_arm_and_label(armed):
    assert len(armed) == 8
    assert armed.states == tuple(LABELS)
    record = armed["treated", "well"]
    assert (record.arm, record.state) == ("treated", "well")
    assert record.value == armed.value[6] == armed.as_dict("treated")["well"]
    assert armed["control", "rare <b>"].flags == THIN
    assert armed.differences["treated", "rare <b>"].flags == THIN
    assert armed.differences["treated", "well"].flags == SEEDED
    found = armed.to_pandas()
    assert found.columns[:3].tolist() == ["arm", "state", "value"]
    assert found["arm"].tolist() == ["control"] * 4 + ["treated"] * 4
    assert pl.DataFrame(armed.differences).shape[0] == 4


def test_states_that_are_counted_are_numbers():
    study = pv.Study(
        epsilon=1.0,
        delta=1e-6,
        unit="trajectory",
        discount=0.9,
        rewards=(0.0, 1.0),
        returns=(0.0, 1.0),
        states=3,
    )
    release = pv.release(study, [[(0, 0.5), (2, 1.0)]] * 900)
    assert release[2] == release["2"] == release.values.row(2)
    assert release[np.int64(2)].state == "2"
    assert release.to_pandas()["state"].tolist() == ["0", "1", "2"]
    for wrong in ("02", "3", -1, "1.0", "²"):
        assert wrong not in release


WRONG = [
    ("wel", r"there is no state 'wel'; did you mean 'well'\?"),
    ("ILL", r"there is no state 'ILL'; did you mean 'ill'\?"),
    ("died", r"there is no state 'died'; there are 'ill', 'better', 'well', 'rare <b>'"),
    (0, "there is no state '0'"),
    (slice(0, 2), "there is no state"),
    (("treated", "ill"), r"give state, as \['ill'\]"),
]


@pytest.mark.parametrize(("label", "told"), WRONG, ids=str)
def test_a_label_that_there_is_not_is_answered(release, label, told):
    with pytest.raises(pv.StudyError, match=told) as caught:
        release[label]
    assert isinstance(caught.value, KeyError)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("label", "told"),
    [
        ("ill", r"give arm and state, as \['control', 'ill'\]"),
        (("treatd", "ill"), r"there is no arm 'treatd'; did you mean 'treated'\?"),
        (("treated", "il"), r"there is no state 'il'; did you mean 'ill'\?"),
        (("a", "b", "c"), "give arm and state"),
    ],
)
def test_an_arm_that_there_is_not_is_answered(armed, label, told):
    with pytest.raises(KeyError, match=re.compile(told)):
        armed[label]


def test_what_was_not_released_says_why(other, release):
    with pytest.raises(pv.UsageError, match="to themselves"):
        other.low  # noqa: B018
    with pytest.raises(AttributeError, match="only dp-ssp"):
        other.total_high  # noqa: B018
    assert not hasattr(other, "supported")
    assert other.to_pandas().columns.tolist() == ["state", "value", "flags"]
    assert other.to_pandas()["flags"].str.contains("at a bound of returns").any()


def test_it_survives_what_objects_go_through(release, armed, tmp_path):
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
    for made in copies:
        assert made == release
        assert made["rare <b>"].flags == THIN
    assert (tmp_path / "named.json").is_file()
    with pytest.raises(pv.UsageError, match="never overwritten"):
        release.save(tmp_path / "named.json")
    assert pickle.loads(pickle.dumps(armed)).differences == armed.differences  # noqa: S301


def test_flags_are_in_the_file(release):
    assert pv.Release.parse(release.to_json())["rare <b>"].flags == THIN


def test_the_states_of_two_arms_are_counted_once(armed):
    assert len(armed) == 8
    assert (len(armed.states), len(armed.arms)) == (4, 2)
