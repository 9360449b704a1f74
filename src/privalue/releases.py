"""Define releases: a header and a few tables of columns, stored as ``release.json``.

A release holds the public study, its guarantee, the mechanism's output and its post-processing. It
never holds exact counts, sigma of smooth sensitivity, psi or anything else that depends on the data
other than through that output. It is written whole or not at all, and never overwritten. Its JSON
schema, ``docs/release.schema.json``, is generated from this module.

The module is not called ``release``, since ``privalue.release`` is the function.
"""

import difflib
import hashlib
import math
from collections import namedtuple
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, Self, TypeVar

import numpy as np
import pyarrow as pa
import pydantic_core
from numpy.typing import NDArray
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    ValidationError,
    WithJsonSchema,
)

from privalue.errors import DataError, NotReleasedError, UnknownLabelError, UsageError
from privalue.ledger.files import atomic_write, read_whole

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

FILE_NAME = "release.json"
NOT_PRIVATE = "NOT PRIVATE"  # the mark of seeded experiments, in every output
FLAG_SEPARATOR = "; "  # separates the flags of a row
KEYS = ("arm", "start", "state", "action")
_MAX_BYTES = 1 << 36  # bytes of a release: there may be very many states
_MAX_LABELS_SEARCHED = 5_000  # for labels similar to an unknown one
_REASONS = {  # why a column is absent, by the beginning of its name
    **dict.fromkeys(("low", "high", "total"), "only dp-ssp and dp-ope release intervals"),
    "supported": "only dp-ssp and dp-ope release it",
}
Label = str | int | None


# Tables: the only list of the columns of a value


class Row:
    """One row of a table: a named tuple of the released columns.

    All possible columns are listed here, with their descriptions, in the order of files.
    """

    arm: Annotated[str, "the arm, if the study has arms"]
    against: Annotated[str, "of a difference: the arm whose value is subtracted"]
    start: Annotated[str, "of dp-ope by start: the state that trajectories start in"]
    state: Annotated[str, "null in the difference of overall values"]
    action: Annotated[str, "if the study has actions; the value is then Q"]
    value: Annotated[float, "inside the bounds of returns"]
    total_low: Annotated[float, "confidence interval: sampling error and privacy noise"]
    total_high: Annotated[float, ""]
    low: Annotated[float, "interval of privacy noise alone: for the value without noise"]
    high: Annotated[float, ""]
    total_band_low: Annotated[float, "simultaneous total interval, over all rows"]
    total_band_high: Annotated[float, ""]
    kept_mass: Annotated[float, "of dp-ope: the share of the target's weight after clipping"]
    kept_low: Annotated[float, "confidence interval: sampling error and privacy noise"]
    kept_high: Annotated[float, ""]
    largest_clipping_bias: Annotated[float, "R (1 - kept_low), R the range; R if kept_low > 1"]
    refuted: Annotated[bool, "kept mass above 1, simultaneously over rows: wrong behaviour"]
    supported: Annotated[bool, "dp-ssp: mostly from its own visits; dp-ope: little weight is lost"]
    flags: Annotated[str, "warnings, separated by '; '; empty if there are none"]


COLUMNS = {name: kind.__origin__ for name, kind in Row.__annotations__.items()}  # name: type


def _read_numbers(cells: Any, missing: Any = False) -> NDArray[np.float64]:
    """Return finite numbers as a read-only array; null is allowed where ``missing`` is true."""
    numbers = np.array(cells, dtype=np.float64)
    if numbers.ndim != 1 or not (np.isfinite(numbers) | missing).all():
        raise ValueError("it must be a list of finite numbers")
    numbers.setflags(write=False)
    return numbers


def _read_column(name: str, cells: Any, missing: Any) -> NDArray[Any]:
    """Return a column as a read-only array of its type, or raise ValueError."""
    kind = COLUMNS[name]
    try:
        if kind is float:
            return _read_numbers(cells, missing)
        column = np.array(cells, dtype=object)
        if not {*map(type, column[~missing].tolist())} <= {kind}:
            raise ValueError(f"all of them must be {kind.__name__}")
    except (ValueError, TypeError) as problem:
        raise ValueError(f"{name}: {problem}") from None
    column = column if kind is str else column.astype(bool)
    column.setflags(write=False)
    return column


def _not_released(name: str) -> NotReleasedError:
    why = next((why for key, why in _REASONS.items() if name.startswith(key)), "see to_pandas()")
    return NotReleasedError(f"there is no {name} in this release: {why}")


@cache
def _row_type(names: tuple[str, ...]) -> Any:
    """Return the type of a table's rows, which explains why a column is absent."""

    def __getattr__(self: object, name: str) -> Any:  # noqa: N807
        raise _not_released(name) if name in COLUMNS else AttributeError(f"no column {name!r}")

    bases = (namedtuple("Row", names), Row)
    return type("Row", bases, {"__slots__": (), "__getattr__": __getattr__})


Number = TypeVar("Number", bound=np.generic)


class Column(Generic[Number]):
    """A column as an attribute, which raises NotReleasedError if it is absent."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, table: Any, owner: type | None = None) -> NDArray[Number]:
        if table is None:  # an attribute of the class
            return self  # type: ignore[return-value]
        column: NDArray[Number] | None = table.column(self.name)
        if column is None:
            raise _not_released(self.name)
        return column


class Tabular:
    """The base of objects that convert to a table."""

    def to_arrow(self) -> pa.Table:
        """Return the table as an Arrow table, with its guarantee as metadata."""
        raise NotImplementedError

    def to_pandas(self) -> "pd.DataFrame":
        """Return the table as a pandas DataFrame; ``attrs`` has the guarantee."""
        table = self.to_arrow()
        try:
            frame: pd.DataFrame = table.to_pandas()
        except ImportError:
            raise UsageError("frames need pandas: pip install pandas", code="no-pandas") from None
        metadata = table.schema.metadata or {}
        frame.attrs.update({key.decode(): value.decode() for key, value in metadata.items()})
        return frame

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the table as an Arrow stream: pyarrow, Polars and DuckDB read it directly."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)


class Columns(Tabular):
    """The most used columns as attributes: read-only arrays."""

    value = Column[np.float64]()
    total_low = Column[np.float64]()
    total_high = Column[np.float64]()
    low = Column[np.float64]()
    high = Column[np.float64]()
    total_band_low = Column[np.float64]()
    total_band_high = Column[np.float64]()
    supported = Column[np.bool_]()
    flags = Column[np.object_]()


def _to_key(label: object) -> tuple[str | None, ...]:
    parts = label if isinstance(label, tuple) else (label,)
    return tuple(None if part is None else str(part) for part in parts)


class ValueTable(Columns):
    """Values by state (by arm, by action, or one alone): one array per column, read-only.

    >>> table = ValueTable({"state": ["ill", "well"], "value": [0.25, 1.0]})
    >>> table["well"], len(table), table.value * 2
    (Row(state='well', value=1.0), 2, array([0.5, 2. ]))
    """

    def __init__(self, columns: Mapping[str, Any]) -> None:
        unknown = [name for name in columns if name not in COLUMNS]
        if unknown or "value" not in columns:
            raise ValueError(f"unknown column {unknown[0]!r}" if unknown else "there is no value")
        if len({len(column) for column in columns.values()}) > 1:
            raise ValueError("columns have different lengths")
        missing = np.zeros(len(columns["value"]), dtype=bool)
        if "against" in columns and "state" in columns:  # overall values have no state and no band
            missing = np.array([state is None for state in columns["state"]], dtype=bool)
        self.columns = {
            name: _read_column(name, columns[name], missing) for name in COLUMNS if name in columns
        }
        self.keys = tuple(name for name in KEYS if name in columns)

    def __len__(self) -> int:
        return len(self.columns["value"])

    def __iter__(self) -> Iterator[Row]:
        cells = (column.tolist() for column in self.columns.values())
        return map(_row_type(tuple(self.columns)), *cells)

    def __repr__(self) -> str:
        return f"ValueTable({len(self)} rows of {', '.join(self.columns)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ValueTable) and self.to_arrow().equals(other.to_arrow())

    __hash__ = None  # type: ignore[assignment]

    def __getitem__(self, label: Label | tuple[Label, ...]) -> Row:
        """Return a row by its label: a state, a start or an arm, or a pair of labels.

        Pairs are (arm, state), and with actions (state, action).

        Raises:
            UnknownLabelError: there is no such row; the message has similar labels.
        """
        if label not in self:
            raise UnknownLabelError(self._explain(label))
        return self.row(self._positions[_to_key(label)])

    def __contains__(self, label: object) -> bool:
        return _to_key(label) in self._positions

    @cached_property
    def _positions(self) -> dict[tuple[str | None, ...], int]:
        labels = zip(*(self.columns[name].tolist() for name in self.keys), strict=True)
        return {label: position for position, label in enumerate(labels)}

    def _explain(self, label: object) -> str:
        """Return the message for an unknown label, with similar ones."""
        if not self.keys:
            return f"[{label!r}]: this table has one overall value, and no labels; use row(0)"
        labels = [repr(key[0] if len(key) == 1 else key) for key in self._positions]
        near = difflib.get_close_matches(repr(label), labels[:_MAX_LABELS_SEARCHED], n=3)
        names = ", ".join(near or labels[:5])
        return f"there is no {' and '.join(self.keys)} {label!r}; did you mean {names}?"

    def row(self, position: int) -> Row:
        """Return the row at a position."""
        cells = (column.item(position) for column in self.columns.values())
        row: Row = _row_type(tuple(self.columns))(*cells)
        return row

    def column(self, name: str) -> NDArray[Any] | None:
        """Return a column, or None if it is absent."""
        return self.columns.get(name)

    def to_arrow(self) -> pa.Table:
        """Return the columns as an Arrow table."""
        columns = self.columns.items()
        return pa.table({name: pa.array(cells, from_pandas=True) for name, cells in columns})


_JSON_TYPES = {str: ["string", "null"], float: ["number", "null"], bool: ["boolean"]}


def _column_schema(kind: Any) -> dict[str, Any]:
    items = {"type": _JSON_TYPES[kind.__origin__]}
    return {"type": "array", "items": items, "description": kind.__metadata__[0]}


_TABLE_SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["value"],
    "properties": {name: _column_schema(kind) for name, kind in Row.__annotations__.items()},
}
Table = Annotated[
    ValueTable,
    PlainValidator(lambda item: item if isinstance(item, ValueTable) else ValueTable(item)),
    WithJsonSchema(_TABLE_SCHEMA),
]
Numbers = Annotated[
    NDArray[np.float64],
    PlainValidator(_read_numbers),
    PlainSerializer(lambda numbers: numbers.tolist()),
    WithJsonSchema({"type": "array", "items": {"type": "number"}}),
]


# Parts of a release; their docstrings describe the fields, also in the JSON schema

Positive = Annotated[float, Field(gt=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Hash = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
WarningCode = Literal["useless", "large-delta"]


class Part(BaseModel):
    """The base of all parts: frozen, without unknown fields."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    def __eq__(self, other: object) -> bool:
        """Return whether all fields agree, arrays included."""
        return type(self) is type(other) and self.model_dump() == other.model_dump()

    __hash__ = None  # type: ignore[assignment]


class Guarantee(Part):
    """The guarantee of differential privacy.

    Attributes:
        epsilon: above 0.
        delta: 0 for pure epsilon, by Laplace noise.
        unit: the unit of privacy.
        neighbours: whether neighbouring data sets replace one unit, or add or remove one.
        invalid: the rule for invalid rows: the data is refused, or the row's unit is dropped.
    """

    epsilon: Positive
    delta: float = Field(ge=0, lt=1)
    unit: Literal["trajectory", "person"]
    neighbours: Literal["replace-one", "add-remove"]
    invalid: Literal["refuse", "drop-unit"] = "refuse"


class PublicNoise(Part):
    """The public parameters of the noise; its scale only if it does not depend on the data.

    Attributes:
        calibration: the rule that determined alpha and beta.
        law: the distribution of the noise.
        alpha: the noise multiplier: noise over sensitivity.
        beta: of smooth sensitivity; 0 if the scale does not depend on the data.
        shape: the numbers that get noise.
        grid: every drawn number (with dp-ssp: every sum) is a multiple of it.
        sigma: dp-ssp: of the noise of a sum whose shape is 1; dp-ope: of weighted returns.
    """

    calibration: Literal["exact", "nissim", "appendix"]
    law: Literal["gaussian", "laplace"]
    alpha: Positive
    beta: float = Field(ge=0)
    shape: Literal["isotropic", "whitened", "statistics", "weights"]
    grid: Positive
    sigma: Positive | None = None


class ReleasedStatistics(Part):
    """The output of dp-ssp; everything else is post-processing of it.

    Attributes:
        sums: noisy sums of returns less the middle of their bounds.
        counts: noisy numbers of trajectories that visit each key.
        sum_noise: the standard deviation of each sum's noise.
        count_noise: the standard deviation of each count's noise.
    """

    sums: Numbers
    counts: Numbers
    sum_noise: Numbers
    count_noise: Numbers

    def model_post_init(self, _: Any) -> None:
        """Refuse columns of different lengths, and noise that is not above 0."""
        if len({len(numbers) for _, numbers in self}) > 1:
            raise ValueError("statistics must have the same length")
        if not ((self.sum_noise > 0).all() and (self.count_noise > 0).all()):
            raise ValueError("noise must be above 0")


class ReleasedWeights(Part):
    """The output of dp-ope, with returns divided by their range R.

    Attributes:
        weighted: sums of weight times (return less the middle), over R.
        weights: sums of weights.
        returns: sums of returns less the middle, over R.
        sizes: numbers of trajectories, if they are not public.
        scales: of the Laplace noise of each of these, in their order.
    """

    weighted: Numbers
    weights: Numbers
    returns: Numbers
    sizes: Numbers | None = None
    scales: Numbers


class Share(Part):
    """A noisy share of trajectories, with its interval."""

    value: Fraction
    low: Fraction
    high: Fraction


class StageChoice(Part):
    """A stage's choice, from its own noisy numbers; empty if there was nothing to choose.

    Attributes:
        level: the chosen candidate, from 0.
        low: returns are clamped to [low, high].
        high: likewise.
        beyond: the share of trajectories with a return beyond these bounds.
    """

    level: int | None = Field(default=None, ge=0)
    low: float | None = None
    high: float | None = None
    beyond: Share | None = None


class ReleasedStage(Part):
    """One of the Gaussian stages of dp-ssp; the squares of their mu add up to no more than mu^2.

    Attributes:
        name: of the stage.
        mu: 1/alpha, rounded.
        alpha: noise is alpha times the sensitivity of the stage.
        chosen: the choice for later stages.
        numbers: the stage's noisy numbers; those of the values are in statistics.
        noise: the standard deviation of each number's noise.
    """

    name: Literal["bounds", "values"]
    mu: Positive
    alpha: Positive
    chosen: StageChoice
    numbers: Numbers | None = None
    noise: Positive | None = None


class Restriction(Part):
    """Bounds that a stage chose: values and intervals are for returns clamped to them."""

    low: float
    high: float


class PooledSource(Part):
    """A release that was pooled with others, with its guarantee.

    Attributes:
        draw: hash of its noisy sums and counts, unique to the release.
        alpha: it is 1/alpha-Gaussian-DP.
        better_without: whether the pooled values would be more precise without it.
    """

    sha256: Hash
    draw: Hash
    name: str | None = None
    dataset: str | None = None
    period: str | None = None
    epsilon: Positive
    delta: float = Field(ge=0, lt=1)
    alpha: Positive
    better_without: bool = False


class Release(Columns, Part):
    """A value function, released once under differential privacy.

    Read it by label (``release["ill"]``: value, intervals, flags), as arrays in the order of the
    states (``release.value``, ``.low``, ``.total_high``, ...; with arms, arm after arm, by
    ``release["new", "ill"]``; with actions, state after state, by ``release["ill", "treat"]``, and
    as a matrix ``release.q``), or as a table: ``to_pandas``, ``to_arrow``. Other released tables
    are in ``tables``. ``plot`` draws the values, and a notebook shows them. ``save`` writes the
    release, and ``Release.load`` reads it.

    Attributes:
        schema_version: 3.
        private: false only for seeded experiments.
        study: the public description, side files hashed.
        privacy: the guarantee.
        mechanism: its name.
        terms: the public numbers that the release was computed with, arrays hashed.
        noise: its public parameters.
        ridge: lambda of LSL, public.
        trajectories: m, if it is public.
        persons: U, if it is public.
        level: of every interval.
        actions: their labels, in order.
        theta: coefficients; left out if each state has its own value (dp-ssp).
        tables: values by state (arm; action: Q); states: V beside Q; policy: the overall value;
            behaviour: of dp-ope, the value of the data's policy; differences: of arms from the
            first, or of the target from the behaviour.
        statistics: of dp-ssp.
        weights: of dp-ope.
        restriction: if a stage chose bounds of returns inside the study's.
        stages: of dp-ssp, in the order in which they were drawn.
        gaussian_mu: it is mu-Gaussian-DP.
        zcdp_rho: mu^2/2: it is rho-zCDP.
        accepted: the warnings that were accepted: a useless plan, delta >= 1/m.
        refit_of: the release that this one was computed from, at no further cost.
        pooled_from: likewise: the releases whose statistics were added up, and their guarantees.
        releases_per_person: how many of these one person may be in, if more than one.
        ledger_head: the hash of this release's charge in the dataset's ledger.
        created: the day, in UTC; not the time, which depends on how much there was to read.
        software: name and version of the software.

    >>> import privalue as pv
    >>> study = pv.Study(
    ...     states=["ill", "well"], discount=0.9, returns=(0, 1),
    ...     epsilon=1.0, delta=1e-5, unit="trajectory",
    ... )
    >>> release = pv.release(study, [[("ill", 0.0), ("well", 1.0)]] * 1000)
    >>> release["well"].flags, release.value.shape, [row.state for row in release]
    ('', (2,), ['ill', 'well'])
    """

    schema_version: Literal[3] = 3
    private: bool
    study: dict[str, Any]
    privacy: Guarantee
    mechanism: Literal["dp-lsw", "dp-lsl", "dp-ssp", "dp-ope"]
    terms: dict[str, Any]
    noise: PublicNoise
    ridge: Positive | None = None
    trajectories: int | None = Field(default=None, ge=1)
    persons: int | None = Field(default=None, ge=1)
    level: float | None = Field(default=None, gt=0, lt=1)
    actions: tuple[str, ...] = ()
    theta: Numbers | None = None
    tables: dict[Literal["values", "states", "policy", "behaviour", "differences"], Table]
    statistics: ReleasedStatistics | None = None
    weights: ReleasedWeights | None = None
    restriction: Restriction | None = None
    stages: tuple[ReleasedStage, ...] = ()
    gaussian_mu: Positive | None = None
    zcdp_rho: Positive | None = None
    accepted: list[WarningCode] = []
    refit_of: Hash | None = None
    pooled_from: tuple[PooledSource, ...] = ()
    releases_per_person: Annotated[int, Field(ge=2)] | None = None
    ledger_head: Hash | None = None
    created: str = Field(pattern=r"^\d{4}-\d\d-\d\d$")
    software: str

    # The text that a release was read from: its hash, and the copy on a ledger, must not depend on
    # how a later version writes JSON.
    _text: str | None = None
    _reused: bool = False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Release) and self.to_json() == other.to_json()

    __hash__ = None

    def __repr__(self) -> str:
        words = [self.mechanism, "private" if self.private else NOT_PRIVATE, *self.accepted]
        is_doubtful = self.mechanism == "dp-ope" and not self.supported.all()
        words += ["not supported"] if is_doubtful else []
        words += ["restricted means"] if self.restriction else []
        words += [f"rows={len(self)}"] if self.main.keys else [f"policy_value={self.value[0]:.4g}"]
        return f"Release({', '.join(words)}, {self.created})"

    __str__ = __repr__

    # Tables

    @property
    def main(self) -> ValueTable:
        """Return the main table: values by state, or the target's value for dp-ope."""
        return self.tables["values" if "values" in self.tables else "policy"]

    @property
    def values(self) -> ValueTable:
        """Return the values by state; with arms, by arm and state; with actions, Q."""
        if "values" not in self.tables:
            raise NotReleasedError("this release has no values by state; use release.policy")
        return self.tables["values"]

    @property
    def state_values(self) -> ValueTable | None:
        """Return V, for a release of Q: the mean over the first visits of a state's actions."""
        return self.tables.get("states")

    @property
    def policy(self) -> ValueTable | None:
        """Return the overall value of the policy, by arm or start if the study has them."""
        return self.tables.get("policy")

    @property
    def behaviour(self) -> ValueTable | None:
        """Return the value of the behaviour policy (dp-ope)."""
        return self.tables.get("behaviour")

    @property
    def differences(self) -> ValueTable | None:
        """Return the differences of the other arms from the first, or of target and behaviour."""
        return self.tables.get("differences")

    @property
    def dp_event(self) -> str | None:
        """Return the event that describes a dp-ssp release to Google's dp_accounting.

        Compose it under ADD_OR_REMOVE_ONE, whatever the release's own relation: mu includes that.
        Never use it inside a sampled event, and compose it only with events about the same unit and
        relation.
        """
        if self.gaussian_mu is None:
            return None
        multiplier = math.nextafter(1 / self.gaussian_mu, 0)  # rounded towards less noise
        return f"GaussianDpEvent(noise_multiplier={multiplier!r})"

    @property
    def policy_value(self) -> float | None:
        """Return the overall value of the policy, if it is one number."""
        return None if self.policy is None or self.policy.keys else float(self.policy.value[0])

    @property
    def q(self) -> NDArray[np.float64]:
        """Return Q as a matrix of states by actions; NaN for pairs that are not allowed."""
        if not self.actions:
            raise NotReleasedError("this release has no actions; release.value is by state")
        matrix = np.full((len(self.states), len(self.actions)), np.nan)
        matrix[self.pair_positions()] = self.value
        return matrix

    def pair_positions(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the positions of the state and of the action of every value."""
        columns = []
        for name, labels in (("state", self.states), ("action", self.actions)):
            position = {label: at for at, label in enumerate(labels)}
            columns.append(np.array([position[cell] for cell in self.main.columns[name]]))
        return columns[0], columns[1]

    @property
    def states(self) -> tuple[str, ...]:
        """Return the labels of the states (of dp-ope by start, of the starts), in order."""
        return self._labels("start") or self._labels("state")

    @property
    def arms(self) -> tuple[str, ...]:
        """Return the labels of the arms, in order; empty if the study has none."""
        return self._labels("arm")

    def _labels(self, key: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.main.columns.get(key, ())))

    def __getitem__(self, label: Label | tuple[Label, ...]) -> Row:
        """Return the row of a state: value, intervals, flags.

        Args:
            label: of the state; with arms, the arm's and the state's: ``release["new", "ill"]``;
                with actions, the state's and the action's: ``release["ill", "treat"]``.

        Raises:
            UnknownLabelError: there is no such state; the message has similar labels.
        """
        return self.main[label]

    def __contains__(self, label: object) -> bool:
        return label in self.main

    def __iter__(self) -> Iterator[Row]:  # type: ignore[override]
        return iter(self.main)

    def __len__(self) -> int:
        return len(self.main)

    def column(self, name: str) -> NDArray[Any] | None:
        """Return a column of the values, or None if it is absent."""
        return self.main.column(name)

    def to_arrow(self) -> pa.Table:
        """Return the values with their flags as an Arrow table, with the guarantee as metadata."""
        metadata = {"privalue": self.sentence()}
        if self.restriction is not None:
            metadata["restriction"] = self.restriction.model_dump_json()
        return self.main.to_arrow().replace_schema_metadata(metadata)

    # Sentence and plot

    def sentence(self) -> str:
        """Return the guarantee in one sentence; for a seeded experiment, that there is none."""
        from privalue.report import sentence  # noqa: PLC0415 - it imports this module

        one = bool(self.pooled_from) and self.releases_per_person is None
        return sentence("guarantee", private=self.private, one_source=one, **dict(self.privacy))

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Plot the values by state (with actions, V) with intervals; flagged values are hollow.

        Args:
            ax: Matplotlib axes to draw into; new ones, if left out.

        Raises:
            MissingComponentError: Matplotlib is not installed.
        """
        from privalue.report import plot_release  # noqa: PLC0415 - it imports this module

        return plot_release(self, ax)

    def _repr_html_(self) -> str:
        from privalue.report import describe, notebook_html  # noqa: PLC0415 - it imports this module

        return notebook_html(describe(self))

    # Text

    @property
    def reused(self) -> bool:
        """Return whether a ledger answered with this stored release.

        It is a property of this object, and not part of the release itself.
        """
        return self._reused

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return another release, with its own text and hash."""
        release = super().model_copy(update=update, deep=deep)
        release._text, release._reused = None, False
        return release

    def to_json(self) -> str:
        """Return the text of ``release.json``; unchanged if the release was read from a text."""
        return "".join(self._parts())

    def _parts(self) -> Iterable[str]:
        """Return the text in parts, since it may be very long."""
        return (*_json_parts(self), "\n") if self._text is None else (self._text,)

    @property
    def sha256(self) -> str:
        """Return the SHA-256 of ``release.json``."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    @classmethod
    def parse(cls, text: str, *, reused: bool = False) -> "Release":
        """Read a release from the text of ``release.json``.

        Args:
            text: of ``release.json``.
            reused: whether a ledger answered with it.

        Raises:
            DataError: the text is not a release; the message has the first invalid field.
        """
        try:
            release = cls.model_validate(pydantic_core.from_json(text, allow_inf_nan=False))
        except ValidationError as problem:
            first = problem.errors(include_url=False)[0]
            where = ".".join(str(part) for part in first["loc"]) or "the text"
            raise DataError(f"this is not a release: {where}: {first['msg']}") from None
        except (ValueError, TypeError) as problem:
            raise DataError(f"this is not a release: {problem}") from None
        release._text, release._reused = text, reused
        return release

    def save(self, folder: str | Path) -> Path:
        """Write ``release.json`` into a folder, whole or not at all; never overwrites one.

        Args:
            folder: the folder, which is created if missing; or the name of a .json file.

        Returns:
            The file.

        Raises:
            UsageError: the folder holds a release, or cannot be written to.
        """
        path = Path(folder)
        is_file = path.suffix.lower() == ".json" and not path.is_dir()
        target = path if is_file else path / FILE_NAME
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            return atomic_write(target, self._parts(), mode=0o644, replace=False)
        except OSError as problem:
            reason = "; a release is never overwritten" * isinstance(problem, FileExistsError)
            raise UsageError(f"cannot write {target}: {problem.strerror}{reason}") from None

    @classmethod
    def load(cls, path: str | Path) -> "Release":
        """Read a release from a file, or from the ``release.json`` in a folder.

        Raises:
            DataError: there is no such file, or it is not a release.
        """
        path = Path(path) / FILE_NAME if Path(path).is_dir() else Path(path)
        try:
            return cls.parse(read_whole(path, _MAX_BYTES).decode("utf-8"))
        except OSError as problem:
            why = f"cannot be read: {problem.strerror}"
        except UnicodeDecodeError:
            why = "is not a release: it is not text"
        except DataError as problem:
            raise DataError(f"{path}: {problem}") from None
        raise DataError(f"{path} {why}; give a release.json, or its folder")


def _json_parts(value: Any, line: str = "\n") -> Iterator[str]:
    """Yield JSON with a line for each field and column, without absent fields."""
    if isinstance(value, BaseModel | ValueTable):
        value = value.columns if isinstance(value, ValueTable) else vars(value)
    if isinstance(value, dict):
        separator = "{"
        for name, inner in value.items():
            if inner is not None and not (isinstance(inner, tuple) and not inner):
                yield f"{separator}{line} {pydantic_core.to_json(name).decode()}: "
                yield from _json_parts(inner, line + " ")
                separator = ","
        yield "{}" if separator == "{" else line + "}"
    else:
        plain = value.tolist() if isinstance(value, np.ndarray) else value
        yield pydantic_core.to_json(plain, exclude_none=True, inf_nan_mode="null").decode()


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of ``release.json``."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Release.model_json_schema(),
    }
