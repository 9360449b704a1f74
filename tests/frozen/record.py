"""What is kept of a study: named numbers, of its release and of what its curator sees.

``NAME.json`` holds a name a line, such as ``release.values.total_low``, with a number, a text, or a
list of them in the order of states (pairs, arms, stages):

| names       | of                                                                               |
|-------------|----------------------------------------------------------------------------------|
| ``private`` | statistics, estimates before noise, psi and sigma, of *made-up* people           |
| ``release`` | the release                                                                      |
| ``refit``   | what ``refit`` makes of it, if the study asks for that                           |
| ``improve`` | the policy that ``improve`` makes of it, likewise; ``improve_clear`` with a level |

Numbers are written so that reading them gives the same double. Names do not depend on how a release
is written: a list of objects and an object of lists have the same ones (``named``).
"""

import json
import tempfile
import warnings
from pathlib import Path
from typing import Any

import privalue as pv
from frozen.studies import Frozen

KEPT = Path(__file__).parent / "kept"
# A name that has one of these between its dots is neither kept nor compared.
LEFT_OUT = {
    # what names a day, a version, or another file
    *("schema_version", "created", "software", "refit_of"),
    # what is said of the numbers, and what was asked for
    *("study", "terms", "accepted", "flags"),
}

Record = dict[str, Any]


def named(tree: Any, path: str) -> Record:
    """The leaves of a tree by name; of a list of objects, a list for each of their keys.

    What is empty has no name.
    """
    if isinstance(tree, dict):
        found = {}
        for key, value in tree.items():
            found |= named(value, f"{path}.{key}")
        return found
    if isinstance(tree, list) and any(isinstance(item, dict) for item in tree):
        rows = [named(item, path) for item in tree]
        names = dict.fromkeys(name for row in rows for name in row)
        return {name: [row.get(name) for row in rows] for name in names}
    return {} if tree is None or tree == [] else {path: tree}


def compared(record: Record) -> Record:
    """A record without what is left out."""
    return {name: value for name, value in record.items() if not LEFT_OUT & {*name.split(".")}}


def saved(record: Record, name: str, folder: Path = KEPT) -> None:
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in record.items())
    (folder / f"{name}.json").write_bytes(f"{{\n{lines}\n}}\n".encode())


def loaded(name: str, folder: Path = KEPT) -> Record:
    return compared(json.loads((folder / f"{name}.json").read_bytes()))


# What looks inside the package, or at names that may change: where something moves, this moves.


def of_curator(diagnostics: Any) -> Record:
    """What ``inspect`` gives, and sums of returns in steps of the grid, which are whole numbers."""
    steps = diagnostics.statistics.return_steps.tolist()
    return named({**diagnostics.private_fields(), "return_steps": steps}, "private")


def of_release(text: str, path: str = "release") -> Record:
    """Of the text of release.json; stages are known by their names."""
    release = json.loads(text)
    stages = {stage.pop("name"): stage for stage in release.pop("stages", [])}
    return named({**release, "stages": stages}, path)


def of_policy(better: Any, path: str) -> Record:
    """A number for every pair of state and action, as policy.json has them."""
    told = better.as_dict()
    pairs = [{"state": of["state"], **pair} for of in told["states"] for pair in of["actions"]]
    reasons = [of["reason"] for of in told["states"]]
    return named({"rule": told["rule"], "pairs": pairs, "reasons": reasons}, path)


def recorded(frozen: Frozen) -> Record:
    """Goes through a study as a user would: inspect, release, and what follows for free."""
    with tempfile.TemporaryDirectory(prefix="frozen-") as made, warnings.catch_warnings():
        warnings.simplefilter("ignore", pv.PrivalueWarning)  # they are small, and say so
        folder = Path(made)
        study, data = frozen.study(folder), frozen.data(folder)
        found = of_curator(pv.inspect(study, data, engine=frozen.engine))
        release = pv.release(
            study,
            data,
            entropy=pv.SeededForExperimentsOnly(frozen.seed),
            engine=frozen.engine,
            accept_useless=True,
            accept_large_delta=True,
        )
        found |= of_release(release.to_json())
        if frozen.refit:
            found |= of_release(pv.refit(release, **frozen.refit).to_json(), "refit")
        if frozen.improve:
            found |= of_policy(pv.improve(release), "improve")
            found |= of_policy(pv.improve(release, level=frozen.improve), "improve_clear")
    return compared(found)
