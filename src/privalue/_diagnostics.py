"""Hold what only the curator may see, with advice on what to make of it."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from privalue.core import Design, Mechanism, Perturbation, Private, Vector, VisitStatistics, sealed
from privalue.study import Study


@sealed
@dataclass(frozen=True, kw_only=True, repr=False, eq=False, slots=True)
class Diagnostics(Private):
    """What only the curator may see: the statistics, the estimate before noise, and the noise."""

    study: Study
    design: Design
    statistics: VisitStatistics
    mechanism: Mechanism  # public
    perturbation: Perturbation
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
            "rows_missing": self.statistics.rows_missing,
            "rows": self.statistics.rows,
            "rewards_clamped": self.statistics.rewards_clamped,
            "returns_clamped": self.statistics.returns_clamped,
            "counts": self.statistics.counts,
            "mean_returns": self.statistics.mean_returns(self.study.values.unvisited_value),
            "theta": self.theta,
            "values": self.design.values(self.theta),
            "alpha": self.mechanism.calibration.alpha,
            "beta": self.mechanism.calibration.beta,
            "psi": perturbation.psi,
            "sigma": perturbation.sigma,
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
                    "plan again from the study alone, which says beforehand what is drowned and "
                    "what it would take; do not choose states by what stands here",
                )
            )
        surplus = self.statistics.surplus_trajectories
        if surplus:
            found.append(
                (
                    f"{surplus} trajectories beyond max_trajectories_per_person do not count, of "
                    f"{surplus + self.statistics.trajectories}",
                    "nothing, if the limit is what the protocol says; a larger one counts more of "
                    "them and adds noise to all values",
                )
            )
        found += self._dropped()
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

    def _dropped(self) -> list[tuple[str, str]]:
        """Return warnings on rows and units that were left out, as the study asks. PRIVATE."""
        found, unit = [], "persons" if self.study.privacy.unit == "person" else "trajectories"
        statistics = self.statistics
        if statistics.units_dropped:
            found.append(
                (
                    f"{statistics.units_dropped} {unit} have an invalid row and do not count; "
                    "values are of the others",
                    "look for the reason in the data's source, and mend it there for everybody",
                )
            )
        if statistics.rows_left_out:
            found.append(
                (
                    f"{statistics.rows_left_out} rows belong to nobody, since their id cannot be "
                    "read",
                    "look whether [data] id_type says what ids are in this source",
                )
            )
        if statistics.rows_missing:
            found.append(
                (
                    f"{statistics.rows_missing} rows without state or reward were dropped",
                    "nothing, if such rows mean nothing; else [data] missing_rows = "
                    '"invalid" drops or refuses whole units',
                )
            )
        if self.by_query:
            found.append(
                (
                    "the rows are the result of a query. The guarantee is for the rows that the "
                    "query returns: a join, a window or an aggregate across units is outside it",
                    "read the query again: every row that it returns must come from one unit's "
                    "rows alone",
                )
            )
        return found
