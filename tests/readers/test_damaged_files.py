"""Damaged files are refused in one line, and never read with rows missing."""

import gzip
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privalue as pv
from fuzz.data_files import HEADING, ROWS
from oracles.reading import statistics
from oracles.refusals import refused
from oracles.studies import make_study

STUDY = make_study(states={"labels": ["ill", "better", "well"]})
TEXT = "".join(f"{','.join(map(str, row))}\n" for row in (HEADING, *ROWS)).encode()
TABLE = pa.table(dict(zip(HEADING, zip(*ROWS, strict=True), strict=True)))
EXPECTED = statistics(TABLE, STUDY)


# Compressed


def test_a_truncated_compressed_file_is_refused(tmp_path):
    for name, compressed in (
        ("rows.csv.gz", gzip.compress(TEXT)),
        ("rows.csv.zst", pa.compress(TEXT, codec="zstd", asbytes=True)),
    ):
        path = tmp_path / name
        path.write_bytes(compressed)
        assert statistics(path, STUDY) == EXPECTED
        for size in {*range(0, len(compressed), 97), *range(len(compressed) - 12, len(compressed))}:
            path.write_bytes(compressed[:size])
            with refused("csv-unreadable", "table-empty"):
                statistics(path, STUDY)


def test_a_compressed_file_with_a_flipped_bit_is_refused_or_has_all_rows(tmp_path):
    compressed, choose = gzip.compress(TEXT, mtime=0), random.Random(0)
    path = tmp_path / "rows.csv.gz"
    for _ in range(150):
        broken = bytearray(compressed)
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


def number(code):
    """Return the bytes of a code (2n for n, -2n - 1 for negative n), seven bits in each."""
    digits = []
    while code >= 0x80:
        digits.append(code & 0x7F | 0x80)
        code >>= 7
    return bytes([*digits, code])


def change_row_count(content, choose):
    """Return a Parquet file whose footer has another number of rows in one place."""
    start = len(content) - int.from_bytes(content[-8:-4], "little") - 8
    old = choose.choice([n for n in (len(ROWS), 150, 40, 20) if number(2 * n) in content[start:]])
    new = choose.choice((2 * old - 1, 2 * (old - 1), 2 * (old + 1), 2 * (old // 2) + 128))
    places = [at for at in range(start, len(content)) if content.startswith(number(2 * old), at)]
    at, size = choose.choice(places), len(number(2 * old))
    return content[:at] + number(new)[:size].ljust(size, b"\0") + content[at + size :]


@pytest.mark.parametrize("size", [300, 150, 40])
def test_a_parquet_file_that_miscounts_its_rows_is_refused(tmp_path, size):
    path = parquet(tmp_path / "rows.parquet", row_group_size=size)
    sound, refusals = path.read_bytes(), 0
    for seed in range(60):
        path.write_bytes(change_row_count(sound, random.Random(seed)))
        try:
            assert statistics(path, STUDY) == EXPECTED
        except pv.DataError as problem:
            refusals += problem.code == "parquet-damaged"
    assert refusals


# Folders with a column in their name


def test_folders_named_after_a_column_are_refused(tmp_path):
    for person in ("1", "2"):
        folder = tmp_path / "rows" / f"person={person}"
        folder.mkdir(parents=True)
        (folder / "rows.csv").write_bytes(TEXT)
    for data in ("rows", "rows/*", "rows/*/*.csv", "rows/**/*.csv"):
        with refused("file-partitioned"):
            statistics(str(tmp_path / data), STUDY)
    # A name that includes one of the folders is unambiguous.
    assert statistics(tmp_path / "rows" / "person=1", STUDY) == EXPECTED
    assert statistics(str(tmp_path / "rows" / "person=1" / "*.csv"), STUDY) == EXPECTED
