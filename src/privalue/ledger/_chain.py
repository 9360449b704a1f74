"""Define the entries of a ledger, their canonical form and their hash chain.

An entry is a line of canonical JSON (sorted keys) that holds its number and the SHA-256 of the
entry before it; its own SHA-256 is stored beside it. What is spent, reserved and left is what
replaying the entries gives, by the rules in ``_book``.

| kind     | says                                                                       |
|----------|----------------------------------------------------------------------------|
| begin    | this ledger exists, and whether its declarations are sealed                |
| declare  | the dataset's total is this                                                |
| move     | it is this from now on, in squares of mu; so much of it is used; it was this |
| reserve  | this study may be about to spend so much                                   |
| charge   | statistics exist: reserved becomes spent, for good                         |
| commit   | this artefact is what was charged for                                      |
| cancel   | nothing was computed: reserved becomes left again                          |
| settle   | a person decided about a reservation that its process left behind          |
| accept   | a person went on with this ledger, which lacks a head that was seen        |
| snapshot | this is what the entries before it come to, so that nobody replays them all |

Every entry holds 32 random bytes. Releases publish the hash of their charge, and pages the hash of
the last entry: without random bytes, a reader could guess times, process, host and earlier
failures, and check the guess against the hash.

A ``declare`` states whom its total protects. A ``reserve`` states whom the release protects, what
it promises them, and mu = 1/alpha if it is a Gaussian release; its ``steps`` converts the promise
to the terms of the total (see ``_terms``). A declaration of a Gaussian total also holds the mu that
was certified for it, since another machine might certify another one in the last digit, and its
plain pool. A ``commit`` repeats dataset and study: by them the stored release is found.

Format 4 says in its first entry that squares of mu are added (``squares``). Versions that know
format 3 alone stop there, also those that begin at a snapshot: they would ignore a Gaussian total,
or a move to one, and go on spending the old total. So a ledger that began with format 3 is read and
written as before, and has plain totals alone.

Beside an entry stands its ``seal``. It is empty for what any releasing role may write, and not
empty for what only a keeper may: ``begin``, ``declare``, ``move`` and ``snapshot``. In PostgreSQL
the releasing role has no right to fill that column; a sealed ledger holds an HMAC in it (see
``_seal``).

The time of an entry is recorded and never trusted: order is by number.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast

from privalue.core import OperatingSystemEntropy
from privalue.errors import UsageError

FORMAT = 4
WITHOUT_SQUARES = 3  # the format before, which is still read: its totals are plain ones
GENESIS = "0" * 64  # what the first entry names as the one before it
LONGEST_NAME = 200
LONGEST_TEXT = 1_000  # characters of any text in an entry: what is longer could stop who replays it
LONGEST_ROW = 100_000  # of an entry that any releasing role may write; the stores refuse more
DECLARE = (  # what a person has to do
    "privalue ledger declare, or in Python ledger.declare(DATASET, epsilon=E, delta=D, unit=UNIT)"
)
KEEPERS = frozenset({"begin", "declare", "move", "snapshot"})  # what only a keeper may write
GAUSSIAN_TOTAL = ("declare", "gaussian")  # kind and accounting of an entry with pools
UNSEALED = "-"  # the seal of a keeper's entry where nobody asked for an HMAC
EARLIER = (
    "it is of an earlier format, 1 (privalue 0.1) or 2 (before the release of 0.2); this version "
    f"reads formats {WITHOUT_SQUARES} and {FORMAT}; keep it as a record, declare the dataset in a "
    "new ledger, and take what its releases cost off the new total"
)
LATER = "it is of a later format; use the version of privalue that made it, or a later one"
PLAIN_ALONE = (
    f"the ledger began with format {WITHOUT_SQUARES}, whose readers do not know Gaussian totals, "
    "and would go on with the old one; declare the dataset in a new ledger, and take what its "
    "releases cost off the new total"
)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)
_HEXADECIMAL = re.compile("[0-9a-f]{64}")

EntryRow = tuple[int, str, str, str]  # number, canonical JSON, its SHA-256, its seal
Entry = Mapping[str, Any]

_COMMON: dict[str, type] = {"sequence": int, "previous": str, "at": str, "kind": str, "salt": str}
_TOTAL: dict[str, type] = {
    **{"dataset": str, "epsilon": int, "delta": int, "unit": str, "neighbours": str},
    **{"trajectories_per_person": int, "accounting": str},
}
_POOLS: dict[str, type] = {"mu": str, "plain_epsilon": int, "plain_delta": int}
_OWN: Mapping[str, Mapping[str, type]] = {
    "begin": {"format": int, "sealed": bool, "squares": bool},
    "begin without squares": {"format": int, "sealed": bool},
    "declare": _TOTAL,
    "declare gaussian": {**_TOTAL, **_POOLS},
    "move": {**_TOTAL, **_POOLS, "spent": list, "before": list},
    "reserve": {
        **{"dataset": str, "epsilon": int, "delta": int, "unit": str, "neighbours": str},
        **{"study": str, "mu": str, "steps": int, "process": str},
    },
    "charge": {"reservation": int},
    "commit": {"reservation": int, "artefact": str, "dataset": str, "study": str},
    "cancel": {"reservation": int, "reason": str},
    "settle": {"reservation": int, "outcome": str, "reason": str},
    "accept": {"lost": str, "reason": str},
    "snapshot": {"state": dict},
}
_SHAPES = {kind: {**_COMMON, **own} for kind, own in _OWN.items()}
_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode


def canonical(value: Mapping[str, Any]) -> str:
    """Return JSON with sorted keys and no spaces: the same text for the same value."""
    return _encode(value)


def sha256(text: str) -> str:
    """Return the SHA-256 of a text, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def study_hash(description: Mapping[str, Any]) -> str:
    """Return what identifies a request within its dataset: the hash of the public description."""
    return sha256(canonical(description))


def salt() -> str:
    """Return 32 bytes that nobody can guess, in hexadecimal."""
    return OperatingSystemEntropy().read(32).hex()


def is_hash(text: str) -> bool:
    """Return whether a text has the form of 32 bytes in hexadecimal."""
    return _HEXADECIMAL.fullmatch(text) is not None


def check_hash(what: str, text: str) -> str:
    """Return the text itself, or raise UsageError if it is not a SHA-256 in hexadecimal."""
    if not is_hash(text):
        raise UsageError(f"{what} {text!r} is not a SHA-256: it has 64 digits of 0-9 and a-f")
    return text


def check_dataset(name: str) -> str:
    """Return the name itself, or raise UsageError if it cannot name a dataset."""
    if not 0 < len(name) <= LONGEST_NAME or not name.isprintable() or name != name.strip():
        raise UsageError(
            f"dataset {name!r}: a name has 1 to {LONGEST_NAME} printable characters, and no "
            "space at either end"
        )
    return name


def loosely(body: str) -> Entry:
    """Return what a text says as JSON, entry or not; nothing if it says nothing."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _is_a(kind: type, value: object) -> bool:
    """Return whether a value has exactly this type; whole numbers have 64 bits at most."""
    return type(value) is kind and (kind is not int or -(2**63) < cast(int, value) < 2**63)


def _shape(entry: Entry) -> str:
    """Return the kind of an entry; a Gaussian total takes more words than a plain one."""
    kind = str(entry["kind"])
    if (kind, entry.get("format")) == ("begin", WITHOUT_SQUARES):
        return "begin without squares"
    return f"{kind} gaussian" if (kind, entry.get("accounting")) == GAUSSIAN_TOTAL else kind


def parse(body: str) -> Entry | None:
    """Return the entry, or None if the text is not the canonical form of one."""
    entry = loosely(body)
    try:
        shape = _SHAPES[_shape(entry)]
        datetime.fromisoformat(entry["at"])
        sound = (
            entry.keys() == shape.keys()
            and all(_is_a(kind, entry[key]) for key, kind in shape.items())
            and _TIME.fullmatch(entry["at"]) is not None
            and is_hash(entry["salt"])
            and canonical(entry) == body
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return entry if sound else None
