"""Write a commented study file from the models, so that it cannot fall behind them."""

from collections.abc import Mapping

from pydantic.fields import FieldInfo

from privalue.study._study import Study

# What a new study starts from. A key that is left out here is written as a comment.
STARTING_POINT: Mapping[str, Mapping[str, str]] = {
    "study": {"name": '"my-study"'},
    "privacy": {
        "epsilon": "1.0",
        "delta": "1e-6",
        "unit": '"trajectory"',
        "neighbours": '"replace-one"',
    },
    "values": {"discount": "0.99", "rewards": "[0.0, 1.0]", "returns": "[0.0, 1.0]"},
    "states": {"count": "40"},
    "features": {"kind": '"tabular"'},
    "weights": {"kind": '"uniform"'},
    "arms": {},
    "actions": {},
    "policy": {},
    "mechanism": {"name": '"dp-ssp"'},
    "report": {},
    "data": {},
}

_EXAMPLES: Mapping[str, str] = {
    "dataset": '"trial-2026"',
    "period": '"2026-11"',
    "trajectories": "10000",
    "unvisited": "0.0",
    "start": '"start.csv"',
    "labels": '["stage 1", "stage 2"]',
    "groups": '"groups.csv"',
    "bins": "{ age = [50, 70], sofa = [5, 10] }",
    "visits": '"visits.csv"',
    "max_trajectories_per_person": "3",
    "max_states_per_trajectory": "20",
    "size": "2",
    "calibration": '"exact"',
    "noise": '"whitened"',
    "beta": '"auto"',
    "pseudo_count": "0.0",
    "ridge": '"sqrt"',
    "ridge_scale": "100.0",
    "stages": '["bounds"]',
    "stage_shares": "{ bounds = 0.10 }",
    "shrink": "false",
    "shrinkage": "true",
    "level": "0.95",
    "sorted": "true",
    "id_type": '"integer"',
    "step_type": '"date"',
    "step_format": '"%d.%m.%Y"',
    "invalid": '"drop-unit"',
    "missing": '["", "NA"]',
    "decimal": '","',
    "delimiter": '";"',
    "encoding": '"cp1252"',
    "trajectory": '"stay_id"',
    "step": '"day"',
    "state": '"ward"',
    "reward": '"score"',
    "action": '"drug"',
    "person": '"patient_id"',
    "truncated": '"cut"',
    "column": '"arm"',
    "allowed": '"allowed.csv"',
    "target": '"policy.csv"',
    "behaviour": '"behaviour.csv"',
    "clip": "10.0",
    "by": '"start"',
    "probability": '"propensity"',
}

# Of keys that several sections have, or that mean something else in another one.
_OF_SECTION = {
    ("actions", "count"): "9",
    ("actions", "labels"): '["wait", "treat"]',
    ("arms", "labels"): '["control", "treated"]',
    ("values", "truncated"): '"drop-unit"',
}
_FILES = {
    "states": '"states.csv"',
    "features": '"features.npy"',
    "weights": '"weights.csv"',
    "actions": '"actions.csv"',
}


def study_template(
    changes: Mapping[tuple[str, str], str] | None = None,
    questions: Mapping[tuple[str, str], str] | None = None,
    starting: Mapping[str, Mapping[str, str]] = STARTING_POINT,
) -> str:
    """Return a study file with every key explained.

    Args:
        changes: TOML values by (section, key), in place of those that a new study starts from.
        questions: comments by (section, key), written above the key, for a person to answer.
        starting: what a new study starts from.
    """
    lines = [
        "# This file says what is public about a study, and nothing else. The data adds nothing.",
        "# A line that starts with # shows a key that you may use; all other lines apply.",
    ]
    for section in STARTING_POINT:
        lines += ["", f"[{section}]"]
        for key, field in Study.keys_of(section).items():
            chosen = (changes or {}).get((section, key), starting.get(section, {}).get(key))
            line = f"{key} = {chosen}" if chosen else f"# {key} = {_example(section, key)}"
            if line.endswith("= "):
                continue
            if (section, key) in (questions or {}):
                lines.append(f"# ? {(questions or {})[section, key]}")
            lines.append(f"{line}  # {_explanation(field)}")
    return "\n".join(lines) + "\n"


def _example(section: str, key: str) -> str:
    """Return an example of a key, for a line that is a comment."""
    if key == "file":
        return _FILES.get(section, "")
    usual = STARTING_POINT[section].get(key, "")
    return _OF_SECTION.get((section, key), _EXAMPLES.get(key, usual))


def _explanation(field: FieldInfo) -> str:
    """Return what a key means and what is allowed."""
    extra = field.json_schema_extra
    allowed = extra["allowed"] if isinstance(extra, dict) else ""
    meaning = field.description or ""
    return f"{meaning[:1].upper()}{meaning[1:]}. Allowed: {allowed}"
