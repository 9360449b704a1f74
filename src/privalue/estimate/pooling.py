"""Add up the noisy statistics of several releases, or set two against each other.

| symbol          | here                     | public |
|-----------------|--------------------------|--------|
| T~_i, n~_i      | ``ratios`` of source i   | yes, with independent normal noise |
| s_T,i, s_n,i    | their standard deviations | yes   |
| W_i(v)          | T~_i - (v - c) n~_i      | yes, for every v |
| kappa           | ``alike``                | yes: visits of one unit, which may be alike |

Statistics of people who are in one source only add up, and so do the variances of independent
noise: the sum is one noisy statistic, with all that follows from one
(docs/proofs/arms-and-actions.md). This is post-processing of what was released: it needs no data
and spends nothing.
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
from privalue.estimate.flags import cautions
from privalue.estimate.ratios import Ratios
from privalue.estimate.refits import derive, released_ratios, study_of, trajectories_alike
from privalue.estimate.values import fit_keys, statistics_tables
from privalue.ledger import MU2, epsilon_of, mu2_of_alpha
from privalue.releases import PooledSource, Release, ValueTable
from privalue.study import aggregation, design, ridge_of

_STARTS, _STEPS = 9, 4  # of the search for the value at which sources differ least
# All that may differ in ``terms``: what a release costs and how it shares that out, and its size.
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

    The values are those of all people together, each source weighted by its visits. Whoever is in
    one source keeps the promise of that source, which ``pooled_from`` lists. Who means to pool
    gives ``returns`` in the study: stages may choose different bounds, which cannot be pooled.

    Args:
        releases: two or more, as objects, files or folders; pooled ones among them.
        same_people: one person may be in all of them: the promise is then that of all costs
            together, and intervals take a person's visits in all of them to be alike.
        start: a public start distribution: an array, a table by label, or a file.
        level: of the intervals; by default the first release's.

    Raises:
        UsageError: there are fewer than two.
        StudyError: they are not of the same study, or one of them is in there twice.

    >>> import privalue as pv
    >>> study = pv.Study(states=["ill", "well"], discount=0.9, returns=(0, 1), epsilon=1.0,
    ...                  delta=1e-6, unit="trajectory")
    >>> people = [[("ill", 0.0), ("well", 1.0)]] * 1000
    >>> both = pv.pool([pv.release(study, people), pv.release(study, people)])
    >>> both.trajectories, len(both.pooled_from)
    (2000, 2)
    """
    loaded = [one if isinstance(one, Release) else Release.load(one) for one in releases]
    if len(loaded) < 2:
        raise UsageError("give two releases or more to pool", code="too-few-releases")
    sources = [source for release in loaded for source in _sources(release)]
    _require_alike(loaded, sources)
    first, each = loaded[0], [released_ratios(release) for release in loaded]
    repeats = len(sources) if same_people else max(one.releases_per_person or 1 for one in loaded)
    # What every source keeps, to whoever is in that one alone; or all of them to one person.
    epsilon = max(release.privacy.epsilon for release in loaded)
    delta = max(release.privacy.delta for release in loaded)
    alpha = min(release.noise.alpha for release in loaded)
    if same_people:
        mu2 = sum(mu2_of_alpha(source.alpha, 1) for source in sources)
        epsilon, alpha = epsilon_of(mu2, delta), math.sqrt(MU2 / mu2) * (1 - 2**-50)
    promised = {"epsilon": epsilon, "delta": delta}
    declared = _total(one.trajectories or one.study["study"].get("trajectories") for one in loaded)
    described = {
        **first.study,
        "study": {"name": first.study["study"].get("name"), "trajectories": declared},
        "privacy": {**first.study["privacy"], **promised},
    }
    known = first.study["values"].get("start")
    if start is None and not isinstance(known, str):  # a file is named, and not held
        start = known
    chosen = {} if level is None else {"report": {"level": level}}
    study = study_of(first.model_copy(update={"study": described}), chosen, start)
    ridge = ridge_of(study, declared)
    made = fit_keys(study, design(study), add_ratios(each), ridge, repeats)
    accepted = sorted({word for release in loaded for word in release.accepted} - {"useless"})
    every = cautions(private=True, accepted=accepted)
    differ = []
    if not same_people:  # else sources are not independent
        visits = [trajectories_alike(one) for one in loaded]
        differ = [("different", sources_differ(each, level=study.report.level, alike=visits))]
    parts = statistics_tables(study, made, every, differ)
    return derive(
        first,
        **parts,
        study=study.public_description(),
        privacy=first.privacy.model_copy(update=promised),
        terms={**first.terms, **promised},
        noise=first.noise.model_copy(update={"sigma": None, "alpha": alpha}),
        ridge=ridge,
        trajectories=_total(one.trajectories for one in loaded),
        persons=None if same_people else _total(one.persons for one in loaded),
        stages=(),
        gaussian_mu=1 / alpha,
        zcdp_rho=(1 / alpha) ** 2 / 2,
        accepted=accepted,
        pooled_from=_mark_noisy(sources, loaded, each),
        releases_per_person=repeats if repeats > 1 else None,
        ledger_head=None,
    )


def _total(sizes: Iterable[int | None]) -> int | None:
    """Return the sum of sizes; None where one of them is not known."""
    known = list(sizes)
    return None if None in known else sum(size or 0 for size in known)


def _sources(release: Release) -> tuple[PooledSource, ...]:
    """Return the releases that somebody paid for: this one, or those that it was pooled from."""
    if release.pooled_from:
        return release.pooled_from
    about, held = release.study["study"], release.statistics
    # A draw is as good as a name: texts of one release may differ, its noise cannot be met twice.
    drawn = b"" if held is None else np.concatenate([held.sums, held.counts]).tobytes()
    return (
        PooledSource(
            sha256=release.sha256,
            draw=hashlib.sha256(drawn).hexdigest(),
            name=about.get("name"),
            dataset=about.get("dataset"),
            period=about.get("period"),
            epsilon=release.privacy.epsilon,
            delta=release.privacy.delta,
            alpha=release.noise.alpha,
        ),
    )


def _require_alike(releases: Sequence[Release], sources: Sequence[PooledSource]) -> None:
    """Raise StudyError unless these releases are of one study, and each is there once."""
    first = releases[0]
    for at, release in enumerate(releases, start=1):
        why = _unlike(first, release)
        if why is not None:
            raise StudyError(f"release {at} cannot be pooled: {why}", code="not-alike")
    if len({source.draw for source in sources}) < len(sources):
        raise StudyError(
            "one release is in there twice, itself or inside a pooled one; its people would count "
            "twice, and its noise would not be independent: leave one out",
            code="pooled-twice",
        )


def _unlike(first: Release, release: Release) -> str | None:
    """Return what keeps two releases from being added up, or None."""
    if not release.private:
        return "it is a seeded experiment, whose noise may be another's"
    if release.statistics is None:
        return f"it is by {release.mechanism}, and only dp-ssp releases statistics"
    if release.refit_of is not None:
        return "it is a refit; pool the releases themselves, and refit the result"
    if release.restriction != first.restriction:
        return (
            "its stage chose other bounds of returns; give `returns` in studies that are to be "
            "pooled"
        )
    described = [one.study["states"] | one.study["values"] | one.terms for one in (first, release)]
    for name in sorted({*first.terms, *release.terms, "ends", "reward_per_row"} - _COST - _SIZE):
        here, there = (one.get(name) for one in described)
        if here != there:
            what = name.replace("_", " ")
            return f"{what} = {there} differs from {here}, of the first one"
    for name in ("arm", "state", "action"):
        mine, its = (one.main.columns.get(name, np.zeros(0)) for one in (first, release))
        if mine.tolist() != its.tolist():
            return f"it differs from the first one in {name}s"
    return None


def _stack(each: Sequence[Ratios]) -> dict[str, NDArray[np.float64]]:
    """Return the numbers of all sources by name, with a row for each source."""
    return {name: np.stack([one.numbers[name] for one in each]) for name in each[0].numbers}


def add_ratios(each: Sequence[Ratios]) -> Ratios:
    """Return the sums and counts of all sources together, with the noise of the sums."""
    noise = ("sum_noise", "count_noise")  # whose squares add up
    added = {
        name: np.sqrt(np.square(rows).sum(axis=0)) if name in noise else rows.sum(axis=0)
        for name, rows in _stack(each).items()
    }
    return Ratios.within(each[0].bounds, **added)


def sources_differ(
    each: Sequence[Ratios], *, level: float, alike: Sequence[int]
) -> NDArray[np.bool_]:
    """Return where sources differ by more than noise and the choice of people explain.

    If all k sources have the mean return v at a key, W_i(v) has mean 0 and at most the variance

        Var_i(v) = s_T,i^2 + (v - c)^2 s_n,i^2 + kappa_i n~_i (F_hi - v)(v - F_lo)

    so that Q = min_v sum_i W_i(v)^2/Var_i(v) is below a chi-square number of k degrees. A key is
    marked where Q exceeds its quantile at (1 - level)/N: with probability ``level`` none of N keys
    is marked wrongly. From each of some v the sum is minimised with the variances at that v, again
    and again: where many people make Q narrow, a grid alone would step over its least value.
    """
    lowest, highest = each[0].bounds
    sums, counts, sum_noise, count_noise = _stack(each).values()
    kappa, keys = np.array(alike)[:, None], sums.shape[1]
    limit = 2 * special.gammainccinv(len(each) / 2, (1 - level) / keys)
    least = np.full(keys, np.inf)
    for start in np.linspace(lowest, highest, _STARTS):
        v = np.full(keys, start)
        for _ in range(_STEPS):
            y = v - each[0].centre
            people = kappa * np.maximum(counts, 0.0) * (highest - v) * (v - lowest)
            weights = 1 / (np.square(sum_noise) + np.square(y * count_noise) + people)
            least = np.minimum(least, (weights * np.square(sums - y * counts)).sum(axis=0))
            visits = np.maximum((weights * np.square(counts)).sum(axis=0), np.finfo(float).tiny)
            y = (weights * sums * counts).sum(axis=0) / visits
            v = np.clip(each[0].centre + y, lowest, highest)
    return np.asarray(least > limit)


def _mark_noisy(
    sources: Sequence[PooledSource], releases: Sequence[Release], each: Sequence[Ratios]
) -> tuple[PooledSource, ...]:
    """Return the sources, with a mark on those without which the pooled values would be better.

    The squared error of a mean over all visits is about (s_T^2 + kappa n R^2/4)/n^2.
    """

    def squared_error(some: Sequence[Ratios]) -> float:
        together = add_ratios(some)
        lowest, highest = together.bounds
        visits = max(float(together.counts.sum()), 1.0)
        noise = float(np.square(together.sum_noise).sum())
        return (noise + visits * (highest - lowest) ** 2 / 4) / visits**2

    with_all, marked = squared_error(each), set[str]()
    for at, release in enumerate(releases):
        others = [one for other, one in enumerate(each) if other != at]
        if squared_error(others) < with_all:
            marked |= {source.sha256 for source in _sources(release)}
    return tuple(
        source.model_copy(update={"better_without": source.sha256 in marked}) for source in sources
    )


def difference(
    release: Release | str | Path, against: Release | str | Path, *, level: float | None = None
) -> ValueTable:
    """Return how the values of one release differ from another's, with which it shares nobody.

    That they share nobody is your word: the intervals rest on it, as those of arms do. Both are
    dp-ssp releases of the same states and bounds, each state with a value of its own, without arms
    or actions. Nothing is spent.

    Args:
        release: whose values, as an object, a file or a folder.
        against: whose values are taken off.
        level: of the intervals; by default the first release's.

    Raises:
        StudyError: they are not of the same study, or their restrictions differ.
    """
    both = [one if isinstance(one, Release) else Release.load(one) for one in (against, release)]
    _require_alike(both, [source for one in both for source in _sources(one)])
    study = study_of(both[1], {} if level is None else {"report": {"level": level}}, None)
    has_own_values = design(study).is_tabular and not study.mechanism.has_ridge
    if both[0].arms or both[0].actions or not has_own_values:
        why = "releases with arms, actions, values that features tie, or a ridge have no difference"
        raise StudyError(why, code="not-alike")
    each = [released_ratios(one) for one in both]
    numbers = {name: rows.ravel() for name, rows in _stack(each).items()}
    ratios = Ratios.within(each[0].bounds, **numbers)
    built = Design(phi=aggregation(len(ratios.sums), 1), weights=np.ones(len(ratios.sums)))
    repeats = max(one.releases_per_person or 1 for one in both)
    estimates = replace(fit_keys(study, built, ratios, None, repeats), arms=2)
    return ValueTable({"state": both[0].main.columns["state"], **estimates.differences()})
