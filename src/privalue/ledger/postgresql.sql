-- A ledger in PostgreSQL, in the first schema of the search path. `body` is hashed, and the
-- database generates the other columns from it, so that they cannot differ from it. The rules hold
-- for every writer, whatever SQL they send. sqlite.sql has the same rules.

CREATE TABLE ledger_entries (
    sequence BIGINT PRIMARY KEY CHECK (sequence > 0),
    body TEXT NOT NULL,
    hash TEXT NOT NULL UNIQUE,
    previous TEXT NOT NULL GENERATED ALWAYS AS ((body::jsonb ->> 'previous')::TEXT) STORED,
    kind TEXT NOT NULL GENERATED ALWAYS AS ((body::jsonb ->> 'kind')::TEXT) STORED,
    dataset TEXT NOT NULL GENERATED ALWAYS AS ((body::jsonb ->> 'dataset')::TEXT) STORED,
    author TEXT NOT NULL GENERATED ALWAYS AS ((body::jsonb ->> 'author')::TEXT) STORED,
    request TEXT GENERATED ALWAYS AS ((body::jsonb ->> 'request')::TEXT) STORED,
    charge BIGINT GENERATED ALWAYS AS ((body::jsonb ->> 'charge')::BIGINT) STORED,
    release TEXT GENERATED ALWAYS AS ((body::jsonb ->> 'release')::TEXT) STORED,
    releases BIGINT NOT NULL GENERATED ALWAYS AS ((body::jsonb ->> 'releases')::BIGINT) STORED,
    cost_epsilon BIGINT NOT NULL GENERATED ALWAYS AS ((body::jsonb ->> 'cost_epsilon')::BIGINT) STORED,
    cost_delta BIGINT NOT NULL GENERATED ALWAYS AS ((body::jsonb ->> 'cost_delta')::BIGINT) STORED,
    cost_mu2 BIGINT NOT NULL GENERATED ALWAYS AS ((body::jsonb ->> 'cost_mu2')::BIGINT) STORED,
    spent_epsilon BIGINT NOT NULL GENERATED ALWAYS AS ((body::jsonb ->> 'spent_epsilon')::BIGINT) STORED,
    spent_delta BIGINT NOT NULL GENERATED ALWAYS AS ((body::jsonb ->> 'spent_delta')::BIGINT) STORED,
    spent_mu2 BIGINT NOT NULL GENERATED ALWAYS AS ((body::jsonb ->> 'spent_mu2')::BIGINT) STORED,
    total_epsilon BIGINT NOT NULL GENERATED ALWAYS AS ((body::jsonb ->> 'total_epsilon')::BIGINT) STORED,
    total_delta BIGINT NOT NULL GENERATED ALWAYS AS ((body::jsonb ->> 'total_delta')::BIGINT) STORED,
    total_mu2 BIGINT NOT NULL GENERATED ALWAYS AS ((body::jsonb ->> 'total_mu2')::BIGINT) STORED,
    -- Whole numbers, by their type, up to 2^62 - 1: the sum of two amounts fits 64 bits.
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

CREATE TABLE ledger_releases (
    hash TEXT PRIMARY KEY,
    text TEXT NOT NULL,
    CHECK (hash = encode(sha256(convert_to(text, 'UTF8')), 'hex'))
);

-- A request is charged once, and a charge has one release.
CREATE UNIQUE INDEX ledger_requests ON ledger_entries (dataset, request) WHERE kind = 'charge';

CREATE UNIQUE INDEX ledger_commits ON ledger_entries (charge) WHERE kind = 'commit';

CREATE INDEX ledger_datasets ON ledger_entries (dataset, sequence);

CREATE INDEX ledger_totals ON ledger_entries (dataset, sequence) WHERE kind = 'declare';

-- The function keeps the search path of the tables' creator: a writer may have another.
CREATE FUNCTION ledger_follows() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
IF (
    NEW.hash = encode(sha256(convert_to(NEW.body, 'UTF8')), 'hex')
    AND NEW.author = session_user
    AND
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
) IS NOT TRUE THEN
    RAISE EXCEPTION 'this does not follow from the last entries';
END IF;
RETURN NULL;
END $$;

CREATE TRIGGER ledger_follows AFTER INSERT ON ledger_entries
FOR EACH ROW EXECUTE FUNCTION ledger_follows();

CREATE FUNCTION ledger_stays() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
RAISE EXCEPTION 'the ledger is append-only';
END $$;

CREATE TRIGGER ledger_entries_stay BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_entries
FOR EACH STATEMENT EXECUTE FUNCTION ledger_stays();

CREATE TRIGGER ledger_releases_stay BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_releases
FOR EACH STATEMENT EXECUTE FUNCTION ledger_stays();
