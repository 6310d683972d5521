-- A history of delivered messages, written straight into the tables: what is measured is how it leaves. One in p_kept_each
-- belongs to the queue p_kept, one in p_dead_each is dead and has a key; NULL: none.
CREATE PROCEDURE consign_bench.fill_history(p_queue text, p_messages int, p_payload jsonb, p_kept text, p_kept_each int, p_dead_each int)
    LANGUAGE plpgsql AS $$
DECLARE
    v_count int;
    v_first bigint;
    v_last  bigint;
BEGIN
    FOR v_from IN 1 .. p_messages BY 50000 LOOP
        v_count := least(50000, p_messages - v_from + 1);
        INSERT INTO consign.message (created_at, queue, key, payload, headers)
            SELECT consign.clock(), CASE WHEN g % p_kept_each = 0 THEN p_kept ELSE p_queue END,
                   CASE WHEN g % p_dead_each = 1 THEN 'dead-' || gen_random_uuid() END, p_payload, '{}'
                FROM generate_series(1, v_count) g;
        v_last := currval('consign.message_id_seq');
        v_first := v_last - v_count + 1;
        INSERT INTO consign.attempt (message_id, attempt_no, outcome, owner, fence, token, claimed_at, finished_at)
            SELECT m.id, 1, CASE WHEN m.key IS NULL THEN 'delivered' ELSE 'dead' END::consign.outcome, 'bench', 1,
                   '00000000-0000-0000-0000-000000000001', consign.clock(), consign.clock()
                FROM consign.message m WHERE m.id BETWEEN v_first AND v_last;
        INSERT INTO consign.dead (message_id, queue, at, attempt_no, code)
            SELECT m.id, m.queue, consign.clock(), 1, 'refused'
                FROM consign.message m WHERE m.id BETWEEN v_first AND v_last AND m.key IS NOT NULL;
        INSERT INTO consign.message_key (queue, key, message_id, at, digest)
            SELECT m.queue, m.key, m.id, consign.clock(), sha256(convert_to(m.payload::text, 'UTF8'))
                FROM consign.message m WHERE m.id BETWEEN v_first AND v_last AND m.key IS NOT NULL;
        COMMIT;
    END LOOP;
END $$;

-- The same rows in tables without ranges, to be deleted.
CREATE TABLE consign_bench.message (LIKE consign.message INCLUDING ALL);
CREATE TABLE consign_bench.attempt (LIKE consign.attempt INCLUDING ALL);
CREATE FUNCTION consign_bench.copy_history(p_messages int) RETURNS void
    LANGUAGE sql AS $$
    INSERT INTO consign_bench.message
        SELECT * FROM consign.message m WHERE m.id > currval('consign.message_id_seq') - p_messages;
    INSERT INTO consign_bench.attempt
        SELECT * FROM consign.attempt a WHERE a.message_id > currval('consign.message_id_seq') - p_messages;
$$;
CREATE FUNCTION consign_bench.delete_history() RETURNS void
    LANGUAGE sql AS $$
    DELETE FROM consign_bench.attempt;
    DELETE FROM consign_bench.message;
$$;

-- Where the WAL is, in bytes.
CREATE FUNCTION consign_bench.wal_position() RETURNS bigint
    LANGUAGE sql AS $$ SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint $$;

-- Dead rows of the tables that hold history in a schema, and of those that have rows for some messages.
CREATE FUNCTION consign_bench.dead_history(p_schema text) RETURNS bigint
    LANGUAGE sql AS $$
    SELECT coalesce(sum(n_dead_tup), 0)::bigint FROM pg_stat_user_tables
        WHERE schemaname = p_schema AND relname ~ '^(message|attempt|late|audit|dead|message_key)(_\d+)?$' $$;

-- So many ranges more, of a million ids each.
CREATE FUNCTION consign_bench.add_ranges(p_count int) RETURNS void
    LANGUAGE plpgsql AS $$
DECLARE
    v_last consign.range;
BEGIN
    FOR i IN 1 .. p_count LOOP
        SELECT * INTO STRICT v_last FROM consign.range r WHERE r.until = 9223372036854775807;
        PERFORM consign.end_last_range(v_last, v_last.first + 1000000);
    END LOOP;
END $$;
