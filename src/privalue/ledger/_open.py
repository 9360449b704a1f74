"""Open the ledger that a location names."""

from pathlib import Path

from privalue.ledger._ledger import Clock, Ledger
from privalue.ledger._postgres import PostgresStore
from privalue.ledger._seal import Seal
from privalue.ledger._sqlite import SqliteStore


def open_ledger(
    location: str | Path,
    *,
    wait: float = 30.0,
    clock: Clock | None = None,
    seal: str | Path | None = None,
) -> Ledger:
    """Return the ledger in a file (SQLite), or at ``postgresql://...``.

    Nothing is created before the first ``declare``.

    Args:
        location: a file name, or the address of a database.
        wait: how many seconds to wait for other writers.
        clock: the time that entries record; the system's, if left out.
        seal: a file with a key or a passphrase, by which totals are declared that nobody without it
            can change; needed again for that, and to check it, and not for releases.

    Raises:
        MissingComponentError: the address is PostgreSQL's, and the extra is not installed.
    """
    text = str(location)
    store = (
        PostgresStore(text, wait)
        if text.startswith(("postgresql://", "postgres://"))
        else SqliteStore(Path(location), wait)
    )
    secret = None if seal is None else Seal.load(Path(seal))
    return Ledger(store, seal=secret) if clock is None else Ledger(store, clock, secret)
