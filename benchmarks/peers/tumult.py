"""Tumult Analytics, on Spark in local mode.

Its guarantee is for adding or removing all rows of an id. Gaussian noise needs a budget in zCDP,
which it does not convert from (epsilon, delta): we do.
"""

import os
import sys
from collections.abc import Iterator

from pyspark.sql import DataFrame, SparkSession
from tmlt.analytics import (
    AddRowsWithID,
    KeySet,
    MaxGroupsPerID,
    MaxRowsPerGroupPerID,
    QueryBuilder,
    RhoZCDPBudget,
    Session,
)

from benchmarks.peers import exchange
from benchmarks.peers.exchange import Task, Variant


def spark_session() -> SparkSession:
    """Spark with as many tasks as cores, and no servers of its own."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    cores = os.cpu_count() or 1
    session = (
        SparkSession.builder.master(f"local[{cores}]")
        .config("spark.sql.shuffle.partitions", str(cores))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "3g")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    return session


def average(task: Task, rows: DataFrame, rho: float) -> list[float]:
    """One release of the average of every state."""
    budget = RhoZCDPBudget(rho)
    session = Session.from_dataframe(
        privacy_budget=budget,
        source_id="visits",
        dataframe=rows,
        protected_change=AddRowsWithID(id_column="trajectory"),
    )
    query = (
        QueryBuilder("visits")
        .enforce(MaxGroupsPerID("state", task.most_states))
        .enforce(MaxRowsPerGroupPerID("state", 1))
        .groupby(KeySet.from_dict({"state": list(range(task.states))}))
        .average("value", low=task.returns[0], high=task.returns[1], mechanism="gaussian")
    )
    released = {
        row["state"]: row["value_average"] for row in session.evaluate(query, budget).collect()
    }
    return [released[state] for state in range(task.states)]


def variants(task: Task) -> Iterator[Variant]:
    spark = spark_session()
    try:
        rows = spark.read.csv(
            task.first_visits, header=True, schema="trajectory long, state long, value double"
        ).cache()
        rows.count()
        rho = exchange.rho_of(task.epsilon, task.delta)
        guarantee = "native"
        if task.relation == "replace-one":
            rho, guarantee = rho / 4, "two add-removes, each at a quarter of rho"
        yield Variant(
            name="average",
            configuration=(
                f"average, Gaussian noise, MaxGroupsPerID(state, {task.most_states}), "
                "MaxRowsPerGroupPerID(state, 1), KeySet; RhoZCDPBudget, converted by us"
            ),
            guarantee=guarantee,
            release=lambda: average(task, rows, rho),
        )
    finally:
        spark.stop()


if __name__ == "__main__":
    exchange.main(("tmlt.analytics", "tmlt.core", "pyspark"), variants)
