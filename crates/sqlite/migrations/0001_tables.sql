-- The tables. A message never changes; a run of messages moves; a lease says who may speak.
--
-- The state of the queue is not a column on the message: it is which run the message is in.
-- A claim moves runs from `ready` into one `lease` row; a settle deletes or shrinks that row and
-- appends attempts. Times are microseconds since 1970 (UTC). `ids`, `tries` and `attempts` are
-- JSON arrays that run in parallel: tries count toward the queue's limit, attempts are the attempt
-- rows written so far. Foreign keys are left out on purpose: `consign doctor` checks what they
-- would, without a look-up for every row of a settle.

-- `app`: whose hook runs when messages of the queue change state, as in `hook`. Read with the policy: a process
-- without that app does not work the queue.
CREATE TABLE queue (
    name      TEXT NOT NULL PRIMARY KEY,
    policy    TEXT NOT NULL CHECK (json_valid(policy)),
    paused_at INTEGER,
    app       TEXT
) STRICT, WITHOUT ROWID;

-- The queues that apps have hooks on, whether the queue exists yet or not. Written by `migrate`.
CREATE TABLE hook (
    queue TEXT NOT NULL PRIMARY KEY,
    app   TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- The payload stands last: what lists show is read without touching its overflow pages.
CREATE TABLE message (
    id         INTEGER PRIMARY KEY,
    queue       TEXT NOT NULL,
    key        TEXT,
    "group"    TEXT,
    created_at INTEGER NOT NULL,
    headers    TEXT NOT NULL,
    payload    TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX message_key ON message (queue, key) WHERE key IS NOT NULL;
-- Every index ends with the rowid, so this one lists a queue by id.
CREATE INDEX message_queue ON message (queue);
-- Headers are looked into only where the word is in them.
CREATE INDEX message_correlation ON message (headers ->> '$.correlation_id')
    WHERE instr(headers, '"correlation_id"') > 0;

-- `apart`: came back from an expiry, to be leased alone. It stands before `due_at` in the index
-- so that a claim never walks over runs it may not take.
CREATE TABLE ready (
    run      INTEGER PRIMARY KEY,
    queue     TEXT NOT NULL,
    due_at   INTEGER NOT NULL,
    apart    INTEGER NOT NULL CHECK (apart IN (0, 1)),
    ids      TEXT NOT NULL,
    tries    TEXT NOT NULL,
    attempts TEXT NOT NULL
) STRICT;
CREATE INDEX ready_due ON ready (queue, apart, due_at);

-- AUTOINCREMENT: a fence is never given twice, not even after its lease is gone.
-- `presumed_begun`: whoever claimed it may call the sink for anything in it without saying so first.
CREATE TABLE lease (
    fence      INTEGER PRIMARY KEY AUTOINCREMENT,
    token      BLOB NOT NULL CHECK (length(token) = 16),
    queue       TEXT NOT NULL,
    owner      TEXT NOT NULL,
    claimed_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    ids        TEXT NOT NULL,
    tries      TEXT NOT NULL,
    attempts   TEXT NOT NULL,
    begun      TEXT NOT NULL,
    presumed_begun INTEGER NOT NULL CHECK (presumed_begun IN (0, 1))
) STRICT;
CREATE UNIQUE INDEX lease_token ON lease (token);
CREATE INDEX lease_expiry ON lease (queue, expires_at);

CREATE TABLE attempt (
    message_id  INTEGER NOT NULL,
    attempt_no  INTEGER NOT NULL CHECK (attempt_no >= 1),
    outcome     TEXT NOT NULL
                CHECK (outcome IN ('delivered', 'retry', 'dead', 'uncertain', 'expired')),
    owner       TEXT NOT NULL,
    fence       INTEGER NOT NULL,
    token       BLOB NOT NULL,
    claimed_at  INTEGER NOT NULL,
    finished_at INTEGER NOT NULL,
    next_due_at INTEGER,
    code        TEXT,
    detail      TEXT,
    result      TEXT,
    PRIMARY KEY (message_id, attempt_no)
) STRICT, WITHOUT ROWID;

CREATE TABLE dead (
    message_id INTEGER PRIMARY KEY,
    queue       TEXT NOT NULL,
    at         INTEGER NOT NULL,
    attempt_no INTEGER NOT NULL,
    code       TEXT NOT NULL,
    detail     TEXT
) STRICT;
CREATE INDEX dead_queue ON dead (queue);
CREATE INDEX dead_code ON dead (code);

-- `"group"`: held while it waited in this ordered group, where it keeps its place.
CREATE TABLE held (
    message_id INTEGER PRIMARY KEY,
    queue       TEXT NOT NULL,
    at         INTEGER NOT NULL,
    reason     TEXT NOT NULL,
    tries      INTEGER NOT NULL,
    attempts   INTEGER NOT NULL,
    "group"    TEXT
) STRICT;
CREATE INDEX held_queue ON held (queue);
CREATE INDEX held_group ON held (queue, "group", message_id) WHERE "group" IS NOT NULL;

-- Ordered queues only: messages whose turn has not come.
CREATE TABLE waiting (
    queue       TEXT NOT NULL,
    "group"    TEXT NOT NULL,
    message_id INTEGER NOT NULL,
    due_at     INTEGER NOT NULL,
    tries      INTEGER NOT NULL,
    attempts   INTEGER NOT NULL,
    PRIMARY KEY (queue, "group", message_id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX waiting_message ON waiting (message_id);

-- Ordered queues only: the message of a group whose turn it is.
CREATE TABLE turn (
    queue       TEXT NOT NULL,
    "group"    TEXT NOT NULL,
    message_id INTEGER NOT NULL,
    PRIMARY KEY (queue, "group")
) STRICT, WITHOUT ROWID;

CREATE TABLE audit (
    id         INTEGER PRIMARY KEY,
    at         INTEGER NOT NULL,
    actor      TEXT NOT NULL,
    action     TEXT NOT NULL,
    queue       TEXT,
    message_id INTEGER,
    reason     TEXT NOT NULL
) STRICT;
CREATE INDEX audit_message ON audit (message_id) WHERE message_id IS NOT NULL;

INSERT INTO queue (name, policy) VALUES ('default', '{}');
