"""Keep the guarantee: all that must be trusted for one release, and nothing else.

A bug breaks the promise of a release only if it changes how far one unit can move the numbers that
get noise, how much noise they get, or what else leaves. That code is here, in the order of the data
flow: ``Limits`` and ``Terms`` (public numbers), ``Contributions`` (rows of whole units in,
statistics out, every row checked), the mechanisms (centre, sigma, grid), ``draw`` (numbers out). It
imports NumPy, SciPy, Numba, ``privalue.errors`` and itself; readers, estimates and pages may be
wrong without breaking the promise. docs/guarantee.md lists the files, docs/proofs has the proofs.

The exports are what several packages use. Formulas about public numbers are in ``calibration``;
terms, perturbations and ``compile_draw`` are in ``mechanisms``.
"""

from privalue.core import calibration, mechanisms
from privalue.core.contributions import ARRAYS, COUNTERS, BatchRange, Contributions, Statistics
from privalue.core.design import Design, Matrix, lsl, lsw
from privalue.core.kernel import GRID_STEPS, Integers, Vector, jit, unit_hash
from privalue.core.limits import MAX_LEVELS, MAX_TRAJECTORIES, Limits, PublicSize
from privalue.core.mechanisms import MECHANISMS, Draw, Lsl, Lsw, Mechanism, Ope, Ssp, Terms, draw
from privalue.core.noise import Entropy, OperatingSystemEntropy
from privalue.core.private import Private, sealed
from privalue.core.sensitivity import LslSensitivity, LswSensitivity, visit_sensitivity

__all__ = [
    "ARRAYS", "COUNTERS", "GRID_STEPS", "MAX_LEVELS", "MAX_TRAJECTORIES", "MECHANISMS",
    "BatchRange", "Contributions", "Design", "Draw", "Entropy", "Integers", "Limits", "Lsl",
    "LslSensitivity", "Lsw", "LswSensitivity", "Matrix", "Mechanism", "Ope",
    "OperatingSystemEntropy", "Private", "PublicSize", "Ssp", "Statistics", "Terms", "Vector",
    "calibration", "draw", "jit", "lsl", "lsw", "mechanisms", "sealed", "unit_hash",
    "visit_sensitivity",
]  # fmt: skip
