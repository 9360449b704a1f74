"""Ledgers for tests: requests in either accounting, and writes by plain SQL."""

import json
import secrets
import sqlite3
from contextlib import closing

from privalue.core.calibration import gaussian
from privalue.ledger import ReleaseRequest, open_ledger, study_hash

DATASET = "people"
EPSILON, DELTA = 0.1, 1e-7
WHOM = {"unit": "trajectory", "neighbours": "replace-one"}
BOTH = ("plain", "gaussian")
STUDY, OTHER = study_hash({"study": 1}), study_hash({"study": 2})


def request(study=STUDY, *, epsilon=EPSILON, delta=DELTA, accounting="plain", **more):
    """A request; for a Gaussian total it is by dp-ssp, unless an alpha is given."""
    alpha = gaussian(epsilon, delta).alpha if accounting == "gaussian" and delta else None
    defaults = {"dataset": DATASET, "what": "a study", "alpha": alpha, **WHOM}
    return ReleaseRequest(study=study, epsilon=epsilon, delta=delta, **{**defaults, **more})


def declare(ledger, dataset=DATASET, *, epsilon=1.0, delta=1e-6, **more):
    return ledger.declare(dataset, epsilon=epsilon, delta=delta, **{"unit": "trajectory", **more})


def charge(ledger, release_request):
    return ledger.charge(release_request, token=secrets.token_hex(8))


def text_of(entry, **more):
    """The shortest text that is the release of a charge."""
    return json.dumps({"ledger_head": entry.head, **more})


def spend(ledger, release_request):
    """One whole release: its text and its charge."""
    entry = charge(ledger, release_request)
    text = text_of(entry)
    ledger.commit(entry, text)
    return text, entry


class SqlitePlace:
    """A ledger in a file, with the rights of its owner."""

    mark = "?"

    def __init__(self, path):
        self.location = str(path)

    def open(self, **options):
        return open_ledger(self.location, **options)

    def execute(self, *statements):
        """By hand, with the rules in force; all or none."""
        with closing(sqlite3.connect(self.location, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            answers = [connection.execute(*statement).fetchall() for statement in statements]
            connection.execute("COMMIT")
            return answers

    def tamper(self, *statements):
        """By hand, with every trigger away meanwhile."""
        with closing(sqlite3.connect(self.location, isolation_level=None)) as connection:
            connection.execute("PRAGMA ignore_check_constraints = ON")
            connection.execute("BEGIN IMMEDIATE")
            triggers = connection.execute(
                "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
            ).fetchall()
            for name, _ in triggers:
                connection.execute(f"DROP TRIGGER {name}")
            answers = [connection.execute(*statement).fetchall() for statement in statements]
            for _, sql in triggers:
                connection.execute(sql)
            connection.execute("COMMIT")
            return answers


class PostgresPlace:
    """A schema of its own, and the rights of the tables' owner."""

    mark = "%s"

    def __init__(self, server, schema, user="keeper"):
        self.server, self.schema = server, schema
        if user == "keeper":
            server.execute(f"CREATE SCHEMA {schema}")
        self.location = server.address(schema, user=user)

    def open(self, **options):
        return open_ledger(self.location, **options)

    def execute(self, *statements):
        return self._execute(statements)

    def tamper(self, *statements):
        import psycopg

        with psycopg.connect(self.location, autocommit=True) as connection:
            checks = connection.execute(
                "SELECT conname, conrelid::regclass::text, pg_get_constraintdef(oid)"
                " FROM pg_constraint WHERE contype = 'c' AND connamespace = %s::regnamespace",
                (self.schema,),
            ).fetchall()
        tables = ("ledger_entries", "ledger_releases")
        before = [(f"ALTER TABLE {table} DISABLE TRIGGER ALL",) for table in tables]
        before += [(f"ALTER TABLE {table} DROP CONSTRAINT {name}",) for name, table, _ in checks]
        after = [(f"ALTER TABLE {table} ENABLE TRIGGER ALL",) for table in tables]
        after += [
            (f"ALTER TABLE {table} ADD CONSTRAINT {name} {what} NOT VALID",)
            for name, table, what in checks
        ]
        answers = self._execute([*before, *statements, *after])
        return answers[len(before) : len(answers) - len(after)]

    def _execute(self, statements):
        import psycopg

        answers = []
        with psycopg.connect(self.location) as connection:
            for sql, *parameters in statements:
                answer = connection.execute(sql.replace("?", "%s"), *parameters)
                answers.append(answer.fetchall() if answer.description else [])
        return answers


def rows(place):
    """Every entry: number, body, hash."""
    return place.execute(("SELECT sequence, body, hash FROM ledger_entries ORDER BY sequence",))[0]


INSERT = "INSERT INTO ledger_entries (sequence, body, hash) VALUES (?, ?, ?)"
