"""Collect what a study declares about rows: columns, types of cells, states, actions and arms.

A declaration is public and complete before a row is read; engines use nothing else of the study.
They read only columns that the study names or needs, whatever other columns there are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from privalue.readers import cells
from privalue.readers.messages import data_error, list_some
from privalue.readers.ratios import ImportanceRatios
from privalue.readers.source import Dialect
from privalue.study import Study

ROLES = ("person", "trajectory", "step", "state", "action", "reward", "probability")


@dataclass(frozen=True)
class Declaration:
    """The rules by which a row is encoded as numbers, from that row alone."""

    study: Study
    keys: int  # how many keys rows may have: states of each arm, or pairs of state and action
    # The name of each column to read, by role; the columns of a state's bins are "bin 0", ...
    columns: Mapping[str, str]
    ratios: ImportanceRatios | None  # if the study evaluates another policy

    @classmethod
    def of(cls, study: Study, keys: int) -> "Declaration":
        """Return the declaration of a study.

        Args:
            study: the study.
            keys: the number of keys that the core counts.
        """
        data, bins = study.data, study.states.bins or {}
        columns = {role: getattr(data, role) for role in ROLES}
        columns |= {f"bin {at}": name for at, name in enumerate(bins)}
        unused = {
            "state": bool(bins),
            "person": study.privacy.unit != "person" and "person" not in data.explicit_keys,
            "trajectory": data.one_trajectory_per_person,
            "action": study.pairs is None,
            "reward": study.fixed_rewards is not None,
            "probability": not study.policy.is_logged,
        }
        columns = {role: name for role, name in columns.items() if not unused.get(role)}
        if study.arms.names:
            columns["arm"] = study.arms.column
        if data.truncated_rows is not None:
            columns["truncated"] = data.truncated
        return cls(study, study.key_count, columns, ImportanceRatios.of(study, keys))

    @property
    def dialect(self) -> Dialect:
        """Return the part of the study that sources depend on."""
        data, folders = self.study.data, self.study.folders or (Path(),)
        return Dialect(
            delimiter=data.delimiter,
            encoding=data.encoding,
            decimal=data.decimal,
            columns=self.columns,
            by_person=self.study.privacy.unit == "person",
            public_files=[folder / file.name for folder in folders for file in self.study.files],
            ends_have_rewards=isinstance(self.study.states.ends, Mapping),
        )

    @property
    def id_roles(self) -> list[str]:
        """Return the ids of a row: the person's, the trajectory's, or both."""
        return [role for role in ("person", "trajectory") if role in self.columns]

    @property
    def unit_roles(self) -> list[str]:
        """Return the ids that identify the unit of privacy."""
        return ["person"] if self.study.privacy.unit == "person" else self.id_roles

    @property
    def text_types(self) -> dict[str, pa.DataType]:
        """Return the columns to read, with the types that their texts usually have."""
        numbers = {"integer": pa.int64(), "number": pa.float64()}
        ids = numbers.get(self.study.data.id_type, pa.string())
        kinds = {
            **dict.fromkeys(self.id_roles, ids),
            "step": numbers.get(self.study.data.step_type, pa.string()),
            "truncated": pa.string(),
            **{role: pa.string() for role, labels in self.labels.items() if labels},
        }
        return {name: kinds.get(role, pa.float64()) for role, name in self.columns.items()}

    @property
    def labels(self) -> dict[str, Sequence[str]]:
        """Return the labels of states, actions and arms; empty if these are numbers."""
        pairs = self.study.pairs
        return {
            "state": list(self.study.raw_labels or ()),
            "action": tuple(pairs.actions.positions) if pairs else (),
            "arm": self.study.arms.names,
        }

    def require_columns(self, place: str, schema: pa.Schema) -> None:
        """Raise DataError unless each column exists once, with a type that fits its role."""
        names = list_some(schema.names, 20)
        for role, name in self.columns.items():
            positions = schema.get_all_field_indices(name)
            if not positions:
                key = "[arms] column" if role == "arm" else f"[data] {role}"
                key = "[states] bins" if role.startswith("bin ") else key
                raise data_error("column-absent", place=place, name=name, columns=names, key=key)
            if len(positions) > 1:
                raise data_error("column-twice", place=place, name=name)
            kind = cells.value_type(schema.types[positions[0]])
            if not self._fits(role, kind):
                raise data_error("column-type", place=place, name=name, kind=kind, role=role)

    def _fits(self, role: str, kind: pa.DataType) -> bool:
        """Return whether a column of this type can hold cells of this role; texts always can."""
        if pa.types.is_null(kind) or cells.is_text(kind):
            return True
        data, is_time = self.study.data, cells.is_time(kind)
        if role == "step" and data.step_type in {"date", "datetime"}:
            return is_time
        has_texts = data.id_type == "text" if role in self.id_roles else bool(self.labels.get(role))
        return cells.is_number(kind) or (is_time and has_texts)
