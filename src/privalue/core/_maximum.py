"""Find the maximum over k that every smooth upper bound is, by branch and bound.

| symbol | here       | what it is                                | public      |
|--------|------------|-------------------------------------------|-------------|
| k      | ``ks``     | how many units of privacy are exchanged   | **private** if from counts |
| phi    | ``phi``    | the most sensitive data set that far away | **private** |
| beta   | ``beta``   | how fast distance stops to count          | yes         |
| psi    | the result | at least the squared local sensitivity    | **private** |

psi = max_{k >= 0} e^{-beta k} phi(k) ([BGP16] Algorithms 1 and 2, line 3). Data sets further away
include those nearby, so phi never falls as k grows. That is all the search needs: if k is strictly
between a and b, then e^{-beta k} phi(k) <= e^{-beta (a + 1)} phi(b).

Proofs: docs/proofs/smooth-maxima.md.
"""

import heapq
import math
from collections.abc import Callable

from privalue.core._arrays import Integers

# The result is never too small, and too large by at most TOLERANCE, relatively: the calibration
# has room for that (docs/proofs/calibration.md).
TOLERANCE = 1e-9
_GAP = 0.5e-9  # what is no larger than the best by more than this is not looked at
_ROUNDING = 0.1e-9  # more than the floating-point error of phi and of e^{-beta k}, both relative

# An interval of places in ks at whose two ends the value is known: minus the most that could be
# strictly between (heapq pops the smallest first), the two places, and phi at the second.
_Interval = tuple[float, int, int, float]


def branch_and_bound(ks: range | Integers, phi: Callable[[int], float], beta: float) -> float:
    """Return max_k e^{-beta k} phi(k) over the given k, rounded up.

    The interval that could hold the most is split first. An interval is dismissed once all that
    it could hold is no more than the best value found, up to ``_GAP``; the best value is raised by
    that much in the end, so that no dismissed k can exceed the result.

    Args:
        ks: the k to try, ascending: an array, or a range from 0, which may be of any length.
        phi: a function that is not negative and does not fall from one k to a later one. Rounding
            may break that by less than ``_ROUNDING``.
        beta: above 0.

    Returns:
        A number from the maximum to (1 + ``TOLERANCE``) times the maximum.
    """
    end = ks.stop - 1 if isinstance(ks, range) else len(ks) - 1  # len(range) stops at 2^63

    def decay(at: int) -> float:
        """Return e^{-beta k} at a place of the list."""
        return math.exp(-beta * int(ks[at]))

    def wait(first: int, last: int, at_last: float) -> None:
        """Queue an interval under the most that could be strictly between its ends."""
        if last - first > 1:  # otherwise no k is strictly between
            heapq.heappush(waiting, (-decay(first + 1) * at_last, first, last, at_last))

    waiting: list[_Interval] = []
    at_end = phi(int(ks[end]))
    best = max(decay(0) * phi(int(ks[0])), decay(end) * at_end)
    wait(0, end, at_end)
    while waiting:
        most, first, last, at_last = heapq.heappop(waiting)
        if -most <= best * (1 + _GAP):
            break  # and all that still wait could hold even less
        middle = (first + last) // 2
        at_middle = phi(int(ks[middle]))
        best = max(best, decay(middle) * at_middle)
        wait(first, middle, at_middle)
        wait(middle, last, at_last)
    return best * (1 + _GAP + _ROUNDING)
