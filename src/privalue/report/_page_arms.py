"""Write the part of the public page that puts arms side by side, with their differences."""

from collections.abc import Sequence

from privalue.artefact import PolicyInterval, Release, StateValue
from privalue.report._html import LABEL, Content, Html, element, named, table
from privalue.report._page_tables import first_rows
from privalue.report._page_words import interval, number, paragraphs

_WHOLE = "Every state, in the order of the study; all digits are in release.json."


def arms_part(release: Release) -> Content:
    """Show the values of every arm beside each other, and how far each is from the first.

    Args:
        release: what was released, of a study with arms.
    """
    first, *others = release.arms
    level = f"{100 * (release.level or 0):g}%"
    return [
        *paragraphs(
            [
                f"All {len(release.arms)} arms were released at once, for one price. Differences "
                "are from the first arm, ",
                named(first, LABEL),
                ".",
            ],
            f"The interval of a difference covers, with probability {level} at least, "
            f"{covered_by(release)}. It comes from intervals of both arms at a higher level, and "
            "is somewhat wider than it would have to be.",
        ),
        _policies(release) if release.policies else None,
        _values(release),
        *(_differences(release, arm) for arm in others),
        element(
            "div",
            element(
                "p",
                "A difference between arms is an effect of treatment only where chance decided who "
                "was in which arm, and how many there are in each is not public. Otherwise people "
                "in different arms may differ in other ways, too.",
            ),
            class_="note",
        ),
    ]


def _policies(release: Release) -> Html:
    """Return the table of the policy's one number in each arm."""

    def cell(value: float | None, ends: PolicyInterval | None) -> str:
        within = "" if ends is None else f" ({interval(*ends_of(ends))})"
        return "" if value is None else f"{number(value)}{within}"

    return table(
        "From the study's public start distribution, with intervals.",
        ["Arm", "the policy as a whole", "difference from the first arm"],
        [
            [
                named(policy.arm, LABEL),
                cell(policy.value, policy.interval),
                cell(policy.difference, policy.difference_interval),
            ]
            for policy in release.policies or ()
        ],
        name="The policy's one number by arm",
        small=True,
        numbers=(1, 2),
    )


def covered_by(release: Release) -> str:
    """Return what the intervals of differences cover: that of people at large, or of these."""
    if release.values.column("total_low") is not None:
        return "the difference among people at large, by noise and sampling together"
    return (
        "what the difference would have been without noise; how far these people are from people "
        "at large comes on top"
    )


def ends_of(entry: StateValue | PolicyInterval) -> tuple[float | None, float | None]:
    """Return the interval that is shown first: for privacy and sampling, or privacy alone."""
    total = getattr(entry, "total_low", None), getattr(entry, "total_high", None)
    return (entry.low, entry.high) if total[0] is None else total


def _bands_of(entry: StateValue) -> tuple[float | None, float | None]:
    """Return the band of the same kind as the interval that is shown first."""
    total = getattr(entry, "total_band_low", None), getattr(entry, "total_band_high", None)
    return (entry.band_low, entry.band_high) if total[0] is None else total


def _values(release: Release) -> Html:
    """Return the table with a column of values for each arm."""
    states = release.state_count

    def cells(at: int) -> Sequence[Content]:
        entries = [release.values[arm * states + at] for arm in range(len(release.arms))]
        shown = [f"{number(entry.value)} ({interval(*ends_of(entry))})" for entry in entries]
        return [named(entries[0].state, LABEL), *shown]

    return first_rows(
        ["State", *(named(arm, LABEL) for arm in release.arms)],
        cells,
        count=states,
        name="Values of the arms side by side",
        whole=_WHOLE,
        cut=lambda first: f"{first} states; all of them are in values.csv.",
        numbers=range(1, len(release.arms) + 1),
    )


def _differences(release: Release, arm: str) -> Html:
    """Return the table of one arm's differences from the first."""
    differences = release.differences
    assert differences is not None  # every release with arms has them
    states = release.state_count
    before = (release.arms.index(arm) - 1) * states
    careful = not all(entry.supported for entry in differences[before : before + states])

    def cells(at: int) -> Sequence[Content]:
        entry = differences[before + at]
        return [
            named(entry.state, LABEL),
            number(entry.value),
            interval(*ends_of(entry)),
            interval(*_bands_of(entry)),
            *([flag(entry)] if careful else []),
        ]

    def flag(entry: StateValue) -> Content:
        return "" if entry.supported else element("span", "too few visits", class_="flag")

    return first_rows(
        [
            "State",
            ["difference, ", named(arm, LABEL)],
            f"{100 * (release.level or 0):g}% interval",
            "band for all states",
            *(["careful"] if careful else []),
        ],
        cells,
        count=states,
        name=f"Differences of {arm} from {release.arms[0]}",
        whole=_WHOLE,
        cut=lambda first: f"{first} states; all of them are in release.json.",
        numbers=range(1, 4),
    )
