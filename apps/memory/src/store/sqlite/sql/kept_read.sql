-- A stored memory by id. ?1 memory_id.
SELECT memory_id, target_space, payload_md, kind, actor_user_id, meta_json, evidence, created_at,
       NULL AS score, supersedes, superseded_by
FROM memory_kept WHERE memory_id = ?1
