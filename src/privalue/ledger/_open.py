"""Open the ledger that a location names."""

from pathlib import Path

from privalue.ledger._ledger import Clock, Ledger
from privalue.ledger._postgres import PostgresStore
from privalue.ledger._sqlite import SqliteStore


def open_ledger(location: str | Path, *, wait: float = 30.0, clock: Clock | None = None) -> Ledger:
    """Return the ledger in a file (SQLite), or at ``postgresql://...``.

    Nothing is created before the first ``declare``.

    Args:
        location: a file name, or the address of a database.
        wait: how many seconds to wait for other writers.
        clock: the time that entries record; the system's, if left out.

    Raises:
        MissingComponentError: the address is PostgreSQL's, and the extra is not installed.
    """
    text = str(location)
    store = (
        PostgresStore(text, wait)
        if text.startswith(("postgresql://", "postgres://"))
        else SqliteStore(Path(location), wait)
    )
    return Ledger(store) if clock is None else Ledger(store, clock)
