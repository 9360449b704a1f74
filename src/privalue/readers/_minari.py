"""Minari datasets with discrete observations. Extra: ``minari``.

``minari:toy/lake-v0`` is a dataset of the local Minari storage, which is never asked to download
one; a dataset's folder and a ``MinariDataset`` do as well. An episode is a trajectory, and each of
its transitions a row: the observation acted on, counted from the first of its space, and the
reward received. The final observation gets no row. Values are passed on as they are: ``encode``
judges them.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset
from numpy.typing import NDArray

from privalue.errors import DataError, MissingComponentError
from privalue.readers._chunks import BATCH_ROWS, Chunk, Location, Source, one_line
from privalue.readers._python_cells import as_arrow
from privalue.readers._rules import RowRules

_PREFIX = "minari:"
_UNREADABLE = (OSError, ValueError, KeyError, TypeError, AssertionError, pa.ArrowException)

Values = NDArray[Any]


def open_minari(data: Any, rules: RowRules) -> Source | None:
    """The transitions of a Minari dataset, or None where ``data`` is none."""
    found = _dataset(data)
    if found is None:
        return None
    dataset, place = found
    if rules.by_person:
        raise DataError(
            f'{place} names no person, and unit = "person" needs one; give a table with the column '
            f"{rules.columns['person']!r}"
        )
    rules.require_types([(rules.columns["step"], pa.int64())], place)
    first_state = _first_state(dataset.observation_space, place)
    indices = [int(index) for index in dataset.episode_indices]
    try:
        total_rows = int(dataset.total_steps)
    except _UNREADABLE as problem:
        raise _unreadable(place, problem) from None
    return Source(
        lambda: _chunks(dataset.storage, indices, first_state, rules, place),
        # An episode that is listed twice must be sorted, and refused as a step that stands twice.
        in_order=all(here < after for here, after in pairwise(indices)),
        total_rows=total_rows,
    )


def _dataset(data: Any) -> tuple[Any, str] | None:
    """The dataset and what to call it."""
    if not isinstance(data, str | Path):
        module = sys.modules.get("minari")  # whoever holds a dataset has imported it
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
    """Where a dataset's data is: in the folder ``data`` of its own folder, which may be given."""
    for folder in (path / "data", path):
        try:
            metadata = json.loads((folder / "metadata.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(metadata, dict) and {"total_episodes", "data_format"} <= set(metadata):
            return folder
    return None


def _first_state(space: Any, place: str) -> int:
    """What the space begins with: state 0, as in a rollout."""
    spaces: Any = import_module("gymnasium.spaces")
    if isinstance(space, spaces.Discrete):
        return int(space.start)
    if isinstance(space, spaces.MultiDiscrete) and space.shape == (1,):
        return int(space.start[0])
    raise DataError(
        f"{place} has observations {one_line(space)}; they must be Discrete, one number per "
        "state: map them to numbers and give a table"
    )


def _chunks(
    storage: Any, indices: Sequence[int], first_state: int, rules: RowRules, place: str
) -> Iterator[Chunk]:
    parts: list[tuple[Values, Values, Values, Values]] = []
    first_row, waiting = 1, 0
    episodes = _episodes(storage, indices)
    for index in indices:
        try:
            observations, rewards = next(episodes)
            states = _counted_from(first_state, observations[:-1])
        except _UNREADABLE as problem:
            raise _unreadable(f"{place}, episode {index}", problem) from None
        steps = len(rewards)
        if len(observations) != steps + 1 or steps == 0:
            if rules.drop_invalid:
                continue
            raise DataError(
                f"{place}, episode {index}, has {len(observations)} observations and {steps} "
                "rewards; an episode has at least one reward, and one more observation"
            )
        part = (np.full(steps, index), np.arange(steps), states, rewards)
        if parts and _types(parts[-1]) != _types(part):  # no episode decides another's type
            yield Chunk(Location(place, first_row), _batch(parts, rules, place))
            first_row, waiting, parts = first_row + waiting, 0, []
        parts.append(part)
        waiting += steps
        if waiting >= BATCH_ROWS:
            yield Chunk(Location(place, first_row), _batch(parts, rules, place))
            first_row, waiting, parts = first_row + waiting, 0, []
    if parts:
        yield Chunk(Location(place, first_row), _batch(parts, rules, place))


def _column(values: Values) -> pa.Array:
    try:
        return pa.array(values)
    except pa.ArrowException:  # of a type that Arrow has not: cell by cell, as what each one is
        return as_arrow(values.tolist())


def _types(part: tuple[Values, ...]) -> list[np.dtype[Any]]:
    return [column.dtype for column in part]


def _counted_from(first_state: int, observations: Values) -> Values:
    if first_state == 0:
        return observations
    # Wide enough not to wrap around: an observation below the first is no state.
    return observations.astype(np.promote_types(observations.dtype, np.int64)) - first_state


def _batch(
    parts: list[tuple[Values, Values, Values, Values]], rules: RowRules, place: str
) -> pa.RecordBatch:
    names = [rules.columns[role] for role in (*rules.id_roles, "step", "state", "reward")]
    try:
        arrays = [_column(np.concatenate(column)) for column in zip(*parts, strict=True)]
        arrays = [*arrays[:1] * (len(rules.id_roles) - 1), *arrays]
    except _UNREADABLE as problem:
        raise _unreadable(place, problem) from None
    return pa.record_batch(arrays, names=names)


def _episodes(storage: Any, indices: Sequence[int]) -> Iterator[tuple[Values, Values]]:
    """Observations and rewards of every episode, one by one."""
    if storage.FORMAT in {"arrow", "parquet"}:
        # Minari 0.5.4 takes an episode for one batch of Arrow, which it is up to 32,768 rows only.
        for index in indices:
            yield _arrow_episode(storage, index)
        return
    for episode in storage.get_episodes(indices):
        observations, rewards = episode["observations"], episode["rewards"]
        yield np.asarray(observations).ravel(), np.asarray(rewards).ravel()


def _arrow_episode(storage: Any, index: int) -> tuple[Values, Values]:
    """The rows of an episode's files; rewards are as many as its metadata says, then padding."""
    (metadata,) = storage.get_episode_metadata([index])
    table = pyarrow.dataset.dataset(
        storage.data_path / str(index),
        format=storage.FORMAT,
        ignore_prefixes=["_", ".", "metadata.json"],
    ).to_table(columns=["observations", "rewards"])
    observations = table.column("observations").combine_chunks()
    if pa.types.is_fixed_size_list(observations.type):
        observations = observations.flatten()
    rewards = table.column("rewards").to_numpy()[: metadata["total_steps"]]
    return observations.to_numpy(zero_copy_only=False), rewards


def _unreadable(place: str, problem: Exception) -> DataError:
    return DataError(f"{place} cannot be read as a Minari dataset: {one_line(problem)}")
