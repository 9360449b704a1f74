"""Describe a release as an entry of a registry of deployments of differential privacy.

``deployment`` has the sections and keys of the entries in the Differential Privacy Deployments
Registry (OpenDP, with NIST; entries of 2026): basic, dp_variant, privacy_loss, deployment_model,
accounting, implementation, administrative. What the software cannot know is null, with a comment.
``privalue`` is ours: the same facts for programs, the relation, and the side channels one by one.
docs/report.md explains each.
"""

from collections.abc import Mapping
from typing import Any

from privalue._written import counted
from privalue.ledger import Account, study_hash
from privalue.releases import Release
from privalue.report._answers import Answers
from privalue.report._guarantee import unit_words, validity_words
from privalue.report._limits import bounds_stage
from privalue.report._states import return_bounds
from privalue.report._valued import policy_words
from privalue.report._yaml import Unanswered, to_yaml

_HEAD = """An entry for a registry of deployments of differential privacy, made by privalue.
"deployment" has the layout of the Differential Privacy Deployments Registry; null is for the
data's curator to complete. "privalue" holds the same facts for programs."""

_MECHANISMS = {
    "dp-lsw": "DP-LSW: weighted least squares of first-visit returns, with Gaussian noise scaled "
    "to smooth sensitivity (Balle, Gomrokchi and Precup 2016, Algorithm 1)",
    "dp-lsl": "DP-LSL: regularised least squares of first-visit returns, with Gaussian noise "
    "scaled to smooth sensitivity (Balle, Gomrokchi and Precup 2016, Algorithm 2)",
    "dp-ssp": "DP-SSP: sums of first-visit returns and counts of visits, with Gaussian noise "
    "(sufficient statistics perturbation, analytic Gaussian mechanism)",
    "dp-ope": "DP-OPE: sums of clipped importance weights and of weighted returns, with noise on a "
    "grid by the Laplace law",
}
_CALIBRATIONS = {
    "exact": "the smallest noise that keeps the promise, certified against every neighbouring pair",
    "nissim": "the paper's constants (Lemma 1), checked against the exact privacy profile",
    "appendix": "the paper's constants (appendix A), checked against the exact privacy profile",
}

SIDE_CHANNELS: Mapping[str, str] = {
    "floating point": "noise is drawn exactly and rounded to a public grid that does not depend on "
    "the data; rounding errors of the estimate are bounded by public numbers and added to the "
    "sensitivity",
    "randomness": "the operating system's entropy alone; seeded noise marks a release as not "
    "private",
    "errors and logs": "a row that cannot be read ends the run with an error, unless the study "
    'says invalid = "drop-unit": that there was an error depends on the data. After the rows are '
    "read and the budget is charged, no failure depends on them; messages about rows are for the "
    "curator and no part of a release",
    "metadata": "a release holds no counts, no noise scale and no size but those that are public "
    "or part of the analysed output",
    "timing": "not protected: how long a release takes depends on the data, so nobody outside "
    "should be able to measure it",
    "memory and disk": "not protected against who can read them on the curator's machine; rows "
    "that outgrow memory are in a file without a name, gone with the process however it ends",
}


def mechanism_words(release: Release) -> str:
    """Return the words for the mechanism and for how its noise is calibrated."""
    return (
        f"{_MECHANISMS[release.mechanism]}; calibration {release.noise.calibration}: "
        f"{_CALIBRATIONS[release.noise.calibration]}"
    )


def composition_words(release: Release, account: Account | None = None) -> str:
    """Return the words that say how the costs of several releases add up.

    Args:
        release: what was released.
        account: how the dataset stands on its ledger; None where the ledger is not at hand.
    """
    if release.refit_of is not None:
        return (
            "None of its own: computed from another release, as post-processing, at no further "
            "cost. " + _ledger_words(release, account, "The release that it comes from")
        )
    return _ledger_words(release, account, "This release")


_BASIC = "basic composition: epsilons and deltas add up"
_GAUSSIAN = "Gaussian accounting: squares of mu add up"


def gaussian_alpha(release: Release) -> float | None:
    """Return alpha of a release that has a mu; by its mechanism, as older ones state none."""
    return release.noise.alpha if release.mechanism == "dp-ssp" else None


def _ledger_words(release: Release, account: Account | None, which: str) -> str:
    """Return the sentence on whether a release is on a ledger, and what that means."""
    if release.ledger_head is None:
        return (
            f"{which} is on no ledger: with other releases about the same people, the epsilons "
            "and deltas add up, and the curator keeps count."
        )
    has_mu = gaussian_alpha(release) is not None or release.privacy.delta == 0
    if account is not None:
        how = _GAUSSIAN if account.terms.is_gaussian else _BASIC
    else:
        how = f"{_BASIC}; or {_GAUSSIAN}" if has_mu else _BASIC
    return (
        f"{which} is on the dataset's ledger ({how}, also "
        "where later questions depend on earlier answers), charged before anything was drawn."
    )


def _accounting(release: Release, account: Account | None) -> str:
    """Return how its cost adds up to others', for programs."""
    if release.refit_of is not None:
        return "none: computed from another release"
    if release.ledger_head is None:
        return "none: no ledger"
    if account is None:
        return "on a ledger that was not at hand"
    if account.terms.is_gaussian:
        return "Gaussian accounting on a ledger"
    return "basic composition on a ledger"


def registry_entry(
    release: Release, *, justification: str | None = None, account: Account | None = None
) -> dict[str, Any]:
    """Return the entry as plain values.

    Args:
        release: what was released.
        justification: why these parameters; without it, the key is left for the curator.
        account: how the dataset stands on its ledger; without it, the entry has no totals.
    """
    privacy, described = release.privacy, release.study
    low, high = return_bounds(release)
    limit = described["privacy"].get("max_trajectories_per_person")
    number = release.trajectories or release.persons
    unprotected = (
        f"The number of {'persons' if privacy.unit == 'person' else 'trajectories'}, {number}."
        if number is not None
        else "None: sizes are not published."
    )
    deployment = {
        "basic": {
            "name": described["study"]["name"],
            "data_curators": Unanswered("who holds the data"),
            "intended_use": Unanswered("what the values are for"),
            "data_product_type": "Summary statistics",
            "data_product_region": Unanswered("where the people are"),
            "description": _description(release),
            "publication_date": release.created[:10],
            "data_product_sector": Unanswered("such as Healthcare"),
        },
        "dp_variant": {
            "variant_name": "None: seeded noise, for experiments only"
            if not release.private
            else "Approximate DP"
            if privacy.delta
            else "Pure DP",
            "data_domain": f"Tables of trajectories ({_cells(release)} at each step) over the "
            f"declared states{' and actions' if 'actions' in described else ''}; rewards are "
            f"clamped to [{described['values']['rewards'][0]:g}, "
            f"{described['values']['rewards'][1]:g}], returns to [{low:g}, {high:g}].",
            "unprotected_quantities": unprotected,
        },
        "privacy_loss": {
            "privacy_unit": f"{privacy.unit.capitalize()}-level",
            "privacy_unit_details": unit_words(
                privacy, limit, counted=(release.trajectories or release.persons) is not None
            ),
            "invalid_rows": validity_words(privacy),
            "privacy_parameters": {"epsilon": privacy.epsilon, "delta": privacy.delta}
            if release.private
            else {},
            "privacy_parameters_details": release.sentence(),
        },
        "deployment_model": {
            "model_name": "Central",
            "model_name_details": "The curator holds the rows and runs the mechanism; only the "
            "release leaves.",
            "actors": "The curator is trusted with the rows. Everybody else may be an adversary "
            "with any knowledge of their own.",
            "release_type": "One release",
            "data_source_type": "Static",
            "access_type": "Non-interactive",
        },
        "accounting": {
            "post_processing": _post_processing(release),
            "composition": composition_words(release, account),
        },
        "implementation": {
            "preprocessing_and_hyperparameter_tuning": f"{_fixed(release)} are fixed "
            "in the study before the data is opened; "
            + _tuning(release)
            + " Whether a curator chose them after looking at the data is theirs to say.",
            "mechanisms": "\n".join(
                [
                    f"- {mechanism_words(release)}.",
                    f"- Software: {release.software}.",
                    *(f"- {name}: {what}." for name, what in SIDE_CHANNELS.items()),
                ]
            ),
            "justification": justification
            or Unanswered("why these parameters; privalue report --justification TEXT"),
        },
        "administrative": {
            "sources": f"release.json, SHA-256 {release.sha256}",
            "registry_authors": Unanswered("who vouches for this entry"),
        },
    }
    return {
        "status": "Draft" if release.private else "NOT PRIVATE: do not register",
        "tier": 3,
        "deployment": deployment,
        "privalue": _for_programs(release, account),
    }


def _description(release: Release) -> str:
    """Return what was released, in a sentence."""
    discount = f"{release.study['values']['discount']:g}"
    if release.mechanism == "dp-ope":
        starts = f", for each of {counted(len(release), 'start')}" if release.main.keys else ""
        return (
            f"What another policy (the target) than the one that produced the data (the behaviour) "
            f"would have been worth{starts}: an estimate of its expected return from the start of "
            f"a trajectory, discounted by {discount} per step, by importance weights that are "
            f"clipped at {release.study['policy']['clip']:g}. "
            f"Target: {policy_words(release, 'target')}. "
            f"Behaviour: {policy_words(release, 'behaviour')}."
        )
    states, arms, actions = len(release.states), len(release.arms), len(release.actions)
    each = counted(states, "state")
    each += f" in each of {arms} arms" if arms else ""
    each += f" and {counted(actions, 'action')}" if actions else ""
    return (
        "The value function of the policy that produced the data: an estimate for each of "
        f"{each} of the expected return, discounted by "
        f"{discount} per step, from the first visit on."
    )


def _cells(release: Release) -> str:
    """Return what the data holds of each step."""
    cells = ["state", *(["action"] if "actions" in release.study else []), "reward"]
    if release.study.get("policy", {}).get("behaviour") == "column":
        cells.append("probability of the action")
    return f"{', '.join(cells[:-1])} and {cells[-1]}"


def _fixed(release: Release) -> str:
    """Return what the study fixes."""
    if release.mechanism == "dp-ope":
        logged = release.study["policy"]["behaviour"] == "column"
        return f"States, actions, bounds, target,{'' if logged else ' behaviour,'} clip and noise"
    return "States, bounds, features, weights, mechanism and constants"


def _tuning(release: Release) -> str:
    """Return what the software itself chose from the data, by released numbers alone."""
    if bounds_stage(release) is None:
        return "nothing is tuned on the data by the software."
    return (
        "the bound of returns was chosen by a public rule from noisy numbers that an earlier stage "
        "of the same release paid for; nothing else is tuned on the data by the software."
    )


def _post_processing(release: Release) -> str:
    """Return the sentence on what is computed from the mechanism's output."""
    if release.mechanism == "dp-ope":
        return "The target's value, its intervals and the kept mass are computed from noisy sums."
    if release.mechanism == "dp-ssp":
        return (
            "Values, intervals and flags are computed from the noisy statistics; so is any refit."
        )
    return "Values are the features times the noisy coefficients."


def _for_programs(release: Release, account: Account | None) -> dict[str, Any]:
    """Return the section ``privalue``: the same facts for programs."""
    privacy, noise, described = release.privacy, release.noise, release.study
    return {
        "private": release.private,
        "variant": "(epsilon, delta)-differential privacy"
        if privacy.delta
        else "pure epsilon-differential privacy",
        "unit": privacy.unit,
        "relation": privacy.neighbours,
        "epsilon": privacy.epsilon,
        "delta": privacy.delta,
        "contribution_bounds": {
            "max_trajectories_per_person": described["privacy"].get("max_trajectories_per_person"),
            "max_states_per_trajectory": described["privacy"].get("max_states_per_trajectory"),
        },
        "mechanism": {
            "name": release.mechanism,
            "calibration": noise.calibration,
            "noise": noise.shape,
            "alpha": noise.alpha,
            "beta": noise.beta,
            "grid": noise.grid,
            "noise_scale": "not released" if noise.sigma is None else "public",
            "ridge": release.ridge,
            **_of_policy(release),
        },
        "composition": {
            "accounting": _accounting(release, account),
            "dataset": described["study"].get("dataset"),
            "ledger_head": release.ledger_head,
            **(
                {}
                if account is None
                else {
                    "dataset_unit": account.terms.unit,
                    "dataset_relation": account.terms.neighbours,
                    "dataset_promise": account.as_dict()["promise"],
                    "dataset_total": account.numbers(account.total, is_left=True),
                    "dataset_spent": account.numbers(account.spent),
                    "dataset_left": account.numbers(account.left, is_left=True),
                }
            ),
        },
        "side_channels": [
            {"channel": name, "measure": what} for name, what in SIDE_CHANNELS.items()
        ],
        "public_inputs": {
            "study_sha256": study_hash(described),
            "side_files": [dict(file) for file in described["side_files"]],
            "trajectories_declared": described["study"].get("trajectories"),
        },
        "release": {
            "file": "release.json",
            "sha256": release.sha256,
            "refit_of": release.refit_of,
            "accepted": list(release.accepted),
            "created": release.created,
            "software": release.software,
        },
    }


def _of_policy(release: Release) -> dict[str, Any]:
    """Return what a release by dp-ope is of; nothing of others."""
    if release.mechanism != "dp-ope":
        return {}
    return {
        "law": "laplace",
        "clip": release.study["policy"]["clip"],
        "target": policy_words(release, "target"),
        "behaviour": policy_words(release, "behaviour"),
    }


def registry_yaml(
    release: Release,
    *,
    justification: str | None = None,
    account: Account | None = None,
    answers: Answers | None = None,
) -> str:
    """Return the text of ``registry.yaml``.

    Args:
        release: what was released.
        justification: why these parameters; without it, the key is left for the curator.
        account: how the dataset stands on its ledger; without it, the entry has no totals.
        answers: what a curator wrote where an earlier entry had null; kept.
    """
    entry = registry_entry(release, justification=justification, account=account)
    return to_yaml(entry if answers is None else answers.into(entry), _HEAD)
