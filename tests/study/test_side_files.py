"""Side files are not trusted: where they may be, and what they may hold."""

import json
import os
import socket
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from pyarrow import csv

import privalue as pv
from oracles.refusals import refused
from oracles.studies import PROMISE, study_file
from privalue.cli import run

STUDY = study_file().replace("count = 3", "{states}\n{more}")
FEATURES = '[features]\nkind = "matrix"\nfile = "{}"'


def write_study(folder, states="count = 6", more="", name="study.toml"):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(STUDY.format(states=states, more=more))
    return folder / name


# Where they may be


@pytest.fixture
def places_of(tmp_path):
    """A study's folder, and beside it one that the study may not read."""
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "patients.csv").write_text("Ada\nGrace\n")
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "link.csv").symlink_to(tmp_path / "private" / "patients.csv")
    (tmp_path / "study" / "folder").symlink_to(tmp_path / "private")
    return tmp_path


NAMES = ["../private/patients.csv", "{}/private/patients.csv", "link.csv", "folder/patients.csv"]


@pytest.mark.parametrize("name", NAMES)
def test_a_study_names_no_file_of_another_folder(places_of, name, capfd):
    path = name.format(places_of)
    study = write_study(places_of / "study", f'file = "{path}"')
    assert run(["check", str(study)]) == 3
    assert "Ada" not in capfd.readouterr().err
    with refused("side-file-outside"):
        pv.Study.load(write_study(places_of / "study", name="other.toml")).replace(states=path)
    assert run(["check", str(study), "--side-files", str(places_of / "private")]) == 0
    assert pv.Study.load(study, side_files=places_of / "private").names.names == ("Ada", "Grace")
    assert run(["check", str(study), "--side-files", str(places_of / "study")]) == 3


def test_links_inside_the_folder_and_whole_linked_folders_are_no_way_out(tmp_path):
    real = write_study(tmp_path / "real", 'file = "sub/../names.csv"').parent
    (real / "sub").mkdir()
    (real / "kept.csv").write_text("a\nb\n")
    (real / "names.csv").symlink_to("kept.csv")
    (tmp_path / "linked").symlink_to(real)
    assert pv.Study.load(tmp_path / "linked" / "study.toml").names.names == ("a", "b")


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_data_is_no_side_file(tmp_path, kind):
    """Its first column, or each of its rows, would become a label, and be published."""
    rows = pa.table(
        {"trajectory": ["Ada", "Grace"], "step": [0, 0], "state": ["a", "a"], "reward": [0.5, 0.5]}
    )
    write = pq.write_table if kind == "parquet" else csv.write_csv
    write(rows, tmp_path / f"trial.{kind}")
    study = write_study(tmp_path, f'file = "trial.{kind}"')
    for data in (f"trial.{kind}", "."):
        command = ["release", str(study), "--data", str(tmp_path / data), "--no-ledger", "--out"]
        assert run([*command, str(tmp_path / "out")]) == 3
        with refused("file-public"):
            pv.release(pv.Study.load(study), tmp_path / data)


def test_a_release_names_a_side_file_without_its_folder(tmp_path):
    folder = tmp_path / "patients of Dr Doe"
    folder.mkdir()
    for name, text in {"start": "0,0.5\n1,0.5\n", "weights": "0,1\n1,2\n"}.items():
        (folder / f"{name}.csv").write_text(text)
    files = {name: str(folder / f"{name}.csv") for name in ("start", "weights")}
    study = pv.Study(states=2, rewards=(0, 1), discount=0.9, **PROMISE, **files)
    text = json.dumps(study.public_description())
    assert "start.csv" in text
    assert "weights.csv" in text
    assert "Doe" not in text


# What they may be


def test_pipes_sockets_and_devices_are_refused_at_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a socket's name is short
    os.mkfifo("pipe.csv")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket.csv")
        for name in ("pipe.csv", "socket.csv"):
            with refused("side-file-unreadable"):
                pv.Study.load(write_study(tmp_path, f'file = "{name}"'))
    with refused("side-file-unreadable"):
        pv.Study.load(write_study(tmp_path, 'file = "/dev/zero"'), side_files="/dev")
    assert run(["check", "pipe.csv"]) == 3
    assert run(["report", "pipe.csv"]) == 3


@pytest.mark.parametrize(
    ("name", "more", "most"),
    [
        ("states.csv", "", 250_000_000),
        ("features.npy", FEATURES.format("features.npy"), 1_000_000_000),
        ("study.toml", "", 64_000_000),
    ],
)
def test_a_file_beyond_the_stated_size_is_not_read(tmp_path, name, more, most):
    study = write_study(tmp_path, "count = 6" if more else f'file = "{name}"', more)
    with (tmp_path / name).open("wb") as file:
        file.truncate(most + 1)  # a hole: it takes no room on the disk
    with pytest.raises(pv.StudyError, match=f"{most:,}"):
        pv.Study.load(study)


# Sparse matrices


MATRIX = np.array([[1, 0], [0, 1], [1, 1], [2, 0], [0, 3], [1, 2]], dtype=np.float64)


def parts_of(form):
    matrix = sp.csr_array(MATRIX)
    parts = {"format": np.array(form.encode()), "shape": np.array([6, 2])}
    if form == "coo":
        there = matrix.tocoo()
        return parts | {"data": there.data, "row": there.row, "col": there.col}
    packed = matrix.tocsc() if form == "csc" else matrix
    return parts | {"data": packed.data, "indices": packed.indices, "indptr": packed.indptr}


def load(tmp_path, parts):
    np.savez_compressed(tmp_path / "features.npz", **parts, allow_pickle=True)
    return pv.Study.load(write_study(tmp_path, more=FEATURES.format("features.npz")))


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
def test_sparse_matrices_are_read_in_three_formats(tmp_path, form):
    features = load(tmp_path, parts_of(form)).feature_matrix
    assert (features.toarray() == MATRIX).all()
    save = {"csr": sp.csr_array, "csc": sp.csc_matrix, "coo": sp.coo_array}[form]
    sp.save_npz(tmp_path / "features.npz", save(MATRIX))
    features = pv.Study.load(tmp_path / "study.toml").feature_matrix
    assert (features.toarray() == MATRIX).all()


def changed(at, value):
    def change(array):
        array = array.copy()
        array[at] = value
        return array

    return change


BROKEN = [
    *[("csr", "indices", changed(3, value)) for value in (2, -1, 10**9, -(2**31))],
    *[("csc", "indices", changed(3, value)) for value in (6, -1, 10**9)],
    *[("coo", part, changed(0, value)) for part in ("row", "col") for value in (-1, 10**9)],
    *[("csr", "indptr", changed(2, value)) for value in (-1, 10**9, 0)],
    ("csr", "indptr", lambda starts: starts[::-1].copy()),
    ("csr", "indptr", lambda starts: starts[:-1]),
    ("csr", "indptr", lambda starts: starts + 1),
    ("csr", "data", lambda data: data[:-1]),
    ("coo", "data", lambda data: np.append(data, data)),
    ("csr", "data", lambda data: data.reshape(1, -1)),
    ("csr", "data", lambda data: data.astype(object)),
    ("csr", "data", lambda data: data.astype("U8")),
    ("csr", "indices", lambda indices: np.append(indices[:-1].astype(np.uint64), 2**64 - 1)),
    *[("coo", "shape", lambda _, s=shape: np.array(s)) for shape in ([6], [6, -2], [6, 2**40])],
    ("coo", "shape", lambda _: np.array([2**31 - 1, 2])),
    ("csr", "format", lambda _: np.array(b"bsr")),
    ("csr", "format", lambda _: np.array(b"spmatrix")),
    ("csr", "format", lambda _: np.array(3)),
]


@pytest.mark.parametrize(("form", "part", "change"), BROKEN)
def test_sparse_matrices_are_checked_before_they_are_used(tmp_path, form, part, change):
    parts = parts_of(form)
    parts[part] = change(parts[part])
    with refused("side-file-damaged", "features-shape", "features-not-real"):
        load(tmp_path, parts)


def test_archives_are_held_to_what_they_may_unpack_to(tmp_path, monkeypatch):
    parts = parts_of("csr")
    monkeypatch.setattr("privalue.study.side_files.MAX_ARRAY", 100_000)
    load(tmp_path, parts)
    with refused("side-file-damaged"):
        load(tmp_path, {**parts, "more": np.zeros(20_000)})


def test_an_archive_that_lies_about_its_sizes_is_refused(tmp_path):
    load(tmp_path, parts_of("csr"))
    path = tmp_path / "features.npz"
    content = path.read_bytes()
    sizes = [entry.file_size for entry in zipfile.ZipFile(path).infolist()]
    assert content.count(sizes[0].to_bytes(4, "little"))
    path.write_bytes(content.replace(sizes[0].to_bytes(4, "little"), b"\x01\0\0\0"))
    with refused("side-file-damaged"):
        pv.Study.load(tmp_path / "study.toml")


# Arrays


def npy(header, content=bytes(96)):
    return b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header.encode() + content


SOUND = "{'descr': '<f8', 'fortran_order': False, 'shape': (6, 2), }"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x93NUMPY",
        npy(SOUND)[:-1],
        npy(SOUND)[:20],
        npy(""),
        npy("{}"),
        npy("(" * 5000),
        npy("{'descr': '|O', 'fortran_order': False, 'shape': (12,), }"),
        npy("{'descr': '<U1', 'fortran_order': False, 'shape': (6, 4), }", b"\xff" * 96),
        npy("{'descr': '<U1', 'fortran_order': False, 'shape': (6, 4), }"),
        npy("{'descr': '|S8', 'fortran_order': False, 'shape': (6, 2), }"),
        npy("{'descr': 'f9', 'fortran_order': False, 'shape': (6, 2), }"),
        npy("{'descr': '<f8', 'fortran_order': 1, 'shape': (6, 2), }"),
        npy("{'descr': '<f8', 'fortran_order': False, 'shape': (-6, -2), }"),
        npy("{'descr': '<f8', 'fortran_order': False, 'shape': (6, 99999999999999), }"),
        npy("{'descr': '<f8', 'fortran_order': False, 'shape': (" + "9" * 5000 + ",), }"),
        npy("{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (12,), }"),
        npy("__import__('os').abort()"),
    ],
)
def test_invalid_headers_of_arrays_are_refused_in_one_line(tmp_path, content, capfd):
    study = write_study(tmp_path, more=FEATURES.format("features.npy"))
    (tmp_path / "features.npy").write_bytes(content)
    assert run(["check", str(study)]) == 3
    assert capfd.readouterr().err.count("\n") == 1


# Tables


@pytest.mark.parametrize("most", [1_000_000, 100_000])
def test_a_label_that_is_repeated_takes_its_bytes_once(tmp_path, most, monkeypatch):
    """A table that is small with a dictionary would take 200 MB as separate texts."""
    monkeypatch.setattr("privalue.study.side_files.MAX_ARRAY", most)
    label = pa.array([" " + "x" * 10_000])
    column = pa.DictionaryArray.from_arrays(np.zeros(20_000, np.int32), label)
    pq.write_table(pa.table({"state": column}), tmp_path / "table.parquet", store_schema=False)
    with refused("side-file-damaged" if most == 100_000 else "label-twice"):
        pv.Study.load(write_study(tmp_path, 'file = "table.parquet"'))


TABLES = [
    ("a\0\n", "", "side-file-damaged"),
    ('a\n"b\nc\nd\n', "", "side-file-damaged"),
    ("a,b\nc\n", "", "side-file-damaged"),
    ("\n", "", "side-file-damaged"),
    ("a\na\n", "", "label-twice"),
    *[(f"{label},1\n", "weights", "label-unknown") for label in ("9" * 5000, "00000000000", "²")],
    ("0;1\n", "weights", "side-file-columns"),
    ("state,weight\n", "weights", "label-missing"),
    ("0,1\n1,x\n", "weights", "side-file-number"),
]


@pytest.mark.parametrize(("content", "key", "code"), TABLES, ids=lambda text: str(text)[:20])
def test_invalid_tables_are_refused(tmp_path, content, key, code):
    (tmp_path / "table.csv").write_bytes(content.encode())
    states = "count = 6" if key else 'file = "table.csv"'
    with refused(code):
        pv.Study.load(write_study(tmp_path, states, '[weights]\nfile = "table.csv"' if key else ""))
