"""Run the command line: parse, call, print.

There is one function for each command, each with ``--json``. An error of the library names the
parameter in Python, which mostly is the option's name. Exit codes are in ``privalue.errors``.
"""

from privalue.cli._app import app, main, run

__all__ = ["app", "main", "run"]
