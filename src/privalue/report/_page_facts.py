"""Collect what the public page says for the record: what was public, its cost, the method."""

from typing import Any

from privalue._written import counted, written_exactly
from privalue.ledger import Account, study_hash
from privalue.releases import Release
from privalue.report._guarantee import readable
from privalue.report._limits import bounds_stage
from privalue.report._numbers import interval
from privalue.report._page_stages import stages_context
from privalue.report._pages import PageHtml, PageTable, bar, hashed, listed, named
from privalue.report._registry import (
    SIDE_CHANNELS,
    composition_words,
    mechanism_words,
)
from privalue.report._states import return_bounds


def public_context(release: Release) -> dict[str, Any]:
    """Return what was public: the study, and its side files by their hashes.

    Everything comes from the release itself, which holds the description of its study.
    """
    described = release.study
    about, values, privacy = described["study"], described["values"], described["privacy"]
    files = described["side_files"]
    size = (
        f"{counted(release.trajectories, 'trajectory')}; replacing one leaves their number as it is"
        if release.trajectories is not None
        else f"{counted(release.persons, 'person')}; replacing one leaves their number as it is"
        if release.persons is not None
        else "not public: adding or removing one would change it"
        if release.privacy.neighbours == "add-remove"
        else "not public, because some may have been left out, and how many is private"
    )
    declared = about.get("trajectories")
    bounds = [
        f"{key.replace('_', ' ')}: {privacy[key]:,}"
        for key in ("max_trajectories_per_person", "max_states_per_trajectory")
        if privacy.get(key) is not None
    ]
    rows: list[list[object]] = [
        ["study", named(about["name"])],
        ["people (dataset)", named(about["dataset"]) if "dataset" in about else "not named"],
        *_optional("period", named(about.get("period", "")), "period" in about),
        ["number in the data", size],
        ["declared beforehand", counted(declared, "trajectory") if declared else "no number"],
        ["contribution limits", ", ".join(bounds) or "none but the states themselves"],
        ["states", f"{len(release.states):,}"],
        *_arms(release),
        ["discount", f"{values['discount']:g} per step"],
        ["rewards within", interval(*values["rewards"])],
        ["returns within", interval(*return_bounds(release))],
        ["features", _section(described["features"])],
        ["weights", _section(described["weights"]) or "uniform"],
        ["mechanism", _section(described["mechanism"])],
        ["SHA-256 of the study", hashed(study_hash(described))],
    ]
    return {
        "study": PageTable(name="The study", caption="The study", rows=rows, kind="facts"),
        "files": PageTable(
            name="Side files",
            caption="Side files, by their hashes: whoever has a file can check that it is the one.",
            heads=["Key", "file", "SHA-256"],
            rows=[[file["key"], named(file["name"]), hashed(file["sha256"])] for file in files],
        )
        if files
        else None,
    }


def _optional(what: str, value: object, there: bool) -> list[list[object]]:
    """Return a row where there is something to say."""
    return [[what, value]] if there else []


def _arms(release: Release) -> list[list[object]]:
    """Return what the study says of arms, and of trajectories that were cut off."""
    rows: list[list[object]] = []
    if release.arms:
        rows.append(
            ["arms", PageHtml(f"{listed(release.arms)}; how many are in each is not public")]
        )
    if release.actions:
        pairs = f"; {counted(len(release), 'pair')} with a state"
        rows.append(["actions", PageHtml(f"{listed(release.actions)}{pairs}")])
    if "truncated" in release.study["data"]:
        kept = release.study["values"].get("truncated") != "drop-unit"
        what = "kept, as if they had ended there" if kept else "left out with their unit"
        rows.append(["trajectories that were cut off", what])
    return rows


def _section(section: dict[str, Any]) -> PageHtml:
    """Return the keys of a section with their values, in one line."""
    return PageHtml(", ".join(f"{key} = {named(_plain(value))}" for key, value in section.items()))


def _plain(value: Any) -> str:
    """Return a value of the study as people write it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return (
            f"{len(value)} entries" if len(value) > 4 else ", ".join(map(_plain, value)) or "none"
        )
    if isinstance(value, dict):
        return ", ".join(f"{key} {_plain(inner)}" for key, inner in value.items())
    return written_exactly(value) if isinstance(value, float) else str(value)


def budget_context(release: Release, account: Account | None) -> dict[str, Any]:
    """Return what the release cost, and how much of the dataset's budget is left.

    Args:
        release: what was released.
        account: how the dataset stands on its ledger; None where the ledger is not at hand.
    """
    privacy = release.privacy
    return {
        "spent": None
        if release.refit_of is not None
        else f"This release costs epsilon = {readable(privacy.epsilon)} and delta = "
        f"{readable(privacy.delta)}.",
        "refit": None
        if release.refit_of is None
        else "Nothing was spent on this: it was computed from another release alone, which paid "
        f"for epsilon = {readable(privacy.epsilon)} and delta = {readable(privacy.delta)}.",
        "refit_of": release.refit_of and hashed(release.refit_of),
        "composition": composition_words(release, account),
        "head": release.ledger_head and hashed(release.ledger_head),
        "account": None if account is None else _account(account),
    }


def _account(account: Account) -> dict[str, Any]:
    """Return how the dataset stands: total, spent, left."""
    total = account.numbers(account.total, is_left=True)
    spent, left = account.numbers(account.spent), account.numbers(account.left, is_left=True)

    def drawn(amount: dict[str, float], key: str) -> PageHtml | str:
        if account.terms.is_gaussian and key != "mu":
            return readable(amount[key])
        share = amount[key] / (total[key] or 1.0)
        return bar(share**2 if key == "mu" else share, readable(amount[key]))  # squares add up

    return {
        "table": PageTable(
            name="Budget of the dataset",
            caption=PageHtml(
                f"Dataset {named(account.dataset)}: releases on the record: "
                f"{account.balance.releases}."
            ),
            heads=["Amount", *total],
            rows=[
                [what, *(drawn(amount, key) for key in total)]
                for what, amount in (
                    ("total", total),
                    ("spent, this release included", spent),
                    ("left", left),
                )
            ],
            kind="small",
        ),
        "words": f"The total is what all releases together may cost {account.terms}."
        + _squares(account)
        + _lowered(account),
    }


def _squares(account: Account) -> str:
    """Return the sentence on squares of mu; empty for a plain total."""
    if not account.terms.is_gaussian:
        return ""
    return (
        " Squares of mu add up. So what is spent and what is left, each written as an epsilon, "
        "come to more than the total."
    )


def _lowered(account: Account) -> str:
    """Return the sentence on a total that was lowered; empty where none was."""
    if account.largest == account.promise:
        return ""
    return (
        " It was lowered after releases were made, and what they showed may have led to that: all "
        f"of them together promise {account.largest}, and not less."
    )


def method_context(release: Release, justification: str | None) -> dict[str, Any]:
    """Return the mechanism, the reason for its parameters, and the side channels.

    Args:
        release: what was released.
        justification: why these parameters, in the words of whoever decided; None if nobody said.
    """
    noise = release.noise
    rows: list[list[object]] = [
        ["mechanism", mechanism_words(release)],
        ["constants", _constants(release)],
        ["shape of the noise", _SHAPES[noise.shape]],
        ["grid of the noise", f"multiples of {noise.grid:.6g}, public"],
        ["scale of the noise", _scale(release)],
        *_optional("lambda", f"{release.ridge or 0:.6g}", release.ridge is not None),
        [
            "randomness",
            "the operating system's entropy" if release.private else "seeded: NOT PRIVATE",
        ],
        ["software", release.software],
        ["created", release.created],
    ]
    return {
        "facts": PageTable(name="The mechanism", caption="The mechanism", rows=rows, kind="facts"),
        "stages": stages_context(release),
        "why": named(justification) if justification else None,
        "channels": PageTable(
            name="Side channels",
            caption="What is done about each, and what is not",
            rows=[[name, what[0].upper() + what[1:] + "."] for name, what in SIDE_CHANNELS.items()],
            kind="facts",
        ),
    }


def _constants(release: Release) -> str:
    """Return alpha and beta of the noise on the values, which may be one of several stages."""
    noise = release.noise
    whole = f"alpha = {noise.alpha:.8g}, beta = {noise.beta:.8g}"
    values = next((stage for stage in release.stages or () if stage.name == "values"), None)
    if values is None or len(release.stages or ()) == 1:
        return whole
    return (
        f"alpha = {values.alpha:.8g} for the values, which are one of {len(release.stages or ())} "
        f"stages; {whole} for the release as a whole"
    )


_SHAPES = {
    "isotropic": "the same in every coefficient (isotropic)",
    "whitened": "the same in every whitened coefficient",
    "statistics": "on every sum of returns and every count of visits",
}


def _scale(release: Release) -> str:
    """Return the words on the scale of the noise: public or secret."""
    noise = release.noise
    if noise.sigma is not None:
        earlier = "" if bounds_stage(release) is None else " and an earlier stage"
        return f"sigma = {noise.sigma:.6g}, settled by the study{earlier}, and public"
    return "depends on the data, and was not released"
