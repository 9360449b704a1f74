"""Judge whether a stored text is the release that a reservation was charged for.

Whoever may release may write entries and artefacts by hand. So a text that answers a request must
say itself what the record says of it: the study, the promise that was paid for, and the charge. A
false release then costs what a true one does.
"""

from privalue.errors import UsageError
from privalue.ledger._balance import Held, protection
from privalue.ledger._chain import loosely, study_hash
from privalue.ledger._units import cost


def fault(text: str | None, held: Held, *, strict: bool) -> str | None:
    """Return what keeps a text from being the release of a reservation, or None if nothing does.

    Args:
        text: what is stored; None, if nothing is.
        held: the reservation, with its charge.
        strict: whether a text of another form is no release; else only one with the keys
            ``schema_version`` and ``privacy`` is judged.
    """
    said = loosely(text or "")
    if not strict and not {"schema_version", "privacy"} <= said.keys():
        return None if text is not None else "it is not there"
    try:
        if study_hash(said["study"]) != held.study:
            return "it is of another study"
        for promise in (said["privacy"], said["study"]["privacy"]):
            paid = cost(held.dataset, promise["epsilon"], promise["delta"])
            if (paid, protection(promise)) != (held.asked, held.protection):
                return "it promises something else than was paid for"
        if said["ledger_head"] != held.head or said["private"] is not True:
            return "it states another charge, or none"
    except (KeyError, TypeError, ValueError, RecursionError, UsageError):
        return "it is no release" if text is not None else "it is not there"
    return None
