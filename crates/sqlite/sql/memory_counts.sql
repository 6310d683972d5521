-- The figures of the reliability report but for evidence that cannot be read, as a document. Walks
-- the lane and all audits once each. ?1 now, ?2 a day ago, ?3 a week ago.
WITH outbox AS MATERIALIZED (
    SELECT outbox_id, status, retry_count, created_at, correlation_id FROM outbox_memory
),
audit AS MATERIALIZED (
    SELECT action, status, outbox_id, created_at >= ?2 AS is_of_today, created_at >= ?3 AS is_of_week,
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
cut AS MATERIALIZED (
    SELECT is_of_today, coalesce(why GLOB '*[^a-z0-9_]diff[^a-z0-9_]*', 0) AS is_diff,
           coalesce(why GLOB '*[^a-z0-9_]log[^a-z0-9_]*', 0) AS is_log
    FROM audit
),
named AS MATERIALIZED (
    SELECT DISTINCT outbox_id FROM audit
    WHERE reason = 'openmemory_write_failed' AND outbox_id IS NOT NULL
)
SELECT json_object(
    'outbox', (SELECT json_object('pending', count(*) FILTER (WHERE status = 'pending'),
                                  'sent', count(*) FILTER (WHERE status = 'sent'),
                                  'dead', count(*) FILTER (WHERE status = 'dead')) FROM outbox),
    'average_retry_count', (SELECT coalesce(avg(retry_count), 0.0) FROM outbox),
    'oldest_pending_age_seconds', (SELECT (?1 - min(created_at)) / 1000000.0 FROM outbox
                                   WHERE status = 'pending'),
    'audits', (SELECT json_object('allow', count(*) FILTER (WHERE action = 'allow'),
                                  'redirect', count(*) FILTER (WHERE action = 'redirect'),
                                  'reject', count(*) FILTER (WHERE action = 'reject')) FROM audit),
    'audits_24h', (SELECT count(*) FROM audit WHERE is_of_today),
    'reasons', (SELECT json_object(
                    'policy', count(*) FILTER (WHERE reason = 'policy'),
                    'openmemory_write_failed',
                    count(*) FILTER (WHERE reason = 'openmemory_write_failed'),
                    'outbox_flush_success', count(*) FILTER (WHERE reason = 'outbox_flush_success'),
                    'dedup_hit', count(*) FILTER (WHERE reason = 'dedup_hit'),
                    'other', count(*) FILTER (WHERE reason = 'other')) FROM audit),
    'writes', (SELECT json_object('allow', count(*) FILTER (WHERE action = 'allow'),
                                  'redirect', count(*) FILTER (WHERE action = 'redirect'),
                                  'reject', count(*) FILTER (WHERE action = 'reject'))
               FROM audit WHERE is_write),
    'attachments', (SELECT json_array(count(*), count(*) FILTER (
                        WHERE length(sha256) = 64 AND sha256 NOT GLOB '*[^0-9a-f]*')) FROM attachments),
    'evidence', (SELECT json_array(count(*), 0) FROM audit WHERE has_evidence),
    'modes_7d', (SELECT json_array(count(*), count(*) FILTER (WHERE mode = 'strict'),
                                   count(*) FILTER (WHERE mode = 'compat'),
                                   count(*) FILTER (WHERE has_evidence)) FROM audit WHERE is_of_week),
    'intercepted', (SELECT json_array(count(*) FILTER (WHERE is_diff), count(*) FILTER (WHERE is_log),
                                      count(*) FILTER (WHERE is_diff OR is_log),
                                      count(*) FILTER (WHERE is_of_today AND (is_diff OR is_log)))
                    FROM cut),
    'pending_audits', (SELECT count(*) FROM audit WHERE status = 'pending'),
    'deferred', json_array(
        (SELECT count(*) FROM named),
        (SELECT count(*) FROM outbox
         WHERE correlation_id IS NOT NULL OR outbox_id IN (SELECT outbox_id FROM named))))
