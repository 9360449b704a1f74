"""Damage a ledger's files: bytes, rows, entries, the schema, the log beside it, the whole file.

An owner of the file can do all of this. The one thing left out is what every writer may do: append
an entry that fits.
"""

import json
import sqlite3
from contextlib import closing, suppress

from fuzz.damage import damage as damage_bytes
from privalue.ledger.entries import canonical_json, sha256

TABLES = {"ledger_entries": ("sequence", "body", "hash"), "ledger_releases": ("hash", "text")}
NUMBERS = [0, 1, -1, 2**31, 2**63 - 1, -(2**63), 1.5, float("inf")]
TEXTS = ["", "x", "0" * 64, "f" * 64, "9" * 5000, "[" * 3000, '{"a":' * 200, "a\0b", "\u0661", "{}"]
BYTES = [b"", b"\x00", b"\xff\xfe", b"\xc3\x28", b"x" * 100_000]
WORDS = ["people", "others", "charge", "commit", "declare", "trajectory", "person", "gaussian"]
JSON = [*NUMBERS[:-1], *TEXTS[:4], *WORDS, None, True, 10**30, -(10**30), 1e308, [], {}, [[[]]]]


def damage(path, copies, choose):
    """Write a damaged ledger into a new folder; return what was done.

    ``copies`` are the ledger's files after each step; the last is the whole.
    """
    path.parent.mkdir()
    for name, content in copies[-1].items():
        (path.parent / name).write_bytes(content)
    names = []
    for _ in range(choose.choice((1, 1, 1, 2, 3))):
        kind = choose.choice(KINDS)
        with suppress(Exception):  # what the first damage left may be too little for the next
            kind(path, copies, choose)
        names.append(kind.__name__)
    return " and ".join(names)


# Bytes


def change_bytes(path, _, choose):
    content = path.read_bytes()
    header = 112 / len(content)
    path.write_bytes(damage_bytes(content, choose, choose.choice(((0, 1), (0, header))))[0])


# Rows and the schema


def without_triggers(path):
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA ignore_check_constraints = ON")
    for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'"):
        connection.execute(f"DROP TRIGGER {name}")
    return connection


def change_rows(path, _, choose):
    with closing(without_triggers(path)) as connection:
        table = choose.choice(sorted(TABLES))
        columns = TABLES[table]
        rows = [row for (row,) in connection.execute(f"SELECT rowid FROM {table}")]
        row, other = choose.choice((choose.choice(rows), rows[-1])), choose.choice(rows)
        value = choose.choice(choose.choice((NUMBERS, TEXTS, BYTES)))
        free, by = max(rows) + 1000, choose.choice((1, 7, 2**40, -(2**40)))
        cell = f"UPDATE {table} SET {choose.choice(columns)} ="
        move = f"UPDATE {table} SET rowid = ? WHERE rowid = ?"
        names, others = ", ".join(columns), ", ".join(columns[1:])
        copy = f"SELECT {max(rows) + 1}, {others} FROM {table}"
        changes = {
            "a cell": [(f"{cell} ? WHERE rowid = ?", value, row)],
            "not UTF-8": [(f"{cell} CAST(? AS TEXT) WHERE rowid = ?", value, row)],
            "a row removed": [(f"DELETE FROM {table} WHERE rowid = ?", row)],
            "the rest removed": [(f"DELETE FROM {table} WHERE rowid >= ?", row)],
            "swapped": [(move, free, row), (move, row, other), (move, other, free)],
            "renumbered": [(f"UPDATE {table} SET rowid = rowid + ? WHERE rowid >= ?", by, row)],
            "repeated": [(f"INSERT INTO {table} ({names}) {copy} WHERE rowid = ?", row)],
        }
        for statement, *values in changes[choose.choice(sorted(changes))]:
            connection.execute(statement, values)


# Entries, which are JSON: changed, with hashes of their own or of the whole chain after them


def change_entry(path, _, choose):
    rehash, rechain = choose.choice(((False, False), (True, False), (True, True)))
    with closing(without_triggers(path)) as connection:
        rows = connection.execute("SELECT sequence, body, hash FROM ledger_entries").fetchall()
        at = choose.randrange(len(rows))
        previous = None
        for number, old, digest in rows[at:] if rechain else rows[at : at + 1]:
            body = change_json(old, choose) if previous is None else follow(old, previous)
            previous = sha256(body) if rehash else digest
            connection.execute(
                "UPDATE ledger_entries SET body = ?, hash = ? WHERE sequence = ?",
                (body, previous, number),
            )


def follow(body, previous):
    return canonical_json({**json.loads(body), "previous": previous})


def change_json(body, choose):
    entry = json.loads(body)
    key = choose.choice(sorted(entry))
    value = entry[key]
    how = choose.randrange(6)
    if how == 0:
        del entry[key]
    elif how == 1:
        entry[choose.choice(("a", "epsilon", "delta", "left"))] = choose.choice(JSON)
    elif how == 2 and isinstance(value, int):
        entry[key] = choose.choice((value * 1000, -value, 0, value + 1, value - 1))
    elif how == 3:
        return body.replace(f'"{key}"', f'"{key}":1,"{key}"', 1)  # twice
    elif how == 4:
        return choose.choice((body[: choose.randrange(len(body))], body + " ", body + body, "[]"))
    else:
        entry[key] = choose.choice(JSON)
    return canonical_json(entry)


# The log beside the file, and the whole file


def put_old_copy_back(path, copies, choose):
    for file in path.parent.iterdir():
        file.unlink()
    for name, content in choose.choice(copies[:-1]).items():
        (path.parent / name).write_bytes(content)


KINDS = [change_bytes, change_rows, change_entry, put_old_copy_back]
