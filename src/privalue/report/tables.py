"""Turn the tables of a release into tables that people read, differences first."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privalue.releases import FLAGS_BETWEEN, NOT_PRIVATE, Release, ValueTable
from privalue.report.description import Ends, Table
from privalue.report.meaning import axis_label_of, counted_between, heading_of
from privalue.report.numbers import Formatted, format_interval

OVERALL = "overall"
_BY = {"arm": "by state and arm", "action": "by state and action"}


def describe_tables(release: Release) -> tuple[Table, ...]:
    """Return the tables of a release in the order in which they are read."""
    if release.behaviour is not None:
        return _off_policy(release, release.tables["policy"], release.behaviour)
    found = [] if release.differences is None else [_differences(release, release.differences)]
    if release.state_values is not None:
        found.append(_values(release, "states", release.state_values))
    return (*found, _values(release, "values", release.values))


def _values(release: Release, key: str, table: ValueTable) -> Table:
    """Return values by state, the arms of a state beside each other; tables go arm after arm."""
    order = np.arange(len(table))
    if release.arms:
        order = order.reshape(len(release.arms), -1).T.reshape(-1)
    names = sorted(table.keys, key=("state", "arm", "action").index)
    return _table(
        release,
        table,
        order,
        key=key,
        title=heading_of(release, _BY.get(names[-1], "by state")),
        labels={name.capitalize(): table.columns[name][order] for name in names},
        marks=counted_between(release),
    )


def _differences(release: Release, table: ValueTable) -> Table:
    """Return the differences of arms, that of the overall values first."""
    is_overall = np.array([state is None for state in table.columns["state"]])
    order = np.argsort(~is_overall, kind="stable")
    arms, against = release.arms[1:], release.arms[0]
    labels: dict[str, Sequence[str]] = {
        "State": [OVERALL if state is None else state for state in table.columns["state"][order]]
    }
    if len(arms) > 1:
        labels["Arm"] = table.columns["arm"][order]  # type: ignore[assignment]
    title = f"Difference: {'arm' if len(arms) > 1 else arms[0]} less {against}"
    return _table(release, table, order, key="differences", title=title, labels=labels)


def _off_policy(release: Release, target: ValueTable, behaviour: ValueTable) -> tuple[Table, ...]:
    """Return the difference of both policies, and both policies, start after start."""
    count, starts = len(target), target.columns.get("start")
    both = {
        name: np.stack([target.columns[name], behaviour.columns[name]], axis=1).reshape(-1)
        for name in ("value", "total_low", "total_high", "low", "high")
    }
    labels: dict[str, Sequence[str]] = {"Policy": ["target", "behaviour"] * count}
    if starts is not None:
        labels = {"Start": np.repeat(starts, 2), **labels}  # type: ignore[dict-item]
    kept, flags = [str(kept_mass(target, at)) for at in range(count)], _flags(target)
    values = Table(
        key="values",
        title=heading_of(release, "of both policies"),
        labels=labels,
        value=both["value"],
        total=(both["total_low"], both["total_high"]),
        privacy=(both["low"], both["high"]),
        more={"kept mass": [text for mass in kept for text in (mass, "")]},
        flags=[of for flag in flags for of in (flag, ())],
        marks=counted_between(release),
        axis_label=axis_label_of(release),
    )
    differences = release.tables["differences"]
    difference = _table(
        release,
        differences,
        np.arange(count),
        key="differences",
        title="Difference: target less behaviour",
        labels={"Start": starts} if starts is not None else {"": ["target less behaviour"]},
    )
    return difference, values


def _table(
    release: Release,
    table: ValueTable,
    order: NDArray[np.int64],
    *,
    key: str,
    title: str,
    labels: Mapping[str, Any],
    marks: tuple[float, ...] = (0.0,),
) -> Table:
    """Return some rows of a table, in an order; differences have a mark at 0."""
    label, flags = axis_label_of(release), _flags(table)
    if marks == (0.0,):
        label = f"difference in {label}" if label else "difference"
    return Table(
        key=key,
        title=title,
        labels=labels,
        value=table.value[order],
        total=_ends(table, "total_", order),
        privacy=_ends(table, "", order),
        flags=[flags[at] for at in order] if flags else (),
        marks=marks,
        axis_label=label,
    )


def kept_mass(table: ValueTable, at: int) -> Formatted:
    """Return the kept mass of a row, with its interval."""
    row = table.row(at)
    return format_interval(row.kept_mass, row.kept_low, row.kept_high)


def _ends(table: ValueTable, kind: str, order: NDArray[np.int64]) -> Ends | None:
    low, high = table.column(f"{kind}low"), table.column(f"{kind}high")
    return None if low is None or high is None else (low[order], high[order])


def _flags(table: ValueTable) -> list[tuple[str, ...]]:
    texts = table.column("flags")
    return [] if texts is None else list(map(split_flags, texts))


def split_flags(text: str) -> tuple[str, ...]:
    """Return the flags of a row, without what the banner of a seeded experiment says."""
    return tuple(flag for flag in text.split(FLAGS_BETWEEN) if flag not in {"", NOT_PRIVATE})
