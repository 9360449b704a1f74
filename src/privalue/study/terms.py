"""Resolve a study to the public numbers that the core works with.

``resolve`` decides whatever follows from public numbers alone: the features, the ridge, beta, the
shape of the noise, the stage. Any public choice of them is private; a bad one costs accuracy, never
privacy. A study that would fail with any data is refused here, before data is opened.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from privalue import core
from privalue.errors import DataError
from privalue.study import heuristics
from privalue.study.messages import refusal
from privalue.study.names import aggregation
from privalue.study.sections import SMOOTH
from privalue.study.study import Study

# What the behaviour's own value and the sizes of groups weigh beside the target's: each costs the
# target a few percent of noise (docs/proofs/weights.md).
OPE_WEIGHTS = (1 / 8, 1 / 16)


def declared_size(study: Study) -> core.PublicSize:
    """Return the public sizes that the study declares, before any data is opened."""
    declared = study.study.trajectories
    return core.PublicSize.of(study.limits, declared, trajectories=declared, persons=None)


def public_size(study: Study, statistics: core.Statistics) -> core.PublicSize:
    """Return the public sizes of a data set; refuse a declaration that the data contradicts."""
    declared, m = study.study.trajectories, statistics.trajectories
    if study.limits.counts_trajectories and declared is not None and declared != m:
        raise DataError(
            f"the data has {m} trajectories, and the study declares {declared}; correct [study] "
            "trajectories, or leave it out",
            code="trajectories-contradicted",
        )
    return core.PublicSize.of(study.limits, declared, trajectories=m, persons=statistics.persons)


def resolve(study: Study, size: core.PublicSize, built: core.Design | None = None) -> core.Terms:
    """Return all that a release follows from besides the data, or refuse the study.

    Everything here follows from public numbers. Rules that need m use the public size alone; where
    it is not known yet, that is refused last, with the code ``trajectories-missing``: a study
    that is refused for it has passed all other checks, and m may be counted from the data.

    Args:
        study: what is public.
        size: what is public about the number of trajectories: ``declared_size(study)`` before the
            data is read, ``public_size(study, statistics)`` afterwards.
        built: ``design(study)``, where it is at hand.
    """
    built = design(study) if built is None else built
    if study.mechanism.name in SMOOTH and study.mechanism.calibration == "exact":
        # Refuses d that no beta serves, before what needs m is refused.
        core.calibration.largest_beta(study.privacy.epsilon, study.privacy.delta, built.dimension)
    try:
        terms = _TERMS[study.mechanism.name](
            study,
            epsilon=study.privacy.epsilon,
            delta=study.privacy.delta,
            limits=study.limits,
            size=size,
            design=built,
        )
        if isinstance(terms, core.mechanisms.LswTerms | core.mechanisms.LslTerms):
            terms = replace(terms, beta=_beta(study, terms))
        core.MECHANISMS[terms.mechanism](terms)  # refuses constants that doubles cannot hold
    except (OverflowError, ZeroDivisionError):
        raise refusal("too-extreme") from None
    return terms


# The terms of each mechanism, with what all have in common


def _ssp(study: Study, **common: Any) -> core.mechanisms.SspTerms:
    """Return the terms of dp-ssp."""
    chosen, limits, m = study.mechanism, study.limits, common["size"].trajectories
    alpha = core.calibration.gaussian(study.privacy.epsilon, study.privacy.delta).alpha
    share = chosen.stage_shares["bounds"]
    if "stage_shares" not in chosen.given:
        share = heuristics.bounds_share(m, heuristics.bin_noise(study))
    shares = dict.fromkeys(heuristics.decide_stages(study, study.key_count, m), share)
    shrinkage = chosen.shrinkage and not chosen.has_ridge  # a ridge takes its place
    to_one = shrinkage and study.features.kind == "tabular"
    shape = heuristics.choose_shape(limits, study.key_visits, m, alpha, shrinkage=to_one)
    of_values = core.mechanisms.stage_alphas(alpha, shares)["values"]
    rules = heuristics.BoundRule.of(limits, shape, of_values, shrinkage=shrinkage)
    return core.mechanisms.SspTerms(
        **common,
        shape=shape,
        count_weight=heuristics.count_weight(limits),
        shares=shares,
        rules=rules if study.stages else None,
    )


def _lsw(study: Study, **common: Any) -> core.mechanisms.LswTerms:
    """Return the terms of dp-lsw, without beta."""
    chosen = study.mechanism
    return core.mechanisms.LswTerms(
        **common,
        calibration=chosen.calibration,
        beta=None,
        whitened=chosen.noise == "whitened",
        pseudo_count=chosen.pseudo_count,
        unvisited=study.values.unvisited_value,
    )


def _lsl(study: Study, **common: Any) -> core.mechanisms.LslTerms:
    """Return the terms of dp-lsl, without beta."""
    ridge = ridge_of(study, common["size"].trajectories)
    assert ridge is not None
    calibration = study.mechanism.calibration
    return core.mechanisms.LslTerms(**common, calibration=calibration, beta=None, ridge=ridge)


def _ope(study: Study, **common: Any) -> core.mechanisms.OpeTerms:
    """Return the terms of dp-ope.

    m is the same for all neighbours where one trajectory is replaced, and there are no groups: the
    size of a group is private under every relation.
    """
    is_public = study.limits.counts_trajectories and study.limits.keys == 1
    return core.mechanisms.OpeTerms(
        **common,
        count_weight=0.5,
        value_weight=OPE_WEIGHTS[0],
        size_weight=0.0 if is_public else OPE_WEIGHTS[1],
    )


_TERMS: Mapping[str, Callable[..., core.Terms]]
_TERMS = {"dp-ssp": _ssp, "dp-lsw": _lsw, "dp-lsl": _lsl, "dp-ope": _ope}


def _beta(study: Study, terms: core.mechanisms.LswTerms | core.mechanisms.LslTerms) -> float | None:
    """Return beta: as given, or with the least noise at counts guessed from public numbers.

    None where the paper's calibration says it.
    """
    beta = study.mechanism.beta
    if study.mechanism.calibration != "exact":
        return None
    if not isinstance(beta, str):
        return beta
    sensitivity = terms.local_sensitivity()
    m = _require_trajectories(terms.size.trajectories, 'beta = "auto"')
    guess = heuristics.guess_counts(study.visit_prior, study.names.count, m)
    psi = partial(sensitivity.smooth, guess)
    room = heuristics.UNKNOWN_VISITS if study.visit_prior is None else 0.0
    return heuristics.choose_beta(terms.epsilon, terms.delta, terms.design.dimension, psi, room)


def ridge_of(study: Study, trajectories: int | None) -> float | None:
    """Return lambda, from the study and the public m; None if no ridge is in use."""
    chosen = study.mechanism
    if not chosen.has_ridge:
        return None
    if not isinstance(chosen.ridge, str):
        return chosen.ridge
    return chosen.ridge_scale * math.sqrt(_require_trajectories(trajectories, 'ridge = "sqrt"'))


def _require_trajectories(public: int | None, needed_by: str) -> int:
    """Return the public number of trajectories, or raise an error that says what needs it."""
    if public is None:
        raise refusal("trajectories-missing", needed_by)
    return public


# Features


def design(study: Study) -> core.Design:
    """Return Phi and the weights of a study; refuse one without a ridge or full column rank.

    Where values are only shrunk towards the features, Phi is the tabular one; and where another
    policy is valued, every start is a key of its own.
    """
    if study.is_off_policy:
        keys = study.limits.keys
        return core.Design(phi=sp.eye_array(keys, format="csr"), weights=np.ones(keys))
    chosen = study.features
    phi = study.feature_matrix
    if phi is None or chosen.shrink:
        size = 1 if chosen.shrink else chosen.size or 1
        phi = aggregation(study.pairs or study.names.count, size)
    if study.arm_count > 1:  # each arm has coefficients of its own: no value mixes two arms
        phi = sp.csr_array(sp.kron(sp.eye_array(study.arm_count), phi, format="csr"))
    built = core.Design(phi=phi, weights=study.key_weights)
    if not built.norm > 0:
        raise refusal("features-all-zero")
    if not study.mechanism.has_ridge:
        built.require_full_rank()
    if study.mechanism.name == "dp-lsw":
        built.require_well_conditioned()
    return built
