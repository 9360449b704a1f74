"""Data in every shape gives the same statistics, or is refused."""

import random
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import privalue as pv
from oracles.reading import statistics as gather
from oracles.refusals import refused

STUDY = pv.Study(states=4, discount=0.9, returns=(0, 1), epsilon=1.0, delta=1e-6, unit="trajectory")
DROPPING = STUDY.replace(invalid="drop-unit")
draw = random.Random(1)
EPISODES = [
    [(draw.randrange(4), draw.choice([0.0, 0.25, 1.0])) for _ in range(draw.randrange(1, 6))]
    for _ in range(50)
]
ROWS = [(n, t, *step) for n, steps in enumerate(EPISODES) for t, step in enumerate(steps)]
NAMES = ["trajectory", "step", "state", "reward"]
FRAME = pd.DataFrame(ROWS, columns=NAMES)
COLUMNS = {name: FRAME[name].to_numpy() for name in NAMES}
EXPECTED = gather(FRAME, STUDY)
LAST = np.array([t != after for (t, *_), (after, *_) in pairwise([*ROWS, (-1,)])])
STATE, REWARD = COLUMNS["state"], COLUMNS["reward"]


@dataclass
class Episode:
    """As of d3rlpy: numbers in columns."""

    observations: np.ndarray
    rewards: np.ndarray
    terminated: bool = True


@dataclass
class Dataset:
    episodes: list


class OnlyAnArray:
    """As of libraries that have Arrow's interface for arrays alone."""

    def __init__(self, batch):
        self.batch = batch

    def __arrow_c_array__(self, requested_schema=None):
        return self.batch.__arrow_c_array__(requested_schema)


def as_d3rlpy(episodes):
    return Dataset(
        [
            Episode(
                np.array([[state] for state, _ in steps]),
                np.array([[reward] for _, reward in steps]),
            )
            for steps in episodes
        ]
    )


def steps_of(form):
    return [[form(state, reward) for state, reward in steps] for steps in EPISODES]


TABLE = pa.Table.from_pandas(FRAME)
SHAPES = {
    "a pandas frame": FRAME,
    "a polars frame": pl.DataFrame(FRAME),
    "a lazy frame": pl.DataFrame(FRAME).lazy().filter(pl.col("step") >= 0),
    "an Arrow table": TABLE,
    "a record batch": TABLE.combine_chunks().to_batches()[0],
    "a reader of batches": lambda: TABLE.to_reader(7),
    "an Arrow array alone": OnlyAnArray(TABLE.combine_chunks().to_batches()[0]),
    "a dict of arrays": COLUMNS,
    "a list of dicts": FRAME.to_dict("records"),
    "a shuffled list of dicts": FRAME.sample(frac=1, random_state=1).to_dict("records"),
    "(state, reward)": EPISODES,
    "(state, action, reward)": steps_of(lambda state, reward: (state, 7, reward)),
    "(s, a, r, next, terminated, truncated)": steps_of(
        lambda state, reward: (np.int64(state), "left", np.float64(reward), 3, False, False)
    ),
    "steps that are dicts": steps_of(lambda state, reward: {"state": state, "reward": reward}),
    "a generator of lists": lambda: (list(steps) for steps in EPISODES),
    "D4RL": {
        "observations": STATE,
        "actions": STATE,
        "next_observations": STATE,
        "rewards": REWARD.astype(np.float32),
        "terminals": LAST,
        "timeouts": np.zeros(len(LAST), dtype=bool),
    },
    "d3rlpy's columns": {
        "observations": STATE[:, None],
        "rewards": REWARD[:, None],
        "terminals": LAST.astype(np.float32),
    },
    "timeouts alone": {"observations": STATE, "rewards": REWARD, "timeouts": LAST},
    "an end that is not marked": {
        "observations": STATE,
        "rewards": REWARD,
        "terminations": np.where(np.arange(len(LAST)) == len(LAST) - 1, False, LAST),
    },
    "d3rlpy's dataset": as_d3rlpy(EPISODES),
    "a list of recordings": [
        {"observations": [s for s, _ in steps], "rewards": [r for _, r in steps]}
        for steps in EPISODES
    ],
}


MARKED = {
    "(s, a, r, next, terminated, truncated)": "episode-unreadable",
    "D4RL": "truncated-rows-missing",
    "timeouts alone": "truncated-rows-missing",
}


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_gives_the_same_statistics(shape):
    data = SHAPES[shape]
    if shape not in MARKED:
        assert gather(data() if callable(data) else data, STUDY) == EXPECTED
        return
    with refused(MARKED[shape]):
        gather(data, STUDY)  # some are marked as truncated, and the study has no rule for them
    result = gather(data, STUDY.replace(truncated_rows="keep"))
    assert result.counts.tolist() == EXPECTED.counts.tolist()


def test_truncated_trajectories_are_recognised():
    """By timeouts that are no terminals, by an end that is not marked, by the step's own flag."""
    study = STUDY.replace(columns={"truncated": "cut"}, truncated_rows="drop-unit")
    rows = {"observations": [0, 1, 2, 3, 0], "rewards": [0, 0, 1, 1, 0.5]}
    marks = {"terminals": [0, 1, 0, 0, 0], "timeouts": [0, 1, 0, 1, 0]}
    assert gather({**rows, **marks}, study).counts.tolist() == [1, 1, 0, 0]
    steps = [
        [(0, 9, 0.0, 1, False, False), (1, 9, 0.0, 2, True, False)],
        [(2, 9, 1.0, 3, False, False), (3, 9, 1.0, 0, False, True)],
    ]
    assert gather(steps, study).counts.tolist() == [1, 1, 0, 0]
    assert gather([[(0, 0.0, False)], [(1, 0.0, True)]], study).counts.tolist() == [1, 0, 0, 0]
    cut = Dataset([Episode(np.array([0]), np.array([1.0]), terminated=False)])
    mixed = Dataset([Episode(np.array([1]), np.array([1.0])), *cut.episodes])
    assert gather(mixed, study).counts.tolist() == [0, 1, 0, 0]


def test_one_cell_of_a_list_changes_no_other():
    """A text, a complex number or a list among numbers of observations: only its unit is odd."""
    odd = ["3", 1j, None, [1.0, 2.0, 3.0], [], object(), np.ones(3), {"age": 1}]
    study = DROPPING.replace(bins={"age": [50.5], "sofa": [5]}, decimal=",")
    many, single = [0.1] * 41, DROPPING.replace(states=2)
    for cell in odd:
        good = int(isinstance(cell, str))
        observed = [[40.5, 3.5]] * 40
        for observations in ([*observed, [40.5, cell]], [*observed, (40.5, cell)]):
            data = {"observations": observations, "rewards": many, "terminals": [1] * 41}
            assert gather(data, study).counts.tolist() == [40 + good, 0, 0, 0], cell
    for cell in odd[1:]:
        ragged = {"observations": [*observed, cell], "rewards": many, "terminals": [1] * 41}
        assert gather(ragged, study).counts.tolist() == [40, 0, 0, 0], cell
        states = {"observations": [1] * 41, "terminals": [1] * 41}
        assert gather({**states, "rewards": [*many[1:], cell]}, single).counts.tolist() == [0, 40]
        marks = {"observations": [1] * 41, "rewards": many, "terminals": [1] * 40 + [cell]}
        assert gather(marks, single).counts.tolist() == [0, 40], cell


def test_an_episode_among_rows_joins_no_other_trajectory():
    """With ids of either type, and at every place among the rows."""
    rows = [{"trajectory": n, "step": 5, "state": 2, "reward": 0.25} for n in (0, 1, 2, "2", 3)]
    rows[3]["step"] = 6
    for id_type in ("text", "integer"):
        for base in (STUDY, DROPPING):
            study = base.replace(id_type=id_type)
            alone = gather(rows, study)
            assert alone.trajectories == 4
            for place in range(len(rows) + 1):
                data = [*rows[:place], [(1, 0.5)], *rows[place:]]
                both = gather(data, study)
                assert both.counts.tolist() == [0, 1, 4, 0]
                assert both.trajectories == 5
                assert gather(iter(data), study) == both


class Evil:
    """An object whose every method fails."""

    def __getattr__(self, name):
        raise RuntimeError(name)

    def __iter__(self):
        raise RuntimeError


def test_with_drop_unit_no_element_ends_the_reading():
    rows = FRAME.to_dict("records")
    dated = [{**row, "step": f"2026-01-0{row['step'] + 1}"} for row in rows]
    dates = DROPPING.replace(step_type="date")
    persons = DROPPING.replace(unit="person", max_trajectories_per_person=1)
    with_person = [{**row, "person": row["trajectory"]} for row in rows]
    plain = EXPECTED.counts.tolist()
    for odd in (None, "x", 3, [], object(), Evil(), [(0, 1.0)], {"observations": 3, "rewards": 1}):
        for data, study in ((dated, dates), (with_person, persons)):
            if study is dates and odd == [(0, 1.0)]:
                continue  # an episode, whose steps are positions
            for mixed in ([odd, *data], [*data, odd], iter([odd, *data])):
                result = gather(mixed, study)
                assert result.counts.tolist() == plain
                assert result.rows_left_out == 1
    unsorted = iter([EPISODES[0], *reversed(rows)])
    assert gather(unsorted, DROPPING).trajectories == 51
    for odd in (Episode([0], [[0.5], [1, 2]]), Episode(3, [1.0]), Evil(), None):
        dataset = as_d3rlpy(EPISODES)
        dataset.episodes.insert(9, odd)
        assert gather(dataset, DROPPING).counts.tolist() == plain


def test_wrong_arguments_are_errors_of_the_tree():
    for call in (
        lambda: pv.inspect(STUDY, EPISODES, memory=-1),
        lambda: pv.release(STUDY, EPISODES, ledger=5),
        lambda: pv.rollout("FrozenLake-v1", lambda _: 9, 5),
    ):
        with refused("out-of-range", "usage"):
            call()
