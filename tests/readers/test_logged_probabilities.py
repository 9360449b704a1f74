"""Logged probabilities: the same statistics in every order, in one pass and in several."""

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


def build_study(*, unit="trajectory", behaviour="column", **keywords):
    if unit == "person":
        columns = {"person": "person", "trajectory": "trajectory"}
        keywords |= {"max_trajectories_per_person": 2, "columns": columns}
    return pv.Study(
        states=list(STATES), actions=["wait", "treat"], discount=0.875, returns=RETURNS,
        rewards=(0.0, 1.0), epsilon=1.0, unit=unit, mechanism="dp-ope",
        policy={"target": TARGET, "behaviour": behaviour, "clip": CLIP, "by": "start"},
        **keywords,
    )  # fmt: skip


STUDY = build_study()


def random_rows(count=40, seed=1, id_of=lambda t: t, step_of=lambda i: i):
    """Return trajectories in order, three for each person, with probabilities of all digits."""
    draw = random.Random(seed)
    odd = [0.0, 1.0, 5e-324, 2.0**-60, 0.1 + 2.0**-55]
    return pd.DataFrame(
        [
            (
                *(id_of(t // 3), id_of(t), step_of(i)),
                *(draw.choice(STATES), draw.choice(["wait", "treat"]), draw.random() * 1.25),
                draw.choice(odd) if draw.random() < 0.1 else 0.3 + 0.7 * draw.random(),
            )
            for t in range(count)
            for i in range(draw.randrange(1, 9))
        ],
        columns=COLUMNS,
    )


def literal(rows):
    """Return the sums of the slow twin, trajectory by trajectory."""
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
        result = slow.contribution(weighed, **limits, steps=GRID_STEPS)
        start = own.state.iloc[0]
        sums[start] = [a + b for a, b in zip(sums[start], (*result, 1), strict=True)]
    return [list(column) for column in zip(*sums.values(), strict=True)]


def sums_of(total):
    centred = total.return_steps - total.counts * (GRID_STEPS // 2)
    return [a.tolist() for a in (total.weighted_steps, total.weight_steps, centred, total.counts)]


def shuffle(rows, seed=3):
    return rows.sample(frac=1, random_state=seed)


def write_parquet(folder, rows, name):
    table = pa.Table.from_pandas(rows, preserve_index=False)
    pq.write_table(table, folder / name, row_group_size=6)
    return folder / name


# The same statistics


@pytest.mark.parametrize("memory", [PASSES, ONE_PASS], ids=["several passes", "one pass"])
@pytest.mark.parametrize(
    ("id_of", "step_of"),
    [
        (lambda t: t * 7 - 50, lambda i: i),
        (str, lambda i: 2**40 * i - 3),
        (lambda t: 2**40 * t - 3, lambda i: 3 * i),
        (lambda t: f"{t:04}" * (1 + t % 30), lambda i: i),
    ],
    ids=["numbers", "texts of numbers, wide steps", "wide numbers, gaps", "long texts"],
)
def test_order_threads_and_memory_change_nothing(id_of, step_of, memory, tmp_path, small_batches):
    rows = random_rows(id_of=id_of, step_of=step_of)
    expected = statistics(rows, STUDY)
    assert sums_of(expected) == literal(rows)
    assert 0 < expected.weights_clipped < expected.trajectories
    shuffled = write_parquet(tmp_path, shuffle(rows), "rows.parquet")
    for threads in (1, 3):
        assert statistics(shuffled, STUDY, memory=memory, threads=threads) == expected
    once = pa.Table.from_pandas(shuffle(rows, 4)).to_reader(9)  # a stream is read once only
    assert statistics(once, STUDY) == expected


@pytest.mark.parametrize("memory", [PASSES, ONE_PASS], ids=["several passes", "one pass"])
def test_persons_in_any_order(memory, small_batches):
    """Of each person the first two trajectories count."""
    persons = build_study(unit="person")
    for id_of in (lambda t: t, lambda t: f"{t:03}" * (1 + t % 20)):
        rows = random_rows(id_of=id_of)
        result = statistics(shuffle(rows), persons, memory=memory)
        assert result == statistics(rows, persons)
        assert (result.persons, result.surplus_trajectories) == (14, 13)
        first = rows.groupby("person").trajectory.transform(lambda own: own.isin(own.unique()[:2]))
        assert sums_of(result) == literal(rows[first.astype(bool)])


# One unit does not affect the others


@pytest.mark.parametrize("invalid", ["refuse", "drop-unit"])
def test_a_long_id_does_not_exhaust_the_memory(invalid):
    """It makes the keys of its whole batch as long."""
    study, rows = build_study(invalid=invalid), random_rows(900, id_of=lambda t: str(1000 + t))
    renamed = rows.replace({"trajectory": {"1456": LONG_ID}})
    for memory in (1 << 20, 1 << 28):
        result = statistics(shuffle(rows), study, memory=memory)
        assert statistics(shuffle(renamed), study, memory=memory) == result
        assert sums_of(result) == literal(rows)


def test_units_with_invalid_probabilities_are_dropped(small_batches):
    """Also if their other rows are valid, and if a step is there twice."""
    study, rows = build_study(invalid="drop-unit"), random_rows()
    spoilt = rows.copy()
    for t, odd in ((4, np.nan), (9, -0.5), (17, 1.5)):
        spoilt.loc[spoilt.index[spoilt.trajectory == t][-1], "probability"] = odd
    again = rows[rows.trajectory == 30].iloc[[0]].assign(probability=0.25)
    spoilt = shuffle(pd.concat([spoilt, again], ignore_index=True))
    for memory in (PASSES, ONE_PASS):
        result = statistics(spoilt, study, memory=memory)
        assert sums_of(result) == literal(rows[~rows.trajectory.isin([4, 9, 17, 30])])
        assert result.units_dropped == 4
