"""Choose how to compute the statistics of a source: every engine gives the same bits."""

from collections.abc import Callable
from typing import Any

from privalue.core import Statistics
from privalue.errors import UsageError
from privalue.readers import _local as local
from privalue.readers._local import DEFAULT_MEMORY
from privalue.study import Study

ENGINES = ("local", "spark")


def gathered(
    data: Any,
    study: Study,
    *,
    engine: str = "local",
    memory: int = DEFAULT_MEMORY,
    threads: int | None = None,
    progress: Callable[[int, int | None], None] | None = None,
) -> Statistics:
    """Return the first-visit statistics of ``data``.

    Args:
        data: whatever ``open_source`` opens; for Spark, a DataFrame or the name of files.
        study: what is public.
        engine: "local" or "spark".
        memory: bytes, about, that the local engine may use; with Spark, each task.
        threads: of the local engine; one for each core, if left out. Spark has its own.
        progress: gets rows done and rows in all, or None if that is not known.

    Returns:
        The statistics. They are private.
    """
    if engine == "local":
        return local.statistics(data, study, memory=memory, progress=progress, threads=threads)
    if engine == "spark" and study.values_a_policy:
        raise UsageError('dp-ope is read on one machine so far; use engine="local"')
    if engine == "spark":
        if threads is not None:
            raise UsageError("threads= is for the local engine; Spark's cores are Spark's settings")
        from privalue.readers import spark  # noqa: PLC0415 - an extra

        return spark.statistics(data, study, memory=memory, progress=progress)
    raise UsageError(f"engine = {engine!r} is not known; use one of {', '.join(ENGINES)}")


__all__ = ["DEFAULT_MEMORY", "ENGINES", "gathered"]
