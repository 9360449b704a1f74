"""Simulate trajectories of a world, in memory or into a file.

Rows depend on the seed alone, not on the size of batches; with fewer trajectories they are a prefix
of the same rows. The columns are trajectory, step, state and reward, sorted by trajectory, then
step; on request also action and its probability. With ``truncate_at``, ``cut`` is 1 in the last row
of a truncated trajectory, and 0 in all other rows.
"""

import gzip
import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from privalue.core import Integers, Vector
from privalue.errors import UsageError, plural
from privalue.ledger.files import atomic_file
from privalue.simulation.mdp import END, MarkovRewardProcess, read_only
from privalue.simulation.walk import FINISHED, NO_LIMIT, STATE, TRUNCATED, sampler, walk
from privalue.simulation.worlds import World, check_whole, world_of

CUT = "cut"
COLUMNS = ("trajectory", "step", "state", "reward", "action", "probability", CUT)
REALS = ("reward", "probability")
BATCH_ROWS = 1_000_000
ENDINGS = (".csv", ".csv.gz", ".parquet")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Episodes:
    """Rows sorted by trajectory and step, in arrays of equal length.

    ``action`` is the action of each row, and ``probability`` that of the action under the policy,
    if it is known. ``cut`` is 1 in the last row of a truncated trajectory, and 0 in all other rows;
    ``truncated`` is the number of truncated trajectories.
    """

    trajectory: Integers
    step: Integers
    state: Integers
    reward: Vector
    trajectories: int
    truncated: int
    action: Integers | None = None
    probability: Vector | None = None
    cut: Integers | None = None

    def __post_init__(self) -> None:
        for name in self.columns:
            kind = np.float64 if name in REALS else np.int64
            object.__setattr__(self, name, read_only(getattr(self, name), kind))

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the names of the columns that are present."""
        return tuple(name for name in COLUMNS if getattr(self, name) is not None)

    def __len__(self) -> int:
        return len(self.step)

    def __repr__(self) -> str:
        return f"Episodes({plural(self.trajectories, 'trajectory')}, {len(self):,} rows)"

    def table(self, columns: Mapping[str, str] | None = None) -> pa.Table:
        """Return the rows as an Arrow table, which pandas, Polars and DuckDB read.

        Args:
            columns: new names of columns, e.g. {"trajectory": "stay_id"}.
        """
        unknown = set(columns or ()) - set(self.columns)
        if unknown:
            raise UsageError(
                f"columns: {min(unknown)!r} is not simulated; use {', '.join(self.columns)}"
            )
        names = [(columns or {}).get(name, name) for name in self.columns]
        return pa.table([pa.array(getattr(self, name)) for name in self.columns], names=names)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Export the rows by the Arrow PyCapsule interface."""
        return self.table().__arrow_c_stream__(requested_schema)


@dataclass(frozen=True, kw_only=True)
class SimulatedFile:
    """The file that ``simulate`` wrote, and how much is in it."""

    path: Path
    rows: int
    trajectories: int
    truncated: int


class _Batch(NamedTuple):
    """Rows by column, and how many trajectories are finished and truncated so far."""

    columns: dict[str, Any]
    finished: int
    truncated: int


def _simulate(
    world: World | MarkovRewardProcess,
    *,
    trajectories: int,
    seed: int,
    truncate_at: int | None = None,
    actions: bool = False,
    batch_rows: int | None = None,
) -> Iterator[_Batch]:
    """Check the arguments, and yield rows in batches, at least one."""
    process = world.process if isinstance(world, World) else world
    check_whole(trajectories, "trajectories", 1, NO_LIMIT)
    check_whole(seed, "seed", 0, math.inf)
    if truncate_at is None:
        process.require_end()
    else:
        check_whole(truncate_at, "truncate_at", 1, NO_LIMIT)
    if actions and process.action_of is None:
        raise UsageError("actions=True: this world has no actions")

    def batches() -> Iterator[_Batch]:
        table, generator = sampler(process), np.random.default_rng(seed)
        limit = NO_LIMIT if truncate_at is None else truncate_at
        position = np.zeros(4, dtype=np.int64)
        position[STATE] = END
        arrays = [np.empty(batch_rows or BATCH_ROWS, dtype=np.int64) for _ in range(3)]
        while position[FINISHED] < trajectories:
            count = walk(table, generator, position, trajectories, limit, *arrays)
            # Copies, since the next batch overwrites the arrays.
            trajectory, step, outcome = (array[:count].copy() for array in arrays)
            columns: dict[str, Any] = {
                "trajectory": trajectory,
                "step": step,
                "state": process.outcomes.rows[outcome],
                "reward": process.outcomes.rewards[outcome],
            }
            if actions:
                assert process.action_of is not None
                assert process.policy is not None
                columns["action"] = process.action_of[outcome]
                columns["probability"] = process.policy[columns["state"], columns["action"]]
            if truncate_at is not None:
                continues = process.outcomes.successors[outcome] != END
                columns[CUT] = ((step + 1 == limit) & continues).astype(np.int64)
            yield _Batch(columns, int(position[FINISHED]), int(position[TRUNCATED]))

    return batches()


def simulate_episodes(world: World | MarkovRewardProcess, **request: Any) -> Episodes:
    """Simulate trajectories in memory; ``simulate`` documents the keywords.

    Example:
        >>> from privalue.simulation import parse_world, simulate_episodes
        >>> rows = simulate_episodes(parse_world("chain:N=3,p=0,start=first"),
        ...                          trajectories=1, seed=0)
        >>> rows.state, rows.reward
        (array([0, 1, 2]), array([0., 0., 1.]))
    """
    batches = list(_simulate(world, **request))
    columns = {
        name: np.concatenate([batch.columns[name] for batch in batches])
        for name in batches[0].columns
    }
    last = batches[-1]
    return Episodes(**columns, trajectories=last.finished, truncated=last.truncated)


def simulate(
    world: Any,
    trajectories: int,
    *,
    seed: int = 0,
    out: str | os.PathLike[str] | None = None,
    columns: Mapping[str, str] | None = None,
    truncate_at: int | None = None,
    policy: Any = None,
    actions: bool = False,
) -> pa.Table | SimulatedFile:
    """Simulate trajectories of a world; nothing here is private.

    Args:
        world: what ``privalue.world`` takes: "chain", "chain:N=40,p=0.5", "gym:FrozenLake-v1",
            "icu-sepsis", a Gymnasium environment with a table, or a world.
        trajectories: how many, at least 1.
        seed: a whole number of at least 0; the same seed gives the same rows.
        out: a file that ends in .csv, .csv.gz or .parquet; in memory, if left out.
        columns: new names of columns, e.g. {"trajectory": "stay_id"}.
        truncate_at: truncate a trajectory that has not ended after this many rows; the column
            ``cut`` marks truncated trajectories, for ``truncated`` in a study's columns.
        policy: the behaviour, in a world with actions: "uniform", "greedy", "optimal:0.5", or an
            array, lists, a DataFrame, a mapping, a CSV file, a function of the state.
        actions: whether rows have the ``action`` taken, and its ``probability``.

    Returns:
        An Arrow table, which ``release`` takes, and pandas and Polars read; or the file.

    Raises:
        UsageError: if a number or a choice is not allowed, or the file cannot be written.
        StudyError: if a trajectory may never end and there is no ``truncate_at``.

    >>> simulate("chain:N=3,p=0,start=first", trajectories=1).to_pydict()["state"]
    [0, 1, 2]
    """
    request: dict[str, Any] = {
        "trajectories": trajectories,
        "seed": seed,
        "truncate_at": truncate_at,
        "actions": actions,
    }
    definition = world_of(world, policy=policy)
    if out is None:
        return simulate_episodes(definition, **request).table(columns)
    if columns is not None:
        raise UsageError("columns= is for rows in memory; leave out= or columns= out")
    return simulate_to_file(definition, out=out, **request)


def simulate_to_file(
    world: World,
    *,
    out: str | os.PathLike[str],
    progress: Callable[[int], None] | None = None,
    **request: Any,
) -> SimulatedFile:
    """Simulate trajectories into a file, batch by batch; ``simulate`` documents the keywords.

    The file appears under its name when it is complete; an older file of that name stays until
    then. ``progress`` is called after every batch with the number of finished trajectories.
    """
    path = Path(out)
    ends = [end for end in ENDINGS if path.name.lower().endswith(end) and path.name.lower() != end]
    if not ends:
        allowed = "it must end in .csv, .csv.gz or .parquet"
        raise UsageError(allowed, code="ending", argument=("out", str(path)))
    batches, rows, writer = _simulate(world, **request), 0, None
    try:
        with ExitStack() as stack:
            partial = stack.enter_context(atomic_file(path))
            for batch in batches:
                table = pa.record_batch(batch.columns)
                writer = writer or _open_writer(partial, ends[0], table.schema, stack)
                writer.write_batch(table)
                rows += table.num_rows
                if progress is not None:
                    progress(batch.finished)
    except OSError as error:
        raise UsageError(
            f"cannot write {path}: {error.strerror or error}; choose another path"
        ) from error
    return SimulatedFile(
        path=path, rows=rows, trajectories=batch.finished, truncated=batch.truncated
    )


def _open_writer(path: Path, ending: str, schema: pa.Schema, stack: ExitStack) -> Any:
    """Return an Arrow writer that the stack closes."""
    if ending == ".parquet":
        return stack.enter_context(pyarrow.parquet.ParquetWriter(path, schema))
    sink: Any = stack.enter_context(path.open("wb"))
    if ending == ".csv.gz":
        # Without a name and a time, the same rows give the same bytes. Level 1 is ten times as fast
        # as the default level, and files are one sixth larger.
        sink = stack.enter_context(
            gzip.GzipFile(filename="", fileobj=sink, mode="wb", compresslevel=1, mtime=0)
        )
    # Written by hand, since Arrow puts the names in quotes.
    sink.write((",".join(schema.names) + "\n").encode())
    options = pyarrow.csv.WriteOptions(include_header=False)
    return stack.enter_context(pyarrow.csv.CSVWriter(sink, schema, write_options=options))
