-- The tables. A message never changes; a batch of messages moves; a lease gives a batch to one owner.
--
-- The state of a message is not a column: it is the table that has its id. A claim moves batches from `ready` into one
-- `lease` row, a settle deletes or shrinks that row and appends attempts. There are no foreign keys: their per-row
-- triggers would cost more than the rest of a settle, and `consign doctor` checks what they would.
--
-- `ids`, `tries` and `attempts` are parallel arrays: tries count toward the queue's limit, attempts are the attempt
-- rows written so far. `bytes` is an upper bound of the length of the batch's payloads and headers as text; NULL: unknown.
--
-- Tables whose rows live for seconds are vacuumed by count, not by share, without pauses (autovacuum_vacuum_cost_delay),
-- and without the exclusive lock that truncating a table needs (vacuum_truncate).

REVOKE ALL ON SCHEMA consign FROM PUBLIC;

-- The one clock for every lease decision: the wall clock, not the start of the transaction.
CREATE FUNCTION consign.clock() RETURNS timestamptz
    LANGUAGE sql VOLATILE PARALLEL SAFE
    RETURN clock_timestamp();
REVOKE ALL ON FUNCTION consign.clock() FROM PUBLIC;

CREATE TYPE consign.outcome AS ENUM ('delivered', 'retry', 'dead', 'uncertain', 'expired');

-- policy: NULL in a row that only reserves a name: an app's queue has its hooks and workers before it is created.
-- hooks: event -> function, see consign.set_hook. Read with the policy, so a queue without hooks pays nothing for them.
-- workers: the roles whose members may claim from the queue. Only the owner of the schema writes hooks and workers.
CREATE TABLE consign.queue (
    name      text PRIMARY KEY CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,62}$'),
    policy    jsonb,
    paused_at timestamptz,
    hooks     jsonb NOT NULL DEFAULT '{}',
    workers   name[] NOT NULL DEFAULT '{consign_worker}'
);

-- Messages, attempts, late results and audit entries only grow, so they are stored by ranges of message ids with equal
-- bounds: history leaves by whole ranges. See 0002_ranges.sql.
-- expires_at of a message: from then on it is not sent any more.
CREATE SEQUENCE consign.message_id_seq;
CREATE TABLE consign.message (
    id         bigint NOT NULL DEFAULT nextval('consign.message_id_seq') PRIMARY KEY,
    created_at timestamptz NOT NULL,
    queue      text NOT NULL,
    key        text,
    "group"    text,
    payload    jsonb NOT NULL,
    headers    jsonb NOT NULL,
    expires_at timestamptz
) PARTITION BY RANGE (id);
ALTER SEQUENCE consign.message_id_seq OWNED BY consign.message.id;
-- Truncated, because the length of an index entry is limited and that of a header is not.
CREATE INDEX message_correlation ON consign.message (left(headers->>'correlation_id', 200) COLLATE "C", id)
    WHERE headers ? 'correlation_id';

-- The keys of messages, also of messages that have left: a repeated key is a duplicate if digest and group are equal.
-- died, discarded: the message left so; set before it leaves, and without meaning while it is here.
CREATE TABLE consign.message_key (
    queue      text NOT NULL,
    -- By bytes, so that the index finds keys by their beginning, whatever the order of texts in the database.
    key        text COLLATE "C" NOT NULL,
    message_id bigint NOT NULL,
    at         timestamptz NOT NULL,
    died       boolean NOT NULL DEFAULT false,
    discarded  boolean NOT NULL DEFAULT false,
    digest     bytea NOT NULL,
    "group"    text,
    PRIMARY KEY (queue, key)
);
-- Few rows are in the one, and the other has a few bytes for every 128 pages: an enqueue hardly pays for them.
CREATE INDEX message_key_died ON consign.message_key (message_id) WHERE died;
CREATE INDEX message_key_history ON consign.message_key USING brin (message_id, at) WITH (autosummarize = on);

-- Messages whose content was erased, for ever: also of messages that have left. digest: of the payload that was erased.
CREATE TABLE consign.erasure (
    message_id bigint PRIMARY KEY,
    queue      text NOT NULL,
    at         timestamptz NOT NULL,
    actor      text NOT NULL,
    reason     text NOT NULL,
    digest     bytea NOT NULL,
    login      text NOT NULL DEFAULT session_user
);

-- Erasures that the archive is still to be cleared of: it may have a message that a departure archived and did not remove.
CREATE TABLE consign.erasure_due (
    message_id bigint PRIMARY KEY
);

-- The ranges: a partition each of message, attempt, late and audit, named by the number, for the ids from `first` up to but not
-- including `until`. The last range has no end in practice, so that an insert always finds one. closed_at: since when no
-- transaction inserts into the range. is_rest: it holds what stayed when the others left. is_counted: range_count has its
-- messages. look_at, size_look_at: before this time no departure, or none by size, looks at it again; may_leave: how many
-- messages might have left when one did, by queue.
CREATE TABLE consign.range (
    number     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    first      bigint NOT NULL UNIQUE,
    until      bigint NOT NULL UNIQUE CHECK (first < until),
    created_at timestamptz NOT NULL,
    closed_at  timestamptz,
    is_rest    boolean NOT NULL DEFAULT false,
    is_counted boolean NOT NULL DEFAULT false,
    look_at    timestamptz NOT NULL DEFAULT '-infinity',
    size_look_at timestamptz NOT NULL DEFAULT '-infinity',
    may_leave  jsonb
);

-- What a closed range has of each queue, counted once: no transaction inserts into it. bytes: of payloads and headers as
-- stored. A purge of its messages removes the counts, and they are counted anew.
CREATE TABLE consign.range_count (
    number   bigint NOT NULL,
    queue    text NOT NULL,
    messages bigint NOT NULL,
    bytes    bigint NOT NULL,
    first_id bigint NOT NULL,
    PRIMARY KEY (number, queue)
);

-- A sample of the history for each hour, to tell how it grows.
CREATE TABLE consign.growth (
    hour   timestamptz PRIMARY KEY,
    sample jsonb NOT NULL
);

-- The lease of the maintenance, one row. pass_at, pass_end: when and how its last pass ended; passes: so many have ended
-- since one was `done` for the last time, or was not, the first at pass_since, in the ways of pass_ends.
CREATE TABLE consign.maintenance (
    only_row   boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    owner      text NOT NULL,
    token      uuid NOT NULL,
    expires_at timestamptz NOT NULL,
    pass_at    timestamptz,
    pass_end   text,
    pass_since timestamptz,
    passes     bigint,
    pass_ends  text[]
);
INSERT INTO consign.maintenance (owner, token, expires_at) VALUES ('nobody', gen_random_uuid(), '-infinity');

-- Departures: the messages from `first` up to `until` that leave together. state: `copying` what stays; `open`: which messages
-- leave is decided; `archived`; `leaving`: they have left, and apps follow; `over`; `stopped`: its messages have changed, and
-- what it made is to be removed. cutoffs: until when the last event of a message must have happened, by queue. by_size: it
-- began because the database is too large. has_archive: the process that began it has an archive. number: of the range that takes the place of the old ones: its tables have what
-- stays. next_id: the first id that is not decided about. messages, stay: how many leave and stay; counts: how many leave, by
-- queue, and how many of them are dead and discarded; dead_ids, discarded_ids: these. detached: the numbers of ranges to be dropped.
CREATE TABLE consign.departure (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    first        bigint NOT NULL,
    until        bigint NOT NULL,
    at           timestamptz NOT NULL,
    cutoffs      jsonb NOT NULL,
    by_size      boolean NOT NULL,
    has_archive  boolean NOT NULL,
    state        text NOT NULL DEFAULT 'copying' CHECK (state IN ('copying', 'open', 'archived', 'leaving', 'over', 'stopped')),
    number       bigint,
    next_id      bigint,
    messages     bigint NOT NULL DEFAULT 0,
    stay         bigint NOT NULL DEFAULT 0,
    counts       jsonb NOT NULL DEFAULT '{}',
    dead_ids     bigint[] NOT NULL DEFAULT '{}',
    discarded_ids bigint[] NOT NULL DEFAULT '{}',
    must_archive boolean NOT NULL DEFAULT false,
    archive      text,
    detached     bigint[] NOT NULL DEFAULT '{}'
);
CREATE UNIQUE INDEX departure_under_way ON consign.departure ((true)) WHERE state <> 'over';

-- What no other table tells any more about the messages of a queue: how many have left, ever, by a departure or a purge;
-- how many of them were dead, and discarded; how often dead ones were requeued or discarded.
CREATE TABLE consign.departed (
    queue    text PRIMARY KEY,
    messages bigint NOT NULL,
    dead     bigint NOT NULL,
    revived  bigint NOT NULL,
    discarded bigint NOT NULL
);

-- isolated: returned by an expiry, to be leased alone.
CREATE TABLE consign.ready (
    queue    text NOT NULL,
    due_at   timestamptz NOT NULL,
    -- In steps longer than a batch, so that the pieces of a split batch sort behind it.
    batch    bigint GENERATED ALWAYS AS IDENTITY (INCREMENT BY 256),
    bytes    bigint,
    isolated boolean NOT NULL,
    ids      bigint[] NOT NULL,
    tries    int[] NOT NULL,
    attempts int[] NOT NULL,
    PRIMARY KEY (queue, due_at, batch)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
        autovacuum_vacuum_cost_delay = 0, vacuum_truncate = false);

-- begun: messages whose transport call was announced. presumed_begun: the owner may call the sink for any message
-- without announcing it.
CREATE TABLE consign.lease (
    fence      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    claimed_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    token      uuid NOT NULL UNIQUE,
    queue      text NOT NULL,
    owner      text NOT NULL,
    ids        bigint[] NOT NULL,
    tries      int[] NOT NULL,
    attempts   int[] NOT NULL,
    begun      bigint[] NOT NULL DEFAULT '{}',
    presumed_begun boolean NOT NULL DEFAULT false,
    bytes      bigint
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0, vacuum_truncate = false, toast_tuple_target = 8160);
-- A lease of some hundred ids stays in its page uncompressed: compressing costs more than reading it.
-- PostgreSQL 14 and 15 have no STORAGE clause in CREATE TABLE.
ALTER TABLE consign.lease
    ALTER ids SET STORAGE EXTERNAL, ALTER tries SET STORAGE EXTERNAL, ALTER attempts SET STORAGE EXTERNAL;
-- An expiry finds the ended leases of a queue without walking the live ones.
CREATE INDEX lease_expiry ON consign.lease (queue, expires_at);

CREATE TABLE consign.attempt (
    message_id  bigint NOT NULL,
    fence       bigint NOT NULL,
    claimed_at  timestamptz NOT NULL,
    finished_at timestamptz NOT NULL,
    next_due_at timestamptz,
    attempt_no  int NOT NULL,
    outcome     consign.outcome NOT NULL,
    token       uuid NOT NULL,
    owner       text NOT NULL,
    code        text,
    detail      text,
    result      jsonb,
    PRIMARY KEY (message_id, attempt_no)
) PARTITION BY RANGE (message_id);

-- What a worker reported about a message after its lease had ended: evidence, never an outcome. At most one per lease
-- and message, and one `after_all`: a success recorded after another result.
CREATE TABLE consign.late (
    message_id bigint NOT NULL,
    fence      bigint NOT NULL,
    at         timestamptz NOT NULL,
    token      uuid NOT NULL,
    outcome    consign.outcome NOT NULL CHECK (outcome <> 'expired'),
    owner      text NOT NULL,
    code       text,
    detail     text,
    result     jsonb,
    after_all  boolean NOT NULL DEFAULT false CHECK (NOT after_all OR outcome = 'delivered'),
    PRIMARY KEY (message_id, token, after_all)
) PARTITION BY RANGE (message_id);

-- erased: as in `erasure`. Here too, because a requeue that waits for the row sees the change of this row only.
CREATE TABLE consign.dead (
    message_id bigint PRIMARY KEY,
    queue      text NOT NULL,
    at         timestamptz NOT NULL,
    attempt_no int NOT NULL,
    code       text NOT NULL,
    detail     text,
    erased     boolean NOT NULL DEFAULT false
);
CREATE INDEX dead_queue ON consign.dead (queue, message_id);
CREATE INDEX dead_code ON consign.dead (code, message_id);

-- Messages that an operator discarded or cancelled: final, and never delivered. attempts: so many were recorded before.
CREATE TABLE consign.discarded (
    message_id bigint PRIMARY KEY,
    queue      text NOT NULL,
    at         timestamptz NOT NULL,
    attempts   int NOT NULL,
    actor      text NOT NULL,
    reason     text NOT NULL
);
CREATE INDEX discarded_queue ON consign.discarded (queue, message_id);

-- "group": set if the message was held while it waited in this ordered group, where it keeps its place.
CREATE TABLE consign.held (
    message_id bigint PRIMARY KEY,
    queue      text NOT NULL,
    at         timestamptz NOT NULL,
    reason     text NOT NULL,
    tries      int NOT NULL,
    attempts   int NOT NULL,
    "group"    text
);
CREATE INDEX held_queue ON consign.held (queue, message_id);
CREATE INDEX held_group ON consign.held (queue, "group", message_id) WHERE "group" IS NOT NULL;

-- Ordered queues only: messages behind the head of their group.
CREATE TABLE consign.waiting (
    queue      text NOT NULL,
    "group"    text NOT NULL,
    message_id bigint NOT NULL UNIQUE,
    due_at     timestamptz NOT NULL,
    bytes      bigint,
    tries      int NOT NULL,
    attempts   int NOT NULL,
    PRIMARY KEY (queue, "group", message_id)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
        autovacuum_vacuum_cost_delay = 0, vacuum_truncate = false);

-- Ordered queues only: the message of a group that may be ready. NULL: the head is open, because the last message
-- finished while an enqueue may have been under way; the next claim decides.
CREATE TABLE consign.group_head (
    queue      text NOT NULL,
    "group"    text NOT NULL,
    message_id bigint,
    PRIMARY KEY (queue, "group")
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
        autovacuum_vacuum_cost_delay = 0, vacuum_truncate = false);
CREATE INDEX group_head_open ON consign.group_head (queue) WHERE message_id IS NULL;

-- actor is what the caller claims to be; login is the connection's. Entries about a message are in the range of the message
-- and leave with it. message_id 0: about no message; below 0: about the message of that number without its sign, which was
-- purged. Those are in a partition that stays.
CREATE SEQUENCE consign.audit_id_seq;
CREATE TABLE consign.audit (
    id         bigint NOT NULL DEFAULT nextval('consign.audit_id_seq'),
    message_id bigint NOT NULL DEFAULT 0,
    at         timestamptz NOT NULL,
    actor      text NOT NULL,
    action     text NOT NULL,
    queue      text,
    reason     text NOT NULL,
    login      text NOT NULL DEFAULT session_user,
    PRIMARY KEY (message_id, id)
) PARTITION BY RANGE (message_id);
ALTER SEQUENCE consign.audit_id_seq OWNED BY consign.audit.id;
CREATE INDEX audit_id ON consign.audit (id);

-- A redrive moves messages by filter: it requeues or discards dead ones, or cancels those of a queue. cursor: the last message it has passed. paced_at: the time up to which
-- its rate is used up.
CREATE TABLE consign.redrive (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    state           text NOT NULL CHECK (state IN ('running', 'stopped', 'done')),
    action          text NOT NULL CHECK (action IN ('requeue', 'discard', 'cancel')),
    queue           text,
    code            text,
    rate_per_second bigint CHECK (rate_per_second BETWEEN 1 AND 4294967295),
    at_most         bigint CHECK (at_most > 0),
    total           bigint NOT NULL,
    moved           bigint NOT NULL DEFAULT 0,
    skipped         bigint NOT NULL DEFAULT 0,
    cursor          bigint,
    actor           text NOT NULL,
    reason          text NOT NULL,
    started_at      timestamptz NOT NULL,
    updated_at      timestamptz NOT NULL,
    finished_at     timestamptz,
    paced_at        timestamptz NOT NULL
);
CREATE INDEX redrive_running ON consign.redrive (updated_at, id) WHERE state = 'running';

-- A schedule enqueues a message at every tick of its expression. next_at: the first tick that was not taken; the process
-- that takes it computes the one after it.
CREATE TABLE consign.schedule (
    name            text COLLATE "C" PRIMARY KEY CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,62}$'),
    queue           text NOT NULL,
    cron            text NOT NULL CHECK (octet_length(cron) BETWEEN 1 AND 256),
    time_zone       text NOT NULL CHECK (octet_length(time_zone) BETWEEN 1 AND 64),
    payload         jsonb NOT NULL,
    headers         jsonb NOT NULL CHECK (NOT headers ?| '{consign_schedule,consign_tick,consign_missed}'),
    "group"         text,
    missed          text NOT NULL CHECK (missed IN ('skip', 'once', 'all')),
    missed_max      int NOT NULL CHECK (missed_max BETWEEN 1 AND 1000),
    created_at      timestamptz NOT NULL,
    updated_at      timestamptz NOT NULL,
    paused_at       timestamptz,
    -- A time that processes cannot read would stop the ticks of all schedules.
    next_at         timestamptz NOT NULL CHECK (next_at >= '0001-01-01 00:00+00' AND next_at < '9999-12-30 00:00+00'),
    last_tick       timestamptz,
    last_at         timestamptz,
    last_message_id bigint,
    ticks           bigint NOT NULL DEFAULT 0 CHECK (ticks >= 0),
    dropped         bigint NOT NULL DEFAULT 0 CHECK (dropped >= 0)
);
CREATE INDEX schedule_next ON consign.schedule (next_at, name) WHERE paused_at IS NULL;

-- What alerts are to be about and is not counted yet: rows are inserted where it happens, in the same transaction, and
-- removed when they are counted in `alert`.
CREATE TABLE consign.alert_event (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue      text NOT NULL,
    reason     text NOT NULL CHECK (reason IN ('breaker_open', 'died', 'lease_lost', 'queue_old')),
    code       text NOT NULL DEFAULT '',
    count      bigint NOT NULL CHECK (count > 0),
    message_id bigint,
    at         timestamptz NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- The next alert of a queue, reason and code: pending events, when the first and the last of them happened, one of their
-- messages. alerted_at: when the last alert was enqueued; failure: why the next one could not be. Without pending events
-- and an interval after its alert, a row is removed.
CREATE TABLE consign.alert (
    queue      text NOT NULL,
    reason     text NOT NULL CHECK (reason IN ('breaker_open', 'died', 'lease_lost', 'queue_old')),
    code       text NOT NULL,
    pending    bigint NOT NULL,
    first_at   timestamptz NOT NULL,
    last_at    timestamptz NOT NULL,
    message_id bigint,
    alerted_at timestamptz,
    failure    text,
    PRIMARY KEY (queue, reason, code)
);

-- Heartbeats and queue stats are for the dashboard; no delivery depends on them. breakers: those that are not closed.
CREATE TABLE consign.process (
    name       text PRIMARY KEY,
    version    text NOT NULL,
    started_at timestamptz NOT NULL,
    seen_at    timestamptz NOT NULL,
    queues     text[] NOT NULL,
    breakers   jsonb NOT NULL
);

-- What was done in a queue in a minute (span 1, kept for a day) and in an hour (span 60, kept for a week). minute: the
-- first one. Of a minute, one row per process, so that processes do not wait for each other; those of an hour and the
-- samples of what was due have none (''). ms10 to more: how many results took up to so many milliseconds, and longer.
-- due, oldest_ms: the most messages that were due, and the greatest age of the oldest, in samples of once a minute.
CREATE TABLE consign.queue_stats (
    span      smallint NOT NULL CHECK (span IN (1, 60)),
    minute    timestamptz NOT NULL,
    queue     text NOT NULL,
    process   text NOT NULL,
    delivered bigint NOT NULL DEFAULT 0,
    retried   bigint NOT NULL DEFAULT 0,
    dead      bigint NOT NULL DEFAULT 0,
    uncertain bigint NOT NULL DEFAULT 0,
    took_ms   bigint NOT NULL DEFAULT 0,
    ms10      bigint NOT NULL DEFAULT 0,
    ms25      bigint NOT NULL DEFAULT 0,
    ms50      bigint NOT NULL DEFAULT 0,
    ms100     bigint NOT NULL DEFAULT 0,
    ms250     bigint NOT NULL DEFAULT 0,
    ms500     bigint NOT NULL DEFAULT 0,
    ms1000    bigint NOT NULL DEFAULT 0,
    ms2500    bigint NOT NULL DEFAULT 0,
    ms10000   bigint NOT NULL DEFAULT 0,
    more      bigint NOT NULL DEFAULT 0,
    due       bigint,
    oldest_ms bigint,
    PRIMARY KEY (span, minute, queue, process)
);

-- Problems that operators know, until when: the dashboard shows them apart, unless they get worse.
CREATE TABLE consign.acknowledgement (
    problem  text COLLATE "C" PRIMARY KEY,
    severity text NOT NULL CHECK (severity IN ('info', 'low', 'medium', 'high', 'critical')),
    at       timestamptz NOT NULL,
    until    timestamptz NOT NULL,
    actor    text NOT NULL,
    reason   text NOT NULL,
    login    text NOT NULL DEFAULT session_user
);

-- Queues with a limit for all processes: claims of such a queue lock its row. slot_at: the next send slot of its rate;
-- reserved_at: when slots were last reserved, by which a clock that was set back is noticed.
CREATE TABLE consign.queue_limit (
    queue       text PRIMARY KEY,
    slot_at     timestamptz,
    reserved_at timestamptz
);

-- Workers that sleep on a queue. A commit of something due before `sleeps_until` wakes them; after that time they wake
-- by themselves, so the row of a killed worker soon has no effect.
--
-- Unlogged: registering waits for no flush, and a crash of the server empties the table.
CREATE UNLOGGED TABLE consign.idle (
    queue        text NOT NULL,
    sleeps_until timestamptz NOT NULL,
    worker       uuid NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0, vacuum_truncate = false);
-- By time, because producers read only the entries that still sleep: while a snapshot is held open, vacuum removes none
-- of the older ones.
CREATE INDEX idle_queue ON consign.idle (queue, sleeps_until);
