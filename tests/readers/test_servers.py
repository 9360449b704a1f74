"""Which errors mean that a server did not answer; no output shows a password."""

import contextlib
import os
import tempfile
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import privalue as pv
from oracles.reading import open_data
from oracles.refusals import refused
from oracles.studies import make_study
from privalue.cli import run
from privalue.errors import DataError, LedgerError, PrivalueError
from privalue.ledger import open_ledger
from privalue.ledger.addresses import divide_address, is_unanswered, postgres_server
from privalue.readers import column_names

psycopg = pytest.importorskip("psycopg", reason="the extra postgres is not installed")


def test_a_driver_error_shows_whether_the_server_answered():
    errors = psycopg.errors
    for away in (errors.AdminShutdown, errors.TooManyConnections, errors.ConnectionFailure):
        assert is_unanswered(away("FATAL: in any language"), psycopg)
    for answered in (errors.DiskFull, errors.DivisionByZero, errors.QueryCanceled):
        assert not is_unanswered(answered("starting up"), psycopg)
    assert not is_unanswered(psycopg.ProgrammingError("the connection is closed"), psycopg)
    assert not is_unanswered(UnicodeError("the connection is closed"), psycopg)


UNENCODED = [
    "postgresql://user:se/cret@host/db",
    "postgresql://user:12/cret@host/db",
    "postgresql://user:s@cret@host/db",
]


@pytest.mark.parametrize("address", UNENCODED)
def test_an_address_with_an_unencoded_password_is_refused_and_not_quoted(address):
    with refused("ledger-invalid") as of_ledger:
        open_ledger(address)
    with refused("data-invalid") as of_data:
        postgres_server(address, what="data", error=DataError)
    for error in (of_ledger, of_data):
        assert "cret" not in str(error.value)
        assert "percent-encoded" in str(error.value)


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_no_engine_quotes_a_name_that_may_hold_a_password(engine):
    with refused("data-invalid", "usage") as error:
        pv.inspect(make_study(), "host=h user=u password=hunter22", engine=engine)
    assert "hunter22" not in str(error.value)


def test_the_place_of_a_server_has_neither_user_nor_password():
    server = postgres_server(
        "postgresql://me:s%2Fcret@db.example:5433/ledgers", what="ledger", error=LedgerError
    )
    assert server.place == "postgresql://db.example:5433/ledgers"
    assert not {"me", "s/cret"} & set(repr(server).split("'"))
    assert server.mask_secrets("the password s/cret was refused") == "the password *** was refused"


# Passwords


LETTERS = "ЖЩЮЭÞßÆ"  # no message contains these
PASSWORDS = st.text(alphabet=LETTERS * 2 + "@/%:?#'\" \\&=+;,.[]", min_size=3, max_size=12)
NOWHERE = "127.0.0.1:1/db"  # without a server
STUDY = make_study(3)


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


def visible_parts(output, password):
    """Return the parts of a password, of three characters or more, that an output contains."""
    parts = {password[at : at + 3] for at in range(len(password) - 2)}
    parts |= {quote(part, safe="") for part in parts}
    return [part for part in parts if set(part) & set(LETTERS) and part in output]


def output_of(address):
    """Return everything that a ledger and data at this address print: places, reprs, errors."""
    output = []
    for location in (address, Path(address)):
        try:
            ledger = open_ledger(location)
            output += [ledger.place, repr(ledger)]
            ledger.account("people")
        except PrivalueError as problem:
            output.append(repr(problem))
    for data in (address, f"{address}::rows", f"{address}::SELECT 'a'::text", Path(address)):
        try:
            column_names(data)
        except PrivalueError as problem:
            output.append(repr(problem))
        try:
            open_data(data, STUDY)
        except PrivalueError as problem:
            output.append(repr(problem))
    return output


@pytest.mark.parametrize("make_address", ADDRESSES.values(), ids=ADDRESSES)
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
def test_no_part_of_a_password_is_ever_shown(make_address, password):
    address = make_address(password)
    with tempfile.TemporaryDirectory() as empty, contextlib.chdir(empty):
        output = output_of(address)
        assert os.listdir(empty) == []  # no file has that name
    assert len(output) >= 6
    assert visible_parts(" ".join(output), password) == []


@pytest.mark.parametrize("query", ["SELECT * FROM '{}'", "with {}", "from 'a' {}", "select {}"])
def test_no_part_of_a_password_in_a_query_is_shown(query):
    for password in ("ЖЩЮ", "Ж ЩЮЭ", "Ж'ЩЮЭ", "Ж::ЩЮЭ", '"ЖЩЮЭ'):
        with pytest.raises(DataError) as error:
            open_data(query.format(f"postgresql://user:{password}@{NOWHERE}"), STUDY)
        assert visible_parts(str(error.value), password) == []


@pytest.mark.parametrize(
    "password", ["a@b", "a/b", "a%b", "a:b", "a?b", "a#b", "a b", "a'b", 'a"b']
)
def test_an_encoded_password_may_have_any_characters(password):
    address = f"postgresql://me:{quote(password, safe='')}@db.example/ledgers"
    server = postgres_server(address, what="ledger", error=LedgerError)
    assert server.place == "postgresql://db.example/ledgers"
    assert server.mask_secrets(f"refused: {password}") == "refused: ***"
    assert divide_address(f"{address}::rows") == (address, "rows")
    assert open_ledger(address).place == server.place


@pytest.mark.parametrize("variable", [True, False])
def test_the_command_line_prints_no_address(variable, tmp_path, monkeypatch, capsys):
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
