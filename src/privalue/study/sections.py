"""Declare the keys of a study: each with its meaning, its limits, its default and an example.

A section only says what each key may be by itself; what keys need of each other is one table, in
``checks``. The reference of the study file and ``privalue init`` are made from these classes.
"""

import difflib
import math
from collections.abc import Callable, Collection, Mapping
from numbers import Integral, Real
from typing import Annotated, Any, Literal

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
from pydantic.fields import FieldInfo

from privalue.core import MOST_TRAJECTORIES
from privalue.errors import StudyError
from privalue.study.bins import read_bins

# Numbers are multiplied and squared: beyond these, doubles would over- or underflow.
SMALLEST, LARGEST = 1e-30, 1e30
MOST_STATES = 10_000_000  # the most that was ever tried: a minute, and 4 GB
MOST_CLIP = 1e6  # a weight has 2^30 steps below it
STAGE_SHARES = {"bounds": 0.10}
SMOOTH = ("dp-lsw", "dp-lsl")  # the scale of their noise depends on the data
_ANY_COUNT = f"a whole number from 1 to {MOST_STATES}"
_BY_STATE = "a list in the order of the states, or a table by label"


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
    if hasattr(value, "iloc") and type(value.index).__name__ == "RangeIndex":
        return value.to_numpy().tolist()
    if hasattr(value, "iloc"):
        labels = [str(label) for label in value.index]
        if len(set(labels)) < len(labels):
            raise ValueError("has an index that names a state twice; labels are unique")
        rows = value.to_dict("records") if hasattr(value, "columns") else value.tolist()
        value = dict(zip(labels, rows, strict=True))
    if isinstance(value, Mapping):
        return {
            str(label): to_plain(cell) if isinstance(cell, Mapping) else cell
            for label, cell in value.items()
        }
    for convert in ("to_pylist", "to_list", "tolist"):  # of Arrow, Polars and pandas, NumPy
        if callable(getattr(value, convert, None)):
            return getattr(value, convert)()
    return value


def _certain(value: object) -> object:
    """Return a policy with probability 1 where a state has the name of one action.

    What ``privalue.improve`` returns is a policy, too.
    """
    if callable(getattr(value, "probabilities", None)):
        found: Any = value
        value = {state: found.probabilities(state) for state in found.states}
    value = to_plain(value)
    if not isinstance(value, Mapping):
        return value
    return {
        state: {str(action): 1.0}
        if isinstance(action, str | int) and not isinstance(action, bool)
        else action
        for state, action in value.items()
    }


def _each_stage_once(value: object) -> object:
    """Return stages as a tuple; what is no list stays as it is."""
    if not isinstance(value, list | tuple):
        return value
    if not value or len(set(map(str, value))) < len(value):
        raise ValueError(f'= {format_value(value)} must name each stage once; for none write "one"')
    return tuple(value)


def _line(text: str) -> str:
    if not text.strip() or not text.isprintable() or len(text) > 80:
        raise ValueError(f"= {format_value(text)} must be one line of 1 to 80 printable characters")
    return text


Line = Annotated[str, AfterValidator(_line)]
Number = Annotated[float, BeforeValidator(_number)]
Whole = Annotated[int, BeforeValidator(_whole)]
Count = Annotated[Whole, Field(ge=1, le=MOST_STATES)]
Share = Annotated[Number, Field(gt=0, lt=1)]
Text = Annotated[str, Field(min_length=1)]
# A label may be written as a number: one that a row of data could hold, not of thousands of digits.
Label = str | Annotated[int, Field(ge=-(2**63), lt=2**63)]
Labels = Annotated[list[Label], BeforeValidator(to_plain)]
ByState = Annotated[list[Number] | dict[str, Number], BeforeValidator(to_plain)]
ByPair = Annotated[dict[str, dict[str, Number]], BeforeValidator(to_plain)]
Choices = Annotated[
    list[list[Number]] | dict[str, dict[str, Number]], BeforeValidator(_certain)
]  # the probabilities of a policy


def key(
    meaning: str,
    allowed: str,
    default: Any = ...,
    *,
    example: str = "",
    factory: Callable[[dict[str, Any]], Any] | None = None,
    of: tuple[str, ...] = (),
    **limits: Any,
) -> Any:
    """Describe a key of the study.

    Args:
        meaning: what it means, for the reference.
        allowed: what is allowed, for the reference and for errors.
        default: its value if it is left out; without one it must be given.
        example: a TOML value, for ``privalue init``.
        factory: makes the default from the keys before it, in place of ``default``.
        of: the mechanisms that it applies to, if not all.
        limits: what pydantic enforces, as for ``Field``.
    """
    about: Any = {"allowed": allowed, "example": example, "of": list(of)}
    if factory is not None:
        return Field(
            default_factory=factory, description=meaning, json_schema_extra=about, **limits
        )
    return Field(default, description=meaning, json_schema_extra=about, **limits)


def about(field: FieldInfo, what: str) -> Any:
    """Return what a key was described with: "allowed", "example" or "of"."""
    extra = field.json_schema_extra
    assert isinstance(extra, dict)
    return extra[what]


class Section(BaseModel):
    """A group of keys; frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    @property
    def given(self) -> frozenset[str]:
        """Return the keys that somebody wrote down."""
        return frozenset(self.model_fields_set)

    def default(self, name: str) -> Any:
        """Return the value that a key would have if it were left out."""
        field = type(self).model_fields[name]
        return field.get_default(call_default_factory=True, validated_data=vars(self))


class About(Section):
    """``[study]``: the name of the study, and the people it is about."""

    name: Text = key("what the release is called", "a text", "untitled", example='"my-study"')
    dataset: Text | None = key(
        "a name for the people whom the data is about; the ledger keeps one budget for each name",
        "a text",
        None,
        example='"trial-2026"',
    )
    period: Text | None = key(
        "a name for one of several releases of this study, such as a month: with another period "
        "the request is new, and is paid for again",
        "a text",
        None,
        example='"2026-11"',
    )
    trajectories: Whole | None = key(
        "how many trajectories there are (m), where that is public; plans and some rules need it; "
        'with unit = "trajectory" and replace-one it must be what the data has',
        f"a whole number from 1 to {MOST_TRAJECTORIES}",
        None,
        example="10000",
        ge=1,
        le=MOST_TRAJECTORIES,
    )


class Privacy(Section):
    """``[privacy]``: what is promised, and to whom."""

    epsilon: Number = key(
        "the privacy loss: through one unit no outcome becomes more than e^epsilon times as "
        "likely; smaller is more private",
        "a finite number above 0 (from 0.001 to 20 with exact calibration)",
        example="1.0",
        gt=0,
    )
    delta: Number = key(
        "the probability with which the loss may exceed epsilon; far below 1 over the number of "
        "people",
        "a number between 0 and 1, both excluded (0, or left out, with dp-ope and Laplace noise: "
        "then the loss never exceeds it)",
        0.0,
        example="1e-6",
        ge=0,
        lt=1,
    )
    unit: Literal["trajectory", "person"] = key(
        "what is protected: one trajectory, or one person with all of theirs",
        '"trajectory" or "person"',
        example='"trajectory"',
    )
    neighbours: Literal["replace-one", "add-remove"] = key(
        "which change must not show: one unit is replaced, which hides its record; or one is added"
        " or removed, which also hides whether it was there",
        '"replace-one" or "add-remove"',
        "replace-one",
        example='"replace-one"',
    )
    max_trajectories_per_person: Whole | None = key(
        'how many trajectories of one person count at most, with unit = "person"; noise grows with'
        " it",
        "a whole number from 1 to 1000000",
        None,
        example="3",
        ge=1,
        le=1_000_000,
    )
    max_states_per_trajectory: Count | None = key(
        "how many distinct states of one trajectory count at most: the first ones that it visits "
        "(with actions: pairs of state and action); noise grows with it",
        _ANY_COUNT,
        None,
        example="20",
    )


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

    discount: Number = key(
        "gamma: a reward that comes k rows later counts gamma^k times",
        "a number above 0 and at most 1",
        example="0.99",
        gt=0,
        le=1,
    )
    returns: tuple[Number, Number] | None = key(
        "public bounds of a discounted sum of rewards; sums outside are clamped. Noise grows with "
        "the range: give the tightest bounds that you know without looking at the data",
        "two finite numbers [low, high], low < high",
        None,
        example="[0.0, 1.0]",
    )
    rewards: tuple[Number, Number] = key(
        "public bounds of a reward; rewards outside are clamped. If left out, they follow from "
        "returns",
        "two finite numbers [low, high], low <= high",
        factory=implied_rewards,
        example="[0.0, 1.0]",
    )
    unvisited: Number | None = key(
        "the value to use for a state that nobody visits; if left out, 0 or the bound nearest to 0",
        "a number inside the bounds of returns",
        None,
        example="0.0",
    )
    start: str | ByState | None = key(
        "how likely people start in each state, publicly known; the release then also has the "
        "policy's overall value",
        f"a CSV file of state and probability, {_BY_STATE}",
        None,
        example='"start.csv"',
    )
    truncated: Literal["keep", "drop-unit"] | None = key(
        "what happens to trajectories that [data] truncated marks as cut off: they count as if "
        "they had ended there, or their unit is left out",
        '"keep" (also if it is left out) or "drop-unit"',
        None,
        example='"drop-unit"',
    )

    @property
    def return_bounds(self) -> tuple[float, float]:
        """Return [F_lo, F_hi]: as given, or as the bounds of the rewards imply."""
        return self.returns or implied_returns(self.rewards, self.discount)

    @property
    def unvisited_value(self) -> float:
        """Return the value as given, or 0 if the bounds allow it, or the bound nearest to 0."""
        low, high = self.return_bounds
        return min(max(0.0, low), high) if self.unvisited is None else self.unvisited


class States(Section):
    """``[states]``: the public list, or number, of states."""

    count: Count | None = key(
        "how many states there are; their labels are then 0, 1, ..., count - 1",
        _ANY_COUNT,
        None,
        example="40",
    )
    labels: Labels | None = key(
        "the states' labels", "a list of texts", None, example='["stage 1", "stage 2"]'
    )
    file: str | None = key(
        "a CSV file with one label in each row", "a file name", None, example='"states.csv"'
    )
    bins: Annotated[dict[str, tuple[float, ...]], BeforeValidator(read_bins)] | None = key(
        "public edges that cut columns of numbers into states, in place of a column of states; an "
        "edge belongs to the bin above it",
        "a table of columns and their edges",
        None,
        example="{ age = [50, 70], sofa = [5, 10] }",
    )
    groups: str | Annotated[dict[str, Label], BeforeValidator(to_plain)] | None = key(
        "a public map from the labels in the data to these states, applied while reading",
        "a CSV file of raw label and state",
        None,
        example='"groups.csv"',
    )
    visits: str | ByState | ByPair | None = key(
        "a public guess of the probability that a trajectory visits each state (with actions: or "
        "each pair); a wrong guess costs accuracy, never privacy",
        f"a CSV file of state (, action) and probability, {_BY_STATE}",
        None,
        example='"visits.csv"',
    )

    @field_serializer("bins")
    def _columns_in_order(self, found: Mapping[str, Any] | None) -> Any:
        """Return the bins as a list: the order of columns counts, and JSON's keys have none."""
        if found is None:
            return None
        return [{"column": column, "edges": list(edges)} for column, edges in found.items()]


def _kind(known: Mapping[str, Any]) -> str:
    """Return the kind of features that the other keys leave no doubt about."""
    if known.get("file") is not None or known.get("matrix") is not None:
        return "matrix"
    return "tabular" if known.get("size") is None else "aggregate"


class Features(Section):
    """``[features]``: the features Phi."""

    size: Count | None = key(
        "how many adjacent states share one value", _ANY_COUNT, None, example="2"
    )
    file: str | None = key(
        "a file with the matrix, one row per state; no constant is added, so that values which all "
        "states share need a column of ones. A sparse one is made dense where features overlap, "
        "up to 4,000,000 entries",
        "a file ending in .npy, .npz, .csv or .parquet",
        None,
        example='"features.npy"',
    )
    matrix: Any = key("the matrix itself (in Python only)", "an N x d array", None)
    kind: Literal["tabular", "aggregate", "matrix"] = key(
        'how states get values: each its own ("tabular"), adjacent ones share one ("aggregate"), '
        'or a matrix says how ("matrix"); if left out, it follows from the other keys',
        '"tabular", "aggregate" or "matrix"',
        factory=_kind,
        example='"tabular"',
    )
    shrink: StrictBool = key(
        "keep a value for every state, and move those with few visits towards a fit of the "
        "features (dp-ssp only)",
        "true or false",
        False,
        example="false",
    )


class Weights(Section):
    """``[weights]``: the weights of the states, w of DP-LSW and rho of DP-LSL."""

    kind: Literal["uniform"] | None = key(
        "every state has weight 1", '"uniform"', None, example='"uniform"'
    )
    file: str | None = key(
        "weights by state", "a CSV file of state and weight", None, example='"weights.csv"'
    )
    values: ByState | None = key(
        "weights in the order of the states, or by label",
        "a list or a table of finite numbers of at least 0",
        None,
    )


class Arms(Section):
    """``[arms]``: values by arm, all of them in one release; without labels there are no arms."""

    column: Text = key(
        "the column that names the arm, which is the same in all rows of a trajectory (person)",
        "a text",
        "arm",
        example='"arm"',
    )
    labels: Labels = key(
        "the arms; each is compared with the first",
        "a list of two or more texts",
        [],
        example='["control", "treated"]',
    )

    @property
    def names(self) -> tuple[str, ...]:
        """Return the labels as texts."""
        return tuple(str(label).strip() for label in self.labels)


class Actions(Section):
    """``[actions]``: a value of every state and action; without a list there are no actions."""

    count: Count | None = key(
        "how many actions there are, labelled 0, 1, ..., count - 1; every state and action then "
        "has a value",
        _ANY_COUNT,
        None,
        example="9",
    )
    labels: Labels | None = key(
        "the actions' labels", "a list of texts", None, example='["wait", "treat"]'
    )
    file: str | None = key(
        "a CSV file with one label in each row", "a file name", None, example='"actions.csv"'
    )
    allowed: str | dict[str, list[Label]] | None = key(
        "the pairs of state and action that are possible, if not all are; a row with another pair "
        "is invalid",
        "a CSV file of state and action, or a table of each state's actions",
        None,
        example='"allowed.csv"',
    )

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
        example='"policy.csv"',
    )
    behaviour: str | Choices | None = key(
        "the policy that made the data; it is never estimated silently",
        'a CSV file or a table as for target, or "column" (logged in the column that [data] '
        "probability names)",
        None,
        example='"behaviour.csv"',
    )
    clip: Number | None = key(
        "C, the largest weight of a trajectory; noise grows with it, and weight above it is lost",
        f"a number from 1 to {MOST_CLIP:g}",
        None,
        example="10.0",
        ge=1,
        le=MOST_CLIP,
    )
    by: Literal["start"] | None = key(
        "one number for each start state (after [states] groups), in place of one for all",
        '"start"',
        None,
        example='"start"',
    )

    @property
    def is_logged(self) -> bool:
        """Return whether the behaviour's probabilities are a column of the data."""
        return self.behaviour == "column"


def _of_name(ssp: Any, smooth: Any) -> Callable[[Mapping[str, Any]], Any]:
    """Return a default that dp-ssp has, and what stands for it with the other mechanisms."""
    return lambda known: ssp if known.get("name") == "dp-ssp" else smooth


class Mechanism(Section):
    """``[mechanism]``: the algorithm that adds the noise, and its keys."""

    name: Literal["dp-ssp", "dp-lsw", "dp-lsl", "dp-ope"] = key(
        "the algorithm",
        '"dp-ssp", "dp-lsw", "dp-lsl", or "dp-ope" (the value of [policy] target)',
        "dp-ssp",
        example='"dp-ssp"',
    )
    stages: Annotated[
        Literal["auto", "one"] | tuple[Literal["bounds"], ...], BeforeValidator(_each_stage_once)
    ] = key(
        "a small release before the values, which chooses a tighter bound of returns (dp-ssp only)",
        '"auto", "one" (no stage but the values), or ["bounds"]',
        factory=_of_name("auto", "one"),
        example='["bounds"]',
        of=("dp-ssp",),
    )
    stage_shares: dict[Literal["bounds"], Share] = key(
        "the share of the budget that the stage may spend (dp-ssp only)",
        "a share of mu^2 for bounds, above 0 and below 1; the values get the rest",
        STAGE_SHARES,
        example="{ bounds = 0.10 }",
        of=("dp-ssp",),
    )
    calibration: Literal["exact", "nissim", "appendix"] = key(
        "how the constants alpha and beta of the noise are computed",
        '"exact", or for dp-lsw and dp-lsl the paper\'s "nissim" (Lemma 1) or "appendix" '
        "(appendix A)",
        "exact",
        example='"exact"',
        of=("dp-ssp", *SMOOTH),
    )
    noise: Literal["whitened", "isotropic"] = key(
        "the shape of the noise (dp-lsw and dp-lsl only)",
        '"isotropic" (the paper\'s; the only one for dp-lsl) or, for dp-lsw, "whitened"',
        factory=lambda known: "whitened" if known.get("name") == "dp-lsw" else "isotropic",
        example='"whitened"',
        of=SMOOTH,
    )
    beta: Literal["auto"] | Annotated[Number, Field(gt=0)] = key(
        "the smoothness of the bound on sensitivity (dp-lsw and dp-lsl only)",
        '"auto" or a number above 0',
        "auto",
        example='"auto"',
        of=SMOOTH,
    )
    pseudo_count: Number = key(
        "made-up visits that every state gets in addition, each with the value of an unvisited "
        "state (dp-lsw only)",
        "a number from 0 to 1e15",
        0.0,
        example="0.0",
        of=("dp-lsw",),
        ge=0,
        le=1e15,
    )
    ridge: Literal["sqrt"] | Annotated[Number, Field(ge=SMALLEST, le=LARGEST)] = key(
        "the ridge lambda of dp-lsl; with dp-ssp, features are then fitted by LSL instead of LSW",
        '"sqrt" (ridge_scale * sqrt(m)) or a number above 0 (1e-30 to 1e30)',
        "sqrt",
        example='"sqrt"',
        of=("dp-lsl", "dp-ssp"),
    )
    ridge_scale: Number = key(
        'the factor of sqrt(m), with ridge = "sqrt"',
        "a number above 0 (1e-30 to 1e20)",
        100.0,
        example="100.0",
        of=("dp-lsl", "dp-ssp"),
        ge=SMALLEST,
        le=1e20,
    )
    shrinkage: StrictBool = key(
        "move values of rarely visited states towards what the other states suggest, as far as the"
        " noise calls for (dp-ssp only)",
        "true or false",
        factory=_of_name(True, False),
        example="true",
        of=("dp-ssp",),
    )

    @property
    def has_ridge(self) -> bool:
        """Return whether a ridge is in use: always with dp-lsl, with dp-ssp where one is given."""
        return self.name == "dp-lsl" or bool(self.given & {"ridge", "ridge_scale"})


class Report(Section):
    """``[report]``: how the release is presented."""

    level: Number = key(
        "the probability with which each interval holds",
        "a number above 0 and at most 1 - 1e-11, e.g. 0.95",
        0.95,
        example="0.95",
        gt=0,
        le=1 - 1e-11,
    )
    outcome: Line | None = key(
        "what a value is, for headings, sentences and axes",
        "one line of at most 80 characters",
        None,
        example='"days in hospital"',
    )
    unit: Line | None = key(
        "the unit of the outcome (in Python outcome_unit)",
        "one line of at most 80 characters",
        None,
        example='"days"',
    )


def build_section(name: str, model: type[Section], keys: object) -> Section:
    """Return a section with these keys, or raise StudyError with the first thing that is wrong."""
    if not isinstance(keys, Mapping):
        raise StudyError(
            f"[{name}] must be a section of the study, not {format_value(keys)}",
            code="section-invalid",
        )
    try:
        return model(**{name: value for name, value in keys.items() if value is not None})
    except ValidationError as problem:
        message, code = _explain(problem, model)
        raise StudyError(f"[{name}] {message}", code=code) from None
    except TypeError:  # a key that is no text
        raise StudyError(f"[{name}] keys are texts", code="key-unknown") from None


def _explain(problem: ValidationError, model: type[Section]) -> tuple[str, str]:
    """Return the first error in one line, what, which value, what is allowed, and its code."""
    errors = problem.errors(include_url=False)
    first = next((e for e in errors if e["type"] == "extra_forbidden"), errors[0])
    name = str(first["loc"][0])
    if first["type"] == "extra_forbidden":
        return f"{name} is not a key of a study; {meant(name, model.model_fields)}", "key-unknown"
    allowed = about(model.model_fields[name], "allowed")
    if first["type"] == "missing" and len(first["loc"]) == 1:
        return f"{name} is missing; it must be {allowed}", "key-missing"
    # Of a key that may be one of several things, one may say what is wrong in words of its own.
    causes = (e.get("ctx", {}).get("error") for e in errors if e["loc"][:1] == first["loc"][:1])
    cause = next((cause for cause in causes if cause is not None and str(cause)), None)
    if cause is not None:
        return f"{name} {cause}", "key-invalid"
    value = format_value(first["input"])
    return f"{name} = {value} is not allowed; it must be {allowed}", "key-invalid"


def meant(written: str, known: Collection[str]) -> str:
    """Return which of the known names somebody may have meant, or all of them."""
    near = difflib.get_close_matches(written, known, n=1)
    return f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"


def format_value(value: object) -> str:
    """Return a value as a study file has it, cut if it is long, for a message."""
    if isinstance(value, list | tuple):
        text = f"[{', '.join(map(format_value, value[:20]))}]"
    elif isinstance(value, str):
        text = f'"{value[:80]}"'
    else:
        try:
            text = repr(value)
        except ValueError:  # Python writes no number of thousands of digits
            return f"a {type(value).__name__} that is too long to show"
    text = " ".join(text.split())
    return text if len(text) <= 60 else text[:57] + "..."
