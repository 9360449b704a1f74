"""Keep the privacy budget: reserved before data is opened, spent once statistics exist.

A dataset is a set of people, whatever files hold them. Somebody declares its total, and whom that
protects (a trajectory or a person, replaced or added and removed). Every release adds its epsilon
and delta to a plain sum, which is safe even if later questions depend on earlier answers; a release
that would exceed the total is refused. A release that protects another unit is converted by a
theorem, at its true cost, or refused. The record is append-only and hash-chained:

    reserve -> read -> charge -> draw -> commit -> publish
          \\-> cancel (invalid input)

A crash leaves at worst a reservation or a charge that no release used: it keeps counting until a
person settles it, or the process that drew left an outbox to commit from (``Ledger.charged``). The
record never shows less than was released.

>>> import tempfile
>>> folder = tempfile.TemporaryDirectory()
>>> ledger = open_ledger(folder.name + "/ledger.db")
>>> print(ledger.declare("trial-2026", epsilon=1.0, delta=1e-6, unit="trajectory").left)
epsilon 1, delta 1e-6
>>> request = study_hash({"name": "recovery"})
>>> promise = dict(epsilon=0.4, delta=1e-7, unit="trajectory", neighbours="replace-one")
>>> with ledger.reserve("trial-2026", request, **promise) as reservation:
...     head = reservation.charge()  # the data was read, and statistics exist
...     told = reservation.commit(f'{{"ledger": "{head}"}}')
>>> account = ledger.show("trial-2026")
>>> print(account.left, "| further releases of this size:", account.like_the_last)
epsilon 0.6, delta 9e-7 | further releases of this size: 1
>>> ledger.reserve("trial-2026", request, **promise, strict=False).artefact[:12]
'{"ledger": "'
>>> ledger.verify(head=head, strict=False).entries
5
>>> folder.cleanup()
"""

from privalue.errors import BudgetError, LedgerError, UnavailableError
from privalue.ledger._account import Account, Standing
from privalue.ledger._chain import study_hash
from privalue.ledger._evidence import Evidence
from privalue.ledger._ledger import Ledger, StoredRelease, Verified
from privalue.ledger._open import open_ledger
from privalue.ledger._requests import refusing
from privalue.ledger._reservation import Reservation
from privalue.ledger._signatures import MARK, require_signed, sign_head
from privalue.ledger._store import what_happened
from privalue.ledger._terms import BudgetTerms, Protection
from privalue.ledger._units import Cost

__all__ = [
    "MARK",
    "Account",
    "BudgetError",
    "BudgetTerms",
    "Cost",
    "Evidence",
    "Ledger",
    "LedgerError",
    "Protection",
    "Reservation",
    "Standing",
    "StoredRelease",
    "UnavailableError",
    "Verified",
    "open_ledger",
    "refusing",
    "require_signed",
    "sign_head",
    "study_hash",
    "what_happened",
]
