-- Payments and messages belong together, participants' numbers have no gaps, a payment is dispatched once.
SELECT 'payment_without_message' AS code, count(*) || ' payment(s) have no message in the lane payments: they would never be dispatched' AS what,
       'restore consign.message from a backup' AS remedy, (array_agg(p.message_id ORDER BY p.message_id))[: 20] AS ids
    FROM consign.payment p
    WHERE NOT EXISTS (SELECT FROM consign.message m WHERE m.id = p.message_id AND m.lane = 'payments' AND m.key = p.outbox_id::text)
    HAVING count(*) > 0
UNION ALL
SELECT 'message_without_payment', count(*) || ' message(s) of the lane payments have no payment: no worker in SQL would be given them',
       'restore consign.payment from a backup; find out who could bypass the trigger payments_only',
       (array_agg(m.id ORDER BY m.id))[: 20]
    FROM consign.message m
    WHERE m.lane = 'payments' AND NOT EXISTS (SELECT FROM consign.payment p WHERE p.message_id = m.id)
    HAVING count(*) > 0
UNION ALL
SELECT 'payment_sequence_gap', count(*) || ' participant(s) have gaps in their numbers, or a next number that does not follow: '
           || string_agg(g.participant_id, ', ' ORDER BY g.participant_id),
       'restore consign.payment from a backup; as owner, set next_sequence_id one above the last number',
       (array_agg(g.last_message ORDER BY g.last_message))[: 20]
    FROM (SELECT coalesce(s.participant_id, p.participant_id) AS participant_id, coalesce(max(p.message_id), 0) AS last_message
              FROM consign.participant_outbox_sequences s
              FULL JOIN consign.payment p ON p.participant_id = s.participant_id
              GROUP BY coalesce(s.participant_id, p.participant_id), s.next_sequence_id, s.dense_from
              HAVING s.next_sequence_id IS NULL OR s.next_sequence_id <> coalesce(max(p.sequence_id), 0) + 1
                  OR count(*) FILTER (WHERE p.sequence_id >= s.dense_from) <> s.next_sequence_id - s.dense_from) g
    HAVING count(*) > 0
UNION ALL
SELECT 'payment_dispatched_twice', count(*) || ' payment(s) were dispatched more than once',
       'ask the rail whether it paid twice; nothing to mend here; report this as a defect',
       (array_agg(t.message_id ORDER BY t.message_id))[: 20]
    FROM (SELECT a.message_id FROM consign.attempt a JOIN consign.payment p ON p.message_id = a.message_id
              WHERE a.outcome = 'delivered' GROUP BY a.message_id HAVING count(*) > 1) t
    HAVING count(*) > 0
UNION ALL
SELECT 'rail_reference_reused', count(*) || ' reference(s) were given to several payments of a participant by the same rail',
       'compare these payments with the books of the rail: one of them may not have been paid; `consign payments reconcile`',
       (array_agg(p.message_id ORDER BY p.message_id))[: 20]
    FROM consign.payment_outbox_reused_references r JOIN consign.payment p ON p.outbox_id = ANY (r.outbox_ids)
    HAVING count(*) > 0
UNION ALL
SELECT 'payment_guard_off', 'the trigger ' || guard.name || ' on consign.' || guard.place || ' is missing or off',
       'as owner: ALTER TABLE consign.' || guard.place || ' ENABLE TRIGGER ' || guard.name, '{}'::bigint[]
    FROM (VALUES ('message', 'payments_only'), ('lane', 'payments_probe'), ('payment', 'append_only'),
                 ('participant_outbox_sequences', 'append_only')) AS guard (place, name)
    WHERE NOT EXISTS (
        SELECT FROM pg_trigger t
            WHERE t.tgrelid = ('consign.' || guard.place)::regclass AND t.tgname = guard.name AND t.tgenabled IN ('O', 'A'))
