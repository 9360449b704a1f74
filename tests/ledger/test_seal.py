"""Totals that are sealed: who lacks the secret releases, and does not declare."""

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from oracles.accountings import BOTH
from oracles.ledgers import DECLARED, open_ledger
from privalue.cli._ledger import ledgers
from privalue.errors import UsageError
from privalue.ledger import BudgetError, LedgerError, study_hash
from privalue.ledger import _book as books
from privalue.ledger._chain import canonical, sha256
from privalue.ledger._seal import Seal

COST = {"epsilon": 0.01, "delta": 1e-8}
HUGE = {
    "plain": {"dataset": "people", "epsilon": 10**17, "delta": 10**17, **DECLARED},
    "gaussian": {
        **{**DECLARED, "dataset": "people", "epsilon": 10**13, "delta": 10**17, "mu": "1/1.0"},
        **{"accounting": "gaussian", "plain_epsilon": 0, "plain_delta": 0},
    },
}


@pytest.fixture(params=BOTH)
def accounting(request):
    return request.param


@pytest.fixture
def secret(tmp_path):
    path = tmp_path / "seal.key"
    path.write_text("four words are a passphrase\n")
    return path


@pytest.fixture
def sealed(tmp_path, secret, monkeypatch, accounting):
    """A sealed ledger of a file, opened with its secret."""
    monkeypatch.setattr(books, "PERIOD", 5)
    ledger = open_ledger(tmp_path / "ledger.db", seal=secret, accounting=accounting)
    ledger.declare("people", epsilon=1.0, delta=1e-6)
    return ledger


def spend(ledger, number):
    reservation = ledger.reserve("people", study_hash({"number": number}), **COST)
    reservation.charge()
    reservation.commit(f"artefact {number}")


def promised(account):
    """What the total promises, by each of its words."""
    return str(account.promise), account.total.epsilon, account.total.delta


ONCE = ("epsilon 1, delta 1e-6", 1.0, 1e-6)


def rows_of(ledger):
    with ledger._store.read() as transaction:
        return list(transaction.rows())


def forge(tmp_path, ledger, seal, kind="declare", **fields):
    """What whoever can write the file can add to it."""
    *_, last = rows_of(ledger)
    body = canonical(
        {
            **{"sequence": last[0] + 1, "previous": last[2], "at": "2026-01-01T00:00:00Z"},
            **{"salt": "0" * 64, "kind": kind},
            **(fields or HUGE[ledger.accounting]),
        }
    )
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as connection, connection:
        row = (last[0] + 1, body, sha256(body), seal)
        connection.execute("INSERT INTO ledger_entries VALUES (?, ?, ?, ?)", row)
    return last[0] + 1


def test_without_the_secret_one_releases_and_does_not_declare(tmp_path, sealed, secret):
    clerk = open_ledger(tmp_path / "ledger.db", accounting=sealed.accounting)
    for number in range(6):
        spend(clerk, number)
    assert clerk.show("people").gaussian == (sealed.accounting == "gaussian")
    for dataset, replace in (("people", True), ("others", False)):
        with pytest.raises(BudgetError, match="the ledger is sealed: only who has its secret"):
            clerk.declare(dataset, epsilon=9.0, delta=1e-6, replace=replace)
    with pytest.raises(BudgetError, match="the ledger is sealed"):  # not even what stands
        clerk.declare("people", epsilon=1.0, delta=1e-6)
    kinds = [json.loads(body)["kind"] for _, body, *_ in rows_of(clerk)]
    assert "snapshot" not in kinds  # it would count for nothing
    assert clerk.verify().seals == "not checked"
    assert sealed.verify().seals == "checked"
    assert json.loads(rows_of(clerk)[-1][1])["kind"] == "snapshot"  # the keeper's check rests
    assert sealed.verify().entries == 21
    spend(clerk, 7)
    sealed.declare("people", epsilon=2.0, delta=1e-6, replace=True)
    assert promised(clerk.show("people")) == ("epsilon 2, delta 1e-6", 2.0, 1e-6)


def test_only_the_seals_are_stored(sealed, secret):
    rows = rows_of(sealed)
    assert [len(seal) for *_, seal in rows] == [64, 64]
    assert "passphrase" not in str(rows)
    assert len({seal for *_, seal in rows}) == 2


def test_a_declaration_without_a_seal_is_ignored_by_everybody(tmp_path, sealed):
    clerk = open_ledger(tmp_path / "ledger.db", accounting=sealed.accounting)
    for seal in ("", "-", "abc"):
        forged = forge(tmp_path, sealed, seal)
        for ledger in (clerk, sealed):
            assert promised(ledger.show("people")) == ONCE
            (notice,) = ledger.show("people").notices
            assert notice.startswith(f"entry {forged}")
    with pytest.raises(
        LedgerError, match='only a keeper writes "declare", and this one has no seal'
    ):
        sealed.verify()
    spend(clerk, 1)


def test_a_false_seal_stops_whoever_has_the_secret(tmp_path, sealed):
    forged = forge(tmp_path, sealed, "f" * 64)
    for action in (sealed.verify, sealed.head, lambda: spend(sealed, 1)):
        with pytest.raises(LedgerError, match=f"entry {forged} has a false seal") as found:
            action()
        assert found.value.exit_code == 5


def test_a_seal_is_of_one_entry_and_of_one_ledger(tmp_path, sealed, secret):
    """Neither another entry's seal, nor one that the same secret made elsewhere."""
    *_, last = rows_of(sealed)
    forge(tmp_path, sealed, last[3])
    with pytest.raises(LedgerError, match="entry 3 has a false seal"):
        sealed.verify()
    body = last[1]
    own = Seal.load(secret)
    assert own.of(body, "0" * 64) != own.of(body, "1" * 64)


def test_a_false_snapshot_needs_the_secret_too(tmp_path, sealed):
    for number in range(3):
        spend(sealed, number)
    clerk = open_ledger(tmp_path / "ledger.db", accounting=sealed.accounting)
    state = json.loads(next(b for _, b, *_ in rows_of(clerk) if '"kind":"snapshot"' in b))["state"]
    total = {"plain": [10**17, 10**17], "gaussian": [0, 0, 10**25]}[sealed.accounting]
    assert len(state["datasets"][0]["total"]) == len(total)
    state["datasets"][0]["total"] = total
    forge(tmp_path, sealed, "-", kind="snapshot", state=state)
    for ledger in (clerk, sealed):
        assert promised(ledger.standing("people")) == ONCE
    forged = forge(tmp_path, sealed, "f" * 64, kind="snapshot", state=state)
    with pytest.raises(LedgerError, match=f"entry {forged} has a false seal"):
        sealed.standing("people")
    with pytest.raises(
        LedgerError, match=f"entry {forged - 1} breaks|{forged} is a false snapshot"
    ):
        clerk.verify()  # who lacks the secret finds it by replaying everything


def test_another_secret_and_none_where_there_is_none(tmp_path, sealed):
    other = tmp_path / "other.key"
    other.write_text("another passphrase altogether")
    wrong = open_ledger(tmp_path / "ledger.db", seal=other)
    for action in (wrong.verify, lambda: wrong.declare("others", epsilon=1.0, delta=1e-6)):
        with pytest.raises(LedgerError, match=r"entry \d has a false seal"):
            action()
    plain = open_ledger(tmp_path / "plain.db")
    plain.declare("people", epsilon=1.0, delta=1e-6)
    assert plain.verify().seals == "none"
    late = open_ledger(tmp_path / "plain.db", seal=other)
    with pytest.raises(BudgetError, match="was begun without a seal"):
        late.declare("people", epsilon=2.0, delta=1e-6, replace=True)
    with pytest.raises(LedgerError, match="was begun without a seal"):
        late.verify()


@pytest.mark.parametrize("content", [None, b"", b"too short", b" " * 100, b"x" * 70_000])
def test_a_secret_that_is_none(tmp_path, content):
    path = tmp_path / "seal.key"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=r"the seal .*seal\.key (cannot be read|holds \d+ bytes)"):
        open_ledger(tmp_path / "ledger.db", seal=path)


def test_the_commands_take_a_seal(tmp_path, secret, capsys):
    ledger = ["--ledger", str(tmp_path / "ledger.db")]
    amount = ["--epsilon", "1", "--delta", "1e-6", "--unit", "trajectory"]

    def run(*arguments):
        ledgers([*arguments, *ledger], standalone_mode=False)
        return capsys.readouterr().out

    run("declare", "people", *amount, "--seal", str(secret))
    assert "The seals of its totals were checked\n" in run("verify", "--seal", str(secret))
    assert "were not checked: that takes the secret, --seal FILE" in run("verify")
    assert json.loads(run("verify", "--json"))["seals"] == "not checked"
    with pytest.raises(BudgetError, match="is sealed"):
        run("declare", "others", *amount)


def test_a_seal_is_a_regular_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(UsageError, match="cannot be read: it is not a regular file"):
            Seal.load(name)
