"""Record today's results of the studies, or compare them with the records.

From the root of the repository, with the environment that ``make setup`` makes::

    PYTHONPATH=tests .venv/bin/python -m frozen.freeze              # replace all records
    PYTHONPATH=tests .venv/bin/python -m frozen.freeze NAME ...     # replace these
    PYTHONPATH=tests .venv/bin/python -m frozen.freeze --compare    # write nothing; exit 1 if any
                                                                    # differs, a line each

Records are in ``tests/frozen/records`` (``record.py`` says of what), the studies in ``studies.py``;
``compare.py`` has the tolerances. Replace a record only where results are meant to change, and look
at the difference that it makes there.

Linear algebra takes other kernels on other processors, which round in another order: some released
numbers of studies with feature matrices, or a start distribution, then differ in their last digits.
So a process of this script asks for kernels that every x86-64 processor has (``PLAIN_KERNELS``),
whatever the machine offers; NumPy reads that while it is imported, so that it must be a process of
its own. For the same reason constants that other kernels stored on disk are not used.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from frozen.compare import differences
from frozen.record import RECORDS, load, make_record, save
from frozen.studies import STUDIES, Frozen
from oracles.spark import start_session

PLAIN_KERNELS = {
    "OPENBLAS_CORETYPE": "Nehalem",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR X86_V3",
}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Record today's results, or compare them.")
    parser.add_argument("names", nargs="*", help="studies; all, if left out")
    parser.add_argument("--compare", action="store_true", help="write nothing")
    options = parser.parse_args(arguments)
    studies = [STUDIES[name] for name in options.names or STUDIES]
    count = 0
    with tempfile.TemporaryDirectory(prefix="frozen-cache-") as cache, spark_if_needed(studies):
        os.environ["XDG_CACHE_HOME"] = cache
        for study in studies:
            count += compare(study) if options.compare else replace(study)
    return 1 if count else 0


def replace(study: Frozen) -> int:
    RECORDS.mkdir(exist_ok=True)
    save(make_record(study), study.name)
    return 0


def compare(study: Frozen) -> int:
    lines = differences(load(study.name), make_record(study), smooth=study.smooth)
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
