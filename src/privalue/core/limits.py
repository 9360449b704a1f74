"""Hold the public numbers: all that the core knows of a study.

| symbol      | here                        | meaning                                            |
|-------------|-----------------------------|----------------------------------------------------|
| N           | ``limits.keys``             | keys: states, (arm, state) or (state, action)      |
| gamma       | ``limits.discount``         | discount                                           |
| F_lo, F_hi  | ``limits.return_bounds``    | bounds of a first-visit return                     |
| H           | ``limits.max_states_per_trajectory`` | distinct keys that count per trajectory   |
| L           | ``limits.max_trajectories_per_person`` | trajectories that count per unit        |
| q           | ``limits.touched``          | most keys whose statistics differ between neighbours |
| C           | ``limits.clip``             | the most that a trajectory weighs                  |
| Phi, w, rho | ``design``                  | features, and weights of the regression            |

``Limits`` are settled before any data is opened. ``Terms`` add the public sizes of the data set and
the constants of the mechanism that follow from them; they are published with the release, as they
were used.

What is public about how many there are, ``PublicSize``, is the only size that a rule may use:

| unit, relation             | ``units``    | ``most_count``          | ``trajectories`` |
|----------------------------|--------------|-------------------------|------------------|
| trajectory, replace-one    | m, counted   | m                       | m                |
| person, replace-one        | U, counted   | U L                     | as declared      |
| either, add-remove         | nothing      | what the software takes | as declared      |
| either, if any are dropped | nothing      | what the software takes | as declared      |

Replacing one trajectory leaves m as it is, and replacing one person U: both may be published.
Replacing a person changes m, and adding or removing anyone changes both; so does replacing a unit
by one of which nothing is left, where invalid units are dropped.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from privalue.core.design import Design
from privalue.core.kernel import GRID_STEPS, Vector
from privalue.errors import StudyError

MOST_LEVELS = 12
MOST_TRAJECTORIES = 2**33 - 1  # 2^30 grid steps each: sums stay below 2^63


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one unit of privacy may contribute; settled before any data is opened.

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
    clip: float  # C, where trajectories have weights: each counts once, at its first key; or 0
    drop_invalid: bool  # a unit with an invalid row counts as nobody
    drop_truncated: bool  # a unit with a trajectory that was cut off counts as nobody
    size_is_public: bool  # the number of units is the same for all neighbours

    def __post_init__(self) -> None:
        low, high = self.return_bounds
        most_keys = self.max_states_per_trajectory
        least = min(self.keys, most_keys, self.max_trajectories_per_person, self.arms)
        units, relations = ("trajectory", "person"), ("replace-one", "add-remove")
        named = self.unit in units and self.neighbours in relations
        # What a study never has: a discount that is no number would pass every later check.
        inside = -1e300 <= low < high <= 1e300 and self.reward_bounds[0] <= self.reward_bounds[1]
        whole = least >= 1 and 1 <= self.levels <= MOST_LEVELS and self.keys % self.arms == 0
        weighted = self.clip == 0 or (1e-100 < self.clip < 1e100 and most_keys == 1)
        # A unit that comes, goes or is dropped changes how many there are.
        secret = self.add_remove or self.drop_invalid or self.drop_truncated
        sized = not (secret and self.size_is_public)
        if not (named and whole and 0 < self.discount <= 1 and inside and weighted and sized):
            raise StudyError(f"these are no limits: {self}")

    @property
    def by_person(self) -> bool:
        """Return whether a unit is a person, who may have several trajectories."""
        return self.unit == "person"

    @property
    def add_remove(self) -> bool:
        """Return whether neighbours differ by one unit more or less, not by another one."""
        return self.neighbours == "add-remove"

    @property
    def keys_per_arm(self) -> int:
        """Return how many keys an arm has; N where there are no arms."""
        return self.keys // self.arms

    @property
    def touched(self) -> int:
        """Return q: the keys of one unit, or of two where one replaces the other.

        A unit counts for at most H keys in each of L trajectories, and L trajectories need not
        share keys (docs/proofs/dp-lsw.md, "q is 2HL, not 2H").
        """
        one = self.max_states_per_trajectory * self.max_trajectories_per_person
        return min(self.keys, one if self.add_remove else 2 * one)

    @property
    def reference(self) -> int:
        """Return ref, in grid steps: 0 moved between the bounds, and to an even step.

        All ends of intervals are even, so that their middles are whole steps.
        """
        low, high = self.return_bounds
        return 2 * round(GRID_STEPS / 2 * ((min(max(0.0, low), high) - low) / (high - low)))

    @property
    def nearest(self) -> int:
        """Return B_0, in grid steps: even, and doubled J - 1 times it reaches both bounds.

        Where it can be, some doublings of it are how far a single reward reaches: with one reward
        in a trajectory, at its end, no return is further away.
        """
        (low, high), (least, most) = self.return_bounds, self.reward_bounds
        furthest = max(self.reference, GRID_STEPS - self.reference)
        zero = min(max(0.0, low), high)
        away = max(most - zero, zero - least) / (high - low) * GRID_STEPS
        reach = math.ceil(min(away + 2, furthest))  # for the roundings of returns, and of ref
        aligned = [2 * -(-reach >> doublings) for doublings in range(self.levels, 0, -1)]
        enough = [bound for bound in aligned if bound << self.levels - 1 >= furthest]
        return enough[0] if enough else 2 * -(-furthest >> self.levels)

    def interval(self, level: int) -> tuple[int, int]:
        """Return [ref - B_j, ref + B_j] within the bounds, B_j = 2^j B_0, in grid steps."""
        bound = self.nearest << level
        return max(self.reference - bound, 0), min(self.reference + bound, GRID_STEPS)

    @property
    def counts_trajectories(self) -> bool:
        """Return whether m is public, so that it may be counted from the data.

        Replacing a person may change how many trajectories there are, so m is private there.
        """
        return self.unit == "trajectory" and not self.add_remove and self.size_is_public


@dataclass(frozen=True, kw_only=True)
class PublicSize:
    """The sizes that are the same for all neighbours of a data set.

    A size that differs between neighbours may not enter a constant of the mechanism: the noise
    would depend on the data in a way that nobody analysed.
    """

    units: int | None  # trajectories or persons, where their number may be published
    most_count: int  # no key's count can be larger
    trajectories: int | None  # for the rules that need a number of trajectories

    @classmethod
    def of(
        cls, limits: Limits, declared: int | None, *, trajectories: int | None, persons: int | None
    ) -> "PublicSize":
        """Return what is public of these numbers, by the table above.

        Where the most that a count can be follows from a number that is not known yet, the least
        that it can be is taken: a study that is refused with it would be refused with any data.

        Args:
            limits: whose unit and relation decide.
            declared: the number of trajectories that the study declares.
            trajectories: m, where it is known; used only where it is public.
            persons: U, likewise.

        Returns:
            The sizes that rules may use; None stands for a size that is secret or not known.
        """
        if not limits.size_is_public:
            # Nothing may be counted. What bounds every count is the limit of the program itself.
            return cls(units=None, most_count=MOST_TRAJECTORIES, trajectories=declared)
        if limits.counts_trajectories:
            return cls(units=trajectories, most_count=trajectories or 1, trajectories=trajectories)
        # U persons with at most L trajectories each: the data's own m would be a private cap.
        most = limits.max_trajectories_per_person * (persons or 1)
        return cls(units=persons, most_count=most, trajectories=declared)


@dataclass(frozen=True, kw_only=True)
class StageRules:
    """A public rule by which a stage chooses, from noisy numbers and their standard deviation.

    It is no part of the core: whatever it returns is checked, and costs accuracy at most.
    """

    name: str
    bound: Callable[[Vector, float], int]  # noisy trajectories by largest level -> a level


@dataclass(frozen=True, kw_only=True, eq=False)
class SspTerms:
    """The constants of DP-SSP."""

    shape: Vector  # omega: how precisely each key is released
    count_weight: float  # c_w, in units of R: what a count weighs beside a sum
    shares: Mapping[str, float]  # of mu^2, by stage; the values get the rest
    rules: StageRules | None


@dataclass(frozen=True, kw_only=True, eq=False)
class OpeTerms:
    """The constants of DP-OPE: what its numbers weigh beside the weighted return, in its range."""

    count_weight: float  # c_w: the weight of a trajectory
    value_weight: float  # c_b: its return without the weight
    size_weight: float  # c_m: one for each trajectory; 0 where their number is public


@dataclass(frozen=True, kw_only=True, eq=False)
class SmoothTerms:
    """The constants that DP-LSW and DP-LSL share."""

    calibration: Literal["exact", "nissim", "appendix"]
    beta: float | None  # None where the calibration says it


@dataclass(frozen=True, kw_only=True, eq=False)
class LswTerms(SmoothTerms):
    """The constants of DP-LSW."""

    whitened: bool
    pseudo_count: float  # kappa
    unvisited: float  # the value of a key that nobody visits, inside the bounds


@dataclass(frozen=True, kw_only=True, eq=False)
class LslTerms(SmoothTerms):
    """The constants of DP-LSL."""

    ridge: float  # lambda


@dataclass(frozen=True, kw_only=True, eq=False)
class Terms:
    """All that a release follows from besides the data; public.

    The release publishes this very object: an error made on the way from the study file to here
    gives a release that says what was really done.
    """

    epsilon: float
    delta: float
    limits: Limits
    size: PublicSize
    design: Design
    mechanism: Literal["dp-ssp", "dp-lsw", "dp-lsl", "dp-ope"]
    constants: SspTerms | LswTerms | LslTerms | OpeTerms
