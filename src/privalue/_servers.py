"""Reach servers of PostgreSQL, and find out whether one answered.

What may be shown of a server holds neither user nor password. What a server refuses is an error,
and what nobody answers may be tried again; the drivers of databases do not distinguish the two.
"""

import re
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from privalue.errors import DataError, LedgerError, MissingComponentError

# SQLSTATE: the server was asked to stop, crashed, is not ready, or has no room for one more
# connection. Class 08 is about the connection itself.
_AWAY = {"57P01", "57P02", "57P03", "53300"}
# Before there is a connection there is no SQLSTATE, only words; the server's begin with FATAL.
_REFUSED = re.compile("FATAL|no password supplied|not support SSL|SSL error|certificate")
_NOT_READY = re.compile(
    "starting up|shutting down|recovery|accepting connections|too many|connection slots"
    "|terminating connection"
)


@dataclass(frozen=True, kw_only=True)
class PostgresServer:
    """A server by its address; only ``place`` may be shown."""

    driver: Any
    place: str  # the address without user and password
    _address: str = field(repr=False)
    _password: str = field(repr=False)

    def connect(self, **options: Any) -> Any:
        """Open a connection."""
        return self.driver.connect(self._address, connect_timeout=10, **options)

    def masked(self, said: str) -> str:
        """Return what a driver said, without the password."""
        return said.replace(self._password, "***") if self._password else said


def postgres_server(
    address: str, *, what: str, error: type[DataError | LedgerError]
) -> PostgresServer:
    """Return the server that an address names; nothing is connected to.

    Args:
        address: ``postgresql://user@host/database``.
        what: what is there, "data" or "ledger", for messages.
        error: the class of the error for an address that is malformed. None of it is quoted:
            unless it is percent-encoded, a password may end up in a port, a host or a database.
    """
    try:
        driver: Any = import_module("psycopg")
    except ImportError:
        raise MissingComponentError(
            f"the {what} in PostgreSQL needs psycopg: pip install 'psycopg[binary]'"
        ) from None
    malformed = error(
        f"the address postgresql://... of the {what} is malformed; write it as "
        "postgresql://user@host/database, with special characters percent-encoded"
    )
    try:
        parts = driver.conninfo.conninfo_to_dict(address)
    except driver.Error:  # its message may quote the password
        raise malformed from None
    host, database = str(parts.get("host", "localhost")), str(parts.get("dbname", ""))
    if "@" in host + database or not re.fullmatch(r"[\d,]*", str(parts.get("port", ""))):
        raise malformed
    return PostgresServer(
        driver=driver,
        place=f"postgresql://{host}/{database}",
        _address=address,
        _password=str(parts.get("password", "")),
    )


def unanswered(problem: Exception, driver: Any) -> bool:
    """Return whether a PostgreSQL driver's error means that no server answered, or it went away.

    A message that is not understood, such as a refusal in another language, counts as no answer:
    trying again does no harm.
    """
    if not isinstance(problem, driver.OperationalError):
        return False
    state = getattr(problem, "sqlstate", None)
    if state is not None:
        return state in _AWAY or state.startswith("08")
    said = str(problem)
    return _REFUSED.search(said) is None or _NOT_READY.search(said) is not None
