"""Branch and bound: the maximum, the tolerance, each k at most once, planted mistakes."""

import inspect
import math
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privalue.core import sensitivity as maximum
from privalue.core.sensitivity import TOLERANCE, branch_and_bound

BETA = st.one_of(st.floats(1e-9, 5.0), st.sampled_from([1e-300, 800.0]))
RISE = st.one_of(st.just(0.0), st.floats(1e-6, 1e6), st.floats(1e-12, 1e-9))
RISES = st.lists(RISE, min_size=1, max_size=40)


def literal(ks, table, beta):
    """Every k, one after the other."""
    return max(math.exp(-beta * k) * value for k, value in zip(ks, table, strict=True))


def too_small(search, ks, table, beta):
    """By how much, relatively, a search falls short of the maximum; 0 or less is right."""
    exact = literal(ks, table, beta)
    values = dict(zip(ks, table, strict=True))
    return 1 - search(np.array(ks), values.__getitem__, beta) / exact


@given(rises=RISES, gaps=st.lists(st.integers(1, 50), min_size=40, max_size=40), beta=BETA)
def test_the_search_finds_the_maximum_rounded_up(rises, gaps, beta):
    table = [1e-3 + value for value in accumulate(rises)]
    ks = list(accumulate(gaps[: len(table)]))
    exact = literal(ks, table, beta)
    result = branch_and_bound(np.array(ks), dict(zip(ks, table, strict=True)).__getitem__, beta)
    if exact > 0:  # e^{-beta k} may be too small for doubles, and all values with it
        assert exact < result <= exact * (1 + TOLERANCE)
    ranged = branch_and_bound(range(len(table)), table.__getitem__, beta)
    exact = literal(range(len(table)), table, beta)
    assert exact < ranged <= exact * (1 + TOLERANCE)


@pytest.mark.parametrize("number", [1, 2, 3, 4, 1000])
def test_every_k_is_looked_at_once_at_most(number):
    """Where all values are alike nothing can be dismissed: then every k is."""
    calls = []

    def phi(k):
        assert type(k) is int
        calls.append(k)
        return math.exp(0.01 * k)

    assert branch_and_bound(np.arange(number), phi, 0.01) == pytest.approx(1.0, rel=TOLERANCE)
    assert len(set(calls)) >= number
    assert len(calls) <= number + 1  # the first is also the last where there is but one


def test_a_range_of_any_length():
    """A count of 2^33 is a range of as many k, and few of them are looked at."""
    for last in (2**33, 10**30):
        calls = []

        def phi(k, last=last, calls=calls):
            calls.append(k)
            return 1.0 + k / last

        result = branch_and_bound(range(last + 1), phi, 1.5 / last)
        exact = 1.0  # (1 + x) e^{-1.5 x} falls from x = 0 on
        assert exact < result <= exact * (1 + TOLERANCE)
        assert len(calls) < 200


# Planted mistakes: the search itself, with one place changed, must be caught on these cases.

FLAT = [math.exp(0.02 * k) * (1 + 1e-3 * math.sin(k)) for k in range(200)]
CASES = [
    (range(4), [1.0, 1.0, 9.0, 9.0], 0.5),
    (range(9), [1.0, 1.1, 1.2, 30.0, 30.0, 30.0, 30.0, 30.0, 30.0], 0.4),
    (range(200), list(accumulate(FLAT, max)), 0.02),
    ([0, 10, 11, 12, 40], [1.0, 2.0, 60.0, 61.0, 62.0], 0.3),
    ([0, 7], [1.0, 9.0], 0.1),
]
MISTAKES = {
    "phi(a) for phi(b)": ("+ 1) * at_last", "+ 1) * phi(int(ks[first]))"),
    "e^{-b beta} for e^{-a beta}": ("decay(first + 1)", "decay(last)"),
    "the left half forgotten": (", (first, middle, at_middle)]", "]"),
    "the right half forgotten": ("[(middle, last, at_last), ", "["),
    "phi(a) for the right half": ("(middle, last, at_last)", "(middle, last, at_middle)"),
    "the last k forgotten": (", decay(end) * at_end)", ", 0.0)"),
    "rounded down": ("(1 + _GAP + _ROUNDING)", "(1 - _GAP - _ROUNDING)"),
    "not rounded up": (" * (1 + _GAP + _ROUNDING)", " * (1 - 1e-15)"),
    "stopped too soon": ("best * (1 + _GAP)", "best * 1.2"),
}


def test_the_search_falls_short_of_none_of_the_cases():
    assert max(too_small(branch_and_bound, *case) for case in CASES) <= 0


@pytest.mark.parametrize("mistake", MISTAKES)
def test_planted_mistakes_are_caught(mistake):
    right, wrong = MISTAKES[mistake]
    source = inspect.getsource(branch_and_bound)
    assert source.count(right) == 1
    names = dict(vars(maximum))
    exec(source.replace(right, wrong), names)  # noqa: S102 - the mistake is the test
    assert max(too_small(names["branch_and_bound"], *case) for case in CASES) > 0


def test_a_phi_that_falls_is_caught_by_the_twin():
    """What the search presumes: one value above all later ones stays hidden between two k."""
    table = [1.0] * 50 + [9.0] + [1.0] * 50
    assert too_small(branch_and_bound, range(101), table, 1e-3) > 0.5
