"""Hold what only the curator may see, with advice on what to make of it."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from privalue.core import (
    Design,
    Lsl,
    Lsw,
    Ope,
    Perturbation,
    Private,
    Ssp,
    Stage,
    Statistics,
    Vector,
    sealed,
)
from privalue.errors import plural
from privalue.estimate import noise_factors, noisy_weights
from privalue.study import Study


@sealed
@dataclass(frozen=True, kw_only=True, repr=False, eq=False, slots=True)
class Diagnostics(Private):
    """What only the curator may see: the statistics, the estimate before noise, and the noise."""

    study: Study
    design: Design
    statistics: Statistics
    mechanism: Ssp | Lsw | Lsl  # public
    perturbation: Perturbation  # of the values, as if no stage had chosen anything
    level: int | None = None  # what a stage would choose if its own numbers had no noise
    theta: Vector  # before noise
    noise_by_state: Vector  # the standard deviation of the noise in every value
    by_query: bool = False  # the rows are the result of a query

    def _public_shape(self) -> str:
        return f"mechanism={self.study.mechanism.name!r}, states={self.study.state_count}"

    def private_fields(self) -> dict[str, Any]:
        """Return everything as plain values. PRIVATE: none of it may be published."""
        columns = self.private_columns()
        return {k: x.tolist() if isinstance(x, np.ndarray) else x for k, x in columns.items()}

    def private_columns(self) -> dict[str, Any]:
        """Return the same with arrays, for very many states. PRIVATE."""
        mechanism, perturbation = self.study.mechanism, self.perturbation
        psi, sigma, stages = perturbation.psi, perturbation.sigma, dict[str, Any]()
        if isinstance(self.mechanism, Ssp):
            noise = self.mechanism.noise_at(self.level)
            psi, sigma = noise.squared_sensitivity, noise.sigma
            if "bounds" in self.mechanism.stages:
                stages["likely_bounds"] = list(noise.bounds)
        return {
            "mechanism": mechanism.name,
            "calibration": mechanism.calibration,
            "noise": mechanism.noise,
            "trajectories": self.statistics.trajectories,
            **({"persons": self.statistics.persons} if self.statistics.persons else {}),
            "surplus_trajectories": self.statistics.surplus_trajectories,
            "surplus_visits": self.statistics.surplus_visits,
            "units_dropped": self.statistics.units_dropped,
            "rows_left_out": self.statistics.rows_left_out,
            "rows": self.statistics.rows,
            "rewards_clamped": self.statistics.rewards_clamped,
            "returns_clamped": self.statistics.returns_clamped,
            "counts": self.statistics.counts,
            "mean_returns": self.statistics.mean_returns(self.study.values.unvisited_value),
            "theta": self.theta,
            "values": self.design.values(self.theta),
            "alpha": self.mechanism.calibration.alpha,
            "beta": self.mechanism.calibration.beta,
            "psi": psi,
            "sigma": sigma,
            **stages,
            "noise_by_state": self.noise_by_state,
        }

    def warnings(self) -> list[str]:
        """Return what the curator should know before a release. PRIVATE, like everything here.

        Warnings follow from the data: a study that is changed because of them has no guarantee.
        """
        return [warning for warning, _ in self.advice()]

    def advice(self) -> list[tuple[str, str]]:
        """Return every warning with what to do about it. PRIVATE."""
        found = []
        low, high = self.study.return_bounds
        noise = np.where(self.design.weights > 0, self.noise_by_state, 0.0)
        drowned = int(np.count_nonzero(noise > (high - low) / 4))
        if drowned:
            found.append(
                (
                    f"the noise would drown the values of {drowned} of {len(noise)} states "
                    f"(standard deviation up to {noise.max():.3g}, returns range over "
                    f"{high - low:g}); more trajectories, tighter [values] returns, coarser states "
                    "or a larger epsilon help",
                    "plan again from the study alone, which says beforehand which values drown and "
                    "what it would take; do not choose states because of this warning",
                )
            )
        surplus = self.statistics.surplus_trajectories
        if surplus:
            found.append(
                (
                    f"{plural(surplus, 'trajectory')} beyond max_trajectories_per_person "
                    f"do{'es' * (surplus == 1)} not count, of "
                    f"{surplus + self.statistics.trajectories}",
                    "nothing, if the limit is what the protocol says; a larger one counts more of "
                    "them and adds noise to all values",
                )
            )
        found += dropped_units(self.study, self.statistics, by_query=self.by_query)
        beyond = self.statistics.surplus_visits
        if beyond:
            found.append(
                (
                    f"{beyond} first visits beyond max_states_per_trajectory do not count, of "
                    f"{beyond + int(self.statistics.counts.sum())}",
                    "nothing, if the limit is what the protocol says; a larger one counts more of "
                    "them and adds noise to all values",
                )
            )
        unvisited = int(np.count_nonzero(self.statistics.counts == 0))
        if unvisited:
            found.append(
                (
                    f"{unvisited} state(s) are visited by nobody: the noise stays large",
                    "release as it is: the page flags them where noisy counts are released. "
                    "Leaving them out because nobody came would reveal that nobody came",
                )
            )
        return found


def dropped_units(study: Study, statistics: Statistics, *, by_query: bool) -> list[tuple[str, str]]:
    """Return warnings on rows and units that were left out, as the study asks. PRIVATE."""
    found, dropped = [], statistics.units_dropped
    if dropped:
        have, do = ("has", "does") if dropped == 1 else ("have", "do")
        found.append(
            (
                f"{plural(dropped, study.privacy.unit)} {have} an invalid row and {do} not count; "
                "values are of the others",
                "look for the reason in the data's source, and mend it there for everybody",
            )
        )
    nobodys = statistics.rows_left_out
    if nobodys:
        belong, whose = ("belongs", "its") if nobodys == 1 else ("belong", "their")
        found.append(
            (
                f"{plural(nobodys, 'row')} {belong} to nobody, since {whose} id cannot be read",
                "look whether [data] id_type says what ids are in this source",
            )
        )
    if by_query:
        found.append(
            (
                "the rows are the result of a query. The guarantee is for the rows that the "
                "query returns: a join, a window or an aggregate across units is outside it",
                "read the query again: every row that it returns must come from one unit's "
                "rows alone",
            )
        )
    return found


@sealed
@dataclass(frozen=True, kw_only=True, repr=False, eq=False, slots=True)
class PolicyDiagnostics(Private):
    """What only the curator may see of another policy's value: everything up to the noise."""

    study: Study
    statistics: Statistics
    mechanism: Ope  # public
    perturbation: Perturbation
    by_query: bool = False  # the rows are the result of a query

    def _public_shape(self) -> str:
        return f"mechanism='dp-ope', clip={self.mechanism.terms.limits.clip:g}"

    def private_fields(self) -> dict[str, Any]:
        """Return everything as plain values. PRIVATE: none of it may be published."""
        columns = self.private_columns()
        return {k: x.tolist() if isinstance(x, np.ndarray) else x for k, x in columns.items()}

    def private_columns(self) -> dict[str, Any]:
        """Return the same with arrays. PRIVATE.

        Per start, or for all: the target's value by clipped weights (weighted importance
        sampling), the kept mass, and the behaviour's value.
        """
        statistics, (low, high) = self.statistics, self.study.return_bounds
        exact = noisy_weights(self.mechanism, self.perturbation.center.astype(np.float64))
        people, middle = np.maximum(statistics.counts, 1), 0.5 * low + 0.5 * high
        mass = np.where(exact.weights > 0, exact.weights, 1.0)
        return {
            "mechanism": "dp-ope",
            "calibration": self.study.mechanism.calibration,
            "noise": "laplace",
            "trajectories": statistics.trajectories,
            **({"persons": statistics.persons} if statistics.persons else {}),
            "surplus_trajectories": statistics.surplus_trajectories,
            "units_dropped": statistics.units_dropped,
            "rows_left_out": statistics.rows_left_out,
            "rows": statistics.rows,
            "rewards_clamped": statistics.rewards_clamped,
            "returns_clamped": statistics.returns_clamped,
            "weights_clipped": statistics.weights_clipped,
            "counts": statistics.counts,
            "mean_returns": statistics.mean_returns(middle),
            "weights": exact.weights,
            "kept_mass": exact.weights / people,
            "policy_values": middle + (high - low) * exact.weighted / mass,
            "behaviour_values": statistics.mean_returns(middle),
            "theta": np.zeros(0),
            "values": np.zeros(0),
            "alpha": self.mechanism.calibration.alpha,
            "beta": self.mechanism.calibration.beta,
            "psi": self.perturbation.psi,
            "sigma": self.perturbation.sigma,
        }

    def warnings(self) -> list[str]:
        """Return what the curator should know before a release. PRIVATE."""
        return [warning for warning, _ in self.advice()]

    def advice(self) -> list[tuple[str, str]]:
        """Return every warning with what to do about it. PRIVATE."""
        found = []
        clipped, valued = self.statistics.weights_clipped, self.statistics.trajectories
        if clipped:
            found.append(
                (
                    f"{clipped} of {valued} trajectories weigh more than clip, and count as clip",
                    "nothing, the release says how much weight was kept; do not choose another "
                    "clip because of this warning, since that would have no guarantee",
                )
            )
        return found + dropped_units(self.study, self.statistics, by_query=self.by_query)


def likely_level(mechanism: Ssp, statistics: Statistics) -> int | None:
    """Return what a stage would choose if what it releases had no noise. PRIVATE."""
    if "bounds" not in mechanism.stages:
        return None
    numbers = mechanism.perturb(statistics, "bounds").center.astype(np.float64)
    return mechanism.level([Stage(name="bounds", alpha=1.0, numbers=numbers, sigma=None)])


def noise_by_state(
    mechanism: Ssp | Lsw | Lsl, statistics: Statistics, sigma: float, level: int | None = None
) -> Vector:
    """Return the standard deviation of each value's noise. PRIVATE.

    For dp-ssp it is the noise of each state's mean, to first order, before any shrinkage, and with
    what earlier stages chose.
    """
    if not isinstance(mechanism, Ssp):
        return sigma * noise_factors(mechanism, mechanism.design.phi)
    noise, visits = mechanism.noise_at(level), np.maximum(statistics.counts, 1)
    centred = statistics.clamped_steps(noise.level) / visits - sum(noise.interval) / 2
    spread = np.hypot(noise.of_steps, centred * noise.of_counts)
    return np.asarray(spread * noise.step / visits)
