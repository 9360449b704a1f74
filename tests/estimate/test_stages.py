"""The published share of trajectories beyond the chosen bound, and its interval."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from oracles.studies import make_study
from privalue.curator import prepare
from privalue.estimate.stages import stage_parts

SSP = {"name": "dp-ssp", "calibration": "exact", "stages": ["bounds"]}
M = 1000


def mechanism_of(neighbours="replace-one"):
    prepared_study = prepare(make_study(3, privacy={"neighbours": neighbours}, mechanism=SSP))
    size = prepared_study.mechanism.terms.size
    size = dataclasses.replace(size, units=M) if neighbours == "replace-one" else size
    return prepared_study.mechanism_for(size)


def share_beyond(mechanism, numbers, level=3):
    mechanism.rules = SimpleNamespace(choose_level=lambda *_: level)
    parts = stage_parts(mechanism, {"bounds": np.array(numbers)}, 0.95)
    return parts["stages"][0].chosen.beyond


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_intervals_cover_shares_as_often_as_they_say(neighbours, share):
    """10,000 seeded draws around the true numbers, at the level of one bound of eleven, or more."""
    mechanism, draws = mechanism_of(neighbours), 10_000
    truth = np.zeros(12)
    truth[2], truth[7] = (1 - share) * M, share * M
    generator = np.random.default_rng(6)
    hits = 0
    for error in generator.standard_normal((draws, len(truth))):
        estimate = share_beyond(mechanism, truth + mechanism.bounds_sigma * error)
        hits += estimate.low <= share <= estimate.high + 1e-9  # odds have an upper bound
    level = 0.95 ** (1 / 11)
    slack = 5 * (level * (1 - level) / draws) ** 0.5
    assert hits / draws >= level - slack
    if share == 0.3:
        assert hits / draws <= level + slack


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
def test_the_bound_may_be_chosen_by_the_same_histogram(neighbours):
    """Whichever is chosen: all eleven intervals hold together, where each at 0.95 would not."""
    mechanism, draws = mechanism_of(neighbours), 1000
    truth = np.full(12, M / 12)
    shares = [1 - (level + 1) / 12 for level in range(11)]
    generator = np.random.default_rng(7)
    hits = 0
    for error in generator.standard_normal((draws, len(truth))):
        numbers = truth + mechanism.bounds_sigma * error
        bands = [share_beyond(mechanism, numbers, level) for level in range(11)]
        hits += all(one.low <= share <= one.high for one, share in zip(bands, shares, strict=True))
    assert hits / draws >= 0.95


@pytest.mark.parametrize("number", [-500.0, 1500.0])
def test_no_interval_vanishes_where_noise_leads_outside(number):
    """A noisy number far below 0, or above all trajectories, says little; it is not certain."""
    share = share_beyond(mechanism_of(), [0.0] * 11 + [number])
    assert share.low < share.high
    assert share.value in (0.0, 1.0)
    assert share.low <= share.value <= share.high


def test_no_share_is_published_beyond_the_studys_own_bounds():
    assert share_beyond(mechanism_of(), [0.0] * 12, level=11) is None
