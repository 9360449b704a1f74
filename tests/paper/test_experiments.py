"""Experiments: batches, algorithms, evidence, the store, claims; each beside a literal twin."""

import csv
import dataclasses
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles import literal
from privalue.core import Statistics, lsl, nissim
from privalue.errors import UsageError
from privalue.paper import _claims as claims_module
from privalue.paper import _runner as runner
from privalue.paper import _surpassed as surpassed
from privalue.paper import theory
from privalue.paper._batches import batch, batch_seed, noise_seed, normals, rmse, truth
from privalue.paper._claims import Claim, ClaimPart, markdown, projections, schedule_loss
from privalue.paper._convergence import PANEL_1
from privalue.paper._evidence import (
    above,
    crossing,
    estimate,
    log_ratio,
    lowest,
    reached,
    resampled_slope,
    slope,
)
from privalue.paper._excess import lsl_excess, lsw_excess
from privalue.paper._experiment import Experiment
from privalue.paper._methods import (
    Method,
    MethodSetting,
    built,
    outcome,
    paper_lsl,
    paper_lsw,
    plain_lsl,
    plain_lsw,
)
from privalue.paper._page import replaced
from privalue.paper._pictures import panels, save
from privalue.paper._reproduce import savings_markdown
from privalue.paper._schedules import ridge
from privalue.paper._settings import DELTA, EPSILON, FULL, QUICK, Effort
from privalue.paper._table import Curve, ResultTable, TableRow, rows_of
from privalue.simulation import parse_world, simulate_episodes
from privalue.study._features import aggregation

# Batches


def test_sizes_reach_from_ten_to_ten_million():
    assert FULL.sizes()[0] == 10
    assert FULL.sizes()[-1] == 10**7
    assert len(FULL.sizes()) == 25
    assert QUICK.sizes(10, 99) == (10,)


def test_a_batch_is_the_same_whatever_bound_it_is_counted_with():
    tight, wide = batch(1000, 3, 1.0), batch(1000, 3, 100.0)
    assert tight.counts.tolist() == wide.counts.tolist()
    # A step of the wide grid is a hundred times larger: half of one is the most that differs.
    difference = np.abs(tight.mean_returns(0.0) - wide.mean_returns(0.0))
    assert difference.max() <= 50.5 / 2**30


def test_seeds_tell_batches_and_noise_apart():
    seeds = {batch_seed(m, run) for m in (10, 100, 10**9) for run in range(20)}
    seeds |= {noise_seed(m, run) for m in (10, 100, 10**9) for run in range(20)}
    assert len(seeds) == 120
    assert not np.array_equal(batch(1000, 0, 1.0).counts, batch(1000, 1, 1.0).counts)
    assert normals(100, 2, 40).tolist() == normals(100, 2, 80)[:40].tolist()


# Algorithms


def phi_of(setting):
    phi = built(setting).phi
    return phi if isinstance(phi, np.ndarray) else phi.toarray()


SETTINGS = [
    MethodSetting(),
    MethodSetting(bound=100.0, aggregation=2),
    MethodSetting(aggregation=4, normalised=True),
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
    made = outcome(paper_lsw(), setting, m, run)
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
    made = outcome(paper_lsl(lam), setting, m, run)
    assert made.clean == pytest.approx(theta, abs=1e-9)
    noise = sigma * normals(m, run, phi.shape[1])
    assert made.theta - made.clean == pytest.approx(noise, rel=1e-6)
    plain = outcome(plain_lsl(lam), setting, m, run)
    assert plain.theta == pytest.approx(theta, abs=1e-9)


def test_lsw_without_noise_is_the_mean_of_the_returns():
    assert outcome(plain_lsw(), MethodSetting(), 500, 1).values.tolist() == pytest.approx(
        batch(500, 1, 1.0).mean_returns(0.0)
    )


def test_normalised_features_span_the_same_values():
    plain, unit = MethodSetting(aggregation=4), MethodSetting(aggregation=4, normalised=True)
    assert np.linalg.norm(phi_of(unit), axis=0) == pytest.approx(np.ones(10))
    one, other = (outcome(plain_lsw(), setting, 300, 2) for setting in (plain, unit))
    assert one.values == pytest.approx(other.values)


def test_a_prior_and_a_value_for_the_unvisited_reach_the_mechanism():
    keys = (("mechanism", "dp-ssp"), ("shrinkage", False))
    plain = Method(name="x", keys=keys)
    told = Method(name="x", keys=keys, prior=True)
    assert not np.allclose(
        outcome(plain, MethodSetting(), 100_000, 0).values,
        outcome(told, MethodSetting(), 100_000, 0).values,
    )
    high = Method(name="x", unvisited=0.9)
    empty = batch(10, 0, 1.0).counts == 0
    assert empty.any()
    assert (outcome(high, MethodSetting(), 10, 0).values[empty] == 0.9).all()


@pytest.mark.parametrize(
    ("text", "expected"),
    [("100 sqrt(m)", 1000.0), ("sqrt(m)", 10.0), ("10 m", 1000.0), ("7", 7.0)],
)
def test_schedules(text, expected):
    assert ridge(text, 100) == expected


# Excess risk


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
    design = built(MethodSetting(aggregation=size))
    phi = phi_of(MethodSetting(aggregation=size))
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
    theta = lsl(gathered, design, lam)
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
    m, lam, setting = 2000, 300.0, MethodSetting(aggregation=2)
    counts, design = batch(m, 0, 1.0).counts, built(setting)
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
            paper_lsw(),
            lambda eta: lsw_excess(design, eta),
            theory.lsw_excess_given_counts(described, counts),
        ),
        (
            paper_lsl(lam),
            lambda eta: lsl_excess(design, counts, lam, eta, m),
            theory.lsl_excess_given_counts(described, counts),
        ),
    ):
        made = outcome(method, setting, m, 0)
        sigma = float(np.mean((made.theta - made.clean) / unit))
        found = [of(sigma * z) for z in draws]
        assert np.mean(found) == pytest.approx(expected, abs=4 * np.std(found) / math.sqrt(4000))


# Tables


def row(run=0, value=1.0, **keys):
    made = {
        "algorithm": "A",
        "bound": 1.0,
        "aggregation": 1,
        "normalised": False,
        "schedule": "",
        "ridge": None,
        "trajectories": 10,
        "measure": "rmse",
    }
    return TableRow(**{**made, **keys}, value=value, run=run, batch_seed=1, noise_seed=2)


def test_points_are_means_and_standard_errors():
    table = ResultTable([row(run=r, value=v) for r, v in enumerate([1.0, 2.0, 6.0])])
    (point,) = table.points()
    assert (point.mean, point.runs) == (3.0, 3)
    assert point.standard_error == pytest.approx(math.sqrt(7.0 / 3))  # the variance is 7


def test_a_curve_is_sorted_and_paired_by_run():
    rows = [row(run=r, trajectories=m, value=10 * r + m) for m in (20, 10) for r in (1, 0)]
    curve = ResultTable(rows).curve(algorithm="A")
    assert curve.at.tolist() == [10, 20]
    assert curve.values.tolist() == [[10, 20], [20, 30]]
    # A run that lacks a point is left out of all of them.
    assert len(ResultTable([*rows, row(run=7)]).curve(algorithm="A").values) == 2


def test_a_curve_that_is_not_one_is_refused():
    table = ResultTable([row(), row(bound=100.0)])
    with pytest.raises(UsageError, match="more than one curve"):
        table.curve(algorithm="A")
    with pytest.raises(UsageError, match="no results for"):
        table.curve(algorithm="B")
    with pytest.raises(UsageError, match="colour is not a column"):
        table.curve(colour="red")


def test_tables_are_written_with_every_run_and_every_point(tmp_path):
    rows = rows_of(
        plain_lsl(4.0, "sqrt(m)"), MethodSetting(bound=100.0), 16, 2, {"rmse": 0.5, "x": 2.0}
    )
    files = ResultTable(rows).write(tmp_path / "panel", {"private": False, "settings": {"a": 1}})
    assert [file.name for file in files] == ["panel.csv", "panel.json"]
    with files[0].open() as opened:
        read = list(csv.DictReader(opened))
    assert [r["value"] for r in read] == ["0.5", "2.0"]
    assert {r["batch_seed"] for r in read} == {str(batch_seed(16, 2))}
    document = json.loads(files[1].read_text())
    assert document["private"] is False
    assert document["points"][0]["ridge"] == 4.0
    assert document["points"][1]["mean"] == 2.0


# Evidence


def test_an_estimate_by_hand():
    found = estimate([1.0, 2.0, 3.0, 6.0])
    assert (found.value, found.runs) == (3.0, 4)
    assert found.error == pytest.approx(math.sqrt(14 / 3 / 4))
    assert found.high - found.value == pytest.approx(3.182446 * found.error, rel=1e-6)
    assert found.above_zero is None  # -0.4 to 6.4


@pytest.mark.parametrize("bad", [[], [1.0], [1.0, math.nan], [1.0, math.inf], [[1.0, 2.0]]])
def test_an_estimate_needs_runs(bad):
    with pytest.raises(UsageError, match="two or more finite runs"):
        estimate(bad)


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
        signs = above(Curve(range(1, 21), noise), Curve(range(1, 21), np.ones((6, 20))))
        alarms += any(sign is not None for sign in signs)
    assert alarms / 500 < 0.08  # without it, more than half
    assert estimate([1.0, 2.0], comparisons=10).high > estimate([1.0, 2.0]).high


def test_slopes_agree_with_a_literal_fit():
    generator = np.random.default_rng(2)
    at = np.array([10.0, 32.0, 100.0, 1000.0])
    values = np.exp(generator.standard_normal((7, 4))) * at**-1.5
    expected = [np.polyfit(np.log(at), np.log(y), 1)[0] for y in values]
    found = slope(Curve(at.tolist(), values))
    assert found.value == pytest.approx(np.mean(expected))
    assert found.error == pytest.approx(np.std(expected, ddof=1) / math.sqrt(7))
    with pytest.raises(UsageError, match="two or more points"):
        slope(Curve([10.0], values[:, :1]))


@given(
    st.lists(st.floats(0.01, 100.0), min_size=2, max_size=8),
    st.floats(0.02, 50.0),
)
def test_a_level_is_reached_where_a_slow_walk_finds_it(heights, level):
    at = 10.0 ** np.arange(len(heights))
    curve = Curve(at.tolist(), np.array([heights, heights]))
    found = reached(curve, level).at
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


def test_how_well_a_crossing_is_known():
    at = [10.0, 100.0, 1000.0]
    values = np.array([[4.0, 2.0, 0.5], [4.2, 1.8, 0.55]])
    found = reached(Curve(at, values), 1.0)
    assert found.low < found.at < found.high
    assert reached(Curve(at, values), 10.0).at == 10.0
    assert math.isinf(reached(Curve(at, values), 0.1).at)


def test_a_crossing_of_two_curves():
    at = np.array([10.0, 100.0, 1000.0, 10_000.0])
    noise = np.exp(0.01 * np.random.default_rng(1).standard_normal((20, 4)))
    falling, flat = Curve(at.tolist(), noise * 400 / at), Curve(at.tolist(), np.ones((20, 4)))
    found = crossing(falling, flat)
    assert found.at == pytest.approx(400, rel=0.02)
    assert (found.before, found.after) == (100.0, 1000.0)
    never = crossing(flat, falling)
    assert math.isinf(never.at)
    assert never.after is None
    with pytest.raises(UsageError, match="same points"):
        crossing(falling, falling.between(10, 100))


def test_ratios_are_paired():
    batch_luck = np.exp(np.random.default_rng(4).standard_normal(20))
    assert log_ratio(1.1 * batch_luck, batch_luck).value == pytest.approx(math.log(1.1))
    assert log_ratio(1.1 * batch_luck, batch_luck).above_zero is True
    # Unpaired, the same numbers tell nothing: the luck of the batches is far larger.
    assert log_ratio(1.1 * batch_luck, np.roll(batch_luck, 1)).above_zero is None


@given(st.floats(0.5, 4.0), st.floats(-2.0, 2.0))
def test_the_lowest_point_of_a_parabola(curvature, place):
    at = np.exp(np.linspace(-3, 3, 13))
    mean = np.exp(curvature * (np.log(at) - place) ** 2 + 0.7)
    found = lowest(at, mean)
    assert math.log(found.at) == pytest.approx(place, abs=1e-6)
    assert math.log(found.value) == pytest.approx(0.7, abs=1e-6)


def test_the_lowest_point_at_an_end_stays_there():
    assert lowest(np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 3.0])).at == 1.0
    flat = lowest(np.array([1.0, 2.0, 4.0]), np.array([1.0, 1.0, 1.0]))
    assert flat.value == 1.0


def valley(sizes, exponent, runs=12):
    """Curves along lambda that are lowest at 3 m^a."""
    generator = np.random.default_rng(6)
    lams = np.geomspace(1, 1e8, 97)
    curves = []
    for m in sizes:
        shape = 1 + np.log(lams / (3 * m**exponent)) ** 2
        luck = np.exp(0.05 * generator.standard_normal((runs, 1)))
        curves.append(Curve(lams.tolist(), luck * shape))
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


# The runner


@dataclasses.dataclass(frozen=True)
class Small:
    sizes: tuple[int, ...]


CALLS: list[int] = []


def small_run(settings, run):
    CALLS.append(run)
    if run == 2 and len(CALLS) == 3:
        raise KeyboardInterrupt
    return rows_of(plain_lsw(), MethodSetting(), settings.sizes[0], run, {"rmse": float(run)})


def small_plot(settings, table):
    figure, ((axes,),) = panels(1, 1, size=(3, 3))
    axes.plot([1, 10], [1, 2])
    return figure


def small(sizes=(10,)):
    return Experiment(
        name="small",
        title="small",
        settings=lambda effort: Small(sizes),
        run=small_run,
        plots={"small": small_plot},
    )


THREE = Effort(name="three", runs=3, per_decade=1)


def test_an_interrupted_reproduction_goes_on(tmp_path):
    CALLS.clear()
    with pytest.raises(KeyboardInterrupt):
        runner.run_all([small()], THREE, tmp_path, processes=1)
    assert CALLS == [0, 1, 2]
    seen = []
    tables = runner.run_all(
        [small()], THREE, tmp_path, processes=1, progress=lambda done, total: seen.append(done)
    )
    assert CALLS == [0, 1, 2, 2]
    assert seen == [2, 3]
    assert [r.value for r in tables["small"].rows] == [0.0, 1.0, 2.0]
    runner.run_all([small()], THREE, tmp_path, processes=1)
    assert CALLS == [0, 1, 2, 2]


def test_more_runs_go_on_and_other_settings_start_anew(tmp_path, monkeypatch):
    CALLS.clear()
    two = Effort(name="two", runs=2, per_decade=1)
    runner.run_all([small()], two, tmp_path, processes=1)
    CALLS.append(99)  # so that nothing is interrupted
    runner.run_all([small()], THREE, tmp_path, processes=1)
    assert CALLS == [0, 1, 99, 2]
    runner.run_all([small((11,))], two, tmp_path, processes=1)
    assert CALLS[4:] == [0, 1]
    monkeypatch.setattr(runner, "code_digest", lambda: "other code")
    runner.run_all([small()], two, tmp_path, processes=1)
    assert CALLS[6:] == [0, 1]


@pytest.mark.parametrize("damage", ["", "{", '{"fingerprint": "x", "columns": [], "rows": []}'])
def test_a_damaged_run_is_computed_anew(tmp_path, damage):
    CALLS[:] = [99] * 5
    one = Effort(name="one", runs=1, per_decade=1)
    runner.run_all([small()], one, tmp_path, processes=1)
    (kept,) = (tmp_path / "runs").iterdir()
    whole = kept.read_text()
    kept.write_text(damage)
    tables = runner.run_all([small()], one, tmp_path, processes=1)
    assert [r.value for r in tables["small"].rows] == [0.0]
    assert kept.read_text() == whole


def test_processes_give_what_one_gives(tmp_path):
    effort = Effort(name="tiny", runs=2, per_decade=1)
    alone = runner.run_all([PANEL_1], effort, tmp_path / "alone", processes=1)["panel-1"]
    shared = runner.run_all([PANEL_1], effort, tmp_path / "shared", processes=2)["panel-1"]
    assert alone.rows == shared.rows


def test_what_is_written_down_says_that_it_is_not_private():
    told = runner.described(PANEL_1, QUICK)
    assert told["private"] is False
    assert told["settings"]["sizes"][0] == 10
    assert told["effort"]["runs"] == 5
    json.dumps(told, allow_nan=False)


def test_pictures_are_the_same_bytes_each_time(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        save(small_plot(None, None), tmp_path / folder / "picture")
    for ending in ("png", "svg"):
        first, second = ((tmp_path / f / f"picture.{ending}").read_bytes() for f in "ab")
        assert first == second


# Claims


def part(holds):
    return ClaimPart(what="w", holds=holds, figures="f", numbers={})


@pytest.mark.parametrize(
    ("parts", "verdict"),
    [
        ([True, True], "holds"),
        ([True, None], "holds"),
        ([True, False], "holds in part"),
        ([False, None], "does not hold"),
        ([False], "does not hold"),
        ([None], "undecided"),
    ],
)
def test_verdicts(parts, verdict):
    claim = Claim(name="n", sentence="s", test="t", parts=tuple(part(p) for p in parts))
    assert claim.verdict == verdict
    assert f"**{verdict}**" in markdown([claim])


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


def convergence_table(lsl_over_lsw):
    rows = []
    generator = np.random.default_rng(3)
    for run in range(6):
        for m in (10, 100, 1000, 10_000):
            luck = math.exp(0.1 * generator.standard_normal())
            for size in (1, 2):
                keys = {"trajectories": m, "aggregation": size, "run": run}
                rows.append(row(algorithm="LSW", value=luck / m, **keys))
                for text in ("1", "sqrt(m)", "100 sqrt(m)"):
                    value = lsl_over_lsw * luck / m
                    rows.append(row(algorithm="LSL", schedule=text, ridge=1.0, value=value, **keys))
    return {"panel-1": ResultTable(rows)}


def test_the_verdict_follows_the_numbers():
    """A planted world where LSL is ahead turns the verdict around."""
    assert claims_module.faster(convergence_table(1.5)).verdict == "holds"
    assert claims_module.faster(convergence_table(0.7)).verdict == "does not hold"


def excess_table(gain):
    rows = []
    generator = np.random.default_rng(3)
    for run in range(6):
        for m in (10**5, 10**6, 10**7):
            for size in (1, 2, 4, 8):
                value = math.exp(0.1 * generator.standard_normal()) * size**-gain / m**2
                keys = {"trajectories": m, "aggregation": size, "run": run, "value": value}
                rows.append(row(algorithm="DP-LSW", measure="excess", **keys))
                for unit in (False, True) if size > 1 else (False,):
                    rows.append(
                        row(
                            algorithm="DP-LSL",
                            measure="excess",
                            schedule="100 sqrt(m)",
                            ridge=100 * math.sqrt(m),
                            normalised=unit,
                            **keys,
                        )
                    )
    return {"panel-4": ResultTable(rows)}


def test_aggregation_is_judged_by_its_excess():
    assert claims_module.aggregation_helps(excess_table(2.0)).verdict == "holds"
    assert claims_module.aggregation_helps(excess_table(-2.0)).verdict == "does not hold"


# Savings


def power_law(name, start, **keys):
    """RMSE = start/m in every run."""
    sizes = (10, 100, 1000, 10**4, 10**5, 10**6, 10**7)
    return [
        row(algorithm=name, trajectories=m, value=start / m, run=r, **keys)
        for m in sizes
        for r in range(3)
    ]


def saving_table():
    rows = power_law("DP-LSW", 10**5)
    for lam, start in ((1.0, 10**6), (2.0, 4 * 10**4)):
        rows += power_law("DP-LSL", start, ridge=lam)
    for number, name in enumerate((*surpassed.OURS, "LSW")):
        rows += power_law(name, 10.0 * (number + 1))
    return ResultTable(rows)


def test_savings_are_counted_from_the_better_of_the_papers_two():
    settings = surpassed.SurpassedSettings(sizes=(), ridge_scales=(), cases=((1.0, 1),))
    found = {(s.algorithm, s.target): s for s in surpassed.savings(settings, saving_table())}
    assert found["DP-LSL", 0.05].needed.at == pytest.approx(4 * 10**4 / 0.05)
    assert found["DP-LSW", 0.01].needed.at == pytest.approx(10**5 / 0.01)
    assert found["exact", 0.01].needed.at == pytest.approx(10 / 0.01)
    assert found["exact", 0.01].factor == pytest.approx(4000)
    assert found["DP-LSL", 0.01].factor == pytest.approx(1)


def test_a_target_that_is_never_reached_is_said_so(tmp_path):
    settings = surpassed.SurpassedSettings(sizes=(), ridge_scales=(), cases=((1.0, 1),))
    rows = [r for r in saving_table().rows if r.algorithm != "exact"]
    rows += power_law("exact", 10**9)
    found = surpassed.savings(settings, ResultTable(rows))
    assert "| never |" in savings_markdown(found)
    csv_file, json_file = surpassed.write_savings(found, tmp_path / "savings")
    told = [s for s in json.loads(json_file.read_text())["savings"] if s["algorithm"] == "exact"]
    assert [(s["trajectories_at"], s["factor"]) for s in told] == [(None, None)] * 2
    assert len(csv_file.read_text().splitlines()) == 1 + len(found)


# The page


def test_a_page_without_its_markers_is_refused():
    with pytest.raises(UsageError, match="each once"):
        replaced("no markers", "claims", "table")
    twice = "<!-- a: begin --><!-- a: end -->" * 2
    with pytest.raises(UsageError, match="each once"):
        replaced(twice, "a", "table")
    kept = replaced("x\n<!-- a: begin -->\n<!-- a: end -->\ny", "a", r"| \1 |")
    assert r"| \1 |" in kept
    assert replaced(kept, "a", "z") == replaced("x\n<!-- a: begin --><!-- a: end -->\ny", "a", "z")


def test_aggregation_matrices_are_the_features():
    assert (phi_of(MethodSetting(aggregation=2)) == aggregation(40, 2).toarray()).all()
