-- Who may do what with the logbook. Writing is done by functions only. The gateway answers agents, works the queue of
-- memories and reads what it writes; the engine's producers and workers have nothing here.
SELECT consign.make_role('consign_gateway');
UPDATE consign.queue SET workers = '{consign_gateway}' WHERE name = 'memory';
GRANT USAGE ON SCHEMA consign TO consign_gateway;
GRANT SELECT ON consign.schema_version TO consign_gateway;
GRANT USAGE ON SCHEMA identity, logbook, analysis, governance TO consign_gateway, consign_operator, consign_auditor;

GRANT EXECUTE ON FUNCTION
    governance.get_or_create_settings(text),
    logbook.get_or_create_settings(text)
    TO consign_gateway, consign_operator, consign_auditor;
GRANT EXECUTE ON FUNCTION
    governance.upsert_settings(text, boolean, jsonb, text),
    logbook.upsert_settings(text, boolean, jsonb, text)
    TO consign_operator;
GRANT EXECUTE ON FUNCTION
    governance.insert_write_audit(text, text, text, text, text, jsonb, text, text),
    logbook.insert_write_audit(text, text, text, text, text, jsonb, text, text)
    TO consign_gateway;
GRANT EXECUTE ON FUNCTION
    governance.query_write_audit(timestamptz, int, text, text, text, text, text, text, bigint, timestamptz, bigint, bigint),
    logbook.query_write_audit(timestamptz, int, text, text, text, text, text, text, bigint)
    TO consign_gateway, consign_operator, consign_auditor;

GRANT EXECUTE ON FUNCTION
    governance.update_write_audit(text, text, text, text, jsonb),
    logbook.change_settings(text, boolean, jsonb, boolean, text, jsonb),
    logbook.create_user(text, text),
    logbook.enqueue_memory(text, text, bigint, text, text),
    logbook.put_memory(text, text, jsonb, boolean),
    logbook.open_write(text, text, text, text, text, jsonb, text, jsonb, text, boolean, jsonb),
    logbook.defer_memory(text, text, jsonb, text, text, text, text, jsonb),
    logbook.create_item(text, text, jsonb, text, text, text),
    logbook.add_event(bigint, text, jsonb, text, text, text, text),
    logbook.attach(bigint, text, text, text, bigint, jsonb),
    logbook.keep_evidence(jsonb, jsonb, jsonb),
    logbook.set_kv(text, text, jsonb),
    logbook.delete_memory(text, jsonb),
    logbook.add_candidate(text, text, text, text, text, text, text, text, jsonb, boolean)
    TO consign_gateway;

GRANT EXECUTE ON FUNCTION
    logbook.claim_outbox(text, int, numeric),
    logbook.ack_sent(bigint, text, text),
    logbook.fail_retry(bigint, text, text, timestamptz),
    logbook.mark_dead_by_worker(bigint, text, text),
    logbook.renew_lease(bigint, text),
    logbook.renew_lease_batch(bigint[], text)
    TO consign_gateway;

-- Memories are written by requests and by the worker.
GRANT EXECUTE ON FUNCTION
    logbook.check_dedup(text, text, text),
    logbook.may_be_stored(text, text, text),
    logbook.keep_memory(text, text, text, text, jsonb, jsonb, text),
    logbook.supersede_memory(text, text),
    logbook.kept_memory(text, text),
    logbook.take_write_lock(text, text, interval, interval),
    logbook.renew_write_lock(text, text, interval),
    logbook.release_write_lock(text, text)
    TO consign_gateway;
GRANT EXECUTE ON FUNCTION
    logbook.get_kv(text, text),
    logbook.search_logbook(text, text[], int),
    logbook.search_memory(text, text[], int, text, text, timestamptz, timestamptz),
    logbook.read_memory(text),
    logbook.list_memory(text[], int, text, text, timestamptz, timestamptz, timestamptz, text),
    logbook.memory_spaces(),
    logbook.memory_counts(),
    logbook.outbox_counts()
    TO consign_gateway, consign_operator, consign_auditor;
GRANT EXECUTE ON FUNCTION
    logbook.reconcile_outbox(interval, int, interval, interval, boolean, boolean, interval)
    TO consign_operator;

-- The space that a readable row belongs to.
GRANT EXECUTE ON FUNCTION logbook.item_space(jsonb, text) TO consign_gateway, consign_operator, consign_auditor;

GRANT SELECT ON logbook.outbox_memory TO consign_gateway, consign_operator, consign_auditor;
GRANT SELECT ON identity.users, logbook.items, logbook.events, logbook.attachments, analysis.knowledge_candidates
    TO consign_gateway, consign_operator, consign_auditor;
GRANT SELECT ON identity.accounts, identity.role_profiles, logbook.kv, logbook.memory, logbook.claimed_for, logbook.requeued, logbook.write_lock,
    analysis.runs, governance.settings, governance.write_audit, governance.promotion_queue
    TO consign_operator, consign_auditor;
