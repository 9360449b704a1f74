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
from numpy.typing import NDArray

from privalue.artefact import NOT_PRIVATE, Flags, Release, StateValues, json_cells
from privalue.core import Vector
from privalue.estimate import normal_quantile
from privalue.report._limits import counted_between
from privalue.study import Study, as_cell, described_values

FEW_VISITS = 10  # expected of all trajectories, by the study's own prior
_AT_ONCE = 1 << 14
_SPECIAL = re.compile('[,"\r\n]')
_WORD = re.compile(r"[\w.+-]+")

UNSUPPORTED = "too few visits"
WIDE = "wide interval"
RARE = "rarely visited, by the public prior"
WEIGHTLESS = "weight 0"
AT_A_BOUND = "at a bound of returns"
GUESSED = "no better than guessing"
# Of another policy's value.
LOST = "not supported: clipping may have lost too much"
IMPOSSIBLE = (
    "not supported: weights exceed what any right behaviour allows, so the behaviour is wrong"
)
ABOVE = "not supported: the kept mass is above 1, by chance or because the behaviour is wrong"

MEANINGS = {
    GUESSED: "by its own plan the whole release is no better than guessing, which whoever made it "
    "was told and accepted explicitly: do not act on this value",
    UNSUPPORTED: "the released noisy count is no larger than what nobody's visits could give, or "
    "the state's own numbers make up less than half of the value, the rest coming from other "
    "states: do not act on this value",
    WIDE: "the interval that is shown first, with all that it covers, spans more than half of what "
    "is possible: do not act on this value",
    RARE: f"the study's public prior expects fewer than {FEW_VISITS} of these trajectories to "
    "visit the state: its value is likely to be mostly noise",
    WEIGHTLESS: "the study gives the state no weight: it takes no part in the fit, and its value "
    "is what the features make of the other states",
    AT_A_BOUND: "noise, or features that stretch beyond the states they were fitted to, may have "
    "taken the value where no return can be: the bound is published in its place",
}
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


def state_table(release: Release, study: Study | None = None) -> StateTable:
    """Return every state of a release with its flags.

    Args:
        release: what was released.
        study: its study; with it, flags also use what side files say of states.
    """
    value = release.values.column("value")
    assert value is not None  # every state has one
    released = {name: release.values.column(name) for name in (*_TOTALS, *_ENDS, *_MORE)}
    counts = _counts(release)
    actions = release.values.column("action")
    states = release.values.states
    return StateTable(
        arms=release.arms,
        pairs=() if actions is None else list(zip(map(str, states), actions.tolist(), strict=True)),
        names=_names(release),
        value=value,
        columns={name: c for name, c in released.items() if c is not None}
        | counts
        | _restriction(release, len(value)),
        bits=_bits(release, study, value, counted=bool(counts)),
    )


def flags_by_state(release: Release) -> Flags:
    """Return what to be careful about in every state of a release, from the release alone."""
    supported = release.values.column("supported")
    if release.mechanism == "dp-ope":  # its values are of starts, and have one flag of their own
        bits = np.zeros(len(release.values), dtype=np.uint8)
        if supported is not None:
            above = release.values.column("kept_mass")["low"] > 1  # type: ignore[index]
            bits[~supported], bits[above] = 1, 2
        words = (LOST, above_words(release))
        return Flags(words, bits, () if release.private else (NOT_PRIVATE,))
    return _as_flags(state_table(release).bits, private=release.private)


def above_words(release: Release) -> str:
    """Return the flag of a kept mass above 1: by chance, unless the release refutes the behaviour.

    At the level of each start some of many are above 1 even where the behaviour is right.
    """
    trust = release.policy_trust or release.policy_trusts
    return IMPOSSIBLE if trust is not None and trust.behaviour_contradicted else ABOVE


def flags_of_states(release: Release) -> Flags:
    """Return what to be careful about in V of every state, where values are of actions, too."""
    found = release.state_values
    assert found is not None
    return _as_flags(_own_bits(release, found), private=release.private)


def _as_flags(bits: NDArray[np.uint8], *, private: bool) -> Flags:
    """Return flags as texts; those of a seeded experiment begin with what it is."""
    return Flags(FLAGS, bits, () if private else (NOT_PRIVATE,))


def _names(release: Release) -> Sequence[str] | range:
    """Return what each value is of: the state, with the arm before it, or the action after."""
    actions, arms = release.values.column("action"), release.values.column("arm")
    if actions is not None:
        named = zip(release.values.states, actions.tolist(), strict=True)
        return [f"{state}, {action}" for state, action in named]
    if arms is None:
        return release.values.states
    both = zip(arms.tolist(), release.values.states, strict=True)
    return [f"{arm}: {state}" for arm, state in both]


def _bits(
    release: Release, study: Study | None, value: Vector, *, counted: bool
) -> NDArray[np.uint8]:
    """Return the flags of every state, as bits.

    Args:
        release: what was released.
        study: its study, for a prior or weights in side files.
        value: the released values.
        counted: whether noisy counts were released; then the prior is not needed.
    """
    bits = _own_bits(release, release.values)
    # A released count, though noisy, says more than the prior.
    prior = None if counted else _prior(release, study)
    number = release.trajectories or release.study["study"].get("trajectories")
    if prior is not None and number is not None:
        bits[number * prior < FEW_VISITS] |= _bit(RARE)
    weights = _weights(release, study)
    if weights is not None:
        bits[weights == 0] |= _bit(WEIGHTLESS)
    # The intervals of means show how far these may be from a bound. Other values have no such
    # interval, so they are flagged.
    if release.statistics is None or release.study["features"].get("kind") == "matrix":
        low, high = return_bounds(release)
        bits[(value <= low) | (value >= high)] |= _bit(AT_A_BOUND)
    return bits


def _own_bits(release: Release, values: StateValues) -> NDArray[np.uint8]:
    """Return the flags that values have by what was released of each."""
    bits = np.zeros(len(values), dtype=np.uint8)
    supported = values.column("supported")
    if supported is not None:
        bits[~supported] |= _bit(UNSUPPORTED)
    bits[_wide(release, values) & (bits == 0)] |= _bit(WIDE)
    if "useless" in release.accepted:
        bits |= _bit(GUESSED)
    return bits


def _wide(release: Release, values: StateValues) -> NDArray[np.bool_]:
    """Return which total intervals span more than half of what is possible.

    A mean of few people may be as uncertain as this whatever the noise is, which is all that
    ``supported`` looks at.
    """
    bounds = counted_between(release)
    low, high = map(values.column, _TOTALS)
    if low is None or high is None:
        return np.zeros(len(values), dtype=np.bool_)
    return np.asarray(0.5 * high - 0.5 * low > 0.5 * (0.5 * bounds[1] - 0.5 * bounds[0]))


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


def _prior(release: Release, study: Study | None) -> Vector | None:
    """Return the public prior of visits, from the study or the release; None without one."""
    if study is not None:
        return study.key_visits
    described = release.study["states"].get("visits")
    if not isinstance(described, dict) or release.actions:
        return None
    arms = max(len(release.arms), 1)
    return np.array([float(described[str(name)]) / arms for name in release.values.states])


def _weights(release: Release, study: Study | None) -> Vector | None:
    """Return the weights of the states, from the study or the release; None if uniform."""
    if study is not None:
        return study.key_weights
    described = release.study["weights"].get("values")
    if described is not None and release.actions:
        by_state = dict(zip(release.states, described, strict=True))
        return np.array([by_state[str(state)] for state in release.values.states])
    arms = max(len(release.arms), 1)
    return None if described is None else np.tile(np.array(described, dtype=np.float64), arms)


def values_csv(table: StateTable, *, private: bool = True) -> Iterator[str]:
    """Yield the states as CSV, some thousands at a time, with every digit that was released.

    Numbers are as release.json has them. A label that a spreadsheet would take for a formula has an
    apostrophe before it, and one that is more than a word is in quotes. Every line of a seeded
    experiment says what it is.
    """
    heads = list(table.columns)
    labels = ["state", *(["arm"] if table.arms else ["action"] if table.pairs else [])]
    yield ",".join([*labels, "value", *heads, "flags"]) + "\n"
    words = [_quoted(text) for text in _as_flags(table.bits, private=private).texts]
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
            json_cells(column[part].tolist()) for column in (table.value, *table.columns.values())
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
