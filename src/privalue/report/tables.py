"""Turn the tables of a release into tables that people read, differences first."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privalue.report.description import Ends, Table
from privalue.report.numbers import format_interval

OVERALL = "overall"


def describe_tables(
    tables: Mapping[str, Any],
    *,
    heading: str,
    axis_label: str,
    bounds: tuple[float, float],
    is_off_policy: bool,
) -> tuple[Table, ...]:
    """Return the tables of a release in the order in which they are read.

    Args:
        tables: of the release, by name.
        heading: what the values are.
        axis_label: the outcome and its unit.
        bounds: between which returns count.
        is_off_policy: whether a policy is compared with its behaviour, and not states.
    """
    shared = {"heading": heading, "axis_label": axis_label, "bounds": bounds}
    if is_off_policy:
        return _off_policy(tables, **shared)
    found = []
    if "differences" in tables:
        found.append(_differences(tables["differences"], axis_label))
    if "states" in tables:
        found.append(_table("states", f"{heading} by state", tables["states"], **shared))
    by = "by state and action" if "states" in tables else "by state and arm"
    title = f"{heading} {by if len(tables['values'].keys) > 1 else 'by state'}"
    found.append(_table("values", title, tables["values"], **shared))
    return tuple(found)


def _table(key: str, title: str, table: Any, *, axis_label: str, bounds: Any, **_: Any) -> Table:
    order = _by_state(table)
    return Table(
        key=key,
        title=title,
        labels=_labels(table, order),
        value=table.columns["value"][order],
        total=_ends(table, "total_", order),
        privacy=_ends(table, "", order),
        flags=_flags(table, order),
        marks=tuple(bounds),
        axis_label=axis_label,
    )


def _differences(table: Any, axis_label: str) -> Table:
    """Return the differences of arms, that of the overall values first."""
    states = table.columns["state"]
    whole = [at for at, state in enumerate(states) if state is None]
    order = np.array([*whole, *(at for at in range(len(states)) if at not in set(whole))])
    arms, against = (dict.fromkeys(table.columns[name]) for name in ("arm", "against"))
    labels: dict[str, Sequence[str]] = {
        "State": [OVERALL if states[at] is None else states[at] for at in order]
    }
    if len(arms) > 1:
        labels["Arm"] = [table.columns["arm"][at] for at in order]
    return Table(
        key="differences",
        title=f"Difference: {'arm' if len(arms) > 1 else next(iter(arms))} less "
        f"{next(iter(against))}",
        labels=labels,
        value=table.columns["value"][order],
        total=_ends(table, "total_", order),
        flags=_flags(table, order),
        marks=(0.0,),
        axis_label=f"difference{f' in {axis_label}' if axis_label else ''}",
    )


def _off_policy(
    tables: Mapping[str, Any], *, heading: str, axis_label: str, bounds: tuple[float, float]
) -> tuple[Table, ...]:
    target, behaviour = tables["policy"], tables["behaviour"]
    count = len(target)
    pairs = [(table, at) for at in range(count) for table in (target, behaviour)]
    starts = target.columns.get("start")
    named: dict[str, Sequence[str]] = {}
    if starts is not None:
        named["Start"] = [str(starts[at]) for _, at in pairs]
    named["Policy"] = ["behaviour" if table is behaviour else "target" for table, _ in pairs]

    def gather(name: str) -> NDArray[np.float64]:
        return np.array([table.columns[name][at] for table, at in pairs])

    more = {
        "kept mass": [
            "" if table is behaviour else str(kept_mass(target, at)) for table, at in pairs
        ]
    }
    flags = _flags(target, np.arange(count))
    differences = tables["differences"]
    return (
        Table(
            key="differences",
            title="Difference: target less behaviour",
            labels={"Start": [str(start) for start in starts]}
            if starts is not None
            else {"": ["target less behaviour"]},
            value=differences.columns["value"],
            total=_ends(differences, "total_", np.arange(count)),
            privacy=_ends(differences, "", np.arange(count)),
            marks=(0.0,),
            axis_label=f"difference{f' in {axis_label}' if axis_label else ''}",
        ),
        Table(
            key="values",
            title=f"{heading} of both policies",
            labels=named,
            value=gather("value"),
            total=(gather("total_low"), gather("total_high")),
            privacy=(gather("low"), gather("high")),
            more=more,
            flags=[() if table is behaviour else flags[at] for table, at in pairs],
            marks=bounds,
            axis_label=axis_label,
        ),
    )


def kept_mass(table: Any, at: int) -> Any:
    """Return the kept mass of a row with its interval, as text."""
    names = ("kept_mass", "kept_low", "kept_high")
    return format_interval(*(float(table.columns[name][at]) for name in names))


def _by_state(table: Any) -> NDArray[np.int64]:
    """Return the order in which the arms of a state stand together; tables go arm after arm."""
    arms = table.columns.get("arm")
    if arms is None:
        return np.arange(len(table))
    count = len(dict.fromkeys(arms))
    return np.arange(len(table)).reshape(count, -1).T.reshape(-1)


def _labels(table: Any, order: NDArray[np.int64]) -> dict[str, Sequence[str]]:
    names = sorted(table.keys, key=["state", "start", "arm", "action"].index)
    return {name.capitalize(): table.columns[name][order] for name in names}


def _ends(table: Any, kind: str, order: NDArray[np.int64]) -> Ends | None:
    low, high = (table.columns.get(f"{kind}{end}") for end in ("low", "high"))
    return None if low is None or high is None else (low[order], high[order])


def _flags(table: Any, order: NDArray[np.int64]) -> Sequence[tuple[str, ...]]:
    found = table.columns.get("flags")
    if found is None:
        return ()
    return [tuple(text.split("; ")) if text else () for text in found[order]]
