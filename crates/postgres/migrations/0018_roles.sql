-- Least privilege: the four roles of the engine, to be granted to the logins of an installation. Apps bring their own.
-- Writing is done by functions only.

-- Roles belong to the cluster, not to the database, so they may exist already: another database may use consign too, and
-- may be migrating at the same time.
CREATE FUNCTION consign.make_role(p_role name) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = p_role) THEN
        RETURN;
    END IF;
    EXECUTE format('CREATE ROLE %I NOLOGIN', p_role);
EXCEPTION
    WHEN duplicate_object OR unique_violation THEN NULL;
    WHEN insufficient_privilege THEN
        RAISE EXCEPTION 'role % is missing and cannot be created by %', p_role, current_user
            USING ERRCODE = 'insufficient_privilege', HINT = format('Let an administrator run: CREATE ROLE %I NOLOGIN;', p_role);
END $$;
REVOKE ALL ON FUNCTION consign.make_role(name) FROM PUBLIC;

SELECT consign.make_role('consign_producer');
SELECT consign.make_role('consign_worker');
SELECT consign.make_role('consign_operator');
SELECT consign.make_role('consign_auditor');

GRANT USAGE ON SCHEMA consign TO consign_producer, consign_worker, consign_operator, consign_auditor;

GRANT EXECUTE ON FUNCTION
    consign.enqueue(text, jsonb, text, text, jsonb, interval, timestamptz, timestamptz),
    consign.enqueue_many(text, jsonb[], text[], text[], jsonb[], interval, timestamptz, timestamptz),
    consign.enqueue_mixed(text[], jsonb[], text[], text[], jsonb[], interval[], timestamptz[], timestamptz[]),
    consign.payload_limits(text[])
    TO consign_producer;

GRANT EXECUTE ON FUNCTION
    consign.claim(text, text, int, interval, timestamptz, bigint),
    consign.claim_packed(text, text, int, interval, timestamptz, bigint),
    consign.reserve_slots(text, int),
    consign.renew(uuid, interval),
    consign.release(uuid),
    consign.begin(uuid, bigint[]),
    consign.settle(uuid, bigint[], text[], text[], text[], jsonb[], interval[]),
    consign.settle_packed(uuid, bigint[], text[], text[], text[], jsonb[], interval[]),
    consign.record_late(uuid, bigint[], text[], text[], text[], jsonb[]),
    consign.expire(int),
    consign.until_due(text),
    consign.may_work(text),
    consign.register_idle(text, uuid, interval),
    consign.look(text, text[]),
    consign.forget_idle(),
    consign.record_breaker_open(text, text)
    TO consign_worker;
GRANT EXECUTE ON FUNCTION
    consign.heartbeat(text, text, interval, text[], bigint[], bigint[], bigint[], bigint[], bigint[], bigint[], jsonb, boolean),
    consign.sample_backlog(),
    consign.step_alerts(int)
    TO consign_worker, consign_operator;
-- A worker follows the policy of its queues.
GRANT SELECT ON consign.queue TO consign_worker;

GRANT EXECUTE ON FUNCTION
    consign.put_queue(text, jsonb, text, text),
    consign.pause(text, text, text),
    consign.resume(text, text, text),
    consign.requeue(bigint[], text, text),
    consign.hold(bigint[], text, text),
    consign.unhold(bigint[], text, text),
    consign.resolve(bigint[], text, text, text, jsonb),
    consign.discard(bigint[], text, text),
    consign.cancel(bigint[], text, text),
    consign.skip(text, text, text, text),
    consign.reveal(bigint, text, text),
    consign.resend(bigint, jsonb, text, text),
    consign.terminate_lease(text, text, text),
    consign.acknowledge(text, text, text, interval, text, text),
    consign.reopen(text, text, text),
    consign.erase(bigint[], text, text),
    consign.erase_key(text, text, text, text),
    consign.erase_correlation(text, text, text, bigint),
    consign.record_cleared(uuid, bigint[]),
    consign.start_redrive(text, text, text, text, bigint, bigint, text),
    consign.step_redrive(int),
    consign.stop_redrive(bigint, text, text),
    consign.resume_redrive(bigint, text, text),
    consign.put_schedule(text, text, text, text, jsonb, jsonb, text, text, int, timestamptz, text, text),
    consign.remove_schedule(text, text, text),
    consign.pause_schedule(text, text, text),
    consign.resume_schedule(text, text, text),
    consign.run_schedule(text, text, text),
    consign.tick(text, text, text, timestamptz, timestamptz[], bigint[], bigint, bigint, timestamptz),
    consign.lease_maintenance(text, uuid, interval),
    consign.prepare_ranges(uuid, bigint, interval),
    consign.begin_departure(uuid, boolean, boolean),
    consign.departing(bigint, bigint, int),
    consign.record_archive(uuid, bigint, text),
    consign.depart(uuid, bigint),
    consign.forget_keys(uuid, int),
    consign.record_pass(uuid, text),
    consign.count_closed(uuid),
    consign.sample_history(uuid)
    TO consign_operator;

-- Readers see everything but tokens: while its lease lives, a token can settle the lease's messages, and afterwards record
-- late results in its owner's name.
GRANT SELECT ON consign.queue, consign.message, consign.ready, consign.dead, consign.discarded, consign.held, consign.waiting, consign.group_head,
    consign.audit, consign.redrive, consign.schedule, consign.alert_event, consign.alert, consign.process, consign.queue_stats, consign.acknowledgement, consign.message_key, consign.erasure, consign.erasure_due, consign.range,
    consign.departure, consign.departed, consign.range_count, consign.growth TO consign_auditor, consign_operator;
GRANT SELECT (pass_at, pass_end, pass_since, passes, pass_ends) ON consign.maintenance TO consign_auditor, consign_operator;
GRANT SELECT (fence, claimed_at, expires_at, queue, owner, ids, tries, attempts, begun)
    ON consign.lease TO consign_auditor, consign_operator;
GRANT SELECT (message_id, fence, claimed_at, finished_at, next_due_at, attempt_no, outcome, owner, code, detail, result)
    ON consign.attempt TO consign_auditor, consign_operator;
GRANT SELECT (message_id, fence, at, outcome, owner, code, detail, result, after_all)
    ON consign.late TO consign_auditor, consign_operator;
GRANT EXECUTE ON FUNCTION consign.clock(), consign.state_of(bigint), consign.token_prefix(bigint), consign.may_leave(),
    consign.queue_totals(), consign.database_size()
    TO consign_auditor, consign_operator;
GRANT SELECT ON consign.schema_version TO consign_producer, consign_worker, consign_operator, consign_auditor;

-- Attempts and late results with a token column for those who may read it in `lease` anyway, and NULL for the others.
CREATE VIEW consign.attempt_view AS
    SELECT a.message_id, a.attempt_no, a.outcome, a.owner, a.fence,
           CASE WHEN (SELECT has_column_privilege('consign.lease', 'token', 'SELECT')) THEN a.token END AS token,
           a.claimed_at, a.finished_at, a.code, a.detail, a.result, a.next_due_at
        FROM consign.attempt a;
CREATE VIEW consign.late_view AS
    SELECT e.message_id, e.fence, e.at,
           CASE WHEN (SELECT has_column_privilege('consign.lease', 'token', 'SELECT')) THEN e.token END AS token,
           e.outcome, e.owner, e.code, e.detail, e.result, e.after_all
        FROM consign.late e;
GRANT SELECT ON consign.attempt_view, consign.late_view TO consign_auditor, consign_operator;
