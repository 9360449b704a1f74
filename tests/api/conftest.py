"""Seeded releases that the tests of the Python interface share."""

import pytest

import privalue as pv
from oracles.studies import in_sections

PEOPLE = [[("ill", 0.0), ("better", 0.0), ("well", 1.0)], [("ill", 0.0), ("well", 1.0)]] * 1500
LABELS = ["ill", "better", "well", "rare <b>"]


def make_study(**sections):
    return in_sections(
        study=sections.pop("study", {"name": "recovery", "dataset": "clinic"}),
        privacy={"epsilon": 1.0, "delta": 1e-6, "unit": "trajectory"},
        values={"discount": 0.9, "rewards": (0.0, 1.0), "returns": (0.0, 1.0)},
        states={"labels": LABELS},
        **sections,
    )


def rows(people=PEOPLE):
    """The long table of the people, every second one in the other arm."""
    return [
        (n, t, state, reward, ("control", "treated")[n // 2 % 2])
        for n, episode in enumerate(people)
        for t, (state, reward) in enumerate(episode)
    ]


def release_seeded(study, data=PEOPLE, seed=1):
    return pv.release(study, data, entropy=pv.SeededForExperimentsOnly(seed), accept_useless=True)


@pytest.fixture(scope="session")
def study():
    return make_study()


@pytest.fixture(scope="session")
def release(study):
    """dp-ssp, with a state without visits."""
    return release_seeded(study)


@pytest.fixture(scope="session")
def other():
    """The same by dp-lsw, which has no intervals, and too much noise."""
    return release_seeded(make_study(mechanism={"name": "dp-lsw"}))


@pytest.fixture(scope="session")
def plan(study):
    return pv.plan(study, trajectories=3000)


@pytest.fixture(scope="session")
def frame():
    pd = pytest.importorskip("pandas")
    return pd.DataFrame(rows(), columns=["trajectory", "step", "state", "reward", "arm"])


@pytest.fixture(scope="session")
def armed(frame):
    arms = {"column": "arm", "labels": ["control", "treated"]}
    return release_seeded(make_study(arms=arms), frame)
