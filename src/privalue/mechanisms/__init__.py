"""The algorithms, one file each, one line of code per line of the algorithm.

A mechanism turns statistics into a ``Perturbation``: where noise is to be added, and how much.
Drawing it is the curator's business; turning the noisy vector into theta is post-processing.
"""

from privalue.mechanisms.lsl import dp_lsl, resolve_ridge
from privalue.mechanisms.lsw import dp_lsw
from privalue.mechanisms.perturbation import Perturbation

MECHANISMS = {"dp-lsw": dp_lsw, "dp-lsl": dp_lsl}

__all__ = ["MECHANISMS", "Perturbation", "dp_lsl", "dp_lsw", "resolve_ridge"]
