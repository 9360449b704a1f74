"""Write the parts of the public page for the record: what was public, its cost, and the method."""

from typing import Any

from privalue.artefact import Release
from privalue.ledger import Standing, study_hash
from privalue.report._guarantee import readable
from privalue.report._html import Content, element, facts, named, table
from privalue.report._page_stages import stages_words
from privalue.report._page_words import hash_of, interval, paragraphs
from privalue.report._registry import SIDE_CHANNELS, composition_words, mechanism_words
from privalue.report._states import return_bounds
from privalue.report._svg import Bar, bar_chart, key_of


def public_part(release: Release) -> Content:
    """Describe what was public: the study, and its side files by their hashes.

    Everything comes from the release itself, which holds the description of its study.
    """
    described = release.study
    about, values, privacy = described["study"], described["values"], described["privacy"]
    low, high = return_bounds(release)
    files = described["side_files"]
    size = (
        f"{release.trajectories:,} trajectories; replacing one leaves their number as it is"
        if release.trajectories is not None
        else f"{release.persons:,} persons; replacing one leaves their number as it is"
        if release.persons is not None
        else "not public: adding or removing one would change it"
    )
    declared = about.get("trajectories")
    bounds = [
        f"{key.replace('_', ' ')}: {privacy[key]:,}"
        for key in ("max_trajectories_per_person", "max_states_per_trajectory")
        if privacy.get(key) is not None
    ]
    rows: list[tuple[Content, Content]] = [
        ("study", named(about["name"])),
        ("people (dataset)", named(about["dataset"]) if "dataset" in about else "not named"),
        *([("period", named(about["period"]))] if "period" in about else []),
        ("number in the data", size),
        ("declared beforehand", f"{declared:,} trajectories" if declared else "no number"),
        ("contribution limits", ", ".join(bounds) or "none but the states themselves"),
        ("states", f"{release.state_count:,}"),
        *_arms(release),
        ("discount", f"{values['discount']:g} per step"),
        ("rewards within", interval(*values["rewards"])),
        ("returns within", interval(low, high)),
        ("features", _section(described["features"])),
        ("weights", _section(described["weights"]) or "uniform"),
        ("mechanism", _section(described["mechanism"])),
        ("SHA-256 of the study", hash_of(study_hash(described))),
    ]
    return [
        *paragraphs(
            "Everything in the study was fixed before the data was opened, and is public. Nothing "
            "of it was learned from the data."
        ),
        facts("The study", rows, name="The study"),
        table(
            "Side files, by their hashes: whoever has a file can check that it is the one.",
            ["Key", "file", "SHA-256"],
            [[file["key"], named(file["name"]), hash_of(file["sha256"])] for file in files],
            name="Side files",
        )
        if files
        else element("p", "There are no side files: the release holds the whole study."),
    ]


def _arms(release: Release) -> list[tuple[Content, Content]]:
    """Return what the study says of arms, and of trajectories that were cut off."""
    rows: list[tuple[Content, Content]] = []
    if release.arms:
        names: list[Content] = []
        for arm in release.arms:
            names += [", " if names else "", named(arm)]
        rows.append(("arms", [*names, "; how many are in each is not public"]))
    if "truncated" in release.study["data"]:
        kept = release.study["values"].get("truncated") != "drop-unit"
        what = "kept, as if they had ended there" if kept else "left out with their unit"
        rows.append(("trajectories that were cut off", what))
    return rows


def _section(section: dict[str, Any]) -> Content:
    """Return the keys of a section with their values, in one line."""
    shown_keys: list[Content] = []
    for key, value in section.items():
        text = f"{len(value)} numbers" if isinstance(value, list) else str(value)
        text = text.lower() if isinstance(value, bool) else text
        shown_keys += [", " if shown_keys else "", f"{key} = ", named(text)]
    return shown_keys


def budget_part(release: Release, account: Standing | None) -> Content:
    """Describe what the release cost, and how much of the dataset's budget is left.

    Args:
        release: what was released.
        account: how the dataset stands on its ledger; None where the ledger is not at hand.
    """
    privacy = release.privacy
    if not release.private:
        return paragraphs("Nothing: seeded experiments are on no ledger.")
    content: list[Content] = []
    if release.refit_of is not None:
        content += paragraphs(
            "Nothing was spent on this: it was computed from another release alone, which paid for "
            f"epsilon = {readable(privacy.epsilon)} and delta = {readable(privacy.delta)}.",
            ["SHA-256 of that release: ", hash_of(release.refit_of)],
        )
    else:
        content += paragraphs(
            f"This release costs epsilon = {readable(privacy.epsilon)} and delta = "
            f"{readable(privacy.delta)}."
        )
    content += paragraphs(composition_words(release, account))
    if release.ledger_head is not None:
        content += paragraphs(
            ["The hash of its charge on the ledger: ", hash_of(release.ledger_head)]
        )
    if account is None:
        if release.ledger_head is not None:
            content += paragraphs(
                "How the dataset stands is on the ledger: privalue ledger show; privalue ledger "
                "verify --release checks that this release is on the record."
            )
        return content
    # Reservations belong to runs that are under way or were killed: the public need not see them.
    pools = [
        ("total", account.total, False),
        ("spent, this release included", account.spent, False),
        ("left", account.unspent, True),
    ]
    told = [(what, account.stated(amount, left=left)) for what, amount, left in pools]
    keys = [
        ("epsilon", "epsilon"),
        ("delta", "delta"),
        *([("mu", "mu")] if account.gaussian else []),
    ]
    content += [
        element("h3", "The dataset's budget when this page was written"),
        element("figure", key_of(("bar", "spent"), ("rest", "left")), _budget_bars(account)),
        table(
            [
                "Dataset ",
                named(account.dataset),
                f": releases on the record: {account.number_of_releases}.",
            ],
            ["Amount", *(name for _, name in keys)],
            [[what, *(readable(amount[key]) for key, _ in keys)] for what, amount in told],
            name="Budget of the dataset",
            small=True,
            numbers=tuple(range(1, len(keys) + 1)),
        ),
        *paragraphs(*_squares_words(account)),
        *paragraphs(
            f"The total is what all releases together may cost {account.terms}."
            + _conversions(account),
        ),
    ]
    return content


def _budget_bars(account: Standing) -> Content:
    """Return what is spent and left as bars: of epsilon and delta, and of mu^2."""
    spent, left, total = (each.parts for each in (account.spent, account.unspent, account.total))
    stated = account.stated(account.total)
    bars, words = [], []
    for at, key, symbol in ((2, "mu", "μ²"), (0, "epsilon", "ε"), (1, "delta", "δ")):
        if (key == "mu" or account.gaussian) and not total[at]:
            continue
        whole = total[at] or 1
        amount = stated[key] ** 2 if key == "mu" else account.total.as_dict()[key]
        bars.append(
            (
                f"{symbol}, of {readable(amount)}",
                [
                    Bar(size=spent[at] / whole, label="spent", colour="value"),
                    Bar(size=left[at] / whole, label="left", colour="rest"),
                ],
                f"{100 * spent[at] / whole:.3g}% spent",
            )
        )
        used = amount * spent[at] / whole
        words.append(f"{'mu squared' if key == 'mu' else key} {used:g} of {amount:g}")
    return bar_chart(bars, name=f"Budget: spent {', '.join(words)}.")


def _squares_words(account: Standing) -> list[str]:
    """Return a paragraph on squares of mu; none in a plain book."""
    if not account.gaussian:
        return []
    return [
        "Squares of mu add up, so that what is spent and what is left, each told as an epsilon, "
        "add up to more than the total: the total is what is promised."
    ]


def _conversions(account: Standing) -> str:
    """Return the sentence on releases that are counted by group privacy; empty without any."""
    number = account.number_converted
    if not number:
        return ""
    return (
        f" {number} of the releases promise{'s' if number == 1 else ''} something else, and "
        f"{'is' if number == 1 else 'are'} counted at what that comes to here, by group privacy."
    )


def method_part(release: Release, justification: str | None) -> Content:
    """Describe the mechanism, the reason for its parameters, and the side channels.

    Args:
        release: what was released.
        justification: why these parameters, in the words of whoever decided; None if nobody said.
    """
    noise = release.noise
    rows: list[tuple[Content, Content]] = [
        ("mechanism", mechanism_words(release)),
        ("constants", f"alpha = {noise.alpha:.8g}, beta = {noise.beta:.8g}"),
        ("shape of the noise", _SHAPES[noise.shape]),
        ("grid of the noise", f"multiples of {noise.grid:.6g}, public"),
        ("scale of the noise", _scale(release)),
        *([] if release.ridge is None else [("lambda", f"{release.ridge:.6g}")]),
        (
            "randomness",
            "the operating system's entropy" if release.private else "seeded: NOT PRIVATE",
        ),
        ("software", f"privalue {release.software.version}"),
        ("created", release.created),
    ]
    return [
        facts("The mechanism", rows, name="The mechanism"),
        *stages_words(release),
        element("h3", "Why these parameters"),
        *(
            [element("p", named(justification))]
            if justification
            else paragraphs("No justification was given with this release.")
        ),
        element("h3", "Side channels that were considered"),
        facts(
            "What is done about each, and what is not",
            [(name, what[0].upper() + what[1:] + ".") for name, what in SIDE_CHANNELS.items()],
            name="Side channels",
        ),
        *paragraphs(
            [
                "The same facts for a registry of deployments: ",
                element("a", "registry.yaml", href="registry.yaml"),
                ". For programs: ",
                element("a", "release.json", href="release.json"),
                ".",
            ]
        ),
    ]


_SHAPES = {
    "isotropic": "the same in every coefficient (isotropic)",
    "whitened": "the same in every whitened coefficient",
    "statistics": "on every sum of returns and every count of visits",
}


def _one_stage(release: Release) -> bool:
    """Return whether no stage chose anything that the noise of the values goes by."""
    return not {stage.name for stage in release.stages or ()} & {"bounds", "visits"}


def _scale(release: Release) -> str:
    """Return the words on the scale of the noise: public, released with noise, or secret."""
    noise = release.noise
    if noise.sigma is not None:
        settled = "by the study" if _one_stage(release) else "by the study and earlier stages"
        return f"sigma = {noise.sigma:.6g}, settled {settled}, and public"
    if noise.scale is not None:
        return (
            f"sigma = {noise.scale.sigma:.6g}, released with noise of its own (Laplace noise of "
            f"scale {noise.scale.spread:.4g} on the logarithm of its square)"
        )
    return "depends on the data, and was not released"


def sign_part(release: Release) -> Content:
    """Return the lines for signatures, and the hash of what is signed.

    The hash ties a signature to the exact bytes of release.json.
    """
    fields = ("Reviewed by", "Role", "Decision", "Date")
    return [
        *paragraphs(
            [
                "Whoever signs this page signs for the release whose release.json has the SHA-256 ",
                hash_of(release.sha256),
                ".",
            ]
        ),
        element("div", [element("div", field) for field in fields], class_="sign"),
    ]
