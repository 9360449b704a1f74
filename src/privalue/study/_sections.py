"""Define the sections of a study file: each key with its meaning, its limits and its default.

The section ``[mechanism]`` is in `_mechanism`, and ``[data]`` in `_columns`. The reference of the
study file is generated from these classes: ``key`` holds the text of each entry.
"""

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    StrictBool,
    WrapValidator,
    field_serializer,
    model_validator,
)

from privalue.core import MOST_TRAJECTORIES
from privalue.study._arrays import by_state, plain_numbers
from privalue.study._section_rules import (
    LARGEST,
    SMALLEST,
    Number,
    Section,
    Whole,
    allowed_values,
    key,
    shown,
)

MOST_STATES = 10_000_000  # the most that was ever tried: a minute, and 4 GB

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


MOST_CLIP = 1e6  # a weight has 2^30 steps below it


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
        "how many trajectories there are (m), where that is public; plans and some rules need it; "
        'with unit = "trajectory" and replace-one it must be what the data has',
        f"a whole number from 1 to {MOST_TRAJECTORIES}",
        None,
        ge=1,
        le=MOST_TRAJECTORIES,
    )


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

    @model_validator(mode="after")
    def _persons(self) -> "Privacy":
        """Refuse a limit for persons if the unit is a trajectory."""
        if self.unit != "person" and self.max_trajectories_per_person is not None:
            raise ValueError(
                'max_trajectories_per_person applies to unit = "person" only; remove it, or '
                "protect whole persons"
            )
        return self


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
            allowed = allowed_values(type(self).model_fields["rewards"])
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
        "a file with the matrix, one row per state; no constant is added, so that values which all "
        "states share need a column of ones. A sparse one is made dense where features overlap, "
        "up to 4,000,000 entries",
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
        'a CSV file or a table as for target, or "column" (logged in the column that [data] '
        "probability names)",
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
