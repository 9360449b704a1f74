"""The public bound tau against theta in exact rational arithmetic."""

from fractions import Fraction

import numpy as np
import pytest

from oracles.limits import make_limits, of_sums
from oracles.reading import statistics
from oracles.studies import make_study
from privalue.core import lsl, lsw
from privalue.core.design import lsl_float_error, lsw_float_error
from privalue.study import design


def solve_exactly(matrix, right):
    """Gauss-Jordan over the rationals."""
    n = len(matrix)
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for i in range(n):
        pivot = next(r for r in range(i, n) if rows[r][i] != 0)
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [entry / rows[i][i] for entry in rows[i]]
        for r in range(n):
            if r != i and rows[r][i] != 0:
                rows[r] = [a - rows[r][i] * b for a, b in zip(rows[r], rows[i], strict=True)]
    return [row[-1] for row in rows]


def exact_theta(phi, weight, target, shift=0):
    """(Phi^T diag(weight) Phi + shift I) theta = Phi^T target, exactly."""
    n, d = phi.shape
    entries = [[Fraction(float(phi[s, i])) for i in range(d)] for s in range(n)]
    gram = [
        [
            sum(weight[s] * entries[s][i] * entries[s][j] for s in range(n))
            + (Fraction(shift) if i == j else 0)
            for j in range(d)
        ]
        for i in range(d)
    ]
    right = [sum(entries[s][i] * target[s] for s in range(n)) for i in range(d)]
    return solve_exactly(gram, right)


def case(seed, storage, condition):
    generator = np.random.default_rng(seed)
    n, d = 9, 4
    phi = generator.normal(size=(n, d))
    phi[:, 1] = phi[:, 0] + condition * phi[:, 1]  # nearly alike
    data = [
        [
            (int(s), float(r))
            for s, r in zip(generator.integers(0, n, 6), generator.random(6), strict=True)
        ]
        for _ in range(40)
    ]
    study = make_study(
        n,
        features={"kind": "matrix", "matrix": storage(phi)},
        weights={"values": (generator.random(n) + 0.1).tolist()},
    )
    return study, phi, data


def distance(theta, exact):
    return (
        float(sum((Fraction(float(t)) - e) ** 2 for t, e in zip(theta, exact, strict=True))) ** 0.5
    )


@pytest.mark.parametrize("condition", [1.0, 1e-2])
@pytest.mark.parametrize("seed", range(4))
def test_theta_is_within_tau_of_the_exact_solution(seed, condition):
    study, phi, data = case(seed, np.asarray, condition)
    result, built = statistics(data, study), design(study)
    low, high = study.values.return_bounds
    weights = [Fraction(float(w)) for w in study.state_weights]
    means = result.mean_returns(0.0)
    exact = exact_theta(
        phi, weights, [w * Fraction(float(f)) for w, f in zip(weights, means, strict=True)]
    )
    largest = max(abs(low), abs(high))
    # Rounding beside the solver's public map, and the map beside the pseudo-inverse.
    tau = lsw_float_error(built, study.limits, whitened=False)
    map_error = 3 * built.solver_error * built.pseudo_inverse_norm
    map_error *= 2 * largest * float(np.sqrt(study.state_weights.sum()))
    assert distance(lsw(means, built), exact) <= tau + map_error
    assert tau < 1e-8 * largest
    for ridge in (1.0, 500.0):
        step = (Fraction(high) - Fraction(low)) / 2**30
        sums = [
            int(n) * Fraction(low) + int(q) * step
            for n, q in zip(result.counts, result.return_steps, strict=True)
        ]
        visits = [w * int(n) for w, n in zip(weights, result.counts, strict=True)]
        right = [w * s for w, s in zip(weights, sums, strict=True)]
        exact = exact_theta(phi, visits, right, shift=Fraction(ridge) / 2)
        tau = lsl_float_error(built, study.limits, ridge, result.trajectories)
        assert distance(lsl(result.counts, result.return_sums, built, ridge), exact) <= tau


def test_the_bound_grows_with_the_condition_number():
    errors = []
    for condition in (1.0, 1e-2, 1e-4, 1e-9):
        study, _, _ = case(0, np.asarray, condition)
        errors.append(lsw_float_error(design(study), make_limits(), whitened=False))
    assert errors == sorted(errors)


def test_the_bound_of_a_dense_ridge_regression_is_that_of_the_theorem():
    """5 p u kappa ||b||/low, p = 8 (N + d) d^{3/2}: with d in its place, sqrt(d) too little."""
    study, _, _ = case(0, np.asarray, 1.0)
    built, ridge, trajectories = design(study), 3.0, 40
    (n, d), rho = built.phi.shape, built.weights
    low = (ridge / 2) ** 0.5
    high = (built.norm**2 * rho.max() * trajectories + ridge / 2) ** 0.5
    target = (trajectories * rho.sum()) ** 0.5
    promised = 5 * 8 * (n + d) * d**1.5 * 2.0**-53 * high / low * target / low
    assert lsl_float_error(built, of_sums(built.states), ridge, trajectories) == pytest.approx(
        promised, rel=1e-12
    )
