"""Data as people have it: every shape gives the same statistics, or says what to give instead."""

import random
from dataclasses import dataclass
from itertools import pairwise

import gymnasium
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import privalue as pv
from oracles.reading import statistics as gathered
from privalue.readers import is_query_result
from privalue.simulation import parse_world, rollout, simulate_episodes

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
EXPECTED = gathered(FRAME, STUDY)
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
    """As of libraries that know Arrow's interface for arrays alone."""

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
    "a pandas frame of objects": FRAME.astype(object),
    "a polars frame": pl.DataFrame(FRAME),
    "a lazy frame": pl.DataFrame(FRAME).lazy().filter(pl.col("step") >= 0),
    "an Arrow table": TABLE,
    "a record batch": TABLE.combine_chunks().to_batches()[0],
    "a reader of batches": lambda: TABLE.to_reader(7),
    "a list of batches": TABLE.to_batches(7),
    "an Arrow array alone": OnlyAnArray(TABLE.combine_chunks().to_batches()[0]),
    "a dict of arrays": COLUMNS,
    "a dict of lists": {name: column.tolist() for name, column in COLUMNS.items()},
    "a dict of series": {name: FRAME[name] for name in NAMES},
    "a dict of polars series": {name: pl.Series(FRAME[name]) for name in NAMES},
    "a dict of Arrow arrays": {name: TABLE.column(name) for name in NAMES},
    "a dict of ranges and tuples": {**COLUMNS, "state": tuple(STATE.tolist())},
    "a list of dicts": FRAME.to_dict("records"),
    "a generator of dicts": lambda: iter(FRAME.to_dict("records")),
    "a shuffled list of dicts": FRAME.sample(frac=1, random_state=1).to_dict("records"),
    "(state, reward)": EPISODES,
    "[state, reward]": steps_of(lambda state, reward: [state, reward]),
    "(state, action, reward)": steps_of(lambda state, reward: (state, 7, reward)),
    "(s, a, r, next)": steps_of(lambda state, reward: (state, 7, reward, 3)),
    "(s, a, r, next, done)": steps_of(lambda state, reward: (state, 7, reward, 3, False)),
    "(s, a, r, next, terminated, truncated)": steps_of(
        lambda state, reward: (np.int64(state), "left", np.float64(reward), 3, False, False)
    ),
    "steps that are dicts": steps_of(lambda state, reward: {"state": state, "reward": reward}),
    "a generator of generators": lambda: (iter(steps) for steps in EPISODES),
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
    "d3rlpy's of its first version": {
        "observations": STATE.tolist(),
        "rewards": REWARD.tolist(),
        "terminals": [0] * len(LAST),
        "episode_terminals": LAST.astype(int).tolist(),
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


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_gives_the_same_statistics(shape):
    data = SHAPES[shape]
    found = gathered(data() if callable(data) else data, STUDY)
    assert found == EXPECTED


def test_columns_may_have_other_names():
    named = {"trajectory": "stay_id", "step": "t", "state": "s", "reward": "r"}
    study = STUDY.replace(columns=named)
    renamed = FRAME.rename(columns=named)
    shapes = [renamed, renamed.to_dict("records"), renamed.to_dict("list"), pl.from_pandas(renamed)]
    for data in (*shapes, EPISODES, SHAPES["D4RL"], [[{"s": s, "r": r} for s, r in EPISODES[0]]]):
        found = gathered(data, study)
        assert found == (EXPECTED if found.trajectories == 50 else gathered(EPISODES[:1], STUDY))


def test_our_own_episodes_are_data():
    study = STUDY.replace(states=5, columns={"trajectory": "stay_id", "state": "place"})
    episodes = simulate_episodes(parse_world("chain:N=5"), trajectories=200, seed=1)
    named = episodes.table({"trajectory": "stay_id", "state": "place"})
    assert gathered(episodes, study) == gathered(named, study)
    lake = gymnasium.make("FrozenLake-v1")
    rolled = rollout(lake, "uniform", 20, seed=1)
    found = gathered(rolled, STUDY.replace(states=16))
    assert found.trajectories == 20
    frame = pl.DataFrame(rolled)
    assert gathered(frame, STUDY.replace(states=16)) == found
    with pytest.raises(pv.DataError, match="has no column 'person'"):
        gathered(rolled, STUDY.replace(states=16, unit="person", max_trajectories_per_person=1))
    with pytest.raises(pv.DataError, match="has no column 'arm'"):
        gathered(rolled, STUDY.replace(states=16, arms=["a", "b"]))


def test_trajectories_that_were_cut_off_are_known():
    """By timeouts that are no terminals, by an end that is not marked, by the step's own flag."""
    study = STUDY.replace(columns={"truncated": "cut"}, truncated="drop-unit")
    rows = {"observations": [0, 1, 2, 3, 0], "rewards": [0, 0, 1, 1, 0.5]}
    marks = {"terminals": [0, 1, 0, 0, 0], "timeouts": [0, 1, 0, 1, 0]}
    assert gathered({**rows, **marks}, study).counts.tolist() == [1, 1, 0, 0]
    steps = [
        [(0, 9, 0.0, 1, False, False), (1, 9, 0.0, 2, True, False)],
        [(2, 9, 1.0, 3, False, False), (3, 9, 1.0, 0, False, True)],
    ]
    assert gathered(steps, study).counts.tolist() == [1, 1, 0, 0]
    assert gathered([[(0, 0.0, False)], [(1, 0.0, True)]], study).counts.tolist() == [1, 0, 0, 0]
    cut = Dataset([Episode(np.array([0]), np.array([1.0]), terminated=False)])
    done = Dataset([Episode(np.array([1]), np.array([1.0])), *cut.episodes])
    assert gathered(done, study).counts.tolist() == [0, 1, 0, 0]


def test_a_mark_that_cannot_be_read_joins_nobody():
    """Whatever the marks of one episode are, the others stay as they are, and it counts once."""
    others = [[(0, 0.0), (1, 1.0)], [(2, 0.5)]]
    unreadable = [None, "?", float("nan"), 7]
    generator = random.Random(2)
    for _ in range(60):
        odd = [(3, 0.25)] * generator.randrange(1, 4)
        marks = [generator.choice([0, False, *unreadable]) for _ in odd[1:]]
        marks.append(generator.choice([1, "yes", *unreadable]))
        steps = [*others[0], *odd, *others[1]]
        data = {
            "observations": [state for state, _ in steps],
            "rewards": [reward for _, reward in steps],
            "terminals": [0, 1, *marks, 1],
        }
        counts = gathered(data, DROPPING).counts.tolist()
        assert counts[:3] == [1, 1, 1]
        assert counts[3] <= 1
    with pytest.raises(pv.DataError, match="row 2: a mark of an end must be true, yes or 1"):
        gathered({"observations": [0, 1], "rewards": [0, 1], "terminals": [0, None]}, STUDY)


def test_one_cell_of_a_list_changes_no_other():
    """A text, a complex number or a list among numbers of observations: only its unit is odd."""
    odd = ["3", 1j, None, [1.0, 2.0, 3.0], [], object(), np.ones(3), {"age": 1}]
    study = DROPPING.replace(
        bins={"age": [50.5], "sofa": [5]},
        invalid="drop-unit",
        decimal=",",
    )
    many, single = [0.1] * 41, DROPPING.replace(states=2)
    for cell in odd:
        good = int(isinstance(cell, str))
        observed = [[40.5, 3.5]] * 40
        named = {"age": [40.5] * 41, "sofa": [3.5] * 40 + [cell]}
        for observations in ([*observed, [40.5, cell]], [*observed, (40.5, cell)], named):
            data = {"observations": observations, "rewards": many, "terminals": [1] * 41}
            assert gathered(data, study).counts.tolist() == [40 + good, 0, 0, 0], cell
    for cell in odd[1:]:
        ragged = {"observations": [*observed, cell], "rewards": many, "terminals": [1] * 41}
        assert gathered(ragged, study).counts.tolist() == [40, 0, 0, 0], cell
        for form in (lambda one: one, lambda one: [one]):
            rewards = [*map(form, many[1:]), form(cell)]
            states = {"observations": [1] * 41, "terminals": [1] * 41}
            assert gathered({**states, "rewards": rewards}, single).counts.tolist() == [0, 40]
        marks = {"observations": [1] * 41, "rewards": many, "terminals": [1] * 40 + [cell]}
        assert gathered(marks, single).counts.tolist() == [0, 40], cell


def test_an_episode_among_rows_is_nobody_elses():
    """Whatever ids rows have, and however many rows there are before it."""
    rows = [{"trajectory": n, "step": 5, "state": 2, "reward": 0.25} for n in (0, 1, 2, "2", 3)]
    rows[3]["step"] = 6
    for id_type in ("text", "integer"):
        for given in (STUDY, DROPPING):
            study = given.replace(id_type=id_type)
            alone = gathered(rows, study)
            assert alone.trajectories == 4
            for place in range(len(rows) + 1):
                data = [*rows[:place], [(1, 0.5)], *rows[place:]]
                both = gathered(data, study)
                assert both.counts.tolist() == [0, 1, 4, 0]
                assert both.trajectories == 5
                assert gathered(iter(data), study) == both


def test_a_row_is_a_row_whatever_else_it_holds():
    rows = [{"trajectory": n, "step": 0, "state": 1, "reward": 0.5} for n in range(3)]
    more = {**rows[1], "observations": [0], "rewards": [0.1]}
    for study in (STUDY, DROPPING):
        assert gathered([rows[0], more, rows[2]], study) == gathered(rows, study)
        named = study.replace(columns={"state": "observations", "reward": "rewards"})
        renamed = [{**row, "observations": 1, "rewards": 0.5} for row in rows]
        assert gathered(renamed, named) == gathered(rows, study)


class Evil:
    """An object whose every method fails."""

    def __getattr__(self, name):
        raise RuntimeError(name)

    def __iter__(self):
        raise RuntimeError


def test_with_drop_unit_no_element_ends_the_reading():
    rows = FRAME.to_dict("records")
    dated = [{**row, "step": f"2026-01-0{row['step'] + 1}"} for row in rows]
    dates = DROPPING.replace(invalid="drop-unit", step_type="date")
    persons = DROPPING.replace(unit="person", max_trajectories_per_person=1)
    named = [{**row, "person": row["trajectory"]} for row in rows]
    plain = EXPECTED.counts.tolist()
    for odd in (None, "x", 3, [], object(), Evil(), [(0, 1.0)], {"observations": 3, "rewards": 1}):
        for data, study in ((dated, dates), (named, persons)):
            if study is dates and odd == [(0, 1.0)]:
                continue  # an episode, whose steps are positions
            for mixed in ([odd, *data], [*data, odd], iter([odd, *data])):
                found = gathered(mixed, study)
                assert found.counts.tolist() == plain
                assert found.rows_left_out == 1
    unsorted = iter([EPISODES[0], *reversed(rows)])
    assert gathered(unsorted, DROPPING).trajectories == 51
    for odd in (Episode([0], [[0.5], [1, 2]]), Episode(3, [1.0]), Evil(), None):
        dataset = as_d3rlpy(EPISODES)
        dataset.episodes.insert(9, odd)
        assert gathered(dataset, DROPPING).counts.tolist() == plain


def test_one_element_decides_nothing_about_the_others():
    """A dict among episodes, an episode among dicts, a text, a number: only they are left out."""
    odd = [{"state": 1}, [("x", "y")], "ab", 7, None, [(1,)], [(1, 2, 3, 4, 5, 6, 7)], [], {}]
    plain = gathered(EPISODES, DROPPING)
    for at, element in enumerate(odd):
        for place in (0, 25, 50):
            data = [*EPISODES[:place], element, *EPISODES[place:]]
            assert gathered(data, DROPPING).counts.tolist() == plain.counts.tolist(), (at, place)
    rows = FRAME.to_dict("records")
    for element in odd[:-1]:
        if element == [("x", "y")]:
            continue  # a trajectory of its own, which is invalid
        for place in (0, 25, len(rows)):
            data = [*rows[:place], element, *rows[place:]]
            assert gathered(data, DROPPING).counts.tolist() == plain.counts.tolist(), element


def test_a_lazy_frame_is_a_query():
    assert is_query_result(SHAPES["a lazy frame"])
    assert not is_query_result(FRAME)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ([("ill", 0.0), ("well", 1.0)], r"episode 0 .* rows of several people are a table, a dict"),
        (
            [0, 1, 2],
            r"episode 0 .* is not a list of at least one \(state, reward\) or \(state, act",
        ),
        ([[(0, 1, 2, 3, 4, 5, 6)]], "episode 0"),
        (["ab"], "episode 0"),
        (np.eye(4), "episode 0"),
        ({"a": [1]}, "the dict has no column 'trajectory'; it has 'a'"),
        (
            {**COLUMNS, "state": STATE[:-1]},
            "rows in 'trajectory' and .* in 'state'; columns are of",
        ),
        ({**COLUMNS, "state": np.eye(4)}, "the dict, 'state', has 2 dimensions; a column has one"),
        ({**COLUMNS, "state": 3}, "the dict, 'state', is not a column but a int"),
        ({**COLUMNS, "state": "ill"}, "the dict, 'state', is not a column but a str"),
        ([{"trajectory": 1, "step": 0, "state": 0}], "row 1: reward is missing"),
        (pl.DataFrame({"a": [1]}).lazy(), "the polars LazyFrame has no column 'trajectory'"),
        (
            pl.DataFrame(FRAME).lazy().with_columns(pl.col("state").cast(pl.String).str.to_date()),
            "the polars LazyFrame: the column 'state' is of type date32",
        ),
        (
            {"observations": [0], "rewards": [0]},
            "does not say where an episode ends; give terminals",
        ),
        (
            {"observations": [0], "rewards": [0, 1], "terminals": [0, 1]},
            "2 rewards and 1 of observ",
        ),
        (
            {"observations": [0, 1], "rewards": [0, 1], "terminals": [1]},
            "2 rewards and 1 of termin",
        ),
        (
            {"observations": np.eye(2), "rewards": [0, 1], "terminals": [0, 1]},
            r"observations has the shape \(2, 2\); it must have one dimension",
        ),
        (
            {"observations": [0], "rewards": [0], "terminals": [1], "autoreset": "never"},
            "reset side by side, which is not read",
        ),
        (
            3,
            "data of type int is not understood; give a file name, a pandas, Polars or Arrow table",
        ),
        (lambda: 3, "data of type function is not understood"),
    ],
)
def test_what_is_no_data_is_told_what_to_give(data, told):
    with pytest.raises(pv.DataError, match=told):
        gathered(data, STUDY)


def test_persons_are_named_by_rows_and_not_by_episodes():
    study = STUDY.replace(unit="person", max_trajectories_per_person=1)
    rows = [{"person": n % 10, **row} for n, row in enumerate(FRAME.to_dict("records"))]
    by_person = gathered(rows, study)
    assert by_person == gathered(pd.DataFrame(rows), study)
    for data in (EPISODES, SHAPES["D4RL"], iter(EPISODES)):
        with pytest.raises(pv.DataError, match=r"no person, and unit|has no column 'person'"):
            gathered(data, study)


@pytest.mark.parametrize("odd", [10**25, -(2**63) - 1, (1, 2), b"\xff"])
def test_an_odd_category_is_an_odd_cell(odd):
    """Where units are dropped, only its own is: an error would tell that the cell is there."""
    study = STUDY.replace(invalid="drop-unit")
    labels = FRAME["state"].tolist()
    frame = FRAME.assign(state=pd.Categorical([*labels[:-1], odd]))
    listed = FRAME.assign(state=pd.Series([*labels[:-1], odd], dtype=object))
    assert gathered(frame, study) == gathered(listed, study)
