"""The verbs: plan, check, release, inspect, refit and simulate, as people call them."""

import json

import numpy as np
import pandas as pd
import pytest

import privalue as pv

STUDY = pv.Study(
    states=["ill", "better", "well"],
    discount=0.9,
    returns=(0, 1),
    epsilon=1.0,
    delta=1e-6,
    unit="trajectory",
    dataset="clinic",
)
PEOPLE = [[("ill", 0.0), ("better", 0.0), ("well", 1.0)], [("ill", 0.0), ("well", 1.0)]] * 1000
ROWS = pd.DataFrame(
    [(n, t, *row) for n, rows in enumerate(PEOPLE) for t, row in enumerate(rows)],
    columns=["stay_id", "day", "ward", "score"],
)
COLUMNS = {"trajectory": "stay_id", "step": "day", "state": "ward", "reward": "score"}


def test_a_check_says_what_follows():
    found = pv.check(STUDY.replace(trajectories=5000, delta=1e-4), columns=COLUMNS)
    assert (found.states, found.features, found.return_bounds) == (3, 3, (0.0, 1.0))
    assert found.alpha > 0
    assert found.study.data.trajectory == "stay_id"
    assert any("delta = 0.0001 is above 1/(10 m)" in note for note in found.notes)
    assert "complete and valid" in repr(found)
    large = pv.check(STUDY.replace(trajectories=5000, delta=1e-3))
    assert "delta = 0.001 is not below 1/m" in " ".join(large.notes)


@pytest.mark.parametrize("verb", [pv.plan, pv.check, pv.inspect, pv.release])
def test_a_verb_takes_a_study(verb):
    data = () if verb in {pv.plan, pv.check} else (PEOPLE,)
    with pytest.raises(pv.UsageError, match=r"a Study is needed, not dict; read one with Study\.l"):
        verb({"states": 3}, *data)


def test_columns_are_named_where_the_data_is():
    mapped = pv.release(STUDY, ROWS, columns=COLUMNS, seed=1)
    np.testing.assert_array_equal(mapped.theta, pv.release(STUDY, PEOPLE, seed=1).theta)
    assert mapped.study == STUDY.replace(columns=COLUMNS).public_description()
    counts = pv.inspect(STUDY, ROWS, columns=COLUMNS).statistics.counts
    assert counts.tolist() == [2000, 1000, 2000]
    with pytest.raises(pv.DataError, match=r"has no column 'trajectory'"):
        pv.inspect(STUDY, ROWS)


def test_a_seeded_release_says_that_it_is_not_private(tmp_path):
    release = pv.release(STUDY, PEOPLE, seed=np.int64(7))
    np.testing.assert_array_equal(release.value, pv.release(STUDY, PEOPLE, seed=7).value)
    assert (release.value != pv.release(STUDY, PEOPLE, seed=8).value).any()
    assert not release.private
    assert "NOT PRIVATE" in repr(release)
    assert release.sentence().startswith("NOT PRIVATE")
    files = pv.publish(release, tmp_path / "out", study=STUDY)
    assert json.loads(files.release.read_text())["private"] is False
    assert "NOT PRIVATE" in files.page.read_text()
    assert "NOT PRIVATE" in files.registry.read_text()
    _, *lines = files.values.read_text().splitlines()
    assert len(lines) == 3
    assert all("NOT PRIVATE" in line for line in lines)
    pv.publish(pv.release(STUDY, PEOPLE), tmp_path / "private", study=STUDY)
    assert "NOT PRIVATE" not in "".join(
        path.read_text() for path in (tmp_path / "private").iterdir()
    )
    assert not pv.refit(files.release).private
    with pytest.raises(pv.UsageError, match="seed= and entropy= both"):
        pv.release(STUDY, PEOPLE, seed=1, entropy=pv.SeededForExperimentsOnly(1))
    with pytest.raises(pv.UsageError, match="seed must be an integer"):
        pv.release(STUDY, PEOPLE, seed=-1)


def test_a_ledger_is_named_by_its_file(tmp_path):
    file = tmp_path / "ledger.db"
    pv.open_ledger(file).declare("clinic", epsilon=1.5, delta=1e-5, unit="trajectory")
    first = pv.release(STUDY, PEOPLE, ledger=str(file))
    assert pv.release(STUDY, PEOPLE, ledger=file) == first
    assert pv.release(STUDY, PEOPLE, ledger=pv.open_ledger(file)).reused
    assert str(pv.open_ledger(file).account("clinic").left) == "epsilon 0.5, delta 9e-6"
    for ledger in (file, pv.open_ledger(file)):
        with pytest.raises(pv.UsageError, match="seeded experiments do not go on a ledger"):
            pv.release(STUDY, PEOPLE, ledger=ledger, seed=1)
    with pytest.raises(pv.UsageError, match="ledger is a dict; give a file, the address of a"):
        pv.release(STUDY, PEOPLE, ledger={})


def test_a_refit_takes_arrays_and_the_name_of_a_release(tmp_path):
    release = pv.release(STUDY, PEOPLE, seed=1)
    file = release.save(tmp_path)
    tied = [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
    given = [tied, np.array(tied), pd.DataFrame(tied, index=["ill", "better", "well"])]
    found = [
        pv.refit(one, features=x) for one, x in zip((release, file, tmp_path), given, strict=True)
    ]
    for other in found[1:]:
        np.testing.assert_array_equal(found[0].theta, other.theta)
    assert len(found[0].theta) == 2
    listed = pv.refit(release, features=tied, weights=[1, 1, 2])
    arrays = pv.refit(release, features=tied, weights=np.array([1, 1, 2]))
    np.testing.assert_array_equal(listed.theta, arrays.theta)
    one = pv.refit(release, start=np.array([1.0, 0.0, 0.0]))
    assert one.policy_value == pytest.approx(release.as_dict()["ill"])
    with pytest.raises(pv.StudyError, match="features = 2 is not allowed"):
        pv.refit(release, features=2)


def test_simulated_rows_are_data(tmp_path):
    rows = pv.simulate("chain:N=5", trajectories=3000, seed=1, columns={"trajectory": "stay_id"})
    assert rows.column_names == ["stay_id", "step", "state", "reward"]
    study = pv.Study(
        **{"states": 5, "discount": 0.99, "returns": (0, 1), "epsilon": 1.0, "delta": 1e-6},
        unit="trajectory",
    )
    release = pv.release(study, rows, columns={"trajectory": "stay_id"})
    assert release.trajectories == 3000
    file = pv.simulate("chain:N=5", trajectories=3000, seed=1, out=tmp_path / "rows.parquet")
    mapped = pv.inspect(study, rows, columns={"trajectory": "stay_id"}).statistics
    assert pv.inspect(study, file.path).statistics == mapped
    with pytest.raises(pv.UsageError, match="columns: 'person' is none of trajectory, step"):
        pv.simulate("chain", trajectories=1, columns={"person": "p"})
    with pytest.raises(pv.UsageError, match="columns= is for rows in memory"):
        pv.simulate("chain", trajectories=1, out=tmp_path / "x.csv", columns={"step": "p"})


def test_bins_from_the_table_to_the_page(tmp_path, monkeypatch, capsys):
    from privalue.cli import run

    monkeypatch.chdir(tmp_path)
    study = STUDY.replace(bins={"age": [50, 70]}, trajectories=2000)
    study.save("study.toml")
    draw = np.random.default_rng(1)
    rows = {"trajectory": range(2000), "step": [0] * 2000, "age": draw.integers(20, 90, 2000)}
    frame = pd.DataFrame({**rows, "reward": draw.integers(0, 2, 2000)})
    frame.to_csv("rows.csv", index=False)
    release = pv.release(study, frame)
    assert list(release.as_dict()) == ["age < 50", "50 <= age < 70", "age >= 70"]
    assert release.study["states"]["bins"] == [{"column": "age", "edges": [50.0, 70.0]}]
    assert pv.refit(release, features=[[1.0]] * 3).study["states"] == release.study["states"]
    command = ["release", "study.toml", "--data", "rows.csv", "--out", "out", "--no-ledger"]
    assert run(["check", "study.toml"]) == 0
    assert run(command) == 0
    assert pv.Release.load("out").study == release.study
    assert "50 &lt;= age &lt; 70" in (tmp_path / "out" / "report.html").read_text()
    capsys.readouterr()
    frame.rename(columns={"age": "Age"}).to_csv("other.csv", index=False)
    assert run(["inspect", "study.toml", "--data", "other.csv"]) == 3
    assert "if 'Age' is meant, name that one in [states] bins" in capsys.readouterr().err
