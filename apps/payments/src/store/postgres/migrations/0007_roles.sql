-- The roles of the payment protocol, which have no rights beyond it. Of the engine's roles, operators and auditors have
-- rights here, producers and workers have none.
SELECT consign.make_role('symphony_control');
SELECT consign.make_role('symphony_executor');
SELECT consign.make_role('symphony_ingest');
SELECT consign.make_role('symphony_readonly');
SELECT consign.make_role('symphony_auditor');
SELECT consign.make_role('symphony_tenant');
UPDATE consign.queue SET workers = '{symphony_executor, symphony_control}' WHERE name = 'payments';

GRANT USAGE ON SCHEMA consign TO symphony_control, symphony_executor, symphony_ingest, symphony_readonly, symphony_auditor,
    symphony_tenant;
GRANT SELECT ON consign.schema_version TO symphony_control, symphony_executor, symphony_ingest, symphony_readonly,
    symphony_auditor, symphony_tenant;

GRANT EXECUTE ON FUNCTION
    consign.enqueue_payment_outbox(text, text, text, text, jsonb, uuid, uuid, boolean, jsonb),
    consign.enqueue_payments(text[], text[], text[], text[], jsonb[], uuid[], uuid[], boolean[], jsonb[])
    TO symphony_control, symphony_ingest;

GRANT EXECUTE ON FUNCTION
    consign.claim_outbox_batch(int, text, int, boolean),
    consign.begin_outbox_attempts(uuid, text, uuid[]),
    consign.renew_outbox_lease(uuid, text, int),
    consign.release_outbox_lease(uuid, text),
    consign.complete_outbox_attempt(uuid, uuid, text, consign.outbox_attempt_state, text, text, text, text, int, int, boolean),
    consign.complete_outbox_attempts(uuid, text, uuid[], consign.outbox_attempt_state[], text[], text[], text[], text[], int[], int[], boolean[]),
    consign.complete_payments(uuid, text, uuid[], consign.outbox_attempt_state[], text[], text[], text[], text[], bigint[], interval[], boolean[], boolean),
    consign.hold_outbox_attempt(uuid, uuid, text, text, text, int),
    consign.record_late_payments(uuid, text, uuid[], consign.outbox_attempt_state[], text[], text[], text[], text[], bigint[]),
    consign.record_late_outbox_attempt(uuid, uuid, text, consign.outbox_attempt_state, text, text, text, text, int),
    consign.repair_expired_leases(int, text)
    TO symphony_control, symphony_executor;

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
GRANT SELECT ON consign.payment_erased, consign.payment_undelivered, consign.participant_outbox_sequences TO consign_operator, consign_auditor, symphony_control;
GRANT SELECT ON consign.payment_participant, consign.tenant_login TO consign_operator, consign_auditor;

-- A reader of the table itself sees its tenant's rows, or all of them. The policies do not apply to the owner, as which
-- every function and view runs. PostgreSQL has no clause for this in CREATE TABLE.
ALTER TABLE consign.payment ENABLE ROW LEVEL SECURITY;
CREATE POLICY everything ON consign.payment FOR SELECT TO consign_operator, consign_auditor, symphony_control USING (true);
CREATE POLICY own_tenant ON consign.payment FOR SELECT TO symphony_tenant USING (tenant_id = (SELECT consign.current_tenant_id()));
