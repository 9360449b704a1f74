"""What differs between a study's record as kept and as it is now, in words.

Everything is equal to the byte, but for this: psi of DP-LSW and DP-LSL is the result of a search,
and another search may end a relative 1e-9 away from it. What follows from psi may follow it.

| what                                   | of dp-ssp | of dp-lsw and dp-lsl                       |
|----------------------------------------|-----------|--------------------------------------------|
| statistics, estimates before noise, alpha, beta | equal | equal                                |
| psi, sigma, noise of every value       | equal     | to a relative 1e-9                         |
| theta, values, intervals, policy value | equal     | equal; if psi moved, to what it can move   |
| whatever else is in the release        | equal     | equal                                      |
| words of pages                         | equal     | equal; numbers to what they show           |

*What psi can move.* What is drawn is the multiple of the public grid g nearest to mu + sigma Z,
with mu and Z the same as before. sigma goes with the root of psi, so it moves by a relative 1e-9/2
at most, and Z is within ten of 0 (but for a chance of 1e-22): mu + sigma Z moves by at most 5e-9
sigma. Mostly that is far less than g, and the multiple stays, or, rarely, becomes the next one;
where the number of trajectories is secret, g may be smaller. In value s the noise is f_s times as
large, f_s its standard deviation over sigma; coefficients are values of states in these studies
(``studies.py``), and a policy's number is a mixture of values. So no released number may move by
more than (g + 5e-9 sigma) max_s f_s, and none at all if psi is the same to the bit.

*What numbers on pages show.* Two numbers are the same if they are within a relative 1e-8, or if
they differ by one in the last place shown; the latter happens where a number is rounded the other
way, and to ``MOST_ROUNDED`` numbers of a page at most. Whole numbers are the same only if equal.
"""

import json
import math
import re
from collections.abc import Iterator
from typing import Any

from frozen.record import Record

PSI = 1e-9  # relative
FARTHEST = 10.0  # |Z|
SHOWN = 1e-8
MOST_ROUNDED = 2
FOLLOWS_PSI = {"psi", "sigma", "noise_by_state"}  # of the curator's numbers
DRAWN = re.compile(r"(theta|values|policy_value|policy_interval)\b")  # of a release's
_NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?(?![\w])")


def differences(kept: Record, now: Record, *, smooth: bool) -> list[str]:
    """What differs; nothing, if all is as it was."""
    found = _private(kept, now, smooth)
    found += _release(kept, now, smooth)
    for page in kept.pages:
        found += _page(page, kept.pages[page], now.pages[page], smooth)
    return found


def _private(kept: Record, now: Record, smooth: bool) -> list[str]:
    found = []
    for path, old, new in _numbers(kept.private, now.private):
        follows = smooth and path.split(".")[0] in FOLLOWS_PSI
        if not (_close(old, new, PSI) if follows else _same(old, new)):
            found.append(f"private {path}: {old!r}, now {new!r}")
    return found


def _release(kept: Record, now: Record, smooth: bool) -> list[str]:
    if kept.release == now.release:
        return []
    step = _farthest_move(kept) if smooth and kept.private["psi"] != now.private["psi"] else 0.0
    old_text, new_text = json.loads(kept.release), json.loads(now.release)
    found, moved = [], 0
    for path, old, new in _numbers(old_text, new_text):
        if _same(old, new):
            continue
        if step > 0 and DRAWN.match(path) and _within(old, new, step):
            moved += 1
        else:
            found.append(f"release {path}: {old!r}, now {new!r}")
    if not found and not moved:
        found.append("release: the same numbers and keys, written in another way")
    return found


def _farthest_move(kept: Record) -> float:
    """How far a released number goes where psi goes as far as it may."""
    grid, sigma = json.loads(kept.release)["noise"]["grid"], kept.private["sigma"]
    factor = max(kept.private["noise_by_state"]) / sigma
    return (grid + FARTHEST * PSI / 2 * sigma) * factor * (1 + 1e-6)  # sums of products round


def _page(name: str, old: list[str], new: list[str], smooth: bool) -> list[str]:
    if old == new:
        return []
    found, rounded = [], 0
    for at, (a, b) in enumerate(zip(old, new, strict=False)):
        if a == b:
            continue
        alike = _alike(a, b) if smooth else None
        if alike is None:
            around = " ".join(old[max(0, at - 5) : at])
            found.append(f"{name}, after '{around}': {a!r}, now {b!r}")
            if not smooth or len(found) == 3:
                return found
        else:
            rounded += alike
    if rounded > MOST_ROUNDED:
        found.append(f"{name}: {rounded} numbers are rounded in another way")
    if len(old) != len(new):
        found.append(f"{name}: {len(old)} words, now {len(new)}")
    return found


def _alike(old: str, new: str) -> int | None:
    """How many numbers of a word are rounded in another way; None where words differ in truth."""
    if _NUMBER.sub("#", old) != _NUMBER.sub("#", new):
        return None
    rounded = 0
    for a, b in zip(_NUMBER.findall(old), _NUMBER.findall(new), strict=True):
        x, y = (float(shown.replace(",", "")) for shown in (a, b))
        if _close(x, y, SHOWN):
            continue
        if not re.search(r"[.e]", a + b):
            return None
        if not _within(x, y, 1.001 * max(_last_place(a), _last_place(b))):
            return None
        rounded += 1
    return rounded


def _last_place(shown: str) -> float:
    digits, _, exponent = shown.partition("e")
    return 10.0 ** (int(exponent or 0) - len(digits.partition(".")[2]))


def _numbers(old: Any, new: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Every leaf of two trees with its path; where the trees differ, the branches themselves."""
    if isinstance(old, dict) and isinstance(new, dict) and list(old) == list(new):
        for key in old:
            yield from _numbers(old[key], new[key], f"{path}.{key}" if path else key)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for at, (a, b) in enumerate(zip(old, new, strict=True)):
            yield from _numbers(a, b, f"{path}.{at}")
    elif isinstance(old, dict) and isinstance(new, dict):
        yield f"{path}.keys".lstrip("."), list(old), list(new)
    else:
        yield path, old, new


def _same(old: Any, new: Any) -> bool:
    """Equal, and written alike: 1 is not 1.0, and 0.0 is not -0.0."""
    return type(old) is type(new) and repr(old) == repr(new)


def _close(old: Any, new: Any, tolerance: float) -> bool:
    return type(old) is type(new) and _within(old, new, tolerance * abs(old))


def _within(old: Any, new: Any, distance: float) -> bool:
    both = isinstance(old, float) and isinstance(new, float)
    return both and math.isfinite(new) and abs(old - new) <= distance
