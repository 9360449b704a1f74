"""Describe a release: the only code after the estimators that handles arms, actions and off-policy.

Everything here comes from the release, its study, or the ledger's account; this module never
handles data or private types.
"""

from collections.abc import Iterator

from privalue.errors import UsageError
from privalue.estimate import WORDS
from privalue.ledger import Account, study_hash
from privalue.releases import Release
from privalue.report.accounts import account_facts
from privalue.report.description import Description, Fact
from privalue.report.html import fact, sentence
from privalue.report.meaning import heading_of, meaning_of, section_facts
from privalue.report.notices import limits_of, notices_of
from privalue.report.numbers import format_interval, format_row
from privalue.report.tables import describe_files, describe_tables, kept_mass, split_flags
from privalue.study import Study, described_values


def describe(
    release: Release, study: Study | None = None, account: Account | None = None
) -> Description:
    """Return the description of a release.

    Args:
        release: the release.
        study: its study, which must equal the study that the release describes.
        account: the dataset's account on its ledger.

    Raises:
        UsageError: the study differs in some key or side file.
    """
    if study is not None:
        require_same_study(release, study)
    tables = describe_tables(release)
    facts = [
        *_results(release),
        *_values(release),
        *_privacy(release),
        *_study(release),
        *_method(release),
        *_budget(release, account),
    ]
    for name in ("private", "created", "sha256", "reused"):
        facts.append(fact(f"release.{name}", getattr(release, name)))
    return Description(
        title=release.study["study"]["name"],
        facts=tuple(facts),
        notices=notices_of(release, tables),
        limits=tuple(limits_of(release)),
        tables=tables,
        files=describe_files(release),
        level=release.level,
        private=release.private,
    )


def require_same_study(release: Release, study: Study) -> None:
    """Refuse a study that is not the one that the release describes.

    Raises:
        UsageError: some key or side file differs.
    """
    # A period may be given on the command line.
    description = study.replace(period=release.study["study"].get("period")).public_description()
    if release.study != description:
        raise UsageError(sentence("other_study", name=study.study.name), code="other-study")


# The values


def _values(release: Release) -> Iterator[Fact]:
    yield fact("values.heading", heading_of(release))
    yield fact("values.meaning", meaning_of(release))
    texts = [
        text for table in release.tables.values() for text in set(table.columns.get("flags", ()))
    ]
    flags = dict.fromkeys(flag for text in texts for flag in split_flags(text))
    meanings = {WORDS["flags"][code]: meaning for code, meaning in WORDS["meanings"].items()}
    yield fact("values.flags", {flag: meanings.get(flag, "") for flag in flags})


def _results(release: Release) -> Iterator[Fact]:
    """Yield the main numbers: differences first, then overall values, sizes, the guarantee."""
    if release.mechanism == "dp-ope":
        yield from _off_policy_results(release)
    else:
        yield from _overall_results(release)
        flagged = sum(bool(split_flags(text)) for text in release.main.columns.get("flags", ()))
        sizes = {"arms": len(release.arms), "actions": len(release.actions), "flagged": flagged}
        yield fact("result.states", len(release.states), **sizes)
        yield fact("result.flagged", flagged)
    yield fact("result.guarantee", release.private, privacy=release.privacy)


def _overall_results(release: Release) -> Iterator[Fact]:
    for row in release.differences or ():
        if row.state is None:
            label = f"{row.arm} less {row.against}, overall"
            yield Fact(f"result.difference.{row.arm}", row.value, label, format_row(row))
    for row in release.policy or ():
        arm = getattr(row, "arm", None)
        key, label = "result.policy", "Overall value of the policy"
        if arm is not None:
            key, label = f"{key}.{arm}", f"{label}, {arm}"
        yield Fact(key, row.value, label, format_row(row))
    if release.policy is None:
        least, most = float(release.value.min()), float(release.value.max())
        text = format_interval(least, least, most).interval
        yield Fact("result.range", [least, most], "Values", text)


def _off_policy_results(release: Release) -> Iterator[Fact]:
    target, differences = release.tables["policy"], release.tables["differences"]
    if target.keys:
        yield fact("result.starts", len(target), supported=int(target.supported.sum()))
        return
    difference, value = differences.row(0), target.row(0)
    text = format_row(difference)
    yield Fact("result.difference", difference.value, "Target less behaviour", text)
    yield Fact("result.policy", value.value, "Value of the target", format_row(value))
    yield Fact("result.kept_mass", value.kept_mass, "Kept mass", str(kept_mass(target, 0)))


# The guarantee and the study


def _privacy(release: Release) -> Iterator[Fact]:
    privacy, limits = release.privacy, release.study["privacy"]
    for name in ("epsilon", "delta", "unit", "neighbours", "invalid"):
        yield fact(f"privacy.{name}", getattr(privacy, name))
    yield fact("privacy.change", sentence("change", **dict(privacy)))
    arms = bool(release.arms)
    yield fact("privacy.valid_row", sentence("valid_row", unit=privacy.unit, arms=arms))
    yield fact("privacy.sentence", release.sentence())
    yield fact("privacy.size", release.trajectories or release.persons)
    most = limits.get("max_trajectories_per_person")
    yield fact("privacy.max_trajectories_per_person", most)


def _study(release: Release) -> Iterator[Fact]:
    description = release.study
    yield from section_facts(description)
    size = release.trajectories or release.persons
    yield fact("study.size", size, unit=release.privacy.unit)
    yield fact("study.reward_bounds", list(description["values"]["rewards"]))
    yield fact("study.return_bounds", list(described_values(description).return_bounds))
    yield fact("study.sha256", study_hash(description))


# The method and its cost


def _method(release: Release) -> Iterator[Fact]:
    noise, name = release.noise, release.mechanism
    details = sentence("mechanism", name=name, calibration=noise.calibration)
    yield fact("method.mechanism", name)
    yield fact("method.mechanism_details", details)
    yield fact("method.alpha", noise.alpha)
    if noise.beta:
        yield fact("method.beta", noise.beta)
    yield fact("method.noise", noise.shape)
    yield fact("method.grid", noise.grid)
    if not release.pooled_from:  # each source has its own
        yield fact("method.sigma", noise.sigma)
    if release.ridge is not None:
        yield fact("method.ridge", release.ridge)
    if release.dp_event is not None:
        yield fact("method.dp_event", release.dp_event)
    stages = [stage.model_dump(include={"name", "alpha"}) for stage in release.stages]
    if len(stages) > 1:
        yield fact("method.stages", stages)
    has_bounds = any(stage["name"] == "bounds" for stage in stages)
    yield fact("method.tuning", sentence("tuning", bounds=has_bounds))
    yield fact("method.post_processing", sentence("post_processing"))
    yield fact("method.randomness", release.private)
    yield fact("method.software", release.software)


def _budget(release: Release, account: Account | None) -> Iterator[Fact]:
    cost = {"epsilon": release.privacy.epsilon, "delta": release.privacy.delta}
    text = sentence(
        "composition",
        private=release.private,
        refit_of=release.refit_of,
        pooled=len(release.pooled_from),
        ledger_head=release.ledger_head,
        is_gaussian=account is not None and account.terms.is_gaussian,
        **cost,
    )
    yield fact("budget.text", text)
    has_cost = release.private and release.refit_of is None and not release.pooled_from
    yield fact("budget.cost", cost if has_cost else None)
    if release.ledger_head is not None:
        yield fact("budget.ledger_head", release.ledger_head)
    if account is not None:
        yield from account_facts(account)
