-- The outbox of memories: the queue `memory`, under the names of the memory protocol.

CREATE FUNCTION logbook.memory_policy() RETURNS jsonb
    LANGUAGE sql IMMUTABLE
    RETURN consign.default_policy() || '{
        "lease_ttl_ms": 120000,
        "attempts_max": 5,
        "retry": {"kind": "exponential", "base_ms": 120000, "factor": 2.0, "max_ms": 3600000, "jitter": 0.3},
        "on_uncertain": "resend",
        "concurrency": 1,
        "timeout_ms": 35000,
        "payload_max_bytes": 1204096,
        "record_begin": true
    }'::jsonb;
REVOKE ALL ON FUNCTION logbook.memory_policy() FROM PUBLIC;

-- The key of a memory's nth row: of its space and text. A row that was sent stays as it is, so what has to be
-- sent once more, or to another backend, is a row of its own.
CREATE FUNCTION logbook.message_key(p_target_space text, p_payload_sha text, p_n int DEFAULT 1) RETURNS text
    LANGUAGE sql IMMUTABLE
    RETURN p_target_space || '#' || p_payload_sha || CASE WHEN p_n > 1 THEN '#' || p_n ELSE '' END;
REVOKE ALL ON FUNCTION logbook.message_key(text, text, int) FROM PUBLIC;

-- Whether a key is one of a memory's.
CREATE FUNCTION logbook.is_key(p_key text, p_target_space text, p_payload_sha text) RETURNS boolean
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT starts_with(p_key, logbook.message_key(p_target_space, p_payload_sha))
        AND substr(p_key, length(logbook.message_key(p_target_space, p_payload_sha)) + 1) ~ '^(#([2-9]|[1-9][0-9]{1,8}))?$' $$;
REVOKE ALL ON FUNCTION logbook.is_key(text, text, text) FROM PUBLIC;

-- The hash a memory is known by: SHA-256 over the bytes of its UTF-8, in lower-case hex.
CREATE FUNCTION logbook.payload_sha(p_payload_md text) RETURNS text
    LANGUAGE sql IMMUTABLE
    RETURN encode(sha256(convert_to(p_payload_md, 'UTF8')), 'hex');
REVOKE ALL ON FUNCTION logbook.payload_sha(text) FROM PUBLIC;

-- Rejects what is no memory: it would stop every worker that claims it, and one under another's key or hash would count as
-- stored. Headers are kept without credentials; see logbook.masked.
CREATE FUNCTION logbook.check_memories(p_queue text, p_ids bigint[], p_keys text[], p_groups text[], p_payloads jsonb[],
                                       p_headers jsonb[]) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    IF NOT consign.acts_as('consign_gateway') THEN
        RAISE EXCEPTION 'permission denied: % may not enqueue memories', consign.acting_role()
            USING ERRCODE = 'insufficient_privilege', HINT = 'That is for members of consign_gateway.';
    END IF;
    IF EXISTS (SELECT FROM unnest(p_keys, p_groups, p_payloads) AS m (key, "group", payload)
                   WHERE (jsonb_typeof(m.payload) = 'object' AND m.payload ?& ARRAY['target_space', 'payload_sha', 'payload_md']
                          AND m.payload - ARRAY['target_space', 'payload_sha', 'payload_md'] = '{}'
                          AND jsonb_typeof(m.payload->'target_space') = 'string' AND jsonb_typeof(m.payload->'payload_md') = 'string'
                          AND m.payload->>'target_space' <> '' AND m.payload->>'payload_sha' = logbook.payload_sha(m.payload->>'payload_md')
                          AND logbook.is_key(m.key, m.payload->>'target_space', m.payload->>'payload_sha')
                          AND m."group" IS NULL) IS NOT TRUE)
    THEN
        RAISE EXCEPTION 'queue memory: takes memories only, under the key of their space and hash'
            USING ERRCODE = 'CN006', HINT = 'Use logbook.enqueue_memory().';
    END IF;
    IF EXISTS (SELECT FROM unnest(p_headers) h WHERE logbook.masked(h) <> h) THEN
        RAISE EXCEPTION 'headers: hold credentials in a URI' USING ERRCODE = 'CN006', HINT = 'Use logbook.enqueue_memory(), which masks them.';
    END IF;
END $$;
REVOKE ALL ON FUNCTION logbook.check_memories(text, bigint[], text[], text[], jsonb[], jsonb[]) FROM PUBLIC;
SELECT consign.set_hook('memory', 'check', 'logbook.check_memories');

-- The queue of memories; created with the protocol's policy by the first memory.
CREATE FUNCTION logbook.make_queue() RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    IF EXISTS (SELECT FROM consign.queue WHERE name = 'memory' AND policy IS NOT NULL) THEN
        RETURN;
    END IF;
    UPDATE consign.queue SET policy = logbook.memory_policy() WHERE name = 'memory' AND policy IS NULL;
    IF FOUND THEN
        INSERT INTO consign.audit (at, actor, action, queue, reason)
            VALUES (consign.clock(), 'consign', 'queue', 'memory', 'the first memory');
    END IF;
END $$;
REVOKE ALL ON FUNCTION logbook.make_queue() FROM PUBLIC;

-- What the memory protocol has of a lease beyond the engine: how long it was claimed for.
CREATE TABLE logbook.claimed_for (
    fence  bigint PRIMARY KEY,
    length interval NOT NULL
);

-- The last attempt of a memory before it was requeued: retries are counted from there.
CREATE TABLE logbook.requeued (
    message_id bigint PRIMARY KEY,
    attempt_no int NOT NULL
);

-- When a lease was claimed or renewed last.
CREATE FUNCTION logbook.locked_at(p_fence bigint, p_expires_at timestamptz, p_queue text) RETURNS timestamptz
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT p_expires_at - coalesce((SELECT c.length FROM logbook.claimed_for c WHERE c.fence = p_fence),
        (SELECT interval '1 millisecond' * (n.policy->>'lease_ttl_ms')::bigint FROM consign.queue n WHERE n.name = p_queue)) $$;
REVOKE ALL ON FUNCTION logbook.locked_at(bigint, timestamptz, text) FROM PUBLIC;

-- Attempts of a memory that were or will be repeated, since it was last requeued; neither expiries nor workers
-- for another backend count.
CREATE FUNCTION logbook.retry_count(p_id bigint) RETURNS bigint
    -- In PL/pgSQL, as everything here that reads messages and attempts: it keeps its plans, and planning over many ranges
    -- takes longer than reading.
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan
    AS $$
BEGIN
    RETURN (SELECT count(*) FROM consign.attempt a
        WHERE a.message_id = p_id AND a.outcome IN ('retry', 'uncertain') AND a.next_due_at IS NOT NULL
            AND coalesce(a.code, '') NOT IN ('lease_expired', 'misdirected')
            AND a.attempt_no > coalesce((SELECT r.attempt_no FROM logbook.requeued r WHERE r.message_id = p_id), 0));
END $$;
REVOKE ALL ON FUNCTION logbook.retry_count(bigint) FROM PUBLIC;

-- The seed's table. In a lease, resting and held it reads `pending`. Of an erased memory, which has neither payload nor headers, the
-- key has space and hash, and the last audit the backend.
CREATE VIEW logbook.outbox_memory AS
    SELECT m.id AS outbox_id,
           CASE WHEN m.headers->>'item_id' ~ '^[0-9]{1,18}$' THEN (m.headers->>'item_id')::bigint END AS item_id,
           coalesce(m.payload->>'target_space', substring(m.key FROM '^(.*)#[0-9a-f]{64}(?:#[0-9]+)?$')) AS target_space,
           CASE WHEN e.message_id IS NULL THEN m.payload->>'payload_md' ELSE '[erased]' END AS payload_md,
           coalesce(m.payload->>'payload_sha', substring(m.key FROM '#([0-9a-f]{64})(?:#[0-9]+)?$')) AS payload_sha,
           CASE WHEN sent.message_id IS NOT NULL THEN 'sent' WHEN d.message_id IS NOT NULL THEN 'dead' ELSE 'pending' END AS status,
           -- As logbook.retry_count; a view's functions would need the reader's rights.
           (SELECT count(*) FROM consign.attempt a
                WHERE a.message_id = m.id AND a.outcome IN ('retry', 'uncertain') AND a.next_due_at IS NOT NULL
                    AND coalesce(a.code, '') NOT IN ('lease_expired', 'misdirected')
                    AND a.attempt_no > coalesce(q.attempt_no, 0))::int AS retry_count,
           coalesce(r.due_at, (SELECT a.next_due_at FROM consign.attempt a WHERE a.message_id = m.id AND a.next_due_at IS NOT NULL
                                   ORDER BY a.attempt_no DESC LIMIT 1), m.created_at) AS next_attempt_at,
           l.locked_at, l.owner AS locked_by,
           CASE WHEN sent.message_id IS NOT NULL THEN 'memory_id=' || (sent.result->>'memory_id')
                ELSE coalesce(d.detail, (SELECT a.detail FROM consign.attempt a WHERE a.message_id = m.id AND a.detail IS NOT NULL
                                             ORDER BY a.attempt_no DESC LIMIT 1), m.headers->>'last_error', d.code) END AS last_error,
           m.created_at,
           greatest(m.created_at, d.at, l.locked_at,
                    (SELECT max(a.finished_at) FROM consign.attempt a WHERE a.message_id = m.id)) AS updated_at,
           sent.result->>'memory_id' AS memory_id, m.headers->>'correlation_id' AS correlation_id,
           coalesce(sent.result->>'backend', m.headers->>'backend', CASE WHEN e.message_id IS NOT NULL THEN
               (SELECT w.evidence_refs_json->>'backend' FROM governance.write_audit w
                    WHERE w.outbox_id = m.id AND w.reason ~ '^outbox_flush_(success|dedup_hit|dead)' ORDER BY w.audit_id DESC LIMIT 1)
           END) AS backend,
           e.at AS erased_at
        FROM consign.message m
        LEFT JOIN consign.erasure e ON e.message_id = m.id
        LEFT JOIN consign.attempt sent ON sent.message_id = m.id AND sent.outcome = 'delivered'
        LEFT JOIN consign.dead d ON d.message_id = m.id
        LEFT JOIN logbook.requeued q ON q.message_id = m.id
        LEFT JOIN (SELECT u.id, y.due_at FROM consign.ready y, unnest(y.ids) AS u (id) WHERE y.queue = 'memory') r ON r.id = m.id
        LEFT JOIN (SELECT u.id, x.owner, x.expires_at - coalesce(c.length, interval '1 millisecond' * (n.policy->>'lease_ttl_ms')::bigint) AS locked_at
                       FROM consign.lease x JOIN consign.queue n ON n.name = x.queue
                       LEFT JOIN logbook.claimed_for c ON c.fence = x.fence, unnest(x.ids) AS u (id)
                       WHERE x.queue = 'memory') l ON l.id = m.id
        WHERE m.queue = 'memory' AND m.key IS NOT NULL;
REVOKE ALL ON logbook.outbox_memory FROM PUBLIC;

-- The rows of one memory are next to each other here, also where the number of one between them was forgotten.
CREATE INDEX message_key_memory ON consign.message_key (key COLLATE "C") WHERE queue = 'memory';

-- A row of a memory by its key. A row that has left or was erased is sent or dead; its audits name backend and memory_id.
CREATE TYPE logbook.memory_row AS (
    n int, message_id bigint, has_left boolean, is_erased boolean, status text, backend text, memory_id text, created_at timestamptz,
    sent_at timestamptz);

-- The rows of a memory whose keys are kept, in the order of their numbers.
CREATE FUNCTION logbook.memory_rows(p_target_space text, p_payload_sha text) RETURNS SETOF logbook.memory_row
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan
    AS $$
DECLARE
    v_first   CONSTANT text := logbook.message_key(p_target_space, p_payload_sha);
    v_key     record;
    v_row     logbook.memory_row;
    v_message consign.message;
    v_audit   governance.write_audit;
    v_erased  boolean;
BEGIN
    FOR v_key IN
        SELECT k.message_id, k.died, coalesce(nullif(substr(k.key, length(v_first) + 2), ''), '1')::int AS n
            FROM consign.message_key k
            -- `$` is the character after `#`.
            WHERE k.queue = 'memory' AND k.key COLLATE "C" >= v_first AND k.key COLLATE "C" < v_first || '$'
                AND logbook.is_key(k.key, p_target_space, p_payload_sha)
            ORDER BY 3
    LOOP
        SELECT * INTO v_message FROM consign.message m WHERE m.id = v_key.message_id;
        v_erased := v_message.payload = 'null' AND EXISTS (SELECT FROM consign.erasure e WHERE e.message_id = v_key.message_id);
        v_audit := NULL;
        IF v_message.id IS NULL OR v_erased THEN
            SELECT * INTO v_audit FROM governance.write_audit a
                WHERE a.outbox_id = v_key.message_id AND a.reason ~ '^outbox_flush_(success|dedup_hit|dead)'
                ORDER BY a.audit_id DESC LIMIT 1;
        END IF;
        IF v_message.id IS NULL THEN
            v_row := ROW(v_key.n, v_key.message_id, true, false, CASE WHEN v_key.died THEN 'dead' ELSE 'sent' END,
                         v_audit.evidence_refs_json->>'backend', v_audit.evidence_refs_json->>'memory_id', NULL, v_audit.created_at);
        ELSE
            SELECT v_key.n, v_message.id, false, v_erased, 'sent',
                   coalesce(a.result->>'backend', v_message.headers->>'backend', v_audit.evidence_refs_json->>'backend'),
                   a.result->>'memory_id', v_message.created_at, a.finished_at
                INTO v_row FROM consign.attempt a WHERE a.message_id = v_message.id AND a.outcome = 'delivered';
            IF NOT FOUND THEN
                v_row := ROW(v_key.n, v_message.id, false, v_erased,
                             CASE WHEN EXISTS (SELECT FROM consign.dead d WHERE d.message_id = v_message.id) THEN 'dead' ELSE 'pending' END,
                             coalesce(v_message.headers->>'backend', v_audit.evidence_refs_json->>'backend'), NULL, v_message.created_at, NULL);
            END IF;
        END IF;
        RETURN NEXT v_row;
    END LOOP;
END $$;
REVOKE ALL ON FUNCTION logbook.memory_rows(text, text) FROM PUBLIC;

-- Enqueues a memory: answers with its row, or with its twin's: the same text in the same space, for the same
-- backend (`backend` in the headers; none: any backend).
--
-- `twin`: pending, sent (under `memory_id`, if that is known), or requeued, because it was dead. With
-- p_beyond_sent a row that was sent is no twin. A row that is dead and has left or was erased cannot be requeued: the memory gets another.
-- Headers are those of the first; what a twin came with is in its own request's audit.
CREATE FUNCTION logbook.put_memory(p_target_space text, p_payload_md text, p_headers jsonb DEFAULT '{}',
                                   p_beyond_sent boolean DEFAULT false,
                                   OUT outbox_id bigint, OUT twin text, OUT memory_id text)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_sha      text := logbook.payload_sha(p_payload_md);
    v_payload  jsonb := jsonb_build_object('target_space', p_target_space, 'payload_sha', v_sha, 'payload_md', p_payload_md);
    v_enqueued record;
    v_row      logbook.memory_row;
    v_moved    record;
    v_n        int;
BEGIN
    IF coalesce(p_target_space, '') = '' OR octet_length(p_target_space) > 440 OR p_target_space ~ '[[:cntrl:]]' THEN
        RAISE EXCEPTION 'target_space: must be 1 to 440 bytes without control characters' USING ERRCODE = 'CN006';
    ELSIF p_payload_md IS NULL THEN
        RAISE EXCEPTION 'payload_md: must not be null' USING ERRCODE = 'CN006';
    END IF;
    PERFORM logbook.make_queue();
    <<anew>>
    LOOP
        twin := NULL;
        v_n := 1;
        FOR v_row IN SELECT r.* FROM logbook.memory_rows(p_target_space, v_sha) r LOOP
            v_n := v_row.n + 1;
            CONTINUE WHEN v_row.backend <> p_headers->>'backend' OR v_row.status = 'sent' AND p_beyond_sent
                OR v_row.status = 'dead' AND (v_row.has_left OR v_row.is_erased);
            twin := v_row.status;
            IF v_row.status = 'pending' THEN
                -- An erasure waits for this: it removes what the caller's audit says of the row, or it is seen here.
                PERFORM FROM consign.message m WHERE m.id = v_row.message_id FOR SHARE;
                CONTINUE anew WHEN EXISTS (SELECT FROM consign.erasure e WHERE e.message_id = v_row.message_id);
            END IF;
            IF v_row.status = 'dead' THEN
                SELECT p.* INTO STRICT v_moved
                    FROM consign.put_back(ARRAY[v_row.message_id], 'requeue', 'gateway', 'the same memory came again') p;
                -- It was requeued or erased or has left since it was read.
                CONTINUE anew WHEN v_moved.answer <> 'moved';
                twin := 'requeued';
            END IF;
            outbox_id := v_row.message_id;
            memory_id := v_row.memory_id;
            RETURN;
        END LOOP;
        SELECT e.* INTO STRICT v_enqueued FROM consign.enqueue_many('memory', ARRAY[v_payload],
            ARRAY[logbook.message_key(p_target_space, v_sha, v_n)], NULL, ARRAY[logbook.masked(coalesce(p_headers, '{}'))]) e;
        outbox_id := v_enqueued.id;
        -- A duplicate was committed since the rows were read.
        EXIT WHEN NOT v_enqueued.duplicate;
    END LOOP;
END $$;
REVOKE ALL ON FUNCTION logbook.put_memory(text, text, jsonb, boolean) FROM PUBLIC;

-- Enqueues a memory without any audit; the row's number, its twin's if there is one. A row without a backend
-- goes to that of the worker who claims it.
CREATE FUNCTION logbook.enqueue_memory(payload_md text, target_space text, item_id bigint DEFAULT NULL,
                                       last_error text DEFAULT NULL, backend text DEFAULT NULL) RETURNS bigint
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT p.outbox_id FROM logbook.put_memory($2, $1,
        jsonb_strip_nulls(jsonb_build_object('item_id', $3, 'last_error', $4, 'backend', $5))) p $$;
REVOKE ALL ON FUNCTION logbook.enqueue_memory(text, text, bigint, text, text) FROM PUBLIC;

-- Enqueues a memory and ends its request's audit, both or neither; a row that was sent is passed over, since
-- the caller that defers a memory has found that it is not there. The row's number goes behind the
-- reason and into the JSON, also of gateway_event, whose decision follows. `audited`: there was a pending audit.
CREATE FUNCTION logbook.defer_memory(p_target_space text, p_payload_md text, p_headers jsonb, p_correlation_id text, p_status text,
                                     p_action text DEFAULT NULL, p_reason text DEFAULT NULL, p_patch jsonb DEFAULT '{}',
                                     OUT outbox_id bigint, OUT twin text, OUT memory_id text, OUT audited boolean)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_audit  governance.write_audit;
    v_reason text;
    v_patch  jsonb := coalesce(p_patch, '{}');
    v_event  jsonb;
BEGIN
    SELECT p.* INTO STRICT outbox_id, twin, memory_id FROM logbook.put_memory(p_target_space, p_payload_md, p_headers, true) p;
    SELECT * INTO v_audit FROM governance.write_audit a WHERE a.correlation_id = p_correlation_id AND a.status = 'pending' FOR UPDATE;
    v_reason := concat(coalesce(p_reason, v_audit.reason), ':outbox:', outbox_id);
    IF jsonb_typeof(v_patch) = 'object' THEN
        v_patch := v_patch || jsonb_build_object('outbox_id', outbox_id);
        v_event := governance.patched(v_audit.evidence_refs_json, v_patch)->'gateway_event';
        IF jsonb_typeof(v_event) = 'object' THEN
            v_event := v_event || jsonb_build_object('outbox_id', outbox_id);
            IF jsonb_typeof(v_event->'decision') = 'object' THEN
                v_event := jsonb_set(v_event, '{decision}', v_event->'decision'
                    || jsonb_build_object('action', coalesce(p_action, v_audit.action), 'reason', v_reason));
            END IF;
            v_patch := v_patch || jsonb_build_object('gateway_event', v_event);
        END IF;
    END IF;
    audited := governance.update_write_audit(p_correlation_id, p_status, p_action, v_reason, v_patch) > 0;
END $$;
REVOKE ALL ON FUNCTION logbook.defer_memory(text, text, jsonb, text, text, text, text, jsonb) FROM PUBLIC;

CREATE TYPE logbook.stored_memory AS (
    outbox_id bigint, target_space text, payload_sha text, status text, last_error text, created_at timestamptz,
    updated_at timestamptz, memory_id text);

-- The memory that was stored last in this space under this hash: sent through the outbox, or directly within a
-- request (then without a row). No rows: there is none. With a backend only what was stored there counts, and what
-- names none. Whether the backend still has it is for the backend to answer.
CREATE FUNCTION logbook.check_dedup(target_space text, payload_sha text, backend text DEFAULT NULL) RETURNS SETOF logbook.stored_memory
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_stored logbook.stored_memory;
BEGIN
    -- One with a name before those that were sent without: their audits know them also after their rows have left.
    SELECT coalesce(a.outbox_id, CASE WHEN a.evidence_refs_json->>'original_outbox_id' ~ '^[0-9]{1,18}$'
                                      THEN (a.evidence_refs_json->>'original_outbox_id')::bigint END),
           $1, $2, 'sent', 'memory_id=' || (a.evidence_refs_json->>'memory_id'), a.created_at, coalesce(a.updated_at, a.created_at),
           a.evidence_refs_json->>'memory_id'
        INTO v_stored FROM governance.write_audit a
        WHERE a.payload_sha = $2 AND a.target_space = $1 AND a.status = 'success'
            AND (a.evidence_refs_json->>'memory_id' IS NOT NULL AND a.evidence_refs_json->'gateway_event'->>'operation' = 'memory_store'
                 OR a.evidence_refs_json->'gateway_event'->>'operation' IN ('outbox_flush', 'outbox_reconcile'))
            AND ($3 IS NULL OR a.evidence_refs_json->>'backend' IS NULL OR a.evidence_refs_json->>'backend' = $3)
        ORDER BY a.evidence_refs_json->>'memory_id' IS NULL, a.audit_id DESC LIMIT 1;
    IF FOUND THEN
        RETURN NEXT v_stored;
        RETURN;
    END IF;
    -- What was sent without its audit.
    RETURN QUERY SELECT r.message_id, $1, $2, 'sent', 'memory_id=' || r.memory_id, r.created_at, r.sent_at, r.memory_id
        FROM logbook.memory_rows($1, $2) r
        WHERE r.status = 'sent' AND NOT r.has_left AND ($3 IS NULL OR coalesce(r.backend, $3) = $3) ORDER BY r.n LIMIT 1;
END $$;
REVOKE ALL ON FUNCTION logbook.check_dedup(text, text, text) FROM PUBLIC;

-- Whether a request may have stored this text there without a record of it: its audit is
-- pending, or ended with `may_be_stored`.
CREATE FUNCTION logbook.may_be_stored(p_target_space text, p_payload_sha text, p_backend text) RETURNS boolean
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT EXISTS (
        SELECT FROM governance.write_audit a
            WHERE a.payload_sha = p_payload_sha AND a.target_space = p_target_space
                AND (a.status = 'pending' OR a.status <> 'success' AND a.evidence_refs_json->'extra'->'may_be_stored' = 'true')
                AND coalesce(a.evidence_refs_json->>'backend' = p_backend, true)) $$;
REVOKE ALL ON FUNCTION logbook.may_be_stored(text, text, text) FROM PUBLIC;

-- Whether a row of the outbox for this backend waits or was given up. One that was given up and has left is known by its audit.
CREATE FUNCTION logbook.has_unsent_row(p_target_space text, p_payload_sha text, p_backend text) RETURNS boolean
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    RETURN EXISTS (SELECT FROM logbook.memory_rows(p_target_space, p_payload_sha) r
                       WHERE r.status <> 'sent' AND NOT r.has_left AND coalesce(r.backend = p_backend, true))
        OR EXISTS (SELECT FROM governance.write_audit a
                       WHERE a.payload_sha = p_payload_sha AND a.target_space = p_target_space AND starts_with(a.reason, 'outbox_flush_dead')
                           AND coalesce(a.evidence_refs_json->>'backend' = p_backend, true)
                           AND NOT EXISTS (SELECT FROM consign.message m WHERE m.id = a.outbox_id)
                           -- Requeued, and sent before it left.
                           AND NOT EXISTS (SELECT FROM governance.write_audit s WHERE s.outbox_id = a.outbox_id
                                               AND s.reason ~ '^outbox_flush_(success|dedup_hit)'));
END $$;
REVOKE ALL ON FUNCTION logbook.has_unsent_row(text, text, text) FROM PUBLIC;

-- Begins a write: writes its pending audit if what it was decided by still holds and the memory was not
-- stored already in the backend that the audit names. With p_kept the memory is kept here, and its audit has ended.
--
-- `answer`: pending, `in_doubt` if the backend may have it all the same; kept, as `memory_id`; known, as `memory_id`
-- or by the row `outbox_id`; stale, because the settings differ from p_settings or p_user_id is no active user.
-- Nothing is written for the last two.
CREATE FUNCTION logbook.open_write(p_actor_user_id text, p_target_space text, p_action text, p_reason text, p_payload_sha text,
                                   p_evidence_refs_json jsonb, p_correlation_id text, p_settings jsonb DEFAULT NULL,
                                   p_user_id text DEFAULT NULL, p_deduplicated boolean DEFAULT true, p_kept jsonb DEFAULT NULL,
                                   OUT answer text, OUT outbox_id bigint, OUT memory_id text, OUT is_new boolean, OUT in_doubt boolean)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_backend text := p_evidence_refs_json->>'backend';
    v_patch   jsonb;
    v_is_gone boolean := false;
BEGIN
    IF p_settings IS NOT NULL AND NOT EXISTS (
            SELECT FROM governance.settings s
                WHERE s.project_key = p_settings->>'project_key' AND s.policy_json = p_settings->'policy_json'
                    AND s.team_write_enabled = (p_settings->>'team_write_enabled')::boolean)
        OR p_user_id IS NOT NULL AND NOT EXISTS (SELECT FROM identity.users u WHERE u.user_id = p_user_id AND u.is_active)
    THEN
        answer := 'stale';
        RETURN;
    END IF;
    -- Waits for a transaction that stores the same memory; afterwards its audit is visible.
    FOR v_look IN 1 .. 2 LOOP
        IF p_deduplicated THEN
            SELECT 'known', d.outbox_id, d.memory_id INTO answer, outbox_id, memory_id
                FROM logbook.check_dedup(p_target_space, p_payload_sha, v_backend) d;
            IF FOUND AND p_kept IS NULL THEN
                RETURN;
            ELSIF FOUND THEN
                memory_id := logbook.kept_memory(p_target_space, p_payload_sha);
                IF memory_id IS NOT NULL THEN
                    RETURN;
                END IF;
                v_is_gone := true;
            END IF;
        END IF;
        EXIT WHEN p_kept IS NULL OR v_look = 2;
        SELECT k.memory_id, k.is_new INTO STRICT memory_id, is_new
            FROM logbook.keep_memory(p_target_space, p_kept->>'payload_md', p_kept->>'kind', p_kept->>'actor_user_id',
                                     p_kept->'meta_json', p_kept->'evidence', p_kept->>'supersedes') k;
        EXIT WHEN is_new;
    END LOOP;
    outbox_id := NULL;
    IF p_kept IS NULL THEN
        answer := 'pending';
        in_doubt := logbook.may_be_stored(p_target_space, p_payload_sha, v_backend)
            OR logbook.has_unsent_row(p_target_space, p_payload_sha, v_backend);
        PERFORM governance.insert_write_audit(p_actor_user_id, p_target_space, p_action, p_reason, p_payload_sha, p_evidence_refs_json,
                                              p_correlation_id, 'pending');
        RETURN;
    END IF;
    answer := 'kept';
    v_patch := jsonb_build_object('memory_id', memory_id, 'gateway_event', jsonb_build_object('memory_id', memory_id));
    IF v_is_gone THEN
        v_patch := v_patch || '{"extra": {"stored_again": true}}';
    END IF;
    PERFORM governance.insert_write_audit(p_actor_user_id, p_target_space, p_action, p_reason, p_payload_sha,
        governance.patched(p_evidence_refs_json, v_patch), p_correlation_id, 'success');
END $$;
REVOKE ALL ON FUNCTION logbook.open_write(text, text, text, text, text, jsonb, text, jsonb, text, boolean, jsonb) FROM PUBLIC;

-- Leases up to `limit` due rows to a worker, a lease for each, oldest first.
--
-- The functions below find the lease by the worker's name and return false if the worker has no live one. A lease lasts as
-- long as its owner requested; 0 requests the shortest lease.
-- The sink may be called as soon as this has answered: what is not acknowledged is in doubt.
CREATE FUNCTION logbook.claim_outbox(worker_id text, "limit" int DEFAULT 10, lease_seconds numeric DEFAULT 60)
    RETURNS SETOF logbook.outbox_memory
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_length interval := make_interval(secs => greatest($3, 0.001)::float8);
    v_lease  consign.lease;
    v_ids    bigint[] := '{}';
    v_id     bigint;
BEGIN
    IF coalesce($1, '') = '' OR octet_length($1) > 256 OR coalesce($2 NOT BETWEEN 0 AND 1000, true)
        OR coalesce($3 NOT BETWEEN 0 AND 86400, true)
    THEN
        RAISE EXCEPTION 'claim_outbox: worker_id must be 1 to 256 bytes, limit 0 to 1000, lease_seconds 0 to a day'
            USING ERRCODE = 'CN006';
    END IF;
    PERFORM logbook.make_queue();
    FOR v_nth IN 1 .. $2 LOOP
        SELECT (d.lease).* INTO v_lease FROM consign.lease_due('memory', $1, 1, v_length, '-infinity', true, true, NULL) d;
        EXIT WHEN v_lease.fence IS NULL;
        INSERT INTO logbook.claimed_for (fence, length) VALUES (v_lease.fence, v_length);
        v_ids := v_ids || v_lease.ids;
    END LOOP;
    -- Of leases that are over.
    DELETE FROM logbook.claimed_for c USING (
            SELECT o.fence FROM logbook.claimed_for o WHERE NOT EXISTS (SELECT FROM consign.lease l WHERE l.fence = o.fence)
                FOR UPDATE SKIP LOCKED) gone
        WHERE c.fence = gone.fence;
    -- One by one: a join with the view would read all ranges of messages.
    FOREACH v_id IN ARRAY v_ids LOOP
        RETURN QUERY SELECT o.* FROM logbook.outbox_memory o WHERE o.outbox_id = v_id;
    END LOOP;
END $$;
REVOKE ALL ON FUNCTION logbook.claim_outbox(text, int, numeric) FROM PUBLIC;

-- The live lease that a worker has of a row, locked; NULL if it has none.
CREATE FUNCTION logbook.live_lease(p_outbox_id bigint, p_worker_id text) RETURNS consign.lease
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_lease consign.lease;
BEGIN
    SELECT * INTO v_lease FROM consign.lease l
        WHERE l.queue = 'memory' AND l.owner = p_worker_id AND p_outbox_id = ANY (l.ids) FOR UPDATE;
    -- The clock is read under the lock: waiting for it must not turn a lost lease into a live one.
    IF v_lease.expires_at > consign.clock() THEN
        RETURN v_lease;
    END IF;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION logbook.live_lease(bigint, text) FROM PUBLIC;

-- Records a worker's report about a row under its lease. Without a lease it is rejected; the report of a lost lease is
-- recorded as a late result.
CREATE FUNCTION logbook.report(p_outbox_id bigint, p_worker_id text, p_outcome text, p_code text, p_detail text, p_result jsonb,
                               p_next_attempt_at timestamptz) RETURNS boolean
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_lease consign.lease := logbook.live_lease(p_outbox_id, p_worker_id);
    v_now   timestamptz := consign.clock();
    v_token uuid;
BEGIN
    p_detail := logbook.masked(p_detail);
    IF v_lease.fence IS NOT NULL THEN
        IF p_outcome = 'retry' THEN
            -- The caller counts the retries: one try is left whatever the queue's limit.
            v_lease.tries := ARRAY(SELECT least(t.tries, (n.policy->>'attempts_max')::int - 2)
                                       FROM unnest(v_lease.tries) WITH ORDINALITY AS t (tries, ord), consign.queue n
                                       WHERE n.name = 'memory' ORDER BY t.ord);
        END IF;
        PERFORM consign.record(v_lease, v_now, ARRAY[p_outbox_id], ARRAY[p_outcome], ARRAY[p_code], ARRAY[left(p_detail, 4096)],
                               ARRAY[p_result], ARRAY[greatest(p_next_attempt_at - v_now, interval '0')]);
        RETURN true;
    END IF;
    SELECT h.token INTO v_token
        FROM (SELECT l.token, l.fence FROM consign.lease l
                  WHERE l.queue = 'memory' AND l.owner = p_worker_id AND p_outbox_id = ANY (l.ids)
              UNION ALL
              SELECT a.token, a.fence FROM consign.attempt a JOIN consign.message m ON m.id = a.message_id AND m.queue = 'memory'
                  WHERE a.message_id = p_outbox_id AND a.owner = p_worker_id AND a.code = 'lease_expired') h
        -- Its last lease, if it ended that way.
        WHERE NOT EXISTS (SELECT FROM consign.attempt a WHERE a.message_id = p_outbox_id AND a.owner = p_worker_id AND a.fence > h.fence
                              AND a.code IS DISTINCT FROM 'lease_expired')
        ORDER BY h.fence DESC LIMIT 1;
    IF FOUND THEN
        PERFORM consign.record_late(v_token, ARRAY[p_outbox_id], ARRAY[p_outcome], ARRAY[p_code], ARRAY[p_detail], ARRAY[p_result]);
    END IF;
    RETURN false;
END $$;
REVOKE ALL ON FUNCTION logbook.report(bigint, text, text, text, text, jsonb, timestamptz) FROM PUBLIC;

-- It is stored.
CREATE FUNCTION logbook.ack_sent(outbox_id bigint, worker_id text, memory_id text DEFAULT NULL) RETURNS boolean
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT logbook.report($1, $2, 'delivered', 'stored', NULL, jsonb_strip_nulls(jsonb_build_object('memory_id', $3)), NULL) $$;
REVOKE ALL ON FUNCTION logbook.ack_sent(bigint, text, text) FROM PUBLIC;

-- It failed and is due again at a time, however often.
CREATE FUNCTION logbook.fail_retry(outbox_id bigint, worker_id text, error text, next_attempt_at timestamptz) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    IF coalesce($4 = 'infinity' OR $4 > consign.clock() + interval '366 days', true) THEN
        RAISE EXCEPTION 'next_attempt_at: must be a time within a year' USING ERRCODE = 'CN006';
    END IF;
    RETURN logbook.report($1, $2, 'retry', 'retry', $3, NULL, $4);
END $$;
REVOKE ALL ON FUNCTION logbook.fail_retry(bigint, text, text, timestamptz) FROM PUBLIC;

-- It cannot be stored.
CREATE FUNCTION logbook.mark_dead_by_worker(outbox_id bigint, worker_id text, error text) RETURNS boolean
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$ SELECT logbook.report($1, $2, 'dead', 'dead', $3, NULL, NULL) $$;
REVOKE ALL ON FUNCTION logbook.mark_dead_by_worker(bigint, text, text) FROM PUBLIC;

-- Starts the worker's lease anew, with the length it was claimed for.
CREATE FUNCTION logbook.renew_lease(outbox_id bigint, worker_id text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_lease consign.lease := logbook.live_lease($1, $2);
BEGIN
    IF v_lease.fence IS NULL THEN
        RETURN false;
    END IF;
    PERFORM consign.renew(v_lease.token, v_lease.expires_at - logbook.locked_at(v_lease.fence, v_lease.expires_at, 'memory'));
    RETURN true;
END $$;
REVOKE ALL ON FUNCTION logbook.renew_lease(bigint, text) FROM PUBLIC;

-- The same for several rows; how many leases were live.
CREATE FUNCTION logbook.renew_lease_batch(outbox_ids bigint[], worker_id text) RETURNS bigint
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$ SELECT count(*) FILTER (WHERE logbook.renew_lease(u.id, $2)) FROM (SELECT DISTINCT u AS id FROM unnest($1) u ORDER BY u) u $$;
REVOKE ALL ON FUNCTION logbook.renew_lease_batch(bigint[], text) FROM PUBLIC;
