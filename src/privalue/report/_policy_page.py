"""Write policy.html: what an improved policy would do otherwise, and how far to trust it.

It is made of a release and of what was computed from it: nothing here meets data. What must not be
overlooked comes first: that the policy is a hypothesis, and what it rests on.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from privalue._written import written
from privalue.estimate import GreedyStep, StateChange
from privalue.releases import Release
from privalue.report._heat import HeatTable, heat_table
from privalue.report._pages import LABEL, PageHtml, PageTable, hashed, headed, named, render
from privalue.report._plots import MOST_ROWS, Series, figure

POLICY_MARK = "privalue-policy-page"
MOST_STATES = 500  # that a table lists; policy.json has them all
_SEEDED = "Made of a release with seeded noise, for experiments only. Do not publish."
_CONTENTS = {
    "trust": "Before you use it",
    "moves": "What changes",
    "kept": "Where nothing is chosen",
    "actions": "All actions",
    "method": "How it was made",
}


def policy_page(
    release: Release,
    *,
    step: GreedyStep,
    changes: Sequence[StateChange],
    level: float,
    only_clear_gains: bool,
) -> str:
    """Return the page of an improved policy, self-contained.

    Args:
        release: that the policy is made from.
        step: what the rule computed.
        changes: what happens in each state, moves first.
        level: of all intervals together.
        only_clear_gains: whether only clear gains move.
    """
    moves = [change for change in changes if change.action is not None]
    kept = [change for change in changes if change.action is None]
    name = release.study["study"]["name"]
    return render(
        "policy.html",
        mark=POLICY_MARK,
        marked=release.created,
        private=False,
        **headed(release, f"{name}: a policy to try", _SEEDED),
        kicker="A policy to try, made from released values alone. It spends no privacy.",
        name=named(name),
        contents=list(_CONTENTS.items()),
        count=len(changes),
        moved=len(moves),
        clear=sum((change.low or 0.0) > 0 for change in moves),
        level=f"{100 * level:g}%",
        only_clear_gains=only_clear_gains,
        gains=_gains(moves, level) if moves else None,
        moves=_moves(moves) if moves else None,
        kept=_kept(kept) if kept else None,
        heat_map=_advantages(release, step),
        behaviour=_known(step),
        sentence=release.sentence(),
        sha256=hashed(release.sha256),
        created=release.created,
        version=release.software.rpartition(" ")[2],
    )


def _gains(moves: Sequence[StateChange], level: float) -> Any:
    """Return the plot of what moving is worth, state by state."""
    shown = moves[:MOST_ROWS]
    return figure(
        Series(
            names=[f"{move.state}: {move.action}" for move in shown],
            values=np.array([move.advantage for move in shown]),
            outer=(
                np.array([move.low for move in shown]),
                np.array([move.high for move in shown]),
            ),
        ),
        key="figure-gains",
        number=1,
        title="Gain of the new action over the behaviour by state",
        caption="How much more the new action is worth in the state than what was done there, with "
        "intervals that hold for all states and actions at once. Where an interval holds 0, the "
        "gain may be noise or chance."
        + (f" The {MOST_ROWS} largest gains." if len(moves) > MOST_ROWS else ""),
        level=level,
        zero="no gain",
    )


def _moves(moves: Sequence[StateChange]) -> PageTable:
    """Return the table of the states that change, the largest gain first."""
    seen = moves[:MOST_STATES]
    return PageTable(
        name="States that change",
        caption=f"The largest gain first.{_rest(len(moves))}",
        heads=["State", "new action", "share before", "expected value", "gain", "interval", "why"],
        rows=[
            [
                named(move.state, LABEL),
                named(move.action, LABEL),
                "unknown" if move.behaviour is None else f"{100 * move.behaviour:.0f}%",
                written(move.expected, *_near(move)).value,
                (told := written(move.advantage, move.low, move.high)).value,
                told.within,
                move.why + ("" if (move.low or 0.0) > 0 else "; the gain is not clear"),
            ]
            for move in seen
        ],
        numbers=(2, 3, 4, 5),
        kind="long" if len(seen) > 12 else "",
    )


def _near(move: StateChange) -> tuple[float, float]:
    """Return ends that are as far from the expected value as those of the gain are from it."""
    value, gain = move.expected or 0.0, move.advantage or 0.0
    return value + (move.low or 0.0) - gain, value + (move.high or 0.0) - gain


def _kept(kept: Sequence[StateChange]) -> PageTable:
    """Return the table of the states that keep the behaviour, and why."""
    return PageTable(
        name="States where no action is chosen",
        caption=f"In the order of the study.{_rest(len(kept))}",
        heads=["State", "why"],
        rows=[[named(each.state, LABEL), each.why] for each in kept[:MOST_STATES]],
        kind="long" if len(kept) > 12 else "",
    )


def _rest(count: int) -> str:
    """Say how many of the states a table holds, where it does not hold all of them."""
    if count <= MOST_STATES:
        return ""
    return f" The first {MOST_STATES:,} of {count:,} states; policy.json has all of them."


def _advantages(release: Release, step: GreedyStep) -> HeatTable:
    """Return the heat map of advantages."""
    state_of, action_of = release.places_of_pairs()
    return heat_table(
        name="Advantage of every action",
        caption=PageHtml(
            "What an action is expected to be worth more (or less) than what was done in the "
            "state. A question mark is an action that too few people took to say anything; an "
            "empty cell is one that is not allowed. Point at a cell for its interval."
        ),
        states=release.states,
        actions=release.actions,
        state_of=state_of,
        action_of=action_of,
        values=step.advantage,
        ends=(step.low, step.high),
        known=step.clear,
        middle=0.0,
    )


def _known(step: GreedyStep) -> str:
    """Say how much of the table of actions is known."""
    known = int(np.count_nonzero(step.clear))
    return (
        f"{known:,} of {len(step.clear):,} pairs of a state and an action were clearly taken. "
        "Of the others the data say nothing: the rule never moves to them."
    )
