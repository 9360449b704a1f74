"""Account for the privacy budget: the total of a dataset, charges, and their releases.

A dataset is a set of people, whatever files hold their rows. Its total is declared with the
unit that it protects (a trajectory or a person) and the neighbouring relation. The costs of
releases are summed, which is valid even if later releases are chosen adaptively; a release that
would exceed the total is refused. A release that protects another unit is converted by group
privacy, at its exact cost, or refused::

    find -> read -> charge -> draw -> store -> commit -> publish

Nothing is recorded before the charge. A charge without a release stays spent. Entries are
append-only and hash-chained, each holds the balance after it, and the database itself refuses
entries that do not add up (``store``).

>>> import tempfile
>>> folder = tempfile.TemporaryDirectory()
>>> ledger = open_ledger(folder.name + "/ledger.db")
>>> print(ledger.declare("trial-2026", epsilon=1.0, delta=1e-6, unit="trajectory").left)
epsilon 1, delta 1e-6
>>> promise = dict(epsilon=0.4, delta=1e-7, unit="trajectory", neighbours="replace-one")
>>> study = study_hash({"name": "recovery"})
>>> request = ReleaseRequest(dataset="trial-2026", study=study, what="recovery", **promise)
>>> charge = ledger.charge(request, token="random")
>>> ledger.commit(charge, f'{{"ledger_head": "{charge.head}"}}')
>>> print(ledger.account("trial-2026").left)
epsilon 0.6, delta 9e-7
>>> ledger.find(request).release[:15]
'{"ledger_head":'
>>> ledger.verify(heads=[charge.head]).entries
3
>>> folder.cleanup()
"""

from privalue.ledger.account import Account, StatementLine
from privalue.ledger.amounts import MU2, Amount
from privalue.ledger.entries import DATASET_NAME, ReleaseRequest, study_hash
from privalue.ledger.gaussian import epsilon_of, mu2_of_alpha
from privalue.ledger.ledger import Charge, EarlierCharge, Ledger, open_ledger
from privalue.ledger.outbox import OUTBOX_NAME, Envelope, Outbox
from privalue.ledger.signals import defer_signals
from privalue.ledger.store import UnknownOutcomeError
from privalue.ledger.terms import BudgetTerms, Protection
from privalue.ledger.verify import Verification

__all__ = [
    "DATASET_NAME",
    "MU2",
    "OUTBOX_NAME",
    "Account",
    "Amount",
    "BudgetTerms",
    "Charge",
    "EarlierCharge",
    "Envelope",
    "Ledger",
    "Outbox",
    "Protection",
    "ReleaseRequest",
    "StatementLine",
    "UnknownOutcomeError",
    "Verification",
    "defer_signals",
    "epsilon_of",
    "mu2_of_alpha",
    "open_ledger",
    "study_hash",
]
