"""Write the tables of a release as CSV, with every digit, and the curator's answers in.

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

from privalue.errors import UsageError
from privalue.ledger.files import read_whole, write_whole
from privalue.releases import NOT_PRIVATE, Release, ValueTable
from privalue.study import as_cell

ANSWERS = "registry.toml"  # beside the study
ASKED = (
    "data_curators",
    "intended_use",
    "data_product_region",
    "data_product_sector",
    "justification",
    "registry_authors",
)
_AT_ONCE = 1 << 14


def values_csv(release: Release) -> Iterator[str]:
    """Yield values.csv: the values by state, or of both policies."""
    table, more = release.main, dict[str, Any]()
    if release.statistics is not None and len(release.statistics.counts) == len(table):
        more["noisy_visits"] = release.statistics.counts
    if release.restriction is not None:
        held = release.restriction
        more |= {
            "restriction_low": [held.low] * len(table),
            "restriction_high": [held.high] * len(table),
        }
    if release.behaviour is None:
        yield from _csv(table, more, release.private)
    else:
        first = {"policy": ["target"] * len(table)}
        yield from _csv(table, more, release.private, first)
        of = {"policy": ["behaviour"] * len(release.behaviour)}
        blank = {name: [""] * len(table) for name in table.columns}
        rest = {name: release.behaviour.columns.get(name, blank[name]) for name in blank}
        yield from _lines({**of, **rest, **more}, release.private)


def differences_csv(release: Release) -> Iterator[str]:
    """Yield differences.csv: of the arms, or of the target and the behaviour."""
    assert release.differences is not None
    yield from _csv(release.differences, {}, release.private)


def _csv(
    table: ValueTable,
    more: Mapping[str, Any],
    private: bool,
    first: Mapping[str, Any] | None = None,
) -> Iterator[str]:
    columns = {**(first or {}), **table.columns, **more}
    if not private and "flags" not in columns:
        columns["flags"] = [""] * len(table)
    yield ",".join(columns) + "\n"
    yield from _lines(columns, private)


def _lines(columns: Mapping[str, Any], private: bool) -> Iterator[str]:
    """Yield the rows, some thousands at a time; every one of a seeded experiment says so."""
    count = len(next(iter(columns.values())))
    for start in range(0, count, _AT_ONCE):
        cells = [
            [_cell(cell, is_flag=name == "flags" and not private) for cell in _plain(column, start)]
            for name, column in columns.items()
        ]
        text = io.StringIO(newline="")
        writer = csv.writer(text, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
        writer.writerows(zip(*cells, strict=True))
        yield text.getvalue()


def _plain(column: Any, start: int) -> list[Any]:
    part = column[start : start + _AT_ONCE]
    return part.tolist() if hasattr(part, "tolist") else list(part)


def _cell(cell: Any, *, is_flag: bool) -> Any:
    if is_flag:
        return f"{NOT_PRIVATE}; {cell}" if cell else NOT_PRIVATE
    if isinstance(cell, bool):
        return str(cell).lower()
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return ""
    return as_cell(cell) if isinstance(cell, str) else cell


def read_answers(study_file: Path | None) -> dict[str, str]:
    """Return what a curator answers for the registry, from registry.toml beside the study.

    Raises:
        UsageError: the file cannot be read, or holds something else than texts.
    """
    if study_file is None:
        return {}
    file = study_file.parent / ANSWERS
    try:
        found = tomllib.loads(read_whole(file, 1 << 20).decode())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as problem:
        why = getattr(problem, "strerror", None) or problem
        raise UsageError(f"{file} cannot be read: {why}", code="answers-invalid") from None
    for key, answer in found.items():
        if key not in ASKED or not isinstance(answer, str):
            raise UsageError(
                f"{file}: {key} is not allowed; it holds texts for {', '.join(ASKED)}",
                code="answers-invalid",
            )
    return found


def write_text(target: Path, text: str | Iterable[str], mode: int = 0o644) -> Path:
    """Write a page or a table whole or not at all; one that cannot be written is a UsageError."""
    try:
        return write_whole(target, text, mode=mode, errors="replace")
    except OSError as problem:
        raise UsageError(
            f"cannot write {target}: {problem.strerror}", code="cannot-write"
        ) from None
