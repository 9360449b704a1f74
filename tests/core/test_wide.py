"""Studies with many states and features: certified spectra, values as columns."""

import json

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import privalue as pv
from oracles.studies import release_anyway, study
from privalue.artefact._release import Release
from privalue.artefact._values import StateValue, StateValues
from privalue.core import _design as features
from privalue.core import _sensitivity_lsl as ridge_sensitivity
from privalue.core._design import Design, cholesky, spectrum
from privalue.estimate import _fits as noisy_fits
from privalue.estimate._quadratics import row_quadratics
from privalue.study._terms import refuse_early


def overlapping(states=300, dimension=40, seed=0, signed=False):
    """Three features of each state, and every feature somewhere."""
    rng = np.random.default_rng(seed)
    columns = rng.integers(0, dimension, (states, 3))
    columns[:dimension, 0] = np.arange(dimension)
    entries = rng.normal(size=columns.size) if signed else rng.uniform(0.2, 1, columns.size)
    rows = np.repeat(np.arange(states), 3)
    return sp.csr_array((entries, (rows, columns.ravel())), shape=(states, dimension))


@pytest.fixture
def few(monkeypatch):
    """Few dimensions count as many."""
    monkeypatch.setattr(features, "MOST_EIGENVALUES", 10)
    monkeypatch.setattr("privalue.study._features.DENSE_ENTRIES", 0)
    monkeypatch.setattr(noisy_fits, "MOST_DIMENSIONS", 10)
    monkeypatch.setattr(ridge_sensitivity, "MOST_EIGENVALUES", 10)


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_singular_values_are_between_certified_bounds(few, seed, signed):
    matrix = overlapping(seed=seed, signed=signed)
    exact = np.linalg.svd(matrix.toarray(), compute_uv=False)
    found = spectrum(matrix, False)
    assert 0.94 * exact[-1] <= found.low <= exact[-1]
    assert exact[0] <= found.high <= 1.06 * exact[0]


def test_a_guess_that_nobody_certifies_would_be_found_out(few, monkeypatch):
    """The planted mistake: the first guess counts, though the guess is bad."""
    matrix = overlapping()
    exact = np.linalg.svd(matrix.toarray(), compute_uv=False)
    guess = features._largest_eigenvalue
    monkeypatch.setattr(features, "_largest_eigenvalue", lambda *a: 0.3 * guess(*a))
    careful = spectrum(matrix, False)
    assert careful.low <= exact[-1]
    assert careful.high >= exact[0]
    monkeypatch.setattr(
        features,
        "cholesky",
        lambda matrix, shift=0.0: cholesky(matrix, abs(shift)) if shift <= 0 else matrix,
    )
    careless = spectrum(matrix, False)
    assert careless.low > exact[-1]
    assert careless.high < exact[0]


def test_a_matrix_without_full_rank_has_no_lower_bound(few):
    matrix = overlapping().toarray()
    matrix[:, 7] = matrix[:, 8] + matrix[:, 9]
    built = Design(phi=sp.csr_array(matrix), weights=np.ones(len(matrix)))
    assert built.weighted.low < 1e-6
    matrix[:, 7] = 0.0
    built = Design(phi=sp.csr_array(matrix), weights=np.ones(len(matrix)))
    assert built.weighted.low == 0.0
    with pytest.raises(pv.StudyError, match="full column rank"):
        _ = built.root


def test_the_norm_is_that_of_phi_whatever_the_weights(few):
    phi, rng = overlapping(), np.random.default_rng(1)
    exact = np.linalg.norm(phi.toarray(), 2)
    for weights in (np.ones(phi.shape[0]), rng.uniform(0.1, 5.0, phi.shape[0])):
        assert exact <= Design(phi=phi, weights=weights).norm <= 1.06 * exact


def people(states, count=4000, seed=3):
    rng = np.random.default_rng(seed)
    return [
        [(int(s), float(rng.random())) for s in rng.integers(0, states, 5)] for _ in range(count)
    ]


@pytest.mark.parametrize("mechanism", ["dp-lsw", "dp-lsl", "dp-ssp"])
def test_many_features_give_what_few_give(mechanism, monkeypatch):
    """Only bounds and intervals may be wider; the estimate before noise is the same."""
    described = study(
        300,
        features={"kind": "matrix", "matrix": overlapping()},
        mechanism={"name": mechanism, "calibration": "exact"},
        privacy={"max_states_per_trajectory": 5},
    )
    monkeypatch.setattr("privalue.study._features.DENSE_ENTRIES", 0)
    data = people(300)
    few_of_them = pv.inspect(described, data)
    monkeypatch.setattr(features, "MOST_EIGENVALUES", 10)
    monkeypatch.setattr(noisy_fits, "MOST_DIMENSIONS", 10)
    monkeypatch.setattr(ridge_sensitivity, "MOST_EIGENVALUES", 10)
    many = pv.inspect(described, data)
    for name in ("theta", "values"):
        a, b = few_of_them.private_fields()[name], many.private_fields()[name]
        assert a == pytest.approx(b, rel=1e-9, abs=1e-9)
    # Of betas that cost at most 5% more the rule takes the largest: another bound, another beta.
    least = 0.95 if mechanism == "dp-lsl" else 1 - 1e-9
    assert many.private_fields()["sigma"] >= few_of_them.private_fields()["sigma"] * least
    released = release_anyway(described, data)
    if mechanism == "dp-ssp":
        assert all(value.low <= value.value <= value.high for value in released.values)


def test_wider_intervals_hold_the_narrower_ones(monkeypatch):
    built = Design(phi=overlapping(), weights=np.random.default_rng(5).uniform(0.5, 2, 300))
    variances = np.random.default_rng(6).uniform(0, 3, 300)
    narrow = noisy_fits._deviations(built, variances)(built.phi)
    monkeypatch.setattr(noisy_fits, "MOST_DIMENSIONS", 10)
    wide = noisy_fits._deviations(built, variances)(built.phi)
    assert (wide >= narrow * (1 - 1e-9)).all()
    equal = noisy_fits._deviations(built, 1 / built.weights)(built.phi)
    monkeypatch.setattr(noisy_fits, "MOST_DIMENSIONS", 10**6)
    assert equal == pytest.approx(noisy_fits._deviations(built, 1 / built.weights)(built.phi))


@given(st.integers(0, 10**6))
def test_quadratics_of_sparse_rows(seed):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(9, 9))
    matrix = root @ root.T
    rows = sp.random_array((13, 9), density=0.3, rng=rng, format="csr")
    literally = [float(row @ matrix @ row) for row in rows.toarray()]
    assert row_quadratics(rows, np.triu(matrix)) == pytest.approx(literally)
    assert row_quadratics(rows.toarray(), matrix) == pytest.approx(literally)


def test_a_fit_that_would_take_hours_is_refused_before_any_data():
    described = study(3, mechanism={"name": "dp-ssp", "calibration": "exact", "ridge": 5.0})
    wide = Design(phi=overlapping(5000, 40), weights=np.ones(5000))
    refuse_early(described, wide)
    wider = Design(
        phi=sp.csr_array((np.ones(8), (np.arange(8) // 2, np.arange(8))), shape=(10**5, 10**4)),
        weights=np.ones(10**5),
    )
    with pytest.raises(pv.StudyError, match="leave ridge out, or use dp-lsl"):
        refuse_early(described, wider)


# Values as columns


def values(count=5):
    columns = {"value": np.arange(count) / 7, "supported": np.arange(count) % 2 == 0}
    return StateValues(range(count), columns)


def test_values_are_a_sequence_of_states():
    made = values()
    assert len(made) == 5
    assert made[3] == StateValue(state="3", value=3 / 7, supported=False)
    assert made[-1].state == "4"
    assert [entry.value for entry in made] == [entry.value for entry in list(made)]
    assert list(made[1:3]) == [made[1], made[2]]
    assert made == list(made)
    assert made != list(made)[:4]
    assert type(made[0].value) is float
    assert type(made[0].supported) is bool
    assert made.column("low") is None
    assert made.column("value")[2] == 2 / 7
    with pytest.raises(IndexError):
        made[5]


def test_what_is_no_number_for_every_state_is_refused():
    with pytest.raises(ValueError, match="one entry for each"):
        StateValues(["a"], {"value": np.zeros(2)})
    for wrong in (np.nan, np.inf):
        with pytest.raises(ValueError, match="finite"):
            StateValues(["a"], {"value": np.array([wrong])})
    with pytest.raises(ValueError, match="some states only"):
        StateValues.of([StateValue(state="a", value=1), StateValue(state="b", value=1, low=0)])


def test_the_text_is_the_models_own(monkeypatch):
    """Written in parts, whatever the labels hold, it says what the model says."""
    labels = ['"', "},{", '\n  "values": []', "é", "x", "\\"]
    described = study(6, states={"labels": labels})
    released = release_anyway(described, [[(label, 1.0)] for label in described.state_labels] * 30)
    monkeypatch.setattr("privalue.artefact._values._AT_ONCE", 2)
    text = released.to_json()
    assert json.loads(text) == json.loads(released.model_dump_json(exclude_none=True))
    assert Release.parse(text) == released
    assert [entry.state for entry in Release.parse(text).values] == list(described.state_labels)


def test_a_release_without_a_state_is_told_apart():
    described = study(2)
    text = release_anyway(described, [[(0, 1.0)]] * 30).to_json()
    broken = json.loads(text)
    del broken["values"][0]["value"]
    with pytest.raises(pv.DataError, match=r"values\.0\.value"):
        Release.parse(json.dumps(broken))
