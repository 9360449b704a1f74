"""Read the statistics of a data set by the engine that is asked for."""

from typing import Any

from privalue.core import Limits, Statistics
from privalue.errors import UsageError
from privalue.readers.declaration import Declaration
from privalue.readers.local import default_memory, read_locally, require_threads
from privalue.readers.open import open_source
from privalue.readers.source import Progress
from privalue.study import Study

ENGINES = ("local", "spark")


def read_statistics(
    data: Any,
    study: Study,
    limits: Limits,
    *,
    engine: str = "local",
    memory: int | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Statistics:
    """Return the first-visit statistics of ``data``; every engine gives the same bits.

    Args:
        data: a file name, folder or glob, a database, an object in memory, or a recording; for
            Spark, a DataFrame or the name of files.
        study: what is public.
        limits: what the core holds units to.
        engine: "local" or "spark".
        memory: bytes, about, that the local engine may use; by default half of what the process
            may. Rows that take more are read in several passes; none is ever put on disk.
        threads: of the local engine; one for each core, if left out. Spark has its own.
        progress: gets rows done and rows in all, or None if that is not known.

    Returns:
        The statistics. They are private.
    """
    declaration = Declaration.of(study, limits.keys)
    if engine == "local":
        many, room = require_threads(threads), default_memory() if memory is None else memory
        source = open_source(data, declaration.dialect, threads=many, memory=room)
        return read_locally(
            source, declaration, limits, memory=room, threads=many, progress=progress
        )
    if engine == "spark":
        if threads is not None:
            raise UsageError(
                "threads are for the local engine; Spark's cores are Spark's settings",
                argument=("threads", threads),
            )
        from privalue.readers.spark import read_with_spark  # noqa: PLC0415 - an extra

        return read_with_spark(data, declaration, limits, progress=progress)
    raise UsageError(
        f"it must be one of {', '.join(ENGINES)}",
        code="engine-unknown",
        argument=("engine", engine),
    )
