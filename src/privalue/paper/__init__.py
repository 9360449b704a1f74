"""Reproduce and surpass the paper's experiments; ``theory`` has its theorems.

Everything is made up and seeded: nothing here is private. ``docs/reproduction.md`` has the results.
"""

from privalue.paper.chain import chain_statistics
from privalue.paper.experiments import EXPERIMENTS, FULL, QUICK
from privalue.paper.reproduction import Reproduction, reproduce

__all__ = [
    "EXPERIMENTS",
    "FULL",
    "QUICK",
    "Reproduction",
    "chain_statistics",
    "reproduce",
]
