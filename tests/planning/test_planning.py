"""Planning: the law of first-visit returns, made-up statistics, predictions, inversion, words."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import privalue as pv
from oracles import literal
from oracles import reading as local
from oracles.studies import in_sections
from privalue.core import MOST_TRAJECTORIES
from privalue.errors import StudyError, UsageError
from privalue.planning import (
    Forecaster,
    Option,
    PublicModel,
    advice,
    epsilon_for,
    forecast,
    options_of,
    predict,
    public_model,
    shown,
    trajectories_for,
    unvisited_states,
    unvisited_words,
)
from privalue.planning._assumed import even_spread, skewed_visits
from privalue.planning._draws import Draws, binomial_quantiles, bounded_means, normal_scores
from privalue.planning._invert import with_aggregation, with_epsilon
from privalue.planning._model import raw_states
from privalue.planning._options import main_options
from privalue.planning._predict import guessing_error, planned_size
from privalue.planning._returns import first_visits, second_moments
from privalue.report._plan_words import (
    answer_in_words,
    approximation_shown,
    paragraph,
    verdict,
)
from privalue.simulation import (
    END,
    MarkovRewardProcess,
    Outcomes,
    World,
    parse_world,
    return_range,
)
from privalue.study._terms import public_size

CHAIN = parse_world("chain:N=5")


def study(count=5, *, privacy=None, mechanism=None, **sections):
    privacy = {"epsilon": 1.0, "delta": 1e-6, "unit": "trajectory", **(privacy or {})}
    values = {"discount": 0.99, "rewards": (0.0, 1.0), "returns": (0.0, 1.0)}
    values.update(sections.pop("values", {}))
    return in_sections(
        privacy=privacy,
        values=values,
        states=sections.pop("states", {"count": count}),
        mechanism={"name": "dp-lsw", **(mechanism or {})},
        **sections,
    )


@pytest.fixture(scope="module")
def chain_model():
    return public_model(study(), CHAIN)


# The law of first-visit returns, against all paths of a small process


def small_process(seed, states=5, discount=0.9):
    """A process without loops: every path is finite, and all of them can be listed."""
    generator = np.random.default_rng(seed)
    rows, chances, successors, rewards = [], [], [], []
    for state in range(states):
        heads = [*range(state + 1, states), END]
        weights = generator.dirichlet(np.ones(2 * len(heads)))
        rows += [state] * len(weights)
        chances += weights.tolist()
        successors += heads * 2  # two rewards on the way to each
        rewards += generator.normal(size=len(weights)).tolist()
    return MarkovRewardProcess(
        outcomes=Outcomes(
            states=states,
            actions=1,
            rows=rows,
            probabilities=chances,
            successors=successors,
            rewards=rewards,
        ),
        start=generator.dirichlet(np.ones(states)),
        discount=discount,
    )


def paths(process):
    """(probability, states, rewards) of every path."""
    outcomes = process.outcomes
    todo = [(p, [s], []) for s, p in enumerate(process.start)]
    while todo:
        chance, states, rewards = todo.pop()
        begin, end = outcomes.offsets[states[-1]], outcomes.offsets[states[-1] + 1]
        for k in range(begin, end):
            p = chance * outcomes.probabilities[k]
            paid = [*rewards, outcomes.rewards[k]]
            if outcomes.successors[k] == END:
                yield p, states, paid
            else:
                todo.append((p, [*states, int(outcomes.successors[k])], paid))


def literal_first_visits(process, state_of, states):
    """Sums over all paths: the chance of a visit, and moments of the return from the first one."""
    visits, first, second = np.zeros(states), np.zeros(states), np.zeros(states)
    for chance, path, rewards in paths(process):
        met = [state_of[raw] for raw in path]
        for state in set(met):
            at = met.index(state)
            value = sum(process.discount**t * r for t, r in enumerate(rewards[at:]))
            visits[state] += chance
            first[state] += chance * value
            second[state] += chance * value**2
    return visits, first / visits, second / visits - (first / visits) ** 2


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("groups", [[0, 1, 2, 3, 4], [0, 1, 0, 1, 1], [0, 0, 0, 0, 0]])
def test_first_visits_are_those_of_all_paths(seed, groups):
    process, state_of = small_process(seed), np.array(groups)
    found = first_visits(process, state_of, max(groups) + 1)
    visits, means, variances = literal_first_visits(process, state_of, max(groups) + 1)
    assert found.visits == pytest.approx(visits, rel=1e-9)
    assert found.means == pytest.approx(means, rel=1e-9)
    assert found.variances == pytest.approx(variances, rel=1e-9)


def test_second_moments_without_the_cross_term_would_be_found_out():
    process = small_process(1)
    _, means, variances = literal_first_visits(process, np.arange(5), 5)
    outcomes = process.outcomes
    squares = np.bincount(outcomes.rows, outcomes.probabilities * outcomes.rewards**2)
    wrong = np.linalg.solve(np.eye(5) - 0.81 * process.transitions.toarray(), squares)
    assert second_moments(process) - means**2 == pytest.approx(variances, rel=1e-9)
    assert np.abs(wrong - means**2 - variances).max() > 0.01


@pytest.mark.parametrize("seed", range(3))
def test_the_range_of_returns_is_that_of_all_paths(seed):
    process = small_process(seed)
    returns = [
        sum(process.discount**t * r for t, r in enumerate(rewards[at:]))
        for _, path, rewards in paths(process)
        for at in range(len(path))
    ]
    assert return_range(process) == pytest.approx((min(returns), max(returns)), rel=1e-9)


def test_rewards_on_a_loop_have_no_bound_without_discount():
    process = parse_world("garnet:N=4").process
    endless = MarkovRewardProcess(outcomes=process.outcomes, start=process.start, discount=1.0)
    assert return_range(endless)[1] == math.inf
    assert return_range(process)[1] < 20


def test_large_worlds_are_solved_sparsely(monkeypatch):
    from privalue.planning import _returns as returns

    process = parse_world("garnet:N=30").process
    groups = np.arange(30) // 2
    dense = first_visits(process, groups, 15)
    monkeypatch.setattr(returns, "_DENSE", 3)
    found = first_visits(process, groups, 15)
    assert found.visits == pytest.approx(dense.visits, rel=1e-9)
    assert found.means == pytest.approx(dense.means, rel=1e-9)
    assert returns.expected_length(process) == pytest.approx(process.visits.expected_length)


def test_a_state_that_nobody_reaches_has_a_value_and_no_visits():
    lake = parse_world("gym:FrozenLake-v1").process
    found = first_visits(lake, np.arange(16), 16)
    assert found.visits[5] == 0
    assert found.means[5] == 0
    assert found.visits == pytest.approx(lake.visits.single, abs=1e-12)
    assert found.means == pytest.approx(lake.values, abs=1e-12)


# Models


def test_the_chain_is_exact(chain_model):
    assert chain_model.visits == pytest.approx(np.arange(1, 6) / 5)
    assert chain_model.values == pytest.approx(CHAIN.process.values)
    assert chain_model.means == pytest.approx(CHAIN.process.values)
    assert chain_model.known
    assert not any("simulating" in line for line in chain_model.assumptions)


def test_the_studys_discount_counts_not_the_worlds():
    model = public_model(study(values={"discount": 0.5}), CHAIN)
    assert model.values == pytest.approx(parse_world("chain:N=5,discount=0.5").process.values)


def test_what_is_clamped_or_limited_is_simulated_and_said():
    narrow = public_model(study(values={"returns": (0.0, 0.97)}), CHAIN)
    assert narrow.means.max() <= 0.97
    assert narrow.values.max() == pytest.approx(1.0)
    assert any("clamped" in line for line in narrow.assumptions)
    limited = public_model(study(privacy={"max_states_per_trajectory": 2}), CHAIN)
    # a trajectory from s counts for s and s + 1: 1/5, then 2/5 each
    assert limited.visits == pytest.approx([0.2, 0.4, 0.4, 0.4, 0.4], abs=0.01)
    assert limited.means == pytest.approx(CHAIN.process.values)  # whatever came before
    assert any("first 2 states" in line for line in limited.assumptions)


def test_a_clamped_world_has_no_floor_from_its_own_simulation():
    """The means are exact but for what clamping does; simulated ones were off, whatever m."""
    world = parse_world("garnet:N=20,seed=3")
    low, high = return_range(
        MarkovRewardProcess(
            outcomes=world.process.outcomes, start=world.process.start, discount=0.99
        )
    )
    described = study(20, values={"returns": (low, high - 0.01 * (high - low))})
    model = public_model(described, world)
    assert any("clamped" in line for line in model.assumptions)
    off = np.abs(model.means - model.values)  # nothing comes near the last hundredth
    assert off.max() < 1e-6
    found = forecast(Option(study=described), model, 10**9, draws=8)
    assert found.approximation < 1e-6


def test_what_clamping_does_is_the_paired_difference():
    """The chain's last state pays 1: from the state before, returns are 0.99^k, k > 0 geometric."""
    model = public_model(study(values={"returns": (0.0, 0.97)}), CHAIN)
    chances = 0.5 ** np.arange(1, 60)
    returns = 0.99 ** np.arange(1, 60)
    clamped = float(chances @ np.minimum(returns, 0.97))
    assert model.means[3] == pytest.approx(clamped, abs=2e-4)
    assert model.means[4] == pytest.approx(0.97, abs=1e-6)
    assert model.values[3] == pytest.approx(float(chances @ returns))


def test_a_limit_on_grouped_states_is_a_paired_difference_too():
    """Of group 1, only those count who start there: they are nearer to the end."""
    groups = {"count": 2, "groups": {"0": 0, "1": 0, "2": 1, "3": 1, "4": 1}}
    described = study(states=groups, privacy={"max_states_per_trajectory": 1})
    model = public_model(described, CHAIN)
    values = CHAIN.process.values
    assert model.values[1] == pytest.approx(0.6 * values[2] + 0.2 * values[3] + 0.2 * values[4])
    assert model.means[1] == pytest.approx(values[2:].mean(), abs=1e-3)
    assert model.means[0] == pytest.approx(model.values[0], abs=1e-6)  # it always comes first


def test_groups_are_read_from_the_raw_labels():
    grouped = study(states={"count": 2, "groups": {"0": 0, "1": 0, "2": 1, "3": 1, "4": 1}})
    model = public_model(grouped, CHAIN)
    assert model.visits == pytest.approx([0.4, 1.0])
    # who starts in 0 or 1 meets group 0 there; group 1 is met in 2 by those and by 2's own
    values = CHAIN.process.values
    assert model.values[0] == pytest.approx((values[0] + values[1]) / 2)
    assert model.values[1] == pytest.approx(0.6 * values[2] + 0.2 * values[3] + 0.2 * values[4])


def test_labels_are_matched_by_position_and_strangers_refused():
    named = study(states={"labels": ["a", "b", "c", "d", "e"]})
    assert raw_states(named, CHAIN.process).tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(StudyError, match="5 states and the study 4"):
        public_model(study(4), CHAIN)
    partly = study(states={"count": 1, "groups": {"0": 0, "1": 0}})
    with pytest.raises(StudyError, match='visit state "2"'):
        public_model(partly, CHAIN)


def test_an_endless_world_is_refused():
    outcomes = Outcomes(
        states=1, actions=1, rows=[0], probabilities=[1.0], successors=[0], rewards=[0.5]
    )
    process = MarkovRewardProcess(outcomes=outcomes, start=[1.0], discount=0.9)
    with pytest.raises(StudyError, match="may never end"):
        public_model(study(1), World(name="loop", parameters={}, process=process))


@pytest.mark.parametrize("unit", ["trajectory", "person"])
def test_simulated_batches_agree_with_the_engine(unit):
    """The batches go past the encoder; the same rows through the front door count the same."""
    from privalue.planning._model import BATCHES, _gathered, _moments, _sampled

    person = {"unit": "person", "max_trajectories_per_person": 3} if unit == "person" else {}
    groups = {"count": 2, "groups": {"0": 0, "1": 0, "2": 1, "3": 1, "4": 1}}
    described = study(states=groups, privacy={**person, "max_states_per_trajectory": 1})
    rows = _sampled(CHAIN.process)
    batches = _gathered(rows, np.array([0, 0, 1, 1, 1]), described.limits, (0.0, 1.0))
    assert len(batches) == BATCHES
    table = {
        "trajectory": rows.trajectory,
        "step": rows.step,
        "state": rows.state,
        "reward": rows.reward,
        "person": rows.trajectory,
    }
    import pandas as pd

    whole = local.statistics(pd.DataFrame(table), described)
    assert (sum(batch.counts for batch in batches) == whole.counts).all()
    assert (sum(batch.return_steps for batch in batches) == whole.return_steps).all()
    assert _moments(batches).visits == pytest.approx(whole.counts / whole.trajectories)


def test_a_world_says_what_a_stage_for_bounds_finds():
    """Rewards allow returns up to 100, and the world has none above 1: the noise is that of 1."""
    world, m = parse_world("chain:N=10"), 8_000
    described = pv.Study(
        trajectories=m,
        epsilon=1.0,
        delta=1e-6,
        unit="trajectory",
        discount=0.99,
        rewards=(0.0, 1.0),
        states=10,
    )
    assert "bounds" in described.stages
    option, model = Option(study=described), public_model(described, world)
    assert any("a stage of the release looks for" in words for words in model.assumptions)
    planned = forecast(option, model, m)
    rows, errors = pv.simulate(world, trajectories=m, seed=1), []
    for seed in range(24):
        found = np.array([value.value for value in pv.release(described, rows, seed=seed).values])
        errors.append(np.sqrt(np.mean(np.square(found - world.process.values))))
    assert 0.7 * planned.rmse < np.mean(errors) < 1.4 * planned.rmse
    # Without what the world says of returns, the whole range stays.
    blind = forecast(option, dataclasses.replace(model, levels=None), m)
    assert blind.rmse > 10 * planned.rmse
    # Visits by level add up, whatever chance adds; a second arm is like the first.
    for made in Draws(model, described, 8).statistics(997):
        assert (made.level_counts.sum(axis=1) == made.counts).all()
    both = model.in_every_arm(2)
    assert both.levels.shares.shape == (20, 24)
    narrow = described.model_copy(
        update={"values": {"discount": 0.99, "rewards": (0, 1), "returns": (0, 1)}}
    )
    assert public_model(narrow, world).levels is None


def test_the_study_alone_assumes_and_says_so():
    model = public_model(study(4))
    assert model.visits.sum() == pytest.approx(2.5)
    assert not model.known
    assert any("no prior" in line for line in model.assumptions)
    assert not any("upper bound" in line for line in model.assumptions)
    assert model.variances == pytest.approx(model.values * (1 - model.values))
    prior = study(states={"count": 2, "visits": {"0": 0.5, "1": 0.0}})
    found = public_model(prior)
    assert found.visits == pytest.approx([0.5, 0.0])
    assert found.optimistic.visits == pytest.approx([0.625, 0.0])
    assert found.cautious.visits == pytest.approx([0.375, 0.0])
    assert any("the study's prior" in line for line in found.assumptions)


@given(st.integers(1, 300), st.floats(0, 1), st.floats(0, 3))
def test_skewed_visits_are_zipfs_and_add_up(states, share, skew):
    total = 1 + share * (states - 1)
    visits = skewed_visits(states, total, skew)
    assert visits.sum() == pytest.approx(total)
    assert visits.min() > 0
    assert visits.max() <= 1
    below = visits < 1
    shape = (visits * np.arange(1, states + 1) ** skew)[below]
    assert shape == pytest.approx(np.full(below.sum(), shape[0] if below.any() else 0.0))
    assert (np.diff(visits) <= 1e-12).all()


@pytest.mark.parametrize("limit", [1, 3, 6, None])
@pytest.mark.parametrize("prior", [False, True])
def test_assumed_visits_fit_the_limit_of_states(limit, prior):
    """What was assumed before, 1/N, 2/N, ..., 1, does not: a trajectory counts for H states."""
    states = {"count": 40, "visits": dict.fromkeys(map(str, range(40)), 0.5)} if prior else None
    privacy = {} if limit is None else {"max_states_per_trajectory": limit}
    model = public_model(study(40, privacy=privacy, **({"states": states} if prior else {})))
    for case in (model.optimistic, model, model.cautious):
        assert case.visits.sum() <= (limit or 40) * (1 + 1e-9)
    assert np.arange(1, 41).sum() / 40 > (limit or 0)
    if not prior:
        assert model.cautious.visits.min() < 0.1 * model.visits.min()  # it has rare states
        assert model.optimistic.visits.min() > model.visits.min() or limit == 1
    assert model.cautious.cautious is model.cautious.optimistic is None


@given(st.integers(1, 300), st.floats(-5, 5), st.floats(0.01, 10))
def test_even_values_are_as_far_from_the_middle_as_uniform_ones(count, low, width):
    values = even_spread(count, low, low + width)
    off = np.sqrt(np.mean((values - low - width / 2) ** 2))
    assert off == pytest.approx(width / math.sqrt(12), rel=1e-9)
    assert len(set(values)) == count
    assert low <= values.min()
    assert values.max() <= low + width


def test_features_can_represent_what_is_assumed():
    tied = study(6, features={"kind": "aggregate", "size": 2})
    values = public_model(tied).values
    assert (values[::2] == values[1::2]).all()
    phi = np.column_stack([np.ones(6), np.arange(6) / 6])
    line = public_model(study(6, features={"kind": "matrix", "matrix": phi})).values
    assert np.diff(line) == pytest.approx(np.diff(line)[0])


def test_a_model_of_impossible_numbers_is_refused():
    ones = np.ones(2)
    keys = {"means": ones, "values": ones, "known": True, "source": "", "assumptions": ()}
    with pytest.raises(UsageError, match="visits from 0 to 1"):
        PublicModel(visits=2 * ones, variances=ones, **keys)
    with pytest.raises(UsageError, match="variances"):
        PublicModel(visits=ones, variances=-ones, **keys)


# Made-up statistics


def test_scores_are_stratified_and_vary_together(chain_model):
    scores = normal_scores(chain_model, 400)
    assert scores.shape == (400, 10)
    for column in scores.T:
        assert np.sort(column) == pytest.approx(np.sort(scores[:, 0]))
    assert np.mean(scores**2, axis=0) == pytest.approx(1.0)
    counts = np.corrcoef(scores[:, :4].T)
    visits = CHAIN.process.visits  # the last state's count does not vary
    joint = visits.joint[:4, :4] - np.outer(visits.single[:4], visits.single[:4])
    spread = np.sqrt(np.diag(joint))
    assert counts == pytest.approx(joint / np.outer(spread, spread), abs=0.15)


@given(st.integers(1, 10**6), st.floats(0, 1), st.integers(0, 5))
@settings(max_examples=60)
def test_counts_are_binomial_quantiles(trials, chance, seed):
    scores = np.random.default_rng(seed).normal(size=(7, 1))
    counts = binomial_quantiles(scores, trials, np.array([chance]))
    exact = stats.binom.ppf(stats.norm.cdf(scores), trials, chance)
    spread = math.sqrt(trials * chance * (1 - chance))
    assert np.abs(counts - exact).max() <= max(1, 0.02 * spread)
    assert counts.min() >= 0
    assert counts.max() <= trials


@pytest.mark.parametrize("mean", [0.02, 0.5, 0.97])
@pytest.mark.parametrize("visits", [1, 3, 50, 10**6])
def test_mean_returns_have_their_moments_and_stay_inside(mean, visits):
    variance = 0.5 * mean * (1 - mean)
    model = PublicModel(
        visits=np.ones(1),
        means=np.array([mean]),
        variances=np.array([variance]),
        values=np.array([mean]),
        known=True,
        source="",
        assumptions=(),
    )
    scores = stats.norm.ppf((np.arange(4000) + 0.5) / 4000)[:, None]
    drawn = bounded_means(scores, np.full((4000, 1), visits), model, (0.0, 1.0))
    assert drawn.mean() == pytest.approx(mean, abs=0.02 * math.sqrt(variance / visits) + 1e-9)
    assert drawn.std() == pytest.approx(math.sqrt(variance / visits), rel=0.03)
    assert drawn.min() >= 0
    assert drawn.max() <= 1


@pytest.mark.parametrize("m", [1, 2, 1000, MOST_TRAJECTORIES])
def test_any_number_of_trajectories_can_be_made_up(chain_model, m):
    draws = Draws(chain_model, study(), 12)
    for made in [*draws.statistics(m), draws.expected(m)]:
        assert made.trajectories == m
        assert (made.counts >= 0).all()
        assert (made.counts <= m).all()
        assert (made.return_steps >= 0).all()
        assert (made.return_steps <= made.counts * 2**30).all()


def test_the_same_draws_every_time(chain_model):
    first, again = (Draws(chain_model, study(), 12).statistics(100) for _ in range(2))
    assert all(a == b for a, b in zip(first, again, strict=True))


# Predictions


@pytest.mark.parametrize("unit", ["trajectory", "person"])
@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
def test_planned_sizes_are_those_of_a_release(chain_model, unit, neighbours):
    privacy = {"unit": unit, "neighbours": neighbours}
    if unit == "person":
        privacy["max_trajectories_per_person"] = 3
    described = study(privacy=privacy, study={"trajectories": 100})
    made = Draws(chain_model, described, 8).statistics(100)[0]
    assert planned_size(described, 100) == public_size(described, made)


def test_noise_is_that_of_the_literal_formula(chain_model):
    """alpha R sqrt(psi) for every state, psi written out, at the expected counts.

    R is 3: the bounds are far from all values, and nothing is clipped.
    """
    described = study(mechanism={"calibration": "nissim"}, values={"returns": (-1.0, 2.0)})
    found = forecast(Option(study=described), chain_model, 50_000, draws=200)
    log = math.log(2 / 1e-6)
    alpha, beta = 5 * math.sqrt(2 * log), 1 / (4 * (5 + log))
    counts = [10_000, 20_000, 30_000, 40_000, 50_000]
    sigma = 3 * alpha * math.sqrt(literal.psi_lsw(counts, [1.0] * 5, beta))
    mean_of_chi = math.sqrt(2 / 5) * math.gamma(3) / math.gamma(2.5)
    assert found.noise == pytest.approx(sigma * mean_of_chi, rel=0.03)
    wrong = 1.1 * sigma * mean_of_chi  # ten percent would be noticed
    assert found.noise != pytest.approx(wrong, rel=0.03)


def test_sampling_error_is_that_of_means(chain_model):
    found = forecast(Option(study=study()), chain_model, 50_000, draws=200)
    expected = np.sqrt(np.mean(chain_model.variances / (50_000 * chain_model.visits)))
    assert found.sampling == pytest.approx(expected, rel=0.25)  # a mean of roots is below a root
    assert found.sampling < 1.02 * expected


def test_approximation_error_is_that_of_the_features(chain_model):
    tied = with_aggregation(study(), 5)
    found = forecast(Option(study=tied), chain_model, 50_000)
    assert found.approximation == pytest.approx(np.std(chain_model.values), rel=1e-6)
    parts = math.hypot(found.noise, found.sampling, found.approximation)
    assert found.rmse == pytest.approx(parts, rel=0.02)
    assert found.by_state.shape == (5,)


def test_a_prediction_compares_everything(chain_model):
    calls = []
    found = predict(
        study(),
        chain_model,
        trajectories=20_000,
        draws=12,
        progress=lambda done, total: calls.append((done, total)),
    )
    assert calls[0] == (0, len(calls))
    errors = [f.rmse for f in found.forecasts]
    assert errors == sorted(errors)
    assert found.best.rmse == errors[0]
    assert found.chosen.option.label == "dp-lsw, exact"
    assert {(f.option.mechanism, f.option.calibration) for f in found.forecasts} >= {
        ("dp-lsw", "exact"), ("dp-lsw", "nissim"), ("dp-lsw", "appendix"),
        ("dp-lsl", "exact"), ("dp-lsl", "nissim"), ("dp-lsl", "appendix"), ("dp-ssp", "exact"),
    }  # fmt: skip
    assert found.floor < found.chosen.rmse < found.guess
    values = CHAIN.process.values
    assert found.guess == pytest.approx(np.sqrt(np.mean((values - 0.5) ** 2)))
    again = predict(study(), chain_model, trajectories=20_000, draws=12)
    assert [f.rmse for f in again.forecasts] == errors


def test_what_is_refused_says_why(chain_model):
    large = study(privacy={"epsilon": 6.0})
    found = predict(large, chain_model, trajectories=1000, draws=8)
    refused = [f for f in found.forecasts if f.refused is not None]
    assert {f.option.label for f in refused} >= {"dp-lsw, appendix, isotropic"}
    assert "epsilon <= 5" in refused[0].refused
    assert found.forecasts[-1].refused is not None  # last, not first
    endless = study(privacy={"epsilon": 0.0005})
    hopeless = predict(endless, chain_model, trajectories=1000, draws=8)
    assert hopeless.hopeless
    assert "cannot be planned" in verdict(hopeless)
    assert "cannot be planned" in paragraph(hopeless)


def test_from_the_study_alone_the_error_is_a_range():
    described = study(20, mechanism={"name": "dp-ssp"})
    model = public_model(described)
    found = predict(described, model, trajectories=20_000, draws=16)
    assert found.ranged
    for made in found.forecasts:
        assert made.optimistic <= made.rmse <= made.cautious
    own = Option(study=described, chosen=True)
    assert found.chosen.optimistic < 0.5 * found.chosen.rmse < 0.25 * found.chosen.cautious
    for end, case in (("optimistic", model.optimistic), ("cautious", model.cautious)):
        assert getattr(found.chosen, end) == forecast(own, case, 20_000, draws=16).rmse
    without = predict(described, model, trajectories=20_000, draws=16, ends=False)
    assert without.chosen.range == (found.chosen.rmse, found.chosen.rmse)


def test_with_a_world_there_is_no_range(chain_model):
    found = predict(study(), chain_model, trajectories=20_000, draws=8)
    assert not found.ranged
    assert found.chosen.range == (found.chosen.rmse, found.chosen.rmse)
    assert "cautious" not in paragraph(found) + verdict(found)


def test_the_protocol_quotes_the_cautious_end():
    described = study(20, mechanism={"name": "dp-ssp"})
    found = predict(described, public_model(described), trajectories=20_000, draws=8)
    text, chosen = paragraph(found), found.chosen
    assert f"predicted under cautious assumptions to be {shown(chosen.cautious)}." in text
    assert f"{shown(chosen.optimistic)} under optimistic ones" in text
    assert "upper bound" not in text
    assert text.index(shown(chosen.cautious)) < text.index(f"{shown(chosen.rmse)} under middling")
    assert f"from {shown(chosen.optimistic)} (optimistic) to {shown(chosen.cautious)}" in verdict(
        found
    )


def test_a_target_is_for_the_cautious_end():
    described = Option(study=study(20, mechanism={"name": "dp-ssp"}), chosen=True)
    model = public_model(described.study)
    answer = trajectories_for(described, model, 0.03, draws=8)
    assert answer.cautious
    assert forecast(described, model.cautious, int(answer.value), draws=8).rmse <= 0.03
    assert trajectories_for(described, model.cautious, 0.03, draws=8).value == answer.value
    middling = dataclasses.replace(model, optimistic=None, cautious=None)
    assert trajectories_for(described, middling, 0.03, draws=8).value < 0.6 * answer.value


def test_a_target_says_what_it_takes_if_a_stage_finds_a_bound():
    """Bounds from rewards are loose: at the cautious end the stage finds nothing smaller."""
    loose = {"discount": 0.9, "rewards": (0.0, 1.0), "returns": None}
    staged = {"name": "dp-ssp", "stages": ["bounds"]}
    described = Option(study=study(20, values=loose, mechanism=staged), chosen=True)
    model = public_model(described.study)
    answer = trajectories_for(described, model, 0.3, draws=8)
    assert answer.fewest < 0.2 * answer.value
    assert f"{int(answer.fewest):,} at the optimistic end" in answer_in_words(answer)
    found = forecast(described, model, int(answer.fewest), draws=8, ends=True)
    assert found.optimistic <= 0.3 * 1.05 < found.cautious
    one = Option(study=study(20, values=loose, mechanism={**staged, "stages": "one"}), chosen=True)
    assert trajectories_for(one, model, 0.3, draws=8).fewest is None


def test_the_error_falls_smoothly_with_m(chain_model):
    forecaster = Forecaster(Option(study=study()), chain_model, draws=16)
    errors = [forecaster.at(m).rmse for m in np.geomspace(10**3, 10**6, 13).astype(int).tolist()]
    assert all(later < earlier for earlier, later in itertools.pairwise(errors))


def test_m_must_be_known_and_possible(chain_model):
    with pytest.raises(UsageError, match="trajectories=M"):
        predict(study(), chain_model)
    assert predict(
        study(study={"trajectories": 50}), chain_model, options=[Option(study=study())], draws=8
    ).trajectories == 50  # fmt: skip
    for wrong in (0, -1, 2**33, True, 1.5):
        with pytest.raises(UsageError, match="whole number"):
            predict(study(), chain_model, trajectories=wrong)


def test_states_of_no_weight_or_no_value_do_not_count(chain_model):
    weighted = study(weights={"values": [1, 1, 1, 1, 0]}, features={"kind": "aggregate", "size": 2})
    values = CHAIN.process.values
    assert guessing_error(weighted, chain_model) == pytest.approx(
        np.sqrt(np.mean((values[:4] - 0.5) ** 2))
    )
    nowhere = study(states={"count": 2, "groups": {str(raw): 0 for raw in range(5)} | {"x": 1}})
    model = public_model(nowhere, CHAIN)
    assert np.isnan(model.values[1])
    found = forecast(Option(study=nowhere), model, 1000, draws=8)
    assert math.isfinite(found.rmse)
    only = study(states=nowhere.states, weights={"values": [0, 1]})
    with pytest.raises(StudyError, match="has a value in the world"):
        guessing_error(only, model)


def test_a_single_state_and_a_single_trajectory():
    one = study(1)
    found = predict(one, public_model(one), trajectories=1, draws=8)
    assert found.hopeless
    assert found.guess == pytest.approx(math.sqrt(1 / 12))


def test_settings_that_nobody_asked_for_are_shown_only_if_they_help(chain_model):
    many = predict(study(), chain_model, trajectories=10**7, draws=8)
    assert not any("pseudo_count" in f.option.label for f in many.forecasts)
    few = predict(study(), chain_model, trajectories=600, draws=8)
    shown_counts = [f for f in few.forecasts if "pseudo_count" in f.option.label]
    assert len(shown_counts) == 1
    asked = study(mechanism={"pseudo_count": 1000.0})
    kept = predict(asked, chain_model, trajectories=10**7, draws=8)
    assert kept.chosen.option.detail == "pseudo_count = 1000"


def test_options_keep_the_ridge_that_the_study_gives():
    ridged = study(mechanism={"name": "dp-lsl", "ridge": 5.0})
    labels = [option.label for option in options_of(ridged, 1000)]
    assert labels[0] == "dp-lsl, exact, ridge = 5"
    assert "dp-lsl, nissim, ridge = 5" in labels
    assert not any("ridge_scale" in label for label in labels)
    assert len(set(labels)) == len(labels)


# Backwards


def test_trajectories_for_a_target(chain_model):
    option = Option(study=study())
    answer = trajectories_for(option, chain_model, 0.02)
    assert answer.reached
    assert answer.rmse <= 0.02
    assert forecast(option, chain_model, int(0.9 * answer.value)).rmse > 0.02
    assert forecast(option, chain_model, int(answer.value)).rmse == answer.rmse


def test_what_no_number_reaches_is_said(chain_model):
    tied = Option(study=with_aggregation(study(), 5))
    answer = trajectories_for(tied, chain_model, 0.001)
    assert not answer.reached
    assert "not reachable: even with 8,589,934,591 trajectories" in answer.reason
    refused = Option(study=study(privacy={"epsilon": 6.0}, mechanism={"calibration": "appendix"}))
    assert not trajectories_for(refused, chain_model, 0.1).reached


def test_a_target_that_one_trajectory_reaches(chain_model):
    assert trajectories_for(Option(study=study()), chain_model, 1e6).value == 1


def test_epsilon_for_a_target(chain_model):
    option = Option(study=study())
    answer = epsilon_for(option, chain_model, 0.02, trajectories=3000, draws=16)
    assert answer.rmse <= 0.02
    less = Option(study=with_epsilon(study(), 0.9 * answer.value))
    assert forecast(less, chain_model, 3000, draws=16).rmse > 0.02
    never = epsilon_for(option, chain_model, 1e-6, trajectories=3000, draws=8)
    assert "even with epsilon = 20" in never.reason
    appendix = Option(study=study(mechanism={"calibration": "appendix"}))
    assert "epsilon = 5" in epsilon_for(appendix, chain_model, 1e-6, trajectories=9, draws=8).reason


@pytest.mark.parametrize("wrong", [0.0, -1.0, math.nan, math.inf])
def test_a_target_is_a_number_above_zero(chain_model, wrong):
    with pytest.raises(UsageError, match="number above 0"):
        trajectories_for(Option(study=study()), chain_model, wrong)


# Advice


def test_advice_is_ranked_and_true(chain_model):
    described = study()
    found = predict(described, chain_model, trajectories=2000, draws=12)
    changes = advice(found, CHAIN, draws=12)
    errors = [change.rmse for change in changes]
    assert errors == sorted(errors)
    assert all(error <= 0.95 * found.chosen.rmse for error in errors)
    by_what = {change.what: change for change in changes}
    more = next(c for what, c in by_what.items() if "20,000" in what)
    own = forecast(Option(study=described), chain_model, 20_000, draws=12)
    assert more.rmse == pytest.approx(own.rmse)
    assert any("twice the epsilon, 2" in what for what in by_what)
    assert any("2 adjacent" in what for what in by_what)
    assert "another mechanism: dp-ssp" in by_what  # which has intervals


def test_advice_without_a_world_names_its_conditions():
    wide = study(30, values={"returns": (0.0, 8.0)})
    found = predict(wide, public_model(wide), trajectories=500, draws=8)
    changes = advice(found, draws=8)
    bounds = next(c for c in changes if "tighter bounds" in c.what)
    assert "[2, 6]" in bounds.what
    assert "publicly known" in bounds.condition
    assert any("nearly equal values" in c.condition for c in changes)


@pytest.mark.parametrize("returns", [(0.0, 1.0), None])
def test_no_mechanism_without_intervals_is_advised(returns):
    """dp-lsw is a little better here in the middle case, and would release no intervals."""
    tied = study(10, values={"returns": returns}, mechanism={"name": "dp-ssp"})
    found = predict(tied, public_model(tied), trajectories=20_000, draws=8)
    assert found.best.option.mechanism == "dp-lsw"
    changes = advice(found, draws=8)
    assert changes
    assert not any("dp-ls" in change.what or "mechanism" in change.what for change in changes)
    more = next(change for change in changes if "200,000" in change.what)
    own = forecast(Option(study=tied), found.model, 200_000, draws=8)
    assert more.rmse == pytest.approx(own.rmse)


def test_a_stage_that_looks_for_bounds_makes_the_range_wide():
    loose = study(10, values={"discount": 0.99, "returns": None}, mechanism={"name": "dp-ssp"})
    assert "bounds" in loose.stages
    planned = pv.plan(loose, trajectories=5000, draws=8)
    wide = [note for note in planned.notes if "range is wide" in note]
    assert len(wide) == 1
    assert "[values] returns" in wide[0]


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
def test_a_limit_of_states_is_advised_without_a_world(neighbours):
    """It never was, since 2 (N + 1)/2 states are not fewer than N."""
    many = study(40, mechanism={"name": "dp-ssp"}, privacy={"neighbours": neighbours})
    found = predict(many, public_model(many), trajectories=20_000, draws=8)
    changes = advice(found, draws=8)
    limited = next(c for c in changes if "max_states_per_trajectory = 10" in c.what)
    assert limited.condition == "if few trajectories visit more states"
    least = math.sqrt((20 if neighbours == "replace-one" else 10) / 40)  # the noise falls so far
    assert 0.8 * least < limited.rmse / found.chosen.rmse < 0.85
    narrow = study(40, mechanism={"name": "dp-ssp"}, privacy={"max_states_per_trajectory": 1})
    told = advice(predict(narrow, public_model(narrow), trajectories=20_000, draws=8), draws=8)
    assert not any("max_states_per_trajectory" in change.what for change in told)


def test_states_that_nobody_visits_are_named():
    lake = parse_world("gym:FrozenLake-v1")
    described = study(16)
    found = unvisited_states(described, public_model(described, lake))
    assert found == ["5", "7", "11", "12", "15"]  # the holes and the goal get no rows
    words = unvisited_words(found, "the world")
    assert words.startswith('by the world nobody visits states "5", "7", "11", "12", "15": leave')
    assert "leave them out of [states]" in words
    prior = study(states={"count": 3, "visits": {"0": 1.0, "1": 0.0, "2": 0.4}})
    for model in (None, public_model(prior)):
        assert unvisited_states(prior, model) == ["1"]
    one = unvisited_words(["1"], "the prior of visits")
    assert 'nobody visits state "1": leave it out' in one
    many = unvisited_words([str(s) for s in range(1200)], "the world")
    assert "and 1,195 more" in many
    assert unvisited_states(study(4), public_model(study(4))) == []
    assert unvisited_words([], "the world") is None


def test_advice_on_bounds_and_a_prior_from_a_world():
    lake = parse_world("gym:FrozenLake-v1")
    visited = np.flatnonzero(lake.process.reachable).tolist()
    groups = {str(raw): at for at, raw in enumerate(visited)}
    described = study(
        states={"count": len(visited), "groups": groups}, values={"returns": (0.0, 4.0)}
    )
    model = public_model(described, lake)
    found = predict(described, model, trajectories=20_000, draws=8)
    told = [change.what for change in advice(found, lake, draws=8)]
    assert any("[0, 1]" in what for what in told)
    assert any("prior of visits" in what for what in told)


def test_advice_on_a_limit_from_a_world():
    walk = parse_world("garnet:N=20,seed=0")
    described = study(20, mechanism={"name": "dp-ssp"}, values={"returns": (-30.0, 30.0)})
    own = [Option(study=described, chosen=True)]
    model = public_model(described, walk)
    found = predict(described, model, trajectories=20_000, options=own, draws=8)
    told = [change.what for change in advice(found, walk, draws=8)]
    assert any("max_states_per_trajectory = 6" in what for what in told)


@pytest.mark.parametrize("name", ["dp-ssp", "dp-lsw"])
def test_noise_has_nothing_to_do_with_the_data_that_it_falls_on(name):
    """Planted before: noise from the same random numbers as the data sets, two in a row."""
    everywhere = {"count": 3, "visits": {"0": 1.0, "1": 1.0, "2": 1.0}}
    described = study(states=everywhere, privacy={"epsilon": 0.3}, mechanism={"name": name})
    option, model = Option(study=described), public_model(described)
    errors = [
        Forecaster(option, model, draws=300, noises=noises).at(10_000).rmse
        for noises in (1, 2, 3, 4, 6)
    ]
    assert max(errors) < 1.1 * min(errors)


# Words


def test_hopeless_studies_are_told_so_first(chain_model):
    found = predict(study(), chain_model, trajectories=20, draws=8)
    assert found.hopeless
    assert verdict(found).startswith("Hopeless as it stands: with 20 trajectories, dp-lsw (exact)")
    assert "guessing 0.5 for every state" in verdict(found)
    fine = predict(study(), chain_model, trajectories=10**5, draws=8)
    assert not fine.hopeless
    assert "times better than guessing" in verdict(fine)


def test_the_paragraph_names_what_it_rests_on(chain_model):
    found = predict(study(), chain_model, trajectories=10**5, draws=8)
    answer = trajectories_for(found.chosen.option, chain_model, 0.02, draws=8)
    text = paragraph(found, answer)
    for part in (
        "5 states", "100,000 trajectories", "epsilon = 1", "delta = 1e-06", "[0, 1]",
        "one trajectory, replaced", "dp-lsw (exact)", shown(found.chosen.rmse),
        "the public world chain:N=5", "An error of at most 0.02 needs", "without privacy",
        "Before any data was opened",
    ):  # fmt: skip
        assert part in text
    person = study(
        privacy={"unit": "person", "max_trajectories_per_person": 3, "neighbours": "add-remove"}
    )
    told = paragraph(predict(person, public_model(person), trajectories=10**5, draws=8))
    assert "one person with all of up to 3 trajectories, added or removed" in told
    assert "every person has 3 trajectories" in told
    alone = study(privacy={"unit": "person", "max_trajectories_per_person": 1})
    told = paragraph(predict(alone, public_model(alone), trajectories=10**5, draws=8))
    assert "one person with one trajectory, replaced" in told


def test_an_unknown_approximation_is_never_a_zero(chain_model):
    tied = study(6, features={"kind": "aggregate", "size": 2})
    alone = predict(tied, public_model(tied), trajectories=5000, draws=8)
    cells = {f.option.label: approximation_shown(alone, f) for f in alone.forecasts}
    assert cells["dp-lsw, exact"] == "?"
    assert cells["dp-lsl, exact"].endswith(" + ?")
    assert "0" not in set(cells.values())
    assert "comes on top" in paragraph(alone)
    assert "at least" in verdict(alone)
    tabular = predict(study(), public_model(study()), trajectories=5000, draws=8)
    assert approximation_shown(tabular, tabular.chosen) == "0"  # any values fit


@given(st.floats(1e-12, 1e12))
def test_errors_are_short(error):
    assert len(shown(error)) <= 8
    assert float(shown(error).replace(",", "")) == pytest.approx(error, rel=0.06)


def test_every_main_option_is_a_complete_study():
    for option in main_options(study()):
        assert option.study.privacy.epsilon == 1.0
        assert option.label
