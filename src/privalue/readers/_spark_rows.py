"""Rows for Spark's tasks, with numbers that tell their place.

Spark hands a task rows of a DataFrame, or the numbers of pieces of files, which the task then reads
as the local engine does. Only what is public is sent to the tasks.
"""

import json
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
from privalue.readers import RowRules
from privalue.readers import _csv_files as csv_files
from privalue.readers import _sources as sources
from privalue.readers._chunks import BATCH_ROWS, Chunk
from privalue.readers._encode import Encoder, Tally
from privalue.readers._files import file_kind, find_files, reading_parquet
from privalue.study._sections import States, Values
from privalue.study._study import Study

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

    def chunks(self, rules: RowRules) -> Iterator[Chunk]:
        """Its rows, the needed columns."""
        names = rules.names
        if self.group is None:
            first_row = 1
            for chunk in csv_files.csv_chunks(csv_files.open_csv(self.path, rules)):
                yield Chunk(self.name, first_row, chunk.rows, None, chunk.left_out)
                first_row += chunk.rows.num_rows
            return
        first_row = self.first_row
        with reading_parquet(self.path), pq.ParquetFile(self.path) as file:
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
    files: tuple[str, ...] = ()  # none: a Spark DataFrame
    pieces: tuple[Piece, ...] = ()

    @property
    def rules(self) -> RowRules:
        """How rows are read."""
        return RowRules.of(self.study)

    @property
    def ids(self) -> list[str]:
        """What the ids name."""
        return self.rules.id_roles

    @property
    def unit(self) -> list[str]:
        """The ids whose rows must meet in one place."""
        return self.rules.unit_roles

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
                    yield from ((0, chunk) for chunk in self.pieces[at].chunks(self.rules))
                continue
            pieces = batch.column(batch.num_columns - 1).to_numpy()
            changes = (np.flatnonzero(pieces[1:] != pieces[:-1]) + 1).tolist()
            for begin, end in pairwise([0, *changes, len(pieces)]):
                part = batch.slice(begin, end - begin)
                yield (int(pieces[begin]) if end else 0), self._chunk(part, told)

    def _chunk(self, batch: pa.RecordBatch, told: list[int]) -> Chunk:
        names = self.rules.names
        rows = batch.column(len(names)).to_numpy()

        def place(number: int) -> str:
            told.append(int(rows[number]))
            return self.place(told[-1])

        cells = batch.columns[: len(names)]
        return Chunk(FRAME, 0, pa.RecordBatch.from_arrays(cells, names=names), place)

    # Rows of files that are shuffled have been checked by those who read them.

    @property
    def checked_schema(self) -> str:
        """Of rows of files that were checked, in Spark's words."""
        kind = "long" if self.study.data.id_type == "integer" else "string"
        ids = [f"{role} {kind}" for role in self.ids]
        return ", ".join([*ids, "step long, state int, reward double, row long, note string"])

    @property
    def checked_study(self) -> Study:
        """How checked rows are read: their steps and states are whole numbers now."""
        data = self.study.data
        update = {"step_type": "integer"} if "step_type" in data.given else {}
        names = {name: getattr(data, name) for name in data.given - {"step_format"}}
        return self.study.model_copy(
            update={
                "states": States(count=self.study.state_count),
                "data": type(data)(**{**names, **update}),
            }
        )

    def checked(self, batches: Batches) -> Batches:
        """Rows as plain numbers, and a note: the mistake, or what was done to rows on the way."""
        rules = self.rules
        encoder, tally, row, mistake = Encoder(rules), Tally(), 0, ""
        try:
            for piece in (self.pieces[at] for batch in batches for at in batch[0].to_pylist()):
                for chunk in piece.chunks(rules):
                    row = (piece.file << ROW_BITS) + chunk.first_row - 1
                    encoded = encoder.encode(chunk)
                    tally += encoded.tally
                    kept = encoded.origin.kept
                    numbers = row + (np.arange(len(encoded)) if kept is None else kept)
                    cells = [encoded.steps, encoded.states, encoded.rewards, numbers]
                    if len(encoded):
                        yield self._plain([*encoder.id_columns(chunk, encoded), *cells], None)
        except DataError as problem:
            mistake = str(problem)
        id_type = pa.int64() if rules.id_type == "integer" else pa.string()
        nobody = [pa.nulls(1, id_type) for _ in self.ids]
        cells = [np.zeros(1, kind) for kind in (np.int64, np.int32, np.float64)]
        note = json.dumps({"mistake": mistake} if mistake else {"tally": tally})
        yield self._plain([*nobody, *cells, np.array([row])], note)

    def _plain(self, cells: list[Any], note: str | None) -> pa.RecordBatch:
        names = [*self.ids, "step", "state", "reward", "row"]
        rows = pa.RecordBatch.from_arrays([*map(pa.array, cells)], names=names)
        nothing = pa.nulls(len(rows), pa.string())
        return rows.append_column("note", nothing if note is None else pa.array([note]))


def source_of_files(data: str | Path, study: Study) -> Source:
    """The files that the local engine would read, with its complaints."""
    rules = RowRules.of(study)
    sources.open_files(data, rules)
    paths = find_files(data)
    pieces = [piece for at, path in enumerate(paths) for piece in _pieces(at, path, rules)]
    return Source(study=public_part(study), files=tuple(map(str, paths)), pieces=tuple(pieces))


def _pieces(at: int, path: Path, rules: RowRules) -> list[Piece]:
    """What tasks read of a file: all of a CSV file, groups of rows of a Parquet file."""
    piece = partial(Piece, at, str(path), path.absolute())
    if file_kind(path) == "csv":
        return [piece()]
    metadata = sources.open_parquet(path, rules)
    sizes = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
    starts = accumulate(sizes[:-1], initial=1) if sizes else []
    return [piece(*start) for start in enumerate(starts)]


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
