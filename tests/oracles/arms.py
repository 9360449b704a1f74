"""Values by arm, written out slowly: what a unit can change, in exact arithmetic.

Nothing here imports the package. Returns are centred and in units of their range R; a key is a
pair of arm and state, a trajectory maps keys to returns, and all weights omega are 1.
"""

import itertools
from fractions import Fraction

HALF = Fraction(1, 2)


def trajectories(arms, states, most_keys, *, one_arm=True):
    """Every trajectory that can matter: its keys, of one arm or of any, and returns at bounds."""
    keys = list(itertools.product(range(arms), range(states)))
    for size in range(most_keys + 1):
        for visited in itertools.combinations(keys, size):
            if one_arm and len({arm for arm, _ in visited}) > 1:
                continue
            for returns in itertools.product((-HALF, HALF), repeat=size):
                yield dict(zip(visited, returns, strict=True))


def units(arms, states, most_keys, times, *, one_arm=True):
    """(visits, sums) by key of every unit of up to ``times`` trajectories; each kind once."""
    kinds = set()
    owned = list(trajectories(arms, states, most_keys, one_arm=one_arm))
    for unit in itertools.product(owned, repeat=times):
        if one_arm and len({arm for trajectory in unit for arm, _ in trajectory}) > 1:
            continue
        total = {}
        for trajectory in unit:
            for key, value in trajectory.items():
                visits, returns = total.get(key, (0, Fraction(0)))
                total[key] = visits + 1, returns + value
        kinds.add(frozenset(total.items()))
    return [dict(kind) for kind in kinds]


def squared_distance(one, other, squared_count_weight):
    """How far two units are apart: sum over keys of (T - T')^2 + c_w^2 (n - n')^2."""
    nothing = (0, Fraction(0))
    return sum(
        (
            (one.get(key, nothing)[1] - other.get(key, nothing)[1]) ** 2
            + squared_count_weight * (one.get(key, nothing)[0] - other.get(key, nothing)[0]) ** 2
            for key in one.keys() | other.keys()
        ),
        Fraction(0),
    )


def squared_sensitivity(
    arms, states, most_keys, squared_count_weight, times=1, *, add_remove=False, one_arm=True
):
    """The largest squared distance of neighbours, by trying all of them."""
    kinds = units(arms, states, most_keys, times, one_arm=one_arm)
    return max(
        squared_distance(one, other, squared_count_weight)
        for one in kinds
        for other in ([{}] if add_remove else kinds)
    )
