"""Declare the keys of a study, by section: their types, limits and defaults.

A section limits each key by itself; the conditions between keys are one table, in ``checks``. The
meaning of each key and an example are in ``keys.toml``, from which ``privalue init`` and the
reference of the study file are generated.
"""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from numbers import Integral, Real
from typing import Annotated, Any, Literal, get_type_hints

import numpy as np
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    StrictBool,
    ValidationError,
    field_serializer,
)

from privalue.core import MAX_TRAJECTORIES
from privalue.errors import StudyError
from privalue.ledger import DATASET_NAME
from privalue.study.messages import describe_key, format_value, refusal, suggest

# Numbers are multiplied and squared: beyond these, doubles would over- or underflow.
SMALLEST, LARGEST = 1e-30, 1e30
MAX_STATES = 10_000_000  # the largest number that was tested: a minute, and 4 GB
MAX_BIN_STATES = 1_000_000  # each has a label, which takes memory
MAX_CLIP = 1e6  # weights are multiples of clip / 2^30
STAGE_SHARES: dict[Literal["bounds"], float] = {"bounds": 0.10}
SMOOTH = ("dp-lsw", "dp-lsl")  # the scale of their noise depends on the data
ROLES = ("person", "trajectory", "step", "state", "action", "reward", "probability", "truncated")


def _to_number(value: object) -> float:
    """Return a finite number as a double; refuse truth values, texts and NaN."""
    try:
        number = float(value) if isinstance(value, Real) else math.nan
    except OverflowError:
        number = math.inf
    if isinstance(value, bool) or not math.isfinite(number):
        raise ValueError
    return number


def _to_whole(value: object) -> int:
    """Return a whole number; refuse truth values and floats."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise ValueError
    return int(value)


def to_plain(value: Any) -> Any:
    """Return an array as a list and a pandas object with labels as a table; the rest as it is.

    The default index of pandas (0, 1, 2, ...) is not a list of labels: such numbers are in the
    order of the states.
    """
    if isinstance(value, str | bytes | list | tuple):
        return value
    if hasattr(value, "iloc") and type(value.index).__name__ != "RangeIndex":
        if not value.index.is_unique:
            raise ValueError("has an index that names a state twice; labels are unique")
        value = value.to_dict()
    if isinstance(value, Mapping):
        return {str(label): cell for label, cell in value.items()}
    return np.asarray(value).tolist() if hasattr(value, "__array__") else value


def _to_labels(value: Any) -> list[Any]:
    """Return labels as a list, NumPy's numbers as Python's."""
    plain = to_plain(value)
    if not isinstance(plain, list | tuple | range):
        raise ValueError
    return [label.item() if hasattr(label, "item") else label for label in plain]


def _to_edges(value: Any) -> Any:
    """Return edges by column; a description has a list, since the keys of JSON have no order."""
    if isinstance(value, list) and all(isinstance(entry, Mapping) for entry in value):
        return {entry.get("column"): entry.get("edges") for entry in value}
    return value


def _check_order(edges: tuple[float, ...]) -> tuple[float, ...]:
    """Return the edges of a column; raise ValueError unless they increase."""
    if not edges or any(low >= high for low, high in pairwise(edges)):
        raise ValueError(f"has {list(edges)}: edges come in order, each above the last")
    return tuple(edge + 0.0 for edge in edges)  # -0 is 0


def _check_product(bins: dict[str, tuple[float, ...]]) -> dict[str, tuple[float, ...]]:
    """Return the edges by column; raise ValueError if their product has too many states."""
    states = math.prod(len(edges) + 1 for edges in bins.values())
    if not 2 <= states <= MAX_BIN_STATES:
        raise ValueError(f"make {states:,} states; there may be from 2 to {MAX_BIN_STATES:,}")
    return bins


def _check_line(text: str) -> str:
    if not text.strip() or not text.isprintable() or len(text) > 80:
        raise ValueError(f"= {format_value(text)} must be one line of 1 to 80 printable characters")
    return text


Line = Annotated[str, AfterValidator(_check_line)]
Number = Annotated[float, BeforeValidator(_to_number)]
Whole = Annotated[int, BeforeValidator(_to_whole)]
Positive = Annotated[Number, Field(gt=0)]
Count = Annotated[Whole, Field(ge=1, le=MAX_STATES)]
Bounds = tuple[Number, Number]
Text = Annotated[str, Field(min_length=1)]
# Of a side file: a release names it without its folder, which may say of whom it is.
FileName = Annotated[str, PlainSerializer(os.path.basename, when_used="json")]
# A label may be a whole number, within the 64 bits that a row of data can hold.
Label = str | Annotated[int, Field(ge=-(2**63), lt=2**63)]
Labels = Annotated[list[Label], BeforeValidator(_to_labels)]
ByState = Annotated[list[Number] | dict[str, Number], BeforeValidator(to_plain)]
Groups = Annotated[dict[str, Label], BeforeValidator(to_plain)]
Edges = Annotated[tuple[Number, ...], BeforeValidator(to_plain), AfterValidator(_check_order)]
Bins = Annotated[dict[Text, Edges], BeforeValidator(_to_edges), AfterValidator(_check_product)]


class Section(BaseModel):
    """A section of the study file; frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    @property
    def explicit_keys(self) -> frozenset[str]:
        """Return the keys that the study sets explicitly."""
        return frozenset(self.model_fields_set)

    def default(self, name: str) -> Any:
        """Return the value of a key that is left out."""
        field = type(self).model_fields[name]
        return field.get_default(call_default_factory=True, validated_data=vars(self))


class StudySection(Section):
    """``[study]``: the name of the study, and the people it is about."""

    name: Text = "untitled"
    dataset: Annotated[str, Field(pattern=f"^{DATASET_NAME.pattern}$")] | None = None
    period: Line | None = None
    trajectories: Annotated[Whole, Field(ge=1, le=MAX_TRAJECTORIES)] | None = None


class Privacy(Section):
    """``[privacy]``: the guarantee, its unit, and the contribution bounds."""

    epsilon: Positive
    delta: Annotated[Number, Field(ge=0, lt=1)] = 0.0
    unit: Literal["trajectory", "person"]
    neighbours: Literal["replace-one", "add-remove"] = "replace-one"
    max_trajectories_per_person: Annotated[Whole, Field(ge=1, le=1_000_000)] | None = None
    max_states_per_trajectory: Count | None = None


def implied_rewards(keys: Mapping[str, Any]) -> tuple[float, float]:
    """Return the bounds of rewards that follow from those of returns.

    A return is a reward and gamma times the return after it, G = r + gamma G', or the reward alone
    at the end. So if all returns lie in [F_lo, F_hi], then every reward lies between
    min(F_lo, F_lo - gamma F_hi) and max(F_hi, F_hi - gamma F_lo).
    """
    low, high = keys.get("returns") or (math.nan, math.nan)
    discount = keys.get("discount", math.nan)
    return min(low, low - discount * high), max(high, high - discount * low)


def implied_returns(rewards: tuple[float, float], discount: float) -> tuple[float, float]:
    """Return the bounds of returns that follow from those of rewards; infinite at discount 1.

    A trajectory may be one row long, so the bounds include the reward itself as well as its
    infinite discounted sum, and need not include 0.
    """
    low, high = rewards
    if discount == 1:
        return -math.inf, math.inf
    forever = 1.0 / (1.0 - discount)
    return min(low, low * forever), max(high, high * forever)


class Values(Section):
    """``[values]``: the return whose mean is released, and its public bounds."""

    discount: Annotated[Number, Field(gt=0, le=1)]
    returns: Bounds | None = None
    rewards: Bounds = Field(default_factory=implied_rewards)
    reward_per_row: Number | None = None
    unvisited: Number | None = None
    start: FileName | ByState | None = None

    @property
    def return_bounds(self) -> tuple[float, float]:
        """Return [F_lo, F_hi]: explicit, or implied by the bounds of rewards."""
        return self.returns or implied_returns(self.rewards, self.discount)

    @property
    def unvisited_value(self) -> float:
        """Return the explicit value, or 0 if the bounds allow it, or the bound nearest to 0."""
        low, high = self.return_bounds
        return min(max(0.0, low), high) if self.unvisited is None else self.unvisited


class Enumeration(Section):
    """An ordered list of states or actions: their number, their labels, or a file of labels."""

    count: Count | None = None
    labels: Labels | None = None
    file: FileName | None = None

    @property
    def is_declared(self) -> bool:
        """Return whether the study declares such a list."""
        return (self.count, self.labels, self.file) != (None, None, None)


class States(Enumeration):
    """``[states]``: the public list, or number, of states."""

    ends: Annotated[dict[str, Number] | Labels, BeforeValidator(to_plain)] | None = None
    bins: Bins | None = None
    groups: FileName | Groups | None = None
    visits: FileName | ByState | None = None

    @property
    def end_labels(self) -> tuple[str, ...]:
        """Return the labels of rows that end a trajectory, in order; mostly none."""
        return tuple(str(label).strip() for label in self.ends or ())

    @field_serializer("bins")
    def _serialize_bins(self, bins: Mapping[str, Any] | None) -> Any:
        """Return the bins as a list: the order of columns counts, and JSON's keys have none."""
        if bins is None:
            return None
        return [{"column": column, "edges": list(edges)} for column, edges in bins.items()]


def _implied_kind(keys: Mapping[str, Any]) -> Any:
    """Return the kind of features that the other keys imply."""
    if keys.get("file") is not None or keys.get("matrix") is not None:
        return "matrix"
    return "tabular" if keys.get("size") is None else "aggregate"


class Features(Section):
    """``[features]``: the features Phi."""

    size: Count | None = None
    file: FileName | None = None
    matrix: Any = None
    kind: Literal["tabular", "aggregate", "matrix"] = Field(default_factory=_implied_kind)
    shrink: StrictBool = False


class Weights(Section):
    """``[weights]``: the weights of the states, w of DP-LSW and rho of DP-LSL."""

    kind: Literal["uniform"] | None = None
    file: FileName | None = None
    values: ByState | None = None


class Arms(Section):
    """``[arms]``: arms whose values are released together; without labels there are no arms."""

    column: Text = "arm"
    labels: Labels = []

    @property
    def names(self) -> tuple[str, ...]:
        """Return the labels as texts."""
        return tuple(str(label).strip() for label in self.labels)


class Actions(Enumeration):
    """``[actions]``: the actions, for values by state and action; none if no key is set."""

    allowed: FileName | Annotated[dict[str, list[Label]], BeforeValidator(to_plain)] | None = None


class TargetPolicy(Section):
    """``[policy]``: the target policy that dp-ope evaluates, and the behaviour policy."""

    target: Any = None  # in any form that ``policy_table`` reads
    behaviour: Any = None
    clip: Annotated[Number, Field(ge=1, le=MAX_CLIP)] | None = None
    by: Literal["start"] | None = None

    @property
    def is_logged(self) -> bool:
        """Return whether a column of the data has the behaviour's probabilities."""
        return isinstance(self.behaviour, str) and self.behaviour == "column"


def _default_of(name: str, default: Any, otherwise: Any) -> Any:
    """Return a field with one default for the mechanism of this name, another for all others."""
    return Field(default_factory=lambda keys: default if keys.get("name") == name else otherwise)


class Mechanism(Section):
    """``[mechanism]``: the algorithm that adds the noise, and its keys."""

    name: Literal["dp-ssp", "dp-lsw", "dp-lsl", "dp-ope"] = "dp-ssp"
    stages: Literal["auto", "one"] | tuple[Literal["bounds"]] = _default_of("dp-ssp", "auto", "one")
    stage_shares: dict[Literal["bounds"], Annotated[Number, Field(gt=0, lt=1)]] = STAGE_SHARES
    calibration: Literal["exact", "nissim", "appendix"] = "exact"
    noise: Literal["whitened", "isotropic"] = _default_of("dp-lsw", "whitened", "isotropic")
    beta: Literal["auto"] | Positive = "auto"
    pseudo_count: Annotated[Number, Field(ge=0, le=1e15)] = 0.0
    ridge: Literal["sqrt"] | Annotated[Number, Field(ge=SMALLEST, le=LARGEST)] = "sqrt"
    ridge_scale: Annotated[Number, Field(ge=SMALLEST, le=1e20)] = 100.0
    shrinkage: StrictBool = _default_of("dp-ssp", True, False)

    @property
    def has_ridge(self) -> bool:
        """Return whether a ridge is in use: always with dp-lsl; with dp-ssp if a key sets it."""
        return self.name == "dp-lsl" or bool(self.explicit_keys & {"ridge", "ridge_scale"})


class Report(Section):
    """``[report]``: the level of intervals, and the name and unit of a value."""

    level: Annotated[Number, Field(gt=0, le=1 - 1e-11)] = 0.95
    outcome: Line | None = None
    unit: Line | None = None


class Columns(Section):
    """``[data]``: the names of the columns, and the types and formats of their cells.

    A cell is parsed by these keys alone: no row influences how another is read.
    """

    trajectory: Text = "trajectory"
    step: Text = "step"
    state: Text = "state"
    reward: Text = "reward"
    action: Text = "action"
    probability: Text = "probability"
    person: Text = "person"
    id_type: Literal["text", "integer"] = "text"
    step_type: Literal["integer", "number", "date", "datetime"] = "integer"
    step_format: Annotated[str, Field(min_length=2)] | None = None
    invalid: Literal["refuse", "drop-unit"] = "refuse"
    missing: list[str] = [""]
    decimal: Literal[".", ","] = "."
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] | None = None
    encoding: str = "utf-8"
    sorted: StrictBool = False
    truncated: Text = "truncated"
    truncated_rows: Literal["keep", "drop-unit"] | None = None

    @property
    def one_trajectory_per_person(self) -> bool:
        """Return whether the person's id is also the trajectory's: only person is named."""
        return "person" in self.explicit_keys and "trajectory" not in self.explicit_keys


def column_key(role: str) -> str:
    """Return the key of the study that names the column of a role, for a message."""
    keys = {"arm": "[arms] column", "bin": "[states] bins"}
    return keys.get(role.partition(" ")[0], f"[data] {role}")


@dataclass(frozen=True, kw_only=True, eq=False)
class Sections:
    """The sections of a study, in the order of the file."""

    study: StudySection
    privacy: Privacy
    values: Values
    states: States
    features: Features
    weights: Weights
    arms: Arms
    actions: Actions
    policy: TargetPolicy
    mechanism: Mechanism
    report: Report
    data: Columns

    @property
    def is_off_policy(self) -> bool:
        """Return whether the release is the value of a target policy, without values by state."""
        return self.mechanism.name == "dp-ope"

    @property
    def columns(self) -> dict[str, str]:
        """Return the names of the columns that are read, by role; of bins "bin 0", "bin 1", ..."""
        unread = {
            "person": self.privacy.unit != "person" and "person" not in self.data.explicit_keys,
            "trajectory": self.data.one_trajectory_per_person,
            "state": self.states.bins is not None,
            "action": not self.actions.is_declared,
            "reward": self.fixed_rewards is not None,
            "probability": not self.policy.is_logged,
            "truncated": self.data.truncated_rows is None,
        }
        names = {role: getattr(self.data, role) for role in ROLES if not unread.get(role)}
        names |= {f"bin {at}": name for at, name in enumerate(self.states.bins or ())}
        return names | ({"arm": self.arms.column} if self.arms.labels else {})

    @property
    def fixed_rewards(self) -> tuple[float, tuple[float, ...]] | None:
        """Return the reward of every row and of each end; None if a column holds the rewards.

        With ``reward_per_row``, ends without rewards of their own get 0.
        """
        of_rows, ends = self.values.reward_per_row, self.states.ends
        if isinstance(ends, dict):
            return of_rows or 0.0, tuple(ends.values())
        return None if of_rows is None else (of_rows, (0.0,) * len(ends or ()))

    def implied_bounds(self) -> dict[str, tuple[float, float]]:
        """Return the bounds of rewards and returns that follow from fixed rewards.

        Keys that the study sets explicitly are left out.

        If a row has reward c and an end has e, the return of k rows and an end is
        c(1 - gamma^k)/(1 - gamma) + gamma^k e: between c + gamma e (one row) and c/(1 - gamma)
        (in the limit). Without an end the return is between c and c/(1 - gamma).
        """
        if self.fixed_rewards is None:
            return {}
        values, gamma = self.values, self.values.discount
        c, ends = self.fixed_rewards
        bounds = {}
        if "rewards" not in values.explicit_keys:
            bounds["rewards"] = (min([c, *ends]), max([c, *ends]))
        forever = c / (1 - gamma) if gamma < 1 else math.copysign(math.inf, c) if c else 0.0
        returns = [c, forever, *(c + gamma * end for end in ends)]
        if values.returns is None and math.isfinite(forever) and min(returns) < max(returns):
            bounds["returns"] = (min(returns), max(returns))
        return bounds


SECTIONS: Mapping[str, type[Section]] = get_type_hints(Sections)


def build_section(section: str, keys: object) -> Section:
    """Return a section with these keys; raise StudyError for the first invalid one."""
    if not isinstance(keys, Mapping):
        raise refusal("section-invalid", section, format_value(keys))
    if not all(isinstance(name, str) for name in keys):
        raise refusal("key-not-text", section)
    try:
        explicit = {name: value for name, value in keys.items() if value is not None}
        return SECTIONS[section](**explicit)
    except ValidationError as problem:
        raise _explain(problem, section) from None


def _explain(problem: ValidationError, section: str) -> StudyError:
    """Return the error of the first invalid key: the key, its value, the allowed values."""
    errors = problem.errors(include_url=False)
    first = next((e for e in errors if e["type"] == "extra_forbidden"), errors[0])
    name = str(first["loc"][0])
    if first["type"] == "extra_forbidden":
        hint = suggest(name, SECTIONS[section].model_fields)
        return refusal("key-unknown", f"[{section}] {name}", "key", hint)
    allowed = describe_key(section, name)["allowed"]
    if first["type"] == "missing" and len(first["loc"]) == 1:
        return refusal("key-missing", section, name, allowed)
    # A key with alternative types has an error for each; one may have a message of its own.
    causes = (e.get("ctx", {}).get("error") for e in errors if e["loc"][:1] == first["loc"][:1])
    cause = next((cause for cause in causes if cause is not None and str(cause)), None)
    if cause is None:
        cause = f"= {format_value(first['input'])} is not allowed; it must be {allowed}"
    return refusal("key-invalid", f"[{section}] {name}", cause)
