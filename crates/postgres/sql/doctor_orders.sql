-- The ledger of orders and their messages agree, and the triggers that see to it are switched on.
SELECT 'order_message_missing' AS code, count(*) || ' accepted order(s) have no message: they would never be sent' AS what,
       'ask the broker by their keys; then restore consign.message from a backup or, as owner, delete the rows from consign.idempo_ledger so that their keys are free again' AS remedy,
       (array_agg(l.outbox_id ORDER BY l.outbox_id))[: 20] AS ids
    FROM consign.idempo_ledger l
    WHERE l.status = 'accepted' AND l.outbox_id IS NOT NULL AND NOT EXISTS (SELECT FROM consign.message m WHERE m.id = l.outbox_id)
    HAVING count(*) > 0
UNION ALL
SELECT 'order_not_in_ledger', count(*) || ' message(s) of lane orders belong to no row of the ledger: a worker would bury them',
       'hold them with `consign hold`, restore consign.idempo_ledger from a backup, then `consign unhold`',
       (array_agg(m.id ORDER BY m.id))[: 20]
    FROM consign.message m
    WHERE m.lane = 'orders' AND consign.state_of(m.id) NOT IN ('delivered', 'dead')
        AND NOT EXISTS (SELECT FROM consign.idempo_ledger l
                            WHERE l.client = split_part(m.key, '/', 1) AND l.idempotency_key = substr(m.key, strpos(m.key, '/') + 1))
    HAVING count(*) > 0
UNION ALL
SELECT 'order_disagrees', count(*) || ' order(s) are ' || o.status || ' in the ledger, but their messages are ' || o.state,
       CASE WHEN o.state IN ('delivered', 'dead')
            THEN 'the message is right: as owner, set status, http_status and response_payload_json of these rows by its last attempt'
            ELSE 'the ledger is right, and a worker syncs the message when its turn comes; if it is not to be sent, `consign hold`' END,
       (array_agg(o.outbox_id ORDER BY o.outbox_id))[: 20]
    FROM (SELECT l.outbox_id, l.status, consign.state_of(l.outbox_id) AS state FROM consign.idempo_ledger l WHERE l.outbox_id IS NOT NULL) o
    WHERE o.status <> CASE o.state WHEN 'delivered' THEN 'succeeded' WHEN 'dead' THEN 'failed' ELSE 'accepted' END AND o.state IS NOT NULL
    GROUP BY o.status, o.state
UNION ALL
SELECT 'order_follow_off', 'the ledger of orders does not follow their messages: trigger ' || guarded.trigger || ' is off',
       'as owner: ALTER TABLE consign.' || guarded.name || ' ENABLE TRIGGER ' || guarded.trigger || ' (create it as in `consign migrate print` if missing), then run doctor again',
       '{}'::bigint[]
    FROM (VALUES ('attempt', 'follow_delivered'), ('dead', 'follow_dead'), ('dead', 'follow_requeued')) AS guarded (name, trigger)
    WHERE NOT EXISTS (
        SELECT FROM pg_trigger t
            WHERE t.tgrelid = ('consign.' || guarded.name)::regclass AND t.tgname = guarded.trigger AND t.tgenabled IN ('O', 'A'))
