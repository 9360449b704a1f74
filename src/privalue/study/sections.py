"""Declare the keys of a study, by section: their types, limits and defaults.

A section only says what each key may be by itself; what keys need of each other is one table, in
``checks``. What a key means, and an example, stand in ``keys.toml``, from which the reference of
the study file and ``privalue init`` are made.
"""

import math
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
    StrictBool,
    ValidationError,
    field_serializer,
)

from privalue.core import MOST_TRAJECTORIES
from privalue.errors import StudyError
from privalue.ledger import DATASET_NAME
from privalue.study.messages import describe_key, format_value, meant, refusal

# Numbers are multiplied and squared: beyond these, doubles would over- or underflow.
SMALLEST, LARGEST = 1e-30, 1e30
MOST_STATES = 10_000_000  # the most that was ever tried: a minute, and 4 GB
MOST_BINNED = 1_000_000  # states of bins, each of which has a label
MOST_CLIP = 1e6  # a weight has 2^30 steps below it
STAGE_SHARES: dict[Literal["bounds"], float] = {"bounds": 0.10}
SMOOTH = ("dp-lsw", "dp-lsl")  # the scale of their noise depends on the data
ROLES = ("trajectory", "step", "state", "reward", "action", "probability", "person", "truncated")


def _number(value: object) -> float:
    """Return a finite number as a double; refuse truth values, texts and NaN."""
    try:
        number = float(value) if isinstance(value, Real) else math.nan
    except OverflowError:
        number = math.inf
    if isinstance(value, bool) or not math.isfinite(number):
        raise ValueError
    return number


def _whole(value: object) -> int:
    """Return a whole number; refuse truth values and floats."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise ValueError
    return int(value)


def to_plain(value: Any) -> Any:
    """Return an array as a list and a pandas object with labels as a table; the rest as it is.

    An index that pandas made, 0, 1, 2, ..., is no label: its numbers are in the order of the
    states.
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


def _labels(value: Any) -> list[Any]:
    """Return labels as a list; numbers of NumPy as Python's."""
    plain = to_plain(value)
    if not isinstance(plain, list | tuple | range):
        raise ValueError
    return [label.item() if hasattr(label, "item") else label for label in plain]


def _columns(value: Any) -> Any:
    """Return edges by column; a description lists columns, as JSON's keys have no order."""
    if isinstance(value, list) and all(isinstance(entry, Mapping) for entry in value):
        return {entry.get("column"): entry.get("edges") for entry in value}
    return value


def _in_order(edges: tuple[float, ...]) -> tuple[float, ...]:
    """Return the edges of a column, or raise ValueError."""
    if not edges or any(low >= high for low, high in pairwise(edges)):
        raise ValueError(f"has {list(edges)}: edges come in order, each above the last")
    return tuple(edge + 0.0 for edge in edges)  # -0 is 0


def _few(bins: dict[str, tuple[float, ...]]) -> dict[str, tuple[float, ...]]:
    """Return the edges by column, or raise ValueError if they make too many states."""
    states = math.prod(len(edges) + 1 for edges in bins.values())
    if not 2 <= states <= MOST_BINNED:
        raise ValueError(f"make {states:,} states; there may be from 2 to {MOST_BINNED:,}")
    return bins


def _line(text: str) -> str:
    if not text.strip() or not text.isprintable() or len(text) > 80:
        raise ValueError(f"= {format_value(text)} must be one line of 1 to 80 printable characters")
    return text


Line = Annotated[str, AfterValidator(_line)]
Number = Annotated[float, BeforeValidator(_number)]
Whole = Annotated[int, BeforeValidator(_whole)]
Positive = Annotated[Number, Field(gt=0)]
Count = Annotated[Whole, Field(ge=1, le=MOST_STATES)]
Share = Annotated[Number, Field(gt=0, lt=1)]
Size = Annotated[Number, Field(ge=SMALLEST, le=LARGEST)]
Bounds = tuple[Number, Number]
Text = Annotated[str, Field(min_length=1)]
# A label may be written as a number: one that a row of data could hold, not of thousands of digits.
Label = str | Annotated[int, Field(ge=-(2**63), lt=2**63)]
Labels = Annotated[list[Label], BeforeValidator(_labels)]
ByState = Annotated[list[Number] | dict[str, Number], BeforeValidator(to_plain)]
Groups = Annotated[dict[str, Label], BeforeValidator(to_plain)]
Edges = Annotated[tuple[Number, ...], BeforeValidator(to_plain), AfterValidator(_in_order)]
Bins = Annotated[dict[Text, Edges], BeforeValidator(_columns), AfterValidator(_few)]


class Section(BaseModel):
    """A group of keys; frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    @property
    def given(self) -> frozenset[str]:
        """Return the keys that the study sets explicitly."""
        return frozenset(self.model_fields_set)

    def default(self, name: str) -> Any:
        """Return the value that a key would have if it were left out."""
        field = type(self).model_fields[name]
        return field.get_default(call_default_factory=True, validated_data=vars(self))


class About(Section):
    """``[study]``: the name of the study, and the people it is about."""

    name: Text = "untitled"
    dataset: Annotated[str, Field(pattern=f"^{DATASET_NAME.pattern}$")] | None = None
    period: Line | None = None
    trajectories: Annotated[Whole, Field(ge=1, le=MOST_TRAJECTORIES)] | None = None


class Privacy(Section):
    """``[privacy]``: what is promised, and to whom."""

    epsilon: Positive
    delta: Annotated[Number, Field(ge=0, lt=1)] = 0.0
    unit: Literal["trajectory", "person"]
    neighbours: Literal["replace-one", "add-remove"] = "replace-one"
    max_trajectories_per_person: Annotated[Whole, Field(ge=1, le=1_000_000)] | None = None
    max_states_per_trajectory: Count | None = None


def implied_rewards(known: Mapping[str, Any]) -> tuple[float, float]:
    """Bound rewards by the returns, where nobody did.

    A return is a reward and gamma times the return after it, G = r + gamma G', or the reward alone
    at the end. So if all returns lie in [F_lo, F_hi], then every reward lies between
    min(F_lo, F_lo - gamma F_hi) and max(F_hi, F_hi - gamma F_lo).
    """
    low, high = known.get("returns") or (math.nan, math.nan)
    discount = known.get("discount", math.nan)
    return min(low, low - discount * high), max(high, high - discount * low)


def implied_returns(rewards: tuple[float, float], discount: float) -> tuple[float, float]:
    """Return the bounds of returns that follow from rewards; infinite ones without a discount.

    A trajectory may be one row long, so the bounds include the reward itself as well as its
    infinite discounted sum, and need not include 0 (math: section 4).
    """
    low, high = rewards
    if discount == 1:
        return -math.inf, math.inf
    forever = 1.0 / (1.0 - discount)
    return min(low, low * forever), max(high, high * forever)


class Values(Section):
    """``[values]``: what is valued, and its public bounds."""

    discount: Annotated[Number, Field(gt=0, le=1)]
    returns: Bounds | None = None
    rewards: Bounds = Field(default_factory=implied_rewards)
    reward_per_row: Number | None = None
    unvisited: Number | None = None
    start: str | ByState | None = None

    @property
    def return_bounds(self) -> tuple[float, float]:
        """Return [F_lo, F_hi]: as given, or as the bounds of the rewards imply."""
        return self.returns or implied_returns(self.rewards, self.discount)

    @property
    def unvisited_value(self) -> float:
        """Return the value as given, or 0 if the bounds allow it, or the bound nearest to 0."""
        low, high = self.return_bounds
        return min(max(0.0, low), high) if self.unvisited is None else self.unvisited


class Listed(Section):
    """What is counted, labelled, or listed in a file."""

    count: Count | None = None
    labels: Labels | None = None
    file: str | None = None

    @property
    def named(self) -> bool:
        """Return whether there are any."""
        return (self.count, self.labels, self.file) != (None, None, None)


class States(Listed):
    """``[states]``: the public list, or number, of states."""

    ends: Annotated[dict[str, Number] | Labels, BeforeValidator(to_plain)] | None = None
    bins: Bins | None = None
    groups: str | Groups | None = None
    visits: str | ByState | None = None

    @property
    def end_labels(self) -> tuple[str, ...]:
        """Return the labels of rows that end a trajectory, in order; mostly none."""
        return tuple(str(label).strip() for label in self.ends or ())

    @field_serializer("bins")
    def _columns_in_order(self, found: Mapping[str, Any] | None) -> Any:
        """Return the bins as a list: the order of columns counts, and JSON's keys have none."""
        if found is None:
            return None
        return [{"column": column, "edges": list(edges)} for column, edges in found.items()]


def _kind(known: Mapping[str, Any]) -> Any:
    """Return the kind of features that the other keys leave no doubt about."""
    if known.get("file") is not None or known.get("matrix") is not None:
        return "matrix"
    return "tabular" if known.get("size") is None else "aggregate"


class Features(Section):
    """``[features]``: the features Phi."""

    size: Count | None = None
    file: str | None = None
    matrix: Any = None
    kind: Literal["tabular", "aggregate", "matrix"] = Field(default_factory=_kind)
    shrink: StrictBool = False


class Weights(Section):
    """``[weights]``: the weights of the states, w of DP-LSW and rho of DP-LSL."""

    kind: Literal["uniform"] | None = None
    file: str | None = None
    values: ByState | None = None


class Arms(Section):
    """``[arms]``: values by arm, all of them in one release; without labels there are no arms."""

    column: Text = "arm"
    labels: Labels = []

    @property
    def names(self) -> tuple[str, ...]:
        """Return the labels as texts."""
        return tuple(str(label).strip() for label in self.labels)


class Actions(Listed):
    """``[actions]``: a value of every state and action; without a list there are no actions."""

    allowed: str | Annotated[dict[str, list[Label]], BeforeValidator(to_plain)] | None = None


class TargetPolicy(Section):
    """``[policy]``: another policy than the data's, whose value dp-ope releases."""

    target: Any = None  # in any form that ``policies`` reads
    behaviour: Any = None
    clip: Annotated[Number, Field(ge=1, le=MOST_CLIP)] | None = None
    by: Literal["start"] | None = None

    @property
    def is_logged(self) -> bool:
        """Return whether the behaviour's probabilities are a column of the data."""
        return isinstance(self.behaviour, str) and self.behaviour == "column"


def _of_name(name: str, default: Any, otherwise: Any) -> Any:
    """Return a default that one mechanism has, and what stands for it with the others."""
    return Field(default_factory=lambda known: default if known.get("name") == name else otherwise)


class Mechanism(Section):
    """``[mechanism]``: the algorithm that adds the noise, and its keys."""

    name: Literal["dp-ssp", "dp-lsw", "dp-lsl", "dp-ope"] = "dp-ssp"
    stages: Literal["auto", "one"] | tuple[Literal["bounds"]] = _of_name("dp-ssp", "auto", "one")
    stage_shares: dict[Literal["bounds"], Share] = STAGE_SHARES
    calibration: Literal["exact", "nissim", "appendix"] = "exact"
    noise: Literal["whitened", "isotropic"] = _of_name("dp-lsw", "whitened", "isotropic")
    beta: Literal["auto"] | Positive = "auto"
    pseudo_count: Annotated[Number, Field(ge=0, le=1e15)] = 0.0
    ridge: Literal["sqrt"] | Size = "sqrt"
    ridge_scale: Annotated[Number, Field(ge=SMALLEST, le=1e20)] = 100.0
    shrinkage: StrictBool = _of_name("dp-ssp", True, False)

    @property
    def has_ridge(self) -> bool:
        """Return whether a ridge is in use: always with dp-lsl, with dp-ssp where one is given."""
        return self.name == "dp-lsl" or bool(self.given & {"ridge", "ridge_scale"})


class Report(Section):
    """``[report]``: how the release is presented."""

    level: Annotated[Number, Field(gt=0, le=1 - 1e-11)] = 0.95
    outcome: Line | None = None
    unit: Line | None = None


class Columns(Section):
    """``[data]``: the names of the columns, and what their cells are.

    A cell is read by what is declared here and by nothing else: no row decides how another is read.
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
        """Return whether the person's id is the trajectory's too: only person is named."""
        return "person" in self.given and "trajectory" not in self.given


@dataclass(frozen=True, kw_only=True, eq=False)
class Sections:
    """The sections of a study, in the order of the file."""

    study: About
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
        """Return whether another policy's value is released, and none of states."""
        return self.mechanism.name == "dp-ope"

    @property
    def fixed_rewards(self) -> tuple[float, tuple[float, ...]] | None:
        """Return the reward of rows and those of ends; None where a column has them.

        A plain list of ends has rewards of 0 where rows have theirs from the study.
        """
        of_rows, ends = self.values.reward_per_row, self.states.ends
        if isinstance(ends, dict):
            return of_rows or 0.0, tuple(ends.values())
        return None if of_rows is None else (of_rows, (0.0,) * len(ends or ()))

    def bounds_of_fixed(self) -> dict[str, tuple[float, float]]:
        """Return bounds of rewards and returns that follow from fixed rewards, if nobody gave any.

        With the reward c of each row and e of an end, k rows and an end give
        c(1 - gamma^k)/(1 - gamma) + gamma^k e: between c + gamma e (one row) and c/(1 - gamma)
        (very many). Without an end the return is between c and c/(1 - gamma).
        """
        if self.fixed_rewards is None:
            return {}
        values, gamma = self.values, self.values.discount
        c, ends = self.fixed_rewards
        found = {}
        if "rewards" not in values.given:
            found["rewards"] = (min(c, *ends, c), max(c, *ends, c))
        forever = c / (1 - gamma) if gamma < 1 else math.copysign(math.inf, c) if c else 0.0
        returns = [c, forever, *(c + gamma * end for end in ends)]
        if values.returns is None and math.isfinite(forever) and min(returns) < max(returns):
            found["returns"] = (min(returns), max(returns))
        return found


SECTIONS: Mapping[str, type[Section]] = get_type_hints(Sections)


def build_section(section: str, keys: object) -> Section:
    """Return a section with these keys, or raise StudyError with the first thing that is wrong."""
    if not isinstance(keys, Mapping):
        raise refusal("section-invalid", section, format_value(keys))
    if not all(isinstance(name, str) for name in keys):
        raise refusal("key-not-text", section)
    try:
        written = {name: value for name, value in keys.items() if value is not None}
        return SECTIONS[section](**written)
    except ValidationError as problem:
        raise _explain(problem, section) from None


def _explain(problem: ValidationError, section: str) -> StudyError:
    """Return the first error in one line: what, which value, what is allowed."""
    errors = problem.errors(include_url=False)
    first = next((e for e in errors if e["type"] == "extra_forbidden"), errors[0])
    name = str(first["loc"][0])
    if first["type"] == "extra_forbidden":
        known = SECTIONS[section].model_fields
        return refusal("key-unknown", f"[{section}] {name}", "key", meant(name, known))
    allowed = describe_key(section, name)["allowed"]
    if first["type"] == "missing" and len(first["loc"]) == 1:
        return refusal("key-missing", section, name, allowed)
    # Of a key that may be one of several things, one may say what is wrong in words of its own.
    causes = (e.get("ctx", {}).get("error") for e in errors if e["loc"][:1] == first["loc"][:1])
    cause = next((cause for cause in causes if cause is not None and str(cause)), None)
    if cause is None:
        cause = f"= {format_value(first['input'])} is not allowed; it must be {allowed}"
    return refusal("key-invalid", f"[{section}] {name}", cause)
