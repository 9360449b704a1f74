-- A ledger in SQLite. `body` is hashed, and the database generates the other columns from it, so
-- that they cannot differ from it. The rules hold for every writer who leaves them in force.
-- Statements end with a semicolon and an empty line. postgresql.sql has the same rules.

CREATE TABLE ledger_entries (
    sequence INTEGER PRIMARY KEY,
    body TEXT NOT NULL,
    hash TEXT NOT NULL UNIQUE,
    previous TEXT NOT NULL GENERATED ALWAYS AS (json_extract(body, '$.previous')) STORED,
    kind TEXT NOT NULL GENERATED ALWAYS AS (json_extract(body, '$.kind')) STORED,
    dataset TEXT NOT NULL GENERATED ALWAYS AS (json_extract(body, '$.dataset')) STORED,
    author TEXT NOT NULL GENERATED ALWAYS AS (json_extract(body, '$.author')) STORED,
    request TEXT GENERATED ALWAYS AS (json_extract(body, '$.request')) STORED,
    charge INTEGER GENERATED ALWAYS AS (json_extract(body, '$.charge')) STORED,
    release TEXT GENERATED ALWAYS AS (json_extract(body, '$.release')) STORED,
    releases INTEGER NOT NULL GENERATED ALWAYS AS (json_extract(body, '$.releases')) STORED,
    cost_epsilon INTEGER NOT NULL GENERATED ALWAYS AS (json_extract(body, '$.cost_epsilon')) STORED,
    cost_delta INTEGER NOT NULL GENERATED ALWAYS AS (json_extract(body, '$.cost_delta')) STORED,
    cost_mu2 INTEGER NOT NULL GENERATED ALWAYS AS (json_extract(body, '$.cost_mu2')) STORED,
    spent_epsilon INTEGER NOT NULL GENERATED ALWAYS AS (json_extract(body, '$.spent_epsilon')) STORED,
    spent_delta INTEGER NOT NULL GENERATED ALWAYS AS (json_extract(body, '$.spent_delta')) STORED,
    spent_mu2 INTEGER NOT NULL GENERATED ALWAYS AS (json_extract(body, '$.spent_mu2')) STORED,
    total_epsilon INTEGER NOT NULL GENERATED ALWAYS AS (json_extract(body, '$.total_epsilon')) STORED,
    total_delta INTEGER NOT NULL GENERATED ALWAYS AS (json_extract(body, '$.total_delta')) STORED,
    total_mu2 INTEGER NOT NULL GENERATED ALWAYS AS (json_extract(body, '$.total_mu2')) STORED,
    -- A fraction, or a number of more than 64 bits, would be a REAL, which swallows small costs.
    CHECK (
        typeof(releases) = 'integer'
        AND typeof(cost_epsilon) = 'integer' AND typeof(cost_delta) = 'integer'
        AND typeof(cost_mu2) = 'integer' AND typeof(spent_epsilon) = 'integer'
        AND typeof(spent_delta) = 'integer' AND typeof(spent_mu2) = 'integer'
        AND typeof(total_epsilon) = 'integer' AND typeof(total_delta) = 'integer'
        AND typeof(total_mu2) = 'integer'
    ),
    -- Up to 2^62 - 1: the sum of two amounts fits 64 bits.
    CHECK (
        releases BETWEEN 0 AND 4611686018427387903
        AND cost_epsilon BETWEEN 0 AND 4611686018427387903
        AND cost_delta BETWEEN 0 AND 4611686018427387903
        AND cost_mu2 BETWEEN 0 AND 4611686018427387903
        AND spent_epsilon BETWEEN 0 AND 4611686018427387903
        AND spent_delta BETWEEN 0 AND 4611686018427387903
        AND spent_mu2 BETWEEN 0 AND 4611686018427387903
        AND total_epsilon BETWEEN 0 AND 4611686018427387903
        AND total_delta BETWEEN 0 AND 4611686018427387903
        AND total_mu2 BETWEEN 0 AND 4611686018427387903
    ),
    -- Never overdrawn.
    CHECK (
        spent_epsilon <= total_epsilon AND spent_delta <= total_delta AND spent_mu2 <= total_mu2
    ),
    CHECK ((total_epsilon > 0) <> (total_mu2 > 0)),
    CHECK (total_mu2 = 0 OR total_delta = 0),
    CHECK (kind IN ('declare', 'charge', 'commit')),
    CHECK ((kind = 'charge') = (cost_epsilon + cost_mu2 > 0)),
    CHECK (kind = 'charge' OR cost_delta = 0),
    CHECK ((kind = 'charge') = (request IS NOT NULL)),
    CHECK ((kind = 'commit') = (charge IS NOT NULL)),
    CHECK ((kind = 'commit') = (release IS NOT NULL)),
    CHECK (length(body) <= 10000)
);

CREATE TABLE ledger_releases (hash TEXT PRIMARY KEY NOT NULL, text TEXT NOT NULL);

-- A request is charged once, and a charge has one release.
CREATE UNIQUE INDEX ledger_requests ON ledger_entries (dataset, request) WHERE kind = 'charge';

CREATE UNIQUE INDEX ledger_commits ON ledger_entries (charge) WHERE kind = 'commit';

CREATE INDEX ledger_datasets ON ledger_entries (dataset, sequence);

CREATE INDEX ledger_totals ON ledger_entries (dataset, sequence) WHERE kind = 'declare';

CREATE TRIGGER ledger_follows AFTER INSERT ON ledger_entries WHEN (
    -- the rule, the same in both databases; m is the last entry of the dataset
    NEW.previous = coalesce(
        (SELECT hash FROM ledger_entries WHERE sequence = NEW.sequence - 1),
        CASE WHEN NEW.sequence = 1
            THEN '0000000000000000000000000000000000000000000000000000000000000000' END
    )
    AND coalesce(
        (
            SELECT NEW.spent_epsilon = m.spent_epsilon + NEW.cost_epsilon
                AND NEW.spent_delta = m.spent_delta + NEW.cost_delta
                AND NEW.spent_mu2 = m.spent_mu2 + NEW.cost_mu2
                AND NEW.releases = m.releases + CASE WHEN NEW.kind = 'charge' THEN 1 ELSE 0 END
                AND (NEW.total_mu2 > 0) = (m.total_mu2 > 0)
                AND (
                    NEW.kind = 'declare'
                    OR (
                        NEW.total_epsilon = m.total_epsilon
                        AND NEW.total_delta = m.total_delta AND NEW.total_mu2 = m.total_mu2
                    )
                )
            FROM (
                SELECT * FROM ledger_entries
                WHERE dataset = NEW.dataset AND sequence < NEW.sequence
                ORDER BY sequence DESC LIMIT 1
            ) AS m
        ),
        NEW.kind = 'declare' AND NEW.releases = 0
        AND NEW.spent_epsilon = 0 AND NEW.spent_delta = 0 AND NEW.spent_mu2 = 0
    )
    AND (
        NEW.kind <> 'commit'
        OR EXISTS (
            SELECT 1 FROM ledger_entries AS c, ledger_releases AS r
            WHERE c.sequence = NEW.charge AND c.kind = 'charge' AND c.dataset = NEW.dataset
                AND r.hash = NEW.release
        )
    )
    -- end of the rule
) IS NOT TRUE
BEGIN SELECT RAISE(ABORT, 'this does not follow from the last entries'); END;

-- INSERT OR REPLACE deletes rows in conflict without firing triggers for DELETE.
CREATE TRIGGER ledger_entries_replace BEFORE INSERT ON ledger_entries WHEN (
    NEW.sequence IS NOT coalesce((SELECT max(sequence) FROM ledger_entries), 0) + 1
    OR EXISTS (SELECT 1 FROM ledger_entries WHERE hash = NEW.hash)
    OR EXISTS (
        SELECT 1 FROM ledger_entries
        WHERE kind = 'charge' AND dataset = NEW.dataset AND request = NEW.request
    )
    OR EXISTS (SELECT 1 FROM ledger_entries WHERE kind = 'commit' AND charge = NEW.charge)
)
BEGIN SELECT RAISE(ABORT, 'this does not follow from the last entries'); END;

CREATE TRIGGER ledger_releases_replace BEFORE INSERT ON ledger_releases
WHEN EXISTS (SELECT 1 FROM ledger_releases WHERE hash = NEW.hash)
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

CREATE TRIGGER ledger_entries_update BEFORE UPDATE ON ledger_entries
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

CREATE TRIGGER ledger_entries_delete BEFORE DELETE ON ledger_entries
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

CREATE TRIGGER ledger_releases_update BEFORE UPDATE ON ledger_releases
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

CREATE TRIGGER ledger_releases_delete BEFORE DELETE ON ledger_releases
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
