"""Encode rows as plain numbers, each from its own cells, or name the first invalid row.

``cells`` converts single cells, by the ``declaration``; here the cells of a row come together. A
row is invalid if one of its cells does not convert. With ``invalid = "refuse"`` the first such row
ends the reading, with its place, the column and the value. With ``"drop-unit"`` the row stays, with
one more than the last key as its key, so that the core leaves out its whole unit. A row whose unit
is not known cannot be kept for that, belongs to nobody, and is left out at once.

With bins, a state is the number of the bin of each of its columns, the last column's the fastest.
With arms, a key is the number of the arm times the number of states, plus the state. With actions
it is the number of the state times the number of actions, plus the action, counted among those
pairs that are allowed. A row that is marked as cut off gets the key of an invalid row where such
units are left out.
"""

import difflib
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privalue.core import Integers, Private, sealed
from privalue.errors import DataError
from privalue.readers import cells
from privalue.readers.cells import INVALID, MISSING, Cells
from privalue.readers.declaration import Declaration
from privalue.readers.source import Batch, one_line


@sealed
@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Rows(Private):
    """Some rows as plain numbers."""

    ids: Integers  # row x id (the person's, where there is one, and the trajectory's) x sort key
    steps: Integers  # of 32 bits where the source's are
    keys: NDArray[np.int32]  # one more than the last where the row is invalid
    rewards: NDArray[np.floating]  # of 32 or 64 bits; the core clamps them to the public bounds
    probabilities: NDArray[np.float64] | None = None  # of the actions, where they are logged
    left_out: int = field(default=0, kw_only=True)  # rows of which nobody knows whose they are
    positions: Integers | None = field(default=None, kw_only=True)  # in the batch; None: all

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def columns(self) -> list[NDArray[Any]]:
        """Return the arrays that every row has a number in."""
        logged = [] if self.probabilities is None else [self.probabilities]
        return [self.ids, self.steps, self.keys, self.rewards, *logged]

    @property
    def nbytes(self) -> int:
        """Return the memory that the rows take."""
        return sum(column.nbytes for column in self.columns)

    def part(self, which: Any) -> "Rows":
        """Return some of the rows: a slice, or an array of positions."""
        return Rows(*(column[which] for column in self.columns))

    @staticmethod
    def concat(several: Sequence["Rows"]) -> "Rows":
        """Join rows in new arrays; sort keys are as long as the longest."""
        ids, *others = zip(*(rows.columns for rows in several), strict=True)
        size = max(one.shape[2] for one in ids)
        padded = np.concatenate([cells.pad(one, size) for one in ids])
        return Rows(padded, *map(np.concatenate, others))


class Encoder:
    """Checks and encodes batches; several threads may use one encoder at once."""

    def __init__(self, declaration: Declaration) -> None:
        self._declaration = declaration
        self._missing = cells.Missing.of(declaration.missing, declaration.dialect.decimal)
        labels = {
            "state": declaration.raw_labels,
            "action": declaration.action_labels,
            "arm": declaration.arms,
        }
        self._labels = {
            role: pa.array(list(some), pa.string()) for role, some in labels.items() if some
        }
        codes = (declaration.raw_labels or {}).values()
        self._codes = np.fromiter(codes, np.int32) if declaration.raw_labels is not None else None
        self._edges = [np.array(edges) for edges in declaration.bins]

    def __call__(self, batch: Batch) -> Rows:
        """Return a batch as plain numbers.

        Raises:
            DataError: the study refuses invalid rows; the message names the first one and its
                value.
        """
        declared = self._declaration
        if batch.problem is not None and not declared.drop_invalid:
            raise DataError(batch.problem)
        found = {role: self._cells(role, batch) for role in declared.columns}
        keys, allowed = self._keys(found)
        invalid = ~allowed if batch.invalid is None else ~allowed | batch.invalid
        for column in found.values():
            if column.failed is not None:
                invalid |= column.failed
        if invalid.any() and not declared.drop_invalid:
            raise self._error(batch, int(np.argmax(invalid)), found)
        marked = invalid | found["truncated"].values if declared.drop_truncated else invalid
        keys = np.where(marked, np.int32(declared.keys), keys) if marked.any() else keys
        rows = Rows(
            _side_by_side([found[role].values for role in declared.id_roles]),
            found["step"].values,
            keys,
            found["reward"].values,
            found["probability"].values if "probability" in found else None,
        )
        nobodys = np.zeros(len(rows), np.bool_)
        for role in declared.unit_roles:
            failed = found[role].failed
            nobodys |= False if failed is None else failed
        kept = np.flatnonzero(~nobodys) if nobodys.any() else slice(None)
        return Rows(
            *(column[kept] for column in rows.columns),
            left_out=int(np.count_nonzero(nobodys)) + batch.left_out,
            positions=kept if isinstance(kept, np.ndarray) else None,
        )

    def _cells(self, role: str, batch: Batch) -> Cells:
        """Convert the column of a role."""
        name = self._declaration.columns[role]
        try:
            return self._convert(role, batch.rows.column(name), batch.episode_ids)
        except (pa.ArrowException, OverflowError) as problem:
            raise DataError(
                f"{batch.where(0)} and on: the column {name!r} cannot be read: {one_line(problem)}"
            ) from None

    def _convert(self, role: str, column: pa.Array, episode_ids: bool) -> Cells:
        declared, missing = self._declaration, self._missing
        decimal = declared.dialect.decimal
        if role in declared.id_roles:
            if episode_ids:
                return cells.episode_keys(cells.whole_numbers(column))
            return cells.ids(column, declared.id_type)
        if role == "step":
            if episode_ids:
                return cells.whole_numbers(column)
            return cells.steps(column, declared.step_type, declared.step_format, missing, decimal)
        if role == "truncated":
            return cells.truths(column, missing)
        if role in self._labels:
            return cells.label_codes(column, self._labels[role], missing)
        if role in {"state", "action"}:
            count = declared.states if role == "state" else declared.actions
            return _inside(cells.whole_numbers(column, missing, decimal), 0, count - 1)
        found = cells.numbers(column, missing, decimal)
        if role == "probability":
            return _inside(Cells(found.values.astype(np.float64, copy=False), found.status), 0, 1)
        if role.startswith("bin "):
            edges = self._edges[int(role.removeprefix("bin "))]
            values = found.values.astype(np.float64, copy=False)
            return Cells(np.searchsorted(edges, values, side="right"), found.status)
        return found

    def _keys(self, found: dict[str, Cells]) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
        """Return keys, and whether a row's action is one of its state's; of invalid rows, any."""
        declared = self._declaration
        first, *others = (found[role].values for role in declared.state_roles)
        keys = first if self._codes is None else self._codes[first]
        for edges, values in zip(self._edges[1:], others, strict=True):
            keys = keys * (len(edges) + 1) + values
        allowed = np.ones(len(keys), np.bool_)
        if declared.actions:
            keys = keys.astype(np.int64) * declared.actions + found["action"].values
        if declared.allowed is not None:
            at = np.searchsorted(declared.allowed, keys).clip(max=len(declared.allowed) - 1)
            allowed, keys = declared.allowed[at] == keys, at
        if "arm" in found:
            keys = keys + found["arm"].values.astype(np.int64) * declared.states
        return keys.astype(np.int32, copy=False), allowed

    def _error(self, batch: Batch, at: int, found: dict[str, Cells]) -> DataError:
        """Return what to raise for an invalid row, with what to do about it."""
        declared, where = self._declaration, batch.where(at)
        for role, column in found.items():
            if column.status is None or column.status[at] == cells.OK:
                continue
            name = declared.columns[role]
            if column.status[at] == MISSING:
                return DataError(f"{where}: {name} is missing; every row needs one")
            shown = _shown(batch.rows.column(name), at)
            what = f"{where}: {name} = {shown} {self._expected(role, shown)}"
            if batch.episode_ids and role.startswith("bin "):
                count = len(declared.state_roles)
                what += f"; an observation holds {count} numbers, one for each column of the bins"
            return DataError(what)
        roles, name = declared.state_roles, declared.columns["action"]
        state = ", ".join(_shown(batch.rows.column(declared.columns[role]), at) for role in roles)
        return DataError(
            f"{where}: {name} = {_shown(batch.rows.column(name), at)} is not allowed in the state "
            f"{state}, by [actions] allowed"
        )

    def _expected(self, role: str, shown: str) -> str:
        """Return what a cell of this role must be, for a message."""
        declared = self._declaration
        if role in declared.id_roles:
            if declared.id_type == "integer":
                return 'must be a whole number within 64 bits, as [data] id_type = "integer" says'
            return (
                f"is not an id: a text of at most {cells.LONGEST_ID} bytes, or a number that is "
                "exact (below 2^53; of 32 bits, below 2^24)"
            )
        if role == "step":
            return self._expected_step()
        if role in {"reward", "probability"} or role.startswith("bin "):
            wanted = "probability, from 0 to 1" if role == "probability" else "finite number"
            wanted += ", to be in a bin" if role.startswith("bin ") else ""
            return f"must be a {wanted}{self._about_numbers(shown)}"
        if role == "truncated":
            return "must be true, yes or 1 if the trajectory was cut off, and false, no or 0 if not"
        if role == "arm":
            return f"is not one of the arms: {', '.join(map(repr, declared.arms))}"
        if role not in self._labels:
            count = declared.states if role == "state" else declared.actions
            article = "a" if role == "state" else "an"
            return (
                f"is not {article} {role}: {role}s are the whole numbers 0 to {count - 1}, or what "
                f"[{role}s] labels lists"
            )
        known = "the raw labels of [states] groups" if declared.grouped else f"the {role}s"
        labels = declared.raw_labels if role == "state" else declared.action_labels
        return _not_among(known, labels or (), shown)

    def _expected_step(self) -> str:
        kind, written = self._declaration.step_type, self._declaration.step_format
        if kind == "integer":
            return (
                "must be a whole number (within 64 bits); [data] step_type says what steps are: "
                '"integer", "number", "date" or "datetime"'
            )
        how = f", written as {written}" if written else ""
        how += " (%y is a year of two digits, and %Y one of four)" if "%y" in how else ""
        if kind != "number" and not how:
            usual = "2026-11-15" + "T08:30" * (kind == "datetime")
            how = f' such as {usual}; [data] step_format says how else, e.g. "%d.%m.%Y"'
        return f"must be a {kind}{how}"

    def _about_numbers(self, shown: str) -> str:
        """Return what to declare if a text looks like a number written otherwise, or missing."""
        if self._declaration.dialect.decimal == ".":
            if re.fullmatch(r"'[+-]?\d+,\d+'", shown):
                return '; if that is a decimal comma, set [data] decimal = ","'
        elif re.fullmatch(r"'[+-]?\d+\.\d+'", shown):
            return ', with the decimal mark "," as [data] decimal says'
        if re.fullmatch(r"'(?i:na|n/a|nan|null|none|missing|unknown|[.?-]+)'", shown):
            return f'; if that means missing, set [data] missing = ["", "{shown[1:-1]}"]'
        return ""


def _inside(found: Cells, low: float, high: float) -> Cells:
    """Return the same cells; numbers that are not from ``low`` to ``high`` are invalid."""
    values = found.values
    if len(values) == 0 or (values.min() >= low and values.max() <= high):
        return found
    outside = (values < low) | (values > high)
    return Cells(
        np.where(outside, values.dtype.type(0), values), found.mark(outside, INVALID).status
    )


def _not_among(known: str, labels: Collection[str], shown: str) -> str:
    """Return what to say of a cell that is none of the labels: the first, and one that is near."""
    first = ", ".join(repr(label) for label in islice(labels, 5))
    more = ", ..." if len(labels) > 5 else ""
    folded = {label.casefold(): label for label in islice(labels, 1000)}
    near = difflib.get_close_matches(shown.strip("'").casefold(), list(folded), n=1)
    hint = f"; did you mean {folded[near[0]]!r}?" if near else ""
    return f"is not one of {known}, {len(labels)} in all: {first}{more}{hint}"


def _shown(column: pa.Array, at: int) -> str:
    """Return a cell as a message quotes it."""
    try:
        shown = repr(column[at].as_py())
    except UnicodeDecodeError as problem:
        unread = problem.object == cells.NO_TEXT
        shown = "(nothing that can be read)" if unread else repr(problem.object)
    return shown if len(shown) <= 60 else shown[:57] + "..."


def _side_by_side(ids: list[Integers]) -> Integers:
    """Return row x id x sort key; an id with a shorter key ends with zeros."""
    if len(ids) == 1:
        return ids[0][:, None, :]
    size = max(values.shape[1] for values in ids)
    return np.stack([cells.pad(values, size) for values in ids], axis=1)
