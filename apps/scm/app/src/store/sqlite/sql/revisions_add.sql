-- Inserts new revisions in their order. ?1 JSON array of [rev_num, author, ts, message,
-- bulk_reason, meta_json], the last as text; ?2 repository.
INSERT INTO scm_svn_revisions (repo_id, rev_num, author_raw, ts, message, bulk_reason, meta_json)
SELECT ?2, value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5
FROM json_each(?1)
WHERE true
ORDER BY key
ON CONFLICT (repo_id, rev_num) DO NOTHING
