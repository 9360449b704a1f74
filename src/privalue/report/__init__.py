"""Describe releases, studies, plans and accounts, and write reports for people.

``describe`` turns a release into facts, notices and tables; page, notebook, terminal, registry and
JSON are loops over these. The public page is made from a release and its account only. The
curator's private page is made from diagnostics that its caller passes.
"""

from privalue.report.accounts import (
    describe_account,
    describe_statement,
    statement_rows,
)
from privalue.report.checking import StudyCheck, check
from privalue.report.description import Description, Listing
from privalue.report.files import read_answers, write_text
from privalue.report.guarantee import detection
from privalue.report.html import load_page, notebook_html, say_notice, sentence
from privalue.report.numbers import format_interval
from privalue.report.plans import describe_plan
from privalue.report.plots import plot_plan, plot_release, save_figure
from privalue.report.policies import describe_policy, policy_record, save_policy
from privalue.report.private_page import (
    describe_diagnostics,
    require_private_place,
    write_private_page,
)
from privalue.report.publishing import ReleaseFiles, publish, write_report
from privalue.report.release_facts import describe

__all__ = [
    "Description",
    "Listing",
    "ReleaseFiles",
    "StudyCheck",
    "check",
    "describe",
    "describe_account",
    "describe_diagnostics",
    "describe_plan",
    "describe_policy",
    "describe_statement",
    "detection",
    "format_interval",
    "load_page",
    "notebook_html",
    "plot_plan",
    "plot_release",
    "policy_record",
    "publish",
    "read_answers",
    "require_private_place",
    "save_figure",
    "save_policy",
    "say_notice",
    "sentence",
    "statement_rows",
    "write_private_page",
    "write_report",
    "write_text",
]
