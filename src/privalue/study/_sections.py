"""Define the sections of a study file: each key with its meaning, its limits and its default.

The section ``[mechanism]`` is in `_mechanism`. The reference of the study file is generated from
these classes: ``key`` holds the text of each entry.

An error is a ``StudyError`` of one line: what, which value, what is allowed, what to do.
"""

import codecs
import math
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    ValidationError,
    WrapValidator,
    field_serializer,
    model_validator,
)
from pydantic.fields import FieldInfo

from privalue._brief import BriefModel, explained
from privalue.core import MOST_TRAJECTORIES
from privalue.errors import StudyError
from privalue.study._arrays import by_state, plain_numbers
from privalue.study._hints import about_unknown

MOST_STATES = 2**31 - 1


# Numbers are multiplied and squared: beyond these, doubles would over- or underflow.
SMALLEST, LARGEST = 1e-30, 1e30


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


Number = Annotated[float, BeforeValidator(_number)]
Whole = Annotated[int, BeforeValidator(_whole)]
# A label may be written as a number: one that a row of data could hold, not of thousands of digits.
Label = str | Annotated[int, Field(ge=-(2**63), lt=2**63)]
# Numbers of states: in their order, or by label; an array or a Series is as good as a list.
ByState = Annotated[list[Number] | dict[str, Number], WrapValidator(by_state)]
ByPair = dict[str, dict[str, Number]]  # by the labels of state and action


def _certain(value: object) -> object:
    """Return a policy with probability 1 where a state has the name of one action.

    >>> _certain({"ill": "treat", "well": {"wait": 1.0}})
    {'ill': {'treat': 1.0}, 'well': {'wait': 1.0}}
    """
    if not isinstance(value, Mapping):
        return value
    return {
        state: {str(action): 1.0}
        if isinstance(action, str | int) and not isinstance(action, bool)
        else action
        for state, action in value.items()
    }


Choices = Annotated[ByPair, BeforeValidator(_certain)]  # the probabilities of a policy


MOST_PARTS = 100
MOST_CLIP = 1e6  # a weight has 2^30 steps below it


def key(meaning: str, allowed: str, default: Any = ..., **limits: Any) -> Any:
    """Describe a key of the study.

    Args:
        meaning: what it means, for the reference.
        allowed: what is allowed, for the reference and for errors.
        default: its value if it is left out; without one it must be given.
        limits: what pydantic enforces, as for ``Field``.
    """
    return Field(default, description=meaning, json_schema_extra={"allowed": allowed}, **limits)


class Section(BriefModel):
    """A group of keys that are checked when it is built, and frozen."""

    holds_sections: ClassVar[bool] = False
    shown_in_help: ClassVar[tuple[str, ...]] = ("given", "replace")
    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        """Explain every key of a section in its docstring, which ``help`` shows."""
        super().__pydantic_init_subclass__()
        if not cls.holds_sections:
            cls.__doc__ = explained(cls)

    def __init__(self, /, *by_position: Any, **keys: Any) -> None:
        if by_position:
            name, first = type(self).__name__, next(iter(type(self).model_fields))
            raise StudyError(f"{name} takes its keys by name, e.g. pv.{name}({first}=...)")
        try:
            super().__init__(**keys)
        except ValidationError as problem:
            raise StudyError(explain(problem, type(self))) from None

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return the same with some keys changed, all of it checked again."""
        return type(self)(**self._changed(update))

    def replace(self, **changes: Any) -> Self:
        """Return the same with some keys changed; None takes a key back to its default."""
        keys = {name: v for name, v in self._changed(changes).items() if v is not None}
        return type(self)(**keys)

    def _changed(self, update: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return the keys that somebody wrote down, with the changes."""
        return {**{name: getattr(self, name) for name in self.given}, **(update or {})}

    @classmethod
    def model_construct(  # type: ignore[override]  # pydantic's plugin hides the keys
        cls, _fields_set: set[str] | None = None, **values: Any
    ) -> Self:
        """Build a section like the constructor: there is no way around the checks."""
        return cls(**values)

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_"):
            raise StudyError(_is_frozen(name))
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        raise StudyError(_is_frozen(name))

    @classmethod
    def unknown_key(cls, written: str) -> str:
        """Return in one line what is wrong with a key that the section does not have."""
        return f"{written} is not a key of a study; {about_unknown(written, cls.model_fields)}"

    @property
    def given(self) -> frozenset[str]:
        """Return the keys that somebody wrote down."""
        return frozenset(self.model_fields_set)


UNFIXED = 5e-324  # what stands for an epsilon that the ledger has yet to fix; no promise has it


class About(Section):
    """``[study]``: the name of the study, and the people it is about."""

    name: str = key("what the release is called", "a text", "untitled", min_length=1)
    dataset: str | None = key(
        "a name for the people whom the data is about; the ledger keeps one budget for each name",
        "a text",
        None,
        min_length=1,
    )
    period: str | None = key(
        "a name for one of several releases of this study, such as a month: with another period "
        "the request is new, and is paid for again",
        "a text",
        None,
        min_length=1,
    )
    trajectories: Whole | None = key(
        "how many trajectories there are (m), where that is public; plans and some rules need it",
        f"a whole number from 1 to {MOST_TRAJECTORIES}",
        None,
        ge=1,
        le=MOST_TRAJECTORIES,
    )

    part: str | None = key(
        "use only the trajectories (persons) whose id falls into this part, by a public hash: make"
        " a policy from one half, and value it on the other",
        'a text such as "1/2": the first of two parts, of at most 100',
        None,
        pattern=r"^[1-9][0-9]?[0-9]?/[1-9][0-9]?[0-9]?$",
    )

    @model_validator(mode="after")
    def _one_of_its_parts(self) -> "About":
        """Refuse a part that there is not."""
        if self.part is not None:
            which, parts = self.which_part
            if not (which < parts <= MOST_PARTS and parts >= 2):
                raise ValueError(
                    f'part = "{self.part}" is not allowed; it must be a text such as "1/2": the '
                    f"first of two parts, of at most {MOST_PARTS}"
                )
        return self

    @property
    def which_part(self) -> tuple[int, int]:
        """Return which part is meant, from 0, and how many there are; (0, 1) for all people."""
        which, _, parts = (self.part or "1/1").partition("/")
        return int(which) - 1, int(parts)


class Privacy(Section):
    """``[privacy]``: what is promised, and to whom."""

    epsilon: Number = key(
        "the privacy loss: through one unit no outcome becomes more than e^epsilon times as "
        "likely; smaller is more private",
        "a finite number above 0 (from 0.001 to 20 with exact calibration)",
        gt=0,
    )
    delta: Number = key(
        "the probability with which the loss may exceed epsilon; far below 1 over the number of "
        "people",
        "a number between 0 and 1, both excluded (0, or left out, with dp-ope and Laplace noise: "
        "then the loss never exceeds it)",
        0.0,
        ge=0,
        lt=1,
    )
    unit: Literal["trajectory", "person"] = key(
        "what is protected: one trajectory, or one person with all of theirs",
        '"trajectory" or "person"',
    )
    neighbours: Literal["replace-one", "add-remove"] = key(
        "which change must not show: one unit is replaced, which hides its record; or one is added"
        " or removed, which also hides whether it was there",
        '"replace-one" or "add-remove"',
        "replace-one",
    )
    max_trajectories_per_person: Whole | None = key(
        'how many trajectories of one person count at most, with unit = "person"; noise grows with'
        " it",
        "a whole number from 1 to 1000000",
        None,
        ge=1,
        le=1_000_000,
    )
    max_states_per_trajectory: Whole | None = key(
        "how many distinct states of one trajectory count at most: the first ones that it visits "
        "(with actions: pairs of state and action); noise grows with it",
        f"a whole number of at least 1 and at most {MOST_STATES}",
        None,
        ge=1,
        le=MOST_STATES,
    )
    spend: str | None = key(
        "a share of what the ledger has left, in place of epsilon and delta, which the ledger then"
        " computes",
        'a share such as "25%"',
        None,
        pattern=r"^(100|[0-9]{1,2}(\.[0-9]{1,6})?)%$",
    )

    @model_validator(mode="before")
    @classmethod
    def _left_to_the_ledger(cls, keys: Any) -> Any:
        """Let a share stand in place of epsilon and delta."""
        open_ones = {"epsilon": UNFIXED, "delta": UNFIXED}
        if not isinstance(keys, dict) or open_ones.keys() & keys or not keys.keys() <= _KEYS:
            return keys
        if keys.get("spend") is None:
            raise ValueError(
                "epsilon is missing; it must be a finite number above 0, and delta one between 0 "
                'and 1; or a ledger fixes both: spend = "25%" in the study, or '
                "spend='25%' beside it, takes a share of what is left there"
            )
        return {**keys, **open_ones}

    def __getattribute__(self, name: str) -> Any:
        """Return an attribute; there is no epsilon and no delta before the ledger fixed them."""
        found = super().__getattribute__(name)
        if name in {"epsilon", "delta"} and found == UNFIXED:
            raise StudyError(
                f'[privacy] {name} is not fixed: spend = "{self.spend}" leaves epsilon and delta '
                "to the ledger, and is_fixed says so; a release of it has both"
            )
        return found

    def __repr_args__(self) -> Any:
        """Return what repr shows: not what stands for what the ledger has yet to fix."""
        unfixed = set() if self.is_fixed else {"epsilon", "delta"}
        return [(name, value) for name, value in super().__repr_args__() if name not in unfixed]

    @property
    def is_fixed(self) -> bool:
        """Return whether epsilon and delta are known: a share is fixed by the ledger alone."""
        return bool(vars(self)["epsilon"] != UNFIXED)

    @property
    def given(self) -> frozenset[str]:
        """Return the keys that somebody wrote down."""
        return super().given - (frozenset() if self.is_fixed else {"epsilon", "delta"})

    @model_validator(mode="after")
    def _persons(self) -> "Privacy":
        """Refuse a limit for persons if the unit is a trajectory."""
        if self.unit != "person" and self.max_trajectories_per_person is not None:
            raise ValueError(
                'max_trajectories_per_person applies to unit = "person" only; remove it, or '
                "protect whole persons"
            )
        return self


_KEYS = frozenset(Privacy.model_fields)  # of a section that has others, those are what is wrong


class Values(Section):
    """``[values]``: what is valued, and its public bounds."""

    discount: Number = key(
        "gamma: a reward that comes k rows later counts gamma^k times",
        "a number above 0 and at most 1",
        gt=0,
        le=1,
    )
    rewards: tuple[Number, Number] = key(
        "public bounds of a reward; rewards outside are clamped. If left out, they follow from "
        "returns",
        "two finite numbers [low, high], low <= high",
        (),
    )
    returns: tuple[Number, Number] | None = key(
        "public bounds of a discounted sum of rewards; sums outside are clamped. Noise grows with "
        "the range: give the tightest bounds that you know without looking at the data",
        "two finite numbers [low, high], low < high",
        None,
    )
    unvisited: Number | None = key(
        "the value to use for a state that nobody visits; if left out, 0 or the bound nearest to 0",
        "a number inside the bounds of returns",
        None,
    )
    start: str | ByState | None = key(
        "how likely people start in each state, publicly known; the release then also has the "
        "policy's overall value",
        "a CSV file of state and probability, a list in the order of the states, or a table by "
        "label",
        None,
    )
    truncated: Literal["keep", "drop-unit"] | None = key(
        "what happens to trajectories that [data] truncated marks as cut off: they count as if "
        "they had ended there, or their unit is left out",
        '"keep" (also if it is left out) or "drop-unit"',
        None,
    )

    @model_validator(mode="after")
    def _bounds_in_order(self) -> "Values":
        """Refuse bounds that are in the wrong order, missing, or too extreme to compute with."""
        if self.returns is not None and not self.returns[0] < self.returns[1]:
            raise ValueError(
                f"returns = {list(self.returns)}: the lower bound must come first, and be below "
                "the upper one"
            )
        self._complete_rewards()
        if self.rewards[0] > self.rewards[1]:
            raise ValueError(f"rewards = {list(self.rewards)}: the lower bound must come first")
        if self.discount == 1 and self.returns is None:
            raise ValueError(
                "discount = 1 needs the key returns: without discount, rewards alone do not "
                "bound a return; give returns = [low, high]"
            )
        low, high = self.return_bounds
        if not (high - low >= SMALLEST and max(-low, high) <= LARGEST):
            raise ValueError(
                f"returns range over [{low}, {high}]: the range must be at least {SMALLEST:g} "
                f"wide and within {LARGEST:g}; change rewards or give returns = [low, high]"
            )
        if self.unvisited is not None and not low <= self.unvisited <= high:
            raise ValueError(f"unvisited = {self.unvisited} must lie inside [{low}, {high}]")
        return self

    def _complete_rewards(self) -> None:
        """Bound rewards by the returns, where nobody did.

        A return is a reward and gamma times the return after it, G = r + gamma G', or the reward
        alone at the end. So if all returns lie in [F_lo, F_hi], then every reward lies between
        min(F_lo, F_lo - gamma F_hi) and max(F_hi, F_hi - gamma F_lo).
        """
        if "rewards" in self.given:
            return
        if self.returns is None:
            allowed = _allowed(type(self).model_fields["rewards"])
            raise ValueError(f"rewards is missing; it must be {allowed}; or give returns")
        low, high = self.returns
        bounds = min(low, low - self.discount * high), max(high, high - self.discount * low)
        self.__dict__["rewards"] = bounds  # not as a key that somebody wrote

    @property
    def return_bounds(self) -> tuple[float, float]:
        """Return [F_lo, F_hi]: as given, or as the bounds of the rewards imply (math: section 4).

        A trajectory may be one row long, so the bounds include the reward itself as well as its
        infinite discounted sum, and need not include 0.
        """
        if self.returns is not None:
            return self.returns
        return implied_returns(self.rewards, self.discount)

    @property
    def unvisited_value(self) -> float:
        """Return the value as given, or 0 if the bounds allow it, or the bound nearest to 0."""
        low, high = self.return_bounds
        return min(max(0.0, low), high) if self.unvisited is None else self.unvisited


def implied_returns(rewards: tuple[float, float], discount: float) -> tuple[float, float]:
    """Return the bounds of returns that follow from rewards; infinite ones without a discount."""
    low, high = rewards
    if discount == 1:
        return -math.inf, math.inf
    forever = 1.0 / (1.0 - discount)
    return min(low, low * forever), max(high, high * forever)


def _checked_bins(value: Any) -> Any:
    """Return the edges of each column, or raise ValueError with what is wrong."""
    from privalue.study._bins import checked_bins  # noqa: PLC0415 - it makes a section

    return checked_bins(value)


class States(Section):
    """``[states]``: the public list, or number, of states."""

    count: Whole | None = key(
        "how many states there are; their labels are then 0, 1, ..., count - 1",
        f"a whole number from 1 to {MOST_STATES}",
        None,
        ge=1,
        le=MOST_STATES,
    )
    labels: list[Label] | None = key("the states' labels", "a list of texts", None)
    file: str | None = key("a CSV file with one label in each row", "a file name", None)
    bins: Annotated[dict[str, tuple[float, ...]], BeforeValidator(_checked_bins)] | None = key(
        "public edges that cut columns of numbers into states, in place of a column of states; an "
        "edge belongs to the bin above it",
        "a table of columns and their edges",
        None,
    )
    groups: str | Annotated[dict[str, Label], BeforeValidator(plain_numbers)] | None = key(
        "a public map from the labels in the data to these states, applied while reading",
        "a CSV file of raw label and state",
        None,
    )
    visits: str | ByState | ByPair | None = key(
        "a public guess of the probability that a trajectory visits each state (with actions: or "
        "each pair); a wrong guess costs accuracy, never privacy",
        "a CSV file of state (, action) and probability, a list in the order of the states, or a "
        "table by label",
        None,
    )

    @model_validator(mode="after")
    def _one_way_to_name_them(self) -> "States":
        """Refuse none or several of the keys that name the states."""
        if len(self.given & {"count", "labels", "file", "bins"}) != 1:
            raise ValueError("give exactly one of the keys count, labels, file and bins")
        if self.bins is not None and self.groups is not None:
            raise ValueError("groups maps labels, and bins are of numbers; remove one of the two")
        return self

    @field_serializer("bins")
    def _columns_in_order(self, found: Mapping[str, Any] | None) -> Any:
        """Return the bins as a list: the order of columns counts, and JSON's keys have none."""
        if found is None:
            return None
        return [{"column": column, "edges": list(edges)} for column, edges in found.items()]


class Features(Section):
    """``[features]``: the features Phi."""

    kind: Literal["tabular", "aggregate", "matrix"] = key(
        'how states get values: each its own ("tabular"), adjacent ones share one ("aggregate"), '
        'or a matrix says how ("matrix"); if left out, it follows from the other keys',
        '"tabular", "aggregate" or "matrix"',
        "tabular",
    )
    size: Whole | None = key(
        "how many adjacent states share one value",
        f"a whole number of at least 1 and at most {MOST_STATES}",
        None,
        ge=1,
        le=MOST_STATES,
    )
    file: str | None = key(
        "a file with the matrix, one row per state",
        "a file ending in .npy, .npz, .csv or .parquet",
        None,
    )
    matrix: Any = key("the matrix itself (in Python only)", "an N x d array", None)
    shrink: StrictBool = key(
        "keep a value for every state, and move those with few visits towards a fit of the "
        "features (dp-ssp only)",
        "true or false",
        False,
    )

    @model_validator(mode="before")
    @classmethod
    def _kind_told(cls, keys: Any) -> Any:
        """Add the kind that the other keys leave no doubt about."""
        if isinstance(keys, dict) and "kind" not in keys:
            if {"file", "matrix"} & keys.keys():
                return {"kind": "matrix", **keys}
            if "size" in keys:
                return {"kind": "aggregate", **keys}
        return keys

    @model_validator(mode="after")
    def _fits_its_kind(self) -> "Features":
        """Refuse a key that the chosen kind does not use, and require the one that it needs."""
        needed = {"tabular": set(), "aggregate": {"size"}, "matrix": {"file", "matrix"}}[self.kind]
        surplus = self.given - {"kind", "shrink"} - needed
        if surplus:
            raise ValueError(
                f'kind = "{self.kind}" does not use the key {sorted(surplus)[0]}; remove it'
            )
        if self.kind == "aggregate" and self.size is None:
            raise ValueError('kind = "aggregate" needs the key size, e.g. size = 2')
        if self.kind == "matrix" and (self.file is None) == (self.matrix is None):
            raise ValueError('kind = "matrix" needs the key file, e.g. file = "features.npy"')
        if self.shrink and self.kind == "tabular":
            raise ValueError(
                'shrink = true needs features to shrink towards: kind = "matrix" with a file, or '
                '"aggregate" with a size'
            )
        return self


class Weights(Section):
    """``[weights]``: the weights of the states, w of DP-LSW and rho of DP-LSL."""

    kind: Literal["uniform"] | None = key("every state has weight 1", '"uniform"', None)
    file: str | None = key("weights by state", "a CSV file of state and weight", None)
    values: ByState | None = key(
        "weights in the order of the states, or by label",
        "a list or a table of finite numbers of at least 0",
        None,
    )

    @model_validator(mode="after")
    def _one_kind(self) -> "Weights":
        """Refuse more than one way to give the weights."""
        if len(self.given) > 1:
            raise ValueError("give exactly one of the keys kind, file and values")
        return self


class Arms(Section):
    """``[arms]``: values by arm, all of them in one release; without labels there are no arms."""

    column: str = key(
        "the column that names the arm, which is the same in all rows of a trajectory (person)",
        "a text",
        "arm",
        min_length=1,
    )
    labels: list[Label] = key(
        "the arms; each is compared with the first",
        "a list of two or more texts",
        [],
    )

    @model_validator(mode="after")
    def _several(self) -> "Arms":
        """Refuse fewer than two arms, and labels that are empty, not texts or alike."""
        names = self.names
        if "labels" in self.given or "column" in self.given:
            if len(names) < 2 or "" in names:
                raise ValueError(
                    f"labels = {shown(self.labels)}: at least two arms are needed, none empty"
                )
            if len(set(names)) < len(names) or any("\0" in name for name in names):
                raise ValueError(
                    f"labels = {shown(self.labels)}: each arm needs a label of its own"
                )
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """Return the labels as texts."""
        return tuple(str(label).strip() for label in self.labels)


class Actions(Section):
    """``[actions]``: a value of every state and action; without a list there are no actions."""

    count: Whole | None = key(
        "how many actions there are, labelled 0, 1, ..., count - 1; every state and action then "
        "has a value",
        f"a whole number from 1 to {MOST_STATES}",
        None,
        ge=1,
        le=MOST_STATES,
    )
    labels: list[Label] | None = key("the actions' labels", "a list of texts", None)
    file: str | None = key("a CSV file with one label in each row", "a file name", None)
    allowed: str | dict[str, list[Label]] | None = key(
        "the pairs of state and action that are possible, if not all are; a row with another pair "
        "is invalid",
        "a CSV file of state and action, or a table of each state's actions",
        None,
    )

    @model_validator(mode="after")
    def _one_way_to_name_them(self) -> "Actions":
        """Refuse several of the keys that name the actions, and pairs of none."""
        ways = [way for way in (self.count, self.labels, self.file) if way is not None]
        if len(ways) > 1 or (self.allowed is not None and not ways):
            raise ValueError("give exactly one of the keys count, labels and file")
        return self

    @property
    def named(self) -> bool:
        """Return whether there are actions."""
        return (self.count, self.labels, self.file) != (None, None, None)


class TargetPolicy(Section):
    """``[policy]``: another policy than the data's, whose value dp-ope releases."""

    target: str | Choices | None = key(
        "the policy to value: the public probability of each action in every state",
        "a CSV file of state, action and probability, or a table by state and action; the "
        "probabilities of a state sum to 1; without probabilities, one action for each state",
        None,
    )
    behaviour: str | Choices | None = key(
        "the policy that made the data; it is never estimated silently",
        'a CSV file or a table as for target, "column" (logged in the column that [data] '
        "probability names), or the release.json of a release with actions (biased where people "
        "return to a state)",
        None,
    )
    clip: Number | None = key(
        "C, the largest weight of a trajectory; noise grows with it, and weight above it is lost",
        f"a number from 1 to {MOST_CLIP:g}",
        None,
        ge=1,
        le=MOST_CLIP,
    )
    by: Literal["start"] | None = key(
        "one number for each start state (after [states] groups), in place of one for all",
        '"start"',
        None,
    )

    @property
    def is_logged(self) -> bool:
        """Return whether the behaviour's probabilities are a column of the data."""
        return self.behaviour == "column"


class Report(Section):
    """``[report]``: how the release is presented."""

    level: Number = key(
        "the probability with which each interval holds",
        "a number above 0 and at most 1 - 1e-11, e.g. 0.95",
        0.95,
        gt=0,
        le=1 - 1e-11,
    )


class Columns(Section):
    """``[data]``: the names of the columns, and what their cells are.

    A cell is read by what is declared here and by nothing else: no row decides how another is read.
    """

    trajectory: str = key("the column of the trajectory's id", "a text", "trajectory", min_length=1)
    step: str = key("the column that orders a trajectory's rows", "a text", "step", min_length=1)
    state: str = key("the column of the state", "a text", "state", min_length=1)
    reward: str = key("the column of the reward", "a text", "reward", min_length=1)
    action: str = key("the column of the action, with [actions]", "a text", "action", min_length=1)
    probability: str = key(
        "the column of the behaviour's probability of the action, with [policy] behaviour = "
        '"column"',
        "a text",
        "probability",
        min_length=1,
    )
    person: str = key(
        "the column of the person's id; if person is named and trajectory is not, each person has "
        "one trajectory",
        "a text",
        "person",
        min_length=1,
    )
    id_type: Literal["text", "integer"] = key(
        "how ids are read: as texts (a number becomes its usual text), or as whole numbers",
        '"text" or "integer"',
        "text",
    )
    step_type: Literal["integer", "number", "date", "datetime"] = key(
        "how steps are read",
        '"integer", "number", "date" or "datetime"',
        "integer",
    )
    step_format: str | None = key(
        "how dates or times are written in text, if not as 2026-11-15 or 2026-11-15T08:30",
        'a text of strptime codes, e.g. "%d.%m.%Y"',
        None,
        min_length=2,
    )
    invalid: Literal["refuse", "drop-unit"] = key(
        "what happens if a row cannot be read: the run ends with an error, or the whole trajectory "
        "(person) is left out",
        '"refuse" or "drop-unit"',
        "refuse",
    )
    missing: list[str] = key(
        "which texts mean that a state, an action, a reward or a step is missing",
        "a list of texts",
        [""],
    )
    missing_rows: Literal["invalid", "drop-row"] = key(
        "what happens to a row whose state, action or reward is missing: it is invalid, or it "
        "alone is left out, and its reward then counts as 0",
        '"invalid" or "drop-row"',
        "invalid",
    )
    decimal: Literal[".", ","] = key("the decimal mark of numbers in text", '"." or ","', ".")
    delimiter: str | None = key(
        "the character that separates the cells of a CSV file; if left out, the heading shows it",
        'one character, e.g. ";"',
        None,
        min_length=1,
        max_length=1,
    )
    encoding: str = key(
        "the encoding of CSV files",
        '"utf-8", "utf-16", or an encoding of one byte per character, e.g. "latin-1" or "cp1252"',
        "utf-8",
    )
    sorted: StrictBool = key(
        "whether rows are in order of person, trajectory and step; this is checked while reading",
        "true or false",
        False,
    )
    truncated: str | None = key(
        "the column that marks trajectories as cut off: one row with true, yes or 1 is enough, "
        "other rows have false, no or 0; see [values] truncated",
        "a text",
        None,
        min_length=1,
    )

    @model_validator(mode="after")
    def _readable(self) -> "Columns":
        """Refuse declarations that contradict each other, or with which rows depend on others."""
        names = [self.trajectory, self.step, self.state, self.reward, self.person]
        names += [] if self.truncated is None else [self.truncated]
        if len(set(names)) < len(names):
            raise ValueError("two keys name the same column; each needs its own")
        if self.step_format is not None and self.step_type not in {"date", "datetime"}:
            raise ValueError(
                f'step_format applies to step_type = "date" or "datetime", and step_type = '
                f'"{self.step_type}"; change step_type, or remove step_format'
            )
        if self.delimiter is not None and (
            not self.delimiter.isascii() or self.delimiter in '"\r\n' or self.delimiter.isalnum()
        ):
            raise ValueError(
                f"delimiter = {self.delimiter!r} cannot separate cells; it is one character that "
                'is neither a letter, a digit nor a quote, e.g. ";"'
            )
        if not one_character_at_a_time(self.encoding):
            raise ValueError(
                f'encoding = "{self.encoding}" is not read; it must be "utf-8", "utf-16", or an '
                'encoding of one byte a character, e.g. "latin-1" or "cp1252"'
            )
        if self.sorted and self.invalid == "drop-unit":
            raise ValueError(
                'sorted = true goes with invalid = "refuse" only: rows out of order are an error '
                'of all rows, and with "drop-unit" nothing may be one; remove sorted'
            )
        return self

    @property
    def drops(self) -> bool:
        """Return whether units or rows may be left out, so that their number is private."""
        return self.invalid == "drop-unit" or self.missing_rows == "drop-row"

    @property
    def one_trajectory_per_person(self) -> bool:
        """Return whether the person's id is the trajectory's too: only person is named."""
        return "person" in self.given and "trajectory" not in self.given


def one_character_at_a_time(encoding: str) -> bool:
    """Return whether no character of one row can change how the next row is read.

    This is true of UTF-8 and UTF-16, and of encodings with one byte for each character that agree
    with ASCII, so that ends of lines are where they seem to be.
    """
    try:
        name = codecs.lookup(encoding).name
    except (LookupError, ValueError):
        return False
    if name in {"utf-8", "utf-8-sig", "utf-16"}:
        return True
    if "escape" in name:
        return False
    ascii_bytes = bytes(range(128))
    try:  # a table of 256 characters, with the line's end where ASCII has it
        one_each = len(bytes(range(256)).decode(name, errors="replace")) == 256
        return one_each and ascii_bytes.decode(name) == ascii_bytes.decode("ascii")
    except (LookupError, ValueError, TypeError):
        return False


def explain(problem: ValidationError, model: type["Section"]) -> str:
    """Return the first error in one line: what, which value, what is allowed, what to do.

    Args:
        problem: what pydantic found.
        model: the section, or the study, that was being built.
    """
    errors = problem.errors(include_url=False)
    first = next((e for e in errors if e["type"] == "extra_forbidden"), errors[0])
    key = str(first["loc"][0]) if first["loc"] else ""
    whole = model.holds_sections
    heading = f"[{key}]" if whole else key
    if first["type"] == "extra_forbidden":
        return model.unknown_key(key)
    # Of a key that may be one of several things, one may say what is wrong in words of its own.
    causes = (e.get("ctx", {}).get("error") for e in errors if e["loc"][:1] == first["loc"][:1])
    cause = next((said for said in causes if said is not None and str(said)), None)
    if cause is not None:  # a check that spans keys, or a section's own complaint
        return f"{heading} {cause}" if key else str(cause)
    field = model.model_fields[key]
    if whole:
        if first["type"] == "missing":
            section: Any = field.annotation
            keys = [name for name, entry in section.model_fields.items() if entry.is_required()]
            needed = ", ".join(keys or ["count, labels, file or bins"])
            return f"{heading} is missing; it needs {needed}"
        return f"{heading} must be a section of the study, not {shown(first['input'])}"
    allowed = _allowed(field)
    if first["type"] == "missing" and len(first["loc"]) == 1:
        return f"{heading} is missing; it must be {allowed}"
    return f"{heading} = {shown(first['input'])} is not allowed; it must be {allowed}"


def _allowed(field: FieldInfo) -> str:
    """Return what a key may be, in words."""
    extra = field.json_schema_extra
    return str(extra["allowed"]) if isinstance(extra, dict) else ""


def _is_frozen(name: str) -> str:
    """Return what to do instead of changing a key in place."""
    return f"{name} cannot be changed: a study is frozen; make another one with replace({name}=...)"


def shown(value: object) -> str:
    """Return a value as an error shows it, cut if it is long."""
    try:
        text = f'"{value}"' if isinstance(value, str) else repr(value)
    except (ValueError, RecursionError):  # Python writes no number of thousands of digits
        return f"a {type(value).__name__} that is too long to show"
    text = " ".join(text.split()) if "\n" in text else text
    return text if len(text) <= 60 else text[:57] + "..."
