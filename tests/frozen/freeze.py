"""Keeps today's behaviour, or compares it with what is kept.

From the root of the repository, with the environment that ``make setup`` makes::

    PYTHONPATH=tests .venv/bin/python -m frozen.freeze              # keep all, over what was kept
    PYTHONPATH=tests .venv/bin/python -m frozen.freeze NAME ...     # keep these
    PYTHONPATH=tests .venv/bin/python -m frozen.freeze --compare    # write nothing; exit 1 if any
                                                                    # differs, a line each

What is kept is in ``tests/frozen/kept`` (``record.py`` says what), of the studies in
``studies.py``; ``compare.py`` has the tolerances. Keep anew only where behaviour is meant to
change, and look at the difference that it makes there.

Linear algebra takes other kernels on other processors, which round in another order: some released
numbers of studies with feature matrices, or a start distribution, then differ in their last digits.
So a process of this script asks for kernels that every x86-64 processor has (``PLAIN_KERNELS``),
whatever the machine offers; NumPy reads that while it is imported, so that it must be a process of
its own. For the same reason constants that were remembered on disk, by whatever kernels, are left
alone.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from frozen.compare import differences
from frozen.record import KEPT, loaded, recorded, saved
from frozen.studies import STUDIES, Frozen
from oracles.spark import start_session

PLAIN_KERNELS = {
    "OPENBLAS_CORETYPE": "Nehalem",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR X86_V3",
}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Keep today's behaviour, or compare with it.")
    parser.add_argument("names", nargs="*", help="studies; all, if left out")
    parser.add_argument("--compare", action="store_true", help="write nothing")
    options = parser.parse_args(arguments)
    studies = [STUDIES[name] for name in options.names or STUDIES]
    count = 0
    with tempfile.TemporaryDirectory(prefix="frozen-cache-") as cache, spark_if_needed(studies):
        os.environ["XDG_CACHE_HOME"] = cache
        for study in studies:
            count += compare(study) if options.compare else keep(study)
    return 1 if count else 0


def keep(study: Frozen) -> int:
    KEPT.mkdir(exist_ok=True)
    saved(recorded(study), study.name)
    return 0


def compare(study: Frozen) -> int:
    lines = differences(loaded(study.name), recorded(study), smooth=study.smooth)
    for line in lines:
        print(f"{study.name}: {line}")
    return len(lines)


@contextmanager
def spark_if_needed(studies: list[Frozen]) -> Iterator[None]:
    """One quiet session for all studies of the engine spark."""
    if all(study.engine != "spark" for study in studies):
        yield
        return
    with tempfile.TemporaryDirectory(prefix="frozen-spark-") as folder:
        session = start_session(Path(folder))
        try:
            yield
        finally:
            session.stop()


if __name__ == "__main__":
    if not PLAIN_KERNELS.items() <= os.environ.items():
        again = [sys.executable, "-m", "frozen.freeze", *sys.argv[1:]]
        os.execve(sys.executable, again, {**os.environ, **PLAIN_KERNELS})
    sys.exit(main(sys.argv[1:]))
