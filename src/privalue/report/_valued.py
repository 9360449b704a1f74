"""Say which policy was valued, against which behaviour, and within which public limits.

All of it comes from the description of the study that a release holds.
"""

from typing import Any

from privalue._written import counted
from privalue.releases import Release
from privalue.report._states import return_bounds

_MOST_ENTRIES = 24  # of a table of probabilities that is written out
_MOST_LABELS = 12


def valued_facts(release: Release) -> list[tuple[str, str]]:
    """Return what a release by dp-ope is of: the name of each fact, and the fact."""
    described = release.study
    policy, values = described["policy"], described["values"]
    low, high = return_bounds(release)
    size = (
        f"{release.trajectories:,}"
        if release.trajectories is not None
        else f"not public; {counted(release.persons, 'person')}"
        if release.persons is not None
        else "not public"
    )
    return [
        ("target", policy_words(release, "target")),
        ("behaviour", policy_words(release, "behaviour")),
        ("clip", f"weights count with {policy['clip']:g} at most"),
        ("discount", f"{values['discount']:g} per step"),
        ("returns within", f"[{low:g}, {high:g}]"),
        ("states", _labels(described["states"])),
        ("actions", _labels(described.get("actions", {}))),
        ("trajectories", size),
    ]


def policy_words(release: Release, which: str) -> str:
    """Return a policy of the study: its file with its hash, or its table where it is small.

    Args:
        release: by dp-ope.
        which: target or behaviour.
    """
    given = release.study["policy"][which]
    if which == "behaviour" and given == "column":
        column = release.study["data"].get("probability", "probability")
        return f"probabilities that are logged in the rows, column {column}"
    if isinstance(given, str):
        for file in release.study["side_files"]:
            if file["key"] == f"[policy] {which}":
                return f"the file {file['name']}, SHA-256 {file['sha256']}"
        return f"the file {given}"
    if sum(len(row) if isinstance(row, dict) else 1 for row in given.values()) > _MOST_ENTRIES:
        return f"the table of {counted(len(given), 'state')} in the study, which release.json holds"
    return "; ".join(f"{state}: {_row(row)}" for state, row in given.items())


def _row(row: Any) -> str:
    """Return what is done in a state."""
    if not isinstance(row, dict):
        return str(row)
    return ", ".join(f"{action} {share:g}" for action, share in row.items())


def _labels(section: dict[str, Any]) -> str:
    """Return how many states or actions there are, or where they are listed."""
    if "count" in section:
        return f"{section['count']:,}"
    if "labels" in section:
        labels = [str(label).strip() for label in section["labels"]]
        more = f" and {len(labels) - _MOST_LABELS:,} more" if len(labels) > _MOST_LABELS else ""
        return f"{len(labels):,}: {', '.join(labels[:_MOST_LABELS])}{more}"
    if "bins" in section:
        return f"the bins of {', '.join(section['bins'])}"
    return f"those of the file {section['file']}" if "file" in section else "as the study says"
