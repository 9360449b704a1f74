"""Damaged data is refused in one line, and never accepted with rows missing."""

import gzip
import os
import random
import sqlite3
import sys
from contextlib import closing

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privalue as pv
from fuzz.data_files import HEADING, ROWS, miscounted
from oracles.reading import statistics
from oracles.studies import study
from privalue.cli import run
from privalue.readers.files import find_files

STUDY = study(states={"labels": ["ill", "better", "well"]})
TEXT = "".join(f"{','.join(map(str, row))}\n" for row in (HEADING, *ROWS)).encode()
TABLE = pa.table(dict(zip(HEADING, zip(*ROWS, strict=True), strict=True)))
EXPECTED = statistics(TABLE, STUDY)


# Compressed


def test_a_packed_file_that_is_cut_short_is_refused_wherever_it_is_cut(tmp_path):
    for name, packed in (
        ("rows.csv.gz", gzip.compress(TEXT)),
        ("rows.csv.zst", pa.compress(TEXT, codec="zstd", asbytes=True)),
    ):
        path = tmp_path / name
        path.write_bytes(packed)
        assert statistics(path, STUDY) == EXPECTED
        for size in {*range(0, len(packed), 97), *range(len(packed) - 12, len(packed))}:
            path.write_bytes(packed[:size])
            with pytest.raises(pv.DataError, match=r"cannot be read as CSV|is empty"):
                statistics(path, STUDY)


def test_a_packed_file_with_a_bit_flipped_is_refused_or_has_all_rows(tmp_path):
    packed, choose = gzip.compress(TEXT, mtime=0), random.Random(0)
    path = tmp_path / "rows.csv.gz"
    for _ in range(150):
        broken = bytearray(packed)
        broken[choose.randrange(len(broken))] ^= 1 << choose.randrange(8)
        path.write_bytes(broken)
        try:
            assert statistics(path, STUDY) == EXPECTED
        except pv.DataError:
            continue


# Parquet


def parquet(path, **options):
    pq.write_table(TABLE, path, **options)
    return path


@pytest.mark.parametrize("size", [300, 150, 40])
def test_a_parquet_file_that_miscounts_its_rows_is_refused(tmp_path, size):
    path = parquet(tmp_path / "rows.parquet", row_group_size=size)
    sound, refused = path.read_bytes(), 0
    for seed in range(60):
        path.write_bytes(miscounted(sound, random.Random(seed)))
        try:
            assert statistics(path, STUDY) == EXPECTED
        except pv.DataError as problem:
            refused += "is damaged" in str(problem)
    assert refused


def test_a_negative_number_of_rows_is_refused(tmp_path, capfd):
    path = parquet(tmp_path / "rows.parquet", row_group_size=100)
    sound = path.read_bytes()
    begin = len(sound) - 8 - int.from_bytes(sound[-8:-4], "little")
    rows = bytes([0x16, 0xC8, 0x01])  # of a group: field of 64 bits, 100 as 200
    assert sound.count(rows, begin) >= 3
    at = sound.rindex(rows)
    path.write_bytes(sound[: at + 1] + bytes([0xC7, 0x01]) + sound[at + 3 :])  # -100
    with pytest.raises(pv.DataError, match="is damaged"):
        statistics(path, STUDY)
    assert run(["init", str(tmp_path / "new.toml"), "--data", str(path)]) == 3
    assert "is damaged" in capfd.readouterr().err


def test_a_page_with_a_checksum_is_checked(tmp_path):
    path = parquet(
        tmp_path / "rows.parquet",
        compression="none",
        use_dictionary=False,
        write_page_checksum=True,
    )
    sound = path.read_bytes()
    places = [at for at in range(len(sound)) if sound.startswith(b"better", at)]
    at = places[len(places) // 2]  # a cell; the first and the last are statistics
    path.write_bytes(sound[:at] + b"bettor" + sound[at + 6 :])
    with pytest.raises(pv.DataError, match="cannot be read as Parquet"):
        statistics(path, STUDY)


def test_a_column_whose_name_is_no_utf_8_is_refused(tmp_path):
    more = TABLE.append_column("surplus", pa.array([1] * len(ROWS)))
    path = tmp_path / "rows.parquet"
    pq.write_table(more, path, store_schema=False)
    assert statistics(path, STUDY) == EXPECTED
    path.write_bytes(path.read_bytes().replace(b"surplus", b"surpl\xff\xfe"))
    with pytest.raises(pv.DataError, match="cannot be read as Parquet"):
        statistics(path, STUDY)


# Names


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are bytes on Linux")
@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".parquet", ".xlsx", ".sqlite", ".toml"])
def test_names_that_are_no_utf_8_are_one_line(tmp_path, ending, capfd):
    path = os.fsdecode(os.fsencode(tmp_path) + b"/rows-\xff" + ending.encode())
    with open(path, "wb") as file:
        file.write(b"x")
    sound = tmp_path / "study.toml"
    sound.write_text(
        '[privacy]\nepsilon = 1.0\ndelta = 1e-6\nunit = "trajectory"\n[values]\ndiscount = 0.9\n'
        "rewards = [0.0, 1.0]\n[states]\ncount = 3\n"
    )
    for study_file, data in ((sound, path), (path, path), (sound, str(tmp_path))):
        assert run(["inspect", str(study_file), "--data", data]) == 3
        assert capfd.readouterr().err.count("\n") == 1


def test_a_pipe_is_no_file_of_rows(tmp_path):
    os.mkfifo(tmp_path / "rows.csv")
    for data in (tmp_path / "rows.csv", str(tmp_path / "*.csv")):
        with pytest.raises(pv.DataError, match="is not a file"):
            statistics(data, STUDY)


# Folders with a column in their name


def test_rows_of_hive_folders_are_never_taken_for_one_anothers(tmp_path):
    for person in ("1", "2"):
        folder = tmp_path / "rows" / f"person={person}"
        folder.mkdir(parents=True)
        (folder / "rows.csv").write_bytes(TEXT)
    for data in ("rows", "rows/*", "rows/*/*.csv", "rows/**/*.csv"):
        with pytest.raises(pv.DataError, match="a column in the name of a folder, person="):
            statistics(str(tmp_path / data), STUDY)
    # Whoever names one of the folders means that one.
    assert statistics(tmp_path / "rows" / "person=1", STUDY) == EXPECTED
    assert statistics(str(tmp_path / "rows" / "person=1" / "*.csv"), STUDY) == EXPECTED
    assert len(find_files(tmp_path / "rows" / "person=2")) == 1


# Little memory


@pytest.mark.parametrize("kind", ["parquet", "csv.gz", "csv", "sqlite"])
def test_the_least_memory_that_may_be_given_is_enough(tmp_path, kind):
    rows = list(ROWS)
    random.Random(0).shuffle(rows)
    path = tmp_path / f"rows.{kind}"
    text = "".join(f"{','.join(map(str, row))}\n" for row in (HEADING, *rows)).encode()
    if kind == "parquet":
        pq.write_table(pa.table(dict(zip(HEADING, zip(*rows, strict=True), strict=True))), path)
    elif kind == "sqlite":
        with closing(sqlite3.connect(path)) as made:
            made.execute("CREATE TABLE rows (trajectory INT, step INT, state TEXT, reward REAL)")
            made.executemany("INSERT INTO rows VALUES (?, ?, ?, ?)", rows)
            made.commit()
    else:
        path.write_bytes(gzip.compress(text) if kind == "csv.gz" else text)
    assert statistics(path, STUDY, memory=64_000_000) == EXPECTED
