"""Distinguish addresses of PostgreSQL servers from file names, and hide their passwords.

An address is ``postgresql://user@host/database``. Messages show host, port and database only, and
nothing of a malformed address, because it may hold a password.
"""

import re
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from privalue.errors import DataError, LedgerError, MissingComponentError

TIME_LIMITS = {  # of every connection: in seconds, the last one in milliseconds
    "connect_timeout": 10,
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 2,
    "keepalives_count": 4,
    "tcp_user_timeout": 20_000,
}
# SQLSTATE: connection lost; server stopped, crashed or not ready; too many connections.
_UNANSWERED = ("08", "57P01", "57P02", "57P03", "53300")
# A failure to connect has no SQLSTATE, only a message; the server's own begin with FATAL.
_REFUSED = re.compile("FATAL|no password supplied|not support SSL|SSL error|certificate")
_NOT_READY = re.compile(
    "starting up|shutting down|recovery|accepting connections|too many|connection slots"
    "|terminating connection"
)
_LIKE_AN_ADDRESS = re.compile(
    r"\s*postgres[\w+]*:|[a-z][\w+.-]+:/.*@|.*\bpassword\s*=", re.IGNORECASE | re.DOTALL
)
_LIKE_A_SECRET = re.compile("@|//|:/|passw", re.IGNORECASE)
_PLAIN_URL = re.compile(r"(https?|ftp|s3|gs)://[\w./~-]*")  # no user, no password, no query
# The beginning of a query; anything else is the name of a table.
QUERY = re.compile(r"\s*(\(|(select|with|from|values|table)\b)", re.IGNORECASE)
# The only @ ends the credentials, which contain no / ? #: a password that is not percent-encoded
# cannot end up in another part. The table or query follows the first "::" that is not part of an
# IPv6 host.
_URL = re.compile(
    r"(postgres(?:ql)?://(?:[^@/?#\s]*@)?(?:\[[^\]@]*\]|[^:@]|:(?!:))*)(?:::(.*))?", re.DOTALL
)


def names_server(text: str) -> bool:
    """Return whether a text looks like the address of a server (well-formed or not), not a file."""
    return _LIKE_AN_ADDRESS.match(text.partition("::")[0]) is not None


def may_hold_password(text: str) -> bool:
    """Return whether a text may be a malformed address with a password: messages never quote it.

    The caller first checks that no file or folder has this name.
    """
    return _LIKE_A_SECRET.search(text) is not None and _PLAIN_URL.fullmatch(text) is None


def malformed_address(what: str, error: type[DataError | LedgerError]) -> DataError | LedgerError:
    """Return the error for a text that is neither an existing file nor a well-formed address.

    Args:
        what: "data" or "ledger", for the message.
        error: the class of the error.
    """
    return error(
        f"the address given as {what} is malformed, and no file has that name; it is not shown, "
        "because it may hold a password; write postgresql://user@host/database, with special "
        "characters percent-encoded (PGPASSWORD or ~/.pgpass may hold the password)"
    )


def divide_address(text: str) -> tuple[str, str | None]:
    """Return the address of a database, and the table or query that follows ``::``, if any.

    Raises:
        DataError: it is malformed.
    """
    parts = _URL.fullmatch(text)
    if parts is None:
        raise malformed_address("data", DataError)
    address, query = parts.groups()
    if "@" in (query or "") and not QUERY.match(query):  # it may be the end of a password
        raise malformed_address("data", DataError)
    return address, query


@dataclass(frozen=True, kw_only=True)
class PostgresServer:
    """A server by its address; only ``place`` may be shown."""

    driver: Any
    place: str  # host, port (unless 5432) and database
    _address: str = field(repr=False)
    _secrets: tuple[str, ...] = field(repr=False)

    def connect(self, **options: Any) -> Any:
        """Open a connection that notices a dead network."""
        return self.driver.connect(self._address, client_encoding="utf8", **TIME_LIMITS | options)

    def mask_secrets(self, message: str) -> str:
        """Return a driver's message without user and password."""
        for secret in self._secrets:
            message = message.replace(secret, "***")
        return message


def postgres_server(
    address: str, *, what: str, error: type[DataError | LedgerError]
) -> PostgresServer:
    """Return the server of an address, without connecting to it.

    Args:
        address: ``postgresql://user@host/database``.
        what: "data" or "ledger", for messages.
        error: the class of the error for a malformed address.
    """
    parts = _URL.fullmatch(address)
    if parts is None or parts[2] is not None:
        raise malformed_address(what, error)
    try:
        driver: Any = import_module("psycopg")
    except ImportError:
        raise MissingComponentError(
            f"the {what} in PostgreSQL needs psycopg: pip install 'psycopg[binary]'"
        ) from None
    try:
        parameters = driver.conninfo.conninfo_to_dict(address)
    except (driver.Error, ValueError):  # its message may quote the password
        raise malformed_address(what, error) from None
    options = driver.pq.Conninfo.get_defaults()  # the environment's PGHOST and so on
    defaults = {option.keyword.decode(): option.val.decode() for option in options if option.val}
    settings = defaults | {key: str(value) for key, value in parameters.items() if value}
    host, database = settings.get("host", "localhost"), settings.get("dbname", "")
    port = "" if settings.get("port", "5432") == "5432" else f":{settings['port']}"
    place = f"postgresql://{f'[{host}]' if ':' in host else host}{port}/{database}"
    if "@" in place or not place.isprintable() or re.fullmatch(r"[:\d,]*", port) is None:
        raise malformed_address(what, error)
    user, password = str(parameters.get("user", "")), str(parameters.get("password", ""))
    quoted = [f"{mark}{user}{mark}" for mark in ('"', "'")] if user else []
    credentials = (*quoted, password) if len(password) > 2 else tuple(quoted)
    return PostgresServer(driver=driver, place=place, _address=address, _secrets=credentials)


def is_unanswered(problem: Exception, driver: Any) -> bool:
    """Return whether a PostgreSQL driver's error means that the server did not answer, or stopped.

    An unknown message, such as a refusal in another language, counts as no answer: trying again
    does no harm.
    """
    if not isinstance(problem, driver.OperationalError):
        return False
    state = getattr(problem, "sqlstate", None)
    if state is not None:
        return str(state).startswith(_UNANSWERED)
    message = str(problem)
    return _REFUSED.search(message) is None or _NOT_READY.search(message) is not None
