"""Encode rows as plain numbers, each from its own cells, or report the first invalid row.

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
from privalue.errors import DataError
from privalue.readers import cells
from privalue.readers.cells import MISSING, Cells
from privalue.readers.declaration import Declaration
from privalue.readers.messages import data_error, list_some, one_line, word
from privalue.readers.source import Batch, state_roles

_Flags = NDArray[np.bool_]
_NOT_OF_ENDS = {"action", "arm", "probability"}  # a row that ends its trajectory has none of these


@sealed
@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Rows(Private):
    """Some rows as plain numbers."""

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

    def part(self, which: Any) -> "Rows":
        """Return some of the rows: a slice, or an array of positions."""
        return Rows(*(column[which] for column in self.columns))

    def moved(self, places: Integers) -> "Rows":
        """Return the same rows, each at its new position."""
        columns = [np.empty_like(column) for column in self.columns]
        for column, old in zip(columns, self.columns, strict=True):
            column[places] = old
        return Rows(*columns)

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
        """Return a batch as plain numbers.

        Raises:
            DataError: a row is invalid and the study refuses such rows; the message names the first
                one and its value.
        """
        declared = self._declaration
        if batch.problem is not None and not declared.study.limits.drop_invalid:
            raise batch.problem
        found = {role: self._cells(role, batch) for role in declared.columns}
        keys, forbidden = self._keys(found)
        ends, rewards = self._ends(found)
        failures = {
            role: _unless(ends, column.failed) if role in _NOT_OF_ENDS else column.failed
            for role, column in found.items()
        }
        invalid = _any_of([_unless(ends, forbidden), *failures.values()])
        if invalid is not None and not declared.study.limits.drop_invalid:
            at = int(np.argmax(invalid))
            odd = [role for role, flags in failures.items() if flags is not None and flags[at]]
            raise self._error(batch, at, odd, found)
        cut = found["truncated"].values if declared.study.limits.drop_truncated else None
        marked = _any_of([invalid, cut])
        keys = keys if ends is None else np.where(ends, np.int32(declared.keys + 1), keys)
        rows = Rows(
            _side_by_side([found[role].values for role in declared.id_roles]),
            found["step"].values,
            keys if marked is None else np.where(marked, np.int32(declared.keys), keys),
            rewards,
            found["probability"].values if "probability" in found else None,
            left_out=batch.left_out,
        )
        nobodys = _any_of([found[role].failed for role in declared.unit_roles])
        if nobodys is None:
            return rows
        kept = np.flatnonzero(~nobodys)
        left_out = batch.left_out + len(nobodys) - len(kept)
        columns = (column[kept] for column in rows.columns)
        return Rows(*columns, left_out=left_out)

    def _cells(self, role: str, batch: Batch) -> Cells:
        """Convert the column of a role."""
        name = self._declaration.columns[role]
        try:
            return self._convert(role, batch.rows.column(name), batch.episode_ids)
        except (pa.ArrowException, OverflowError) as problem:
            where, why = batch.where(0), one_line(problem)
            raise data_error("column-unreadable", where=where, name=name, problem=why) from None

    def _convert(self, role: str, column: pa.Array, episode_ids: bool) -> Cells:
        ids, data = self._declaration.id_roles, self._data
        if episode_ids and role in {*ids, "step"}:
            positions = cells.whole_numbers(column)
            return positions if role == "step" else cells.episode_keys(positions)
        if role in ids:
            return cells.ids(column, data.id_type)
        if role == "step":
            how = data.step_type, data.step_format
            return cells.steps(column, *how, self._missing, self._data.decimal)
        if role == "truncated":
            return cells.truths(column, self._missing)
        if role in self._labels:
            return cells.label_codes(column, self._labels[role], self._missing)
        if role in self._counts:
            return cells.positions(column, self._counts[role], self._missing, self._data.decimal)
        found = cells.numbers(column, self._missing, self._data.decimal)
        if role == "reward":
            return found
        found = Cells(found.values.astype(np.float64, copy=False), found.status)
        if role == "probability":
            return found.within(0, 1)
        edges = self._edges[int(role.removeprefix("bin "))]
        return Cells(np.searchsorted(edges, found.values, side="right"), found.status)

    def _keys(self, found: dict[str, Cells]) -> tuple[NDArray[np.int32], _Flags | None]:
        """Return keys, and which rows have an action that is not allowed in their state."""
        first, *others = (found[role].values for role in state_roles(self._declaration.columns))
        keys = first if self._codes is None else self._codes[first]
        for edges, values in zip(self._edges[1:], others, strict=True):
            keys = keys * (len(edges) + 1) + values
        forbidden = None
        if "action" in found:
            keys = keys.astype(np.int64) * self._counts["action"] + found["action"].values
        if self._allowed is not None:
            at = np.searchsorted(self._allowed, keys).clip(max=len(self._allowed) - 1)
            forbidden, keys = self._allowed[at] != keys, at
        if "arm" in found:
            keys = keys + found["arm"].values.astype(np.int64) * self._counts["state"]
        return keys.astype(np.int32, copy=False), forbidden

    def _ends(self, found: dict[str, Cells]) -> tuple[_Flags | None, NDArray[np.floating]]:
        """Return which rows end their trajectory (None without ends), and the rewards."""
        study, ends = self._declaration.study, None
        position = found["step"].values  # any column will do: only its length is used
        if study.states.ends is not None:
            assert self._codes is not None
            position = self._codes[found["state"].values] - study.names.count
            failed = found["state"].failed
            ends = (position >= 0) if failed is None else (position >= 0) & ~failed
        if study.fixed_rewards is None:
            return ends, found["reward"].values
        row, of_ends = study.fixed_rewards
        rewards = np.full(len(position), row)
        if ends is not None:
            rewards[ends] = np.array(of_ends)[position[ends]]
        return ends, rewards

    def _error(self, batch: Batch, at: int, odd: list[str], found: dict[str, Cells]) -> DataError:
        """Return the error for an invalid row, with what to do about it.

        Args:
            batch: the rows.
            at: the position of the row.
            odd: the roles of its invalid cells; if there are none, its action is not allowed.
            found: the cells.
        """
        columns = self._declaration.columns
        role = odd[0] if odd else "action"
        about = {"where": batch.where(at), "name": columns[role]}
        if odd and found[role].status[at] == MISSING:
            return data_error("cell-missing", **about)
        about["shown"] = _shown(batch.rows.column(columns[role]), at)
        if odd:
            return data_error("cell-invalid", expected=self._expected(role), **about)
        states = (
            batch.rows.column(columns[role]) for role in state_roles(self._declaration.columns)
        )
        return data_error(
            "action-forbidden", state=", ".join(_shown(s, at) for s in states), **about
        )

    def _expected(self, role: str) -> str:
        """Return what a cell of this role must be, for a message."""
        declared, data = self._declaration, self._data
        if role in declared.id_roles:
            return word(f"id-{data.id_type}", longest=cells.LONGEST_ID)
        if role == "step":
            how = "formatted" if data.step_format else data.step_type
            return word(f"step-{how}", kind=data.step_type, how=data.step_format)
        if role.startswith("bin "):
            return word("bin", columns=len(state_roles(declared.columns)))
        if role in self._labels:
            labels = self._labels[role]
            some = list_some(labels[:6].to_pylist(), 5)
            return word(f"{role}-label", count=len(labels), some=some)
        if role in self._counts:
            return word(f"{role}-number", last=self._counts[role] - 1)
        return word(f"a-{role}")


def _unless(ends: _Flags | None, flags: _Flags | None) -> _Flags | None:
    """Return the flags, cleared for rows that end a trajectory."""
    return flags if ends is None or flags is None else flags & ~ends


def _any_of(several: Sequence[_Flags | None]) -> _Flags | None:
    """Return which rows have any of the flags set; None if no row has."""
    flags = [one for one in several if one is not None and one.any()]
    return np.logical_or.reduce(flags) if flags else None


def _shown(column: pa.Array, at: int) -> str:
    """Return a cell as text for a message."""
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
