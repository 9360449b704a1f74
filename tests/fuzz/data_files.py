"""Damage data files: CSV, compressed or not, Parquet, workbooks and databases."""

import csv
import gzip
import io
import json
import random
import sqlite3
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import duckdb
import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq

from fuzz.damage import damaged
from fuzz.outcome import Outcome
from fuzz.runner import Case, Said, hunt

NAME = "data files"
ROWS = [
    (trajectory, step, ("ill", "better", "well")[(trajectory + step) % 3], step / 4)
    for trajectory in range(60)
    for step in range(5)
]
HEADING = ("trajectory", "step", "state", "reward")
STUDY = b"""\
[privacy]
epsilon = 1.0
delta = 1e-6
unit = "trajectory"
[values]
discount = 0.9
rewards = [0.0, 1.0]
[states]
labels = ["ill", "better", "well"]
"""


def fuzz(seed: int, seconds: float | None = None, count: int | None = None) -> Outcome:
    """Damage data files, and ask ``inspect`` how many rows they have."""
    return hunt(NAME, case, seed, seconds, count)


def case(choose: random.Random) -> Case:
    """Return a data file with damage."""
    name = choose.choice(sorted(_files()))
    content = _files()[name]
    near = (0.0, 1.0)
    if name.endswith(".parquet") and choose.random() < 0.7:
        near = (1 - _footer(content) / len(content), 1.0)
    if name.endswith(".parquet") and choose.random() < 0.2:
        broken, how = miscounted(content, choose), "miscounted"
    else:
        broken, how = damaged(content, choose, near)
        if broken and choose.random() < 0.25:
            broken, _ = damaged(broken, choose, near)
    data = f"{{}}/{name}" + _TABLES.get(Path(name).suffix, "")
    return Case(
        what=f"{name}, {how}",
        files={"study.toml": STUDY, name: broken},
        arguments=["inspect", "{}/study.toml", "--data", data, "--json"],
        judge=lambda said: missing_rows(name, broken, said),
    )


def miscounted(content: bytes, choose: random.Random) -> bytes:
    """Return a Parquet file whose footer declares another number of rows in one place.

    The footer writes a number n as 2n, of a negative one -2n - 1, seven bits a byte.
    """
    start = len(content) - _footer(content)
    sizes = [n for n in (len(ROWS), 150, 100, 40, 20) if _number(2 * n) in content[start:]]
    old = choose.choice(sizes or [0])
    new = choose.choice((2 * old - 1, 2 * (old - 1), 2 * (old + 1), 2 * (old // 2) + 128))
    places = [at for at in range(start, len(content)) if content.startswith(_number(2 * old), at)]
    at, size = choose.choice(places), len(_number(2 * old))
    return content[:at] + _number(new)[:size].ljust(size, b"\0") + content[at + size :]


def _number(code: int) -> bytes:
    """Return a number in groups of seven bits."""
    digits = bytearray()
    while code >= 0x80:
        digits.append(code & 0x7F | 0x80)
        code >>= 7
    return bytes([*digits, code])


_TABLES = {".sqlite": "::rows", ".duckdb": "::rows"}


def _footer(content: bytes) -> int:
    """Return the length of a Parquet file's footer."""
    return int.from_bytes(content[-8:-4], "little") + 8


def missing_rows(name: str, content: bytes, said: Said) -> str | None:
    """Return what is wrong with the number of rows that were read, by another reader, or None."""
    rows = json.loads(said.out)["rows"]
    if rows == len(ROWS):
        return None
    there = _counted(name, content)
    if there is None or rows == there:
        return None
    return f"{rows} rows were read, and {there} are there"


def _counted(name: str, content: bytes) -> int | None:
    """Return how many rows a file has, by plain means; None if that cannot be told."""
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
def _files() -> dict[str, bytes]:
    """Return sound files of every kind, with the same rows."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([HEADING, *ROWS])
    plain = text.getvalue().encode()
    table = pa.table(dict(zip(HEADING, zip(*ROWS, strict=True), strict=True)))
    found = {
        "plain.csv": plain,
        "quoted.csv": plain.replace(b"ill", b'"ill"'),
        "utf-16.csv": plain.decode().encode("utf-16"),
        "packed.csv.gz": gzip.compress(plain, mtime=0),
        "shuffled.csv.gz": gzip.compress(b"\n".join(_shuffled(plain)), mtime=0),
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
        found[name] = sink.getvalue()
    return found


def _shuffled(text: bytes) -> list[bytes]:
    heading, *lines = text.splitlines()
    random.Random(0).shuffle(lines)
    return [heading, *lines]


def _workbook() -> bytes:
    book = openpyxl.Workbook()
    for row in (HEADING, *ROWS):
        book.active.append(row)
    sink = io.BytesIO()
    book.save(sink)
    return sink.getvalue()


def _made(name: str, fill: Callable[[Path], None]) -> bytes:
    """Return the bytes of a file that a function fills."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        path = Path(folder) / name
        fill(path)
        return path.read_bytes()


def _sqlite() -> bytes:
    def fill(path: Path) -> None:
        connection = sqlite3.connect(path)
        connection.execute("CREATE TABLE rows (trajectory INT, step INT, state TEXT, reward REAL)")
        connection.executemany("INSERT INTO rows VALUES (?, ?, ?, ?)", ROWS)
        connection.commit()
        connection.close()

    return _made("base.sqlite", fill)


def _duckdb(table: pa.Table) -> bytes:
    def fill(path: Path) -> None:
        with duckdb.connect(str(path)) as connection:
            connection.register("given", table)
            connection.execute("CREATE TABLE rows AS SELECT * FROM given")

    return _made("base.duckdb", fill)
