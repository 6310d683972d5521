-- Stored memories, newest first. Uses memory_kept_listed for each space. ?1 JSON array of spaces, ?2 at most
-- this many, ?3 kind, ?4 actor, ?5 not older than this, ?6 older than this, ?7 and ?8 time and id of
-- the cursor.
SELECT k.memory_id, k.target_space, k.payload_md, k.kind, k.actor_user_id, k.meta_json, k.evidence,
       k.created_at, NULL AS score, k.supersedes, k.superseded_by
FROM (SELECT DISTINCT value AS space FROM json_each(?1)) AS s CROSS JOIN memory_kept AS k
WHERE k.target_space = s.space AND k.superseded_by IS NULL
  AND (?3 IS NULL OR k.kind = ?3) AND (?4 IS NULL OR k.actor_user_id = ?4)
  AND (?5 IS NULL OR k.created_at >= ?5) AND (?6 IS NULL OR k.created_at < ?6)
  AND (?7 IS NULL OR (k.created_at, k.memory_id) < (?7, ?8))
ORDER BY k.created_at DESC, k.memory_id DESC LIMIT ?2
