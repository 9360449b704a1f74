"""A release with actions in Python: by label, as arrays and tables, saved, refitted, shown."""

import numpy as np
import pytest

import privalue as pv
from api.conftest import release_seeded

LABELS = ["wait", "=treat", "operate"]  # a spreadsheet would take one for a formula
# The first state has no first action, so that the order of labels shows in no single state.
ALLOWED = {"ill": ["=treat", "operate"], "better": ["wait", "operate"], "well": ["wait"]}
PAIRS = [(state, action) for state, actions in ALLOWED.items() for action in actions]


def people(count=3000):
    rng = np.random.default_rng(20261120)
    for treated, again in rng.random((count, 2)):
        first = ("ill", "=treat" if treated < 0.6 else "operate", 0.0)
        middle = [("better", "wait", 0.0)] if again < 0.5 else []
        yield [first, *middle, ("well", "wait", float(treated < 0.8))]


PEOPLE = list(people())


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Actions and pairs come from files."""
    folder = tmp_path_factory.mktemp("study")
    (folder / "actions.csv").write_text("\n".join(["action", *LABELS]) + "\n")
    lines = [f"{state},{action}" for state, action in reversed(PAIRS)]
    (folder / "allowed.csv").write_text("\n".join(["state,action", *lines]) + "\n")
    (folder / "study.toml").write_text(
        '[study]\nname = "choices"\n[privacy]\nepsilon = 1\ndelta = 1e-6\nunit = "trajectory"\n'
        "[values]\ndiscount = 0.9\nreturns = [0, 1]\nstart = { ill = 1.0 }\n"
        '[states]\nlabels = ["ill", "better", "well"]\n'
        '[actions]\nfile = "actions.csv"\nallowed = "allowed.csv"\n'
    )
    return pv.Study.load(folder / "study.toml")


@pytest.fixture(scope="module")
def release(study):
    return release_seeded(study, PEOPLE)


def test_a_pair_is_found_by_its_labels(release):
    entry = release["ill", "=treat"]
    assert (entry.state, entry.action) == ("ill", "=treat")
    assert entry == release.values.row(0)
    matrix = release.q
    assert matrix.shape == (3, 3)
    assert np.isnan(matrix).sum() == 9 - len(PAIRS)
    for state, action in PAIRS:
        place = release.states.index(state), release.actions.index(action)
        assert matrix[place] == release[state, action].value
    assert [(entry.state, entry.action) for entry in release] == PAIRS
    assert ("well", "wait") in release
    assert ("well", "operate") not in release
    assert release.states == ("ill", "better", "well")
    assert list(release.actions) == [*LABELS]


def test_a_release_of_actions_has_the_values_of_states(release):
    assert [entry.state for entry in release.state_values] == ["ill", "better", "well"]
    well = release.state_values["well"]
    assert well.low <= well.value <= well.high
    assert well.value == pytest.approx(release["well", "wait"].value, abs=0.02)
    assert release.policy_value == release.state_values["ill"].value
    interval = release.policy.row(0)
    assert interval.total_low <= interval.low <= interval.high <= interval.total_high
    # The rare pair of a state that is well known: the state is not flagged for it.
    assert "too few visits" in release["better", "operate"].flags
    assert "too few visits" not in release.state_values["better"].flags
    assert release.state_values.to_pandas()["state"].tolist() == list(release.states)
