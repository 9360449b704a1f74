"""Files beside a study come from whoever wrote it: where they may be, and what they may hold."""

import io
import os
import socket
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

import privalue as pv
from privalue.cli import run
from privalue.ledger.files import read_whole
from privalue.study import SECTIONS, as_cell, side_files
from privalue.study.spreadsheets import of_cell
from privalue.study.study import MOST_STUDY

STUDY = """\
[privacy]
epsilon = 1.0
delta = 1e-6
unit = "trajectory"
[values]
discount = 0.9
rewards = [0.0, 1.0]
[states]
{states}
{more}
"""
FEATURES = '[features]\nkind = "matrix"\nfile = "{}"'


def written(folder, states="count = 6", more="", name="study.toml"):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(STUDY.format(states=states, more=more))
    return folder / name


# Where they may be


@pytest.fixture
def places_of(tmp_path):
    """A study's folder, and beside it one that is none of its business."""
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "patients.csv").write_text("Ada\nGrace\n")
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "link.csv").symlink_to(tmp_path / "private" / "patients.csv")
    (tmp_path / "study" / "folder").symlink_to(tmp_path / "private")
    return tmp_path


NAMES = ["../private/patients.csv", "{}/private/patients.csv", "link.csv", "folder/patients.csv"]


@pytest.mark.parametrize("name", NAMES)
def test_a_study_names_no_file_of_another_folder(places_of, name, capfd):
    named = name.format(places_of)
    study = written(places_of / "study", f'file = "{named}"')
    assert run(["check", str(study)]) == 3
    said = capfd.readouterr().err
    assert "lies outside the study's folder" in said
    assert "side_files=DIR" in said
    assert "Ada" not in said
    assert run(["check", str(study), "--side-files", str(places_of / "private")]) == 0
    assert pv.Study.load(study, side_files=places_of / "private").state_labels == ("Ada", "Grace")
    assert run(["check", str(study), "--side-files", str(places_of / "study")]) == 3


def test_what_is_outside_is_refused_alike_whether_it_exists_or_not(places_of):
    there = written(places_of / "study", 'file = "../private/patients.csv"')
    absent = written(places_of / "study", 'file = "../private/nobodies.csv"', name="other.toml")
    said = []
    for study, name in ((there, "patients"), (absent, "nobodies")):
        with pytest.raises(pv.StudyError) as problem:
            pv.Study.load(study)
        said.append(str(problem.value).replace(str(study), "").replace(name, ""))
    assert said[0] == said[1]


def test_a_copy_of_a_study_stays_in_the_same_folder(places_of):
    study = pv.Study.load(written(places_of / "study"))
    with pytest.raises(pv.StudyError, match="lies outside"):
        study.replace(states="../private/patients.csv")


def test_a_file_that_is_not_beside_the_study_is_found_in_the_other_folder(places_of, capfd):
    study = written(places_of / "study", 'file = "patients.csv"')
    assert run(["check", str(study)]) == 3
    assert "does not exist" in capfd.readouterr().err
    assert run(["check", str(study), "--side-files", str(places_of / "private")]) == 0
    assert run(["check", str(study), "--side-files", str(places_of / "nowhere")]) == 3
    assert "side_files='" in capfd.readouterr().err


def test_links_inside_the_folder_and_whole_linked_folders_are_no_way_out(tmp_path):
    real = written(tmp_path / "real", 'file = "sub/../names.csv"').parent
    (real / "sub").mkdir()
    (real / "kept.csv").write_text("a\nb\n")
    (real / "names.csv").symlink_to("kept.csv")
    (tmp_path / "linked").symlink_to(real)
    assert pv.Study.load(tmp_path / "linked" / "study.toml").state_labels == ("a", "b")


def test_a_file_that_is_exchanged_for_a_link_is_not_read(places_of):
    with pytest.raises(OSError, match="lies outside"):
        read_whole(places_of / "study" / "link.csv", 100, inside=places_of / "study")


# What they may be


def test_pipes_sockets_and_devices_are_refused_at_once(tmp_path, capfd, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a socket's name is short
    os.mkfifo("pipe.csv")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket.csv")
        for name in ("pipe.csv", "socket.csv"):
            assert run(["check", str(written(tmp_path, f'file = "{name}"'))]) == 3
            assert "it is not a regular file" in capfd.readouterr().err
    study = written(tmp_path, 'file = "/dev/zero"')
    assert run(["check", str(study), "--side-files", "/dev"]) == 3
    assert "it is not a regular file" in capfd.readouterr().err
    for name in ("pipe.csv", "/dev/zero"):
        assert run(["check", name]) == 3
        assert run(["report", name]) == 3
        assert capfd.readouterr().err.count("it is not a regular file") == 2


@pytest.mark.parametrize(
    ("name", "more", "most"),
    [
        ("states.csv", "", side_files.MOST_TABLE),
        ("features.npy", FEATURES.format("features.npy"), side_files.MOST_ARRAY),
    ],
)
def test_a_file_beyond_the_stated_size_is_not_read(tmp_path, name, more, most):
    study = written(tmp_path, "count = 6" if more else f'file = "{name}"', more)
    with (tmp_path / name).open("wb") as file:
        file.truncate(most + 1)  # a hole: it takes no room on the disk
    with pytest.raises(pv.StudyError, match=f"larger than {most:,} bytes"):
        pv.Study.load(study)


def test_a_study_beyond_the_stated_size_is_not_read(tmp_path):
    study = tmp_path / "study.toml"
    with study.open("wb") as file:
        file.truncate(MOST_STUDY + 1)
    with pytest.raises(pv.StudyError, match="larger than 64,000,000 bytes"):
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
    return pv.Study.load(written(tmp_path, more=FEATURES.format("features.npz")))


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
def test_sparse_matrices_are_read_in_three_formats(tmp_path, form):
    found = load(tmp_path, parts_of(form)).feature_matrix
    assert (found.toarray() == MATRIX).all()
    save = {"csr": sp.csr_array, "csc": sp.csc_matrix, "coo": sp.coo_array}[form]
    sp.save_npz(tmp_path / "features.npz", save(MATRIX))
    found = pv.Study.load(tmp_path / "study.toml").feature_matrix
    assert (found.toarray() == MATRIX).all()


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
    with pytest.raises(pv.StudyError, match=r"\[features\] file"):
        load(tmp_path, parts)


def test_archives_are_held_to_what_they_may_unpack_to(tmp_path, monkeypatch):
    parts = parts_of("csr")
    monkeypatch.setattr(side_files, "MOST_ARRAY", 100_000)
    load(tmp_path, parts)
    with pytest.raises(pv.StudyError, match="unpacks to more than 100,000 bytes"):
        load(tmp_path, {**parts, "more": np.zeros(20_000)})


def test_an_archive_that_lies_about_its_sizes_is_refused(tmp_path):
    load(tmp_path, parts_of("csr"))
    path = tmp_path / "features.npz"
    content = path.read_bytes()
    sizes = [entry.file_size for entry in zipfile.ZipFile(path).infolist()]
    assert content.count(sizes[0].to_bytes(4, "little"))
    path.write_bytes(content.replace(sizes[0].to_bytes(4, "little"), b"\x01\0\0\0"))
    with pytest.raises(pv.StudyError, match="cannot be read as a sparse matrix"):
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
def test_headers_of_arrays_that_do_not_parse_are_one_line(tmp_path, content, capfd):
    study = written(tmp_path, more=FEATURES.format("features.npy"))
    (tmp_path / "features.npy").write_bytes(content)
    assert run(["check", str(study)]) == 3
    said = capfd.readouterr().err
    assert said.count("\n") == 1


@pytest.mark.parametrize("kind", ["<f8", ">f4", "<i8", "|u1", "|b1"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_are_read_as_numpy_reads_them(tmp_path, kind, order):
    array = np.array(MATRIX > 0 if kind == "|b1" else MATRIX, dtype=kind, order=order)
    np.save(tmp_path / "features.npy", array)
    study = pv.Study.load(written(tmp_path, more=FEATURES.format("features.npy")))
    assert (study.feature_matrix == array).all()


# Tables


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a\0\n", "NUL"),
        ('a\n"b\nc\nd\n', "a quote is not closed"),
        ("a,b\nc\n", "cannot be read as a table"),
    ],
)
def test_tables_that_are_no_csv_are_one_line(tmp_path, content, said):
    (tmp_path / "states.csv").write_bytes(content.encode())
    with pytest.raises(pv.StudyError, match=said):
        pv.Study.load(written(tmp_path, 'file = "states.csv"'))


def test_a_table_with_semicolons_is_told_that_commas_are_needed(tmp_path):
    (tmp_path / "visits.csv").write_text("state;probability\n0;0,5\n")
    with pytest.raises(pv.StudyError, match=r"2 are needed, with a comma|Expected 1 columns"):
        pv.Study.load(written(tmp_path, 'count = 1\nvisits = "visits.csv"'))


@pytest.mark.parametrize("label", ["9" * 5000, "00000000000", "²", "٣"])
def test_a_number_that_is_no_state_is_refused_however_long(tmp_path, label):
    (tmp_path / "weights.csv").write_text(f"state,weight\n{label},1\n")
    with pytest.raises(pv.StudyError, match="which is not a state of the study"):
        pv.Study.load(written(tmp_path, more='[weights]\nfile = "weights.csv"'))


def parquet(table, **options):
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def test_tables_of_features_have_a_row_for_each_state_and_nothing_else(tmp_path):
    study = written(tmp_path, more=FEATURES.format("features.parquet"))
    names = [str(n) for n in range(6)]
    good = pa.table({"state": names, "a": MATRIX[:, 0], "b": MATRIX[:, 1]})
    for table, said in (
        (good.slice(0, 5), "leaves out 1 of 6 states"),
        (pa.concat_tables([good, good]), "twice"),
        (good.set_column(0, "state", pa.array(["0"] * 6)), "names the state .0. twice"),
        (good.set_column(1, "a", pa.array(["x" * 1000] * 6)), "not a number"),
        (pa.table({}), "is empty"),
    ):
        (tmp_path / "features.parquet").write_bytes(parquet(table))
        with pytest.raises(pv.StudyError, match=said):
            pv.Study.load(study)
    (tmp_path / "features.parquet").write_bytes(parquet(good, row_group_size=2))
    assert (pv.Study.load(study).feature_matrix == MATRIX).all()


# Labels in tables that people open


LABELS = ["-", "=1+1", "+cmd", "-1", "+1.5", "-1e3", "-x", "@sum", "\uff1d1", "a", "'=1+1", "'tis"]


def test_no_label_is_a_formula_and_each_can_be_read_back():
    cells = [as_cell(label) for label in LABELS]
    assert cells == [
        *("-", "'=1+1", "'+cmd", "-1", "+1.5", "-1e3", "'-x", "'@sum", "'\uff1d1", "a"),
        *("''=1+1", "'tis"),
    ]
    assert [of_cell(cell) for cell in cells] == LABELS
    assert as_cell("\t=1") == "'\t=1"


@pytest.mark.parametrize(
    "unseen", ["\ufeff", "\u200b", "\u00ad", "\u2060", "\0", " ", "\u00a0", "\U000e0001", "\u200b'"]
)
@pytest.mark.parametrize("sign", "=+-@\uff1d\ufe66")
def test_a_formula_behind_what_is_not_seen_is_none_either(unseen, sign):
    for label in (f"{unseen}{sign}1+1", f"'{unseen}{sign}1+1", f"{unseen}{unseen}{sign}x"):
        assert as_cell(label) == "'" + label
        assert of_cell(as_cell(label)) == label
        assert of_cell(as_cell(as_cell(label))) == as_cell(label)
    assert as_cell(f"{unseen}a") == f"{unseen}a"


def test_side_files_take_labels_as_values_csv_has_them(tmp_path):
    labels = ["=1+1", "-1", "a"]
    (tmp_path / "weights.csv").write_text("state,value\n'=1+1,1\n-1,2\na,3\n")
    study = written(tmp_path, f"labels = {labels}", '[weights]\nfile = "weights.csv"')
    assert pv.Study.load(study).state_weights.tolist() == [1, 2, 3]
    (tmp_path / "weights.csv").write_text("state,value\n'=1+1,1\n=1+1,1\n-1,2\na,3\n")
    with pytest.raises(pv.StudyError, match="twice"):
        pv.Study.load(study)


# The study itself


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[privacy]", "features = 3\n[privacy]", "[features] must be a section"),
        ("count = 6", "count = " + "9" * 5000, "not valid TOML"),
        ("count = 6", "count = 0x" + "f" * 5000, "too long to show"),
        ("count = 6", "labels = [0x" + "f" * 5000 + "]", "labels"),
        ("count = 6", "labels = " + "[" * 3000 + "]" * 3000, "not valid TOML"),
        ("count = 6", "labels = " + "[" * 300 + "]" * 300, "labels"),
        ("count = 6", "count = 6\n[privacy.unit]\nx = 1", ""),
        (
            'unit = "trajectory"',
            'unit = "trajectory"\nmax_states_per_trajectory = 1' + "0" * 99,
            "",
        ),
    ],
)
def test_a_study_that_is_none_is_one_line(tmp_path, old, new, said, capfd):
    study = written(tmp_path)
    study.write_text(study.read_text().replace(old, new))
    assert run(["check", str(study)]) == 3
    err = capfd.readouterr().err
    assert err.count("\n") == 1
    assert said in err


@pytest.mark.parametrize("section", sorted(SECTIONS))
@pytest.mark.parametrize("value", ["3", '"x"', "[]", "true", "1979-05-27", "[{}]"])
def test_a_section_that_is_none_is_one_line(tmp_path, section, value, capfd):
    study = written(tmp_path)
    text = f"{section} = {value}\n" + study.read_text().replace(f"[{section}]", f"[{section}x]")
    study.write_text(text)
    assert run(["check", str(study)]) == 3
    assert capfd.readouterr().err.count("\n") == 1
