"""Damage a ledger's files: bytes, rows, entries, the schema, the log beside it, the whole file.

Tables and columns are read from the schema. Nobody is stopped here: whoever can write the file can
do all of this. What is not done is what every writer may do, to append an entry that fits.
"""

import hashlib
import json
import random
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

_EDGES = (0, 1, -1, 2**31, 2**63 - 1, -(2**63), 1.5, float("inf"))
_TEXTS = (
    "",
    "x",
    "0" * 64,
    "f" * 64,
    "9" * 5000,
    "[" * 3000,
    '{"a":' * 200,
    "a\0b",
    "\u0661",
    "{}",
)
_BYTES = (b"", b"\x00", b"\xff\xfe", b"\xc3\x28", b"x" * 100_000)
_JSON: tuple[Any, ...] = (
    *(None, True, 0, -1, 1, 10**30, -(10**30), 1e308, "", "x", "0" * 64, [], {}, [[[]]]),
    *("people", "others", "charge", "commit", "declare"),
    *("trajectory", "person", "gaussian"),
)

Copies = Sequence[dict[str, bytes]]  # the ledger's files after each step; the last is the whole


def damaged(path: Path, copies: Copies, choose: random.Random) -> str:
    """Write a damaged ledger to a path whose folder does not exist yet; return what was done."""
    path.parent.mkdir()
    for name, content in copies[-1].items():
        (path.parent / name).write_bytes(content)
    names = []
    for _ in range(choose.choice((1, 1, 1, 2, 3))):
        kind = choose.choice(KINDS)
        with suppress(Exception):  # what the first damage left may be too little for the next
            kind(path, copies, choose)
        names.append(kind.__name__.strip("_").replace("_", " "))
    return " and ".join(names)


# Bytes


def _bytes_changed(path: Path, _: Copies, choose: random.Random) -> None:
    content = bytearray(path.read_bytes())
    for _count in range(choose.choice((1, 1, 2, 16, 200))):
        content[choose.randrange(len(content))] = choose.randrange(256)
    path.write_bytes(content)


def _header_changed(path: Path, _: Copies, choose: random.Random) -> None:
    content = bytearray(path.read_bytes())
    for _count in range(choose.choice((1, 1, 4))):
        content[choose.randrange(min(112, len(content)))] = choose.choice((0, 1, 2, 127, 255))
    path.write_bytes(content)


def _piece_inverted(path: Path, _: Copies, choose: random.Random) -> None:
    content = bytearray(path.read_bytes())
    start, size = choose.randrange(len(content)), choose.choice((8, 64, 512, 4096))
    content[start : start + size] = bytes(255 - each for each in content[start : start + size])
    path.write_bytes(content)


def _page_moved(path: Path, _: Copies, choose: random.Random) -> None:
    content = bytearray(path.read_bytes())
    pages = max(1, len(content) // 4096)
    here, there = (4096 * choose.randrange(pages) for _count in range(2))
    source = content[here : here + 4096] if choose.random() < 0.7 else bytes(4096)
    content[there : there + 4096] = source
    path.write_bytes(content)


def _file_cut(path: Path, _: Copies, choose: random.Random) -> None:
    content = path.read_bytes()
    at = choose.choice((choose.randrange(len(content)), 4096 * choose.randrange(12), 0, 100))
    path.write_bytes(content[:at])


def _file_grown(path: Path, _: Copies, choose: random.Random) -> None:
    path.write_bytes(path.read_bytes() + choose.randbytes(choose.choice((1, 4096, 10_000))))


# Rows


def _opened(path: Path) -> sqlite3.Connection:
    """Return a connection to a ledger without its triggers."""
    connection = sqlite3.connect(path, isolation_level=None)
    if random.Random(path.stat().st_mtime_ns).random() < 0.5:
        connection.execute("PRAGMA ignore_check_constraints = ON")
    for name in _names(connection, "trigger"):
        connection.execute(f"DROP TRIGGER {_quoted(name)}")
    return connection


def _names(connection: sqlite3.Connection, kind: str) -> list[str]:
    found = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = ? AND name NOT LIKE 'sqlite~_%' ESCAPE '~'"
        " ORDER BY name",
        (kind,),
    )
    return [name for (name,) in found]


def _columns(connection: sqlite3.Connection, table: str) -> list[str]:
    """Return the columns that can be written: the others follow from the body."""
    return [row[1] for row in connection.execute(f"PRAGMA table_info({_quoted(table)})")]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _row(connection: sqlite3.Connection, choose: random.Random) -> tuple[str, int]:
    """Return a table, and one of its rows; the last ones are as likely as all others."""
    table = choose.choice(_names(connection, "table"))
    rows = [row for (row,) in connection.execute(f"SELECT rowid FROM {_quoted(table)}")]
    return table, choose.choice(rows if choose.random() < 0.5 else rows[-4:])


def _cell_changed(path: Path, _: Copies, choose: random.Random) -> None:
    with closing(_opened(path)) as connection:
        table, row = _row(connection, choose)
        column = choose.choice(_columns(connection, table))
        value = choose.choice((choose.choice(_EDGES), choose.choice(_TEXTS), choose.choice(_BYTES)))
        as_text = isinstance(value, bytes) and choose.random() < 0.5  # text that is no UTF-8
        connection.execute(
            f"UPDATE {_quoted(table)} SET {_quoted(column)} = "
            f"{'CAST(? AS TEXT)' if as_text else '?'} WHERE rowid = ?",
            (value, row),
        )


def _row_removed(path: Path, _: Copies, choose: random.Random) -> None:
    with closing(_opened(path)) as connection:
        table, row = _row(connection, choose)
        connection.execute(f"DELETE FROM {_quoted(table)} WHERE rowid = ?", (row,))


def _tail_removed(path: Path, _: Copies, choose: random.Random) -> None:
    with closing(_opened(path)) as connection:
        table, row = _row(connection, choose)
        connection.execute(f"DELETE FROM {_quoted(table)} WHERE rowid >= ?", (row,))


def _rows_swapped(path: Path, _: Copies, choose: random.Random) -> None:
    with closing(_opened(path)) as connection:
        table, row = _row(connection, choose)
        rows = [each for (each,) in connection.execute(f"SELECT rowid FROM {_quoted(table)}")]
        other, free = choose.choice(rows), max(rows) + 1000
        for old, new in ((row, free), (other, row), (free, other)):
            connection.execute(f"UPDATE {_quoted(table)} SET rowid = ? WHERE rowid = ?", (new, old))


def _rows_renumbered(path: Path, _: Copies, choose: random.Random) -> None:
    with closing(_opened(path)) as connection:
        table, row = _row(connection, choose)
        by = choose.choice((1, 7, 2**40, -(2**40)))
        connection.execute(
            f"UPDATE {_quoted(table)} SET rowid = rowid + ? WHERE rowid >= ?", (by, row)
        )


def _row_repeated(path: Path, _: Copies, choose: random.Random) -> None:
    with closing(_opened(path)) as connection:
        table, row = _row(connection, choose)
        names = _columns(connection, table)
        values = connection.execute(
            f"SELECT {', '.join(map(_quoted, names))} FROM {_quoted(table)} WHERE rowid = ?", (row,)
        ).fetchone()
        (last,) = connection.execute(f"SELECT max(rowid) FROM {_quoted(table)}").fetchone()
        new = [last + 1 if isinstance(value, int) else value for value in values]
        if table.endswith("releases"):
            new[0] = "e" * 64
        marks = ", ".join("?" for _count in names)
        columns = ", ".join(map(_quoted, names))
        connection.execute(f"INSERT INTO {_quoted(table)} ({columns}) VALUES ({marks})", new)


# Entries, which are JSON: changed, with hashes of their own or of the whole chain after them


def _entry_changed(path: Path, _: Copies, choose: random.Random) -> None:
    _change_entry(path, choose, rehash=choose.random() < 0.5, rechain=False)


def _entry_changed_and_all_chained_anew(path: Path, _: Copies, choose: random.Random) -> None:
    _change_entry(path, choose, rehash=True, rechain=True)


def _change_entry(path: Path, choose: random.Random, *, rehash: bool, rechain: bool) -> None:
    with closing(_opened(path)) as connection:
        tables = [
            name
            for name in _names(connection, "table")
            if {"body", "hash"} <= set(_columns(connection, name))
        ]
        table = _quoted(choose.choice(tables))
        rows = connection.execute(
            f"SELECT rowid, body, hash FROM {table} ORDER BY rowid"
        ).fetchall()
        at = choose.randrange(len(rows))
        rows[at] = (rows[at][0], _changed_json(rows[at][1], choose), rows[at][2])
        for place in range(at, len(rows) if rechain else at + 1):
            row, body, digest = rows[place]
            if place > at:
                entry = json.loads(body)
                entry["previous"] = rows[place - 1][2]
                body = json.dumps(entry, sort_keys=True, separators=(",", ":"))
            digest = hashlib.sha256(body.encode()).hexdigest() if rehash else digest
            rows[place] = (row, body, digest)
            connection.execute(
                f"UPDATE {table} SET body = ?, hash = ? WHERE rowid = ?", (body, digest, row)
            )


def _changed_json(body: str, choose: random.Random) -> str:
    entry = json.loads(body)
    key = choose.choice(sorted(entry))
    value = entry[key]
    how = choose.randrange(6)
    if how == 0:
        del entry[key]
    elif how == 1:
        entry[choose.choice(("a", "epsilon", "delta", "left"))] = choose.choice(_JSON)
    elif how == 2 and isinstance(value, int):
        entry[key] = choose.choice((value * 1000, -value, 0, value + 1, value - 1))
    elif how == 3:
        return body.replace(f'"{key}"', f'"{key}":1,"{key}"', 1)  # twice
    elif how == 4:
        return choose.choice((body[: choose.randrange(len(body))], body + " ", body + body, "[]"))
    else:
        entry[key] = choose.choice(_JSON)
    return json.dumps(entry, sort_keys=True, separators=(",", ":"))


# The schema


def _triggers_dropped(path: Path, _: Copies, choose: random.Random) -> None:
    _opened(path).close()


def _trigger_added(path: Path, _: Copies, choose: random.Random) -> None:
    """Let writing lose what is written, or change what was."""
    with closing(_opened(path)) as connection:
        table = choose.choice(_names(connection, "table"))
        column = choose.choice(_columns(connection, table))
        action = choose.choice(
            (
                "SELECT RAISE(IGNORE)",
                f"DELETE FROM {_quoted(table)}",
                f"DELETE FROM {_quoted(table)} WHERE rowid = "
                f"(SELECT max(rowid) FROM {_quoted(table)})",
                f"UPDATE {_quoted(table)} SET {_quoted(column)} = 0",
                "SELECT RAISE(ABORT, 'no')",
                "SELECT RAISE(ROLLBACK, 'no')",
            )
        )
        when = choose.choice(("BEFORE", "AFTER"))
        only = choose.choice(("charge", "commit", "declare", ""))
        connection.execute(
            f"CREATE TRIGGER planted {when} INSERT ON {_quoted(table)} "
            f"WHEN NEW.{_quoted(_columns(connection, table)[1])} LIKE '%{only}%' "
            f"BEGIN {action}; END"
        )


def _schema_changed(path: Path, _: Copies, choose: random.Random) -> None:
    with closing(_opened(path)) as connection:
        table = choose.choice(_names(connection, "table"))
        column = _quoted(choose.choice(_columns(connection, table)))
        name = _quoted(table)
        for statement in choose.choice(
            (
                [f"DROP TABLE {name}"],
                [f"ALTER TABLE {name} RENAME TO moved"],
                [f"ALTER TABLE {name} RENAME COLUMN {column} TO moved"],
                [f"ALTER TABLE {name} ADD COLUMN extra TEXT DEFAULT 'x'"],
                [f"ALTER TABLE {name} DROP COLUMN {column}"],
                [
                    f"ALTER TABLE {name} RENAME TO moved",
                    f"CREATE VIEW {name} AS SELECT * FROM moved",
                ],
                [
                    f"ALTER TABLE {name} RENAME TO moved",
                    f"CREATE TABLE {name} AS SELECT * FROM moved",
                    "DROP TABLE moved",
                ],
                [f"DELETE FROM {name}"],
                [f"CREATE UNIQUE INDEX planted ON {name} (length({column}))"],
                ["PRAGMA user_version = 77"],
                ["PRAGMA journal_mode = WAL"],
                ["PRAGMA auto_vacuum = 2", "VACUUM"],
            )
        ):
            connection.execute(statement)


# The log beside the file, and the whole file


def _log_planted(path: Path, _: Copies, choose: random.Random) -> None:
    ending = choose.choice(("-wal", "-shm", "-journal"))
    magic = choose.choice((b"", b"\x37\x7f\x06\x82", b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"))
    Path(f"{path}{ending}").write_bytes(magic + choose.randbytes(choose.choice((0, 40, 5000))))


def _log_damaged(path: Path, _: Copies, choose: random.Random) -> None:
    """Leave the log of a writer that died, with damage of its own."""
    other = path.with_name("other.db")
    other.write_bytes(path.read_bytes())
    with closing(_opened(other)) as connection:
        connection.execute("PRAGMA cache_size = 1")  # what is changed goes to the file at once
        connection.execute("BEGIN IMMEDIATE")
        table, _row_number = _row(connection, choose)
        connection.execute(f"DELETE FROM {_quoted(table)}")
        connection.execute("CREATE TABLE planted (a)")
        for _count in range(50):
            connection.execute("INSERT INTO planted VALUES (zeroblob(4000))")
        log = bytearray(Path(f"{other}-journal").read_bytes())
        before = other.read_bytes()
    for _count in range(choose.choice((0, 1, 4))):
        log[choose.randrange(len(log))] ^= 1 << choose.randrange(8)
    path.write_bytes(before)
    Path(f"{path}-journal").write_bytes(log)
    for left in path.parent.glob("other.db*"):
        left.unlink()


def _old_copy_put_back(path: Path, copies: Copies, choose: random.Random) -> None:
    for left in path.parent.iterdir():
        left.unlink()
    for name, content in choose.choice(copies[:-1]).items():
        (path.parent / name).write_bytes(content)


def _file_replaced(path: Path, _: Copies, choose: random.Random) -> None:
    path.unlink()
    how = choose.randrange(4)
    if how == 0:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE ledger_entries (a)")
    elif how == 1:
        path.mkdir()
    elif how == 2:
        path.symlink_to(path)
    else:
        path.write_bytes(b"SQLite format 3\0" + choose.randbytes(3000))


Kind = Callable[[Path, Copies, random.Random], None]
KINDS: tuple[Kind, ...] = (
    *(_bytes_changed, _header_changed, _piece_inverted, _page_moved, _file_cut, _file_grown),
    *(_cell_changed, _row_removed, _tail_removed, _rows_swapped, _rows_renumbered, _row_repeated),
    *(_entry_changed, _entry_changed_and_all_chained_anew, _triggers_dropped, _trigger_added),
    *(_schema_changed, _log_planted, _log_damaged, _old_copy_put_back, _file_replaced),
)
