"""How often a suite repeats: a few times, often in ``make long``, or by a variable."""

import os

import pytest


def repeats(name, usual, long):
    """The number in the environment variable, or the one for this kind of run."""
    return int(os.environ.get(name) or (long if os.environ.get("PRIVALUE_LONG") == "1" else usual))


RACES = repeats("PRIVALUE_RACES", 4, 100)  # rounds of each race, on each store


def cross(one, other):
    """Pairs in which every element of both occurs; the full product in ``make long``."""
    one, other = list(one), list(other)
    return [
        pytest.param(a, b, marks=() if i % len(other) == j % len(one) else pytest.mark.long)
        for i, a in enumerate(one)
        for j, b in enumerate(other)
    ]
