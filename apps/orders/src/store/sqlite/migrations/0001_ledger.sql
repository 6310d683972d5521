-- Orders: the ledger of idempotency keys, which follows the messages of the queue `orders`: the app's hook runs the
-- statements `ledger_end_*` and `ledger_reopen` in the transaction that changes a message.

-- One row per client and key. `response_payload_json` is text as it was given: its numbers are
-- never parsed. `requeued_at` is the last requeue; the row's times to live count from there. `give_up_at` and `direct_order` are for orders sent within
-- the request, which have no message: from when they count as failed, and the order for the response
-- then.
CREATE TABLE idempo_ledger (
    client                TEXT NOT NULL,
    idempotency_key       TEXT NOT NULL,
    request_digest        TEXT NOT NULL,
    result_digest         TEXT,
    status                TEXT NOT NULL CHECK (status IN ('accepted', 'succeeded', 'failed')),
    http_status           INTEGER NOT NULL CHECK (http_status BETWEEN 100 AND 599),
    outbox_id             INTEGER,
    first_seen_at         INTEGER NOT NULL,
    last_seen_at          INTEGER NOT NULL,
    expires_at            INTEGER NOT NULL,
    order_expires_at      INTEGER,
    requeued_at           INTEGER,
    give_up_at            INTEGER,
    direct_order          TEXT CHECK (json_valid(direct_order)),
    response_payload_json TEXT CHECK (json_valid(response_payload_json)),
    PRIMARY KEY (client, idempotency_key),
    CHECK ((status = 'accepted') = (response_payload_json IS NULL))
) STRICT;
CREATE UNIQUE INDEX idempo_ledger_outbox ON idempo_ledger (outbox_id) WHERE outbox_id IS NOT NULL;
CREATE INDEX idempo_ledger_expires ON idempo_ledger (expires_at);
CREATE INDEX idempo_ledger_seen ON idempo_ledger (first_seen_at);
CREATE INDEX idempo_ledger_status ON idempo_ledger (status, first_seen_at);
CREATE INDEX idempo_ledger_open ON idempo_ledger (give_up_at)
WHERE give_up_at IS NOT NULL AND status = 'accepted';

-- How often a key came with another body. Beside the ledger, whose row a conflict leaves alone.
CREATE TABLE idempo_conflict (
    client          TEXT NOT NULL,
    idempotency_key TEXT NOT NULL,
    conflicts       INTEGER NOT NULL CHECK (conflicts > 0),
    PRIMARY KEY (client, idempotency_key)
) STRICT, WITHOUT ROWID;

-- How many calls a client has made on a day (UTC, `2026-11-16`).
CREATE TABLE order_quota (
    client TEXT NOT NULL,
    day    TEXT NOT NULL,
    used   INTEGER NOT NULL CHECK (used >= 0),
    PRIMARY KEY (client, day)
) STRICT, WITHOUT ROWID;

-- `succeeded` is final, for every writer; only an erasure of its message changes the response. REPLACE would delete the row without firing a trigger, so it
-- is rejected.
CREATE TRIGGER idempo_ledger_final BEFORE UPDATE ON idempo_ledger
WHEN OLD.status = 'succeeded' AND (
    NEW.status IS NOT OLD.status OR NEW.http_status IS NOT OLD.http_status
    OR NEW.request_digest IS NOT OLD.request_digest
    OR NEW.result_digest IS NOT OLD.result_digest
    OR NEW.response_payload_json IS NOT OLD.response_payload_json
       AND NOT (NEW.response_payload_json ->> '$.erased' IS 1
                AND EXISTS (SELECT 1 FROM erasure WHERE message_id = OLD.outbox_id))
    OR NEW.outbox_id IS NOT OLD.outbox_id)
BEGIN SELECT raise(ABORT, 'idempo_ledger: succeeded is final'); END;
CREATE TRIGGER idempo_ledger_replace BEFORE INSERT ON idempo_ledger
WHEN EXISTS (SELECT 1 FROM idempo_ledger
             WHERE client = NEW.client AND idempotency_key = NEW.idempotency_key)
     OR EXISTS (SELECT 1 FROM idempo_ledger WHERE outbox_id = NEW.outbox_id)
BEGIN SELECT raise(ABORT, 'idempo_ledger: this key or message is taken'); END;

-- How an order ended, by the result of an attempt; attempts without an end are left out.
CREATE VIEW order_ended AS
SELECT message_id, attempt_no, outcome,
       result ->> '$.http_status' AS http_status,
       result ->> '$.result_digest' AS result_digest,
       result ->> '$.exec_result' AS exec_result
FROM attempt
WHERE CASE WHEN json_valid(result)
           THEN json_type(result, '$.http_status') = 'integer'
                AND result ->> '$.http_status' BETWEEN 100 AND 599
                AND json_type(result, '$.result_digest') = 'text' AND json_type(result, '$.exec_result') = 'text'
                AND json_valid(result ->> '$.exec_result')
      END;

-- What the ledger needs of an order's message.
CREATE VIEW order_message AS
SELECT id, created_at,
       substr(key, 1, instr(key, '/') - 1) AS client,
       substr(key, instr(key, '/') + 1) AS idempotency_key,
       payload ->> '$.request_digest' AS request_digest,
       coalesce(payload ->> '$.body', payload) AS body,
       payload -> '$.order' AS facts,
       CASE WHEN payload ->> '$.order.qty' GLOB '[0-9]*' AND json_valid(payload ->> '$.order.qty')
            THEN payload ->> '$.order.qty' END AS qty_sent,
       CASE WHEN payload ->> '$.order.price' GLOB '[0-9]*' AND json_valid(payload ->> '$.order.price')
            THEN payload ->> '$.order.price' END AS price_sent,
       CASE json_type(payload, '$.order.warnings') WHEN 'array' THEN payload -> '$.order.warnings' ELSE '[]' END AS warnings
FROM message WHERE queue = 'orders' AND json_valid(payload);

-- Dead orders that may have been executed: the last attempt that reached the broker is uncertain.
-- The sink and operators report `dead` with an end of its own only if that is certain. A `dead` without an
-- end of the order leaves the doubt.
CREATE VIEW order_dead_in_doubt AS
SELECT d.message_id
FROM dead AS d
WHERE d.queue = 'orders'
  AND NOT (d.code = 'resolved' AND (SELECT outcome FROM attempt
                                    WHERE message_id = d.message_id AND attempt_no = d.attempt_no) = 'dead')
  AND NOT EXISTS (SELECT 1 FROM order_ended
                  WHERE message_id = d.message_id AND attempt_no = d.attempt_no
                    AND outcome = 'dead')
  AND (SELECT outcome FROM attempt
       WHERE message_id = d.message_id AND outcome <> 'expired'
         AND NOT (attempt_no = d.attempt_no AND outcome = 'dead')
       ORDER BY attempt_no DESC LIMIT 1) = 'uncertain';

-- The work queue as in the protocol, read only. Times are microseconds; what is due is seen
-- by the machine's clock. `order_request_json` is the request as it came. `attempts` are the tries that
-- failed; those and errors from before a requeue do not count.
CREATE VIEW outbox_orders AS
WITH place (id, name, tries, due_at, owner, locked_at, moved_at) AS (
    SELECT CAST(entry.value AS INTEGER), 'ready', ready.tries ->> entry.key, ready.due_at, NULL, NULL, 0
    FROM ready, json_each(ready.ids) AS entry WHERE ready.queue = 'orders'
    UNION ALL
    SELECT CAST(entry.value AS INTEGER), 'leased', lease.tries ->> entry.key, NULL, lease.owner,
           max(lease.claimed_at, lease.expires_at - 1000 * coalesce(
               (SELECT policy ->> '$.lease_ttl_ms' FROM queue WHERE name = 'orders'), 15000)),
           lease.claimed_at
    FROM lease, json_each(lease.ids) AS entry WHERE lease.queue = 'orders'
    UNION ALL
    SELECT message_id, 'held', tries, NULL, NULL, NULL, at FROM held WHERE queue = 'orders'
    UNION ALL
    SELECT message_id, 'waiting', tries, due_at, NULL, NULL, 0 FROM waiting WHERE queue = 'orders'
    UNION ALL
    SELECT message_id, 'dead', NULL, NULL, NULL, NULL, at FROM dead WHERE queue = 'orders'
),
known AS (
    SELECT m.*, p.name, p.tries, p.due_at, p.owner, p.locked_at, p.moved_at,
           coalesce((SELECT max(at) FROM audit WHERE message_id = m.id AND action = 'requeue'), 0) AS since
    FROM order_message AS m LEFT JOIN place AS p ON p.id = m.id
)
SELECT k.id, k.created_at,
       max(k.created_at, coalesce(k.moved_at, 0), coalesce(k.locked_at, 0),
           coalesce(a.finished_at, 0), k.since) AS updated_at,
       k.client, k.idempotency_key, k.body AS order_request_json,
       -- An erased message has none.
       coalesce(k.request_digest, (SELECT request_digest FROM idempo_ledger WHERE outbox_id = k.id)) AS request_digest,
       CASE k.name
           WHEN 'leased' THEN 'sending'
           WHEN 'held' THEN 'failed'
           WHEN 'dead' THEN 'aborted'
           WHEN 'waiting' THEN 'pending'
           WHEN 'ready' THEN
               CASE WHEN k.tries > 0
                         AND k.due_at > (julianday('now') - 2440587.5) * 86400000000
                    THEN 'failed' ELSE 'pending' END
           ELSE 'succeeded'
       END AS status,
       coalesce(k.tries, (SELECT count(*) FROM attempt
                          WHERE message_id = k.id AND finished_at > k.since
                            AND outcome <> 'delivered' AND code IS NOT 'resolved')) AS attempts,
       CASE WHEN a.outcome <> 'delivered' THEN a.code END AS last_error_code,
       CASE WHEN a.outcome <> 'delivered' THEN substr(a.detail, 1, 512) END AS last_error_msg,
       k.owner AS locked_by, k.locked_at,
       (SELECT order_expires_at FROM idempo_ledger WHERE outbox_id = k.id) AS expires_at,
       k.due_at AS next_run_at
FROM known AS k
LEFT JOIN attempt AS a
    ON a.message_id = k.id AND a.finished_at > k.since
   AND a.attempt_no = (SELECT max(attempt_no) FROM attempt WHERE message_id = k.id);
