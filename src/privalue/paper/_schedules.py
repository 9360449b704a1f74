"""Read regularisation schedules: texts that say how lambda depends on the batch size.

A schedule is ``"c"``, ``"c sqrt(m)"`` or ``"c m"``. lambda is the paper's: it enters as
(lambda/2m) ||theta||^2 beside the mean loss, so that m falls out of the solution (docs/proofs).
"""

import math

SQRT, LINEAR = "sqrt(m)", "m"


def ridge(schedule: str, trajectories: int) -> float:
    """Return lambda for m trajectories.

    >>> ridge("100 sqrt(m)", 16), ridge("sqrt(m)", 16), ridge("0.5 m", 16), ridge("2", 16)
    (400.0, 4.0, 8.0, 2.0)
    """
    for ending, size in ((SQRT, math.sqrt(trajectories)), (LINEAR, float(trajectories))):
        if schedule.endswith(ending):
            return float(schedule.removesuffix(ending) or 1) * size
    return float(schedule)


def pretty(schedule: str) -> str:
    """Return a schedule as a figure shows it.

    >>> pretty("100 sqrt(m)")
    '100√m'
    """
    return schedule.replace(" ", "").replace(SQRT, "√m")
