"""Rows for Spark's tasks, with numbers that tell their place.

Spark hands a task rows of a DataFrame, or the numbers of pieces of files, which the task then reads
as the local engine does. Only what is public is sent to the tasks.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from privalue.errors import DataError
from privalue.sections import Columns, States, Values
from privalue.study import Study
from privalue.trajectories import csv_files, sources
from privalue.trajectories.chunks import BATCH_ROWS, Chunk
from privalue.trajectories.encode import Encoder, Origin, clock

Batches = Iterator[pa.RecordBatch]

FRAME = "the Spark dataframe"
ROW_BITS = 33  # as in the numbers that Spark itself gives to rows
_LOW = (1 << ROW_BITS) - 1


@dataclass(frozen=True)
class Piece:
    """A CSV file, or a group of rows of a Parquet file."""

    file: int
    name: str  # of the file, as it was given
    path: Path  # for tasks, which are somewhere else
    group: int | None = None
    first_row: int = 1

    def chunks(self, names: list[str]) -> Iterator[Chunk]:
        """Its rows, with these columns."""
        if self.group is None:
            for chunk in csv_files.csv_chunks(self.path, names):
                yield Chunk(self.name, chunk.first_row, chunk.rows)
            return
        first_row = self.first_row
        with sources._reading_parquet(self.path), pq.ParquetFile(self.path) as file:
            for rows in file.iter_batches(BATCH_ROWS, row_groups=[self.group], columns=names):
                yield Chunk(self.name, first_row, rows.select(names))
                first_row += rows.num_rows


@dataclass(frozen=True, kw_only=True)
class Source:
    """All that a task needs to know about the rows; public.

    A row's number is that of its partition or file above the lowest 33 bits, and its own there,
    counted from 0.
    """

    study: Study
    names: list[str]  # of the columns, in the order person, trajectory, step, state, reward
    files: tuple[str, ...] = ()  # none: a Spark DataFrame
    pieces: tuple[Piece, ...] = ()
    id_types: tuple[str, ...] = ()  # of files

    @property
    def ids(self) -> list[str]:
        """What the ids name."""
        return _ids(self.names)

    @property
    def unit(self) -> list[str]:
        """The ids whose rows must meet in one place."""
        return ["person"] if self.study.privacy.unit == "person" else self.ids

    def place(self, row: int) -> str:
        """Where a row is, in words."""
        at, number = row >> ROW_BITS, (row & _LOW) + 1
        return f"{self.files[at] if self.files else f'{FRAME}, partition {at}'}, row {number}"

    def chunks(self, batches: Batches, told: list[int]) -> Iterator[Chunk]:
        """Rows that Spark hands over: the cells, and a number of each, kept where it is told."""
        return (self._chunk(batch, told) for batch in batches)

    def pieces_in_order(self, batches: Batches, told: list[int]) -> Iterator[tuple[int, Chunk]]:
        """The same, with a number that changes with the piece of a file that rows are from.

        Pieces that tasks read themselves follow each other: they are as good as one.
        """
        for batch in batches:
            if self.files:
                for at in batch.column(0).to_pylist():
                    yield from ((0, chunk) for chunk in self.pieces[at].chunks(self.names))
                continue
            pieces = batch.column(batch.num_columns - 1).to_numpy()
            changes = (np.flatnonzero(pieces[1:] != pieces[:-1]) + 1).tolist()
            for begin, end in pairwise([0, *changes, len(pieces)]):
                part = batch.slice(begin, end - begin)
                yield (int(pieces[begin]) if end else 0), self._chunk(part, told)

    def _chunk(self, batch: pa.RecordBatch, told: list[int]) -> Chunk:
        cells = [_in_utc(cell) for cell in batch.columns[: len(self.names)]]
        rows = batch.column(len(self.names)).to_numpy()

        def place(number: int) -> str:
            told.append(int(rows[number]))
            return self.place(told[-1])

        return Chunk(FRAME, 0, pa.RecordBatch.from_arrays(cells, names=self.names), place)

    # Rows of files that are shuffled have been checked by those who read them.

    @property
    def checked_schema(self) -> str:
        """Of rows of files that were checked, in Spark's words."""
        words = {"int64": "long", "string": "string"}
        ids = [f"{name} {words[kind]}" for name, kind in zip(self.ids, self.id_types, strict=True)]
        return ", ".join([*ids, "step long, state int, reward double, row long, note string"])

    def checked(self, batches: Batches) -> Batches:
        """Rows as plain numbers, and a note: the mistake, or how many rewards were clamped."""
        encoder, clamped, row, note = Encoder(self.study), 0, 0, ""
        try:
            for piece in (self.pieces[at] for batch in batches for at in batch[0].to_pylist()):
                for chunk in piece.chunks(self.names):
                    if chunk.rows.num_rows == 0:
                        continue
                    row = (piece.file << ROW_BITS) + chunk.first_row - 1
                    encoded = encoder.encode(chunk)
                    clamped += encoded.rewards_clamped
                    numbers = np.arange(row, row + len(encoded))
                    cells = [encoded.steps, encoded.states, encoded.rewards, numbers]
                    yield self._plain([*encoder.ids(chunk), *cells], None)
        except DataError as problem:
            note = str(problem)
        nobody = [pa.nulls(1, getattr(pa, kind)()) for kind in self.id_types]
        cells = [np.zeros(1, kind) for kind in (np.int64, np.int32, np.float64)]
        yield self._plain([*nobody, *cells, np.array([row if note else clamped])], note)

    def _plain(self, cells: list[Any], note: str | None) -> pa.RecordBatch:
        names = [*self.ids, "step", "state", "reward", "row"]
        rows = pa.RecordBatch.from_arrays([*map(pa.array, cells)], names=names)
        nothing = pa.nulls(len(rows), pa.string())
        return rows.append_column("note", nothing if note is None else pa.array([note]))


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
    pieces: list[Piece] = []
    origins: list[Origin] = []
    for at, path in enumerate(paths):
        names, id_types, step_kind, more = _opened(at, path, columns)
        pieces += more
        origins.append(Origin(str(path), 1, None, id_types, step_kind))
        origins[0].require_same_ids(origins[-1])
    return Source(
        study=public_part(study),
        names=names,
        files=tuple(map(str, paths)),
        pieces=tuple(pieces),
        id_types=id_types,
    )


def _opened(
    at: int, path: Path, columns: Columns
) -> tuple[list[str], tuple[str, ...], str, list[Piece]]:
    """The columns to read of a file, the types of its ids and its steps, and its pieces."""
    piece = partial(Piece, at, str(path), path.absolute())
    if sources._kind(path) == "csv":
        names = csv_files.csv_columns(path, columns)
        return names, ("string",) * len(_ids(names)), "int64", [piece()]
    metadata, names = sources._parquet_columns(path, columns)
    schema = metadata.schema.to_arrow_schema()
    id_types = tuple(_id_type(schema.field(name).type) for name in names[: len(_ids(names))])
    sizes = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
    starts = accumulate(sizes[:-1], initial=1) if sizes else []
    step_kind = clock(schema.field(names[-3]).type)
    return names, id_types, step_kind, [piece(*start) for start in enumerate(starts)]


def _ids(names: list[str]) -> list[str]:
    return ["trajectory"] if len(names) == 4 else ["person", "trajectory"]


def _id_type(kind: pa.DataType) -> str:
    """What an ``Encoder`` makes of an id."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    whole = pa.types.is_integer(kind) and not pa.types.is_uint64(kind)
    return "int64" if whole or pa.types.is_floating(kind) else "string"


def columns_of(study: Study) -> Columns:
    """The names of the columns; the person's is asked for where persons are protected."""
    if study.privacy.unit == "person":
        return study.data.model_copy(update={"person": study.data.person})
    return study.data


def public_part(study: Study) -> Study:
    """What reading needs of a study: tasks get neither features nor weights nor side files."""
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
