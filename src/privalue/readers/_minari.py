"""Read Minari datasets: discrete observations, or numbers in bins. Extra: ``minari``.

``minari:toy/lake-v0`` is a dataset of the local Minari storage; nothing is ever downloaded. The
folder of a dataset and a ``MinariDataset`` are accepted as well. An episode is a trajectory, and
each of its transitions is a row: the observation acted on, counted from the first of its space, the
reward received and, where the study has actions, the action taken, counted likewise. The final
observation has no row. Where the study has bins, observations are
arrays of numbers, or dicts of them by the names of the columns. Values are passed on as they are;
the encoder checks them.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privalue.errors import DataError, MissingComponentError
from privalue.readers._chunks import BATCH_ROWS, Chunk, Location, Source, one_line
from privalue.readers._python_cells import as_arrow
from privalue.readers._recordings import numbers_of
from privalue.readers._rules import RowRules

_PREFIX = "minari:"
_UNREADABLE = (OSError, ValueError, KeyError, TypeError, AssertionError, pa.ArrowException)

Values = NDArray[Any]


def open_minari(data: Any, rules: RowRules) -> Source | None:
    """Return the transitions of a Minari dataset, or None if ``data`` is not one."""
    found = _dataset(data)
    if found is None:
        return None
    dataset, place = found
    rules.require_no_person(f"{place} names")
    if "arm" in rules.columns:
        raise DataError(
            f"{place} is read without the column {rules.columns['arm']!r}, which the study names; "
            "give a table that has it"
        )
    rules.require_types([(rules.columns["step"], pa.int64())], place)
    firsts = (
        0 if rules.bins else _first(dataset.observation_space, place, "observations", _BINS),
        _first(dataset.action_space, place, "actions", "") if rules.actions else 0,
    )
    indices = [int(index) for index in dataset.episode_indices]
    try:
        total_rows = int(dataset.total_steps)
    except _UNREADABLE as problem:
        raise _unreadable(place, problem) from None
    return Source(
        lambda: _chunks(dataset.storage, indices, firsts, rules, place),
        # An episode that is listed twice goes the way of unsorted rows, which finds duplicates.
        in_order=all(here < after for here, after in pairwise(indices)),
        total_rows=total_rows,
    )


def _dataset(data: Any) -> tuple[Any, str] | None:
    """Return the dataset and what messages call it, or None if ``data`` is not one."""
    if not isinstance(data, str | Path):
        module = sys.modules.get("minari")  # a caller that has a dataset has imported it
        if module is None or not isinstance(data, module.MinariDataset):
            return None
        return data, f"{_PREFIX}{data.id}"
    place = str(data)
    named = place.startswith(_PREFIX)
    folder = None if named else _data_folder(Path(data))
    if not named and folder is None:
        return None
    try:
        minari: Any = import_module("minari")
        if named:
            return minari.load_dataset(place.removeprefix(_PREFIX), download=False), place
        return minari.MinariDataset(folder), place
    except ImportError:  # Minari itself, or what its storage needs
        raise MissingComponentError(
            f"{place} needs Minari with HDF5: pip install 'minari[hdf5]'"
        ) from None
    except FileNotFoundError:
        raise DataError(
            f"{place} is not among the local Minari datasets; `minari list local` shows them, and "
            "`minari download` fetches one"
        ) from None
    except _UNREADABLE as problem:
        raise _unreadable(place, problem) from None


def _data_folder(path: Path) -> Path | None:
    """Return the folder that holds a dataset's metadata: ``path/data`` or ``path``, or None."""
    for folder in (path / "data", path):
        try:
            metadata = json.loads((folder / "metadata.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(metadata, dict) and {"total_episodes", "data_format"} <= set(metadata):
            return folder
    return None


_BINS = ", one number per state; [states] bins makes states of numbers"


def _first(space: Any, place: str, what: str, more: str) -> int:
    """Return the observation that is state 0, or the action that is 0: the first of the space."""
    spaces: Any = import_module("gymnasium.spaces")
    if isinstance(space, spaces.Discrete):
        return int(space.start)
    if isinstance(space, spaces.MultiDiscrete) and space.shape == (1,):
        return int(space.start[0])
    raise DataError(f"{place} has {what} {one_line(space)}; they must be Discrete{more}")


def _chunks(
    storage: Any, indices: Sequence[int], firsts: tuple[int, int], rules: RowRules, place: str
) -> Iterator[Chunk]:
    """Yield the rows of all episodes; a chunk holds whole episodes of the same types."""
    parts: list[tuple[Values, ...]] = []
    first_row, waiting = 1, 0
    episodes = _episodes(storage, indices, bool(rules.actions))
    for index in indices:
        try:
            observations, actions, rewards, cuts = next(episodes)
        except _UNREADABLE as problem:  # of the storage, and not of one episode
            raise _unreadable(f"{place}, episode {index}", problem) from None
        try:
            seen = [_counted_from(firsts[0], one) for one in _observed(observations, rules)]
            taken = [_counted_from(firsts[1], actions)] if rules.actions else []
        except _UNREADABLE as problem:
            if rules.drop_invalid:
                continue
            if isinstance(problem, DataError):
                raise DataError(f"{place}, episode {index}: {problem}") from None
            raise _unreadable(f"{place}, episode {index}", problem) from None
        steps = len(rewards)
        beside = (cuts, *taken)
        if any(len(one) != steps + 1 for one in seen) or steps == 0:
            if rules.drop_invalid:
                continue
            raise DataError(
                f"{place}, episode {index}, has {len(seen[0])} observations and {steps} "
                "rewards; an episode has at least one reward, and one more observation"
            )
        if any(len(one) != steps for one in beside):
            if rules.drop_invalid:
                continue
            raise DataError(
                f"{place}, episode {index}, has {steps} rewards, and not as many of what goes with "
                "each: actions and truncations"
            )
        ids = [np.full(steps, index)] * len(rules.id_roles)
        part = (*ids, np.arange(steps), *(one[:-1] for one in seen), *taken, rewards)
        part += (cuts,) if "truncated" in rules.columns else ()
        if parts and _types(parts[-1]) != _types(part):  # no episode may change another's type
            yield Chunk(Location(place, first_row), _batch(parts, rules, place))
            first_row, waiting, parts = first_row + waiting, 0, []
        parts.append(part)
        waiting += steps
        if waiting >= BATCH_ROWS:
            yield Chunk(Location(place, first_row), _batch(parts, rules, place))
            first_row, waiting, parts = first_row + waiting, 0, []
    if parts:
        yield Chunk(Location(place, first_row), _batch(parts, rules, place))


def _observed(observations: Any, rules: RowRules) -> list[Values]:
    """Return the columns that states are made of, one value for each observation."""
    if isinstance(observations, Mapping):
        names = [rules.columns[role] for role in rules.state_roles]
        return [np.asarray(observations[name]).ravel() for name in names]
    array = np.asarray(observations)
    if not rules.bins:
        return [array.ravel()]
    return list(numbers_of(array.reshape(len(array), -1), rules).values())


def _column(values: Values) -> pa.Array:
    """Return values as an Arrow column."""
    try:
        return pa.array(values)
    except pa.ArrowException:  # Arrow has no such type: convert cell by cell
        return as_arrow(values.tolist())


def _types(part: tuple[Values, ...]) -> list[np.dtype[Any]]:
    """Return the types of an episode's columns."""
    return [column.dtype for column in part]


def _counted_from(first_state: int, observations: Values) -> Values:
    """Return observations as states, counted from the first of the space."""
    if first_state == 0:
        return observations
    # Wide enough not to wrap around: an observation below the first must stay invalid.
    return observations.astype(np.promote_types(observations.dtype, np.int64)) - first_state


def _batch(parts: list[tuple[Values, ...]], rules: RowRules, place: str) -> pa.RecordBatch:
    """Join the columns of some episodes into one Arrow batch."""
    try:
        arrays = [_column(np.concatenate(column)) for column in zip(*parts, strict=True)]
    except _UNREADABLE as problem:
        raise _unreadable(place, problem) from None
    return pa.record_batch(arrays, names=rules.names)


_Episode = tuple[Any, Values, Values, Values]


def _episodes(storage: Any, indices: Sequence[int], acting: bool) -> Iterator[_Episode]:
    """Yield observations, actions where they count, rewards and cuts of every episode."""
    if storage.FORMAT in {"arrow", "parquet"}:
        # Minari 0.5.4 takes an episode for one Arrow batch; one of over 32,768 rows has several.
        for index in indices:
            yield _arrow_episode(storage, index, acting)
        return
    for episode in storage.get_episodes(indices):
        rewards, cuts = np.asarray(episode["rewards"]), np.asarray(episode["truncations"])
        actions = np.asarray(episode["actions"] if acting else ())
        yield episode["observations"], actions.ravel(), rewards.ravel(), cuts.ravel()


def _arrow_episode(storage: Any, index: int, acting: bool) -> _Episode:
    """Read an episode from its Arrow or Parquet files.

    The column of rewards is padded at the end; the metadata says how many there are.
    """
    (metadata,) = storage.get_episode_metadata([index])
    arrow: Any = import_module("pyarrow.dataset")  # it brings pandas along
    table = arrow.dataset(
        storage.data_path / str(index),
        format=storage.FORMAT,
        ignore_prefixes=["_", ".", "metadata.json"],
    ).to_table(columns=["observations", *(["actions"] if acting else []), "rewards", "truncations"])
    steps = metadata["total_steps"]
    rewards, cuts = (table.column(name).to_numpy()[:steps] for name in ("rewards", "truncations"))
    actions: Values = np.array(())
    if acting:
        actions = np.ravel(_arrow_values(table.column("actions").combine_chunks()))[:steps]
    return _arrow_values(table.column("observations").combine_chunks()), actions, rewards, cuts


def _arrow_values(column: pa.Array) -> Any:
    """Return observations as an array, or as arrays by name."""
    kind = column.type
    if pa.types.is_struct(kind):
        return {kind.field(at).name: _arrow_values(column.field(at)) for at in range(len(kind))}
    if pa.types.is_fixed_size_list(kind):
        return _arrow_values(column.flatten()).reshape(len(column), -1)
    return column.to_numpy(zero_copy_only=False)


def _unreadable(place: str, problem: Exception) -> DataError:
    """Return what to raise for a dataset that cannot be read."""
    return DataError(f"{place} cannot be read as a Minari dataset: {one_line(problem)}")
