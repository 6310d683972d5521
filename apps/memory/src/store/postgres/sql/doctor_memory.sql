-- The logbook's outbox and its audits agree (invariants 1 to 4 of the memory protocol), and the triggers that enforce it are on.
WITH deferral AS MATERIALIZED (
    SELECT DISTINCT a.outbox_id FROM governance.write_audit a WHERE starts_with(a.reason, 'openmemory_write_failed:') AND a.outbox_id IS NOT NULL
),
-- Rows of audits that do not exist. One that was sent or dead may have left, as many as the engine has counted, and below the
-- end of the last range that messages left from.
gone AS MATERIALIZED (
    SELECT a.outbox_id, bool_or(a.reason ~ '^outbox_flush_(success|dedup_hit|dead)')
               AND a.outbox_id < coalesce((SELECT max(r.until) FROM consign.range r WHERE r.is_rest), 0) AS may_have_left
        FROM governance.write_audit a
        WHERE a.outbox_id IS NOT NULL AND NOT EXISTS (SELECT FROM consign.message m WHERE m.id = a.outbox_id AND m.queue = 'memory')
        GROUP BY a.outbox_id
)
SELECT 'memory_row_missing' AS code, count(*) || ' outbox row(s) in audits do not exist: the deferred memories are lost' AS what,
       'restore consign.message from a backup, or ask the callers to store these memories again; `consign reconcile` lists the audits' AS remedy,
       (array_agg(g.outbox_id ORDER BY g.outbox_id))[: 20] AS ids
    FROM gone g WHERE g.may_have_left IS NOT TRUE
    HAVING count(*) > 0
UNION ALL
SELECT 'memory_row_missing', count(*) || ' outbox row(s) in audits are gone, but only ' || l.messages || ' have left the queue',
       'restore consign.message from a backup; compare the audits of sent and dead memories with the archive', '{}'::bigint[]
    FROM gone g, (SELECT coalesce(sum(d.messages), 0) AS messages FROM consign.departed d WHERE d.queue = 'memory') l
    WHERE g.may_have_left
    GROUP BY l.messages HAVING count(*) > l.messages
UNION ALL
SELECT 'memory_deferral_unaudited', count(*) || ' outbox row(s) of requests have no audit of their deferral',
       'find out what enqueued them: the gateway writes both or neither; they are delivered anyway',
       (array_agg(m.id ORDER BY m.id))[: 20]
    FROM consign.message m
    WHERE m.queue = 'memory' AND m.key IS NOT NULL AND m.headers ? 'correlation_id'
        AND NOT EXISTS (SELECT FROM deferral d WHERE d.outbox_id = m.id)
    HAVING count(*) > 0
UNION ALL
SELECT 'memory_audit_hanging', count(*) || ' audit(s) of requests have been pending for more than two hours: the report counts them neither as stored nor as failed',
       '`consign reconcile` ends them', '{}'::bigint[]
    FROM governance.write_audit a WHERE a.status = 'pending' AND a.created_at < consign.clock() - interval '2 hours'
    HAVING count(*) > 0
UNION ALL
SELECT 'memory_evidence_unreadable', count(*) || ' audit(s) have evidence with an unreadable URI',
       'audits never change: find out what bypassed the gateway, and store the evidence again', '{}'::bigint[]
    FROM governance.write_audit a
    WHERE EXISTS (SELECT FROM jsonb_path_query(a.evidence_refs_json, '$.patches[*]') r
                      WHERE coalesce(btrim(r->>'artifact_uri'), '') !~* '^memory:/{2,}patch_blobs/[a-z0-9_-]+/(?!\.{1,2}/)([^/\s?#%]|%[0-9a-f]{2})+/[0-9a-f]{64}/*$')
        OR EXISTS (SELECT FROM jsonb_path_query(a.evidence_refs_json, '$.attachments[*]') r
                       WHERE coalesce(btrim(r->>'artifact_uri'), '') !~* '^memory:/{2,}attachments/(0|[1-9][0-9]{0,17})/[0-9a-f]{64}/*$')
    HAVING count(*) > 0
UNION ALL
SELECT 'memory_outcome_unaudited', count(*) || ' memories were sent or are dead without an audit of it',
       '`consign reconcile` writes it', (array_agg(o.id ORDER BY o.id))[: 20]
    FROM (SELECT m.id FROM consign.message m JOIN consign.attempt a ON a.message_id = m.id AND a.outcome = 'delivered'
              WHERE m.queue = 'memory' AND m.key IS NOT NULL AND NOT EXISTS (
                  SELECT FROM governance.write_audit w WHERE w.outbox_id = m.id
                      AND (starts_with(w.reason, 'outbox_flush_success') OR starts_with(w.reason, 'outbox_flush_dedup_hit')))
          UNION ALL
          SELECT d.message_id FROM consign.dead d
              WHERE d.queue = 'memory' AND NOT EXISTS (
                  SELECT FROM governance.write_audit w WHERE w.outbox_id = d.message_id AND starts_with(w.reason, 'outbox_flush_dead'))) o
    HAVING count(*) > 0
UNION ALL
SELECT 'memory_unfit', count(*) || ' message(s) of the queue memory are not a memory, or not under the key of their space and hash: the same text could be stored twice',
       'hold them with `consign hold`, find out what bypassed consign.enqueue, and enqueue their texts again',
       (array_agg(m.id ORDER BY m.id))[: 20]
    FROM consign.message m
    WHERE m.queue = 'memory' AND NOT EXISTS (SELECT FROM consign.erasure e WHERE e.message_id = m.id) AND (regexp_replace(m.key, '(#[0-9a-f]{64})#([2-9]|[1-9][0-9]{1,8})$', '\1')
            = (m.payload->>'target_space') || '#' || encode(sha256(convert_to(m.payload->>'payload_md', 'UTF8')), 'hex')
        AND m.payload->>'payload_sha' = encode(sha256(convert_to(m.payload->>'payload_md', 'UTF8')), 'hex')) IS NOT TRUE
    HAVING count(*) > 0
UNION ALL
SELECT 'memory_misdirected', count(*) || ' memories wait for ' || w.backend || ', but the worker that claimed them uses another backend',
       'run a worker with the setting in last_error of `consign memory show ID`', (array_agg(w.id ORDER BY w.id))[: 20]
    FROM (SELECT m.id, coalesce(m.headers->>'backend', 'another backend') AS backend
              FROM consign.ready r CROSS JOIN unnest(r.ids) u (id) JOIN consign.message m ON m.id = u.id
              WHERE r.queue = 'memory' AND 'misdirected' = (SELECT a.code FROM consign.attempt a WHERE a.message_id = m.id
                                                               ORDER BY a.attempt_no DESC LIMIT 1)) w
    GROUP BY w.backend
UNION ALL
SELECT 'memory_guard_off', 'the hook `' || wanted.event || '` of queue memory is missing',
       'as owner: apply the lines with consign.set_hook of `consign migrate print` again', '{}'::bigint[]
    FROM unnest(ARRAY['check', 'settled', 'expired', 'moved', 'late', 'needed', 'departed', 'erased', 'keeps']) AS wanted (event)
    WHERE NOT EXISTS (SELECT FROM consign.queue q WHERE q.name = 'memory' AND q.hooks ? wanted.event)
UNION ALL
SELECT 'memory_guard_off', 'the trigger ' || guard.name || ' on ' || guard.place || ' is missing or off',
       'as owner: ALTER TABLE ' || guard.place || ' ENABLE TRIGGER ' || guard.name || ' (create it as in `consign migrate print` if missing), then run doctor again',
       '{}'::bigint[]
    FROM (VALUES ('governance.write_audit', 'audits_stay'), ('governance.write_audit', 'final_is_final'),
               ('governance.write_audit', 'move_consume_cursor')) AS guard (place, name)
    WHERE NOT EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = guard.place::regclass AND t.tgname = guard.name AND t.tgenabled IN ('O', 'A'))
