"""Make tables of very many rows, for both pages.

A study may have millions of states. A table of more than ``MOST_ROWS`` shows its first rows only,
or groups of neighbouring states; every state is in values.csv.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from privalue.report._html import LABEL, Content, Html, named, table
from privalue.report._svg import Group, Series, groups_of

MOST_ROWS = 400
_HEAD_ROWS = 100  # rows that are shown of a longer table


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
        cells: returns the cells of the row at an index.
        count: how many rows there are.
        name: of the table, for those who do not see it.
        whole: the caption of a table that has every row.
        cut: makes the caption of one that has not, from "The first 100 of 1,000".
        numbers: which columns hold numbers.

    Returns:
        The table.
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
    """Return the numbers of a chart that draws groups of states.

    Args:
        series: the numbers of all states.
        what: the name of the numbers, for the heads.
        rest: the end of the caption, which says where each state is.
        name: of the table, for those who do not see it.
        number: formats a number.
        more: further columns by their heads.

    Returns:
        The table, with a row for each group.
    """
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
