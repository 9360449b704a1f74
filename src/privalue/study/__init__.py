"""Hold what is public: the study file, parsed, checked, and resolved to the core's terms.

A study is complete before any data is opened; the data never adds to it. ``Study`` is what people
write, side files are named by it, and ``resolve`` turns all of it into the numbers that the core
works with. The release publishes these numbers, so an error here cannot hide: the release states
what was really done.
"""

from privalue.study.keywords import KEYWORDS
from privalue.study.sections import SMOOTH, about, implied_returns
from privalue.study.spreadsheets import as_cell
from privalue.study.state_tables import PairNames
from privalue.study.study import Study, described_values, files_named
from privalue.study.template import SECTIONS, study_template
from privalue.study.terms import (
    NEEDS_TRAJECTORIES,
    aggregation,
    declared_size,
    design,
    public_size,
    resolve,
    ridge_of,
)

__all__ = [
    "KEYWORDS",
    "NEEDS_TRAJECTORIES",
    "SECTIONS",
    "SMOOTH",
    "PairNames",
    "Study",
    "about",
    "aggregation",
    "as_cell",
    "declared_size",
    "described_values",
    "design",
    "files_named",
    "implied_returns",
    "public_size",
    "resolve",
    "ridge_of",
    "study_template",
]
