-- How orders leave and are erased: an order stays while its key can be repeated; its row of the ledger and its key leave with its message.

-- The messages of a range whose orders can still be repeated.
CREATE FUNCTION consign.needed_orders(p_queue text, p_first bigint, p_until bigint, p_at timestamptz) RETURNS SETOF bigint
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    RETURN QUERY SELECT l.outbox_id FROM consign.idempo_ledger l
        WHERE l.outbox_id >= p_first AND l.outbox_id < p_until AND l.expires_at > p_at;
END $$;
REVOKE ALL ON FUNCTION consign.needed_orders(text, bigint, bigint, timestamptz) FROM PUBLIC;
SELECT consign.set_hook('orders', 'needed', 'consign.needed_orders');

-- Forgets up to p_limit orders whose messages have left. A row whose time is not over lost its message in another way.
CREATE FUNCTION consign.depart_orders(p_queue text, p_first bigint, p_until bigint, p_limit int) RETURNS bigint
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_gone record;
BEGIN
    SELECT coalesce(array_agg(o.client ORDER BY o.client, o.key), '{}') AS clients,
           coalesce(array_agg(o.key ORDER BY o.client, o.key), '{}') AS keys
        INTO v_gone
        FROM (SELECT l.client, l.idempotency_key AS key FROM consign.idempo_ledger l
                  WHERE l.outbox_id >= p_first AND l.outbox_id < p_until
                      AND NOT EXISTS (SELECT FROM consign.message m WHERE m.id = l.outbox_id AND m.id >= p_first AND m.id < p_until)
                      AND l.expires_at <= consign.clock()
                  ORDER BY l.outbox_id LIMIT p_limit FOR UPDATE) o;
    PERFORM consign.forget_orders(v_gone.clients, v_gone.keys);
    RETURN cardinality(v_gone.keys);
END $$;
REVOKE ALL ON FUNCTION consign.depart_orders(text, bigint, bigint, int) FROM PUBLIC;
SELECT consign.set_hook('orders', 'departed', 'consign.depart_orders');

-- Erases the responses of orders: what a repeated request gets from then on. Their codes stay, like those of attempts.
CREATE FUNCTION consign.erase_orders(p_queue text, p_ids bigint[], p_at timestamptz) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
    AS $$
BEGIN
    UPDATE consign.idempo_ledger l SET response_payload_json = json_strip_nulls(json_build_object(
            'status', CASE l.status WHEN 'succeeded' THEN 'ok' ELSE 'error' END,
            'error', substring(l.response_payload_json->>'reason_code' FROM '^[A-Z_]{1,64}$'),
            'reason_code', substring(l.response_payload_json->>'reason_code' FROM '^[A-Z_]{1,64}$'),
            'message', 'the result of this order was erased', 'idempotency_key', l.idempotency_key, 'erased', true))
        WHERE l.outbox_id = ANY (p_ids) AND l.response_payload_json IS NOT NULL;
END $$;
REVOKE ALL ON FUNCTION consign.erase_orders(text, bigint[], timestamptz) FROM PUBLIC;
SELECT consign.set_hook('orders', 'erased', 'consign.erase_orders');
