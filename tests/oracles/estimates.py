"""Estimates from noisy statistics alone, without a study."""

from types import SimpleNamespace

import numpy as np

from privalue.estimate import Estimates, Ratios


def noisy_statistics(*, return_bounds, **numbers):
    return Ratios.within(
        return_bounds, **{name: np.asarray(column, np.float64) for name, column in numbers.items()}
    )


def estimate(noisy, design, *, start=None, **choices):
    """The columns of a table of values, theta, and the overall value from a start distribution."""
    estimates = Estimates(ratios=noisy, design=design, **choices)
    overall = {} if start is None else estimates.overall(np.asarray(start))
    return SimpleNamespace(
        **estimates.columns,
        values=estimates.values,
        theta=estimates.fit.theta,
        policy=SimpleNamespace(**{name: float(column[0]) for name, column in overall.items()}),
        differences=estimates.differences() if estimates.arms > 1 else None,
        source=estimates,
    )
