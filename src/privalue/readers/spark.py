"""Compute the statistics of a source on many machines: Spark spreads the rows.

| where     | what                                                                             |
|-----------|----------------------------------------------------------------------------------|
| executors | rows, brought together by trajectory or person; checked, grouped, summed up      |
| shuffle   | the rows (not if they are declared sorted); counts and sums by state             |
| driver    | the totals by state; of sorted rows also those at the ends of partitions; noise  |

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
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from privalue._types import Progress
from privalue.core import SCALARS, Contributions, Covered, VisitStatistics
from privalue.errors import DataError, MissingComponentError, UsageError
from privalue.readers._cells import LONGEST_ID, widened
from privalue.readers._chunks import BATCH_ROWS, one_line
from privalue.readers._encode import Rows
from privalue.readers._order import CarryOver, hand_over
from privalue.readers._rules import RowRules
from privalue.readers._spark_rows import FRAME, Batches, Source, packed_schema, source_of_files
from privalue.readers._spark_tasks import LINE, lines, units_of
from privalue.study import Study

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_MOST_READERS = 1000
PART = "part"  # the column by which encoded rows are brought together
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
    progress: Progress | None = None,
) -> VisitStatistics:
    """Return the first-visit statistics of ``data``: the local engine's, bit for bit.

    Args:
        data: a Spark DataFrame, or the name of CSV or Parquet files that every worker can open.
        study: what is public. With ``[data] sorted = true`` nothing is shuffled.
        session: where files are read. If left out: the active session, or else one on this machine,
            which is stopped at the end. A DataFrame brings its own.
        progress: called once, at the end.

    Returns:
        The statistics. They are private.
    """
    sql = _pyspark()
    with _explained():
        if isinstance(data, sql.DataFrame):
            found = _found(*_of_frame(data, study))
        elif isinstance(data, str | Path):
            source = source_of_files(_local_name(data), study)
            with _session(session) as used:
                found = _found(_numbers(len(source.parts), used), source)
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


def _of_frame(data: "DataFrame", study: Study) -> tuple["DataFrame", Source]:
    """Return the needed columns of a DataFrame with the numbers of its rows, and the source."""
    functions = import_module("pyspark.sql.functions")
    rules = RowRules.of(study)
    names = rules.select(data.columns, FRAME)
    types = import_module("pyspark.sql.pandas.types")
    schema = (
        (field.name, types.to_arrow_type(field.dataType, timezone="UTC")) for field in data.schema
    )
    rules.require_types((field for field in schema if field[0] in names), FRAME)
    source = Source(limits=study.limits, rules=rules)
    extra = {"row": functions.monotonically_increasing_id()}
    if study.data.sorted:
        extra["read_from"] = _read_from(data)
    # By position: names may hold dots, or differ in case only.
    cells = [f"c{at}" for at in range(len(data.columns))]
    wanted = {role: cells[data.columns.index(name)] for role, name in rules.columns.items()}
    renamed = data.select("*", *extra.values()).toDF(*cells, *extra)
    chosen = (functions.col(cell).alias(role) for role, cell in wanted.items())
    return renamed.select(*chosen, *extra), source


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


def _numbers(count: int, spark: "SparkSession") -> "DataFrame":
    """Return 0, 1, ... in order, over as many tasks as make sense."""
    return spark.range(0, count, 1, max(1, min(count, _MOST_READERS)))


# Totals


def _sums(frame: "DataFrame", source: Source) -> "DataFrame":
    """Return the output of all tasks, summed up by state."""
    functions = import_module("pyspark.sql.functions")

    def said(batches: Batches) -> Batches:
        task: Any = import_module("pyspark").TaskContext.get()
        return lines(source, batches, task.partitionId())

    if not source.rules.sorted:
        types = import_module("pyspark.sql.pandas.types")
        schema = types.from_arrow_schema(packed_schema(source.rules))
        frame = frame.mapInArrow(source.encoded, schema).repartition(PART)
    return (
        frame.mapInArrow(said, LINE)
        .groupBy("state", "task")
        .agg(
            # Too large a sum is null, and the number of trajectories is then refused below.
            functions.try_sum("count").alias("count"),
            functions.try_sum("steps").alias("steps"),
            functions.max("note").alias("note"),
            functions.max("ends").alias("ends"),
        )
    )


def _found(frame: "DataFrame", source: Source) -> VisitStatistics:
    """Run the tasks, and return the statistics."""
    return _totals(_sums(frame, source).toArrow(), source)


def _totals(sums: pa.Table, source: Source) -> VisitStatistics:
    """Return the statistics that the output of all tasks adds up to.

    Raises:
        DataError: for the earliest error that any task found.
        BoundaryError: two tasks share a unit.
    """
    notes = [json.loads(note) for note in sums.column("note").drop_null().to_pylist()]
    errors = [error for note in notes for error in note.get("errors", ())]
    if errors:
        raise DataError(min(errors)[1])
    states, counts, steps = (
        sums.column(name).fill_null(0).to_numpy() for name in ("state", "count", "steps")
    )
    seen = states >= 0
    totals = np.zeros((2, source.limits.keys), dtype=np.int64)
    totals[:, states[seen]] = counts[seen], steps[seen]
    between = _carried_over(
        [units_of(ends, source) for ends in sums.column("ends").drop_null().to_pylist()], source
    )
    return between + VisitStatistics(
        return_bounds=source.limits.return_bounds,
        limits=source.limits,
        counts=totals[0],
        return_steps=totals[1],
        covered=tuple(_covered(*batch) for note in notes for batch in note["covered"]),
        **{name: sum(note["scalars"][name] for note in notes) for name in SCALARS},
    )


def _covered(span: list[int], *ends: list[list[int]]) -> Covered:
    """Return what a task covered, from its note."""
    first, last = (tuple(map(tuple, unit)) for unit in ends)
    return Covered((span[0], span[1]), first, last)


def _carried_over(parts: list[list[Rows]], source: Source) -> VisitStatistics:
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
