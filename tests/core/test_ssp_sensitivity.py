"""The sensitivity of DP-SSP against every pair of neighbours there is."""

import dataclasses
import functools
import math

import numpy as np
import pytest

from oracles import ssp
from oracles.limits import count_weight, sensitivity
from oracles.refusals import refused
from oracles.studies import make_study
from privalue.core import Ssp
from privalue.errors import StudyError
from privalue.study import declared_size, resolve

ROOT = math.sqrt(3) / 2
SHAPES = [[1.0], [2.0, 1.0], [1.0, 1.0, 1.0], [3.0, 0.5, 1.0], [1.0, 0.9, 0.1, 2.0]]
CASES = [
    (shape, most, weight, add_remove)
    for shape in SHAPES
    for most in [*range(1, len(shape) + 1), None]
    for weight in (0.2, 0.5, 0.7, ROOT, 1.3)
    for add_remove in (False, True)
]
PERSONS = [
    ([3.0, 0.5, 1.0], most, weight, times, add_remove)
    for most in (1, 2, 3)
    for weight in (0.3, 0.5, ROOT, 1.1)
    for times in (2, 3)
    for add_remove in (False, True)
]


def compute(shape, most, weight, times=1, add_remove=False):
    return sensitivity(
        np.array(shape),
        most_states=most,
        trajectories_per_person=times,
        add_remove=add_remove,
        count_weight=weight,
    )


@functools.cache
def exhaustive(shape, most, weight, times, add_remove):
    return ssp.sensitivity(shape, most, weight, times, add_remove)


def search(shape, most, weight, times=1, add_remove=False):
    return exhaustive(tuple(shape), most, weight, times, add_remove)


@pytest.mark.parametrize(("shape", "most", "weight", "add_remove"), CASES)
def test_it_is_the_largest_distance_of_neighbours(shape, most, weight, add_remove):
    exact = search(shape, most, weight, add_remove=add_remove)
    assert exact <= compute(shape, most, weight, add_remove=add_remove) <= exact * (1 + 1e-13)


@pytest.mark.parametrize(("shape", "most", "weight", "times", "add_remove"), PERSONS)
def test_it_is_the_largest_distance_of_persons(shape, most, weight, times, add_remove):
    exact = search(shape, most, weight, times, add_remove)
    assert exact <= compute(shape, most, weight, times, add_remove) <= exact * (1 + 1e-13)


# Planted mistakes: each must fall below the largest distance somewhere in the cases above.


def top(shape, count):
    return sum(sorted((omega**2 for omega in shape), reverse=True)[:count])


def only_h_states(shape, most, weight, times, add_remove):
    """Forgets that two trajectories touch up to 2H states."""
    limit = min(most or len(shape), len(shape))
    return times * math.sqrt(max(1, 0.25 + weight**2) * top(shape, limit))


def as_if_counts_were_free(shape, most, weight, times, add_remove):
    """R^2 for every state, whatever the count weight: right for sqrt(3)/2 only."""
    limit = min(most or len(shape), len(shape))
    return times * math.sqrt(top(shape, min(len(shape), 2 * limit)))


def either_end(shape, most, weight, times, add_remove):
    """Tries disjoint trajectories only, not those that share states."""
    limit = min(most or len(shape), len(shape))
    return times * math.sqrt((0.25 + weight**2) * top(shape, min(len(shape), 2 * limit)))


def first_states(shape, most, weight, times, add_remove):
    """Takes the first omega, not the largest."""
    part = shape[: min(most or len(shape), len(shape))] if add_remove else shape
    return compute(part, None, weight, times, add_remove)


def root_of_persons(shape, most, weight, times, add_remove):
    """sqrt(L) in the place of L."""
    return compute(shape, most, weight, 1, add_remove) * math.sqrt(times)


def removal_without_counts(shape, most, weight, times, add_remove):
    """Adding a trajectory changes return sums by R/2, and the count is forgotten."""
    return compute(shape, most, 1e-9 if add_remove else weight, times, add_remove)


MISTAKES = [
    only_h_states,
    as_if_counts_were_free,
    either_end,
    first_states,
    root_of_persons,
    removal_without_counts,
]


@pytest.mark.parametrize("mistake", MISTAKES)
def test_planted_mistakes_are_caught(mistake):
    cases = [(shape, most, weight, 1, rule) for shape, most, weight, rule in CASES] + PERSONS
    assert any(
        mistake(shape, most, weight, times, rule)
        < search(shape, most, weight, times, rule) * (1 - 1e-9)
        for shape, most, weight, times, rule in cases
    )


@pytest.mark.parametrize("most", [None, 7, 400_000])
@pytest.mark.long
def test_ten_million_states(most):
    """Against exact sums; a search over pairs of states would not end."""
    generator = np.random.default_rng(1)
    shape = 10.0 ** generator.uniform(-3, 0, 10_000_000 if most is None else 1_000_000)
    value = sensitivity(shape, most_states=most, count_weight=ROOT)
    largest = np.sort(shape)[::-1][: 2 * (most or len(shape))]
    exact = math.sqrt(math.fsum(largest**2))
    assert exact <= value <= exact * (1 + 1e-8)


@pytest.mark.parametrize("shape", [[], [1.0, 0.0], [1.0, -1.0], [1.0, math.nan], [1.0, math.inf]])
def test_invalid_shapes_are_refused(shape):
    with refused("usage"):
        sensitivity(np.array(shape), most_states=None, count_weight=ROOT)


# The weight of the counts


def test_the_count_weight():
    assert count_weight(40, None) == count_weight(40, 40) == count_weight(40, 21) == ROOT
    assert count_weight(40, 20) == count_weight(40, 1) == 0.5
    assert count_weight(40, None, add_remove=True) == 0.5


@pytest.mark.parametrize("wrong", [0.0, -1.0, math.nan, math.inf])
def test_invalid_count_weights_are_refused(wrong):
    study = make_study(2, mechanism={"name": "dp-ssp", "calibration": "exact"})
    terms = resolve(study, declared_size(study))
    with pytest.raises((StudyError, ArithmeticError)):  # before any charge
        Ssp(dataclasses.replace(terms, count_weight=wrong))
