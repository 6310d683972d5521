-- Inserts new reviews of merge requests. ?1 JSON array of [iid,
-- source_event_id, event_type, payload_json, ts], the document as text; ?2 repository.
INSERT INTO scm_review_events (mr_id, source_event_id, event_type, payload_json, ts)
SELECT ?2 || ':' || (value ->> 0), value ->> 1, value ->> 2, value ->> 3, value ->> 4
FROM json_each(?1)
WHERE true
ORDER BY key
ON CONFLICT (mr_id, source_event_id) DO NOTHING
