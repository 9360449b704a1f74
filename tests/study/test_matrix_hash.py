"""A matrix that is given in Python is named by its hash in a request: its shape counts."""

import numpy as np
import scipy.sparse as sp

from privalue.study.side_files import hash_matrix


def test_another_shape_or_storage_is_another_matrix():
    column = sp.csr_array(np.array([[1.0], [1.0]]))
    wider = sp.csr_array(np.array([[1.0, 0.0], [1.0, 0.0]]))
    dense = np.ones((2, 1))
    found = {hash_matrix(matrix) for matrix in (column, wider, dense, dense.T)}
    assert len(found) == 4
    assert hash_matrix(column) == hash_matrix(column.copy())
