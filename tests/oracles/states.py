"""The states of a release one by one: the literal twin of the report's table of columns."""

import csv
import io
from dataclasses import dataclass, field

from pydantic_core import to_json

from privalue.estimate._ratios import normal_quantile
from privalue.report._states import (
    AT_A_BOUND,
    FEW_VISITS,
    GUESSED,
    RARE,
    UNSUPPORTED,
    WEIGHTLESS,
    WIDE,
    return_bounds,
)


@dataclass
class LiteralRow:
    state: str
    value: float
    low: float | None
    high: float | None
    columns: dict
    flags: tuple = field(default=())


def literal_rows(release, study=None):
    """Every state of a release; with its study, also what side files say of it."""
    bounds = return_bounds(release)
    counts, weights = _counts(release), _weights(release, study)
    prior = None if counts else _prior(release, study)
    number = release.trajectories or release.study["study"].get("trajectories")
    held = release.restriction
    restriction = {} if held is None else {f"restriction_{name}": end for name, end in held}
    rows = []
    for at, entry in enumerate(release.values):
        flags = [GUESSED] if "useless" in release.accepted else []
        if entry.supported is False:
            flags.append(UNSUPPORTED)
        elif _wide(release, entry, bounds):
            flags.append(WIDE)
        if prior is not None and number is not None and number * prior[at] < FEW_VISITS:
            flags.append(RARE)
        if weights is not None and weights[at] == 0:
            flags.append(WEIGHTLESS)
        clipped = release.statistics is None or release.study["features"]["kind"] == "matrix"
        if clipped and not bounds[0] < entry.value < bounds[1]:
            flags.append(AT_A_BOUND)
        more = {
            name: getattr(entry, name)
            for name in ("total_low", "total_high", "total_band_low", "total_band_high")
            if getattr(entry, name) is not None
        }
        rows.append(
            LiteralRow(
                state=entry.state,
                value=entry.value,
                low=entry.low,
                high=entry.high,
                columns={**more, **(counts[at] if counts else {}), **restriction},
                flags=tuple(flags),
            )
        )
    return rows


def _wide(release, entry, bounds):
    """Whether the total interval, or else that of privacy, spans more than half of the bounds."""
    if release.restriction is not None:
        bounds = release.restriction.low, release.restriction.high
    low, high = entry.low, entry.high
    if entry.total_low is not None:
        low, high = entry.total_low, entry.total_high
    if low is None and high is None:
        return False
    low, high = bounds[0] if low is None else low, bounds[1] if high is None else high
    return high - low > (bounds[1] - bounds[0]) / 2


def _counts(release):
    """The noisy counts of dp-ssp with their intervals."""
    if release.statistics is None or release.level is None:
        return []
    z = normal_quantile(release.level)
    return [
        {
            "noisy_visits": float(count),
            "noisy_visits_low": max(float(count - z * noise), 0.0),
            "noisy_visits_high": max(float(count + z * noise), 0.0),
        }
        for count, noise in zip(
            release.statistics.counts, release.statistics.count_noise, strict=True
        )
    ]


def _prior(release, study):
    if study is not None:
        return study.visit_prior
    told = release.study["states"].get("visits")
    if not isinstance(told, dict):
        return None
    return [float(told[entry.state]) for entry in release.values]


def _weights(release, study):
    return release.study["weights"].get("values") if study is None else study.state_weights


def literal_csv(rows):
    """The states as CSV: every digit, and only released columns."""
    intervals = any(row.low is not None or row.high is not None for row in rows)
    present = list(dict.fromkeys(name for row in rows for name in row.columns))
    totals = [name for name in ("total_low", "total_high") if name in present]
    extra = [name for name in present if name not in totals]
    ends = ["low", "high"] if intervals else []
    text = _line(["state", "value", *totals, *ends, *extra, "flags"])
    for row in rows:
        ends = [row.low, row.high] if intervals else []
        first = [row.columns.get(name) for name in totals]
        numbers = [row.value, *first, *ends, *(row.columns.get(name) for name in extra)]
        cells = ["" if number is None else to_json(number).decode() for number in numbers]
        plain = all(mark.isalnum() or mark in "_.+-" for mark in row.state)
        label = _line([row.state], csv.QUOTE_MINIMAL if plain else csv.QUOTE_ALL)
        text += label.removesuffix("\n") + "," + _line([*cells, "; ".join(row.flags)])
    return text


def _line(cells, quoting=csv.QUOTE_MINIMAL):
    """A line by the standard library, which quotes every end of line if lines end in both."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n", quoting=quoting).writerow(cells)
    return text.getvalue().removesuffix("\r\n") + "\n"


def literal_group(rows, start, stop):
    """What a chart tells of some neighbouring states: the ends of values and of intervals."""
    some = rows[start:stop]
    low = [row.low for row in some if row.low is not None]
    high = [row.high for row in some if row.high is not None]
    return (
        some[0].state,
        some[-1].state,
        min(row.value for row in some),
        max(row.value for row in some),
        min(low, default=None),
        max(high, default=None),
    )
