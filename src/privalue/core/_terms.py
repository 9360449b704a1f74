"""Public numbers: all that the core knows of a study.

| symbol      | here                        | meaning                                            |
|-------------|-----------------------------|----------------------------------------------------|
| N           | ``limits.keys``             | number of keys; a key is a state                   |
| gamma       | ``limits.discount``         | discount                                           |
| F_lo, F_hi  | ``limits.return_bounds``    | bounds of a first-visit return                     |
| H           | ``limits.most_keys``        | distinct keys that count per trajectory            |
| L           | ``limits.most_trajectories``| trajectories that count per unit                   |
| q           | ``limits.touched``          | most keys whose statistics differ between neighbours |

What is public about how many there are, ``PublicSize``, is the only size that a rule may use:

| unit, relation             | ``units``    | ``most_count``          | ``trajectories`` |
|----------------------------|--------------|-------------------------|------------------|
| trajectory, replace-one    | m, counted   | m                       | m                |
| person, replace-one        | U, counted   | U L                     | as declared      |
| either, add-remove         | nothing      | what the software takes | as declared      |
| either, if any are dropped | nothing      | what the software takes | as declared      |

Replacing one trajectory leaves m as it is, and replacing one person U: both may be published.
Replacing a person changes m, and adding or removing anyone changes both; so does replacing a unit
by one of which nothing is left, where invalid units or incomplete rows are dropped.
"""

from dataclasses import dataclass
from typing import Literal

MOST_TRAJECTORIES = 2**33 - 1  # 2^30 grid steps each: sums stay below 2^63


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one unit of privacy may contribute; settled before any data is opened."""

    unit: Literal["trajectory", "person"]
    neighbours: Literal["replace-one", "add-remove"]
    keys: int
    discount: float
    return_bounds: tuple[float, float]
    most_keys: int
    most_trajectories: int
    drop_invalid: bool = False  # a unit with an invalid row counts as nobody
    size_is_public: bool = True  # the number of units is the same for all neighbours

    @property
    def by_person(self) -> bool:
        """Whether a unit is a person, who may have several trajectories."""
        return self.unit == "person"

    @property
    def add_remove(self) -> bool:
        """Whether neighbours differ by one unit more or less, not by another one."""
        return self.neighbours == "add-remove"

    @property
    def touched(self) -> int:
        """Return q: the keys of one unit, or of two where one replaces the other."""
        one = self.most_keys * self.most_trajectories
        return min(self.keys, one if self.add_remove else 2 * one)
