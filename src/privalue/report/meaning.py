"""Name what the values of a release are, and what was public, in the words of its study."""

from collections.abc import Iterator, Mapping
from typing import Any

from privalue.releases import Release
from privalue.report.description import Fact
from privalue.report.numbers import format_number
from privalue.study import described_values


def counted_between(release: Release) -> tuple[float, float]:
    """Return the bounds between which returns count: the study's, or what a stage chose."""
    held = release.restriction
    return described_values(release.study).return_bounds if held is None else (held.low, held.high)


def outcome_of(release: Release) -> str:
    """Return what a value is a mean of."""
    return str(release.study.get("report", {}).get("outcome") or "return")


def restriction_words(release: Release) -> str:
    """Return how returns count where a stage chose their bounds; empty where none did."""
    held = release.restriction
    if held is None:
        return ""
    low, high = described_values(release.study).return_bounds
    if held.low == low:
        return f"each counted up to {format_number(held.high, 6)}"
    if held.high == high:
        return f"each counted down to {format_number(held.low, 6)}"
    return f"each held between {format_number(held.low, 6)} and {format_number(held.high, 6)}"


def heading_of(release: Release, by: str = "") -> str:
    """Return the heading of values: what they are of, by what, and how returns count."""
    outcome, how = release.study.get("report", {}).get("outcome"), restriction_words(release)
    discounted = "" if release.study["values"]["discount"] == 1 else "discounted "
    plain = f"Mean {discounted}{outcome}" if outcome else "Mean of returns" if how else "Values"
    return f"{plain}{by and f' {by}'}{how and f', {how}'}"


def axis_label_of(release: Release) -> str:
    """Return the outcome and its unit, for an axis; empty where the study names neither."""
    chosen = release.study.get("report", {})
    outcome, unit = chosen.get("outcome"), chosen.get("unit")
    return f"{outcome} ({unit})" if outcome and unit else outcome or unit or ""


def section_facts(described: Mapping[str, Any]) -> Iterator[Fact]:
    """Yield the sections of a study, each with its keys in one line."""
    for name, section in described.items():
        if name == "side_files":
            for file in section:
                yield Fact(
                    f"study.side_files.{file['key']}",
                    file["sha256"],
                    f"Side file {file['key']}",
                    f"{file['name']}, SHA-256 {file['sha256']}",
                )
        elif section:
            yield Fact(f"study.{name}", section, f"[{name}]", plain_text(section)[1:-1])


def plain_text(value: Any) -> str:
    """Return a value of a study as people write it; of long lists, how many entries there are."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        if len(value) > 12:
            return f"{len(value)} entries"
        return f"{{{', '.join(f'{key} = {plain_text(inner)}' for key, inner in value.items())}}}"
    if isinstance(value, list | tuple):
        if len(value) > 12:
            return f"{len(value)} entries"
        return f"[{', '.join(map(plain_text, value))}]"
    return format_number(value, 6) if isinstance(value, float) else str(value)
