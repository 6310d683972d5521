-- Least privilege: four roles of the engine to grant to the logins of an installation. Apps bring their own.
--
-- Roles belong to the cluster, not to the database, so they may exist already: another database
-- may use consign too, and may be migrating this very moment.
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
    consign.enqueue(text, jsonb, text, text, jsonb, interval),
    consign.enqueue_many(text, jsonb[], text[], text[], jsonb[], interval),
    consign.enqueue_mixed(text[], jsonb[], text[], text[], jsonb[], interval[]),
    consign.payload_limits(text[])
    TO consign_producer;

GRANT EXECUTE ON FUNCTION
    consign.claim(text, text, int, interval, timestamptz, bigint),
    consign.claim_packed(text, text, int, interval, timestamptz, bigint),
    consign.renew(uuid, interval),
    consign.release(uuid),
    consign.begin(uuid, bigint[]),
    consign.settle(uuid, bigint[], text[], text[], text[], jsonb[], interval[]),
    consign.settle_packed(uuid, bigint[], text[], text[], text[], jsonb[], interval[]),
    consign.expire(int),
    consign.until_due(text),
    consign.may_work(text)
    TO consign_worker;

GRANT EXECUTE ON FUNCTION
    consign.put_queue(text, jsonb, text, text),
    consign.pause(text, text, text),
    consign.resume(text, text, text),
    consign.requeue(bigint[], text, text),
    consign.hold(bigint[], text, text),
    consign.unhold(bigint[], text, text),
    consign.terminate_lease(text, text, text)
    TO consign_operator;

-- Attempts as readers see them: without the token. While its lease lasts, whoever has it could speak for what the lease
-- holds, and afterwards hand in late results in its owner's name. Only those see it who may read it in `lease` anyway.
CREATE VIEW consign.attempt_view AS
    SELECT a.message_id, a.attempt_no, a.outcome, a.owner, a.fence,
           CASE WHEN (SELECT has_column_privilege('consign.lease', 'token', 'SELECT')) THEN a.token END AS token,
           a.claimed_at, a.finished_at, a.code, a.detail, a.result, a.next_due_at
        FROM consign.attempt a;

-- Readers see everything but tokens.
GRANT SELECT ON consign.queue, consign.queue_grant, consign.hook, consign.message, consign.ready, consign.dead, consign.held,
    consign.waiting, consign.turn, consign.audit TO consign_auditor, consign_operator;
GRANT SELECT (fence, claimed_at, expires_at, queue, owner, ids, tries, attempts, begun)
    ON consign.lease TO consign_auditor, consign_operator;
GRANT SELECT (message_id, fence, claimed_at, finished_at, next_due_at, attempt_no, outcome, owner, code, detail, result)
    ON consign.attempt TO consign_auditor, consign_operator;
GRANT SELECT ON consign.attempt_view TO consign_auditor, consign_operator;
GRANT EXECUTE ON FUNCTION consign.clock(), consign.state_of(bigint), consign.token_prefix(bigint)
    TO consign_auditor, consign_operator;
-- A worker follows the policy of its queues.
GRANT SELECT ON consign.queue TO consign_worker;
GRANT SELECT ON consign.schema_version TO consign_producer, consign_worker, consign_operator, consign_auditor;
