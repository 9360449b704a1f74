"""Compute standard deviations of linear combinations, from the inverse of a normal matrix."""

from weakref import WeakKeyDictionary

import numpy as np
import scipy

from privalue.core import Design, Matrix, Vector, kernel


def upper_inverse(design: Design) -> Vector:
    """Return the upper triangle of (Phi^T Gamma Phi)^{-1}: error bars forgive its rounding."""
    if design not in _inverses:
        inverse, _ = scipy.linalg.lapack.dpotri(design.root)
        _inverses[design] = np.asarray(inverse)
    return _inverses[design]


_inverses: WeakKeyDictionary[Design, Vector] = WeakKeyDictionary()


def row_quadratics(rows: Matrix, matrix: Vector) -> Vector:
    """Return row matrix row^T for each row, of a symmetric positive semidefinite matrix.

    For sparse rows only the upper triangle of the matrix is read.
    """
    if isinstance(rows, np.ndarray):
        return np.asarray(np.maximum(np.einsum("ij,ij->i", rows @ matrix, rows), 0.0))
    made = np.empty(rows.shape[0])
    _sparse_quadratics(rows.indptr, rows.indices, rows.data, matrix, made)
    return np.maximum(made, 0.0)


@kernel(nogil=True)
def _sparse_quadratics(begins, columns, entries, matrix, made):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    """Write row matrix row^T of every row of a CSR array to ``made``."""
    for row in range(len(made)):
        total = 0.0
        for a in range(begins[row], begins[row + 1]):
            for b in range(begins[row], begins[row + 1]):
                upper, right = min(columns[a], columns[b]), max(columns[a], columns[b])
                total += entries[a] * entries[b] * matrix[upper, right]
        made[row] = total
