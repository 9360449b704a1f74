"""Read the statistics of a data set, with the local engine or with Spark."""

from typing import Any

from privalue.core import Limits, Statistics
from privalue.errors import UsageError
from privalue.readers.declaration import Declaration
from privalue.readers.local import read_locally, require_memory, require_threads
from privalue.readers.open import open_source
from privalue.readers.source import Progress
from privalue.study import Study


def read_statistics(
    data: Any,
    study: Study,
    limits: Limits,
    *,
    engine: str = "local",
    memory: int | str | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Statistics:
    """Return the first-visit statistics of ``data``; every engine gives the same bits.

    Args:
        data: a file name, folder or glob, a database, an object in memory, or a recording; for
            Spark, a DataFrame or the name of files.
        study: the study.
        limits: the limits that the core enforces on every unit.
        engine: "local" or "spark".
        memory: approximate limit of the local engine, in bytes or as "2GB"; by default half of the
            memory that the process may use. If rows need more, they are read in several passes;
            none is ever written to disk.
        threads: of the local engine; by default one for each core. Spark has its own setting.
        progress: called with the number of rows read, and of all rows (None if unknown).

    Returns:
        The statistics. They are private.
    """
    declaration = Declaration.of(study, limits.keys)
    if engine == "local":
        resources = {"threads": require_threads(threads), "memory": require_memory(memory)}
        source = open_source(data, declaration.dialect, **resources)
        return read_locally(source, declaration, limits, progress=progress, **resources)
    if engine == "spark":
        if threads is not None:
            raise UsageError("set the cores in Spark's own settings", argument=("threads", threads))
        from privalue.readers.spark import read_with_spark  # noqa: PLC0415 - an extra

        return read_with_spark(data, declaration, limits, progress=progress)
    raise UsageError("it is local or spark", code="engine-unknown", argument=("engine", engine))
