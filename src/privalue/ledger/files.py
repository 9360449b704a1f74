"""Write files whole or not at all, and read those that somebody else wrote without a risk.

A file has its name only once all of it is on the disk: neither a crash nor a reader in between
meets a part of it. What is read is a file of a known size, and never a pipe that nobody writes to.
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
    """Return the name of a file that is not whole yet; if two were the same, the second fails."""
    return target.with_name(f".{target.name}.{os.getpid()}-{time.monotonic_ns()}.partial")


@contextmanager
def atomic_file(
    target: Path, *, mode: int | None = None, replace: bool = True, partial: Path | None = None
) -> Iterator[Path]:
    """Yield an empty file to fill, which gets the target's name where the block ends well.

    Args:
        target: the name that the file gets; nobody ever sees a part of it under that name.
        mode: who may read it once it is whole. Until then its owner alone may. Without a mode the
            umask decides, as for any new file.
        replace: whether a file that has the name gives way.
        partial: a file that was made beforehand, and has room for the content; a new one, if None.

    Raises:
        FileExistsError: something has the name, and ``replace`` is false.
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
            _appear(partial, target)
        with suppress(OSError):  # some folders cannot be synced, or not be opened
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
        target: the name that the file gets.
        text: all of it, or its parts in order.
        mode: who may read it; see ``atomic_file``.
        replace: whether a file that has the name gives way.
        partial: see ``atomic_file``.
        errors: what becomes of characters that UTF-8 does not have, as for ``open``.

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


def read_whole(path: str | os.PathLike[str], most: int) -> bytes:
    """Return the content of a file that is not larger than ``most`` bytes.

    What was opened is looked at, not what had the name before or after, so that no exchange in
    between makes a difference.

    Args:
        path: the file.
        most: bytes.

    Raises:
        OSError: it is not a regular file (EINVAL), is too large (EFBIG), or the system refused;
            ``strerror`` is fit for a message.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except ValueError:  # a name with a null byte, or with halves of characters
        raise OSError(errno.ENOENT, "no file can have that name") from None
    except OSError as problem:
        if problem.errno in {errno.ENXIO, errno.ENODEV}:  # a socket, a device without a driver
            raise OSError(errno.EINVAL, _IRREGULAR) from None
        raise
    try:
        about = os.fstat(handle)
        if stat.S_ISDIR(about.st_mode):
            raise OSError(errno.EISDIR, "it is a folder")
        if not stat.S_ISREG(about.st_mode):
            raise OSError(errno.EINVAL, _IRREGULAR)
        if about.st_size > most:
            raise OSError(errno.EFBIG, f"it is larger than {most:,} bytes, the most that is read")
        with open(handle, "rb", closefd=False) as file:
            content = file.read(about.st_size + 1)
        if len(content) > about.st_size:  # or its size is none, as in /proc
            raise OSError(errno.EFBIG, "it grows while it is read")
        return content
    finally:
        os.close(handle)


def _sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _appear(partial: Path, target: Path) -> None:
    """Give a finished file its name, unless something has it: a rename would replace that."""
    try:
        os.link(partial, target)
    except FileExistsError:
        raise
    except OSError:  # some file systems know no links: the name is taken first, then replaced
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        partial.replace(target)
