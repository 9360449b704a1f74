"""Write tables as CSV with every digit, and read the curator's answers for the registry.

A label that a spreadsheet would take for a formula has an apostrophe before it, and labels are in
quotes, so that no other separator splits them.
"""

import csv
import io
import math
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from privalue.errors import UsageError
from privalue.ledger.files import atomic_write, read_whole
from privalue.report.spreadsheets import as_cell

ANSWERS = "registry.toml"  # beside the study
ANSWER_KEYS = (
    "data_curators",
    "intended_use",
    "data_product_region",
    "data_product_sector",
    "justification",
    "registry_authors",
)
_BATCH_ROWS = 1 << 14


def table_csv(columns: Mapping[str, Any]) -> Iterator[str]:
    """Yield a table, some thousands of rows at a time."""
    yield ",".join(columns) + "\n"
    for start in range(0, len(next(iter(columns.values()))), _BATCH_ROWS):
        part = slice(start, start + _BATCH_ROWS)
        cells = [[_cell(cell) for cell in column[part]] for column in columns.values()]
        text = io.StringIO(newline="")
        writer = csv.writer(text, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
        writer.writerows(zip(*cells, strict=True))
        yield text.getvalue()


def _cell(cell: Any) -> Any:
    if isinstance(cell, bool | np.bool_):
        return str(cell).lower()
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return ""
    return as_cell(cell) if isinstance(cell, str) else float(cell)


def read_answers(study_file: Path | None, justification: str | None = None) -> dict[str, str]:
    """Return the curator's answers for the registry, from registry.toml beside the study.

    Args:
        study_file: the study's file; None where it is not known.
        justification: in place of the file's.

    Raises:
        UsageError: the file cannot be read, has an unknown key, or an answer is not text.
    """
    overrides = {} if justification is None else {"justification": justification}
    if study_file is None:
        return overrides
    file = study_file.parent / ANSWERS
    try:
        answers = tomllib.loads(read_whole(file, 1 << 20).decode())
    except FileNotFoundError:
        return overrides
    except (OSError, ValueError) as problem:
        why = getattr(problem, "strerror", None) or problem
        raise UsageError(f"{file} cannot be read: {why}", code="answers-invalid") from None
    for key, answer in answers.items():
        if key not in ANSWER_KEYS or not isinstance(answer, str):
            message = f"{file}: {key} is none of {', '.join(ANSWER_KEYS)}, which have texts"
            raise UsageError(message, code="answers-invalid")
    return answers | overrides


def write_text(target: Path, text: str | Iterable[str], mode: int = 0o644) -> Path:
    """Write a page or a table whole or not at all; one that cannot be written is a UsageError."""
    try:
        return atomic_write(target, text, mode=mode, errors="replace")
    except OSError as problem:
        message = f"cannot write {target}: {problem.strerror}"
        raise UsageError(message, code="cannot-write") from None
