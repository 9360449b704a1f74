"""Experiments: algorithms, evidence and claims, each beside a literal twin."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles import literal
from privalue.core import Statistics, lsl, nissim
from privalue.errors import UsageError
from privalue.paper import theory
from privalue.paper.claims import aggregation_helps, faster, projections, schedule_loss, verdict
from privalue.paper.evidence import (
    above,
    crossing,
    estimate,
    lowest,
    reached,
    resampled_slope,
    slope,
)
from privalue.paper.experiments import (
    CONVERGENCE,
    EXPERIMENTS,
    OURS,
    QUICK,
    SIZES,
    SQRT,
    Case,
    Curve,
    Effort,
    Results,
    run_all,
)
from privalue.paper.methods import (
    DELTA,
    DP_LSW,
    EPSILON,
    LSW,
    Features,
    Method,
    batch,
    design_of,
    dp_lsl,
    lsl_excess,
    lsw_excess,
    normals,
    outcome,
    plain_lsl,
    rmse,
    truth,
)
from privalue.paper.reproduction import savings, savings_markdown
from privalue.simulation import parse_world, simulate_episodes


def curve(at, values):
    return Curve(at=np.array(at, dtype=float), values=np.asarray(values))


def test_a_batch_is_the_same_whatever_bound_it_is_counted_with():
    tight, wide = batch(1000, 3, 1.0), batch(1000, 3, 100.0)
    assert tight.counts.tolist() == wide.counts.tolist()
    # A step of the wide grid is a hundred times larger: half of one is the most that differs.
    difference = np.abs(tight.mean_returns(0.0) - wide.mean_returns(0.0))
    assert difference.max() <= 50.5 / 2**30
    assert not np.array_equal(tight.counts, batch(1000, 4, 1.0).counts)
    assert normals(100, 2, 40).tolist() == normals(100, 2, 80)[:40].tolist()


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
    made = outcome(DP_LSW, setting, m, run)
    assert made.clean == pytest.approx(theta, abs=1e-9)
    noise = sigma * normals(m, run, phi.shape[1])
    assert made.theta - made.clean == pytest.approx(noise, rel=1e-6)
    assert made.values == pytest.approx(phi @ made.theta)
    # A planted mistake: appendix A's constants in the place of Lemma 1's are told apart.
    wrong = literal.dp_lsw(
        phi, np.ones(40), counts, means, (0, setting.bound), *literal.appendix(0.1, 0.1, len(theta))
    )[2]
    assert np.abs((made.theta - made.clean) / noise * sigma / wrong - 1).min() > 0.05


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
    made = outcome(dp_lsl(lam), setting, m, run)
    assert made.clean == pytest.approx(theta, abs=1e-9)
    noise = sigma * normals(m, run, phi.shape[1])
    assert made.theta - made.clean == pytest.approx(noise, rel=1e-6)
    plain = outcome(plain_lsl(lam), setting, m, run)
    assert plain.theta == pytest.approx(theta, abs=1e-9)


def test_normalised_features_span_the_same_values():
    plain, unit = Features(aggregation=4), Features(aggregation=4, normalised=True)
    assert np.linalg.norm(phi_of(unit), axis=0) == pytest.approx(np.ones(10))
    one, other = (outcome(LSW, setting, 300, 2) for setting in (plain, unit))
    assert one.values == pytest.approx(other.values)


def test_a_prior_and_a_value_for_the_unvisited_reach_the_mechanism():
    keys = (("mechanism", "dp-ssp"), ("shrinkage", False))
    plain = Method(name="x", keys=keys)
    told = Method(name="x", keys=keys, prior=True)
    assert not np.allclose(
        outcome(plain, Features(), 100_000, 0).values,
        outcome(told, Features(), 100_000, 0).values,
    )
    high = Method(name="x", unvisited=0.9)
    empty = batch(10, 0, 1.0).counts == 0
    assert empty.any()
    assert (outcome(high, Features(), 10, 0).values[empty] == 0.9).all()


def first_visit_returns(episodes, gamma):
    """(state, return) of every first visit, by loops."""
    found, begin = [], 0
    trajectories = episodes.trajectory.tolist()
    for end in [*np.flatnonzero(np.diff(episodes.trajectory)) + 1, len(trajectories)]:
        rows = list(zip(episodes.state[begin:end], episodes.reward[begin:end], strict=True))
        for s in dict.fromkeys(state for state, _ in rows):
            first = next(t for t, (state, _) in enumerate(rows) if state == s)
            found.append((s, sum(gamma**t * r for t, (_, r) in enumerate(rows[first:]))))
        begin = end
    return found


@pytest.mark.parametrize("size", [1, 4])
def test_excess_is_the_difference_of_two_risks(size):
    """J of [BGP16] sections 2 and 3, summed over trajectories, against the quadratic forms."""
    m, lam = 60, 25.0
    episodes = simulate_episodes(parse_world("chain"), trajectories=m, seed=5)
    visits = first_visit_returns(episodes, 0.99)
    design = design_of(Features(aggregation=size))
    phi = phi_of(Features(aggregation=size))
    counts = np.bincount([s for s, _ in visits], minlength=40)
    sums = np.bincount([s for s, _ in visits], weights=[f for _, f in visits], minlength=40)
    gathered = Statistics(
        return_bounds=(0.0, 1.0),
        trajectories=m,
        rows=len(visits),
        rewards_clamped=0,
        returns_clamped=0,
        counts=counts,
        return_steps=np.rint(sums * 2**30),
    )
    theta = lsl(gathered.counts, gathered.return_sums, design, lam)
    eta = np.random.default_rng(1).standard_normal(len(theta))

    def risk_lsl(point):
        loss = sum((f - phi[s] @ point) ** 2 for s, f in visits) / m
        return loss + lam / (2 * m) * float(point @ point)

    expected = risk_lsl(theta + eta) - risk_lsl(theta)
    assert lsl_excess(design, counts, lam, eta, m) == pytest.approx(expected, rel=1e-6)
    assert lsl_excess(design, counts, 2 * lam, eta, m) != pytest.approx(expected, rel=1e-2)

    means = gathered.mean_returns(0.0)
    best = literal.lsw(phi, np.ones(40), means)

    def risk_lsw(point):
        return sum((means[s] - phi[s] @ point) ** 2 for s in range(40))

    expected = risk_lsw(best + eta) - risk_lsw(best)
    assert lsw_excess(design, eta) == pytest.approx(expected, rel=1e-9)


def test_the_mean_excess_is_the_theorys():
    """Over many draws of noise, at fixed counts: [BGP16] Lemmas 22 and 29."""
    m, lam, setting = 2000, 300.0, Features(aggregation=2)
    counts, design = batch(m, 0, 1.0).counts, design_of(setting)
    described = theory.Setting(
        design=design,
        calibration=nissim(EPSILON, DELTA, 20),
        chances=np.ones(40),
        trajectories=m,
        largest=1.0,
        ridge=lam,
    )
    draws = np.random.default_rng(3).standard_normal((4000, 20))
    unit = normals(m, 0, 20)
    for method, of, expected in (
        (
            DP_LSW,
            lambda eta: lsw_excess(design, eta),
            theory.lsw_excess_given_counts(described, counts),
        ),
        (
            dp_lsl(lam),
            lambda eta: lsl_excess(design, counts, lam, eta, m),
            theory.lsl_excess_given_counts(described, counts),
        ),
    ):
        made = outcome(method, setting, m, 0)
        sigma = float(np.mean((made.theta - made.clean) / unit))
        found = [of(sigma * z) for z in draws]
        assert np.mean(found) == pytest.approx(expected, abs=4 * np.std(found) / math.sqrt(4000))


def test_an_estimate_by_hand():
    found = estimate([1.0, 2.0, 3.0, 6.0])
    assert (found.value, found.error) == (3.0, math.sqrt(14 / 3 / 4))
    assert found.error == pytest.approx(math.sqrt(14 / 3 / 4))
    assert found.high - found.value == pytest.approx(3.182446 * found.error, rel=1e-6)
    assert found.above_zero is None  # -0.4 to 6.4


def covered(draw, quantile=None):
    """How often the interval of five runs holds the true mean, 0."""
    generator = np.random.default_rng(8)
    hits = 0
    for _ in range(4000):
        x = draw(generator)
        found = estimate(x)
        half = found.high - found.value if quantile is None else quantile * found.error
        hits += abs(found.value) <= half
    return hits / 4000


def test_intervals_cover_as_they_say_and_a_normal_quantile_would_not():
    assert covered(lambda g: g.standard_normal(5)) == pytest.approx(0.95, abs=0.011)
    assert covered(lambda g: g.standard_normal(5), quantile=1.96) < 0.90


def test_many_comparisons_widen_the_intervals():
    generator = np.random.default_rng(9)
    alarms = 0
    for _ in range(500):
        noise = np.exp(generator.standard_normal((6, 20)))
        signs = above(curve(range(1, 21), noise), curve(range(1, 21), np.ones((6, 20))))
        alarms += any(sign is not None for sign in signs)
    assert alarms / 500 < 0.08  # without it, more than half
    assert estimate([1.0, 2.0], comparisons=10).high > estimate([1.0, 2.0]).high


def test_slopes_agree_with_a_literal_fit():
    generator = np.random.default_rng(2)
    at = np.array([10.0, 32.0, 100.0, 1000.0])
    values = np.exp(generator.standard_normal((7, 4))) * at**-1.5
    expected = [np.polyfit(np.log(at), np.log(y), 1)[0] for y in values]
    found = slope(curve(at.tolist(), values))
    assert found.value == pytest.approx(np.mean(expected))
    assert found.error == pytest.approx(np.std(expected, ddof=1) / math.sqrt(7))


@given(
    st.lists(st.floats(0.01, 100.0), min_size=2, max_size=8),
    st.floats(0.02, 50.0),
)
def test_a_level_is_reached_where_a_slow_walk_finds_it(heights, level):
    at = 10.0 ** np.arange(len(heights))
    found = reached(at, np.array(heights), level)
    walk = np.geomspace(at[0], at[-1], 20_001)
    line = np.exp(np.interp(np.log(walk), np.log(at), np.log(heights)))
    high = np.flatnonzero(line > level * (1 + 1e-12))
    if len(high) == 0:
        assert found == at[0] or heights[-1] == pytest.approx(level)
    elif high[-1] == len(walk) - 1:
        assert math.isinf(found)
    else:
        assert walk[high[-1]] <= found * (1 + 1e-9)
        assert found <= walk[min(high[-1] + 1, len(walk) - 1)] * (1 + 1e-9)


def test_a_crossing_of_two_curves():
    at = np.array([10.0, 100.0, 1000.0, 10_000.0])
    noise = np.exp(0.01 * np.random.default_rng(1).standard_normal((20, 4)))
    falling, flat = curve(at.tolist(), noise * 400 / at), curve(at.tolist(), np.ones((20, 4)))
    found = crossing(falling, flat)
    assert found == (pytest.approx(400, rel=0.02), True)
    never = crossing(flat, falling)
    assert never == (math.inf, False)
    with pytest.raises(UsageError, match="same points"):
        crossing(falling, falling.between(10, 100))


@given(st.floats(0.5, 4.0), st.floats(-2.0, 2.0))
def test_the_lowest_point_of_a_parabola(curvature, place):
    at = np.exp(np.linspace(-3, 3, 13))
    mean = np.exp(curvature * (np.log(at) - place) ** 2 + 0.7)
    found = lowest(at, mean)
    assert np.log(found) == pytest.approx([place, 0.7], abs=1e-6)


def valley(sizes, exponent, runs=12):
    """Curves along lambda that are lowest at 3 m^a."""
    generator = np.random.default_rng(6)
    lams = np.geomspace(1, 1e8, 97)
    curves = []
    for m in sizes:
        shape = 1 + np.log(lams / (3 * m**exponent)) ** 2
        luck = np.exp(0.05 * generator.standard_normal((runs, 1)))
        curves.append(curve(lams.tolist(), luck * shape))
    return curves


def test_the_exponent_of_the_best_lambda_is_found():
    sizes = [10**4, 10**5, 10**6, 10**7]
    found = resampled_slope(valley(sizes, 0.6), np.array(sizes, dtype=float), draws=50)
    assert found.value == pytest.approx(0.6, abs=0.01)
    assert found.low - 0.01 <= 0.6 <= found.high + 0.01


def test_the_loss_of_a_schedule():
    sizes = [10**4, 10**5, 10**6]
    curves = valley(sizes, 0.5)
    assert schedule_loss(curves, sizes, 0.5) == pytest.approx(1.0, abs=0.01)
    # With m^0.75 and the best constant lambda is wrong by 10^(1/4) at both ends.
    assert schedule_loss(curves, sizes, 0.75) == pytest.approx(
        1 + math.log(10**0.25) ** 2, rel=0.02
    )


def test_the_limits_of_lsw_and_lsl():
    """By hand for one pair: the mean of V, and the mean weighted by 1/40 and 2/40."""
    v = truth()
    same, other = projections(1)
    assert same == pytest.approx(v)
    assert other == pytest.approx(v)
    lsw_limit, lsl_limit = projections(2)
    assert lsw_limit[0] == lsw_limit[1] == pytest.approx((v[0] + v[1]) / 2)
    assert lsl_limit[0] == pytest.approx((v[0] + 2 * v[1]) / 3)
    assert rmse(lsw_limit) < rmse(lsl_limit)


# Results and claims


def results(rows):
    """Results of (method, features, m, measure, values by run)."""
    cases = [
        Case(method=method, features=features, trajectories=m, measure=measure)
        for method, features, m, measure, _ in rows
    ]
    return Results(cases, np.array([values for *_, values in rows]).T)


def test_a_curve_is_sorted_and_only_one():
    rows = [(LSW, Features(), m, "rmse", [m, m + 1]) for m in (20, 10)]
    found = results(rows).curve(algorithm="LSW")
    assert found.at.tolist() == [10, 20]
    assert found.values.tolist() == [[10, 20], [11, 21]]
    assert found.error == pytest.approx([0.5, 0.5])
    wide = (LSW, Features(bound=100.0), 10, "rmse", [1, 1])
    for where, table in (({}, [*rows, wide]), ({"algorithm": "LSL"}, rows)):
        with pytest.raises(UsageError):
            results(table).curve(**where)


def test_processes_give_what_one_gives(monkeypatch):
    monkeypatch.setattr("privalue.paper.experiments.REGULARISED", (10**4,))
    effort = Effort(name="tiny", runs=2, per_decade=1)
    for name in list(EXPERIMENTS)[1:]:
        monkeypatch.delitem(EXPERIMENTS, name)
    seen = []
    alone = run_all(effort, progress=lambda done, total: seen.append((done, total)))["panel-1"]
    assert seen == [(0, 2), (1, 2), (2, 2)]
    first = [case.compute(1) for case in EXPERIMENTS["panel-1"](effort)]
    assert alone.values[1].tolist() == first
    assert [row["value"] for row in alone.rows()][: len(first)] == alone.values[0].tolist()


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ([True, None], "holds"),
        ([True, False], "holds in part"),
        ([False, None], "does not hold"),
        ([None], "undecided"),
    ],
)
def test_verdicts(parts, said):
    assert verdict(parts) == said


def luck(generator, runs=6):
    return np.exp(0.1 * generator.standard_normal(runs))


@pytest.mark.parametrize(("ratio", "holds"), [(1.5, True), (0.7, False)])
def test_the_verdict_follows_the_numbers(ratio, holds):
    """A planted world where LSL is ahead turns the verdict around."""
    generator, rows = np.random.default_rng(3), []
    for m in (10, 100, 1000, 10_000):
        values = luck(generator) / m
        rows.append((LSW, Features(), m, "rmse", values))
        rows += [
            (plain_lsl(1.0, text), Features(), m, "rmse", ratio * values) for text in CONVERGENCE
        ]
    assert faster({"panel-1": results(rows)}, 1, CONVERGENCE[0])[0] is holds


@pytest.mark.parametrize(("gain", "holds"), [(2.0, True), (-2.0, False)])
def test_aggregation_is_judged_by_its_excess(gain, holds):
    generator, rows = np.random.default_rng(3), []
    for m in (10**5, 10**6, 10**7):
        for size in SIZES:
            values = luck(generator) * size**-gain / m**2
            rows.append((DP_LSW, Features(aggregation=size), m, "excess", values))
            for unit in (False, True) if size > 1 else (False,):
                features = Features(aggregation=size, normalised=unit)
                rows.append((dp_lsl(100 * math.sqrt(m), SQRT), features, m, "excess", values))
    tables = {"panel-4": results(rows)}
    assert aggregation_helps(tables, "DP-LSW", "", False)[0] is holds
    assert aggregation_helps(tables, "DP-LSL", SQRT, True)[0] is holds


def saving_results(exact=10.0):
    """RMSE = start/m in every run."""
    starts = [(DP_LSW, 10**5), (dp_lsl(1.0), 10**6), (dp_lsl(2.0), 4 * 10**4), (LSW, 1.0)]
    starts += [(Method(name=name), 10.0 * place) for place, name in enumerate(OURS[1:], 2)]
    starts += [(Method(name=OURS[0]), exact)]
    rows = [
        (method, Features(), m, "clipped", [start / m] * 3)
        for method, start in starts
        for m in 10 ** np.arange(1, 8)
    ]
    return results(rows)


def test_savings_are_counted_from_the_better_of_the_papers_two():
    found = {(s["algorithm"], s["rmse"]): s for s in savings(saving_results(), QUICK)}
    assert found["DP-LSL", 0.05]["trajectories"] == pytest.approx(4 * 10**4 / 0.05)
    assert found["DP-LSW", 0.01]["trajectories"] == pytest.approx(10**5 / 0.01)
    assert found["exact", 0.01]["trajectories"] == pytest.approx(10 / 0.01)
    assert found["exact", 0.01]["factor"] == pytest.approx(4000)
    assert found["DP-LSL", 0.01]["factor"] == pytest.approx(1)
    never = savings(saving_results(exact=10**9), QUICK)
    assert "| never |" in savings_markdown(never)
    assert [s["factor"] for s in never if s["algorithm"] == "exact"] == [None, None]
