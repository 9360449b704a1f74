"""Keep numbers in memory while there is room, and then on disk.

The file has no name: nobody else can open it, and it is gone with the process, however that ends.
"""

import os
import tempfile
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privalue.errors import DataError

Packed = NDArray[np.int32]


class Spill:
    """Buffers of packed rows; several threads may fill, keep and read at once."""

    def __init__(self, room: int) -> None:
        self._room = room  # bytes that may still be held in memory
        self._file: Any = None
        self._end = 0
        self._spare: list[Packed] = []  # buffers whose rows are on disk
        self._lock = Lock()

    def buffer(self, size: int) -> Packed:
        """Return room for so many numbers, to be filled and kept."""
        with self._lock:
            if self._spare and len(self._spare[-1]) >= size:
                return self._spare.pop()[:size]
        return np.empty(size, dtype=np.int32)

    def keep(self, packed: Packed) -> Packed | int:
        """Return the buffer itself, or the place in the file where its rows are from now on."""
        with self._lock:
            place, held = self._end, self._room >= packed.nbytes
            if held:
                self._room -= packed.nbytes
                return packed
            self._end += packed.nbytes
            self._file = self._file or self._unnamed()
        self._all(os.pwrite, packed, place)
        if packed.flags.writeable:  # else it is somebody else's, and nobody may fill it again
            with self._lock:
                self._spare.append(packed)
        return place

    def part(self, kept: Packed | int, begin: int, end: int) -> Packed:
        """Return the numbers from ``begin`` up to ``end`` of what was kept."""
        if not isinstance(kept, int):
            return kept[begin:end]
        packed = np.empty(end - begin, dtype=np.int32)
        self._all(lambda file, room, at: os.preadv(file, [room], at), packed, kept + 4 * begin)
        return packed

    def close(self) -> None:
        """Forget everything; the file disappears."""
        self._spare = []
        if self._file is not None:
            self._file.close()

    def _all(self, move: Any, packed: Packed, place: int) -> None:
        """Write or read a whole buffer: the system may move less at a time."""
        rest = packed.view(np.uint8).data
        try:
            while rest:
                moved = move(self._file.fileno(), rest, place)
                rest, place = rest[moved:], place + moved
        except OSError as problem:
            raise self._refused(problem) from None

    def _unnamed(self) -> Any:
        """Open a file without a name, in the folder for temporary files."""
        try:
            return tempfile.TemporaryFile(buffering=0)
        except OSError as problem:
            raise self._refused(problem) from None

    @staticmethod
    def _refused(problem: OSError) -> DataError:
        """Return what to raise if the disk does not take the rows."""
        return DataError(
            f"rows that outgrow the memory cannot be kept in {tempfile.gettempdir()}: "
            f"{problem.strerror}; make room there, set TMPDIR, or allow more memory"
        )
