"""Tabular MDPs with exact values and visit probabilities, and their simulation.

Nothing here is part of the trusted core, and nothing here is private: worlds are made up, and so
are their trajectories.
"""

from privalue.mdp.chain_sampler import ChainStatistics, chain_statistics
from privalue.mdp.files import SimulatedFile, simulate_to_file
from privalue.mdp.icu_sepsis import icu_sepsis
from privalue.mdp.markov import MDP, MarkovRewardProcess
from privalue.mdp.names import parse_world
from privalue.mdp.outcomes import END, Outcomes
from privalue.mdp.policies import Policy, optimal_policy
from privalue.mdp.rollouts import rollout
from privalue.mdp.simulation import Chunk, Episodes, simulate_chunks, simulate_episodes
from privalue.mdp.toy_text import from_gymnasium, toy_text
from privalue.mdp.visits import VisitProbabilities
from privalue.mdp.worlds import World, chain, grid, random_chain

__all__ = [
    "END",
    "MDP",
    "ChainStatistics",
    "Chunk",
    "Episodes",
    "MarkovRewardProcess",
    "Outcomes",
    "Policy",
    "SimulatedFile",
    "VisitProbabilities",
    "World",
    "chain",
    "chain_statistics",
    "from_gymnasium",
    "grid",
    "icu_sepsis",
    "optimal_policy",
    "parse_world",
    "random_chain",
    "rollout",
    "simulate_chunks",
    "simulate_episodes",
    "simulate_to_file",
    "toy_text",
]
