-- Stored memories with any of the words, those with more of them first. ?1 JSON array of words, each a
-- query of FTS5, ?2 JSON array of spaces, ?3 at most this many, ?4 kind, ?5 actor, ?6 not older than
-- this, ?7 older than this.
WITH hit AS (
    SELECT kept_words.rowid AS kept_id, count(*) AS words
    FROM json_each(?1) AS word CROSS JOIN kept_words WHERE kept_words MATCH word.value
    GROUP BY kept_words.rowid
)
SELECT k.memory_id, k.target_space, k.payload_md, k.kind, k.actor_user_id, k.meta_json, k.evidence,
       k.created_at, CAST(hit.words AS REAL) AS score, k.supersedes, k.superseded_by
FROM hit CROSS JOIN memory_kept AS k ON k.kept_id = hit.kept_id
WHERE k.target_space IN (SELECT value FROM json_each(?2)) AND k.superseded_by IS NULL
  AND (?4 IS NULL OR k.kind = ?4) AND (?5 IS NULL OR k.actor_user_id = ?5)
  AND (?6 IS NULL OR k.created_at >= ?6) AND (?7 IS NULL OR k.created_at < ?7)
ORDER BY hit.words DESC, k.created_at DESC, k.kept_id DESC LIMIT ?3
