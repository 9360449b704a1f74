"""Define what several commands are given: data, an engine, memory, a study that is settled."""

import re
from pathlib import Path
from typing import Annotated

import typer

from privalue.cli._console import log
from privalue.errors import UsageError
from privalue.planning import resolve
from privalue.study import Study

DEFAULT_LEDGER = "ledger.db"  # of the commands that only need a ledger
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
    str, typer.Option("--engine", help="local: this machine; spark: a cluster (extra: spark).")
]
Memory = Annotated[
    str,
    typer.Option(
        "--memory",
        help="For rows that come in any order, e.g. 2GB, at least 64MB; more goes to disk.",
    ),
]

Threads = Annotated[
    int | None,
    typer.Option("--threads", help="How many read rows here; one for each core, if left out."),
]


def settled(study_file: Path, side_files: Path | None) -> Study:
    """Return the study with its mechanism chosen.

    If the study leaves the choice open ("auto"), log which mechanism was chosen, and why.
    """
    study = Study.load(study_file, side_files=side_files)
    chosen = resolve(study)
    if study.mechanism.name == "auto":
        log.print(f"Mechanism: {chosen.why}.")
    return chosen.study


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
