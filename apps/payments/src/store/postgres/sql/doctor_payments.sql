-- Checks that payments agree with their messages, sequences have no gaps, and a payment is dispatched once.
SELECT 'payment_without_message' AS code, count(*) || ' payment(s) have no message in the queue payments and are never dispatched' AS what,
       'restore consign.message from a backup' AS remedy, (array_agg(p.message_id ORDER BY p.message_id))[: 20] AS ids
    FROM consign.payment p
    WHERE NOT EXISTS (SELECT FROM consign.message m WHERE m.id = p.message_id AND m.queue = 'payments' AND m.key = p.outbox_id::text)
        -- Messages leave by whole ranges.
        AND NOT EXISTS (SELECT FROM consign.range r WHERE r.is_rest AND p.message_id >= r.first AND p.message_id < r.until)
    HAVING count(*) > 0
UNION ALL
SELECT 'message_without_payment', count(*) || ' message(s) of the queue payments have no row in consign.payment: workers in SQL cannot claim them',
       'restore consign.payment from a backup; find out what bypassed the hook `check`',
       (array_agg(m.id ORDER BY m.id))[: 20]
    FROM consign.message m
    WHERE m.queue = 'payments' AND NOT EXISTS (SELECT FROM consign.payment p WHERE p.message_id = m.id)
    HAVING count(*) > 0
UNION ALL
SELECT 'payment_sequence_gap', count(*) || ' participant(s) have gaps in their sequence, or no row in consign.payment_participant: '
           || string_agg(g.participant_id, ', ' ORDER BY g.participant_id),
       'restore consign.payment from a backup; as owner, insert a missing participant into consign.payment_participant',
       (array_agg(g.last_message ORDER BY g.last_message))[: 20]
    FROM (SELECT coalesce(s.participant_id, p.participant_id) AS participant_id, coalesce(max(p.message_id), 0) AS last_message
              FROM consign.payment_participant s
              FULL JOIN consign.payment p ON p.participant_id = s.participant_id
              GROUP BY coalesce(s.participant_id, p.participant_id), s.dense_from
              HAVING s.dense_from IS NULL OR count(*) FILTER (WHERE p.sequence_id >= s.dense_from)
                  <> greatest(coalesce(max(p.sequence_id), 0) + 1 - s.dense_from, 0)) g
    HAVING count(*) > 0
UNION ALL
SELECT 'payment_dispatched_twice', count(*) || ' payment(s) were dispatched more than once',
       'check at the rail whether it was paid twice; nothing can be repaired here; report this as a defect',
       (array_agg(t.message_id ORDER BY t.message_id))[: 20]
    FROM (SELECT a.message_id FROM consign.attempt a JOIN consign.payment p ON p.message_id = a.message_id
              WHERE a.outcome = 'delivered' GROUP BY a.message_id HAVING count(*) > 1) t
    HAVING count(*) > 0
UNION ALL
SELECT 'rail_reference_reused', count(*) || ' payment(s) share a rail reference with another payment of their participant',
       'compare these payments with the rail''s records: one of them may not have been paid; `consign payments reconcile`',
       (array_agg(p.message_id ORDER BY p.message_id))[: 20]
    FROM consign.payment_outbox_reused_references r JOIN consign.payment p ON p.outbox_id = ANY (r.outbox_ids)
    HAVING count(*) > 0
UNION ALL
SELECT 'payment_lease_expired', count(*) || ' payment(s) are in leases that expired over a minute ago',
       'start a worker, or run `consign payments repair`: no claim has run since', (array_agg(u.id ORDER BY u.id))[: 20]
    FROM consign.lease l, unnest(l.ids) AS u (id) WHERE l.queue = 'payments' AND l.expires_at <= consign.clock() - interval '1 minute'
    HAVING count(*) > 0
UNION ALL
SELECT 'payment_late_unconfirmed', count(*) || ' payment(s) have a late success that no recorded attempt confirms',
       'look them up at the rail by reference: `consign payments reconcile`; hold and resolve those that it has',
       (array_agg(DISTINCT p.message_id ORDER BY p.message_id))[: 20]
    FROM consign.payment_outbox_reconcile r JOIN consign.payment p ON p.outbox_id = r.outbox_id
    WHERE r.kind = 'LATE_RESULT' AND r.verdict IN ('FAILED', 'HELD', 'PENDING', 'PAID_TWICE')
    HAVING count(*) > 0
UNION ALL
SELECT 'payment_failed_in_doubt', count(*) || ' payment(s) have failed, though the rail may have them',
       'look them up at the rail by reference: `consign payments reconcile`; a requeue queries the rail before it sends',
       (array_agg(p.message_id ORDER BY p.message_id))[: 20]
    FROM consign.payment_outbox_reconcile r JOIN consign.payment p ON p.outbox_id = r.outbox_id
    WHERE r.kind = 'FAILED_IN_DOUBT'
    HAVING count(*) > 0
UNION ALL
SELECT 'payment_guard_off', 'the trigger ' || guard.name || ' on consign.' || guard.table_name || ' is missing or off',
       'as owner: ALTER TABLE consign.' || guard.table_name || ' ENABLE TRIGGER ' || guard.name, '{}'::bigint[]
    FROM (VALUES ('payment', 'append_only'), ('payment', 'keys_are_kept'), ('payment_participant', 'append_only'),
                 ('payment_erased', 'append_only')) AS guard (table_name, name)
    WHERE NOT EXISTS (
        SELECT FROM pg_trigger t
            WHERE t.tgrelid = ('consign.' || guard.table_name)::regclass AND t.tgname = guard.name AND t.tgenabled IN ('O', 'A'))
UNION ALL
SELECT 'payment_guard_off', 'the hook ' || guard.event || ' of queue payments is missing: ' || guard.function || ' does not run',
       'as owner: SELECT consign.set_hook(''payments'', ''' || guard.event || ''', ''' || guard.function || ''')', '{}'::bigint[]
    FROM (VALUES ('policy', 'consign.payments_policy_of'), ('check', 'consign.check_payment_messages'),
                 ('settled', 'consign.payments_settled'), ('resolve', 'consign.resolved_payment'),
                 ('needed', 'consign.needed_payments'), ('forgotten', 'consign.forget_payments'),
                 ('erased', 'consign.erase_payments'), ('keeps', 'consign.kept_of_payments')) AS guard (event, function)
    WHERE NOT EXISTS (SELECT FROM consign.queue q WHERE q.name = 'payments' AND q.hooks->>guard.event = guard.function)
