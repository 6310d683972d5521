-- Stores a memory unless its space has the text. ?1 memory_id, ?2 space, ?3 payload_sha, ?4 text,
-- ?5 kind, ?6 actor, ?7 meta, ?8 evidence, ?9 now, ?10 words, ?11 the version that it replaces.
INSERT INTO memory_kept (memory_id, target_space, payload_sha, payload_md, kind, actor_user_id,
                         meta_json, evidence, created_at, words, supersedes)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
ON CONFLICT (target_space, payload_sha) WHERE superseded_by IS NULL DO NOTHING
