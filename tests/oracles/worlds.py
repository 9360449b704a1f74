"""Slow twins: first-visit statistics by definition, pairs of visits on a product chain."""

from __future__ import annotations

from typing import Any

import numpy as np

from privalue.simulation import END, Episodes, MarkovRewardProcess


def first_visits(rows: Episodes, states: int, discount: float) -> tuple[Any, Any]:
    """Visits, and the return from each first visit: two (trajectories, states) tables.

    G <- r + gamma G from the last row of every trajectory to its first; an earlier visit of a
    state overwrites a later one.
    """
    visited = np.zeros((rows.trajectories, states), dtype=bool)
    returns = np.zeros((rows.trajectories, states))
    running = np.zeros(rows.trajectories)
    order = np.argsort(rows.step, kind="stable")
    bounds = np.searchsorted(rows.step[order], np.arange(rows.step.max() + 2))
    for t in range(rows.step.max(), -1, -1):
        now = order[bounds[t] : bounds[t + 1]]
        who, where = rows.trajectory[now], rows.state[now]
        running[who] = rows.reward[now] + discount * running[who]
        visited[who, where] = True
        returns[who, where] = running[who]
    return visited, returns


def pair_probabilities(process: MarkovRewardProcess, s: int, other: int) -> tuple[float, float]:
    """P[s and other visited] and P[s visited, other not], on the chain of (state, seen, seen).

    The process is run until nothing moves, with a bit for each of the two states.
    """
    outcomes = process.outcomes
    ended = np.zeros((2, 2))
    mass = np.zeros((process.states, 2, 2))
    for state, chance in enumerate(process.start):
        mass[state, int(state == s), int(state == other)] += chance
    while mass.sum() > 1e-15:
        following = np.zeros_like(mass)
        for k, successor in enumerate(outcomes.successors):
            flow = mass[outcomes.rows[k]] * outcomes.probabilities[k]
            if successor == END:
                ended += flow
                continue
            for seen in (0, 1):
                for seen_other in (0, 1):
                    following[
                        successor, seen | int(successor == s), seen_other | int(successor == other)
                    ] += flow[seen, seen_other]
        mass = following
    return ended[1, 1], ended[1, 0]
