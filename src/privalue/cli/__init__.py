"""Run the command line: parse, call, print.

There is one function for each command, each with ``--json``. Exit codes are in ``privalue.errors``.
"""

from privalue.cli.app import app, main, run

__all__ = ["app", "main", "run"]
