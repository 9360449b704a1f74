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
    nissim,
    privacy_profile,
)
from privalue.core.contributions import COUNTERS, Contributions, Covered, Statistics
from privalue.core.design import Design, Matrix, dense, lsl, lsw
from privalue.core.kernel import GRID_STEPS, Integers, Vector, jit, unit_hash
from privalue.core.limits import (
    MOST_LEVELS,
    MOST_TRAJECTORIES,
    Limits,
    LslTerms,
    LswTerms,
    OpeTerms,
    PublicSize,
    SspTerms,
    StageRules,
    Terms,
)
from privalue.core.mechanisms import (
    MECHANISMS,
    Draw,
    Lsl,
    Lsw,
    Mechanism,
    Ope,
    Perturbation,
    Ssp,
    Stage,
    StatisticsNoise,
    Whitening,
    add_noise,
    compile_draw,
    draw,
    smooth_bound,
    stage_alphas,
)
from privalue.core.noise import Entropy, OperatingSystemEntropy, SeededForExperimentsOnly
from privalue.core.private import Private, sealed
from privalue.core.sensitivity import (
    Line,
    block_sensitivity,
    count_weight,
    smooth_lsl,
    smooth_lsw,
    visit_block,
)

__all__ = [
    "COUNTERS", "GRID_STEPS", "MECHANISMS", "MOST_LEVELS", "MOST_TRAJECTORIES", "Calibration",
    "Contributions", "Covered", "Design", "Draw", "Entropy", "Integers", "Limits", "Line", "Lsl",
    "LslTerms", "Lsw", "LswTerms", "Matrix", "Mechanism", "Ope", "OpeTerms",
    "OperatingSystemEntropy", "Perturbation", "Private", "Profile", "PublicSize",
    "SeededForExperimentsOnly", "Ssp", "SspTerms", "Stage", "StageRules", "Statistics",
    "StatisticsNoise", "Terms", "Vector", "Whitening", "add_noise", "block_sensitivity",
    "compile_draw", "count_weight", "dense", "divergence", "draw", "exact_alpha", "gaussian", "jit",
    "largest_beta", "lsl", "lsw", "nissim", "privacy_profile", "sealed", "smooth_bound",
    "smooth_lsl", "smooth_lsw", "stage_alphas", "unit_hash", "visit_block",
]  # fmt: skip
