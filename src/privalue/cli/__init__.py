"""The command line: parse, call, print.

One command per function, each with ``--json``. Only here are options named: errors of the library
name parameters, and are translated on their way to the screen. Exit codes are in ``errors``.
"""

from privalue.cli._app import app, main, run

__all__ = ["app", "main", "run"]
