"""One small, quiet Spark session on this machine."""

import os
import sys
from pathlib import Path


def start_session(folder: Path):
    """A session that keeps its files in a folder; the caller stops it."""
    from pyspark.sql import SparkSession

    quiet = folder / "log4j2.properties"
    quiet.write_text("rootLogger.level = off\n")
    settings = {
        "spark.master": "local[2, 2]",
        # A short life: little is worth compiling.
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{quiet} "
        "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        # Otherwise so few rows would all end up in one partition.
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
    os.environ["PYSPARK_PYTHON"] = sys.executable
    return builder.getOrCreate()
