"""Compare a ledger with heads and releases: those kept elsewhere, and those that it stores itself.

Whoever may release may write entries and artefacts by hand. So a text that answers a request must
say itself what the record says of it: the study, the promise that was paid for, and the charge. A
false release then costs what a true one does.
"""

import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from privalue.errors import LedgerError, UsageError
from privalue.ledger._balance import Held, protection
from privalue.ledger._book import PAID, Book
from privalue.ledger._chain import check_hash, loosely, sha256, study_hash
from privalue.ledger._squares import is_certified
from privalue.ledger._terms import over_steps
from privalue.ledger._units import NOTHING, Cost, cost

GAUSSIANS = frozenset({"dp-ssp", "dp-ope"})  # of others the sigma is private: they have no mu
MECHANISMS = GAUSSIANS | {"dp-lsw", "dp-lsl"}  # whose names are shown, and no other text
_ROUNDING = 1e-12  # of a mu that is written as a double


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What must be found on a ledger: a head, or the text of a release, or both."""

    name: str | None = None  # what messages call it
    head: str | None = None
    artefact: str | None = None
    ledger: str | None = None  # which ledger it was kept of, if that is known

    def of_another(self, place: str) -> bool:
        """Return whether it was kept of a ledger that is not the one of this name."""
        if self.ledger is None or self.ledger == place:
            return False
        files = "://" not in self.ledger + place
        return not files or os.path.realpath(self.ledger) != os.path.realpath(place)

    def missing(self, book: Book) -> str | None:
        """Return what is not on the record, and what that may mean; None if all is.

        Args:
            book: every entry of the ledger.
        """
        if self.head is not None and check_hash("the head", self.head) not in book.hashes:
            return (
                f"no entry has the hash {self.head}: the last entries were removed, all was "
                f"rewritten, or {self.name or 'it'} belongs to another ledger"
            )
        released = None if self.artefact is None else sha256(self.artefact)
        if released is not None and not any(
            held.artefact == released and self.head in {None, held.head}
            for held in book.reservations.values()
        ):
            return (
                f"no entry commits {self.name or 'this release'}: it was changed, its entry was "
                "removed, or it was made with another ledger or with none"
            )
        return None


def require_found(evidence: Iterable[Evidence], book: Book, place: str) -> tuple[str, ...]:
    """Require on the record what was kept of this ledger.

    Args:
        evidence: what was kept, of other ledgers too.
        book: every entry of the ledger.
        place: the ledger's name.

    Returns:
        A line on what is not there because it is another ledger's.

    Raises:
        LedgerError: something is missing.
        UsageError: nothing of it is this ledger's, so that it would show nothing.
    """
    checked, others = 0, list[str]()
    for given in evidence:
        missing = given.missing(book)
        if missing is None:
            checked += given.head is not None or given.artefact is not None
        elif given.of_another(place):
            others.append(str(given.ledger))
        else:
            raise LedgerError(missing)
    if not others:
        return ()
    told = f"{len(others)} of other ledgers ({', '.join(sorted(set(others)))})"
    if not checked:
        raise UsageError(
            f"no head that was given is of the ledger {place}, but {told}; give one of its own, or "
            "a hash without a name, which must be on the record"
        )
    return (f"heads that were skipped: {told}",)


def artefact_faults(book: Book, artefacts: Iterable[tuple[str, str]], *, strict: bool) -> list[str]:
    """Return what is wrong with the stored artefacts, the first entry's first.

    Args:
        book: every entry of the ledger.
        artefacts: hashes and texts, as they are stored.
        strict: as for ``fault``.
    """
    committed = [held for held in book.reservations.values() if held.artefact is not None]
    owners: dict[str | None, list[Held]] = {}
    for held in committed:
        owners.setdefault(held.artefact, []).append(held)
    kept, faults = dict[str, str](), dict[int, str | None]()
    for digest, text in artefacts:
        kept[digest] = sha256(text)
        for held in owners.get(digest, ()):
            faults[held.sequence] = fault(text, held, strict=strict)
    wrong = []
    for held in committed:
        which = f"the artefact of entry {held.sequence}"
        if kept.get(held.artefact or "") != held.artefact:
            wrong.append(f"{which} was changed or removed")
        elif faults[held.sequence]:
            wrong.append(f"{which} is false: {faults[held.sequence]}")
    inserted = sorted(set(kept) - {held.artefact for held in committed})
    return wrong + [f"the artefact {each} was inserted: no entry commits it" for each in inserted]


def uncountable(
    book: Book, dataset: str, pools: Cost, stored: Callable[[str], str | None]
) -> str | None:
    """Return which release of a dataset cannot be counted in squares, and why.

    One has a mu that does not describe it, by what it says itself: a plain book counts no mu, so
    that nobody found out before a move counts by it. Or it has none, and needs a plain pool.

    Args:
        book: every entry of the ledger.
        dataset: whose releases.
        pools: of the total that is declared.
        stored: the text of an artefact, by its hash.
    """
    without = NOTHING
    first = None
    for held in book.reservations.values():
        if held.dataset != dataset or held.status not in PAID:
            continue
        if held.mu not in {"", "none"}:
            wrong = held.artefact and fault(stored(held.artefact), held, strict=False)
            if wrong:
                return (
                    f"the artefact of entry {held.sequence} is false: {wrong}; it cannot be "
                    "counted anew"
                )
        elif held.asked.delta:
            first, without = first or held, without + over_steps(held.asked, held.steps)
    if first is None or pools.epsilon:
        return None
    by = loosely((first.artefact and stored(first.artefact)) or "").get("mechanism")
    named = f" by {by}" if isinstance(by, str) and by in MECHANISMS else ""
    return (
        f"the release of {first.at[:10]}{named} (entry {first.sequence}) has no mu, because its "
        "noise is not Gaussian of one public sigma; declare a plain pool that holds all such "
        f"releases, {without} so far (plain_epsilon=E, plain_delta=D)"
    )


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
        if held.mu not in {"", "none"}:
            if not is_certified(held.mu, **held.asked.as_dict()):
                return "its mu is more than what it promises allows"
            if not _costs(said, held.mu):
                return "its noise is less than the mu that was paid for takes"
        elif said.get("gaussian_mu") is not None and not _is_gaussian(said):
            return "it states a mu, and its mechanism has none"
    except (
        *(ArithmeticError, AttributeError, KeyError, TypeError),
        *(ValueError, RecursionError, UsageError),
    ):
        return "it is not a release" if text is not None else "it is not there"
    return None


def _is_gaussian(said: Mapping[str, Any]) -> bool:
    """Return whether a release says that its noise is Gaussian, of one public sigma."""
    return said["mechanism"] in GAUSSIANS and said["noise"].get("law") is None


def _costs(said: Mapping[str, Any], mu: str) -> bool:
    """Return whether a release is Gaussian with this mu, with all of its stages.

    A stage that was drawn is paid for, whatever came of it: in exact rationals the sum of
    1/alpha_j^2 is at most 1/alpha^2. The mu that it publishes is 1/alpha, up to rounding. Older
    releases have neither stages nor a mu; what is there is checked.
    """
    alpha = float(said["noise"]["alpha"])
    listed, told = said.get("stages", ()), said.get("gaussian_mu", 1 / alpha)
    stages = sum(1 / Fraction(float(stage["alpha"])) ** 2 for stage in listed)
    return (
        _is_gaussian(said)
        and f"1/{alpha!r}" == mu
        and type(told) in {int, float}
        and math.isclose(told, 1 / alpha, rel_tol=_ROUNDING)
        and stages <= 1 / Fraction(alpha) ** 2
    )
