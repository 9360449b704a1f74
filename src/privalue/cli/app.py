"""List the commands, load the one that is asked for, and run it.

Results go to stdout, log and progress to stderr; with ``--json`` stdout is one JSON object. An
error is one line on stderr, and the exit code says which kind (``privalue.errors``).

Each command is a function of its name, whose docstring is its help text. This module imports none
of them: ``--help`` and ``--version`` answer at once.
"""

import logging
import os
import re
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from importlib import import_module
from itertools import islice, pairwise, takewhile
from typing import Annotated, Any, Literal

import typer
import typer.exceptions

from privalue.errors import DataError, PrivalueError
from privalue.version import VERSION

INTERRUPTED = 130
# In the order of work: the module of each command, and the first sentence of its help.
COMMANDS = {
    "demo": ("demo", "Try every step on simulated data, from a study to a report."),
    "init": ("study_commands", "Write a commented study file."),
    "check": ("study_commands", "Validate a study file (reads no data)."),
    "plan": ("study_commands", "Predict the error of a study before any data is opened."),
    "simulate": ("simulate_command", "Simulate trajectories of a built-in or Gymnasium world."),
    "ledger": ("ledger_commands", "Track a dataset's privacy budget."),
    "inspect": ("release_commands", "Show the curator the results before noise: PRIVATE."),
    "release": ("release_commands", "Release the values once, with noise; this spends budget."),
    "report": ("followup_commands", "Make pages and tables of a release again; spends nothing."),
    "improve": ("followup_commands", "Make a better policy from action values; spends nothing."),
    "refit": ("followup_commands", "Fit other features to a dp-ssp release; spends nothing."),
    "audit": ("audit_command", "Try to break a study's guarantee, on made-up data."),
    "reproduce": (
        "reproduce_command",
        "Repeat the paper's experiments, and compare with today's results.",
    ),
}
EXAMPLE = """
\b
Example:
  privalue init study.toml                        writes a study file: edit it
  privalue check study.toml                       says what follows from it, without data
  privalue plan study.toml --trajectories 5000    predicts the error
  privalue release study.toml --data rows.csv --out released --no-ledger

\b
Documentation: docs/README.md in the source; make docs makes a site of it.
"""


class Commands(typer.core.TyperGroup):
    """The group of commands, each of which is loaded when it is run, or asked for its own help."""

    def list_commands(self, _: Any) -> list[str]:
        """Return the names of the commands, in the order of work."""
        return list(COMMANDS)

    def get_command(self, _: Any, name: str) -> Any:
        """Load a command; None if there is no such command."""
        if name in COMMANDS and name not in self.commands:
            self.commands[name] = _loaded(name)
        return self.commands.get(name)

    def format_commands(self, _: Any, formatter: Any) -> None:
        """List the commands, without loading any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


_ONCE_LOADED: list[Callable[[], None]] = []  # what the program does before its command begins


def _loaded(name: str) -> Any:
    """Import a command's module, and return the command."""
    module = import_module(f"privalue.cli.{COMMANDS[name][0]}")
    for prepare in _ONCE_LOADED:
        prepare()
    found = getattr(module, name)
    if not isinstance(found, typer.Typer):
        alone = typer.Typer(rich_markup_mode="rich", add_completion=False)
        alone.command(name)(found)
        found = alone
    command = typer.main.get_command(found)
    command.name = name
    return command


app = typer.Typer(
    cls=Commands,
    pretty_exceptions_enable=False,  # they would print local variables, private ones included
    rich_markup_mode=None,
    epilog=EXAMPLE,
    suggest_commands=False,  # ``_with_hint`` does, of those that are not loaded too
    context_settings={"help_option_names": ["--help", "-h"]},
)


def _log() -> Any:
    """Return the log, once something is logged: it draws with Rich, which takes its time."""
    return import_module("privalue.cli.console").log


def _version(wanted: bool) -> None:
    """Print the version, and leave."""
    if wanted:
        print(f"privalue {VERSION}")
        raise typer.Exit


def _quiet(wanted: bool) -> None:
    if wanted:
        _log().errors_only = True


def _log_format(chosen: str) -> None:
    if chosen == "json":
        _log().as_json = True


@app.callback()
def _options(
    debug: Annotated[
        bool, typer.Option("--debug", help="Show a traceback (it may quote private data).")
    ] = False,
    quiet: Annotated[
        bool,
        typer.Option(*("--quiet", "-q"), callback=_quiet, is_eager=True, help="Log errors only."),
    ] = False,
    log_format: Annotated[
        Literal["text", "json"],
        typer.Option(
            "--log-format",
            callback=_log_format,
            is_eager=True,
            help="How stderr is written: text for people, json for jobs.",
        ),
    ] = "text",
    version: Annotated[
        bool,
        typer.Option(
            *("--version", "-V"), callback=_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Publish how well a policy works without exposing anyone's record.

    Differentially private policy evaluation.
    """


class LibraryLog(logging.Handler):
    """Passes warnings and logs of the libraries beneath on to the log."""

    def emit(self, record: logging.LogRecord) -> None:
        """Log a record in one line; nobody knows what it quotes."""
        message = f"{record.name}: {' '.join(record.getMessage().split())}"
        _log().warn("library", message, private=True)


def main() -> None:
    """Run the command line and leave with the exit code of what happened."""
    logging.captureWarnings(True)
    logging.getLogger().addHandler(LibraryLog())
    try:
        # Until its command is imported nothing is under way, and an interrupt just ends the process
        # (``privalue.__main__``): an import that it broke off might end as another error.
        _ONCE_LOADED.append(lambda: _listen(_once()))
        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # before or after the command itself
        code = _failed("interrupted", INTERRUPTED, "interrupted", False)
    _listen(lambda *_: os._exit(INTERRUPTED))  # nothing is left but to leave
    sys.exit(code)


def _listen(handler: Callable[..., object]) -> None:
    """Answer Ctrl-C, an end from outside and a terminal that was closed alike.

    What a parent had ignored, as nohup does, stays ignored.
    """
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def _once(seconds: float = 5.0) -> Callable[..., None]:
    """Return what leaves as after Ctrl-C, whatever ends the process from outside.

    So private files on disk are removed before it ends. What comes in the seconds after the first
    signal would only disturb that: a closed terminal sends two, and people press twice.
    """
    heard: list[float] = []

    def interrupted(*_: object) -> None:
        heard.append(time.monotonic())
        if len(heard) == 1 or heard[-1] - heard[0] > seconds:
            raise KeyboardInterrupt

    return interrupted


def run(arguments: list[str]) -> int:
    """Run one command, and return its exit code; an error becomes one line on stderr."""
    try:
        code = _run(arguments)
        if code == 0 and "privalue.cli.console" in sys.modules:
            _log().finish(code)
        return code
    finally:
        if "privalue.cli.console" in sys.modules:
            _log().errors_only = _log().as_json = False  # options hold for one command only
            _log().dataset = None


def _run(arguments: list[str]) -> int:
    """Run one command, and return its exit code.

    Only known errors show their message: any other exception may quote private data, so its type
    alone is shown, unless the user asks for a traceback.
    """
    if not arguments:
        app(["--help"], prog_name="privalue", standalone_mode=False)
        return 2
    arguments = _general_first(arguments)
    debug = "--debug" in arguments
    if "--install-completion" in arguments and not os.path.isabs(os.path.expanduser("~")):
        return _failed("cannot install completion: no home directory", 2, "usage", debug)
    for name in _NAMES & set(_without_values(arguments)):
        return _failed(f"{name} is empty; give a name, or leave it out", 2, "usage", debug)
    try:
        code = app(arguments, prog_name="privalue", standalone_mode=False)
        if code == INTERRUPTED:  # typer makes this of Ctrl-C, and says nothing
            return _failed("interrupted", INTERRUPTED, "interrupted", debug)
        # typer leaves with 1 where it cannot tell which shell to complete for
        return (2 if code == 1 else code) if isinstance(code, int) else 0
    except typer.exceptions.TyperException as problem:
        return _failed(_with_hint(problem), 2, "usage", debug)
    except (typer.Abort, KeyboardInterrupt):
        return _failed("interrupted", INTERRUPTED, "interrupted", debug)
    except PrivalueError as problem:
        quotes_data = isinstance(problem, DataError)
        message = problem.with_options()
        return _failed(message, problem.exit_code, problem.code, debug, private=quotes_data)
    except MemoryError:
        return _failed("there is not enough memory; use fewer states", 3, "memory", debug)
    except UnicodeEncodeError:  # the name of a file, or of what is in it, as the system has it
        message = "a file name is not valid UTF-8; rename it"
        return _failed(message, 3, "file-name", debug, private=True)
    except OSError as problem:
        why = problem.strerror or type(problem).__name__
        return _failed(f"the system refused: {why}", 3, "system", debug)
    except Exception as problem:  # a bug of ours
        return _failed(
            f"internal error ({type(problem).__name__}); this is a bug of privalue: please report "
            "it, without private data (--debug shows a traceback)",
            70,
            "internal",
            debug,
        )


def _general_first(arguments: list[str]) -> list[str]:
    """Move the program's own options before the command: users write them after it as well."""
    own, others, rest = [], [], iter(arguments)
    for word in rest:
        if word == "--":
            others += [word, *rest]
        elif word == "--log-format":
            own += [word, *islice(rest, 1)]
        elif word in {"--debug", "--quiet", "-q"} or word.startswith("--log-format="):
            own.append(word)
        else:
            others.append(word)
    return own + others


_NAMES = {"--ledger", "--out"}  # an empty name would be that of the folder one is in


def _without_values(arguments: list[str]) -> Iterator[str]:
    """Yield the options that are given an empty text, as a script does by an unset variable."""
    for word, value in pairwise([*takewhile(lambda each: each != "--", arguments), "--"]):
        if value == "" or word.endswith("="):
            yield word.removesuffix("=")


def _with_hint(problem: Any) -> str:
    """Return the message of an error in the arguments, with what to do about it."""
    message: str = problem.format_message()
    if message.startswith("Missing command"):
        names = problem.ctx.command.list_commands(problem.ctx)
        return f"{problem.ctx.command_path} needs one of {', '.join(names)}"
    about = getattr(getattr(problem, "param", None), "help", None)
    if message.startswith("Missing option") and about:
        return f"{message} {about}"
    if "unexpected extra argument" in message:
        return f"{message} If that was a glob, quote it: --data 'folder/*.parquet'"
    unknown = re.fullmatch(r"No such command '(.*)'\.", message, re.DOTALL)
    if unknown is not None:
        near = get_close_matches(unknown[1].lower(), problem.ctx.command.list_commands(problem.ctx))
        meant = f"did you mean {' or '.join(near)}? " if near else ""
        return f"{message[:-1]}; {meant}{problem.ctx.command_path} --help lists them"
    return message


def _failed(message: str, exit_code: int, code: str, debug: bool, private: bool = False) -> int:
    """Log an error in one line, and return its exit code."""
    trace = traceback.format_exc() if debug else None
    _log().fail(code, message, exit_code, private=private, traceback=trace)
    return exit_code
