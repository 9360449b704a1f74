"""Keep the guarantee: all that must be trusted for one release, and nothing else.

A bug breaks the promise of a release only if it changes how far one unit can move what gets noise,
how much noise is drawn, or what leaves besides. That code is here, in the order of the data flow:
``Limits`` and ``Terms`` (public numbers), ``Contributions`` (rows of whole units in, statistics
out, every row checked), the mechanisms (centre, sigma, grid), ``draw`` (numbers out). It imports
NumPy, SciPy, Numba, ``privalue.errors`` and itself; readers, estimates and pages may be wrong
without breaking the promise. docs/guarantee.md lists the files, docs/proofs has the proofs.
"""

from privalue.core.calibration import (
    Calibration,
    Profile,
    divergence,
    exact_alpha,
    gaussian,
    largest_beta,
    privacy_profile,
    published,
)
from privalue.core.contributions import ARRAYS, COUNTERS, Contributions, Covered, Statistics
from privalue.core.design import Design, Matrix, lsl, lsw
from privalue.core.kernel import GRID_STEPS, Integers, Vector, jit, unit_hash
from privalue.core.limits import MOST_LEVELS, MOST_TRAJECTORIES, Limits, PublicSize
from privalue.core.mechanisms import (
    MECHANISMS,
    Draw,
    Lsl,
    LslTerms,
    Lsw,
    LswTerms,
    Mechanism,
    Ope,
    OpeTerms,
    Perturbation,
    Ssp,
    SspTerms,
    Terms,
    add_noise,
    compile_draw,
    draw,
    stage_alphas,
)
from privalue.core.noise import Entropy, OperatingSystemEntropy
from privalue.core.private import Private, sealed
from privalue.core.sensitivity import LslSensitivity, LswSensitivity, visit_sensitivity

__all__ = [
    "ARRAYS", "COUNTERS", "GRID_STEPS", "MECHANISMS", "MOST_LEVELS", "MOST_TRAJECTORIES",
    "Calibration", "Contributions", "Covered", "Design", "Draw", "Entropy", "Integers", "Limits",
    "Lsl", "LslSensitivity", "LslTerms", "Lsw", "LswSensitivity", "LswTerms", "Matrix", "Mechanism",
    "Ope", "OpeTerms", "OperatingSystemEntropy", "Perturbation", "Private", "Profile", "PublicSize",
    "Ssp", "SspTerms", "Statistics", "Terms", "Vector", "add_noise", "compile_draw",
    "divergence", "draw", "exact_alpha", "gaussian", "jit", "largest_beta", "lsl", "lsw",
    "privacy_profile", "published", "sealed", "stage_alphas", "unit_hash", "visit_sensitivity",
]  # fmt: skip
