"""Compute the statistics of a source on many machines: Spark spreads the rows.

| where     | what                                                                             |
|-----------|----------------------------------------------------------------------------------|
| executors | rows, brought together by trajectory or person; checked, grouped, summed up      |
| shuffle   | packed rows (not if they are declared sorted), thousands of them in one cell     |
| driver    | the totals by state; of sorted rows also those at the ends of partitions; noise  |

Rows are shuffled in buckets, spans of the hash of their units. There are as many tasks as cores, or
as the number of rows asks for, and some dozens of buckets for each, so that tasks are alike.

Every task goes through the local kernel. Sums are integers, so the result is that of the local
engine, bit for bit. They come from the output of tasks that succeeded, and from nothing else: a
task that is tried again counts once. An error in the data is output too: the task is not tried
again, and Spark does not log the message, which may quote the data.
"""

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from privalue._types import Progress
from privalue.core import COUNTERS, Contributions, Covered, Statistics
from privalue.errors import DataError, MissingComponentError, UsageError
from privalue.readers._cells import LONGEST_ID, widened
from privalue.readers._chunks import BATCH_ROWS, one_line
from privalue.readers._encode import Rows
from privalue.readers._local import DEFAULT_MEMORY
from privalue.readers._order import CarryOver, hand_over
from privalue.readers._rules import RowRules
from privalue.readers._sources import open_files
from privalue.readers._spark_rows import CELLS, FRAME, Batches, Source, source_of_files
from privalue.readers._spark_tasks import BLOCK, LINE, added, by_level, lines, total, units_of
from privalue.study import Study

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_MOST_TASKS = 10_000
_TASK_ROWS = 1 << 22  # so many, about, are brought together in one task
_TASK_BUCKETS = 64
_MOST_BUCKETS = 1 << 16
_PACKED_BYTES = 8  # about, of a row in a file that Spark reads
_UNKNOWN_BYTES = 1 << 60
_TASKS_PER_CORE = 3
BUCKET = "bucket"  # the column by which cells are brought together
_MOST_WORDS = LONGEST_ID // 7 + 3

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


def statistics(
    data: Any,
    study: Study,
    *,
    session: "SparkSession | None" = None,
    memory: int = DEFAULT_MEMORY,
    progress: Progress | None = None,
) -> Statistics:
    """Return the first-visit statistics of ``data``: the local engine's, bit for bit.

    Args:
        data: a Spark DataFrame, or the name of CSV or Parquet files that every worker can open.
        study: what is public. With ``[data] sorted = true`` nothing is shuffled.
        session: where files are read. If left out: the active session, or else one on this machine,
            which is stopped at the end. A DataFrame brings its own.
        memory: bytes, about, that the Python process of a task may use; rows that need more go to
            disk.
        progress: called once, at the end.

    Returns:
        The statistics. They are private.
    """
    sql = _pyspark()
    with _explained():
        if isinstance(data, sql.DataFrame):
            found = _found(*_of_frame(data, study, memory))
        elif isinstance(data, str | Path):
            name = _local_name(data)
            open_files(name, RowRules.of(study))  # a session takes seconds to start
            with _session(session) as used:
                found = _found(*_of_files(name, study, memory, used))
        else:
            raise UsageError(
                f"the engine spark does not take data of type {type(data).__name__}; give a Spark "
                "DataFrame or the name of CSV or Parquet files, or use the engine local"
            )
    if progress is not None:
        progress(found.rows, found.rows)
    return found.require_data(study.limits)


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
def _session(given: "SparkSession | None") -> Iterator["SparkSession"]:
    """Yield the session that is given or active; or start one, and stop it at the end."""
    used = given or _pyspark().SparkSession.getActiveSession()
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
    """Import the errors of Spark."""
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
def _explained() -> Iterator[None]:
    """Turn the errors of Spark itself into one line, without tracebacks."""
    failures = (_errors().PySparkException, import_module("py4j.protocol").Py4JError)
    try:
        with _hushed():
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
def _hushed() -> Iterator[None]:
    """Silence PySpark's loggers.

    They would log the failure of a query, with the private values that it failed at.
    """
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


def _of_frame(data: "DataFrame", study: Study, memory: int) -> tuple["DataFrame", Source]:
    """Return the needed columns of a DataFrame, and the source."""
    functions = import_module("pyspark.sql.functions")
    rules = RowRules.of(study)
    names = rules.select(data.columns, FRAME)
    types = import_module("pyspark.sql.pandas.types")
    schema = (
        (field.name, types.to_arrow_type(field.dataType, timezone="UTC")) for field in data.schema
    )
    rules.require_types((field for field in schema if field[0] in names), FRAME)
    extra = {"read_from": _read_from(data)} if study.data.sorted else {}
    # By position: names may hold dots, or differ in case only.
    cells = [f"c{at}" for at in range(len(data.columns))]
    wanted = {role: cells[data.columns.index(name)] for role, name in rules.columns.items()}
    renamed = data.select("*", *extra.values()).toDF(*cells, *extra)
    chosen = (functions.col(cell).alias(role) for role, cell in wanted.items())
    needed = renamed.select(*chosen, *extra)
    rows = _rows_of(needed)
    return needed, Source(limits=study.limits, rules=rules, rows=rows, memory=memory)


def _read_from(data: "DataFrame") -> Any:
    """Return a number that changes with the part of a file that a row is from, where known."""
    functions = import_module("pyspark.sql.functions")
    begins = functions.expr("input_file_block_start()")
    part = functions.xxhash64(functions.input_file_name(), begins)
    try:
        data.select(part)
    except _errors().AnalysisException:  # a join of files: rows are of several
        return functions.lit(0).cast("long")
    return part


def _local_name(data: str | Path) -> str | Path:
    """Return the name itself; refuse what only the local engine opens."""
    if "::" in str(data) or "://" in str(data) or str(data).startswith("minari:"):
        raise UsageError(
            "the engine spark opens CSV and Parquet files by name, nothing else; read what you "
            "have into a Spark DataFrame in a session of your own, or use the engine local"
        )
    return data


def _of_files(
    data: str | Path, study: Study, memory: int, spark: "SparkSession"
) -> tuple["DataFrame", Source]:
    """Return the numbers of the file parts, over as many tasks as make sense, and the source."""
    source = source_of_files(data, study, memory=memory, tasks=_TASKS_PER_CORE * _cores(spark))
    parts = len(source.parts or ())
    return spark.range(0, parts, 1, max(1, min(parts, _MOST_TASKS))), source


# Tasks


def _cores(spark: "SparkSession") -> int:
    """Return how many tasks run at once."""
    try:
        return int(spark.sparkContext.defaultParallelism)
    except _errors().PySparkException:  # Spark Connect does not tell
        return 2


def _rows_of(data: "DataFrame") -> int | None:
    """Return about how many rows Spark expects a DataFrame to have; None if it does not know."""
    try:
        size = int(str(data._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))
    except _errors().PySparkException:  # Spark Connect does not tell
        return None
    return None if size >= _UNKNOWN_BYTES else size // _PACKED_BYTES


def _tasks(frame: "DataFrame", source: Source) -> int:
    """Return over how many tasks packed rows are shuffled.

    Every core gets one, and the same number more if there are many rows. What Spark expects of a
    DataFrame may be far too much, and is not taken for more than the session's setting.
    """
    cores = _cores(frame.sparkSession)
    said = frame.sparkSession.conf.get("spark.sql.shuffle.partitions") or ""
    setting = int(said) if said.isdigit() else 200  # some vendors' sessions say "auto"
    most = setting if source.parts is None else _MOST_TASKS
    wanted = setting if source.rows is None else cores * -(-source.rows // (cores * _TASK_ROWS))
    return max(cores, min(wanted, most))


def _said(frame: "DataFrame", source: Source) -> "DataFrame":
    """Return the output of all tasks."""

    def packed(batches: Batches) -> Batches:
        return source.cells(batches, _partition())

    def summed(batches: Batches) -> Batches:
        return lines(source, batches, _partition())

    def joined(batches: Batches) -> Batches:
        return added(batches, states, source.limits.levels)

    if not source.rules.sorted:
        tasks = _tasks(frame, source)
        source = replace(source, buckets=min(_TASK_BUCKETS * tasks, _MOST_BUCKETS))
        types = import_module("pyspark.sql.pandas.types")
        frame = frame.mapInArrow(packed, types.from_arrow_schema(CELLS)).repartition(tasks, BUCKET)
    said, states = frame.mapInArrow(summed, LINE), source.limits.keys
    if states <= BLOCK:
        return said
    blocks = min(-(-states // BLOCK), _cores(frame.sparkSession))
    return said.repartition(blocks, "block").mapInArrow(joined, LINE)


def _partition() -> int:
    """Return the number of the partition that this task works on."""
    task: Any = import_module("pyspark").TaskContext.get()
    return int(task.partitionId())


# Totals


def _found(frame: "DataFrame", source: Source) -> Statistics:
    """Run the tasks, and return the statistics."""
    try:
        return _totals(_said(frame, source).toArrow(), source)
    except _UnknownRowsError:
        _totals(_said(frame, replace(source, numbered=True)).toArrow(), source)
        raise  # nothing may come of rows that are not the same each time


class _UnknownRowsError(DataError):
    """Raised where rows have to be read again, with numbers, to name two of them."""

    def __init__(self) -> None:
        super().__init__(
            "a step appears twice in a trajectory, or a unit has two arms, but not in the same "
            "rows when they are read again; make the DataFrame one that gives the same rows each "
            "time"
        )


def _totals(said: pa.Table, source: Source) -> Statistics:
    """Return the statistics that the output of all tasks adds up to.

    Raises:
        DataError: for the earliest error that any task found.
        _UnknownRowsError: a step appears twice, or a unit has two arms, and nobody knows in which
            rows.
        BoundaryError: two tasks share a unit.
    """
    limits = source.limits
    totals, others = total(iter(said.to_batches()), limits.keys, limits.levels)
    other = pa.Table.from_batches(others, said.schema)
    notes = [json.loads(note) for note in other.column("note").drop_null().to_pylist()]
    errors = [error for note in notes for error in note.get("errors", ())]
    if errors:
        raise DataError(min(errors)[1])
    if any("errors" in note for note in notes):
        raise _UnknownRowsError
    between = _carried_over(
        [units_of(ends, source) for ends in other.column("ends").drop_null().to_pylist()], source
    )
    level_counts, level_steps = by_level(totals)
    return between + Statistics(
        return_bounds=limits.return_bounds,
        limits=limits,
        counts=totals[0],
        return_steps=totals[1],
        level_counts=level_counts,
        level_steps=level_steps,
        largest_levels=np.sum([note["largest"] for note in notes], axis=0, dtype=np.int64),
        covered=tuple(_covered(*batch) for note in notes for batch in note["covered"]),
        **{name: sum(note["scalars"][name] for note in notes) for name in COUNTERS},
    )


def _covered(span: list[int], *ends: list[list[int]]) -> Covered:
    """Return what a task covered, from its note."""
    first, last = (tuple(map(tuple, unit)) for unit in ends)
    return Covered((span[0], span[1]), first, last)


def _carried_over(parts: list[list[Rows]], source: Source) -> Statistics:
    """Join the units at the ends of parts of ordered rows."""
    contributions = Contributions(source.limits)
    carried = CarryOver(source.rules, lambda rows: hand_over(rows, contributions.add, source.rules))
    for units in sorted(parts, key=lambda units: _first(units[0])):
        for rows in units:
            carried.add(rows)
    carried.finish()
    return contributions.finish()


def _first(rows: Rows) -> tuple[int, ...]:
    """Return a key by which parts of ordered rows sort: ids and step of the first row."""
    ids = widened(rows.ids[0], _MOST_WORDS)
    return (*ids.ravel().tolist(), int(rows.steps[0]))
