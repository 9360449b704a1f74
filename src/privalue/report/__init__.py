"""Write what people read: pages, tables, figures, and the entry for a registry of deployments.

The public page is made of a release, its study and its account, and of nothing private. The
curator's page is handed its diagnostics by whoever asked for them; this room knows them by their
shape alone.
"""

from privalue.report._another_policy import (
    doubts,
    policy_lines,
    unchecked_words,
    verdict_words,
)
from privalue.report._answers import answers_in
from privalue.report._curators import PrivateDiagnostics
from privalue.report._guesses import Guesses, guess, guessed_json, listed, named
from privalue.report._limits import heading, restriction_in_words
from privalue.report._page_arms import DIFFERENCES_COVER, ends_of
from privalue.report._pages import load_page
from privalue.report._plan_words import (
    answer_in_words,
    approximation_shown,
    keys_of,
    misfit_known,
    name_of,
    pairs_in_words,
    paragraph,
    steadied,
    verdict,
)
from privalue.report._policy_page import policy_page
from privalue.report._precision import require_same_study
from privalue.report._private_page import DATA_WORDS, require_private_place, write_private_page
from privalue.report._public_page import public_page
from privalue.report._publish import Published, publish, release_page, write_report, write_text
from privalue.report._rows import is_refuted, kept_mass, policies, policy_row, rows_of, whole
from privalue.report._spending import account_rows, charge_words, request_for, statement_rows
from privalue.report._states import bits_of, state_table
from privalue.report._verdict import accepted_in_words

__all__ = [
    "DATA_WORDS",
    "DIFFERENCES_COVER",
    "Guesses",
    "PrivateDiagnostics",
    "Published",
    "accepted_in_words",
    "account_rows",
    "answer_in_words",
    "answers_in",
    "approximation_shown",
    "bits_of",
    "charge_words",
    "doubts",
    "ends_of",
    "guess",
    "guessed_json",
    "heading",
    "is_refuted",
    "kept_mass",
    "keys_of",
    "listed",
    "load_page",
    "misfit_known",
    "name_of",
    "named",
    "pairs_in_words",
    "paragraph",
    "policies",
    "policy_lines",
    "policy_page",
    "policy_row",
    "public_page",
    "publish",
    "release_page",
    "request_for",
    "require_private_place",
    "require_same_study",
    "restriction_in_words",
    "rows_of",
    "state_table",
    "statement_rows",
    "steadied",
    "unchecked_words",
    "verdict",
    "verdict_words",
    "whole",
    "write_private_page",
    "write_report",
    "write_text",
]
