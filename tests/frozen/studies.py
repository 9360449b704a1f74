"""Small studies on made-up rows: every mechanism, feature kind, unit, relation, source.

``studies.toml`` has a table for each. ``rows`` are made from a seed and changed as ``then`` says
(``CHANGES``), ``spoilt`` puts other cells into some of them, ``source`` says where they stand;
``matrix``, ``refit``, ``improve`` and ``engine`` are asked of the package; all else is the study.

Nothing here but the package's root is asked of privalue. Rows come from ``random.Random``, whose
numbers are the same everywhere, and so do side files, whose hashes are part of a release.

The matrices begin with the rows of a unit matrix: each coefficient is then some state's value, and
the noise of values bounds that of coefficients, on which ``compare.py`` relies.
"""

import csv
import gzip
import itertools
import random
import sqlite3
import tomllib
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import openpyxl
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp

import privalue as pv

HEADING = ("trajectory", "step", "state", "reward")
WARDS = ("admission", "ward, north", 'ward "B"', "théâtre", "home", "elsewhere")


@dataclass(frozen=True)
class Rows:
    """A long table: a heading and rows of cells, in order of person, trajectory and step."""

    heading: tuple[str, ...]
    cells: list[tuple[Any, ...]]

    def shuffle(self) -> "Rows":
        cells = list(self.cells)
        random.Random(0).shuffle(cells)
        return Rows(self.heading, cells)

    def map(self, name: str, change: Callable[[Any], Any]) -> "Rows":
        return self.map_rows(name, lambda row: change(row[name]))

    def map_rows(self, name: str, change: Callable[[dict[str, Any]], Any]) -> "Rows":
        at = self.heading.index(name)
        rows = [(row, dict(zip(self.heading, row, strict=True))) for row in self.cells]
        return Rows(
            self.heading, [(*row[:at], change(by_name), *row[at + 1 :]) for row, by_name in rows]
        )

    def spoil(self, name: str, cells: Mapping[int, Any]) -> "Rows":
        """With other cells in some rows."""
        places = itertools.count()
        return self.map(name, lambda cell: cells.get(next(places), cell))

    def with_column(self, name: str, cell: Callable[[dict[str, Any]], Any]) -> "Rows":
        added = Rows((*self.heading, name), [(*row, None) for row in self.cells])
        return added.map_rows(name, cell)

    def rename(self, **names: str) -> "Rows":
        return Rows(tuple(names.get(name, name) for name in self.heading), self.cells)

    def column(self, name: str) -> list[Any]:
        return [row[self.heading.index(name)] for row in self.cells]

    def arrow(self) -> pa.Table:
        return pa.table({name: self.column(name) for name in self.heading})

    def episodes(self) -> list[list[tuple[Any, float]]]:
        return [
            [row[-2:] for row in rows] for _, rows in itertools.groupby(self.cells, lambda r: r[0])
        ]


def walk(seed: int, *, states: int = 6, trajectories: int = 90, persons: int | None = None) -> Rows:
    """Random walks: the first states are met often, the last but one rarely, the last never.

    Steps have gaps, states come again, and some rewards lie outside [-1, 2].
    """
    rng = random.Random(seed)
    cells = []
    for trajectory in range(trajectories):
        state, step = min(rng.randrange(states), rng.randrange(states)), rng.randrange(5)
        for _ in range(rng.randrange(1, 8)):
            reward = round(rng.uniform(-1.5, 2.5) + 0.1 * state, 3)
            cells.append((trajectory, step, min(state, states - 2), reward))
            state, step = max(0, state + rng.choice((-1, 0, 1, 1))), step + rng.randrange(1, 4)
    if persons is None:
        return Rows(HEADING, cells)
    owners = [rng.randrange(persons) for _ in range(trajectories)]
    # Texts and numbers: whole numbers come first, by value, then texts by bytes.
    names = [str(p) if p % 3 else f"p{p}" for p in range(persons)]
    order = sorted(range(persons), key=lambda p: (p % 3 == 0, names[p] if p % 3 == 0 else p))
    rank = {p: at for at, p in enumerate(order)}
    whose = sorted(cells, key=lambda row: (rank[owners[row[0]]], row[0], row[1]))
    return Rows(("person", *HEADING), [(names[owners[row[0]]], *row) for row in whose])


# Sources

Source = Callable[[Path, Rows], Any]


def as_csv(
    folder: Path, rows: Rows, *, encoding: str = "utf-8", decimal: str = ".", **dialect: Any
) -> Path:
    path = folder / "trial.csv"
    with path.open("w", newline="", encoding=encoding) as file:
        writer = csv.writer(file, **dialect)
        writer.writerow(rows.heading)
        writer.writerows(
            [str(c).replace(".", decimal) if isinstance(c, float) else c for c in row]
            for row in rows.cells
        )
    return path


def as_gzip(folder: Path, rows: Rows) -> Path:
    path = folder / "trial.csv.gz"
    path.write_bytes(gzip.compress(as_csv(folder, rows).read_bytes()))
    return path


def as_parquet(folder: Path, rows: Rows) -> Path:
    pq.write_table(rows.arrow(), folder / "trial.parquet", row_group_size=50)
    return folder / "trial.parquet"


def as_parquet_files(folder: Path, rows: Rows) -> Path:
    """Three files, whose ends lie within trajectories."""
    (folder / "parts").mkdir()
    table = rows.arrow()
    for at, (start, end) in enumerate(itertools.pairwise((0, 71, 200, table.num_rows))):
        pq.write_table(table.slice(start, end - start), folder / "parts" / f"part{at}.parquet")
    return folder / "parts"


def as_duckdb(folder: Path, rows: Rows) -> Path:
    with closing(duckdb.connect(folder / "trial.duckdb")) as connection:
        connection.register("made", rows.arrow())
        connection.execute("CREATE TABLE rows AS SELECT * FROM made")
    return folder / "trial.duckdb"


def as_sqlite(folder: Path, rows: Rows) -> Path:
    with closing(sqlite3.connect(folder / "trial.sqlite")) as connection, connection:
        connection.execute(f"CREATE TABLE rows ({', '.join(rows.heading)})")
        marks = ", ".join("?" for _ in rows.heading)
        connection.executemany(f"INSERT INTO rows VALUES ({marks})", rows.cells)
    return folder / "trial.sqlite"


def as_query(folder: Path, rows: Rows) -> str:
    return f"{as_duckdb(folder, rows)}::SELECT * FROM rows WHERE trajectory < 80"


def as_workbook(folder: Path, rows: Rows) -> str:
    book = openpyxl.Workbook()
    book.active.title = "Notes"
    sheet = book.create_sheet("Visits")
    for row in (rows.heading, *rows.cells):
        sheet.append(row)
    book.save(folder / "trial.xlsx")
    return f"{folder / 'trial.xlsx'}::Visits"


def as_minari(folder: Path, rows: Rows) -> Path:
    """The final observation of an episode is the last state, and gets no row."""
    from oracles.sources import minari_dataset

    episodes = rows.episodes()
    return minari_dataset(folder, episodes, final=3).storage.data_path.parent


def as_spark(folder: Path, rows: Rows) -> Any:
    """A DataFrame of the session that is active, cut into partitions anywhere."""
    from pyspark.sql import SparkSession

    return SparkSession.active().createDataFrame(rows.arrow().to_pandas()).repartition(3)


SOURCES: dict[str, Source] = {
    "episodes": lambda _, rows: rows.episodes(),
    "arrow": lambda _, rows: rows.arrow(),
    "pandas": lambda _, rows: rows.arrow().to_pandas(),
    "polars": lambda _, rows: pl.from_arrow(rows.arrow()),
    "csv": as_csv,
    "gzip": as_gzip,
    "parquet": as_parquet,
    "parquet files": as_parquet_files,
    "duckdb": as_duckdb,
    "sqlite": as_sqlite,
    "query": as_query,
    "workbook": as_workbook,
    "minari": as_minari,
    "spark": as_spark,
}

# Side files


def numbers(heading: str, labels: Any, cells: Any) -> str:
    lines = [f"{label},{cell}" for label, cell in zip(labels, cells, strict=True)]
    return "\n".join([heading, *lines]) + "\n"


def dense(states: int = 6, features: int = 3) -> np.ndarray:
    """A unit matrix, and below it mixtures of its rows."""
    rng = random.Random(states)
    rest = [[rng.randrange(9) / 8 for _ in range(features)] for _ in range(states - features)]
    return np.vstack([np.eye(features), np.array(rest)])


def sparse(states: int = 6, features: int = 4) -> sp.csr_array:
    matrix = np.zeros((states, features))
    matrix[:features] = np.eye(features)
    for state in range(features, states):
        matrix[state, state % features], matrix[state, (state + 1) % features] = 0.5, 0.25
    return sp.csr_array(matrix)


MATRICES = {
    "dense": dense(),
    "ones": np.ones((6, 1)),
    "thirds": np.repeat(np.eye(3), 4, axis=0),  # of the pairs of actions-allowed
}
ACTIONS = ("wait", "treat", "refer")
BEHAVIOUR = (0.5, 0.6, 0.7, 0.8, 0.5, 0.25)  # of waiting, by state
TARGET = (0.3, 0.6, 1.0, 0.6, 0.2, 0.0)
QUOTED = ("admission", '"ward, north"', '"ward ""B"""', "théâtre", "home", "elsewhere")


def allow(state: int) -> tuple[str, ...]:
    return ACTIONS[: 1 + (state + 1) % 3]


def policy(waiting: tuple[float, ...]) -> str:
    lines = [f"{s},wait,{p}\n{s},treat,{round(1 - p, 3)}\n" for s, p in enumerate(waiting)]
    return f"state,action,probability\n{''.join(lines)}"


TEXTS = {
    "start.csv": numbers("state,probability", range(6), (0.3, 0.3, 0.2, 0.1, 0.1, 0.0)),
    "visits.csv": numbers("state,probability", range(6), (0.9, 0.8, 0.6, 0.4, 0.2, 0.05)),
    "states.csv": '"admission"\n"ward, north"\n"ward ""B"""\nthéâtre\nhome\nelsewhere\n',
    "weights.csv": numbers("state,weight", QUOTED, (1, 1, 2, 0.5, 1, 1)),
    "actions.csv": "wait\ntreat\n",
    "allowed.csv": "state,action\n" + "".join(f"{s},{a}\n" for s in range(6) for a in allow(s)),
    "pairs.csv": "state,action,one,treated\n"
    + "".join(f"{s},{a},1,{a == 'treat':d}\n" for s in range(6) for a in ACTIONS[:2]),
    "target.csv": policy(TARGET),
    "behaviour.csv": policy(BEHAVIOUR),
}


def write_side_file(folder: Path, name: str) -> None:
    if name == "features.npz":
        sp.save_npz(folder / name, sparse(), compressed=False)
    elif name == "features.npy":
        np.save(folder / name, dense())
    elif name == "features.csv":
        frame = pd.DataFrame(dense(), columns=["a", "b", "c"])
        frame.insert(0, "state", WARDS)
        frame.to_csv(folder / name, index=False)
    else:
        (folder / name).write_text(TEXTS[name], encoding="utf-8", newline="")


# Changes of rows


def break_cells(rows: Rows) -> Rows:
    """Rewards that are no numbers, a state that does not exist, and the same step twice."""
    cells = rows.spoil("reward", {3: "x", 40: "", 41: "inf", 100: "1e400"}).cells
    cells[150] = (*cells[150][:2], 17, 0.5)
    cells.insert(200, cells[200])
    cells.insert(250, ("", 1, 1, 0.5))
    return Rows(rows.heading, cells)


def date_steps(rows: Rows) -> Rows:
    dates = rows.map("step", lambda step: f"{1 + step:02}.03.2026")
    return dates.rename(step="day", reward="score")


def in_arms(rows: Rows, arms: int) -> Rows:
    """Of a person, or of a trajectory; the arm is in the reward."""
    unit = rows.heading[0]
    units = enumerate(dict.fromkeys(rows.column(unit)))
    arm = {name: ("control", "treated", "both")[at % arms] for at, name in units}
    return rows.with_column("group", lambda row: arm[row[unit]]).map_rows(
        "reward", lambda row: round(row["reward"] + (row["group"] != "control") / 4, 3)
    )


def acting(rows: Rows, *, as_allowed: bool) -> Rows:
    """Later actions are rarer, and worth more."""
    rng = random.Random(len(rows.cells))

    def action(row: dict[str, Any]) -> str:
        most = len(allow(row["state"])) if as_allowed else 2
        return ACTIONS[min(rng.randrange(most), rng.randrange(most))]

    return rows.with_column("action", action).map_rows(
        "reward", lambda row: round(row["reward"] + 2 * ACTIONS.index(row["action"]), 3)
    )


def log_probabilities(rows: Rows) -> Rows:
    """Actions of the behaviour, with the probability that it gave them."""
    rng = random.Random(len(rows.cells))

    def action(row: dict[str, Any]) -> str:
        return "wait" if rng.random() < BEHAVIOUR[row["state"]] else "treat"

    def propensity(row: dict[str, Any]) -> float:
        chance = BEHAVIOUR[row["state"]]
        return chance if row["action"] == "wait" else round(1 - chance, 3)

    return rows.with_column("action", action).with_column("propensity", propensity)


CHANGES: dict[str, Callable[[Rows], Rows]] = {
    "shuffled": Rows.shuffle,
    "labelled": lambda rows: rows.map("state", WARDS.__getitem__),
    "by patient": lambda rows: rows.rename(trajectory="patient"),
    "broken": break_cells,
    "unreadable rewards": lambda rows: rows.map("reward", lambda r: "?" if r > 2.8 else str(r)),
    "dated": date_steps,
    "ages": lambda rows: rows.map("state", lambda s: 10.0 * s + 5).rename(state="age"),
    "cut off": lambda rows: rows.with_column("cut", lambda row: row["trajectory"] % 7 == 0),
    "in two arms": lambda rows: in_arms(rows, 2),
    "in three arms": lambda rows: in_arms(rows, 3),
    "acting": lambda rows: acting(rows, as_allowed=False),
    "acting as allowed": lambda rows: acting(rows, as_allowed=True),
    "logged": log_probabilities,
}

# Studies

USUAL = {
    "privacy": {"epsilon": 2.0, "delta": 1e-4, "unit": "trajectory"},
    "values": {"discount": 0.9, "rewards": [0.0, 1.0]},
}


@dataclass(frozen=True)
class Frozen:
    """A study, its rows, where they stand, and the seed of its noise."""

    name: str
    seed: int
    sections: Mapping[str, Mapping[str, Any]]
    rows: Rows
    source: Source
    engine: str = "local"
    matrix: str | None = None  # features that are given in Python
    refit: Mapping[str, Any] | None = None  # what ``pv.refit`` is asked for
    improve: float | None = None  # the level of ``pv.improve``, which is also asked without one

    @property
    def smooth(self) -> bool:
        """Whether the scale of the noise follows the data, through psi."""
        return self.sections["mechanism"]["name"] in {"dp-lsw", "dp-lsl"}

    def study(self, folder: Path) -> pv.Study:
        """The study as a user has it: from a file; a matrix of Python replaces its features."""
        for keys in self.sections.values():
            for value in keys.values():
                if isinstance(value, str) and value.endswith((".csv", ".npy", ".npz")):
                    write_side_file(folder, value)
        study = pv.Study.load(self.study_file(folder))
        return study if self.matrix is None else study.replace(features=MATRICES[self.matrix])

    def study_file(self, folder: Path) -> Path:
        lines = []
        for section, keys in self.sections.items():
            lines.append(f"[{section}]")
            lines += [f"{key} = {_toml(value)}" for key, value in keys.items()]
        path = folder / "study.toml"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path

    def data(self, folder: Path) -> Any:
        return self.source(folder, self.rows)


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{_toml(key)} = {_toml(item)}' for key, item in value.items())} }}"
    return f"'{value}'" if isinstance(value, str) else repr(value)


def build(name: str, table: dict[str, Any]) -> Frozen:
    """A study of the table: keys of the harness, and besides them the study's own sections."""
    seed = table.pop("seed")
    rows = walk(**{"seed": seed, **table.pop("rows", {})})
    for change in table.pop("then", []):
        rows = CHANGES[change](rows)
    for column, cells in table.pop("spoilt", {}).items():
        rows = rows.spoil(column, {int(row): cell for row, cell in cells.items()})
    source = SOURCES[table.pop("source", "episodes")]
    if dialect := table.pop("dialect", None):
        source = partial(as_csv, **dialect)
    refit = table.pop("refit", None)
    if refit and "features" in refit:
        refit["features"] = MATRICES[refit["features"]]
    options = {key: table.pop(key) for key in ("engine", "matrix", "improve") if key in table}
    mechanism = table.pop("mechanism", "dp-ssp")
    sections = {
        "study": {"name": name, **table.pop("study", {})},
        "states": {"count": 6},
        "mechanism": {"name": mechanism} if isinstance(mechanism, str) else mechanism,
        **{section: {**keys, **table.pop(section, {})} for section, keys in USUAL.items()},
        **table,
    }
    return Frozen(name, seed, sections, rows, source, refit=refit, **options)


TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
STUDIES = {name: build(name, table) for name, table in TABLE.items()}
