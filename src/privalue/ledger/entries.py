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
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from privalue.core import OperatingSystemEntropy
from privalue.errors import LedgerError, UsageError
from privalue.ledger.amounts import NOTHING, Amount, cost_of
from privalue.ledger.store import AMOUNTS, GENESIS, Execute, Store
from privalue.ledger.terms import Protection

FORMAT = 1
_LONGEST_TEXT = 500  # characters of what a person writes into an entry
_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,99}")
_HASH = re.compile(r"[0-9a-f]{64}")
_COLUMNS = ", ".join(("sequence", "body", "hash", "kind", "dataset", "releases", *AMOUNTS))


class Balance(NamedTuple):
    """What a dataset may spend and has spent."""

    total: Amount
    spent: Amount = NOTHING
    releases: int = 0  # charges so far

    def after(self, cost: Amount) -> "Balance":
        """Return the balance after a charge."""
        return Balance(self.total, self.spent.plus(cost), self.releases + 1)


class LedgerEntry(NamedTuple):
    """An entry as the database holds it; ``said`` is its body, which anybody may have written."""

    number: int
    hash: str
    kind: str
    dataset: str
    cost: Amount
    balance: Balance  # after it
    said: Mapping[str, Any]

    def promise(self, key: str = "promise") -> Amount:
        """Return epsilon and delta that it states under a key."""
        stated = self.said.get(key)
        if not isinstance(stated, list) or [type(each) for each in stated] != [int, int]:
            raise LedgerError(f"the ledger fails its check: entry {self.number} has no {key}")
        return Amount(*stated)


@dataclass(frozen=True, kw_only=True)
class ReleaseRequest(Protection):
    """What a release asks of a ledger; an identical request is charged once.

    ``alpha`` is sigma over the sensitivity, if the release is Gaussian noise of one public sigma
    and nothing else. dp-lsw and dp-lsl have an alpha, too, but their sigma depends on the data:
    leave it out.
    """

    dataset: str
    epsilon: float  # that the release promises, to the unit that it protects
    delta: float
    alpha: float | None = None
    what: str  # the study's name, or what another tool releases; for the statement
    study: str | None = None  # hash of its public description; None for another tool's release

    def __post_init__(self) -> None:
        super().__post_init__()
        cost_of(self.epsilon, self.delta)
        check_name(self.dataset)
        check_text("what", self.what)
        if self.study is not None:
            check_hash(self.study)
        if self.alpha is not None and not 0 < self.alpha < math.inf:
            raise UsageError(f"alpha = {self.alpha!r}: it must be a number above 0")

    @property
    def hash(self) -> str:
        """Return what identifies the request within its dataset."""
        return sha256(self.what) if self.study is None else self.study

    @property
    def promise(self) -> Amount:
        """Return epsilon and delta in units, rounded up."""
        return cost_of(self.epsilon, self.delta)


def sha256(text: str) -> str:
    """Return the SHA-256 of a text, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def canonical(value: Mapping[str, Any]) -> str:
    """Return JSON with sorted keys and no spaces: the same text for the same value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def study_hash(description: Mapping[str, Any]) -> str:
    """Return what identifies a request within its dataset: the hash of the public description.

    It is the SHA-256 of JSON in UTF-8: keys sorted, no blanks, every double as the shortest decimal
    that reads back as the same one. [report] is left out, since it changes nothing that is drawn;
    and a side file counts by its content and by how that is read, whatever its name: the key that
    names it has both. A description leaves out keys at their defaults, so that a key which a later
    version adds changes no request of before. What is computed from the keys (``Terms``) is no part
    of it: another machine may round a logarithm differently, and would charge the request twice.
    """
    counted = {name: keys for name, keys in description.items() if name != "report"}
    for file in counted.pop("side_files", ()):
        section, _, key = file["key"].removeprefix("[").partition("] ")
        content = {name: file[name] for name in ("sha256", "kind") if name in file}
        counted[section] = {**counted[section], key: content}
    return sha256(canonical(counted))


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
        allowed = "up to 100 of a-z, 0-9, - and ., beginning with a letter or a digit"
        raise UsageError(f"dataset = {dataset!r}: a name is {allowed}")
    return dataset


def check_hash(text: str) -> str:
    """Return the text itself, or raise UsageError if it is not a SHA-256 in hexadecimal."""
    if not isinstance(text, str) or _HASH.fullmatch(text) is None:
        raise UsageError(f"{text!r} is not a SHA-256, which has 64 digits of 0-9 and a-f")
    return text


def check_text(name: str, text: str) -> str:
    """Return the text itself, or raise UsageError if an entry cannot hold it."""
    fits = isinstance(text, str) and len(text) <= _LONGEST_TEXT and text.isprintable()
    if not (fits and text.strip()):
        raise UsageError(f"{name} has 1 to {_LONGEST_TEXT} printable characters, on one line")
    return text


def select_entries(
    execute: Execute, where: str, *values: object, order: str = "", limit: int
) -> list[LedgerEntry]:
    """Return entries that meet a condition, each checked against its hash.

    Args:
        execute: of a transaction.
        where: the condition, in SQL, with ? for values.
        values: of the condition.
        order: "DESC" for the newest first.
        limit: how many at most.
    """
    rows = execute(
        f"SELECT {_COLUMNS} FROM ledger_entries WHERE {where} ORDER BY sequence {order}"
        f" LIMIT {limit}",
        values,
    ).fetchall()
    return [_entry(*row) for row in rows]


def last_entry(execute: Execute, where: str, *values: object) -> LedgerEntry | None:
    """Return the newest entry that meets a condition, or None."""
    return next(iter(select_entries(execute, where, *values, order="DESC", limit=1)), None)


def _entry(
    number: int, body: str, digest: str, kind: str, dataset: str, releases: int, *amounts: int
) -> LedgerEntry:
    is_sound = type(body) is str and all(type(each) is int for each in (releases, *amounts))
    if not is_sound or sha256(body) != digest:  # a damaged file may hold anything
        raise LedgerError(f"the ledger fails its check: entry {number} was changed")
    balance = Balance(Amount(*amounts[6:]), Amount(*amounts[3:6]), releases)
    said = parse_object(body)
    return LedgerEntry(number, digest, kind, dataset, Amount(*amounts[:3]), balance, said)


def last_head(execute: Execute) -> tuple[int, str]:
    """Return number and hash of the last entry of the ledger."""
    row = execute(
        "SELECT sequence, hash FROM ledger_entries ORDER BY sequence DESC LIMIT 1"
    ).fetchone()
    return (0, GENESIS) if row is None else (row[0], str(row[1]))


def append(
    store: Store,
    execute: Execute,
    kind: str,
    dataset: str,
    balance: Balance,
    said: Mapping[str, Any],
    cost: Amount = NOTHING,
) -> tuple[int, str]:
    """Append an entry; return its number and hash."""
    number, previous = last_head(execute)
    body = canonical(
        {
            "format": FORMAT,
            "previous": previous,
            "kind": kind,
            "dataset": dataset,
            "at": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "author": store.author(execute),
            "salt": OperatingSystemEntropy().read(32).hex(),
            "releases": balance.releases,
            **dict(zip(AMOUNTS, (*cost, *balance.spent, *balance.total), strict=True)),
            **said,
        }
    )
    digest = sha256(body)
    execute(
        "INSERT INTO ledger_entries (sequence, body, hash) VALUES (?, ?, ?)",
        (number + 1, body, digest),
    )
    return number + 1, digest
