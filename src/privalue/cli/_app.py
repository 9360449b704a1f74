"""List the commands, load the one that is asked for, and run it.

Results go to stdout, log and progress to stderr; with ``--json`` stdout is one JSON object. An
error is one line on stderr, and the exit code says which kind (``privalue.errors``).

Each command is the function of its name in a module of its own, whose docstring is its help text.
This module imports none of them: ``--help`` and ``--version`` answer at once.
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

from privalue.errors import PrivalueError
from privalue.version import VERSION

INTERRUPTED = 130
# In the order of work; the first sentence of each one's help, which a test compares.
COMMANDS = {
    "demo": "Try every step on made-up data, from a study to a report.",
    "simulate": "Make up trajectories of a built-in or Gymnasium world.",
    "init": "Write a commented study file.",
    "check": "Check a study, and say what follows from it; opens no data.",
    "plan": "Predict the error of a study before any data is opened.",
    "ledger": "Keep the budget of a dataset, and what was spent of it.",
    "inspect": "Show the curator the results before noise: PRIVATE.",
    "release": "Release the values once, with noise; this spends budget.",
    "report": "Make the pages and tables of a release again; spends nothing.",
    "refit": "Fit other features to a dp-ssp release; spends nothing.",
    "improve": "Make a better policy from released action values; spends nothing.",
    "reproduce": "Repeat the paper's experiments, and compare with today's results.",
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
            formatter.write_dl(list(COMMANDS.items()))


_ONCE_LOADED: list[Callable[[], None]] = []  # what the program does before its command begins


def _loaded(name: str) -> Any:
    """Import a command's module, and return the command."""
    module = import_module(f"privalue.cli._{name}")
    for prepare in _ONCE_LOADED:
        prepare()
    found = module.ledgers if name == "ledger" else getattr(module, name)
    if not isinstance(found, typer.Typer):
        alone = typer.Typer(rich_markup_mode=None, add_completion=False)
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
    return import_module("privalue.cli._console").log


def _version(wanted: bool) -> None:
    """Print the version, and leave."""
    if wanted:
        print(f"privalue {VERSION}")
        raise typer.Exit


def _quiet(wanted: bool) -> None:
    """Set that only errors are logged."""
    if wanted:
        _log().quiet = True


def _log_format(chosen: str) -> None:
    """Set that the log is JSON for jobs, and not lines for people."""
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
    """What a policy is worth, told privately.

    Differentially private policy evaluation.
    """


class LibraryLog(logging.Handler):
    """Passes warnings and logs of the libraries beneath on to the log."""

    def emit(self, record: logging.LogRecord) -> None:
        """Log a record in one line."""
        _log().warn(f"{record.name}: {' '.join(record.getMessage().split())}")


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
        code = _failed("interrupted", INTERRUPTED, False)
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
        return _ran(arguments)
    finally:
        if "privalue.cli._console" in sys.modules:
            _log().quiet = _log().as_json = False  # options hold for one command only


def _ran(arguments: list[str]) -> int:
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
        return _failed("you have no home to install it in; --show-completion prints it", 2, debug)
    for option in _NAMES & set(_without_values(arguments)):
        return _failed(f"{option} is empty; give a name, or leave it out", 2, debug)
    try:
        code = app(arguments, prog_name="privalue", standalone_mode=False)
        if code == INTERRUPTED:  # typer makes this of Ctrl-C, and says nothing
            return _failed("interrupted", INTERRUPTED, debug)
        # typer leaves with 1 where it cannot tell which shell to complete for
        return (2 if code == 1 else code) if isinstance(code, int) else 0
    except typer.exceptions.TyperException as problem:
        return _failed(_with_hint(problem), 2, debug)
    except (typer.Abort, KeyboardInterrupt):
        return _failed("interrupted", INTERRUPTED, debug)
    except PrivalueError as problem:
        return _failed(problem.with_options(), problem.exit_code, debug)
    except MemoryError:
        return _failed("there is not enough memory for this; use fewer states", 3, debug)
    except UnicodeEncodeError:  # the name of a file, or of what is in it, as the system has it
        return _failed("a name is no UTF-8 text; rename the file", 3, debug)
    except OSError as problem:
        return _failed(
            f"the system refused: {problem.strerror or type(problem).__name__}", 3, debug
        )
    except Exception as problem:  # a bug of ours
        return _failed(
            f"internal error ({type(problem).__name__}); this is a bug of privalue: please report "
            "it, without private data (--debug shows a traceback)",
            70,
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
        *names, last = problem.ctx.command.list_commands(problem.ctx)
        return f"{problem.ctx.command_path} needs one of {', '.join(names)} and {last}"
    about = getattr(getattr(problem, "param", None), "help", None)
    if message.startswith("Missing option") and about:
        return f"{message} {about}"
    takes_data = any("--data" in option.opts for option in problem.ctx.command.params)
    if "unexpected extra argument" in message and takes_data:
        return f"{message} If that was a glob, quote it: --data 'folder/*.parquet'"
    unknown = re.fullmatch(r"No such command '(.*)'\.", message, re.DOTALL)
    if unknown is not None:
        near = get_close_matches(unknown[1].lower(), problem.ctx.command.list_commands(problem.ctx))
        meant = f"did you mean {' or '.join(near)}? " if near else ""
        return f"{message[:-1]}; {meant}{problem.ctx.command_path} --help lists them"
    return message


def _failed(message: str, code: int, debug: bool) -> int:
    """Log an error in one line, and return its exit code."""
    _log().fail(message, code, traceback.format_exc() if debug else None)
    return code
