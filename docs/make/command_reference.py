"""Write the reference of the command line from the command itself."""

from collections.abc import Iterator
from typing import Any

import typer

from privalue import errors

_INTRODUCTION = """# The command line

A study goes through these commands, in this order:

| command | question that it answers | reads data | spends budget |
|---|---|---|---|
| `init` | What do I have to write down? | names of columns only | no |
| `check` | Is my study complete, and what follows from it? | no | no |
| `plan` | How far off will the values be? | no | no |
| `ledger declare` | How much may be spent in all? | no | no |
| `inspect` | What would the result be without noise? (for the curator only) | yes | no |
| `release` | What are the values? | yes | yes |
| `report`, `refit`, `improve` | What else can be made from the release? | no | no |
| `ledger show`, `statement`, `verify` | What is left, who spent it, is it intact? | no | no |

`privalue demo` goes through all of it with made-up data. If a release was interrupted after it was
paid for, `privalue ledger finish` publishes it.

- **Output.** Results go to stdout. Log and progress go to stderr. With `--json` stdout is one JSON
  object.
- **Errors.** An error is one line. It names what is wrong, the value, what is allowed, and what to
  do. The [exit code](#exit-codes) says what kind of error it is.
- **Jobs.** With `--log-format json` stderr has one JSON object per event: `time`, `level` (`info`,
  `warning` or `error`), `code`, `dataset` where there is one, `message`, and public numbers; the
  last has `exit_code`. A `code` stays when sentences change, and tells causes of one exit code
  apart: `budget-exceeded`, `not-new`, `already-charged`. A line that may quote the data has
  `private: true`. `--quiet` logs errors only. Both options may come before or after the command.
- **Help.** `privalue COMMAND --help` says the same as this page. `python -m privalue` is the same
  command as `privalue`.

This page is made from the command itself, by `make references`. Words are explained in the
[glossary](glossary.md).
"""


def command_reference(app: typer.Typer) -> str:
    """Return the page in Markdown: every command, its arguments and options, and the exit codes.

    Args:
        app: the program, whose own help texts are used.
    """
    found = typer.main.get_command(app)
    parts = [_INTRODUCTION, *_general(found)]
    for name, command in _in_order(found):
        parts += _section(name, command)
    return "".join([*parts, _exit_codes()])


def _in_order(group: Any) -> Iterator[tuple[str, Any]]:
    """Yield the commands in order; those of a group have their full names."""
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        if hasattr(command, "commands"):
            yield from ((f"{name} {part}", inner) for part, inner in command.commands.items())
        else:
            yield name, command


def _general(command: Any) -> Iterator[str]:
    """Yield the table of the options that come before the command."""
    yield "\n| option of every command | meaning |\n|---|---|\n"
    for option in command.params:
        yield f"| {_names(option)} | {_cell(option.help)} |\n"


def _section(name: str, command: Any) -> Iterator[str]:
    """Yield the section of one command: help, usage, arguments and options."""
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name != "argument"]
    words = " ".join(_argument(p) for p in arguments)
    required = " ".join(_asked(p) for p in options if p.required)
    usage = " ".join(filter(None, ("privalue", name, words, required, "[OPTIONS]")))
    yield f"\n## {name}\n\n{command.help}\n\n```text\n{usage}\n```\n"
    yield "\n| argument or option | meaning | default |\n|---|---|---|\n"
    for argument in arguments:
        yield f"| `{_word(argument)}` | {_cell(argument.help)} | {_default(argument)} |\n"
    for option in options:
        yield f"| {_names(option)} | {_cell(option.help)} | {_default(option)} |\n"


def _word(argument: Any) -> str:
    """Return an argument as the usage line shows it."""
    return str(argument.metavar or argument.name).upper()


def _argument(argument: Any) -> str:
    """Return an argument, in brackets if it may be left out."""
    return _word(argument) if argument.required else f"[{_word(argument)}]"


def _asked(option: Any) -> str:
    """Return a required option as the usage line shows it."""
    if option.is_flag:
        return "(" + " | ".join((*option.opts, *option.secondary_opts)) + ")"
    return f"{option.opts[0]} {option.opts[0].lstrip('-').upper()}"


def _names(option: Any) -> str:
    """Return all names of an option."""
    return ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))


def _cell(text: str | None) -> str:
    """Return a text that fits into a cell of a table."""
    return (text or "").replace("|", "\\|").replace("\n", " ")


def _default(parameter: Any) -> str:
    """Return the default of a parameter in words."""
    if parameter.required:
        return "required"
    if parameter.envvar:
        return f"`{parameter.default}`, or the environment's `{parameter.envvar}`"
    if parameter.default is None:
        return "none"
    if isinstance(parameter.default, bool):
        return "yes" if parameter.default else "no"
    return f"`{parameter.default}`"


def _exit_codes() -> str:
    """Return the table of exit codes, from the classes of errors."""
    codes: dict[int, list[str]] = {}
    for error in _tree(errors.PrivalueError):
        said = (error.__doc__ or "").strip().split("\n")[0].rstrip(".")
        names = f"`{error.__name__}`, code `{error.code}` or one of its own"
        codes.setdefault(error.exit_code, []).append(f"{said} ({names})")
    codes.pop(errors.PrivalueError.exit_code)
    rows = "".join(f"| {code} | {said} |\n" for code in sorted(codes) for said in codes[code])
    return (
        "\n## Exit codes\n\n| code | when |\n|---|---|\n| 0 | Everything was done |\n"
        f"{rows}| {errors.PrivalueError.exit_code} | An internal error: please report it |\n"
        "| 130 | The command was interrupted |\n\n"
        '**A line that begins with "charged" counts for more than the code.** The amount is spent, '
        "and the release is\nkept in a file. Do not run the command again. Run "
        "`privalue ledger finish FILE`, which publishes the release\nand spends nothing. "
        "Such a line may come with 5 or 7 (the ledger), 2 (the folder took no release),\n"
        "3 (the system refused a file) or 130 (interrupted).\n"
    )


def _tree(error: type[errors.PrivalueError]) -> Iterator[type[errors.PrivalueError]]:
    """Yield an error and all its descendants."""
    yield error
    for child in error.__subclasses__():
        if child.__module__ == errors.__name__:
            yield from _tree(child)
