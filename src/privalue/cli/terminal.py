"""Show a description on the terminal: notices, tables, facts."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table as RichTable

from privalue.report import Description, Listing, Table, say_notice

MOST_ROWS = 50
_STYLES = {"stop": "bold red", "warn": "bold yellow", "note": "yellow"}
_VERDICTS = {"usable": "Usable.", "care": "Usable with care.", "unusable": "Not usable."}


def show(
    console: Console,
    description: Description,
    *,
    sections: Sequence[str] = (),
    sentence: str | None = None,
    with_verdict: bool = False,
    listings: bool = True,
) -> None:
    """Print a description.

    Args:
        console: where to.
        description: of a release, a study, a plan, an account or diagnostics.
        sections: whose facts are shown, in this order.
        sentence: the fact that is printed first, such as the guarantee.
        with_verdict: whether the first notice says if the values can be used.
        listings: whether tables of texts are shown.
    """
    if sentence is not None:
        style = "bold" if description.private else "bold red"
        console.print(description[sentence], style=style)
    for number, notice in enumerate(description.notices):
        head = f"{_VERDICTS[description.verdict]} " if with_verdict and not number else ""
        console.print(head + say_notice(notice), style=_STYLES[notice.severity], soft_wrap=True)
    for table in description.tables:
        _show_table(console, table, description.level)
    for name in sections:
        _show_facts(console, description, name)
    for listing in description.listings if listings else ():
        console.print(_listing(listing))


def _show_facts(console: Console, description: Description, section: str) -> None:
    table = RichTable(title=description.title, title_justify="left", show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for fact in description.section(section):
        table.add_row(fact.label, str(fact))
    if table.row_count:
        console.print(table)


def _show_table(console: Console, table: Table, level: float | None) -> None:
    """Print the first rows; what flags name follows where there is no room for a column."""
    made = RichTable(title=table.title, title_justify="left")
    for head in table.labels:
        made.add_column(head, overflow="fold")
    made.add_column("value", justify="right")
    if table.total is not None:
        made.add_column(f"{100 * (level or 0):g}% interval", justify="right")
    if table.privacy is not None:
        made.add_column("privacy noise alone", justify="right")
    for head in table.more:
        made.add_column(head, justify="right")
    if table.flagged:
        made.add_column("flag", overflow="fold")
    for row in table.rows(MOST_ROWS):
        cells = [*row.labels, row.value]
        cells += [row.total] if table.total is not None else []
        cells += [row.privacy] if table.privacy is not None else []
        cells += row.more
        # A label is a text, and no markup; the console writes out what would be an order.
        short = "; ".join(flag.partition(":")[0] for flag in row.flags)
        made.add_row(*cells, *([short] if table.flagged else []))
    console.print(made)
    if len(table) > MOST_ROWS:
        console.print(f"... and {len(table) - MOST_ROWS:,} more rows in the files.")


def _listing(listing: Listing) -> RichTable:
    made = RichTable(title=listing.title, title_justify="left")
    for head in listing.heads:
        made.add_column(head, overflow="fold")
    for row in listing.rows:
        made.add_row(*map(str, row))
    return made
