"""Define tabular MDPs with exact values and visit probabilities, and simulate them.

Nothing here is private or part of the trusted core: trajectories are simulated.
"""

from privalue.simulation.episodes import (
    CUT,
    Episodes,
    simulate,
    simulate_episodes,
    simulate_to_file,
)
from privalue.simulation.gymnasium import rollout
from privalue.simulation.mdp import END, MDP, MarkovRewardProcess, Outcomes, return_range
from privalue.simulation.seeded import SeededForExperimentsOnly
from privalue.simulation.truth import write_truth
from privalue.simulation.worlds import World, chain, garnet, parse_world
from privalue.simulation.worlds import world_of as world

__all__ = [
    "CUT",
    "END",
    "MDP",
    "Episodes",
    "MarkovRewardProcess",
    "Outcomes",
    "SeededForExperimentsOnly",
    "World",
    "chain",
    "garnet",
    "parse_world",
    "return_range",
    "rollout",
    "simulate",
    "simulate_episodes",
    "simulate_to_file",
    "world",
    "write_truth",
]
