"""Compute the tables of a release from a mechanism's draw: post-processing only.

| symbol          | here               | shape | public |
|-----------------|--------------------|-------|--------|
| T~, n~          | ``ratios``         | N     | yes, of every key, with their noise |
| w, rho, lambda  | ``design``, ``ridge`` |    | yes    |
| kappa           | ``cluster_size``   |       | yes: most visits of one unit, which may be equal |
| H, L            | ``study``          |       | yes: keys of a trajectory, trajectories of a unit |
| F_X             |                    | N     | **private**: c + T/n, covered by intervals |

Keys are states; with arms, the states of each arm in turn; with actions, pairs of a state and an
action, ordered by state. Nothing here can read data: an error misleads, but reveals nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privalue.core import Design, Draw, Integers, Lsl, Lsw, Matrix, Mechanism, Ope, Ssp, Vector
from privalue.estimate.fits import Fit, fit_lsl, fit_lsw, solve_theta
from privalue.estimate.flags import Flag, flagged_table, flags_of_study
from privalue.estimate.intervals import Ends, Interval, mix_intervals, name_ends, total_intervals
from privalue.estimate.off_policy import policy_parts
from privalue.estimate.ratios import Ratios, detection_threshold, normal_quantile
from privalue.estimate.shrinkage import Posterior, shrink
from privalue.estimate.stages import stage_parts
from privalue.releases import ReleasedStatistics, ValueTable
from privalue.study import Study, aggregation, ridge_of

MIN_STATES = 4  # with fewer there is no shrinkage
MIN_OWN_SHARE = 0.5  # of the state's own ratio in a supported value
CLIPPING_LEVEL = 0.9999  # of the band that shrunk values are clipped to


def estimate(
    study: Study, mechanism: Mechanism, draw: Draw, common: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the parts of a release that are computed from the draw: its tables, and their level.

    Args:
        study: the public study; its estimator and level are used.
        mechanism: the mechanism of the draw, with its constants.
        draw: the noisy numbers of each stage.
        common: flags of every row.
    """
    if isinstance(mechanism, Ope):
        return policy_parts(study, mechanism, draw["values"], common)
    if isinstance(mechanism, Ssp):
        estimates = fit_draw(study, mechanism, draw)
        parts = statistics_parts(study, estimates, common)
        if estimates.ridge is None and estimates.design.is_tabular:
            parts["theta"] = None  # every state has a value of its own
        return parts | stage_parts(mechanism, draw, study.report.level)
    assert isinstance(mechanism, Lsw | Lsl)
    theta = solve_theta(mechanism, draw["values"])
    values, bounds = mechanism.design.values(theta), mechanism.terms.limits.return_bounds
    column, size = np.clip(values, *bounds), mechanism.terms.size.trajectories
    flags = flags_of_study(study, column, size)
    tables = {"values": flagged_table({**key_labels(study), "value": column}, flags, common)}
    if study.start_distribution is not None:
        overall = np.clip([study.start_distribution @ values], *bounds)
        tables["policy"] = flagged_table({"value": overall}, [], common)
    return {"theta": theta, "tables": tables}


def theta_of(study: Study, mechanism: Mechanism, draw: Draw) -> Vector:
    """Return theta of a draw without tables, for planning, which needs hundreds of them."""
    if isinstance(mechanism, Ssp):
        return fit_draw(study, mechanism, draw).fit.theta
    assert isinstance(mechanism, Lsw | Lsl)
    return solve_theta(mechanism, draw["values"])


def statistics_parts(
    study: Study, estimates: "Estimates", common: Sequence[str], source_flags: Sequence[Flag] = ()
) -> dict[str, Any]:
    """Return the parts of a release that are computed from estimates: its tables, and their level.

    Args:
        study: the public study; its labels and start distribution are used.
        estimates: the values of its keys.
        common: flags of every row.
        source_flags: flags of keys at which pooled releases differ, if any.
    """
    pairs, start = study.pairs, study.start_distribution
    flags = [*source_flags, *estimates.flags, *flags_of_study(study, estimates.values)]
    tables = {"values": flagged_table({**key_labels(study), **estimates.columns}, flags, common)}
    by_state = estimates
    if pairs is not None:
        by_state = estimates.pool_actions(pairs.state_of, study.limits.max_states_per_trajectory)
        states = {"state": _texts(study.names.names)}
        tables["states"] = flagged_table({**states, **by_state.columns}, by_state.flags, common)
    arms = {"arm": _texts(study.arms.names)} if study.arms.names else {}
    if start is not None:
        tables["policy"] = flagged_table({**arms, **by_state.overall(start)}, [], common)
    if arms:
        # A person in several of the pooled releases may be in two arms.
        persons_repeat = estimates.cluster_size > study.limits.max_trajectories_per_person
        independent = study.arms_are_independent and not persons_repeat
        rows = estimates.differences(start, independent=independent)
        tables["differences"] = _difference_table(study, rows, flags, common)
    return {
        "theta": estimates.fit.theta,
        "tables": tables,
        "level": estimates.level,
        "actions": () if pairs is None else tuple(map(str, pairs.actions.names)),
        "statistics": ReleasedStatistics(**estimates.ratios.numbers),
    }


def fit_draw(study: Study, mechanism: Ssp, draw: Draw) -> "Estimates":
    """Return the values of all keys from a draw of DP-SSP: sums in steps, then counts."""
    noise, numbers = mechanism.noise_after(draw), draw["values"]
    ratios = Ratios.within(
        noise.bounds,
        sums=numbers[: mechanism.design.states] * noise.step,
        counts=numbers[mechanism.design.states :],
        sum_noise=noise.step_noise * noise.step,
        count_noise=noise.count_noise,
    )
    ridge = ridge_of(study, mechanism.terms.size.trajectories)
    return fit_keys(study, mechanism.design, ratios, ridge)


def fit_keys(
    study: Study, design: Design, ratios: Ratios, ridge: float | None, releases_per_person: int = 1
) -> "Estimates":
    """Return the values of all keys, with the study's estimator.

    Args:
        study: the public study; its level, shrinkage and value of unvisited states are used.
        design: Phi and the weights, which may differ from those of the release.
        ratios: the output of DP-SSP.
        ridge: lambda of LSL; None for LSW.
        releases_per_person: in how many of the pooled releases one person may be.
    """
    return Estimates(
        ratios=ratios,
        design=design,
        unvisited=float(np.clip(study.values.unvisited_value, *ratios.bounds)),
        level=study.report.level,
        ridge=ridge,
        shrinkage=study.mechanism.shrinkage,
        features=study.shrink_targets,
        cluster_size=study.limits.max_trajectories_per_person * releases_per_person,
        arms=study.arm_count,
        state_of=None if study.pairs is None else study.pairs.state_of,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Estimates:
    """Values and their intervals, all clipped to the bounds of returns.

    Without a ridge: LSW of the means, which for tabular features are the values. With one: LSL,
    whose ridge takes the place of shrinkage.

    Clipping keeps coverage, since returns are within the bounds. Privacy intervals cover the result
    of the same estimator without noise. Total intervals cover V itself, the mean of returns clamped
    to their bounds: they use the state's own sum and count, however well the features fit.
    """

    ratios: Ratios  # the output of DP-SSP
    design: Design  # Phi, and the weights w or rho
    unvisited: float  # the value of a state without visits
    level: float = 0.95  # of every interval and band
    ridge: float | None = None  # lambda of LSL
    shrinkage: bool = True  # whether values are shrunk, those of rarely visited states most
    features: Vector | None = None  # of further shrinkage targets, a row for each state
    # How many trajectories of one unit count, which may be equal; or how many of its visits, state
    # by state.
    cluster_size: int | Vector = 1
    arms: int = 1  # shrunk separately
    state_of: Integers | None = None  # of keys that are pairs of a state and an action

    @cached_property
    def _posterior(self) -> Posterior | None:
        """Return the posterior of the means; None where there is no shrinkage."""
        keys = len(self.ratios.sums)
        if self.ridge is not None or not self.shrinkage or keys // self.arms < MIN_STATES:
            return None
        by_arm = [
            shrink(self.ratios[part], self.unvisited, features=self.features, states=self.state_of)
            for part in np.array_split(np.arange(keys), self.arms)
        ]
        means, deviations, share = map(np.concatenate, zip(*by_arm, strict=True))
        # Of many states some are outside of their own intervals by chance, and clipping to such an
        # interval may move a rarely visited state far: values are clipped to a nearly certain band
        # of all states. A clipped value is decided by the state's own numbers.
        low, high = self.ratios.intervals(normal_quantile(max(self.level, CLIPPING_LEVEL), keys))
        is_outside = (means < low) | (means > high)
        return Posterior(np.clip(means, low, high), deviations, np.where(is_outside, 1.0, share))

    @cached_property
    def fit(self) -> Fit:
        """Return theta, with intervals for functions of it."""
        if self.ridge is not None:
            return fit_lsl(self.ratios, self.design, self.ridge)
        means = self.ratios.divide(self.unvisited)
        if self._posterior is not None:
            means = self._posterior.means
        elif self.design.is_tabular:
            means = np.clip(means, *self.ratios.intervals(normal_quantile(self.level)))
        return fit_lsw(self.ratios, means, self.design)

    @property
    def supported(self) -> NDArray[np.bool_]:
        """Return where the count is clear, and at least half of the value is the key's own ratio.

        With overlapping features only the count matters, since they tie values anyway.
        """
        if self._posterior is None or not self.design.is_tabular:
            return self.clear
        return self.clear & (self._posterior.own_share >= MIN_OWN_SHARE)

    @cached_property
    def values(self) -> Vector:
        """Return the values of the keys."""
        return np.clip(self.design.values(self.fit.theta), *self.ratios.bounds)

    def _ends(self, rows: Matrix, value: Vector, z: float) -> Ends:
        """Return the ends of privacy intervals for rows times theta; the bound for an overflow."""
        bounds = self.ratios.bounds
        low, high = (
            np.clip(np.where(np.isnan(end), bound, end), *bounds)
            for end, bound in zip(self.fit.ends(rows, z), bounds, strict=True)
        )
        return np.minimum(low, value), np.maximum(high, value)

    def intervals(self, z: float) -> tuple[Ends, Ends]:
        """Return the ends of the privacy intervals, and of the total intervals."""
        privacy = self._ends(self.design.phi, self.values, z)
        return privacy, total_intervals(self.ratios, z, privacy, self.cluster_size)

    @cached_property
    def ends(self) -> dict[str, Ends]:
        """Return the ends at the level, and those of a band: total intervals for all keys at once.

        By Sidak's inequality the band holds for any correlations of noise and sampling errors.
        """
        privacy, total = self.intervals(normal_quantile(self.level))
        _, band = self.intervals(normal_quantile(self.level, len(self.ratios.sums)))
        return {"": privacy, "total_": total, "total_band_": band}

    @cached_property
    def clear(self) -> NDArray[np.bool_]:
        """Return where the noisy count is clearly above 0.

        With probability ``level`` this includes no unvisited key.
        """
        return self.ratios.count_z > detection_threshold(self.level, len(self.ratios.counts))

    @cached_property
    def columns(self) -> dict[str, NDArray[Any]]:
        """Return the columns of a table, without labels and flags."""
        return {"value": self.values, "supported": self.supported, **name_ends(self.ends)}

    @property
    def flags(self) -> list[Flag]:
        """Return the flags that follow from noisy statistics.

        ``wide`` adds sampling error to ``supported``, which is about privacy noise alone.
        """
        (low, high), (lowest, highest) = self.ends["total_"], self.ratios.bounds
        wide = 0.5 * high - 0.5 * low > 0.5 * (0.5 * highest - 0.5 * lowest)
        return [
            ("unclear", ~self.clear),
            ("borrowed", self.clear & ~self.supported),
            ("wide", wide & self.supported),
        ]

    def overall(self, start: Vector) -> dict[str, Vector]:
        """Return the overall value from a start distribution, as columns with a row for each arm.

        It is a mixture of the values before clipping, and is then clipped as a whole.
        """
        mixtures, z = self._mixtures(start), normal_quantile(self.level)
        value = np.clip(mixtures @ self.design.values(self.fit.theta), *self.ratios.bounds)
        low, high = self._ends(mixtures @ self.design.phi, value, z)
        total = mix_intervals(self.ratios, mixtures, z, self.ends["total_"], self.cluster_size)
        ends = np.minimum(low, total.low), np.maximum(high, total.high)
        return {"value": value, **name_ends({"": (low, high), "total_": ends})}

    def _mixtures(self, start: Vector) -> Vector:
        """Return the start distribution of each arm, as a row over all keys."""
        return np.asarray(np.kron(np.eye(self.arms), start), np.float64)

    def differences(
        self, start: Vector | None = None, *, independent: bool = True
    ) -> dict[str, Vector]:
        """Return the differences of the other arms from the first, as columns, arm after arm.

        The arms are independent if no person is in two of them: then the squares of half-widths add
        up. Otherwise half-widths are summed, and both intervals have the level (1 + level)/2, so
        that both cover with probability ``level`` at least, for any correlations
        (docs/proofs/arms-and-actions.md). Bands cover all values at once anyway.

        Args:
            start: a start distribution: the difference of overall values comes last in each arm.
            independent: whether no person is in two arms.
        """
        z = normal_quantile(self.level if independent else (1 + self.level) / 2)
        total, band = self.intervals(z)[1], self.ends["total_band_"]
        own = self.ratios.divide(self.unvisited)
        intervals = np.array([Interval(own, *ends, np.zeros_like(own)) for ends in (total, band)])
        intervals = intervals.reshape(2, 4, self.arms, -1)  # kind, part, arm, key
        values = self.values.reshape(self.arms, -1)
        if start is not None:
            mixtures = self._mixtures(start)
            interval = mix_intervals(self.ratios, mixtures, z, total, self.cluster_size)
            overall = np.array([interval, np.full_like(interval, np.nan)])  # without a band
            intervals = np.concatenate([intervals, overall[..., None]], axis=-1)
            values = np.column_stack([values, self.overall(start)["value"]])
        value = values[1:] - values[0]
        low, high, ends = value, value, {}
        for kind, part in zip(("total_", "total_band_"), intervals, strict=True):
            others, first = Interval(*part[:, 1:]), Interval(*part[:, :1])
            below, above = others.subtract(first, self.ratios.bounds, independent=independent)
            low, high = np.minimum(low, below), np.maximum(high, above)
            ends[kind] = low.ravel(), high.ravel()
        return {"value": value.ravel(), **name_ends(ends)}

    def pool_actions(self, state_of: Integers, max_states_per_trajectory: int) -> "Estimates":
        """Return V from the statistics of pairs of a state and an action.

        The noise of a sum is the sum of independent normal numbers, so that privacy intervals stay
        exact. A trajectory may count for several actions of a state, at most min(A_s, H) of them:
        its visits may all be equal, as the trajectories of a person may
        (docs/proofs/arms-and-actions.md).

        Args:
            state_of: the state of every pair, ascending from 0.
            max_states_per_trajectory: H.
        """
        actions = np.bincount(state_of)
        return replace(
            self,
            ratios=self.ratios.pool(state_of),
            design=Design(phi=aggregation(len(actions), 1), weights=np.ones(len(actions))),
            ridge=None,
            features=None,
            cluster_size=self.cluster_size * np.minimum(actions, float(max_states_per_trajectory)),
            state_of=None,
        )


def _texts(labels: Any) -> NDArray[Any]:
    return np.array([str(label) for label in labels], dtype=object)


def key_labels(study: Study) -> dict[str, NDArray[Any]]:
    """Return the label columns of the keys."""
    states, arms, pairs = _texts(study.names.names), _texts(study.arms.names), study.pairs
    if pairs is not None:
        actions = _texts(pairs.actions.names)
        return {"state": states[pairs.state_of], "action": actions[pairs.action_of]}
    return _by_arm(arms, states) if len(arms) else {"state": states}


def _by_arm(arms: NDArray[Any], states: NDArray[Any]) -> dict[str, NDArray[Any]]:
    return {"arm": np.repeat(arms, len(states)), "state": np.tile(states, len(arms))}


def _difference_table(
    study: Study, rows: dict[str, Vector], flags: Sequence[Flag], common: Sequence[str]
) -> ValueTable:
    """Return the table of differences between arms, with labels and the flags of both values.

    The row of the overall value has no state, no band and no flags of its own.
    """
    arms, states = _texts(study.arms.names), _texts(study.names.names)
    overall_rows = 0 if study.start_distribution is None else 1
    labels = _by_arm(arms[1:], np.append(states, [None] * overall_rows))
    against = np.repeat(arms[:1], len(rows["value"]))

    def combine(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
        by_arm = mask.reshape(len(arms), -1)
        return np.pad(by_arm[1:] | by_arm[0], ((0, 0), (0, overall_rows))).ravel()

    flags_of_both = [(code, combine(mask)) for code, mask in flags]
    return flagged_table({**labels, "against": against, **rows}, flags_of_both, common)
