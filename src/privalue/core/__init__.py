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
from privalue.core._contributions import SCALARS, Contributions, Covered, VisitStatistics, unit_hash
from privalue.core._design import Design, absolute, column_squares, dense, is_indicator, scaled_rows
from privalue.core._draw import Mechanism, compile_draw, draw, mechanism_of
from privalue.core._kernels import kernel
from privalue.core._least_squares import lsl, lsw
from privalue.core._lsl import DpLsl, lsl_bound
from privalue.core._lsw import DpLsw, LswBound, Whitening
from privalue.core._mechanism import Perturbation, SmoothBound
from privalue.core._noise import (
    Entropy,
    OperatingSystemEntropy,
    SeededForExperimentsOnly,
    gaussian_on_grid,
    public_grid,
)
from privalue.core._ope import DpOpe
from privalue.core._private import Private, sealed
from privalue.core._profile import Profile, divergence, exact_alpha, privacy_profile
from privalue.core._sensitivity_lsl import smooth_lsl
from privalue.core._sensitivity_lsw import smooth_lsw
from privalue.core._sensitivity_ssp import count_weight, visit_block
from privalue.core._ssp import DpSsp
from privalue.core._stages import Chosen, Stage, stage_alphas
from privalue.core._terms import (
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

__all__ = [
    "GRID_STEPS", "MOST_LEVELS", "MOST_TRAJECTORIES", "SCALARS", "Calibration", "Chosen",
    "Contributions", "Covered", "Design", "DpLsl", "DpLsw", "DpOpe", "DpSsp", "Entropy", "Integers",
    "Limits", "LslTerms", "LswBound", "LswTerms", "Matrix", "Mechanism", "OpeTerms",
    "OperatingSystemEntropy", "Perturbation", "Private", "Profile", "PublicSize",
    "SeededForExperimentsOnly", "SmoothBound", "SspTerms", "Stage", "StageRules", "Terms", "Vector",
    "VisitStatistics", "Whitening", "absolute", "block_sensitivity", "checked_whole",
    "column_squares", "compile_draw", "count_weight", "dense", "divergence", "draw", "exact",
    "exact_alpha", "gaussian", "gaussian_on_grid", "is_indicator", "kernel", "largest_exact_beta",
    "lsl", "lsl_bound", "lsw", "mechanism_of", "nissim", "privacy_profile", "public_grid",
    "scaled_rows", "sealed", "smooth_lsl", "smooth_lsw", "stage_alphas", "unit_hash", "visit_block",
]  # fmt: skip
