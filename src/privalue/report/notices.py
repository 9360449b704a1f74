"""Decide whether the values of a release can be used, from released numbers alone.

Values are unusable if the plan called them useless, or if all of them have too few visits or wide
intervals. States cannot be told apart if one value lies in the simultaneous band of every state:
that common value is shown, and the values are unusable if its interval is wide. Any flag, or noise
of unknown scale, calls for care.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from privalue.estimate import WORDS, Verdict, verdict
from privalue.releases import Release
from privalue.report.description import Notice, Table
from privalue.report.meaning import names_of, return_bounds_of
from privalue.report.numbers import format_interval
from privalue.report.tables import kept_mass
from privalue.study import described_values

_LIMITS = ("states_per_trajectory", "trajectories_per_person")  # max_... of the study


def notices_of(release: Release, tables: Sequence[Table]) -> tuple[Notice, ...]:
    """Return the notices of a release, the most severe first."""
    if release.mechanism == "dp-ope":
        notices = [*_off_policy(release)]
    else:
        notices = [*_usability(release, next(t for t in tables if t.key == "values"))]
    notices += _general(release)
    return tuple(sorted(notices, key=lambda item: ("stop", "warn", "note").index(item.severity)))


def _usability(release: Release, values: Table) -> Iterator[Notice]:
    """Yield the verdict on values by state: why they are unusable, or which ones are flagged."""
    low, high = described_values(release.study).return_bounds
    if "useless" in release.accepted:
        yield Notice("useless", "stop", {"middle": (low + high) / 2})
        return
    result = verdict(release)
    if result is not None and result.different_values == 1:
        yield _indistinguishable(release, result)
        return
    flagged = values.flagged
    useless_flags = {WORDS["flags"][code] for code in ("unclear", "wide")}
    useless = [at for at in flagged if useless_flags & set(values.flags[at])]
    if len(useless) == len(values):
        yield Notice("nothing-supported", "stop")
    elif flagged:
        flags = dict.fromkeys(flag for at in flagged for flag in values.flags[at])
        names = [", ".join(values.row(at).labels) for at in flagged]
        about = {"names": names, "of": len(values), "flags": list(flags)}
        yield Notice("flagged", "warn", about)
    elif values.total is None:
        yield Notice("no-intervals", "warn", {"mechanism": release.mechanism})
    else:
        about = {
            "level": release.level,
            "half": float(np.median(values.total[1] - values.total[0])) / 2,
            "bounds": return_bounds_of(release),
            "distinct": None if result is None else result.different_values,
        }
        yield Notice("precise", "note", about)


def _indistinguishable(release: Release, result: Verdict) -> Notice:
    low, high = result.common_low, result.common_high
    first, last = return_bounds_of(release)
    about = {
        "what": "values" if len(release.main.keys) > 1 else "states",
        "level": release.level,
        "common": str(format_interval(result.common_value, low, high)),
        "wide": release.restriction is None,
    }
    is_narrow = high - low <= (last - first) / 2
    return Notice("indistinguishable", "warn" if is_narrow else "stop", about)


def _off_policy(release: Release) -> Iterator[Notice]:
    target, differences = release.tables["policy"], release.tables["differences"]
    starts = len(target) if target.keys else 0
    if "useless" in release.accepted:
        yield Notice("useless", "stop", {"middle": None})
    if target.columns["refuted"].any():
        rules = (release.study["data"].get("invalid"), release.study["data"].get("truncated_rows"))
        yield Notice(
            "behaviour-refuted",
            "stop",
            {
                "starts": starts,
                "above": int((target.columns["kept_low"] > 1).sum()),
                "kept": str(kept_mass(target, 0)),
                "dropped": "drop-unit" in rules,
            },
        )
        return
    unsupported = int((~target.columns["supported"]).sum())
    if unsupported:
        yield Notice("weight-lost", "warn", {"starts": starts, "lost": unsupported})
    if starts:
        yield Notice("off-policy", "note", {"starts": starts, "bias": None, "doubtful": False})
        return
    value, gap = target.row(0), differences.row(0)
    bias = float(value.largest_clipping_bias)
    differs = gap.total_low > 0 or gap.total_high < 0
    clearly = value.supported and (gap.total_low - bias > 0 or gap.total_high + bias < 0)
    about = {"value": value, "difference": gap, "bias": bias, "clearly": clearly}
    yield Notice("off-policy", "note", {"starts": 0, "doubtful": differs and not clearly, **about})


def _general(release: Release) -> Iterator[Notice]:
    """Yield the notices that do not depend on the values."""
    privacy, study = release.privacy, release.study
    if release.pooled_from:
        yield Notice("pooled", "warn", _pooling(release))
    counts = [
        (release.trajectories, "number of trajectories"),
        (release.persons, "number of persons"),
        (study["study"].get("trajectories"), "declared number of trajectories"),
    ]
    count, what = next(((n, what) for n, what in counts if n is not None), (0, ""))
    if privacy.delta * count > 0.1:
        expected = float(f"{privacy.delta * count:.3g}")
        yield Notice("large-delta", "warn", {"what": what, "count": count, "expected": expected})
    if release.restriction is not None:
        yield Notice("restricted", "note", _restriction(release))
    if "truncated_rows" in study["data"]:
        keeps_truncated = study["data"]["truncated_rows"] == "keep"
        code = "truncated-kept" if keeps_truncated else "truncated-dropped"
        yield Notice(code, "note", {"unit": privacy.unit})
    if release.arms:
        shared = privacy.unit == "trajectory" and {"person", "trajectory"} <= set(study["data"])
        yield Notice("arms-randomised", "note", {"shared": shared})
    if "states" in release.tables:
        yield Notice("actions-associations", "note")


def _pooling(release: Release) -> dict[str, Any]:
    sources = release.pooled_from
    names = {
        source.sha256: " ".join(filter(None, (source.name, source.dataset, source.period)))
        for source in sources
    }
    return {
        "names": list(names.values()),
        "epsilons": sorted({source.epsilon for source in sources}),
        "noisy": [names[source.sha256] for source in sources if source.better_without],
        "same_people": release.releases_per_person is not None,
        "datasets": [source.dataset for source in sources if source.dataset],
        "privacy": release.privacy,
    }


def _restriction(release: Release) -> dict[str, Any]:
    stage = next((stage for stage in release.stages if stage.name == "bounds"), None)
    beyond = None if stage is None else stage.chosen.beyond
    share = ""
    if beyond is not None:
        percent = format_interval(*(100 * end for end in (beyond.value, beyond.low, beyond.high)))
        share = f"{percent.value}% ({percent.interval.replace(' to', '% to')}%)"
    return {**names_of(release), "share": share}


def limits_of(release: Release) -> Iterator[Notice]:
    """Yield the limitations that every release of this kind has."""
    study, values = release.study, described_values(release.study)
    if release.mechanism == "dp-ope":
        policy, refuted = study["policy"], release.tables["policy"].columns["refuted"]
        is_logged = policy["behaviour"] == "column"
        about = {"is_logged": is_logged, "is_refuted": bool(refuted.any())}
        yield Notice("four-assumptions", "note", about)
        yield Notice("clipping", "note", {"clip": policy["clip"]})
        yield Notice("same-people", "note")
    else:
        yield Notice("one-policy", "note")
        yield Notice("association", "note")
        about = {"value": values.unvisited_value, "counted": release.statistics is not None}
        yield Notice("unvisited-states", "note", about)
        if study["features"].get("kind", "tabular") != "tabular":
            yield Notice("features", "note")
    about = {name: study["privacy"].get(f"max_{name}") for name in _LIMITS}
    about |= {"rewards": values.rewards, "returns": values.return_bounds}
    yield Notice("clamping", "note", about)
    if "truncated_rows" not in study["data"]:
        yield Notice("missing-ends", "note")
