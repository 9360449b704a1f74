"""Describe the terms of a release as plain values: what the core was really given.

An error made on the way from the study file to the core gives a release that says what was done.
"""

import hashlib
from typing import Any

import numpy as np
import scipy.sparse as sp

from privalue.core import Matrix, Terms


def described(terms: Terms) -> dict[str, Any]:
    """Return all of the terms as plain values, for the release; arrays by their hashes.

    Arms, cut trajectories and weights are described only where a study has them.
    """
    limits, usual = vars(terms.limits), {"arms": 1, "drop_truncated": False, "clip": 0.0}
    unused = {name for name, none in usual.items() if limits[name] == none}
    parts = {name: value for name, value in limits.items() if name not in unused}
    parts |= {**vars(terms.size), **vars(terms.constants)}
    return {
        "mechanism": terms.mechanism,
        "epsilon": terms.epsilon,
        "delta": terms.delta,
        "features": _hashed(terms.design.phi),
        "weights": _hashed(terms.design.weights),
        **{name: _plain(value) for name, value in parts.items() if value is not None},
    }


def _plain(value: Any) -> Any:
    """Return a value as JSON holds it; rules by their name."""
    if isinstance(value, np.ndarray):
        return _hashed(value)
    return list(value) if isinstance(value, tuple) else getattr(value, "name", value)


def _hashed(matrix: Matrix) -> dict[str, Any]:
    """Return the shape of an array and the SHA-256 of its entries.

    Entries are little-endian doubles, row by row; of a sparse matrix, those that are not zero,
    after their rows and columns as 64-bit integers.
    """
    if isinstance(matrix, np.ndarray):
        parts = [np.ascontiguousarray(matrix, dtype="<f8")]
    else:
        entries = sp.coo_array(matrix)
        parts = [np.asarray(at, dtype="<i8") for at in entries.coords]
        parts.append(np.asarray(entries.data, dtype="<f8"))
    digest = hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()
    return {"shape": list(matrix.shape), "sha256": digest}
