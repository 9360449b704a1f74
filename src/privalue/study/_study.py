"""Parse and check a study: everything that is public about a release.

A study is complete before any data is opened: states, discount, bounds, weights, features, unit of
privacy, mechanism. The data never adds to it. A study file is TOML, in sections; in Python the same
keys are flat keywords::

    Study(states=40, discount=0.99, returns=(0, 1), epsilon=1.0, delta=1e-6, unit="trajectory")

| symbol        | here                          | meaning                                 |
|---------------|-------------------------------|-----------------------------------------|
| N             | ``study.state_count``         | number of states                        |
| gamma         | ``study.values.discount``     | discount                                |
| F_lo, F_hi    | ``study.return_bounds``       | public bounds of a first-visit return   |
| w or rho      | ``study.state_weights``       | regression weights, one per state       |
| H             | ``study.states_per_trajectory`` | most distinct states that count       |
| L             | ``study.trajectories_per_person`` | most trajectories that count        |
| G             | ``study.arm_count``           | number of arms; 1 without any           |
| G N           | ``study.key_count``           | number of keys: states, or (arm, state) |
|               |                               | with actions, pairs (state, action)     |

A key that does not apply is refused, never accepted and ignored.
"""

import tomllib
from collections.abc import Mapping, Sequence
from inspect import signature
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import PrivateAttr
from pydantic.fields import FieldInfo

from privalue.core import MOST_LEVELS, Limits, Matrix
from privalue.errors import StudyError
from privalue.ledger.files import read_whole
from privalue.study._agreement import require_agreement, require_arms
from privalue.study._columns import Columns
from privalue.study._keywords import sections_of
from privalue.study._mechanism import MECHANISM_KEYS, MechanismField, SspSection
from privalue.study._names import PairNames
from privalue.study._places import MOST_STUDY, Place
from privalue.study._section_rules import Section, key, meant, shown
from privalue.study._sections import (
    About,
    Actions,
    Arms,
    Features,
    Privacy,
    Report,
    States,
    TargetPolicy,
    Values,
    Weights,
)
from privalue.study._side_files import describe_matrix
from privalue.study._stages import automatic_stages
from privalue.study._tables import PolicyTables, Tables, read_tables, tied

FILE_KEYS: Mapping[str, tuple[str, ...]] = {
    "states": ("file", "groups", "visits"),
    "features": ("file",),
    "weights": ("file",),
    "values": ("start",),
    "actions": ("file", "allowed"),
    "policy": ("target", "behaviour"),
}
# What stands where a file could, and names none.
_NO_FILES = {("policy", "behaviour"): "column"}

_BY_KEYWORDS = Place(anywhere=True)  # whoever builds a study gives keywords, and no place


class Study(Section):
    """Everything public about a release; frozen, and checked when it is built.

    Numbers by state: by label, in order, or a file. Keys of ``[mechanism]`` and ``[data]`` that are
    not listed here are keywords, too, e.g. ``ridge=5.0`` or ``invalid="drop-unit"``.

    Args:
        states: labels as a list, their number, or a file of them (required, or bins).
        bins: public edges that make states of columns, as {"age": [50, 70]} (default none).
        discount: gamma, applied once per row, above 0 and at most 1 (required).
        returns: public bounds (low, high) of a discounted return (default: as rewards imply).
        rewards: public bounds (low, high) of a reward (default: as returns imply).
        unvisited: the value of a state that nobody visits (default: 0, or the bound next to it).
        start: public start distribution: also release the policy's overall value (default none).
        epsilon: the privacy loss, from 0.001 to 20 (required).
        delta: the probability with which the loss may exceed epsilon, below 1/m (required).
        unit: whom to protect: "trajectory", or "person" with all of theirs (required).
        neighbours: "replace-one" or "add-remove" (default "replace-one").
        max_trajectories_per_person: the most that count (required with unit "person").
        max_states_per_trajectory: the most distinct states that count (default: all).
        name: what the release is called (default "untitled").
        dataset: a name for the people whom the data is about, for the ledger (default none).
        period: which of several releases, such as "2026-11" (default none).
        trajectories: how many there are, as publicly declared (default none).
        groups: public map from raw labels to these states (default none).
        visits: public prior of the probability of a visit, by state (default none).
        features: a matrix with a row for each state, or its file (default tabular).
        size: how many adjacent states share one value (default 1).
        weights: regression weights by state (default 1 everywhere).
        arms: labels of arms (default none).
        actions: labels of actions, their number, or a file of them (default none).
        allowed: the actions of each state, if not all are possible (default all).
        policy: another policy to value with "dp-ope", as {"target": ..., "behaviour": ...,
            "clip": 10} (default none).
        mechanism: "dp-ssp" (default), "dp-lsw", "dp-lsl" or "dp-ope".
        level: of intervals (default 0.95).
        columns: names of columns, as {"trajectory": "stay_id"} (default: as they are called here).

    >>> study = Study(states=["ill", "well"], discount=0.9, returns=(0, 1), epsilon=1.0,
    ...               delta=1e-6, unit="trajectory")
    >>> study.return_bounds, study.mechanism.name
    ((0.0, 1.0), 'dp-ssp')
    """

    holds_sections = True

    study: About = key("The name of the study, and the people it is about.", "a section", About())
    privacy: Privacy = key("What is promised, and whom it protects.", "a section")
    values: Values = key("What is valued, and its public bounds.", "a section")
    states: States = key("The states: their number, their labels, or bins.", "a section")
    features: Features = key(
        "The features Phi, if states do not each have a value.", "a section", Features()
    )
    weights: Weights = key(
        "The weights of the states: w of dp-lsw, rho of dp-lsl.", "a section", Weights()
    )
    arms: Arms = key("The arms, if values are released by arm.", "a section", Arms())
    actions: Actions = key(
        "The actions, if every state and action has a value.", "a section", Actions()
    )
    policy: TargetPolicy = key(
        "Another policy, if its value is released.", "a section", TargetPolicy()
    )
    mechanism: MechanismField = key("The algorithm that adds the noise.", "a section", SspSection())
    report: Report = key("How the release is presented.", "a section", Report())
    data: Columns = key("The names of the columns, and how cells are read.", "a section", Columns())

    _place: Place = PrivateAttr()
    _tables: Tables = PrivateAttr()
    _is_on_ledger: bool = PrivateAttr(default=False)

    # The place comes by position, with the sections of a file or of another study: by name it could
    # be taken for a section.
    def __init__(
        self,
        place: Place = _BY_KEYWORDS,
        /,
        *,
        states: Any = None,
        bins: Mapping[str, Any] | None = None,
        discount: float | None = None,
        returns: Sequence[float] | None = None,
        rewards: Sequence[float] | None = None,
        unvisited: float | None = None,
        start: Any = None,
        epsilon: float | None = None,
        delta: float | None = None,
        unit: Literal["trajectory", "person"] | None = None,
        neighbours: Literal["replace-one", "add-remove"] | None = None,
        max_trajectories_per_person: int | None = None,
        max_states_per_trajectory: int | None = None,
        name: str | None = None,
        dataset: str | None = None,
        period: str | None = None,
        trajectories: int | None = None,
        groups: Any = None,
        visits: Any = None,
        features: Any = None,
        size: int | None = None,
        weights: Any = None,
        arms: Any = None,
        actions: Any = None,
        allowed: Any = None,
        policy: Mapping[str, Any] | None = None,
        mechanism: str | None = None,
        level: float | None = None,
        columns: Mapping[str, str] | None = None,
        **others: Any,
    ) -> None:
        named = {word: value for word, value in locals().items() if word in _NAMED} | others
        given = {word: value for word, value in named.items() if value is not None}
        if not isinstance(place, Place):
            raise StudyError(
                f"Study({shown(place)}) is not understood: everything is given by name; Study.load "
                "reads a file, and Study.parse a text"
            )
        if place is _BY_KEYWORDS:
            place, given = Place(anywhere=True), sections_of(given)
        super().__init__(**given)
        require_agreement(self)
        self._place = place
        self._tables = read_tables(
            self.states, self.values, self.weights, self.features, self.actions, self.policy, place
        )
        require_arms(self)

    @classmethod
    def load(cls, path: str | Path, *, side_files: str | Path | None = None) -> "Study":
        """Read the study that a TOML file describes; side files are found beside it.

        Args:
            path: the study file.
            side_files: another folder, for side files that are not in the study's own.
        """
        named, path = path, Path(path)  # a Path prints https:// with one slash
        if side_files is not None and not Path(side_files).is_dir():
            raise StudyError(f"side_files={str(side_files)!r} is not a folder")
        try:
            text = read_whole(path, MOST_STUDY).decode("utf-8-sig")
        except FileNotFoundError:
            raise StudyError(
                f"the study file {named} does not exist; privalue init writes one"
            ) from None
        except UnicodeDecodeError:
            raise StudyError(f"the study file {path} is not UTF-8 text; save it as such") from None
        except OSError as problem:
            raise StudyError(f"the study file {path} cannot be read: {problem.strerror}") from None
        try:
            return cls.parse(text, base=path.parent, side_files=side_files)
        except StudyError as problem:
            raise StudyError(f"{path}: {problem}") from None

    @classmethod
    def parse(
        cls,
        text: str,
        *,
        base: Path | None = None,
        side_files: str | Path | None = None,
    ) -> "Study":
        """Read the study that TOML text describes; side files are found in ``base``.

        Args:
            text: the study.
            base: the folder that side files must be in; the current one, if left out.
            side_files: another folder that they may be in.
        """
        try:
            sections = tomllib.loads(text)
        except tomllib.TOMLDecodeError as problem:
            raise StudyError(f"not valid TOML: {problem}") from None
        except RecursionError:
            raise StudyError("not valid TOML: its arrays or tables are nested too deep") from None
        except ValueError:  # Python's own: it converts no number of thousands of digits
            raise StudyError("not valid TOML: a number or a date in it is none") from None
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
        features = sections.get("features")
        if isinstance(features, dict) and "matrix" in features:
            raise StudyError("[features] matrix is for Python only; name a file instead")
        also = None if side_files is None else Path(side_files)
        for name, keys in sections.items():
            if name not in cls.model_fields:
                raise StudyError(cls.unknown_key(name))
            if not isinstance(keys, dict):
                raise StudyError(f"[{name}] must be a section of the study, not {shown(keys)}")
        return cls(Place(folder=base or Path(), also=also), **sections)

    @classmethod
    def from_description(
        cls,
        description: Mapping[str, Any],
        *,
        start: Any = None,
        **sections: Mapping[str, Any],
    ) -> "Study":
        """Rebuild the study that a release describes; ``public_description`` is the way there.

        Args:
            description: ``release.study``.
            start: a start distribution, as ``Study`` takes it. The description's own is left out,
                for it may name a file.
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
        known = {name: description.get(name, {}) for name in cls.model_fields} | sections
        if "values" not in sections:
            known["values"] = _without_start(description)
        if start is not None:
            known["values"] = {**known["values"], "start": start}
        mechanism = known["mechanism"]
        if mechanism.get("name") == "dp-lsl":  # a description states 0, which is not a key there
            known["mechanism"] = {n: v for n, v in mechanism.items() if n != "pseudo_count"}
        described: dict[str, Any] = {name: dict(section) for name, section in known.items()}
        return cls(Place(anywhere=True), **described)

    def replace(self, **changes: Any) -> Self:
        """Return the same study with some keywords changed, and checked anew.

        Args:
            changes: what ``Study`` takes; None is the default.

        >>> study = Study(states=3, discount=0.9, returns=(0, 1), epsilon=1, delta=1e-6,
        ...               unit="trajectory")
        >>> study.replace(epsilon=2).privacy.epsilon
        2.0
        """
        present = {section: getattr(self, section) for section in self.given}
        return type(self)(self._place, **sections_of(changes, present))

    def save(self, path: str | Path, *, replace: bool = False) -> Path:
        """Write the study as a TOML file with every key explained, and its side files beside it.

        A matrix of features goes to ``NAME-features.npy`` (or ``.npz``), and files are copied.

        Args:
            path: the file, e.g. "study.toml".
            replace: whether files of these names that hold something else give way.

        Raises:
            UsageError: a file exists and holds something else, or cannot be written.
        """
        from privalue.study._saved import save  # noqa: PLC0415 - it takes a Study apart

        return save(self, Path(path), self._tables.files, replace=replace)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return the same study with some sections changed, checked anew, side files included."""
        return type(self)(self._place, **self._changed(update))

    @classmethod
    def unknown_key(cls, written: str) -> str:
        """Return in one line what is wrong with a section that does not exist."""
        return f"[{written}] is not a section of a study; {meant(written, cls.model_fields)}"

    @classmethod
    def keys_of(cls, section: str) -> Mapping[str, FieldInfo]:
        """Return the keys of a section; those of every mechanism for ``[mechanism]``."""
        if section == "mechanism":
            return MECHANISM_KEYS
        model: Any = cls.model_fields[section].annotation
        return dict(model.model_fields)

    def _repr_html_(self) -> str:
        from privalue.report import study_html  # noqa: PLC0415 - it imports this package

        return study_html(self)

    # The states, in order

    @property
    def state_count(self) -> int:
        """Return N."""
        return self._tables.names.count

    @property
    def state_labels(self) -> tuple[str, ...]:
        """Return the labels in order; ``"0" .. "N-1"`` where the study only counts them."""
        return tuple(map(str, self.state_names))

    @property
    def state_names(self) -> tuple[str, ...] | range:
        """Return the labels, or a range of numbers in their place: there may be very many."""
        return self._tables.names.names

    # The keys: states, or every state of every arm, the first arm's states first; or the pairs of
    # a state and an action, the first state's actions first

    @property
    def pairs(self) -> PairNames | None:
        """Return the pairs of a state and an action that have values; None without actions."""
        return self._tables.pairs

    @property
    def action_count(self) -> int:
        """Return how many actions there are; 0 without any."""
        return 0 if self.pairs is None else self.pairs.actions.count

    @property
    def action_labels(self) -> tuple[str, ...]:
        """Return the labels of the actions, in order; empty where there are none."""
        return () if self.pairs is None else tuple(map(str, self.pairs.actions.names))

    @property
    def keys_per_arm(self) -> int:
        """Return how many keys one arm has: its states, or all pairs of a state and an action."""
        return self.state_count if self.pairs is None else self.pairs.count

    @property
    def arm_labels(self) -> tuple[str, ...]:
        """Return the labels of the arms; empty where there are none."""
        return self.arms.names

    @property
    def arm_count(self) -> int:
        """Return G, or 1 where there are no arms."""
        return max(len(self.arms.labels), 1)

    @property
    def arms_are_independent(self) -> bool:
        """Return whether nobody may be in two arms.

        A unit is in one; with unit = "trajectory", a person may have several.
        """
        several = "person" in self.data.given and not self.data.one_trajectory_per_person
        return self.privacy.unit == "person" or not several

    @property
    def key_count(self) -> int:
        """Return the number of values: N, G N, or how many pairs of a state and an action."""
        return self.arm_count * self.keys_per_arm

    @property
    def key_names(self) -> tuple[str, ...] | range:
        """Return the labels of the keys: the states', with the arm before or the action after."""
        if self.pairs is not None:
            return tuple(map(self.pairs.label, range(self.pairs.count)))
        if not self.arm_labels:
            return self.state_names
        return tuple(f"{arm}: {state}" for arm in self.arm_labels for state in self.state_names)

    def in_one_arm(self) -> "Study":
        """Return the same study without arms: what holds of each arm by itself."""
        return self.model_copy(update={"arms": Arms()}) if self.arm_labels else self

    @property
    def key_visits(self) -> NDArray[np.float64] | None:
        """Return the prior of visits of each key, or None: arms are taken to be equally large."""
        visits = self.visit_prior
        return None if visits is None else np.tile(visits / self.arm_count, self.arm_count)

    @property
    def key_weights(self) -> NDArray[np.float64]:
        """Return the weights of each key: those of the states, in every arm, for every action."""
        if self.pairs is not None:
            return self.state_weights[self.pairs.state_of]
        return np.tile(self.state_weights, self.arm_count)

    @property
    def raw_labels(self) -> Mapping[str, int] | None:
        """Return raw label -> state's position, or None if the rows hold numbers."""
        return self._tables.raw_labels

    @property
    def bins(self) -> Mapping[str, tuple[float, ...]]:
        """Return the edges of every column that states are made of; empty if there are none."""
        return self.states.bins or {}

    @property
    def has_intervals(self) -> bool:
        """Return whether the release says how large its noise is."""
        return self.mechanism.name in {"dp-ssp", "dp-ope"}

    # What one person can change

    @property
    def states_per_trajectory(self) -> int:
        """Return H, the most distinct states, or pairs, that a trajectory counts for."""
        return min(self.keys_per_arm, self.privacy.max_states_per_trajectory or self.keys_per_arm)

    @property
    def trajectories_per_person(self) -> int:
        """Return L, the most trajectories that count per unit of privacy."""
        return self.privacy.max_trajectories_per_person or 1

    @property
    def size_is_public(self) -> bool:
        """Return whether the number of units is the same for all neighbours, and may be counted.

        To replace a unit leaves the number as it is. But if invalid units or trajectories
        that were cut off are dropped, a unit may be replaced by one of which nothing is left. And
        a release on a ledger may be about some of its dataset's people alone: a unit may be
        replaced by one of the others, and the sizes of two such releases would tell.
        """
        drops = self.data.invalid == "drop-unit" or self.drops_cut
        is_secret = drops or self._is_on_ledger
        return self.privacy.neighbours == "replace-one" and not is_secret

    def on_ledger(self) -> Self:
        """Return the study of a release that a ledger records: no size is counted for it."""
        found = self.model_copy()
        found._is_on_ledger = True
        return found

    @property
    def drops_cut(self) -> bool:
        """Return whether a unit with a trajectory that was cut off counts as nobody."""
        return self.values.truncated == "drop-unit"

    @property
    def stages(self) -> tuple[str, ...]:
        """Return the stages before the values, "auto" decided: "bounds", or none."""
        chosen = self.mechanism.stages
        if chosen == "auto":
            return automatic_stages(self)
        return () if chosen == "one" else chosen

    # Another policy than the data's

    @property
    def values_a_policy(self) -> bool:
        """Return whether another policy's value is released, and none of states."""
        return self.mechanism.name == "dp-ope"

    @property
    def policies(self) -> PolicyTables:
        """Return the target's and the behaviour's probabilities of every pair, with dp-ope."""
        assert self._tables.policies is not None
        return self._tables.policies

    @property
    def start_names(self) -> tuple[str, ...] | range:
        """Return the labels of the start states, where each has a number of its own; or none."""
        return self.state_names if self.policy.by == "start" else ()

    @property
    def limits(self) -> Limits:
        """Return what one unit may contribute: all that the core needs to add up contributions."""
        weighted = self.values_a_policy
        return Limits(
            unit=self.privacy.unit,
            neighbours=self.privacy.neighbours,
            keys=max(len(self.start_names), 1) if weighted else self.key_count,
            arms=self.arm_count,
            max_states_per_trajectory=1 if weighted else self.states_per_trajectory,
            max_trajectories_per_person=self.trajectories_per_person,
            discount=self.values.discount,
            return_bounds=self.return_bounds,
            reward_bounds=self.values.rewards,
            levels=MOST_LEVELS if "bounds" in self.stages else 1,
            clip=float(self.policy.clip or 0.0),
            drop_invalid=self.data.invalid == "drop-unit",
            drop_truncated=self.drops_cut,
            size_is_public=self.size_is_public,
        )

    # What is known of each state

    @property
    def return_bounds(self) -> tuple[float, float]:
        """Return [F_lo, F_hi]."""
        return self.values.return_bounds

    @property
    def state_weights(self) -> NDArray[np.float64]:
        """Return w of DP-LSW or rho of DP-LSL; read-only."""
        return self._tables.weights

    @property
    def start_distribution(self) -> NDArray[np.float64] | None:
        """Return the public start distribution, or None."""
        return self._tables.start

    @property
    def visit_prior(self) -> NDArray[np.float64] | None:
        """Return the public prior of the probability of visiting each state, or pair, or None."""
        return self._tables.visits

    @property
    def feature_matrix(self) -> Matrix | None:
        """Return Phi if the study gives it as a matrix, or None."""
        return self._tables.matrix

    @property
    def shrink_targets(self) -> NDArray[np.float64] | None:
        """Return a basis of the features that tabular values are shrunk towards, or None."""
        return self._tables.targets

    def tied_keys(self, size: int) -> NDArray[np.int64]:
        """Return which value each key of an arm shares with ``size - 1`` adjacent states'."""
        return tied(self._tables.names, self.pairs, size)

    @property
    def side_files(self) -> Mapping[str, str]:
        """Return the SHA-256 of every side file, by the key that names it."""
        return {file.key: file.sha256 for file in self._tables.files}

    def __eq__(self, other: object) -> bool:
        """Return whether all that is public is the same, whatever its files are called."""
        return isinstance(other, Study) and self._content() == other._content()

    def _content(self) -> tuple[Any, ...]:
        """Return the description without the names of files, and the hashes of what they hold.

        A matrix is the same in a file and in memory.
        """
        described = self.public_description()
        del described["side_files"]
        for section, keys in FILE_KEYS.items():
            for name in keys:
                if _names_a_file(described, section, name):
                    described[section][name] = "a file"
        described["features"].pop("file", None)
        matrix = self.feature_matrix
        hashes = {key: sha for key, sha in self.side_files.items() if "[features]" not in key}
        return described, hashes, matrix is not None and describe_matrix(matrix).sha256

    __hash__ = None  # type: ignore[assignment]

    def public_description(self) -> dict[str, Any]:
        """Return the study as plain values, for a release, with the side files' hashes."""
        unused = {
            "features": {"matrix"} if self.features.shrink else {"matrix", "shrink"},
            "report": set() if self.has_intervals else {"level"},
        }
        description = self.model_dump(mode="json", exclude=unused, exclude_none=True)
        if not self.arms.labels:
            del description["arms"]  # as studies without arms were always described
        if not self.actions.named:
            del description["actions"], description["data"]["action"]  # likewise
        if not self.values_a_policy:
            del description["policy"]
        if not self.policy.is_logged:
            del description["data"]["probability"]
        if self.states.bins is not None:
            del description["data"]["state"]  # no such column is read
        if self.privacy.unit != "person" and "person" not in self.data.given:
            del description["data"]["person"]  # likewise
        if self.data.one_trajectory_per_person:
            del description["data"]["trajectory"]  # likewise
        description["side_files"] = [
            {"key": file.key, "name": file.name, "sha256": file.sha256}
            for file in self._tables.files
        ]
        return description


_NAMED = frozenset(signature(Study.__init__).parameters) - {"self", "place", "others"}


def described_values(description: Mapping[str, Any]) -> Values:
    """Rebuild ``[values]`` from a description, without the start distribution."""
    return Values(**_without_start(description))


def files_named(description: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return section and key of the files that a description names, without the start."""
    found = [
        (section, name)
        for section, names in FILE_KEYS.items()
        for name in names
        if section != "values" and _names_a_file(description, section, name)
    ]
    if description["features"].get("kind") == "matrix" and ("features", "file") not in found:
        found.append(("features", "matrix"))
    return found


def _names_a_file(description: Mapping[str, Any], section: str, name: str) -> bool:
    """Return whether a key of a description holds the name of a file."""
    written = description.get(section, {}).get(name)
    return isinstance(written, str) and written != _NO_FILES.get((section, name))


def _without_start(description: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``[values]`` of a description without the start distribution."""
    return {name: v for name, v in description["values"].items() if name != "start"}
