"""Describe a release: the only code after the estimators that knows arms, actions and off-policy.

Everything here comes from the release, from its study, or from the ledger's account: this module
never meets data or private types.
"""

from collections.abc import Iterator

import numpy as np

from privalue.errors import plural
from privalue.estimate import MEANINGS
from privalue.ledger import Account, study_hash
from privalue.releases import Release, Row
from privalue.report.accounts import account_facts
from privalue.report.description import Description, Fact, Listing
from privalue.report.guarantee import ALARMS, format_detection, odds_factor
from privalue.report.html import sentence
from privalue.report.meaning import heading_of, outcome_of, section_facts
from privalue.report.notices import notices_of
from privalue.report.numbers import (
    format_bounds,
    format_interval,
    format_power,
    format_share,
)
from privalue.report.tables import describe_tables, kept_mass, split_flags
from privalue.study import described_values


def describe(release: Release, account: Account | None = None) -> Description:
    """Return what there is to say about a release.

    Args:
        release: what was released.
        account: how the dataset stands on its ledger.
    """
    tables = describe_tables(release)
    facts = [
        *_results(release),
        *_values(release),
        *_privacy(release),
        *_study(release),
        *_method(release),
        *_budget(release, account),
        Fact("release.private", release.private),
        Fact("release.created", release.created),
        Fact("release.sha256", release.sha256),
        Fact("release.reused", release.reused),
    ]
    return Description(
        title=release.study["study"]["name"],
        facts=tuple(facts),
        notices=notices_of(release, tables),
        tables=tables,
        listings=tuple(_listings(release)),
        level=release.level,
        private=release.private,
    )


# What the values are


def _values(release: Release) -> Iterator[Fact]:
    described = release.study
    meaning = sentence(
        "meaning",
        mechanism=release.mechanism,
        outcome=outcome_of(release),
        discount=described["values"]["discount"],
        actions=bool(release.actions),
        clip=described.get("policy", {}).get("clip"),
    )
    yield Fact("values.heading", heading_of(release))
    yield Fact("values.meaning", meaning)
    yield Fact("values.unvisited", described_values(described).unvisited_value)
    yield Fact("values.counts_released", release.statistics is not None)
    yield Fact("values.features", described["features"].get("kind", "tabular"))
    texts = [
        text for table in release.tables.values() for text in set(table.columns.get("flags", ()))
    ]
    flags = dict.fromkeys(flag for text in texts for flag in split_flags(text))
    yield Fact("values.flags", {flag: MEANINGS.get(flag, "") for flag in flags})
    if release.mechanism == "dp-ope":
        policy = described["policy"]
        yield Fact("policy.clip", policy["clip"], "Clip")
        yield Fact("policy.behaviour_is_logged", policy["behaviour"] == "column")
        yield Fact("policy.refuted", bool(release.tables["policy"].columns["refuted"].any()))


def _results(release: Release) -> Iterator[Fact]:
    """Yield the main numbers: differences first, then overall values, sizes, the guarantee."""
    if release.mechanism == "dp-ope":
        yield from _off_policy_results(release)
    else:
        yield from _overall_results(release)
        flagged = sum(bool(split_flags(text)) for text in release.main.columns.get("flags", ()))
        sizes = [plural(len(release.states), "state")]
        sizes += [plural(len(release.arms), "arm")] if release.arms else []
        sizes += [plural(len(release.actions), "action")] if release.actions else []
        text = f"{', '.join(sizes)}; {f'{flagged:,}' if flagged else 'none'} flagged"
        yield Fact("result.states", len(release.states), "States", text)
        yield Fact("result.flagged", flagged)
    privacy = release.privacy
    delta = f", δ = {format_power(privacy.delta)}" if privacy.delta else ""
    text = f"ε = {format_power(privacy.epsilon)}{delta} for one {privacy.unit}"
    text = text if release.private else "none: NOT PRIVATE"
    yield Fact("result.guarantee", release.private, "Guarantee", text)


def _overall_results(release: Release) -> Iterator[Fact]:
    for row in release.differences or ():
        if row.state is None:
            text = f"{row.arm} less {row.against}, overall"
            yield Fact(f"result.difference.{row.arm}", row.value, text, _formatted(row))
    for row in release.policy or ():
        arm = getattr(row, "arm", None)
        key, label = "result.policy", "Overall value of the policy"
        if arm is not None:
            key, label = f"{key}.{arm}", f"{label}, {arm}"
        yield Fact(key, row.value, label, _formatted(row))
    if release.policy is None:
        least, most = float(release.value.min()), float(release.value.max())
        text = format_interval(least, least, most).interval
        yield Fact("result.range", [least, most], "Values", text)


def _off_policy_results(release: Release) -> Iterator[Fact]:
    target, differences = release.tables["policy"], release.tables["differences"]
    if target.keys:
        text = f"{plural(len(target), 'start')}; {int(target.supported.sum()):,} supported"
        yield Fact("result.starts", len(target), "Starts", text)
        return
    difference, value = differences.row(0), target.row(0)
    text = _formatted(difference)
    yield Fact("result.difference", difference.value, "Target less behaviour", text)
    yield Fact("result.policy", value.value, "Value of the target", _formatted(value))
    yield Fact("result.kept_mass", value.kept_mass, "Kept mass", str(kept_mass(target, 0)))


def _formatted(row: Row) -> str:
    ends = getattr(row, "total_low", None), getattr(row, "total_high", None)
    return str(format_interval(row.value, *ends))


# What is promised, and what was public


def _privacy(release: Release) -> Iterator[Fact]:
    privacy, limits = release.privacy, release.study["privacy"]
    yield Fact("privacy.epsilon", privacy.epsilon)
    yield Fact("privacy.delta", privacy.delta)
    yield Fact("privacy.unit", privacy.unit)
    yield Fact("privacy.neighbours", privacy.neighbours)
    yield Fact("privacy.invalid", privacy.invalid)
    yield Fact("privacy.change", privacy.change())
    yield Fact("privacy.sentence", release.sentence())
    yield Fact("privacy.odds", odds_factor(privacy.epsilon))
    yield Fact("privacy.detection", format_detection(privacy.epsilon, privacy.delta, 0.05))
    yield Fact("privacy.size", release.trajectories or release.persons)
    for name in ("max_trajectories_per_person", "max_states_per_trajectory"):
        yield Fact(f"privacy.{name}", limits.get(name))


def _study(release: Release) -> Iterator[Fact]:
    described, values = release.study, release.study["values"]
    yield from section_facts(described)
    size = release.trajectories or release.persons
    what = "Persons" if release.privacy.unit == "person" else "Trajectories"
    yield Fact("study.size", size, what, f"{size:,} (public)" if size else "not public")
    yield Fact("study.arm_labels", list(release.arms))
    yield Fact("study.truncated", described["data"].get("truncated"))
    yield Fact("study.reward_bounds", list(values["rewards"]))
    bounds = described_values(described).return_bounds
    yield Fact("study.return_bounds", list(bounds), "Returns within", format_bounds(bounds))
    yield Fact("study.sha256", study_hash(described), "SHA-256 of the study")


# How it was made, and what it cost


def _method(release: Release) -> Iterator[Fact]:
    noise, name = release.noise, release.mechanism
    stage = any(stage.name == "bounds" for stage in release.stages)
    details = sentence("mechanism", name=name, calibration=noise.calibration)
    yield Fact("method.mechanism", name)
    yield Fact("method.mechanism_details", details, "Mechanism")
    yield Fact("method.calibration", noise.calibration)
    yield Fact(
        "method.alpha",
        noise.alpha,
        "Noise multiplier",
        f"{noise.alpha:.6g} (noise over sensitivity)",
    )
    if noise.beta:
        yield Fact("method.beta", noise.beta, "Smoothness (beta)", f"{noise.beta:.6g}")
    yield Fact("method.noise", noise.shape, "Noise on", _SHAPES[noise.shape])
    yield Fact("method.grid", noise.grid, "Grid of the noise", f"multiples of {noise.grid:.6g}")
    scale = (
        f"{noise.sigma:.6g}, public"
        if noise.sigma is not None
        else "depends on the data; not released"
    )
    yield Fact("method.sigma", noise.sigma, "Scale of the noise", scale)
    if release.ridge is not None:
        yield Fact("method.ridge", release.ridge, "Ridge (lambda)", f"{release.ridge:.6g}")
    yield Fact("method.tuning", sentence("tuning", bounds=stage))
    yield Fact("method.post_processing", sentence("post_processing", name=name))
    source = "the operating system's entropy" if release.private else "seeded: NOT PRIVATE"
    yield Fact("method.randomness", release.private, "Randomness", source)
    yield Fact("method.software", release.software, "Software")
    yield Fact("method.accepted", list(release.accepted))


_SHAPES = {
    "isotropic": "every coefficient alike (isotropic)",
    "whitened": "every whitened coefficient alike",
    "statistics": "every sum of returns and every count of visits",
    "weights": "every sum of weights and of weighted returns",
}


def _budget(release: Release, account: Account | None) -> Iterator[Fact]:
    privacy = release.privacy
    text = sentence(
        "composition",
        refit_of=release.refit_of,
        ledger_head=release.ledger_head,
        epsilon=privacy.epsilon,
        delta=privacy.delta,
        is_gaussian=account is not None and account.terms.is_gaussian,
    )
    yield Fact(
        "budget.text",
        text if release.private else "Nothing was spent: seeded experiments are on no ledger.",
    )
    cost = f"epsilon = {format_power(privacy.epsilon)}, delta = {format_power(privacy.delta)}"
    spent = release.private and release.refit_of is None
    yield Fact("budget.cost", spent, "Cost", cost if spent else "nothing")
    yield Fact("budget.refit_of", release.refit_of)
    yield Fact(
        "budget.ledger_head",
        release.ledger_head,
        "Hash of the charge" if release.ledger_head else "",
    )
    if account is not None:
        yield from account_facts(account)


def _listings(release: Release) -> Iterator[Listing]:
    privacy = release.privacy
    yield Listing(
        "attacker",
        "How often an attacker can detect a unit, at most",
        ("False alarms", "detects at most", "guessing detects"),
        [
            (f"{100 * a:g}%", format_detection(privacy.epsilon, privacy.delta, a), f"{100 * a:g}%")
            for a in ALARMS
        ],
    )
    if len(release.stages) > 1:
        whole = float(np.sum([stage.mu**2 for stage in release.stages]))
        yield Listing(
            "stages",
            "Stages: each one works with what earlier ones released, and all cost one release",
            ("Stage", "share of the budget", "noise multiplier"),
            [
                (
                    "find a bound of returns" if stage.name == "bounds" else "release the values",
                    format_share(stage.mu**2 / whole),
                    f"{stage.alpha:.6g}",
                )
                for stage in release.stages
            ],
        )
