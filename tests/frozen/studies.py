"""Small studies on made-up rows: every mechanism, feature kind, unit, relation, source.

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
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
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

    def shuffled(self) -> "Rows":
        cells = list(self.cells)
        random.Random(0).shuffle(cells)
        return Rows(self.heading, cells)

    def mapped(self, name: str, change: Callable[[Any], Any]) -> "Rows":
        return self.mapped_by(name, lambda row: change(row[name]))

    def mapped_by(self, name: str, change: Callable[[dict[str, Any]], Any]) -> "Rows":
        at = self.heading.index(name)
        rows = [(row, dict(zip(self.heading, row, strict=True))) for row in self.cells]
        return Rows(
            self.heading, [(*row[:at], change(by_name), *row[at + 1 :]) for row, by_name in rows]
        )

    def spoilt(self, name: str, cells: Mapping[int, Any]) -> "Rows":
        """With other cells in some rows."""
        places = itertools.count()
        return self.mapped(name, lambda cell: cells.get(next(places), cell))

    def with_column(self, name: str, cell: Callable[[dict[str, Any]], Any]) -> "Rows":
        added = Rows((*self.heading, name), [(*row, None) for row in self.cells])
        return added.mapped_by(name, cell)

    def renamed(self, **names: str) -> "Rows":
        return Rows(tuple(names.get(name, name) for name in self.heading), self.cells)

    def column(self, name: str) -> list[Any]:
        return [row[self.heading.index(name)] for row in self.cells]

    def arrow(self) -> pa.Table:
        return pa.table({name: self.column(name) for name in self.heading})

    def episodes(self) -> list[list[tuple[Any, float]]]:
        return [
            [row[-2:] for row in rows] for _, rows in itertools.groupby(self.cells, lambda r: r[0])
        ]


def made(seed: int, *, states: int = 6, trajectories: int = 90, persons: int | None = None) -> Rows:
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


def as_csv(**dialect: Any) -> Source:
    encoding, decimal = dialect.pop("encoding", "utf-8"), dialect.pop("decimal", ".")

    def write(folder: Path, rows: Rows) -> Path:
        path = folder / "trial.csv"
        with path.open("w", newline="", encoding=encoding) as file:
            writer = csv.writer(file, **dialect)
            writer.writerow(rows.heading)
            writer.writerows(
                [str(c).replace(".", decimal) if isinstance(c, float) else c for c in row]
                for row in rows.cells
            )
        return path

    return write


def as_gzip(folder: Path, rows: Rows) -> Path:
    path = folder / "trial.csv.gz"
    path.write_bytes(gzip.compress(as_csv()(folder, rows).read_bytes()))
    return path


def as_parquet(folder: Path, rows: Rows) -> Path:
    pq.write_table(rows.arrow(), folder / "trial.parquet", row_group_size=50)
    return folder / "trial.parquet"


def as_parquet_files(folder: Path, rows: Rows) -> Path:
    """Three files, whose ends are nobody's last row."""
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
    return minari_dataset(folder, episodes, "hdf5", final=3).storage.data_path.parent


def as_spark(folder: Path, rows: Rows) -> Any:
    """A DataFrame of the session that is active, cut into partitions anywhere."""
    from pyspark.sql import SparkSession

    return SparkSession.active().createDataFrame(rows.arrow().to_pandas()).repartition(3)


def as_episodes(_: Path, rows: Rows) -> Any:
    return rows.episodes()


def as_arrow(_: Path, rows: Rows) -> Any:
    return rows.arrow()


def as_pandas(_: Path, rows: Rows) -> Any:
    return rows.arrow().to_pandas()


def as_polars(_: Path, rows: Rows) -> Any:
    return pl.from_arrow(rows.arrow())


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


def matrix_file(name: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        if name.endswith(".npz"):
            sp.save_npz(folder / name, sparse(), compressed=False)
        elif name.endswith(".npy"):
            np.save(folder / name, dense())
        else:
            frame = pd.DataFrame(dense(), columns=["a", "b", "c"])
            frame.insert(0, "state", WARDS)
            frame.to_csv(folder / name, index=False)

    return write


# Studies


@dataclass(frozen=True)
class Frozen:
    """A study, its rows, where they stand, and the seed of its noise."""

    name: str
    seed: int
    sections: Mapping[str, Mapping[str, Any]]
    rows: Rows
    source: Source
    engine: str = "local"
    side_files: Mapping[str, str | Callable[[Path], None]] = field(default_factory=dict)
    matrix: Any = None  # features that are given in Python
    refit: Mapping[str, Any] | None = None  # what ``pv.refit`` is asked for
    improve: float | None = None  # the level of ``pv.improve``, which is also asked without one

    @property
    def smooth(self) -> bool:
        """Whether the scale of the noise follows the data, through psi."""
        return self.sections["mechanism"]["name"] in {"dp-lsw", "dp-lsl"}

    def study(self, folder: Path) -> pv.Study:
        """The study as a user has it: from a file; a matrix of Python replaces its features."""
        for name, content in self.side_files.items():
            if isinstance(content, str):
                (folder / name).write_text(content, encoding="utf-8", newline="")
            else:
                content(folder)
        study = pv.Study.load(self.study_file(folder))
        return study if self.matrix is None else study.replace(features=self.matrix)

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
        return f"{{ {', '.join(f'{_toml(key)} = {_toml(each)}' for key, each in value.items())} }}"
    return f"'{value}'" if isinstance(value, str) else repr(value)


STUDIES: dict[str, Frozen] = {}


def add(
    seed: int,
    name: str,
    mechanism: str | dict[str, Any] = "dp-ssp",
    *,
    rows: Rows | None = None,
    source: Source = as_episodes,
    engine: str = "local",
    side_files: Mapping[str, str | Callable[[Path], None]] | None = None,
    matrix: Any = None,
    refit: Mapping[str, Any] | None = None,
    improve: float | None = None,
    **sections: dict[str, Any],
) -> None:
    """Adds a study; its sections replace keys of the usual ones."""
    chosen = {"name": mechanism} if isinstance(mechanism, str) else mechanism
    described = {
        "study": {"name": name, **sections.pop("study", {})},
        "privacy": {
            "epsilon": 2.0,
            "delta": 1e-4,
            "unit": "trajectory",
            **sections.pop("privacy", {}),
        },
        "values": {"discount": 0.9, "rewards": (0.0, 1.0), **sections.pop("values", {})},
        "states": sections.pop("states", {"count": 6}),
        "mechanism": chosen,
        **sections,
    }
    STUDIES[name] = Frozen(
        name,
        seed,
        described,
        made(seed) if rows is None else rows,
        source,
        engine,
        side_files or {},
        matrix,
        refit,
        improve,
    )


def _labelled(rows: Rows) -> Rows:
    return rows.mapped("state", WARDS.__getitem__)


LABELS = {"labels": list(WARDS)}
SECRET = {"neighbours": "add-remove"}  # m is, and no plan is made of it, which takes longest
UNIT = {"returns": (0.0, 1.0)}
SHARES = (0.3, 0.3, 0.2, 0.1, 0.1, 0.0)
START = {"start.csv": numbers("state,probability", range(6), SHARES)}
VISITS = {"visits.csv": numbers("state,probability", range(6), (0.9, 0.8, 0.6, 0.4, 0.2, 0.05))}
WEIGHTS = {"values": [1.0, 2.0, 0.5, 1.0, 3.0, 0.25]}
AGGREGATE = {"kind": "aggregate", "size": 2}

# DP-SSP: its choices
add(1000, "ssp-plain", {"name": "dp-ssp", "stages": "auto"})
add(
    1001,
    "ssp-tight",
    {"name": "dp-ssp", "stages": "auto"},
    values={**UNIT, "unvisited": 0.5},
    study={"trajectories": 90},
)
add(1002, "ssp-shrinkage-off", {"name": "dp-ssp", "shrinkage": False}, values=UNIT)
add(1003, "ssp-ridge-number", {"name": "dp-ssp", "ridge": 7.5}, features=AGGREGATE, values=UNIT)
add(
    1004,
    "ssp-ridge-sqrt",
    {"name": "dp-ssp", "ridge": "sqrt", "ridge_scale": 2.0},
    features={"kind": "matrix", "file": "features.npy"},
    side_files={"features.npy": matrix_file("features.npy")},
)
add(
    1005,
    "ssp-visits-prior",
    states={"count": 6, "visits": "visits.csv"},
    values=UNIT,
    side_files=VISITS,
    study={"trajectories": 90},
)
add(1007, "ssp-start", values={**UNIT, "start": "start.csv"}, side_files=START)
add(
    1008,
    "ssp-level",
    report={"level": 0.8},
    features=AGGREGATE,
    weights={"values": [1.0, 0.0, 2.0, 1.0, 1.0, 0.5]},
)
add(
    1009,
    "ssp-undiscounted",
    values={"discount": 1.0, "rewards": (-1.0, 2.0), "returns": (-3.0, 5.0)},
    privacy=SECRET,
)
add(
    1010,
    "ssp-negative",
    values={"rewards": (-1.0, -0.25), "returns": (-4.0, -0.5), "unvisited": -2.0},
)
# Features and weights
add(
    1011, "ssp-aggregate", features=AGGREGATE, weights=WEIGHTS, values={**UNIT, "start": {"0": 1.0}}
)
add(1012, "ssp-matrix-python", matrix=dense(), values=UNIT)
add(
    1014,
    "ssp-sparse-file",
    features={"kind": "matrix", "file": "features.npz"},
    side_files={"features.npz": matrix_file("features.npz")},
)
add(
    1015,
    "ssp-matrix-csv",
    rows=_labelled(made(1)),
    states={"file": "states.csv"},
    features={"kind": "matrix", "file": "features.csv"},
    weights={"file": "weights.csv"},
    side_files={
        "states.csv": '"admission"\n"ward, north"\n"ward ""B"""\nthéâtre\nhome\nelsewhere\n',
        "features.csv": matrix_file("features.csv"),
        "weights.csv": numbers(
            "state,weight",
            ("admission", '"ward, north"', '"ward ""B"""', "théâtre", "home", "elsewhere"),
            (1, 1, 2, 0.5, 1, 1),
        ),
    },
)
# Units and relations
add(1016, "ssp-add-remove", privacy={"neighbours": "add-remove"}, values=UNIT)
add(1017, "ssp-max-states", privacy={"max_states_per_trajectory": 2}, values=UNIT)
add(
    1018,
    "ssp-person-1",
    rows=Rows(HEADING, made(2).cells).renamed(trajectory="patient"),
    source=as_arrow,
    privacy={"unit": "person"},
    data={"person": "patient"},
)
add(
    1019,
    "ssp-person-2-add-remove",
    rows=made(3, persons=40).shuffled(),
    source=as_pandas,
    privacy={"unit": "person", "max_trajectories_per_person": 2, "neighbours": "add-remove"},
    study={"trajectories": 80},
    values=UNIT,
)
add(
    1020,
    "ssp-person-3",
    rows=made(4, persons=30),
    source=as_polars,
    privacy={
        "unit": "person",
        "max_trajectories_per_person": 3,
        "max_states_per_trajectory": 3,
        "epsilon": 4.0,
    },
    values=UNIT,
)
# Labels and groups
add(
    1021,
    "ssp-labels",
    rows=_labelled(made(5)),
    states=LABELS,
    values={**UNIT, "start": {"home": 1.0}},
)
add(
    1022,
    "ssp-groups",
    rows=_labelled(made(6).shuffled()),
    source=as_polars,
    states={
        "labels": ["in", "out"],
        "groups": dict(zip(WARDS, ("in",) * 4 + ("out",) * 2, strict=True)),
    },
    values=UNIT,
)
# Cells that cannot be read
BROKEN = {3: "x", 40: "", 41: "inf", 100: "1e400"}


def _broken(rows: Rows) -> Rows:
    """Rewards that are no numbers, a state that does not exist, and the same step twice."""
    cells = [(*row[:3], BROKEN.get(at, row[3])) for at, row in enumerate(rows.cells)]
    cells[150] = (*cells[150][:2], 17, 0.5)
    cells.insert(200, cells[200])
    cells.insert(250, ("", 1, 1, 0.5))
    return Rows(rows.heading, cells)


add(
    1023,
    "drop-unit",
    rows=_broken(made(7)),
    source=as_csv(),
    data={"invalid": "drop-unit"},
)
add(
    1024,
    "drop-unit-of-persons",
    rows=made(8, persons=30).mapped("reward", lambda r: "?" if r > 2.8 else str(r)).shuffled(),
    source=as_arrow,
    privacy={"unit": "person", "max_trajectories_per_person": 2, "neighbours": "add-remove"},
    data={"invalid": "drop-unit"},
)
# Sources
DATES = {"step": "day", "step_type": "date", "step_format": "%d.%m.%Y"}
add(
    1026,
    "csv-ordered",
    source=as_csv(),
    privacy=SECRET,
    data={"sorted": True, "id_type": "integer"},
)
add(
    1027,
    "csv-shuffled",
    rows=made(10, persons=50).shuffled(),
    source=as_csv(),
    privacy=SECRET,
    data={"person": "person", "trajectory": "trajectory"},
)
add(
    1028,
    "csv-decimal-comma",
    rows=made(11).shuffled(),
    source=as_csv(delimiter=";", decimal=","),
    privacy=SECRET,
    data={"delimiter": ";", "decimal": ","},
    values={"rewards": (-1.0, 2.0)},
)
add(
    1029,
    "csv-quoted",
    rows=_labelled(made(12)),
    source=as_csv(quoting=csv.QUOTE_ALL, encoding="cp1252"),
    states=LABELS,
    privacy=SECRET,
    data={"encoding": "cp1252"},
    values=UNIT,
)
add(
    1030,
    "csv-dates",
    rows=made(13)
    .mapped("step", lambda s: f"{1 + s:02}.03.2026")
    .renamed(step="day", reward="score")
    .shuffled(),
    source=as_csv(),
    privacy=SECRET,
    data={**DATES, "reward": "score"},
)
add(1031, "csv-gz", rows=made(14).shuffled(), source=as_gzip, privacy=SECRET, values=UNIT)
add(
    1032,
    "parquet-ordered",
    source=as_parquet,
    privacy=SECRET,
    data={"sorted": True, "id_type": "integer"},
)
add(1033, "parquet-shuffled", rows=made(15).shuffled(), source=as_parquet, privacy=SECRET)
add(
    1034,
    "parquet-files",
    rows=made(16, persons=40),
    source=as_parquet_files,
    privacy={"unit": "person", "max_trajectories_per_person": 2},
)
add(1035, "duckdb-file", rows=made(17).shuffled(), source=as_duckdb, privacy=SECRET)
add(1036, "sqlite-file", rows=made(18).shuffled(), source=as_sqlite, privacy=SECRET)
add(1037, "query", rows=made(19).shuffled(), source=as_query, privacy=SECRET)
add(1038, "workbook", rows=made(20).shuffled(), source=as_workbook, privacy=SECRET)
add(1039, "minari", rows=made(21, states=5), source=as_minari, privacy=SECRET, states={"count": 4})

# Bins, and trajectories that were cut off
add(
    1060,
    "bins",
    rows=made(28).mapped("state", lambda s: 10.0 * s + 5).renamed(state="age"),
    source=as_csv(),
    states={"bins": {"age": [10, 20, 35, 40]}},
    values=UNIT,
)
add(
    1061,
    "cut-off",
    rows=made(29).with_column("cut", lambda row: row["trajectory"] % 7 == 0),
    source=as_arrow,
    values={"truncated": "drop-unit"},
    data={"truncated": "cut"},
)
# Arms
ARMS = {"column": "group", "labels": ["control", "treated", "both"]}


def _in_arms(rows: Rows, arms: int = 2) -> Rows:
    """Of a person, or of a trajectory; the arm is in the reward."""
    unit = rows.heading[0]
    units = enumerate(dict.fromkeys(rows.column(unit)))
    arm = {name: ARMS["labels"][at % arms] for at, name in units}
    return rows.with_column("group", lambda row: arm[row[unit]]).mapped_by(
        "reward", lambda row: round(row["reward"] + (row["group"] != "control") / 4, 3)
    )


TWO_ARMS = {**ARMS, "labels": ARMS["labels"][:2]}
add(1062, "arms", rows=_in_arms(made(30)), source=as_csv(), arms=TWO_ARMS)
add(
    1063,
    "arms-start",
    rows=_in_arms(made(31, trajectories=150), 3).shuffled(),
    source=as_arrow,
    arms=ARMS,
    values={**UNIT, "start": "start.csv"},
    side_files=START,
    refit={"start": [0.0, 0.5, 0.5, 0.0, 0.0, 0.0], "level": 0.8, "weights": WEIGHTS["values"]},
)
add(
    1064,
    "arms-persons",
    rows=_in_arms(made(32, persons=40)).shuffled(),
    source=as_parquet,
    arms=TWO_ARMS,
    privacy={"unit": "person", "max_trajectories_per_person": 2, "max_states_per_trajectory": 3},
    values={**UNIT, "start": {"0": 0.75, "1": 0.25}},
    features=AGGREGATE,
)
add(
    1065,
    "arms-drop-unit",
    rows=_in_arms(made(33, persons=40)).spoilt("group", {5: "", 60: "control"}),
    source=as_csv(),
    arms=TWO_ARMS,
    privacy={
        "epsilon": 12.0,
        "unit": "person",
        "max_trajectories_per_person": 3,
        "neighbours": "add-remove",
    },
    data={"invalid": "drop-unit"},
)
# Actions
ACTIONS = {"labels": ["wait", "treat", "refer"]}
ALLOWED = {
    "allowed.csv": "state,action\n"
    + "".join(f"{s},{a}\n" for s in range(6) for a in ACTIONS["labels"][: 1 + (s + 1) % 3])
}


def _acting(rows: Rows, actions: int = 2) -> Rows:
    """Later actions are rarer, and worth more; never more of them than the state allows."""
    rng = random.Random(len(rows.cells))

    def action(row: dict[str, Any]) -> str:
        most = 1 + (row["state"] + 1) % 3 if actions == 3 else actions
        return ACTIONS["labels"][min(rng.randrange(most), rng.randrange(most))]

    return rows.with_column("action", action).mapped_by(
        "reward",
        lambda row: round(row["reward"] + 2 * ACTIONS["labels"].index(row["action"]), 3),
    )


TWO_ACTIONS = {"labels": ACTIONS["labels"][:2]}
FEW = {"max_states_per_trajectory": 4}
add(
    1066,
    "actions",
    rows=_acting(made(34, trajectories=400)),
    source=as_csv(),
    actions=TWO_ACTIONS,
    privacy=FEW,
    improve=0.5,
)
add(
    1067,
    "actions-allowed",
    rows=_acting(made(35, trajectories=1500), 3).shuffled(),
    source=as_arrow,
    actions={**ACTIONS, "allowed": "allowed.csv"},
    privacy={**FEW, "epsilon": 8.0},
    values={"rewards": (-1.0, 6.0), "returns": (-1.0, 12.0), "start": "start.csv"},
    side_files={**ALLOWED, **START},
    improve=0.8,
    refit={"features": np.repeat(np.eye(3), 4, axis=0), "start": [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]},
)
add(
    1068,
    "actions-persons",
    rows=_acting(made(36, persons=40)).spoilt("action", {7: "?", 90: ""}),
    source=as_csv(),
    actions={"file": "actions.csv"},
    privacy={
        **FEW,
        "epsilon": 12.0,
        "unit": "person",
        "max_trajectories_per_person": 2,
        "neighbours": "add-remove",
    },
    data={"invalid": "drop-unit"},
    features=AGGREGATE,
    values={**UNIT, "start": {"0": 1.0}},
    side_files={"actions.csv": "wait\ntreat\n"},
)
# Tabular values that are shrunk to features
add(
    1069,
    "shrink",
    states=LABELS,
    rows=_labelled(made(37)),
    features={"file": "features.csv", "shrink": True},
    side_files={"features.csv": matrix_file("features.csv")},
    values=UNIT,
    refit={"features": np.ones((6, 1)), "level": 0.5},
)
add(
    1070,
    "shrink-arms",
    rows=_in_arms(made(38)),
    source=as_pandas,
    arms=TWO_ARMS,
    features={"file": "features.npy", "shrink": True},
    side_files={"features.npy": matrix_file("features.npy"), **START},
    values={**UNIT, "start": "start.csv"},
)
add(
    1071,
    "shrink-actions",
    rows=_acting(made(39)),
    source=as_polars,
    actions=TWO_ACTIONS,
    features={"file": "pairs.csv", "shrink": True},
    side_files={
        "pairs.csv": "state,action,one,treated\n"
        + "".join(f"{s},{a},1,{a == 'treat':d}\n" for s in range(6) for a in TWO_ACTIONS["labels"])
    },
    privacy=FEW,
    values=UNIT,
    improve=0.9,
)
# The same statistics, fitted otherwise
add(
    1072,
    "refit",
    values=UNIT,
    refit={"features": dense(), "ridge": 5.0, "start": {"0": 0.5, "4": 0.5}},
)
# DP-OPE
BEHAVIOUR = (0.5, 0.6, 0.7, 0.8, 0.5, 0.25)  # of waiting, by state
TARGET = (0.3, 0.6, 1.0, 0.6, 0.2, 0.0)


def _policy(waiting: tuple[float, ...]) -> str:
    lines = [f"{s},wait,{p}\n{s},treat,{round(1 - p, 3)}\n" for s, p in enumerate(waiting)]
    return f"state,action,probability\n{''.join(lines)}"


POLICIES = {
    "target.csv": _policy(TARGET),
    "behaviour.csv": _policy(BEHAVIOUR),
}


def _logged(rows: Rows) -> Rows:
    """Actions of the behaviour, with the probability that it gave them."""
    rng = random.Random(len(rows.cells))
    waiting = dict(enumerate(BEHAVIOUR))
    acting = rows.with_column(
        "action", lambda row: "wait" if rng.random() < waiting[row["state"]] else "treat"
    )

    def propensity(row: dict[str, Any]) -> float:
        chance = waiting[row["state"]]
        return chance if row["action"] == "wait" else round(1 - chance, 3)

    return acting.with_column("propensity", propensity)


def valued(**policy: Any) -> dict[str, dict[str, Any]]:
    logged = {"behaviour": "column"} if "behaviour" not in policy else {}
    return {
        "actions": TWO_ACTIONS,
        "policy": {"target": "target.csv", "clip": 4.0, **logged, **policy},
        "values": UNIT,
        "side_files": POLICIES,
    }


PURE = {"delta": 0.0}
PROPENSITY = {"probability": "propensity"}
BY_PERSON = {"unit": "person", "max_trajectories_per_person": 2}
add(
    1073,
    "ope-file",
    "dp-ope",
    rows=_logged(made(40)),
    source=as_csv(),
    privacy=PURE,
    **valued(behaviour="behaviour.csv"),
)
add(
    1074,
    "ope-column",
    "dp-ope",
    rows=_logged(made(41, trajectories=200)).shuffled(),
    source=as_parquet,
    privacy={**PURE, "neighbours": "add-remove", "epsilon": 1.0},
    data=PROPENSITY,
    report={"level": 0.8},
    **valued(clip=1.5),
)
add(
    1075,
    "ope-start",
    "dp-ope",
    rows=_logged(made(42, trajectories=200)),
    source=as_arrow,
    privacy={**PURE, "epsilon": 8.0},
    **valued(behaviour="behaviour.csv", by="start"),
)
add(
    1076,
    "ope-persons",
    "dp-ope",
    rows=_logged(made(43, persons=40)).shuffled(),
    source=as_csv(),
    privacy={**PURE, **BY_PERSON, "epsilon": 4.0},
    data=PROPENSITY,
    **valued(),
)
add(
    1077,
    "ope-start-persons",
    "dp-ope",
    rows=_logged(made(44, persons=60, trajectories=150)).shuffled(),
    source=as_pandas,
    privacy={**PURE, **BY_PERSON, "neighbours": "add-remove", "epsilon": 20.0},
    data=PROPENSITY,
    **valued(by="start"),
)
add(
    1078,
    "ope-drop-unit",
    "dp-ope",
    rows=_logged(made(45)).spoilt("propensity", {3: "", 40: "1.5", 41: "x", 90: "0"}),
    source=as_csv(),
    privacy=PURE,
    data={**PROPENSITY, "invalid": "drop-unit"},
    **valued(),
)
add(
    1079,
    "ope-drop-unit-of-persons",
    "dp-ope",
    rows=_logged(made(46, persons=40)).spoilt("action", {7: "?", 90: ""}),
    source=as_csv(),
    privacy={**PURE, **BY_PERSON, "epsilon": 20.0},
    data={"invalid": "drop-unit"},
    **valued(behaviour="behaviour.csv", by="start"),
)

# DP-LSW
add(1040, "lsw-exact", "dp-lsw", values=UNIT)
add(
    1041,
    "lsw-isotropic",
    {"name": "dp-lsw", "noise": "isotropic"},
    rows=made(22).shuffled(),
    source=as_pandas,
    weights=WEIGHTS,
    values={"rewards": (-1.0, 2.0), "returns": (-2.0, 6.0)},
)
add(1042, "lsw-nissim", {"name": "dp-lsw", "calibration": "nissim", "noise": "isotropic"})
add(
    1043,
    "lsw-appendix",
    {"name": "dp-lsw", "calibration": "appendix"},
    features=AGGREGATE,
    source=as_arrow,
)
add(
    1044,
    "lsw-pseudo-count",
    {"name": "dp-lsw", "pseudo_count": 3.5},
    values={**UNIT, "unvisited": 0.25},
)
add(
    1045,
    "lsw-start",
    "dp-lsw",
    values={**UNIT, "start": "start.csv"},
    side_files=START,
)
add(
    1046,
    "lsw-persons",
    {"name": "dp-lsw", "beta": 0.05},
    rows=made(23, persons=40),
    source=as_csv(),
    privacy={
        "unit": "person",
        "max_trajectories_per_person": 2,
        "max_states_per_trajectory": 2,
        "neighbours": "add-remove",
    },
    weights=WEIGHTS,
)
add(
    1047,
    "lsw-matrix",
    {"name": "dp-lsw", "beta": 0.05},
    matrix=dense(),
    weights=WEIGHTS,
    values=UNIT,
    privacy={"max_states_per_trajectory": 2},
)
add(
    1048,
    "lsw-visits-prior",
    "dp-lsw",
    states={"count": 6, "visits": "visits.csv"},
    values=UNIT,
    side_files=VISITS,
)
# DP-LSL
add(1049, "lsl-exact", "dp-lsl", values=UNIT)
add(
    1050,
    "lsl-ridge",
    {"name": "dp-lsl", "ridge": 12.5, "beta": 0.05},
    matrix=dense(),
    weights=WEIGHTS,
)
add(
    1051,
    "lsl-nissim",
    {"name": "dp-lsl", "calibration": "nissim"},
    values={"rewards": (-1.0, 0.5), "returns": (-3.0, 1.0)},
)
add(
    1052,
    "lsl-appendix",
    {"name": "dp-lsl", "calibration": "appendix", "ridge": 500.0},
    weights=WEIGHTS,
)
add(
    1053,
    "lsl-persons",
    {"name": "dp-lsl", "ridge": 20.0, "beta": 0.05},
    rows=made(24, persons=40),
    source=as_parquet,
    privacy={"unit": "person", "max_trajectories_per_person": 3, "max_states_per_trajectory": 2},
    features=AGGREGATE,
    values={**UNIT, "start": {"0": 0.5, "3": 0.5}},
    study={"trajectories": 80},
)
# Spark: one session for the three of them
add(
    1054,
    "spark-parquet",
    rows=made(25, persons=40).shuffled(),
    source=as_parquet_files,
    engine="spark",
    privacy={"unit": "person", "max_trajectories_per_person": 2},
    values=UNIT,
)
add(
    1055,
    "spark-csv",
    {"name": "dp-lsw", "beta": 0.05},
    rows=_labelled(made(26)).shuffled(),
    source=as_csv(),
    engine="spark",
    states=LABELS,
)
add(1056, "spark-frame", rows=made(27).shuffled(), source=as_spark, engine="spark", privacy=SECRET)
