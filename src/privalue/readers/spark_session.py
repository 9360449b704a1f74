"""Start a Spark session on this machine, and translate Spark's errors into one line."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privalue.errors import MissingComponentError, one_line
from privalue.readers.messages import data_error, render
from privalue.readers.source import BATCH_ROWS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SETTINGS = {
    "spark.master": "local[*]",
    "spark.driver.host": "localhost",
    "spark.driver.bindAddress": "127.0.0.1",  # not reachable from other machines
    "spark.io.encryption.enabled": "true",  # private rows are shuffled
    "spark.sql.execution.arrow.maxBytesPerBatch": "64m",  # of packed rows
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(BATCH_ROWS),
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def session() -> "SparkSession":
    """Start a session on this machine: all cores, this Python, few logs, encrypted files.

    Under ``spark-submit``, or with ``PYSPARK_SUBMIT_ARGS``, their settings are used instead.
    """
    builder = pyspark_sql().SparkSession.builder.appName("privalue")
    if not os.environ.keys() & {"PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT"}:
        logging = Path(__file__).with_name("log4j2.properties").as_uri()
        quiet = f"-Dlog4j2.configurationFile={logging}"
        for name, value in {**_SETTINGS, "spark.driver.extraJavaOptions": quiet}.items():
            builder = builder.config(name, value)
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        return builder.getOrCreate()  # type: ignore[no-any-return]
    except (_errors().PySparkRuntimeError, OSError) as problem:  # without Java, without bash
        raise MissingComponentError(render("spark-start", problem=one_line(problem))) from None


@contextmanager
def active_session() -> Iterator["SparkSession"]:
    """Yield the active session; or start one, and stop it at the end."""
    active = pyspark_sql().SparkSession.getActiveSession()
    spark = active or session()
    try:
        yield spark
    finally:
        if active is None:
            spark.stop()


def pyspark_sql() -> Any:
    """Import ``pyspark.sql``, or report that an extra is missing."""
    try:
        import_module("pandas")  # PySpark requires it
        return import_module("pyspark.sql")
    except ImportError:
        raise MissingComponentError(render("spark-missing")) from None


def _errors() -> Any:
    return import_module("pyspark.errors")


@contextmanager
def translate_errors() -> Iterator[None]:
    """Translate Spark's own errors into one line, without tracebacks."""
    failures = (_errors().PySparkException, import_module("py4j.protocol").Py4JError)
    # Two loggers of PySpark would log private values when a query fails.
    get_logger = import_module("pyspark.logger").PySparkLogger.getLogger
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        get_logger(name).disabled = True
    try:
        yield
    except failures as problem:
        reason = _reason(problem)
        if "No module named" in reason or "PYTHON_VERSION_MISMATCH" in reason:
            raise MissingComponentError(render("spark-workers", problem=reason)) from None
        raise data_error("spark-failure", problem=reason) from None


def _reason(problem: BaseException) -> str:
    """Return the innermost cause of an error of Spark, in one line."""
    cause = getattr(problem, "java_exception", None)
    if cause is not None:
        while cause.getCause() is not None:
            cause = cause.getCause()
        return one_line(cause.toString())
    lines = str(problem).strip().splitlines() or [type(problem).__name__]
    return one_line(lines[-1] if isinstance(problem, _errors().PythonException) else lines[0])
