-- Late results, and requeueing by filter.

-- What a worker reported about a message it no longer held: evidence, never an outcome. At most
-- one per lease and message, and also a success `after_all`, which was witnessed after
-- another word.
CREATE TABLE late (
    message_id INTEGER NOT NULL,
    token      BLOB NOT NULL CHECK (length(token) = 16),
    fence      INTEGER NOT NULL,
    owner      TEXT NOT NULL,
    outcome    TEXT NOT NULL CHECK (outcome IN ('delivered', 'retry', 'dead', 'uncertain')),
    at         INTEGER NOT NULL,
    code       TEXT,
    detail     TEXT,
    result     TEXT,
    after_all  INTEGER NOT NULL DEFAULT 0 CHECK (after_all = 0 OR after_all = 1 AND outcome = 'delivered'),
    PRIMARY KEY (message_id, token, after_all)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER late_update BEFORE UPDATE ON late
BEGIN SELECT raise(ABORT, 'late is append-only: write a new row instead'); END;
CREATE TRIGGER late_replace BEFORE INSERT ON late
WHEN EXISTS (SELECT 1 FROM late
             WHERE message_id = NEW.message_id AND token = NEW.token AND after_all = NEW.after_all)
BEGIN SELECT raise(ABORT, 'late is append-only: the first result stands'); END;

-- `cursor`: the last message it came to. `paced_at`: the time up to which its rate is used up.
CREATE TABLE redrive (
    id              INTEGER PRIMARY KEY,
    queue            TEXT,
    code            TEXT,
    rate_per_second INTEGER CHECK (rate_per_second > 0),
    at_most         INTEGER CHECK (at_most > 0),
    state           TEXT NOT NULL CHECK (state IN ('running', 'stopped', 'done')),
    total           INTEGER NOT NULL,
    moved           INTEGER NOT NULL,
    skipped         INTEGER NOT NULL,
    cursor          INTEGER,
    actor           TEXT NOT NULL,
    reason          TEXT NOT NULL,
    started_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    finished_at     INTEGER,
    paced_at        INTEGER NOT NULL
) STRICT;
CREATE INDEX redrive_running ON redrive (id) WHERE state = 'running';
