"""Slow twins of decision processes: exact fractions, sums over outcomes, plain recursion."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from privalue.simulation import END, MDP


def outcomes_of(mdp: MDP) -> list[list[list[tuple[Fraction, int, Fraction]]]]:
    """Every outcome of every state and action: its probability, successor and reward."""
    table = mdp.outcomes
    outcomes: list[list[list[tuple[Fraction, int, Fraction]]]] = [
        [[] for _ in range(mdp.actions)] for _ in range(mdp.states)
    ]
    for k, row in enumerate(table.rows):
        chance, reward = Fraction(float(table.probabilities[k])), float(table.rewards[k])
        state, action = divmod(int(row), mdp.actions)
        outcomes[state][action].append((chance, int(table.successors[k]), Fraction(reward)))
    return outcomes


def solve(system: list[list[Fraction]], right: list[Fraction]) -> list[Fraction]:
    """Gauss and Jordan, in fractions."""
    size = len(right)
    rows = [[*line, value] for line, value in zip(system, right, strict=True)]
    for column in range(size):
        pivot = next(r for r in range(column, size) if rows[r][column])
        rows[column], rows[pivot] = rows[pivot], rows[column]
        rows[column] = [x / rows[column][column] for x in rows[column]]
        for r in range(size):
            if r != column and rows[r][column]:
                factor = rows[r][column]
                rows[r] = [x - factor * y for x, y in zip(rows[r], rows[column], strict=True)]
    return [line[-1] for line in rows]


def action_values(mdp: MDP, policy: Any) -> list[list[Fraction]]:
    """Q, from the system of all pairs: Q(s, a) = E[r + gamma sum_a' pi(a' | s') Q(s', a')]."""
    outcomes, actions = outcomes_of(mdp), mdp.actions
    pi = [[Fraction(float(p)) for p in row] for row in policy]
    size, gamma = mdp.states * actions, Fraction(mdp.discount)
    system = [[Fraction(int(r == c)) for c in range(size)] for r in range(size)]
    right = [Fraction(0)] * size
    for state in range(mdp.states):
        for action in range(actions):
            row = state * actions + action
            for chance, successor, reward in outcomes[state][action]:
                right[row] += chance * reward
                if successor != END:
                    for then in range(actions):
                        system[row][successor * actions + then] -= (
                            gamma * chance * pi[successor][then]
                        )
    solution = solve(system, right)
    return [solution[state * actions : (state + 1) * actions] for state in range(mdp.states)]


def best_values(mdp: MDP, sweeps: int) -> list[float]:
    """The optimal V, by so many sweeps over all states, in plain Python."""
    outcomes = outcomes_of(mdp)
    plain = [[[(float(p), s, float(r)) for p, s, r in pair] for pair in of] for of in outcomes]
    values = [0.0] * mdp.states
    for _ in range(sweeps):
        values = [
            max(
                sum(p * (r + (0 if s == END else mdp.discount * values[s])) for p, s, r in pair)
                for pair in state
            )
            for state in plain
        ]
    return values
