"""Resolve a study to the public numbers that the core works with.

Whatever follows from public numbers alone is decided here: the ridge, beta, the shape of the noise.
Any public choice of them is private; a bad one costs accuracy, never privacy. A study that would
fail with any data is refused here, before data is opened.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from privalue.core import (
    MECHANISMS,
    Design,
    Lsl,
    LslTerms,
    Lsw,
    LswTerms,
    Ope,
    OpeTerms,
    PublicSize,
    Ssp,
    SspTerms,
    Statistics,
    Terms,
    count_weight,
    gaussian,
    largest_beta,
    smooth_bound,
    stage_alphas,
)
from privalue.errors import DataError, StudyError
from privalue.study._choices import (
    UNKNOWN_VISITS,
    automatic_beta,
    guessed_counts,
    shape_weights,
)
from privalue.study._stages import require_room, stage_rules, stage_shares
from privalue.study._study import Study

SMOOTH = frozenset({"dp-lsw", "dp-lsl"})  # the scale of their noise depends on the data
# What the behaviour's own value and the sizes of groups weigh beside the target's: each costs the
# target a few percent of noise (docs/proofs/weights.md).
OPE_WEIGHTS = (1 / 8, 1 / 16)
_TOO_EXTREME = (
    "[weights] weights, features, returns or ridge are too extreme to compute with; state them in "
    "other units"
)


def declared_size(study: Study) -> PublicSize:
    """Return what the study alone says of sizes, before any data is opened."""
    declared = study.study.trajectories
    return PublicSize.of(study.limits, declared, trajectories=declared, persons=None)


def public_size(study: Study, statistics: Statistics) -> PublicSize:
    """Return the public sizes of a data set; refuse a declaration that the data contradicts."""
    declared, m = study.study.trajectories, statistics.trajectories
    if study.limits.counts_trajectories and declared is not None and declared != m:
        raise DataError(
            f"the data has {m} trajectories, and the study declares {declared}; correct [study] "
            "trajectories, or leave it out"
        )
    persons = statistics.persons
    return PublicSize.of(study.limits, declared, trajectories=m, persons=persons)


def mechanism_for(study: Study, design: Design, size: PublicSize) -> Ssp | Lsw | Lsl:
    """Return the study's mechanism with its constants, or refuse it, from public numbers alone.

    Args:
        study: what is public.
        design: its features and weights.
        size: what is public about the number of trajectories.
    """
    refuse_early(study, design)
    try:
        terms = terms_for(study, design, size)
        mechanism = MECHANISMS[terms.mechanism](terms)
    except (OverflowError, ZeroDivisionError):
        raise StudyError(_TOO_EXTREME) from None
    assert isinstance(mechanism, Ssp | Lsw | Lsl)  # terms_for makes no others
    return mechanism


def policy_mechanism(study: Study, size: PublicSize) -> Ope:
    """Return the mechanism that values another policy, or refuse it, from public numbers alone.

    Args:
        study: the study, with dp-ope.
        size: what is public about the number of trajectories.
    """
    limits = study.limits
    # m is the same for all neighbours where one trajectory is replaced, and there are no groups:
    # the size of a group is private under every relation.
    public = limits.counts_trajectories and limits.keys == 1
    constants = OpeTerms(
        count_weight=0.5,
        value_weight=OPE_WEIGHTS[0],
        size_weight=0.0 if public else OPE_WEIGHTS[1],
    )
    terms = Terms(
        epsilon=study.privacy.epsilon,
        delta=study.privacy.delta,
        limits=limits,
        size=size,
        design=Design(phi=sp.eye_array(limits.keys, format="csr"), weights=np.ones(limits.keys)),
        mechanism="dp-ope",
        constants=constants,
    )
    return Ope(terms)


def terms_for(study: Study, design: Design, size: PublicSize) -> Terms:
    """Return the terms of a release; rules that need m use the public size alone.

    Args:
        study: what is public.
        design: its features and weights.
        size: what is public about the number of trajectories.
    """
    resolved: Mapping[str, Callable[[Study, PublicSize], SspTerms | LswTerms | LslTerms]]
    resolved = {"dp-ssp": _ssp, "dp-lsw": _lsw, "dp-lsl": _lsl}
    terms = Terms(
        epsilon=study.privacy.epsilon,
        delta=study.privacy.delta,
        limits=study.limits,
        size=size,
        design=design,
        mechanism=study.mechanism.name,
        constants=resolved[study.mechanism.name](study, size),
    )
    if isinstance(terms.constants, SspTerms | OpeTerms) or study.mechanism.calibration != "exact":
        return terms
    beta = study.mechanism.beta
    if isinstance(beta, str):
        beta = _automatic_beta(study, terms)
    return replace(terms, constants=replace(terms.constants, beta=beta))


def _ssp(study: Study, size: PublicSize) -> SspTerms:
    """Return the constants of dp-ssp."""
    limits, alpha = study.limits, gaussian(study.privacy.epsilon, study.privacy.delta).alpha
    shares = stage_shares(study, size)
    # A ridge takes the place of shrinkage.
    shrinkage = study.mechanism.shrinkage and not fits_by_lsl(study)
    shape = shape_weights(
        limits,
        study.key_visits,
        expected_trajectories=size.trajectories,
        alpha=alpha,
        shrinkage=shrinkage and study.features.kind == "tabular",
    )
    of_values = stage_alphas(alpha, shares)["values"]
    return SspTerms(
        shape=shape,
        count_weight=count_weight(limits),
        shares=shares,
        rules=stage_rules(limits, shape, of_values, shrinkage=shrinkage) if study.stages else None,
    )


def _lsw(study: Study, _: PublicSize) -> LswTerms:
    """Return the constants of dp-lsw, without beta."""
    chosen = study.mechanism
    return LswTerms(
        calibration=chosen.calibration,
        beta=None,
        whitened=chosen.noise == "whitened",
        pseudo_count=chosen.pseudo_count,
        unvisited=study.values.unvisited_value,
    )


def _lsl(study: Study, size: PublicSize) -> LslTerms:
    """Return the constants of dp-lsl, without beta."""
    return LslTerms(
        calibration=study.mechanism.calibration,
        beta=None,
        ridge=resolve_ridge(study, size.trajectories),
    )


def _automatic_beta(study: Study, terms: Terms) -> float:
    """Return the beta with the least noise at counts that are guessed from public numbers."""
    bound = smooth_bound(terms)
    guess = guessed_counts(study, required_trajectories(terms.size.trajectories, 'beta = "auto"'))
    return automatic_beta(
        terms.epsilon,
        terms.delta,
        terms.design.dimension,
        lambda beta: bound.psi(guess, beta),
        room=UNKNOWN_VISITS if study.visit_prior is None else 0.0,
    )


def required_trajectories(public: int | None, needed_by: str) -> int:
    """Return the public number of trajectories, or raise an error that says what needs it."""
    if public is None:
        raise StudyError(
            "[study] trajectories is missing: the number of trajectories is not public here, "
            f"and the default {needed_by} of [mechanism] follows from it; give trajectories = "
            "10000, or whatever is known beforehand"
        )
    return public


def rules_that_need_trajectories(study: Study) -> list[str]:
    """Return the study's choices that depend on the number of trajectories."""
    chosen = study.mechanism
    rules = []
    if chosen.name in SMOOTH and chosen.calibration == "exact" and isinstance(chosen.beta, str):
        rules.append('beta = "auto"')
    if fits_by_lsl(study) and isinstance(chosen.ridge, str):
        rules.append('ridge = "sqrt"')
    return rules


def fits_by_lsl(study: Study) -> bool:
    """Return whether a ridge is in use: always with dp-lsl, with dp-ssp where one is given."""
    chosen = study.mechanism
    return chosen.name == "dp-lsl" or (
        chosen.name == "dp-ssp" and bool(chosen.given & {"ridge", "ridge_scale"})
    )


def ridge_of(study: Study, trajectories: int | None) -> float | None:
    """Return lambda, or None if no ridge is in use."""
    return resolve_ridge(study, trajectories) if fits_by_lsl(study) else None


def resolve_ridge(study: Study, trajectories: int | None) -> float:
    """Return lambda, from the study and the public m."""
    chosen = study.mechanism.ridge
    if not isinstance(chosen, str):
        return float(chosen)
    return study.mechanism.ridge_scale * math.sqrt(
        required_trajectories(trajectories, 'ridge = "sqrt"')
    )


def gaussian_alpha(study: Study) -> float | None:
    """Return alpha if all that is drawn is Gaussian noise of one public sigma: mu = 1/alpha.

    Return None for any other: dp-lsw and dp-lsl have an alpha too, but their sigma depends on the
    data; and the noise of dp-ope is Laplace's.
    """
    if study.mechanism.name != "dp-ssp":
        return None
    return gaussian(study.privacy.epsilon, study.privacy.delta).alpha


def entries_of(study: Study) -> int:
    """Return how many values a release has; with actions, those of states besides."""
    return study.key_count + (0 if study.pairs is None else study.state_count)


def refuse_early(study: Study, design: Design) -> None:
    """Raise for a study that would fail later, by public quantities only.

    Raises:
        StudyError: exact calibration does not cover its parameters, its features have no unique
            fit, or the fit would take hours.
    """
    chosen = study.mechanism
    require_room(study)
    if chosen.name == "dp-ssp" and not fits_by_lsl(study):
        design.require_full_rank()
    if chosen.calibration == "exact" and chosen.name in SMOOTH:
        largest_beta(study.privacy.epsilon, study.privacy.delta, design.dimension)
