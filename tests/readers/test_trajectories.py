"""Sources, and the one place that meets untrusted values."""

import gzip
import random

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privalue as pv
from oracles.reading import statistics
from oracles.studies import rows_of, study

COLUMNS = ["trajectory", "step", "state", "reward"]
EPISODES = [[(0, 0.0), (1, 0.25), (0, 0.5)], [(2, 1.0)], [(1, 0.0), (2, 1.0)]]
STUDY = study(3)
EXPECTED = statistics(EPISODES, STUDY)


def shuffled_rows(seed=1):
    rows = rows_of(EPISODES)
    random.Random(seed).shuffle(rows)
    return rows


def frame(rows=None):
    return pd.DataFrame(shuffled_rows() if rows is None else rows, columns=COLUMNS)


def csv_text(rows, heading="trajectory,step,state,reward"):
    return heading + "\n" + "".join(",".join(str(cell) for cell in row) + "\n" for row in rows)


# Every source gives the same statistics


def as_csv(folder):
    (folder / "d.csv").write_text(csv_text(shuffled_rows()))
    return folder / "d.csv"


def as_gzip(folder):
    with gzip.open(folder / "d.csv.gz", "wt") as file:
        file.write(csv_text(shuffled_rows()))
    return str(folder / "d.csv.gz")


def as_parquet(folder):
    pq.write_table(pa.Table.from_pandas(frame()), folder / "d.parquet")
    return folder / "d.parquet"


def as_folder(folder):
    """A trajectory straddles files; what Spark leaves beside them is passed over."""
    rows = shuffled_rows()
    for number in range(3):
        part = pa.Table.from_pandas(frame(rows[number::3]), preserve_index=False)
        pq.write_table(part, folder / f"part-{number}.parquet")
    (folder / "_SUCCESS").write_text("")
    return folder


def as_glob(folder):
    for number in range(3):
        (folder / f"x{number}.csv").write_text(csv_text(shuffled_rows()[number::3]))
    return str(folder / "x*.csv")


def as_dictionary_parquet(folder):
    table = pa.Table.from_pandas(frame(), preserve_index=False)
    text = table.column("trajectory").cast(pa.string()).dictionary_encode()
    pq.write_table(table.set_column(0, "trajectory", text), folder / "d.pq")
    return folder / "d.pq"


SOURCES = {
    "csv": as_csv,
    "csv.gz": as_gzip,
    "parquet": as_parquet,
    "folder": as_folder,
    "glob": as_glob,
    "dictionary": as_dictionary_parquet,
    "pandas": lambda _: frame(),
    "polars": lambda _: pl.DataFrame(shuffled_rows(), schema=COLUMNS, orient="row"),
    "arrow": lambda _: pa.Table.from_pandas(frame()),
    "reader": lambda _: pa.Table.from_pandas(frame()).to_reader(max_chunksize=2),
    "episodes": lambda _: EPISODES,
    "generator": lambda _: (episode for episode in EPISODES),
    "float ids": lambda _: frame().astype({"trajectory": float, "step": float, "state": float}),
    "text ids": lambda _: frame().astype({"trajectory": str, "state": str}),
    "unsigned": lambda _: frame().astype({"trajectory": "uint64", "step": "uint8"}),
    "small floats": lambda _: frame().astype({"reward": "float32"}),
}


@pytest.mark.parametrize("source", SOURCES)
def test_every_source_gives_the_same_statistics(source, tmp_path):
    assert statistics(SOURCES[source](tmp_path), STUDY) == EXPECTED


def as_text_of_dates(made, how):
    return made.assign(step=pd.to_datetime(made["step"], unit="D").dt.strftime(how))


@pytest.mark.parametrize(
    ("declared", "steps"),
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
def test_steps_are_what_the_study_says(tmp_path, declared, steps):
    made = steps(frame())
    assert statistics(made, study(3, data=declared)) == EXPECTED
    made.to_csv(tmp_path / "d.csv", index=False)
    assert statistics(tmp_path / "d.csv", study(3, data=declared)) == EXPECTED


def test_steps_of_another_type_are_refused_before_a_row_is_read():
    made = frame().assign(step=pd.to_datetime(frame()["step"], unit="D"))
    with pytest.raises(
        pv.DataError, match=r"timestamp\[ns\]; .*step_type.* set it to \"datetime\""
    ):
        statistics(made, STUDY)
    with pytest.raises(pv.DataError, match=r"int64; .* set it to \"integer\""):
        statistics(frame(), study(3, data={"step_type": "date"}))


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        ({"step_type": "date"}, 'must be a date such as 2026-11-15; .* e.g. "%d.%m.%Y"'),
        ({"step_type": "datetime"}, "must be a datetime such as 2026-11-15T08:30; "),
        ({"step_type": "date", "step_format": "%d.%m.%y"}, r"%y \(%y is a year of two digits"),
    ],
)
def test_a_date_that_is_written_otherwise_is_explained(tmp_path, declared, words):
    as_text_of_dates(frame(), "%d/%m/%Y").to_csv(tmp_path / "d.csv", index=False)
    with pytest.raises(pv.DataError, match=words):
        statistics(tmp_path / "d.csv", study(3, data=declared))


def test_other_columns_are_ignored_and_columns_can_be_mapped():
    made = frame().rename(columns={"trajectory": "stay_id", "reward": "score"})
    made["note"] = "x"
    mapped = study(3, data={"trajectory": "stay_id", "reward": "score"})
    assert statistics(made, mapped) == EXPECTED


def test_with_a_person_column_a_trajectory_is_the_pair_of_both_ids():
    made = frame()
    person, trajectory = made["trajectory"] // 2, made["trajectory"] % 2
    made["trajectory"] = trajectory
    made["patient_id"] = person.map(lambda p: f"p{p}")
    both = {"person": "patient_id", "trajectory": "trajectory"}
    assert statistics(made, study(3, data=both)) == EXPECTED
    with pytest.raises(pv.DataError, match="no column 'patient_id'"):
        statistics(made.rename(columns={"patient_id": "other"}), study(3, data=both))


def test_raw_labels_are_grouped_while_reading():
    """Grouping comes before first visits: the second raw state of a group is no first visit."""
    grouped = study(
        states={"labels": ["home", "ward"], "groups": {"a": "home", "b": "ward", "c": "ward"}}
    )
    found = statistics([[("a", 0.0), ("b", 0.0), ("c", 1.0)]], grouped)
    assert found.counts.tolist() == [1, 1]
    assert found.mean_returns(0.0) == pytest.approx([0.81, 0.9], abs=1e-6)


def test_labels_may_be_numbers_or_text():
    labelled = study(states={"labels": [10, 20, 30]})
    relabelled = [[(10 * (s + 1), r) for s, r in episode] for episode in EPISODES]
    as_text = [[(str(s), r) for s, r in episode] for episode in relabelled]
    as_floats = [[(float(s), r) for s, r in episode] for episode in relabelled]
    assert statistics(relabelled, labelled) == EXPECTED
    assert statistics(as_text, labelled) == EXPECTED
    assert statistics(as_floats, labelled) == EXPECTED


@pytest.mark.parametrize("written", ["HOME", "home ward", "Homme", "HOMR"])
def test_a_label_that_is_nearly_one_is_asked_about(written):
    labelled = study(states={"labels": ["Home", "Ward", "Home Ward"]})
    meant = "Home Ward" if "ward" in written else "Home"
    with pytest.raises(pv.DataError, match=f"did you mean '{meant}'\\?"):
        statistics([[(written, 0.0)]], labelled)


def test_an_id_that_looks_missing_is_an_id(tmp_path):
    ids = ["NA", "null", "nan", "None", "NULL", "N/A", "-"]
    rows = [(name, 0, 1, 0.5) for name in ids]
    (tmp_path / "d.csv").write_text(csv_text(rows))
    assert statistics(tmp_path / "d.csv", STUDY).trajectories == len(ids)
    assert statistics(frame(rows), STUDY).trajectories == len(ids)


def test_ids_that_differ_in_a_blank_are_two(tmp_path):
    """Merging them would let m depend on what one of them is called."""
    (tmp_path / "d.csv").write_text("trajectory,step,state,reward\na,0, 1 , 0.5\n a,0,1,0.5\n")
    assert statistics(tmp_path / "d.csv", STUDY).trajectories == 2


def test_rows_and_clamped_rewards_are_counted():
    found = statistics([[(0, 5.0), (1, 0.5)], [(2, -1.0)]], STUDY)
    assert (found.rows, found.trajectories, found.rewards_clamped) == (3, 2, 2)


# Mistakes: the place, the row, the column and the value

GOOD_ROW = ("0", "0", "0", "1")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (("0", "1", "7", "1"), r"line 3: state = 7 is not a state: states are .* 0 to 2"),
        (("0", "1", "-1", "1"), r"line 3: state = -1 is not a state"),
        (("0", "1", "x", "1"), r"line 3: state = 'x' is not a state"),
        (("0", "1", "", "1"), r"line 3: state is missing"),
        (("0", "1", "1", "abc"), r"line 3: reward = 'abc' must be a finite number"),
        (("0", "1", "1", ""), r"line 3: reward is missing"),
        (("0", "1", "1", "nan"), r"line 3: reward = 'nan' must be a finite number"),
        (("0", "1", "1", "-inf"), r"line 3: reward = -inf must be a finite number"),
        (("0", "1", "1", "1e999"), r"line 3: reward = inf must be a finite number"),
        (("0", "one", "1", "1"), r"line 3: step = 'one' must be a whole number"),
        (("0", "1.5", "1", "1"), r"line 3: step = '1.5' must be a whole number"),
        (("0", "", "1", "1"), r"line 3: step is missing"),
        (("", "1", "1", "1"), r"line 3: trajectory is missing"),
        (("0", "0", "1", "1"), r"line 3: step = 0 appears twice in trajectory '0' .*line 2"),
        (("0", "1", "1"), r"line 3: the line has 3 cells where the heading has 4"),
        (("0", "1", "1", "1", "1"), r"line 3: the line has 5 cells where the heading has 4"),
    ],
)
def test_a_bad_row_of_a_csv_file_is_named(tmp_path, row, message):
    (tmp_path / "d.csv").write_text(csv_text([GOOD_ROW, row, ("1", "0", "2", "0")]))
    with pytest.raises(pv.DataError, match=r"d\.csv, " + message) as caught:
        statistics(tmp_path / "d.csv", STUDY)
    assert "\n" not in str(caught.value)


def test_a_step_that_a_person_has_twice_asks_for_the_column_of_trajectories():
    people = study(3, privacy={"unit": "person"}, data={"person": "who"})
    row = {"who": "anna", "step": 0, "state": 1, "reward": 0.0}
    with pytest.raises(pv.DataError, match=r"twice in who 'anna' .* name their column: .* traj"):
        statistics([row, row], people)


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("state", 3, "row 5: state = 3.0 is not a state"),
        ("state", 1.5, "row 5: state = 1.5 is not a state"),
        ("reward", np.inf, "row 5: reward = inf must be a finite number"),
        ("reward", np.nan, "row 5: reward is missing"),
        ("step", np.nan, "row 5: step is missing"),
        ("trajectory", None, "row 5: trajectory is missing"),
    ],
)
def test_a_bad_row_of_a_frame_is_named(column, value, message):
    made = frame().astype({"state": float, "step": float, "reward": float, "trajectory": object})
    made.loc[4, column] = value
    with pytest.raises(pv.DataError, match=message):
        statistics(made, STUDY)


def test_a_bad_row_far_into_the_second_file_is_named(tmp_path):
    good = [(t, 0, 1, 0.5) for t in range(5000)]
    (tmp_path / "a.csv").write_text(csv_text(good))
    (tmp_path / "b.csv").write_text(csv_text([*[(t + 5000, *r) for t, *r in good], ("9", 0, 9, 1)]))
    with pytest.raises(pv.DataError, match=r"b\.csv, line 5002: state = 9"):
        statistics(tmp_path, STUDY)


def test_a_step_that_stands_twice_in_two_files_is_named_in_both(tmp_path):
    (tmp_path / "a.csv").write_text(csv_text([(1, 0, 0, 0), (2, 7, 1, 0)]))
    (tmp_path / "b.csv").write_text(csv_text([(2, 8, 1, 0), (2, 7, 1, 0)]))
    with pytest.raises(pv.DataError, match=r"b\.csv, line 3: step = 7 .* '2' .*a\.csv, line 3"):
        statistics(tmp_path, STUDY)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda f: f / "no.csv", "does not exist"),
        (lambda f: f, "holds no CSV"),
        (lambda f: write(f / "x.doc", "a"), "must end in"),
        (lambda f: write(f / "x.csv", ""), "is empty"),
        (lambda f: write(f / "x.csv", "trajectory,step,state,reward\n"), "no rows"),
        (lambda f: write(f / "x.csv", "trajectory,step,state\n1,2,3\n"), "no column 'reward'"),
        (lambda f: write(f / "x.csv", "trajectory:step:state:reward\n"), "no column"),
        (lambda f: write(f / "x.csv", "step,step,trajectory,state,reward\n"), "more than once"),
        (lambda f: write(f / "x.parquet", "not parquet"), "cannot be read as Parquet: .*\\(\\.csv"),
        (lambda f: write(f / "x.csv", "PAR1\x15\0"), "is a Parquet file, .* ends in \\.parquet"),
        (lambda f: write(f / "x.csv", "PK\x03\x04\0"), "is a workbook .* ends in \\.xlsx"),
        (lambda f: write(f / "x.csv", "PAR1,step,state\n"), "no column"),
        (lambda f: write(f / "x.csv.gz", "not gzip"), "cannot be read as CSV"),
        (lambda f: [[]], "episode 0 .* is not a list of at least one"),
        (lambda f: [[(0, 1.0)], [(0,)]], "episode 1 .* is not a list"),
        (lambda f: [[(0, 1.0)], 7], "episode 1 .* is not a list"),
        (lambda f: [], "no rows"),
        (lambda f: [[(0, 1.0), ("a", 1.0)]], "row 2: state = .*a.* is not a state"),
        (lambda f: 7, "not understood"),
        (lambda f: frame().drop(columns="step"), "no column 'step'"),
        (lambda f: frame().iloc[:0], "no rows"),
    ],
)
def test_sources_that_cannot_be_read(tmp_path, make, message):
    with pytest.raises(pv.DataError, match=message) as caught:
        statistics(make(tmp_path), STUDY)
    assert "\n" not in str(caught.value)


def write(path, text):
    path.write_text(text)
    return path


def test_csv_and_parquet_in_one_folder_are_not_mixed(tmp_path):
    as_csv(tmp_path)
    as_parquet(tmp_path)
    with pytest.raises(pv.DataError, match="both CSV and Parquet"):
        statistics(tmp_path, STUDY)


def test_ids_have_one_type_throughout():
    batches = [
        pa.record_batch({"trajectory": ["a"], "step": [0], "state": [0], "reward": [0.0]}),
        pa.record_batch({"trajectory": ["b"], "step": [0], "state": [0], "reward": [0.0]}),
    ]
    assert statistics(pa.Table.from_batches(batches), STUDY).trajectories == 2


def test_data_larger_than_memory_is_read_in_several_passes(tmp_path):
    """Rows of 120 MB through a sort that may use 16 MB."""
    generator = np.random.default_rng(0)
    rows, people = 5_000_000, 200_000
    order = generator.permutation(rows)
    table = pa.table(
        {
            "trajectory": order % people,
            "step": order // people,
            "state": generator.integers(0, 3, rows),
            "reward": generator.random(rows),
        }
    )
    pq.write_table(table, tmp_path / "d.parquet")
    small = statistics(tmp_path / "d.parquet", STUDY, memory=60 << 20)
    assert small == statistics(tmp_path / "d.parquet", STUDY)
    assert small.trajectories == people


def test_quoted_cells_may_hold_commas_and_quotes(tmp_path):
    (tmp_path / "d.csv").write_text('trajectory,step,state,reward\n"a,""b",0,1,0.5\n')
    assert statistics(tmp_path / "d.csv", STUDY).trajectories == 1


def test_progress_counts_rows():
    seen = []
    statistics(frame(), STUDY, progress=lambda rows, total: seen.append((rows, total)))
    assert seen[-1] == (len(frame()), len(frame()))


# What a review found


def test_text_that_is_no_text_names_nobody(tmp_path):
    """The byte 255 would otherwise be the end of an id, and two ids one."""
    ids = pa.array([b"a\xff", b"b", b"c"], pa.binary()).view(pa.string())
    rest = {"step": [0, 0, 0], "state": [0, 1, 2], "reward": [0.0, 0.5, 1.0]}
    for data in (table := pa.table({"trajectory": ids, **rest}), tmp_path / "d.parquet"):
        pq.write_table(table, tmp_path / "d.parquet")
        with pytest.raises(pv.DataError, match=r"row 1: trajectory = b'a.xff' is not an id"):
            statistics(data, STUDY)


def test_steps_of_two_clocks_are_the_same_time(tmp_path):
    for name, unit, tick in (("a", "ms", 100_000), ("b", "us", 50_000_000)):
        step = pa.array([tick], pa.timestamp(unit))
        rest = {"trajectory": [7], "state": [0], "reward": [1.0]}
        pq.write_table(pa.table({"step": step, **rest}), tmp_path / f"{name}.parquet")
    found = statistics(tmp_path, study(3, data={"step_type": "datetime"}))
    assert (found.rows, found.trajectories) == (2, 1)
    assert found.mean_returns(0.0)[0] == pytest.approx(1.9)  # the second file's row comes first


def test_a_heading_alone_is_no_rows_however_it_is_read(tmp_path):
    open_to_all = study(3, privacy={"neighbours": "add-remove"})
    heading = "trajectory,step,state,reward"
    with gzip.open(tmp_path / "a.csv.gz", "wt") as file:
        file.write(heading)
    (tmp_path / "b.csv").write_text(heading)
    (tmp_path / "c.csv").write_text(heading + ',"x,y"\n')
    for name in ("a.csv.gz", "b.csv", "c.csv"):
        assert statistics(tmp_path / name, open_to_all).rows == 0


def test_a_pattern_that_matches_a_folder_and_its_files_reads_each_once(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "d.csv").write_text(csv_text(shuffled_rows()))
    assert statistics(str(tmp_path / "**"), STUDY) == EXPECTED


def test_many_episodes_of_mixed_cells_keep_their_own():
    """A batch of more rows than are encoded at once: each row still has its own cells."""
    long, short = [(0, 0.5)] * 131_000, [(1, 1)] * 3000  # numbers of two types
    found = statistics([long, short], study(2, discount=0.5))
    assert found.counts.tolist() == [1, 1]
    assert found.mean_returns(0.0).tolist() == pytest.approx([1.0, 2.0], abs=1e-8)
