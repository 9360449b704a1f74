"""Resolve a study to the public numbers that the core works with.

``resolve`` decides the features, the ridge, beta, the shape of the noise and the stage from public
numbers alone. Any such choice is private; a bad one costs accuracy, never privacy. A study that
would fail with any data is refused here, before data is opened.
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

# The weights of the behaviour's value and of the sizes of groups, relative to the target's value:
# each adds a few percent to the target's noise (docs/proofs/weights.md).
OPE_WEIGHTS = (1 / 8, 1 / 16)


def declared_size(study: Study) -> core.PublicSize:
    """Return the public sizes that the study declares, before any data is opened."""
    m = study.study.trajectories
    return core.PublicSize.of(study.limits, m, trajectories=m, persons=None)


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


def resolve(study: Study, size: core.PublicSize, cached: core.Design | None = None) -> core.Terms:
    """Return the terms of a release: all that determines it besides the data and the noise.

    Rules that need m use the public size. If that is unknown, the study is refused after all other
    checks, with the code ``trajectories-missing``; the caller may then count m and try again.

    Args:
        study: the study.
        size: the public number of trajectories: ``declared_size(study)`` before the data is read,
            ``public_size(study, statistics)`` afterwards.
        cached: ``design(study)``, if the caller has computed it already.
    """
    privacy = study.privacy
    public_design = design(study) if cached is None else cached
    if study.mechanism.name in SMOOTH and study.mechanism.calibration == "exact":
        # Refuse a dimension that has no feasible beta before a missing m is refused.
        core.calibration.largest_beta(privacy.epsilon, privacy.delta, public_design.dimension)
    try:
        terms = _TERMS[study.mechanism.name](
            study,
            epsilon=privacy.epsilon,
            delta=privacy.delta,
            limits=study.limits,
            size=size,
            design=public_design,
        )
        if isinstance(terms, core.mechanisms.LswTerms | core.mechanisms.LslTerms):
            terms = replace(terms, beta=_beta(study, terms))
        core.MECHANISMS[terms.mechanism](terms)  # refuses constants beyond the range of doubles
    except (OverflowError, ZeroDivisionError):
        raise refusal("too-extreme") from None
    return terms


# The terms of each mechanism; ``common`` are the arguments that all share


def _ssp(study: Study, **common: Any) -> core.mechanisms.SspTerms:
    """Return the terms of dp-ssp."""
    mechanism, limits, m = study.mechanism, study.limits, common["size"].trajectories
    alpha = core.calibration.gaussian(study.privacy.epsilon, study.privacy.delta).alpha
    share = mechanism.stage_shares["bounds"]
    if "stage_shares" not in mechanism.explicit_keys:
        share = heuristics.bounds_share(m, heuristics.bin_noise(study))
    shares = dict.fromkeys(heuristics.decide_stages(study, study.key_count, m), share)
    shrinkage = mechanism.shrinkage and not mechanism.has_ridge  # a ridge replaces it
    has_common_value = shrinkage and study.features.kind == "tabular"
    shape = heuristics.choose_shape(limits, study.key_visits, m, alpha, shrinkage=has_common_value)
    values_alpha = core.mechanisms.stage_alphas(alpha, shares)["values"]
    rules = heuristics.BoundRule.of(limits, shape, values_alpha, shrinkage=shrinkage)
    return core.mechanisms.SspTerms(
        **common,
        shape=shape,
        count_weight=heuristics.count_weight(limits),
        shares=shares,
        rules=rules if study.stages else None,
    )


def _lsw(study: Study, **common: Any) -> core.mechanisms.LswTerms:
    """Return the terms of dp-lsw, without beta."""
    mechanism = study.mechanism
    return core.mechanisms.LswTerms(
        **common,
        calibration=mechanism.calibration,
        beta=None,
        whitened=mechanism.noise == "whitened",
        pseudo_count=mechanism.pseudo_count,
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

    The number of trajectories needs no noise if it is public and there is one key. Otherwise it is
    released with noise: the size of each group is private under every relation.
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
    """Return beta: explicit, or with the least noise at counts guessed from public numbers.

    None with the calibrations of the paper, which determine beta themselves.
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
    loss = heuristics.BETA_LOSS if study.visit_prior is None else 0.0
    return heuristics.choose_beta(terms.epsilon, terms.delta, terms.design.dimension, psi, loss)


def ridge_of(study: Study, trajectories: int | None) -> float | None:
    """Return lambda, from the study and the public m; None if no ridge is in use."""
    mechanism = study.mechanism
    if not mechanism.has_ridge:
        return None
    if not isinstance(mechanism.ridge, str):
        return mechanism.ridge
    return mechanism.ridge_scale * math.sqrt(_require_trajectories(trajectories, 'ridge = "sqrt"'))


def _require_trajectories(m: int | None, rule: str) -> int:
    """Return the public number of trajectories, or raise StudyError that names the rule."""
    if m is None:
        raise refusal("trajectories-missing", rule)
    return m


# Features


def design(study: Study) -> core.Design:
    """Return Phi and the weights of a study; without a ridge, Phi must have full column rank.

    If values are only shrunk towards the features, Phi is tabular. With dp-ope it is tabular over
    the starts.
    """
    if study.is_off_policy:
        keys = study.limits.keys
        return core.Design(phi=sp.eye_array(keys, format="csr"), weights=np.ones(keys))
    features, phi = study.features, study.feature_matrix
    if phi is None or features.shrink:
        size = 1 if features.shrink else features.size or 1
        phi = aggregation(study.pairs or study.names.count, size)
    if study.arm_count > 1:  # each arm has its own coefficients: no value mixes two arms
        phi = sp.csr_array(sp.kron(sp.eye_array(study.arm_count), phi, format="csr"))
    result = core.Design(phi=phi, weights=study.key_weights)
    if not result.norm > 0:
        raise refusal("features-all-zero")
    if not study.mechanism.has_ridge:
        result.require_full_rank()
    if study.mechanism.name == "dp-lsw":
        result.require_well_conditioned()
    return result
