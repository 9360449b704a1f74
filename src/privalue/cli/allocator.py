"""Keep the memory that rows leave behind, for the rows that come next.

Rows come and go by the megabyte. Left to itself the C library returns such pieces to the system at
once, and fetches them again page by page: a third of the time that a large file takes. This is a
setting of a whole process, so the command line makes it, and the library never does.
"""

import ctypes
import sys

# From malloc.h of the GNU C library.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
_KEPT = 1 << 30  # more than this at the end of the heap goes back to the system
_LARGE = 10 << 20  # pieces beyond this size come from the system, and go back to it


def keep_freed_memory() -> None:
    """Have the allocators of C and of Arrow use freed memory again; on Linux alone."""
    if not sys.platform.startswith("linux"):
        return
    tune = getattr(ctypes.CDLL(None), "mallopt", None)
    if tune is None:
        return
    import pyarrow as pa  # noqa: PLC0415 - a command that reads no rows needs none of it

    tune(_ARENA_MAX, 1)
    tune(_TRIM_THRESHOLD, _KEPT)
    tune(_MMAP_THRESHOLD, _LARGE)
    pa.set_memory_pool(pa.system_memory_pool())
