"""What the benchmarks share: missed bars, and a package as it is installed."""

import compileall
from pathlib import Path

MISSED: list[str] = []  # the bars that were missed, each in a line; ``make bench`` fails with them


def as_installed() -> None:
    """Compile the package to bytecode, as an installer does: commands start with it."""
    import privalue  # noqa: PLC0415

    compileall.compile_dir(Path(privalue.__file__).parent, quiet=2)
