"""Define what several commands are given: data, an engine, memory, a study."""

import re
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic_core import PydanticCustomError

from privalue.errors import UsageError

Justification = Annotated[
    str | None,
    typer.Option(
        "--justification",
        help="Why you chose these parameters; it is published in the report and the registry.",
    ),
]
DEFAULT_LEDGER = "ledger.db"  # of the commands that only need a ledger


def whole_number(text: str | int) -> int:
    """Return the whole number that an option was given; 1e4 is 10000.

    Raises:
        PydanticCustomError: it is none; the message quotes it, and says what is allowed.
    """
    if isinstance(text, int):
        return text
    with suppress(ValueError):
        return int(text)
    found = re.fullmatch(
        r"\s*([+-]?\d{1,20})(?:\.0{1,20})?(?:e\+?(\d{1,2}))?\s*", text, re.IGNORECASE
    )
    if found is None:
        raise _refused(text, "a whole number", "it must be in digits, e.g. 10000")
    return int(found[1] + "0" * int(found[2] or 0))


def number(text: str | float) -> float:
    """Return the number that an option was given.

    Raises:
        PydanticCustomError: it is none; the message quotes it, and says what is allowed.
    """
    try:
        return float(text)
    except ValueError:
        comma = re.fullmatch(r"\s*([+-]?\d{1,20}),(\d{1,20})\s*", str(text))
        right = f"a decimal has a point: {comma[1]}.{comma[2]}" if comma else "e.g. 0.5 or 1e-6"
        raise _refused(str(text), "a number", right) from None


def _refused(text: str, what: str, right: str) -> PydanticCustomError:
    """Return the error that typer shows behind the option's name, without a word of its own."""
    written = repr(text if len(text) <= 60 else text[:57] + "...")
    return PydanticCustomError("number", "{said}", {"said": f"{written} is not {what}; {right}"})


# How help shows them; what typer says of numbers by itself does not tell what was written.
WHOLE: dict[str, Any] = {"parser": whole_number, "metavar": "<int>"}
NUMBER: dict[str, Any] = {"parser": number, "metavar": "<float>"}

Data = Annotated[
    str,
    typer.Option(
        "--data",
        help="A file, folder or quoted glob (CSV, Parquet), FILE.xlsx::SHEET, "
        "\"SELECT ... FROM 'file.parquet'\", FILE.duckdb::TABLE, "
        "FILE.sqlite::TABLE, postgresql://...::TABLE, a query in place of TABLE, or minari:NAME.",
    ),
]

Engine = Annotated[
    str,
    typer.Option(
        "--engine", help="Where rows are read: local (this machine) or spark (a cluster)."
    ),
]
Memory = Annotated[
    str,
    typer.Option(
        "--memory",
        help="How much memory rows may take, e.g. 2GB, at least 64MB; the rest goes to disk.",
    ),
]

Threads = Annotated[
    int | None,
    typer.Option(
        "--threads", **WHOLE, help="How many threads read rows; by default one for each core."
    ),
]


def parse_memory(text: str) -> int:
    """Return the bytes that "2GB", "500 MB" or "1.5GiB" means; at least 64 MB."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?\s*", text, re.IGNORECASE)
    if found is None:
        raise UsageError(f"--memory {text}: it must be a size such as 500MB or 2GB")
    number, prefix, binary = found.groups()
    size = int(float(number) * (1024 if binary else 1000) ** " kmgt".index(prefix.lower() or " "))
    if not 64_000_000 <= size <= 2**50:
        raise UsageError(f"--memory {text}: it must be at least 64MB, such as 500MB or 2GB")
    return size


def require_absent(path: Path, force: bool) -> None:
    """Raise UsageError if the file exists, unless it may be overwritten."""
    if path.exists() and not force:
        raise UsageError(f"{path} exists; use --force to overwrite it, or give another name")
