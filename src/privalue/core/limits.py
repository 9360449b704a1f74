"""Define the public numbers of a study that the core works with.

| symbol      | here                        | meaning                                            |
|-------------|-----------------------------|----------------------------------------------------|
| N           | ``limits.keys``             | keys: states, (arm, state) or (state, action)      |
| gamma       | ``limits.discount``         | discount                                           |
| F_lo, F_hi  | ``limits.return_bounds``    | bounds of a first-visit return                     |
| H           | ``limits.max_states_per_trajectory`` | distinct keys that count per trajectory   |
| L           | ``limits.max_trajectories_per_person`` | trajectories that count per unit        |
| q           | ``limits.max_keys_changed`` | most keys whose statistics differ between neighbours |
| C           | ``limits.clip``             | the largest importance weight of a trajectory      |
| Phi, w, rho | ``design``                  | features, and weights of the regression            |

``Limits`` are fixed before any data is opened. ``Terms`` add the public sizes of the data set and
the constants of the mechanism that follow from them; the release publishes the terms that were
used.

``PublicSize`` has the sizes of the data set that are public; rules may use no others:

| unit, relation             | ``units``    | ``most_count``          | ``trajectories`` |
|----------------------------|--------------|-------------------------|------------------|
| trajectory, replace-one    | m, counted   | m                       | m                |
| person, replace-one        | U, counted   | U L                     | as declared      |
| either, add-remove         | None         | limit of the software   | as declared      |
| either, if any are dropped | None         | limit of the software   | as declared      |

Replacing one trajectory does not change m, and replacing one person does not change U: these may be
published. Replacing a person may change m, and adding or removing anyone changes both; so does
replacing a unit by an invalid one, if invalid units are dropped.
"""

import math
from dataclasses import dataclass
from typing import Literal

from privalue.core.kernel import GRID_STEPS
from privalue.errors import StudyError, read_texts

MAX_LEVELS = 12
MAX_TRAJECTORIES = 2**33 - 1  # 2^30 grid steps each: sums stay below 2^63


def refusal(code: str, **facts: object) -> StudyError:
    """Return the error of this code for public numbers, with these facts in its message."""
    return StudyError(read_texts(__file__, "messages.toml")[code].format(**facts), code=code)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one unit of privacy may contribute; fixed before any data is opened.

    ``Contributions`` enforces these numbers on every row, and every sensitivity is computed from
    the same object: noise and data cannot be held to different limits.
    """

    unit: Literal["trajectory", "person"]
    neighbours: Literal["replace-one", "add-remove"]
    keys: int
    arms: int  # key = arm * (keys / arms) + state; a unit has one arm
    max_states_per_trajectory: int  # H: distinct keys, which are states unless there are actions
    max_trajectories_per_person: int  # L; 1 where the unit is a trajectory
    discount: float
    return_bounds: tuple[float, float]
    reward_bounds: tuple[float, float]
    levels: int  # J: candidates for a private bound of returns, each twice as wide
    clip: float  # C with importance weights (each trajectory counts once, at its first key); or 0
    has_ends: bool  # rows may end a trajectory and have no key
    drop_invalid: bool  # a unit with an invalid row counts as absent
    drop_truncated: bool  # a unit with a truncated trajectory counts as absent
    size_is_public: bool  # the number of units is the same for all neighbours

    def __post_init__(self) -> None:
        (low, high), per_trajectory = self.return_bounds, self.max_states_per_trajectory
        # A unit that comes, goes or is dropped changes how many there are.
        size_changes = self.add_remove or self.drop_invalid or self.drop_truncated
        conditions = (
            self.unit in ("trajectory", "person"),
            self.neighbours in ("replace-one", "add-remove"),
            min(self.keys, per_trajectory, self.max_trajectories_per_person) >= 1,
            self.arms >= 1 and self.keys % self.arms == 0,
            1 <= self.levels <= MAX_LEVELS,
            0 < self.discount <= 1,  # NaN would pass every later check
            -1e300 <= low < high <= 1e300,
            self.reward_bounds[0] <= self.reward_bounds[1],
            self.clip == 0 or (1e-100 < self.clip < 1e100 and per_trajectory == 1),
            not (size_changes and self.size_is_public),
        )
        if not all(conditions):
            raise refusal("limits-invalid", limits=self)

    @property
    def add_remove(self) -> bool:
        """Return whether neighbours differ by adding or removing a unit, not by replacing one."""
        return self.neighbours == "add-remove"

    @property
    def largest_return(self) -> float:
        """Return F_abs, the largest absolute value of a return."""
        return max(map(abs, self.return_bounds))

    @property
    def max_keys_changed(self) -> int:
        """Return q: the most keys of one unit, or of two if one replaces the other.

        A unit counts for at most H keys in each of L trajectories, and L trajectories need not
        share keys (docs/proofs/dp-lsw.md, "q is 2HL, not 2H").
        """
        keys_of_unit = self.max_states_per_trajectory * self.max_trajectories_per_person
        return min(self.keys, keys_of_unit if self.add_remove else 2 * keys_of_unit)

    @property
    def centre_step(self) -> int:
        """Return ref, in grid steps: 0 moved between the bounds, and to an even step.

        All ends of intervals are even, so that their middles are whole steps.
        """
        low, high = self.return_bounds
        return 2 * round(GRID_STEPS / 2 * ((min(max(0.0, low), high) - low) / (high - low)))

    @property
    def smallest_radius(self) -> int:
        """Return B_0, in grid steps: even, and doubled J - 1 times it reaches both bounds.

        If possible, one of its doublings is the distance of the furthest reward from 0: where the
        only reward of a trajectory comes at its end, no return is further away.
        """
        (low, high), (least, most) = self.return_bounds, self.reward_bounds
        furthest = max(self.centre_step, GRID_STEPS - self.centre_step)
        zero = min(max(0.0, low), high)
        reward_distance = max(most - zero, zero - least) / (high - low) * GRID_STEPS
        reach = math.ceil(min(reward_distance + 2, furthest))  # 2 for the roundings
        radii = [2 * -(-reach >> doublings) for doublings in range(self.levels, 0, -1)]
        sufficient = [radius for radius in radii if radius << self.levels - 1 >= furthest]
        return sufficient[0] if sufficient else 2 * -(-furthest >> self.levels)

    def clamping_interval(self, level: int) -> tuple[int, int]:
        """Return [ref - B_j, ref + B_j] within the bounds, B_j = 2^j B_0, in grid steps."""
        bound = self.smallest_radius << level
        return max(self.centre_step - bound, 0), min(self.centre_step + bound, GRID_STEPS)

    @property
    def counts_trajectories(self) -> bool:
        """Return whether m is public, so that it may be counted from the data.

        Replacing a person may change how many trajectories there are, so m is private there.
        """
        return self.unit == "trajectory" and not self.add_remove and self.size_is_public


@dataclass(frozen=True, kw_only=True)
class PublicSize:
    """The sizes that are the same for all neighbours of a data set.

    A size that differs between neighbours must not enter a constant of the mechanism: the noise
    would depend on the data in a way that no proof covers.
    """

    units: int | None  # trajectories or persons, if their number may be published
    most_count: int  # no key's count can be larger
    trajectories: int | None  # for rules that need a number of trajectories

    @classmethod
    def of(
        cls, limits: Limits, declared: int | None, *, trajectories: int | None, persons: int | None
    ) -> "PublicSize":
        """Return the public ones of these numbers, by the table above.

        If the largest possible count follows from a number that is not known yet, its least value
        is used: a study that is refused with it would be refused with any data.

        Args:
            limits: the unit and the relation decide which sizes are public.
            declared: the number of trajectories that the study declares.
            trajectories: m, if it is known; used only if it is public.
            persons: U, likewise.

        Returns:
            The sizes that rules may use; None stands for a secret or unknown size.
        """
        if not limits.size_is_public:
            # Nothing may be counted: every count is bounded by the software's own limit.
            return cls(units=None, most_count=MAX_TRAJECTORIES, trajectories=declared)
        if limits.counts_trajectories:
            return cls(units=trajectories, most_count=trajectories or 1, trajectories=trajectories)
        # U persons with at most L trajectories each: the data's own m would be a private cap.
        most = limits.max_trajectories_per_person * (persons or 1)
        return cls(units=persons, most_count=most, trajectories=declared)
