"""Damage the files beside a study: labels, groups, priors, weights, and matrices of every kind."""

import io
import json
import random
import struct
import zipfile
import zlib
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp

from fuzz.damage import damaged
from fuzz.outcome import Outcome
from fuzz.runner import Case, hunt

NAME = "side files"
LABELS = ("ill", "better", "well", "=1+1", "a,b", 'q"q')
STUDY = """\
[privacy]
epsilon = 1.0
delta = 1e-6
unit = "trajectory"
[values]
discount = 0.9
rewards = [0.0, 1.0]
start = "start.csv"
[states]
file = "states.csv"
groups = "groups.csv"
visits = "visits.csv"
[weights]
file = "weights.csv"
[features]
kind = "matrix"
file = {features}
"""


def fuzz(seed: int, seconds: float | None = None, count: int | None = None) -> Outcome:
    """Damage a side file, and check its study."""
    return hunt(NAME, case, seed, seconds, count)


def case(choose: random.Random) -> Case:
    """Return a study of which one side file has damage."""
    files = dict(_files())
    features = choose.choice([name for name in files if name.startswith("features")])
    target = choose.choice((features, features, features, *_TABLES))
    if target.endswith(".npz") and choose.random() < 0.7:
        files[target], how = lying_matrix(choose)
    elif target.endswith(".npy") and choose.random() < 0.5:
        files[target], how = lying_array(choose)
    elif target.endswith(".csv") and choose.random() < 0.5:
        files[target], how = odd_cells(files[target], choose)
    else:
        files[target], how = damaged(files[target], choose)
    study = STUDY.format(features=json.dumps(features)).encode()
    return Case(
        what=f"{target}, {how}",
        files={**files, "study.toml": study},
        arguments=["check", "{}/study.toml", *choose.choice(((), ("--json",)))],
    )


def odd_cells(content: bytes, choose: random.Random) -> tuple[bytes, str]:
    """Put odd cells into a table."""
    odd = (
        *(b"9" * 5000, b"1e999", b"nan", b"-0", b"x" * 200_000, b"a\rb", b"\x1b[2J", b"\xff"),
        *(b'"open', b"", b"\x00", b"\xe2\x80\xae", b"0x10", b"1_0", "\u0663".encode(), b"\n\n"),
    )
    cells = content.replace(b"\n", b",\n").split(b",")
    cells[choose.randrange(len(cells))] = choose.choice(odd)
    return b",".join(cells).replace(b",\n", b"\n"), "odd cells"


def lying_array(choose: random.Random) -> tuple[bytes, str]:
    """Return a ``.npy`` file whose header lies."""
    kind = choose.choice(("<f8", "<f4", "|O", "<U4", "|V8", "<c16", ">i8", "|b1", "<M8[s]", "f9"))
    shape = choose.choice(
        ("(6, 2)", "(6,)", "()", "(6, 2, 1)", "(6, 1000000000000)", "(-6, 2)", "(6, 2", "(6.0, 2)")
    )
    order = choose.choice(("False", "True", "None", "1", "__import__('os')"))
    header = f"{{'descr': '{kind}', 'fortran_order': {order}, 'shape': {shape}, }}"
    if choose.random() < 0.2:
        header = choose.choice(("(" * 4000, "{" * 100, "", "{}", "[1]", "'" * 3, header[:-2]))
    version = choose.choice((b"\1\0", b"\2\0", b"\3\0", b"\4\0"))
    size = struct.pack("<H" if version[0] == 1 else "<I", len(header))
    return b"\x93NUMPY" + version + size + header.encode() + bytes(96), "lying header"


def lying_matrix(choose: random.Random) -> tuple[bytes, str]:
    """Return a sparse matrix of which one part does not fit the others."""
    form = choose.choice(("csr", "csc", "coo", "bsr", "dia", "nothing"))
    sound = sp.csr_array(_matrix())
    parts: dict[str, np.ndarray] = {"data": sound.data, "shape": np.array(sound.shape)}
    if form == "coo":
        there = sound.tocoo()
        parts |= {"row": there.row, "col": there.col}
    else:
        packed = sound.tocsc() if form == "csc" else sound
        parts |= {"data": packed.data, "indices": packed.indices, "indptr": packed.indptr}
    parts["format"] = np.array(form.encode())
    name = choose.choice(list(parts))
    parts[name] = _other(parts[name], choose)
    if choose.random() < 0.1:
        del parts[name]
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        for part, array in parts.items():
            inner = io.BytesIO()
            np.save(inner, array, allow_pickle=True)
            content = inner.getvalue()
            if choose.random() < 0.05:
                content += zlib.compress(b"") + bytes(50_000_000)
            archive.writestr(f"{part}.npy", content)
    return sink.getvalue(), f"{form}, lying {name}"


def _other(array: np.ndarray, choose: random.Random) -> np.ndarray:
    """Return an array that does not fit."""
    kind = choose.randrange(8)
    changed = np.array(array, copy=True)
    if kind == 0 and changed.size and changed.dtype.kind in "if":
        edges = (-1, 10**6, 2**31 - 1, -(2**31))
        changed.reshape(-1)[choose.randrange(changed.size)] = choose.choice(edges)
    elif kind == 1:
        changed = changed[::-1] if changed.ndim else changed.reshape(1)
    elif kind == 2:
        changed = changed[:-1] if changed.ndim else np.array(0.5)
    elif kind == 3:
        changed = np.append(changed, changed)
    elif kind == 4:
        changed = np.array([None, "x", 3], dtype=object)
    elif kind == 5:
        changed = changed.astype(choose.choice(("U8", "S4")) if changed.ndim else "U9")
    elif kind == 6:
        changed = np.array([6, choose.choice((2**62, 2**31 - 1, 10**7, 0, -2))])
    else:
        changed = np.array([np.nan, np.inf, -1e300, 0.5])
    return changed


_TABLES = ("states.csv", "groups.csv", "visits.csv", "weights.csv", "start.csv")


def _matrix() -> np.ndarray:
    return np.array([[1, 0], [0, 1], [1, 1], [2, 0], [0, 3], [1, 2]], dtype=np.float64)


@cache
def _files() -> dict[str, bytes]:
    """Return sound side files."""
    quoted = ['"' + label.replace('"', '""') + '"' for label in LABELS]
    matrix = _matrix()
    array, sparse, table = io.BytesIO(), io.BytesIO(), io.BytesIO()
    np.save(array, matrix)
    sp.save_npz(sparse, sp.csr_array(matrix))
    pq.write_table(pa.table({"state": LABELS, "a": matrix[:, 0], "b": matrix[:, 1]}), table)

    def rows(heading: str, cells: list[str]) -> bytes:
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
