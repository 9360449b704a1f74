"""Simulate trajectories of a process, in batches or all at once, as flat arrays.

A seed gives the same rows whatever the size of the batches, and fewer trajectories are a prefix of
more.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from privalue.errors import UsageError
from privalue.simulation._kernel import (
    BETWEEN,
    DROPPED,
    KEPT,
    NO_LIMIT,
    STATE,
    TRAJECTORY,
    TRUNCATED,
    alias_table,
    walk,
)
from privalue.simulation._outcomes import END, read_only
from privalue.simulation._worlds import World

if TYPE_CHECKING:
    from privalue.core import Integers, Vector
    from privalue.simulation._markov import MarkovRewardProcess

Truncated = Literal["keep", "drop"]
COLUMNS = ("trajectory", "step", "state", "reward")
CHOICES = ("action", "probability")
CUT = "cut"  # 1 in the last row of a trajectory that was cut, and else 0
REALS = ("reward", "probability")

BATCH_ROWS = 1_000_000

BIAS = (
    "'keep' shortens the returns of the trajectories that are cut, 'drop' leaves out the long "
    "ones; both bias the values, and neither is chosen for you"
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Episodes:
    """Rows sorted by trajectory and step, in arrays of one length.

    Where they were asked for, ``action`` is what was chosen in each row, and ``probability`` how
    likely the policy was to choose it, if that is known. ``cut`` is 1 in the last row of a
    trajectory that was cut and kept, and else 0, where some may be.
    ``truncated`` counts the trajectories that were cut, ``dropped`` those of them that are left
    out; the ones that are here number 0 to ``trajectories`` - 1.
    """

    columns_are_roles: ClassVar[bool] = True  # a study may call its columns what it likes

    trajectory: Integers
    step: Integers
    state: Integers
    reward: Vector
    trajectories: int
    truncated: int
    dropped: int
    action: Integers | None = None
    probability: Vector | None = None
    cut: Integers | None = None

    def __post_init__(self) -> None:
        for name in self.columns:
            kind = np.float64 if name in REALS else np.int64
            object.__setattr__(self, name, read_only(getattr(self, name), kind))

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the names of the columns that are there."""
        return (*COLUMNS, *(name for name in (*CHOICES, CUT) if getattr(self, name) is not None))

    def __len__(self) -> int:
        return len(self.step)

    def table(self, columns: Mapping[str, str] | None = None) -> pa.Table:
        """Return the rows as an Arrow table, which pandas, Polars and DuckDB read.

        Args:
            columns: other names of columns, e.g. {"trajectory": "stay_id"}.
        """
        unknown = set(columns or ()) - set(self.columns)
        if unknown:
            raise UsageError(
                f"columns: {min(unknown)!r} is none of {', '.join(self.columns)}, which are "
                "simulated"
            )
        names = [(columns or {}).get(name, name) for name in self.columns]
        return pa.table([pa.array(getattr(self, name)) for name in self.columns], names=names)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Let whatever reads Arrow read the rows."""
        return self.table().__arrow_c_stream__(requested_schema)


@dataclass(frozen=True, kw_only=True, eq=False)
class StepBatch:
    """Consecutive rows, and how far the simulation is after them.

    The arrays are overwritten by the next batch. ``done`` counts the trajectories asked for that
    are finished, and ``written`` those that are not dropped.
    """

    trajectory: Integers
    step: Integers
    state: Integers
    reward: Vector
    done: int
    written: int
    truncated: int
    dropped: int
    action: Integers | None = None
    probability: Vector | None = None
    cut: Integers | None = None

    @property
    def columns(self) -> dict[str, Any]:
        """Return the arrays that are there, by their names."""
        named = {name: getattr(self, name) for name in (*COLUMNS, *CHOICES, CUT)}
        return {name: column for name, column in named.items() if column is not None}


def checked_count(value: Any, *, name: str, least: int) -> int:
    """Return the value as an int, if it is a whole number of at least ``least``.

    Raises:
        UsageError: if it is not.
    """
    try:
        count = operator.index(value)
    except TypeError:
        count = least - 1
    if isinstance(value, bool) or count < least:
        raise UsageError(f"{name} is {value!r}; it must be a whole number of at least {least}")
    return count


def checked_truncation(truncate_at: int | None, truncated: Truncated | None) -> int:
    """Return the greatest number of rows of a trajectory.

    Raises:
        UsageError: if one of the two choices is there without the other, or is not allowed.
    """
    if truncated not in (None, "keep", "drop"):
        raise UsageError(f"truncated is {truncated!r}; it must be 'keep' or 'drop'")
    if truncate_at is None:
        if truncated is not None:
            raise UsageError(f"truncated is {truncated!r}, but there is no truncate_at: give both")
        return NO_LIMIT
    if truncated is None:
        raise UsageError(
            f"truncate_at is {truncate_at}, but truncated is not given; it must be 'keep' or "
            f"'drop': {BIAS}"
        )
    return min(checked_count(truncate_at, name="truncate_at", least=1), NO_LIMIT)


def none_left(trajectories: int) -> str:
    """Return the message for a simulation in which every trajectory was dropped."""
    return (
        f"all {trajectories} trajectories were truncated and dropped, and no rows are left; "
        "allow more rows, or keep the truncated ones"
    )


def simulate_batches(
    world: World | MarkovRewardProcess,
    *,
    trajectories: int,
    seed: int,
    truncate_at: int | None = None,
    truncated: Truncated | None = None,
    actions: bool = False,
    batch_rows: int = BATCH_ROWS,
) -> Iterator[StepBatch]:
    """Simulate rows in batches, so that they need not fit into memory at once.

    Args:
        world: what to simulate.
        trajectories: how many; with ``truncated="drop"`` some of these are left out.
        seed: a whole number of at least 0.
        truncate_at: cut a trajectory that has not ended after so many rows.
        truncated: "keep" or "drop" those; required with ``truncate_at``, since either biases.
        actions: whether rows have the action that was chosen, and its probability; only for a
            world in which people choose. The rows of a seed are other ones than without.
        batch_rows: the most rows of a batch; the rows do not depend on it.

    Returns:
        The batches; each overwrites the arrays of the one before.

    Raises:
        UsageError: if a number or a choice is not allowed.
        StudyError: if a trajectory may never end and there is no ``truncate_at``.
    """
    process = world.process if isinstance(world, World) else world
    choices = None
    if actions:
        if not isinstance(world, World):
            raise UsageError("actions=True needs a world in which people choose, not a process")
        mdp, policy = world.decisions
        process, taken = mdp.choices(policy)
        choices = _Choices(taken, policy.probabilities[process.outcomes.rows, taken])
    wanted = checked_count(trajectories, name="trajectories", least=1)
    entropy = checked_count(seed, name="seed", least=0)
    size = checked_count(batch_rows, name="batch_rows", least=1)
    limit = checked_truncation(truncate_at, truncated)
    if wanted > NO_LIMIT:
        raise UsageError(f"trajectories is {wanted}; it must be at most {NO_LIMIT}")
    if truncate_at is None:
        process.require_end()
    return _batches(
        process,
        choices,
        wanted=wanted,
        seed=entropy,
        size=size,
        limit=limit,
        drop=truncated == "drop",
        marked=truncated == "keep",
    )


class _Choices(NamedTuple):
    """The action that each outcome came by, and its probability in that state."""

    action: Integers
    probability: Vector


def _batches(
    process: MarkovRewardProcess,
    choices: _Choices | None,
    *,
    wanted: int,
    seed: int,
    size: int,
    limit: int,
    drop: bool,
    marked: bool,
) -> Iterator[StepBatch]:
    """Yield the batches of a checked request, and refuse a result without any trajectory."""
    table = alias_table(process)
    ends = table[3] == END
    generator = np.random.SeedSequence(seed).generate_state(4, np.uint64)
    place = np.zeros(6, dtype=np.int64)
    place[STATE] = BETWEEN
    rows = (
        np.empty(size, dtype=np.int64),
        np.empty(size, dtype=np.int64),
        np.empty(size, dtype=np.int64),
        np.empty(size, dtype=np.float64),
        np.empty(size, dtype=np.int64),
    )
    while place[TRAJECTORY] < wanted:
        count = walk(table, generator, place, wanted, limit, drop, rows)
        trajectory, step, state, reward, outcome = rows
        drawn = outcome[:count]
        yield StepBatch(
            trajectory=trajectory[:count],
            step=step[:count],
            state=state[:count],
            reward=reward[:count],
            done=int(place[TRAJECTORY]),
            written=int(place[KEPT]),
            truncated=int(place[TRUNCATED]),
            dropped=int(place[DROPPED]),
            action=None if choices is None else choices.action[drawn],
            probability=None if choices is None else choices.probability[drawn],
            cut=((step[:count] + 1 == limit) & ~ends[drawn]).astype(np.int64) if marked else None,
        )
    if not place[KEPT]:
        raise UsageError(none_left(wanted))


def simulate_episodes(
    world: World | MarkovRewardProcess,
    *,
    trajectories: int,
    seed: int,
    truncate_at: int | None = None,
    truncated: Truncated | None = None,
    actions: bool = False,
    batch_rows: int = BATCH_ROWS,
) -> Episodes:
    """Simulate trajectories in memory.

    Args:
        world: what to simulate.
        trajectories: how many; with ``truncated="drop"`` some of these are left out.
        seed: a whole number of at least 0.
        truncate_at: cut a trajectory that has not ended after so many rows.
        truncated: "keep" or "drop" those; required with ``truncate_at``, since either biases.
        actions: whether rows have the action that was chosen, and its probability; only for a
            world in which people choose. The rows of a seed are other ones than without.
        batch_rows: rows that are simulated at a time; the result does not depend on it.

    Returns:
        All rows, sorted by trajectory and step.

    Raises:
        UsageError: if a number or a choice is not allowed.
        StudyError: if a trajectory may never end and there is no ``truncate_at``.

    Example:
        >>> from privalue.simulation import parse_world, simulate_episodes
        >>> rows = simulate_episodes(parse_world("chain:N=3,p=0,start=first"),
        ...                          trajectories=1, seed=0)
        >>> rows.state, rows.reward
        (array([0, 1, 2]), array([0., 0., 1.]))
    """
    parts: list[dict[str, Any]] = []
    written = cut = dropped = 0
    for batch in simulate_batches(
        world,
        trajectories=trajectories,
        seed=seed,
        truncate_at=truncate_at,
        truncated=truncated,
        actions=actions,
        batch_rows=batch_rows,
    ):
        parts.append({name: column.copy() for name, column in batch.columns.items()})
        written, cut, dropped = batch.written, batch.truncated, batch.dropped
    return Episodes(
        **{name: np.concatenate([part[name] for part in parts]) for name in parts[0]},
        trajectories=written,
        truncated=cut,
        dropped=dropped,
    )
