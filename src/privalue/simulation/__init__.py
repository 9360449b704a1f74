"""Define tabular MDPs with exact values and visit probabilities, and simulate them.

Nothing here is part of the trusted core, and nothing here is private: worlds are made up, and so
are their trajectories.
"""

from privalue.simulation._files import simulate, simulate_to_file
from privalue.simulation._icu_sepsis import icu_sepsis
from privalue.simulation._markov import MDP, MarkovRewardProcess
from privalue.simulation._names import parse_world
from privalue.simulation._outcomes import END, Outcomes
from privalue.simulation._policies import Policy, optimal_policy
from privalue.simulation._policy_files import policy_of, read_policy, write_policy
from privalue.simulation._rollouts import rollout
from privalue.simulation._simulation import (
    CUT,
    Episodes,
    simulate_batches,
    simulate_episodes,
)
from privalue.simulation._toy_text import from_gymnasium, toy_text
from privalue.simulation._truth import return_range, write_truth
from privalue.simulation._worlds import World, chain, garnet

__all__ = [
    "CUT",
    "END",
    "MDP",
    "Episodes",
    "MarkovRewardProcess",
    "Outcomes",
    "Policy",
    "World",
    "chain",
    "from_gymnasium",
    "garnet",
    "icu_sepsis",
    "optimal_policy",
    "parse_world",
    "policy_of",
    "read_policy",
    "return_range",
    "rollout",
    "simulate",
    "simulate_batches",
    "simulate_episodes",
    "simulate_to_file",
    "toy_text",
    "write_policy",
    "write_truth",
]
