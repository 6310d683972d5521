-- The role of orders: the order server accepts them, looks them up and works their queue. Operators and auditors read
-- them.

SELECT consign.make_role('consign_order_server');
UPDATE consign.queue SET workers = '{consign_order_server}' WHERE name = 'orders';
GRANT USAGE ON SCHEMA consign TO consign_order_server;
GRANT SELECT ON consign.schema_version TO consign_order_server;
GRANT EXECUTE ON FUNCTION
    consign.accept_orders(text[], text[], text[], jsonb[], jsonb[], interval[], interval[]),
    consign.open_direct_order(text, text, text, jsonb, interval, interval),
    consign.close_direct_order(text, text, text, text, int, text, json),
    consign.take_order_quota(text, bigint, bigint),
    consign.verify_order(text, text)
    TO consign_order_server;
GRANT EXECUTE ON FUNCTION consign.purge_orders(text, text, int, bigint, boolean) TO consign_operator;
GRANT EXECUTE ON FUNCTION consign.order_entry(text, text), consign.count_orders()
    TO consign_order_server, consign_operator, consign_auditor;
GRANT EXECUTE ON FUNCTION consign.order_body(jsonb) TO consign_operator, consign_auditor;
GRANT SELECT ON consign.idempo_ledger, consign.idempo_conflict, consign.order_quota, consign.outbox_orders
    TO consign_auditor, consign_operator;
-- The columns that the two changes of the view may set. The right to update the whole view would include locking all of
-- its tables.
GRANT UPDATE (status, attempts, last_error_code, last_error_msg, locked_by, locked_at, next_run_at, updated_at)
    ON consign.outbox_orders TO consign_operator;
