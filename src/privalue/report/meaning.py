"""Describe what the values of a release mean, and its study, in the study's words."""

from collections.abc import Iterator, Mapping
from typing import Any

from privalue.releases import Release
from privalue.report.description import Fact
from privalue.report.html import sentence
from privalue.report.numbers import format_number
from privalue.study import described_values


def return_bounds_of(release: Release) -> tuple[float, float]:
    """Return the bounds that returns were clamped to: the study's, or those that a stage chose."""
    if release.restriction is None:
        return described_values(release.study).return_bounds
    return release.restriction.low, release.restriction.high


def meaning_of(release: Release) -> str:
    """Return the meaning of a value, in a sentence."""
    return sentence(
        "meaning",
        mechanism=release.mechanism,
        **names_of(release),
        discount=release.study["values"]["discount"],
        actions=bool(release.actions),
        clip=release.study.get("policy", {}).get("clip"),
    )


def heading_of(release: Release, by: str = "") -> str:
    """Return the heading of values: the outcome, the keys ``by``, and any bounds of a stage."""
    return sentence(
        "heading",
        **names_of(release),
        is_discounted=release.study["values"]["discount"] != 1,
        by=by,
    )


def name_restriction(release: Release, title: str) -> str:
    """Return the title, with the bounds of returns if a stage chose them."""
    names = names_of(release)
    if names["restriction"] is None:
        return title
    clause = sentence("counted", **names["restriction"])
    return f"{title} ({names['outcome'] or 'returns'}, {clause})"


def axis_label_of(release: Release) -> str:
    """Return the outcome and its unit, for an axis; empty where the study names neither."""
    names = names_of(release)
    outcome, unit = names["outcome"], names["unit"]
    return f"{outcome} ({unit})" if outcome and unit else outcome or unit


def names_of(release: Release) -> dict[str, Any]:
    """Return the study's names of the outcome and its unit, and the bounds that a stage chose."""
    section, stage = release.study.get("report", {}), release.restriction
    names: dict[str, Any] = {key: str(section.get(key) or "") for key in ("outcome", "unit")}
    if stage is None:
        return {**names, "restriction": None}
    low, high = described_values(release.study).return_bounds
    ends = {"below": stage.low != low, "above": stage.low == low or stage.high != high}
    restriction = {"low": stage.low, "high": stage.high, "unit": names["unit"], **ends}
    return {**names, "restriction": restriction}


def section_facts(description: Mapping[str, Any]) -> Iterator[Fact]:
    """Yield the sections of a study, each with its keys in one line."""
    for name, section in description.items():
        if name == "side_files":
            for file in section:
                key, text = file["key"], f"{file['name']}, SHA-256 {file['sha256']}"
                yield Fact(f"study.side_files.{key}", file["sha256"], f"Side file {key}", text)
        elif section:
            yield Fact(f"study.{name}", section, f"[{name}]", plain_text(section)[1:-1])


def plain_text(value: Any) -> str:
    """Return a value of a study as people write it; of long lists, how many entries there are."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping | list | tuple) and len(value) > 12:
        return f"{len(value)} entries"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key} = {plain_text(entry)}' for key, entry in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(plain_text, value))}]"
    return format_number(value, 6) if isinstance(value, float) else str(value) or '""'
