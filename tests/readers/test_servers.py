"""Errors of a driver that mean no answer, and passwords; real servers are in conformance."""

import contextlib
import os
import tempfile
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import privalue as pv
from oracles.reading import opened
from oracles.refusals import refused
from oracles.studies import study
from privalue.cli import run
from privalue.errors import DataError, LedgerError, PrivalueError
from privalue.ledger import open_ledger
from privalue.ledger.addresses import divide_address, is_unanswered, postgres_server
from privalue.readers import column_names

psycopg = pytest.importorskip("psycopg", reason="the extra postgres is not installed")


def test_the_codes_of_a_driver_tell_whether_a_server_answered():
    errors = psycopg.errors
    for away in (errors.AdminShutdown, errors.TooManyConnections, errors.ConnectionFailure):
        assert is_unanswered(away("FATAL: in any language"), psycopg)
    for answered in (errors.DiskFull, errors.DivisionByZero, errors.QueryCanceled):
        assert not is_unanswered(answered("starting up"), psycopg)
    assert not is_unanswered(psycopg.ProgrammingError("the connection is closed"), psycopg)
    assert not is_unanswered(UnicodeError("the connection is closed"), psycopg)


SLIPPED = [
    "postgresql://user:se/cret@host/db",
    "postgresql://user:12/cret@host/db",
    "postgresql://user:s@cret@host/db",
]


@pytest.mark.parametrize("address", SLIPPED)
def test_an_address_in_which_a_password_slipped_elsewhere_is_refused_and_not_quoted(address):
    with refused("ledger-invalid") as of_ledger:
        open_ledger(address)
    with refused("data-invalid") as of_data:
        postgres_server(address, what="data", error=DataError)
    for found in (of_ledger, of_data):
        assert "cret" not in str(found.value)
        assert "percent-encoded" in str(found.value)


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_no_engine_quotes_a_name_that_may_hold_a_password(engine):
    with refused("data-invalid", "usage") as error:
        pv.inspect(study(), "host=h user=u password=hunter22", engine=engine)
    assert "hunter22" not in str(error.value)


def test_what_is_shown_of_a_server_holds_neither_user_nor_password():
    server = postgres_server(
        "postgresql://me:s%2Fcret@db.example:5433/ledgers", what="ledger", error=LedgerError
    )
    assert server.place == "postgresql://db.example:5433/ledgers"
    assert not {"me", "s/cret"} & set(repr(server).split("'"))
    assert server.mask_secrets("the password s/cret was refused") == "the password *** was refused"


# Passwords


LETTERS = "ЖЩЮЭÞßÆ"  # that no message of ours has
PASSWORDS = st.text(alphabet=LETTERS * 2 + "@/%:?#'\" \\&=+;,.[]", min_size=3, max_size=12)
NOWHERE = "127.0.0.1:1/db"  # where nobody listens
STUDY = study(3)


def in_quotes(password):
    return "'" + password.replace("\\", "\\\\").replace("'", "\\'") + "'"


ADDRESSES = {
    "as it is": lambda password: f"postgresql://user:{password}@{NOWHERE}",
    "encoded": lambda password: f"postgresql://user:{quote(password, safe='')}@{NOWHERE}",
    "as a parameter": lambda password: f"postgresql://{NOWHERE}?password={password}",
    "without slashes": lambda password: f"postgresql:user:{password}@{NOWHERE}",
    "of another driver": lambda password: f"postgresql+psycopg://user:{password}@{NOWHERE}",
    "of another server": lambda password: f"mysql://user:{password}@{NOWHERE}",
    "by keywords": lambda p: f"host=127.0.0.1 port=1 password={p} dbname=db",
    "by keywords, first": lambda p: f"password={p} host=127.0.0.1 port=1 dbname=db",
    "in quotes": lambda p: f"host=127.0.0.1 port=1 dbname=db password={in_quotes(p)}",
    "misspelt": lambda p: f"hots=127.0.0.1 port=1 password={p} dbname=db",
    "with the quotes of a shell": lambda p: f"'postgresql://user:{p}@{NOWHERE}'",
    "with other quotes": lambda p: f'"postgresql://user:{p}@{NOWHERE}"',
    "behind a variable": lambda p: f"PGPASSWORD={p} postgresql://{NOWHERE}",
    "behind a variable, exported": lambda p: f"export PGPASSWORD={p} postgresql://{NOWHERE}",
    "with a semicolon": lambda p: f"postgresql;//user:{p}@{NOWHERE}",
    "without its kind": lambda p: f"user:{p}@{NOWHERE}",
    "of any kind": lambda p: f"//user:{p}@{NOWHERE}",
    "without a database": lambda p: f"user:{p}@127.0.0.1",
    "of Minari": lambda p: f"minari:user:{p}@{NOWHERE}",
}


def told(shown, password):
    """The parts of a password, three characters or more, that can be seen."""
    parts = {password[at : at + 3] for at in range(len(password) - 2)}
    parts |= {quote(part, safe="") for part in parts}
    return [part for part in parts if set(part) & set(LETTERS) and part in shown]


def shown_of(address):
    """All that a ledger and data at this address let anybody see, in text, repr and errors."""
    seen = []
    for location in (address, Path(address)):
        try:
            ledger = open_ledger(location)
            seen += [ledger.place, repr(ledger)]
            ledger.account("people")
        except PrivalueError as problem:
            seen.append(repr(problem))
    for data in (address, f"{address}::rows", f"{address}::SELECT 'a'::text", Path(address)):
        try:
            column_names(data)
        except PrivalueError as problem:
            seen.append(repr(problem))
        try:
            opened(data, STUDY)
        except PrivalueError as problem:
            seen.append(repr(problem))
    return seen


@pytest.mark.parametrize("written", ADDRESSES.values(), ids=ADDRESSES)
@given(password=PASSWORDS)
@example(password="Ж@ЩЮ")
@example(password="Ж/ЩЮЭ")
@example(password="12/ЩЮЭ")
@example(password="ЖЩ::ЮЭÞ")
@example(password="1/Ж::ЮЭÞ")
@example(password="ЖЩ ЮЭÞ")
@example(password="ЖЩ%41ЮЭÞ")
@example(password="ЖЩЮ.xlsx")
@example(password="/Æ::: ")
@example(password="/Æ::Þ ß")
def test_no_part_of_a_password_is_ever_shown(written, password):
    address = written(password)
    with tempfile.TemporaryDirectory() as empty, contextlib.chdir(empty):
        seen = shown_of(address)
        assert os.listdir(empty) == []  # and no file was made of it
    assert len(seen) >= 6
    assert told(" ".join(seen), password) == []


@pytest.mark.parametrize("query", ["SELECT * FROM '{}'", "with {}", "from 'a' {}", "select {}"])
def test_no_part_of_a_password_in_a_query_is_shown(query):
    for password in ("ЖЩЮ", "Ж ЩЮЭ", "Ж'ЩЮЭ", "Ж::ЩЮЭ", '"ЖЩЮЭ'):
        with pytest.raises(DataError) as found:
            opened(query.format(f"postgresql://user:{password}@{NOWHERE}"), STUDY)
        assert told(str(found.value), password) == []


@pytest.mark.parametrize(
    "password", ["a@b", "a/b", "a%b", "a:b", "a?b", "a#b", "a b", "a'b", 'a"b']
)
def test_a_password_may_hold_anything_where_it_is_encoded(password):
    address = f"postgresql://me:{quote(password, safe='')}@db.example/ledgers"
    server = postgres_server(address, what="ledger", error=LedgerError)
    assert server.place == "postgresql://db.example/ledgers"
    assert server.mask_secrets(f"refused: {password}") == "refused: ***"
    assert divide_address(f"{address}::rows") == (address, "rows")
    assert open_ledger(address).place == server.place


@pytest.mark.parametrize("variable", [True, False])
def test_the_command_line_shows_no_address_either(variable, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for address in (
        "postgresql://me:ЖЩ/ЮЭ@127.0.0.1:1/db",
        "host=127.0.0.1 port=1 dbname=db password=ЖЩЮЭ",
        "'postgresql://me:ЖЩЮЭ@127.0.0.1:1/db'",
        "me:ЖЩЮЭ@127.0.0.1/db",
    ):
        monkeypatch.setenv("PRIVALUE_LEDGER", address if variable else "")
        arguments = [] if variable else ["--ledger", address]
        assert run(["ledger", "show", *arguments]) in {5, 7}
        assert not set("".join(capsys.readouterr())) & set(LETTERS)
    assert list(tmp_path.iterdir()) == []
