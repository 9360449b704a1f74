"""An instance of every private type, collected while real rows become a real release."""

import gc
from functools import cache
from unittest.mock import patch

import pyarrow as pa

import privalue as pv
from oracles.studies import make_study
from privalue import curator
from privalue.core import Contributions, Private
from privalue.readers import local

# Counts and returns that nothing public contains. The first source is in order, the second is not.
DATA = [[(0, 0.123457), (1, 0.765432)]] * 977 + [[(1, 0.5)]] * 31
ROWS = {
    "trajectory": [2, 1, 2, 1],
    "step": [0, 1, 1, 0],
    "state": [0, 1, 1, 0],
    "reward": [0.5] * 4,
}
SECRETS = ("977", "1008", "0.1234", "0.7654", "123457", "765432")


@cache
def instances():
    """Return {name: instance}, by looking at live objects whenever rows or noise pass."""
    by_name = {}

    def look():
        for value in gc.get_objects():
            if isinstance(value, Private):
                by_name.setdefault(type(value).__qualname__, value)

    def watched(function):
        def call(*args, **kwargs):
            look()
            return function(*args, **kwargs)

        return call

    small = make_study(2)
    with (
        # One thread: a tuple that another thread is building must not be looked at.
        patch.object(local, "_map_in_order", lambda work, items, *_: map(work, items)),
        patch.object(Contributions, "add", watched(Contributions.add)),
        patch.object(curator, "draw", watched(curator.draw)),
    ):
        for data in (pa.table(ROWS), DATA):
            pv.release(small, data, accept_useless=True, accept_large_delta=True)
        staged = make_study(
            2, mechanism={"name": "dp-ssp", "calibration": "exact", "stages": ["bounds"]}
        )
        by_name["Diagnostics"] = diagnostics = pv.inspect(staged, DATA)
        by_name["Statistics"] = diagnostics.statistics
        by_name["Perturbation"] = diagnostics.perturbation
    return by_name
