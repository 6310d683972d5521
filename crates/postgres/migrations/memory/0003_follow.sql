-- Whatever moves a memory writes its audit, in the transaction that records the outcome.
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
-- nulls are left out of both.
CREATE FUNCTION logbook.write_outbox_audit(p_message consign.message, p_source text, p_operation text, p_action text, p_reason text,
                                           p_status text, p_correlation_id text, p_fields jsonb, p_extra jsonb) RETURNS bigint
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_space   text := p_message.payload->>'target_space';
    v_actor   text := coalesce(p_message.headers->>'actor_user_id', logbook.private_owner(v_space));
    v_fields  jsonb := jsonb_strip_nulls(jsonb_build_object('backend', p_message.headers->'backend') || p_fields);
    v_extra   jsonb := jsonb_strip_nulls(p_extra) || jsonb_build_object('correlation_id', p_correlation_id);
    v_summary jsonb := '{"count": 0, "has_strong": false, "uris": []}';
BEGIN
    RETURN governance.insert_write_audit(v_actor, v_space, p_action, p_reason, p_message.payload->>'payload_sha', v_fields
        || jsonb_strip_nulls(jsonb_build_object('worker_id', v_extra->'worker_id', 'attempt_id', v_extra->'attempt_id',
            'intended_action', v_extra->'intended_action', 'original_outbox_id', v_extra->'original_outbox_id'))
        || jsonb_build_object('outbox_id', p_message.id, 'source', p_source, 'payload_sha', p_message.payload->'payload_sha',
            'correlation_id', p_correlation_id, 'evidence_summary', v_summary, 'extra', v_extra,
            'gateway_event', v_fields || jsonb_build_object('schema_version', '2.0', 'source', p_source, 'operation', p_operation,
                'correlation_id', p_correlation_id, 'actor_user_id', v_actor, 'requested_space', v_space, 'final_space', v_space,
                'decision', jsonb_build_object('action', p_action, 'reason', p_reason), 'payload_sha', p_message.payload->'payload_sha',
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
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
    AS $$ SELECT m FROM consign.message m WHERE m.id = p_id AND m.queue = 'memory' $$;
REVOKE ALL ON FUNCTION logbook.memory_message(bigint) FROM PUBLIC;

CREATE FUNCTION logbook.warn_unaudited(p_id bigint, p_what text, p_why text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    RAISE WARNING 'memory %: its audit (%) could not be written: %', p_id, p_what, p_why
        USING HINT = 'The outcome stands. `consign reconcile` writes the audit.';
END $$;
REVOKE ALL ON FUNCTION logbook.warn_unaudited(bigint, text, text) FROM PUBLIC;

CREATE FUNCTION logbook.follow_attempt() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_message consign.message := logbook.memory_message(NEW.message_id);
BEGIN
    IF v_message.id IS NOT NULL THEN
        BEGIN
            PERFORM logbook.audit_attempt(v_message, NEW, false);
        EXCEPTION WHEN OTHERS THEN
            PERFORM logbook.warn_unaudited(NEW.message_id, NEW.outcome::text, SQLERRM);
        END;
    END IF;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION logbook.follow_attempt() FROM PUBLIC;
-- Attempts know no queue, and a settle of a thousand messages must not pay for memories. Whoever delivers a
-- memory names a code; the few who do not are seen by follow_lease.
CREATE TRIGGER follow_memory AFTER INSERT ON consign.attempt
    FOR EACH ROW WHEN (NEW.outcome = 'delivered' AND NEW.code IS NOT NULL
        OR NEW.outcome IN ('retry', 'uncertain') AND NEW.next_due_at IS NOT NULL AND NEW.code IS DISTINCT FROM 'lease_expired')
    EXECUTE FUNCTION logbook.follow_attempt();

-- A lease that got smaller without a code: what left it delivered is audited when the transaction ends,
-- because the attempt may be written after the lease has gone.
CREATE FUNCTION logbook.follow_lease() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_attempt consign.attempt;
BEGIN
    FOR v_attempt IN
        SELECT a.* FROM unnest(OLD.ids) AS u (id) JOIN consign.attempt a ON a.message_id = u.id
            WHERE a.fence = OLD.fence AND a.outcome = 'delivered' AND a.code IS NULL ORDER BY a.message_id
    LOOP
        BEGIN
            -- Shrunk several times in one transaction, the lease is seen several times.
            IF NOT EXISTS (SELECT FROM governance.write_audit w WHERE w.outbox_id = v_attempt.message_id
                               AND w.reason IN ('outbox_flush_success', 'outbox_flush_dedup_hit'))
            THEN
                PERFORM logbook.audit_attempt(logbook.memory_message(v_attempt.message_id), v_attempt, false);
            END IF;
        EXCEPTION WHEN OTHERS THEN
            PERFORM logbook.warn_unaudited(v_attempt.message_id, 'delivered', SQLERRM);
        END;
    END LOOP;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION logbook.follow_lease() FROM PUBLIC;
CREATE CONSTRAINT TRIGGER follow_memory AFTER DELETE OR UPDATE ON consign.lease
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (OLD.queue = 'memory') EXECUTE FUNCTION logbook.follow_lease();

CREATE FUNCTION logbook.follow_dead() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_attempt consign.attempt;
BEGIN
    BEGIN
        SELECT a.* INTO STRICT v_attempt FROM consign.attempt a WHERE a.message_id = NEW.message_id AND a.attempt_no = NEW.attempt_no;
        PERFORM logbook.audit_attempt(logbook.memory_message(NEW.message_id), v_attempt, true);
    EXCEPTION WHEN OTHERS THEN
        PERFORM logbook.warn_unaudited(NEW.message_id, 'dead', SQLERRM);
    END;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION logbook.follow_dead() FROM PUBLIC;
CREATE TRIGGER follow_memory AFTER INSERT ON consign.dead
    FOR EACH ROW WHEN (NEW.queue = 'memory') EXECUTE FUNCTION logbook.follow_dead();

-- A fresh start counts from here.
CREATE FUNCTION logbook.follow_requeued() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    INSERT INTO logbook.requeued AS r (message_id, attempt_no) VALUES (OLD.message_id, OLD.attempt_no)
        ON CONFLICT (message_id) DO UPDATE SET attempt_no = excluded.attempt_no;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION logbook.follow_requeued() FROM PUBLIC;
CREATE TRIGGER follow_memory_requeued AFTER DELETE ON consign.dead
    FOR EACH ROW WHEN (OLD.queue = 'memory') EXECUTE FUNCTION logbook.follow_requeued();

CREATE FUNCTION logbook.follow_late() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_message consign.message := logbook.memory_message(NEW.message_id);
    v_state   text;
BEGIN
    IF v_message.id IS NULL THEN
        RETURN NULL;
    END IF;
    BEGIN
        v_state := consign.state_of(NEW.message_id);
        PERFORM logbook.write_outbox_audit(v_message, 'outbox_worker', 'outbox_flush', 'redirect', 'outbox_flush_conflict', 'redirected',
            'corr-' || lpad(to_hex(NEW.fence), 16, '0'),
            jsonb_build_object('memory_id', NEW.result->'memory_id', 'retry_count', logbook.retry_count(NEW.message_id)),
            jsonb_build_object('worker_id', NEW.owner,
                'attempt_id', (SELECT logbook.attempt_name(a.message_id, a.attempt_no) FROM consign.attempt a
                                   WHERE a.message_id = NEW.message_id AND a.token = NEW.token LIMIT 1),
                'last_error', CASE WHEN NEW.outcome <> 'delivered' THEN coalesce(NEW.detail, NEW.code) END,
                'intended_action', CASE WHEN NEW.outcome = 'delivered' AND NEW.code IS NOT DISTINCT FROM 'dedup_hit' THEN 'dedup_hit'
                                        WHEN NEW.outcome = 'delivered' THEN 'success' WHEN NEW.outcome = 'dead' THEN 'dead'
                                        ELSE 'retry' END,
                'observed_status', CASE v_state WHEN 'delivered' THEN 'sent' WHEN 'dead' THEN 'dead' ELSE 'pending' END,
                'observed_locked_by', (SELECT l.owner FROM consign.lease l WHERE l.queue = 'memory' AND NEW.message_id = ANY (l.ids))));
    EXCEPTION WHEN OTHERS THEN
        PERFORM logbook.warn_unaudited(NEW.message_id, 'late', SQLERRM);
    END;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION logbook.follow_late() FROM PUBLIC;
CREATE TRIGGER follow_memory AFTER INSERT ON consign.late
    FOR EACH ROW EXECUTE FUNCTION logbook.follow_late();
