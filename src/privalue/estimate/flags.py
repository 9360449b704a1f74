"""Say in words what to be careful about, row by row: from what was released or is public."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privalue.core import Vector
from privalue.releases import FLAGS_BETWEEN, NOT_PRIVATE
from privalue.study import Study

FEW_VISITS = 10  # expected of all trajectories, by the study's own prior

GUESSED = "no better than guessing"
UNCLEAR = "too few visits"
BORROWED = "mostly made of other states' values"
WIDE = "wide interval"
RARE = "rarely visited, by the public prior"
WEIGHTLESS = "weight 0"
AT_A_BOUND = "at a bound of returns"
# Of another policy's value.
LOST = "not supported: clipping may have lost too much"
IMPOSSIBLE = (
    "not supported: weights exceed what any right behaviour allows, so the behaviour is wrong"
)
ABOVE = "not supported: the kept mass is above 1, by chance or because the behaviour is wrong"

MEANINGS = {
    GUESSED: "by its own plan the whole release is no better than guessing, which whoever made it "
    "was told and accepted explicitly: do not act on this value",
    UNCLEAR: "the released noisy count is no larger than what nobody's visits could give: do not "
    "act on this value",
    BORROWED: "the state's own numbers make up less than half of the value, and the rest comes "
    "from other states: do not tell the state apart by it",
    WIDE: "the interval that is shown first, with all that it covers, spans more than half of what "
    "is possible: do not act on this value",
    RARE: f"the study's public prior expects fewer than {FEW_VISITS} of these trajectories to "
    "visit the state: its value is likely to be mostly noise",
    WEIGHTLESS: "the study gives the state no weight: it takes no part in the fit, and its value "
    "is what the features make of the other states",
    AT_A_BOUND: "noise, or features that stretch beyond the states they were fitted to, may have "
    "taken the value where no return can be: the bound is published in its place",
}


Flag = tuple[str, NDArray[np.bool_]]  # the words, and which rows they are of


def cautions(*, private: bool, accepted: Sequence[str]) -> tuple[str, ...]:
    """Return the flags that every row of a release has."""
    useless = (GUESSED,) if "useless" in accepted else ()
    return useless if private else (NOT_PRIVATE, *useless)


def flag_texts(rows: int, flags: Sequence[Flag], every: Sequence[str] = ()) -> NDArray[Any]:
    """Return the flags of each row as one text.

    >>> flag_texts(2, [("weight 0", np.array([True, False]))], ["NOT PRIVATE"]).tolist()
    ['NOT PRIVATE; weight 0', 'NOT PRIVATE']
    """
    bits = np.zeros(rows, dtype=np.uint8)
    for at, (_, mask) in enumerate(flags):
        bits |= mask.astype(np.uint8) << at
    texts = [
        FLAGS_BETWEEN.join([*every, *(word for at, (word, _) in enumerate(flags) if n >> at & 1)])
        for n in range(1 << len(flags))
    ]
    return np.array(texts, dtype=object)[bits]


def flags_of_statistics(
    clear: NDArray[np.bool_],
    supported: NDArray[np.bool_],
    total: tuple[Vector, Vector],
    bounds: tuple[float, float],
) -> list[Flag]:
    """Return the flags of rows that noisy statistics give.

    Args:
        clear: where the noisy count is above what nobody's visits would give.
        supported: and where half of the value is the state's own.
        total: the ends of total intervals. A mean of few people may be uncertain whatever the
            noise is, which is all that ``supported`` looks at.
        bounds: between which returns count.
    """
    low, high = total
    wide = 0.5 * high - 0.5 * low > 0.5 * (0.5 * bounds[1] - 0.5 * bounds[0])
    return [(UNCLEAR, ~clear), (BORROWED, clear & ~supported), (WIDE, wide & supported)]


def flags_of_study(
    study: Study, values: Vector, *, counted: bool, trajectories: int | None
) -> list[Flag]:
    """Return the flags of rows that the study gives, by its prior of visits, weights and bounds.

    Args:
        study: what is public.
        values: as released.
        counted: whether noisy counts were released: though noisy, they say more than a prior.
        trajectories: m, where it is public.
    """
    flags: list[Flag] = []
    prior, weights = study.key_visits, study.key_weights
    if not counted and prior is not None and trajectories is not None:
        flags.append((RARE, trajectories * prior < FEW_VISITS))
    if weights is not None:
        flags.append((WEIGHTLESS, weights == 0))
    # The intervals of means show how far these may be from a bound. Other values have none.
    if not counted or study.features.kind == "matrix":
        low, high = study.return_bounds
        flags.append((AT_A_BOUND, (values <= low) | (values >= high)))
    return flags


def flags_of_policy(
    supported: NDArray[np.bool_], above: NDArray[np.bool_], *, refuted: bool
) -> list[Flag]:
    """Return the flags of another policy's value.

    At the level of each start some of many have a kept mass above 1 even where the behaviour is
    right: whether it is refuted is decided for all of them together.
    """
    return [(LOST, ~supported & ~above), (IMPOSSIBLE if refuted else ABOVE, above)]
