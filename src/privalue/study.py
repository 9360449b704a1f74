"""What is public, as values: the study file, parsed and checked.

A study is complete before any data is opened: states, discount, bounds, weights, features, unit of
privacy, mechanism. The data never adds to it. A study file is TOML; the same sections are built in
Python with the same names::

    Study(
        privacy=Privacy(epsilon=1.0, delta=1e-6, unit="trajectory"),
        values=Values(discount=0.99, rewards=(0.0, 1.0), returns=(0.0, 1.0)),
        states=States(count=40),
    )

| symbol        | here                          | meaning                                 |
|---------------|-------------------------------|-----------------------------------------|
| N             | ``study.state_count``         | number of states                        |
| gamma         | ``study.values.discount``     | discount                                |
| F_lo, F_hi    | ``study.return_bounds``       | public bounds of a first-visit return   |
| w or rho      | ``study.state_weights``       | regression weights, one per state       |

A key that the software does not use yet is refused, never accepted and ignored.
"""

import difflib
import math
import tomllib
from collections import Counter
from collections.abc import Mapping
from contextvars import ContextVar
from functools import cached_property
from numbers import Integral, Real
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    model_validator,
)

from privalue import side_files
from privalue.errors import StudyError
from privalue.side_files import Matrix, SideFile

MOST_STATES = 2**31 - 1
MOST_TRAJECTORIES = 2**33 - 1  # 2^33 returns of at most 2^30 grid steps each fill an int64


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise ValueError
    return float(value)


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise ValueError
    return int(value)


Number = Annotated[float, BeforeValidator(_number)]
Whole = Annotated[int, BeforeValidator(_whole)]


def _key(meaning: str, allowed: str, default: Any = ..., **limits: Any) -> Any:
    """A key of the study file: what it means, what is allowed, and the limits that enforce it."""
    return Field(default, description=meaning, json_schema_extra={"allowed": allowed}, **limits)


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    def __init__(self, /, **keys: Any) -> None:
        try:
            super().__init__(**keys)
        except ValidationError as problem:
            raise StudyError(explain(problem, type(self))) from None

    @property
    def given(self) -> frozenset[str]:
        """The keys that somebody wrote down."""
        return frozenset(self.model_fields_set)


class About(_Section):
    """``[study]``: what the study is called, and whom it is about."""

    name: str = _key("what the release is called", "a text", "untitled", min_length=1)
    dataset: str | None = _key(
        "which people the data is about: the ledger's key", "a text", None, min_length=1
    )
    trajectories: Whole | None = _key(
        "the number of trajectories m, as publicly declared",
        f"a whole number from 1 to {MOST_TRAJECTORIES}",
        None,
        ge=1,
        le=MOST_TRAJECTORIES,
    )


class Privacy(_Section):
    """``[privacy]``: what is promised, to whom."""

    epsilon: Number = _key("the privacy loss", "a finite number above 0", gt=0)
    delta: Number = _key(
        "the probability with which the loss may exceed epsilon",
        "a number between 0 and 1, both excluded",
        gt=0,
        lt=1,
    )
    unit: Literal["trajectory", "person"] = _key(
        "whose data one neighbour's differs in", '"trajectory" or "person"'
    )
    neighbours: Literal["replace-one", "add-remove"] = _key(
        "how neighbouring data sets differ", '"replace-one" or "add-remove"', "replace-one"
    )
    max_trajectories_per_person: Whole | None = _key(
        "the most trajectories that count per person", "a whole number of at least 1", None, ge=1
    )
    max_states_per_trajectory: Whole | None = _key(
        "the most distinct states that a trajectory counts for",
        "a whole number of at least 1",
        None,
        ge=1,
    )


class Values(_Section):
    """``[values]``: what is being valued, and the public bounds of it."""

    discount: Number = _key(
        "gamma, applied once per row", "a number above 0 and at most 1", gt=0, le=1
    )
    rewards: tuple[Number, Number] = _key(
        "public bounds of a reward; rewards outside are clamped",
        "two finite numbers [low, high], low <= high",
    )
    returns: tuple[Number, Number] | None = _key(
        "tighter public bounds of a discounted return; returns outside are clamped",
        "two finite numbers [low, high], low < high",
        None,
    )
    unvisited: Number | None = _key(
        "the value of a state that nobody visits", "a number inside the bounds of returns", None
    )
    start: str | dict[str, Number] | None = _key(
        "public start distribution: also release the policy's one number",
        "a CSV file of state and probability",
        None,
    )

    @model_validator(mode="after")
    def _bounds_in_order(self) -> "Values":
        if self.rewards[0] > self.rewards[1]:
            raise ValueError(f"rewards = {list(self.rewards)}: the lower bound must come first")
        if self.returns is not None and not self.returns[0] < self.returns[1]:
            raise ValueError(f"returns = {list(self.returns)}: the lower bound must come first")
        if self.discount == 1 and self.returns is None:
            raise ValueError(
                "discount = 1 needs the key returns: without discount, rewards alone do not "
                "bound a return; give returns = [low, high]"
            )
        low, high = self.return_bounds
        if not (math.isfinite(high - low) and high - low >= 1e-200 and max(-low, high) <= 1e200):
            raise ValueError(
                f"returns range over [{low}, {high}]: the range must be between 1e-200 and 1e200 "
                "wide; widen rewards or give returns = [low, high]"
            )
        if self.unvisited is not None and not low <= self.unvisited <= high:
            raise ValueError(f"unvisited = {self.unvisited} must lie inside [{low}, {high}]")
        return self

    @property
    def return_bounds(self) -> tuple[float, float]:
        """[F_lo, F_hi]: as given, or what the bounds of the rewards imply (math: section 4).

        A trajectory may be one row long, so the bounds hold the reward itself as well as its
        infinite discounted sum, and 0 need not be inside.
        """
        if self.returns is not None:
            return self.returns
        low, high = self.rewards
        forever = 1.0 / (1.0 - self.discount)
        return min(low, low * forever), max(high, high * forever)

    @property
    def unvisited_value(self) -> float:
        """As given, or 0 if that is inside the bounds, or the bound nearest to 0."""
        low, high = self.return_bounds
        return min(max(0.0, low), high) if self.unvisited is None else self.unvisited


class States(_Section):
    """``[states]``: the public state space."""

    count: Whole | None = _key(
        "number of states, labelled 0 .. count-1",
        f"a whole number from 1 to {MOST_STATES}",
        None,
        ge=1,
        le=MOST_STATES,
    )
    labels: list[str | int] | None = _key("the states' labels", "a list of texts", None)
    file: str | None = _key("a CSV file with one label a row", "a file name", None)
    groups: str | dict[str, str | int] | None = _key(
        "public map from raw labels to these states, applied while reading",
        "a CSV file of raw label and state",
        None,
    )
    visits: str | dict[str, Number] | None = _key(
        "public prior of the probability that a trajectory visits each state",
        "a CSV file of state and probability",
        None,
    )

    @model_validator(mode="after")
    def _one_way_to_name_them(self) -> "States":
        if len(self.given & {"count", "labels", "file"}) != 1:
            raise ValueError("give exactly one of the keys count, labels and file")
        return self


class Features(_Section):
    """``[features]``: Phi."""

    kind: Literal["tabular", "aggregate", "matrix"] = _key(
        "how states become features", '"tabular", "aggregate" or "matrix"', "tabular"
    )
    size: Whole | None = _key(
        "how many adjacent states share a value", "a whole number of at least 1", None, ge=1
    )
    file: str | None = _key(
        "the matrix, one row per state", "a file ending in .npy, .npz, .csv or .parquet", None
    )
    matrix: Any = _key("the matrix itself (in Python only)", "an N x d array", None)

    @model_validator(mode="after")
    def _fits_its_kind(self) -> "Features":
        needed = {"tabular": set(), "aggregate": {"size"}, "matrix": {"file", "matrix"}}[self.kind]
        surplus = self.given - {"kind"} - needed
        if surplus:
            raise ValueError(f'kind = "{self.kind}" does not use the key {sorted(surplus)[0]}')
        if self.kind == "aggregate" and self.size is None:
            raise ValueError('kind = "aggregate" needs the key size, e.g. size = 2')
        if self.kind == "matrix" and (self.file is None) == (self.matrix is None):
            raise ValueError('kind = "matrix" needs the key file, e.g. file = "features.npy"')
        return self


class Weights(_Section):
    """``[weights]``: w of DP-LSW, rho of DP-LSL."""

    kind: Literal["uniform"] | None = _key("1 everywhere", '"uniform"', None)
    file: str | None = _key("weights by state", "a CSV file of state and weight", None)
    values: list[Number] | None = _key(
        "weights in the order of the states", "a list of finite numbers of at least 0", None
    )

    @model_validator(mode="after")
    def _one_kind(self) -> "Weights":
        if len(self.given) > 1:
            raise ValueError("give exactly one of the keys kind, file and values")
        return self


class Mechanism(_Section):
    """``[mechanism]``: which algorithm, and how its noise is calibrated."""

    name: Literal["dp-lsw", "dp-lsl", "dp-ssp", "auto"] = _key(
        "the algorithm", '"dp-lsw" or "dp-lsl"', "dp-lsw"
    )
    calibration: Literal["exact", "nissim", "appendix"] = _key(
        "the constants alpha and beta of the noise",
        '"nissim" (Lemma 1) or "appendix" (appendix A)',
        "nissim",
    )
    noise: Literal["whitened", "isotropic"] = _key(
        "the shape of the noise",
        '"isotropic" (the paper\'s) or, for dp-lsw, "whitened"',
        "isotropic",
    )
    beta: Literal["auto"] | Number = _key("smoothness", '"auto" or a number above 0', "auto")
    pseudo_count: Number = _key(
        "visits added to every state at a public centre", "a number of at least 0", 0.0, ge=0
    )
    ridge: Literal["sqrt"] | Number = _key(
        "lambda of dp-lsl", '"sqrt" (ridge_scale * sqrt(m)) or a number above 0', "sqrt"
    )
    ridge_scale: Number = _key('scale of ridge = "sqrt"', "a number above 0", 100.0, gt=0)
    noise_scale_share: Number = _key(
        "share of epsilon that releases the noise scale",
        "a number of at least 0 and below 1",
        0.0,
        ge=0,
        lt=1,
    )

    @model_validator(mode="after")
    def _applies(self) -> "Mechanism":
        if not isinstance(self.ridge, str) and self.ridge <= 0:
            raise ValueError(f"ridge = {self.ridge} must be a number above 0")
        if not isinstance(self.beta, str) and self.beta <= 0:
            raise ValueError(f"beta = {self.beta} must be a number above 0")
        for key, applies, where in (
            ("ridge", self.name == "dp-lsl", "dp-lsl"),
            ("ridge_scale", self.name == "dp-lsl", "dp-lsl"),
            ("pseudo_count", self.name == "dp-lsw", "dp-lsw"),
            ("noise_scale_share", self.name in {"dp-lsw", "dp-lsl"}, "dp-lsw and dp-lsl"),
        ):
            if key in self.given and not applies:
                raise ValueError(
                    f'{key} applies to {where} only, and name = "{self.name}"; remove it'
                )
        if "ridge_scale" in self.given and self.ridge != "sqrt":
            raise ValueError('ridge_scale applies to ridge = "sqrt" only; remove one of the two')
        if self.noise == "whitened" and self.name != "dp-lsw":
            raise ValueError(
                f'noise = "whitened" is for dp-lsw only; use "isotropic" with "{self.name}"'
            )
        for key in ("beta", "pseudo_count"):
            if key in self.given and self.calibration != "exact":
                raise ValueError(
                    f'{key} applies to calibration = "exact" only, and calibration = '
                    f'"{self.calibration}"; remove it'
                )
        return self

    def without_effect(self) -> set[str]:
        """The keys whose defaults do nothing in the chosen mechanism."""
        idle = {"noise_scale_share"}
        if self.name != "dp-lsl":
            idle |= {"ridge", "ridge_scale"}
        if not isinstance(self.ridge, str):
            idle |= {"ridge_scale"}
        if self.calibration != "exact":
            idle |= {"beta", "pseudo_count"}
        return idle - self.given


class Report(_Section):
    """``[report]``: how the release is presented."""

    level: Number = _key(
        "level of the intervals", "a number between 0 and 1, both excluded", 0.95, gt=0, lt=1
    )


class Columns(_Section):
    """``[data]``: the names of the columns, where they are not the usual ones."""

    trajectory: str = _key("column of the trajectory's id", "a text", "trajectory", min_length=1)
    step: str = _key("column that orders a trajectory's rows", "a text", "step", min_length=1)
    state: str = _key("column of the state", "a text", "state", min_length=1)
    reward: str = _key("column of the reward", "a text", "reward", min_length=1)
    person: str = _key("column of the person's id", "a text", "person", min_length=1)

    @model_validator(mode="after")
    def _distinct(self) -> "Columns":
        names = [self.trajectory, self.step, self.state, self.reward, self.person]
        if len(set(names)) < len(names):
            raise ValueError("two keys name the same column; each needs its own")
        return self


class _NotBuilt(NamedTuple):
    section: str
    key: str
    value: object  # None: the key at all
    instead: str


NOT_BUILT = (
    _NotBuilt("privacy", "unit", "person", 'use unit = "trajectory"'),
    _NotBuilt("privacy", "neighbours", "add-remove", 'use neighbours = "replace-one"'),
    _NotBuilt("privacy", "max_trajectories_per_person", None, "remove it"),
    _NotBuilt("privacy", "max_states_per_trajectory", None, "remove it"),
    _NotBuilt("states", "visits", None, "remove it"),
    _NotBuilt("mechanism", "name", "dp-ssp", 'use name = "dp-lsw" or "dp-lsl"'),
    _NotBuilt("mechanism", "name", "auto", 'use name = "dp-lsw" or "dp-lsl"'),
    _NotBuilt("mechanism", "calibration", "exact", 'use calibration = "nissim" or "appendix"'),
    _NotBuilt("mechanism", "noise_scale_share", None, "remove it"),
    _NotBuilt("report", "level", None, "remove it"),
)


_side_file_folder: ContextVar[Path] = ContextVar("_side_file_folder", default=Path())


class Study(_Section):
    """Everything public about a release; frozen, and checked when it is made."""

    study: About = _key("name and people", "a section", About())
    privacy: Privacy = _key("what is promised", "a section")
    values: Values = _key("what is valued", "a section")
    states: States = _key("the state space", "a section")
    features: Features = _key("Phi", "a section", Features())
    weights: Weights = _key("w or rho", "a section", Weights())
    mechanism: Mechanism = _key("the algorithm", "a section", Mechanism())
    report: Report = _key("presentation", "a section", Report())
    data: Columns = _key("column names", "a section", Columns())

    _side_files: tuple[SideFile, ...] = PrivateAttr(default=())
    _labels: tuple[str, ...] | None = PrivateAttr(default=None)
    _raw_labels: dict[str, int] | None = PrivateAttr(default=None)
    _start: NDArray[np.float64] | None = PrivateAttr(default=None)
    _weights: NDArray[np.float64] | None = PrivateAttr(default=None)
    _matrix: Matrix | None = PrivateAttr(default=None)

    @classmethod
    def load(cls, path: str | Path) -> "Study":
        """The study described by a TOML file; side files are found beside it."""
        path = Path(path)
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise StudyError(
                f"the study file {path} does not exist; privalue init writes one"
            ) from None
        except UnicodeDecodeError:
            raise StudyError(f"the study file {path} is not UTF-8 text") from None
        except OSError as problem:
            raise StudyError(f"the study file {path} cannot be read: {problem.strerror}") from None
        try:
            return cls.parse(text, base=path.parent)
        except StudyError as problem:
            raise StudyError(f"{path}: {problem}") from None

    @classmethod
    def parse(cls, text: str, *, base: Path | None = None) -> "Study":
        """The study described by TOML text; side files are found in ``base``."""
        try:
            sections = tomllib.loads(text)
        except tomllib.TOMLDecodeError as problem:
            raise StudyError(f"not valid TOML: {problem}") from None
        folder = _side_file_folder.set(base or Path())
        try:
            return cls(**sections)
        finally:
            _side_file_folder.reset(folder)

    @model_validator(mode="after")
    def _complete(self) -> "Study":
        """Refuses what is not built, then reads the side files: afterwards nothing is missing."""
        for section, key, value, instead in NOT_BUILT:
            chosen = getattr(self, section)
            if key in chosen.given and value in (None, getattr(chosen, key)):
                shown = key if value is None else f'{key} = "{value}"'
                raise StudyError(f"[{section}] {shown} is not built yet; {instead}")
        self._read_labels()
        self._read_groups()
        if self.values.start is not None:
            self._start = self._read_start(self.values.start)
        self._weights = self._read_weights()
        if self.features.kind == "matrix":
            self._matrix = self._read_matrix()
        elif self.features.size is not None and self.features.size > self.state_count:
            raise StudyError(
                f"[features] size = {self.features.size}: there are only {self.state_count} states"
            )
        return self

    # The states, in order

    @cached_property
    def state_count(self) -> int:
        """N."""
        if self._labels is not None:
            return len(self._labels)
        assert self.states.count is not None
        return self.states.count

    @property
    def state_labels(self) -> tuple[str, ...]:
        """The labels in order; ``"0" .. "N-1"`` where the study only counts them."""
        if self._labels is not None:
            return self._labels
        return tuple(str(s) for s in range(self.state_count))

    @property
    def raw_labels(self) -> Mapping[str, int] | None:
        """Raw label -> state's position, or None where the rows hold the numbers 0 .. N-1."""
        return self._raw_labels

    def state_position(self, label: str) -> int | None:
        """Where a label stands, or None."""
        if self._labels is not None:
            return self._label_positions.get(label)
        plain = label.isascii() and label.isdigit() and str(int(label)) == label
        return int(label) if plain and int(label) < self.state_count else None

    @cached_property
    def _label_positions(self) -> dict[str, int]:
        return {label: at for at, label in enumerate(self._labels or ())}

    def _open(self, key: str, name: str) -> SideFile:
        file = side_files.open_side_file(key, name, _side_file_folder.get())
        self._side_files = (*self._side_files, file)
        return file

    def _read_labels(self) -> None:
        if self.states.file is not None:
            labels = side_files.read_labels(self._open("[states] file", self.states.file))
        elif self.states.labels is not None:
            labels = [str(label).strip() for label in self.states.labels]
        else:
            return
        if not labels or "" in labels:
            raise StudyError("[states] labels must be a list of at least one text, none empty")
        label, times = Counter(labels).most_common(1)[0]
        if times > 1:
            raise StudyError(
                f'[states] the label "{label}" stands {times} times; labels are unique'
            )
        self._labels = tuple(labels)

    def _read_groups(self) -> None:
        groups = self.states.groups
        if groups is None:
            self._raw_labels = None if self._labels is None else self._label_positions
            return
        if isinstance(groups, str):
            groups = dict(
                side_files.read_groups(
                    self._open("[states] groups", groups),
                    lambda label: self.state_position(label) is not None,
                )
            )
        positions: dict[str, int] = {}
        for raw, label in groups.items():
            at = self.state_position(str(label))
            if at is None:
                raise StudyError(
                    f'[states] groups maps "{raw}" to "{label}", which is not a state of the study'
                )
            positions[str(raw)] = at
        if not positions:
            raise StudyError("[states] groups maps no raw label to any state")
        self._raw_labels = positions

    # What is known of each state

    @property
    def return_bounds(self) -> tuple[float, float]:
        """[F_lo, F_hi]."""
        return self.values.return_bounds

    @property
    def state_weights(self) -> NDArray[np.float64]:
        """w of DP-LSW or rho of DP-LSL; read-only."""
        assert self._weights is not None
        return self._weights

    @property
    def start_distribution(self) -> NDArray[np.float64] | None:
        """The public start distribution, or None."""
        return self._start

    @property
    def feature_matrix(self) -> Matrix | None:
        """Phi where the study gives it as a matrix."""
        return self._matrix

    def _read_weights(self) -> NDArray[np.float64]:
        if self.weights.file is not None:
            file = self._open("[weights] file", self.weights.file)
            weights = side_files.by_state(
                "[weights] file",
                side_files.read_numbers(file),
                self.state_position,
                self.state_count,
            )
        elif self.weights.values is not None:
            weights = np.array(self.weights.values, dtype=np.float64)
        else:
            weights = np.ones(self.state_count)
        if len(weights) != self.state_count:
            raise StudyError(
                f"[weights] values has {len(weights)} numbers for {self.state_count} states"
            )
        bad = ~(np.isfinite(weights) & (weights >= 0))
        if bad.any():
            at = int(np.flatnonzero(bad)[0])
            raise StudyError(
                f"[weights] the weight of state {at} (counted from 0) is {weights[at]}; weights "
                "are finite numbers of at least 0"
            )
        if not weights.any():
            raise StudyError("[weights] every weight is 0; at least one must be above 0")
        weights.setflags(write=False)
        return weights

    def _read_start(self, start: str | dict[str, float]) -> NDArray[np.float64]:
        if isinstance(start, str):
            start = side_files.read_numbers(self._open("[values] start", start))
        distribution = side_files.by_state(
            "[values] start", start, self.state_position, self.state_count, absent=0.0
        )
        if not (np.isfinite(distribution) & (distribution >= 0)).all():
            raise StudyError("[values] start holds a probability that is negative or not finite")
        if abs(distribution.sum() - 1) > 1e-9:
            raise StudyError(
                f"[values] start sums to {distribution.sum():.12g}; probabilities sum to 1"
            )
        distribution.setflags(write=False)
        return distribution

    def _read_matrix(self) -> Matrix:
        if self.features.file is not None:
            return side_files.read_matrix(
                self._open("[features] file", self.features.file),
                self.state_position,
                self.state_count,
            )
        matrix = side_files.as_matrix("[features] matrix", self.features.matrix, self.state_count)
        self._side_files = (*self._side_files, side_files.describe_matrix(matrix))
        return matrix

    @property
    def side_files(self) -> Mapping[str, str]:
        """SHA-256 of every side file, by the key that names it."""
        return {file.key: file.sha256 for file in self._side_files}

    def public_description(self) -> dict[str, Any]:
        """The study as plain values, for a release: what was given, and the side files' hashes."""
        unused = {
            "features": {"matrix"},
            "mechanism": self.mechanism.without_effect(),
            "report": {"level"} - self.report.given,
        }
        description = self.model_dump(mode="json", exclude=unused, exclude_none=True)
        description["side_files"] = [
            {"key": file.key, "name": file.name, "sha256": file.sha256} for file in self._side_files
        ]
        return description


# One line per mistake


def explain(problem: ValidationError, model: type[BaseModel]) -> str:
    """The first mistake in one line: what, which value, what is allowed, what to do."""
    errors = problem.errors(include_url=False)
    first = next((e for e in errors if e["type"] == "extra_forbidden"), errors[0])
    key = str(first["loc"][0]) if first["loc"] else ""
    heading = f"[{key}]" if model is Study else key
    if first["type"] == "extra_forbidden":
        near = difflib.get_close_matches(key, list(model.model_fields), n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(model.model_fields)}"
        return f"{heading} is not a {'section' if model is Study else 'key'} of a study; {hint}"
    cause = first.get("ctx", {}).get("error")
    if cause is not None and str(cause):  # a check that spans keys, or a section's own complaint
        return f"{heading} {cause}" if key else str(cause)
    field = model.model_fields[key]
    if model is Study:
        if first["type"] == "missing":
            section: Any = field.annotation
            keys = [name for name, entry in section.model_fields.items() if entry.is_required()]
            return f"{heading} is missing; it needs {', '.join(keys or ['count, labels or file'])}"
        return f"{heading} must be a section of the study, not {_shown(first['input'])}"
    extra = field.json_schema_extra
    allowed = extra["allowed"] if isinstance(extra, dict) else ""
    if first["type"] == "missing" and len(first["loc"]) == 1:
        return f"{heading} is missing; it must be {allowed}"
    return f"{heading} = {_shown(first['input'])} is not allowed; it must be {allowed}"


def _shown(value: object) -> str:
    text = f'"{value}"' if isinstance(value, str) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
