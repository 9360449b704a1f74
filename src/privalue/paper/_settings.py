"""Fix the paper's setting ([BGP16] section 6), and how much of it to run.

| symbol         | here                     | value                                   |
|----------------|--------------------------|-----------------------------------------|
| N, p, gamma    | ``WORLD``                | 40, 0.5, 0.99; the start is uniform     |
| epsilon, delta | ``EPSILON``, ``DELTA``   | 0.1, 0.1                                |
| Rmax/(1-gamma) | ``WIDE``                 | 100: what rewards in [0, 1] imply       |
| F_max          | ``TIGHT``                | 1: no return exceeds it, and it is public |
| m              | ``sizes(...)``           | 10 to 10^7                              |
| runs           | ``effort.runs``          | 20                                      |

Everything in experiments is made up and seeded: nothing here is private, and nothing that is
written from here may be taken for a private release.
"""

from dataclasses import dataclass

WORLD = "chain:N=40,p=0.5,discount=0.99"
STATES = 40
EPSILON, DELTA = 0.1, 0.1
WIDE, TIGHT = 100.0, 1.0
BOUNDS = (WIDE, TIGHT)
SEED = 20160620
SMALLEST, LARGEST = 10, 10**7


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How much of the paper's protocol is run."""

    name: str
    runs: int
    per_decade: int  # batch sizes in each decade

    def sizes(self, smallest: int = SMALLEST, largest: int = LARGEST) -> tuple[int, ...]:
        """Return batch sizes m, evenly on a logarithmic scale.

        >>> QUICK.sizes(10, 1000)
        (10, 100, 1000)
        """
        found, step = [], 0
        while (m := round(smallest * 10 ** (step / self.per_decade))) <= largest:
            found.append(m)
            step += 1
        return tuple(found)


FULL = Effort(name="full", runs=20, per_decade=4)
QUICK = Effort(name="quick", runs=5, per_decade=1)
