"""Refuse keys that do not go together: one table of condition, code and message.

Each section says what a key may be by itself. What keys need of each other, or make idle, is here,
in the order in which it is found; ``AFTER_FILES`` needs the number of states, which a file may say.
A message is a format, with ``s`` for the study: what is wrong, the value, what to do.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from privalue.errors import StudyError
from privalue.study.columns import ROLES, one_character_at_a_time
from privalue.study.sections import LARGEST, MOST_STATES, SMALLEST, SMOOTH, about, format_value

if TYPE_CHECKING:
    from privalue.study.study import Study


class Check(NamedTuple):
    """What is refused: when, under which code, and in which words."""

    fails: Callable[["Study"], object]
    code: str
    message: str


def require(study: "Study", checks: Sequence[Check]) -> None:
    """Raise StudyError for the first check that fails.

    Args:
        study: its sections, each checked by itself.
        checks: ``CHECKS`` before any file is read, ``AFTER_FILES`` afterwards.
    """
    for check in checks:
        found = check.fails(study)
        if found:
            raise StudyError(check.message.format(found, s=study), code=check.code)


# What the table below asks for: each returns what a message shows in place of {}, or nothing.


def _idle_mechanism_key(s: "Study") -> str | None:
    """Return what is wrong with a key of [mechanism] that another mechanism has."""
    for name in sorted(s.mechanism.given):
        of: Any = about(type(s.mechanism).model_fields[name], "of")
        if of and s.mechanism.name not in of:
            return f"{name} applies to {' and '.join(sorted(of))} only"
    return None


def _columns_read(s: "Study") -> Mapping[str, str]:
    """Return the columns that are read, by the keys that name them."""
    absent = {
        "action": not s.actions.named,
        "probability": not s.policy.is_logged,
        "state": s.states.bins is not None,
        "truncated": s.data.truncated is None,
    }
    read = {f"[data] {r}": getattr(s.data, r) for r in ROLES if not absent.get(r)}
    read |= {f"[states] bins {column}": column for column in s.states.bins or ()}
    return read | ({"[arms] column": s.arms.column} if s.arms.labels else {})


def _shared_column(s: "Study") -> str | None:
    """Return two keys that name the same column."""
    read = _columns_read(s)
    for column, times in Counter(read.values()).items():
        if times > 1:
            keys = [name for name, named in read.items() if named == column]
            return f'{keys[0]} and {keys[1]} both name the column "{column}"'
    return None


def _surplus_feature_key(s: "Study") -> str | None:
    """Return a key of [features] that the kind does not use."""
    uses = {"tabular": set[str](), "aggregate": {"size"}, "matrix": {"file", "matrix"}}
    return next(iter(sorted(s.features.given - {"kind", "shrink"} - uses[s.features.kind])), None)


def _idle_with_ope(s: "Study") -> str | None:
    """Return a key or a section that has no effect where another policy is valued."""
    if s.mechanism.name != "dp-ope":
        return None
    keys = {
        "[privacy] max_states_per_trajectory": s.privacy.max_states_per_trajectory,
        "[values] start": s.values.start,
        "[values] unvisited": s.values.unvisited,
        "[states] visits": s.states.visits,
    }
    idle = [name for name, value in keys.items() if value is not None]
    for name in ("features", "weights"):
        section = getattr(s, name)
        usual = {"kind": "uniform"} if name == "weights" else {}
        defaults = {one: usual.get(one, section.default(one)) for one in section.given}
        if any(getattr(section, one) != value for one, value in defaults.items()):
            idle.append(f"[{name}]")
    return next(iter(idle), None)


def _missing_for_ope(s: "Study") -> str | None:
    """Return what dp-ope needs and does not have."""
    if s.mechanism.name != "dp-ope":
        return None
    if not s.actions.named:
        return (
            "[actions] is missing: to value another policy, actions must be recorded; say which "
            "there are, e.g. [actions] count = 4"
        )
    for name in ("target", "behaviour", "clip"):
        if getattr(s.policy, name) is None:
            field = type(s.policy).model_fields[name]
            return f"[policy] {name} is missing; it must be {about(field, 'allowed')}"
    return None


def _bad_arms(s: "Study") -> str | None:
    """Return the labels of arms if they are not two or more, each its own."""
    names = s.arms.names
    fine = len(set(names)) == len(names) >= 2 and "" not in names and "\0" not in "".join(names)
    return None if fine or not s.arms.given else format_value(s.arms.labels)


def _bad_delta(s: "Study") -> bool:
    return s.mechanism.name != "dp-ope" and s.privacy.delta == 0


def _extreme_returns(s: "Study") -> str | None:
    low, high = s.values.return_bounds
    fine = high - low >= SMALLEST and max(-low, high) <= LARGEST
    return None if fine else f"[{low}, {high}]"


def _bad_delimiter(s: "Study") -> bool:
    mark = s.data.delimiter
    return mark is not None and (not mark.isascii() or mark.isalnum() or mark in '"\r\n')


CHECKS = (
    Check(
        lambda s: "rewards" not in s.values.given and s.values.returns is None,
        "rewards-missing",
        "[values] rewards is missing; it must be two finite numbers [low, high], low <= high; or "
        "give returns",
    ),
    Check(
        lambda s: s.values.returns is not None and not s.values.returns[0] < s.values.returns[1],
        "returns-not-in-order",
        "[values] returns = [{s.values.returns[0]}, {s.values.returns[1]}]: the lower bound must "
        "come first, and be below the upper one",
    ),
    Check(
        lambda s: s.values.rewards[0] > s.values.rewards[1],
        "rewards-not-in-order",
        "[values] rewards = [{s.values.rewards[0]}, {s.values.rewards[1]}]: the lower bound must "
        "come first",
    ),
    Check(
        lambda s: s.values.discount == 1 and s.values.returns is None,
        "returns-missing",
        "[values] discount = 1 needs the key returns: without discount, rewards alone do not bound "
        "a return; give returns = [low, high]",
    ),
    Check(
        _extreme_returns,
        "returns-too-extreme",
        f"[values] returns range over {{}}: the range must be at least {SMALLEST:g} wide and "
        f"within {LARGEST:g}; change rewards, or give returns = [low, high]",
    ),
    Check(
        lambda s: (
            s.values.unvisited is not None
            and not s.return_bounds[0] <= s.values.unvisited <= s.return_bounds[1]
        ),
        "unvisited-outside-returns",
        "[values] unvisited = {s.values.unvisited} must lie inside [{s.return_bounds[0]}, "
        "{s.return_bounds[1]}]",
    ),
    Check(
        lambda s: len(s.states.given & {"count", "labels", "file", "bins"}) != 1,
        "states-not-named-once",
        "[states] needs exactly one of the keys count, labels, file and bins",
    ),
    Check(
        lambda s: s.states.bins is not None and s.states.groups is not None,
        "groups-of-bins",
        "[states] groups maps labels, and bins are of numbers; remove one of the two",
    ),
    Check(
        lambda s: s.states.bins is not None and "state" in s.data.given,
        "state-column-beside-bins",
        '[data] state = "{s.data.state}" names a column of states, and [states] bins makes states '
        "of others; remove one of the two",
    ),
    Check(
        _surplus_feature_key,
        "features-key-idle",
        '[features] kind = "{s.features.kind}" does not use the key {}; remove it',
    ),
    Check(
        lambda s: s.features.kind == "aggregate" and s.features.size is None,
        "features-size-missing",
        '[features] kind = "aggregate" needs the key size, e.g. size = 2',
    ),
    Check(
        lambda s: (
            s.features.kind == "matrix" and (s.features.file is None) == (s.features.matrix is None)
        ),
        "features-file-missing",
        '[features] kind = "matrix" needs the key file, e.g. file = "features.npy"',
    ),
    Check(
        lambda s: s.features.shrink and s.features.kind == "tabular",
        "shrink-without-features",
        '[features] shrink = true needs features to shrink towards: kind = "matrix" with a file, '
        'or "aggregate" with a size',
    ),
    Check(
        lambda s: s.features.shrink and s.mechanism.name != "dp-ssp",
        "shrink-without-dp-ssp",
        '[features] shrink = true needs dp-ssp, and [mechanism] name = "{s.mechanism.name}"; '
        "choose dp-ssp, or remove shrink",
    ),
    Check(
        lambda s: s.features.shrink and (not s.mechanism.shrinkage or s.mechanism.has_ridge),
        "shrink-against-mechanism",
        "[features] shrink = true is shrinkage towards the features, and [mechanism] ridge, or "
        "shrinkage = false, asks for something else; remove one of the two",
    ),
    Check(
        lambda s: len(s.weights.given) > 1,
        "weights-given-twice",
        "[weights] give exactly one of the keys kind, file and values",
    ),
    Check(
        _idle_mechanism_key,
        "mechanism-key-idle",
        '[mechanism] {}, and name = "{s.mechanism.name}"; remove it, or change name',
    ),
    Check(
        lambda s: s.mechanism.name == "dp-ssp" and s.mechanism.calibration != "exact",
        "calibration-of-dp-ssp",
        '[mechanism] calibration = "{s.mechanism.calibration}": the paper\'s constants are for '
        "dp-lsw and dp-lsl; remove it, dp-ssp is calibrated exactly",
    ),
    Check(
        lambda s: s.mechanism.name == "dp-lsl" and s.mechanism.noise != "isotropic",
        "noise-of-dp-lsl",
        '[mechanism] noise = "whitened" is for dp-lsw only; use "isotropic" with "dp-lsl"',
    ),
    Check(
        lambda s: (
            s.mechanism.calibration != "exact" and s.mechanism.given & {"beta", "pseudo_count"}
        ),
        "exact-calibration-needed",
        '[mechanism] beta and pseudo_count apply to calibration = "exact" only, and calibration = '
        '"{s.mechanism.calibration}"; remove them',
    ),
    Check(
        lambda s: "ridge_scale" in s.mechanism.given and s.mechanism.ridge != "sqrt",
        "ridge-given-twice",
        '[mechanism] ridge_scale applies to ridge = "sqrt" only; remove one of the two',
    ),
    Check(
        lambda s: (
            s.mechanism.stages == "one"
            and s.mechanism.stage_shares != s.mechanism.default("stage_shares")
        ),
        "share-without-stage",
        '[mechanism] stage_shares has bounds, and stages = "one" has not; remove it, or add the '
        "stage",
    ),
    Check(
        lambda s: "level" in s.report.given and s.mechanism.name in SMOOTH,
        "level-without-intervals",
        "[report] level is of intervals, which dp-lsw and dp-lsl do not release; use dp-ssp, or "
        "remove level",
    ),
    Check(
        lambda s: s.privacy.unit != "person" and s.privacy.max_trajectories_per_person is not None,
        "trajectories-per-person-idle",
        '[privacy] max_trajectories_per_person applies to unit = "person" only; remove it, or '
        "protect whole persons",
    ),
    Check(
        lambda s: (
            s.privacy.unit == "person"
            and s.privacy.max_trajectories_per_person is None
            and not s.data.one_trajectory_per_person
        ),
        "trajectories-per-person-missing",
        '[privacy] unit = "person" needs the key max_trajectories_per_person: how many '
        "trajectories of one person count at most, e.g. max_trajectories_per_person = 3; if each "
        'person has one trajectory, name their column alone: [data] person = "{s.data.person}"',
    ),
    Check(
        lambda s: (
            s.data.one_trajectory_per_person
            and s.privacy.max_trajectories_per_person not in {None, 1}
        ),
        "one-trajectory-per-person",
        "[privacy] max_trajectories_per_person = {s.privacy.max_trajectories_per_person}: [data] "
        "names person and not trajectory, so that each person has one trajectory; name that column "
        'too, e.g. trajectory = "trajectory", or remove max_trajectories_per_person',
    ),
    Check(
        lambda s: s.values.truncated is not None and s.data.truncated is None,
        "truncated-column-missing",
        '[values] truncated = "{s.values.truncated}" needs the column that marks trajectories as '
        'cut off: [data] truncated = "cut", or whatever it is called',
    ),
    Check(
        _bad_arms,
        "arms-invalid",
        "[arms] labels = {}: at least two arms are needed, each with a label of its own, none "
        "empty",
    ),
    Check(
        lambda s: s.arms.labels and s.mechanism.name in SMOOTH,
        "arms-need-dp-ssp",
        '[arms] needs dp-ssp, and [mechanism] name = "{s.mechanism.name}": its noise follows the '
        "visits, and no bound is proved for a unit that moves from one arm to another; use "
        '"dp-ssp", or one release for each arm',
    ),
    Check(
        lambda s: not s.actions.named and "action" in s.data.given,
        "actions-missing",
        '[data] action = "{s.data.action}" names the column of actions, and there are none; say '
        "which there are, e.g. [actions] count = 4, or remove it",
    ),
    Check(
        lambda s: (
            len(s.actions.given & {"count", "labels", "file"}) > 1
            or (s.actions.allowed is not None and not s.actions.named)
        ),
        "actions-not-named-once",
        "[actions] needs exactly one of the keys count, labels and file",
    ),
    Check(
        lambda s: s.actions.named and s.arms.labels,
        "actions-with-arms",
        "[actions] and [arms] do not go together; remove one of the two, or make one release for "
        "each arm",
    ),
    Check(
        lambda s: s.actions.named and s.mechanism.name in SMOOTH,
        "actions-need-dp-ssp",
        '[actions] needs dp-ssp, and [mechanism] name = "{s.mechanism.name}": no bound is proved '
        'for values of states and actions there; use "dp-ssp"',
    ),
    Check(
        lambda s: s.policy.given and s.mechanism.name != "dp-ope",
        "policy-needs-dp-ope",
        '[policy] is for dp-ope, and [mechanism] name = "{s.mechanism.name}"; set name = "dp-ope",'
        " or remove [policy]",
    ),
    Check(_missing_for_ope, "policy-incomplete", "{}"),
    Check(_idle_with_ope, "idle-with-dp-ope", "{} has no effect with dp-ope; remove it"),
    Check(
        lambda s: "probability" in s.data.given and not s.policy.is_logged,
        "probability-column-idle",
        '[data] probability = "{s.data.probability}" names the column of logged probabilities, and '
        '[policy] behaviour is not "column"; remove one of the two',
    ),
    Check(
        lambda s: s.mechanism.name == "dp-ope" and s.privacy.delta > 0,
        "delta-with-dp-ope",
        "[privacy] delta = {s.privacy.delta:g}: the Laplace noise of dp-ope promises epsilon "
        "alone; remove delta",
    ),
    Check(
        lambda s: _bad_delta(s) and "delta" not in s.privacy.given,
        "delta-missing",
        "[privacy] delta is missing; it must be a number between 0 and 1, both excluded",
    ),
    Check(
        _bad_delta,
        "delta-not-above-0",
        "[privacy] delta = 0 is not allowed; it must be a number between 0 and 1, both excluded",
    ),
    Check(_shared_column, "column-named-twice", "{}; each needs its own"),
    Check(
        lambda s: s.data.step_format is not None and s.data.step_type not in {"date", "datetime"},
        "step-format-idle",
        '[data] step_format applies to step_type = "date" or "datetime", and step_type = '
        '"{s.data.step_type}"; change step_type, or remove step_format',
    ),
    Check(
        _bad_delimiter,
        "delimiter-invalid",
        "[data] delimiter = {s.data.delimiter!r} cannot separate cells; it is one character that "
        'is neither a letter, a digit nor a quote, e.g. ";"',
    ),
    Check(
        lambda s: not one_character_at_a_time(s.data.encoding),
        "encoding-unknown",
        '[data] encoding = "{s.data.encoding}" is not read; it must be "utf-8", "utf-16", or an '
        'encoding of one byte a character, e.g. "latin-1" or "cp1252"',
    ),
    Check(
        lambda s: s.data.sorted and s.data.invalid == "drop-unit",
        "sorted-with-drop-unit",
        '[data] sorted = true goes with invalid = "refuse" only: rows out of order are an error of '
        'all rows, and with "drop-unit" nothing may be one; remove sorted',
    ),
)

AFTER_FILES = (
    Check(
        lambda s: s.features.size is not None and s.features.size > s.state_count,
        "features-size-too-large",
        "[features] size = {s.features.size}: there are only {s.state_count} states",
    ),
    Check(
        lambda s: s.key_count > MOST_STATES,
        "too-many-keys",
        "[states] the states of all arms, or with all actions, are {s.key_count} values; there may "
        f"be at most {MOST_STATES}",
    ),
)
