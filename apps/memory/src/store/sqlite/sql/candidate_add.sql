-- Keeps a candidate under its run. ?1 source type, ?2 source, ?3 version, ?4 now, ?5 space, ?6 kind,
-- ?7 title, ?8 text, ?9 confidence, ?10 evidence, ?11 promote_suggested, ?12 words.
INSERT INTO knowledge_candidates (run_id, space, kind, title, content_md, confidence,
                                  evidence_refs_json, promote_suggested, created_at, words)
SELECT run_id, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?4, ?12 FROM runs
WHERE source_type = ?1 AND source_id = ?2 AND pipeline_version = ?3
RETURNING candidate_id
