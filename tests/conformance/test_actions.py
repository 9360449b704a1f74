"""Actions: the same keys in every source and by every engine, and the same rows are invalid."""

import random
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest

from conformance.test_engines import framed, pieces_of
from oracles import reading as local
from oracles.repeats import crossed
from oracles.sources import TABLES, arrow, minari_dataset
from oracles.studies import study

pytestmark = pytest.mark.xdist_group("spark")  # one session serves all

HEADING = ("person", "trajectory", "step", "state", "drug", "reward")
LABELS = ["none", "low", "high"]
# In state 0 there is one action, in state 3 all of them.
ALLOWED = {"0": ["low"], "1": ["none", "low"], "2": ["none", "high"], "3": LABELS}
CUTS = [5, 5, 40]


def described(actions, *, unit="trajectory", **sections):
    privacy = {"unit": unit}
    if unit == "person":
        privacy["max_trajectories_per_person"] = 2
    data = {"person": "person", "trajectory": "trajectory", "action": "drug"}
    return study(
        4,
        privacy=privacy | sections.pop("privacy", {}),
        mechanism={"name": "dp-ssp", "calibration": "exact"},
        actions=actions,
        data={**data, **sections.pop("data", {})},
        **sections,
    )


STUDIES = {
    "labelled": described({"labels": LABELS}),
    "counted": described({"count": 3}, unit="person"),
    "allowed": described({"labels": LABELS, "allowed": ALLOWED}),
    "few keys": described(
        {"labels": LABELS, "allowed": ALLOWED}, privacy={"max_states_per_trajectory": 2}
    ),
}


def rows(chosen, seed=7, persons=12):
    """Rows in no order, whose actions are allowed."""
    rng, made = random.Random(seed), []
    for person in range(persons):
        for trajectory in range(rng.randrange(1, 4)):
            for step in range(rng.randrange(1, 7)):
                key = rng.randrange(chosen.key_count)
                state, action = (
                    int(of[key]) for of in (chosen.pairs.state_of, chosen.pairs.action_of)
                )
                label = action if chosen.actions.count else LABELS[action]
                made.append((person, trajectory, step, state, label, 0.25))
    rng.shuffle(made)
    return made


def twin(made, chosen):
    """First visits of pairs by hand."""
    names = [(state, str(label)) for state in range(4) for label in chosen.pairs.actions.names]
    if chosen.actions.allowed:
        names = [pair for pair in names if pair[1] in ALLOWED[str(pair[0])]]
    by_person, units = chosen.privacy.unit == "person", {}
    for person, trajectory, step, state, action, _ in made:
        unit = units.setdefault(person if by_person else (person, trajectory), {})
        unit.setdefault(trajectory, []).append((step, state, str(action)))
    counts = dict.fromkeys(names, 0)
    for unit in units.values():
        for trajectory in sorted(unit)[: 2 if by_person else None]:
            seen = dict.fromkeys((state, action) for _, state, action in sorted(unit[trajectory]))
            for pair in list(seen)[: chosen.limits.max_states_per_trajectory]:
                counts[pair] += 1
    return list(counts.values())


@pytest.mark.parametrize(("kind", "name"), crossed(TABLES, STUDIES))
def test_every_source_gives_the_same(kind, name, place):
    chosen = STUDIES[name]
    made = rows(chosen)
    found = local.statistics(TABLES[kind](place, HEADING, made), chosen)
    assert found.counts.tolist() == twin(made, chosen)
    assert found == local.statistics(arrow(HEADING, made), chosen)


@pytest.mark.parametrize("name", ["counted", "allowed"])
def test_spark_gives_the_same(name, spark):
    chosen = STUDIES[name]
    table = arrow(HEADING, rows(chosen))
    found = local.statistics(framed(spark, pieces_of(table, CUTS)), chosen, engine="spark")
    assert found == local.statistics(table, chosen)


# What is refused, and what is dropped instead


def small(change, actions, **data):
    """Three trajectories of two rows, and one changed cell of the second row."""
    cells = [[0, at, step, 1, "low", 0.5] for at in (0, 1, 2) for step in (0, 1)]
    if "count" in actions:
        cells = [[*row[:4], 1, row[5]] for row in cells]
    cells[1][4] = change
    return cells, described(actions, data=data)


WRONG = {
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


@pytest.mark.parametrize("what", WRONG)
def test_a_unit_with_an_invalid_cell_is_left_out(what):
    actions, change, _ = WRONG[what]
    cells, chosen = small(change, actions, invalid="drop-unit")
    found = local.statistics(arrow(HEADING, cells), chosen)
    assert (found.units_dropped, found.trajectories, int(found.counts.sum())) == (1, 2, 2)


# Episodes and recordings

EPISODES = [[(0, 1, 0.0), (1, 0, 1.0)], [(1, 0, 0.5)], [(0, 0, 0.0), (0, 1, 0.0), (1, 1, 1.0)]]
COUNTS = [1, 2, 2, 1]  # of (0, 0), (0, 1), (1, 0), (1, 1)
ACTING = study(2, mechanism={"name": "dp-ssp", "calibration": "exact"}, actions={"count": 2})


def columns_of(episode):
    states, actions, rewards = zip(*episode, strict=True)
    return {"observations": list(states), "actions": list(actions), "rewards": list(rewards)}


def recorded():
    found = [columns_of(episode) for episode in EPISODES]
    ends = [at + 1 == len(one) for one in EPISODES for at in range(len(one))]
    joined = {name: np.concatenate([one[name] for one in found]) for name in found[0]}
    return {**joined, "terminals": np.array(ends)}


def minari_of(folder):
    states = [[(state, reward) for state, _, reward in one] for one in EPISODES]
    taken = [[action for _, action, _ in one] for one in EPISODES]
    space = gymnasium.spaces.Discrete(2)
    return minari_dataset(folder, states, "hdf5", space=space, final=1, acting=(space, taken))


FORMS = {
    "steps": lambda _: EPISODES,
    "longer steps": lambda _: [[(*step, 0, False) for step in one] for one in EPISODES],
    "dicts of steps": lambda _: [
        [dict(zip(("state", "action", "reward"), step, strict=True)) for step in one]
        for one in EPISODES
    ],
    "dicts of columns": lambda _: [columns_of(one) for one in EPISODES],
    "a recording": lambda _: recorded(),
    "objects": lambda _: SimpleNamespace(
        episodes=[SimpleNamespace(**columns_of(one)) for one in EPISODES]
    ),
    "minari": minari_of,
}


@pytest.mark.parametrize("form", FORMS)
def test_episodes_have_their_actions(form, tmp_path):
    assert local.statistics(FORMS[form](tmp_path), ACTING).counts.tolist() == COUNTS
