"""The paper's statements as functions: formulas, refusals, exact sums, and names that warn."""

import ast
import inspect
import math
from pathlib import Path

import numpy as np
import pytest
import scipy.linalg as sl

import privalue
from oracles import literal
from oracles import theory as slow
from privalue.core import Calibration, Design, nissim, privacy_profile
from privalue.core.sensitivity import TOLERANCE
from privalue.errors import StudyError, UsageError
from privalue.paper import theory
from privalue.study import aggregation

PHI = np.array([[1.0, 0.0], [0.5, 2.0], [0.0, 1.5]])
RHO = np.array([1.0, 0.25, 0.6])
WORLD = [(0.3, {0}), (0.25, {0, 1}), (0.2, {1, 2}), (0.05, {0, 1, 2}), (0.2, set())]
SINGLE, JOINT = slow.visit_probabilities(WORLD, 3)
CALIBRATION = Calibration(name="any", alpha=1.7, beta=0.03)


def setting(**changed):
    given = {
        "design": Design(phi=PHI, weights=RHO),
        "calibration": CALIBRATION,
        "chances": SINGLE,
        "joint": JOINT,
        "trajectories": 12,
        "largest": 2.0,
        "ridge": 20.0,
    }
    return theory.Setting(**(given | changed))


# Names


def public_functions():
    return {
        name: function
        for name, function in inspect.getmembers(theory, inspect.isfunction)
        if function.__module__ == "privalue.paper.theory" and not name.startswith("_")
    }


def test_every_false_statement_says_so_and_every_other_does_not():
    named = [name for name in public_functions() if name.endswith("_as_published")]
    assert len(named) == 9
    for name, function in public_functions().items():
        assert ("FALSE" in function.__doc__) == name.endswith("_as_published"), name


def test_no_false_statement_is_exported_or_used():
    assert not [name for name in dir(privalue) if "published" in name]
    source = Path(theory.__file__).parent
    for path in source.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            used = getattr(node, "id", getattr(node, "attr", ""))
            if used.endswith("_as_published"):
                assert path.name == "theory.py", f"{path}: {used}"
    for name, function in public_functions().items():
        if not name.endswith("_as_published"):
            assert "_as_published" not in inspect.getsource(function), name


# The two lemmas about maxima


@pytest.mark.parametrize("a", [1.0, 1.5, 2.0, 5.0, 40.0])
@pytest.mark.parametrize("b", [1e-3, 0.05, 0.4, 1.0, 1.9, 2.1, 5.0])
def test_the_maximum_of_lsw_against_a_scan_and_the_published_one_is_below_it(a, b):
    x = np.linspace(0, a - 1, 20_001)
    values = np.exp(-b * x) / (a - x) ** 2
    assert theory.largest_lsw_term(a, b) == pytest.approx(values.max(), rel=1e-12, abs=0)
    published = theory.largest_lsw_term_as_published(a, b)
    if b <= 2:  # the third case, b > 2, is not even the value at an end
        assert published == pytest.approx(values.min(), rel=1e-6, abs=0)
    if a > 1:
        assert published < values.max() * (1 - 1e-3) or b > 2


def test_the_third_case_of_the_published_lemma_is_no_value_at_all():
    """e^{1 - a b} at b > 2: neither end, 1/a^2 and e^{-b (a - 1)}, though exact at a = b = 1."""
    a, b = 3.0, 2.5
    published = theory.largest_lsw_term_as_published(a, b)
    assert published == math.exp(1 - a * b)
    assert published < math.exp(-b * (a - 1)) < theory.largest_lsw_term(a, b) == 1 / a**2


@pytest.mark.parametrize("a", [0.0, 0.5, 3.0, 50.0, 100.0])
@pytest.mark.parametrize("c", [1e-4, 0.008, 0.02, 0.3, 2.0, 40.0])
def test_the_maximum_of_lsl_against_a_scan(a, c):
    x = np.linspace(0, 100 - a, 200_001)
    scan = float(np.max(np.exp(-c * x) * (a + x)))
    assert theory.largest_lsl_term(a, c, 100.0) == pytest.approx(scan, rel=1e-5, abs=0)


def test_the_published_maximum_of_lsl_is_below_and_above():
    """Its exponent is 2 b; below: a = 10, b = 0.01; above: a = 0.1, b = 20, where it is a."""
    true = theory.largest_lsl_term(10.0, 0.02, 1000.0)
    assert true == pytest.approx(math.exp(10 * 0.02 - 1) / 0.02)
    assert theory.largest_lsl_term_as_published(10.0, 0.01, 1000.0) == 10.0 < true / 2
    assert theory.largest_lsl_term_as_published(0.1, 20.0, 1000.0) > theory.largest_lsl_term(
        0.1, 40.0, 1000.0
    )


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (theory.largest_lsw_term, (0.5, 1.0)),
        (theory.largest_lsw_term, (2.0, 0.0)),
        (theory.largest_lsw_term, (math.nan, 1.0)),
        (theory.largest_lsw_term_as_published, (2.0, -1.0)),
        (theory.largest_lsl_term, (-1.0, 1.0, 10.0)),
        (theory.largest_lsl_term, (11.0, 1.0, 10.0)),
        (theory.largest_lsl_term, (1.0, math.nan, 10.0)),
        (theory.largest_lsl_term_as_published, (1.0, 0.0, 10.0)),
    ],
)
def test_maxima_outside_their_domain_are_refused(function, arguments):
    with pytest.raises(UsageError, match="must be"):
        function(*arguments)


# Exact over the noise


@pytest.fixture
def trajectories():
    """Twelve trajectories of the world, as {state: first-visit return in [0, 2]}."""
    generator = np.random.default_rng(5)
    drawn = generator.choice(len(WORLD), size=12, p=[chance for chance, _ in WORLD])
    return [{s: 2 * generator.random() for s in WORLD[i][1]} for i in drawn]


def summed_up(trajectories):
    counts = np.array([sum(s in t for t in trajectories) for s in range(3)])
    means = np.array([sum(t.get(s, 0.0) for t in trajectories) for s in range(3)])
    return counts, means / np.maximum(counts, 1)


@pytest.mark.parametrize("noise", ["isotropic", "whitened"])
def test_excess_of_lsw_given_counts(trajectories, noise):
    counts, means = summed_up(trajectories)
    theta, psi, sigma = literal.dp_lsw(
        PHI, RHO, counts.tolist(), means, (0.0, 2.0), CALIBRATION.alpha, CALIBRATION.beta
    )
    root = sigma * np.eye(2)
    if noise == "whitened":
        factor = sl.sqrtm(PHI.T @ np.diag(RHO) @ PHI)
        root = CALIBRATION.alpha * 2.0 * math.sqrt(psi) * np.linalg.inv(factor)
    exact = slow.expected_excess(
        lambda x: slow.objective_lsw(x, PHI, RHO, means), theta, np.asarray(root)
    )
    found = theory.lsw_excess_given_counts(setting(), counts, noise)
    assert found == pytest.approx(exact, rel=TOLERANCE, abs=0)
    other = "isotropic" if noise == "whitened" else "whitened"
    assert theory.lsw_excess_given_counts(setting(), counts, other) != pytest.approx(
        exact, rel=0.1, abs=0
    )


def test_whitened_noise_is_never_worse():
    assert theory.lsw_factor(setting(), "whitened") < theory.lsw_factor(setting(), "isotropic")


def test_excess_of_lsl_given_counts(trajectories):
    counts, means = summed_up(trajectories)
    theta, _, sigma = literal.dp_lsl(
        PHI, RHO, counts.tolist(), means, (0.0, 2.0), 12, 20.0, CALIBRATION.alpha, CALIBRATION.beta
    )
    exact = slow.expected_excess(
        lambda x: slow.objective_lsl(x, PHI, RHO, trajectories, 20.0), theta, sigma * np.eye(2)
    )
    assert theory.lsl_excess_given_counts(setting(), counts) == pytest.approx(
        exact, rel=TOLERANCE, abs=0
    )
    # planted: the ridge term without its half
    assert theory.lsl_excess_given_counts(setting(), counts) != pytest.approx(
        exact + 20.0 * 2 / 24 * sigma**2, rel=1e-3, abs=0
    )


def test_the_papers_identity_for_the_excess_of_lsw_lacks_a_cancellation(trajectories):
    """[BGP16] ap:lem:totalexpw, proof: "- F^T Gamma Phi eta - eta^T Phi^T Gamma Phi theta".

    The terms that are linear in eta cancel; as printed they add up to -2 theta^T (...) eta, whose
    mean is 0 all the same.
    """
    _, means = summed_up(trajectories)
    gram = PHI.T @ np.diag(RHO) @ PHI
    theta, eta = literal.lsw(PHI, RHO, means), np.array([0.3, -0.7])
    change = slow.objective_lsw(theta + eta, PHI, RHO, means) - slow.objective_lsw(
        theta, PHI, RHO, means
    )
    printed = eta @ gram @ eta - means @ np.diag(RHO) @ PHI @ eta - eta @ gram @ theta
    assert change == pytest.approx(eta @ gram @ eta, rel=1e-10, abs=0)
    assert printed == pytest.approx(eta @ gram @ eta - 2 * theta @ gram @ eta, rel=1e-10, abs=0)
    assert abs(printed - change) > 0.1


# The theorems against their literal twins


@pytest.mark.parametrize("m", [1, 2, 12, 400])
def test_published_and_corrected_theorems_are_the_literal_ones(m):
    x = setting(trajectories=m)
    alpha, beta, weighted = CALIBRATION.alpha, CALIBRATION.beta, np.sqrt(RHO)[:, None] * PHI
    c = alpha * 2.0 * np.linalg.norm(np.linalg.pinv(weighted), 2) * np.linalg.norm(weighted)
    arguments = (RHO, SINGLE, m, beta, c)
    near = {"rel": 1e-10, "abs": 0}
    assert theory.lsw_excess_bound_as_published(x) == pytest.approx(
        slow.lsw_published(*arguments), **near
    )
    assert theory.lsw_excess_short_bound_as_published(x) == pytest.approx(
        slow.lsw_short_published(*arguments), **near
    )
    norm = np.linalg.norm(PHI, 2)
    c = 2 * alpha * 2.0 * norm / (20.0 - norm**2)
    arguments = (PHI, RHO, SINGLE, JOINT, m, 20.0, beta, c)
    assert theory.lsl_excess_bound_as_published(x) == pytest.approx(
        slow.lsl_published(*arguments), **near
    )
    corrected, twin = theory.lsl_excess_bound(x), slow.lsl_corrected(*arguments)
    assert corrected == pytest.approx(twin, **near) if beta * m >= 1 else corrected < twin


def test_the_corrected_theorem_of_lsw_is_the_literal_one_where_that_is_below_its_weights():
    chances = np.array([1.0, 0.5, 0.8])
    x = setting(trajectories=400, chances=chances, joint=None)
    assert theory.lsw_excess_bound(x) == pytest.approx(
        slow.lsw_corrected(RHO, chances, 400, 0.03, math.sqrt(theory.lsw_factor(x))),
        rel=1e-10,
        abs=0,
    )


def test_states_that_are_never_visited_count_in_full():
    x = setting(chances=np.array([0.0, 1.0, 1.0]), trajectories=10**6, joint=None)
    for bound in (theory.lsw_excess_bound, theory.lsw_excess_short_bound):
        assert bound(x) == pytest.approx(theory.lsw_factor(x) * RHO[0], rel=1e-9, abs=0)
    assert theory.expected_lsw_excess(x).lower == pytest.approx(
        theory.lsw_factor(x) * RHO[0], rel=1e-9, abs=0
    )


def test_a_tabular_state_of_weight_zero_leaves_no_unique_solution():
    """So the corollary's "w_s = 0 for all s in S_0" says nothing about the tabular case."""
    x = setting(design=Design(phi=aggregation(3, 1), weights=np.array([0.0, 1.0, 1.0])))
    with pytest.raises(StudyError, match="full column rank"):
        theory.lsw_excess_bound(x)


def test_sensitivities_are_those_of_the_algorithms_at_k_0():
    counts = np.array([3, 0, 7])
    x, norm = setting(), np.linalg.norm(PHI, 2)
    assert theory.phi_lsw(x, counts) == pytest.approx(literal.phi_lsw(counts.tolist(), RHO, 0))
    assert theory.phi_lsw(x, counts, 5) == pytest.approx(literal.phi_lsw(counts.tolist(), RHO, 5))
    slope = norm * RHO.max() / math.sqrt(40.0)
    for k in (0, 4, 20):
        assert theory.phi_lsl(x, counts, k) == pytest.approx(
            literal.phi_lsl(counts.tolist(), RHO, 12, k, slope), rel=1e-12, abs=0
        )
    inverse = np.linalg.norm(np.linalg.pinv(np.sqrt(RHO)[:, None] * PHI), 2)
    assert theory.local_sensitivity_lsw(x, counts) == pytest.approx(
        2.0 * inverse * math.sqrt(literal.phi_lsw(counts.tolist(), RHO, 0)), rel=1e-12, abs=0
    )
    assert theory.local_sensitivity_lsl(x, counts) == pytest.approx(
        2 * 2.0 * norm / (20.0 - norm**2) * math.sqrt(theory.phi_lsl(x, counts)), rel=1e-12, abs=0
    )


def test_max_in_the_place_of_min_is_never_below_and_grows_for_ever():
    """Taken literally the typo is private, and all noise: its k = 0 already assumes all visit."""
    x, counts = setting(), np.array([3, 0, 7])
    everybody = np.full(3, 12)
    assert theory.phi_lsl_as_published(x, counts) == theory.phi_lsl(x, everybody)
    assert theory.phi_lsl(x, counts, 12) == theory.phi_lsl(x, counts, 999)
    assert theory.phi_lsl_as_published(x, counts, 999) > theory.phi_lsl_as_published(x, counts, 12)


# Exact over binomial counts


@pytest.mark.parametrize(
    ("m", "p"),
    [(10**7, 0.025), (10**7, 0.5), (10**6, 1e-5), (10**5, 0.999), (10**6, 0.3), (37, 0.4)],
)
@pytest.mark.parametrize("beta", [5.8e-4, 1e-6, 0.3])
def test_sums_over_binomials_to_ten_digits(m, p, beta):
    exact = slow.over_large_binomial(
        lambda n: max(1 / n**2, math.exp(-beta * (n - 1))) if n else 1.0, m, p
    )
    assert float(theory.expected_lsw_term(p, m, beta)) == pytest.approx(exact, rel=1e-10, abs=0)
    top = min(math.ceil(1 / math.expm1(beta)), m)
    exact = slow.over_large_binomial(
        lambda n: max(n, top) * math.exp(-beta * (max(n, top) - n)), m, p
    )
    assert float(theory.expected_lsl_term(p, m, beta)) == pytest.approx(exact, rel=1e-10, abs=0)


@pytest.mark.parametrize("beta", [1e-300, 1e-12, 0.1, 1.3, 1.4, 2.0, 50.0, 1e300])
@pytest.mark.parametrize("p", [0.0, 1e-300, 1e-9, 0.5, 1 - 1e-16, 1.0])
@pytest.mark.parametrize("m", [1, 2, 30])
def test_extremes_of_the_sums(m, p, beta):
    for found, term in (
        (theory.expected_lsw_term(p, m, beta), lambda n: slow.lsw_term(n, beta)),
        (theory.expected_lsl_term(p, m, beta), lambda n: slow.lsl_term(n, m, beta)),
    ):
        assert float(found) == pytest.approx(slow.over_binomial(term, m, p), rel=1e-10, abs=1e-290)
    bound = float(theory.lsw_term_bound(p, m, beta))
    assert float(theory.expected_lsw_term(p, m, beta)) <= bound * (1 + 1e-12) <= 1 + 1e-12


def test_sums_are_arrays_of_the_shape_of_the_chances():
    chances = np.array([[0.1, 0.5, 0.1], [1.0, 0.0, 0.5]])
    found = theory.expected_lsw_term(chances, 20, 0.1)
    assert found.shape == (2, 3)
    assert found[0, 0] == found[0, 2] == theory.expected_lsw_term(0.1, 20, 0.1)
    assert theory.expected_lsl_term(chances, 20, 0.1).shape == (2, 3)


def test_one_state_leaves_nothing_between_the_bounds():
    x = setting(
        design=Design(phi=np.ones((1, 1)), weights=np.array([0.7])),
        chances=np.array([0.3]),
        joint=np.array([[0.3]]),
    )
    found = theory.expected_lsw_excess(x)
    exact = (
        theory.lsw_factor(x) * 0.7 * slow.over_binomial(lambda n: slow.lsw_term(n, 0.03), 12, 0.3)
    )
    assert found.lower == pytest.approx(exact, rel=1e-11, abs=0)
    assert found.upper == pytest.approx(exact, rel=1e-11, abs=0)


def test_certain_visits_leave_nothing_to_expect():
    """p_s in {0, 1}: the expectation is the value at the only possible counts."""
    counts = np.array([12, 0, 12])
    chances = counts / 12
    x = setting(chances=chances, joint=np.outer(chances, chances))
    exact = theory.lsw_excess_given_counts(x, counts)
    found = theory.expected_lsw_excess(x)
    assert found.lower <= exact * (1 + 1e-9) <= found.upper * (1 + 2e-9)
    assert theory.lsl_excess_given_counts(x, counts) <= theory.lsl_excess_summed_bound(x)
    assert theory.lsl_excess_summed_bound(x) <= theory.lsl_excess_bound(x)


def test_a_thousand_states_at_ten_million_trajectories():
    states = 1000
    x = setting(
        design=Design(phi=aggregation(states, 1), weights=np.ones(states)),
        calibration=Calibration(name="any", alpha=1.0, beta=1e-4),
        chances=np.repeat(np.linspace(0.05, 1.0, 10), 100),
        joint=None,
        trajectories=10**7,
    )
    found = theory.expected_lsw_excess(x)
    assert 0 < found.lower <= found.upper <= theory.lsw_excess_bound(x)
    assert found.upper < 1.001 * found.lower


# Lemma 1


def test_lemma_1_has_the_delta_of_its_constants():
    pair = nissim(0.1, 0.1, 40)
    found = theory.lemma_1_delta(0.1, 0.1, 40)
    assert found.estimate == pytest.approx(
        privacy_profile(pair.alpha, pair.beta, 40, 0.1).estimate, rel=1e-6, abs=0
    )


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_lemma_1_refuses_what_is_no_promise(bad):
    with pytest.raises(UsageError, match="epsilon"):
        theory.lemma_1_delta(bad, 0.1, 1)
    with pytest.raises(UsageError, match="delta"):
        theory.lemma_1_delta(1.0, bad, 1)


# Settings


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"chances": np.array([0.1, 0.2])}, "shape"),
        ({"chances": np.array([0.1, 0.2, 1.1])}, "probability"),
        ({"chances": np.array([0.1, 0.2, math.nan])}, "probability"),
        ({"chances": np.array([0.1, -0.2, 0.3])}, "probability"),
        ({"joint": np.eye(2)}, "shape"),
        ({"joint": np.eye(3)}, "diagonal"),
        ({"joint": np.where(np.eye(3) > 0, JOINT, 1.0)}, "diagonal"),
        ({"trajectories": 0}, "trajectories"),
        ({"trajectories": 2.5}, "trajectories"),
        ({"trajectories": math.nan}, "trajectories"),
        ({"largest": 0.0}, "largest"),
        ({"largest": math.inf}, "largest"),
        ({"calibration": Calibration(name="any", alpha=1.0, beta=0.0)}, "beta"),
        ({"calibration": Calibration(name="any", alpha=1.0, beta=math.nan)}, "beta"),
        ({"calibration": Calibration(name="any", alpha=1.0, beta=math.inf)}, "beta"),
    ],
)
def test_settings_outside_the_assumptions_are_refused(changed, message):
    with pytest.raises(UsageError, match=message):
        setting(**changed)


@pytest.mark.parametrize("ridge", [0.0, -3.0, 1.0, math.nan, math.inf])
def test_a_ridge_outside_the_theorem_is_refused(ridge):
    with pytest.raises(UsageError, match="ridge"):
        theory.lsl_excess_bound(setting(ridge=ridge))


def test_the_bounds_of_lsl_need_pairs():
    for bound in (
        theory.lsl_excess_bound,
        theory.lsl_excess_summed_bound,
        theory.lsl_excess_bound_as_published,
    ):
        with pytest.raises(UsageError, match="joint"):
            bound(setting(joint=None))


@pytest.mark.parametrize(
    ("bound", "beta"),
    [
        (theory.lsw_term_bound_as_published, 2.1),
        (theory.lsw_term_short_bound_as_published, 0.6),
        (theory.lsw_term_short_bound, 0.6),
        (theory.lsl_term_bound_as_published, 0.6),
    ],
)
def test_a_beta_outside_the_theorem_is_refused(bound, beta):
    with pytest.raises(UsageError, match="at most"):
        bound(np.array([1.0, 0.0]), 10, beta)


def test_a_setting_is_a_value():
    chances = SINGLE.copy()
    x = setting(chances=chances)
    chances[0] = 0.9
    assert x.chances[0] == SINGLE[0]
    with pytest.raises(ValueError, match="read-only"):
        x.chances[0] = 0.9
    with pytest.raises(ValueError, match="read-only"):
        x.joint[0, 0] = 0.9
