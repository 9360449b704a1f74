"""Help a user who writes another name for a key of the study, or a key that is not built yet."""

import difflib
import re
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path

# A key of ours with its section, and the names that other libraries give it.
_CALLED: Mapping[str, str] = {
    "discount in [values]": "gamma discount_factor discount_rate",
    "rewards in [values]": "reward_bounds reward_range reward_min reward_max r_min r_max",
    "returns in [values]": "return_bounds return_range value_bounds",
    "ridge in [mechanism]": "lambda lambda_ lam regularisation regularization l2",
    "name in [mechanism]": "algorithm method",
    "trajectories in [study]": "episodes n_episodes num_episodes n_trajectories num_trajectories",
    "epsilon in [privacy]": "eps",
    "neighbours in [privacy]": "adjacency relation",
    "max_trajectories_per_person in [privacy]": "max_episodes_per_person max_contributions",
    "count in [states]": "n_states num_states state_count",
    "level in [report]": "confidence confidence_level",
    "person in [data]": "person_id patient patient_id subject subject_id user user_id",
    "trajectory in [data]": "trajectory_id episode episode_id stay stay_id",
    "step in [data]": "time timestep time_step t day date",
    "state in [data]": "observation obs s",
    "reward in [data]": "r",
    "action in [data]": "a act drug",
    "count in [actions]": "n_actions num_actions action_count",
    "labels in [actions]": "treatments drugs interventions choices",
    "allowed in [actions]": "allowed_actions action_mask mask valid_actions",
    "truncated in [data]": "censored censoring truncation cut cut_off",
    "column in [arms]": "arm treatment treatment_arm",
}
_OUR_NAME = {theirs: ours for ours, names in _CALLED.items() for theirs in names.split()}

_FOLLOWS: Mapping[str, str] = {
    "alpha": "it follows from epsilon, delta and beta; the level of intervals is level in [report]",
    "sigma": "the scale of the noise follows from epsilon and delta",
    "seed": "noise comes from the operating system; experiments are seeded where they are run",
}

_NOT_BUILT: Mapping[str, str] = {
    "model": "it would release transitions and rewards themselves",
}


def about_unknown(key: str, known: Collection[str]) -> str:
    """Return what helps a user who wrote ``key`` where only ``known`` are keys.

    >>> about_unknown("gamma", ["discount", "rewards"])
    'here it is called discount in [values]'
    """
    written = key.lower().replace("-", "_")
    if written == "column" and "allowed" in known:
        return "the column of actions is action in [data]"
    if written in _NOT_BUILT:
        return f"{_NOT_BUILT[written]}, which is not built yet; remove it"
    if written in _OUR_NAME:
        return f"here it is called {_OUR_NAME[written]}"
    if written in _FOLLOWS:
        return f"{_FOLLOWS[written]}; remove it"
    near = difflib.get_close_matches(written, known, n=1, cutoff=0.5)
    return f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"


_DATA = re.compile(
    r".*\.((csv|tsv)(\.gz|\.zst)?|parquet|xlsx?|ods|duckdb|sqlite|db)", re.IGNORECASE
)


def looks_like_data(path: Path) -> bool:
    """Return whether a file has the name of data."""
    return _DATA.fullmatch(path.name) is not None


def about_toml(text: str, problem: tomllib.TOMLDecodeError) -> str:
    """Return what helps a user who wrote a number with a decimal comma; else, nothing.

    >>> try:
    ...     tomllib.loads("epsilon = 1,5")
    ... except tomllib.TOMLDecodeError as found:
    ...     about_toml("epsilon = 1,5", found)
    '; a decimal has a point: epsilon = 1.5'
    """
    place = re.search(r"at line (\d+)", str(problem))
    lines = text.split("\n")
    line = lines[int(place[1]) - 1] if place is not None else ""
    written = re.match(r"\s*([\w-]{1,60})\s*=\s*([+-]?\d{1,20}),(\d{1,20})\s*(#|$)", line)
    if written is None:
        return ""
    return f"; a decimal has a point: {written[1]} = {written[2]}.{written[3]}"
