-- Who may do what with repositories. A synchronisation has a role of its own: it writes what it found and
-- its watermarks, and reaches neither the outbox nor settings and audits nor any other value.
SELECT consign.make_role('consign_scm');

GRANT USAGE ON SCHEMA consign TO consign_scm;
GRANT SELECT ON consign.schema_version TO consign_scm;
GRANT USAGE ON SCHEMA scm TO consign_scm, consign_gateway, consign_operator, consign_auditor;

GRANT EXECUTE ON FUNCTION scm.add_repo(text, text, text, text) TO consign_scm, consign_operator;
GRANT EXECUTE ON FUNCTION
    scm.record_commits(bigint, text, jsonb, jsonb, text[], text[], timestamptz[], text[], boolean[], text[], jsonb[]),
    scm.record_revisions(bigint, text, jsonb, jsonb, bigint[], text[], timestamptz[], text[], text[], jsonb[]),
    scm.record_merge_requests(bigint, text, jsonb, jsonb, bigint[], text[], text[], jsonb[], timestamptz[], timestamptz[]),
    scm.record_reviews(bigint, text, jsonb, jsonb, bigint[], text[], text[], jsonb[], timestamptz[]),
    scm.put_patch(bigint, text, text, text, bigint, text, text, text),
    scm.note(bigint, text, jsonb),
    scm.sync_ended(bigint, boolean, text, text)
    TO consign_scm;
GRANT EXECUTE ON FUNCTION scm.consume_ended(bigint, boolean, text, text) TO consign_gateway;
GRANT EXECUTE ON FUNCTION scm.watermark(text), scm.status()
    TO consign_scm, consign_gateway, consign_operator, consign_auditor;
GRANT SELECT ON scm.repos, scm.steps, scm.svn_revisions, scm.git_commits, scm.patch_blobs, scm.mrs, scm.review_events, scm.v_facts
    TO consign_scm, consign_gateway, consign_operator, consign_auditor;
