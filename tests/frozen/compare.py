"""What differs between a study's record and its results now, in words.

Everything is equal to the bit, but for this: psi of DP-LSW and DP-LSL is the result of a search,
and another search may end a relative 1e-9 away from it. What follows from psi may follow it.

| what                                            | of dp-lsw and dp-lsl                 |
|-------------------------------------------------|--------------------------------------|
| psi, sigma, noise of every value                | to a relative 1e-9                   |
| theta, values, intervals, policy value          | if psi moved, to what it can move    |
| statistics, estimates before noise, all else    | equal                                |

*What psi can move.* What is drawn is the multiple of the public grid g nearest to mu + sigma Z,
with mu and Z the same as before. sigma goes with the root of psi, so it moves by a relative 1e-9/2
at most, and Z is within ten of 0 (but for a chance of 1e-22): mu + sigma Z moves by at most 5e-9
sigma. Mostly that is far less than g, and the multiple stays, or, rarely, becomes the next one;
where the number of trajectories is secret, g may be smaller. In value s the noise is f_s times as
large, f_s its standard deviation over sigma; coefficients are values of states in these studies
(``studies.py``), and a policy's number is a mixture of values. So no released number may move by
more than (g + 5e-9 sigma) max_s f_s, and none at all if psi is the same to the bit.
"""

import math
import re
from collections.abc import Iterator
from typing import Any

from frozen.record import Record

PSI = 1e-9  # relative
FARTHEST = 10.0  # |Z|
FOLLOWS_PSI = {"private.psi", "private.sigma", "private.noise_by_state"}
DRAWN = re.compile(r"release\.(theta|values|policy_value|policy_interval)\b")


def differences(record: Record, now: Record, *, smooth: bool) -> list[str]:
    """What differs; nothing, if all is as it was."""
    moved = smooth and record["private.psi"] != now["private.psi"]
    step = _farthest_move(record) if moved else 0.0
    lines = [f"{name}: gone" for name in record if name not in now]
    lines += [f"{name}: new" for name in now if name not in record]
    for name in record:
        for at, old, new in _leaves(record[name], now.get(name, record[name])):
            near = smooth and name in FOLLOWS_PSI and _close(old, new, PSI)
            near |= step > 0 and DRAWN.match(name) is not None and _within(old, new, step)
            if not (near or _same(old, new)):
                lines.append(f"{name}{at}: {old!r}, now {new!r}")
    return lines


def _farthest_move(record: Record) -> float:
    """How far a released number goes where psi goes as far as it may."""
    grid, sigma = record["release.noise.grid"], record["private.sigma"]
    factor = max(record["private.noise_by_state"]) / sigma
    return (grid + FARTHEST * PSI / 2 * sigma) * factor * (1 + 1e-6)  # sums of products round


def _leaves(old: Any, new: Any, at: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Two numbers, or those of two lists with their places; lists of unlike lengths are leaves."""
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for place, (a, b) in enumerate(zip(old, new, strict=True)):
            yield from _leaves(a, b, f"{at}[{place}]")
    else:
        yield at, old, new


def _same(old: Any, new: Any) -> bool:
    """Equal, and written alike: 1 is not 1.0, and 0.0 is not -0.0."""
    return type(old) is type(new) and repr(old) == repr(new)


def _close(old: Any, new: Any, tolerance: float) -> bool:
    return type(old) is type(new) and _within(old, new, tolerance * abs(old))


def _within(old: Any, new: Any, distance: float) -> bool:
    both = isinstance(old, float) and isinstance(new, float)
    return both and math.isfinite(new) and abs(old - new) <= distance
