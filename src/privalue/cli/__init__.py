"""The command line."""

from privalue.cli._app import app, main, run

__all__ = ["app", "main", "run"]
