"""Hold a study: everything that is public about a release.

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

import copy
import io
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from inspect import Parameter, Signature
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import scipy.sparse as sp

from privalue.core import MOST_LEVELS, Limits, Matrix, Vector, gaussian
from privalue.errors import StudyError, UsageError
from privalue.ledger import study_hash
from privalue.ledger.files import read_whole, whole_file
from privalue.study import sections
from privalue.study.checks import AFTER_FILES, CHECKS, require
from privalue.study.columns import Columns
from privalue.study.heuristics import bin_noise, bounds_pay
from privalue.study.keywords import KEYWORDS, Sections, place_keywords
from privalue.study.sections import SMOOTH, Values, build_section, format_value, meant
from privalue.study.side_files import SideFiles
from privalue.study.state_tables import PairNames, PolicyTables, StateNames, Tables, read_tables
from privalue.study.template import SECTIONS, study_template, to_toml

MOST_STUDY = 64_000_000  # bytes of a study file
MOST_CELLS = 2_000_000  # states x levels x sides: a bound needs a count and a sum in each
# Keys that mean something by being written, even at their default.
_WRITTEN = {"data": {"person", "trajectory"}, "mechanism": {"ridge", "ridge_scale", "stage_shares"}}
# Keys that a description has even if nobody wrote them, and sections that it has even if empty.
_STATED = {"study": {"name"}, "values": {"rewards"}, "mechanism": {"name"}}
_OPTIONAL = {"arms", "actions", "policy"}


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Study:
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
        outcome: what a value is, for headings and axes; ``outcome_unit`` its unit.
        columns: names of columns, as {"trajectory": "stay_id"} (default: as they are called here).

    >>> study = Study(states=["ill", "well"], discount=0.9, returns=(0, 1), epsilon=1.0,
    ...               delta=1e-6, unit="trajectory")
    >>> study.return_bounds, study.mechanism.name
    ((0.0, 1.0), 'dp-ssp')
    """

    study: sections.About
    privacy: sections.Privacy
    values: Values
    states: sections.States
    features: sections.Features
    weights: sections.Weights
    arms: sections.Arms
    actions: sections.Actions
    policy: sections.TargetPolicy
    mechanism: sections.Mechanism
    report: sections.Report
    data: Columns
    tables: Tables  # what the sections and the side files say of each state
    folders: tuple[Path, ...]  # that side files must be in; none: anywhere
    is_on_ledger: bool

    # What help() and editors show: every keyword, from the one map of them.
    __signature__ = Signature(
        [Parameter(word, Parameter.KEYWORD_ONLY, default=None) for word in KEYWORDS]
    )

    def __init__(self, *unnamed: Any, **keywords: Any) -> None:
        if unnamed:
            raise StudyError(
                f"Study({format_value(unnamed[0])}) is not understood: everything is given by "
                "name; Study.load reads a file, and Study.parse a text",
                code="not-named",
            )
        self._build(place_keywords(keywords), ())

    def _build(self, given: Mapping[str, Any], folders: tuple[Path, ...]) -> None:
        """Check the sections that were given, read the side files, and fill in the attributes."""
        for name in given:
            if name not in SECTIONS:
                raise StudyError(
                    f"[{name}] is not a section of a study; {meant(name, SECTIONS)}",
                    code="section-unknown",
                )
        fields = vars(self)
        for name, model in SECTIONS.items():
            fields[name] = build_section(name, model, given.get(name, {}))
        fields |= {"folders": folders, "is_on_ledger": False}
        require(self, CHECKS)
        fields["tables"] = read_tables(self, SideFiles(*folders))
        require(self, AFTER_FILES)

    @classmethod
    def from_sections(cls, sections: Mapping[str, Any], *folders: Path) -> "Study":
        """Return the study of these sections, as a study file has them.

        Args:
            sections: keys and values, by section.
            folders: that side files must be in; anywhere, if left out.
        """
        made = object.__new__(cls)
        made._build(sections, folders)
        return made

    @classmethod
    def load(cls, path: str | Path, *, side_files: str | Path | None = None) -> "Study":
        """Read the study that a TOML file describes; side files are found beside it.

        Args:
            path: the study file.
            side_files: another folder, for side files that are not in the study's own.
        """
        if side_files is not None and not Path(side_files).is_dir():
            raise StudyError(
                f"side_files={str(side_files)!r} is not a folder", code="side-files-missing"
            )
        try:
            text = read_whole(path, MOST_STUDY).decode("utf-8-sig")
        except FileNotFoundError:
            raise StudyError(
                f"the study file {path} does not exist; privalue init writes one",
                code="study-missing",
            ) from None
        except UnicodeDecodeError:
            raise StudyError(
                f"the study file {path} is not UTF-8 text; save it as such", code="study-not-utf-8"
            ) from None
        except OSError as problem:
            raise StudyError(
                f"the study file {path} cannot be read: {problem.strerror}", code="study-unreadable"
            ) from None
        try:
            return cls.parse(text, base=Path(path).parent, side_files=side_files)
        except StudyError as problem:
            raise StudyError(f"{path}: {problem}", code=problem.code) from None

    @classmethod
    def parse(
        cls, text: str, *, base: Path | None = None, side_files: str | Path | None = None
    ) -> "Study":
        """Read the study that TOML text describes; side files are found in ``base``.

        Args:
            text: the study.
            base: the folder that side files must be in; the current one, if left out.
            side_files: another folder that they may be in.
        """
        try:
            sections = tomllib.loads(text)
        except (tomllib.TOMLDecodeError, RecursionError, ValueError) as problem:
            why = " ".join(str(problem).split())[:200]
            raise StudyError(f"not valid TOML: {why}", code="toml-invalid") from None
        tables = {name: keys for name, keys in sections.items() if isinstance(keys, dict)}
        questions = [
            f"[{name}] {key}" for name, keys in tables.items() for key in keys if keys[key] == "?"
        ]
        if questions:
            raise StudyError(
                f"{len(questions)} question(s) are left: {', '.join(questions)}; write the answer "
                'in place of "?"',
                code="questions-left",
            )
        if "matrix" in tables.get("features", ()):
            raise StudyError(
                "[features] matrix is for Python only; name a file instead", code="key-unknown"
            )
        others = () if side_files is None else (Path(side_files).absolute(),)
        return cls.from_sections(sections, (base or Path()).absolute(), *others)

    @classmethod
    def from_description(
        cls, description: Mapping[str, Any], *, start: Any = None, **sections: Mapping[str, Any]
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
                    f"give the section {section}",
                    code="side-file-missing",
                )
        described: Sections = {
            name: dict(sections.get(name, description.get(name, {}))) for name in SECTIONS
        }
        if "values" not in sections:
            described["values"].pop("start", None)
        if start is not None:
            described["values"]["start"] = start
        return cls.from_sections(described)

    def replace(self, **changes: Any) -> "Study":
        """Return the same study with some keywords changed, and checked anew.

        Args:
            changes: what ``Study`` takes; None is the default.

        >>> study = Study(states=3, discount=0.9, returns=(0, 1), epsilon=1, delta=1e-6,
        ...               unit="trajectory")
        >>> study.replace(epsilon=2).privacy.epsilon
        2.0
        """
        return self.from_sections(place_keywords(changes, self.sections()), *self.folders)

    def sections(self) -> Sections:
        """Return the keys that somebody wrote, by section."""
        sections = {name: getattr(self, name) for name in SECTIONS}
        return {
            name: {key: getattr(section, key) for key in type(section).model_fields if key in given}
            for name, section in sections.items()
            if (given := section.given)
        }

    def on_ledger(self) -> "Study":
        """Return the study of a release that a ledger records: no size is counted for it."""
        found = copy.copy(self)
        vars(found).pop("limits", None)
        vars(found)["is_on_ledger"] = True
        return found

    def save(self, path: str | Path, *, replace: bool = False) -> Path:
        """Write the study as a TOML file with every key explained, and its side files beside it.

        A matrix of features goes to ``NAME-features.npy`` (or ``.npz``), and files are copied.

        Args:
            path: the file, e.g. "study.toml".
            replace: whether files of these names that hold something else give way.

        Raises:
            UsageError: a file exists and holds something else, or cannot be written.
        """
        path = Path(path)
        written, contents = self.sections(), dict[str, bytes]()
        for file in self.tables.files:
            section, _, key = file.key.removeprefix("[").partition("] ")
            name, content = PurePath(file.name).name, file.content
            if key == "matrix":
                del written["features"]["matrix"]
                key = "file"
                name, content = self._save_matrix(path.stem)
            if contents.get(name, content) != content or name == path.name:
                raise UsageError(f"two files would be called {name}; rename one", code="file-twice")
            written[section][key] = name
            contents[name] = content
        values = {
            (section, key): to_toml(value)
            for section, keys in written.items()
            for key, value in keys.items()
        }
        contents[path.name] = study_template(values, begin={}).encode()  # last: it names the others
        for name, content in contents.items():
            _write(path.with_name(name), content, replace)
        return path

    def __eq__(self, other: object) -> bool:
        """Return whether all that is public is the same, whatever its files are called."""
        if not isinstance(other, Study):
            return NotImplemented
        mine, theirs = self.public_description(), other.public_description()
        return mine["report"] == theirs["report"] and study_hash(mine) == study_hash(theirs)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        mechanism, states = self.mechanism.name, self.state_count
        return f"Study({self.study.name!r}, states={states}, mechanism={mechanism!r})"

    def _repr_html_(self) -> str:
        from privalue.report import study_html  # noqa: PLC0415 - it imports this package

        return study_html(self)

    # The states, in order

    @property
    def states_in_order(self) -> StateNames:
        """Return the states with their labels, if they have any."""
        return self.tables.names

    @property
    def state_count(self) -> int:
        """Return N."""
        return self.tables.names.count

    @property
    def state_labels(self) -> tuple[str, ...]:
        """Return the labels in order; ``"0" .. "N-1"`` where the study only counts them."""
        return tuple(map(str, self.state_names))

    @property
    def state_names(self) -> tuple[str, ...] | range:
        """Return the labels, or a range of numbers in their place: there may be very many."""
        return self.tables.names.names

    # The keys: states, or every state of every arm, the first arm's states first; or the pairs of
    # a state and an action, the first state's actions first

    @property
    def pairs(self) -> PairNames | None:
        """Return the pairs of a state and an action that have values; None without actions."""
        return self.tables.pairs

    @property
    def action_count(self) -> int:
        """Return how many actions there are; 0 without any."""
        return 0 if self.pairs is None else self.pairs.actions.count

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

    @property
    def key_visits(self) -> Vector | None:
        """Return the prior of visits of each key, or None: arms are taken to be equally large."""
        visits = self.visit_prior
        return None if visits is None else np.tile(visits / self.arm_count, self.arm_count)

    @property
    def key_weights(self) -> Vector:
        """Return the weights of each key: those of the states, in every arm, for every action."""
        if self.pairs is not None:
            return self.state_weights[self.pairs.state_of]
        return np.tile(self.state_weights, self.arm_count)

    @property
    def raw_labels(self) -> Mapping[str, int] | None:
        """Return raw label -> state's position, or None if the rows hold numbers."""
        return self.tables.raw_labels

    @property
    def bins(self) -> Mapping[str, tuple[float, ...]]:
        """Return the edges of every column that states are made of; empty if there are none."""
        return self.states.bins or {}

    @property
    def has_intervals(self) -> bool:
        """Return whether the release says how large its noise is."""
        return self.mechanism.name not in SMOOTH

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
    def drops_cut(self) -> bool:
        """Return whether a unit with a trajectory that was cut off counts as nobody."""
        return self.values.truncated == "drop-unit"

    @cached_property
    def stages(self) -> tuple[str, ...]:
        """Return the stages before the values, "auto" decided: "bounds", or none."""
        chosen = self.mechanism.stages
        if chosen == "auto":
            return self.stages_with(self.study.trajectories)
        return () if chosen == "one" else chosen

    def stages_with(self, trajectories: int | None) -> tuple[str, ...]:
        """Return the stages that "auto" stands for with m trajectories, where that is public."""
        pays = bounds_pay(
            implied=self.values.returns is None,
            discount=self.values.discount,
            trajectories=self.study.trajectories if trajectories is None else trajectories,
            noise=self.bin_noise,
        )
        return ("bounds",) if pays and self.has_room_for_stage else ()

    @cached_property
    def bin_noise(self) -> float:
        """Return the noise of a bin of the histogram of levels, with the usual share."""
        add_remove = self.privacy.neighbours == "add-remove"
        alpha = gaussian(self.privacy.epsilon, self.privacy.delta).alpha
        return bin_noise(self.trajectories_per_person, add_remove, alpha)

    @property
    def has_room_for_stage(self) -> bool:
        """Return whether the sums of a stage for bounds fit in the memory."""
        return 2 * MOST_LEVELS * self.key_count <= MOST_CELLS

    @cached_property
    def limits(self) -> Limits:
        """Return what one unit may contribute: all that the core needs to add up contributions.

        The number of units may be counted where it is the same for all neighbours. To replace a
        unit leaves it as it is. But if invalid units or trajectories that were cut off are dropped,
        a unit may be replaced by one of which nothing is left. And a release on a ledger may be
        about some of its dataset's people alone: a unit may be replaced by one of the others, and
        the sizes of two such releases would tell.
        """
        weighted, drops = self.values_a_policy, self.data.invalid == "drop-unit"
        replaces = self.privacy.neighbours == "replace-one"
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
            levels=MOST_LEVELS if self.stages else 1,
            clip=float(self.policy.clip or 0.0),
            drop_invalid=drops,
            drop_truncated=self.drops_cut,
            size_is_public=replaces and not (drops or self.drops_cut or self.is_on_ledger),
        )

    # Another policy than the data's

    @property
    def values_a_policy(self) -> bool:
        """Return whether another policy's value is released, and none of states."""
        return self.mechanism.name == "dp-ope"

    @property
    def policies(self) -> PolicyTables:
        """Return the target's and the behaviour's probabilities of every pair, with dp-ope."""
        assert self.tables.policies is not None
        return self.tables.policies

    @property
    def start_names(self) -> tuple[str, ...] | range:
        """Return the labels of the start states, where each has a number of its own; or none."""
        return self.state_names if self.policy.by == "start" else ()

    # What is known of each state

    @property
    def return_bounds(self) -> tuple[float, float]:
        """Return [F_lo, F_hi]."""
        return self.values.return_bounds

    @property
    def state_weights(self) -> Vector:
        """Return w of DP-LSW or rho of DP-LSL; read-only."""
        return self.tables.weights

    @property
    def start_distribution(self) -> Vector | None:
        """Return the public start distribution, or None."""
        return self.tables.start

    @property
    def visit_prior(self) -> Vector | None:
        """Return the public prior of the probability of visiting each state, or pair, or None."""
        return self.tables.visits

    @property
    def feature_matrix(self) -> Matrix | None:
        """Return Phi if the study gives it as a matrix, or None."""
        return self.tables.matrix

    @property
    def shrink_targets(self) -> Vector | None:
        """Return a basis of the features that tabular values are shrunk towards, or None."""
        return self.tables.targets

    @property
    def side_files(self) -> Mapping[str, str]:
        """Return the SHA-256 of every side file, by the key that names it."""
        return {file.key: file.sha256 for file in self.tables.files}

    def public_description(self) -> dict[str, Any]:
        """Return the study as plain values, for a release, with the side files' hashes.

        A section has the keys that were written and differ from their defaults, so that a key that
        a later version adds changes no description; sections that are empty are left out if they
        are optional. ``study_hash`` says what of it identifies a request.
        """
        description: dict[str, Any] = {}
        for name in SECTIONS:
            section = getattr(self, name)
            values = section.model_dump(mode="json", exclude={"matrix"})
            always, written = _STATED.get(name, set()), _WRITTEN.get(name, set())
            description[name] = {
                key: value
                for key, value in values.items()
                if key in always
                or (
                    key in section.given
                    and (key in written or getattr(section, key) != section.default(key))
                )
            }
        if self.features.kind != "tabular":
            description["features"]["kind"] = self.features.kind
        if self.weights.kind is not None:
            del description["weights"]["kind"]
        for name in _OPTIONAL:
            if not description[name]:
                del description[name]
        description["side_files"] = [
            {"key": file.key, "name": file.name, "sha256": file.sha256}
            for file in self.tables.files
        ]
        return description

    def _save_matrix(self, stem: str) -> tuple[str, bytes]:
        """Return the name and the content of a file for the matrix of features."""
        buffer, matrix = io.BytesIO(), self.feature_matrix
        assert matrix is not None
        if isinstance(matrix, np.ndarray):
            np.save(buffer, matrix, allow_pickle=False)
            return f"{stem}-features.npy", buffer.getvalue()
        sp.save_npz(buffer, matrix)
        return f"{stem}-features.npz", buffer.getvalue()


def described_values(description: Mapping[str, Any]) -> Values:
    """Rebuild ``[values]`` from a description, without the start distribution."""
    return Values(**{name: v for name, v in description["values"].items() if name != "start"})


def files_named(description: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return section and key of the files that a description names, without the start."""
    keys = [file["key"].removeprefix("[").split("] ") for file in description["side_files"]]
    return [(section, key) for section, key in keys if section != "values"]


def _write(target: Path, content: bytes, replace: bool) -> None:
    """Write a file whole or not at all; refuse to write over one that holds something else."""
    try:
        if not replace and target.exists() and target.read_bytes() != content:
            raise UsageError(
                f"{target} exists and holds something else; give another name, or replace=True",
                code="file-exists",
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(target) as partial:
            partial.write_bytes(content)
    except OSError as problem:
        raise UsageError(f"cannot write {target}: {problem.strerror}", code="not-written") from None
