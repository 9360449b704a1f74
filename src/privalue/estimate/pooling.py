"""Add up the noisy statistics of several releases, or compare those of two.

| symbol          | here                     | public |
|-----------------|--------------------------|--------|
| T~_i, n~_i      | ``ratios`` of source i   | yes, with independent normal noise |
| s_T,i, s_n,i    | their standard deviations | yes   |
| W_i(v)          | T~_i - (v - c) n~_i      | yes, for every v |
| kappa           | ``cluster_size``         | yes: most visits of one unit, which may be equal |

If no person is in two sources, statistics add up, and so do the variances of independent noise:
the sum is a noisy statistic like any other (docs/proofs/arms-and-actions.md). This is
post-processing of released numbers: it needs no data and spends nothing.
"""

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from privalue.core import Design
from privalue.errors import StudyError, UsageError
from privalue.estimate.flags import flags_of_release
from privalue.estimate.ratios import Ratios
from privalue.estimate.refits import as_release, change_study, cluster_size_of, derive, ratios_of
from privalue.estimate.values import fit_keys, statistics_parts
from privalue.ledger import MU2, epsilon_of, mu2_of_alpha
from privalue.releases import PooledSource, Release, ValueTable
from privalue.study import aggregation, design, ridge_of

_STARTS, _STEPS = 9, 4  # of the search for the value at which sources differ least
# The keys of ``terms`` that may differ: the cost of a release and its shares, and the size.
_COST = {"epsilon", "delta", "shape", "count_weight", "shares"}
_SIZE = {"size_is_public", "units", "most_count", "trajectories"}


def pool(
    releases: Sequence[Release | str | Path],
    *,
    same_people: bool = False,
    start: Any = None,
    level: float | None = None,
) -> Release:
    """Return one release from several dp-ssp releases of the same study; nothing is spent.

    The values are those of all people together, each source weighted by its visits. A person in one
    source has the guarantee of that source, which ``pooled_from`` lists. Studies that are to be
    pooled should give ``returns``: stages may choose different bounds, which cannot be pooled.

    Args:
        releases: two or more, as objects, files or folders; they may be pooled ones.
        same_people: whether one person may be in all of them: the guarantee is then that of all
            costs together, and intervals allow for equal visits of a person in all of them. A part
            that was pooled so implies it.
        start: a public start distribution: an array, a table by label, or a file.
        level: of the intervals; by default the first release's.

    Raises:
        UsageError: there are fewer than two releases.
        StudyError: they are not of the same study, or one of them occurs twice.

    >>> import privalue as pv
    >>> study = pv.Study(states=["ill", "well"], discount=0.9, returns=(0, 1), epsilon=1.0,
    ...                  delta=1e-6, unit="trajectory")
    >>> people = [[("ill", 0.0), ("well", 1.0)]] * 1000
    >>> both = pv.pool([pv.release(study, people), pv.release(study, people)])
    >>> both.trajectories, len(both.pooled_from)
    (2000, 2)
    """
    parts = list(map(as_release, releases))
    if len(parts) < 2:
        raise UsageError("give two releases or more to pool", code="too-few-releases")
    sources = [source for release in parts for source in _sources(release)]
    _require_same_study(parts, sources)
    first, ratios = parts[0], list(map(ratios_of, parts))
    same_people = same_people or any(part.releases_per_person for part in parts)
    repeats = len(sources) if same_people else 1
    # The guarantee of a person in any one source; or of a person in all of them.
    epsilon = max(part.privacy.epsilon for part in parts)
    delta = max(part.privacy.delta for part in parts)
    alpha = min(part.noise.alpha for part in parts)
    if same_people:
        mu2 = sum(mu2_of_alpha(source.alpha, 1) for source in sources)
        epsilon, alpha = epsilon_of(mu2, delta), math.sqrt(MU2 / mu2) * (1 - 2**-50)
    promise = {"epsilon": epsilon, "delta": delta}
    size = _sum(part.trajectories or part.study["study"].get("trajectories") for part in parts)
    description = {
        **first.study,
        "study": {"name": first.study["study"].get("name"), "trajectories": size},
        "privacy": {**first.study["privacy"], **promise},
    }
    first_start = first.study["values"].get("start")
    if start is None and not isinstance(first_start, str):  # a text is the name of a file
        start = first_start
    changes = {} if level is None else {"report": {"level": level}}
    study = change_study(first.model_copy(update={"study": description}), changes, start)
    ridge = ridge_of(study, size)
    estimates = fit_keys(study, design(study), add_ratios(ratios), ridge, repeats)
    accepted = sorted({code for release in parts for code in release.accepted} - {"useless"})
    common = flags_of_release(private=True, accepted=accepted)
    source_flags = []
    if not same_people:  # sources are independent
        sizes = list(map(cluster_size_of, parts))
        source_flags = [("different", sources_differ(ratios, study.report.level, sizes))]
    return derive(
        first,
        **statistics_parts(study, estimates, common, source_flags),
        study=study.public_description(),
        privacy=first.privacy.model_copy(update=promise),
        terms={**first.terms, **promise},
        noise=first.noise.model_copy(update={"sigma": None, "alpha": alpha}),
        ridge=ridge,
        trajectories=_sum(part.trajectories for part in parts),
        persons=None if same_people else _sum(part.persons for part in parts),
        stages=(),
        gaussian_mu=1 / alpha,
        zcdp_rho=(1 / alpha) ** 2 / 2,
        accepted=accepted,
        pooled_from=_mark_noisy(sources, parts, ratios),
        releases_per_person=repeats if repeats > 1 else None,
        ledger_head=None,
    )


def _sum(sizes: Iterable[int | None]) -> int | None:
    """Return the sum of sizes; None if one of them is unknown."""
    terms = list(sizes)
    return None if None in terms else sum(size or 0 for size in terms)


def _sources(release: Release) -> tuple[PooledSource, ...]:
    """Return the charged releases: this one, or those that it was pooled from."""
    if release.pooled_from:
        return release.pooled_from
    section, statistics = release.study["study"], release.statistics
    # The draw identifies a release: its texts may differ, but no noise is drawn twice.
    draw = [np.zeros(0)] if statistics is None else [statistics.sums, statistics.counts]
    return (
        PooledSource(
            sha256=release.sha256,
            draw=hashlib.sha256(np.concatenate(draw).tobytes()).hexdigest(),
            name=section.get("name"),
            dataset=section.get("dataset"),
            period=section.get("period"),
            epsilon=release.privacy.epsilon,
            delta=release.privacy.delta,
            alpha=release.noise.alpha,
        ),
    )


def _require_same_study(releases: Sequence[Release], sources: Sequence[PooledSource]) -> None:
    """Raise StudyError unless these releases are of one study, and none occurs twice."""
    first = releases[0]
    for number, release in enumerate(releases, start=1):
        why = _mismatch(first, release)
        if why is not None:
            raise StudyError(f"release {number} cannot be pooled: {why}", code="not-alike")
    if len({source.draw for source in sources}) < len(sources):
        raise StudyError(
            "one release occurs twice, itself or inside a pooled one; its people would count "
            "twice, and its noise would not be independent: leave one out",
            code="pooled-twice",
        )


def _mismatch(first: Release, release: Release) -> str | None:
    """Return why two releases cannot be pooled, or None."""
    if not release.private:
        return "it is a seeded experiment, whose noise may equal another's"
    if release.statistics is None:
        return f"it is of {release.mechanism}, and only dp-ssp releases statistics"
    if release.refit_of is not None:
        return "it is a refit; pool the releases themselves, and refit the result"
    if release.restriction != first.restriction:
        return (
            "its stage chose other bounds of returns; give `returns` in studies that are to be "
            "pooled"
        )
    keys = [item.study["states"] | item.study["values"] | item.terms for item in (first, release)]
    for name in sorted({*first.terms, *release.terms, "ends", "reward_per_row"} - _COST - _SIZE):
        expected, value = (mapping.get(name) for mapping in keys)
        if value != expected:
            label = name.replace("_", " ")
            return f"{label} = {value} differs from {expected} of the first one"
    for name in ("arm", "state", "action"):
        expected, labels = (item.main.columns.get(name, np.zeros(0)) for item in (first, release))
        if labels.tolist() != expected.tolist():
            return f"it differs from the first one in {name}s"
    return None


def _stack(ratios: Sequence[Ratios]) -> dict[str, NDArray[np.float64]]:
    """Return the noisy numbers by name, with a row for each source."""
    return {name: np.stack([part.numbers[name] for part in ratios]) for name in ratios[0].numbers}


def _concatenate(ratios: Sequence[Ratios]) -> Ratios:
    """Return the ratios of all keys of all sources, source after source."""
    numbers = {name: rows.ravel() for name, rows in _stack(ratios).items()}
    return Ratios.within(ratios[0].bounds, **numbers)


def add_ratios(ratios: Sequence[Ratios]) -> Ratios:
    """Return the sums and counts of all sources together, with their noise."""
    keys = np.arange(len(ratios[0].sums))
    return _concatenate(ratios).pool(np.tile(keys, len(ratios)))


def sources_differ(
    ratios: Sequence[Ratios], level: float, cluster_sizes: Sequence[int]
) -> NDArray[np.bool_]:
    """Return where sources differ by more than noise and sampling error explain.

    If all k sources have the mean return v at a key, W_i(v) has mean 0 and at most the variance

        Var_i(v) = s_T,i^2 + (v - c)^2 s_n,i^2 + kappa_i n~_i (F_hi - v)(v - F_lo)

    so that Q = min_v sum_i W_i(v)^2/Var_i(v) is below a chi-square number of k degrees. A key is
    flagged where Q exceeds its quantile at (1 - level)/N: with probability ``level`` none of N keys
    is flagged wrongly. The sum is minimised from several v, each time repeatedly with the variances
    at the last v: with many people Q is so narrow that a grid alone would miss its minimum.
    """
    lowest, highest = ratios[0].bounds
    sums, counts, sum_noise, count_noise = _stack(ratios).values()
    kappa, keys = np.array(cluster_sizes)[:, None], sums.shape[1]
    limit = 2 * special.gammainccinv(len(ratios) / 2, (1 - level) / keys)
    least = np.full(keys, np.inf)
    for start in np.linspace(lowest, highest, _STARTS):
        v = np.full(keys, start)
        for _ in range(_STEPS):
            y = v - ratios[0].centre
            sampling = kappa * np.maximum(counts, 0.0) * (highest - v) * (v - lowest)
            weights = 1 / (np.square(sum_noise) + np.square(y * count_noise) + sampling)
            least = np.minimum(least, (weights * np.square(sums - y * counts)).sum(axis=0))
            visits = np.maximum((weights * np.square(counts)).sum(axis=0), np.finfo(float).tiny)
            y = (weights * sums * counts).sum(axis=0) / visits
            v = np.clip(ratios[0].centre + y, lowest, highest)
    return np.asarray(least > limit)


def _mark_noisy(
    sources: Sequence[PooledSource], releases: Sequence[Release], ratios: Sequence[Ratios]
) -> tuple[PooledSource, ...]:
    """Return the sources, marking those without which the pooled values would be better.

    The squared error of a mean over all visits is about (s_T^2 + kappa n R^2/4)/n^2.
    """

    def squared_error(parts: Sequence[Ratios]) -> float:
        total = add_ratios(parts)
        lowest, highest = total.bounds
        visits = max(float(total.counts.sum()), 1.0)
        noise = float(np.square(total.sum_noise).sum())
        return (noise + visits * (highest - lowest) ** 2 / 4) / visits**2

    error, noisy = squared_error(ratios), set[str]()
    for at, release in enumerate(releases):
        if squared_error([*ratios[:at], *ratios[at + 1 :]]) < error:
            noisy |= {source.sha256 for source in _sources(release)}
    return tuple(
        source.model_copy(update={"better_without": source.sha256 in noisy}) for source in sources
    )


def difference(
    release: Release | str | Path, against: Release | str | Path, *, level: float | None = None
) -> ValueTable:
    """Return the values of one release less those of another, of different people.

    You assert that nobody is in both: the intervals rely on it, as those of arms do. Both must be
    dp-ssp releases of the same states and bounds, each state with a value of its own, without arms
    or actions. Nothing is spent.

    Args:
        release: the release whose values come first, as an object, a file or a folder.
        against: the release whose values are subtracted.
        level: of the intervals; by default the first release's.

    Raises:
        StudyError: they are not of the same study, or their restrictions differ.
    """
    pair = list(map(as_release, (against, release)))
    _require_same_study(pair, [source for part in pair for source in _sources(part)])
    study = change_study(pair[1], {} if level is None else {"report": {"level": level}}, None)
    has_own_values = design(study).is_tabular and not study.mechanism.has_ridge
    if pair[0].arms or pair[0].actions or not has_own_values:
        why = "only releases without arms, actions, tied values and a ridge have a difference"
        raise StudyError(why, code="not-alike")
    ratios = _concatenate(list(map(ratios_of, pair)))
    tabular = Design(phi=aggregation(len(ratios.sums), 1), weights=np.ones(len(ratios.sums)))
    repeats = max(part.releases_per_person or 1 for part in pair)
    estimates = replace(fit_keys(study, tabular, ratios, None, repeats), arms=2)
    return ValueTable({"state": pair[0].main.columns["state"], **estimates.differences()})
