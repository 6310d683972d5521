-- Fills a queue from inside the server through consign's own functions, p_batch messages per
-- transaction. One at a time makes as many batches as messages, like producers that enqueue one each.
CREATE SCHEMA consign_bench;
CREATE TABLE consign_bench.row (at timestamptz NOT NULL);
CREATE PROCEDURE consign_bench.fill(p_queue text, p_messages int, p_batch int, p_payload jsonb)
    LANGUAGE plpgsql AS $$
BEGIN
    FOR v_from IN 1 .. p_messages BY p_batch LOOP
        IF p_batch = 1 THEN
            PERFORM consign.enqueue(p_queue, p_payload);
        ELSE
            PERFORM consign.enqueue_many(p_queue, array_fill(p_payload, ARRAY[least(p_batch, p_messages - v_from + 1)]));
        END IF;
        COMMIT;
    END LOOP;
END $$;

-- The same in one transaction: all of it can be claimed at the same moment, and wakes workers once.
CREATE FUNCTION consign_bench.fill_at_once(p_queue text, p_messages int, p_batch int, p_payload jsonb) RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    FOR v_from IN 1 .. p_messages BY p_batch LOOP
        PERFORM consign.enqueue_many(p_queue, array_fill(p_payload, ARRAY[least(p_batch, p_messages - v_from + 1)]));
    END LOOP;
END $$;
