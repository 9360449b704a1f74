"""Predicted errors hold: within 15% of the mean over 100 simulated releases.

The whole table, to m = 10^6 and for every mechanism, is ``python -m benchmarks planning``.
"""

import dataclasses
import importlib
import sys
from pathlib import Path

import pytest

from privalue.planning import Forecaster, public_model

sys.path.append(str(Path(__file__).parents[2]))  # benchmarks is not installed
bench = importlib.import_module("benchmarks.planning")

NAMES = {"dp-lsw, exact", "dp-lsl, exact", "dp-ssp", "dp-lsw, exact, pseudo_count = 100"}


@pytest.fixture(scope="module")
def worlds():
    return {described.study.name: (world, described) for world, described in bench.settings()}


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "numbers", "least"),
    [
        ("chain", (10**3, 10**4, 10**5, 10**6), 11),
        ("FrozenLake", (10**3, 10**4), 6),
        ("ICU-Sepsis, 10 groups", (10**3, 10**4), 5),
    ],
)
def test_predictions_are_right(worlds, name, numbers, least):
    world, described = worlds[name]
    compared = list(bench.comparisons(world, described, numbers, names=NAMES))
    assert len(compared) >= least  # below the guessing line
    for m, option, predicted, mean, _, _ in compared:
        assert predicted == pytest.approx(mean, rel=0.15), f"{name}, m = {m}, {option.label}"


def test_a_wrong_model_would_be_found_out(worlds):
    """The comparison can fail: half the visits, or returns that do not vary."""
    world, described = worlds["ICU-Sepsis, 10 groups"]
    model = public_model(described, world)
    found = {
        option.label: (option, predicted, mean)
        for _, option, predicted, mean, _, _ in bench.comparisons(
            world, described, (10**4,), names={"dp-ssp"}
        )
    }
    option, predicted, mean = found["dp-ssp"]
    assert predicted == pytest.approx(mean, rel=0.15)
    rarer = dataclasses.replace(model, visits=model.visits / 2)
    assert Forecaster(option, rarer).at(10**4).rmse > 1.15 * mean
    steady = dataclasses.replace(model, variances=model.variances / 4)
    assert Forecaster(option, steady).at(10**4).rmse < 0.85 * mean
