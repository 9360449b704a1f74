"""State the guarantee in words, in symbols, and as the most that an attacker could learn.

| symbol | here        | meaning                                              |
|--------|-------------|------------------------------------------------------|
| a      | ``alarms``  | how often a test accuses wrongly                     |
| b      |             | how often it is right                                |

A test that tells neighbours apart with wrong alarms a is right with probability at most
min(e^eps a + delta, 1 - e^-eps (1 - delta - a)): both directions of the definition (Wasserman and
Zhou 2010; Kairouz, Oh and Viswanath 2015).
"""

import math

from privalue.artefact import Guarantee, Release

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
ALARMS = (0.01, 0.05, 0.1, 0.25)


def readable(number: float) -> str:
    """Return a number as people write it.

    >>> readable(1e-06), readable(2.5e-07), readable(0.01)
    ('10⁻⁶', '2.5·10⁻⁷', '0.01')
    """
    plain = f"{number:.6g}"
    mantissa, mark, exponent = plain.partition("e")
    if not mark:
        return plain
    power = f"10{str(int(exponent)).translate(_RAISED)}"
    return power if mantissa == "1" else f"{mantissa}·{power}"


def plain_words(release: Release) -> str:
    """Return the words that say what was published, and in what sense nobody is in it."""
    unit, states, arms = release.privacy.unit, release.state_count, len(release.arms)
    each = f"each of {states:,} states" if states > 1 else "the one state"
    each += f" in each of {arms} arms" if arms else ""
    return (
        f"What {each} is worth under the policy that was "
        f"followed, estimated from people's trajectories. Noise was added so that the data of any "
        f"one {unit} makes hardly any difference to what is published here."
    )


def unit_words(privacy: Guarantee, limit: int | None, *, counted: bool = True) -> str:
    """Return the words that say whom the release protects.

    Args:
        privacy: the guarantee of the release.
        limit: the most trajectories of one person; None for one.
        counted: whether the number of units is public.
    """
    if privacy.unit == "person":
        trajectories = "trajectories that count" if (limit or 1) > 1 else "trajectory that counts"
        whole = f"What is protected is one whole person, with up to {limit or 1} {trajectories}"
    else:
        whole = "What is protected is one trajectory: everything that was recorded in it"
    how = (
        f"The promise compares data sets that differ by replacing one {privacy.unit} with any "
        f"other: it hides what anybody's record is. {_size_words(privacy, counted)}"
        if privacy.neighbours == "replace-one"
        else f"The promise compares data sets that differ by one {privacy.unit} being there or "
        "not: it hides whether anybody was in the data, and so how many there are"
    )
    more = (
        " A person who has k trajectories is protected with k times epsilon only, and a larger "
        "delta."
        if privacy.unit == "trajectory"
        else ""
    )
    return f"{whole}. {how}.{more}"


def _size_words(privacy: Guarantee, counted: bool) -> str:
    """Return the words that say whether the number of units is published."""
    if counted:
        return (
            "It does not hide how many there are, which is published: whoever knows the number "
            f"without one {privacy.unit} can tell whether that one was there"
        )
    return "How many there are is neither counted nor published"


def validity_words(privacy: Guarantee) -> str:
    """Return the words that say which rows are valid, and what happens to others.

    That is part of the promise: neighbours may differ in invalid rows, too.
    """
    valid = (
        "A row is valid if each of its cells can be read as the study declares, and if no other "
        "row of its trajectory has the same step."
    )
    if privacy.invalid == "refuse":
        return (
            f"{valid} Data with an invalid row is refused before anything is computed. That a run "
            "was refused depends on the data, and is not covered by the promise."
        )
    return (
        f"{valid} A {privacy.unit} with an invalid row counts as if it were not there, and a row "
        "whose id cannot be read belongs to nobody, so that there is a release for every data set."
    )


def more_validity_words(release: Release) -> str | None:
    """Return the words on arms, and on units that are left out for being cut off; or None."""
    unit, words = release.privacy.unit, []
    if release.arms:
        words.append(
            f"All rows of a {unit} name one arm, or they are invalid; which arm it is, and how "
            "many are in each, is private."
        )
    if release.study["values"].get("truncated") == "drop-unit":
        words.append(
            f"A {unit} with a trajectory that is marked as cut off counts as if it were not there: "
            "that anybody was cut off is private, too."
        )
    return " ".join(words) or None


def odds_factor(epsilon: float) -> str:
    """Return e^eps as people read it, rounded up: odds change by at most this factor.

    >>> odds_factor(1.0), odds_factor(0.2), odds_factor(0.001), odds_factor(12.0)
    ('2.72', '1.23', '1.0011', '162755')
    """
    if epsilon > 20:
        return f"10{str(math.ceil(epsilon / math.log(10))).translate(_RAISED)}"
    factor = math.exp(epsilon)
    digits = 2 if epsilon >= 0.1 else 2 + math.ceil(-math.log10(epsilon) - 1)
    return (
        f"{math.ceil(factor * 10**digits) / 10**digits:.10g}"
        if factor < 100
        else str(math.ceil(factor))
    )


def odds_words(privacy: Guarantee) -> str:
    """Return the words that say what an attacker could learn at most, as odds."""
    unknown = (
        f"all of the data but for one {privacy.unit}, and holds two versions of it for possible"
        if privacy.neighbours == "replace-one"
        else f"all of the data, but not whether one {privacy.unit} is in it"
    )
    return (
        f"Suppose that someone knows {unknown}. Whatever odds they gave to one against the other, "
        "seeing this release multiplies or divides those odds by at most "
        f"{odds_factor(privacy.epsilon)} (e to the power of epsilon = "
        f"{readable(privacy.epsilon)}), but for outcomes so rare that delta covers them."
    )


def delta_words(privacy: Guarantee, units: int | None) -> str:
    """Return the words that say what delta allows.

    Args:
        privacy: the guarantee of the release.
        units: the number of units, to compare delta with; None where it is not known.
    """
    share = 1 / privacy.delta
    rare = f"{share:,.0f}" if share < 1e15 else f"{share:.2g}"
    compared = ""
    if units is not None:
        compared = (
            f" With {units:,} of them, delta times their number is "
            f"{readable(float(f'{privacy.delta * units:.3g}'))}: "
            + (
                "far below one, as it should be."
                if privacy.delta * units <= 0.1
                else "below one, but not by much."
                if privacy.delta * units < 1
                else "not below one, which was accepted explicitly: such a delta alone would "
                "allow one of them to be published."
            )
        )
    return (
        f"Delta = {readable(privacy.delta)} is what the factor may miss: an outcome of probability "
        f"p with one data set has probability at most {odds_factor(privacy.epsilon)} p + "
        f"{readable(privacy.delta)} with the other. It is one in {rare}.{compared}"
    )


def public_units(release: Release) -> int | None:
    """Return m for the comparison with delta: counted where that is public, else declared."""
    declared: int | None = release.study["study"].get("trajectories")
    return release.trajectories or release.persons or declared


def large_delta_words(privacy: Guarantee, units: int) -> str:
    """Return the warning for a delta above 1/(10 m).

    Args:
        privacy: the guarantee of the release.
        units: m.
    """
    share = readable(float(f"{privacy.delta * units:.3g}"))
    if privacy.delta * units < 1:
        return (
            f"Delta is large: times the number of units, {units:,}, it is {share}, where a tenth "
            "should be the most. A mechanism that publishes one unit outright would have 1."
        )
    return (
        f"Delta is too large to promise much: times the number of units, {units:,}, it is {share}, "
        "and a mechanism that publishes one unit outright would have 1. This was accepted "
        "explicitly."
    )


def detection(epsilon: float, delta: float, alarms: float) -> float:
    """Return the highest probability of being right for a test of two neighbours.

    Args:
        epsilon: of the guarantee.
        delta: of the guarantee.
        alarms: a, how often the test accuses wrongly.

    >>> round(detection(1.0, 0.0, 0.05), 3)
    0.136
    """
    grown = math.exp(min(epsilon, 700.0)) * alarms + delta
    other = 1 - math.exp(-epsilon) * max(1 - delta - alarms, 0.0)
    return min(1.0, max(min(grown, other), alarms))


def detection_shown(epsilon: float, delta: float, alarms: float) -> str:
    """Return that probability in percent, rounded up: the page never promises too much.

    >>> detection_shown(1.0, 1e-06, 0.05)
    '13.6%'
    """
    return f"{min(math.ceil(detection(epsilon, delta, alarms) * 1e4 - 1e-9) / 100, 100.0):g}%"
