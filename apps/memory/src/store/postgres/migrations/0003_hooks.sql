-- The hooks of the queue `memory`: every change of a memory's message writes its audit, in the transaction of the change.
--
-- Should that fail, the outcome stands all the same, with a warning; logbook.reconcile_outbox writes it later.

-- The end of a private space's name.
CREATE FUNCTION logbook.private_owner(p_space text) RETURNS text
    LANGUAGE sql IMMUTABLE
    RETURN CASE WHEN starts_with(p_space, 'private:') THEN nullif(substr(p_space, 9), '') END;
REVOKE ALL ON FUNCTION logbook.private_owner(text) FROM PUBLIC;

CREATE FUNCTION logbook.attempt_name(p_id bigint, p_attempt_no int) RETURNS text
    LANGUAGE sql IMMUTABLE
    RETURN 'attempt-' || right(lpad(to_hex(p_id), 8, '0'), 8) || right(lpad(to_hex(p_attempt_no), 4, '0'), 4);
REVOKE ALL ON FUNCTION logbook.attempt_name(bigint, int) FROM PUBLIC;

-- Times in JSON, to the microsecond, in UTC.
CREATE FUNCTION logbook.iso(p_at timestamptz) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
    AS $$ SELECT to_char(p_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"') $$;
REVOKE ALL ON FUNCTION logbook.iso(timestamptz) FROM PUBLIC;

-- Writes an audit about a row of the outbox. p_fields stand at the top of its JSON, p_extra in `extra`;
-- nulls are left out of both. Of an erased row, its key has space and hash.
CREATE FUNCTION logbook.write_outbox_audit(p_message consign.message, p_source text, p_operation text, p_action text, p_reason text,
                                           p_status text, p_correlation_id text, p_fields jsonb, p_extra jsonb) RETURNS bigint
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_space   text := coalesce(p_message.payload->>'target_space', substring(p_message.key FROM '^(.*)#[0-9a-f]{64}(?:#[0-9]+)?$'));
    v_sha     text := coalesce(p_message.payload->>'payload_sha', substring(p_message.key FROM '#([0-9a-f]{64})(?:#[0-9]+)?$'));
    v_backend jsonb := CASE WHEN p_message.payload = 'null' THEN to_jsonb((SELECT o.backend FROM logbook.outbox_memory o WHERE o.outbox_id = p_message.id))
                            ELSE p_message.headers->'backend' END;
    v_actor   text := coalesce(p_message.headers->>'actor_user_id', logbook.private_owner(v_space));
    v_fields  jsonb := jsonb_strip_nulls(jsonb_build_object('backend', v_backend) || p_fields);
    v_extra   jsonb := jsonb_strip_nulls(p_extra) || jsonb_build_object('correlation_id', p_correlation_id);
    v_summary jsonb := '{"count": 0, "has_strong": false, "uris": []}';
BEGIN
    RETURN governance.insert_write_audit(v_actor, v_space, p_action, p_reason, v_sha, v_fields
        || jsonb_strip_nulls(jsonb_build_object('worker_id', v_extra->'worker_id', 'attempt_id', v_extra->'attempt_id',
            'intended_action', v_extra->'intended_action', 'original_outbox_id', v_extra->'original_outbox_id'))
        || jsonb_build_object('outbox_id', p_message.id, 'source', p_source, 'payload_sha', v_sha,
            'correlation_id', p_correlation_id, 'evidence_summary', v_summary, 'extra', v_extra,
            'gateway_event', v_fields || jsonb_build_object('schema_version', '2.0', 'source', p_source, 'operation', p_operation,
                'correlation_id', p_correlation_id, 'actor_user_id', v_actor, 'requested_space', v_space, 'final_space', v_space,
                'decision', jsonb_build_object('action', p_action, 'reason', p_reason), 'payload_sha', v_sha,
                'payload_len', length(p_message.payload->>'payload_md'), 'evidence_summary', v_summary,
                'trim', '{"was_trimmed": false, "why": null, "original_len": null}'::jsonb, 'refs', '[]'::jsonb,
                'event_ts', logbook.iso(consign.clock()), 'outbox_id', p_message.id, 'extra', v_extra)),
        p_correlation_id, p_status);
END $$;
REVOKE ALL ON FUNCTION logbook.write_outbox_audit(consign.message, text, text, text, text, text, text, jsonb, jsonb) FROM PUBLIC;

-- The audit of an attempt that delivered, will be repeated, or after which the memory is dead.
--
-- p_correlation_id: NULL for that of the lease. p_extra: what the one who writes it late adds.
CREATE FUNCTION logbook.audit_attempt(p_message consign.message, p_attempt consign.attempt, p_is_dead boolean,
                                      p_source text DEFAULT 'outbox_worker', p_operation text DEFAULT 'outbox_flush',
                                      p_correlation_id text DEFAULT NULL, p_extra jsonb DEFAULT '{}') RETURNS bigint
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_is_hit boolean := p_attempt.outcome = 'delivered' AND p_attempt.code IS NOT DISTINCT FROM 'dedup_hit';
    v_word   text := CASE WHEN p_is_dead THEN 'dead' WHEN v_is_hit THEN 'dedup_hit' WHEN p_attempt.outcome = 'delivered' THEN 'success'
                          WHEN p_attempt.code IN ('db_timeout', 'db_error') THEN p_attempt.code ELSE 'retry' END;
BEGIN
    RETURN logbook.write_outbox_audit(p_message, p_source, p_operation,
        CASE WHEN p_is_dead THEN 'reject' WHEN p_attempt.outcome = 'delivered' THEN 'allow' ELSE 'redirect' END,
        'outbox_flush_' || v_word,
        CASE WHEN p_is_dead THEN 'failed' WHEN p_attempt.outcome = 'delivered' THEN 'success' ELSE 'redirected' END,
        coalesce(p_correlation_id, 'corr-' || lpad(to_hex(p_attempt.fence), 16, '0')),
        jsonb_build_object('memory_id', p_attempt.result->'memory_id', 'next_attempt_at', logbook.iso(p_attempt.next_due_at),
            'backend', coalesce(p_attempt.result->'backend', p_message.headers->'backend'),
            -- The attempts that failed, this one included.
            'retry_count', logbook.retry_count(p_message.id) + p_is_dead::int),
        jsonb_build_object('worker_id', p_attempt.owner, 'attempt_id', logbook.attempt_name(p_message.id, p_attempt.attempt_no),
            'last_error', CASE WHEN p_attempt.outcome <> 'delivered' THEN coalesce(p_attempt.detail, p_attempt.code) END,
            'stored_again', p_attempt.result->'stored_again',
            'original_outbox_id', CASE WHEN v_is_hit THEN p_attempt.result->'original_outbox_id' END) || p_extra);
END $$;
REVOKE ALL ON FUNCTION logbook.audit_attempt(consign.message, consign.attempt, boolean, text, text, text, jsonb) FROM PUBLIC;

CREATE FUNCTION logbook.memory_message(p_id bigint) RETURNS consign.message
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan
    AS $$
DECLARE
    v_message consign.message;
BEGIN
    SELECT * INTO v_message FROM consign.message m WHERE m.id = p_id AND m.queue = 'memory';
    RETURN v_message;
END $$;
REVOKE ALL ON FUNCTION logbook.memory_message(bigint) FROM PUBLIC;

CREATE FUNCTION logbook.warn_unaudited(p_id bigint, p_what text, p_why text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    RAISE WARNING 'memory %: its audit (%) could not be written: %', p_id, p_what, p_why
        USING HINT = 'The outcome is recorded. `consign reconcile` writes the audit.';
END $$;
REVOKE ALL ON FUNCTION logbook.warn_unaudited(bigint, text, text) FROM PUBLIC;

-- Runs at every settle and expiry: audits attempts that delivered, will be repeated, or after which the memory is
-- dead. An expiry that only puts the memory back is not audited.
CREATE FUNCTION logbook.audit_outcomes(p_queue text, p_ids bigint[], p_fence bigint) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off SET jit = off
    SET plan_cache_mode = force_generic_plan
    AS $$
DECLARE
    v_settled record;
BEGIN
    FOR v_settled IN
        SELECT a AS attempt, d.message_id IS NOT NULL AS is_dead
            FROM unnest(p_ids) WITH ORDINALITY AS u (id, ord)
            JOIN consign.attempt a ON a.message_id = u.id AND a.fence = p_fence
            LEFT JOIN consign.dead d ON d.message_id = a.message_id AND d.attempt_no = a.attempt_no
            WHERE d.message_id IS NOT NULL OR a.outcome = 'delivered'
                OR a.outcome IN ('retry', 'uncertain') AND a.next_due_at IS NOT NULL AND a.code IS DISTINCT FROM 'lease_expired'
            ORDER BY u.ord
    LOOP
        BEGIN
            PERFORM logbook.audit_attempt(logbook.memory_message((v_settled.attempt).message_id), v_settled.attempt, v_settled.is_dead);
        EXCEPTION WHEN OTHERS THEN
            PERFORM logbook.warn_unaudited((v_settled.attempt).message_id,
                CASE WHEN v_settled.is_dead THEN 'dead' ELSE (v_settled.attempt).outcome::text END, SQLERRM);
        END;
    END LOOP;
END $$;
REVOKE ALL ON FUNCTION logbook.audit_outcomes(text, bigint[], bigint) FROM PUBLIC;
SELECT consign.set_hook('memory', 'settled', 'logbook.audit_outcomes');
SELECT consign.set_hook('memory', 'expired', 'logbook.audit_outcomes');

-- A fresh start counts from here: the attempt after which a memory was dead is its last one.
CREATE FUNCTION logbook.record_requeue(p_queue text, p_ids bigint[], p_action text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan
    AS $$
BEGIN
    IF p_action <> 'requeue' THEN
        RETURN;
    END IF;
    INSERT INTO logbook.requeued AS r (message_id, attempt_no)
        SELECT a.message_id, max(a.attempt_no) FROM consign.attempt a
            WHERE a.message_id = ANY (p_ids) AND a.message_id BETWEEN consign.least_id(p_ids) AND consign.greatest_id(p_ids)
            GROUP BY a.message_id
        ON CONFLICT (message_id) DO UPDATE SET attempt_no = excluded.attempt_no;
END $$;
REVOKE ALL ON FUNCTION logbook.record_requeue(text, bigint[], text) FROM PUBLIC;
SELECT consign.set_hook('memory', 'moved', 'logbook.record_requeue');

-- Audits results that came after their lease had ended.
CREATE FUNCTION logbook.audit_late(p_queue text, p_ids bigint[], p_token uuid) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_late  consign.late;
    v_state text;
BEGIN
    FOR v_late IN SELECT l.* FROM consign.late l WHERE l.message_id = ANY (p_ids) AND l.token = p_token
            AND l.message_id BETWEEN consign.least_id(p_ids) AND consign.greatest_id(p_ids) ORDER BY l.message_id
    LOOP
        BEGIN
            v_state := consign.state_of(v_late.message_id);
            PERFORM logbook.write_outbox_audit(logbook.memory_message(v_late.message_id), 'outbox_worker', 'outbox_flush', 'redirect',
                'outbox_flush_conflict', 'redirected', 'corr-' || lpad(to_hex(v_late.fence), 16, '0'),
                jsonb_build_object('memory_id', v_late.result->'memory_id', 'retry_count', logbook.retry_count(v_late.message_id)),
                jsonb_build_object('worker_id', v_late.owner,
                    'attempt_id', (SELECT logbook.attempt_name(a.message_id, a.attempt_no) FROM consign.attempt a
                                       WHERE a.message_id = v_late.message_id AND a.token = v_late.token LIMIT 1),
                    'last_error', CASE WHEN v_late.outcome <> 'delivered' THEN coalesce(v_late.detail, v_late.code) END,
                    'intended_action', CASE WHEN v_late.outcome = 'delivered' AND v_late.code IS NOT DISTINCT FROM 'dedup_hit' THEN 'dedup_hit'
                                            WHEN v_late.outcome = 'delivered' THEN 'success' WHEN v_late.outcome = 'dead' THEN 'dead'
                                            ELSE 'retry' END,
                    'observed_status', CASE v_state WHEN 'delivered' THEN 'sent' WHEN 'dead' THEN 'dead' ELSE 'pending' END,
                    'observed_locked_by', (SELECT l.owner FROM consign.lease l WHERE l.queue = p_queue AND v_late.message_id = ANY (l.ids))));
        EXCEPTION WHEN OTHERS THEN
            PERFORM logbook.warn_unaudited(v_late.message_id, 'late', SQLERRM);
        END;
    END LOOP;
END $$;
REVOKE ALL ON FUNCTION logbook.audit_late(text, bigint[], uuid) FROM PUBLIC;
SELECT consign.set_hook('memory', 'late', 'logbook.audit_late');

-- A whole number in a document; NULL: there is none.
CREATE FUNCTION logbook.number_at(p_document jsonb, p_field text) RETURNS bigint
    LANGUAGE sql IMMUTABLE
    RETURN CASE WHEN jsonb_typeof(p_document->p_field) = 'number' AND p_document->>p_field ~ '^[0-9]{1,18}$'
                THEN (p_document->>p_field)::bigint END;
REVOKE ALL ON FUNCTION logbook.number_at(jsonb, text) FROM PUBLIC;

-- The gateway's cursor moves in the transaction that records the result of the record: an audit that ends well and carries
-- `consume` sets it, if it is where the audit expects it. Otherwise it stays: it was rewound, or another process was
-- quicker.
CREATE FUNCTION logbook.move_consume_cursor() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_step  jsonb := NEW.evidence_refs_json->'consume';
    v_field text := v_step->>'field';
    v_repo  bigint := logbook.number_at(v_step, 'repo_id');
    v_from  bigint := logbook.number_at(v_step, 'from');
    v_to    bigint := logbook.number_at(v_step, 'to');
BEGIN
    IF (v_field IN ('last_processed_id', 'last_processed_rev')) IS NOT TRUE OR v_repo IS NULL OR v_from IS NULL OR v_to IS NULL THEN
        RETURN NULL;
    END IF;
    -- An erasure of what ended long ago.
    IF TG_OP = 'UPDATE' THEN
        IF OLD.status <> 'pending' THEN
            RETURN NULL;
        END IF;
    END IF;
    IF v_from = 0 THEN
        INSERT INTO logbook.kv (namespace, key, value_json, updated_at)
            VALUES ('gateway.consume', 'scm_consume:' || v_repo, jsonb_build_object(v_field, v_to), consign.clock())
            ON CONFLICT (namespace, key) DO NOTHING;
        IF FOUND THEN
            RETURN NULL;
        END IF;
    END IF;
    -- The row is locked before it is compared: of two that stood at the same place, one moves it.
    UPDATE logbook.kv k SET value_json = jsonb_build_object(v_field, v_to), updated_at = consign.clock()
        WHERE k.namespace = 'gateway.consume' AND k.key = 'scm_consume:' || v_repo
            AND coalesce(logbook.number_at(k.value_json, v_field), 0) = v_from;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION logbook.move_consume_cursor() FROM PUBLIC;
CREATE TRIGGER move_consume_cursor AFTER INSERT OR UPDATE ON governance.write_audit
    FOR EACH ROW WHEN (NEW.status IN ('success', 'redirected') AND NEW.evidence_refs_json ? 'consume')
    EXECUTE FUNCTION logbook.move_consume_cursor();

-- How memories leave: the message goes with its attempts and its row of logbook.outbox_memory; its audits stay. They record
-- what became of it, so deduplication and reconciling need the message no more.

-- The messages of a range that something still refers to: an outcome without its audit, a request without the audit of its
-- deferral, a pending audit about the row, its request or its text.
CREATE FUNCTION logbook.needed_memories(p_queue text, p_first bigint, p_until bigint, p_at timestamptz) RETURNS SETOF bigint
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on SET jit = off
    AS $$
BEGIN
    RETURN QUERY
        SELECT m.id FROM consign.message m
            WHERE m.id >= p_first AND m.id < p_until AND m.queue = p_queue
                AND (NOT EXISTS (SELECT FROM governance.write_audit w
                                     WHERE w.outbox_id = m.id AND w.reason ~ '^outbox_flush_(success|dedup_hit)')
                     AND NOT EXISTS (SELECT FROM consign.dead d JOIN governance.write_audit w ON w.outbox_id = d.message_id
                                         WHERE d.message_id = m.id AND starts_with(w.reason, 'outbox_flush_dead')
                                             AND coalesce(w.evidence_refs_json->>'attempt_id' = logbook.attempt_name(m.id, d.attempt_no), true))
                     OR m.headers ? 'correlation_id' AND NOT EXISTS (
                         SELECT FROM governance.write_audit w
                             WHERE w.outbox_id = m.id AND starts_with(w.reason, 'openmemory_write_failed:')))
        UNION ALL
        SELECT w.outbox_id FROM governance.write_audit w
            WHERE w.status = 'pending' AND w.outbox_id >= p_first AND w.outbox_id < p_until
        UNION ALL
        SELECT m.id FROM governance.write_audit w
            JOIN consign.message m ON left(m.headers->>'correlation_id', 200) COLLATE "C" = left(w.correlation_id, 200) AND m.headers ? 'correlation_id'
            WHERE w.status = 'pending' AND m.id >= p_first AND m.id < p_until AND m.queue = p_queue
        UNION ALL
        SELECT r.message_id FROM governance.write_audit w, LATERAL logbook.memory_rows(w.target_space, w.payload_sha) r
            WHERE w.status = 'pending' AND r.message_id >= p_first AND r.message_id < p_until;
END $$;
REVOKE ALL ON FUNCTION logbook.needed_memories(text, bigint, bigint, timestamptz) FROM PUBLIC;
SELECT consign.set_hook('memory', 'needed', 'logbook.needed_memories');

-- Forgets up to p_limit requeues of memories that have left.
CREATE FUNCTION logbook.depart_memories(p_queue text, p_first bigint, p_until bigint, p_limit int) RETURNS bigint
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_count bigint;
BEGIN
    DELETE FROM logbook.requeued r USING (
            SELECT o.message_id FROM logbook.requeued o
                WHERE o.message_id >= p_first AND o.message_id < p_until
                    AND NOT EXISTS (SELECT FROM consign.message m WHERE m.id = o.message_id AND m.id >= p_first AND m.id < p_until)
                ORDER BY o.message_id LIMIT p_limit) gone
        WHERE r.message_id = gone.message_id;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    RETURN v_count;
END $$;
REVOKE ALL ON FUNCTION logbook.depart_memories(text, bigint, bigint, int) FROM PUBLIC;
SELECT consign.set_hook('memory', 'departed', 'logbook.depart_memories');

-- The document of an audit without its error texts, which may quote a memory.
CREATE FUNCTION governance.without_errors(p_document jsonb) RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    c_errors CONSTANT text[] := '{last_error,error_message}';
BEGIN
    IF jsonb_typeof(p_document->'extra') = 'object' THEN
        p_document := jsonb_set(p_document, '{extra}', (p_document->'extra') - c_errors);
    END IF;
    IF jsonb_typeof(p_document->'gateway_event'->'extra') = 'object' THEN
        p_document := jsonb_set(p_document, '{gateway_event,extra}', (p_document->'gateway_event'->'extra') - c_errors);
    END IF;
    RETURN p_document;
END $$;
REVOKE ALL ON FUNCTION governance.without_errors(jsonb) FROM PUBLIC;

-- Whether a change of an audit is what an erasure does: it removes error texts, and nothing else, and the audit is about a memory that
-- was erased, or of a request about its text that has no row.
CREATE FUNCTION logbook.is_erasing(p_old governance.write_audit, p_new governance.write_audit) RETURNS boolean
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
    AS $$
    -- outbox_id is made from the document, after the triggers.
    SELECT p_new.evidence_refs_json = governance.without_errors(p_old.evidence_refs_json)
        AND to_jsonb(p_new) - '{evidence_refs_json,outbox_id}'::text[] = to_jsonb(p_old) - '{evidence_refs_json,outbox_id}'::text[]
        AND (EXISTS (SELECT FROM consign.erasure e WHERE e.message_id = p_old.outbox_id)
             OR p_old.outbox_id IS NULL
                 AND EXISTS (SELECT FROM logbook.memory_rows(p_old.target_space, p_old.payload_sha) r
                                 JOIN consign.erasure e ON e.message_id = r.message_id)) $$;
REVOKE ALL ON FUNCTION logbook.is_erasing(governance.write_audit, governance.write_audit) FROM PUBLIC;

-- Removes the error texts of audits, which may quote the memory: of those about rows that are erased, and of those of requests about
-- the same text that have no row.
CREATE FUNCTION logbook.erase_memories(p_queue text, p_ids bigint[], p_at timestamptz) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET plan_cache_mode = force_generic_plan
    AS $$
DECLARE
    v_audits CONSTANT bigint[] := ARRAY(
        SELECT w.audit_id FROM governance.write_audit w WHERE w.outbox_id = ANY (p_ids)
        UNION ALL
        SELECT w.audit_id
            FROM consign.message m JOIN governance.write_audit w
                ON w.payload_sha = m.payload->>'payload_sha' AND w.target_space = m.payload->>'target_space'
            WHERE m.id = ANY (p_ids) AND m.id BETWEEN consign.least_id(p_ids) AND consign.greatest_id(p_ids) AND w.outbox_id IS NULL);
BEGIN
    -- In one order, or two erasures could wait for each other.
    PERFORM FROM governance.write_audit a WHERE a.audit_id = ANY (v_audits) ORDER BY a.audit_id FOR NO KEY UPDATE;
    UPDATE governance.write_audit a SET evidence_refs_json = governance.without_errors(a.evidence_refs_json)
        WHERE a.audit_id = ANY (v_audits) AND governance.without_errors(a.evidence_refs_json) <> a.evidence_refs_json
            -- It may have got another row since it was read.
            AND (a.outbox_id = ANY (p_ids) OR a.outbox_id IS NULL);
END $$;
REVOKE ALL ON FUNCTION logbook.erase_memories(text, bigint[], timestamptz) FROM PUBLIC;
SELECT consign.set_hook('memory', 'erased', 'logbook.erase_memories');

-- What deduplication, the outbox and a missing audit need of results: identifiers.
CREATE FUNCTION logbook.kept_of_memories(p_queue text) RETURNS text[]
    LANGUAGE sql IMMUTABLE
    RETURN '{memory_id,backend,stored_again,original_outbox_id}'::text[];
REVOKE ALL ON FUNCTION logbook.kept_of_memories(text) FROM PUBLIC;
SELECT consign.set_hook('memory', 'keeps', 'logbook.kept_of_memories');

-- Rows of the outbox have left below this number; NULL: none has.
CREATE FUNCTION logbook.left_below() RETURNS bigint
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT max(r.until) FROM consign.range r
        WHERE r.is_rest AND EXISTS (SELECT FROM consign.departed d WHERE d.queue = 'memory' AND d.messages > 0) $$;
REVOKE ALL ON FUNCTION logbook.left_below() FROM PUBLIC;
