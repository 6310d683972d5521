-- Erasure: the content of finished messages is removed, in place. Digest, history, key, group, and who did it and why stay.
--
-- The triggers `erase_only` of 0002_ranges.sql allow no other update, and this one only for messages that `erasure` names.

-- Erases delivered, dead and discarded messages, at most 1,000. A row per message, by id: erased, already_erased, not_final, blocks_group (it
-- is dead, and its group waits for it), needed (its app needs its content still), app_queue (its queue has hooks but not `erased`:
-- an app has copies), no_such_message.
--
-- The lock on the message makes late results and departures wait: record_late locks it too, and a departure needs the table.
-- The lock on `dead` makes a requeue wait, which then finds the row erased.
CREATE FUNCTION consign.erase(p_ids bigint[], p_actor text, p_reason text)
    RETURNS TABLE (id bigint, answer text, state text)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan
    AS $$
#variable_conflict use_column
DECLARE
    v_now     timestamptz := consign.clock();
    v_message consign.message;
    v_hooks   jsonb;
    v_died    boolean;
    v_needed  boolean;
    v_erased  bigint[] := '{}';
BEGIN
    PERFORM consign.require_read_committed();
    PERFORM consign.require_reason(p_actor, p_reason);
    IF cardinality(p_ids) > 1000 THEN
        RAISE EXCEPTION 'ids: at most 1000 in one call, not %', cardinality(p_ids) USING ERRCODE = 'CN006';
    END IF;
    -- In the order of put_back and record_late, or they could wait for each other.
    FOR v_message IN
        SELECT m.* FROM consign.message m WHERE m.id = ANY (p_ids) AND m.id BETWEEN consign.least_id(p_ids) AND consign.greatest_id(p_ids)
            ORDER BY m.queue, m."group", m.id FOR NO KEY UPDATE
    LOOP
        -- It may die between the two statements: then look again.
        LOOP
            PERFORM FROM consign.dead d WHERE d.message_id = v_message.id FOR UPDATE;
            v_died := FOUND;
            state := consign.state_of(v_message.id);
            EXIT WHEN v_died OR state IS DISTINCT FROM 'dead';
        END LOOP;
        id := v_message.id;
        v_hooks := (consign.known_queue(v_message.queue)).hooks;
        answer := CASE
            WHEN EXISTS (SELECT FROM consign.erasure e WHERE e.message_id = v_message.id) THEN 'already_erased'
            WHEN v_hooks <> '{}' AND NOT v_hooks ? 'erased' THEN 'app_queue'
            WHEN state NOT IN ('delivered', 'dead', 'discarded') THEN 'not_final'
            WHEN v_died AND EXISTS (SELECT FROM consign.group_head t WHERE t.queue = v_message.queue AND t."group" = v_message."group"
                                        AND t.message_id = v_message.id) THEN 'blocks_group'
            ELSE 'erased' END;
        IF answer = 'erased' AND v_hooks ? 'needed' THEN
            -- At the end of time: what is needed for a time only can be erased before.
            EXECUTE format('SELECT EXISTS (SELECT FROM %s($1, $2, $3, $4))', v_hooks->>'needed')
                INTO v_needed USING v_message.queue, v_message.id, v_message.id + 1, 'infinity'::timestamptz;
            answer := CASE WHEN v_needed THEN 'needed' ELSE answer END;
        END IF;
        IF answer = 'erased' THEN
            INSERT INTO consign.erasure (message_id, queue, at, actor, reason, digest)
                VALUES (v_message.id, v_message.queue, v_now, p_actor, p_reason, consign.digest(v_message.payload));
            INSERT INTO consign.erasure_due (message_id) VALUES (v_message.id);
            v_erased := v_erased || v_message.id;
        END IF;
        RETURN NEXT;
    END LOOP;
    PERFORM consign.record_action(u, 'erase', p_actor, p_reason, v_now) FROM (SELECT u FROM unnest(v_erased) u ORDER BY u) erased;
    PERFORM consign.call_hooks('erased', v_erased, v_now);
    UPDATE consign.message m SET payload = 'null', headers = '{}'
        WHERE m.id = ANY (v_erased) AND m.id BETWEEN consign.least_id(v_erased) AND consign.greatest_id(v_erased);
    UPDATE consign.attempt a SET detail = NULL,
            result = consign.kept((SELECT e.queue FROM consign.erasure e WHERE e.message_id = a.message_id), a.result)
        WHERE a.message_id = ANY (v_erased) AND a.message_id BETWEEN consign.least_id(v_erased) AND consign.greatest_id(v_erased)
            AND num_nonnulls(a.detail, a.result) > 0;
    UPDATE consign.late l SET detail = NULL,
            result = consign.kept((SELECT e.queue FROM consign.erasure e WHERE e.message_id = l.message_id), l.result)
        WHERE l.message_id = ANY (v_erased) AND l.message_id BETWEEN consign.least_id(v_erased) AND consign.greatest_id(v_erased)
            AND num_nonnulls(l.detail, l.result) > 0;
    UPDATE consign.dead d SET detail = NULL, erased = true WHERE d.message_id = ANY (v_erased);
    RETURN QUERY SELECT DISTINCT u, 'no_such_message', NULL::text FROM unnest(p_ids) u
        WHERE u IS NOT NULL AND NOT EXISTS (SELECT FROM consign.message m WHERE m.id = u AND m.id BETWEEN consign.least_id(p_ids) AND consign.greatest_id(p_ids));
END $$;
REVOKE ALL ON FUNCTION consign.erase(bigint[], text, text) FROM PUBLIC;

-- Erases the message that has a key. As consign.erase, and departed: it has left; an archive may have it. No row: no message has
-- the key.
CREATE FUNCTION consign.erase_key(p_queue text, p_key text, p_actor text, p_reason text)
    RETURNS TABLE (id bigint, answer text, state text)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY SELECT e.id, CASE e.answer WHEN 'no_such_message' THEN 'departed' ELSE e.answer END, e.state
        FROM consign.erase(ARRAY(SELECT k.message_id FROM consign.message_key k WHERE k.queue = p_queue AND k.key = p_key), p_actor, p_reason) e;
END $$;
REVOKE ALL ON FUNCTION consign.erase_key(text, text, text, text) FROM PUBLIC;

-- Erases the messages of a correlation id with ids above p_after, the first 1,000 of them. As consign.erase; no row: there are no more.
CREATE FUNCTION consign.erase_correlation(p_correlation_id text, p_actor text, p_reason text, p_after bigint DEFAULT NULL)
    RETURNS TABLE (id bigint, answer text, state text)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan
    AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY SELECT e.* FROM consign.erase(ARRAY(
        SELECT m.id FROM consign.message m
            WHERE m.headers ? 'correlation_id' AND left(m.headers->>'correlation_id', 200) = left(p_correlation_id, 200) COLLATE "C"
                AND m.headers->'correlation_id' = to_jsonb(p_correlation_id) AND m.id > coalesce(p_after, -9223372036854775808)
            ORDER BY m.id LIMIT 1000), p_actor, p_reason) e;
END $$;
REVOKE ALL ON FUNCTION consign.erase_correlation(text, text, text, bigint) FROM PUBLIC;

-- Records that the archive is cleared of erasures: a step of the maintenance.
CREATE FUNCTION consign.record_cleared(p_token uuid, p_ids bigint[]) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    PERFORM consign.require_read_committed();
    IF NOT consign.maintains(p_token) THEN
        RETURN 'lease_lost';
    END IF;
    DELETE FROM consign.erasure_due d WHERE d.message_id = ANY (p_ids);
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION consign.record_cleared(uuid, bigint[]) FROM PUBLIC;
