-- Reconciling the outbox of memories with its audits, figures for the reliability report, and the write lock.

CREATE TYPE logbook.finding AS (
    at timestamptz, issue text, outbox_id bigint, audit_id bigint, locked_by text, locked_at timestamptz,
    fixed boolean, rescheduled boolean);

CREATE FUNCTION logbook.new_correlation_id() RETURNS text
    LANGUAGE sql VOLATILE
    RETURN 'corr-' || left(replace(gen_random_uuid()::text, '-', ''), 16);
REVOKE ALL ON FUNCTION logbook.new_correlation_id() FROM PUBLIC;

-- Sent or dead rows without the audit of that, oldest first; with p_repair they get it. A row that died
-- again after a requeue needs an audit for each death.
CREATE FUNCTION logbook.reconcile_outcomes(p_dead boolean, p_batch int, p_repair boolean, p_now timestamptz)
    RETURNS SETOF logbook.finding
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_found   record;
    v_finding logbook.finding;
BEGIN
    FOR v_found IN
        SELECT m AS message, a AS attempt, a.finished_at
            FROM consign.message m JOIN consign.attempt a ON a.message_id = m.id
            LEFT JOIN consign.dead d ON d.message_id = m.id
            WHERE m.queue = 'memory' AND m.key IS NOT NULL
                AND CASE WHEN p_dead THEN a.attempt_no = d.attempt_no ELSE a.outcome = 'delivered' END
                AND NOT EXISTS (
                    SELECT FROM governance.write_audit w
                        WHERE w.outbox_id = m.id
                            AND CASE WHEN p_dead THEN starts_with(w.reason, 'outbox_flush_dead')
                                         AND coalesce(w.evidence_refs_json->>'attempt_id' = logbook.attempt_name(m.id, a.attempt_no), true)
                                     ELSE starts_with(w.reason, 'outbox_flush_success') OR starts_with(w.reason, 'outbox_flush_dedup_hit') END)
            ORDER BY a.finished_at, m.id LIMIT p_batch
    LOOP
        v_finding := ROW(v_found.finished_at, CASE WHEN p_dead THEN 'dead_missing_audit' ELSE 'sent_missing_audit' END,
                         (v_found.message).id, NULL, NULL, NULL, p_repair, false);
        IF p_repair THEN
            v_finding.audit_id := logbook.audit_attempt(v_found.message, v_found.attempt, p_dead, 'reconcile_outbox', 'outbox_reconcile',
                logbook.new_correlation_id(), jsonb_build_object('reconciled', true, 'reconcile_time', logbook.iso(p_now)));
        END IF;
        RETURN NEXT v_finding;
    END LOOP;
END $$;
REVOKE ALL ON FUNCTION logbook.reconcile_outcomes(boolean, int, boolean, timestamptz) FROM PUBLIC;

-- The audit that a lease of a row is stale; one for each lease, however often the reconcile runs.
CREATE FUNCTION logbook.audit_stale(p_id bigint, p_lease consign.lease, p_locked_at timestamptz, p_stale_after interval,
                                    p_will_reschedule boolean, p_now timestamptz) RETURNS bigint
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_audit bigint;
BEGIN
    SELECT w.audit_id INTO v_audit FROM governance.write_audit w
        WHERE w.outbox_id = p_id AND w.reason = 'outbox_stale' AND w.evidence_refs_json->'extra'->>'lease_fence' = p_lease.fence::text;
    IF NOT FOUND THEN
        v_audit := logbook.write_outbox_audit(logbook.memory_message(p_id), 'reconcile_outbox', 'outbox_reconcile', 'redirect',
            'outbox_stale', 'redirected', logbook.new_correlation_id(), jsonb_build_object('retry_count', logbook.retry_count(p_id)),
            jsonb_build_object('reconciled', true, 'reconcile_time', logbook.iso(p_now),
                'stale_threshold_seconds', extract(epoch FROM p_stale_after)::bigint, 'will_reschedule', p_will_reschedule,
                'original_locked_by', p_lease.owner, 'original_locked_at', logbook.iso(p_locked_at), 'lease_fence', p_lease.fence::text));
    END IF;
    RETURN v_audit;
END $$;
REVOKE ALL ON FUNCTION logbook.audit_stale(bigint, consign.lease, timestamptz, interval, boolean, timestamptz) FROM PUBLIC;

-- Leases that expired long ago, oldest first. With p_repair each of their rows
-- gets an audit, and with p_reschedule the lease is ended as a claim would end it.
--
-- The lease is locked as it was seen: one that is renewed meanwhile is left alone. One whose end would
-- make its row dead is left to the next claim: that is not for a reconciler to decide.
CREATE FUNCTION logbook.reconcile_leases(p_batch int, p_stale_after interval, p_repair boolean, p_reschedule boolean, p_delay interval)
    RETURNS SETOF logbook.finding
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_tries_max int := (SELECT (n.policy->>'attempts_max')::int FROM consign.queue n WHERE n.name = 'memory');
    v_seen      record;
    v_lease     consign.lease;
    v_now       timestamptz;
    v_ends      boolean;
    v_audit     bigint;
    v_id        bigint;
BEGIN
    v_now := consign.clock();
    FOR v_seen IN
        SELECT l.fence, l.expires_at, o.locked_at FROM consign.lease l, LATERAL (SELECT logbook.locked_at(l.fence, l.expires_at, l.queue) AS locked_at) o
            WHERE l.queue = 'memory' AND l.expires_at <= v_now AND v_now - o.locked_at > p_stale_after
            ORDER BY o.locked_at, l.fence LIMIT p_batch
    LOOP
        SELECT * INTO v_lease FROM consign.lease l WHERE l.fence = v_seen.fence AND l.expires_at = v_seen.expires_at FOR UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        v_ends := p_repair AND p_reschedule AND (cardinality(v_lease.ids) > 1 OR v_lease.tries[1] + 1 < v_tries_max);
        FOREACH v_id IN ARRAY v_lease.ids LOOP
            v_audit := NULL;
            IF p_repair THEN
                v_audit := logbook.audit_stale(v_id, v_lease, v_seen.locked_at, p_stale_after, v_ends, v_now);
            END IF;
            RETURN NEXT ROW(v_seen.locked_at, 'stale_lock', v_id, v_audit, v_lease.owner, v_seen.locked_at,
                            v_ends OR v_audit IS NOT NULL AND NOT p_reschedule, v_ends)::logbook.finding;
        END LOOP;
        IF v_ends THEN
            PERFORM consign.end_lease(v_lease, v_now, p_delay);
        END IF;
    END LOOP;
END $$;
REVOKE ALL ON FUNCTION logbook.reconcile_leases(int, interval, boolean, boolean, interval) FROM PUBLIC;

-- Audits that have been pending for too long, oldest first; with p_repair they end as failed.
CREATE FUNCTION logbook.reconcile_pending(p_batch int, p_timeout interval, p_repair boolean, p_now timestamptz)
    RETURNS SETOF logbook.finding
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    IF NOT p_repair THEN
        RETURN QUERY SELECT a.created_at, 'hanging_audit', a.outbox_id, a.audit_id, NULL::text, NULL::timestamptz, false, false
            FROM governance.write_audit a WHERE a.status = 'pending' AND a.created_at < p_now - p_timeout
            ORDER BY a.created_at, a.audit_id LIMIT p_batch;
        RETURN;
    END IF;
    RETURN QUERY
        UPDATE governance.write_audit a
            SET status = 'failed', reason = concat(a.reason, ':audit_timeout'), updated_at = p_now,
                evidence_refs_json = governance.patched(a.evidence_refs_json, jsonb_build_object('reconcile_action', 'audit_timeout',
                    -- The next delivery asks the backend first.
                    'extra', '{"may_be_stored": true}'::jsonb,
                    'timeout_detected_at', logbook.iso(p_now), 'stale_duration_seconds', extract(epoch FROM p_now - a.created_at)::bigint))
            FROM (SELECT o.audit_id FROM governance.write_audit o WHERE o.status = 'pending' AND o.created_at < p_now - p_timeout
                      ORDER BY o.created_at, o.audit_id LIMIT p_batch FOR UPDATE SKIP LOCKED) old
            WHERE a.audit_id = old.audit_id AND a.status = 'pending'
            RETURNING a.created_at, 'hanging_audit', a.outbox_id, a.audit_id, NULL::text, NULL::timestamptz, true, false;
END $$;
REVOKE ALL ON FUNCTION logbook.reconcile_pending(int, interval, boolean, timestamptz) FROM PUBLIC;

-- Compares the outbox with its audits, oldest first, up to p_batch of each kind, and repairs what may be
-- repaired: writes missing audits, ends stale leases and hanging audits. Never changes what was sent or is
-- dead, never a text, never removes anything. An audit about a row that is not there is reported only, unless the row was sent
-- or dead and has left.
--
-- Whatever does not fit is found, however old; p_scan_window is how far back rows are counted.
CREATE FUNCTION logbook.reconcile_outbox(p_scan_window interval DEFAULT '24 hours', p_batch int DEFAULT 100,
                                         p_stale_after interval DEFAULT '10 minutes', p_audit_timeout interval DEFAULT '2 hours',
                                         p_repair boolean DEFAULT true, p_reschedule boolean DEFAULT true, p_delay interval DEFAULT '0',
                                         OUT sent_count bigint, OUT dead_count bigint, OUT stale_count bigint, OUT has_more boolean,
                                         OUT findings jsonb)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_now   timestamptz;
    v_left  bigint := logbook.left_below();
    v_found logbook.finding[];
BEGIN
    PERFORM consign.require_read_committed();
    IF coalesce(p_batch NOT BETWEEN 1 AND 10000, true) OR num_nulls(p_scan_window, p_stale_after, p_audit_timeout, p_repair, p_reschedule, p_delay) > 0
        OR least(p_scan_window, p_stale_after, p_audit_timeout, p_delay) < interval '0' OR consign.exact(p_delay) > interval '366 days'
    THEN
        RAISE EXCEPTION 'reconcile: batch must be from 1 to 10000, times must not be negative' USING ERRCODE = 'CN006';
    END IF;
    -- One at a time, or two would both write what is missing.
    IF p_repair THEN
        -- A row that only the owner can lock; an advisory lock could be held by any login.
        PERFORM FROM consign.schema_version v WHERE v.component = 'memory' AND v.version = 1 FOR UPDATE;
    END IF;
    v_now := consign.clock();
    SELECT count(*) INTO sent_count FROM consign.message m JOIN consign.attempt a ON a.message_id = m.id AND a.outcome = 'delivered'
        WHERE m.queue = 'memory' AND m.key IS NOT NULL AND a.finished_at >= v_now - p_scan_window;
    SELECT count(*) INTO dead_count FROM consign.dead d WHERE d.queue = 'memory' AND d.at >= v_now - p_scan_window;
    v_found := ARRAY(SELECT f FROM logbook.reconcile_outcomes(false, p_batch, p_repair, v_now) f)
        || ARRAY(SELECT f FROM logbook.reconcile_outcomes(true, p_batch, p_repair, v_now) f)
        || ARRAY(SELECT f FROM logbook.reconcile_leases(p_batch, p_stale_after, p_repair, p_reschedule, p_delay) f)
        || ARRAY(SELECT f FROM logbook.reconcile_pending(p_batch, p_audit_timeout, p_repair, v_now) f)
        || ARRAY(SELECT ROW(a.created_at, 'missing_outbox_row', a.outbox_id, a.audit_id, NULL, NULL, false, false)::logbook.finding
                     FROM governance.write_audit a WHERE a.outbox_id IS NOT NULL
                         AND NOT EXISTS (SELECT FROM consign.message m WHERE m.id = a.outbox_id AND m.queue = 'memory')
                         AND NOT (a.outbox_id < coalesce(v_left, 0) AND EXISTS (
                             SELECT FROM governance.write_audit o WHERE o.outbox_id = a.outbox_id
                                 AND o.reason ~ '^outbox_flush_(success|dedup_hit|dead)'))
                     ORDER BY a.created_at, a.audit_id LIMIT p_batch);
    SELECT count(*) FILTER (WHERE f.issue = 'stale_lock'),
           coalesce(jsonb_agg(to_jsonb(f) - 'at' ORDER BY f.at, f.audit_id, f.outbox_id), '[]')
        INTO stale_count, findings FROM unnest(v_found) f;
    -- Where something was repaired and the batch was full, the next call gets further.
    SELECT coalesce(bool_or(k.is_full), false) INTO has_more
        FROM (SELECT count(*) >= p_batch AND bool_or(f.fixed AND (f.issue <> 'stale_lock' OR f.rescheduled)) AS is_full FROM unnest(v_found) f GROUP BY f.issue) k;
END $$;
REVOKE ALL ON FUNCTION logbook.reconcile_outbox(interval, int, interval, interval, boolean, boolean, interval) FROM PUBLIC;

-- Whether evidence came with an audit.
CREATE FUNCTION logbook.has_evidence(p_document jsonb) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    RETURN p_document->'patches'->0 IS NOT NULL OR p_document->'attachments'->0 IS NOT NULL OR p_document->'external'->0 IS NOT NULL;
REVOKE ALL ON FUNCTION logbook.has_evidence(jsonb) FROM PUBLIC;

-- Whether all evidence of an audit that is the logbook's own can be found by its URI. The grammar is that of
-- uri in the crate for memories; a test holds the two together.
CREATE FUNCTION logbook.has_sound_evidence(p_document jsonb) RETURNS boolean
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on
    AS $$
    SELECT NOT EXISTS (SELECT FROM jsonb_array_elements(jsonb_path_query_array(p_document, '$.patches[*]')) r
                           WHERE coalesce(btrim(r->>'artifact_uri'), '') !~* '^memory:/{2,}patch_blobs/[a-z0-9_-]+/(?!\.{1,2}/)([^/\s?#%]|%[0-9a-f]{2})+/[0-9a-f]{64}/*$')
        AND NOT EXISTS (SELECT FROM jsonb_array_elements(jsonb_path_query_array(p_document, '$.attachments[*]')) r
                            WHERE coalesce(btrim(r->>'artifact_uri'), '') !~* '^memory:/{2,}attachments/(0|[1-9][0-9]{0,17})/[0-9a-f]{64}/*$') $$;
REVOKE ALL ON FUNCTION logbook.has_sound_evidence(jsonb) FROM PUBLIC;

-- Patches of repositories, and those of them that can be followed; none in a database without the app `scm`.
CREATE FUNCTION logbook.patch_counts() RETURNS jsonb
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    IF to_regclass('scm.patch_blobs') IS NULL THEN
        RETURN '[0, 0]';
    END IF;
    RETURN (SELECT jsonb_build_array(count(*), count(p.evidence_uri)) FROM scm.patch_blobs p);
END $$;
REVOKE ALL ON FUNCTION logbook.patch_counts() FROM PUBLIC;

-- The figures of the reliability report, of one moment. Walks the queue and all audits, once each.
CREATE FUNCTION logbook.memory_counts() RETURNS jsonb
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on SET jit = off
    AS $$
    WITH clock AS MATERIALIZED (SELECT consign.clock() AS now),
    named AS MATERIALIZED (SELECT DISTINCT a.outbox_id FROM governance.write_audit a
                               WHERE starts_with(a.reason, 'openmemory_write_failed:') AND a.outbox_id IS NOT NULL),
    outbox AS MATERIALIZED (
        SELECT count(*) FILTER (WHERE o.status = 'pending') AS pending, count(*) FILTER (WHERE o.status = 'sent') AS sent,
               count(*) FILTER (WHERE o.status = 'dead') AS dead, avg(o.retry_count) AS retry_count,
               min(o.created_at) FILTER (WHERE o.status = 'pending') AS pending_since,
               count(*) FILTER (WHERE o.correlation_id IS NOT NULL OR n.outbox_id IS NOT NULL) AS deferred
            FROM logbook.outbox_memory o LEFT JOIN named n ON n.outbox_id = o.outbox_id),
    departed AS MATERIALIZED (
        SELECT coalesce(sum(d.messages - d.dead), 0)::bigint AS sent, coalesce(sum(d.dead), 0)::bigint AS dead,
               -- Deferred rows that have left: their audits have what became of them.
               (SELECT count(*) FROM named n
                    WHERE n.outbox_id < logbook.left_below()
                        AND NOT EXISTS (SELECT FROM consign.message m WHERE m.id = n.outbox_id AND m.queue = 'memory')
                        AND EXISTS (SELECT FROM governance.write_audit o WHERE o.outbox_id = n.outbox_id
                                        AND o.reason ~ '^outbox_flush_(success|dedup_hit|dead)')) AS deferred
            FROM consign.departed d WHERE d.queue = 'memory'),
    waiting AS (SELECT o.backend, count(*) AS rows FROM logbook.outbox_memory o WHERE o.status = 'pending' AND o.backend IS NOT NULL
                    GROUP BY o.backend),
    fact AS (
        SELECT a.action, a.status, a.created_at >= c.now - interval '24 hours' AS is_of_today,
               a.created_at >= c.now - interval '7 days' AS is_of_week,
               CASE WHEN starts_with(a.reason, 'policy:') THEN 'policy'
                    WHEN starts_with(a.reason, 'openmemory_write_failed:') THEN 'openmemory_write_failed'
                    WHEN a.reason IN ('outbox_flush_success', 'dedup_hit') THEN a.reason ELSE 'other' END AS reason,
               a.evidence_refs_json AS document, a.evidence_refs_json->'gateway_event' AS event
            FROM governance.write_audit a, clock c OFFSET 0),
    judged AS (
        SELECT t.*, t.event->>'operation' = 'memory_store' AS is_write, t.event->>'policy_mode' AS mode,
               logbook.has_evidence(t.document) AS has_evidence, t.event->'trim'->>'why' AS why
            FROM fact t OFFSET 0),
    audit AS MATERIALIZED (
        SELECT count(*) FILTER (WHERE j.action = 'allow') AS allow, count(*) FILTER (WHERE j.action = 'redirect') AS redirect,
               count(*) FILTER (WHERE j.action = 'reject') AS reject,
               count(*) FILTER (WHERE j.action = 'allow' AND j.is_write) AS write_allow,
               count(*) FILTER (WHERE j.action = 'redirect' AND j.is_write) AS write_redirect,
               count(*) FILTER (WHERE j.action = 'reject' AND j.is_write) AS write_reject,
               count(*) FILTER (WHERE j.is_of_today) AS of_today,
               count(*) FILTER (WHERE j.reason = 'policy') AS policy,
               count(*) FILTER (WHERE j.reason = 'openmemory_write_failed') AS write_failed,
               count(*) FILTER (WHERE j.reason = 'outbox_flush_success') AS flush_success,
               count(*) FILTER (WHERE j.reason = 'dedup_hit') AS dedup_hit,
               count(*) FILTER (WHERE j.reason = 'other') AS other,
               count(*) FILTER (WHERE j.has_evidence) AS has_evidence,
               count(*) FILTER (WHERE j.has_evidence AND NOT logbook.has_sound_evidence(j.document)) AS is_unsound,
               count(*) FILTER (WHERE j.is_of_week) AS of_week,
               count(*) FILTER (WHERE j.is_of_week AND j.mode = 'strict') AS strict,
               count(*) FILTER (WHERE j.is_of_week AND j.mode = 'compat') AS compat,
               count(*) FILTER (WHERE j.is_of_week AND j.has_evidence) AS week_evidence,
               count(*) FILTER (WHERE j.why ~ '\mdiff\M') AS is_diff, count(*) FILTER (WHERE j.why ~ '\mlog\M') AS is_log,
               count(*) FILTER (WHERE j.why ~ '\m(diff|log)\M') AS is_cut,
               count(*) FILTER (WHERE j.why ~ '\m(diff|log)\M' AND j.is_of_today) AS is_cut_today,
               count(*) FILTER (WHERE j.status = 'pending') AS pending
            FROM judged j)
    SELECT jsonb_build_object(
        'outbox', jsonb_build_object('pending', o.pending, 'sent', o.sent, 'dead', o.dead),
        'departed', jsonb_build_object('sent', g.sent, 'dead', g.dead),
        'average_retry_count', coalesce(o.retry_count, 0)::float8,
        'pending_by_backend', (SELECT coalesce(jsonb_object_agg(w.backend, w.rows), '{}') FROM waiting w),
        'oldest_pending_age_seconds', extract(epoch FROM c.now - o.pending_since)::float8,
        'audits', jsonb_build_object('allow', a.allow, 'redirect', a.redirect, 'reject', a.reject),
        'audits_24h', a.of_today,
        'reasons', jsonb_build_object('policy', a.policy, 'openmemory_write_failed', a.write_failed,
                                      'outbox_flush_success', a.flush_success, 'dedup_hit', a.dedup_hit, 'other', a.other),
        'writes', jsonb_build_object('allow', a.write_allow, 'redirect', a.write_redirect, 'reject', a.write_reject),
        'patch_blobs', logbook.patch_counts(),
        'attachments', (SELECT jsonb_build_array(count(*), count(*) FILTER (WHERE t.sha256 ~ '^[0-9a-f]{64}$')) FROM logbook.attachments t),
        'evidence', jsonb_build_array(a.has_evidence, a.is_unsound),
        'modes_7d', jsonb_build_array(a.of_week, a.strict, a.compat, a.week_evidence),
        'intercepted', jsonb_build_array(a.is_diff, a.is_log, a.is_cut, a.is_cut_today),
        'pending_audits', a.pending,
        'deferred', jsonb_build_array((SELECT count(*) FROM named), o.deferred + g.deferred))
        FROM clock c, outbox o, departed g, audit a $$;
REVOKE ALL ON FUNCTION logbook.memory_counts() FROM PUBLIC;

-- How many rows of the outbox stand how, and how many audits are pending: what is looked at all the time.
-- Walks the queue's index, not its messages.
CREATE FUNCTION logbook.outbox_counts(OUT pending bigint, OUT sent bigint, OUT dead bigint, OUT pending_audits bigint)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT p.pending, t.total - p.pending - d.dead, d.dead, (SELECT count(*) FROM governance.write_audit a WHERE a.status = 'pending')
        FROM (SELECT count(*) AS total FROM consign.message m WHERE m.queue = 'memory' AND m.key IS NOT NULL) t,
             (SELECT count(*) AS dead FROM consign.dead d WHERE d.queue = 'memory') d,
             (SELECT coalesce((SELECT sum(cardinality(r.ids)) FROM consign.ready r WHERE r.queue = 'memory'), 0)
                   + coalesce((SELECT sum(cardinality(l.ids)) FROM consign.lease l WHERE l.queue = 'memory'), 0)
                   + (SELECT count(*) FROM consign.held h WHERE h.queue = 'memory')
                   + (SELECT count(*) FROM consign.waiting w WHERE w.queue = 'memory') AS pending) p $$;
REVOKE ALL ON FUNCTION logbook.outbox_counts() FROM PUBLIC;

-- The write lock of a memory server that must not be written to by two at once. Nothing is lost
-- with it: after a crash of the database a write lock is free early, and two writes may meet.
CREATE UNLOGGED TABLE logbook.write_lock (
    destination text PRIMARY KEY,
    holder      text,
    expires_at  timestamptz NOT NULL,
    next_holder text,
    next_until  timestamptz
) WITH (fillfactor = 10);

-- Takes the write lock if it is free: it has no owner, or the owner's time is over, and no other process is next. A process
-- that finds it taken becomes next, if none is, and must call again within p_next_ttl to stay so.
CREATE FUNCTION logbook.take_write_lock(p_destination text, p_holder text, p_ttl interval, p_next_ttl interval DEFAULT '500 ms') RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_lock  logbook.write_lock;
    v_found boolean;
    v_now   timestamptz;
BEGIN
    IF num_nulls(p_destination, p_holder, p_ttl, p_next_ttl) > 0 OR least(p_ttl, p_next_ttl) <= interval '0'
        OR greatest(consign.exact(p_ttl), consign.exact(p_next_ttl)) > interval '1 hour'
    THEN
        RAISE EXCEPTION 'write lock: destination, holder and times must be given, and times be positive and at most an hour'
            USING ERRCODE = 'CN006';
    END IF;
    SELECT * INTO v_lock FROM logbook.write_lock t WHERE t.destination = p_destination FOR UPDATE;
    v_found := FOUND;
    v_now := consign.clock();
    IF NOT v_found THEN
        INSERT INTO logbook.write_lock (destination, holder, expires_at) VALUES (p_destination, p_holder, v_now + p_ttl)
            ON CONFLICT (destination) DO NOTHING;
        RETURN FOUND;
    ELSIF v_lock.next_holder <> p_holder AND v_lock.next_until > v_now THEN
        RETURN false;
    ELSIF v_lock.holder <> p_holder AND v_lock.expires_at > v_now THEN
        IF v_lock.next_holder IS DISTINCT FROM p_holder OR v_lock.next_until < v_now + p_next_ttl / 2 THEN
            UPDATE logbook.write_lock t SET next_holder = p_holder, next_until = v_now + p_next_ttl WHERE t.destination = p_destination;
        END IF;
        RETURN false;
    END IF;
    UPDATE logbook.write_lock t SET holder = p_holder, expires_at = v_now + p_ttl, next_holder = NULL, next_until = NULL
        WHERE t.destination = p_destination;
    RETURN true;
END $$;
REVOKE ALL ON FUNCTION logbook.take_write_lock(text, text, interval, interval) FROM PUBLIC;

-- Extends the write lock to p_ttl from now: held, wanted (held, and another holder is next) or lost.
CREATE FUNCTION logbook.renew_write_lock(p_destination text, p_holder text, p_ttl interval) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_lock logbook.write_lock;
    v_now  timestamptz;
BEGIN
    IF num_nulls(p_destination, p_holder, p_ttl) > 0 OR p_ttl <= interval '0' OR consign.exact(p_ttl) > interval '1 hour' THEN
        RAISE EXCEPTION 'write lock: destination, holder and time must be given, and the time be positive and at most an hour'
            USING ERRCODE = 'CN006';
    END IF;
    SELECT * INTO v_lock FROM logbook.write_lock t WHERE t.destination = p_destination AND t.holder = p_holder FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 'lost';
    END IF;
    v_now := consign.clock();
    UPDATE logbook.write_lock t SET expires_at = v_now + p_ttl WHERE t.destination = p_destination;
    RETURN CASE WHEN v_lock.next_until > v_now THEN 'wanted' ELSE 'held' END;
END $$;
REVOKE ALL ON FUNCTION logbook.renew_write_lock(text, text, interval) FROM PUBLIC;

-- Releases the write lock; returns whether the caller held it.
CREATE FUNCTION logbook.release_write_lock(p_destination text, p_holder text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    UPDATE logbook.write_lock t SET holder = NULL WHERE t.destination = p_destination AND t.holder = p_holder;
    RETURN FOUND;
END $$;
REVOKE ALL ON FUNCTION logbook.release_write_lock(text, text) FROM PUBLIC;
