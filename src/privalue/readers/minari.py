"""Read Minari datasets, with discrete observations or numbers in bins. Extra: ``minari``.

``minari:toy/lake-v0`` is a dataset of the local Minari storage; nothing is ever downloaded. The
folder of a dataset and a ``MinariDataset`` are accepted as well, in Minari's default storage, HDF5.
An episode is a trajectory, and each of its transitions is a row: the observation acted on, the
reward received and, if the study has actions, the action taken. The final observation has no row.
"""

import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from os.path import isfile
from pathlib import Path
from typing import Any

import numpy as np

from privalue.errors import MissingComponentError, one_line
from privalue.readers.episodes import (
    open_elements,
    require_no_rewards_of_ends,
    require_truncated,
)
from privalue.readers.messages import data_error, render
from privalue.readers.source import Dialect, Source

_PREFIX = "minari:"
_UNREADABLE = (OSError, ValueError, KeyError, TypeError, AssertionError, IndexError)


def open_minari(data: Any, dialect: Dialect) -> Source | None:
    """Return the transitions of a Minari dataset, or None if ``data`` is not one."""
    dataset, place = _open_dataset(data) or (None, "")
    if dataset is None:
        return None
    if dataset.storage.FORMAT != "hdf5":
        raise data_error("minari-storage", place=place, kind=dataset.storage.FORMAT)
    require_no_rewards_of_ends(dialect)
    require_truncated(place, dialect)

    def elements() -> Iterator[tuple[int, Any]]:
        indices = [int(index) for index in dataset.episode_indices]
        try:
            episodes = dataset.storage.get_episodes(indices)
            for index, episode in zip(indices, episodes, strict=True):
                yield index, _drop_final_observation(episode)
        except _UNREADABLE as problem:  # of the storage, not of a single episode
            raise data_error("minari-unreadable", place=place, problem=one_line(problem)) from None

    return open_elements(elements, dialect, recording=place)


def _drop_final_observation(episode: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return an episode without its final observation; None if the episode is malformed."""
    try:
        return {
            "observations": episode["observations"][:-1],
            "actions": episode["actions"],
            "rewards": episode["rewards"],
            "terminated": not np.any(episode["truncations"]),
        }
    except _UNREADABLE:
        return None


def _open_dataset(data: Any) -> tuple[Any, str] | None:
    """Return the dataset and its name in messages, or None if ``data`` is not a dataset."""
    if not isinstance(data, str | Path):
        module = sys.modules.get("minari")  # a caller that has a dataset has imported it
        if module is None or not isinstance(data, module.MinariDataset):
            return None
        return data, f"{_PREFIX}{data.id}"
    place = str(data)
    has_prefix = place.startswith(_PREFIX)
    folder = None if has_prefix else _data_folder(Path(data))
    if not has_prefix and folder is None:
        return None
    try:
        minari: Any = import_module("minari")
        if has_prefix:
            return minari.load_dataset(place.removeprefix(_PREFIX), download=False), place
        return minari.MinariDataset(folder), place
    except ImportError:  # of Minari, or of its storage
        raise MissingComponentError(render("minari-missing", place=place)) from None
    except FileNotFoundError:
        raise data_error("minari-absent", place=place) from None
    except _UNREADABLE as problem:
        raise data_error("minari-unreadable", place=place, problem=one_line(problem)) from None


def _data_folder(path: Path) -> Path | None:
    """Return the folder that holds a dataset's metadata: ``path/data`` or ``path``, or None."""
    for folder in (path / "data", path):
        about = folder / "metadata.json"
        if isfile(about) and b"total_episodes" in about.read_bytes():
            return folder
    return None
