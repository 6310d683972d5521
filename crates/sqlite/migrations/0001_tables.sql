-- The tables. A message never changes; a batch of messages moves; a lease gives a batch to one owner.
--
-- The state of a message is not a column: it is the table that has its id. A claim moves batches from `ready` into one
-- `lease` row, a settle deletes or shrinks that row and appends attempts. There are no foreign keys: they would cost a
-- look-up for every row of a settle, and `consign doctor` checks what they would.
--
-- Times are microseconds since 1970 (UTC). `ids`, `tries` and `attempts` are parallel JSON arrays: tries count toward the
-- queue's limit, attempts are the attempt rows written so far.

-- app: the app whose hook runs when messages of the queue change state, as in `hook`. Read with the policy: a process
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

-- The payload is the last column: lists read the others without its overflow pages. expires_at of a message: from then on
-- it is not sent any more.
CREATE TABLE message (
    id         INTEGER PRIMARY KEY,
    queue      TEXT NOT NULL,
    key        TEXT,
    "group"    TEXT,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    headers    TEXT NOT NULL,
    payload    TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX message_key ON message (queue, key) WHERE key IS NOT NULL;
-- Every index ends with the rowid, so this one lists a queue by id.
CREATE INDEX message_queue ON message (queue);
-- instr: headers without the name are not parsed.
CREATE INDEX message_correlation ON message (headers ->> '$.correlation_id')
    WHERE instr(headers, '"correlation_id"') > 0;

-- isolated: returned by an expiry, to be leased alone. It precedes `due_at` in the index, so that a claim never walks
-- over batches it may not take.
CREATE TABLE ready (
    batch    INTEGER PRIMARY KEY,
    queue    TEXT NOT NULL,
    due_at   INTEGER NOT NULL,
    isolated INTEGER NOT NULL CHECK (isolated IN (0, 1)),
    ids      TEXT NOT NULL,
    tries    TEXT NOT NULL,
    attempts TEXT NOT NULL
) STRICT;
CREATE INDEX ready_due ON ready (queue, isolated, due_at);

-- AUTOINCREMENT: a fence is never reused, not even after its lease was deleted.
-- begun: messages whose transport call was announced. presumed_begun: the owner may call the sink for any message without
-- announcing it.
CREATE TABLE lease (
    fence      INTEGER PRIMARY KEY AUTOINCREMENT,
    token      BLOB NOT NULL CHECK (length(token) = 16),
    queue      TEXT NOT NULL,
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

-- What a worker reported about a message after its lease had ended: evidence, never an outcome. At most one per lease
-- and message, and one `after_all`: a success recorded after another result.
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

CREATE TABLE dead (
    message_id INTEGER PRIMARY KEY,
    queue      TEXT NOT NULL,
    at         INTEGER NOT NULL,
    attempt_no INTEGER NOT NULL,
    code       TEXT NOT NULL,
    detail     TEXT
) STRICT;
CREATE INDEX dead_queue ON dead (queue);
CREATE INDEX dead_code ON dead (code);

-- Messages that an operator discarded or cancelled: final, and never delivered. attempts: so many were recorded before.
CREATE TABLE discarded (
    message_id INTEGER PRIMARY KEY,
    queue      TEXT NOT NULL,
    at         INTEGER NOT NULL,
    attempts   INTEGER NOT NULL,
    actor      TEXT NOT NULL,
    reason     TEXT NOT NULL
) STRICT;
CREATE INDEX discarded_queue ON discarded (queue);

-- "group": set if the message was held while it waited in this ordered group, where it keeps its place.
CREATE TABLE held (
    message_id INTEGER PRIMARY KEY,
    queue      TEXT NOT NULL,
    at         INTEGER NOT NULL,
    reason     TEXT NOT NULL,
    tries      INTEGER NOT NULL,
    attempts   INTEGER NOT NULL,
    "group"    TEXT
) STRICT;
CREATE INDEX held_queue ON held (queue);
CREATE INDEX held_group ON held (queue, "group", message_id) WHERE "group" IS NOT NULL;

-- Ordered queues only: messages behind the head of their group.
CREATE TABLE waiting (
    queue      TEXT NOT NULL,
    "group"    TEXT NOT NULL,
    message_id INTEGER NOT NULL,
    due_at     INTEGER NOT NULL,
    tries      INTEGER NOT NULL,
    attempts   INTEGER NOT NULL,
    PRIMARY KEY (queue, "group", message_id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX waiting_message ON waiting (message_id);

-- Ordered queues only: the message of a group that may be ready.
CREATE TABLE group_head (
    queue      TEXT NOT NULL,
    "group"    TEXT NOT NULL,
    message_id INTEGER NOT NULL,
    PRIMARY KEY (queue, "group")
) STRICT, WITHOUT ROWID;

CREATE TABLE audit (
    id         INTEGER PRIMARY KEY,
    at         INTEGER NOT NULL,
    actor      TEXT NOT NULL,
    action     TEXT NOT NULL,
    queue      TEXT,
    message_id INTEGER,
    reason     TEXT NOT NULL
) STRICT;
CREATE INDEX audit_message ON audit (message_id) WHERE message_id IS NOT NULL;

-- A redrive moves messages by filter: it requeues or discards dead ones, or cancels those of a queue. cursor: the last message it has passed. paced_at: the time up to which
-- its rate is used up.
CREATE TABLE redrive (
    id              INTEGER PRIMARY KEY,
    action          TEXT NOT NULL CHECK (action IN ('requeue', 'discard', 'cancel')),
    queue           TEXT,
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

-- A schedule enqueues a message at every tick of its expression. next_at: the first tick that was not taken; the process
-- that takes it computes the one after it. See the trait `Schedules` of consign-kernel.
CREATE TABLE schedule (
    name            TEXT PRIMARY KEY,
    queue           TEXT NOT NULL,
    cron            TEXT NOT NULL,
    time_zone       TEXT NOT NULL,
    payload         TEXT NOT NULL,
    headers         TEXT NOT NULL,
    "group"         TEXT,
    missed          TEXT NOT NULL CHECK (missed IN ('skip', 'once', 'all')),
    missed_max      INTEGER NOT NULL CHECK (missed_max BETWEEN 1 AND 1000),
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    paused_at       INTEGER,
    next_at         INTEGER NOT NULL,
    last_tick       INTEGER,
    last_at         INTEGER,
    last_message_id INTEGER,
    ticks           INTEGER NOT NULL,
    dropped         INTEGER NOT NULL
) STRICT;
CREATE INDEX schedule_next ON schedule (next_at, name) WHERE paused_at IS NULL;

-- What alerts are to be about and is not counted yet: rows are inserted where it happens, in the same transaction, and
-- removed when they are counted in `alert`.
CREATE TABLE alert_event (
    id         INTEGER PRIMARY KEY,
    queue      TEXT NOT NULL,
    reason     TEXT NOT NULL CHECK (reason IN ('breaker_open', 'died', 'lease_lost', 'queue_old')),
    code       TEXT NOT NULL,
    count      INTEGER NOT NULL CHECK (count > 0),
    message_id INTEGER,
    at         INTEGER NOT NULL
) STRICT;

-- The next alert of a queue, reason and code: pending events, when the first and the last of them happened, one of their
-- messages. alerted_at: when the last alert was enqueued; failure: why the next one could not be. Without pending events
-- and an interval after its alert, a row is removed.
CREATE TABLE alert (
    queue      TEXT NOT NULL,
    reason     TEXT NOT NULL CHECK (reason IN ('breaker_open', 'died', 'lease_lost', 'queue_old')),
    code       TEXT NOT NULL,
    pending    INTEGER NOT NULL,
    first_at   INTEGER NOT NULL,
    last_at    INTEGER NOT NULL,
    message_id INTEGER,
    alerted_at INTEGER,
    failure    TEXT,
    PRIMARY KEY (queue, reason, code)
) STRICT, WITHOUT ROWID;

-- Heartbeats and queue stats are for the dashboard; no delivery depends on them. breakers: those that are not closed.
CREATE TABLE process (
    name       TEXT PRIMARY KEY,
    version    TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    seen_at    INTEGER NOT NULL,
    queues     TEXT NOT NULL,
    breakers   TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- What was done in a queue in a minute (span 1, kept for a day) and in an hour (span 60, kept for a week). minute: the
-- first one. ms10 to more: how many results took up to so many milliseconds, and longer. due, oldest_ms: the most
-- messages that were due, and the greatest age of the oldest, in samples of once a minute; null: not sampled.
CREATE TABLE queue_stats (
    span      INTEGER NOT NULL CHECK (span IN (1, 60)),
    minute    INTEGER NOT NULL,
    queue     TEXT NOT NULL,
    delivered INTEGER NOT NULL DEFAULT 0,
    retried   INTEGER NOT NULL DEFAULT 0,
    dead      INTEGER NOT NULL DEFAULT 0,
    uncertain INTEGER NOT NULL DEFAULT 0,
    took_ms   INTEGER NOT NULL DEFAULT 0,
    ms10      INTEGER NOT NULL DEFAULT 0,
    ms25      INTEGER NOT NULL DEFAULT 0,
    ms50      INTEGER NOT NULL DEFAULT 0,
    ms100     INTEGER NOT NULL DEFAULT 0,
    ms250     INTEGER NOT NULL DEFAULT 0,
    ms500     INTEGER NOT NULL DEFAULT 0,
    ms1000    INTEGER NOT NULL DEFAULT 0,
    ms2500    INTEGER NOT NULL DEFAULT 0,
    ms10000   INTEGER NOT NULL DEFAULT 0,
    more      INTEGER NOT NULL DEFAULT 0,
    due       INTEGER,
    oldest_ms INTEGER,
    PRIMARY KEY (span, minute, queue)
) STRICT, WITHOUT ROWID;

-- Problems that operators know, until when: the dashboard shows them apart, unless they get worse.
CREATE TABLE acknowledgement (
    problem  TEXT PRIMARY KEY,
    severity TEXT NOT NULL CHECK (severity IN ('info', 'low', 'medium', 'high', 'critical')),
    at       INTEGER NOT NULL,
    until    INTEGER NOT NULL,
    actor    TEXT NOT NULL,
    reason   TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Queues with a rate for all processes: the next send slot of each, and when slots were last reserved.
CREATE TABLE queue_limit (
    queue       TEXT PRIMARY KEY,
    slot_at     INTEGER NOT NULL,
    reserved_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Retention: finished messages leave, a window of ids at a time. See the trait `Retain` of consign-kernel.

-- The lease of the process that takes the steps. token: null before the first lease. cursor: the last id that the search
-- for messages that may leave has passed; size_cursor: the same while the file is too large. pass_at, pass_end: when and how
-- the last pass ended; passes: so many have ended since one was `done` for the last time, or was not, the first at
-- pass_since, in the ways of pass_ends.
CREATE TABLE maintenance (
    only_row   INTEGER PRIMARY KEY CHECK (only_row = 1),
    owner      TEXT NOT NULL,
    token      BLOB CHECK (length(token) = 16),
    expires_at INTEGER NOT NULL,
    cursor     INTEGER NOT NULL,
    size_cursor INTEGER NOT NULL DEFAULT 0,
    pass_at    INTEGER,
    pass_end   TEXT,
    pass_since INTEGER,
    passes     INTEGER,
    pass_ends  TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(pass_ends))
) STRICT;
INSERT INTO maintenance (only_row, owner, token, expires_at, cursor) VALUES (1, '', NULL, 0, 0);

-- A sample of the history for each hour, as JSON, to tell how it grows.
CREATE TABLE growth (
    hour   INTEGER PRIMARY KEY,
    sample TEXT NOT NULL CHECK (json_valid(sample))
) STRICT;

-- cutoffs: JSON object of {delivered, dead, archive} by queue, as the policies were at `at`. fingerprint: of the messages
-- that leave; another one means that they have changed. cursor: the last id that the removal has passed. audit_id: its
-- one audit entry, once it is leaving. ended_at: null while it is under way.
-- AUTOINCREMENT: the number of a departure that was given up is not given again.
CREATE TABLE departure (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    first        INTEGER NOT NULL,
    last         INTEGER NOT NULL CHECK (last >= first),
    at           INTEGER NOT NULL,
    cutoffs      TEXT NOT NULL CHECK (json_valid(cutoffs)),
    messages     INTEGER NOT NULL,
    stay         INTEGER NOT NULL,
    fingerprint  BLOB NOT NULL CHECK (length(fingerprint) = 32),
    must_archive INTEGER NOT NULL CHECK (must_archive IN (0, 1)),
    state        TEXT NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'archived', 'leaving')),
    archive      TEXT,
    cursor       INTEGER NOT NULL,
    removed      INTEGER NOT NULL DEFAULT 0,
    audit_id     INTEGER,
    ended_at     INTEGER
) STRICT;
CREATE UNIQUE INDEX departure_under_way ON departure (ended_at IS NULL) WHERE ended_at IS NULL;
CREATE UNIQUE INDEX departure_audit ON departure (audit_id) WHERE audit_id IS NOT NULL;

-- The messages of a departure while it is leaving, as they were when they were checked: nothing else is removed, whatever
-- the clock does meanwhile. ids and records (how much is recorded about each) are parallel JSON arrays.
CREATE TABLE departing (
    departure_id INTEGER PRIMARY KEY,
    ids          TEXT NOT NULL,
    records      TEXT NOT NULL
) STRICT;

-- The keys of messages that have left. at: when the message was enqueued. died, discarded: it left so. digest: SHA-256 of its payload.
CREATE TABLE former_key (
    queue      TEXT NOT NULL,
    key        TEXT NOT NULL,
    message_id INTEGER NOT NULL,
    at         INTEGER NOT NULL,
    died       INTEGER NOT NULL CHECK (died IN (0, 1)),
    discarded  INTEGER NOT NULL CHECK (discarded IN (0, 1)),
    digest     BLOB NOT NULL CHECK (length(digest) = 32),
    "group"    TEXT,
    PRIMARY KEY (queue, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX former_key_at ON former_key (queue, at);

-- Messages whose content was erased, for ever: also of messages that have left. digest: SHA-256 of the payload that was erased.
CREATE TABLE erasure (
    message_id INTEGER PRIMARY KEY,
    queue      TEXT NOT NULL,
    at         INTEGER NOT NULL,
    actor      TEXT NOT NULL,
    reason     TEXT NOT NULL,
    digest     BLOB NOT NULL CHECK (length(digest) = 32)
) STRICT;
CREATE INDEX erasure_queue ON erasure (queue);

-- Erasures that the archive is still to be cleared of: it may have a message that a departure archived and did not remove.
CREATE TABLE erasure_due (
    message_id INTEGER PRIMARY KEY
) STRICT;

-- What no other table tells any more about the messages of a queue: how many have left, ever, by a departure or a purge;
-- how many of them were dead, and discarded; how often dead ones were requeued or discarded.
CREATE TABLE departed (
    queue    TEXT NOT NULL PRIMARY KEY,
    messages INTEGER NOT NULL,
    dead     INTEGER NOT NULL DEFAULT 0,
    revived  INTEGER NOT NULL DEFAULT 0,
    discarded INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

-- The audit entry of the purge or departure that this transaction removes messages under, and the first and last of the
-- ids it may remove; empty outside of one. See 0002_append_only.sql.
CREATE TABLE purging (
    audit_id INTEGER PRIMARY KEY,
    first    INTEGER NOT NULL DEFAULT 0,
    last     INTEGER NOT NULL DEFAULT 9223372036854775807
) STRICT;

-- The newest message ever purged, whose id is not reused, and the audit entry of the last purge, which no other purge
-- can use.
CREATE TABLE purged (
    only_row   INTEGER PRIMARY KEY CHECK (only_row = 1),
    audit_id   INTEGER NOT NULL,
    message_id INTEGER NOT NULL
) STRICT;
INSERT INTO purged VALUES (1, 0, 0);

INSERT INTO queue (name, policy) VALUES ('default', '{}');
