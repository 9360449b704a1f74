"""SCOPE-RL's importance-sampling estimators on rows of ours, in an environment of their own.

    python -m venv scope && scope/bin/pip install numpy scipy scikit-learn
    pip download --no-deps scope-rl==0.2.1 -d wheel && unzip wheel/*.whl -d wheel
    PYTHONPATH=wheel scope/bin/python benchmarks/peers/scope.py ROWS.csv VALUES.json

Nothing of ours is imported here. SCOPE-RL's estimators need numpy and scikit-learn; what the
package imports for other things (d3rlpy, gym, its own evaluation of several policies) is replaced
by empty modules, since it would take some gigabytes. Rows have trajectory, step, action, reward,
the behaviour's probability of the action taken, and the target's.

SCOPE-RL takes trajectories of one length: shorter ones go on with reward 0 and ratio 1.
"""

import csv
import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import numpy as np

ESTIMATORS = {
    "TIS": "TrajectoryWiseImportanceSampling",
    "SNTIS": "SelfNormalizedTIS",
    "PDIS": "PerDecisionImportanceSampling",
    "SNPDIS": "SelfNormalizedPDIS",
}


def estimators() -> ModuleType:
    """Import the module of basic estimators without the rest of the package."""
    for name, attributes in (
        ("gym", ("Env",)),
        ("d3rlpy", ()),
        ("d3rlpy.preprocessing", ("ActionScaler",)),
    ):
        module = ModuleType(name)
        for attribute in attributes:
            setattr(module, attribute, type(attribute, (), {}))
        sys.modules[name] = module
    spec = importlib.util.find_spec("scope_rl")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    root = Path(next(iter(spec.submodule_search_locations)))
    for name in ("scope_rl", "scope_rl.ope", "scope_rl.ope.discrete"):
        package = ModuleType(name)
        package.__path__ = [str(root.joinpath(*name.split(".")[1:]))]
        sys.modules[name] = package
    return importlib.import_module("scope_rl.ope.discrete.basic_estimators")


def values(rows: list[dict[str, str]], discount: float) -> dict[str, float]:
    """Return what each estimator says of the target's value."""
    people = sorted({int(row["trajectory"]) for row in rows})
    place = {person: at for at, person in enumerate(people)}
    steps = 1 + max(int(row["step"]) for row in rows)
    reward, behaviour = np.zeros((len(people), steps)), np.ones((len(people), steps))
    target = np.zeros((len(people), steps, 2))  # of the action taken (1), and of all others (0)
    target[..., 1] = 1.0
    for row in rows:
        at = place[int(row["trajectory"])], int(row["step"])
        reward[at], behaviour[at] = float(row["reward"]), float(row["behaviour"])
        target[at] = 1 - float(row["target"]), float(row["target"])
    module = estimators()
    inputs = {
        "step_per_trajectory": steps,
        "action": np.ones(reward.size, dtype=int),
        "reward": reward.ravel(),
        "pscore": behaviour.ravel(),
        "evaluation_policy_action_dist": target.reshape(-1, 2),
        "gamma": discount,
    }
    return {
        name: float(getattr(module, kind)().estimate_policy_value(**inputs))
        for name, kind in ESTIMATORS.items()
    }


if __name__ == "__main__":
    source, out = map(Path, sys.argv[1:3])
    with source.open() as opened:
        result = values(list(csv.DictReader(opened)), discount=0.99)
    out.write_text(json.dumps({"scope-rl": "0.2.1", "discount": 0.99, **result}, indent=1) + "\n")
