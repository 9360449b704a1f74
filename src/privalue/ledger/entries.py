"""Define the entries of a ledger: what they hold, how they are hashed, read and appended.

| kind    | says                                                                        |
|---------|-----------------------------------------------------------------------------|
| declare | the dataset may spend this much in all, and whom that protects              |
| charge  | so much is spent, for good; noise is drawn next, or another tool spends it  |
| commit  | this release is what was drawn                                              |

Each entry holds the balance of its dataset after it, and the hash of the entry before it. It also
holds random bytes: releases publish the hash of their charge, and without those a reader could
guess times and authors, and check the guess against the hash. The time of an entry is recorded and
never trusted: order is by number.
"""

import hashlib
import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from privalue.errors import LedgerError, UsageError
from privalue.ledger.amounts import NOTHING, Amount
from privalue.ledger.store import GENESIS, Execute, Store

FORMAT = 1
LONGEST_TEXT = 500  # characters of what a person writes into an entry
_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,99}")
_HASH = re.compile(r"[0-9a-f]{64}")
_AMOUNTS = ("cost", "spent", "total")
_COLUMNS = "sequence, body, hash, kind, dataset, releases, " + ", ".join(
    f"{what}_{part}" for what in _AMOUNTS for part in Amount._fields
)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """An entry as the database holds it; ``said`` is its body, which anybody may have written."""

    number: int
    hash: str
    kind: str
    dataset: str
    releases: int  # charges of the dataset so far
    cost: Amount
    spent: Amount  # after this entry
    total: Amount
    said: Mapping[str, Any]


def sha256(text: str) -> str:
    """Return the SHA-256 of a text, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def canonical(value: Mapping[str, Any]) -> str:
    """Return JSON with sorted keys and no spaces: the same text for the same value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def study_hash(description: Mapping[str, Any]) -> str:
    """Return what identifies a request within its dataset: the hash of the public description."""
    return sha256(canonical(description))


def parse_object(text: str) -> dict[str, Any]:
    """Return the JSON object that a text holds; an empty one if it holds none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def check_name(dataset: str) -> str:
    """Return the name itself, or raise UsageError if it cannot name a dataset."""
    if not isinstance(dataset, str) or _NAME.fullmatch(dataset) is None:
        raise UsageError(
            f"dataset = {dataset!r}: a name has up to 100 of a-z, 0-9, - and ., and begins with a "
            "letter or a digit"
        )
    return dataset


def check_hash(what: str, text: str) -> str:
    """Return the text itself, or raise UsageError if it is not a SHA-256 in hexadecimal."""
    if not isinstance(text, str) or _HASH.fullmatch(text) is None:
        raise UsageError(f"{what} {text!r} is not a SHA-256: it has 64 digits of 0-9 and a-f")
    return text


def check_text(what: str, text: str) -> str:
    """Return the text itself, or raise UsageError if an entry cannot hold it."""
    if not isinstance(text, str) or not 0 < len(text) <= LONGEST_TEXT or not text.isprintable():
        raise UsageError(f"{what} has 1 to {LONGEST_TEXT} printable characters, on one line")
    return text


def last_entry(execute: Execute, where: str, *values: object) -> Entry | None:
    """Return the newest entry that meets a condition, checked against its hash; or None."""
    row = execute(
        f"SELECT {_COLUMNS} FROM ledger_entries WHERE {where} ORDER BY sequence DESC LIMIT 1",
        values,
    ).fetchone()
    return None if row is None else read_entry(row)


def page_of_entries(execute: Execute, where: str, *values: object, limit: int) -> list[Entry]:
    """Return the first entries that meet a condition, in order, each checked against its hash."""
    rows = execute(
        f"SELECT {_COLUMNS} FROM ledger_entries WHERE {where} ORDER BY sequence LIMIT {limit}",
        values,
    ).fetchall()
    return [read_entry(row) for row in rows]


def read_entry(row: tuple[Any, ...]) -> Entry:
    """Return the entry in a row; raise LedgerError if its hash is not that of its body."""
    number, body, digest, kind, dataset, releases, *amounts = row
    if sha256(body) != digest:
        raise LedgerError(f"the ledger fails its check: entry {number} was changed")
    return Entry(
        number=number,
        hash=digest,
        kind=kind,
        dataset=dataset,
        releases=releases,
        cost=Amount(*amounts[:3]),
        spent=Amount(*amounts[3:6]),
        total=Amount(*amounts[6:]),
        said=parse_object(body),
    )


def last_head(execute: Execute) -> tuple[int, str]:
    """Return number and hash of the last entry of the ledger."""
    row = execute(
        "SELECT sequence, hash FROM ledger_entries ORDER BY sequence DESC LIMIT 1"
    ).fetchone()
    return (0, GENESIS) if row is None else (row[0], row[1])


def append(
    store: Store,
    execute: Execute,
    kind: str,
    dataset: str,
    *,
    cost: Amount = NOTHING,
    spent: Amount,
    total: Amount,
    releases: int,
    **said: Any,
) -> tuple[int, str]:
    """Append an entry; return its number and hash."""
    number, previous = last_head(execute)
    amounts = zip(_AMOUNTS, (cost, spent, total), strict=True)
    body = canonical(
        {
            "format": FORMAT,
            "previous": previous,
            "kind": kind,
            "dataset": dataset,
            "at": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "author": store.author(execute),
            "salt": secrets.token_hex(32),
            "releases": releases,
            **{
                f"{what}_{part}": units
                for what, amount in amounts
                for part, units in amount._asdict().items()
            },
            **said,
        }
    )
    digest = sha256(body)
    execute(
        "INSERT INTO ledger_entries (sequence, body, hash) VALUES (?, ?, ?)",
        (number + 1, body, digest),
    )
    return number + 1, digest
