"""Rows for Spark's tasks: checked where they are handed over, with numbers that tell their place.

Spark hands a task rows of a DataFrame, or the numbers of pieces of files, which the task then reads
as the local engine does. Only what is public is sent to the tasks.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from privalue.errors import DataError
from privalue.sections import Columns, States, Values
from privalue.statistics import Integers
from privalue.study import Study
from privalue.trajectories import sources
from privalue.trajectories.encode import Encoder
from privalue.trajectories.sources import BATCH_ROWS, Chunk, select

Batches = Iterator[pa.RecordBatch]

FRAME = "the Spark dataframe"
ROW_BITS = 33  # as in the numbers that Spark itself gives to rows


@dataclass(frozen=True)
class Places:
    """Where rows are from, told by their numbers.

    A number holds that of the partition or file above its lowest 33 bits, and the row's in these.
    """

    files: tuple[str, ...] | None = None  # None: a Spark DataFrame

    def split(self, row: int) -> tuple[str, int]:
        """The file or partition, and the row's number there, counted from 1."""
        at, number = row >> ROW_BITS, row & ((1 << ROW_BITS) - 1)
        return f"{FRAME}, partition {at}" if self.files is None else self.files[at], number + 1

    def place(self, row: int) -> str:
        """Both in words."""
        place, number = self.split(row)
        return f"{place}, row {number}"


@dataclass(frozen=True)
class Piece:
    """A CSV file, or a group of rows of a Parquet file."""

    file: int
    path: Path
    group: int | None = None
    first_row: int = 0

    def batches(self, names: list[str]) -> Batches:
        """Its rows, with these columns."""
        if self.group is None:
            yield from (chunk.rows for chunk in sources._csv_chunks(self.path, names))
            return
        try:
            with pq.ParquetFile(self.path) as file:
                groups = file.iter_batches(BATCH_ROWS, row_groups=[self.group], columns=names)
                yield from (batch.select(names) for batch in groups)
        except (pa.ArrowException, OSError) as problem:
            raise DataError(f"{self.path} cannot be read as Parquet: {one_line(problem)}") from None


@dataclass(frozen=True, kw_only=True)
class Source:
    """All that a task needs in order to make checked rows of what Spark hands it; public."""

    study: Study
    names: list[str]
    places: Places
    pieces: tuple[Piece, ...] = ()  # of files: Spark hands out their numbers
    id_types: dict[str, pa.DataType] = field(default_factory=dict)  # of files

    @property
    def ids(self) -> list[str]:
        """The columns that name a trajectory."""
        return id_roles(self.names)

    @property
    def unit(self) -> list[str]:
        """The columns that name what must not be torn apart."""
        return ["person"] if self.study.privacy.unit == "person" else self.ids

    @property
    def row_schema(self) -> str:
        """Of the checked rows of files, in Spark's words."""
        words = {pa.int64(): "long", pa.string(): "string"}
        ids = ", ".join(f"{name} {words[kind]}" for name, kind in self.id_types.items())
        return f"{ids}, step long, state int, reward double, row long, note string"

    def rows(self, batches: Batches) -> Iterator[tuple[pa.RecordBatch, Integers, Any]]:
        """The cells, by name; the rows' numbers; if sorted, a number of the piece they are from."""
        size = len(self.names)
        for batch in batches:
            if not self.pieces:
                cells = [_in_utc(cell) for cell in batch.columns[:size]]
                named = pa.RecordBatch.from_arrays(cells, names=self.names)
                pieces = batch.column(size + 1) if self.study.data.sorted else None
                yield named, batch.column(size).to_numpy(), pieces
                continue
            for at in batch.column(0).to_pylist():
                piece = self.pieces[at]
                first = (piece.file << ROW_BITS) + piece.first_row
                for rows in piece.batches(self.names):
                    pieces = np.full(rows.num_rows, at) if self.study.data.sorted else None
                    yield rows, np.arange(first, first + rows.num_rows), pieces
                    first += rows.num_rows

    def checked(self, batches: Batches) -> Batches:
        """Encoded rows and, at last, a note: the first mistake, or how many rewards were clamped.

        All rows are checked even then: which mistake is the first does not depend on the order in
        which a shuffle hands them over.
        """
        encoder, mistakes, row = Encoder(self.study), list[tuple[int, str]](), 0
        encoder._key_types.update(self.id_types)  # of one type throughout, over all tasks
        try:
            for rows, numbers, pieces in self.rows(batches):
                if rows.num_rows == 0:
                    continue
                row = int(numbers[0])
                try:
                    encoded = encoder.encode(Chunk("", 0, rows))
                except DataError:
                    mistakes.append(self._first_mistake(encoder, rows, numbers))
                if not mistakes:
                    at = encoded.schema.get_field_index("row")
                    encoded = encoded.set_column(at, "row", pa.array(numbers))
                    if pieces is not None:
                        encoded = encoded.append_column("piece", pieces)
                    yield encoded.append_column("note", pa.nulls(len(encoded), pa.string()))
        except DataError as problem:  # in reading
            mistakes.append((row, str(problem)))
        row, note = min(mistakes, default=(encoder.rewards_clamped, ""))
        yield pa.record_batch(
            {
                **{name: pa.nulls(1, kind) for name, kind in self.id_types.items()},
                "step": pa.array([0], pa.int64()),
                "state": pa.array([-1], pa.int32()),
                "reward": pa.array([0.0], pa.float64()),
                "row": pa.array([row], pa.int64()),
                "note": pa.array([note], pa.string()),
            }
        )

    def _first_mistake(
        self, encoder: Encoder, rows: pa.RecordBatch, numbers: Integers
    ) -> tuple[int, str]:
        """The first row, by its number, that is refused by itself, and the refusal."""

        def refusal(chosen: Any) -> str | None:
            place, number = self.places.split(int(numbers[chosen[0]]))
            try:
                encoder.encode(Chunk(place, number, rows.take(pa.array(chosen))))
            except DataError as problem:
                return str(problem)
            return None

        by_number = np.argsort(numbers)
        good, bad = 0, len(by_number)  # all before the one are good, one before the other is not
        while bad - good > 1:
            middle = (good + bad) // 2
            if refusal(by_number[good:middle]) is None:
                good = middle
            else:
                bad = middle
        first = by_number[good : good + 1]
        return int(numbers[first[0]]), str(refusal(first))


def _in_utc(cell: pa.Array) -> pa.Array:
    """Times as UTC tells them, so that ids that are times do not depend on the session's zone."""
    if pa.types.is_timestamp(cell.type) and cell.type.tz:
        return cell.cast(pa.timestamp(cell.type.unit, "UTC"))
    return cell


def source_of_files(data: str | Path, study: Study) -> Source:
    """The files that the local engine would read, with its complaints."""
    columns = columns_of(study)
    sources._files(data, columns)
    paths = sources._find(data)
    names, id_types, pieces = _opened(0, paths[0], columns)
    for at, path in enumerate(paths[1:], start=1):
        others, types, more = _opened(at, path, columns)
        pieces += more
        if others != names:
            raise DataError(
                f"{path} and {paths[0]} differ in whether they have a column {columns.person!r}; "
                "all files need it, or none"
            )
        for column, role in zip(names, types, strict=False):
            if types[role] != id_types[role]:
                raise DataError(
                    f"{path}: {column} is {types[role]} here and {id_types[role]} before; an id "
                    "has one type throughout"
                )
    return Source(
        study=public_part(study),
        names=names,
        places=Places(tuple(map(str, paths))),
        pieces=tuple(pieces),
        id_types=id_types,
    )


def _opened(
    at: int, path: Path, columns: Columns
) -> tuple[list[str], dict[str, pa.DataType], list[Piece]]:
    """The columns to read of a file, the types of its ids, and its pieces."""
    if sources._kind(path) == "csv":
        names = sources._csv_columns(path, columns)
        return names, dict.fromkeys(id_roles(names), pa.string()), [Piece(at, path)]
    with pq.ParquetFile(path) as file:
        schema, metadata = file.schema_arrow, file.metadata
    names = select(columns, schema.names, str(path))
    ids = zip(id_roles(names), names, strict=False)
    types = {role: _id_type(schema.field(name).type) for role, name in ids}
    sizes = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
    starts = accumulate(sizes[:-1], initial=0) if sizes else []
    return names, types, [Piece(at, path, *piece) for piece in enumerate(starts)]


def columns_of(study: Study) -> Columns:
    """The names of the columns; the person's is asked for where persons are protected."""
    if study.privacy.unit == "person":
        return study.data.model_copy(update={"person": study.data.person})
    return study.data


def public_part(study: Study) -> Study:
    """What reading needs of a study: workers get neither features nor weights nor side files."""
    values = Values(
        discount=study.values.discount, rewards=study.values.rewards, returns=study.return_bounds
    )
    if study.raw_labels is None:
        states = States(count=study.state_count)
    elif study.states.groups is None:
        states = States(labels=list(study.raw_labels))
    else:
        labels = study.state_labels
        groups = {raw: labels[at] for raw, at in study.raw_labels.items()}
        states = States(labels=list(labels), groups=groups)
    return Study(privacy=study.privacy, values=values, states=states, data=study.data)


def id_roles(names: list[str]) -> list[str]:
    """What the ids among the columns to read name."""
    return ["trajectory"] if len(names) == 4 else ["person", "trajectory"]


def _id_type(kind: pa.DataType) -> pa.DataType:
    """What an ``Encoder`` makes of an id."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    return pa.int64() if number else pa.string()


def one_line(problem: object) -> str:
    """A message short enough for one line."""
    return " ".join(str(problem).split())[:200]
