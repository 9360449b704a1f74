"""The rules of a ledger: names, requests, a naive model; heads that tell nothing."""

import json
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles.ledgers import DATASET, SqlitePlace, charge, declare, request, rows
from oracles.refusals import refused
from privalue.errors import BudgetError, LedgerError
from privalue.ledger import Amount, entries, open_ledger, study_hash
from privalue.ledger.entries import canonical_json, sha256


@pytest.fixture
def ledger(tmp_path):
    ledger = open_ledger(tmp_path / "ledger.db")
    declare(ledger)
    return ledger


NO_NAMES = ["", " x", "a\nb", "a\0b", "x" * 101, "Trial", "trial 2026", "-x", "Köln", 3]


def test_invalid_names_hashes_and_requests_are_refused(tmp_path):
    ledger = open_ledger(tmp_path / "ledger.db")
    wrong = [partial(declare, ledger, name) for name in NO_NAMES]
    wrong += [partial(request, dataset=name) for name in NO_NAMES]
    for text in ("", "x" * 64, "A" * 64, "a" * 63):
        wrong += [partial(request, text), partial(ledger.verify, heads=[text])]
    for what in ("", "two\nlines", "x" * 501):
        wrong.append(partial(request, what=what))
    for alpha in (0.0, float("inf")):
        wrong.append(partial(request, alpha=alpha))
    wrong += [partial(request, epsilon=0), partial(request, unit="household")]
    for action in wrong:
        with refused("out-of-range", "usage"):
            action()
    assert not (tmp_path / "ledger.db").exists()


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
    model, charges = Model(20), []
    declare(ledger, epsilon=20.0, delta=0.0)
    for kind, which, value in steps:
        at = which % len(charges) if charges else 0
        if kind == "commit" and not charges:
            continue
        allowed = model.allows(kind, at, value)
        try:
            if kind == "declare":
                declare(ledger, epsilon=float(value), delta=0.0, replace=True)
            elif kind == "charge":
                study = study_hash({"n": len(charges)})
                charges.append(charge(ledger, request(study, epsilon=float(value), delta=0.0)))
            else:
                text = json.dumps({"ledger_head": charges[at].head, "n": len(rows_of(ledger))})
                ledger.commit(charges[at], text)
        except (BudgetError, LedgerError):
            assert not allowed
            continue
        assert allowed
        model.apply(kind, at, value)
    account = ledger.account(DATASET)
    used = sum(cost for cost, _ in model.charges)
    assert account.spent == Amount(epsilon=used * 10**12)
    assert (account.promise.as_floats()[0], account.balance.releases) == (model.total, len(charges))
    ledger.verify()


def rows_of(ledger):
    return rows(SqlitePlace(Path(ledger.place)))


# Heads


def hash_by(ledger, charge, author, salt):
    """The hash of the charge by that user, with that salt: all else is public."""
    body = json.loads(rows_of(ledger)[charge.number - 1][1])
    return sha256(canonical_json({**body, "author": author, "salt": salt}))


@pytest.mark.parametrize("salted", [True, False])
def test_a_head_can_be_searched_only_without_salt(ledger, salted, monkeypatch):
    """It holds the name of a user."""
    if not salted:
        monkeypatch.setattr(entries.OperatingSystemEntropy, "read", lambda self, size: bytes(size))
    entry = ledger.charge(request(), token="x")
    users = ["somebody", json.loads(rows_of(ledger)[entry.number - 1][1])["author"]]
    guesses = {hash_by(ledger, entry, user, "0" * 64) for user in users}
    assert (entry.head in guesses) != salted
