"""Encode rows as plain numbers, each from its own cells, or find the first invalid row.

``_cells`` converts single cells, by the declarations in ``_rules``; here the cells of a row come
together. A row is invalid if one of its cells does not convert. With ``invalid = "refuse"`` the
first such row ends the reading, with its location, the column and the value. With ``"drop-unit"``
the row stays, with ``keys`` (one more than the last key) as its key, so that the core leaves out
its whole unit. A row whose unit is not known cannot be kept for that, and is left out at once.

With bins, a state is the number of the bin of each of its columns, the last column's the fastest.
With arms, a key is the number of the arm times the number of states, plus the state. With actions
it is the number of the state times the number of actions, plus the action, counted among those
pairs that are allowed. A row that is marked as cut off gets the key of an invalid row where such
units are left out.
"""

import difflib
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, islice
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privalue.core import Integers, Private, sealed
from privalue.errors import DataError
from privalue.readers import _cells as cells
from privalue.readers._arrow import text_array
from privalue.readers._cells import Cells
from privalue.readers._chunks import Chunk, Origin, Origins, RowError, one_line
from privalue.readers._python_cells import NO_TEXT
from privalue.readers._rules import RowRules
from privalue.readers._text_kernels import INVALID, MISSING, OK

MOST_LISTED = 1 << 22  # pairs of which a table is made
NEVER = 255  # a status: an action that is none of its state's
PART_ROWS = 1 << 20  # a part costs half a millisecond besides, and its arrays some memory


@sealed
@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Rows(Private):
    """Some rows as plain numbers, with the locations that they come from."""

    origins: Origins
    ids: Integers  # row x id (the person's, where there is one, and the trajectory's) x word
    steps: Integers  # of 32 bits where the source's are
    states: NDArray[np.int32]  # keys; one more than the last where the row is invalid
    rewards: NDArray[np.floating]  # of 32 or 64 bits; the core clamps them to the public bounds
    probabilities: NDArray[np.float64] | None = None  # of the actions, where they are logged
    left_out: int = field(default=0, kw_only=True)  # rows of which nobody knows whose they are

    def __post_init__(self) -> None:
        for array in self.columns:
            array.setflags(write=False)

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def columns(self) -> tuple[NDArray[Any], ...]:
        """Return the arrays that are handed over to the core."""
        logged = () if self.probabilities is None else (self.probabilities,)
        return self.ids, self.steps, self.states, self.rewards, *logged

    def part(self, begin: int, end: int) -> "Rows":
        """Return the rows from ``begin`` up to ``end``."""
        origins = Origins.together([self.origins], [-begin])
        return Rows(origins, *(column[begin:end] for column in self.columns))

    @staticmethod
    def together(several: Sequence["Rows"]) -> "Rows":
        """Join rows that follow each other in new arrays; ids get as many words as the longest."""
        words = max(rows.ids.shape[2] for rows in several)
        starts = [0, *accumulate(map(len, several))]
        columns = zip(*(rows.columns for rows in several), strict=True)
        ids, *others = columns
        return Rows(
            Origins.together([rows.origins for rows in several], starts[:-1]),
            *map(np.concatenate, [[cells.widened(one, words) for one in ids], *others]),
        )


class Encoder:
    """Checks and encodes chunks; several threads may use one encoder at once."""

    def __init__(self, rules: RowRules) -> None:
        self._rules = rules
        self._missing = cells.Missing.of(rules.missing)
        self._raw_labels: pa.Array | None = None
        if rules.raw_labels is not None:
            self._raw_labels = text_array(list(rules.raw_labels))
            self._codes = np.fromiter(rules.raw_labels.values(), dtype=np.int32)
        self._arms = text_array(list(rules.arms))
        self._actions = text_array(list(rules.action_labels))
        self._by_code: NDArray[np.int32] | None = None  # the key of every pair, where they are few
        if rules.allowed is not None and rules.states * rules.actions <= MOST_LISTED:
            self._by_code = np.full(rules.states * rules.actions, -1, dtype=np.int32)
            self._by_code[rules.allowed] = np.arange(len(rules.allowed))
        self._edges = [np.array(edges) for edges in rules.bins]

    def parts(self, chunk: Chunk) -> Iterator[Rows]:
        """Encode a chunk, a part at a time.

        A part is larger if there are many labels, because the lookup of labels is set up for each
        part.
        """
        labels = 0 if self._raw_labels is None else len(self._raw_labels)
        return map(self.encode, chunk.parts(max(PART_ROWS, 4 * labels)))

    def encode(self, chunk: Chunk) -> Rows:
        """Return a chunk as plain numbers.

        Raises:
            DataError: the study refuses invalid rows; the message names the first one and its
                value.
        """
        rules = self._rules
        try:
            found = {role: self._cells(role, chunk) for role in rules.columns}
        except (pa.ArrowException, OverflowError) as problem:
            raise DataError(
                f"{chunk.location.where(0)} and on: a column cannot be read: {one_line(problem)}"
            ) from None
        if rules.allowed is not None:
            found["action"] = self._allowed(found)
        kept, left_out = self._kept(chunk, found)
        if kept is not None:
            found = {
                role: Cells(c.values[kept], None if c.status is None else c.status[kept])
                for role, c in found.items()
            }
        states = self._states(found)
        return Rows(
            Origins([Origin(0, chunk.location, kept)]),
            _side_by_side([found[role].values for role in rules.id_roles]),
            found["step"].values,
            states,
            found["reward"].values,
            found["probability"].values if "probability" in found else None,
            left_out=left_out,
        )

    def _cells(self, role: str, chunk: Chunk) -> Cells:
        """Convert the column of a role."""
        rules = self._rules
        column = chunk.rows.column(rules.columns[role])
        texts = (self._missing, rules.decimal)
        if role in rules.id_roles:
            found = cells.ids(column, rules.id_type)
            return cells.apart(found) if chunk.numbered else found
        if role == "step":
            return cells.steps(column, rules.step_type, rules.step_format, *texts)
        if role == "reward":
            return cells.numbers(column, *texts, narrow=True)
        if role == "probability":
            return _probabilities(cells.numbers(column, *texts))
        if role.startswith("bin "):
            found = cells.numbers(column, *texts)
            edges = self._edges[int(role.removeprefix("bin "))]
            return Cells(cells.bins(found.values, edges), found.status)
        if role == "arm":
            return cells.positions(column, self._arms, self._missing)
        if role == "action":
            if rules.action_labels:
                return cells.positions(column, self._actions, self._missing)
            return _below(cells.whole_numbers(column, *texts), rules.actions)
        if role == "truncated":
            return cells.flags(column, self._missing)
        if self._raw_labels is not None:
            return cells.positions(column, self._raw_labels, self._missing)
        return _below(cells.whole_numbers(column, *texts, narrow=True), rules.states)

    def _allowed(self, found: dict[str, Cells]) -> Cells:
        """Return the actions, with those that are not allowed in their state as invalid."""
        actions = found["action"]
        never = self._places(self._pairs(found)) < 0
        for role in (*self._rules.state_roles, "action"):  # what cannot be read is said of itself
            failed = found[role].failed()
            if failed is not None:
                never &= ~failed
        if not never.any():
            return actions
        status = np.zeros(len(never), np.uint8) if actions.status is None else actions.status.copy()
        status[never] = NEVER
        return Cells(actions.values, status)

    def _places(self, codes: Integers) -> NDArray[np.int32]:
        """Return the keys of pairs, by their codes; -1 of those that are not allowed."""
        allowed, every = self._rules.allowed, self._rules.states * self._rules.actions
        assert allowed is not None
        if self._by_code is not None:
            return np.asarray(self._by_code[np.clip(codes, 0, every - 1)])
        places = np.minimum(np.searchsorted(allowed, codes), len(allowed) - 1)
        return np.where(allowed[places] == codes, places, -1).astype(np.int32)

    def _pairs(self, found: dict[str, Cells]) -> Integers:
        """Return the codes of pairs of a state and an action; of invalid rows, any number."""
        actions = found["action"].values.astype(np.int64)
        return self._positions(found).astype(np.int64) * self._rules.actions + actions

    def _states(self, found: dict[str, Cells]) -> NDArray[np.int32]:
        """Return the keys, in their arms or with their actions; invalid rows get the next one."""
        if self._rules.allowed is not None:
            states = self._places(self._pairs(found))
        elif self._rules.actions:
            states = self._pairs(found).astype(np.int32)
        else:
            states = self._positions(found)
        if "arm" in found:
            states = states + found["arm"].values.astype(np.int32) * np.int32(self._rules.states)
        marked = [column.failed() for column in found.values()]
        if self._rules.drop_cut:
            marked.append(found["truncated"].values)
        if any(rows is not None for rows in marked):
            states = states.copy()  # they may be the very cells of the column
        for rows in marked:
            if rows is not None:
                states[rows] = self._rules.keys
        return states

    def _positions(self, found: dict[str, Cells]) -> NDArray[np.int32]:
        """Return the positions of states; of invalid rows, any number."""
        codes = found[self._rules.state_roles[0]].values
        if self._raw_labels is not None:
            codes = self._codes[codes]
        states = codes.astype(np.int32, copy=False)
        for role, edges in zip(self._rules.state_roles[1:], self._edges[1:], strict=True):
            states = states * np.int32(len(edges) + 1) + found[role].values.astype(np.int32)
        return states

    def _kept(self, chunk: Chunk, found: dict[str, Cells]) -> tuple[Integers | None, int]:
        """Return which rows to keep (None: all), and how many belong to nobody."""
        rules = self._rules
        if not rules.drop_invalid:
            self._refuse_invalid(chunk, found)
            return None, chunk.left_out
        out = np.zeros(chunk.rows.num_rows, dtype=np.bool_)
        for role in rules.unit_roles:
            failed = found[role].failed()
            if failed is not None:
                out |= failed
        kept = np.flatnonzero(~out) if out.any() else None
        return kept, int(np.count_nonzero(out)) + chunk.left_out

    def _refuse_invalid(self, chunk: Chunk, found: dict[str, Cells]) -> None:
        """Raise for the first row with a cell that does not convert."""
        worst: tuple[int, str] | None = None
        for role, column in found.items():
            failed = column.failed()
            if failed is None:
                continue
            at = int(np.argmax(failed))
            if failed[at] and (worst is None or at < worst[0]):
                worst = at, role
        if worst is not None:
            self._refuse(chunk, *worst, found[worst[1]])

    def _refuse(self, chunk: Chunk, at: int, role: str, column: Cells) -> NoReturn:
        """Raise for a cell that is missing or does not convert, with what to do about it."""
        name = self._rules.columns[role]
        assert column.status is not None
        if column.status[at] == MISSING:
            raise RowError(chunk.location, at, f"{name} is missing; every row needs one")
        shown = _shown(chunk.rows.column(name), at)
        if column.status[at] == NEVER:
            roles = self._rules.state_roles
            state = ", ".join(
                _shown(chunk.rows.column(self._rules.columns[one]), at) for one in roles
            )
            raise RowError(
                chunk.location,
                at,
                f"{name} = {shown} is not allowed in the state {state}, by [actions] allowed",
            )
        if shown == repr(NO_TEXT) and role.startswith("bin "):  # what was there had no such number
            count = len(self._rules.state_roles)
            raise RowError(
                chunk.location,
                at,
                f"{name} is not a number there: an observation holds {count} numbers, one for each "
                "column of the bins, or is a dict of them",
            )
        raise RowError(chunk.location, at, f"{name} = {shown} {self._expected(role, shown)}")

    def _expected(self, role: str, shown: str) -> str:
        """Return what a cell of this role must be, for a message."""
        rules = self._rules
        if role in rules.id_roles:
            if rules.id_type == "integer":
                return 'must be a whole number within 64 bits, as [data] id_type = "integer" says'
            return (
                f"is not an id: a text of at most {cells.LONGEST_ID} bytes, or a number that is "
                "exact (below 2^53; of 32 bits, below 2^24)"
            )
        if role == "step":
            if rules.step_type == "integer":
                return (
                    "must be a whole number (within 64 bits); [data] step_type says what steps "
                    'are: "integer", "number", "date" or "datetime"'
                )
            how = f", written as {rules.step_format}" if rules.step_format else ""
            how += " (%y is a year of two digits, and %Y one of four)" if "%y" in how else ""
            if rules.step_type in {"date", "datetime"} and not how:
                usual = "2026-11-15" + "T08:30" * (rules.step_type == "datetime")
                how = f' such as {usual}; [data] step_format says how else, e.g. "%d.%m.%Y"'
            return f"must be a {rules.step_type}{how}"
        if role.startswith("bin "):
            return f"must be a finite number, to be in a bin{self._about_numbers(shown)}"
        if role in {"reward", "probability"}:
            wanted = "finite number" if role == "reward" else "probability, from 0 to 1"
            return f"must be a {wanted}{self._about_numbers(shown)}"
        if role == "arm":
            return f"is not one of the arms: {', '.join(map(repr, rules.arms))}"
        if role == "action" and not rules.action_labels:
            return (
                f"is not an action: actions are the whole numbers 0 to {rules.actions - 1}, or "
                "what [actions] labels lists"
            )
        if role == "action":
            return _not_among("the actions", rules.action_labels, shown)
        if role == "truncated":
            return "must be true, yes or 1 if the trajectory was cut off, and false, no or 0 if not"
        if rules.raw_labels is None:
            return (
                f"is not a state: states are the whole numbers 0 to {rules.states - 1}, or what "
                "[states] labels lists"
            )
        known = "the raw labels of [states] groups" if rules.grouped else "the states"
        return _not_among(known, rules.raw_labels, shown)

    def _about_numbers(self, shown: str) -> str:
        """Return what to declare if a text looks like a number written otherwise, or missing."""
        if self._rules.decimal == ".":
            if re.fullmatch(r"'[+-]?\d+,\d+'", shown):
                return '; if that is a decimal comma, set [data] decimal = ","'
        elif re.fullmatch(r"'[+-]?\d+\.\d+'", shown):
            return ', with the decimal mark "," as [data] decimal says'
        if re.fullmatch(r"'(?i:na|n/a|nan|null|none|missing|unknown|[.?-]+)'", shown):
            return f'; if that means missing, set [data] missing = ["", "{shown[1:-1]}"]'
        return ""


def _below(numbers: Cells, count: int) -> Cells:
    """Return the numbers, with those that are not 0 to ``count`` - 1 as invalid."""
    codes, status = numbers.values, numbers.status
    # Without its sign a number below 0 is a very large one: one look instead of two.
    if len(codes) and codes.view(f"u{codes.itemsize}").max() >= count:
        status = np.zeros(len(codes), dtype=np.uint8) if status is None else status
        outside = (codes < 0) | (codes >= count)
        status[outside & (status == OK)] = INVALID
    return Cells(codes, status)


def _not_among(known: str, labels: Collection[str], shown: str) -> str:
    """Return what to say of a cell that is none of the labels: the first, and one that is near."""
    first = [repr(label) for label in islice(labels, 5)]
    more = ", ..." if len(labels) > 5 else ""
    near = _nearest(shown.strip("'"), list(islice(labels, 1000)))
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"is not one of {known}, {len(labels)} in all: {', '.join(first)}{more}{hint}"


def _nearest(written: str, labels: list[str]) -> list[str]:
    """Return the label that somebody may have meant, if any is near; case does not count."""
    folded = {label.casefold(): label for label in reversed(labels)}
    near = difflib.get_close_matches(written, labels, n=1)
    near = near or difflib.get_close_matches(written.casefold(), list(folded), n=1)
    same = folded.get(written.casefold())
    return [same] if same is not None else [folded.get(label, label) for label in near]


def _shown(column: pa.Array, at: int) -> str:
    """Return a cell as a message quotes it."""
    try:
        shown = repr(column[at].as_py())
    except UnicodeDecodeError as problem:
        shown = repr(problem.object)
    return shown if len(shown) <= 60 else shown[:57] + "..."


def _probabilities(numbers: Cells) -> Cells:
    """Return numbers from 0 to 1; others are invalid."""
    outside = ~((numbers.values >= 0) & (numbers.values <= 1))
    if not outside.any():
        return numbers
    status = np.zeros(len(outside), np.uint8) if numbers.status is None else numbers.status.copy()
    status[outside & (status == OK)] = INVALID
    return Cells(numbers.values, status)


def _side_by_side(ids: list[Integers]) -> Integers:
    """Return row x id x word; an id that needs fewer words ends with zeros."""
    if len(ids) == 1:
        return ids[0][:, None, :]
    words = max(values.shape[1] for values in ids)
    return np.stack([cells.widened(values, words) for values in ids], axis=1)
