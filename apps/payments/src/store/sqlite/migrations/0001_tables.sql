-- Payments: the tables beside the messages of the queue `payments`.
--
-- A payment is a message and a row here, written in one transaction and never changed. How it
-- stands is where its message is; what happened to it are that message's attempts. UUIDs are text
-- with hyphens, in lower case.

CREATE TABLE payment (
    message_id      INTEGER PRIMARY KEY,
    outbox_id       TEXT NOT NULL CHECK (length(outbox_id) = 36),
    sequence_id     INTEGER NOT NULL CHECK (sequence_id >= 1),
    created_at      INTEGER NOT NULL,
    tenant_id       TEXT,
    correlation_id  TEXT,
    instruction_id  TEXT NOT NULL,
    idempotency_key TEXT NOT NULL,
    participant_id  TEXT NOT NULL,
    rail_type       TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX payment_outbox ON payment (outbox_id);
-- A key belongs to its tenant; payments without a tenant share one space of keys.
CREATE UNIQUE INDEX payment_idempotency ON payment (instruction_id, idempotency_key, coalesce(tenant_id, ''));
CREATE UNIQUE INDEX payment_participant_sequence ON payment (participant_id, sequence_id);
-- Every index ends with the rowid, so this one lists a tenant's payments by age.
CREATE INDEX payment_tenant ON payment (tenant_id) WHERE tenant_id IS NOT NULL;

-- dense_from: numbers from here on have no gaps; some of those before were forgotten with their keys.
CREATE TABLE participant_outbox_sequences (
    participant_id   TEXT NOT NULL PRIMARY KEY,
    next_sequence_id INTEGER NOT NULL CHECK (next_sequence_id >= 1),
    dense_from       INTEGER NOT NULL DEFAULT 1 CHECK (dense_from >= 1 AND dense_from <= next_sequence_id)
) STRICT, WITHOUT ROWID;

-- What an erasure leaves of the payloads of payments. amount_minor: a number in JSON.
CREATE TABLE payment_erased (
    message_id    INTEGER PRIMARY KEY,
    amount_minor  TEXT,
    currency_code TEXT
) STRICT;
CREATE TRIGGER payment_erased_update BEFORE UPDATE ON payment_erased
BEGIN SELECT raise(ABORT, 'payment_erased is append-only: a payment is erased once'); END;

CREATE TRIGGER payment_update BEFORE UPDATE ON payment
BEGIN SELECT raise(ABORT, 'payment is append-only: write a new row instead'); END;
-- A payment is deleted when its message has left and its key was forgotten, not before: the key would be paid again.
CREATE TRIGGER payment_delete BEFORE DELETE ON payment
WHEN EXISTS (SELECT 1 FROM message WHERE id = OLD.message_id)
     OR EXISTS (SELECT 1 FROM former_key WHERE queue = 'payments' AND key = OLD.outbox_id)
BEGIN SELECT raise(ABORT, 'payment is append-only: a row stays while its key is kept'); END;
CREATE TRIGGER payment_replace BEFORE INSERT ON payment
WHEN EXISTS (SELECT 1 FROM payment WHERE message_id = NEW.message_id)
     OR EXISTS (SELECT 1 FROM payment WHERE outbox_id = NEW.outbox_id)
     OR EXISTS (SELECT 1 FROM payment WHERE instruction_id = NEW.instruction_id
                AND idempotency_key = NEW.idempotency_key AND tenant_id IS NEW.tenant_id)
     OR EXISTS (SELECT 1 FROM payment WHERE participant_id = NEW.participant_id
                AND sequence_id = NEW.sequence_id)
BEGIN SELECT raise(ABORT, 'payment is append-only: this message, id, key or number is taken'); END;

-- A participant that is deleted or set back would give numbers twice.
CREATE TRIGGER participant_delete BEFORE DELETE ON participant_outbox_sequences
BEGIN SELECT raise(ABORT, 'participant_outbox_sequences only grows'); END;
CREATE TRIGGER participant_update BEFORE UPDATE ON participant_outbox_sequences
WHEN NEW.next_sequence_id < OLD.next_sequence_id OR NEW.participant_id <> OLD.participant_id
BEGIN SELECT raise(ABORT, 'participant_outbox_sequences only grows'); END;
CREATE TRIGGER participant_replace BEFORE INSERT ON participant_outbox_sequences
WHEN NEW.next_sequence_id < (SELECT next_sequence_id FROM participant_outbox_sequences
                             WHERE participant_id = NEW.participant_id)
BEGIN SELECT raise(ABORT, 'participant_outbox_sequences only grows'); END;

-- The database itself keeps a payment from being dispatched twice. Attempts of other queues have
-- no rail reference and pay only for the check of the condition.
CREATE UNIQUE INDEX ux_outbox_attempts_one_terminal_per_outbox ON attempt (message_id)
WHERE outcome = 'delivered' AND result IS NOT NULL AND result ->> '$.rail_reference' IS NOT NULL;
-- Payments by the reference of the rail. Not unique: a rail that gives the same reference twice
-- is an alarm, never an error. The money has moved, and rejecting the record would only make it move
-- again.
CREATE INDEX attempt_rail_reference ON attempt (result ->> '$.rail_reference')
WHERE outcome = 'delivered' AND result IS NOT NULL AND result ->> '$.rail_reference' IS NOT NULL;

-- Where the payments are that are not dispatched. What is in none of these places is.
CREATE VIEW payment_undelivered AS
SELECT CAST(entry.value AS INTEGER) AS message_id, 'ready' AS message_state,
       CAST(ready.attempts ->> entry.key AS INTEGER) AS attempts, ready.due_at,
       NULL AS owner, NULL AS fence, NULL AS claimed_at, NULL AS expires_at,
       NULL AS begun, NULL AS reason
FROM ready, json_each(ready.ids) AS entry WHERE ready.queue = 'payments'
UNION ALL
SELECT CAST(entry.value AS INTEGER), 'leased', CAST(lease.attempts ->> entry.key AS INTEGER), NULL,
       lease.owner, lease.fence, lease.claimed_at, lease.expires_at,
       presumed_begun OR EXISTS (SELECT 1 FROM json_each(lease.begun) AS sent WHERE sent.value = entry.value), NULL
FROM lease, json_each(lease.ids) AS entry WHERE lease.queue = 'payments'
UNION ALL
SELECT message_id, 'held', attempts, NULL, NULL, NULL, NULL, NULL, NULL, reason
FROM held WHERE queue = 'payments'
UNION ALL
SELECT message_id, 'waiting', attempts, due_at, NULL, NULL, NULL, NULL, NULL, NULL
FROM waiting WHERE queue = 'payments'
UNION ALL
SELECT dead.message_id, 'dead', dead.attempt_no, NULL, NULL, NULL, NULL, NULL, NULL,
       CASE WHEN attempt.outcome = 'dead' OR dead.code = 'resolved' THEN dead.code ELSE 'RETRY_CEILING_EXCEEDED' END
FROM dead JOIN attempt ON attempt.message_id = dead.message_id AND attempt.attempt_no = dead.attempt_no
WHERE dead.queue = 'payments';

-- The queue as in the protocol, read only. Times are microseconds. Tokens are left out: they are permissions.
CREATE VIEW payment_outbox_pending AS
SELECT p.outbox_id, p.instruction_id, p.participant_id, p.sequence_id, p.idempotency_key,
       p.rail_type, m.payload -> '$.payload' AS payload, w.attempts AS attempt_count,
       w.due_at AS next_attempt_at, p.created_at, w.owner AS claimed_by,
       NULL AS lease_token,
       w.expires_at AS lease_expires_at, p.tenant_id, p.correlation_id,
       w.message_state = 'held' AS kyc_hold, w.reason AS hold_reason
FROM payment_undelivered AS w
JOIN payment AS p ON p.message_id = w.message_id
JOIN message AS m ON m.id = w.message_id
WHERE w.message_state <> 'dead';

-- The attempts of payments with the protocol's states: from the attempt alone, because attempts never
-- change. What will be tried again has a time for it; what was given up has none. What is in doubt is
-- never given up: on its last try, or without a reference, it is held.
CREATE VIEW payment_outbox_attempts AS
WITH payment_attempt AS (
    SELECT a.*, p.outbox_id, p.instruction_id, p.participant_id, p.sequence_id, p.idempotency_key,
           p.rail_type, p.tenant_id, p.correlation_id,
           CASE WHEN a.outcome = 'delivered' THEN 'DISPATCHED'
                WHEN a.outcome = 'dead' THEN 'FAILED'
                WHEN a.outcome = 'uncertain' AND a.code = 'lease_expired' THEN 'ZOMBIE_REQUEUE'
                WHEN a.outcome = 'uncertain' THEN 'RETRYABLE'
                WHEN a.next_due_at IS NULL THEN 'FAILED'
                WHEN a.outcome = 'expired' THEN 'ZOMBIE_REQUEUE'
                ELSE 'RETRYABLE' END AS state
    FROM payment AS p JOIN attempt AS a ON a.message_id = p.message_id
)
SELECT outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type,
       attempt_no, state, claimed_at, finished_at AS completed_at,
       result ->> '$.rail_reference' AS rail_reference, result ->> '$.rail_code' AS rail_code,
       CASE WHEN state = 'DISPATCHED' THEN NULL
            WHEN state = 'FAILED' AND outcome <> 'dead' THEN 'RETRY_CEILING_EXCEEDED'
            WHEN state = 'ZOMBIE_REQUEUE' THEN state
            ELSE code END AS error_code,
       substr(CASE WHEN state = 'FAILED' AND outcome <> 'dead' AND detail IS NOT NULL
                   THEN coalesce(code || ': ', '') || detail
                   WHEN state = 'FAILED' AND outcome <> 'dead' THEN code
                   ELSE detail END, 1, 500) AS error_message,
       result ->> '$.latency_ms' AS latency_ms, owner AS worker_id, fence, tenant_id,
       correlation_id, next_due_at AS next_attempt_at,
       outcome = 'uncertain' OR coalesce(result ->> '$.may_have_begun', 0) = 1 AS in_doubt
FROM payment_attempt;

-- The supervisor's figures, one row, by the machine's clock. `stuck`: in a lease for more than two
-- minutes.
CREATE VIEW supervisor_outbox_status AS
WITH clock AS (
    SELECT CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER) AS now
),
message_state AS MATERIALIZED (
    SELECT w.*, p.created_at, w.message_state IN ('waiting', 'ready', 'leased') AS is_pending
    FROM payment_undelivered AS w JOIN payment AS p USING (message_id)
),
recent AS MATERIALIZED (
    SELECT state FROM payment_outbox_attempts, clock WHERE completed_at > now - 3600000000
)
SELECT count(*) FILTER (WHERE is_pending) AS pending,
       count(*) FILTER (WHERE message_state = 'ready' AND due_at <= now) AS due,
       count(*) FILTER (WHERE message_state = 'ready' AND due_at > now) AS scheduled,
       count(*) FILTER (WHERE message_state = 'waiting') AS waiting,
       count(*) FILTER (WHERE message_state = 'leased') AS leased,
       count(*) FILTER (WHERE message_state = 'leased' AND expires_at <= now) AS expired,
       count(*) FILTER (WHERE message_state = 'leased' AND claimed_at < now - 120000000) AS stuck,
       count(*) FILTER (WHERE message_state = 'held') AS held,
       count(*) FILTER (WHERE message_state = 'dead') AS failed,
       count(*) FILTER (WHERE message_state = 'dead' AND attempts >= 5) AS dlq,
       -- Those that failed and have left are on record by their keys.
       (SELECT count(*) FROM payment) - count(message_state)
           - (SELECT count(*) FROM former_key WHERE queue = 'payments' AND died = 1) AS dispatched,
       count(*) FILTER (WHERE is_pending AND attempts = 1) AS attempts_1,
       count(*) FILTER (WHERE is_pending AND attempts = 2) AS attempts_2,
       count(*) FILTER (WHERE is_pending AND attempts = 3) AS attempts_3,
       count(*) FILTER (WHERE is_pending AND attempts = 4) AS attempts_4,
       count(*) FILTER (WHERE is_pending AND attempts >= 5) AS attempts_5_plus,
       min(created_at) FILTER (WHERE is_pending) AS oldest_pending_at,
       (now - min(created_at) FILTER (WHERE is_pending)) / 1000000.0 AS oldest_pending_seconds,
       (SELECT count(*) FROM recent WHERE state = 'DISPATCHED') AS dispatched_last_hour,
       (SELECT count(*) FROM recent WHERE state = 'RETRYABLE') AS retryable_last_hour,
       (SELECT count(*) FROM recent WHERE state = 'FAILED') AS failed_last_hour,
       (SELECT count(*) FROM recent WHERE state = 'ZOMBIE_REQUEUE') AS zombie_requeue_last_hour
FROM clock LEFT JOIN message_state;
