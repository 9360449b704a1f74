"""Predicted errors hold: within 15% of the mean over 100 simulated releases, with a world.

From the study alone they are a range, which holds for most of some random worlds. The whole tables
are ``python -m benchmarks planning``.
"""

import dataclasses

import numpy as np
import pytest

from benchmarks import planning as bench
from privalue.planning import Forecaster, Option, public_model

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


# Ranges, from the study alone

SEED = 1_000_000_017  # of no world that anything was tuned on


@pytest.fixture(scope="module")
def planned():
    """Random worlds of moderate size, each with its actual error and its study."""
    found = []
    for setting in bench.random_settings(SEED, 60):
        if setting.trajectories > 20_000 or setting.states > 120:
            continue
        described = setting.study()
        counted = setting.statistics(described, seed=99).counts > 0
        actual, _ = bench.actual_error(setting, described, counted, datasets=1, noises=6)
        found.append((described, setting.trajectories, actual))
    assert len(found) >= 16
    return found


def above(planned, case):
    """The share of actual errors that lie above what one case of a study predicts."""
    return np.mean(
        [
            actual > Forecaster(Option(study=described), case(described), draws=4).at(m).rmse
            for described, m, actual in planned
        ]
    )


def test_actual_errors_lie_inside_the_range(planned):
    """The bars are 80% inside and 10% above; few worlds leave room for chance, and are seeded."""
    inside = np.mean(
        [
            found.optimistic <= actual <= found.cautious
            for described, m, actual in planned
            for found in [
                Forecaster(Option(study=described), public_model(described), draws=8, ends=True).at(
                    m
                )
            ]
        ]
    )
    assert inside >= 0.75
    assert above(planned, lambda described: public_model(described).cautious) <= 0.15


def test_a_cautious_end_without_rare_states_would_be_found_out(planned):
    """Planted: as many visits in all, but none of the states is rarer than another."""

    def even(described):
        model = public_model(described).cautious
        level = np.full(described.state_count, model.distinct_states / described.state_count)
        return dataclasses.replace(model, visits=level)

    assert above(planned, lambda described: public_model(described).cautious) <= bench.ABOVE
    # A stage that finds a smaller bound makes errors small whatever is assumed of visits.
    whole = [one for one in planned if "bounds" not in one[0].stages]
    cautious = above(whole, lambda described: public_model(described).cautious)
    assert above(whole, even) >= cautious + 0.05


def test_visits_that_ignore_the_limit_would_be_found_out():
    """Planted: 1/N, 2/N, ..., 1, whatever H is, which was assumed once."""
    described = bench.study("chain", states=200)
    option = Option(study=described.replace(max_states_per_trajectory=3))
    alone = public_model(option.study)
    true = public_model(option.study, bench.parse_world("chain:N=200"))
    ignoring = dataclasses.replace(true, visits=np.arange(1, 201) / 200)
    actual, planted = (
        Forecaster(option, model, draws=8).at(10**6).rmse for model in (true, ignoring)
    )
    found = Forecaster(option, alone, draws=8, ends=True).at(10**6)
    assert 0.9 * found.optimistic < actual < found.cautious  # all are visited alike
    assert planted < 0.5 * actual
