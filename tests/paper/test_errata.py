"""docs/errata.md, number by number: the published bounds fail on the paper's own chain.

[BGP16] section 6: N = 40, p = 0.5, discount 0.99, epsilon = delta = 0.1, uniform start. Published
figures that are refuted here are the paper's formulas; nothing is compared with a stored result
except what docs/errata.md prints.
"""

import math
from pathlib import Path

import numpy as np
import pytest

from oracles.limits import smooth_lsl, smooth_lsw
from privalue.core import Design, calibration
from privalue.paper import chain_statistics, theory
from privalue.simulation import MarkovRewardProcess, parse_world
from privalue.study import aggregation

PAGE = (Path(__file__).parents[2] / "docs" / "errata.md").read_text()
CHAIN = parse_world("chain")
SIZES = [10, 30, 100, 300, 1000, 3000, 10**4, 10**5, 140_000, 300_000, 10**6]


def tabular(process, m, ridge=math.inf):
    states = process.states
    return theory.Setting(
        design=Design(phi=aggregation(states, 1), weights=np.ones(states)),
        calibration=calibration.published_pair("nissim", 0.1, 0.1, states),
        visits=process.visits.single,
        joint=process.visits.joint,
        trajectories=m,
        largest=1.0,
        ridge=ridge,
    )


def chain(m, ridge=math.inf):
    return tabular(CHAIN.process, m, ridge)


def ward(states, m):
    """Every trajectory visits one state and ends there, each state as often."""
    process = MarkovRewardProcess.tabular(
        transitions=np.eye(states),
        rewards=np.ones(states),
        start=np.full(states, 1 / states),
        discount=0.99,
        absorbing=range(states),
    )
    return tabular(process, m, 2.0)


def simulate(function, m, ridge=math.inf, draws=100):
    x = chain(m, ridge)
    values = [
        function(x, chain_statistics(CHAIN, trajectories=m, seed=seed).counts)
        for seed in range(draws)
    ]
    return np.mean(values), np.std(values) / math.sqrt(draws)


def ward_excess(states, m, draws=20):
    x = ward(states, m)
    counts = np.random.default_rng(3).multinomial(m, x.visits, size=draws)
    values = [theory.lsl_excess_given_counts(x, row) for row in counts]
    return np.mean(values), np.std(values) / math.sqrt(draws)


def rows(heading):
    """The table that follows a heading, as lists of cells."""
    section = PAGE.split(f"\n## {heading}")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def numbers(cells):
    return [float(cell.replace(",", "")) for cell in cells]


# 1. DP-LSW


@pytest.mark.parametrize("m", SIZES)
def test_the_corrected_bounds_of_lsw_hold_on_the_chain(m):
    x = chain(m)
    true = theory.expected_lsw_excess(x)
    mean, error = simulate(theory.lsw_excess_given_counts, m)
    assert true.lower <= mean + 5 * error
    assert mean - 5 * error <= true.upper
    assert true.upper <= theory.lsw_excess_bound(x) <= theory.lsw_excess_short_bound(x)
    if m >= 30:
        assert true.lower > 2 * theory.lsw_excess_bound_as_published(x)
        assert true.lower > 2 * theory.lsw_excess_short_bound_as_published(x)


def test_the_table_of_lsw():
    table = rows("1. ")
    assert len(table) == 8
    for cells in table:
        m, short, long, low, high, sample, corrected, corrected_short = numbers(cells)
        x = chain(int(m))
        true = theory.expected_lsw_excess(x)
        computed = (
            theory.lsw_excess_short_bound_as_published(x),
            theory.lsw_excess_bound_as_published(x),
            true.lower,
            true.upper,
            theory.lsw_excess_bound(x),
            theory.lsw_excess_short_bound(x),
        )
        printed = (short, long, low, high, corrected, corrected_short)
        assert printed == pytest.approx(computed, rel=5.1e-3, abs=0)
        assert 0.95 * low <= sample <= 1.05 * high


# 2. DP-LSL


def test_the_published_bound_of_lsl_is_72_times_too_small_on_a_ward():
    x = ward(240, 2400)
    mean, error = ward_excess(240, 2400)
    assert (mean - 5 * error) / theory.lsl_excess_bound_as_published(x) > 72
    assert mean / theory.lsl_excess_bound_as_published(x) == pytest.approx(72.2, rel=1e-3, abs=0)


@pytest.mark.parametrize("m", SIZES)
@pytest.mark.parametrize("ridge", [1.01, 10.0, 1000.0])
def test_the_corrected_bounds_of_lsl_hold_on_the_chain(m, ridge):
    x = chain(m, ridge)
    mean, error = simulate(theory.lsl_excess_given_counts, m, ridge=ridge, draws=30)
    assert mean - 5 * error <= theory.lsl_excess_summed_bound(x)
    assert theory.lsl_excess_summed_bound(x) <= theory.lsl_excess_bound(x)


def test_the_table_of_lsl():
    table = rows("2. ")
    assert len(table) == 8
    for world, *cells in table:
        states, ridge, m, published, sample, ratio, summed, corrected = numbers(cells)
        if world == "ward":
            assert ridge == 2
            x, (mean, error) = ward(int(states), int(m)), ward_excess(int(states), int(m))
        else:
            x = chain(int(m), ridge)
            mean, error = simulate(theory.lsl_excess_given_counts, int(m), ridge=ridge)
        computed = (
            theory.lsl_excess_bound_as_published(x),
            theory.lsl_excess_summed_bound(x),
            theory.lsl_excess_bound(x),
        )
        assert (published, summed, corrected) == pytest.approx(computed, rel=7e-3, abs=0)
        assert sample == pytest.approx(mean, rel=7e-3, abs=6 * error)
        assert ratio == pytest.approx(sample / published, rel=2e-2, abs=0)


# 3. Rates


def test_the_rate_of_lsw_stands_and_sets_in_late():
    late = [theory.lsw_excess_bound(chain(m)) for m in (1_600_000, 16_000_000)]
    assert late[0] / late[1] == pytest.approx(100, rel=0.05, abs=0)
    assert 20 / (chain(10).calibration.beta / 40) == pytest.approx(1.4e6, rel=0.02, abs=0)
    early = [theory.expected_lsw_excess(chain(m)).lower for m in (10**5, 10**6)]
    assert early[0] / early[1] > 10**5  # nothing like 100 yet
    truth = [theory.expected_lsw_excess(chain(m)).lower for m in (10, 1000)]
    assert truth[0] < 2 * truth[1]


def test_the_rate_of_lsl_stands():
    """lambda = m: the excess falls like 1/m^2."""
    bounds = [theory.lsl_excess_bound(chain(m, ridge=float(m))) for m in (10**6, 10**7)]
    assert bounds[0] / bounds[1] == pytest.approx(100, rel=0.01, abs=0)


# 4, 5. Lemma 1


@pytest.mark.parametrize(
    ("d", "delta", "first"),
    [(1, 0.1, 50.53), (2, 0.1, 56.80), (40, 0.1, 206.94), (1, 1e-6, 111.08)],
)
def test_lemma_1_fails_from_some_epsilon_on(d, delta, first):
    assert f"{first:.2f}" in PAGE
    assert theory.lemma_1_delta(first - 0.02, delta, d).upper <= delta
    assert theory.lemma_1_delta(first + 0.01, delta, d).lower > delta
    assert theory.lemma_1_delta(3 * first, delta, d).lower > 1.5 * delta
    for epsilon in np.linspace(0.1, first - 0.02, 25):
        assert theory.lemma_1_delta(float(epsilon), delta, d).upper <= delta


def test_other_numbers_about_lemma_1():
    assert theory.lemma_1_delta(60.0, 0.1, 1).estimate == pytest.approx(0.17, abs=5e-3)
    pair = calibration.published_pair("nissim", 0.1, 0.1, 40)
    assert theory.lemma_1_delta(0.1, 0.1, 40).estimate == pytest.approx(1.5e-22, rel=0.03, abs=0)
    twice = calibration.privacy_profile(pair.alpha, 2 * pair.beta, 40, 0.1)
    assert twice.estimate == pytest.approx(2.1e-16, rel=0.03, abs=0)
    counts = 2500 * np.arange(1, 41)
    strict, plain = (smooth_lsw(counts, np.ones(40), b) for b in (pair.beta, 2 * pair.beta))
    assert math.sqrt(strict / plain) == pytest.approx(2.07, abs=5e-3)


# 6. max for min


@pytest.mark.parametrize(("m", "ridge", "ratio"), [(100, 10.0, 2.01), (10**4, 100.0, 1.33)])
def test_max_for_min_costs_noise_but_no_privacy(m, ridge, ratio):
    x, counts = chain(m, ridge), np.arange(1, 41) * m // 40
    beta = x.calibration.beta
    # From k = 1/beta on e^{-k beta} phi_k falls, since ln phi_k grows by at most 1/k a step.
    literal = max(
        math.exp(-k * beta) * theory.phi_lsl_as_published(x, counts, k)
        for k in range(math.ceil(1 / beta) + 2)
    )
    true = smooth_lsl(
        counts, np.ones(40), m, beta, slope=1 / math.sqrt(2 * ridge), offset=math.sqrt(40)
    )
    assert math.sqrt(literal / true) == pytest.approx(ratio, abs=5e-3)
    assert literal >= true


# 8. sigma


def test_sigma_distinguishes_neighbours():
    counts = 250 * np.arange(1, 41)
    near = counts + (np.arange(40) < 39)  # one starts in state 0 and not in state 39
    pair = calibration.published_pair("nissim", 0.1, 0.1, 40)
    one, other = (
        pair.alpha * math.sqrt(smooth_lsw(n, np.ones(40), pair.beta)) for n in (counts, near)
    )
    assert (one, other) == pytest.approx((194.740, 194.684), abs=6e-4)
