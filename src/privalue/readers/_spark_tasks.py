"""What a task of Spark makes of a partition: sums by state, or the first mistake.

A line of output is a state's count and sum; or, at -1, -2 ..., one of the scalars as the count; or,
from ``_OTHER`` downwards, a mistake and its row, or the ends of ordered rows.
"""

import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter

import numpy as np
import pyarrow as pa

from privalue.core._contributions import SCALARS, Accumulator, Integers, VisitStatistics
from privalue.errors import DataError
from privalue.readers import RowRules
from privalue.readers._chunks import Chunk
from privalue.readers._encode import Origin, Row, Tally
from privalue.readers._local import statistics_of_chunks, statistics_of_ordered_chunks
from privalue.readers._order import Fragment, Stretch, joined
from privalue.readers._spark_rows import FRAME, Batches, Source
from privalue.study._study import Study

LINE = "state long, count long, steps long, mistake string, ends binary"
_OTHER = -100
_MOST_PIECES = 1_000_000  # of files, in a partition


def lines(source: Source, batches: Batches, partition: int) -> Batches:
    """The output of a partition: its sums by state, or its first mistake."""
    told, notes = list[int](), _Notes()  # rows whose place was told; what came with the rows
    stretches: list[Stretch] = []
    try:
        if source.study.data.sorted:
            found, stretches = _in_order(source, source.pieces_in_order(batches, told))
        elif source.files:  # they were checked, and states are numbers now
            rows = source.chunks(notes.sifted(batches), told)
            found = statistics_of_chunks(rows, source.checked_study)
        else:
            found = statistics_of_chunks(source.chunks(batches, told), source.study)
    except DataError as problem:
        notes.mistakes.append((told[0] if told else partition, str(problem)))
    other = _OTHER - partition * _MOST_PIECES
    if notes.mistakes:
        row, mistake = min(notes.mistakes)
        yield _line([other], [row], mistakes=[mistake])
        return
    seen = np.flatnonzero(found.counts)
    yield _line(seen, found.counts[seen], found.return_steps[seen])
    scalars = {name: getattr(found, name) for name in SCALARS}
    for name, number in notes.tally._asdict().items():
        scalars[name] += number
    yield _line(-1 - np.arange(len(scalars)), list(scalars.values()))
    for number, stretch in enumerate(stretches):
        yield _line([other - number], [0], ends=[packed(stretch)])


def _line(
    states: Sequence[int] | Integers,
    counts: Sequence[int] | Integers,
    steps: Integers | None = None,
    *,
    mistakes: list[str] | None = None,
    ends: list[bytes] | None = None,
) -> pa.RecordBatch:
    size = len(states)
    return pa.record_batch(
        {
            "state": pa.array(states, pa.int64()),
            "count": pa.array(counts, pa.int64()),
            "steps": pa.array(np.zeros(size, np.int64) if steps is None else steps),
            "mistake": pa.array(mistakes, pa.string()) if mistakes else pa.nulls(size, pa.string()),
            "ends": pa.array(ends, pa.binary()) if ends else pa.nulls(size, pa.binary()),
        }
    )


class _Notes:
    """What those who checked the rows found."""

    def __init__(self) -> None:
        self.tally = Tally()
        self.mistakes: list[tuple[int, str]] = []

    def sifted(self, batches: Batches) -> Batches:
        """The rows without the notes, which are taken down."""
        for batch in batches:
            notes = batch.column("note")
            if notes.null_count == len(notes):
                yield batch
                continue
            for noted in batch.filter(notes.is_valid()).select(["row", "note"]).to_pylist():
                note = json.loads(noted["note"])
                if "mistake" in note:
                    self.mistakes.append((noted["row"], note["mistake"]))
                else:
                    self.tally += Tally(*note["tally"])
            yield batch.filter(notes.is_null())


def _in_order(
    source: Source, chunks: Iterator[tuple[int, Chunk]]
) -> tuple[VisitStatistics, list[Stretch]]:
    """What is complete in ordered rows, and the ends of each piece of a file.

    Spark packs pieces into partitions in an order of its own: rows are in order in each of them.
    """
    found, stretches = VisitStatistics.empty(source.study), list[Stretch]()
    for _, piece in groupby(chunks, key=itemgetter(0)):
        of_piece = (chunk for _, chunk in piece)
        between, ends = statistics_of_ordered_chunks(of_piece, source.study)
        found += between
        if ends:
            more, stretch = _outermost(ends, source.study)
            found += more
            stretches.append(stretch)
    return found, stretches


def _outermost(ends: list[Stretch], study: Study) -> tuple[VisitStatistics, Stretch]:
    """Stretches that follow each other as one; what is complete between its ends."""
    fragments: list[Fragment] = []
    last: Row | None = None
    rules = RowRules.of(study)
    for stretch in ends:
        fragments.append(joined(last, stretch, rules))
        if stretch.tail is not None:
            fragments.append(stretch.tail)
        last = stretch.last
    rows = Fragment.together(fragments)
    units = rows.units
    accumulator, size = Accumulator(study), len(rows.states)
    second, latest = (int(units[1]), int(units[-1])) if len(units) > 1 else (size, size)
    accumulator.gather(rows.part(second, latest))
    tail = rows.part(latest, size) if latest < size else None
    outer = Stretch(rows.part(0, second), tail, ends[0].first, ends[-1].last)
    return accumulator.finish(), outer


_ENDS = pa.schema(
    {
        "starts": pa.list_(pa.int64()),
        "states": pa.list_(pa.int32()),
        "rewards": pa.list_(pa.float64()),
        "persons": pa.list_(pa.bool_()),
        "head": pa.int64(),  # rows of it
        "ids": pa.int64(),
        "keys": pa.list_(pa.list_(pa.int64())),  # of the first and the last row, as what follows
        "steps": pa.list_(pa.int64()),
        "places": pa.list_(pa.string()),
    }
)


def packed(stretch: Stretch) -> bytes:
    """PRIVATE: the ends of ordered rows as bytes, for the driver."""
    parts = [stretch.head] if stretch.tail is None else [stretch.head, stretch.tail]
    rows, outer = Fragment.together(parts), (stretch.first, stretch.last)
    fields = {
        "starts": rows.starts,
        "states": rows.states,
        "rewards": rows.rewards,
        "persons": rows.persons,
        "head": len(stretch.head.states),
        "ids": len(stretch.first.keys),
        "keys": [row.keys.ravel() for row in outer],
        "steps": [row.step for row in outer],
        "places": [row.where for row in outer],
    }
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, _ENDS) as writer:
        cells = [
            pa.array([fields[name]], kind)
            for name, kind in zip(_ENDS.names, _ENDS.types, strict=True)
        ]
        writer.write_batch(pa.RecordBatch.from_arrays(cells, schema=_ENDS))
    content: bytes = sink.getvalue().to_pybytes()
    return content


def unpacked(content: bytes) -> Stretch:
    """The ends of ordered rows that were packed."""
    batch = pa.ipc.open_stream(content).read_next_batch()
    fields = {name: batch.column(name)[0] for name in _ENDS.names}
    starts, states, rewards = (fields[n].values.to_numpy() for n in ("starts", "states", "rewards"))
    flags = fields["persons"].values
    persons = None if flags is None else flags.to_numpy(zero_copy_only=False)
    rows, head = Fragment(starts, states, rewards, persons), fields["head"].as_py()
    ids = fields["ids"].as_py()
    told = zip(*(fields[name].as_py() for name in ("keys", "steps", "places")), strict=True)
    first, last = (_row(keys, step, place, ids) for keys, step, place in told)
    tail = rows.part(head, len(states)) if head < len(states) else None
    return Stretch(rows.part(0, head), tail, first, last)


def _row(keys: list[int], step: int, place: str, ids: int) -> Row:
    by_id = np.array(keys, dtype=np.int64).reshape(ids, -1)
    return Row(Origin(FRAME, 0, lambda _: place), 0, by_id, step)
