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
| H             | ``study.states_per_trajectory`` | most distinct states that count       |
| L             | ``study.trajectories_per_person`` | most trajectories that count        |
| q             | ``study.states_touched``      | most states in which neighbours differ  |

A key that does not apply is refused, never accepted and ignored.
"""

import tomllib
from collections import Counter
from collections.abc import Mapping
from contextvars import ContextVar
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import PrivateAttr, model_validator

from privalue.core._arrays import Matrix
from privalue.core._terms import Limits
from privalue.errors import StudyError
from privalue.study import _side_files as side_files
from privalue.study._sections import (
    LARGEST,
    SMALLEST,
    About,
    Columns,
    Features,
    Mechanism,
    Privacy,
    Report,
    Section,
    States,
    Values,
    Weights,
    key,
)
from privalue.study._side_files import SideFile

_side_file_folder: ContextVar[Path] = ContextVar("_side_file_folder", default=Path())


class Study(Section):
    """Everything public about a release; frozen, and checked when it is made."""

    holds_sections = True

    study: About = key("name and people", "a section", About())
    privacy: Privacy = key("what is promised", "a section")
    values: Values = key("what is valued", "a section")
    states: States = key("the state space", "a section")
    features: Features = key("Phi", "a section", Features())
    weights: Weights = key("w or rho", "a section", Weights())
    mechanism: Mechanism = key("the algorithm", "a section", Mechanism())
    report: Report = key("presentation", "a section", Report())
    data: Columns = key("column names", "a section", Columns())

    _folder: Path = PrivateAttr(default=Path())
    _side_files: tuple[SideFile, ...] = PrivateAttr(default=())
    _labels: tuple[str, ...] | None = PrivateAttr(default=None)
    _raw_labels: dict[str, int] | None = PrivateAttr(default=None)
    _start: NDArray[np.float64] | None = PrivateAttr(default=None)
    _visits: NDArray[np.float64] | None = PrivateAttr(default=None)
    _weights: NDArray[np.float64] | None = PrivateAttr(default=None)
    _matrix: Matrix | None = PrivateAttr(default=None)

    @classmethod
    def load(cls, path: str | Path) -> "Study":
        """The study described by a TOML file; side files are found beside it."""
        named, path = path, Path(path)  # a path would show https:// with one slash
        try:
            text = path.read_text(encoding="utf-8-sig")
        except FileNotFoundError:
            raise StudyError(
                f"the study file {named} does not exist; privalue init writes one"
            ) from None
        except UnicodeDecodeError:
            raise StudyError(f"the study file {path} is not UTF-8 text; save it as such") from None
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
        open_questions = [
            f"[{name}] {key}"
            for name, keys in sections.items()
            for key, value in (keys.items() if isinstance(keys, dict) else ())
            if value == "?"
        ]
        if open_questions:
            raise StudyError(
                f"{len(open_questions)} question(s) are left: {', '.join(open_questions)}; write "
                'the answer in place of "?"'
            )
        if "matrix" in sections.get("features", {}):
            raise StudyError("[features] matrix is for Python only; name a file instead")
        folder = _side_file_folder.set(base or Path())
        try:
            return cls(**sections)
        finally:
            _side_file_folder.reset(folder)

    @classmethod
    def from_description(
        cls,
        description: Mapping[str, Any],
        *,
        start: str | Mapping[str, float] | None = None,
        **sections: Mapping[str, Any],
    ) -> "Study":
        """Rebuild the study that a release describes; ``public_description`` is the way there.

        Args:
            description: ``release.study``.
            start: a start distribution. The description's own is left out, for it may name a file.
            sections: sections in place of the description's.

        Raises:
            StudyError: a section names a side file, of which a description holds the hash only.
        """
        for section, file in files_named(description):
            if section not in sections:
                raise StudyError(
                    f"the description names [{section}] {file} by its hash and does not hold it; "
                    f"give the section {section}"
                )
        told = {name: description.get(name, {}) for name in cls.model_fields} | sections
        if "values" not in sections:
            told["values"] = _without_start(description)
        if start is not None:
            told["values"] = {**told["values"], "start": start}
        privacy = told["privacy"]
        if privacy["unit"] == "person" and "max_trajectories_per_person" not in privacy:
            # The person was named and the trajectory was not: each person has one.
            told["data"] = {name: v for name, v in told["data"].items() if name != "trajectory"}
        mechanism = told["mechanism"]
        if mechanism.get("name") == "dp-lsl":  # a description has its idle default, 0
            told["mechanism"] = {n: v for n, v in mechanism.items() if n != "pseudo_count"}
        return cls(**{name: dict(section) for name, section in told.items()})

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """The same study with some sections changed, checked anew, side files included."""
        folder = _side_file_folder.set(self._folder)
        try:
            return super().model_copy(update=update, deep=deep)
        finally:
            _side_file_folder.reset(folder)

    @model_validator(mode="after")
    def _complete(self) -> "Study":
        """Reads the side files: afterwards nothing is missing."""
        if "level" in self.report.given and not self.has_intervals:
            raise StudyError(
                "[report] level is of intervals, which dp-lsw and dp-lsl release with [mechanism] "
                "noise_scale_share only; set it, e.g. to 0.1, use dp-ssp, or remove level"
            )
        self._require_limit_of_trajectories()
        self._folder = _side_file_folder.get()
        self._read_labels()
        self._read_groups()
        if self.values.start is not None:
            self._start = self._read_start(self.values.start)
        if self.states.visits is not None:
            self._visits = self._read_visits(self.states.visits)
        self._weights = self._read_weights()
        if self.features.kind == "matrix":
            self._matrix = self._read_matrix()
        elif self.features.size is not None and self.features.size > self.state_count:
            raise StudyError(
                f"[features] size = {self.features.size}: there are only {self.state_count} states"
            )
        return self

    def _require_limit_of_trajectories(self) -> None:
        """Asks for L where a person may have several trajectories, and refuses it where not."""
        limit, one = self.privacy.max_trajectories_per_person, self.data.one_trajectory_per_person
        if self.privacy.unit != "person":
            return
        if limit is None and not one:
            raise StudyError(
                '[privacy] unit = "person" needs the key max_trajectories_per_person: how many '
                "trajectories of one person count at most, e.g. max_trajectories_per_person = 3; "
                "if each person has one trajectory, name their column alone: [data] person = "
                f'"{self.data.person}"'
            )
        if one and limit not in {None, 1}:
            raise StudyError(
                f"[privacy] max_trajectories_per_person = {limit}: [data] names person and not "
                "trajectory, so that each person has one trajectory; name that column too, e.g. "
                'trajectory = "trajectory", or remove max_trajectories_per_person'
            )

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
        return tuple(map(str, self.state_names))

    @property
    def state_names(self) -> tuple[str, ...] | range:
        """The labels, or the numbers that stand for them: there may be very many."""
        return range(self.state_count) if self._labels is None else self._labels

    @property
    def raw_labels(self) -> Mapping[str, int] | None:
        """Raw label -> state's position, or None where the rows hold the numbers 0 .. N-1."""
        return self._raw_labels

    def _label(self, at: int) -> str:
        return str(at) if self._labels is None else self._labels[at]

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

    @property
    def has_intervals(self) -> bool:
        """Whether the release tells how large its noise is."""
        chosen = self.mechanism
        return chosen.name in {"dp-ssp", "auto"} or chosen.noise_scale_share > 0

    # What one person can change

    @property
    def states_per_trajectory(self) -> int:
        """H: the most distinct states that a trajectory counts for."""
        return min(self.state_count, self.privacy.max_states_per_trajectory or self.state_count)

    @property
    def trajectories_per_person(self) -> int:
        """L: the most trajectories that count per unit of privacy."""
        return self.privacy.max_trajectories_per_person or 1

    @property
    def size_is_public(self) -> bool:
        """Whether the number of units is the same for all neighbours, and may be counted.

        Replacing one leaves it as it is; but where invalid units or incomplete rows are dropped,
        a unit may be replaced by one of which nothing is left.
        """
        return self.privacy.neighbours == "replace-one" and not self.data.drops

    @property
    def states_touched(self) -> int:
        """q: the most states whose statistics differ between neighbours."""
        one = self.states_per_trajectory * self.trajectories_per_person
        return min(self.state_count, 2 * one if self.privacy.neighbours == "replace-one" else one)

    @property
    def limits(self) -> Limits:
        """What one unit of privacy may contribute: all that adding up contributions needs."""
        return Limits(
            unit=self.privacy.unit,
            neighbours=self.privacy.neighbours,
            keys=self.state_count,
            discount=self.values.discount,
            return_bounds=self.return_bounds,
            most_keys=self.states_per_trajectory,
            most_trajectories=self.trajectories_per_person,
            drop_invalid=self.data.invalid == "drop-unit",
            size_is_public=self.size_is_public,
        )

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
    def visit_prior(self) -> NDArray[np.float64] | None:
        """The public prior of the probability that a trajectory visits each state, or None."""
        return self._visits

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
                label=self._label,
            )
        elif self.weights.values is not None:
            weights = np.array(self.weights.values, dtype=np.float64)
        else:
            weights = np.ones(self.state_count)
        if len(weights) != self.state_count:
            raise StudyError(
                f"[weights] values has {len(weights)} numbers for {self.state_count} states"
            )
        bad = ~((weights == 0) | ((weights >= SMALLEST) & (weights <= LARGEST)))
        if bad.any():
            at = int(np.flatnonzero(bad)[0])
            raise StudyError(
                f'[weights] the weight of state "{self._label(at)}" is {weights[at]}; weights '
                f"are finite numbers of at least 0 (0, or {SMALLEST:g} to {LARGEST:g})"
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

    def _read_visits(self, visits: str | dict[str, float]) -> NDArray[np.float64]:
        if isinstance(visits, str):
            visits = side_files.read_numbers(self._open("[states] visits", visits))
        prior = side_files.by_state(
            "[states] visits", visits, self.state_position, self.state_count, label=self._label
        )
        if not ((prior >= 0) & (prior <= 1)).all():
            raise StudyError("[states] visits holds a number that is not between 0 and 1")
        prior.setflags(write=False)
        return prior

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

    def __eq__(self, other: object) -> bool:
        """Whether all that is public is the same, side files included."""
        return isinstance(other, Study) and self.public_description() == other.public_description()

    __hash__ = None  # type: ignore[assignment]

    def public_description(self) -> dict[str, Any]:
        """The study as plain values, for a release: what was given, and the side files' hashes."""
        unused = {
            "features": {"matrix"},
            "mechanism": self.mechanism.without_effect(),
            "report": set() if self.has_intervals else {"level"},
        }
        description = self.model_dump(mode="json", exclude=unused, exclude_none=True)
        description["side_files"] = [
            {"key": file.key, "name": file.name, "sha256": file.sha256} for file in self._side_files
        ]
        return description


def described_values(description: Mapping[str, Any]) -> Values:
    """Rebuild ``[values]`` of a description, but for the start distribution."""
    return Values(**_without_start(description))


def files_named(description: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return section and key of what a description names and does not hold, but for the start."""
    keys = {"states": ("file", "groups", "visits"), "features": ("file",), "weights": ("file",)}
    found = [
        (section, name)
        for section, names in keys.items()
        for name in names
        if isinstance(description[section].get(name), str)
    ]
    if description["features"].get("kind") == "matrix" and ("features", "file") not in found:
        found.append(("features", "matrix"))
    return found


def _without_start(description: Mapping[str, Any]) -> dict[str, Any]:
    return {name: v for name, v in description["values"].items() if name != "start"}
