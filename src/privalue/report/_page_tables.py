"""Tables of very many rows, on both pages: the first ones, or groups of neighbouring states."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from privalue.report._html import LABEL, Content, Html, named, table
from privalue.report._svg import Group, Series, groups_of

MOST_ROWS = 400
_HEAD_ROWS = 100  # of a table that is cut


def first_rows(
    heads: Sequence[Content],
    cells: Callable[[int], Sequence[Content]],
    *,
    count: int,
    name: str,
    whole: Content,
    cut: Callable[[str], Content],
    numbers: Iterable[int],
) -> Html:
    """Return a table of all rows, or of the first ones where they are too many to read.

    Args:
        heads: of the columns.
        cells: makes the row of a place.
        count: how many rows there are.
        name: of the table, for whoever cannot see it.
        whole: the caption of a table that has every row.
        cut: makes the caption of one that has not, from "The first 100 of 1,000".
        numbers: which columns hold numbers.
    """
    seen = range(_HEAD_ROWS if count > MOST_ROWS else count)
    return table(
        cut(f"The first {len(seen):,} of {count:,}") if len(seen) < count else whole,
        heads,
        [cells(at) for at in seen],
        name=name,
        numbers=numbers,
        long=len(seen) > 12,
    )


def group_table(
    series: Series,
    what: str,
    *,
    rest: Content,
    name: str,
    number: Callable[[float], str],
    more: Mapping[str, Callable[[Group], str]] | None = None,
) -> Html:
    """Return the numbers of a chart that draws groups of states, with further columns by head."""
    further = more or {}
    return table(
        ["What the chart draws: groups of neighbouring states. ", rest],
        ["States", f"least {what}", f"largest {what}", *further],
        [
            [
                [named(group.first, LABEL), " to ", named(group.last, LABEL)],
                number(group.least),
                number(group.largest),
                *(cell(group) for cell in further.values()),
            ]
            for group in groups_of(series)
        ],
        name=name,
        numbers=range(1, 3 + len(further)),
        long=True,
    )
