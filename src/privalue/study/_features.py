"""Build the feature matrix Phi and the weights of a study."""

import numpy as np
import scipy.sparse as sp

from privalue.core import Design, Integers, Matrix
from privalue.errors import StudyError
from privalue.study._study import Study


def design(study: Study) -> Design:
    """Return Phi and the weights of a study; refuse a dp-lsw study without full column rank.

    Where values are only shrunk towards the features, Phi is the tabular one.
    """
    chosen, weights = study.features, study.key_weights
    phi: Matrix
    if study.feature_matrix is not None and not chosen.shrink:
        phi = study.feature_matrix
    else:
        phi = _indicators(study.tied_keys(1 if chosen.shrink else chosen.size or 1))
    if study.arm_count > 1:  # each arm has coefficients of its own: no value mixes two arms
        phi = sp.csr_array(sp.kron(sp.eye_array(study.arm_count), phi, format="csr"))
    built = Design(phi=phi, weights=weights)
    if not built.norm > 0:
        raise StudyError("[features] every feature of every state is 0; at least one must not be")
    if study.mechanism.name == "dp-lsw":
        built.require_full_rank()
        built.require_well_conditioned()
    return built


def aggregation(states: int, size: int) -> sp.csr_array:
    """Return the Phi that ties the values of ``size`` adjacent states; 1 is the tabular one.

    The last group is smaller if ``size`` does not divide the number of states.
    """
    return _indicators(np.arange(states, dtype=np.int64) // size)


def _indicators(group: Integers) -> sp.csr_array:
    """Return the Phi in which every row has one 1, in the column of its group."""
    states = len(group)
    return sp.csr_array(
        (np.ones(states), group, np.arange(states + 1, dtype=np.int64)),
        shape=(states, int(group.max()) + 1),
    )
