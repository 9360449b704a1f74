"""Hold what only the curator may see."""

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
    Statistics,
    Vector,
    sealed,
)
from privalue.estimate import noisy_weights
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
            "by_query": self.by_query,
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
            "by_query": self.by_query,
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
