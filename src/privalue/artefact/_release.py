"""Define the public artefact: what leaves, and nothing else.

A release holds the study (public), what is promised, and the analysed mechanism's output. It never
holds counts, sigma, psi or anything else that depends on the data in another way. Its JSON schema
is ``docs/release.schema.json``, made from this model.
"""

import hashlib
from collections import deque
from collections.abc import Iterator, Mapping
from graphlib import TopologicalSorter
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field, PrivateAttr, ValidationError

from privalue._folder import FILE_NAME, require_vacant
from privalue._written import counted
from privalue.artefact._columns import Arrays, Flags, arrow_table
from privalue.artefact._parts import (
    Accepted,
    Compared,
    Guarantee,
    Part,
    PolicyInArm,
    PolicyInterval,
    PolicyTrust,
    PolicyTrusts,
    PublicNoise,
    ReleasedStage,
    ReleasedStatistics,
    ReleasedWeights,
    Restriction,
    Software,
)
from privalue.artefact._values import KeptMass, Numbers, StateValue, StateValues, written
from privalue.errors import DataError, NotReleasedError, UnknownLabelError, UsageError
from privalue.ledger.files import read_whole, write_whole

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.axes import Axes

NOT_PRIVATE = "NOT PRIVATE"  # what is said of seeded experiments, wherever they are seen
_MOST = 1 << 36  # bytes of a release: there may be very many states


class Release(Arrays, Part):
    """A value function, released once under differential privacy.

    It is read by label (``release["ill"]``: value, intervals, flags), as arrays in the order of the
    states (``release.value``, ``.low``, ``.total_high``, ...; with arms, arm after arm; with
    actions, the pairs of every state, ``release["ill", "treat"]``, state after state), or as a
    table: ``to_pandas``, ``to_polars``, ``to_arrow``, and whatever reads Arrow streams. ``plot``
    draws it, and a notebook shows it. ``save`` writes it, and ``Release.load`` reads it.

    >>> import privalue as pv
    >>> study = pv.Study(
    ...     states=["ill", "well"], discount=0.9, returns=(0, 1),
    ...     epsilon=1.0, delta=1e-5, unit="trajectory",
    ... )
    >>> release = pv.release(study, [[("ill", 0.0), ("well", 1.0)]] * 1000)
    >>> release["well"].flags, release.value.shape, [record.state for record in release]
    ((), (2,), ['ill', 'well'])
    """

    model_config = ConfigDict(
        json_schema_extra={
            "description": "A value function, released once under differential privacy."
        }
    )

    schema_version: Literal[2] = 2
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
    theta: Numbers
    values: StateValues = Field(
        description="the values of the states; with arms, of the states in each arm; with actions, "
        "Q of every state and action, state after state"
    )
    state_values: StateValues | None = Field(
        default=None,
        description="with actions: V, the mean over the first visits of a state's actions, which "
        "is the policy's value where nobody returns to a state and acts otherwise; computed from "
        "the same noisy numbers, at no further cost",
    )
    policy_value: float | None = Field(
        default=None,
        description="sum_s start(s) V(s), where the study gives a start distribution and no arms; "
        "with actions V is state_values, and neither value nor interval is exactly the policy's "
        "where people return to a state and act otherwise; of dp-ope, the value of its target",
    )
    policy_interval: PolicyInterval | None = None
    kept_mass: KeptMass | None = Field(default=None, description="of dp-ope, without groups")
    policy_trust: PolicyTrust | None = Field(default=None, description="of dp-ope, likewise")
    policy_trusts: PolicyTrusts | None = Field(default=None, description="of dp-ope by start")
    behaviour_value: Compared | None = Field(
        default=None, description="of dp-ope: what the policy behind the data is worth"
    )
    policy_difference: Compared | None = Field(
        default=None, description="of dp-ope: the target's value less the behaviour's"
    )
    behaviour_values: StateValues | None = Field(
        default=None, description="of dp-ope by start: the behaviour's value at each"
    )
    weights: ReleasedWeights | None = None
    differences: StateValues | None = Field(
        default=None,
        description="with arms: the values of the other arms less those of the first, each with "
        "intervals of its own; of dp-ope by start: the target's less the behaviour's; computed "
        "from what was released, at no further cost",
    )
    policies: list[PolicyInArm] | None = Field(
        default=None, description="with arms: the overall value of the policy in each"
    )
    statistics: ReleasedStatistics | None = None
    gaussian_mu: float | None = Field(
        default=None,
        gt=0,
        description="dp-ssp: the release is mu-Gaussian-DP",
    )
    restriction: Restriction | None = Field(
        default=None, description="where a stage chose bounds of returns inside the study's"
    )
    stages: list[ReleasedStage] | None = Field(
        default=None, description="dp-ssp only: the stages, in the order in which they were drawn"
    )
    accepted: list[Accepted] = Field(
        default=[],
        description="what was accepted explicitly: a plan no better than guessing, delta >= 1/m",
    )
    refit_of: str | None = Field(
        default=None,
        pattern="^[0-9a-f]{64}$",
        description="the SHA-256 of the release that this was computed from, at no further cost",
    )
    ledger_head: str | None = Field(
        default=None,
        pattern="^[0-9a-f]{64}$",
        description="the hash of this release's charge in the dataset's ledger",
    )
    created: str = Field(
        pattern=r"^\d{4}-\d\d-\d\d$",
        description="the day, in UTC; not the time, which depends on how much there was to read",
    )
    software: Software

    def __repr__(self) -> str:
        kind = "private" if self.private else NOT_PRIVATE
        use = ", no better than guessing" if "useless" in self.accepted else ""
        count = f"states={self.state_count}"
        if self.arms:
            count += f", arms={len(self.arms)}"
        if self.state_values is not None:
            count += f", pairs={len(self.values)}"
        if self.policy_value is not None and self.mechanism == "dp-ope":
            count = f"policy_value={self.policy_value:.4g}"
        doubt = policy_doubt(self)
        use += "" if doubt is None else f", {doubt.partition(':')[0]}"
        return f"Release({self.mechanism}, {kind}{use}, {count}, {self.created})"

    __str__ = __repr__

    def sentence(self) -> str:
        """Return the guarantee in one sentence; for a seeded experiment, that there is none."""
        if not self.private:
            return (
                f"{NOT_PRIVATE}: the noise came from a source that can be predicted, for "
                "experiments only. Nothing is promised; do not publish this."
            )
        epsilon, delta = self.privacy.epsilon, self.privacy.delta
        if delta == 0:
            return (
                f"This release is {epsilon:g}-differentially private: {self.privacy.change()} "
                f"changes the probability of any outcome by a factor of at most e^{epsilon:g}."
            )
        return (
            f"This release is ({epsilon:g}, {delta:g})-differentially private: "
            f"{self.privacy.change()} changes the probability of any outcome by a factor of at "
            f"most e^{epsilon:g}, up to {delta:g}."
        )

    def as_dict(self, arm: str | None = None) -> dict[str, float]:
        """Return the values by state label; with actions, V.

        Args:
            arm: whose values, where the study has arms.
        """
        arms = self.arms
        if (arm is None and arms) or (arm is not None and arm not in arms):
            known = ", ".join(map(repr, arms)) or "none: leave it out"
            raise UsageError(f"arm={arm!r}; the arms of this release are {known}")
        values = self.values if self.state_values is None else self.state_values
        return {
            entry["state"]: entry["value"] for entry in values.fields() if entry.get("arm") == arm
        }

    @property
    def arms(self) -> tuple[str, ...]:
        """Return the labels of the arms; empty where the study has none."""
        return tuple(str(label).strip() for label in self.study.get("arms", {}).get("labels", ()))

    @property
    def state_count(self) -> int:
        """Return how many states there are, in each arm."""
        if self.state_values is not None:
            return len(self.state_values)
        return len(self.values) // max(len(self.arms), 1)

    @property
    def actions(self) -> tuple[str, ...]:
        """Return the labels of the actions, in order; empty where the study has none."""
        described = self.study.get("actions", {})
        if "labels" in described:
            return tuple(str(label).strip() for label in described["labels"])
        if "count" in described:
            return tuple(map(str, range(described["count"])))
        if self.state_values is None:  # another policy's value: no entry is of an action
            return ()
        # A file of labels is named, and not held. Those of each state stand in their order.
        after: dict[str, set[str]] = {}
        for label in self._actions_by_state().values() if described else ():
            after.setdefault(label[0], set())
            for before, each in pairwise(label):
                after.setdefault(each, set()).add(before)
        return tuple(TopologicalSorter(after).static_order())

    def _actions_by_state(self) -> dict[str, list[str]]:
        """Return the actions that each state has."""
        found: dict[str, list[str]] = {}
        for entry in self.values.fields():
            found.setdefault(entry["state"], []).append(entry["action"])
        return found

    def places_of_pairs(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return for every value the position of its state, and of its action."""
        taken = self.column("action")
        assert taken is not None  # whoever asks has seen actions
        state, action = (
            {label: at for at, label in enumerate(labels)} for labels in (self.states, self.actions)
        )
        return (
            np.array([state[str(label)] for label in self.values.states], dtype=np.int64),
            np.array([action[str(label)] for label in taken], dtype=np.int64),
        )

    def described_actions(self) -> dict[str, Any]:
        """Return the section of actions without the files that it names; nothing without any."""
        described = self.study.get("actions")
        if not described:
            return {}
        allowed = {"allowed": self._actions_by_state()} if "allowed" in described else {}
        return {"actions": {"labels": list(self.actions), **allowed}}

    def q(self, state: str | int, action: str | int) -> StateValue:
        """Return the record of an action in a state: its value, its intervals, its flags.

        Args:
            state: its label.
            action: its label.

        Raises:
            UnknownLabelError: there is no such state or action, or the two do not go together.
        """
        if self.state_values is None:
            raise UsageError('this release has no actions; release["STATE"] is a state\'s record')
        return self.values[str(state), str(action)]

    # Values by label, as arrays, as a table

    def __getitem__(self, label: "str | int | tuple[str, str]") -> StateValue:
        """Return the record of a state: its value, its intervals, what to be careful about.

        Args:
            label: of the state; with arms, the arm's and the state's: ``release["new", "ill"]``;
                with actions, the state's and the action's: ``release["ill", "treat"]``.

        Raises:
            UnknownLabelError: there is no such state; the message names those that are close.
        """
        return self.values[self._place_of(label)]

    def _place_of(self, label: object) -> int:
        """Return the position of a state by its label; a number stands for its digits."""
        if self._is_one_number:
            raise UnknownLabelError(
                f"release[{label!r}]: this release has one number for all, and none by state; use "
                "release.policy_value and release.policy_interval"
            )
        if isinstance(label, slice | float):
            raise UnknownLabelError(
                f"release[{label!r}] is not understood: a state is given by its label; "
                "release.values[:3] goes by position"
            )
        return self.values.place_of(label if isinstance(label, tuple) else str(label))

    def __contains__(self, label: object) -> bool:
        """Return whether there is a state of that label, or an arm and state."""
        try:
            return self._place_of(label) >= 0
        except UnknownLabelError:
            return False

    def __iter__(self) -> Iterator[StateValue]:  # type: ignore[override]
        """Yield the record of every state, in order; with arms, arm after arm."""
        return iter(self.values)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def _is_one_number(self) -> bool:
        """Return whether it is another policy's value, and not by start."""
        return self.mechanism == "dp-ope" and self.policy_value is not None

    def _released(self, name: str, why: str) -> NDArray[Any]:
        """Return a field of all states; of one number, say where it is."""
        if self._is_one_number:
            raise NotReleasedError(
                f"there is no {name} by state in this release, which has one number for all; use "
                "release.policy_value and release.policy_interval"
            )
        return super()._released(name, why)

    def column(self, name: str) -> NDArray[Any] | None:
        """Return one field of all states as an array, or None where it was not released."""
        return self.values.column(name)

    @property
    def states(self) -> tuple[str, ...]:
        """Return the labels of the states, in order; with arms, those of one arm."""
        if self.state_values is not None:
            return tuple(map(str, self.state_values.states))
        return tuple(map(str, self.values.states[: self.state_count]))

    @property
    def flags(self) -> Flags:
        """Return what to be careful about in each state, as texts; mostly there is nothing."""
        return self.values.flags

    def to_arrow(self) -> "pa.Table":
        """Return a table of all states, with their flags, as an Arrow table.

        It has the columns of values.csv, and of one number also its rows; its metadata holds the
        sentence on what is promised.
        """
        from privalue.report import policy_table, state_table  # noqa: PLC0415 - it imports this package

        if self._is_one_number:
            return policy_table(self)
        table = state_table(self)
        columns = {name: self.column(name) for name in ("arm", "action", "value")}
        more = {"supported": self.column("supported")}
        told = {"privalue": self.sentence()}
        return arrow_table(
            self.values.states, {**columns, **table.columns, **more}, self.flags, told
        )

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the values with their intervals; a value to be careful about is hollow.

        Args:
            ax: Matplotlib axes to draw into; new ones, if left out.

        Returns:
            The axes.

        Raises:
            MissingComponentError: Matplotlib is not installed.
        """
        from privalue._plots import plot_release  # noqa: PLC0415 - it imports this package

        return plot_release(self, ax)

    def _repr_html_(self) -> str:
        from privalue._notebook import release_html  # noqa: PLC0415 - it imports this package

        return release_html(self)

    # Flags are found when they are asked for: what is public about a state, and the words, stand in
    # the room that writes pages.
    _flagged: Flags | None = PrivateAttr(default=None)

    def _flags_of_values(self) -> Flags:
        """Return the flags of all values, found once."""
        if self._flagged is None:
            from privalue.report import flags_by_state  # noqa: PLC0415 - it imports this package

            self._flagged = flags_by_state(self)
        return self._flagged

    def _flags_of_differences(self) -> Flags:
        """Return the flags of differences: those of both values."""
        flags = self._flags_of_values()
        if not self.arms:
            return flags
        by_arm = flags.bits.reshape(len(self.arms), -1)
        return flags.of((by_arm[1:] | by_arm[:1]).reshape(-1))

    def _flags_of_states(self) -> Flags:
        """Return the flags of the values of states, which are made of those of pairs."""
        from privalue.report import flags_of_states  # noqa: PLC0415 - it imports this package

        return flags_of_states(self)

    def model_post_init(self, _: Any) -> None:
        """Let every value know its flags."""
        self._flagged = None
        told = {
            "values": self._flags_of_values,
            "differences": self._flags_of_differences,
            "state_values": self._flags_of_states,
            "behaviour_values": self._flags_of_values,
        }
        for name, flags in told.items():
            values: StateValues | None = self.__dict__[name]
            self.__dict__[name] = values and values.with_flags(flags)

    # The text of a release that was read is kept: its hash, and what a ledger stores, must not
    # depend on how a later version writes JSON.
    _text: str | None = PrivateAttr(default=None)
    _sha256: str = PrivateAttr(default="")
    _reused: bool = PrivateAttr(default=False)

    @property
    def reused(self) -> bool:
        """Return whether a ledger answered with it: ``created`` is then the day of the original.

        It is about how this object came about, and no part of the release itself.
        """
        return self._reused

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return another release, which has no text or hash yet.

        Args:
            update: fields to change.
            deep: whether parts are copied, too.
        """
        copied = super().model_copy(update=update, deep=deep)
        copied._text, copied._sha256, copied._reused = None, "", False
        copied.model_post_init(None)
        return copied

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        copied = super().__deepcopy__(memo)
        copied.model_post_init(None)
        return copied

    def to_json(self) -> str:
        """Return the text of ``release.json``; of one that was read, to the letter."""
        return self._text or "".join(self.json_parts())

    @property
    def sha256(self) -> str:
        """Return the SHA-256 of ``release.json``."""
        if not self._sha256:
            deque(self.json_parts(), maxlen=0)
        return self._sha256

    def json_parts(self) -> Iterator[str]:
        """Yield the text part by part, since states may be very many, and keep its hash.

        The hash is known once all parts were taken.
        """
        digest = hashlib.sha256()
        for part in chain(written(self), "\n") if self._text is None else [self._text]:
            digest.update(part.encode())
            yield part
        self._sha256 = digest.hexdigest()

    @classmethod
    def answered(cls, text: str) -> "Release":
        """Return the release with which a ledger answers an identical request.

        Args:
            text: the JSON that the ledger stored.
        """
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
            release = cls.model_validate_json(text)
        except ValidationError as problem:
            first = problem.errors(include_url=False)[0]
            where = ".".join(str(part) for part in first["loc"]) or "the text"
            raise DataError(f"this is not a release: {where}: {first['msg']}") from None
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


def policy_doubt(release: Release) -> str | None:
    """Return what the released numbers say against another policy's value; None if nothing.

    The part before the colon is short.
    """
    trust = release.policy_trust or release.policy_trusts
    if trust is None:
        return None
    if trust.behaviour_contradicted:
        described = release.study
        ways = (described["data"].get("invalid"), described["values"].get("truncated"))
        others = ", or the units that were left out acted otherwise" if "drop-unit" in ways else ""
        return (
            "behaviour refuted: the kept mass is above 1, so that the behaviour's probabilities "
            f"are wrong{others}; do not use the target's value"
        )
    if release.kept_mass is not None:
        lost = int(not release.kept_mass.supported)
        where = ""
    else:
        lost = sum(not entry.supported for entry in release.values)
        where = f" at {lost:,} of {counted(len(release.values), 'start')}"
        above = sum(entry.kept_mass is not None and entry.kept_mass.low > 1 for entry in release)
        where += f" ({above:,} of them by a kept mass above 1, maybe by chance)" if above else ""
    if not lost:
        return None
    return (
        f"not supported{where}: too much of the target's weight may have been clipped for the "
        "value to be vouched for; see policy_trust and kept_mass"
    )


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of ``release.json``."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Release.model_json_schema(),
    }
