"""Open the ledger that a location names."""

import os
from pathlib import Path

from privalue._servers import may_hold_password, names_server, not_shown
from privalue.errors import LedgerError, UsageError
from privalue.ledger._heads import Memory, state_folder
from privalue.ledger._ledger import Clock, Ledger
from privalue.ledger._postgres import PostgresStore
from privalue.ledger._seal import Seal
from privalue.ledger._sqlite import SqliteStore
from privalue.ledger._store import Store


def open_ledger(
    location: str | Path,
    *,
    wait: float = 30.0,
    clock: Clock | None = None,
    seal: str | Path | None = None,
) -> Ledger:
    """Return the ledger in a file (SQLite), or on a server (PostgreSQL).

    Nothing is created before the first ``declare``. The last head that is seen is remembered in
    the folder ``PRIVALUE_STATE``; a ledger that lacks it is a LedgerError.

    Args:
        location: a file name, or the address of a database: ``postgresql://user@host/database``,
            or ``host=... dbname=...``.
        wait: how many seconds to wait for other writers.
        clock: the time that entries record; the system's, if left out.
        seal: a file with a key or a passphrase, by which totals are declared that nobody without it
            can change; needed again for that, and to check it, and not for releases.

    Raises:
        LedgerError: the address is malformed.
        UsageError: there is no name.
        MissingComponentError: the address is PostgreSQL's, and the extra is not installed.

    >>> from tempfile import TemporaryDirectory
    >>> import privalue as pv
    >>> with TemporaryDirectory() as folder:
    ...     ledger = pv.open_ledger(f"{folder}/ledger.db")
    ...     account = ledger.declare("clinic", epsilon=2, delta=1e-5, unit="trajectory")
    ...     print(account.left)
    epsilon 2, delta 1e-5
    """
    text = str(location)
    if not text.strip():
        raise UsageError("the ledger has no name; give a file, or postgresql://user@host/database")
    if names_server(text):
        store: Store = PostgresStore(text, wait)
    elif not _may_be_file(text):
        raise not_shown("ledger", LedgerError)
    elif "\0" in text:
        raise LedgerError(f"the ledger {text!r} is not a name that a file can have")
    else:
        store = SqliteStore(Path(location), wait)
    memory = Memory(state_folder(), store)
    given = {} if clock is None else {"clock": clock}
    secret = None if seal is None else Seal.load(Path(seal))
    return Ledger(store, memory=memory, seal=secret, **given)


def _may_be_file(text: str) -> bool:
    """Return whether a name can be shown: of a file that exists, or of none that is a password.

    A new file may be made in any folder that exists, whatever that is called.
    """
    folder, name = os.path.split(text)
    safe = not may_hold_password(name) and "://" not in text and os.path.isdir(folder or ".")
    return safe or not may_hold_password(text) or os.path.lexists(text)
