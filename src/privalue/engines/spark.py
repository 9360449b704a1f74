"""Many machines: Spark spreads the rows, and every partition goes through the local kernel.

| where     | what                                                                             |
|-----------|----------------------------------------------------------------------------------|
| executors | rows, brought together by trajectory or person; checked, grouped, summed up      |
| shuffle   | the rows (not where they are declared sorted); counts and sums by state          |
| driver    | the totals by state; of sorted rows also those at the seams of partitions; noise |

Sums are integers, so that the result is that of the local engine, bit for bit. They come from the
output of tasks that succeeded, and from nothing else: a task that is tried again counts once. A
mistake in the data is output too: it is not tried again, and Spark does not log it.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from privalue.errors import DataError, MissingComponentError, UsageError
from privalue.sections import Columns, States, Values
from privalue.statistics import Accumulator, VisitStatistics, complete
from privalue.study import Study
from privalue.trajectories.encode import Encoder
from privalue.trajectories.order import _split
from privalue.trajectories.sources import BATCH_ROWS, Chunk, _find, _kind, open_source, select

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Progress = Callable[[int, int | None], None]
Batches = Iterator[pa.RecordBatch]

_SCALARS = (
    "trajectories",
    "rows",
    "rewards_clamped",
    "returns_clamped",
    "persons",
    "surplus_trajectories",
    "surplus_visits",
)
# A line of output: a state's count and sum; or, with -1, -2 ..., one of the scalars as a count; or,
# below _OTHER, what else a partition has to say.
_OUTPUT = "state long, count long, steps long, mistake string, seams binary"
_OTHER = -100
_ROW_BITS = 33  # of a row's number, the partition's or file's above: as Spark numbers rows itself
_LATE = 2**63 - 1  # for mistakes that are found when every row has been read
_MOST_RUNS = 1000  # per partition: Spark reads some tens of files into one

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
"""  # without the exceptions, which may quote rows


def statistics(
    data: Any,
    study: Study,
    *,
    session: "SparkSession | None" = None,
    progress: Progress | None = None,
) -> VisitStatistics:
    """The first-visit statistics of ``data``, computed by Spark: the local engine's, bit for bit.

    Args:
        data: a Spark DataFrame, or the name of CSV or Parquet files that every worker can open.
        study: what is public. With ``[data] sorted = true`` nothing is shuffled.
        session: where to compute. If left out: the DataFrame's own, or else the active one, or
            else one on this machine, which is stopped at the end.
        progress: called once, at the end.
    """
    sql = _pyspark()
    public = _public_part(study)
    with _explained():
        if isinstance(data, sql.DataFrame):
            found = _result(_frame(data, public), public)
        elif isinstance(data, str | Path):
            with _session(session) as used:
                found = _result(_files(data, public, used), public)
        else:
            raise UsageError(
                f"the engine spark does not take data of type {type(data).__name__}; give a Spark "
                "DataFrame or the name of CSV or Parquet files, or use the engine local"
            )
    if progress is not None:
        progress(found.rows, found.rows)
    return complete(found, study)


# Sessions


def session() -> "SparkSession":
    """A session on this machine: every core, this Python, quiet, and its files encrypted."""
    sql = _pyspark()
    _require_java()
    with tempfile.TemporaryDirectory(prefix="privalue-") as folder:
        logging = Path(folder) / "log4j2.properties"
        logging.write_text(_LOGGING)
        settings = {
            "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{logging}",
            "spark.driver.host": "localhost",
            "spark.driver.bindAddress": "127.0.0.1",  # nobody else needs to reach it
            "spark.io.encryption.enabled": "true",  # what is shuffled are private rows
            "spark.sql.execution.arrow.maxRecordsPerBatch": str(BATCH_ROWS),
            "spark.sql.session.timeZone": "UTC",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
        }
        builder = sql.SparkSession.builder.appName("privalue").master("local[*]")
        for key, value in settings.items():
            builder = builder.config(key, value)
        before = os.environ.get("PYSPARK_PYTHON")
        os.environ["PYSPARK_PYTHON"] = sys.executable  # read when the context is made
        try:
            made: SparkSession = builder.getOrCreate()
        except sql.errors.PySparkRuntimeError as problem:
            raise MissingComponentError(
                f"Spark does not start: {_one_line(str(problem))}; it needs Java 17 or newer"
            ) from None
        finally:
            if before is None:
                del os.environ["PYSPARK_PYTHON"]
            else:
                os.environ["PYSPARK_PYTHON"] = before
    return made


@contextmanager
def _session(given: "SparkSession | None") -> Iterator["SparkSession"]:
    """The session that is given or active; one that had to be made is stopped."""
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
    """``pyspark.sql``, with ``functions`` and ``errors``; imported where it is needed only."""
    try:
        sql: Any = import_module("pyspark.sql")
        sql.errors = import_module("pyspark.errors")
        import_module("pandas")  # Spark asks for it
    except ImportError:
        raise MissingComponentError(
            "the engine spark needs PySpark and pandas: pip install 'privalue[spark]', and Java 17 "
            "or newer"
        ) from None
    return sql


def _require_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java", path=str(Path(home) / "bin") if home else None) is None:
        where = f"none in JAVA_HOME = {home}" if home else "no java on the PATH"
        raise MissingComponentError(
            f"Spark needs Java 17 or newer, and there is {where}; install one, e.g. "
            "openjdk-17-jre-headless, or set JAVA_HOME"
        )


# Rows, wherever they are


@dataclass(frozen=True, kw_only=True)
class _Rows:
    """Rows that Spark holds, or the numbers of the pieces of files that its tasks read.

    A row is its cells in the order of ``names``, then its number: that of its partition or file
    above the lowest 33 bits, its own from 0 in them.
    """

    frame: "DataFrame"
    names: list[str]
    places: tuple[str, ...] | None = None  # of files
    read: Callable[[Batches], Batches] | None = None
    schema: Any = None  # of what is read


def _frame(data: "DataFrame", study: Study) -> _Rows:
    functions = import_module("pyspark.sql.functions")
    names = select(_columns(study), data.columns, "the Spark dataframe")
    # By position: names may hold dots, or differ in case only.
    numbered = data.toDF(*(f"c{at}" for at in range(len(data.columns))))
    cells = [f"c{data.columns.index(name)}" for name in names]
    row = functions.monotonically_increasing_id()
    return _Rows(frame=numbered.select(*cells, row.alias("row")), names=names)


def _files(data: str | Path, study: Study, spark: "SparkSession") -> _Rows:
    """The files that the local engine would read, by its own readers, in the workers."""
    if "://" in str(data) or "::" in str(data):
        raise UsageError(
            f"the engine spark opens local files by name only, not {data}; read it into a Spark "
            "DataFrame in your own session, or use the engine local"
        )
    paths = sources.find(data)
    opened = [_opened(path, study) for path in paths]
    names = opened[0][0].names
    schema = opened[0][0]
    for path, (other, _) in zip(paths, opened, strict=True):
        ...
