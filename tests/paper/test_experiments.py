"""Experiments: algorithms, evidence and claims, each beside a literal twin."""

import numpy as np
import pytest

from oracles import literal
from privalue.paper import EXPERIMENTS, QUICK, claims
from privalue.paper.claims import decide, verdict
from privalue.paper.experiments import Curve, Results
from privalue.paper.methods import (
    DELTA,
    DP_LSW,
    EPSILON,
    Features,
    batch,
    design_of,
    dp_lsl,
    normals,
    outcome,
    plain_lsl,
)


def curve(at, values):
    return Curve(at=np.array(at, dtype=float), values=np.asarray(values))


def phi_of(setting):
    phi = design_of(setting).phi
    return phi if isinstance(phi, np.ndarray) else phi.toarray()


SETTINGS = [
    Features(),
    Features(bound=100.0, aggregation=2),
    Features(aggregation=4, normalised=True),
]


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_dp_lsw_is_algorithm_1_to_the_letter(setting):
    m, run = 150, 4
    counts = batch(m, run, setting.bound).counts.tolist()
    means = batch(m, run, setting.bound).mean_returns(0.0)
    phi = phi_of(setting)
    alpha, beta = literal.nissim(EPSILON, DELTA, phi.shape[1])
    theta, _, sigma = literal.dp_lsw(
        phi, np.ones(40), counts, means, (0, setting.bound), alpha, beta
    )
    result = outcome(DP_LSW, setting, m, run)
    assert result.noiseless == pytest.approx(theta, abs=1e-9)
    noise = sigma * normals(m, run, phi.shape[1])
    assert result.theta - result.noiseless == pytest.approx(noise, rel=1e-6)
    assert result.values == pytest.approx(phi @ result.theta)
    # A planted mistake: appendix A's constants in the place of Lemma 1's are caught.
    wrong = literal.dp_lsw(
        phi, np.ones(40), counts, means, (0, setting.bound), *literal.appendix(0.1, 0.1, len(theta))
    )[2]
    assert np.abs((result.theta - result.noiseless) / noise * sigma / wrong - 1).min() > 0.05


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_dp_lsl_is_algorithm_2_to_the_letter(setting):
    m, run, lam = 150, 5, 37.0
    counts = batch(m, run, setting.bound).counts
    means = batch(m, run, setting.bound).mean_returns(0.0)
    phi = phi_of(setting)
    alpha, beta = literal.nissim(EPSILON, DELTA, phi.shape[1])
    theta, _, sigma = literal.dp_lsl(
        phi, [1.0] * 40, counts.tolist(), means, (0, setting.bound), m, lam, alpha, beta
    )
    result = outcome(dp_lsl(lam), setting, m, run)
    assert result.noiseless == pytest.approx(theta, abs=1e-9)
    noise = sigma * normals(m, run, phi.shape[1])
    assert result.theta - result.noiseless == pytest.approx(noise, rel=1e-6)
    plain = outcome(plain_lsl(lam), setting, m, run)
    assert plain.theta == pytest.approx(theta, abs=1e-9)


# Results and claims


@pytest.fixture(scope="module")
def made_up_tables():
    """Every case of a quick run, with numbers of no meaning in place of what it would compute."""
    generator, tables = np.random.default_rng(4), {}
    for name, experiment in EXPERIMENTS.items():
        cases = list(experiment(QUICK))
        tables[name] = Results(cases, np.exp(generator.standard_normal((QUICK.runs, len(cases)))))
    return tables


def test_every_claim_finds_its_curves_and_its_test(made_up_tables):
    decided = decide(made_up_tables)
    assert len(decided) == 11
    for claim in decided:
        assert claim["verdict"] == verdict([part["holds"] for part in claim["parts"]])
        for part in claim["parts"]:
            assert part["figures"]
            assert "nan" not in part["figures"]


@pytest.mark.parametrize(("ratio", "holds"), [(1.5, True), (0.7, False)])
def test_the_verdict_follows_the_numbers(ratio, holds):
    """Planted: where LSL is ahead, and where errors grow with aggregation, verdicts turn around."""
    generator = np.random.default_rng(3)
    at = [10, 100, 1000, 10_000]
    values = np.exp(0.1 * generator.standard_normal((6, 4))) / np.array(at)
    assert claims.faster([curve(at, values), curve(at, ratio * values)])[0] is holds
    steps = [curve(at, values / ratio**step) for step in range(4)]
    assert claims.aggregation_helps(steps)[0] is holds
