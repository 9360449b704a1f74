"""The block release, written out slowly: every pair of neighbours, in exact arithmetic.

Nothing here imports the package. A key has a list of possible vectors, each a tuple of Fractions;
a trajectory has, for each of at most H keys, one of the vectors of that key.
"""

import itertools
from fractions import Fraction


def dot(one, other):
    return sum((a * b for a, b in zip(one, other, strict=True)), Fraction(0))


def difference(one, other):
    return tuple(a - b for a, b in zip(one, other, strict=True))


def largest(vectors):
    """M_k."""
    return max(dot(v, v) for v in vectors)


def furthest(vectors):
    """D_k."""
    return max(dot(d, d) for v in vectors for w in vectors for d in [difference(v, w)])


def trajectories(keys, most_keys):
    """What each trajectory contributes to each key; None where it does not count."""
    for choice in itertools.product(*([None, *range(len(vectors))] for vectors in keys)):
        if sum(at is not None for at in choice) <= most_keys:
            yield choice


def squared_sensitivity(keys, shape, most_keys, *, add_remove=False):
    """The largest squared distance of neighbours, one trajectory each."""
    changes = []  # by key: the squared change, for each pair of vectors or absences
    for vectors, omega in zip(keys, shape, strict=True):
        nothing = tuple(Fraction(0) for _ in vectors[0])
        at = {None: nothing, **dict(enumerate(vectors))}
        changes.append(
            {
                (i, j): omega**2 * dot(difference(at[i], at[j]), difference(at[i], at[j]))
                for i in at
                for j in at
            }
        )
    kinds = list(trajectories(keys, most_keys))
    absent = [(None,) * len(keys)]
    return max(
        sum(change[i, j] for change, i, j in zip(changes, one, other, strict=True))
        for one in kinds
        for other in (absent if add_remove else kinds)
    )


def squared_sensitivity_of_persons(keys, shape, most_keys, times, *, add_remove=False):
    """The same for persons with up to ``times`` trajectories, whose contributions add up."""
    kinds = set()
    for person in itertools.product(trajectories(keys, most_keys), repeat=times):
        total = []
        for k, (vectors, omega) in enumerate(zip(keys, shape, strict=True)):
            parts = [vectors[t[k]] for t in person if t[k] is not None]
            size = len(vectors[0])
            total += [omega * sum((part[i] for part in parts), Fraction(0)) for i in range(size)]
        kinds.add(tuple(total))
    absent = [tuple(Fraction(0) for _ in next(iter(kinds)))]
    return max(
        dot(d, d)
        for one in kinds
        for other in (absent if add_remove else kinds)
        for d in [difference(one, other)]
    )
