"""Reproduce and surpass the paper's experiments; each one is settings, a run and plots.

>>> from privalue.paper import QUICK
>>> from privalue.paper._convergence import PANEL_1
>>> settings = PANEL_1.settings(QUICK)
>>> rows = PANEL_1.run(settings, 0)
>>> rows[0].algorithm, rows[0].trajectories, rows[0].measure
('LSW', 10, 'rmse')

Everything is made up and seeded: nothing here is private. ``docs/reproduction.md`` has the results.
"""

from privalue.paper._chain_sampler import chain_statistics
from privalue.paper._claims import described
from privalue.paper._reproduce import EXPERIMENTS, Reproduction, factor_text, reproduce
from privalue.paper._settings import FULL, QUICK

__all__ = [
    "EXPERIMENTS",
    "FULL",
    "QUICK",
    "Reproduction",
    "chain_statistics",
    "described",
    "factor_text",
    "reproduce",
]
