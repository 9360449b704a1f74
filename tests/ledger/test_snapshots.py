"""Going on from a snapshot is the same as replaying everything, and lies in one are found."""

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles.accountings import BOTH
from oracles.ledgers import DECLARED, RESERVED, open_ledger
from privalue.ledger import BudgetError, LedgerError, Reservation, StoredRelease, study_hash
from privalue.ledger import _book as books
from privalue.ledger._book import Book, looked_up
from privalue.ledger._chain import FORMAT, canonical, sha256
from privalue.ledger._requests import total_mu
from privalue.ledger._units import Cost, mu

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KINDS = ("reserve", "charge", "commit", "cancel", "settle", "declare", "by hand", "snapshot")
COST = {"epsilon": 0.01, "delta": 1e-8}
RELEASE = {"epsilon": 10**11, "delta": 10**11}  # (0.1, 1e-7), with an alpha that costs little
POOL = {"plain_epsilon": 90, "plain_delta": 45}


def own_of_squares(kind, dataset, number, value):
    """The same, of a Gaussian book with a plain pool: by a mu, or without one."""
    fields = own(kind, dataset, number, value)
    if kind == "reserve" and value % 2:
        return {**fields, **RELEASE, "mu": mu(50.0 * value)}
    if kind == "declare":
        promise = Cost(epsilon=value * 10**11 + 90, delta=10**12 + 45)
        rest = promise - Cost(epsilon=90, delta=45)
        whole = {"epsilon": promise.epsilon, "delta": promise.delta, **POOL}
        return {**fields, **whole, "accounting": "gaussian", "mu": total_mu(**rest.as_dict())}
    return fields


def own(kind, dataset, number, value):
    """The fields of an entry, sensible or not."""
    request = {"dataset": dataset, "study": study_hash({"number": value})}
    return {
        "reserve": {**request, "epsilon": value, "delta": value, **RESERVED},
        "charge": {"reservation": number},
        "commit": {"reservation": number, "artefact": "a" * 64, **request},
        "cancel": {"reservation": number, "reason": "-"},
        "settle": {"reservation": number, "outcome": "charged", "reason": "-"},
        "declare": {"dataset": dataset, "epsilon": 20 * value, "delta": 99, **DECLARED},
    }[kind]


def by_hand(book, row_number, **fields):
    """A row that continues the chain, whatever else it says."""
    body = canonical(
        {
            **{"sequence": row_number, "previous": book.head, "at": "2026-01-01T00:00:00Z"},
            **{"salt": "0" * 64, "kind": "reserve"},
            **fields,
        }
    )
    return row_number, body, sha256(body), ""


@given(
    st.lists(
        st.tuples(
            st.sampled_from(KINDS), st.sampled_from("de"), st.integers(1, 30), st.integers(1, 6)
        ),
        max_size=40,
    ),
)
@pytest.mark.parametrize("accounting", BOTH)
def test_a_snapshot_is_what_the_entries_come_to(accounting, steps):
    """From every snapshot of a random history, rows by hand included, the same book follows."""
    book, fields_of = Book(), own_of_squares if accounting == "gaussian" else own
    begun = {"format": 4, "squares": True} if accounting == "gaussian" else {"format": 3}
    rows = [book.write("begin", NOW, sealed=False, **begun)]
    for name in "de":
        rows.append(book.write("declare", NOW, **fields_of("declare", name, 0, 3)))
    for kind, dataset, number, value in steps:
        if kind == "by hand":
            foreign = by_hand(book, book.sequence + 1, dataset=dataset, epsilon=-value)
            rows.append(foreign)
            book.replay([foreign])
            continue
        try:
            given_fields = {"state": book.state()} if kind == "snapshot" else None
            rows.append(
                book.write(kind, NOW, **(given_fields or fields_of(kind, dataset, number, value)))
            )
        except (BudgetError, ValueError):
            continue
    whole = Book().replay(rows)
    assert (whole.state(), whole.head) == (book.state(), book.head)
    for at, row in enumerate(rows):
        resumed = Book()
        resumed.begin_with(rows[0])
        if not resumed.rest_at(row):
            continue
        resumed.replay(rows[at + 1 :])
        assert resumed.state() == whole.state()
        assert (resumed.head, resumed.sequence) == (whole.head, whole.sequence)
        assert resumed.open == whole.open
        assert set(resumed.ignored) == set(whole.ignored)


@pytest.fixture(params=BOTH)
def accounting(request):
    return request.param


@pytest.fixture
def ledger(tmp_path, monkeypatch, accounting):
    monkeypatch.setattr(books, "PERIOD", 5)
    opened = open_ledger(tmp_path / "ledger.db", accounting=accounting)
    opened.declare("people", epsilon=10.0, delta=1e-5)
    return opened


def spend(ledger, number):
    reservation = ledger.reserve("people", study_hash({"number": number}), **COST)
    reservation.charge()
    reservation.commit(f"artefact {number}")
    return reservation


def kinds(ledger):
    with ledger._store.read() as transaction:
        return [json.loads(body)["kind"] for _, body, *_ in transaction.rows()]


def test_the_work_of_an_operation_does_not_grow(tmp_path, monkeypatch):
    monkeypatch.setattr(books, "PERIOD", 8)
    admitted = []
    admit = Book._admit
    monkeypatch.setattr(
        Book, "_admit", lambda book, *row: (admitted.append(row[0]), admit(book, *row))
    )
    ledger = open_ledger(tmp_path / "ledger.db")
    ledger.declare("people", epsilon=100.0, delta=1e-4)
    most = 0
    for number in range(20):
        admitted.clear()
        spend(ledger, number)
        ledger.stored("people", study_hash({"number": 0}))
        ledger.standing("people")
        ledger.head()
        most = max(most, len(admitted))
    assert ledger.verify().entries > 60
    assert most <= 6 * (8 + 1)


def test_what_is_over_is_found_behind_a_snapshot(ledger):
    first = spend(ledger, 0)
    cancelled = ledger.reserve("people", study_hash({"number": "cancelled"}), **COST)
    cancelled.cancel("DataError")
    settled = ledger.reserve("people", study_hash({"number": "settled"}), **COST)
    ledger.settle(settled.sequence, charge=True, reason="it hangs")
    for number in range(1, 9):
        spend(ledger, number)
    assert kinds(ledger).count("snapshot") > 3
    entries = ledger.verify().entries
    first.commit("artefact 0")  # once more, which changes nothing
    assert ledger.verify().entries == entries
    with pytest.raises(BudgetError, match="is committed, and cannot be committed"):
        first.commit("another")
    with pytest.raises(BudgetError, match="is cancelled, and cannot be charged"):
        cancelled.charge()
    with pytest.raises(BudgetError, match="cannot be cancelled"):
        ledger.settle(first.sequence, charge=False, reason="a slip")
    with pytest.raises(ValueError, match="entry 2 is not a reservation"):
        ledger.settle(2, charge=True, reason="a slip")
    settled.charge()  # it was alive after all: it is paid for
    settled.commit("late")
    again = ledger.reserve("people", study_hash({"number": 0}), **COST)
    assert isinstance(again, StoredRelease)
    assert (again.artefact, again.head) == ("artefact 0", first.head)
    assert ledger.stored("people", study_hash({"number": "settled"})).artefact == "late"
    assert ledger.stored("others", study_hash({"number": 0})) is None
    assert isinstance(
        ledger.reserve("people", study_hash({"number": "cancelled"}), **COST), Reservation
    )
    account, standing = ledger.show("people"), ledger.standing("people", head=first.head)
    assert account.spent == standing.spent
    assert standing.number_of_releases == len(account.releases) == 10
    with pytest.raises(LedgerError, match="no entry has the hash"):
        ledger.standing("people", head="f" * 64)


def test_a_reservation_that_was_left_is_told_behind_many_snapshots(ledger):
    left = ledger.reserve("people", study_hash({"number": "left"}), **COST)
    for number in range(9):
        spend(ledger, number)
    assert kinds(ledger).count("snapshot") > 3
    told = ledger.reserve("people", study_hash({"number": 99}), **COST).notices
    cost = {"plain": "epsilon 0.01", "gaussian": "mu 0.00"}[ledger.accounting]
    assert f"found entry {left.sequence}, {cost}" in told[0]
    with pytest.raises(BudgetError, match="the identical request is in progress"):
        ledger.reserve("people", study_hash({"number": "left"}), **COST)


def change(state, name, to):
    """Another amount, in a list as long as it was."""
    (dataset,) = state["datasets"]
    assert dataset[name] != to[: len(dataset[name])]
    dataset[name] = to[: len(dataset[name])]


LIES = {
    "spent": lambda state: change(state, "spent", [0, 0, 0]),
    "total": lambda state: change(state, "total", [10**17, 10**13, 10**25]),
    "a dataset": lambda state: state["datasets"].append(
        {**state["datasets"][0], "dataset": "nobody"}
    ),
    "a reservation": lambda state: state["reservations"].clear(),
    "what is ignored": lambda state: state["ignored"].append(3),
    "the clock": lambda state: state.update(at="2020-01-01T00:00:00Z"),
    "one more key": lambda state: state.update(note="-"),
}
# What only a Gaussian book says.
LIES_OF_SQUARES = {
    "the promise": lambda state: change(state, "promise", [10**12, 0]),
    "the total before a move": lambda state: change(state, "before", [1, 0]),
    "squares alone": lambda state: change(state, "spent", [0, 0, 1]),
    "what is reserved": lambda state: state["reservations"][0].update(cost=[0, 0, 1]),
    "a mu": lambda state: state["reservations"][0].update(mu="1/1e3"),
    "no mu": lambda state: state["reservations"][0].pop("mu"),
}


@pytest.mark.parametrize(
    ("lie", "accounting"),
    [
        *((lie, accounting) for lie in LIES for accounting in BOTH),
        *((lie, "gaussian") for lie in LIES_OF_SQUARES),
    ],
)
def test_a_false_snapshot_is_found_and_named(ledger, tmp_path, lie):
    """All hashes fit, as whoever can write the file can make them."""
    ledger.reserve("people", study_hash({"number": "left"}), **COST)
    for number in range(4):
        spend(ledger, number)
    with ledger._store.read() as transaction:
        rows = list(transaction.rows())
    at = [json.loads(body)["kind"] for _, body, *_ in rows].index("snapshot")
    entry = json.loads(rows[at][1])
    (LIES | LIES_OF_SQUARES)[lie](entry["state"])
    head, made = rows[at - 1][2], []
    for number, body, _, seal in [(at + 1, canonical(entry), "", "-"), *rows[at + 1 :]]:
        again = canonical({**json.loads(body), "previous": head})
        head = sha256(again)
        made.append((number, again, head, seal))
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as connection, connection:
        for trigger in ("ledger_entries_DELETE", "ledger_entries_follow"):
            connection.execute(f"DROP TRIGGER {trigger}")
        connection.execute("DELETE FROM ledger_entries WHERE sequence > ?", (at,))
        connection.executemany("INSERT INTO ledger_entries VALUES (?, ?, ?, ?)", made)
    with pytest.raises(LedgerError, match=f"entry {at + 1} is a false snapshot") as found:
        ledger.verify()
    assert found.value.exit_code == 5


def test_a_snapshot_that_says_nonsense_is_one_line(ledger, tmp_path):
    for number in range(4):
        spend(ledger, number)
    book = Book()
    with ledger._store.read() as transaction:
        book.replay(transaction.rows())
    body = canonical(
        {
            **{"sequence": book.sequence + 1, "previous": book.head, "kind": "snapshot"},
            **{"at": "2026-01-01T00:00:00Z", "salt": "0" * 64, "state": {"datasets": 7}},
        }
    )
    with ledger._store.write() as transaction:
        transaction.append((book.sequence + 1, body, sha256(body), "-"))
    for action in (ledger.verify, lambda: ledger.standing("people"), ledger.head):
        with pytest.raises(LedgerError, match=f"entry {book.sequence + 1} is a false snapshot"):
            action()


def test_the_clock_and_its_notice_go_on(tmp_path, monkeypatch):
    monkeypatch.setattr(books, "PERIOD", 3)
    hours = iter([5, 5, 5, 3, *[4] * 100])
    ledger = open_ledger(tmp_path / "ledger.db", clock=lambda: NOW.replace(hour=next(hours)))
    ledger.declare("people", epsilon=1.0, delta=1e-6)
    for number in range(6):
        spend(ledger, number)
    (line,) = ledger.reserve("people", study_hash({}), **COST).notices
    assert line in ledger.verify().notices
    assert line.startswith("the clock ran backwards at entry ")


# What an index leads to


def test_an_entry_that_an_index_leads_to_says_what_the_index_says():
    row = Book().write("begin", NOW, format=FORMAT, sealed=False, squares=True)
    assert looked_up(row, kind="begin")["sequence"] == 1
    with pytest.raises(LedgerError, match="does not say what the index"):
        looked_up(row, kind="commit", study="a" * 64)
    with pytest.raises(LedgerError, match="was moved here"):
        looked_up((7, *row[1:]), kind="begin")
    with pytest.raises(LedgerError, match="was changed"):
        looked_up((1, row[1] + " ", *row[2:]), kind="begin")


def test_a_ledger_without_its_first_entry_is_damaged(tmp_path):
    ledger = open_ledger(tmp_path / "ledger.db")
    ledger.declare("people", epsilon=1.0, delta=1e-6)
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as connection, connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'"):
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute("DELETE FROM ledger_entries WHERE sequence = 1")
    for action in (ledger.head, ledger.verify, lambda: ledger.show("people")):
        with pytest.raises(LedgerError, match="entry 1"):
            action()
