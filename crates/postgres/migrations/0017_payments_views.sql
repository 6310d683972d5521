-- Looking at payments. A view is read with its owner's rights, the functions in it run with the reader's.

-- Everything unfinished: waiting for its participant's turn, ready, in a lease, or held. The token is
-- shown to those who may use it.
CREATE VIEW consign.payment_outbox_pending AS
    SELECT p.outbox_id, p.instruction_id, p.participant_id, p.sequence_id, p.idempotency_key, p.rail_type,
           m.payload->'payload' AS payload, e.attempts AS attempt_count, e.due_at AS next_attempt_at, p.created_at,
           e.owner AS claimed_by,
           CASE WHEN (SELECT has_function_privilege('consign.complete_outbox_attempt(uuid,uuid,text,consign.outbox_attempt_state,text,text,text,text,int,int)', 'EXECUTE'))
                THEN e.token END AS lease_token,
           e.expires_at AS lease_expires_at, p.tenant_id, p.correlation_id, e.place = 'HELD' AS kyc_hold, e.reason AS hold_reason,
           e.place AS place
        FROM (SELECT u.id, u.attempts, r.due_at, NULL::text AS owner, NULL::uuid AS token, NULL::timestamptz AS expires_at,
                     NULL::text AS reason, 'READY' AS place
                  FROM consign.ready r, unnest(r.ids, r.attempts) AS u (id, attempts) WHERE r.lane = 'payments'
              UNION ALL
              SELECT u.id, u.attempts, l.claimed_at, l.owner, l.token, l.expires_at, NULL, 'LEASED'
                  FROM consign.lease l, unnest(l.ids, l.attempts) AS u (id, attempts) WHERE l.lane = 'payments'
              UNION ALL
              SELECT h.message_id, h.attempts, NULL, NULL, NULL, NULL, h.reason, 'HELD' FROM consign.held h WHERE h.lane = 'payments'
              UNION ALL
              SELECT w.message_id, w.attempts, w.due_at, NULL, NULL, NULL, NULL, 'WAITING'
                  FROM consign.waiting w WHERE w.lane = 'payments') e
        JOIN consign.payment p ON p.message_id = e.id
        JOIN consign.message m ON m.id = e.id;

-- What happened, one row per lease that ended. Nothing in it ever changes. The payload is the message's
-- and is not repeated here.
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
           CASE WHEN a.outcome NOT IN ('delivered', 'dead') AND a.next_due_at IS NULL AND a.code IS DISTINCT FROM 'MISSING_RAIL_REFERENCE'
                THEN nullif(left(concat_ws(': ', a.code, a.detail), 1200), '') ELSE left(a.detail, 1000) END AS error_message,
           (a.result->>'latency_ms')::bigint AS latency_ms, a.owner AS worker_id, a.token AS lease_token, a.fence,
           p.tenant_id, p.correlation_id, a.finished_at AS created_at, a.next_due_at AS next_attempt_at
        FROM consign.attempt a JOIN consign.payment p ON p.message_id = a.message_id;

-- Nobody writes through the views, and whoever tries is told why.
CREATE TRIGGER append_only INSTEAD OF INSERT OR UPDATE OR DELETE ON consign.payment_outbox_attempts
    FOR EACH ROW EXECUTE FUNCTION consign.refuse_change();

-- One row per lease of payments, those that end first at the top.
CREATE VIEW consign.payment_outbox_leases AS
    SELECT l.fence, l.owner AS worker_id, cardinality(l.ids) AS payments, cardinality(l.begun) AS begun, l.claimed_at,
           l.expires_at AS lease_expires_at, l.expires_at - consign.clock() AS remaining, l.expires_at <= consign.clock() AS is_expired
        FROM consign.lease l WHERE l.lane = 'payments'
        ORDER BY l.expires_at;

-- The supervisor's figures, one row. `stuck`: in a lease for more than two minutes.
CREATE VIEW consign.supervisor_outbox_status AS
    WITH pending AS MATERIALIZED (
        SELECT q.place, q.attempt_count, q.next_attempt_at, q.created_at, q.lease_expires_at, consign.clock() AS now
            FROM consign.payment_outbox_pending q),
    recent AS MATERIALIZED (
        SELECT a.state FROM consign.payment_outbox_attempts a WHERE a.completed_at > consign.clock() - interval '1 hour'),
    dead AS MATERIALIZED (SELECT d.attempt_no FROM consign.dead d WHERE d.lane = 'payments'),
    sums AS (
        SELECT count(*) FILTER (WHERE place <> 'HELD') AS pending,
               count(*) FILTER (WHERE place = 'READY' AND next_attempt_at <= now) AS due,
               count(*) FILTER (WHERE place = 'READY' AND next_attempt_at > now) AS scheduled,
               count(*) FILTER (WHERE place = 'WAITING') AS waiting,
               count(*) FILTER (WHERE place = 'LEASED') AS leased,
               count(*) FILTER (WHERE place = 'LEASED' AND lease_expires_at <= now) AS expired,
               count(*) FILTER (WHERE place = 'LEASED' AND next_attempt_at < now - interval '2 minutes') AS stuck,
               count(*) FILTER (WHERE place = 'HELD') AS held,
               count(*) FILTER (WHERE place <> 'HELD' AND attempt_count = 1) AS attempts_1,
               count(*) FILTER (WHERE place <> 'HELD' AND attempt_count = 2) AS attempts_2,
               count(*) FILTER (WHERE place <> 'HELD' AND attempt_count = 3) AS attempts_3,
               count(*) FILTER (WHERE place <> 'HELD' AND attempt_count = 4) AS attempts_4,
               count(*) FILTER (WHERE place <> 'HELD' AND attempt_count >= 5) AS attempts_5_plus,
               min(created_at) FILTER (WHERE place <> 'HELD') AS oldest_pending_at,
               extract(epoch FROM max(now - created_at) FILTER (WHERE place <> 'HELD')) AS oldest_pending_seconds
            FROM pending)
    SELECT s.*, (SELECT count(*) FROM dead) AS failed, (SELECT count(*) FROM dead d WHERE d.attempt_no >= 5) AS dlq,
           (SELECT count(*) FROM consign.payment) - s.pending - s.held - (SELECT count(*) FROM dead) AS dispatched,
           (SELECT count(*) FROM recent r WHERE r.state = 'DISPATCHED') AS dispatched_last_hour,
           (SELECT count(*) FROM recent r WHERE r.state = 'RETRYABLE') AS retryable_last_hour,
           (SELECT count(*) FROM recent r WHERE r.state = 'FAILED') AS failed_last_hour,
           (SELECT count(*) FROM recent r WHERE r.state = 'ZOMBIE_REQUEUE') AS zombie_requeue_last_hour
        FROM sums s;

-- References that a rail gave to several payments of one participant: an alarm.
CREATE VIEW consign.payment_outbox_reused_references AS
    SELECT p.participant_id, p.rail_type, a.result->>'rail_reference' AS rail_reference,
           array_agg(p.outbox_id ORDER BY p.message_id) AS outbox_ids, max(a.finished_at) AS at
        FROM (SELECT left(r.result->>'rail_reference', 200) AS reference FROM consign.attempt r
                  WHERE r.outcome = 'delivered' AND r.result ? 'rail_reference'
                  GROUP BY left(r.result->>'rail_reference', 200) HAVING count(*) > 1) twice
        JOIN consign.attempt a ON a.outcome = 'delivered' AND a.result ? 'rail_reference'
            AND left(a.result->>'rail_reference', 200) = twice.reference
        JOIN consign.payment p ON p.message_id = a.message_id
        GROUP BY p.participant_id, p.rail_type, a.result->>'rail_reference' HAVING count(*) > 1;

-- What should be compared with the books of the rails. `kind`:
--   LATE_RESULT        the rail answered, the lease was gone; `verdict` says how the payment stands
--   UNCERTAIN          unfinished, and the last call of the rail may have been heard
--   MISSING_REFERENCE  dispatched under no reference: held, or recorded by somebody else's settle
--   REUSED_REFERENCE   the rail gave its reference to another payment of the participant too
CREATE VIEW consign.payment_outbox_reconcile AS
    SELECT 'LATE_RESULT' AS kind, p.outbox_id, p.instruction_id, p.participant_id, p.rail_type, p.tenant_id, l.at, l.owner AS worker_id,
           l.result->>'rail_reference' AS rail_reference, l.code AS error_code,
           CASE WHEN l.outcome <> 'delivered' THEN 'RAIL_REFUSED'
                WHEN EXISTS (SELECT FROM consign.dead x WHERE x.message_id = p.message_id) THEN 'FAILED'
                WHEN EXISTS (SELECT FROM consign.held h WHERE h.message_id = p.message_id) THEN 'HELD'
                WHEN d.message_id IS NULL THEN 'PENDING'
                WHEN d.result->>'rail_reference' = l.result->>'rail_reference' THEN 'CONFIRMED'
                ELSE 'PAID_TWICE' END AS verdict
        FROM consign.late l JOIN consign.payment p ON p.message_id = l.message_id
        LEFT JOIN consign.attempt d ON d.message_id = l.message_id AND d.outcome = 'delivered'
    UNION ALL
    SELECT CASE WHEN q.hold_reason = 'MISSING_RAIL_REFERENCE' THEN 'MISSING_REFERENCE' ELSE 'UNCERTAIN' END, q.outbox_id,
           q.instruction_id, q.participant_id, q.rail_type, q.tenant_id, a.finished_at, a.owner, NULL, a.code, q.place
        FROM consign.payment_outbox_pending q JOIN consign.payment p ON p.outbox_id = q.outbox_id
        JOIN LATERAL (SELECT r.* FROM consign.attempt r WHERE r.message_id = p.message_id AND r.outcome <> 'expired'
                          ORDER BY r.attempt_no DESC LIMIT 1) a ON a.outcome = 'uncertain'
        WHERE q.attempt_count > 0
    UNION ALL
    SELECT 'MISSING_REFERENCE', p.outbox_id, p.instruction_id, p.participant_id, p.rail_type, p.tenant_id, a.finished_at, a.owner,
           NULL, a.code, 'DISPATCHED'
        FROM consign.payment p JOIN consign.attempt a ON a.message_id = p.message_id
        WHERE a.outcome = 'delivered' AND NOT coalesce(a.result ? 'rail_reference', false) AND a.code IS DISTINCT FROM 'resolved'
    UNION ALL
    SELECT 'REUSED_REFERENCE', p.outbox_id, p.instruction_id, p.participant_id, p.rail_type, p.tenant_id, r.at, NULL,
           r.rail_reference, NULL, 'DISPATCHED'
        FROM consign.payment_outbox_reused_references r JOIN consign.payment p ON p.outbox_id = ANY (r.outbox_ids);

-- Whose rows a tenant's reader sees: the session's app.current_tenant_id. Unset or malformed, nobody's.
CREATE FUNCTION consign.current_tenant_id() RETURNS uuid
    LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    RETURN nullif(current_setting('app.current_tenant_id', true), '')::uuid;
EXCEPTION WHEN invalid_text_representation THEN
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION consign.current_tenant_id() FROM PUBLIC;

-- Security barriers: no condition of the reader's is looked at before the tenant's.
CREATE VIEW consign.tenant_payment_outbox_pending WITH (security_barrier = true) AS
    SELECT * FROM consign.payment_outbox_pending q WHERE q.tenant_id = (SELECT consign.current_tenant_id());
CREATE VIEW consign.tenant_payment_outbox_attempts WITH (security_barrier = true) AS
    SELECT * FROM consign.payment_outbox_attempts a WHERE a.tenant_id = (SELECT consign.current_tenant_id());
