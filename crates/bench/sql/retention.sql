-- A history of delivered messages, written straight into the tables: what is measured is how it leaves.
CREATE PROCEDURE consign_bench.fill_history(p_queue text, p_messages int, p_payload jsonb)
    LANGUAGE plpgsql AS $$
DECLARE
    v_count int;
    v_last  bigint;
BEGIN
    FOR v_from IN 1 .. p_messages BY 50000 LOOP
        v_count := least(50000, p_messages - v_from + 1);
        INSERT INTO consign.message (created_at, queue, payload, headers)
            SELECT consign.clock(), p_queue, p_payload, '{}' FROM generate_series(1, v_count);
        v_last := currval('consign.message_id_seq');
        INSERT INTO consign.attempt (message_id, attempt_no, outcome, owner, fence, token, claimed_at, finished_at)
            SELECT g, 1, 'delivered', 'bench', 1, '00000000-0000-0000-0000-000000000001', consign.clock(), consign.clock()
                FROM generate_series(v_last - v_count + 1, v_last) g;
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

-- Dead rows of the tables that hold history in a schema.
CREATE FUNCTION consign_bench.dead_history(p_schema text) RETURNS bigint
    LANGUAGE sql AS $$
    SELECT coalesce(sum(n_dead_tup), 0)::bigint FROM pg_stat_user_tables
        WHERE schemaname = p_schema AND relname ~ '^(message|attempt|late)(_\d+)?$' $$;

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
