"""Numbers kept in memory while there is room, and then on disk.

The file has no name: nobody else can open it, and it is gone with the process, however that ends.
"""

import os
import tempfile
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privalue.errors import DataError

Words = NDArray[np.int32]


class Spill:
    """Buffers of words; several threads may fill, keep and read at once."""

    def __init__(self, room: int) -> None:
        self._room = room  # bytes that may still be held in memory
        self._file: Any = None
        self._end = 0
        self._spare: list[Words] = []  # buffers whose words are on disk
        self._lock = Lock()

    def buffer(self, size: int) -> Words:
        """Room for so many words, to be filled and kept."""
        with self._lock:
            if self._spare and len(self._spare[-1]) >= size:
                return self._spare.pop()[:size]
        return np.empty(size, dtype=np.int32)

    def keep(self, words: Words) -> Words | int:
        """The buffer itself, or the place in the file where its words are from now on."""
        with self._lock:
            place, held = self._end, self._room >= words.nbytes
            if held:
                self._room -= words.nbytes
                return words
            self._end += words.nbytes
            self._file = self._file or self._unnamed()
        self._all(os.pwrite, words, place)
        with self._lock:
            self._spare.append(words)
        return place

    def part(self, kept: Words | int, begin: int, end: int) -> Words:
        """The words from ``begin`` up to ``end`` of what was kept."""
        if not isinstance(kept, int):
            return kept[begin:end]
        words = np.empty(end - begin, dtype=np.int32)
        self._all(lambda file, room, at: os.preadv(file, [room], at), words, kept + 4 * begin)
        return words

    def close(self) -> None:
        """Forgets everything."""
        self._spare = []
        if self._file is not None:
            self._file.close()

    def _all(self, move: Any, words: Words, place: int) -> None:
        rest = words.view(np.uint8).data
        try:
            while rest:
                moved = move(self._file.fileno(), rest, place)
                rest, place = rest[moved:], place + moved
        except OSError as problem:
            raise self._refused(problem) from None

    def _unnamed(self) -> Any:
        try:
            return tempfile.TemporaryFile(buffering=0)
        except OSError as problem:
            raise self._refused(problem) from None

    @staticmethod
    def _refused(problem: OSError) -> DataError:
        return DataError(
            f"rows that outgrow the memory cannot be kept in {tempfile.gettempdir()}: "
            f"{problem.strerror}; make room there, set TMPDIR, or give a larger memory="
        )
