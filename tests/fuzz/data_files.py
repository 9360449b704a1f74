"""Damage data files: CSV, compressed or not, Parquet, workbooks and databases."""

import csv
import gzip
import io
import json
import random
import sqlite3
import tempfile
from contextlib import closing
from functools import cache, partial
from pathlib import Path

import duckdb
import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq

from fuzz.damage import damage

ROWS = [
    (trajectory, step, ("ill", "better", "well")[(trajectory + step) % 3], step / 4)
    for trajectory in range(60)
    for step in range(5)
]
HEADING = ("trajectory", "step", "state", "reward")
STUDY = (Path(__file__).parent / "texts" / "data_files.toml").read_bytes()


def case(choose):
    """A data file with damage, of which ``inspect`` says how many rows it has."""
    name = choose.choice(sorted(_files()))
    content = _files()[name]
    near = (0.0, 1.0)
    if name.endswith(".parquet") and choose.random() < 0.7:
        near = (1 - _footer(content) / len(content), 1.0)
    broken, how = damage(content, choose, near)
    if broken and choose.random() < 0.25:
        broken, _ = damage(broken, choose, near)
    data = f"{{}}/{name}" + _TABLES.get(Path(name).suffix, "")
    words = ["inspect", "{}/study.toml", "--data", data, "--json"]
    files = {"study.toml": STUDY, name: broken}
    return f"{name}, {how}", files, words, partial(missing_rows, name, broken)


_TABLES = {".sqlite": "::rows", ".duckdb": "::rows"}


def _footer(content):
    """Return the length of a Parquet file's footer."""
    return int.from_bytes(content[-8:-4], "little") + 8


def missing_rows(name, content, answer):
    """Return what is wrong with the number of rows that were read, by another reader, or None."""
    rows = json.loads(answer.out)["rows"]
    if rows == len(ROWS):
        return None
    expected = count_rows(name, content)
    if expected is None or rows == expected:
        return None
    return f"{rows} rows were read, and {expected} are there"


def count_rows(name, content):
    """Return how many rows a file has, by plain means; None if that is unknown."""
    if "parquet" in name:
        return len(ROWS)  # no damage takes rows away: the file has them, or it is to be refused
    if name.endswith(".gz"):
        content = gzip.decompress(content)
    elif ".csv" not in name or name.endswith(".zst"):
        return None
    if "utf-16" in name:
        content = content.decode("utf-16", "ignore").encode()
    return sum(bool(line.strip(b"\r")) for line in content.split(b"\n")) - 1


@cache
def _files():
    """Return sound files of every kind, with the same rows."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([HEADING, *ROWS])
    plain = text.getvalue().encode()
    table = pa.table(dict(zip(HEADING, zip(*ROWS, strict=True), strict=True)))
    files = {
        "plain.csv": plain,
        "quoted.csv": plain.replace(b"ill", b'"ill"'),
        "utf-16.csv": plain.decode().encode("utf-16"),
        "packed.csv.gz": gzip.compress(plain, mtime=0),
        "shuffled.csv.gz": gzip.compress(b"\n".join(_shuffle(plain)), mtime=0),
        "two.csv.gz": gzip.compress(plain[:2000], mtime=0) + gzip.compress(plain[2000:], mtime=0),
        "packed.csv.zst": pa.compress(plain, codec="zstd", asbytes=True),
        "book.xlsx": _workbook(),
        "base.sqlite": _sqlite(),
        "base.duckdb": _duckdb(table),
    }
    for name, options in {
        "plain.parquet": {"compression": "none"},
        "many.parquet": {"row_group_size": 40, "write_page_checksum": True},
        "pages.parquet": {"data_page_version": "2.0", "data_page_size": 64, "use_dictionary": []},
        "gzip.parquet": {"compression": "gzip", "row_group_size": 150},
    }.items():
        sink = io.BytesIO()
        pq.write_table(table, sink, **options)
        files[name] = sink.getvalue()
    return files


def _shuffle(text):
    heading, *lines = text.splitlines()
    random.Random(0).shuffle(lines)
    return [heading, *lines]


def _workbook():
    book = openpyxl.Workbook()
    for row in (HEADING, *ROWS):
        book.active.append(row)
    sink = io.BytesIO()
    book.save(sink)
    return sink.getvalue()


def _sqlite():
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE rows (trajectory INT, step INT, state TEXT, reward REAL)")
        connection.executemany("INSERT INTO rows VALUES (?, ?, ?, ?)", ROWS)
        connection.commit()
        return connection.serialize()


def _duckdb(table):
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        path = Path(folder) / "base.duckdb"
        with duckdb.connect(str(path)) as connection:
            connection.register("given", table)
            connection.execute("CREATE TABLE rows AS SELECT * FROM given")
        return path.read_bytes()
