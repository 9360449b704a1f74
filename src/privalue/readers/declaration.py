"""State what a study declares of rows: columns, what their cells are, and the states.

A declaration is public, complete before a row is read, and all that the engines go by. Only columns
that the study names, or needs, are read, whatever other columns there are.
"""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from privalue.core import Integers
from privalue.errors import DataError
from privalue.readers import cells
from privalue.readers.ratios import Ratios
from privalue.readers.source import Dialect
from privalue.study import Study

ROLES = ("person", "trajectory", "step", "state", "action", "reward", "probability")
LABEL = pa.dictionary(pa.int32(), pa.string())


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """How a row becomes numbers, from that row alone."""

    columns: Mapping[str, str]  # role -> name of those that are read; "bin 0" where bins are states
    by_person: bool  # the unit is a person, not a trajectory
    id_type: str
    step_type: str
    step_format: str | None
    missing: tuple[str, ...]
    drop_invalid: bool
    dialect: Dialect
    sorted: bool
    states: int
    raw_labels: Mapping[str, int] | None
    bins: tuple[tuple[float, ...], ...]  # the edges of each column that states are made of
    grouped: bool
    arms: tuple[str, ...]  # their labels; empty where there are none
    actions: int  # how many there are; 0 without any
    action_labels: tuple[str, ...]  # empty where actions are the numbers 0, 1, ...
    # The codes of allowed pairs: the state times the number of actions, plus the action; None: all.
    allowed: Integers | None = field(compare=False)
    drop_truncated: bool  # a unit with a trajectory that was cut off is left out
    ratios: Ratios | None  # of two policies' probabilities, where another policy is valued

    @classmethod
    def of(cls, study: Study, keys: int) -> "Declaration":
        """Return what a study declares.

        Args:
            study: what is public.
            keys: how many keys the core counts.
        """
        data, pairs, by_person = study.data, study.pairs, study.privacy.unit == "person"
        columns: dict[str, str] = {}
        for role in ROLES:
            if role == "state" and study.bins:
                columns |= {f"bin {at}": name for at, name in enumerate(study.bins)}
            else:
                columns[role] = getattr(data, role)
        unread = {
            "person": not by_person and "person" not in data.given,
            "trajectory": data.one_trajectory_per_person,
            "action": pairs is None,
            "probability": not study.policy.is_logged,
        }
        columns = {role: name for role, name in columns.items() if not unread.get(role)}
        if study.arm_labels:
            columns["arm"] = study.arms.column
        if data.truncated is not None:
            columns["truncated"] = data.truncated
        return cls(
            columns=columns,
            by_person=by_person,
            id_type=data.id_type,
            step_type=data.step_type,
            step_format=data.step_format,
            missing=tuple(data.missing),
            drop_invalid=data.invalid == "drop-unit",
            dialect=Dialect(
                delimiter=data.delimiter,
                encoding=data.encoding,
                decimal=data.decimal,
                columns=columns,
                by_person=by_person,
            ),
            sorted=data.sorted,
            states=study.state_count,
            raw_labels=study.raw_labels,
            bins=tuple(study.bins.values()),
            grouped=study.states.groups is not None,
            arms=study.arm_labels,
            actions=study.action_count,
            action_labels=() if pairs is None else pairs.actions.labels or (),
            allowed=None if pairs is None else pairs.allowed,
            drop_truncated=study.drops_cut,
            ratios=Ratios.of(study, keys),
        )

    @property
    def keys(self) -> int:
        """Return how many keys rows have: states, of each arm, or pairs with an action."""
        if self.allowed is not None:
            return len(self.allowed)
        return self.states * max(len(self.arms), self.actions, 1)

    @property
    def state_roles(self) -> list[str]:
        """Return the roles of the columns that a state is read from."""
        return [role for role in self.columns if role == "state" or role.startswith("bin ")]

    @property
    def unit(self) -> str:
        """Return what a unit of privacy is called."""
        return "person" if self.by_person else "trajectory"

    @property
    def id_roles(self) -> list[str]:
        """Return the ids of a row: the person's, the trajectory's, or both."""
        return [role for role in ("person", "trajectory") if role in self.columns]

    @property
    def unit_roles(self) -> list[str]:
        """Return the ids that name the unit of privacy."""
        return ["person"] if self.by_person else self.id_roles

    @property
    def text_types(self) -> dict[str, pa.DataType]:
        """Return the columns to read, with the types that their plainly written texts have."""
        steps = {"integer": pa.int64(), "number": pa.float64()}.get(self.step_type, pa.string())
        ids = pa.int64() if self.id_type == "integer" else pa.string()
        kinds = {
            **dict.fromkeys(self.id_roles, ids),
            "step": steps,
            "state": pa.int64() if self.raw_labels is None else LABEL,
            "action": LABEL if self.action_labels else pa.int64(),
            "arm": LABEL,
            "truncated": LABEL,
        }
        return {name: kinds.get(role, pa.float64()) for role, name in self.columns.items()}

    def require_columns(self, place: str, schema: pa.Schema) -> None:
        """Raise DataError unless each column is there once, with a type that can be read."""
        for role, name in self.columns.items():
            found = schema.get_all_field_indices(name)
            if not found:
                raise DataError(
                    f"{place} has no column {name!r}; it has {_shown(schema.names)}: "
                    f"{self._hint(role, name, schema.names)}"
                )
            if len(found) > 1:
                raise DataError(f"{place} has the column {name!r} more than once; rename one")
            self._require_type(role, name, cells.value_type(schema.types[found[0]]), place)

    def _hint(self, role: str, name: str, present: Sequence[str]) -> str:
        """Return what to do about a column that is not there."""
        if len(present) == 1 and any(mark in present[0] for mark in ";\t|,"):
            return 'say what separates its cells: [data] delimiter = ";", or whatever it is'
        taken = {other for key, other in self.columns.items() if key != role}
        free = {other.strip().lower(): other for other in present if other not in taken}
        near = _alike(name, free) or _alike(role, free)
        if role.startswith("bin "):
            meant = f"if {near!r} is meant, name that one" if near else "name the right one"
            return f"{meant} in [states] bins"
        key = "[arms] column" if role == "arm" else f"[data] {role}"
        named = f'{{"{role}": "{near or "..."}"}}'
        if near:
            return f'if {near!r} is meant, set {key} = "{near}", or in Python columns={named}'
        return f'name the right one: {key} = "...", or in Python columns={named}'

    def _require_type(self, role: str, name: str, kind: pa.DataType, place: str) -> None:
        """Raise DataError unless cells of this type can be read in this role."""
        if pa.types.is_null(kind) or cells.is_text(kind):
            return
        times, fits, allowed = cells.is_time(kind), cells.is_number(kind), "it must hold numbers"
        if role in {"person", "trajectory"}:
            fits |= times and self.id_type == "text"
            allowed = f'ids are numbers or texts with [data] id_type = "{self.id_type}"'
        elif role == "step":
            fits = times if self.step_type in {"date", "datetime"} else fits
            other = "datetime" if times else "integer"
            allowed = f'[data] step_type = "{self.step_type}" says otherwise; set it to "{other}"'
        elif role in {"state", "action", "arm"}:
            labels = {"state": self.raw_labels, "action": self.action_labels, "arm": self.arms}
            fits |= times and bool(labels[role])
            allowed = f"{role}s are numbers or texts"
        elif role == "truncated":
            allowed = "it says true or false, or 1 or 0"
        if not fits:
            raise DataError(f"{place}: the column {name!r} is of type {kind}; {allowed}")


def _alike(wanted: str, free: Mapping[str, str]) -> str | None:
    """Return a free column whose name resembles the wanted one, or None."""
    wanted = wanted.lower()
    inside = [name for name in free if wanted in name.split("_") or name in wanted.split("_")]
    near = inside or difflib.get_close_matches(wanted, list(free), n=1)
    return free[near[0]] if near else None


def _shown(present: Sequence[str]) -> str:
    """Return the first names of columns, as a message lists them."""
    shown = ", ".join(map(repr, present[:20]))
    return shown + (", ..." if len(present) > 20 else "")
