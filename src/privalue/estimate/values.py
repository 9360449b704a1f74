"""Turn what a mechanism drew into the tables of a release. All of it is post-processing.

| symbol          | here               | shape | public |
|-----------------|--------------------|-------|--------|
| T~, n~          | ``ratios``         | N     | yes, of every key, with their noise |
| w, rho, lambda  | ``design``, ``ridge`` |    | yes    |
| kappa           | ``alike``          |       | yes: visits of one unit, which may be alike |
| H, L            | ``study``          |       | yes: keys of a trajectory, trajectories of a unit |
| F_X             |                    | N     | **private**: c + T/n, what is covered |

Keys are states; arm after arm, where there are arms; or pairs of a state and an action, state after
state. Nothing here could read the data: an error misleads, but reveals nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from privalue.core import Design, Draw, Integers, Lsl, Lsw, Matrix, Mechanism, Ope, Ssp, Vector
from privalue.estimate.fits import Fit, fit_groups, fit_lsl, fit_lsw, fit_ratios, solve_theta
from privalue.estimate.flags import Flag, flag_texts, flags_of_statistics, flags_of_study
from privalue.estimate.intervals import (
    Ends,
    Located,
    difference_ends,
    total_intervals,
    total_of_mixture,
)
from privalue.estimate.off_policy import policy_tables
from privalue.estimate.ratios import (
    Ratios,
    clear_limit,
    normal_quantile,
    plain_values,
    pool_pairs,
    ratio_intervals,
)
from privalue.estimate.shrinkage import shrink, shrink_pairs
from privalue.estimate.stages import stage_parts
from privalue.releases import ReleasedStatistics, ValueTable
from privalue.study import PairNames, Study, aggregation, ridge_of

FEWEST_STATES = 4  # with fewer there is no shrinkage
OWN = 0.5  # of a state's value, that its own numbers must make up to support it
SURE = 0.9999  # the level of the band that a shrunk value is moved into


def estimate(
    study: Study, mechanism: Mechanism, draw: Draw, every: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the parts of a release that follow from what was drawn: its tables, and their level.

    Args:
        study: what is public; it says how to fit, and at which level.
        mechanism: that made the numbers, with its constants.
        draw: the numbers that left, stage by stage.
        every: flags that every row has.
    """
    if isinstance(mechanism, Ope):
        return policy_tables(study, mechanism, draw.numbers, every)
    size = mechanism.terms.size
    if isinstance(mechanism, Ssp):
        ridge = ridge_of(study, size.trajectories)
        ratios = noisy_ratios(mechanism, draw.numbers, mechanism.level(draw.stages))
        parts = statistics_tables(study, mechanism.design, ratios, ridge, every)
        if ridge is None and mechanism.design.is_tabular:
            parts["theta"] = None  # every state has a value of its own
        return parts | stage_parts(mechanism, draw.stages, study.report.level)
    assert isinstance(mechanism, Lsw | Lsl)
    theta, bounds = solve_theta(mechanism, draw.numbers), mechanism.terms.limits.return_bounds
    values = mechanism.design.values(theta)
    trajectories = size.units if study.privacy.unit == "trajectory" else None
    flags = flags_of_study(
        study,
        np.clip(values, *bounds),
        counted=False,
        trajectories=trajectories or study.study.trajectories,
    )
    columns = {**_labels(study), "value": np.clip(values, *bounds)}
    tables = {"values": _table(columns, flags, every)}
    if study.start_distribution is not None:
        overall = np.clip([study.start_distribution @ values], *bounds)
        tables["policy"] = _table({"value": overall}, [], every)
    return {"theta": theta, "tables": tables}


def rehearse(study: Study, mechanism: Mechanism) -> None:
    """Estimate from the largest numbers that could be drawn: what fails does so before the charge.

    Where every state has a value of its own nothing can fail: that is a quotient of two numbers
    that doubles hold with ease, moved between the bounds; what shrinkage cannot compute it leaves.
    """
    tabular = isinstance(mechanism, Ssp) and mechanism.design.is_tabular
    if tabular and ridge_of(study, mechanism.terms.size.trajectories) is None:
        return
    estimate(study, mechanism, mechanism.largest())


def noisy_ratios(mechanism: Ssp, numbers: Vector, level: int | None = None) -> Ratios:
    """Return the numbers that DP-SSP drew in the units of returns and visits.

    Args:
        mechanism: that made them.
        numbers: the sums in steps, then the counts.
        level: what a stage chose; None, if there was none.
    """
    noise, keys = mechanism.noise_at(level), mechanism.design.states
    return Ratios.within(
        noise.bounds,
        sums=numbers[:keys] * noise.step,
        counts=numbers[keys:],
        sum_noise=noise.of_steps * noise.step,
        count_noise=noise.of_counts,
    )


def statistics_tables(
    study: Study, design: Design, ratios: Ratios, ridge: float | None, every: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the parts of a release that noisy statistics give, as the study asks.

    Args:
        study: whose level, shrinkage, start and value of unvisited states count.
        design: Phi and the weights, which may be others than at the release.
        ratios: the output of DP-SSP.
        ridge: lambda of LSL; None for LSW.
        every: flags that every row has.
    """
    pairs, start = study.pairs, study.start_distribution
    made = fit_keys(study, design, ratios, ridge)
    flags = made.flags + flags_of_study(study, made.values, counted=True, trajectories=None)
    tables = {"values": _table({**_labels(study), **made.columns}, flags, every)}
    whole = made
    if pairs is not None:
        whole = fit_states(study, ratios)
        states = {"state": _texts(study.state_names)}
        tables["states"] = _table({**states, **whole.columns}, whole.flags, every)
    if study.arm_labels:
        tables |= _compare_arms(study, made, flags, every)
    elif start is not None:
        tables["policy"] = _table(whole.overall(np.asarray(start)), [], every)
    numbers = ("sums", "counts", "sum_noise", "count_noise")
    return {
        "theta": made.fit.theta,
        "tables": tables,
        "level": made.level,
        "actions": () if pairs is None else tuple(map(str, pairs.actions.names)),
        "statistics": ReleasedStatistics(**{name: getattr(ratios, name) for name in numbers}),
    }


def fit_keys(study: Study, design: Design, ratios: Ratios, ridge: float | None) -> "Fitted":
    """Return the values of all keys, as the study asks."""
    return fit_statistics(
        ratios,
        design,
        ridge=ridge,
        alike=study.trajectories_per_person,
        arms=study.arm_count,
        features=study.shrink_targets,
        state_of=None if study.pairs is None else study.pairs.state_of,
        **_choices(study, ratios),
    )


def fit_states(study: Study, ratios: Ratios) -> "Fitted":
    """Return V from the statistics of pairs of a state and an action.

    The noise of a sum is the sum of independent normal numbers: privacy intervals are exact by the
    same argument. A trajectory may count for several actions of a state, at most min(A_s, H) of
    them: its visits may all be alike, as the trajectories of a person may
    (docs/proofs/arms-and-actions.md).
    """
    pairs = study.pairs
    assert pairs is not None
    count = pairs.states.count
    return fit_statistics(
        pool_pairs(ratios, pairs.state_of, count),
        Design(phi=aggregation(count, 1), weights=np.ones(count)),
        alike=study.trajectories_per_person * actions_per_trajectory(study, pairs),
        **_choices(study, ratios),
    )


def actions_per_trajectory(study: Study, pairs: PairNames) -> Vector:
    """Return min(A_s, H): for how many actions of each state one trajectory may count."""
    actions = np.bincount(pairs.state_of, minlength=pairs.states.count)
    return np.minimum(actions, float(study.states_per_trajectory))


def theta_of(
    study: Study, mechanism: Ssp | Lsw | Lsl, numbers: Vector, *, level: int | None = None
) -> Vector:
    """Return theta of drawn numbers alone, without the tables of a release."""
    if not isinstance(mechanism, Ssp):
        return solve_theta(mechanism, numbers)
    ridge = ridge_of(study, mechanism.terms.size.trajectories)
    ratios = noisy_ratios(mechanism, numbers, level)
    return fit_keys(study, mechanism.design, ratios, ridge).fit.theta


def values_of(
    study: Study, mechanism: Ssp | Lsw | Lsl, numbers: Vector, *, level: int | None = None
) -> Vector:
    """Return the values of drawn numbers alone: planning asks for hundreds."""
    values = mechanism.design.values(theta_of(study, mechanism, numbers, level=level))
    limits = mechanism.terms.limits
    bounds = mechanism.noise_at(level).bounds if isinstance(mechanism, Ssp) else None
    return np.clip(values, *(bounds or limits.return_bounds))


def _choices(study: Study, ratios: Ratios) -> dict[str, Any]:
    """Return what the study says of how any values are made."""
    return {
        "unvisited": float(np.clip(study.values.unvisited_value, *ratios.bounds)),
        "shrinkage": study.mechanism.shrinkage,
        "level": study.report.level,
    }


def _texts(labels: Any) -> NDArray[Any]:
    return np.array([str(label) for label in labels], dtype=object)


def _labels(study: Study) -> dict[str, NDArray[Any]]:
    """Return the columns that say what each key is."""
    states, arms, pairs = _texts(study.state_names), _texts(study.arm_labels), study.pairs
    if pairs is not None:
        actions = _texts(pairs.actions.names)
        return {"state": states[pairs.state_of], "action": actions[pairs.action_of]}
    if len(arms):
        return {"arm": np.repeat(arms, len(states)), "state": np.tile(states, len(arms))}
    return {"state": states}


def _table(columns: dict[str, Any], flags: Sequence[Flag], every: Sequence[str]) -> ValueTable:
    return ValueTable({**columns, "flags": flag_texts(len(columns["value"]), flags, every)})


def fit_statistics(
    ratios: Ratios,
    design: Design,
    *,
    unvisited: float,
    level: float = 0.95,
    ridge: float | None = None,
    shrinkage: bool = True,
    features: Vector | None = None,
    alike: int | Vector = 1,
    arms: int = 1,
    state_of: Integers | None = None,
) -> "Fitted":
    """Return the values of keys, from which intervals can be asked.

    Without a ridge: LSW of the means, which for tabular features are the values. With one: LSL,
    whose ridge takes the place of shrinkage.

    Args:
        ratios: the output of DP-SSP.
        design: Phi, and the weights w or rho.
        unvisited: what a state is worth that nobody visits.
        level: of every interval and band.
        ridge: lambda of LSL.
        shrinkage: whether rarely visited states are drawn towards the others.
        features: towards which they are drawn too, one row for each state.
        alike: how many trajectories of one unit count, which may resemble each other; or how many
            of its visits, state by state.
        arms: how many arms the keys belong to; the values of one are not drawn to another's.
        state_of: the state of every key, where keys are pairs of a state and an action; they are
            drawn towards their state's own value.
    """
    keys, z = len(ratios.sums), normal_quantile(level)
    means, own, at = plain_values(ratios, unvisited), np.ones(keys), z
    if ridge is None and shrinkage and keys // arms >= FEWEST_STATES:
        parts = np.array_split(np.arange(keys), arms)
        found = (
            [shrink_pairs(ratios, unvisited, state_of, features=features)]
            if state_of is not None
            else [shrink(ratios[part], unvisited, features=features) for part in parts]
        )
        means = np.concatenate([part.means for part in found])
        # Of many states some are outside of their own interval by chance, and what is outside by a
        # little may be moved far, if its count is small: a drawn value goes back only if all
        # states together leave hardly any doubt.
        at = normal_quantile(max(level, SURE), keys)
        if design.is_tabular:  # else features say what a value is made of
            own = np.concatenate([part.own for part in found])
        else:
            means = np.clip(means, *ratio_intervals(ratios, at))
    if ridge is None:
        fit = fit_ratios(ratios, means, at) if design.is_tabular else fit_lsw(ratios, means, design)
    elif design.is_indicator:
        fit = fit_groups(ratios, design, ridge, z)
    else:
        fit = fit_lsl(ratios, design, ridge)
    return Fitted(
        ratios=ratios,
        design=design,
        fit=fit,
        own=own,
        plain=plain_values(ratios, unvisited),
        level=level,
        alike=alike,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Fitted:
    """Values and the intervals that go with them, everything between the bounds of returns.

    No return is outside, so nothing is lost: an interval that covers a number covers, once both are
    moved, what the number becomes. Privacy intervals cover what the same estimator gives without
    noise. Total intervals are for V itself, the mean of returns as they count: they are made of the
    state's own sum and count, however well the features fit.
    """

    ratios: Ratios
    design: Design
    fit: Fit
    own: Vector  # how much of a value is made of its own numbers, from 0 to 1
    plain: Vector  # where the noisy numbers alone put it
    level: float
    alike: int | Vector
    _privacy: dict[float, Ends] = field(default_factory=dict, init=False)

    @cached_property
    def values(self) -> Vector:
        """Return the values of the keys."""
        return np.clip(self.design.values(self.fit.theta), *self.ratios.bounds)

    def privacy(self, z: float) -> Ends:
        """Return the ends of privacy intervals, found once for each z."""
        if z not in self._privacy:
            self._privacy[z] = self._ends(self.design.phi, self.values, z)
        return self._privacy[z]

    def _ends(self, rows: Matrix, value: Vector, z: float) -> Ends:
        """Return the ends of privacy intervals of rows times theta.

        An end that overflowed carries no information and becomes its bound.
        """
        bounds = self.ratios.bounds
        low, high = (
            np.clip(np.where(np.isnan(end), bound, end), *bounds)
            for end, bound in zip(self.fit.ends(rows, z), bounds, strict=True)
        )
        return np.minimum(low, value), np.maximum(high, value)

    def total(self, z: float) -> Ends:
        """Return the ends of total intervals."""
        return total_intervals(self.ratios, z, self.privacy(z), alike=self.alike)

    @cached_property
    def band(self) -> Ends:
        """Return the ends of total intervals that hold for all keys at once.

        Not only the noise of several keys, their sampling errors go together, too: Sidak's
        inequality holds whatever the correlations, that of chi for the noise of few features only.
        """
        single = self.privacy(normal_quantile(self.level))
        joint = self.privacy(normal_quantile(self.level, self.fit.directions, self.fit.dimension))
        around = np.minimum(single[0], joint[0]), np.maximum(single[1], joint[1])
        every = normal_quantile(self.level, len(self.ratios.sums))
        return total_intervals(self.ratios, every, around, alike=self.alike)

    @cached_property
    def clear(self) -> NDArray[np.bool_]:
        """Return where the noisy count of a key's group is above what no visits at all would give.

        With probability ``level`` no unvisited group is among them. Overlapping features have no
        groups: all keys pass.
        """
        if not self.design.one_feature_per_state:
            return np.ones(self.design.states, dtype=bool)
        members = sp.csr_array(self.design.phi).astype(bool).astype(np.float64)
        limit = clear_limit(self.level, self.design.dimension)
        noise = np.sqrt(members.T @ np.square(self.ratios.count_noise))
        clear = members.T @ self.ratios.counts > limit * noise
        return np.asarray(members @ clear.astype(np.float64) > 0)

    @property
    def supported(self) -> NDArray[np.bool_]:
        """Return where the count is clear, and half of the value is the key's own."""
        return self.clear & (self.own >= OWN)

    @cached_property
    def columns(self) -> dict[str, NDArray[Any]]:
        """Return the columns of a table, without labels and flags."""
        z = normal_quantile(self.level)
        return {
            "value": self.values,
            **_ends_named("total_", self.total(z)),
            **_ends_named("", self.privacy(z)),
            **_ends_named("total_band_", self.band),
            "supported": self.supported,
        }

    @property
    def flags(self) -> list[Flag]:
        """Return what noisy statistics say to be careful about."""
        total = self.total(normal_quantile(self.level))
        return flags_of_statistics(self.clear, self.supported, total, self.ratios.bounds)

    def mixture(self, mixture: Vector, z: float) -> Located:
        """Return where the statistics put a mixture of V, with its total interval."""
        return total_of_mixture(self.ratios, mixture, z, self.total(z), alike=self.alike)

    def overall(self, mixture: Vector) -> dict[str, Vector]:
        """Return the overall value from a start distribution, as columns of one row.

        It is a mixture of the fit's values, moved between the bounds as a whole.
        """
        z = normal_quantile(self.level)
        mean = mixture @ self.design.values(self.fit.theta)
        value = np.clip([mean], *self.ratios.bounds)
        rows = np.asarray(self.design.phi.T @ mixture).reshape(1, -1)
        low, high = self._ends(rows, value, z)
        place = self.mixture(mixture, z)
        total = np.minimum(low, place.low), np.maximum(high, place.high)
        return {"value": value, **_ends_named("total_", total), **_ends_named("", (low, high))}


def _ends_named(kind: str, ends: Ends) -> dict[str, Vector]:
    return {f"{kind}low": ends[0], f"{kind}high": ends[1]}


def _compare_arms(
    study: Study, made: Fitted, flags: Sequence[Flag], every: Sequence[str]
) -> dict[str, ValueTable]:
    """Return how the other arms differ from the first, state by state and overall.

    The row of the overall value has no state, and no band.
    """
    arms, states, start = study.arm_labels, _texts(study.state_names), study.start_distribution
    others, each = len(arms) - 1, len(states)
    columns = {
        "arm": np.repeat(_texts(arms[1:]), each),
        "state": np.tile(states, others),
        **arm_differences(made, len(arms), independent=study.arms_are_independent),
    }
    both = [(word, mask[each:] | np.tile(mask[:each], others)) for word, mask in flags]
    texts = flag_texts(others * each, both, every)
    tables = {}
    if start is not None:
        mixtures = [np.asarray(np.kron(arm, start), np.float64) for arm in np.eye(len(arms))]
        overall = [made.overall(mixture) for mixture in mixtures]
        joined = {name: np.concatenate([row[name] for row in overall]) for name in overall[0]}
        tables["policy"] = _table({"arm": _texts(arms), **joined}, [], every)
        apart = overall_differences(made, mixtures, independent=study.arms_are_independent)
        rows = {"arm": _texts(arms[1:]), "state": np.full(others, None), **apart}
        columns = {name: np.concatenate([columns[name], rows[name]]) for name in columns}
        texts = np.concatenate([texts, flag_texts(others, [], every)])
    against = _texts([arms[0]] * len(texts))
    tables["differences"] = ValueTable({**columns, "against": against, "flags": texts})
    return tables


# Nobody is in two arms, and the noise of different keys is independent, so that half-widths add up
# as squares. Where one person may have trajectories in two arms, they are added up, and the
# intervals of both cover at (1 + level)/2: then both do with probability ``level`` at least,
# whatever the correlations (docs/proofs/arms-and-actions.md). Bands cover all values at once
# already.


def arm_differences(made: Fitted, arms: int, *, independent: bool = True) -> dict[str, Any]:
    """Return the differences of the other arms' values from the first's, as columns.

    Args:
        made: the values of all arms, arm after arm.
        arms: G, at least 2.
        independent: whether nobody is in two arms.
    """
    each = len(made.values) // arms

    def less(ends: Ends) -> Ends:
        first = [np.tile(column[:each], arms - 1) for column in (made.plain, *ends)]
        others = [column[each:] for column in (made.plain, *ends)]
        more, fewer = (Located(own=own, low=low, high=high) for own, low, high in (others, first))
        low, high = difference_ends(more, fewer, made.ratios.bounds, independent=independent)
        return np.minimum(low, value), np.maximum(high, value)

    value = made.values[each:] - np.tile(made.values[:each], arms - 1)
    low, high = less(made.total(_each_quantile(made.level, independent)))
    band_low, band_high = less(made.band)
    return {
        "value": value,
        "total_low": low,
        "total_high": high,
        "total_band_low": np.minimum(low, band_low),
        "total_band_high": np.maximum(high, band_high),
        "supported": made.supported[each:] & np.tile(made.supported[:each], arms - 1),
    }


def overall_differences(
    made: Fitted, mixtures: Sequence[Vector], *, independent: bool = True
) -> dict[str, Any]:
    """Return the differences of the other arms' overall values from the first's, as columns."""
    z = _each_quantile(made.level, independent)
    located = [made.mixture(mixture, z) for mixture in mixtures]
    values = np.concatenate([made.overall(mixture)["value"] for mixture in mixtures])
    sound = np.array([made.supported[mixture > 0].all() for mixture in mixtures])
    ends = [
        difference_ends(place, located[0], made.ratios.bounds, independent=independent)
        for place in located[1:]
    ]
    apart, unknown = values[1:] - values[0], np.full(len(ends), np.nan)
    return {
        "value": apart,
        "total_low": np.minimum(np.concatenate([low for low, _ in ends]), apart),
        "total_high": np.maximum(np.concatenate([high for _, high in ends]), apart),
        "total_band_low": unknown,
        "total_band_high": unknown,
        "supported": sound[1:] & sound[0],
    }


def _each_quantile(level: float, independent: bool) -> float:
    """Return the z of each of two intervals, so that both cover at ``level``."""
    return normal_quantile(level if independent else (1 + level) / 2)
