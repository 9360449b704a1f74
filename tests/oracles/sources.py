"""The same rows in every source, good or bad.

A table is a heading and rows of cells: whole numbers, numbers, texts, None for what is missing.
Databases with typed columns, frames and Parquet hold a column with a text in it as texts.
"""

import csv
import gzip
import io
import itertools
import sqlite3
import warnings
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import gymnasium
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

HEADING = ("trajectory", "step", "state", "reward")
STATES = 4  # nobody visits the last one, except for the final observations of Minari

_numbers = itertools.count()


@dataclass(frozen=True)
class Place:
    """Where sources are made: a folder and, for PostgreSQL, what starts a server."""

    folder: Path
    server: Callable[[], Any] | None = None

    def fresh(self, ending):
        return self.folder / f"trial{next(_numbers)}{ending}"


def arrow(heading, rows):
    """Typed columns, as a database would have them."""
    columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in heading]
    return pa.table([_as_arrow(column) for column in columns], names=list(heading))


def _as_arrow(cells):
    if any(isinstance(cell, str) for cell in cells):
        return pa.array([None if cell is None else str(cell) for cell in cells], pa.string())
    whole = cells and all(cell is None or isinstance(cell, int) for cell in cells)
    return pa.array(cells, pa.int64() if whole else pa.float64())


def as_csv(place, heading, rows):
    path = place.fresh(".csv")
    path.write_text(_csv_text(heading, rows))
    return path


def as_gzip(place, heading, rows):
    path = place.fresh(".csv.gz")
    with gzip.open(path, "wt", newline="") as file:
        file.write(_csv_text(heading, rows))
    return path


def _csv_text(heading, rows):
    text = io.StringIO()
    csv.writer(text).writerows([heading, *rows])
    return text.getvalue()


def as_parquet(place, heading, rows):
    path = place.fresh(".parquet")
    pq.write_table(arrow(heading, rows), path)
    return path


def as_duckdb(place, heading, rows):
    path = place.fresh(".duckdb")
    with closing(duckdb.connect(path)) as connection:
        connection.register("made", arrow(heading, rows))
        connection.execute("CREATE TABLE rows AS SELECT * FROM made")
    return path


def as_sqlite(place, heading, rows):
    """Each cell with the type it has: a column may hold numbers and texts."""
    path = place.fresh(".sqlite")
    cells = ", ".join(
        f"{_quote(name)} {'REAL' if name == 'reward' else 'INTEGER'}" for name in heading
    )
    marks = ", ".join("?" for _ in heading)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"CREATE TABLE rows ({cells})")
        connection.executemany(f"INSERT INTO rows VALUES ({marks})", rows)
    return path


def _quote(name):
    return '"' + name.replace('"', '""') + '"'


def as_postgres(place, heading, rows):
    import psycopg

    table, schema = arrow(heading, rows), f"sources{next(_numbers)}"
    kinds = {pa.string(): "text", pa.int64(): "bigint", pa.float64(): "double precision"}
    cells = ", ".join(f"{_quote(field.name)} {kinds[field.type]}" for field in table.schema)
    server = place.server()
    server.execute(f"CREATE SCHEMA {schema}; CREATE TABLE {schema}.rows ({cells})")
    with (
        psycopg.connect(server.address(schema)) as connection,
        connection.cursor().copy("COPY rows FROM STDIN") as copy,
    ):
        for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
            copy.write_row(row)
    return server.address(schema)


def as_columns(heading, rows):
    return {name: [row[at] for row in rows] for at, name in enumerate(heading)}


def as_minari(place, heading, rows):
    assert heading == HEADING
    episodes = [
        [(state, reward) for _, _, state, reward in steps]
        for _, steps in itertools.groupby(rows, key=lambda row: row[0])
    ]
    return minari_dataset(place.folder, episodes).storage.data_path.parent


def minari_dataset(folder, episodes, space=None, final=STATES - 1, observed=np.array, acting=None):
    """A dataset in the storage ``folder``; every episode ends with the observation ``final``.

    ``acting`` is the space of actions, and those of each episode; all are 0 where it is left out.
    """
    import minari
    from minari.data_collector import EpisodeBuffer

    actions, acts = acting or (gymnasium.spaces.Discrete(2), [[0] * len(one) for one in episodes])
    buffers = [
        EpisodeBuffer(
            id=number,
            observations=observed([*(state for state, _ in episode), final]),
            actions=np.array(acts[number], dtype=np.int64),
            rewards=np.array([reward for _, reward in episode]),
            terminations=np.arange(len(episode)) == len(episode) - 1,
            truncations=np.zeros(len(episode), dtype=bool),
        )
        for number, episode in enumerate(episodes)
    ]
    with pytest.MonkeyPatch.context() as patched, warnings.catch_warnings():
        patched.setenv("MINARI_DATASETS_PATH", str(folder))
        for missing in ("`eval_env` is set to None", "env_spec is None"):  # made by hand
            warnings.filterwarnings("ignore", missing, UserWarning)
        return minari.create_dataset_from_buffers(
            f"toy/trial{next(_numbers)}-v0",
            buffers,
            observation_space=gymnasium.spaces.Discrete(STATES) if space is None else space,
            action_space=actions,
            data_format="hdf5",
            algorithm_name="none",
            author="nobody",
            author_email="nobody@example.org",
            code_permalink="none",
            description="made for a test",
        )


TABLES = {
    "csv": as_csv,
    "csv.gz": as_gzip,
    "parquet": as_parquet,
    "arrow": lambda _, heading, rows: arrow(heading, rows),
    "pandas": lambda _, heading, rows: arrow(heading, rows).to_pandas(),
    "polars": lambda _, heading, rows: pl.from_arrow(arrow(heading, rows)),
    "polars lazy": lambda _, heading, rows: pl.from_arrow(arrow(heading, rows)).lazy(),
    "dict of lists": lambda _, heading, rows: as_columns(heading, rows),
    "dict of arrays": lambda _, heading, rows: {
        name: column.to_numpy(zero_copy_only=False)
        for name, column in zip(heading, arrow(heading, rows).columns, strict=True)
    },
    "list of dicts": lambda _, heading, rows: [
        dict(zip(heading, row, strict=True)) for row in rows
    ],
    "duckdb": as_duckdb,
    "sqlite": as_sqlite,
    "postgresql": as_postgres,
}
RECORDINGS = {"minari hdf5": as_minari}
SOURCES = {**TABLES, **RECORDINGS}
