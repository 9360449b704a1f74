"""Rows with logged probabilities: one answer in order and in none, in memory and on disk."""

import random

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privalue as pv
from oracles import weights as slow
from oracles.reading import statistics
from privalue.core import GRID_STEPS

TARGET = {"ill": {"wait": 0.25, "treat": 0.75}, "well": {"wait": 1.0}}
STATES, CLIP, RETURNS = tuple(TARGET), 2.5, (0.0, 3.0)
COLUMNS = ["person", "trajectory", "step", "state", "action", "reward", "probability"]
PASSES, ONE_PASS = 1, 2 << 30
LONG_ID = "q" * 255


def described(*, unit="trajectory", behaviour="column", **keywords):
    if unit == "person":
        columns = {"person": "person", "trajectory": "trajectory"}
        keywords |= {"max_trajectories_per_person": 2, "columns": columns}
    return pv.Study(
        states=list(STATES), actions=["wait", "treat"], discount=0.875, returns=RETURNS,
        rewards=(0.0, 1.0), epsilon=1.0, unit=unit, mechanism="dp-ope",
        policy={"target": TARGET, "behaviour": behaviour, "clip": CLIP, "by": "start"},
        **keywords,
    )  # fmt: skip


STUDY = described()


def made_rows(count=40, seed=1, named=lambda t: t, stepped=lambda i: i):
    """Trajectories in order, three to a person; probabilities have all the digits of a double."""
    draw = random.Random(seed)
    odd = [0.0, 1.0, 5e-324, 2.0**-60, 0.1 + 2.0**-55]
    return pd.DataFrame(
        [
            (
                *(named(t // 3), named(t), stepped(i)),
                *(draw.choice(STATES), draw.choice(["wait", "treat"]), draw.random() * 1.25),
                draw.choice(odd) if draw.random() < 0.1 else 0.3 + 0.7 * draw.random(),
            )
            for t in range(count)
            for i in range(draw.randrange(1, 9))
        ],
        columns=COLUMNS,
    )


def literal(rows):
    """The sums of statistics, trajectory by trajectory, by the slow twin."""
    sums = {state: [0, 0, 0, 0] for state in STATES}
    for _, own in rows.groupby("trajectory"):
        ratios = [
            TARGET[state].get(action, 0.0) / probability if probability > 0 else 0.0
            for state, action, probability in zip(
                own.state, own.action, own.probability, strict=True
            )
        ]
        limits = {"discount": 0.875, "bounds": RETURNS, "rewards": (0.0, 1.0), "clip": CLIP}
        weighed = list(zip(own.reward, ratios, strict=True))
        found = slow.contribution(weighed, **limits, steps=GRID_STEPS)
        start = own.state.iloc[0]
        sums[start] = [a + b for a, b in zip(sums[start], (*found, 1), strict=True)]
    return [list(column) for column in zip(*sums.values(), strict=True)]


def sums_of(found):
    centred = found.return_steps - found.counts * (GRID_STEPS // 2)
    return [a.tolist() for a in (found.weighted_steps, found.weight_steps, centred, found.counts)]


def mixed(rows, seed=3):
    return rows.sample(frac=1, random_state=seed)


def written(folder, rows, name):
    table = pa.Table.from_pandas(rows, preserve_index=False)
    pq.write_table(table, folder / name, row_group_size=6)
    return folder / name


# One answer


@pytest.mark.parametrize("memory", [PASSES, ONE_PASS], ids=["several passes", "one pass"])
@pytest.mark.parametrize(
    ("named", "stepped"),
    [
        (lambda t: t * 7 - 50, lambda i: i),
        (str, lambda i: 2**40 * i - 3),
        (lambda t: 2**40 * t - 3, lambda i: 3 * i),
        (lambda t: f"{t:04}" * (1 + t % 30), lambda i: i),
    ],
    ids=["numbers", "texts of numbers, wide steps", "wide numbers, gaps", "long texts"],
)
def test_order_threads_and_memory_change_nothing(named, stepped, memory, tmp_path, small_batches):
    rows = made_rows(named=named, stepped=stepped)
    expected = statistics(rows, STUDY)
    assert sums_of(expected) == literal(rows)
    assert 0 < expected.weights_clipped < expected.trajectories
    shuffled = written(tmp_path, mixed(rows), "rows.parquet")
    for threads in (1, 3):
        assert statistics(shuffled, STUDY, memory=memory, threads=threads) == expected
    once = pa.Table.from_pandas(mixed(rows, 4)).to_reader(9)  # a stream is read once only
    assert statistics(once, STUDY) == expected


@pytest.mark.parametrize("memory", [PASSES, ONE_PASS], ids=["several passes", "one pass"])
def test_persons_in_any_order(memory, small_batches):
    """Of each person the first two trajectories count."""
    persons = described(unit="person")
    for named in (lambda t: t, lambda t: f"{t:03}" * (1 + t % 20)):
        rows = made_rows(named=named)
        found = statistics(mixed(rows), persons, memory=memory)
        assert found == statistics(rows, persons)
        assert (found.persons, found.surplus_trajectories) == (14, 13)
        first = rows.groupby("person").trajectory.transform(lambda own: own.isin(own.unique()[:2]))
        assert sums_of(found) == literal(rows[first.astype(bool)])


# One unit decides nothing


@pytest.mark.parametrize("invalid", ["refuse", "drop-unit"])
def test_a_long_id_does_not_decide_whether_there_is_a_release(invalid):
    """It makes the ids of its whole chunk as long, and so took all rows beyond the memory."""
    study, rows = described(invalid=invalid), made_rows(900, named=lambda t: str(1000 + t))
    renamed = rows.replace({"trajectory": {"1456": LONG_ID}})
    for memory in (1 << 20, 1 << 28):
        found = statistics(mixed(rows), study, memory=memory)
        assert statistics(mixed(renamed), study, memory=memory) == found
        assert sums_of(found) == literal(rows)


def test_units_with_invalid_probabilities_are_dropped(small_batches):
    """Also if their other rows are valid, and if a step is there twice."""
    study, rows = described(invalid="drop-unit"), made_rows()
    spoilt = rows.copy()
    for t, odd in ((4, np.nan), (9, -0.5), (17, 1.5)):
        spoilt.loc[spoilt.index[spoilt.trajectory == t][-1], "probability"] = odd
    again = rows[rows.trajectory == 30].iloc[[0]].assign(probability=0.25)
    spoilt = mixed(pd.concat([spoilt, again], ignore_index=True))
    for memory in (PASSES, ONE_PASS):
        found = statistics(spoilt, study, memory=memory)
        assert sums_of(found) == literal(rows[~rows.trajectory.isin([4, 9, 17, 30])])
        assert found.units_dropped == 4
