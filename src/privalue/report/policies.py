"""Describe an improved policy, and make policy.html: what it changes, and how far to trust it."""

from collections.abc import Iterator, Sequence

import numpy as np

from privalue.estimate import StateChange
from privalue.releases import Release
from privalue.report.description import Description, Fact, Listing, Notice, Table
from privalue.report.html import PUBLIC_MARK, render
from privalue.report.pages import SEEDED


def describe_policy(
    release: Release, changes: Sequence[StateChange], *, level: float, only_clear_gains: bool
) -> Description:
    """Return what an improved policy does otherwise.

    Args:
        release: that the policy is made from.
        changes: what happens in each state, moves first.
        level: of all intervals together.
        only_clear_gains: whether only clear gains move.
    """
    moves = [change for change in changes if change.action is not None]
    clear = sum((change.low or 0.0) > 0 for change in moves)
    about = {
        "moved": len(moves),
        "states": len(changes),
        "clear": clear,
        "level": level,
        "only_clear_gains": only_clear_gains,
    }
    facts = [
        Fact("policy.moved", len(moves)),
        Fact("policy.states", len(changes)),
        Fact("policy.only_clear_gains", only_clear_gains),
        Fact("privacy.sentence", release.sentence()),
        Fact("release.created", release.created),
        Fact("release.sha256", release.sha256),
        Fact("method.software", release.software),
    ]
    return Description(
        title=release.study["study"]["name"],
        facts=tuple(facts),
        notices=(Notice("hypothesis", "warn", about), Notice("other-people", "note")),
        tables=tuple(_tables(moves)),
        listings=tuple(_listings(changes)),
        level=level,
        private=release.private,
    )


def _tables(moves: Sequence[StateChange]) -> Iterator[Table]:
    if moves:
        shares = [move.behaviour for move in moves]
        yield Table(
            key="gains",
            title="Gain of the new action over what was done; intervals hold for all at once",
            labels={
                "State": [move.state for move in moves],
                "New action": [str(move.action) for move in moves],
            },
            value=np.array([move.advantage or 0.0 for move in moves]),
            total=(
                np.array([move.low or 0.0 for move in moves]),
                np.array([move.high or 0.0 for move in moves]),
            ),
            more={
                "share before": [
                    "unknown" if share is None else f"{100 * share:.0f}%" for share in shares
                ]
            },
            flags=[() if (move.low or 0.0) > 0 else ("not clear",) for move in moves],
            marks=(0.0,),
            axis_label="gain",
        )


def _listings(changes: Sequence[StateChange]) -> Iterator[Listing]:
    kept = [(change.state, change.instead, change.why) for change in changes if not change.moved]
    if kept:
        yield Listing("kept", "States where no action is chosen", ("State", "does", "why"), kept)


def policy_page(description: Description) -> str:
    """Return the page of an improved policy, self-contained."""
    return render(
        "policy.html",
        description,
        mark=PUBLIC_MARK,
        marked=description["release.created"],
        title=("" if description.private else "NOT PRIVATE: ")
        + f"{description.title}: a policy to try",
        banner=None if description.private else SEEDED,
    )
