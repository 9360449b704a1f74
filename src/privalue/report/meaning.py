"""Name what the values of a release are, and what was public, in the words of its study."""

from collections.abc import Iterator, Mapping
from typing import Any

from privalue.releases import Release
from privalue.report.description import Fact
from privalue.report.html import sentence
from privalue.report.numbers import format_number
from privalue.study import described_values


def counted_between(release: Release) -> tuple[float, float]:
    """Return the bounds between which returns count: the study's, or what a stage chose."""
    held = release.restriction
    return described_values(release.study).return_bounds if held is None else (held.low, held.high)


def meaning_of(release: Release) -> str:
    """Return what a value is, in a sentence."""
    return sentence(
        "meaning",
        mechanism=release.mechanism,
        **names_of(release),
        discount=release.study["values"]["discount"],
        actions=bool(release.actions),
        clip=release.study.get("policy", {}).get("clip"),
    )


def heading_of(release: Release, by: str = "") -> str:
    """Return the heading of values: what they are of, by what, and how returns count."""
    return sentence(
        "heading",
        **names_of(release),
        is_discounted=release.study["values"]["discount"] != 1,
        by=by,
    )


def name_restriction(release: Release, title: str) -> str:
    """Return the title, and how returns count where a stage chose their bounds."""
    names = names_of(release)
    if names["restriction"] is None:
        return title
    counted = sentence("counted", **names["restriction"])
    return f"{title} ({names['outcome'] or 'returns'}, {counted})"


def axis_label_of(release: Release) -> str:
    """Return the outcome and its unit, for an axis; empty where the study names neither."""
    names = names_of(release)
    outcome, unit = names["outcome"], names["unit"]
    return f"{outcome} ({unit})" if outcome and unit else outcome or unit


def names_of(release: Release) -> dict[str, Any]:
    """Return how the study calls the outcome and its unit, and how a stage restricted returns."""
    chosen, held = release.study.get("report", {}), release.restriction
    names: dict[str, Any] = {key: str(chosen.get(key) or "") for key in ("outcome", "unit")}
    if held is None:
        return {**names, "restriction": None}
    low, high = described_values(release.study).return_bounds
    ends = {"below": held.low != low, "above": held.low == low or held.high != high}
    restriction = {"low": held.low, "high": held.high, "unit": names["unit"], **ends}
    return {**names, "restriction": restriction}


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
    if isinstance(value, Mapping | list | tuple) and len(value) > 12:
        return f"{len(value)} entries"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key} = {plain_text(inner)}' for key, inner in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(plain_text, value))}]"
    return format_number(value, 6) if isinstance(value, float) else str(value)
