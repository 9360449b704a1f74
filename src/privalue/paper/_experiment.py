"""What an experiment is: settings, a run, a picture. A module of a page makes one.

``settings`` says what is run for an effort, as plain numbers and texts; ``run`` computes the rows
of one run, and needs nothing but the settings and the run's number; each of ``plots`` draws the
table of all runs. Storing, resuming, parallel work, files: the runner does that for all of them.
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
    """One panel, or one of ours."""

    name: str  # of its tables
    title: str
    settings: Callable[[Effort], S]  # a frozen dataclass of plain values
    run: Callable[[S, int], list[TableRow]]  # a function of a module, so that a process can find it
    plots: Mapping[str, Callable[[S, ResultTable], Figure]]  # by the name of the picture


AnyExperiment = Experiment[Any]
