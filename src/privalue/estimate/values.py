"""Compute the tables of a release from a mechanism's draw. All of it is post-processing.

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
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privalue.core import Design, Draw, Integers, Lsl, Lsw, Matrix, Mechanism, Ope, Ssp, Vector
from privalue.estimate.fits import Fit, fit_lsl, fit_lsw, solve_theta
from privalue.estimate.flags import Flag, flagged_table, flags_of_study
from privalue.estimate.intervals import Ends, Located, name_ends, total_intervals, total_of_mixtures
from privalue.estimate.off_policy import policy_tables
from privalue.estimate.ratios import Ratios, clear_limit, normal_quantile
from privalue.estimate.shrinkage import Shrunken, shrink
from privalue.estimate.stages import stage_parts
from privalue.releases import ReleasedStatistics, ValueTable
from privalue.study import Study, aggregation, ridge_of

FEWEST_STATES = 4  # with fewer there is no shrinkage
OWN = 0.5  # of a state's value, that its own numbers must make up to support it
SURE = 0.9999  # the level of the band that a shrunk value is moved into


def estimate(
    study: Study, mechanism: Mechanism, draw: Draw, every: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the parts of a release that are computed from the draw: its tables, and their level.

    Args:
        study: what is public; it says how to fit, and at which level.
        mechanism: that made the numbers, with its constants.
        draw: the numbers that left, stage by stage.
        every: flags that every row has.
    """
    if isinstance(mechanism, Ope):
        return policy_tables(study, mechanism, draw["values"], every)
    if isinstance(mechanism, Ssp):
        made = fit_draw(study, mechanism, draw)
        parts = statistics_tables(study, made, every)
        if made.ridge is None and made.design.is_tabular:
            parts["theta"] = None  # every state has a value of its own
        return parts | stage_parts(mechanism, draw, study.report.level)
    assert isinstance(mechanism, Lsw | Lsl)
    theta = solve_theta(mechanism, draw["values"])
    values, bounds = mechanism.design.values(theta), mechanism.terms.limits.return_bounds
    inside, size = np.clip(values, *bounds), mechanism.terms.size.trajectories
    flags = flags_of_study(study, inside, size)
    tables = {"values": flagged_table({**_labels(study), "value": inside}, flags, every)}
    if study.start_distribution is not None:
        overall = np.clip([study.start_distribution @ values], *bounds)
        tables["policy"] = flagged_table({"value": overall}, [], every)
    return {"theta": theta, "tables": tables}


def rehearse(study: Study, mechanism: Mechanism) -> None:
    """Estimate from the largest possible draw, so that failures come before the charge.

    Where every state has a value of its own nothing can fail: that is a quotient of two numbers
    that doubles hold with ease, moved between the bounds; what shrinkage cannot compute it leaves.
    """
    tabular = isinstance(mechanism, Ssp) and mechanism.design.is_tabular
    if not tabular or study.mechanism.has_ridge:
        estimate(study, mechanism, {"values": mechanism.largest_numbers})


def theta_of(study: Study, mechanism: Ssp | Lsw | Lsl, draw: Draw) -> Vector:
    """Return theta of a draw, without tables, since planning needs hundreds of them."""
    if isinstance(mechanism, Ssp):
        return fit_draw(study, mechanism, draw).fit.theta
    return solve_theta(mechanism, draw["values"])


def statistics_tables(
    study: Study, made: "Estimates", every: Sequence[str] = (), different: Sequence[Flag] = ()
) -> dict[str, Any]:
    """Return the parts of a release that noisy statistics give, as the study asks.

    Args:
        study: whose labels and start count.
        made: the values of its keys.
        every: flags that every row has.
        different: the flag of keys at which pooled releases differ.
    """
    pairs, start = study.pairs, study.start_distribution
    flags = [*different, *made.flags, *flags_of_study(study, made.values)]
    tables = {"values": flagged_table({**_labels(study), **made.columns}, flags, every)}
    whole = made
    if pairs is not None:
        whole = made.pool(pairs.state_of, study.limits.max_states_per_trajectory)
        states = {"state": _texts(study.names.names)}
        tables["states"] = flagged_table({**states, **whole.columns}, whole.flags, every)
    arms = {"arm": _texts(study.arms.names)} if study.arms.names else {}
    if start is not None:
        tables["policy"] = flagged_table({**arms, **whole.overall(start)}, [], every)
    if arms:
        # In several pooled releases one person may be in two arms.
        of_several = made.alike > study.limits.max_trajectories_per_person
        independent = study.arms_are_independent and not of_several
        rows = made.differences(start, independent=independent)
        tables["differences"] = _difference_table(study, rows, flags, every)
    return {
        "theta": made.fit.theta,
        "tables": tables,
        "level": made.level,
        "actions": () if pairs is None else tuple(map(str, pairs.actions.names)),
        "statistics": ReleasedStatistics(**made.ratios.numbers),
    }


def fit_draw(study: Study, mechanism: Ssp, draw: Draw) -> "Estimates":
    """Return the values of all keys from a draw of DP-SSP: sums in steps, then counts."""
    noise, drawn = mechanism.noise_after(draw), draw["values"]
    ratios = Ratios.within(
        noise.bounds,
        sums=drawn[: mechanism.design.states] * noise.step,
        counts=drawn[mechanism.design.states :],
        sum_noise=noise.step_noise * noise.step,
        count_noise=noise.count_noise,
    )
    ridge = ridge_of(study, mechanism.terms.size.trajectories)
    return fit_keys(study, mechanism.design, ratios, ridge)


def fit_keys(
    study: Study, design: Design, ratios: Ratios, ridge: float | None, repeats: int = 1
) -> "Estimates":
    """Return the values of all keys, as the study asks.

    Args:
        study: whose level, shrinkage and value of unvisited states count.
        design: Phi and the weights, which may be others than at the release.
        ratios: the output of DP-SSP.
        ridge: lambda of LSL; None for LSW.
        repeats: in how many of several pooled releases one person may be.
    """
    return Estimates(
        ratios=ratios,
        design=design,
        unvisited=float(np.clip(study.values.unvisited_value, *ratios.bounds)),
        level=study.report.level,
        ridge=ridge,
        shrinkage=study.mechanism.shrinkage,
        features=study.shrink_targets,
        alike=study.limits.max_trajectories_per_person * repeats,
        arms=study.arm_count,
        state_of=None if study.pairs is None else study.pairs.state_of,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Estimates:
    """Values and the intervals that go with them, everything between the bounds of returns.

    Without a ridge: LSW of the means, which for tabular features are the values. With one: LSL,
    whose ridge takes the place of shrinkage.

    No return is outside of the bounds, so nothing is lost: an interval that covers a number covers,
    once both are moved, what the number becomes. Privacy intervals cover what the same estimator
    gives without noise. Total intervals are for V itself, the mean of returns as they count: they
    are made of the state's own sum and count, however well the features fit.
    """

    ratios: Ratios  # the output of DP-SSP
    design: Design  # Phi, and the weights w or rho
    unvisited: float  # what a state is worth that nobody visits
    level: float = 0.95  # of every interval and band
    ridge: float | None = None  # lambda of LSL
    shrinkage: bool = True  # whether rarely visited states are drawn towards the others
    features: Vector | None = None  # towards which they are drawn too, one row for each state
    # How many trajectories of one unit count, which may resemble each other; or how many of its
    # visits, state by state.
    alike: int | Vector = 1
    arms: int = 1  # the values of one are not drawn to another's
    state_of: Integers | None = None  # of keys that are pairs of a state and an action

    @cached_property
    def _shrunken(self) -> Shrunken | None:
        """Return the posterior of the means; None where there is no shrinkage."""
        keys = len(self.ratios.sums)
        if self.ridge is not None or not self.shrinkage or keys // self.arms < FEWEST_STATES:
            return None
        by_arm = [
            shrink(self.ratios[part], self.unvisited, features=self.features, states=self.state_of)
            for part in np.array_split(np.arange(keys), self.arms)
        ]
        means, deviations, own = map(np.concatenate, zip(*by_arm, strict=True))
        # Of many states some are outside of their own interval by chance, and what is outside by a
        # little may be moved far, if its count is small: a drawn value goes back only if all states
        # together leave hardly any doubt. Then its own numbers have decided.
        low, high = self.ratios.intervals(normal_quantile(max(self.level, SURE), keys))
        is_outside = (means < low) | (means > high)
        return Shrunken(np.clip(means, low, high), deviations, np.where(is_outside, 1.0, own))

    @cached_property
    def fit(self) -> Fit:
        """Return theta, with intervals for functions of it."""
        if self.ridge is not None:
            return fit_lsl(self.ratios, self.design, self.ridge)
        means = self.ratios.plain(self.unvisited)
        if self._shrunken is not None:
            means = self._shrunken.means
        elif self.design.is_tabular:
            means = np.clip(means, *self.ratios.intervals(normal_quantile(self.level)))
        return fit_lsw(self.ratios, means, self.design)

    @property
    def supported(self) -> NDArray[np.bool_]:
        """Return where the count is clear, and half of the value is made of the key's own numbers.

        Where features overlap states, they say what a value is made of.
        """
        if self._shrunken is None or not self.design.is_tabular:
            return self.clear
        return self.clear & (self._shrunken.own >= OWN)

    @cached_property
    def values(self) -> Vector:
        """Return the values of the keys."""
        return np.clip(self.design.values(self.fit.theta), *self.ratios.bounds)

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

    def intervals(self, z: float) -> tuple[Ends, Ends]:
        """Return the ends of privacy intervals, and of total ones."""
        around = self._ends(self.design.phi, self.values, z)
        return around, total_intervals(self.ratios, z, around, alike=self.alike)

    @cached_property
    def ends(self) -> dict[str, Ends]:
        """Return the ends at the level, and of total intervals that hold for all keys at once.

        Sidak's inequality holds whatever the correlations of their noise and sampling errors.
        """
        privacy, total = self.intervals(normal_quantile(self.level))
        _, band = self.intervals(normal_quantile(self.level, len(self.ratios.sums)))
        return {"": privacy, "total_": total, "total_band_": band}

    @cached_property
    def clear(self) -> NDArray[np.bool_]:
        """Return where the noisy count is above what no visits at all would give.

        With probability ``level`` no unvisited key is among them.
        """
        return self.ratios.clarity > clear_limit(self.level, len(self.ratios.counts))

    @cached_property
    def columns(self) -> dict[str, NDArray[Any]]:
        """Return the columns of a table, without labels and flags."""
        return {"value": self.values, "supported": self.supported, **name_ends(self.ends)}

    @property
    def flags(self) -> list[Flag]:
        """Return what noisy statistics say to be careful about.

        A mean of few people may be uncertain whatever the noise is, which is all that ``supported``
        looks at.
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

        It is a mixture of the fit's values, moved between the bounds as a whole.
        """
        mixtures, z = self._mixtures(start), normal_quantile(self.level)
        value = np.clip(mixtures @ self.design.values(self.fit.theta), *self.ratios.bounds)
        low, high = self._ends(mixtures @ self.design.phi, value, z)
        place = total_of_mixtures(self.ratios, mixtures, z, self.ends["total_"], alike=self.alike)
        total = np.minimum(low, place.low), np.maximum(high, place.high)
        return {"value": value, **name_ends({"": (low, high), "total_": total})}

    def _mixtures(self, start: Vector) -> Vector:
        """Return a distribution over the keys for each arm, in which it starts."""
        return np.asarray(np.kron(np.eye(self.arms), start), np.float64)

    def differences(
        self, start: Vector | None = None, *, independent: bool = True
    ) -> dict[str, Vector]:
        """Return the differences of the other arms from the first, as columns, arm after arm.

        Nobody is in two arms, and the noise of different keys is independent, so that half-widths
        add up as squares. Where one person may have trajectories in two arms, they are added up,
        and the intervals of both cover at (1 + level)/2: then both do with probability ``level`` at
        least, whatever the correlations (docs/proofs/arms-and-actions.md). Bands cover all values
        at once already.

        Args:
            start: a start distribution: the difference of overall values comes last in each arm.
            independent: whether nobody is in two arms.
        """
        z = normal_quantile(self.level if independent else (1 + self.level) / 2)
        total, band = self.intervals(z)[1], self.ends["total_band_"]
        own = self.ratios.plain(self.unvisited)
        located = np.array([Located(own, *ends, np.zeros_like(own)) for ends in (total, band)])
        located = located.reshape(2, 4, self.arms, -1)  # kind, part, arm, key
        values = self.values.reshape(self.arms, -1)
        if start is not None:
            mixtures = self._mixtures(start)
            place = total_of_mixtures(self.ratios, mixtures, z, total, alike=self.alike)
            overall = np.array([place, np.full_like(place, np.nan)])  # it has no band
            located = np.concatenate([located, overall[..., None]], axis=-1)
            values = np.column_stack([values, self.overall(start)["value"]])
        value = values[1:] - values[0]
        low, high, ends = value, value, {}
        for kind, part in zip(("total_", "total_band_"), located, strict=True):
            others, first = Located(*part[:, 1:]), Located(*part[:, :1])
            below, above = others.minus(first, self.ratios.bounds, independent=independent)
            low, high = np.minimum(low, below), np.maximum(high, above)
            ends[kind] = low.ravel(), high.ravel()
        return {"value": value.ravel(), **name_ends(ends)}

    def pool(self, state_of: Integers, most: int) -> "Estimates":
        """Return V from the statistics of pairs of a state and an action.

        The noise of a sum is the sum of independent normal numbers: privacy intervals are exact by
        the same argument. A trajectory may count for several actions of a state, at most
        min(A_s, H) of them: its visits may all be alike, as the trajectories of a person may
        (docs/proofs/arms-and-actions.md).

        Args:
            state_of: the state of every pair, ascending from 0.
            most: H.
        """
        actions = np.bincount(state_of)
        return replace(
            self,
            ratios=self.ratios.pooled(state_of),
            design=Design(phi=aggregation(len(actions), 1), weights=np.ones(len(actions))),
            ridge=None,
            features=None,
            alike=self.alike * np.minimum(actions, float(most)),
            state_of=None,
        )


def _texts(labels: Any) -> NDArray[Any]:
    return np.array([str(label) for label in labels], dtype=object)


def _labels(study: Study) -> dict[str, NDArray[Any]]:
    """Return the columns that say what each key is."""
    states, arms, pairs = _texts(study.names.names), _texts(study.arms.names), study.pairs
    if pairs is not None:
        actions = _texts(pairs.actions.names)
        return {"state": states[pairs.state_of], "action": actions[pairs.action_of]}
    return _by_arm(arms, states) if len(arms) else {"state": states}


def _by_arm(arms: NDArray[Any], states: NDArray[Any]) -> dict[str, NDArray[Any]]:
    return {"arm": np.repeat(arms, len(states)), "state": np.tile(states, len(arms))}


def _difference_table(
    study: Study, rows: dict[str, Vector], flags: Sequence[Flag], every: Sequence[str]
) -> ValueTable:
    """Return the differences of arms with labels, and with the flags of both values.

    The row of the overall value has no state, no band and no flags of its own.
    """
    arms, states = _texts(study.arms.names), _texts(study.names.names)
    more = 0 if study.start_distribution is None else 1
    labels = _by_arm(arms[1:], np.append(states, [None] * more))
    against = np.repeat(arms[:1], len(rows["value"]))

    def of_either(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
        by_arm = mask.reshape(len(arms), -1)
        return np.pad(by_arm[1:] | by_arm[0], ((0, 0), (0, more))).ravel()

    either = [(code, of_either(mask)) for code, mask in flags]
    return flagged_table({**labels, "against": against, **rows}, either, every)
