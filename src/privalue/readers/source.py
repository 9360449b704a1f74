"""Define what a source of rows is: Arrow batches, and the schema that they have.

To add a source is to yield batches. A source knows nothing of the study but its dialect: the engine
(``local``, ``spark``) selects columns, checks types and reads cells, for all sources alike.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from privalue.errors import DataError

BATCH_ROWS = 1 << 17
Progress = Callable[[int, int | None], None]  # called with rows done, and rows in all if known

Types = Mapping[str, pa.DataType]


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """All that a source knows of a study."""

    delimiter: str | None = None  # of CSV; None: the one that the heading has most of
    encoding: str = "utf-8"
    decimal: str = "."
    # What an episode, which names no columns, has to say, by role: "state", "bin 0", "reward", ...
    columns: Mapping[str, str] = field(default_factory=dict)
    by_person: bool = False  # then a recording, which names no person, cannot be read
    ends_have_rewards: bool = False  # nor then, since its final observations have no rows


@dataclass(frozen=True, eq=False, slots=True)
class Batch:
    """Some rows of a source as they are there, and how to name a row in a message.

    PRIVATE. It holds a function, and so cannot be sealed or pickled; its repr shows no row.
    """

    rows: pa.RecordBatch = field(repr=False)
    where: Callable[[int], str] = field(repr=False)  # the place of a row: "trial.csv, line 17"
    # lines or elements that are no rows, so that nobody knows whose they are
    left_out: int = field(default=0, repr=False)
    # the error of the first that is left out
    problem: DataError | None = field(default=None, repr=False)
    episode_ids: bool = False  # ids are positions, which are no row's id, whatever is written there


Task = Callable[[], Batch]


@dataclass(frozen=True, kw_only=True)
class Source:
    """A stream of batches, which are read as tasks so that several threads can read at once."""

    # What each table is called in messages, and its columns; texts where it has no types.
    schemas: tuple[tuple[str, pa.Schema], ...]
    # Takes the columns to read, each with the type that plainly written texts of it have.
    tasks: Callable[[Types], Iterator[Task]]
    rows: int | None = None  # about, where that is known without reading
    # Of CSV: the delimiter and the encoding that the first heading shows.
    heading: Mapping[str, str] = field(default_factory=dict)
    rereadable: bool = True


def numbered(place: str, first: int) -> Callable[[int], str]:
    """Return what names rows by their number, the first one's being ``first``."""
    return lambda at: f"{place}, row {first + at}"


def ready(batches: Iterable[Batch]) -> Iterator[Task]:
    """Yield batches that are at hand as tasks."""
    for batch in batches:
        yield lambda batch=batch: batch  # type: ignore[misc]


def texts(names: Iterable[str]) -> pa.Schema:
    """Return the schema of columns without types."""
    return pa.schema([(name, pa.string()) for name in names])
