"""What leaves: a release is a header and a few tables of columns, and ``release.json`` is both.

A release holds the study (public), what is promised, and the analysed mechanism's output with what
follows from it. It never holds counts, sigma of smooth sensitivity, psi or anything else that
depends on the data in another way. It is written whole or not at all, and never overwritten. Its
JSON schema, ``docs/release.schema.json``, is made from this module.

The module is not called ``release``: that is the function ``privalue.release``.
"""

import difflib
import hashlib
import math
from collections import namedtuple
from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, Self, TypeVar

import numpy as np
import pydantic_core
from numpy.typing import NDArray
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    PrivateAttr,
    ValidationError,
    WithJsonSchema,
)

from privalue._folder import FILE_NAME, require_vacant
from privalue.errors import (
    DataError,
    MissingComponentError,
    NotReleasedError,
    UnknownLabelError,
    UsageError,
)
from privalue.ledger.files import read_whole, write_whole

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    from matplotlib.axes import Axes

NOT_PRIVATE = "NOT PRIVATE"  # what is said of seeded experiments, wherever they are seen
FLAGS_BETWEEN = "; "  # two flags of one row
_MOST = 1 << 36  # bytes of a release: there may be very many states
_SEARCHED = 5_000  # labels among which one that is close is looked for


class Row:
    """One row of a table: a named tuple of those of these columns that were released.

    They stand here once, in the order of files, each with what it is.
    """

    arm: Annotated[str, "whose values these are, where the study has arms"]
    against: Annotated[str, "of a difference: the arm whose value is taken off"]
    start: Annotated[str, "of dp-ope by start: where trajectories start"]
    state: Annotated[str, "null in the difference of overall values"]
    action: Annotated[str, "where the study has actions; the value is then Q"]
    value: Annotated[float, "inside the bounds of returns"]
    total_low: Annotated[float, "covers noise and the choice of people"]
    total_high: Annotated[float, ""]
    low: Annotated[float, "covers the noise alone: what would have been released without it"]
    high: Annotated[float, ""]
    total_band_low: Annotated[float, "a total interval that holds in all rows at once"]
    total_band_high: Annotated[float, ""]
    kept_mass: Annotated[float, "of dp-ope: how much of the target's weight clipping kept"]
    kept_low: Annotated[float, "noise and the choice of people included"]
    kept_high: Annotated[float, ""]
    clipping_bias: Annotated[float, "R tau at the kept mass, tau = 1 - kept"]
    largest_clipping_bias: Annotated[float, "the same at its lower end"]
    effective_trajectories: Annotated[
        float, "about so many, equally weighted, would be as good: n/C"
    ]
    refuted: Annotated[bool, "kept mass above 1 at a level for all rows at once: wrong behaviour"]
    supported: Annotated[
        bool,
        "dp-ssp: the count is clear, and at least half of the value is the state's own; dp-ope: "
        "clipping lost little",
    ]
    flags: Annotated[str, "what to be careful about, separated by '; '; mostly nothing"]


COLUMNS = {name: kind.__origin__ for name, kind in Row.__annotations__.items()}  # name: type
KEYS = ("arm", "start", "state", "action")
TABLES = ("values", "states", "policy", "behaviour", "differences")
Label = str | int | None
_WHY = {
    "low": "dp-lsw and dp-lsl keep the scale of their noise to themselves",
    "total": "only dp-ssp and dp-ope release intervals that hold the choice of people, too",
    "supported": "only dp-ssp and dp-ope can tell",
}


def read_only(numbers: Any, *, missing: NDArray[np.bool_] | None = None) -> NDArray[np.float64]:
    """Return finite numbers as an array that cannot be written to; null may be where it may."""
    array = np.array(numbers)
    if array.dtype == object and missing is not None:
        array = np.array([np.nan if number is None else number for number in numbers])
    if len(array) and array.dtype.kind not in "if":
        raise ValueError("all of them must be numbers")
    array = array.astype(np.float64)
    known = np.isfinite(array) if missing is None else np.isfinite(array) | missing
    if array.ndim != 1 or not known.all():
        raise ValueError("what is released is finite")
    array.setflags(write=False)
    return array


Numbers = Annotated[
    NDArray[np.float64],
    PlainValidator(read_only),
    PlainSerializer(lambda numbers: numbers.tolist()),
    WithJsonSchema({"type": "array", "items": {"type": "number"}}),
]


class Tabular:
    """Something that can be read as a table."""

    def to_arrow(self) -> "pa.Table":
        """Return it as an Arrow table."""
        raise NotImplementedError

    def to_pandas(self) -> "pd.DataFrame":
        """Return it as a pandas DataFrame; ``attrs`` holds what is promised."""
        _require("pandas", "to_pandas()")
        table = self.to_arrow()
        frame: pd.DataFrame = table.to_pandas()
        metadata = table.schema.metadata or {}
        frame.attrs.update({key.decode(): value.decode() for key, value in metadata.items()})
        return frame

    def to_polars(self) -> "pl.DataFrame":
        """Return it as a Polars DataFrame."""
        frame: pl.DataFrame = _require("polars", "to_polars()").from_arrow(self.to_arrow())
        return frame

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return it as an Arrow stream: pyarrow, Polars and DuckDB read it directly."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)


Number = TypeVar("Number", bound=np.generic)


class Column(Generic[Number]):
    """A column as an attribute, which raises NotReleasedError where there is none."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, of: Any, owner: type | None = None) -> NDArray[Number]:
        if of is None:  # asked of the class
            return self  # type: ignore[return-value]
        found: NDArray[Number] | None = of.column(self.name)
        if found is None:
            raise _not_released(self.name)
        return found


class Columns:
    """The columns that people ask for most, as attributes: read-only arrays."""

    value = Column[np.float64]()
    total_low = Column[np.float64]()
    total_high = Column[np.float64]()
    low = Column[np.float64]()
    high = Column[np.float64]()
    total_band_low = Column[np.float64]()
    total_band_high = Column[np.float64]()
    supported = Column[np.bool_]()
    flags = Column[np.object_]()


def _row_type(names: tuple[str, ...]) -> Any:
    """Return the type of a table's rows, which says of a column that there is not why."""

    def __getattr__(self: object, name: str) -> Any:  # noqa: N807
        raise _not_released(name) if name in COLUMNS else AttributeError(name)

    bases = (namedtuple("Row", names), Row)
    return type("Row", bases, {"__slots__": (), "__getattr__": __getattr__})


class ValueTable(Columns, Tabular):
    """Values by state (by arm, by action, or one alone): one array per column, read-only.

    >>> table = ValueTable({"state": ["ill", "well"], "value": [0.25, 1.0]})
    >>> table["well"], len(table), table.value * 2
    (Row(state='well', value=1.0), 2, array([0.5, 2. ]))
    """

    def __init__(self, columns: Mapping[str, Any]) -> None:
        unknown = [name for name in columns if name not in COLUMNS]
        if unknown or "value" not in columns:
            raise ValueError(f"unknown column {unknown[0]!r}" if unknown else "there is no value")
        ordered = [name for name in COLUMNS if name in columns]
        missing = None
        if "against" in columns and "state" in columns:  # overall values have no state, nor a band
            missing = np.array([label is None for label in columns["state"]])
        made = {name: _column(name, columns[name], missing) for name in ordered}
        if len({len(column) for column in made.values()}) > 1:
            raise ValueError("columns have different lengths")
        self.columns = made
        self.keys = tuple(name for name in KEYS if name in made)

    def __len__(self) -> int:
        return len(self.columns["value"])

    def __iter__(self) -> Iterator[Row]:
        return map(self._row, *(column.tolist() for column in self.columns.values()))

    def __repr__(self) -> str:
        return f"ValueTable({len(self)} rows of {', '.join(self.columns)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ValueTable) and self.as_lists() == other.as_lists()

    __hash__ = None  # type: ignore[assignment]

    def __getitem__(self, label: Label | tuple[Label, ...]) -> Row:
        """Return a row by its label, or by its arm and state, or by its state and action.

        Raises:
            UnknownLabelError: there is none; the message names those that are close.
        """
        parts = label if isinstance(label, tuple) else (label,)
        place = tuple(None if part is None else str(part) for part in parts)
        if place not in self._places:
            raise UnknownLabelError(self._about(label, place))
        return self.row(self._places[place])

    def __contains__(self, label: object) -> bool:
        try:
            return self[label] is not None  # type: ignore[index]
        except UnknownLabelError:
            return False

    @cached_property
    def _row(self) -> Any:
        return _row_type(tuple(self.columns))

    def __getstate__(self) -> dict[str, Any]:
        return {"columns": self.columns, "keys": self.keys}

    @cached_property
    def _places(self) -> dict[tuple[str | None, ...], int]:
        labels = zip(*(self.columns[name].tolist() for name in self.keys), strict=True)
        return {label: at for at, label in enumerate(labels)}

    def _about(self, label: object, parts: tuple[str | None, ...]) -> str:
        """Return what helps a user who wrote a label that there is not."""
        if not self.keys:
            return f"[{label!r}]: there is one number for all, and none by state; use row(0)"
        if len(parts) != len(self.keys):
            like = ", ".join(repr(self.columns[name][0]) for name in self.keys)
            return f"[{label!r}] is not understood; give {' and '.join(self.keys)}, as [{like}]"
        for name, part in zip(self.keys, parts, strict=True):
            known = list(dict.fromkeys(map(str, self.columns[name][:_SEARCHED])))
            if part is not None and str(part) not in known:
                near = difflib.get_close_matches(part, known, n=3)
                near = near or [each for each in known if each.casefold() == part.casefold()]
                hint = " or ".join(map(repr, near))
                some = ", ".join(map(repr, known[:5])) + ", ..." * (len(known) > 5)
                what = f"did you mean {hint}?" if near else f"there are {some}"
                return f"there is no {name} {part!r}; {what}"
        return f"{' and '.join(map(repr, parts))} do not go together here"

    def row(self, at: int) -> Row:
        """Return the row at a position."""
        row: Row = self._row(*(_cell(column[at]) for column in self.columns.values()))
        return row

    def column(self, name: str) -> NDArray[Any] | None:
        """Return a column, or None where there is none."""
        return self.columns.get(name)

    def as_lists(self) -> dict[str, list[Any]]:
        """Return the columns as plain lists, as ``release.json`` has them."""
        return {name: _listed(column) for name, column in self.columns.items()}

    def to_arrow(self) -> "pa.Table":
        """Return it as an Arrow table."""
        import pyarrow as pa  # noqa: PLC0415 - heavy, and most uses of a release need none of it

        return pa.table({name: pa.array(cells) for name, cells in self.columns.items()})


def _column(name: str, cells: Any, missing: NDArray[np.bool_] | None) -> NDArray[Any]:
    """Return a column as a read-only array of its kind, or raise ValueError."""
    kind = COLUMNS[name]
    try:
        if kind is float:
            return read_only(cells, missing=missing)
        listed = cells.tolist() if isinstance(cells, np.ndarray) else list(cells)
        allowed = {kind, type(None)} if name == "state" and missing is not None else {kind}
        if not {*map(type, listed)} <= allowed:
            raise ValueError("all of them must be texts, or true or false")
        column = np.empty(len(listed), dtype=object if kind is str else bool)
        column[:] = listed
    except (ValueError, TypeError) as problem:
        raise ValueError(f"{name}: {problem}") from None
    column.setflags(write=False)
    return column


def _listed(column: NDArray[Any]) -> list[Any]:
    listed: list[Any] = column.tolist()
    if column.dtype.kind == "f" and np.isnan(column).any():
        return [None if math.isnan(cell) else cell for cell in listed]
    return listed


def _cell(cell: Any) -> Any:
    return cell.item() if isinstance(cell, np.generic) else cell


def _not_released(name: str) -> NotReleasedError:
    why = next((why for key, why in _WHY.items() if name.startswith(key)), "see to_pandas()")
    return NotReleasedError(f"there is no {name} in this release: {why}")


def _require(package: str, use: str) -> Any:
    """Return a package that is no dependency, or say how to get it."""
    try:
        return import_module(package)
    except ImportError:
        raise MissingComponentError(
            f"{use} needs {package}: pip install {package}; to_arrow() needs nothing else"
        ) from None


def _read_table(columns: Any) -> ValueTable:
    if isinstance(columns, ValueTable):
        return columns
    if not isinstance(columns, dict):
        raise ValueError("a table is an object of columns")
    return ValueTable(columns)


_JSON_TYPES = {str: ["string", "null"], float: ["number", "null"], bool: ["boolean"]}
Table = Annotated[
    ValueTable,
    PlainValidator(_read_table),
    PlainSerializer(lambda table: table.as_lists()),
    WithJsonSchema(
        {
            "type": "object",
            "additionalProperties": False,
            "required": ["value"],
            "properties": {
                name: {
                    "type": "array",
                    "items": {"type": _JSON_TYPES[kind.__origin__]},
                    "description": kind.__metadata__[0],
                }
                for name, kind in Row.__annotations__.items()
            },
        }
    ),
]


class Part(BaseModel):
    """What all parts have in common: every field is known, and none changes."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    def __eq__(self, other: object) -> bool:
        """Return whether all fields agree, arrays included."""
        return type(self) is type(other) and self.model_dump() == other.model_dump()

    __hash__ = None  # type: ignore[assignment]


class Guarantee(Part):
    """What is promised, to whom."""

    epsilon: float = Field(gt=0)
    delta: float = Field(ge=0, lt=1, description="0: pure epsilon, by Laplace noise")
    unit: Literal["trajectory", "person"]
    neighbours: Literal["replace-one", "add-remove"]
    invalid: Literal["refuse", "drop-unit"] = Field(
        default="refuse",
        description="data with an invalid row is refused, or a unit with one counts as nobody",
    )

    def change(self) -> str:
        """Return in words what neighbouring data sets differ in."""
        if self.neighbours == "replace-one":
            return f"replacing any one {self.unit} by another"
        return f"adding or removing any one {self.unit}"


class PublicNoise(Part):
    """What is public of the noise; its scale only where it is the same for all data sets."""

    calibration: Literal["exact", "nissim", "appendix"]
    law: Literal["laplace"] | None = Field(default=None, description="Gaussian where left out")
    alpha: float = Field(gt=0)
    beta: float = Field(ge=0, description="0 where the scale is the same for all data sets")
    shape: Literal["isotropic", "whitened", "statistics", "weights"]
    grid: float = Field(
        gt=0, description="every drawn number (with dp-ssp: every sum) is a multiple of it"
    )
    sigma: float | None = Field(
        default=None,
        gt=0,
        description="dp-ssp: of the noise of a sum whose shape is 1; dp-ope: of weighted returns",
    )


class ReleasedStatistics(Part):
    """The output of dp-ssp itself: everything else is computed from it, at no further cost."""

    sums: Numbers = Field(description="noisy sums of returns less the middle of their bounds")
    counts: Numbers = Field(description="noisy numbers of trajectories that visit each key")
    sum_noise: Numbers = Field(description="the standard deviation of each sum's noise")
    count_noise: Numbers = Field(description="the standard deviation of each count's noise")

    def model_post_init(self, _: Any) -> None:
        """Refuse numbers that do not belong to the same keys, and noise that is none."""
        if len({len(numbers) for _, numbers in self}) > 1:
            raise ValueError("all of the statistics must be of the same keys")
        if not ((self.sum_noise > 0).all() and (self.count_noise > 0).all()):
            raise ValueError("noise must be above 0")


class ReleasedWeights(Part):
    """The output of dp-ope itself, in numbers of trajectories and of returns' range."""

    weighted: Numbers = Field(description="sums of weight times return less the middle, over R")
    weights: Numbers = Field(description="sums of weights")
    returns: Numbers = Field(description="sums of returns less the middle, over R")
    sizes: Numbers | None = Field(default=None, description="trajectories, where not public")
    scales: Numbers = Field(description="of the Laplace noise of each of these, in their order")


class Share(Part):
    """A share of trajectories, from noisy numbers, with its interval."""

    value: float = Field(ge=0, le=1)
    low: float = Field(ge=0, le=1)
    high: float = Field(ge=0, le=1)


class StageChoice(Part):
    """What a stage chose from what it released; empty where there was nothing to choose."""

    level: int | None = Field(default=None, ge=0, description="the chosen candidate, from 0")
    low: float | None = Field(default=None, description="returns are held between low and high")
    high: float | None = None
    beyond: Share | None = Field(
        default=None, description="trajectories with a return beyond these bounds"
    )


class ReleasedStage(Part):
    """One of the Gaussian stages of dp-ssp; the squares of their mu add up to no more than mu^2."""

    name: Literal["bounds", "values"]
    mu: float = Field(gt=0, description="1/alpha, rounded")
    alpha: float = Field(gt=0, description="noise is alpha times the sensitivity of the stage")
    chosen: StageChoice
    numbers: Numbers | None = Field(
        default=None, description="what the stage released; for the values, see statistics"
    )
    noise: float | None = Field(default=None, gt=0, description="of each number")


class Restriction(Part):
    """Bounds that a stage chose: values and intervals are for returns held between these."""

    low: float
    high: float

    def model_post_init(self, _: Any) -> None:
        """Refuse bounds between which nothing is."""
        if not self.low < self.high:
            raise ValueError("low must be below high")


Accepted = Literal["useless", "large-delta"]
Hash = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class Release(Columns, Tabular, Part):
    """A value function, released once under differential privacy.

    It is read by label (``release["ill"]``: value, intervals, flags), as arrays in the order of the
    states (``release.value``, ``.low``, ``.total_high``, ...; with arms, arm after arm, by
    ``release["new", "ill"]``; with actions, state after state, by ``release["ill", "treat"]``, and
    as a matrix ``release.q``), or as a table: ``to_pandas``, ``to_polars``, ``to_arrow``. What else
    was released is in ``tables``. ``plot`` draws it, and a notebook shows it. ``save`` writes it,
    and ``Release.load`` reads it.

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
    private: bool = Field(description="false only for seeded experiments")
    study: dict[str, Any] = Field(description="the public description, side files hashed")
    privacy: Guarantee
    mechanism: Literal["dp-lsw", "dp-lsl", "dp-ssp", "dp-ope"]
    terms: dict[str, Any] = Field(
        description="the public numbers that the release was computed with, arrays hashed"
    )
    noise: PublicNoise
    ridge: float | None = Field(default=None, gt=0, description="lambda of LSL, public")
    trajectories: int | None = Field(
        default=None, ge=1, description="m, where replacing one trajectory leaves it as it is"
    )
    persons: int | None = Field(
        default=None, ge=1, description="U, where replacing one person leaves it as it is"
    )
    level: float | None = Field(default=None, gt=0, lt=1, description="the level of every interval")
    actions: tuple[str, ...] = Field(default=(), description="their labels, in order")
    theta: Numbers | None = Field(
        default=None, description="left out where each state has a value of its own (dp-ssp)"
    )
    tables: dict[Literal["values", "states", "policy", "behaviour", "differences"], Table] = Field(
        description="values by state (arm; action: Q); states: V beside Q; policy: the overall "
        "value; behaviour: of dp-ope, what the data's policy is worth; differences: of arms from "
        "the first, or of the target from the behaviour"
    )
    statistics: ReleasedStatistics | None = Field(default=None, description="of dp-ssp")
    weights: ReleasedWeights | None = Field(default=None, description="of dp-ope")
    restriction: Restriction | None = Field(
        default=None, description="where a stage chose bounds of returns inside the study's"
    )
    stages: tuple[ReleasedStage, ...] = Field(
        default=(), description="of dp-ssp, in the order in which they were drawn"
    )
    gaussian_mu: float | None = Field(default=None, gt=0, description="it is mu-Gaussian-DP")
    zcdp_rho: float | None = Field(default=None, gt=0, description="mu^2/2: it is rho-zCDP")
    accepted: list[Accepted] = Field(
        default=[], description="explicitly: a plan no better than guessing, delta >= 1/m"
    )
    refit_of: Hash | None = Field(
        default=None, description="the release that this was computed from, at no further cost"
    )
    pooled_from: tuple[Hash, ...] = Field(default=(), description="likewise, several releases")
    ledger_head: Hash | None = Field(
        default=None, description="the hash of this release's charge in the dataset's ledger"
    )
    created: str = Field(
        pattern=r"^\d{4}-\d\d-\d\d$",
        description="the day, in UTC; not the time, which depends on how much there was to read",
    )
    software: str = Field(description="what made it, with its version")

    # The text of a release that was read is kept: its hash, and what a ledger stores, must not
    # depend on how a later version writes JSON.
    _text: str | None = PrivateAttr(default=None)
    _reused: bool = PrivateAttr(default=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Release) and self.to_json() == other.to_json()

    __hash__ = None

    def __repr__(self) -> str:
        doubt = policy_doubt(self)
        cautions = [
            "private" if self.private else NOT_PRIVATE,
            *(["no better than guessing"] if "useless" in self.accepted else []),
            *([doubt.partition(":")[0]] if doubt else []),
        ]
        sizes = f"rows={len(self)}" if self.main.keys else f"policy_value={self.policy_value:.4g}"
        return f"Release({self.mechanism}, {', '.join(cautions)}, {sizes}, {self.created})"

    __str__ = __repr__

    # Tables

    @property
    def main(self) -> ValueTable:
        """Return the table that the release is about: values, or of dp-ope the target's."""
        return self.tables["values" if "values" in self.tables else "policy"]

    @property
    def values(self) -> ValueTable:
        """Return the values by state; with arms, by arm and state; with actions, Q."""
        if "values" not in self.tables:
            raise NotReleasedError("this release has no values by state; use release.policy")
        return self.tables["values"]

    @property
    def state_values(self) -> ValueTable | None:
        """Return V beside Q: the mean over the first visits of a state's actions."""
        return self.tables.get("states")

    @property
    def policy(self) -> ValueTable | None:
        """Return the overall value of the policy, by arm or start where there are any."""
        return self.tables.get("policy")

    @property
    def behaviour(self) -> ValueTable | None:
        """Return, of dp-ope, what the policy behind the data is worth."""
        return self.tables.get("behaviour")

    @property
    def differences(self) -> ValueTable | None:
        """Return how the other arms differ from the first, or the target from the behaviour."""
        return self.tables.get("differences")

    @property
    def policy_value(self) -> float | None:
        """Return the overall value of the policy, where it is one number."""
        return None if self.policy is None or self.policy.keys else float(self.policy.value[0])

    @property
    def q(self) -> NDArray[np.float64]:
        """Return Q as a matrix of states by actions; not a number where a pair is not allowed."""
        if not self.actions or "action" not in self.main.columns:
            raise NotReleasedError("this release has no actions; release.value is by state")
        matrix = np.full((len(self.states), len(self.actions)), np.nan)
        matrix[self.places_of_pairs()] = self.value
        return matrix

    def places_of_pairs(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return for every value the position of its state, and of its action."""
        places = []
        for name, labels in (("state", self.states), ("action", self.actions)):
            place = {label: at for at, label in enumerate(labels)}
            cells = self.main.columns[name].tolist()
            places.append(np.array([place[label] for label in cells], dtype=np.int64))
        return places[0], places[1]

    @property
    def states(self) -> tuple[str, ...]:
        """Return the labels of the states (of dp-ope by start, of the starts), in order."""
        column = self.main.column("start" if "start" in self.main.keys else "state")
        return () if column is None else tuple(dict.fromkeys(column.tolist()))

    @property
    def arms(self) -> tuple[str, ...]:
        """Return the labels of the arms, in order; empty where the study has none."""
        column = self.main.column("arm")
        return () if column is None else tuple(dict.fromkeys(column.tolist()))

    def as_dict(self, arm: str | None = None) -> dict[str, float]:
        """Return the values by state label; with actions, V.

        Args:
            arm: whose values, where the study has arms.
        """
        if (arm is None) != (not self.arms) or (arm is not None and arm not in self.arms):
            known = ", ".join(map(repr, self.arms)) or "none: leave it out"
            raise UsageError(f"arm={arm!r}; the arms of this release are {known}")
        table = self.state_values or self.main
        labels = table.columns[table.keys[-1]].tolist()
        whose = [arm] * len(table) if arm is None else table.columns["arm"].tolist()
        rows = zip(whose, labels, table.value.tolist(), strict=True)
        return {label: value for of, label, value in rows if of == arm}

    def __getitem__(self, label: Label | tuple[Label, ...]) -> Row:
        """Return the record of a state: its value, its intervals, what to be careful about.

        Args:
            label: of the state; with arms, the arm's and the state's: ``release["new", "ill"]``;
                with actions, the state's and the action's: ``release["ill", "treat"]``.

        Raises:
            UnknownLabelError: there is no such state; the message names those that are close.
        """
        return self.main[label]

    def __contains__(self, label: object) -> bool:
        return label in self.main

    def __iter__(self) -> Iterator[Row]:  # type: ignore[override]
        return iter(self.main)

    def __len__(self) -> int:
        return len(self.main)

    def column(self, name: str) -> NDArray[Any] | None:
        """Return one column of the values as an array, or None where it was not released."""
        return self.main.column(name)

    def to_arrow(self) -> "pa.Table":
        """Return the values with their flags as an Arrow table, whose metadata says what it is."""
        metadata = {"privalue": self.sentence()}
        if self.restriction is not None:
            metadata["restriction"] = self.restriction.model_dump_json()
        return self.main.to_arrow().replace_schema_metadata(metadata)

    # What it says and shows

    def sentence(self) -> str:
        """Return the guarantee in one sentence; for a seeded experiment, that there is none."""
        if not self.private:
            return (
                f"{NOT_PRIVATE}: the noise came from a source that can be predicted, for "
                "experiments only. Nothing is promised; do not publish this."
            )
        epsilon, delta = self.privacy.epsilon, self.privacy.delta
        promised = f"({epsilon:g}, {delta:g})" if delta else f"{epsilon:g}"
        return (
            f"This release is {promised}-differentially private: {self.privacy.change()} changes "
            f"the probability of any outcome by a factor of at most e^{epsilon:g}"
            + (f", up to {delta:g}." if delta else ".")
        )

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the values with their intervals; a value to be careful about is hollow.

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
        """Return whether a ledger answered with it: ``created`` is then the day of the original.

        It is about how this object came about, and no part of the release itself.
        """
        return self._reused

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return another release, with its own text and hash."""
        copied = super().model_copy(update=update, deep=deep)
        copied._text, copied._reused = None, False
        return copied

    def to_json(self) -> str:
        """Return the text of ``release.json``; of one that was read, to the letter."""
        return self._text or "".join(self.json_parts())

    def json_parts(self) -> Iterator[str]:
        """Yield the text part by part: states may be very many."""
        fields = {name: getattr(self, name) for name in Release.model_fields}
        yield from _written(fields) if self._text is None else [self._text]
        if self._text is None:
            yield "\n"

    @property
    def sha256(self) -> str:
        """Return the SHA-256 of ``release.json``."""
        digest = hashlib.sha256()
        for part in self.json_parts():
            digest.update(part.encode())
        return digest.hexdigest()

    @classmethod
    def answered(cls, text: str) -> "Release":
        """Return the release that a ledger stored, and answers an identical request with."""
        release = cls.parse(text)
        release._reused = True
        return release

    @classmethod
    def parse(cls, text: str) -> "Release":
        """Return the release that a text holds.

        Raises:
            DataError: the text is not a release; the message names the first field that is wrong.
        """
        try:
            release = cls.model_validate(pydantic_core.from_json(text, allow_inf_nan=False))
        except ValidationError as problem:
            first = problem.errors(include_url=False)[0]
            where = ".".join(str(part) for part in first["loc"]) or "the text"
            raise DataError(f"this is not a release: {where}: {first['msg']}") from None
        except ValueError as problem:
            raise DataError(f"this is not a release: the text is not JSON: {problem}") from None
        release._text = text
        return release

    def save(self, folder: str | Path) -> Path:
        """Write ``release.json`` into a folder, whole or not at all; never over another one.

        Args:
            folder: where it goes; it is created if it does not exist. A name that ends in .json is
                that of the file itself.

        Returns:
            The file.

        Raises:
            UsageError: the folder holds a release, or cannot be written to.
        """
        path = Path(folder)
        named = path.suffix.lower() == ".json" and not path.is_dir()
        target = require_vacant(path.parent, path.name) if named else require_vacant(folder)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            return write_whole(target, self.json_parts(), mode=0o644, replace=False)
        except FileExistsError:
            raise UsageError(f"{target} exists; a release is never overwritten") from None
        except OSError as problem:
            raise UsageError(f"cannot write {target}: {problem.strerror}") from None

    @classmethod
    def load(cls, path: str | Path) -> "Release":
        """Read a release from a file, or from the ``release.json`` in a folder.

        Raises:
            DataError: there is no such file, or it is not a release.
        """
        path = Path(path)
        path = path / FILE_NAME if path.is_dir() else path
        try:
            return cls.parse(read_whole(path, _MOST).decode("utf-8"))
        except OSError as problem:
            raise DataError(
                f"{path} cannot be read: {problem.strerror}; give a release.json, or its folder"
            ) from None
        except UnicodeDecodeError:
            raise DataError(
                f"{path} is not a release, and not even text; give a release.json, or its folder"
            ) from None
        except DataError as problem:
            raise DataError(f"{path}: {problem}") from None


def _written(value: Any, line: str = "\n") -> Iterator[str]:
    """Yield JSON with a line for each field and column; a field that is absent is left out."""
    if isinstance(value, BaseModel):
        value = {name: getattr(value, name) for name in type(value).model_fields}
    elif isinstance(value, ValueTable):
        value = dict(value.columns)
    if isinstance(value, dict):
        begin = "{"
        for name, inner in value.items():
            if inner is not None and not (isinstance(inner, tuple) and not inner):
                yield f"{begin}{line} {pydantic_core.to_json(name).decode()}: "
                yield from _written(inner, line + " ")
                begin = ","
        yield "{}" if begin == "{" else line + "}"
    elif isinstance(value, tuple) and isinstance(value[0], BaseModel):
        for at, inner in enumerate(value):
            yield ("," if at else "[") + line + " "
            yield from _written(inner, line + " ")
        yield line + "]"
    else:
        plain = _listed(value) if isinstance(value, np.ndarray) else value
        yield pydantic_core.to_json(plain).decode()


def policy_doubt(release: Release) -> str | None:
    """Return what the released numbers say against another policy's value; None if nothing.

    The part before the colon is short.
    """
    policy = release.policy
    if release.mechanism != "dp-ope" or policy is None:
        return None
    if policy.columns["refuted"].any():
        described = release.study
        ways = (described["data"].get("invalid"), described["values"].get("truncated"))
        others = ", or the units that were left out acted otherwise" if "drop-unit" in ways else ""
        return (
            "behaviour refuted: the kept mass is above 1, so that the behaviour's probabilities "
            f"are wrong{others}; do not use the target's value"
        )
    lost = int((~policy.supported).sum())
    if not lost:
        return None
    where = f" at {lost:,} of {len(policy):,} starts" if policy.keys else ""
    return (
        f"not supported{where}: too much of the target's weight may have been clipped for the "
        "value to be vouched for; see release.policy"
    )


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of ``release.json``."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Release.model_json_schema(),
    }
