"""Who releases cannot declare: two roles of a real PostgreSQL server, and any SQL of the one.

And on both stores: a row that somebody writes by hand stops nobody, and is found.
"""

import json
import sqlite3
from contextlib import closing

import pytest

import privalue as pv
import privalue.ledger
from conformance.test_ledger_stores import (  # noqa: F401 - two of them are fixtures
    BOTH_WAYS,
    PostgresPlace,
    SqlitePlace,
    _schemas,
    drive,
    judge_race,
    place,
    server,
    spend,
)
from oracles.accountings import IN_BOTH, in_turn
from oracles.ledger_driver import DATASET, DELTA
from oracles.ledgers import DECLARED, RESERVED, open_ledger
from oracles.studies import study
from privalue import _charged
from privalue.cli._app import run
from privalue.cli._ledger import ledgers
from privalue.core import gaussian
from privalue.errors import UsageError
from privalue.ledger import BudgetError, Cost, LedgerError, StoredRelease, study_hash
from privalue.ledger import _book as books
from privalue.ledger._chain import canonical, sha256
from privalue.ledger._squares import dominating_square
from privalue.ledger._units import mu

TOTAL = {"dataset": DATASET, "epsilon": 10**17, "delta": 10**17, **DECLARED}
SQUARES = {
    **{**TOTAL, "epsilon": 10**13, "accounting": "gaussian", "mu": "1/1.0"},
    **{"plain_epsilon": 0, "plain_delta": 0},
}
MOVE = {**SQUARES, "spent": [0, 0, 0], "before": [10**12, 10**12]}
REQUEST = {"dataset": DATASET, "study": study_hash({"by": "hand"})}
psycopg = pytest.importorskip("psycopg", reason="the extra postgres is not installed")


class Roles:
    """An owner who declared a total, and a clerk with the rights that the program prints."""

    def __init__(self, server, accounting):  # noqa: F811
        self.place = PostgresPlace(server, next(_schemas))
        self.owner = open_ledger(self.place.location, accounting=accounting)
        self.owner.declare(DATASET, epsilon=1.0, delta=1e-6)
        self.name = f"clerk_{self.place.schema}"
        server.execute(f"CREATE ROLE {self.name} LOGIN")
        self.place.execute(self.owner.grant_sql(self.name))
        self.location = self.place.location.replace("keeper@", f"{self.name}@")
        self.clerk = open_ledger(self.location, accounting=accounting)

    def execute(self, statement, parameters=None):
        with psycopg.connect(self.location, autocommit=True) as connection:
            connection.execute(statement, parameters)


@pytest.fixture
def roles(server, accounting):  # noqa: F811
    return Roles(server, accounting)


def next_row(location, kind, **fields):
    """A row that continues the chain, as whoever knows how it is made can write it."""
    ledger = open_ledger(location)
    with ledger._store.read() as transaction:
        *_, last = transaction.rows()
    entry = {
        **{"sequence": last[0] + 1, "previous": last[2], "at": "2026-01-01T00:00:00Z"},
        **{"salt": "0" * 64, "kind": kind},
        **fields,
    }
    body = canonical(entry)
    return last[0] + 1, body, sha256(body)


INSERT = "INSERT INTO ledger_entries (sequence, body, hash) VALUES (%s, %s, %s)"


@IN_BOTH
def test_a_clerk_releases_from_end_to_end(roles):
    artefact, head = spend(roles.clerk)
    again = roles.clerk.reserve(DATASET, study_hash({"study": 1}), epsilon=0.1, delta=DELTA)
    assert isinstance(again, StoredRelease)
    assert (again.artefact, again.head) == (artefact, head)
    reservation = roles.clerk.reserve(DATASET, study_hash({"s": 2}), epsilon=0.1, delta=DELTA)
    reservation.cancel("DataError")
    left = roles.clerk.reserve(DATASET, study_hash({"s": 3}), epsilon=0.1, delta=DELTA)
    roles.clerk.settle(left.sequence, charge=True, reason="gone")
    for ledger in (roles.clerk, roles.owner):
        ledger.verify(head=head, artefact=artefact)
        spent = ledger.price(0.1, DELTA) + ledger.price(0.1, DELTA)
        assert ledger.standing(DATASET, head=head).spent.units == spent


@IN_BOTH
def test_a_clerk_cannot_declare(roles):
    why = "the database lets this role release and not declare"
    for dataset, replace in ((DATASET, True), ("others", False)):
        with pytest.raises(BudgetError, match=why) as found:
            roles.clerk.declare(dataset, epsilon=20.0, delta=1e-5, replace=replace)
        assert found.value.exit_code == 4
    with pytest.raises(BudgetError, match=why):  # not even what stands
        roles.clerk.declare(DATASET, epsilon=1.0, delta=1e-6)
    spend(roles.clerk)
    move = {"accounting": "gaussian", "replace": True, "add_deltas": True}
    move |= {"plain_epsilon": 0.5, "plain_delta": 5e-7}
    with pytest.raises(BudgetError, match=why):  # nor move to squares, or raise them
        roles.clerk.declare(DATASET, epsilon=2.0, delta=1e-6, **move)
    assert roles.clerk.show(DATASET).total == roles.owner.show(DATASET).total
    assert (roles.owner.show(DATASET).total.epsilon, roles.owner.verify().entries) == (1.0, 5)


FORBIDDEN = {
    "update": "UPDATE ledger_entries SET body = body",
    "delete": "DELETE FROM ledger_entries",
    "truncate": "TRUNCATE ledger_entries",
    "an artefact": "UPDATE ledger_artefacts SET text = 'x'",
    "all artefacts": "TRUNCATE ledger_artefacts",
    "a false artefact": f"INSERT INTO ledger_artefacts (hash, text) VALUES ('{'a' * 64}', 'x')",
    "the trigger": "ALTER TABLE ledger_entries DISABLE TRIGGER ALL",
    "no trigger": "DROP TRIGGER ledger_entries_follow ON ledger_entries",
    "its function": "CREATE OR REPLACE FUNCTION ledger_follows() RETURNS trigger LANGUAGE plpgsql"
    " AS $$ BEGIN RETURN NEW; END $$",
    "replication": "SET session_replication_role = replica",
    "the owner": "SET ROLE keeper",
    "another session": "SET SESSION AUTHORIZATION keeper",
    "a table": "CREATE TABLE ledger_more ()",
    "a column": "ALTER TABLE ledger_entries ALTER seal SET DEFAULT '-'",
    "a rule": "CREATE RULE raised AS ON INSERT TO ledger_entries DO INSTEAD NOTHING",
    "no text": "INSERT INTO ledger_entries (sequence, body, hash) VALUES (3, '', '')",
    "garbage": "INSERT INTO ledger_entries (sequence, body, hash)"
    " VALUES (3, 'x', encode(sha256('x'), 'hex'))",
    "no predecessor": "INSERT INTO ledger_entries (sequence, body, hash)"
    " VALUES (3, '{}', encode(sha256('{}'), 'hex'))",
    "a copy": "INSERT INTO ledger_entries (sequence, body, hash)"
    " SELECT sequence + 1, body, hash || '0' FROM ledger_entries",
}


@in_turn("attempt", FORBIDDEN)
def test_what_the_database_refuses_a_clerk(roles, attempt):
    before = roles.owner.verify()
    with pytest.raises(psycopg.Error):
        roles.execute(FORBIDDEN[attempt])
    assert roles.owner.verify() == before


@in_turn("written", [("declare", TOTAL), ("declare", SQUARES), ("move", MOVE)])
def test_a_clerk_cannot_seal_what_it_writes(roles, written):
    """Neither by naming the column, nor by a conflict, nor by COPY."""
    (kind, fields), before = written, roles.owner.show(DATASET).total
    row = next_row(roles.place.location, kind, **fields)
    roles.execute("GRANT INSERT (seal) ON ledger_entries TO CURRENT_USER")  # a warning, no more
    columns = "ledger_entries (sequence, body, hash, seal)"
    for statement in (
        f"INSERT INTO {columns} VALUES (%s, %s, %s, '-')",
        "INSERT INTO ledger_entries VALUES (%s, %s, %s, '-')",
        f"{INSERT} ON CONFLICT (sequence) DO UPDATE SET seal = '-'",
        "WITH added AS (INSERT INTO ledger_entries (sequence, body, hash) VALUES (%s, %s, %s)"
        " RETURNING sequence) UPDATE ledger_entries SET seal = '-'",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            roles.execute(statement, row)
    with (
        psycopg.connect(roles.location) as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
        connection.cursor().copy(f"COPY {columns} FROM STDIN") as target,
    ):
        target.write_row((*row, "-"))
    assert roles.owner.show(DATASET).total == before


def test_only_what_continues_the_chain_gets_in(roles):
    """Whatever the search path of the session says."""
    number, body, digest = next_row(roles.location, "declare", **TOTAL)
    far = canonical({**json.loads(body), "sequence": 10**9})
    other = canonical({**json.loads(body), "previous": "0" * 64})
    for row in (
        (10**9, far, sha256(far)),
        (number, other, sha256(other)),
        (number, body, "0" * 64),
        (0, body, digest),
        (-1, body, digest),
        (number + 1, body, digest),
    ):
        with pytest.raises(psycopg.errors.RaiseException, match="does not follow"):
            roles.execute(INSERT, row)
    schema = roles.place.schema
    with psycopg.connect(roles.location, autocommit=True) as connection:
        connection.execute("CREATE TEMP TABLE ledger_entries (sequence bigint, hash text)")
        connection.execute("INSERT INTO pg_temp.ledger_entries VALUES (%s, %s)", (1, "0" * 64))
        connection.execute("SET search_path = pg_temp, pg_catalog")
        with pytest.raises(psycopg.errors.RaiseException, match="does not follow"):
            connection.execute(
                INSERT.replace("ledger_entries", f"{schema}.ledger_entries"),
                (2, other, sha256(other)),
            )
    assert roles.owner.verify().entries == 2


def deep(depth):
    return "[" * depth + "]" * depth


BY_HAND = {
    "a total": lambda at: ("declare", TOTAL),
    "a total of squares": lambda at: ("declare", SQUARES),
    "a move to squares": lambda at: ("move", MOVE),
    "a new dataset": lambda at: ("declare", {**TOTAL, "dataset": "others"}),
    "a begin": lambda at: ("begin", {"format": 3, "sealed": False}),
    "a snapshot": lambda at: (
        "snapshot",
        {
            "state": {
                **{"reservations": [], "ignored": [], "accepted": [], "at": "", "backwards": []},
                "datasets": [
                    {
                        **{"dataset": DATASET, **DECLARED, "total": [10**18, 10**17]},
                        **{"spent": [0, 0], "reserved": [0, 0], "releases": 0, "converted": 0},
                    }
                ],
            }
        },
    ),
    "a negative amount": lambda at: (
        "reserve",
        {**REQUEST, "epsilon": -(10**12), "delta": 0, **RESERVED},
    ),
    "a negative delta": lambda at: (
        "reserve",
        {**REQUEST, "epsilon": 1, "delta": -1, **RESERVED},
    ),
    "too few steps": lambda at: (
        "reserve",
        {**REQUEST, "epsilon": 1, "delta": 0, **RESERVED, "neighbours": "add-remove"},
    ),
    "no steps": lambda at: (
        "reserve",
        {**REQUEST, "epsilon": 1, "delta": 0, **RESERVED, "steps": 0},
    ),
    "more than is left": lambda at: (
        "reserve",
        {**REQUEST, "epsilon": 10**18, "delta": 0, **RESERVED},
    ),
    "a charge taken back": lambda at: ("cancel", {"reservation": at, "reason": "-"}),
    "a charge settled away": lambda at: (
        "settle",
        {"reservation": at, "outcome": "cancelled", "reason": "-"},
    ),
    "a refund": lambda at: ("refund", {"reservation": at}),
    "another artefact": lambda at: (
        "commit",
        {"reservation": at, "artefact": "a" * 64, **REQUEST},
    ),
    "a release without a charge": lambda at: (
        "commit",
        {"reservation": at + 1, "artefact": "a" * 64, **REQUEST},
    ),
    "a number of 5,000 digits": lambda at: ("charge", {"reservation": 10**4200}),
    "escapes for a terminal": lambda at: (
        "reserve",
        {**REQUEST, "dataset": "\x1b[2J", "epsilon": 1, "delta": 0, **RESERVED},
    ),
    "a long reason": lambda at: ("accept", {"lost": "0" * 64, "reason": "x" * 1001}),
    "a long process": lambda at: (
        "reserve",
        {**REQUEST, "epsilon": 1, "delta": 0, **RESERVED, "process": "x" * 1001},
    ),
    "half a character": lambda at: ("reserve", {**REQUEST, "note": "x"}),
}


@BOTH_WAYS
@pytest.mark.parametrize("what", BY_HAND)
def test_a_row_by_hand_is_ignored_and_reported_and_stops_nobody(
    place,  # noqa: F811
    what,
    accounting,
    monkeypatch,
):
    """It keeps its place in the chain, and every reader agrees that it counts for nothing."""
    monkeypatch.setattr(books, "PERIOD", 6)
    ledger = open_ledger(place.location, accounting=accounting)
    ledger.declare(DATASET, epsilon=1.0, delta=1e-6)
    spend(ledger)
    before = ledger.show(DATASET)
    kind, fields = BY_HAND[what](3)
    row = next_row(place.location, kind, **fields)
    insert = f"INSERT INTO ledger_entries (sequence, body, hash) VALUES ({row[0]}, %s, %s)"
    write(place, insert, row[1:])
    ignored = row[0]
    for number in range(5):  # and behind a snapshot
        after = open_ledger(place.location, accounting=accounting)
        granted = after.reserve(DATASET, study_hash({"n": number}), epsilon=0.1, delta=DELTA)
        (notice,) = granted.notices
        assert notice.startswith(f"entry {ignored} was written by hand")
        granted.charge()
        granted.commit(f"{number}")
    account = open_ledger(place.location).show(DATASET)
    assert (account.total, account.terms) == (before.total, before.terms)
    assert account.spent.units == sum([after.price(0.1, DELTA)] * 6, start=Cost())
    assert account.spent == after.standing(DATASET).spent
    assert account.head == after.head()
    assert after.datasets() == (DATASET,)
    assert after.stored(DATASET, REQUEST["study"]) is None
    with pytest.raises(LedgerError, match=f"entry {ignored} breaks the rules") as found:
        after.verify()
    assert found.value.exit_code == 5
    assert str(found.value).isprintable()


def write(place, insert, values):  # noqa: F811
    """As somebody with a client of the database would."""
    if isinstance(place, SqlitePlace):
        with closing(sqlite3.connect(place.location)) as connection, connection:
            connection.execute(insert.replace("%s", "?"), values)
    else:
        with psycopg.connect(place.location) as connection:
            connection.execute(insert, values)


@in_turn("body", ["no spaces", "depth", "digits"])
def test_what_only_the_server_reads_as_json_stops_nobody(roles, body):
    """Its parser takes more than Python's: the row is in the chain, and ignored."""
    number, canon, _ = next_row(roles.location, "charge", reservation=1)
    text = {
        "no spaces": canon.replace(":", ": "),
        "depth": canon.replace('"reservation":1', f'"reservation":{deep(4000)}'),
        "digits": canon.replace('"reservation":1', f'"reservation":{"9" * 5000}'),
    }[body]
    roles.execute(INSERT, (number, text, sha256(text)))
    for ledger in (roles.clerk, roles.owner):
        spend(ledger, study=study_hash({"by": id(ledger)}))
        with pytest.raises(LedgerError, match=f"entry {number} breaks the rules"):
            ledger.verify()
    price = roles.owner.price(0.1, DELTA)
    assert roles.owner.show(DATASET).spent.units == price + price


@IN_BOTH
def test_what_somebody_really_spends_by_hand_counts(roles):
    """Valid by the rules: the safe side."""
    row = next_row(roles.location, "reserve", **REQUEST, epsilon=10**10, delta=0, **RESERVED)
    roles.execute(INSERT, row)
    roles.execute(INSERT, next_row(roles.location, "charge", reservation=row[0]))
    spent = roles.owner.show(DATASET).spent.units
    assert spent in (Cost(epsilon=10**10), Cost(square=dominating_square(10**10)))
    roles.owner.verify()


def test_a_row_of_any_length_does_not_get_in(place):  # noqa: F811
    ledger = open_ledger(place.location)
    ledger.declare(DATASET, epsilon=1.0, delta=1e-6)
    row = next_row(place.location, "accept", lost="0" * 64, reason="x" * 100_000)
    with pytest.raises((psycopg.errors.RaiseException, sqlite3.IntegrityError)):
        write(place, INSERT, row)
    assert ledger.verify().entries == 2


def test_a_reason_that_is_too_long_is_refused_in_one_line(place, capsys):  # noqa: F811
    ledger = open_ledger(place.location)
    ledger.declare(DATASET, epsilon=1.0, delta=1e-6)
    entry = ledger.reserve(DATASET, REQUEST["study"], epsilon=0.1, delta=DELTA).sequence
    settle = ["ledger", "settle", str(entry), "--charge", "--ledger", place.location, "--reason"]
    assert run([*settle, "x" * 1001]) == 2
    said = capsys.readouterr().err
    assert "reason has 1,001 characters; on the record a text has at most 1,000" in said
    assert said.count("\n") == 1
    assert run([*settle, "x" * 1000]) == 0
    ledger.verify()


@pytest.mark.parametrize("number", [2**63 - 1, 2**63, 10**23])
def test_no_entry_has_a_number_beyond_64_bits(place, number, capsys):  # noqa: F811
    ledger = open_ledger(place.location)
    ledger.declare(DATASET, epsilon=1.0, delta=1e-6)
    settle = ["ledger", "settle", "--charge", "--ledger", place.location, "--reason", "x"]
    for given in (number, -number):
        assert run([*settle, "--", str(given)]) == 2
        assert f"entry {given} is not a reservation of the ledger" in capsys.readouterr().err
        with pytest.raises(LedgerError, match="has no charge"):
            ledger.charged(given, head="0" * 64)


@BOTH_WAYS
def test_a_snapshot_that_cannot_be_stored_undoes_nothing(place, accounting, monkeypatch, tmp_path):  # noqa: F811
    """As one that is too large for the database; here, the database is told to refuse them."""
    monkeypatch.setenv("PRIVALUE_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(books, "PERIOD", 6)
    privalue.ledger.open_ledger(place.location).declare(
        DATASET, epsilon=1.0, delta=1e-6, unit="trajectory", accounting=accounting
    )
    refused = 'NEW.body LIKE \'%"kind":"snapshot"%\''
    if isinstance(place, SqlitePlace):
        place.execute(
            f"CREATE TRIGGER no_more BEFORE INSERT ON ledger_entries WHEN {refused}"
            " BEGIN SELECT RAISE(ABORT, 'too large'); END"
        )
    else:
        place.execute(
            "CREATE FUNCTION no_more() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            " RAISE EXCEPTION 'too large'; END $$;"
            " CREATE TRIGGER no_more BEFORE INSERT ON ledger_entries"
            f" FOR EACH ROW WHEN ({refused}) EXECUTE FUNCTION no_more()"
        )
    for number in range(5):  # with the head that this user remembers
        ledger = privalue.ledger.open_ledger(place.location)
        promise = {"epsilon": 0.1, "delta": DELTA, "unit": "trajectory"}
        reservation = ledger.reserve(
            DATASET,
            study_hash({"n": number}),
            **promise,
            neighbours="replace-one",
            gaussian_alpha=gaussian(0.1, DELTA).alpha,
        )
        reservation.charge()
        reservation.commit(f"{number}")
    assert ledger.verify(strict=False).entries == 17
    place.execute(
        f"DROP TRIGGER no_more{' ON ledger_entries' * (not isinstance(place, SqlitePlace))}"
    )
    assert ledger.verify(strict=False).entries == 17
    assert ledger.verify(strict=False).entries == 18  # the snapshot that was due


def test_what_the_tables_of_a_file_refuse(tmp_path):
    """All that SQLite can check, which has no SHA-256."""
    location = str(tmp_path / "ledger.db")
    ledger = open_ledger(location)
    ledger.declare(DATASET, epsilon=1.0, delta=1e-6)
    number, body, digest = next_row(location, "accept", lost="0" * 64, reason="-")
    without = json.loads(body)
    del without["previous"]
    bodies = [canonical({**json.loads(body), "previous": each}) for each in (None, "0" * 64, 1)]
    rows = [(number, each, sha256(each)) for each in (*bodies, canonical(without))]
    rows += [(number, body, digest[1:]), (number, body, "x" * 64), (number + 1, body, digest)]
    with closing(sqlite3.connect(location)) as connection:
        for row in rows:
            with pytest.raises(sqlite3.IntegrityError, match="does not follow"):
                connection.execute(INSERT.replace("%s", "?"), row)
    assert ledger.verify().entries == 2


# What answers a request

DATA = [[(0, 0.5), (1, 1.0)]] * 60


def request(name="theirs"):
    return study(
        2,
        study={"name": name, "dataset": DATASET},
        privacy={"epsilon": 0.5, "delta": 1e-7},
        returns=(0.0, 1.0),
        mechanism={"name": "dp-ssp", "calibration": "exact"},
    )


def by_hand(roles, kind, **fields):
    row = next_row(roles.location, kind, **fields)
    roles.execute(INSERT, row)
    return row[0], row[2]


def commit_by_hand(roles, entry, requested, text, *, kept=True):
    by_hand(roles, "commit", reservation=entry, artefact=sha256(text), **requested)
    if kept:
        roles.execute("INSERT INTO ledger_artefacts VALUES (%s, %s)", (sha256(text), text))


def forged(true, *, epsilon, **fields):
    """The true release with other numbers, for whoever reads no further."""
    privacy = {**true["privacy"], "epsilon": epsilon}
    return {**true, "theta": [0.0, 0.0], "privacy": privacy, **fields}


FORGED = {
    "the study's promise": lambda true, head: forged(true, epsilon=0.5, ledger_head=head),
    "what was paid for": lambda true, head: forged(true, epsilon=1e-12, ledger_head=head),
    "another charge": lambda true, head: forged(true, epsilon=1e-12),
    "another study": lambda true, head: {**true, "study": {}, "ledger_head": head},
    "lists": lambda true, head: {**true, "study": [], "privacy": [], "ledger_head": head},
    "junk": lambda true, head: "junk",
    "nothing": None,
}


@in_turn("what", FORGED)
def test_a_false_release_answers_no_request(roles, what, capsys):
    """A clerk pays one unit for it; the request goes on as new, and is told."""
    paid, one = RESERVED, Cost(epsilon=1, delta=10**11)
    if roles.clerk.accounting == "gaussian":
        paid, one = {**RESERVED, "mu": mu(1e12)}, Cost(square=1)
    true = json.loads(pv.release(request(), DATA).to_json())
    requested = {"dataset": DATASET, "study": study_hash(true["study"])}
    entry, _ = by_hand(roles, "reserve", **requested, epsilon=1, delta=10**11, **paid)
    _, head = by_hand(roles, "charge", reservation=entry)
    make = FORGED[what]
    text = json.dumps(make and make(true, head))
    commit_by_hand(roles, entry, requested, text, kept=make is not None)
    ledger, said = privalue.ledger.open_ledger(roles.place.location), []
    assert ledger.stored(**{"dataset": DATASET, "study_hash": requested["study"]}) is None
    released = pv.release(request(), DATA, ledger=ledger, say=said.append)
    assert not released.reused
    assert sum(f"the artefact of entry {entry} is false (it " in line for line in said) == 1
    assert ledger.show(DATASET).spent.units == one + roles.clerk.price(0.5, 1e-7)
    again = pv.release(request(), [], ledger=ledger)
    assert again.reused
    assert again == released
    with pytest.raises(LedgerError, match=f"the artefact of entry {entry} (is|was) ") as found:
        ledger.verify()
    assert found.value.exit_code == 5
    assert run(["ledger", "verify", "--ledger", roles.place.location]) == 5
    assert f"the artefact of entry {entry} " in capsys.readouterr().err


@in_turn("kept", [True, False])
def test_what_a_clerk_puts_on_somebody_elses_charge_keeps_nothing_back(
    roles, kept, monkeypatch, tmp_path
):
    """What was drawn is paid for: it is published, and its owner is told."""
    ledger = privalue.ledger.open_ledger(roles.place.location)
    drawn, entries = _charged.drawn_release, []

    def meanwhile(ready, source, head):
        with ledger._store.read() as transaction:
            entry = json.loads(transaction.find(head)[1])["reservation"]
            reserved = json.loads(transaction.row(entry)[1])
        entries.append(entry)
        requested = {name: reserved[name] for name in ("dataset", "study")}
        commit_by_hand(roles, entry, requested, "junk", kept=kept)
        return drawn(ready, source, head)

    monkeypatch.setattr(_charged, "drawn_release", meanwhile)
    released = pv.release(request(), DATA, ledger=ledger, outbox=tmp_path / "outbox")
    assert not (tmp_path / "outbox").exists()
    assert len(released.theta)
    (entry,) = entries
    reservation = ledger.charged(entry, head=released.ledger_head)
    (told,) = reservation.commit(released.to_json())
    assert told.startswith(f"somebody put on the charge of entry {entry} something that is not its")
    with pytest.raises(BudgetError, match="cannot be committed"):
        reservation.commit("more junk")
    with pytest.raises(LedgerError, match=f"the artefact of entry {entry} "):
        ledger.verify()


def test_a_keepers_snapshots_serve_a_clerk_that_may_write_none(roles, monkeypatch):
    monkeypatch.setattr(books, "PERIOD", 6)
    admitted = []
    admit = books.Book._admit
    monkeypatch.setattr(
        books.Book, "_admit", lambda book, *row: (admitted.append(row[0]), admit(book, *row))
    )
    for number in range(5):
        spend(roles.clerk, study=study_hash({"n": number}), epsilon=0.01)
    assert roles.clerk.verify().entries == 17  # none of them is a snapshot
    roles.owner.verify()
    admitted.clear()
    assert roles.clerk.head() == roles.owner.head()
    assert admitted == []
    assert roles.clerk.verify().entries == 18
    for number in range(5):
        spend(roles.clerk, study=study_hash({"m": number}), epsilon=0.01)
    admitted.clear()
    roles.clerk.head()  # what it replayed itself it remembers
    assert len(admitted) <= 3 * 6


def test_grants_are_printed_and_name_a_keeper(server, roles, capsys):  # noqa: F811
    keeper = f"second_{roles.place.schema}"
    server.execute(f"CREATE ROLE {keeper} LOGIN")
    arguments = ["grant-sql", "--role", roles.name, "--keeper", keeper]
    ledgers([*arguments, "--ledger", roles.place.location], standalone_mode=False)
    roles.place.execute(capsys.readouterr().out)
    second = open_ledger(roles.place.location.replace("keeper@", f"{keeper}@"))
    second.declare(DATASET, epsilon=2.0, delta=1e-6, replace=True)
    second.declare("others", epsilon=2.0, delta=1e-6)
    spend(second)
    spend(roles.clerk, study=study_hash({"s": 2}), epsilon=1.2)
    roles.owner.verify()


def test_rights_that_come_by_another_way_are_noticed(server, roles):  # noqa: F811
    name = f"mighty_{roles.place.schema}"
    server.execute(f"CREATE ROLE {name} SUPERUSER LOGIN")
    with pytest.raises(psycopg.errors.RaiseException, match="has more rights by another role"):
        roles.place.execute(roles.owner.grant_sql(name))
    strange = "o'neill \"; DROP TABLE ledger_entries; --"
    quoted = strange.replace('"', '""')
    server.execute(f'CREATE ROLE "{quoted}"')
    roles.place.execute(roles.owner.grant_sql(strange))
    roles.owner.verify()


MIGHTY = {
    "a member of the owner": ("GRANT {owner} TO {name}", None),
    "a member that inherits nothing": (
        "ALTER ROLE {name} NOINHERIT; GRANT {owner} TO {name}",
        None,
    ),
    "a member of a member": (
        "ALTER ROLE {name} NOINHERIT; CREATE ROLE {name}_too; GRANT {owner} TO {name}_too;"
        " GRANT {name}_too TO {name}",
        None,
    ),
    "one that makes roles": ("ALTER ROLE {name} CREATEROLE", None),
    "an owner of the schema": ("ALTER SCHEMA {schema} OWNER TO {name}", None),
    "an owner of the database": (
        "ALTER DATABASE {database} OWNER TO {name}",
        "ALTER DATABASE {database} OWNER TO keeper",
    ),
    "a member of who writes all data": (
        "ALTER ROLE {name} NOINHERIT; GRANT pg_write_all_data TO {name}",
        None,
    ),
}


@pytest.mark.parametrize("who", MIGHTY)
def test_who_can_become_the_owner_does_not_release(server, roles, who):  # noqa: F811
    """Whether it has the owner's rights already, or takes them when it likes."""
    name, owner = f"mighty_{roles.place.schema}", f"owner_{roles.place.schema}"
    server.execute(f"CREATE ROLE {name} LOGIN; CREATE ROLE {owner}")
    schema = roles.place.schema
    server.execute(f"ALTER TABLE {schema}.ledger_entries OWNER TO {owner}")
    with psycopg.connect(roles.place.location) as connection:
        names = {"name": name, "owner": owner, "schema": schema, "database": connection.info.dbname}
    printed = roles.owner.grant_sql(name)
    roles.place.execute(printed)
    made, unmade = MIGHTY[who]
    server.execute(made.format(**names))
    try:
        with pytest.raises(psycopg.errors.RaiseException, match="has more rights by another role"):
            roles.place.execute(printed)
    finally:
        if unmade:
            server.execute(unmade.format(**names))


def test_a_file_has_no_roles(tmp_path):
    ledger = open_ledger(tmp_path / "ledger.db")
    ledger.declare(DATASET, epsilon=1.0, delta=1e-6)
    with pytest.raises(UsageError, match="is a file, which has no roles"):
        ledger.grant_sql("clerk")


# Snapshots within races


@BOTH_WAYS
def test_snapshots_within_a_race(place, accounting):  # noqa: F811
    options = {"LEDGER_PERIOD": "3", "LEDGER_ACCOUNTING": accounting}
    answers = drive("race", place.location, 5, 3, 8, **options)
    judge_race(answers, 5, 3, 8, place.location)
    with open_ledger(place.location)._store.read() as transaction:
        kinds = [json.loads(body)["kind"] for _, body, *_ in transaction.rows()]
    assert kinds.count("snapshot") >= 4


OLD = "CREATE TABLE ledger_entries (sequence BIGINT PRIMARY KEY, body TEXT, hash TEXT)"


def test_a_ledger_of_format_2_is_refused_and_told_what_to_do(place):  # noqa: F811
    ledger = open_ledger(place.location)
    place.execute(OLD)
    for action in (
        ledger.verify,
        lambda: ledger.show(DATASET),
        lambda: ledger.declare(DATASET, epsilon=1.0, delta=1e-6),
    ):
        with pytest.raises(LedgerError, match=r"it is of an earlier format, .* declare the"):
            action()
