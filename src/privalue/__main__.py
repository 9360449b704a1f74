"""Run the command line: ``privalue``, or ``python -m privalue``."""

import os
import signal
from typing import NoReturn


def main() -> None:
    """Import the command line, and run it."""
    # Before a command is imported, an interrupt ends the process at once: as an exception it could
    # turn an import into another error.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupted)
    from privalue.cli import main as run_program  # noqa: PLC0415 - slow

    run_program()


def _interrupted(*_: object) -> NoReturn:
    """Report the interrupt in one line, and end the process."""
    os.write(2, b"privalue: interrupted\n")
    os._exit(130)


if __name__ == "__main__":
    main()
