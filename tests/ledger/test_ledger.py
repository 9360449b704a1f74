"""The rules of a ledger: names, requests, a naive model; heads that tell nothing."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles.ledgers import DATASET, STUDY, WHOM, SqlitePlace, charge, declare, request, rows, spend
from privalue.errors import BudgetError, LedgerError, UsageError
from privalue.ledger import Amount, ReleaseRequest, entries, open_ledger, study_hash
from privalue.ledger.entries import canonical, sha256
from privalue.ledger.store import GENESIS


@pytest.fixture
def ledger(tmp_path):
    opened = open_ledger(tmp_path / "ledger.db")
    declare(opened)
    return opened


@pytest.mark.parametrize(
    "name",
    [
        "",
        " x",
        "x ",
        "a\nb",
        "a\0b",
        "x" * 101,
        "Trial",
        "trial 2026",
        "-x",
        ".x",
        "Köln",
        "患者",
        3,
    ],
)
def test_a_name_that_is_none(tmp_path, name):
    ledger = open_ledger(tmp_path / "ledger.db")
    for action in (lambda: declare(ledger, name), lambda: request(dataset=name)):
        with pytest.raises(UsageError, match="a name is up to 100 of a-z, 0-9, - and"):
            action()
    assert not (tmp_path / "ledger.db").exists()


def test_a_request_is_its_description_not_its_spelling():
    assert study_hash({"a": 1, "b": 0.1}) == study_hash({"b": 0.1, "a": 1})
    assert study_hash({"a": 1}) != study_hash({"a": 1.5})


@pytest.mark.parametrize("text", ["", "x" * 64, "A" * 64, "a" * 63])
def test_a_hash_that_is_none(ledger, text):
    for action in (lambda: request(text), lambda: ledger.verify(heads=[text])):
        with pytest.raises(UsageError, match="not a SHA-256"):
            action()


def test_what_a_request_cannot_be():
    good = {"dataset": DATASET, "epsilon": 0.1, "delta": 0.0, "what": "x", **WHOM}
    for wrong in (
        {"what": ""},
        {"what": "two\nlines"},
        {"what": "x" * 501},
        {"alpha": 0.0},
        {"alpha": float("inf")},
        {"epsilon": 0},
        {"unit": "household"},
    ):
        with pytest.raises(UsageError):
            ReleaseRequest(**{**good, **wrong})


class Model:
    """The rules once more, as naively as can be."""

    def __init__(self, total):
        self.total, self.charges = total, []

    def allows(self, kind, at, value):
        if kind == "declare":
            return value >= max(1, sum(cost for cost, _ in self.charges))
        if kind == "charge":
            return value <= self.total - sum(cost for cost, _ in self.charges)
        return not self.charges[at][1]

    def apply(self, kind, at, value):
        if kind == "declare":
            self.total = value
        elif kind == "charge":
            self.charges.append((value, False))
        else:
            self.charges[at] = (self.charges[at][0], True)


STEPS = st.tuples(
    st.sampled_from(["declare", "charge", "commit"]), st.integers(0, 5), st.integers(1, 12)
)


@given(steps=st.lists(STEPS, max_size=15))
@settings(max_examples=15, deadline=None)
def test_the_rules_are_those_of_the_naive_model(steps, tmp_path_factory):
    ledger = open_ledger(tmp_path_factory.mktemp("model") / "ledger.db")
    model, made = Model(20), []
    declare(ledger, epsilon=20.0, delta=0.0)
    for kind, which, value in steps:
        at = which % len(made) if made else 0
        if kind == "commit" and not made:
            continue
        allowed = model.allows(kind, at, value)
        try:
            if kind == "declare":
                declare(ledger, epsilon=float(value), delta=0.0, replace=True)
            elif kind == "charge":
                asked = request(study_hash({"n": len(made)}), epsilon=float(value), delta=0.0)
                made.append(charge(ledger, asked))
            else:
                text = json.dumps({"ledger_head": made[at].head, "n": len(rows_of(ledger))})
                ledger.commit(made[at], text)
        except (BudgetError, LedgerError):
            assert not allowed
            continue
        assert allowed
        model.apply(kind, at, value)
    account = ledger.account(DATASET)
    used = sum(cost for cost, _ in model.charges)
    assert account.spent == Amount(epsilon=used * 10**12)
    assert (account.promise.as_floats()[0], account.balance.releases) == (model.total, len(made))
    ledger.verify()


def rows_of(ledger):
    return rows(SqlitePlace(Path(ledger.place)))


def test_an_account_as_json(ledger):
    spend(ledger, request())
    told = ledger.account(DATASET).as_dict()
    head = told.pop("head")
    assert told == {
        **{"dataset": DATASET, "unit": "trajectory", "neighbours": "replace-one"},
        **{"max_trajectories_per_person": None, "accounting": "plain"},
        "declared": {"epsilon": 1.0, "delta": 1e-6},
        "promise": {"epsilon": 1.0, "delta": 1e-6},
        "total": {"epsilon": 1.0, "delta": 1e-6},
        "spent": {"epsilon": 0.1, "delta": 1e-7},
        "left": {"epsilon": 0.9, "delta": 9e-7},
        "releases": 1,
    }
    assert head == ledger.head()


def test_postgresql_without_the_extra_says_what_to_install(monkeypatch):
    import sys

    from privalue.errors import MissingComponentError

    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingComponentError, match=r"pip install 'psycopg\[binary\]'"):
        open_ledger("postgresql://user@host/database")


# Heads


def guess(ledger, made, moment, salt):
    """The hash of the charge, if it was made at that moment with that salt: all else is public."""
    said = json.loads(rows_of(ledger)[made.number - 1][1])
    return sha256(canonical({**said, "at": moment.strftime("%Y-%m-%dT%H:%M:%SZ"), "salt": salt}))


@pytest.mark.parametrize("salted", [True, False])
def test_a_head_can_be_searched_only_without_salt(ledger, salted, monkeypatch):
    """When a charge was made tells how long reading took, and so how many rows there are."""
    if not salted:
        monkeypatch.setattr(entries.OperatingSystemEntropy, "read", lambda self, size: bytes(size))
    made = ledger.charge(request(), token="x")
    now = datetime.now(UTC)
    moments = [now - timedelta(seconds=seconds) for seconds in range(600)]
    found = made.head in {guess(ledger, made, moment, "0" * 64) for moment in moments}
    assert found != salted


def test_every_entry_has_bytes_of_its_own_and_names_the_one_before(ledger):
    spend(ledger, request())
    declare(ledger, "others")
    said = [json.loads(body) for _, body, _ in rows_of(ledger)]
    salts = {entry["salt"] for entry in said}
    assert len(salts) == len(said) == 4
    assert {len(bytes.fromhex(salt)) for salt in salts} == {32}
    assert [entry["previous"] for entry in said] == [
        GENESIS,
        *(head for *_, head in rows_of(ledger)[:-1]),
    ]
    assert STUDY in {entry.get("request") for entry in said}
