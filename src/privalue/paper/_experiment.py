"""Define what an experiment is: settings, a run, and plots.

``settings`` says what is run for an effort, as plain numbers and texts; ``run`` computes the rows
of one run, and needs nothing but the settings and the run's number; each of ``plots`` draws the
table of all runs. The runner stores and resumes the runs, and spreads them over processes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from privalue.paper._settings import Effort
from privalue.paper._table import ResultTable, TableRow
from privalue.report.drawing import Figure

S = TypeVar("S")


@dataclass(frozen=True, kw_only=True)
class Experiment(Generic[S]):
    """One panel of the paper, or an experiment of ours."""

    name: str  # of its tables
    title: str
    settings: Callable[[Effort], S]  # a frozen dataclass of plain values
    run: Callable[[S, int], list[TableRow]]  # a function of a module, so that a process can find it
    plots: Mapping[str, Callable[[S, ResultTable], Figure]]  # by the name of the figure


AnyExperiment = Experiment[Any]
