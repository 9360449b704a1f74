"""Refuse keys that do not go together: one table of code and condition.

Each section says what a key may be by itself. What keys need of each other, or make idle, is here,
in the order in which it is found. ``messages.toml`` has the message of each code.
"""

import codecs
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from privalue.study.heuristics import MOST_STAGED
from privalue.study.messages import describe_key, format_value, refusal
from privalue.study.sections import LARGEST, MOST_STATES, ROLES, SECTIONS, SMALLEST, Sections

# A code, and what its message shows if the study is to be refused; anything false if it is not.
Check = tuple[str, object]
# The promises that constants of the noise are offered for, by calibration.
PROMISES: Mapping[str, Mapping[str, tuple[float, float]]] = {
    "exact": {"epsilon": (0.001, 20), "delta": (1e-15, 0.5)},
    "nissim": {"epsilon": (0, 1e6)},
    "appendix": {"epsilon": (0, 5)},
    "laplace": {"epsilon": (1e-6, 1e6)},
}


def require(study: Sections, checks: Iterable[Check]) -> None:
    """Raise StudyError for the first check that fails.

    Args:
        study: its sections, each checked by itself.
        checks: ``check_sections`` before any file is read, ``check_sizes`` afterwards.
    """
    for code, shown in checks:
        if shown:
            values = shown if isinstance(shown, tuple) else (shown,)
            raise refusal(code, *values, s=study)


def check_sections(s: Sections) -> Iterator[Check]:
    """Yield each check of what a study says, before any file is read.

    A condition may rely on those before it: they did not hold.
    """
    yield "key-idle", _idle_key(s)

    # [values], [states], [features], [weights]
    values, states, features, data = s.values, s.states, s.features, s.data
    unusable = states.ends is not None and not _are_labels(states.end_labels, 1)
    yield "ends-invalid", unusable and format_value([*(states.ends or ())])
    yield "rewards-missing", "rewards" not in values.given and values.returns is None
    yield "returns-not-in-order", values.returns and values.returns[0] >= values.returns[1]
    yield "rewards-not-in-order", values.rewards[0] > values.rewards[1]
    yield "returns-missing", values.discount == 1 and values.returns is None
    low, high = values.return_bounds
    extreme = not (high - low >= SMALLEST and max(-low, high) <= LARGEST)
    yield "returns-too-extreme", extreme and f"[{low}, {high}]"
    yield "unvisited-outside-returns", not low <= values.unvisited_value <= high
    yield "states-not-named-once", len(states.given & {"count", "labels", "file", "bins"}) != 1
    yield "groups-of-bins", {"bins", "groups"} <= states.given
    yield "state-column-beside-bins", states.bins and "state" in data.given
    yield "ends-with-bins", {"bins", "ends"} <= states.given
    rewards = [] if s.fixed_rewards is None else [s.fixed_rewards[0], *s.fixed_rewards[1]]
    outside = any(not values.rewards[0] <= one <= values.rewards[1] for one in rewards)
    yield "rewards-of-ends-outside", outside and (min(rewards), max(rewards))
    yield "reward-column-idle", rewards and "reward" in data.given
    yield "features-size-missing", features.kind == "aggregate" and features.size is None
    one = (features.file is None) != (features.matrix is None)
    yield "features-file-missing", features.kind == "matrix" and not one
    yield "shrink-without-features", features.shrink and features.kind == "tabular"
    yield "shrink-without-dp-ssp", features.shrink and s.mechanism.name != "dp-ssp"
    against = s.mechanism.has_ridge or not s.mechanism.shrinkage
    yield "shrink-against-mechanism", features.shrink and against
    yield "weights-given-twice", len(s.weights.given) > 1

    # [mechanism], [privacy], [actions], [policy]
    privacy, actions, policy = s.privacy, s.actions, s.policy
    chosen, name, is_ope = s.mechanism, s.mechanism.name, s.is_off_policy
    yield "calibration-of-dp-ssp", name == "dp-ssp" and chosen.calibration != "exact"
    yield "noise-of-dp-lsl", name == "dp-lsl" and chosen.noise == "whitened"
    yield "delta-with-dp-ope", is_ope and privacy.delta > 0
    yield "delta-missing", privacy.delta == 0 and not is_ope
    yield "promise-out-of-range", _bad_promise(s)
    unusable = bool(s.arms.given) and not _are_labels(s.arms.names, 2)
    yield "arms-invalid", unusable and format_value(s.arms.labels)
    yield "actions-not-named-once", len(actions.given & {"count", "labels", "file"}) > 1
    yield "allowed-without-actions", actions.allowed is not None and not actions.named
    yield "actions-with-arms", actions.named and s.arms.labels
    yield "policy-without-actions", is_ope and not actions.named
    for key in ("target", "behaviour", "clip"):
        allowed = describe_key("policy", key)["allowed"]
        yield "key-missing", is_ope and getattr(policy, key) is None and ("policy", key, allowed)
    yield from _check_data(s)


def _check_data(s: Sections) -> Iterator[Check]:
    """Yield the checks of [data], and of whose rows they are."""
    data, given = s.data, s.data.given
    most, has_one = s.privacy.max_trajectories_per_person, data.one_trajectory_per_person
    unsaid = s.privacy.unit == "person" and most is None and not has_one
    yield "trajectories-per-person-missing", unsaid
    yield "one-trajectory-per-person", has_one and most not in {None, 1}
    yield "truncated-rows-missing", "truncated" in given and data.truncated_rows is None
    yield "actions-missing", "action" in given and not s.actions.named
    yield "probability-column-idle", "probability" in given and not s.policy.is_logged
    yield "column-named-twice", _shared_column(s)
    mark = data.delimiter or ","
    yield "delimiter-invalid", not mark.isascii() or mark.isalnum() or mark in '"\r\n'
    yield "encoding-unknown", _bad_encoding(data.encoding)
    yield "sorted-with-drop-unit", data.sorted and data.invalid == "drop-unit"


def check_sizes(s: Sections, states: int, keys: int) -> Iterator[Check]:
    """Yield each check that needs the number of states, which a file may say."""
    yield "features-size-too-large", (s.features.size or 1) > states
    yield "too-many-keys", keys > MOST_STATES and (keys,)
    staged = s.mechanism.stages == ("bounds",)
    yield "stage-too-large", staged and keys > MOST_STAGED and (MOST_STAGED, keys)


# Conditions that take more than a line: each returns what the message shows, or nothing.


def _are_labels(labels: tuple[str, ...], least: int) -> bool:
    """Return whether there are enough labels, each its own, none empty."""
    return len(set(labels)) == len(labels) >= least and all(labels) and "\0" not in "".join(labels)


def _idle_key(s: Sections) -> str | None:
    """Return a key that another key makes idle, by what ``keys.toml`` says."""
    written = [(section, key) for section in SECTIONS for key in getattr(s, section).given]
    for section, key in sorted(written):
        for needed, values in describe_key(section, key).get("only_with", {}).items():
            where, name = needed.split(".")
            value = getattr(getattr(s, where), name)
            if (list(value) if isinstance(value, tuple) else value) not in values:
                listed = " or ".join(map(format_value, values))
                found = f"{name} = {listed}, and it is {format_value(value)}"
                return f"[{section}] {key} needs [{where}] {found}"
    return None


def _shared_column(s: Sections) -> str | None:
    """Return two keys that name the same column, of those that are read."""
    unread = {
        "person": s.privacy.unit != "person" and "person" not in s.data.given,
        "trajectory": s.data.one_trajectory_per_person,
        "action": not s.actions.named,
        "probability": not s.policy.is_logged,
        "state": s.states.bins is not None,
        "reward": s.fixed_rewards is not None,
        "truncated": s.data.truncated_rows is None,
    }
    read = {f"[data] {role}": getattr(s.data, role) for role in ROLES if not unread.get(role)}
    read |= {f"[states] bins {column}": column for column in s.states.bins or ()}
    read |= {"[arms] column": s.arms.column} if s.arms.labels else {}
    column, times = Counter(read.values()).most_common(1)[0]
    keys = [name for name, named in read.items() if named == column]
    return f'{keys[0]} and {keys[1]} both name the column "{column}"' if times > 1 else None


def _bad_promise(s: Sections) -> str | None:
    """Return epsilon or delta, if no constants of the noise are offered for it."""
    kind = "laplace" if s.is_off_policy else s.mechanism.calibration
    for name, (low, high) in PROMISES[kind].items():
        number = getattr(s.privacy, name)
        if not low <= number <= high:
            return f"{name} = {number:g} must be from {low:g} to {high:g}"
    return None


def _bad_encoding(encoding: str) -> bool:
    """Return whether a character of one row could change how the next row is read.

    None can in UTF-8 and UTF-16, nor in encodings with one byte for each character that agree with
    ASCII, so that ends of lines are where they seem to be.
    """
    try:
        name = codecs.lookup(encoding).name
        every = bytes(range(256)).decode(name, errors="replace")
    except (LookupError, ValueError, TypeError):
        return True
    like_ascii = len(every) == 256 and every[:128] == bytes(range(128)).decode("ascii")
    return "escape" in name or not (like_ascii or name in {"utf-8", "utf-8-sig", "utf-16"})
