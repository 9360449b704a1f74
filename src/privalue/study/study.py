"""Hold a study: everything that is public about a release.

A study is complete before any data is opened: states, discount, bounds, weights, features, unit of
privacy, mechanism. The data never adds to it. A study file is TOML, in sections; in Python the same
keys are flat keywords::

    Study(states=40, discount=0.99, returns=(0, 1), epsilon=1.0, delta=1e-6, unit="trajectory")

| symbol        | here                          | meaning                                 |
|---------------|-------------------------------|-----------------------------------------|
| N             | ``study.names.count``         | number of states                        |
| gamma         | ``study.values.discount``     | discount                                |
| F_lo, F_hi    | ``values.return_bounds``      | public bounds of a first-visit return   |
| w or rho      | ``study.state_weights``       | regression weights, one per state       |
| H, L          | ``study.limits``              | most distinct states, and most          |
|               |                               | trajectories, that count                |
| G             | ``study.arm_count``           | number of arms; 1 without any           |
| G N           | ``study.key_count``           | number of keys: states, or (arm, state) |
|               |                               | with actions, pairs (state, action)     |

A key that does not apply is refused, never accepted and ignored.
"""

import copy
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from inspect import Parameter, Signature
from pathlib import Path
from typing import Any

import numpy as np

from privalue.core import MOST_LEVELS, Limits, Vector
from privalue.errors import StudyError
from privalue.ledger.files import read_whole
from privalue.study.checks import check_sections, check_sizes, require
from privalue.study.heuristics import decide_stages
from privalue.study.keywords import KEYWORDS, place_keywords
from privalue.study.messages import meant, one_line, refusal
from privalue.study.policies import describe_policy
from privalue.study.sections import SECTIONS, Section, Sections, Values, build_section
from privalue.study.side_files import SideFiles
from privalue.study.state_tables import Tables, read_tables

MOST_STUDY = 64_000_000  # bytes of a study file
# Keys that mean something by being written, even at their default.
_WRITTEN = {"person", "trajectory", "ridge", "ridge_scale", "stage_shares"}
# Keys that a description has even if nobody wrote them, and sections that it has even if empty.
_STATED = {"study": {"name"}, "values": {"rewards"}, "mechanism": {"name"}}
_FILES = {"file", "groups", "visits", "allowed", "target", "behaviour", "start"}  # may name one
_OPTIONAL = {"arms", "actions", "policy"}
_ELSEWHERE = {"matrix", "target", "behaviour", "kind"}  # of any form: described by what they hold


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Study(Sections, Tables):
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
        ends: labels of rows that end a trajectory and are no state; or {label: reward}, in place of
            a reward column (default none).
        reward_per_row: of every row that is no end, in place of a reward column (default none).
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
    >>> study.values.return_bounds, study.mechanism.name
    ((0.0, 1.0), 'dp-ssp')
    """

    implied: Mapping[str, tuple[float, float]]  # keys of values that follow from fixed rewards
    folders: tuple[Path, ...]  # that side files must be in; none: anywhere

    # What help() and editors show: every keyword, from the one map of them.
    __signature__ = Signature(
        [Parameter(word, Parameter.KEYWORD_ONLY, default=None) for word in KEYWORDS]
    )

    def __init__(self, **keywords: Any) -> None:
        self._build(place_keywords(keywords), ())

    def _build(self, given: Mapping[str, Any], folders: tuple[Path, ...]) -> None:
        """Check the sections that were given, read the side files, and fill in the attributes."""
        for name in given:
            if name not in SECTIONS:
                raise refusal("section-unknown", name, meant(name, SECTIONS))
        fields = vars(self)
        for name in SECTIONS:
            fields[name] = build_section(name, given.get(name, {}))
        fields["implied"] = self.bounds_of_fixed()
        if self.implied:
            fields["values"] = build_section("values", {**given.get("values", {}), **self.implied})
        fields["folders"] = folders
        require(self, check_sections(self))
        fields |= vars(read_tables(self, SideFiles(*folders)))
        require(self, check_sizes(self, self.names.count, self.key_count))

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
        folders = [Path(path).parent]
        if side_files is not None:
            folders.append(Path(side_files))
            if not folders[1].is_dir():
                raise refusal("side-files-missing", argument=("side_files", str(side_files)))
        try:
            text = read_whole(path, MOST_STUDY).decode("utf-8-sig")
            return cls.parse(text, *folders)
        except FileNotFoundError:
            raise refusal("study-missing", path) from None
        except (OSError, UnicodeDecodeError) as problem:
            raise refusal("study-unreadable", path, one_line(problem)) from None
        except StudyError as problem:
            problem.args = (f"{path}: {problem.args[0]}",)
            raise

    @classmethod
    def parse(cls, text: str, *folders: Path) -> "Study":
        """Read the study that TOML text describes.

        Args:
            text: the study.
            folders: that side files must be in; the current one, if left out.
        """
        try:
            sections = tomllib.loads(text)
        except (tomllib.TOMLDecodeError, RecursionError, ValueError) as problem:
            raise refusal("toml-invalid", one_line(problem)) from None
        tables = {name: keys for name, keys in sections.items() if isinstance(keys, dict)}
        questions = [
            f"[{name}] {key}" for name, keys in tables.items() for key in keys if keys[key] == "?"
        ]
        if questions:
            raise refusal("questions-left", len(questions), ", ".join(questions))
        return cls.from_sections(sections, *(folder.absolute() for folder in folders or [Path()]))

    @classmethod
    def from_description(
        cls, description: Mapping[str, Any], **sections: Mapping[str, Any]
    ) -> "Study":
        """Rebuild the study that a release describes; ``public_description`` is the way there.

        Args:
            description: ``release.study``.
            sections: sections in place of the description's.

        Raises:
            StudyError: a section names a side file, of which a description holds the hash only.
        """
        described = {name: keys for name, keys in description.items() if name in SECTIONS}
        if described.get("features", {}).get("kind") == "matrix" and "features" not in sections:
            raise refusal("description-without-file", "features", "file")
        for section in described.keys() - sections.keys():
            # It may come from anybody: what it names is never opened.
            for key in _FILES & described[section].keys():
                named = described[section][key]
                if isinstance(named, str) and named != "column":
                    raise refusal("description-without-file", section, key)
        return cls.from_sections({**described, **sections})

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

    def sections(self) -> dict[str, dict[str, Any]]:
        """Return the keys that the study sets explicitly, by section."""
        sections = {}
        for name in SECTIONS:
            section = getattr(self, name)
            written = section.given - self.implied.keys()
            sections[name] = {key: value for key, value in section if key in written}
        return sections

    def on_ledger(self) -> "Study":
        """Return the study of a release that a ledger records: no size is counted for it.

        It may be about some of its dataset's people alone: a unit may be replaced by one of the
        others, and the sizes of two such releases would tell.
        """
        found = copy.copy(self)
        vars(found)["limits"] = replace(self.limits, size_is_public=False)
        return found

    def __eq__(self, other: object) -> bool:
        """Return whether all that is public is the same."""
        return isinstance(other, Study) and self.public_description() == other.public_description()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        mechanism, states = self.mechanism.name, self.names.count
        return f"Study({self.study.name!r}, states={states}, mechanism={mechanism!r})"

    # The keys: states, or every state of every arm, the first arm's states first; or the pairs of
    # a state and an action, the first state's actions first

    @property
    def keys_per_arm(self) -> int:
        """Return how many keys one arm has: its states, or all pairs of a state and an action."""
        return self.names.count if self.pairs is None else self.pairs.count

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

    def key_label(self, at: int) -> str:
        """Return what a key is called: its state, with the arm before or the action after."""
        arm, key = divmod(at, self.keys_per_arm)
        label = (self.pairs or self.names).label(key)
        return f"{self.arms.names[arm]}: {label}" if self.arms.names else label

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

    # What one person can change

    @cached_property
    def stages(self) -> tuple[str, ...]:
        """Return the stages before the values, "auto" decided: "bounds", or none."""
        return decide_stages(self, self.key_count, self.study.trajectories)

    @cached_property
    def limits(self) -> Limits:
        """Return what one unit may contribute: all that the core needs to add up contributions.

        The number of units may be counted where it is the same for all neighbours. To replace a
        unit leaves it as it is. But if invalid units or trajectories that were cut off are dropped,
        a unit may be replaced by one of which nothing is left.
        """
        privacy = self.privacy
        drops = self.data.invalid == "drop-unit"
        drops_cut = self.data.truncated_rows == "drop-unit"
        keys, per_arm = self.key_count, self.keys_per_arm
        most_states = min(per_arm, privacy.max_states_per_trajectory or per_arm)
        if self.is_off_policy:  # a start is a key, if each has a number of its own
            keys, most_states = self.names.count if self.policy.by else 1, 1
        return Limits(
            unit=privacy.unit,
            neighbours=privacy.neighbours,
            keys=keys,
            arms=self.arm_count,
            max_states_per_trajectory=most_states,
            max_trajectories_per_person=privacy.max_trajectories_per_person or 1,
            discount=self.values.discount,
            return_bounds=self.values.return_bounds,
            reward_bounds=self.values.rewards,
            levels=MOST_LEVELS if self.stages else 1,
            clip=float(self.policy.clip or 0.0),
            has_ends=self.states.ends is not None,
            drop_invalid=drops,
            drop_truncated=drops_cut,
            size_is_public=privacy.neighbours == "replace-one" and not (drops or drops_cut),
        )

    def public_description(self) -> dict[str, Any]:
        """Return the study as plain values, for a release, with the side files' hashes.

        A section has the keys that were written and differ from their defaults, so that a key that
        a later version adds changes no description; sections that are empty are left out if they
        are optional. A policy is by the labels of states and actions, in whatever form it was
        written. ``study_hash`` says what of it identifies a request.
        """
        description: dict[str, Any] = {}
        for name in SECTIONS:
            section = getattr(self, name)
            stated = {key for key in section.given - _ELSEWHERE if _says_something(section, key)}
            stated |= _STATED.get(name, set())
            if stated or name not in _OPTIONAL:
                description[name] = section.model_dump(mode="json", include=stated)
        if self.features.kind != "tabular":
            description["features"]["kind"] = self.features.kind
        if self.is_off_policy:
            for key in ("target", "behaviour"):
                written, table = getattr(self.policy, key), self.policies.get(key)
                description["policy"][key] = describe_policy(written, table, self.pairs)
        description["side_files"] = [file.describe() for file in self.files]
        return description


def _says_something(section: Section, key: str) -> bool:
    """Return whether a key that was written differs from its default, or means more than that."""
    return key in _WRITTEN or bool(getattr(section, key) != section.default(key))


def described_values(description: Mapping[str, Any]) -> Values:
    """Rebuild ``[values]`` from a description, without the start distribution."""
    return Values(**{name: v for name, v in description["values"].items() if name != "start"})
