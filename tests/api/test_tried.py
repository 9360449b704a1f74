"""What people try: each line works, or is answered by an error that says what to write instead.

A line is Python, with ``study``, ``people`` (a list of episodes), ``frame`` (a table whose columns
have other names, ``columns``) and ``X`` (a matrix) at hand; beside it, what the error must say.
"""

import numpy as np
import pandas as pd
import pytest

import privalue as pv
from privalue.simulation import parse_world, simulate_episodes

WORKS = """
pv.Study(states=["a", "b"], discount=0.9, returns=(0, 1), epsilon=1, delta=1e-6, unit="trajectory")
pv.Study(states=np.int64(2), discount=0.9, returns=[0, 1], epsilon=1, delta=1e-6, unit="trajectory")
study.replace(states=pd.Index(["a", "b"]))
study.replace(epsilon=2, mechanism="dp-lsw", level=None)
study.replace(states=range(5), size=2)
study.replace(mechanism="dp-lsw", noise="isotropic", invalid="drop-unit", trajectories=1000)
study.replace(features=X)
study.replace(features=pd.DataFrame(X, index=["well", "ill", "better"]))
study.replace(weights=pd.Series({"ill": 1, "better": 2, "well": 3}), start=[1, 0, 0])
study.replace(weights=np.ones(3))
pv.check(study)
pv.inspect(study, people)
pv.inspect(study, frame, columns=columns)
pv.release(study, people, seed=1)
pv.release(study, tuple(people), seed=1).sentence()
pv.refit(pv.release(study, people, seed=1), features=X)
pv.simulate("chain:N=4", 10)
pv.simulate(world, trajectories=10, seed=2).to_pandas()
pv.inspect(study.replace(states=4), pv.simulate("chain:N=4", 10))
pv.inspect(study.replace(states=4), simulate_episodes(world, trajectories=9, seed=1))
study.replace(bins={"heart rate": np.array([60, 100]), "age": (50, 70)})
study == study.replace(epsilon=2).replace(epsilon=1.0)
"""

ANSWERED = [
    ("pv.Study(['ill', 'well'])", "everything is given by name"),
    ("pv.Study(states=3)", "[privacy] epsilon is missing; it must be a finite number above 0"),
    ("study.replace(n_states=3)", "did you mean states?"),
    ("study.replace(privacy={'epsilon': 1.0})", "privacy is not a keyword of a study"),
    ("study.replace(noise='isotropic')", "noise"),
    (
        "study.replace(states=lambda row: 0)",
        "it must be how many there are, a list of their labels",
    ),
    ("study.replace(start='ill')", 'start = "ill" cannot be read: it does not exist'),
    ("study.replace(returns=[1, 0])", "returns = [1.0, 0.0]: the lower bound must come first"),
    (
        "pv.inspect(study.replace(bins={'theta': [0], 'omega': [0]}), [[((1.0,), 1.0)]])",
        "an observation holds 2 numbers, one for each column of the bins",
    ),
    ("study.__setattr__('epsilon', 2)", "cannot assign to field 'epsilon'"),
    ("study.replace(bins=len)", "a table of columns and their edges"),
    ("study.replace(bins={'age': len})", "bins age must be a list of at least one finite number"),
    ("pv.plan('study.toml', 5000)", "a Study is needed, not str; read one with Study.load(path)"),
    ("pv.plan(study, 5000, world='nowhere')", "nowhere"),
    ("pv.inspect(study, frame)", 'or in Python columns={"trajectory": "..."}'),
    (
        "pv.inspect(study, frame, columns={'episode': 'stay'})",
        "it must be a dict of what a column is, trajectory, step",
    ),
    ("pv.inspect(study, frame, columns='stay')", 'e.g. columns={"trajectory": "stay_id"}'),
    ("pv.inspect(study, 'nowhere.csv')", "nowhere.csv"),
    ("pv.inspect(study, people[0])", "is not a list of at least one (state, reward)"),
    ("pv.inspect(study, len)", "give a file name, a pandas, Polars or Arrow table"),
    ("pv.release(study, people, ledger=True)", "give a file, the address of a server, or a ledger"),
    ("pv.release(study, people, ledger='x.db')", "set [study] dataset"),
    ("pv.release(study, people, ledger='x.db', seed=1)", "do not go on a ledger"),
    ("pv.release(study, people, seed='1')", "seed must be an integer"),
    ("pv.release(study.replace(epsilon=0.001), people[:40])", "accept_useless=True"),
    ("pv.release(study.replace(delta=0.01), people)", "accept_large_delta=True"),
    ("pv.refit('nowhere')", "give a release.json, or its folder"),
    ("pv.simulate('nowhere', 10)", "nowhere"),
    ("pv.simulate('chain', 10, columns={'person': 'p'})", "is none of trajectory, step, state"),
]


@pytest.fixture(scope="module")
def at_hand():
    study = pv.Study(
        states=["ill", "better", "well"],
        discount=0.9,
        returns=(0, 1),
        epsilon=1.0,
        delta=1e-6,
        unit="trajectory",
    )
    people = [[("ill", 0.0), ("better", 0.0), ("well", 1.0)], [("ill", 0.0), ("well", 1.0)]] * 500
    rows = [(n, t, *step) for n, steps in enumerate(people) for t, step in enumerate(steps)]
    frame = pd.DataFrame(rows, columns=["stay", "day", "ward", "score"])
    return {
        **{"pv": pv, "np": np, "pd": pd, "study": study, "people": people, "frame": frame},
        **{"world": parse_world("chain:N=4"), "simulate_episodes": simulate_episodes},
        "columns": {"trajectory": "stay", "step": "day", "state": "ward", "reward": "score"},
        "X": np.array([[1.0, 0.0], [1.0, 0.5], [0.0, 1.0]]),
    }


@pytest.mark.parametrize("line", WORKS.strip().splitlines())
def test_it_works(line, at_hand):
    assert eval(line, dict(at_hand)) is not None


@pytest.mark.parametrize(("line", "told"), ANSWERED, ids=[line for line, _ in ANSWERED])
def test_it_works_or_says_what_to_write(line, told, at_hand, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if told is None:
        eval(line, dict(at_hand))
        return
    with pytest.raises((pv.PrivalueError, AttributeError)) as caught:
        eval(line, dict(at_hand))
    said = str(caught.value)
    assert told in said
    assert "\n" not in said
    assert not list(tmp_path.iterdir())  # nothing was written
