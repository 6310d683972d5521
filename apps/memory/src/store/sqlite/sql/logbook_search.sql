-- Candidates and events with any of the words, those with more of them first. ?1 JSON array of
-- words, each a query of FTS5, ?2 JSON array of spaces, ?3 at most this many.
WITH candidate_hit AS (
    SELECT candidate_words.rowid AS id, count(*) AS words
    FROM json_each(?1) AS word CROSS JOIN candidate_words WHERE candidate_words MATCH word.value
    GROUP BY candidate_words.rowid
),
event_hit AS (
    SELECT event_words.rowid AS id, count(*) AS words
    FROM json_each(?1) AS word CROSS JOIN event_words WHERE event_words MATCH word.value
    GROUP BY event_words.rowid
)
SELECT 'kc_' || c.candidate_id AS id, c.space, c.content_md AS content, c.title, c.kind,
       c.confidence, c.evidence_refs_json, c.created_at, hit.words, c.candidate_id AS number
FROM candidate_hit AS hit CROSS JOIN knowledge_candidates AS c ON c.candidate_id = hit.id
WHERE c.space IN (SELECT value FROM json_each(?2))
UNION ALL
SELECT 'ev_' || e.event_id, e.space, e.content, i.title, e.event_type,
       NULL, '{}', e.created_at, hit.words, e.event_id
FROM event_hit AS hit CROSS JOIN event_text AS e ON e.event_id = hit.id
CROSS JOIN items AS i ON i.item_id = e.item_id
WHERE e.space IN (SELECT value FROM json_each(?2))
ORDER BY words DESC, created_at DESC, number DESC LIMIT ?3
