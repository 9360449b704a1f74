"""Collect what is public about each state: its value, its intervals, and what to be careful about.

A flag comes from what was released or is public, never from the data: the noisy counts of dp-ssp,
the study's prior of visits, its weights, its bounds of returns. There may be ten million states:
they are kept as columns, and a row is made only for a state that is shown.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pydantic_core
from numpy.typing import NDArray

from privalue.core import Vector
from privalue.estimate import ABOVE, IMPOSSIBLE, MEANINGS, normal_quantile
from privalue.releases import FLAGS_BETWEEN, NOT_PRIVATE, Release, ValueTable
from privalue.report._rows import is_refuted, own_flags
from privalue.study import as_cell, described_values

_AT_ONCE = 1 << 14
_SPECIAL = re.compile('[,"\r\n]')
_WORD = re.compile(r"[\w.+-]+")

FLAGS = tuple(MEANINGS)  # flag number k is bit k of a state's flags
_TOTALS = ("total_low", "total_high")
_ENDS = ("low", "high")
_MORE = ("total_band_low", "total_band_high")


@dataclass(frozen=True, kw_only=True)
class StateRow:
    """One state, as a page or a table shows it."""

    state: str
    value: float
    columns: Mapping[str, float]  # whatever else was released
    flags: tuple[str, ...] = ()

    @property
    def low(self) -> float | None:
        """Return the lower end of the privacy interval."""
        return self.columns.get("low")

    @property
    def high(self) -> float | None:
        """Return the upper end of the privacy interval."""
        return self.columns.get("high")


@dataclass(frozen=True, kw_only=True, eq=False)
class StateTable(Sequence[StateRow]):
    """Every state of a release, as columns; an index gives a ``StateRow``."""

    names: Sequence[str] | range  # a range stands for its numbers
    value: Vector
    columns: Mapping[str, Vector]  # whatever else was released, in the order of values.csv
    bits: NDArray[np.uint8]  # the flags of each state
    arms: tuple[str, ...] = ()  # values are arm after arm, and names begin with the arm
    pairs: Sequence[tuple[str, str]] = ()  # the state and the action of each, where there are any

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return [self[place] for place in range(len(self))[at]]
        return StateRow(
            state=str(self.names[at]),
            value=float(self.value[at]),
            columns={name: float(column[at]) for name, column in self.columns.items()},
            flags=flags_of(int(self.bits[at])),
        )

    @property
    def flagged(self) -> NDArray[np.bool_]:
        """Return for each state whether it has a flag."""
        return np.asarray(self.bits != 0)

    def with_flag(self, flag: str) -> NDArray[np.int64]:
        """Return the indices of the states that have a flag."""
        return np.flatnonzero(self.bits & _bit(flag))

    @property
    def bits_of_differences(self) -> NDArray[np.uint8]:
        """Return the flags of the other arms' differences from the first: those of both values."""
        by_arm = self.bits.reshape(len(self.arms), -1)
        return np.asarray((by_arm[1:] | by_arm[:1]).reshape(-1))

    @property
    def has_intervals(self) -> bool:
        """Return whether intervals were released."""
        return "total_low" in self.columns


def _bit(flag: str) -> int:
    """Return the bit that stands for a flag."""
    return 1 << FLAGS.index(flag)


def flags_of(bits: int) -> tuple[str, ...]:
    """Return the flags that a number stands for."""
    return tuple(flag for flag in FLAGS if bits & _bit(flag))


def return_bounds(release: Release) -> tuple[float, float]:
    """Return the public bounds of returns, as the release's study gives or implies them."""
    return described_values(release.study).return_bounds


def state_table(release: Release) -> StateTable:
    """Return every state of a release with its flags.

    Args:
        release: what was released.
    """
    value = release.values.column("value")
    assert value is not None  # every state has one
    released = {name: release.values.column(name) for name in (*_TOTALS, *_ENDS, *_MORE)}
    counts = _counts(release)
    actions = release.values.column("action")
    states = release.values.columns["state"].tolist()
    return StateTable(
        arms=release.arms,
        pairs=() if actions is None else list(zip(states, actions.tolist(), strict=True)),
        names=_names(release),
        value=value,
        columns={name: c for name, c in released.items() if c is not None}
        | counts
        | _restriction(release, len(value)),
        bits=bits_of(release.values),
    )


def above_words(release: Release) -> str:
    """Return the flag of a kept mass above 1: by chance, unless the release refutes the behaviour.

    At the level of each start some of many are above 1 even where the behaviour is right.
    """
    return IMPOSSIBLE if is_refuted(release) else ABOVE


def bits_of(table: ValueTable) -> NDArray[np.uint8]:
    """Return the flags of every row, as bits; that nothing is private is none of them."""
    texts = table.flags.tolist()
    bits = {
        text: sum(_bit(flag) for flag in text.split(FLAGS_BETWEEN) if flag in MEANINGS)
        for text in set(texts)
    }
    others = {text: 1 << 7 for text in bits if not bits[text] and own_flags(text and (text,))}
    return np.array([others.get(text, bits[text]) for text in texts], dtype=np.uint8)


def _names(release: Release) -> Sequence[str] | range:
    """Return what each value is of: the state, with the arm before it, or the action after."""
    actions, arms = release.values.column("action"), release.values.column("arm")
    states: list[str] = release.values.columns["state"].tolist()
    if actions is not None:
        named = zip(states, actions.tolist(), strict=True)
        return [f"{state}, {action}" for state, action in named]
    if arms is None:
        return states
    both = zip(arms.tolist(), states, strict=True)
    return [f"{arm}: {state}" for arm, state in both]


def _restriction(release: Release, count: int) -> dict[str, Vector]:
    """Return between which bounds returns count, in every line, where a stage chose them."""
    held = release.restriction
    if held is None:
        return {}
    ends = {"restriction_low": held.low, "restriction_high": held.high}
    return {name: np.full(count, end) for name, end in ends.items()}


def _counts(release: Release) -> dict[str, Vector]:
    """Return the noisy counts of dp-ssp with their intervals: the noise is public."""
    if release.statistics is None or release.level is None:
        return {}
    counts = np.asarray(release.statistics.counts)
    reach = normal_quantile(release.level) * np.asarray(release.statistics.count_noise)
    return {
        "noisy_visits": counts,
        "noisy_visits_low": np.maximum(counts - reach, 0.0),
        "noisy_visits_high": np.maximum(counts + reach, 0.0),
    }


def values_csv(table: StateTable, *, private: bool = True) -> Iterator[str]:
    """Yield the states as CSV, some thousands at a time, with every digit that was released.

    Numbers are as release.json has them. A label that a spreadsheet would take for a formula has an
    apostrophe before it, and one that is more than a word is in quotes. Every line of a seeded
    experiment says what it is.
    """
    heads = list(table.columns)
    labels = ["state", *(["arm"] if table.arms else ["action"] if table.pairs else [])]
    yield ",".join([*labels, "value", *heads, "flags"]) + "\n"
    told = () if private else (NOT_PRIVATE,)
    words = [_quoted("; ".join([*told, *flags_of(bits)])) for bits in range(1 << len(FLAGS))]
    line = ",".join(["%s"] * (len(heads) + 3))
    for start in range(0, len(table), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        names = [_label(as_cell(str(name))) for name in table.names[part]]
        if table.arms:
            names = [_in_arm(table, at) for at in range(start, start + len(names))]
        if table.pairs:
            both = table.pairs[part]
            names = [",".join(_label(as_cell(one)) for one in pair) for pair in both]
        cells = [
            pydantic_core.to_json(column[part].tolist(), indent=0)[2:-2].decode().split(",\n")
            for column in (table.value, *table.columns.values())
        ]
        flags = [words[bits] for bits in table.bits[part].tolist()]
        yield "".join(f"{line % row}\n" for row in zip(names, *cells, flags, strict=True))


def _in_arm(table: StateTable, at: int) -> str:
    """Return the first two cells of a line: the state, and its arm."""
    arm = table.arms[at // (len(table) // len(table.arms))]
    state = str(table.names[at]).removeprefix(f"{arm}: ")
    return f"{_label(as_cell(state))},{_label(as_cell(arm))}"


def _label(text: str) -> str:
    """Return the first cell of a line, in quotes unless it is one plain word.

    A spreadsheet that separates cells by something else, such as ";", then still finds one cell
    there: what follows the separator in a label cannot become a formula.
    """
    return text if _WORD.fullmatch(text) else _in_quotes(text)


def _quoted(text: str) -> str:
    """Return a cell of CSV, in quotes where it must be."""
    return _in_quotes(text) if _SPECIAL.search(text) else text


def _in_quotes(text: str) -> str:
    """Return a cell of CSV in quotes."""
    return '"' + text.replace('"', '""') + '"'
