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
from dataclasses import dataclass
from typing import Any

from privalue.releases import Guarantee, Release
from privalue.report._pages import PageTable

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


def promise_words(release: Release) -> list[str]:
    """Return the promise in three sentences: what it is, what it does to odds, and to a test."""
    privacy = release.privacy
    odds = odds_factor(privacy.epsilon)
    alarm = 0.05
    return [
        f"What is published hardly depends on any one {privacy.unit}: it is differentially private "
        f"with ε\u00a0=\u00a0{readable(privacy.epsilon)} and "
        f"δ\u00a0=\u00a0{readable(privacy.delta)} under "
        f"{privacy.change()}.",
        f"{_attacker(privacy)} Whatever odds they gave to one against the other, this release "
        f"multiplies or divides them by at most {odds}, but for outcomes so rare that δ covers "
        "them.",
        f"If an attacker accepts {100 * alarm:g}% false alarms, they detect a {privacy.unit} at "
        f"most {detection_shown(privacy.epsilon, privacy.delta, alarm)} of the time (guessing: "
        f"{100 * alarm:g}%).",
    ]


def _attacker(privacy: Guarantee) -> str:
    """Return what an attacker is supposed to know, and what not."""
    yours = "yours" if privacy.unit == "person" else "one trajectory of yours"
    if privacy.neighbours == "replace-one":
        known = "yours" if privacy.unit == "person" else "that one"
        return (
            f"Suppose an attacker knows every record except {yours}, and has narrowed {known} down "
            "to two possibilities."
        )
    there = "you are" if privacy.unit == "person" else "that one is"
    return (
        f"Suppose an attacker knows every record except {yours}, and does not know whether {there} "
        "in the data."
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
            f"{cut_units(unit)} counts as if it were not there: "
            "that anybody was cut off is private, too."
        )
    return " ".join(words) or None


def cut_units(unit: str) -> str:
    """Return who is left out because of a trajectory that was cut off, for a sentence."""
    whose = "A trajectory" if unit == "trajectory" else f"A {unit} with a trajectory"
    return f"{whose} that is marked as cut off"


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
    return (
        f"{_attacker(privacy)} Whatever odds they gave to one against the other, seeing this "
        "release multiplies or divides those odds by at most "
        f"{odds_factor(privacy.epsilon)} (e to the power of epsilon = "
        f"{readable(privacy.epsilon)}), but for outcomes so rare that delta covers them."
    )


@dataclass(frozen=True, kw_only=True)
class PublicNumber:
    """m for the comparison with delta, and of what it is the number."""

    count: int
    what: str


def public_number(release: Release) -> PublicNumber | None:
    """Return m: counted where that is public, else as the study declares it; None if unknown.

    A study declares trajectories. Of persons they are the most that there can be, and are told as
    what they are.
    """
    if release.trajectories is not None:
        return PublicNumber(count=release.trajectories, what="trajectories")
    if release.persons is not None:
        return PublicNumber(count=release.persons, what="persons")
    declared: int | None = release.study["study"].get("trajectories")
    return None if declared is None else PublicNumber(count=declared, what="declared trajectories")


def delta_words(privacy: Guarantee, units: PublicNumber | None) -> str:
    """Return the words that say what delta allows.

    Args:
        privacy: the guarantee of the release.
        units: how many there are, to compare delta with; None where that is not known.
    """
    share = 1 / privacy.delta
    rare = f"{share:,.0f}" if share < 1e15 else f"{share:.2g}"
    compared = ""
    if units is not None:
        expected = privacy.delta * units.count
        compared = (
            f" With {units.count:,} {units.what}, delta times their number is "
            f"{readable(float(f'{expected:.3g}'))}: "
            + (
                "far below one, as it should be."
                if expected <= 0.1
                else "below one, but not by much."
                if expected < 1
                else "not below one, which was accepted explicitly: such a delta alone would "
                "allow one of them to be published."
            )
        )
    return (
        f"Delta = {readable(privacy.delta)} is what the factor may miss: an outcome of probability "
        f"p with one data set has probability at most {odds_factor(privacy.epsilon)} p + "
        f"{readable(privacy.delta)} with the other. It is one in {rare}.{compared}"
    )


def large_delta_words(privacy: Guarantee, units: PublicNumber | None) -> str | None:
    """Return the warning for a delta above 1/(10 m); None for a smaller one.

    Args:
        privacy: the guarantee of the release.
        units: m.
    """
    if units is None or privacy.delta * units.count <= 0.1:
        return None
    share = readable(float(f"{privacy.delta * units.count:.3g}"))
    number = f"the number of {units.what}, {units.count:,}"
    if privacy.delta * units.count < 1:
        return (
            f"Delta is large: times {number}, it is {share}, where a tenth should be the most. A "
            "mechanism that publishes one of them outright would have 1."
        )
    return (
        f"Delta is too large to promise much: times {number}, it is {share}, and a mechanism that "
        "publishes one of them outright would have 1. This was accepted explicitly."
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


def guarantee_context(release: Release) -> dict[str, Any]:
    """Return the promise: in three sentences, in words, in symbols, and against an attacker."""
    privacy, units = release.privacy, public_number(release)
    counted = (release.trajectories or release.persons) is not None
    limit = release.study["privacy"].get("max_trajectories_per_person")
    return {
        "large_delta": large_delta_words(privacy, units),
        "promise": promise_words(release),
        "words": [
            unit_words(privacy, limit, counted=counted),
            validity_words(privacy),
            more_validity_words(release),
            odds_words(privacy),
            delta_words(privacy, units),
        ],
        "epsilon": readable(privacy.epsilon),
        "delta": readable(privacy.delta),
        "change": privacy.change(),
        "factor": odds_factor(privacy.epsilon),
        "published": ["the values"] + ["the noisy statistics"] * (release.statistics is not None),
        "table": PageTable(
            name="What an attacker could tell",
            caption="A test that says which of two neighbouring data sets was used: how often it "
            "can detect, if it may give so many false alarms. Guessing detects as often as it "
            "alarms.",
            heads=["False alarms", "detects at most", "guessing detects"],
            rows=[
                [
                    f"{100 * alarm:g}%",
                    detection_shown(privacy.epsilon, privacy.delta, alarm),
                    f"{100 * alarm:g}%",
                ]
                for alarm in ALARMS
            ],
            kind="small",
            numbers=(0, 1, 2),
        ),
    }
