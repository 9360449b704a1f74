"""Define ``privalue improve``: a better policy from released action values; spends nothing."""

from pathlib import Path
from typing import Annotated

import typer

from privalue._improved import WARNING, Improvement
from privalue._improved import improve as improved_by
from privalue._written import written
from privalue.cli._console import Json, log, print_json, say, screen
from privalue.cli._given import NUMBER
from privalue.errors import UsageError
from privalue.releases import NOT_PRIVATE

_MOST = 30  # states on the screen


def improve(
    release_file: Annotated[
        Path,
        typer.Argument(
            metavar="RELEASE", readable=False, help="A release with actions, or its folder."
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out", help="A .csv file for the policy; .json and .html are written beside it."
        ),
    ],
    level: Annotated[
        float | None,
        typer.Option(
            "--level",
            **NUMBER,
            help="Change an action only where the gain is clear at this level, e.g. .95.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
    as_json: Json = False,
) -> None:
    """Make a better policy from released action values; spends nothing."""
    better = improved_by(release_file, level=level)
    try:
        files = better.save(out, force=force)
    except UsageError as problem:
        told = str(problem).replace("or allow it to be overwritten", "or use --force")
        raise UsageError(f"--out {told}") from None
    if as_json:
        print_json(better.as_dict())
    else:
        _print(better)
    log.print(f"Wrote {', '.join(map(str, files))}")
    log.print(f"Nothing was spent: it is computed from {release_file} alone.")


def _print(better: Improvement) -> None:
    """Print what happens in each state, moves first, and the warning."""
    from rich.table import Table  # noqa: PLC0415 - heavy

    changes = better.changes
    moved = [change for change in changes if change.moved]
    if not better.release.private:
        say(f"{NOT_PRIVATE}: made of a release with seeded noise.")
    say(f"{len(moved):,} of {len(changes):,} states move to one action.")
    table = Table()
    for head in ("State", "new action", "share before", "gain", "why"):
        table.add_column(head)
    for change in changes[:_MOST]:
        gain = written(change.advantage, change.low, change.high) if change.moved else ""
        taken = "" if change.behaviour is None else f"{100 * change.behaviour:.0f}%"
        clear = "" if (change.low or 0.0) > 0 or not change.moved else "; not clear"
        table.add_row(
            change.state, change.action or change.instead, taken, str(gain), change.why + clear
        )
    screen().print(table)
    say(
        f"The intervals of gains hold for all states and actions at once, at the level of "
        f"{100 * better.level:g}%: they cover the noise and the choice of people."
    )
    if len(changes) > _MOST:
        say(f"{len(changes) - _MOST:,} more states are in the files.")
    say(WARNING)
    say(
        "To find out what this policy is worth (dp-ope), use other people than those it was made "
        "from: on the same people it looks better than it is."
    )
