"""Compare a ledger with what was kept elsewhere: heads, and the releases that state them."""

from dataclasses import dataclass

from privalue.ledger._book import Book
from privalue.ledger._chain import check_hash, sha256


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What must be found on a ledger: a head, or the text of a release, or both."""

    name: str | None = None  # what messages call it
    head: str | None = None
    artefact: str | None = None

    def missing(self, book: Book) -> str | None:
        """Return what is not on the record, and what that may mean; None if all is.

        Args:
            book: every entry of the ledger.
        """
        if self.head is not None and check_hash("the head", self.head) not in book.hashes:
            return (
                f"no entry has the hash {self.head}: the last entries were removed, all was "
                f"rewritten, or {self.name or 'the release'} belongs to another ledger"
            )
        released = None if self.artefact is None else sha256(self.artefact)
        if released is not None and not any(
            held.artefact == released and self.head in {None, held.head}
            for held in book.reservations.values()
        ):
            return (
                f"no entry commits {self.name or 'this release'}: it was changed, its entry was "
                "removed, or it belongs to another ledger"
            )
        return None
