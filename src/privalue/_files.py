"""Write files whole or not at all.

A file has its name only once all of it is on the disk: neither a crash nor a reader in between
meets a part of it.
"""

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def whole_file(target: Path, *, mode: int | None = None, replace: bool = True) -> Iterator[Path]:
    """Yield an empty file to fill, which gets the target's name where the block ends well.

    Args:
        target: the name that the file gets; nobody ever sees a part of it under that name.
        mode: who may read it once it is whole. Until then its owner alone may. Without a mode the
            umask decides, as for any new file.
        replace: whether a file that has the name gives way.

    Raises:
        FileExistsError: something has the name, and ``replace`` is false.
        OSError: the folder or the disk refused.
    """
    # No two writers have the same process and moment; if two had, the second would fail to open.
    partial = target.with_name(f".{target.name}.{os.getpid()}-{time.monotonic_ns()}.partial")
    opened = os.O_CREAT | os.O_EXCL | os.O_WRONLY
    os.close(os.open(partial, opened, 0o666 if mode is None else 0o600))
    try:
        yield partial
        if mode is not None:
            partial.chmod(mode)
        _sync(partial)
        if replace:
            partial.replace(target)
        else:
            _appear(partial, target)
        with suppress(OSError):  # some folders cannot be synced, or not be opened; SQLite goes on
            _sync(target.parent)
    finally:
        with suppress(OSError):
            partial.unlink()


def write_whole(
    target: Path,
    text: str | Iterable[str],
    *,
    mode: int | None = None,
    replace: bool = True,
    errors: str = "strict",
) -> Path:
    """Write a text in UTF-8, as ``whole_file`` does.

    Args:
        target: the name that the file gets.
        text: all of it, or its parts in order.
        mode: who may read it; see ``whole_file``.
        replace: whether a file that has the name gives way.
        errors: what becomes of characters that UTF-8 does not have, as for ``open``.

    Returns:
        The target.
    """
    with (
        whole_file(target, mode=mode, replace=replace) as partial,
        partial.open("w", encoding="utf-8", errors=errors, newline="") as file,
    ):
        file.writelines([text] if isinstance(text, str) else text)
    return target


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
