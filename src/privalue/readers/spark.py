"""Compute the statistics of a source on many machines, with Spark.

| where     | what                                                                               |
|-----------|------------------------------------------------------------------------------------|
| executors | encode the rows of their part; after the shuffle, sort and sum them by unit        |
| shuffle   | sends each bucket (a range of hashes of units) as one cell in Arrow's IPC format   |
| driver    | adds up the sums of all tasks; only here is noise drawn                            |

Every task uses the grouping and the core of the local engine. Sums are integers, so the result is
that of the local engine, bit for bit. They come only from the output of successful tasks, so that a
task that is retried counts once. An error in the data is output, too: the task is not retried, and
Spark does not log the message, which may quote the data. Spark writes shuffled rows to its own
disks. One bucket must fit into memory; ``spark.sql.shuffle.partitions`` is their number.
"""

import io
import json
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from privalue.core import ARRAYS, COUNTERS, BatchRange, Contributions, Limits, Statistics
from privalue.errors import DataError, UsageError
from privalue.readers import grouping
from privalue.readers.conflicts import ConflictError, add_to_core
from privalue.readers.declaration import Declaration
from privalue.readers.files import list_files
from privalue.readers.messages import render
from privalue.readers.names import is_on_server, require_name
from privalue.readers.rows import Encoder, Rows
from privalue.readers.source import Batch, Progress, locate_rows
from privalue.readers.spark_session import active_session, pyspark_sql, session, translate_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["read_with_spark", "session"]

Batches = Iterator[pa.RecordBatch]
BatchReader = Callable[[Batches, Declaration], Iterator[Batch]]  # yields the rows of a task's input

FRAME = "the Spark dataframe"
_ENCODED_SCHEMA = "bucket int, content binary"  # without a bucket, the content is a task's summary
_SUMS_SCHEMA = "content binary"
_BUNDLE_ROWS = 1 << 19  # divided into buckets together
_DEFAULT_BUCKETS = 200


def read_with_spark(
    data: Any, declaration: Declaration, limits: Limits, progress: Progress | None = None
) -> Statistics:
    """Return the first-visit statistics of ``data``: the local engine's, bit for bit.

    Args:
        data: a Spark DataFrame, or the name of CSV or Parquet files that every worker can open:
            they are read in the active session, or else in a new one that is stopped at the end.
        declaration: the study's declaration of rows.
        limits: the limits that the core enforces on every unit.
        progress: called once, at the end.

    Returns:
        The statistics. They are private.
    """
    sql = pyspark_sql()
    with translate_errors():
        if isinstance(data, sql.DataFrame):
            frame = _select_columns(data, declaration)
            statistics = _compute(frame, read_frame, declaration, limits)
        elif isinstance(data, str | Path):
            statistics = _read_files(data, declaration, limits)
        else:
            raise UsageError(render("spark-data", kind=type(data).__name__))
    if progress is not None:
        progress(statistics.rows, statistics.rows)
    return statistics.require_data()


# Reading


def _select_columns(data: "DataFrame", declaration: Declaration) -> "DataFrame":
    """Return the columns of a DataFrame that the study needs, named by their roles."""
    functions = import_module("pyspark.sql.functions")
    to_arrow = import_module("pyspark.sql.pandas.types").to_arrow_type
    names = set(declaration.columns.values())
    fields = [
        (f.name, to_arrow(f.dataType, timezone="UTC") if f.name in names else pa.null())
        for f in data.schema
    ]
    declaration.require_columns(FRAME, pa.schema(fields))
    # By position, because names may contain dots, or differ in case alone.
    frame = data.toDF(*(f"c{at}" for at in range(len(data.columns))))
    positions = {role: data.columns.index(name) for role, name in declaration.columns.items()}
    return frame.select(*(functions.col(f"c{at}").alias(role) for role, at in positions.items()))


def read_frame(batches: Batches, declaration: Declaration) -> Iterator[Batch]:
    """Yield the rows of a DataFrame's partition."""
    place, first = f"{FRAME}, partition {partition_id()}", 1
    names = list(declaration.columns.values())
    for batch in batches:
        rows = pa.RecordBatch.from_arrays(batch.columns, names=names)
        yield Batch(rows, locate_rows(place, range(first, first + len(rows))))
        first += len(rows)


def partition_id() -> int:
    """Return the number of this task's partition."""
    return int(import_module("pyspark").TaskContext.get().partitionId())


def _read_files(data: str | Path, declaration: Declaration, limits: Limits) -> Statistics:
    """Return the statistics of files; every task reads some parts."""
    require_name(data)
    if "::" in str(data) or is_on_server(data) or str(data).startswith("minari:"):
        raise UsageError(render("spark-name"))
    files = list_files(data, declaration.dialect)
    for file in files:  # before a session is started, which takes seconds
        declaration.require_columns(str(file.path), file.schema)
    parts = [(file, part) for file in files for part in range(file.parts)]

    def read(batches: Batches, declaration: Declaration) -> Iterator[Batch]:
        for at in (at for batch in batches for at in batch.column(0).to_pylist()):
            file, part = parts[at]
            for task in file.tasks(declaration.text_types, part, part + 1):
                yield task()

    with active_session() as spark:
        return _compute(spark.range(len(parts)), read, declaration, limits)


# Tasks


def _compute(
    frame: "DataFrame", read: BatchReader, declaration: Declaration, limits: Limits
) -> Statistics:
    """Run the tasks, and return the statistics."""
    partitions = frame.sparkSession.conf.get("spark.sql.shuffle.partitions") or ""
    # Some vendors have "auto".
    buckets = int(partitions) if partitions.isdigit() else _DEFAULT_BUCKETS
    encode = partial(encode_buckets, read=read, declaration=declaration, buckets=buckets)
    add = partial(add_buckets, declaration=declaration, limits=limits, buckets=buckets)
    # No number of partitions is given, so that Spark may use few tasks for few rows.
    rows = frame.mapInArrow(encode, _ENCODED_SCHEMA).repartition("bucket")
    output = rows.sortWithinPartitions("bucket").mapInArrow(add, _SUMS_SCHEMA).toArrow()
    return add_up(output, limits)


def add_up(output: pa.Table, limits: Limits) -> Statistics:
    """Return the sum of the statistics of all tasks.

    Raises:
        DataError: the earliest error of any task.
        BoundaryError: two tasks share a unit.
    """
    tasks = [_load_output(content) for content in output.column("content").to_pylist()]
    errors = [error for summary, _ in tasks for error in summary["errors"]]
    if errors:
        _, message, code = min(errors)
        raise DataError(message, code=code)
    total = Contributions(limits).finish()
    for summary, arrays in tasks:
        ranges = tuple(
            BatchRange(tuple(span), *(tuple(map(tuple, unit)) for unit in ends))
            for span, *ends in summary["ranges"]
        )
        total += Statistics(limits=limits, batch_ranges=ranges, **arrays, **summary["counters"])
    return total


def encode_buckets(
    batches: Batches, *, read: BatchReader, declaration: Declaration, buckets: int
) -> Batches:
    """Yield the rows of each bucket in one cell, in Arrow's IPC format, and a summary at the end.

    An error is output, not raised: Spark would retry the task, and log the message.
    """
    encoder, unit_ids = Encoder(declaration), len(declaration.unit_roles)
    pending, left_out, errors = list[Rows](), 0, list[Any]()

    def divide() -> pa.RecordBatch:
        rows = grouping.divide(Rows.concat(pending), unit_ids, buckets, 0, buckets)
        occupied = [bucket for bucket in range(buckets) if len(rows[bucket])]
        return _bucket_batch(occupied, [pack(rows[bucket]) for bucket in occupied])

    try:
        for batch in read(batches, declaration):
            rows = encoder(batch)
            left_out += rows.left_out
            pending += [rows] if len(rows) else []
            if sum(map(len, pending)) >= _BUNDLE_ROWS:
                yield divide()
                pending = []
        if pending:
            yield divide()
    except DataError as problem:
        errors.append([partition_id(), str(problem), problem.code])
    summary = {"left_out": left_out, "errors": errors}
    yield _bucket_batch([None], [json.dumps(summary).encode()])


def _bucket_batch(buckets: Sequence[int | None], contents: list[bytes]) -> pa.RecordBatch:
    columns = {"bucket": pa.array(buckets, pa.int32()), "content": pa.array(contents, pa.binary())}
    return pa.record_batch(columns)


def add_buckets(
    batches: Batches, *, declaration: Declaration, limits: Limits, buckets: int
) -> Batches:
    """Yield the sums of the rows of some buckets, or errors."""
    total, left_out = Contributions(limits), 0
    summary: dict[str, Any] = {"errors": []}
    arrays: dict[str, Any] = {}
    cells = (cell for batch in batches for cell in batch.to_pylist())
    try:
        for bucket, group in groupby(cells, key=itemgetter("bucket")):
            contents = [cell["content"] for cell in group]
            if bucket is None:
                for content in contents:
                    encoding = json.loads(content)
                    left_out += encoding["left_out"]
                    summary["errors"] += encoding["errors"]
                continue
            rows = grouping.sort([unpack(content, declaration) for content in contents])
            add_to_core(rows, total, declaration, span=grouping.span_of(bucket, buckets))
        statistics = total.finish(rows_left_out=left_out)
        summary["counters"] = {name: getattr(statistics, name) for name in COUNTERS}
        summary["ranges"] = statistics.batch_ranges
        arrays = {name: getattr(statistics, name) for name in ARRAYS}
    except ConflictError as problem:  # sorts after errors of single rows, which may have caused it
        summary["errors"].append([math.inf, str(problem), problem.code])
    file = io.BytesIO()
    np.savez_compressed(file, summary=np.array(json.dumps(summary)), **arrays)
    yield pa.record_batch({"content": pa.array([file.getvalue()], pa.binary())})


# Serialisation


def pack(rows: Rows) -> bytes:
    """Return rows in Arrow's IPC format. PRIVATE."""
    ids, *others = rows.columns
    columns = [*np.ascontiguousarray(ids.reshape(len(rows), -1).T), *others]
    batch = pa.record_batch([pa.array(c) for c in columns], [str(at) for at in range(len(columns))])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def unpack(content: bytes, declaration: Declaration) -> Rows:
    """Return the rows that ``pack`` serialised."""
    (batch,) = pa.ipc.open_stream(content)
    columns = [column.to_numpy() for column in batch.columns]
    others = 4 if "probability" in declaration.columns else 3
    ids = np.column_stack(columns[:-others]).reshape(len(batch), len(declaration.id_roles), -1)
    return Rows(ids, *columns[-others:])


def _load_output(content: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the summary of a task, and its arrays."""
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        arrays = dict(file)
    return json.loads(str(arrays.pop("summary"))), arrays
