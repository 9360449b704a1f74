"""Define the entries of a ledger, and hash, read and append them.

| kind    | meaning                                                                         |
|---------|---------------------------------------------------------------------------------|
| declare | the total of a dataset, and the unit that it protects                           |
| charge  | the cost of a release (ours, or another tool's), spent before noise is drawn    |
| commit  | the hash of the release of a charge                                             |

Each entry holds its dataset's balance after it, and the hash of the previous entry. It also holds
random bytes: releases publish the hash of their charge, and without a salt a reader could guess
times and authors, and check the guess against the hash. The time of an entry is recorded and never
trusted: entries are ordered by number.
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
from privalue.ledger.amounts import ZERO, Amount, cost_of
from privalue.ledger.store import AMOUNTS, GENESIS, Execute, Store
from privalue.ledger.terms import Protection

FORMAT = 1
DAY = "%Y-%m-%d"  # a time would show how long a draw took, which depends on private counts
_LONGEST_TEXT = 500  # characters of a free text in an entry
DATASET_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,99}")
_HASH = re.compile(r"[0-9a-f]{64}")
_COLUMNS = ", ".join(("sequence", "body", "hash", "kind", "dataset", "releases", *AMOUNTS))


class Balance(NamedTuple):
    """The total of a dataset, and the amount spent."""

    total: Amount
    spent: Amount = ZERO
    releases: int = 0  # charges so far

    def after(self, cost: Amount) -> "Balance":
        """Return the balance after a charge."""
        return Balance(self.total, self.spent.plus(cost), self.releases + 1)


class LedgerEntry(NamedTuple):
    """An entry of the database; its body is untrusted."""

    number: int
    hash: str
    kind: str
    dataset: str
    cost: Amount
    balance: Balance  # after this entry
    body: Mapping[str, Any]

    def promise(self, key: str = "promise") -> Amount:
        """Return the epsilon and delta under a key of the body."""
        numbers = self.body.get(key)
        if not isinstance(numbers, list) or [type(number) for number in numbers] != [int, int]:
            raise LedgerError(f"the ledger fails its check: entry {self.number} has no {key}")
        return Amount(*numbers)


@dataclass(frozen=True, kw_only=True)
class ReleaseRequest(Protection):
    """A request to charge a release; an identical request is charged once.

    ``alpha`` is the noise multiplier (sigma over the sensitivity), if the release is Gaussian noise
    of one public sigma and nothing else. Leave out the alpha of dp-lsw and dp-lsl, whose sigma
    depends on the data.
    """

    dataset: str
    epsilon: float  # of the release, for the unit that it protects
    delta: float
    alpha: float | None = None
    what: str  # the study's name, or a description of another tool's release; for statements
    study: str | None = None  # hash of the study's description; None for another tool's release

    def __post_init__(self) -> None:
        super().__post_init__()
        cost_of(self.epsilon, self.delta)
        check_name(self.dataset)
        check_text("what", self.what)
        if self.study is not None:
            check_hash(self.study)
        if self.alpha is not None and not 0 < self.alpha < math.inf:
            raise UsageError(f"alpha = {self.alpha!r}: it must be a finite number above 0")

    @property
    def hash(self) -> str:
        """Return the hash that identifies the request within its dataset."""
        return sha256(self.what) if self.study is None else self.study

    @property
    def promise(self) -> Amount:
        """Return epsilon and delta in units, rounded up."""
        return cost_of(self.epsilon, self.delta)


def sha256(text: str) -> str:
    """Return the SHA-256 of a text, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def canonical_json(value: Mapping[str, Any]) -> str:
    """Return canonical JSON (sorted keys, no spaces): equal values have equal texts."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def study_hash(description: Mapping[str, Any]) -> str:
    """Return the hash of a study's public description: it identifies a request within its dataset.

    It is the SHA-256 of JSON in UTF-8: keys sorted, no blanks, every double as the shortest decimal
    that reads back as the same double. [report] is left out, since it does not change the draw. A
    side file counts by its content's hash and its kind, so that its name does not matter; both are
    outside of its section, where an inline table could look the same. A description omits keys at
    their defaults, so that a key which a later version adds does not change the hashes of earlier
    requests. Values computed from the keys (``Terms``) are left out: another machine may round a
    logarithm differently, and would charge the request twice.
    """
    sections = {name: keys for name, keys in description.items() if name != "report"}
    for file in sections.pop("side_files", ()):
        section, _, key = file["key"].removeprefix("[").partition("] ")
        sections[section] = {**sections[section], key: None}
        content = {name: file[name] for name in ("sha256", "kind") if name in file}
        sections[file["key"]] = content
    return sha256(canonical_json(sections))


def parse_object(text: str) -> dict[str, Any]:
    """Return the JSON object in a text; an empty one if the text is not a JSON object."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def check_name(dataset: str) -> None:
    """Raise UsageError unless the text is a valid name of a dataset."""
    if not isinstance(dataset, str) or DATASET_NAME.fullmatch(dataset) is None:
        allowed = "up to 100 of a-z, 0-9, - and ., beginning with a letter or a digit"
        raise UsageError(f"dataset = {dataset!r}: a name is {allowed}")


def check_hash(text: str) -> str:
    """Return the text, or raise UsageError if it is not a SHA-256 in hexadecimal."""
    if not isinstance(text, str) or _HASH.fullmatch(text) is None:
        raise UsageError(f"{text!r} is not a SHA-256, which has 64 digits of 0-9 and a-f")
    return text


def check_text(name: str, text: str) -> None:
    """Raise UsageError if a text is too long for an entry, blank or not printable."""
    fits = isinstance(text, str) and len(text) <= _LONGEST_TEXT and text.isprintable()
    if not (fits and text.strip()):
        allowed = f"it must be one line of 1 to {_LONGEST_TEXT} printable characters"
        raise UsageError(allowed, argument=(name, text))


def select_entries(
    execute: Execute, where: str, *values: object, order: str = "", limit: int
) -> list[LedgerEntry]:
    """Return entries that meet a condition, each checked against its hash.

    Args:
        execute: of a transaction.
        where: the condition, in SQL, with ? for values.
        values: of the condition.
        order: "DESC" for the newest first.
        limit: the most entries to return.
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
    has_types = type(body) is str and all(type(number) is int for number in (releases, *amounts))
    if not has_types or sha256(body) != digest:  # a damaged file may hold anything
        raise LedgerError(f"the ledger fails its check: entry {number} was changed")
    balance = Balance(Amount(*amounts[6:]), Amount(*amounts[3:6]), releases)
    cost = Amount(*amounts[:3])
    return LedgerEntry(number, digest, kind, dataset, cost, balance, parse_object(body))


def last_head(execute: Execute) -> tuple[int, str]:
    """Return number and hash of the ledger's last entry; 0 and ``GENESIS`` if there is none."""
    row = execute(
        "SELECT sequence, hash FROM ledger_entries ORDER BY sequence DESC LIMIT 1"
    ).fetchone()
    return (0, GENESIS) if row is None else (row[0], str(row[1]))


def append_entry(
    store: Store,
    execute: Execute,
    kind: str,
    dataset: str,
    balance: Balance,
    content: Mapping[str, Any],
    cost: Amount = ZERO,
) -> tuple[int, str]:
    """Append an entry; return its number and hash.

    Args:
        store: of the ledger; it names the author.
        execute: of a transaction.
        kind: "declare", "charge" or "commit".
        dataset: its name.
        balance: of the dataset, after the entry.
        content: the fields that only this kind of entry has.
        cost: of a charge.
    """
    number, previous = last_head(execute)
    body = canonical_json(
        {
            "format": FORMAT,
            "previous": previous,
            "kind": kind,
            "dataset": dataset,
            "at": datetime.now(UTC).strftime(DAY),
            "author": store.author(execute),
            "salt": OperatingSystemEntropy().read(32).hex(),
            "releases": balance.releases,
            **dict(zip(AMOUNTS, (*cost, *balance.spent, *balance.total), strict=True)),
            **content,
        }
    )
    digest = sha256(body)
    execute(
        "INSERT INTO ledger_entries (sequence, body, hash) VALUES (?, ?, ?)",
        (number + 1, body, digest),
    )
    return number + 1, digest
