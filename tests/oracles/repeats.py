"""How often a suite repeats itself: a few times as a rule, often in ``make long``, or as told."""

import os


def repeats(name, usual, long):
    """The number that the environment variable says, or the one for this kind of run."""
    return int(os.environ.get(name) or (long if os.environ.get("PRIVALUE_LONG") == "1" else usual))


RACES = repeats("PRIVALUE_RACES", 4, 100)  # rounds of each race, on each store
KILLS = repeats("PRIVALUE_KILLS", 3, 200)  # at steps, and as many at moments that nobody chose
