"""Hold what is public: the study file, parsed, checked, and resolved to the core's terms.

A study is complete before any data is opened; the data never adds to it. ``Study`` is what
people write, side files are named by it, and ``mechanism_for`` turns all of it into the
numbers that the core works with. The release publishes these numbers, so an error here cannot hide:
the release states what was really done.
"""

from privalue.study._features import aggregation, design
from privalue.study._keywords import keys_of
from privalue.study._mechanism import MECHANISM_KEYS
from privalue.study._names import PairNames
from privalue.study._sections import implied_returns
from privalue.study._spreadsheets import as_cell
from privalue.study._study import Study, described_values, files_named
from privalue.study._template import study_template
from privalue.study._terms import (
    SMOOTH,
    declared_size,
    entries_of,
    fits_by_lsl,
    gaussian_alpha,
    mechanism_for,
    policy_mechanism,
    public_size,
    refuse_early,
    required_trajectories,
    resolve_ridge,
    ridge_of,
    rules_that_need_trajectories,
)

__all__ = [
    "MECHANISM_KEYS",
    "SMOOTH",
    "PairNames",
    "Study",
    "aggregation",
    "as_cell",
    "declared_size",
    "described_values",
    "design",
    "entries_of",
    "files_named",
    "fits_by_lsl",
    "gaussian_alpha",
    "implied_returns",
    "keys_of",
    "mechanism_for",
    "policy_mechanism",
    "public_size",
    "refuse_early",
    "required_trajectories",
    "resolve_ridge",
    "ridge_of",
    "rules_that_need_trajectories",
    "study_template",
]
