"""Estimates from noisy statistics alone, without a study: as tests ask for them."""

from types import SimpleNamespace

import numpy as np

from privalue.estimate import Ratios, arm_differences, fit_statistics


def noisy_statistics(*, return_bounds, **numbers):
    return Ratios.within(
        return_bounds, **{name: np.asarray(each, np.float64) for name, each in numbers.items()}
    )


def estimate(noisy, design, *, start=None, arms=1, **choices):
    """The columns of a table of values, theta, and the overall value from a start distribution."""
    made = fit_statistics(noisy, design, arms=arms, **choices)
    columns = {**made.columns, "values": made.values, "theta": made.fit.theta}
    policy = (
        None
        if start is None
        else SimpleNamespace(
            **{name: float(column[0]) for name, column in made.overall(np.asarray(start)).items()}
        )
    )
    differences = arm_differences(made, arms) if arms > 1 else None
    return SimpleNamespace(**columns, policy=policy, differences=differences, made=made)
