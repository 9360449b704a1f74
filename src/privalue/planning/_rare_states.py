"""Warn of what one rare state does to the mechanisms whose noise depends on the data.

The noise of dp-lsw and dp-lsl is the same for all states, and the least visited state sets its
size. An author who declares a state that nobody visits should know that beforehand. A study with a
public prior of visits shows that its author does, so it gets no warning.
"""

import numpy as np

from privalue.core import Design, Lsl, Lsw, Ssp
from privalue.errors import StudyError
from privalue.estimate import noise_factors
from privalue.planning._predict import planned_size
from privalue.study import SMOOTH, Study, design, mechanism_for


def planned_rare_state_words(study: Study, trajectories: int) -> str | None:
    """Return the warning for a study that is only planned, or None if it needs none."""
    if study.mechanism.name not in SMOOTH:
        return None
    built = design(study)
    try:
        mechanism = mechanism_for(study, built, planned_size(study, trajectories))
    except StudyError:
        return None
    return rare_state_words(study, built, mechanism, trajectories)


def rare_state_words(
    study: Study, built: Design, mechanism: Ssp | Lsw | Lsl | None, trajectories: int | None
) -> str | None:
    """Return the warning in one sentence, or None where there is nothing to say.

    Args:
        study: what is public.
        built: its features and weights.
        mechanism: with its constants, where they are known.
        trajectories: m, where it is public or declared.

    Returns:
        The sentence; with numbers where the mechanism and m are known.
    """
    name = study.mechanism.name
    if name not in SMOOTH or study.visit_prior is not None:
        return None
    begin = f"{name} without a public prior of visits ([states] visits): "
    end = "; dp-ssp has no such threshold"
    if not isinstance(mechanism, Lsw | Lsl) or trajectories is None:
        return (
            f"{begin}the noise of all values follows the least visited state, and one that nobody "
            f"visits may drown every other{end}"
        )
    counts = np.full(built.states, trajectories, dtype=np.int64)
    counts[int(np.argmax(built.weights))] = 0
    sigma = mechanism.sigma(mechanism.bound.psi(counts, mechanism.calibration.beta))
    low, high = study.return_bounds
    noise = float(np.median(sigma * noise_factors(mechanism, built.phi)))
    return (
        f"{begin}if nobody visits one of the states and all {trajectories:,} trajectories visit "
        f"every other, the noise of all values still has a standard deviation of {noise:.2g}, "
        f"where returns range over {high - low:g}{end}"
    )
