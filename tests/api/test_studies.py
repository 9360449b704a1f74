"""A study in one call: keywords and sections are the same object, and files hold it."""

from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp

import privalue as pv
from oracles.studies import in_sections
from privalue.ledger import study_hash
from privalue.study._keywords import SECTION_OF

LABELS = ["ill", "better", "well"]
ROLES = ["trajectory", "step", "state", "reward", "person", "action", "probability", "truncated"]
FLAT = {
    "states": LABELS,
    "discount": 0.9,
    "returns": (0, 1),
    "epsilon": 1.0,
    "delta": 1e-6,
    "unit": "person",
    "max_trajectories_per_person": 3,
}
ALL = {
    **FLAT,
    "rewards": (-1, 1),
    "unvisited": 0.5,
    "start": {"ill": 1.0},
    "neighbours": "add-remove",
    "max_states_per_trajectory": 2,
    "name": "ward",
    "dataset": "clinic",
    "period": "2026-11",
    "trajectories": 5000,
    "groups": {"a": "ill", "b": "better", "c": "well"},
    "visits": {"ill": 0.5, "better": 0.5, "well": 0.5},
    "weights": {"ill": 1.0, "better": 2.0, "well": 3.0},
    "arms": ["control", "treated"],
    "mechanism": "dp-ssp",
    "level": 0.9,
    "columns": {"trajectory": "stay_id", "person": "patient", "arm": "given"},
}
SECTIONS = {
    "states": {"labels": LABELS, "groups": ALL["groups"], "visits": ALL["visits"]},
    "values": {
        "discount": 0.9,
        "returns": (0, 1),
        "rewards": (-1, 1),
        "unvisited": 0.5,
        "start": {"ill": 1.0},
    },
    "privacy": {
        "epsilon": 1.0,
        "delta": 1e-6,
        "unit": "person",
        "neighbours": "add-remove",
        "max_trajectories_per_person": 3,
        "max_states_per_trajectory": 2,
    },
    "study": {"name": "ward", "dataset": "clinic", "period": "2026-11", "trajectories": 5000},
    "weights": {"values": ALL["weights"]},
    "arms": {"labels": ["control", "treated"], "column": "given"},
    "mechanism": {"name": "dp-ssp"},
    "report": {"level": 0.9},
    "data": {"trajectory": "stay_id", "person": "patient"},
}


def test_keywords_and_sections_make_the_same_study():
    flat, sections = pv.Study(**ALL), in_sections(**SECTIONS)
    assert flat == sections
    assert flat.public_description() == sections.public_description()
    assert study_hash(flat.public_description()) == study_hash(sections.public_description())
    assert flat.model_dump_json() == sections.model_dump_json()


def test_every_key_of_a_study_has_one_keyword():
    within = {
        "states": {"count", "labels", "file"},
        "actions": {"count", "labels", "file"},
        "features": {"kind", "file", "matrix"},
        "weights": {"kind", "file", "values"},
        "arms": {"column", "labels"},
        "policy": {"target", "behaviour", "clip", "by"},
        "mechanism": {"name"},
        "data": {role for role in pv.Study.keys_of("data") if role in ROLES},
    }
    found = [
        key
        for section in pv.Study.model_fields
        for key in pv.Study.keys_of(section)
        if key not in within.get(section, ())
    ]
    assert len(set(found)) == len(found)
    assert set(SECTION_OF) == set(found)


def test_rewards_follow_from_returns_where_they_are_left_out():
    """Every reward that leaves all returns within their bounds is within the rewards'."""
    study = pv.Study(**{**FLAT, "returns": (-1, 2), "discount": 0.5})
    assert study.values.rewards == (-2.0, 2.5)
    assert study.public_description()["values"]["rewards"] == [-2.0, 2.5]
    assert study.replace(returns=(0, 1)).values.rewards == (-0.5, 1.0)
    generator = np.random.default_rng(1)
    rewards = generator.uniform(-4, 4, (20_000, 4))
    returns = rewards.copy()
    for at in (2, 1, 0):
        returns[:, at] += 0.5 * returns[:, at + 1]
    inside = ((returns >= -1) & (returns <= 2)).all(axis=1)
    assert inside.sum() > 50
    assert rewards[inside].min() >= -2
    assert rewards[inside].max() <= 2.5
    assert rewards[inside].min() < -1.7  # so narrower bounds would clamp
    described = study.public_description()
    assert pv.Study.from_description(described).public_description() == described


def test_replace_changes_keywords_and_sections_and_takes_them_back():
    study = pv.Study(**FLAT)
    assert study.replace(epsilon=2) == pv.Study(**{**FLAT, "epsilon": 2})
    assert study.replace(epsilon=2).replace(epsilon=1) == study
    assert study.replace(unit="trajectory", max_trajectories_per_person=None) == pv.Study(
        **{**FLAT, "unit": "trajectory", "max_trajectories_per_person": None}
    )
    assert study.replace(mechanism="dp-lsw").mechanism.name == "dp-lsw"
    named = study.replace(columns={"person": "patient", "trajectory": "stay"})
    assert named.replace(columns={"state": "ward"}).data.given == {"person", "trajectory", "state"}
    assert named.replace(columns={"person": None, "trajectory": None}) == study
    assert pv.Study(**ALL).replace(columns={"arm": "x"}).arms.column == "x"


def test_replace_drops_nothing_in_silence():
    study = pv.Study(**{**FLAT, "states": ["a", "b"]}, visits=[0.9, 0.1])
    assert study.replace(states=["ill", "well"]).visit_prior.tolist() == [0.9, 0.1]
    assert study.replace(bins={"age": [50]}).visit_prior.tolist() == [0.9, 0.1]
    assert study.replace(states=["ill", "well"], visits=None).visit_prior is None
    with pytest.raises(pv.StudyError, match="visits has 2 numbers for 3 states"):
        study.replace(states=3)
    grouped = study.replace(groups={"x": "a", "y": "b"})
    assert grouped.replace(states=["b", "a"]).raw_labels == {"x": 1, "y": 0}
    with pytest.raises(pv.StudyError, match=r'groups maps "x" to "a", which is not a state'):
        grouped.replace(states=["ill", "well"])
    arms = study.replace(arms=["a", "b"], columns={"arm": "treatment"})
    assert arms.replace(arms=["c", "d"]).arms.column == "treatment"


def test_an_index_that_names_other_states_is_refused():
    numbers = pd.Series([0.7, 0.2, 0.1], index=range(3))
    turned = {**FLAT, "states": ["2", "1", "0"]}
    with pytest.raises(pv.StudyError, match=r"has the index 0, 1, 2, \.\.\., and the states"):
        pv.Study(**turned, weights=numbers)
    for key in ("visits", "start", "features"):
        with pytest.raises(pv.StudyError, match=r"give to_numpy\(\) for the order of the states"):
            pv.Study(**turned, **{key: numbers if key != "features" else numbers.to_frame()})
    study = pv.Study(**{**FLAT, "states": ["0", "1", "2"]}, weights=numbers)
    with pytest.raises(pv.StudyError, match="values has the index"):
        study.replace(states=[1, 2, 3])
    assert study.replace(states=["a", "b", "c"]).state_weights.tolist() == [0.7, 0.2, 0.1]
    by_label = numbers.rename(index=str)
    assert pv.Study(**turned, weights=by_label).state_weights.tolist() == [0.1, 0.2, 0.7]


BY_LABEL = pd.Series([1.0, 0.5, 0.25], index=["well", "ill", "better"])


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (np.array([0.5, 0.25, 1.0]), [0.5, 0.25, 1.0]),
        (np.array([0.5, 0.25, 1.0], dtype=np.float32), [0.5, 0.25, 1.0]),
        (pd.Series([0.5, 0.25, 1.0]), [0.5, 0.25, 1.0]),
        (BY_LABEL, [0.5, 0.25, 1.0]),
        (BY_LABEL.to_dict(), [0.5, 0.25, 1.0]),
        (pl.Series([0.5, 0.25, 1.0]), [0.5, 0.25, 1.0]),
        (pa.array([0.5, 0.25, 1.0]), [0.5, 0.25, 1.0]),
        ((0.5, 0.25, 1), [0.5, 0.25, 1.0]),
    ],
)
def test_numbers_of_states_come_as_arrays_or_by_label(given, kept, tmp_path):
    study = pv.Study(**FLAT, weights=given, visits=given)
    assert study.state_weights.tolist() == kept
    assert study.visit_prior.tolist() == kept
    assert pv.Study.load(study.save(tmp_path / "study.toml")) == study


X = np.array([[1.0, 0.0], [1.0, 0.5], [0.0, 1.0]])
MATRICES = [
    X,
    X.tolist(),
    sp.csr_array(X),
    pd.DataFrame(X, columns=["a", "b"]),
    pd.DataFrame(X[[2, 0, 1]], index=["well", "ill", "better"]),
    pl.DataFrame({"a": X[:, 0], "b": X[:, 1]}),
    pl.DataFrame({"state": ["well", "ill", "better"], "a": X[[2, 0, 1], 0], "b": X[[2, 0, 1], 1]}),
    pa.table({"a": X[:, 0], "b": X[:, 1]}),
]


@pytest.mark.parametrize("matrix", MATRICES, ids=lambda matrix: type(matrix).__name__)
def test_features_come_as_a_matrix_and_are_saved_beside_the_study(matrix, tmp_path):
    study = pv.Study(**FLAT, features=matrix)
    assert (study.feature_matrix - X == 0).all() if sp.issparse(matrix) else True
    if not sp.issparse(matrix):
        assert study.feature_matrix.tolist() == X.tolist()
        assert study == pv.Study(**FLAT, features=X)
    file = study.save(tmp_path / "a.toml")
    ending = "npz" if sp.issparse(matrix) else "npy"
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"a-features.{ending}", "a.toml"]
    assert pv.Study.load(file) == study
    assert pv.Study.load(file) != pv.Study(**FLAT, features=2 * X)


def test_a_study_is_saved_with_comments_and_comes_back(tmp_path):
    study = pv.Study(**ALL)
    file = study.save(tmp_path / "study.toml")
    text = file.read_text()
    assert "epsilon = 1.0  # The privacy loss" in text
    assert "# size = 2  # How many adjacent states share one value" in text
    again = pv.Study.load(file)
    assert again == study
    assert study_hash(again.public_description()) == study_hash(study.public_description())
    for section in study.given:
        assert getattr(again, section).given == getattr(study, section).given
    study.save(file)  # the same text again
    with pytest.raises(pv.UsageError, match=r"exists and holds something else; .* replace=True"):
        study.replace(epsilon=2).save(file)
    study.replace(epsilon=2).save(file, replace=True)
    assert pv.Study.load(file).privacy.epsilon == 2


def test_odd_labels_are_saved_as_they_are(tmp_path):
    labels = ['say "ill"', "a\\b", "tab\there", "naïve \x7f ☂", "[x] = 1", "#1"]
    study = pv.Study(**{**FLAT, "states": labels}, weights=dict.fromkeys(labels, 2.0))
    assert pv.Study.load(study.save(tmp_path / "study.toml")) == study


def test_no_side_file_is_written_over_another(tmp_path):
    (tmp_path / "here").mkdir()
    (tmp_path / "p.csv").write_text("ill,1\n")
    (tmp_path / "here" / "p.csv").write_text("ill,0.5\nbetter,0.25\nwell,1\n")
    (tmp_path / "here" / "new.toml").write_text("ill,1\nbetter,2\nwell,3\n")
    (tmp_path / "here" / "new-features.npy").write_text("ill\nbetter\nwell\n")
    lines = (
        *('[privacy]\nepsilon = 1.0\ndelta = 1e-6\nunit = "trajectory"',),
        *('[values]\ndiscount = 0.9\nreturns = [0, 1]\nstart = "../p.csv"',),
        *('[states]\nfile = "new-features.npy"\nvisits = "p.csv"\n[weights]\nfile = "new.toml"',),
    )
    (tmp_path / "here" / "study.toml").write_text("\n".join(lines))
    study = pv.Study.load(tmp_path / "here" / "study.toml", side_files=tmp_path)
    study = study.replace(features=X)
    again = pv.Study.load(study.save(tmp_path / "there" / "new.toml"))
    assert again == study
    assert again.start_distribution.tolist() == [1, 0, 0]
    assert again.visit_prior.tolist() == [0.5, 0.25, 1.0]
    assert again.state_weights.tolist() == study.state_weights.tolist()


def test_side_files_are_copied_next_to_the_study(tmp_path, monkeypatch):
    (tmp_path / "here" / "in").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    Path("states.csv").write_text("ill\nbetter\nwell\n")
    Path("in/w.csv").write_text("ill,1\nbetter,2\nwell,3\n")
    (tmp_path / "start.csv").write_text("ill,1\n")
    study = pv.Study(
        **{**FLAT, "states": "states.csv"}, weights="in/w.csv", start=str(tmp_path / "start.csv")
    )
    file = study.save(tmp_path / "there" / "study.toml")
    assert pv.Study.load(file) == study
    made = sorted(str(path.relative_to(file.parent)) for path in file.parent.rglob("*.*"))
    assert made == ["in/w.csv", "start.csv", "states.csv", "study.toml"]


@pytest.mark.parametrize(
    ("keywords", "told"),
    [
        ({"epsilon": -1}, "epsilon = -1.0 is not allowed; it must be a finite number above 0"),
        ({"epsilon": "1"}, 'epsilon = "1" is not allowed'),
        ({"delta": 0}, "delta = 0.0 is not allowed; it must be a number between 0 and 1"),
        ({"unit": "patient"}, 'unit = "patient" is not allowed; it must be "trajectory"'),
        ({"discount": None}, "discount is missing; it must be a number above 0 and at most 1"),
        ({"returns": None}, "rewards is missing; .*; or give returns"),
        ({"returns": 1}, "returns = 1 is not allowed; it must be two finite numbers"),
        ({"states": None}, r"\[states\] is missing; it needs count, labels, file or bins"),
        ({"states": {"ill", "well"}}, "states = .* is not allowed; it must be how many there are"),
        ({"states": ["ill", None]}, "labels = None is not allowed; it must be a list of texts"),
        ({"states": 0}, "count = 0 is not allowed"),
        ({"discuont": 0.9}, r"^discuont is not a keyword of a study; did you mean discount\?$"),
        ({"xyzzy": 1}, "^xyzzy is not a keyword of a study; known are states, "),
        ({"privacy": {"epsilon": 1.0}}, "privacy is not a keyword of a study"),
        ({"beta": 0.1}, r"\[mechanism\] beta applies to"),
        ({"truncated": "cut"}, r'\[values\] truncated = "cut" is not allowed; it must be "keep"'),
        ({"weights": 2.0}, "values = 2.0 is not allowed; it must be a list or a table"),
        ({"weights": [1.0, "b", 2.0]}, 'values = "b" is not allowed'),
        ({"weights": [1.0]}, r"\[weights\] values has 1 numbers for 3 states"),
        ({"weights": {"ill": 1, "sick": 1}}, '"sick", which is not a state'),
        ({"visits": [0.5]}, r"\[states\] visits has 1 numbers for 3 states"),
        ({"start": [0.5, 0.1, 0.1]}, r"\[values\] start sums to 0.7"),
        ({"start": pd.Series([1, 1], index=["ill", "ill"])}, "names a state twice"),
        ({"features": 2}, r"features = 2 is not allowed; .* size=2 ties adjacent states"),
        ({"features": np.eye(2)}, r"\[features\] matrix has shape \(2, 2\)"),
        ({"features": [["a"], ["b"], ["c"]]}, r"\[features\] matrix holds something that is not a"),
        ({"features": pd.DataFrame(X, index=["ill", "well", "x"])}, '"x", which is not a state'),
        ({"features": pd.DataFrame(X, index=["ill"] * 3)}, "rows with the same label"),
        ({"arms": 2}, "arms = 2 is not allowed; it must be a list of labels"),
        ({"mechanism": "ssp"}, 'name = "ssp" is not allowed; it must be "dp-ssp"'),
        ({"columns": "stay_id"}, r'columns = "stay_id" is not allowed; .*columns=\{"trajectory"'),
        (
            {"columns": {"episode": "e"}},
            "columns: episode is no column; known are trajectory",
        ),
    ],
)
def test_what_is_wrong_is_named(keywords, told):
    with pytest.raises(pv.StudyError, match=told):
        pv.Study(**{**FLAT, **keywords})


def test_a_study_is_frozen():
    study = pv.Study(**FLAT)
    with pytest.raises(pv.StudyError, match=r"make another one with study.replace"):
        study.epsilon = 2
    assert not hasattr(study, "nonsense")


def test_a_file_has_sections_and_no_keywords():
    with pytest.raises(pv.StudyError, match=r"^\[epsilon\] is not a section of a study"):
        pv.Study.parse("epsilon = 1.0\n")
    with pytest.raises(pv.StudyError, match=r"^\[states\] must be a section of the study, not 40"):
        pv.Study.parse("states = 40\n")


BINS = {"age": [50, 70], "sofa": np.array([5.5])}
BINNED = {**FLAT, "states": None, "bins": BINS}


def test_bins_make_states_and_are_recorded(tmp_path):
    study = pv.Study(**BINNED, visits=[0.5] * 6)
    labels = [
        *("age < 50, sofa < 5.5", "age < 50, sofa >= 5.5"),
        *("50 <= age < 70, sofa < 5.5", "50 <= age < 70, sofa >= 5.5"),
        *("age >= 70, sofa < 5.5", "age >= 70, sofa >= 5.5"),
    ]
    assert list(study.state_labels) == labels
    described = study.public_description()
    assert described["states"]["bins"] == [
        {"column": "age", "edges": [50.0, 70.0]},
        {"column": "sofa", "edges": [5.5]},
    ]
    assert "state" not in described["data"]
    assert pv.Study.from_description(described) == study
    assert pv.Study.load(study.save(tmp_path / "study.toml")) == study
    named = study.replace(weights={label: at + 1.0 for at, label in enumerate(labels)})
    assert named.state_weights.tolist() == [1, 2, 3, 4, 5, 6]
    turned = study.replace(bins={"sofa": [5.5], "age": [50, 70]}, visits=[0.5] * 6)
    assert turned != study
    hashes = {study_hash(one.public_description()) for one in (study, turned)}
    assert len(hashes) == 2  # the order of columns is the order of states


def test_bins_of_a_study_file():
    text = (
        '[privacy]\nepsilon = 1.0\ndelta = 1e-6\nunit = "person"\nmax_trajectories_per_person = 3\n'
    )
    text += (
        "[values]\ndiscount = 0.9\nreturns = [0, 1]\n[states.bins]\nage = [50, 70]\nsofa = [5.5]\n"
    )
    assert pv.Study.parse(text) == pv.Study(**BINNED)


@pytest.mark.parametrize(
    ("edges", "told"),
    [
        ({}, "it must be a table of columns and their edges"),
        ({"age": []}, "bins age = .* it must be a list of at least one finite number"),
        ({"age": 50}, "bins age = 50 is not allowed"),
        ({"age": "50"}, "bins age = .* is not allowed"),
        ({"age": [50, float("nan")]}, "at least one finite number"),
        ({"age": [True]}, "at least one finite number"),
        ({"age": [70, 50]}, "bins age = .*: edges come in order, each above the last"),
        ({"age": [50, 50]}, "edges come in order"),
        ({"": [50]}, "is not the name of a column"),
        ({f"c{n}": [0] for n in range(20)}, "bins make 1,048,576 states; there may be at most"),
    ],
)
def test_what_bins_may_not_be(edges, told):
    with pytest.raises(pv.StudyError, match=told):
        pv.Study(**{**BINNED, "bins": edges})


@pytest.mark.parametrize(
    ("keywords", "told"),
    [
        ({"groups": {"a": "b"}}, "groups maps labels, and bins are of numbers"),
        ({"columns": {"state": "ward"}}, 'state = "ward" names a column of states, and .* bins'),
        ({"columns": {"reward": "age"}}, r"bins age is a column of \[data\] or \[arms\], too"),
        (
            {"arms": ["a", "b"], "columns": {"arm": "sofa"}},
            r"bins sofa is a column of \[data\] or \[arms\], too",
        ),
    ],
)
def test_what_does_not_go_with_bins(keywords, told):
    with pytest.raises(pv.StudyError, match=told):
        pv.Study(**BINNED, **keywords)
