"""The weight that clipping keeps, written out slowly, row by row.

Nothing here imports the package.
"""

import itertools


def least_kept(target, behaviour, clip, steps, weight=1.0):
    """V_T(0): the least mean of min(1, C/w) under the target, whatever states come."""
    if steps == 0:
        return min(1.0, clip / weight)
    return min(
        sum(
            chance * least_kept(target, behaviour, clip, steps - 1, weight * chance / other)
            for chance, other in zip(choices, others, strict=True)
            if chance > 0 and other > 0
        )
        for choices, others in zip(target, behaviour, strict=True)
    )


def kept_in_a_world(start, moves, target, behaviour, clip, steps):
    """E min(w, C) under the behaviour, over all paths of exactly so many rows."""
    states, actions = len(target), len(target[0])
    total = 0.0
    for path in itertools.product(range(states), repeat=steps):
        for chosen in itertools.product(range(actions), repeat=steps):
            chance, weight = start[path[0]], 1.0
            for at, (state, action) in enumerate(zip(path, chosen, strict=True)):
                chance *= behaviour[state][action]
                if at + 1 < steps:
                    chance *= moves[state][action][path[at + 1]]
                if behaviour[state][action] > 0:
                    weight *= target[state][action] / behaviour[state][action]
            total += chance * min(weight, clip)
    return total
