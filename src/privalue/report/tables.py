"""Convert the tables of a release for display, differences first."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privalue.releases import FLAG_SEPARATOR, NOT_PRIVATE, Release, ValueTable
from privalue.report.description import Table
from privalue.report.meaning import axis_label_of, heading_of, name_restriction, return_bounds_of
from privalue.report.numbers import FormattedNumber, format_interval

OVERALL = "overall"
_BY = {"arm": "by state and arm", "action": "by state and action"}


def describe_tables(release: Release) -> tuple[Table, ...]:
    """Return the tables of a release in the order of the report."""
    if release.behaviour is not None:
        return _off_policy(release)
    tables = [] if release.differences is None else [_differences(release, release.differences)]
    if release.state_values is not None:
        tables.append(_values(release, "states", release.state_values))
    return (*tables, _values(release, "values", release.values))


def describe_files(release: Release) -> dict[str, dict[str, Any]]:
    """Return the columns of values.csv and differences.csv, with every digit."""
    both = release.behaviour is not None
    values = _rows_of_both_policies(release) if both else dict[str, Any](release.main.columns)
    noisy = release.statistics
    if noisy is not None and len(noisy.counts) == len(release.main):
        values["noisy_visits"] = noisy.counts
    files: dict[str, dict[str, Any]] = {"values": values}
    if release.differences is not None:
        files["differences"] = dict(release.differences.columns)
    constants: dict[str, Any] = {}
    if release.restriction is not None:
        constants |= {"restriction_low": release.restriction.low}
        constants |= {"restriction_high": release.restriction.high}
    if not release.private:
        constants["flags"] = NOT_PRIVATE
    for columns in files.values():
        count = len(columns["value"])
        columns |= {name: [cell] * count for name, cell in constants.items() if name not in columns}
    return files


def _rows_of_both_policies(release: Release) -> dict[str, Any]:
    """Return the rows of the target, then those of the behaviour, which has fewer columns."""
    both = {"target": release.main, "behaviour": release.tables["behaviour"]}
    rows = {"policy": [name for name, table in both.items() for _ in range(len(table))]}
    for name in release.main.columns:
        parts = [table.columns.get(name, [""] * len(table)) for table in both.values()]
        rows[name] = [cell for part in parts for cell in part]
    return rows


def _values(release: Release, key: str, table: ValueTable) -> Table:
    """Return values by state, the arms of a state beside each other; tables go arm after arm."""
    order = np.arange(len(table))
    if release.arms:
        order = order.reshape(len(release.arms), -1).T.reshape(-1)
    columns = _reorder(table, order)
    names = sorted(table.keys, key=("state", "arm", "action").index)
    return Table(
        key=key,
        title=heading_of(release, _BY.get(names[-1], "by state")),
        labels={name.capitalize(): columns[name] for name in names},
        by="Arm" if release.arms else "",
        marks=return_bounds_of(release),
        axis_label=axis_label_of(release),
        **_numbers(columns),
    )


def _differences(release: Release, table: ValueTable) -> Table:
    """Return the differences of arms, that of the overall values first."""
    is_overall = np.array([state is None for state in table.columns["state"]])
    columns = _reorder(table, np.argsort(~is_overall, kind="stable"))
    arms, against = release.arms[1:], release.arms[0]
    labels = {"State": [OVERALL if state is None else state for state in columns["state"]]}
    if len(arms) > 1:
        labels["Arm"] = list(columns["arm"])
    title = f"Difference: {'arm' if len(arms) > 1 else arms[0]} less {against}"
    return _difference(release, name_restriction(release, title), labels, columns)


def _off_policy(release: Release) -> tuple[Table, ...]:
    """Return the difference of both policies, and both policies, start after start."""
    target, rows = release.main, _rows_of_both_policies(release)
    starts, count = target.columns.get("start"), len(target)
    order = np.arange(2 * count).reshape(2, count).T.ravel()
    both = {name: np.array(cells)[order] for name, cells in rows.items()}
    labels: dict[str, Any] = {"Policy": both["policy"]}
    difference_labels: dict[str, Any] = {"Policy": ["target less behaviour"]}
    if starts is not None:
        labels, difference_labels = {"Start": both["start"], **labels}, {"Start": starts}
    kept_cells = [text for at in range(count) for text in (str(kept_mass(target, at)), "")]
    values = Table(
        key="values",
        title=heading_of(release, "of both policies"),
        labels=labels,
        by="" if starts is None else "Policy",
        more={"kept mass": kept_cells},
        marks=return_bounds_of(release),
        axis_label=axis_label_of(release),
        **_numbers(both),
    )
    columns = release.tables["differences"].columns
    return _difference(
        release, "Difference: target less behaviour", difference_labels, columns
    ), values


def _difference(
    release: Release, title: str, labels: Mapping[str, Any], columns: Mapping[str, Any]
) -> Table:
    """Return a table of differences, with a mark at 0."""
    label = axis_label_of(release)
    return Table(
        key="differences",
        title=title,
        labels=labels,
        by="Arm" if "Arm" in labels else "",
        marks=(0.0,),
        axis_label=f"difference in {label}" if label else "difference",
        **_numbers(columns),
    )


def _reorder(table: ValueTable, order: NDArray[np.int64]) -> dict[str, Any]:
    return {name: column[order] for name, column in table.columns.items()}


def _numbers(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values, intervals and flags of a table."""
    total, privacy = (
        (columns[f"{kind}low"], columns[f"{kind}high"]) if f"{kind}low" in columns else None
        for kind in ("total_", "")
    )
    flags = [split_flags(text) for text in columns.get("flags", ())]
    return {"value": columns["value"], "total": total, "privacy": privacy, "flags": flags}


def kept_mass(table: ValueTable, at: int) -> FormattedNumber:
    """Return the kept mass of a row, with its interval."""
    row = table.row(at)
    return format_interval(row.kept_mass, row.kept_low, row.kept_high)


def split_flags(text: str) -> tuple[str, ...]:
    """Return the flags of a row, without the mark of a seeded experiment."""
    return tuple(flag for flag in text.split(FLAG_SEPARATOR) if flag not in {"", NOT_PRIVATE})
