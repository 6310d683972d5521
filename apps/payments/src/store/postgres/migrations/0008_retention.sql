-- How payments leave and are erased: the message goes with its attempts, the row of consign.payment stays as the record of the payment's key.
-- A repeated key is compared with the digest that consign.message_key has; when that key is forgotten, the row goes too.

-- The messages of a range that still have to be compared with the books of the rail: a late success that no attempt confirms,
-- a failure in doubt, a dispatch without a reference.
CREATE FUNCTION consign.needed_payments(p_queue text, p_first bigint, p_until bigint, p_at timestamptz) RETURNS SETOF bigint
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on SET jit = off
    AS $$
BEGIN
    RETURN QUERY
        SELECT l.message_id FROM consign.late l
            WHERE l.message_id >= p_first AND l.message_id < p_until AND l.outcome = 'delivered' AND NOT EXISTS (
                SELECT FROM consign.attempt a
                    WHERE a.message_id = l.message_id AND a.message_id >= p_first AND a.message_id < p_until
                        AND (a.outcome = 'delivered' AND a.result->>'rail_reference' = l.result->>'rail_reference'
                             OR a.code = 'resolved' AND a.finished_at >= l.at))
        UNION ALL
        SELECT d.message_id FROM consign.dead d
            JOIN LATERAL (SELECT a.outcome FROM consign.attempt a WHERE a.message_id = d.message_id
                              AND (a.outcome <> 'expired' OR a.result @> '{"may_have_begun": true}')
                              ORDER BY a.attempt_no DESC LIMIT 1) a ON a.outcome IN ('uncertain', 'expired')
            WHERE d.message_id >= p_first AND d.message_id < p_until AND d.queue = p_queue
        UNION ALL
        SELECT a.message_id FROM consign.attempt a JOIN consign.payment p ON p.message_id = a.message_id
            WHERE a.message_id >= p_first AND a.message_id < p_until AND a.outcome = 'delivered'
                AND coalesce(a.result->>'rail_reference' !~ '\S', true) AND a.code IS DISTINCT FROM 'resolved';
END $$;
REVOKE ALL ON FUNCTION consign.needed_payments(text, bigint, bigint, timestamptz) FROM PUBLIC;
SELECT consign.set_hook('payments', 'needed', 'consign.needed_payments');

-- Removes payments whose keys were forgotten. Their numbers stay used: those from `dense_from` on have no gaps.
CREATE FUNCTION consign.forget_payments(p_queue text, p_ids bigint[]) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
    AS $$
BEGIN
    -- Participants in one order everywhere, or this and a producer could wait for each other.
    PERFORM FROM consign.payment_participant q
        WHERE q.participant_id IN (SELECT p.participant_id FROM consign.payment p WHERE p.message_id = ANY (p_ids))
        ORDER BY q.participant_id FOR UPDATE;
    UPDATE consign.payment_participant q SET dense_from = g.last + 1
        FROM (SELECT p.participant_id, max(p.sequence_id) AS last FROM consign.payment p
                  WHERE p.message_id = ANY (p_ids) GROUP BY p.participant_id) g
        WHERE q.participant_id = g.participant_id AND q.dense_from <= g.last;
    DELETE FROM consign.payment_erased e WHERE e.message_id = ANY (p_ids);
    DELETE FROM consign.payment p WHERE p.message_id = ANY (p_ids);
END $$;
REVOKE ALL ON FUNCTION consign.forget_payments(text, bigint[]) FROM PUBLIC;
SELECT consign.set_hook('payments', 'forgotten', 'consign.forget_payments');

-- What stays of a payment that is erased, for the comparison with the books of the rail: amount and currency here, the answers
-- of the rail with its attempts.
CREATE FUNCTION consign.erase_payments(p_queue text, p_ids bigint[], p_at timestamptz) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
    AS $$
BEGIN
    INSERT INTO consign.payment_erased (message_id, amount_minor, currency_code)
        SELECT m.id, CASE jsonb_typeof(m.payload #> '{payload,amount_minor}') WHEN 'number' THEN (m.payload #>> '{payload,amount_minor}')::numeric END,
               substring(coalesce(m.payload #>> '{payload,currency_code}', m.payload #>> '{payload,currency}') FROM '^[A-Z]{3}$')
            FROM consign.message m
            WHERE m.id = ANY (p_ids) AND m.id BETWEEN consign.least_id(p_ids) AND consign.greatest_id(p_ids);
END $$;
REVOKE ALL ON FUNCTION consign.erase_payments(text, bigint[], timestamptz) FROM PUBLIC;
SELECT consign.set_hook('payments', 'erased', 'consign.erase_payments');

CREATE FUNCTION consign.kept_of_payments(p_queue text) RETURNS text[]
    LANGUAGE sql IMMUTABLE
    RETURN '{rail_reference,rail_code,latency_ms,may_have_begun}'::text[];
REVOKE ALL ON FUNCTION consign.kept_of_payments(text) FROM PUBLIC;
SELECT consign.set_hook('payments', 'keeps', 'consign.kept_of_payments');
