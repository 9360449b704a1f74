"""``inspect`` equals the literal twins: counts exactly, theta to 1e-6, psi and sigma to 1e-9."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

import privalue as pv
from oracles import literal
from oracles.refusals import refused
from oracles.repeats import cross
from oracles.studies import make_study
from privalue.study import design


def random_case(seed, mechanism):
    """Return a random chain with random features, weights, epsilon, delta and return bounds."""
    generator = np.random.default_rng(seed)
    n = int(generator.integers(2, 12))
    stay = generator.uniform(0.1, 0.8)
    data = []
    for _ in range(int(generator.integers(1, 120))):
        s, episode = int(generator.integers(n)), []
        while s < n - 1 and len(episode) < 60:
            episode.append((s, float(generator.normal(0, 0.3))))
            s += generator.random() > stay
        data.append([*episode, (s, 1.0)])
    d = int(generator.integers(1, n + 1))
    features = [
        {"kind": "tabular"},
        {"kind": "aggregate", "size": int(generator.integers(1, n + 1))},
        {"kind": "matrix", "matrix": generator.normal(size=(n, d))},
        {"kind": "matrix", "matrix": sp.csr_array(generator.normal(size=(n, d)))},
    ][seed % 4]
    weights = (generator.random(n) + 0.05).tolist()
    returns = [None, (0.0, 1.0), (-1.0, 2.0), (-3.0, -0.5)][seed // 4 % 4]
    epsilon = float(10 ** generator.uniform(-2, 0.6))
    delta = float(10 ** generator.uniform(-9, -0.5))
    settings = dict(mechanism)
    if mechanism["name"] == "dp-lsl":
        settings["ridge"] = float(100 * 10 ** generator.uniform(0, 3))
    study = make_study(
        n,
        discount=float(generator.uniform(0.3, 0.99)),
        rewards=(-1.0, 1.0),
        returns=returns,
        privacy={"epsilon": epsilon, "delta": delta},
        features=features,
        weights={"values": weights},
        mechanism=settings,
    )
    return study, data


def twin(study, data):
    """Return every field of ``inspect``, computed from the definitions."""
    returns = study.values.return_bounds
    m, counts, sums = literal.first_visit(
        data, study.values.discount, study.values.rewards, returns, study.names.count
    )
    means = literal.mean_returns(counts, sums, returns, study.values.unvisited_value)
    phi = design(study).phi
    phi = phi if isinstance(phi, np.ndarray) else phi.toarray()
    weights = study.state_weights.tolist()
    privacy, mechanism = study.privacy, study.mechanism
    lemma = getattr(literal, mechanism.calibration)
    alpha, beta = lemma(privacy.epsilon, privacy.delta, phi.shape[1])
    if mechanism.name == "dp-lsw":
        theta, psi, sigma = literal.dp_lsw(phi, weights, counts, means, returns, alpha, beta)
    else:
        theta, psi, sigma = literal.dp_lsl(
            phi, weights, counts, means, returns, m, mechanism.ridge, alpha, beta
        )
    return {
        "trajectories": m,
        "counts": counts,
        "mean_returns": means,
        "theta": theta,
        "values": phi @ theta,
        "alpha": alpha,
        "beta": beta,
        "psi": psi,
        "sigma": sigma,
    }


def assert_equal(result, expected):
    assert result["trajectories"] == expected["trajectories"]
    assert list(result["counts"]) == expected["counts"]
    for key in ("mean_returns", "theta", "values"):
        assert result[key] == pytest.approx(expected[key], abs=1e-6)
    for key in ("alpha", "beta", "psi", "sigma"):
        assert result[key] == pytest.approx(expected[key], rel=1e-9)
        assert result[key] >= expected[key] * (1 - 1e-14) or key == "beta"


MECHANISMS = list(itertools.product(["dp-lsw", "dp-lsl"], ["nissim", "appendix"]))


@pytest.mark.parametrize(("seed", "mechanism"), cross(range(32), MECHANISMS))
def test_inspect_equals_the_literal_twins(seed, mechanism):
    name, calibration = mechanism
    study, data = random_case(seed, {"name": name, "calibration": calibration})
    assert_equal(pv.inspect(study, data).private_columns(), twin(study, data))


@pytest.mark.parametrize("seed", range(8))
def test_a_planted_sqrt_of_the_weights_in_place_is_caught(seed):
    """The mistake of a public implementation: later lines used sqrt(w) for w."""
    study, data = random_case(seed, {"name": "dp-lsw", "calibration": "nissim"})
    result = pv.inspect(study, data).private_columns()
    wrong = np.sqrt(study.state_weights)
    expected = twin(study, data)
    mistaken = literal.psi_lsw(expected["counts"], wrong.tolist(), expected["beta"])
    assert abs(result["psi"] / mistaken - 1) > 1e-9
    assert not study.state_weights.flags.writeable


def test_a_declared_size_that_is_wrong_is_refused():
    wrong = make_study(2, study={"trajectories": 3})
    with refused("trajectories-contradicted"):
        pv.inspect(wrong, [[(0, 1.0)], [(1, 1.0)]])
