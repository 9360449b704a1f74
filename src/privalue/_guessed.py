"""Answer names that people guess, and that are called something else here."""

import difflib
from collections.abc import Collection, Mapping

_OF_THE_PACKAGE: Mapping[str, str] = {
    "Ledger": 'pv.open_ledger("ledger.db")',
    "evaluate": "pv.release(study, data)",
    "fit": "pv.release(study, data)",
    "fit_values": "pv.release(study, data)",
    "load": 'pv.Study.load("study.toml"), or pv.Release.load("released")',
    "load_release": 'pv.Release.load("released")',
    "load_study": 'pv.Study.load("study.toml")',
    "read_csv": 'pv.release(study, "rows.csv")',
    "read_parquet": 'pv.release(study, "rows.parquet")',
    "report": 'pv.publish(release, "released")',
    "value_function": "pv.release(study, data)",
}

_OF_A_RELEASE: Mapping[str, str] = {
    "ci": "release.total_low and release.total_high",
    "confidence_interval": "release.total_low and release.total_high",
    "delta": "release.privacy.delta",
    "df": "release.to_pandas()",
    "heatmap": "release.plot()",
    "improve": "pv.improve(release)",
    "policy": "pv.improve(release).probabilities(state)",
    "epsilon": "release.privacy.epsilon",
    "iloc": "release.values[0]",
    "index": "release.states",
    "items": "(record.state, record.value) for record in release",
    "keys": "release.states",
    "labels": "release.states",
    "loc": 'release["ill"]',
    "report": 'pv.publish(release, "released")',
    "shape": "len(release)",
    "to_csv": 'release.to_pandas().to_csv("values.csv")',
    "to_dataframe": "release.to_pandas()",
    "to_dict": "release.as_dict()",
    "to_numpy": "release.value",
    "to_parquet": 'release.to_pandas().to_parquet("values.parquet")',
    "v": "release.value",
    "value_function": "release.value",
}


def about_package(name: str, known: Collection[str]) -> str:
    """Return what to say to somebody who asks the package for a name that it does not have.

    >>> about_package("Stduy", ["Study", "release"])
    "module 'privalue' has no attribute 'Stduy'; did you mean pv.Study?"
    """
    told = f"module 'privalue' has no attribute {name!r}"
    if name in _OF_THE_PACKAGE:
        return f"{told}; write {_OF_THE_PACKAGE[name]}"
    near = difflib.get_close_matches(name, known, n=1)
    return f"{told}; did you mean pv.{near[0]}?" if near else told


def about_release(name: str, known: Collection[str]) -> str:
    """Return what to say to somebody who asks a release for a name that it does not have."""
    told = f"a Release has no attribute {name!r}"
    if name.lower() in _OF_A_RELEASE:
        return f"{told}; write {_OF_A_RELEASE[name.lower()]}"
    near = difflib.get_close_matches(name, known, n=1)
    return f"{told}; did you mean release.{near[0]}?" if near else told
