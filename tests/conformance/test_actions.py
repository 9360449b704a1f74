"""Actions: the same keys, and the same invalid rows, from every source and engine."""

import random
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest

from conformance.test_engines import make_frame, pieces_of
from oracles import reading as local
from oracles.repeats import cross
from oracles.sources import TABLES, arrow, minari_dataset
from oracles.studies import make_study

pytestmark = pytest.mark.xdist_group("spark")  # one session serves all

HEADING = ("person", "trajectory", "step", "state", "drug", "reward")
LABELS = ["none", "low", "high"]
# In state 0 there is one action, in state 3 all of them.
ALLOWED = {"0": ["low"], "1": ["none", "low"], "2": ["none", "high"], "3": LABELS}
CUTS = [5, 5, 40]


def build_study(actions, *, unit="trajectory", **sections):
    privacy = {"unit": unit}
    if unit == "person":
        privacy["max_trajectories_per_person"] = 2
    data = {"person": "person", "trajectory": "trajectory", "action": "drug"}
    return make_study(
        4,
        privacy=privacy | sections.pop("privacy", {}),
        mechanism={"name": "dp-ssp", "calibration": "exact"},
        actions=actions,
        data={**data, **sections.pop("data", {})},
        **sections,
    )


STUDIES = {
    "labelled": build_study({"labels": LABELS}),
    "counted": build_study({"count": 3}, unit="person"),
    "allowed": build_study({"labels": LABELS, "allowed": ALLOWED}),
    "few keys": build_study(
        {"labels": LABELS, "allowed": ALLOWED}, privacy={"max_states_per_trajectory": 2}
    ),
}


def rows(study, seed=7, persons=12):
    """Return unsorted rows with allowed actions."""
    rng, table = random.Random(seed), []
    for person in range(persons):
        for trajectory in range(rng.randrange(1, 4)):
            for step in range(rng.randrange(1, 7)):
                key = rng.randrange(study.key_count)
                state, action = (
                    int(of[key]) for of in (study.pairs.state_of, study.pairs.action_of)
                )
                label = action if study.actions.count else LABELS[action]
                table.append((person, trajectory, step, state, label, 0.25))
    rng.shuffle(table)
    return table


def twin(table, study):
    """Count the first visits of pairs with dictionaries."""
    names = [(state, str(label)) for state in range(4) for label in study.pairs.actions.names]
    if study.actions.allowed:
        names = [pair for pair in names if pair[1] in ALLOWED[str(pair[0])]]
    by_person, units = study.privacy.unit == "person", {}
    for person, trajectory, step, state, action, _ in table:
        unit = units.setdefault(person if by_person else (person, trajectory), {})
        unit.setdefault(trajectory, []).append((step, state, str(action)))
    counts = dict.fromkeys(names, 0)
    for unit in units.values():
        for trajectory in sorted(unit)[: 2 if by_person else None]:
            visits = dict.fromkeys((state, action) for _, state, action in sorted(unit[trajectory]))
            for pair in list(visits)[: study.limits.max_states_per_trajectory]:
                counts[pair] += 1
    return list(counts.values())


@pytest.mark.parametrize(("kind", "name"), cross(TABLES, STUDIES))
def test_every_source_gives_the_same(kind, name, place):
    study = STUDIES[name]
    table = rows(study)
    result = local.statistics(TABLES[kind](place, HEADING, table), study)
    assert result.counts.tolist() == twin(table, study)
    assert result == local.statistics(arrow(HEADING, table), study)


@pytest.mark.parametrize("name", ["counted", "allowed"])
def test_spark_gives_the_same(name, spark):
    study = STUDIES[name]
    table = arrow(HEADING, rows(study))
    result = local.statistics(make_frame(spark, pieces_of(table, CUTS)), study, engine="spark")
    assert result == local.statistics(table, study)


# Invalid rows


def small(change, actions, **data):
    """Return three trajectories of two rows, of which the second has a changed cell."""
    cells = [[0, at, step, 1, "low", 0.5] for at in (0, 1, 2) for step in (0, 1)]
    if "count" in actions:
        cells = [[*row[:4], 1, row[5]] for row in cells]
    cells[1][4] = change
    return cells, build_study(actions, data=data)


INVALID_ACTIONS = {
    "an unknown action": (
        {"labels": LABELS},
        "lo",
        "drug = 'lo' is not one of the actions, 3 in all: 'none', 'low', 'high'",
    ),
    "an unknown number": (
        {"count": 3},
        3,
        "drug = '?3'? is not an action: actions are the whole numbers 0 to 2",
    ),
    "a missing action": (
        {"labels": LABELS},
        None,
        "drug is missing; every row needs one",
    ),
    "an action that is not allowed": (
        {"labels": LABELS, "allowed": ALLOWED},
        "high",
        "drug = 'high' is not allowed in the state '?1'?, by .actions. allowed",
    ),
}


@pytest.mark.parametrize("what", INVALID_ACTIONS)
def test_a_unit_with_an_invalid_cell_is_dropped(what):
    actions, change, _ = INVALID_ACTIONS[what]
    cells, study = small(change, actions, invalid="drop-unit")
    result = local.statistics(arrow(HEADING, cells), study)
    assert (result.units_dropped, result.trajectories, int(result.counts.sum())) == (1, 2, 2)


# Episodes and recordings

EPISODES = [[(0, 1, 0.0), (1, 0, 1.0)], [(1, 0, 0.5)], [(0, 0, 0.0), (0, 1, 0.0), (1, 1, 1.0)]]
COUNTS = [1, 2, 2, 1]  # of (0, 0), (0, 1), (1, 0), (1, 1)
ACTING = make_study(2, mechanism={"name": "dp-ssp", "calibration": "exact"}, actions={"count": 2})


def columns_of(episode):
    states, actions, rewards = zip(*episode, strict=True)
    return {"observations": list(states), "actions": list(actions), "rewards": list(rewards)}


def recording():
    columns = [columns_of(episode) for episode in EPISODES]
    ends = [at + 1 == len(one) for one in EPISODES for at in range(len(one))]
    joined = {name: np.concatenate([one[name] for one in columns]) for name in columns[0]}
    return {**joined, "terminals": np.array(ends)}


def minari_of(folder):
    states = [[(state, reward) for state, _, reward in one] for one in EPISODES]
    actions = [[action for _, action, _ in one] for one in EPISODES]
    space = gymnasium.spaces.Discrete(2)
    return minari_dataset(folder, states, space=space, final=1, acting=(space, actions))


FORMS = {
    "steps": lambda _: EPISODES,
    "longer steps": lambda _: [[(*step, 0, False) for step in one] for one in EPISODES],
    "dicts of steps": lambda _: [
        [dict(zip(("state", "action", "reward"), step, strict=True)) for step in one]
        for one in EPISODES
    ],
    "dicts of columns": lambda _: [columns_of(one) for one in EPISODES],
    "a recording": lambda _: recording(),
    "objects": lambda _: SimpleNamespace(
        episodes=[SimpleNamespace(**columns_of(one)) for one in EPISODES]
    ),
    "minari": minari_of,
}


@pytest.mark.parametrize("form", FORMS)
def test_episodes_have_their_actions(form, tmp_path):
    assert local.statistics(FORMS[form](tmp_path), ACTING).counts.tolist() == COUNTS
