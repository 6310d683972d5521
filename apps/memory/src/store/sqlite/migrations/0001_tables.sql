-- The logbook: what the memory gateway remembers beside the messages of the queue `memory`.
--
-- Times are microseconds since 1970 (UTC), documents are JSON text, booleans are 0 or 1. Foreign
-- keys are left out, as everywhere: the store refuses what they would. `words` is what is searched
-- where that is not the text itself: see the next migration.

-- Who there is.
CREATE TABLE identity_users (
    user_id      TEXT NOT NULL PRIMARY KEY,
    display_name TEXT NOT NULL,
    is_active    INTEGER NOT NULL DEFAULT 1 CHECK (is_active IN (0, 1)),
    roles_json   TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(roles_json)),
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE accounts (
    account_id   INTEGER PRIMARY KEY,
    user_id      TEXT NOT NULL,
    account_type TEXT NOT NULL CHECK (account_type IN ('svn', 'gitlab', 'git', 'email')),
    account_name TEXT NOT NULL,
    email        TEXT,
    aliases_json TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(aliases_json)),
    verified     INTEGER NOT NULL DEFAULT 0 CHECK (verified IN (0, 1)),
    updated_at   INTEGER NOT NULL,
    UNIQUE (account_type, account_name)
) STRICT;

CREATE TABLE role_profiles (
    user_id         TEXT NOT NULL PRIMARY KEY,
    profile_sha     TEXT NOT NULL,
    profile_md      TEXT NOT NULL,
    scope_yaml      TEXT,
    review_rules_md TEXT,
    source_path     TEXT,
    updated_at      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What happened.
CREATE TABLE items (
    item_id       INTEGER PRIMARY KEY,
    id            INTEGER GENERATED ALWAYS AS (item_id) VIRTUAL,
    item_type     TEXT NOT NULL,
    title         TEXT NOT NULL,
    project_key   TEXT,
    scope_json    TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(scope_json)),
    status        TEXT NOT NULL DEFAULT 'open',
    owner_user_id TEXT,
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL
) STRICT;

-- `space`: where it can be found; in none, it is found by its item only.
CREATE TABLE events (
    event_id      INTEGER PRIMARY KEY,
    id            INTEGER GENERATED ALWAYS AS (event_id) VIRTUAL,
    item_id       INTEGER NOT NULL,
    event_type    TEXT NOT NULL,
    status_from   TEXT,
    status_to     TEXT,
    payload       TEXT GENERATED ALWAYS AS (payload_json) VIRTUAL,
    payload_json  TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(payload_json)),
    actor_user_id TEXT,
    source        TEXT NOT NULL DEFAULT 'tool',
    space         TEXT,
    created_at    INTEGER NOT NULL,
    words         TEXT
) STRICT;
CREATE INDEX events_item ON events (item_id, created_at);

CREATE TABLE attachments (
    attachment_id INTEGER PRIMARY KEY,
    item_id       INTEGER NOT NULL,
    kind          TEXT NOT NULL,
    uri           TEXT NOT NULL,
    sha256        TEXT NOT NULL,
    size_bytes    INTEGER,
    meta_json     TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(meta_json)),
    created_at    INTEGER NOT NULL,
    UNIQUE (item_id, kind, sha256)
) STRICT;
CREATE INDEX attachments_uri ON attachments (uri);

CREATE TRIGGER item_removed AFTER DELETE ON items
BEGIN
    DELETE FROM events WHERE item_id = OLD.item_id;
    DELETE FROM attachments WHERE item_id = OLD.item_id;
END;

CREATE TABLE kv (
    namespace  TEXT NOT NULL,
    key        TEXT NOT NULL,
    value_json TEXT NOT NULL CHECK (json_valid(value_json)),
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (namespace, key)
) STRICT, WITHOUT ROWID;

-- What analyses found.
CREATE TABLE runs (
    run_id           INTEGER PRIMARY KEY,
    source_type      TEXT NOT NULL,
    source_id        TEXT NOT NULL,
    owner_user_id    TEXT,
    pipeline_version TEXT NOT NULL,
    status           TEXT NOT NULL DEFAULT 'running',
    cost_json        TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(cost_json)),
    error            TEXT,
    started_at       INTEGER NOT NULL,
    ended_at         INTEGER,
    UNIQUE (source_type, source_id, pipeline_version)
) STRICT;

CREATE TABLE knowledge_candidates (
    candidate_id       INTEGER PRIMARY KEY,
    run_id             INTEGER NOT NULL,
    space              TEXT NOT NULL,
    kind               TEXT NOT NULL
                       CHECK (kind IN ('FACT', 'PROCEDURE', 'PITFALL', 'DECISION', 'REVIEW_GUIDE')),
    title              TEXT NOT NULL,
    content_md         TEXT NOT NULL,
    confidence         TEXT NOT NULL DEFAULT 'mid' CHECK (confidence IN ('high', 'mid', 'low')),
    evidence_refs_json TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(evidence_refs_json)),
    promote_suggested  INTEGER NOT NULL DEFAULT 0 CHECK (promote_suggested IN (0, 1)),
    created_at         INTEGER NOT NULL,
    words              TEXT
) STRICT;

-- What may be written where, and what was.
CREATE TABLE governance_settings (
    project_key        TEXT NOT NULL PRIMARY KEY,
    team_write_enabled INTEGER NOT NULL DEFAULT 0 CHECK (team_write_enabled IN (0, 1)),
    policy_json        TEXT NOT NULL DEFAULT '{}' CHECK (json_type(policy_json) = 'object'),
    updated_by         TEXT,
    updated_at         INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE promotion_queue (
    promo_id         INTEGER PRIMARY KEY,
    candidate_id     INTEGER,
    from_space       TEXT NOT NULL,
    to_space         TEXT NOT NULL,
    requested_by     TEXT,
    status           TEXT NOT NULL DEFAULT 'pending'
                     CHECK (status IN ('pending', 'approved', 'rejected')),
    reviewer_user_id TEXT,
    review_note      TEXT,
    created_at       INTEGER NOT NULL,
    updated_at       INTEGER NOT NULL
) STRICT;

-- One row per decision about a write. `outbox_id` is that of the document, if it is a number. Whoever
-- is named in it need not be a user: refusals are audited too.
CREATE TABLE write_audit (
    audit_id           INTEGER PRIMARY KEY,
    created_at         INTEGER NOT NULL,
    ts                 INTEGER GENERATED ALWAYS AS (created_at) VIRTUAL,
    updated_at         INTEGER,
    actor_user_id      TEXT,
    target_space       TEXT NOT NULL,
    action             TEXT NOT NULL CHECK (action IN ('allow', 'redirect', 'reject')),
    reason             TEXT,
    payload_sha        TEXT,
    correlation_id     TEXT,
    status             TEXT NOT NULL DEFAULT 'success'
                       CHECK (status IN ('pending', 'success', 'failed', 'redirected')),
    evidence_refs_json TEXT NOT NULL DEFAULT '{}' CHECK (json_type(evidence_refs_json) = 'object'),
    outbox_id          INTEGER GENERATED ALWAYS AS (
        CASE WHEN evidence_refs_json ->> '$.outbox_id' NOT GLOB '*[^0-9]*'
                  AND length(evidence_refs_json ->> '$.outbox_id') BETWEEN 1 AND 18
             THEN CAST(evidence_refs_json ->> '$.outbox_id' AS INTEGER) END) VIRTUAL,
    CHECK (status <> 'pending' OR coalesce(correlation_id, '') <> '')
) STRICT;
CREATE INDEX write_audit_correlation ON write_audit (correlation_id)
WHERE correlation_id IS NOT NULL;
CREATE INDEX write_audit_outbox ON write_audit (outbox_id) WHERE outbox_id IS NOT NULL;
CREATE INDEX write_audit_memory ON write_audit (payload_sha, target_space)
WHERE payload_sha IS NOT NULL;
CREATE INDEX write_audit_space ON write_audit (target_space)
WHERE status = 'success' AND payload_sha IS NOT NULL
      AND json_type(evidence_refs_json, '$.memory_id') = 'text';
CREATE INDEX write_audit_pending_since ON write_audit (created_at) WHERE status = 'pending';
CREATE UNIQUE INDEX write_audit_pending ON write_audit (correlation_id) WHERE status = 'pending';

-- An audit ends once; what it is about never changes. Only an erasure of its memory removes its error
-- texts, see memory_erase.sql. REPLACE would remove the row in its way without firing a trigger, so it is
-- rejected.
CREATE TRIGGER write_audit_update BEFORE UPDATE ON write_audit
WHEN (OLD.status <> 'pending' OR NEW.status = 'pending' OR NEW.audit_id IS NOT OLD.audit_id
      OR NEW.created_at IS NOT OLD.created_at OR NEW.correlation_id IS NOT OLD.correlation_id
      OR NEW.actor_user_id IS NOT OLD.actor_user_id OR NEW.target_space IS NOT OLD.target_space
      OR NEW.payload_sha IS NOT OLD.payload_sha)
 AND NOT (NEW.evidence_refs_json = json_remove(OLD.evidence_refs_json,
              '$.extra.last_error', '$.extra.error_message',
              '$.gateway_event.extra.last_error', '$.gateway_event.extra.error_message')
          AND (NEW.audit_id, NEW.created_at, NEW.updated_at, NEW.actor_user_id, NEW.target_space)
              IS (OLD.audit_id, OLD.created_at, OLD.updated_at, OLD.actor_user_id, OLD.target_space)
          AND (NEW.action, NEW.reason, NEW.payload_sha, NEW.correlation_id, NEW.status)
              IS (OLD.action, OLD.reason, OLD.payload_sha, OLD.correlation_id, OLD.status)
          AND (EXISTS (SELECT 1 FROM erasure WHERE message_id = OLD.outbox_id)
               -- Of a request about the text that has no row.
               OR OLD.outbox_id IS NULL AND EXISTS (
                   SELECT 1 FROM memory_message AS m
                   WHERE m.key >= OLD.target_space || '#' || OLD.payload_sha
                     AND m.key < OLD.target_space || '#' || OLD.payload_sha || '$'
                     AND m.target_space = OLD.target_space AND m.payload_sha = OLD.payload_sha
                     AND EXISTS (SELECT 1 FROM erasure WHERE message_id = m.id))))
BEGIN SELECT raise(ABORT, 'write_audit: only a pending audit changes, and only to its end'); END;
CREATE TRIGGER write_audit_delete BEFORE DELETE ON write_audit
BEGIN SELECT raise(ABORT, 'write_audit: nothing recorded is ever removed'); END;
CREATE TRIGGER write_audit_replace BEFORE INSERT ON write_audit
WHEN EXISTS (SELECT 1 FROM write_audit WHERE audit_id = NEW.audit_id)
     OR (NEW.status = 'pending'
         AND EXISTS (SELECT 1 FROM write_audit
                     WHERE correlation_id = NEW.correlation_id AND status = 'pending'))
BEGIN SELECT raise(ABORT, 'write_audit: this audit is taken, or its request has a pending one'); END;

-- Audits that ended well and say which record was consumed, while the gateway's cursor of the repository
-- stands where they say it stood; absent, it stands at 0.
CREATE VIEW consume_step AS
SELECT audit_id, 'scm_consume:' || repo_id AS key, json_object(field, to_position) AS value_json, at
FROM (SELECT audit_id, coalesce(updated_at, created_at) AS at,
             evidence_refs_json ->> '$.consume.repo_id' AS repo_id,
             evidence_refs_json ->> '$.consume.field' AS field,
             evidence_refs_json ->> '$.consume.from' AS from_position,
             evidence_refs_json ->> '$.consume.to' AS to_position
      FROM write_audit WHERE status IN ('success', 'redirected')) AS step
WHERE field IN ('last_processed_id', 'last_processed_rev') AND typeof(repo_id) = 'integer'
  AND typeof(from_position) = 'integer' AND typeof(to_position) = 'integer' AND to_position >= 0
  AND from_position = coalesce(
      (SELECT CASE WHEN json_type(value_json, '$.' || field) = 'integer'
                   THEN value_json ->> ('$.' || field) END
       FROM kv WHERE namespace = 'gateway.consume' AND key = 'scm_consume:' || repo_id), 0);

-- The cursor moves in the transaction that records the result of the record. If it is elsewhere it stays: it
-- was rewound, or another process was quicker.
CREATE TRIGGER consume_inserted AFTER INSERT ON write_audit
WHEN NEW.status IN ('success', 'redirected') AND json_type(NEW.evidence_refs_json, '$.consume') = 'object'
BEGIN
    INSERT INTO kv (namespace, key, value_json, updated_at)
    SELECT 'gateway.consume', key, value_json, at FROM consume_step WHERE audit_id = NEW.audit_id
    ON CONFLICT (namespace, key) DO UPDATE
    SET value_json = excluded.value_json, updated_at = excluded.updated_at;
END;
CREATE TRIGGER consume_ended AFTER UPDATE ON write_audit
WHEN OLD.status = 'pending' AND NEW.status IN ('success', 'redirected') AND json_type(NEW.evidence_refs_json, '$.consume') = 'object'
BEGIN
    INSERT INTO kv (namespace, key, value_json, updated_at)
    SELECT 'gateway.consume', key, value_json, at FROM consume_step WHERE audit_id = NEW.audit_id
    ON CONFLICT (namespace, key) DO UPDATE
    SET value_json = excluded.value_json, updated_at = excluded.updated_at;
END;

-- The embedded memory: a text is kept once in a space.
CREATE TABLE memory_kept (
    kept_id       INTEGER PRIMARY KEY,
    memory_id     TEXT NOT NULL UNIQUE,
    target_space  TEXT NOT NULL,
    payload_sha   TEXT NOT NULL,
    kind          TEXT,
    actor_user_id TEXT,
    created_at    INTEGER NOT NULL,
    meta_json     TEXT NOT NULL DEFAULT '{}' CHECK (json_type(meta_json) = 'object'),
    evidence      TEXT NOT NULL DEFAULT '[]' CHECK (json_type(evidence) = 'array'),
    payload_md    TEXT NOT NULL,
    words         TEXT,
    -- The older version that it replaced, and the newer one that replaced it.
    supersedes    TEXT,
    superseded_by TEXT
) STRICT;
CREATE UNIQUE INDEX memory_kept_text ON memory_kept (target_space, payload_sha) WHERE superseded_by IS NULL;
CREATE INDEX memory_kept_listed ON memory_kept (target_space, created_at DESC, memory_id DESC)
WHERE superseded_by IS NULL;
CREATE INDEX memory_kept_versions ON memory_kept (superseded_by) WHERE superseded_by IS NOT NULL;

-- The write lock of a memory server that must not be written to by two at once, and who is
-- next, should they ask again until then.
CREATE TABLE memory_write_lock (
    destination TEXT NOT NULL PRIMARY KEY,
    holder      TEXT,
    expires_at  INTEGER NOT NULL,
    next_holder TEXT,
    next_until  INTEGER
) STRICT, WITHOUT ROWID;

-- By `claim_outbox`: for how long a lease was asked, to renew it by; absent: for the queue's time.
CREATE TABLE memory_lease (
    fence       INTEGER PRIMARY KEY,
    claimed_for INTEGER NOT NULL
) STRICT;

-- Memories by their messages. An erased one has neither payload nor headers: its key has space and hash, its last audit the backend.
CREATE VIEW memory_message AS
SELECT m.id, m.key, m.created_at, m.payload, m.headers,
       coalesce(m.payload ->> '$.target_space', substr(m.name, 1, length(m.name) - 65)) AS target_space,
       coalesce(m.payload ->> '$.payload_sha', substr(m.name, -64)) AS payload_sha,
       coalesce(m.headers ->> '$.backend', CASE WHEN m.payload = 'null' THEN
           (SELECT evidence_refs_json ->> '$.backend' FROM write_audit
            WHERE outbox_id = m.id AND (reason GLOB 'outbox_flush_success*' OR reason GLOB 'outbox_flush_dedup_hit*'
                                        OR reason GLOB 'outbox_flush_dead*')
            ORDER BY audit_id DESC LIMIT 1) END) AS backend,
       CASE WHEN m.payload = 'null' THEN (SELECT at FROM erasure WHERE message_id = m.id) END AS erased_at
FROM (SELECT *,
             -- The key without its number.
             CASE WHEN substr(key, -64) NOT GLOB '*[^0-9a-f]*' THEN key
                  ELSE substr(key, 1, length(rtrim(key, '0123456789')) - 1) END AS name
      FROM message WHERE queue = 'memory') AS m;

-- The outbox as in the protocol, read only. `next_attempt_at` of what is not waiting is when
-- it was last due. Retries from before a requeue do not count: an attempt that was not repeated and
-- is not the last one is the end of an earlier life.
CREATE VIEW outbox_memory AS
WITH place (id, name, due_at, owner, locked_at, moved_at, code) AS (
    SELECT CAST(entry.value AS INTEGER), 'ready', ready.due_at, NULL, NULL, 0, NULL
    FROM ready, json_each(ready.ids) AS entry WHERE ready.queue = 'memory'
    UNION ALL
    SELECT CAST(entry.value AS INTEGER), 'leased', NULL, lease.owner,
           max(lease.claimed_at, lease.expires_at - coalesce(
               (SELECT claimed_for FROM memory_lease WHERE fence = lease.fence), 1000 * coalesce(
               (SELECT policy ->> '$.lease_ttl_ms' FROM queue WHERE name = 'memory'), 15000))),
           lease.claimed_at, NULL
    FROM lease, json_each(lease.ids) AS entry WHERE lease.queue = 'memory'
    UNION ALL
    SELECT message_id, 'held', NULL, NULL, NULL, at, NULL FROM held WHERE queue = 'memory'
    UNION ALL
    SELECT message_id, 'waiting', due_at, NULL, NULL, 0, NULL FROM waiting WHERE queue = 'memory'
    UNION ALL
    SELECT message_id, 'dead', NULL, NULL, NULL, at, code FROM dead WHERE queue = 'memory'
),
known AS (
    SELECT m.*, p.due_at, p.owner, p.locked_at, p.code,
           max(coalesce(p.moved_at, 0), coalesce(p.locked_at, 0)) AS moved_at,
           CASE WHEN p.name IS NULL THEN 'sent' WHEN p.name = 'dead' THEN 'dead' ELSE 'pending' END
               AS status,
           (SELECT max(attempt_no) FROM attempt WHERE message_id = m.id) AS attempt_no
    FROM memory_message AS m LEFT JOIN place AS p ON p.id = m.id
),
row_state AS (
    SELECT k.*,
           coalesce((SELECT max(attempt_no) FROM attempt
                     WHERE message_id = k.id AND next_due_at IS NULL
                       AND (k.status = 'pending' OR attempt_no < k.attempt_no)), 0) AS ended_no,
           CASE WHEN k.status = 'sent' THEN
               (SELECT CASE WHEN json_valid(result) THEN result END FROM attempt
                WHERE message_id = k.id AND attempt_no = k.attempt_no) END AS result
    FROM known AS k
)
SELECT t.id AS outbox_id,
       CAST(t.headers ->> '$.item_id' AS INTEGER) AS item_id,
       t.target_space,
       CASE WHEN t.erased_at IS NULL THEN t.payload ->> '$.payload_md' ELSE '[erased]' END AS payload_md,
       t.payload_sha,
       t.status,
       (SELECT count(*) FROM attempt
        WHERE message_id = t.id AND attempt_no > t.ended_no AND next_due_at IS NOT NULL
          AND outcome IN ('retry', 'uncertain')
          AND coalesce(code, '') NOT IN ('lease_expired', 'misdirected')) AS retry_count,
       coalesce(t.due_at,
                (SELECT next_due_at FROM attempt WHERE message_id = t.id AND next_due_at IS NOT NULL
                 ORDER BY attempt_no DESC LIMIT 1),
                t.created_at) AS next_attempt_at,
       t.locked_at,
       t.owner AS locked_by,
       CASE WHEN t.status = 'sent' THEN 'memory_id=' || (t.result ->> '$.memory_id')
            ELSE coalesce((SELECT detail FROM attempt WHERE message_id = t.id AND detail IS NOT NULL
                           ORDER BY attempt_no DESC LIMIT 1),
                          t.headers ->> '$.last_error', t.code) END AS last_error,
       t.result ->> '$.memory_id' AS memory_id,
       coalesce(t.result ->> '$.backend', t.backend) AS backend,
       t.headers ->> '$.correlation_id' AS correlation_id,
       t.created_at,
       max(t.created_at, t.moved_at,
           coalesce((SELECT finished_at FROM attempt
                     WHERE message_id = t.id AND attempt_no = t.attempt_no), 0),
           coalesce((SELECT max(at) FROM audit
                     WHERE message_id = t.id AND action IN ('requeue', 'hold', 'unhold')), 0))
           AS updated_at,
       t.erased_at
FROM row_state AS t;
