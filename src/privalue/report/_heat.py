"""Colour a table of states and actions: the stronger a cell, the larger its number.

A heat map that is a table can be read aloud, searched and pasted. Where the data say nothing, a
cell is hatched and holds no number; an action that is not allowed leaves its cell empty.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privalue._written import written
from privalue.core import Integers, Vector
from privalue.report._pages import LABEL, PageHtml, cleaned, named

MOST_CELLS = 6000  # beyond, the first states only
_STRONGEST = 72  # percent of colour in the strongest cell, so that its number can be read


@dataclass(frozen=True, kw_only=True)
class HeatCell:
    """One cell: what it says, and how strongly it is coloured."""

    text: str
    kind: str  # above, below, unknown, or empty
    strength: int = 0  # percent
    title: str = ""


@dataclass(frozen=True, kw_only=True)
class HeatTable:
    """A coloured table, with what its colours mean."""

    name: str
    caption: str | PageHtml
    heads: Sequence[PageHtml]
    rows: Sequence[tuple[PageHtml, Sequence[HeatCell]]]
    left_out: int = 0  # states that are not shown


def heat_table(
    *,
    name: str,
    caption: str | PageHtml,
    states: Sequence[str],
    actions: Sequence[str],
    state_of: Integers,
    action_of: Integers,
    values: Vector,
    ends: tuple[Vector, Vector],
    known: NDArray[np.bool_],
    middle: float | None = None,
) -> HeatTable:
    """Return a table with a row for each state and a column for each action.

    Args:
        name: of the table, for those who do not see it.
        caption: what it shows.
        states: their labels.
        actions: their labels.
        state_of: the position of every pair's state.
        action_of: the position of every pair's action.
        values: of every pair.
        ends: of every pair's interval.
        known: where the data say something.
        middle: numbers above and below it have two colours; None for one, from the least up.
    """
    shown = max(min(len(states), MOST_CELLS // max(len(actions), 1)), 1)
    inside = known & (state_of < shown)
    centre = middle
    if centre is None:
        centre = float(values[inside].min()) if inside.any() else 0.0
    furthest = float(np.abs(values[inside] - centre).max()) if inside.any() else 0.0
    empty = HeatCell(text="", kind="empty", title="not allowed")
    rows = [[empty] * len(actions) for _ in range(shown)]
    for at in np.flatnonzero(state_of < shown):
        state, action = int(state_of[at]), int(action_of[at])
        of = f"{cleaned(states[state])}, {cleaned(actions[action])}"
        if not known[at]:
            rows[state][action] = HeatCell(
                text="?", kind="unknown", title=f"{of}: too few people to say"
            )
            continue
        told = written(float(values[at]), float(ends[0][at]), float(ends[1][at]))
        away = float(values[at]) - centre
        rows[state][action] = HeatCell(
            text=told.value,
            kind="above" if away >= 0 else "below",
            strength=round(_STRONGEST * abs(away) / furthest) if furthest else 0,
            title=f"{of}: {told}",
        )
    return HeatTable(
        name=name,
        caption=caption,
        heads=[named(action, LABEL) for action in actions],
        rows=[(named(states[at], LABEL), cells) for at, cells in enumerate(rows)],
        left_out=len(states) - shown,
    )
