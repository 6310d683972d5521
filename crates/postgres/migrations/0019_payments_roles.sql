-- Who may do what with payments: the roles of the payment protocol, beside those of consign. A role of
-- consign reaches every lane, a role of the protocol only payments.
DO $$
DECLARE
    v_role text;
BEGIN
    FOREACH v_role IN ARRAY ARRAY['symphony_control', 'symphony_executor', 'symphony_ingest', 'symphony_readonly',
                                  'symphony_auditor', 'symphony_tenant'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = v_role) THEN
            BEGIN
                EXECUTE format('CREATE ROLE %I NOLOGIN', v_role);
            EXCEPTION
                WHEN duplicate_object OR unique_violation THEN NULL;
                WHEN insufficient_privilege THEN
                    RAISE EXCEPTION 'role % is missing and cannot be created by %', v_role, current_user
                        USING ERRCODE = 'insufficient_privilege',
                              HINT = format('Let an administrator run: CREATE ROLE %I NOLOGIN;', v_role);
            END;
        END IF;
    END LOOP;
END $$;

GRANT USAGE ON SCHEMA consign TO symphony_control, symphony_executor, symphony_ingest, symphony_readonly, symphony_auditor,
    symphony_tenant;
GRANT SELECT ON consign.schema_version TO symphony_control, symphony_executor, symphony_ingest, symphony_readonly,
    symphony_auditor, symphony_tenant;

GRANT EXECUTE ON FUNCTION
    consign.enqueue_payment_outbox(text, text, text, text, jsonb, uuid, uuid, boolean, jsonb),
    consign.enqueue_payments(text[], text[], text[], text[], jsonb[], uuid[], uuid[], boolean[], jsonb[])
    TO consign_producer, symphony_control, symphony_ingest;

GRANT EXECUTE ON FUNCTION
    consign.claim_outbox_batch(int, text, int, boolean),
    consign.begin_outbox_attempts(uuid, text, uuid[]),
    consign.renew_outbox_lease(uuid, text, int),
    consign.release_outbox_lease(uuid, text),
    consign.complete_outbox_attempt(uuid, uuid, text, consign.outbox_attempt_state, text, text, text, text, int, int, boolean),
    consign.complete_outbox_attempts(uuid, text, uuid[], consign.outbox_attempt_state[], text[], text[], text[], text[], int[], int[], boolean[]),
    consign.complete_payments(uuid, text, uuid[], consign.outbox_attempt_state[], text[], text[], text[], text[], bigint[], interval[], boolean[], boolean),
    consign.hold_outbox_attempt(uuid, uuid, text, text, text, int),
    consign.witness_payments(uuid, text, uuid[], consign.outbox_attempt_state[], text[], text[], text[], text[], bigint[]),
    consign.witness_outbox_attempt(uuid, uuid, text, consign.outbox_attempt_state, text, text, text, text, int),
    consign.repair_expired_leases(int, text)
    TO consign_worker, symphony_control, symphony_executor;

-- What the views call, with the reader's rights.
GRANT EXECUTE ON FUNCTION consign.clock() TO symphony_control, symphony_readonly, symphony_auditor;
GRANT EXECUTE ON FUNCTION consign.outbox_attempts_since(timestamptz, uuid), consign.shared_references(), consign.unreferenced_dispatches()
    TO consign_operator, consign_auditor, symphony_control, symphony_readonly, symphony_auditor;
GRANT EXECUTE ON FUNCTION consign.outbox_attempt_state(consign.outcome, text, timestamptz)
    TO consign_operator, consign_auditor, symphony_control, symphony_readonly, symphony_auditor, symphony_tenant;
GRANT EXECUTE ON FUNCTION consign.current_tenant_id() TO symphony_tenant;

GRANT SELECT ON consign.payment_outbox_pending, consign.payment_outbox_attempts, consign.payment_outbox_leases,
    consign.supervisor_outbox_status, consign.payment_outbox_reused_references, consign.payment_outbox_reconcile
    TO consign_operator, consign_auditor, symphony_control, symphony_readonly, symphony_auditor;
GRANT SELECT ON consign.tenant_payment_outbox_pending, consign.tenant_payment_outbox_attempts TO symphony_tenant;
GRANT SELECT ON consign.payment TO consign_operator, consign_auditor, symphony_control, symphony_tenant;
GRANT SELECT ON consign.payment_place, consign.participant_outbox_sequences TO consign_operator, consign_auditor, symphony_control;

-- Whoever reads the table itself: a tenant its own rows, the others all of them. The owner, as whom every
-- function and view works, is not asked.
ALTER TABLE consign.payment ENABLE ROW LEVEL SECURITY;
CREATE POLICY everything ON consign.payment FOR SELECT TO consign_operator, consign_auditor, symphony_control USING (true);
CREATE POLICY own_tenant ON consign.payment FOR SELECT TO symphony_tenant USING (tenant_id = (SELECT consign.current_tenant_id()));
