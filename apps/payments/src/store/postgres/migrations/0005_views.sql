-- Views of payments. A view is read with its owner's rights, the functions in it run with the reader's.

-- Where the payments are that the rail does not have: ready, leased, held, waiting or dead; has_begun: it
-- may have been called. Without the tokens, which are permissions.
CREATE VIEW consign.payment_undelivered AS
    SELECT u.id AS message_id, 'ready' AS message_state, u.attempts, r.due_at, NULL::text AS owner, NULL::bigint AS fence,
           NULL::timestamptz AS claimed_at, NULL::timestamptz AS expires_at, NULL::boolean AS has_begun, NULL::text AS reason
        FROM consign.ready r, unnest(r.ids, r.attempts) AS u (id, attempts) WHERE r.queue = 'payments'
    UNION ALL
    SELECT u.id, 'leased', u.attempts, NULL, l.owner, l.fence, l.claimed_at, l.expires_at, l.presumed_begun OR u.id = ANY (l.begun), NULL
        FROM consign.lease l, unnest(l.ids, l.attempts) AS u (id, attempts) WHERE l.queue = 'payments'
    UNION ALL
    SELECT h.message_id, 'held', h.attempts, NULL, NULL, NULL, NULL, NULL, NULL, h.reason FROM consign.held h WHERE h.queue = 'payments'
    UNION ALL
    SELECT w.message_id, 'waiting', w.attempts, w.due_at, NULL, NULL, NULL, NULL, NULL, NULL
        FROM consign.waiting w WHERE w.queue = 'payments'
    UNION ALL
    SELECT d.message_id, 'dead', d.attempt_no, NULL, NULL, NULL, NULL, NULL, NULL,
           CASE WHEN a.outcome = 'dead' OR d.code = 'resolved' THEN d.code ELSE 'RETRY_CEILING_EXCEEDED' END
        FROM consign.dead d JOIN consign.attempt a ON a.message_id = d.message_id AND a.attempt_no = d.attempt_no
        WHERE d.queue = 'payments';

-- Everything unfinished. What is in a lease was due when it was claimed. The token is its holder's: readers do not see
-- it, also not of a lease that has expired by their snapshot, because it may have been renewed since.
CREATE VIEW consign.payment_outbox_pending AS
    SELECT p.outbox_id, p.instruction_id, p.participant_id, p.sequence_id, p.idempotency_key, p.rail_type,
           m.payload->'payload' AS payload, w.attempts AS attempt_count, coalesce(w.due_at, w.claimed_at) AS next_attempt_at,
           p.created_at, w.owner AS claimed_by,
           CASE WHEN (SELECT has_column_privilege('consign.lease', 'token', 'SELECT')) THEN l.token END AS lease_token,
           w.expires_at AS lease_expires_at, p.tenant_id, p.correlation_id, w.message_state = 'held' AS kyc_hold, w.reason AS hold_reason,
           w.message_state
        FROM consign.payment_undelivered w
        JOIN consign.payment p ON p.message_id = w.message_id
        JOIN consign.message m ON m.id = w.message_id
        LEFT JOIN consign.lease l ON l.fence = w.fence
        WHERE w.message_state <> 'dead';

-- What happened, one row per payment and lease. Nothing in it ever changes. The token is as in attempt_view: readers do
-- not see it. The payload is the message's and is not repeated here.
CREATE VIEW consign.payment_outbox_attempts AS
    SELECT md5(p.outbox_id || '/' || a.attempt_no)::uuid AS attempt_id, p.outbox_id, p.instruction_id, p.participant_id,
           p.sequence_id, p.idempotency_key, p.rail_type, a.attempt_no,
           consign.outbox_attempt_state(a.outcome, a.code, a.next_due_at) AS state,
           a.claimed_at, a.finished_at AS completed_at, a.result->>'rail_reference' AS rail_reference,
           a.result->>'rail_code' AS rail_code,
           CASE consign.outbox_attempt_state(a.outcome, a.code, a.next_due_at)
               WHEN 'DISPATCHED' THEN NULL
               WHEN 'ZOMBIE_REQUEUE' THEN 'ZOMBIE_REQUEUE'
               WHEN 'FAILED' THEN CASE WHEN a.outcome = 'dead' THEN a.code ELSE 'RETRY_CEILING_EXCEEDED' END
               ELSE a.code END AS error_code,
           -- The last error of what was tried too often stands before the message.
           CASE WHEN a.outcome IN ('retry', 'expired') AND a.next_due_at IS NULL
                THEN nullif(left(concat_ws(': ', a.code, a.detail), 500), '') ELSE left(a.detail, 500) END AS error_message,
           CASE WHEN a.result->>'latency_ms' ~ '^\d{1,18}$' THEN (a.result->>'latency_ms')::bigint END AS latency_ms, a.owner AS worker_id,
           CASE WHEN (SELECT has_column_privilege('consign.lease', 'token', 'SELECT')) THEN a.token END AS lease_token, a.fence,
           p.tenant_id, p.correlation_id, a.finished_at AS created_at, a.next_due_at AS next_attempt_at,
           -- Whether the rail may have received it in this attempt, with an unknown outcome.
           a.outcome = 'uncertain' OR coalesce(a.result @> '{"may_have_begun": true}', false) AS in_doubt
        FROM consign.attempt a JOIN consign.payment p ON p.message_id = a.message_id;

-- The views are read only; a write gets an error that explains why.
CREATE TRIGGER append_only INSTEAD OF INSERT OR UPDATE OR DELETE ON consign.payment_outbox_attempts
    FOR EACH ROW EXECUTE FUNCTION consign.refuse_change();

-- One row per lease of payments, those that end first at the top.
CREATE VIEW consign.payment_outbox_leases AS
    SELECT l.fence, l.owner AS worker_id, cardinality(l.ids) AS payments, cardinality(l.begun) AS begun, l.claimed_at,
           l.expires_at AS lease_expires_at, l.expires_at - consign.clock() AS remaining, l.expires_at <= consign.clock() AS is_expired
        FROM consign.lease l WHERE l.queue = 'payments'
        ORDER BY l.expires_at;

-- Attempts are written in the order of time, so a summary of each few pages finds those of the last hour
-- among millions, and costs next to nothing.
CREATE INDEX attempt_finished_at ON consign.attempt USING brin (finished_at) WITH (pages_per_range = 16, autosummarize = on);

-- How many attempts of payments ended after p_since, by state, of one tenant if given. The time is written
-- into the statement: the planner must see how little of the table it asks for.
CREATE FUNCTION consign.outbox_attempts_since(p_since timestamptz, p_tenant_id uuid DEFAULT NULL)
    RETURNS TABLE (state consign.outbox_attempt_state, count bigint)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off
    AS $$
BEGIN
    RETURN QUERY EXECUTE format('SELECT consign.outbox_attempt_state(a.outcome, a.code, a.next_due_at), count(*)
        FROM consign.attempt a JOIN consign.payment p ON p.message_id = a.message_id
        WHERE a.finished_at > %L AND ($1 IS NULL OR p.tenant_id = $1) GROUP BY 1', p_since) USING p_tenant_id;
END $$;
REVOKE ALL ON FUNCTION consign.outbox_attempts_since(timestamptz, uuid) FROM PUBLIC;

-- The supervisor's figures, one row. `stuck`: in a lease for more than two minutes.
CREATE VIEW consign.supervisor_outbox_status AS
    WITH pending AS MATERIALIZED (
        SELECT w.message_state, w.attempts, w.due_at, w.claimed_at, w.expires_at, p.created_at, consign.clock() AS now
            FROM consign.payment_undelivered w JOIN consign.payment p ON p.message_id = w.message_id),
    recent AS MATERIALIZED (SELECT * FROM consign.outbox_attempts_since(consign.clock() - interval '1 hour')),
    sums AS (
        SELECT count(*) FILTER (WHERE message_state IN ('ready', 'leased', 'waiting')) AS pending,
               count(*) FILTER (WHERE message_state = 'ready' AND due_at <= now) AS due,
               count(*) FILTER (WHERE message_state = 'ready' AND due_at > now) AS scheduled,
               count(*) FILTER (WHERE message_state = 'waiting') AS waiting,
               count(*) FILTER (WHERE message_state = 'leased') AS leased,
               count(*) FILTER (WHERE message_state = 'leased' AND expires_at <= now) AS expired,
               count(*) FILTER (WHERE message_state = 'leased' AND claimed_at < now - interval '2 minutes') AS stuck,
               count(*) FILTER (WHERE message_state = 'held') AS held,
               count(*) FILTER (WHERE message_state = 'dead') AS failed,
               count(*) FILTER (WHERE message_state = 'dead' AND attempts >= 5) AS dlq,
               count(*) FILTER (WHERE message_state IN ('ready', 'leased', 'waiting') AND attempts = 1) AS attempts_1,
               count(*) FILTER (WHERE message_state IN ('ready', 'leased', 'waiting') AND attempts = 2) AS attempts_2,
               count(*) FILTER (WHERE message_state IN ('ready', 'leased', 'waiting') AND attempts = 3) AS attempts_3,
               count(*) FILTER (WHERE message_state IN ('ready', 'leased', 'waiting') AND attempts = 4) AS attempts_4,
               count(*) FILTER (WHERE message_state IN ('ready', 'leased', 'waiting') AND attempts >= 5) AS attempts_5_plus,
               count(*) AS undispatched,
               min(created_at) FILTER (WHERE message_state IN ('ready', 'leased', 'waiting')) AS oldest_pending_at,
               extract(epoch FROM max(now - created_at) FILTER (WHERE message_state IN ('ready', 'leased', 'waiting'))) AS oldest_pending_seconds
            FROM pending)
    SELECT s.pending, s.due, s.scheduled, s.waiting, s.leased, s.expired, s.stuck, s.held, s.failed, s.dlq,
           (SELECT count(*) FROM consign.payment) - s.undispatched
               -- Those that failed and have left are on record by their keys.
               - (SELECT count(*) FROM consign.message_key k WHERE k.queue = 'payments' AND k.died
                      AND NOT EXISTS (SELECT FROM consign.message m WHERE m.id = k.message_id)) AS dispatched,
           s.attempts_1, s.attempts_2, s.attempts_3, s.attempts_4, s.attempts_5_plus, s.oldest_pending_at, s.oldest_pending_seconds,
           coalesce((SELECT r.count FROM recent r WHERE r.state = 'DISPATCHED'), 0) AS dispatched_last_hour,
           coalesce((SELECT r.count FROM recent r WHERE r.state = 'RETRYABLE'), 0) AS retryable_last_hour,
           coalesce((SELECT r.count FROM recent r WHERE r.state = 'FAILED'), 0) AS failed_last_hour,
           coalesce((SELECT r.count FROM recent r WHERE r.state = 'ZOMBIE_REQUEUE'), 0) AS zombie_requeue_last_hour
        FROM sums s;

-- Messages whose rail reference begins like another's, and payments that were dispatched under none,
-- except by a resolution. Both scan every dispatch and find few: as functions, because the planner would estimate a third
-- of them and plan for that.
CREATE FUNCTION consign.shared_references() RETURNS SETOF bigint
    LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 10 SET search_path = pg_catalog, pg_temp SET jit = off SET work_mem = '64MB'
    AS $$
BEGIN
    RETURN QUERY SELECT unnest(array_agg(r.message_id)) FROM consign.attempt r
        WHERE r.outcome = 'delivered' AND r.result ? 'rail_reference'
        GROUP BY left(r.result->>'rail_reference', 200) HAVING count(*) > 1;
END $$;
REVOKE ALL ON FUNCTION consign.shared_references() FROM PUBLIC;

CREATE FUNCTION consign.unreferenced_dispatches() RETURNS SETOF bigint
    LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 10 SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on SET jit = off SET work_mem = '64MB'
    AS $$
BEGIN
    RETURN QUERY SELECT p.message_id FROM consign.payment p JOIN consign.attempt a ON a.message_id = p.message_id
        WHERE a.outcome = 'delivered' AND coalesce(a.result->>'rail_reference' !~ '\S', true) AND a.code IS DISTINCT FROM 'resolved';
END $$;
REVOKE ALL ON FUNCTION consign.unreferenced_dispatches() FROM PUBLIC;

-- References that a rail gave to several payments of one participant: an alarm.
CREATE VIEW consign.payment_outbox_reused_references AS
    SELECT p.participant_id, p.rail_type, a.result->>'rail_reference' AS rail_reference,
           array_agg(p.outbox_id ORDER BY p.message_id) AS outbox_ids, max(a.finished_at) AS at
        FROM consign.shared_references() AS u (id)
        JOIN consign.payment p ON p.message_id = u.id
        JOIN consign.attempt a ON a.message_id = u.id AND a.outcome = 'delivered'
        GROUP BY p.participant_id, p.rail_type, a.result->>'rail_reference' HAVING count(*) > 1;

-- What should be compared with the books of the rails. `kind`:
--   LATE_RESULT        the rail answered, the lease had ended; `verdict` is the state of the payment
--   UNCERTAIN          not finished, and the rail may have received the last call
--   FAILED_IN_DOUBT    given up, and the rail may have received the last call
--   MISSING_REFERENCE  dispatched under no reference: held, or recorded by a settle around the protocol
--   REUSED_REFERENCE   the rail gave its reference to another payment of the participant too
CREATE VIEW consign.payment_outbox_reconcile AS
    SELECT 'LATE_RESULT' AS kind, p.outbox_id, p.instruction_id, p.participant_id, p.rail_type, p.tenant_id, l.at, l.owner AS worker_id,
           l.result->>'rail_reference' AS rail_reference, l.code AS error_code,
           CASE WHEN l.outcome <> 'delivered' THEN 'RAIL_REFUSED'
                -- An operator has resolved the payment since.
                WHEN EXISTS (SELECT FROM consign.attempt r WHERE r.message_id = p.message_id AND r.code = 'resolved'
                                 AND r.finished_at >= l.at) THEN 'RESOLVED'
                WHEN EXISTS (SELECT FROM consign.dead x WHERE x.message_id = p.message_id) THEN 'FAILED'
                WHEN EXISTS (SELECT FROM consign.held h WHERE h.message_id = p.message_id) THEN 'HELD'
                WHEN d.message_id IS NULL THEN 'PENDING'
                WHEN d.result->>'rail_reference' = l.result->>'rail_reference' THEN 'CONFIRMED'
                ELSE 'PAID_TWICE' END AS verdict
        FROM consign.late l JOIN consign.payment p ON p.message_id = l.message_id
        LEFT JOIN consign.attempt d ON d.message_id = l.message_id AND d.outcome = 'delivered'
    UNION ALL
    SELECT CASE WHEN w.reason = 'MISSING_RAIL_REFERENCE' THEN 'MISSING_REFERENCE'
                WHEN w.message_state = 'dead' THEN 'FAILED_IN_DOUBT' ELSE 'UNCERTAIN' END, p.outbox_id,
           p.instruction_id, p.participant_id, p.rail_type, p.tenant_id, a.finished_at, a.owner, NULL, a.code,
           CASE w.message_state WHEN 'held' THEN 'HELD' WHEN 'dead' THEN 'FAILED' ELSE 'PENDING' END
        FROM consign.payment_undelivered w JOIN consign.payment p ON p.message_id = w.message_id
        JOIN LATERAL (SELECT r.* FROM consign.attempt r WHERE r.message_id = w.message_id
                          AND (r.outcome <> 'expired' OR r.result @> '{"may_have_begun": true}')
                          ORDER BY r.attempt_no DESC LIMIT 1) a ON a.outcome IN ('uncertain', 'expired')
        WHERE w.attempts > 0
    UNION ALL
    SELECT 'MISSING_REFERENCE', p.outbox_id, p.instruction_id, p.participant_id, p.rail_type, p.tenant_id, a.finished_at, a.owner,
           NULL, a.code, 'DISPATCHED'
        FROM consign.unreferenced_dispatches() u (id)
        JOIN consign.payment p ON p.message_id = u.id
        JOIN consign.attempt a ON a.message_id = u.id AND a.outcome = 'delivered'
    UNION ALL
    SELECT 'REUSED_REFERENCE', p.outbox_id, p.instruction_id, p.participant_id, p.rail_type, p.tenant_id, r.at, NULL,
           r.rail_reference, NULL, 'DISPATCHED'
        FROM consign.payment_outbox_reused_references r JOIN consign.payment p ON p.outbox_id = ANY (r.outbox_ids);

-- Whose rows a tenant's reader sees: those of the tenant that its login is bound to. The session's
-- app.current_tenant_id can only narrow that: while it names another tenant, no row is visible.
CREATE FUNCTION consign.current_tenant_id() RETURNS uuid
    LANGUAGE sql STABLE PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT t.tenant_id FROM consign.tenant_login t
        WHERE t.login = consign.acting_role()
            AND coalesce(nullif(lower(current_setting('app.current_tenant_id', true)), ''), t.tenant_id::text) = t.tenant_id::text $$;
REVOKE ALL ON FUNCTION consign.current_tenant_id() FROM PUBLIC;

-- Security barriers: no condition of the reader's is looked at before the tenant's.
CREATE VIEW consign.tenant_payment_outbox_pending WITH (security_barrier = true) AS
    SELECT * FROM consign.payment_outbox_pending q WHERE q.tenant_id = (SELECT consign.current_tenant_id());
CREATE VIEW consign.tenant_payment_outbox_attempts WITH (security_barrier = true) AS
    SELECT * FROM consign.payment_outbox_attempts a WHERE a.tenant_id = (SELECT consign.current_tenant_id());
