"""A ledger on a server is known by what was reached, however its address is given."""

import os
import shutil
import subprocess
from urllib.parse import quote

import pytest

from conformance.test_ledger_stores import _schemas, server  # noqa: F401 - a fixture
from privalue.cli._app import run
from privalue.ledger import BudgetError, open_ledger

psycopg = pytest.importorskip("psycopg", reason="the extra postgres is not installed")
DECLARE = {"epsilon": 1.0, "delta": 1e-6, "unit": "trajectory"}
HASH = "0" * 64


@pytest.fixture
def teams(server, tmp_path, monkeypatch):  # noqa: F811
    """Two ledgers: of each its address, and variables under which an address of nothing is it."""
    monkeypatch.setenv("PRIVALUE_STATE", str(tmp_path / "state"))
    for name in ("PGHOST", "PGPORT", "PGDATABASE", "PGOPTIONS", "PGSERVICE", "PGUSER"):
        monkeypatch.delenv(name, raising=False)
    schemas = [next(_schemas) for _ in range(2)]
    services = tmp_path / "services.conf"
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    found = []
    for number, schema in enumerate(schemas):
        server.execute(f"CREATE SCHEMA {schema}")
        variables = {"PGHOST": str(server.folder), "PGOPTIONS": f"-csearch_path={schema}"}
        with services.open("a") as file:
            file.write(f"[team{number}]\nhost={server.folder}\noptions=-csearch_path={schema}\n")
        found.append((server.address(schema), schema, variables))
        open_ledger(found[-1][0]).declare("people", **DECLARE)
    return found


def test_two_ledgers_behind_one_address_are_two(teams, monkeypatch):
    """By variables, and by services: neither is taken for the other, time and again."""
    heads = [open_ledger(address).head() for address, *_ in teams]
    for _ in range(2):
        for head, (_, schema, variables) in zip(heads, teams, strict=True):
            with monkeypatch.context() as patched:
                for name, value in variables.items():
                    patched.setenv(name, value)
                ledger = open_ledger("postgresql://keeper@/postgres")
                assert ledger.head() == head
                assert ledger.place.endswith(f"/postgres?options=-csearch_path%3D{schema}")
        for number, head in enumerate(heads):
            with monkeypatch.context() as patched:
                patched.setenv("PGSERVICE", f"team{number}")
                assert open_ledger("postgresql://keeper@/postgres").head() == head
            assert open_ledger(f"dbname=postgres user=keeper service=team{number}").head() == head


def test_however_it_is_reached_a_ledger_is_remembered_in_one_place(teams, tmp_path, monkeypatch):
    (address, _, variables), _ = teams
    before = sorted(os.listdir(tmp_path / "state" / "places"))
    assert len(before) == 2
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    open_ledger("dbname=postgres user=keeper").head()
    monkeypatch.setenv("PGDATABASE", "postgres")
    open_ledger("postgresql://keeper@").head()
    open_ledger(address).head()
    assert sorted(os.listdir(tmp_path / "state" / "places")) == before


def test_another_ledger_in_the_same_place_is_still_noticed(
    teams,
    server,  # noqa: F811
    tmp_path,
    monkeypatch,
    capsys,
):
    (address, schema, _), _ = teams
    server.execute(f"DROP SCHEMA {schema} CASCADE; CREATE SCHEMA {schema}")
    with monkeypatch.context() as another_user:
        another_user.setenv("PRIVALUE_STATE", str(tmp_path / "another"))
        open_ledger(address).declare("people", **DECLARE)
    assert run(["ledger", "show", "--ledger", address]) == 5
    said = " ".join(capsys.readouterr().err.split())
    assert "is not the one that was there before" in said
    assert schema in said


def test_a_name_tells_port_and_schema_and_can_be_given_back(teams, server):  # noqa: F811
    (address, schema, _), _ = teams
    other = server.folder / ".s.PGSQL.5433"  # the same server, on another port
    other.symlink_to(".s.PGSQL.5432")
    try:
        moved = open_ledger(f"{address}&port=5433")
        moved.head()
        expected = f"{server.folder}:5433/postgres?options=-csearch_path%3D{schema}"
        assert moved.place == f"postgresql://{expected}"
    finally:
        other.unlink()
    usual = open_ledger(server.address("public"))
    with pytest.raises(BudgetError):
        usual.head()  # there is none
    assert usual.place == f"postgresql://{server.folder}/postgres"
    strange = f"{schema} A"
    server.execute(f'CREATE SCHEMA "{strange}"')
    ledger = open_ledger(server.address(f'"{strange}"'.replace(" ", "\\ ")))
    ledger.declare("people", **DECLARE)
    _, _, options = ledger.place.partition("?options=")
    assert options == "-csearch_path%3D" + quote(f'"{strange}"'.replace(" ", "\\ "))
    assert "keeper" not in ledger.place
    again = f"postgresql://keeper@/postgres?host={server.folder}&options={options}"
    assert open_ledger(again).head() == ledger.head()


def test_a_file_of_heads_of_two_teams_serves_both(teams, tmp_path, capsys):
    heads = tmp_path / "heads.txt"
    for address, *_ in teams:
        assert run(["ledger", "head", "--ledger", address]) == 0
        with heads.open("a") as file:
            file.write(capsys.readouterr().out)
    for address, *_ in teams:
        assert run(["ledger", "verify", "--ledger", address, "--head", str(heads)]) == 0
        assert "skipped: 1 of other ledgers" in " ".join(capsys.readouterr().err.split())
        assert run(["ledger", "verify", "--ledger", address, "--head", HASH]) == 5


def test_psql_says_by_its_exit_code_that_grants_failed(teams, server):  # noqa: F811
    """The command of docs/ledger.md, for a role that has too many rights."""
    psql = shutil.which("psql")
    if psql is None:
        pytest.skip("psql is not installed")
    (address, *_), _ = teams
    sql = open_ledger(address).grant_sql("keeper")
    assert "psql -v ON_ERROR_STOP=1" in sql.splitlines()[0]
    done = subprocess.run(
        [psql, "-v", "ON_ERROR_STOP=1", address],
        input=sql,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3
    assert "has more rights by another role" in done.stderr
