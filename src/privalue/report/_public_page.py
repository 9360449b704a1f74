"""Write report.html, which a privacy office signs and a clinician reads, from public inputs alone.

Everything here comes from the release, from its study, or from the ledger's account: this module
never meets data or private types.
"""

from privalue.artefact import PolicyInterval, Release
from privalue.ledger import Standing
from privalue.report._guarantee import (
    ALARMS,
    delta_words,
    detection_shown,
    large_delta_words,
    more_validity_words,
    odds_factor,
    odds_words,
    plain_words,
    public_units,
    readable,
    unit_words,
    validity_words,
)
from privalue.report._html import Content, Html, element, table
from privalue.report._look import PagePart, page
from privalue.report._page_arms import arms_part
from privalue.report._page_facts import budget_part, method_part, public_part, sign_part
from privalue.report._page_precision import limits_part, precision_part
from privalue.report._page_values import flags_part, values_part
from privalue.report._page_words import hash_of, paragraphs
from privalue.report._precision import Planned, planned
from privalue.report._states import StateTable, state_table
from privalue.study import Study

# Every public page has this mark in its first bytes, whatever its name, so that no private page
# is written beside it.
PUBLIC_MARK = "privalue-public-page"
_NOT_PRIVATE: Content = [
    "NOT PRIVATE. ",
    element("span", "Seeded noise, for experiments only: nothing is promised. Do not publish."),
]
_USELESS = element(
    "div",
    element(
        "p",
        "By its own plan this release is no better than guessing the middle of the bounds for "
        "every state. Whoever made it was told so and accepted it explicitly: do not act on the "
        "values.",
    ),
    class_="note",
)

_DOUBTFUL = element(
    "div",
    element(
        "p",
        "At the cautious end of its own plan this release is no better than guessing the middle of "
        "the bounds for every state: if few people visited some of the states, do not act on the "
        "values.",
    ),
    class_="note",
)


def public_page(
    release: Release,
    *,
    study: Study | None = None,
    account: Standing | None = None,
    justification: str | None = None,
) -> str:
    """Return the page of a release, self-contained.

    Args:
        release: what was released.
        study: its study, for what side files say; without it, only what the release holds.
        account: how the dataset stands on its ledger.
        justification: why these parameters, in the words of whoever decided.

    Returns:
        The HTML document.
    """
    states = state_table(release, study)
    plan = planned(release, study)
    name = release.study["study"]["name"]
    parts = [
        PagePart(key="guarantee", title="What is promised", content=_guarantee(release)),
        PagePart(key="values", title="The values", content=values_part(release, states)),
        *_arms(release),
        PagePart(
            key="flags",
            title="States to be careful with",
            content=flags_part(release, states),
            short="Careful with",
        ),
        PagePart(
            key="precision",
            title="How precise it is",
            content=precision_part(release, states, plan),
            short="Precision",
        ),
        PagePart(
            key="limits",
            title="What these numbers cannot say",
            content=limits_part(release, states),
            short="Limits",
        ),
        PagePart(
            key="public",
            title="What was public beforehand",
            content=public_part(release),
            short="What was public",
        ),
        PagePart(
            key="budget",
            title="What it cost",
            content=budget_part(release, account),
            short="Budget",
        ),
        PagePart(
            key="method",
            title="How it was made",
            content=method_part(release, justification),
            short="Method",
        ),
        PagePart(key="sign", title="Sign-off", content=sign_part(release)),
    ]
    return page(
        title=f"{name}: what the policy is worth",
        kicker="What a policy is worth, told privately",
        name=name,
        top=_top(release, states, plan),
        parts=parts,
        foot=[
            element(
                "p",
                f"Made by privalue {release.software.version} from release.json of "
                f"{release.created}, and from what is public. This page holds nothing else of the "
                "data.",
            ),
            element("p", "SHA-256 of release.json: ", hash_of(release.sha256)),
        ],
        banner=None if release.private else _NOT_PRIVATE,
        meta=element("meta", name=PUBLIC_MARK, content=release.created),
    )


def _arms(release: Release) -> list[PagePart]:
    """Return the part that compares arms, where there are any."""
    if not release.arms:
        return []
    return [PagePart(key="arms", title="The arms side by side", content=arms_part(release))]


def _top(release: Release, states: StateTable, plan: Planned) -> list[Html]:
    """Return the summary below the heading: a sentence, and a tile for each main number."""
    privacy = release.privacy
    flagged = int(states.flagged.sum())
    tiles: list[tuple[Content, Content, Content]] = [
        (
            "Guarantee" if release.private else "Guarantee: none",
            f"ε = {readable(privacy.epsilon)}, δ = {readable(privacy.delta)}"
            if release.private
            else "NOT PRIVATE",
            f"one {privacy.unit}, "
            + ("replaced" if privacy.neighbours == "replace-one" else "added or removed"),
        ),
        (
            "States",
            f"{release.state_count:,}" + (f" in {len(release.arms)} arms" if release.arms else ""),
            f"{flagged:,} to be careful with" if flagged else "none is flagged",
        ),
    ]
    if release.policy_value is not None:
        within = release.policy_interval
        tiles.append(
            (
                "The policy's one number",
                f"{release.policy_value:.4g}",
                _policy_interval(within, release.level or 0)
                if within is not None
                else "from the public start; its noise is not public",
            )
        )
    tiles.append(
        (
            "Released",
            release.created[:10],
            f"{release.mechanism}, privalue {release.software.version}",
        )
    )
    return [
        element(
            "p", plain_words(release) if release.private else release.sentence(), class_="lead"
        ),
        *_warnings(release, plan),
        element(
            "dl",
            [
                element("div", element("dt", what), element("dd", value, element("small", more)))
                for what, value, more in tiles
            ],
            class_="tiles",
        ),
    ]


def _policy_interval(within: PolicyInterval, level: float) -> str:
    """Format the policy's first interval with four digits, for a tile."""
    if within.total_low is None or within.total_high is None:
        return f"{100 * level:g}% privacy interval {within.low:.4g} to {within.high:.4g}"
    return f"{100 * level:g}% total interval {within.total_low:.4g} to {within.total_high:.4g}"


def _warnings(release: Release, plan: Planned) -> list[Html]:
    """Return the amber bar of a release that is of no use by its plan, or by its cautious end."""
    if "useless" in release.accepted:
        return [_USELESS]
    return [_DOUBTFUL] if plan.prediction is not None and plan.prediction.doubtful else []


def _guarantee(release: Release) -> Content:
    """Describe the promise in words, in symbols, and against an attacker."""
    privacy, limits = release.privacy, release.study["privacy"]
    if not release.private:
        return paragraphs(
            element("strong", "Nothing is promised."),
            "The noise came from a source that can be predicted: this is an experiment. The page "
            "shows what a release of this study would look like.",
        )
    units = public_units(release)
    return [
        element("div", element("p", large_delta_words(privacy, units)), class_="note")
        if units is not None and privacy.delta * units > 0.1
        else None,
        element("h3", "In plain language"),
        *paragraphs(
            unit_words(
                privacy,
                limits.get("max_trajectories_per_person"),
                counted=(release.trajectories or release.persons) is not None,
            ),
            validity_words(privacy),
            more_validity_words(release),
            odds_words(privacy),
            delta_words(privacy, units),
            "This holds against anyone, whatever else they know now or learn later, and whatever "
            "they compute from the release. It does not stop anyone from learning what is true of "
            "people at large, and so of each of them.",
        ),
        element("h3", "In symbols"),
        element(
            "div",
            "Pr[M(X) ∈ S] ≤ e",
            element("sup", readable(privacy.epsilon)),
            f" · Pr[M(X') ∈ S] + {readable(privacy.delta)}",
            element(
                "small",
                f"for every set S of outcomes and all data sets X and X' that differ by "
                f"{privacy.change()}; the factor is {odds_factor(privacy.epsilon)}. "
                "M is all that was published: the values"
                + (", the noisy statistics" if release.statistics is not None else "")
                + (", the released noise scale" if release.noise.scale is not None else "")
                + " and whatever this page computes from them.",
            ),
            class_="formula",
        ),
        element("h3", "What an attacker could tell, at most"),
        table(
            "A test that says which of two neighbouring data sets was used: how often it can be "
            "right when it may accuse wrongly so often. Guessing is right as often as it is wrong.",
            ["Wrongly accuses in", "is right in at most", "guessing is right in"],
            [
                [
                    f"{100 * alarm:g}%",
                    detection_shown(privacy.epsilon, privacy.delta, alarm),
                    f"{100 * alarm:g}%",
                ]
                for alarm in ALARMS
            ],
            name="What an attacker could tell",
            small=True,
            numbers=(0, 1, 2),
        ),
    ]
