"""Write files atomically, and read untrusted files safely.

A file appears under its name only once all of it is on the disk: neither a crash nor a concurrent
reader sees a part of it. Only regular files of a known size are read, never a pipe, which could
block for ever.
"""

import errno
import os
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_IRREGULAR = "it is not a regular file, but a pipe, a socket or a device"


def partial_name(target: Path) -> Path:
    """Return a name for an unfinished file; creation is exclusive, so that a clash is an error."""
    return target.with_name(f".{target.name}.{os.getpid()}-{time.monotonic_ns()}.partial")


@contextmanager
def atomic_file(
    target: Path, *, mode: int | None = None, replace: bool = True, partial: Path | None = None
) -> Iterator[Path]:
    """Yield an empty file to fill; if the block succeeds, it is renamed to the target.

    Args:
        target: the final name; an incomplete file is never visible under it.
        mode: permissions of the finished file; until then only its owner can read it. Without a
            mode the umask decides, as for any new file.
        replace: whether to replace an existing file.
        partial: a preallocated file with room for the content; a new one, if None.

    Raises:
        FileExistsError: the target exists, and ``replace`` is false.
        OSError: the folder or the disk refused.
    """
    if partial is None:
        partial = partial_name(target)
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
        os.close(os.open(partial, flags, 0o666 if mode is None else 0o600))
    try:
        yield partial
        if mode is not None:
            partial.chmod(mode)
        _sync(partial)
        if replace:
            partial.replace(target)
        else:
            _link_new(partial, target)
        with suppress(OSError):  # some folders cannot be opened or synced
            _sync(target.parent)
    finally:
        with suppress(OSError):
            partial.unlink()


def atomic_write(
    target: Path,
    text: str | Iterable[str],
    *,
    mode: int | None = None,
    replace: bool = True,
    partial: Path | None = None,
    errors: str = "strict",
) -> Path:
    """Write a text in UTF-8, as ``atomic_file`` does.

    Args:
        target: the final name.
        text: the whole text, or its parts in order.
        mode: permissions; see ``atomic_file``.
        replace: whether to replace an existing file.
        partial: see ``atomic_file``.
        errors: how to handle characters that UTF-8 cannot encode, as for ``open``.

    Returns:
        The target.
    """
    with (
        atomic_file(target, mode=mode, replace=replace, partial=partial) as unfinished,
        unfinished.open("r+", encoding="utf-8", errors=errors, newline="") as file,
    ):
        file.writelines([text] if isinstance(text, str) else text)
        file.truncate()
    return target


def read_whole(path: str | os.PathLike[str], limit: int) -> bytes:
    """Return the content of a file of at most ``limit`` bytes.

    The checks are made on the open file, not on its name, so that replacing the file between check
    and read makes no difference.

    Args:
        path: the file.
        limit: the largest size, in bytes.

    Raises:
        OSError: it is not a regular file (EINVAL), is too large (EFBIG), or the system refused;
            ``strerror`` can be shown in a message.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except ValueError:  # a name with a null byte, or with lone surrogates
        raise OSError(errno.ENOENT, "no file can have that name") from None
    except OSError as problem:
        if problem.errno in {errno.ENXIO, errno.ENODEV}:  # a socket, a device without a driver
            raise OSError(errno.EINVAL, _IRREGULAR) from None
        raise
    try:
        status = os.fstat(handle)
        if stat.S_ISDIR(status.st_mode):
            raise OSError(errno.EISDIR, "it is a folder")
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, _IRREGULAR)
        if status.st_size > limit:
            raise OSError(errno.EFBIG, f"it is larger than {limit:,} bytes, the most that is read")
        with open(handle, "rb", closefd=False) as file:
            content = file.read(status.st_size + 1)
        if len(content) > status.st_size:  # or its size is reported as 0, as in /proc
            raise OSError(errno.EFBIG, "it grows while it is read")
        return content
    finally:
        os.close(handle)


def _sync(path: Path) -> None:
    """Wait until a file's content, or a folder's list of names, is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _link_new(partial: Path, target: Path) -> None:
    """Link a finished file to its name, unless that exists: a rename would replace the old file."""
    try:
        os.link(partial, target)
    except OSError:  # it exists, or no hard links do here: reserve the name, then replace it
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        partial.replace(target)
