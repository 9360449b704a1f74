"""Reach servers of PostgreSQL, and find out whether one answered.

An address is ``postgresql://user@host/database``, or ``host=... dbname=...`` as libpq has it; data,
ledgers and the environment are told from files here, and nowhere else. What may be shown of a
server is host, port and database, and nothing of an address that cannot be read. What a server
refuses is an error, and what nobody answers may be tried again; the drivers of databases do not
distinguish the two.
"""

import re
import time
from collections.abc import Generator, Mapping
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
# What only an address begins with, or holds. A text that looks like one and cannot be read as one
# is refused: as the name of a file, its password would be shown.
_LIKE_A_URL = re.compile(r"\s*(?:postgres[\w+]*:|[a-z][\w+.-]+:/.*@)", re.IGNORECASE | re.DOTALL)
_LIKE_KEYWORDS = re.compile(
    r"\s*(?:(?:host|hostaddr|dbname|service|passfile)\s*="
    r"|\w+\s*=.*\s(?:host|hostaddr|dbname|service|passfile|user|port)\s*=)",
    re.IGNORECASE | re.DOTALL,
)
_SECRET = re.compile(r"(?:^|[\s?&;])(?:ssl)?password\s*=", re.IGNORECASE)
# The only @ ends the credentials, which have no / ? #: a password that is not percent-encoded
# cannot have slipped into another part.
_URL = re.compile(r"postgres(?:ql)?://(?:[^@/?#]*@)?[^@]*")
# An address ends at the first "::" that is part of neither credentials, an IPv6 host, nor quotes.
_URL_FIRST = re.compile(
    r"(\s*postgres[\w+]*:/*(?:[^@/\s]*@)?(?:\[[^\]]*\]|[^:]|:(?!:))*)(?:::(.*))?",
    re.DOTALL | re.IGNORECASE,
)
_KEYWORDS_FIRST = re.compile(
    r"((?:=\s*'(?:[^'\\]|\\.)*'|\\.|[^\\:]|:(?!:))*)(?:::(.*))?", re.DOTALL
)
_DISTINCT = ("host", "hostaddr", "port", "dbname")
_USUAL_PORT = "5432"
_ENDS_IN_SECRET = re.compile(r"password\s*=\s*[^\s'&][^\s&]*$", re.IGNORECASE)
# What an address has somewhere, whatever else was done to it: kept in quotes, cut, misspelt. A Path
# makes one slash of two.
_PLAIN_PAGE = re.compile(r"(https?|ftp|s3|gs)://[\w./~-]*")  # no user, no password, no query
_LIKE_A_SECRET = re.compile("@|//|:/|passw", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class TimeLimits:
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


TIME_LIMITS = TimeLimits()


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
    place: str  # host, port if it is not the usual one, and database
    _address: str = field(repr=False)
    _named: Mapping[str, str] = field(repr=False)  # what the address itself says
    _user: str = field(repr=False)
    _password: str = field(repr=False)

    def connect(self, limits: TimeLimits = TIME_LIMITS, **options: Any) -> Any:
        """Open a connection that notices a dead network."""
        return self.driver.connect(self._address, **limits.parameters(), **options)

    def reached(self, connection: Any) -> tuple[str, str]:
        """Return what may be shown of the server, and what distinguishes its database from others.

        Both are of what libpq made of the address, the environment and its file of services: two
        servers may have one address, and one server has several.

        Args:
            connection: that was opened here.
        """
        parts = connection.info.get_parameters()
        return _place(self._named, parts), repr([(key, parts.get(key)) for key in _DISTINCT])

    def masked(self, said: str) -> str:
        """Return what a driver said, without user and password."""
        for quoted in (f'"{self._user}"', f"'{self._user}'"):
            said = said.replace(quoted, '"***"')
        return said.replace(self._password, "***") if len(self._password) > 2 else said


def names_server(text: str) -> bool:
    """Return whether a text is the address of a server, well-formed or not, and no file's name."""
    address = text.partition("::")[0]
    return bool(_LIKE_A_URL.match(text) or _LIKE_KEYWORDS.match(address) or _SECRET.search(address))


def may_hold_password(text: str) -> bool:
    """Return whether a text may be an address that is not understood: messages never quote it.

    Unless it is a file or a folder that exists, as whoever asks this has to see first.
    """
    return _LIKE_A_SECRET.search(text) is not None and _PLAIN_PAGE.fullmatch(text) is None


def not_shown(what: str, error: type[DataError | LedgerError]) -> DataError | LedgerError:
    """Return the error for a name that is not an existing file and may hold a password."""
    return error(
        f"the address given as {what} is not understood, and no file has that name; it is not "
        "shown, because it may hold a password; write postgresql://user@host/database, without "
        "quotes and without more, or the name of a file that exists"
    )


def divide_address(text: str) -> tuple[str, str | None]:
    """Return the address of data, and what is wanted there: what stands after ``::``.

    Raises:
        DataError: what stands there could be the rest of a password.
    """
    found = (_URL_FIRST if _is_url(text) else _KEYWORDS_FIRST).fullmatch(text)
    address, request = (text, None) if found is None else found.groups()
    if request is not None:
        first_word = next(iter(request.split()), "")
        torn = "@" in first_word and "@" not in address
        if torn or _ENDS_IN_SECRET.search(address):
            raise _malformed("data", DataError)
    return address, request


def _is_url(address: str) -> bool:
    """Return whether it is of the kind ``postgresql://...``, and not ``host=...``."""
    return ":" in address.partition("=")[0]


def _malformed(what: str, error: type[DataError | LedgerError]) -> DataError | LedgerError:
    """Return the error for an address that cannot be read, of which nothing is quoted."""
    return error(
        f"the address of the {what} is malformed; write postgresql://user@host/database, with "
        "special characters percent-encoded, or host=HOST dbname=DATABASE user=USER "
        "password='...'; the password may also be in PGPASSWORD or in a file (~/.pgpass)"
    )


def postgres_server(
    address: str, *, what: str, error: type[DataError | LedgerError]
) -> PostgresServer:
    """Return the server that an address names; nothing is connected to.

    Args:
        address: ``postgresql://user@host/database``, or ``host=... dbname=...``.
        what: what is there, "data" or "ledger", for messages.
        error: the class of the error for an address that is malformed. None of it is quoted:
            unless it is percent-encoded, a password may end up in a port, a host or a database.
    """
    malformed = _malformed(what, error)
    if _is_url(address) and _URL.fullmatch(address) is None:
        raise malformed
    try:
        driver: Any = import_module("psycopg")
    except ImportError:
        raise MissingComponentError(
            f"the {what} in PostgreSQL needs psycopg: pip install 'psycopg[binary]'"
        ) from None
    try:
        parts = driver.conninfo.conninfo_to_dict(address)
    except (driver.Error, ValueError):  # its message may quote the password
        raise malformed from None
    named = {key: str(value) for key, value in parts.items() if key in {*_DISTINCT, "user"}}
    shown = "".join(named.get(key, "") for key in ("host", "hostaddr", "dbname"))
    if "@" in shown or not shown.isprintable() or not _is_port(named.get("port", "")):
        raise malformed
    return PostgresServer(
        driver=driver,
        place=_place(named, _defaults(driver) | named),
        _address=address,
        _named=named,
        _user=str(parts.get("user", "")),
        _password=str(parts.get("password", "")),
    )


def _defaults(driver: Any) -> dict[str, str]:
    """Return what libpq takes where an address says nothing: the environment's PGHOST and so on."""
    options = driver.pq.Conninfo.get_defaults()
    return {each.keyword.decode(): each.val.decode() for each in options if each.val}


def _place(named: Mapping[str, str], parts: Mapping[str, str]) -> str:
    """Return what may be shown of a server.

    Args:
        named: what its address says.
        parts: what else is known of it. A database that nobody named has the user's name.
    """
    hosts = (parts.get("host") or parts.get("hostaddr") or "localhost").split(",")
    ports = parts.get("port", "").split(",")
    if len(ports) != len(hosts):
        ports = ports[:1] * len(hosts)
    shown = ",".join(
        host
        if port in {"", _USUAL_PORT}
        else f"[{host}]:{port}"
        if ":" in host
        else f"{host}:{port}"
        for host, port in zip(hosts, ports, strict=True)
    )
    database = parts.get("dbname", "")
    hidden = "dbname" not in named and database == parts.get("user")
    return f"postgresql://{shown}/{'' if hidden else database}"


def _is_port(text: str) -> bool:
    """Return whether the text is a port, or one for each of several hosts."""
    return re.fullmatch(r"[\d,]*", text) is not None


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
