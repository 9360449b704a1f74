"""What suites need that is slow to start: a Spark session, a PostgreSQL server."""

import os
import shutil
import sys

import pytest

from oracles.sources import Place


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """Started where a test needs it, and only then; stopped at the end."""
    pytest.importorskip("pyspark", reason="the extra spark is not installed")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs a Java runtime, and there is none")
    from pyspark.sql import SparkSession

    from privalue.readers.spark import _LOGGING

    folder = tmp_path_factory.mktemp("spark")
    quiet = folder / "log4j2.properties"
    quiet.write_text(_LOGGING.replace("= error", "= off"))
    settings = {
        "spark.master": "local[2, 2]",
        # A short life: little is worth compiling.
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{quiet} "
        "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        # Else so few rows would all come together in one partition, whatever is asked for.
        "spark.sql.adaptive.coalescePartitions.enabled": "false",
        "spark.driver.host": "localhost",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.shuffle.partitions": "3",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.appName("privalue's tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYSPARK_PYTHON", sys.executable)
        session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.fixture(scope="module")
def start_server():
    """Starts a PostgreSQL server where a test needs one, and only then."""
    started = []

    def start():
        if not started:
            pytest.importorskip("psycopg", reason="the extra postgres is not installed")
            from oracles.postgres import Server

            started.append(Server())
        return started[0]

    yield start
    for server in started:
        server.stop()
        shutil.rmtree(server.folder, ignore_errors=True)


@pytest.fixture
def place(tmp_path, start_server):
    return Place(tmp_path, start_server)
