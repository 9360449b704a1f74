"""A release with actions in Python: by label, as arrays and tables, saved, refitted, shown."""

import copy
import csv
import json

import numpy as np
import pandas as pd
import pytest

import privalue as pv
from api.conftest import seeded

KEYS = {"discount": 0.9, "returns": (0, 1), "epsilon": 1.0, "delta": 1e-6, "unit": "trajectory"}
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
    return seeded(study, PEOPLE)


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


def test_what_is_not_there_is_said(release):
    with pytest.raises(KeyError, match="give state and action"):
        release["ill"]
    with pytest.raises(KeyError, match="there is no action 'trea'; did you mean"):
        release["ill", "trea"]
    with pytest.raises(KeyError, match="there is no state 'il'; did you mean 'ill'"):
        release["il", "wait"]
    with pytest.raises(KeyError, match="'ill' and 'wait' do not go together"):
        release["ill", "wait"]
    plain = seeded(pv.Study(states=["a"], **KEYS), [[("a", 1.0)]] * 500)
    with pytest.raises(pv.UsageError, match="this release has no actions"):
        plain.q  # noqa: B018
    assert plain.state_values is None
    assert plain.actions == ()


def test_v_of_every_state_stands_beside(release):
    assert [entry.state for entry in release.state_values] == ["ill", "better", "well"]
    well = release.state_values["well"]
    assert well.low <= well.value <= well.high
    assert well.value == pytest.approx(release["well", "wait"].value, abs=0.02)
    assert release.policy_value == release.state_values["ill"].value
    interval = release.policy.row(0)
    assert interval.total_low <= interval.low <= interval.high <= interval.total_high
    assert release.as_dict() == dict(zip(release.states, release.state_values.value, strict=True))
    # The rare pair of a state that is well known: the state is not flagged for it.
    assert "too few visits" in release["better", "operate"].flags
    assert "too few visits" not in release.state_values["better"].flags
    assert release.state_values.to_pandas()["state"].tolist() == list(release.states)


def test_tables_have_a_column_of_actions(release, tmp_path):
    frame = release.to_pandas()
    assert frame["action"].tolist() == [action for _, action in PAIRS]
    made = pv.publish(release, tmp_path / "out")
    with made.values.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0])[:3] == ["state", "action", "value"]
    assert rows[0]["action"] == "'=treat"
    assert [float(row["value"]) for row in rows] == release.value.tolist()
    page = made.page.read_text()
    assert "Values by state and action" in page
    assert "3 states, 3 actions" in page


def test_json_says_what_each_value_is_of(release):
    found = json.loads(release.to_json())
    tables = found["tables"]
    values = tables["values"]
    assert list(zip(values["state"], values["action"], strict=True)) == PAIRS
    assert tables["states"]["state"] == list(release.states)
    read = pv.Release.parse(release.to_json())
    assert read == release
    assert read.flags[3] == release.flags[3]
    assert copy.deepcopy(read).state_values == release.state_values


def test_a_refit_has_the_same_pairs(release):
    again = pv.refit(release, level=0.9)
    assert [(entry.state, entry.action) for entry in again] == PAIRS
    assert again.actions == release.actions
    assert again.statistics == release.statistics
    assert again.value == pytest.approx(release.value)
    assert (again.low >= release.low).all()
    assert again.state_values.value == pytest.approx(release.state_values.value)
    started = pv.refit(release, start=[0.5, 0.5, 0.0])
    assert started.policy_value == pytest.approx(started.state_values.value[:2].mean())
    index = pd.MultiIndex.from_tuples(PAIRS[::-1])
    tied = pv.refit(release, features=pd.DataFrame(np.ones((5, 1)), index=index))
    assert np.unique(tied.value).size == 1
    shrunk = pv.refit(release, features=np.eye(5)[:, :2], shrink=True)
    assert len(shrunk.theta) == 5


def test_notebooks_and_plots_name_pairs(release, study):
    pytest.importorskip("matplotlib")
    import matplotlib as mpl

    mpl.use("Agg")
    shown = release._repr_html_()
    assert '<th scope="col">Action</th>' in shown
    axes = release.plot()
    assert [label.get_text() for label in axes.get_yticklabels()] == list(release.states)
    assert "choices" in study._repr_html_()


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
def test_persons_stages_limits_and_cuts_are_over_pairs(neighbours):
    """Implied bounds, so that a stage chooses others; two trajectories a person."""
    study = pv.Study(
        trajectories=6000,
        epsilon=2.0,
        delta=1e-6,
        unit="person",
        neighbours=neighbours,
        max_trajectories_per_person=2,
        max_states_per_trajectory=2,
        discount=0.9,
        rewards=(0, 1),
        truncated="drop-unit",
        states=["ill", "better", "well"],
        actions=LABELS,
        stages=["bounds"],
        invalid="drop-unit",
        columns={"person": "who", "trajectory": "stay", "truncated": "cut"},
    )
    rows = [
        (at // 2, at % 2, step, *what, at < 4)
        for at, episode in enumerate(PEOPLE)
        for step, what in enumerate(episode)
    ]
    names = ["who", "stay", "step", "state", "action", "reward", "cut"]
    release = seeded(study, pd.DataFrame(rows, columns=names))
    assert [stage.name for stage in release.stages] == ["bounds", "values"]
    assert len(release.values) == 9
    assert release.restriction is not None
    again = pv.refit(release)
    assert again.state_values.value == pytest.approx(release.state_values.value)
