"""A releaser cannot declare, and no one can overdraw: raw SQL against the rules of both databases.

The rights are the statements of docs/ledger.md.
"""

import json
import re
from pathlib import Path

import pytest

from conformance.test_ledger_stores import (  # noqa: F401 - four of them are fixtures
    _schemas,
    accounting,
    complaint,
    pair,
    place,
    server,
)
from oracles.ledgers import (
    DATASET,
    INSERT,
    OTHER,
    STUDY,
    PostgresPlace,
    SqlitePlace,
    charge,
    declare,
    request,
    rows,
    spend,
    text_of,
)
from privalue.errors import LedgerError
from privalue.ledger import study_hash
from privalue.ledger.entries import canonical_json, sha256

PAGE = Path(__file__).parents[2] / "docs" / "ledger.md"
HASH = "a" * 64


def rights():
    """Return the statements of the page, for a role called RELEASER."""
    return re.search(r"```text\n(GRANT.*?)```", PAGE.read_text("utf-8"), re.DOTALL)[1]


def entry(place, kind, *, author=None, **fields):  # noqa: F811
    """Return the next row as a client could write it, with consistent values for other fields."""
    entries = rows(place)
    number, body, head = entries[-1]
    mine = [json.loads(b) for _, b, _ in entries if json.loads(b)["dataset"] == DATASET]
    last = mine[-1]
    content = {
        **{key: last[key] for key in last if key.startswith(("spent_", "total_"))},
        **{"format": 1, "previous": head, "kind": kind, "dataset": DATASET, "salt": "0" * 64},
        **{"at": "2026-01-01", "author": author or last["author"]},
        **{"cost_epsilon": 0, "cost_delta": 0, "cost_mu2": 0},
        "releases": last["releases"] + (kind == "charge"),
    }
    part = "mu2" if last["total_mu2"] else "epsilon"
    if kind == "charge":
        content |= {"request": HASH, f"cost_{part}": 10**9}
        cost = fields.get(f"cost_{part}", 10**9)
        content[f"spent_{part}"] += cost if type(cost) in {int, float} else 0
    content |= fields
    content = {key: value for key, value in content.items() if value is not ...}
    body = fields.get("body") or canonical_json(content)
    return number + 1, body, sha256(body)


def attacks(place):  # noqa: F811
    """Return statements, with their parameters, that a database must refuse."""
    entries = [(number, json.loads(body), head) for number, body, head in rows(place)]
    last = entries[-1][1]
    part = "mu2" if last["total_mu2"] else "epsilon"
    cost, spent, total = f"cost_{part}", f"spent_{part}", f"total_{part}"
    remaining = last[total] - last[spent]
    row = entry(place, "charge")
    release = next(body["release"] for _, body, _ in entries if body["kind"] == "commit")
    charged = [number for number, body, _ in entries if body["kind"] == "charge"]

    def add(kind, **fields):
        return INSERT, entry(place, kind, **fields)

    zero = {"spent_epsilon": 0, "spent_delta": 0, "spent_mu2": 0, "releases": 0}
    statements = {
        "overdraw by one unit": add("charge", **{cost: remaining + 1}),
        "overdraw by far": add("charge", **{cost: 2**62 - 1}),
        "a cost beyond 64 bits": add("charge", **{cost: 2**64}),
        "a negative cost": add("charge", **{cost: -1}),
        "no cost": add("charge", **{cost: 0}),
        "a fraction": add("charge", **{cost: 0.5, spent: last[spent] + 0.5}),
        "a number with an exponent": add("charge", **{cost: 1e300, spent: 1e300}),
        "a cost that is null": add("charge", **{cost: None}),
        "a cost that is missing": add("charge", **{cost: ...}),
        "forget what was spent": add("charge", **{spent: 10**9}),
        "forget a unit": add("charge", **{spent: last[spent] + 10**9 - 1}),
        "raise the total": add("charge", **{total: last[total] + 1}),
        "raise it with a commit": add(
            "commit", charge=charged[-1], release=release, **{total: last[total] + 1}
        ),
        "forget with a commit": add("commit", charge=charged[-1], release=release, **{spent: 0}),
        "a cost in the other accounting": add(
            "charge",
            **{cost: 0, spent: last[spent]},
            **{f"{what}_{'epsilon' if part == 'mu2' else 'mu2'}": 1 for what in ("cost", "spent")},
        ),
        "a delta beyond the total": add("charge", cost_delta=10**18, spent_delta=10**18),
        "another number of releases": add("charge", releases=0),
        "another dataset without a total": add("charge", dataset="others", **zero),
        "a gap": (INSERT, (row[0] + 1, *row[1:])),
        "number 0": (INSERT, (0, *row[1:])),
        "no number": (INSERT, (None, *row[1:])),
        "a fork": (INSERT, (row[0] - 1, *row[1:])),
        "another entry before it": add("charge", previous="0" * 64),
        "the first entry again": (INSERT, (1, *row[1:])),
        "the same request": add("charge", request=STUDY),
        "no request": add("charge", request=...),
        "a second release of a charge": add("commit", charge=charged[0], release=release),
        "a commit of no charge": add("commit", charge=1, release=release),
        "a commit without a release": add("commit", charge=charged[-1], release=HASH),
        "another kind": add("refund", **{cost: 0}),
        "no JSON": add("charge", body="x"),
        "no object": add("charge", body="[]"),
        "a long one": add("charge", note="x" * 20_000),
        "update": ("UPDATE ledger_entries SET hash = hash",),
        "delete": ("DELETE FROM ledger_entries",),
        "a release": ("UPDATE ledger_releases SET text = 'x'",),
        "no release": ("DELETE FROM ledger_releases",),
    }
    if isinstance(place, SqlitePlace):
        replace = INSERT.replace("INSERT", "INSERT OR REPLACE")
        again = entry(place, "charge", request=STUDY)
        instead = entry(place, "charge", previous=entries[-1][1]["previous"])
        statements |= {
            "replace the last": (replace, (row[0] - 1, *instead[1:])),
            "replace the first": (replace, (1, *row[1:])),
            "replace by its request": (replace, again),
            "replace by its hash": (replace, (row[0], row[1], entries[1][2])),
            "replace by its charge": (replace, entry(place, "commit", charge=2, release=release)),
            "replace a release": (
                "INSERT OR REPLACE INTO ledger_releases (hash, text) VALUES (?, 'x')",
                (release,),
            ),
            "an upsert": (
                INSERT + " ON CONFLICT (sequence) DO UPDATE SET body = excluded.body",
                (1, *row[1:]),
            ),
        }
    else:
        statements |= {
            "truncate": ("TRUNCATE ledger_entries",),
            "truncate releases": ("TRUNCATE ledger_releases",),
            "a false hash": (INSERT, (*row[:2], HASH)),
            "somebody else's name": add("charge", author="somebody"),
            "a false release": (
                "INSERT INTO ledger_releases (hash, text) VALUES (?, 'x')",
                (HASH,),
            ),
        }
    return statements


def refused(place, name, statement, *parameters):  # noqa: F811
    before = rows(place)
    try:
        place.execute((statement, *parameters))
    except Exception:  # of any driver
        assert rows(place) == before, name
        return
    raise AssertionError(f"{name} was accepted")


def with_history(place, kind):  # noqa: F811
    """Open a ledger with a total, a release, and a charge without one."""
    ledger = place.open()
    declare(ledger, accounting=kind)
    spend(ledger, request(accounting=kind))
    charge(ledger, request(OTHER, accounting=kind))
    return ledger


def test_the_database_refuses_entries_that_break_the_rules(place, accounting):  # noqa: F811
    """The owner of the tables is refused, too."""
    ledger = with_history(place, accounting)
    account = ledger.account(DATASET)
    for name, attack in attacks(place).items():
        refused(place, name, *attack)
    assert ledger.account(DATASET) == account
    ledger.verify()


def test_a_charge_by_sql_counts_and_a_wrong_price_is_detected(place, accounting):  # noqa: F811
    ledger = with_history(place, accounting)
    before = ledger.account(DATASET)
    place.execute((INSERT, entry(place, "charge")))
    after = ledger.account(DATASET)
    assert after.balance.releases == before.balance.releases + 1
    assert after.left != before.left
    spend(ledger, request(study_hash({"study": 3}), accounting=accounting))  # others can go on
    assert "entry 5" in complaint(ledger.verify)


def test_rules_are_the_same_in_both_databases():
    folder = Path(__file__).parents[2] / "src" / "privalue" / "ledger"
    texts = [(folder / name).read_text("utf-8") for name in ("sqlite.sql", "postgresql.sql")]
    rules = [re.search("-- the rule,.*?-- end of the rule", text, re.DOTALL)[0] for text in texts]
    assert rules[0] == rules[1]
    for pattern in (
        r"    CHECK \((?!\n        typeof|hash).*",
        r"CREATE UNIQUE INDEX.*",
        "-- Never.*",
    ):
        assert re.findall(pattern, texts[0]) == re.findall(pattern, texts[1])


# Two roles of a real server


class Roles:
    """An owner who declared a total, and a releaser with the rights that the page gives."""

    def __init__(self, server, kind):  # noqa: F811
        schema = next(_schemas)
        self.owners = PostgresPlace(server, schema)
        self.owner = with_history(self.owners, kind)
        self.name = f"releaser_{schema}"
        server.execute(
            f"CREATE ROLE {self.name} LOGIN; GRANT USAGE ON SCHEMA {schema} TO {self.name}"
        )
        self.owners.execute((rights().replace("RELEASER", self.name),))
        self.place = PostgresPlace(server, schema, user=self.name)
        self.releaser = self.place.open()


@pytest.fixture
def roles(server, accounting):  # noqa: F811
    pytest.importorskip("psycopg", reason="the extra postgres is not installed")
    return Roles(server, accounting)


def test_a_releaser_releases_from_end_to_end(roles, accounting):  # noqa: F811
    release_request = request(study_hash({"study": 3}), accounting=accounting)
    text, receipt = spend(roles.releaser, release_request)
    assert roles.releaser.find(release_request).release == text
    for ledger in (roles.releaser, roles.owner):
        ledger.verify(heads=[receipt.head], releases={"it": text})
        assert ledger.account(DATASET).balance.releases == 3
    assert [line.author for line in roles.owner.statement(DATASET)][-1] == roles.name


def test_a_releaser_cannot_declare(roles, accounting):  # noqa: F811
    for dataset, replace in ((DATASET, True), ("others", False)):
        with pytest.raises(LedgerError):
            declare(roles.releaser, dataset, epsilon=9.0, accounting=accounting, replace=replace)
    total = entry(roles.place, "declare", author=roles.name)
    refused(roles.place, "by hand", INSERT, total)
    assert roles.owner.account(DATASET).promise.as_floats() == (1.0, 1e-6)
    declare(roles.owner, epsilon=2.0, accounting=accounting, replace=True)


def test_no_sql_of_a_releaser_breaks_the_rules(roles):
    account = roles.owner.account(DATASET)
    forbidden = {
        "the trigger": "ALTER TABLE ledger_entries DISABLE TRIGGER ALL",
        "no trigger": "DROP TRIGGER ledger_follows ON ledger_entries",
        "its function": "CREATE OR REPLACE FUNCTION ledger_follows() RETURNS trigger"
        " LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$",
        "replication": "SET session_replication_role = replica",
        "the owner": "SET ROLE keeper",
        "another session": "SET SESSION AUTHORIZATION keeper",
        "a table": "CREATE TABLE ledger_more ()",
        "a rule": "CREATE RULE raised AS ON INSERT TO ledger_entries DO INSTEAD NOTHING",
        "a policy": "CREATE POLICY mine ON ledger_entries FOR INSERT WITH CHECK (true)",
        "no policies": "ALTER TABLE ledger_entries DISABLE ROW LEVEL SECURITY",
        "a derived column": "INSERT INTO ledger_entries (sequence, body, hash, kind)"
        " VALUES (99, '{}', 'x', 'commit')",
        "copy": "COPY ledger_entries FROM PROGRAM 'true'",
    }
    for name, statement in forbidden.items():
        refused(roles.place, name, statement)
    for name, attack in attacks(roles.place).items():
        if "author" in attack[0]:
            continue
        statement, *parameters = attack
        if parameters and len(parameters[0]) == 3 and name != "somebody else's name":
            number, body, digest = parameters[0]
            try:
                fields = {**json.loads(body), "author": roles.name}
                body = canonical_json(fields)
                digest = digest if name == "a false hash" else sha256(body)
            except (ValueError, TypeError):
                pass
            parameters = [(number, body, digest)]
        refused(roles.place, name, statement, *parameters)
    assert roles.owner.account(DATASET) == account
    roles.owner.verify()


def test_a_table_of_the_session_does_not_stand_in_for_the_ledgers(roles):
    """It would hide from the rules what was spent."""
    import psycopg

    schema = roles.place.schema
    row = entry(roles.place, "charge", author=roles.name, spent_epsilon=10**9, spent_mu2=10**9)
    with pytest.raises(psycopg.errors.CheckViolation):
        roles.place.execute(
            (
                f"CREATE TEMPORARY TABLE ledger_entries AS SELECT * FROM {schema}.ledger_entries"
                " WHERE kind = 'declare'",
            ),
            (INSERT.replace("ledger_entries", f"{schema}.ledger_entries"), row),
        )
    roles.owner.verify()


def test_a_false_release_for_the_charge_of_another_is_detected(place, accounting):  # noqa: F811
    """The record has one release for a charge; the true release stays in its outbox."""
    ledger = with_history(place, accounting)
    receipt = charge(ledger, request(study_hash({"study": 3}), accounting=accounting))
    text = json.dumps({"ledger_head": "none of it"})
    place.execute(
        ("INSERT INTO ledger_releases (hash, text) VALUES (?, ?)", (sha256(text), text)),
        (INSERT, entry(place, "commit", charge=receipt.number, release=sha256(text))),
    )
    with pytest.raises(LedgerError, match="entry 5"):
        ledger.commit(receipt, text_of(receipt))
    with pytest.raises(LedgerError, match="entry 5"):
        ledger.find(request(study_hash({"study": 3})))
    assert "entry 5" in complaint(ledger.verify)
