"""State what a reader needs to know of a study: columns, what their cells are, and the states.

These rules are public, complete before a row is read, and all that a reader goes by. Only columns
that the study names, or needs, are read, whatever other columns there are.
"""

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from privalue.core import Integers
from privalue.errors import DataError
from privalue.readers import _cells as cells
from privalue.readers._python_cells import flat
from privalue.readers._weights import Weighing
from privalue.study import Study

ROLES = ("person", "trajectory", "step", "state", "action", "reward", "probability")
NOTHING = object()  # a cell that is none, and so invalid
_OBSERVATION = re.compile(r"observation_(\d{1,6})")
_OF_STEPS = ("state", "action", "reward", "probability")
MARKS = ("arm", "truncated")  # roles of columns that are read where the study names them


@dataclass(frozen=True, kw_only=True)
class RowRules:
    """How a row becomes numbers, from that row alone."""

    columns: Mapping[str, str]  # role -> name; those that are read, in the order of ROLES and MARKS
    by_person: bool  # the unit is a person, not a trajectory
    id_type: str
    step_type: str
    step_format: str | None
    missing: tuple[str, ...]
    drop_invalid: bool
    decimal: str
    delimiter: str | None
    encoding: str
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
    drop_cut: bool  # a unit with a trajectory that was cut off is left out
    weighing: Weighing | None  # of trajectories, where another policy is valued

    @classmethod
    def of(cls, study: Study) -> "RowRules":
        """Return the rules that a study states."""
        data, by_person = study.data, study.privacy.unit == "person"
        named = {role: getattr(data, role) for role in ROLES}
        if not by_person and "person" not in data.given:
            del named["person"]
        if data.one_trajectory_per_person:
            del named["trajectory"]
        pairs = study.pairs
        if pairs is None:
            del named["action"]
        if not study.policy.is_logged:
            del named["probability"]
        if study.bins:
            of_bins = {f"bin {at}": column for at, column in enumerate(study.bins)}
            columns = ((role, {role: name}) for role, name in named.items())
            parts = [of_bins if role == "state" else one for role, one in columns]
            named = {role: name for part in parts for role, name in part.items()}
        if study.arm_labels:
            named["arm"] = study.arms.column
        if data.truncated is not None:
            named["truncated"] = data.truncated
        return cls(
            columns=named,
            by_person=by_person,
            id_type=data.id_type,
            step_type=data.step_type,
            step_format=data.step_format,
            missing=tuple(data.missing),
            drop_invalid=data.invalid == "drop-unit",
            decimal=data.decimal,
            delimiter=data.delimiter,
            encoding=data.encoding,
            sorted=data.sorted,
            states=study.state_count,
            raw_labels=study.raw_labels,
            bins=tuple(study.bins.values()),
            grouped=study.states.groups is not None,
            arms=study.arm_labels,
            actions=study.action_count,
            action_labels=() if pairs is None else pairs.actions.labels or (),
            allowed=None if pairs is None else pairs.allowed,
            drop_cut=study.drops_cut,
            weighing=Weighing.of(study),
        )

    @property
    def keys(self) -> int:
        """Return how many keys there are: states, of each arm, or pairs with an action."""
        if self.allowed is not None:
            return len(self.allowed)
        return self.states * max(len(self.arms), self.actions, 1)

    @property
    def state_roles(self) -> list[str]:
        """Return the roles of the columns that a state is read from."""
        return [f"bin {at}" for at in range(len(self.bins))] or ["state"]

    @property
    def step_roles(self) -> list[str]:
        """Return what an episode says of each step."""
        return [role for role in (*_OF_STEPS, *MARKS) if role == "state" or role in self.columns]

    @property
    def observed(self) -> list[int] | None:
        """Return which numbers of an observation the bins are of.

        Bins of the columns ``observation_0``, ``observation_3`` are of those; bins of other columns
        are of as many numbers as there are columns, in their order: None.
        """
        found = [_OBSERVATION.fullmatch(self.columns[role]) for role in self.state_roles]
        return [int(one[1]) for one in found if one] if self.bins and all(found) else None

    def state_cells(self, state: Any) -> tuple[Any, ...]:
        """Return the cells of the state's columns for an observation, from it alone.

        One of the wrong form has cells that are invalid.
        """
        if not self.bins:
            return (state,)
        if isinstance(state, Mapping):
            return tuple(state.get(self.columns[role]) for role in self.state_roles)
        numbers = flat(state)
        wanted = self.observed or range(len(self.bins))
        if self.observed is None and len(numbers) != len(self.bins):
            return (NOTHING,) * len(self.bins)
        return tuple(numbers[at] if at < len(numbers) else NOTHING for at in wanted)

    @property
    def unit(self) -> str:
        """Return what a unit of privacy is called."""
        return "person" if self.by_person else "trajectory"

    @property
    def names(self) -> list[str]:
        """Return the columns to read."""
        return list(self.columns.values())

    @property
    def id_roles(self) -> list[str]:
        """Return the ids of a row: the person's, the trajectory's, or both."""
        return [role for role in ("person", "trajectory") if role in self.columns]

    @property
    def unit_roles(self) -> list[str]:
        """Return the ids that name the unit of privacy."""
        return ["person"] if self.by_person else self.id_roles

    def select(self, present: Sequence[str], place: str) -> list[str]:
        """Return the columns to read; raise DataError unless each appears exactly once."""
        for role, name in self.columns.items():
            if name not in present:
                raise DataError(
                    f"{place} has no column {name!r}; it has {_shown(present)}: "
                    f"{self._hint(role, name, present)}"
                )
            if list(present).count(name) > 1:
                raise DataError(f"{place} has the column {name!r} more than once; rename one")
        return self.names

    def _hint(self, role: str, name: str, present: Sequence[str]) -> str:
        """Return what to do about a column that is not there."""
        if len(present) == 1 and any(mark in present[0] for mark in ";\t|,"):
            return 'say what separates its cells: [data] delimiter = ";", or whatever it is'
        taken = {other for key, other in self.columns.items() if key != role}
        free = {other.strip().lower(): other for other in present if other not in taken}
        near = _alike(name, free) or _alike(role, free)
        key = "[arms] column" if role == "arm" else f"[data] {role}"
        if role.startswith("bin "):
            meant = f"if {near!r} is meant, name that one" if near else "name the right one"
            return f"{meant} in [states] bins"
        named = f'{{"{role}": "{near or "..."}"}}'
        if near:
            return f'if {near!r} is meant, set {key} = "{near}", or in Python columns={named}'
        return f'name the right one: {key} = "...", or in Python columns={named}'

    def require_no_person(self, place: str) -> None:
        """Refuse what numbers its trajectories, if persons are protected.

        Args:
            place: what does so, with its verb: "episodes name".
        """
        if self.by_person:
            raise DataError(
                f'{place} no person, and unit = "person" needs one; give a table with the column '
                f"{self.columns['person']!r}"
            )

    def require_types(self, schema: Iterable[tuple[str, pa.DataType]], place: str) -> None:
        """Refuse, before any row is read, a column of a type that cannot be read."""
        roles = {name: role for role, name in self.columns.items()}
        for name, kind in schema:
            if name in roles:
                self._require_type(roles[name], name, cells.value_type(kind), place)

    def _require_type(self, role: str, name: str, kind: pa.DataType, place: str) -> None:
        """Raise DataError unless cells of this type can be read in this role."""
        if pa.types.is_null(kind) or cells.is_text(kind):
            return
        times = cells.is_time(kind)
        if role in {"person", "trajectory"}:
            fits = cells.is_number(kind) or (times and self.id_type == "text")
            allowed = f'ids are numbers or texts with [data] id_type = "{self.id_type}"'
        elif role == "step":
            fits = times if self.step_type in {"date", "datetime"} else cells.is_number(kind)
            other = "datetime" if times else "integer"
            allowed = f'[data] step_type = "{self.step_type}" says otherwise; set it to "{other}"'
        elif role.startswith("bin "):
            fits, allowed = cells.is_number(kind), "[states] bins are of numbers"
        elif role == "state":
            fits = cells.is_number(kind) or (times and self.raw_labels is not None)
            allowed = "states are numbers or texts"
        elif role == "action":
            fits = cells.is_number(kind) or (times and bool(self.action_labels))
            allowed = "actions are numbers or texts"
        elif role == "probability":
            fits, allowed = cells.is_number(kind), "probabilities are numbers"
        elif role == "arm":
            fits, allowed = cells.is_number(kind) or times, "arms are numbers or texts"
        elif role == "truncated":
            fits, allowed = cells.is_number(kind), "it says true or false, or 1 or 0"
        else:
            fits, allowed = cells.is_number(kind), "rewards are numbers"
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
