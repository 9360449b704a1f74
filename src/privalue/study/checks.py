"""Refuse combinations of keys: one table of error codes and conditions.

Each section limits its keys one by one; here are the conditions between keys, in the order in which
they are checked. ``messages.toml`` has the message of each code.
"""

import codecs
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from privalue.study.heuristics import MAX_STAGE_KEYS
from privalue.study.messages import describe_key, format_value, refusal
from privalue.study.sections import LARGEST, MAX_STATES, SECTIONS, SMALLEST, Sections, column_key

# An error code, and the values of its message if the study is refused; falsy if it is not.
Check = tuple[str, object]
# The ranges of epsilon and delta in which the noise can be calibrated: by calibration, or by the
# name of a mechanism whose delta is 0.
PRIVACY_RANGES: Mapping[str, Mapping[str, tuple[float, float]]] = {
    "exact": {"epsilon": (0.001, 20), "delta": (1e-15, 0.5)},
    "nissim": {"epsilon": (0, 1e6)},
    "appendix": {"epsilon": (0, 5)},
    "dp-ope": {"epsilon": (1e-6, 1e6)},
}


def require(study: Sections, checks: Iterable[Check]) -> None:
    """Raise StudyError for the first check that fails.

    Args:
        study: its sections, each valid by itself.
        checks: ``check_sections`` before any file is read, ``check_sizes`` afterwards.
    """
    for code, failure in checks:
        if failure:
            values = failure if isinstance(failure, tuple) else (failure,)
            raise refusal(code, *values, s=study)


def check_sections(s: Sections) -> Iterator[Check]:
    """Yield the checks that need no side file.

    A condition may assume that all checks before it have passed.
    """
    yield "key-idle", _idle_key(s)

    # [values], [states], [features], [weights]
    values, states, features, data = s.values, s.states, s.features, s.data
    invalid = states.ends is not None and not _are_labels(states.end_labels, 1)
    yield "ends-invalid", invalid and format_value([*(states.ends or ())])
    yield "rewards-missing", "rewards" not in values.explicit_keys and values.returns is None
    yield "returns-not-in-order", values.returns and values.returns[0] >= values.returns[1]
    yield "rewards-not-in-order", values.rewards[0] > values.rewards[1]
    yield "returns-missing", values.discount == 1 and values.returns is None
    low, high = values.return_bounds
    extreme = not (high - low >= SMALLEST and max(-low, high) <= LARGEST)
    yield "returns-too-extreme", extreme and f"[{low}, {high}]"
    yield "unvisited-outside-returns", not low <= values.unvisited_value <= high
    keys = states.explicit_keys
    yield "states-not-named-once", len(keys & {"count", "labels", "file", "bins"}) != 1
    yield "groups-of-bins", {"bins", "groups"} <= keys
    yield "state-column-beside-bins", states.bins and "state" in data.explicit_keys
    yield "ends-with-bins", {"bins", "ends"} <= keys
    rewards = [] if s.fixed_rewards is None else [s.fixed_rewards[0], *s.fixed_rewards[1]]
    outside = any(not values.rewards[0] <= reward <= values.rewards[1] for reward in rewards)
    yield "rewards-of-ends-outside", outside and (min(rewards), max(rewards))
    yield "reward-column-idle", rewards and "reward" in data.explicit_keys
    yield "features-size-missing", features.kind == "aggregate" and features.size is None
    has_matrix = (features.file is None) != (features.matrix is None)
    yield "features-file-missing", features.kind == "matrix" and not has_matrix
    yield "shrink-without-features", features.shrink and features.kind == "tabular"
    yield "shrink-without-dp-ssp", features.shrink and s.mechanism.name != "dp-ssp"
    conflicting = s.mechanism.has_ridge or not s.mechanism.shrinkage
    yield "shrink-against-mechanism", features.shrink and conflicting
    yield "weights-given-twice", len(s.weights.explicit_keys) > 1

    # [mechanism], [privacy], [actions], [policy]
    privacy, actions, policy = s.privacy, s.actions, s.policy
    mechanism, name, is_ope = s.mechanism, s.mechanism.name, s.is_off_policy
    yield "calibration-of-dp-ssp", name == "dp-ssp" and mechanism.calibration != "exact"
    yield "noise-of-dp-lsl", name == "dp-lsl" and mechanism.noise == "whitened"
    yield "delta-with-dp-ope", name in PRIVACY_RANGES and privacy.delta > 0
    yield "delta-missing", privacy.delta == 0 and name not in PRIVACY_RANGES
    yield "promise-out-of-range", _out_of_range(s)
    invalid = bool(s.arms.explicit_keys) and not _are_labels(s.arms.names, 2)
    yield "arms-invalid", invalid and format_value(s.arms.labels)
    yield "actions-not-named-once", len(actions.explicit_keys & {"count", "labels", "file"}) > 1
    yield "allowed-without-actions", actions.allowed is not None and not actions.is_declared
    yield "actions-with-arms", actions.is_declared and s.arms.labels
    yield "policy-without-actions", is_ope and not actions.is_declared
    for key in ("target", "behaviour", "clip"):
        allowed = describe_key("policy", key)["allowed"]
        yield "key-missing", is_ope and getattr(policy, key) is None and ("policy", key, allowed)
    yield from _check_data(s)


def _check_data(s: Sections) -> Iterator[Check]:
    """Yield the checks of [data], and of the trajectories per person."""
    data, keys = s.data, s.data.explicit_keys
    most, has_one = s.privacy.max_trajectories_per_person, data.one_trajectory_per_person
    unlimited = s.privacy.unit == "person" and most is None and not has_one
    yield "trajectories-per-person-missing", unlimited
    yield "one-trajectory-per-person", has_one and most not in {None, 1}
    yield "truncated-rows-missing", "truncated" in keys and data.truncated_rows is None
    yield "actions-missing", "action" in keys and not s.actions.is_declared
    yield "probability-column-idle", "probability" in keys and not s.policy.is_logged
    yield "column-named-twice", _shared_column(s)
    mark = data.delimiter or ","
    yield "delimiter-invalid", not mark.isascii() or mark.isalnum() or mark in '"\r\n'
    yield "encoding-unknown", _is_unsafe_encoding(data.encoding)
    yield "sorted-with-drop-unit", data.sorted and data.invalid == "drop-unit"


def check_sizes(s: Sections, states: int, keys: int) -> Iterator[Check]:
    """Yield the checks that need the number of states, which may come from a side file."""
    yield "features-size-too-large", (s.features.size or 1) > states
    yield "too-many-keys", keys > MAX_STATES and (keys,)
    has_stage = s.mechanism.stages == ("bounds",)
    yield "stage-too-large", has_stage and keys > MAX_STAGE_KEYS and (MAX_STAGE_KEYS, keys)


# Conditions of more than one line: some return the value for the message, or None


def _are_labels(labels: tuple[str, ...], least: int) -> bool:
    """Return whether there are enough labels, all different, none empty."""
    return len(set(labels)) == len(labels) >= least and all(labels) and "\0" not in "".join(labels)


def _idle_key(s: Sections) -> str | None:
    """Return a key that another key makes idle, according to ``only_with`` in ``keys.toml``."""
    keys = [(section, key) for section in SECTIONS for key in getattr(s, section).explicit_keys]
    for section, key in sorted(keys):
        for condition, values in describe_key(section, key).get("only_with", {}).items():
            where, name = condition.split(".")
            value = getattr(getattr(s, where), name)
            if (list(value) if isinstance(value, tuple) else value) not in values:
                allowed = " or ".join(map(format_value, values))
                why = f"{name} = {allowed}, and it is {format_value(value)}"
                return f"[{section}] {key} needs [{where}] {why}"
    return None


def _shared_column(s: Sections) -> str | None:
    """Return two keys that name the same column, if both are read."""
    column, times = Counter(s.columns.values()).most_common(1)[0]
    keys = [column_key(role) for role, name in s.columns.items() if name == column]
    return f'{keys[0]} and {keys[1]} both name the column "{column}"' if times > 1 else None


def _out_of_range(s: Sections) -> str | None:
    """Return epsilon or delta, if the noise cannot be calibrated for it."""
    ranges = PRIVACY_RANGES.get(s.mechanism.name) or PRIVACY_RANGES[s.mechanism.calibration]
    for name, (low, high) in ranges.items():
        number = getattr(s.privacy, name)
        if not low <= number <= high:
            return f"{name} = {number:g} must be from {low:g} to {high:g}"
    return None


def _is_unsafe_encoding(encoding: str) -> bool:
    """Return whether a character of one row could change how the next row is read.

    That is impossible in UTF-8, in UTF-16, and in encodings of one byte per character that extend
    ASCII: ends of lines are unambiguous there.
    """
    try:
        name = codecs.lookup(encoding).name
        every = bytes(range(256)).decode(name, errors="replace")
    except (LookupError, ValueError, TypeError):
        return True
    like_ascii = len(every) == 256 and every[:128] == bytes(range(128)).decode("ascii")
    return "escape" in name or not (like_ascii or name in {"utf-8", "utf-8-sig", "utf-16"})
