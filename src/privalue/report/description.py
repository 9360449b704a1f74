"""Define the content of every output: facts, notices and tables.

A release, a study, a plan, an account or a curator's diagnostics are described once. Page,
notebook, terminal, registry and JSON are loops over the description, with no code for arms, actions
or off-policy evaluation.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privalue.report.numbers import format_interval, nice_ticks

Severity = Literal["stop", "warn", "note"]
PRIVACY = "privacy noise alone"  # the heading of intervals without sampling error
Ends = tuple[NDArray[np.float64], NDArray[np.float64]]


class Fact(NamedTuple):
    """One named value, for programs and, if it has a label, for people."""

    key: str  # stable: "privacy.epsilon"
    value: Any  # a value that JSON can represent
    label: str = ""
    text: str = ""  # the value for people, if it is not str(value)

    def __str__(self) -> str:
        return self.text or str(self.value)


class Notice(NamedTuple):
    """A remark for the reader; its sentence is the block of its code in notices.txt."""

    code: str
    severity: Severity
    about: Mapping[str, Any] = {}  # values for the sentence


class Row(NamedTuple):
    """One value of a table, as texts and as positions in a plot, in percent."""

    labels: tuple[str, ...]
    numbers: tuple[str, ...]  # in the order of Table.heads
    flags: tuple[str, ...]
    dot: float | None = None
    line: tuple[float, float] | None = None  # of the total interval
    bar: tuple[float, float] | None = None  # of the privacy interval
    beyond: tuple[str, ...] = ()  # "low", "high": where an interval goes on beyond the axis


class Axis(NamedTuple):
    """The ends of a plot's axis, its marks, and its ticks with their positions."""

    low: float
    high: float
    marks: tuple[float, ...]
    ticks: tuple[tuple[str, float], ...]

    def at(self, number: float) -> float:
        """Return the position of a number, in percent of the width."""
        share = (number - self.low) / (self.high - self.low)
        return round(100 * min(max(share, 0.0), 1.0), 2)


class Listing(NamedTuple):
    """A table of texts: a statement of account, stages, side files."""

    key: str
    title: str
    heads: tuple[str, ...]
    rows: Sequence[Sequence[Any]]
    right: tuple[str, ...] = ()  # the headings of numbers


@dataclass(frozen=True, kw_only=True)
class Table:
    """Values with their intervals and flags, by labels."""

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
    by: str = ""  # the heading whose labels have their own colours in a plot

    def __len__(self) -> int:
        return len(self.value)

    @cached_property
    def flagged(self) -> list[int]:
        """Return the positions of the rows that have a flag."""
        return [at for at, flags in enumerate(self.flags) if flags]

    @cached_property
    def axis(self) -> Axis | None:
        """Return an axis that includes every value, and the intervals of rows without flags.

        None if there is nothing to plot.
        """
        if not len(self):
            return None
        unflagged = np.ones(len(self), dtype=bool)
        unflagged[self.flagged] = len(self.flagged) == len(self)
        ends = [end[unflagged] for end in (*(self.total or ()), *(self.privacy or ()))]
        numbers = np.concatenate([self.value, *ends, [0.0] if self.marks == (0.0,) else []])
        numbers = numbers[np.isfinite(numbers)]
        if not len(numbers):
            return None
        low, high = float(numbers.min()), float(numbers.max())
        bounds = self.marks if len(self.marks) == 2 else (low, high)
        if 2 * (high - low) > bounds[1] - bounds[0]:
            low, high = min(low, *bounds), max(high, *bounds)
        margin = 0.04 * (high - low) or abs(high) or 1.0
        axis = Axis(low - margin, high + margin, (), ())
        inside = [mark for mark in self.marks if axis.low <= mark <= axis.high]
        ticks = [(text, axis.at(at)) for text, at in nice_ticks(axis.low, axis.high)]
        ticks = [(text, at) for text, at in ticks if 3 <= at <= 97]  # others do not fit
        return axis._replace(marks=tuple(map(axis.at, inside)), ticks=tuple(ticks))

    @cached_property
    def beyond(self) -> dict[str, NDArray[np.bool_]]:
        """Return which rows have a total interval that goes on beyond the axis, by its ends."""
        if self.total is None or self.axis is None:
            return {}
        return {"low": self.total[0] < self.axis.low, "high": self.total[1] > self.axis.high}

    def heads(self, level: float | None) -> tuple[str, ...]:
        """Return the headings of the numbers; both kinds of interval have the same level."""
        total = () if self.total is None else (f"{100 * (level or 0):g}% interval",)
        return ("value", *total, *([PRIVACY] if self.privacy is not None else []), *self.more)

    def rows(self, most: int | None = None) -> Iterator[Row]:
        """Return the first rows, formatted."""
        return map(self.row, range(len(self))[:most])

    def row(self, at: int) -> Row:
        """Return one row."""
        axis, value = self.axis, float(self.value[at])
        total, privacy = (_interval_at(ends, at) for ends in (self.total, self.privacy))
        formatted = format_interval(value, *(total or ()))
        numbers = [formatted.value]
        if total is not None:
            numbers.append(formatted.interval)
        if privacy is not None:
            numbers.append(format_interval(value, *privacy).interval)
        numbers += [str(column[at]) for column in self.more.values()]
        labels = tuple(str(column[at]) for column in self.labels.values())
        row = Row(labels, tuple(numbers), self.flags[at] if len(self.flags) else ())
        if axis is None or not np.isfinite(value):
            return row
        line, bar = (ends and (axis.at(ends[0]), axis.at(ends[1])) for ends in (total, privacy))
        beyond = tuple(end for end, mask in self.beyond.items() if mask[at])
        return row._replace(dot=axis.at(value), line=line, bar=bar, beyond=beyond)

    def listing(self, level: float | None, most: int) -> Listing:
        """Return the first rows as texts, with the short form of flags."""
        numbers = self.heads(level)
        rows = [
            (*row.labels, *row.numbers, "; ".join(flag.partition(":")[0] for flag in row.flags))
            for row in self.rows(most)
        ]
        # Without any flag the last column is left out.
        heads = (*self.labels, *numbers, *(["flag"] if self.flagged else []))
        return Listing(self.key, self.title, heads, [row[: len(heads)] for row in rows], numbers)


def _interval_at(ends: Ends | None, at: int) -> tuple[float, float] | None:
    return None if ends is None else (float(ends[0][at]), float(ends[1][at]))


@dataclass(frozen=True, kw_only=True)
class Description:
    """The content of an output."""

    title: str
    facts: tuple[Fact, ...] = ()
    notices: tuple[Notice, ...] = ()
    limits: tuple[Notice, ...] = ()  # limitations that hold whatever the values are
    tables: tuple[Table, ...] = ()
    listings: tuple[Listing, ...] = ()
    files: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # columns of CSV files
    level: float | None = None  # of every interval
    private: bool = True  # False of a seeded experiment: it has no guarantee

    @cached_property
    def _values(self) -> dict[str, Any]:
        return {fact.key: fact.value for fact in self.facts}

    def __getitem__(self, key: str) -> Any:
        """Return the value of a fact."""
        return self._values[key]

    def get(self, key: str) -> Any:
        """Return the value of a fact, or None."""
        return self._values.get(key)

    def section(self, name: str) -> list[Fact]:
        """Return the facts of a section that have a label."""
        return [fact for fact in self.facts if fact.label and fact.key.startswith(f"{name}.")]

    def notices_with(self, severity: Severity) -> list[Notice]:
        """Return the notices of one severity."""
        return [notice for notice in self.notices if notice.severity == severity]

    @property
    def verdict(self) -> str:
        """Return "unusable", "care" or "usable", by the worst notice."""
        if self.notices_with("stop"):
            return "unusable"
        return "care" if self.notices_with("warn") else "usable"

    def results(self) -> dict[str, Any]:
        """Return the main numbers, by the last part of their keys."""
        results = [fact for fact in self.facts if fact.key.startswith("result.")]
        return {fact.key.partition(".")[2]: fact.value for fact in results}

    def as_dict(self) -> dict[str, Any]:
        """Return facts and notices as plain values."""
        notices = [{"code": notice.code, "severity": notice.severity} for notice in self.notices]
        return {**self._values, "verdict": self.verdict, "notices": notices}
