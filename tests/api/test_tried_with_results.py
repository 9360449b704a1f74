"""The table of what people try: each line works, or is answered by what to write instead."""

import pytest

import privalue as pv
from api.conftest import LABELS, PEOPLE

# What a user of pandas, NumPy or scikit-learn writes first, and what must be true of it.
WORKS = [
    ('release["well"].value', lambda found: 0.9 < found <= 1),
    ('release["rare <b>"].flags', lambda found: found.endswith("too few visits")),
    ("release.to_pandas()", lambda found: list(found["state"]) == LABELS),
    ("release.to_polars()", lambda found: found["state"].to_list() == LABELS),
    ("pd.DataFrame(release)", lambda found: list(found["state"]) == LABELS),
    ("pd.DataFrame(release.values)", lambda found: {"value", "low", "flags"} <= set(found.columns)),
    ("pl.DataFrame(release)", lambda found: found.height == 4),
    ("pa.table(release)", lambda found: found.num_rows == 4),
    ("duckdb.sql('select max(value) from release').fetchall()", lambda found: found[0][0] > 0.9),
    ("release.value * 2", lambda found: found.shape == (4,)),
    ("release.value.mean()", lambda found: 0 < found < 1),
    ("np.round(release.total_high - release.total_low, 3)", lambda found: found.max() == 1),
    (
        "[each.state for each in release if 'too few visits' not in each.flags]",
        lambda found: found == LABELS[:3],
    ),
    ("dict(zip(release.states, release.value))", lambda found: list(found) == LABELS),
    ("release.plot()", lambda found: found.get_xlabel() == "value"),
    ("pv.plan(study).by_visits[-1].half_width", lambda found: 0 < found < 0.3),
    ("pv.check(study)", lambda found: "valid" in repr(found)),
    ("study.replace(epsilon=2).privacy.epsilon", lambda found: found == 2),
    ("study == pv.Study.load(study.save(tmp_path / 'study.toml'))", lambda found: found),
    ("pv.Release.load(release.save(tmp_path / 'out')) == release", lambda found: found),
    ("pv.release(study, people, seed=3).private", lambda found: found is False),
    ("pv.inspect(study, people)", lambda found: repr(found).startswith("Diagnostics(private")),
    ("pv.simulate('chain:N=3', trajectories=2).num_rows", lambda found: found >= 2),
]

ANSWERED = [
    ('release["wel"]', KeyError, "did you mean 'well'?"),
    ('release["well", "ill"]', KeyError, "give state, as"),
    ("release[0]", KeyError, "there are 'ill', 'better'"),
    ("release[:2]", KeyError, "there is no state"),
    ("other.low", AttributeError, "to themselves"),
    ("release.value[0] = 1", ValueError, "read-only"),
    ("pv.Stduy", AttributeError, "module 'privalue' has no attribute 'Stduy'"),
    ("release.plot(ax='left')", pv.UsageError, "ax is a str; give Matplotlib axes"),
]


@pytest.fixture
def names(release, other, study, tmp_path):
    import duckdb
    import matplotlib as mpl
    import numpy as np
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    from matplotlib import pyplot as plt

    libraries = {"duckdb": duckdb, "np": np, "pa": pa, "pd": pd, "pl": pl, "pv": pv}
    with mpl.rc_context({"backend": "agg"}):
        yield {
            **libraries,
            "release": release,
            "other": other,
            "study": study,
            "people": PEOPLE,
            "tmp_path": tmp_path,
        }
        plt.close("all")


@pytest.mark.parametrize(("line", "holds"), WORKS, ids=[line for line, _ in WORKS])
def test_it_works(names, line, holds):
    assert holds(eval(line, names))


@pytest.mark.parametrize(("line", "kind", "told"), ANSWERED, ids=[line for line, _, _ in ANSWERED])
def test_it_is_answered(names, line, kind, told):
    with pytest.raises(kind) as caught:
        exec(line, names)  # noqa: S102 - our own lines
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)
