"""Define ``Study``: everything that is public about a release.

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
| H, L          | ``study.limits``              | contribution bounds: distinct states per|
|               |                               | trajectory, trajectories per person     |
| G             | ``study.arm_count``           | number of arms; 1 without any           |
| G N           | ``study.key_count``           | number of keys: states, or (arm, state) |
|               |                               | with actions, (state, action)           |

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

from privalue.core import MAX_LEVELS, Limits, Vector
from privalue.errors import StudyError, one_line
from privalue.ledger.files import read_whole
from privalue.study.checks import check_sections, check_sizes, require
from privalue.study.heuristics import decide_stages
from privalue.study.keywords import KEYWORDS, place_keywords
from privalue.study.messages import refusal, suggest
from privalue.study.policies import describe_policy
from privalue.study.sections import SECTIONS, Section, Sections, Values, build_section
from privalue.study.side_files import SideFiles
from privalue.study.state_tables import Tables, read_tables

MAX_STUDY_BYTES = 64_000_000  # bytes of a study file
# Keys whose presence has an effect, even at their default.
_EFFECTIVE = {"person", "trajectory", "ridge", "ridge_scale", "stage_shares"}
# Keys that every description has, explicit or not; and sections that it has only if not empty.
_REQUIRED = {"study": {"name"}, "values": {"rewards"}, "mechanism": {"name"}}
_FILE_KEYS = {"file", "groups", "visits", "allowed", "target", "behaviour", "start"}
_OPTIONAL = {"arms", "actions", "policy"}
_SEPARATE = {"matrix", "target", "behaviour", "kind"}  # described by their content, in any form


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Study(Sections, Tables):
    """Everything public about a release; frozen, and validated when it is built.

    Numbers by state are a table by label, a list in order, or a file. The other keys of
    ``[mechanism]`` and ``[data]`` are keywords, too, e.g. ``ridge=5.0``, ``invalid="drop-unit"``.

    Args:
        states: labels as a list, their number, or a file of them (this or bins is required).
        bins: public edges that cut columns of numbers into states, as {"age": [50, 70]}.
        discount: gamma, applied once per row, above 0 and at most 1 (required).
        returns: public bounds (low, high) of a discounted return (default: as rewards imply).
        rewards: public bounds (low, high) of a reward (default: as returns imply).
        unvisited: the value of a state without visits (default: 0, or the bound next to it).
        start: public start distribution: also release the policy's overall value (default none).
        epsilon: the privacy loss, from 0.001 to 20 (required).
        delta: the probability that the loss exceeds epsilon, below 1/m (required).
        unit: whom to protect: "trajectory", or "person" with all of theirs (required).
        neighbours: the neighbouring relation, "replace-one" (default) or "add-remove".
        max_trajectories_per_person: contribution bound (required with unit "person").
        max_states_per_trajectory: contribution bound, of distinct states (default: all).
        name: of the release (default "untitled").
        dataset: the name of the people in the data, for the ledger (default none).
        period: distinguishes repeated releases, such as "2026-11" (default none).
        trajectories: their number, as publicly declared (default none).
        ends: labels of rows that end a trajectory and are no state; or {label: reward}, in place of
            a reward column (default none).
        reward_per_row: of every row except ends, in place of a reward column (default none).
        groups: public map from raw labels to these states (default none).
        visits: public prior of the probability that a trajectory visits each state (default none).
        features: a matrix with a row for each state, or its file (default tabular).
        size: how many adjacent states share one value (default 1).
        weights: regression weights by state (default 1 everywhere).
        arms: labels of arms (default none).
        actions: labels of actions, their number, or a file of them (default none).
        allowed: the possible actions of each state (default all).
        policy: the policy to evaluate with "dp-ope", as {"target": ..., "behaviour": ...,
            "clip": 10} (default none).
        mechanism: "dp-ssp" (default), "dp-lsw", "dp-lsl" or "dp-ope".
        level: of intervals (default 0.95).
        outcome: what a value is, for headings and axes; ``outcome_unit`` its unit.
        columns: names of columns, as {"trajectory": "stay_id"} (default: their roles).

    >>> study = Study(states=["ill", "well"], discount=0.9, returns=(0, 1), epsilon=1.0,
    ...               delta=1e-6, unit="trajectory")
    >>> study.values.return_bounds, study.mechanism.name
    ((0.0, 1.0), 'dp-ssp')
    """

    implied: Mapping[str, tuple[float, float]]  # bounds in [values] that follow from fixed rewards
    folders: tuple[Path, ...]  # side files must be in one of them; empty: anywhere

    # The keywords that help() and editors show.
    __signature__ = Signature(
        [Parameter(word, Parameter.KEYWORD_ONLY, default=None) for word in KEYWORDS]
    )

    def __init__(self, **keywords: Any) -> None:
        self._build(place_keywords(keywords), ())

    def _build(self, sections: Mapping[str, Any], folders: tuple[Path, ...]) -> None:
        """Validate the sections, read the side files, and set the attributes."""
        for name in sections:
            if name not in SECTIONS:
                raise refusal("section-unknown", name, suggest(name, SECTIONS))
        fields = vars(self)
        for name in SECTIONS:
            fields[name] = build_section(name, sections.get(name, {}))
        fields["implied"] = self.implied_bounds()
        if self.implied:
            explicit = sections.get("values", {})
            fields["values"] = build_section("values", {**explicit, **self.implied})
        fields["folders"] = folders
        require(self, check_sections(self))
        fields |= vars(read_tables(self, SideFiles(*folders)))
        require(self, check_sizes(self, self.names.count, self.key_count))

    @classmethod
    def from_sections(cls, sections: Mapping[str, Any], *folders: Path) -> "Study":
        """Return the study with these sections, in the form of a study file.

        Args:
            sections: keys and values, by section.
            folders: side files must be in one of them; anywhere, if left out.
        """
        study = object.__new__(cls)
        study._build(sections, folders)
        return study

    @classmethod
    def load(cls, path: str | Path, *, side_files: str | Path | None = None) -> "Study":
        """Read a study from a TOML file, and its side files from the same folder.

        Args:
            path: the study file.
            side_files: another folder, for side files outside the study's own.
        """
        folders = [Path(path).parent]
        if side_files is not None:
            folders.append(Path(side_files))
            if not folders[1].is_dir():
                raise refusal("side-files-missing", argument=("side_files", str(side_files)))
        try:
            text = read_whole(path, MAX_STUDY_BYTES).decode("utf-8-sig")
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
        """Read a study from TOML text.

        Args:
            text: the study.
            folders: side files must be in one of them; the current one, if left out.
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
        """Rebuild the study of a release: the inverse of ``public_description``.

        Args:
            description: ``release.study``.
            sections: replace those of the description.

        Raises:
            StudyError: a section names a side file, of which a description has only the hash.
        """
        described = {name: keys for name, keys in description.items() if name in SECTIONS}
        if described.get("features", {}).get("kind") == "matrix" and "features" not in sections:
            raise refusal("description-without-file", "features", "file")
        for section in described.keys() - sections.keys():
            # A description is not trusted: a file that it names is never opened.
            for key in _FILE_KEYS & described[section].keys():
                name = described[section][key]
                if isinstance(name, str) and name != "column":
                    raise refusal("description-without-file", section, key)
        return cls.from_sections({**described, **sections})

    def replace(self, **changes: Any) -> "Study":
        """Return a study with some keywords changed, validated again.

        Args:
            changes: keywords of ``Study``; None resets one to its default.

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
            keys = section.explicit_keys - self.implied.keys()
            sections[name] = {key: value for key, value in section if key in keys}
        return sections

    def on_ledger(self) -> "Study":
        """Return the study for a release on a ledger: its size is then not public.

        Such a release may be about only some of the dataset's people. A unit may then be replaced
        by one outside of it, and the sizes of two releases would reveal that.
        """
        study = copy.copy(self)
        vars(study)["limits"] = replace(self.limits, size_is_public=False)
        return study

    def __eq__(self, other: object) -> bool:
        """Return whether the public descriptions are equal."""
        return isinstance(other, Study) and self.public_description() == other.public_description()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        name, mechanism = self.study.name, self.mechanism.name
        return f"Study({name!r}, states={self.names.count}, mechanism={mechanism!r})"

    # The keys: states; with arms, (arm, state), arm by arm; with actions, (state, action), state by
    # state

    @property
    def keys_per_arm(self) -> int:
        """Return the number of keys of one arm: its states, or pairs of state and action."""
        return self.names.count if self.pairs is None else self.pairs.count

    @property
    def arm_count(self) -> int:
        """Return G, or 1 where there are no arms."""
        return max(len(self.arms.labels), 1)

    @property
    def arms_are_independent(self) -> bool:
        """Return whether no person can be in two arms.

        Every unit is in one arm; with unit = "trajectory", a person may be several units.
        """
        several = "person" in self.data.explicit_keys and not self.data.one_trajectory_per_person
        return self.privacy.unit == "person" or not several

    @property
    def key_count(self) -> int:
        """Return the number of values: N, G N, or the number of pairs of state and action."""
        return self.arm_count * self.keys_per_arm

    def key_label(self, position: int) -> str:
        """Return the label of a key: its state, with the arm before or the action after."""
        arm, key = divmod(position, self.keys_per_arm)
        label = (self.pairs or self.names).label(key)
        return f"{self.arms.names[arm]}: {label}" if self.arms.names else label

    @property
    def key_visits(self) -> Vector | None:
        """Return the prior of visits of each key, or None; arms are assumed to be equally large."""
        visits = self.visit_prior
        return None if visits is None else np.tile(visits / self.arm_count, self.arm_count)

    @property
    def key_weights(self) -> Vector:
        """Return the weight of each key: that of its state."""
        if self.pairs is not None:
            return self.state_weights[self.pairs.state_of]
        return np.tile(self.state_weights, self.arm_count)

    # Sensitivity

    @cached_property
    def stages(self) -> tuple[str, ...]:
        """Return the stages before the values, "auto" decided: "bounds", or none."""
        return decide_stages(self, self.key_count, self.study.trajectories)

    @cached_property
    def limits(self) -> Limits:
        """Return the contribution bounds, and all else that the core needs to sum contributions.

        The number of units is public if it is the same for all neighbours. Replacing a unit does
        not change it; but if invalid or truncated units are dropped, the replacement may be one
        that is dropped.
        """
        privacy = self.privacy
        drop_invalid = self.data.invalid == "drop-unit"
        drop_truncated = self.data.truncated_rows == "drop-unit"
        keys, per_arm = self.key_count, self.keys_per_arm
        most_states = min(per_arm, privacy.max_states_per_trajectory or per_arm)
        if self.is_off_policy:  # the keys are starts, or there is one for all
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
            levels=MAX_LEVELS if self.stages else 1,
            clip=float(self.policy.clip or 0.0),
            has_ends=self.states.ends is not None,
            drop_invalid=drop_invalid,
            drop_truncated=drop_truncated,
            size_is_public=privacy.neighbours == "replace-one"
            and not (drop_invalid or drop_truncated),
        )

    def public_description(self) -> dict[str, Any]:
        """Return the study as plain values, for a release, with the hashes of its side files.

        A section has the explicit keys that differ from their defaults, so that a key that a later
        version adds changes no description; optional sections are left out if they are empty. A
        policy is described by the labels of states and actions, whatever its form was.
        ``study_hash`` selects the parts that identify a request.
        """
        description: dict[str, Any] = {}
        for name in SECTIONS:
            section = getattr(self, name)
            keys = {key for key in section.explicit_keys - _SEPARATE if _matters(section, key)}
            keys |= _REQUIRED.get(name, set())
            if keys or name not in _OPTIONAL:
                description[name] = section.model_dump(mode="json", include=keys)
        if self.features.kind != "tabular":
            description["features"]["kind"] = self.features.kind
        if self.is_off_policy:
            for key in ("target", "behaviour"):
                policy, table = getattr(self.policy, key), self.policies.get(key)
                description["policy"][key] = describe_policy(policy, table, self.pairs)
        description["side_files"] = [file.describe() for file in self.files]
        return description


def _matters(section: Section, key: str) -> bool:
    """Return whether an explicit key differs from its default, or has an effect at it."""
    return key in _EFFECTIVE or bool(getattr(section, key) != section.default(key))


def described_values(description: Mapping[str, Any]) -> Values:
    """Return the section ``[values]`` of a description, without the start distribution."""
    return Values(**{name: v for name, v in description["values"].items() if name != "start"})
