"""Define what every output is made of: facts, notices and tables.

A description is made once, of a release, a study, a plan, an account or a curator's diagnostics.
Page, notebook, terminal, registry and JSON are loops over it: nothing after it knows arms, actions
or off-policy evaluation.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privalue.report.numbers import Formatted, format_interval, nice_ticks

Severity = Literal["stop", "warn", "note"]
Ends = tuple[NDArray[np.float64], NDArray[np.float64]]


class Fact(NamedTuple):
    """One thing that is known, for programs and, if it has a label, for people."""

    key: str  # stable: "privacy.epsilon"
    value: Any  # plain, as JSON holds it
    label: str = ""
    text: str = ""  # how people read the value, if not as str(value)

    def __str__(self) -> str:
        return self.text or str(self.value)


class Notice(NamedTuple):
    """Something that a reader must know; its sentence is the block of that code in notices.txt."""

    code: str
    severity: Severity
    about: Mapping[str, Any] = {}  # what the sentence needs


class Row(NamedTuple):
    """One value of a table, as people read it and as positions of a plot, in percent."""

    labels: tuple[str, ...]
    value: str
    total: str
    privacy: str
    more: tuple[str, ...]
    flags: tuple[str, ...]
    dot: float | None = None
    line: tuple[float, float] | None = None  # of the total interval
    bar: tuple[float, float] | None = None  # of the privacy interval


class Axis(NamedTuple):
    """Where a plot begins and ends, what is marked on it, and its ticks with their positions."""

    low: float
    high: float
    marks: tuple[float, ...]
    ticks: tuple[tuple[str, float], ...]

    def at(self, number: float) -> float:
        """Return the position of a number, in percent of the width."""
        share = (number - self.low) / (self.high - self.low)
        return round(100 * min(max(share, 0.0), 1.0), 2)


@dataclass(frozen=True, kw_only=True)
class Table:
    """Values with their intervals and flags, by labels: at most as many as people look at."""

    key: str  # "values", "differences", "states", "policy"
    title: str
    labels: Mapping[str, Sequence[str]]  # heading: the labels of every row
    value: NDArray[np.float64]
    total: Ends | None = None
    privacy: Ends | None = None
    more: Mapping[str, Sequence[str]] = field(default_factory=dict)  # further columns of text
    flags: Sequence[tuple[str, ...]] = ()
    marks: tuple[float, ...] = ()  # public bounds, or 0 of differences
    axis_label: str = ""  # the outcome and its unit

    def __len__(self) -> int:
        return len(self.value)

    @cached_property
    def flagged(self) -> list[int]:
        """Return the positions of the rows that have a flag."""
        return [at for at, flags in enumerate(self.flags) if flags]

    @cached_property
    def axis(self) -> Axis | None:
        """Return an axis for the rows without flags; None where there is nothing to draw."""
        if not len(self):
            return None
        sound = np.ones(len(self), dtype=bool)
        sound[self.flagged] = False
        ends = [self.value, *(self.total or ()), *(self.privacy or ())]
        shown = np.concatenate([end[sound] if sound.any() else end for end in ends])
        shown = np.concatenate([shown[np.isfinite(shown)], [0.0] if self.marks == (0.0,) else []])
        if not len(shown):
            return None
        low, high = float(shown.min()), float(shown.max())
        bounds = self.marks if len(self.marks) == 2 else (low, high)
        if 2 * (high - low) > bounds[1] - bounds[0]:
            low, high = min(low, *bounds), max(high, *bounds)
        room = 0.04 * (high - low) or abs(high) or 1.0
        axis = Axis(low - room, high + room, (), ())
        inside = [mark for mark in self.marks if axis.low <= mark <= axis.high]
        ticks = [(text, axis.at(at)) for text, at in nice_ticks(axis.low, axis.high)]
        return axis._replace(marks=tuple(map(axis.at, inside)), ticks=tuple(ticks))

    def rows(self, most: int | None = None) -> Iterator[Row]:
        """Yield the first rows, as people read them."""
        for at in range(len(self))[:most]:
            yield self.row(at)

    def row(self, at: int) -> Row:
        """Return one row."""
        axis, value = self.axis, float(self.value[at])
        total, privacy = (_ends(ends, at) for ends in (self.total, self.privacy))
        shown = format_interval(value, *(total or ()))
        alone = Formatted("", "") if privacy is None else format_interval(value, *privacy)
        drawn = axis is not None and np.isfinite(value)
        return Row(
            labels=tuple(str(column[at]) for column in self.labels.values()),
            value=shown.value,
            total=shown.interval if total else "",
            privacy=alone.interval,
            more=tuple(str(column[at]) for column in self.more.values()),
            flags=self.flags[at] if len(self.flags) else (),
            dot=axis.at(value) if axis and drawn else None,
            line=(axis.at(total[0]), axis.at(total[1])) if axis and drawn and total else None,
            bar=(axis.at(privacy[0]), axis.at(privacy[1])) if axis and drawn and privacy else None,
        )


def _ends(ends: Ends | None, at: int) -> tuple[float, float] | None:
    return None if ends is None else (float(ends[0][at]), float(ends[1][at]))


class Listing(NamedTuple):
    """A table of texts: a statement of account, stages, side files."""

    key: str
    title: str
    heads: tuple[str, ...]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, kw_only=True)
class Description:
    """Everything that an output shows."""

    title: str
    facts: tuple[Fact, ...]
    notices: tuple[Notice, ...] = ()
    tables: tuple[Table, ...] = ()
    listings: tuple[Listing, ...] = ()
    level: float | None = None  # of every interval
    private: bool = True  # False of a seeded experiment: it has no guarantee

    @cached_property
    def _values(self) -> dict[str, Any]:
        return {fact.key: fact.value for fact in self.facts}

    def __getitem__(self, key: str) -> Any:
        """Return the value of a fact."""
        return self._values[key]

    def get(self, key: str) -> Any:
        """Return the value of a fact; None where there is none."""
        return self._values.get(key)

    def section(self, name: str) -> list[Fact]:
        """Return the facts of a section that people read."""
        return [fact for fact in self.facts if fact.label and fact.key.startswith(f"{name}.")]

    def table(self, key: str) -> Table | None:
        """Return the table of a name; None where there is none."""
        return next((table for table in self.tables if table.key == key), None)

    def having(self, severity: Severity) -> list[Notice]:
        """Return the notices of one severity."""
        return [notice for notice in self.notices if notice.severity == severity]

    @property
    def verdict(self) -> str:
        """Return "unusable", "care" or "usable", by the worst notice."""
        if self.having("stop"):
            return "unusable"
        return "care" if self.having("warn") else "usable"

    def as_dict(self) -> dict[str, Any]:
        """Return facts and notices as plain values."""
        return {
            **self._values,
            "verdict": self.verdict,
            "notices": [
                {"code": notice.code, "severity": notice.severity} for notice in self.notices
            ],
        }
