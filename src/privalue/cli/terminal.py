"""Show a description on the terminal: notices, tables, facts."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table as RichTable

from privalue.cli.console import SafeConsole, print_line
from privalue.report import Description, Listing, say_notice, sentence

MAX_ROWS = 50
_STYLES = {"stop": "bold red", "warn": "bold yellow", "note": "yellow"}


def print_sentence(code: str, **about: Any) -> None:
    """Print the sentence of a code about a command's result."""
    print_line(sentence(code, **about))


def print_description(
    description: Description,
    *,
    sections: Sequence[str] = (),
    with_verdict: bool = False,
    console: Console | None = None,
) -> None:
    """Print a description.

    Args:
        description: of a release, a study, a plan, an account or diagnostics.
        sections: the sections of facts to show, in this order.
        with_verdict: for a release, begin with its guarantee and whether the values can be used.
        console: to print on; stdout, if left out.
    """
    console = console or SafeConsole()
    if with_verdict:
        style = "bold" if description.private else "bold red"
        console.print(description["privacy.sentence"], style=style)
    for number, notice in enumerate(description.notices):
        head = f"{sentence(description.verdict)} " if with_verdict and not number else ""
        console.print(head + say_notice(notice), style=_STYLES[notice.severity], soft_wrap=True)
    for table in description.tables:
        print_listing(table.listing(description.level, MAX_ROWS), console)
        if len(table) > MAX_ROWS:
            console.print(sentence("more_rows", count=len(table) - MAX_ROWS))
    for name in sections:
        facts = [(fact.label, str(fact)) for fact in description.section(name)]
        if facts:
            print_listing(Listing(name, description.title, ("", ""), facts), console)
    for listing in description.listings:
        print_listing(listing, console)


def print_listing(listing: Listing, console: Console | None = None) -> None:
    """Print a table of texts; columns of numbers are right-aligned."""
    grid = RichTable(title=listing.title, title_justify="left", show_header=any(listing.heads))
    for head in listing.heads:
        is_number = head in listing.right
        grid.add_column(head, overflow="fold", justify="right" if is_number else "left")
    for row in listing.rows:
        # Labels are texts, not markup; the console escapes control characters.
        grid.add_row(*map(str, row))
    (console or SafeConsole()).print(grid)
