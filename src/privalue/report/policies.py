"""Describe an improved policy (its changes, and how certain they are), and write its files."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from privalue.errors import UsageError
from privalue.estimate import WORDS, Improvement, StateChange
from privalue.releases import Release
from privalue.report.description import Description, Listing, Notice, Table
from privalue.report.files import table_csv, write_text
from privalue.report.html import PUBLIC_MARK, fact, render
from privalue.report.meaning import name_restriction
from privalue.version import VERSION


def describe_policy(improvement: Improvement) -> Description:
    """Return the description of an improved policy: its differences from the behaviour."""
    release, changes = improvement.release, improvement.changes
    level, only_clear_gains = improvement.level or release.level, improvement.level is not None
    moves = [change for change in changes if change.action is not None]
    reasons = [(change.state, change.reason) for change in changes if change.action is None]
    rows = [
        (state, "any, equally likely" if why == "nothing-known" else "keep", WORDS["reasons"][why])
        for state, why in reasons
    ]
    about = {
        "moved": len(moves),
        "states": len(changes),
        "clear": sum((change.low or 0.0) > 0 for change in moves),
        "level": level,
        "only_clear_gains": only_clear_gains,
    }
    facts = {
        **{f"policy.{name}": about[name] for name in ("moved", "states", "only_clear_gains")},
        "privacy.sentence": release.sentence(),
        "release.created": release.created,
        "release.sha256": release.sha256,
        "method.software": release.software,
    }
    unchanged = Listing("kept", "States where no action is chosen", ("State", "does", "why"), rows)
    return Description(
        title=release.study["study"]["name"],
        facts=tuple(fact(key, value) for key, value in facts.items()),
        notices=(Notice("hypothesis", "warn", about), Notice("other-people", "note")),
        tables=(_gains(release, moves),) if moves else (),
        listings=(unchanged,) if rows else (),
        level=level,
        private=release.private,
    )


def _gains(release: Release, moves: Sequence[StateChange]) -> Table:
    shares = [move.behaviour for move in moves]
    low, high = ([getattr(move, end) or 0.0 for move in moves] for end in ("low", "high"))
    title = "Gain of the new action over what was done; intervals hold for all at once"
    return Table(
        key="gains",
        title=name_restriction(release, title),
        labels={
            "State": [move.state for move in moves],
            "New action": [str(move.action) for move in moves],
        },
        value=np.array([move.advantage or 0.0 for move in moves]),
        total=(np.array(low), np.array(high)),
        more={"share before": ["unknown" if s is None else f"{100 * s:.0f}%" for s in shares]},
        flags=[() if end > 0 else ("not clear",) for end in low],
        marks=(0.0,),
        axis_label="gain",
    )


def policy_record(improvement: Improvement) -> dict[str, Any]:
    """Return the content of policy.json."""
    release = improvement.release
    return {
        "schema_version": 3,
        "kind": "policy",
        "private": release.private,
        "warning": WORDS["warning"],
        "release": release.sha256,
        "guarantee": release.sentence(),
        "rule": {
            "moves": "best" if improvement.level is None else "clear gains",
            "level": improvement.level or release.level,
        },
        "states": [change._asdict() for change in improvement.changes],
        "pairs": improvement.columns,
        "software": f"privalue {VERSION}",
    }


def save_policy(improvement: Improvement, target: Path, *, force: bool = False) -> list[Path]:
    """Write the policy as a table, with .json and .html beside it.

    Raises:
        UsageError: a file exists, or cannot be written, or the name does not end in .csv.
    """
    if target.suffix.lower() != ".csv":
        raise UsageError(f"{target}: the policy is a table; give a name that ends in .csv")
    names = ("state", "action", "probability")
    table = table_csv({name: improvement.columns[name] for name in names})
    page = render("policy.html", describe_policy(improvement), mark=PUBLIC_MARK)
    record = json.dumps(policy_record(improvement), indent=1, ensure_ascii=False, allow_nan=False)
    files = {
        target: "".join(table),
        target.with_suffix(".json"): record + "\n",
        target.with_suffix(".html"): page,
    }
    for file in files:
        if file.exists() and not force:
            hint = "give another name, or allow it with {force}"
            raise UsageError(f"{file} exists", code="exists", hint=hint)
    return [write_text(file, text) for file, text in files.items()]
