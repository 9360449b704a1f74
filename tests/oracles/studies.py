"""Small studies and random episodes for the tests."""

import json

import pandas as pd
from hypothesis import strategies as st

import privalue as pv
from privalue.core import MECHANISMS
from privalue.study import resolve

PROMISE = {"epsilon": 1.0, "delta": 1e-6, "unit": "trajectory"}


def in_sections(**sections):
    """A study from its sections, as a file gives them."""
    return pv.Study.from_sections(sections)


def study_file(**sections):
    """The text of a small study, with these keys in place of its own."""
    defaults = {
        "privacy": {"epsilon": 1.0, "delta": 1e-6, "unit": "trajectory"},
        "values": {"discount": 0.9, "rewards": [0.0, 1.0]},
        "states": {"count": 3},
    }
    lines = []
    for name in defaults | sections:
        keys = defaults.get(name, {}) | sections.get(name, {})
        lines += [f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in keys.items())]
    return "\n".join([*lines, ""])


def mechanism_for(study, design, size):
    """The mechanism of a study, from public numbers alone."""
    terms = resolve(study, size, design)
    return MECHANISMS[terms.mechanism](terms)


def make_study(count=3, *, discount=0.9, rewards=(0.0, 1.0), returns=None, **sections):
    """A valid study, the paper's constants and noise; sections replace the defaults' keys."""
    values = {"discount": discount, "rewards": rewards, **sections.pop("values", {})}
    if returns is not None:
        values["returns"] = returns
    privacy = {"epsilon": 1.0, "delta": 1e-6, "unit": "trajectory", **sections.pop("privacy", {})}
    places = sections.pop("states", {"count": count})
    mechanism = {"name": "dp-lsw", "calibration": "nissim", **sections.pop("mechanism", {})}
    if mechanism["name"] == "dp-lsw":
        mechanism.setdefault("noise", "isotropic")
    return in_sections(
        privacy=privacy, values=values, states=places, mechanism=mechanism, **sections
    )


def release_anyway(study, data, **options):
    """Release although the study is small or noisy enough to be refused as useless."""
    return pv.release(study, data, accept_useless=True, **options)


def rows_of(episodes):
    """The long table of episodes: (trajectory, step, state, reward)."""
    return [
        (t, i, state, reward)
        for t, episode in enumerate(episodes)
        for i, (state, reward) in enumerate(episode)
    ]


def episodes(states, *, low=-2.0, high=2.0, most=8, longest=9):
    """Lists of episodes; rewards may lie outside the bounds."""
    step = st.tuples(st.integers(0, states - 1), st.floats(low, high, allow_nan=False, width=32))
    return st.lists(st.lists(step, min_size=1, max_size=longest), min_size=1, max_size=most)


def frame_of_persons(people):
    """The long table of {person: [episode, ...]}; the ids of trajectories start anew per person."""
    rows = [
        (person, trajectory, step, state, reward)
        for person, owned in people.items()
        for trajectory, episode in enumerate(owned)
        for step, (state, reward) in enumerate(episode)
    ]
    columns = ["person", "trajectory", "step", "state", "reward"]
    return pd.DataFrame(rows, columns=columns).astype({"person": int, "trajectory": int})
