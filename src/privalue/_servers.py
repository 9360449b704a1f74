"""Reach servers of PostgreSQL, and find out whether one answered.

What may be shown of a server holds neither user nor password. What a server refuses is an error,
and what nobody answers may be tried again; the drivers of databases do not distinguish the two.
"""

import re
import time
from collections.abc import Generator
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
class Limits:
    """How long a server may take, in seconds; docs/ledger.md states them for users.

    The first two hold for every connection, the others where somebody asks for them. A server
    process that is stopped keeps no time limit of its own, and its kernel goes on to answer for it:
    only the client can give up, which is what ``silence`` is for.
    """

    connect: int = 10  # to answer a new connection; for each host, if there are several
    unreachable: int = 20  # until a network that carries nothing is noticed
    silence: float = 20.0  # between two bytes of an answer, or before the first
    idle: float = 20.0  # inside a transaction that writes, before the server ends it
    reading: float = 600.0  # for one statement of a transaction that reads, or between two

    def parameters(self) -> dict[str, int]:
        """Return what a connection is opened with; on a local socket only the first counts."""
        return {
            "connect_timeout": self.connect,
            "keepalives": 1,
            "keepalives_idle": self.unreachable // 2,
            "keepalives_interval": max(1, self.unreachable // 8),
            "keepalives_count": 4,
            "tcp_user_timeout": self.unreachable * 1000,
        }


LIMITS = Limits()


class PatientConnection:
    """A connection that is closed when the server is silent for too long."""

    def __init__(self, connection: Any, driver: Any, silence: float) -> None:
        self._connection, self._driver = connection, driver
        self._silence = self._usual = silence
        self._wait = connection.wait
        connection.wait = self._limited  # every statement of this connection goes through it

    def execute(self, *statement: Any, silence: float | None = None) -> Any:
        """Execute a statement.

        Args:
            statement: its text, and its parameters.
            silence: how long the server may say nothing, if not as usual: where it waits for locks.

        Raises:
            OperationalError: as the driver would, and after too long a silence.
        """
        self._silence = self._usual if silence is None else silence
        return self._connection.execute(*statement)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _limited(self, steps: Generator[Any, Any, Any], *rest: Any, **options: Any) -> Any:
        """Wait as the driver does, as long as something arrives."""
        return self._wait(self._watched(steps), *rest, **options)

    def _watched(self, steps: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        """Pass everything on, and time how long there was nothing: the driver says so as 0."""
        heard = time.monotonic()
        try:
            wanted = next(steps)
            while True:
                ready = yield wanted
                if ready:
                    heard = time.monotonic()
                elif time.monotonic() - heard > self._silence:
                    self._connection.close()
                    raise self._driver.OperationalError(f"no answer for {self._silence:g} s")
                wanted = steps.send(ready)
        except StopIteration as end:
            return end.value


@dataclass(frozen=True, kw_only=True)
class PostgresServer:
    """A server by its address; only ``place`` may be shown."""

    driver: Any
    place: str  # the address without user and password
    _address: str = field(repr=False)
    _password: str = field(repr=False)

    def connect(self, limits: Limits = LIMITS, **options: Any) -> Any:
        """Open a connection that notices a dead network."""
        return self.driver.connect(self._address, **limits.parameters(), **options)

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
