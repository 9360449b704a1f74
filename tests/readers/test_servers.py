"""Which errors of a driver mean that nobody answered; real servers are in conformance."""

import pytest

from privalue._servers import postgres_server, unanswered
from privalue.errors import DataError, LedgerError
from privalue.ledger import open_ledger

psycopg = pytest.importorskip("psycopg", reason="the extra postgres is not installed")
SOCKET = 'connection failed: connection to server on socket "/run/.s.PGSQL.5432" failed: '
HOST = 'connection failed: connection to server at "10.0.0.7", port 5432 failed: '


@pytest.mark.parametrize(
    "said",
    [
        HOST + "Connection refused\n\tIs the server running on that host?",
        HOST + "timeout expired",
        SOCKET + "No such file or directory",
        SOCKET + "FATAL:  the database system is starting up",
        SOCKET + "FATAL:  the database system is shutting down",
        SOCKET + "FATAL:  the database system is in recovery mode",
        SOCKET + "FATAL:  the database system is not yet accepting connections",
        SOCKET + "FATAL:  sorry, too many clients already",
        SOCKET + "FATAL:  remaining connection slots are reserved for roles with SUPERUSER",
        "connection timeout expired",
        "failed to resolve host 'db.example': Name or service not known",
        "consuming input failed: server closed the connection unexpectedly",
        "consuming input failed: SSL SYSCALL error: EOF detected",
        "the connection is closed",
        "the connection is lost",
    ],
)
def test_nobody_answered(said):
    assert unanswered(psycopg.OperationalError(said), psycopg)


@pytest.mark.parametrize(
    "said",
    [
        SOCKET + 'FATAL:  database "none" does not exist',
        SOCKET + 'FATAL:  role "nobody" does not exist',
        HOST + 'FATAL:  password authentication failed for user "nobody"',
        HOST + "fe_sendauth: no password supplied",
        HOST + 'FATAL:  no pg_hba.conf entry for host "10.0.0.7", user "x", no encryption',
        HOST + "server does not support SSL, but SSL was required",
        HOST + "SSL error: certificate verify failed",
    ],
)
def test_the_server_refused(said):
    assert not unanswered(psycopg.OperationalError(said), psycopg)


def test_a_code_says_more_than_words():
    errors = psycopg.errors
    for away in (
        errors.AdminShutdown,
        errors.CrashShutdown,
        errors.CannotConnectNow,
        errors.TooManyConnections,
        errors.ConnectionFailure,
    ):
        assert unanswered(away("FATAL: in any language"), psycopg)
    for answered in (
        errors.DiskFull,
        errors.OutOfMemory,
        errors.UndefinedTable,
        errors.InsufficientPrivilege,
        errors.DivisionByZero,
        errors.QueryCanceled,
    ):
        assert not unanswered(answered("starting up"), psycopg)
    assert not unanswered(psycopg.ProgrammingError("the connection is closed"), psycopg)
    assert not unanswered(UnicodeError("the connection is closed"), psycopg)


SLIPPED = [
    "postgresql://user:se/cret@host/db",
    "postgresql://user:12/cret@host/db",
    "postgresql://user:s@cret@host/db",
]


@pytest.mark.parametrize("address", SLIPPED)
def test_an_address_in_which_a_password_slipped_elsewhere_is_refused_and_not_quoted(address):
    with pytest.raises(LedgerError, match="of the ledger is malformed") as of_ledger:
        open_ledger(address)
    with pytest.raises(DataError, match="of the data is malformed") as of_data:
        postgres_server(address, what="data", error=DataError)
    for found in (of_ledger, of_data):
        assert "cret" not in str(found.value)
        assert "percent-encoded" in str(found.value)


def test_what_is_shown_of_a_server_holds_neither_user_nor_password():
    server = postgres_server(
        "postgresql://me:s%2Fcret@db.example:5433/ledgers", what="ledger", error=LedgerError
    )
    assert server.place == "postgresql://db.example/ledgers"
    assert not {"me", "s/cret"} & set(repr(server).split("'"))
    assert server.masked("the password s/cret was refused") == "the password *** was refused"
