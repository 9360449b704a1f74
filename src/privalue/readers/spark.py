"""Compute the statistics of a source on many machines: Spark spreads the rows.

| where     | what                                                                               |
|-----------|------------------------------------------------------------------------------------|
| executors | rows, encoded where they are; then brought together by unit, sorted and summed up    |
| shuffle   | rows of a range of units' hashes, a bucket, as one binary cell of Arrow's IPC format |
| driver    | the totals by state; noise                                                         |

Every task goes through the grouping and the core of the local engine. Sums are integers, so the
result is that of the local engine, bit for bit. They come from the output of tasks that succeeded,
and from nothing else: a task that is tried again counts once. An error in the data is output too:
the task is not tried again, and Spark does not log the message, which may quote the data. Spark
shuffles by way of its own disks. One bucket must fit into memory; there are as many of them as
``spark.sql.shuffle.partitions`` says.
"""

import io
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from privalue._types import Progress
from privalue.core import COUNTERS, Contributions, Covered, Limits, Statistics
from privalue.errors import DataError, MissingComponentError, UsageError
from privalue.readers import grouping
from privalue.readers.conflicts import ConflictError, add_to_core, explain
from privalue.readers.declaration import Declaration
from privalue.readers.files import list_files
from privalue.readers.rows import Encoder, Rows
from privalue.readers.source import BATCH_ROWS, Batch, numbered, one_line

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Batches = Iterator[pa.RecordBatch]

FRAME = "the Spark dataframe"
ENCODED = "bucket int, rows binary, note string"
SUMMED = "numbers binary, note string"
# Of the statistics, besides scalars; the first ones have a number, or several, for each key.
BY_KEY = ("counts", "return_steps", "level_counts", "level_steps", "weight_steps", "weighted_steps")
_BUNDLE_ROWS = 1 << 19  # that are divided into buckets at once
_DEFAULT_BUCKETS = 200
_TASKS_PER_CORE = 3
_LAST = 1 << 62  # the number of an error that belongs to no partition: those of rows come first

_LOGGING = """
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = Spark: %m%n%ex{0}
"""  # exceptions may quote rows, and are left out


def read_with_spark(
    data: Any, declaration: Declaration, limits: Limits, progress: Progress | None = None
) -> Statistics:
    """Return the first-visit statistics of ``data``: the local engine's, bit for bit.

    Args:
        data: a Spark DataFrame, or the name of CSV or Parquet files that every worker can open:
            these are read in the active session, or else in one that is stopped at the end.
        declaration: what the study declares of rows.
        limits: what the core holds units to.
        progress: called once, at the end.

    Returns:
        The statistics. They are private.
    """
    sql = _pyspark()
    with _translate_errors():
        if isinstance(data, sql.DataFrame):
            found = _compute(_needed(data, declaration), _frame_batches, declaration, limits)
        elif isinstance(data, str | Path):
            found = _read_files(_local_name(data), declaration, limits)
        else:
            raise UsageError(
                f"the engine spark does not take data of type {type(data).__name__}; give a Spark "
                "DataFrame or the name of CSV or Parquet files, or use the engine local"
            )
    if progress is not None:
        progress(found.rows, found.rows)
    return found.require_data(limits)


# Sessions


def session() -> "SparkSession":
    """Start a session on this machine: every core, this Python, quiet, its files encrypted.

    Under ``spark-submit``, or with ``PYSPARK_SUBMIT_ARGS``, it is the session that these describe.
    """
    builder = _pyspark().SparkSession.builder.appName("privalue")
    _require_java()
    made: SparkSession
    if os.environ.keys() & {"PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT"}:
        made = builder.getOrCreate()
        return made
    with tempfile.TemporaryDirectory(prefix="privalue-") as folder:
        logging = Path(folder) / "log4j2.properties"
        logging.write_text(_LOGGING)
        settings = {
            "spark.master": "local[*]",
            "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{logging}",
            "spark.driver.host": "localhost",
            "spark.driver.bindAddress": "127.0.0.1",  # nobody else has to reach it
            "spark.io.encryption.enabled": "true",  # private rows are shuffled
            "spark.sql.execution.arrow.maxBytesPerBatch": "64m",  # of packed rows
            "spark.sql.execution.arrow.maxRecordsPerBatch": str(BATCH_ROWS),
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
        }
        for name, value in settings.items():
            builder = builder.config(name, value)
        before = os.environ.get("PYSPARK_PYTHON")
        os.environ["PYSPARK_PYTHON"] = sys.executable  # it is read when the context is made
        try:
            made = builder.getOrCreate()
        except _errors().PySparkRuntimeError as problem:
            raise MissingComponentError(
                f"Spark does not start: {one_line(problem)}; it needs Java 17 or newer"
            ) from None
        finally:
            del os.environ["PYSPARK_PYTHON"]
            if before is not None:
                os.environ["PYSPARK_PYTHON"] = before
    return made


@contextmanager
def _active_session() -> Iterator["SparkSession"]:
    """Yield the active session; or start one, and stop it at the end."""
    used = _pyspark().SparkSession.getActiveSession()
    if used is not None:
        yield used
        return
    made = session()
    try:
        yield made
    finally:
        made.stop()


def _pyspark() -> Any:
    """Import ``pyspark.sql``, only where it is needed."""
    try:
        import_module("pandas")  # Spark insists
        return import_module("pyspark.sql")
    except ImportError:
        raise MissingComponentError(
            "the engine spark needs PySpark and pandas: pip install 'pyspark>=4.0' "
            "'pandas>=2.3,<3'; and Java, 17 or newer"
        ) from None


def _errors() -> Any:
    return import_module("pyspark.errors")


def _require_java() -> None:
    """Raise MissingComponentError, with what to install, if there is no Java."""
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java", path=str(Path(home) / "bin") if home else None) is None:
        where = f"there is none in JAVA_HOME = {home}" if home else "no java is on the PATH"
        raise MissingComponentError(
            f"Spark needs Java 17 or newer, and {where}; install one, e.g. Debian's "
            "openjdk-17-jre-headless, or set JAVA_HOME"
        )


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Turn the errors of Spark itself into one line, without tracebacks."""
    failures = (_errors().PySparkException, import_module("py4j.protocol").Py4JError)
    try:
        with _silence_loggers():
            yield
    except failures as problem:
        reason = _reason(problem)
        if "No module named" in reason or "PYTHON_VERSION_MISMATCH" in reason:
            raise MissingComponentError(
                f"Spark's workers cannot run privalue: {reason}; they need the driver's Python "
                "version and packages: see PYSPARK_PYTHON"
            ) from None
        raise DataError(f"Spark could not go through the data: {reason}") from None


@contextmanager
def _silence_loggers() -> Iterator[None]:
    """Silence PySpark's loggers: they would log private values that a query failed at."""
    get = import_module("pyspark.logger").PySparkLogger.getLogger
    loggers = [get("SQLQueryContextLogger"), get("DataFrameQueryContextLogger")]
    before = [logger.disabled for logger in loggers]
    try:
        for logger in loggers:
            logger.disabled = True
        yield
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled


def _reason(problem: BaseException) -> str:
    """Return the innermost cause of an error of Spark, in one line."""
    cause = getattr(problem, "java_exception", None)
    if cause is not None:
        while cause.getCause() is not None:
            cause = cause.getCause()
        return one_line(cause.toString())
    lines = str(problem).strip().splitlines() or [type(problem).__name__]
    return one_line(lines[-1] if isinstance(problem, _errors().PythonException) else lines[0])


# Rows, wherever they are


def _needed(data: "DataFrame", declaration: Declaration) -> "DataFrame":
    """Return the needed columns of a DataFrame, by their roles."""
    functions = import_module("pyspark.sql.functions")
    types = import_module("pyspark.sql.pandas.types")
    wanted = set(declaration.columns.values())
    fields = [
        (f.name, types.to_arrow_type(f.dataType, timezone="UTC") if f.name in wanted else pa.null())
        for f in data.schema
    ]
    declaration.require_columns(FRAME, pa.schema(fields))
    # By position: names may hold dots, or differ in case only.
    cells = [f"c{at}" for at in range(len(data.columns))]
    renamed = data.toDF(*cells)
    chosen = {role: cells[data.columns.index(name)] for role, name in declaration.columns.items()}
    return renamed.select(*(functions.col(cell).alias(role) for role, cell in chosen.items()))


def _frame_batches(batches: Batches, declaration: Declaration) -> Iterator[Batch]:
    """Yield the rows of a DataFrame's partition, in batches that are worth a call."""
    place, first, waiting = f"{FRAME}, partition {_partition()}", 1, list[pa.RecordBatch]()
    names = list(declaration.columns.values())

    def flush() -> Batch:
        rows = pa.concat_batches(waiting)
        return Batch(pa.RecordBatch.from_arrays(rows.columns, names=names), numbered(place, first))

    for batch in batches:
        waiting.append(batch)
        if sum(some.num_rows for some in waiting) >= BATCH_ROWS:
            joined = flush()
            yield joined
            first, waiting = first + joined.rows.num_rows, []
    if waiting:
        yield flush()


def _partition() -> int:
    """Return the number of the partition that this task works on."""
    task: Any = import_module("pyspark").TaskContext.get()
    return int(task.partitionId())


def _local_name(data: str | Path) -> str | Path:
    """Return the name itself; refuse what only the local engine opens."""
    if "::" in str(data) or "://" in str(data) or str(data).startswith("minari:"):
        raise UsageError(
            "the engine spark opens CSV and Parquet files by name, nothing else; read what you "
            "have into a Spark DataFrame in a session of your own, or use the engine local"
        )
    return data


def _read_files(data: str | Path, declaration: Declaration, limits: Limits) -> Statistics:
    """Let tasks read the parts of files, as the local engine does."""
    files = list_files(data, declaration.dialect)
    for file in files:  # before a session is started, which takes seconds
        declaration.require_columns(str(file.path), file.schema)
    parts: list[tuple[int, int]] = [
        (number, part) for number, file in enumerate(files) for part in range(file.parts)
    ]

    def read(batches: Batches, declaration: Declaration) -> Iterator[Batch]:
        wanted = [parts[at] for batch in batches for at in batch.column(0).to_pylist()]
        for number, same in groupby(wanted, key=itemgetter(0)):
            here = [part for _, part in same]
            for task in files[number].tasks(declaration.text_types, here[0], here[-1] + 1):
                yield task()

    with _active_session() as spark:
        tasks = max(1, min(len(parts), _TASKS_PER_CORE * _cores(spark)))
        return _compute(spark.range(0, len(parts), 1, tasks), read, declaration, limits)


def _cores(spark: "SparkSession") -> int:
    """Return how many tasks run at once."""
    try:
        return int(spark.sparkContext.defaultParallelism)
    except _errors().PySparkException:  # Spark Connect does not tell
        return 2


# Tasks


def _compute(frame: "DataFrame", read: Any, declaration: Declaration, limits: Limits) -> Statistics:
    """Run the tasks, and return the statistics."""
    said = frame.sparkSession.conf.get("spark.sql.shuffle.partitions") or ""
    buckets = int(said) if said.isdigit() else _DEFAULT_BUCKETS  # some vendors' say "auto"
    encode = partial(encode_buckets, read=read, declaration=declaration, buckets=buckets)
    add = partial(add_buckets, declaration=declaration, limits=limits, buckets=buckets)
    rows = frame.mapInArrow(encode, ENCODED).repartition(buckets, "bucket")
    return add_up(rows.sortWithinPartitions("bucket").mapInArrow(add, SUMMED).toArrow(), limits)


def add_up(output: pa.Table, limits: Limits) -> Statistics:
    """Return the statistics that the output of all tasks adds up to.

    Raises:
        DataError: for the earliest error that any task found.
        BoundaryError: two tasks share a unit.
    """
    tasks = [(json.loads(one["note"]), one["numbers"]) for one in output.to_pylist()]
    errors = [note["error"] for note, _ in tasks if note["error"] is not None]
    if errors:
        raise DataError(min(errors)[1])
    total = Contributions(limits).finish()
    for note, numbers in tasks:
        total += _statistics(numbers, note, limits)
    return total


def encode_buckets(
    batches: Batches, *, read: Any, declaration: Declaration, buckets: int
) -> Batches:
    """Yield the rows of each bucket in one cell, as Arrow writes them, and a note at the end.

    An error is output, not raised: Spark would try the task again, and log the message.
    """
    encoder, unit_ids = Encoder(declaration), len(declaration.unit_roles)
    waiting, left_out, error = list[Rows](), 0, None
    try:
        for batch in read(batches, declaration):
            rows = encoder(batch)
            left_out += rows.left_out
            waiting += [rows] if len(rows) else []
            if sum(map(len, waiting)) >= _BUNDLE_ROWS:
                yield _cells(Rows.concat(waiting), unit_ids, buckets)
                waiting = []
        if waiting:
            yield _cells(Rows.concat(waiting), unit_ids, buckets)
    except DataError as problem:
        error = [_partition(), str(problem)]
    note = json.dumps({"left_out": left_out, "error": error})
    yield _encoded([None], [None], [note])


def _cells(rows: Rows, unit_ids: int, buckets: int) -> pa.RecordBatch:
    divided = grouping.divide(rows, unit_ids, buckets)
    full = [bucket for bucket in range(buckets) if divided.size(bucket)]
    return _encoded(full, [pack(divided[bucket]) for bucket in full], [None] * len(full))


def _encoded(buckets: list[Any], rows: list[Any], notes: list[Any]) -> pa.RecordBatch:
    columns = [
        pa.array(buckets, pa.int32()),
        pa.array(rows, pa.binary()),
        pa.array(notes, pa.string()),
    ]
    return pa.record_batch(columns, names=["bucket", "rows", "note"])


def pack(rows: Rows) -> bytes:
    """Return rows as Arrow's IPC format has them. PRIVATE."""
    ids, *others = rows.columns
    columns = [*np.ascontiguousarray(ids.reshape(len(rows), -1).T), *others]
    batch = pa.record_batch([pa.array(c) for c in columns], [str(at) for at in range(len(columns))])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def unpack(content: bytes, declaration: Declaration) -> Rows:
    """Return the rows that were packed."""
    (batch,) = pa.ipc.open_stream(content)
    columns = [column.to_numpy() for column in batch.columns]
    others = 4 if "probability" in declaration.columns else 3
    ids = np.column_stack(columns[:-others]).reshape(len(batch), len(declaration.id_roles), -1)
    return Rows(ids, *columns[-others:])


def add_buckets(
    batches: Batches, *, declaration: Declaration, limits: Limits, buckets: int
) -> Batches:
    """Sum up the rows of some buckets; yield the sums, or the first error."""
    total, left_out, errors = Contributions(limits), 0, list[Any]()
    cells = (cell for batch in batches for cell in batch.to_pylist())
    try:
        for bucket, same in groupby(cells, key=itemgetter("bucket")):
            if bucket is None:
                for note in (json.loads(cell["note"]) for cell in same):
                    left_out += note["left_out"]
                    errors += [note["error"]] if note["error"] is not None else []
                continue
            rows = grouping.sort([unpack(cell["rows"], declaration) for cell in same])
            add_to_core(rows, total, declaration, span=grouping.span_of(bucket, buckets))
    except ConflictError as conflict:
        errors.append([_LAST, str(explain(conflict, declaration, lambda _: []))])
    if errors:
        yield _summed(b"", {"error": min(errors)})
        return
    found = total.finish(rows_left_out=left_out)
    yield _summed(
        _numbers(found),
        {
            "error": None,
            "scalars": {name: getattr(found, name) for name in COUNTERS},
            "covered": found.covered,
        },
    )


def _summed(numbers: bytes, note: dict[str, Any]) -> pa.RecordBatch:
    columns = [pa.array([numbers], pa.binary()), pa.array([json.dumps(note)])]
    return pa.record_batch(columns, names=["numbers", "note"])


def _numbers(found: Statistics) -> bytes:
    """Return the arrays of statistics, for those keys that somebody visits. PRIVATE."""
    visited = np.flatnonzero(found.counts)
    arrays = {name: getattr(found, name) for name in BY_KEY}
    sparse = {name: array[visited] for name, array in arrays.items() if array.size}
    content = io.BytesIO()
    np.savez(content, visited=visited, largest_levels=found.largest_levels, **sparse)
    return content.getvalue()


def _statistics(numbers: bytes, note: dict[str, Any], limits: Limits) -> Statistics:
    """Return the statistics of a task."""
    arrays: dict[str, Any] = {}
    with np.load(io.BytesIO(numbers), allow_pickle=False) as found:
        for name in set(BY_KEY) & set(found.files):
            arrays[name] = np.zeros((limits.keys, *found[name].shape[1:]), np.int64)
            arrays[name][found["visited"]] = found[name]
        largest = found["largest_levels"]
    covered = tuple(
        Covered((low, high), *(tuple(map(tuple, unit)) for unit in ends))
        for (low, high), *ends in note["covered"]
    )
    return Statistics(
        return_bounds=limits.return_bounds,
        limits=limits,
        largest_levels=largest,
        covered=covered,
        **arrays,
        **note["scalars"],
    )
