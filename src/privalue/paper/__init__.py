"""Reproduce the paper's experiments, and compare with better methods; ``theory`` has its theorems.

All data are simulated with fixed seeds: nothing here is private. ``docs/reproduction.md`` has the
results.
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
