"""Encode rows as numbers, each from its own cells, or report the first invalid row.

``cells`` converts single cells, as the ``declaration`` says; here the cells of a row are combined.
A row is invalid if one of its cells cannot be converted. With ``invalid = "refuse"`` the first
invalid row is an error, with its place, column and value. With ``"drop-unit"`` it gets the key
``keys`` (one more than the last), for which the core drops the whole unit. A row without a valid id
of its unit is dropped at once.

With bins, a state is the mixed-radix number of its columns' bins, the last column varying fastest.
With arms, a key is the arm times the number of states, plus the state. With actions it is the
position of (state times the number of actions, plus the action) among the allowed pairs. A row of a
truncated trajectory gets the key of an invalid row if the study drops such units. A row that ends
its trajectory gets the key ``keys + 1``: its action, arm and probability are ignored.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privalue.core import Integers, Private, sealed
from privalue.errors import DataError, one_line
from privalue.readers import cells
from privalue.readers.cells import MISSING, Cells
from privalue.readers.declaration import Declaration
from privalue.readers.messages import data_error, list_some, render
from privalue.readers.source import Batch, state_roles

_Mask = NDArray[np.bool_]
_IGNORED_IN_ENDS = {"action", "arm", "probability"}  # of rows that end a trajectory


@sealed
@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Rows(Private):
    """Some rows as numbers."""

    ids: Integers  # row x id (the person's, if there is one, and the trajectory's) x sort key
    steps: Integers  # of 32 bits if the source's are
    keys: NDArray[np.int32]  # the number of keys marks an invalid row, one more marks an end
    rewards: NDArray[np.floating]  # of 32 or 64 bits; the core clamps them to the public bounds
    probabilities: NDArray[np.float64] | None = None  # of the actions, if they are logged
    left_out: int = field(default=0, kw_only=True)  # rows whose unit is unknown

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def columns(self) -> list[NDArray[Any]]:
        """Return the arrays with one entry per row."""
        logged = [] if self.probabilities is None else [self.probabilities]
        return [self.ids, self.steps, self.keys, self.rewards, *logged]

    @property
    def nbytes(self) -> int:
        """Return the memory that the rows take."""
        return sum(column.nbytes for column in self.columns)

    def select(self, which: Any) -> "Rows":
        """Return some of the rows: a slice, or an array of positions."""
        return Rows(*(column[which] for column in self.columns))

    def scatter(self, positions: Integers) -> "Rows":
        """Return the same rows, each moved to its new position."""
        columns = [np.empty_like(column) for column in self.columns]
        for target, column in zip(columns, self.columns, strict=True):
            target[positions] = column
        return Rows(*columns)

    @staticmethod
    def concat(parts: Sequence["Rows"]) -> "Rows":
        """Join rows in new arrays; sort keys are padded to the longest."""
        ids, *others = zip(*(rows.columns for rows in parts), strict=True)
        size = max(keys.shape[2] for keys in ids)
        padded = np.concatenate([cells.pad(keys, size) for keys in ids])
        return Rows(padded, *map(np.concatenate, others))


class Encoder:
    """Checks and encodes batches; several threads may use one encoder at once."""

    def __init__(self, declaration: Declaration) -> None:
        study = declaration.study
        self._declaration, self._data = declaration, study.data
        self._missing = cells.Missing.of(study.data.missing, self._data.decimal)
        self._labels = {
            role: pa.array(list(labels), pa.string())
            for role, labels in declaration.labels.items()
            if labels
        }
        pairs = study.pairs
        self._counts = {"state": study.names.count, "action": pairs.actions.count if pairs else 0}
        self._allowed = None if pairs is None else pairs.allowed
        codes = study.raw_labels
        self._codes = None if codes is None else np.fromiter(codes.values(), np.int32)
        self._edges = [np.array(edges) for edges in (study.states.bins or {}).values()]

    def __call__(self, batch: Batch) -> Rows:
        """Return the rows of a batch as numbers.

        Raises:
            DataError: a row is invalid and the study refuses such rows; the message names the first
                one and its value.
        """
        declaration, study = self._declaration, self._declaration.study
        limits, key_count = study.limits, study.key_count
        if batch.problem is not None and not limits.drop_invalid:
            raise batch.problem
        by_role = {role: self._cells(role, batch) for role in declaration.columns}
        keys, forbidden = self._keys(by_role)
        ends, rewards = self._ends(by_role)
        failures = {
            role: _clear_ends(ends, column.failed) if role in _IGNORED_IN_ENDS else column.failed
            for role, column in by_role.items()
        }
        invalid = _combine([_clear_ends(ends, forbidden), *failures.values()])
        if invalid is not None and not limits.drop_invalid:
            at = int(np.argmax(invalid))
            roles = [role for role, mask in failures.items() if mask is not None and mask[at]]
            raise self._error(batch, at, roles, by_role)
        truncated = by_role["truncated"].values if limits.drop_truncated else None
        dropped = _combine([invalid, truncated])
        keys = keys if ends is None else np.where(ends, np.int32(key_count + 1), keys)
        rows = Rows(
            _stack_ids([by_role[role].values for role in declaration.id_roles]),
            by_role["step"].values,
            keys if dropped is None else np.where(dropped, np.int32(key_count), keys),
            rewards,
            by_role["probability"].values if "probability" in by_role else None,
            left_out=batch.left_out,
        )
        without_unit = _combine([by_role[role].failed for role in declaration.unit_roles])
        if without_unit is None:
            return rows
        with_unit = np.flatnonzero(~without_unit)
        columns = (column[with_unit] for column in rows.columns)
        return Rows(*columns, left_out=batch.left_out + len(without_unit) - len(with_unit))

    def _cells(self, role: str, batch: Batch) -> Cells:
        """Convert the column of a role."""
        name = self._declaration.columns[role]
        try:
            return self._convert(role, batch.rows.column(name), batch.episode_ids)
        except (pa.ArrowException, OverflowError) as problem:
            where, reason = batch.locate(0), one_line(problem)
            raise data_error("column-unreadable", where=where, name=name, problem=reason) from None

    def _convert(self, role: str, column: pa.Array, episode_ids: bool) -> Cells:
        """Convert cells as their role asks."""
        ids, data = self._declaration.id_roles, self._data
        if episode_ids and role in {*ids, "step"}:
            positions = cells.whole_numbers(column)
            return positions if role == "step" else cells.episode_keys(positions)
        if role in ids:
            return cells.ids(column, data.id_type)
        if role == "step":
            kind, form = data.step_type, data.step_format
            return cells.steps(column, kind, form, self._missing, data.decimal)
        if role == "truncated":
            return cells.truths(column, self._missing)
        if role in self._labels:
            return cells.label_codes(column, self._labels[role], self._missing)
        if role in self._counts:
            return cells.positions(column, self._counts[role], self._missing, data.decimal)
        numbers = cells.numbers(column, self._missing, data.decimal)
        if role == "reward":
            return numbers
        numbers = Cells(numbers.values.astype(np.float64, copy=False), numbers.status)
        if role == "probability":
            return numbers.restrict(0, 1)
        edges = self._edges[int(role.removeprefix("bin "))]
        return Cells(np.searchsorted(edges, numbers.values, side="right"), numbers.status)

    def _keys(self, by_role: dict[str, Cells]) -> tuple[NDArray[np.int32], _Mask | None]:
        """Return keys, and which rows have an action that is not allowed in their state."""
        first, *others = (by_role[role].values for role in state_roles(self._declaration.columns))
        keys = first if self._codes is None else self._codes[first]
        for edges, values in zip(self._edges[1:], others, strict=True):
            keys = keys * (len(edges) + 1) + values
        forbidden = None
        if "action" in by_role:
            keys = keys.astype(np.int64) * self._counts["action"] + by_role["action"].values
        if self._allowed is not None:
            at = np.searchsorted(self._allowed, keys).clip(max=len(self._allowed) - 1)
            forbidden, keys = self._allowed[at] != keys, at
        if "arm" in by_role:
            keys = keys + by_role["arm"].values.astype(np.int64) * self._counts["state"]
        return keys.astype(np.int32, copy=False), forbidden

    def _ends(self, by_role: dict[str, Cells]) -> tuple[_Mask | None, NDArray[np.floating]]:
        """Return which rows end their trajectory (None if no label does), and the rewards."""
        study, ends = self._declaration.study, None
        codes = by_role["step"].values  # any column will do: only its length is used
        if study.states.ends is not None:
            assert self._codes is not None
            codes = self._codes[by_role["state"].values] - study.names.count  # of ends, from 0 on
            failed = by_role["state"].failed
            ends = (codes >= 0) if failed is None else (codes >= 0) & ~failed
        if study.fixed_rewards is None:
            return ends, by_role["reward"].values
        reward_per_row, rewards_of_ends = study.fixed_rewards
        rewards = np.full(len(codes), reward_per_row)
        if ends is not None:
            rewards[ends] = np.array(rewards_of_ends)[codes[ends]]
        return ends, rewards

    def _error(
        self, batch: Batch, at: int, roles: list[str], by_role: dict[str, Cells]
    ) -> DataError:
        """Return the error for an invalid row, with what to do about it.

        Args:
            batch: the rows.
            at: the position of the row.
            roles: the roles of its invalid cells; if there are none, its action is not allowed.
            by_role: the cells of all rows.
        """
        columns = self._declaration.columns
        role = roles[0] if roles else "action"
        about = {"where": batch.locate(at), "name": columns[role]}
        if roles and by_role[role].status[at] == MISSING:
            return data_error("cell-missing", **about)
        about["value"] = _format_cell(batch.rows.column(columns[role]), at)
        if roles:
            return data_error("cell-invalid", expected=self._expected(role), **about)
        state = [batch.rows.column(columns[role]) for role in state_roles(columns)]
        texts = ", ".join(_format_cell(column, at) for column in state)
        return data_error("action-forbidden", state=texts, **about)

    def _expected(self, role: str) -> str:
        """Return what a cell of this role must be, for a message."""
        declaration, data = self._declaration, self._data
        if role in declaration.id_roles:
            return render(f"id-{data.id_type}", longest=cells.LONGEST_ID)
        if role == "step":
            kind = "formatted" if data.step_format else data.step_type
            return render(f"step-{kind}", kind=data.step_type, format=data.step_format)
        if role.startswith("bin "):
            return render("bin", columns=len(state_roles(declaration.columns)))
        if role in self._labels:
            labels = self._labels[role]
            first = list_some(labels[:6].to_pylist(), 5)
            return render(f"{role}-label", count=len(labels), labels=first)
        if role in self._counts:
            return render(f"{role}-number", last=self._counts[role] - 1)
        return render(f"a-{role}")


def _clear_ends(ends: _Mask | None, mask: _Mask | None) -> _Mask | None:
    """Return the mask, cleared for rows that end a trajectory."""
    return mask if ends is None or mask is None else mask & ~ends


def _combine(masks: Sequence[_Mask | None]) -> _Mask | None:
    """Return which rows any of the masks marks; None if no row is marked."""
    marked = [mask for mask in masks if mask is not None and mask.any()]
    return np.logical_or.reduce(marked) if marked else None


def _format_cell(column: pa.Array, at: int) -> str:
    """Return a cell as text for a message."""
    try:
        text = repr(column[at].as_py()).removesuffix(".0")  # a state of a text is a double
    except UnicodeDecodeError as problem:
        is_object = problem.object == cells.NO_TEXT
        text = "(a value that cannot be shown)" if is_object else repr(problem.object)
    return text if len(text) <= 60 else text[:57] + "..."


def _stack_ids(ids: list[Integers]) -> Integers:
    """Return ids as an array of row x id x sort key; shorter keys end with zeros."""
    if len(ids) == 1:
        return ids[0][:, None, :]
    size = max(values.shape[1] for values in ids)
    return np.stack([cells.pad(values, size) for values in ids], axis=1)
