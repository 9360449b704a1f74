"""Write report.html, which a privacy office signs and a clinician reads, from public inputs alone.

Everything here comes from the release, from its study, or from the ledger's account: this module
never meets data or private types. The answer comes first: whether the values can be used, then the
values, their precision, the promise, and last what is for the record.
"""

from privalue._written import counted, written
from privalue.ledger import Account
from privalue.releases import NOT_PRIVATE, Release
from privalue.report._guarantee import guarantee_context, readable
from privalue.report._limits import counted_between
from privalue.report._page_arms import arms_context, ends_of
from privalue.report._page_facts import budget_context, method_context, public_context
from privalue.report._page_precision import limits_context, precision_context
from privalue.report._page_values import flags_context, values_context
from privalue.report._pages import hashed, headed, named, render
from privalue.report._precision import planned
from privalue.report._rows import policies, policy_row
from privalue.report._states import StateTable, state_table
from privalue.report._verdict import verdict_of
from privalue.study import Study

# Every public page has this mark in its first bytes, whatever its name, so that no private page
# is written beside it.
PUBLIC_MARK = "privalue-public-page"
_CONTENTS = {
    "values": "Values",
    "flags": "Careful with",
    "states": "All states",
    "arms": "Arms",
    "precision": "Precision",
    "guarantee": "What is promised",
    "limits": "Limits",
    "public": "What was public",
    "method": "Method",
    "budget": "Budget",
    "sign": "Sign-off",
}


def public_page(
    release: Release,
    *,
    study: Study | None = None,
    account: Account | None = None,
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
    states = state_table(release)
    plan = planned(release, study)
    name = release.study["study"]["name"]
    return render(
        "report.html",
        mark=PUBLIC_MARK,
        marked=release.created,
        private=False,
        **headed(release, f"{name}: what the policy is worth"),
        kicker=f"What a policy is worth, told privately. Released on {release.created[:10]} by "
        f"{release.mechanism}, {release.software}.",
        name=named(name),
        contents=[(k, short) for k, short in _CONTENTS.items() if k != "arms" or release.arms],
        protected=release.private,
        verdict=verdict_of(release, states, plan),
        tiles=_tiles(release, states),
        values=values_context(release, states),
        searchable=len(states) > 12,
        flags=flags_context(release, states),
        arms=arms_context(release, states),
        precision=precision_context(release, states, plan),
        guarantee=guarantee_context(release),
        limits=limits_context(release, states),
        public=public_context(release),
        method=method_context(release, justification),
        budget=budget_context(release, account),
        sha256=hashed(release.sha256),
        version=release.software.rpartition(" ")[2],
        created=release.created,
    )


def _too_wide(release: Release, ends: tuple[float | None, float | None]) -> str:
    """Return a warning where an interval spans more than half of what is possible."""
    (low, high), (least, most) = ends, counted_between(release)
    wide = low is None or high is None or high - low > (most - least) / 2
    return ": too wide to act on" if wide else ""


def _tiles(release: Release, states: StateTable) -> list[tuple[str, str, str]]:
    """Return the main numbers: each with its name, and what there is to say of it."""
    privacy, flagged = release.privacy, int(states.flagged.sum())
    level = f"{100 * (release.level or 0):g}%"
    tiles = []
    if release.policy_value is not None:
        within = policy_row(release)
        ends = (None, None) if within is None else ends_of(within)
        shown = written(release.policy_value, *ends)
        tiles.append(
            (
                "Overall value of the policy (averaged over where people start)",
                shown.value,
                "its noise is not public"
                if within is None
                else f"{level} total interval {shown.within}{_too_wide(release, ends)}"
                + ("; exact only where nobody returns to a state" if release.actions else ""),
            )
        )
    elif not policies(release):
        least, largest = float(states.value.min()), float(states.value.max())
        shown = written(least, least, largest)
        over = "over states and actions" if release.actions else "over the states"
        tiles.append(("Values", shown.within, f"{over}; the study declares no start"))
    for policy in policies(release):
        ends = (None, None) if policy.interval is None else ends_of(policy.interval)
        shown = written(policy.value, *ends)
        tiles.append(
            (
                f"Overall value of the policy, {policy.arm}",
                shown.value,
                f"{level} interval {shown.within}{_too_wide(release, ends)}",
            )
        )
    tiles.append(
        (
            "States",
            f"{len(release.states):,}"
            + (f" in {len(release.arms)} arms" if release.arms else "")
            + (f", {counted(len(release.actions), 'action')}" if release.actions else ""),
            f"{flagged:,} to be careful with" if flagged else "none is flagged",
        )
    )
    relation = "replaced" if privacy.neighbours == "replace-one" else "added or removed"
    return [
        *tiles,
        (
            "Guarantee",
            f"ε = {readable(privacy.epsilon)}, δ = {readable(privacy.delta)}",
            f"one {privacy.unit}, {relation}",
        )
        if release.private
        else ("Guarantee: none", NOT_PRIVATE, "seeded noise"),
    ]
