"""List the commands, import the requested one, and run it.

Results go to stdout, log and progress to stderr; with ``--json`` stdout is one JSON object. An
error is one line on stderr, and the exit code tells its kind (``privalue.errors``).

Each command is a function of the same name, whose docstring is its help text. This module imports
none of them, so that ``--help`` and ``--version`` are fast.
"""

import logging
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from importlib import import_module
from itertools import islice, pairwise
from typing import Annotated, Any, Literal, NamedTuple

import typer
import typer.exceptions

from privalue.cli.options import option
from privalue.errors import DataError, PrivalueError, UsageError, read_texts
from privalue.version import VERSION

INTERRUPTED = 130
# Arrow's other allocators keep freed memory: --memory would be exceeded by more.
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
_TEXTS = read_texts(__file__, "app.toml")
COMMANDS: dict[str, tuple[str, str]] = _TEXTS["commands"]  # module and sentence, by name


class Commands(typer.core.TyperGroup):
    """The group of commands; each is imported when it is run, or when its help is shown."""

    def list_commands(self, _: Any) -> list[str]:
        """Return the names of the commands, in the order of work."""
        return list(COMMANDS)

    def get_command(self, _: Any, name: str) -> Any:
        """Load a command; None if there is no such command."""
        if name in COMMANDS and self.commands.get(name) is None:
            self.commands[name] = _load(name)
        return self.commands.get(name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command; for an unknown name, suggest similar names."""
        for name in COMMANDS:
            self.commands.setdefault(name, None)  # type: ignore[arg-type]  # not loaded yet
        return super().resolve_command(ctx, args)

    def format_commands(self, _: Any, formatter: Any) -> None:
        """List the commands in the help text, without loading any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


_BEFORE_RUN: list[Callable[[], None]] = []  # called after a command is imported, before it runs


def _load(name: str) -> Any:
    """Import a command's module, and return the command."""
    module = import_module(f"privalue.cli.{COMMANDS[name][0]}")
    for prepare in _BEFORE_RUN:
        prepare()
    definition = getattr(module, name)
    if not isinstance(definition, typer.Typer):
        application = typer.Typer(rich_markup_mode="rich", add_completion=False)
        application.command(name)(definition)
        definition = application
    command = typer.main.get_command(definition)
    command.name = name
    return command


app = typer.Typer(
    cls=Commands,
    add_completion=False,
    pretty_exceptions_enable=False,  # they would print local variables, private ones included
    rich_markup_mode=None,
    epilog=_TEXTS["example"],
    context_settings={"help_option_names": ["--help", "-h"]},
)


def _log() -> Any:
    """Return the log, imported only when something is logged: importing Rich is slow."""
    return import_module("privalue.cli.console").log


def _version(is_requested: bool) -> None:
    """Print the version, and leave."""
    if is_requested:
        print(f"privalue {VERSION}")
        raise typer.Exit


def _set_log(name: typer.CallbackParam, value: bool | str) -> None:
    """Set up the log before anything can fail, even the search for the command."""
    if name.name == "quiet" and value:
        _log().errors_only = True
    elif value == "json":
        _log().as_json = True


@app.callback()
def _options(
    debug: Annotated[
        bool, option("Show a traceback (it may quote private data).", "--debug")
    ] = False,
    quiet: Annotated[bool, option("Log errors only.", "--quiet", "-q", callback=_set_log)] = False,
    log_format: Annotated[
        Literal["text", "json"],
        option("How stderr is written: text for people, json for jobs.", callback=_set_log),
    ] = "text",
    version: Annotated[
        bool, option("Print the version.", "--version", "-V", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Publish how well a policy works without exposing anyone's record.

    Differentially private policy evaluation.
    """


class LibraryLog(logging.Handler):
    """Forwards warnings and log records of other libraries to the log."""

    def emit(self, record: logging.LogRecord) -> None:
        """Log a record in one line; it may quote private data."""
        message = f"{record.name}: {' '.join(record.getMessage().split())}"
        _log().warn("library", message, private=True)


def main() -> None:
    """Run the command line, and exit with the command's exit code."""
    logging.captureWarnings(True)
    logging.getLogger().addHandler(LibraryLog())
    try:
        # Until the command is imported, an interrupt just ends the process (``privalue.__main__``):
        # as an exception, it could turn an import into another error.
        _BEFORE_RUN.append(lambda: _listen(_interrupt_once()))
        code = run(sys.argv[1:])
    except KeyboardInterrupt as problem:  # before or after the command itself
        code = _fail(problem)
    _listen(lambda *_: os._exit(INTERRUPTED))  # the command is over
    sys.exit(code)


def _listen(handler: Callable[..., object]) -> None:
    """Handle Ctrl-C, a request to terminate and a closed terminal in the same way.

    Signals that the parent ignores, as under nohup, stay ignored.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def _interrupt_once() -> Callable[..., None]:
    """Return a signal handler that raises KeyboardInterrupt.

    Further signals within a few seconds are ignored, since they would only disturb the clean-up: a
    closed terminal sends two, and users press Ctrl-C twice.
    """
    times: list[float] = []

    def interrupt(*_: object) -> None:
        times.append(time.monotonic())
        if len(times) == 1 or times[-1] - times[0] > 5.0:  # seconds
            raise KeyboardInterrupt

    return interrupt


def run(arguments: list[str]) -> int:
    """Run one command, and return its exit code; an error becomes one line on stderr."""
    try:
        code = _run(_move_general_options(arguments))
        print(end="", flush=True)  # while a failure can still be reported
        if "privalue.cli.console" in sys.modules and code == 0 and _log().as_json:
            _log().event("done", "done", exit_code=code)
        return code
    except (Exception, KeyboardInterrupt) as problem:
        return _fail(problem, debug="--debug" in arguments)
    finally:
        discard_output()
        if "privalue.cli.console" in sys.modules:
            _log().reset()  # options are for one command only


def discard_output() -> None:
    """Discard what cannot be printed, so that it does not fail again at the exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            print(end="", file=stream, flush=True)
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _run(arguments: list[str]) -> int:
    """Run one command, and return its exit code."""
    if not arguments:
        app(["--help"], prog_name="privalue", standalone_mode=False)
        return 2
    pairs = {f"{word}={value}" for word, value in pairwise(arguments)}
    for name in ("--ledger=", "--out="):  # an unset variable of a script is an empty text
        if name in pairs | set(arguments):
            raise UsageError(f"{name[:-1]} is empty; give a name, or leave it out")
    code = app(arguments, prog_name="privalue", standalone_mode=False)
    if code == INTERRUPTED:  # typer's silent exit code after Ctrl-C
        raise KeyboardInterrupt
    return code if isinstance(code, int) else 0


def _move_general_options(arguments: list[str]) -> list[str]:
    """Move the program's own options before the command, since users also write them after it."""
    general, remaining, words = [], [], iter(arguments)
    for word in words:
        if word == "--":
            remaining += [word, *words]
        elif word == "--log-format":
            general += [word, *islice(words, 1)]
        elif word in {"--debug", "--quiet", "-q"} or word.startswith("--log-format="):
            general.append(word)
        else:
            remaining.append(word)
    return general + remaining


class Failure(NamedTuple):
    """The failure of a command: message, exit code, code, and whether it quotes the data."""

    message: str
    exit_code: int
    code: str
    private: bool = False


def explain(problem: BaseException) -> Failure:
    """Return the message and exit code for an exception.

    Only known errors show their message: any other exception may quote private data, so that only
    its type is shown, unless the user asks for a traceback.
    """
    match problem:
        case KeyboardInterrupt() | typer.Abort():
            return Failure("interrupted", INTERRUPTED, "interrupted")
        case typer.exceptions.TyperException():
            context = getattr(problem, "ctx", None)
            where = "" if context is None else f" (see {context.command_path} --help)"
            return Failure(f"{problem.format_message()}{where}", 2, "usage")
        case PrivalueError():
            quotes_data = isinstance(problem, DataError)
            return Failure(problem.with_options(), problem.exit_code, problem.code, quotes_data)
        case MemoryError():
            return Failure("there is not enough memory; use fewer states", 3, "memory")
        case UnicodeEncodeError():  # a file name that is not valid UTF-8
            return Failure("a file name is not valid UTF-8; rename it", 3, "file-name", True)
        case BrokenPipeError():  # rich and Typer exit with the same code
            return Failure("the output was closed", 1, "output-closed")
        case OSError():
            why = problem.strerror or type(problem).__name__
            where = f" ({problem.filename})" if problem.filename else ""
            return Failure(f"the system refused: {why}{where}", 3, "system")
    message = (
        f"internal error ({type(problem).__name__}); this is a bug of privalue: please report it, "
        "without private data (--debug shows a traceback)"
    )
    return Failure(message, 70, "internal")


def _fail(problem: BaseException, *, debug: bool = False) -> int:
    """Log an error in one line, and return its exit code."""
    message, exit_code, code, private = explain(problem)
    more: dict[str, Any] = {"exit_code": exit_code}
    if debug:
        more["traceback"] = "".join(traceback.format_exception(problem))
    if private or debug:
        more["private"] = True
    _log().event(code, " ".join(message.split()), level="error", **more)
    return exit_code
