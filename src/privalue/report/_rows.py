"""Ask a release for rows of its tables, as pages, screens and notebooks show them."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from privalue.releases import COLUMNS, FLAGS_BETWEEN, NOT_PRIVATE, Release, ValueTable


def whole(row: Any) -> SimpleNamespace:
    """Return a row with None for what was not released, and its flags one by one."""
    flags = tuple(row.flags.split(FLAGS_BETWEEN)) if row.flags else ()
    return SimpleNamespace(**{**dict.fromkeys(COLUMNS), **row._asdict(), "flags": flags})


def rows_of(table: ValueTable, most: int | None = None) -> list[SimpleNamespace]:
    """Return the first rows of a table, or all."""
    return [whole(table.row(at)) for at in range(len(table))[:most]]


def own_flags(flags: Sequence[str]) -> tuple[str, ...]:
    """Return the flags that are about a row itself: that nothing is private stands elsewhere."""
    return tuple(flag for flag in flags if flag != NOT_PRIVATE)


def policy_row(release: Release) -> SimpleNamespace | None:
    """Return the overall value with its intervals; None where there are none, or several."""
    policy = release.policy
    if policy is None or policy.keys or "total_low" not in policy.columns:
        return None
    return whole(policy.row(0))


def compared(table: ValueTable | None) -> Any:
    """Return the one row of a table."""
    assert table is not None
    return whole(table.row(0))


def kept_mass(row: Any) -> SimpleNamespace | None:
    """Return how much of the target's weight clipping kept; None where it is no target's."""
    if row is None or row.kept_mass is None:
        return None
    return SimpleNamespace(
        value=row.kept_mass, low=row.kept_low, high=row.kept_high, supported=row.supported
    )


def is_refuted(release: Release) -> bool:
    """Return whether the released numbers say that the behaviour is wrong."""
    found = None if release.policy is None else release.policy.column("refuted")
    return found is not None and bool(found.any())


def policies(release: Release) -> list[SimpleNamespace]:
    """Return the overall value in each arm, and how far it is from the first arm's."""
    if release.policy is None or "arm" not in release.policy.keys or not release.differences:
        return []
    found = []
    for row in rows_of(release.policy):
        label = (row.arm, None)
        apart = whole(release.differences[label]) if label in release.differences else None
        found.append(
            SimpleNamespace(
                arm=row.arm,
                value=row.value,
                interval=row,
                difference=apart and apart.value,
                difference_interval=apart,
            )
        )
    return found
