"""A study: the same from a file and from keywords, changed, saved, described and identified."""

import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

import privalue as pv
from oracles.studies import in_sections, release_anyway, study
from privalue.core import Limits
from privalue.ledger import study_hash
from privalue.study import KEYWORDS, SECTIONS, design, study_template

LABELS = ["ill", "better", "well"]
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
SECTIONS_OF_ALL = {
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
PLAIN = {**FLAT, "unit": "trajectory", "max_trajectories_per_person": None}


def identity(chosen):
    return study_hash(chosen.public_description())


# Keywords and sections


def test_keywords_and_sections_make_the_same_study():
    flat, sections = pv.Study(**ALL), in_sections(**SECTIONS_OF_ALL)
    assert flat == sections
    assert flat.public_description() == sections.public_description()


def test_every_key_of_a_study_has_one_keyword():
    """A key is a keyword, or belongs to one that is called as its section, or names a column."""
    placed = [KEYWORDS[word](0.5) for word in KEYWORDS if word not in {*SECTIONS, "columns"}]
    found = {(name, key) for each in placed for name, keys in each.items() for key in keys}
    assert len(found) == len(placed)
    every = {(name, key) for name, model in SECTIONS.items() for key in model.model_fields}
    assert found < every
    assert {name for name, _ in every - found} <= {*KEYWORDS, "data"}
    assert list(pv.Study.__signature__.parameters) == list(KEYWORDS)


def test_defaults_follow_from_other_keys():
    chosen = study(4, mechanism={"name": "dp-ssp", "calibration": "exact"})
    assert chosen.state_labels == ("0", "1", "2", "3")
    assert chosen.state_weights.tolist() == [1.0] * 4
    assert not chosen.state_weights.flags.writeable
    assert (chosen.mechanism.stages, chosen.mechanism.shrinkage) == ("auto", True)
    for name, noise in (("dp-lsw", "whitened"), ("dp-lsl", "isotropic")):
        other = pv.Study(**{**PLAIN, "mechanism": name}).mechanism
        assert (other.stages, other.shrinkage, other.noise) == ("one", False, noise)
    assert pv.Study(**PLAIN, size=2).features.kind == "aggregate"
    assert pv.Study(**PLAIN, features=np.eye(3)).features.kind == "matrix"


@pytest.mark.parametrize(
    ("rewards", "discount", "bounds", "unvisited"),
    [
        ((0, 1), 0.9, (0, 10), 0),
        ((-1, 2), 0.5, (-2, 4), 0),
        ((1, 2), 0.5, (1, 4), 1),
        ((-2, -1), 0.5, (-4, -1), -1),
    ],
)
def test_bounds_of_returns_from_those_of_rewards(rewards, discount, bounds, unvisited):
    """Without 0 inside, one row is the nearest a return comes to it."""
    values = study(2, discount=discount, rewards=rewards).values
    assert values.return_bounds == pytest.approx(bounds)
    assert values.unvisited_value == pytest.approx(unvisited)


def test_rewards_follow_from_returns_where_they_are_left_out():
    """Every reward that leaves all returns within their bounds is within the rewards'."""
    chosen = pv.Study(**{**FLAT, "returns": (-1, 2), "discount": 0.5})
    assert chosen.values.rewards == (-2.0, 2.5)
    assert chosen.replace(returns=(0, 1)).values.rewards == (-0.5, 1.0)
    rewards = np.random.default_rng(1).uniform(-4, 4, (20_000, 4))
    returns = rewards.copy()
    for at in (2, 1, 0):
        returns[:, at] += 0.5 * returns[:, at + 1]
    inside = ((returns >= -1) & (returns <= 2)).all(axis=1)
    assert inside.sum() > 50
    assert -2 <= rewards[inside].min() < -1.7  # so narrower bounds would clamp
    assert rewards[inside].max() <= 2.5


def test_what_one_person_can_change():
    by_person = {"unit": "person", "max_trajectories_per_person": 3, "max_states_per_trajectory": 4}
    assert study(100, privacy=by_person).limits.touched == 24
    assert study(100, privacy={**by_person, "neighbours": "add-remove"}).limits.touched == 12
    assert study(5, privacy=by_person).limits.touched == 5
    assert study(7, privacy={"max_states_per_trajectory": 99}).states_per_trajectory == 7


def test_replace_changes_keywords_and_takes_them_back():
    chosen = pv.Study(**FLAT)
    assert chosen.replace(epsilon=2) == pv.Study(**{**FLAT, "epsilon": 2}) != chosen
    assert chosen.replace(epsilon=2).replace(epsilon=1) == chosen
    assert chosen.replace(unit="trajectory", max_trajectories_per_person=None) == pv.Study(**PLAIN)
    assert chosen.replace(mechanism="dp-lsw", beta=0.1).replace(mechanism="dp-ssp") == chosen
    named = chosen.replace(columns={"person": "patient", "trajectory": "stay"})
    assert named.replace(columns={"state": "ward"}).data.given == {"person", "trajectory", "state"}
    assert named.replace(columns={"person": None, "trajectory": None}) == chosen
    arms = chosen.replace(arms=["a", "b"], columns={"arm": "treatment"})
    assert arms.replace(arms=["c", "d"]).arms.column == "treatment"


def test_replace_drops_nothing_in_silence():
    chosen = pv.Study(**{**FLAT, "states": ["a", "b"]}, visits=[0.9, 0.1])
    assert chosen.replace(states=["ill", "well"]).visit_prior.tolist() == [0.9, 0.1]
    assert chosen.replace(bins={"age": [50]}).visit_prior.tolist() == [0.9, 0.1]
    assert chosen.replace(states=["ill", "well"], visits=None).visit_prior is None
    with pytest.raises(pv.StudyError) as refused:
        chosen.replace(states=3)
    assert refused.value.code == "numbers-missing"
    grouped = chosen.replace(groups={"x": "a", "y": "b"})
    assert grouped.replace(states=["b", "a"]).raw_labels == {"x": 1, "y": 0}


def test_a_study_is_frozen():
    chosen = pv.Study(**FLAT)
    for owner, name in ((chosen, "privacy"), (chosen.privacy, "epsilon")):
        with pytest.raises((AttributeError, ValueError), match=r"assign|frozen"):
            setattr(owner, name, 2)


def test_a_release_builds_limits_once_or_twice(monkeypatch):
    """Everything public is resolved once, and again only where m was not declared."""
    built = []
    made = Limits.__post_init__

    def counted(self):
        built.append(self)
        made(self)

    monkeypatch.setattr(Limits, "__post_init__", counted)
    people = [[(label, 0.5)] for label in LABELS] * 300
    for keywords in ({}, {"trajectories": 900}):
        built.clear()
        release_anyway(pv.Study(**PLAIN, **keywords), people)
        assert 1 <= len(built) <= 2


# Numbers and matrices


BY_LABEL = pd.Series([1.0, 0.5, 0.25], index=["well", "ill", "better"])


@pytest.mark.parametrize(
    "given",
    [
        np.array([0.5, 0.25, 1.0], dtype=np.float32),
        pd.Series([0.5, 0.25, 1.0]),
        BY_LABEL,
        BY_LABEL.to_dict(),
        pl.Series([0.5, 0.25, 1.0]),
        pa.array([0.5, 0.25, 1.0]),
        (0.5, 0.25, 1),
    ],
    ids=lambda given: type(given).__name__,
)
def test_numbers_of_states_come_as_arrays_or_by_label(given, tmp_path):
    chosen = pv.Study(**FLAT, weights=given, visits=given)
    assert chosen.state_weights.tolist() == chosen.visit_prior.tolist() == [0.5, 0.25, 1.0]
    assert pv.Study.load(chosen.save(tmp_path / "study.toml")) == chosen


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
    chosen = pv.Study(**FLAT, features=matrix)
    loaded = pv.Study.load(chosen.save(tmp_path / "a.toml"))
    ending = "npz" if sp.issparse(matrix) else "npy"
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"a-features.{ending}", "a.toml"]
    for found in (chosen.feature_matrix, loaded.feature_matrix):
        assert (found.toarray() if sp.issparse(found) else found).tolist() == X.tolist()


@pytest.mark.parametrize("ending", ["npy", "npz", "csv", "parquet"])
def test_feature_matrices_from_every_kind_of_file(tmp_path, monkeypatch, ending):
    path = tmp_path / f"phi.{ending}"
    if ending == "npy":
        np.save(path, X)
    elif ending == "npz":
        sp.save_npz(path, sp.csr_array(X))
    elif ending == "csv":
        path.write_text("2,0.0,1.0\n0,1.0,0.0\n1,1.0,0.5\n")
    else:
        pq.write_table(pa.table({"state": [0, 1, 2], "a": X[:, 0], "b": X[:, 1]}), path)
    monkeypatch.chdir(tmp_path)
    found = pv.Study(**{**FLAT, "states": 3}, features=path.name).feature_matrix
    assert (found.toarray() if sp.issparse(found) else found).tolist() == X.tolist()


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize(
    ("phi", "weights"),
    [
        ([[1.0, 1.0], [1.0, 1.0], [1.0, 1.0]], [1.0, 1.0, 1.0]),  # two equal columns
        ([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]], [1.0, 0.0, 1.0]),  # weight 0 where it is needed
        ([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]], [1.0, 1.0, 1.0]),  # an empty column
    ],
)
def test_designs_without_full_column_rank_are_refused(storage, phi, weights):
    chosen = pv.Study(**PLAIN, features=storage(np.array(phi)), weights=weights, mechanism="dp-lsw")
    with pytest.raises(pv.StudyError, match="does not have full column rank"):
        design(chosen)
    ridged = chosen.replace(mechanism="dp-lsl")
    assert not design(ridged).full_rank


def test_aggregation_ties_adjacent_states():
    phi = design(study(5, features={"size": 2})).phi.toarray()
    assert phi.tolist() == [[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 1, 0], [0, 0, 1]]


def test_values_shrunk_towards_features_are_tabular():
    chosen = pv.Study(**{**PLAIN, "states": 6}, size=2, shrink=True)
    assert chosen.shrink_targets.shape == (6, 2)  # three groups, less what they have in common
    assert chosen.public_description()["features"]["shrink"] is True
    assert design(chosen).is_tabular


# Bins


BINS = {"age": [50, 70], "sofa": np.array([5.5])}
BINNED = {**FLAT, "states": None, "bins": BINS}
BIN_LABELS = (
    "age < 50, sofa < 5.5",
    "age < 50, sofa >= 5.5",
    "50 <= age < 70, sofa < 5.5",
    "50 <= age < 70, sofa >= 5.5",
    "age >= 70, sofa < 5.5",
    "age >= 70, sofa >= 5.5",
)


def test_bins_make_states_and_are_recorded(tmp_path):
    chosen = pv.Study(**BINNED)
    assert chosen.state_labels == BIN_LABELS
    described = chosen.public_description()
    edges = [{"column": "age", "edges": [50.0, 70.0]}, {"column": "sofa", "edges": [5.5]}]
    assert described["states"]["bins"] == edges
    assert pv.Study.from_description(described) == chosen
    assert pv.Study.load(chosen.save(tmp_path / "study.toml")) == chosen
    turned = chosen.replace(bins={"sofa": [5.5], "age": [50, 70]})
    assert identity(turned) != identity(chosen)  # the order of columns is the order of states


@pytest.mark.parametrize(
    "edges",
    [
        {},
        {"age": []},
        {"age": 50},
        {"age": "50"},
        {"age": [50, float("nan")]},
        {"age": [True]},
        {"age": [70, 50]},
        {"age": [50, 50]},
        {"": [50]},
        {f"c{n}": [0] for n in range(20)},
    ],
)
def test_what_bins_may_not_be(edges):
    with pytest.raises(pv.StudyError) as refused:
        pv.Study(**{**BINNED, "bins": edges})
    assert refused.value.code == "key-invalid"


# Files


def test_side_files_are_found_beside_the_study_hashed_and_copied(tmp_path, monkeypatch):
    here = tmp_path / "here"
    here.mkdir()
    (here / "states.csv").write_text("state\nhome\nward\nicu\n")
    (here / "groups.csv").write_text("raw,state\nbed 1,ward\nbed 2,ward\nhome,home\nicu,icu\n")
    (here / "weights.csv").write_text("icu,3\nhome,1\nward,2\n")
    (here / "start.csv").write_text("state,probability\nhome,0.25\nward,0.75\n")
    (here / "phi.csv").write_text("state,a,b\nward,0,1\nhome,1,0\nicu,1,1\n")
    (here / "study.toml").write_text(
        '[privacy]\nepsilon = 1\ndelta = 1e-6\nunit = "trajectory"\n'
        '[values]\ndiscount = 0.9\nreturns = [0, 1]\nstart = "start.csv"\n'
        '[states]\nfile = "states.csv"\ngroups = "groups.csv"\n'
        '[weights]\nfile = "weights.csv"\n[features]\nfile = "phi.csv"\n'
    )
    loaded = pv.Study.load(here / "study.toml")
    monkeypatch.chdir("/")
    again = pv.Study.load(loaded.save(tmp_path / "there" / "study.toml"))
    for chosen in (loaded, loaded.replace(period="2026-11"), again):
        assert chosen.state_labels == ("home", "ward", "icu")
        assert chosen.raw_labels == {"bed 1": 1, "bed 2": 1, "home": 0, "icu": 2}
        assert chosen.state_weights.tolist() == [1, 2, 3]
        assert chosen.start_distribution.tolist() == [0.25, 0.75, 0]
        assert chosen.feature_matrix.tolist() == [[1, 0], [0, 1], [1, 1]]
        assert chosen.side_files == loaded.side_files
    assert len(loaded.side_files) == 5
    assert again == loaded


def test_a_study_is_saved_with_comments_and_comes_back(tmp_path):
    labels = ['say "ill"', "a\\b", "tab\there", "naïve \x7f ☂", "[x] = 1", "#1"]
    odd = pv.Study(**{**FLAT, "states": labels}, weights=dict.fromkeys(labels, 2.0))
    for chosen in (pv.Study(**ALL), odd):
        file = chosen.save(tmp_path / "study.toml", replace=True)
        again = pv.Study.load(file)
        assert again == chosen
        assert all(getattr(again, name).given == getattr(chosen, name).given for name in SECTIONS)
    odd.save(file)  # the same text again
    with pytest.raises(pv.UsageError) as refused:
        odd.replace(epsilon=2).save(file)
    assert refused.value.code == "file-exists"


def test_the_template_is_a_study_and_shows_every_key():
    text = study_template()
    assert pv.Study.parse(text).study.name == "my-study"
    python_only = {("features", "matrix"), ("weights", "values")}
    for section, model in SECTIONS.items():
        for key in model.model_fields:
            assert (f"{key} = " in text) or (section, key) in python_only
    for line in text.splitlines():
        if line.startswith("# ") and " = " in line:
            tomllib.loads(line[2:])
    short = study_template(every=False)
    assert pv.Study.parse(short) == pv.Study.parse(text)
    assert len(short.splitlines()) < 40
    with pytest.raises(pv.StudyError) as refused:
        pv.Study.parse(study_template({("states", "count"): '"?"'}, {("states", "count"): "How?"}))
    assert refused.value.code == "questions-left"


# Descriptions, and what identifies a request


DESCRIBED = [
    {},
    {"mechanism": "dp-lsw", "noise": "isotropic"},
    {"mechanism": "dp-lsl", "ridge": 7.0},
    {"ridge": "sqrt"},
    {"stage_shares": {"bounds": 0.1}},
    {"groups": {"x": "ill", "y": "well"}, "trajectories": 3000},
    {"size": 2, "weights": [1.0, 2.0, 0.0]},
    {"columns": {"person": "person"}, "invalid": "drop-unit", "step_type": "date"},
    {"arms": ["a", "b"]},
]


@pytest.mark.parametrize("changes", DESCRIBED, ids=str)
def test_a_study_is_rebuilt_from_its_description(changes):
    chosen = pv.Study(**PLAIN, **changes)
    again = pv.Study.from_description(chosen.public_description())
    assert again == chosen
    assert again.limits == chosen.limits
    assert again.mechanism.has_ridge == chosen.mechanism.has_ridge


def test_a_description_that_names_a_file_needs_that_section(tmp_path, monkeypatch):
    (tmp_path / "weights.csv").write_text("ill,1\nbetter,2\nwell,3\n")
    monkeypatch.chdir(tmp_path)  # the file is there, and may be another one by now
    description = pv.Study(**PLAIN, weights="weights.csv", start={"ill": 1.0}).public_description()
    with pytest.raises(pv.StudyError) as refused:
        pv.Study.from_description(description)
    assert refused.value.code == "side-file-missing"
    again = pv.Study.from_description(description, weights={"values": [1.0, 2.0, 3.0]})
    assert again.state_weights.tolist() == [1.0, 2.0, 3.0]
    assert again.start_distribution is None


def defaults_of(chosen):
    """Every keyword that a plain study has not written, at its default."""
    for name, model in SECTIONS.items():
        section = getattr(chosen, name)
        for key in model.model_fields:
            value = section.default(key)
            mine = key in KEYWORDS and name in KEYWORDS[key](value)
            if mine and key not in section.given and value is not None:
                yield {key: value}
    yield {"weights": "uniform"}
    yield {"mechanism": "dp-ssp"}
    yield {"columns": {"state": "state", "reward": "reward", "step": "step"}}


# Being written says something of these: a ridge is then used, a share is then no rule's.
MEANS = ("ridge", "ridge_scale", "stage_shares", "noise", "beta", "pseudo_count", "delta")


def test_keys_at_their_defaults_do_not_change_what_identifies_a_request():
    plain = pv.Study(**PLAIN)
    tried = [each for each in defaults_of(plain) if not {*MEANS} & {*each}]
    assert len(tried) > 12
    for default in tried:
        assert identity(plain.replace(**default)) == identity(plain), default
    assert identity(plain.replace(level=0.5)) == identity(plain)  # how it is shown


def test_a_request_of_before_is_known_again():
    """A version that adds keys, or writes doubles in another way, would charge it once more."""
    known = {
        True: "b9de6578e6a77f70c19b63c1cf9b3e43907b59994ff22568fa679b83d6070724",
        False: "8606e3ba1410c36007a0db2981b5f4f21f6dff455b5fbaf17d5676c482e548bf",
    }
    for everything, expected in known.items():
        assert identity(pv.Study(**(ALL if everything else PLAIN))) == expected


CHANGES = [
    {"name": "other"},
    {"dataset": "clinic"},
    {"period": "2026-11"},
    {"trajectories": 900},
    {"epsilon": 1.0 + 2**-52},
    {"delta": 1e-7},
    {"neighbours": "add-remove"},
    {"unit": "person", "max_trajectories_per_person": 1},
    {"max_states_per_trajectory": 2},
    {"discount": 0.8},
    {"returns": (0, 2)},
    {"rewards": (0, 1)},
    {"unvisited": 0.5},
    {"start": [1, 0, 0]},
    {"columns": {"truncated": "cut"}},
    {"columns": {"truncated": "cut"}, "truncated": "drop-unit"},
    {"states": ["ill", "better", "fine"]},
    {"groups": {"x": "ill"}},
    {"visits": [0.5, 0.25, 0.125]},
    {"size": 2},
    {"size": 2, "shrink": True},
    {"features": X},
    {"weights": [1, 2, 3]},
    {"arms": ["a", "b"]},
    {"arms": ["a", "b"], "columns": {"arm": "group"}},
    {"actions": 2},
    {"actions": 2, "allowed": {"ill": [0], "better": [1], "well": [0, 1]}},
    {"mechanism": "dp-lsw"},
    {"mechanism": "dp-lsw", "noise": "isotropic"},
    {"mechanism": "dp-lsw", "beta": 0.1},
    {"mechanism": "dp-lsw", "pseudo_count": 1.0},
    {"mechanism": "dp-lsw", "calibration": "nissim"},
    {"mechanism": "dp-lsl"},
    {"mechanism": "dp-lsl", "ridge": 5},
    {"mechanism": "dp-lsl", "ridge_scale": 5},
    {"ridge": "sqrt"},
    {"shrinkage": False},
    {"stages": "one"},
    {"stages": ["bounds"]},
    {"stage_shares": {"bounds": 0.1}},
    *[{"columns": {role: "x"}} for role in ("trajectory", "step", "state", "reward", "person")],
    {"columns": {"person": "person"}},
    {"id_type": "integer"},
    {"step_type": "number"},
    {"step_type": "date", "step_format": "%d.%m.%Y"},
    {"invalid": "drop-unit"},
    {"missing": ["NA"]},
    {"decimal": ","},
    {"delimiter": ";"},
    {"encoding": "latin-1"},
    {"sorted": True},
]


def test_every_consequential_key_changes_what_identifies_a_request():
    found = [
        identity(pv.Study(**PLAIN)),
        *(identity(pv.Study(**PLAIN).replace(**c)) for c in CHANGES),
    ]
    assert len(set(found)) == len(found)


def test_a_side_file_counts_by_what_it_holds(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in (("a.csv", "1"), ("b.csv", "1"), ("c.csv", "2")):
        Path(name).write_text(f"ill,{text}\nbetter,2\nwell,3\n")
    one, same, other = (
        identity(pv.Study(**PLAIN, weights=name)) for name in ("a.csv", "b.csv", "c.csv")
    )
    assert one == same != other
