"""The study file: every key checked, one clear line for each mistake."""

import numpy as np
import pytest
import scipy.sparse as sp

import privalue as pv
from oracles.studies import in_sections, study
from privalue.study._features import design
from privalue.study._mechanism import Mechanism
from privalue.study._template import STARTING_POINT, study_template

GOOD = """
[study]
name = "recovery-chain"
dataset = "trial-2026"
trajectories = 10000
[privacy]
epsilon = 1.0
delta = 1e-6
unit = "trajectory"
neighbours = "replace-one"
[values]
discount = 0.99
rewards = [0.0, 1.0]
[states]
count = 4
[features]
kind = "tabular"
[weights]
kind = "uniform"
[mechanism]
name = "dp-lsw"
calibration = "nissim"
noise = "isotropic"
[data]
trajectory = "stay_id"
"""


def changed(old, new):
    assert old in GOOD
    return GOOD.replace(old, new)


def test_a_good_study_and_its_defaults():
    described = pv.Study.parse(GOOD)
    assert described.state_count == 4
    assert described.state_labels == ("0", "1", "2", "3")
    assert described.return_bounds == pytest.approx((0.0, 100.0))
    assert described.values.unvisited_value == 0.0
    assert described.state_weights.tolist() == [1.0] * 4
    assert not described.state_weights.flags.writeable
    assert described.data.trajectory == "stay_id"
    assert described.data.reward == "reward"


def test_python_and_the_file_build_the_same_object():
    built = pv.Study(
        name="recovery-chain",
        dataset="trial-2026",
        trajectories=10000,
        epsilon=1,
        delta=1e-6,
        unit="trajectory",
        neighbours="replace-one",
        discount=0.99,
        rewards=(0, 1),
        states=np.int64(4),
        weights="uniform",
        mechanism="dp-lsw",
        calibration="nissim",
        noise="isotropic",
        columns={"trajectory": "stay_id"},
    )
    assert built.public_description() == pv.Study.parse(GOOD).public_description()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("epsilon = 1.0", "epsilon = 0", "[privacy] epsilon = 0.* above 0"),
        ("epsilon = 1.0", "epsilon = -1", "[privacy] epsilon = -1.* above 0"),
        ("epsilon = 1.0", "epsilon = nan", "[privacy] epsilon = nan .* above 0"),
        ("epsilon = 1.0", "epsilon = inf", "[privacy] epsilon = inf .* above 0"),
        ("epsilon = 1.0", 'epsilon = "1"', '[privacy] epsilon = "1" .* above 0'),
        ("epsilon = 1.0", "epsilon = true", "[privacy] epsilon = True .* above 0"),
        ("epsilon = 1.0", "epsilon = [1]", "[privacy] epsilon = .1. .* above 0"),
        ("epsilon = 1.0", "", "[privacy] epsilon is missing"),
        ("epsilon = 1.0", "epsilom = 1", "[privacy] epsilom is not a key .* epsilon"),
        ("delta = 1e-6", "delta = 0", "[privacy] delta = 0.* between 0 and 1"),
        ("delta = 1e-6", "delta = 1", "[privacy] delta = 1.* between 0 and 1"),
        ('unit = "trajectory"', "", '[privacy] unit is missing; it must be "trajectory"'),
        ('unit = "trajectory"', 'unit = "patient"', '[privacy] unit = "patient" is not allowed'),
        ("discount = 0.99", "discount = 0", "[values] discount = 0.* above 0 and at most 1"),
        ("discount = 0.99", "discount = 1.01", "[values] discount = 1.01 .* at most 1"),
        ("discount = 0.99", "discount = 1", "[values] discount = 1 needs the key returns"),
        ("[0.0, 1.0]", "[1.0, 0.0]", "[values] rewards = .* the lower bound must come first"),
        ("[0.0, 1.0]", "[1.0]", "[values] rewards .* two finite numbers"),
        ("[0.0, 1.0]", "[0, nan]", "[values] rewards .* two finite numbers"),
        ("[0.0, 1.0]", "[0, 1]\nreturns = [1, 0]", "[values] returns .* the lower bound"),
        ("[0.0, 1.0]", "[0, 1]\nreturns = [1, 1]", "[values] returns .* the lower bound"),
        ("[0.0, 1.0]", "[0, 0]", "[values] returns range over .* wide"),
        ("[0.0, 1.0]", "[-1e300, 1e300]", "[values] returns range over"),
        ("[0.0, 1.0]", "[0, 1]\nunvisited = -1", "[values] unvisited = -1.* inside"),
        ("count = 4", "count = 0", "[states] count = 0 .* from 1"),
        ("count = 4", "count = 4.0", "[states] count = 4.0 .* whole number"),
        ("count = 4", "", "[states] give exactly one of"),
        ("count = 4", 'count = 4\nlabels = ["a"]', "[states] give exactly one of"),
        ("count = 4", 'labels = ["a", "b", "a"]', '[states] the label "a" appears 2 times'),
        ("count = 4", "labels = []", "[states] labels must be a list of at least one"),
        ("count = 4", 'labels = ["a", " "]', "[states] labels must be .* none empty"),
        ("count = 4", 'file = "nowhere.csv"', "[states] file .* does not exist"),
        ('kind = "tabular"', 'kind = "aggregate"', "[features] .* needs the key size"),
        ('kind = "tabular"', 'kind = "aggregate"\nsize = 0', "[features] size = 0 .* at least 1"),
        ('kind = "tabular"', 'kind = "aggregate"\nsize = 9', "[features] size = 9: .* only 4"),
        ('kind = "tabular"', 'kind = "tabular"\nsize = 2', "[features] .* does not use .* size"),
        ('kind = "tabular"', 'kind = "matrix"', "[features] .* needs the key file"),
        ('kind = "uniform"', "values = [1, 2, -1, 1]", "[weights] .* state .2. is -1.0; weights"),
        ('kind = "uniform"', "values = [1, 2, nan, 1]", "[weights] values"),
        ('kind = "uniform"', "values = [1, 2]", "[weights] values has 2 numbers for 4 states"),
        ('kind = "uniform"', "values = [0, 0, 0, 0]", "[weights] every weight is 0"),
        ('kind = "uniform"', 'kind = "uniform"\nvalues = [1]', "[weights] give exactly one"),
        ('name = "dp-lsw"', 'name = "lsw"', '[mechanism] name = "lsw" is not allowed'),
        ('name = "dp-lsw"', 'name = "dp-lsw"\nridge = 3', "[mechanism] ridge applies to dp-lsl"),
        ('name = "dp-lsw"', 'name = "dp-lsl"\nridge = 0', "[mechanism] ridge = 0.* above 0"),
        (
            'name = "dp-lsw"',
            'name = "dp-lsl"\nridge = 3\nridge_scale = 3',
            "[mechanism] ridge_scale applies",
        ),
        (
            'name = "dp-lsw"\ncalibration = "nissim"\nnoise = "isotropic"',
            'name = "dp-lsl"\nnoise = "whitened"',
            '[mechanism] noise = "whitened" is for dp-lsw only',
        ),
        ('noise = "isotropic"', "beta = 0.1", "[mechanism] beta applies to calibration"),
        ('trajectory = "stay_id"', 'trajectory = "step"', "[data] two keys name the same column"),
        ("trajectories = 10000", "trajectories = 0", "[study] trajectories = 0 .* from 1"),
        ("[states]", "[stats]", "[stats] is not a section of a study; did you mean states?"),
        ("[states]\ncount = 4", "", "[states] is missing"),
        ("[privacy]", "[privacy", "not valid TOML"),
    ],
)
def test_each_mistake_gets_one_clear_line(old, new, message):
    pattern = (
        message.replace("[", r"\[").replace("?", r"\?") if message.startswith("[") else message
    )
    with pytest.raises(pv.StudyError, match=pattern) as caught:
        pv.Study.parse(changed(old, new))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"privacy": {"unit": "person"}}, "needs the key max_trajectories_per_person"),
        ({"privacy": {"max_trajectories_per_person": 3}}, 'applies to unit = "person" only'),
        (
            {"privacy": {"unit": "person", "max_trajectories_per_person": 0}},
            "max_trajectories_per_person = 0 is not allowed",
        ),
        ({"privacy": {"max_states_per_trajectory": 0}}, "max_states_per_trajectory = 0"),
        ({"report": {"level": 0.9}}, r"\[report\] level is of intervals"),
        ({"report": {"level": 1.0}}, "level = 1.0 is not allowed"),
        ({"mechanism": {"shrinkage": True}}, "shrinkage applies to dp-ssp only"),
        ({"mechanism": {"name": "dp-ssp"}}, "calibrated exactly"),
        (
            {"mechanism": {"name": "dp-ssp", "calibration": "exact", "beta": 0.1}},
            "beta applies to dp-lsl and dp-lsw only",
        ),
        (
            {"mechanism": {"name": "dp-ssp", "calibration": "exact", "noise": "whitened"}},
            "noise applies to",
        ),
        (
            {"mechanism": {"name": "dp-ssp", "calibration": "exact", "shrinkage": "yes"}},
            'shrinkage = "yes" is not allowed',
        ),
        ({"data": {"sorted": 1}}, "sorted = 1 is not allowed"),
    ],
)
def test_keys_that_do_not_apply_are_refused_never_ignored(sections, message):
    with pytest.raises(pv.StudyError, match=message):
        study(**sections)


def test_what_one_person_can_change():
    by_person = {"unit": "person", "max_trajectories_per_person": 3, "max_states_per_trajectory": 4}
    described = study(100, privacy=by_person)
    assert (described.trajectories_per_person, described.states_per_trajectory) == (3, 4)
    assert described.limits.touched == 24
    assert study(100, privacy={**by_person, "neighbours": "add-remove"}).limits.touched == 12
    assert study(5, privacy=by_person).limits.touched == 5
    plain = study(7)
    assert (plain.trajectories_per_person, plain.states_per_trajectory) == (1, 7)
    assert study(7, privacy={"max_states_per_trajectory": 99}).states_per_trajectory == 7


def _change(section, key):
    setattr(section, key, 9.0)


@pytest.mark.parametrize("attempt", [_change, delattr])
@pytest.mark.parametrize(("section", "key"), [("privacy", "epsilon"), (None, "privacy")])
def test_a_study_cannot_be_changed(attempt, section, key):
    described = study(3)
    with pytest.raises(pv.StudyError, match="frozen; make another one") as caught:
        attempt(getattr(described, section) if section else described, key)
    assert f"{key} cannot be changed" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "http" not in str(caught.value)
    assert described == study(3)


# The mechanism: a section of its own for each


KEYS = {
    "dp-ssp": {
        *("name", "calibration", "ridge", "ridge_scale", "shrinkage", "stages", "stage_shares"),
    },
    "dp-lsw": {"name", "calibration", "noise", "beta", "pseudo_count"},
    "dp-lsl": {"name", "calibration", "noise", "beta", "ridge", "ridge_scale"},
}


@pytest.mark.parametrize("name", KEYS)
def test_a_mechanism_has_its_own_keys_and_answers_for_the_others(name):
    chosen = Mechanism(name=name)
    assert set(type(chosen).model_fields) == KEYS[name]
    every = set().union(*KEYS.values())
    assert set(pv.Study.keys_of("mechanism")) == every
    for key in every - KEYS[name]:
        with pytest.raises(pv.StudyError, match=f'^{key} applies to .* only, and name = "{name}"'):
            Mechanism(name=name, **{key: getattr(chosen, key)})


def test_a_mechanism_is_chosen_by_its_name_wherever_it_is_written():
    plain = study(3).model_copy(update={"mechanism": {}})
    assert plain.mechanism == Mechanism() == Mechanism(name="dp-ssp")
    for name in KEYS:
        section = Mechanism(name=name)
        for written in (section, {"name": name}):
            changed = plain.model_copy(update={"mechanism": written})
            assert type(changed.mechanism) is type(section)
            assert changed.mechanism == section
    with pytest.raises(pv.StudyError, match=r"^name = 3 is not allowed; it must be \"dp-ssp\""):
        Mechanism(name=3)
    with pytest.raises(pv.StudyError, match=r"^\[mechanism\] must be a section of the study"):
        plain.model_copy(update={"mechanism": "dp-ssp"})


def test_a_shape_of_noise_is_refused_where_there_is_none_to_choose():
    """It used to be accepted, and ignored."""
    with pytest.raises(pv.StudyError, match="noise applies to dp-lsl and dp-lsw only"):
        Mechanism(name="dp-ssp", noise="isotropic")


@pytest.mark.parametrize(
    ("mechanism", "stated"),
    [
        ({}, {"calibration": "exact", "shrinkage": True}),
        ({"ridge": 5}, {"calibration": "exact", "ridge": 5.0, "shrinkage": True}),
        (
            {"name": "dp-lsw"},
            {"calibration": "exact", "noise": "whitened", "beta": "auto", "pseudo_count": 0.0},
        ),
        (
            {"name": "dp-lsw", "calibration": "nissim"},
            {"calibration": "nissim", "noise": "whitened"},
        ),
        (
            {"name": "dp-lsl", "calibration": "appendix", "ridge": 5},
            {"calibration": "appendix", "noise": "isotropic", "ridge": 5.0},
        ),
        (
            {"name": "dp-lsl", "calibration": "appendix"},
            {"calibration": "appendix", "noise": "isotropic", "ridge": "sqrt", "ridge_scale": 100},
        ),
    ],
)
def test_a_release_states_the_keys_in_force_in_the_order_of_the_file(mechanism, stated):
    described = study(3).model_copy(update={"mechanism": mechanism})
    found = described.public_description()["mechanism"]
    assert list(found.items()) == [("name", mechanism.get("name", "dp-ssp")), *stated.items()]
    assert described.model_copy(update={"mechanism": found}) == described


def test_a_section_that_is_none_is_told_in_one_line():
    with pytest.raises(pv.StudyError, match=r"^\[features\] must be a section of the study, not 3"):
        pv.Study.parse("features = 3\n" + GOOD.replace('[features]\nkind = "tabular"\n', ""))


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


# Side files


def test_side_files_are_found_beside_the_study_and_hashed(tmp_path, monkeypatch):
    (tmp_path / "states.csv").write_text("state\nhome\nward\nicu\n")
    (tmp_path / "groups.csv").write_text("raw,state\nbed 1,ward\nbed 2,ward\nhome,home\nicu,icu\n")
    (tmp_path / "weights.csv").write_text("icu,3\nhome,1\nward,2\n")
    (tmp_path / "start.csv").write_text("state,probability\nhome,0.25\nward,0.75\n")
    (tmp_path / "phi.csv").write_text("state,a,b\nward,0,1\nhome,1,0\nicu,1,1\n")
    (tmp_path / "study.toml").write_text(
        GOOD.replace("count = 4", 'file = "states.csv"\ngroups = "groups.csv"')
        .replace('kind = "uniform"', 'file = "weights.csv"')
        .replace("rewards =", 'start = "start.csv"\nrewards =')
        .replace('kind = "tabular"', 'kind = "matrix"\nfile = "phi.csv"')
    )
    monkeypatch.chdir("/")
    described = pv.Study.load(tmp_path / "study.toml")
    assert described.state_labels == ("home", "ward", "icu")
    assert described.raw_labels == {"bed 1": 1, "bed 2": 1, "home": 0, "icu": 2}
    assert described.state_weights.tolist() == [1, 2, 3]
    assert described.start_distribution.tolist() == [0.25, 0.75, 0]
    assert described.feature_matrix.tolist() == [[1, 0], [0, 1], [1, 1]]
    assert len(described.side_files) == 5
    assert all(len(digest) == 64 for digest in described.side_files.values())


def test_a_changed_study_finds_its_side_files_where_they_were(tmp_path, monkeypatch):
    (tmp_path / "weights.csv").write_text("0,1\n1,2\n2,3\n3,4\n")
    (tmp_path / "study.toml").write_text(GOOD.replace('kind = "uniform"', 'file = "weights.csv"'))
    described = pv.Study.load(tmp_path / "study.toml")
    monkeypatch.chdir("/")
    again = described.model_copy(update={"mechanism": {"name": "dp-lsw"}})
    assert again.state_weights.tolist() == [1, 2, 3, 4]
    assert again.side_files == described.side_files
    with pytest.raises(pv.StudyError, match=r"\[folder\] is not a section of a study"):
        pv.Study.parse("[folder]\n" + GOOD, base=tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("0,1\n1,1\n2,x\n", "not a number"),
        ("0,1\n1,1\n", "leaves out 1 of 3 states"),
        ("0,1\n1,1\n2,1\n9,1\n", '"9", which is not a state'),
        ("0,1\n1,1\n1,1\n2,1\n", "twice"),
        ("0\n1\n2\n", "needed"),
        ("", "empty"),
        ("0,1\n1,1\n2,-1\n", "at least 0"),
        ("0,1\n1,1\n2,inf\n", "at least 0"),
    ],
)
def test_bad_weights_files(tmp_path, monkeypatch, content, message):
    (tmp_path / "w.csv").write_text(content)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(pv.StudyError, match=message):
        study(3, weights={"file": "w.csv"})


@pytest.mark.parametrize(
    ("start", "message"),
    [({"0": 0.5}, "sums to 0.5"), ({"0": 1.5, "1": -0.5}, "negative"), ({"7": 1.0}, "not a state")],
)
def test_bad_start_distributions(start, message):
    with pytest.raises(pv.StudyError, match=message):
        study(3, values={"start": start})


def test_an_error_shows_a_list_as_a_study_has_it():
    with pytest.raises(pv.StudyError, match=r'stages = \["visit"\] is not allowed'):
        study(3, mechanism={"name": "dp-ssp", "calibration": "exact", "stages": ["visit"]})


@pytest.mark.parametrize(
    ("visits", "mechanism", "message"),
    [
        ({"0": 0.5, "1": 0.1, "2": 1.5}, {"calibration": "exact"}, "holds 1.5, .*is 0.5"),
        ({"0": 0.5}, {"calibration": "exact"}, "leaves out 2 of 3"),
    ],
)
def test_bad_priors_of_visits(visits, mechanism, message):
    with pytest.raises(pv.StudyError, match=message):
        study(states={"count": 3, "visits": visits}, mechanism=mechanism)


def test_bad_groups():
    with pytest.raises(pv.StudyError, match='maps "x" to "9"'):
        study(states={"count": 3, "groups": {"x": "9"}})


@pytest.mark.parametrize("ending", ["npy", "npz", "csv", "parquet"])
def test_feature_matrices_from_every_kind_of_file(tmp_path, monkeypatch, ending):
    import pyarrow as pa
    import pyarrow.parquet as pq

    phi = np.array([[1.0, 0.5], [0.0, 2.0], [3.0, 0.0]])
    path = tmp_path / f"phi.{ending}"
    if ending == "npy":
        np.save(path, phi)
    elif ending == "npz":
        sp.save_npz(path, sp.csr_array(phi))
    elif ending == "csv":
        path.write_text("2,3.0,0.0\n0,1.0,0.5\n1,0.0,2.0\n")
    else:
        pq.write_table(pa.table({"state": [0, 1, 2], "a": phi[:, 0], "b": phi[:, 1]}), path)
    monkeypatch.chdir(tmp_path)
    found = study(3, features={"kind": "matrix", "file": path.name}).feature_matrix
    dense = found if isinstance(found, np.ndarray) else found.toarray()
    assert dense.tolist() == phi.tolist()


def test_no_pickle_is_ever_loaded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("evil.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(pv.StudyError, match=r"cannot be read as an array written by numpy\.save"):
        study(3, features={"kind": "matrix", "file": "evil.npy"})


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.ones((2, 1)), "shape"),
        (np.ones(3), "shape"),
        (np.ones((3, 0)), "shape"),
        (np.full((3, 1), np.nan), "NaN"),
        (sp.csr_array(np.full((3, 1), np.inf)), "NaN"),
    ],
)
def test_bad_matrices(matrix, message):
    with pytest.raises(pv.StudyError, match=message):
        study(3, features={"kind": "matrix", "matrix": matrix})


# Features


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize(
    ("phi", "weights"),
    [
        ([[1.0, 1.0], [1.0, 1.0], [1.0, 1.0]], [1.0, 1.0, 1.0]),  # two equal columns
        ([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]], [1.0, 0.0, 1.0]),  # weight 0 where it is needed
        ([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]], [1.0, 1.0, 1.0]),  # an empty column
        ([[1.0, 2.0, 0.0, 1.0], [0.0, 1.0, 1.0, 0.0], [3.0, 1.0, 1.0, 1.0]], [1.0, 1.0, 1.0]),
    ],
)
def test_designs_without_full_column_rank_are_refused(storage, phi, weights):
    described = study(
        3,
        features={"kind": "matrix", "matrix": storage(np.array(phi))},
        weights={"values": weights},
    )
    with pytest.raises(pv.StudyError, match="does not have full column rank"):
        design(described)


def test_a_sparse_matrix_of_overlapping_features_is_made_dense_up_to_a_size(monkeypatch):
    phi = sp.csr_array(np.array([[1.0, 1.0], [0.0, 1.0], [1.0, 0.0]]))
    described = study(3, features={"kind": "matrix", "matrix": phi})
    assert isinstance(design(described).phi, np.ndarray)
    monkeypatch.setattr("privalue.study._features.DENSE_ENTRIES", 5)
    with pytest.raises(pv.StudyError, match=r"3 x 2: .* dense, and may have at most 5 entries"):
        design(described)
    apart = sp.csr_array(np.array([[1.0, 0.0], [0.0, 2.0], [1.0, 0.0]]))
    assert sp.issparse(design(study(3, features={"kind": "matrix", "matrix": apart})).phi)


def test_dp_lsl_does_not_need_full_rank():
    built = design(
        study(
            3,
            features={"kind": "matrix", "matrix": np.ones((3, 2))},
            mechanism={"name": "dp-lsl"},
        )
    )
    assert not built.full_rank


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("kind", ["general", "one entry a row"])
def test_norms_are_rounded_towards_more_noise(storage, kind):
    generator = np.random.default_rng(1)
    for _ in range(30):
        n, d = generator.integers(5, 30), generator.integers(1, 5)
        phi = generator.normal(size=(n, d))
        if kind == "one entry a row":
            phi *= np.arange(d) == (np.arange(n) % d)[:, None]
        weights = generator.random(n) + 0.01
        built = design(
            study(
                int(n),
                features={"kind": "matrix", "matrix": storage(phi)},
                weights={"values": weights.tolist()},
            )
        )
        assert built.one_feature_per_state == (kind != "general" or d == 1)
        largest = np.linalg.norm(phi, 2)
        smallest = np.linalg.svd(np.sqrt(weights)[:, None] * phi, compute_uv=False)[-1]
        assert largest * (1 - 1e-15) <= built.norm <= largest * (1 + 1e-10)
        assert 1 / smallest * (1 - 1e-15) <= built.pseudo_inverse_norm <= 1 / smallest * (1 + 1e-10)


def test_aggregation_ties_adjacent_states():
    phi = design(study(5, features={"kind": "aggregate", "size": 2})).phi.toarray()
    assert phi.tolist() == [[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 1, 0], [0, 0, 1]]


# The template


def test_the_commented_study_file_is_valid_and_complete(tmp_path):
    (tmp_path / "s.toml").write_text(study_template())
    described = pv.Study.load(tmp_path / "s.toml")
    assert described.study.name == "my-study"
    text = study_template()
    for section in STARTING_POINT:
        for key in pv.Study.keys_of(section):
            built = (section, key) not in {
                ("features", "matrix"),
                ("weights", "values"),
            }
            assert (f"{key} = " in text) or not built


def test_every_example_in_the_template_parses_when_uncommented():
    import tomllib

    for line in study_template().splitlines():
        if line.startswith("# ") and " = " in line:
            tomllib.loads(line[2:])


# Back from a description


def described(**sections):
    given = {
        "study": {"name": "back", "trajectories": 3000},
        "privacy": {"epsilon": 1.0, "delta": 1e-6, "unit": "trajectory"},
        "values": {"discount": 0.9, "rewards": (0.0, 1.0), "returns": (0.0, 1.0)},
        "states": {"count": 3},
    }
    return in_sections(**{**given, **sections})


@pytest.mark.parametrize(
    "sections",
    [
        {},
        {"mechanism": {"name": "dp-lsw", "noise": "isotropic"}},
        {"mechanism": {"name": "dp-lsl", "ridge": 7.0}},
        {"states": {"labels": ["a", "b", "c"], "groups": {"x": "a", "y": "b"}}},
        {"features": {"kind": "aggregate", "size": 2}, "weights": {"values": [1.0, 2.0, 0.0]}},
        {"data": {"person": "patient", "invalid": "drop-unit", "step_type": "date"}},
        {
            "privacy": {"epsilon": 1.0, "delta": 1e-6, "unit": "person"},
            "data": {"person": "patient"},
        },
    ],
)
def test_a_study_is_rebuilt_from_its_description(sections):
    study = described(**sections)
    again = pv.Study.from_description(study.public_description())
    assert again == study
    assert again.trajectories_per_person == study.trajectories_per_person
    assert again.size_is_public == study.size_is_public


def test_a_start_distribution_is_given_anew_or_left_out():
    values = {"discount": 0.9, "rewards": (0.0, 1.0), "start": {"0": 0.5, "1": 0.5}}
    description = described(values=values).public_description()
    assert pv.Study.from_description(description).start_distribution is None
    again = pv.Study.from_description(description, start={"2": 1.0})
    assert again.start_distribution.tolist() == [0.0, 0.0, 1.0]


def test_a_description_that_names_a_file_needs_that_section(tmp_path, monkeypatch):
    (tmp_path / "weights.csv").write_text("0,1\n1,2\n2,3\n")
    monkeypatch.chdir(tmp_path)  # the file is there, and may be another one by now
    description = described(weights={"file": "weights.csv"}).public_description()
    with pytest.raises(pv.StudyError, match=r"\[weights\] file by its hash.*section weights"):
        pv.Study.from_description(description)
    again = pv.Study.from_description(description, weights={"values": [1.0, 2.0, 3.0]})
    assert again.state_weights.tolist() == [1.0, 2.0, 3.0]


def shrinking(features, **mechanism):
    return in_sections(
        privacy={"epsilon": 1.0, "delta": 1e-6, "unit": "trajectory"},
        values={"discount": 0.9, "rewards": (0.0, 1.0), "returns": (0.0, 1.0)},
        states={"count": 6},
        features=features,
        mechanism=mechanism,
    )


def test_shrinkage_towards_features_needs_features_and_dp_ssp():
    grouped = {"kind": "aggregate", "size": 2, "shrink": True}
    study = shrinking(grouped)
    assert study.shrink_targets.shape == (6, 2)  # three groups, less what they have in common
    assert study.public_description()["features"]["shrink"] is True
    assert design(study).is_tabular
    with pytest.raises(pv.StudyError, match="shrink = true needs features to shrink towards"):
        shrinking({"shrink": True})
    for name in ("dp-lsw", "dp-lsl"):
        with pytest.raises(pv.StudyError, match="shrink = true needs dp-ssp"):
            shrinking(grouped, name=name)
    with pytest.raises(pv.StudyError, match="shrinkage = false asks for something else"):
        shrinking(grouped, shrinkage=False)
    with pytest.raises(pv.StudyError, match="ridge asks for something else"):
        shrinking(grouped, ridge=3.0)
    with pytest.raises(pv.StudyError, match="1001 features of 6 states is too much"):
        shrinking({"kind": "matrix", "matrix": np.ones((6, 1001)), "shrink": True})
