"""Define the interface of a source of rows: a schema, and Arrow batches.

A source yields batches; the ``Dialect`` is all that it depends on of the study. The engine
(``local``, ``spark``) selects columns, checks types and converts cells, for all sources alike.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from privalue.errors import DataError

BATCH_ROWS = 1 << 17
Progress = Callable[[int, int | None], None]  # called with rows done, and rows in all if known

# The columns to read, each with the type that its texts usually have.
Types = Mapping[str, pa.DataType]


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """The part of a study that sources depend on."""

    delimiter: str | None = None  # of CSV; None: the one that gives the heading most columns
    encoding: str = "utf-8"
    decimal: str = "."
    # Columns by role ("state", "bin 0", "reward", ...): episodes have roles instead of names.
    columns: Mapping[str, str] = field(default_factory=dict)
    by_person: bool = False  # refuses recordings, which name no person
    public_files: Sequence[Path] = ()  # of the study: their labels are published
    ends_have_rewards: bool = False  # refuses recordings, whose final observations have no rows


@dataclass(frozen=True, eq=False, slots=True)
class Batch:
    """Some unconverted rows of a source, and a function that names the place of a row.

    PRIVATE. Because of the function it cannot be sealed or pickled; its repr shows no row.
    """

    rows: pa.RecordBatch = field(repr=False)
    locate: Callable[[int], str] = field(repr=False)  # for messages: "trial.csv, line 17"
    # The number of lines or elements that are not rows, so that their unit is unknown.
    left_out: int = field(default=0, repr=False)
    # The error for the first of these.
    problem: DataError | None = field(default=None, repr=False)
    episode_ids: bool = False  # ids are positions of episodes, which never equal ids of rows


Task = Callable[[], Batch]


@dataclass(frozen=True, kw_only=True)
class Source:
    """A stream of batches, each read by a task, so that several threads can read at once."""

    # The name of each table for messages, and its columns: texts, if the source has no types.
    schemas: tuple[tuple[str, pa.Schema], ...]
    tasks: Callable[[Types], Iterator[Task]]
    rows: int | None = None  # approximately, if known without reading
    # The delimiter and the encoding of a CSV file.
    csv_format: Mapping[str, str] = field(default_factory=dict)
    rereadable: bool = True


def open_batches(
    place: str,
    schema: pa.Schema,
    fetch: Callable[[list[str]], Iterable[pa.RecordBatch]],
    **fields: Any,
) -> Source:
    """Return the rows of a stream of Arrow batches.

    Args:
        place: the name of the stream in messages.
        schema: all columns.
        fetch: takes names of columns, and returns batches with at least these.
        fields: further fields of ``Source``.
    """

    def tasks(types: Types) -> Iterator[Task]:
        names, first = list(types), 1
        for batch in fetch(names):
            numbers = range(first, first + batch.num_rows)
            for start in range(0, batch.num_rows, BATCH_ROWS):
                rows = batch.slice(start, BATCH_ROWS).select(names)
                yield from as_tasks([Batch(rows, locate_rows(place, numbers[start:]))])
            first += batch.num_rows

    return Source(schemas=((place, schema),), tasks=tasks, **fields)


def state_roles(columns: Mapping[str, str]) -> list[str]:
    """Return the roles of the columns that a state is read from."""
    return [role for role in columns if role == "state" or role.startswith("bin ")]


def locate_rows(place: str, numbers: Sequence[int]) -> Callable[[int], str]:
    """Return a function that names the place of a row by its number."""
    return lambda at: f"{place}, row {numbers[at]}"


def as_tasks(batches: Iterable[Batch]) -> Iterator[Task]:
    """Yield existing batches as tasks."""
    for batch in batches:
        yield lambda batch=batch: batch  # type: ignore[misc]


def text_schema(names: Iterable[str]) -> pa.Schema:
    """Return the schema of columns of texts."""
    return pa.schema([(name, pa.string()) for name in names])
