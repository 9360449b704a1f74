"""Define the public study: the study file is parsed, checked, and resolved to the core's terms.

A study is complete before any data is opened; the data never adds to it. ``Study`` is what people
write, side files are named by it, and ``resolve`` turns all of it into the numbers that the core
works with. The release publishes these numbers, so an error here cannot hide: the release states
what was really done.
"""

from privalue.study.keywords import place_keywords
from privalue.study.messages import describe_key
from privalue.study.names import aggregation
from privalue.study.policies import policy_table
from privalue.study.sections import SECTIONS, SMOOTH, column_key, implied_returns
from privalue.study.side_files import hash_matrix
from privalue.study.study import Study, described_values
from privalue.study.template import study_template
from privalue.study.terms import declared_size, design, public_size, resolve, ridge_of

__all__ = [
    "SECTIONS",
    "SMOOTH",
    "Study",
    "aggregation",
    "column_key",
    "declared_size",
    "describe_key",
    "described_values",
    "design",
    "hash_matrix",
    "implied_returns",
    "place_keywords",
    "policy_table",
    "public_size",
    "resolve",
    "ridge_of",
    "study_template",
]
