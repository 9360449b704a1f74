"""What is told of each state: its value, its intervals, and what to be careful about.

A flag comes from what was released or is public, never from the data: the noisy counts of dp-ssp,
the study's prior of visits, its weights, its bounds of returns.
"""

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privalue.ratios import normal_quantile
from privalue.release import Release
from privalue.sections import Values
from privalue.study import Study

FEW_VISITS = 10  # expected of all trajectories, by the study's own prior

UNSUPPORTED = "too few visits"
RARE = "rarely visited, by the public prior"
WEIGHTLESS = "weight 0"
OUTSIDE = "outside the bounds of returns"

MEANINGS = {
    UNSUPPORTED: "the released noisy count is no larger than what nobody's visits could give, or "
    "the interval spans more than half of what is possible: do not act on this value",
    RARE: f"the study's public prior expects fewer than {FEW_VISITS} of these trajectories to "
    "visit the state: its value is likely to be mostly noise",
    WEIGHTLESS: "the study gives the state no weight: it takes no part in the fit, and its value "
    "is what the features make of the other states",
    OUTSIDE: "noise, or features that stretch beyond the states they were fitted to, took the "
    "value where no return can be; values are published as they were drawn, not clipped",
}


@dataclass(frozen=True, kw_only=True)
class StateRow:
    """One state, as it is shown and as values.csv has it."""

    state: str
    value: float
    low: float | None
    high: float | None
    columns: dict[str, float | None]  # whatever else was released
    flags: tuple[str, ...] = field(default=())

    @property
    def width(self) -> float | None:
        """Half of the privacy interval."""
        return None if self.low is None or self.high is None else (self.high - self.low) / 2


def public_values(release: Release) -> Values:
    """``[values]`` of the release's study, but for the start distribution."""
    told: dict[str, Any] = release.study["values"]
    return Values(**{key: value for key, value in told.items() if key != "start"})


def return_bounds(release: Release) -> tuple[float, float]:
    """The public bounds of returns, as the release's study gives or implies them."""
    return public_values(release).return_bounds


def state_rows(release: Release, study: Study | None = None) -> list[StateRow]:
    """Every state of a release; with its study, also what side files say of it."""
    bounds = return_bounds(release)
    counts, weights = _counts(release), _weights(release, study)
    # A released count, noisy as it is, says more than what was expected beforehand.
    prior = None if counts else _prior(release, study)
    number = release.trajectories or release.study["study"].get("trajectories")
    rows = []
    for at, entry in enumerate(release.values):
        flags = []
        if entry.supported is False:
            flags.append(UNSUPPORTED)
        if prior is not None and number is not None and number * prior[at] < FEW_VISITS:
            flags.append(RARE)
        if weights is not None and weights[at] == 0:
            flags.append(WEIGHTLESS)
        slack = 1e-9 * (bounds[1] - bounds[0])
        if not bounds[0] - slack <= entry.value <= bounds[1] + slack:
            flags.append(OUTSIDE)
        more = {
            name: getattr(entry, name)
            for name in ("band_low", "band_high", "sampling_low", "sampling_high")
            if getattr(entry, name) is not None
        }
        rows.append(
            StateRow(
                state=entry.state,
                value=entry.value,
                low=entry.low,
                high=entry.high,
                columns={**more, **(counts[at] if counts else {})},
                flags=tuple(flags),
            )
        )
    return rows


def _counts(release: Release) -> list[dict[str, float | None]]:
    """The noisy counts of dp-ssp with their intervals: the noise is public."""
    if release.statistics is None or release.level is None:
        return []
    z = normal_quantile(release.level)
    return [
        {
            "noisy_visits": count,
            "noisy_visits_low": max(count - z * noise, 0.0),
            "noisy_visits_high": max(count + z * noise, 0.0),
        }
        for count, noise in zip(
            release.statistics.counts, release.statistics.count_noise, strict=True
        )
    ]


def _prior(release: Release, study: Study | None) -> NDArray[np.float64] | None:
    if study is not None:
        return study.visit_prior
    told = release.study["states"].get("visits")
    if not isinstance(told, dict):
        return None
    return np.array([float(told[entry.state]) for entry in release.values])


def _weights(release: Release, study: Study | None) -> NDArray[np.float64] | None:
    if study is not None:
        return study.state_weights
    told = release.study["weights"].get("values")
    return None if told is None else np.array(told, dtype=np.float64)


def values_csv(rows: list[StateRow]) -> str:
    """The states as a table for whatever opens CSV: every digit, and only released columns."""
    intervals = any(row.low is not None or row.high is not None for row in rows)
    extra = list(dict.fromkeys(name for row in rows for name in row.columns))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["state", "value", *(["low", "high"] if intervals else []), *extra, "flags"])
    writer.writerows(_cells(rows, intervals, extra))
    return text.getvalue()


def _cells(rows: list[StateRow], intervals: bool, extra: list[str]) -> Iterator[list[str]]:
    def number(value: float | None) -> str:
        return "" if value is None else repr(value)

    for row in rows:
        ends = [number(row.low), number(row.high)] if intervals else []
        more = [number(row.columns.get(name)) for name in extra]
        yield [row.state, number(row.value), *ends, *more, "; ".join(row.flags)]
