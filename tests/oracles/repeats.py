"""How often a suite repeats itself: a few times as a rule, often in ``make long``, or as told."""

import os

import pytest


def repeats(name, usual, long):
    """The number that the environment variable says, or the one for this kind of run."""
    return int(os.environ.get(name) or (long if os.environ.get("PRIVALUE_LONG") == "1" else usual))


RACES = repeats("PRIVALUE_RACES", 4, 100)  # rounds of each race, on each store


def crossed(one, other):
    """Each of one with some of the other, and the other way round; the product in ``make long``."""
    one, other = list(one), list(other)
    return [
        pytest.param(a, b, marks=() if i % len(other) == j % len(one) else pytest.mark.long)
        for i, a in enumerate(one)
        for j, b in enumerate(other)
    ]
