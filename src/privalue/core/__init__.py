"""Keep the guarantee: all that must be trusted for one release, and nothing else.

A bug breaks the promise of a release only if it changes how far one unit can move what gets noise,
how much noise is drawn, or what leaves besides. That code is here, in the order of the data flow:
``Limits`` and ``Terms`` (public numbers), ``Contributions`` (rows of whole units in, statistics
out, every row checked), the mechanisms (centre, sigma, grid), ``draw`` (numbers out). It imports
NumPy, SciPy, Numba, ``privalue.errors`` and itself; readers, estimates and pages may be wrong
without breaking the promise. docs/guarantee.md lists the files, docs/proofs has the proofs.
"""

from privalue.core._arrays import Integers, Matrix, Vector
from privalue.core._blocks import block_sensitivity, checked_whole
from privalue.core._calibration import Calibration, exact, gaussian, largest_exact_beta, nissim
from privalue.core._contributions import SCALARS, Contributions, Covered, Statistics, unit_hash
from privalue.core._design import Design, absolute, column_squares, dense, is_indicator, scaled_rows
from privalue.core._kernels import kernel
from privalue.core._least_squares import lsl, lsw
from privalue.core._noise import (
    Entropy,
    OperatingSystemEntropy,
    SeededForExperimentsOnly,
    gaussian_on_grid,
    public_grid,
)
from privalue.core._private import Private, sealed
from privalue.core._profile import Profile, divergence, exact_alpha, privacy_profile
from privalue.core._sensitivity_lsl import smooth_lsl
from privalue.core._sensitivity_lsw import smooth_lsw
from privalue.core._sensitivity_ssp import count_weight, visit_block
from privalue.core.limits import (
    CONSTANTS,
    GRID_STEPS,
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
    NoiseLaw,
    Ope,
    Perturbation,
    SmoothBound,
    Ssp,
    Stage,
    StatisticsNoise,
    Whitening,
    add_noise,
    bounds_sensitivity,
    compile_draw,
    draw,
    smooth_bound,
    stage_alphas,
    weighted_block,
)

__all__ = [
    "CONSTANTS",
    "GRID_STEPS",
    "MECHANISMS",
    "MOST_LEVELS",
    "MOST_TRAJECTORIES",
    "SCALARS",
    "Calibration",
    "Contributions",
    "Covered",
    "Design",
    "Draw",
    "Entropy",
    "Integers",
    "Limits",
    "Lsl",
    "LslTerms",
    "Lsw",
    "LswTerms",
    "Matrix",
    "Mechanism",
    "NoiseLaw",
    "Ope",
    "OpeTerms",
    "OperatingSystemEntropy",
    "Perturbation",
    "Private",
    "Profile",
    "PublicSize",
    "SeededForExperimentsOnly",
    "SmoothBound",
    "Ssp",
    "SspTerms",
    "Stage",
    "StageRules",
    "Statistics",
    "StatisticsNoise",
    "Terms",
    "Vector",
    "Whitening",
    "absolute",
    "add_noise",
    "block_sensitivity",
    "bounds_sensitivity",
    "checked_whole",
    "column_squares",
    "compile_draw",
    "count_weight",
    "dense",
    "divergence",
    "draw",
    "exact",
    "exact_alpha",
    "gaussian",
    "gaussian_on_grid",
    "is_indicator",
    "kernel",
    "largest_exact_beta",
    "lsl",
    "lsw",
    "nissim",
    "privacy_profile",
    "public_grid",
    "scaled_rows",
    "sealed",
    "smooth_bound",
    "smooth_lsl",
    "smooth_lsw",
    "stage_alphas",
    "unit_hash",
    "visit_block",
    "weighted_block",
]  # fmt: skip
