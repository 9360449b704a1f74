"""Run the command line: parse, call, print.

There is one function for each command, each with ``--json``. Only here are options named: an error
of the library names a parameter, and ``_options`` translates it on its way to the screen. Exit
codes are in ``privalue.errors``.
"""

from privalue.cli._app import app, main, run

__all__ = ["app", "main", "run"]
