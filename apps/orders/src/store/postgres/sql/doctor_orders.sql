-- Checks that the ledger agrees with the messages and that its hooks are set. Whole tables are joined,
-- and slow lookups run only for rows that disagree: there may be millions.
WITH orphans AS MATERIALIZED (
    SELECT m.id FROM consign.message m LEFT JOIN consign.idempo_ledger l ON l.outbox_id = m.id
        WHERE m.queue = 'orders' AND l.outbox_id IS NULL
), odd AS MATERIALIZED (
    SELECT l.outbox_id, l.status, l.request_digest
        FROM consign.idempo_ledger l
        LEFT JOIN consign.dead d ON d.message_id = l.outbox_id
        LEFT JOIN consign.attempt a ON a.message_id = l.outbox_id AND a.outcome = 'delivered'
        WHERE l.outbox_id IS NOT NULL AND d.code IS DISTINCT FROM 'IDEMPOTENCY_CONFLICT'
            AND l.status <> CASE WHEN d.message_id IS NOT NULL THEN 'failed' WHEN a.message_id IS NOT NULL THEN 'succeeded'
                                 ELSE 'accepted' END
), disagreeing AS MATERIALIZED (
    -- A row about another request belongs to another message.
    SELECT o.outbox_id, o.status, consign.state_of(o.outbox_id) AS state
        FROM odd o JOIN consign.message m ON m.id = o.outbox_id AND m.payload->>'request_digest' = o.request_digest
)
SELECT 'order_message_missing' AS code, count(*) || ' accepted order(s) have no message and will never be sent' AS what,
       'check their keys at the broker; then restore consign.message from a backup or, as owner, delete the rows from consign.idempo_ledger to free their keys' AS remedy,
       (array_agg(l.outbox_id ORDER BY l.outbox_id))[: 20] AS ids
    FROM consign.idempo_ledger l
    WHERE l.status = 'accepted' AND l.outbox_id IS NOT NULL AND NOT EXISTS (SELECT FROM consign.message m WHERE m.id = l.outbox_id)
    HAVING count(*) > 0
UNION ALL
SELECT 'order_not_in_ledger', count(*) || ' message(s) of queue orders have no row in the ledger: a worker will mark them dead',
       'hold them with `consign hold`, restore consign.idempo_ledger from a backup, then `consign unhold`; if the orders are not genuine, find out what removed the hook `check` of the queue; the worker does not send them',
       (array_agg(s.id ORDER BY s.id))[: 20]
    FROM orphans s WHERE consign.state_of(s.id) NOT IN ('delivered', 'dead')
    HAVING count(*) > 0
UNION ALL
SELECT 'order_disagrees', count(*) || ' order(s) are ' || o.status || ' in the ledger, but their messages are ' || o.state,
       CASE WHEN o.status = 'succeeded' AND o.state = 'dead'
            THEN 'succeeded is final: check the order at the broker; if it was not executed, as owner disable the trigger succeeded_is_final, set the row from its last attempt and enable the trigger again'
            WHEN o.state IN ('delivered', 'dead')
            THEN 'the message is right: as owner, set status, http_status and response_payload_json of these rows from its last attempt'
            ELSE 'the ledger is right: the worker that claims the message records its result; to prevent a send, use `consign hold`' END,
       (array_agg(o.outbox_id ORDER BY o.outbox_id))[: 20]
    FROM disagreeing o
    GROUP BY o.status, o.state
UNION ALL
SELECT 'order_guard_off', 'the ledger of orders is not updated with its messages: hook ' || wanted.event || ' of queue orders is off',
       'as owner: SELECT consign.set_hook(''orders'', ''' || wanted.event || ''', ''' || wanted.function || '''), then run doctor again',
       '{}'::bigint[]
    FROM (VALUES ('check', 'consign.check_orders'), ('settled', 'consign.end_orders'), ('expired', 'consign.end_orders'),
               ('moved', 'consign.reopen_orders'), ('resolve', 'consign.resolved_order'),
               ('needed', 'consign.needed_orders'), ('departed', 'consign.depart_orders'),
               ('erased', 'consign.erase_orders')) AS wanted (event, function)
    WHERE NOT EXISTS (SELECT FROM consign.queue q WHERE q.name = 'orders' AND q.hooks->>wanted.event = wanted.function)
UNION ALL
SELECT 'order_guard_off', 'succeeded rows of the ledger of orders can be changed: trigger succeeded_is_final is off',
       'as owner: ALTER TABLE consign.idempo_ledger ENABLE TRIGGER succeeded_is_final (create it as in `consign migrate print` if missing)',
       '{}'::bigint[]
    WHERE NOT EXISTS (
        SELECT FROM pg_trigger t
            WHERE t.tgrelid = 'consign.idempo_ledger'::regclass AND t.tgname = 'succeeded_is_final' AND t.tgenabled IN ('O', 'A'))
