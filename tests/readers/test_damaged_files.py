"""Damaged data is refused in one line, and never accepted with rows missing."""

import gzip
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privalue as pv
from fuzz.data_files import HEADING, ROWS
from oracles.reading import statistics
from oracles.refusals import refused
from oracles.studies import study

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
            with refused("csv-unreadable", "table-empty"):
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


def number(code):
    """A footer writes a number n as 2n, of a negative one -2n - 1, seven bits a byte."""
    digits = []
    while code >= 0x80:
        digits.append(code & 0x7F | 0x80)
        code >>= 7
    return bytes([*digits, code])


def miscounted(content, choose):
    """A Parquet file whose footer declares another number of rows in one place."""
    start = len(content) - int.from_bytes(content[-8:-4], "little") - 8
    old = choose.choice([n for n in (len(ROWS), 150, 40, 20) if number(2 * n) in content[start:]])
    new = choose.choice((2 * old - 1, 2 * (old - 1), 2 * (old + 1), 2 * (old // 2) + 128))
    places = [at for at in range(start, len(content)) if content.startswith(number(2 * old), at)]
    at, size = choose.choice(places), len(number(2 * old))
    return content[:at] + number(new)[:size].ljust(size, b"\0") + content[at + size :]


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


# Names


# Folders with a column in their name


def test_rows_of_hive_folders_are_never_taken_for_one_anothers(tmp_path):
    for person in ("1", "2"):
        folder = tmp_path / "rows" / f"person={person}"
        folder.mkdir(parents=True)
        (folder / "rows.csv").write_bytes(TEXT)
    for data in ("rows", "rows/*", "rows/*/*.csv", "rows/**/*.csv"):
        with refused("file-partitioned"):
            statistics(str(tmp_path / data), STUDY)
    # Whoever names one of the folders means that one.
    assert statistics(tmp_path / "rows" / "person=1", STUDY) == EXPECTED
    assert statistics(str(tmp_path / "rows" / "person=1" / "*.csv"), STUDY) == EXPECTED


# Little memory
