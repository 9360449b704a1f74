"""Damage the files beside a study: labels, groups, priors, weights, and matrices of every kind."""

import io
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp

from fuzz.damage import damage

LABELS = ("ill", "better", "well", "=1+1", "a,b", 'q"q')
STUDY = (Path(__file__).parent / "texts" / "side_files.toml").read_text()


def case(choose):
    """A study of which one side file has damage."""
    files = dict(_files())
    features = choose.choice([name for name in files if name.startswith("features")])
    target = choose.choice((features, features, features, *_TABLES))
    if target.endswith(".csv") and choose.random() < 0.5:
        files[target], how = odd_cells(files[target], choose)
    else:
        files[target], how = damage(files[target], choose)
    study = STUDY.replace("FEATURES", features).encode()
    words = ["check", "{}/study.toml", *choose.choice(((), ("--json",)))]
    return f"{target}, {how}", {**files, "study.toml": study}, words, None


def odd_cells(content, choose):
    """Put odd cells into a table."""
    odd = (
        *(b"9" * 5000, b"1e999", b"nan", b"-0", b"x" * 200_000, b"a\rb", b"\x1b[2J", b"\xff"),
        *(b'"open', b"", b"\x00", b"\xe2\x80\xae", b"0x10", b"1_0", "\u0663".encode(), b"\n\n"),
    )
    cells = content.replace(b"\n", b",\n").split(b",")
    cells[choose.randrange(len(cells))] = choose.choice(odd)
    return b",".join(cells).replace(b",\n", b"\n"), "odd cells"


_TABLES = ("states.csv", "groups.csv", "visits.csv", "weights.csv", "start.csv")


def _matrix():
    return np.array([[1, 0], [0, 1], [1, 1], [2, 0], [0, 3], [1, 2]], dtype=np.float64)


@cache
def _files():
    """Return sound side files."""
    quoted = ['"' + label.replace('"', '""') + '"' for label in LABELS]
    matrix = _matrix()
    array, sparse, table = io.BytesIO(), io.BytesIO(), io.BytesIO()
    np.save(array, matrix)
    sp.save_npz(sparse, sp.csr_array(matrix))
    pq.write_table(pa.table({"state": LABELS, "a": matrix[:, 0], "b": matrix[:, 1]}), table)

    def rows(heading, cells):
        lines = [heading, *(f"{a},{b}" for a, b in zip(quoted, cells, strict=True))]
        return ("\n".join(lines) + "\n").encode()

    return {
        "states.csv": ("\n".join(["state", *quoted]) + "\n").encode(),
        "groups.csv": rows("raw,state", quoted),
        "visits.csv": rows("state,visits", ["0.5"] * 6),
        "weights.csv": rows("state,weight", ["1", "2", "3", "0", "1e3", "0.5"]),
        "start.csv": rows("state,start", ["0.5", "0.5", "0", "0", "0", "0"]),
        "features.csv": rows("state,a,b", [f"{a},{b}" for a, b in matrix]),
        "features.npy": array.getvalue(),
        "features.npz": sparse.getvalue(),
        "features.parquet": table.getvalue(),
    }
