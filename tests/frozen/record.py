"""The record of a study: numbers by name, of its release and of what its curator sees.

``NAME.json`` holds a name a line, such as ``release.values.total_low``, with a number, a text, or a
list of them in the order of states (pairs, arms, stages):

| names       | of                                                                               |
|-------------|----------------------------------------------------------------------------------|
| ``private`` | statistics, estimates before noise, psi and sigma, of *made-up* people           |
| ``release`` | the release                                                                      |
| ``refit``   | what ``refit`` makes of it, if the study asks for that                           |
| ``improve`` | the policy that ``improve`` makes of it, likewise; ``improve_clear`` with a level |

Numbers are written so that reading them gives the same double. Names do not depend on how a release
is written: a list of objects and an object of lists have the same ones (``flatten``).
"""

import json
import tempfile
import warnings
from pathlib import Path
from typing import Any

import privalue as pv
from frozen.studies import Frozen
from privalue.report import policy_record

RECORDS = Path(__file__).parent / "records"
# A name that has one of these between its dots is neither stored nor compared.
LEFT_OUT = {
    # what names a day, a version, or another file
    *("schema_version", "created", "software", "refit_of"),
    # what is said of the numbers, what was asked for, and whether a query gave the rows
    *("study", "terms", "accepted", "flags", "by_query"),
}

Record = dict[str, Any]


def flatten(tree: Any, path: str) -> Record:
    """The leaves of a tree by name; of a list of objects, a list for each of their keys.

    What is empty has no name.
    """
    if isinstance(tree, dict):
        leaves = {}
        for key, value in tree.items():
            leaves |= flatten(value, f"{path}.{key}")
        return leaves
    if isinstance(tree, list) and any(isinstance(item, dict) for item in tree):
        rows = [flatten(item, path) for item in tree]
        names = dict.fromkeys(name for row in rows for name in row)
        return {name: [row.get(name) for row in rows] for name in names}
    return {} if tree is None or tree == [] else {path: tree}


def strip(record: Record) -> Record:
    """Drop the names that are left out."""
    return {name: value for name, value in record.items() if not LEFT_OUT & {*name.split(".")}}


def save(record: Record, name: str, folder: Path = RECORDS) -> None:
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in record.items())
    (folder / f"{name}.json").write_bytes(f"{{\n{lines}\n}}\n".encode())


def load(name: str, folder: Path = RECORDS) -> Record:
    return strip(json.loads((folder / f"{name}.json").read_bytes()))


# What looks inside the package, or at names that may change: where something moves, this moves.


def of_curator(diagnostics: Any) -> Record:
    """What ``inspect`` gives, and sums of returns in steps of the grid, which are whole numbers."""
    steps = diagnostics.statistics.return_steps.tolist()
    columns = diagnostics.private_columns().items()
    fields = {name: x.tolist() if hasattr(x, "tolist") else x for name, x in columns}
    return flatten({**fields, "return_steps": steps}, "private")


def of_release(text: str, path: str = "release") -> Record:
    """Of the text of release.json; stages are known by their names."""
    release = as_schema_2(json.loads(text))
    stages = {stage.pop("name"): stage for stage in release.pop("stages", [])}
    return flatten({**release, "stages": stages}, path)


ENDS = ("low", "high", "total_low", "total_high")
KEPT_MASS = {"value": "kept_mass", "low": "kept_low", "high": "kept_high", "supported": "supported"}


def as_schema_2(release: dict[str, Any]) -> dict[str, Any]:
    """A release as schema 2 named its numbers, as records do; no number is dropped."""
    tables = {name: dict(table) for name, table in release.pop("tables").items()}
    release = {name: part for name, part in release.items() if name not in {"actions", "zcdp_rho"}}
    if release["noise"]["law"] == "gaussian":
        del release["noise"]["law"]
    values, policy = (tables.get(name, {}) for name in ("values", "policy"))
    arms = tables.get("differences")
    release |= {"values": values, "state_values": tables.get("states")}
    if release["mechanism"] == "dp-ssp":
        release.setdefault("theta", values["value"])
    if "arm" in values:
        rows = list(zip(*arms.values(), strict=True))
        overall = [dict(zip(arms, row, strict=True)) for row in rows if row[2] is None]
        states = zip(*(row for row in rows if row[2] is not None), strict=True)
        release["differences"] = dict(zip(arms, map(list, states), strict=True))
        del release["differences"]["against"]
    if "arm" in policy:
        apart = {"difference": [None, *(row["value"] for row in overall)]}
        ends = {end: [None, *(row[end] for row in overall)] for end in ENDS[2:]}
        interval = {end: policy.pop(end) for end in ENDS}
        release["policies"] = {**policy, **apart, "interval": interval, "difference_interval": ends}
    elif policy and "start" not in policy:
        one = {
            name: {key: column[0] for key, column in table.items()}
            for name, table in tables.items()
        }
        for row in one.values():
            row["interval"] = {end: row.pop(end, None) for end in ENDS}
        policy = one["policy"]
        release |= {f"policy_{name}": policy[name] for name in ("value", "interval")}
        if release["mechanism"] == "dp-ope":
            trust = {"largest_clipping_bias": policy["largest_clipping_bias"]}
            trust["behaviour_contradicted"] = policy["refuted"] or None
            kept_mass = {part: policy[name] for part, name in KEPT_MASS.items()}
            release |= {"kept_mass": kept_mass, "policy_trust": trust}
            release |= {
                "behaviour_value": one["behaviour"],
                "policy_difference": one["differences"],
            }
    elif policy:
        for table in tables.values():
            table["state"] = table.pop("start")
        trusts = {"largest_clipping_bias": policy.pop("largest_clipping_bias")}
        trusts["behaviour_contradicted"] = any(policy.pop("refuted")) or None
        policy["kept_mass"] = {part: policy[name] for part, name in KEPT_MASS.items()}
        del policy["kept_low"], policy["kept_high"]
        release |= {"values": policy, "policy_trusts": trusts}
        release |= {"behaviour_values": tables["behaviour"], "differences": arms}
    return release


def of_policy(better: Any, path: str) -> Record:
    """A number for every pair of state and action, as policy.json has them."""
    record = policy_record(better)
    pairs, reasons = record["pairs"], {of["state"]: of["reason"] for of in record["states"]}
    ordered = [reasons[state] for state in dict.fromkeys(pairs["state"])]
    return flatten({"rule": record["rule"], "pairs": pairs, "reasons": ordered}, path)


def make_record(frozen: Frozen) -> Record:
    """Go through a study as a user would: inspect, release, and what follows for free."""
    with tempfile.TemporaryDirectory(prefix="frozen-") as path, warnings.catch_warnings():
        warnings.simplefilter("ignore", pv.PrivalueWarning)  # they are small, and say so
        folder = Path(path)
        study, data = frozen.study(folder), frozen.data(folder)
        record = of_curator(pv.inspect(study, data, engine=frozen.engine))
        release = pv.release(
            study,
            data,
            entropy=pv.SeededForExperimentsOnly(frozen.seed),
            engine=frozen.engine,
            accept_useless=True,
            accept_large_delta=True,
        )
        record |= of_release(release.to_json())
        if frozen.refit:
            record |= of_release(pv.refit(release, **frozen.refit).to_json(), "refit")
        if frozen.improve:
            record |= of_policy(pv.improve(release), "improve")
            record |= of_policy(pv.improve(release, level=frozen.improve), "improve_clear")
    return strip(record)
