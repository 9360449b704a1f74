"""Read Minari datasets: discrete observations, or numbers in bins. Extra: ``minari``.

``minari:toy/lake-v0`` is a dataset of the local Minari storage; nothing is ever downloaded. The
folder of a dataset and a ``MinariDataset`` are accepted as well, in Minari's default storage, HDF5.
An episode is a trajectory, and each of its transitions is a row: the observation acted on, counted
from the first of its space, the reward received and, where the study has actions, the action taken,
counted likewise. The final observation has no row.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privalue.errors import DataError, MissingComponentError
from privalue.readers.episodes import observed, recorded_ids, state_roles
from privalue.readers.source import (
    BATCH_ROWS,
    Batch,
    Dialect,
    Source,
    numbered,
    one_line,
    ready,
    texts,
)
from privalue.readers.tables import as_arrow

_PREFIX = "minari:"
_UNREADABLE = (OSError, ValueError, KeyError, TypeError, AssertionError, pa.ArrowException)
_BINS = ", one number per state; [states] bins makes states of numbers"


def open_minari(data: Any, dialect: Dialect) -> Source | None:
    """Return the transitions of a Minari dataset, or None if ``data`` is not one."""
    found = _dataset(data)
    if found is None:
        return None
    dataset, place = found
    if dataset.storage.FORMAT != "hdf5":
        raise DataError(
            f"{place} is stored as {dataset.storage.FORMAT}; only Minari's default, hdf5, is read"
        )
    roles, acting = state_roles(dialect), "action" in dialect.columns
    firsts = (
        _first(dataset.observation_space, place, "observations", _BINS)
        if roles == ["state"]
        else 0,
        _first(dataset.action_space, place, "actions", "") if acting else 0,
    )
    has = [*recorded_ids(dialect), "step", *roles, "action", "reward", "truncated"]
    names = [name for role, name in dialect.columns.items() if role in has]
    try:
        rows = int(dataset.total_steps)
    except _UNREADABLE as problem:
        raise _unreadable(place, problem) from None
    return Source(
        schemas=((place, texts(names)),),
        tasks=lambda _: ready(_batches(dataset, firsts, dialect, place)),
        rows=rows,
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


def _first(space: Any, place: str, what: str, more: str) -> int:
    """Return the observation that is state 0, or the action that is 0: the first of the space."""
    spaces: Any = import_module("gymnasium.spaces")
    if isinstance(space, spaces.Discrete):
        return int(space.start)
    if isinstance(space, spaces.MultiDiscrete) and space.shape == (1,):
        return int(space.start[0])
    raise DataError(f"{place} has {what} {one_line(space)}; they must be Discrete{more}")


def _batches(
    dataset: Any, firsts: tuple[int, int], dialect: Dialect, place: str
) -> Iterator[Batch]:
    """Yield the rows of all episodes; a batch holds whole episodes of the same types."""
    waiting: list[pa.RecordBatch] = []
    first = 1

    def flush() -> Iterator[Batch]:
        nonlocal first, waiting
        if waiting:
            rows = pa.concat_batches(waiting)
            yield Batch(rows, numbered(place, first), episode_ids=True)
            first, waiting = first + rows.num_rows, []

    indices = [int(index) for index in dataset.episode_indices]
    episodes = iter(dataset.storage.get_episodes(indices))
    for index in indices:
        try:
            episode = next(episodes)
        except _UNREADABLE as problem:  # of the storage, and not of one episode
            raise _unreadable(f"{place}, episode {index}", problem) from None
        try:
            rows = _rows(episode, index, firsts, dialect)
        except _UNREADABLE as problem:
            yield from flush()
            empty = pa.record_batch(
                [pa.nulls(0)] * len(dialect.columns), [*dialect.columns.values()]
            )
            message = f"{place}, episode {index}: {one_line(problem)}"
            yield Batch(empty, numbered(place, first), left_out=1, problem=message)
            continue
        if waiting and waiting[-1].schema != rows.schema:  # no episode may change another's type
            yield from flush()
        waiting.append(rows)
        if sum(some.num_rows for some in waiting) >= BATCH_ROWS:
            yield from flush()
    yield from flush()


def _rows(
    episode: Mapping[str, Any], index: int, firsts: tuple[int, int], dialect: Dialect
) -> pa.RecordBatch:
    """Return the transitions of an episode; raise a ValueError if its arrays do not go together."""
    rewards = np.ravel(episode["rewards"])
    steps, roles = len(rewards), state_roles(dialect)
    columns = {role: np.full(steps, index) for role in recorded_ids(dialect)}
    columns |= {"step": np.arange(steps), "reward": rewards}
    for role, values in zip(roles, _observations(episode["observations"], dialect), strict=True):
        if len(values) != steps + 1 or steps == 0:
            raise ValueError(
                f"it has {len(values)} observations and {steps} rewards; an episode has at least "
                "one reward, and one more observation"
            )
        columns[role] = _counted_from(firsts[0], values[:-1])
    columns["truncated"] = np.ravel(episode["truncations"])
    if "action" in dialect.columns:
        columns["action"] = _counted_from(firsts[1], np.ravel(episode["actions"]))
    if any(len(column) != steps for column in columns.values()):
        raise ValueError(f"it has {steps} rewards, and not as many actions or truncations")
    named = {name: columns[role] for role, name in dialect.columns.items() if role in columns}
    return pa.record_batch(
        [as_arrow(column, dialect.decimal) for column in named.values()], names=list(named)
    )


def _observations(values: Any, dialect: Dialect) -> list[NDArray[Any]]:
    """Return the columns that states are made of, one value for each observation."""
    roles = state_roles(dialect)
    if isinstance(values, Mapping):
        return [np.ravel(values[dialect.columns[role]]) for role in roles]
    array = np.asarray(values)
    if roles == ["state"]:
        return [array.ravel()]
    array = array.reshape(len(array), -1)
    wanted = observed(dialect, array.shape[1])
    if wanted is None:
        raise ValueError(f"observations have {array.shape[1]} numbers, and the bins are of others")
    return [array[:, at] for at in wanted]


def _counted_from(first: int, values: NDArray[Any]) -> NDArray[Any]:
    """Return observations as states, or actions, counted from the first of the space."""
    if first == 0:
        return values
    # Wide enough not to wrap around: an observation below the first must stay invalid.
    return values.astype(np.promote_types(values.dtype, np.int64)) - first


def _unreadable(place: str, problem: Exception) -> DataError:
    """Return what to raise for a dataset that cannot be read."""
    return DataError(f"{place} cannot be read as a Minari dataset: {one_line(problem)}")
