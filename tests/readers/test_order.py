"""Rows in order and rows in none: one answer, one error, whatever the chunks and the threads."""

import os
import random
import subprocess
import sys
import textwrap

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import privalue as pv
from oracles import cells
from oracles.reading import statistics
from oracles.studies import rows_of, study
from privalue.errors import BoundaryError
from privalue.readers import files, grouping, local, tables

COLUMNS = ["trajectory", "step", "state", "reward"]
STUDY = study(3)
SORTED = study(3, data={"sorted": True})


def episodes(count=40, seed=1, longest=9):
    draw = random.Random(seed)
    return [
        [(draw.randrange(3), draw.randrange(5) / 4) for _ in range(draw.randrange(1, longest))]
        for _ in range(count)
    ]


def frame(rows):
    return pd.DataFrame(rows, columns=COLUMNS)


def write(folder, made, *, group=6, files=3):
    """Parquet files of small row groups; trajectories straddle both."""
    for number, part in enumerate(np.array_split(np.arange(len(made)), files)):
        table = pa.Table.from_pandas(made.iloc[part], preserve_index=False)
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=group)
    return folder


def way_taken(monkeypatch):
    """Which of the two ways through a source were finished."""
    taken = []
    for name in ("in_order", "in_any_order"):
        whole = getattr(local._Reading, name)

        def watched(self, *given, name=name, whole=whole, **named):
            found = whole(self, *given, **named)
            taken.append(name)
            return found

        monkeypatch.setattr(local._Reading, name, watched)
    return taken


# One answer


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("memory", [1, 2 << 30], ids=["several passes", "one pass"])
@pytest.mark.parametrize(
    "ids", ["numbers", "large numbers", "texts of numbers", "texts", "long texts", "unsigned"]
)
def test_order_chunks_threads_and_memory_change_nothing(
    ids, memory, threads, tmp_path, small_batches, monkeypatch
):
    data = episodes()
    named = {
        "numbers": lambda t: t * 7 - 50,
        "texts of numbers": lambda t: str(7 * t - 50),
        "texts": lambda t: f"patient {t:04}",
        "long texts": lambda t: f"{t:04}" * (1 + t % 30),
        "unsigned": lambda t: np.uint64(2**63 - 20 + t),
        "large numbers": lambda t: 2**40 * t - 3,
    }[ids]
    made = frame([(named(t), *row) for t, *row in rows_of(data)])
    expected = statistics(data, STUDY)
    taken = way_taken(monkeypatch)
    (tmp_path / "sorted").mkdir()
    (tmp_path / "shuffled").mkdir()
    in_order = write(tmp_path / "sorted", made)
    shuffled = write(tmp_path / "shuffled", made.sample(frac=1, random_state=3))
    assert statistics(in_order, STUDY, memory=memory, threads=threads) == expected
    assert statistics(in_order, SORTED, memory=memory, threads=threads) == expected
    assert taken == ["in_order", "in_order"]
    assert statistics(shuffled, STUDY, memory=memory, threads=threads) == expected
    assert taken[2:] == ["in_any_order"]


NARROW = {"step": np.int32, "state": np.int32, "reward": np.float32}
WIDE = {"step": np.int64, "state": np.int64, "reward": np.float64}


@pytest.mark.parametrize("memory", [1, 2 << 30], ids=["several passes", "one pass"])
def test_numbers_of_32_bits_are_the_same_numbers_of_64(memory, tmp_path, small_batches):
    """Whatever types a file has; several files need not agree."""
    draw = np.random.default_rng(3)
    made = frame(rows_of(episodes())).astype(NARROW)
    made["reward"] = draw.uniform(-0.2, 1.2, len(made)).astype(np.float32)
    assert (made["reward"].astype(np.float64).round(4) != made["reward"]).all()
    expected = statistics(made.astype(WIDE), STUDY)
    shuffled = made.sample(frac=1, random_state=3)
    assert statistics(shuffled.astype(WIDE), STUDY, memory=memory) == expected
    for name, rows in (("sorted", made), ("shuffled", shuffled)):
        for several in ((NARROW, NARROW), (NARROW, WIDE)):
            folder = tmp_path / f"{name}-{several[1]['step'].__name__}"
            folder.mkdir()
            halves = np.array_split(np.arange(len(rows)), 2)
            for number, (half, kinds) in enumerate(zip(halves, several, strict=True)):
                table = pa.Table.from_pandas(rows.iloc[half].astype(kinds), preserve_index=False)
                pq.write_table(table, folder / f"{number}.parquet", row_group_size=6)
            assert statistics(folder, STUDY, memory=memory) == expected


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
    """Of each person the first trajectories by id, 9 before 10 also where ids are texts."""
    draw = random.Random(seed)
    rows, kept = [], []
    for person, owned in people.items():
        for place, (trajectory, length) in enumerate(sorted(owned.items())):
            episode = [(draw.randrange(3), draw.random()) for _ in range(length)]
            kept += [episode] if place < most else []
            name = str(trajectory) if text else trajectory
            rows += [(person, name, at, *step) for at, step in enumerate(episode)]
    made = pd.DataFrame(rows, columns=["person", *COLUMNS]).sample(frac=1, random_state=seed)
    described = study(3, privacy={"unit": "person", "max_trajectories_per_person": most})
    rows.sort(key=lambda row: (cells.rank(row[0]), int(row[1]), row[2]))
    ordered = pd.DataFrame(rows, columns=made.columns)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "BATCH_ROWS", part)
        patch.setattr(local, "LEAST_BYTES", 1000)
        taken = way_taken(patch)
        found = [statistics(ordered, described), statistics(made, described, memory=1)]
        assert taken[0] == "in_order"
    assert found[0] == found[1]
    expected = statistics(kept, STUDY)
    assert found[0].trajectories == expected.trajectories
    assert found[0].counts.tolist() == expected.counts.tolist()
    assert found[0].return_steps.tolist() == expected.return_steps.tolist()


@given(data=st.data())
def test_gaps_negative_and_extreme_steps(data):
    """Steps without gaps find their places directly, others are sorted; both are right."""
    made = data.draw(
        st.lists(
            st.lists(
                st.one_of(st.integers(-3, 6), st.integers(-(2**63), 2**63 - 1)),
                unique=True,
                min_size=1,
                max_size=12,
            ),
            min_size=1,
            max_size=6,
        )
    )
    draw = random.Random(7)
    rows, expected = [], []
    for t, steps in enumerate(made):
        values = {step: (draw.randrange(3), draw.random()) for step in steps}
        expected.append([values[step] for step in sorted(steps)])
        rows += [(t, step, *values[step]) for step in steps]
    rows = [(-1, 0, 0, 0.0), (-2, 0, 0, 0.0), *rows]  # in no order, so that they are arranged
    expected += [[(0, 0.0)], [(0, 0.0)]]
    assert statistics(frame(rows), STUDY) == statistics(expected, STUDY)


# Ids and their words


def test_very_long_ids_are_refused():
    made = frame(rows_of(episodes(2))).astype({"trajectory": str})
    made.loc[2, "trajectory"] = "x" * 256
    with pytest.raises(pv.DataError, match=r"row 3: trajectory = 'xxx.* at most 255 bytes"):
        statistics(made, STUDY)


def test_a_heading_that_nobody_names_is_not_read(tmp_path):
    made = frame([(1, 0, 0, 0.0), (2, 0, 1, 1.0)])
    made.assign(person=1).to_parquet(tmp_path / "a.parquet")
    made.assign(step=1).to_parquet(tmp_path / "b.parquet")
    assert statistics(tmp_path, STUDY).trajectories == 2


def test_ids_of_two_types_are_the_same_ids(tmp_path):
    made = frame([(1, 0, 0, 0.0), (2, 0, 1, 1.0)])
    made.to_parquet(tmp_path / "a.parquet")
    made.assign(step=1).astype({"trajectory": str}).to_parquet(tmp_path / "b.parquet")
    made.assign(step=2).astype({"trajectory": float}).to_parquet(tmp_path / "c.parquet")
    assert statistics(tmp_path, STUDY).trajectories == 2


# One error


def spoilt(rows, kind):
    at = len(rows) // 2
    t, step, state, _ = rows[at]
    return {
        "state": [*rows[:at], (t, step, 9, 0.0), *rows[at + 1 :]],
        "reward": [*rows[:at], (t, step, state, float("inf")), *rows[at + 1 :]],
        "missing": [*rows[:at], (t, step, state, None), *rows[at + 1 :]],
        "twice": [*rows[: at + 1], (t, step, state, 1.0), *rows[at + 1 :]],
        "twice and state": [*rows[: at + 1], rows[at], *rows[at + 1 :], (10**6, 0, 9, 0.0)],
        "two twice": [
            *rows[: at + 1],
            rows[at],
            *rows[at + 1 : at + 30],
            rows[5],
            *rows[at + 30 :],
        ],
    }[kind]


@pytest.mark.parametrize(
    "kind", ["state", "reward", "missing", "twice", "twice and state", "two twice"]
)
@pytest.mark.parametrize("as_files", [True, False])
def test_a_mistake_gets_one_error_whatever_way_is_taken(kind, as_files, tmp_path, small_batches):
    """In order, in order as promised, in no order, by one thread or three."""
    rows = spoilt(rows_of(episodes(60)), kind)
    far = (-9, 0, 0, 0.0)  # the last row: the same rows then are in no order
    said = set()
    for number, (last, described) in enumerate(
        [((10**9, 0, 0, 0.0), STUDY), ((10**9, 0, 0, 0.0), SORTED), (far, STUDY)]
    ):
        if described is SORTED and "twice" in kind:
            continue  # the first mistake in its way is another one, or the same: below
        made = frame([*rows, last])
        for threads in (1, 3):
            data = made
            if as_files:
                folder = tmp_path / f"{number}"
                folder.mkdir(exist_ok=True)
                data = write(folder, made)
            with pytest.raises(pv.DataError) as caught:
                statistics(data, described, threads=threads)
            said.add(str(caught.value).replace(f"{tmp_path}/{number}/", ""))
    assert len(said) == 1
    if kind == "two twice":  # the pair that is complete first
        assert f"step = {rows[len(rows) // 2][1]} appears twice" in said.pop()


def test_promised_order_is_verified(tmp_path, small_batches):
    rows = rows_of(episodes(9))
    swapped = [*rows[10:], *rows[:10]]
    with pytest.raises(pv.DataError) as caught:
        statistics(write(tmp_path, frame(swapped)), SORTED)
    text = str(caught.value)
    before = sum(map(len, np.array_split(swapped, 3)[:2]))
    assert f"2.parquet, row {len(rows) - 10 - before + 1}: trajectory = '0', step = 0" in text
    assert f"comes after trajectory = '8', step = {rows[-1][1]};" in text
    assert text.endswith("sort the rows, or remove sorted = true")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ((1, 2), "row 2: trajectory = '0', step = 1 comes after trajectory = '0', step = 2"),
        ((2, 3), "row 3: trajectory = '0', step = 2 comes after trajectory = '1', step = 0"),
    ],
)
def test_promised_order_within_and_between_trajectories(changed, message):
    rows = [(0, 0, 0, 0.0), (0, 1, 0, 0.0), (0, 2, 0, 0.0), (1, 0, 0, 0.0)]
    first, second = changed
    rows[first], rows[second] = rows[second], rows[first]
    message = message.replace("row 2", f"row {second + 1}").replace("row 3", f"row {second + 1}")
    with pytest.raises(pv.DataError, match=message):
        statistics(frame(rows), SORTED)
    assert statistics(frame(rows), STUDY).trajectories == 2


def test_a_promise_holds_for_streams_too():
    reader = pa.Table.from_pandas(frame([(1, 0, 0, 0.0), (0, 0, 0, 0.0)])).to_reader()
    with pytest.raises(pv.DataError, match=r"comes after .*remove sorted = true"):
        statistics(reader, SORTED)


def test_a_step_that_stands_twice_breaks_the_promise_in_its_own_words(small_batches):
    rows = rows_of(episodes(30))
    with pytest.raises(pv.DataError, match=rf"row 51: step = {rows[49][1]} appears twice .*row 50"):
        statistics(frame([*rows[:50], rows[49], *rows[50:]]), SORTED)


def test_a_trajectory_that_comes_back_is_not_cut_in_two(small_batches, monkeypatch):
    """The planted mistake: the order is not looked at where batches are split and joined."""
    data = episodes(8)
    rows = rows_of(data)
    returned = [rows[0], *rows[len(data[0]) :], *rows[1 : len(data[0])]]
    assert statistics(frame(returned), STUDY) == statistics(data, STUDY)

    monkeypatch.setattr(local._Reading, "_require_order", lambda *_: None)
    with pytest.raises(BoundaryError, match="handed over twice, or in two parts"):
        statistics(frame(returned), STUDY)


# Memory, disk, interrupts


def shuffled_rows(count, seed=0):
    rng = np.random.default_rng(seed)
    at = rng.permutation(count)
    return pa.table(
        {
            "trajectory": at // 50,
            "step": at % 50,
            "state": rng.integers(0, 3, count),
            "reward": rng.random(count),
        }
    )


def script(text, **environment):
    prelude = """
        import resource, signal, sys
        import pyarrow.parquet as pq
        import privalue as pv
        from oracles.reading import statistics
        study = pv.Study(
            epsilon=1.0, delta=1e-6, unit="trajectory",
            discount=0.9, rewards=(0.0, 1.0),
            states=3,
        )
    """
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(prelude) + textwrap.dedent(text)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
def test_the_limit_holds_for_the_whole_process(tmp_path):
    """Rows of 256 MB in no order, and a limit of about 704 MB for everything."""
    pq.write_table(shuffled_rows(8_000_000), tmp_path / "d.parquet", row_group_size=1 << 20)
    run = script(
        f"""
        statistics({str(tmp_path / "d.parquet")!r}, study, memory=704 << 20)
        status = dict(line.split(":") for line in open("/proc/self/status"))
        print(int(status["VmHWM"].split()[0]) << 10)  # getrusage would tell of the parent
        """
    )
    output, errors = run.communicate()
    assert errors == ""
    assert int(output) < 1.1 * (704 << 20)  # what waits for a busy machine differs from run to run


# Progress


def test_progress_reaches_the_end_by_both_ways():
    table = shuffled_rows(400_000)
    for data in (table, table.sort_by([("trajectory", "ascending"), ("step", "ascending")])):
        seen = []
        statistics(data, STUDY, progress=lambda rows, total: seen.append((rows, total)))  # noqa: B023
        assert [rows for rows, _ in seen] == sorted(rows for rows, _ in seen)
        assert seen[-1] == (400_000, 400_000)


def test_rows_of_a_csv_file_are_estimated(tmp_path):
    made = frame([(t, s, 1, 0.5) for t in range(4000) for s in range(5)])
    made.to_csv(tmp_path / "d.csv", index=False)
    seen = []
    found = statistics(tmp_path, STUDY, progress=lambda *told: seen.append(told))
    assert found.rows == seen[-1][0] == 20_000
    assert seen[-1][1] == pytest.approx(20_000, rel=0.1)
    made.to_csv(tmp_path / "d.csv.gz", index=False)
    statistics(tmp_path / "d.csv.gz", STUDY, progress=lambda *told: seen.append(told))
    assert seen[-1] == (20_000, None)


@pytest.mark.parametrize("group", [1, 7, 20, 21, 1000])
def test_row_groups_are_read_a_few_or_a_part_at_a_time(group, tmp_path, monkeypatch):
    made = frame(rows_of(episodes(40)))
    expected = statistics(made, STUDY)
    monkeypatch.setattr(files, "READ_ROWS", 20)
    assert statistics(write(tmp_path, made, group=group, files=2), STUDY) == expected


# Larger than memory


def test_a_source_is_read_once_for_each_part_that_fits(monkeypatch):
    monkeypatch.setattr(local, "LEAST_BYTES", 1 << 20)
    table, read = shuffled_rows(200_000), []
    whole = local._Reading._gather

    def gather(self, first, room):
        found = whole(self, first, room)
        read.append((first, found[1], sum(one.rows.nbytes for one in found[0])))
        return found

    monkeypatch.setattr(local._Reading, "_gather", gather)
    expected = statistics(table, STUDY)
    assert [pass_[:2] for pass_ in read] == [(0, grouping.PARTITIONS)]
    read.clear()
    assert statistics(table, STUDY, memory=1) == expected
    assert len(read) > 3
    assert all(size <= 1 << 20 for _, _, size in read)
    assert [first for first, _, _ in read[1:]] == [last for _, last, _ in read[:-1]]


def test_a_stream_that_does_not_fit_says_what_to_do(monkeypatch):
    monkeypatch.setattr(local, "LEAST_BYTES", 1 << 20)
    with pytest.raises(pv.DataError, match="write them to a Parquet file"):
        statistics(shuffled_rows(200_000).to_reader(), STUDY, memory=1)


def test_memory_is_half_of_what_the_container_may_use(tmp_path):
    whole = local.default_memory(())
    limit = tmp_path / "memory.max"
    for text, expected in (("max\n", whole), (f"{1 << 20}\n", 1 << 19), ("9" * 18, whole)):
        limit.write_text(text)
        assert local.default_memory((str(limit), str(tmp_path / "absent"))) == expected
