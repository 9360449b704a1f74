"""Write simulated rows to CSV, compressed CSV or Parquet, streamed, whole or not at all.

The columns are trajectory, step, state (int64) and reward (float64), and where they are asked for
action (int64) and its probability (float64), sorted by trajectory, then step. Where trajectories
may be cut and are kept, ``cut`` is 1 in the last row of those that were, and else 0 (int64). The
world's text and parameters, the seed, the number of trajectories and the software's version are in
Parquet's schema metadata under the key ``privalue``, and beside a CSV file in ``<file>.meta.json``.
How many trajectories were written, truncated and dropped is known only at the end: Parquet has
these counts in the file's metadata under ``privalue.counts``.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from privalue.errors import UsageError
from privalue.ledger.files import whole_file
from privalue.simulation._names import parse_world
from privalue.simulation._policy_files import policy_of
from privalue.simulation._simulation import (
    CUT,
    StepBatch,
    Truncated,
    simulate_batches,
    simulate_episodes,
)
from privalue.version import VERSION

if TYPE_CHECKING:
    from privalue.simulation._policies import Policy
    from privalue.simulation._worlds import World

SCHEMA = pa.schema(
    [
        ("trajectory", pa.int64()),
        ("step", pa.int64()),
        ("state", pa.int64()),
        ("reward", pa.float64()),
    ]
)
ACTING_SCHEMA = pa.schema([*SCHEMA, ("action", pa.int64()), ("probability", pa.float64())])
MARK = pa.field(CUT, pa.int64())

METADATA_KEY = "privalue"

ENDINGS = (".csv", ".csv.gz", ".parquet")


@dataclass(frozen=True, kw_only=True)
class SimulatedFile:
    """The file that ``simulate_to_file`` wrote, and how much is in it."""

    path: Path
    rows: int
    trajectories: int
    truncated: int
    dropped: int


def simulate_to_file(
    world: World,
    *,
    trajectories: int,
    seed: int,
    out: str | os.PathLike[str],
    progress: Callable[[int], None] | None = None,
    truncate_at: int | None = None,
    truncated: Truncated | None = None,
    actions: bool = False,
) -> SimulatedFile:
    """Simulate trajectories into a file, of the kind that its ending says.

    The file gets its name when it is complete; a file that had the name before stays until then.

    Args:
        world: what to simulate, from ``parse_world``.
        trajectories: how many, at least 1.
        seed: a whole number of at least 0; the same seed gives the same rows.
        out: a path ending in .csv, .csv.gz or .parquet.
        progress: called now and then with the number of trajectories that are done.
        truncate_at: cut a trajectory that has not ended after so many rows.
        truncated: "keep" or "drop" those; required with ``truncate_at``.
        actions: whether to write which action was chosen, and with what probability.

    Returns:
        The path, and the numbers of rows and trajectories.

    Raises:
        UsageError: if a number, the ending or a choice is not allowed, or the file cannot be
            written.
        StudyError: if a trajectory may never end and there is no ``truncate_at``.
    """
    path = Path(out)
    ending = _ending_of(path)
    batches = simulate_batches(
        world,
        trajectories=trajectories,
        seed=seed,
        truncate_at=truncate_at,
        truncated=truncated,
        actions=actions,
    )
    schema = ACTING_SCHEMA if actions else SCHEMA
    if truncated == "keep":
        schema = schema.append(MARK)
    asked = {
        "world": world.text,
        "parameters": dict(world.parameters),
        "discount": world.process.discount,
        "seed": int(seed),
        "trajectories_asked": int(trajectories),
        "truncate_at": truncate_at,
        "truncated_are": truncated,
        "software": f"privalue {VERSION}",
    }
    try:
        if ending == ".parquet":
            with whole_file(path) as partial:
                counts = _write_parquet(partial, batches, progress, schema, asked)
        else:
            meta = path.with_name(path.name + ".meta.json")
            # Both are complete before either gets its name, the rows first.
            with whole_file(meta) as partial_meta, whole_file(path) as partial:
                compressed = ending == ".csv.gz"
                counts = _write_csv(partial, batches, progress, schema, compressed=compressed)
                partial_meta.write_text(json.dumps(asked | counts, indent=2) + "\n")
    except OSError as error:
        raise UsageError(
            f"cannot write {path}: {error.strerror or error}; choose another path"
        ) from error
    return SimulatedFile(path=path, **counts)


def simulate(
    world: str | World,
    trajectories: int,
    *,
    seed: int = 0,
    out: str | os.PathLike[str] | None = None,
    columns: Mapping[str, str] | None = None,
    truncate_at: int | None = None,
    truncated: Truncated | None = None,
    policy: str | os.PathLike[str] | Policy | None = None,
    actions: bool = False,
) -> pa.Table | SimulatedFile:
    """Simulate trajectories of a world: made-up people, who need no privacy.

    Args:
        world: what to simulate: "chain", "chain:N=40,p=0.5", "gym:FrozenLake-v1", "icu-sepsis", or
            a world.
        trajectories: how many, at least 1.
        seed: a whole number of at least 0; the same seed gives the same rows.
        out: a file that ends in .csv, .csv.gz or .parquet; in memory, if left out.
        columns: other names of columns, e.g. {"trajectory": "stay_id"}.
        truncate_at: cut a trajectory that has not ended after so many rows.
        truncated: "keep" or "drop" those; required with ``truncate_at``.
        policy: what people follow, in place of the world's own: "uniform", "greedy", "optimal:0.5",
            a Policy, or a CSV file of state, action and probability.
        actions: whether rows have the ``action`` that was chosen, and its ``probability``.

    Returns:
        An Arrow table, which ``release`` takes, and pandas and Polars read; or the file.

    >>> simulate("chain:N=3,p=0,start=first", trajectories=1).to_pydict()["state"]
    [0, 1, 2]
    """
    chosen = parse_world(world) if isinstance(world, str) else world
    if policy is not None:
        chosen = policy_of(chosen, policy)
    cut: dict[str, Any] = {
        "truncate_at": truncate_at,
        "truncated": truncated,
        "actions": actions,
    }
    if out is None:
        rows = simulate_episodes(chosen, trajectories=trajectories, seed=seed, **cut)
        return rows.table(columns)
    if columns is not None:
        raise UsageError("columns= is for rows in memory; leave out= or columns= out")
    return simulate_to_file(chosen, trajectories=trajectories, seed=seed, out=out, **cut)


def _ending_of(path: Path) -> str:
    """Return the ending of a path; raise UsageError if no format has it."""
    for ending in ENDINGS:
        if path.name.lower().endswith(ending) and len(path.name) > len(ending):
            return ending
    raise UsageError(f"out is {str(path)!r}; it must end in .csv, .csv.gz or .parquet")


def _pour(
    batches: Iterator[StepBatch],
    write_batch: Callable[[Any], None],
    progress: Callable[[int], None] | None,
    schema: pa.Schema,
) -> dict[str, int]:
    """Write all batches, and return the counts of rows and trajectories."""
    rows = 0
    for batch in batches:
        if batch.state.size:
            columns = [pa.array(batch.columns[name]) for name in schema.names]
            write_batch(pa.record_batch(columns, schema=schema))
            rows += batch.state.size
        if progress is not None:
            progress(batch.done)
    return {
        "rows": rows,
        "trajectories": batch.written,
        "truncated": batch.truncated,
        "dropped": batch.dropped,
    }


def _write_parquet(
    path: Path,
    batches: Iterator[StepBatch],
    progress: Callable[[int], None] | None,
    schema: pa.Schema,
    asked: dict[str, Any],
) -> dict[str, int]:
    """Write a Parquet file: the settings in its schema, the counts in its metadata."""
    described = schema.with_metadata({METADATA_KEY: json.dumps(asked)})
    with pyarrow.parquet.ParquetWriter(path, described) as writer:
        counts = _pour(batches, writer.write_batch, progress, described)
        writer.add_key_value_metadata({METADATA_KEY + ".counts": json.dumps(counts)})
    return counts


def _write_csv(
    path: Path,
    batches: Iterator[StepBatch],
    progress: Callable[[int], None] | None,
    schema: pa.Schema,
    *,
    compressed: bool,
) -> dict[str, int]:
    """Write a CSV file, compressed or not, and return its counts."""
    with contextlib.ExitStack() as stack:
        sink: Any = stack.enter_context(path.open("wb"))
        if compressed:
            # Without a name and a time in it, the same rows are the same bytes. Level 1 is ten
            # times as fast as the usual one, for files one sixth larger.
            sink = stack.enter_context(
                gzip.GzipFile(filename="", fileobj=sink, mode="wb", compresslevel=1, mtime=0)
            )
        # Arrow would put the names in quotes.
        sink.write((",".join(schema.names) + "\n").encode())
        options = pyarrow.csv.WriteOptions(include_header=False)
        writer = stack.enter_context(pyarrow.csv.CSVWriter(sink, schema, write_options=options))
        return _pour(batches, writer.write_batch, progress, schema)
