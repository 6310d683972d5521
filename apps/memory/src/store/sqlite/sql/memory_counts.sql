-- The figures of the reliability report but for patches and evidence that cannot be read, as a document.
-- Walks the queue and all audits once each. ?1 now, ?2 a day ago, ?3 a week ago.
WITH named AS MATERIALIZED (
    SELECT DISTINCT outbox_id FROM write_audit
    WHERE outbox_id IS NOT NULL AND reason GLOB 'openmemory_write_failed:*'
),
outbox AS MATERIALIZED (
    SELECT count(*) FILTER (WHERE status = 'pending') AS pending,
           count(*) FILTER (WHERE status = 'sent') AS sent,
           count(*) FILTER (WHERE status = 'dead') AS dead,
           coalesce(avg(retry_count), 0.0) AS retry_count,
           min(created_at) FILTER (WHERE status = 'pending') AS pending_since,
           count(*) FILTER (WHERE correlation_id IS NOT NULL
                               OR outbox_id IN (SELECT outbox_id FROM named)) AS deferred
    FROM outbox_memory
),
-- Deferred rows that have left, see reconcile_rowless.
departed_rows AS MATERIALIZED (
    SELECT count(*) AS deferred FROM named
    WHERE outbox_id <= (SELECT coalesce(max(cursor), 0) FROM departure WHERE state = 'leaving')
      AND NOT EXISTS (SELECT 1 FROM message WHERE id = named.outbox_id AND queue = 'memory')
      AND EXISTS (SELECT 1 FROM write_audit AS o
                  WHERE o.outbox_id = named.outbox_id
                    AND (o.reason GLOB 'outbox_flush_success*' OR o.reason GLOB 'outbox_flush_dedup_hit*'
                         OR o.reason GLOB 'outbox_flush_dead*'))
),
fact AS (
    SELECT action, status, created_at >= ?2 AS is_of_today, created_at >= ?3 AS is_of_week,
           evidence_refs_json ->> '$.gateway_event.operation' = 'memory_store' AS is_write,
           CASE WHEN reason GLOB 'policy:*' THEN 'policy'
                WHEN reason GLOB 'openmemory_write_failed:*' THEN 'openmemory_write_failed'
                WHEN reason IN ('outbox_flush_success', 'dedup_hit') THEN reason
                ELSE 'other' END AS reason,
           evidence_refs_json ->> '$.gateway_event.policy_mode' AS mode,
           json_array_length(evidence_refs_json, '$.patches') > 0
               OR json_array_length(evidence_refs_json, '$.attachments') > 0
               OR json_array_length(evidence_refs_json, '$.external') > 0 AS has_evidence,
           ' ' || (evidence_refs_json ->> '$.gateway_event.trim.why') || ' ' AS why
    FROM write_audit
),
judged AS (
    SELECT *, coalesce(why GLOB '*[^a-z0-9_]diff[^a-z0-9_]*', 0) AS is_diff,
           coalesce(why GLOB '*[^a-z0-9_]log[^a-z0-9_]*', 0) AS is_log
    FROM fact
),
audit AS MATERIALIZED (
    SELECT json_object('allow', count(*) FILTER (WHERE action = 'allow'),
                       'redirect', count(*) FILTER (WHERE action = 'redirect'),
                       'reject', count(*) FILTER (WHERE action = 'reject')) AS actions,
           count(*) FILTER (WHERE is_of_today) AS of_today,
           json_object('policy', count(*) FILTER (WHERE reason = 'policy'),
                       'openmemory_write_failed',
                       count(*) FILTER (WHERE reason = 'openmemory_write_failed'),
                       'outbox_flush_success', count(*) FILTER (WHERE reason = 'outbox_flush_success'),
                       'dedup_hit', count(*) FILTER (WHERE reason = 'dedup_hit'),
                       'other', count(*) FILTER (WHERE reason = 'other')) AS reasons,
           json_object('allow', count(*) FILTER (WHERE is_write AND action = 'allow'),
                       'redirect', count(*) FILTER (WHERE is_write AND action = 'redirect'),
                       'reject', count(*) FILTER (WHERE is_write AND action = 'reject')) AS writes,
           json_array(count(*) FILTER (WHERE has_evidence), 0) AS evidence,
           json_array(count(*) FILTER (WHERE is_of_week),
                      count(*) FILTER (WHERE is_of_week AND mode = 'strict'),
                      count(*) FILTER (WHERE is_of_week AND mode = 'compat'),
                      count(*) FILTER (WHERE is_of_week AND has_evidence)) AS modes,
           json_array(count(*) FILTER (WHERE is_diff), count(*) FILTER (WHERE is_log),
                      count(*) FILTER (WHERE is_diff OR is_log),
                      count(*) FILTER (WHERE is_of_today AND (is_diff OR is_log))) AS intercepted,
           count(*) FILTER (WHERE status = 'pending') AS pending
    FROM judged
)
SELECT json_object(
    'outbox', json_object('pending', o.pending, 'sent', o.sent, 'dead', o.dead),
    'departed', json_object('sent', coalesce((SELECT messages - dead FROM departed WHERE queue = 'memory'), 0),
                            'dead', coalesce((SELECT dead FROM departed WHERE queue = 'memory'), 0)),
    'average_retry_count', o.retry_count,
    'pending_by_backend', (SELECT coalesce(json_group_object(backend, count), '{}') FROM (
                               SELECT backend, count(*) AS count FROM outbox_memory
                               WHERE status = 'pending' AND backend IS NOT NULL GROUP BY backend)),
    'oldest_pending_age_seconds', (?1 - o.pending_since) / 1000000.0,
    'audits', json(a.actions),
    'audits_24h', a.of_today,
    'reasons', json(a.reasons),
    'writes', json(a.writes),
    'patch_blobs', json_array(0, 0),
    'attachments', (SELECT json_array(count(*), count(*) FILTER (
                        WHERE length(sha256) = 64 AND sha256 NOT GLOB '*[^0-9a-f]*')) FROM attachments),
    'evidence', json(a.evidence),
    'modes_7d', json(a.modes),
    'intercepted', json(a.intercepted),
    'pending_audits', a.pending,
    'deferred', json_array((SELECT count(*) FROM named), o.deferred + d.deferred))
FROM outbox AS o, departed_rows AS d, audit AS a
