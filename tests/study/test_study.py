"""A study: the same from a file and from keywords, changed, saved, described and identified."""

import hashlib
import pkgutil
from collections import Counter

import numpy as np
import pytest
import scipy.sparse as sp

import privalue as pv
from oracles.refusals import refused
from oracles.studies import make_study
from privalue.ledger import study_hash
from privalue.study import SECTIONS, design, place_keywords

KEYWORDS = set(pv.Study.__signature__.parameters)
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
PLAIN = {**FLAT, "unit": "trajectory", "max_trajectories_per_person": None}


def identity(study):
    return study_hash(study.public_description())


# Keywords and sections


def test_a_file_and_keywords_make_the_same_study():
    text = """
        [study]
        name = "ward"
        [privacy]
        epsilon = 1.0
        delta = 1e-6
        unit = "person"
        max_trajectories_per_person = 3
        [values]
        discount = 0.9
        returns = [0, 1]
        [states]
        labels = ["ill", "better", "well"]
        groups = { a = "ill", b = "better", c = "well" }
        [arms]
        labels = ["control", "treated"]
        column = "given"
        [report]
        level = 0.9
        [data]
        trajectory = "stay_id"
        person = "patient"
    """
    words = ("name", "groups", "arms", "level", "columns")
    flat = pv.Study(**FLAT, **{word: ALL[word] for word in words})
    assert pv.Study.parse(text) == flat == pv.Study.from_sections(flat.sections())


def test_no_table_in_a_study_looks_like_a_file(tmp_path):
    """An identical request is answered by an earlier release: two studies must not be one."""
    path, digest = tmp_path / "groups.csv", hashlib.sha256(b"a,well\n").hexdigest()
    path.write_bytes(b"a,well\n")
    flat = {**FLAT, "states": [*FLAT["states"], digest]}
    by_file, by_table = (pv.Study(**flat, groups=one) for one in (str(path), {"sha256": digest}))
    assert identity(by_file) != identity(by_table)


def test_every_key_of_a_study_has_one_keyword():
    """A key has its own keyword, or belongs to that of its section, or names a column."""
    placed = [place_keywords({word: 0.5}) for word in KEYWORDS - {*SECTIONS, "columns"}]
    keywords = {(name, key) for table in placed for name, keys in table.items() for key in keys}
    assert len(keywords) == len(placed)
    every = {(name, key) for name, model in SECTIONS.items() for key in model.model_fields}
    assert keywords < every
    assert {name for name, _ in every - keywords} <= {*KEYWORDS, "data"}


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
    values = make_study(2, discount=discount, rewards=rewards).values
    assert values.return_bounds == pytest.approx(bounds)
    assert values.unvisited_value == pytest.approx(unvisited)


def test_rewards_follow_from_returns_where_they_are_left_out():
    """Every reward that leaves all returns within their bounds is within the rewards'."""
    study = pv.Study(**{**FLAT, "returns": (-1, 2), "discount": 0.5})
    assert study.values.rewards == (-2.0, 2.5)
    assert study.replace(returns=(0, 1)).values.rewards == (-0.5, 1.0)
    rewards = np.random.default_rng(1).uniform(-4, 4, (20_000, 4))
    returns = rewards.copy()
    for at in (2, 1, 0):
        returns[:, at] += 0.5 * returns[:, at + 1]
    inside = ((returns >= -1) & (returns <= 2)).all(axis=1)
    assert inside.sum() > 50
    assert -2 <= rewards[inside].min() < -1.7  # so narrower bounds would clamp
    assert rewards[inside].max() <= 2.5


def test_replace_changes_keywords_and_takes_them_back():
    study = pv.Study(**FLAT)
    assert study.replace(epsilon=2) == pv.Study(**{**FLAT, "epsilon": 2}) != study
    assert study.replace(epsilon=2).replace(epsilon=1) == study
    assert study.replace(unit="trajectory", max_trajectories_per_person=None) == pv.Study(**PLAIN)
    assert study.replace(mechanism="dp-lsw", beta=0.1).replace(mechanism="dp-ssp") == study
    with_columns = study.replace(columns={"person": "patient", "trajectory": "stay"})
    assert with_columns.replace(columns={"person": None, "trajectory": None}) == study
    arms = study.replace(arms=["a", "b"], columns={"arm": "treatment"})
    assert arms.replace(arms=["c", "d"]).arms.column == "treatment"


def test_replace_drops_nothing_in_silence():
    study = pv.Study(**{**FLAT, "states": ["a", "b"]}, visits=[0.9, 0.1])
    assert study.replace(states=["ill", "well"]).visit_prior.tolist() == [0.9, 0.1]
    assert study.replace(bins={"age": [50]}).visit_prior.tolist() == [0.9, 0.1]
    assert study.replace(states=["ill", "well"], visits=None).visit_prior is None
    with refused("numbers-missing"):
        study.replace(states=3)
    grouped = study.replace(groups={"x": "a", "y": "b"})
    assert grouped.replace(states=["b", "a"]).raw_labels == {"x": 1, "y": 0}


@pytest.mark.parametrize(("declared", "times"), [({"trajectories": 400}, 1), ({}, 2)], ids=str)
def test_a_release_resolves_its_study_once_and_again_where_m_is_counted(
    declared, times, monkeypatch
):
    study, calls = pv.Study(**PLAIN, **declared), Counter()
    for place in ("curator.resolve", "curator.design", "study.study.Limits"):
        original = pkgutil.resolve_name(f"privalue.{place}")

        def count_call(*args, place=place, original=original, **options):
            calls[place] += 1
            return original(*args, **options)

        monkeypatch.setattr(f"privalue.{place}", count_call)
    pv.release(study, [[("ill", 0.0), ("well", 1.0)]] * 400, seed=1, accept_useless=True)
    assert calls == {"curator.resolve": times, "curator.design": 1, "study.study.Limits": 1}


# Numbers and matrices


X = np.array([[1.0, 0.0], [1.0, 0.5], [0.0, 1.0]])


@pytest.mark.parametrize(
    ("phi", "weights"),
    [
        (np.ones((3, 2)), [1.0, 1.0, 1.0]),  # two equal columns
        (sp.csr_array(np.eye(3)[:, :2]), [1.0, 0.0, 1.0]),  # weight 0 where it is needed
        (sp.csr_array([[1.0, 0.0]] * 3), [1.0, 1.0, 1.0]),  # an empty column
    ],
)
def test_designs_without_full_column_rank_are_refused(phi, weights):
    study = pv.Study(**PLAIN, features=phi, weights=weights, mechanism="dp-lsw")
    with refused("features-not-independent"):
        design(study)
    ridged = study.replace(mechanism="dp-lsl")
    assert design(ridged).weighted_features.spectrum.low == 0


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


def test_bins_make_states_and_are_recorded():
    study = pv.Study(**BINNED)
    assert study.names.names == BIN_LABELS
    description = study.public_description()
    edges = [{"column": "age", "edges": [50.0, 70.0]}, {"column": "sofa", "edges": [5.5]}]
    assert description["states"]["bins"] == edges
    assert pv.Study.from_description(description) == study
    turned = study.replace(bins={"sofa": [5.5], "age": [50, 70]})
    assert identity(turned) != identity(study)  # the order of columns is the order of states


# Descriptions, and what identifies a request


DESCRIBED = [
    {},
    {"mechanism": "dp-lsl", "ridge": 7.0},
    {"stage_shares": {"bounds": 0.1}},
    {"groups": {"x": "ill", "y": "well"}, "trajectories": 3000},
    {"size": 2, "weights": [1.0, 2.0, 0.0]},
    {"columns": {"person": "person"}, "invalid": "drop-unit", "step_type": "date"},
    {"arms": ["a", "b"]},
]


@pytest.mark.parametrize("changes", DESCRIBED, ids=str)
def test_a_study_is_rebuilt_from_its_description(changes):
    study = pv.Study(**PLAIN, **changes)
    again = pv.Study.from_description(study.public_description())
    assert again == study
    assert again.limits == study.limits
    assert again.mechanism.has_ridge == study.mechanism.has_ridge


# Keys with an effect even at their defaults: a ridge is then used, a share replaces a rule's.
EFFECTIVE = ("ridge", "ridge_scale", "stage_shares", "noise", "beta", "pseudo_count", "delta")


def test_keys_at_their_defaults_do_not_change_what_identifies_a_request():
    plain, tried = pv.Study(**PLAIN), 0
    for name in SECTIONS:
        section = getattr(plain, name)
        for key in {*type(section).model_fields} & {*KEYWORDS} - {*EFFECTIVE, "values", *SECTIONS}:
            usual = section.default(key)
            if (
                usual is not None
                and name in place_keywords({key: usual})
                and key not in section.explicit_keys
            ):
                assert identity(plain.replace(**{key: usual})) == identity(plain), key
                tried += 1
    assert tried > 10
    for other in ({"weights": "uniform"}, {"columns": {"state": "state"}}, {"level": 0.5}):
        assert identity(plain.replace(**other)) == identity(plain)


def test_an_earlier_request_keeps_its_identity():
    """A version that adds keys, or writes doubles in another way, must not charge it again."""
    identities = {
        True: "b9de6578e6a77f70c19b63c1cf9b3e43907b59994ff22568fa679b83d6070724",
        False: "8606e3ba1410c36007a0db2981b5f4f21f6dff455b5fbaf17d5676c482e548bf",
    }
    for everything, expected in identities.items():
        assert identity(pv.Study(**(ALL if everything else PLAIN))) == expected


CHANGES = [
    *[
        {key: value}
        for key, value in ALL.items()
        if key not in {*FLAT, "mechanism", "level", "columns"}
    ],
    {"epsilon": 1.0 + 2**-52},
    {"delta": 1e-7},
    {"unit": "person", "max_trajectories_per_person": 1},
    {"discount": 0.8},
    {"returns": (0, 2)},
    {"columns": {"truncated": "cut"}, "truncated_rows": "keep"},
    {"columns": {"truncated": "cut"}, "truncated_rows": "drop-unit"},
    {"states": ["ill", "better", "fine"]},
    {"size": 2},
    {"size": 2, "shrink": True},
    {"features": X},
    {"arms": ["a", "b"]},
    {"arms": ["a", "b"], "columns": {"arm": "group"}},
    {"actions": 2},
    {"actions": 2, "allowed": {"ill": [0], "better": [1], "well": [0, 1]}},
    {"mechanism": "dp-lsw"},
    *[
        {"mechanism": "dp-lsw", key: value}
        for key, value in {"noise": "isotropic", "beta": 0.1, "pseudo_count": 1.0}.items()
    ],
    {"mechanism": "dp-lsw", "calibration": "nissim"},
    *[{"mechanism": "dp-lsl", key: value} for key in ("ridge", "ridge_scale") for value in (5, 6)],
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
    identities = {identity(pv.Study(**PLAIN).replace(**changes)) for changes in ({}, *CHANGES)}
    assert len(identities) == len(CHANGES) + 1
